#include "run/attempts.h"

#include <stdlib.h>

#include "run/room.h"

static void drop_figures(struct lp_run_attempt *attempt)
{
    for (size_t i = 0; i < attempt->n_roles; i++) {
        lp_run_tree_release(&attempt->roles[i]->tree);
        lp_text_release(&attempt->roles[i]->name);
        free(attempt->roles[i]);
    }
    for (size_t i = 0; i < attempt->workers_kept; i++)
        lp_run_worker_release(&attempt->workers[i]);
    free(attempt->roles);
    free(attempt->workers);
    attempt->roles = NULL;
    attempt->workers = NULL;
    attempt->n_roles = attempt->roles_room = attempt->workers_kept = attempt->workers_room = 0;
}

void lp_run_attempts_release(struct lp_run_attempts *attempts)
{
    for (size_t i = 0; i < attempts->n_attempts; i++) {
        drop_figures(attempts->attempts[i]);
        lp_text_release(&attempts->attempts[i]->run_id);
        free(attempts->attempts[i]);
    }
    free(attempts->attempts);
    lp_run_table_release(&attempts->table);
    lp_run_fold_release(&attempts->fold);
    *attempts = (struct lp_run_attempts){0};
}

/* Newest first; of two that began in the same nanosecond, the one whose id is greater. */
int lp_run_attempt_order(const void *a, const void *b)
{
    const struct lp_run_attempt *left = *(const struct lp_run_attempt *const *)a;
    const struct lp_run_attempt *right = *(const struct lp_run_attempt *const *)b;
    if (left->first_started_ns != right->first_started_ns)
        return left->first_started_ns > right->first_started_ns ? -1 : 1;
    return lp_text_compare(lp_text_span(&right->run_id), lp_text_span(&left->run_id));
}

struct lp_run_attempt *lp_run_attempts_newest(const struct lp_run_attempts *attempts)
{
    struct lp_run_attempt *newest = NULL;
    for (size_t i = 0; i < attempts->n_attempts; i++)
        if (!newest || lp_run_attempt_order(&attempts->attempts[i], &newest) < 0)
            newest = attempts->attempts[i];
    return newest;
}

static struct lp_run_attempt *new_attempt(struct lp_run_attempts *attempts, struct lp_span run_id)
{
    if (lp_run_room(&attempts->attempts, &attempts->room, attempts->n_attempts, sizeof(struct lp_run_attempt *)) < 0)
        return NULL;
    struct lp_run_attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return NULL;
    attempt->first_started_ns = UINT64_MAX;
    attempts->attempts[attempts->n_attempts++] = attempt;
    if (lp_text_copy(&attempt->run_id, run_id) < 0 ||
        lp_run_table_add(&attempts->table, attempts, lp_text_span(&attempt->run_id), attempt) < 0)
        return NULL;
    attempts->kept[attempts->n_kept++] = attempt;
    return attempt;
}

/* A role's name stays in the table when its attempt is dropped, but is looked up no more. */
static void drop_oldest(struct lp_run_attempts *attempts)
{
    size_t oldest = 0;
    for (size_t i = 1; i < attempts->n_kept; i++)
        if (lp_run_attempt_order(&attempts->kept[i], &attempts->kept[oldest]) > 0)
            oldest = i;
    struct lp_run_attempt *attempt = attempts->kept[oldest];
    attempt->dropped = true;
    drop_figures(attempt);
    attempts->kept[oldest] = attempts->kept[--attempts->n_kept];
}

static struct lp_run_role_tree *find_role(struct lp_run_attempts *attempts, struct lp_run_attempt *attempt,
                                          struct lp_span name)
{
    struct lp_run_role_tree *role = lp_run_table_find(&attempts->table, attempt, name);
    if (role)
        return role;
    if (lp_run_room(&attempt->roles, &attempt->roles_room, attempt->n_roles, sizeof(struct lp_run_role_tree *)) < 0)
        return NULL;
    role = calloc(1, sizeof *role);
    if (!role)
        return NULL;
    attempt->roles[attempt->n_roles++] = role;
    if (lp_text_copy(&role->name, name) < 0 || lp_run_tree_init(&role->tree) < 0 ||
        lp_run_table_add(&attempts->table, attempt, lp_text_span(&role->name), role) < 0)
        return NULL;
    return role;
}

static int keep_worker(struct lp_run_attempt *attempt, const struct lp_run_document *document, const char *path,
                       enum lp_run_source source)
{
    if (lp_run_room(&attempt->workers, &attempt->workers_room, attempt->workers_kept, sizeof *attempt->workers) < 0)
        return -1;
    return lp_run_fold_worker(&attempt->workers[attempt->workers_kept++], document, path, source);
}

static void note_worker(struct lp_run_attempt *attempt, const struct lp_run_document *document)
{
    attempt->n_workers++;
    attempt->n_generated += document->run_id_generated;
    if (document->started.realtime_ns < attempt->first_started_ns)
        attempt->first_started_ns = document->started.realtime_ns;
    if (document->written.realtime_ns > attempt->last_written_ns)
        attempt->last_written_ns = document->written.realtime_ns;
}

int lp_run_attempts_add(struct lp_run_attempts *attempts, const struct lp_run_document *document, const char *path,
                        enum lp_run_source source)
{
    struct lp_run_attempt *attempt = lp_run_table_find(&attempts->table, attempts, document->run_id);
    if (!attempt)
        attempt = new_attempt(attempts, document->run_id);
    if (!attempt)
        return -1;
    note_worker(attempt, document);
    if (attempts->n_kept > LP_RUN_ATTEMPTS_KEPT)
        drop_oldest(attempts);
    if (attempt->dropped)
        return 0;
    struct lp_run_role_tree *role = find_role(attempts, attempt, document->role);
    if (!role || keep_worker(attempt, document, path, source) < 0)
        return -1;
    return lp_run_fold_figures(&attempts->fold, &role->tree, document, ++attempts->n_folded);
}

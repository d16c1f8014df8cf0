#include "run/attempts.h"

#include <stdlib.h>
#include <string.h>

#include "run/line.h"
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
    lp_run_known_release(&attempt->known);
    lp_run_ranks_release(&attempt->ranks);
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
        lp_text_release(&attempts->attempts[i]->job);
        free(attempts->attempts[i]);
    }
    free(attempts->attempts);
    lp_run_boots_release(&attempts->boots);
    lp_run_table_release(&attempts->table);
    lp_run_fold_release(&attempts->fold);
    *attempts = (struct lp_run_attempts){0};
}

/* Newest first; of two that began in the same nanosecond, the one whose id is greater. */
static int by_age(const void *a, const void *b)
{
    const struct lp_run_attempt *left = *(const struct lp_run_attempt *const *)a;
    const struct lp_run_attempt *right = *(const struct lp_run_attempt *const *)b;
    if (left->began_ns != right->began_ns)
        return left->began_ns > right->began_ns ? -1 : 1;
    return lp_text_compare(lp_text_span(&right->run_id), lp_text_span(&left->run_id));
}

static void settle(const struct lp_run_attempts *attempts, struct lp_run_attempt *const *which, size_t n)
{
    for (size_t i = 0; i < n; i++)
        which[i]->began_ns = lp_run_boots_time(&attempts->boots, which[i]->first_boot, &which[i]->first);
}

void lp_run_attempts_sort(const struct lp_run_attempts *attempts)
{
    settle(attempts, attempts->attempts, attempts->n_attempts);
    if (attempts->n_attempts)
        qsort(attempts->attempts, attempts->n_attempts, sizeof(struct lp_run_attempt *), by_age);
}

struct lp_run_attempt *lp_run_attempts_chosen(const struct lp_run_attempts *attempts)
{
    struct lp_run_attempt *chosen = NULL;
    settle(attempts, attempts->attempts, attempts->n_attempts);
    for (size_t i = 0; i < attempts->n_attempts; i++) {
        struct lp_run_attempt *attempt = attempts->attempts[i];
        bool may_be = !attempts->run_id || attempt->chosen;
        if (may_be && (!chosen || by_age(&attempt, &chosen) < 0))
            chosen = attempt;
    }
    return chosen;
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
    int chosen = attempts->run_id ? lp_run_filter_matches(attempts->run_id, run_id) : 0;
    if (chosen < 0)
        return NULL;
    attempt->chosen = chosen;
    attempt->dropped = attempts->run_id && !chosen;
    if (!attempt->dropped)
        attempts->kept[attempts->n_kept++] = attempt;
    return attempt;
}

/* A role's name stays in the table when its attempt is dropped, but is looked up no more. */
static void drop_oldest(struct lp_run_attempts *attempts)
{
    size_t oldest = 0;
    settle(attempts, attempts->kept, attempts->n_kept);
    for (size_t i = 1; i < attempts->n_kept; i++)
        if (by_age(&attempts->kept[i], &attempts->kept[oldest]) > 0)
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

/* Whatever the order of files, the same worker is the first. */
static bool is_earlier(const struct lp_run_stamp *stamp, const struct lp_run_stamp *than)
{
    if (stamp->realtime_ns != than->realtime_ns)
        return stamp->realtime_ns < than->realtime_ns;
    return stamp->boottime_ns < than->boottime_ns;
}

/* The first worker's job, until there is one of another. */
static int note_job(struct lp_run_attempt *attempt, const struct lp_run_document *document)
{
    struct lp_run_line line = {0};
    if (attempt->n_workers > 0 && !attempt->job.bytes)
        return 0;
    if (document->job_system.bytes) {
        lp_run_line_text(&line, document->job_system);
        lp_run_line_add(&line, " job ");
        lp_run_line_text(&line, document->job_id);
    }
    char *text = lp_run_line_take(&line);
    if (!text)
        return -1;
    struct lp_text job = {text, strlen(text)};
    if (attempt->n_workers == 0 && job.len > 0) {
        attempt->job = job;
        return 0;
    }
    if (!lp_text_equal(lp_text_span(&job), lp_text_span(&attempt->job)))
        lp_text_release(&attempt->job);
    lp_text_release(&job);
    return 0;
}

static int note_worker(struct lp_run_attempts *attempts, struct lp_run_attempt *attempt,
                       const struct lp_run_document *document)
{
    size_t boot;
    if (lp_run_boots_note(&attempts->boots, document->boot_id, document->time_namespace, &document->written, &boot) < 0)
        return -1;
    if (attempt->n_workers == 0 || is_earlier(&document->started, &attempt->first)) {
        attempt->first = document->started;
        attempt->first_boot = boot;
    }
    if (attempt->n_workers == 0)
        attempt->extent_boot = boot;
    lp_run_extent_add(&attempt->extent, &document->started, &document->written,
                      document->boot_id.len > 0 && boot == attempt->extent_boot);
    if (note_job(attempt, document) < 0)
        return -1;
    attempt->n_workers++;
    bool own_id = document->run_id_generated || document->run_id_of_launch;
    if (own_id && document->written.realtime_ns > attempt->own_id_until_ns)
        attempt->own_id_until_ns = document->written.realtime_ns;
    if (document->started.realtime_ns < attempt->first_started_ns)
        attempt->first_started_ns = document->started.realtime_ns;
    if (document->written.realtime_ns > attempt->last_written_ns)
        attempt->last_written_ns = document->written.realtime_ns;
    return 0;
}

int lp_run_attempts_add(struct lp_run_attempts *attempts, const struct lp_run_document *document, const char *path,
                        enum lp_run_source source)
{
    struct lp_run_attempt *attempt = lp_run_table_find(&attempts->table, attempts, document->run_id);
    if (!attempt)
        attempt = new_attempt(attempts, document->run_id);
    if (!attempt)
        return -1;
    if (note_worker(attempts, attempt, document) < 0)
        return -1;
    if (attempts->n_kept > LP_RUN_ATTEMPTS_KEPT)
        drop_oldest(attempts);
    if (attempt->dropped)
        return 0;
    if (attempts->filter && lp_run_known_note(&attempt->known, document) < 0)
        return -1;
    if (lp_run_ranks_note(&attempt->ranks, document) < 0)
        return -1;
    int taken = lp_run_filter_takes(attempts->filter, document);
    if (taken <= 0)
        return taken;
    struct lp_run_role_tree *role = find_role(attempts, attempt, document->role);
    if (!role || keep_worker(attempt, document, path, source) < 0)
        return -1;
    if (lp_run_fold_figures(&attempts->fold, &role->tree, document, ++attempts->n_folded) < 0)
        return -1;
    struct lp_run_worker *worker = &attempt->workers[attempt->workers_kept - 1];
    return lp_run_fold_ids(&attempts->fold, worker) < 0 ? -1 : lp_run_fold_paces(&attempts->fold, worker);
}

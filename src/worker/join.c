#include "worker/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the environment says; NULL or an empty text: nothing. */
struct variables {
    const char *profile, *run_dir, *run_id, *exported;
};

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static struct variables read_variables(void)
{
    return (struct variables){
        .profile = getenv("LINEPROFILER_PROFILE"), /* also empty it says something */
        .run_dir = text_or_null(getenv("LINEPROFILER_RUN_DIR")),
        .run_id = text_or_null(getenv("LINEPROFILER_RUN_ID")),
        .exported = text_or_null(getenv("LINEPROFILER_EXPORTED")),
    };
}

/* The rest of text behind part; NULL if it does not begin so. */
static const char *behind(const char *text, const char *part)
{
    size_t len = strlen(part);
    return text && strncmp(text, part, len) == 0 ? text + len : NULL;
}

/* Whether they say what was signed: "<worker>:<run id>:<run dir>". A worker's name has no colon. */
static bool are_signed(const struct variables *variables)
{
    const char *rest = variables->exported ? strchr(variables->exported, ':') : NULL;
    if (!rest || !variables->run_id || !variables->run_dir)
        return false;
    rest = behind(behind(rest + 1, variables->run_id), ":");
    return rest && strcmp(rest, variables->run_dir) == 0;
}

/* They are no longer what the ancestor would hand to a child: see the header. */
static bool are_stale(const struct variables *variables, const struct lp_ancestor *ancestor)
{
    char pid[32];
    const char *signer = variables->exported;
    size_t len = (size_t)(strchr(signer, ':') - signer), tail = 8; /* w_<run>_<pid>_<uuid8> */
    size_t n = (size_t)snprintf(pid, sizeof pid, "_%llu_", (unsigned long long)ancestor->pid);
    bool of_ancestor = len >= n + tail && memcmp(signer + len - tail - n, pid, n) == 0;
    return of_ancestor && lp_process_began_ns() > ancestor->opened_boottime_ns;
}

static bool signer_is_open(const struct variables *variables)
{
    return lp_ancestor_has_image(variables->exported, (size_t)(strchr(variables->exported, ':') - variables->exported));
}

/* Whether what the program and the environment say leaves nothing to ask the ancestors. */
static bool is_complete(const struct lp_join *join, const struct variables *variables)
{
    return (join->run_id || variables->run_id) && (join->run_dir || (variables->run_dir && variables->profile));
}

/* The run id of an ancestor's run in the chosen directory. */
static const char *id_in_run_dir(struct lp_join *join)
{
    if (!join->in_run || !join->run_dir)
        return NULL;
    if (join->run_dir == join->ancestor.run_dir || lp_ancestor_find(&join->ancestor, join->run_dir))
        return join->ancestor.run_id;
    return NULL;
}

void lp_join_choose(struct lp_join *join, const char *run_dir, const char *run_id)
{
    struct variables variables = read_variables();
    *join = (struct lp_join){.run_dir = text_or_null(run_dir), .run_id = text_or_null(run_id)};
    join->run_id_given = join->run_id != NULL;
    if (join->run_dir && join->run_id)
        return;
    bool may_be_stale = are_signed(&variables) && !signer_is_open(&variables);
    if (may_be_stale || !is_complete(join, &variables))
        join->in_run = lp_ancestor_find(&join->ancestor, NULL);
    if (may_be_stale && join->in_run && are_stale(&variables, &join->ancestor)) {
        variables.run_dir = join->ancestor.run_dir;
        variables.run_id = join->ancestor.run_id;
    }
    if (!join->run_dir)
        join->run_dir = variables.run_dir ? variables.run_dir : join->in_run ? join->ancestor.run_dir : NULL;
    if (!join->run_id)
        join->run_id = variables.run_id ? variables.run_id : id_in_run_dir(join);
}

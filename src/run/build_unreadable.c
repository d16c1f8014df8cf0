#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "run/build.h"

#define UUID_DIGITS 8

/* The <run> of ".../w_<run>_<pid>_<uuid8>.json", or .img; NULL if the name is none of ours. */
static struct lp_span run_of_path(const char *path)
{
    static const struct lp_span none = {NULL, 0};
    const char *slash = strrchr(path, '/');
    const char *first = slash ? slash + 1 : path;
    const char *end = strrchr(first, '.');
    if (!end || (strcmp(end, ".json") != 0 && strcmp(end, ".img") != 0) || end - first < 2 + UUID_DIGITS ||
        memcmp(first, "w_", 2) != 0)
        return none;
    first += 2;
    for (int i = 0; i < UUID_DIGITS; i++)
        if (!isxdigit((unsigned char)*--end))
            return none;
    if (end <= first || *--end != '_')
        return none;
    const char *pid_end = end;
    while (end > first && isdigit((unsigned char)end[-1]))
        end--;
    if (end == pid_end || end <= first || *--end != '_')
        return none;
    return (struct lp_span){first, (size_t)(end - first)};
}

static bool stays_in_file_name(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || c == '_' || c == '-' || (c == '.' && !first);
}

/* Whether a file name that says `run` is one of this run id; docs/format.md has the rule. */
static bool is_run_in_name(struct lp_span run, const struct lp_text *run_id)
{
    if (!run.bytes || run.len != run_id->len)
        return false;
    for (size_t i = 0; i < run.len; i++) {
        char c = run_id->bytes[i];
        if (run.bytes[i] != (stays_in_file_name(c, i == 0) ? c : '_'))
            return false;
    }
    return true;
}

static struct lp_run_superseded *attempt_of(struct lp_run *run, const char *path)
{
    struct lp_span name = run_of_path(path);
    if (is_run_in_name(name, &run->run_id))
        return NULL;
    for (size_t i = 0; i < run->n_superseded; i++)
        if (is_run_in_name(name, &run->superseded[i].run_id))
            return &run->superseded[i];
    return NULL;
}

static int by_path(const void *a, const void *b)
{
    const struct lp_run_unreadable *left = a, *right = b;
    return strcmp(left->path, right->path);
}

int lp_run_build_unreadable(struct lp_run *run, struct lp_run_gather *gather)
{
    if (!gather->n_unreadable)
        return 0;
    run->unreadable = calloc(gather->n_unreadable, sizeof *run->unreadable);
    if (!run->unreadable)
        return -1;
    for (size_t i = 0; i < gather->n_unreadable; i++) {
        struct lp_run_superseded *superseded = attempt_of(run, gather->unreadable[i].path);
        if (superseded) {
            superseded->n_unreadable++;
            continue;
        }
        run->unreadable[run->n_unreadable++] = gather->unreadable[i];
        gather->unreadable[i] = (struct lp_run_unreadable){NULL, NULL};
    }
    if (run->n_unreadable)
        qsort(run->unreadable, run->n_unreadable, sizeof *run->unreadable, by_path);
    return 0;
}

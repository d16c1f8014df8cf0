#include "run/filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "run/nearest.h"
#include "run/room.h"

#define NAMED 8 /* Names and ranges of a message; the others are counted. */
#define NEAREST 3

static struct lp_span span_of(const char *text)
{
    return (struct lp_span){text, strlen(text)};
}

/* ---- ranks ----------------------------------------------------------------------------------------------------------- */

struct range {
    int64_t first, last;
};

/* A whole number at *at, which moves behind it. */
static bool read_number(const char **at, int64_t *number)
{
    char *end;
    if (**at < '0' || **at > '9') /* strtoll would take blanks and signs */
        return false;
    errno = 0;
    *number = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* "3" or "0-7" at *at, which moves behind it and behind a comma. */
static bool read_range(const char **at, struct range *range)
{
    if (!read_number(at, &range->first))
        return false;
    range->last = range->first;
    if (**at == '-') {
        ++*at;
        if (!read_number(at, &range->last) || range->last < range->first)
            return false;
    }
    if (**at == ',')
        return *++*at != '\0';
    return **at == '\0';
}

static bool is_ranks(const char *text)
{
    struct range range;
    do {
        if (!read_range(&text, &range))
            return false;
    } while (*text);
    return true;
}

static bool has_rank(const char *text, int64_t rank)
{
    struct range range;
    while (*text && read_range(&text, &range))
        if (range.first <= rank && rank <= range.last)
            return true;
    return false;
}

int lp_run_filter_check(const struct lp_run_filter *filter, struct lp_run_line *message)
{
    for (size_t i = 0; i < filter->n_ranks; i++) {
        if (is_ranks(filter->ranks[i]))
            continue;
        lp_run_line_add(message, "no ranks '");
        lp_run_line_name(message, span_of(filter->ranks[i]));
        lp_run_line_add(message, "': give them as 3, 0-7 or 0-3,8");
        return -1;
    }
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

/* As it is shown; NULL without memory. To be freed. */
static char *shown(struct lp_span name)
{
    struct lp_run_line line = {0};
    lp_run_line_text(&line, name);
    return lp_run_line_take(&line);
}

/* 1, 0, or -1 without memory; so the next two. */
int lp_run_filter_matches(const char *wanted, struct lp_span name)
{
    if (lp_text_equal(span_of(wanted), name))
        return 1;
    char *text = shown(name);
    int match = !text ? -1 : strcmp(wanted, text) == 0 || fnmatch(wanted, text, 0) == 0;
    free(text);
    return match;
}

static int any_matches(const char *const *wanted, size_t n, struct lp_span name)
{
    int match = n == 0;
    for (size_t i = 0; i < n && match == 0; i++)
        match = lp_run_filter_matches(wanted[i], name);
    return match;
}

int lp_run_filter_takes(const struct lp_run_filter *filter, const struct lp_run_document *document)
{
    if (!filter)
        return 1;
    bool rank = filter->n_ranks == 0;
    for (size_t i = 0; i < filter->n_ranks && !rank; i++)
        rank = document->rank >= 0 && has_rank(filter->ranks[i], document->rank);
    int role = rank ? any_matches(filter->roles, filter->n_roles, document->role) : 0;
    return role == 1 ? any_matches(filter->hosts, filter->n_hosts, document->host) : role;
}

/* ---- what there is --------------------------------------------------------------------------------------------------- */

static void release_names(struct lp_text *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lp_text_release(&names[i]);
    free(names);
}

void lp_run_known_release(struct lp_run_known *known)
{
    release_names(known->roles, known->n_roles);
    release_names(known->hosts, known->n_hosts);
    free(known->ranks);
    lp_run_table_release(&known->table);
    *known = (struct lp_run_known){0};
}

/* owner is where the array's pointer stands: the array itself moves as it grows. */
static int note_name(struct lp_run_known *known, struct lp_text **names, size_t *n, size_t *room, struct lp_span name)
{
    if (lp_run_table_find(&known->table, names, name))
        return 0;
    if (lp_run_room(names, room, *n, sizeof **names) < 0 || lp_text_copy(&(*names)[*n], name) < 0)
        return -1;
    const struct lp_text *copy = &(*names)[(*n)++];
    return lp_run_table_add(&known->table, names, lp_text_span(copy), copy->bytes);
}

int lp_run_known_note(struct lp_run_known *known, const struct lp_run_document *document)
{
    if (note_name(known, &known->roles, &known->n_roles, &known->roles_room, document->role) < 0 ||
        note_name(known, &known->hosts, &known->n_hosts, &known->hosts_room, document->host) < 0)
        return -1;
    if (document->rank < 0)
        return 0;
    if (lp_run_room(&known->ranks, &known->ranks_room, known->n_ranks, sizeof *known->ranks) < 0)
        return -1;
    known->ranks[known->n_ranks++] = document->rank;
    return 0;
}

/* ---- what is not there ----------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return lp_text_compare(lp_text_span(a), lp_text_span(b));
}

static int by_number(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void add_quoted(struct lp_run_line *line, struct lp_span name)
{
    lp_run_line_add(line, "'");
    lp_run_line_name(line, name);
    lp_run_line_add(line, "'");
}

/* How far the wanted word is from a name as it is shown; SIZE_MAX: not near. */
static size_t far_from(const char *wanted, const struct lp_text *name)
{
    char *text = shown(lp_text_span(name));
    size_t far = text ? lp_run_distance(wanted, text) : SIZE_MAX;
    free(text);
    return far;
}

/* "did you mean 'actor' or 'actors'?": the nearest, in alphabetical order; false if none is near. */
static bool add_nearest(struct lp_run_line *line, const char *wanted, const struct lp_text *names, size_t n)
{
    size_t best = SIZE_MAX, n_best = 0;
    for (size_t i = 0; i < n; i++) {
        size_t far = far_from(wanted, &names[i]);
        n_best = far < best ? 1 : n_best + (far == best);
        best = far < best ? far : best;
    }
    if (best == SIZE_MAX)
        return false;
    size_t shown_now = 0, most = n_best < NEAREST ? n_best : NEAREST;
    lp_run_line_add(line, "; did you mean ");
    for (size_t i = 0; i < n && shown_now < most; i++) {
        if (far_from(wanted, &names[i]) != best)
            continue;
        lp_run_line_add(line, shown_now == 0 ? "" : shown_now + 1 == most ? " or " : ", ");
        add_quoted(line, lp_text_span(&names[i]));
        shown_now++;
    }
    lp_run_line_add(line, "?");
    return true;
}

/* "; there are 'actor', 'learner' and 3 more" */
static void add_names(struct lp_run_line *line, const struct lp_text *names, size_t n)
{
    size_t most = n < NAMED ? n : NAMED;
    lp_run_line_add(line, n == 1 ? "; there is " : "; there are ");
    for (size_t i = 0; i < most; i++) {
        lp_run_line_add(line, i == 0 ? "" : i + 1 == n ? " and " : ", ");
        add_quoted(line, lp_text_span(&names[i]));
    }
    if (n > most)
        lp_run_line_add(line, " and %zu more", n - most);
}

void lp_run_filter_explain_name(const char *what, const char *wanted, struct lp_text *names, size_t n,
                                struct lp_run_line *line)
{
    if (n)
        qsort(names, n, sizeof *names, by_name);
    lp_run_line_add(line, "%s ", what);
    add_quoted(line, span_of(wanted));
    if (!add_nearest(line, wanted, names, n))
        add_names(line, names, n);
}

static int explain_names(const char *what, const char *const *wanted, size_t n_wanted, struct lp_text *names, size_t n,
                         struct lp_run_line *line)
{
    for (size_t i = 0; i < n_wanted; i++) {
        int found = 0;
        for (size_t k = 0; k < n && found == 0; k++)
            found = lp_run_filter_matches(wanted[i], lp_text_span(&names[k]));
        if (found == 1)
            continue;
        line->failed |= found < 0;
        lp_run_filter_explain_name(what, wanted[i], names, n, line);
        return -1;
    }
    return 0;
}

/* "; there are ranks 0-7, 9": numbers that follow one another, together. */
static void add_ranks(struct lp_run_line *line, struct lp_run_known *known)
{
    size_t n = 0, more = 0;
    if (!known->n_ranks) {
        lp_run_line_add(line, "; no process has a rank: no launcher gave one");
        return;
    }
    qsort(known->ranks, known->n_ranks, sizeof *known->ranks, by_number);
    lp_run_line_add(line, "; there are ranks ");
    for (size_t i = 0, k; i < known->n_ranks; i = k) {
        for (k = i + 1; k < known->n_ranks && known->ranks[k] <= known->ranks[k - 1] + 1; k++)
            ;
        if (n == NAMED) {
            more++;
            continue;
        }
        lp_run_line_add(line, "%s%lld", n++ ? ", " : "", (long long)known->ranks[i]);
        if (known->ranks[k - 1] > known->ranks[i])
            lp_run_line_add(line, "-%lld", (long long)known->ranks[k - 1]);
    }
    if (more)
        lp_run_line_add(line, " and more up to %lld", (long long)known->ranks[known->n_ranks - 1]);
}

static int explain_ranks(const struct lp_run_filter *filter, struct lp_run_known *known, struct lp_run_line *line)
{
    for (size_t i = 0; i < filter->n_ranks; i++) {
        bool found = false;
        for (size_t k = 0; k < known->n_ranks && !found; k++)
            found = has_rank(filter->ranks[i], known->ranks[k]);
        if (found)
            continue;
        lp_run_line_add(line, "no process of rank ");
        add_quoted(line, span_of(filter->ranks[i]));
        add_ranks(line, known);
        return -1;
    }
    return 0;
}

int lp_run_filter_explain(const struct lp_run_filter *filter, struct lp_run_known *known, struct lp_run_line *message)
{
    if (explain_names("no role", filter->roles, filter->n_roles, known->roles, known->n_roles, message) < 0 ||
        explain_names("no host", filter->hosts, filter->n_hosts, known->hosts, known->n_hosts, message) < 0)
        return -1;
    return explain_ranks(filter, known, message);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------- */

static int copy_list(const char ***to, size_t *n_to, const char *const *from, size_t n)
{
    if (!n)
        return 0;
    *to = calloc(n, sizeof(const char *));
    if (!*to)
        return -1;
    for (size_t i = 0; i < n; i++) {
        (*to)[i] = strdup(from[i]);
        if (!(*to)[i])
            return -1;
        *n_to = i + 1;
    }
    return 0;
}

int lp_run_filter_copy(struct lp_run_filter *to, const struct lp_run_filter *from)
{
    *to = (struct lp_run_filter){0};
    if (copy_list(&to->roles, &to->n_roles, from->roles, from->n_roles) < 0 ||
        copy_list(&to->hosts, &to->n_hosts, from->hosts, from->n_hosts) < 0)
        return -1;
    return copy_list(&to->ranks, &to->n_ranks, from->ranks, from->n_ranks);
}

static void release_list(const char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)(uintptr_t)list[i]);
    free((void *)list);
}

void lp_run_filter_release(struct lp_run_filter *filter)
{
    release_list(filter->roles, filter->n_roles);
    release_list(filter->hosts, filter->n_hosts);
    release_list(filter->ranks, filter->n_ranks);
    *filter = (struct lp_run_filter){0};
}

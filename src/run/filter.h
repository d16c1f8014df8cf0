/*
 * filter: which workers of a run are read, and what to say where a filter names what is not there.
 *
 * A role or host is meant by its name, or by a glob (fnmatch(3), without special treatment of '/' or '.') over the name
 * as people see it, in which what would not print is U+FFFD. Ranks are whole numbers: "3", "0-7", "0-3,8". Of several
 * values of one kind any may match; of several kinds all must.
 *
 * A value that matches no worker of the attempt is a mistake, and said with the names that come near, so that a slip of
 * the finger never looks like an idle role. For that the attempt notes what there is (struct lp_run_known), 8 bytes a worker and a copy of each
 * distinct name, and only where there is a filter.
 *
 * Must not know: where the values come from.
 */
#ifndef LP_RUN_FILTER_H
#define LP_RUN_FILTER_H

#include "run/document.h"
#include "run/line.h"
#include "run/table.h"

/* The distinct roles and hosts of some workers, and their ranks. Zeroed before its first use. */
struct lp_run_known {
    struct lp_text *roles, *hosts; /* Owned. */
    size_t n_roles, roles_room, n_hosts, hosts_room;
    int64_t *ranks; /* Owned; as they came. */
    size_t n_ranks, ranks_room;
    struct lp_run_table table;
};

void lp_run_known_release(struct lp_run_known *known);
/* 0, or -1 without memory. */
int lp_run_known_note(struct lp_run_known *known, const struct lp_run_document *document);

/* Whether the filter's ranks are ranks. 0, or -1 after a message. */
int lp_run_filter_check(const struct lp_run_filter *filter, struct lp_run_line *message);
/* 1 if the worker is to be read, 0 if not, -1 without memory; filter may be NULL. */
int lp_run_filter_takes(const struct lp_run_filter *filter, const struct lp_run_document *document);
/* Whether the name is the one that is wanted, or of that glob: 1, 0, or -1 without memory. */
int lp_run_filter_matches(const char *wanted, struct lp_span name);
/* Says "no run 'x'" and which names come near, or all that there are; sorts these. what: "no run". */
void lp_run_filter_explain_name(const char *what, const char *wanted, struct lp_text *names, size_t n,
                                struct lp_run_line *message);
/* Whether each of the filter's values matches something. 0, or -1 after a message, without the directory's name. */
int lp_run_filter_explain(const struct lp_run_filter *filter, struct lp_run_known *known, struct lp_run_line *message);

/* Copies texts and all. 0, or -1 without memory; *to is to be released in both cases. */
int lp_run_filter_copy(struct lp_run_filter *to, const struct lp_run_filter *from);
void lp_run_filter_release(struct lp_run_filter *filter);

#endif

/*
 * report/where_parts: what the two halves of the text of `where` share: where_text.c, the stacks of workers that live,
 * and where_others.c, all other workers.
 *
 * Must not know: the groups of stacks.
 */
#ifndef LP_REPORT_WHERE_PARTS_H
#define LP_REPORT_WHERE_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "report/page.h"
#include "run/where.h"

#define LP_WHERE_NAME_COLUMNS 26

/* A path, its tail if it takes more columns; a name without any bytes says so. */
void lp_where_label(struct lp_report_page *page, const char *bytes, size_t len, size_t columns);
/* A role or host: head and tail, in LP_WHERE_NAME_COLUMNS. */
void lp_where_name(struct lp_report_page *page, const char *bytes, size_t len);
/* What stands between two pieces of a line. */
void lp_where_part(struct lp_report_page *page);

/* Those that ended, those that are elsewhere, and how many closed; bounded: no more of each than a terminal has room for. */
void lp_where_others(struct lp_report_page *page, const struct lp_where *where, bool bounded);

#endif

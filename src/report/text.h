/*
 * report/text.h: what the sections of the text report share. One section, one file; text.c gives
 * their order.
 *
 * Columns of a table follow one rule: names first, then figures that end at fixed columns counted
 * from the right end of the page, so that a wider page gives its room to the names. A line that
 * explains figures is dim and stands under them, always, not only in the documentation.
 */
#ifndef LP_REPORT_TEXT_H
#define LP_REPORT_TEXT_H

#include "analysis/analysis.h"
#include "report/page.h"

/* Sections of the run. */
void lp_report_text_header(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_resources(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_legend(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_backends(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_caveats(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_io(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_gpu(struct lp_report_page *page, const struct lp_analysis *analysis);
void lp_report_text_memory(struct lp_report_page *page, const struct lp_analysis *analysis);

/* Sections of a role. */
void lp_report_text_shares(struct lp_report_page *page, const struct lp_analysis *analysis,
                           const struct lp_analysis_role *role);
void lp_report_text_dominant(struct lp_report_page *page, const struct lp_analysis *analysis,
                             const struct lp_analysis_role *role);
void lp_report_text_iterations(struct lp_report_page *page, const struct lp_analysis *analysis,
                               const struct lp_analysis_role *role);
void lp_report_text_slow(struct lp_report_page *page, const struct lp_analysis *analysis,
                         const struct lp_analysis_role *role);
void lp_report_text_io_by_phase(struct lp_report_page *page, const struct lp_analysis *analysis,
                                const struct lp_analysis_role *role);
void lp_report_text_gpu_by_phase(struct lp_report_page *page, const struct lp_analysis *analysis,
                                 const struct lp_analysis_role *role);

/* Parts. */

/* A column counted on a page of LP_REPORT_WIDTH, moved by what this page has more or less. */
size_t lp_report_text_at(const struct lp_report_page *page, size_t column);
/* The path of a phase, names joined by '/', in at most `columns`, which then count as taken. */
void lp_report_text_path(struct lp_report_page *page, const struct lp_analysis_role *role, size_t phase,
                         size_t columns);
void lp_report_text_phase(struct lp_report_page *page, const struct lp_run_phase *phase, size_t columns);
/* The page that these options ask for, within its limits; options may be NULL. */
struct lp_report_options;
size_t lp_report_text_width(const struct lp_report_options *options);
/* A note: words, dim, indented, wrapped; lp_report_text_note_end ends it. */
void lp_report_text_note_begin(struct lp_report_page *page);
void lp_report_text_note(struct lp_report_page *page, const char *text);
void lp_report_text_note_figure(struct lp_report_page *page, const char *figure); /* in one piece */
void lp_report_text_note_end(struct lp_report_page *page);
/* ", summed over 16 processes": nothing for one process with one thread. */
void lp_report_text_note_sum(struct lp_report_page *page, const struct lp_analysis *analysis,
                             const struct lp_analysis_role *role);
/* "1 phase", "2 phases". */
struct lp_report_cell lp_report_text_plural(uint64_t n, const char *one, const char *many);

#endif

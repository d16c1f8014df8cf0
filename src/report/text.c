#include "report/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format.h"
#include "report/report.h"

#define NOTE_INDENT 2

/* The order of the report. A section that has nothing to say writes nothing, its blank line included. */

typedef void (*run_section)(struct lp_report_page *, const struct lp_analysis *);
typedef void (*role_section)(struct lp_report_page *, const struct lp_analysis *, const struct lp_analysis_role *);

static const role_section role_sections[] = {
    lp_report_text_shares, lp_report_text_dominant,    lp_report_text_iterations,
    lp_report_text_slow,   lp_report_text_io_by_phase, lp_report_text_gpu_by_phase,
};

static void all_roles(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    for (size_t i = 0; i < analysis->n_roles; i++)
        for (size_t k = 0; k < sizeof role_sections / sizeof *role_sections; k++)
            role_sections[k](page, analysis, &analysis->roles[i]);
}

static const run_section run_sections[] = {
    lp_report_text_header, lp_report_text_resources, all_roles,
    lp_report_text_legend, lp_report_text_io,        lp_report_text_gpu,
    lp_report_text_memory, lp_report_text_backends,  lp_report_text_caveats,
};

size_t lp_report_text_width(const struct lp_report_options *options)
{
    size_t width = options != NULL && options->width > 0 ? options->width : LP_REPORT_WIDTH;
    if (width < LP_REPORT_WIDTH_MIN)
        return LP_REPORT_WIDTH_MIN;
    return width > LP_REPORT_WIDTH_MAX ? LP_REPORT_WIDTH_MAX : width;
}

static int write_text(const struct lp_analysis *analysis, const struct lp_report_options *options,
                      struct lp_report_sink *sink)
{
    struct lp_report_page page;
    lp_report_page_init(&page, sink, lp_report_text_width(options), options != NULL && options->colour);
    for (size_t i = 0; i < sizeof run_sections / sizeof *run_sections; i++)
        run_sections[i](&page, analysis);
    lp_report_page_release(&page);
    return sink->error;
}

const struct lp_report_format lp_report_text = {.name = "text", .write = write_text};

/* --- parts --- */

size_t lp_report_text_at(const struct lp_report_page *page, size_t column)
{
    return column + page->width - LP_REPORT_WIDTH;
}

static void join_path(struct lp_report_sink *sink, const struct lp_run_phase *phase)
{
    if (phase->parent != NULL && phase->parent->parent != NULL) {
        join_path(sink, phase->parent);
        lp_report_write(sink, "/", 1);
    }
    lp_report_write(sink, phase->name.bytes, phase->name.len);
}

void lp_report_text_phase(struct lp_report_page *page, const struct lp_run_phase *phase, size_t columns)
{
    struct lp_buffer path = {0};
    struct lp_report_sink sink;
    lp_report_sink_init(&sink, lp_buffer_put, &path);
    join_path(&sink, phase);
    lp_report_fail(page->sink, sink.error);
    lp_report_page_label(page, path.bytes, path.len, columns);
    free(path.bytes);
}

void lp_report_text_path(struct lp_report_page *page, const struct lp_analysis_role *role, size_t phase, size_t columns)
{
    const struct lp_run_phase *of = role->phases[phase].phase;
    lp_report_text_phase(page, of, of->async_work && columns > 1 ? columns - 1 : columns);
    if (of->async_work)
        lp_report_page_text(page, "\xe2\x80\xa0"); /* U+2020; the legend says what it means */
}

void lp_report_text_note_begin(struct lp_report_page *page)
{
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, NOTE_INDENT);
}

void lp_report_text_note(struct lp_report_page *page, const char *text)
{
    lp_report_page_words(page, text, strlen(text), NOTE_INDENT);
}

void lp_report_text_note_figure(struct lp_report_page *page, const char *figure)
{
    lp_report_page_word(page, figure, strlen(figure), NOTE_INDENT);
}

void lp_report_text_note_end(struct lp_report_page *page)
{
    lp_report_page_fit(page, NOTE_INDENT);
    lp_report_page_end(page);
}

struct lp_report_cell lp_report_text_plural(uint64_t n, const char *one, const char *many)
{
    struct lp_report_cell cell = lp_report_count(n);
    size_t used = strlen(cell.text);
    snprintf(cell.text + used, sizeof cell.text - used, " %s", n == 1 ? one : many);
    return cell;
}

void lp_report_text_note_sum(struct lp_report_page *page, const struct lp_analysis *analysis,
                             const struct lp_analysis_role *role)
{
    uint64_t threads = 0;
    size_t n = role->role->n_workers;
    for (size_t i = 0; i < n; i++)
        threads += analysis->run->workers[role->role->workers[i]].threads;
    if (n <= 1 && threads <= 1)
        return;
    lp_report_text_note(page, ", summed over ");
    if (n > 1 || threads <= n)
        lp_report_text_note(page, lp_report_text_plural(n, "process", "processes").text);
    if (n > 1 && threads > n)
        lp_report_text_note(page, " and their ");
    if (threads > n)
        lp_report_text_note(page, lp_report_text_plural(threads, "thread", "threads").text);
}

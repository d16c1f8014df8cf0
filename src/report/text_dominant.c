/* K3: the phases that the time went to, what they waited for, and what they counted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/usage.h"
#include "report/format.h"
#include "report/label.h"
#include "report/text.h"

#define NAME_COLUMNS 30
#define SELF_END 40
#define WAIT_END 48
#define P50_END 58
#define P99_END 68
#define ENTRIES_END 80

#define MUCH_WAIT 0.5      /* More is drawn bold. */
#define EXPLAINED_WAIT 0.1 /* Of more it is said why. */
#define MUCH_PREEMPTED 0.1
#define SMALL_PART 0.005 /* Less would read as 0 %. */
#define MUCH_UNKNOWN 0.05
#define LITTLE_SELF_PART 10
#define WAIT_INDENT 4
#define DEVICE_INDENT 4

#define COUNTER_INDENT 4
#define COUNTER_END 38
#define RATE_END 52
#define EACH_END 65
#define RANGE_END 80
#define RATE_COLUMNS 34   /* Indent, blank and "1 entry in 1,000 to 10,000". */
#define COUNTER_COLUMNS 8 /* At least, for a counter's name. */

static size_t at(const struct lp_report_page *page, size_t column)
{
    return lp_report_text_at(page, column);
}

static void heading(struct lp_report_page *page)
{
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, "DOMINANT PHASES");
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_right(page, "self", at(page, SELF_END));
    lp_report_page_right(page, "wait", at(page, WAIT_END));
    lp_report_page_right(page, "p50", at(page, P50_END));
    lp_report_page_right(page, "p99", at(page, P99_END));
    lp_report_page_right(page, "entries", at(page, ENTRIES_END));
    lp_report_page_end(page);
}

/* "75", and "75+1" with one more that is still open. */
static struct lp_report_cell entries(const struct lp_run_phase *phase)
{
    struct lp_report_cell cell = lp_report_count(phase->calls);
    size_t used = strlen(cell.text);
    if (phase->open_calls > 0)
        snprintf(cell.text + used, sizeof cell.text - used, "+%.26s", lp_report_count(phase->open_calls).text);
    return cell;
}

static void phase_row(struct lp_report_page *page, const struct lp_analysis_role *role, size_t index)
{
    const struct lp_analysis_phase *row = &role->phases[index];
    char self[sizeof "~" + sizeof(struct lp_report_cell)];
    size_t columns = at(page, NAME_COLUMNS);
    if (row->phase->estimated) {
        lp_report_page_text(page, "~");
        columns--;
    }
    lp_report_text_path(page, role, index, columns);
    snprintf(self, sizeof self, "%s%s", row->self_estimated && !row->phase->estimated ? "~" : "",
             lp_report_duration((double)row->self_ns).text);
    lp_report_page_right(page, self, at(page, SELF_END));
    if (row->wait_share >= MUCH_WAIT)
        lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_right(page, lp_report_percent(row->wait_share).text, at(page, WAIT_END));
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_right(page, lp_report_duration(row->p50_ns).text, at(page, P50_END));
    lp_report_page_right(page, lp_report_duration(row->p99_ns).text, at(page, P99_END));
    lp_report_page_right(page, entries(row->phase).text, at(page, ENTRIES_END));
    lp_report_page_end(page);
}

/* --- why it waited --- */

/* "; 52% preempted" */
static void part_of_wait(struct lp_report_page *page, double share, const char *what, bool *first)
{
    char text[sizeof(struct lp_report_cell) + 64];
    if (!(share >= SMALL_PART))
        return;
    snprintf(text, sizeof text, "%s %s", lp_report_percent(share).text, what);
    lp_report_page_text(page, *first ? ":" : ";");
    lp_report_page_room(page, strlen(text) + 2, WAIT_INDENT + 1);
    lp_report_page_text(page, " ");
    lp_report_page_text(page, text);
    *first = false;
}

/* "wait 60%: 52% preempted - more busy threads than cores; 6% blocked; 2% not known", all of the phase's wall time. */
static void wait_row(struct lp_report_page *page, const struct lp_analysis_phase *row)
{
    double blocked = isnan(row->blocked_share) ? 0 : row->blocked_share;
    double preempted = isnan(row->preempted_share) ? 0 : row->preempted_share;
    bool first = true;
    if (!(row->wait_share >= EXPLAINED_WAIT) || (blocked < SMALL_PART && preempted < SMALL_PART) ||
        row->self_ns < row->phase->wall_ns / LITTLE_SELF_PART) /* what it waited in has a row of its own */
        return;
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, WAIT_INDENT);
    lp_report_page_text(page, "wait ");
    lp_report_page_text(page, lp_report_percent(row->wait_share).text);
    if (blocked > preempted)
        part_of_wait(page, blocked, "blocked", &first);
    part_of_wait(page, preempted,
                 preempted >= MUCH_PREEMPTED ? "preempted - more busy threads than cores" : "preempted", &first);
    if (blocked <= preempted)
        part_of_wait(page, blocked, "blocked", &first);
    double unknown = row->wait_share - blocked - preempted;
    if (unknown >= MUCH_UNKNOWN) /* less shows in what the others leave */
        part_of_wait(page, unknown, "not known", &first);
    lp_report_page_end(page);
}

/* --- the device --- */

/* "gpu 687.0ms/ea, p50 684.9ms, p99 702.2ms; 41.2s in all; 60 of 61 known" */
static void device_row(struct lp_report_page *page, const struct lp_analysis_phase *row)
{
    const struct lp_run_phase *phase = row->phase;
    const struct lp_run_device_time *time = phase->device_time;
    char text[6 * sizeof(struct lp_report_cell) + 64] = "gpu n/a";
    if (!time)
        return;
    if (time->calls > 0)
        snprintf(text, sizeof text, "gpu %s%s, p50 %s, p99 %s; %s in all", phase->estimated ? "~" : "",
                 lp_report_each(row->gpu_mean_ns).text, lp_report_duration(row->gpu_p50_ns).text,
                 lp_report_duration(row->gpu_p99_ns).text, lp_report_duration((double)time->ns).text);
    size_t used = strlen(text);
    if (time->calls != phase->calls)
        snprintf(text + used, sizeof text - used, "; %s of %s known", lp_report_count(time->calls).text,
                 lp_report_count(phase->calls).text);
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, DEVICE_INDENT);
    lp_report_page_words(page, text, strlen(text), DEVICE_INDENT + 2);
    lp_report_page_end(page);
}

/* --- counters --- */

/* What one call of count() added: "always 2", "1..9". */
static void range(struct lp_report_page *page, const struct lp_run_counter *counter)
{
    char text[2 * sizeof(struct lp_report_cell) + sizeof ".."];
    struct lp_report_cell min = lp_report_signed(counter->min);
    struct lp_report_cell max = lp_report_signed(counter->max);
    if (counter->calls == 0)
        return;
    if (counter->min == counter->max)
        snprintf(text, sizeof text, "always %s", min.text);
    else
        snprintf(text, sizeof text, "%s..%s", min.text, max.text);
    lp_report_page_right(page, text, at(page, RANGE_END));
}

static void counter_row(struct lp_report_page *page, const struct lp_run_phase *phase,
                        const struct lp_run_counter *counter)
{
    struct lp_report_cell total = lp_report_signed(counter->sum);
    struct lp_analysis_counter figures = lp_analysis_counter(phase, counter);
    size_t taken = COUNTER_INDENT + 2 + strlen(total.text) + 2;
    size_t columns = at(page, COUNTER_END) > taken + COUNTER_COLUMNS ? at(page, COUNTER_END) - taken : COUNTER_COLUMNS;
    lp_report_page_to(page, COUNTER_INDENT);
    lp_report_page_text(page, "+ ");
    lp_report_page_label(page, counter->name.bytes, counter->name.len, columns);
    lp_report_page_right(page, total.text, at(page, COUNTER_END));
    if (!isnan(figures.rate_per_s))
        lp_report_page_right(page, lp_report_rate(figures.rate_per_s).text, at(page, RATE_END));
    if (!isnan(figures.each_ns))
        lp_report_page_right(page, lp_report_each(figures.each_ns).text, at(page, EACH_END));
    range(page, counter);
    lp_report_page_end(page);
}

static void counter_rows(struct lp_report_page *page, const struct lp_run_phase *phase)
{
    enum lp_run_flow flow;
    for (size_t i = 0; i < phase->n_counters; i++)
        if (!lp_analysis_is_io_counter(&phase->counters[i], &flow)) /* those have a block of their own */
            counter_row(page, phase, &phase->counters[i]);
}

static void minor(struct lp_report_page *page, const struct lp_analysis_role *role)
{
    if (role->n_minor == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "and ");
    lp_report_text_note(page, lp_report_text_plural(role->n_minor, "more phase", "more phases").text);
    lp_report_text_note(page, role->minor_estimated ? " with ~" : " with ");
    lp_report_text_note(page, lp_report_duration((double)role->minor_self_ns).text);
    lp_report_text_note(page, " of self time, ");
    lp_report_text_note(page, lp_report_share(role->minor_self_share).text);
    lp_report_text_note(page, " of the time in phases");
    lp_report_text_note_end(page);
}

/* --- estimates --- */

/* "1 entry in 100"; in several ways if workers, or levels, sampled at different rates. */
static void stride(struct lp_report_page *page, const struct lp_run_phase *phase)
{
    lp_report_page_text(page, phase->stride_min == 1 ? "partly 1 entry in " : "1 entry in ");
    if (phase->stride_min != phase->stride_max && phase->stride_min > 1) {
        lp_report_page_text(page, lp_report_count(phase->stride_min).text);
        lp_report_page_text(page, " to ");
    }
    lp_report_page_text(page, lp_report_count(phase->stride_max).text);
}

static void estimate(struct lp_report_page *page, const struct lp_analysis_role *role, size_t index)
{
    const struct lp_analysis_phase *row = &role->phases[index];
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, 6);
    lp_report_text_path(page, role, index, page->width - RATE_COLUMNS);
    lp_report_page_to(page, NAME_COLUMNS);
    if (row->phase->estimated)
        stride(page, row->phase);
    else
        lp_report_page_text(page, "self time only: a phase in it is sampled");
    lp_report_page_end(page);
}

static bool is_among(const size_t *indices, size_t n, size_t index)
{
    for (size_t i = 0; i < n; i++)
        if (indices[i] == index)
            return true;
    return false;
}

/* Whether its row, here or among the shares, bears the mark. */
static bool is_marked(const struct lp_analysis_role *role, size_t index)
{
    const struct lp_analysis_phase *row = &role->phases[index];
    return (row->self_estimated && is_among(role->dominant, role->n_dominant, index)) ||
           (row->phase->estimated && is_among(role->shares, role->n_shares, index));
}

static void estimates(struct lp_report_page *page, const struct lp_analysis_role *role)
{
    bool any = false; /* with a row of its own */
    for (size_t i = 0; i < role->n_phases && !any; i++)
        any = is_marked(role, i);
    if (!any && !role->small_estimated && !role->minor_estimated)
        return;
    lp_report_page_end(page);
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "~ = estimated from a sample, not measured. Totals are scaled by the rate");
    if (any)
        lp_report_text_note(page, ":");
    lp_report_text_note_end(page);
    for (size_t i = 0; i < role->n_phases; i++)
        if (is_marked(role, i))
            estimate(page, role, i);
}

void lp_report_text_dominant(struct lp_report_page *page, const struct lp_analysis *analysis,
                             const struct lp_analysis_role *role)
{
    (void)analysis;
    const struct lp_run_phase *root = role->role->tree;
    if (role->n_phases == 0 && root->n_counters == 0)
        return;
    heading(page);
    for (size_t i = 0; i < role->n_dominant; i++) {
        phase_row(page, role, role->dominant[i]);
        wait_row(page, &role->phases[role->dominant[i]]);
        device_row(page, &role->phases[role->dominant[i]]);
        counter_rows(page, role->phases[role->dominant[i]].phase);
    }
    if (root->n_counters > 0) {
        lp_report_page_line(page, LP_STYLE_PLAIN, "(outside any phase)");
        counter_rows(page, root);
    }
    minor(page, role);
    estimates(page, role);
}

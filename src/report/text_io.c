/* K5, K6: which phases moved how many bytes, exactly; and when they moved, by samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/text_usage.h"

#define ROWS_MAX 12
#define WORTH_BYTES 4096 /* Less of what was written is no word, nor */
#define WORTH_SHARE 0.01 /* less of all. */
#define PATH_COLUMNS 26
#define READ_END 44
#define WRITE_END 60
#define RATE_END 76

#define TOTAL_END 40
#define MEAN_END 56
#define PEAK_END 76
#define SHARE_END 40
#define BYTES_END 56

void lp_report_text_title(struct lp_report_page *page, const char *title, const char *words)
{
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, title);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_text(page, words);
}

void lp_report_text_sampled(struct lp_report_page *page, const struct lp_run_sampled *sampled, size_t columns)
{
    if (sampled->kind == LP_SAMPLED_PHASE)
        lp_report_text_phase(page, sampled->phase, columns);
    else
        lp_report_page_text(page, sampled->kind == LP_SAMPLED_NONE_OPEN ? "(no phase open)" : "(phase not known)");
}

static size_t at(const struct lp_report_page *page, size_t column)
{
    return lp_report_text_at(page, column);
}

/* --- I/O BY PHASE --- */

static void right(struct lp_report_page *page, const char *before, double bytes, size_t end)
{
    char text[sizeof(struct lp_report_cell) + 4];
    struct lp_report_cell cell = lp_report_size(bytes);
    snprintf(text, sizeof text, "%s%*s", before, 10, cell.text);
    lp_report_page_right(page, text, end);
}

static void plus(struct lp_report_page *page, double bytes, const char *what)
{
    if (!(bytes > 0))
        return;
    lp_report_page_right(page, "+", at(page, READ_END - 11));
    lp_report_page_right(page, lp_report_size(bytes).text, at(page, READ_END));
    lp_report_page_text(page, what);
    lp_report_page_end(page);
}

/* What was written and reached no device; 0 if that is next to nothing. */
static double kept(const double *flow)
{
    double kept = flow[LP_WRITE_CHARS] - flow[LP_WRITE_BYTES];
    return kept >= WORTH_BYTES && kept >= WORTH_SHARE * flow[LP_WRITE_CHARS] ? kept : 0;
}

static void io_row(struct lp_report_page *page, const struct lp_analysis_role *role,
                   const struct lp_analysis_io_row *row)
{
    const struct lp_run_phase *phase = role->phases[row->phase].phase;
    lp_report_page_to(page, phase->estimated ? 1 : 2);
    if (phase->estimated)
        lp_report_page_text(page, "~");
    lp_report_text_path(page, role, row->phase, at(page, PATH_COLUMNS));
    right(page, "r ", row->flow[LP_READ_BYTES], at(page, READ_END));
    right(page, "w ", row->flow[LP_WRITE_BYTES], at(page, WRITE_END));
    lp_report_page_right(page, lp_report_size_rate(row->rate_per_s).text, at(page, RATE_END));
    lp_report_page_end(page);
    plus(page, row->cached_bytes, " read from page cache");
    plus(page, kept(row->flow), " written that reached no device");
}

void lp_report_text_io_by_phase(struct lp_report_page *page, const struct lp_analysis *analysis,
                                const struct lp_analysis_role *role)
{
    const struct lp_analysis_role_usage *usage = &analysis->usage->roles[role - analysis->roles];
    if (usage->n_io_rows == 0)
        return;
    lp_report_text_title(page, "I/O BY PHASE", " (measured exactly)");
    lp_report_page_end(page);
    lp_report_page_rule(page);
    for (size_t i = 0; i < usage->n_io_rows && i < ROWS_MAX; i++)
        io_row(page, role, &usage->io_rows[i]);
    lp_report_text_note_begin(page);
    if (usage->n_io_rows > ROWS_MAX) {
        lp_report_text_note(page, "and ");
        lp_report_text_note(page,
                            lp_report_text_plural(usage->n_io_rows - ROWS_MAX, "more phase; ", "more phases; ").text);
    }
    lp_report_text_note(page, "r, w: bytes that reached the block devices between a phase's own boundaries, child "
                              "phases included; rate: both / the phase's wall time");
    lp_report_text_note_sum(page, analysis, role);
    lp_report_text_note_end(page);
}

/* --- I/O --- */

/* With the rates of a flow that is these bytes and no others, or of LP_RUN_FLOWS: none. */
static void total_row(struct lp_report_page *page, const char *name, double bytes, const struct lp_analysis_io *io,
                      size_t flow)
{
    bool rates = flow < LP_RUN_FLOWS && !isnan(bytes);
    double mean = rates ? io->mean_per_s[flow] : NAN;
    double peak = rates ? io->peak_per_s[flow] : NAN;
    lp_report_page_text(page, name);
    lp_report_page_right(page, lp_report_size(bytes).text, at(page, TOTAL_END));
    if (!isnan(mean))
        lp_report_page_right(page, lp_report_size_rate(mean).text, at(page, MEAN_END));
    if (!isnan(peak) && peak > 0)
        lp_report_page_right(page, lp_report_size_rate(peak).text, at(page, PEAK_END));
    lp_report_page_end(page);
}

/* Height against the tallest column; a blank is a measured zero, a dot is not known. */
static void sparkline(struct lp_report_page *page, const char *name, const struct lp_analysis_io *io,
                      enum lp_run_flow flow)
{
    static const char *const blocks[] = {" ",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x82",
                                         "\xe2\x96\x83",
                                         "\xe2\x96\x84",
                                         "\xe2\x96\x85",
                                         "\xe2\x96\x86",
                                         "\xe2\x96\x87",
                                         "\xe2\x96\x88"};
    double most = 0;
    for (size_t i = 0; i < io->n_columns; i++)
        most = io->columns[flow][i] > most ? io->columns[flow][i] : most;
    if (!(most > 0))
        return;
    lp_report_page_to(page, 2);
    lp_report_page_text(page, name);
    lp_report_page_to(page, 8);
    for (size_t i = 0; i < io->n_columns; i++) {
        double bytes = io->columns[flow][i];
        size_t height = bytes > 0 ? 1 + (size_t)(bytes / most * 7.999) : 0;
        lp_report_page_text(page, isnan(bytes) ? "\xc2\xb7" : blocks[height]);
    }
    char peak[sizeof "peak " + sizeof(struct lp_report_cell)];
    snprintf(peak, sizeof peak, "peak %s", lp_report_size_rate(io->peak_per_s[flow]).text);
    lp_report_page_right(page, peak, at(page, PEAK_END));
    lp_report_page_end(page);
}

static const char *layer_name(const struct lp_analysis_io *io)
{
    return io->layer == LP_LAYER_BYTES ? "that reached the block devices" : "that system calls moved";
}

static void share_row(struct lp_report_page *page, const struct lp_analysis *analysis,
                      const struct lp_analysis_io_share *share)
{
    const struct lp_text *role = &analysis->run->roles[share->role].name;
    size_t columns = at(page, SHARE_END) - 8;
    lp_report_page_to(page, 2);
    if (analysis->n_roles > 1) {
        lp_report_page_name(page, role->bytes, role->len, 12);
        lp_report_page_text(page, ": ");
    }
    lp_report_text_sampled(page, share->sampled, columns > page->column ? columns - page->column : 8);
    lp_report_page_right(page, lp_report_share(share->share).text, at(page, SHARE_END));
    lp_report_page_right(page, lp_report_size(share->bytes).text, at(page, BYTES_END));
    lp_report_page_end(page);
}

static void share_rows(struct lp_report_page *page, const struct lp_analysis *analysis, const struct lp_analysis_io *io)
{
    if (io->n_shares == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "by the deepest phase open when an interval began, in % of the ");
    lp_report_text_note_figure(page, lp_report_size(io->layer_bytes).text);
    lp_report_text_note(page, " ");
    lp_report_text_note(page, layer_name(io));
    lp_report_text_note(page, ":");
    lp_report_text_note_end(page);
    for (size_t i = 0; i < io->n_shares && i < LP_ANALYSIS_IO_SHARES_MAX; i++)
        share_row(page, analysis, &io->shares[i]);
}

static bool any_exact(const struct lp_analysis *analysis)
{
    for (size_t i = 0; i < analysis->n_roles; i++)
        if (analysis->usage->roles[i].n_io_rows > 0)
            return true;
    return false;
}

#define MUCH_UNPHASED 0.1

static void unphased(struct lp_report_page *page, const struct lp_analysis_io *io, bool exact)
{
    if (!(io->unphased_share > 0))
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, lp_report_share(io->unphased_share).text);
    lp_report_text_note(page, " of the bytes ");
    lp_report_text_note(page, layer_name(io));
    lp_report_text_note(page, " moved with no phase open");
    if (io->unphased_share >= MUCH_UNPHASED)
        lp_report_text_note(page, exact ? ": what a phase with io=True, or LP_IO, moved stands in I/O BY PHASE"
                                        : ": wrap what moves them in phase(..., io=True) to see whose they are");
    lp_report_text_note_end(page);
}

static void notes(struct lp_report_page *page, const struct lp_analysis *analysis, const struct lp_analysis_io *io)
{
    if (io->n_shares > 0 && any_exact(analysis)) {
        lp_report_text_note_begin(page);
        lp_report_text_note(page, "what a short phase moved may stand at another one: trust I/O BY PHASE first");
        lp_report_text_note_end(page);
    }
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "sums over ");
    lp_report_text_note(page, lp_report_text_plural(analysis->run->sampling->n_workers, "process", "processes").text);
    lp_report_text_note(page, "; mean over the run's ");
    lp_report_text_note_figure(page, lp_report_duration((double)analysis->run->runtime_ns).text);
    lp_report_text_note(page, "; peak: the fastest ");
    lp_report_text_note_figure(page, lp_report_duration((double)analysis->run->sampling->timeline.bin_ns).text);
    lp_report_text_note(page, " of all together, or interval between samples of one process");
    if (io->n_columns > 1) {
        lp_report_text_note(page, "; a column is ");
        lp_report_text_note(page, lp_report_duration((double)io->column_ns).text);
    }
    lp_report_text_note_end(page);
    if (io->dropped == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, lp_report_count(io->dropped).text);
    lp_report_text_note(page, " of ");
    lp_report_text_note(page, lp_report_text_plural(io->intervals, "interval", "intervals").text);
    lp_report_text_note(page, " dropped, their bytes not known (see CAVEATS)");
    lp_report_text_note_end(page);
}

/* The flow that rates and the sparkline are of, which a row shows: what moved at the devices, else what system calls did if
   that is no next to nothing. */
static enum lp_run_flow shown(const struct lp_analysis_io *io, enum lp_run_flow bytes, enum lp_run_flow chars)
{
    bool next_to_nothing = chars == LP_WRITE_CHARS && io->total[bytes] <= 0 && !(kept(io->total) > 0);
    return io->total[bytes] > 0 || next_to_nothing ? bytes : chars;
}

/* Beside a row of what the devices moved: what they did not, and where that is not known, all. */
static void other_rows(struct lp_report_page *page, const struct lp_analysis_io *io, enum lp_run_flow chars,
                       enum lp_run_flow shown)
{
    bool reads = chars == LP_READ_CHARS;
    double rest = reads ? io->cached_bytes : kept(io->total);
    bool not_known = isnan(io->total[reads ? LP_READ_BYTES : LP_WRITE_BYTES]);
    if (reads || rest > 0)
        total_row(page, reads ? "Read (from page cache)" : "Write (reached no device)", rest, io,
                  shown == chars ? chars : LP_RUN_FLOWS);
    if (not_known)
        total_row(page, reads ? "Read (by system calls)" : "Write (by system calls)", io->total[chars], io, chars);
}

void lp_report_text_io(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_analysis_io *io = &analysis->usage->io;
    enum lp_run_flow reads = shown(io, LP_READ_BYTES, LP_READ_CHARS);
    enum lp_run_flow writes = shown(io, LP_WRITE_BYTES, LP_WRITE_CHARS);
    if (io->intervals == 0)
        return;
    lp_report_text_title(page, "I/O", " (sampled)");
    lp_report_page_right(page, "total", at(page, TOTAL_END));
    lp_report_page_right(page, "mean", at(page, MEAN_END));
    lp_report_page_right(page, "peak", at(page, PEAK_END));
    lp_report_page_end(page);
    lp_report_page_rule(page);
    total_row(page, "Read (from disk)", io->total[LP_READ_BYTES], io, LP_READ_BYTES);
    other_rows(page, io, LP_READ_CHARS, reads);
    total_row(page, "Write", io->total[LP_WRITE_BYTES], io, LP_WRITE_BYTES);
    other_rows(page, io, LP_WRITE_CHARS, writes);
    sparkline(page, "read", io, reads);
    sparkline(page, "write", io, writes);
    share_rows(page, analysis, io);
    unphased(page, io, any_exact(analysis));
    notes(page, analysis, io);
}

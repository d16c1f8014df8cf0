/* L1: two runs side by side. What changed for real comes first and in words; then phases of one run only; then all. */
#include "report/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/label.h"
#include "report/text.h"

#define INDENT 2
#define COMMIT_DIGITS 8
#define ONLY_SHOWN 20 /* Phases of one run only, each run; the others are counted. */

/* --- cells --- */

/* +5.1%, -0.3%; from tenfold on x12.3. */
static struct lp_report_cell change_of(double size)
{
    struct lp_report_cell cell;
    if (isnan(size))
        return lp_report_share(size);
    if (size >= 9) {
        struct lp_report_cell ratio = lp_report_ratio(size + 1);
        snprintf(cell.text, sizeof cell.text, "x%.*s", (int)sizeof cell.text - 2, ratio.text);
        return cell;
    }
    double tenths = round(size * 1000);
    struct lp_report_cell share = lp_report_share(fabs(tenths) / 1000);
    snprintf(cell.text, sizeof cell.text, "%s%.*s",
             tenths > 0   ? "+"
             : tenths < 0 ? "-"
                          : "",
             (int)sizeof cell.text - 2, share.text);
    return cell;
}

static struct lp_report_cell margin_of(double margin)
{
    struct lp_report_cell cell = {"any"};
    if (isnan(margin))
        return lp_report_share(margin);
    if (!(margin < 9.995))
        return cell;
    struct lp_report_cell share = lp_report_share(margin);
    snprintf(cell.text, sizeof cell.text, "\xc2\xb1%.*s", (int)sizeof cell.text - 3, share.text);
    return cell;
}

/* --- head --- */

static void name_commit(struct lp_report_page *page, const struct lp_run_provenance *provenance)
{
    size_t digits = provenance->commit.len < COMMIT_DIGITS ? provenance->commit.len : COMMIT_DIGITS;
    if (digits == 0)
        return;
    lp_report_page_text(page, ", commit ");
    lp_report_page_label(page, provenance->commit.bytes, digits, digits);
    if (!provenance->dirty_known || provenance->dirty)
        lp_report_page_text(page, provenance->dirty_known ? ", changed" : ", changed or not: n/a");
}

static void name_run(struct lp_report_page *page, const char *letter, const struct lp_run *run)
{
    char facts[96];
    int n =
        snprintf(facts, sizeof facts, "%s, %s%s", lp_report_text_plural(run->n_workers, "process", "processes").text,
                 lp_report_duration((double)run->runtime_ns).text, run->live ? " so far, still running" : "");
    size_t taken = n > 0 ? (size_t)n : 0;
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, letter);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_to(page, 3);
    lp_report_page_label(page, run->dir, strlen(run->dir), page->width - 3 - 3 - taken);
    lp_report_page_to(page, page->column + 3);
    lp_report_page_text(page, facts);
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, 3);
    lp_report_page_text(page, "Run ");
    lp_report_page_name(page, run->run_id.bytes, run->run_id.len, page->width - 7);
    name_commit(page, &run->provenance);
    if (run->n_unreadable > 0) {
        lp_report_page_text(page, ", ");
        lp_report_page_text(page, lp_report_text_plural(run->n_unreadable, "process", "processes").text);
        lp_report_page_text(page, run->n_unreadable > run->n_workers ? " UNREADABLE: MOST ARE LOST" : " unreadable");
    }
    lp_report_page_end(page);
}

static void add(struct lp_report_page *page, const char *text)
{
    lp_report_page_words(page, text, strlen(text), INDENT);
}

/* "2 phases slower, 1 faster, of 41 in both runs". */
static void verdict(struct lp_report_page *page, const struct lp_compare *compare)
{
    char line[256];
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    if (compare->same_run)
        add(page, "A and B are the same run.");
    else if (compare->n_both == 0)
        add(page, "No phase is in both runs.");
    else if (compare->n_tested == 0)
        add(page, "Nothing can be told apart: no phase has enough entries in both runs.");
    else if (compare->n_slower == 0 && compare->n_faster == 0)
        add(page, "No change beyond chance.");
    else {
        snprintf(line, sizeof line, "%s slower, %s faster.",
                 lp_report_text_plural(compare->n_slower, "phase", "phases").text,
                 lp_report_count(compare->n_faster).text);
        add(page, line);
    }
    lp_report_page_style(page, LP_STYLE_PLAIN);
    if (compare->n_both > 0) {
        snprintf(line, sizeof line, " %s in both runs, %s tested.",
                 lp_report_text_plural(compare->n_both, "phase", "phases").text,
                 lp_report_count(compare->n_tested).text);
        add(page, line);
    }
    lp_report_page_end(page);
}

/* --- the gate --- */

static void gate_row(struct lp_report_page *page, const struct lp_compare *compare, const struct lp_compare_phase *row)
{
    const struct lp_compare_role *role = &compare->roles[row->role];
    const struct lp_text *name = role->name;
    lp_report_page_to(page, INDENT);
    lp_report_page_name(page, name->bytes, name->len, 16);
    lp_report_page_to(page, page->column + 2);
    lp_report_text_phase(page, lp_compare_either(row), lp_report_text_at(page, 54) - page->column);
    const struct lp_compare_change *real = row->mean.real ? &row->mean : &row->typical;
    lp_report_page_right(page, row->mean.real ? "" : "typical entry", lp_report_text_at(page, 65));
    lp_report_page_right(page, change_of(real->size).text, lp_report_text_at(page, 73));
    lp_report_page_right(page, margin_of(real->margin).text, page->width);
    lp_report_page_end(page);
}

int lp_report_compare_over(const struct lp_compare *compare, struct lp_report_sink *sink)
{
    struct lp_report_page page;
    lp_report_page_init(&page, sink, LP_REPORT_WIDTH, false);
    for (size_t i = 0; i < compare->n_phases; i++)
        if (compare->phases[i].over)
            gate_row(&page, compare, &compare->phases[i]);
    lp_report_page_release(&page);
    return sink->error;
}

static void gate(struct lp_report_page *page, const struct lp_compare *compare)
{
    char line[160];
    if (isnan(compare->fail_over))
        return;
    struct lp_report_cell limit = change_of(compare->fail_over);
    lp_report_page_style(page, LP_STYLE_BOLD);
    if (compare->n_tested == 0)
        snprintf(line, sizeof line, "GATE FAILED: no phase could be tested.");
    else if (compare->n_over == 0)
        snprintf(line, sizeof line, "Gate passed: no phase is slower by more than %s.", limit.text);
    else
        snprintf(line, sizeof line, "GATE FAILED: %s slower by more than %s:",
                 lp_report_text_plural(compare->n_over, "phase is", "phases are").text, limit.text);
    add(page, line);
    lp_report_page_end(page);
    for (size_t i = 0; i < compare->n_phases; i++)
        if (compare->phases[i].over)
            gate_row(page, compare, &compare->phases[i]);
}

/* --- phases of one run only --- */

static bool is_only(const struct lp_compare *compare, const struct lp_compare_phase *row, enum lp_compare_verdict which)
{
    const struct lp_compare_role *role = &compare->roles[row->role];
    return row->verdict == which && role->a != NULL && role->b != NULL;
}

static void only_row(struct lp_report_page *page, const char *letter, const struct lp_text *role,
                     const struct lp_compare_phase *row)
{
    const struct lp_compare_side *side = row->a.phase != NULL ? &row->a : &row->b;
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, letter);
    lp_report_page_to(page, 5);
    lp_report_page_name(page, role->bytes, role->len, 16);
    lp_report_page_to(page, page->column + 2);
    lp_report_text_phase(page, side->phase, lp_report_text_at(page, 57) - page->column);
    lp_report_page_right(page, lp_report_count(side->phase->calls).text, lp_report_text_at(page, 68));
    lp_report_page_right(page, lp_report_duration(side->mean_ns).text, page->width);
    lp_report_page_end(page);
}

static void only_role(struct lp_report_page *page, const struct lp_compare_role *role)
{
    const struct lp_text *name = role->name;
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, role->a != NULL ? "A" : "B");
    lp_report_page_to(page, 5);
    lp_report_page_name(page, name->bytes, name->len, 32);
    lp_report_page_text(page, "  the whole role, ");
    lp_report_page_text(page, lp_report_text_plural(role->n, "phase", "phases").text);
    lp_report_page_end(page);
}

static void only_in(struct lp_report_page *page, const struct lp_compare *compare, enum lp_compare_verdict which)
{
    const char *letter = which == LP_COMPARE_ONLY_A ? "A" : "B";
    size_t shown = 0;
    for (size_t i = 0; i < compare->n_roles; i++)
        if ((which == LP_COMPARE_ONLY_A ? compare->roles[i].b : compare->roles[i].a) == NULL)
            only_role(page, &compare->roles[i]);
    for (size_t i = 0; i < compare->n_phases; i++) {
        const struct lp_compare_phase *row = &compare->phases[i];
        if (is_only(compare, row, which) && shown++ < ONLY_SHOWN)
            only_row(page, letter, compare->roles[row->role].name, row);
    }
    if (shown <= ONLY_SHOWN)
        return;
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, letter);
    lp_report_page_to(page, 5);
    lp_report_page_text(page, "and ");
    lp_report_page_text(page, lp_report_text_plural(shown - ONLY_SHOWN, "more phase", "more phases").text);
    lp_report_page_end(page);
}

static void only(struct lp_report_page *page, const struct lp_compare *compare)
{
    if (compare->n_both == compare->n_phases)
        return;
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, "IN ONE RUN ONLY");
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_right(page, "entries", lp_report_text_at(page, 68));
    lp_report_page_right(page, "mean", page->width);
    lp_report_page_end(page);
    lp_report_page_rule(page);
    only_in(page, compare, LP_COMPARE_ONLY_A);
    only_in(page, compare, LP_COMPARE_ONLY_B);
}

/* --- the table --- */

#define PATH_BEGIN 10
#define PATH_END 30

static void table_head(struct lp_report_page *page, const struct lp_compare_role *role)
{
    char counts[160];
    const struct lp_text *name = role->name;
    snprintf(counts, sizeof counts, "  (processes: A %s, B %s)", lp_report_count(role->a->n_workers).text,
             lp_report_count(role->b->n_workers).text);
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    if (name->len > 0)
        lp_report_page_name(page, name->bytes, name->len, page->width - strlen(counts));
    else
        lp_report_page_text(page, "(no name)");
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_text(page, counts);
    lp_report_page_end(page);
    lp_report_page_rule(page);
    static const struct {
        const char *title;
        size_t end;
    } columns[] = {{"entries A", 39}, {"entries B", 49}, {"mean A", 57},
                   {"mean B", 65},    {"change", 73},    {"chance", 80}};
    lp_report_page_style(page, LP_STYLE_DIM);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        lp_report_page_right(page, columns[i].title, lp_report_text_at(page, columns[i].end));
    lp_report_page_end(page);
}

static void note(struct lp_report_page *page, const char *text)
{
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, PATH_BEGIN + 2);
    lp_report_page_words(page, text, strlen(text), PATH_BEGIN + 2);
    lp_report_page_end(page);
}

static void notes(struct lp_report_page *page, const struct lp_compare_phase *row)
{
    char line[256];
    if (row->disagrees) {
        snprintf(line, sizeof line, "mean x%s, median x%s", lp_report_ratio(row->mean.size + 1).text,
                 lp_report_ratio(row->median_ratio).text);
        note(page, line);
    }
    if (row->typical.real && !row->mean.real) {
        snprintf(line, sizeof line, "typical entry %s %s: real, though the mean alone cannot tell",
                 change_of(row->typical.size).text, margin_of(row->typical.margin).text);
        note(page, line);
    }
    if (row->saturated)
        note(page, "not tested: a sum reached the largest number there is");
}

static const char *word_of(const struct lp_compare_phase *row)
{
    return row->verdict == LP_COMPARE_SLOWER ? "slower" : row->verdict == LP_COMPARE_FASTER ? "faster" : "";
}

static void entries(struct lp_report_page *page, const struct lp_compare_side *side, size_t end)
{
    lp_report_page_right(page, lp_report_count(side->phase->calls).text, lp_report_text_at(page, end));
}

static void table_row(struct lp_report_page *page, const struct lp_compare_phase *row)
{
    if (*word_of(row) != '\0')
        lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, word_of(row));
    lp_report_page_to(page, 6);
    lp_report_page_text(page, row->few ? "?" : "");
    lp_report_page_text(page, row->disagrees ? "~" : "");
    lp_report_page_text(page, row->estimated ? "\xe2\x89\x88" : ""); /* U+2248 */
    lp_report_page_to(page, PATH_BEGIN);
    lp_report_text_phase(page, lp_compare_either(row), lp_report_text_at(page, PATH_END) - PATH_BEGIN);
    entries(page, &row->a, 39);
    entries(page, &row->b, 49);
    lp_report_page_right(page, lp_report_duration(row->a.mean_ns).text, lp_report_text_at(page, 57));
    lp_report_page_right(page, lp_report_duration(row->b.mean_ns).text, lp_report_text_at(page, 65));
    lp_report_page_right(page, change_of(row->mean.size).text, lp_report_text_at(page, 73));
    lp_report_page_right(page, margin_of(row->mean.margin).text, page->width);
    lp_report_page_end(page);
    notes(page, row);
}

static bool is_in_both(const struct lp_compare_phase *row)
{
    return row->a.phase != NULL && row->b.phase != NULL;
}

static size_t n_both(const struct lp_compare *compare, const struct lp_compare_role *role)
{
    size_t n = 0;
    for (size_t i = role->first; i < role->first + role->n; i++)
        n += is_in_both(&compare->phases[i]);
    return n;
}

static void tables(struct lp_report_page *page, const struct lp_compare *compare)
{
    for (size_t i = 0; i < compare->n_roles; i++) {
        const struct lp_compare_role *role = &compare->roles[i];
        if (n_both(compare, role) == 0)
            continue;
        table_head(page, role);
        for (size_t k = role->first; k < role->first + role->n; k++)
            if (is_in_both(&compare->phases[k]))
                table_row(page, &compare->phases[k]);
    }
}

/* --- foot --- */

static void entry(struct lp_report_page *page, const char *term, const char *meaning)
{
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, term);
    lp_report_page_to(page, PATH_BEGIN);
    lp_report_page_words(page, meaning, strlen(meaning), PATH_BEGIN);
    lp_report_page_end(page);
}

static double entries_per_process(const struct lp_run_phase *phase)
{
    return phase->workers > 0 ? (double)phase->calls / (double)phase->workers : (double)phase->calls;
}

static bool differ_in_length(const struct lp_run_phase *a, const struct lp_run_phase *b)
{
    double in_a = entries_per_process(a), in_b = entries_per_process(b);
    return fmax(in_a, in_b) > 2 * fmin(in_a, in_b);
}

struct marks {
    bool few, disagrees, estimated, alone, open, length, any;
};

static struct marks marks_of(const struct lp_compare *compare)
{
    struct marks marks = {0};
    for (size_t i = 0; i < compare->n_phases; i++) {
        const struct lp_compare_phase *row = &compare->phases[i];
        if (!is_in_both(row))
            continue;
        const struct lp_run_phase *a = row->a.phase, *b = row->b.phase;
        marks.few |= row->few;
        marks.disagrees |= row->disagrees;
        marks.estimated |= row->estimated;
        marks.alone |= !isnan(row->mean.margin) && a->workers == 1 && b->workers == 1;
        marks.length |= !isnan(row->mean.margin) && differ_in_length(a, b);
        marks.open |= a->open_calls > 0 || b->open_calls > 0;
        marks.any |= !isnan(row->mean.margin);
    }
    return marks;
}

static void legend(struct lp_report_page *page, const struct lp_compare *compare)
{
    char line[320];
    struct marks marks = marks_of(compare);
    if (compare->n_both == 0)
        return;
    lp_report_page_end(page);
    entry(page, "change", "of the mean time per entry that ended, child phases included; of A");
    if (marks.any) {
        snprintf(line, sizeof line,
                 "what two runs of the same program may differ by. Beyond it: slower or faster. Of 100 comparisons "
                 "of equal programs, %.0f at most has any such phase",
                 100 * LP_COMPARE_ERROR_RATE);
        entry(page, "chance", line);
    }
    if (marks.alone)
        entry(page, "",
              "(of a phase with one process in each run, how processes differ is not known: its entries count as "
              "independent)");
    if (marks.few)
        entry(page, "?", "fewer than 30 entries measured in a run: not tested");
    if (marks.disagrees)
        entry(page, "~", "mean and median disagree: a few entries, not most, make the change of the mean");
    if (marks.estimated)
        entry(page, "\xe2\x89\x88", "sampled: entries and times are estimates");
    if (marks.length)
        entry(page, "length",
              "processes of one run have more than twice the entries of the other's: what a process does only at "
              "its beginning then weighs differently in the means");
    if (marks.open)
        entry(page, "open", "entries that had not ended are left out");
}

static void caveats_of(struct lp_report_page *page, const char *letter, const struct lp_run *run)
{
    for (size_t i = 0; i < run->n_caveats; i++) {
        lp_report_page_to(page, INDENT);
        lp_report_page_text(page, letter);
        lp_report_page_to(page, INDENT + 2);
        lp_report_page_words(page, run->caveats[i].text, strlen(run->caveats[i].text), INDENT + 2);
        lp_report_page_end(page);
    }
}

static void caveats(struct lp_report_page *page, const struct lp_compare *compare)
{
    if (compare->a->n_caveats + compare->b->n_caveats == 0)
        return;
    lp_report_page_end(page);
    lp_report_page_line(page, LP_STYLE_BOLD, "CAVEATS");
    lp_report_page_rule(page);
    caveats_of(page, "A", compare->a);
    caveats_of(page, "B", compare->b);
}

int lp_report_compare_text(const struct lp_compare *compare, const struct lp_report_options *options,
                           struct lp_report_sink *sink)
{
    struct lp_report_page page;
    lp_report_page_init(&page, sink, lp_report_text_width(options), options != NULL && options->colour);
    name_run(&page, "A", compare->a);
    name_run(&page, "B", compare->b);
    verdict(&page, compare);
    gate(&page, compare);
    only(&page, compare);
    tables(&page, compare);
    legend(&page, compare);
    caveats(&page, compare);
    lp_report_page_release(&page);
    return sink->error;
}

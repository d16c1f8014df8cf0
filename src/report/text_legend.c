/* K11: what the columns mean and what their percentages are of; only those lines that this report needs. */
#include <string.h>

#include "analysis/usage.h"
#include "report/text.h"

#define MEANING_BEGIN 14

static void entry(struct lp_report_page *page, const char *term, const char *meaning)
{
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, 2);
    lp_report_page_text(page, term);
    lp_report_page_to(page, MEANING_BEGIN);
    lp_report_page_words(page, meaning, strlen(meaning), MEANING_BEGIN);
    lp_report_page_end(page);
}

static bool shows_counters(const struct lp_run_phase *phase)
{
    enum lp_run_flow flow;
    for (size_t i = 0; i < phase->n_counters; i++)
        if (!lp_analysis_is_io_counter(&phase->counters[i], &flow))
            return true;
    return false;
}

static bool has_counters(const struct lp_analysis_role *role)
{
    for (size_t i = 0; i < role->n_dominant; i++)
        if (shows_counters(role->phases[role->dominant[i]].phase))
            return true;
    return role->role->tree->n_counters > 0;
}

void lp_report_text_legend(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    bool phases = false, partial = false, missing = false, explained = false, open = false, counters = false;
    bool device_times = false, device_unknown = false, submissions = false;
    for (size_t i = 0; i < analysis->n_roles; i++) {
        const struct lp_analysis_role *role = &analysis->roles[i];
        phases |= role->n_phases > 0;
        partial |= role->cpu_partial;
        missing |= role->cpu_missing;
        explained |= role->wait_explained;
        open |= role->open_calls > 0;
        counters |= has_counters(role);
        for (size_t k = 0; k < role->n_dominant; k++) {
            const struct lp_run_phase *phase = role->phases[role->dominant[k]].phase;
            device_times |= phase->device_time != NULL;
            device_unknown |= phase->device_time != NULL && phase->device_time->calls == 0;
        }
        for (size_t k = 0; k < role->n_phases; k++)
            submissions |= role->phases[k].phase->async_work;
    }
    if (!phases && !counters)
        return;
    lp_report_page_end(page);
    if (phases) {
        entry(page, "self", "wall time outside child phases, summed over processes and threads");
        entry(page, "wait",
              "% of the phase's wall time, child phases included, that its thread "
              "spent off the CPU");
    }
    if (partial)
        entry(page, "", "(of that part of it for which CPU time was measured)");
    if (missing)
        entry(page, "wait n/a", "not measured: there are no CPU times for it");
    if (explained)
        entry(page, "wait n%:",
              "why: blocked, the thread had given its core up; preempted, it could have run but found "
              "no core; not known, mostly as it switched too often to ask; % of the same wall time");
    if (device_times)
        entry(page, "gpu",
              "time from the beginning of what an entry enqueued to its end, on its stream of the device, gaps "
              "included; in no other figure here");
    if (device_unknown)
        entry(page, "gpu n/a",
              "of no entry known: no CUDA was in use where it ran, or a framework that does not tell its "
              "stream (docs/gpu.md)");
    if (submissions)
        entry(page, "\xe2\x80\xa0", "wall time of submission only: the work itself runs elsewhere, or later");
    if (open)
        entry(page, "entries +n", "still open: their time so far is in self and wait, not in p50 and p99");
    if (counters)
        entry(page, "+ counter",
              "total; rate per second of its phase's wall time; that time for "
              "each one; what one count() added");
}

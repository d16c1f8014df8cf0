/* L1: the comparison for programs. docs/compare.md tells each key, docs/compare.schema.json its type. */
#include <errno.h>
#include <math.h>

#include "report/compare.h"
#include "report/json_value.h"

#define FORMAT_NAME "lineprofiler-compare"
/* Goes up when a program written for the old version would misread the new one; a new key does not raise it. */
#define FORMAT_VERSION 1

static const char *const verdicts[] = {
    [LP_COMPARE_SAME] = "same",           [LP_COMPARE_SLOWER] = "slower", [LP_COMPARE_FASTER] = "faster",
    [LP_COMPARE_UNDECIDED] = "undecided", [LP_COMPARE_ONLY_A] = "only_a", [LP_COMPARE_ONLY_B] = "only_b",
};

static void run(struct lp_emit *emit, const char *key, const struct lp_run *model)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, key);
    lp_report_json_text(emit, "run_id", &model->run_id);
    lp_report_json_string(emit, "dir", model->dir);
    lp_report_json_count(emit, "started_realtime_ns", model->started_realtime_ns);
    lp_report_json_count(emit, "runtime_ns", model->runtime_ns);
    lp_report_json_bool(emit, "live", model->live);
    lp_report_json_count(emit, "processes", model->n_workers);
    lp_report_json_count(emit, "lost_processes", model->n_unreadable);
    lp_report_json_array(emit, "caveats");
    for (size_t i = 0; i < model->n_caveats; i++) {
        lp_report_json_object(emit, NULL);
        lp_report_json_string(emit, "kind", model->caveats[i].kind);
        lp_report_json_string(emit, "text", model->caveats[i].text);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
}

static void method(struct lp_emit *emit, const struct lp_compare *compare)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, "method");
    lp_report_json_real(emit, "error_rate", LP_COMPARE_ERROR_RATE);
    lp_report_json_real(emit, "run_noise", LP_COMPARE_RUN_NOISE);
    lp_report_json_count(emit, "entries_min", LP_COMPARE_FEW);
    lp_report_json_count(emit, "tested", compare->n_tested);
    lp_emit_close(emit, '}');
}

static void path(struct lp_emit *emit, const struct lp_compare_phase *row)
{
    lp_report_json_array(emit, "path");
    for (size_t level = row->depth; level > 0; level--) {
        const struct lp_run_phase *at = lp_compare_either(row);
        for (size_t up = 1; up < level; up++)
            at = at->parent;
        lp_report_json_text(emit, NULL, &at->name);
    }
    lp_emit_close(emit, ']');
}

static void side(struct lp_emit *emit, const char *key, const struct lp_compare_side *side)
{
    if (side->phase == NULL) {
        lp_report_json_null(emit, key);
        return;
    }
    lp_report_json_object(emit, key);
    lp_report_json_count(emit, "calls", side->phase->calls);
    lp_report_json_real(emit, "entries", side->entries);
    lp_report_json_real(emit, "mean_ns", side->mean_ns);
    lp_report_json_real(emit, "p50_ns", side->p50_ns);
    lp_report_json_count(emit, "workers", side->phase->workers);
    lp_report_json_count(emit, "open_calls", side->phase->open_calls);
    lp_report_json_bool(emit, "estimated", side->phase->estimated);
    lp_emit_close(emit, '}');
}

static void change(struct lp_emit *emit, const char *key, const struct lp_compare_change *change)
{
    lp_report_json_object(emit, key);
    lp_report_json_real(emit, "size", change->size);
    lp_report_json_real(emit, "margin", change->margin);
    lp_report_json_bool(emit, "real", change->real);
    lp_emit_close(emit, '}');
}

static void phase(struct lp_emit *emit, const struct lp_compare_phase *row)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, NULL);
    path(emit, row);
    lp_report_json_string(emit, "verdict", verdicts[row->verdict]);
    side(emit, "a", &row->a);
    side(emit, "b", &row->b);
    change(emit, "mean", &row->mean);
    change(emit, "typical", &row->typical);
    lp_report_json_real(emit, "median_ratio", row->median_ratio);
    lp_report_json_bool(emit, "few", row->few);
    lp_report_json_bool(emit, "disagrees", row->disagrees);
    lp_report_json_bool(emit, "estimated", row->estimated);
    lp_report_json_bool(emit, "saturated", row->saturated);
    lp_report_json_bool(emit, "over", row->over);
    lp_emit_close(emit, '}');
}

static void processes(struct lp_emit *emit, const char *key, const struct lp_run_role *role)
{
    if (role == NULL)
        lp_report_json_null(emit, key);
    else
        lp_report_json_count(emit, key, role->n_workers);
}

static void roles(struct lp_emit *emit, const struct lp_compare *compare)
{
    lp_emit_newline(emit);
    lp_report_json_array(emit, "roles");
    for (size_t i = 0; i < compare->n_roles; i++) {
        const struct lp_compare_role *role = &compare->roles[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "name", role->name);
        processes(emit, "processes_a", role->a);
        processes(emit, "processes_b", role->b);
        lp_report_json_array(emit, "phases");
        for (size_t k = role->first; k < role->first + role->n; k++)
            phase(emit, &compare->phases[k]);
        lp_emit_close(emit, ']');
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void summary(struct lp_emit *emit, const struct lp_compare *compare)
{
    lp_report_json_bool(emit, "same_run", compare->same_run);
    lp_report_json_count(emit, "slower", compare->n_slower);
    lp_report_json_count(emit, "faster", compare->n_faster);
    lp_report_json_real(emit, "fail_over", compare->fail_over);
    lp_report_json_bool(emit, "failed", compare->n_over > 0 || (!isnan(compare->fail_over) && compare->n_tested == 0));
}

int lp_report_compare_json(const struct lp_compare *compare, const struct lp_report_options *options,
                           struct lp_report_sink *sink)
{
    (void)options;
    struct lp_emit emit;
    lp_emit_init(&emit, sink->put, sink->context);
    lp_report_json_object(&emit, NULL);
    lp_report_json_string(&emit, "format", FORMAT_NAME);
    lp_report_json_count(&emit, "version", FORMAT_VERSION);
    summary(&emit, compare);
    method(&emit, compare);
    run(&emit, "a", compare->a);
    run(&emit, "b", compare->b);
    roles(&emit, compare);
    lp_emit_close(&emit, '}');
    lp_emit_raw(&emit, "\n", 1);
    errno = 0;
    if (lp_emit_end(&emit) != 0)
        lp_report_fail(sink, errno != 0 ? -errno : -EIO);
    return sink->error;
}

/* The JSON report, read back by another program's parser (Jansson). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <locale.h>

#include "base/emit.h"
#include "model/model.h"
#include "report/json_value.h"
#include "report/report.h"
#include "run/text.h"

static json_t *report_of(const struct model *model)
{
    struct lp_buffer bytes = {0};
    struct lp_report_sink sink;
    struct lp_analysis *analysis;
    json_error_t error;
    lp_report_sink_init(&sink, lp_buffer_put, &bytes);
    assert_int_equal(lp_analysis_make(&analysis, model->run), 0);
    assert_int_equal(lp_report_json.write(analysis, NULL, &sink), 0);
    lp_analysis_free(analysis);
    assert_int_equal(bytes.bytes[bytes.len - 1], '\n');
    json_t *json = json_loadb(bytes.bytes, bytes.len, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    free(bytes.bytes);
    return json;
}

/* "roles", 0, "phases", 2, "wall_ns": indices are told from keys by their type, so here by a leading digit. */
static json_t *at(json_t *json, const char *path)
{
    char copy[128], *rest, *word;
    snprintf(copy, sizeof copy, "%s", path);
    for (word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        json = *word >= '0' && *word <= '9' ? json_array_get(json, (size_t)atoi(word)) : json_object_get(json, word);
        if (json == NULL)
            fail_msg("no %s in %s", word, path);
    }
    return json;
}

#define assert_integer(json, path, value) assert_int_equal(json_integer_value(at(json, path)), value)
#define assert_text(json, path, value) assert_string_equal(json_string_value(at(json, path)), value)
#define assert_null_at(json, path) assert_true(json_is_null(at(json, path)))

static void assert_real(json_t *json, const char *path, double value)
{
    double found = json_number_value(at(json, path));
    if (!json_is_number(at(json, path)) || fabs(found - value) > 1e-12 * fabs(value))
        fail_msg("%s is %.17g, not %.17g", path, found, value);
}

static void test_figures(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    model_worker(&model, role, "node07")->root_wall_ns = 100 * S;
    struct lp_run_phase *step = model_phase(&model, role->tree, "step");
    struct lp_run_phase *load = model_phase(&model, step, "load");
    struct lp_run_phase *work = model_phase(&model, step, "work");
    model_entries(&model, load, 10, 2 * S, 0.75);
    model_entries(&model, work, 10, 7 * S, 0);
    model_entries(&model, step, 10, 10 * S, 0.15);
    model_counter(&model, work, "samples", 1400, 10);
    work->cpu_known = false;
    json_t *json = report_of(&model);
    assert_text(json, "format", "lineprofiler-report");
    assert_integer(json, "version", 1);
    assert_text(json, "run run_id", "20260813T2241-471c94");
    assert_integer(json, "run runtime_ns", 15120 * S);
    assert_text(json, "roles 0 name", "actor");
    assert_integer(json, "roles 0 wall_ns", 100 * S);
    assert_integer(json, "roles 0 shares phases 0", 2);
    assert_text(json, "roles 0 shares level 0", "step");
    assert_real(json, "roles 0 shares other_share", 0.1);
    assert_integer(json, "roles 0 iterations", 0);
    assert_text(json, "roles 0 phases 1 path 0", "step");
    assert_text(json, "roles 0 phases 1 path 1", "load");
    assert_integer(json, "roles 0 phases 1 calls", 10);
    assert_integer(json, "roles 0 phases 1 wall_ns", 20 * S);
    assert_integer(json, "roles 0 phases 1 cpu_ns", 5 * S);
    assert_integer(json, "roles 0 phases 1 wait_ns", 15 * S);
    assert_real(json, "roles 0 phases 1 wait_share", 0.75);
    assert_real(json, "roles 0 phases 1 share", 0.2);
    assert_real(json, "roles 0 phases 1 mean_ns", 2e9);
    assert_real(json, "roles 0 phases 1 p50_ns", lp_hist_quantile(&load->hist, 0.5));
    assert_integer(json, "roles 0 phases 0 self_ns", 10 * S);
    assert_null_at(json, "roles 0 phases 2 cpu_ns"); /* B7 */
    assert_null_at(json, "roles 0 phases 2 wait_ns");
    assert_null_at(json, "roles 0 phases 2 wait_share");
    assert_null_at(json, "roles 0 phases 1 blocked_ns"); /* not asked: not 0 */
    assert_null_at(json, "roles 0 phases 1 preempted_share");
    assert_text(json, "roles 0 phases 2 counters 0 name", "samples");
    assert_integer(json, "roles 0 phases 2 counters 0 total", 1400);
    assert_real(json, "roles 0 phases 2 counters 0 rate_per_s", 20);
    assert_real(json, "roles 0 phases 2 counters 0 each_ns", 5e7);
    assert_text(json, "workers 0 host", "node07");
    assert_null_at(json, "workers 0 rank");
    assert_null_at(json, "workers 0 job");
    json_decref(json);
    model_free(&model);
}

/* Also what did not end well is a part of the document. */
static void test_what_is_missing(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_run *run = model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    struct lp_run_worker *worker = model_worker(&model, role, "node07");
    struct lp_run_trouble trouble = {model_text(&model, "failed_flushes"), 3};
    struct lp_run_open open = {model_text(&model, "MainThread"), model_text(&model, "a/b"), 5 * S};
    struct lp_run_superseded older = {.run_id = model_text(&model, "older"), .n_workers = 4};
    worker->closed = false;
    worker->stale = true;
    worker->source = LP_SOURCE_DEAD_IMAGE;
    worker->rank = 0;
    worker->job_system = model_string(&model, "slurm");
    worker->job_id = model_text(&model, "42");
    worker->snapshot_interval_s = -1;
    worker->troubles = &trouble;
    worker->open = &open;
    worker->n_troubles = worker->n_open = 1;
    run->superseded = &older;
    run->n_superseded = 1;
    model_unreadable(&model, "workers/a/w.json", "not JSON");
    model_caveat(&model, "unreadable", "one file could not be read");
    json_t *json = report_of(&model);
    assert_true(json_is_true(at(json, "workers 0 stale")));
    assert_text(json, "workers 0 source", "dead_image");
    assert_integer(json, "workers 0 rank", 0);
    assert_text(json, "workers 0 job id", "42");
    assert_null_at(json, "workers 0 snapshot_interval_s");
    assert_integer(json, "workers 0 troubles failed_flushes", 3);
    assert_text(json, "workers 0 open 0 path", "a/b");
    assert_text(json, "superseded 0 run_id", "older");
    assert_text(json, "unreadable 0 reason", "not JSON");
    assert_text(json, "caveats 0 kind", "unreadable");
    assert_integer(json, "run lost_processes", 1);
    assert_integer(json, "run not_joined_processes", 0);
    assert_null_at(json, "roles 0 iterations");
    assert_null_at(json, "roles 0 shares other_share");
    json_decref(json);
    model_free(&model);
}

/* K12, NM01: any name gives a valid document and comes back as it was. */
static void test_any_name_comes_back(void **state)
{
    (void)state;
#define VIEW(text)                                                                                                     \
    {                                                                                                                  \
        text, sizeof(text) - 1                                                                                         \
    }
    static const struct lp_span names[] = {
        VIEW("a\0b"),
        VIEW("\"\\\n\t\x1b\x7f"),
        VIEW("\xed\xb3\xbf"),
        VIEW("\xed\xa0\xbd\xed\xb8\x80"), /* Two surrogates in a row are no emoji. */
        VIEW("\\udcff"),
        VIEW("\\x00"),
        VIEW("训练/Modèle \xf0\x9f\x98\x80"),
    };
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    model_worker(&model, role, "node07");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct lp_run_phase *phase = model_phase_bytes(&model, role->tree, names[i].bytes, names[i].len);
        model_entries(&model, phase, 1, 1 * S, 0);
        model_counter(&model, phase, "n", 1, 1)->name = phase->name;
    }
    json_t *json = report_of(&model);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64], decoded[64];
        snprintf(path, sizeof path, "roles 0 phases %zu path 0", i);
        json_t *name = at(json, path);
        ptrdiff_t len = lp_text_decode(decoded, (struct lp_span){json_string_value(name), json_string_length(name)});
        assert_int_equal(len, names[i].len);
        assert_memory_equal(decoded, names[i].bytes, names[i].len);
    }
    json_decref(json);
    model_free(&model);
}

static void test_numbers_at_their_limits(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    model_worker(&model, role, "node07");
    struct lp_run_phase *step = model_phase(&model, role->tree, "step");
    step->calls = 3;
    step->wall_ns = INT64_MAX;
    model_counter(&model, step, "n", INT64_MIN, 1);
    json_t *json = report_of(&model);
    assert_integer(json, "roles 0 phases 0 wall_ns", INT64_MAX);
    assert_integer(json, "roles 0 phases 0 counters 0 total", INT64_MIN);
    assert_null_at(json, "roles 0 phases 0 counters 0 each_ns");
    json_decref(json);
    model_free(&model);
}

static double read_back(double value)
{
    struct lp_buffer bytes = {0};
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &bytes);
    lp_report_json_real(&emit, NULL, value);
    lp_emit_end(&emit);
    assert_null(strchr(bytes.bytes, ','));
    double back = strtod(bytes.bytes, NULL);
    free(bytes.bytes);
    return back;
}

static void test_reals_come_back(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 50000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double value;
        memcpy(&value, &random, sizeof value);
        if (isfinite(value))
            assert_true(read_back(value) == value);
    }
}

static void test_a_real_in_a_locale_with_a_comma(void **state)
{
    (void)state;
    struct lp_buffer bytes = {0};
    struct lp_emit emit;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* Where it is not installed this shows nothing. */
    lp_emit_init(&emit, lp_buffer_put, &bytes);
    lp_report_json_array(&emit, NULL);
    lp_report_json_real(&emit, NULL, 0.5);
    lp_report_json_real(&emit, NULL, NAN);
    lp_report_json_real(&emit, NULL, -1e300);
    lp_emit_close(&emit, ']');
    lp_emit_end(&emit);
    setlocale(LC_ALL, "C");
    assert_string_equal(bytes.bytes, "[0.5,null,-1e+300]");
    free(bytes.bytes);
}

static int full(void *context, const char *bytes, size_t len)
{
    (void)context, (void)bytes, (void)len;
    errno = ENOSPC;
    return -1;
}

static void test_a_sink_that_fails(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_report_sink sink;
    struct lp_analysis *analysis;
    model_run(&model);
    lp_report_sink_init(&sink, full, NULL);
    assert_int_equal(lp_analysis_make(&analysis, model.run), 0);
    assert_int_equal(lp_report_json.write(analysis, NULL, &sink), -ENOSPC);
    lp_analysis_free(analysis);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_any_name_comes_back),
        cmocka_unit_test(test_numbers_at_their_limits),
        cmocka_unit_test(test_reals_come_back),
        cmocka_unit_test(test_a_real_in_a_locale_with_a_comma),
        cmocka_unit_test(test_a_sink_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

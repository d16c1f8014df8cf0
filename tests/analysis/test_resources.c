/* What hosts granted and what processes used, from models built by hand. */
#include "support/support.h"

#include "analysis/analysis.h"
#include "model/model.h"
#include "run/samples.h"

#define GB UINT64_C(1000000000)

static struct lp_run_worker *worker_on(struct model *model, struct lp_run_role *role, const char *host, double from_s,
                                       double to_s)
{
    struct lp_run_worker *worker = model_worker(model, role, host);
    worker->started.realtime_ns = UINT64_C(1786660860) * S + (uint64_t)(from_s * 1e9);
    worker->written.realtime_ns = UINT64_C(1786660860) * S + (uint64_t)(to_s * 1e9);
    worker->machine = (struct lp_run_machine){.cores = 16,
                                              .cores_usable = 16,
                                              .cpu_limit_cores = INFINITY,
                                              .ram_bytes = 64 * GB,
                                              .memory_limit_bytes = UINT64_MAX,
                                              .usable_list = model_text(model, "0-15")};
    return worker;
}

static void pin(struct model *model, struct lp_run_worker *worker, const char *list, uint64_t n)
{
    worker->machine.cores_usable = n;
    worker->machine.usable_list = list ? model_text(model, list) : (struct lp_text){NULL, 0};
}

/* So much CPU time in so much time that was sampled. */
static void use_cpu(struct model *model, struct lp_run_worker *worker, double cpu_s, double over_s)
{
    worker->samples = model_alloc(model, sizeof *worker->samples);
    worker->samples->cpu_ns.sum = (uint64_t)(cpu_s * 1e9);
    worker->samples->cpu_ns.intervals.used_ns = (uint64_t)(over_s * 1e9);
    worker->samples->cpu_ns.intervals.used = 1;
}

static struct lp_analysis *figures_of(struct model *model)
{
    struct lp_analysis *analysis;
    assert_int_equal(lp_analysis_make(&analysis, model->run), 0);
    return analysis;
}

static void done(struct model *model, struct lp_analysis *analysis)
{
    lp_analysis_free(analysis);
    model_free(model);
}

static void assert_about(double figure, double expected)
{
    if (!(fabs(figure - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.17g, not %.17g", figure, expected);
}

static void test_granted_is_the_least_of_all(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    struct lp_run_worker *worker = worker_on(&model, role, "a", 0, 10);
    worker->machine.cpu_limit_cores = 1.5;
    worker->machine.memory_limit_bytes = 2 * GB;
    pin(&model, worker, "4-7", 4);
    worker_on(&model, role, "b", 0, 10);
    struct lp_analysis *analysis = figures_of(&model);
    assert_about(analysis->hosts[0].cores_granted, 1.5);
    assert_about(analysis->hosts[0].memory_granted_bytes, 2e9);
    assert_about(analysis->hosts[0].cores_usable, 4);
    assert_about(analysis->hosts[1].cores_granted, 16);
    assert_about(analysis->hosts[1].memory_granted_bytes, 64e9);
    assert_true(isinf(analysis->hosts[1].cpu_limit_cores));
    done(&model, analysis);
}

static void test_pinned_processes_have_their_cores_together(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "rank");
    pin(&model, worker_on(&model, role, "a", 0, 10), "0-3", 4);
    pin(&model, worker_on(&model, role, "a", 0, 10), "2-5,9", 5);
    struct lp_analysis *analysis = figures_of(&model);
    assert_about(analysis->hosts[0].cores_usable, 7);
    assert_about(analysis->hosts[0].cores_granted, 7);
    done(&model, analysis);
    /* Which cores is not known of one: neither is what they have together. */
    model_run(&model);
    role = model_role(&model, "rank");
    pin(&model, worker_on(&model, role, "a", 0, 10), NULL, 4);
    use_cpu(&model, worker_on(&model, role, "a", 0, 10), 5, 10);
    pin(&model, &model.run->workers[1], "0-3", 4);
    analysis = figures_of(&model);
    assert_true(isnan(analysis->hosts[0].cores_granted));
    assert_true(isnan(analysis->hosts[0].cpu_cores.share));
    assert_about(analysis->hosts[0].cpu_cores.sum, 0.5);
    done(&model, analysis);
}

static void test_cpu_over_the_time_of_the_host(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    use_cpu(&model, worker_on(&model, role, "a", 0, 10), 9, 10); /* two after each other, one all the time */
    use_cpu(&model, worker_on(&model, role, "a", 10, 20), 5, 10);
    use_cpu(&model, worker_on(&model, role, "a", 0, 20), 10, 20);
    struct lp_analysis *analysis = figures_of(&model);
    const struct lp_analysis_use *cpu = &analysis->hosts[0].cpu_cores;
    assert_about(cpu->sum, 1.2);
    assert_about(cpu->share, 1.2 / 16);
    assert_about(cpu->mean, (0.9 + 0.5 + 0.5) / 3);
    assert_about(cpu->heaviest, 0.9);
    assert_int_equal(cpu->heaviest_worker, 0);
    assert_about(analysis->roles[0].cpu_cores.heaviest, 0.9);
    done(&model, analysis);
}

/* PR08: of processes that came one after another not all were there at once. */
static void test_memory_of_those_that_ran_at_once_PR08(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    worker_on(&model, role, "a", 0, 10)->peak_rss_bytes = 3 * GB;
    worker_on(&model, role, "a", 10, 20)->peak_rss_bytes = 4 * GB; /* began as the first ended */
    worker_on(&model, role, "a", 5, 15)->peak_rss_bytes = GB;
    worker_on(&model, role, "a", 30, 30)->peak_rss_bytes = 2 * GB;
    worker_on(&model, role, "a", 0, 40);
    struct lp_analysis *analysis = figures_of(&model);
    const struct lp_analysis_use *rss = &analysis->hosts[0].rss_bytes;
    assert_int_equal(rss->n_known, 4);
    assert_about(rss->sum, 5e9);
    assert_about(rss->share, 5.0 / 64);
    assert_about(rss->mean, 2.5e9);
    assert_about(rss->heaviest, 4e9);
    assert_int_equal(rss->heaviest_worker, 1);
    assert_int_equal(analysis->hosts[0].pss_bytes.n_known, 0);
    assert_true(isnan(analysis->hosts[0].pss_bytes.sum));
    done(&model, analysis);
}

static void test_what_old_files_say(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    model_worker(&model, model_role(&model, "actor"), "a");
    struct lp_analysis *analysis = figures_of(&model);
    const struct lp_analysis_host *host = &analysis->hosts[0];
    assert_false(lp_analysis_has_resources(analysis));
    assert_true(isnan(host->cores_granted) && isnan(host->memory_granted_bytes) && isnan(host->cpu_limit_cores));
    assert_true(isnan(host->cpu_cores.sum) && isnan(host->cpu_cores.mean) && isnan(host->rss_bytes.share));
    assert_int_equal(host->rss_bytes.heaviest_worker, SIZE_MAX);
    done(&model, analysis);
}

static void test_lists_that_are_none(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "x", "3-", "3-1", "0-99999999", "1,,2", "-4"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct model model = {0};
        model_run(&model);
        struct lp_run_role *role = model_role(&model, "rank");
        pin(&model, worker_on(&model, role, "a", 0, 10), lists[i], 4);
        pin(&model, worker_on(&model, role, "a", 0, 10), "0-3", 4);
        struct lp_analysis *analysis = figures_of(&model);
        assert_true(isnan(analysis->hosts[0].cores_granted));
        done(&model, analysis);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granted_is_the_least_of_all),
        cmocka_unit_test(test_pinned_processes_have_their_cores_together),
        cmocka_unit_test(test_cpu_over_the_time_of_the_host),
        cmocka_unit_test(test_memory_of_those_that_ran_at_once_PR08),
        cmocka_unit_test(test_what_old_files_say),
        cmocka_unit_test(test_lists_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

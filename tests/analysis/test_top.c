/* What happened between two readings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "analysis/top.h"
#include "model/model.h"

#define assert_near(value, expected) assert_true(fabs((value) - (expected)) < 1e-9)

/* Two readings of one run, a second apart unless a test says otherwise. */
struct readings {
    struct model models[2];
    struct lp_top_reading before, after;
    struct lp_top *top;
};

static struct lp_run_role *role_in(struct model *model, const char *name)
{
    return model->run->n_roles > 0 ? &model->run->roles[0] : model_role(model, name);
}

static void begin(struct readings *readings)
{
    for (int i = 0; i < 2; i++) {
        model_run(&readings->models[i]);
        role_in(&readings->models[i], "actor");
    }
    readings->before = (struct lp_top_reading){.run = readings->models[0].run, .boot_id = "b0"};
    readings->after = (struct lp_top_reading){.run = readings->models[1].run, .boot_id = "b0"};
    readings->before.taken.monotonic_ns = 100 * S;
    readings->after.taken.monotonic_ns = 101 * S;
}

static void make(struct readings *readings)
{
    assert_int_equal(lp_top_make(&readings->top, &readings->after, &readings->before), 0);
}

static void end(struct readings *readings)
{
    lp_top_free(readings->top);
    model_free(&readings->models[0]);
    model_free(&readings->models[1]);
}

static struct lp_run_worker *add_worker(struct model *model, const char *name, uint64_t written_ns)
{
    struct lp_run_worker *worker = model_worker(model, &model->run->roles[0], "node07");
    worker->worker = model_text(model, name);
    worker->boot_id = model_string(model, "b0");
    worker->closed = false;
    worker->source = LP_SOURCE_LIVE_IMAGE;
    worker->started.monotonic_ns = 10 * S;
    worker->written.monotonic_ns = written_ns;
    worker->root_cpu_known = true;
    return worker;
}

/* A live worker in both readings. */
static void add_live(struct readings *readings, const char *name)
{
    for (int i = 0; i < 2; i++)
        add_worker(&readings->models[i], name, (uint64_t)(100 + i) * S);
}

static struct lp_run_phase *add_phase(struct readings *readings, const char *name, uint64_t wall_before_ns,
                                      uint64_t wall_after_ns)
{
    uint64_t wall_ns[] = {wall_before_ns, wall_after_ns};
    struct lp_run_phase *phase = NULL;
    for (int i = 0; i < 2; i++) {
        phase = model_phase(&readings->models[i], readings->models[i].run->roles[0].tree, name);
        phase->wall_ns = phase->ended_wall_ns = wall_ns[i];
        phase->cpu_ns = wall_ns[i] / 4;
        phase->calls = wall_ns[i] / (10 * MS);
    }
    return phase;
}

static void test_an_interval(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_live(&readings, "w2");
    struct lp_run_phase *step = add_phase(&readings, "step", 50 * S, 51 * S + 200 * MS);
    step->child_wall_ns = 300 * MS;
    model_counter(&readings.models[1], step, "games", 500, 5);
    for (int i = 0; i < 2; i++) {
        readings.models[1].run->workers[i].root_wall_ns = 600 * MS;
        readings.models[1].run->workers[i].root_cpu_ns = 150 * MS;
        readings.models[1].run->workers[i].calls = 60;
    }
    const double rss[] = {8e6, NAN};
    readings.after.rss_bytes = rss;
    make(&readings);
    assert_int_equal(readings.top->interval_ns, S);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_int_equal(role->worker_ns, 2 * S);
    assert_int_equal(role->n_running, 2);
    assert_near(role->share, 0.6);
    assert_near(role->wait_share, 0.75);
    assert_near(role->calls_per_s, 120);
    assert_false(role->rates_estimated);
    const struct lp_top_phase *phase = &role->phases[0];
    assert_int_equal(phase->wall_ns, 1200 * MS);
    assert_near(phase->share, 0.6);
    assert_near(phase->self_share, 0.45);
    assert_near(phase->wait_share, 0.75);
    assert_near(phase->calls_per_s, 120);
    assert_near(phase->each_ns, 10e6);
    assert_int_equal(phase->n_counters, 1);
    assert_near(role->counters[phase->counters].per_s, 500);
    const struct lp_top_worker *worker = &readings.top->workers[0];
    assert_int_equal(worker->state, LP_TOP_LIVE);
    assert_near(worker->share, 0.6);
    assert_near(worker->wait_share, 0.75);
    assert_near(worker->calls_per_s, 60);
    assert_near(worker->rss_bytes, 8e6);
    assert_true(isnan(readings.top->workers[1].rss_bytes));
    end(&readings);
}

static void test_what_did_not_change_is_zero(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_phase(&readings, "load", 5 * S, 5 * S);
    make(&readings);
    const struct lp_top_phase *phase = &readings.top->roles[0].phases[0];
    assert_true(phase->idle);
    assert_near(phase->share, 0);
    assert_near(phase->calls_per_s, 0);
    assert_true(isnan(phase->wait_share)); /* Of no time. */
    assert_true(isnan(phase->each_ns));
    assert_near(readings.top->workers[0].share, 0);
    end(&readings);
}

static void test_figures_in_flight_never_go_below_zero(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_phase(&readings, "step", 5 * S + 10, 5 * S);
    readings.models[0].run->workers[0].root_wall_ns = 5 * S + 10;
    readings.models[1].run->workers[0].root_wall_ns = 5 * S;
    make(&readings);
    assert_int_equal(readings.top->roles[0].phases[0].wall_ns, 0);
    assert_near(readings.top->workers[0].share, 0);
    end(&readings);
}

static void test_a_phase_is_within_the_one_around_it(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_phase(&readings, "loop", S, 2 * S);
    struct lp_run_phase *late = NULL, *step = NULL;
    for (uint64_t i = 0; i < 2; i++) {
        struct lp_run_phase *loop = readings.models[i].run->roles[0].tree->children[0];
        late = model_phase(&readings.models[i], loop, "late");
        late->wall_ns = i * (S + 500 * MS);
        late->late_wall_ns = i * 400 * MS;
        step = model_phase(&readings.models[i], loop, "step");
        step->wall_ns = i * (S + 2 * MS); /* one ended as it was read, 2 ms after the moment of the reading */
    }
    make(&readings);
    assert_near(readings.top->roles[0].phases[0].share, 1);
    assert_near(readings.top->roles[0].phases[1].share, 1.4); /* beyond the end of the one around it */
    assert_near(readings.top->roles[0].phases[2].share, 1);
    step->estimated = true; /* sampled: what was not measured may be more */
    lp_top_free(readings.top);
    make(&readings);
    assert_near(readings.top->roles[0].phases[2].share, 1.002);
    end(&readings);
}

/* Of another node: known by what it wrote last. */
static void test_a_file_that_was_not_written_since(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    for (int i = 0; i < 2; i++) {
        struct lp_run_worker *far = add_worker(&readings.models[i], "w2", 73 * S);
        far->source = LP_SOURCE_FILE;
        far->boot_id = model_string(&readings.models[i], "b1");
        far->written.realtime_ns = 1000 * S;
    }
    add_phase(&readings, "step", 0, 500 * MS);
    readings.after.taken.realtime_ns = 1028 * S;
    make(&readings);
    const struct lp_top_worker *far = &readings.top->workers[1];
    assert_int_equal(far->state, LP_TOP_SILENT);
    assert_int_equal(far->interval_ns, 0);
    assert_int_equal(far->age_ns, 28 * S);
    assert_true(isnan(far->share));
    assert_true(isnan(far->calls_per_s));
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_int_equal(role->n_running, 2);
    assert_int_equal(role->n_seen, 1);
    assert_near(role->phases[0].share, 0.5); /* Of the one that is seen. */
    assert_int_equal(readings.top->n_live, 1);
    assert_int_equal(readings.top->n_file, 1);
    end(&readings);
}

static void test_no_worker_wrote(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    for (int i = 0; i < 2; i++)
        add_worker(&readings.models[i], "w1", 73 * S)->source = LP_SOURCE_FILE;
    add_phase(&readings, "step", 5 * S, 5 * S);
    make(&readings);
    assert_true(isnan(readings.top->roles[0].share));
    assert_true(isnan(readings.top->roles[0].calls_per_s));
    assert_true(isnan(readings.top->roles[0].phases[0].share));
    assert_true(isnan(readings.top->roles[0].phases[0].calls_per_s));
    end(&readings);
}

/* A flush of 30 s met by a reading of 1 s: shares are of both workers' time, rates are marked. */
static void test_intervals_of_different_length(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    for (int i = 0; i < 2; i++)
        add_worker(&readings.models[i], "w2", (uint64_t)(70 + 30 * i) * S)->source = LP_SOURCE_FILE;
    add_phase(&readings, "step", 0, 15 * S + 500 * MS); /* Both half of their time: 1,550 entries in 31 s. */
    readings.models[1].run->workers[0].calls = 50;
    readings.models[1].run->workers[1].calls = 1500;
    make(&readings);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_int_equal(role->worker_ns, 31 * S);
    assert_near(role->phases[0].share, 0.5);
    assert_near(role->phases[0].calls_per_s, 100);
    assert_near(role->calls_per_s, 100);
    assert_true(role->rates_estimated);
    end(&readings);
}

static void test_one_that_appeared(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    struct lp_run_worker *new = add_worker(&readings.models[1], "w2", 101 * S);
    new->started.monotonic_ns = 100 * S + 500 * MS;
    new->root_wall_ns = 250 * MS;
    new->calls = 25;
    add_phase(&readings, "step", 10 * S, 10 * S + 750 * MS);
    make(&readings);
    const struct lp_top_worker *worker = &readings.top->workers[1];
    assert_int_equal(worker->state, LP_TOP_NEW);
    assert_true(worker->changed);
    assert_int_equal(worker->interval_ns, 500 * MS);
    assert_near(worker->share, 0.5);
    assert_near(worker->calls_per_s, 50);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_near(role->phases[0].share, 0.5);
    assert_near(role->phases[0].calls_per_s, 75); /* In the one second that passed. */
    assert_false(role->rates_estimated);
    end(&readings);
}

static void test_one_that_closed(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_worker(&readings.models[0], "w1", 100 * S);
    struct lp_run_worker *closed = add_worker(&readings.models[1], "w1", 100 * S + 400 * MS);
    closed->closed = true;
    closed->source = LP_SOURCE_FILE;
    closed->root_wall_ns = 200 * MS;
    make(&readings);
    const struct lp_top_worker *worker = &readings.top->workers[0];
    assert_int_equal(worker->state, LP_TOP_CLOSED);
    assert_true(worker->changed);
    assert_near(worker->share, 0.5);
    assert_int_equal(worker->age_ns, 600 * MS);
    assert_int_equal(readings.top->roles[0].n_running, 0);
    end(&readings);
    begin(&readings);
    for (int i = 0; i < 2; i++) {
        struct lp_run_worker *long_ago = add_worker(&readings.models[i], "w1", 50 * S);
        long_ago->closed = true;
        long_ago->source = LP_SOURCE_FILE;
    }
    make(&readings);
    assert_false(readings.top->workers[0].changed);
    assert_true(isnan(readings.top->workers[0].share));
    end(&readings);
}

/* What it had open is settled when it was last seen: the sums of its role went back, and tell nothing. */
static void test_one_that_died(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    readings.models[1].run->workers[0].root_wall_ns = S;
    add_worker(&readings.models[0], "w2", 100 * S)->root_wall_ns = 40 * S;
    struct lp_run_worker *dead = add_worker(&readings.models[1], "w2", 80 * S);
    dead->source = LP_SOURCE_DEAD_IMAGE;
    dead->root_wall_ns = 20 * S;
    add_phase(&readings, "step", 60 * S, 41 * S);
    make(&readings);
    const struct lp_top_worker *worker = &readings.top->workers[1];
    assert_int_equal(worker->state, LP_TOP_DIED);
    assert_true(worker->changed);
    assert_int_equal(worker->age_ns, 21 * S);
    assert_true(isnan(worker->share));
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_true(role->stepped_back);
    assert_true(isnan(role->phases[0].share));
    assert_true(isnan(role->phases[0].calls_per_s));
    assert_near(role->share, 1); /* Of the one that lives. */
    assert_int_equal(readings.top->n_died, 1);
    end(&readings);
}

static void test_one_that_is_gone(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_worker(&readings.models[0], "w2", 100 * S);
    add_phase(&readings, "step", 60 * S, 41 * S);
    make(&readings);
    assert_int_equal(readings.top->n_workers, 2);
    assert_int_equal(readings.top->n_gone, 1);
    assert_int_equal(readings.top->workers[1].state, LP_TOP_GONE);
    assert_string_equal(readings.top->workers[1].worker->worker.bytes, "w2");
    assert_true(readings.top->roles[0].stepped_back);
    assert_true(isnan(readings.top->roles[0].phases[0].share));
    end(&readings);
}

static void test_cpu_that_was_not_measured(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    struct lp_run_phase *none = add_phase(&readings, "none", 0, 400 * MS);
    none->cpu_known = false;
    struct lp_run_phase *half = add_phase(&readings, "half", 0, 400 * MS); /* 100 ms of CPU time in 200 ms. */
    half->nocpu_wall_ns = 200 * MS;
    readings.models[1].run->workers[0].root_cpu_known = false;
    readings.models[1].run->workers[0].root_wall_ns = 800 * MS;
    make(&readings);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_true(isnan(role->phases[0].wait_share));
    assert_near(role->phases[1].wait_share, 0.5);
    assert_true(isnan(readings.top->workers[0].wait_share));
    assert_near(readings.top->workers[0].share, 0.8);
    end(&readings);
}

static void test_a_threads_name_has_no_calls(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    struct lp_run_phase *thread = add_phase(&readings, "collector", 0, 400 * MS);
    thread->is_thread = true;
    struct lp_run_phase *drain = model_phase(&readings.models[1], thread, "drain");
    model_entries(&readings.models[1], drain, 4, 100 * MS, 0.5);
    model_sampled(drain, 2, 2);
    make(&readings);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_true(isnan(role->phases[0].calls_per_s));
    assert_near(role->phases[0].share, 0.4);
    assert_true(role->phases[0].self_estimated);
    assert_int_equal(role->phases[1].parent, 0);
    assert_near(role->phases[1].calls_per_s, 4);
    end(&readings);
}

static void test_counters_of_all_kinds(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    for (int i = 0; i < 2; i++) {
        struct lp_run_phase *root = readings.models[i].run->roles[0].tree;
        model_counter(&readings.models[i], root, "balance", i == 0 ? 10 : -20, (uint64_t)(1 + i));
    }
    make(&readings);
    const struct lp_top_role *role = &readings.top->roles[0];
    assert_int_equal(role->n_root_counters, 1);
    assert_near(role->counters[0].per_s, -30);
    end(&readings);
}

static void test_the_first_reading(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_phase(&readings, "step", 0, 400 * MS);
    assert_int_equal(lp_top_make(&readings.top, &readings.after, NULL), 0);
    assert_int_equal(readings.top->interval_ns, 0);
    assert_int_equal(readings.top->workers[0].state, LP_TOP_LIVE);
    assert_false(readings.top->workers[0].changed);
    assert_true(isnan(readings.top->roles[0].phases[0].share));
    end(&readings);
}

static void test_another_attempt(void **state)
{
    (void)state;
    struct readings readings = {0};
    begin(&readings);
    add_live(&readings, "w1");
    add_phase(&readings, "step", 0, 400 * MS);
    readings.models[1].run->run_id = model_text(&readings.models[1], "other");
    make(&readings);
    assert_true(readings.top->restarted);
    assert_int_equal(readings.top->n_workers, 1);
    assert_true(isnan(readings.top->roles[0].phases[0].share));
    end(&readings);
}

static void test_how_long_an_interval_must_be(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    model_role(&model, "actor");
    add_worker(&model, "w1", S);
    assert_int_equal(lp_top_span_ns(model.run), 0);
    add_worker(&model, "w2", S)->source = LP_SOURCE_FILE; /* Every 30 s. */
    uint64_t span_ns = lp_top_span_ns(model.run);
    assert_true(span_ns > 30 * S && span_ns < 40 * S);
    struct lp_run_worker *never = add_worker(&model, "w3", S);
    never->source = LP_SOURCE_FILE;
    never->snapshot_interval_s = 1e12;
    assert_int_equal(lp_top_span_ns(model.run), LP_TOP_SPAN_MAX_NS);
    for (size_t i = 0; i < model.run->n_workers; i++)
        model.run->workers[i].stale = true;
    assert_int_equal(lp_top_span_ns(model.run), 0);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_interval),
        cmocka_unit_test(test_what_did_not_change_is_zero),
        cmocka_unit_test(test_figures_in_flight_never_go_below_zero),
        cmocka_unit_test(test_a_phase_is_within_the_one_around_it),
        cmocka_unit_test(test_a_file_that_was_not_written_since),
        cmocka_unit_test(test_no_worker_wrote),
        cmocka_unit_test(test_intervals_of_different_length),
        cmocka_unit_test(test_one_that_appeared),
        cmocka_unit_test(test_one_that_closed),
        cmocka_unit_test(test_one_that_died),
        cmocka_unit_test(test_one_that_is_gone),
        cmocka_unit_test(test_cpu_that_was_not_measured),
        cmocka_unit_test(test_a_threads_name_has_no_calls),
        cmocka_unit_test(test_counters_of_all_kinds),
        cmocka_unit_test(test_the_first_reading),
        cmocka_unit_test(test_another_attempt),
        cmocka_unit_test(test_how_long_an_interval_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

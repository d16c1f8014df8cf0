/* Whole reports, as a reader sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/emit.h"
#include "model/model.h"
#include "report/report.h"
#include "run/samples.h"

#define RULE "────────────────────────────────────────────────────────────────────────────────\n"
#define RULE_100 "────────────────────" RULE

static struct lp_buffer report;

static const char *write_report(struct model *model, struct lp_report_options options)
{
    struct lp_analysis *analysis;
    assert_int_equal(lp_analysis_make(&analysis, model->run), 0);
    struct lp_report_sink sink;
    report.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &report);
    assert_int_equal(lp_report_text.write(analysis, &options, &sink), 0);
    lp_analysis_free(analysis);
    model_free(model);
    return report.bytes;
}

#define assert_report(model, golden) assert_string_equal(write_report(model, (struct lp_report_options){0}), golden)

static int release(void **state)
{
    (void)state;
    free(report.bytes);
    return 0;
}

/* The example of the documentation: sixteen actors and a learner. K1-K4. */
static void build_actors(struct model *model)
{
    model_run(model);
    struct lp_run_role *actor = model_role(model, "actor");
    for (int i = 0; i < 16; i++)
        model_worker(model, actor, i < 8 ? "node07" : "node08")->root_wall_ns = 11 * M;
    model->run->workers[5].rank = 5;
    model->run->workers[5].root_wall_ns = 14 * M;
    actor->imbalance = 1.25;
    struct lp_run_phase *play = model_phase(model, actor->tree, "self_play");
    struct lp_run_phase *env = model_phase(model, play, "env_step");
    struct lp_run_phase *mcts = model_phase(model, play, "mcts");
    model_entries(model, mcts, 963000, 9400 * US, 0.18);
    model_entries(model, mcts, 10000, 18500 * US, 0.18);
    model_entries(model, env, 100000, 19 * MS, 0.02);
    model_counter(model, mcts, "mcts_simulations", 62272000, 973000);
    model_entries(model, play, 1200, 9340 * MS, 0.15);
    struct lp_run_role *learner = model_role(model, "learner");
    model_worker(model, learner, "node07");
    model_entries(model, model_phase(model, learner->tree, "train_step"), 250000, 41200 * US, 0.04);
}

static void test_the_documented_example(void **state)
{
    (void)state;
    struct model model = {0};
    build_actors(&model);
    assert_report(&model, "Runtime 4h 12m   Processes 17   Roles actor x16, learner x1\n"
                          "Hosts node07, node08 (2 nodes)   Run 20260813T2241-471c94\n"
                          "\n"
                          "ACTOR  (16 processes, imbalance 1.25)\n" RULE
                          "mcts                           82.4%       2h 34m   █████████████████████▍\n"
                          "env_step                       17.0%      31m 40s   ████▍\n"
                          "Other                           0.6%       1m 11s   ▏\n"
                          "  % of 3h 07m in phases, summed over 16 processes; phases in self_play\n"
                          "  imbalance: rank 5 on node07 spent 14m in phases, the mean process 11m 11s\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "self_play/mcts                    2h 34m     18%     8.9ms    16.8ms     973,000\n"
                          "    + mcts_simulations      62,272,000     6,741.4/s   148.3us/ea      always 64\n"
                          "self_play/env_step               31m 40s      2%    19.9ms    21.0ms     100,000\n"
                          "  and 1 more phase with 1m 11s of self time, 0.6% of the time in phases\n"
                          "\n"
                          "ITERATIONS  (1,200 entries)  self_play\n"
                          "  mean       9.3s   p50       9.1s   p95       9.6s   p99       9.7s\n"
                          "\n"
                          "LEARNER  (1 process, imbalance 1.00)\n" RULE
                          "train_step                    100.0%       2h 52m   ██████████████████████████\n"
                          "  % of 2h 52m in phases\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "train_step                        2h 52m      4%    39.8ms    41.9ms     250,000\n"
                          "\n"
                          "ITERATIONS  (250,000 entries)  train_step\n"
                          "  mean     41.2ms   p50     39.8ms   p95     41.7ms   p99     41.9ms\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "  + counter   total; rate per second of its phase's wall time; that time for\n"
                          "              each one; what one count() added\n");
}

/* The example of the documentation with thread_names=True (G4). */
static void test_two_threads(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "learner");
    model_worker(&model, role, "node07")->threads = 2;
    struct lp_run_phase *collector = model_phase(&model, role->tree, "collector");
    struct lp_run_phase *learner = model_phase(&model, role->tree, "learner");
    struct lp_run_phase *drain = model_phase(&model, collector, "drain_queue");
    struct lp_run_phase *train = model_phase(&model, learner, "train_step");
    struct lp_run_phase *log = model_phase(&model, learner, "log");
    model_entries(&model, train, 250000, 41200 * US, 0.04);
    model_entries(&model, log, 2500, 150 * MS, 0.5);
    model_entries(&model, drain, 1970000, 2100 * US, 0.94);
    model_entries(&model, drain, 20000, 15 * MS, 0.99);
    collector->is_thread = learner->is_thread = true;
    collector->wall_ns = collector->child_wall_ns;
    learner->wall_ns = learner->child_wall_ns;
    collector->cpu_ns = drain->cpu_ns;
    learner->cpu_ns = train->cpu_ns + log->cpu_ns;
    assert_report(&model, "Runtime 4h 12m   Processes 1   Roles learner x1\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "LEARNER  (1 process, imbalance 1.00)\n" RULE
                          "learner                        70.6%       2h 58m   ██████████████████▍\n"
                          "collector                      29.4%       1h 14m   ███████▋\n"
                          "  % of 4h 12m in phases, summed over 2 threads\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "learner/train_step                2h 52m      4%    39.8ms    41.9ms     250,000\n"
                          "collector/drain_queue             1h 14m     94%     2.2ms    14.7ms   1,990,000\n"
                          "learner/log                       6m 15s     50%   142.6ms   150.8ms       2,500\n"
                          "\n"
                          "ITERATIONS  (1,990,000 entries)  collector/drain_queue\n"
                          "  mean      2.2ms   p50      2.2ms   p95      2.3ms   p99     14.7ms\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n");
}

/* EX10: a run in progress - open phases, one of them without a finished entry. */
static void test_a_run_that_is_still_going(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_run *run = model_run(&model);
    run->live = true;
    run->runtime_ns = 10 * S;
    struct lp_run_role *role = model_role(&model, "main");
    model_worker(&model, role, "node07")->threads = 2;
    struct lp_run_phase *epoch = model_phase(&model, role->tree, "epoch");
    struct lp_run_phase *step = model_phase(&model, epoch, "step");
    model_entries(&model, step, 4, 2 * S, 0.5);
    step->open_calls = 2;
    step->open_wall_ns = 1 * S;
    step->wall_ns += 1 * S;
    epoch->child_wall_ns += 1 * S;
    epoch->open_calls = 1;
    epoch->open_wall_ns = epoch->wall_ns = 9500 * MS;
    epoch->cpu_ns = 5 * S;
    model_caveat(&model, "open", "1 worker is still running");
    assert_report(&model, "Runtime 10.0s so far, still running   Processes 1   Roles main x1\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "MAIN  (1 process, imbalance 1.00)\n" RULE
                          "step                           94.7%         9.0s   ████████████████████████▋\n"
                          "Other                           5.3%      500.0ms   █▍\n"
                          "  % of 9.5s in phases, summed over 2 threads; phases in epoch\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "epoch/step                          9.0s     56%      1.9s      2.0s         4+2\n"
                          "epoch                            500.0ms     47%       n/a       n/a         0+1\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "  entries +n  still open: their time so far is in self and wait, not in p50 and\n"
                          "              p99\n"
                          "\n"
                          "CAVEATS\n" RULE "  - 1 worker is still running\n");
}

/* B7: measure_cpu=False in one role, in some workers of the other. */
static void test_cpu_that_was_not_measured(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "Loader");
    model_worker(&model, role, "node07");
    struct lp_run_phase *none = model_phase(&model, role->tree, "fetch");
    model_entries(&model, none, 10, 5 * MS, 0);
    none->cpu_known = false;
    struct lp_run_phase *some = model_phase(&model, role->tree, "decode");
    model_entries(&model, some, 10, 2 * MS, 0.25);
    some->nocpu_wall_ns = 10 * MS;
    some->cpu_ns = 0;
    struct lp_run_role *other = model_role(&model, "loader");
    model_worker(&model, other, "node07");
    assert_report(&model, "Runtime 4h 12m   Processes 2   Roles Loader x1, loader x1\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "Loader  (1 process, imbalance 1.00)\n" RULE
                          "fetch                          71.4%       50.0ms   ██████████████████▋\n"
                          "decode                         28.6%       20.0ms   ███████▍\n"
                          "  % of 70.0ms in phases\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "fetch                             50.0ms     n/a     5.0ms     5.2ms          10\n"
                          "decode                            20.0ms    100%     2.0ms     2.1ms          10\n"
                          "\n"
                          "ITERATIONS  (10 entries)  fetch\n"
                          "  mean      5.0ms   p50      5.0ms   p95      5.2ms   p99      5.2ms\n"
                          "\n"
                          "loader  (1 process, imbalance 1.00)\n" RULE "no phases recorded\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "              (of that part of it for which CPU time was measured)\n"
                          "  wait n/a    not measured: there are no CPU times for it\n");
}

/* Sixteen actors on eight cores, a slow queue, and what nobody measured; the largest part first. */
static void test_why_a_phase_waited(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double wait, blocked, preempted;
        bool no_blocked;
    } phases[] = {
        {"mcts", 0.6, 0.06, 0.52, false},    {"queue_wait", 0.6, 0.59, 0.01, false}, {"await", 0.9, 0.02, 0.001, false},
        {"no_schedstat", 0.5, 0, 0.3, true}, {"unknown", 0.5, 0, 0, false},          {"busy", 0.05, 0.05, 0, false},
    };
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    model_worker(&model, role, "node07");
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        struct lp_run_phase *phase = model_phase(&model, role->tree, phases[i].name);
        model_entries(&model, phase, 2, 1 * S, phases[i].wait);
        phase->blocked_ns = (uint64_t)(phases[i].blocked * 2 * (double)S);
        phase->preempted_ns = (uint64_t)(phases[i].preempted * 2 * (double)S);
        phase->blocked_known = !phases[i].no_blocked;
        phase->preempted_known = true;
    }
    const char *text = write_report(&model, (struct lp_report_options){0});
    const char *dominant = strstr(text, "DOMINANT PHASES");
    assert_non_null(dominant);
    assert_string_equal(dominant, "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                                  "mcts                                2.0s     60%   973.1ms      1.0s           2\n"
                                  "    wait 60%: 52% preempted - more busy threads than cores; 6% blocked\n"
                                  "queue_wait                          2.0s     60%   973.1ms      1.0s           2\n"
                                  "    wait 60%: 59% blocked; 1% preempted\n"
                                  "await                               2.0s     90%   973.1ms      1.0s           2\n"
                                  "    wait 90%: 2% blocked; 88% not known\n"
                                  "no_schedstat                        2.0s     50%   973.1ms      1.0s           2\n"
                                  "    wait 50%: 30% preempted - more busy threads than cores; 20% not known\n"
                                  "unknown                             2.0s     50%   973.1ms      1.0s           2\n"
                                  "busy                                2.0s      5%   973.1ms      1.0s           2\n"
                                  "\n"
                                  "  self        wall time outside child phases, summed over processes and threads\n"
                                  "  wait        % of the phase's wall time, child phases included, that its thread\n"
                                  "              spent off the CPU\n"
                                  "  wait n%:    why: blocked, the thread had given its core up; preempted, it\n"
                                  "              could have run but found no core; not known, mostly as it switched\n"
                                  "              too often to ask; % of the same wall time\n");
}

static void test_device_times_and_submissions_H7(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "trainer");
    model_worker(&model, role, "node07");
    struct lp_run_phase *phase = model_phase(&model, role->tree, "iteration");
    model_entries(&model, phase, 60, 1 * S, 0.1);
    struct lp_run_phase *forward = model_phase(&model, phase, "forward");
    model_entries(&model, forward, 60, 3 * MS, 0.1); /* of next to no self time, but not left out */
    model_device_time(&model, forward, 59, 687 * MS);
    struct lp_run_phase *unknown = model_phase(&model, phase, "unknown");
    model_entries(&model, unknown, 60, 100 * MS, 0.1);
    model_device_time(&model, unknown, 0, 0);
    struct lp_run_phase *send = model_phase(&model, phase, "send");
    model_entries(&model, send, 60, 50 * MS, 0.1);
    send->async_work = true;
    const char *text = write_report(&model, (struct lp_report_options){0});
    const char *dominant = strstr(text, "DOMINANT PHASES");
    assert_non_null(dominant);
    assert_string_equal(dominant,
                        "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                        "iteration                          50.8s     10%   973.1ms      1.0s          60\n"
                        "iteration/unknown                   6.0s     10%    96.5ms   100.6ms          60\n"
                        "    gpu n/a; 0 of 60 known\n"
                        "iteration/send\xe2\x80\xa0                     3.0s     10%    48.2ms    50.3ms          60\n"
                        "iteration/forward                180.0ms     10%     3.0ms     3.1ms          60\n"
                        "    gpu 687.0ms/ea, p50 704.6ms, p99 737.5ms; 40.5s in all; 59 of 60 known\n"
                        "\n"
                        "ITERATIONS  (60 entries)  iteration\n"
                        "  mean       1.0s   p50    973.1ms   p95       1.0s   p99       1.0s\n"
                        "\n"
                        "  self        wall time outside child phases, summed over processes and threads\n"
                        "  wait        % of the phase's wall time, child phases included, that its thread\n"
                        "              spent off the CPU\n"
                        "  gpu         time from the beginning of what an entry enqueued to its end, on\n"
                        "              its stream of the device, gaps included; in no other figure here\n"
                        "  gpu n/a     of no entry known: no CUDA was in use where it ran, or a framework\n"
                        "              that does not tell its stream (docs/gpu.md)\n"
                        "  \xe2\x80\xa0           wall time of submission only: the work itself runs elsewhere, or\n"
                        "              later\n");
}

static void test_a_process_is_named_as_other_tools_do(void **state)
{
    (void)state;
    struct model model = {0};
    build_actors(&model);
    model.run->workers[5].rank = -1;
    model.run->workers[5].pid = 11794;
    const char *text = write_report(&model, (struct lp_report_options){0});
    assert_non_null(strstr(text, "  imbalance: pid 11794 on node07 spent 14m in phases"));
    struct model of_many = {0}; /* environments of one learner, whose rank is none of their own */
    build_actors(&of_many);
    of_many.run->workers[5].rank = -1;
    of_many.run->workers[5].index = 3;
    text = write_report(&of_many, (struct lp_report_options){0});
    assert_non_null(strstr(text, "  imbalance: index 3 on node07 spent 14m in phases"));
}

/* G2 */
static void test_estimates_say_so(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    model_worker(&model, role, "node07");
    model_worker(&model, role, "node07");
    role->imbalance = 1;
    struct lp_run_phase *search = model_phase(&model, role->tree, "uct_search");
    struct lp_run_phase *expand = model_phase(&model, search, "expand");
    struct lp_run_phase *select = model_phase(&model, search, "select");
    struct lp_run_phase *backup = model_phase(&model, search, "backup_of_all_the_values_to_the_root");
    model_entries(&model, expand, 10000, 150 * US, 0.1);
    model_entries(&model, select, 10000, 90 * US, 0.1);
    model_entries(&model, backup, 10000, 60 * US, 0.1);
    model_sampled(expand, 100, 100);
    model_sampled(select, 1, 100);
    model_sampled(backup, 10, 1000);
    model_counter(&model, select, "visits", 1000000, 10000);
    model_entries(&model, search, 40, 100 * MS, 0.1);
    struct lp_run_phase *log = model_phase(&model, role->tree, "log");
    model_entries(&model, log, 400, 1 * MS, 0);
    model_sampled(log, 2, 2);
    assert_report(&model, "Runtime 4h 12m   Processes 2   Roles actor x2\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "ACTOR  (2 processes, imbalance 1.00)\n" RULE
                          "uct_search                     90.9%         4.0s   ███████████████████████▋\n"
                          "~log                            9.1%      400.0ms   ██▍\n"
                          "  % of 4.4s in phases, summed over 2 processes\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "~uct_search/expand                  1.5s     10%   155.6us   163.7us      10,000\n"
                          "uct_search                         ~1.0s     10%    96.5ms   100.6ms          40\n"
                          "~uct_search/select               900.0ms     10%    86.0us    90.0us      10,000\n"
                          "    + visits                 1,000,000 1,111,111.1/s     900ns/ea     always 100\n"
                          "~…f_all_the_values_to_the_root   600.0ms     10%    59.4us    61.4us      10,000\n"
                          "~log                             400.0ms      0%     1.0ms     1.0ms         400\n"
                          "\n"
                          "  ~ = estimated from a sample, not measured. Totals are scaled by the rate:\n"
                          "      uct_search              self time only: a phase in it is sampled\n"
                          "      uct_search/expand       1 entry in 100\n"
                          "      uct_search/select       partly 1 entry in 100\n"
                          "      …t_search/backup_of_all_the_values_to_the_root 1 entry in 10 to 1,000\n"
                          "      log                     1 entry in 2\n"
                          "\n"
                          "ITERATIONS  (~400 entries)  log\n"
                          "  mean      1.0ms   p50      1.0ms   p95      1.0ms   p99      1.0ms\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "  + counter   total; rate per second of its phase's wall time; that time for\n"
                          "              each one; what one count() added\n");
}

/* Also where the sampled ones are too small for rows of their own. */
static void test_estimates_in_sums_say_so(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "actor");
    model_worker(&model, role, "node07");
    for (int i = 0; i < 14; i++) {
        char name[] = {'p', (char)('a' + i), '\0'};
        struct lp_run_phase *phase = model_phase(&model, role->tree, name);
        model_entries(&model, phase, 1, i < 10 ? 1 * S : 1 * MS, 0);
        if (i == 12)
            model_sampled(phase, 10, 10);
    }
    const char *text = write_report(&model, (struct lp_report_options){0});
    assert_non_null(strstr(text, "\n~4 more phases                 <0.1%        4.0ms"));
    assert_non_null(strstr(text, "\n  and 4 more phases with ~4.0ms of self time"));
    assert_non_null(strstr(text, "\n  ~ = estimated from a sample"));
    assert_null(strstr(text, "1 entry in 10"));
}

static void test_workers_without_phases(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_run *run = model_run(&model);
    run->runtime_ns = 0;
    struct lp_run_role *idle = model_role(&model, "evaluator");
    model_worker(&model, idle, "node07");
    struct lp_run_role *counts = model_role(&model, "");
    model_worker(&model, counts, "node07");
    struct lp_run_counter *counter = model_counter(&model, counts->tree, "requests", 12, 8);
    counter->min = 1;
    counter->max = 3;
    assert_report(&model, "Runtime 0ns   Processes 2   Roles evaluator x1, (no name) x1\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "EVALUATOR  (1 process, imbalance 1.00)\n" RULE "no phases recorded\n"
                          "\n"
                          "(no name)  (1 process, imbalance 1.00)\n" RULE "no phases recorded\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "(outside any phase)\n"
                          "    + requests                      12                                      1..3\n"
                          "\n"
                          "  + counter   total; rate per second of its phase's wall time; that time for\n"
                          "              each one; what one count() added\n");
}

/* K12, NM01: names that hold anything, and long ones; the page keeps its columns. */
static void test_nasty_names(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_run *run = model_run(&model);
    run->run_id = model_text(&model, "run\nid");
    struct lp_run_role *role = model_role(&model, "acteur-modèle\x1b[31m");
    model_worker(&model, role, "host\x07");
    struct lp_run_phase *nul = model_phase_bytes(&model, role->tree, "a\0b", 3);
    struct lp_run_phase *wide = model_phase(&model, role->tree, "训练步骤训练步骤训练步骤训练步骤训练步骤");
    struct lp_run_phase *lone = model_phase(&model, role->tree, "\xed\xb3\xbf/\xff");
    model_entries(&model, nul, 1, 3 * S, 0);
    model_entries(&model, wide, 1, 2 * S, 0);
    model_entries(&model, lone, 1, 1 * S, 0);
    model_counter(&model, nul, "tab\tbell\x07 and a name that is far too long for its column", 1, 1);
    assert_report(&model, "Runtime 4h 12m   Processes 1   Roles acteur-modèle�[31m x1\n"
                          "Hosts host� (1 node)   Run run�id\n"
                          "\n"
                          "acteur-modèle�[31m  (1 process, imbalance 1.00)\n" RULE
                          "a�b                            50.0%         3.0s   █████████████\n"
                          "…步骤训练步骤训练步骤训练步骤  33.3%         2.0s   ████████▋\n"
                          "�/�                            16.7%         1.0s   ████▍\n"
                          "  % of 6.0s in phases\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "a�b                                 3.0s      0%      3.0s      3.0s           1\n"
                          "    + … far too long for its column  1         0.3/s      3.0s/ea       always 1\n"
                          "…步骤训练步骤训练步骤训练步骤       2.0s      0%      2.0s      2.0s           1\n"
                          "�/�                                 1.0s      0%      1.0s      1.0s           1\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "  + counter   total; rate per second of its phase's wall time; that time for\n"
                          "              each one; what one count() added\n");
}

/* The report's first line, of a run of three workers, some unreadable files and some workers beside the run. */
static const char *first_line(size_t n_unreadable, size_t n_beside)
{
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    for (int i = 0; i < 3; i++)
        model_worker(&model, role, "node07");
    for (size_t i = 0; i < n_unreadable; i++)
        model_unreadable(&model, "w.json", "ends in the middle");
    model_superseded(&model, "beside", n_beside, true);
    model_superseded(&model, "meant to be apart", 100, false);
    char *line = (char *)write_report(&model, (struct lp_report_options){0});
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* K11 */
static void test_workers_under_other_run_ids_K11(void **state)
{
    (void)state;
    assert_string_equal(first_line(0, 0), "Runtime 4h 12m   Processes 3   Roles main x3");
    assert_string_equal(first_line(0, 2), "Runtime 4h 12m   Processes 3 of 5: 2 under other run ids   Roles main x3");
    assert_string_equal(first_line(1, 2), "Runtime 4h 12m   Processes 3 of 6: 1 unreadable, 2 under other run ids");
    assert_string_equal(first_line(0, 4),
                        "Runtime 4h 12m   Processes 3 of 7: MOST DID NOT JOIN, 4 under other run ids");
    assert_string_equal(first_line(4, 1),
                        "Runtime 4h 12m   Processes 3 of 8: MOST ARE LOST, 4 unreadable, 1 under other run ids");
}

/* K10, K11, J3 */
static void test_most_workers_lost(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    model_worker(&model, role, "node07");
    model_entries(&model, model_phase(&model, role->tree, "step"), 2, 1 * S, 0);
    for (int i = 0; i < 12; i++)
        model_unreadable(&model, "w.json", "ends in the middle");
    model_caveat(&model, "lost_workers",
                 "12 of 13 worker files could not be read: the figures are those of fewer than half of the processes");
    model_caveat(&model, "unreadable",
                 "could not be read, that worker is missing: "
                 "workers/a_node_with_a_long_name_that_nobody_would_break/w_20260813T2241-471c94_100_0a1b2c3d.json "
                 "(ends in the middle)");
    model_caveat(&model, "unreadable", "and 11 more files that could not be read");
    assert_report(
        &model, "Runtime 4h 12m   Processes 1 of 13: MOST ARE LOST, 12 unreadable\n"
                "Roles main x1\n"
                "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                "\n"
                "MAIN  (1 process, imbalance 1.00)\n" RULE
                "step                          100.0%         2.0s   ██████████████████████████\n"
                "  % of 2.0s in phases\n"
                "\n"
                "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                "step                                2.0s      0%   973.1ms      1.0s           2\n"
                "\n"
                "  self        wall time outside child phases, summed over processes and threads\n"
                "  wait        % of the phase's wall time, child phases included, that its thread\n"
                "              spent off the CPU\n"
                "\n"
                "CAVEATS\n" RULE "  - 12 of 13 worker files could not be read: the figures are those of fewer than\n"
                "    half of the processes\n"
                "  - could not be read, that worker is missing:\n"
                "    workers/a_node_with_a_long_name_that_nobody_would_break/w_20260813T2241-471c94_100_0a1b2c3d.json\n"
                "    (ends in the middle)\n"
                "  - and 11 more files that could not be read\n");
}

/* Figures too wide for their columns push the rest, whole; names stay apart from them. */
static void test_numbers_are_never_cut(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *role = model_role(&model, "main");
    model_worker(&model, role, "node07");
    struct lp_run_phase *step = model_phase(&model, role->tree, "step");
    model_entries(&model, step, UINT64_C(1) << 40, 1 * US, 0);
    step->calls = UINT64_MAX;
    step->open_calls = UINT64_MAX;
    step->saturated = true;
    struct lp_run_counter *counter = model_counter(&model, step, "bytes_that_were_moved_here", INT64_MAX, 3);
    counter->min = INT64_MIN;
    counter->max = INT64_MAX;
    counter->saturated = true;
    assert_report(&model, "Runtime 4h 12m   Processes 1   Roles main x1\n"
                          "Hosts node07 (1 node)   Run 20260813T2241-471c94\n"
                          "\n"
                          "MAIN  (1 process, imbalance 1.00)\n" RULE
                          "step                          100.0%      12d 17h   ██████████████████████████\n"
                          "  % of 12d 17h in phases\n"
                          "\n"
                          "DOMINANT PHASES                     self    wait       p50       p99     entries\n"
                          "step                             12d 17h      0%     992ns     1.0us "
                          "18,446,744,073,709,551,615+18,446,744,073,709,551,615\n"
                          "    + …ed_here 9,223,372,036,854,775,807 8,388,608,000,000.0/s <0.1ns/ea "
                          "-9,223,372,036,854,775,808..9,223,372,036,854,775,807\n"
                          "\n"
                          "ITERATIONS  (18,446,744,073,709,551,615 entries)  step\n"
                          "  mean     <0.1ns   p50      992ns   p95      1.0us   p99      1.0us\n"
                          "\n"
                          "  self        wall time outside child phases, summed over processes and threads\n"
                          "  wait        % of the phase's wall time, child phases included, that its thread\n"
                          "              spent off the CPU\n"
                          "  entries +n  still open: their time so far is in self and wait, not in p50 and\n"
                          "              p99\n"
                          "  + counter   total; rate per second of its phase's wall time; that time for\n"
                          "              each one; what one count() added\n");
}

static struct lp_run_backend *model_backend(struct model *model, size_t worker, enum lp_run_backend_state state)
{
    struct lp_run *run = model->run;
    run->backends = model_append(model, run->backends, run->n_backends, sizeof *run->backends);
    struct lp_run_backend *backend = &run->backends[run->n_backends++];
    backend->state = state;
    backend->worker_index = worker;
    backend->worker = model_text(model, "w_20260813T2241-471c94_4711_0a1b2c3d");
    backend->role = model_text(model, "actor");
    backend->backend = model_text(model, "torch");
    backend->window_phase = model_text(model, "iteration");
    backend->start = 100;
    backend->end = 110;
    backend->entries = 110;
    return backend;
}

/* K9 */
static void test_artifacts_of_backends(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *actor = model_role(&model, "actor");
    model_worker(&model, actor, "node07");
    model_worker(&model, actor, "node08");
    struct lp_run_backend *item = model_backend(&model, 0, LP_BACKEND_WRITTEN);
    item->path = model_string(&model, "backend/torch_trace.w_1.json");
    item->bytes = 1200000;
    item = model_backend(&model, 1, LP_BACKEND_WRITTEN);
    item->path = model_string(&model, "backend/torch_trace.w_2.json");
    item->entries = 100;
    item->reason = model_text(&model, "closed early");
    item->errors = 2;
    item->error = model_text(&model, "OSError: x");
    for (int i = 0; i < 3; i++)
        model_backend(&model, SIZE_MAX, LP_BACKEND_NONE)->reason = model_text(&model, "no package");
    model_backend(&model, 1, LP_BACKEND_OPEN);
    model_backend(&model, 1, LP_BACKEND_OPEN)->cut_off = true;
    model_backend(&model, 1, LP_BACKEND_MISSING)->path = model_string(&model, "backend/a");
    item = model_backend(&model, SIZE_MAX, LP_BACKEND_UNREADABLE);
    item->role = item->backend = item->window_phase = (struct lp_text){0};
    item->path = model_string(&model, "backend/w_5.json");
    item->reason = model_text(&model, "not JSON");
    const char *text = strstr(write_report(&model, (struct lp_report_options){0}), "BACKEND");
    assert_non_null(text);
    assert_string_equal(text, "BACKEND ARTIFACTS\n" RULE
                              "actor pid 4711 on node07          torch, entries 100-109 of iteration     1.2 MB\n"
                              "    backend/torch_trace.w_1.json\n"
                              "actor pid 4711 on node08          torch, entry 100 of iteration              0 B\n"
                              "    backend/torch_trace.w_2.json: closed early; 2 errors, the last: OSError: x\n"
                              "actor x3                          torch, entries 100-109 of iteration       none\n"
                              "    no package\n"
                              "actor pid 4711 on node08          torch, entries 100-109 of iteration       open\n"
                              "    not written yet\n"
                              "actor pid 4711 on node08          torch, entries 100-109 of iteration       lost\n"
                              "    its process ended inside the window: nothing was written\n"
                              "actor pid 4711 on node08          torch, entries 100-109 of iteration       gone\n"
                              "    backend/a was written, but is not there any more\n"
                              "…60813T2241-471c94_4711_0a1b2c3d                                      unreadable\n"
                              "    backend/w_5.json: not JSON\n"
                              "  entries inside a window are slowed down by its tool, and kept apart as iteration\n"
                              "  [torch]; starting and writing is lineprofiler/backend\n");
}

static void test_many_roles_and_hosts(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    for (int i = 0; i < 14; i++) {
        char role[48], host[24];
        snprintf(role, sizeof role, "a_rather_long_name_of_a_role_%02d", i);
        snprintf(host, sizeof host, "node%02d", i);
        model_worker(&model, model_role(&model, role), host);
    }
    model.run->n_roles = 14;
    const char *text = write_report(&model, (struct lp_report_options){0});
    static const char head[] = "Runtime 4h 12m   Processes 14\n"
                               "Roles a_rather_lon…f_a_role_00 x1, a_rather_lon…f_a_role_01 x1,\n"
                               "      a_rather_lon…f_a_role_02 x1, a_rather_lon…f_a_role_03 x1,\n"
                               "      a_rather_lon…f_a_role_04 x1, a_rather_lon…f_a_role_05 x1,\n"
                               "      a_rather_lon…f_a_role_06 x1, a_rather_lon…f_a_role_07 x1,\n"
                               "      a_rather_lon…f_a_role_08 x1, a_rather_lon…f_a_role_09 x1,\n"
                               "      a_rather_lon…f_a_role_10 x1, a_rather_lon…f_a_role_11 x1, and 2 more\n"
                               "Hosts node00, node01, node02, node03, node04, node05, node06, node07, node08,\n"
                               "      node09, node10, node11, and 2 more (14 nodes)   Run 20260813T2241-471c94\n"
                               "\n";
    assert_memory_equal(text, head, sizeof head - 1);
}

/* K14 and the width of a terminal. */
static void test_a_wide_page_in_colour(void **state)
{
    (void)state;
    struct model model = {0};
    build_actors(&model);
    assert_string_equal(
        write_report(&model, (struct lp_report_options){.width = 300, .colour = true}),
        "\033[2mRuntime\033[0m 4h 12m   \033[2mProcesses\033[0m 17   \033[2mRoles\033[0m actor x16, learner x1\n"
        "\033[2mHosts\033[0m node07, node08 (2 nodes)   \033[2mRun\033[0m 20260813T2241-471c94\n"
        "\n"
        "\033[1mACTOR\033[0m  (16 processes, imbalance 1.25)\n" RULE_100
        "mcts                                               82.4%       2h 34m   \033[2m█████████████████████▍\033[0m\n"
        "env_step                                           17.0%      31m 40s   \033[2m████▍\033[0m\n"
        "Other                                               0.6%       1m 11s   \033[2m▏\033[0m\n"
        "\033[2m  % of 3h 07m in phases, summed over 16 processes; phases in self_play\033[0m\n"
        "\033[2m  imbalance: rank 5 on node07 spent 14m in phases, the mean process 11m 11s\033[0m\n"
        "\n"
        "\033[1mDOMINANT PHASES\033[0m                                         self    wait       p50       p99     "
        "entries\n"
        "self_play/mcts                                        2h 34m     18%     8.9ms    16.8ms     973,000\n"
        "    + mcts_simulations                          62,272,000     6,741.4/s   148.3us/ea      always 64\n"
        "self_play/env_step                                   31m 40s      2%    19.9ms    21.0ms     100,000\n"
        "\033[2m  and 1 more phase with 1m 11s of self time, 0.6% of the time in phases\033[0m\n"
        "\n"
        "\033[1mITERATIONS\033[0m  (1,200 entries)  self_play\n"
        "  mean       9.3s   p50       9.1s   p95       9.6s   p99       9.7s\n"
        "\n"
        "\033[1mLEARNER\033[0m  (1 process, imbalance 1.00)\n" RULE_100
        "train_step                                        100.0%       2h 52m   "
        "\033[2m██████████████████████████\033[0m\n"
        "\033[2m  % of 2h 52m in phases\033[0m\n"
        "\n"
        "\033[1mDOMINANT PHASES\033[0m                                         self    wait       p50       p99     "
        "entries\n"
        "train_step                                            2h 52m      4%    39.8ms    41.9ms     250,000\n"
        "\n"
        "\033[1mITERATIONS\033[0m  (250,000 entries)  train_step\n"
        "  mean     41.2ms   p50     39.8ms   p95     41.7ms   p99     41.9ms\n"
        "\n"
        "\033[2m  self        wall time outside child phases, summed over processes and threads\033[0m\n"
        "\033[2m  wait        % of the phase's wall time, child phases included, that its thread spent off the "
        "CPU\033[0m\n"
        "\033[2m  + counter   total; rate per second of its phase's wall time; that time for each one; what "
        "one\033[0m\n"
        "\033[2m              count() added\033[0m\n");
}

/* Colour says nothing that the text does not say: without its codes it is the same page. */
static void test_colour_adds_nothing(void **state)
{
    (void)state;
    struct model model = {0};
    build_actors(&model);
    char *plain = strdup(write_report(&model, (struct lp_report_options){0}));
    build_actors(&model);
    const char *coloured = write_report(&model, (struct lp_report_options){.colour = true});
    char *stripped = strdup(coloured), *to = stripped;
    for (const char *at = coloured; *at != '\0'; at++) {
        if (*at == '\x1b')
            at = strchr(at, 'm');
        else
            *to++ = *at;
    }
    *to = '\0';
    assert_string_equal(stripped, plain);
    free(stripped);
    free(plain);
}

static int full(void *context, const char *bytes, size_t len)
{
    (void)context, (void)bytes, (void)len;
    errno = ENOSPC;
    return -1;
}

static void be_on_a_machine(struct lp_run_worker *worker, struct model *model, uint64_t peak_mb)
{
    worker->machine = (struct lp_run_machine){.cores = 16,
                                              .cores_usable = 8,
                                              .usable_list = model_text(model, "0-7"),
                                              .cpu_limit_cores = 1.5,
                                              .ram_bytes = UINT64_C(64000000000),
                                              .memory_limit_bytes = UINT64_C(2000000000),
                                              .kernel = model_text(model, "6.1.0")};
    worker->peak_rss_bytes = peak_mb * 1000000;
}

static const char *after(const char *text, const char *mark)
{
    const char *found = strstr(text, mark);
    assert_non_null(found);
    return found;
}

/* K7, PR08: what is granted, what is used, and that the sum counts shared pages several times. */
static void test_resources_and_commit(void **state)
{
    (void)state;
    struct model model = {0};
    model_run(&model);
    model.run->provenance.commit = model_text(&model, "0123456789abcdef0123456789abcdef01234567");
    model.run->provenance.branch = model_text(&model, "main");
    model.run->provenance.dirty = model.run->provenance.dirty_known = true;
    model.run->sampling = model_alloc(&model, sizeof *model.run->sampling);
    struct lp_run_timeline *timeline = &model.run->sampling->timeline;
    timeline->bin_ns = model.run->runtime_ns;
    timeline->n_bins = 1;
    timeline->known_ns = model_alloc(&model, sizeof(uint64_t));
    for (int i = 0; i < LP_RUN_FLOWS; i++)
        timeline->bytes[i] = model_alloc(&model, sizeof(uint64_t));
    struct lp_run_role *actor = model_role(&model, "actor");
    be_on_a_machine(model_worker(&model, actor, "node07"), &model, 300);
    be_on_a_machine(model_worker(&model, actor, "node07"), &model, 500);
    model.run->workers[1].pss_bytes = 100000000;
    struct lp_run_device gpus[] = {{.memory_bytes = UINT64_C(80000000000), .name = model_text(&model, "NVIDIA A100")},
                                   {.memory_bytes = UINT64_C(80000000000), .name = model_text(&model, "NVIDIA A100")},
                                   {.memory_bytes = UINT64_MAX}};
    model.run->workers[1].devices = gpus;
    model.run->workers[1].n_devices = 3;
    const char *text = write_report(&model, (struct lp_report_options){0});
    after(text, "\nCommit 01234567 (main, changed)\n");
    const char *expected = "\nRESOURCES                  granted        used                mean      heaviest\n"
                           "node07  (2 processes)\n"
                           "  CPU cores                   1.50         n/a     n/a         n/a           n/a\n"
                           "  memory                    2.0 GB    800.0 MB   40.0%    400.0 MB      500.0 MB\n"
                           "  memory, shared once       2.0 GB    100.0 MB    5.0%    100.0 MB      100.0 MB\n"
                           "  16 cores, usable 8, limit 1.50; RAM 64.0 GB, limit 2.0 GB; Linux 6.1.0\n"
                           "  GPUs 2 x NVIDIA A100 with 80.0 GB, 1 x unnamed with n/a\n"
                           "  heaviest: memory actor pid 4711\n"
                           "  memory, shared once, was measured of 1 of 2 processes\n";
    if (strncmp(after(text, "\nRESOURCES"), expected, strlen(expected)) != 0)
        fail_msg("%s", text);
    after(text, "\n  CPU: cores in use on average, of one process over its own life; memory: the");
}

/* A page about four workers, of these jobs; NULL: of none. */
static const char *page_with_jobs(const char *const (*jobs)[2])
{
    struct model model = {0};
    model_run(&model);
    struct lp_run_role *actor = model_role(&model, "actor");
    for (int i = 0; i < 4; i++) {
        struct lp_run_worker *worker = model_worker(&model, actor, "node07");
        if (!jobs[i][0])
            continue;
        worker->job_system = model_string(&model, jobs[i][0]);
        worker->job_id = model_text(&model, jobs[i][1]);
    }
    return write_report(&model, (struct lp_report_options){0});
}

static void test_the_batch_jobs_F2_K1(void **state)
{
    (void)state;
    static const char *const one[4][2] = {{"slurm", "77"}, {NULL, NULL}, {"slurm", "77"}, {NULL, NULL}};
    static const char *const several[4][2] = {{"slurm", "77"}, {"slurm", "78_3"}, {"slurm", "77"}, {"pbs", "9.head"}};
    after(page_with_jobs(one), "   Run 20260813T2241-471c94   Job slurm 77\n");
    after(page_with_jobs(several), "\nJobs slurm 77, 78_3, pbs 9.head\n");
}

static void test_a_sink_that_fails(void **state)
{
    (void)state;
    struct model model = {0};
    struct lp_report_sink sink = {.put = full};
    struct lp_analysis *analysis;
    build_actors(&model);
    assert_int_equal(lp_analysis_make(&analysis, model.run), 0);
    assert_int_equal(lp_report_text.write(analysis, NULL, &sink), -ENOSPC);
    lp_analysis_free(analysis);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_documented_example),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_a_run_that_is_still_going),
        cmocka_unit_test(test_cpu_that_was_not_measured),
        cmocka_unit_test(test_why_a_phase_waited),
        cmocka_unit_test(test_device_times_and_submissions_H7),
        cmocka_unit_test(test_a_process_is_named_as_other_tools_do),
        cmocka_unit_test(test_estimates_say_so),
        cmocka_unit_test(test_estimates_in_sums_say_so),
        cmocka_unit_test(test_workers_without_phases),
        cmocka_unit_test(test_nasty_names),
        cmocka_unit_test(test_workers_under_other_run_ids_K11),
        cmocka_unit_test(test_most_workers_lost),
        cmocka_unit_test(test_numbers_are_never_cut),
        cmocka_unit_test(test_artifacts_of_backends),
        cmocka_unit_test(test_many_roles_and_hosts),
        cmocka_unit_test(test_a_wide_page_in_colour),
        cmocka_unit_test(test_colour_adds_nothing),
        cmocka_unit_test(test_resources_and_commit),
        cmocka_unit_test(test_the_batch_jobs_F2_K1),
        cmocka_unit_test(test_a_sink_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

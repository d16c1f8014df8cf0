/* What a document adds to the model: truth rules of run.h, open entries, thread names: G4, B2, EX10. */
#include "support.h"

#include "run/fold.h"

/* Parses documents and folds them, in order, into one tree. */
static struct lp_run_phase *fold(const struct spec *specs, size_t n, struct lp_run_worker *last)
{
    struct lp_run_document document = {0};
    struct lp_run_fold room = {0};
    struct lp_run_fault fault = {0};
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    for (size_t i = 0; i < n; i++) {
        char *text = make_document(&specs[i]);
        if (lp_run_document_parse(&document, text, strlen(text), &fault) < 0)
            fail_msg("refused: %s", fault.text);
        assert_int_equal(lp_run_fold_figures(&room, &tree, &document, i + 1), 0);
        if (last && i == n - 1)
            assert_int_equal(lp_run_fold_worker(last, &document, "a/path", LP_SOURCE_FILE), 0);
        free(text);
    }
    lp_run_document_release(&document);
    lp_run_fold_release(&room);
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    assert_non_null(root);
    return root;
}

static struct lp_run_phase *fold_nodes(const char *state, const char *threads, struct lp_run_worker *worker)
{
    struct spec spec = {.state = state, .threads = threads};
    return fold(&spec, 1, worker);
}

static void test_open_time_is_part_of_wall_time(void **state)
{
    (void)state;
    struct lp_run_phase *root = fold_nodes(
        "running",
        ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":3,\"wall_ns\":100,\"cpu_ns\":40,\"child_wall_ns\":20,"
                   "\"late_wall_ns\":2,\"hist\":\"35:3\",\"open_calls\":1,\"open_wall_ns\":50,\"open_cpu_ns\":5,"
                   "\"open_child_wall_ns\":30,\"open_late_wall_ns\":1}"),
        NULL);
    const struct lp_run_phase *a = phase_at(root, "a");
    assert_int_equal(a->calls, 3);
    assert_int_equal(a->wall_ns, 150);
    assert_int_equal(a->open_wall_ns, 50);
    assert_int_equal(a->cpu_ns, 45);
    assert_int_equal(a->child_wall_ns, 50);
    assert_int_equal(a->late_wall_ns, 3);
    assert_int_equal(a->nocpu_wall_ns, 0);
    assert_int_equal(a->open_calls, 1);
    assert_int_equal(lp_hist_total(&a->hist), 3);
    assert_int_equal(lp_run_phase_self_ns(a), 100);
    assert_true(a->cpu_known);
    lp_run_phase_free(root);
}

/* Of two threads; a third has the phase without asking. */
static void test_device_times_add_up(void **state)
{
    (void)state;
    struct lp_run_phase *root = fold_nodes(
        "closed",
        "[{\"name\":\"a\",\"tid\":1,\"alive\":true,\"nodes\":[{},"
        "{\"parent\":0,\"name\":\"x\",\"calls\":3,\"wall_ns\":9,\"hist\":\"3:3\",\"gpu_calls\":2,\"gpu_ns\":70,"
        "\"gpu_hist\":\"33:2\",\"async_work\":true},"
        "{\"parent\":0,\"name\":\"y\",\"calls\":1,\"wall_ns\":3,\"hist\":\"3:1\",\"gpu_calls\":0}]},"
        "{\"name\":\"b\",\"tid\":2,\"alive\":true,\"nodes\":[{},"
        "{\"parent\":0,\"name\":\"x\",\"calls\":1,\"wall_ns\":3,\"hist\":\"3:1\",\"gpu_calls\":1,\"gpu_ns\":5,"
        "\"gpu_hist\":\"5:1\"}]},"
        "{\"name\":\"c\",\"tid\":3,\"alive\":true,\"nodes\":[{},"
        "{\"parent\":0,\"name\":\"x\",\"calls\":1,\"wall_ns\":3,\"hist\":\"3:1\"},"
        "{\"parent\":0,\"name\":\"z\",\"calls\":1,\"wall_ns\":3,\"hist\":\"3:1\"}]}]",
        NULL);
    const struct lp_run_phase *x = phase_at(root, "x");
    assert_int_equal(x->calls, 5);
    assert_int_equal(x->device_time->calls, 3);
    assert_int_equal(x->device_time->ns, 75);
    assert_int_equal(lp_hist_bucket(&x->device_time->hist, 33), 2);
    assert_int_equal(lp_hist_total(&x->device_time->hist), 3);
    assert_true(x->async_work);
    assert_int_equal(phase_at(root, "y")->device_time->calls, 0); /* asked for, and of none known */
    assert_false(phase_at(root, "y")->async_work);
    assert_null(phase_at(root, "z")->device_time); /* not asked for */
    lp_run_phase_free(root);
}

/* What of one worker is summed: an interval is the difference of two such. */
static void test_sums_of_a_worker(void **state)
{
    (void)state;
    struct lp_run_worker worker;
    lp_run_phase_free(fold_nodes(
        "running",
        ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":3,\"wall_ns\":100,\"cpu_ns\":40,\"nocpu_wall_ns\":20,"
                   "\"hist\":\"35:3\",\"open_calls\":1,\"open_wall_ns\":50,\"open_cpu_ns\":5}"
                   ",{\"parent\":1,\"name\":\"b\",\"calls\":4,\"wall_ns\":60,\"cpu_ns\":30,\"hist\":\"35:4\","
                   "\"stride\":4}"
                   ",{\"parent\":0,\"name\":\"c\",\"calls\":1,\"wall_ns\":7,\"cpu_ns\":null,\"hist\":\"7:1\"}"),
        &worker));
    assert_int_equal(worker.calls, 8);
    assert_int_equal(worker.root_wall_ns, 157);
    assert_int_equal(worker.root_cpu_ns, 45);
    assert_int_equal(worker.root_nocpu_wall_ns, 27);
    assert_true(worker.root_cpu_known);
    assert_true(worker.calls_estimated);
    assert_false(worker.root_estimated);
    lp_run_worker_release(&worker);
    lp_run_phase_free(fold_nodes(
        "running",
        ONE_THREAD(
            ",{\"parent\":0,\"name\":\"c\",\"calls\":2,\"wall_ns\":7,\"cpu_ns\":null,\"hist\":\"3:2\",\"stride\":2}"),
        &worker));
    assert_false(worker.root_cpu_known);
    assert_true(worker.root_estimated);
    lp_run_worker_release(&worker);
}

static void test_unmeasured_cpu_takes_its_wall_time_out_B7(void **state)
{
    (void)state;
    struct lp_run_phase *root = fold_nodes(
        "running",
        ONE_THREAD(",{\"parent\":0,\"name\":\"none\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":null,\"hist\":\"35:1\"}"
                   ",{\"parent\":0,\"name\":\"part\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":7,\"nocpu_wall_ns\":60,"
                   "\"hist\":\"35:1\"}"
                   ",{\"parent\":0,\"name\":\"open\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":9,\"hist\":\"35:1\","
                   "\"open_calls\":1,\"open_wall_ns\":30,\"open_cpu_ns\":null}"
                   ",{\"parent\":0,\"name\":\"just "
                   "open\",\"cpu_ns\":null,\"open_calls\":1,\"open_wall_ns\":30,\"open_cpu_ns\":4}"),
        NULL);
    assert_false(phase_at(root, "none")->cpu_known);
    assert_int_equal(phase_at(root, "none")->nocpu_wall_ns, 100);
    assert_true(phase_at(root, "part")->cpu_known);
    assert_int_equal(phase_at(root, "part")->nocpu_wall_ns, 60);
    assert_true(phase_at(root, "open")->cpu_known);
    assert_int_equal(phase_at(root, "open")->nocpu_wall_ns, 30);
    assert_int_equal(phase_at(root, "open")->cpu_ns, 9);
    assert_true(phase_at(root, "just open")->cpu_known);
    assert_int_equal(phase_at(root, "just open")->cpu_ns, 4);
    lp_run_phase_free(root);
}

/* Not there is not measured, and no zero; together they are at most the wait. */
static void test_why_it_waited(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.state = "running",
         .threads = ONE_THREAD(
             ",{\"parent\":0,\"name\":\"both\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,\"hist\":\"35:1\","
             "\"blocked_ns\":30,\"preempted_ns\":20,\"open_calls\":1,\"open_wall_ns\":50,\"open_cpu_ns\":10,"
             "\"open_blocked_ns\":7,\"open_preempted_ns\":5}"
             ",{\"parent\":0,\"name\":\"open unknown\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,\"hist\":\"35:1\","
             "\"blocked_ns\":30,\"preempted_ns\":20,\"open_calls\":1,\"open_wall_ns\":50,\"open_cpu_ns\":null,"
             "\"open_blocked_ns\":7}"
             ",{\"parent\":0,\"name\":\"one\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,\"hist\":\"35:1\","
             "\"preempted_ns\":20}"
             ",{\"parent\":0,\"name\":\"none\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,\"hist\":\"35:1\"}"
             ",{\"parent\":0,\"name\":\"no cpu\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":null,\"hist\":\"35:1\","
             "\"blocked_ns\":0,\"preempted_ns\":0}"
             ",{\"parent\":0,\"name\":\"in flight\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,\"hist\":\"35:1\","
             "\"blocked_ns\":70,\"preempted_ns\":20}")},
        {.state = "running",
         .threads = ONE_THREAD(",{\"parent\":0,\"name\":\"both\",\"calls\":1,\"wall_ns\":100,\"cpu_ns\":40,"
                               "\"hist\":\"35:1\"}")},
    };
    struct lp_run_phase *root = fold(specs, 2, NULL);
    const struct lp_run_phase *both = phase_at(root, "both");
    assert_true(both->blocked_known && both->preempted_known); /* of a part, which the wait of the other is not */
    assert_int_equal(both->blocked_ns, 37);
    assert_int_equal(both->preempted_ns, 25);
    assert_int_equal(phase_at(root, "open unknown")->blocked_ns, 30);
    assert_false(phase_at(root, "one")->blocked_known);
    assert_true(phase_at(root, "one")->preempted_known);
    assert_false(phase_at(root, "none")->blocked_known || phase_at(root, "none")->preempted_known);
    assert_false(phase_at(root, "no cpu")->blocked_known || phase_at(root, "no cpu")->preempted_known);
    assert_int_equal(phase_at(root, "in flight")->preempted_ns, 20);
    assert_int_equal(phase_at(root, "in flight")->blocked_ns, 40);
    lp_run_phase_free(root);
}

/* Parts of a running worker never exceed the whole. */
static void test_figures_in_flight_are_evened_out_J5(void **state)
{
    (void)state;
    struct lp_run_phase *root = fold_nodes(
        "running",
        ONE_THREAD(
            ",{\"parent\":0,\"name\":\"a\",\"calls\":3,\"wall_ns\":100,\"child_wall_ns\":120,\"late_wall_ns\":130,"
            "\"nocpu_wall_ns\":140,\"hist\":\"35:4\"}"),
        NULL);
    const struct lp_run_phase *a = phase_at(root, "a");
    assert_int_equal(a->child_wall_ns, 100);
    assert_int_equal(a->late_wall_ns, 100);
    assert_int_equal(a->nocpu_wall_ns, 100);
    assert_int_equal(a->calls, 3);
    lp_run_phase_free(root);
}

static void test_equal_nodes_and_slots_are_merged(void **state)
{
    (void)state;
    struct lp_run_phase *root =
        fold_nodes(NULL,
                   "[{\"name\":\"x\",\"tid\":1,\"alive\":true,\"nodes\":[{\"counters\":{\"n\":[1,1,1,1]}}" STEP STEP
                   ",{\"parent\":1,\"name\":\"in\"},{\"parent\":2,\"name\":\"in\"}]},"
                   "{\"name\":\"y\",\"tid\":2,\"alive\":false,\"nodes\":[{\"counters\":{\"n\":[5,2,-1,6]}}" STEP "]}]",
                   NULL);
    assert_int_equal(root->n_children, 1);
    assert_int_equal(root->workers, 1);
    assert_int_equal(phase_at(root, "step")->calls, 6);
    assert_int_equal(phase_at(root, "step")->wall_ns, 180);
    assert_int_equal(phase_at(root, "step")->workers, 1);
    assert_int_equal(phase_at(root, "step")->n_children, 1);
    assert_int_equal(root->n_counters, 1);
    assert_int_equal(root->counters[0].sum, 6);
    assert_int_equal(root->counters[0].calls, 3);
    assert_int_equal(root->counters[0].min, -1);
    assert_int_equal(root->counters[0].max, 6);
    lp_run_phase_free(root);
}

static void test_thread_names_nest_phases_G4(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.thread_names = "true",
         .threads = "[{\"name\":\"learner\",\"tid\":1,\"alive\":true,\"nodes\":[{\"counters\":{\"n\":[1,1,1,1]}}" STEP
                    ",{\"parent\":0,\"name\":\"other\",\"calls\":1,\"wall_ns\":10,\"cpu_ns\":null,\"hist\":\"10:1\","
                    "\"stride\":1}]},"
                    "{\"name\":\"learner\",\"tid\":2,\"alive\":false,\"nodes\":[{}" STEP "]},"
                    "{\"name\":\"\",\"tid\":3,\"alive\":true,\"nodes\":[{}" STEP "]},"
                    "{\"name\":\"counting\",\"tid\":4,\"alive\":true,\"nodes\":[{\"counters\":{\"n\":[2,1,2,2]}}]},"
                    "{\"name\":\"idle\",\"tid\":3,\"alive\":true,\"nodes\":[{}]}]"},
        {.worker = "w_r1_2_00000002", .threads = ONE_THREAD(STEP)},
    };
    struct lp_run_phase *root = fold(specs, 2, NULL);
    assert_int_equal(root->n_children, 4);
    assert_true(phase_at(root, "counting")->is_thread);
    assert_int_equal(phase_at(root, "counting")->counters[0].sum, 2);
    const struct lp_run_phase *learner = phase_at(root, "learner");
    assert_true(learner->is_thread);
    assert_int_equal(learner->calls, 0);
    assert_int_equal(lp_hist_total(&learner->hist), 0);
    assert_int_equal(learner->wall_ns, 130);
    assert_int_equal(learner->child_wall_ns, 130);
    assert_int_equal(learner->cpu_ns, 60);
    assert_int_equal(learner->nocpu_wall_ns, 10);
    assert_int_equal(lp_run_phase_self_ns(learner), 0);
    assert_int_equal(learner->workers, 1);
    assert_int_equal(learner->counters[0].sum, 1);
    assert_int_equal(phase_at(learner, "step")->calls, 4);
    assert_false(phase_at(learner, "step")->is_thread);
    assert_int_equal(phase_at(root, "(unnamed thread)/step")->calls, 2);
    assert_int_equal(phase_at(root, "step")->calls, 2);
    assert_int_equal(root->n_counters, 0);
    lp_run_phase_free(root);
}

static uint64_t sum_of_self(const struct lp_run_phase *phase)
{
    uint64_t sum = lp_run_phase_self_ns(phase);
    for (size_t i = 0; i < phase->n_children; i++)
        sum += sum_of_self(phase->children[i]);
    return sum;
}

/* Time of a child beyond its parent's end is in nobody's child time; with it apart, self times add up to the roots. */
static void test_self_times_add_up_to_the_roots(void **state)
{
    (void)state;
    struct lp_run_phase *root = fold_nodes(
        NULL,
        ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":1000,\"child_wall_ns\":700,\"hist\":\"63:1\"}"
                   ",{\"parent\":1,\"name\":\"b\",\"calls\":1,\"wall_ns\":500,\"child_wall_ns\":100,\"hist\":\"55:1\"}"
                   ",{\"parent\":2,\"name\":\"c\",\"calls\":1,\"wall_ns\":100,\"hist\":\"36:1\"}"
                   ",{\"parent\":1,\"name\":\"d\",\"calls\":1,\"wall_ns\":230,\"late_wall_ns\":30,\"hist\":\"46:1\"}"
                   ",{\"parent\":0,\"name\":\"e\",\"calls\":1,\"wall_ns\":50,\"hist\":\"28:1\"}"),
        NULL);
    uint64_t roots = phase_at(root, "a")->wall_ns + phase_at(root, "e")->wall_ns;
    assert_int_equal(sum_of_self(root), roots + phase_at(root, "a/d")->late_wall_ns);
    lp_run_phase_free(root);
}

static void test_sampled_nodes_are_estimates_G2(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.threads = ONE_THREAD(
             ",{\"parent\":0,\"name\":\"s\",\"calls\":100,\"wall_ns\":500,\"stride\":100,\"hist\":\"5:100\"}")},
        {.threads = ONE_THREAD(",{\"parent\":0,\"name\":\"s\",\"calls\":7,\"wall_ns\":35,\"hist\":\"5:7\"}")},
    };
    struct lp_run_phase *root = fold(specs, 2, NULL);
    const struct lp_run_phase *s = phase_at(root, "s");
    assert_true(s->estimated);
    assert_int_equal(s->stride_min, 1);
    assert_int_equal(s->stride_max, 100);
    assert_int_equal(s->calls, 107);
    assert_int_equal(s->workers, 2);
    lp_run_phase_free(root);
}

#define OPEN(parent, name, calls, wall)                                                                                \
    ",{\"parent\":" #parent ",\"name\":\"" name "\",\"open_calls\":" #calls ",\"open_wall_ns\":" #wall "}"

static void test_the_deepest_open_path_of_each_thread(void **state)
{
    (void)state;
    struct lp_run_worker worker;
    struct lp_run_phase *root = fold_nodes(
        "running",
        "[{\"name\":\"m\",\"tid\":1,\"alive\":true,\"nodes\":[{}" OPEN(0, "iteration", 1, 900) OPEN(1, "a", 1, 10)
            OPEN(1, "b", 3, 60)
                OPEN(0, "late", 1, 999) "]},"
                                        "{\"name\":\"idle\",\"tid\":2,\"alive\":true,\"nodes\":[{}" STEP "]},"
                                        "{\"name\":\"t/x\",\"tid\":3,\"alive\":true,\"nodes\":[{}" OPEN(0, "a/b", 1,
                                                                                                        5) "]}]",
        &worker);
    assert_int_equal(worker.threads, 3);
    assert_int_equal(worker.n_open, 2);
    assert_string_equal(worker.open[0].thread.bytes, "m");
    assert_string_equal(worker.open[0].path.bytes, "iteration/b");
    assert_int_equal(worker.open[0].open_ns, 20); /* of one of the three entries */
    assert_string_equal(worker.open[1].thread.bytes, "t/x");
    assert_string_equal(worker.open[1].path.bytes, "a/b");
    assert_int_equal(worker.root_wall_ns, 900 + 999 + 60 + 5);
    lp_run_worker_release(&worker);
    lp_run_phase_free(root);
}

static void test_the_worker_is_described(void **state)
{
    (void)state;
    struct lp_run_worker worker;
    struct spec spec = {.role = "",
                        .origin = "generated",
                        .image = "private",
                        .state = "running",
                        .rank = 3,
                        .troubles = "{\"failed_flushes\":2,\"clock_jumps\":0}"};
    struct lp_run_phase *root = fold(&spec, 1, &worker);
    assert_string_equal(worker.worker.bytes, "w_r1_4242_00000001");
    assert_string_equal(worker.role.bytes, "");
    assert_string_equal(worker.launcher, "slurm");
    assert_string_equal(worker.job_system, "slurm");
    assert_string_equal(worker.job_id.bytes, "99");
    assert_string_equal(worker.path, "a/path");
    assert_string_equal(worker.wall_clock, "tsc");
    assert_string_equal(worker.cpu_clock, "token");
    assert_string_equal(worker.runtime.bytes, "CPython 3.12.1");
    assert_int_equal(worker.rank, 3);
    assert_int_equal(worker.world_size, 8);
    assert_true(worker.run_id_generated && worker.private_image && worker.measure_cpu && !worker.closed);
    assert_int_equal(worker.n_troubles, 1);
    assert_int_equal(worker.troubles[0].count, 2);
    assert_null(worker.open);
    lp_run_worker_release(&worker);
    lp_run_phase_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_time_is_part_of_wall_time),
        cmocka_unit_test(test_sums_of_a_worker),
        cmocka_unit_test(test_unmeasured_cpu_takes_its_wall_time_out_B7),
        cmocka_unit_test(test_why_it_waited),
        cmocka_unit_test(test_figures_in_flight_are_evened_out_J5),
        cmocka_unit_test(test_equal_nodes_and_slots_are_merged),
        cmocka_unit_test(test_thread_names_nest_phases_G4),
        cmocka_unit_test(test_self_times_add_up_to_the_roots),
        cmocka_unit_test(test_sampled_nodes_are_estimates_G2),
        cmocka_unit_test(test_the_deepest_open_path_of_each_thread),
        cmocka_unit_test(test_the_worker_is_described),
        cmocka_unit_test(test_device_times_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

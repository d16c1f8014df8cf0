/* What is handed out between readings: never negative, never twice, never wrong, all in the end: I1. */
#include "support.h"

#include "run/reading.h"

/* A node of the reading: what its JSON has after the name. */
#define NODE(name, figures) ",{\"parent\":0,\"name\":\"" name "\"," figures "}"
#define RUNNING "running"

/* One reading handed out. */
struct step {
    const char *nodes; /* of one thread; NULL: of nobody */
    uint64_t at_s;
    const char *state, *worker, *thread_names;
};

static struct lp_run_reading read_step(const struct step *step)
{
    struct lp_run_reading reading;
    char message[256] = "none";
    char threads[2048];
    if (!step->nodes) {
        assert_int_equal(lp_run_reading_parse(&reading, NULL, 0, message, sizeof message), 0);
        return reading;
    }
    snprintf(threads, sizeof threads, "[{\"name\":\"T\",\"tid\":7,\"alive\":true,\"nodes\":[{}%s]}]", step->nodes);
    struct spec spec = {.threads = threads,
                        .written_s = OR(step->at_s, 1),
                        .state = OR(step->state, RUNNING),
                        .worker = step->worker,
                        .thread_names = step->thread_names};
    char *text = make_document(&spec);
    if (lp_run_reading_parse(&reading, text, strlen(text), message, sizeof message) < 0)
        fail_msg("refused: %s", message);
    free(text);
    return reading;
}

static struct lp_run_phase *advance(struct lp_run_reading *cursor, const struct step *step)
{
    struct lp_run_reading reading = read_step(step);
    struct lp_run_phase *interval = lp_run_reading_advance(cursor, &reading);
    assert_non_null(interval);
    assert_null(reading.tree); /* taken over */
    return interval;
}

static struct lp_run_phase *advance_to(struct lp_run_reading *cursor, const char *nodes, uint64_t at_s)
{
    return advance(cursor, &(struct step){.nodes = nodes, .at_s = at_s});
}

static void test_the_first_goes_back_to_the_beginning(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    struct lp_run_phase *interval =
        advance_to(&cursor,
                   NODE("a", "\"calls\":3,\"wall_ns\":90,\"cpu_ns\":40,\"child_wall_ns\":7,\"late_wall_ns\":2,"
                             "\"nocpu_wall_ns\":5,\"hist\":\"30:2 31:1\",\"counters\":{\"n\":[6,3,1,3]}"),
                   1);
    const struct lp_run_phase *a = phase_at(interval, "a");
    assert_int_equal(a->calls, 3);
    assert_int_equal(a->wall_ns, 90);
    assert_int_equal(a->cpu_ns, 40);
    assert_int_equal(a->child_wall_ns, 7);
    assert_int_equal(a->late_wall_ns, 2);
    assert_int_equal(a->nocpu_wall_ns, 5);
    assert_int_equal(a->ended_wall_ns, 90);
    assert_int_equal(a->workers, 1);
    assert_true(a->cpu_known);
    assert_int_equal(lp_hist_bucket(&a->hist, 30), 2);
    assert_int_equal(a->n_counters, 1);
    assert_int_equal(a->counters[0].sum, 6);
    assert_true(a->counters[0].min > a->counters[0].max); /* not known */
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_then_only_what_came_since(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    lp_run_phase_free(advance_to(&cursor,
                                 NODE("a", "\"calls\":3,\"wall_ns\":90,\"hist\":\"30:2 31:1\","
                                           "\"counters\":{\"m\":[1,1,1,1],\"n\":[6,3,1,3]}")
                                     NODE("idle", "\"calls\":1,\"wall_ns\":5,\"hist\":\"5:1\""),
                                 1));
    struct lp_run_phase *interval =
        advance_to(&cursor,
                   NODE("a", "\"calls\":5,\"wall_ns\":130,\"hist\":\"20:1 30:2 31:2\",\"open_calls\":1,"
                             "\"open_wall_ns\":7,\"counters\":{\"k\":[1,1,1,1],\"m\":[1,1,1,1],\"n\":[-4,4,-10,3]}")
                       NODE("idle", "\"calls\":1,\"wall_ns\":5,\"hist\":\"5:1\""),
                   2);
    const struct lp_run_phase *a = phase_at(interval, "a");
    assert_int_equal(a->calls, 2);
    assert_int_equal(a->wall_ns, 47);
    assert_int_equal(a->ended_wall_ns, 40);
    assert_int_equal(a->open_calls, 1);
    assert_int_equal(a->open_wall_ns, 7);
    assert_int_equal(lp_hist_bucket(&a->hist, 20), 1);
    assert_int_equal(lp_hist_bucket(&a->hist, 30), 0);
    assert_int_equal(lp_hist_bucket(&a->hist, 31), 1);
    assert_int_equal(a->n_counters, 2); /* m stands still */
    assert_string_equal(a->counters[0].name.bytes, "k");
    assert_string_equal(a->counters[1].name.bytes, "n");
    assert_int_equal(a->counters[1].sum, -10);
    assert_int_equal(a->counters[1].calls, 1);
    assert_true(lp_run_phase_is_idle(phase_at(interval, "idle")));
    assert_false(lp_run_phase_is_idle(a));
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

/* A figure that steps back is taken up to where it was, and no further. */
static void test_nothing_is_negative_or_handed_out_twice(void **state)
{
    (void)state;
    static const unsigned wall[] = {100, 90, 95, 103, 103, 110}, expected[] = {100, 0, 0, 3, 0, 7};
    struct lp_run_reading cursor = {0};
    for (size_t i = 0; i < sizeof wall / sizeof *wall; i++) {
        char nodes[256];
        snprintf(nodes, sizeof nodes,
                 NODE("a", "\"calls\":1,\"wall_ns\":1,\"hist\":\"1:1\",\"open_calls\":1,\"open_wall_ns\":%u,"
                           "\"open_cpu_ns\":%u"),
                 wall[i] - 1, wall[i] - 1);
        struct lp_run_phase *interval = advance_to(&cursor, nodes, i + 1);
        assert_int_equal(phase_at(interval, "a")->wall_ns, expected[i]);
        assert_int_equal(phase_at(interval, "a")->cpu_ns, expected[i] - (expected[i] == 100));
        assert_int_equal(phase_at(interval, "a")->calls, i == 0);
        lp_run_phase_free(interval);
    }
    lp_run_reading_release(&cursor);
}

/* An entry caught between its figures: what has no time yet waits for it, and no phase divides by zero. */
static void test_what_has_no_time_is_held_back_until_it_has(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    const char *lagging = NODE("a", "\"calls\":2,\"wall_ns\":60,\"cpu_ns\":9,\"hist\":\"30:1\"");
    const char *whole =
        NODE("a", "\"calls\":2,\"wall_ns\":60,\"cpu_ns\":9,\"hist\":\"30:2\",\"counters\":{\"n\":[1,1,1,"
                  "1]}") NODE("new", "\"calls\":1,\"wall_ns\":0,\"hist\":\"0:1\"");
    lp_run_phase_free(advance_to(&cursor, lagging, 1));
    struct lp_run_phase *interval = advance_to(&cursor, whole, 2);
    assert_true(lp_run_phase_is_idle(phase_at(interval, "a")));
    assert_true(lp_run_phase_is_idle(phase_at(interval, "new")));
    lp_run_phase_free(interval);

    struct lp_run_reading copy = cursor; /* once with more time, once with the end of the worker */
    memset(&cursor, 0, sizeof cursor);
    interval =
        advance_to(&copy,
                   NODE("a", "\"calls\":3,\"wall_ns\":90,\"cpu_ns\":9,\"hist\":\"30:3\",\"counters\":{\"n\":[1,1,1,"
                             "1]}") NODE("new", "\"calls\":2,\"wall_ns\":1,\"hist\":\"0:1 1:1\""),
                   3);
    assert_int_equal(phase_at(interval, "a")->calls, 1);
    assert_int_equal(lp_hist_total(&phase_at(interval, "a")->hist), 2);
    assert_int_equal(phase_at(interval, "a")->n_counters, 1);
    assert_int_equal(phase_at(interval, "new")->calls, 2);
    lp_run_phase_free(interval);
    lp_run_reading_release(&copy);

    lp_run_phase_free(advance_to(&cursor, lagging, 1));
    lp_run_phase_free(advance_to(&cursor, whole, 2));
    interval = advance(&cursor, &(struct step){.nodes = whole, .at_s = 3, .state = "closed"});
    assert_int_equal(lp_hist_total(&phase_at(interval, "a")->hist), 1);
    assert_int_equal(phase_at(interval, "a")->n_counters, 1);
    assert_int_equal(phase_at(interval, "new")->calls, 1);
    lp_run_phase_free(interval);
    interval = advance(&cursor, &(struct step){.nodes = whole, .at_s = 3, .state = "closed"});
    assert_true(lp_run_phase_is_idle(phase_at(interval, "a")));
    assert_true(lp_run_phase_is_idle(phase_at(interval, "new")));
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_an_overtaken_reading_gives_nothing(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    const char *old = NODE("a", "\"calls\":1,\"wall_ns\":30,\"hist\":\"30:1\"");
    const char *new = NODE("a", "\"calls\":2,\"wall_ns\":60,\"hist\":\"30:2\"")
        NODE("b", "\"calls\":1,\"wall_ns\":9,\"hist\":\"9:1\"");
    lp_run_phase_free(advance_to(&cursor, new, 9));
    struct lp_run_phase *interval = advance_to(&cursor, old, 8);
    assert_int_equal(interval->n_children, 0);
    lp_run_phase_free(interval);
    interval = advance_to(&cursor, new, 10);
    assert_true(lp_run_phase_is_idle(phase_at(interval, "a")));
    assert_true(lp_run_phase_is_idle(phase_at(interval, "b")));
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_another_worker_begins_anew(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    const char *many = NODE("a", "\"calls\":5,\"wall_ns\":150,\"hist\":\"30:5\"");
    const char *few = NODE("a", "\"calls\":1,\"wall_ns\":30,\"hist\":\"30:1\"");
    lp_run_phase_free(advance_to(&cursor, many, 5));
    struct lp_run_phase *interval = advance_to(&cursor, NULL, 0); /* a forked child before its first phase */
    assert_int_equal(interval->n_children, 0);
    lp_run_phase_free(interval);
    interval = advance(&cursor, &(struct step){.nodes = few, .worker = "w_r1_4243_00000002"});
    assert_int_equal(phase_at(interval, "a")->calls, 1);
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_counters_at_their_limits(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
#define COUNTED(sum, calls)                                                                                            \
    NODE("a", "\"calls\":1,\"wall_ns\":30,\"hist\":\"30:1\",\"open_calls\":1,\"open_wall_ns\":" calls                  \
              ",\"open_cpu_ns\":0,\"counters\":{\"n\":[" sum "," calls ",-9223372036854775808,9223372036854775807]}")
    lp_run_phase_free(advance_to(&cursor, COUNTED("-9223372036854775808", "1"), 1));
    struct lp_run_phase *interval = advance_to(&cursor, COUNTED("9223372036854775807", "2"), 2);
    const struct lp_run_counter *counter = &phase_at(interval, "a")->counters[0];
    assert_true(counter->saturated);
    assert_true(counter->sum == INT64_MAX);
    lp_run_phase_free(interval);
    interval = advance_to(&cursor, COUNTED("-1", "3"), 3);
    counter = &phase_at(interval, "a")->counters[0];
    assert_false(counter->saturated);
    assert_true(counter->sum == INT64_MIN);
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_unmeasured_stays_unmeasured(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    lp_run_phase_free(advance_to(&cursor, NODE("a", "\"calls\":1,\"wall_ns\":30,\"cpu_ns\":30,\"hist\":\"30:1\""), 1));
    struct lp_run_phase *interval = advance_to(
        &cursor, NODE("a", "\"calls\":2,\"wall_ns\":60,\"cpu_ns\":30,\"nocpu_wall_ns\":30,\"hist\":\"30:2\""), 2);
    assert_false(phase_at(interval, "a")->cpu_known); /* in the run it is, but nothing of it is of this interval */
    lp_run_phase_free(interval);
    interval = advance_to(&cursor,
                          NODE("a", "\"calls\":4,\"wall_ns\":120,\"cpu_ns\":40,\"nocpu_wall_ns\":30,\"hist\":\"30:4\","
                                    "\"stride\":2"),
                          3);
    assert_true(phase_at(interval, "a")->cpu_known);
    assert_true(phase_at(interval, "a")->estimated);
    assert_int_equal(phase_at(interval, "a")->stride_max, 2);
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

/* An exit on another thread: what was handed out while the entry was open is not waited for to be made up. */
static void test_cpu_time_that_is_taken_back_holds_nothing_back(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    struct lp_run_phase *interval =
        advance_to(&cursor, NODE("a", "\"open_calls\":1,\"open_wall_ns\":90,\"open_cpu_ns\":80"), 1);
    assert_int_equal(phase_at(interval, "a")->cpu_ns, 80);
    lp_run_phase_free(interval);
    interval = advance_to(
        &cursor, NODE("a", "\"calls\":2,\"wall_ns\":300,\"cpu_ns\":70,\"nocpu_wall_ns\":100,\"hist\":\"40:2\""), 2);
    assert_int_equal(phase_at(interval, "a")->wall_ns, 210);
    assert_false(phase_at(interval, "a")->cpu_known);
    lp_run_phase_free(interval);
    interval = advance_to(
        &cursor, NODE("a", "\"calls\":3,\"wall_ns\":330,\"cpu_ns\":95,\"nocpu_wall_ns\":100,\"hist\":\"40:3\""), 3);
    assert_true(phase_at(interval, "a")->cpu_known);
    assert_int_equal(phase_at(interval, "a")->cpu_ns, 25);
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

/* A thread has counters of its own, outside all phases, and no time for them. */
static void test_threads_by_name(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    const char *nodes = NODE("a", "\"calls\":1,\"wall_ns\":30,\"hist\":\"30:1\"");
    lp_run_phase_free(advance(&cursor, &(struct step){.nodes = nodes, .thread_names = "true"}));
    struct lp_run_reading counted;
    char *text = make_document(&(struct spec){
        .state = RUNNING,
        .thread_names = "true",
        .written_s = 2,
        .threads = "[{\"name\":\"T\",\"tid\":7,\"alive\":true,\"nodes\":[{\"counters\":{\"n\":[1,1,1,1]}},"
                   "{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":30,\"hist\":\"30:1\"}]}]"});
    char message[64];
    assert_int_equal(lp_run_reading_parse(&counted, text, strlen(text), message, sizeof message), 0);
    struct lp_run_phase *interval = lp_run_reading_advance(&cursor, &counted);
    assert_false(lp_run_phase_is_idle(phase_at(interval, "T")));
    assert_true(phase_at(interval, "T")->is_thread);
    assert_int_equal(phase_at(interval, "T")->counters[0].sum, 1);
    assert_true(lp_run_phase_is_idle(phase_at(interval, "T/a")));
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
    free(text);
}

/* They come later than the entries, and are handed out once. */
static void test_device_times_that_come_later(void **state)
{
    (void)state;
    struct lp_run_reading cursor = {0};
    struct lp_run_phase *interval =
        advance_to(&cursor, NODE("a", "\"calls\":3,\"wall_ns\":9,\"hist\":\"3:3\",\"gpu_calls\":0,\"gpu_ns\":0"), 1);
    assert_int_equal(phase_at(interval, "a")->device_time->calls, 0);
    lp_run_phase_free(interval);
    interval = advance_to(&cursor,
                          NODE("a", "\"calls\":4,\"wall_ns\":12,\"hist\":\"3:4\",\"gpu_calls\":3,\"gpu_ns\":90,"
                                    "\"gpu_hist\":\"30:3\""),
                          2);
    assert_int_equal(phase_at(interval, "a")->calls, 1);
    assert_int_equal(phase_at(interval, "a")->device_time->calls, 3);
    assert_int_equal(phase_at(interval, "a")->device_time->ns, 90);
    assert_int_equal(lp_hist_total(&phase_at(interval, "a")->device_time->hist), 3);
    lp_run_phase_free(interval);
    interval = advance_to(&cursor,
                          NODE("a", "\"calls\":5,\"wall_ns\":15,\"hist\":\"3:5\",\"gpu_calls\":2,\"gpu_ns\":60,"
                                    "\"gpu_hist\":\"30:2\""),
                          3);
    assert_int_equal(phase_at(interval, "a")->device_time->ns, 0);
    lp_run_phase_free(interval);
    interval = advance_to(&cursor,
                          NODE("a", "\"calls\":6,\"wall_ns\":18,\"hist\":\"3:6\",\"gpu_calls\":4,\"gpu_ns\":95,"
                                    "\"gpu_hist\":\"5:1 30:3\""),
                          4);
    assert_int_equal(phase_at(interval, "a")->device_time->calls, 1);
    assert_int_equal(phase_at(interval, "a")->device_time->ns, 5);
    assert_int_equal(lp_hist_bucket(&phase_at(interval, "a")->device_time->hist, 5), 1);
    lp_run_phase_free(interval);
    lp_run_reading_release(&cursor);
}

static void test_a_refused_document_says_why(void **state)
{
    (void)state;
    struct lp_run_reading reading;
    char message[256];
    char *text = make_document(&(struct spec){
        .threads = ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":-3,\"hist\":\"3:1\"}")});
    assert_int_equal(lp_run_reading_parse(&reading, text, strlen(text), message, sizeof message), -1);
    assert_string_equal(message, "threads[0].nodes[1].wall_ns: negative");
    assert_null(reading.tree);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_goes_back_to_the_beginning),
        cmocka_unit_test(test_then_only_what_came_since),
        cmocka_unit_test(test_nothing_is_negative_or_handed_out_twice),
        cmocka_unit_test(test_what_has_no_time_is_held_back_until_it_has),
        cmocka_unit_test(test_an_overtaken_reading_gives_nothing),
        cmocka_unit_test(test_another_worker_begins_anew),
        cmocka_unit_test(test_counters_at_their_limits),
        cmocka_unit_test(test_unmeasured_stays_unmeasured),
        cmocka_unit_test(test_cpu_time_that_is_taken_back_holds_nothing_back),
        cmocka_unit_test(test_threads_by_name),
        cmocka_unit_test(test_device_times_that_come_later),
        cmocka_unit_test(test_a_refused_document_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

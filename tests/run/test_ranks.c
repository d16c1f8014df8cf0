/* Ranks of a world that nobody recorded for: who is missed, and who is not. */
#include "support.h"

#define MISSING " no file here: "
#define IT MISSING "it opened no profiler, ended before the first write, "
#define THEY MISSING "they opened no profiler, ended before the first write, "
#define ELSEWHERE "or wrote to a directory that is not this one, as on a disk of another host"

static char *folder;

static int begin(void **state)
{
    (void)state;
    folder = make_folder();
    return 0;
}

static int end(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

static void write_rank(long rank, long world, const char *role)
{
    static unsigned number;
    char worker[64];
    snprintf(worker, sizeof worker, "w_r1_1_%08x", ++number);
    write_worker(folder, &(struct spec){.worker = worker, .rank = rank, .world = world, .role = role});
}

static void write_ranks(long first, long last, long step, long world)
{
    for (long rank = first; rank <= last; rank += step)
        write_rank(rank, world, "trainer");
}

/* text is NULL: nobody is missed. */
static void assert_missing(const char *text)
{
    struct lp_run *run = load(folder);
    if (text)
        assert_caveat(run, "missing_ranks", text);
    assert_int_equal(count_caveats(run, "missing_ranks", NULL), text != NULL);
    lp_run_free(run);
}

static void test_some_are_missing(void **state)
{
    (void)state;
    write_ranks(0, 2, 1, 8);
    write_rank(4, 8, "learner");
    assert_missing("ranks 3 and 5-7 of 8 have" THEY ELSEWHERE);
    write_ranks(5, 7, 1, 8);
    assert_missing("rank 3 of 8 has" IT ELSEWHERE);
    write_rank(3, 8, "trainer");
    assert_missing(NULL);
}

static void test_a_host_that_writes_elsewhere(void **state)
{
    (void)state;
    write_ranks(0, 3, 1, 8);
    write_rank(3, 8, "loader"); /* a process that rank 3 has started */
    assert_missing("ranks 4-7 of 8 have" THEY ELSEWHERE);
}

static void test_many_are_counted(void **state)
{
    (void)state;
    write_ranks(0, 40, 2, 1000000000);
    write_ranks(50, 60, 1, 1000000000);
    assert_missing("ranks 1, 3, 5, 7, 9, 11, 13, 15 and 999999960 more of 1000000000 have" THEY ELSEWHERE);
}

static void test_who_was_chosen_to_record_is_complete(void **state)
{
    (void)state;
    write_rank(0, 8, "trainer");
    assert_missing(NULL);
    write_rank(4, 8, "trainer"); /* one of each node */
    assert_missing(NULL);
    write_ranks(2, 6, 4, 8);
    assert_missing(NULL);
    write_rank(1, 8, "trainer");
    assert_missing("ranks 3, 5 and 7 of 8 have" THEY ELSEWHERE);
}

static void test_the_first_ones_may_be_another_program(void **state)
{
    (void)state;
    write_ranks(1, 4, 1, 5);
    assert_missing(NULL);
}

static void test_several_worlds_are_not_judged(void **state)
{
    (void)state;
    write_ranks(0, 2, 1, 4);
    write_rank(0, 1, "learner"); /* one rank is no world */
    assert_missing("rank 3 of 4 has" IT ELSEWHERE);
    write_ranks(0, 1, 1, 2);
    assert_missing(NULL);
}

static void test_ranks_beyond_the_world_are_not_judged(void **state)
{
    (void)state;
    write_ranks(0, 2, 1, 8);
    write_rank(9, 8, "trainer");
    assert_missing(NULL);
}

static void test_who_cannot_be_read_or_did_not_join_is_said_once(void **state)
{
    (void)state;
    write_ranks(0, 2, 1, 4);
    write_bytes(folder, "workers/h/w_r1_9_00000009.json", "", 0);
    assert_missing(NULL);
    write_rank(5, 8, "trainer");
    assert_missing(NULL); /* of another world */
}

/* Whose the file is that cannot be read, nobody knows. */
static void test_more_are_missing_than_cannot_be_read(void **state)
{
    (void)state;
    write_ranks(0, 2, 1, 5);
    write_bytes(folder, "workers/h/w_r1_9_00000009.json", "", 0);
    assert_missing(
        "ranks 3-4 of 5 have no file here that could be read: they opened no profiler, ended before the first "
        "write, " ELSEWHERE);
}

/* What a filter leaves out is not missing; what is missing stays so. */
static void test_a_filter_hides_nobody(void **state)
{
    (void)state;
    struct lp_run *run;
    char message[256];
    const char *ranks[] = {"0-1"};
    struct lp_run_filter filter = {.ranks = ranks, .n_ranks = 1};
    struct lp_run_options options = {.no_images = true, .filter = &filter};
    write_ranks(0, 6, 1, 8);
    assert_int_equal(lp_run_load(&run, folder, &options, message, sizeof message), LP_RUN_OK);
    assert_int_equal(run->n_workers, 2);
    assert_caveat(run, "missing_ranks", "rank 7 of 8 has" IT ELSEWHERE);
    lp_run_free(run);
}

/* Only the newest of many attempts keeps its ranks, also if it was dropped meanwhile. */
static void test_of_several_attempts_the_newest_counts(void **state)
{
    (void)state;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        char run_id[16], worker[32];
        snprintf(run_id, sizeof run_id, "r%u", attempt);
        for (unsigned rank = 0; rank < (attempt == 3 ? 3 : 8); rank++) {
            snprintf(worker, sizeof worker, "w_r%u_1_%08x", attempt, rank);
            write_worker(folder,
                         &(struct spec){
                             .worker = worker, .run_id = run_id, .rank = rank, .start_s = attempt == 3 ? 90 : attempt});
        }
    }
    assert_missing("ranks 3-7 of 8 have" THEY ELSEWHERE);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_some_are_missing),
        TEST(test_a_host_that_writes_elsewhere),
        TEST(test_many_are_counted),
        TEST(test_who_was_chosen_to_record_is_complete),
        TEST(test_the_first_ones_may_be_another_program),
        TEST(test_several_worlds_are_not_judged),
        TEST(test_ranks_beyond_the_world_are_not_judged),
        TEST(test_who_cannot_be_read_or_did_not_join_is_said_once),
        TEST(test_more_are_missing_than_cannot_be_read),
        TEST(test_a_filter_hides_nobody),
        TEST(test_of_several_attempts_the_newest_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

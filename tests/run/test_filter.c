/* Some workers of a run: by role, host and rank; and what is said of values that match nobody. */
#include "support.h"

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

/* Ranks 0-3 are actors, 4 and 5 learners; two of each four on a host. */
static void write_six(void)
{
    static const char *const hosts[] = {"node00", "node01", "node02"};
    for (long rank = 0; rank < 6; rank++) {
        char worker[64];
        snprintf(worker, sizeof worker, "w_r1_%ld_%08lx", 100 + rank, rank);
        write_worker(folder, &(struct spec){.worker = worker,
                                            .role = rank < 4 ? "actor" : "learner",
                                            .host = hosts[rank / 2],
                                            .boot_id = hosts[rank / 2],
                                            .pid = 100 + rank,
                                            .rank = rank});
    }
}

#define ONE(...) ((const char *[]){__VA_ARGS__})

static int try(struct lp_run **run, const struct lp_run_filter *filter, char *message, size_t size)
{
    struct lp_run_options options = {.no_images = true, .filter = filter};
    return lp_run_load(run, folder, &options, message, size);
}

static struct lp_run *load_some(const struct lp_run_filter *filter)
{
    struct lp_run *run;
    char message[512];
    if (try(&run, filter, message, sizeof message) != LP_RUN_OK)
        fail_msg("%s", message);
    return run;
}

static void assert_ranks(struct lp_run *run, const char *ranks)
{
    char found[64] = "";
    for (size_t i = 0; i < run->n_workers; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%lld", (long long)run->workers[i].rank);
    assert_string_equal(found, ranks);
    assert_int_equal(run->n_workers + run->filtered.n_left_out, 6);
    assert_int_equal(phase_at(run->tree, "step")->calls, 2 * run->n_workers);
    lp_run_free(run);
}

/* The message without the directory's name, which comes first. */
static void assert_unknown(const struct lp_run_filter *filter, const char *expected)
{
    struct lp_run *run;
    char message[512];
    int status = try(&run, filter, message, sizeof message);
    assert_int_equal(status, LP_RUN_UNKNOWN);
    assert_null(run);
    assert_memory_equal(message + 1, folder, strlen(folder));
    assert_string_equal(message + 1 + strlen(folder), expected);
}

static void test_workers_are_chosen(void **state)
{
    (void)state;
    write_six();
    assert_ranks(load_some(NULL), "012345");
    assert_ranks(load_some(&(struct lp_run_filter){0}), "012345");
    assert_ranks(load_some(&(struct lp_run_filter){.roles = ONE("learner"), .n_roles = 1}), "45");
    assert_ranks(load_some(&(struct lp_run_filter){.roles = ONE("learner", "act*"), .n_roles = 2}), "012345");
    assert_ranks(load_some(&(struct lp_run_filter){.hosts = ONE("node0[12]"), .n_hosts = 1}), "2345");
    assert_ranks(load_some(&(struct lp_run_filter){.ranks = ONE("1-2", "5"), .n_ranks = 2}), "125");
    assert_ranks(load_some(&(struct lp_run_filter){.ranks = ONE("0,3-99"), .n_ranks = 1}), "0345");
    assert_ranks(
        load_some(&(struct lp_run_filter){
            .roles = ONE("actor"), .n_roles = 1, .hosts = ONE("*1"), .n_hosts = 1, .ranks = ONE("3"), .n_ranks = 1}),
        "3");
}

static void test_what_it_was_is_kept(void **state)
{
    (void)state;
    write_six();
    struct lp_run *run = load_some(&(struct lp_run_filter){.hosts = ONE("node02"), .n_hosts = 1});
    assert_true(lp_run_is_filtered(run));
    assert_string_equal(run->filtered.by.hosts[0], "node02");
    assert_int_equal(run->filtered.n_left_out, 4);
    assert_int_equal(run->n_hosts, 1);
    assert_int_equal(run->n_roles, 1);
    assert_string_equal(run->roles[0].name.bytes, "learner");
    lp_run_free(run);
}

static void test_what_is_not_there_is_named_with_what_is_near(void **state)
{
    (void)state;
    write_six();
    assert_unknown(&(struct lp_run_filter){.roles = ONE("actr"), .n_roles = 1},
                   "' has no role 'actr'; did you mean 'actor'?");
    assert_unknown(&(struct lp_run_filter){.roles = ONE("actor", "x*"), .n_roles = 2},
                   "' has no role 'x*'; there are 'actor' and 'learner'");
    assert_unknown(&(struct lp_run_filter){.hosts = ONE("node3"), .n_hosts = 1},
                   "' has no host 'node3'; did you mean 'node00', 'node01' or 'node02'?");
    assert_unknown(&(struct lp_run_filter){.ranks = ONE("6-9"), .n_ranks = 1},
                   "' has no process of rank '6-9'; there are ranks 0-5");
    assert_unknown(&(struct lp_run_filter){.roles = ONE("actor"), .n_roles = 1, .hosts = ONE("node02"), .n_hosts = 1},
                   "' has no process of that role and host at once");
}

static void test_ranks_that_are_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",   "a", "-1", "1-", "3-1", "1,", "1,,2", " 1", "+1", "99999999999999999999",
                                        "1 2"};
    write_six();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lp_run *run;
        char message[256], expected[256];
        struct lp_run_filter filter = {.ranks = ONE(wrong[i]), .n_ranks = 1};
        assert_int_equal(try(&run, &filter, message, sizeof message), LP_RUN_WRONG);
        snprintf(expected, sizeof expected, "no ranks '%s': give them as 3, 0-7 or 0-3,8", wrong[i]);
        assert_string_equal(message, expected);
    }
}

/* A role that looks like a glob is still a name, and one that does not print is asked for as it is shown. */
static void test_strange_names(void **state)
{
    (void)state;
    write_worker(folder, &(struct spec){.worker = "w_r1_1_00000001", .role = "a[1]"});
    write_worker(folder, &(struct spec){.worker = "w_r1_2_00000002", .role = "x\\\\x00y"});
    struct lp_run *run = load_some(&(struct lp_run_filter){.roles = ONE("a[1]"), .n_roles = 1});
    assert_int_equal(run->n_workers, 1);
    lp_run_free(run);
    run = load_some(&(struct lp_run_filter){.roles = ONE("x\xef\xbf\xbdy"), .n_roles = 1});
    assert_int_equal(run->n_workers, 1);
    lp_run_free(run);
}

/* Who fell silent is told by the end of the whole run, not of what is looked at. */
static void test_silence_is_by_the_whole_run(void **state)
{
    (void)state;
    write_worker(folder,
                 &(struct spec){.worker = "w_r1_1_00000001", .role = "quiet", .state = "running", .written_s = 100});
    write_worker(folder, &(struct spec){.worker = "w_r1_2_00000002", .role = "other", .written_s = 1000});
    struct lp_run *run = load_some(&(struct lp_run_filter){.roles = ONE("quiet"), .n_roles = 1});
    assert_true(run->workers[0].stale);
    assert_true(run->workers[0].silent_ns == 900 * SECOND);
    assert_true(run->runtime_ns == 100 * SECOND);
    lp_run_free(run);
}

/* The attempt is chosen as ever, also where its figures had been dropped meanwhile. */
static void test_the_newest_attempt_is_still_the_newest(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char worker[64], run_id[16];
        snprintf(run_id, sizeof run_id, "r%u", i);
        snprintf(worker, sizeof worker, "w_r%u_1_%08x", i, i);
        write_worker(folder, &(struct spec){
                                 .worker = worker, .run_id = run_id, .role = i ? "other" : "actor", .start_s = 90 - i});
    }
    struct lp_run *run = load_some(&(struct lp_run_filter){.roles = ONE("actor"), .n_roles = 1});
    assert_string_equal(run->run_id.bytes, "r0");
    lp_run_free(run);
    assert_unknown(&(struct lp_run_filter){.roles = ONE("other"), .n_roles = 1},
                   "' has no role 'other'; there is 'actor'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_workers_are_chosen, begin, end),
        cmocka_unit_test_setup_teardown(test_what_it_was_is_kept, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_not_there_is_named_with_what_is_near, begin, end),
        cmocka_unit_test_setup_teardown(test_ranks_that_are_none, begin, end),
        cmocka_unit_test_setup_teardown(test_strange_names, begin, end),
        cmocka_unit_test_setup_teardown(test_silence_is_by_the_whole_run, begin, end),
        cmocka_unit_test_setup_teardown(test_the_newest_attempt_is_still_the_newest, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

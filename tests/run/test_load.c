/* Whole run directories: F4, F5, J1, J2, J3, K15, O7 and what the user is told when there is nothing to read. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

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

/* Loads dir, which must fail with that status; the message, without the folder's own name, is expected. */
static void assert_fails(const char *dir, int status, const char *before, const char *after)
{
    struct lp_run *run;
    char message[512], expected[512];
    struct lp_run_options options = {.no_images = true};
    assert_int_equal(lp_run_load(&run, dir, &options, message, sizeof message), status);
    assert_null(run);
    snprintf(expected, sizeof expected, "%s'%s'%s", before, dir, after);
    assert_string_equal(message, expected);
}

static void test_a_directory_that_is_not_there_K15(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/none", folder);
    assert_fails(path, LP_RUN_MISSING, "no directory ", ": give the run_dir that the program was profiled with");
    write_bytes(folder, "none", "x", 1);
    assert_fails(path, LP_RUN_MISSING, "", " is not a directory: give the run_dir that the program was profiled with");
}

static void test_a_directory_without_workers_K15(void **state)
{
    (void)state;
    static const char hint[] = " yet: was the program run with its profiler switched on (LINEPROFILER_PROFILE=1)?";
    assert_fails(folder, LP_RUN_EMPTY, "no worker has written to ", hint);
    write_bytes(folder, "workers/a/w_r1_1_00000001.json.tmp", "{", 1);
    assert_fails(folder, LP_RUN_EMPTY, "no worker has written to ", hint);
}

/* Its workers are there, but it is not what they have written to. */
static void test_a_folder_inside_a_run_directory(void **state)
{
    (void)state;
    char path[256], real[PATH_MAX], *hint;
    static const char yet[] = " yet: was the program run with its profiler switched on (LINEPROFILER_PROFILE=1)?";
    struct spec spec = {0};
    write_worker(folder, &spec);
    snprintf(path, sizeof path, "%s/workers", folder);
    assert_fails(path, LP_RUN_EMPTY, "no worker has written to ", yet); /* no run's, by what is beside it */
    write_bytes(folder, "metadata.json", "{}", 2);
    assert_non_null(realpath(folder, real));
    assert_true(asprintf(&hint, " is a folder inside the run directory '%s': give that one", real) > 0);
    assert_fails(path, LP_RUN_EMPTY, "", hint);
    snprintf(path, sizeof path, "%s/workers/node07/", folder);
    assert_fails(path, LP_RUN_EMPTY, "", hint);
    snprintf(path, sizeof path, "%s/other", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(path, LP_RUN_EMPTY, "no worker has written to ", yet);
    free(hint);
}

static void test_nothing_readable_K15(void **state)
{
    (void)state;
    write_bytes(folder, "workers/a/w_r1_1_00000001.json", "", 0);
    assert_fails(folder, LP_RUN_NOTHING, "",
                 ": nothing in it could be read: workers/a/w_r1_1_00000001.json: empty file");
    write_bytes(folder, "workers/a/w_r1_1_00000002.json", "{", 1);
    assert_fails(folder, LP_RUN_NOTHING, "",
                 ": none of the 2 files and folders of workers in it could be read, the first: "
                 "workers/a/w_r1_1_00000001.json: empty file");
}

/* A folder is not said to be a file. */
static void test_folders_that_cannot_be_read(void **state)
{
    (void)state;
    char path[256];
    write_bytes(folder, "workers/a/w_r1_1_00000001.json/file", "x", 1);
    assert_fails(folder, LP_RUN_NOTHING, "",
                 ": nothing in it could be read: workers/a/w_r1_1_00000001.json: a directory, not a file");
    snprintf(path, sizeof path, "%s/workers/0", folder);
    assert_int_equal(symlink("a", path), 0);
    assert_fails(folder, LP_RUN_NOTHING, "",
                 ": none of the 2 files and folders of workers in it could be read, the first: workers/0: symbolic "
                 "link: not followed");
}

static void test_a_name_that_does_not_print_is_said_in_one_line(void **state)
{
    (void)state;
    struct lp_run *run;
    char message[256], tiny[8];
    assert_int_equal(lp_run_load(&run, "/a\nb\xff", NULL, message, sizeof message), LP_RUN_MISSING);
    assert_string_equal(message, "no directory '/a\xef\xbf\xbd"
                                 "b\xef\xbf\xbd': give the run_dir that the program was "
                                 "profiled with");
    assert_int_equal(lp_run_load(&run, "/none", NULL, tiny, sizeof tiny), LP_RUN_MISSING);
    assert_string_equal(tiny, "no dire");
    assert_int_equal(lp_run_load(&run, "/none", NULL, NULL, 0), LP_RUN_MISSING);
}

static void test_one_worker(void **state)
{
    (void)state;
    struct spec spec = {0};
    write_worker(folder, &spec);
    struct lp_run *run = load(folder);
    assert_string_equal(run->dir, folder);
    assert_string_equal(run->run_id.bytes, "r1");
    assert_int_equal(run->started_realtime_ns, EPOCH);
    assert_int_equal(run->written_realtime_ns, EPOCH + 100 * SECOND);
    assert_int_equal(run->runtime_ns, 100 * SECOND);
    assert_int_equal(run->n_workers, 1);
    assert_string_equal(run->workers[0].path, "workers/node07/w_r1_4242_00000001.json");
    assert_int_equal(run->workers[0].root_wall_ns, 60);
    assert_int_equal(run->n_roles, 1);
    assert_true(run->roles[0].imbalance == 1);
    assert_int_equal(run->n_hosts, 1);
    assert_int_equal(run->n_caveats, 0);
    assert_false(run->live);
    assert_null(run->metadata);
    assert_int_equal(phase_at(run->tree, "step")->calls, 2);
    assert_ptr_not_equal(run->tree, run->roles[0].tree);
    assert_ptr_equal(lp_run_role_find(run, "actor", 5), &run->roles[0]);
    assert_null(lp_run_role_find(run, "actors", 6));
    lp_run_free(run);
    lp_run_free(NULL);
}

static void test_roles_hosts_and_order_of_workers(void **state)
{
    (void)state;
    static const char *const sorted[] = {"w_r1_4_00000004", "w_r1_3_00000003", "w_r1_2_00000002", "w_r1_1_00000001",
                                         "w_r1_5_00000005"};
    static const struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "b", .rank = 1, .role = "learner", .start_s = 5},
        {.worker = "w_r1_2_00000002", .host = "b", .rank = 1, .start_s = 4},
        {.worker = "w_r1_3_00000003", .host = "b", .rank = 0},
        {.worker = "w_r1_4_00000004", .host = "a", .rank = 9},
        {.worker = "w_r1_5_00000005", .host = "b", .rank = 1, .start_s = 5},
    };
    for (size_t i = 0; i < 5; i++)
        write_worker(folder, &specs[i]);
    struct lp_run *run = load(folder);
    assert_int_equal(run->n_workers, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(run->workers[i].worker.bytes, sorted[i]);
    assert_int_equal(run->n_hosts, 2);
    assert_string_equal(run->hosts[0].bytes, "a");
    assert_int_equal(run->n_roles, 2);
    assert_string_equal(run->roles[0].name.bytes, "actor");
    assert_int_equal(run->roles[0].n_workers, 4);
    assert_int_equal(run->roles[1].n_workers, 1);
    assert_int_equal(run->roles[1].workers[0], 3);
    assert_int_equal(phase_at(run->tree, "step")->calls, 10);
    assert_int_equal(phase_at(run->roles[0].tree, "step")->calls, 8);
    assert_int_equal(phase_at(run->roles[0].tree, "step")->workers, 4);
    assert_int_equal(run->tree->workers, 5);
    lp_run_free(run);
}

static void test_imbalance(void **state)
{
    (void)state;
    struct spec busy = {.worker = "w_r1_1_00000001",
                        .threads =
                            ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":300,\"hist\":\"47:1\"}")};
    struct spec idle = {.worker = "w_r1_2_00000002", .threads = "[]"};
    struct spec other = {.worker = "w_r1_3_00000003", .role = "idle", .threads = "[]"};
    write_worker(folder, &busy);
    write_worker(folder, &idle);
    write_worker(folder, &other);
    struct lp_run *run = load(folder);
    assert_true(run->roles[0].imbalance == 2);
    assert_true(isnan(run->roles[1].imbalance));
    lp_run_free(run);
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void assert_same_tree(const struct lp_run_phase *a, const struct lp_run_phase *b)
{
    assert_true(lp_text_equal(lp_text_span(&a->name), lp_text_span(&b->name)));
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->wall_ns, b->wall_ns);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->n_children, b->n_children);
    for (size_t i = 0; i < a->n_children; i++)
        assert_same_tree(a->children[i], b->children[i]);
}

/* Files are read in the order of their names; other names and host folders are another order. */
static void write_shuffled(const char *into, uint64_t seed)
{
    for (int i = 0; i < 30; i++) {
        char worker[64], host[16], nodes[512];
        snprintf(worker, sizeof worker, "w_r1_%d_%08x", i, (unsigned)next(&seed));
        snprintf(host, sizeof host, "h%d", (int)(next(&seed) % 5));
        snprintf(nodes, sizeof nodes,
                 ONE_THREAD(",{\"parent\":0,\"name\":\"p%d\",\"calls\":%d,\"wall_ns\":%d,\"hist\":\"9:%d\"}"
                            ",{\"parent\":1,\"name\":\"q%d\",\"calls\":1,\"wall_ns\":2,\"hist\":\"2:1\"}"),
                 i % 3, i + 1, 9 * i + 9, i + 1, i % 4);
        struct spec spec = {.worker = worker,
                            .host = host,
                            .threads = nodes,
                            .pid = i + 1,
                            .rank = i,
                            .role = i % 7 ? "actor" : "learner",
                            .start_s = (uint64_t)i};
        write_worker(into, &spec);
    }
}

static void test_the_order_of_files_does_not_matter_J2(void **state)
{
    (void)state;
    write_shuffled(folder, 1);
    struct lp_run *expected = load(folder);
    for (uint64_t seed = 2; seed < 12; seed++) {
        char *other = make_folder();
        write_shuffled(other, seed);
        struct lp_run *run = load(other);
        assert_same_tree(expected->tree, run->tree);
        assert_int_equal(run->n_roles, 2);
        assert_same_tree(expected->roles[0].tree, run->roles[0].tree);
        assert_same_tree(expected->roles[1].tree, run->roles[1].tree);
        assert_true(expected->roles[0].imbalance == run->roles[0].imbalance);
        lp_run_free(run);
        remove_folder(other);
    }
    lp_run_free(expected);
}

static void test_the_newest_attempt_is_reported_F4(void **state)
{
    (void)state;
    static const struct spec specs[] = {
        {.worker = "w_old_1_00000001", .run_id = "old", .start_s = 0, .written_s = 10},
        {.worker = "w_old_2_00000002", .run_id = "old", .start_s = 50, .written_s = 60}, /* a late joiner */
        {.worker = "w_new_1_00000003", .run_id = "new", .start_s = 40, .written_s = 90},
        {.worker = "w_mid_1_00000004", .run_id = "mid", .start_s = 20, .written_s = 30},
    };
    for (size_t i = 0; i < 4; i++)
        write_worker(folder, &specs[i]);
    struct lp_run *run = load(folder);
    assert_string_equal(run->run_id.bytes, "new");
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(phase_at(run->tree, "step")->calls, 2);
    assert_int_equal(run->n_superseded, 2);
    assert_string_equal(run->superseded[0].run_id.bytes, "mid");
    assert_string_equal(run->superseded[1].run_id.bytes, "old");
    assert_int_equal(run->superseded[1].n_workers, 2);
    assert_int_equal(run->superseded[1].started_realtime_ns, EPOCH);
    assert_int_equal(run->superseded[1].written_realtime_ns, EPOCH + 60 * SECOND);
    lp_run_free(run);
}

static struct lp_run *load_attempt(const char *run_id, char message[512])
{
    struct lp_run *run;
    struct lp_run_options options = {.no_images = true, .run_id = run_id};
    int status = lp_run_load(&run, folder, &options, message, 512);
    assert_int_equal(status, run ? LP_RUN_OK : LP_RUN_UNKNOWN);
    return run;
}

/* More than keep their figures until it is known which is the newest. */
static void test_an_attempt_that_was_asked_for_F4(void **state)
{
    char worker[64], run_id[16], message[512];
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        snprintf(run_id, sizeof run_id, "run-%u", i);
        snprintf(worker, sizeof worker, "w_%s_1_%08u", run_id, i);
        struct spec spec = {.worker = worker, .run_id = run_id, .start_s = 10 * i, .written_s = 10 * i + 5};
        write_worker(folder, &spec);
    }
    static const struct {
        const char *wanted, *found;
        size_t later;
    } cases[] = {{"run-0", "run-0", 9}, {"run-8", "run-8", 1}, {"run-9", "run-9", 0}, {"run-[0-4]", "run-4", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_run *run = load_attempt(cases[i].wanted, message);
        assert_non_null(run);
        assert_string_equal(run->run_id.bytes, cases[i].found);
        assert_int_equal(run->n_workers, 1);
        assert_int_equal(phase_at(run->tree, "step")->calls, 2);
        assert_int_equal(run->n_superseded, 9);
        size_t later = 0;
        for (size_t k = 0; k < 9; k++)
            later += run->superseded[k].later;
        assert_int_equal(later, cases[i].later);
        for (size_t k = 0; k < run->n_caveats; k++) /* those that came after did not run beside it */
            assert_string_equal(run->caveats[k].kind, "superseded");
        const char *first = cases[i].later ? "a later attempt in this directory is left out: run-9 (1 worker)"
                                           : "an earlier attempt in this directory is left out: run-8 (1 worker)";
        assert_string_equal(run->caveats[0].text, first);
        lp_run_free(run);
    }
    assert_null(load_attempt("run-8x", message));
    assert_non_null(strstr(message, "' has no run 'run-8x'; did you mean "));
    assert_null(load_attempt("something else", message));
    assert_non_null(strstr(message, "' has no run 'something else'; there are 'run-0', 'run-1', "));
}

/* PR10: the same pid, host and role in two runs are two workers of two runs. */
static void test_equal_pids_of_two_runs_are_kept_apart_PR10(void **state)
{
    (void)state;
    static const struct spec specs[] = {
        {.worker = "w_a_1_00000001", .run_id = "a", .pid = 1, .start_s = 0, .written_s = 10},
        {.worker = "w_b_1_00000002", .run_id = "b", .pid = 1, .start_s = 20, .written_s = 30},
    };
    write_worker(folder, &specs[0]);
    write_worker(folder, &specs[1]);
    struct lp_run *run = load(folder);
    assert_int_equal(phase_at(run->tree, "step")->calls, 2);
    assert_int_equal(run->n_superseded, 1);
    lp_run_free(run);
}

/* Many attempts: only the newest few keep their figures, and one that only shows at the end to be the newest is right
   all the same. Here the attempts' first workers come last by name. */
static void test_many_attempts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        char run_id[16], late[32], first[32];
        snprintf(run_id, sizeof run_id, "r%02u", i);
        snprintf(late, sizeof late, "w_%s_1_%08x", run_id, i);
        snprintf(first, sizeof first, "w_z%s_1_%08x", run_id, i);
        struct spec specs[] = {
            {.worker = late, .run_id = run_id, .start_s = 500 + i, .written_s = 1000},
            {.worker = first, .run_id = run_id, .start_s = 400 - i, .written_s = 1000},
        };
        write_worker(folder, &specs[0]);
        write_worker(folder, &specs[1]);
    }
    struct lp_run *run = load(folder);
    assert_string_equal(run->run_id.bytes, "r00");
    assert_int_equal(run->n_workers, 2);
    assert_int_equal(phase_at(run->tree, "step")->calls, 4);
    assert_int_equal(run->n_superseded, 39);
    assert_string_equal(run->superseded[0].run_id.bytes, "r01");
    for (size_t i = 0; i < run->n_superseded; i++)
        assert_int_equal(run->superseded[i].n_workers, 2);
    assert_int_equal(run->n_unreadable, 0);
    lp_run_free(run);
}

static void test_a_bad_file_costs_its_worker_only_J3(void **state)
{
    (void)state;
    struct spec spec = {0};
    write_worker(folder, &spec);
    write_bytes(folder, "workers/node07/w_r1_9_00000009.json", "", 0);
    write_bytes(folder, "workers/node07/w_r1_8_00000008.json", "[1", 2);
    struct lp_run *run = load(folder);
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(run->n_unreadable, 2);
    assert_string_equal(run->unreadable[0].path, "workers/node07/w_r1_8_00000008.json");
    assert_string_equal(run->unreadable[0].reason, "cut off at byte 2");
    assert_string_equal(run->unreadable[1].path, "workers/node07/w_r1_9_00000009.json");
    assert_string_equal(run->unreadable[1].reason, "empty file");
    lp_run_free(run);
}

/* A bad node at the very end of a file: nothing of what stands before it is merged. */
static void test_no_worker_is_merged_by_half(void **state)
{
    (void)state;
    struct spec good = {0};
    struct spec bad = {.worker = "w_r1_5_00000005",
                       .threads = "[{\"name\":\"\",\"tid\":1,\"alive\":true,\"nodes\":[{}" STEP "]},"
                                  "{\"name\":\"\",\"tid\":1,\"alive\":true,\"nodes\":[{},{\"parent\":0,\"name\":\"x\","
                                  "\"calls\":-1}]}]"};
    write_worker(folder, &good);
    write_worker(folder, &bad);
    struct lp_run *run = load(folder);
    assert_int_equal(phase_at(run->tree, "step")->calls, 2);
    assert_int_equal(run->tree->n_children, 1);
    assert_int_equal(run->tree->workers, 1);
    assert_int_equal(run->n_unreadable, 1);
    lp_run_free(run);
}

/* Cut off at every byte, a file never fails the run, and is named as long as anything of it is missing: EX06. */
static void test_truncation_at_every_byte_EX06(void **state)
{
    (void)state;
    static const char name[] = "workers/node07/w_r1_9_00000009.json";
    struct spec good = {0}, cut = {.worker = "w_r1_9_00000009"};
    char *text = make_document(&cut);
    size_t len = strlen(text) - 1;
    write_worker(folder, &good);
    for (size_t n = 0; n <= len; n++) {
        write_bytes(folder, name, text, n);
        struct lp_run *run = load(folder);
        assert_int_equal(run->n_workers, n < len ? 1 : 2);
        assert_int_equal(run->n_unreadable, n < len ? 1 : 0);
        if (n < len)
            assert_string_equal(run->unreadable[0].path, name);
        lp_run_free(run);
    }
    free(text);
}

/* The name tells to which attempt a file belongs; one that says nothing known is a loss of the run reported. */
static void test_unreadable_files_of_other_attempts(void **state)
{
    (void)state;
    static const struct spec specs[] = {
        {.worker = "w_o_l_d_1_00000001", .run_id = "o/l.d", .start_s = 0, .written_s = 10},
        {.worker = "w_new_1_00000003", .run_id = "new", .start_s = 40, .written_s = 90},
    };
    static const char *const bad[] = {"workers/h/w_o_l.d_7_00000001.json", "workers/h/w_new_7_00000001.json",
                                      "workers/h/w_other_7_00000001.json", "workers/h/w_mangled.json"};
    write_bytes(folder, "workers/node07/w_o_l_d_1_00000001.json", "", 0);
    write_worker(folder, &specs[0]);
    write_worker(folder, &specs[1]);
    for (size_t i = 0; i < 4; i++)
        write_bytes(folder, bad[i], "", 0);
    struct lp_run *run = load(folder);
    assert_int_equal(run->n_superseded, 1);
    assert_int_equal(run->superseded[0].n_unreadable, 1);
    assert_int_equal(run->n_unreadable, 3);
    assert_string_equal(run->unreadable[0].path, bad[3]);
    assert_string_equal(run->unreadable[1].path, bad[1]);
    assert_string_equal(run->unreadable[2].path, bad[2]);
    lp_run_free(run);
}

static void test_hosts_with_clocks_of_their_own_CK03(void **state)
{
    (void)state;
    static const struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "b1", .start_s = 10, .written_s = 100},
        {.worker = "w_r1_2_00000002", .host = "b", .boot_id = "b2", .start_s = 5, .written_s = 90, .booted_s = 1000},
    };
    write_worker(folder, &specs[0]);
    write_worker(folder, &specs[1]);
    struct lp_run *run = load(folder);
    assert_int_equal(run->runtime_ns, 95 * SECOND);
    assert_int_equal(run->started_realtime_ns, EPOCH + 5 * SECOND);
    lp_run_free(run);
}

/* CK01: a step of the wall clock back by an hour does not touch the runtime of one host. */
static void test_runtime_by_the_monotonic_clock_CK01(void **state)
{
    (void)state;
    struct spec spec = {0};
    char *text = make_document(&spec);
    char *stepped = swapped(text, "\"realtime_ns\":1780000100000000000,", "\"realtime_ns\":1779996500000000000,");
    write_bytes(folder, "workers/node07/w_r1_4242_00000001.json", stepped, strlen(stepped));
    struct lp_run *run = load(folder);
    assert_int_equal(run->runtime_ns, 100 * SECOND);
    lp_run_free(run);
    free(text);
    free(stepped);
}

static void put_metadata(const char *entry)
{
    char *text;
    assert_true(asprintf(&text, "{\"runs\":{\"other\":{\"run_id\":\"other\"},\"r1\":%s}}", entry) > 0);
    write_bytes(folder, "metadata.json", text, strlen(text));
    free(text);
}

static void test_what_the_run_came_from(void **state)
{
    (void)state;
    struct spec spec = {0};
    write_worker(folder, &spec);
    put_metadata("{\"run_id\":\"r1\",\"provenance\":{\"git\":{\"commit\":\"0123456789abcdef0123456789abcdef01234567\","
                 "\"branch\":\"ma\\\\\\\\in\",\"dirty\":true,\"difference_sha256\":\"ab\"},"
                 "\"packages\":{\"torch\":\"2.3\",\"gone\":null}}}");
    struct lp_run *run = load(folder);
    assert_string_equal(run->provenance.commit.bytes, "0123456789abcdef0123456789abcdef01234567");
    assert_string_equal(run->provenance.branch.bytes, "ma\\in");
    assert_true(run->provenance.dirty_known && run->provenance.dirty);
    assert_string_equal(run->provenance.difference_sha256.bytes, "ab");
    assert_int_equal(run->provenance.n_packages, 2);
    lp_run_free(run);
    static const char *const nothing[] = {
        "{\"run_id\":\"r1\"}",
        "{\"run_id\":\"r2\",\"provenance\":{\"git\":{\"commit\":\"0123\"}}}",
        "{\"run_id\":\"r1\",\"provenance\":null}",
        "{\"run_id\":\"r1\",\"provenance\":[1]}",
        "{\"run_id\":\"r1\",\"provenance\":{\"git\":null,\"packages\":7}}",
        "{\"run_id\":\"r1\",\"provenance\":{\"git\":{\"commit\":5,\"branch\":\"\\\\q\",\"dirty\":\"yes\"}}}",
        "{\"run_id\":7}",
        "7",
    };
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        put_metadata(nothing[i]);
        run = load(folder);
        assert_null(run->provenance.commit.bytes);
        assert_null(run->provenance.branch.bytes);
        assert_false(run->provenance.dirty_known);
        assert_int_equal(run->provenance.n_packages, 0);
        lp_run_free(run);
    }
}

static void test_metadata_is_kept_if_it_is_json(void **state)
{
    (void)state;
    struct spec spec = {0};
    write_worker(folder, &spec);
    write_bytes(folder, "metadata.json", "{\"runs\":{}}\n", 12);
    struct lp_run *run = load(folder);
    assert_string_equal(run->metadata, "{\"runs\":{}}\n");
    lp_run_free(run);
    write_bytes(folder, "metadata.json", "{\"runs\":", 8);
    run = load(folder);
    assert_null(run->metadata);
    lp_run_free(run);
}

static size_t progress_calls, progress_total;

static void note_progress(void *context, size_t done, size_t total)
{
    assert_ptr_equal(context, &progress_calls);
    assert_true(done <= total);
    progress_calls++;
    progress_total = done == total ? total : 0;
}

static void test_progress_is_shown(void **state)
{
    (void)state;
    struct lp_run *run;
    char message[256];
    struct lp_run_options options = {.progress = note_progress, .progress_context = &progress_calls};
    for (unsigned i = 0; i < 300; i++) {
        char worker[32];
        snprintf(worker, sizeof worker, "w_r1_1_%08x", i);
        struct spec spec = {.worker = worker};
        write_worker(folder, &spec);
    }
    assert_int_equal(lp_run_load(&run, folder, &options, message, sizeof message), LP_RUN_OK);
    assert_int_equal(progress_calls, 300);
    assert_int_equal(progress_total, 300);
    lp_run_free(run);
}

static void test_a_run_directory_may_be_a_link(void **state)
{
    (void)state;
    char link_path[256], real[256];
    struct spec spec = {0};
    snprintf(real, sizeof real, "%s/real", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    write_bytes(folder, "real/keep", "", 0);
    write_worker(real, &spec);
    assert_int_equal(symlink("real", link_path), 0);
    struct lp_run *run = load(link_path);
    assert_int_equal(run->n_workers, 1);
    lp_run_free(run);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_directory_that_is_not_there_K15),
        TEST(test_a_directory_without_workers_K15),
        TEST(test_a_folder_inside_a_run_directory),
        TEST(test_nothing_readable_K15),
        TEST(test_folders_that_cannot_be_read),
        TEST(test_a_name_that_does_not_print_is_said_in_one_line),
        TEST(test_one_worker),
        TEST(test_roles_hosts_and_order_of_workers),
        TEST(test_imbalance),
        TEST(test_the_order_of_files_does_not_matter_J2),
        TEST(test_the_newest_attempt_is_reported_F4),
        TEST(test_an_attempt_that_was_asked_for_F4),
        TEST(test_equal_pids_of_two_runs_are_kept_apart_PR10),
        TEST(test_many_attempts),
        TEST(test_a_bad_file_costs_its_worker_only_J3),
        TEST(test_no_worker_is_merged_by_half),
        TEST(test_truncation_at_every_byte_EX06),
        TEST(test_unreadable_files_of_other_attempts),
        TEST(test_hosts_with_clocks_of_their_own_CK03),
        TEST(test_runtime_by_the_monotonic_clock_CK01),
        TEST(test_what_the_run_came_from),
        TEST(test_metadata_is_kept_if_it_is_json),
        TEST(test_progress_is_shown),
        TEST(test_a_run_directory_may_be_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

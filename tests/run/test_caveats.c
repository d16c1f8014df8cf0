/* What a reader is told beside the figures: K10, K11, and the cases that ask for a word. */
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

#define OPEN_STEP                                                                                                      \
    ONE_THREAD(",{\"parent\":0,\"name\":\"iteration\",\"open_calls\":1,\"open_wall_ns\":9000000000}"                   \
               ",{\"parent\":1,\"name\":\"mcts\",\"open_calls\":1,\"open_wall_ns\":3200000000}")

/* Loads what the specs say, on top of what is in the folder. */
static struct lp_run *load_specs(const struct spec *specs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        write_worker(folder, &specs[i]);
    return load(folder);
}
#define LOAD(specs) load_specs(specs, sizeof(specs) / sizeof *(specs))

static void test_a_clean_run_has_none(void **state)
{
    (void)state;
    struct spec specs[] = {{.worker = "w_r1_1_00000001"}, {.worker = "w_r1_2_00000002", .host = "other"}};
    struct lp_run *run = LOAD(specs);
    assert_int_equal(run->n_caveats, 0);
    lp_run_free(run);
}

static void test_unreadable_files_are_named(void **state)
{
    (void)state;
    struct spec specs[] = {{.worker = "w_r1_1_00000001"}, {.worker = "w_r1_2_00000002"}};
    write_bytes(folder, "workers/a\nb/w_r1_9_00000009.json", "", 0);
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "unreadable",
                  "could not be read, that worker is missing: workers/a\xef\xbf\xbd"
                  "b/w_r1_9_00000009.json (empty file)");
    assert_int_equal(run->n_caveats, 1);
    lp_run_free(run);
}

static void test_folders_that_cannot_be_read_are_named(void **state)
{
    char link[256];
    (void)state;
    struct spec specs[] = {{.worker = "w_r1_1_00000001"}};
    write_bytes(folder, "away/w_r1_2_00000002.json", "", 0);
    write_worker(folder, &specs[0]);
    snprintf(link, sizeof link, "%s/workers/node08.example.org", folder);
    assert_int_equal(symlink("../away", link), 0);
    struct lp_run *run = load(folder);
    assert_caveat(run, "unreadable",
                  "could not be read, all workers in it are missing: workers/node08.example.org (symbolic link: not "
                  "followed)");
    lp_run_free(run);
}

static void test_twenty_are_named_and_the_rest_counted(void **state)
{
    (void)state;
    struct spec specs[] = {{.worker = "w_r1_1_00000001"}};
    for (unsigned i = 0; i < 25; i++) {
        char name[64];
        snprintf(name, sizeof name, "workers/h/w_r1_9_%08x.json", i);
        write_bytes(folder, name, "", 0);
    }
    struct lp_run *run = LOAD(specs);
    assert_int_equal(count_caveats(run, "unreadable", NULL), 21);
    assert_caveat(run, "unreadable", "and 5 more files that could not be read");
    assert_caveat(run, "lost_workers",
                  "25 of 26 worker files could not be read: the figures are those of fewer than half of the processes");
    assert_int_equal(run->n_unreadable, 25);
    lp_run_free(run);
}

static void test_half_lost_is_not_more_than_half_K11(void **state)
{
    (void)state;
    struct spec specs[] = {{.worker = "w_r1_1_00000001"}};
    write_bytes(folder, "workers/h/w_r1_9_00000009.json", "", 0);
    struct lp_run *run = LOAD(specs);
    assert_int_equal(count_caveats(run, "lost_workers", NULL), 0);
    lp_run_free(run);
}

static void test_superseded_attempts_are_named_F4(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r0_1_00000001", .run_id = "r0", .written_s = 10},
        {.worker = "w_r0_2_00000002", .run_id = "r0", .written_s = 10},
        {.worker = "w_r1_1_00000003", .start_s = 20},
    };
    write_bytes(folder, "workers/h/w_r0_3_00000009.json", "", 0);
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "superseded",
                  "an earlier attempt in this directory is left out: r0 (2 workers and 1 unreadable file)");
    assert_int_equal(run->n_caveats, 1);
    lp_run_free(run);
}

/* A process that an earlier program started, such as a detached actor, may outlive it. */
static void test_what_is_left_of_an_earlier_run_F4(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r0_1_00000001", .run_id = "r0", .written_s = 10, .origin = "generated"},
        {.worker = "w_r0_2_00000002", .run_id = "r0", .written_s = 100},
        {.worker = "w_r1_1_00000003", .start_s = 20, .written_s = 100, .origin = "generated"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "superseded", "an earlier attempt in this directory is left out: r0 (2 workers)");
    assert_int_equal(run->n_caveats, 1);
    lp_run_free(run);
}

static void test_workers_that_did_not_join(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r0_1_00000001", .run_id = "r0", .written_s = 100, .origin = "generated"},
        {.worker = "w_rx_1_00000002", .run_id = "rx", .written_s = 100, .origin = "generated"},
        {.worker = "w_r1_1_00000003", .start_s = 1},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "no_run_id",
                  "2 workers ran at the same time under 2 other run ids and did not join this run: "
                  "LINEPROFILER_RUN_ID did not reach them, or a process has opened several profilers");
    assert_int_equal(count_caveats(run, "superseded", NULL), 0); /* they are not earlier */
    lp_run_free(run);
}

/* The tasks of a job array in one directory, and other jobs, were never meant to be one run. */
static void test_other_jobs_at_the_same_time_F4(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r0_1_00000001", .run_id = "r0", .written_s = 100, .origin = "generated", .job = "77_1"},
        {.worker = "w_r9_1_00000002", .run_id = "r9", .written_s = 10, .origin = "generated", .job = "77_0"},
        {.worker = "w_rx_1_00000003", .run_id = "rx", .written_s = 100, .origin = "launcher", .job = "77_2"},
        {.worker = "w_r1_1_00000004", .start_s = 20, .origin = "launcher", .job = "77_2"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "other_job",
                  "another job recorded in this directory at the same time, and is left out: r0 (slurm job 77_1, "
                  "1 worker); give each job a run directory of its own");
    assert_caveat(run, "superseded", "an earlier attempt in this directory is left out: r9 (1 worker)");
    assert_caveat(run, "no_run_id",
                  "1 worker ran at the same time under 1 other run id and did not join this run: "
                  "LINEPROFILER_RUN_ID did not reach them, or a process has opened several profilers");
    lp_run_free(run);
}

static void test_stale_workers(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .state = "running", .threads = OPEN_STEP, .written_s = 100},
        {.worker = "w_r1_2_00000002", .pid = 2, .written_s = 9000, .role = "learner"},
        {.worker = "w_r1_3_00000003", .pid = 3, .written_s = 100},                      /* closed */
        {.worker = "w_r1_4_00000004", .pid = 4, .written_s = 8939, .state = "running"}, /* 61 s, but no 3 intervals */
        {.worker = "w_r1_5_00000005", .pid = 5, .written_s = 8909, .state = "running"}, /* 91 s */
        {.worker = "w_r1_6_00000006", .pid = 6, .written_s = 8941, .state = "running", .interval = "1"}, /* 59 s */
        {.worker = "w_r1_7_00000007", .pid = 7, .written_s = 8939, .state = "running", .interval = "1"}, /* 61 s */
        {.worker = "w_r1_8_00000008", .pid = 8, .written_s = 100, .state = "running", .interval = "null"},
    };
    struct lp_run *run = LOAD(specs);
    assert_int_equal(count_caveats(run, "stale", NULL), 3);
    assert_caveat(
        run, "stale",
        "actor rank 0, pid 4242 on node07 stopped writing 2h 28m before the end of the run, without close inside "
        "iteration/mcts, open 3.2s");
    assert_caveat(run, "stale",
                  "actor rank 0, pid 5 on node07 stopped writing 1m 31s before the end of the run, without close");
    assert_caveat(run, "stale",
                  "actor rank 0, pid 7 on node07 stopped writing 1m 01s before the end of the run, without close");
    assert_caveat(run, "unclosed", "actor rank 0, pid 4 on node07 was last written without close");
    assert_int_equal(count_caveats(run, "unclosed", NULL), 3);
    lp_run_free(run);
}

static void test_workers_that_did_not_close(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .state = "running", .threads = OPEN_STEP},
        {.worker = "w_r1_2_00000002", .state = "running", .role = "", .pid = 9},
        {.worker = "w_r1_3_00000003", .threads = OPEN_STEP}, /* closed while inside a phase: nothing is missing */
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "open",
                  "actor rank 0, pid 4242 on node07 was last written without close inside iteration/mcts, open 3.2s");
    assert_caveat(run, "unclosed", "rank 0, pid 9 on node07 was last written without close");
    assert_caveat(run, "elsewhere", /* the files' boot is not this machine's */
                  "2 workers are shown as of their last flush: what came after it can be read on node07 only, as long "
                  "as that is up");
    assert_int_equal(run->n_caveats, 3);
    lp_run_free(run);
}

/* What a process uses is in the samples of each, and so in the sums of a report twice. */
#define DEAD "{\"signal\":null,\"exit_status\":null}"

/* An elastic restart under a run id that somebody gave. */
static void test_ranks_that_were_started_again_are_named_F4_F5(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .pid = 1001, .state = "running", .ended = DEAD, .written_s = 10},
        {.worker = "w_r1_2_00000002", .pid = 1002, .start_s = 12, .written_s = 100},
        {.worker = "w_r1_3_00000003", .pid = 1003, .rank = 1, .state = "running", .ended = DEAD, .written_s = 10},
        {.worker = "w_r1_4_00000004", .pid = 1004, .rank = 1, .start_s = 5, .written_s = 100}, /* beside it */
        {.worker = "w_r1_5_00000005", .pid = 1005, .rank = 2, .written_s = 10},                /* closed */
        {.worker = "w_r1_6_00000006", .pid = 1006, .rank = 2, .start_s = 12, .written_s = 100},
        {.worker = "w_r1_7_00000007", .pid = 1007, .rank = 3, .state = "running", .ended = DEAD, .written_s = 10},
        {.worker = "w_r1_8_00000008", .pid = 1008, .rank = 3, .role = "loader", .start_s = 12, .written_s = 100},
    };
    struct lp_run *run = LOAD(specs);
    assert_int_equal(count_caveats(run, "restarted", NULL), 1);
    assert_caveat(run, "restarted",
                  "1 worker ended without close and had another one of the same rank begin afterwards: there are more "
                  "processes than ranks, and the figures of both count (actor rank 0, pid 1001 on node07)");
    lp_run_free(run);
}

static void test_workers_that_share_a_process_are_named(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_7_00000001", .pid = 7, .start_ticks = 9},
        {.worker = "w_r1_7_00000002", .pid = 7, .start_ticks = 9, .role = "learner", .start_s = 40},
        {.worker = "w_r1_7_00000003", .pid = 7, .start_ticks = 9, .start_s = 100, .written_s = 200}, /* afterwards */
        {.worker = "w_r1_7_00000004", .pid = 7, .start_ticks = 10}, /* the pid was given away */
        {.worker = "w_r1_8_00000005", .pid = 8, .start_ticks = 9},
        {.worker = "w_r1_7_00000006", .pid = 7, .start_ticks = 9, .boot_id = "b2", .host = "node08"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "shared_process",
                  "1 worker recorded beside another one of the same process: what the process used of cores, memory "
                  "and disks is counted for each of them (learner rank 0, pid 7 on node07)");
    lp_run_free(run);
}

static void test_of_several_other_machines(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .state = "running", .host = "n1"},
        {.worker = "w_r1_2_00000002", .state = "running", .host = "n2"},
        {.worker = "w_r1_3_00000003", .state = "running", .host = "n2"},
        {.worker = "w_r1_4_00000004", .state = "running", .host = "n4"},
        {.worker = "w_r1_5_00000005", .host = "n5"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "elsewhere",
                  "4 workers are shown as of their last flush: what came after it can be read on n1 and 2 other hosts "
                  "only, as long as those are up");
    lp_run_free(run);
}

#define END(signal, status) "{\"signal\":" signal ",\"exit_status\":" status "}"

/* Adopted: nothing is missing, wherever it is read. */
static void test_workers_that_are_known_to_have_ended(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .state = "running", .threads = OPEN_STEP, .ended = END("9", "null")},
        {.worker = "w_r1_2_00000002", .state = "running", .threads = OPEN_STEP, .ended = END("null", "7"), .pid = 2},
        {.worker = "w_r1_3_00000003", .state = "running", .threads = OPEN_STEP, .ended = DEAD, .pid = 3},
        {.worker = "w_r1_4_00000004", .state = "running", .ended = END("64", "null"), .pid = 4},
        {.worker = "w_r1_5_00000005",
         .state = "running",
         .written_s = 9000,
         .pid = 5,
         .ended = END("6", "null"),
         .facts = "\"index\":12,"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "open",
                  "actor rank 0, pid 4242 on node07 ended without close, killed by SIGKILL, inside iteration/mcts, "
                  "open 3.2s or more");
    assert_caveat(run, "open",
                  "actor rank 0, pid 2 on node07 ended without close, with exit status 7, inside iteration/mcts, open "
                  "3.2s or more");
    assert_caveat(run, "open",
                  "actor rank 0, pid 3 on node07 ended without close inside iteration/mcts, open 3.2s or more");
    assert_caveat(run, "unclosed", "actor rank 0, pid 4 on node07 ended without close, killed by signal 64");
    assert_caveat(run, "unclosed", "actor rank 0, index 12, pid 5 on node07 ended without close, killed by SIGABRT");
    assert_int_equal(run->n_caveats, 5); /* none is stale */
    lp_run_free(run);
}

/* A phase that was entered after the last sign of life of a killed worker: its time is not known, so none is told. */
static void test_open_phase_of_unknown_length(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.state = "running",
         .threads =
             "[{\"name\":\"a\",\"tid\":1,\"alive\":true,\"nodes\":[{},{\"parent\":0,\"name\":\"x\",\"open_calls\":1,"
             "\"open_wall_ns\":0}]}]"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "open", "actor rank 0, pid 4242 on node07 was last written without close inside x");
    lp_run_free(run);
}

static void test_open_phases_of_several_threads(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.state = "running",
         .threads =
             "[{\"name\":\"a\",\"tid\":1,\"alive\":true,\"nodes\":[{},{\"parent\":0,\"name\":\"x\",\"open_calls\":1,"
             "\"open_wall_ns\":5}]},{\"name\":\"b\",\"tid\":2,\"alive\":true,\"nodes\":[{},{\"parent\":0,\"name\":"
             "\"y\","
             "\"open_calls\":1,\"open_wall_ns\":156800}]}]"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "open",
                  "actor rank 0, pid 4242 on node07 was last written without close inside y, open 156.8us (and 1 more "
                  "thread inside "
                  "a phase)");
    lp_run_free(run);
}

static void test_many_unclosed_workers_are_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        char worker[32], end[64];
        snprintf(worker, sizeof worker, "w_r1_1_%08x", i);
        snprintf(end, sizeof end, END("null", "%u"), i);
        struct spec spec = {.worker = worker, .state = "running", .ended = end};
        write_worker(folder, &spec);
    }
    struct lp_run *run = load(folder);
    assert_int_equal(count_caveats(run, "unclosed", NULL), 21);
    assert_caveat(run, "unclosed", "and 10 more workers without close");
    lp_run_free(run);
}

/* Sixteen actors that end with their job are one thing to know; the one that died otherwise stands out. */
static void test_workers_that_ended_alike_share_a_line_K10(void **state)
{
    (void)state;
    char workers[24][32];
    struct spec specs[24];
    for (unsigned i = 0; i < 24; i++) { /* 8 + 4 in a phase + 4 terminated + 3 loaders + 4 silent + 1 killed */
        snprintf(workers[i], sizeof workers[i], "w_r1_1_%08x", i);
        specs[i] = (struct spec){.worker = workers[i], .state = "running", .ended = DEAD, .pid = (int)i + 1};
        specs[i].rank = i == 3 ? 20 : (int)i;
        if (i >= 8 && i < 12)
            specs[i].threads = OPEN_STEP;
        if (i >= 12 && i < 16)
            specs[i].ended = END("15", "null");
        if (i >= 16 && i < 19) {
            specs[i].role = "loader";
            specs[i].ended = END("null", "1"); /* three are named one by one */
        }
        if (i >= 19 && i < 23) {
            specs[i].ended = NULL;
            specs[i].written_s = i * 100;
        }
        if (i == 23) {
            specs[i].ended = END("9", "null");
            specs[i].threads = OPEN_STEP;
            specs[i].written_s = 9000;
        }
    }
    struct lp_run *run = LOAD(specs);
    assert_caveat(
        run, "stale",
        "4 workers stopped writing 1h 53m to 1h 58m before the end of the run, without close (actor rank 19-22)");
    assert_caveat(
        run, "open",
        "4 workers ended without close inside iteration/mcts, the longest open 3.2s or more (actor rank 8-11)");
    assert_caveat(run, "open",
                  "actor rank 23, pid 24 on node07 ended without close, killed by SIGKILL, inside iteration/mcts, open "
                  "3.2s or more");
    assert_caveat(run, "unclosed", "8 workers ended without close (actor rank 0-2, 4-7, 20)");
    assert_caveat(run, "unclosed", "4 workers ended without close, killed by SIGTERM (actor rank 12-15)");
    assert_caveat(run, "unclosed", "loader rank 16, pid 17 on node07 ended without close, with exit status 1");
    assert_int_equal(count_caveats(run, "stale", NULL), 1);
    assert_int_equal(count_caveats(run, "open", NULL), 2);
    assert_int_equal(count_caveats(run, "unclosed", NULL), 5);
    lp_run_free(run);
}

/* By index where there are no ranks, else the first three by name; ranges that are not many. */
static void test_who_ended_alike_K10(void **state)
{
    (void)state;
    char workers[26][32], facts[26][32];
    struct spec specs[26];
    for (unsigned i = 0; i < 26; i++) {
        snprintf(workers[i], sizeof workers[i], "w_r1_1_%08x", i);
        snprintf(facts[i], sizeof facts[i], "\"index\":%u,", i < 20 ? 2 * i : i - 20);
        specs[i] = (struct spec){.worker = workers[i], .state = "running", .rank = NO_RANK, .pid = (int)i + 1};
        specs[i].role = i < 10 ? "none" : i < 20 ? "env" : "loader";
        specs[i].facts = i < 10 ? NULL : facts[i];
        specs[i].threads = OPEN_STEP;
    }
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "open",
                  "10 workers were last written without close inside iteration/mcts, the longest open 3.2s (none pid 1 "
                  "on node07, none pid 2 on node07, none pid 3 on node07 and 7 more workers)");
    assert_caveat(run, "open",
                  "10 workers were last written without close inside iteration/mcts, the longest open 3.2s (env index "
                  "20, 22, 24, 26, 28, 30, 32, 34 and 2 more workers)");
    assert_caveat(
        run, "open",
        "6 workers were last written without close inside iteration/mcts, the longest open 3.2s (loader index "
        "0-5)");
    assert_int_equal(count_caveats(run, "open", NULL), 3);
    lp_run_free(run);
}

/* As at the end of a job of Ray, which lets no process end in order. */
static void test_roles_that_ended_alike_share_a_line_K10(void **state)
{
    (void)state;
    char workers[24][32], roles[24][32];
    struct spec specs[24];
    for (unsigned i = 0; i < 24; i++) {
        snprintf(workers[i], sizeof workers[i], "w_r1_1_%08x", i);
        snprintf(roles[i], sizeof roles[i], "%c", i < 12 ? 'a' : (char)('a' + i - 11));
        specs[i] = (struct spec){.worker = workers[i], .role = roles[i], .state = "running", .ended = DEAD};
    }
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "unclosed",
                  "24 workers ended without close (a x12, b x1, c x1, d x1, e x1, f x1, g x1, h x1 and 5 more roles)");
    assert_int_equal(run->n_caveats, 1);
    lp_run_free(run);
}

static void test_troubles_in_words(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001",
         .pid = 1,
         .troubles = "{\"failed_flushes\":2,\"clock_jumps\":1,\"lost_counters\":1,\"new_trouble\":7,"
                     "\"unnamed\":2,\"refused_names\":1,\"counter_overflows\":4}"},
        {.worker = "w_r1_2_00000002", .pid = 2, .troubles = "{\"failed_flushes\":3,\"unplaced_cpu_ns\":2500000000}"},
        {.worker = "w_r1_3_00000003", .pid = 3, .troubles = "{\"failed_flushes\":0,\"foreign_exits\":1}"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "failed_flushes",
                  "5 writes failed: until one succeeded again, what a reader saw was older (actor rank 0, pid 1 on "
                  "node07, actor rank 0, pid 2 on node07)");
    assert_caveat(
        run, "clock",
        "1 jump of the wall clock: the machine was suspended or moved; phases open meanwhile may be too short or "
        "too long (actor rank 0, pid 1 on node07)");
    assert_caveat(run, "troubles",
                  "1 phase was left on another thread: its wall time ends there, and its CPU time was not measured "
                  "(actor rank 0, pid 3 on "
                  "node07)");
    assert_caveat(
        run, "troubles",
        "2.5s of CPU time at changes of tasks could not be told apart: it is in the task that ran before (actor "
        "rank 0, pid 2 on node07)");
    assert_caveat(run, "troubles",
                  "1 count was lost: no memory for it, or no such name; a counter is too low (actor rank 0, "
                  "pid 1 on node07)");
    assert_caveat(run, "troubles",
                  "2 entries had no name: NULL, empty, or refused by lp_intern() or lp_with(); their time is in the "
                  "phases around them, at the top level in none (actor rank 0, pid 1 on node07)");
    assert_caveat(
        run, "troubles",
        "1 entry had a name that strict_names refuses: its time is in the phase around it, at the top level in none; "
        "use fixed names (actor "
        "rank 0, pid 1 on node07)");
    assert_caveat(run, "troubles",
                  "4 counts were refused: the sum would leave 64 bits; the counter is not what was counted (actor rank "
                  "0, pid 1 on node07)");
    assert_caveat(run, "troubles", "new_trouble: 7 (actor rank 0, pid 1 on node07)");
    assert_int_equal(run->n_caveats, 9);
    lp_run_free(run);
}

/* With no phase around them there is no parent that has their time. */
static void test_folded_entries_say_where_their_time_is(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .pid = 1, .troubles = "{\"folded_paths\":1,\"image_full\":2,\"lost_exits\":3}"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(
        run, "troubles",
        "1 entry found too many distinct paths: its time is in the phase around it, at the top level in none; "
        "use fixed names, and count() for what varies (actor rank 0, pid 1 on node07)");
    assert_caveat(run, "troubles",
                  "2 entries found no memory: their time is in the phases around them, at the top level in none, or "
                  "missing in a histogram (actor rank 0, pid 1 on node07)");
    assert_caveat(run, "troubles",
                  "3 exits found their entry gone: they had ended before, with their threads or with the phases around "
                  "them (actor rank 0, pid 1 on node07)");
    lp_run_free(run);
}

static void test_a_trouble_of_many_workers(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 9; i++) {
        char worker[32];
        snprintf(worker, sizeof worker, "w_r1_1_%08x", i);
        struct spec spec = {.worker = worker, .troubles = "{\"folded_depth\":9223372036854775807}"};
        write_worker(folder, &spec);
    }
    struct lp_run *run = load(folder);
    const char *text = "";
    assert_int_equal(count_caveats(run, "troubles", &text), 1);
    assert_non_null(strstr(text, "18446744073709551615 entries were nested too deep"));
    assert_non_null(strstr(text, "on node07 and 6 more workers)"));
    lp_run_free(run);
}

static void test_private_images(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .pid = 1, .image = "private"},
        {.worker = "w_r1_2_00000002", .pid = 2, .image = "private", .state = "running", .ended = DEAD},
        {.worker = "w_r1_3_00000003", .pid = 3, .image = "private", .state = "running"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "private_image",
                  "1 worker had no shared memory: a kill would have cost what came after the last write (actor rank 0, "
                  "pid 1 on node07)");
    assert_caveat(
        run, "private_image",
        "1 worker had no shared memory and ended without close: what came after the last write is lost (actor "
        "rank 0, pid 2 on node07)");
    assert_caveat(run, "private_image",
                  "1 worker had no shared memory and wrote last without close: what came after that is not here, and "
                  "lost with a kill (actor rank 0, pid 3 on node07)");
    lp_run_free(run);
}

static void test_clocks_of_several_hosts_CK04(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "1"},
        {.worker = "w_r1_2_00000002", .host = "b", .boot_id = "2"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(
        run, "host_clocks",
        "2 hosts keep time, each by its own clock: what came first on different ones, and how long the run took, is "
        "no surer than those clocks agree; durations of phases are not affected");
    lp_run_free(run);
    specs[1].host = "a";
    specs[1].start_s = 120;
    specs[1].written_s = 200;
    specs[1].booted_s = 1000 + 110;
    remove_folder(folder);
    folder = make_folder();
    run = LOAD(specs);
    assert_caveat(
        run, "host_clocks",
        "the host restarted while the run lasted: when things began is by its wall clock; durations of phases are "
        "not affected");
    lp_run_free(run);
}

/* Clones and containers may all have one name. */
static void test_a_name_that_several_machines_have(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "1"},
        {.worker = "w_r1_2_00000002", .host = "a", .boot_id = "2", .rank = 1, .booted_s = 500},
        {.worker = "w_r1_3_00000003", .host = "a", .boot_id = "1", .rank = 2},
        {.worker = "w_r1_4_00000004", .host = "b", .boot_id = "3", .rank = 3},
        /* this one began anew */
        {.worker = "w_r1_5_00000005", .host = "b", .boot_id = "4", .start_s = 120, .written_s = 200, .booted_s = 1110},
        {.worker = "w_r1_6_00000006", .host = "c", .boot_id = "5"},
        {.worker = "w_r1_7_00000007", .host = "c", .boot_id = "6"},
        {.worker = "w_r1_8_00000008", .host = "c", .boot_id = "7", .start_s = 90, .written_s = 300},
        {.worker = "w_r1_9_00000009", .host = "c", .boot_id = "8", .start_s = 290, .written_s = 500, .booted_s = 1280},
    };
    struct lp_run *run = LOAD(specs);
    const size_t machines[] = {2, 1, 3};
    assert_int_equal(run->n_hosts, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(run->host_machines[i], machines[i]);
    assert_caveat(run, "host_names",
                  "2 machines were called a at the same time, and so were those of 1 more name: what such a name "
                  "used is that of all of them together, and what it was granted is not known; give each machine a "
                  "name of its own");
    const char *clocks = NULL;
    assert_int_equal(count_caveats(run, "host_clocks", &clocks), 1);
    assert_memory_equal(clocks, "6 hosts keep time", 17);
    lp_run_free(run);
}

/* Made by a host that is so far ahead of the file server, whose answer took 10 ms. */
#define FOLDER_CLOCK(before, stamped, after)                                                                           \
    "\"folder_clock\":{\"before_ns\":" before ",\"stamped_ns\":" stamped ",\"after_ns\":" after "},"
#define RIGHT FOLDER_CLOCK("1785000000000000000", "1785000000005000001", "1785000000010000000")
#define AHEAD FOLDER_CLOCK("1785000045000000000", "1785000000005000001", "1785000045010000000")
#define BEHIND FOLDER_CLOCK("1784999400000000000", "1785000000005000001", "1784999400010000000")
#define IN_SECONDS FOLDER_CLOCK("1785000045000000000", "1785000000000000000", "1785000045010000000")
#define SLOW FOLDER_CLOCK("1785000000000000000", "1785000000005000001", "1785000100010000000")
#define BACKWARDS FOLDER_CLOCK("1785000045000000000", "1785000000005000001", "1785000035010000000")

static const char agree_or_not[] =
    "2 hosts keep time, each by its own clock: what came first on different ones, and how long the run took, is no "
    "surer than those clocks agree; durations of phases are not affected";

static void assert_clocks(const char *of_a, const char *of_b, const char *expected)
{
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "1", .facts = of_a},
        {.worker = "w_r1_2_00000002", .host = "b", .boot_id = "2", .facts = of_b},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "host_clocks", expected);
    lp_run_free(run);
}

static void test_clocks_that_are_seen_to_differ_CK04(void **state)
{
    (void)state;
    assert_clocks(
        RIGHT, AHEAD,
        "2 hosts keep time, each by its own clock, and these differ: that of b is ahead of that of a by about "
        "45.0s (estimated by the stamps of the file server, to 30.0ms); what came first on different ones, and "
        "how long the run took, may be wrong by as much; durations of phases are not affected");
    assert_clocks(
        RIGHT, BEHIND,
        "2 hosts keep time, each by its own clock, and these differ: that of a is ahead of that of b by about "
        "10m (estimated by the stamps of the file server, to 30.0ms); what came first on different ones, "
        "and how long the run took, may be wrong by as much; durations of phases are not affected");
    assert_clocks(
        RIGHT, IN_SECONDS,
        "2 hosts keep time, each by its own clock, and these differ: that of b is ahead of that of a by about "
        "44.0s (estimated by the stamps of the file server, to 1.0s); what came first on different ones, and "
        "how long the run took, may be wrong by as much; durations of phases are not affected");
}

/* That they agree is never said: a host may stamp files by its own clock. */
static void test_clocks_of_which_nothing_is_seen_CK04(void **state)
{
    (void)state;
    assert_clocks("", AHEAD, agree_or_not);
    assert_clocks(RIGHT, RIGHT, agree_or_not);
    assert_clocks(RIGHT, "\"folder_clock\":null,", agree_or_not);
    assert_clocks(RIGHT, SLOW, agree_or_not);
    assert_clocks(RIGHT, BACKWARDS, agree_or_not);
}

/* The best of a host's workers is believed, and the two hosts furthest apart are named. */
static void test_clocks_of_many_hosts_CK04(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "1", .facts = SLOW},
        {.worker = "w_r1_1_00000002", .host = "a", .boot_id = "1", .facts = AHEAD},
        {.worker = "w_r1_2_00000003", .host = "b", .boot_id = "2", .facts = RIGHT},
        {.worker = "w_r1_2_00000004", .host = "c", .boot_id = "3", .facts = BEHIND},
    };
    const char *text = "";
    struct lp_run *run = LOAD(specs);
    assert_int_equal(count_caveats(run, "host_clocks", &text), 1);
    assert_non_null(strstr(text, "3 hosts keep time, each by its own clock, and these differ: that of a is ahead of "
                                 "that of c by about 10m 45s (estimated"));
    lp_run_free(run);
}

/* Who seems to have been silent for as long as the clocks differ may have been on time. */
static void test_silence_that_the_clocks_explain_CK04(void **state)
{
    (void)state;
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .boot_id = "1", .written_s = 700, .facts = RIGHT},
        {.worker = "w_r1_2_00000002", .host = "b", .boot_id = "2", .state = "running", .facts = BEHIND},
    };
    struct lp_run *run = LOAD(specs);
    assert_false(run->workers[1].stale);
    lp_run_free(run);
    specs[1].facts = "";
    run = LOAD(specs);
    assert_true(run->workers[1].stale);
    lp_run_free(run);
}

static void test_a_suspended_host_CK02(void **state)
{
    (void)state;
    const char *text = "";
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .host = "a", .suspended_s = 12},
        {.worker = "w_r1_2_00000002", .host = "a", .suspended_s = 5},
        {.worker = "w_r1_3_00000003", .host = "b"},
    };
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "clock", "a was suspended for 12.0s while it recorded: phases do not contain that time");
    assert_int_equal(count_caveats(run, "clock", &text), 1);
    lp_run_free(run);
}

static void test_saturated_sums(void **state)
{
    (void)state;
    static const char full[] =
        ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":9223372036854775807,\"hist\":\"479:1\"}"
                   ",{\"parent\":1,\"name\":\"b\",\"counters\":{\"n\":[9223372036854775807,1,0,9223372036854775807]}}");
    struct spec specs[] = {
        {.worker = "w_r1_1_00000001", .threads = full},
        {.worker = "w_r1_2_00000002", .threads = full},
        {.worker = "w_r1_3_00000003", .threads = full},
    };
    struct lp_run *run = LOAD(specs);
    assert_int_equal(phase_at(run->tree, "a")->wall_ns, UINT64_MAX);
    assert_int_equal(phase_at(run->tree, "a/b")->counters[0].sum, INT64_MAX);
    assert_caveat(run, "saturated", "sums of 2 phases reached the largest number there is and are too low, first in a");
    lp_run_free(run);
}

static void test_names_do_not_break_the_line_NM01(void **state)
{
    (void)state;
    struct spec specs[] = {{.role = "\\n\\t\\u2028\\u0085\\\\udcff", .host = "h", .state = "running"}};
    struct lp_run *run = LOAD(specs);
    assert_caveat(run, "unclosed",
                  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd rank 0, pid 4242 on h was last written "
                  "without close");
    lp_run_free(run);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_clean_run_has_none),
        TEST(test_unreadable_files_are_named),
        TEST(test_folders_that_cannot_be_read_are_named),
        TEST(test_twenty_are_named_and_the_rest_counted),
        TEST(test_half_lost_is_not_more_than_half_K11),
        TEST(test_superseded_attempts_are_named_F4),
        TEST(test_workers_that_did_not_join),
        TEST(test_what_is_left_of_an_earlier_run_F4),
        TEST(test_other_jobs_at_the_same_time_F4),
        TEST(test_stale_workers),
        TEST(test_workers_that_did_not_close),
        TEST(test_workers_that_share_a_process_are_named),
        TEST(test_of_several_other_machines),
        TEST(test_workers_that_are_known_to_have_ended),
        TEST(test_open_phase_of_unknown_length),
        TEST(test_open_phases_of_several_threads),
        TEST(test_many_unclosed_workers_are_counted),
        TEST(test_workers_that_ended_alike_share_a_line_K10),
        TEST(test_who_ended_alike_K10),
        TEST(test_roles_that_ended_alike_share_a_line_K10),
        TEST(test_ranks_that_were_started_again_are_named_F4_F5),
        TEST(test_troubles_in_words),
        TEST(test_folded_entries_say_where_their_time_is),
        TEST(test_a_trouble_of_many_workers),
        TEST(test_private_images),
        TEST(test_clocks_of_several_hosts_CK04),
        TEST(test_a_name_that_several_machines_have),
        TEST(test_clocks_that_are_seen_to_differ_CK04),
        TEST(test_clocks_of_which_nothing_is_seen_CK04),
        TEST(test_clocks_of_many_hosts_CK04),
        TEST(test_silence_that_the_clocks_explain_CK04),
        TEST(test_a_suspended_host_CK02),
        TEST(test_saturated_sums),
        TEST(test_names_do_not_break_the_line_NM01),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a live run is doing, on the page and as JSON, from models made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "report/where.h"

#define S 1000000000ull
#define NOW (22ull * 3600 + 41 * 60 + 7) * S
#define WORKERS 70

/* ---- a model on static memory ------------------------------------------------------------- */

struct made {
    struct lp_where where;
    struct lp_run run;
    struct lp_where_worker workers[WORKERS];
    struct lp_where_thread threads[WORKERS][2];
    struct lp_stacks_stack stacks[WORKERS][2][8];
    struct lp_stacks_frame frames[WORKERS][2][8][32];
    struct lp_run_worker others[8];
    struct lp_run_open opens[8];
    struct lp_where_other elsewhere[8];
    struct lp_where_other ended[8];
};

static struct made made;

static struct lp_stacks_text text(const char *bytes)
{
    return (struct lp_stacks_text){bytes, strlen(bytes)};
}

static struct lp_text run_text(const char *bytes)
{
    return (struct lp_text){(char *)bytes, strlen(bytes)};
}

static void begin(void)
{
    made = (struct made){0};
    made.where = (struct lp_where){.dir = (char *)"profile",
                                   .run_id = run_text("20260813T2241-471c94"),
                                   .now_realtime_ns = NOW,
                                   .workers = made.workers,
                                   .elsewhere = made.elsewhere,
                                   .ended = made.ended,
                                   .run = &made.run};
}

static struct lp_where_worker *add_worker(const char *role, int64_t rank)
{
    size_t i = made.where.n_workers++;
    made.where.n_all++;
    made.workers[i] = (struct lp_where_worker){.threads = made.threads[i], .of_run = true};
    made.workers[i].stacks = (struct lp_stacks){.worker = text("w_r1_4242_0a1b2c3d"),
                                                .run_id = text("20260813T2241-471c94"),
                                                .role = text(role),
                                                .pid = 4242 + i,
                                                .rank = rank,
                                                .index = -1};
    return &made.workers[i];
}

static struct lp_where_thread *add_thread(struct lp_where_worker *worker, const char *name, enum lp_where_state state)
{
    size_t i = (size_t)(worker - made.workers), j = worker->n_threads++;
    struct lp_where_thread *thread = &made.threads[i][j];
    *thread = (struct lp_where_thread){.state = state, .cpu_share = NAN};
    thread->open = (struct lp_stacks_thread){.name = text(name), .tid = 4242 + i + j, .stacks = made.stacks[i][j]};
    return thread;
}

/* names: ended by NULL; the innermost is open as long as it has been quiet, each outer one a second longer. */
static struct lp_stacks_stack *add_stack(struct lp_where_thread *thread, uint64_t quiet_ns, const char *const *names)
{
    size_t k = thread->open.n_stacks++;
    struct lp_stacks_stack *stack = &thread->open.stacks[k];
    size_t i = (size_t)((stack - &made.stacks[0][0][0]) / 16), j = (size_t)((stack - &made.stacks[0][0][0]) / 8 % 2);
    *stack = (struct lp_stacks_stack){.frames = made.frames[i][j][k], .quiet_ns = quiet_ns, .runs = LP_STACKS_RUNNING};
    for (; names[stack->n_frames]; stack->n_frames++)
        stack->frames[stack->n_frames].name = text(names[stack->n_frames]);
    for (size_t n = 0; n < stack->n_frames; n++)
        stack->frames[n].open_ns = quiet_ns + (stack->n_frames - 1 - n) * S;
    thread->open.quiet_ns = quiet_ns;
    return stack;
}

static void finish(struct lp_where_thread *thread, uint64_t ago_ns, struct lp_stacks_text *path, size_t depth)
{
    thread->open.finished = true;
    thread->open.finished_ago_ns = ago_ns;
    thread->open.finished_path = path;
    thread->open.finished_depth = depth;
}

static struct lp_run_worker *add_other(const char *role, const char *host, const char *path, uint64_t open_ns)
{
    size_t i = made.run.n_workers++;
    made.opens[i] = (struct lp_run_open){run_text("MainThread"), run_text(path), open_ns};
    made.others[i] = (struct lp_run_worker){.worker = run_text("w_r1_7_00000007"),
                                            .role = run_text(role),
                                            .host = run_text(host),
                                            .pid = 700 + (int64_t)i,
                                            .rank = -1,
                                            .index = -1,
                                            .signal = -1,
                                            .exit_status = -1,
                                            .open = &made.opens[i],
                                            .n_open = *path != '\0'};
    made.where.n_all++;
    return &made.others[i];
}

static void add_ended(struct lp_run_worker *worker)
{
    made.ended[made.where.n_ended++] = (struct lp_where_other){worker, 40 * S, true, false};
}

static struct lp_buffer written;

static const char *page(size_t rows)
{
    struct lp_report_sink sink;
    struct lp_report_where_options options = {.rows = rows};
    written.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &written);
    assert_int_equal(lp_report_where_text(&made.where, &options, &sink), 0);
    return written.bytes;
}

static int release(void **state)
{
    (void)state;
    free(written.bytes);
    return 0;
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char *const reducing[] = {"iteration", "all_reduce", NULL};
static const char *const loading[] = {"iteration", "load_batch", NULL};
static const char *const handling[] = {"handle", NULL};
static struct lp_stacks_text loaded[] = {{"iteration", 9}, {"load_batch", 10}};

/* 63 ranks at a barrier, one elsewhere: two entries, and the odd one, quiet for longer, is the first. */
static void make_64(void)
{
    begin();
    for (int rank = 0; rank < 64; rank++) {
        struct lp_where_thread *thread = add_thread(add_worker("learner", rank), "MainThread", LP_WHERE_WAITING);
        snprintf(thread->wait_channel, sizeof thread->wait_channel, "%s", rank == 17 ? "folio_wait_bit" : "futex_wait");
        if (rank == 17)
            thread->state = LP_WHERE_BLOCKED;
        add_stack(thread, (rank == 17 ? 41 : 40) * S + (uint64_t)rank * S / 100, rank == 17 ? loading : reducing);
        finish(thread, 41 * S, loaded, 2);
    }
}

static void test_64_workers(void **state)
{
    (void)state;
    make_64();
    assert_string_equal(page(0), "RUN 20260813T2241-471c94 · 64 of 64 workers live on this machine · 22:41:07 UTC\n"
                                 "    quiet  state      (quiet: since anything was entered or finished there)\n"
                                 "    41.2s  blocked    LEARNER MainThread · rank 17, pid 4259\n"
                                 "           iteration 42.2s > load_batch 41.2s\n"
                                 "           last finished load_batch 41.0s ago · in the kernel: folio_wait_bit\n"
                                 "    40.6s  waiting    LEARNER MainThread · 63 workers · ranks 0-16, 18-63\n"
                                 "           iteration 41.0-41.6s > all_reduce 40.0-40.6s\n"
                                 "           last finished load_batch 41.0s ago · in the kernel: futex_wait\n");
}

static void test_tasks_and_idle_threads(void **state)
{
    (void)state;
    begin();
    struct lp_where_worker *server = add_worker("server", -1);
    struct lp_where_thread *loop = add_thread(server, "MainThread", LP_WHERE_WAITING);
    add_stack(loop, 2 * S, (const char *const[]){"serve", NULL});
    for (uint64_t i = 0; i < 5; i++) {
        struct lp_stacks_stack *task = add_stack(loop, (2 + i) * S, handling);
        task->task = true;
        task->runs = i == 0 ? LP_STACKS_RUNNING : LP_STACKS_SUSPENDED;
    }
    add_thread(server, "", LP_WHERE_ON_CPU)->open.quiet_ns = UINT64_MAX;
    assert_string_equal(page(0), "RUN 20260813T2241-471c94 · 1 of 1 worker live on this machine · 22:41:07 UTC\n"
                                 "    quiet  state      (quiet: since anything was entered or finished there)\n"
                                 "     6.0s  suspended  SERVER MainThread · 4 tasks · pid 4242\n"
                                 "           handle 3.0-6.0s\n"
                                 "     2.0s  waiting    SERVER MainThread · pid 4242\n"
                                 "           serve 2.0s\n"
                                 "     2.0s  waiting    SERVER MainThread · 1 task · pid 4242\n"
                                 "           handle 2.0s\n"
                                 "  nothing open: server (no name) · pid 4242 · on CPU · nothing finished\n");
}

/* A process that is stopped resumes no task: it is stopped that must be read, not the usual "suspended". */
static void test_tasks_of_a_stopped_worker(void **state)
{
    (void)state;
    begin();
    struct lp_where_thread *loop = add_thread(add_worker("server", -1), "MainThread", LP_WHERE_STOPPED);
    for (int i = 0; i < 3; i++) {
        struct lp_stacks_stack *task = add_stack(loop, 3 * S, handling);
        task->task = true;
        task->runs = LP_STACKS_SUSPENDED;
    }
    assert_non_null(strstr(page(0), "     3.0s  stopped    SERVER MainThread \xc2\xb7 3 tasks \xc2\xb7 pid 4242\n"));
}

static size_t widest(const char *lines)
{
    size_t most = 0;
    for (size_t columns = 0; *lines; lines++) {
        columns = *lines == '\n' ? 0 : columns + (((unsigned char)*lines & 0xc0) != 0x80);
        most = columns > most ? columns : most;
    }
    return most;
}

static void test_no_line_is_wider_than_the_page(void **state)
{
    (void)state;
    begin();
    struct lp_where_thread *thread = add_thread(add_worker("actor", -1), "MainThread", LP_WHERE_WAITING);
    add_stack(thread, 9 * S, loading);
    finish(thread, 9400000000u, NULL, 0);
    snprintf(thread->wait_channel, sizeof thread->wait_channel, "poll_schedule_timeout.constprop.0");
    thread = add_thread(add_worker("inference", -1), "MainThread", LP_WHERE_WAITING);
    finish(thread, 6600000000u, loaded, 2);
    const char *lines = page(0);
    assert_true(widest(lines) <= 80);
    assert_non_null(strstr(lines, "           last finished a phase 9.4s ago\n"
                                  "           in the kernel: poll_schedule_timeout.constprop.0\n"
                                  "  nothing open: inference MainThread \xc2\xb7 pid 4243 \xc2\xb7 waiting\n"
                                  "    last finished load_batch 6.6s ago\n"));
}

/* A list of pids that fits is whole. */
static void test_pids_that_fit(void **state)
{
    (void)state;
    begin();
    static const uint64_t pids[] = {17597, 17599, 17601};
    for (int i = 0; i < 3; i++) {
        struct lp_where_worker *worker = add_worker("actor", -1);
        worker->stacks.pid = pids[i];
        add_stack(add_thread(worker, "MainThread", LP_WHERE_WAITING), S, loading);
    }
    assert_non_null(strstr(page(0), "3 workers \xc2\xb7 pids 17597, 17599, 17601\n"));
}

/* The one that hangs is not lost among those that pass through the same phases. */
static void test_one_that_hangs_where_others_pass(void **state)
{
    (void)state;
    begin();
    for (int rank = 0; rank < 16; rank++)
        add_stack(add_thread(add_worker("actor", rank), "MainThread", LP_WHERE_WAITING),
                  rank == 7 ? 16 * S : 5000000u + (uint64_t)rank * 1000000u, loading);
    assert_non_null(strstr(page(0),
                           "    16.0s  waiting    ACTOR MainThread \xc2\xb7 rank 7, pid 4249\n"
                           "           iteration 17.0s > load_batch 16.0s\n"
                           "   20.0ms  waiting    ACTOR MainThread \xc2\xb7 15 workers \xc2\xb7 ranks 0-6, 8-15\n"));
}

/* Which of its role a worker is tells them apart where there are no ranks, and where it is another for each. */
static void test_workers_with_an_index(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 4; i++) {
        struct lp_where_worker *worker = add_worker("env", -1);
        worker->stacks.index = i;
        add_stack(add_thread(worker, "MainThread", LP_WHERE_WAITING), S, i == 2 ? reducing : loading);
    }
    const char *text_of = page(0);
    assert_non_null(strstr(text_of, "ENV MainThread \xc2\xb7 3 workers \xc2\xb7 index 0, 1, 3\n"));
    assert_non_null(strstr(text_of, "ENV MainThread \xc2\xb7 index 2, pid 4244\n"));
    made.workers[3].stacks.index = 1; /* of another pool */
    assert_non_null(strstr(page(0), "ENV MainThread \xc2\xb7 3 workers \xc2\xb7 pids 4242, 4243, 4245\n"));
}

/* Threads of pools differ in numbers; ones that work look different each moment. */
static void test_likeness(void **state)
{
    (void)state;
    static const enum lp_where_state states[] = {LP_WHERE_ON_CPU, LP_WHERE_RUNNABLE, LP_WHERE_PARTLY};
    static const char *const names[] = {"loader-1", "loader-12", "loader-3"};
    begin();
    for (int i = 0; i < 3; i++) {
        struct lp_where_thread *thread = add_thread(add_worker("actor", i == 1 ? -1 : i), names[i], states[i]);
        add_stack(thread, S, loading);
        finish(thread, S, i == 0 ? loaded : NULL, i == 0 ? 2 : 0);
    }
    assert_non_null(strstr(page(0), "     1.0s  busy       ACTOR loader-# · 3 workers · pids 4242-4244\n"
                                    "           iteration 2.0s > load_batch 1.0s\n"
                                    "           last finished a phase 1.0s ago\n"));
    made.threads[2][0].cpu_share = 0.42;
    made.workers[2].stacks.role = text("learner");
    assert_non_null(strstr(page(0), "     1.0s  CPU 42%    LEARNER loader-3 · rank 2, pid 4244\n"));
}

/* What reads as equally quiet has the odd one first; of idle threads the main ones are. */
static void test_the_odd_one_is_first(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 3; i++) {
        struct lp_where_worker *worker = add_worker("actor", i);
        add_stack(add_thread(worker, "MainThread", LP_WHERE_WAITING), 40 * S - (uint64_t)i,
                  i == 2 ? loading : reducing);
        add_thread(worker, "pool", LP_WHERE_WAITING)->open.quiet_ns = 50 * S;
    }
    add_thread(add_worker("actor", 3), "MainThread", LP_WHERE_WAITING)->open.quiet_ns = S;
    const char *lines = page(0);
    assert_true(strstr(lines, "load_batch") < strstr(lines, "all_reduce"));
    assert_true(strstr(lines, "nothing open: actor MainThread") < strstr(lines, "nothing open: actor pool x3"));
}

static void test_deep_and_long_paths_keep_the_innermost(void **state)
{
    (void)state;
    const char *names[33] = {NULL};
    char long_name[200];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    for (int i = 0; i < 32; i++)
        names[i] = i % 2 ? long_name : "a\nb";
    names[31] = "innermost";
    begin();
    struct lp_where_thread *thread = add_thread(add_worker(long_name, 3), long_name, LP_WHERE_NOT_KNOWN);
    add_stack(thread, S, names)->skips = true;
    const char *lines = page(0);
    assert_non_null(strstr(lines, "innermost 1.0s > (sampled, not measured)\n"));
    assert_non_null(strstr(lines, "           \xe2\x80\xa6 > "));
    assert_non_null(strstr(lines, "n/a        xxxxxxxxxxxxx\xe2\x80\xa6xxxxxxxxxxxx"));

    /* One that just fits is whole. */
    begin();
    static const char *const fits[] = {"iteration_of_an_actor", "self_play_of_a_game", "wait", NULL};
    add_stack(add_thread(add_worker("actor", 3), "MainThread", LP_WHERE_WAITING), 23800000000u, fits);
    assert_non_null(
        strstr(page(0), "           iteration_of_an_actor 25.8s > self_play_of_a_game 24.8s > wait 23.8s\n"));
}

static size_t lines_of(const char *lines)
{
    size_t n = 0;
    for (; *lines; lines++)
        n += *lines == '\n';
    return n;
}

static void test_a_terminal_is_not_overrun(void **state)
{
    (void)state;
    static char names[60][16];
    begin();
    for (int i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "phase_%c%c", 'a' + i / 26, 'a' + i % 26);
        add_stack(add_thread(add_worker("actor", i), "MainThread", LP_WHERE_WAITING), (uint64_t)(i + 1) * S,
                  (const char *const[]){names[i], NULL});
    }
    add_ended(add_other("actor", "node07", "iteration", S));
    for (size_t rows = 10; rows < 60; rows++) {
        const char *lines = page(rows);
        assert_true(lines_of(lines) <= rows);
        assert_non_null(strstr(lines, names[59]));
        assert_null(strstr(lines, names[0]));
        assert_non_null(strstr(lines, "more, quiet for less or with nothing open: --all shows them\n"));
        assert_non_null(
            strstr(lines, "ENDED WITHOUT CLOSE: 1 worker\n  actor pid 700, last seen 40.0s ago, in iteration 1.0s\n"));
    }
    assert_int_equal(lines_of(page(0)), 2 + 2 * 60 + 2);
}

/* On a terminal some, and how many more; else each. */
static void test_all_that_ended(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 8; i++)
        add_ended(add_other("actor", "node07", "iteration", S));
    assert_non_null(strstr(page(24), "  actor pid 703, last seen 40.0s ago, in iteration 1.0s\n  and 4 more\n"));
    assert_non_null(strstr(page(0), "  actor pid 707, last seen 40.0s ago, in iteration 1.0s\n"));
    assert_null(strstr(written.bytes, " more\n"));
}

/* 0 ns up to the last sign of life is no duration. */
static void test_one_that_died_in_a_phase_it_had_just_entered(void **state)
{
    (void)state;
    begin();
    add_ended(add_other("actor", "node07", "episode/infer", 0));
    assert_non_null(strstr(page(0), "  actor pid 700, last seen 40.0s ago, in episode/infer\n"));
}

static void test_those_that_are_not_here(void **state)
{
    (void)state;
    begin();
    struct lp_run_worker *killed = add_other("actor", "node07", "iteration/mcts", 3 * S);
    killed->rank = 3;
    killed->index = 1;
    killed->signal = 9;
    add_ended(killed);
    struct lp_run_worker *left = add_other("actor", "node07", "", 0);
    left->exit_status = 1;
    add_ended(left);
    made.ended[1].ahead = true; /* when that was, nobody can tell */
    made.elsewhere[0] = (struct lp_where_other){add_other("learner", "node08", "step", 9 * S), 33 * S, false, false};
    made.elsewhere[1] = (struct lp_where_other){add_other("learner", "node08", "sync", 8 * S), 31 * S, false, false};
    made.elsewhere[2] = (struct lp_where_other){add_other("learner", "node09", "", 0), 120 * S, false, true};
    made.elsewhere[3] = (struct lp_where_other){add_other("learner", "pod", "", 0), 5 * S, true, false};
    made.where.n_elsewhere = 4;
    made.where.n_closed = 12;
    made.where.n_all += 12;
    made.run.n_unreadable = 1;
    assert_string_equal(page(0), "RUN 20260813T2241-471c94 · 0 of 18 workers live on this machine · 22:41:07 UTC\n"
                                 "ENDED WITHOUT CLOSE: 2 workers\n"
                                 "  actor rank 3 index 1 pid 700, killed by SIGKILL, last seen 40.0s ago,\n"
                                 "    in iteration/mcts 3.0s\n"
                                 "  actor pid 701, exit status 1\n"
                                 "NOT SEEN FROM HERE, as their files say:\n"
                                 "  node08 · 2 workers · newest file 31.0s old by that node's clock\n"
                                 "    open then: learner pid 702 in step 9.0s\n"
                                 "    open then: learner pid 703 in sync 8.0s\n"
                                 "  node09 · 1 worker\n"
                                 "    newest file 2m ahead of this machine's clock, by that node's clock\n"
                                 "  pod · 1 worker, live state not to be seen from here · newest file 5.0s old\n"
                                 "12 workers have closed\n"
                                 "1 worker file could not be read: lineprofiler report says why\n");
}

static void test_those_that_close(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 7; i++) {
        struct lp_where_worker *worker = add_worker("actor", i);
        add_stack(add_thread(worker, "MainThread", LP_WHERE_BLOCKED), 41 * S, (const char *const[]){NULL});
        worker->stacks.closing = i > 0;
        worker->stacks.closing_ns = i > 0 ? (uint64_t)(40 + i) * S : 0;
        made.where.n_closing += i > 0;
    }
    assert_non_null(strstr(page(0), "CLOSING: 6 workers write their last files\n"));
    assert_non_null(strstr(page(0), ", for 46.0s\n"));
    assert_non_null(strstr(page(40), ", for 44.0s\n  and 2 more\n"));
}

/* Nothing is said of what only the run directory knows. */
static void test_a_run_directory_that_does_not_answer(void **state)
{
    (void)state;
    begin();
    made.where.run = NULL;
    made.where.run_dir_late = true;
    add_stack(add_thread(add_worker("actor", 0), "MainThread", LP_WHERE_WAITING), S,
              (const char *const[]){"step", NULL});
    const char *lines = page(0);
    static const char begins[] = "RUN 20260813T2241-471c94 · 1 worker lives on this machine · 22:41:07 UTC\n"
                                 "RUN DIRECTORY DOES NOT ANSWER: not shown are workers of other nodes, and those\n"
                                 "    that ended\n";
    assert_memory_equal(lines, begins, strlen(begins));
    for (int i = 1; i < 20; i++)
        add_stack(add_thread(add_worker("actor", i), "MainThread", LP_WHERE_WAITING), S,
                  (const char *const[]){i % 2 ? "one" : "other", NULL});
    for (size_t rows = 10; rows < 30; rows++)
        assert_true(lines_of(page(rows)) <= rows);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static void test_json(void **state)
{
    (void)state;
    struct lp_report_sink sink;
    make_64();
    made.threads[17][0].kernel_state = 'D';
    made.elsewhere[0] = (struct lp_where_other){add_other("learner", "node09", "", 0), 120 * S, false, true};
    made.where.n_elsewhere = 1;
    written.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &written);
    assert_int_equal(lp_report_where_json(&made.where, NULL, &sink), 0);
    json_t *document = json_loadb(written.bytes, written.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    json_t *workers = json_object_get(document, "workers");
    assert_int_equal(json_array_size(workers), 64);
    json_t *thread = json_array_get(json_object_get(json_array_get(workers, 17), "threads"), 0);
    assert_string_equal(json_string_value(json_object_get(thread, "state")), "blocked");
    assert_string_equal(json_string_value(json_object_get(thread, "kernel_state")), "D");
    assert_string_equal(json_string_value(json_object_get(thread, "wait_channel")), "folio_wait_bit");
    assert_true(json_is_null(json_object_get(thread, "cpu_share")));
    json_t *stack = json_array_get(json_object_get(thread, "stacks"), 0);
    json_t *frame = json_array_get(json_object_get(stack, "frames"), 1);
    assert_string_equal(json_string_value(json_object_get(frame, "name")), "load_batch");
    assert_int_equal(json_integer_value(json_object_get(frame, "open_ns")), 41170000000);
    json_t *other = json_array_get(json_object_get(document, "elsewhere"), 0);
    assert_true(json_is_null(json_object_get(other, "age_ns"))); /* it is in the future */
    json_decref(document);
}

static int refuse(void *context, const char *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    (void)len;
    errno = ENOSPC;
    return -1;
}

static void test_a_full_disk(void **state)
{
    (void)state;
    struct lp_report_sink sink;
    struct lp_report_where_options options = {0};
    make_64();
    lp_report_sink_init(&sink, refuse, NULL);
    assert_int_equal(lp_report_where_text(&made.where, &options, &sink), -ENOSPC);
    lp_report_sink_init(&sink, refuse, NULL);
    assert_int_equal(lp_report_where_json(&made.where, &options, &sink), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_64_workers),
        cmocka_unit_test(test_tasks_and_idle_threads),
        cmocka_unit_test(test_tasks_of_a_stopped_worker),
        cmocka_unit_test(test_no_line_is_wider_than_the_page),
        cmocka_unit_test(test_pids_that_fit),
        cmocka_unit_test(test_one_that_hangs_where_others_pass),
        cmocka_unit_test(test_workers_with_an_index),
        cmocka_unit_test(test_likeness),
        cmocka_unit_test(test_the_odd_one_is_first),
        cmocka_unit_test(test_deep_and_long_paths_keep_the_innermost),
        cmocka_unit_test(test_a_terminal_is_not_overrun),
        cmocka_unit_test(test_all_that_ended),
        cmocka_unit_test(test_one_that_died_in_a_phase_it_had_just_entered),
        cmocka_unit_test(test_those_that_are_not_here),
        cmocka_unit_test(test_those_that_close),
        cmocka_unit_test(test_a_run_directory_that_does_not_answer),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

/* The screen of a run that is going on, as it is laid out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "model/model.h"
#include "report/top.h"

static struct lp_buffer text;

static int release(void **state)
{
    (void)state;
    free(text.bytes);
    return 0;
}

/* A run and its figures, made by hand: how they come about is analysis/test_top.c's. */
struct live {
    struct model model;
    struct lp_top_reading after, before;
    struct model model_before;
    double rss_bytes[8];
    struct lp_top *top;
    struct lp_top_view view;
    struct lp_frame frame;
    bool is_first; /* There is no reading before. */
};

static struct lp_run_worker *add_worker(struct model *model, size_t role, const char *name, const char *host,
                                        int64_t pid, uint64_t written_ns)
{
    struct lp_run_worker *worker = model_worker(model, &model->run->roles[role], host);
    worker->worker = model_text(model, name);
    worker->boot_id = model_string(model, "b0");
    worker->pid = pid;
    worker->closed = false;
    worker->source = LP_SOURCE_LIVE_IMAGE;
    worker->started.monotonic_ns = 10 * S;
    worker->written.monotonic_ns = written_ns;
    worker->root_cpu_known = true;
    return worker;
}

static void add_open(struct model *model, struct lp_run_worker *worker, const char *path, uint64_t open_ns)
{
    worker->open = model_append(model, worker->open, worker->n_open, sizeof *worker->open);
    worker->open[worker->n_open++] =
        (struct lp_run_open){model_text(model, "MainThread"), model_text(model, path), open_ns};
}

static int64_t written_per_s; /* in mcts */

/* Two actors and a learner; one second of it. */
static void fill(struct model *model, int second)
{
    uint64_t now_ns = (uint64_t)(100 + second) * S;
    model_run(model);
    struct lp_run_role *actor = model_role(model, "actor");
    for (int i = 0; i < 2; i++) {
        struct lp_run_worker *worker =
            add_worker(model, 0, i == 0 ? "w0" : "w1", i == 0 ? "node07" : "node08", 4711 + i, now_ns);
        worker->rank = i;
        worker->root_wall_ns = (uint64_t)second * (950 - (uint64_t)i * 100) * MS;
        worker->root_cpu_ns = (uint64_t)second * 200 * MS;
        worker->calls = (uint64_t)second * 1200;
        add_open(model, worker, "self_play/mcts/inference", 4200 * US);
    }
    struct lp_run_phase *play = model_phase(model, actor->tree, "self_play");
    struct lp_run_phase *mcts = model_phase(model, play, "mcts");
    struct lp_run_phase *idle = model_phase(model, play, "reset");
    model_entries(model, idle, 3, 5 * MS, 0.5);
    model_entries(model, mcts, (uint64_t)second * 300, 5 * MS, 0.9);
    model_entries(model, play, 3 + (uint64_t)second * 180, 10 * MS, 0.75);
    mcts->ended_wall_ns = mcts->wall_ns;
    play->ended_wall_ns = play->wall_ns;
    idle->ended_wall_ns = idle->wall_ns;
    model_counter(model, mcts, "simulations", second * 12800, (uint64_t)second * 200);
    model_counter(model, mcts, "io_read_bytes", 0, (uint64_t)second);
    model_counter(model, mcts, "io_write_bytes", second * written_per_s, (uint64_t)second);
    struct lp_run_role *learner = model_role(model, "learner");
    struct lp_run_worker *worker = add_worker(model, 1, "w2", "node07", 4713, now_ns);
    worker->rank = 2;
    worker->root_wall_ns = (uint64_t)second * S;
    worker->root_cpu_ns = (uint64_t)second * 990 * MS;
    worker->calls = (uint64_t)second * 25;
    add_open(model, worker, "训练步骤", 12 * MS);
    add_open(model, worker, "log", 1 * MS);
    struct lp_run_phase *train = model_phase(model, learner->tree, "训练步骤");
    model_entries(model, train, (uint64_t)second * 25, 40 * MS, 0.01);
    train->ended_wall_ns = train->wall_ns;
    model_sampled(train, 10, 10);
}

static void begin(struct live *live)
{
    *live = (struct live){.view = {.every_s = 1}};
    fill(&live->model_before, 0);
    fill(&live->model, 1);
    for (int i = 0; i < 8; i++)
        live->rss_bytes[i] = i < 2 ? 1.5e9 + i * 1e8 : NAN;
    live->before = (struct lp_top_reading){.run = live->model_before.run, .boot_id = "b0"};
    live->after = (struct lp_top_reading){.run = live->model.run, .boot_id = "b0", .rss_bytes = live->rss_bytes};
    live->before.taken.monotonic_ns = 100 * S;
    live->after.taken.monotonic_ns = 101 * S;
}

static const char *draw(struct live *live, size_t rows, size_t columns)
{
    struct lp_report_sink sink;
    text.len = 0;
    lp_top_free(live->top);
    lp_frame_release(&live->frame);
    assert_int_equal(lp_top_make(&live->top, &live->after, live->is_first ? NULL : &live->before), 0);
    assert_int_equal(lp_frame_init(&live->frame, rows, columns), 0);
    assert_int_equal(lp_top_draw(&live->frame, live->top, &live->view), 0);
    lp_report_sink_init(&sink, lp_buffer_put, &text);
    lp_frame_write(&live->frame, &sink);
    assert_int_equal(lp_buffer_put(&text, "", 1), 0);
    return text.bytes;
}

static void end(struct live *live)
{
    lp_top_free(live->top);
    lp_frame_release(&live->frame);
    model_free(&live->model);
    model_free(&live->model_before);
}

static void assert_contains(const char *all, const char *part)
{
    if (strstr(all, part) == NULL)
        fail_msg("'%s' is not in\n%s", part, all);
}

static void assert_lacks(const char *all, const char *part)
{
    if (strstr(all, part) != NULL)
        fail_msg("'%s' is in\n%s", part, all);
}

/* The first of them stands before the second. */
static void assert_before(const char *all, const char *first, const char *second)
{
    assert_contains(all, first);
    assert_contains(all, second);
    if (strstr(all, first) > strstr(all, second))
        fail_msg("'%s' is not before '%s' in\n%s", first, second, all);
}

/* The style of the first cell of a text that stands at the row. */
static enum lp_frame_style style_at(const struct live *live, size_t row, size_t column)
{
    return (enum lp_frame_style)live->frame.cells[row * live->frame.columns + column].style;
}

#define NONE "                       n/a      n/a    n/a        n/a       n/a\n"

static void test_phases_at_80x24(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    assert_string_equal(draw(&live, 24, 80),
                        "lineprofiler top  profile                                             every 1.0s\n"
                        "Runtime 4h 12m   Processes 3: 3 live   Run 20260813T2241-471c94\n"
                        "Last 1.0s   by share\n"
                        "PHASE                                 share     self   wait    calls/s      each\n"
                        "actor  2 processes                    90.0%             78%     2.4k/s\n"
                        "  self_play                           90.0%    15.0%    75%    180.0/s    10.0ms\n"
                        "  self_play/mcts                      75.0%    75.0%    90%    300.0/s     5.0ms\n"
                        "    + simulations                                              12.8k/s\n"
                        "  self_play/reset                      0.0%     0.0%    n/a      0.0/s       n/a\n"
                        "learner  1 process                   100.0%              1%     25.0/s\n"
                        "  ~训练步骤                         ~100.0%  ~100.0%    ~1%    ~25.0/s   ~40.0ms\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "q quit  w workers  p phases  s sort  / filter  i idle  space pause  h help\n");
    assert_int_equal(style_at(&live, 3, 0), LP_FRAME_HEADING);
    assert_int_equal(style_at(&live, 3, 38), LP_FRAME_KEY); /* It is sorted by this one. */
    assert_int_equal(style_at(&live, 4, 0), LP_FRAME_BOLD);
    assert_int_equal(style_at(&live, 6, 57), LP_FRAME_WARNING); /* 90% wait */
    assert_int_equal(style_at(&live, 8, 2), LP_FRAME_DIM);      /* Idle. */
    end(&live);
}

static void test_workers_at_80x24(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.mode = LP_TOP_WORKERS;
    assert_string_equal(draw(&live, 24, 80),
                        "lineprofiler top  profile                                             every 1.0s\n"
                        "Runtime 4h 12m   Processes 3: 3 live   Run 20260813T2241-471c94\n"
                        "Last 1.0s   by share\n"
                        "    PID RANK HOST   ROLE    STATE   phases  wait   calls/s      RSS DOING\n"
                        "   4713    2 node07 learner live    100.0%    1%    25.0/s      n/a 训练步骤 +1\n"
                        "   4711    0 node07 actor   live     95.0%   79%    1.2k/s   1.5 GB …s/inference\n"
                        "   4712    1 node08 actor   live     85.0%   76%    1.2k/s   1.6 GB …s/inference\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "\n"
                        "q quit  w workers  p phases  s sort  / filter  i idle  space pause  h help\n");
    end(&live);
}

/* The four of a phase with io=True would be most of the page. */
static void test_io_that_stands_still_has_no_line(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    assert_lacks(draw(&live, 24, 80), "+ io_");
    end(&live);
    written_per_s = 2600000;
    begin(&live);
    const char *all = draw(&live, 24, 80);
    assert_contains(all, "    + io_write_bytes                                            2.6M/s\n");
    assert_lacks(all, "io_read_bytes");
    written_per_s = 0;
    end(&live);
}

static void test_wider_and_narrower(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.mode = LP_TOP_WORKERS;
    assert_string_equal(
        draw(&live, 9, 110),
        "lineprofiler top  profile                                                                           every "
        "1.0s\n"
        "Runtime 4h 12m   Processes 3: 3 live   Run 20260813T2241-471c94\n"
        "Last 1.0s   by share\n"
        "    PID RANK HOST   ROLE    STATE   phases  wait   calls/s      RSS     for DOING\n"
        "   4713    2 node07 learner live    100.0%    1%    25.0/s      n/a  12.0ms 训练步骤 +1\n"
        "   4711    0 node07 actor   live     95.0%   79%    1.2k/s   1.5 GB   4.2ms self_play/mcts/inference\n"
        "   4712    1 node08 actor   live     85.0%   76%    1.2k/s   1.6 GB   4.2ms self_play/mcts/inference\n"
        "\n"
        "q quit  w workers  p phases  s sort  / filter  i idle  space pause  h help\n");
    assert_string_equal(draw(&live, 9, 50), "lineprofiler top  profile               every 1.0s\n"
                                            "Runtime 4h 12m   Processes 3: 3 live\n"
                                            "Last 1.0s   by share\n"
                                            "    PID STATE   phases   calls/s      RSS DOING\n"
                                            "   4713 live    100.0%    25.0/s      n/a …步骤 +1\n"
                                            "   4711 live     95.0%    1.2k/s   1.5 GB …ference\n"
                                            "   4712 live     85.0%    1.2k/s   1.6 GB …ference\n"
                                            "\n"
                                            "q quit  w workers  p phases  s sort  / filter  i i\n");
    live.view.mode = LP_TOP_PHASES;
    assert_string_equal(draw(&live, 7, 44), "Last 1.0s   by share\n"
                                            "PHASE                share   wait    calls/s\n"
                                            "actor                90.0%    78%     2.4k/s\n"
                                            "  self_play          90.0%    75%    180.0/s\n"
                                            "  self_play/mcts     75.0%    90%    300.0/s\n"
                                            "    + simulations                    12.8k/s\n"
                                            "q quit  w workers  p phases  s sort 1-4 of 7\n");
    end(&live);
}

/* Any size is laid out, and no line is longer than it. */
static void test_every_size(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    for (int mode = LP_TOP_PHASES; mode <= LP_TOP_HELP; mode++) {
        for (size_t rows = 0; rows < 12; rows++) {
            for (size_t columns = 0; columns < 90; columns += 1 + columns / 8) {
                live.view.mode = (enum lp_top_mode)mode;
                live.view.typing = columns % 2;
                live.view.scroll = 99;
                draw(&live, rows, columns);
            }
        }
    }
    end(&live);
}

static void test_sorted(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.sort[LP_TOP_PHASES] = LP_TOP_BY_CALLS;
    assert_before(draw(&live, 24, 80), "  self_play/mcts ", "  self_play ");
    assert_before(text.bytes, "  self_play ", "  self_play/reset ");
    live.view.reversed = true;
    assert_before(draw(&live, 24, 80), "  self_play/reset ", "  self_play/mcts ");
    live.view.sort[LP_TOP_PHASES] = LP_TOP_BY_EACH; /* That of one is unknown: last, either way. */
    assert_before(draw(&live, 24, 80), "  self_play ", "  self_play/reset ");
    live.view.reversed = false;
    assert_before(draw(&live, 24, 80), "  self_play/mcts ", "  self_play/reset ");
    live.view.sort[LP_TOP_PHASES] = LP_TOP_BY_NAME;
    assert_before(draw(&live, 24, 80), "  self_play ", "  self_play/mcts ");
    live.view.mode = LP_TOP_WORKERS;
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_PID;
    assert_before(draw(&live, 24, 80), "4711", "4712");
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_RSS;
    assert_before(draw(&live, 24, 80), "4712", "4711");
    assert_before(text.bytes, "4711", "4713"); /* n/a */
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_HOST;
    assert_before(draw(&live, 24, 80), "4713", "4712");
    end(&live);
}

static void test_filtered(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.filter = "MCTS";
    assert_contains(draw(&live, 24, 80), "Last 1.0s   by share   with MCTS");
    assert_contains(text.bytes, "self_play/mcts ");
    assert_contains(text.bytes, "actor ");
    assert_lacks(text.bytes, "self_play/reset");
    assert_lacks(text.bytes, "learner");
    live.view.filter = "simul"; /* A counter keeps its phase. */
    assert_contains(draw(&live, 24, 80), "self_play/mcts ");
    assert_contains(text.bytes, "+ simulations");
    live.view.filter = "learner";
    assert_contains(draw(&live, 24, 80), "训练步骤");
    live.view.filter = "nowhere";
    assert_contains(draw(&live, 24, 80), "nothing passes the filter");
    live.view.mode = LP_TOP_WORKERS;
    live.view.filter = "node08";
    assert_contains(draw(&live, 24, 80), " 4712 ");
    assert_lacks(text.bytes, " 4711 ");
    live.view.filter = "训练";
    assert_contains(draw(&live, 24, 80), " 4713 ");
    live.view.typing = true;
    assert_contains(draw(&live, 24, 80), "\nFilter: 训练_   Enter keeps it, Esc drops it\n");
    end(&live);
}

static void test_idle_ones_hidden(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.hide_idle = true;
    assert_lacks(draw(&live, 24, 80), "reset");
    assert_contains(text.bytes, "self_play/mcts");
    assert_contains(text.bytes, "idle ones hidden");
    end(&live);
}

static void test_scrolled(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.scroll = 1;
    assert_lacks(draw(&live, 9, 80), "actor  ");
    assert_contains(text.bytes, "2-5 of 7\n");
    live.view.scroll = 99;
    assert_contains(draw(&live, 9, 80), "4-7 of 7\n");
    assert_int_equal(live.view.scroll, 3);
    assert_lacks(draw(&live, 24, 80), " of 7");
    assert_int_equal(live.view.scroll, 0);
    end(&live);
}

static void test_workers_with_an_index(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    for (size_t i = 0; i < 3; i++) {
        live.model.run->workers[i].rank = -1;
        live.model.run->workers[i].index = i == 1 ? 12 : -1;
    }
    live.view.mode = LP_TOP_WORKERS;
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_INDEX;
    assert_contains(draw(&live, 10, 80), "by index\n"
                                         "    PID INDEX HOST   ROLE    STATE   phases  wait   calls/s      RSS DOING\n"
                                         "   4712    12 node08 actor   live     85.0%   76% ");
    end(&live);
}

static void test_workers_that_are_stopped(void **state)
{
    (void)state;
    struct live live;
    const bool stopped[8] = {true, false, true};
    begin(&live);
    live.after.stopped = stopped;
    live.model.run->workers[2].closed = true;
    live.view.mode = LP_TOP_WORKERS;
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_PID;
    assert_contains(draw(&live, 10, 80),
                    "    PID RANK HOST   ROLE    STATE    phases  wait   calls/s      RSS DOING\n"
                    "   4711    0 node07 actor   stopped   95.0%   79%    1.2k/s   1.5 GB …/inference\n"
                    "   4712    1 node08 actor   live      85.0%   76%    1.2k/s   1.6 GB …/inference\n"
                    "   4713    2 node07 learner closed   100.0%    1%    25.0/s      n/a 训练步骤 +1\n");
    end(&live);
}

/* Who closed, died, vanished, appeared, or has not written: each says so, instead of figures that it has not. */
static void test_what_became_of_workers(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.model.run->workers[0].written.monotonic_ns = 92 * S;
    live.model.run->workers[0].source = LP_SOURCE_DEAD_IMAGE;
    live.model.run->workers[1].written.monotonic_ns = 100 * S;
    live.model.run->workers[1].source = LP_SOURCE_FILE;
    live.model.run->workers[2].closed = true;
    add_worker(&live.model, 0, "w4", "node07", 4714, 101 * S)->started.monotonic_ns = 100 * S + 500 * MS;
    add_worker(&live.model_before, 0, "w5", "node07", 4715, 100 * S);
    live.view.mode = LP_TOP_WORKERS;
    live.view.sort[LP_TOP_WORKERS] = LP_TOP_BY_PID;
    assert_string_equal(draw(&live, 10, 80),
                        "lineprofiler top  profile                                             every 1.0s\n"
                        "Runtime 4h 12m   Processes 5: 1 live, 1 by file, 1 closed, 1 died, 1 gone\n"
                        "Last 1.0s   by pid\n"
                        "    PID RANK HOST   ROLE    STATE   phases  wait   calls/s      RSS DOING\n"
                        "   4711    0 node07 actor   died                  9.0s ago   1.5 GB …s/inference\n"
                        "   4712    1 node08 actor   file                  1.0s old   1.6 GB …s/inference\n"
                        "   4713    2 node07 learner closed  100.0%    1%    25.0/s      n/a 训练步骤 +1\n"
                        "   4714      node07 actor   new       0.0%   n/a     0.0/s      n/a\n"
                        "   4715      node07 actor   gone                  1.0s ago      n/a\n"
                        "q quit  w workers  p phases  s sort  / filter  i idle  space pause  h help\n");
    assert_int_equal(style_at(&live, 4, 28), LP_FRAME_BAD);
    assert_int_equal(style_at(&live, 7, 28), LP_FRAME_GOOD);
    live.model.run->workers[0].open[0].open_ns = 0; /* entered after its last sign of life: for how long is not known */
    assert_contains(draw(&live, 10, 120), "9.0s ago   1.5 GB     n/a ");
    live.view.mode = LP_TOP_PHASES;
    assert_contains(draw(&live, 24, 80), "\n  a process died or vanished: no figures of phases this time\n"
                                         "  of 1 of 2 running processes: the others have not written since\n");
    assert_contains(text.bytes, "\n  self_play/mcts " NONE);
    assert_contains(text.bytes, "\nactor  2 of 3 processes "); /* which run */
    assert_contains(text.bytes, "\nlearner  0 of 1 process ");
    live.before = live.after;
    live.before.taken.monotonic_ns = 100 * S;
    assert_contains(draw(&live, 24, 80), "\n  no process has written since: figures come with their next flush\n");
    end(&live);
}

static void test_the_first_reading(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.is_first = true;
    live.view.paused = true;
    assert_contains(draw(&live, 24, 80), "                     PAUSED\n");
    assert_contains(text.bytes, "\nfirst reading: rates come with the next ");
    assert_contains(text.bytes, "\n  self_play/mcts " NONE);
    live.view.message = "no directory 'profile'";
    assert_contains(draw(&live, 24, 80), "\nno directory 'profile'\n");
    end(&live);
}

/* For scripts: no keys; the workers alone, below the phases. */
static void test_a_single_reading(void **state)
{
    (void)state;
    struct live live;
    size_t rows;
    begin(&live);
    live.view.every_s = 0;
    draw(&live, 24, 80);
    assert_int_equal(lp_top_height(&rows, live.top, &live.view), 0);
    assert_int_equal(rows, 11);
    assert_lacks(draw(&live, rows, 80), "quit");
    assert_contains(text.bytes, "\n  ~训练步骤 ");
    live.view.mode = LP_TOP_WORKERS;
    assert_int_equal(lp_top_height(&rows, live.top, &live.view), 0);
    assert_int_equal(rows, 4);
    assert_lacks(draw(&live, rows, 80), "Runtime");
    assert_contains(text.bytes, " 4712 ");
    end(&live);
}

static void test_help(void **state)
{
    (void)state;
    struct live live;
    begin(&live);
    live.view.mode = LP_TOP_HELP;
    draw(&live, 24, 80);
    assert_contains(text.bytes, " q F10 Ctrl-C      leave\n");
    assert_contains(text.bytes, "known by files alone   not known\n");
    end(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_at_80x24),
        cmocka_unit_test(test_workers_at_80x24),
        cmocka_unit_test(test_io_that_stands_still_has_no_line),
        cmocka_unit_test(test_wider_and_narrower),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_filtered),
        cmocka_unit_test(test_idle_ones_hidden),
        cmocka_unit_test(test_scrolled),
        cmocka_unit_test(test_workers_with_an_index),
        cmocka_unit_test(test_workers_that_are_stopped),
        cmocka_unit_test(test_what_became_of_workers),
        cmocka_unit_test(test_the_first_reading),
        cmocka_unit_test(test_a_single_reading),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

#include "core_rows.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static lp_profiler *profiler, *off;
static lp_name outer, inner, items, sampled;

const char core_two_clocks[] = "2 x clock_gettime(CLOCK_MONOTONIC)";
const char core_pair[] = "lp_enter, lp_leave";
const char core_nothing_shared[] = "empty loop";

/* ---- what there is without a profiler ----------------------------------------------- */

static void nothing(int turns)
{
    for (int i = 0; i < turns; i++)
        __asm__ volatile("");
}

static void two_wall_clocks(int turns)
{
    struct timespec now;
    for (int i = 0; i < turns; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

#if defined(__x86_64__)
static void tick(int turns)
{
    for (int i = 0; i < turns; i++) {
        uint64_t ticks = __rdtsc();
        __asm__ volatile("" : : "r"(ticks));
    }
}
#endif

static void cpu_clock(int turns)
{
    struct timespec now;
    for (int i = 0; i < turns; i++)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

static void own_mutex(int turns)
{
    static __thread pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < turns; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

/* ---- the interface ------------------------------------------------------------------ */

static void pair(int turns)
{
    for (int i = 0; i < turns; i++) {
        lp_phase phase = lp_enter(profiler, outer);
        lp_leave(&phase);
    }
}

static void two_deep(int turns)
{
    for (int i = 0; i < turns; i++) {
        lp_phase first = lp_enter(profiler, outer);
        lp_phase second = lp_enter(profiler, inner);
        lp_leave(&second);
        lp_leave(&first);
    }
}

static void macro(int turns)
{
    for (int i = 0; i < turns; i++) {
        LP_PHASE("outer");
    }
}

static void one_in_a_hundred(int turns)
{
    for (int i = 0; i < turns; i++) {
        lp_phase phase = lp_enter(profiler, sampled);
        lp_leave(&phase);
    }
}

static void count(int turns)
{
    for (int i = 0; i < turns; i++)
        lp_count(profiler, items, 1);
}

static void count_macro(int turns)
{
    for (int i = 0; i < turns; i++)
        LP_COUNT("items", 1);
}

static void look_up(int turns)
{
    for (int i = 0; i < turns; i++)
        lp_intern("outer");
}

static void disabled_pair(int turns)
{
    for (int i = 0; i < turns; i++) {
        lp_phase phase = lp_enter(off, outer);
        lp_leave(&phase);
    }
}

const struct core_row core_rows[] = {
    {core_nothing_shared, nothing, CORE_EACH_WAY, 0, 0},
#if defined(__x86_64__)
    {"rdtsc", tick, CORE_ONCE, 0, 0},
#endif
    {core_two_clocks, two_wall_clocks, CORE_ONCE, 1, 0},
    {"clock_gettime(CLOCK_THREAD_CPUTIME_ID)", cpu_clock, CORE_ONCE, 1, 0},
    {"pthread_mutex_lock, _unlock, uncontended", own_mutex, CORE_ONCE, 0, 0},
    {core_pair, pair, CORE_EACH_WAY, 0, 0},
    {"the same twice, nested", two_deep, CORE_EACH_WAY, 0, 0},
    {"the same, one in 100 measured", one_in_a_hundred, CORE_EACH_WAY, 0, 100},
    {"LP_PHASE", macro, CORE_EACH_WAY, 0, 0},
    {"lp_enter, lp_leave through a bound table", core_bound_pair, CORE_ONCE, 0, 0},
    {"LP_PHASE through a bound table", core_bound_macro, CORE_ONCE, 0, 0},
#ifdef CORE_CPP
    {"lp::phase of a static lp::name", core_cpp_static_name, CORE_ONCE, 0, 0},
    {"lp::phase of a text", core_cpp_text, CORE_ONCE, 0, 0},
#endif
    {"lp_count", count, CORE_ONCE, 0, 0},
    {"LP_COUNT", count_macro, CORE_ONCE, 0, 0},
    {"lp_intern", look_up, CORE_ONCE, 0, 0},
    {"lp_enter, lp_leave of a disabled profiler", disabled_pair, CORE_WITHOUT, 0, 0},
    {"lp_enter, lp_leave of none", pair, CORE_WITHOUT, 0, 0},
    {"LP_PHASE with none installed", macro, CORE_WITHOUT, 0, 0},
    {"LP_PHASE with no table bound", core_bound_macro, CORE_WITHOUT, 0, 0},
};
const size_t core_n_rows = sizeof core_rows / sizeof *core_rows;

/* ---- what they work on -------------------------------------------------------------- */

int core_open(const struct core_set_up *wanted)
{
    double interval_s = wanted->quiet ? -1 : 0;
    outer = lp_intern("outer");
    inner = lp_intern("inner");
    items = lp_intern("items");
    sampled = lp_sampled(lp_intern("sampled"), 0.01);
    off = lp_open(&(lp_options){.enabled = -1});
    if (!off)
        return -1;
    if (!wanted->run_dir)
        return 0;
    profiler = lp_open(&(lp_options){
        .run_dir = wanted->run_dir,
        .no_cpu = wanted->no_cpu,
        .snapshot_interval_s = interval_s,
        .sample_interval_s = interval_s,
    });
    if (!profiler)
        return -1;
    core_bind(lp_table(), profiler, outer);
    return 0;
}

lp_profiler *core_profiler(void)
{
    return profiler;
}

void core_touch(void)
{
    pair(1);
}

void core_close(void)
{
    lp_close(profiler);
    lp_close(off);
}

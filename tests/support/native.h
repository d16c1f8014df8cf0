/*
 * Programs that record through the public interface, and the runs that they leave.
 */
#ifndef LP_TESTS_NATIVE_H
#define LP_TESTS_NATIVE_H

#include "support/worker.h"

#include <lineprofiler.h>

#include "run/run.h"

/* A profiler without threads of its own. */
static inline lp_profiler *open_quietly(const char *run_dir)
{
    lp_profiler *profiler =
        lp_open(&(lp_options){.run_dir = run_dir, .run_id = "one", .snapshot_interval_s = -1, .sample_interval_s = -1});
    if (!profiler)
        print_error("%s\n", lp_error_message());
    assert_non_null(profiler);
    return profiler;
}

static inline void enter_and_leave(lp_profiler *profiler, const char *name)
{
    lp_phase phase = lp_enter(profiler, lp_intern(name));
    lp_leave(&phase);
}

/* The run, which must be whole. It may be live. */
static inline struct lp_run *run_read(const char *run_dir)
{
    char message[512];
    struct lp_run *run;
    if (lp_run_load(&run, run_dir, NULL, message, sizeof message) != LP_RUN_OK)
        fail_msg("%s", message);
    assert_int_equal(run->n_unreadable, 0);
    return run;
}

static inline const struct lp_run_phase *phase_at(const struct lp_run *run, const char *path)
{
    const struct lp_run_phase *phase = run->tree;
    while (phase && *path) {
        size_t len = strcspn(path, "/"), i = 0;
        while (i < phase->n_children &&
               (phase->children[i]->name.len != len || memcmp(phase->children[i]->name.bytes, path, len) != 0))
            i++;
        phase = i < phase->n_children ? phase->children[i] : NULL;
        path += len + (path[len] == '/');
    }
    return phase;
}

/* How many entries of a path have ended. */
static inline uint64_t calls_at(const struct lp_run *run, const char *path)
{
    const struct lp_run_phase *phase = phase_at(run, path);
    return phase ? phase->calls : 0;
}

static inline uint64_t open_at(const struct lp_run *run, const char *path)
{
    const struct lp_run_phase *phase = phase_at(run, path);
    return phase ? phase->open_calls : 0;
}

#endif

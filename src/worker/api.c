/* The public C interface (lineprofiler.h) on top of a worker: defaults, the run to join, and nothing else. */
#include <errno.h>
#include <limits.h>
#include <lineprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/join.h"
#include "worker/worker.h"

#define DEFAULT_SNAPSHOT_S 30.0
#define DEFAULT_SAMPLE_S 1.0

static __thread char last_error[512];

/* A profiler is its worker; the two names keep the public header free of ours. */
static struct lp_worker *worker_of(lp_profiler *profiler)
{
    return (struct lp_worker *)(void *)profiler;
}

static const char *choose_role(const char *given)
{
    const char *role = given ? given : getenv("LINEPROFILER_ROLE");
    return role && *role ? role : "main";
}

static int make_absolute(char *path, size_t size, const char *given)
{
    char here[PATH_MAX] = "";
    if (given[0] != '/' && !getcwd(here, sizeof here))
        return -1;
    int n = snprintf(path, size, "%s%s%s", here, given[0] == '/' ? "" : "/", given);
    if (n >= 0 && (size_t)n < size)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

static double interval(double given, double otherwise)
{
    return given < 0 ? 0 : given == 0 ? otherwise : given;
}

lp_profiler *lp_open(const lp_options *options)
{
    static const lp_options defaults;
    char run_dir[PATH_MAX];
    struct lp_worker *worker;
    struct lp_join join;
    if (!options)
        options = &defaults;
    lp_join_choose(&join, options->run_dir, options->run_id);
    const char *given = join.run_dir ? join.run_dir : "profile";
    if (make_absolute(run_dir, sizeof run_dir, given) != 0) {
        snprintf(last_error, sizeof last_error, "cannot make the run directory '%.200s' absolute: %s", given,
                 strerror(errno));
        return NULL;
    }
    const char *role = choose_role(options->role);
    const struct lp_worker_options chosen = {
        .run_dir = run_dir,
        .role = role,
        .role_len = strlen(role),
        .run_id = join.run_id,
        .run_id_origin = join.run_id_given ? LP_RUN_ID_GIVEN : LP_RUN_ID_INHERITED,
        .measure_cpu = !options->no_cpu,
        .wait_detail = options->wait_detail == 0 ? LP_WAIT_DETAIL_DEFAULT : options->wait_detail > 0,
        .measure_pss = options->measure_pss,
        .snapshot_interval_s = interval(options->snapshot_interval_s, DEFAULT_SNAPSHOT_S),
        .sample_interval_s = interval(options->sample_interval_s, DEFAULT_SAMPLE_S),
    };
    if (lp_worker_open(&worker, &chosen, last_error, sizeof last_error) != LP_WORKER_OK)
        return NULL;
    return (lp_profiler *)(void *)worker;
}

static void see_thread_name(lp_profiler *profiler)
{
    if (profiler)
        lp_recorder_see_thread_name(lp_worker_recorder(worker_of(profiler)));
}

int lp_close(lp_profiler *profiler)
{
    see_thread_name(profiler);
    return profiler && lp_worker_close(worker_of(profiler), last_error, sizeof last_error) != LP_WORKER_OK ? -1 : 0;
}

int lp_snapshot(lp_profiler *profiler)
{
    see_thread_name(profiler);
    return profiler && lp_worker_snapshot(worker_of(profiler), last_error, sizeof last_error) != LP_WORKER_OK ? -1 : 0;
}

const char *lp_error_message(void)
{
    return last_error;
}

lp_name lp_intern(const char *name)
{
    size_t len = name ? strnlen(name, LP_NAME_LIMIT + 1) : 0;
    return len == 0 || len > LP_NAME_LIMIT ? LP_NAME_NONE : lp_name_intern(name, len);
}

lp_phase lp_enter(lp_profiler *profiler, lp_name name)
{
    struct lp_entry entry = {0};
    if (LP_LIKELY(profiler && name != LP_NAME_NONE && name <= LP_NAME_MASK))
        lp_record_enter(lp_worker_recorder(worker_of(profiler)), name, &entry);
    return (lp_phase){entry.thread, entry.serial, entry.frame};
}

void lp_leave(lp_phase *phase)
{
    if (LP_UNLIKELY(!phase))
        return;
    struct lp_entry entry = {phase->thread, phase->serial, phase->frame};
    phase->thread = NULL;
    lp_record_leave(&entry);
}

int lp_count(lp_profiler *profiler, lp_name name, int64_t n)
{
    if (LP_UNLIKELY(!profiler || name == LP_NAME_NONE))
        return 0;
    return lp_record_count(lp_worker_recorder(worker_of(profiler)), name, n) == LP_COUNT_OK ? 0 : -1;
}

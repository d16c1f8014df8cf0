/* Opening and closing, and what is asked of a profiler. */
#include "api/profiler.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/thread_name.h"
#include "worker/join.h"

#define DEFAULT_SNAPSHOT_S 30.0
#define DEFAULT_SAMPLE_S 1.0

static __thread char last_error[512];

static _Atomic(lp_profiler *) installed;

/* What lp_open hands out where nothing is to be recorded. */
static lp_profiler disabled;

/* What it quotes may have line breaks. */
static void make_one_line(void)
{
    for (char *byte = last_error; *byte; byte++)
        if ((unsigned char)*byte < ' ' || *byte == 0x7f)
            *byte = '?';
}

void lp_api_failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    make_one_line();
}

/* 0, or -1 if a call below has failed and said why. */
static int result_of(int status)
{
    if (status == LP_WORKER_OK)
        return 0;
    make_one_line();
    return -1;
}

const char *lp_error_message(void)
{
    return last_error;
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

/* Of LINEPROFILER_PROFILE, spaces around it aside. */
static bool says_on(const char *text)
{
    static const char *const off[] = {"", "0", "false", "no", "off"};
    size_t len;
    text += strspn(text, " \t\r\n\f\v");
    len = strlen(text);
    while (len > 0 && strchr(" \t\r\n\f\v", text[len - 1]))
        len--;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (strlen(off[i]) == len && strncasecmp(text, off[i], len) == 0)
            return false;
    return true;
}

/* E1: the program decides, else the environment, else whether a parent records. */
static bool is_on(const lp_options *options, const struct lp_join *join)
{
    const char *text = getenv("LINEPROFILER_PROFILE");
    if (options->enabled != 0)
        return options->enabled > 0;
    if (options->run_dir && *options->run_dir)
        return true;
    return text ? says_on(text) : join->in_run;
}

static void see_thread_name(lp_profiler *profiler)
{
    if (profiler && profiler->recorder)
        lp_recorder_see_thread_name(profiler->recorder);
}

static lp_profiler *open_worker(const lp_options *options, const struct lp_join *join)
{
    char run_dir[PATH_MAX];
    const char *given = join->run_dir ? join->run_dir : "profile", *role = choose_role(options->role);
    struct lp_worker *worker;
    if (make_absolute(run_dir, sizeof run_dir, given) != 0) {
        lp_api_failed("cannot make the run directory '%.200s' absolute: %s", given, strerror(errno));
        return NULL;
    }
    const struct lp_worker_options chosen = {
        .run_dir = run_dir,
        .role = role,
        .role_len = strlen(role),
        .has_index = options->has_index,
        .index = options->index,
        .run_id = join->run_id,
        .run_id_origin = join->run_id_given ? LP_RUN_ID_GIVEN : LP_RUN_ID_INHERITED,
        .measure_cpu = !options->no_cpu,
        .wait_detail = options->wait_detail == 0 ? LP_WAIT_DETAIL_DEFAULT : options->wait_detail > 0,
        .thread_names = options->thread_names,
        .thread_name = lp_api_thread_name,
        .measure_pss = options->measure_pss,
        .snapshot_interval_s = interval(options->snapshot_interval_s, DEFAULT_SNAPSHOT_S),
        .sample_interval_s = interval(options->sample_interval_s, DEFAULT_SAMPLE_S),
    };
    if (result_of(lp_worker_open(&worker, &chosen, last_error, sizeof last_error)) != 0)
        return NULL;
    lp_profiler *profiler = lp_profiler_of_worker(worker, options->strict_names);
    if (!profiler) {
        lp_worker_free(worker);
        lp_api_failed("no memory for a profiler");
    }
    return profiler;
}

lp_profiler *lp_open_sized(const lp_options *options, size_t options_size)
{
    /* An earlier header's is shorter; of a later one's, what is beyond is not known here. No header's ends within
       a pointer. */
    lp_options known = {0};
    struct lp_join join;
    size_t whole = options_size - options_size % _Alignof(lp_options);
    if (options)
        memcpy(&known, options, whole < sizeof known ? whole : sizeof known);
    lp_join_choose(&join, known.run_dir, known.run_id);
    if (!is_on(&known, &join))
        return &disabled;
    lp_profiler *profiler = open_worker(&known, &join);
    if (profiler && !known.not_installed)
        lp_profiler_install(profiler);
    return profiler;
}

lp_profiler *lp_profiler_of_worker(struct lp_worker *worker, bool strict_names)
{
    static _Atomic(lp_profiler *) newest;
    lp_profiler *profiler = aligned_alloc(LP_APART, sizeof *profiler);
    if (!profiler)
        return NULL;
    *profiler = (lp_profiler){lp_worker_recorder(worker), worker, strict_names, atomic_load(&newest)};
    while (!atomic_compare_exchange_weak(&newest, &profiler->older, profiler))
        continue;
    return profiler;
}

void lp_profiler_install(lp_profiler *profiler)
{
    lp_profiler *before = NULL;
    if (atomic_compare_exchange_strong(&installed, &before, profiler))
        return;
    /* A child that opens one of its own means to record there, and not into its parent's. */
    if (lp_worker_is_parents(before->worker))
        atomic_compare_exchange_strong(&installed, &before, profiler);
}

void lp_profiler_uninstall(lp_profiler *profiler)
{
    atomic_compare_exchange_strong(&installed, &profiler, NULL);
}

lp_profiler *lp_installed(void)
{
    return atomic_load_explicit(&installed, memory_order_acquire);
}

int lp_close(lp_profiler *profiler)
{
    if (!profiler || !profiler->worker)
        return 0;
    lp_profiler_uninstall(profiler);
    see_thread_name(profiler);
    return result_of(lp_worker_close(profiler->worker, last_error, sizeof last_error));
}

int lp_snapshot(lp_profiler *profiler)
{
    if (!profiler || !profiler->worker)
        return 0;
    see_thread_name(profiler);
    return result_of(lp_worker_snapshot(profiler->worker, last_error, sizeof last_error));
}

int lp_is_enabled(const lp_profiler *profiler)
{
    return profiler && profiler->worker && lp_record_is_here() &&
           atomic_load(&profiler->recorder->state) != LP_RECORDER_STOPPED;
}

static size_t copy_text(const char *from, char *text, size_t size)
{
    int len = snprintf(text, text ? size : 0, "%s", from);
    return len > 0 ? (size_t)len : 0;
}

size_t lp_run_dir(const lp_profiler *profiler, char *text, size_t size)
{
    return copy_text(profiler && profiler->worker ? lp_worker_run_dir(profiler->worker) : "", text, size);
}

size_t lp_run_id(const lp_profiler *profiler, char *text, size_t size)
{
    return copy_text(profiler && profiler->worker ? lp_worker_run_id(profiler->worker) : "", text, size);
}

size_t lp_worker_file(const lp_profiler *profiler, char *text, size_t size)
{
    return profiler && profiler->worker ? lp_worker_copy_path(profiler->worker, text, text ? size : 0)
                                        : copy_text("", text, size);
}

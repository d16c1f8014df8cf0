/*
 * Workers in folders of their own, and what their files say.
 */
#ifndef LP_TESTS_WORKER_H
#define LP_TESTS_WORKER_H

#include "support/recording.h"

#include <signal.h>
#include <sys/prctl.h>

#include "worker/worker.h"

/* Options of a worker without a keeper. */
static inline struct lp_worker_options quiet_options(const char *run_dir)
{
    return (struct lp_worker_options){
        .run_dir = run_dir, .role = "tester", .role_len = 6, .run_id = NULL, .measure_cpu = true};
}

static inline struct lp_worker *worker_open_with(const struct lp_worker_options *options)
{
    struct lp_worker *worker;
    char message[512] = "";
    int status = lp_worker_open(&worker, options, message, sizeof message);
    if (status != LP_WORKER_OK)
        print_error("%s\n", message);
    assert_int_equal(status, LP_WORKER_OK);
    return worker;
}

static inline struct lp_worker *worker_open(const char *run_dir)
{
    struct lp_worker_options options = quiet_options(run_dir);
    return worker_open_with(&options);
}

static inline void worker_record(struct lp_worker *worker, const char *name)
{
    struct lp_entry entry;
    lp_record_enter(lp_worker_recorder(worker), name_of(name), &entry);
    lp_record_leave(&entry);
}

/* ---- its file ---------------------------------------------------------------------- */

static inline bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static inline bool is_stamp(const json_t *value)
{
    return json_object_size(value) == 3 && is_count(json_object_get(value, "realtime_ns")) &&
           is_count(json_object_get(value, "monotonic_ns")) && is_count(json_object_get(value, "boottime_ns"));
}

static inline bool is_folder_clock_or_null(const json_t *value)
{
    return json_is_null(value) ||
           (json_object_size(value) == 3 && is_count(json_object_get(value, "before_ns")) &&
            is_count(json_object_get(value, "stamped_ns")) && is_count(json_object_get(value, "after_ns")));
}

static inline bool is_count_or_null(const json_t *value)
{
    return json_is_null(value) || is_count(value);
}

/* docs/format.md: which keys there are, in which order, and what may stand there. NULL, or what is wrong. */
static inline const char *fault_of_document(const json_t *document)
{
    static const char *const keys[] = {
        "format",   "version",    "worker",  "run_id",        "role",
        "pid",      "parent_pid", "host",    "rank",          "world_size",
        "launcher", "job",        "boot_id", "pid_namespace", "process_start_ticks",
        "library",  "runtime",    "command", "machine",       "run_id_origin",
        "settings", "started",    "written", "folder_clock",  "state",
        "ended",    "flush",      "clock",   "image",         "troubles",
        "own_io",   "memory",     "samples", "threads",
    };
    size_t i = 0, j;
    const char *key;
    const json_t *value, *thread, *node;
    json_object_foreach((json_t *)document, key, value)
    {
        if (strcmp(key, "gpus") == 0) /* where there are devices */
            continue;
        if (i == sizeof keys / sizeof *keys || strcmp(key, keys[i++]) != 0)
            return key;
    }
    if (i < sizeof keys / sizeof *keys)
        return keys[i];
    if (strcmp(json_string_value(json_object_get(document, "format")), "lineprofiler-worker") != 0)
        return "format";
    if (json_integer_value(json_object_get(document, "version")) != 1)
        return "version";
    static const char *const strings[] = {"worker", "run_id", "role", "host", "boot_id", "library", "run_id_origin"};
    for (i = 0; i < sizeof strings / sizeof *strings; i++)
        if (!json_is_string(json_object_get(document, strings[i])))
            return strings[i];
    static const char *const counts[] = {"pid", "parent_pid", "pid_namespace", "process_start_ticks", "flush"};
    for (i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!is_count(json_object_get(document, counts[i])))
            return counts[i];
    if (!is_stamp(json_object_get(document, "started")) || !is_stamp(json_object_get(document, "written")))
        return "stamps";
    if (!is_folder_clock_or_null(json_object_get(document, "folder_clock")))
        return "folder_clock";
    if (!is_count_or_null(json_object_get(document, "rank")) ||
        !is_count_or_null(json_object_get(document, "world_size")))
        return "rank";
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        if (!json_is_string(json_object_get(thread, "name")) || !is_count(json_object_get(thread, "tid")) ||
            !json_is_boolean(json_object_get(thread, "alive")))
            return "thread";
        json_array_foreach(json_object_get(thread, "nodes"), j, node)
        {
            bool root = j == 0;
            if (root != !json_object_get(node, "parent") || root != !json_object_get(node, "name"))
                return "node";
            if (!root && json_integer_value(json_object_get(node, "parent")) >= (json_int_t)j)
                return "parent";
        }
    }
    return NULL;
}

/* The worker's file, parsed and checked; NULL if there is none. */
static inline json_t *file_document(const char *path)
{
    size_t len;
    char *text = file_read(path, &len);
    if (!text)
        return NULL;
    json_t *document = json_of(text, len);
    const char *fault = fault_of_document(document);
    if (fault)
        print_error("%s: wrong at %s: %s\n", path, fault, text);
    assert_null(fault);
    free(text);
    return document;
}

static inline json_t *worker_document(const struct lp_worker *worker)
{
    return file_document(lp_worker_path(worker));
}

static inline const char *text_at(const json_t *document, const char *key)
{
    return json_string_value(json_object_get(document, key));
}

static inline uint64_t trouble_at(const json_t *document, const char *name)
{
    return json_u64(json_object_get(document, "troubles"), name, 0);
}

/* ---- all files of a run ------------------------------------------------------------- */

struct run_files {
    char *paths[256];
    int n;
};

static inline int add_file_(const char *path, const struct stat *st, int kind, struct FTW *place);

static struct run_files *collecting_;

static inline int add_file_(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    size_t len = strlen(path);
    (void)st;
    (void)place;
    if (kind == FTW_F && len > 5 && strstr(path, "/workers/") && strcmp(path + len - 5, ".json") == 0 &&
        collecting_->n < 256)
        collecting_->paths[collecting_->n++] = strdup(path);
    return 0;
}

/* The paths of its worker files. */
static inline struct run_files run_files(const char *run_dir)
{
    struct run_files files = {.n = 0};
    collecting_ = &files;
    nftw(run_dir, add_file_, 16, FTW_PHYS);
    collecting_ = NULL;
    return files;
}

static inline void run_files_free(struct run_files *files)
{
    while (files->n > 0)
        free(files->paths[--files->n]);
}

/* How many worker files of the run have so many calls of the path, at least one. */
static inline int files_with_calls(const char *run_dir, const char *path, uint64_t calls)
{
    struct run_files files = run_files(run_dir);
    int found = 0;
    for (int i = 0; i < files.n; i++) {
        json_t *document = file_document(files.paths[i]);
        found += document && figures_at(document, path).calls == calls;
        json_decref(document);
    }
    run_files_free(&files);
    return found;
}

/* ---- threads of this process --------------------------------------------------------- */

/* How many there are; how many of them are keepers in *keepers (may be NULL). */
static inline int threads_now(int *keepers)
{
    int n = LP_TEST_TSAN ? -1 : 0, found = 0; /* ThreadSanitizer has one of its own */
    char path[300];
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        char *name = file_read(path, NULL);
        n += name != NULL; /* it may have ended meanwhile */
        found += name && strcmp(name, "lp-keeper\n") == 0;
        free(name);
    }
    closedir(folder);
    if (keepers)
        *keepers = found;
    return n;
}

/* A thread that a keeper has just made bears its name for a moment. */
static inline int keepers_now(void)
{
    int keepers;
    threads_now(&keepers);
    return keepers;
}

#endif

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/backends.h"
#include "run/build.h"
#include "run/caveats.h"
#include "run/copies.h"
#include "run/live.h"
#include "run/provenance.h"
#include "run/samples_load.h"
#include "worker/adopt.h"

/* A load under way; where the message for a failure goes. */
struct load {
    const char *dir;                      /* Borrowed. */
    const struct lp_run_options *options; /* Borrowed. */
    char *message;                        /* Borrowed. */
    size_t message_size;
    int dir_fd;
    struct lp_run_files files;
    struct lp_run_copies copies;
    struct lp_run_gather gather;
    struct lp_run *run; /* Owned until handed out. */
};

static struct lp_span view_of(const char *string)
{
    return (struct lp_span){string, strlen(string)};
}

static int fail_line(const struct load *load, enum lp_run_status status, struct lp_run_line *line)
{
    char *text = lp_run_line_take(line);
    if (load->message_size)
        snprintf(load->message, load->message_size, "%s", text ? text : "out of memory");
    free(text);
    return status;
}

/* The one line of a failure, free of anything that would not print. */
static int fail(const struct load *load, enum lp_run_status status, const char *before, const char *after)
{
    struct lp_run_line line = {0};
    lp_run_line_add(&line, "%s'", before);
    lp_run_line_text(&line, view_of(load->dir));
    lp_run_line_add(&line, "'");
    lp_run_line_text(&line, view_of(after));
    return fail_line(load, status, &line);
}

static int fail_memory(const struct load *load)
{
    return fail(load, LP_RUN_SYSTEM, "out of memory while reading ", "");
}

static int fail_errno(const struct load *load)
{
    char why[128];
    snprintf(why, sizeof why, ": %m");
    return fail(load, LP_RUN_SYSTEM, "cannot read the run directory ", why);
}

static int open_dir(struct load *load)
{
    load->dir_fd = open(load->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (load->dir_fd >= 0)
        return LP_RUN_OK;
    if (errno == ENOENT)
        return fail(load, LP_RUN_MISSING, "no directory ", ": give the run_dir that the program was profiled with");
    if (errno == ENOTDIR)
        return fail(load, LP_RUN_MISSING, "",
                    " is not a directory: give the run_dir that the program was profiled with");
    return fail_errno(load);
}

/* Cuts the last name off an absolute path and returns it; NULL: none is left. */
static const char *cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return NULL;
    *slash = '\0';
    return slash + 1;
}

/* Whether dir is the folder of a run's workers, or that of a host in it; run_dir is then the run's. */
static bool find_run_dir(const char *dir, char run_dir[PATH_MAX])
{
    char metadata[PATH_MAX + sizeof "/metadata.json"];
    const char *name;
    if (!realpath(dir, run_dir))
        return false;
    for (int i = 0; i < 2 && (name = cut_name(run_dir)); i++) {
        snprintf(metadata, sizeof metadata, "%s/metadata.json", run_dir);
        if (strcmp(name, "workers") == 0 && access(metadata, F_OK) == 0)
            return true;
    }
    return false;
}

static int fail_empty(const struct load *load)
{
    char run_dir[PATH_MAX], hint[PATH_MAX + 64];
    if (find_run_dir(load->dir, run_dir)) {
        snprintf(hint, sizeof hint, " is a folder inside the run directory '%s': give that one", run_dir);
        return fail(load, LP_RUN_EMPTY, "", hint);
    }
    return fail(load, LP_RUN_EMPTY, "no worker has written to ",
                " yet: was the program run with its profiler switched on (LINEPROFILER_PROFILE=1)?");
}

/* Names the first of what could not be read. */
static int fail_nothing(const struct load *load)
{
    const struct lp_run_gather *gather = &load->gather;
    struct lp_run_line line = {0};
    if (!gather->n_unreadable)
        return fail_empty(load);
    if (gather->n_unreadable == 1) /* a file, an image, or a folder, also in the place of a file */
        lp_run_line_add(&line, ": nothing in it could be read: ");
    else
        lp_run_line_add(&line, ": none of the %zu files and folders of workers in it could be read, the first: ",
                        gather->n_unreadable);
    lp_run_line_text(&line, view_of(gather->unreadable[0].path));
    lp_run_line_add(&line, ": %s", gather->unreadable[0].reason);
    char *text = lp_run_line_take(&line);
    int status = text ? fail(load, LP_RUN_NOTHING, "", text) : fail_memory(load);
    free(text);
    return status;
}

static void show_progress(const struct load *load, size_t done)
{
    const struct lp_run_options *options = load->options;
    if (options && options->progress)
        options->progress(options->progress_context, done, load->files.n_files);
}

static int gather_all(struct load *load)
{
    for (size_t i = 0; i < load->files.n_files; i++) {
        if (lp_run_gather_file(&load->gather, load->dir_fd, &load->files.files[i]) < 0)
            return -1;
        show_progress(load, i + 1);
    }
    return lp_run_gather_images(&load->gather);
}

/* Gathers everything, and again with the chosen attempt alone if its figures had been dropped. *chosen is NULL if
   nothing was readable. */
static int gather_chosen(struct load *load, struct lp_run_attempt **chosen)
{
    struct lp_run_gather *gather = &load->gather;
    if (gather_all(load) < 0 || lp_run_build_superseded(load->run, &gather->attempts) < 0)
        return -1;
    *chosen = lp_run_attempts_chosen(&gather->attempts);
    if (!*chosen || !(*chosen)->dropped)
        return 0;
    struct lp_text run_id;
    if (lp_text_copy(&run_id, lp_text_span(&(*chosen)->run_id)) < 0)
        return -1;
    lp_run_gather_restart(gather, lp_text_span(&run_id));
    int result = gather_all(load);
    *chosen = lp_run_attempts_chosen(&gather->attempts);
    gather->only = (struct lp_span){NULL, 0};
    lp_text_release(&run_id);
    return result;
}

/* Text of metadata.json if it is JSON, NULL if not or if there is none; -1 without memory. */
static int read_metadata(struct load *load)
{
    struct lp_run_fault fault;
    const struct lp_run_buffer *buffer = &load->gather.buffer;
    if (lp_run_read_file(&load->gather.buffer, load->dir_fd, "metadata.json", &fault) < 0)
        return fault.no_memory ? -1 : 0;
    json_t *json = json_loadb(buffer->bytes, buffer->len, JSON_REJECT_DUPLICATES, NULL);
    if (!json)
        return 0;
    int failed = lp_run_provenance_take(load->run, json);
    json_decref(json);
    if (failed)
        return -1;
    load->run->metadata = strndup(buffer->bytes, buffer->len);
    return load->run->metadata ? 0 : -1;
}

static int build(struct load *load, struct lp_run_attempt *newest)
{
    struct lp_run *run = load->run;
    run->n_copies = load->copies.n;
    run->copy = load->copies.first;
    load->copies.first = NULL;
    if (lp_run_build_attempt(run, newest) < 0 || lp_run_build_filtered(run, newest, load->gather.filter) < 0 ||
        lp_run_build_unreadable(run, &load->gather) < 0)
        return -1;
    lp_run_build_times(run, &newest->extent);
    if (lp_run_backends(run, load->dir_fd, &load->gather.buffer) < 0)
        return -1;
    if (!(load->options && load->options->no_samples) && lp_run_samples_load(run, load->dir_fd) < 0)
        return -1;
    return read_metadata(load) < 0 ? -1 : lp_run_caveats(run);
}

/* Takes the filter in, unless it is none or an empty one. */
static int choose_workers(struct load *load)
{
    const struct lp_run_filter *filter = load->options ? load->options->filter : NULL;
    struct lp_run_line line = {0};
    if (!filter || filter->n_roles + filter->n_hosts + filter->n_ranks == 0)
        return LP_RUN_OK;
    load->gather.filter = filter;
    if (lp_run_filter_check(filter, &line) == 0)
        return LP_RUN_OK;
    return fail_line(load, line.failed ? LP_RUN_SYSTEM : LP_RUN_WRONG, &line);
}

/* Each value is there, but no process that has them all. */
static int add_combination(struct lp_run_line *line, const struct lp_run_filter *filter)
{
    lp_run_line_add(line, "no process of that ");
    if (filter->n_roles)
        lp_run_line_add(line, "role%s", filter->n_hosts && filter->n_ranks ? ", " : " and ");
    if (filter->n_hosts)
        lp_run_line_add(line, "host%s", filter->n_ranks ? " and " : "");
    lp_run_line_add(line, "%s at once", filter->n_ranks ? "rank" : "");
    return -1;
}

/* Says why nobody, or not everybody who was asked for, is there. */
static int find_chosen(struct load *load, struct lp_run_attempt *newest)
{
    const struct lp_run_filter *filter = load->gather.filter;
    struct lp_run_line line = {0};
    if (!filter)
        return LP_RUN_OK;
    lp_run_line_add(&line, "'");
    lp_run_line_text(&line, view_of(load->dir));
    lp_run_line_add(&line, "' has ");
    int missing = lp_run_filter_explain(filter, &newest->known, &line);
    if (missing == 0 && newest->workers_kept == 0)
        missing = add_combination(&line, filter);
    if (missing == 0) {
        free(lp_run_line_take(&line));
        return LP_RUN_OK;
    }
    return fail_line(load, line.failed ? LP_RUN_SYSTEM : LP_RUN_UNKNOWN, &line);
}

/* Nobody is of the run that was asked for. */
static int fail_run(struct load *load)
{
    const struct lp_run_attempts *attempts = &load->gather.attempts;
    struct lp_run_line line = {0};
    struct lp_text *ids = calloc(attempts->n_attempts, sizeof *ids);
    if (!ids)
        return fail_memory(load);
    for (size_t i = 0; i < attempts->n_attempts; i++)
        ids[i] = attempts->attempts[i]->run_id;
    lp_run_line_add(&line, "'");
    lp_run_line_text(&line, view_of(load->dir));
    lp_run_line_add(&line, "' has ");
    lp_run_filter_explain_name("no run", attempts->run_id, ids, attempts->n_attempts, &line);
    free(ids);
    return fail_line(load, line.failed ? LP_RUN_SYSTEM : LP_RUN_UNKNOWN, &line);
}

static int find_documents(struct load *load)
{
    bool images = !load->options || !load->options->no_images;
    if (images && !(load->options && load->options->only_read))
        lp_adopt(&(struct lp_adoption){.run_dir = load->dir});
    if (images && lp_run_live_each(load->dir, lp_run_gather_image, &load->gather) != 0)
        return fail_memory(load);
    if (lp_run_scan(&load->files, load->dir_fd) < 0)
        return fail_errno(load);
    if (lp_run_copies_leave_out(&load->copies, &load->files, load->dir_fd) < 0)
        return fail_memory(load);
    if (!load->files.n_files && !load->gather.n_images)
        return fail_empty(load);
    return LP_RUN_OK;
}

static int load_run(struct load *load)
{
    struct lp_run_attempt *chosen = NULL;
    int status = choose_workers(load);
    load->gather.run_id = load->options ? load->options->run_id : NULL;
    if (status == LP_RUN_OK)
        status = open_dir(load);
    if (status == LP_RUN_OK)
        status = find_documents(load);
    if (status != LP_RUN_OK)
        return status;
    load->run = calloc(1, sizeof *load->run);
    if (!load->run || !(load->run->dir = strdup(load->dir)) || gather_chosen(load, &chosen) < 0)
        return fail_memory(load);
    if (!chosen)
        return load->gather.attempts.n_attempts ? fail_run(load) : fail_nothing(load);
    status = find_chosen(load, chosen);
    if (status != LP_RUN_OK)
        return status;
    return build(load, chosen) < 0 ? fail_memory(load) : LP_RUN_OK;
}

int lp_run_load(struct lp_run **run, const char *dir, const struct lp_run_options *options, char *message,
                size_t message_size)
{
    struct load load = {.dir = dir, .options = options, .message = message, .message_size = message_size, .dir_fd = -1};
    int status = load_run(&load);
    if (status != LP_RUN_OK) {
        lp_run_free(load.run);
        load.run = NULL;
    } else if (message_size) {
        message[0] = '\0';
    }
    *run = load.run;
    lp_run_files_release(&load.files);
    lp_run_copies_release(&load.copies);
    lp_run_gather_release(&load.gather);
    if (load.dir_fd >= 0)
        close(load.dir_fd);
    return status;
}

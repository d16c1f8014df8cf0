#include "worker/describe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process/provenance.h"
#include "worker/internal.h"

#define GIT_NS UINT64_C(10000000000)
#define LAST_NS UINT64_C(50000000) /* what a close waits for */
#define JOIN_NS UINT64_C(800000000)
#define TRIES 5
#define THREAD_STACK_BYTES (512u << 10)

static char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

void lp_describe_init(struct lp_worker *worker)
{
    char here[PATH_MAX];
    struct lp_description *description = calloc(1, sizeof *description);
    worker->describer.description = description;
    if (!description)
        return;
    atomic_store(&description->holders, 1);
    description->working_folder = copy_of(getcwd(here, sizeof here));
    description->path = copy_of(getenv("PATH"));
    description->home = copy_of(getenv("HOME"));
    description->config_home = copy_of(getenv("XDG_CONFIG_HOME"));
    description->library_path = copy_of(getenv("LD_LIBRARY_PATH"));
    description->run_dir = copy_of(worker->run_dir);
    description->run_id = copy_of(worker->run_id);
    description->worker = copy_of(worker->name);
    description->never_ask = worker->identity.launch.may_be_mpi;
}

static void let_go(struct lp_description *description)
{
    if (!description || atomic_fetch_sub(&description->holders, 1) > 1)
        return;
    free(description->source_folder);
    free(description->packages);
    free(description->working_folder);
    free(description->path);
    free(description->home);
    free(description->config_home);
    free(description->library_path);
    free(description->run_dir);
    free(description->run_id);
    free(description->worker);
    free(description);
}

void lp_describe_release(struct lp_describer *describer)
{
    let_go(describer->description);
    describer->description = NULL;
}

static int state_of(const struct lp_describer *describer)
{
    return describer->description ? atomic_load(&describer->description->state) : LP_DESCRIBE_NOT;
}

/* Whether it was in the first state, and is now in the second. */
static bool change(struct lp_description *description, int from, int to)
{
    return description && atomic_compare_exchange_strong(&description->state, &from, to);
}

void lp_describe_want(struct lp_worker *worker)
{
    struct lp_description *description = worker->describer.description;
    if (!change(description, LP_DESCRIBE_NOT, LP_DESCRIBE_WANTED)) /* or its directory was removed, and made anew */
        change(description, LP_DESCRIBE_DONE, LP_DESCRIBE_WANTED);
}

void lp_describe_after_fork(struct lp_worker *worker)
{
    struct lp_description *description = worker->describer.description;
    bool laid_aside = worker->foreign && state_of(&worker->describer) == LP_DESCRIBE_WANTED;
    worker->describer.running = false;
    if (!description)
        return;
    atomic_store(&description->holders, 1);
    atomic_store(&description->state, laid_aside ? LP_DESCRIBE_WANTED : LP_DESCRIBE_NOT);
    description->tries = 0;
}

/* The folder of the program itself. */
static const char *program_folder(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/thread-self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return path;
}

static void read_provenance(struct lp_provenance *provenance, struct lp_description *description)
{
    char program[PATH_MAX];
    const char *folders[3] = {0};
    size_t n = 0;
    const char *source = description->source_folder ? description->source_folder : program_folder(program);
    if (source)
        folders[n++] = source;
    if (description->working_folder)
        folders[n++] = description->working_folder;
    const struct lp_git_environment environment = {description->path, description->home, description->config_home,
                                                   description->library_path};
    lp_provenance_read(provenance, folders, description->never_ask ? NULL : &environment, &description->until_ns);
}

static void emit_git(struct lp_emit *emit, const struct lp_provenance *provenance)
{
    lp_emit_key(emit, "git");
    if (!provenance->found) {
        lp_emit_null(emit);
        return;
    }
    lp_emit_open(emit, '{');
    lp_emit_string_or_null(emit, "commit", provenance->commit);
    lp_emit_string_or_null(emit, "branch", provenance->branch);
    lp_emit_key(emit, "dirty");
    if (provenance->dirty == LP_DIRTY_UNKNOWN)
        lp_emit_null(emit);
    else
        lp_emit_bool(emit, provenance->dirty == LP_DIRTY_YES);
    lp_emit_string_or_null(emit, "difference_sha256", provenance->difference);
    lp_emit_close(emit, '}');
}

static void emit_packages(struct lp_emit *emit, const struct lp_description *description)
{
    lp_emit_key(emit, "packages");
    lp_emit_open(emit, '{');
    for (size_t i = 0; i < description->packages_len;) {
        const char *name = description->packages + i, *version = name + strlen(name) + 1;
        lp_emit_text_key(emit, name, strlen(name));
        if (*version)
            lp_emit_string(emit, version);
        else
            lp_emit_null(emit);
        i = (size_t)(version - description->packages) + strlen(version) + 1;
    }
    lp_emit_close(emit, '}');
}

static void write_down(const struct lp_description *description, const struct lp_provenance *provenance)
{
    struct lp_buffer text = {0};
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_emit_open(&emit, '{');
    emit_git(&emit, provenance);
    emit_packages(&emit, description);
    lp_emit_close(&emit, '}');
    if (lp_emit_end(&emit) == 0 && description->run_dir && description->run_id && description->worker)
        lp_metadata_describe(
            &(struct lp_metadata_place){description->run_dir, description->run_id, description->worker}, text.bytes,
            text.len);
    free(text.bytes);
}

/* Unless it was interrupted for a fork, and can be done again after it. */
static bool is_final(const struct lp_description *description, const struct lp_provenance *provenance)
{
    bool interrupted = atomic_load(&description->until_ns) == 0 && provenance->found && !provenance->dirty;
    return !interrupted || atomic_load(&description->last) || description->tries >= TRIES;
}

/* What this thread has moved so far, its own end included. */
static void note_io(struct lp_description *description)
{
    lp_own_io_reading();
    size_t cost_chars = lp_io_of_thread(&description->moved);
    lp_own_io_was_read(NULL, cost_chars);
    description->moved.read_chars += cost_chars;
    description->moved_is_known = cost_chars > 0;
}

static void *describe(void *context)
{
    struct lp_description *description = context;
    struct lp_provenance provenance;
    pthread_setname_np(pthread_self(), "lp-describe");
    struct lp_own_io own = lp_own_io_begin();
    read_provenance(&provenance, description);
    bool final = is_final(description, &provenance);
    if (final)
        write_down(description, &provenance);
    lp_own_io_end(NULL, &own);
    note_io(description);
    atomic_store(&description->state, final ? LP_DESCRIBE_DONE : LP_DESCRIBE_WANTED);
    let_go(description);
    return NULL;
}

static bool start_thread(struct lp_describer *describer)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    bool started = pthread_create(&describer->thread, &attributes, describe, describer->description) == 0 ||
                   pthread_create(&describer->thread, NULL, describe, describer->description) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* The keeper's signal mask, which is inherited, has all signals. */
static void start(struct lp_describer *describer)
{
    struct lp_description *description = describer->description;
    if (!change(description, LP_DESCRIBE_WANTED, LP_DESCRIBE_RUNS))
        return;
    description->tries++;
    atomic_store(&description->until_ns, lp_monotonic_ns() + GIT_NS);
    atomic_fetch_add(&description->holders, 1);
    describer->running = start_thread(describer);
    if (!describer->running) {
        atomic_store(&description->state, LP_DESCRIBE_WANTED);
        atomic_fetch_sub(&description->holders, 1);
    }
}

static void was_joined(struct lp_worker *worker)
{
    const struct lp_description *description = worker->describer.description;
    worker->describer.running = false;
    lp_own_io_tell(worker, description->moved_is_known ? &description->moved : NULL);
}

bool lp_describe_runs(const struct lp_worker *worker)
{
    return worker->describer.running && state_of(&worker->describer) == LP_DESCRIBE_RUNS;
}

void lp_describe_go_on(struct lp_worker *worker)
{
    struct lp_describer *describer = &worker->describer;
    if (describer->running && state_of(describer) != LP_DESCRIBE_RUNS) {
        pthread_join(describer->thread, NULL);
        was_joined(worker);
    }
    if (!describer->running && describer->description && describer->description->tries < TRIES)
        start(describer);
}

void lp_describe_stop(struct lp_worker *worker, bool closing)
{
    struct lp_describer *describer = &worker->describer;
    struct timespec until;
    long nap_ns = 0;
    if (!describer->running)
        return;
    atomic_store(&describer->description->last, closing);
    atomic_store(&describer->description->until_ns, closing ? lp_monotonic_ns() + LAST_NS : 0);
    uint64_t until_ns = lp_monotonic_ns() + JOIN_NS;
    until.tv_sec = (time_t)(until_ns / 1000000000u);
    until.tv_nsec = (long)(until_ns % 1000000000u);
    int failed;
    while ((failed = pthread_tryjoin_np(describer->thread, NULL)) != 0 && lp_nap_before(&until, &nap_ns))
        continue;
    if (failed == 0) {
        was_joined(worker);
    } else {
        pthread_detach(describer->thread);
        describer->running = false;
    }
}

void lp_describe_at_last(struct lp_worker *worker)
{
    struct lp_provenance provenance;
    struct lp_description *description = worker->describer.description;
    if (!change(description, LP_DESCRIBE_WANTED, LP_DESCRIBE_RUNS))
        return;
    atomic_store(&description->until_ns, 0);
    read_provenance(&provenance, description);
    write_down(description, &provenance);
    atomic_store(&description->state, LP_DESCRIBE_DONE);
}

bool lp_worker_describes(const struct lp_worker *worker)
{
    return state_of(&worker->describer) == LP_DESCRIBE_WANTED;
}

void lp_worker_describe(struct lp_worker *worker, const char *source_folder, const char *packages, size_t packages_len)
{
    struct lp_description *description = worker->describer.description;
    pthread_mutex_lock(&worker->life);
    if (!worker->keeper.running && lp_worker_describes(worker)) {
        free(description->source_folder);
        free(description->packages);
        description->source_folder = copy_of(source_folder);
        description->packages = malloc(packages_len + 1);
        description->packages_len = description->packages ? packages_len : 0;
        if (description->packages_len)
            memcpy(description->packages, packages, packages_len);
    }
    pthread_mutex_unlock(&worker->life);
}

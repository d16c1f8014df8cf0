#include "run/backends.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/fields.h"
#include "run/room.h"

#define FOLDER "backend"
#define NO_WORKER SIZE_MAX

/* A worker of the run, to be found by its name. */
struct known {
    const struct lp_run_worker *worker; /* Borrowed. */
};

/* The folder's names; and the run's workers by name. */
struct search {
    struct lp_run *run; /* Borrowed. */
    int dir_fd;
    struct lp_run_buffer *buffer; /* Borrowed. */
    char **names;                 /* Owned, sorted. */
    size_t n_names, names_room;
    size_t backends_room;
    struct known *workers; /* Owned, sorted by name. */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_worker(const void *a, const void *b)
{
    const struct known *left = a, *right = b;
    return lp_text_compare(lp_text_span(&left->worker->worker), lp_text_span(&right->worker->worker));
}

static size_t find_worker(const struct search *search, struct lp_span name)
{
    const struct lp_run_worker wanted = {.worker = {(char *)name.bytes, name.len}};
    const struct known key = {&wanted};
    const struct known *found = bsearch(&key, search->workers, search->run->n_workers, sizeof key, by_worker);
    return found ? (size_t)(found->worker - search->run->workers) : NO_WORKER;
}

static bool is_note(const char *name)
{
    size_t len = strlen(name);
    return len > 7 && strncmp(name, "w_", 2) == 0 && strcmp(name + len - 5, ".json") == 0;
}

static int list_names(struct search *search)
{
    int fd = openat(search->dir_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return errno == ENOMEM ? -1 : 0;
    }
    int failed = 0;
    for (const struct dirent *entry; !failed && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        failed = lp_run_room(&search->names, &search->names_room, search->n_names, sizeof *search->names);
        if (!failed && (search->names[search->n_names] = strdup(entry->d_name)))
            search->n_names++;
        else
            failed = -1;
    }
    closedir(folder);
    if (search->n_names)
        qsort((void *)search->names, search->n_names, sizeof *search->names, by_name);
    return failed;
}

static int sort_workers(struct search *search)
{
    size_t n = search->run->n_workers;
    search->workers = calloc(n ? n : 1, sizeof *search->workers);
    if (!search->workers)
        return -1;
    for (size_t i = 0; i < n; i++)
        search->workers[i].worker = &search->run->workers[i];
    qsort(search->workers, n, sizeof *search->workers, by_worker);
    return 0;
}

static struct lp_run_backend *add(struct search *search)
{
    struct lp_run *run = search->run;
    if (lp_run_room(&run->backends, &search->backends_room, run->n_backends, sizeof *run->backends) < 0)
        return NULL;
    struct lp_run_backend *backend = &run->backends[run->n_backends++];
    *backend = (struct lp_run_backend){.worker_index = NO_WORKER};
    return backend;
}

/* --- one note --- */

static int read_text(const json_t *object, const char *key, struct lp_text *text, struct lp_run_fault *fault)
{
    struct lp_span found;
    if (lp_run_field_string_or_null(object, key, &found, fault) < 0)
        return -1;
    if (lp_text_copy(text, found) < 0)
        return lp_run_fault_no_memory(fault);
    if (!found.bytes)
        return 0;
    ptrdiff_t len = lp_text_decode(text->bytes, found);
    if (len < 0)
        return lp_run_fault_set(fault, "%s: an escape that is none", key);
    text->len = (size_t)len;
    text->bytes[len] = '\0';
    return 0;
}

static int read_state(const json_t *note, enum lp_run_backend_state *state, struct lp_run_fault *fault)
{
    static const char *const words[] = {
        [LP_BACKEND_OPEN] = "open", [LP_BACKEND_WRITTEN] = "written", [LP_BACKEND_NONE] = "none"};
    struct lp_span word;
    if (lp_run_field_string(note, "state", &word, fault) < 0)
        return -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (lp_text_equal(word, (struct lp_span){words[i], strlen(words[i])})) {
            *state = (enum lp_run_backend_state)i;
            return 0;
        }
    }
    return lp_run_fault_set(fault, "state: unknown");
}

static int read_window(const json_t *note, struct lp_run_backend *backend, struct lp_run_fault *fault)
{
    json_t *window;
    if (lp_run_field_array(note, "window", &window, fault) < 0 ||
        lp_run_value_count(json_array_get(window, 0), &backend->start, fault) < 0 ||
        lp_run_value_count(json_array_get(window, 1), &backend->end, fault) < 0)
        return lp_run_fault_within(fault, "window: ");
    return lp_run_field_count(note, "entries", 0, &backend->entries, fault);
}

static int read_artifact(const json_t *note, struct lp_run_backend *backend, struct lp_run_fault *fault)
{
    struct lp_span path;
    int64_t bytes;
    if (lp_run_field_string_or_null(note, "artifact", &path, fault) < 0 ||
        lp_run_field_count_or_null(note, "bytes", 0, &bytes, fault) < 0)
        return -1;
    if (backend->state != LP_BACKEND_WRITTEN)
        return 0;
    const char prefix[] = FOLDER "/";
    size_t len = sizeof prefix - 1;
    if (!path.bytes || path.len <= len || memcmp(path.bytes, prefix, len) != 0 || path.bytes[len] == '.' ||
        memchr(path.bytes + len, '/', path.len - len) || memchr(path.bytes, '\0', path.len))
        return lp_run_fault_set(fault, "artifact: no name of a file in " FOLDER);
    backend->path = strndup(path.bytes, path.len);
    backend->bytes = bytes < 0 ? 0 : (uint64_t)bytes;
    return backend->path ? 0 : lp_run_fault_no_memory(fault);
}

static int read_version(const json_t *note, struct lp_run_fault *fault)
{
    struct lp_span format;
    uint64_t version;
    if (lp_run_field_string(note, "format", &format, fault) < 0 ||
        lp_run_field_count(note, "version", 1, &version, fault) < 0)
        return -1;
    if (!lp_text_equal(format, (struct lp_span){"lineprofiler-backend", 20}))
        return lp_run_fault_set(fault, "format: not lineprofiler-backend");
    return version == 1 ? 0 : lp_run_fault_set(fault, "version %llu: 1 is read", (unsigned long long)version);
}

static int read_members(const json_t *note, struct lp_run_backend *backend, struct lp_text *run_id,
                        struct lp_run_fault *fault)
{
    if (!json_is_object(note))
        return lp_run_fault_set(fault, "not a JSON object");
    if (read_version(note, fault) < 0 || read_text(note, "run_id", run_id, fault) < 0 ||
        read_text(note, "worker", &backend->worker, fault) < 0 || read_text(note, "role", &backend->role, fault) < 0 ||
        read_text(note, "backend", &backend->backend, fault) < 0 ||
        read_text(note, "window_phase", &backend->window_phase, fault) < 0 ||
        read_text(note, "reason", &backend->reason, fault) < 0 ||
        read_text(note, "error", &backend->error, fault) < 0 ||
        lp_run_field_count(note, "errors", 0, &backend->errors, fault) < 0 ||
        read_state(note, &backend->state, fault) < 0 || read_window(note, backend, fault) < 0 ||
        read_artifact(note, backend, fault) < 0)
        return -1;
    if (!backend->worker.bytes || !backend->backend.bytes || !backend->window_phase.bytes || !run_id->bytes)
        return lp_run_fault_set(fault, "null where a text is expected");
    return 0;
}

static void release(struct lp_run_backend *backend)
{
    lp_text_release(&backend->worker);
    lp_text_release(&backend->role);
    lp_text_release(&backend->backend);
    lp_text_release(&backend->window_phase);
    lp_text_release(&backend->reason);
    lp_text_release(&backend->error);
    free(backend->path);
}

/* Whether the file or folder is there; a file's size is as it is now. */
static bool look(const struct search *search, struct lp_run_backend *backend)
{
    struct stat st;
    if (fstatat(search->dir_fd, backend->path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return false;
    if (S_ISREG(st.st_mode))
        backend->bytes = (uint64_t)st.st_size;
    return true;
}

/* What a note could not say. */
static void complete(const struct search *search, struct lp_run_backend *backend)
{
    backend->worker_index = find_worker(search, lp_text_span(&backend->worker));
    if (backend->state == LP_BACKEND_WRITTEN && !look(search, backend))
        backend->state = LP_BACKEND_MISSING;
    if (backend->state == LP_BACKEND_OPEN && backend->worker_index != NO_WORKER)
        backend->cut_off =
            search->run->workers[backend->worker_index].ended || search->run->workers[backend->worker_index].closed;
}

static int set_unreadable(struct lp_run_backend *backend, const char *path, const char *name,
                          const struct lp_run_fault *fault)
{
    release(backend);
    *backend = (struct lp_run_backend){.worker_index = NO_WORKER, .state = LP_BACKEND_UNREADABLE};
    backend->path = strdup(path);
    return backend->path && lp_text_copy(&backend->worker, (struct lp_span){name, strlen(name) - 5}) == 0 &&
                   lp_text_copy(&backend->reason, (struct lp_span){fault->text, strlen(fault->text)}) == 0
               ? 0
               : -1;
}

/* A note that cannot be read is of this run if its worker is, as far as its name tells. */
static int read_note(struct search *search, const char *name)
{
    struct lp_run_fault fault = {0};
    struct lp_text run_id = {0};
    char path[sizeof FOLDER + 1 + NAME_MAX];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    struct lp_run_backend *backend = add(search);
    if (!backend)
        return -1;
    json_t *note = NULL;
    int failed = lp_run_read_file(search->buffer, search->dir_fd, path, &fault);
    if (!failed && !(note = json_loadb(search->buffer->bytes, search->buffer->len, JSON_REJECT_DUPLICATES, NULL)))
        failed = lp_run_fault_set(&fault, "not JSON");
    if (!failed)
        failed = read_members(note, backend, &run_id, &fault);
    json_decref(note);
    bool ours = !failed && lp_text_equal(lp_text_span(&run_id), lp_text_span(&search->run->run_id));
    if (failed && !fault.no_memory) {
        ours = find_worker(search, (struct lp_span){name, strlen(name) - 5}) != NO_WORKER;
        failed = ours ? set_unreadable(backend, path, name, &fault) : 0;
    }
    lp_text_release(&run_id);
    if (failed)
        return -1;
    if (!ours) {
        release(backend);
        search->run->n_backends--;
        return 0;
    }
    complete(search, backend);
    if (lp_run_is_filtered(search->run) && backend->worker_index == NO_WORKER) {
        release(backend);
        search->run->n_backends--;
    }
    return 0;
}

/* --- artifacts that no note names: torch_trace.<worker>.json --- */

static struct lp_span worker_in(const char *name)
{
    const char *worker = strstr(name, ".w_");
    if (!worker)
        return (struct lp_span){NULL, 0};
    size_t len = strlen(++worker);
    const char suffix[] = ".json";
    size_t tail = sizeof suffix - 1;
    if (len > tail && strcmp(worker + len - tail, suffix) == 0)
        len -= tail;
    return (struct lp_span){worker, len};
}

static int add_unnoted(struct search *search, const char *name)
{
    struct lp_span worker = worker_in(name);
    size_t index = worker.bytes ? find_worker(search, worker) : NO_WORKER;
    char note[NAME_MAX + sizeof ".json"];
    if (index == NO_WORKER)
        return 0;
    snprintf(note, sizeof note, "%.*s.json", (int)worker.len, worker.bytes);
    const char *key = note;
    if (bsearch(&key, (const void *)search->names, search->n_names, sizeof *search->names, by_name))
        return 0;
    struct lp_run_backend *backend = add(search);
    if (!backend)
        return -1;
    backend->state = LP_BACKEND_UNNOTED;
    backend->worker_index = index;
    if (asprintf(&backend->path, FOLDER "/%s", name) < 0) {
        backend->path = NULL;
        return -1;
    }
    look(search, backend);
    return lp_text_copy(&backend->worker, worker);
}

/* --- all --- */

/* Equal ones of a role stand together. */
static int by_kind(const void *a, const void *b)
{
    const struct lp_run_backend *left = a, *right = b;
    int order = lp_text_compare(lp_text_span(&left->role), lp_text_span(&right->role));
    if (!order)
        order = lp_text_compare(lp_text_span(&left->backend), lp_text_span(&right->backend));
    if (!order)
        order = (int)left->state - (int)right->state;
    if (!order)
        order = lp_text_compare(lp_text_span(&left->reason), lp_text_span(&right->reason));
    return order ? order : lp_text_compare(lp_text_span(&left->worker), lp_text_span(&right->worker));
}

static int read_all(struct search *search)
{
    if (list_names(search) < 0 || sort_workers(search) < 0)
        return -1;
    for (size_t i = 0; i < search->n_names; i++)
        if (is_note(search->names[i]) && read_note(search, search->names[i]) < 0)
            return -1;
    for (size_t i = 0; i < search->n_names; i++)
        if (!is_note(search->names[i]) && add_unnoted(search, search->names[i]) < 0)
            return -1;
    return 0;
}

int lp_run_backends(struct lp_run *run, int dir_fd, struct lp_run_buffer *buffer)
{
    struct search search = {.run = run, .dir_fd = dir_fd, .buffer = buffer};
    int failed = read_all(&search);
    for (size_t i = 0; i < search.n_names; i++)
        free(search.names[i]);
    free((void *)search.names);
    free(search.workers);
    if (run->n_backends)
        qsort(run->backends, run->n_backends, sizeof *run->backends, by_kind);
    return failed;
}

void lp_run_backends_release(struct lp_run *run)
{
    for (size_t i = 0; i < run->n_backends; i++)
        release(&run->backends[i]);
    free(run->backends);
}

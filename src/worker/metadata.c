/*
 * metadata.json: one line per run id (docs/format.md), added by the run's first worker, which later adds to it what the
 * run came from; any worker may note a text in it.
 *
 * Many ranks may start at once, on file systems where locks lie; what is right everywhere is that O_EXCL creates a file
 * once and that rename replaces it whole. So a lock file is the lock, a line is added to a copy, and the copy is renamed
 * over the old file. It says who holds it: the lock of a process of this machine that died is taken away at once. One of
 * another machine's, or that says nothing, is taken for a dead process's after it stood unchanged for two seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lineprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/other.h"
#include "worker/internal.h"
#include "worker/place.h"
#include "worker/publish.h"
#include "worker/run_id.h"

#define LOCK "metadata.json.lock"
#define LARGEST_METADATA (16 << 20)
#define LOCK_TRIES 100
#define LOCK_PAUSE_NS 50000000
#define STALE_TRIES 40
#define DESCRIBE_TRIES 10
#define UNSEEN_TRIES 30

#define OPENING "{\"format\":\"lineprofiler-metadata\",\"version\":1,"
#define RUNS "\"runs\":{\n"

static const char ending[] = "\n}}\n";

static void emit_line(struct lp_emit *emit, const struct lp_worker *worker)
{
    lp_emit_string(emit, worker->run_id);
    lp_emit_raw(emit, ":", 1);
    emit->comma = false;
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "run_id");
    lp_emit_string(emit, worker->run_id);
    lp_emit_stamp(emit, "started", &worker->started);
    lp_emit_key(emit, "host");
    lp_emit_string(emit, worker->identity.host);
    lp_emit_key(emit, "pid");
    lp_emit_i64(emit, worker->identity.pid);
    lp_emit_command(emit, &worker->identity);
    lp_emit_key(emit, "library");
    lp_emit_string(emit, lp_version());
    lp_emit_close(emit, '}');
}

/* The file's text; NULL with errno 0 if there is none. */
static char *read_whole(int folder, size_t *len)
{
    struct stat st;
    errno = 0;
    int fd = openat(folder, "metadata.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        errno = errno == ENOENT ? 0 : errno;
        return NULL;
    }
    char *text = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LARGEST_METADATA &&
        (text = malloc((size_t)st.st_size + 1))) {
        ssize_t n = read(fd, text, (size_t)st.st_size);
        *len = n > 0 ? (size_t)n : 0;
        text[*len] = '\0';
    }
    int why = text ? 0 : errno ? errno : EFBIG;
    close(fd);
    errno = why;
    return text;
}

/* The line of a run; NULL if there is none. */
static const char *line_of_run(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    while (found && (found == text || found[-1] != '\n' || found[strlen(key)] != ':'))
        found = strstr(found + 1, key);
    return found;
}

/* Where the first line begins; 0 if this is not a file as we write it. */
static size_t start_of_lines(const char *text)
{
    static const char id[] = "\"directory_id\":\"";
    size_t at = sizeof OPENING - 1, of_id = sizeof id - 1 + LP_DIRECTORY_ID_DIGITS + sizeof "\"," - 1;
    if (strncmp(text, OPENING, at) != 0)
        return 0;
    if (strncmp(text + at, id, sizeof id - 1) == 0 && memchr(text + at, ',', of_id) == text + at + of_id - 1)
        at += of_id;
    return strncmp(text + at, RUNS, sizeof RUNS - 1) == 0 ? at + sizeof RUNS - 1 : 0;
}

/* Where the next line goes: the end of the last one; 0 if this is not a file as we write it. */
static size_t end_of_lines(const char *text, size_t len)
{
    size_t start = start_of_lines(text), tail = sizeof ending - 1;
    if (start == 0 || len < start + tail || memcmp(text + len - tail, ending, tail) != 0)
        return 0;
    return len - tail;
}

/* The worker's eight random digits: files of that name are nobody else's. */
static const char *digits_of(const char *worker)
{
    size_t len = strlen(worker);
    return worker + (len < 8 ? 0 : len - 8);
}

static void temporary_name(char name[64], const char *worker)
{
    snprintf(name, 64, "metadata.json.%s.tmp", digits_of(worker));
}

/* Of a lock that is to replace a dead process's. */
static void next_lock_name(char name[64], const char *worker)
{
    snprintf(name, 64, LOCK ".%s", digits_of(worker));
}

/* The file is the parts, one after the other. */
struct part {
    const char *bytes;
    size_t len;
};

static int write_parts(int fd, const struct part *parts, size_t n)
{
    int failed = 0;
    for (size_t i = 0; i < n && !failed; i++)
        failed = lp_write_all(&fd, parts[i].bytes, parts[i].len);
    return failed ? failed : fsync(fd);
}

/* As renameat, of a file that is to be the first of its name: EEXIST if it is not. A name that was looked for before it was
   there may be remembered as not there, for a second on some network file systems; to replace that file would lose its runs,
   and the directory's id. Where there are no links, others may see an empty file for a moment. */
static int put_first(int from_folder, const char *temporary, int folder, const char *name)
{
    if (linkat(from_folder, temporary, folder, name, 0) == 0) {
        unlinkat(from_folder, temporary, 0);
        return 0;
    }
    int fd = errno == EEXIST ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    close(fd);
    return renameat(from_folder, temporary, folder, name);
}

/* put: what gives the whole file its name. */
static int write_whole(int folder, const char *worker, const struct part *parts, size_t n,
                       int (*put)(int, const char *, int, const char *))
{
    char temporary[64];
    temporary_name(temporary, worker);
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    int failed = write_parts(fd, parts, n);
    int why = errno;
    close(fd);
    if (!failed && put(folder, temporary, folder, "metadata.json") == 0) {
        fsync(folder);
        return 0;
    }
    why = failed ? why : errno;
    unlinkat(folder, temporary, 0);
    errno = why;
    return -1;
}

/* The run's id as it stands before its entry, to be freed; NULL if memory is short. */
static char *key_of(const char *run_id)
{
    struct lp_buffer key = {0};
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &key);
    lp_emit_string(&emit, run_id);
    if (lp_emit_end(&emit) == 0)
        return key.bytes;
    free(key.bytes);
    return NULL;
}

static uint64_t random_id(void)
{
    uint64_t id = (uint64_t)lp_random_bits() << 32 | lp_random_bits();
    return id ? id : 1;
}

/* kept: the lines so far. */
static int add_line(int folder, const struct lp_worker *worker, const struct part *kept, uint64_t id,
                    int (*put)(int, const char *, int, const char *))
{
    char opening[128];
    struct lp_buffer line = {0};
    struct lp_emit emit;
    int len = snprintf(opening, sizeof opening, OPENING "\"directory_id\":\"%0*" PRIx64 "\"," RUNS,
                       LP_DIRECTORY_ID_DIGITS, id);
    lp_emit_init(&emit, lp_buffer_put, &line);
    emit_line(&emit, worker);
    int failed = lp_emit_end(&emit);
    if (!failed)
        failed = write_whole(folder, worker->name,
                             (const struct part[]){{opening, (size_t)len},
                                                   *kept,
                                                   {",\n", kept->len ? 2 : 0},
                                                   {line.bytes, line.len},
                                                   {ending, sizeof ending - 1}},
                             5, put);
    free(line.bytes);
    return failed;
}

/* What lp_metadata_add finds, or makes. */
struct entry {
    bool found, made;
    uint64_t id; /* of the directory; 0: none. At first what it was, if it is known. */
};

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    nanosleep(&pause, NULL);
}

static int try_to_add(int folder, const struct lp_worker *worker, struct entry *entry)
{
    size_t len = 0;
    int failed = -1;
    char *key = key_of(worker->run_id), *text = key ? read_whole(folder, &len) : NULL;
    if (key && text && line_of_run(text, key)) {
        entry->id = lp_directory_id_in(text, len);
        failed = 0;
    } else if (key && (text || !errno)) {
        size_t end = text ? end_of_lines(text, len) : 0, start = end ? start_of_lines(text) : 0;
        uint64_t id = text ? lp_directory_id_in(text, len) : 0;
        entry->id = id ? id : entry->id ? entry->id : random_id();
        if (text && len > 0 && !end) /* not ours, or damaged: kept beside, never overwritten */
            renameat(folder, "metadata.json", folder, "metadata.json.damaged");
        const struct part kept = {end ? text + start : "", end - start};
        failed = add_line(folder, worker, &kept, entry->id, text ? renameat : put_first);
        entry->made = failed == 0;
    }
    int why = errno;
    free(text);
    free(key);
    errno = why;
    return failed;
}

static int add_locked(int folder, const struct lp_worker *worker, struct entry *entry)
{
    int failed = try_to_add(folder, worker, entry);
    for (int i = 0; failed && errno == EEXIST && i < UNSEEN_TRIES; i++) {
        pause_a_little();
        failed = try_to_add(folder, worker, entry);
    }
    return failed;
}

/* Where the members of the run's entry end: at the end of its line, but for a comma. NULL: not in a file as we write it. */
static const char *end_of_entry(const char *text, size_t len, const char *key)
{
    const char *line = end_of_lines(text, len) ? line_of_run(text, key) : NULL;
    if (!line)
        return NULL;
    const char *end = line + strcspn(line, "\n") - 1;
    end -= *end == ',';
    return end > line && *end == '}' ? end : NULL;
}

/* Adds ,"name":value to the run's entry, unless something of that name is there: in a text its quotes would have
   backslashes. */
static int add_member_locked(int folder, const struct lp_metadata_place *place, const struct lp_buffer *name,
                             const struct part *value)
{
    size_t len = 0;
    int failed = -1;
    char *key = key_of(place->run_id), *text = key ? read_whole(folder, &len) : NULL;
    const char *end = text ? end_of_entry(text, len, key) : NULL;
    size_t kept = end ? (size_t)(end - text) : 0, line = kept;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    if (!text)
        errno = errno ? errno : ENOENT;
    else if (!end)
        errno = EINVAL;
    else if (memmem(text + line, kept - line, name->bytes, name->len))
        failed = 0;
    else
        failed = write_whole(
            folder, place->worker,
            (const struct part[]){{text, kept}, {name->bytes, name->len}, *value, {text + kept, len - kept}}, 4,
            renameat);
    int why = errno;
    free(text);
    free(key);
    errno = why;
    return failed;
}

/* Where pids mean what they mean to us, as the first line of a lock; "" if that is not known. */
static void describe_here(char here[384])
{
    char boot_id[40], host[256] = "";
    uint64_t pid_namespace = lp_pid_namespace();
    here[0] = '\0';
    lp_boot_id_read(boot_id, sizeof boot_id);
    if (boot_id[0] && pid_namespace && gethostname(host, sizeof host - 1) == 0)
        snprintf(here, 384, "%s %llu %s\n", boot_id, (unsigned long long)pid_namespace, host);
}

/* Without it the lock is held all the same. */
static void write_holder(int fd)
{
    char here[384], text[448];
    uint64_t parent, start_ticks, pid = (uint64_t)getpid();
    describe_here(here);
    if (!here[0] || !lp_process_parent(pid, &parent, &start_ticks))
        return;
    snprintf(text, sizeof text, "%s%llu %llu\n", here, (unsigned long long)pid, (unsigned long long)start_ticks);
    lp_write_all(&fd, text, strlen(text));
}

/* Whether the text names a process of this machine, and that one is gone. */
static bool holder_is_gone(const char *text)
{
    char here[384], *end;
    describe_here(here);
    if (!here[0] || strncmp(text, here, strlen(here)) != 0)
        return false;
    struct lp_process_ref holder = {.pid_namespace = lp_pid_namespace()};
    holder.pid = strtoull(text + strlen(here), &end, 10);
    holder.start_ticks = *end == ' ' ? strtoull(end, &end, 10) : 0;
    return strcmp(end, "\n") == 0 && lp_process_lives(&holder) == LP_PROCESS_GONE; /* else it is still being written */
}

/* Creates a file that is not there; its identity, or false. */
static bool create(int folder, const char *name, struct stat *st)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    bool created = fstat(fd, st) == 0;
    if (created)
        write_holder(fd);
    close(fd);
    return created;
}

static bool is_lock(int folder, const struct stat *st)
{
    struct stat now;
    return fstatat(folder, LOCK, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st->st_ino &&
           now.st_dev == st->st_dev;
}

/* Not the lock of somebody who took us for dead. */
static void release_lock(int folder, const struct stat *st)
{
    int why = errno;
    if (is_lock(folder, st))
        unlinkat(folder, LOCK, 0);
    errno = why;
}

/* Removes the lock of a process that is gone; whether it did. Several may find it so, and all are of this machine: the one
   who locks that very file removes it, while it still bears the name, so nobody removes what another made since. */
static bool remove_lock_of_gone(int folder)
{
    char text[512];
    struct stat st;
    bool removed = false;
    int fd = openat(folder, LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = flock(fd, LOCK_EX | LOCK_NB) == 0 ? read(fd, text, sizeof text - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    if (holder_is_gone(text) && fstat(fd, &st) == 0 && is_lock(folder, &st))
        removed = unlinkat(folder, LOCK, 0) == 0;
    close(fd);
    return removed;
}

/* Puts a lock of our own in the place of a dead process's, and waits whether it stays: several may try at once, and the
   last one has it. */
static bool take_over(int folder, const char *worker, struct stat *st)
{
    char name[64];
    next_lock_name(name, worker);
    if (!create(folder, name, st))
        return false;
    if (renameat(folder, name, folder, LOCK) != 0) {
        unlinkat(folder, name, 0);
        return false;
    }
    pause_a_little();
    return is_lock(folder, st);
}

/* Without the lock: the run is there already for all workers but the first. */
static void look_up(int folder, const char *run_id, struct entry *entry)
{
    size_t len = 0;
    char *key = key_of(run_id), *text = key ? read_whole(folder, &len) : NULL;
    entry->found = text && line_of_run(text, key);
    if (entry->found)
        entry->id = lp_directory_id_in(text, len);
    free(text);
    free(key);
}

/* Takes the lock file, *lock being its identity; or finds, where entry is given, that another worker of the run has made
   it meanwhile. A lock that does not change for two seconds belongs to the dead, where it cannot be told at once. */
static int take_lock(int folder, const struct lp_metadata_place *place, struct stat *lock, int tries,
                     struct entry *entry)
{
    struct stat before = {0}, now;
    int unchanged = 0;
    for (int i = 0; i < tries; i++) {
        if (create(folder, LOCK, lock))
            return 0;
        if (errno != EEXIST)
            return -1;
        if (remove_lock_of_gone(folder))
            continue;
        if (fstatat(folder, LOCK, &now, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISDIR(now.st_mode)) {
                errno = EISDIR; /* nobody's lock: it would be waited for in vain */
                return -1;
            }
            bool same = now.st_ino == before.st_ino && now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
                        now.st_ctim.tv_nsec == before.st_ctim.tv_nsec;
            unchanged = same ? unchanged + 1 : 0;
            before = now;
            if (unchanged >= STALE_TRIES && take_over(folder, place->worker, lock))
                return 0;
        }
        pause_a_little();
        if (entry)
            look_up(folder, place->run_id, entry);
        if (entry && entry->found)
            return 0;
    }
    errno = EBUSY;
    return -1;
}

static void note_id(struct lp_worker *worker, uint64_t id)
{
    worker->run_dir_id = id;
    atomic_store(&lp_image_header(&worker->recorder.image)->run_dir_id, id);
}

int lp_metadata_add(struct lp_worker *worker)
{
    struct stat lock, run_dir;
    struct entry entry = {0};
    worker->listed = false;
    int folder = open(worker->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &run_dir) == 0) {
        if (run_dir.st_dev == worker->run_dir_device && run_dir.st_ino == worker->run_dir_inode)
            entry.id = worker->run_dir_id; /* somebody has removed metadata.json */
        lp_worker_note_run_dir(worker, &run_dir);
    }
    int failed = 0;
    const struct lp_metadata_place place = {worker->run_dir, worker->run_id, worker->name};
    look_up(folder, worker->run_id, &entry);
    if (!entry.found)
        failed = take_lock(folder, &place, &lock, LOCK_TRIES, &entry);
    if (!entry.found && !failed) {
        failed = add_locked(folder, worker, &entry);
        release_lock(folder, &lock);
    }
    int why = errno;
    if (entry.made)
        lp_describe_want(worker);
    if (!failed)
        note_id(worker, entry.id);
    close(folder);
    worker->listed = !failed || why == EBUSY; /* who waited for the lock in vain does not wait at each write */
    errno = why;
    return failed;
}

static int emit_name(struct lp_buffer *name, const char *text)
{
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, name);
    lp_emit_raw(&emit, ",", 1);
    lp_emit_string(&emit, text);
    lp_emit_raw(&emit, ":", 1);
    return lp_emit_end(&emit);
}

static int add_member(const struct lp_metadata_place *place, const char *name, const struct part *value, int tries)
{
    struct stat lock;
    struct lp_buffer emitted = {0};
    int failed = -1;
    int folder = open(place->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && emit_name(&emitted, name) == 0 && take_lock(folder, place, &lock, tries, NULL) == 0) {
        failed = add_member_locked(folder, place, &emitted, value);
        release_lock(folder, &lock);
    }
    int why = errno;
    free(emitted.bytes);
    if (folder >= 0)
        close(folder);
    errno = why;
    return failed;
}

int lp_metadata_describe(const struct lp_metadata_place *place, const char *provenance, size_t len)
{
    return add_member(place, "provenance", &(struct part){provenance, len}, DESCRIBE_TRIES);
}

int lp_metadata_note(struct lp_worker *worker, const char *key, const char *note)
{
    const struct lp_metadata_place place = {worker->run_dir, worker->run_id, worker->name};
    struct lp_buffer value = {0};
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &value);
    lp_emit_string(&emit, note);
    int failed = lp_emit_end(&emit);
    if (!failed)
        failed = add_member(&place, key, &(struct part){value.bytes, value.len}, LOCK_TRIES);
    int why = errno;
    free(value.bytes);
    errno = why;
    return failed;
}

void lp_metadata_clean(const char *run_dir, const char *worker)
{
    char name[64];
    int folder = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    temporary_name(name, worker);
    unlinkat(folder, name, 0);
    next_lock_name(name, worker);
    unlinkat(folder, name, 0);
    remove_lock_of_gone(folder); /* where all runs are listed, nobody may come to need it */
    close(folder);
}

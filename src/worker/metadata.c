/*
 * metadata.json: one line per run id (docs/format.md), added by the run's first worker; others may note a text in it.
 *
 * Many ranks may start at once, on file systems where locks lie; what is right everywhere is that O_EXCL creates a file
 * once and that rename replaces it whole. So a lock file is the lock, a line is added to a copy, and the copy is renamed
 * over the old file. The lock of a process that died is taken away after it stood unchanged for two seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <lineprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker/internal.h"
#include "worker/publish.h"

#define LOCK "metadata.json.lock"
#define LARGEST_METADATA (16 << 20)
#define LOCK_TRIES 100
#define LOCK_PAUSE_NS 50000000
#define STALE_TRIES 40

static const char opening[] = "{\"format\":\"lineprofiler-metadata\",\"version\":1,\"runs\":{\n";
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

static bool has_run(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    while (found && (found == text || found[-1] != '\n' || found[strlen(key)] != ':'))
        found = strstr(found + 1, key);
    return found != NULL;
}

/* Where the next line goes: the end of the last one; 0 if this is not a file as we write it. */
static size_t end_of_lines(const char *text, size_t len)
{
    size_t tail = sizeof ending - 1;
    if (len < sizeof opening - 1 + tail || memcmp(text, opening, sizeof opening - 1) != 0 ||
        memcmp(text + len - tail, ending, tail) != 0)
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

struct piece {
    const char *bytes; /* Borrowed. */
    size_t len;
};

static int write_pieces(int fd, const struct piece *pieces, size_t n)
{
    int failed = 0;
    for (size_t i = 0; i < n && !failed; i++)
        failed = lp_write_all(&fd, pieces[i].bytes, pieces[i].len);
    return failed;
}

static int write_whole(int folder, const struct lp_worker *worker, const struct piece *pieces, size_t n)
{
    char temporary[64];
    temporary_name(temporary, worker->name);
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    int failed = write_pieces(fd, pieces, n) || fsync(fd);
    int why = errno;
    close(fd);
    if (!failed && renameat(folder, temporary, folder, "metadata.json") == 0) {
        fsync(folder);
        return 0;
    }
    why = failed ? why : errno;
    unlinkat(folder, temporary, 0);
    errno = why;
    return -1;
}

static int add_locked(int folder, const struct lp_worker *worker)
{
    struct lp_buffer key = {0}, line = {0};
    struct lp_emit emit;
    size_t len = 0;
    int failed = -1;
    char *text = read_whole(folder, &len);
    if (!text && errno)
        return -1;
    lp_emit_init(&emit, lp_buffer_put, &key);
    lp_emit_string(&emit, worker->run_id);
    if (lp_emit_end(&emit) != 0)
        goto done;
    if (text && has_run(text, key.bytes)) {
        failed = 0;
        goto done;
    }
    lp_emit_init(&emit, lp_buffer_put, &line);
    emit_line(&emit, worker);
    if (lp_emit_end(&emit) != 0)
        goto done;
    size_t kept = text ? end_of_lines(text, len) : 0;
    if (text && !kept) /* not ours, or damaged: kept beside, never overwritten */
        renameat(folder, "metadata.json", folder, "metadata.json.damaged");
    const struct piece pieces[] = {{kept ? text : opening, kept ? kept : sizeof opening - 1},
                                   {",\n", kept ? 2 : 0},
                                   {line.bytes, line.len},
                                   {ending, sizeof ending - 1}};
    failed = write_whole(folder, worker, pieces, sizeof pieces / sizeof *pieces);
done:
    free(text);
    free(key.bytes);
    free(line.bytes);
    return failed;
}

/* Creates a file that is not there; its identity, or false. */
static bool create(int folder, const char *name, struct stat *st)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    bool created = fstat(fd, st) == 0;
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

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    nanosleep(&pause, NULL);
}

/* Puts a lock of our own in the place of a dead process's, and waits whether it stays: several may try at once, and the
   last one has it. */
static bool take_over(int folder, const struct lp_worker *worker, struct stat *st)
{
    char name[64];
    next_lock_name(name, worker->name);
    if (!create(folder, name, st))
        return false;
    if (renameat(folder, name, folder, LOCK) != 0) {
        unlinkat(folder, name, 0);
        return false;
    }
    pause_a_little();
    return is_lock(folder, st);
}

/* True without taking the lock if the run is there already, as it is for all workers but the first. */
static bool known(int folder, const struct lp_worker *worker)
{
    struct lp_buffer key = {0};
    struct lp_emit emit;
    size_t len = 0;
    lp_emit_init(&emit, lp_buffer_put, &key);
    lp_emit_string(&emit, worker->run_id);
    char *text = lp_emit_end(&emit) == 0 ? read_whole(folder, &len) : NULL;
    bool found = text && has_run(text, key.bytes);
    free(text);
    free(key.bytes);
    return found;
}

/* Takes the lock file, *lock being its identity, or finds that another worker of the run has added it meanwhile (added
   NULL: does not look). A lock that does not change for two seconds belongs to the dead. */
static int take_lock(int folder, const struct lp_worker *worker, struct stat *lock, bool *added)
{
    struct stat before = {0}, now;
    int unchanged = 0;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (create(folder, LOCK, lock))
            return 0;
        if (errno != EEXIST)
            return -1;
        if (fstatat(folder, LOCK, &now, AT_SYMLINK_NOFOLLOW) == 0) {
            bool same = now.st_ino == before.st_ino && now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
                        now.st_ctim.tv_nsec == before.st_ctim.tv_nsec;
            unchanged = same ? unchanged + 1 : 0;
            before = now;
            if (unchanged >= STALE_TRIES && take_over(folder, worker, lock))
                return 0;
        }
        pause_a_little();
        if (added && (*added = known(folder, worker)))
            return 0;
    }
    errno = EBUSY;
    return -1;
}

int lp_metadata_add(struct lp_worker *worker)
{
    struct stat lock;
    bool added;
    worker->listed = false;
    int folder = open(worker->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    int failed = 0;
    added = known(folder, worker);
    if (!added)
        failed = take_lock(folder, worker, &lock, &added);
    if (!added && !failed) {
        failed = add_locked(folder, worker);
        release_lock(folder, &lock);
    }
    int why = errno;
    close(folder);
    worker->listed = !failed || why == EBUSY; /* who waited for the lock in vain does not wait at each write */
    errno = why;
    return failed;
}

/* The end of the run's line, its last brace, in a file as we write it; NULL if it is not there. */
static const char *end_of_line(const char *text, size_t len, const char *key)
{
    size_t end = end_of_lines(text, len);
    if (!end || !has_run(text, key))
        return NULL;
    const char *line = strstr(text, key);
    while (line[-1] != '\n' || line[strlen(key)] != ':')
        line = strstr(line + 1, key);
    const char *last = memchr(line, '\n', len - (size_t)(line - text));
    last -= last[-1] == ',' ? 2 : 1;
    return *last == '}' ? last : NULL;
}

/* Adds the member to the run's line, unless a line of such a member is there. The quotes of a key stand in no text. */
static int note_locked(int folder, const struct lp_worker *worker, const struct lp_buffer *run,
                       const struct lp_buffer *key, const struct lp_buffer *member)
{
    size_t len = 0;
    char *text = read_whole(folder, &len);
    if (!text)
        return -1;
    int failed = 0;
    const char *last = end_of_line(text, len, run->bytes);
    if (!last) {
        failed = -1;
        errno = EINVAL;
    } else {
        const char *line = last;
        while (line[-1] != '\n')
            line--;
        if (!memmem(line, (size_t)(last - line), key->bytes, key->len)) {
            const struct piece pieces[] = {
                {text, (size_t)(last - text)}, {member->bytes, member->len}, {last, len - (size_t)(last - text)}};
            failed = write_whole(folder, worker, pieces, sizeof pieces / sizeof *pieces);
        }
    }
    int why = errno;
    free(text);
    errno = why;
    return failed;
}

/* The run's key, `,"key":`, and that with its text. */
static int emit_member(const struct lp_worker *worker, const char *key, const char *note, struct lp_buffer buffers[3])
{
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &buffers[0]);
    lp_emit_string(&emit, worker->run_id);
    int failed = lp_emit_end(&emit);
    for (int i = 1; i <= 2; i++) {
        lp_emit_init(&emit, lp_buffer_put, &buffers[i]);
        lp_emit_raw(&emit, ",", 1);
        lp_emit_string(&emit, key);
        lp_emit_raw(&emit, ":", 1);
        emit.comma = false;
        if (i == 2)
            lp_emit_string(&emit, note);
        failed = lp_emit_end(&emit) || failed;
    }
    return failed ? -1 : 0;
}

int lp_metadata_note(struct lp_worker *worker, const char *key, const char *note)
{
    struct lp_buffer buffers[3] = {0};
    struct stat lock;
    int failed = -1;
    int folder = open(worker->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && emit_member(worker, key, note, buffers) == 0 && take_lock(folder, worker, &lock, NULL) == 0) {
        failed = note_locked(folder, worker, &buffers[0], &buffers[1], &buffers[2]);
        release_lock(folder, &lock);
    }
    int why = errno;
    for (int i = 0; i < 3; i++)
        free(buffers[i].bytes);
    if (folder >= 0)
        close(folder);
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
    close(folder);
}

/*
 * What the C tests share: folders of their own, children whose checks count, files and JSON, random numbers.
 *
 * Children: cmocka's assertions jump back into the runner, which in a forked child would go on with the parent's tests.
 * So a child uses CHECK, which ends it, and the parent asserts how it ended.
 */
#ifndef LP_TESTS_SUPPORT_H
#define LP_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#if defined(__SANITIZE_ADDRESS__)
#define LP_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LP_TEST_ASAN 1
#endif
#endif
#ifndef LP_TEST_ASAN
#define LP_TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define LP_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LP_TEST_TSAN 1
#endif
#endif
#ifndef LP_TEST_TSAN
#define LP_TEST_TSAN 0
#endif

/* In a child: ends it with status 1 and says where. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(2, "%s:%d: child: %s\n", __FILE__, __LINE__, #condition);                                          \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define CHECK_U64(left, right)                                                                                         \
    do {                                                                                                               \
        unsigned long long l_ = (left), r_ = (right);                                                                  \
        if (l_ != r_) {                                                                                                \
            dprintf(2, "%s:%d: child: %s is %llu, not %llu\n", __FILE__, __LINE__, #left, l_, r_);                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* A child ends with this to say that the machine does not allow what the test needs. */
#define CANNOT 77
#define CANNOT_IF(condition)                                                                                           \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            dprintf(2, "%s:%d: not possible here: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno));        \
            _exit(CANNOT);                                                                                             \
        }                                                                                                              \
    } while (0)

/* Runs body in a forked child; its wait status. */
static inline int run_child(void (*body)(void *), void *context)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(context);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

/* The same, and it must end with 0; the test is skipped if the child could not do it here. */
static inline void in_child(void (*body)(void *), void *context)
{
    int status = run_child(body, context);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        skip();
    assert_int_equal(status, 0);
}

/* ---- mounts of one's own ---------------------------------------------------- */

static inline void write_proc_(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CANNOT_IF(fd < 0 || write(fd, text, strlen(text)) < 0);
    close(fd);
}

/* In a child: gives it mounts of its own, so that what it mounts is seen by nobody else and goes when it ends. */
static inline void mounts_enter(void)
{
    char map[64];
    uid_t uid = geteuid();
    if (unshare(CLONE_NEWNS) != 0) {
        CANNOT_IF(unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0);
        snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
        write_proc_("/proc/self/uid_map", map);
    }
    CANNOT_IF(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0);
}

static inline void mounts_tmpfs(const char *path, const char *options)
{
    CANNOT_IF(mount("lp-test", path, "tmpfs", 0, options) != 0);
}

/* ---- time ------------------------------------------------------------------ */

static inline uint64_t clock_now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A pause inside a loop that waits for something: how long it takes is nobody's business. */
static inline void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Waits until condition holds; fails after two minutes, which is about liveness alone. */
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        int tries_ = 0;                                                                                                \
        while (!(condition) && ++tries_ < 24000)                                                                       \
            pause_ms(5);                                                                                               \
        assert_true(tries_ < 24000);                                                                                   \
    } while (0)

/* ---- random ---------------------------------------------------------------- */

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- work ------------------------------------------------------------------ */

static inline void burn_turns(uint64_t turns)
{
    volatile uint64_t sink = 0;
    for (uint64_t i = 0; i < turns; i++)
        sink += i;
    (void)sink;
}

static inline void burn_some(uint64_t *seed)
{
    volatile uint64_t sink = 0;
    for (uint64_t i = random_next(seed) % 300; i > 0; i--)
        sink += i;
    (void)sink;
}

/* ---- folders and files ----------------------------------------------------- */

/* A new empty folder, to be given back with folder_remove. */
static inline char *folder_make(void)
{
    const char *where = getenv("TMPDIR");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/lp-test-XXXXXX", where && *where ? where : "/tmp") > 0);
    assert_non_null(mkdtemp(path));
    return path;
}

static inline int remove_one_(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline void folder_empty(const char *path)
{
    nftw(path, remove_one_, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void folder_remove(char *path)
{
    folder_empty(path);
    free(path);
}

/* The whole file, NUL-terminated, to be freed; NULL with errno set. */
static inline char *file_read(const char *path, size_t *len)
{
    size_t n = 0, room = 65536;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (len)
        *len = 0;
    if (fd < 0)
        return NULL;
    char *text = malloc(room + 1);
    for (ssize_t got; text && (got = read(fd, text + n, room - n)) > 0;) {
        n += (size_t)got;
        if (n == room) {
            char *wider = realloc(text, (room *= 2) + 1);
            if (!wider)
                free(text);
            text = wider;
        }
    }
    close(fd);
    if (text)
        text[n] = '\0';
    if (len)
        *len = n;
    return text;
}

static inline void file_write(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

/* Calls take for each entry of a folder but . and .., in any order; how many there were. */
static inline int folder_each(const char *path, void (*take)(void *context, const char *name), void *context)
{
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (take)
            take(context, entry->d_name);
    }
    closedir(folder);
    return count;
}

/* ---- JSON and the text rule of docs/format.md ------------------------------- */

static inline json_t *json_of(const char *text, size_t len)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root)
        print_error("not JSON: %s at line %d, column %d\n", error.text, error.line, error.column);
    assert_non_null(root);
    return root;
}

/* Undoes the escapes of "Text" in a string that a JSON reader gave; the result is WTF-8, to be freed. */
static inline char *text_decode(const char *text, size_t len, size_t *out_len)
{
    char *out = malloc(len + 1);
    size_t n = 0;
    assert_non_null(out);
    for (size_t i = 0; i < len;) {
        if (text[i] != '\\') {
            out[n++] = text[i++];
        } else if (i + 1 < len && text[i + 1] == '\\') {
            out[n++] = '\\';
            i += 2;
        } else if (i + 4 <= len && memcmp(text + i, "\\x00", 4) == 0) {
            out[n++] = '\0';
            i += 4;
        } else {
            char digits[5] = {0}, *end;
            assert_true(i + 6 <= len && text[i + 1] == 'u');
            memcpy(digits, text + i + 2, 4);
            unsigned long code = strtoul(digits, &end, 16);
            assert_true(*end == '\0' && code >= 0xd800 && code <= 0xdfff);
            out[n++] = (char)(0xe0 | code >> 12);
            out[n++] = (char)(0x80 | (code >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (code & 0x3f));
            i += 6;
        }
    }
    out[n] = '\0';
    *out_len = n;
    return out;
}

/* An integer of a JSON object, or its default. */
static inline uint64_t json_u64(const json_t *object, const char *key, uint64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return otherwise;
    assert_true(json_is_integer(value) && json_integer_value(value) >= 0);
    return (uint64_t)json_integer_value(value);
}

#endif

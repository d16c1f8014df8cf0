/*
 * Samples files: as documented, rows in their order and each once, whatever happens to the file and to who writes it.
 */
#include "support/samples.h"
#include "support/worker.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "worker/adopt.h"
#include "worker/samples.h"

#define CAPACITY 64u
#define WORKER "w_samples"

static char *folder, *path;
static int folder_fd;
static struct lp_image image;

/* Rows that tell their number in several fields. */
static uint32_t next_row;

static int make_image(void **state)
{
    (void)state;
    next_row = 0;
    folder = folder_make();
    assert_true(asprintf(&path, "%s/" WORKER ".samples", folder) > 0);
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return lp_image_create(&image, WORKER);
}

static int destroy_image(void **state)
{
    (void)state;
    lp_image_destroy(&image);
    close(folder_fd);
    free(path);
    folder_remove(folder);
    return 0;
}

#define in_image(test) cmocka_unit_test_setup_teardown(test, make_image, destroy_image)

static void put(uint32_t n)
{
    for (; n > 0; n--, next_row++) {
        const struct lp_process_row row = {
            .monotonic_ns = 1000 + next_row,
            .cpu_ns = 3 * (uint64_t)next_row,
            .rss_bytes = LP_NOT_MEASURED,
            .open_files = LP_NOT_MEASURED_U32,
            .threads = LP_NOT_MEASURED_U16,
            .phase = 7,
            .sequence = next_row,
            .gaps = LP_GAP_BYTES,
        };
        CHECK(lp_ring_put(&image, LP_RING_PROCESS, CAPACITY, sizeof row, &row));
    }
}

static int append_as(const char *worker, struct lp_image *noted_in)
{
    struct lp_view view;
    lp_view_own(&view, &image);
    return lp_samples_append(folder_fd, worker, &view, noted_in);
}

static int append(void)
{
    return append_as(WORKER, &image);
}

/* Whoever dies before the place is noted, or adopts a dead worker's image. */
static int append_and_die(void)
{
    return append_as(WORKER, NULL);
}

static struct lp_samples_told told(void)
{
    struct lp_view view;
    lp_view_own(&view, &image);
    return lp_samples_told(&view, LP_RING_PROCESS);
}

/* The file has rows from..to-1 and nothing else. */
static void check_rows(const char *file_path, uint64_t from, uint64_t to)
{
    struct samples_file file;
    CHECK(samples_read(&file, file_path));
    CHECK_U64(file.header_bytes, LP_SAMPLES_HEADER_BYTES);
    CHECK_U64(file.rest, 0);
    CHECK_U64(file.n, to - from);
    for (uint64_t i = 0; i < file.n; i++) {
        CHECK_U64(samples_at(&file, i, "sequence"), from + i);
        CHECK_U64(samples_at(&file, i, "monotonic_ns"), 1000 + from + i);
        CHECK_U64(samples_at(&file, i, "cpu_ns"), 3 * (from + i));
    }
    samples_free(&file);
}

/* ---- the format ---------------------------------------------------------------------- */

static void check_header(const char *file_path, const char *kind, size_t record_bytes, const char *const fields[])
{
    struct samples_file file;
    size_t i, bytes = 0;
    const char *key;
    const json_t *value, *field;
    static const char *const keys[] = {"format",     "version",      "kind",         "worker",
                                       "byte_order", "header_bytes", "record_bytes", "fields"};
    assert_true(samples_read(&file, file_path));
    i = 0;
    json_object_foreach(file.header, key, value) assert_string_equal(key, keys[i++]);
    assert_int_equal(i, sizeof keys / sizeof *keys);
    assert_string_equal(text_at(file.header, "kind"), kind);
    assert_string_equal(text_at(file.header, "worker"), WORKER);
    assert_int_equal(file.record_bytes, record_bytes);
    json_array_foreach(json_object_get(file.header, "fields"), i, field)
    {
        char named[64];
        snprintf(named, sizeof named, "%s %s", json_string_value(json_array_get(field, 0)),
                 json_string_value(json_array_get(field, 1)));
        assert_non_null(fields[i]);
        assert_string_equal(named, fields[i]);
        bytes += (size_t)(named[strlen(named) - 1] - '0');
    }
    assert_null(fields[i]);
    assert_int_equal(bytes, record_bytes); /* without gaps */
    samples_free(&file);
}

static void test_a_header_as_documented_F1(void **state)
{
    static const char *const fields[] = {"monotonic_ns u8",
                                         "cpu_ns u8",
                                         "rss_bytes u8",
                                         "read_chars u8",
                                         "write_chars u8",
                                         "read_bytes u8",
                                         "write_bytes u8",
                                         "minor_faults u8",
                                         "major_faults u8",
                                         "voluntary_switches u8",
                                         "involuntary_switches u8",
                                         "run_delay_ns u8",
                                         "cuda_allocated_bytes u8",
                                         "cuda_reserved_bytes u8",
                                         "open_files u4",
                                         "phase u4",
                                         "sequence u4",
                                         "threads u2",
                                         "gaps u2",
                                         NULL};
    static const char *const gpu_fields[] = {
        "monotonic_ns u8",  "device_used_bytes u8", "own_used_bytes u8", "device u4",   "sequence u4",  "phase u4",
        "busy_permille u4", "own_busy_permille u4", "flags u4",          "reserved u8", "reserved2 u8", NULL};
    const struct lp_gpu_row gpu_row = {.device = 3};
    char gpu_path[512];
    (void)state;
    put(1);
    assert_true(lp_ring_put(&image, LP_RING_GPU, 8, sizeof gpu_row, &gpu_row));
    assert_int_equal(append(), 0);
    check_header(path, "process", 128, fields);
    snprintf(gpu_path, sizeof gpu_path, "%s/" WORKER ".gpu_samples", folder);
    check_header(gpu_path, "gpu", 64, gpu_fields);
}

static void test_what_stands_in_a_row(void **state)
{
    struct samples_file file;
    (void)state;
    put(3);
    assert_int_equal(append(), 0);
    assert_true(samples_read(&file, path));
    assert_int_equal(samples_at(&file, 2, "cpu_ns"), 6);
    assert_int_equal(samples_at(&file, 2, "phase"), 7);
    assert_int_equal(samples_at(&file, 2, "gaps"), 2);
    assert_int_equal(samples_at(&file, 2, "read_chars"), 0); /* measured, and nothing */
    assert_true(samples_at(&file, 2, "rss_bytes") == UINT64_MAX);
    assert_true(samples_at(&file, 2, "open_files") == UINT64_MAX);
    assert_true(samples_at(&file, 2, "threads") == UINT64_MAX);
    samples_free(&file);
}

static void test_a_worker_with_a_name_of_any_length(void **state)
{
    char name[256], its_path[600];
    struct samples_file file;
    (void)state;
    memset(name, '\\', sizeof name); /* each is two in JSON */
    name[240] = '\0';
    put(1);
    assert_int_equal(append_as(name, NULL), 0);
    snprintf(its_path, sizeof its_path, "%s/%s.samples", folder, name);
    assert_true(samples_read(&file, its_path));
    assert_int_equal(file.n, 1);
    samples_free(&file);
}

/* ---- rows ------------------------------------------------------------------------------ */

static void test_rows_in_their_order_each_once(void **state)
{
    uint64_t seed = 3;
    (void)state;
    assert_int_equal(append(), 0);
    assert_int_equal(access(path, F_OK), -1); /* no row, no file */
    for (int i = 0; i < 60; i++) {
        put((uint32_t)(random_next(&seed) % (CAPACITY - 1)));
        assert_int_equal(append(), 0);
        assert_int_equal(append(), 0); /* nothing waits */
        if (next_row)
            check_rows(path, 0, next_row);
    }
    assert_int_equal(told().taken, next_row);
    assert_int_equal(told().lost, 0);
}

static void test_killed_between_the_rows_and_the_note(void **state)
{
    (void)state;
    put(5);
    assert_int_equal(append(), 0);
    put(9);
    assert_int_equal(append_and_die(), 0);
    check_rows(path, 0, 14);
    put(3); /* had it lived on, or its image been adopted: the same rows at the same place */
    assert_int_equal(append_and_die(), 0);
    assert_int_equal(append_and_die(), 0);
    check_rows(path, 0, 17);
    put(1);
    assert_int_equal(append(), 0);
    check_rows(path, 0, 18);
}

static void test_killed_in_the_middle_of_a_row(void **state)
{
    (void)state;
    put(5);
    assert_int_equal(append(), 0);
    put(5);
    assert_int_equal(append_and_die(), 0);
    assert_int_equal(truncate(path, LP_SAMPLES_HEADER_BYTES + 7 * 128 + 50), 0);
    assert_int_equal(append(), 0);
    check_rows(path, 0, 10);
}

static void test_killed_in_the_middle_of_the_header(void **state)
{
    (void)state;
    put(5);
    assert_int_equal(append_and_die(), 0);
    assert_int_equal(truncate(path, 700), 0);
    put(1);
    assert_int_equal(append(), 0);
    check_rows(path, 0, 6);
}

static void test_rows_that_were_put_over_are_lost_and_told(void **state)
{
    (void)state;
    put(10);
    assert_int_equal(append(), 0);
    put(500);
    assert_int_equal(told().lost, 500 - (CAPACITY - 1)); /* also before anybody writes */
    assert_int_equal(append(), 0);
    struct samples_file file;
    assert_true(samples_read(&file, path));
    assert_int_equal(file.n, 10 + CAPACITY - 1);
    assert_int_equal(samples_at(&file, 9, "sequence"), 9);
    assert_int_equal(samples_at(&file, 10, "sequence"), 510 - (CAPACITY - 1)); /* the numbers show the hole */
    assert_int_equal(samples_at(&file, file.n - 1, "sequence"), 509);
    samples_free(&file);
    assert_int_equal(told().lost, 500 - (CAPACITY - 1));
    put(1);
    assert_int_equal(append(), 0);
    assert_int_equal(told().lost, 500 - (CAPACITY - 1));
    assert_int_equal(told().taken, 511);
}

static void test_when_rows_are_pressing(void **state)
{
    (void)state;
    assert_false(lp_samples_are_pressing(&image));
    put(CAPACITY / 2);
    assert_false(lp_samples_are_pressing(&image));
    put(CAPACITY / 4);
    assert_true(lp_samples_are_pressing(&image));
    assert_int_equal(append(), 0);
    assert_false(lp_samples_are_pressing(&image));
}

/* ---- what others do to the file ------------------------------------------------------------ */

static void test_a_file_that_is_removed_begins_anew(void **state)
{
    (void)state;
    put(5);
    assert_int_equal(append(), 0);
    assert_int_equal(unlink(path), 0);
    put(4);
    assert_int_equal(append(), 0);
    check_rows(path, 5, 9);
    assert_int_equal(told().lost, 5);
    put(2);
    assert_int_equal(append(), 0);
    check_rows(path, 5, 11);
}

static void test_a_file_that_is_cut_goes_on_where_it_ends(void **state)
{
    (void)state;
    put(8);
    assert_int_equal(append(), 0);
    assert_int_equal(truncate(path, LP_SAMPLES_HEADER_BYTES + 3 * 128 + 1), 0);
    put(2);
    assert_int_equal(append(), 0);
    struct samples_file file;
    assert_true(samples_read(&file, path));
    assert_int_equal(file.n, 5);
    assert_int_equal(file.rest, 0);
    assert_int_equal(samples_at(&file, 2, "sequence"), 2);
    assert_int_equal(samples_at(&file, 3, "sequence"), 8);
    samples_free(&file);
    assert_int_equal(told().lost, 5);
    assert_int_equal(truncate(path, 0), 0);
    put(1);
    assert_int_equal(append(), 0);
    check_rows(path, 10, 11);
}

/* Each is refused, touched by nobody, and costs no row once it is gone. */
static void refuse(int why)
{
    put(3);
    errno = 0;
    assert_int_equal(append(), -1);
    assert_int_equal(errno, why);
    assert_int_equal(told().lost, 0);
}

static void test_what_is_no_plain_file_is_left_alone(void **state)
{
    char victim[512];
    (void)state;
    snprintf(victim, sizeof victim, "%s/victim", folder);
    file_write(victim, "mine", 4);
    assert_int_equal(symlink(victim, path), 0);
    refuse(ELOOP);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(mkfifo(path, 0600), 0);
    refuse(ENXIO);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    refuse(EINVAL);
    char byte;
    assert_int_equal(read(reader, &byte, 1), 0); /* nothing was written to it */
    close(reader);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(mkdir(path, 0700), 0);
    refuse(EISDIR);
    assert_int_equal(rmdir(path), 0);

    assert_int_equal(symlink("/no/such/place", path), 0);
    refuse(ELOOP);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(append(), 0);
    check_rows(path, 0, next_row);
    char *text = file_read(victim, NULL);
    assert_string_equal(text, "mine");
    free(text);
}

static void be_denied(void *context)
{
    (void)context;
    CHECK(chmod(folder, 0777) == 0);
    CANNOT_IF(setgid(65534) != 0 || setuid(65534) != 0);
    put(5);
    CHECK(append() == 0);
    put(5);
    CHECK(chmod(path, 0400) == 0);
    CHECK(append() == -1 && errno == EACCES);
    CHECK(chmod(path, 0600) == 0);
    CHECK(append() == 0);
    check_rows(path, 0, 10);
}

static void test_a_file_that_may_not_be_written(void **state)
{
    (void)state;
    in_child(be_denied, NULL);
}

static void fill_the_disk(void *context)
{
    char filler[512];
    static char bytes[4096];
    (void)context;
    mounts_enter();
    mounts_tmpfs(folder, "size=64k");
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(3);
    CHECK(append() == 0);
    snprintf(filler, sizeof filler, "%s/filler", folder);
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, bytes, sizeof bytes) > 0)
        continue;
    for (int i = 0; i < 3; i++) { /* what fits into the file's last page is written, and written again */
        put(15);
        if (append() != 0)
            CHECK(errno == ENOSPC);
    }
    CHECK_U64(told().lost, 0);
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(append() == 0);
    check_rows(path, 0, 48);
    CHECK_U64(told().lost, 0);
    close(fd);
}

static void test_a_full_disk_EX07(void **state)
{
    (void)state;
    in_child(fill_the_disk, NULL);
}

static void limit_files(void *context)
{
    (void)context;
    signal(SIGXFSZ, SIG_DFL);
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2100, RLIM_INFINITY}) == 0);
    put(5);
    CHECK(append() == -1 && errno == EFBIG); /* and no signal */
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    CHECK(append() == 0);
    check_rows(path, 0, 5);
}

static void test_small_files_only_EX07(void **state)
{
    (void)state;
    in_child(limit_files, NULL);
}

/* ---- damaged images ------------------------------------------------------------------------- */

/* Whatever stands in the ring of an image that is adopted: a file of bounded size. */
static void test_any_numbers_in_a_dead_workers_ring(void **state)
{
    uint64_t seed = 11;
    (void)state;
    put(100);
    struct lp_ring *ring = lp_image_ring(&image, LP_RING_PROCESS);
    for (int i = 0; i < 500; i++) {
        struct stat st;
        uint64_t large = random_next(&seed);
        atomic_store(&ring->taken, random_next(&seed) >> (random_next(&seed) % 64));
        atomic_store(&ring->passed, i % 2 ? large : atomic_load(&ring->taken) - random_next(&seed) % 100);
        atomic_store(&ring->filed, random_next(&seed) >> (random_next(&seed) % 64));
        append_and_die();
        if (stat(path, &st) == 0)
            assert_true(st.st_size <= (off_t)(LP_SAMPLES_HEADER_BYTES + 500 * CAPACITY * 128));
        assert_true(told().lost <= told().taken);
    }
}

/* ---- adoption ------------------------------------------------------------------------------- */

struct dead {
    char path[512];
    uint64_t flushed; /* rows in the file when it died */
};

/* A worker that samples each millisecond, in a /dev/shm of its own, and dies. */
static struct dead leave_a_dead_one(bool flushes, uint64_t rows)
{
    struct dead *dead = mmap(NULL, sizeof *dead, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(dead != MAP_FAILED);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        struct lp_worker_options options = quiet_options(folder);
        options.sample_interval_s = 0.001;
        options.run_id = "one";
        struct lp_worker *worker = worker_open_with(&options);
        struct lp_image *its = &lp_worker_recorder(worker)->image;
        struct lp_entry open;
        CANNOT_IF(its->fd < 0);
        snprintf(dead->path, sizeof dead->path, "%s", lp_worker_path(worker));
        lp_record_enter(lp_worker_recorder(worker), name_of("open"), &open);
        const struct lp_ring *ring;
        while (!(ring = lp_image_ring(its, LP_RING_PROCESS)) || atomic_load(&ring->taken) < rows)
            pause_ms(1);
        if (flushes)
            CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        dead->flushed = atomic_load(&ring->filed);
        raise(SIGKILL);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    struct dead copy = *dead;
    munmap(dead, sizeof *dead);
    return copy;
}

/* All rows of a dead worker, in order and once each; how many. */
static uint64_t check_dead(const struct dead *dead)
{
    struct samples_file file;
    char *its_path = samples_path(dead->path);
    CHECK(samples_read(&file, its_path));
    CHECK_U64(file.rest, 0);
    for (uint64_t i = 0; i < file.n; i++)
        CHECK_U64(samples_at(&file, i, "sequence"), i);
    uint64_t n = file.n;
    samples_free(&file);
    free(its_path);
    return n;
}

static void own_shm(void)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=64m,mode=1777");
}

static void adopt_rows(void *context)
{
    bool flushes = context != NULL;
    own_shm();
    struct dead dead = leave_a_dead_one(flushes, 20);
    char *its_path = samples_path(dead.path);
    CHECK(flushes == (dead.flushed > 0) && (access(its_path, F_OK) == 0) == flushes);
    CHECK_U64(lp_adopt(&(struct lp_adoption){.run_dir = folder}), 1);
    uint64_t n = check_dead(&dead);
    CHECK(n >= 20 && n >= dead.flushed);
    json_t *document = file_document(dead.path), *samples = json_object_get(document, "samples");
    CHECK_U64(json_u64(samples, "taken", 0), n);
    CHECK_U64(json_u64(samples, "lost", 0), 0);
    /* The last row names the phase that was open. */
    struct samples_file file;
    CHECK(samples_read(&file, its_path));
    uint64_t id = samples_at(&file, n - 1, "phase");
    CHECK(id != 0);
    const json_t *nodes = json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes");
    CHECK_U64(json_u64(json_array_get(nodes, 1), "id", 0), id);
    samples_free(&file);
    json_decref(document);
    CHECK_U64(lp_adopt(&(struct lp_adoption){.run_dir = folder}), 0);
    CHECK_U64(check_dead(&dead), n);
    free(its_path);
}

static void test_rows_of_a_killed_worker_F7(void **state)
{
    (void)state;
    in_child(adopt_rows, NULL);
}

static void test_rows_of_a_killed_worker_behind_those_it_wrote_F7(void **state)
{
    (void)state;
    in_child(adopt_rows, "flushes");
}

/* Where the rows cannot be written the rest can, and that they are missing is told. */
static void adopt_without_rows(void *context)
{
    (void)context;
    own_shm();
    struct dead dead = leave_a_dead_one(false, 5);
    char *its_path = samples_path(dead.path);
    CHECK(mkdir(its_path, 0700) == 0);
    CHECK_U64(lp_adopt(&(struct lp_adoption){.run_dir = folder}), 1);
    json_t *document = file_document(dead.path);
    CHECK_U64(figures_at(document, "open").open_calls, 1);
    CHECK_U64(trouble_at(document, "failed_samples"), 1);
    json_decref(document);
    free(its_path);
}

static void test_rows_that_cannot_be_adopted_are_told(void **state)
{
    (void)state;
    in_child(adopt_without_rows, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_image(test_a_header_as_documented_F1),
        in_image(test_what_stands_in_a_row),
        in_image(test_a_worker_with_a_name_of_any_length),
        in_image(test_rows_in_their_order_each_once),
        in_image(test_killed_between_the_rows_and_the_note),
        in_image(test_killed_in_the_middle_of_a_row),
        in_image(test_killed_in_the_middle_of_the_header),
        in_image(test_rows_that_were_put_over_are_lost_and_told),
        in_image(test_when_rows_are_pressing),
        in_image(test_a_file_that_is_removed_begins_anew),
        in_image(test_a_file_that_is_cut_goes_on_where_it_ends),
        in_image(test_what_is_no_plain_file_is_left_alone),
        in_image(test_a_file_that_may_not_be_written),
        in_image(test_a_full_disk_EX07),
        in_image(test_small_files_only_EX07),
        in_image(test_any_numbers_in_a_dead_workers_ring),
        in_image(test_rows_of_a_killed_worker_F7),
        in_image(test_rows_of_a_killed_worker_behind_those_it_wrote_F7),
        in_image(test_rows_that_cannot_be_adopted_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

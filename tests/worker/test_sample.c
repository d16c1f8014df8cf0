/*
 * Rows of samples: which phase they name, whose I/O they have, and where they go on.
 */
#include "support/in_folder.h"
#include "support/samples.h"
#include "support/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "worker/internal.h"

#define BYTES 500000u

static struct lp_worker *open_with_intervals(double snapshot_s, double sample_s)
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = snapshot_s;
    options.sample_interval_s = sample_s;
    return worker_open_with(&options);
}

static const struct lp_image *image_of(struct lp_worker *worker)
{
    return &lp_worker_recorder(worker)->image;
}

static uint64_t taken_by(struct lp_worker *worker)
{
    const struct lp_ring *ring = lp_image_ring(image_of(worker), LP_RING_PROCESS);
    return ring ? atomic_load(&ring->taken) : 0;
}

/* Takes a sample on this thread, of a worker that has no keeper. */
static struct lp_process_row sample(struct lp_worker *worker)
{
    struct lp_view view;
    struct lp_process_row row;
    lp_worker_sample(worker, lp_monotonic_ns());
    lp_view_own(&view, image_of(worker));
    const struct lp_ring *ring = lp_view_ring(&view, LP_RING_PROCESS);
    CHECK(ring && lp_ring_row(&view, ring, atomic_load(&ring->taken) - 1, &row));
    return row;
}

static bool has_io(const struct lp_process_row *row)
{
    return row->write_chars != LP_NOT_MEASURED;
}

#define SKIP_WITHOUT_IO(row)                                                                                           \
    do {                                                                                                               \
        if (!has_io(row))                                                                                              \
            skip();                                                                                                    \
    } while (0)

/* ---- threads that stay inside phases --------------------------------------------------- */

struct dweller {
    pthread_t thread;
    struct lp_worker *worker;
    const char *const *names; /* up to NULL */
    bool leaves;
    pthread_barrier_t there, may_go;
};

static void *dwell(void *context)
{
    struct dweller *dweller = context;
    struct lp_entry entries[8];
    int n = 0;
    for (; dweller->names[n]; n++)
        lp_record_enter(lp_worker_recorder(dweller->worker), name_of(dweller->names[n]), &entries[n]);
    pthread_barrier_wait(&dweller->there);
    pthread_barrier_wait(&dweller->may_go);
    while (dweller->leaves && n > 0)
        lp_record_leave(&entries[--n]);
    return NULL;
}

static void dweller_start(struct dweller *dweller, struct lp_worker *worker, const char *const names[], bool leaves)
{
    dweller->worker = worker;
    dweller->names = names;
    dweller->leaves = leaves;
    pthread_barrier_init(&dweller->there, NULL, 2);
    pthread_barrier_init(&dweller->may_go, NULL, 2);
    CHECK(pthread_create(&dweller->thread, NULL, dwell, dweller) == 0);
    pthread_barrier_wait(&dweller->there);
}

static void dweller_end(struct dweller *dweller)
{
    pthread_barrier_wait(&dweller->may_go);
    CHECK(pthread_join(dweller->thread, NULL) == 0);
}

/* The path, with '/', of the node that has this id in the worker's document; "" for id 0. */
static const char *path_of(struct lp_worker *worker, uint32_t id)
{
    static char path[200];
    size_t len, i, j;
    const json_t *thread, *node;
    char *text = lp_worker_document(worker, &len);
    json_t *document = json_of(text, len);
    int found = 0;
    free(text);
    path[0] = '\0';
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        const json_t *nodes = json_object_get(thread, "nodes");
        json_array_foreach(nodes, j, node)
        {
            if (id == 0 || json_u64(node, "id", 0) != id)
                continue;
            found++;
            for (const json_t *at = node; json_object_get(at, "name");
                 at = json_array_get(nodes, json_u64(at, "parent", 0))) {
                char longer[200];
                snprintf(longer, sizeof longer, "%s%s%s", json_string_value(json_object_get(at, "name")),
                         path[0] ? "/" : "", path);
                memcpy(path, longer, sizeof path);
            }
        }
    }
    assert_int_equal(found, id != 0); /* ids are not given twice */
    json_decref(document);
    return path;
}

static const char *phase_now(struct lp_worker *worker)
{
    return path_of(worker, sample(worker).phase);
}

static void test_the_deepest_phase_of_all_threads_H3(void **state)
{
    static const char *const deep[] = {"a", "b", "c", NULL}, *const flat[] = {"a", NULL}, *const other[] = {"x", NULL};
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct dweller one, two, three;
    (void)state;
    assert_int_equal(sample(worker).phase, 0);
    worker_record(worker, "before");
    assert_int_equal(sample(worker).phase, 0);
    dweller_start(&one, worker, flat, true);
    assert_string_equal(phase_now(worker), "a");
    dweller_start(&two, worker, deep, true);
    assert_string_equal(phase_now(worker), "a/b/c");
    dweller_end(&two);
    dweller_start(&three, worker, other, true);
    assert_string_equal(phase_now(worker), "a"); /* as deep: the older thread's */
    dweller_end(&one);
    assert_string_equal(phase_now(worker), "x");
    dweller_end(&three);
    assert_int_equal(sample(worker).phase, 0);
    lp_worker_free(worker);
}

static void test_a_thread_that_ended_inside_is_in_no_phase_H3(void **state)
{
    static const char *const deep[] = {"a", "b", NULL};
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct dweller dweller;
    (void)state;
    dweller_start(&dweller, worker, deep, false);
    assert_string_equal(phase_now(worker), "a/b");
    dweller_end(&dweller);
    assert_int_equal(sample(worker).phase, 0);
    lp_worker_free(worker);
}

static void test_phases_of_tasks_H3(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct recording *recording = (struct recording *)(void *)lp_worker_recorder(worker); /* it begins with one */
    (void)state;
    struct lp_entry own = enter(recording, "own");
    for (uint64_t task = 64; task <= 192; task += 64) {
        assert_non_null(run_task(recording, task));
        enter(recording, "task");
    }
    struct lp_entry deeper = enter(recording, "deeper");
    run_task(recording, 64);
    assert_string_equal(phase_now(worker), "task/deeper"); /* though another task runs */
    run_task(recording, 192);
    leave(&deeper);
    run_task(recording, 0);
    assert_string_equal(phase_now(worker), "own");
    leave(&own);
    lp_worker_free(worker);
}

static void test_what_is_over_or_not_measured_is_not_named_H3(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct recording *recording = (struct recording *)(void *)lp_worker_recorder(worker);
    (void)state;
    struct lp_entry outer = enter(recording, "outer"), inner = enter(recording, "inner");
    leave_elsewhere(&inner); /* its thread has not met it yet */
    assert_string_equal(phase_now(worker), "outer");
    struct lp_entry first = enter_sampled(recording, "rare", 10);
    assert_string_equal(phase_now(worker), "outer/rare");
    leave(&first);
    struct lp_entry skipped = enter_sampled(recording, "rare", 10), inside = enter(recording, "inside");
    assert_string_equal(phase_now(worker), "outer");
    leave(&inside);
    leave(&skipped);
    /* Out of order: the inner one goes on. */
    struct lp_entry late = enter(recording, "late");
    leave(&outer);
    assert_string_equal(phase_now(worker), "outer/late");
    leave(&late);
    assert_int_equal(sample(worker).phase, 0);
    lp_worker_free(worker);
}

/* ---- I/O ------------------------------------------------------------------------------------ */

static void move(size_t bytes)
{
    char path[512];
    char *block = calloc(1, bytes);
    snprintf(path, sizeof path, "%s/moved_%d", folder, (int)gettid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && block && write(fd, block, bytes) == (ssize_t)bytes &&
          pread(fd, block, bytes, 0) == (ssize_t)bytes);
    close(fd);
    free(block);
}

static void check_moved(const struct lp_process_row *before, const struct lp_process_row *after, uint64_t bytes)
{
    CHECK_U64(after->write_chars - before->write_chars, bytes);
    CHECK_U64(after->read_chars - before->read_chars, bytes);
}

static void test_bytes_of_an_interval_to_the_byte_H1(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    (void)state;
    worker_record(worker, "a");
    struct lp_process_row rows[4];
    for (int i = 0; i < 4; i++) {
        move((size_t)i * BYTES + 1);
        rows[i] = sample(worker);
        assert_int_equal(rows[i].sequence, i);
        SKIP_WITHOUT_IO(&rows[i]);
        assert_int_equal(rows[i].gaps, 0);
    }
    for (size_t i = 1; i < 4; i++)
        check_moved(&rows[i - 1], &rows[i], i * BYTES + 1);
    lp_worker_free(worker);
}

static void *snap_there(void *worker)
{
    for (int i = 0; i < 20; i++)
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
    return NULL;
}

/* F10: whoever writes the file, of whichever worker. */
static void test_our_own_bytes_are_left_out_F10(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0), *other = open_with_intervals(0, 0);
    pthread_t thread;
    (void)state;
    worker_record(worker, "a");
    worker_record(other, "a");
    struct lp_process_row before = sample(worker), after;
    SKIP_WITHOUT_IO(&before);
    for (int i = 0; i < 5; i++) {
        snap_there(worker);
        snap_there(other);
        assert_int_equal(pthread_create(&thread, NULL, snap_there, worker), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        sample(other);
        lp_worker_file_samples(worker);
        after = sample(worker);
        check_moved(&before, &after, 0);
        assert_int_equal(after.read_bytes, before.read_bytes);
        assert_int_equal(after.write_bytes, before.write_bytes);
        assert_int_equal(after.gaps, 0);
        struct lp_process_row its = sample(other);
        assert_int_equal(its.gaps, 0);
    }
    lp_worker_free(other);
    lp_worker_free(worker);
}

struct slow_writer {
    struct lp_worker *worker; /* NULL: it is gone when the writer ends */
    size_t bytes;
    pthread_barrier_t step;
};

static void *write_slowly(void *context)
{
    struct slow_writer *writer = context;
    struct lp_own_io own = lp_own_io_begin();
    move(writer->bytes);
    pthread_barrier_wait(&writer->step);
    pthread_barrier_wait(&writer->step);
    move(writer->bytes);
    lp_own_io_end(writer->worker, &own);
    return NULL;
}

/* A flush to a slow file server goes on over samples. */
static void test_our_own_bytes_that_are_under_way_are_left_out_F10(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct slow_writer writer = {.bytes = BYTES};
    pthread_t thread;
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        writer.worker = turn ? NULL : worker;
        pthread_barrier_init(&writer.step, NULL, 2);
        struct lp_process_row before = sample(worker);
        SKIP_WITHOUT_IO(&before);
        assert_int_equal(pthread_create(&thread, NULL, write_slowly, &writer), 0);
        pthread_barrier_wait(&writer.step);
        struct lp_process_row meanwhile = sample(worker);
        check_moved(&before, &meanwhile, 0);
        move(100);
        struct lp_process_row then = sample(worker);
        check_moved(&meanwhile, &then, 100);
        pthread_barrier_wait(&writer.step);
        assert_int_equal(pthread_join(thread, NULL), 0);
        struct lp_process_row after = sample(worker);
        check_moved(&then, &after, 0);
        pthread_barrier_destroy(&writer.step);
    }
    lp_worker_free(worker);
}

static atomic_bool enough;

static void *snap_on(void *worker)
{
    while (!atomic_load(&enough))
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
    return NULL;
}

/* Not a byte, however samples and flushes on the program's threads fall: or it is said that it is not known. */
static void test_samples_in_the_middle_of_flushes_F10(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    pthread_t threads[2];
    (void)state;
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "phase %d", i);
        worker_record(worker, name);
    }
    struct lp_process_row first = sample(worker);
    SKIP_WITHOUT_IO(&first);
    atomic_store(&enough, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, snap_on, worker), 0);
    for (int i = 0; i < 100; i++) {
        struct lp_process_row row = sample(worker);
        if (has_io(&row))
            check_moved(&first, &row, 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct lp_process_row last = sample(worker);
    check_moved(&first, &last, 0);
    lp_worker_free(worker);
}

/* ---- children -------------------------------------------------------------------------------- */

static void reap_a_child(size_t bytes)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        move(bytes);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *move_there(void *bytes)
{
    move(*(size_t *)bytes);
    return NULL;
}

/* PR02 */
static void test_what_reaped_children_moved_is_left_out_H4(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    (void)state;
    worker_record(worker, "a");
    struct lp_process_row before = sample(worker);
    SKIP_WITHOUT_IO(&before);
    reap_a_child(5 * BYTES); /* the first: nobody had looked at the threads before */
    move(100);
    struct lp_process_row row = sample(worker);
    assert_true(row.write_bytes - before.write_bytes < BYTES); /* some pages of its own */
    if (row.gaps & LP_GAP_CHARS)
        check_moved(&before, &row, 0);
    else
        check_moved(&before, &row, 100);
    before = row;
    for (size_t i = 1; i < 6; i++) {
        for (size_t j = 0; j < i; j++)
            reap_a_child(BYTES);
        move(i * 1000);
        row = sample(worker);
        check_moved(&before, &row, i * 1000);
        assert_int_equal(row.gaps, 0);
        before = row;
    }
    for (size_t i = 1; i < 4; i++) { /* and no more children */
        move(i);
        row = sample(worker);
        check_moved(&before, &row, i);
        assert_int_equal(row.gaps, 0);
        before = row;
    }
    lp_worker_free(worker);
}

static void test_children_and_our_own_bytes_at_once_F10_H4(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    pthread_t thread;
    (void)state;
    worker_record(worker, "a");
    reap_a_child(1);
    struct lp_process_row before = sample(worker);
    SKIP_WITHOUT_IO(&before);
    for (int i = 0; i < 4; i++) {
        reap_a_child(BYTES);
        snap_there(worker);
        struct lp_process_row row = sample(worker);
        check_moved(&before, &row, 0);
        assert_int_equal(row.gaps, 0);
        before = row;
    }
    /* A thread that was asked before and is gone: what it has moved is not known. */
    static const char *const names[] = {"a", NULL};
    struct dweller dweller;
    dweller_start(&dweller, worker, names, true);
    before = sample(worker);
    dweller_end(&dweller);
    reap_a_child(BYTES);
    move(100);
    struct lp_process_row row = sample(worker);
    assert_int_equal(row.gaps, LP_GAP_CHARS);
    check_moved(&before, &row, 0);
    size_t bytes = 300;
    assert_int_equal(pthread_create(&thread, NULL, move_there, &bytes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct lp_process_row after = sample(worker);
    assert_int_equal(after.gaps, 0);
    check_moved(&row, &after, 300);
    lp_worker_free(worker);
}

static void test_children_of_many_threads_H4(void **state)
{
    enum { MANY = LP_SAMPLED_THREADS + 1 };
    static const char *const names[] = {"a", NULL};
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct dweller dwellers[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        dweller_start(&dwellers[i], worker, names, true);
    reap_a_child(1);
    struct lp_process_row before = sample(worker);
    SKIP_WITHOUT_IO(&before);
    move(100);
    struct lp_process_row alone = sample(worker);
    check_moved(&before, &alone, 100);
    assert_int_equal(alone.gaps, 0); /* no child was waited for */
    reap_a_child(BYTES);
    move(100);
    struct lp_process_row row = sample(worker);
    assert_int_equal(row.gaps, LP_GAP_CHARS);
    check_moved(&alone, &row, 0);
    move(100);
    struct lp_process_row after = sample(worker);
    assert_int_equal(after.gaps, 0);
    check_moved(&row, &after, 100);
    for (int i = 0; i < MANY; i++)
        dweller_end(&dwellers[i]);
    lp_worker_free(worker);
}

/* ---- what cannot be measured --------------------------------------------------------------------- */

static void be_nobody(void *context)
{
    (void)context;
    CHECK(chmod(folder, 0777) == 0);
    CANNOT_IF(setgid(65534) != 0 || setuid(65534) != 0);
    CANNOT_IF(prctl(PR_SET_DUMPABLE, 1) != 0);
    struct lp_worker *worker = open_with_intervals(0, 0);
    worker_record(worker, "a");
    struct lp_process_row first = sample(worker);
    CANNOT_IF(!has_io(&first));
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    for (int i = 0; i < 3; i++) {
        move(100);
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        struct lp_process_row row = sample(worker);
        CHECK(row.read_chars == LP_NOT_MEASURED && row.write_chars == LP_NOT_MEASURED);
        CHECK(row.read_bytes == LP_NOT_MEASURED && row.write_bytes == LP_NOT_MEASURED);
        CHECK(row.rss_bytes != LP_NOT_MEASURED && row.rss_bytes > 0 && row.cpu_ns > 0 && row.threads > 0);
        CHECK(row.minor_faults != LP_NOT_MEASURED);
    }
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    struct lp_process_row again = sample(worker);
    CHECK(has_io(&again) && again.write_chars >= first.write_chars);
    CHECK(again.gaps == (LP_GAP_CHARS | LP_GAP_BYTES)); /* what of it was ours is not known */
    check_moved(&first, &again, 0);
    move(100);
    struct lp_process_row last = sample(worker);
    CHECK_U64(last.gaps, 0);
    check_moved(&again, &last, 100);
    lp_worker_free(worker);
}

static void test_io_that_may_not_be_read_H2_PR01(void **state)
{
    (void)state;
    in_child(be_nobody, NULL);
}

static void test_the_rest_of_a_row_H1(void **state)
{
    enum { MANY = LP_DELAYED_THREADS + 1 };
    static const char *const names[] = {"a", NULL};
    struct lp_worker *worker = open_with_intervals(0, 0);
    struct dweller dwellers[MANY];
    (void)state;
    struct lp_process_row before = sample(worker);
    assert_true(before.monotonic_ns > 0 && before.monotonic_ns <= lp_monotonic_ns());
    assert_true(before.cuda_allocated_bytes == LP_NOT_MEASURED && before.cuda_reserved_bytes == LP_NOT_MEASURED);
    bool has_delay = before.run_delay_ns != LP_NOT_MEASURED;
    for (int i = 0; i < MANY; i++)
        dweller_start(&dwellers[i], worker, names, true);
    struct lp_process_row row = sample(worker);
    assert_int_equal(row.threads, before.threads + MANY);
    assert_true(row.run_delay_ns == LP_NOT_MEASURED); /* too many to look at */
    for (int i = 0; i < MANY; i++)
        dweller_end(&dwellers[i]);
    struct lp_process_row after = sample(worker);
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.run_delay_ns != LP_NOT_MEASURED, has_delay);
    assert_true(!has_delay || after.run_delay_ns >= before.run_delay_ns);
    assert_true(after.cpu_ns >= row.cpu_ns && row.cpu_ns >= before.cpu_ns);
    assert_true(after.voluntary_switches >= before.voluntary_switches);
    int fd = open("/dev/null", O_RDONLY);
    assert_int_equal(sample(worker).open_files, after.open_files + 1);
    close(fd);
    lp_worker_free(worker);
}

/* ---- the keeper's samples --------------------------------------------------------------------------- */

/* The rows of a worker's file: numbered from 0 on without a hole. */
static uint64_t whole_rows(const char *worker_path)
{
    struct samples_file file;
    char *path = samples_path(worker_path);
    uint64_t last_ns = 0;
    CHECK(samples_read(&file, path));
    CHECK_U64(file.rest, 0);
    for (uint64_t i = 0; i < file.n; i++) {
        CHECK_U64(samples_at(&file, i, "sequence"), i);
        CHECK(samples_at(&file, i, "monotonic_ns") >= last_ns);
        last_ns = samples_at(&file, i, "monotonic_ns");
    }
    uint64_t n = file.n;
    samples_free(&file);
    free(path);
    return n;
}

static void test_the_last_sample_is_taken_at_close_H1(void **state)
{
    struct lp_worker *worker = open_with_intervals(30, 1000);
    struct lp_entry open;
    (void)state;
    lp_record_enter(lp_worker_recorder(worker), name_of("a"), &open);
    WAIT_UNTIL(taken_by(worker) == 1); /* and no other for a quarter of an hour */
    move(BYTES);
    lp_record_leave(&open);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(whole_rows(lp_worker_path(worker)), 2);
    struct samples_file file;
    char *path = samples_path(lp_worker_path(worker));
    json_t *document = worker_document(worker);
    assert_true(samples_read(&file, path));
    /* The moment at which it is read: nothing is recorded any more by then. */
    assert_true(samples_at(&file, 1, "monotonic_ns") >=
                json_u64(json_object_get(document, "written"), "monotonic_ns", 0));
    uint64_t id = samples_at(&file, 0, "phase");
    const json_t *nodes = json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes");
    assert_true(id != 0);
    assert_int_equal(json_u64(json_array_get(nodes, 1), "id", 0), id);
    if (samples_at(&file, 0, "write_chars") != UINT64_MAX)
        assert_int_equal(samples_at(&file, 1, "write_chars") - samples_at(&file, 0, "write_chars"), BYTES);
    assert_int_equal(json_u64(json_object_get(document, "samples"), "taken", 0), 2);
    json_decref(document);
    samples_free(&file);
    free(path);
    lp_worker_free(worker);
}

/* The file grows although no flush falls due: else rows would be put over. */
static void test_a_worker_that_never_flushes(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0.001);
    (void)state;
    char *path = samples_path(lp_worker_path(worker));
    worker_record(worker, "a");
    struct stat st;
    WAIT_UNTIL(stat(path, &st) == 0 && st.st_size > (off_t)(LP_SAMPLES_HEADER_BYTES + 300 * 128));
    assert_int_equal(access(lp_worker_path(worker), F_OK), -1);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    uint64_t n = whole_rows(lp_worker_path(worker));
    assert_true(n > 300);
    json_t *document = worker_document(worker), *samples = json_object_get(document, "samples");
    assert_int_equal(json_u64(samples, "taken", 0), n);
    assert_int_equal(json_u64(samples, "lost", 0), 0);
    json_decref(document);
    free(path);
    lp_worker_free(worker);
}

static void test_where_the_file_cannot_be_written_rows_are_lost_and_told(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0.001);
    char *host_folder = strdup(lp_worker_path(worker)), *aside;
    (void)state;
    *strrchr(host_folder, '/') = '\0';
    assert_true(asprintf(&aside, "%s.aside", host_folder) > 0);
    worker_record(worker, "a");
    char *path = samples_path(lp_worker_path(worker));
    WAIT_UNTIL(access(path, F_OK) == 0);
    assert_int_equal(rename(host_folder, aside), 0);
    file_write(host_folder, "in the way", 10);
    uint64_t from = taken_by(worker);
    WAIT_UNTIL(taken_by(worker) > from + 200);
    const struct lp_header *header = lp_image_header(image_of(worker));
    assert_true(atomic_load(&header->troubles[LP_TROUBLE_FAILED_SAMPLES]) > 0);
    assert_int_equal(unlink(host_folder), 0);
    assert_int_equal(rename(aside, host_folder), 0);
    from = taken_by(worker);
    WAIT_UNTIL(taken_by(worker) > from + 100);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    struct samples_file file;
    assert_true(samples_read(&file, path));
    uint64_t last = samples_at(&file, file.n - 1, "sequence");
    for (uint64_t i = 1; i < file.n; i++)
        assert_true(samples_at(&file, i, "sequence") > samples_at(&file, i - 1, "sequence"));
    json_t *document = worker_document(worker), *samples = json_object_get(document, "samples");
    assert_int_equal(json_u64(samples, "taken", 0), last + 1);
    assert_int_equal(json_u64(samples, "lost", 0), last + 1 - file.n);
    assert_true(last + 1 > file.n);
    json_decref(document);
    samples_free(&file);
    free(path);
    free(aside);
    free(host_folder);
    lp_worker_free(worker);
}

static void test_an_image_that_is_removed_meanwhile(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.02, 0.001);
    (void)state;
    if (image_of(worker)->fd < 0)
        skip();
    worker_record(worker, "a");
    for (int i = 0; i < 20; i++) {
        uint64_t from = taken_by(worker);
        unlink(image_of(worker)->path);
        WAIT_UNTIL(taken_by(worker) > from + 3);
        worker_record(worker, "a");
    }
    uint64_t taken = taken_by(worker);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_true(whole_rows(lp_worker_path(worker)) >= taken);
    lp_worker_free(worker);
}

/* ---- forks --------------------------------------------------------------------------------------------- */

static void sample_in_child(struct lp_worker *worker, const char *parents_path)
{
    worker_record(worker, "child");
    for (int tries = 0; taken_by(worker) < 5; tries++) {
        CHECK(tries < 24000);
        pause_ms(5);
    }
    CHECK(strcmp(lp_worker_path(worker), parents_path) != 0);
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
    CHECK(whole_rows(lp_worker_path(worker)) >= 5);
    struct samples_file file;
    char *path = samples_path(lp_worker_path(worker));
    CHECK(samples_read(&file, path));
    /* The totals are this process's own, not what its parent had moved. */
    if (samples_at(&file, 0, "write_chars") != UINT64_MAX)
        CHECK(samples_at(&file, 0, "write_chars") < BYTES);
    CHECK(samples_at(&file, 0, "monotonic_ns") >= worker->started.monotonic_ns);
    samples_free(&file);
    _exit(0);
}

static void test_a_child_samples_itself_F9(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.02, 0.001);
    char *path = strdup(lp_worker_path(worker));
    pid_t pids[3];
    (void)state;
    worker_record(worker, "parent");
    move(BYTES);
    WAIT_UNTIL(taken_by(worker) > 3);
    for (int i = 0; i < 3; i++) {
        fflush(NULL);
        pids[i] = fork();
        if (pids[i] == 0)
            sample_in_child(worker, path);
        uint64_t from = taken_by(worker);
        worker_record(worker, "parent"); /* goes on at the next boundary */
        WAIT_UNTIL(taken_by(worker) > from + 3);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_true(whole_rows(path) > 12);
    free(path);
    lp_worker_free(worker);
}

static void test_without_an_interval_there_are_no_samples(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.005, 0);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(access(lp_worker_path(worker), F_OK) == 0);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    char *path = samples_path(lp_worker_path(worker));
    assert_int_equal(access(path, F_OK), -1);
    json_t *document = worker_document(worker);
    assert_int_equal(json_object_size(json_object_get(document, "samples")), 0);
    json_decref(document);
    free(path);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_the_deepest_phase_of_all_threads_H3),
        in_folder(test_a_thread_that_ended_inside_is_in_no_phase_H3),
        in_folder(test_phases_of_tasks_H3),
        in_folder(test_what_is_over_or_not_measured_is_not_named_H3),
        in_folder(test_bytes_of_an_interval_to_the_byte_H1),
        in_folder(test_our_own_bytes_are_left_out_F10),
        in_folder(test_our_own_bytes_that_are_under_way_are_left_out_F10),
        in_folder(test_samples_in_the_middle_of_flushes_F10),
        in_folder(test_what_reaped_children_moved_is_left_out_H4),
        in_folder(test_children_and_our_own_bytes_at_once_F10_H4),
        in_folder(test_children_of_many_threads_H4),
        in_folder(test_io_that_may_not_be_read_H2_PR01),
        in_folder(test_the_rest_of_a_row_H1),
        in_folder(test_the_last_sample_is_taken_at_close_H1),
        in_folder(test_a_worker_that_never_flushes),
        in_folder(test_where_the_file_cannot_be_written_rows_are_lost_and_told),
        in_folder(test_an_image_that_is_removed_meanwhile),
        in_folder(test_a_child_samples_itself_F9),
        in_folder(test_without_an_interval_there_are_no_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

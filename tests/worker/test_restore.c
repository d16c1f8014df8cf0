/* An image whose file was removed under it, while threads record: it gets another, and nothing is lost. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>

#define THREADS 3
#define REMOVALS 40
#define FOLDER_REMOVALS 100
#define MS 1000000

struct busy {
    struct lp_worker *worker;
    _Atomic bool stop;
    _Atomic uint64_t outer, inner;
};

static void *record(void *context)
{
    struct busy *busy = context;
    struct lp_recorder *recorder = lp_worker_recorder(busy->worker);
    lp_name_id outer_name = name_of("outer"), inner_name = name_of("inner"), counter = name_of("n");
    uint64_t outer_calls = 0, inner_calls = 0;
    while (!atomic_load_explicit(&busy->stop, memory_order_relaxed)) {
        struct lp_entry outer, inner;
        lp_record_enter(recorder, outer_name, &outer);
        for (int i = 0; i < 10; i++, inner_calls++) {
            lp_record_enter(recorder, inner_name, &inner);
            lp_record_count(recorder, counter, 3);
            lp_record_leave(&inner);
        }
        lp_record_leave(&outer);
        outer_calls++;
    }
    atomic_fetch_add(&busy->outer, outer_calls);
    atomic_fetch_add(&busy->inner, inner_calls);
    return NULL;
}

static bool has_file(const struct lp_image *image)
{
    struct stat named, opened;
    return stat(image->path, &named) == 0 && fstat(image->fd, &opened) == 0 && named.st_ino == opened.st_ino;
}

static void test_nothing_is_lost(void **state)
{
    struct busy busy = {.worker = worker_open(folder)};
    struct lp_recorder *recorder = lp_worker_recorder(busy.worker);
    struct lp_image *image = &recorder->image;
    pthread_t threads[THREADS];
    uint64_t seed = 7;
    (void)state;
    if (image->fd < 0)
        skip();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record, &busy), 0);
    for (int i = 0; i < REMOVALS; i++) {
        assert_false(lp_image_is_lost(image));
        assert_int_equal(unlink(image->path), 0);
        assert_true(lp_image_is_lost(image));
        burn_some(&seed);
        lp_recorder_restore(recorder);
        assert_true(has_file(image));
    }
    atomic_store(&busy.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    assert_int_equal(lp_worker_close(busy.worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(busy.worker);
    assert_string_equal(text_at(document, "image"), "shared");
    assert_int_equal(figures_at(document, "outer").calls, busy.outer);
    assert_int_equal(figures_at(document, "outer/inner").calls, busy.inner);
    assert_document_adds_up(document);
    json_decref(document);
    assert_int_equal(access(image->path, F_OK), -1); /* removed by close() */
    lp_worker_free(busy.worker);
}

/* A program that makes itself a daemon closes all descriptors. */
static void test_a_descriptor_that_was_closed(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    struct lp_image *image = &lp_worker_recorder(worker)->image;
    (void)state;
    if (image->fd < 0)
        skip();
    int others = image->fd, null = open("/dev/null", O_RDONLY);
    assert_int_equal(dup2(null, others), others); /* and opens files of its own, by the same number */
    close(null);
    assert_true(lp_image_is_lost(image));
    lp_recorder_restore(lp_worker_recorder(worker));
    assert_true(has_file(image));
    assert_int_not_equal(image->fd, others);
    int again = open(image->path, O_RDWR);
    assert_true(lp_image_is_locked(again, LP_LOCK_OWNER));
    close(again);
    assert_int_equal(close(others), 0); /* nobody else has */
    lp_worker_free(worker);
}

struct remover {
    char images[64];
    _Atomic bool done;
};

static void *remove_folder_often(void *context)
{
    struct remover *remover = context;
    unsigned seed = 11;
    for (int i = 0; i < FOLDER_REMOVALS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 8 * MS + (long)rand_r(&seed) % (4 * MS)}, NULL);
        folder_empty(remover->images);
        rmdir(remover->images);
    }
    atomic_store(&remover->done, true);
    return NULL;
}

/* Also while the new file has no name yet, or its folder is just being made. */
static void lose_the_folder_often(void *context)
{
    struct remover remover = {.done = false};
    pthread_t removing, recording;
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    struct busy busy = {.worker = worker_open(folder)};
    struct lp_recorder *recorder = lp_worker_recorder(busy.worker);
    CANNOT_IF(recorder->image.fd < 0);
    lp_image_folder(remover.images, sizeof remover.images);
    CHECK(pthread_create(&recording, NULL, record, &busy) == 0);
    CHECK(pthread_create(&removing, NULL, remove_folder_often, &remover) == 0);
    while (!atomic_load(&remover.done)) {
        lp_recorder_restore(recorder);
        CHECK(recorder->image.fd >= 0);
    }
    pthread_join(removing, NULL);
    atomic_store(&busy.stop, true);
    pthread_join(recording, NULL);
    lp_recorder_restore(recorder);
    CHECK(has_file(&recorder->image));
    CHECK(lp_worker_close(busy.worker, NULL, 0) == LP_WORKER_OK);
    json_t *document = worker_document(busy.worker);
    CHECK(strcmp(text_at(document, "image"), "shared") == 0);
    CHECK_U64(figures_at(document, "outer").calls, busy.outer);
    CHECK_U64(figures_at(document, "outer/inner").calls, busy.inner);
    json_decref(document);
    lp_worker_free(busy.worker);
}

static void test_a_folder_that_goes_in_between(void **state)
{
    (void)state;
    in_child(lose_the_folder_often, NULL);
}

static void lose_for_good(void *context)
{
    char images[64];
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    struct lp_worker *worker = worker_open(folder);
    struct lp_image *image = &lp_worker_recorder(worker)->image;
    CANNOT_IF(image->fd < 0);
    worker_record(worker, "a");
    lp_image_folder(images, sizeof images);
    folder_empty(images);
    file_write(images, "", 0); /* no folder can be made there */
    lp_recorder_restore(lp_worker_recorder(worker));
    CHECK(!lp_image_is_lost(image)); /* it has none any more */
    worker_record(worker, "a");
    char message[512];
    CHECK(lp_worker_snapshot(worker, message, sizeof message) == LP_WORKER_OK);
    json_t *document = worker_document(worker);
    CHECK(strcmp(text_at(document, "image"), "private") == 0); /* which the file says */
    CHECK_U64(figures_at(document, "a").calls, 2);
    json_decref(document);
    lp_worker_free(worker);
}

static void test_where_none_can_be_had(void **state)
{
    (void)state;
    in_child(lose_for_good, NULL);
}

static bool has_new_file(const struct lp_image *image, ino_t before)
{
    struct stat st;
    return stat(image->path, &st) == 0 && st.st_ino != before;
}

static void test_the_keeper_sees_to_it(void **state)
{
    struct lp_worker_options options = quiet_options(folder);
    struct stat st;
    (void)state;
    options.sample_interval_s = 0.005;
    struct lp_worker *worker = worker_open_with(&options);
    struct lp_image *image = &lp_worker_recorder(worker)->image;
    if (image->fd < 0)
        skip();
    worker_record(worker, "a"); /* the keeper starts */
    assert_int_equal(stat(image->path, &st), 0);
    assert_int_equal(unlink(image->path), 0);
    WAIT_UNTIL(has_new_file(image, st.st_ino));
    worker_record(worker, "a");
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_int_equal(figures_at(document, "a").calls, 2);
    json_decref(document);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_nothing_is_lost),
        in_folder(test_a_descriptor_that_was_closed),
        in_folder(test_a_folder_that_goes_in_between),
        in_folder(test_where_none_can_be_had),
        in_folder(test_the_keeper_sees_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

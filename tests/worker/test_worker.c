/* Opening and closing a worker: what is refused, what is said, and that nothing is left behind. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <math.h>
#include <pthread.h>
#include <sys/resource.h>

/* ---- what is refused -------------------------------------------------------------- */

static void assert_refused(const struct lp_worker_options *options, int status, const char *word)
{
    struct lp_worker *worker = (void *)options;
    char message[256] = "";
    int fds = folder_each("/proc/self/fd", NULL, NULL);
    assert_int_equal(lp_worker_open(&worker, options, message, sizeof message), status);
    assert_null(worker);
    assert_non_null(strstr(message, word));
    assert_null(strchr(message, '\n'));
    assert_int_equal(folder_each("/proc/self/fd", NULL, NULL), fds);
}

static void test_bad_options_are_named(void **state)
{
    static char long_text[(64 << 10) + 2];
    static const double bad[] = {-1, -0.0001, 0.0005, 2e9};
    struct lp_worker_options good = quiet_options(folder), options;
    (void)state;
    options = good, options.run_dir = "relative/run";
    assert_refused(&options, LP_WORKER_BAD_OPTION, "relative/run");
    options = good, options.run_dir = NULL;
    assert_refused(&options, LP_WORKER_BAD_OPTION, "run_dir");
    memset(long_text, 'r', sizeof long_text - 1);
    options = good, options.role = long_text, options.role_len = (64 << 10) + 1;
    assert_refused(&options, LP_WORKER_BAD_OPTION, "role");
    options = good, options.run_id = "";
    assert_refused(&options, LP_WORKER_BAD_OPTION, "run_id");
    long_text[129] = '\0';
    options = good, options.run_id = long_text;
    assert_refused(&options, LP_WORKER_BAD_OPTION, "run_id");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options = good, options.snapshot_interval_s = bad[i];
        assert_refused(&options, LP_WORKER_BAD_OPTION, "interval");
        options = good, options.sample_interval_s = bad[i];
        assert_refused(&options, LP_WORKER_BAD_OPTION, "interval");
    }
    options = good, options.sample_interval_s = NAN;
    assert_refused(&options, LP_WORKER_BAD_OPTION, "interval");
    assert_int_equal(folder_each(folder, NULL, NULL), 0);
}

/* E9 */
/* Pids come again: some may be of those that died long ago. */
static int images_of_this_pid(void)
{
    int found = 0;
    char images[64], own[64];
    lp_image_folder(images, sizeof images);
    snprintf(own, sizeof own, "_%d_", (int)getpid());
    DIR *folder_of_images = opendir(images);
    for (const struct dirent *entry; folder_of_images && (entry = readdir(folder_of_images));)
        found += strstr(entry->d_name, own) != NULL;
    if (folder_of_images)
        closedir(folder_of_images);
    return found;
}

static void test_a_directory_that_cannot_be_written_is_named(void **state)
{
    struct lp_worker_options options = quiet_options(folder);
    int before = images_of_this_pid();
    char *path;
    (void)state;
    assert_true(asprintf(&path, "%s/file", folder) > 0);
    file_write(path, "", 0);
    options.run_dir = path;
    assert_refused(&options, LP_WORKER_SYSTEM, path);
    free(path);
    options.run_dir = "/proc/no/such/run";
    assert_refused(&options, LP_WORKER_SYSTEM, "/proc/no/such/run");
    assert_int_equal(images_of_this_pid(), before); /* nor does an image stay behind */
}

static void test_messages_may_be_left_out(void **state)
{
    struct lp_worker_options options = quiet_options("relative");
    struct lp_worker *worker;
    char small[4];
    (void)state;
    assert_int_equal(lp_worker_open(&worker, &options, NULL, 0), LP_WORKER_BAD_OPTION);
    assert_int_equal(lp_worker_open(&worker, &options, small, sizeof small), LP_WORKER_BAD_OPTION);
    assert_int_equal(strlen(small), 3);
}

static void open_without_memory(void *context)
{
    const struct rlimit limit = {8 << 20, 8 << 20};
    struct lp_worker_options options = quiet_options(folder);
    struct lp_worker *worker;
    char message[256] = "";
    (void)context;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    int status = lp_worker_open(&worker, &options, message, sizeof message);
    if (status == LP_WORKER_OK) {
        worker_record(worker, "a");
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
    } else {
        CHECK(status == LP_WORKER_NO_MEMORY && worker == NULL && strstr(message, "memory"));
    }
}

static void test_little_memory_makes_a_worker_or_a_message(void **state)
{
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN) {
        print_message("sanitizers take all address space\n");
        skip();
    }
    in_child(open_without_memory, NULL);
}

/* ---- what it says of itself --------------------------------------------------------- */

static void test_facts_of_a_worker(void **state)
{
    static const char role[] = "train\0er \"\xe8\xae\xad\" \xed\xb3\xbf";
    struct lp_worker_options options = {.run_dir = folder,
                                        .role = role,
                                        .role_len = sizeof role - 1,
                                        .run_id = ".run/1 \xff",
                                        .run_id_origin = LP_RUN_ID_INHERITED,
                                        .runtime = "CPython 3.12.1",
                                        .thread_names = true,
                                        .snapshot_interval_s = 12.5};
    char host[256] = "";
    size_t len;
    (void)state;
    gethostname(host, sizeof host - 1);
    struct lp_worker *worker = worker_open_with(&options);
    assert_string_equal(lp_worker_run_dir(worker), folder);
    assert_non_null(strstr(lp_worker_path(worker), "/w__run_1___")); /* made fit for a file name */
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    char *text = text_decode(text_at(document, "role"), strlen(text_at(document, "role")), &len);
    assert_int_equal(len, sizeof role - 1);
    assert_memory_equal(text, role, len);
    free(text);
    assert_string_equal(text_at(document, "run_id"), ".run/1 \xef\xbf\xbd");
    assert_string_equal(text_at(document, "run_id_origin"), "inherited");
    assert_string_equal(text_at(document, "runtime"), "CPython 3.12.1");
    assert_string_equal(text_at(document, "host"), host);
    const json_t *settings = json_object_get(document, "settings");
    assert_true(json_is_false(json_object_get(settings, "measure_cpu")));
    assert_true(json_is_true(json_object_get(settings, "thread_names")));
    assert_true(json_real_value(json_object_get(settings, "snapshot_interval_s")) == 12.5);
    assert_true(json_is_null(json_object_get(settings, "sample_interval_s")));
    assert_string_equal(text_at(json_object_get(document, "clock"), "cpu"), "off");
    json_decref(document);
    lp_worker_free(worker);
}

/* F4: like 20260813T2241-471c94. */
static void test_generated_run_ids(void **state)
{
    struct lp_worker *one = worker_open(folder), *two = worker_open(folder);
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *id = lp_worker_run_id(i ? two : one);
        assert_int_equal(strlen(id), 20);
        for (size_t j = 0; j < 20; j++) {
            if (j == 8)
                assert_int_equal(id[j], 'T');
            else if (j == 13)
                assert_int_equal(id[j], '-');
            else
                assert_non_null(strchr(j < 13 ? "0123456789" : "0123456789abcdef", id[j]));
        }
    }
    assert_string_not_equal(lp_worker_run_id(one), lp_worker_run_id(two));
    assert_string_not_equal(lp_worker_name(one), lp_worker_name(two));
    lp_worker_free(one);
    lp_worker_free(two);
}

/* ---- closing -------------------------------------------------------------------------- */

static atomic_bool enough;

static void *record_on(void *context)
{
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        struct lp_entry outer;
        lp_record_enter(lp_worker_recorder(context), name_of("outer"), &outer);
        worker_record(context, "inner");
        lp_record_leave(&outer);
    }
    return NULL;
}

static void *close_it(void *context)
{
    return lp_worker_close(context, NULL, 0) == LP_WORKER_OK && lp_worker_closed(context) ? NULL : context;
}

/* E7: by several threads at once, while others record and ask. */
static void test_closing_happens_once(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct lp_worker_options options = quiet_options(folder);
        pthread_t closers[4], recorders[2];
        void *failed;
        options.run_id = "r";
        options.snapshot_interval_s = 0.001;
        struct lp_worker *worker = worker_open_with(&options);
        atomic_store(&enough, false);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&recorders[i], NULL, record_on, worker), 0);
        const struct lp_header *header = lp_image_header(&lp_worker_recorder(worker)->image);
        WAIT_UNTIL(atomic_load(&header->flushes) > 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&closers[i], NULL, close_it, worker), 0);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_join(closers[i], &failed), 0);
            assert_null(failed);
        }
        char *first = file_read(lp_worker_path(worker), NULL);
        json_t *document = worker_document(worker);
        assert_string_equal(text_at(document, "state"), "closed");
        uint64_t flush = json_u64(document, "flush", 0);
        json_decref(document);
        assert_int_equal(lp_worker_snapshot(worker, NULL, 0), LP_WORKER_OK); /* nothing any more */
        assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
        char *again = file_read(lp_worker_path(worker), NULL);
        assert_string_equal(again, first);
        assert_int_equal(atomic_load(&header->flushes), flush);
        atomic_store(&enough, true);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(recorders[i], NULL), 0);
        lp_worker_free(worker);
        free(first);
        free(again);
    }
}

static void test_what_is_open_at_the_end_is_written_as_open(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    struct lp_entry entry;
    (void)state;
    lp_record_enter(lp_worker_recorder(worker), name_of("open"), &entry);
    worker_record(worker, "done");
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    lp_record_leave(&entry);
    json_t *document = worker_document(worker);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "open").open_calls, 1);
    assert_int_equal(figures_at(document, "open/done").calls, 1);
    json_decref(document);
    lp_worker_free(worker);
}

static size_t lines_of(const char *path)
{
    size_t lines = 0;
    char *text = file_read(path, NULL);
    for (const char *at = text; at && (at = strchr(at, '\n')); at++)
        lines++;
    free(text);
    return lines;
}

/* Nothing is left of workers that were freed: no descriptor, no thread, no mapping, no image. */
static void test_nothing_is_left_of_a_freed_worker(void **state)
{
    size_t maps = 0;
    int fds = 0;
    (void)state;
    for (int i = 0; i < 60; i++) {
        struct lp_worker_options options = quiet_options(folder);
        options.run_id = "r";
        options.snapshot_interval_s = 30;
        struct lp_worker *worker = worker_open_with(&options);
        worker_record(worker, "a");
        char *image = strdup(lp_worker_recorder(worker)->image.path);
        lp_worker_free(worker);
        assert_true(!image[0] || access(image, F_OK) != 0);
        free(image);
        if (i == 20) {
            maps = lines_of("/proc/self/maps");
            fds = folder_each("/proc/self/fd", NULL, NULL);
        }
    }
    assert_int_equal(folder_each("/proc/self/fd", NULL, NULL), fds);
    assert_in_range(lines_of("/proc/self/maps"), 0, maps + (LP_TEST_ASAN || LP_TEST_TSAN ? 50 : 5));
    assert_int_equal(keepers_now(), 0);
    lp_worker_free(NULL);
}

/* A worker that was never used has a file too: the process was there. */
static void test_a_worker_without_a_phase(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    (void)state;
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_int_equal(json_array_size(json_object_get(document, "threads")), 0);
    json_decref(document);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_bad_options_are_named),
        in_folder(test_a_directory_that_cannot_be_written_is_named),
        in_folder(test_messages_may_be_left_out),
        in_folder(test_little_memory_makes_a_worker_or_a_message),
        in_folder(test_facts_of_a_worker),
        in_folder(test_generated_run_ids),
        in_folder(test_closing_happens_once),
        in_folder(test_what_is_open_at_the_end_is_written_as_open),
        in_folder(test_nothing_is_left_of_a_freed_worker),
        in_folder(test_a_worker_without_a_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What no caller should do: it is said by a code, a message or a counted trouble, costs nothing else, and is never
 * undefined behaviour - which the sanitizers see to.
 */
#include "support/in_folder.h"
#include "support/native.h"

#include <math.h>
#include <setjmp.h>

/* Of what is bounded: 10,000,000 names and 100,000 threads take no more, but minutes on a busy machine. */
#define MANY_NAMES (LP_TEST_ASAN || LP_TEST_TSAN ? 100000u : 500000u)
#define MANY_THREADS 2000u

static void *leave_it(void *phase)
{
    lp_leave(phase);
    return NULL;
}

static void on_another_thread(void *(*function)(void *), void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static json_t *only_document(void)
{
    struct run_files files = run_files(folder);
    assert_int_equal(files.n, 1);
    json_t *document = file_document(files.paths[0]);
    run_files_free(&files);
    return document;
}

static void close_ok(lp_profiler *profiler)
{
    assert_int_equal(lp_close(profiler), 0);
}

/* ---- leaving --------------------------------------------------------------------------- */

/* Whatever is measured, an entry ends once. */
static void test_leaving_twice_and_by_copies(void **state)
{
    const uint32_t flags[] = {0, LP_IO, LP_IO | LP_SYNC | LP_GPU | LP_ASYNC_WORK};
    const char *const names[] = {"plain", "io", "all"};
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    for (size_t i = 0; i < 3; i++) {
        lp_phase outer = lp_enter(profiler, lp_intern("outer"));
        lp_phase phase = lp_enter(profiler, lp_with(lp_intern(names[i]), flags[i])), copy = phase, later = phase;
        lp_leave(&phase);
        lp_leave(&phase);
        lp_leave(&copy);
        lp_leave(&copy);
        lp_phase next = lp_enter(profiler, lp_with(lp_intern(names[i]), flags[i])); /* where the first one was */
        lp_leave(&later);
        on_another_thread(leave_it, &(lp_phase){later.thread, later.serial, later.frame, later.name, later.extras});
        lp_leave(&next);
        lp_leave(&outer);
    }
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "outer").calls, 3);
    assert_int_equal(figures_at(document, "outer/plain").calls, 2);
    assert_int_equal(figures_at(document, "outer/io").calls, 2);
    assert_int_equal(figures_at(document, "outer/all").calls, 2);
    assert_true(trouble_at(document, "lost_exits") >= 6);
    json_decref(document);
}

/* B8 */
static void test_leaving_on_another_thread_B8(void **state)
{
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    for (unsigned i = 0; i < 20; i++) {
        lp_phase outer = lp_enter(profiler, lp_intern("outer"));
        lp_phase phase = lp_enter(profiler, lp_with(lp_intern("inner"), i % 2 ? LP_IO : 0));
        lp_phase copy = phase;
        on_another_thread(leave_it, &phase);
        assert_null(phase.thread);
        lp_leave(&copy);
        lp_leave(&outer);
    }
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "outer/inner").calls, 20);
    assert_int_equal(trouble_at(document, "foreign_exits"), 20);
    json_decref(document);
}

static void test_leaving_out_of_order(void **state)
{
    lp_phase phases[8];
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    for (size_t i = 0; i < 8; i++)
        phases[i] = lp_enter(profiler, lp_with(lp_intern("level"), i % 2 ? LP_IO : 0));
    for (size_t i = 0; i < 8; i++)
        lp_leave(&phases[(i * 3 + 2) % 8]);
    assert_int_equal(lp_current(profiler, NULL, 0), 0);
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "level/level/level/level/level/level/level/level").calls, 1);
    json_decref(document);
}

static void *leave_open(void *profiler)
{
    lp_phase plain = lp_enter(profiler, lp_intern("left open"));
    lp_phase io = lp_enter(profiler, lp_with(lp_intern("io"), LP_IO));
    (void)plain;
    (void)io;
    return NULL;
}

/* They end with their thread. */
static void test_entries_that_are_never_left(void **state)
{
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    for (int i = 0; i < 200; i++)
        on_another_thread(leave_open, profiler);
    close_ok(profiler);
    json_t *document = only_document();
    assert_int_equal(figures_at(document, "left open").calls, 200);
    assert_int_equal(figures_at(document, "left open/io").calls, 200);
    assert_int_equal(json_array_size(json_object_get(document, "threads")), 1);
    json_decref(document);
}

static void test_thousands_of_nested_entries(void **state)
{
    enum { DEPTH = 5000 };
    lp_phase *phases = calloc(DEPTH, sizeof *phases);
    char *text = malloc(DEPTH * 4);
    (void)state;
    assert_true(phases && text);
    lp_profiler *profiler = open_quietly(folder);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < DEPTH; i++)
            phases[i] = lp_enter(profiler, lp_with(lp_intern("in"), i % 3 == 0 ? LP_IO : 0));
        size_t len = lp_current(profiler, text, DEPTH * 4);
        assert_int_equal(len, strlen(text));
        assert_int_equal(strncmp(text, "in/in/in/", 9), 0);
        for (int i = DEPTH; i-- > 0;)
            lp_leave(&phases[round ? DEPTH - 1 - i : i]);
        assert_int_equal(lp_current(profiler, text, DEPTH * 4), 0);
    }
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    assert_true(trouble_at(document, "folded_depth") >= 2 * (DEPTH - 64));
    json_decref(document);
    free(phases);
    free(text);
}

/* ---- names and numbers ------------------------------------------------------------------- */

static void test_numbers_that_are_no_names_are_counted(void **state)
{
    const lp_name bad[] = {0, 60000, 65535, 0x01000000, LP_IO, LP_IO | 60000, UINT32_MAX, 0x00ff0001, 0x0f000001};
    enum { BAD = sizeof bad / sizeof *bad };
    (void)state;
    assert_int_not_equal(lp_intern("one"), 0);
    lp_profiler *profiler = open_quietly(folder);
    for (size_t i = 0; i < BAD; i++) {
        lp_phase phase = lp_enter(profiler, bad[i]);
        assert_null(phase.thread);
        lp_leave(&phase);
    }
    assert_int_equal(lp_count(profiler, 0, 1), 0);
    assert_int_equal(lp_count(profiler, 60000, 1), 0);
    close_ok(profiler);
    json_t *document = only_document();
    assert_int_equal(trouble_at(document, "unnamed"), BAD);
    assert_int_equal(trouble_at(document, "lost_counters"), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes")),
                     1);
    json_decref(document);
}

static void test_flags_and_fractions_out_of_range(void **state)
{
    const double fractions[] = {0, -0.0, -1, 1.0000001, NAN, INFINITY, -INFINITY, 1e300};
    lp_name name = lp_intern("phase");
    (void)state;
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        assert_int_equal(lp_sampled(name, fractions[i]), 0);
        assert_non_null(strstr(lp_error_message(), "fraction"));
    }
    assert_int_equal(lp_sampled(name, 1), name);
    assert_int_not_equal(lp_sampled(name, 1e-300), 0);
    assert_int_equal(lp_sampled(0, 0.5), 0);
    for (uint32_t flag = 1; flag < LP_IO; flag <<= 1) {
        assert_int_equal(lp_with(name, flag), 0);
        assert_int_equal(lp_with(name, flag | LP_IO), 0);
        assert_non_null(strstr(lp_error_message(), "flag"));
    }
    assert_int_equal(lp_with(name, 0), name);
    assert_int_equal(lp_with(0, LP_IO), 0);
    lp_name all = lp_with(lp_sampled(name, 0.25), LP_IO | LP_ASYNC_WORK);
    assert_int_equal(lp_sampled(all, 1), lp_with(name, LP_IO | LP_ASYNC_WORK)); /* the last one counts */
    lp_profiler *profiler = open_quietly(folder);
    for (int i = 0; i < 8; i++) {
        lp_phase phase = lp_enter(profiler, all);
        assert_int_equal(lp_count(profiler, all, 1), 0); /* a counter has no fraction */
        lp_leave(&phase);
    }
    for (unsigned i = 1; i <= 400; i++) { /* more fractions than there is room for: then all are measured */
        lp_phase phase = lp_enter(profiler, lp_sampled(lp_intern("many"), 1.0 / (i + 1)));
        lp_leave(&phase);
    }
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    json_decref(document);
}

/* Also those that come from data: the first ones are kept, and no memory is used for more. */
static void test_millions_of_names(void **state)
{
    lp_profiler *profiler = open_quietly(folder);
    uint64_t refused = 0;
    char text[32];
    (void)state;
    for (unsigned i = 0; i < MANY_NAMES; i++) {
        int len = snprintf(text, sizeof text, "name %u", i);
        lp_name name = lp_intern_text(text, (size_t)len);
        refused += name == 0;
        if (i % 64 == 0) {
            lp_phase phase = lp_enter(profiler, name);
            lp_count(profiler, name, 1);
            lp_leave(&phase);
        }
    }
    assert_true(refused >= MANY_NAMES - 65535);
    assert_non_null(strstr(lp_error_message(), "no more than 65535 names"));
    assert_int_not_equal(lp_intern("name 7"), 0);
    enter_and_leave(profiler, "name 7");
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "name 7").calls, 1);
    assert_true(trouble_at(document, "folded_paths") > 0);
    assert_true(trouble_at(document, "lost_counters") > 0);
    json_decref(document);
}

static void test_names_with_bytes_of_any_kind(void **state)
{
    static const char *const texts[] = {"/", "a/b", "\xff\xfe", "\n", "\"\\", "\xed\xa0\x80", "\xf0\x9f\x98\x80", " "};
    const char with_nul[] = "a\0b";
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        enter_and_leave(profiler, texts[i]);
    lp_name name = lp_intern_text(with_nul, 3);
    assert_int_not_equal(name, lp_intern("a"));
    lp_phase phase = lp_enter(profiler, name);
    assert_int_equal(lp_current(profiler, NULL, 0), 3);
    lp_leave(&phase);
    assert_int_equal(lp_intern_text("x", 0), 0);
    assert_int_equal(lp_intern_text(NULL, 5), 0);
    assert_int_equal(lp_intern_text("x", SIZE_MAX), 0);
    char *long_one = malloc(1 << 20);
    assert_non_null(long_one);
    memset(long_one, 0xff, 1 << 20);
    assert_int_equal(lp_intern_text(long_one, 1 << 20), 0);
    assert_non_null(strstr(lp_error_message(), "UTF-8"));
    free(long_one);
    close_ok(profiler);
    json_t *document = only_document();
    assert_document_adds_up(document);
    json_decref(document);
}

static void test_texts_are_written_as_snprintf_does(void **state)
{
    char text[16], whole[4096];
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    lp_phase a = lp_enter(profiler, lp_intern("first")), b = lp_enter(profiler, lp_intern("second"));
    for (size_t size = 0; size < sizeof text; size++) {
        memset(text, '#', sizeof text);
        assert_int_equal(lp_current(profiler, text, size), 12);
        for (size_t i = size; i < sizeof text; i++)
            assert_int_equal(text[i], '#');
        if (size > 0)
            assert_int_equal(strncmp("first/second", text, size - 1), 0);
        if (size > 0)
            assert_int_equal(strlen(text), size - 1 < 12 ? size - 1 : 12);
    }
    assert_int_equal(lp_current(profiler, NULL, 100), 12);
    size_t (*const told[])(const lp_profiler *, char *, size_t) = {lp_run_dir, lp_run_id, lp_worker_file};
    for (size_t i = 0; i < 3; i++) {
        size_t len = told[i](profiler, whole, sizeof whole);
        assert_int_equal(strlen(whole), len);
        assert_int_equal(told[i](profiler, NULL, 0), len);
        assert_int_equal(told[i](profiler, NULL, 7), len);
        memset(text, '#', sizeof text);
        assert_int_equal(told[i](profiler, text, 3), len);
        assert_memory_equal(text, ((char[]){whole[0], whole[1], 0, '#'}), 4);
        assert_int_equal(told[i](NULL, text, sizeof text), 0);
        assert_string_equal(text, "");
    }
    lp_leave(&b);
    lp_leave(&a);
    close_ok(profiler);
}

/* ---- options -------------------------------------------------------------------------------- */

static void test_options_out_of_range(void **state)
{
    const double bad[] = {NAN, INFINITY, 1e-9, 0.0009, 1e10, 1e308, 4.9e-324};
    char *text = malloc(200000);
    (void)state;
    assert_non_null(text);
    memset(text, 'r', 199999);
    text[199999] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(lp_open(&(lp_options){.run_dir = folder, .snapshot_interval_s = bad[i]}));
        assert_non_null(strstr(lp_error_message(), "interval"));
        assert_null(lp_open(&(lp_options){.run_dir = folder, .sample_interval_s = bad[i]}));
        assert_non_null(strstr(lp_error_message(), "interval"));
    }
    assert_null(lp_open(&(lp_options){.run_dir = folder, .role = text}));
    assert_non_null(strstr(lp_error_message(), "role"));
    assert_null(lp_open(&(lp_options){.run_dir = folder, .run_id = text}));
    assert_non_null(strstr(lp_error_message(), "run_id"));
    assert_null(lp_open(&(lp_options){.run_dir = text}));
    assert_null(lp_open(&(lp_options){.run_dir = "/proc/a\nb"}));
    assert_null(strchr(lp_error_message(), '\n'));
    assert_null(lp_installed());
    /* Any negative interval is none. */
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = folder,
                                                  .role = "\xff\xfe odd \xc3",
                                                  .run_id = "../o d\xff\n/",
                                                  .snapshot_interval_s = -1e308,
                                                  .sample_interval_s = -INFINITY,
                                                  .no_cpu = -7,
                                                  .wait_detail = INT32_MIN,
                                                  .enabled = INT32_MAX,
                                                  .thread_names = INT32_MIN,
                                                  .measure_pss = -1});
    assert_non_null(profiler);
    enter_and_leave(profiler, "a");
    close_ok(profiler);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    lp_run_free(run);
    free(text);
}

/* What another header's structure might be. */
static void test_options_of_other_sizes(void **state)
{
    struct {
        lp_options known;
        char later[4000];
    } newer;
    (void)state;
    memset(&newer, 0xff, sizeof newer);
    newer.known = (lp_options){
        .run_dir = folder, .role = "newer", .run_id = "r", .snapshot_interval_s = -1, .sample_interval_s = -1};
    for (size_t size = 0; size <= sizeof(lp_options); size++) {
        lp_profiler *profiler = lp_open_sized(&newer.known, size);
        assert_int_equal(lp_is_enabled(profiler), size >= sizeof(char *));
        close_ok(profiler);
    }
    close_ok(lp_open_sized(&newer.known, sizeof newer));
    close_ok(lp_open_sized(&newer.known, SIZE_MAX));
    close_ok(lp_open_sized(NULL, 0));
    close_ok(lp_open_sized(NULL, SIZE_MAX));
}

/* ---- before, after, none --------------------------------------------------------------------- */

static void use_all(lp_profiler *profiler)
{
    char text[64] = "#";
    for (uint32_t flags = 0; flags <= LP_GPU; flags += LP_IO) {
        lp_phase phase = lp_enter(profiler, lp_with(lp_sampled(lp_intern("name"), 0.5), flags));
        assert_null(phase.thread);
        lp_leave(&phase);
    }
    lp_leave(NULL);
    assert_int_equal(lp_count(profiler, lp_intern("n"), INT64_MIN), 0);
    assert_int_equal(lp_current(profiler, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(lp_is_enabled(profiler), 0);
    assert_int_equal(lp_snapshot(profiler), 0);
    assert_int_equal(lp_close(profiler), 0);
    assert_null(lp_installed());
    lp_name_thread("a thread");
    lp_name_thread(NULL);
    lp_name_thread("");
    lp_use_stream(NULL);
    LP_PHASE("macro");
    LP_PHASE_WITH("bad fraction", 0, 2.0);
    LP_PHASE_WITH("bad flag", 1, 0.5);
    LP_COUNT("macro", 1);
    assert_non_null(lp_error_message());
    assert_int_equal(strlen(lp_version()) > 0, 1);
    assert_non_null(lp_table());
}

static void test_all_functions_before_opening_and_after_closing(void **state)
{
    (void)state;
    use_all(NULL);
    lp_profiler *off = lp_open(&(lp_options){.enabled = -1, .run_dir = folder});
    assert_non_null(off);
    use_all(off);
    lp_profiler *profiler = open_quietly(folder);
    lp_phase across = lp_enter(profiler, lp_with(lp_intern("across"), LP_IO));
    close_ok(profiler);
    lp_leave(&across);
    use_all(profiler);
    lp_profiler *again = open_quietly(folder);
    assert_true(again != profiler && lp_installed() == again);
    assert_int_equal(lp_close(profiler), 0); /* not the one that is open now */
    assert_true(lp_installed() == again && lp_is_enabled(again));
    enter_and_leave(again, "again");
    close_ok(again);
    use_all(again);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 2);
    assert_int_equal(calls_at(run, "again"), 1);
    assert_int_equal(open_at(run, "across"), 1);
    assert_null(phase_at(run, "name"));
    lp_run_free(run);
}

/* Whoever asks again is told the same. */
static void *close_again(void *profiler)
{
    assert_string_equal(lp_error_message(), "");
    assert_int_equal(lp_close(profiler), -1);
    assert_non_null(strstr(lp_error_message(), folder));
    return NULL;
}

static void test_a_close_that_failed_goes_on_failing(void **state)
{
    char path[4096];
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    enter_and_leave(profiler, "a");
    lp_worker_file(profiler, path, sizeof path);
    *strrchr(path, '/') = '\0';
    folder_empty(path);
    rmdir(path);
    file_write(path, "", 0);
    assert_int_equal(lp_close(profiler), -1);
    assert_non_null(strstr(lp_error_message(), folder));
    on_another_thread(close_again, profiler);
    assert_int_equal(unlink(path), 0);
    struct lp_run *run = run_read(folder); /* from its image */
    assert_int_equal(calls_at(run, "a"), 1);
    lp_run_free(run);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static size_t memory_bytes(void)
{
    unsigned long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int descriptors(void)
{
    return folder_each("/proc/self/fd", NULL, NULL);
}

static atomic_uint number_of_thread;

static void *record_in_thread(void *profiler)
{
    char name[32];
    snprintf(name, sizeof name, "thread-%u", atomic_fetch_add(&number_of_thread, 1));
    lp_name_thread(name);
    lp_phase phase = lp_enter(profiler, lp_intern("work"));
    lp_count(profiler, lp_intern("n"), 1);
    lp_leave(&phase);
    return NULL;
}

/* Each with a name of its own. Later ones take over what earlier ones leave. */
static void run_many_threads(lp_profiler *profiler, unsigned n, uint64_t image_bytes_at_most)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    size_t before = 0;
    int open_before = 0;
    for (unsigned i = 0; i < n; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, &small, record_in_thread, profiler), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (i == n / 2) {
            before = memory_bytes();
            open_before = descriptors();
        }
    }
    pthread_attr_destroy(&small);
    assert_int_equal(descriptors(), open_before);
    if (!LP_TEST_ASAN && !LP_TEST_TSAN) /* which keep memory to themselves */
        assert_true(memory_bytes() < before + (2 << 20));
    close_ok(profiler);
    json_t *document = only_document();
    assert_int_equal(figures_at(document, "work").calls, n);
    assert_true(json_array_size(json_object_get(document, "threads")) <= 2048);
    assert_true(json_u64(json_object_get(document, "image"), "bytes", 0) <= image_bytes_at_most);
    assert_int_equal(trouble_at(document, "image_full"), 0);
    json_decref(document);
}

static void test_threads_one_after_the_other(void **state)
{
    (void)state;
    run_many_threads(open_quietly(folder), MANY_THREADS, 1 << 20);
    assert_int_not_equal(lp_intern("a name is still to be had"), 0);
}

static void test_threads_that_are_kept_apart(void **state)
{
    (void)state;
    run_many_threads(lp_open(&(lp_options){
                         .run_dir = folder, .thread_names = 1, .snapshot_interval_s = -1, .sample_interval_s = -1}),
                     2300, 64 << 20);
    assert_int_not_equal(lp_intern("a name is still to be had here"), 0);
}

/* A character of UTF-8 is not cut in two. */
static void test_names_of_threads_are_cut(void **state)
{
    (void)state;
    lp_profiler *profiler = lp_open(
        &(lp_options){.run_dir = folder, .thread_names = 1, .snapshot_interval_s = -1, .sample_interval_s = -1});
    char long_name[200];
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name + 61, "\xf0\x9f\x98\x80", 4);
    long_name[199] = '\0';
    lp_name_thread(long_name);
    enter_and_leave(profiler, "a");
    lp_phase open = lp_enter(profiler, lp_intern("open"));
    lp_name_thread(long_name);
    assert_int_equal(lp_current(profiler, NULL, 0), 4); /* as ever */
    lp_leave(&open);
    assert_int_equal(lp_current(profiler, NULL, 0), 0);
    close_ok(profiler);
    lp_name_thread(NULL);
    json_t *document = only_document();
    const json_t *thread = json_array_get(json_object_get(document, "threads"), 0);
    assert_int_equal(strlen(text_at(thread, "name")), 61);
    json_decref(document);
}

static struct {
    jmp_buf env;
    lp_phase entry;
} guard;

static void jump_out_of_a_block(void)
{
    LP_PHASE("block");
    longjmp(guard.env, 1);
}

static void jump_out_of_a_kept_entry(void)
{
    guard.entry = lp_enter(lp_installed(), lp_intern("kept"));
    longjmp(guard.env, 1);
}

/* No cleanup runs in C, so the entry is left where the jump lands, or not at all. */
static void test_entries_that_longjmp_jumps_over(void **state)
{
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    if (setjmp(guard.env) == 0)
        jump_out_of_a_kept_entry();
    else
        lp_leave(&guard.entry);
    assert_int_equal(lp_current(profiler, NULL, 0), 0);
    if (setjmp(guard.env) == 0)
        jump_out_of_a_block();
    {
        LP_PHASE("after");
    }
    close_ok(profiler);
    struct lp_run *run = run_read(folder);
    assert_int_equal(calls_at(run, "kept"), 1);
    assert_int_equal(phase_at(run, "kept")->open_calls, 0);
    assert_int_equal(calls_at(run, "block"), 0);
    assert_int_equal(phase_at(run, "block")->open_calls, 1);
    assert_int_equal(calls_at(run, "block/after"), 1);
    lp_run_free(run);
}

static atomic_bool enough;

static void *record_until_enough(void *context)
{
    lp_profiler *profiler = context;
    lp_name io = lp_with(lp_intern("io"), LP_IO);
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        char text[128];
        lp_phase outer = lp_enter(profiler, lp_intern("outer")), inner = lp_enter(profiler, io);
        lp_count(profiler, lp_intern("n"), 1);
        lp_current(profiler, text, sizeof text);
        lp_worker_file(profiler, text, sizeof text);
        LP_PHASE("macro");
        lp_leave(&inner);
        lp_leave(&outer);
    }
    return NULL;
}

static void *close_it(void *profiler)
{
    return lp_close(profiler) == 0 ? NULL : profiler;
}

static void test_closing_while_others_record(void **state)
{
    enum { THREADS = 4, ROUNDS = 10 };
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS], closers[2];
        lp_profiler *profiler =
            round % 2 ? open_quietly(folder) : lp_open(&(lp_options){.run_dir = folder, .run_id = "one"});
        assert_non_null(profiler);
        atomic_store(&enough, false);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, record_until_enough, profiler), 0);
        lp_snapshot(profiler);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&closers[i], NULL, close_it, profiler), 0);
        for (int i = 0; i < 2; i++) {
            void *failed;
            assert_int_equal(pthread_join(closers[i], &failed), 0);
            assert_null(failed);
        }
        assert_int_equal(lp_is_enabled(profiler), 0);
        atomic_store(&enough, true);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, ROUNDS);
    lp_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_all_functions_before_opening_and_after_closing),
        in_folder(test_leaving_twice_and_by_copies),
        in_folder(test_leaving_on_another_thread_B8),
        in_folder(test_leaving_out_of_order),
        in_folder(test_entries_that_are_never_left),
        in_folder(test_entries_that_longjmp_jumps_over),
        in_folder(test_thousands_of_nested_entries),
        in_folder(test_numbers_that_are_no_names_are_counted),
        in_folder(test_flags_and_fractions_out_of_range),
        in_folder(test_names_with_bytes_of_any_kind),
        in_folder(test_texts_are_written_as_snprintf_does),
        in_folder(test_options_out_of_range),
        in_folder(test_options_of_other_sizes),
        in_folder(test_a_close_that_failed_goes_on_failing),
        in_folder(test_names_of_threads_are_cut),
        in_folder(test_threads_one_after_the_other),
        in_folder(test_threads_that_are_kept_apart),
        in_folder(test_closing_while_others_record),
        in_folder(test_millions_of_names), /* the last one: it leaves no place for others */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The public interface: defaults, the environment, and calls that must do nothing. */
#include "support/worker.h"

#include <lineprofiler.h>
#include <math.h>
#include <pthread.h>

static char *folder, *before;

static int enter_folder(void **state)
{
    (void)state;
    folder = folder_make();
    before = getcwd(NULL, 0);
    assert_int_equal(chdir(folder), 0);
    unsetenv("LINEPROFILER_RUN_DIR");
    unsetenv("LINEPROFILER_RUN_ID");
    unsetenv("LINEPROFILER_ROLE");
    return 0;
}

static int leave_folder(void **state)
{
    (void)state;
    assert_int_equal(chdir(before), 0);
    free(before);
    folder_remove(folder);
    return 0;
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

/* The one worker file of a run. */
static json_t *only_document(const char *run_dir)
{
    struct run_files files = run_files(run_dir);
    assert_int_equal(files.n, 1);
    json_t *document = file_document(files.paths[0]);
    run_files_free(&files);
    return document;
}

/* E4, E5, E10 */
static void test_defaults(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.enabled = 1});
    char host[256] = "";
    (void)state;
    assert_non_null(profiler);
    gethostname(host, sizeof host - 1);
    assert_int_equal(chdir("/"), 0); /* absolute from the beginning */
    lp_phase phase = lp_enter(profiler, lp_intern("a"));
    lp_leave(&phase);
    assert_int_equal(lp_close(profiler), 0);
    assert_int_equal(chdir(folder), 0);
    json_t *document = only_document("profile");
    assert_string_equal(text_at(document, "role"), "main");
    assert_string_equal(text_at(document, "run_id_origin"), "generated");
    const json_t *settings = json_object_get(document, "settings");
    assert_true(json_is_true(json_object_get(settings, "measure_cpu")));
    assert_true(json_is_false(json_object_get(settings, "thread_names")));
    assert_true(json_real_value(json_object_get(settings, "snapshot_interval_s")) == 30.0);
    assert_true(json_real_value(json_object_get(settings, "sample_interval_s")) == 1.0);
    assert_int_equal(figures_at(document, "a").calls, 1);
    json_decref(document);
}

static void test_the_environment_fills_in(void **state)
{
    (void)state;
    setenv("LINEPROFILER_RUN_DIR", "from/environment", 1);
    setenv("LINEPROFILER_RUN_ID", "env-run", 1);
    setenv("LINEPROFILER_ROLE", "env role", 1);
    assert_int_equal(lp_close(lp_open(&(lp_options){.enabled = 1, .snapshot_interval_s = -1, .sample_interval_s = -1})),
                     0);
    json_t *document = only_document("from/environment");
    assert_string_equal(text_at(document, "role"), "env role");
    assert_string_equal(text_at(document, "run_id"), "env-run");
    assert_string_equal(text_at(document, "run_id_origin"), "inherited");
    const json_t *settings = json_object_get(document, "settings");
    assert_true(json_is_null(json_object_get(settings, "snapshot_interval_s")));
    assert_true(json_is_null(json_object_get(settings, "sample_interval_s")));
    json_decref(document);

    assert_int_equal(lp_close(lp_open(&(lp_options){.run_dir = "given", .run_id = "mine", .role = "own"})), 0);
    document = only_document("given");
    assert_string_equal(text_at(document, "role"), "own");
    assert_string_equal(text_at(document, "run_id"), "mine");
    assert_string_equal(text_at(document, "run_id_origin"), "given");
    json_decref(document);
}

/* E1: without a variable, a child is in the run of its parent. */
static void test_a_child_joins_its_parents_run_E1(void **state)
{
    int status;
    (void)state;
    if (access("/dev/shm", W_OK) != 0)
        skip();
    const lp_options options = {.run_dir = "run", .run_id = "one", .snapshot_interval_s = -1, .sample_interval_s = -1};
    lp_profiler *profiler = lp_open(&options);
    assert_non_null(profiler);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        CHECK(mkdir("elsewhere", 0700) == 0 && chdir("elsewhere") == 0);
        _exit(lp_close(lp_open(&(lp_options){.role = "child"})) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(lp_close(profiler), 0);
    struct run_files files = run_files("run");
    assert_int_equal(files.n, 2);
    for (int i = 0; i < files.n; i++) {
        json_t *document = file_document(files.paths[i]);
        bool child = strcmp(text_at(document, "role"), "child") == 0;
        assert_string_equal(text_at(document, "run_id"), "one");
        assert_string_equal(text_at(document, "run_id_origin"), child ? "inherited" : "given");
        json_decref(document);
    }
    run_files_free(&files);
}

static void record(const char *name)
{
    lp_phase phase = lp_enter(lp_installed(), lp_intern(name));
    lp_leave(&phase);
}

static void open_before_the_first_phase(void *context)
{
    (void)context;
    lp_profiler *own = lp_open(&(lp_options){.role = "child"});
    CHECK(lp_installed() == own);
    record("childs");
    CHECK(lp_close(own) == 0 && lp_installed() == NULL);
}

static void open_after_the_first_phase(void *context)
{
    (void)context;
    lp_profiler *parents = lp_installed();
    record("goes_on");
    lp_profiler *own = lp_open(&(lp_options){.role = "child"});
    CHECK(lp_installed() == parents);
    CHECK(lp_close(own) == 0 && lp_close(parents) == 0);
}

/* The macros record as what the child is, and not as its parent, unless it went on as such. */
static void test_a_childs_own_profiler_replaces_its_parents(void **state)
{
    (void)state;
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run", .run_id = "one"});
    record("parents");
    setenv("LINEPROFILER_RUN_DIR", "run", 1); /* where there is no /dev/shm to find the parent in */
    in_child(open_before_the_first_phase, NULL);
    in_child(open_after_the_first_phase, NULL);
    assert_ptr_equal(lp_installed(), profiler);
    assert_int_equal(lp_close(profiler), 0);
    struct run_files files = run_files("run");
    int childs = 0;
    for (int i = 0; i < files.n; i++) {
        json_t *document = file_document(files.paths[i]);
        if (figures_at(document, "childs").calls == 1) {
            assert_string_equal(text_at(document, "role"), "child");
            childs++;
        }
        json_decref(document);
    }
    assert_int_equal(childs, 1);
    assert_int_equal(files.n, 4); /* the parent, the child, and the other one twice */
    run_files_free(&files);
    assert_int_equal(files_with_calls("run", "goes_on", 1), 1);
}

static void test_failures_are_explained(void **state)
{
    char *path = malloc(6000);
    (void)state;
    assert_non_null(path);
    assert_string_equal(lp_error_message(), "");
    assert_null(lp_open(&(lp_options){.run_dir = "/proc/nowhere"}));
    assert_non_null(strstr(lp_error_message(), "/proc/nowhere"));
    assert_null(lp_open(&(lp_options){.run_dir = "x", .sample_interval_s = NAN}));
    assert_non_null(strstr(lp_error_message(), "interval"));
    assert_null(lp_open(&(lp_options){.run_dir = "x", .snapshot_interval_s = INFINITY}));
    memset(path, 'd', 5999);
    path[5999] = '\0';
    assert_null(lp_open(&(lp_options){.run_dir = path}));
    assert_non_null(strstr(lp_error_message(), strerror(ENAMETOOLONG)));
    assert_null(strchr(lp_error_message(), '\n'));
    free(path);
    assert_int_equal(folder_each(folder, NULL, NULL), 0);
}

static void *no_message_here(void *context)
{
    return lp_error_message()[0] ? context : NULL;
}

static void test_messages_are_each_threads_own(void **state)
{
    pthread_t thread;
    void *failed;
    (void)state;
    assert_null(lp_open(&(lp_options){.run_dir = "/proc/nowhere"}));
    assert_int_equal(pthread_create(&thread, NULL, no_message_here, folder), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

static void test_a_removed_working_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir("gone", 0700), 0);
    assert_int_equal(chdir("gone"), 0);
    assert_int_equal(rmdir("../gone"), 0);
    assert_null(lp_open(&(lp_options){.run_dir = "run"}));
    assert_non_null(strstr(lp_error_message(), "run"));
    assert_int_equal(chdir(folder), 0);
}

static void use(lp_profiler *profiler)
{
    lp_phase phase = lp_enter(profiler, lp_intern("late"));
    assert_null(phase.thread);
    lp_leave(&phase);
    assert_int_equal(lp_count(profiler, lp_intern("n"), 1), 0);
    assert_int_equal(lp_snapshot(profiler), 0);
    assert_int_equal(lp_close(profiler), 0);
}

static void test_null_and_closed_do_nothing(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run"});
    (void)state;
    use(NULL);
    lp_leave(NULL);
    lp_phase open = lp_enter(profiler, lp_intern("open"));
    assert_int_equal(lp_close(profiler), 0);
    lp_leave(&open);
    use(profiler);
    json_t *document = only_document("run");
    assert_int_equal(figures_at(document, "late").nodes, 0);
    assert_int_equal(figures_at(document, "open").open_calls, 1);
    json_decref(document);
}

static void test_bad_names(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run"});
    char *text = calloc(1, (1 << 20) + 2);
    (void)state;
    assert_non_null(text);
    assert_int_equal(lp_intern(NULL), 0);
    assert_int_equal(lp_intern(""), 0);
    memset(text, 'n', (1 << 20) + 1);
    assert_int_equal(lp_intern(text), 0);
    text[1 << 20] = '\0';
    assert_int_not_equal(lp_intern(text), 0);
    free(text);
    const lp_name bad[] = {0, 64000, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lp_phase phase = lp_enter(profiler, bad[i]);
        lp_leave(&phase);
        assert_int_equal(lp_count(profiler, bad[i], 1), 0);
    }
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    const json_t *threads = json_object_get(document, "threads");
    if (json_array_size(threads) > 0)
        assert_int_equal(json_array_size(json_object_get(json_array_get(threads, 0), "nodes")), 1);
    json_decref(document);
}

static void test_a_count_beyond_64_bits(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run"});
    struct counter_figures n;
    (void)state;
    assert_int_equal(lp_count(profiler, lp_intern("n"), INT64_MAX), 0);
    assert_int_equal(lp_count(profiler, lp_intern("n"), 1), -1);
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    assert_true(counter_at(document, "", "n", &n));
    assert_true(n.sum == INT64_MAX && n.calls == 1);
    assert_int_equal(trouble_at(document, "counter_overflows"), 1);
    json_decref(document);
}

static void test_a_snapshot_that_fails_says_why(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run", .snapshot_interval_s = -1});
    (void)state;
    assert_int_equal(lp_snapshot(profiler), 0);
    folder_empty("run");
    file_write("run", "", 0); /* where a directory should be */
    assert_int_equal(lp_snapshot(profiler), -1);
    assert_non_null(strstr(lp_error_message(), strerror(ENOTDIR)));
    assert_int_equal(unlink("run"), 0);
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    assert_int_equal(trouble_at(document, "failed_flushes"), 1);
    json_decref(document);
}

/* Two profilers on one thread, also with the same run: two workers. */
static void test_two_profilers(void **state)
{
    lp_profiler *one = lp_open(&(lp_options){.run_dir = "run", .run_id = "r"});
    lp_profiler *two = lp_open(&(lp_options){.run_dir = "run", .run_id = "r", .no_cpu = 1});
    (void)state;
    for (int i = 0; i < 10; i++) {
        lp_phase a = lp_enter(one, lp_intern("a")), b = lp_enter(two, lp_intern("b"));
        lp_leave(&a);
        lp_leave(&b);
    }
    assert_int_equal(lp_close(two), 0);
    assert_int_equal(lp_close(one), 0);
    assert_int_equal(files_with_calls("run", "a", 10), 1);
    assert_int_equal(files_with_calls("run", "b", 10), 1);
}

static void test_strings_are_copied(void **state)
{
    char run_dir[] = "run", role[] = "actor", run_id[] = "one", text[64];
    (void)state;
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = run_dir, .role = role, .run_id = run_id});
    memset(run_dir, 'x', 3);
    memset(role, 'x', 5);
    memset(run_id, 'x', 3);
    assert_int_equal(lp_run_id(profiler, text, sizeof text), 3);
    assert_string_equal(text, "one");
    char name[] = "name";
    lp_name number = lp_intern(name);
    memset(name, 'x', 4);
    lp_phase phase = lp_enter(profiler, number);
    lp_leave(&phase);
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    assert_string_equal(text_at(document, "role"), "actor");
    assert_int_equal(figures_at(document, "name").calls, 1);
    json_decref(document);
}

static void test_strict_names(void **state)
{
    (void)state;
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run", .strict_names = 1});
    for (int i = 0; i < 3; i++) {
        lp_phase good = lp_enter(profiler, lp_intern("episode_1"));
        lp_phase bad = lp_enter(profiler, lp_intern("episode_22"));
        assert_null(bad.thread);
        assert_non_null(strstr(lp_error_message(), "episode_22"));
        lp_leave(&bad);
        lp_leave(&good);
    }
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    assert_int_equal(figures_at(document, "episode_1").calls, 3);
    assert_int_equal(figures_at(document, "episode_1").nodes, 1);
    assert_int_equal(trouble_at(document, "refused_names"), 3);
    json_decref(document);
}

static void test_which_of_its_role_it_is(void **state)
{
    (void)state;
    for (uint32_t index = 0; index < 2; index++) {
        const lp_options options = {.run_dir = "run", .role = "env", .has_index = index == 0, .index = index};
        lp_profiler *profiler = lp_open(&options);
        char path[4096];
        assert_true(lp_worker_file(profiler, path, sizeof path) < sizeof path);
        assert_int_equal(lp_snapshot(profiler), 0);
        json_t *document = json_load_file(path, 0, NULL);
        assert_non_null(document);
        const json_t *written = json_object_get(document, "index");
        if (index == 0)
            assert_true(json_is_integer(written) && json_integer_value(written) == 0);
        else
            assert_null(written); /* the number alone says nothing: zero is the default */
        json_decref(document);
        assert_int_equal(lp_close(profiler), 0);
    }
}

/* The first one that was opened while there was none, until it is closed. */
static void test_which_one_is_installed(void **state)
{
    const lp_options options = {.run_dir = "run", .run_id = "r", .snapshot_interval_s = -1, .sample_interval_s = -1};
    lp_options apart = options;
    (void)state;
    apart.not_installed = 1;
    lp_profiler *never = lp_open(&apart);
    assert_null(lp_installed());
    lp_profiler *first = lp_open(&options), *second = lp_open(&options);
    assert_true(lp_installed() == first);
    assert_int_equal(lp_close(second), 0);
    assert_true(lp_installed() == first);
    lp_profiler *third = lp_open(&options);
    assert_int_equal(lp_close(first), 0);
    assert_null(lp_installed());
    lp_profiler *fourth = lp_open(&options);
    assert_true(lp_installed() == fourth);
    assert_int_equal(lp_close(fourth) | lp_close(third) | lp_close(never), 0);
}

/* The first, and then every so many; nothing inside the others. */
static void test_a_fraction_of_the_entries(void **state)
{
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "run"});
    lp_name quarter = lp_sampled(lp_intern("quarter"), 0.25);
    char text[64];
    (void)state;
    for (int i = 0; i < 40; i++) {
        lp_phase outer = lp_enter(profiler, quarter), inner = lp_enter(profiler, lp_with(lp_intern("in"), LP_IO));
        assert_int_equal(lp_current(profiler, text, sizeof text), i % 4 == 0 ? 10 : 7);
        lp_leave(&inner);
        lp_leave(&outer);
    }
    assert_int_equal(lp_close(profiler), 0);
    json_t *document = only_document("run");
    assert_int_equal(figures_at(document, "quarter").calls, 40);
    assert_int_equal(figures_at(document, "quarter/in").calls, 40);
    json_decref(document);
}

/* No later field may lie where a program of today has padding, or a structure of another size. */
static void test_the_layout_has_no_room_to_spare(void **state)
{
    (void)state;
    assert_int_equal(sizeof(lp_options), offsetof(lp_options, index) + sizeof(uint32_t));
    assert_int_equal(sizeof(lp_api), offsetof(lp_api, use_stream) + sizeof(void (*)(void)));
    assert_int_equal(lp_table()->size, sizeof(lp_api));
    assert_int_equal(sizeof(lp_phase), 2 * sizeof(void *) + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_child_joins_its_parents_run_E1),
        in_folder(test_a_childs_own_profiler_replaces_its_parents),
        in_folder(test_failures_are_explained),
        in_folder(test_defaults),
        in_folder(test_the_environment_fills_in),
        in_folder(test_messages_are_each_threads_own),
        in_folder(test_a_removed_working_directory),
        in_folder(test_null_and_closed_do_nothing),
        in_folder(test_bad_names),
        in_folder(test_a_count_beyond_64_bits),
        in_folder(test_a_snapshot_that_fails_says_why),
        in_folder(test_two_profilers),
        in_folder(test_strings_are_copied),
        in_folder(test_strict_names),
        in_folder(test_which_of_its_role_it_is),
        in_folder(test_which_one_is_installed),
        in_folder(test_a_fraction_of_the_entries),
        in_folder(test_the_layout_has_no_room_to_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

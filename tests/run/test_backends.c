/* What heavy profilers left: K9. */
#include <fcntl.h>

#include "support.h"

#include "run/backends.h"
#include "run/scan.h"

static char *folder;
static struct lp_run *run;

static int begin(void **state)
{
    (void)state;
    folder = make_folder();
    return 0;
}

static int end(void **state)
{
    (void)state;
    lp_run_free(run);
    run = NULL;
    remove_folder(folder);
    return 0;
}

static void put_worker(const char *worker, const char *state, const char *ended)
{
    write_worker(folder, &(struct spec){.worker = worker, .state = state, .ended = ended});
}

#define NOTE(worker, run_id, state, artifact)                                                                          \
    "{\"format\":\"lineprofiler-backend\",\"version\":1,\"worker\":\"" worker "\",\"run_id\":\"" run_id "\","          \
    "\"role\":\"actor\",\"backend\":\"torch\",\"window_phase\":\"a\\\\\\\\b\",\"window\":[3,6],\"entries\":6,"         \
    "\"state\":\"" state "\","                                                                                         \
    "\"artifact\":" artifact ",\"bytes\":7,\"reason\":null,\"errors\":0,\"error\":null}"

static void write_note(const char *worker, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "backend/%s.json", worker);
    write_bytes(folder, path, text, strlen(text));
}

static const struct lp_run_backend *load_one(void)
{
    char message[256];
    if (lp_run_load(&run, folder, &(struct lp_run_options){.no_images = true}, message, sizeof message) != LP_RUN_OK)
        fail_msg("%s", message);
    assert_int_equal(run->n_backends, 1);
    return &run->backends[0];
}

#define W "w_r1_4242_00000001"

static void test_an_artifact_is_as_large_as_it_is(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_note(W, NOTE(W, "r1", "written", "\"backend/torch_trace." W ".json\""));
    write_bytes(folder, "backend/torch_trace." W ".json", "12345", 5);
    const struct lp_run_backend *found = load_one();
    assert_int_equal(found->state, LP_BACKEND_WRITTEN);
    assert_int_equal(found->bytes, 5);
    assert_int_equal(found->start, 3);
    assert_int_equal(found->end, 6);
    assert_int_equal(found->worker_index, 0);
    assert_string_equal(found->window_phase.bytes, "a\\b");
    assert_string_equal(found->path, "backend/torch_trace." W ".json");
}

static void test_a_folder_counts_as_noted(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_note(W, NOTE(W, "r1", "written", "\"backend/jax_trace." W "\""));
    write_bytes(folder, "backend/jax_trace." W "/plugins/x", "12345", 5);
    const struct lp_run_backend *found = load_one();
    assert_int_equal(found->state, LP_BACKEND_WRITTEN);
    assert_int_equal(found->bytes, 7);
}

static void test_an_artifact_that_is_gone_or_a_link(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_note(W, NOTE(W, "r1", "written", "\"backend/torch_trace." W ".json\""));
    assert_int_equal(load_one()->state, LP_BACKEND_MISSING);
    lp_run_free(run);
    char path[512];
    snprintf(path, sizeof path, "%s/backend/torch_trace." W ".json", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(load_one()->state, LP_BACKEND_MISSING);
}

static void test_an_open_window_is_cut_off_when_its_worker_ended(void **state)
{
    (void)state;
    write_note(W, NOTE(W, "r1", "open", "null"));
    put_worker(W, "running", NULL);
    assert_false(load_one()->cut_off);
    lp_run_free(run);
    put_worker(W, "running", "{\"signal\":9,\"exit_status\":null}");
    const struct lp_run_backend *found = load_one();
    assert_int_equal(found->state, LP_BACKEND_OPEN);
    assert_true(found->cut_off);
}

static void test_other_attempts_and_strangers_are_passed_over(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_note(W, NOTE(W, "r1", "none", "null"));
    write_note("w_r0_1_00000009", NOTE("w_r0_1_00000009", "r0", "none", "null"));
    write_note("w_r0_1_00000008", "{");
    write_bytes(folder, "backend/torch_trace.json", "{}", 2);
    write_bytes(folder, "backend/torch_trace.w_r0_1_00000009.json", "{}", 2);
    write_bytes(folder, "backend/.torch_trace." W ".json", "{}", 2);
    write_bytes(folder, "backend/notes.txt", "{}", 2);
    const struct lp_run_backend *found = load_one();
    assert_int_equal(found->state, LP_BACKEND_NONE);
    assert_null(found->path);
    assert_null(found->reason.bytes);
}

static void test_an_artifact_without_a_note(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_bytes(folder, "backend/viztracer." W ".json", "1234", 4);
    const struct lp_run_backend *found = load_one();
    assert_int_equal(found->state, LP_BACKEND_UNNOTED);
    assert_int_equal(found->bytes, 4);
    assert_null(found->backend.bytes);
}

static void test_notes_that_cannot_be_read_are_named(void **state)
{
    static const struct {
        const char *from, *to, *reason;
    } wrong[] = {
        {"{\"format\"", "\"format\"", "not JSON"},
        {"lineprofiler-backend", "lineprofiler-worker", "format: not lineprofiler-backend"},
        {"\"version\":1", "\"version\":2", "version 2: 1 is read"},
        {"\"role\":\"actor\"", "\"role\":7", "role: a string or null expected, found an integer"},
        {"\"backend\":\"torch\"", "\"backend\":null", "null where a text is expected"},
        {"a\\\\\\\\b", "a\\\\b", "window_phase: an escape that is none"},
        {"[3,6]", "[3]", "window: an integer expected, found nothing"},
        {"[3,6]", "[-3,6]", "window: negative"},
        {"\"entries\":6", "\"entries\":1.5", "entries: an integer expected, found a fraction"},
        {"\"written\"", "\"gone\"", "state: unknown"},
        {"\"backend/t\"", "\"../t\"", "artifact: no name of a file in backend"},
        {"\"backend/t\"", "\"backend/../t\"", "artifact: no name of a file in backend"},
        {"\"backend/t\"", "\"backend/a/t\"", "artifact: no name of a file in backend"},
        {"\"backend/t\"", "null", "artifact: no name of a file in backend"},
        {"\"bytes\":7", "\"bytes\":-7", "bytes: negative"},
        {"\"errors\":0,", "", "errors: missing"},
    };
    (void)state;
    put_worker(W, NULL, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *text = swapped(NOTE(W, "r1", "written", "\"backend/t\""), wrong[i].from, wrong[i].to);
        write_note(W, text);
        free(text);
        const struct lp_run_backend *found = load_one();
        assert_int_equal(found->state, LP_BACKEND_UNREADABLE);
        assert_string_equal(found->reason.bytes, wrong[i].reason);
        assert_string_equal(found->path, "backend/" W ".json");
        assert_string_equal(found->worker.bytes, W);
        lp_run_free(run);
        run = NULL;
    }
}

static void test_a_folder_in_the_place_of_a_note(void **state)
{
    (void)state;
    put_worker(W, NULL, NULL);
    write_bytes(folder, "backend/" W ".json/x", "", 0);
    assert_string_equal(load_one()->reason.bytes, "a directory, not a file");
}

static void test_no_link_is_followed_to_the_folder(void **state)
{
    (void)state;
    char path[512];
    put_worker(W, NULL, NULL);
    write_bytes(folder, "elsewhere/viztracer." W ".json", "1234", 4);
    snprintf(path, sizeof path, "%s/backend", folder);
    assert_int_equal(symlink("elsewhere", path), 0);
    char message[256];
    assert_int_equal(lp_run_load(&run, folder, &(struct lp_run_options){.no_images = true}, message, sizeof message),
                     LP_RUN_OK);
    assert_int_equal(run->n_backends, 0);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_an_artifact_is_as_large_as_it_is),
        in_folder(test_a_folder_counts_as_noted),
        in_folder(test_an_artifact_that_is_gone_or_a_link),
        in_folder(test_an_open_window_is_cut_off_when_its_worker_ended),
        in_folder(test_other_attempts_and_strangers_are_passed_over),
        in_folder(test_an_artifact_without_a_note),
        in_folder(test_notes_that_cannot_be_read_are_named),
        in_folder(test_a_folder_in_the_place_of_a_note),
        in_folder(test_no_link_is_followed_to_the_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

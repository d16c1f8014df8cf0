/* Documents that are taken while entries are open on several strands, or have ended where their own thread was not. */
#include "support/recording.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "run/document.h"

/* As a reader of files takes it; closed, so that nothing may be apart. */
static void assert_is_accepted(struct recording *recording)
{
    struct lp_run_document document = {0};
    struct lp_run_fault fault = {0};
    struct lp_buffer text = {0};
    struct lp_emit emit;
    struct lp_view view;
    struct lp_stamp now = lp_stamp_now();
    static const char facts[] =
        "\"worker\":\"w_x_1_0\",\"run_id\":\"x\",\"role\":\"r\",\"pid\":1,\"parent_pid\":1,\"host\":\"h\","
        "\"rank\":null,\"world_size\":null,\"launcher\":null,\"job\":null,\"boot_id\":\"b\","
        "\"pid_namespace\":1,\"process_start_ticks\":1,\"library\":\"1\",\"runtime\":null,"
        "\"command\":[],\"run_id_origin\":\"given\",\"settings\":{\"measure_cpu\":true,"
        "\"thread_names\":false,\"snapshot_interval_s\":null,\"sample_interval_s\":null},"
        "\"started\":{\"realtime_ns\":1,\"monotonic_ns\":1,\"boottime_ns\":1}";
    struct lp_image *image = &recording->recorder.image;
    struct lp_header *header = lp_image_header(image);
    if (!header->facts) {
        header->facts = lp_image_alloc(image, sizeof(struct lp_name) + sizeof facts - 1);
        struct lp_name *name = lp_image_at(image, header->facts);
        name->len = sizeof facts - 1;
        memcpy(name->bytes, facts, sizeof facts - 1);
    }
    atomic_store(&header->closed, 1);
    lp_view_own(&view, image);
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_document_emit(&emit, &view, &now, NULL, LP_OWNER_SELF);
    assert_int_equal(lp_emit_end(&emit), 0);
    if (lp_run_document_parse(&document, text.bytes, text.len, &fault) != 0)
        print_error("%s\n", fault.text);
    assert_string_equal(fault.text, "");
    lp_run_document_release(&document);
    free(text.bytes);
    atomic_store(&header->closed, 0);
}

/* More than a few: a closed worker whose histogram lacks some would be refused as a whole. */
static void test_a_hundred_tasks_ended_elsewhere_at_once(void **state)
{
    enum { TASKS = 100 };
    static struct recording recording;
    static struct lp_entry entries[TASKS];
    (void)state;
    recording_open(&recording);
    for (uint64_t i = 0; i < TASKS; i++) {
        assert_non_null(run_task(&recording, (i + 1) << 4));
        entries[i] = i % 2 ? enter(&recording, "a") : enter_sampled(&recording, "b", 3);
    }
    for (int i = 0; i < TASKS; i++)
        leave_elsewhere(&entries[i]);
    struct figures seen[2];
    for (int taken_up = 0; taken_up < 2; taken_up++) {
        json_t *document = recording_document(&recording);
        assert_document_adds_up(document);
        assert_int_equal(figures_at(document, "a").calls, TASKS / 2);
        assert_int_equal(figures_at(document, "a").hist_total, TASKS / 2);
        assert_int_equal(figures_at(document, "b").calls, (TASKS / 2 + 2) / 3 * 3);
        assert_int_equal(figures_at(document, "a").open_calls + figures_at(document, "b").open_calls, 0);
        seen[taken_up] = figures_at(document, "a");
        json_decref(document);
        assert_is_accepted(&recording);
        assert_non_null(lp_thread_self(&recording.recorder)); /* a boundary */
    }
    assert_memory_equal(&seen[0], &seen[1], sizeof seen[0]);
    assert_int_equal(lp_thread_self(&recording.recorder)->n_tasks, 1); /* the one that runs */
    recording_close(&recording);
}

/* The owner was between two clock readings when another thread ended the parent. */
static void test_a_child_that_ended_after_an_exit_elsewhere(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry outer = enter(&recording, "outer"), parent = enter(&recording, "parent");
    struct lp_entry child = enter(&recording, "child");
    leave(&child);
    struct lp_frame *frame = lp_image_at(&recording.recorder.image, parent.frame);
    leave_elsewhere(&parent);
    LP_SET(frame->posted_wall_ns, LP_GET(frame->start_wall_ns) + 1); /* before the child ended */
    for (int taken_up = 0; taken_up < 2; taken_up++) {
        json_t *document = recording_document(&recording);
        assert_document_adds_up(document);
        assert_int_equal(figures_at(document, "outer/parent").wall_ns,
                         figures_at(document, "outer/parent/child").wall_ns);
        json_decref(document);
        assert_is_accepted(&recording);
        assert_non_null(lp_thread_self(&recording.recorder)); /* a boundary */
    }
    leave(&outer);
    assert_is_accepted(&recording);
    recording_close(&recording);
}

static void test_what_sampled_children_stand_for_may_exceed_their_parent(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry parent = enter(&recording, "parent"), child = enter_sampled(&recording, "child", 1000);
    uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 100000;
    while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
        ;
    leave(&child);
    leave_elsewhere(&parent);
    for (int taken_up = 0; taken_up < 2; taken_up++) {
        json_t *document = recording_document(&recording);
        assert_document_adds_up(document);
        struct figures figures = figures_at(document, "parent");
        assert_int_equal(figures.child_wall_ns, figures_at(document, "parent/child").wall_ns);
        assert_true(figures.child_wall_ns > figures.wall_ns);
        json_decref(document);
        assert_is_accepted(&recording);
        assert_non_null(lp_thread_self(&recording.recorder)); /* a boundary */
    }
    recording_close(&recording);
}

/* ---- the image of a process that was killed ------------------------------------------------ */

struct shared {
    char path[256];
    _Atomic int ready;
};

static void *leave_there(void *entry)
{
    lp_record_leave(entry);
    return NULL;
}

static void be_killed_with_open_strands(struct shared *shared)
{
    static struct recording recording;
    pthread_t thread;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    recording_open(&recording);
    lp_image_publish(&recording.recorder.image);
    CANNOT_IF(recording.recorder.image.fd < 0);
    strcpy(shared->path, recording.recorder.image.path);
    enter(&recording, "own");
    struct lp_entry ended = {0};
    for (uint64_t task = 64; task <= 640; task += 64) {
        CHECK(run_task(&recording, task) != NULL);
        enter(&recording, "task");
        ended = enter(&recording, "step");
        if (task % 128)
            leave(&ended);
    }
    CHECK(pthread_create(&thread, NULL, leave_there, &ended) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(run_task(&recording, 64) != NULL);
    struct lp_entry skipped = enter_sampled(&recording, "sampled", 5);
    leave(&skipped);
    enter_sampled(&recording, "sampled", 5);
    atomic_store(&shared->ready, 1);
    for (;;)
        pause();
}

static bool open_cpu_is_unknown(const json_t *document)
{
    size_t i;
    const json_t *node;
    json_array_foreach(json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes"), i, node)
    {
        if (json_object_get(node, "open_calls") && !json_is_null(json_object_get(node, "open_cpu_ns")))
            return false;
    }
    return true;
}

static void test_the_strands_of_a_killed_process(void **state)
{
    int status = 0;
    struct lp_view view;
    (void)state;
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t pid = recording_fork();
    if (pid == 0) {
        be_killed_with_open_strands(shared);
        _exit(1);
    }
    WAIT_UNTIL(atomic_load(&shared->ready) || waitpid(pid, &status, WNOHANG) == pid);
    if (!atomic_load(&shared->ready)) {
        assert_int_equal(WEXITSTATUS(status), CANNOT);
        skip();
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    int fd = open(shared->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(shared->path), 0);
    assert_int_equal(lp_view_foreign(&view, fd), 0);
    json_t *document = document_of_view(&view, false);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "own").open_calls, 1);
    assert_int_equal(figures_at(document, "task").open_calls, 10);
    assert_int_equal(figures_at(document, "task/step").open_calls, 4);
    assert_int_equal(figures_at(document, "task/step").calls, 6); /* the last of them ended elsewhere, and never met */
    assert_int_equal(figures_at(document, "task/sampled").calls, 5);
    assert_int_equal(figures_at(document, "task/sampled").open_calls, 0);
    assert_true(open_cpu_is_unknown(document));
    json_decref(document);
    lp_view_release(&view);
    close(fd);
    munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hundred_tasks_ended_elsewhere_at_once),
        cmocka_unit_test(test_a_child_that_ended_after_an_exit_elsewhere),
        cmocka_unit_test(test_what_sampled_children_stand_for_may_exceed_their_parent),
        cmocka_unit_test(test_the_strands_of_a_killed_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

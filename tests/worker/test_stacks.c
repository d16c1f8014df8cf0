/* What is open in a worker that lives: nothing but stacks that existed, whatever the owner does meanwhile. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "worker/place.h"
#include "worker/stacks.h"

/* ---- what is read ------------------------------------------------------------------------ */

static void read_recording(struct lp_stacks *stacks, const struct recording *recording)
{
    assert_true(recording->recorder.image.fd >= 0);
    assert_int_equal(lp_stacks_read(stacks, recording->recorder.image.fd), 0);
}

/* The names of a stack's frames, joined by '>'. */
static const char *path_of(const struct lp_stacks_stack *stack)
{
    static char path[512];
    size_t len = 0;
    path[0] = '\0';
    for (size_t i = 0; i < stack->n_frames; i++)
        len += (size_t)snprintf(path + len, sizeof path - len, "%s%.*s", i ? ">" : "", (int)stack->frames[i].name.len,
                                stack->frames[i].name.bytes);
    return path;
}

static const char *finished_path(const struct lp_stacks_thread *thread)
{
    static char path[512];
    size_t len = 0;
    path[0] = '\0';
    for (size_t i = 0; i < thread->finished_depth; i++)
        len += (size_t)snprintf(path + len, sizeof path - len, "%s%.*s", i ? ">" : "",
                                (int)thread->finished_path[i].len, thread->finished_path[i].bytes);
    return path;
}

static void test_open_entries_and_the_last_that_ended(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b"), c = enter(&recording, "c");
    leave(&c);
    read_recording(&stacks, &recording);
    uint64_t most = clock_now_ns(CLOCK_MONOTONIC) - before + BETWEEN_CLOCKS_NS;
    assert_int_equal(stacks.n_threads, 1);
    const struct lp_stacks_thread *thread = &stacks.threads[0];
    assert_int_equal(thread->n_stacks, 1);
    assert_string_equal(path_of(&thread->stacks[0]), "a>b");
    assert_true(thread->stacks[0].frames[0].open_ns >= thread->stacks[0].frames[1].open_ns);
    assert_true(thread->stacks[0].frames[0].open_ns <= most);
    assert_true(thread->finished);
    assert_string_equal(finished_path(thread), "a>b>c");
    assert_int_equal(thread->finished_ago_ns, thread->quiet_ns);
    assert_true(thread->quiet_ns <= thread->stacks[0].frames[1].open_ns);
    lp_stacks_release(&stacks);

    leave(&b);
    leave(&a);
    read_recording(&stacks, &recording);
    assert_int_equal(stacks.threads[0].n_stacks, 0);
    assert_string_equal(finished_path(&stacks.threads[0]), "a");
    lp_stacks_release(&stacks);
    recording_close(&recording);
}

/* Once another entry is open in its place, it is not known what ended there: no name rather than a wrong one. */
static void test_a_name_that_was_written_over(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    leave(&b);
    struct lp_entry c = enter(&recording, "c");
    read_recording(&stacks, &recording);
    assert_string_equal(path_of(&stacks.threads[0].stacks[0]), "a>c");
    assert_true(stacks.threads[0].finished);
    assert_int_equal(stacks.threads[0].finished_depth, 0);
    assert_true(stacks.threads[0].finished_ago_ns >= stacks.threads[0].quiet_ns);
    lp_stacks_release(&stacks);
    leave(&c);
    leave(&a);
    recording_close(&recording);
}

static void test_nothing_has_ended_yet(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a");
    read_recording(&stacks, &recording);
    assert_false(stacks.threads[0].finished);
    lp_stacks_release(&stacks);
    leave(&a);
    recording_close(&recording);
}

/* B8: what ended out of order, or on another thread, is not open, though its frame is still there. */
static void test_ended_frames_are_left_out_B8(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b"), c = enter(&recording, "c");
    leave(&b);
    read_recording(&stacks, &recording);
    assert_string_equal(path_of(&stacks.threads[0].stacks[0]), "a>c");
    assert_string_equal(finished_path(&stacks.threads[0]), "a>b");
    lp_stacks_release(&stacks);
    leave_elsewhere(&a);
    read_recording(&stacks, &recording);
    const struct lp_stacks_thread *thread = NULL;
    for (size_t i = 0; i < stacks.n_threads; i++)
        if (stacks.threads[i].n_stacks > 0)
            thread = &stacks.threads[i];
    assert_non_null(thread);
    assert_string_equal(path_of(&thread->stacks[0]), "c");
    assert_string_equal(finished_path(thread), "a");
    lp_stacks_release(&stacks);
    leave(&c);
    recording_close(&recording);
}

static void test_tasks_B9(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    struct lp_entry serve = enter(&recording, "serve"), handles[3];
    for (uint64_t task = 1; task <= 3; task++) {
        run_task(&recording, task);
        handles[task - 1] = enter(&recording, "handle");
    }
    read_recording(&stacks, &recording);
    const struct lp_stacks_thread *thread = &stacks.threads[0];
    assert_int_equal(thread->n_stacks, 4);
    assert_false(thread->stacks[0].task);
    assert_string_equal(path_of(&thread->stacks[0]), "serve");
    assert_int_equal(thread->stacks[0].runs, LP_STACKS_SUSPENDED);
    assert_int_equal(thread->stacks[0].quiet_ns, thread->quiet_ns);
    int running = 0;
    for (size_t i = 1; i < 4; i++) {
        assert_true(thread->stacks[i].task);
        assert_string_equal(path_of(&thread->stacks[i]), "handle");
        running += thread->stacks[i].runs == LP_STACKS_RUNNING;
    }
    assert_int_equal(running, 1);
    lp_stacks_release(&stacks);
    run_task(&recording, 0);
    read_recording(&stacks, &recording);
    assert_int_equal(stacks.threads[0].stacks[0].runs, LP_STACKS_RUNNING);
    lp_stacks_release(&stacks);
    for (uint64_t task = 1; task <= 3; task++) {
        run_task(&recording, task);
        leave(&handles[task - 1]);
    }
    run_task(&recording, 0);
    leave(&serve);
    recording_close(&recording);
}

static void test_what_is_not_measured(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open_with(&recording, &(struct recording_options){.no_cpu = true});
    struct lp_entry first = enter_sampled(&recording, "rare", 100);
    leave(&first);
    struct lp_entry skipped = enter_sampled(&recording, "rare", 100);
    read_recording(&stacks, &recording);
    assert_int_equal(stacks.threads[0].n_stacks, 1);
    assert_true(stacks.threads[0].stacks[0].skips);
    assert_int_equal(stacks.threads[0].stacks[0].n_frames, 0);
    assert_int_equal(stacks.threads[0].stacks[0].runs, LP_STACKS_NOT_KNOWN);
    lp_stacks_release(&stacks);
    leave(&skipped);
    recording_close(&recording);
}

/* ---- while the owner goes on --------------------------------------------------------------- */

static _Atomic bool stop;

/* a>b>c and x>y>z in turn, as fast as can be. */
static void *alternate(void *context)
{
    struct recording *recording = context;
    while (!atomic_load(&stop)) {
        struct lp_entry a = enter(recording, "a"), b = enter(recording, "b"), c = enter(recording, "c");
        leave(&c);
        leave(&b);
        leave(&a);
        struct lp_entry x = enter(recording, "x"), y = enter(recording, "y"), z = enter(recording, "z");
        leave(&z);
        leave(&y);
        leave(&x);
    }
    return NULL;
}

static bool existed(const char *path)
{
    static const char *const paths[] = {"", "a", "a>b", "a>b>c", "x", "x>y", "x>y>z"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(path, paths[i]) == 0)
            return true;
    return false;
}

static void test_a_stack_shown_is_one_that_existed(void **state)
{
    (void)state;
    static struct recording recording;
    pthread_t thread;
    struct lp_stacks stacks;
    recording_open(&recording);
    assert_int_equal(pthread_create(&thread, NULL, alternate, &recording), 0);
    size_t shown = 0;
    for (int i = 0; i < 3000 || (shown == 0 && i < 1000000); i++) {
        read_recording(&stacks, &recording);
        for (size_t j = 0; j < stacks.n_threads; j++) {
            for (size_t k = 0; k < stacks.threads[j].n_stacks; k++, shown++)
                assert_true(existed(path_of(&stacks.threads[j].stacks[k])));
            const char *finished = finished_path(&stacks.threads[j]);
            assert_true(existed(finished));
        }
        lp_stacks_release(&stacks);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    recording_close(&recording);
}

/* Readings of a stack that are torn on purpose: between its first frame and the others its owner goes from one path to
   the other. */
static struct recording *tearing;
static struct lp_entry outer, inner;

static void go_on(void)
{
    static bool first;
    leave(&inner);
    leave(&outer);
    first = !first;
    outer = enter(tearing, first ? "x" : "a");
    inner = enter(tearing, first ? "y" : "b");
}

/* Instead of the C library's. */
ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
    size_t head = offsetof(struct lp_stack, frames) + sizeof(struct lp_frame);
    if (!tearing || size != sizeof(struct lp_stack))
        return (ssize_t)syscall(SYS_pread64, fd, bytes, size, offset);
    long one = syscall(SYS_pread64, fd, bytes, head, offset);
    go_on();
    long other = syscall(SYS_pread64, fd, (char *)bytes + head, size - head, offset + (off_t)head);
    return one < 0 || other < 0 ? -1 : (ssize_t)(one + other);
}

static void test_torn_readings_show_nothing_that_was_not(void **state)
{
    (void)state;
    static struct recording recording;
    struct lp_stacks stacks;
    recording_open(&recording);
    outer = enter(&recording, "a");
    inner = enter(&recording, "b");
    for (int i = 0; i < 100; i++) {
        tearing = &recording;
        read_recording(&stacks, &recording);
        tearing = NULL;
        for (size_t k = 0; k < stacks.threads[0].n_stacks; k++)
            assert_true(existed(path_of(&stacks.threads[0].stacks[k])));
        lp_stacks_release(&stacks);
    }
    read_recording(&stacks, &recording);
    assert_int_equal(stacks.threads[0].stacks[0].n_frames, 2);
    lp_stacks_release(&stacks);
    leave(&inner);
    leave(&outer);
    recording_close(&recording);
}

/* ---- damaged images ------------------------------------------------------------------------- */

/* A copy of a recording's image that tests can spoil. */
struct spoilt {
    int fd;
    char *bytes;
    size_t size;
};

static void spoilt_open(struct spoilt *spoilt, const struct recording *recording)
{
    struct lp_view view;
    assert_int_equal(lp_view_foreign(&view, recording->recorder.image.fd), 0);
    *spoilt = (struct spoilt){memfd_create("spoilt", MFD_CLOEXEC), malloc(view.size), view.size};
    assert_non_null(spoilt->bytes);
    memcpy(spoilt->bytes, view.base, view.size);
    lp_view_release(&view);
}

/* Puts it into the file and reads that; the result if it can be read is well-formed to the last byte. */
static int spoilt_read(const struct spoilt *spoilt)
{
    struct lp_stacks stacks;
    size_t bytes = 0;
    assert_int_equal(pwrite(spoilt->fd, spoilt->bytes, spoilt->size, 0), (ssize_t)spoilt->size);
    if (lp_stacks_read(&stacks, spoilt->fd) != 0)
        return -1;
    for (size_t i = 0; i < stacks.n_threads; i++) {
        const struct lp_stacks_thread *thread = &stacks.threads[i];
        for (size_t j = 0; j < thread->n_stacks; j++)
            for (size_t k = 0; k < thread->stacks[j].n_frames; k++)
                for (size_t b = 0; b < thread->stacks[j].frames[k].name.len; b++)
                    bytes += (unsigned char)thread->stacks[j].frames[k].name.bytes[b];
        for (size_t j = 0; j < thread->finished_depth; j++)
            bytes += thread->finished_path[j].len;
    }
    lp_stacks_release(&stacks);
    return bytes > 0;
}

static void spoilt_close(struct spoilt *spoilt)
{
    close(spoilt->fd);
    free(spoilt->bytes);
}

static void test_lists_that_go_in_circles(void **state)
{
    (void)state;
    static struct recording recording;
    struct spoilt spoilt;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    leave(&b);
    spoilt_open(&spoilt, &recording);
    struct lp_header *header = (struct lp_header *)(void *)spoilt.bytes;
    lp_ref slot_ref = atomic_load(&header->last_slot);
    struct lp_slot *slot = (struct lp_slot *)(void *)(spoilt.bytes + (size_t)slot_ref * LP_LINE);
    lp_ref stack_ref = atomic_load(&slot->last_stack);
    struct lp_stack *stack = (struct lp_stack *)(void *)(spoilt.bytes + (size_t)stack_ref * LP_LINE);
    lp_ref node_ref = atomic_load(&stack->frames[1].node);
    struct lp_node *node = (struct lp_node *)(void *)(spoilt.bytes + (size_t)node_ref * LP_LINE);
    assert_int_equal(spoilt_read(&spoilt), 1);
    node->parent = node_ref;
    assert_int_equal(spoilt_read(&spoilt), 1);
    atomic_store(&stack->older, stack_ref);
    assert_int_equal(spoilt_read(&spoilt), 1);
    atomic_store(&slot->older, slot_ref);
    assert_int_equal(spoilt_read(&spoilt), 1);
    atomic_store(&stack->depth, UINT32_MAX);
    assert_int_equal(spoilt_read(&spoilt), 1);
    spoilt_close(&spoilt);
    leave(&a);
    recording_close(&recording);
}

static void test_any_damage_is_survived(void **state)
{
    (void)state;
    static struct recording recording;
    struct spoilt spoilt;
    uint64_t seed = 7;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    run_task(&recording, 1);
    struct lp_entry c = enter(&recording, "c");
    spoilt_open(&spoilt, &recording);
    char *sound = malloc(spoilt.size);
    assert_non_null(sound);
    memcpy(sound, spoilt.bytes, spoilt.size);
    int read = 0;
    for (int i = 0; i < 1500; i++) {
        memcpy(spoilt.bytes, sound, spoilt.size);
        for (int j = 0; j < 40; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = sizeof(struct lp_header) + (size_t)(seed >> 33) % 16384;
            if (at < spoilt.size)
                spoilt.bytes[at] = (char)(seed >> 25);
        }
        read += spoilt_read(&spoilt) >= 0;
    }
    assert_true(read > 0);
    free(sound);
    spoilt_close(&spoilt);
    leave(&c);
    run_task(&recording, 0);
    leave(&b);
    leave(&a);
    recording_close(&recording);
}

/* ---- those of a run directory ------------------------------------------------------------------ */

struct found {
    int n;
    bool dead;
    char role[64], path[64];
    uint64_t pid;
};

static int take_one(void *context, const struct lp_stacks *stacks)
{
    struct found *found = context;
    struct lp_stacks owned = *stacks;
    found->n++;
    found->pid = stacks->pid;
    snprintf(found->role, sizeof found->role, "%.*s", (int)stacks->role.len, stacks->role.bytes);
    if (stacks->n_threads > 0 && stacks->threads[0].n_stacks > 0)
        snprintf(found->path, sizeof found->path, "%s", path_of(&stacks->threads[0].stacks[0]));
    lp_stacks_release(&owned);
    return 0;
}

static struct found find(const char *run_dir)
{
    struct found found = {0};
    struct lp_run_place place;
    if (lp_run_place_find(&place, run_dir))
        CHECK(lp_stacks_each(&place, take_one, &found, &found.dead) == 0);
    return found;
}

static void own_shm(void)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
}

static void find_the_living(void *context)
{
    int status;
    struct lp_entry open;
    char *other = folder_make();
    (void)context;
    own_shm();
    CHECK(find(folder).n == 0 && !find(folder).dead);
    struct lp_worker *worker = worker_open(folder);
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    lp_record_enter(lp_worker_recorder(worker), name_of("iteration"), &open);
    struct found found = find(folder);
    CHECK(found.n == 1 && found.pid == (uint64_t)getpid());
    CHECK(strcmp(found.role, "tester") == 0 && strcmp(found.path, "iteration") == 0);
    CHECK(find(other).n == 0 && find("/no/such/run").n == 0);

    pid_t pid = fork();
    if (pid == 0) { /* one that is dead is not for us; one that has not begun has no image */
        worker_record(worker_open(folder), "b");
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(find(folder).n == 1 && find(folder).dead && !find(other).dead);
    lp_record_leave(&open);
    lp_worker_free(worker);
    CHECK(find(folder).n == 0);
    folder_remove(other);
}

static void test_the_living_of_a_run_directory(void **state)
{
    (void)state;
    in_child(find_the_living, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_entries_and_the_last_that_ended),
        cmocka_unit_test(test_a_name_that_was_written_over),
        cmocka_unit_test(test_nothing_has_ended_yet),
        cmocka_unit_test(test_ended_frames_are_left_out_B8),
        cmocka_unit_test(test_tasks_B9),
        cmocka_unit_test(test_what_is_not_measured),
        cmocka_unit_test(test_a_stack_shown_is_one_that_existed),
        cmocka_unit_test(test_torn_readings_show_nothing_that_was_not),
        cmocka_unit_test(test_lists_that_go_in_circles),
        cmocka_unit_test(test_any_damage_is_survived),
        in_folder(test_the_living_of_a_run_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

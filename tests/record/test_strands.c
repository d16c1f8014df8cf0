/* Strands: the entries of several tasks on one thread, each nesting by itself and each with its own CPU time. */
#include "support/recording.h"

#include <sys/prctl.h>

/* ---- nesting, against a model -------------------------------------------------------- */

#define TASKS 12u  /* 0 is the thread itself */
#define DEEPEST 5u /* of a path: three names, four ways to go on at each step */
#define PATHS 1024u

static const char *const names[] = {"", "a", "b", "c"};

struct model_entry {
    struct lp_entry entry;
    uint32_t path; /* its names as digits in base four */
    bool ended;
};

struct model {
    struct model_entry open[TASKS][LP_STACK_DEPTH];
    uint32_t depth[TASKS];
    uint64_t calls[PATHS], opened[PATHS];
};

static void model_enter(struct model *model, struct recording *recording, uint32_t task, uint32_t name)
{
    uint32_t depth = model->depth[task];
    uint32_t above = depth ? model->open[task][depth - 1].path : 0;
    if (above >= PATHS / 4 || depth == LP_STACK_DEPTH)
        return;
    model->open[task][depth] = (struct model_entry){enter(recording, names[name]), above * 4 + name, false};
    model->opened[above * 4 + name]++;
    model->depth[task]++;
}

static void model_leave(struct model *model, uint32_t task, uint32_t which)
{
    struct model_entry *open = &model->open[task][which];
    if (open->ended)
        return;
    leave(&open->entry);
    open->ended = true;
    model->calls[open->path]++;
    model->opened[open->path]--;
    while (model->depth[task] > 0 && model->open[task][model->depth[task] - 1].ended)
        model->depth[task]--;
}

static void path_text(uint32_t path, char *text)
{
    if (path >= 4) {
        path_text(path / 4, text);
        strcat(text, "/");
    } else {
        *text = '\0';
    }
    strcat(text, names[path % 4]);
}

static void assert_as_in_model(const struct model *model, const json_t *document)
{
    char text[2 * DEEPEST + 1];
    assert_document_adds_up(document);
    for (uint32_t path = 1; path < PATHS; path++) {
        if (model->calls[path] + model->opened[path] == 0)
            continue;
        path_text(path, text);
        struct figures figures = figures_at(document, text);
        assert_int_equal(figures.calls, model->calls[path]);
        assert_int_equal(figures.open_calls, model->opened[path]);
    }
}

static void test_tasks_nest_by_themselves(void **state)
{
    static struct recording recording;
    static struct model model;
    uint64_t seed = 21;
    uint32_t task = 0;
    (void)state;
    recording_open(&recording);
    for (int step = 0; step < 40000; step++) {
        uint64_t what = random_next(&seed) % 16;
        bool ending = step % 4000 > 3000; /* so that strands come to be empty */
        if (what < 3) {
            task = (uint32_t)(random_next(&seed) % TASKS);
            assert_non_null(run_task(&recording, task));
        } else if (what < 9 && !ending) {
            model_enter(&model, &recording, task, 1 + (uint32_t)(random_next(&seed) % 3));
        } else {
            uint32_t whose = what < 14 ? task : (uint32_t)(random_next(&seed) % TASKS), depth = model.depth[whose];
            if (depth > 0)
                model_leave(&model, whose, random_next(&seed) % 8 ? depth - 1 : (uint32_t)random_next(&seed) % depth);
        }
        burn_turns(random_next(&seed) % 100);
        if (step % 999 == 0) {
            json_t *document = recording_document(&recording);
            assert_as_in_model(&model, document);
            json_decref(document);
        }
    }
    for (uint32_t i = 0; i < TASKS; i++)
        while (model.depth[i] > 0)
            model_leave(&model, i, model.depth[i] - 1);
    run_task(&recording, 0);
    assert_int_equal(self(&recording)->n_tasks, 0);
    assert_in_range(strands_of(self(&recording)), 2, TASKS); /* used again and again */
    json_t *document = recording_document(&recording);
    assert_as_in_model(&model, document);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

/* ---- many, and again ----------------------------------------------------------------- */

#define MANY 10000u

static void test_ten_thousand_tasks_and_as_many_again(void **state)
{
    static struct recording recording;
    static struct lp_entry open[MANY];
    (void)state;
    recording_open(&recording);
    struct lp_entry outer = enter(&recording, "outer");
    struct lp_thread *thread = self(&recording);
    uint64_t used = 0;
    for (uint64_t generation = 1; generation <= 2; generation++) {
        for (uint64_t i = 0; i < MANY; i++) {
            assert_null(lp_strand_find(thread, generation << 32 | i << 4));
            assert_non_null(run_task(&recording, generation << 32 | i << 4));
            open[i] = enter(&recording, "step");
        }
        assert_int_equal(thread->n_tasks, MANY);
        assert_true(thread->n_places >= MANY);
        for (uint64_t i = 0; i < MANY; i++)
            assert_int_equal(lp_strand_find(thread, generation << 32 | i << 4)->stack_ref + 1, open[i].frame);
        json_t *document = recording_document(&recording);
        assert_int_equal(figures_at(document, "step").open_calls, MANY);
        assert_int_equal(figures_at(document, "step").calls, (generation - 1) * MANY);
        assert_document_adds_up(document);
        json_decref(document);
        for (uint64_t i = 0; i < MANY; i++) {
            run_task(&recording, generation << 32 | (i * 7919 % MANY) << 4);
            leave(&open[i * 7919 % MANY]);
        }
        run_task(&recording, 0);
        assert_int_equal(thread->n_tasks, 0);
        assert_int_equal(strands_of(thread), MANY);
        uint64_t now_used = atomic_load(&lp_image_header(&recording.recorder.image)->used);
        /* The stacks of those that ended serve those that come. */
        assert_true(used == 0 || now_used - used < 10 * sizeof(struct lp_stack));
        used = now_used;
    }
    leave(&outer);
    json_t *document = recording_document(&recording);
    assert_int_equal(figures_at(document, "step").calls, 2 * MANY);
    assert_int_equal(figures_at(document, "outer").calls, 1);
    assert_document_adds_up(document);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_strand_is_dropped_when_nothing_is_open_on_it(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_thread *thread = self(&recording);
    struct lp_strand *strand = run_task(&recording, 64);
    lp_strand_drop_if_empty(thread, strand); /* not while it runs */
    lp_strand_drop_if_empty(thread, &thread->own);
    assert_ptr_equal(lp_strand_find(thread, 64), strand);
    struct lp_entry entry = enter(&recording, "a");
    run_task(&recording, 0);
    lp_strand_drop_if_empty(thread, strand); /* nor with anything open */
    assert_ptr_equal(lp_strand_find(thread, 64), strand);
    leave(&entry);
    assert_null(lp_strand_find(thread, 64));
    run_task(&recording, 64);
    struct lp_entry measured = enter_sampled(&recording, "s", 2);
    leave(&measured);
    struct lp_entry skipped = enter_sampled(&recording, "s", 2);
    run_task(&recording, 0);
    lp_strand_drop_if_empty(thread, strand); /* nor inside an entry that is not measured */
    assert_ptr_equal(lp_strand_find(thread, 64), strand);
    leave(&skipped);
    assert_null(lp_strand_find(thread, 64));
    assert_ptr_equal(run_task(&recording, 128), strand); /* used again */
    assert_ptr_equal(lp_strand_node(thread, strand->stack), thread->root);
    recording_close(&recording);
}

static void test_an_orphan_is_found_by_its_entries_only(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_thread *thread = self(&recording);
    struct lp_strand *first = run_task(&recording, 64);
    struct lp_entry of_first = enter(&recording, "first"), inner = enter(&recording, "inner");
    lp_strand_orphan(thread, first);
    assert_null(lp_strand_find(thread, 64));
    struct lp_strand *second = run_task(&recording, 64);
    assert_ptr_not_equal(first, second);
    struct lp_entry of_second = enter(&recording, "second");
    lp_strand_orphan(thread, second);
    struct lp_strand *third = run_task(&recording, 64);
    struct lp_entry of_third = enter(&recording, "third");
    assert_int_equal(thread->n_tasks, 3);
    leave(&of_first);
    leave(&of_second);
    assert_int_equal(thread->n_tasks, 2);
    leave(&inner);
    assert_int_equal(thread->n_tasks, 1);
    leave(&of_third);
    assert_ptr_equal(lp_strand_find(thread, 64), third);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "first/inner").calls, 1);
    assert_int_equal(figures_at(document, "second").calls, 1);
    assert_int_equal(figures_at(document, "third").calls, 1);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_where_memory_is_short_the_thread_records_on(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a");
    leave(&a);
    struct lp_strand *first = run_task(&recording, 64);
    struct lp_entry b = enter(&recording, "b");
    run_task(&recording, 0);
    recording.recorder.image.reserved = atomic_load(&recording.recorder.image.size);
    uint64_t task = 128;
    while (run_task(&recording, task)) { /* until there is no stack to be had */
        struct lp_entry on = enter(&recording, "a");
        task += 64;
        (void)on;
    }
    struct lp_thread *thread = self(&recording);
    uint32_t n_tasks = thread->n_tasks;
    assert_null(lp_strand_make(thread, task));
    assert_null(lp_strand_find(thread, task));
    assert_int_equal(thread->n_tasks, n_tasks);
    run_task(&recording, 0);
    a = enter(&recording, "a");
    leave(&a);
    leave(&b); /* frees a stack */
    assert_ptr_equal(run_task(&recording, task), first);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 2);
    assert_int_equal(figures_at(document, "a").open_calls, n_tasks - 1);
    assert_int_equal(figures_at(document, "b").calls, 1);
    json_decref(document);
    recording_close(&recording);
}

/* ---- forks -------------------------------------------------------------------------- */

static void record_in_child(struct recording *recording, struct lp_entry *inherited)
{
    struct lp_thread *thread = lp_thread_self(&recording->recorder);
    CHECK(thread && thread->n_tasks == 0 && thread->strand == &thread->own && thread->depth == 0);
    CHECK(!lp_strand_find(thread, 64));
    struct lp_entry own = enter(recording, "own");
    CHECK(run_task(recording, 64) != NULL);
    struct lp_entry again = enter(recording, "again");
    for (int i = 0; i < 3; i++)
        leave(&inherited[i]);
    CHECK(run_task(recording, 128) != NULL);
    struct lp_entry other = enter(recording, "other");
    leave(&again);
    leave(&own);
    leave(&other);
    json_t *document = recording_document(recording);
    CHECK_U64(figures_at(document, "own").calls + figures_at(document, "again").calls, 2);
    CHECK_U64(figures_at(document, "other").calls, 1);
    CHECK_U64(figures_at(document, "parent").nodes + figures_at(document, "task").nodes, 0);
    CHECK_U64(json_array_size(json_object_get(document, "threads")), 1);
    CHECK_U64(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(recording);
}

static void test_a_child_begins_without_strands(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry open[3] = {enter(&recording, "parent")};
    run_task(&recording, 64);
    open[1] = enter(&recording, "task");
    run_task(&recording, 192);
    open[2] = enter(&recording, "task");
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid = recording_fork();
        if (pid == 0) {
            CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
            if (i == 0)
                record_in_child(&recording, open);
            else
                recording_close(&recording); /* nor is anything of the parent's touched where nothing is recorded */
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 3; i++)
        leave(&open[i]);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "parent").calls, 1);
    assert_int_equal(figures_at(document, "task").calls, 2);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

/* ---- what the room above keeps there --------------------------------------------------- */

static int released;

static void release(void *host)
{
    released += *(int *)host;
}

static void test_every_host_is_released_once(void **state)
{
    static struct recording recording;
    int one = 1, ten = 10;
    (void)state;
    recording_open(&recording);
    run_task(&recording, 64)->host = &one;
    struct lp_entry entry = enter(&recording, "a");
    run_task(&recording, 128)->host = &ten;
    run_task(&recording, 192);
    leave(&entry); /* the strand is free now, and keeps its host */
    lp_recorder_stop(&recording.recorder);
    lp_recorder_release_hosts(&recording.recorder, release);
    assert_int_equal(released, 11);
    lp_recorder_release_hosts(&recording.recorder, release);
    assert_int_equal(released, 11);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_nest_by_themselves),
        cmocka_unit_test(test_ten_thousand_tasks_and_as_many_again),
        cmocka_unit_test(test_a_strand_is_dropped_when_nothing_is_open_on_it),
        cmocka_unit_test(test_an_orphan_is_found_by_its_entries_only),
        cmocka_unit_test(test_where_memory_is_short_the_thread_records_on),
        cmocka_unit_test(test_a_child_begins_without_strands),
        cmocka_unit_test(test_every_host_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

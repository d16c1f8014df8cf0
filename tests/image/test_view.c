/*
 * Reading an image that is one's own, another's, cut short, damaged or being written: never more than nonsense, never
 * half a change, and nothing twice.
 */
#include "support/recording.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* ---- an image to damage ---------------------------------------------------------- */

struct sample {
    char *bytes;
    size_t size, used;
};

static void count(struct recording *recording, const char *name, int64_t n)
{
    CHECK(lp_record_count(&recording->recorder, name_of(name), n) == LP_COUNT_OK);
}

static void *record_a_little(void *context)
{
    struct recording *recording = context;
    count(recording, "outside", 1);
    for (int i = 0; i < 20; i++) {
        struct lp_entry a = enter(recording, "iteration"),
                        b = enter(recording, i % 2 ? "learn" : "\xed\xb3\xbf act \\");
        count(recording, "steps", i - 10);
        count(recording, i % 3 ? "odd" : "even", 1);
        leave(&b);
        leave(&a);
    }
    return NULL;
}

/* Tasks, one of which is inside an entry that is not measured; an entry that has ended elsewhere. */
static void open_on_strands(struct recording *recording)
{
    for (uint64_t task = 64; task <= 256; task += 64) {
        assert_non_null(run_task(recording, task));
        enter(recording, "task");
        struct lp_entry deeper = enter(recording, "deeper"), sampled = enter_sampled(recording, "sampled", 3);
        if (task == 128)
            leave_elsewhere(&deeper);
        leave(&sampled);
        enter_sampled(recording, "sampled", 3);
    }
    run_task(recording, 0);
}

static struct sample sample_make(void)
{
    static struct recording recording;
    pthread_t thread;
    recording_open(&recording);
    record_a_little(&recording);
    assert_int_equal(pthread_create(&thread, NULL, record_a_little, &recording), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    open_on_strands(&recording);
    struct lp_entry open = enter(&recording, "open"), deeper = enter(&recording, "deeper");
    const struct lp_header *header = lp_image_header(&recording.recorder.image);
    struct sample sample = {.size = atomic_load(&recording.recorder.image.size), .used = atomic_load(&header->used)};
    sample.bytes = malloc(sample.size);
    assert_non_null(sample.bytes);
    memcpy(sample.bytes, recording.recorder.image.base, sample.size);
    leave(&deeper);
    leave(&open);
    recording_close(&recording);
    return sample;
}

struct sink {
    uint64_t taken;
};

static int swallow(void *context, const char *bytes, size_t len)
{
    struct sink *sink = context;
    (void)bytes;
    sink->taken += len;
    return 0;
}

/* Shows what is to be seen in the file; how much that was, 0 if it is refused. */
static uint64_t show(int fd)
{
    struct lp_view view;
    struct lp_emit emit;
    struct sink sink = {0};
    struct lp_stamp now = {1, 2, 3};
    if (lp_view_foreign(&view, fd) != 0)
        return 0;
    lp_emit_init(&emit, swallow, &sink);
    lp_document_emit(&emit, &view, &now, NULL, LP_OWNER_GONE);
    assert_int_equal(lp_emit_end(&emit), 0);
    lp_view_release(&view);
    return sink.taken;
}

static int file_of(const struct sample *sample)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, sample->bytes, sample->size, 0), (ssize_t)sample->size);
    return fd;
}

static void test_what_is_read_from_a_file_is_what_was_recorded(void **state)
{
    struct sample sample = sample_make();
    int fd = file_of(&sample);
    struct lp_view view;
    struct counter_figures steps;
    (void)state;
    assert_int_equal(lp_view_foreign(&view, fd), 0);
    assert_int_equal(view.size, sample.used);
    json_t *document = document_of_view(&view, false);
    assert_int_equal(figures_at(document, "iteration").calls, 40);
    assert_int_equal(figures_at(document, "iteration/learn").calls, 20);
    assert_int_equal(figures_at(document, "open").open_calls, 1);
    assert_int_equal(figures_at(document, "open/deeper").open_calls, 1);
    assert_int_equal(figures_at(document, "task").open_calls, 4);
    assert_int_equal(figures_at(document, "task/deeper").calls, 1);
    assert_int_equal(figures_at(document, "task/deeper").open_calls, 3);
    assert_true(counter_at(document, "iteration/learn", "steps", &steps));
    assert_int_equal(steps.calls, 20);
    assert_int_equal(steps.min, -9);
    assert_int_equal(steps.max, 9);
    assert_document_adds_up(document);
    json_decref(document);
    lp_view_release(&view);
    close(fd);
    free(sample.bytes);
}

/* EX06 */
static void test_a_file_cut_short_anywhere(void **state)
{
    struct sample sample = sample_make();
    int fd = file_of(&sample);
    uint64_t whole = show(fd), most = 0;
    (void)state;
    assert_true(whole > 0);
    for (size_t len = sample.size; len-- > 0;) {
        if (len > sample.used && len % 509)
            continue;
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        uint64_t shown = show(fd);
        assert_true(shown <= whole);
        assert_true(shown == whole || len < sample.used);
        assert_true(shown == 0 || len >= sizeof(struct lp_header));
        most = shown > most ? shown : most;
    }
    assert_int_equal(most, whole);
    close(fd);
    free(sample.bytes);
}

static void damage(char *bytes, size_t size, uint64_t *seed)
{
    size_t at = random_next(seed) % (size / 4) * 4;
    uint32_t word = (uint32_t)random_next(seed);
    switch (random_next(seed) % 5) {
    case 0:
        bytes[at] ^= (char)(1 << (word % 8));
        return;
    case 1: /* a ref somewhere into the image */
        word %= (uint32_t)(size / LP_LINE) + 2;
        break;
    case 2: /* itself */
        word = (uint32_t)(at / LP_LINE);
        break;
    case 3:
        word = (uint32_t[]){0, 1, UINT32_MAX, INT32_MAX, LP_NAME_LIMIT, LP_NAME_LIMIT + 1}[word % 6];
        break;
    default:
        break;
    }
    memcpy(bytes + at, &word, sizeof word);
}

static void test_damage_of_any_kind_ends(void **state)
{
    struct sample sample = sample_make();
    char *bytes = malloc(sample.size);
    int fd = memfd_create("image", MFD_CLOEXEC);
    uint64_t seed = 5, shown = 0;
    (void)state;
    assert_non_null(bytes);
    for (int round = 0; round < 4000; round++) {
        memcpy(bytes, sample.bytes, sample.size);
        size_t faults = 1 + random_next(&seed) % (round % 10 ? 8 : 400);
        for (size_t i = 0; i < faults; i++) { /* mostly where something is, and not in what is checked first */
            size_t from = round % 5 ? 64 : 0;
            damage(bytes + from, (round % 3 ? sample.used : sample.size) - from, &seed);
        }
        assert_int_equal(pwrite(fd, bytes, sample.size, 0), (ssize_t)sample.size);
        shown += show(fd) > 0;
    }
    assert_true(shown > 1000);
    close(fd);
    free(bytes);
    free(sample.bytes);
}

/* All that claims to be part of a list, claimed by everybody. */
static void test_lists_that_share_their_members_are_not_multiplied(void **state)
{
    struct sample sample = sample_make();
    uint64_t plain, shown;
    (void)state;
    int fd = file_of(&sample);
    plain = show(fd);
    struct lp_header *header = (struct lp_header *)(void *)sample.bytes;
    struct lp_slot *slot = (struct lp_slot *)(void *)(sample.bytes + (size_t)header->last_slot * LP_LINE);
    size_t lines = sample.size / LP_LINE, first = sample.used / LP_LINE;
    for (size_t i = first; i < lines; i++) { /* as many slots as there is room, each with the same nodes */
        struct lp_slot *more = (struct lp_slot *)(void *)(sample.bytes + i * LP_LINE);
        *more = *slot;
        more->older = (lp_ref)(i + 1 < lines ? i + 1 : 0);
    }
    header->last_slot = (lp_ref)first;
    header->used = sample.size;
    assert_int_equal(pwrite(fd, sample.bytes, sample.size, 0), (ssize_t)sample.size);
    shown = show(fd);
    assert_true(shown > plain);
    assert_true(shown < 40 * sample.size);
    close(fd);
    free(sample.bytes);
}

static struct lp_stack *stack_at(const struct sample *sample, lp_ref ref)
{
    return (struct lp_stack *)(void *)(sample->bytes + (size_t)ref * LP_LINE);
}

/* A stack as full as can be, of entries of one node. */
static void fill_stack(struct lp_stack *stack, lp_ref node)
{
    stack->depth = UINT32_MAX;
    for (unsigned i = 0; i < LP_STACK_DEPTH; i++) {
        stack->frames[i].serial = 1 + i;
        stack->frames[i].node = node;
        stack->frames[i].state = LP_FRAME_OPEN;
        stack->frames[i].posted_serial = i % 2 ? 1 + i : 0;
    }
}

static uint64_t open_in(int fd, const char *path)
{
    struct lp_view view;
    assert_int_equal(lp_view_foreign(&view, fd), 0);
    json_t *document = document_of_view(&view, false);
    struct figures figures = figures_at(document, path);
    json_decref(document);
    lp_view_release(&view);
    return figures.open_calls + figures.calls;
}

/* Stacks in a circle, in the middle of something else, and claimed by every slot. */
static void test_lists_of_stacks_that_are_none(void **state)
{
    struct sample sample = sample_make();
    int fd = file_of(&sample);
    (void)state;
    const struct lp_header *header = (const struct lp_header *)(const void *)sample.bytes;
    lp_ref slot_ref = header->last_slot;
    for (; slot_ref; slot_ref = ((struct lp_slot *)(void *)(sample.bytes + (size_t)slot_ref * LP_LINE))->older) {
        struct lp_slot *slot = (struct lp_slot *)(void *)(sample.bytes + (size_t)slot_ref * LP_LINE);
        struct lp_node *first =
            (struct lp_node *)(void *)(sample.bytes +
                                       (size_t)((struct lp_node *)(void *)(sample.bytes + (size_t)slot->root * LP_LINE))
                                               ->next_in_slot *
                                           LP_LINE);
        lp_ref last = slot->last_stack, node = (lp_ref)(((char *)first - sample.bytes) / LP_LINE);
        size_t most = sample.used / sizeof(struct lp_stack) * LP_STACK_DEPTH;
        struct lp_stack kept = *stack_at(&sample, last);
        fill_stack(stack_at(&sample, last), node);
        stack_at(&sample, last)->older = last; /* itself */
        assert_int_equal(pwrite(fd, sample.bytes, sample.size, 0), (ssize_t)sample.size);
        assert_true(show(fd) > 0);
        assert_in_range(open_in(fd, "iteration"), LP_STACK_DEPTH, 2 * (most + 40));
        static const lp_ref anywhere[] = {0, 1, 2, UINT32_MAX, UINT32_MAX / 2};
        for (size_t i = 0; i < sizeof anywhere / sizeof *anywhere + sample.used / LP_LINE; i++) {
            stack_at(&sample, last)->older = i < 5 ? anywhere[i] : (lp_ref)(i - 5);
            assert_int_equal(pwrite(fd, sample.bytes, sample.size, 0), (ssize_t)sample.size);
            assert_true(show(fd) > 0);
        }
        *stack_at(&sample, last) = kept;
    }
    close(fd);
    free(sample.bytes);
}

/* As many full stacks as there is room in an image of some size, in a circle: each is read again for each node. */
static void test_a_circle_of_many_full_stacks_ends(void **state)
{
    struct sample sample = sample_make();
    size_t larger = (size_t)4 << 20;
    (void)state;
    sample.bytes = realloc(sample.bytes, larger);
    assert_non_null(sample.bytes);
    struct lp_header *header = (struct lp_header *)(void *)sample.bytes;
    struct lp_slot *slot = (struct lp_slot *)(void *)(sample.bytes + (size_t)header->last_slot * LP_LINE);
    struct lp_node *root = (struct lp_node *)(void *)(sample.bytes + (size_t)slot->root * LP_LINE);
    lp_ref first = (lp_ref)(sample.used / LP_LINE), last = first;
    slot->last_stack = first;
    for (size_t at = sample.used; at + sizeof(struct lp_stack) <= larger; at += sizeof(struct lp_stack)) {
        last = (lp_ref)(at / LP_LINE);
        memset(stack_at(&sample, last), 0, sizeof(struct lp_stack));
        fill_stack(stack_at(&sample, last), root->next_in_slot);
        stack_at(&sample, last)->older = last + (lp_ref)(sizeof(struct lp_stack) / LP_LINE);
    }
    stack_at(&sample, last)->older = first;
    header->used = header->shared = sample.size = larger;
    int fd = file_of(&sample);
    assert_true(show(fd) > 0);
    size_t stacks = (last - first) / (sizeof(struct lp_stack) / LP_LINE) + 1;
    assert_in_range(open_in(fd, "iteration"), stacks * LP_STACK_DEPTH,
                    larger / sizeof(struct lp_stack) * LP_STACK_DEPTH + 40);
    close(fd);
    free(sample.bytes);
}

static void test_what_is_no_image_is_refused(void **state)
{
    struct sample sample = sample_make();
    struct lp_header *header = (struct lp_header *)(void *)sample.bytes;
    struct lp_header peeked;
    struct lp_view view;
    int pipes[2], fd = file_of(&sample);
    (void)state;
    assert_true(show(fd) > 0);
    header->version++;
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), (ssize_t)sizeof *header);
    assert_int_equal(show(fd), 0);
    assert_int_equal(lp_view_peek(&peeked, fd), LP_VIEW_OTHER_VERSION);
    header->version--;
    header->layout++;
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), (ssize_t)sizeof *header);
    assert_int_equal(show(fd), 0);
    assert_int_equal(lp_view_peek(&peeked, fd), LP_VIEW_OTHER_VERSION);
    header->layout--;
    uint32_t version = header->version;
    header->version = 4; /* whose header began otherwise */
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), (ssize_t)sizeof *header);
    assert_int_equal(lp_view_peek(&peeked, fd), LP_VIEW_NO_IMAGE);
    header->version = version;
    header->magic[0] = 'l';
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), (ssize_t)sizeof *header);
    assert_int_equal(show(fd), 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(show(fd), 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0); /* huge and empty: neither read nor allocated */
    assert_int_equal(show(fd), 0);
    assert_int_equal(lp_view_foreign(&view, -1), -1);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(show(pipes[0]), 0);
    int folder = open("/", O_RDONLY | O_DIRECTORY);
    assert_int_equal(show(folder), 0);
    close(folder);
    close(pipes[0]);
    close(pipes[1]);
    close(fd);
    free(sample.bytes);
}

/* A file that claims and has a terabyte of holes must not be read into memory. */
static void test_a_huge_claim_takes_no_huge_memory(void **state)
{
    struct sample sample = sample_make();
    struct lp_header *header = (struct lp_header *)(void *)sample.bytes;
    int fd = file_of(&sample);
    struct lp_view view;
    (void)state;
    header->used = header->shared = UINT64_MAX / 2;
    assert_int_equal(pwrite(fd, sample.bytes, sample.size, 0), (ssize_t)sample.size);
    assert_int_equal(lp_view_foreign(&view, fd), 0);
    assert_int_equal(view.size, sample.size); /* no more than there is */
    lp_view_release(&view);
    header->shared = sample.used - LP_LINE; /* what is in the file counts, not what was handed out */
    header->used = sample.size;
    assert_int_equal(pwrite(fd, sample.bytes, sample.size, 0), (ssize_t)sample.size);
    assert_int_equal(lp_view_foreign(&view, fd), 0);
    assert_int_equal(view.size, sample.used - LP_LINE);
    lp_view_release(&view);
    close(fd);
    free(sample.bytes);
}

/* ---- reading while a thread writes ------------------------------------------------ */

struct writer {
    struct lp_image image;
    struct lp_node *node;
    struct lp_counter *counter;
    atomic_bool enough;
};

/* Changes whose parts can be told to belong together. */
static void *write_on(void *context)
{
    struct writer *writer = context;
    struct lp_counter *counter = writer->counter;
    while (!atomic_load_explicit(&writer->enough, memory_order_relaxed)) {
        struct lp_core *core = &writer->node->core;
        lp_core_begin(core);
        LP_ADD(core->calls, 1);
        LP_ADD(core->wall_ns, 7);
        LP_ADD(core->cpu_ns, 5);
        LP_ADD(core->child_wall_ns, 3);
        LP_ADD(core->late_wall_ns, 2);
        lp_core_end(core);
        LP_SET(counter->begun, LP_GET(counter->begun) + 1);
        LP_FENCE(memory_order_release);
        LP_ADD(counter->sum, -4);
        LP_ADD(counter->calls, 1);
        atomic_store_explicit(&counter->done, LP_GET(counter->begun), memory_order_release);
    }
    return NULL;
}

static void read_beside(struct writer *writer, const struct lp_view *view)
{
    struct lp_core_copy core, last = {0};
    struct lp_counter_copy counter;
    const struct lp_node *node = (const void *)(view->base + ((const char *)writer->node - writer->image.base));
    const struct lp_counter *other = (const void *)(view->base + ((const char *)writer->counter - writer->image.base));
    unsigned torn = 0;
    for (int i = 0; i < 20000; i++) {
        lp_view_core(view, node, &core);
        if (core.torn) {
            torn++;
        } else {
            assert_int_equal(core.wall_ns, 7 * core.calls);
            assert_int_equal(core.cpu_ns, 5 * core.calls);
            assert_int_equal(core.child_wall_ns, 3 * core.calls);
            assert_int_equal(core.late_wall_ns, 2 * core.calls);
            assert_true(core.calls >= last.calls);
            last = core;
        }
        lp_view_counter(view, other, &counter);
        if (!core.torn && view->fd < 0)
            assert_int_equal(counter.sum, -4 * (int64_t)counter.calls);
    }
    if (view->fd < 0)
        assert_int_equal(torn, 0);
    else /* a foreign writer that was switched away inside a change is not waited for */
        assert_true(last.calls > 0);
}

static void test_figures_are_taken_whole_while_they_change(void **state)
{
    static struct writer writer;
    struct lp_view view;
    pthread_t thread;
    (void)state;
    assert_int_equal(lp_image_create(&writer.image, "w_view_test"), 0);
    writer.node = lp_image_at(&writer.image, lp_image_alloc(&writer.image, sizeof *writer.node));
    writer.counter = lp_image_at(&writer.image, lp_image_alloc(&writer.image, sizeof *writer.counter));
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    lp_view_own(&view, &writer.image);
    read_beside(&writer, &view);
    if (writer.image.fd >= 0) {
        assert_int_equal(lp_view_foreign(&view, writer.image.fd), 0);
        read_beside(&writer, &view);
        lp_view_release(&view);
    }
    atomic_store(&writer.enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    lp_image_destroy(&writer.image);
}

/* The owner's own copy waits for a thread that was switched away inside a change: a closed worker's figures are exact. */
static void *finish_later(void *context)
{
    struct writer *writer = context;
    pause_ms(20);
    LP_ADD(writer->node->core.wall_ns, 7);
    lp_core_end(&writer->node->core);
    return NULL;
}

static void test_a_change_that_takes_long_is_waited_for(void **state)
{
    static struct writer writer;
    struct lp_core_copy core;
    struct lp_view view;
    pthread_t thread;
    (void)state;
    assert_int_equal(lp_image_create(&writer.image, "w_view_test"), 0);
    writer.node = lp_image_at(&writer.image, lp_image_alloc(&writer.image, sizeof *writer.node));
    lp_view_own(&view, &writer.image);
    lp_core_begin(&writer.node->core);
    LP_ADD(writer.node->core.calls, 1);
    assert_int_equal(pthread_create(&thread, NULL, finish_later, &writer), 0);
    lp_view_core(&view, writer.node, &core);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(core.torn || core.wall_ns == 7); /* on a machine that sleeps a tenth of a second, torn is the truth */
    lp_core_begin(&writer.node->core);
    if (writer.image.fd >= 0) { /* of a dead owner's image we take what there is, and say so */
        assert_int_equal(lp_view_foreign(&view, writer.image.fd), 0);
        lp_view_core(&view, (const void *)(view.base + ((const char *)writer.node - writer.image.base)), &core);
        assert_true(core.torn);
        assert_int_equal(core.calls, 1);
        lp_view_release(&view);
    }
    lp_image_destroy(&writer.image);
}

/* ---- nothing twice, nothing lost ---------------------------------------------------- */

struct traffic {
    struct recording recording;
    _Atomic uint64_t entered, left; /* stepped before an entry, and after its end */
    atomic_bool enough;
    _Atomic int finished;
};

static void *pass_through(void *context)
{
    struct traffic *traffic = context;
    while (!atomic_load_explicit(&traffic->enough, memory_order_relaxed)) {
        atomic_fetch_add(&traffic->entered, 1);
        struct lp_entry outer = enter(&traffic->recording, "outer"), inner = enter(&traffic->recording, "inner");
        leave(&inner);
        leave(&outer);
        atomic_fetch_add(&traffic->left, 1);
    }
    return NULL;
}

static void watch(struct traffic *traffic, bool own, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        struct lp_view view;
        uint64_t left = atomic_load(&traffic->left);
        if (own)
            lp_view_own(&view, &traffic->recording.recorder.image);
        else
            assert_int_equal(lp_view_foreign(&view, traffic->recording.recorder.image.fd), 0);
        json_t *document = document_of_view(&view, own);
        lp_view_release(&view);
        uint64_t entered = atomic_load(&traffic->entered);
        struct figures outer = figures_at(document, "outer"), inner = figures_at(document, "outer/inner");
        assert_true(outer.calls >= left && inner.calls >= left);
        assert_true(outer.calls + outer.open_calls <= entered);
        assert_true(inner.calls + inner.open_calls <= entered);
        assert_true(outer.open_calls <= 1 && inner.open_calls <= 1);
        json_decref(document);
    }
}

static void test_an_entry_is_open_or_ended_never_both(void **state)
{
    static struct traffic traffic;
    pthread_t thread;
    (void)state;
    recording_open(&traffic.recording);
    assert_int_equal(pthread_create(&thread, NULL, pass_through, &traffic), 0);
    WAIT_UNTIL(atomic_load(&traffic.left) > 0);
    watch(&traffic, true, 3000);
    if (traffic.recording.recorder.image.fd >= 0)
        watch(&traffic, false, 3000);
    atomic_store(&traffic.enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    json_t *document = recording_document(&traffic.recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "outer").calls, atomic_load(&traffic.entered));
    json_decref(document);
    recording_close(&traffic.recording);
}

/* Lists grow at their heads while they are read: what was there before must not be missed. */
static void *add_counters(void *context)
{
    struct traffic *traffic = context;
    char name[32];
    for (unsigned i = 0; i < 500; i++) {
        struct lp_entry entry = enter(&traffic->recording, "steady");
        snprintf(name, sizeof name, "counter %u", i);
        lp_record_count(&traffic->recording.recorder, name_of("first"), 1);
        lp_record_count(&traffic->recording.recorder, name_of(name), 1);
        leave(&entry);
    }
    atomic_fetch_add(&traffic->finished, 1);
    return NULL;
}

static void *add_slots(void *context)
{
    struct traffic *traffic = context;
    pthread_t thread;
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_create(&thread, NULL, record_a_little, &traffic->recording) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    atomic_fetch_add(&traffic->finished, 1);
    return NULL;
}

static size_t name_after_itself(void *context, char *name, size_t size)
{
    static _Atomic unsigned n; /* ever new: each thread gets a slot of its own */
    (void)context;
    return (size_t)snprintf(name, size, "thread %u", atomic_fetch_add(&n, 1));
}

static void watch_lists_grow(struct traffic *traffic, bool own)
{
    uint64_t steady = 0;
    bool seen = false;
    while (atomic_load(&traffic->finished) < 2) {
        struct lp_view view;
        struct counter_figures first;
        if (own)
            lp_view_own(&view, &traffic->recording.recorder.image);
        else
            assert_int_equal(lp_view_foreign(&view, traffic->recording.recorder.image.fd), 0);
        json_t *document = document_of_view(&view, own);
        lp_view_release(&view);
        assert_true(figures_at(document, "iteration/learn").calls >= 10);
        uint64_t calls = figures_at(document, "steady").calls;
        assert_true(calls >= steady);
        bool there = counter_at(document, "steady", "first", &first);
        assert_true(there ? first.calls >= calls : !seen); /* what is new may be missed, once */
        seen = there;
        steady = calls;
        json_decref(document);
    }
}

static void test_what_was_there_is_seen_while_lists_grow(void **state)
{
    static struct traffic traffic;
    pthread_t threads[2];
    (void)state;
    for (int round = 0; round < 20; round++) {
        recording_open_with(&traffic.recording,
                            &(struct recording_options){.keep_thread_names = true, .thread_name = name_after_itself});
        atomic_store(&traffic.finished, 0);
        record_a_little(&traffic.recording);
        assert_int_equal(pthread_create(&threads[0], NULL, add_counters, &traffic), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, add_slots, &traffic), 0);
        watch_lists_grow(&traffic, round % 2 || traffic.recording.recorder.image.fd < 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        recording_close(&traffic.recording);
    }
}

/* Entries that end between the copy and its reading are in the calls, which are read again, and in the histogram. */
static void test_a_histogram_is_as_new_as_its_calls_J5(void **state)
{
    static struct recording recording;
    struct lp_view view;
    (void)state;
    recording_open(&recording);
    if (recording.recorder.image.fd < 0)
        skip();
    record_a_little(&recording);
    assert_int_equal(lp_view_foreign(&view, recording.recorder.image.fd), 0);
    struct lp_entry iteration = enter(&recording, "iteration");
    for (int i = 0; i < 1000; i++) {
        struct lp_entry learn = enter(&recording, "learn");
        leave(&learn);
    }
    leave(&iteration);
    json_t *document = document_of_view(&view, false);
    assert_int_equal(figures_at(document, "iteration/learn").calls, 1010);
    assert_int_equal(figures_at(document, "iteration/learn").hist_total, 1010);
    assert_document_adds_up(document);
    json_decref(document);
    lp_view_release(&view);
    recording_close(&recording);
}

/* The same through the file of another process. */
struct shared_counts {
    _Atomic uint64_t entered, left;
    _Atomic uint32_t enough;
    char path[256];
    _Atomic uint32_t ready;
};

static void be_watched(void *context)
{
    struct shared_counts *counts = context;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    static struct recording recording;
    recording_open(&recording);
    lp_image_publish(&recording.recorder.image);
    CANNOT_IF(recording.recorder.image.fd < 0);
    strcpy(counts->path, recording.recorder.image.path);
    atomic_store(&counts->ready, 1);
    while (!atomic_load_explicit(&counts->enough, memory_order_relaxed)) {
        atomic_fetch_add(&counts->entered, 1);
        struct lp_entry outer = enter(&recording, "outer"), inner = enter(&recording, "inner");
        leave(&inner);
        leave(&outer);
        atomic_fetch_add(&counts->left, 1);
    }
    recording_close(&recording);
}

static void test_another_process_can_be_watched(void **state)
{
    struct shared_counts *counts =
        mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    (void)state;
    pid_t pid = recording_fork();
    if (pid == 0) {
        be_watched(counts);
        _exit(0);
    }
    WAIT_UNTIL(atomic_load(&counts->ready) || waitpid(pid, &status, WNOHANG) == pid);
    if (!atomic_load(&counts->ready)) {
        assert_int_equal(WEXITSTATUS(status), CANNOT);
        skip();
    }
    int fd = open(counts->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int i = 0; i < 2000; i++) {
        struct lp_view view;
        uint64_t left = atomic_load(&counts->left);
        assert_int_equal(lp_view_foreign(&view, fd), 0);
        json_t *document = document_of_view(&view, false);
        lp_view_release(&view);
        uint64_t entered = atomic_load(&counts->entered);
        struct figures outer = figures_at(document, "outer"), inner = figures_at(document, "outer/inner");
        assert_true(outer.calls >= left && outer.calls + outer.open_calls <= entered);
        assert_true(inner.calls >= left && inner.calls + inner.open_calls <= entered);
        json_decref(document);
    }
    atomic_store(&counts->enough, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd);
    munmap(counts, sizeof *counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_from_a_file_is_what_was_recorded),
        cmocka_unit_test(test_a_file_cut_short_anywhere),
        cmocka_unit_test(test_damage_of_any_kind_ends),
        cmocka_unit_test(test_lists_that_share_their_members_are_not_multiplied),
        cmocka_unit_test(test_lists_of_stacks_that_are_none),
        cmocka_unit_test(test_a_circle_of_many_full_stacks_ends),
        cmocka_unit_test(test_what_is_no_image_is_refused),
        cmocka_unit_test(test_a_huge_claim_takes_no_huge_memory),
        cmocka_unit_test(test_figures_are_taken_whole_while_they_change),
        cmocka_unit_test(test_a_change_that_takes_long_is_waited_for),
        cmocka_unit_test(test_an_entry_is_open_or_ended_never_both),
        cmocka_unit_test(test_what_was_there_is_seen_while_lists_grow),
        cmocka_unit_test(test_a_histogram_is_as_new_as_its_calls_J5),
        cmocka_unit_test(test_another_process_can_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

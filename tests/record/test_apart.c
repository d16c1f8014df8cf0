/* O4: threads that record their own phases do not slow each other down. What one writes at its boundaries lies apart from
   what another writes or reads there, by more than a core fetches at once; and what all of them read, none writes. */
#include "support/recording.h"

#define MOST 4096

/* The pieces of memory, LP_APART long each, that one thread writes at its boundaries. */
struct written {
    struct recording *recording;
    uintptr_t pieces[MOST];
    size_t n;
};

static void add(struct written *written, const void *from, size_t bytes)
{
    uintptr_t first = (uintptr_t)from / LP_APART, last = ((uintptr_t)from + bytes - 1) / LP_APART;
    for (uintptr_t piece = first; piece <= last; piece++) {
        assert_in_range(written->n, 0, MOST - 1);
        written->pieces[written->n++] = piece;
    }
}

static void add_node(struct written *written, const struct lp_node *node)
{
    const struct lp_image *image = &written->recording->recorder.image;
    add(written, node, sizeof *node);
    for (size_t i = 0; i < sizeof node->octaves / sizeof *node->octaves; i++)
        if (LP_GET(node->octaves[i]))
            add(written, lp_image_at(image, LP_GET(node->octaves[i])), sizeof(struct lp_octave));
    const struct lp_counter *counter;
    for (lp_ref ref = LP_GET(node->last_counter); ref; ref = counter->older) {
        counter = lp_image_at(image, ref);
        add(written, counter, sizeof *counter);
    }
}

static void add_thread(struct written *written, const struct lp_thread *thread)
{
    const struct lp_image *image = &written->recording->recorder.image;
    add(written, thread, sizeof *thread);
    add(written, &lp_thread_cache, sizeof lp_thread_cache);
    for (lp_ref ref = LP_GET(thread->slot->last_stack); ref;) {
        const struct lp_stack *stack = lp_image_at(image, ref);
        add(written, stack, sizeof *stack);
        ref = LP_GET(stack->older);
    }
    for (const struct lp_node *node = thread->root; node;
         node = LP_GET(node->next_in_slot) ? lp_image_at(image, LP_GET(node->next_in_slot)) : NULL)
        add_node(written, node);
}

/* So many entries that several octaves are met, the allocations of both threads mixed. */
static void record(struct recording *recording, int turns)
{
    static const char *const names[] = {"a", "bb", "ccc"};
    for (int i = 0; i < turns; i++) {
        struct lp_entry outer = enter(recording, names[i % 3]), inner = enter(recording, names[i / 3 % 3]);
        lp_record_count(&recording->recorder, name_of(names[i / 9 % 3]), 1);
        leave(&inner);
        leave(&outer);
    }
}

enum { THREADS = 3 };

static pthread_barrier_t barrier;

static void *record_and_tell(void *context)
{
    struct written *written = context;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 9; i++) {
        record(written->recording, 3);
        pthread_barrier_wait(&barrier);
    }
    for (uint64_t task = 1; task <= 3; task++) {
        CHECK(run_task(written->recording, task) != NULL);
        record(written->recording, 27);
    }
    record(written->recording, 20000);
    add_thread(written, self(written->recording));
    pthread_barrier_wait(&barrier);
    return NULL;
}

static int by_value(const void *left, const void *right)
{
    uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
    return (a > b) - (a < b);
}

static bool writes(const struct written *written, uintptr_t piece)
{
    return bsearch(&piece, written->pieces, written->n, sizeof piece, by_value) != NULL;
}

static void test_threads_write_apart_O4(void **state)
{
    static struct recording recording;
    static struct written written[THREADS];
    pthread_t threads[THREADS];
    (void)state;
    recording_open(&recording);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        written[i] = (struct written){.recording = &recording};
        assert_int_equal(pthread_create(&threads[i], NULL, record_and_tell, &written[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_in_range(written[i].n, 50, MOST);
        qsort(written[i].pieces, written[i].n, sizeof *written[i].pieces, by_value);
    }
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < THREADS; j++)
            for (size_t k = 0; i != j && k < written[i].n; k++)
                assert_false(writes(&written[j], written[i].pieces[k]));
    /* Nor do they write beside what all of them read. */
    struct written read = {.recording = &recording};
    add(&read, &recording.recorder, sizeof recording.recorder);
    add(&read, lp_fork_word, sizeof *lp_fork_word);
    add(&read, &lp_fork_word, sizeof lp_fork_word);
    add(&read, &lp_wall_map, sizeof lp_wall_map);
    add(&read, lp_image_header(&recording.recorder.image), sizeof(struct lp_header));
    for (int i = 0; i < THREADS; i++)
        for (size_t k = 0; k < read.n; k++)
            assert_false(writes(&written[i], read.pieces[k]));
    pthread_barrier_destroy(&barrier);
    recording_close(&recording);
}

/* Once its paths, counters and octaves are known. That each turn may meet another octave is why there are several tries. */
static void test_what_all_read_none_writes_O4(void **state)
{
    static struct recording recording;
    static char before[sizeof recording.recorder + sizeof(struct lp_header)];
    bool unchanged = false;
    (void)state;
    recording_open(&recording);
    record(&recording, 20000);
    for (int i = 0; i < 100 && !unchanged; i++) {
        const struct lp_header *header = lp_image_header(&recording.recorder.image);
        memcpy(before, &recording.recorder, sizeof recording.recorder);
        memcpy(before + sizeof recording.recorder, header, sizeof *header);
        record(&recording, 100);
        unchanged = memcmp(before, &recording.recorder, sizeof recording.recorder) == 0 &&
                    memcmp(before + sizeof recording.recorder, header, sizeof *header) == 0;
    }
    assert_true(unchanged);
    recording_close(&recording);
}

/* A line that is a thread's own half of a pair is used, not lost. */
static void test_single_lines_share_pairs(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    record(&recording, 1);
    struct lp_thread *thread = self(&recording);
    lp_ref refs[5];
    for (int i = 0; i < 5; i++) {
        refs[i] = lp_thread_alloc(thread, LP_LINE);
        CHECK(refs[i] != 0);
    }
    int beside = 0;
    for (int i = 1; i < 5; i++)
        beside += refs[i] == refs[i - 1] + 1 && refs[i - 1] % (LP_APART / LP_LINE) == 0;
    assert_int_equal(beside, 2);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_write_apart_O4),
        cmocka_unit_test(test_what_all_read_none_writes_O4),
        cmocka_unit_test(test_single_lines_share_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

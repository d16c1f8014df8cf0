/* Rows that wait in an image: the newest in order, none made of two, and nothing from a ring that is damaged. */
#include "support/support.h"

#include <pthread.h>
#include <sys/mman.h>

#include "image/ring.h"

#define CAPACITY 8u
#define WORDS 16u

struct row {
    uint64_t words[WORDS];
};

static struct lp_image image;

static int make_image(void **state)
{
    (void)state;
    return lp_image_create(&image, "w_ring");
}

static int destroy_image(void **state)
{
    (void)state;
    lp_image_destroy(&image);
    return 0;
}

#define in_image(test) cmocka_unit_test_setup_teardown(test, make_image, destroy_image)

static struct lp_view own_view(void)
{
    struct lp_view view;
    lp_view_own(&view, &image);
    return view;
}

/* Every word tells which row it is of. */
static struct row row_of(uint64_t i)
{
    struct row row;
    for (unsigned k = 0; k < WORDS; k++)
        row.words[k] = i * WORDS + k;
    return row;
}

static bool is_row(const struct row *row, uint64_t i)
{
    struct row wanted = row_of(i);
    return memcmp(row, &wanted, sizeof wanted) == 0;
}

static void put(uint64_t i)
{
    struct row row = row_of(i);
    assert_true(lp_ring_put(&image, LP_RING_PROCESS, CAPACITY, sizeof row, &row));
}

static void test_before_the_first_row_there_is_no_ring(void **state)
{
    (void)state;
    struct lp_view view = own_view();
    assert_null(lp_view_ring(&view, LP_RING_PROCESS));
    assert_null(lp_image_ring(&image, LP_RING_PROCESS));
    put(0);
    assert_non_null(lp_view_ring(&view, LP_RING_PROCESS));
    assert_null(lp_view_ring(&view, LP_RING_GPU));
}

static void test_the_newest_rows_are_there(void **state)
{
    (void)state;
    struct lp_view view = own_view();
    for (uint64_t taken = 1; taken <= 5 * CAPACITY; taken++) {
        put(taken - 1);
        const struct lp_ring *ring = lp_view_ring(&view, LP_RING_PROCESS);
        assert_int_equal(atomic_load(&ring->taken), taken);
        for (uint64_t i = 0; i < taken + 3; i++) {
            struct row row;
            bool there = lp_ring_row(&view, ring, i, &row);
            /* The place of one row is that of the next to be put, which may begin at any moment. */
            assert_int_equal(there, i < taken && taken - i < CAPACITY);
            assert_true(!there || is_row(&row, i));
        }
    }
}

static void test_kinds_have_rings_and_rows_of_their_own(void **state)
{
    (void)state;
    struct lp_view view = own_view();
    const uint64_t narrow[] = {7, 8, 9};
    struct row row;
    put(0);
    for (int i = 0; i < 3; i++)
        assert_true(lp_ring_put(&image, LP_RING_GPU, 2, sizeof narrow[0], &narrow[i]));
    const struct lp_ring *ring = lp_view_ring(&view, LP_RING_GPU);
    assert_int_equal(ring->row_bytes, 8);
    assert_false(lp_ring_row(&view, ring, 1, &row));
    assert_true(lp_ring_row(&view, ring, 2, &row));
    assert_int_equal(row.words[0], 9);
    assert_true(lp_ring_row(&view, lp_view_ring(&view, LP_RING_PROCESS), 0, &row));
    assert_true(is_row(&row, 0));
}

/* ---- readers meanwhile --------------------------------------------------------------- */

static _Atomic bool enough;

struct reader {
    pthread_t thread;
    uint64_t whole, torn;
};

static void *read_on(void *context)
{
    struct reader *reader = context;
    struct lp_view view = own_view();
    const struct lp_ring *ring;
    while (!(ring = lp_view_ring(&view, LP_RING_PROCESS)))
        sched_yield();
    while (!atomic_load(&enough)) {
        uint64_t taken = atomic_load(&ring->taken);
        for (uint64_t i = taken > CAPACITY ? taken - CAPACITY : 0; i < taken; i++) {
            struct row row;
            if (lp_ring_row(&view, ring, i, &row)) {
                reader->whole++;
                reader->torn += !is_row(&row, i);
            }
        }
    }
    return NULL;
}

static void *write_on(void *rows)
{
    for (uint64_t i = 0; i < *(uint64_t *)rows; i++) {
        struct row row = row_of(i);
        if (!lp_ring_put(&image, LP_RING_PROCESS, CAPACITY, sizeof row, &row))
            return rows;
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void test_a_row_is_whole_or_not_there(void **state)
{
    struct reader readers[3] = {{0}};
    uint64_t rows = LP_TEST_TSAN ? 20000 : 400000, whole = 0;
    pthread_t writer;
    void *failed;
    (void)state;
    atomic_store(&enough, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_on, &rows), 0);
    assert_int_equal(pthread_join(writer, &failed), 0);
    assert_null(failed);
    /* Each reader has met rows, if only now that nobody writes. */
    pause_ms(5);
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].torn, 0);
        whole += readers[i].whole;
    }
    assert_true(whole > 0);
}

/* ---- damage ------------------------------------------------------------------------------ */

/* A copy of the image that may be damaged, as a view of another process's. */
struct copy {
    char *bytes;
    struct lp_view view;
    struct lp_header *header;
    struct lp_ring *ring;
};

static struct copy copy_make(void)
{
    struct copy copy;
    for (uint64_t i = 0; i < 2 * CAPACITY; i++)
        put(i);
    size_t used = atomic_load(&lp_image_header(&image)->used);
    copy.bytes = aligned_alloc(LP_LINE, used); /* to the byte: what is read behind it is found out */
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, image.base, used);
    copy.view = (struct lp_view){.base = copy.bytes, .size = used, .fd = -1};
    copy.header = (void *)copy.bytes;
    copy.ring = (void *)(copy.bytes + (size_t)atomic_load(&copy.header->rings[LP_RING_PROCESS]) * LP_LINE);
    return copy;
}

static void test_a_ring_that_is_no_ring(void **state)
{
    static const uint32_t capacities[] = {0, CAPACITY + 1000000, UINT32_MAX, UINT32_MAX / 128 + 1};
    static const uint32_t widths[] = {0, 1, 7, 12, 127, LP_RING_ROW_BYTES + 8, 1u << 31, UINT32_MAX, UINT32_MAX - 7};
    (void)state;
    struct copy copy = copy_make();
    assert_ptr_equal(lp_view_ring(&copy.view, LP_RING_PROCESS), copy.ring);
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        copy.ring->capacity = capacities[i];
        assert_null(lp_view_ring(&copy.view, LP_RING_PROCESS));
    }
    copy.ring->capacity = CAPACITY;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        copy.ring->row_bytes = widths[i];
        assert_null(lp_view_ring(&copy.view, LP_RING_PROCESS));
    }
    free(copy.bytes);
}

static void test_a_place_outside(void **state)
{
    (void)state;
    struct copy copy = copy_make();
    lp_ref end = (lp_ref)(copy.view.size / LP_LINE);
    const lp_ref places[] = {0, end, end - 1, end + 1, UINT32_MAX};
    memset(copy.bytes + copy.view.size - LP_LINE, 0, LP_LINE);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        atomic_store(&copy.header->rings[LP_RING_PROCESS], places[i]);
        assert_null(lp_view_ring(&copy.view, LP_RING_PROCESS));
    }
    free(copy.bytes);
}

/* Rows may be nonsense; they are read from the ring and from nowhere else. */
static void test_any_numbers_in_a_ring(void **state)
{
    uint64_t seed = 1;
    (void)state;
    struct copy copy = copy_make();
    for (int turn = 0; turn < 20000; turn++) {
        struct row row;
        copy.ring->capacity = (uint32_t)(random_next(&seed) >> (random_next(&seed) % 64));
        copy.ring->row_bytes = (uint32_t)(random_next(&seed) % 18) * 8;
        atomic_store(&copy.ring->taken, random_next(&seed) >> (random_next(&seed) % 64));
        atomic_store(&copy.header->rings[LP_RING_PROCESS], (lp_ref)(random_next(&seed) % (copy.view.size / 32)));
        copy.ring->capacity = turn % 2 ? CAPACITY : copy.ring->capacity;
        const struct lp_ring *ring = lp_view_ring(&copy.view, LP_RING_PROCESS);
        if (ring)
            lp_ring_row(&copy.view, ring, random_next(&seed) >> (random_next(&seed) % 64), &row);
    }
    free(copy.bytes);
}

static void fill_up(void *context)
{
    struct row row = row_of(0);
    (void)context;
    while (lp_image_alloc(&image, 1u << 20))
        continue;
    while (lp_image_alloc(&image, LP_LINE))
        continue;
    CHECK(!lp_ring_put(&image, LP_RING_PROCESS, CAPACITY, sizeof row, &row));
    CHECK(lp_image_ring(&image, LP_RING_PROCESS) == NULL);
}

static void test_no_room_for_a_ring(void **state)
{
    (void)state;
    in_child(fill_up, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_image(test_before_the_first_row_there_is_no_ring),
        in_image(test_the_newest_rows_are_there),
        in_image(test_kinds_have_rings_and_rows_of_their_own),
        in_image(test_a_row_is_whole_or_not_there),
        in_image(test_a_ring_that_is_no_ring),
        in_image(test_a_place_outside),
        in_image(test_any_numbers_in_a_ring),
        in_image(test_no_room_for_a_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

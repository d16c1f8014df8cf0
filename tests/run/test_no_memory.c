/* Every allocation fails once: the load then says so and leaves nothing behind. (Where it is Jansson that found no room
   for a word, the load may go on without that file: Jansson does not look.) */
#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR 0
#endif
#endif
#ifndef OWN_ALLOCATOR
#define OWN_ALLOCATOR 1
#endif

#if OWN_ALLOCATOR

#include <errno.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static long left = -1;   /* Allocations until one fails; negative: none does. */
static long outstanding; /* Allocations not freed. */

static bool fails(void)
{
    if (left < 0 || left-- > 0)
        return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    outstanding += memory != NULL;
    return memory;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *memory, size_t size)
{
    if (fails())
        return NULL;
    void *moved = __libc_realloc(memory, size);
    outstanding += !memory && moved;
    return moved;
}

void *reallocarray(void *memory, size_t n, size_t size)
{
    return realloc(memory, n * size);
}

void free(void *memory)
{
    outstanding -= memory != NULL;
    __libc_free(memory);
}

static void make_backends(const char *folder)
{
    static const char note[] =
        "{\"format\":\"lineprofiler-backend\",\"version\":1,\"worker\":\"w_r1_2_00000002\",\"run_id\":\"r1\","
        "\"role\":\"learner\",\"backend\":\"torch\",\"window_phase\":\"step\",\"window\":[3,6],\"entries\":6,"
        "\"state\":\"written\",\"artifact\":\"backend/torch_trace.w_r1_2_00000002.json\",\"bytes\":2,"
        "\"reason\":\"because\",\"errors\":1,\"error\":\"x\"}";
    write_bytes(folder, "backend/w_r1_2_00000002.json", note, sizeof note - 1);
    write_bytes(folder, "backend/torch_trace.w_r1_2_00000002.json", "{}", 2);
    write_bytes(folder, "backend/w_r1_3_00000003.json", "{}", 2);
    write_bytes(folder, "backend/viztracer.w_r1_3_00000003.json", "{}", 2);
}

static char *make_run(void)
{
    char *folder = make_folder();
    make_backends(folder);
    static const struct spec specs[] = {
        {.worker = "w_r0_1_00000001", .run_id = "r0", .written_s = 10},
        {.worker = "w_r1_2_00000002", .start_s = 20, .role = "learner", .troubles = "{\"failed_flushes\":2}"},
        {.worker = "w_r1_3_00000003",
         .start_s = 20,
         .state = "running",
         .thread_names = "true",
         .threads = ONE_THREAD(",{\"parent\":0,\"name\":\"a\\\\\\\\b\",\"calls\":1,\"wall_ns\":9,\"hist\":\"9:1\","
                               "\"counters\":{\"n\":[1,1,1,1]},\"open_calls\":1,\"open_wall_ns\":9}")},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        write_worker(folder, &specs[i]);
    write_bytes(folder, "workers/h/w_r1_9_00000009.json", "{", 1);
    write_bytes(folder, "metadata.json", "{}", 2);
    return folder;
}

/* Loads with one failure after so many allocations; false once there are not so many. otherwise: the status of a load for
   which there is memory. */
static bool load_failing_after(const char *folder, const struct lp_run_filter *filter, int otherwise, long allocations)
{
    struct lp_run *run;
    char message[512];
    struct lp_run_options options = {.no_images = true, .filter = filter};
    long before = outstanding;
    left = allocations;
    int status = lp_run_load(&run, folder, &options, message, sizeof message);
    bool failed = left < 0;
    left = -1;
    if (!failed)
        assert_int_equal(status, otherwise);
    else if (status != LP_RUN_OK && status != otherwise)
        assert_int_equal(status, LP_RUN_SYSTEM);
    if (status != LP_RUN_OK) {
        assert_null(run);
        assert_true(message[0] != '\0');
    }
    lp_run_free(run);
    if (outstanding != before)
        fail_msg("%ld blocks left behind after failure %ld", outstanding - before, allocations);
    return failed;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char *folder = make_run();
    long n = 0;
    load_failing_after(folder, NULL, LP_RUN_OK, 1000000); /* what is allocated once, by libraries */
    while (load_failing_after(folder, NULL, LP_RUN_OK, n))
        n++;
    assert_true(n > 300);
    remove_folder(folder);
}

static void test_every_allocation_of_a_filter_may_fail(void **state)
{
    (void)state;
    char *folder = make_run();
    struct lp_run_filter some = {.roles = (const char *[]){"x", "a*"}, .n_roles = 1};
    for (int known = 0; known < 2; known++) {
        some.roles[0] = known ? "a*" : "x";
        long n = 0;
        while (load_failing_after(folder, &some, known ? LP_RUN_OK : LP_RUN_UNKNOWN, n))
            n++;
        assert_true(n > 100);
    }
    remove_folder(folder);
}

#else

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    skip(); /* the sanitizer's allocator cannot be replaced */
}

static void test_every_allocation_of_a_filter_may_fail(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail),
                                       cmocka_unit_test(test_every_allocation_of_a_filter_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

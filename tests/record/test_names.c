/* Any text has one number for the life of the process, and comes back from it unchanged. */
#include "support/recording.h"

#include <pthread.h>

#include "image/image.h"
#include "record/names.h"

static void assert_kept_as(const char *bytes, size_t len, const char *kept, size_t kept_len)
{
    lp_name_id id = lp_name_intern(bytes, len);
    struct lp_name_text text = lp_name_text(id);
    assert_int_not_equal(id, LP_NAME_NONE);
    assert_int_equal(text.len, kept_len);
    assert_memory_equal(text.bytes, kept, kept_len);
    assert_int_equal(text.bytes[text.len], '\0');
    assert_int_equal(lp_name_intern(bytes, len), id);
    assert_int_equal(lp_name_intern(kept, kept_len), id);
}

static void assert_kept(const char *bytes, size_t len)
{
    assert_kept_as(bytes, len, bytes, len);
}

/* NM01, B12 */
static void test_any_text_comes_back(void **state)
{
    (void)state;
    assert_kept("plain", 5);
    assert_kept("a/b", 3);
    assert_kept("with\0nul", 8);
    assert_kept("\n\x1b", 2);
    assert_kept("Mod\xc3\xa8le", 7);
    assert_kept("\xe8\xae\xad\xe7\xbb\x83", 6);
    assert_kept("\xf0\x9f\x98\x80", 4);
    assert_kept("\xed\xb3\xbf", 3);             /* U+DCFF alone */
    assert_kept("\xed\xa0\xbd\xed\xb8\x80", 6); /* two surrogates are not one character */
    assert_true(lp_name_intern("with", 4) != lp_name_intern("with\0nul", 8));
}

/* What Python's surrogateescape makes of them. */
static void test_bytes_that_are_no_text_become_surrogates(void **state)
{
    (void)state;
    assert_kept_as("\xff", 1, "\xed\xb3\xbf", 3);
    assert_kept_as("\x80", 1, "\xed\xb2\x80", 3);
    assert_kept_as("a\xe8\xae", 3, "a\xed\xb3\xa8\xed\xb2\xae", 7);
    assert_kept_as("\xc0\xaf", 2, "\xed\xb3\x80\xed\xb2\xaf", 6);
    assert_kept_as("\xf4\x90\x80\x80", 4, "\xed\xb3\xb4\xed\xb2\x90\xed\xb2\x80\xed\xb2\x80", 12);
}

static void test_what_is_no_name_has_no_text(void **state)
{
    (void)state;
    assert_int_equal(lp_name_text(LP_NAME_NONE).len, 0);
    assert_int_equal(lp_name_text(LP_NAMES_LIMIT - 1).len, 0);
    assert_int_equal(lp_name_text(LP_NAMES_LIMIT).len, 0);
    assert_int_equal(lp_name_text(UINT32_MAX).len, 0);
}

static void test_a_mebibyte_is_the_longest(void **state)
{
    char *text = malloc(LP_NAME_LIMIT + 1);
    (void)state;
    assert_non_null(text);
    memset(text, 'n', LP_NAME_LIMIT + 1);
    assert_int_equal(lp_name_intern(text, LP_NAME_LIMIT + 1), LP_NAME_NONE);
    assert_kept(text, LP_NAME_LIMIT);
    memset(text, 0xff, LP_NAME_LIMIT / 2); /* kept, this is longer than any reader takes */
    assert_int_equal(lp_name_intern(text, LP_NAME_LIMIT / 2), LP_NAME_NONE);
    free(text);
}

static void intern_many(void *context)
{
    char text[32];
    lp_name_id first = LP_NAME_NONE, id;
    uint32_t n = 0;
    (void)context;
    for (;; n++) {
        snprintf(text, sizeof text, "name %u", n);
        id = lp_name_intern(text, strlen(text));
        if (id == LP_NAME_NONE)
            break;
        CHECK(id < LP_NAMES_LIMIT);
        first = first == LP_NAME_NONE ? id : first;
    }
    CHECK(n > 65000 && n < LP_NAMES_LIMIT);
    for (uint32_t i = 0; i < n; i++) { /* those that have a number keep it */
        snprintf(text, sizeof text, "name %u", i);
        id = lp_name_intern(text, strlen(text));
        CHECK_U64(id, first + i);
        CHECK(strcmp(lp_name_text(id).bytes, text) == 0);
    }
}

static void test_the_table_is_bounded(void **state)
{
    (void)state;
    in_child(intern_many, NULL);
}

static void *intern_the_same(void *context)
{
    lp_name_id *ids = context;
    char text[32];
    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "shared %u", i);
        ids[i] = lp_name_intern(text, strlen(text));
        if (strcmp(lp_name_text(ids[i]).bytes, text) != 0)
            return context;
    }
    return NULL;
}

static void test_threads_agree_on_the_numbers(void **state)
{
    static lp_name_id ids[4][3000];
    pthread_t threads[4];
    void *failed;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, intern_the_same, ids[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
        assert_memory_equal(ids[i], ids[0], sizeof ids[0]);
    }
}

/* ---- sampling strides --------------------------------------------------------------- */

static void test_a_phase_id_carries_its_stride(void **state)
{
    lp_name_id name = lp_name_intern("sampled", 7);
    (void)state;
    assert_int_equal(lp_phase_sampled(name, 1), name);
    assert_int_equal(lp_phase_sampled(name, 0), name);
    assert_int_equal(lp_phase_stride(name), 1);
    static const uint32_t strides[] = {2, 3, 100, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        lp_phase_id phase = lp_phase_sampled(name, strides[i]);
        assert_int_not_equal(phase, name);
        assert_int_equal(phase & LP_NAME_MASK, name);
        assert_int_equal(lp_phase_stride(phase), strides[i]);
        assert_int_equal(lp_phase_sampled(name, strides[i]), phase);
        lp_name_id other = lp_name_intern("another", 7);
        assert_int_equal(lp_phase_sampled(other, strides[i]), other | (phase & ~LP_NAME_MASK));
    }
    assert_int_equal(lp_phase_sampled(LP_NAME_NONE, 2), LP_NAME_NONE);
    assert_int_equal(lp_phase_stride(name | LP_STRIDES_LIMIT << 16), 0);
    assert_int_equal(lp_phase_stride(UINT32_MAX), 0);
}

static void fill_strides(void *context)
{
    lp_name_id name = lp_name_intern("sampled", 7);
    lp_phase_id first = lp_phase_sampled(name, 1000), last = first;
    uint32_t n = 1;
    (void)context;
    while (n < 1000 && (last = lp_phase_sampled(name, 1000 + n)) != name) {
        CHECK_U64(lp_phase_stride(last), 1000 + n);
        n++;
    }
    CHECK(n > 200 && n < LP_STRIDES_LIMIT);
    CHECK_U64(lp_phase_sampled(name, 5000), name);  /* every entry is measured */
    CHECK_U64(lp_phase_sampled(name, 1000), first); /* those that there are stay */
    CHECK_U64(lp_phase_stride(lp_phase_sampled(name, 999 + n)), 999 + n);
    CHECK_U64(lp_phase_stride((LP_STRIDES_LIMIT - 1) << 16), 999 + n);
}

static void test_strides_are_bounded(void **state)
{
    (void)state;
    in_child(fill_strides, NULL);
}

static void *sample_the_same(void *context)
{
    lp_phase_id *phases = context;
    for (uint32_t i = 0; i < 100; i++) {
        phases[i] = lp_phase_sampled(7, 20000 + i);
        if (lp_phase_stride(phases[i]) != 20000 + i)
            return context;
    }
    return NULL;
}

static void test_threads_agree_on_the_strides(void **state)
{
    static lp_phase_id phases[4][100];
    pthread_t threads[4];
    void *failed;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sample_the_same, phases[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
        assert_memory_equal(phases[i], phases[0], sizeof phases[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_text_comes_back),
        cmocka_unit_test(test_bytes_that_are_no_text_become_surrogates),
        cmocka_unit_test(test_what_is_no_name_has_no_text),
        cmocka_unit_test(test_a_mebibyte_is_the_longest),
        cmocka_unit_test(test_the_table_is_bounded),
        cmocka_unit_test(test_threads_agree_on_the_numbers),
        cmocka_unit_test(test_a_phase_id_carries_its_stride),
        cmocka_unit_test(test_strides_are_bounded),
        cmocka_unit_test(test_threads_agree_on_the_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

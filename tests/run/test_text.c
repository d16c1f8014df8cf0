/* The escapes of names: B12, NM01. */
#include "support.h"

static void assert_decodes(const char *encoded, const char *bytes, size_t len)
{
    char to[256];
    ptrdiff_t made = lp_text_decode(to, view_of(encoded));
    assert_int_equal(made, len);
    assert_memory_equal(to, bytes, len);
}

static void test_decode_each_escape(void **state)
{
    (void)state;
    assert_decodes("", "", 0);
    assert_decodes("iteration", "iteration", 9);
    assert_decodes("a/b", "a/b", 3);
    assert_decodes("a\\\\b", "a\\b", 3);
    assert_decodes("a\\x00b", "a\0b", 3);
    assert_decodes("\\udcff", "\xed\xb3\xbf", 3);
    assert_decodes("\\ud83d\\ude00", "\xed\xa0\xbd\xed\xb8\x80", 6);
    assert_decodes("\\\\x00", "\\x00", 4);
    assert_decodes("\\\\\\\\", "\\\\", 2);
    assert_decodes("Mod\xc3\xa8le \xe8\xae\xad \xf0\x9f\x98\x80", "Mod\xc3\xa8le \xe8\xae\xad \xf0\x9f\x98\x80", 16);
}

static void test_decode_refuses_what_no_writer_makes(void **state)
{
    (void)state;
    static const char *const bad[] = {"\\",     "a\\",     "\\n",     "\\x",     "\\x0",    "\\x01",   "\\xff", "\\u",
                                      "\\ud83", "\\u0041", "\\uDCFF", "\\udcfg", "\\ue000", "\\ud7ff", "\\\\\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char to[16];
        if (lp_text_decode(to, view_of(bad[i])) != -1)
            fail_msg("accepted: %s", bad[i]);
    }
}

static void assert_round_trip(const char *bytes, size_t len)
{
    char encoded[4096], decoded[4096];
    assert_true(len * LP_TEXT_ENCODED_MAX <= sizeof encoded);
    size_t made = lp_text_encode(encoded, (struct lp_span){bytes, len});
    for (size_t i = 0; i < made; i++)
        assert_true(encoded[i] != '\0');
    assert_int_equal(lp_text_decode(decoded, (struct lp_span){encoded, made}), len);
    assert_memory_equal(decoded, bytes, len);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char texts[][24] = {"",
                                     "a",
                                     "a/b",
                                     "\\",
                                     "\\\\x00",
                                     "\\udcff",
                                     "\n\t\x01\x7f",
                                     "\xc3\xa8",
                                     "\xf0\x9f\x98\x80",
                                     "\xed\xb3\xbf",
                                     "\xed\xa0\xbd\xed\xb8\x80",
                                     "x\xed\xa0\x80\\",
                                     "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_round_trip(texts[i], strlen(texts[i]));
    assert_round_trip("\0", 1);
    assert_round_trip("a\0\\\0b", 5);
}

/* Every sequence of up to three of these pieces comes back. */
static void test_round_trip_of_combinations(void **state)
{
    (void)state;
    static const struct lp_span pieces[] = {
        {"\\", 1}, {"\0", 1}, {"x00", 3}, {"u", 1}, {"dcff", 4}, {"\xed\xb3\xbf", 3}, {"\xf0\x9f\x98\x80", 4},
        {"/", 1}};
    size_t n = sizeof pieces / sizeof *pieces;
    for (size_t i = 0; i < n * n * n; i++) {
        const struct lp_span *chosen[] = {&pieces[i % n], &pieces[i / n % n], &pieces[i / n / n]};
        char text[16];
        size_t len = 0;
        for (int j = 0; j < 3; j++) {
            memcpy(text + len, chosen[j]->bytes, chosen[j]->len);
            len += chosen[j]->len;
        }
        assert_round_trip(text, len);
    }
}

static void test_bytes_that_are_no_utf8_become_surrogates(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *encoded;
    } cases[] = {
        {"\xff", "\\udcff"},
        {"\xc0\x80", "\\udcc0\\udc80"},
        {"\xc3", "\\udcc3"},
        {"a\x80z", "a\\udc80z"},
        {"\xe0\x80\x80", "\\udce0\\udc80\\udc80"},
        {"\xf0\x80\x80\x80", "\\udcf0\\udc80\\udc80\\udc80"},
        {"\xf4\x90\x80\x80", "\\udcf4\\udc90\\udc80\\udc80"},
        {"\xf5\x80\x80\x80", "\\udcf5\\udc80\\udc80\\udc80"},
        {"\xe2\x82", "\\udce2\\udc82"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char encoded[64];
        size_t made = lp_text_encode(encoded, view_of(cases[i].bytes));
        encoded[made] = '\0';
        assert_string_equal(encoded, cases[i].encoded);
    }
}

static void test_order_is_bytewise(void **state)
{
    (void)state;
    assert_true(lp_text_compare(view_of("a"), view_of("b")) < 0);
    assert_true(lp_text_compare(view_of("a"), view_of("ab")) < 0);
    assert_true(lp_text_compare(view_of("\xc3\xa8"), view_of("z")) > 0);
    assert_true(lp_text_compare((struct lp_span){"a\0b", 3}, (struct lp_span){"a\0c", 3}) < 0);
    assert_int_equal(lp_text_compare(view_of("a"), view_of("a")), 0);
    assert_int_equal(lp_text_compare((struct lp_span){NULL, 0}, view_of("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_each_escape),
        cmocka_unit_test(test_decode_refuses_what_no_writer_makes),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_round_trip_of_combinations),
        cmocka_unit_test(test_bytes_that_are_no_utf8_become_surrogates),
        cmocka_unit_test(test_order_is_bytewise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/emit.h"
#include "report/label.h"

typedef size_t write_fn(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns);

static const char *written(write_fn *write, const char *bytes, size_t len, size_t columns)
{
    static struct lp_buffer shown;
    struct lp_report_sink sink;
    shown.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &shown);
    size_t taken = write(&sink, bytes, len, columns);
    assert_int_equal(sink.error, 0);
    assert_true(taken <= columns);
    assert_int_equal(lp_report_columns(shown.bytes, shown.len), taken);
    return shown.len > 0 ? shown.bytes : "";
}

static const char *label(const char *bytes, size_t len, size_t columns)
{
    return written(lp_report_label, bytes, len, columns);
}

#define assert_name(text, columns, expected)                                                                           \
    assert_string_equal(written(lp_report_name, text, sizeof(text) - 1, columns), expected)
#define assert_label(text, columns, expected) assert_string_equal(label(text, sizeof(text) - 1, columns), expected)

static void test_a_name_that_fits_is_whole(void **state)
{
    (void)state;
    assert_label("mcts", 4, "mcts");
    assert_label("", 4, "");
    assert_label("训练", 4, "训练");
    assert_label("Modèle", 6, "Modèle");
    assert_label("e\u0301", 1, "e\u0301"); /* A combining accent takes no column. */
}

/* K12: the tail tells a name from its neighbours. */
static void test_a_long_name_keeps_its_tail(void **state)
{
    (void)state;
    assert_label("iteration/self_play/mcts", 15, "…self_play/mcts");
}

/* Hosts of one domain, and roles of one kind, are told apart by their heads. */
static void test_a_long_name_keeps_both_ends_K12(void **state)
{
    (void)state;
    assert_name("node07", 6, "node07");
    assert_name("node0123.cluster.example.org", 20, "node0123.c…ample.org");
    assert_name("abcdef", 5, "ab…ef");
    assert_name("abcdef", 4, "ab…f");
    assert_name("abcdef", 2, "a…");
    assert_name("abcdef", 1, "…");
    assert_name("abcdef", 0, "");
    assert_name("训练步骤", 7, "训…步骤"); /* half a character is none */
    assert_name("训练步骤", 6, "训…骤");
    assert_name("ae\u0301bcde\u0301f", 5, "ae\u0301…e\u0301f");
    assert_label("\u0301abc", 2, "…c"); /* what combines with nothing is no head */
}

static void test_cuts(void **state)
{
    (void)state;
    assert_label("abcdef", 5, "…cdef");
    assert_label("abcdef", 1, "…");
    assert_label("abcdef", 0, "");
    assert_label("训练步骤", 7, "…练步骤"); /* Seven columns hold three wide ones and the mark. */
    assert_label("训练步骤", 6, "…步骤");   /* Six hold two: half a character is none. */
    assert_label("abce\u0301f", 2, "…f");
    assert_label("abce\u0301fg", 3, "…fg"); /* The accent does not move to the mark. */
    assert_label("abe\u0301f", 3, "…e\u0301f");
}

/* K12, NM01: names hold what they hold, the page stays a page. */
static void test_nothing_moves_the_cursor(void **state)
{
    (void)state;
    assert_label("a\nb\tc\x1b[31m", 20, "a\ufffdb\ufffdc\ufffd[31m");
    assert_label("a\0b", 20, "a\ufffdb");
    assert_label("\x7f\xc2\x80\xc2\x9f", 20, "\ufffd\ufffd\ufffd");
    assert_label("\xed\xb3\xbf", 20, "\ufffd");                       /* The lone surrogate U+DCFF. */
    assert_label("\xff\xc3", 20, "\ufffd\ufffd");                     /* Bytes that are no UTF-8. */
    assert_label("\xc0\xaf", 20, "\ufffd\ufffd");                     /* A '/' written too long. */
    assert_label("\xf4\x90\x80\x80", 20, "\ufffd\ufffd\ufffd\ufffd"); /* Beyond U+10FFFF. */
    assert_label("a\u202eb\u2066c\u2028d", 20, "a\ufffdb\ufffdc\ufffdd");
}

static void test_columns(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        unsigned columns;
    } rows[] = {{'a', 1},    {0xe9, 1},   {0x301, 0},  {0x200d, 0}, {0x1160, 0},  {0x1100, 2},
                {0x3042, 2}, {0xac00, 2}, {0xff21, 2}, {0xff71, 1}, {0x1f600, 2}, {0x20000, 2},
                {0xfffd, 1}, {0x2026, 1}, {0x2500, 1}, {0x2588, 1}, {0xfe0f, 0},  {0xe0101, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (lp_report_columns_of(rows[i].code) != rows[i].columns)
            fail_msg("U+%04X takes %u columns", rows[i].code, lp_report_columns_of(rows[i].code));
}

static void test_every_character_comes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char bytes[4];
        uint32_t back;
        size_t n = lp_report_encode(code, bytes);
        assert_int_equal(lp_report_decode(bytes, n, &back), n);
        assert_int_equal(back, code);
        uint32_t shown = lp_report_shown(code);
        assert_true(shown == code || shown == 0xfffd);
    }
}

/* Random bytes, random widths: never wider than asked, always the whole tail, never a control character. */
static void test_any_bytes_in_any_width(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "a",    "/",    "\n",   "训",     "\u0301", "\xed\xa0\x80", "\xff", "\u202e", "\xf0\x9f\x98\x80", "é",
        "\xe8", "\x1b", "step", "\u200d", "한"};
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        char bytes[128];
        size_t len = 0;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        for (uint64_t n = random % 20, k = random >> 8; n > 0; n--, k = k * 6364136223846793005u + 1) {
            const char *piece = pieces[(k >> 33) % (sizeof pieces / sizeof *pieces)];
            memcpy(bytes + len, piece, strlen(piece));
            len += strlen(piece);
        }
        size_t columns = (size_t)(random >> 40) % 30;
        const char *shown = label(bytes, len, columns); /* Asserts the width. */
        for (const char *at = shown; *at != '\0'; at++)
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
        if (columns > 2 && lp_report_columns(bytes, len) > columns)
            assert_true(lp_report_columns(shown, strlen(shown)) >= columns - 1);
        shown = written(lp_report_name, bytes, len, columns);
        for (const char *at = shown; *at != '\0'; at++)
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
        if (columns > 3 && lp_report_columns(bytes, len) > columns)
            assert_true(lp_report_columns(shown, strlen(shown)) >= columns - 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_that_fits_is_whole),       cmocka_unit_test(test_a_long_name_keeps_its_tail),
        cmocka_unit_test(test_a_long_name_keeps_both_ends_K12), cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_nothing_moves_the_cursor),        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_every_character_comes_back),      cmocka_unit_test(test_any_bytes_in_any_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Text in cells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "report/frame.h"

static struct lp_buffer text;

static const char *written(const struct lp_frame *frame)
{
    struct lp_report_sink sink;
    text.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &text);
    lp_frame_write(frame, &sink);
    assert_int_equal(sink.error, 0);
    return text.bytes;
}

static int release(void **state)
{
    (void)state;
    free(text.bytes);
    return 0;
}

static void test_places(void **state)
{
    (void)state;
    struct lp_frame frame;
    assert_int_equal(lp_frame_init(&frame, 2, 10), 0);
    assert_int_equal(lp_frame_text(&frame, 0, 1, LP_FRAME_BOLD, "ab"), 3);
    assert_int_equal(lp_frame_right(&frame, 0, 10, LP_FRAME_PLAIN, "42%"), 10);
    assert_int_equal(lp_frame_label(&frame, 1, 0, 4, LP_FRAME_PLAIN, "a/long/tail", 11), 4);
    assert_string_equal(written(&frame), " ab    42%\n…ail\n");
    assert_int_equal(frame.cells[1].style, LP_FRAME_BOLD);
    assert_int_equal(frame.cells[3].style, LP_FRAME_PLAIN);
    lp_frame_restyle(&frame, 0, 8, 99, LP_FRAME_DIM);
    assert_int_equal(frame.cells[9].style, LP_FRAME_DIM);
    assert_int_equal(frame.cells[10].style, LP_FRAME_PLAIN); /* The next row's. */
    lp_frame_release(&frame);
}

static void test_what_lies_beyond_the_edge_is_dropped(void **state)
{
    (void)state;
    struct lp_frame frame;
    assert_int_equal(lp_frame_init(&frame, 1, 5), 0);
    lp_frame_text(&frame, 0, 2, LP_FRAME_PLAIN, "abcdef");
    lp_frame_text(&frame, 1, 0, LP_FRAME_PLAIN, "no such row");
    lp_frame_text(&frame, 0, 99, LP_FRAME_PLAIN, "no such column");
    lp_frame_label(&frame, 0, 4, 9, LP_FRAME_PLAIN, "xyz", 3);
    lp_frame_right(&frame, 0, 1, LP_FRAME_PLAIN, "12");
    assert_string_equal(written(&frame), "12abx\n");
    lp_frame_release(&frame);
    assert_int_equal(lp_frame_init(&frame, 0, 0), 0);
    lp_frame_text(&frame, 0, 0, LP_FRAME_PLAIN, "a");
    lp_frame_restyle(&frame, 0, 0, 1, LP_FRAME_BOLD);
    assert_int_equal(frame.error, 0);
    lp_frame_release(&frame);
}

static void test_wide_and_combining_characters(void **state)
{
    (void)state;
    struct lp_frame frame;
    assert_int_equal(lp_frame_init(&frame, 3, 6), 0);
    assert_int_equal(lp_frame_text(&frame, 0, 0, LP_FRAME_BAD, "训练e\u0301"), 5);
    assert_int_equal(frame.cells[0].columns, 2);
    assert_int_equal(frame.cells[1].columns, 0);
    assert_int_equal(frame.cells[1].style, LP_FRAME_BAD);
    assert_int_equal(frame.cells[4].n_codes, 2);
    assert_int_equal(lp_frame_text(&frame, 1, 1, LP_FRAME_PLAIN, "训练步"), 5); /* No half of a third. */
    lp_frame_text(&frame, 2, 0, LP_FRAME_PLAIN, "训练");
    lp_frame_text(&frame, 2, 1, LP_FRAME_PLAIN, "ab"); /* Over the halves of both. */
    assert_string_equal(written(&frame), "训练e\u0301\n 训练\n ab\n");
    lp_frame_release(&frame);
}

static void test_what_would_not_print(void **state)
{
    (void)state;
    struct lp_frame frame;
    assert_int_equal(lp_frame_init(&frame, 2, 20), 0);
    lp_frame_label(&frame, 0, 0, 20, LP_FRAME_PLAIN, "a\033[2J\0b\xff", 8);
    lp_frame_text(&frame, 1, 0, LP_FRAME_PLAIN, "\u0301x\u202e"); /* Nothing stands before it to combine with. */
    assert_string_equal(written(&frame), "a\ufffd[2J\ufffdb\ufffd\nx\ufffd\n");
    lp_frame_release(&frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_what_lies_beyond_the_edge_is_dropped),
        cmocka_unit_test(test_wide_and_combining_characters),
        cmocka_unit_test(test_what_would_not_print),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

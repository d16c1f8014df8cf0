#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "report/page.h"

static struct lp_buffer bytes;
static struct lp_report_sink sink;
static struct lp_report_page page;

static void begin(size_t width, bool colour)
{
    bytes.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &bytes);
    lp_report_page_init(&page, &sink, width, colour);
}

static const char *end(void)
{
    lp_report_page_end(&page);
    lp_report_page_release(&page);
    assert_int_equal(sink.error, 0);
    return bytes.bytes;
}

static void test_columns_of_a_table(void **state)
{
    (void)state;
    begin(40, false);
    lp_report_page_label(&page, "训练", strlen("训练"), 10);
    lp_report_page_right(&page, "18%", 15);
    lp_report_page_right(&page, "9.4ms", 24);
    assert_string_equal(end(), "训练        18%    9.4ms\n");
}

/* K12: a figure that does not fit is whole, and apart from its neighbour; the next one is back in its column. */
static void test_a_wide_figure_pushes(void **state)
{
    (void)state;
    begin(40, false);
    lp_report_page_label(&page, "mcts", 4, 4);
    lp_report_page_right(&page, "123,456,789", 10);
    lp_report_page_right(&page, "1", 20);
    assert_string_equal(end(), "mcts 123,456,789   1\n");
}

static void test_a_line_never_ends_in_blanks(void **state)
{
    (void)state;
    begin(40, false);
    lp_report_page_text(&page, "a");
    lp_report_page_to(&page, 20);
    assert_string_equal(end(), "a\n");
}

static void test_words_are_broken_at_blanks(void **state)
{
    (void)state;
    static const char text[] = "one two three a_word_that_is_far_too_long four 训练训练 步骤";
    begin(16, false);
    lp_report_page_to(&page, 2);
    lp_report_page_words(&page, text, strlen(text), 2);
    assert_string_equal(end(), "  one two three\n"
                               "  a_word_that_is_far_too_long\n"
                               "  four 训练训练\n"
                               "  步骤\n");
}

/* What continues a word goes with it where there is no more room, and so does a figure's unit. */
static void test_what_is_written_in_pieces_is_broken_at_blanks(void **state)
{
    (void)state;
    begin(12, true);
    lp_report_page_style(&page, LP_STYLE_DIM);
    lp_report_page_to(&page, 2);
    lp_report_page_words(&page, "mean of 1.0s", 12, 2);
    lp_report_page_words(&page, ", over ", 7, 2);
    lp_report_page_word(&page, "4 GB", 4, 2);
    lp_report_page_words(&page, "; max", 5, 2);
    assert_string_equal(end(), "\033[2m  mean of\033[0m\n"
                               "\033[2m  1.0s, over\033[0m\n"
                               "\033[2m  4 GB; max\033[0m\n");
    begin(12, false);
    lp_report_page_words(&page, "phases in ", 10, 2);
    lp_report_page_label(&page, "a/b/c", 5, 6);
    lp_report_page_words(&page, "; all of them", 13, 2);
    lp_report_page_to(&page, 11);
    lp_report_page_text(&page, "d/e");
    lp_report_page_fit(&page, 2);
    assert_string_equal(end(), "phases in\n"
                               "  a/b/c; all\n"
                               "  of them\n"
                               "  d/e\n");
    begin(6, false);
    lp_report_page_to(&page, 2);
    lp_report_page_words(&page, "long_", 5, 2);
    lp_report_page_words(&page, "word", 4, 2);
    assert_string_equal(end(), "  long_word\n");
}

static void test_a_style_goes_on_over_lines(void **state)
{
    (void)state;
    begin(10, true);
    lp_report_page_style(&page, LP_STYLE_DIM);
    lp_report_page_words(&page, "one two three", 13, 0);
    assert_string_equal(end(), "\033[2mone two\033[0m\n\033[2mthree\033[0m\n");
}

static void test_no_style_without_colour(void **state)
{
    (void)state;
    begin(10, false);
    lp_report_page_style(&page, LP_STYLE_BOLD);
    lp_report_page_text(&page, "a");
    lp_report_page_style(&page, LP_STYLE_PLAIN);
    lp_report_page_text(&page, "b");
    assert_string_equal(end(), "ab\n");
}

static int release(void **state)
{
    (void)state;
    free(bytes.bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_of_a_table),
        cmocka_unit_test(test_a_wide_figure_pushes),
        cmocka_unit_test(test_a_line_never_ends_in_blanks),
        cmocka_unit_test(test_words_are_broken_at_blanks),
        cmocka_unit_test(test_what_is_written_in_pieces_is_broken_at_blanks),
        cmocka_unit_test(test_a_style_goes_on_over_lines),
        cmocka_unit_test(test_no_style_without_colour),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

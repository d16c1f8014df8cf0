#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"

#define LONG_AGO UINT64_C(2000000000)

/* A terminal: what is written to the stream can be read from the descriptor. */
static FILE *open_terminal(int *screen)
{
    *screen = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(*screen >= 0);
    assert_int_equal(grantpt(*screen), 0);
    assert_int_equal(unlockpt(*screen), 0);
    FILE *terminal = fopen(ptsname(*screen), "w");
    assert_non_null(terminal);
    return terminal;
}

static const char *shown_on(int screen)
{
    static char text[256];
    ssize_t n = read(screen, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void test_a_long_reading_is_shown_and_wiped(void **state)
{
    (void)state;
    int screen;
    FILE *terminal = open_terminal(&screen);
    struct lp_cli_progress progress;
    lp_cli_progress_begin(&progress, terminal);
    progress.began_ns -= LONG_AGO;
    lp_cli_progress_step(&progress, 256, 10000);
    assert_string_equal(shown_on(screen), "\rreading 256 of 10000 worker files");
    lp_cli_progress_step(&progress, 512, 10000); /* Too soon after the last one. */
    assert_string_equal(shown_on(screen), "");
    lp_cli_progress_end(&progress);
    assert_string_equal(shown_on(screen), "\r\033[K");
    fclose(terminal);
    close(screen);
}

static void test_a_short_reading_shows_nothing(void **state)
{
    (void)state;
    int screen;
    FILE *terminal = open_terminal(&screen);
    struct lp_cli_progress progress;
    lp_cli_progress_begin(&progress, terminal);
    lp_cli_progress_step(&progress, 256, 10000);
    lp_cli_progress_end(&progress);
    assert_string_equal(shown_on(screen), "");
    fclose(terminal);
    close(screen);
}

static void test_no_terminal_no_progress(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    struct lp_cli_progress progress;
    lp_cli_progress_begin(&progress, file);
    progress.began_ns -= LONG_AGO;
    lp_cli_progress_step(&progress, 256, 10000);
    lp_cli_progress_end(&progress);
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_reading_is_shown_and_wiped),
        cmocka_unit_test(test_a_short_reading_shows_nothing),
        cmocka_unit_test(test_no_terminal_no_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

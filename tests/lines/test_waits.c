/* Coroutines that wait, held against a plain list of them. */
#include "support/support.h"

#include "lines/waits.h"

#define FRAMES 300

struct listed {
    bool waits;
    int code, line;
    int64_t since_ns;
};

static void test_random_waits(void **state)
{
    static struct listed listed[FRAMES];
    static char frames[FRAMES * 64], codes[3];
    struct lp_line lines[4] = {0};
    int64_t awaited[4] = {0}, now_ns = 0;
    struct lp_lines_waits waits = {0};
    uint64_t seed = 7;
    (void)state;
    for (int i = 0; i < 40000; i++) {
        int frame = (int)(random_next(&seed) % FRAMES), line = (int)(random_next(&seed) % 4);
        struct listed *of = &listed[frame];
        now_ns += (int64_t)(random_next(&seed) % 10);
        if (!of->waits) {
            *of = (struct listed){true, frame % 3, line, now_ns};
            assert_int_equal(lp_lines_waits_begin(&waits, &frames[64 * frame], &codes[of->code], &lines[line], now_ns),
                             0);
        } else {
            awaited[of->line] += now_ns - of->since_ns;
            of->waits = false;
            lp_lines_waits_end(&waits, &frames[64 * frame], &codes[of->code], now_ns);
        }
        if (i % 997 == 0) {
            lp_lines_waits_settle(&waits, now_ns);
            for (int k = 0; k < FRAMES; k++) {
                awaited[listed[k].line] += listed[k].waits ? now_ns - listed[k].since_ns : 0;
                listed[k].since_ns = now_ns;
            }
        }
    }
    lp_lines_waits_settle(&waits, now_ns);
    for (int k = 0; k < FRAMES; k++)
        awaited[listed[k].line] += listed[k].waits ? now_ns - listed[k].since_ns : 0;
    for (int line = 0; line < 4; line++)
        assert_int_equal(lines[line].awaited_ns, awaited[line]);
    for (int code = 0; code < 3; code++)
        lp_lines_waits_forget(&waits, &codes[code]);
    assert_int_equal(waits.n, 0);
    lp_lines_waits_free(&waits);
}

static void test_how_many_wait_at_once(void **state)
{
    static char frames[10], code;
    struct lp_line line = {0};
    struct lp_lines_waits waits = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        lp_lines_waits_begin(&waits, &frames[i], &code, &line, 0);
    for (int i = 0; i < 10; i++)
        lp_lines_waits_end(&waits, &frames[i], &code, 1000);
    assert_int_equal(line.most_suspended, 10);
    assert_int_equal(line.suspended, 0);
    assert_int_equal(line.awaited_ns, 10000);
    lp_lines_waits_free(&waits);
}

static void test_one_that_nobody_saw_end_is_billed_to_nobody(void **state)
{
    static char frame, code, other;
    struct lp_line line = {0}, next = {0};
    struct lp_lines_waits waits = {0};
    (void)state;
    lp_lines_waits_begin(&waits, &frame, &code, &line, 0);
    lp_lines_waits_end(&waits, &frame, &other, 500);
    assert_int_equal(line.awaited_ns, 0);
    lp_lines_waits_begin(&waits, &frame, &code, &line, 1000);
    lp_lines_waits_begin(&waits, &frame, &other, &next, 2000);
    lp_lines_waits_end(&waits, &frame, &other, 2100);
    assert_int_equal(line.awaited_ns, 0);
    assert_int_equal(next.awaited_ns, 100);
    lp_lines_waits_free(&waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_waits),
        cmocka_unit_test(test_how_many_wait_at_once),
        cmocka_unit_test(test_one_that_nobody_saw_end_is_billed_to_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

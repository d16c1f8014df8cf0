/* A comparison as a reader sees it. L1, K12, K14. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/emit.h"
#include "model/model.h"
#include "report/compare.h"
#include "report/label.h"

static struct lp_buffer page;

static void build(struct model *model, const char *run_id, const char *name, uint64_t each)
{
    model_run(model)->run_id = model_text(model, run_id);
    struct lp_run_role *actor = model_role(model, "actor");
    model_worker(model, actor, "node07");
    model_process(model, model_phase(model, actor->tree, "forward"), 1000, 10 * MS);
    model_process(model, model_phase(model, actor->tree, name), 7, MS);
    struct lp_run_phase *step = model_phase(model, actor->tree, "step");
    model_process(model, step, 10000, each);
    model_process(model, model_phase(model, step, "rare"), 7, MS);
}

static const char *compare_as(struct model *a, struct model *b, double fail_over, bool json,
                              struct lp_report_options options)
{
    struct lp_compare *compare;
    struct lp_report_sink sink;
    assert_int_equal(lp_compare_make(&compare, a->run, b->run, fail_over), 0);
    page.len = 0;
    lp_report_sink_init(&sink, lp_buffer_put, &page);
    int (*write)(const struct lp_compare *, const struct lp_report_options *, struct lp_report_sink *) =
        json ? lp_report_compare_json : lp_report_compare_text;
    assert_int_equal(write(compare, &options, &sink), 0);
    lp_compare_free(compare);
    return page.bytes;
}

static void test_a_page(void **state)
{
    (void)state;
    struct model a = {0}, b = {0};
    build(&a, "run-a", "old", 10 * MS);
    build(&b, "run-b", "new", 11 * MS);
    model_caveat(&b, "open", "worker w_1 did not close");
    const char *text = compare_as(&a, &b, 0.05, false, (struct lp_report_options){0});
    assert_string_equal(text, "A  profile   1 process, 4h 12m\n"
                              "   Run run-a\n"
                              "B  profile   1 process, 4h 12m\n"
                              "   Run run-b\n"
                              "\n"
                              "1 phase slower, 0 faster. 3 phases in both runs, 2 tested.\n"
                              "GATE FAILED: 1 phase is slower by more than +5.0%:\n"
                              "  actor  step                                                      +10.0%  ±1.5%\n"
                              "\n"
                              "IN ONE RUN ONLY                                              entries        mean\n"
                              "────────────────────────────────────────────────────────────────────────────────\n"
                              "  A  actor  old                                                    7       1.0ms\n"
                              "  B  actor  new                                                    7       1.0ms\n"
                              "\n"
                              "actor  (processes: A 1, B 1)\n"
                              "────────────────────────────────────────────────────────────────────────────────\n"
                              "                              entries A entries B  mean A  mean B  change chance\n"
                              "          forward                 1,000     1,000  10.0ms  10.0ms    0.0%  ±1.5%\n"
                              "slower    step                   10,000    10,000  10.0ms  11.0ms  +10.0%  ±1.5%\n"
                              "      ?   step/rare                   7         7   1.0ms   1.0ms    0.0%    n/a\n"
                              "\n"
                              "  change  of the mean time per entry that ended, child phases included; of A\n"
                              "  chance  what two runs of the same program may differ by. Beyond it: slower or\n"
                              "          faster. Of 100 comparisons of equal programs, 1 at most has any such\n"
                              "          phase\n"
                              "          (of a phase with one process in each run, how processes differ is not\n"
                              "          known: its entries count as independent)\n"
                              "  ?       fewer than 30 entries measured in a run: not tested\n"
                              "\n"
                              "CAVEATS\n"
                              "────────────────────────────────────────────────────────────────────────────────\n"
                              "  B worker w_1 did not close\n");
    model_free(&a);
    model_free(&b);
}

/* Both ratios beside a mark where mean and median disagree; another mark for what was sampled. */
static void test_marks(void **state)
{
    (void)state;
    struct model a = {0}, b = {0};
    build(&a, "run-a", "x", 10 * MS);
    build(&b, "run-b", "x", 10 * MS);
    struct lp_run_phase *forward = b.run->roles[0].tree->children[0];
    forward->calls += 1;
    forward->wall_ns += 10 * S;
    model_hist(&b, &forward->hist, 10 * S, 1);
    model_sampled(b.run->roles[0].tree->children[2], 1, 2);
    const char *text = compare_as(&a, &b, NAN, false, (struct lp_report_options){0});
    assert_non_null(strstr(text, "      ~   forward"));
    assert_non_null(strstr(text, "            mean x2.00, median x1.00\n"));
    assert_non_null(strstr(text, "      ≈   step"));
    assert_non_null(strstr(text, "  ~       mean and median disagree"));
    assert_non_null(strstr(text, "  ≈       sampled"));
    assert_non_null(strstr(text, "No change beyond chance. 4 phases in both runs, 2 tested.\n"));
    model_free(&a);
    model_free(&b);
}

static void test_a_run_and_itself(void **state)
{
    (void)state;
    struct model a = {0};
    build(&a, "run-a", "x", 10 * MS);
    const char *text = compare_as(&a, &a, NAN, false, (struct lp_report_options){0});
    assert_non_null(strstr(text, "A and B are the same run."));
    model_free(&a);
}

static void test_nothing_in_common(void **state)
{
    (void)state;
    struct model a = {0}, b = {0};
    build(&a, "run-a", "x", 10 * MS);
    model_run(&b)->run_id = model_text(&b, "run-b");
    struct lp_run_role *learner = model_role(&b, "learner");
    model_worker(&b, learner, "node07");
    model_process(&b, model_phase(&b, learner->tree, "step"), 100, MS);
    const char *text = compare_as(&a, &b, 0, false, (struct lp_report_options){0});
    assert_non_null(strstr(text, "No phase is in both runs.\n"));
    assert_non_null(strstr(text, "  A  actor  the whole role, 4 phases\n"));
    assert_non_null(strstr(text, "  B  learner  the whole role, 1 phase\n"));
    assert_non_null(strstr(text, "GATE FAILED: no phase could be tested."));
    model_free(&a);
    model_free(&b);
}

/* K12: no line is wider than the page, in display columns, whatever the names; changes of any size are whole. */
static void test_lines_keep_to_the_page_K12(void **state)
{
    (void)state;
    for (size_t width = 72; width <= 100; width += 14) {
        struct model a = {0}, b = {0};
        build(&a, "run-a", "训练步骤训练步骤训练步骤训练步骤训练步骤训练步骤训练步骤训练步骤", 10 * MS);
        build(&b, "run-b", "\x1b[31mred a name that is longer than any column can be", 300 * S);
        const char *text = compare_as(&a, &b, 0.05, false, (struct lp_report_options){.width = width});
        assert_null(strchr(text, '\x1b'));
        assert_non_null(strstr(text, "x30000.00"));
        for (const char *line = text, *newline; (newline = strchr(line, '\n')) != NULL; line = newline + 1)
            if (lp_report_columns(line, (size_t)(newline - line)) > width)
                fail_msg("%zu columns: %.*s", width, (int)(newline - line), line);
        model_free(&a);
        model_free(&b);
    }
}

/* K14: colour says nothing that the text does not. */
static void test_colour_changes_no_character_K14(void **state)
{
    (void)state;
    struct model a = {0}, b = {0};
    build(&a, "run-a", "x", 10 * MS);
    build(&b, "run-b", "y", 11 * MS);
    char *plain = strdup(compare_as(&a, &b, 0.05, false, (struct lp_report_options){0}));
    const char *coloured = compare_as(&a, &b, 0.05, false, (struct lp_report_options){.colour = true});
    assert_non_null(strstr(coloured, "\033[1m"));
    const char *at = plain;
    for (const char *c = coloured; *c != '\0'; c++) {
        if (*c == '\033')
            c = strchr(c, 'm');
        else
            assert_int_equal(*c, *at++);
    }
    assert_int_equal(*at, '\0');
    free(plain);
    model_free(&a);
    model_free(&b);
}

static void test_json_has_null_for_what_is_not_there(void **state)
{
    (void)state;
    struct model a = {0}, b = {0};
    build(&a, "run-a", "old", 10 * MS);
    build(&b, "run-b", "new", 11 * MS);
    const char *text = compare_as(&a, &b, NAN, true, (struct lp_report_options){0});
    assert_non_null(strstr(text, "\"format\":\"lineprofiler-compare\",\"version\":1"));
    assert_non_null(strstr(text, "\"fail_over\":null,\"failed\":false"));
    assert_non_null(strstr(text, "{\"path\":[\"old\"],\"verdict\":\"only_a\",\"a\":{\"calls\":7"));
    assert_non_null(strstr(text, "\"b\":null,\"mean\":{\"size\":null,\"margin\":null,\"real\":false}"));
    assert_non_null(strstr(text, "{\"path\":[\"step\",\"rare\"],\"verdict\":\"undecided\""));
    model_free(&a);
    model_free(&b);
}

static int refuse(void *context, const char *bytes, size_t len)
{
    (void)context, (void)bytes, (void)len;
    errno = ENOSPC;
    return -1;
}

static void test_a_full_disk_is_told(void **state)
{
    (void)state;
    struct model a = {0};
    struct lp_compare *compare;
    build(&a, "run-a", "x", 10 * MS);
    assert_int_equal(lp_compare_make(&compare, a.run, a.run, NAN), 0);
    for (int json = 0; json < 2; json++) {
        struct lp_report_sink sink;
        lp_report_sink_init(&sink, refuse, NULL);
        assert_int_equal(json ? lp_report_compare_json(compare, NULL, &sink)
                              : lp_report_compare_text(compare, NULL, &sink),
                         -ENOSPC);
    }
    lp_compare_free(compare);
    model_free(&a);
}

static int release(void **state)
{
    (void)state;
    free(page.bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_a_run_and_itself),
        cmocka_unit_test(test_nothing_in_common),
        cmocka_unit_test(test_lines_keep_to_the_page_K12),
        cmocka_unit_test(test_colour_changes_no_character_K14),
        cmocka_unit_test(test_json_has_null_for_what_is_not_there),
        cmocka_unit_test(test_a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

/* Who is billed for the time that goes by, held against counting every nanosecond. */
#include "support/support.h"

#include "lines/stack.h"

#define CODES 3
#define LINES 4
#define DEPTH 12
#define REGIONS 2

/* --- counting every nanosecond --- */

struct counted_frame {
    int code, line; /* line -1: none yet */
};

struct counted {
    struct counted_frame frames[DEPTH];
    int n, region;
    int64_t own[REGIONS][CODES][LINES], total[REGIONS][CODES][LINES], inclusive[REGIONS][CODES];
    uint64_t hits[REGIONS][CODES][LINES];
    int64_t waiting; /* since the innermost frame began, no line of it having begun */
};

static void one_passes(struct counted *counted)
{
    bool line_seen[CODES][LINES] = {{false}}, code_seen[CODES] = {false};
    if (counted->n == 0)
        return;
    struct counted_frame top = counted->frames[counted->n - 1];
    if (top.line >= 0)
        counted->own[counted->region][top.code][top.line]++;
    else
        counted->waiting++;
    for (int i = 0; i < counted->n; i++) {
        struct counted_frame frame = counted->frames[i];
        if (!code_seen[frame.code])
            counted->inclusive[counted->region][frame.code]++;
        code_seen[frame.code] = true;
        if (frame.line < 0 || line_seen[frame.code][frame.line])
            continue;
        counted->total[counted->region][frame.code][frame.line]++;
        line_seen[frame.code][frame.line] = true;
    }
}

/* --- a random program --- */

struct program {
    struct counted counted;
    struct lp_lines_stack stack;
    struct lp_lines_table *tables[REGIONS][CODES];
    struct lp_lines_time now;
    uint64_t seed;
    int serial;
    char names[DEPTH]; /* the address of one is a frame's */
};

static void let_pass(struct program *program)
{
    for (uint64_t n = random_next(&program->seed) % 50; n > 0; n--) {
        one_passes(&program->counted);
        program->now.wall_ns++;
        program->now.cpu_ns += program->now.wall_ns % 2;
    }
}

static void begin_line(struct program *program, int line)
{
    struct counted *counted = &program->counted;
    struct counted_frame *top = &counted->frames[counted->n - 1];
    struct lp_lines_frame *frame = lp_lines_stack_top(&program->stack);
    lp_lines_stack_begin(&program->stack, frame, &frame->table->lines[line], program->now);
    /* Before its first line nothing is anybody's; then it is that line's own. */
    if (top->line < 0)
        counted->own[counted->region][top->code][line] += counted->waiting;
    counted->waiting = 0;
    top->line = line;
    counted->hits[counted->region][top->code][line]++;
}

static void enter(struct program *program)
{
    struct counted *counted = &program->counted;
    int code = (int)(random_next(&program->seed) % CODES);
    struct lp_lines_frame frame = {.frame = &program->names[counted->n],
                                   .code = &program->tables[0][code],
                                   .table = program->tables[counted->region][code]};
    assert_int_equal(lp_lines_stack_push(&program->stack, frame, program->now), 0);
    counted->frames[counted->n++] = (struct counted_frame){code, -1};
    counted->waiting = 0;
    begin_line(program, (int)(random_next(&program->seed) % LINES));
}

static void leave(struct program *program, int n)
{
    if (n == program->counted.n - 1)
        lp_lines_stack_pop(&program->stack, program->now);
    else
        lp_lines_stack_cut(&program->stack, (uint32_t)n, program->now);
    program->counted.n = n;
}

static void change_region(struct program *program)
{
    struct counted *counted = &program->counted;
    counted->region = (counted->region + 1) % REGIONS;
    for (int i = 0; i < counted->n; i++)
        program->stack.frames[i].next_table = program->tables[counted->region][counted->frames[i].code];
    lp_lines_stack_move(&program->stack, program->now);
}

static void step(struct program *program)
{
    struct counted *counted = &program->counted;
    uint64_t what = random_next(&program->seed) % 16;
    if (counted->n == 0 || (what < 5 && counted->n < DEPTH))
        enter(program);
    else if (what < 9)
        begin_line(program, (int)(random_next(&program->seed) % LINES));
    else if (what < 13)
        leave(program, counted->n - 1);
    else if (what == 13)
        leave(program, (int)(random_next(&program->seed) % (uint64_t)counted->n));
    else if (what == 14)
        lp_lines_stack_settle(&program->stack, program->now);
    else
        change_region(program);
    let_pass(program);
}

static void assert_counted(const struct program *program)
{
    for (int region = 0; region < REGIONS; region++)
        for (int code = 0; code < CODES; code++) {
            const struct lp_lines_table *table = program->tables[region][code];
            assert_int_equal(table->inclusive.wall_ns, program->counted.inclusive[region][code]);
            for (int i = 0; i < LINES; i++) {
                const struct lp_line *line = &table->lines[i];
                assert_int_equal(line->own.wall_ns, program->counted.own[region][code][i]);
                assert_int_equal(lp_line_total(line).wall_ns, program->counted.total[region][code][i]);
                assert_int_equal(line->hits, program->counted.hits[region][code][i]);
                assert_in_range(lp_line_total(line).cpu_ns, 0, lp_line_total(line).wall_ns);
                assert_int_equal(line->pending, 0);
            }
        }
}

static void test_random_programs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct program program = {.seed = seed, .now = {1000, 500}};
        for (int region = 0; region < REGIONS; region++)
            for (int code = 0; code < CODES; code++)
                program.tables[region][code] = lp_lines_table_new(10, LINES);
        for (int i = 0; i < 200; i++)
            step(&program);
        lp_lines_stack_cut(&program.stack, 0, program.now);
        assert_counted(&program);
        lp_lines_stack_free(&program.stack);
        for (int region = 0; region < REGIONS; region++)
            for (int code = 0; code < CODES; code++)
                free(program.tables[region][code]);
    }
}

/* --- particular ones --- */

/* r(n): first a line of 50, then r(n - 1): RC01. */
static void test_recursion_counts_each_moment_once(void **state)
{
    (void)state;
    struct lp_lines_table *table = lp_lines_table_new(1, 2);
    struct lp_lines_stack stack = {0};
    struct lp_lines_time now = {0, 0};
    char frames[4];
    for (int depth = 0; depth < 4; depth++) {
        struct lp_lines_frame frame = {.frame = &frames[depth], .code = table, .table = table};
        assert_int_equal(lp_lines_stack_push(&stack, frame, now), 0);
        lp_lines_stack_begin(&stack, lp_lines_stack_top(&stack), &table->lines[0], now);
        now.wall_ns += 50;
        lp_lines_stack_begin(&stack, lp_lines_stack_top(&stack), &table->lines[1], now);
    }
    lp_lines_stack_cut(&stack, 0, now);
    assert_int_equal(table->lines[0].hits, 4);
    assert_int_equal(lp_line_total(&table->lines[0]).wall_ns, 200);
    assert_int_equal(table->lines[1].hits, 4);
    assert_int_equal(table->lines[1].own.wall_ns, 0);
    assert_int_equal(lp_line_total(&table->lines[1]).wall_ns, 150);
    assert_int_equal(table->inclusive.wall_ns, 200);
    lp_lines_stack_free(&stack);
    free(table);
}

static void test_a_code_object_that_goes_takes_nothing_with_it(void **state)
{
    (void)state;
    struct lp_lines_table *outer = lp_lines_table_new(1, 1), *inner = lp_lines_table_new(1, 1);
    struct lp_lines_stack stack = {0};
    struct lp_lines_time now = {0, 0};
    char frames[2];
    struct lp_lines_frame first = {.frame = &frames[0], .code = outer, .table = outer, .line = &outer->lines[0]},
                          second = {.frame = &frames[1], .code = inner, .table = inner, .line = &inner->lines[0]};
    assert_int_equal(lp_lines_stack_push(&stack, first, now), 0);
    assert_int_equal(lp_lines_stack_push(&stack, second, now), 0);
    lp_lines_stack_forget(&stack, inner);
    assert_int_equal(lp_lines_stack_find(&stack, &frames[1], inner), -1);
    free(inner);
    now.wall_ns = 10;
    lp_lines_stack_settle(&stack, now);
    assert_int_equal(lp_lines_stack_find(&stack, &frames[0], outer), 0);
    lp_lines_stack_cut(&stack, 0, now);
    assert_int_equal(lp_line_total(&outer->lines[0]).wall_ns, 10);
    lp_lines_stack_free(&stack);
    free(outer);
}

static void test_tables_add_up(void **state)
{
    (void)state;
    struct lp_lines_table *sum = lp_lines_table_new(1, 2), *of = lp_lines_table_new(1, 2);
    of->calls = 3;
    of->lines[1] = (struct lp_line){.hits = 2, .own = {5, 4}, .below = {7, 1}, .awaited_ns = 9, .most_suspended = 2};
    lp_lines_table_add(sum, of);
    lp_lines_table_add(sum, of);
    assert_int_equal(sum->calls, 6);
    assert_int_equal(sum->lines[1].hits, 4);
    assert_int_equal(lp_line_total(&sum->lines[1]).wall_ns, 24);
    assert_int_equal(lp_line_total(&sum->lines[1]).cpu_ns, 10);
    assert_int_equal(sum->lines[1].awaited_ns, 18);
    assert_int_equal(sum->lines[1].most_suspended, 2);
    free(sum);
    free(of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_recursion_counts_each_moment_once),
        cmocka_unit_test(test_a_code_object_that_goes_takes_nothing_with_it),
        cmocka_unit_test(test_tables_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

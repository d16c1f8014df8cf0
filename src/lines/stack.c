#include "lines/stack.h"

#include <stdlib.h>

void lp_lines_stack_free(struct lp_lines_stack *stack)
{
    free(stack->frames);
    *stack = (struct lp_lines_stack){0};
}

static void bill_top(struct lp_lines_stack *stack, struct lp_lines_time now)
{
    struct lp_lines_frame *top = lp_lines_stack_top(stack);
    if (top && top->line)
        lp_line_bill(top->line, stack->last, now);
    stack->last = now;
}

static void open_below(struct lp_line *line, struct lp_lines_time now)
{
    if (line && line->pending++ == 0)
        line->since = now;
}

static void close_below(struct lp_line *line, struct lp_lines_time now)
{
    if (line && --line->pending == 0)
        lp_lines_time_add(&line->below, line->since, now);
}

static void open_table(struct lp_lines_table *table, struct lp_lines_time now)
{
    if (table && table->depth++ == 0)
        table->since = now;
}

static void close_table(struct lp_lines_table *table, struct lp_lines_time now)
{
    if (table && --table->depth == 0)
        lp_lines_time_add(&table->inclusive, table->since, now);
}

static int grow(struct lp_lines_stack *stack)
{
    uint32_t size = stack->size ? 2 * stack->size : 64;
    struct lp_lines_frame *frames = realloc(stack->frames, size * sizeof *frames);
    if (!frames)
        return -1;
    stack->frames = frames;
    stack->size = size;
    return 0;
}

int lp_lines_stack_push(struct lp_lines_stack *stack, struct lp_lines_frame frame, struct lp_lines_time now)
{
    if (stack->n == stack->size && grow(stack) < 0)
        return -1;
    bill_top(stack, now);
    if (stack->n > 0)
        open_below(stack->frames[stack->n - 1].line, now);
    open_table(frame.table, now);
    stack->frames[stack->n++] = frame;
    return 0;
}

void lp_lines_stack_pop(struct lp_lines_stack *stack, struct lp_lines_time now)
{
    bill_top(stack, now);
    close_table(stack->frames[--stack->n].table, now);
    if (stack->n > 0)
        close_below(stack->frames[stack->n - 1].line, now);
}

ptrdiff_t lp_lines_stack_find(const struct lp_lines_stack *stack, const void *frame, const void *code)
{
    ptrdiff_t i = (ptrdiff_t)stack->n - 1;
    while (i >= 0 && (stack->frames[i].frame != frame || stack->frames[i].code != code))
        i--;
    return i;
}

void lp_lines_stack_cut(struct lp_lines_stack *stack, uint32_t n, struct lp_lines_time now)
{
    while (stack->n > n)
        lp_lines_stack_pop(stack, now);
}

void lp_lines_stack_settle(struct lp_lines_stack *stack, struct lp_lines_time now)
{
    bill_top(stack, now);
    for (uint32_t i = 0; i < stack->n; i++) {
        struct lp_lines_frame *frame = &stack->frames[i];
        struct lp_line *line = i + 1 < stack->n ? frame->line : NULL;
        if (line) {
            lp_lines_time_add(&line->below, line->since, now);
            line->since = now;
        }
        if (frame->table) {
            lp_lines_time_add(&frame->table->inclusive, frame->table->since, now);
            frame->table->since = now;
        }
    }
}

void lp_lines_stack_move(struct lp_lines_stack *stack, struct lp_lines_time now)
{
    bill_top(stack, now);
    for (uint32_t i = 0; i < stack->n; i++) {
        struct lp_lines_frame *frame = &stack->frames[i];
        struct lp_lines_table *table = frame->next_table;
        bool calls = i + 1 < stack->n;
        if (!frame->table)
            continue;
        struct lp_line *line = frame->line ? &table->lines[frame->line - frame->table->lines] : NULL;
        close_table(frame->table, now);
        open_table(table, now);
        if (calls) {
            close_below(frame->line, now);
            open_below(line, now);
        }
        frame->table = table;
        frame->line = line;
    }
}

void lp_lines_stack_forget(struct lp_lines_stack *stack, const void *code)
{
    for (uint32_t i = 0; i < stack->n; i++)
        if (stack->frames[i].code == code) {
            stack->frames[i].code = NULL;
            stack->frames[i].table = NULL;
            stack->frames[i].line = NULL;
        }
}

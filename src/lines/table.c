#include "lines/table.h"

#include <stdlib.h>

struct lp_lines_table *lp_lines_table_new(int base_line, uint32_t n_lines)
{
    struct lp_lines_table *table = calloc(1, sizeof *table + n_lines * sizeof table->lines[0]);
    if (!table)
        return NULL;
    table->n_lines = n_lines;
    table->base_line = base_line;
    return table;
}

static void add(struct lp_lines_time *sum, struct lp_lines_time time)
{
    sum->wall_ns += time.wall_ns;
    sum->cpu_ns += time.cpu_ns;
}

void lp_lines_table_add(struct lp_lines_table *sum, const struct lp_lines_table *of)
{
    sum->calls += of->calls;
    add(&sum->inclusive, of->inclusive);
    for (uint32_t i = 0; i < sum->n_lines && i < of->n_lines; i++) {
        struct lp_line *line = &sum->lines[i];
        const struct lp_line *from = &of->lines[i];
        line->hits += from->hits;
        add(&line->own, from->own);
        add(&line->repeated, from->repeated);
        add(&line->below, from->below);
        line->awaited_ns += from->awaited_ns;
        if (line->most_suspended < from->most_suspended)
            line->most_suspended = from->most_suspended;
    }
}

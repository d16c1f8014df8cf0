#include "run/ranks.h"

#include <stdlib.h>

#include "run/room.h"

void lp_run_ranks_release(struct lp_run_ranks *ranks)
{
    free(ranks->ranks);
    *ranks = (struct lp_run_ranks){0};
}

int lp_run_ranks_note(struct lp_run_ranks *ranks, const struct lp_run_document *document)
{
    if (document->rank < 0 || document->world_size < 2)
        return 0;
    ranks->mixed |= (ranks->size > 0 && ranks->size != document->world_size) || document->rank >= document->world_size;
    ranks->size = document->world_size;
    if (lp_run_room(&ranks->ranks, &ranks->room, ranks->n, sizeof *ranks->ranks) < 0)
        return -1;
    ranks->ranks[ranks->n++] = document->rank;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Sorted, each once: a process that a rank starts has its rank. */
static void sort(struct lp_run_ranks *ranks)
{
    size_t n = 0;
    qsort(ranks->ranks, ranks->n, sizeof *ranks->ranks, by_number);
    for (size_t i = 0; i < ranks->n; i++)
        if (n == 0 || ranks->ranks[i] != ranks->ranks[n - 1])
            ranks->ranks[n++] = ranks->ranks[i];
    ranks->n = n;
}

/* Every n-th of the whole world: as 0, 4, 8 of 12, and any one alone. */
static bool were_chosen(const struct lp_run_ranks *ranks)
{
    const int64_t *rank = ranks->ranks;
    if (ranks->n < 2)
        return true;
    int64_t step = rank[1] - rank[0];
    for (size_t i = 2; i < ranks->n; i++)
        if (rank[i] - rank[i - 1] != step)
            return false;
    return step > 1 && rank[0] < step && rank[ranks->n - 1] >= ranks->size - step;
}

int lp_run_ranks_missing(struct lp_run_ranks *ranks, struct lp_run_rank_range **missing, size_t *n)
{
    *missing = NULL;
    *n = 0;
    if (ranks->mixed || ranks->n == 0)
        return 0;
    sort(ranks);
    if (were_chosen(ranks))
        return 0;
    struct lp_run_rank_range *ranges = calloc(ranks->n, sizeof *ranges); /* at most one behind each rank */
    if (!ranges)
        return -1;
    for (size_t i = 0; i < ranks->n; i++) {
        int64_t next = i + 1 < ranks->n ? ranks->ranks[i + 1] : ranks->size;
        if (next > ranks->ranks[i] + 1)
            ranges[(*n)++] = (struct lp_run_rank_range){ranks->ranks[i] + 1, next - 1};
    }
    *missing = ranges;
    return 0;
}

/* Which phase of one run is which of the other: by role and path. */
#include "analysis/compare.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/internal.h"
#include "run/text.h"

struct pair {
    const struct lp_run_phase *a, *b;
    size_t depth;
};

/* What is still to be laid out: a stack of its own, since the depth of a tree from a file is not ours to trust. */
struct stack {
    struct pair *pairs; /* Owned. */
    size_t n, room;
};

static int grow(void **items, size_t *room, size_t used, size_t size)
{
    if (used < *room)
        return 0;
    size_t wanted = *room > 0 ? *room * 2 : 64;
    void *grown = reallocarray(*items, wanted, size);
    if (grown == NULL)
        return -ENOMEM;
    *items = grown;
    *room = wanted;
    return 0;
}

static int push(struct stack *stack, struct pair pair)
{
    void *items = stack->pairs;
    int error = grow(&items, &stack->room, stack->n, sizeof *stack->pairs);
    stack->pairs = items;
    if (error == 0)
        stack->pairs[stack->n++] = pair;
    return error;
}

static size_t count(const struct lp_run_phase *phase)
{
    return phase != NULL ? phase->n_children : 0;
}

/* The children of both, merged by name; the last ones first, so that they are popped in order. */
static int push_children(struct stack *stack, struct pair parent)
{
    size_t left = count(parent.a), right = count(parent.b);
    while (left > 0 || right > 0) {
        struct pair pair = {.depth = parent.depth + 1};
        int order = right == 0 ? 1 : -1;
        if (left > 0 && right > 0)
            order = lp_text_compare(lp_text_span(&parent.a->children[left - 1]->name),
                                    lp_text_span(&parent.b->children[right - 1]->name));
        if (order >= 0)
            pair.a = parent.a->children[--left];
        if (order <= 0)
            pair.b = parent.b->children[--right];
        int error = push(stack, pair);
        if (error != 0)
            return error;
    }
    return 0;
}

/* A thread's name standing as a phase has no entries: only what is below it is compared. */
static bool is_thread(const struct pair *pair)
{
    return (pair->a == NULL || pair->a->is_thread) && (pair->b == NULL || pair->b->is_thread);
}

static int append(struct lp_compare *compare, size_t *room, const struct pair *pair)
{
    void *items = compare->phases;
    int error = grow(&items, room, compare->n_phases, sizeof *compare->phases);
    compare->phases = items;
    if (error != 0)
        return error;
    compare->phases[compare->n_phases++] = (struct lp_compare_phase){
        .role = compare->n_roles - 1, .depth = pair->depth, .a.phase = pair->a, .b.phase = pair->b};
    return 0;
}

static int lay_out(struct lp_compare *compare, size_t *room, struct stack *stack, struct pair roots)
{
    int error = push_children(stack, roots);
    while (error == 0 && stack->n > 0) {
        struct pair pair = stack->pairs[--stack->n];
        if (!is_thread(&pair))
            error = append(compare, room, &pair);
        if (error == 0)
            error = push_children(stack, pair);
    }
    return error;
}

static int match_role(struct lp_compare *compare, size_t *room, struct stack *stack, const struct lp_run_role *a,
                      const struct lp_run_role *b)
{
    struct lp_compare_role *role = &compare->roles[compare->n_roles++];
    *role =
        (struct lp_compare_role){.name = a != NULL ? &a->name : &b->name, .a = a, .b = b, .first = compare->n_phases};
    struct pair roots = {.a = a != NULL ? a->tree : NULL, .b = b != NULL ? b->tree : NULL};
    int error = lay_out(compare, room, stack, roots);
    role->n = compare->n_phases - role->first;
    return error;
}

int lp_compare_match(struct lp_compare *compare)
{
    const struct lp_run *a = compare->a, *b = compare->b;
    struct stack stack = {0};
    size_t i = 0, k = 0, room = 0;
    compare->roles = calloc(a->n_roles + b->n_roles + 1, sizeof *compare->roles);
    int error = compare->roles == NULL ? -ENOMEM : 0;
    while (error == 0 && (i < a->n_roles || k < b->n_roles)) {
        int order = k == b->n_roles ? -1 : 1;
        if (i < a->n_roles && k < b->n_roles)
            order = lp_text_compare(lp_text_span(&a->roles[i].name), lp_text_span(&b->roles[k].name));
        const struct lp_run_role *in_a = order <= 0 ? &a->roles[i++] : NULL;
        const struct lp_run_role *in_b = order >= 0 ? &b->roles[k++] : NULL;
        error = match_role(compare, &room, &stack, in_a, in_b);
    }
    free(stack.pairs);
    return error;
}

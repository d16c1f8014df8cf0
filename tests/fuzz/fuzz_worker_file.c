/*
 * A worker's document, from bytes to the sealed tree: whatever the bytes are, parsing refuses them with a reason or
 * gives figures that can be folded twice, merged and freed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run/fold.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* A name survives being written and read again. */
static void check_name(struct lp_span name)
{
    char *encoded = malloc(name.len * LP_TEXT_ENCODED_MAX), *decoded = malloc(name.len * LP_TEXT_ENCODED_MAX);
    check(encoded && decoded);
    size_t len = lp_text_encode(encoded, name);
    ptrdiff_t back = lp_text_decode(decoded, (struct lp_span){encoded, len});
    check(back >= 0 && lp_text_equal((struct lp_span){decoded, (size_t)back}, name));
    free(encoded);
    free(decoded);
}

/* What every consumer of a tree relies on. */
static void check_phase(const struct lp_run_phase *phase)
{
    check(phase->child_wall_ns <= phase->wall_ns && phase->late_wall_ns <= phase->wall_ns);
    check(phase->open_wall_ns <= phase->wall_ns && phase->nocpu_wall_ns <= phase->wall_ns);
    check(phase->stride_min >= 1 && phase->stride_min <= phase->stride_max);
    check(phase->estimated == (phase->stride_max > 1));
    check(lp_hist_quantile(&phase->hist, 0.5) <= lp_hist_quantile(&phase->hist, 0.99));
    for (size_t i = 0; i < phase->n_counters; i++)
        check(phase->counters[i].min <= phase->counters[i].max);
    for (size_t i = 0; i < phase->n_children; i++) {
        const struct lp_run_phase *child = phase->children[i];
        check(child->parent == phase && child->name.len > 0);
        check_name(lp_text_span(&child->name));
        check(i == 0 || lp_text_compare(lp_text_span(&phase->children[i - 1]->name), lp_text_span(&child->name)) < 0);
        check_phase(child);
    }
}

static void fold_document(const struct lp_run_document *document)
{
    struct lp_run_fold fold = {0};
    struct lp_run_tree tree, all;
    struct lp_run_worker worker;
    check(lp_run_tree_init(&tree) == 0 && lp_run_tree_init(&all) == 0);
    check(lp_run_fold_figures(&fold, &tree, document, 1) == 0);
    check(lp_run_fold_figures(&fold, &tree, document, 2) == 0);
    check(lp_run_tree_merge(&all, &tree) == 0 && lp_run_tree_merge(&all, &tree) == 0);
    check(lp_run_fold_worker(&worker, document, "", LP_SOURCE_FILE) == 0);
    lp_run_worker_release(&worker);
    lp_run_tree_release(&tree);
    struct lp_run_phase *root = lp_run_tree_seal(&all);
    check(root != NULL);
    check_phase(root);
    lp_run_phase_free(root);
    lp_run_fold_release(&fold);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lp_run_document document = {0};
    struct lp_run_fault fault = {0};
    if (lp_run_document_parse(&document, (const char *)data, size, &fault) == 0)
        fold_document(&document);
    else
        check(fault.text[0] != '\0' && strlen(fault.text) < sizeof fault.text);
    lp_run_document_release(&document);
    return 0;
}

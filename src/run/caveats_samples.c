#include <stddef.h>

#include "run/caveats.h"
#include "run/samples.h"

/* --- files and rows --- */

static void add_fault(struct lp_run_caveat_list *list, const struct lp_run_worker *worker, const char *what,
                      const char *fault, size_t *n)
{
    struct lp_run_line line = {0};
    if (!fault || ++*n > LP_RUN_CAVEATS_MAX)
        return;
    lp_run_line_add(&line, "%s of ", what);
    lp_run_line_worker(&line, worker);
    lp_run_line_add(&line, " could not be used: %s", fault);
    lp_run_caveat_add(list, "samples", &line);
}

static void caveat_faults(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0;
    struct lp_run_line line = {0};
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        if (!worker->samples)
            continue;
        add_fault(list, worker, "the samples", worker->samples->fault, &n);
        add_fault(list, worker, "the device samples", worker->samples->gpu_fault, &n);
    }
    if (n <= LP_RUN_CAVEATS_MAX)
        return;
    lp_run_line_add(&line, "and %zu more files of samples", n - LP_RUN_CAVEATS_MAX);
    lp_run_caveat_add(list, "samples", &line);
}

static void caveat_missing(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = {0};
    for (size_t i = 0; run->sampling && i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        bool took = worker->samples_taken != UINT64_MAX && worker->samples_taken > 0;
        if (took && !worker->samples && worker->source == LP_SOURCE_FILE)
            lp_run_concern(&concerned, worker, 1);
    }
    if (!concerned.n)
        return;
    lp_run_line_add(&line, "the samples of %zu worker%s are not there: in no figure of I/O, memory and GPUs (",
                    concerned.n, lp_run_plural(concerned.n));
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "samples", &line);
}

static const struct {
    size_t offset; /* Of the count, in struct lp_run_samples. */
    const char *one, *many, *meaning;
} faulty[] = {
    {offsetof(struct lp_run_samples, rows_cut), "file of samples ends", "files of samples end",
     "inside a record, which is left out"},
    {offsetof(struct lp_run_samples, rows_repeated), "sample", "samples", "left out: there already"},
    {offsetof(struct lp_run_samples, rows_unsorted), "sample", "samples", "left out: not later than the one before"},
    {offsetof(struct lp_run_samples, rows_beyond), "sample", "samples",
     "left out: with a time, number or device that cannot be"},
    {offsetof(struct lp_run_samples, figures_enormous), "figure of a sample", "figures of samples",
     "left out: more than any machine has"},
};

static uint64_t count_at(const struct lp_run_samples *samples, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)samples + offset);
}

static void caveat_rows(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    for (size_t kind = 0; kind < sizeof faulty / sizeof *faulty; kind++) {
        struct lp_run_line line = {0};
        struct lp_run_concerned concerned = {0};
        for (size_t i = 0; i < run->n_workers; i++) {
            const struct lp_run_samples *samples = run->workers[i].samples;
            uint64_t count = samples ? count_at(samples, faulty[kind].offset) : 0;
            if (count)
                lp_run_concern(&concerned, &run->workers[i], count);
        }
        if (!concerned.n)
            continue;
        lp_run_line_add(&line, "%llu %s %s (", (unsigned long long)concerned.count,
                        concerned.count == 1 ? faulty[kind].one : faulty[kind].many, faulty[kind].meaning);
        lp_run_line_concerned(&line, &concerned);
        lp_run_line_add(&line, ")");
        lp_run_caveat_add(list, "samples", &line);
    }
}

/* --- intervals --- */

static const char *const reasons[LP_RUN_DROPS] = {
    [LP_DROP_UNREAD] = "could not be read",
    [LP_DROP_GAP] = "mixed with what ended children or the profiler moved",
    [LP_DROP_LOST] = "lost a sample",
    [LP_DROP_BACKWARDS] = "went backwards",
    [LP_DROP_ENORMOUS] = "too large to be true",
};

static bool has_no_io(const struct lp_run_samples *samples)
{
    return !samples->io.intervals[LP_LAYER_CHARS].used && !samples->io.intervals[LP_LAYER_BYTES].used;
}

/* Adds what was dropped in workers that do have the figure or, of I/O, that of the other layer. */
static void collect(const struct lp_run *run, size_t offset, bool is_io, struct lp_run_intervals *sum,
                    struct lp_run_concerned *concerned)
{
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_samples *samples = run->workers[i].samples;
        if (!samples)
            continue;
        const struct lp_run_intervals *intervals = (const void *)((const char *)samples + offset);
        uint64_t dropped = lp_run_intervals_dropped(intervals);
        if (!dropped || (is_io ? has_no_io(samples) : !intervals->used))
            continue;
        lp_run_concern(concerned, &run->workers[i], dropped);
        for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++)
            sum->dropped[drop] += intervals->dropped[drop];
    }
}

static uint64_t count_used(const struct lp_run *run, size_t offset)
{
    uint64_t used = 0;
    for (size_t i = 0; i < run->n_workers; i++)
        if (run->workers[i].samples)
            used +=
                ((const struct lp_run_intervals *)(const void *)((const char *)run->workers[i].samples + offset))->used;
    return used;
}

static bool is_same(const struct lp_run_intervals *a, const struct lp_run_intervals *b)
{
    for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++)
        if (a->dropped[drop] != b->dropped[drop])
            return false;
    return true;
}

static void caveat_dropped(struct lp_run_caveat_list *list, const struct lp_run *run, size_t offset, bool is_io,
                           const char *what)
{
    struct lp_run_line line = {0};
    struct lp_run_intervals sum = {0};
    struct lp_run_concerned concerned = {0};
    const char *separator = ": ";
    collect(run, offset, is_io, &sum, &concerned);
    if (!concerned.n)
        return;
    uint64_t all = concerned.count + count_used(run, offset);
    lp_run_line_add(&line, "%llu of %llu interval%s between samples %s in no figure of %s",
                    (unsigned long long)concerned.count, (unsigned long long)all, all == 1 ? "" : "s",
                    concerned.count == 1 ? "is" : "are", what);
    for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++) {
        if (!sum.dropped[drop])
            continue;
        lp_run_line_add(&line, "%s%llu %s", separator, (unsigned long long)sum.dropped[drop], reasons[drop]);
        separator = ", ";
    }
    lp_run_line_add(&line, " (");
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "dropped", &line);
}

/* Both layers are read together: mostly they are dropped together. */
static void caveat_dropped_io(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    static const size_t chars = offsetof(struct lp_run_samples, io.intervals[LP_LAYER_CHARS]);
    static const size_t bytes = offsetof(struct lp_run_samples, io.intervals[LP_LAYER_BYTES]);
    struct lp_run_intervals sums[LP_RUN_LAYERS] = {0};
    struct lp_run_concerned concerned[LP_RUN_LAYERS] = {0};
    collect(run, chars, true, &sums[LP_LAYER_CHARS], &concerned[LP_LAYER_CHARS]);
    collect(run, bytes, true, &sums[LP_LAYER_BYTES], &concerned[LP_LAYER_BYTES]);
    if (is_same(&sums[LP_LAYER_CHARS], &sums[LP_LAYER_BYTES])) {
        caveat_dropped(list, run, chars, true, "I/O");
        return;
    }
    caveat_dropped(list, run, chars, true, "I/O by system calls");
    caveat_dropped(list, run, bytes, true, "I/O of block devices");
}

/* Of workers with samples, but none of whose intervals has any of the figures. */
static void caveat_unmeasured(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = {0};
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_samples *samples = run->workers[i].samples;
        if (samples && samples->rows > 1 && has_no_io(samples))
            lp_run_concern(&concerned, &run->workers[i], 1);
    }
    if (!concerned.n)
        return;
    lp_run_line_add(&line, "I/O could not be measured in %zu worker%s: in no figure of I/O (", concerned.n,
                    lp_run_plural(concerned.n));
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "dropped", &line);
}

void lp_run_caveats_of_samples(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    if (!run->sampling) /* none were taken, or none are wanted */
        return;
    caveat_faults(list, run);
    caveat_missing(list, run);
    caveat_rows(list, run);
    caveat_unmeasured(list, run);
    caveat_dropped_io(list, run);
    caveat_dropped(list, run, offsetof(struct lp_run_samples, cpu_ns.intervals), false, "CPU use");
}

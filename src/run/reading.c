#include "run/reading.h"

#include <stdio.h>
#include <string.h>

#include "run/fold.h"
#include "run/hist.h"
#include "run/node.h"

#define FIRST_WORKER 1

static int fold(struct lp_run_reading *reading, const struct lp_run_document *document)
{
    struct lp_run_tree tree;
    struct lp_run_fold room = {0};
    int status = lp_run_tree_init(&tree);
    if (status == 0 && document)
        status = lp_run_fold_figures(&room, &tree, document, FIRST_WORKER);
    if (status == 0)
        reading->tree = lp_run_tree_seal(&tree);
    lp_run_fold_release(&room);
    lp_run_tree_release(&tree);
    return reading->tree ? 0 : -1;
}

int lp_run_reading_parse(struct lp_run_reading *reading, const char *bytes, size_t len, char *message, size_t size)
{
    struct lp_run_document document = {0};
    struct lp_run_fault fault = {0};
    int status = bytes ? lp_run_document_parse(&document, bytes, len, &fault) : 0;
    *reading = (struct lp_run_reading){0};
    if (status == 0 && bytes) {
        reading->written_ns = document.written.monotonic_ns;
        reading->closed = document.closed;
        status = lp_text_copy(&reading->worker, document.worker);
    }
    if (status == 0)
        status = fold(reading, bytes ? &document : NULL);
    if (status != 0) {
        snprintf(message, size, "%s", fault.no_memory ? "" : fault.text);
        lp_run_reading_release(reading);
    }
    lp_run_document_release(&document);
    return status;
}

void lp_run_reading_release(struct lp_run_reading *reading)
{
    lp_text_release(&reading->worker);
    lp_run_phase_free(reading->tree);
    *reading = (struct lp_run_reading){0};
}

static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void raise_to(uint64_t *now, uint64_t before)
{
    if (*now < before)
        *now = before;
}

static const struct lp_run_phase nothing;

/* The phase as the cursor has it. */
static struct lp_run_phase *find_before(const struct lp_run_phase *parent, const struct lp_run_phase *now)
{
    return parent ? (struct lp_run_phase *)lp_run_phase_child(parent, now->name.bytes, now->name.len) : NULL;
}

/* Root and threads have no entries, but may have counters. */
static bool is_held_back(const struct lp_run_phase *now, const struct lp_run_phase *before, bool closed)
{
    return !closed && now->parent && !now->is_thread && grown(now->wall_ns, before ? before->wall_ns : 0) == 0;
}

/* An exit on another thread took back the CPU time of an entry that was open, which was handed out before. */
static bool takes_cpu_back(const struct lp_run_phase *now, const struct lp_run_phase *before)
{
    return now->cpu_ns < before->cpu_ns && now->nocpu_wall_ns > before->nocpu_wall_ns;
}

/* ---- what happened ------------------------------------------------------------------ */

static void add_figures(struct lp_run_node *node, const struct lp_run_phase *now, const struct lp_run_phase *before)
{
    struct lp_run_figures figures = {
        .calls = grown(now->calls, before->calls),
        .wall_ns = grown(now->wall_ns, before->wall_ns),
        .cpu_ns = grown(now->cpu_ns, before->cpu_ns),
        .nocpu_wall_ns = grown(now->nocpu_wall_ns, before->nocpu_wall_ns),
        .child_wall_ns = grown(now->child_wall_ns, before->child_wall_ns),
        .late_wall_ns = grown(now->late_wall_ns, before->late_wall_ns),
        .open_calls = now->open_calls,
        .open_wall_ns = now->open_wall_ns,
        .ended_wall_ns = grown(now->ended_wall_ns, before->ended_wall_ns),
        .stride = now->stride_min,
        .blocked_ns = grown(now->blocked_ns, before->blocked_ns),
        .preempted_ns = grown(now->preempted_ns, before->preempted_ns),
        .blocked_seen = now->blocked_known,
        .preempted_seen = now->preempted_known,
        .cpu_seen = now->cpu_known && !takes_cpu_back(now, before),
        .is_thread = now->is_thread,
        .async_work = now->async_work,
    };
    lp_run_tree_add(node, &figures);
    lp_run_tree_add(node, &(struct lp_run_figures){.stride = now->stride_max});
    lp_run_tree_note_worker(node, FIRST_WORKER);
    node->phase.saturated |= now->saturated;
}

/* How many came to the bucket, and in *bucket the last one of its octave if that is empty. */
static uint64_t came_to_bucket(unsigned *bucket, const struct lp_hist *now, const struct lp_hist *before)
{
    if (now->octaves[*bucket / LP_HIST_PER_OCTAVE])
        return grown(lp_hist_bucket(now, *bucket), lp_hist_bucket(before, *bucket));
    *bucket += LP_HIST_PER_OCTAVE - 1;
    return 0;
}

static int add_hist(struct lp_run_node *node, const struct lp_hist *now, const struct lp_hist *before)
{
    for (unsigned bucket = 0; bucket < LP_HIST_BUCKETS; bucket++) {
        uint64_t count = came_to_bucket(&bucket, now, before);
        if (count && lp_run_tree_add_hist(node, bucket, count) < 0)
            return -1;
    }
    return 0;
}

/* It is known later than the entry's end, so an interval may have more of it than of entries. */
static int add_device_time(struct lp_run_node *node, const struct lp_run_device_time *now,
                           const struct lp_run_device_time *before)
{
    static const struct lp_run_device_time none;
    struct lp_run_device_time *time = lp_run_tree_device_time(node);
    if (!time)
        return -1;
    before = before ? before : &none;
    time->calls = grown(now->calls, before->calls);
    time->ns = grown(now->ns, before->ns);
    for (unsigned bucket = 0; bucket < LP_HIST_BUCKETS; bucket++) {
        uint64_t count = came_to_bucket(&bucket, &now->hist, &before->hist);
        if (count && lp_run_hist_add(&time->hist, bucket, count, &node->phase.saturated) < 0)
            return -1;
    }
    return 0;
}

/* The cursor's counter of that name, or NULL. Both arrays are sorted: *at goes along. */
static struct lp_run_counter *find_counter(const struct lp_run_phase *before, size_t *at,
                                           const struct lp_run_counter *now)
{
    for (; *at < before->n_counters; ++*at) {
        int order = lp_text_compare(lp_text_span(&before->counters[*at].name), lp_text_span(&now->name));
        if (order >= 0)
            return order == 0 ? &before->counters[*at] : NULL;
    }
    return NULL;
}

static int add_counter(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_counter *now,
                       const struct lp_run_counter *before)
{
    static const struct lp_run_counter none;
    before = before ? before : &none;
    if (now->calls <= before->calls)
        return 0;
    struct lp_run_tally tally = {lp_text_span(&now->name), now->sum, now->calls - before->calls, INT64_MAX, INT64_MIN};
    struct lp_run_tally back = {tally.name, 0, 0, INT64_MAX, INT64_MIN};
    if (__builtin_sub_overflow(now->sum, before->sum, &tally.sum)) { /* let the tree find what it saturates at */
        tally.sum = now->sum;
        back.sum = before->sum == INT64_MIN ? INT64_MAX : -before->sum;
    }
    if (lp_run_tree_count(tree, node, &tally) < 0 || lp_run_tree_count(tree, node, &back) < 0)
        return -1;
    node->tallies->saturated |= now->saturated;
    return 0;
}

static int add_interval(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_phase *now,
                        const struct lp_run_phase *before)
{
    size_t at = 0;
    add_figures(node, now, before);
    if (add_hist(node, &now->hist, &before->hist) < 0)
        return -1;
    if (now->device_time && add_device_time(node, now->device_time, before->device_time) < 0)
        return -1;
    for (size_t i = 0; i < now->n_counters; i++)
        if (add_counter(tree, node, &now->counters[i], find_counter(before, &at, &now->counters[i])) < 0)
            return -1;
    return 0;
}

static int add_all(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_phase *now,
                   const struct lp_run_phase *before, bool closed)
{
    if (!is_held_back(now, before, closed) && add_interval(tree, node, now, before ? before : &nothing) < 0)
        return -1;
    for (size_t i = 0; i < now->n_children; i++) {
        const struct lp_run_phase *child = now->children[i];
        struct lp_run_node *into = lp_run_tree_child(tree, node, lp_text_span(&child->name));
        if (!into || add_all(tree, into, child, find_before(before, child), closed) < 0)
            return -1;
    }
    return 0;
}

/* ---- where the cursor stands then: no step of this can fail ---------------------------- */

/* Exchanges what two phases hold, but for their places in their trees. */
static void exchange(struct lp_run_phase *a, struct lp_run_phase *b)
{
    struct lp_run_phase was_a = *a, was_b = *b;
    *a = was_b;
    *b = was_a;
    a->name = was_a.name;
    b->name = was_b.name;
    a->parent = was_a.parent;
    b->parent = was_b.parent;
    a->children = was_a.children;
    b->children = was_b.children;
    a->n_children = was_a.n_children;
    b->n_children = was_b.n_children;
}

static void hold_back(struct lp_run_phase *now, struct lp_run_phase *before)
{
    struct lp_run_phase new = {0};
    exchange(now, before ? before : &new);
    for (size_t i = 0; i < new.n_counters; i++)
        lp_text_release(&new.counters[i].name);
    free(new.counters);
    lp_run_hist_release(&new.hist);
    lp_run_device_time_free(new.device_time);
}

static void raise_hist(struct lp_hist *now, struct lp_hist *before)
{
    for (unsigned octave = 0; octave < LP_HIST_OCTAVES; octave++) {
        if (!now->octaves[octave]) {
            now->octaves[octave] = before->octaves[octave];
            before->octaves[octave] = NULL;
        }
        for (unsigned i = 0; before->octaves[octave] && i < LP_HIST_PER_OCTAVE; i++)
            raise_to(&now->octaves[octave][i], before->octaves[octave][i]);
    }
}

static void raise_device_time(struct lp_run_phase *now, struct lp_run_phase *before)
{
    if (!now->device_time) {
        now->device_time = before->device_time;
        before->device_time = NULL;
    }
    if (!before->device_time)
        return;
    raise_to(&now->device_time->calls, before->device_time->calls);
    raise_to(&now->device_time->ns, before->device_time->ns);
    raise_hist(&now->device_time->hist, &before->device_time->hist);
}

static void raise_counters(struct lp_run_phase *now, const struct lp_run_phase *before)
{
    size_t at = 0;
    for (size_t i = 0; i < now->n_counters; i++) {
        struct lp_run_counter *counter = &now->counters[i];
        const struct lp_run_counter *old = find_counter(before, &at, counter);
        if (!old || old->calls <= counter->calls)
            continue;
        counter->calls = old->calls;
        counter->sum = old->sum;
    }
}

static void raise_figures(struct lp_run_phase *now, struct lp_run_phase *before)
{
    raise_to(&now->calls, before->calls);
    raise_to(&now->wall_ns, before->wall_ns);
    if (!takes_cpu_back(now,
                        before)) { /* else what is used from now on would be held back until it makes up for that */
        raise_to(&now->cpu_ns, before->cpu_ns);
        raise_to(&now->blocked_ns, before->blocked_ns);
        raise_to(&now->preempted_ns, before->preempted_ns);
    }
    raise_to(&now->nocpu_wall_ns, before->nocpu_wall_ns);
    raise_to(&now->child_wall_ns, before->child_wall_ns);
    raise_to(&now->late_wall_ns, before->late_wall_ns);
    raise_to(&now->ended_wall_ns, before->ended_wall_ns);
    raise_hist(&now->hist, &before->hist);
    raise_device_time(now, before);
    raise_counters(now, before);
}

static void raise_all(struct lp_run_phase *now, struct lp_run_phase *before, bool closed)
{
    if (is_held_back(now, before, closed))
        hold_back(now, before);
    else if (before)
        raise_figures(now, before);
    for (size_t i = 0; i < now->n_children; i++)
        raise_all(now->children[i], find_before(before, now->children[i]), closed);
}

static bool is_of_another(const struct lp_run_reading *cursor, const struct lp_run_reading *reading)
{
    return !lp_text_equal(lp_text_span(&cursor->worker), lp_text_span(&reading->worker));
}

struct lp_run_phase *lp_run_reading_advance(struct lp_run_reading *cursor, struct lp_run_reading *reading)
{
    struct lp_run_tree tree;
    bool begins = is_of_another(cursor, reading);
    bool stays = !reading->worker.len || (!begins && reading->written_ns < cursor->written_ns);
    struct lp_run_phase *before = begins ? NULL : cursor->tree;
    int status = lp_run_tree_init(&tree);
    if (status == 0 && !stays)
        status = add_all(&tree, tree.root, reading->tree, before, reading->closed);
    struct lp_run_phase *interval = status == 0 ? lp_run_tree_seal(&tree) : NULL;
    lp_run_tree_release(&tree);
    if (interval && !stays) {
        raise_all(reading->tree, before, reading->closed);
        lp_run_reading_release(cursor);
        *cursor = *reading;
        *reading = (struct lp_run_reading){0};
    }
    lp_run_reading_release(reading);
    return interval;
}

bool lp_run_phase_is_idle(const struct lp_run_phase *phase)
{
    return !phase->calls && !phase->wall_ns && !phase->cpu_ns && !phase->nocpu_wall_ns && !phase->child_wall_ns &&
           !phase->late_wall_ns && !phase->n_counters && !lp_hist_total(&phase->hist);
}

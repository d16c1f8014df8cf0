#include "worker/sample.h"

#include <string.h>
#include <time.h>

#include "base/own_reads.h"
#include "clock/cpu.h"
#include "process/usage.h"
#include "worker/internal.h"
#include "worker/samples.h"

#define ROWS 64u
#define STACKS_LOOKED_AT 4096u /* tasks may be many */
#define TRIES 20               /* for a moment at which nothing of ours moves, and no child is waited for */
#define PAUSE_NS 500000

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- where the program is ----------------------------------------------------------------------------------------- */

static lp_ref deepest_of_stack(const struct lp_stack *stack)
{
    uint32_t depth = GET(stack->depth);
    for (depth = depth < LP_STACK_DEPTH ? depth : LP_STACK_DEPTH; depth > 0; depth--) {
        const struct lp_frame *frame = &stack->frames[depth - 1];
        uint64_t serial = GET(frame->serial);
        if (serial != 0 && GET(frame->state) == LP_FRAME_OPEN && GET(frame->posted_serial) != serial)
            return atomic_load_explicit(&frame->node, memory_order_acquire); /* with what the node is */
    }
    return 0;
}

uint32_t lp_worker_deepest_phase(struct lp_worker *worker)
{
    const struct lp_image *image = &worker->recorder.image;
    struct lp_node *deepest = NULL;
    lp_ref found = 0;
    unsigned looked_at = 0;
    for (lp_ref at = atomic_load(&lp_image_header(image)->last_slot); at && looked_at < STACKS_LOOKED_AT;) {
        const struct lp_slot *slot = lp_image_at(image, at);
        for (lp_ref ref = atomic_load(&slot->last_stack); ref && looked_at < STACKS_LOOKED_AT; looked_at++) {
            const struct lp_stack *stack = lp_image_at(image, ref);
            lp_ref open = deepest_of_stack(stack);
            struct lp_node *node = lp_image_at(image, open);
            if (open && (!deepest || node->depth >= deepest->depth)) { /* older ones come later */
                deepest = node;
                found = open;
            }
            ref = atomic_load(&stack->older);
        }
        at = atomic_load(&slot->older);
    }
    if (deepest)
        atomic_store_explicit(&deepest->sampled, 1, memory_order_relaxed);
    return found;
}

/* ---- I/O ------------------------------------------------------------------------------------------------------- */

enum reading { READ, FAILED, AGAIN };

static bool sum_cpu(uint64_t *sum_ns, const uint64_t *tids, size_t n)
{
    *sum_ns = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t cpu_ns;
        if (!lp_cpu_of_thread(tids[i], &cpu_ns))
            return false;
        *sum_ns += cpu_ns;
    }
    return true;
}

/* What the process has used is what its threads have, which go on meanwhile, and what those had that have ended. */
static void read_ended(struct lp_threads_io *now, const uint64_t *tids, size_t n)
{
    struct timespec all;
    uint64_t before_ns, after_ns;
    now->ended_least_ns = 0;
    now->ended_most_ns = UINT64_MAX;
    if (!sum_cpu(&before_ns, tids, n) || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all) != 0 ||
        !sum_cpu(&after_ns, tids, n))
        return;
    uint64_t all_ns = (uint64_t)all.tv_sec * 1000000000u + (uint64_t)all.tv_nsec;
    now->ended_least_ns = above(all_ns, after_ns);
    now->ended_most_ns = above(all_ns, before_ns);
}

/* The keeper is no thread of the program's: it comes and goes with each fork. */
static void read_threads(struct lp_threads_io *now, struct lp_header *header)
{
    uint64_t tids[LP_SAMPLED_THREADS], self = lp_task_of_self();
    struct lp_own_io_sum own;
    size_t n = lp_own_io_sum(&own, header) ? lp_tasks_read(tids, LP_SAMPLED_THREADS) : 0;
    now->n = 0;
    now->own = own.by_program;
    now->asker = self;
    read_ended(now, tids, n);
    for (size_t i = 0; i < n; i++) {
        if (tids[i] == self && lp_own_thread_is_apart())
            continue;
        lp_own_io_reading();
        size_t cost_chars = lp_io_of_task(&now->threads[now->n].io, tids[i]);
        lp_own_io_was_read(header, cost_chars);
        if (cost_chars == 0) { /* it ended just now */
            now->n = 0;
            return;
        }
        if (tids[i] == self)
            now->own = own.by_program;
        own.by_program.read_chars += cost_chars;
        now->threads[now->n++].tid = tids[i];
    }
}

/* AGAIN: it was not of one moment. Threads are asked each time, right before the process: what they move in between
   would be taken for that of ended children. */
static enum reading try_to_read(struct lp_header *header, struct lp_moved *moved, bool few_threads)
{
    struct lp_reaped reaped_after;
    struct lp_own_io_sum own, own_after;
    if (!lp_reaped_read(&moved->reaped))
        return FAILED;
    moved->threads.n = 0;
    if (few_threads)
        read_threads(&moved->threads, header);
    bool own_known = lp_own_io_sum(&own, header);
    lp_own_io_reading();
    size_t cost_chars = lp_io_of_process(&moved->all);
    lp_own_io_was_read(header, cost_chars);
    if (cost_chars == 0 || !lp_reaped_read(&reaped_after))
        return FAILED;
    if (!own_known || !lp_own_io_sum(&own_after, header) || !lp_own_io_rested(&own, &own_after) ||
        reaped_after.work != moved->reaped.work)
        return AGAIN;
    moved->own = own.moved;
    moved->own_unknown = own.unknown;
    return READ;
}

static bool read_moved(struct lp_header *header, struct lp_moved *moved, bool few_threads)
{
    enum reading reading;
    for (int i = 1; (reading = try_to_read(header, moved, few_threads)) == AGAIN && i < TRIES; i++)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    if (reading != READ)
        return false;
    moved->all.read_chars = above(moved->all.read_chars, moved->own.read_chars);
    moved->all.write_chars = above(moved->all.write_chars, moved->own.write_chars);
    moved->all.read_bytes = above(moved->all.read_bytes, moved->own.read_bytes + moved->reaped.read_bytes);
    moved->all.write_bytes = above(moved->all.write_bytes, moved->own.write_bytes + moved->reaped.write_bytes);
    return true;
}

/* True, and what the program's threads have moved between the two, if none has ended meanwhile. */
static bool threads_moved(const struct lp_threads_io *before, const struct lp_threads_io *now, uint64_t *read_chars,
                          uint64_t *write_chars)
{
    size_t met = 0;
    *read_chars = *write_chars = 0;
    for (size_t i = 0; i < now->n; i++) {
        struct lp_io old = {0};
        for (size_t k = 0; k < before->n; k++)
            if (before->threads[k].tid == now->threads[i].tid) {
                old = before->threads[k].io;
                met++;
            }
        *read_chars += above(now->threads[i].io.read_chars, old.read_chars);
        *write_chars += above(now->threads[i].io.write_chars, old.write_chars);
    }
    *read_chars = above(*read_chars, now->own.read_chars - before->own.read_chars);
    *write_chars = above(*write_chars, now->own.write_chars - before->own.write_chars);
    bool came_and_went = now->asker == before->asker && now->ended_least_ns > before->ended_most_ns;
    return now->n > 0 && before->n > 0 && met == before->n && !came_and_went;
}

/* Never steps back: the profiler's own may be noted a little late. */
static uint64_t tell(uint64_t *told, uint64_t value)
{
    if (value > *told)
        *told = value;
    return *told;
}

/* What is not the program's own of what was moved since the last row. Where that cannot be told, nothing is. */
static void leave_out(struct lp_sampler *sampler, struct lp_process_row *row, const struct lp_moved *now)
{
    const struct lp_moved *last = &sampler->last;
    struct lp_io *foreign = &sampler->foreign;
    bool own_unknown = now->own_unknown != last->own_unknown;
    uint64_t read_chars, write_chars;
    if (!own_unknown && now->reaped.work == last->reaped.work)
        return;
    if (!threads_moved(&last->threads, &now->threads, &read_chars, &write_chars) || own_unknown) {
        row->gaps |= LP_GAP_CHARS;
        read_chars = write_chars = 0;
    }
    foreign->read_chars += above(now->all.read_chars, last->all.read_chars + read_chars);
    foreign->write_chars += above(now->all.write_chars, last->all.write_chars + write_chars);
    if (own_unknown) {
        row->gaps |= LP_GAP_BYTES;
        foreign->read_bytes += above(now->all.read_bytes, last->all.read_bytes);
        foreign->write_bytes += above(now->all.write_bytes, last->all.write_bytes);
    }
}

static void take_io(struct lp_worker *worker, struct lp_process_row *row)
{
    struct lp_sampler *sampler = &worker->sampler;
    const struct lp_io *foreign = &sampler->foreign;
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    struct lp_moved now;
    if (!read_moved(header, &now, row->threads <= LP_SAMPLED_THREADS)) {
        sampler->last.threads.n = 0; /* what they move until the next row is not what is told there */
        row->read_chars = row->write_chars = row->read_bytes = row->write_bytes = LP_NOT_MEASURED;
        return;
    }
    if (sampler->begun)
        leave_out(sampler, row, &now);
    row->read_chars = tell(&sampler->told.read_chars, above(now.all.read_chars, foreign->read_chars));
    row->write_chars = tell(&sampler->told.write_chars, above(now.all.write_chars, foreign->write_chars));
    row->read_bytes = tell(&sampler->told.read_bytes, above(now.all.read_bytes, foreign->read_bytes));
    row->write_bytes = tell(&sampler->told.write_bytes, above(now.all.write_bytes, foreign->write_bytes));
    sampler->begun = true;
    sampler->last = now;
}

/* ---- run delay ------------------------------------------------------------------------------------------------- */

static uint64_t delay_before(const struct lp_sampler *sampler, uint64_t tid, uint64_t otherwise)
{
    for (size_t i = 0; i < sampler->n_delays; i++)
        if (sampler->delays[i].tid == tid)
            return sampler->delays[i].ns;
    return otherwise;
}

/* The threads that record now; more than LP_DELAYED_THREADS if they are too many to look at. */
static size_t recording_threads(const struct lp_worker *worker, uint64_t *tids)
{
    const struct lp_image *image = &worker->recorder.image;
    size_t n = 0;
    for (lp_ref at = atomic_load(&lp_image_header(image)->last_slot); at && n <= LP_DELAYED_THREADS;) {
        const struct lp_slot *slot = lp_image_at(image, at);
        at = atomic_load(&slot->older);
        if (!GET(slot->alive))
            continue;
        if (n < LP_DELAYED_THREADS)
            tids[n] = GET(slot->tid);
        n++;
    }
    return n;
}

/* Of one that begins to record, from now on. */
static uint64_t run_delay(struct lp_worker *worker)
{
    struct lp_sampler *sampler = &worker->sampler, before = *sampler;
    uint64_t tids[LP_DELAYED_THREADS];
    size_t n = recording_threads(worker, tids);
    sampler->n_delays = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t ns;
        if (n > LP_DELAYED_THREADS || (ns = lp_run_delay_ns(tids[i])) == LP_USAGE_UNKNOWN)
            return LP_NOT_MEASURED;
        sampler->delay_ns += above(ns, delay_before(&before, tids[i], ns));
        sampler->delays[i].tid = tids[i];
        sampler->delays[i].ns = ns;
    }
    sampler->n_delays = n;
    return sampler->delay_ns;
}

/* ---- the row --------------------------------------------------------------------------------------------------- */

static uint32_t narrow(uint64_t value, uint32_t largest)
{
    return value == LP_USAGE_UNKNOWN ? LP_NOT_MEASURED_U32 : value < largest ? (uint32_t)value : largest;
}

static void take_device_memory(struct lp_worker *worker, struct lp_process_row *row)
{
    if (worker->device_memory &&
        worker->device_memory(!atomic_load(&worker->closing), &row->cuda_allocated_bytes, &row->cuda_reserved_bytes))
        return;
    row->cuda_allocated_bytes = row->cuda_reserved_bytes = LP_NOT_MEASURED;
}

void lp_worker_sample(struct lp_worker *worker, uint64_t now_ns)
{
    struct lp_usage usage;
    if (now_ns <= worker->sampler.last_ns) /* its time is over: a worker may have closed before its keeper began */
        return;
    worker->sampler.last_ns = now_ns;
    struct lp_process_row row = {
        .monotonic_ns = now_ns,
        .sequence = worker->sampler.sequence,
    };
    row.phase = lp_worker_deepest_phase(worker);
    lp_usage_read(&usage);
    row.cpu_ns = usage.cpu_ns;
    row.rss_bytes = usage.rss_bytes;
    row.minor_faults = usage.minor_faults;
    row.major_faults = usage.major_faults;
    row.voluntary_switches = usage.voluntary_switches;
    row.involuntary_switches = usage.involuntary_switches;
    row.open_files = narrow(usage.open_files, LP_NOT_MEASURED_U32 - 1);
    uint32_t threads = narrow(usage.threads, LP_NOT_MEASURED_U16 - 1);
    row.threads = threads == LP_NOT_MEASURED_U32 ? LP_NOT_MEASURED_U16 : (uint16_t)threads;
    row.run_delay_ns = run_delay(worker);
    take_io(worker, &row);
    take_device_memory(worker, &row); /* last: it may take some milliseconds */
    if (lp_ring_put(&worker->recorder.image, LP_RING_PROCESS, ROWS, sizeof row, &row))
        worker->sampler.sequence++;
}

/*
 * record: the hot path - entering and leaving phases, counting.
 *
 * A recorder is one stream of records of one process; its figures live in an image. A thread gets a slot of the image
 * at its first boundary and from then on writes only there: no lock, no allocation once its paths are known, and with a
 * proven token no system call but one clock reading a millisecond. A boundary is: find the thread (one thread-local
 * compare), find the node (one compare with the child entered last), read the clock, write one frame or one line.
 *
 * lp_record_enter hands out an entry; lp_record_leave closes exactly that entry, also out of order: an entry that ends under open
 * children keeps its frame, marked as ended, until they have gone. What a child runs on beyond its parent's end is counted
 * as late, and covers the nearest phase around that is open still: so each moment is in one phase's self time.
 *
 * Entries nest on a strand: that of their thread, or that of the task which runs on it. The room above tells which task
 * runs (lp_thread_run); nothing here knows how tasks come about. An exit on another thread posts its time to the entry,
 * and the owner takes it up at its next boundary.
 *
 * A phase id may carry a sampling stride: then one entry in so many is measured, and between two of these a strand skips:
 * nothing inside such an entry is recorded.
 *
 * States of a recorder: it records while key is not 0. It begins idle, and a fork sets it back to idle in the child; the
 * first boundary in that state asks the hook `begin` for an image.
 *
 * Must not know: files, JSON, Python, threads of our own.
 */
#ifndef LP_RECORD_RECORD_H
#define LP_RECORD_RECORD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "clock/cpu.h"
#include "image/image.h"
#include "record/names.h"
#include "record/shapes.h"
#include "record/table.h"

#define LP_PATHS_LIMIT 4096u
/* Threads of so many names are told apart; of later names each run of digits is one '#'. */
#define LP_THREAD_NAMES_LIMIT 1024u
#define LP_THREAD_NAME_BYTES 256

struct lp_recorder;

/* What the room above provides. Called on the recording thread, outside the recorder's lock unless said otherwise. */
struct lp_recorder_hooks {
    void *context;
    /* At the first boundary, at the first in a forked child, and at the first after lp_recorder_wake. To call
       lp_recorder_start if the recorder is idle (in a child, after a new image was made); returns 0, or -1 to record
       nothing. May be called by several threads at once. */
    int (*begin)(void *context);
    /* Writes the calling thread's name, at most size bytes, and returns its length. May be NULL. */
    size_t (*thread_name)(void *context, char *name, size_t size);
    /* For who records without knowing of tasks: makes the calling thread's side run the strand of the task that runs, and
       returns it; NULL to record nothing. May be NULL. Nothing here calls it. */
    struct lp_thread *(*follow)(void *follow_context, struct lp_thread *thread);
    void *follow_context;
};

/* One nesting of open entries: its stack in the image, and who it is. Used by its thread only. */
struct lp_strand {
    uint64_t task; /* as the room above knows it; 0: the thread's own strand, or one that is free */
    void *host;    /* the room above's own; left as it is when the strand is freed and used again */
    struct lp_stack *stack;
    lp_ref stack_ref;
    struct lp_node *skipped;          /* the node whose entry is skipped, while one is */
    lp_phase_id skipped_below;        /* and that phase below it; LP_NAME_NONE: it is the node's own */
    struct lp_strand *next_same;      /* in its place of the table, or the list of free ones */
    struct lp_strand *next_of_thread; /* all but the thread's own */
};

/* Set in lp_thread.depth while the strand skips, so that no boundary takes the fast path. */
#define LP_SKIPPING 0x40000000u
/* Set in lp_entry.frame of a skipped entry; the rest is then its stack. */
#define LP_ENTRY_SKIPPED 0x80000000u

/* Memory of the room above that lives as long as a thread's side: the head of what malloc() gave. */
struct lp_kept {
    struct lp_kept *next;
};

/* One thread's private side of its slot. Lives as long as the recorder; a later thread may take it over. */
struct lp_thread {
    _Alignas(LP_APART) struct lp_recorder *recorder; /* Borrowed. */
    uint32_t generation;                             /* the recorder's when the slot was made */
    struct lp_cpu cpu;
    uint64_t last_wall_ns;
    uint64_t serial;
    /* The room above's own: to see whether another task may run by now, and since which CPU time it does. 0 in a new
       slot. */
    uint64_t host_version, host_since_cpu_ns;
    /* Of the strand that runs: */
    uint32_t depth;
    lp_ref stack_ref;
    struct lp_stack *stack;
    struct lp_node *node; /* of the deepest open entry, or the root; nowhere while it skips */
    uint64_t away_cpu_ns; /* as in the stack */
    struct lp_strand *strand;

    struct lp_strand own;
    struct lp_strand *strands, *free_strands; /* Owned, by next_of_thread. */
    struct lp_strand **places;                /* Owned: a hash table by task */
    uint32_t n_places, n_tasks;
    uint32_t n_nodes;
    struct lp_node *root, *last_node;
    struct lp_slot *slot;
    struct lp_table children; /* (parent ref, phase id) -> node ref */
    lp_ref spare_line;        /* of the image, the thread's own and not used yet; 0: none */
    uint64_t first_serial;    /* that of the last entry before the slot was made */
    struct lp_thread *next;   /* guarded by the recorder's lock */
    uint64_t owner;           /* guarded by the recorder's lock: lp_thread_id of whose it is now; 0: nobody's */
    uint32_t posted;          /* guarded by the recorder's lock: exits by other threads, not yet taken up */
    bool taken_over;          /* guarded by the recorder's lock: the slot was another thread's before */
    struct lp_node nowhere;   /* stands for the node where nothing is recorded */

    struct lp_kept *kept; /* Owned; the room above's own */
    struct lp_wait wait;
    uint64_t put_off_serial; /* of the last entry that was open when reasons began to be put off */
    bool runs_unknown;       /* who ran since the last reading is not known */
};

enum lp_recorder_state { LP_RECORDER_IDLE, LP_RECORDER_RUNNING, LP_RECORDER_STOPPED };

/* What every thread reads at its boundaries is written at none. */
struct lp_recorder {
    _Alignas(LP_APART) _Atomic uint64_t key; /* 0: not recording; else never used before in this process */
    _Atomic int state;                       /* enum lp_recorder_state */
    _Atomic bool wake;                       /* begin is to be called at the next boundary although we are recording */
    uint32_t generation;                     /* counts images: entries and slots of an earlier one are dead */
    bool measure_cpu, keep_thread_names;
    bool wait_detail; /* set before the first boundary */
    struct lp_image image;
    struct lp_recorder_hooks hooks;
    pthread_mutex_t lock;
    struct lp_thread *threads;      /* guarded by lock */
    struct lp_table paths;          /* guarded by lock: hashes of the distinct paths */
    struct lp_table name_refs;      /* guarded by lock: name id -> ref of its copy in the image */
    struct lp_recorder *next;       /* guarded by the registry's lock */
    _Atomic lp_ref overflow_parent; /* the first path that found no place: its parent and last name */
    _Atomic lp_name_id overflow_name;
    struct lp_shapes shapes; /* written with lock held */
};

/* Names one entry. Plain data: may be copied and outlive the thread, not the recorder. */
struct lp_entry {
    struct lp_thread *thread; /* NULL: nothing was recorded */
    uint64_t serial;
    uint32_t frame; /* ref of its frame; or LP_ENTRY_SKIPPED and the ref of its stack */
};

/* What the calling thread used last. key tells a closed, forked or new recorder from the one meant. */
struct lp_thread_cache {
    uint64_t key;
    struct lp_thread *thread;
};
extern __thread struct lp_thread_cache lp_thread_cache __attribute__((tls_model("initial-exec")));

/* Reads as 1, and as 0 in a child that was cloned without running fork handlers. */
extern _Atomic uint32_t *lp_fork_word;
/* False in such a child: all that it finds is its parent's. */
static inline bool lp_record_is_here(void)
{
    return atomic_load_explicit(lp_fork_word, memory_order_relaxed) != 0;
}

/* Prepares a recorder without an image; call lp_recorder_start once the image stands. Returns 0 or -1. */
int lp_recorder_init(struct lp_recorder *recorder, const struct lp_recorder_hooks *hooks, bool measure_cpu,
                     bool keep_thread_names);
/* Begins to record into recorder->image, which is empty. */
void lp_recorder_start(struct lp_recorder *recorder);
/* Has begin called once more at the next boundary of any thread. */
void lp_recorder_wake(struct lp_recorder *recorder);
/* Stops recording for good: later boundaries do nothing. What is open stays as it is in the image. */
void lp_recorder_stop(struct lp_recorder *recorder);
/* Frees everything but the image. No thread may be inside a call any more. */
void lp_recorder_release(struct lp_recorder *recorder);
/* Sends every thread once through lp_thread_find: it takes up what others have left for it, and its name is looked at. */
void lp_recorder_touch(struct lp_recorder *recorder);
/* Gives the image a file again if it lost it. Meanwhile each thread waits at its next boundary, some milliseconds. */
void lp_recorder_restore(struct lp_recorder *recorder);
/* Looks at the calling thread's name, if names are kept and the thread has recorded. */
void lp_recorder_see_thread_name(struct lp_recorder *recorder);
/* Around fork, for all recorders of the process: holds every lock of this room across the fork. In the child every
   running recorder forgets its parent's threads and image and is idle again: its next boundary calls begin. Scopes that
   were open across the fork are ignored there. */
void lp_record_before_fork(void);
/* Before the above, in a child that was cloned without fork handlers. */
void lp_record_make_locks_anew(void);
void lp_record_after_fork_in_parent(void);
void lp_record_after_fork_in_child(void);

/* The node of an entry that is open on the calling thread and is measured; NULL otherwise. */
struct lp_node *lp_record_node(const struct lp_entry *entry);
/* Whether an entry of the phase that is opened next on the calling thread will be measured, rather than skipped. */
bool lp_record_will_measure(struct lp_thread *thread, lp_phase_id phase);
/* Marks a node of the calling thread (enum lp_extra_flags), so that it has a place for what that means; false if there is
   no room for one. */
bool lp_node_mark(struct lp_thread *thread, struct lp_node *node, uint32_t flags);
/* Adds the device time of one entry to a node that is marked. On any thread, but one at a time in the process. */
void lp_node_add_device_time(struct lp_image *image, struct lp_node *node, uint64_t ns);

/* The path of the first entry that was folded for want of room, as texts from the root; returns its length, 0 if none. */
size_t lp_recorder_overflow(struct lp_recorder *recorder, lp_name_id *path, size_t size);

/* Admits a name of phases that recorder->shapes does not know yet, see there. Takes the recorder's lock. */
struct lp_shape_verdict lp_recorder_admit(struct lp_recorder *recorder, lp_name_id name, bool strict);

/* Private to record/ below, but for the inline functions at the end. */

/* Hands out zeroed lines that lie apart from those of other threads; 0 if there is no room. On the thread. */
lp_ref lp_thread_alloc(struct lp_thread *thread, size_t bytes);
/* Hands out what the ref points to, new if there is none yet; NULL if there is no room, which is counted. */
void *lp_record_get_or_make(struct lp_image *image, _Atomic lp_ref *place, size_t bytes);
void lp_thread_watch_end(void);
/* Whether nobody will hear of the calling thread's end any more: it is past its last destructor that we know of. */
bool lp_thread_is_over(void);
/* The calling thread's number, never used before or after in this process. Addresses and kernel numbers come again. */
uint64_t lp_thread_id(void);
/* Whether the calling thread's side of the recorder is this one. */
bool lp_thread_is_mine(const struct lp_thread *thread);
/* Ends what is open on a thread that ends. With the recorder's lock held, on that thread. */
void lp_thread_end(struct lp_thread *thread);
/* Takes up what other threads have posted. On that thread. */
LP_COLD void lp_thread_reap(struct lp_thread *thread);
LP_COLD struct lp_thread *lp_thread_find(struct lp_recorder *recorder);
/* The calling thread's side of the recorder if it has one, also after lp_recorder_touch; nothing is taken up or made. */
struct lp_thread *lp_thread_known(struct lp_recorder *recorder);
LP_NOINLINE struct lp_node *lp_thread_child(struct lp_thread *thread, struct lp_node *parent, lp_phase_id phase);
/* Counts an entry that has no name. */
LP_COLD void lp_record_unnamed(const struct lp_recorder *recorder);
LP_COLD void lp_record_enter_folded(struct lp_thread *thread);
LP_COLD void lp_record_leave_slow(struct lp_entry *entry);
LP_NOINLINE void lp_record_leave_skipped(struct lp_entry *entry);
/* Whether this entry of a sampled phase is one to measure; else it is opened as skipped. */
LP_NOINLINE bool lp_record_is_due(struct lp_thread *thread, struct lp_node *node, struct lp_entry *entry);
/* False where no entry of a sampled phase is measured, whatever its stride, for it could not be said what it stands for:
   it is opened as skipped then. */
LP_NOINLINE bool lp_record_may_be_due(struct lp_thread *thread, lp_phase_id phase, struct lp_entry *entry);
/* What a measured entry stands for; at most LP_SHARE_LIMIT_NS, so that sums of many stay numbers. */
#define LP_SHARE_LIMIT_NS (UINT64_MAX >> 8) /* two years */
LP_NOINLINE uint64_t lp_share_of_sampled(uint32_t stride, uint64_t wall_ns);

/* Strands. On their thread, all of them. */

/* Makes the thread's own strand the one that runs; it has no others. */
void lp_strands_begin(struct lp_thread *thread, lp_ref stack);
/* In a forked child: those of the parent's image are lost, not freed, for the fork may have met their thread in the
   middle of a change. */
void lp_strands_forget(struct lp_thread *thread);
void lp_strands_release(struct lp_thread *thread);
/* The strand of a task; NULL if it has none. */
struct lp_strand *lp_strand_find(struct lp_thread *thread, uint64_t task);
/* A strand for a task that has none; NULL if memory is short. */
struct lp_strand *lp_strand_make(struct lp_thread *thread, uint64_t task);
/* Has the strand's task forgotten: what is open stays open, and is found by its entries only. */
void lp_strand_orphan(struct lp_thread *thread, struct lp_strand *strand);
/* Drops a task's strand if nothing is open on it. */
void lp_strand_drop_if_empty(struct lp_thread *thread, struct lp_strand *strand);
/* Takes over into the thread what has changed in the stack of the strand that runs. */
void lp_strand_load(struct lp_thread *thread, struct lp_strand *strand);
/* The node of the deepest open entry, or the root. */
struct lp_node *lp_strand_node(const struct lp_thread *thread, const struct lp_stack *stack);

/* The names of what is open on the strand that runs, from the root, at most size; returns how many. */
size_t lp_thread_path(const struct lp_thread *thread, lp_name_id *path, size_t size);

/* From now on the thread runs this strand; CPU time until now is the former one's. */
void lp_thread_run(struct lp_thread *thread, struct lp_strand *strand);
/* The same since an earlier moment, at which the thread had used cpu_ns. */
void lp_thread_run_since(struct lp_thread *thread, struct lp_strand *strand, uint64_t cpu_ns);
/* The CPU time that the thread has used. */
uint64_t lp_thread_cpu_ns(struct lp_thread *thread);
/* The same where it is not known since when it runs: some time since the thread's last boundary. The CPU time since then,
   which may be other tasks', is kept as unplaced. */
void lp_thread_run_late(struct lp_thread *thread, struct lp_strand *strand);
/* Calls release, with the recorder's lock held, with the host of every strand of the recorder that has one. The recorder is
   stopped, and no thread is inside a call that makes a strand run. */
void lp_recorder_release_hosts(struct lp_recorder *recorder, void (*release)(void *host));
LP_NOINLINE struct lp_counter *lp_thread_counter(struct lp_thread *thread, lp_name_id name);
LP_NOINLINE void lp_hist_first(struct lp_thread *thread, struct lp_node *node, unsigned bucket);

/* wait.c: why entries waited. On their thread. */

/* From now on it is asked, if the recorder wants to know. */
void lp_thread_ask_waits(struct lp_thread *thread);
/* Takes back from its node what an open entry was billed: of one that ended when its thread did not look, CPU time and
   wait are not known, so neither is its share. */
void lp_thread_unbill(struct lp_thread *thread, struct lp_stack *stack, uint32_t index);

/* The calling thread's side of the recorder; NULL if nothing is to be recorded. */
LP_ALWAYS_INLINE struct lp_thread *lp_thread_self(struct lp_recorder *recorder)
{
    uint64_t key = atomic_load_explicit(&recorder->key, memory_order_relaxed);
    if (LP_LIKELY(lp_thread_cache.key == key && key != 0 && atomic_load_explicit(lp_fork_word, memory_order_relaxed)))
        return lp_thread_cache.thread;
    return lp_thread_find(recorder);
}

LP_ALWAYS_INLINE struct lp_reading lp_thread_read(struct lp_thread *thread, enum lp_edge edge)
{
    struct lp_reading now = {0};
    if (thread->recorder->measure_cpu)
        now = lp_cpu_read(&thread->cpu, edge);
    else
        now.wall_ns = lp_wall_ns();
    if (LP_UNLIKELY(now.wall_ns < thread->last_wall_ns))
        now.wall_ns = thread->last_wall_ns;
    thread->last_wall_ns = now.wall_ns;
    return now;
}

/* Single writer: plain additions, made visible to readers word by word. */
#define LP_ADD(field, amount)                                                                                          \
    atomic_store_explicit(&(field), atomic_load_explicit(&(field), memory_order_relaxed) + (amount),                   \
                          memory_order_relaxed)
#define LP_SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define LP_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

LP_ALWAYS_INLINE void lp_core_begin(struct lp_core *core)
{
    atomic_store_explicit(&core->begun, LP_GET(core->begun) + 1, memory_order_relaxed);
    LP_FENCE(memory_order_release);
}

LP_ALWAYS_INLINE void lp_core_end(struct lp_core *core)
{
    atomic_store_explicit(&core->done, LP_GET(core->begun), memory_order_release);
}

LP_ALWAYS_INLINE void lp_hist_add(struct lp_thread *thread, struct lp_node *node, uint64_t wall_ns)
{
    unsigned bucket = lp_hist_bucket_of(wall_ns);
    lp_ref octave = LP_GET(node->octaves[bucket / LP_HIST_PER_OCTAVE]);
    if (LP_UNLIKELY(octave == 0)) {
        lp_hist_first(thread, node, bucket);
        return;
    }
    struct lp_octave *counts = lp_image_at(&thread->recorder->image, octave);
    LP_ADD(counts->counts[bucket % LP_HIST_PER_OCTAVE], 1);
}

/* Adds to an open parent what a child's measured time stands for. */
LP_ALWAYS_INLINE void lp_frame_cover(struct lp_frame *parent, const struct lp_node *child, uint64_t wall_ns)
{
    if (LP_UNLIKELY(child->phase_id > LP_NAME_MASK))
        wall_ns = lp_share_of_sampled(child->stride, wall_ns);
    LP_ADD(parent->child_wall_ns, wall_ns);
}

/* Opens an entry on the calling thread, whose side of its recorder this is. */
LP_ALWAYS_INLINE void lp_thread_enter(struct lp_thread *thread, lp_phase_id phase, struct lp_entry *entry)
{
    struct lp_image *image = &thread->recorder->image;
    struct lp_node *parent = thread->node, *node;
    entry->thread = NULL;
    if (LP_UNLIKELY(thread->depth >= LP_STACK_DEPTH)) {
        lp_record_enter_folded(thread);
        return;
    }
    if (LP_UNLIKELY(phase > LP_NAME_MASK) && !lp_record_may_be_due(thread, phase, entry))
        return;
    node = lp_image_at(image, parent->hot_child);
    if (LP_UNLIKELY(parent->hot_child == 0 || node->phase_id != phase)) {
        node = lp_thread_child(thread, parent, phase);
        if (!node) {
            lp_record_enter_folded(thread);
            return;
        }
    }
    if (LP_UNLIKELY(phase > LP_NAME_MASK) && !lp_record_is_due(thread, node, entry))
        return;
    struct lp_frame *frame = &thread->stack->frames[thread->depth];
    /* Released, so that who sees any of this sees that the last entry here has ended. */
    atomic_store_explicit(&frame->node, parent->hot_child, memory_order_release);
    atomic_store_explicit(&frame->state, LP_FRAME_OPEN, memory_order_release);
    atomic_store_explicit(&frame->child_wall_ns, 0, memory_order_release);
    entry->thread = thread;
    entry->serial = ++thread->serial;
    entry->frame = thread->stack_ref + ++thread->depth; /* the line before the frames is the stack's own */
    thread->node = node;
    LP_SET(thread->stack->depth, thread->depth);
    struct lp_reading now = lp_thread_read(thread, LP_EDGE_ENTER);
    atomic_store_explicit(&frame->start_wall_ns, now.wall_ns, memory_order_release);
    atomic_store_explicit(&frame->start_cpu_ns, now.cpu_ns - thread->away_cpu_ns, memory_order_release);
    atomic_store_explicit(&frame->serial, entry->serial, memory_order_release);
}

/* Opens an entry of a phase on the calling thread. */
LP_ALWAYS_INLINE void lp_record_enter(struct lp_recorder *recorder, lp_phase_id phase, struct lp_entry *entry)
{
    struct lp_thread *thread = lp_thread_self(recorder);
    entry->thread = NULL;
    if (LP_LIKELY(thread))
        lp_thread_enter(thread, phase, entry);
}

/* Closes it. Further calls with the same entry do nothing. */
LP_ALWAYS_INLINE void lp_record_leave(struct lp_entry *entry)
{
    struct lp_thread *thread = entry->thread;
    if (LP_UNLIKELY(!thread))
        return;
    if (LP_UNLIKELY(entry->frame & LP_ENTRY_SKIPPED)) {
        lp_record_leave_skipped(entry);
        return;
    }
    struct lp_frame *frame = lp_image_at(&thread->recorder->image, entry->frame);
    uint32_t depth;
    /* The innermost entry of this thread, over a parent that is still open: anything else is rare. */
    if (LP_UNLIKELY(thread != lp_thread_cache.thread || lp_thread_cache.key != LP_GET(thread->recorder->key) ||
                    entry->frame != thread->stack_ref + (depth = thread->depth) ||
                    LP_GET(frame->serial) != entry->serial || (depth > 1 && LP_GET(frame[-1].state) != LP_FRAME_OPEN) ||
                    !LP_GET(*lp_fork_word))) {
        lp_record_leave_slow(entry);
        return;
    }
    entry->thread = NULL;
    struct lp_reading now = lp_thread_read(thread, LP_EDGE_LEAVE);
    uint64_t wall_ns = now.wall_ns - LP_GET(frame->start_wall_ns);
    uint64_t child_ns = LP_GET(frame->child_wall_ns);
    struct lp_node *node = thread->node;
    lp_core_begin(&node->core);
    LP_SET(frame->end_wall_ns, now.wall_ns); /* for who wants to know what the thread finished last */
    atomic_store_explicit(&frame->serial, 0, memory_order_relaxed);
    LP_ADD(node->core.calls, 1);
    LP_ADD(node->core.wall_ns, wall_ns);
    LP_ADD(node->core.cpu_ns, now.cpu_ns - thread->away_cpu_ns - LP_GET(frame->start_cpu_ns));
    LP_ADD(node->core.child_wall_ns, child_ns);
    lp_core_end(&node->core);
    lp_hist_add(thread, node, wall_ns);
    thread->depth = depth - 1;
    LP_SET(thread->stack->depth, depth - 1);
    thread->node = lp_image_at(&thread->recorder->image, node->parent);
    if (depth > 1)
        lp_frame_cover(&frame[-1], node, wall_ns);
}

enum lp_count_result { LP_COUNT_OK = 0, LP_COUNT_OVERFLOW = -1 };

/* Adds n to a counter of the innermost open phase of the calling thread, or of the root. LP_COUNT_OVERFLOW leaves the
   counter as it was. A counter that finds no room is counted as lost. */
LP_ALWAYS_INLINE enum lp_count_result lp_thread_count(struct lp_thread *thread, lp_name_id name, int64_t n)
{
    struct lp_node *node = thread->node;
    struct lp_counter *counter = lp_image_at(&thread->recorder->image, node->hot_counter);
    if (LP_UNLIKELY(node->hot_counter == 0 || counter->name_id != name)) {
        counter = lp_thread_counter(thread, name);
        if (!counter)
            return LP_COUNT_OK;
    }
    int64_t sum;
    if (LP_UNLIKELY(__builtin_add_overflow(LP_GET(counter->sum), n, &sum)))
        return LP_COUNT_OVERFLOW;
    LP_SET(counter->begun, LP_GET(counter->begun) + 1);
    LP_FENCE(memory_order_release);
    LP_SET(counter->sum, sum);
    LP_ADD(counter->calls, 1);
    if (n < LP_GET(counter->min))
        LP_SET(counter->min, n);
    if (n > LP_GET(counter->max))
        LP_SET(counter->max, n);
    atomic_store_explicit(&counter->done, LP_GET(counter->begun), memory_order_release);
    return LP_COUNT_OK;
}

/* The same for any node of the calling thread. */
static inline enum lp_count_result lp_thread_count_at(struct lp_thread *thread, struct lp_node *node, lp_name_id name,
                                                      int64_t n)
{
    struct lp_node *here = thread->node;
    thread->node = node;
    enum lp_count_result result = lp_thread_count(thread, name, n);
    thread->node = here;
    return result;
}

LP_ALWAYS_INLINE enum lp_count_result lp_record_count(struct lp_recorder *recorder, lp_name_id name, int64_t n)
{
    struct lp_thread *thread = lp_thread_self(recorder);
    return LP_LIKELY(thread) ? lp_thread_count(thread, name, n) : LP_COUNT_OK;
}

#endif

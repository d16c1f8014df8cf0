/*
 * image: a worker's live state, laid out in one block of shared memory.
 *
 * The block is a file in /dev/shm/lineprofiler-<uid>/ that outlives its process; worker files are copies of it. All
 * links inside are refs: distances from the block's beginning in units of 64 bytes, 0 meaning none. In the owner the
 * block is mapped at one place in a reserved range and grows there without ever moving, so a ref is turned into a
 * pointer by one addition; everybody else reads the file with pread (image/view.h), never by mmap, because a file that
 * is cut short under a mapping raises SIGBUS.
 *
 * Writers: a node, counter, octave, stack or thread area is written by the one thread that owns its slot. Lists grow at
 * their head or tail by one release store, so a reader at any moment sees a well-formed prefix. The figures of a node
 * that belong together carry a sequence word at either end: the writer counts `begun` up before, and sets `done` equal
 * after.
 *
 * Costs: an empty image takes 64 KiB; a node 384 bytes and 64 more for every octave of durations that it met.
 *
 * Must not know: who writes or reads it, or what the figures mean.
 */
#ifndef LP_IMAGE_IMAGE_H
#define LP_IMAGE_IMAGE_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "image/hist.h"

/* Raise the version whenever a reader of the old layout would misread the new one. */
#define LP_IMAGE_MAGIC "LPIMAGE"
#define LP_IMAGE_VERSION 7u

#define LP_LINE 64u
#define LP_STACK_DEPTH 32u
#define LP_TROUBLES 24u
#define LP_NAME_LIMIT (1u << 20) /* bytes in one name */

typedef uint32_t lp_ref;

/* The figures of a node that change together. One cache line. */
struct lp_core {
    _Atomic uint32_t done;
    uint32_t reserved;
    _Atomic uint64_t calls, wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    _Atomic uint32_t stride; /* 0 or 1: every entry measured; outside the sequence */
    _Atomic uint32_t begun;
};

struct lp_node {
    struct lp_core core;
    _Atomic lp_ref next_in_slot; /* nodes of the slot in the order of their making: parents first */
    _Atomic lp_ref last_counter; /* head of the counter list */
    lp_ref parent, name;
    uint32_t index; /* ordinal in the slot, the root's being 0 */
    uint32_t depth; /* the root's being 0 */
    /* The owner's own, no business of readers: */
    uint64_t path_hash;
    lp_ref hot_child, hot_counter; /* used last */
    uint32_t phase_id;
    uint32_t stride;                /* of this phase below its parent; core.stride is that below the root */
    uint32_t until_due;             /* entries to skip before the next one that is measured */
    _Atomic uint32_t sampled_below; /* not 0: some child has a stride, and their time is an estimate */
    _Atomic uint32_t sampled;       /* some row of samples names this node */
    _Atomic lp_ref extra;           /* of struct lp_extra; 0: it has none */
    _Atomic lp_ref octaves[64];     /* of struct lp_octave */
};

/* For how many entries of a node a measured one stands within an entry of a node around it. */
static inline uint32_t lp_node_stride_within(const struct lp_node *around, const struct lp_node *inner)
{
    uint32_t stride = atomic_load_explicit(&inner->core.stride, memory_order_relaxed);
    uint32_t stride_around = atomic_load_explicit(&around->core.stride, memory_order_relaxed);
    return stride > 1 ? stride / (stride_around ? stride_around : 1) : 1;
}

/* Figures that few nodes have. Written like a core, by the thread that owns the slot; but device times, outside the
   sequence, by whoever holds the lock of these (worker/device_time.h). */
struct lp_extra {
    _Atomic uint32_t done, begun;
    _Atomic uint64_t blocked_ns, preempted_ns; /* parts of the wait, open entries included */
    _Atomic uint64_t gpu_calls, gpu_ns;        /* entries whose device time is known, and that time */
    _Atomic uint32_t flags;                    /* enum lp_extra_flags; outside the sequence */
    _Atomic lp_ref gpu_hist;                   /* of struct lp_gpu_hist */
    uint8_t reserved[16];
};

enum lp_extra_flags {
    LP_EXTRA_ASYNC_WORK = 1, /* the wall time is that of submission */
    LP_EXTRA_GPU = 2,        /* device time was asked for */
    LP_EXTRA_WAIT = 4,       /* the wait was split */
};

/* Device times, in the buckets of a node's histogram. */
struct lp_gpu_hist {
    _Atomic lp_ref octaves[64]; /* of struct lp_octave */
};

struct lp_octave {
    _Atomic uint64_t counts[LP_HIST_PER_OCTAVE];
};

struct lp_counter {
    _Atomic uint32_t done, begun;
    _Atomic int64_t sum;
    _Atomic uint64_t calls;
    _Atomic int64_t min, max;
    lp_ref name, older; /* older: next in the node's list */
    uint32_t name_id;   /* the owner's own */
    uint8_t reserved[12];
};

/* An open entry. serial is 0 in a frame that is not in use and changes with every entry. Where posted_serial is the same,
   another thread has ended the entry, at posted_wall_ns, and the owner has not met it yet. */
struct lp_frame {
    _Atomic uint64_t serial;
    _Atomic lp_ref node;
    _Atomic uint32_t state; /* enum lp_frame_state */
    _Atomic uint64_t start_wall_ns, start_cpu_ns, end_wall_ns, child_wall_ns;
    _Atomic uint64_t posted_serial, posted_wall_ns;
};

enum lp_frame_state { LP_FRAME_OPEN = 0, LP_FRAME_ENDED = 1 };

#define LP_STACK_RUNS ((uint64_t)1 << 63)

/* The open entries of a thread outside tasks, or of one task that runs on it. The CPU time of entries is that of the
   thread, less what it used while others ran. */
struct lp_stack {
    _Atomic uint32_t depth;
    _Atomic lp_ref older; /* next in the slot's list */
    _Atomic uint64_t cpu; /* LP_STACK_RUNS and the thread's CPU time while others ran; or what it has used itself */
    _Atomic uint64_t skip_serial;   /* of the entry that is open but not measured, nor anything in it; 0: none */
    _Atomic uint64_t posted_serial; /* the same: another thread has ended it */
    _Atomic lp_ref billed;          /* of a struct lp_billed for each frame; 0: nothing was billed yet */
    uint8_t reserved[28];
    struct lp_frame frames[LP_STACK_DEPTH];
};

/* What of blocked_ns and preempted_ns of a frame's node belongs to the open entry with that serial. */
struct lp_billed {
    _Atomic uint64_t serial, blocked_ns, preempted_ns;
    uint8_t reserved[8];
};

/* One thread's area. Outlives the thread; a later thread may take the slot over. */
struct lp_slot {
    _Atomic lp_ref older; /* next in the image's list */
    lp_ref root;
    _Atomic lp_ref last_stack; /* head of the list of its stacks, the thread's own being the last */
    _Atomic lp_ref name;
    _Atomic uint64_t tid;
    _Atomic uint32_t alive;
    _Atomic uint32_t wait_source; /* enum lp_wait_source, the best that any thread of the slot had */
    uint8_t reserved[32];
};

struct lp_name {
    uint32_t len;
    uint32_t hash;
    char bytes[]; /* WTF-8; not terminated */
};

/* Rows of one kind that are not in a file yet, the newest overwriting the oldest. One thread puts, another takes. The rows
   follow in the lines after this one. See image/ring.h. */
struct lp_ring {
    _Atomic uint64_t taken;  /* rows put so far */
    _Atomic uint64_t passed; /* of these, rows that are in the file or lost */
    _Atomic uint64_t filed;  /* rows in the file */
    uint32_t capacity, row_bytes;
    uint8_t reserved[32];
};

enum lp_ring_kind { LP_RING_PROCESS, LP_RING_GPU, LP_RINGS };

struct lp_stamp {
    uint64_t realtime_ns, monotonic_ns, boottime_ns;
};

enum lp_trouble {
    LP_TROUBLE_FAILED_FLUSHES,
    LP_TROUBLE_CLOCK_JUMPS,
    LP_TROUBLE_FOLDED_DEPTH,
    LP_TROUBLE_FOLDED_PATHS,
    LP_TROUBLE_IMAGE_FULL,
    LP_TROUBLE_LOST_COUNTERS,
    LP_TROUBLE_FOREIGN_EXITS,
    LP_TROUBLE_LOST_EXITS,
    LP_TROUBLE_UNPLACED_CPU_NS, /* no count: nanoseconds */
    LP_TROUBLE_FAILED_CALLBACKS,
    LP_TROUBLE_FAILED_SAMPLES,
    LP_TROUBLE_UNREAD_IO,
    LP_TROUBLE_GPU_TIMEOUTS,
    LP_TROUBLE_UNNAMED,
    LP_TROUBLE_REFUSED_NAMES,
    LP_TROUBLE_COUNTER_OVERFLOWS,
    LP_TROUBLE_SAMPLED_OVERLAPS,
    LP_TROUBLE_KINDS
};

/* How a process ended: in header.ended, by whoever could tell; 0: nobody could. The status is that of wait(2). */
#define LP_END_KNOWN 0x80000000u

/* Of the file, taken with fcntl(F_OFD_SETLK): by the owner for as long as its image is open, and by who adopts it. */
enum lp_image_lock { LP_LOCK_OWNER = 0, LP_LOCK_ADOPTER = 1 };

/* At offset 0. Identity is written before the file gets a name and never changes. */
struct lp_header {
    /* Up to folder, and with struct lp_name, this is so in every version from 6 on: whose image it is can be told by all. */
    char magic[8];
    uint32_t version, layout;                       /* layout: checksum of the sizes above */
    _Atomic uint64_t run_dir_device, run_dir_inode; /* of run_dir as the owner last found it; 0: not yet */
    _Atomic uint64_t run_dir_id;                    /* its directory_id; 0: none, or not yet */
    lp_ref run_dir;                                 /* name: absolute path */
    lp_ref folder;                                  /* name: "workers/<host>" below it */
    uint64_t pid, parent_pid, pid_namespace, time_namespace, process_start_ticks;
    char boot_id[40];
    struct lp_stamp started;
    int64_t rank, index;  /* of the launch; of its role. -1: none */
    uint64_t snapshot_ns; /* the flush interval; 0: none */
    /* When the owner last showed life outside its phases. */
    _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC */
    _Atomic uint64_t heartbeat_realtime_ns, heartbeat_boottime_ns;
    _Atomic uint64_t used;   /* bytes handed out */
    _Atomic uint64_t shared; /* bytes that are in the file; less than used once private memory had to serve */
    _Atomic uint64_t flushes;
    _Atomic uint64_t troubles[LP_TROUBLES];
    /* Bytes that the profiler itself has moved in this process: chars of system calls, bytes of the block layer. */
    _Atomic uint64_t own_read_chars, own_write_chars, own_read_bytes, own_write_bytes;
    _Atomic uint32_t own_io_unknown; /* how often it could not be told what they were */
    /* Of the process, at the last flush. 0: not measured. */
    _Atomic uint64_t peak_rss_bytes, pss_bytes;
    _Atomic lp_ref rings[LP_RINGS]; /* of struct lp_ring; 0: no row yet */
    _Atomic lp_ref gpus;            /* name: JSON text of the devices; 0: none, or not yet looked */
    _Atomic lp_ref last_slot;
    lp_ref facts;                  /* name: JSON text of the unchanging facts */
    lp_ref worker, run_id;         /* names: w_<run>_<pid>_<uuid8>, and the run's id as it was given */
    lp_ref role;                   /* name; 0: empty */
    struct lp_stamp closed_at;     /* valid once closed */
    _Atomic uint32_t closed;       /* the owner records no more, and writes its last file */
    _Atomic uint32_t file_is_last; /* and has written it */
    _Atomic uint32_t ended;        /* LP_END_KNOWN and a status; written by others than the owner too */
    uint32_t measure_cpu;
    _Atomic uint32_t cpu_mode, wall_source; /* enum lp_cpu_mode, enum lp_wall_source */
};

static_assert(sizeof(struct lp_core) == LP_LINE, "a node's figures are one cache line");
static_assert(sizeof(struct lp_node) == 6 * LP_LINE, "layout");
static_assert(offsetof(struct lp_node, octaves) == 2 * LP_LINE, "layout");
static_assert(sizeof(struct lp_octave) == LP_LINE, "layout");
static_assert(sizeof(struct lp_counter) == LP_LINE, "layout");
static_assert(sizeof(struct lp_frame) == LP_LINE, "layout");
static_assert(sizeof(struct lp_stack) == (1 + LP_STACK_DEPTH) * LP_LINE, "layout");
static_assert(sizeof(struct lp_slot) == LP_LINE, "layout");
static_assert(sizeof(struct lp_extra) == LP_LINE, "layout");
static_assert(sizeof(struct lp_billed) * 2 == LP_LINE, "layout");
static_assert(sizeof(struct lp_ring) == LP_LINE, "layout");
static_assert(sizeof(struct lp_header) <= 1024, "layout");
static_assert(offsetof(struct lp_header, version) == 8 && offsetof(struct lp_header, layout) == 12 &&
                  offsetof(struct lp_header, run_dir_device) == 16 && offsetof(struct lp_header, run_dir_inode) == 24 &&
                  offsetof(struct lp_header, run_dir_id) == 32 && offsetof(struct lp_header, run_dir) == 40 &&
                  offsetof(struct lp_name, bytes) == 8,
              "of all versions");
static_assert(LP_APART % LP_LINE == 0, "layout");
static_assert(LP_TROUBLE_KINDS <= LP_TROUBLES, "layout");

#define LP_IMAGE_LAYOUT                                                                                                \
    ((uint32_t)(sizeof(struct lp_header) * 31 + sizeof(struct lp_node) * 37 + sizeof(struct lp_stack) * 41 +           \
                sizeof(struct lp_slot) * 43 + sizeof(struct lp_counter) * 47 + sizeof(struct lp_extra) * 53 +          \
                sizeof(struct lp_ring) * 59 + sizeof(struct lp_billed) * 61 + offsetof(struct lp_header, last_slot)))

/* The owner's side. */
struct lp_image {
    char *base;          /* reserved range; the header stands at its beginning */
    size_t reserved;     /* its length */
    _Atomic size_t size; /* bytes usable so far */
    pthread_mutex_t grow_lock;
    unsigned refused;       /* requests for more since it could not grow; guarded by grow_lock */
    int fd;                 /* of the file; -1: private memory only */
    uint64_t inode, device; /* of fd, to know it again: the host may have closed it and reused the number */
    char path[256];         /* "" if private */
};

/* Makes an empty image of this process. worker names the file. Shared memory that cannot be had makes a private image
   (image->fd is then -1). Returns 0, or -1 if not even private memory could be had. */
int lp_image_create(struct lp_image *image, const char *worker);
/* Gives the file its name; what was written before is seen whole by others. No-op for a private image. */
void lp_image_publish(struct lp_image *image);
/* Hands out zeroed lines; 0 if there is no room and none can be made. Takes a lock only to grow. Thread-safe. */
lp_ref lp_image_alloc(struct lp_image *image, size_t bytes);
/* The same, LP_APART from everything else: for what one thread writes all the time. */
lp_ref lp_image_alloc_apart(struct lp_image *image, size_t bytes);
/* Whether somebody has removed the file, or closed its descriptor, under us. */
bool lp_image_is_lost(const struct lp_image *image);
/* Gives such an image a file again, with all that it holds. To be called while no thread begins to write; one that is in
   the middle of it is waited for a few milliseconds, and what it writes in the end is not lost. Where no file can be had,
   it goes on as private memory. */
void lp_image_restore(struct lp_image *image);
/* Lets go of the lock: whoever comes may adopt the file. */
void lp_image_abandon(struct lp_image *image);
/* Removes the file and the mapping. */
void lp_image_destroy(struct lp_image *image);
/* Removes the file but keeps the memory readable and writable for threads that are still inside. */
void lp_image_unlink(struct lp_image *image);
/* In a forked child: lets go of the parent's image by mapping zero pages over it, so that no later store can reach
   the parent. Async-signal-safe. */
void lp_image_forget(struct lp_image *image);

static inline void *lp_image_at(const struct lp_image *image, lp_ref ref)
{
    return image->base + (size_t)ref * LP_LINE;
}

static inline struct lp_header *lp_image_header(const struct lp_image *image)
{
    return (struct lp_header *)(void *)image->base;
}

static inline void lp_image_trouble(const struct lp_image *image, enum lp_trouble kind)
{
    atomic_fetch_add_explicit(&lp_image_header(image)->troubles[kind], 1, memory_order_relaxed);
}

/* Takes a lock of the file open at fd; false if another has it. Lasts until its open file description is closed. */
bool lp_image_lock(int fd, enum lp_image_lock which);
bool lp_image_is_locked(int fd, enum lp_image_lock which);

/* The owner lives now. */
static inline void lp_image_beat(const struct lp_image *image, const struct lp_stamp *now)
{
    struct lp_header *header = lp_image_header(image);
    atomic_store_explicit(&header->heartbeat_realtime_ns, now->realtime_ns, memory_order_relaxed);
    atomic_store_explicit(&header->heartbeat_boottime_ns, now->boottime_ns, memory_order_relaxed);
    atomic_store_explicit(&header->heartbeat_ns, now->monotonic_ns, memory_order_relaxed);
}

/* "/dev/shm/lineprofiler-<uid>"; returns size or more if it does not fit. */
int lp_image_folder(char *path, size_t size);
/* A descriptor of that folder, which is made if need be and asked for; -1 unless it is a real directory that only this
   user can enter. */
int lp_image_open_folder(bool make);

#endif

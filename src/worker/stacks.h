/*
 * worker/stacks: what is open in the workers of this machine that live, read from their images.
 *
 * A picture for people who look at a run that hangs: of each thread the stacks with something open on them - its own and
 * one for each task - and when it last finished anything. Owners go on while they are read. A stack is therefore read
 * twice, and what is shown of it is the entries that were in both readings, from the outside in: an entry's serial never
 * comes again, so all of them were open together between the two. What is deeper, and changes faster than it can be
 * read, is left out.
 *
 * Reads with pread, never maps, never waits for anybody, and disturbs no owner. A damaged image shows less, or nonsense,
 * in bounded time and memory.
 *
 * Must not know: what the kernel says of the threads; files; how it is shown.
 */
#ifndef LP_WORKER_STACKS_H
#define LP_WORKER_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lp_run_place;

/* WTF-8 of any content; not NUL-terminated. Owned by the struct lp_stacks that it was reached from, like all below. */
struct lp_stacks_text {
    const char *bytes;
    size_t len;
};

struct lp_stacks_frame {
    struct lp_stacks_text name;
    uint64_t open_ns;
};

/* Whether a stack is the one that its thread is running now. Of frameworks that tell no beginnings of steps (trio,
   greenlets) it is the one that was at the thread's last boundary. Unknown where no CPU time is measured. */
enum lp_stacks_runs { LP_STACKS_SUSPENDED, LP_STACKS_RUNNING, LP_STACKS_NOT_KNOWN };

/* A stack with something open. */
struct lp_stacks_stack {
    struct lp_stacks_frame *frames; /* from the outside in; at least one, or skips */
    size_t n_frames;
    uint64_t quiet_ns; /* since anything was entered or finished here */
    enum lp_stacks_runs runs;
    bool task;  /* of a task or greenlet; else of the thread outside them */
    bool skips; /* inside the last frame an entry is open that is not measured, being sampled, nor anything in it */
};

struct lp_stacks_thread {
    struct lp_stacks_text name; /* empty: not known */
    uint64_t tid;
    struct lp_stacks_stack *stacks; /* the thread's own first */
    size_t n_stacks;
    uint64_t quiet_ns; /* since anything was entered or finished on this thread, in any task; UINT64_MAX: never */
    /* What ended last. A place on a stack remembers one entry: once another is open there, only when the former ended
       is known, and the path is empty. */
    bool finished;
    uint64_t finished_ago_ns;
    struct lp_stacks_text *finished_path; /* from the outside in */
    size_t finished_depth;
};

struct lp_stacks {
    struct lp_stacks_text worker, run_id, role;
    uint64_t pid, pid_namespace;
    int64_t rank, index;              /* of the launch; of its role. -1: none */
    struct lp_stacks_thread *threads; /* those that live; of a worker that is closing none */
    size_t n_threads, n_ended_threads;
    bool closing;        /* it records no more, and has not written its last file yet */
    uint64_t closing_ns; /* for so long */
    bool partial;        /* it has gone on in private memory: what came after that is not to be seen */
    void *memory;        /* Owned: of everything above. */
};

/* Reads the image that is open at fd. 0, or -1: it cannot be read, or memory is short. */
int lp_stacks_read(struct lp_stacks *stacks, int fd);
void lp_stacks_release(struct lp_stacks *stacks);

/* Calls take for each image of this user whose run directory is the directory run_dir and whose owner lives and has not
   done with it, in no order; what is handed over is take's to release. more: whether there are images of dead owners, or of
   another version, among those of run_dir. Images that cannot be read are passed over. Stops when take returns other than
   0 and returns that; else 0. */
int lp_stacks_each(const struct lp_run_place *run_dir, int (*take)(void *context, const struct lp_stacks *stacks),
                   void *context, bool *more);

#endif

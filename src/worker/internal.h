/*
 * worker/internal: what the files of this room share. Private to worker/.
 */
#ifndef LP_WORKER_INTERNAL_H
#define LP_WORKER_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "base/compiler.h"
#include "base/emit.h"
#include "process/identity.h"
#include "process/stamp.h"
#include "worker/describe.h"
#include "worker/gpu.h"
#include "worker/own_io.h"
#include "worker/sample.h"
#include "worker/worker.h"

#define LP_RUN_ID_BYTES 128
#define LP_ROLE_BYTES (64u << 10)
#define LP_FILE_NAME_BYTES 256

/* Bytes of a dead worker's image: larger ones are not for the memory of a program that trains. */
#define LP_ADOPTS_AT_MOST (8u << 20)

struct lp_keeper {
    pthread_mutex_t lock; /* guards stop to ends_process */
    sem_t wake;           /* something is asked for: to end, or to write */
    pthread_cond_t quiet; /* no call runs any more */
    pthread_t thread;
    bool running;       /* guarded by the worker's life lock: not joined yet */
    bool after_fork;    /* guarded by the same: what starts now is to rest first */
    bool rests;         /* set before it starts */
    bool stop, leaving; /* asked to end; has seen it */
    bool calling;       /* inside options.flushed */
    bool passed_over;   /* the call that runs was waited for by a fork, in vain: the next does not wait */
    bool orphan;        /* the worker is the keeper's to free */
    bool finishes;      /* asked to write the last file before it ends */
    bool finished;      /* has done so */
    bool late;          /* that was waited for in vain */
    bool left;          /* uses the worker no more, but to free it */
    bool ends_process;  /* the same, for ever: what follows are the program's handlers of exit() */
    int finish_errno;   /* of that file */
    uint64_t next_flush_ns, next_sample_ns; /* CLOCK_MONOTONIC; kept over a restart. The keeper's own while it runs. */
    /* For signal handlers: who serves, 0 if none does; writes asked for and done. */
    _Atomic pid_t serves;
    _Atomic uint64_t requested, served;
};

struct lp_worker {
    struct lp_recorder recorder;
    /* Fixed at opening. Strings Owned. */
    char *run_dir, *run_id, *role, *runtime;
    size_t role_len;
    enum lp_run_id_origin run_id_origin;
    bool thread_names, measure_pss;
    bool has_index; /* not inherited by a forked child */
    uint32_t index;
    uint64_t snapshot_ns, sample_ns; /* 0: none */
    bool (*device_memory)(bool ask, uint64_t *allocated_bytes, uint64_t *reserved_bytes);
    size_t (*thread_name)(void *context, char *name, size_t size);
    void *thread_name_context;
    void (*flushed)(void *context);
    void (*flushed_release)(void *context);
    void *flushed_context;
    /* Fixed for the life of a process; made anew in a forked child. */
    struct lp_identity identity;
    char name[LP_FILE_NAME_BYTES];
    char *folder; /* Owned: <run_dir>/workers/<host> */
    char *path;   /* Owned: <folder>/<name>.json */
    /* As last found; 0: not yet. Guarded by flush, but at opening. */
    uint64_t run_dir_device, run_dir_inode, run_dir_id;
    struct timespec run_dir_changed; /* mtime */
    struct lp_stamp started;
    struct lp_sampler sampler; /* the keeper's own */
    struct lp_gpu_watch *gpus; /* Owned; NULL: none. The keeper's own, or of who has stopped it. */

    pthread_mutex_t life;  /* guards opening, closing, the keeper's coming and going; taken before flush */
    pthread_mutex_t flush; /* guards the worker's file; held as long as a file server takes */
    pthread_mutex_t shown; /* guards the coming of another image, against who reads it in memory; taken last */
    struct lp_keeper keeper;
    struct lp_describer describer;
    bool listed;          /* guarded by flush: the run stands in metadata.json, or it is not to be tried again */
    bool foreign;         /* guarded by life: in a forked child, or deferred, before its first phase */
    _Atomic bool closing; /* no call of flushed begins any more */
    bool left_alone;      /* a call was waited for in vain: not again. Guarded by the keeper's lock. */
    _Atomic bool closed;
    int close_errno;        /* guarded by life: of the last write; 0: it was written */
    struct lp_worker *next; /* guarded by the registry in fork.c */
};

/* facts.c */
/* Chooses the worker's name and paths from the identity. 0, or -1 if memory is short. */
int lp_worker_make_names(struct lp_worker *worker);
/* Renders the unchanging part of the document into the image. */
int lp_worker_put_facts(struct lp_worker *worker);
/* text with every byte outside [A-Za-z0-9._-], and a leading dot, replaced by '_'. */
void lp_file_name_from(char *name, size_t size, const char *text);

void lp_emit_command(struct lp_emit *emit, const struct lp_identity *identity);
void lp_emit_stamp(struct lp_emit *emit, const char *key, const struct lp_stamp *stamp);

/* file.c */
int lp_worker_make_folder(struct lp_worker *worker);
/* Notes which directory that is. With flush held, but at opening. Async-signal-safe. */
void lp_worker_note_run_dir(struct lp_worker *worker, const struct stat *run_dir);
/* Writes the document to the worker's file; 0, or -1 with errno set. With flush held. */
int lp_worker_write_locked(struct lp_worker *worker);
int lp_worker_flush(struct lp_worker *worker);
/* The same in a signal handler: unless somebody is at it, or the folder is gone. */
void lp_worker_try_flush(struct lp_worker *worker);
/* Writes the samples that wait, and nothing else. */
void lp_worker_file_samples(struct lp_worker *worker);

/* metadata.c */
/* Adds this run's entry to metadata.json if it has none, and notes which directory it is in. Best effort: 0, or -1 with errno set. With flush held, but at
   opening. */
int lp_metadata_add(struct lp_worker *worker);
/* Adds the provenance, a JSON value, to the run's entry unless it has one. 0, or -1 with errno set; waits half a second for
   others. */
struct lp_metadata_place {
    const char *run_dir, *run_id, *worker; /* Borrowed; the worker's name */
};
int lp_metadata_describe(const struct lp_metadata_place *place, const char *provenance, size_t len);
/* Removes what a worker that died in the middle of that has left beside metadata.json, its lock too. */
void lp_metadata_clean(const char *run_dir, const char *worker);

/* keeper.c */
/* CLOCK_MONOTONIC. Async-signal-safe. */
uint64_t lp_monotonic_ns(void);
void lp_keeper_init(struct lp_keeper *keeper);
void lp_keeper_start_locked(struct lp_worker *worker);
/* Asks the keeper to end and waits for it until that time of CLOCK_MONOTONIC, for a fork. A keeper inside a call is not
   waited for: it may need what the caller holds. On the keeper's own thread nothing is done. */
void lp_keeper_stop_locked(struct lp_worker *worker, const struct timespec *until);
/* Has the keeper write the last file and end, and waits for that until the time; 0, or an errno: ETIMEDOUT if it is late.
   -1: there is none that could. */
int lp_keeper_finish_locked(struct lp_worker *worker, const struct timespec *until);
/* Asks the keeper for a write; 0 if there is none to ask. Both async-signal-safe. */
uint64_t lp_keeper_request(struct lp_worker *worker);
/* Whether that write is done, or will not be. */
bool lp_keeper_has_served(struct lp_worker *worker, uint64_t request);
/* Lets no call of flushed begin any more and waits a bounded time for one that runs. Without any lock. */
void lp_keeper_end_calls(struct lp_worker *worker);
/* Asks the keeper to end after the call that it is in, if any; true if one is to be waited for. late: no longer. */
bool lp_keeper_pause(struct lp_worker *worker, bool late);
/* Of a closed worker: true if no keeper uses it any more; else the keeper frees it in the end. */
bool lp_keeper_let_go(struct lp_worker *worker);
/* Sleeps a little, longer from call to call (*nap_ns is 0 at first); false once that time of CLOCK_MONOTONIC has come. */
bool lp_nap_before(const struct timespec *until, long *nap_ns);

/* fork.c */
/* Before the first recorder of the process is made: from now on forks are attended to. In a child that was cloned
   without fork handlers, makes up for them, so that what is opened there records. */
void lp_fork_prepare(void);
void lp_fork_watch(struct lp_worker *worker);
void lp_fork_unwatch(struct lp_worker *worker);
/* Whether any watched worker is not closed. Without any lock. */
bool lp_fork_any_open(void);

/* close.c */
/* Writes the last file of a worker that is closed and sees to its image; 0 or an errno. */
int lp_worker_finish(struct lp_worker *worker);
/* Says why a write failed, as errno has it; returns LP_WORKER_SYSTEM. */
int lp_worker_explain_write(struct lp_worker *worker, char *message, size_t size);

/* worker.c */
/* Writes the message and returns the status; errno stays. */
int lp_worker_say(char *message, size_t size, int status, const char *format, ...) LP_PRINTF(4, 5);
/* Frees a closed worker that nothing uses. */
void lp_worker_dispose(struct lp_worker *worker);
/* Gives the worker an image with its facts; with life held. 0, or -1. */
int lp_worker_make_image_locked(struct lp_worker *worker);

#endif

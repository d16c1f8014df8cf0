/*
 * worker: a recording process around the recorder - its image, its file, its keeper thread, forks.
 *
 * A worker belongs to one run directory. It is opened with the facts that do not change, gets an image at once, and
 * from the first phase on a keeper thread writes its file every snapshot interval. lp_worker_close writes the last
 * state and makes the rest inert; the memory stays until lp_worker_free, because other threads may still be inside.
 *
 * Locks: `life` guards opening, closing and forking; `flush` guards the file; `shown` whoever reads the image in memory.
 * They are taken in this order, and who holds the last one waits for no file server. The call that follows a flush may
 * use the worker in any way, fork, close and free it included: nobody who holds a lock waits for it, and who closes
 * waits for it a bounded time, before taking any.
 *
 * Must not know: Python, reports.
 */
#ifndef LP_WORKER_WORKER_H
#define LP_WORKER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/record.h"

struct lp_worker;

/* Unless somebody says otherwise: as the benchmarks show, it costs less than one percent at 20,000 switches a second. */
#define LP_WAIT_DETAIL_DEFAULT true
/* Larger processes are not asked for their PSS: it would stop them for too long (process/memory.h). */
#define LP_PSS_RSS_LIMIT (UINT64_C(3) << 29)

enum lp_run_id_origin { LP_RUN_ID_GIVEN, LP_RUN_ID_INHERITED, LP_RUN_ID_OF_LAUNCH, LP_RUN_ID_GENERATED };

struct lp_worker_options {
    const char *run_dir; /* absolute; made if it is not there */
    const char *role;    /* text, role_len bytes of UTF-8 or WTF-8 */
    size_t role_len;
    const char *run_id; /* NUL-terminated; NULL: that of the launch, else one is generated */
    enum lp_run_id_origin run_id_origin;
    const char *runtime; /* e.g. "CPython 3.12.1"; NULL: none */
    bool has_index;
    uint32_t index; /* which of its role this process is, if has_index */
    bool measure_cpu, thread_names;
    bool wait_detail;           /* why threads waited: needs measure_cpu */
    bool measure_pss;           /* at each flush, while the process has less than LP_PSS_RSS_LIMIT bytes */
    bool deferred;              /* no image and no file before the first phase, as in a forked child */
    double snapshot_interval_s; /* 0: no periodic flush */
    double sample_interval_s;   /* 0: no samples */
    /* What a framework's allocator holds of the devices; false: not known. Called at each sample on the keeper's thread, so it
       may wait some milliseconds, but for nothing that the program holds. ask: the program runs on. NULL: not known. */
    bool (*device_memory)(bool ask, uint64_t *allocated_bytes, uint64_t *reserved_bytes);
    /* The calling thread's name, as struct lp_recorder_hooks says; NULL: the kernel's name of the thread. */
    size_t (*thread_name)(void *context, char *name, size_t size);
    void *thread_name_context;
    /* As struct lp_recorder_hooks says. */
    struct lp_thread *(*follow)(void *context, struct lp_thread *thread);
    void *follow_context;
    /* Called on the keeper thread after each periodic flush, whether or not it could be written, and never otherwise.
       No lock of ours is held and the thread has a stack of the usual size. NULL: nothing is called. release is called
       once nothing of the context is used any more: by lp_worker_free, or later by a keeper that it could not wait for;
       not if opening fails. */
    void (*flushed)(void *context);
    void (*flushed_release)(void *context);
    void *flushed_context;
};

enum lp_worker_status {
    LP_WORKER_OK = 0,
    LP_WORKER_NO_MEMORY = -1,
    LP_WORKER_BAD_OPTION = -2, /* message says which */
    LP_WORKER_SYSTEM = -3      /* errno says why, message says what could not be done and where */
};

/* Opens a worker of this process. On failure *worker is NULL and message holds one line. Makes the run directory, with
   what is missing above it, and proves that it can be written. */
int lp_worker_open(struct lp_worker **worker, const struct lp_worker_options *options, char *message,
                   size_t message_size);

/* What the hot path needs: valid until lp_worker_free. */
struct lp_recorder *lp_worker_recorder(struct lp_worker *worker);

/* In a forked child: whether it is the parent's, for nothing has been recorded here yet. Also if it is deferred. Thread-safe. */
bool lp_worker_is_parents(struct lp_worker *worker);

/* Writes the complete state to the worker's file now. Thread-safe. LP_WORKER_OK or LP_WORKER_SYSTEM (errno; counted). */
int lp_worker_snapshot(struct lp_worker *worker, char *message, size_t message_size);

/* The same document as the file would hold now, in memory (Owned by the caller, free()); NULL if memory is short.
   Thread-safe. In a closed worker: the last state. In a forked child that has recorded nothing: NULL, errno being 0. */
char *lp_worker_document(struct lp_worker *worker, size_t *len);

/* Stops the keeper, settles what is open, writes the last state, removes the image. Further calls do nothing and return
   what the first did. Thread-safe. In a forked child of a worker that has recorded nothing there: only makes it inert.
   No call of options.flushed begins any more; one that runs is waited for, but no longer than five seconds, and not by
   itself. */
int lp_worker_close(struct lp_worker *worker, char *message, size_t message_size);

/* Lets no call of options.flushed begin any more, and waits for nothing: closing is to come. */
void lp_worker_begin_close(struct lp_worker *worker);
/* Says which of its role a forked child is, -1 for none; without effect once it records, and in its parent. */
void lp_worker_set_child_index(struct lp_worker *worker, int64_t index);

/* Closes if need be and frees. No thread may use the worker or entries of its recorder any more, but for a call of
   options.flushed that still runs: what it uses is then freed when it returns. */
void lp_worker_free(struct lp_worker *worker);

/* Whether closing has begun. For options.flushed, between one thing and the next. */
bool lp_worker_closing(const struct lp_worker *worker);
/* Counts that something called from options.flushed failed. */
void lp_worker_callback_failed(struct lp_worker *worker);

/* Before a fork by a host whose lock the call of options.flushed may need (an interpreter's): stops the keepers of all
   workers and waits until no such call runs on a thread other than this one, but for each at most once and two seconds.
   To be called without that lock. */
void lp_worker_pause_calls(void);

/* After a fork, in the parent: goes on with the keepers that it has stopped. For a host that counts threads in its fork
   handlers: there, where keepers are else started at once, soon is called to see to it. Where nobody does, each goes on at
   its worker's next boundary, of which a program that forks its actors and waits for them meets none for hours. */
void lp_worker_resume(void);
void lp_worker_resume_by(void (*soon)(void));

/* Whether this worker has made its run's entry in metadata.json, and is to say there what the run came from. */
bool lp_worker_describes(const struct lp_worker *worker);
/* What it cannot know by itself, before the first phase; later it does nothing. source_folder: absolute, where the source
   of the program is; NULL: where the program is. packages: names and versions in turn, each ended by NUL; an empty version
   is one that is not known. */
void lp_worker_describe(struct lp_worker *worker, const char *source_folder, const char *packages, size_t packages_len);

/* Borrowed; they change in a forked child at its first phase. */
/* Adds "key":"note" to what metadata.json says of the worker's run, if it says nothing of that key. 0, or -1 with errno:
   it could not be written, or is no file as we write it (EINVAL), or was locked by another for seconds (EBUSY). */
int lp_metadata_note(struct lp_worker *worker, const char *key, const char *note);

const char *lp_worker_name(const struct lp_worker *worker); /* w_<run>_<pid>_<uuid8> */
const char *lp_worker_run_id(const struct lp_worker *worker);
const char *lp_worker_run_dir(const struct lp_worker *worker);
const char *lp_worker_path(const struct lp_worker *worker); /* of its file */
/* The same as snprintf would write it; also while another thread of a forked child is at its first phase. */
size_t lp_worker_copy_path(const struct lp_worker *worker, char *text, size_t size);
bool lp_worker_closed(const struct lp_worker *worker);

#endif

/*
 * The public C interface of liblineprofiler: name regions of your program, read where the time went.
 *
 *     lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "profile", .role = "actor"});
 *     {
 *         LP_PHASE("mcts");          // until the end of the block
 *         LP_COUNT("simulations", 800);
 *     }
 *     lp_close(profiler);
 *
 * then `lineprofiler report profile`. Processes with the same run directory and run id make one run. A child process
 * joins the run of a parent whose profiler is open: it finds it in the environment, which a profiler in Python sets, or
 * by its image in /dev/shm. This library reads the environment and never changes it: to hand a run on to other machines
 * or containers, set LINEPROFILER_PROFILE=1, LINEPROFILER_RUN_DIR and LINEPROFILER_RUN_ID for them. A forked child that
 * goes on with the profiler is a worker of its own in the same run; one that was cloned without fork handlers records
 * nothing until it opens a profiler.
 *
 * Three ways to reach the functions below:
 *   - a program links the library: `pkg-config --cflags --libs lineprofiler`, or CMake's
 *     find_package(lineprofiler), or `python -m lineprofiler config --cflags --libs`;
 *   - an extension module of Python includes <lineprofiler_python.h> instead of this file and links nothing: what it
 *     records stands in the same tree as what Python records;
 *   - any other shared object defines LINEPROFILER_BOUND before it includes this file, links nothing, and calls
 *     lp_bind() with a table that it is given; until then every function does nothing.
 * <lineprofiler.hpp> is the same for C++.
 *
 * Every function may be called at any time: before lp_open, after lp_close, with NULL for a profiler - then it records
 * nothing. None prints, exits, aborts or raises a signal. Unless a function says otherwise, it may be called on any
 * thread, at the same time as any other, and in constructors, destructors and exit handlers; but none in a signal
 * handler, nor between vfork and exec. Costs are of a two-core machine of 2024; `make bench` measures yours.
 *
 * Recording (lp_enter, lp_leave, lp_count) takes no lock and, as long as the thread is not descheduled, makes no system
 * call but one clock reading a millisecond; where the kernel or the C library gives no token for that (docs/c-api.md),
 * one clock reading at each boundary.
 *
 * While a profiler is open, SIGTERM, SIGUSR1 and SIGHUP - unless they are ignored - have a handler that writes the
 * workers' files, for a second at most, and then does what was done before. A handler installed later is left alone;
 * the last lp_close() gives back what was there.
 *
 * What is here stays: symbols keep their versions, structures only grow at their end, and a program that was built with
 * an earlier header goes on working with a later library.
 */
#ifndef LINEPROFILER_H
#define LINEPROFILER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LP_API __attribute__((visibility("default")))

typedef struct lp_profiler lp_profiler;

/* All zeroes asks for the defaults: also a field that is added later. Strings are copied. */
typedef struct lp_options {
    const char *run_dir; /* NULL: $LINEPROFILER_RUN_DIR, else a parent's, else "profile"; made absolute at once */
    const char *role;    /* NULL: $LINEPROFILER_ROLE, else "main" */
    const char *run_id;  /* NULL: $LINEPROFILER_RUN_ID, else that of a parent in the same directory, else a new one */
    int no_cpu;          /* true: measure no CPU time, hence no wait */
    double snapshot_interval_s; /* 0: 30 s; negative: no periodic flush */
    double sample_interval_s;   /* 0: 1 s; negative: none. Both negative: no thread */
    int wait_detail;            /* Why a thread waited, blocked or pushed off its core: 0: as is the default, on;
                                   positive: on; negative: off. Takes a descriptor per thread */
    int measure_pss;   /* true: measure how much memory the process has if shared pages are shared out, when files are
                          written; stops its calls of mmap for up to 30 ms */
    int enabled;       /* positive: record; negative: do not. 0: record if run_dir is given; else as
                          $LINEPROFILER_PROFILE says (empty, 0, false, no, off: no; other texts: yes); else if a
                          profiler is open in a parent process of the same user; else not */
    int thread_names;  /* true: nest the phases of each thread under its name when the run is read */
    int strict_names;  /* true: refuse a second phase whose name has the shape of another's (each run of digits is
                          one '#'): lp_enter records nothing, and lp_error_message() says why */
    int not_installed; /* true: do not become the installed profiler, see lp_installed */
    int has_index;     /* true: reports tell this process from others of its role by index; not for forked children */
    uint32_t index;    /* which of its role this process is */
} lp_options;

/* A name of phases or counters, the same for all profilers of the process, for ever; 0: none. Also holds how a phase of
   that name is measured: see lp_sampled and lp_with. */
typedef uint32_t lp_name;

/* An open entry. Plain data of this library, to be kept by the thread that entered until it leaves. */
typedef struct lp_phase {
    void *thread;
    uint64_t serial;
    uint32_t frame;
    uint32_t name;
    void *extras;
} lp_phase;

/* What a phase measures besides time; to be or-ed, for lp_with. */
#define LP_IO 0x10000000u   /* bytes that the thread moves between enter and leave, as counters; 12 us an entry */
#define LP_SYNC 0x20000000u /* waits at both ends for the CUDA device that is current on the thread, if one is in use */
#define LP_GPU 0x40000000u  /* the time that the device works on what is enqueued meanwhile on lp_use_stream's stream */
#define LP_ASYNC_WORK 0x80000000u /* the phase only hands work to others: reports mark it as such */

/* The functions as a table, for objects that do not link the library. Grows at its end only. */
typedef struct lp_api {
    uint32_t size; /* of this structure, in the library */
    uint32_t reserved;
    const char *(*version)(void);
    lp_profiler *(*open_sized)(const lp_options *options, size_t options_size);
    int (*close)(lp_profiler *profiler);
    int (*snapshot)(lp_profiler *profiler);
    const char *(*error_message)(void);
    int (*is_enabled)(const lp_profiler *profiler);
    lp_profiler *(*installed)(void);
    size_t (*run_dir)(const lp_profiler *profiler, char *text, size_t size);
    size_t (*run_id)(const lp_profiler *profiler, char *text, size_t size);
    size_t (*worker_file)(const lp_profiler *profiler, char *text, size_t size);
    lp_name (*intern_text)(const char *text, size_t len);
    lp_name (*sampled)(lp_name name, double fraction);
    lp_name (*with)(lp_name name, uint32_t flags);
    lp_phase (*enter)(lp_profiler *profiler, lp_name name);
    void (*leave)(lp_phase *phase);
    int (*count)(lp_profiler *profiler, lp_name name, int64_t n);
    size_t (*current)(lp_profiler *profiler, char *text, size_t size);
    void (*name_thread)(const char *name);
    void (*use_stream)(void *stream);
} lp_api;

#ifndef LINEPROFILER_BOUND

/* The library's version, such as "1.2.3". A static text; may be called in a signal handler. */
LP_API const char *lp_version(void);

/* Opens a recorder of this process; options may be NULL. NULL on failure: lp_error_message() says why. Where nothing is to
   be recorded (see options.enabled) it succeeds, and lp_is_enabled() says so. Some milliseconds: makes the run directory,
   proves that it can be written, and maps an image. size: of the caller's lp_options; lp_open fills it in. */
LP_API lp_profiler *lp_open_sized(const lp_options *options, size_t options_size);
/* Writes the last state and makes the profiler inert; it stays a valid argument for ever, which keeps 40 KiB of memory and 256
   MiB of address space. Returns 0, or -1 if the state could not be written; again the same when called again. Waits for a
   flush that is under way. */
LP_API int lp_close(lp_profiler *profiler);
/* Writes the state so far to the worker's file. 0, or -1. About a millisecond, and an fsync. */
LP_API int lp_snapshot(lp_profiler *profiler);
/* Why the calling thread's last failed call failed: one line, "" if none did. Valid until its next failure. */
LP_API const char *lp_error_message(void);
/* Whether phases are recorded: opened to record, and not closed. */
LP_API int lp_is_enabled(const lp_profiler *profiler);
/* The profiler that LP_PHASE and LP_COUNT use: the one that was opened, in C or with install=True in Python, while there
   was none, until it is closed; NULL if there is none. In a forked child, one that is opened before the first phase there
   takes the place of the parent's. 1 ns. */
LP_API lp_profiler *lp_installed(void);

/* Where and what it records: the absolute run directory, the run's id, the path of this process's file. Writes at most size
   bytes with a NUL at the end, as snprintf does, and returns the length of the whole text; 0 if it records nothing. In a
   forked child the last one changes at its first phase. */
LP_API size_t lp_run_dir(const lp_profiler *profiler, char *text, size_t size);
LP_API size_t lp_run_id(const lp_profiler *profiler, char *text, size_t size);
LP_API size_t lp_worker_file(const lp_profiler *profiler, char *text, size_t size);

/* The number of a text of len bytes, UTF-8, NUL included; 0 if it is NULL, empty, longer than a MiB, or beyond the
   65,535th of the process: lp_error_message() says which. 20 ns, a hash and a lock, and 100 ns where threads meet
   there: keep the result. Names built from data are a mistake: give the phase a fixed name and count the varying part. */
LP_API lp_name lp_intern_text(const char *text, size_t len);
/* The same phase, of which one entry in round(1 / fraction) is measured - the first one, and then every so many, for each
   path and thread - and nothing inside the others is; what is measured is scaled, and marked as an estimate. 0 if the
   fraction is not in (0, 1], or name is 0. Takes a lock: keep the result. For lp_enter, not for lp_count. */
LP_API lp_name lp_sampled(lp_name name, double fraction);
/* The same phase, measuring more than time: LP_IO, LP_SYNC, LP_GPU, LP_ASYNC_WORK. 0 if name is 0 or a flag is unknown. */
LP_API lp_name lp_with(lp_name name, uint32_t flags);

/* Opens an entry of the phase `name` below what is open on the calling thread (in Python: in the task that runs on it).
   Name 0, or a number that lp_intern never returned, is no phase of its own: that is counted, as are names that
   strict_names refuses, and the report's caveats say how often. 15 ns; the first entry of a path takes a lock, and the first one of a thread allocates memory. */
LP_API lp_phase lp_enter(lp_profiler *profiler, lp_name name);
/* Closes exactly that entry, once. NULL, or one that is closed, does nothing. Out of order is fine. Belongs on the thread
   that opened it: on another one the entry ends too, but what it used of the CPU is then not known. 15 ns. */
LP_API void lp_leave(lp_phase *phase);
/* Adds n to a counter of the innermost open phase of the calling thread, or of the root. 0, or -1 if the sum would
   leave 64 bits; the counter is then as before, and the report's caveats say how often that was. 4 ns. */
LP_API int lp_count(lp_profiler *profiler, lp_name name, int64_t n);

/* The names of the phases that are open on the calling thread, joined by "/"; "" outside any. Writes at most size bytes
   with a NUL at the end, as snprintf does, and returns the length of the whole text. */
LP_API size_t lp_current(lp_profiler *profiler, char *text, size_t size);
/* Names the calling thread in reports, for options.thread_names, from its next phase on; cut at 63 bytes. NULL or "": the
   kernel's name of the thread again, which else is used, and which this leaves alone. In Python, threading's name counts.
   From the 1,025th name of a process on, each run of digits in one stands as '#'. */
LP_API void lp_name_thread(const char *name);
/* The CUDA stream (a CUstream or cudaStream_t) that LP_SYNC and LP_GPU phases of the calling thread are about, from now
   on; NULL, as at first: the default stream. */
LP_API void lp_use_stream(void *stream);

/* The functions as a table, for lp_bind() in other objects. A static structure. */
LP_API const lp_api *lp_table(void);

#else /* LINEPROFILER_BOUND: the same functions, through a table. */

/* One for all files of the object that includes this. */
__attribute__((weak, visibility("hidden"))) const lp_api *lp_bound_table;

/* Has the functions below go through this table from now on, before other threads use them; NULL: do nothing again. 0, or -1
   if the library behind it is older than this header: the functions are then as before. */
static inline int lp_bind(const lp_api *table)
{
    if (table && table->size < sizeof(lp_api))
        return -1;
    lp_bound_table = table;
    return 0;
}

static inline const char *lp_version(void)
{
    return lp_bound_table ? lp_bound_table->version() : "";
}

static inline lp_profiler *lp_open_sized(const lp_options *options, size_t options_size)
{
    return lp_bound_table ? lp_bound_table->open_sized(options, options_size) : NULL;
}

static inline int lp_close(lp_profiler *profiler)
{
    return lp_bound_table ? lp_bound_table->close(profiler) : 0;
}

static inline int lp_snapshot(lp_profiler *profiler)
{
    return lp_bound_table ? lp_bound_table->snapshot(profiler) : 0;
}

static inline const char *lp_error_message(void)
{
    return lp_bound_table ? lp_bound_table->error_message() : "no lineprofiler is bound: see lp_bind()";
}

static inline int lp_is_enabled(const lp_profiler *profiler)
{
    return lp_bound_table ? lp_bound_table->is_enabled(profiler) : 0;
}

static inline lp_profiler *lp_installed(void)
{
    return lp_bound_table ? lp_bound_table->installed() : NULL;
}

static inline size_t lp_bound_nothing_(char *text, size_t size)
{
    if (text && size)
        text[0] = 0;
    return 0;
}

static inline size_t lp_run_dir(const lp_profiler *profiler, char *text, size_t size)
{
    return lp_bound_table ? lp_bound_table->run_dir(profiler, text, size) : lp_bound_nothing_(text, size);
}

static inline size_t lp_run_id(const lp_profiler *profiler, char *text, size_t size)
{
    return lp_bound_table ? lp_bound_table->run_id(profiler, text, size) : lp_bound_nothing_(text, size);
}

static inline size_t lp_worker_file(const lp_profiler *profiler, char *text, size_t size)
{
    return lp_bound_table ? lp_bound_table->worker_file(profiler, text, size) : lp_bound_nothing_(text, size);
}

static inline lp_name lp_intern_text(const char *text, size_t len)
{
    return lp_bound_table ? lp_bound_table->intern_text(text, len) : 0;
}

static inline lp_name lp_sampled(lp_name name, double fraction)
{
    return lp_bound_table ? lp_bound_table->sampled(name, fraction) : 0;
}

static inline lp_name lp_with(lp_name name, uint32_t flags)
{
    return lp_bound_table ? lp_bound_table->with(name, flags) : 0;
}

static inline lp_phase lp_enter(lp_profiler *profiler, lp_name name)
{
    lp_phase none = {0, 0, 0, 0, 0};
    return lp_bound_table && profiler ? lp_bound_table->enter(profiler, name) : none;
}

static inline void lp_leave(lp_phase *phase)
{
    if (lp_bound_table)
        lp_bound_table->leave(phase);
}

static inline int lp_count(lp_profiler *profiler, lp_name name, int64_t n)
{
    return lp_bound_table && profiler ? lp_bound_table->count(profiler, name, n) : 0;
}

static inline size_t lp_current(lp_profiler *profiler, char *text, size_t size)
{
    return lp_bound_table ? lp_bound_table->current(profiler, text, size) : lp_bound_nothing_(text, size);
}

static inline void lp_name_thread(const char *name)
{
    if (lp_bound_table)
        lp_bound_table->name_thread(name);
}

static inline void lp_use_stream(void *stream)
{
    if (lp_bound_table)
        lp_bound_table->use_stream(stream);
}

#endif

/* See lp_open_sized. */
static inline lp_profiler *lp_open(const lp_options *options)
{
    return lp_open_sized(options, options ? sizeof *options : 0);
}

/* See lp_intern_text. */
static inline lp_name lp_intern(const char *name)
{
    return lp_intern_text(name, name ? __builtin_strlen(name) : 0);
}

/* For the macros: a name that is looked up once. */
static inline lp_name lp_once_(lp_name *place, const char *text, uint32_t flags, double fraction)
{
    lp_name *kept = place, name = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (__builtin_expect(name == 0, 0)) {
        name = lp_intern(text);
        if (!(fraction >= 1 && fraction <= 1)) /* some compilers warn of != */
            name = lp_sampled(name, fraction);
        if (flags)
            name = lp_with(name, flags);
        if (name) /* else nothing is bound yet: threads would fight for the line */
            __atomic_store_n(kept, name, __ATOMIC_RELAXED);
    }
    return name;
}

/* A text that varied would all be booked under the first one. What may vary is a pointer, as a rule. */
#define LP_FIXED_TEXT_SAYS_ "the text must be a literal or __func__; one that varies is for lp_enter or lp_count"
#ifdef __cplusplus
extern "C++" {
template <class T> struct lp_fixed_text_ {
    static constexpr bool yes = false;
};
template <decltype(sizeof(0)) n> struct lp_fixed_text_<char[n]> {
    static constexpr bool yes = true;
};
template <decltype(sizeof(0)) n> struct lp_fixed_text_<const char[n]> {
    static constexpr bool yes = true;
};
}
#define LP_FIXED_TEXT_(text) static_assert(lp_fixed_text_<__typeof__(text)>::yes, LP_FIXED_TEXT_SAYS_)
#else
#define LP_FIXED_TEXT_(text)                                                                                           \
    __extension__ _Static_assert(!__builtin_types_compatible_p(__typeof__(text), char *) &&                            \
                                     !__builtin_types_compatible_p(__typeof__(text), const char *),                    \
                                 LP_FIXED_TEXT_SAYS_)
#endif

#define LP_JOIN_(a, b) a##b
#define LP_PHASE_(text, flags, fraction, number)                                                                       \
    LP_FIXED_TEXT_(text);                                                                                              \
    static lp_name LP_JOIN_(lp_name_, number);                                                                         \
    __attribute__((cleanup(lp_leave), unused)) lp_phase LP_JOIN_(lp_phase_, number) =                                  \
        lp_enter(lp_installed(), lp_once_(&LP_JOIN_(lp_name_, number), text, flags, fraction))
#define LP_PHASE_NUMBERED_(text, flags, fraction, number) LP_PHASE_(text, flags, fraction, number)

/* A phase of the installed profiler, from here to the end of the block, however it is left: also by return, break, goto,
   a C++ exception, and where the program is compiled with -fexceptions by pthread_exit and cancellation; not by longjmp,
   which runs nothing of the blocks that it leaves: the entry then stays open until its thread ends, and what the thread
   enters later stands below it. Where one may be jumped over, keep it beside the jmp_buf, with lp_enter, and lp_leave it
   where the jump lands.
   text: a fixed one, a literal or __func__, for it is looked up at the first time only; a pointer does not compile. For one
   that varies there is lp_enter(lp_installed(), lp_intern(text)). A declaration: to stand in a block, not alone behind an
   `if`. */
#define LP_PHASE(text) LP_PHASE_WITH(text, 0, 1.0)
/* The same with flags of lp_with and the fraction of lp_sampled. */
#define LP_PHASE_WITH(text, flags, fraction) LP_PHASE_NUMBERED_(text, flags, fraction, __COUNTER__)
/* Counts in the installed profiler. A statement. */
#define LP_COUNT(text, n)                                                                                              \
    do {                                                                                                               \
        LP_FIXED_TEXT_(text);                                                                                          \
        static lp_name lp_counter_;                                                                                    \
        (void)lp_count(lp_installed(), lp_once_(&lp_counter_, text, 0, 1.0), n);                                       \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif

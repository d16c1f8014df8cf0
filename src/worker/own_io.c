#include "worker/own_io.h"

#include <string.h>
#include <unistd.h>

#include "base/own_reads.h"
#include "process/own_threads.h"
#include "worker/internal.h"

#define AT_ONCE 16
#define READING_MOST 256u /* chars of /proc/<pid>/io */
#define TAKEN 1u          /* no thread has this number: init is no user of ours */

#define ADD(counter, n) atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed)
#define GET(counter) atomic_load_explicit(&(counter), memory_order_relaxed)
#define SET(counter, n) atomic_store_explicit(&(counter), (n), memory_order_relaxed)

struct counters {
    _Atomic uint64_t read_chars, write_chars, read_bytes, write_bytes;
};

/* Not taken from the heap at its first use, which may be in a signal handler. */
static __thread struct lp_own_io_so_far of_thread __attribute__((tls_model("initial-exec")));
static struct counters sum_moved, sum_by_program;
static _Atomic uint32_t sum_unknown;
static _Atomic uint64_t begun, ended;
/* Of those read in passing, by this process's parent. */
static _Atomic uint64_t inherited_chars, inherited_by_program;

/* What is under way: the thread, and its counters when it began. */
static struct {
    _Atomic uint64_t tid; /* 0: free */
    struct counters before;
} places[AT_ONCE];

static void set(struct counters *counters, const struct lp_io *io)
{
    SET(counters->read_chars, io->read_chars);
    SET(counters->write_chars, io->write_chars);
    SET(counters->read_bytes, io->read_bytes);
    SET(counters->write_bytes, io->write_bytes);
}

static struct lp_io get(const struct counters *counters)
{
    return (struct lp_io){GET(counters->read_chars), GET(counters->write_chars), GET(counters->read_bytes),
                          GET(counters->write_bytes)};
}

static void add(struct lp_io *sum, const struct lp_io *io)
{
    sum->read_chars += io->read_chars;
    sum->write_chars += io->write_chars;
    sum->read_bytes += io->read_bytes;
    sum->write_bytes += io->write_bytes;
}

static struct lp_io difference(const struct lp_io *after, const struct lp_io *before)
{
    return (struct lp_io){after->read_chars - before->read_chars, after->write_chars - before->write_chars,
                          after->read_bytes - before->read_bytes, after->write_bytes - before->write_bytes};
}

static int take_place(const struct lp_io *before)
{
    for (int i = 0; i < AT_ONCE; i++) {
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&places[i].tid, &nobody, TAKEN))
            continue;
        set(&places[i].before, before);
        atomic_store(&places[i].tid, (uint64_t)gettid());
        return i;
    }
    return -1;
}

struct lp_own_io lp_own_io_begin(void)
{
    struct lp_own_io own = {.place = -1};
    atomic_fetch_add(&begun, 1);
    own.cost_chars = lp_io_of_thread(&own.before);
    own.read_in_passing = lp_own_reads_of_thread();
    if (own.cost_chars)
        own.place = take_place(&own.before);
    return own;
}

static void tell(struct lp_header *header, const struct lp_io *moved)
{
    if (!moved) {
        ADD(header->own_io_unknown, 1);
        return;
    }
    ADD(header->own_read_chars, moved->read_chars);
    ADD(header->own_write_chars, moved->write_chars);
    ADD(header->own_read_bytes, moved->read_bytes);
    ADD(header->own_write_bytes, moved->write_bytes);
}

void lp_own_io_tell(struct lp_worker *worker, const struct lp_io *moved)
{
    tell(lp_image_header(&worker->recorder.image), moved);
}

static void note(const struct lp_io *moved)
{
    add(&of_thread.moved, moved);
    ADD(sum_moved.read_chars, moved->read_chars);
    ADD(sum_moved.write_chars, moved->write_chars);
    ADD(sum_moved.read_bytes, moved->read_bytes);
    ADD(sum_moved.write_bytes, moved->write_bytes);
    if (lp_own_thread_is_apart())
        return;
    ADD(sum_by_program.read_chars, moved->read_chars);
    ADD(sum_by_program.write_chars, moved->write_chars);
    ADD(sum_by_program.read_bytes, moved->read_bytes);
    ADD(sum_by_program.write_bytes, moved->write_bytes);
}

void lp_own_io_end(struct lp_worker *worker, const struct lp_own_io *own)
{
    struct lp_io after, moved;
    size_t cost_chars = own->cost_chars ? lp_io_of_thread(&after) : 0;
    if (own->place >= 0) /* first: else it would be seen twice for a moment */
        atomic_store(&places[own->place].tid, 0);
    if (cost_chars) {
        moved = difference(&after, &own->before);
        moved.read_chars += cost_chars - (lp_own_reads_of_thread() - own->read_in_passing);
        note(&moved);
    } else {
        of_thread.unknown++;
        ADD(sum_unknown, 1);
    }
    if (worker)
        lp_own_io_tell(worker, cost_chars ? &moved : NULL);
    atomic_fetch_add(&ended, 1);
}

void lp_own_io_reading(void)
{
    atomic_fetch_add(&sum_moved.read_chars, READING_MOST);
}

void lp_own_io_was_read(struct lp_header *header, size_t read_chars)
{
    of_thread.moved.read_chars += read_chars;
    if (header)
        ADD(header->own_read_chars, read_chars);
    if (!lp_own_thread_is_apart())
        ADD(sum_by_program.read_chars, read_chars);
    ADD(sum_moved.read_chars, (uint64_t)read_chars - READING_MOST);
}

struct lp_own_io_so_far lp_own_io_of_thread(void)
{
    struct lp_own_io_so_far so_far = of_thread;
    so_far.moved.read_chars += lp_own_reads_of_thread();
    return so_far;
}

/* Of who is at something now; false if one of them cannot be asked. */
static bool ask_threads(struct lp_own_io_sum *sum, struct lp_header *header)
{
    uint64_t asked = 0;
    for (int i = 0; i < AT_ONCE && sum->begun != sum->ended; i++) {
        struct lp_io now, before;
        uint64_t tid = atomic_load(&places[i].tid);
        if (tid == 0 || tid == TAKEN)
            continue;
        before = get(&places[i].before);
        lp_own_io_reading();
        size_t cost_chars = lp_io_of_task(&now, tid);
        lp_own_io_was_read(header, cost_chars);
        if (!cost_chars)
            return false;
        now = difference(&now, &before);
        add(&sum->under_way, &now);
        asked++;
    }
    return asked == sum->begun - sum->ended;
}

bool lp_own_io_sum(struct lp_own_io_sum *sum, struct lp_header *header)
{
    *sum = (struct lp_own_io_sum){.ended = atomic_load(&ended), .begun = atomic_load(&begun)};
    bool known = ask_threads(sum, header);
    sum->moved = get(&sum_moved);
    sum->moved.read_chars += lp_own_reads() - atomic_load(&inherited_chars);
    add(&sum->moved, &sum->under_way);
    sum->by_program = get(&sum_by_program);
    sum->by_program.read_chars += lp_own_reads_of_program() - atomic_load(&inherited_by_program);
    add(&sum->by_program, &sum->under_way);
    sum->unknown = GET(sum_unknown);
    return known;
}

bool lp_own_io_rested(const struct lp_own_io_sum *before, const struct lp_own_io_sum *after)
{
    return before->begun == after->begun && before->ended == after->ended &&
           memcmp(&before->under_way, &after->under_way, sizeof before->under_way) == 0;
}

void lp_own_io_after_fork(void)
{
    lp_own_thread_set_apart(false); /* a keeper that forks is the child's own thread */
    lp_own_threads_after_fork();
    set(&sum_moved, &(struct lp_io){0});
    set(&sum_by_program, &(struct lp_io){0});
    atomic_store(&inherited_by_program, lp_own_reads_of_program());
    atomic_store(&inherited_chars, lp_own_reads());
    for (int i = 0; i < AT_ONCE; i++)
        atomic_store(&places[i].tid, 0);
    atomic_store(&sum_unknown, 0);
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
}

#include "worker/own_io.h"

#include "worker/internal.h"

#define ADD(counter, n) atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed)
#define GET(counter) atomic_load_explicit(&(counter), memory_order_relaxed)

static _Atomic uint64_t sum_read_chars, sum_write_chars, sum_read_bytes, sum_write_bytes;
static _Atomic uint32_t sum_unknown;
static _Atomic uint64_t begun, ended;

struct lp_own_io lp_own_io_begin(void)
{
    struct lp_own_io own;
    atomic_fetch_add(&begun, 1);
    own.cost_chars = lp_io_of_thread(&own.before);
    return own;
}

static void add(struct lp_header *header, const struct lp_io *moved)
{
    ADD(header->own_read_chars, moved->read_chars);
    ADD(header->own_write_chars, moved->write_chars);
    ADD(header->own_read_bytes, moved->read_bytes);
    ADD(header->own_write_bytes, moved->write_bytes);
    ADD(sum_read_chars, moved->read_chars);
    ADD(sum_write_chars, moved->write_chars);
    ADD(sum_read_bytes, moved->read_bytes);
    ADD(sum_write_bytes, moved->write_bytes);
}

void lp_own_io_end(struct lp_worker *worker, const struct lp_own_io *own)
{
    struct lp_io after;
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    size_t cost_chars = own->cost_chars ? lp_io_of_thread(&after) : 0;
    if (cost_chars == 0) {
        ADD(header->own_io_unknown, 1);
        ADD(sum_unknown, 1);
    } else {
        add(header, &(struct lp_io){after.read_chars - own->before.read_chars + cost_chars,
                                    after.write_chars - own->before.write_chars,
                                    after.read_bytes - own->before.read_bytes,
                                    after.write_bytes - own->before.write_bytes});
    }
    atomic_fetch_add(&ended, 1);
}

void lp_own_io_add(struct lp_header *header, size_t read_chars)
{
    ADD(header->own_read_chars, read_chars);
    ADD(sum_read_chars, read_chars);
}

struct lp_own_io_sum lp_own_io_sum(void)
{
    return (struct lp_own_io_sum){
        {GET(sum_read_chars), GET(sum_write_chars), GET(sum_read_bytes), GET(sum_write_bytes)}, GET(sum_unknown)};
}

uint64_t lp_own_io_ended(void)
{
    return atomic_load(&ended);
}

bool lp_own_io_rested(uint64_t ended_before)
{
    return atomic_load(&begun) == ended_before;
}

void lp_own_io_after_fork(void)
{
    sum_read_chars = sum_write_chars = sum_read_bytes = sum_write_bytes = 0;
    sum_unknown = 0;
    begun = ended = 0;
}

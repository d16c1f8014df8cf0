#include "worker/phase_io.h"

#include <string.h>

static __thread uint64_t own_chars;

/* The reading itself is the profiler's, in the process's figures too. */
static size_t read_thread(struct lp_recorder *recorder, struct lp_io *io)
{
    size_t cost_chars = lp_io_of_thread(io);
    struct lp_header *header = lp_image_header(&recorder->image);
    atomic_fetch_add_explicit(&header->own_read_chars, cost_chars, memory_order_relaxed);
    return cost_chars;
}

void lp_phase_io_begin(struct lp_recorder *recorder, struct lp_phase_io *io)
{
    io->thread = lp_thread_id();
    io->own_chars = own_chars;
    io->cost_chars = read_thread(recorder, &io->before);
    own_chars += io->cost_chars;
}

static void count(struct lp_thread *thread, struct lp_node *node, const char *name, uint64_t before, uint64_t after)
{
    lp_name_id id = lp_name_intern(name, strlen(name));
    if (id != LP_NAME_NONE)
        lp_thread_count_at(thread, node, id, after > before ? (int64_t)(after - before) : 0);
}

void lp_phase_io_end(struct lp_recorder *recorder, const struct lp_phase_io *io, struct lp_thread *thread,
                     struct lp_node *node)
{
    struct lp_io after;
    uint64_t ours = own_chars - io->own_chars;
    size_t cost_chars = node && io->cost_chars && io->thread == lp_thread_id() ? read_thread(recorder, &after) : 0;
    if (cost_chars == 0) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_UNREAD_IO);
        return;
    }
    own_chars += cost_chars;
    count(thread, node, "io_read_bytes", io->before.read_bytes, after.read_bytes);
    count(thread, node, "io_write_bytes", io->before.write_bytes, after.write_bytes);
    count(thread, node, "io_read_chars", io->before.read_chars + ours, after.read_chars);
    count(thread, node, "io_write_chars", io->before.write_chars, after.write_chars);
}

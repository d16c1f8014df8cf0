#include "worker/phase_io.h"

#include <string.h>

/* The reading itself is the profiler's, in the process's figures too. */
static size_t read_thread(struct lp_recorder *recorder, struct lp_io *io)
{
    lp_own_io_reading();
    size_t cost_chars = lp_io_of_thread(io);
    lp_own_io_was_read(lp_image_header(&recorder->image), cost_chars);
    return cost_chars;
}

void lp_phase_io_begin(struct lp_recorder *recorder, struct lp_phase_io *io)
{
    io->thread = lp_thread_id();
    io->own = lp_own_io_of_thread();
    io->is_known = read_thread(recorder, &io->before) != 0;
}

static void count(struct lp_thread *thread, struct lp_node *node, const char *name, uint64_t before, uint64_t after)
{
    lp_name_id id = lp_name_intern(name, strlen(name));
    if (id != LP_NAME_NONE)
        lp_thread_count_at(thread, node, id, after > before ? (int64_t)(after - before) : 0);
}

/* Entries that were open when this process was forked are its parent's. */
static bool is_of_this_process(const struct lp_recorder *recorder, const struct lp_thread *thread)
{
    return lp_record_is_here() && thread->generation == recorder->generation;
}

/* False: the bytes are not known. */
static bool read_end(struct lp_recorder *recorder, const struct lp_phase_io *io, struct lp_own_io_so_far *own,
                     struct lp_io *after)
{
    if (!io->is_known || io->thread != lp_thread_id())
        return false;
    *own = lp_own_io_of_thread();
    return own->unknown == io->own.unknown && read_thread(recorder, after) != 0;
}

void lp_phase_io_end(struct lp_recorder *recorder, const struct lp_phase_io *io, struct lp_thread *thread,
                     struct lp_node *node)
{
    struct lp_io after;
    struct lp_own_io_so_far own;
    if (!is_of_this_process(recorder, thread))
        return;
    if (!node || !read_end(recorder, io, &own, &after)) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_UNREAD_IO);
        return;
    }
    const struct lp_io *before = &io->before, *was = &io->own.moved, *is = &own.moved;
    count(thread, node, "io_read_bytes", before->read_bytes + is->read_bytes - was->read_bytes, after.read_bytes);
    count(thread, node, "io_write_bytes", before->write_bytes + is->write_bytes - was->write_bytes, after.write_bytes);
    count(thread, node, "io_read_chars", before->read_chars + is->read_chars - was->read_chars, after.read_chars);
    count(thread, node, "io_write_chars", before->write_chars + is->write_chars - was->write_chars, after.write_chars);
}

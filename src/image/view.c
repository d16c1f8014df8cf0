#include "image/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"

#define TRIES 64
#define LARGEST_IMAGE (1u << 30)

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

void lp_view_own(struct lp_view *view, const struct lp_image *image)
{
    view->base = image->base;
    view->size = atomic_load(&lp_image_header(image)->used);
    view->fd = -1;
    view->copy = NULL;
}

static bool read_at(int fd, char *bytes, size_t size, size_t offset)
{
    while (size > 0) {
        ssize_t n = pread(fd, bytes, size, (off_t)offset);
        if (n <= 0)
            return false;
        bytes += n;
        offset += (size_t)n;
        size -= (size_t)n;
    }
    return true;
}

static bool header_fits(const struct lp_header *header, size_t size)
{
    return memcmp(header->magic, LP_IMAGE_MAGIC, sizeof header->magic) == 0 && header->version == LP_IMAGE_VERSION &&
           header->layout == LP_IMAGE_LAYOUT && header->boot_id[sizeof header->boot_id - 1] == '\0' &&
           GET(header->used) >= sizeof *header && size >= sizeof *header;
}

int lp_view_foreign(struct lp_view *view, int fd)
{
    struct stat st;
    *view = (struct lp_view){.fd = fd};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct lp_header) ||
        st.st_size > LARGEST_IMAGE)
        return -1;
    size_t size = (size_t)st.st_size;
    view->copy = aligned_alloc(LP_LINE, (size + LP_LINE - 1) / LP_LINE * LP_LINE);
    if (!view->copy)
        return -1;
    view->base = view->copy;
    view->size = size;
    if (!read_at(fd, view->copy, size, 0) || !header_fits(lp_view_header(view), size)) {
        lp_view_release(view);
        return -1;
    }
    uint64_t used = GET(lp_view_header(view)->used);
    view->size = used < size ? (size_t)used : size;
    return 0;
}

void lp_view_release(struct lp_view *view)
{
    free(view->copy);
    *view = (struct lp_view){.fd = -1};
}

const void *lp_view_at(const struct lp_view *view, lp_ref ref, size_t bytes)
{
    size_t offset = (size_t)ref * LP_LINE;
    if (ref == 0 || bytes > view->size || offset > view->size - bytes)
        return NULL;
    return view->base + offset;
}

const struct lp_name *lp_view_name(const struct lp_view *view, lp_ref ref)
{
    const struct lp_name *name = lp_view_at(view, ref, sizeof *name);
    if (!name || name->len > LP_NAME_LIMIT || !lp_view_at(view, ref, sizeof *name + name->len))
        return NULL;
    return name;
}

static bool take_core(const struct lp_core *core, struct lp_core_copy *copy)
{
    uint32_t done = atomic_load_explicit(&core->done, memory_order_acquire);
    copy->calls = GET(core->calls);
    copy->wall_ns = GET(core->wall_ns);
    copy->cpu_ns = GET(core->cpu_ns);
    copy->nocpu_wall_ns = GET(core->nocpu_wall_ns);
    copy->child_wall_ns = GET(core->child_wall_ns);
    copy->late_wall_ns = GET(core->late_wall_ns);
    copy->stride = GET(core->stride);
    LP_FENCE(memory_order_acquire);
    return done == GET(core->begun);
}

/* A line of a foreign image as two equal readings show it. */
static bool reread_line(const struct lp_view *view, const void *line, void *fresh)
{
    char again[LP_LINE];
    size_t offset = (size_t)((const char *)line - view->base);
    return read_at(view->fd, fresh, LP_LINE, offset) && read_at(view->fd, again, LP_LINE, offset) &&
           memcmp(fresh, again, LP_LINE) == 0;
}

void lp_view_core(const struct lp_view *view, const struct lp_node *node, struct lp_core_copy *copy)
{
    for (int i = 0; i < TRIES; i++) {
        struct lp_core line;
        const struct lp_core *core = &node->core;
        if (view->fd >= 0) {
            if (!reread_line(view, core, &line))
                continue;
            core = &line;
        }
        if (take_core(core, copy)) {
            copy->torn = false;
            return;
        }
    }
    take_core(&node->core, copy);
    copy->torn = true;
}

static bool take_counter(const struct lp_counter *counter, struct lp_counter_copy *copy)
{
    uint32_t done = atomic_load_explicit(&counter->done, memory_order_acquire);
    copy->sum = GET(counter->sum);
    copy->calls = GET(counter->calls);
    copy->min = GET(counter->min);
    copy->max = GET(counter->max);
    LP_FENCE(memory_order_acquire);
    return done == GET(counter->begun);
}

void lp_view_counter(const struct lp_view *view, const struct lp_counter *counter, struct lp_counter_copy *copy)
{
    for (int i = 0; i < TRIES; i++) {
        struct lp_counter line;
        const struct lp_counter *source = counter;
        if (view->fd >= 0) {
            if (!reread_line(view, counter, &line))
                continue;
            source = &line;
        }
        if (take_counter(source, copy))
            return;
    }
    take_counter(counter, copy);
}

bool lp_view_frame_holds(const struct lp_view *view, const struct lp_frame *frame, uint64_t serial)
{
    uint64_t fresh;
    if (view->fd >= 0)
        return read_at(view->fd, (char *)&fresh, sizeof fresh, (size_t)((const char *)&frame->serial - view->base)) &&
               fresh == serial;
    return atomic_load_explicit(&frame->serial, memory_order_acquire) == serial;
}

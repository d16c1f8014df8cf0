#include "image/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

#define TRIES 64
/* One's own writer may have been switched away inside a change; it is waited for, a tenth of a second at most. */
#define PATIENT_TRIES 2000
#define PATIENCE_NS 50000
#define LARGEST_IMAGE (1u << 30)
#define COPY_TRIES 16
#define FIRST_KNOWN_VERSION 6u /* of which the beginning of the header is that of ours */

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

void lp_view_own(struct lp_view *view, const struct lp_image *image)
{
    view->base = image->base;
    view->size = image->reserved; /* a ref that is to be found there is mapped, also if it came after us */
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

static bool header_fits(const struct lp_header *header)
{
    return memcmp(header->magic, LP_IMAGE_MAGIC, sizeof header->magic) == 0 && header->version == LP_IMAGE_VERSION &&
           header->layout == LP_IMAGE_LAYOUT && header->boot_id[sizeof header->boot_id - 1] == '\0';
}

/* How much of the file means anything: what was handed out, of what is in the file. */
static size_t meaningful_bytes(const struct lp_header *header, off_t file_bytes)
{
    uint64_t size = (uint64_t)file_bytes, used = GET(header->used), shared = GET(header->shared);
    size = used < size ? used : size;
    size = shared < size ? shared : size;
    return size < LARGEST_IMAGE ? (size_t)size : LARGEST_IMAGE;
}

/* Makes the copy longer: from what it has to size. */
static bool copy_up_to(struct lp_view *view, size_t size)
{
    char *longer = aligned_alloc(LP_LINE, (size + LP_LINE - 1) / LP_LINE * LP_LINE);
    if (!longer)
        return false;
    if (view->copy)
        memcpy(longer, view->copy, view->size);
    free(view->copy);
    view->base = view->copy = longer;
    size_t from = view->size;
    view->size = size;
    return read_at(view->fd, longer + from, size - from, from);
}

enum lp_view_peeked lp_view_peek(struct lp_header *header, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !read_at(fd, (char *)header, sizeof *header, 0) ||
        memcmp(header->magic, LP_IMAGE_MAGIC, sizeof header->magic) != 0)
        return LP_VIEW_NO_IMAGE;
    if (header_fits(header))
        return LP_VIEW_FITS;
    bool is_damaged = header->version == LP_IMAGE_VERSION && header->layout == LP_IMAGE_LAYOUT;
    return is_damaged || header->version < FIRST_KNOWN_VERSION ? LP_VIEW_NO_IMAGE : LP_VIEW_OTHER_VERSION;
}

int lp_view_foreign(struct lp_view *view, int fd)
{
    struct stat st;
    struct lp_header header;
    *view = (struct lp_view){.fd = fd};
    /* While we read, the owner may link what lies beyond. Lists grow at their heads: if that were missing, so would be
       all of the list. So the end is looked up again until nothing was added. */
    for (int i = 0;; i++) {
        if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !read_at(fd, (char *)&header, sizeof header, 0) ||
            !header_fits(&header))
            break;
        size_t size = meaningful_bytes(&header, st.st_size);
        if (view->copy && (size <= view->size || i >= COPY_TRIES))
            return 0;
        if (size < sizeof header || !copy_up_to(view, size) || !header_fits(lp_view_header(view)))
            break;
    }
    lp_view_release(view);
    return -1;
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

bool lp_view_text(const struct lp_view *view, lp_ref ref, char *text, size_t size)
{
    const struct lp_name *name = lp_view_name(view, ref);
    if (!name || name->len >= size || memchr(name->bytes, '\0', name->len))
        return false;
    memcpy(text, name->bytes, name->len);
    text[name->len] = '\0';
    return true;
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

/* A line of a foreign image as it is now, in a copy that the sequence words can vouch for. The kernel copies upwards; on
   x86, which keeps loads in order, they do their work in the copy as in the original. Elsewhere two readings must agree,
   which those of a busy node seldom do. */
static bool reread_line(const struct lp_view *view, const void *line, void *fresh)
{
    size_t offset = (size_t)((const char *)line - view->base);
    if (!read_at(view->fd, fresh, LP_LINE, offset))
        return false;
#if defined(__x86_64__)
    return true;
#else
    char again[LP_LINE];
    return read_at(view->fd, again, LP_LINE, offset) && memcmp(fresh, again, LP_LINE) == 0;
#endif
}

/* Whether to try once more after so many tries. */
static bool try_again(const struct lp_view *view, int tries)
{
    const struct timespec pause = {.tv_nsec = PATIENCE_NS};
    if (tries < TRIES)
        return true;
    if (view->fd >= 0 || tries >= TRIES + PATIENT_TRIES)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

void lp_view_core(const struct lp_view *view, const struct lp_node *node, struct lp_core_copy *copy)
{
    struct lp_core line;
    const struct lp_core *core = &node->core;
    copy->torn = true;
    for (int i = 0; copy->torn && try_again(view, i); i++) {
        bool whole = view->fd < 0 || reread_line(view, node, &line);
        if (view->fd >= 0 && whole)
            core = &line;
        copy->torn = !take_core(core, copy) || !whole;
    }
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
    struct lp_counter line;
    const struct lp_counter *source = counter;
    bool torn = true;
    for (int i = 0; torn && try_again(view, i); i++) {
        bool whole = view->fd < 0 || reread_line(view, counter, &line);
        if (view->fd >= 0 && whole)
            source = &line;
        torn = !take_counter(source, copy) || !whole;
    }
}

/* An octave as the file has it now, also one that was made after the copy. */
static const struct lp_octave *fresh_octave(const struct lp_view *view, lp_ref ref, struct lp_octave *room)
{
    return ref && read_at(view->fd, (char *)room, sizeof *room, (size_t)ref * LP_LINE) ? room : NULL;
}

void lp_view_hist(const struct lp_view *view, const struct lp_node *node, bool fresh, struct lp_hist_copy *copy)
{
    lp_view_octaves(view, node->octaves, fresh, copy);
}

void lp_view_octaves(const struct lp_view *view, const _Atomic lp_ref *octaves, bool fresh, struct lp_hist_copy *copy)
{
    struct lp_octave line;
    _Atomic lp_ref fresh_refs[LP_HIST_USED_OCTAVES];
    const _Atomic lp_ref *refs = octaves;
    size_t offset = (size_t)((const char *)octaves - view->base);
    fresh = fresh && view->fd >= 0 && read_at(view->fd, (char *)fresh_refs, sizeof fresh_refs, offset);
    if (fresh)
        refs = fresh_refs;
    memset(copy, 0, sizeof *copy);
    for (unsigned i = 0; i < LP_HIST_USED_OCTAVES; i++) {
        lp_ref ref = atomic_load_explicit(&refs[i], memory_order_acquire);
        const struct lp_octave *octave = fresh ? fresh_octave(view, ref, &line) : lp_view_at(view, ref, sizeof *octave);
        for (unsigned j = 0; octave && j < LP_HIST_PER_OCTAVE; j++) {
            uint64_t count = GET(octave->counts[j]);
            copy->counts[i * LP_HIST_PER_OCTAVE + j] = count;
            copy->total += count;
        }
    }
}

bool lp_view_frame_holds(const struct lp_view *view, const struct lp_frame *frame, uint64_t serial)
{
    uint64_t fresh;
    LP_FENCE(memory_order_acquire); /* what was read of the frame was read before */
    if (view->fd >= 0)
        return read_at(view->fd, (char *)&fresh, sizeof fresh, (size_t)((const char *)&frame->serial - view->base)) &&
               fresh == serial;
    return atomic_load_explicit(&frame->serial, memory_order_acquire) == serial;
}

#include "worker/owner.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/other.h"
#include "process/stamp.h"

#define SILENT_INTERVALS 3
#define USUAL_INTERVAL_NS 30000000000u /* of one that never flushes by itself */

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

static bool shares_our_clocks(const struct lp_header *header)
{
    return header->time_namespace == lp_time_namespace();
}

/* Where one of the two is not known, for want of a descriptor, they may be the same. */
static bool is_of_other_boot(const struct lp_header *header)
{
    char boot_id[sizeof header->boot_id];
    lp_boot_id_read(boot_id, sizeof boot_id);
    return boot_id[0] && header->boot_id[0] && strcmp(header->boot_id, boot_id) != 0;
}

uint64_t lp_owner_silent_ns(const struct lp_header *header)
{
    struct lp_stamp now = lp_stamp_now();
    if (is_of_other_boot(header))
        return UINT64_MAX;
    bool shared = shares_our_clocks(header);
    uint64_t now_ns = shared ? now.boottime_ns : now.realtime_ns;
    uint64_t seen_ns = shared ? GET(header->heartbeat_boottime_ns) : GET(header->heartbeat_realtime_ns);
    return now_ns > seen_ns ? now_ns - seen_ns : 0;
}

/* A suspended machine was silent for nobody. */
static bool is_silent(const struct lp_header *header)
{
    uint64_t interval_ns = header->snapshot_ns ? header->snapshot_ns : USUAL_INTERVAL_NS;
    uint64_t now_ns = lp_stamp_now().monotonic_ns, seen_ns = GET(header->heartbeat_ns);
    uint64_t silent_ns = now_ns > seen_ns ? now_ns - seen_ns : 0;
    if (!shares_our_clocks(header))
        silent_ns = lp_owner_silent_ns(header);
    return silent_ns / SILENT_INTERVALS > interval_ns;
}

/* It is the same process, but holds no lock: its descriptor was closed, or it is another program by now. */
static bool still_records(const struct lp_header *header, int fd)
{
    struct stat st;
    if (GET(header->closed) || fstat(fd, &st) != 0)
        return false;
    switch (lp_process_maps_file(header->pid, st.st_dev, st.st_ino)) {
    case LP_MAPS_IT:
        return true;
    case LP_MAPS_NOT:
        return false;
    case LP_MAPS_UNKNOWN:
        break;
    }
    return !is_silent(header);
}

bool lp_owner_lives(const struct lp_header *header, int fd)
{
    struct lp_process_ref owner = {header->pid, header->pid_namespace, header->process_start_ticks};
    if (is_of_other_boot(header))
        return false;
    bool locked = lp_image_is_locked(fd, LP_LOCK_OWNER);
    switch (lp_process_lives(&owner)) {
    case LP_PROCESS_LIVES:
        return locked || still_records(header, fd);
    case LP_PROCESS_GONE:
        return false;
    case LP_PROCESS_UNKNOWN:
        break;
    }
    return locked || !is_silent(header);
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* The latest beginning or end, also by another thread, of which the frames have a trace. */
static uint64_t last_edge_ns(const struct lp_view *view, const struct lp_slot *slot, size_t *left)
{
    const struct lp_stack *stack;
    uint64_t latest = 0;
    lp_ref ref = GET(slot->last_stack);
    for (; *left > 0 && (stack = lp_view_at(view, ref, sizeof *stack)); ref = GET(stack->older), --*left) {
        for (unsigned i = 0; i < LP_STACK_DEPTH; i++) {
            const struct lp_frame *frame = &stack->frames[i];
            latest = later(latest, GET(frame->start_wall_ns));
            latest = later(latest, later(GET(frame->end_wall_ns), GET(frame->posted_wall_ns)));
        }
    }
    return latest;
}

/* The latest moment of which the image has any trace. */
static uint64_t last_seen_ns(const struct lp_view *view)
{
    const struct lp_header *header = lp_view_header(view);
    uint64_t latest = GET(header->heartbeat_ns);
    const struct lp_slot *slot;
    size_t left = view->size / sizeof *slot, stacks_left = view->size / sizeof(struct lp_stack);
    for (lp_ref ref = GET(header->last_slot); left-- && (slot = lp_view_at(view, ref, sizeof *slot));
         ref = GET(slot->older))
        latest = later(latest, last_edge_ns(view, slot, &stacks_left));
    return latest;
}

/* The owner writes its heartbeat meanwhile: two readings that are alike are of one moment. */
static bool read_heartbeat(const struct lp_view *view, struct lp_header *header)
{
    struct lp_header again;
    return pread(view->fd, header, sizeof *header, 0) == sizeof *header &&
           pread(view->fd, &again, sizeof again, 0) == sizeof again && GET(header->heartbeat_ns) != 0 &&
           GET(header->heartbeat_ns) == GET(again.heartbeat_ns) &&
           GET(header->heartbeat_realtime_ns) == GET(again.heartbeat_realtime_ns) &&
           GET(header->heartbeat_boottime_ns) == GET(again.heartbeat_boottime_ns);
}

struct lp_stamp lp_owner_now(const struct lp_view *view)
{
    struct lp_header header;
    struct lp_stamp now = lp_stamp_now();
    if (shares_our_clocks(lp_view_header(view)) || !read_heartbeat(view, &header))
        return now;
    uint64_t since_ns = now.realtime_ns - GET(header.heartbeat_realtime_ns);
    now.monotonic_ns = GET(header.heartbeat_ns) + since_ns;
    now.boottime_ns = GET(header.heartbeat_boottime_ns) + since_ns;
    return now;
}

struct lp_stamp lp_owner_seen(const struct lp_view *view, bool lives)
{
    const struct lp_header *header = lp_view_header(view);
    if (lives)
        return lp_owner_now(view);
    if (GET(header->closed))
        return header->closed_at;
    struct lp_stamp seen = {GET(header->heartbeat_realtime_ns), GET(header->heartbeat_ns),
                            GET(header->heartbeat_boottime_ns)};
    uint64_t since_ns = last_seen_ns(view) - seen.monotonic_ns;
    seen.monotonic_ns += since_ns;
    seen.realtime_ns += since_ns;
    seen.boottime_ns += since_ns;
    return seen;
}

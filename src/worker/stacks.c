#include "worker/stacks.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/view.h"
#include "worker/owner.h"
#include "worker/place.h"
#include "worker/walk.h"

#define CHUNK_BYTES 65536u
#define STACK_TRIES 8  /* for two readings between which a stack stood still */
#define THREAD_TRIES 4 /* for a thread that ends or begins in its slot meanwhile */
#define TEXT_BYTES (1u << 20)

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* ---- memory: handed out from chunks, freed all at once ---------------------------------- */

struct chunk {
    struct chunk *older;
    size_t used, size;
    max_align_t bytes[];
};

/* One image being read. */
struct reading {
    const struct lp_view *view;
    struct lp_stacks *stacks;
    uint64_t now_ns;                /* by the owner's clock */
    size_t slots_left, stacks_left; /* as many as the image can hold: a damaged one may go in circles */
    size_t text_left;               /* bytes of names */
    bool no_memory;
};

static void *take(struct reading *reading, size_t bytes)
{
    struct chunk *chunk = reading->stacks->memory;
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct chunk *another = malloc(sizeof *another + size);
        if (!another) {
            reading->no_memory = true;
            return NULL;
        }
        *another = (struct chunk){.older = chunk, .size = size};
        reading->stacks->memory = chunk = another;
    }
    char *at = (char *)chunk->bytes + chunk->used;
    chunk->used += bytes;
    return at;
}

void lp_stacks_release(struct lp_stacks *stacks)
{
    for (struct chunk *chunk = stacks->memory, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    *stacks = (struct lp_stacks){0};
}

/* ---- names ------------------------------------------------------------------------------ */

/* False: there is none, or this image has shown more text than it can hold. */
static bool copy_name(struct reading *reading, lp_ref ref, struct lp_stacks_text *text)
{
    const struct lp_name *name = lp_view_name(reading->view, ref);
    *text = (struct lp_stacks_text){"", 0};
    if (!name || name->len > reading->text_left)
        return false;
    char *bytes = take(reading, name->len);
    if (!bytes)
        return false;
    reading->text_left -= name->len;
    memcpy(bytes, name->bytes, name->len);
    *text = (struct lp_stacks_text){bytes, name->len};
    return true;
}

/* The names from the root to a node; a length of 0 if it is none. */
static size_t copy_path(struct reading *reading, lp_ref ref, struct lp_stacks_text **path)
{
    const struct lp_node *nodes[LP_STACK_DEPTH], *node;
    size_t depth = 0;
    *path = NULL;
    for (; (node = lp_view_at(reading->view, ref, sizeof *node)) && node->parent != 0; ref = node->parent) {
        if (depth == LP_STACK_DEPTH)
            return 0;
        nodes[depth++] = node;
    }
    if (!node || depth == 0 || !(*path = take(reading, depth * sizeof **path)))
        return 0;
    for (size_t i = 0; i < depth; i++)
        if (!copy_name(reading, nodes[depth - 1 - i]->name, &(*path)[i]))
            return 0;
    return depth;
}

/* ---- stacks ----------------------------------------------------------------------------- */

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static uint64_t since(const struct reading *reading, uint64_t from_ns)
{
    return reading->now_ns > from_ns ? reading->now_ns - from_ns : 0;
}

/* An object of the view as the file has it now. */
static bool read_anew(const struct lp_view *view, const void *object, void *copy, size_t size)
{
    return pread(view->fd, copy, size, (const char *)object - view->base) == (ssize_t)size;
}

/* Two readings of a stack, one after the other. */
struct twice {
    struct lp_stack first, second;
};

/* Nothing was entered or left between the readings: an entry that came and went has left its end behind. */
static bool stood_still(const struct twice *twice)
{
    bool same = GET(twice->first.depth) == GET(twice->second.depth);
    for (uint32_t i = 0; same && i < LP_STACK_DEPTH; i++) {
        const struct lp_frame *first = &twice->first.frames[i], *second = &twice->second.frames[i];
        same = GET(first->serial) == GET(second->serial) && GET(first->end_wall_ns) == GET(second->end_wall_ns);
    }
    return same;
}

static bool read_twice(const struct lp_view *view, const struct lp_stack *stack, struct twice *twice)
{
    if (!read_anew(view, stack, &twice->second, sizeof twice->second))
        return false;
    for (int i = 0; i < STACK_TRIES; i++) {
        twice->first = twice->second;
        if (!read_anew(view, stack, &twice->second, sizeof twice->second))
            return false;
        if (stood_still(twice))
            break;
    }
    return true;
}

enum frame_kind {
    FRAME_OPEN,    /* in both readings */
    FRAME_ENDED,   /* out of order, under others that are open, or by another thread */
    FRAME_CHANGING /* entered or left in between */
};

static enum frame_kind kind_of_frame(const struct twice *twice, uint32_t i)
{
    const struct lp_frame *first = &twice->first.frames[i], *second = &twice->second.frames[i];
    uint64_t serial = GET(second->serial);
    if (GET(first->serial) != serial)
        return FRAME_CHANGING;
    if (serial == 0)
        return GET(second->state) == LP_FRAME_ENDED ? FRAME_ENDED : FRAME_CHANGING;
    return GET(second->posted_serial) == serial ? FRAME_ENDED : FRAME_OPEN;
}

static uint32_t depth_of(const struct lp_stack *stack)
{
    uint32_t depth = GET(stack->depth);
    return depth < LP_STACK_DEPTH ? depth : LP_STACK_DEPTH;
}

/* What is open on the stack; 0 frames if nothing is. */
static size_t copy_frames(struct reading *reading, const struct twice *twice, struct lp_stacks_frame *frames)
{
    const struct lp_node *node;
    uint32_t depth = depth_of(&twice->first), again = depth_of(&twice->second);
    size_t n = 0;
    depth = depth < again ? depth : again;
    for (uint32_t i = 0; i < depth; i++) {
        const struct lp_frame *frame = &twice->second.frames[i];
        enum frame_kind kind = kind_of_frame(twice, i);
        if (kind == FRAME_CHANGING)
            break;
        if (kind == FRAME_ENDED)
            continue;
        node = lp_view_at(reading->view, GET(frame->node), sizeof *node);
        if (!node || !copy_name(reading, node->name, &frames[n].name))
            break;
        frames[n++].open_ns = since(reading, GET(frame->start_wall_ns));
    }
    return n;
}

/* The last end on a thread. node is 0 where the frame holds another entry by now. */
struct last_end {
    uint64_t at_ns;
    lp_ref node;
};

/* Of one frame. A thread that is just entering has written the node of what it enters, then the depth, then the serial:
   a frame above the depth that holds nothing is not believed. */
static void look_for_end(const struct twice *twice, uint32_t i, struct last_end *last)
{
    const struct lp_frame *frame = &twice->second.frames[i];
    uint64_t end_ns = GET(frame->end_wall_ns), serial = GET(frame->serial);
    bool same = GET(twice->first.frames[i].serial) == serial && GET(twice->first.frames[i].node) == GET(frame->node);
    bool rests = serial == 0 && (i >= depth_of(&twice->second) || GET(frame->state) == LP_FRAME_ENDED);
    if (serial != 0 && GET(frame->posted_serial) == serial) {
        end_ns = GET(frame->posted_wall_ns);
        rests = true;
    }
    if (end_ns <= last->at_ns)
        return;
    last->at_ns = end_ns;
    last->node = rests && same ? GET(frame->node) : 0;
}

/* The latest boundary on a stack. */
static uint64_t last_edge_ns(const struct lp_stack *stack)
{
    uint64_t latest = 0;
    for (uint32_t i = 0; i < LP_STACK_DEPTH; i++) {
        const struct lp_frame *frame = &stack->frames[i];
        latest = later(latest, GET(frame->start_wall_ns));
        latest = later(latest, later(GET(frame->end_wall_ns), GET(frame->posted_wall_ns)));
    }
    return latest;
}

/* One thread being read. */
struct thread_reading {
    struct reading *reading;
    struct lp_stacks_thread *thread;
    struct last_end last;
    uint64_t edge_ns;
    size_t room;
    bool task_runs;
};

static bool add_stack(struct thread_reading *of, const struct lp_stacks_stack *stack)
{
    struct lp_stacks_thread *thread = of->thread;
    if (thread->n_stacks == of->room) {
        size_t room = of->room ? 2 * of->room : 4;
        struct lp_stacks_stack *more = take(of->reading, room * sizeof *more);
        if (!more)
            return false;
        if (of->room)
            memcpy(more, thread->stacks, thread->n_stacks * sizeof *more);
        thread->stacks = more;
        of->room = room;
    }
    thread->stacks[thread->n_stacks++] = *stack;
    return true;
}

static void read_stack(struct thread_reading *of, const struct lp_stack *at)
{
    struct twice twice;
    struct lp_stacks_frame frames[LP_STACK_DEPTH];
    struct reading *reading = of->reading;
    if (!read_twice(reading->view, at, &twice))
        return;
    const struct lp_stack *now = &twice.second;
    uint64_t edge_ns = last_edge_ns(now), skipped = GET(now->skip_serial);
    reading->now_ns = lp_owner_now(reading->view).monotonic_ns;
    of->edge_ns = later(of->edge_ns, edge_ns);
    for (uint32_t i = 0; i < LP_STACK_DEPTH; i++)
        look_for_end(&twice, i, &of->last);
    struct lp_stacks_stack stack = {
        .task = GET(now->older) != 0,
        .n_frames = copy_frames(reading, &twice, frames),
        .quiet_ns = since(reading, edge_ns),
        .runs = GET(now->cpu) & LP_STACK_RUNS ? LP_STACKS_RUNNING : LP_STACKS_SUSPENDED,
        .skips = skipped != 0 && GET(now->posted_serial) != skipped && GET(twice.first.skip_serial) == skipped,
    };
    of->task_runs = of->task_runs || (stack.task && stack.runs == LP_STACKS_RUNNING);
    if (stack.n_frames == 0 && !stack.skips)
        return;
    stack.frames = take(reading, (stack.n_frames + 1) * sizeof *frames);
    if (!stack.frames)
        return;
    memcpy(stack.frames, frames, stack.n_frames * sizeof *frames);
    add_stack(of, &stack);
}

/* The thread's own stack is always marked as running: tasks run inside what it has open. */
static void settle_runs(struct thread_reading *of)
{
    struct lp_stacks_thread *thread = of->thread;
    bool known = lp_view_header(of->reading->view)->measure_cpu;
    for (size_t i = 0; i < thread->n_stacks; i++) {
        struct lp_stacks_stack *stack = &thread->stacks[i];
        if (!known)
            stack->runs = LP_STACKS_NOT_KNOWN;
        else if (!stack->task)
            stack->runs = of->task_runs ? LP_STACKS_SUSPENDED : LP_STACKS_RUNNING;
    }
}

/* Where tasks go on, what is open around them is not stuck. */
static void put_own_first(struct lp_stacks_thread *thread)
{
    size_t last = thread->n_stacks - 1;
    if (thread->n_stacks == 0 || thread->stacks[last].task)
        return;
    struct lp_stacks_stack own = thread->stacks[last];
    own.quiet_ns = thread->quiet_ns;
    memmove(&thread->stacks[1], &thread->stacks[0], last * sizeof own);
    thread->stacks[0] = own;
}

static void read_stacks(struct reading *reading, const struct lp_slot *slot, struct lp_stacks_thread *thread)
{
    struct thread_reading of = {.reading = reading, .thread = thread};
    const struct lp_stack *stack;
    lp_ref ref = GET(slot->last_stack);
    *thread = (struct lp_stacks_thread){.tid = GET(slot->tid), .quiet_ns = UINT64_MAX};
    copy_name(reading, GET(slot->name), &thread->name);
    for (; (stack = lp_view_at(reading->view, ref, sizeof *stack)) && reading->stacks_left > 0;
         ref = GET(stack->older)) {
        reading->stacks_left--;
        read_stack(&of, stack);
    }
    if (of.edge_ns != 0)
        thread->quiet_ns = since(reading, of.edge_ns);
    thread->finished = of.last.at_ns != 0;
    thread->finished_ago_ns = thread->finished ? since(reading, of.last.at_ns) : 0;
    if (of.last.node != 0)
        thread->finished_depth = copy_path(reading, of.last.node, &thread->finished_path);
    settle_runs(&of);
    put_own_first(thread);
}

static bool is_same_thread(const struct lp_slot *a, const struct lp_slot *b)
{
    return GET(a->tid) == GET(b->tid) && GET(a->alive) == GET(b->alive);
}

/* ---- threads and workers ------------------------------------------------------------------ */

static void read_slot(struct reading *reading, const struct lp_slot *at)
{
    struct lp_slot before, after;
    struct lp_stacks *stacks = reading->stacks;
    struct lp_stacks_thread *thread = &stacks->threads[stacks->n_threads];
    if (!read_anew(reading->view, at, &after, sizeof after))
        return;
    for (int i = 0; i < THREAD_TRIES; i++) {
        before = after;
        if (!GET(before.alive)) {
            stacks->n_ended_threads++;
            return;
        }
        read_stacks(reading, &before, thread);
        if (read_anew(reading->view, at, &after, sizeof after) && is_same_thread(&before, &after)) {
            stacks->n_threads++;
            return;
        }
    }
}

static size_t count_slots(const struct lp_view *view, size_t limit)
{
    const struct lp_slot *slot;
    size_t n = 0;
    for (lp_ref ref = GET(lp_view_header(view)->last_slot); n < limit && (slot = lp_view_at(view, ref, sizeof *slot));
         ref = GET(slot->older))
        n++;
    return n;
}

static void read_threads(struct reading *reading)
{
    const struct lp_view *view = reading->view;
    const struct lp_slot *slot;
    size_t n = count_slots(view, reading->slots_left);
    reading->stacks->threads = take(reading, (n + 1) * sizeof *reading->stacks->threads);
    lp_ref ref = GET(lp_view_header(view)->last_slot);
    for (; reading->stacks->threads && n > 0 && (slot = lp_view_at(view, ref, sizeof *slot)); ref = GET(slot->older)) {
        read_slot(reading, slot);
        n--;
    }
}

static int read_view(struct lp_stacks *stacks, const struct lp_view *view)
{
    const struct lp_header *header = lp_view_header(view);
    struct reading reading = {
        .view = view,
        .stacks = stacks,
        .now_ns = lp_owner_now(view).monotonic_ns,
        .slots_left = view->size / sizeof(struct lp_slot),
        .stacks_left = view->size / sizeof(struct lp_stack) * THREAD_TRIES,
        .text_left = view->size + TEXT_BYTES,
    };
    stacks->pid = header->pid;
    stacks->pid_namespace = header->pid_namespace;
    stacks->rank = header->rank;
    stacks->index = header->index;
    stacks->closing = GET(header->closed);
    if (stacks->closing && reading.now_ns > header->closed_at.monotonic_ns)
        stacks->closing_ns = reading.now_ns - header->closed_at.monotonic_ns;
    stacks->partial = GET(header->shared) < GET(header->used);
    copy_name(&reading, header->worker, &stacks->worker);
    copy_name(&reading, header->run_id, &stacks->run_id);
    copy_name(&reading, header->role, &stacks->role);
    if (!stacks->closing) /* else what is left by now is not noted any more */
        read_threads(&reading);
    return reading.no_memory ? -1 : 0;
}

int lp_stacks_read(struct lp_stacks *stacks, int fd)
{
    struct lp_view view;
    *stacks = (struct lp_stacks){0};
    if (lp_view_foreign(&view, fd) != 0)
        return -1;
    int result = read_view(stacks, &view);
    lp_view_release(&view);
    if (result != 0)
        lp_stacks_release(stacks);
    return result;
}

/* ---- those of a run directory --------------------------------------------------------------- */

struct search {
    const struct lp_run_place *run_dir;
    int (*take)(void *context, const struct lp_stacks *stacks);
    void *context;
    bool *more;
};

#define BEGINNING_BYTES 32768u

/* Whether it is that of a worker of this run. Most images in the folder may be others', so that only the beginning is
   read, where an image's first names are. */
static bool is_wanted(const struct search *search, const struct lp_header *header, const struct lp_image_file *file)
{
    char worker[256];
    struct lp_view view = {.fd = file->fd};
    if (!lp_image_may_belong(header, file->fd, search->run_dir))
        return false;
    lp_ref last = header->run_dir > header->worker ? header->run_dir : header->worker;
    size_t end = (size_t)last * LP_LINE + sizeof(struct lp_name) + PATH_MAX;
    bool early = end < BEGINNING_BYTES && (view.copy = aligned_alloc(LP_LINE, BEGINNING_BYTES));
    ssize_t n = early ? pread(file->fd, view.copy, BEGINNING_BYTES, 0) : -1;
    if (n >= (ssize_t)sizeof *header) {
        view.base = view.copy;
        view.size = (size_t)n;
    } else {
        free(view.copy);
        if (lp_view_foreign(&view, file->fd) != 0)
            return false;
    }
    bool wanted = lp_image_belongs(&view, file->name, search->run_dir) &&
                  lp_image_worker(&view, file->name, worker, sizeof worker);
    lp_view_release(&view);
    return wanted;
}

static int look_at(void *context, const struct lp_image_file *file)
{
    const struct search *search = context;
    struct lp_header header;
    struct lp_stacks stacks;
    enum lp_view_peeked peeked = lp_view_peek(&header, file->fd);
    if (peeked == LP_VIEW_OTHER_VERSION)
        *search->more |= lp_image_of_other_version_belongs(&header, file->name, file->fd, search->run_dir);
    if (peeked != LP_VIEW_FITS || !is_wanted(search, &header, file))
        return 0;
    if (!lp_owner_lives(&header, file->fd)) {
        *search->more = true;
        return 0;
    }
    if ((GET(header.closed) && GET(header.file_is_last)) || lp_stacks_read(&stacks, file->fd) != 0)
        return 0;
    return search->take(search->context, &stacks);
}

int lp_stacks_each(const struct lp_run_place *run_dir, int (*take_one)(void *context, const struct lp_stacks *stacks),
                   void *context, bool *more)
{
    struct search search = {.run_dir = run_dir, .take = take_one, .context = context, .more = more};
    *more = false;
    return lp_images_walk(O_RDONLY, look_at, &search);
}

/* The hot path. What it costs beyond the recorder: finding the worker's recorder, one look at whether the name is known,
   and one at whether a host wants to say which task runs. */
#include "api/profiler.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "worker/extras.h"

#define FLAGS_MASK (LP_IO | LP_SYNC | LP_GPU | LP_ASYNC_WORK)
#define PHASE_MASK (LP_STRIDES_LIMIT * (LP_NAME_MASK + 1) - 1)

/* The flags of the public header are those of worker/extras.h, higher up. */
#define FLAGS_SHIFT 28
_Static_assert(LP_IO >> FLAGS_SHIFT == LP_WITH_IO && LP_SYNC >> FLAGS_SHIFT == LP_WITH_SYNC &&
                   LP_GPU >> FLAGS_SHIFT == LP_WITH_GPU && LP_ASYNC_WORK >> FLAGS_SHIFT == LP_WITH_ASYNC_WORK,
               "flags");

static __thread void *stream_in_use;

static void explain_no_name(const char *text, size_t len)
{
    if (lp_names_are_full())
        lp_api_failed("no more than %u names: '%.*s' and every further one is counted in the phase around it, at the "
                      "top level in none; "
                      "give the phase a fixed name and count the varying part",
                      LP_NAMES_LIMIT - 1, (int)(len < 64 ? len : 64), text);
    else if (lp_name_kept_bytes(text, len) > LP_NAME_LIMIT)
        lp_api_failed("a name may have %u bytes, where each that is no UTF-8 counts as three, not %zu", LP_NAME_LIMIT,
                      lp_name_kept_bytes(text, len));
    else
        lp_api_failed("no memory for a name");
}

lp_name lp_intern_text(const char *text, size_t len)
{
    lp_name name = LP_NAME_NONE;
    if (!text || len == 0)
        lp_api_failed("a name must not be empty");
    else if (len > LP_NAME_LIMIT)
        lp_api_failed("a name may have %u bytes, not %zu", LP_NAME_LIMIT, len);
    else if ((name = lp_name_intern(text, len)) == LP_NAME_NONE)
        explain_no_name(text, len);
    return name;
}

lp_name lp_sampled(lp_name name, double fraction)
{
    if (!(fraction > 0 && fraction <= 1)) {
        lp_api_failed("the fraction of entries to measure must be over 0 and at most 1, not %g", fraction);
        return LP_NAME_NONE;
    }
    return name == LP_NAME_NONE ? name : (name & (FLAGS_MASK | LP_NAME_MASK)) | lp_fraction_bits(fraction);
}

lp_name lp_with(lp_name name, uint32_t flags)
{
    if (flags & ~FLAGS_MASK) {
        lp_api_failed("%#x is no flag of a phase: there are LP_IO, LP_SYNC, LP_GPU and LP_ASYNC_WORK",
                      flags & ~FLAGS_MASK);
        return LP_NAME_NONE;
    }
    return name == LP_NAME_NONE ? name : name | flags;
}

void lp_use_stream(void *stream)
{
    stream_in_use = stream;
}

/* The calling thread's side, on the strand of what the host says runs on it. */
LP_ALWAYS_INLINE struct lp_thread *thread_of(struct lp_recorder *recorder)
{
    struct lp_thread *thread = lp_thread_self(recorder);
    if (LP_UNLIKELY(recorder->hooks.follow != NULL) && thread)
        return recorder->hooks.follow(recorder->hooks.follow_context, thread);
    return thread;
}

static bool admit(const lp_profiler *profiler, lp_name_id name)
{
    struct lp_shape_verdict verdict = lp_recorder_admit(profiler->recorder, name, profiler->strict_names);
    if (!verdict.refused)
        return true;
    if (lp_thread_self(profiler->recorder))
        lp_image_trouble(&profiler->recorder->image, LP_TROUBLE_REFUSED_NAMES);
    lp_api_failed("phase name '%.64s' shares the shape '%.64s' with another one, which strict_names refuses: use a "
                  "fixed name, and count the varying part",
                  lp_name_text(name).bytes, lp_name_text(verdict.shape).bytes);
    return false;
}

/* What an entry measures besides time. Kept by the thread's side of its recorder and never given back to the heap, so that
   a copy of an lp_phase that was left before finds nothing of its own here, but no stranger's memory either. */
struct measuring {
    struct lp_kept kept;
    _Atomic uint64_t serial; /* of the entry; 0: free; else TAKEN */
    uint32_t frame;
    struct lp_extras extras;
};

#define TAKEN UINT64_MAX /* somebody is at it */

static bool take(struct measuring *measuring, uint64_t serial)
{
    return atomic_compare_exchange_strong(&measuring->serial, &serial, TAKEN);
}

static void put_back(struct measuring *measuring)
{
    atomic_store(&measuring->serial, 0);
}

/* Of an entry that has ended without being left, as those do that are open when their thread ends. */
static bool take_abandoned(struct lp_thread *thread, struct measuring *measuring)
{
    uint64_t serial = atomic_load(&measuring->serial);
    const struct lp_entry entry = {thread, serial, measuring->frame};
    if (serial == TAKEN || (serial != 0 && lp_record_node(&entry)) || !take(measuring, serial))
        return false;
    if (serial != 0)
        lp_extras_end(&measuring->extras, NULL, NULL, NULL, 0, LP_CUDA_NO_STREAM);
    return true;
}

/* On that thread. NULL: no memory. */
static struct measuring *new_measuring(struct lp_thread *thread)
{
    struct lp_kept *kept = thread->kept;
    while (kept && !take((struct measuring *)kept, 0))
        kept = kept->next;
    if (kept)
        return (struct measuring *)kept;
    for (kept = thread->kept; kept; kept = kept->next)
        if (take_abandoned(thread, (struct measuring *)kept))
            return (struct measuring *)kept;
    struct measuring *measuring = calloc(1, sizeof *measuring);
    if (!measuring)
        return NULL;
    atomic_store(&measuring->serial, TAKEN);
    measuring->kept.next = thread->kept;
    thread->kept = &measuring->kept;
    return measuring;
}

/* Opens an entry that measures more than time. */
LP_NOINLINE static lp_phase enter_with_extras(struct lp_thread *thread, lp_name name)
{
    unsigned kinds = name >> FLAGS_SHIFT;
    lp_phase_id id = name & PHASE_MASK;
    struct lp_recorder *recorder = thread->recorder;
    struct lp_entry entry = {0};
    if (name & ~(FLAGS_MASK | PHASE_MASK)) {
        lp_record_unnamed(recorder);
        return (lp_phase){NULL, 0, 0, 0, NULL};
    }
    struct measuring *measuring = lp_record_will_measure(thread, id) ? new_measuring(thread) : NULL;
    if (measuring && kinds & LP_WITH_SYNC) {
        lp_cuda_synchronize((lp_cuda_stream)stream_in_use);
        thread = thread_of(recorder); /* the profiler may be closed by now */
    }
    if (measuring && thread)
        lp_extras_begin(&measuring->extras, recorder, kinds, (lp_cuda_stream)stream_in_use);
    if (thread)
        lp_thread_enter(thread, id, &entry);
    if (measuring && entry.thread) {
        measuring->frame = entry.frame;
        atomic_store(&measuring->serial, entry.serial);
    } else if (measuring) {
        if (thread)
            lp_extras_end(&measuring->extras, NULL, NULL, NULL, kinds, LP_CUDA_NO_STREAM);
        put_back(measuring);
        measuring = NULL;
    }
    return (lp_phase){entry.thread, entry.serial, entry.frame, name, measuring};
}

/* A number that stands for no name, or one that the recorder has not met. False: nothing is to be recorded. */
LP_COLD static bool look_at_name(const lp_profiler *profiler, lp_name name)
{
    struct lp_recorder *recorder = profiler->recorder;
    if (name == LP_NAME_NONE) {
        if (lp_thread_self(recorder))
            lp_record_unnamed(recorder);
        return false;
    }
    name &= LP_NAME_MASK;
    return lp_name_text(name).len == 0 || admit(profiler, name);
}

lp_phase lp_enter(lp_profiler *profiler, lp_name name)
{
    struct lp_entry entry = {0};
    struct lp_thread *thread;
    if (LP_UNLIKELY(!profiler || !profiler->recorder))
        goto nothing;
    if (LP_UNLIKELY(!lp_shapes_know(&profiler->recorder->shapes, name & LP_NAME_MASK)) && !look_at_name(profiler, name))
        goto nothing;
    thread = thread_of(profiler->recorder);
    if (LP_UNLIKELY(!thread))
        goto nothing;
    if (LP_UNLIKELY(name > PHASE_MASK))
        return enter_with_extras(thread, name);
    lp_thread_enter(thread, name, &entry);
nothing:
    return (lp_phase){entry.thread, entry.serial, entry.frame, name, NULL};
}

/* The thread's side of an entry: only on that thread the host is asked which task runs. */
static void follow_to_leave(struct lp_thread *thread)
{
    struct lp_recorder *recorder = thread->recorder;
    if (recorder->hooks.follow && lp_thread_known(recorder) == thread)
        recorder->hooks.follow(recorder->hooks.follow_context, thread);
}

LP_NOINLINE static void leave_with_extras(lp_phase *phase)
{
    struct measuring *measuring = phase->extras;
    struct lp_entry entry = {phase->thread, phase->serial, phase->frame};
    unsigned kinds = phase->name >> FLAGS_SHIFT;
    lp_cuda_stream stream = (lp_cuda_stream)stream_in_use;
    struct lp_thread *thread = entry.thread;
    phase->thread = phase->extras = NULL;
    if (measuring && !take(measuring, entry.serial))
        measuring = NULL;
    if (measuring && kinds & LP_WITH_SYNC)
        lp_cuda_synchronize(stream);
    follow_to_leave(thread);
    struct lp_node *node = lp_extras_mark(&entry, kinds);
    bool measured = !(entry.frame & LP_ENTRY_SKIPPED) && LP_GET(thread->recorder->key) != 0;
    lp_record_leave(&entry);
    if (measuring) {
        lp_extras_end(&measuring->extras, measured ? thread->recorder : NULL, thread, node, kinds, stream);
        put_back(measuring);
    }
}

void lp_leave(lp_phase *phase)
{
    if (LP_UNLIKELY(!phase || !phase->thread))
        return;
    if (LP_UNLIKELY(phase->name > PHASE_MASK)) {
        leave_with_extras(phase);
        return;
    }
    struct lp_thread *thread = phase->thread;
    struct lp_entry entry = {thread, phase->serial, phase->frame};
    phase->thread = NULL;
    if (LP_UNLIKELY(thread->recorder->hooks.follow != NULL))
        follow_to_leave(thread);
    lp_record_leave(&entry);
}

int lp_count(lp_profiler *profiler, lp_name name, int64_t n)
{
    if (LP_UNLIKELY(!profiler || !profiler->recorder))
        return 0;
    struct lp_thread *thread = thread_of(profiler->recorder);
    if (LP_UNLIKELY(!thread))
        return 0;
    if (lp_thread_count(thread, name & LP_NAME_MASK, n) == LP_COUNT_OK)
        return 0;
    lp_image_trouble(&thread->recorder->image, LP_TROUBLE_COUNTER_OVERFLOWS);
    lp_api_failed("the sum of the counter '%.64s' would leave 64 bits", lp_name_text(name & LP_NAME_MASK).bytes);
    return -1;
}

/* Puts text where it fits; what snprintf would say. */
struct joined {
    char *text;
    size_t size, len;
};

static void append(struct joined *joined, const char *bytes, size_t len)
{
    size_t room = joined->size > joined->len + 1 ? joined->size - joined->len - 1 : 0;
    if (joined->text)
        memcpy(joined->text + (room ? joined->len : 0), bytes, room < len ? room : len);
    joined->len += len;
}

size_t lp_current(lp_profiler *profiler, char *text, size_t size)
{
    lp_name_id path[LP_STACK_DEPTH + 1];
    struct joined joined = {text, text ? size : 0, 0};
    struct lp_recorder *recorder = profiler ? profiler->recorder : NULL;
    /* Only where something may be open: asking is no first boundary. */
    struct lp_thread *thread = recorder && lp_thread_known(recorder) ? thread_of(recorder) : NULL;
    size_t depth = thread ? lp_thread_path(thread, path, LP_STACK_DEPTH + 1) : 0;
    for (size_t i = 0; i < depth; i++) {
        struct lp_name_text name = lp_name_text(path[i]);
        if (i > 0)
            append(&joined, "/", 1);
        append(&joined, name.bytes, name.len);
    }
    if (text && size > 0)
        text[joined.len < joined.size ? joined.len : joined.size - 1] = 0;
    return joined.len;
}

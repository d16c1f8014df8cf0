#include "record/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The image's own copy of a name; 0 for a number that is no name's, too. With the recorder's lock held. */
static lp_ref name_ref_locked(struct lp_recorder *recorder, lp_name_id id)
{
    lp_ref ref = lp_table_get(&recorder->name_refs, id);
    if (ref)
        return ref;
    struct lp_name_text text = lp_name_text(id);
    if (text.len == 0 || !lp_table_reserve(&recorder->name_refs))
        return 0;
    ref = lp_image_alloc(&recorder->image, sizeof(struct lp_name) + text.len);
    if (!ref)
        return 0;
    struct lp_name *name = lp_image_at(&recorder->image, ref);
    name->len = (uint32_t)text.len;
    memcpy(name->bytes, text.bytes, text.len);
    lp_table_put(&recorder->name_refs, id, ref);
    return ref;
}

/* A single line is half of what lies apart: the other half serves next time. */
lp_ref lp_thread_alloc(struct lp_thread *thread, size_t bytes)
{
    size_t lines = (bytes + LP_LINE - 1) / LP_LINE;
    lp_ref ref = thread->spare_line;
    if (lines == 1 && ref) {
        thread->spare_line = 0;
        return ref;
    }
    ref = lp_image_alloc_apart(&thread->recorder->image, bytes);
    if (ref && lines % 2)
        thread->spare_line = ref + (lp_ref)lines;
    return ref;
}

static lp_ref ref_of(const struct lp_recorder *recorder, const void *place)
{
    return (lp_ref)((size_t)((const char *)place - recorder->image.base) / LP_LINE);
}

/* Of a node that is entered once in so many entries of its parent; never beyond what the field holds. */
static uint32_t stride_below_root(const struct lp_node *parent, uint32_t stride)
{
    uint32_t above = LP_GET(parent->core.stride), all;
    return __builtin_mul_overflow(above ? above : 1, stride, &all) ? UINT32_MAX : all;
}

static uint64_t hash_of_path(const struct lp_node *parent, lp_phase_id phase)
{
    return (parent->path_hash ^ (phase & LP_NAME_MASK)) * 0xff51afd7ed558ccdu + 1;
}

static struct lp_node *new_node(struct lp_thread *thread, struct lp_node *parent, lp_phase_id phase, lp_ref name_ref)
{
    struct lp_recorder *recorder = thread->recorder;
    lp_ref ref = lp_thread_alloc(thread, sizeof(struct lp_node));
    if (!ref)
        return NULL;
    struct lp_node *node = lp_image_at(&recorder->image, ref);
    node->phase_id = phase;
    node->name = name_ref;
    node->index = thread->n_nodes++;
    if (parent) {
        node->parent = ref_of(recorder, parent);
        node->depth = parent->depth + 1;
        node->path_hash = hash_of_path(parent, phase);
        node->stride = lp_phase_stride(phase);
        LP_SET(node->core.stride, stride_below_root(parent, node->stride));
        if (node->stride > 1)
            LP_SET(parent->sampled_below, 1);
        atomic_store_explicit(&thread->last_node->next_in_slot, ref, memory_order_release);
    }
    thread->last_node = node;
    return node;
}

/* Gives the thread a new slot of the image. With the recorder's lock held. */
static bool make_slot_locked(struct lp_thread *thread, lp_ref name)
{
    struct lp_recorder *recorder = thread->recorder;
    struct lp_header *header = lp_image_header(&recorder->image);
    thread->n_nodes = 0;
    thread->spare_line = 0; /* may be of an earlier image */
    lp_ref slot = lp_thread_alloc(thread, sizeof(struct lp_slot));
    lp_ref stack = lp_thread_alloc(thread, sizeof(struct lp_stack));
    struct lp_node *root = slot && stack ? new_node(thread, NULL, LP_NAME_NONE, 0) : NULL;
    if (!root)
        return false;
    lp_table_reset(&thread->children);
    thread->slot = lp_image_at(&recorder->image, slot);
    thread->root = root;
    root->path_hash = 1;
    lp_strands_begin(thread, stack);
    thread->first_serial = thread->serial;
    thread->slot->root = ref_of(recorder, root);
    LP_SET(thread->slot->last_stack, stack);
    LP_SET(thread->slot->name, name);
    LP_SET(thread->slot->older, atomic_load(&header->last_slot));
    atomic_store_explicit(&header->last_slot, slot, memory_order_release);
    thread->generation = recorder->generation;
    return true;
}

/* A thread structure to use: one that is free and has a fitting slot, else any free one, else a new one. */
static struct lp_thread *choose_locked(struct lp_recorder *recorder, lp_ref name)
{
    struct lp_thread *without_slot = NULL, *other_name = NULL;
    for (struct lp_thread *thread = recorder->threads; thread; thread = thread->next) {
        if (thread->owner)
            continue;
        if (thread->generation != recorder->generation || !thread->slot)
            without_slot = thread;
        else if (LP_GET(thread->slot->name) == name)
            return thread;
        else
            other_name = thread;
    }
    if (other_name && !recorder->keep_thread_names)
        return other_name;
    if (without_slot)
        return without_slot;
    struct lp_thread *thread = aligned_alloc(LP_APART, sizeof *thread);
    if (!thread)
        return NULL;
    memset(thread, 0, sizeof *thread);
    thread->recorder = recorder;
    lp_wait_init(&thread->wait);
    thread->next = recorder->threads;
    recorder->threads = thread;
    return thread;
}

static struct lp_thread *claim_locked(struct lp_recorder *recorder, lp_name_id name)
{
    lp_ref name_ref = name == LP_NAME_NONE ? 0 : name_ref_locked(recorder, name);
    struct lp_thread *thread = choose_locked(recorder, name_ref);
    if (!thread)
        return NULL;
    thread->taken_over = thread->generation == recorder->generation && thread->slot;
    if (!thread->taken_over && !make_slot_locked(thread, name_ref)) {
        thread->slot = NULL;
        return NULL;
    }
    thread->owner = lp_thread_id();
    thread->posted = 0;
    thread->host_version = thread->host_since_cpu_ns = 0;
    thread->last_wall_ns = 0;
    lp_cpu_init(&thread->cpu, LP_CPU_OF_RECORDER);
    LP_SET(thread->slot->name, name_ref);
    LP_SET(thread->slot->tid, (uint64_t)gettid());
    LP_SET(thread->slot->alive, 1);
    return thread;
}

uint64_t lp_thread_id(void)
{
    static _Atomic uint64_t last;
    static __thread uint64_t id __attribute__((tls_model("initial-exec")));
    if (id == 0)
        id = atomic_fetch_add(&last, 1) + 1;
    return id;
}

static struct lp_thread *mine_locked(struct lp_recorder *recorder)
{
    struct lp_thread *thread = recorder->threads;
    while (thread && thread->owner != lp_thread_id())
        thread = thread->next;
    return thread;
}

bool lp_thread_is_mine(const struct lp_thread *thread)
{
    pthread_mutex_lock(&thread->recorder->lock);
    bool mine = thread->owner == lp_thread_id();
    pthread_mutex_unlock(&thread->recorder->lock);
    return mine;
}

struct lp_thread *lp_thread_known(struct lp_recorder *recorder)
{
    uint64_t key = atomic_load(&recorder->key);
    if (key == 0 || lp_thread_cache.key == 0 || !lp_record_is_here())
        return NULL;
    if (lp_thread_cache.key == key)
        return lp_thread_cache.thread;
    pthread_mutex_lock(&recorder->lock);
    struct lp_thread *thread = mine_locked(recorder);
    if (thread && (!thread->slot || thread->generation != recorder->generation))
        thread = NULL;
    pthread_mutex_unlock(&recorder->lock);
    return thread;
}

static bool running(struct lp_recorder *recorder)
{
    if (!atomic_load_explicit(lp_fork_word, memory_order_relaxed))
        return false; /* a clone that ran no fork handlers: the image is its parent's */
    /* Also while another thread is in the middle of lp_recorder_start: begin waits for it. */
    bool idle = atomic_load(&recorder->key) == 0 && atomic_load(&recorder->state) != LP_RECORDER_STOPPED;
    if (idle || atomic_exchange(&recorder->wake, false))
        recorder->hooks.begin(recorder->hooks.context);
    return atomic_load(&recorder->key) != 0;
}

/* Each name takes a place that a phase's might need, and where names are kept apart, an area of the image: programs that
   number their threads must not use these up. */
static lp_name_id name_of_thread(const char *text, size_t len)
{
    static _Atomic uint32_t n_names; /* about: threads may come at once */
    char shape[LP_THREAD_NAME_BYTES];
    lp_name_id known = lp_name_find(text, len);
    size_t shape_len =
        known == LP_NAME_NONE && atomic_load(&n_names) >= LP_THREAD_NAMES_LIMIT ? lp_shape_write(shape, text, len) : 0;
    if (shape_len > 0) {
        text = shape;
        len = shape_len;
        known = lp_name_find(text, len);
    }
    if (known != LP_NAME_NONE || atomic_load(&n_names) >= 2 * LP_THREAD_NAMES_LIMIT)
        return known;
    atomic_fetch_add(&n_names, 1);
    return lp_name_intern(text, len);
}

static lp_name_id ask_name(struct lp_recorder *recorder)
{
    char text[LP_THREAD_NAME_BYTES];
    const struct lp_recorder_hooks *hooks = &recorder->hooks;
    size_t len = hooks->thread_name ? hooks->thread_name(hooks->context, text, sizeof text) : 0;
    return len ? name_of_thread(text, len) : LP_NAME_NONE;
}

/* The thread may have been given another name since. Where its slot holds figures of others that bore the first name, they
   all keep that. */
static void see_name(struct lp_thread *thread)
{
    struct lp_recorder *recorder = thread->recorder;
    lp_name_id name = ask_name(recorder);
    pthread_mutex_lock(&recorder->lock);
    lp_ref ref = name == LP_NAME_NONE || thread->taken_over ? 0 : name_ref_locked(recorder, name);
    if (ref)
        LP_SET(thread->slot->name, ref);
    pthread_mutex_unlock(&recorder->lock);
}

void lp_recorder_see_thread_name(struct lp_recorder *recorder)
{
    if (!recorder->keep_thread_names || atomic_load(&recorder->key) == 0 || !lp_record_is_here())
        return;
    pthread_mutex_lock(&recorder->lock);
    struct lp_thread *thread = mine_locked(recorder);
    pthread_mutex_unlock(&recorder->lock);
    if (thread)
        see_name(thread);
}

struct lp_thread *lp_thread_find(struct lp_recorder *recorder)
{
    if (lp_thread_is_over() || !running(recorder))
        return NULL;
    uint64_t key = atomic_load(&recorder->key);
    pthread_mutex_lock(&recorder->lock);
    struct lp_thread *thread = mine_locked(recorder);
    bool posted = thread && thread->posted > 0;
    if (posted)
        thread->posted = 0;
    pthread_mutex_unlock(&recorder->lock);
    if (posted)
        lp_thread_reap(thread);
    if (thread && recorder->keep_thread_names)
        see_name(thread);
    if (!thread) {
        lp_name_id name = ask_name(recorder);
        pthread_mutex_lock(&recorder->lock);
        thread = claim_locked(recorder, name);
        pthread_mutex_unlock(&recorder->lock);
        if (thread)
            lp_thread_ask_waits(thread);
    }
    if (!thread) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_IMAGE_FULL);
        return NULL;
    }
    lp_thread_watch_end();
    lp_thread_cache = (struct lp_thread_cache){key, thread};
    return thread;
}

/* Looks the path up among those known to any thread; false, with the first such path kept, if there is no place. */
static bool admit_path_locked(struct lp_recorder *recorder, struct lp_node *parent, lp_phase_id phase)
{
    uint64_t hash = hash_of_path(parent, phase);
    if (lp_table_get(&recorder->paths, hash | 1))
        return true;
    if (recorder->paths.used < LP_PATHS_LIMIT)
        return lp_table_put(&recorder->paths, hash | 1, 1);
    if (atomic_load(&recorder->overflow_parent) == 0) {
        atomic_store(&recorder->overflow_name, phase & LP_NAME_MASK);
        atomic_store(&recorder->overflow_parent, ref_of(recorder, parent));
    }
    return false;
}

/* With the recorder's lock held, so that no fork cuts the thread's table in half: a child may take it over. */
static lp_ref new_child_locked(struct lp_thread *thread, struct lp_node *parent, lp_phase_id phase, uint64_t key)
{
    struct lp_recorder *recorder = thread->recorder;
    if (!admit_path_locked(recorder, parent, phase)) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_FOLDED_PATHS);
        return 0;
    }
    lp_ref name_ref = name_ref_locked(recorder, phase & LP_NAME_MASK);
    struct lp_node *node = NULL;
    if (name_ref && lp_table_reserve(&thread->children))
        node = new_node(thread, parent, phase, name_ref);
    if (!node) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_IMAGE_FULL);
        return 0;
    }
    lp_table_put(&thread->children, key, ref_of(recorder, node));
    return ref_of(recorder, node);
}

void lp_record_unnamed(const struct lp_recorder *recorder)
{
    lp_image_trouble(&recorder->image, lp_names_are_full() ? LP_TROUBLE_FOLDED_PATHS : LP_TROUBLE_UNNAMED);
}

static bool is_phase(lp_phase_id phase)
{
    return lp_name_text(phase & LP_NAME_MASK).len > 0 && lp_phase_stride(phase) > 0;
}

struct lp_node *lp_thread_child(struct lp_thread *thread, struct lp_node *parent, lp_phase_id phase)
{
    struct lp_recorder *recorder = thread->recorder;
    uint64_t key = (uint64_t)ref_of(recorder, parent) << 32 | phase;
    lp_ref ref = lp_table_get(&thread->children, key);
    if (!ref && !is_phase(phase)) { /* what is no name records nothing */
        lp_record_unnamed(recorder);
    } else if (!ref) {
        pthread_mutex_lock(&recorder->lock);
        ref = new_child_locked(thread, parent, phase, key);
        pthread_mutex_unlock(&recorder->lock);
    }
    if (!ref)
        return NULL;
    parent->hot_child = ref;
    return lp_image_at(&recorder->image, ref);
}

void lp_record_enter_folded(struct lp_thread *thread)
{
    if (thread->depth >= LP_STACK_DEPTH && !(thread->depth & LP_SKIPPING))
        lp_image_trouble(&thread->recorder->image, LP_TROUBLE_FOLDED_DEPTH);
}

void lp_hist_first(struct lp_thread *thread, struct lp_node *node, unsigned bucket)
{
    struct lp_image *image = &thread->recorder->image;
    lp_ref ref = lp_thread_alloc(thread, sizeof(struct lp_octave));
    if (!ref) {
        lp_image_trouble(image, LP_TROUBLE_IMAGE_FULL);
        return;
    }
    struct lp_octave *octave = lp_image_at(image, ref);
    LP_SET(octave->counts[bucket % LP_HIST_PER_OCTAVE], 1);
    atomic_store_explicit(&node->octaves[bucket / LP_HIST_PER_OCTAVE], ref, memory_order_release);
}

struct lp_counter *lp_thread_counter(struct lp_thread *thread, lp_name_id name)
{
    struct lp_recorder *recorder = thread->recorder;
    struct lp_node *node = thread->node;
    struct lp_counter *counter;
    if (node == &thread->nowhere)
        return NULL;
    for (lp_ref ref = LP_GET(node->last_counter); ref; ref = counter->older) {
        counter = lp_image_at(&recorder->image, ref);
        if (counter->name_id == name) {
            node->hot_counter = ref;
            return counter;
        }
    }
    if (lp_name_text(name).len == 0) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_LOST_COUNTERS);
        return NULL;
    }
    pthread_mutex_lock(&recorder->lock);
    lp_ref name_ref = name_ref_locked(recorder, name);
    pthread_mutex_unlock(&recorder->lock);
    lp_ref ref = name_ref ? lp_thread_alloc(thread, sizeof *counter) : 0;
    if (!ref) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_LOST_COUNTERS);
        return NULL;
    }
    counter = lp_image_at(&recorder->image, ref);
    counter->name = name_ref;
    counter->name_id = name;
    counter->older = LP_GET(node->last_counter);
    LP_SET(counter->min, INT64_MAX);
    LP_SET(counter->max, INT64_MIN);
    atomic_store_explicit(&node->last_counter, ref, memory_order_release);
    node->hot_counter = ref;
    return counter;
}

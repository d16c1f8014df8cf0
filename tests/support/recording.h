/*
 * A recorder with an image and nothing around it, and the figures of its document by path.
 */
#ifndef LP_TESTS_RECORDING_H
#define LP_TESTS_RECORDING_H

#include "support/support.h"

#include <pthread.h>

#include "image/view.h"
#include "process/stamp.h"
#include "record/record.h"
#include "worker/document.h"

/* Allowed between our wall clock and the kernel's; test_wall is about how far they are apart. */
#define BETWEEN_CLOCKS_NS 2000u

/* The id of a phase of which one entry in `stride` is measured. */
static inline lp_phase_id lp_phase_sampled(lp_name_id name, uint32_t stride)
{
    return name == LP_NAME_NONE ? name : name | lp_stride_bits(stride);
}

struct recording {
    struct lp_recorder recorder;
    _Atomic int begun; /* how often the hook was called */
};

static inline int recording_image_(struct recording *recording)
{
    char worker[64];
    snprintf(worker, sizeof worker, "w_test_%d_%p", (int)getpid(), (void *)recording);
    int failed = lp_image_create(&recording->recorder.image, worker);
    if (!failed)
        lp_image_header(&recording->recorder.image)->measure_cpu = recording->recorder.measure_cpu;
    return failed;
}

static inline int recording_begin_(void *context)
{
    struct recording *recording = context;
    atomic_fetch_add(&recording->begun, 1);
    if (atomic_load(&recording->recorder.state) != LP_RECORDER_IDLE)
        return 0;
    if (lp_image_header(&recording->recorder.image)->version == 0) { /* in a forked child */
        lp_image_destroy(&recording->recorder.image);
        if (recording_image_(recording) != 0)
            return -1;
    }
    lp_recorder_start(&recording->recorder);
    return 0;
}

struct recording_options {
    bool no_cpu, keep_thread_names, idle, wait_detail;
    size_t (*thread_name)(void *context, char *name, size_t size);
};

static inline void recording_open_with(struct recording *recording, const struct recording_options *options)
{
    const struct lp_recorder_hooks hooks = {
        .context = recording, .begin = recording_begin_, .thread_name = options->thread_name};
    atomic_store(&recording->begun, 0);
    assert_int_equal(lp_recorder_init(&recording->recorder, &hooks, !options->no_cpu, options->keep_thread_names), 0);
    recording->recorder.wait_detail = options->wait_detail;
    assert_int_equal(recording_image_(recording), 0);
    if (!options->idle)
        lp_recorder_start(&recording->recorder);
}

static inline void recording_open(struct recording *recording)
{
    recording_open_with(recording, &(struct recording_options){0});
}

static inline void recording_close(struct recording *recording)
{
    lp_recorder_release(&recording->recorder);
    lp_image_destroy(&recording->recorder.image);
}

/* The calling thread's side of it. */
static inline struct lp_thread *self(struct recording *recording)
{
    struct lp_thread *thread = lp_thread_self(&recording->recorder);
    CHECK(thread != NULL);
    return thread;
}

/* How many strands of tasks the thread ever had at once. */
static inline uint32_t strands_of(const struct lp_thread *thread)
{
    uint32_t n = 0;
    for (const struct lp_strand *strand = thread->strands; strand; strand = strand->next_of_thread)
        n++;
    return n;
}

/* The document that a view shows now. */
static inline json_t *document_of_view(const struct lp_view *view, bool own)
{
    struct lp_buffer text = {0};
    struct lp_emit emit;
    struct lp_stamp now = lp_stamp_now();
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_document_emit(&emit, view, &now, NULL, own ? LP_OWNER_SELF : LP_OWNER_GONE);
    assert_int_equal(lp_emit_end(&emit), 0);
    json_t *document = json_of(text.bytes, text.len);
    free(text.bytes);
    return document;
}

static inline json_t *recording_document(struct recording *recording)
{
    struct lp_view view;
    lp_view_own(&view, &recording->recorder.image);
    return document_of_view(&view, true);
}

static inline uint64_t recording_trouble(const struct recording *recording, enum lp_trouble kind)
{
    return atomic_load(&lp_image_header(&recording->recorder.image)->troubles[kind]);
}

/* ---- figures by path ----------------------------------------------------------- */

struct figures {
    uint64_t calls, wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    uint64_t open_calls, open_wall_ns, open_cpu_ns, open_child_wall_ns, open_late_wall_ns;
    uint64_t hist_total;
    uint64_t stride; /* the highest */
    uint64_t nodes;  /* found on that path: one in each thread slot at most */
};

static inline uint64_t hist_total_of(const char *text)
{
    uint64_t total = 0;
    long last = -1;
    for (char *end; text && *text; text = *end == ' ' ? end + 1 : end) {
        unsigned long bucket = strtoul(text, &end, 10);
        assert_true(*end == ':' && (long)bucket > last && bucket < 496);
        last = (long)bucket;
        unsigned long long count = strtoull(end + 1, &end, 10);
        assert_true(count > 0 && (*end == ' ' || *end == '\0'));
        total += count;
    }
    return total;
}

/* True if the node's path is `path`, names joined by '/'; nodes is its slot's list. "" is the root. */
static inline bool node_has_path(const json_t *nodes, const json_t *node, const char *path)
{
    size_t end = strlen(path);
    for (;;) {
        const json_t *name = json_object_get(node, "name");
        if (!name)
            return end == 0;
        size_t len = json_string_length(name);
        if (end < len || memcmp(path + end - len, json_string_value(name), len) != 0)
            return false;
        end -= len;
        node = json_array_get(nodes, json_u64(node, "parent", 0));
        if (json_object_get(node, "name")) {
            if (end == 0 || path[end - 1] != '/')
                return false;
            end--;
        }
    }
}

static inline void add_figures(struct figures *sum, const json_t *node)
{
    const json_t *cpu = json_object_get(node, "cpu_ns"), *open_cpu = json_object_get(node, "open_cpu_ns");
    uint64_t stride = json_u64(node, "stride", 1);
    sum->nodes++;
    sum->stride = stride > sum->stride ? stride : sum->stride;
    sum->calls += json_u64(node, "calls", 0);
    sum->wall_ns += json_u64(node, "wall_ns", 0);
    sum->cpu_ns += json_is_null(cpu) ? 0 : json_u64(node, "cpu_ns", 0);
    sum->nocpu_wall_ns += json_u64(node, "nocpu_wall_ns", 0);
    sum->child_wall_ns += json_u64(node, "child_wall_ns", 0);
    sum->late_wall_ns += json_u64(node, "late_wall_ns", 0);
    sum->open_calls += json_u64(node, "open_calls", 0);
    sum->open_wall_ns += json_u64(node, "open_wall_ns", 0);
    sum->open_cpu_ns += json_is_null(open_cpu) ? 0 : json_u64(node, "open_cpu_ns", 0);
    sum->open_child_wall_ns += json_u64(node, "open_child_wall_ns", 0);
    sum->open_late_wall_ns += json_u64(node, "open_late_wall_ns", 0);
    sum->hist_total += hist_total_of(json_string_value(json_object_get(node, "hist")));
}

/* The sum over the document's thread slots. */
static inline struct figures figures_at(const json_t *document, const char *path)
{
    struct figures sum = {0};
    size_t i, j;
    const json_t *thread, *node;
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        const json_t *nodes = json_object_get(thread, "nodes");
        json_array_foreach(nodes, j, node)
        {
            if (node_has_path(nodes, node, path))
                add_figures(&sum, node);
        }
    }
    return sum;
}

/* What is estimated from one entry in so many may be more than there was: also of what went on beyond the end of its parent,
   in the phases around that. */
static inline bool has_sampled_inside(const json_t *nodes, size_t around)
{
    size_t i;
    const json_t *node;
    json_array_foreach(nodes, i, node)
    {
        bool late = json_u64(node, "late_wall_ns", 0) + json_u64(node, "open_late_wall_ns", 0) > 0;
        size_t parent = json_u64(node, "parent", 0);
        if (i == 0 || json_u64(node, "stride", 1) <= 1)
            continue;
        while (late && parent > around)
            parent = json_u64(json_array_get(nodes, parent), "parent", 0);
        if (parent == around)
            return true;
    }
    return false;
}

/* What every document must satisfy whose writer stands still: times add up, parents come first, every entry is counted
   in the histogram once. */
static inline void assert_document_adds_up(const json_t *document)
{
    size_t i, j;
    const json_t *thread, *node;
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        uint64_t self = 0, late = 0, roots = 0;
        const json_t *nodes = json_object_get(thread, "nodes");
        json_array_foreach(nodes, j, node)
        {
            struct figures own = {0};
            add_figures(&own, node);
            if (j == 0) {
                assert_null(json_object_get(node, "name"));
                assert_int_equal(own.calls + own.wall_ns + own.open_calls + own.hist_total, 0);
                continue;
            }
            assert_in_range(json_u64(node, "parent", UINT64_MAX), 0, j - 1);
            assert_int_equal(own.hist_total, own.calls);
            assert_true(own.child_wall_ns <= own.wall_ns || has_sampled_inside(nodes, j));
            assert_true(own.nocpu_wall_ns <= own.wall_ns);
            assert_true(own.late_wall_ns <= own.wall_ns);
            self += own.wall_ns - own.child_wall_ns + own.open_wall_ns - own.open_child_wall_ns;
            late += own.late_wall_ns + own.open_late_wall_ns;
            if (json_u64(node, "parent", 0) == 0)
                roots += own.wall_ns + own.open_wall_ns;
        }
        if (late == 0)
            assert_int_equal(self, roots);
        else /* as far as no other phase was open around what went on */
            assert_true((int64_t)(self - roots) >= 0 && self - roots <= late);
    }
}

/* sum, calls, min, max of a counter of the path; false if there is none in any slot. */
struct counter_figures {
    int64_t sum, min, max;
    uint64_t calls;
};

static inline bool counter_at(const json_t *document, const char *path, const char *name, struct counter_figures *sum)
{
    size_t i, j;
    const json_t *thread, *node;
    *sum = (struct counter_figures){0, INT64_MAX, INT64_MIN, 0};
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        const json_t *nodes = json_object_get(thread, "nodes");
        json_array_foreach(nodes, j, node)
        {
            const json_t *counter = json_object_get(json_object_get(node, "counters"), name);
            if (!counter || !node_has_path(nodes, node, path))
                continue;
            int64_t min = json_integer_value(json_array_get(counter, 2));
            int64_t max = json_integer_value(json_array_get(counter, 3));
            sum->sum += json_integer_value(json_array_get(counter, 0));
            sum->calls += (uint64_t)json_integer_value(json_array_get(counter, 1));
            sum->min = min < sum->min ? min : sum->min;
            sum->max = max > sum->max ? max : sum->max;
        }
    }
    return sum->calls > 0;
}

/* fork as the room above does it. */
static inline pid_t recording_fork(void)
{
    fflush(NULL);
    lp_record_before_fork();
    pid_t pid = fork();
    if (pid == 0)
        lp_record_after_fork_in_child();
    else
        lp_record_after_fork_in_parent();
    return pid;
}

/* ---- short forms --------------------------------------------------------------- */

static inline lp_name_id name_of(const char *text)
{
    return lp_name_intern(text, strlen(text));
}

static inline struct lp_entry enter(struct recording *recording, const char *name)
{
    struct lp_entry entry;
    lp_record_enter(&recording->recorder, name_of(name), &entry);
    return entry;
}

static inline struct lp_entry enter_sampled(struct recording *recording, const char *name, uint32_t stride)
{
    struct lp_entry entry;
    lp_record_enter(&recording->recorder, lp_phase_sampled(name_of(name), stride), &entry);
    return entry;
}

static inline void leave(struct lp_entry *entry)
{
    lp_record_leave(entry);
}

static inline void *leave_there_(void *entry)
{
    lp_record_leave(entry);
    return NULL;
}

/* Leaves it on a thread of its own, which has ended when this returns. */
static inline void leave_elsewhere(struct lp_entry *entry)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_there_, entry), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Runs the strand of a task, 0 being the thread's own, as the room above does; NULL if none is to be had. */
static inline struct lp_strand *run_task(struct recording *recording, uint64_t task)
{
    struct lp_thread *thread = lp_thread_self(&recording->recorder);
    if (!thread)
        return NULL;
    struct lp_strand *strand = task ? lp_strand_find(thread, task) : &thread->own;
    if (!strand)
        strand = lp_strand_make(thread, task);
    if (strand)
        lp_thread_run(thread, strand);
    return strand;
}

#endif

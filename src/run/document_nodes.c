#include <stddef.h>
#include <string.h>

#include "run/document.h"
#include "run/fields.h"
#include "run/hist.h"
#include "run/room.h"

/* A figure of a node: where it goes, where it is noted if null is allowed and given, and where that it is given. */
struct figure {
    const char *key;
    size_t len;
    size_t offset;
    size_t null_offset;  /* 0: null is refused. */
    size_t given_offset; /* 0: it has a default. */
};

#define FIGURE(key, null_offset)                                                                                       \
    {                                                                                                                  \
#key, sizeof #key - 1, offsetof(struct lp_run_record, key), null_offset, 0                                     \
    }
#define FIGURE_WITHOUT_DEFAULT(key, given_offset)                                                                      \
    {                                                                                                                  \
#key, sizeof #key - 1, offsetof(struct lp_run_record, key), 0, given_offset                                    \
    }

/* In the order of the file, so that a search which begins where the last one ended finds the next key at once. */
static const struct figure figures[] = {
    FIGURE(calls, 0),
    FIGURE(wall_ns, 0),
    FIGURE(cpu_ns, offsetof(struct lp_run_record, no_cpu)),
    FIGURE(nocpu_wall_ns, 0),
    FIGURE(child_wall_ns, 0),
    FIGURE(late_wall_ns, 0),
    FIGURE(open_calls, 0),
    FIGURE(open_wall_ns, 0),
    FIGURE(open_child_wall_ns, 0),
    FIGURE(open_late_wall_ns, 0),
    FIGURE(open_cpu_ns, offsetof(struct lp_run_record, no_open_cpu)),
    FIGURE(stride, 0),
    FIGURE_WITHOUT_DEFAULT(blocked_ns, offsetof(struct lp_run_record, has_blocked)),
    FIGURE_WITHOUT_DEFAULT(preempted_ns, offsetof(struct lp_run_record, has_preempted)),
    FIGURE(open_blocked_ns, 0),
    FIGURE(open_preempted_ns, 0),
    FIGURE(id, 0),
    FIGURE_WITHOUT_DEFAULT(gpu_calls, offsetof(struct lp_run_record, has_gpu)),
    FIGURE(gpu_ns, 0),
};
#define N_FIGURES (sizeof figures / sizeof *figures)

static bool is_key(struct lp_span key, const char *word, size_t len)
{
    return key.len == len && memcmp(key.bytes, word, len) == 0;
}
#define IS_KEY(key, word) is_key(key, word, sizeof(word) - 1)

static const struct figure *find_figure(struct lp_span key, size_t *hint)
{
    for (size_t i = 0; i < N_FIGURES; i++) {
        const struct figure *figure = &figures[(*hint + i) % N_FIGURES];
        if (!is_key(key, figure->key, figure->len))
            continue;
        *hint += i + 1;
        return figure;
    }
    return NULL;
}

static int parse_figure(struct lp_run_record *record, const struct figure *figure, const json_t *value,
                        struct lp_run_fault *fault)
{
    char *base = (char *)record;
    if (figure->null_offset && json_is_null(value)) {
        *(bool *)(base + figure->null_offset) = true;
        return 0;
    }
    if (figure->given_offset)
        *(bool *)(base + figure->given_offset) = true;
    return lp_run_value_count(value, (uint64_t *)(void *)(base + figure->offset), fault);
}

/* Reads digits from *at on; false if there are none, or more than 2^63 - 1 needs. */
static bool parse_digits(const char **at, const char *end, uint64_t *value)
{
    const char *first = *at;
    uint64_t sum = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        if (sum > (uint64_t)INT64_MAX / 10)
            return false;
        sum = sum * 10 + (uint64_t)(**at - '0');
    }
    *value = sum;
    return *at > first && sum <= INT64_MAX;
}

static int parse_bucket(const char **at, const char *end, struct lp_run_bucket *bucket)
{
    uint64_t number;
    if (!parse_digits(at, end, &number) || number > LP_HIST_HIT_MAX || *at == end || **at != ':')
        return -1;
    ++*at;
    bucket->bucket = (unsigned)number;
    return parse_digits(at, end, &bucket->count) ? 0 : -1;
}

/* Appends to document.buckets, of which the histogram is what comes from *first on. */
static int parse_hist(struct lp_run_document *document, size_t *first_bucket, size_t *n_buckets, const json_t *value,
                      struct lp_run_fault *fault)
{
    if (!json_is_string(value))
        return lp_run_fault_set(fault, "a string expected, found %s", lp_run_json_kind(value));
    const char *text = json_string_value(value), *at = text, *end = text + json_string_length(value);
    struct lp_run_bucket bucket;
    *first_bucket = document->n_buckets;
    while (at < end) {
        bool first = at == text;
        if (!first && (*at++ != ' ' || at == end))
            return lp_run_fault_set(fault, "not bucket:count pairs joined by blanks");
        if (parse_bucket(&at, end, &bucket) < 0)
            return lp_run_fault_set(fault, "no bucket:count pair at character %td", at - text);
        if (!first && bucket.bucket <= document->buckets[document->n_buckets - 1].bucket)
            return lp_run_fault_set(fault, "bucket %u out of order", bucket.bucket);
        if (lp_run_room(&document->buckets, &document->buckets_room, document->n_buckets, sizeof bucket) < 0)
            return lp_run_fault_no_memory(fault);
        document->buckets[document->n_buckets++] = bucket;
    }
    *n_buckets = document->n_buckets - *first_bucket;
    return 0;
}

static int check_name(struct lp_span name, struct lp_run_fault *fault)
{
    if (!name.len)
        return lp_run_fault_set(fault, "empty");
    if (name.len > LP_RUN_NAME_MAX)
        return lp_run_fault_set(fault, "%zu bytes long; %d are allowed", name.len, LP_RUN_NAME_MAX);
    return 0;
}

static int check_tally(struct lp_run_tally *tally, bool closed, struct lp_run_fault *fault)
{
    if (closed && tally->calls && tally->min > tally->max)
        return lp_run_fault_set(fault, "min above max");
    if (closed && !tally->calls && tally->sum)
        return lp_run_fault_set(fault, "a sum of no calls");
    if (tally->min > tally->max) {
        int64_t min = tally->max;
        tally->max = tally->min;
        tally->min = min;
    }
    return 0;
}

static int parse_tally(struct lp_run_document *document, struct lp_run_tally *tally, const json_t *value,
                       struct lp_run_fault *fault)
{
    if (!json_is_array(value) || json_array_size(value) != 4)
        return lp_run_fault_set(fault, "[sum, calls, min, max] expected");
    if (lp_run_value_signed(json_array_get(value, 0), &tally->sum, fault) < 0 ||
        lp_run_value_count(json_array_get(value, 1), &tally->calls, fault) < 0 ||
        lp_run_value_signed(json_array_get(value, 2), &tally->min, fault) < 0 ||
        lp_run_value_signed(json_array_get(value, 3), &tally->max, fault) < 0)
        return -1;
    return check_tally(tally, document->closed, fault);
}

static int parse_counters(struct lp_run_document *document, struct lp_run_record *record, json_t *counters,
                          struct lp_run_fault *fault)
{
    if (!json_is_object(counters))
        return lp_run_fault_set(fault, ": an object expected, found %s", lp_run_json_kind(counters));
    record->counters = document->n_tallies;
    for (void *at = json_object_iter(counters); at; at = json_object_iter_next(counters, at)) {
        struct lp_span key = {json_object_iter_key(at), json_object_iter_key_len(at)};
        struct lp_run_tally tally;
        if (lp_run_document_text(document, key, &tally.name, fault) < 0 || check_name(tally.name, fault) < 0 ||
            parse_tally(document, &tally, json_object_iter_value(at), fault) < 0)
            return lp_run_fault_within(fault, ".%.64s: ", key.bytes);
        if (!tally.calls)
            continue;
        if (lp_run_room(&document->tallies, &document->tallies_room, document->n_tallies, sizeof tally) < 0)
            return lp_run_fault_no_memory(fault);
        document->tallies[document->n_tallies++] = tally;
    }
    record->n_counters = document->n_tallies - record->counters;
    return 0;
}

static int parse_name(struct lp_run_document *document, struct lp_run_record *record, const json_t *value,
                      struct lp_run_fault *fault)
{
    if (!json_is_string(value))
        return lp_run_fault_set(fault, "a string expected, found %s", lp_run_json_kind(value));
    struct lp_span encoded = {json_string_value(value), json_string_length(value)};
    return lp_run_document_text(document, encoded, &record->name, fault) < 0 ? -1 : check_name(record->name, fault);
}

static int parse_parent(struct lp_run_record *record, size_t index, const json_t *value, struct lp_run_fault *fault)
{
    uint64_t parent;
    if (lp_run_value_count(value, &parent, fault) < 0)
        return -1;
    if (parent >= index)
        return lp_run_fault_set(fault, "%llu does not stand before its child", (unsigned long long)parent);
    record->parent = (size_t)parent;
    return 0;
}

static int parse_mark(bool *mark, const json_t *value, struct lp_run_fault *fault)
{
    if (!json_is_boolean(value))
        return lp_run_fault_set(fault, "true or false expected, found %s", lp_run_json_kind(value));
    *mark = json_is_true(value);
    return 0;
}

/* What a node's keys gave. */
struct seen {
    bool parent, name;
    size_t hint;
};

static int parse_value(struct lp_run_document *document, struct lp_run_record *record, size_t index, struct seen *seen,
                       struct lp_span key, const json_t *value, struct lp_run_fault *fault)
{
    const struct figure *figure = find_figure(key, &seen->hint);
    if (figure)
        return parse_figure(record, figure, value, fault);
    if (IS_KEY(key, "parent")) {
        seen->parent = true;
        return index ? parse_parent(record, index, value, fault) : 0;
    }
    if (IS_KEY(key, "name")) {
        seen->name = true;
        return index ? parse_name(document, record, value, fault) : 0;
    }
    if (IS_KEY(key, "hist"))
        return parse_hist(document, &record->hist, &record->n_hist, value, fault);
    if (IS_KEY(key, "gpu_hist"))
        return parse_hist(document, &record->gpu_hist, &record->n_gpu_hist, value, fault);
    return IS_KEY(key, "async_work") ? parse_mark(&record->async_work, value, fault) : 0;
}

static int parse_key(struct lp_run_document *document, struct lp_run_record *record, size_t index, struct seen *seen,
                     struct lp_span key, json_t *value, struct lp_run_fault *fault)
{
    if (IS_KEY(key, "counters"))
        return parse_counters(document, record, value, fault);
    if (parse_value(document, record, index, seen, key, value, fault) < 0)
        return lp_run_fault_within(fault, ": ");
    return 0;
}

static int parse_keys(struct lp_run_document *document, struct lp_run_record *record, size_t index, json_t *node,
                      struct lp_run_fault *fault)
{
    struct seen seen = {0};
    for (void *at = json_object_iter(node); at; at = json_object_iter_next(node, at)) {
        struct lp_span key = {json_object_iter_key(at), json_object_iter_key_len(at)};
        if (parse_key(document, record, index, &seen, key, json_object_iter_value(at), fault) < 0)
            return lp_run_fault_within(fault, ".%.64s", key.bytes);
    }
    if (index == 0 && (seen.parent || seen.name))
        return lp_run_fault_set(fault, ": the root has a parent or a name");
    if (index && !seen.parent)
        return lp_run_fault_set(fault, ".parent: missing");
    if (index && !seen.name)
        return lp_run_fault_set(fault, ".name: missing");
    return record->stride ? 0 : lp_run_fault_set(fault, ".stride: 0");
}

static uint64_t hist_total(const struct lp_run_document *document, size_t first, size_t n)
{
    uint64_t total = 0;
    bool saturated = false;
    for (size_t i = 0; i < n; i++)
        total = lp_run_sum(total, document->buckets[first + i].count, &saturated);
    return total;
}

static int check_device_time(const struct lp_run_document *document, const struct lp_run_record *record,
                             struct lp_run_fault *fault)
{
    uint64_t total = hist_total(document, record->gpu_hist, record->n_gpu_hist);
    if (record->gpu_calls > record->calls)
        return lp_run_fault_set(fault, ".gpu_calls: above calls");
    if (record->gpu_ns && !record->gpu_calls)
        return lp_run_fault_set(fault, ".gpu_ns: time of no calls");
    if (total == record->gpu_calls || (document->short_of_memory && total < record->gpu_calls))
        return 0;
    return lp_run_fault_set(fault, ".gpu_hist: adds up to %llu, gpu_calls to %llu", (unsigned long long)total,
                            (unsigned long long)record->gpu_calls);
}

/* One entry may have been between its two figures when another thread closed the worker. */
static int check_hist(const struct lp_run_document *document, const struct lp_run_record *record,
                      struct lp_run_fault *fault)
{
    uint64_t total = hist_total(document, record->hist, record->n_hist);
    uint64_t apart = total > record->calls ? total - record->calls : record->calls - total;
    if (apart <= record->stride)
        return 0;
    if (document->short_of_memory && total < record->calls)
        return 0;
    return lp_run_fault_set(fault, ".hist: adds up to %llu, calls to %llu", (unsigned long long)total,
                            (unsigned long long)record->calls);
}

/* What cannot be in a worker that closed. An estimate from a sampled child may exceed its measured parent. */
static int check_closed(const struct lp_run_document *document, const struct lp_run_record *record,
                        struct lp_run_fault *fault)
{
    if (record->wall_ns && !record->calls)
        return lp_run_fault_set(fault, ".wall_ns: time of no calls");
    if (record->child_wall_ns > record->wall_ns && !record->sampled_below)
        return lp_run_fault_set(fault, ".child_wall_ns: above wall_ns");
    if (record->nocpu_wall_ns > record->wall_ns)
        return lp_run_fault_set(fault, ".nocpu_wall_ns: above wall_ns");
    if (record->late_wall_ns > record->wall_ns)
        return lp_run_fault_set(fault, ".late_wall_ns: above wall_ns");
    if (record->blocked_ns > record->wall_ns)
        return lp_run_fault_set(fault, ".blocked_ns: above wall_ns");
    if (record->preempted_ns > record->wall_ns)
        return lp_run_fault_set(fault, ".preempted_ns: above wall_ns");
    if (record->open_wall_ns && !record->open_calls)
        return lp_run_fault_set(fault, ".open_wall_ns: time of no open calls");
    return check_hist(document, record, fault) < 0 ? -1 : check_device_time(document, record, fault);
}

static int check_root(const struct lp_run_record *record, struct lp_run_fault *fault)
{
    if (record->calls || record->wall_ns || record->open_calls || record->open_wall_ns || record->n_hist ||
        record->gpu_calls || record->gpu_ns || record->n_gpu_hist)
        return lp_run_fault_set(fault, ": the root has time of its own");
    return 0;
}

/* In the times of the phases around: in all of them, if it went on beyond the end of its parent's entries. */
static void note_estimate(struct lp_run_document *document, const struct lp_run_slot *slot,
                          const struct lp_run_record *record)
{
    struct lp_run_record *around = &document->records[slot->nodes + record->parent];
    if (record->stride <= 1)
        return;
    around->sampled_below = true;
    while ((record->late_wall_ns || record->open_late_wall_ns) && around->depth > 0) {
        around = &document->records[slot->nodes + around->parent];
        around->sampled_below = true;
    }
}

static int parse_node(struct lp_run_document *document, const struct lp_run_slot *slot, size_t index, json_t *node,
                      struct lp_run_fault *fault)
{
    struct lp_run_record record = {.stride = 1};
    if (!json_is_object(node))
        return lp_run_fault_set(fault, ": an object expected, found %s", lp_run_json_kind(node));
    if (parse_keys(document, &record, index, node, fault) < 0)
        return -1;
    if (index) {
        struct lp_run_record *parent = &document->records[slot->nodes + record.parent];
        record.depth = parent->depth + 1;
        note_estimate(document, slot, &record);
    }
    if (record.depth > LP_RUN_DEPTH_MAX)
        return lp_run_fault_set(fault, ": deeper than %d phases", LP_RUN_DEPTH_MAX);
    if (lp_run_room(&document->records, &document->records_room, document->n_records, sizeof record) < 0)
        return lp_run_fault_no_memory(fault);
    document->records[document->n_records++] = record;
    return 0;
}

static int check_nodes(const struct lp_run_document *document, const struct lp_run_slot *slot,
                       struct lp_run_fault *fault)
{
    const struct lp_run_record *records = document->records + slot->nodes;
    if (check_root(&records[0], fault) < 0)
        return lp_run_fault_within(fault, "[0]");
    for (size_t i = 1; document->closed && i < slot->n_nodes; i++)
        if (check_closed(document, &records[i], fault) < 0)
            return lp_run_fault_within(fault, "[%zu]", i);
    return 0;
}

int lp_run_document_nodes(struct lp_run_document *document, struct lp_run_slot *slot, const json_t *nodes,
                          struct lp_run_fault *fault)
{
    json_t *node;
    size_t i;
    slot->nodes = document->n_records;
    slot->n_nodes = json_array_size(nodes);
    if (!slot->n_nodes)
        return lp_run_fault_set(fault, ": empty, without even a root");
    json_array_foreach(nodes, i, node) if (parse_node(document, slot, i, node, fault) < 0) return fault->no_memory
        ? -1
        : lp_run_fault_within(fault, "[%zu]", i);
    return check_nodes(document, slot, fault);
}

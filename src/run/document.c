#include "run/document.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/fields.h"
#include "run/room.h"

int lp_run_document_text(struct lp_run_document *document, struct lp_span encoded, struct lp_span *text,
                         struct lp_run_fault *fault)
{
    *text = encoded;
    if (!encoded.len || !memchr(encoded.bytes, '\\', encoded.len))
        return 0;
    char *to = document->names + document->names_used;
    ptrdiff_t len = lp_text_decode(to, encoded);
    if (len < 0)
        return lp_run_fault_set(fault, "text with an unknown escape");
    document->names_used += (size_t)len;
    *text = (struct lp_span){to, (size_t)len};
    return 0;
}

static int text_or_null(struct lp_run_document *document, const json_t *object, const char *key, struct lp_span *text,
                        struct lp_run_fault *fault)
{
    struct lp_span encoded;
    if (lp_run_field_string_or_null(object, key, &encoded, fault) < 0)
        return -1;
    return lp_run_document_text(document, encoded, text, fault) < 0 ? lp_run_fault_within(fault, "%s: ", key) : 0;
}

static int text_of(struct lp_run_document *document, const json_t *object, const char *key, size_t least,
                   struct lp_span *text, struct lp_run_fault *fault)
{
    if (text_or_null(document, object, key, text, fault) < 0)
        return -1;
    if (!text->bytes)
        return lp_run_fault_set(fault, "%s: a string expected, found null", key);
    return text->len < least ? lp_run_fault_set(fault, "%s: empty", key) : 0;
}

static int parse_format(const json_t *json, struct lp_run_fault *fault)
{
    struct lp_span format;
    uint64_t version;
    if (!json_is_object(json) || lp_run_field_string(json, "format", &format, fault) < 0 ||
        !lp_text_equal(format, (struct lp_span){"lineprofiler-worker", strlen("lineprofiler-worker")}))
        return lp_run_fault_set(fault, "JSON, but not a worker file");
    if (lp_run_field_count(json, "version", 1, &version, fault) < 0)
        return -1;
    if (version > LP_RUN_FORMAT_VERSION)
        return lp_run_fault_set(fault, "version %llu: written by a newer release; this one reads up to version %d",
                                (unsigned long long)version, LP_RUN_FORMAT_VERSION);
    return 0;
}

static int parse_index(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    document->index = -1;
    return json_object_get(json, "index") ? lp_run_field_count_or_null(json, "index", 0, &document->index, fault) : 0;
}

static int parse_time_namespace(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    bool is_there = json_object_get(json, "time_namespace");
    document->time_namespace = 0; /* it may have been that of another document */
    return is_there ? lp_run_field_count(json, "time_namespace", 0, &document->time_namespace, fault) : 0;
}

static int parse_process(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    if (text_of(document, json, "worker", 1, &document->worker, fault) < 0 ||
        text_of(document, json, "run_id", 1, &document->run_id, fault) < 0 ||
        text_of(document, json, "role", 0, &document->role, fault) < 0 ||
        lp_run_field_count(json, "pid", 1, &document->pid, fault) < 0 ||
        lp_run_field_count(json, "parent_pid", 0, &document->parent_pid, fault) < 0 ||
        text_of(document, json, "host", 1, &document->host, fault) < 0 ||
        lp_run_field_count_or_null(json, "rank", 0, &document->rank, fault) < 0 ||
        lp_run_field_count_or_null(json, "world_size", 1, &document->world_size, fault) < 0 ||
        parse_index(document, json, fault) < 0 ||
        lp_run_field_string_or_null(json, "launcher", &document->launcher, fault) < 0 ||
        lp_run_field_string(json, "boot_id", &document->boot_id, fault) < 0 ||
        lp_run_field_count(json, "pid_namespace", 0, &document->pid_namespace, fault) < 0 ||
        parse_time_namespace(document, json, fault) < 0 ||
        lp_run_field_count(json, "process_start_ticks", 0, &document->process_start_ticks, fault) < 0)
        return -1;
    return lp_run_field_string(json, "library", &document->library, fault) < 0 ||
                   text_or_null(document, json, "runtime", &document->runtime, fault) < 0
               ? -1
               : 0;
}

static int parse_job(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *job;
    document->job_system = document->job_id = (struct lp_span){NULL, 0};
    if (json_is_null(json_object_get(json, "job")))
        return 0;
    if (lp_run_field_object(json, "job", &job, fault) < 0)
        return -1;
    if (lp_run_field_string(job, "system", &document->job_system, fault) < 0 ||
        text_of(document, job, "id", 0, &document->job_id, fault) < 0)
        return lp_run_fault_within(fault, "job.");
    return 0;
}

static int parse_command(const json_t *json, struct lp_run_fault *fault)
{
    json_t *command, *argument;
    size_t i;
    if (lp_run_field_array(json, "command", &command, fault) < 0)
        return -1;
    json_array_foreach(command, i, argument) if (!json_is_string(argument)) return lp_run_fault_set(
        fault, "command[%zu]: a string expected, found %s", i, lp_run_json_kind(argument));
    return 0;
}

static int parse_origin(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    bool inherited;
    document->run_id_generated = document->run_id_of_launch = false;
    if (lp_run_field_either(json, "run_id_origin", "given", "inherited", &inherited, fault) == 0)
        return 0;
    if (lp_run_field_either(json, "run_id_origin", "launcher", "generated", &document->run_id_generated, fault) == 0) {
        document->run_id_of_launch = !document->run_id_generated;
        return 0;
    }
    return lp_run_fault_set(fault, "run_id_origin: not one of given, inherited, launcher, generated");
}

static int parse_settings(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *settings;
    double ignored;
    if (lp_run_field_object(json, "settings", &settings, fault) < 0)
        return -1;
    if (lp_run_field_bool(settings, "measure_cpu", &document->measure_cpu, fault) < 0 ||
        lp_run_field_bool(settings, "thread_names", &document->thread_names, fault) < 0 ||
        lp_run_field_seconds_or_null(settings, "snapshot_interval_s", &document->snapshot_interval_s, fault) < 0 ||
        lp_run_field_seconds_or_null(settings, "sample_interval_s", &ignored, fault) < 0)
        return lp_run_fault_within(fault, "settings.");
    return 0;
}

static int parse_stamp(const json_t *json, const char *key, struct lp_run_stamp *stamp, struct lp_run_fault *fault)
{
    json_t *object;
    if (lp_run_field_object(json, key, &object, fault) < 0)
        return -1;
    if (lp_run_field_count(object, "realtime_ns", 0, &stamp->realtime_ns, fault) < 0 ||
        lp_run_field_count(object, "monotonic_ns", 0, &stamp->monotonic_ns, fault) < 0 ||
        lp_run_field_count(object, "boottime_ns", 0, &stamp->boottime_ns, fault) < 0)
        return lp_run_fault_within(fault, "%s.", key);
    return 0;
}

static int parse_folder_clock(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *clock = json_object_get(json, "folder_clock");
    document->folder_clock = (struct lp_run_folder_clock){0};
    if (!clock || json_is_null(clock))
        return 0;
    if (lp_run_field_object(json, "folder_clock", &clock, fault) < 0)
        return -1;
    if (lp_run_field_count(clock, "before_ns", 0, &document->folder_clock.before_ns, fault) < 0 ||
        lp_run_field_count(clock, "stamped_ns", 0, &document->folder_clock.stamped_ns, fault) < 0 ||
        lp_run_field_count(clock, "after_ns", 0, &document->folder_clock.after_ns, fault) < 0)
        return lp_run_fault_within(fault, "folder_clock.");
    return 0;
}

static int parse_end(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *ended = json_object_get(json, "ended");
    document->ended = ended && !json_is_null(ended);
    document->signal = document->exit_status = -1;
    if (!document->ended)
        return 0;
    if (lp_run_field_object(json, "ended", &ended, fault) < 0)
        return -1;
    if (lp_run_field_count_or_null(ended, "signal", 1, &document->signal, fault) < 0 ||
        lp_run_field_count_or_null(ended, "exit_status", 0, &document->exit_status, fault) < 0)
        return lp_run_fault_within(fault, "ended.");
    return 0;
}

static int parse_state(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *clock;
    if (parse_stamp(json, "started", &document->started, fault) < 0 ||
        parse_stamp(json, "written", &document->written, fault) < 0 || parse_folder_clock(document, json, fault) < 0)
        return -1;
    if (document->written.monotonic_ns < document->started.monotonic_ns)
        return lp_run_fault_set(fault, "written.monotonic_ns: before started");
    if (lp_run_field_either(json, "state", "running", "closed", &document->closed, fault) < 0 ||
        parse_end(document, json, fault) < 0 || lp_run_field_count(json, "flush", 1, &document->flush, fault) < 0 ||
        lp_run_field_either(json, "image", "shared", "private", &document->private_image, fault) < 0 ||
        lp_run_field_object(json, "clock", &clock, fault) < 0)
        return -1;
    if (lp_run_field_string(clock, "wall", &document->wall_clock, fault) < 0 ||
        lp_run_field_string(clock, "cpu", &document->cpu_clock, fault) < 0)
        return lp_run_fault_within(fault, "clock.");
    return 0;
}

static int parse_troubles(struct lp_run_document *document, json_t *json, struct lp_run_fault *fault)
{
    json_t *troubles = json_object_get(json, "troubles");
    document->n_troubles = 0;
    document->short_of_memory = false;
    if (!troubles)
        return 0;
    if (!json_is_object(troubles))
        return lp_run_fault_set(fault, "troubles: an object expected, found %s", lp_run_json_kind(troubles));
    for (void *at = json_object_iter(troubles); at; at = json_object_iter_next(troubles, at)) {
        struct lp_run_trouble_view trouble = {{json_object_iter_key(at), json_object_iter_key_len(at)}, 0};
        if (lp_run_value_count(json_object_iter_value(at), &trouble.count, fault) < 0)
            return lp_run_fault_within(fault, "troubles.%.64s: ", trouble.name.bytes);
        if (lp_run_room(&document->troubles, &document->troubles_room, document->n_troubles, sizeof trouble) < 0)
            return lp_run_fault_no_memory(fault);
        document->troubles[document->n_troubles++] = trouble;
        document->short_of_memory |= strcmp(trouble.name.bytes, "image_full") == 0 && trouble.count;
    }
    return 0;
}

/* A figure of an object that may be missing, of a key that may; UINT64_MAX: not measured. */
static int figure_within(const json_t *json, const char *object_key, const char *key, uint64_t *value,
                         struct lp_run_fault *fault)
{
    json_t *object = json_object_get(json, object_key);
    *value = UINT64_MAX;
    if (!object || json_is_null(object))
        return 0;
    if (!json_is_object(object))
        return lp_run_fault_set(fault, "%s: an object expected, found %s", object_key, lp_run_json_kind(object));
    json_t *found = json_object_get(object, key);
    if (!found || json_is_null(found))
        return 0;
    if (lp_run_value_count(found, value, fault) < 0)
        return lp_run_fault_within(fault, "%s.%s: ", object_key, key);
    return 0;
}

static int parse_sampling(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    return figure_within(json, "samples", "taken", &document->samples_taken, fault) < 0 ||
                   figure_within(json, "samples", "lost", &document->samples_lost, fault) < 0
               ? -1
               : 0;
}

static int parse_slot(struct lp_run_document *document, const json_t *thread, struct lp_run_fault *fault)
{
    struct lp_run_slot slot;
    json_t *nodes;
    uint64_t tid;
    bool alive;
    if (!json_is_object(thread))
        return lp_run_fault_set(fault, ": an object expected, found %s", lp_run_json_kind(thread));
    if (text_of(document, thread, "name", 0, &slot.name, fault) < 0 ||
        lp_run_field_count(thread, "tid", 0, &tid, fault) < 0 ||
        lp_run_field_bool(thread, "alive", &alive, fault) < 0 || lp_run_field_array(thread, "nodes", &nodes, fault) < 0)
        return lp_run_fault_within(fault, ".");
    if (lp_run_document_nodes(document, &slot, nodes, fault) < 0)
        return lp_run_fault_within(fault, ".nodes");
    if (lp_run_room(&document->slots, &document->slots_room, document->n_slots, sizeof slot) < 0)
        return lp_run_fault_no_memory(fault);
    document->slots[document->n_slots++] = slot;
    return 0;
}

static int parse_threads(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *threads, *thread;
    size_t i;
    document->n_slots = document->n_records = document->n_buckets = document->n_tallies = 0;
    if (lp_run_field_array(json, "threads", &threads, fault) < 0)
        return -1;
    json_array_foreach(threads, i, thread) if (parse_slot(document, thread, fault) < 0) return fault->no_memory
        ? -1
        : lp_run_fault_within(fault, "threads[%zu]", i);
    return 0;
}

/* Jansson takes a NUL for the end: so do disks that lost power leave a file behind. */
static int json_fault(const json_error_t *error, const char *bytes, size_t len, struct lp_run_fault *fault)
{
    const char *nul = memchr(bytes, '\0', len);
    if (json_error_code(error) != json_error_premature_end_of_input)
        return lp_run_fault_set(fault, "not JSON at byte %d: %s", error->position, error->text);
    if (nul)
        return lp_run_fault_set(fault, "not JSON at byte %td: a NUL", nul - bytes);
    return lp_run_fault_set(fault, "cut off at byte %zu", len);
}

/* Jansson reports a lack of memory as one thing or another; malloc says it in errno. */
static int parse_json(struct lp_run_document *document, const char *bytes, size_t len, struct lp_run_fault *fault)
{
    json_error_t error;
    json_decref(document->json);
    errno = 0;
    document->json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);
    if (errno == ENOMEM)
        return lp_run_fault_no_memory(fault);
    return document->json ? 0 : json_fault(&error, bytes, len, fault);
}

/* Decoding never makes a text longer, so that names of len bytes in all hold whatever is decoded. */
static int make_name_room(struct lp_run_document *document, size_t len)
{
    document->names_used = 0;
    if (document->names_room >= len)
        return 0;
    free(document->names);
    document->names = malloc(len);
    document->names_room = document->names ? len : 0;
    return document->names ? 0 : -1;
}

int lp_run_document_parse(struct lp_run_document *document, const char *bytes, size_t len, struct lp_run_fault *fault)
{
    if (!len)
        return lp_run_fault_set(fault, "empty file");
    if (make_name_room(document, len) < 0)
        return lp_run_fault_no_memory(fault);
    document->pending = NULL;
    if (parse_json(document, bytes, len, fault) < 0)
        return -1;
    json_t *json = document->json;
    if (parse_format(json, fault) < 0 || parse_process(document, json, fault) < 0 ||
        parse_job(document, json, fault) < 0 || parse_command(json, fault) < 0 ||
        parse_origin(document, json, fault) < 0 || parse_settings(document, json, fault) < 0 ||
        lp_run_document_machine(document, json, fault) < 0 || lp_run_document_gpus(document, json, fault) < 0 ||
        parse_state(document, json, fault) < 0 || parse_troubles(document, json, fault) < 0 ||
        parse_sampling(document, json, fault) < 0)
        return -1;
    return parse_threads(document, json, fault);
}

void lp_run_document_release(struct lp_run_document *document)
{
    json_decref(document->json);
    free(document->names);
    free(document->slots);
    free(document->records);
    free(document->buckets);
    free(document->tallies);
    free(document->troubles);
    free(document->gpus);
    *document = (struct lp_run_document){0};
}

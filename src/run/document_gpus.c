/* What a document says of the devices of its machine. Absent where there are none, or nobody has looked. */
#include "run/document.h"
#include "run/fields.h"
#include "run/room.h"

/* Of a key that is there, or is not known. */
static int text_or_null(struct lp_run_document *document, const json_t *gpu, const char *key, struct lp_span *text,
                        struct lp_run_fault *fault)
{
    struct lp_span encoded;
    *text = (struct lp_span){NULL, 0};
    if (lp_run_field_string_or_null(gpu, key, &encoded, fault) < 0)
        return -1;
    if (!encoded.bytes)
        return 0;
    return lp_run_document_text(document, encoded, text, fault) < 0 ? lp_run_fault_within(fault, "%s: ", key) : 0;
}

static int parse_gpu(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    struct lp_run_gpu_view gpu;
    int64_t memory_bytes;
    if (!json_is_object(json))
        return lp_run_fault_set(fault, "an object expected, found %s", lp_run_json_kind(json));
    if (lp_run_field_count(json, "index", 0, &gpu.index, fault) < 0 ||
        text_or_null(document, json, "name", &gpu.name, fault) < 0 ||
        text_or_null(document, json, "uuid", &gpu.uuid, fault) < 0 ||
        lp_run_field_count_or_null(json, "memory_bytes", 0, &memory_bytes, fault) < 0 ||
        lp_run_field_string(json, "state", &gpu.state, fault) < 0 ||
        lp_run_field_string(json, "own", &gpu.own, fault) < 0)
        return -1;
    gpu.memory_bytes = memory_bytes < 0 ? UINT64_MAX : (uint64_t)memory_bytes;
    if (lp_run_room(&document->gpus, &document->gpus_room, document->n_gpus, sizeof gpu) < 0)
        return lp_run_fault_no_memory(fault);
    document->gpus[document->n_gpus++] = gpu;
    return 0;
}

int lp_run_document_gpus(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *gpus = json_object_get(json, "gpus");
    document->n_gpus = 0;
    if (!gpus)
        return 0;
    if (!json_is_array(gpus))
        return lp_run_fault_set(fault, "gpus: an array expected, found %s", lp_run_json_kind(gpus));
    for (size_t i = 0; i < json_array_size(gpus); i++)
        if (parse_gpu(document, json_array_get(gpus, i), fault) < 0)
            return lp_run_fault_within(fault, "gpus[%zu]: ", i);
    return 0;
}

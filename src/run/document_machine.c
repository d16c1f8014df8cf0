/* What a document says of the machine and of the process's memory. Files of older writers say nothing. */
#include <math.h>
#include <string.h>

#include "run/document.h"
#include "run/fields.h"

static bool is_there(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

static bool is_none(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, "none") == 0;
}

/* 0: not there, or null. */
static int count_if_there(const json_t *object, const char *key, uint64_t *value, struct lp_run_fault *fault)
{
    *value = 0;
    return is_there(object, key) ? lp_run_field_count(object, key, 1, value, fault) : 0;
}

static int text_if_there(struct lp_run_document *document, const json_t *object, const char *key, struct lp_span *text,
                         struct lp_run_fault *fault)
{
    struct lp_span encoded;
    *text = (struct lp_span){NULL, 0};
    if (!is_there(object, key))
        return 0;
    if (lp_run_field_string(object, key, &encoded, fault) < 0)
        return -1;
    return lp_run_document_text(document, encoded, text, fault) < 0 ? lp_run_fault_within(fault, "%s: ", key) : 0;
}

static int parse_limits(struct lp_run_machine *machine, const json_t *json, struct lp_run_fault *fault)
{
    if (is_none(json, "cpu_limit_cores"))
        machine->cpu_limit_cores = INFINITY;
    else if (is_there(json, "cpu_limit_cores") &&
             lp_run_field_seconds_or_null(json, "cpu_limit_cores", &machine->cpu_limit_cores, fault) < 0)
        return -1;
    if (is_none(json, "memory_limit_bytes"))
        machine->memory_limit_bytes = UINT64_MAX;
    else if (count_if_there(json, "memory_limit_bytes", &machine->memory_limit_bytes, fault) < 0)
        return -1;
    return 0;
}

static int parse_machine(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    struct lp_run_machine *machine = &document->machine;
    if (count_if_there(json, "cores", &machine->cores, fault) < 0 ||
        count_if_there(json, "cores_usable", &machine->cores_usable, fault) < 0 ||
        count_if_there(json, "ram_bytes", &machine->ram_bytes, fault) < 0 || parse_limits(machine, json, fault) < 0 ||
        text_if_there(document, json, "cores_usable_list", &document->usable_list, fault) < 0 ||
        text_if_there(document, json, "kernel", &document->kernel, fault) < 0 ||
        text_if_there(document, json, "cpu_model", &document->cpu_model, fault) < 0)
        return lp_run_fault_within(fault, "machine.");
    return 0;
}

int lp_run_document_machine(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault)
{
    json_t *object;
    document->machine = (struct lp_run_machine){.cpu_limit_cores = NAN};
    document->usable_list = document->kernel = document->cpu_model = (struct lp_span){NULL, 0};
    document->peak_rss_bytes = document->pss_bytes = 0;
    if (is_there(json, "machine") &&
        (lp_run_field_object(json, "machine", &object, fault) < 0 || parse_machine(document, object, fault) < 0))
        return -1;
    if (!is_there(json, "memory"))
        return 0;
    if (lp_run_field_object(json, "memory", &object, fault) < 0)
        return -1;
    if (count_if_there(object, "peak_rss_bytes", &document->peak_rss_bytes, fault) < 0 ||
        count_if_there(object, "pss_bytes", &document->pss_bytes, fault) < 0)
        return lp_run_fault_within(fault, "memory.");
    return 0;
}

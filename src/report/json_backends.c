/* K9 for programs: docs/report-json.md, "Backends". */
#include "report/json_facts.h"

#include "report/json_value.h"

static void backend(struct lp_emit *emit, const struct lp_run_backend *item)
{
    static const char *const states[] = {"open", "written", "none", "missing", "unreadable", "unnoted"};
    bool noted = item->backend.bytes != NULL;
    lp_report_json_text(emit, "worker", &item->worker);
    if (item->worker_index == SIZE_MAX)
        lp_report_json_null(emit, "worker_index");
    else
        lp_report_json_count(emit, "worker_index", item->worker_index);
    lp_report_json_text(emit, "role", &item->role);
    lp_report_json_text(emit, "backend", &item->backend);
    lp_report_json_text(emit, "window_phase", &item->window_phase);
    lp_report_json_array(emit, "window");
    if (noted) {
        lp_report_json_count(emit, NULL, item->start);
        lp_report_json_count(emit, NULL, item->end);
    }
    lp_emit_close(emit, ']');
    if (noted)
        lp_report_json_count(emit, "entries", item->entries);
    else
        lp_report_json_null(emit, "entries");
    lp_report_json_string(emit, "state", states[item->state]);
    lp_report_json_bool(emit, "cut_off", item->cut_off);
    lp_report_json_string(emit, "path", item->path);
    if (item->state == LP_BACKEND_WRITTEN || item->state == LP_BACKEND_UNNOTED)
        lp_report_json_count(emit, "bytes", item->bytes);
    else
        lp_report_json_null(emit, "bytes");
    lp_report_json_text(emit, "reason", &item->reason);
    lp_report_json_count(emit, "errors", item->errors);
    lp_report_json_text(emit, "error", &item->error);
}

void lp_report_json_backends(struct lp_emit *emit, const struct lp_run *run)
{
    lp_emit_newline(emit);
    lp_report_json_array(emit, "backends");
    for (size_t i = 0; i < run->n_backends; i++) {
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        backend(emit, &run->backends[i]);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

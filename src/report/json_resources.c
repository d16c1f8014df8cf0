#include "report/json_resources.h"

#include <math.h>

#include "report/json_value.h"

static void use(struct lp_emit *emit, const char *key, const struct lp_analysis_use *figures, bool summed)
{
    lp_report_json_object(emit, key);
    lp_report_json_count(emit, "processes", figures->n_known);
    if (summed) {
        lp_report_json_real(emit, "sum", figures->sum);
        lp_report_json_real(emit, "share", figures->share);
    }
    lp_report_json_real(emit, "mean", figures->mean);
    lp_report_json_real(emit, "heaviest", figures->heaviest);
    if (figures->heaviest_worker == SIZE_MAX)
        lp_report_json_null(emit, "heaviest_worker");
    else
        lp_report_json_count(emit, "heaviest_worker", figures->heaviest_worker);
    lp_emit_close(emit, '}');
}

static void limit(struct lp_emit *emit, const char *key, double value)
{
    if (isinf(value))
        lp_report_json_string(emit, key, "none");
    else
        lp_report_json_real(emit, key, value);
}

static void text_or_null(struct lp_emit *emit, const char *key, const struct lp_text *text)
{
    if (text)
        lp_report_json_text(emit, key, text);
    else
        lp_report_json_null(emit, key);
}

static void host(struct lp_emit *emit, const struct lp_text *name, const struct lp_analysis_host *figures)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, NULL);
    lp_report_json_text(emit, "host", name);
    lp_report_json_count(emit, "processes", figures->n_workers);
    lp_report_json_real(emit, "cores", figures->cores);
    lp_report_json_real(emit, "cores_usable", figures->cores_usable);
    limit(emit, "cpu_limit_cores", figures->cpu_limit_cores);
    lp_report_json_real(emit, "ram_bytes", figures->ram_bytes);
    limit(emit, "memory_limit_bytes", figures->memory_limit_bytes);
    lp_report_json_real(emit, "cores_granted", figures->cores_granted);
    lp_report_json_real(emit, "memory_granted_bytes", figures->memory_granted_bytes);
    text_or_null(emit, "kernel", figures->kernel);
    text_or_null(emit, "cpu_model", figures->cpu_model);
    use(emit, "cpu_cores", &figures->cpu_cores, true);
    use(emit, "rss_bytes", &figures->rss_bytes, true);
    use(emit, "pss_bytes", &figures->pss_bytes, true);
    lp_emit_close(emit, '}');
}

void lp_report_json_resources(struct lp_emit *emit, const struct lp_analysis *analysis)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, "resources");
    lp_report_json_array(emit, "hosts");
    for (size_t i = 0; i < analysis->run->n_hosts; i++)
        host(emit, &analysis->run->hosts[i], &analysis->hosts[i]);
    lp_emit_close(emit, ']');
    lp_report_json_array(emit, "roles");
    for (size_t i = 0; i < analysis->n_roles; i++) {
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "name", &analysis->roles[i].role->name);
        lp_report_json_count(emit, "processes", analysis->roles[i].role->n_workers);
        use(emit, "cpu_cores", &analysis->roles[i].cpu_cores, false);
        use(emit, "rss_bytes", &analysis->roles[i].rss_bytes, false);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
}

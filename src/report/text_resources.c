/* K7: what each host granted the run, and how much of that was used. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/text.h"
#include "run/text.h"

#define HOSTS_SHOWN 12
#define ROLES_SHOWN 20
#define NAME_COLUMNS 22

/* Columns at which figures end. */
enum { GRANTED = 34, USED = 46, SHARE = 54, MEAN = 66, HEAVIEST = 80 };

typedef struct lp_report_cell show_figure(double figure);

static void right(struct lp_report_page *page, const char *text, size_t column)
{
    lp_report_page_right(page, text, lp_report_text_at(page, column));
}

static void title(struct lp_report_page *page)
{
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, "RESOURCES");
    lp_report_page_style(page, LP_STYLE_PLAIN);
    right(page, "granted", GRANTED);
    right(page, "used", USED);
    right(page, "mean", MEAN);
    right(page, "heaviest", HEAVIEST);
    lp_report_page_end(page);
}

static void row(struct lp_report_page *page, const char *name, double granted, const struct lp_analysis_use *use,
                show_figure *show)
{
    lp_report_page_to(page, 2);
    lp_report_page_text(page, name);
    right(page, show(granted).text, GRANTED);
    right(page, show(use->sum).text, USED);
    right(page, lp_report_share(use->share).text, SHARE);
    right(page, show(use->mean).text, MEAN);
    right(page, show(use->heaviest).text, HEAVIEST);
    lp_report_page_end(page);
}

/* ", limit 1.5 cores", "; no limit" has no need to be said. */
static void limit(struct lp_report_page *page, double limit, show_figure *show)
{
    if (isinf(limit))
        return;
    lp_report_text_note(page, ", limit ");
    lp_report_text_note(page, show(limit).text);
}

static void machine(struct lp_report_page *page, const struct lp_analysis_host *host)
{
    lp_report_text_note_begin(page);
    lp_report_text_note(page, lp_report_cores(host->cores).text);
    lp_report_text_note(page, " cores");
    if (isnan(host->cores_usable) || host->cores_usable < host->cores) {
        lp_report_text_note(page, ", usable ");
        lp_report_text_note(page, lp_report_cores(host->cores_usable).text);
    }
    limit(page, host->cpu_limit_cores, lp_report_cores);
    lp_report_text_note(page, "; RAM ");
    lp_report_text_note(page, lp_report_size(host->ram_bytes).text);
    limit(page, host->memory_limit_bytes, lp_report_size);
    if (host->cpu_model) {
        lp_report_text_note(page, "; ");
        lp_report_text_note(page, host->cpu_model->bytes);
    }
    if (host->kernel) {
        lp_report_text_note(page, "; Linux ");
        lp_report_text_note(page, host->kernel->bytes);
    }
    lp_report_text_note_end(page);
}

/* The worker of the host that knows of most devices; NULL if none does. */
static const struct lp_run_worker *who_knows_devices(const struct lp_run *run, const struct lp_text *host)
{
    const struct lp_run_worker *best = NULL;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        if (worker->n_devices > (best ? best->n_devices : 0) &&
            lp_text_equal(lp_text_span(&worker->host), lp_text_span(host)))
            best = worker;
    }
    return best;
}

static bool is_same_kind(const struct lp_run_device *a, const struct lp_run_device *b)
{
    return a->memory_bytes == b->memory_bytes && lp_text_equal(lp_text_span(&a->name), lp_text_span(&b->name));
}

/* "GPUs 4 x NVIDIA H200 with 150.8 GB": those that follow one another and are alike, together. */
static void devices(struct lp_report_page *page, const struct lp_run *run, const struct lp_text *host)
{
    const struct lp_run_worker *worker = who_knows_devices(run, host);
    if (!worker)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "GPUs ");
    for (size_t i = 0, n; i < worker->n_devices; i += n) {
        const struct lp_run_device *device = &worker->devices[i];
        for (n = 1; i + n < worker->n_devices && is_same_kind(device, &worker->devices[i + n]);)
            n++;
        lp_report_text_note(page, i ? ", " : "");
        lp_report_text_note(page, lp_report_count(n).text);
        lp_report_text_note(page, " x ");
        if (device->name.bytes)
            lp_report_page_name(page, device->name.bytes, device->name.len, NAME_COLUMNS);
        else
            lp_report_text_note(page, "unnamed");
        lp_report_text_note(page, " with ");
        lp_report_text_note(
            page, lp_report_size(device->memory_bytes == UINT64_MAX ? NAN : (double)device->memory_bytes).text);
    }
    lp_report_text_note_end(page);
}

static void worker_name(struct lp_report_page *page, const char *what, const struct lp_run *run, size_t index)
{
    const struct lp_run_worker *worker = &run->workers[index];
    lp_report_text_note(page, what);
    lp_report_page_name(page, worker->role.bytes, worker->role.len, NAME_COLUMNS);
    lp_report_text_note(page, worker->role.len ? " " : "");
    lp_report_text_note(page, lp_report_process(worker->rank, worker->index, worker->pid).text);
}

/* Of which process the figures in the last column are, where there are several. */
static void heaviest(struct lp_report_page *page, const struct lp_run *run, const struct lp_analysis_host *host)
{
    bool cpu = host->cpu_cores.heaviest_worker != SIZE_MAX, memory = host->rss_bytes.heaviest_worker != SIZE_MAX;
    if (host->n_workers <= 1 || (!cpu && !memory))
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "heaviest: ");
    if (cpu)
        worker_name(page, "CPU ", run, host->cpu_cores.heaviest_worker);
    if (memory)
        worker_name(page, cpu ? ", memory " : "memory ", run, host->rss_bytes.heaviest_worker);
    lp_report_text_note_end(page);
}

static void incomplete(struct lp_report_page *page, const char *what, const struct lp_analysis_use *use, size_t n,
                       const char *why)
{
    if (use->n_known == 0 || use->n_known == n)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, what);
    lp_report_text_note(page, " was measured of ");
    lp_report_text_note(page, lp_report_count(use->n_known).text);
    lp_report_text_note(page, " of ");
    lp_report_text_note(page, lp_report_text_plural(n, "process", "processes").text);
    lp_report_text_note(page, why);
    lp_report_text_note_end(page);
}

static void host(struct lp_report_page *page, const struct lp_analysis *analysis, size_t index)
{
    const struct lp_run *run = analysis->run;
    const struct lp_analysis_host *figures = &analysis->hosts[index];
    lp_report_page_name(page, run->hosts[index].bytes, run->hosts[index].len, NAME_COLUMNS);
    lp_report_page_text(page, "  (");
    lp_report_page_text(page, lp_report_text_plural(figures->n_workers, "process", "processes").text);
    lp_report_page_text(page, ")");
    lp_report_page_end(page);
    if (run->sampling != NULL)
        row(page, "CPU cores", figures->cores_granted, &figures->cpu_cores, lp_report_cores);
    row(page, "memory", figures->memory_granted_bytes, &figures->rss_bytes, lp_report_size);
    if (figures->pss_bytes.n_known > 0)
        row(page, "memory, shared once", figures->memory_granted_bytes, &figures->pss_bytes, lp_report_size);
    machine(page, figures);
    devices(page, run, &run->hosts[index]);
    heaviest(page, run, figures);
    const char *no_samples = ": the others took no two samples of it";
    incomplete(page, "CPU", &figures->cpu_cores, figures->n_workers, no_samples);
    incomplete(page, "memory", &figures->rss_bytes, figures->n_workers, no_samples);
    incomplete(page, "memory, shared once,", &figures->pss_bytes, figures->n_workers, "");
}

static void role(struct lp_report_page *page, const struct lp_analysis_role *figures, bool sampled)
{
    lp_report_page_name(page, figures->role->name.bytes, figures->role->name.len, NAME_COLUMNS);
    lp_report_page_text(page, "  (");
    lp_report_page_text(page, lp_report_text_plural(figures->role->n_workers, "process", "processes").text);
    lp_report_page_text(page, ")");
    lp_report_page_end(page);
    if (sampled) {
        lp_report_page_to(page, 2);
        lp_report_page_text(page, "CPU cores");
        right(page, lp_report_cores(figures->cpu_cores.mean).text, MEAN);
        right(page, lp_report_cores(figures->cpu_cores.heaviest).text, HEAVIEST);
        lp_report_page_end(page);
    }
    lp_report_page_to(page, 2);
    lp_report_page_text(page, "memory");
    right(page, lp_report_size(figures->rss_bytes.mean).text, MEAN);
    right(page, lp_report_size(figures->rss_bytes.heaviest).text, HEAVIEST);
    lp_report_page_end(page);
}

static void and_more(struct lp_report_page *page, size_t n, const char *one, const char *many)
{
    if (n == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "and ");
    lp_report_text_note(page, lp_report_text_plural(n, one, many).text);
    lp_report_text_note_end(page);
}

static bool several_processes(const struct lp_analysis *analysis)
{
    for (size_t i = 0; i < analysis->run->n_hosts; i++)
        if (analysis->hosts[i].n_workers > 1)
            return true;
    return false;
}

/* What the columns are: always said, not only in the documentation. */
static void explain(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    bool several = several_processes(analysis);
    lp_report_text_note_begin(page);
    if (analysis->run->sampling != NULL)
        lp_report_text_note(page, several ? "CPU: cores in use on average, of one process over its own life; "
                                          : "CPU: cores in use on average; ");
    lp_report_text_note(page, "memory: the most that was resident");
    lp_report_text_note(page, several ? ", mean and heaviest of one process; its sum, over processes at the same time, "
                                        "counts shared pages several times"
                                      : "");
    lp_report_text_note(page, "; % of what is granted");
    lp_report_text_note_end(page);
}

void lp_report_text_resources(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    size_t n_hosts = analysis->run->n_hosts, n_roles = analysis->n_roles > 1 ? analysis->n_roles : 0;
    if (!lp_analysis_has_resources(analysis))
        return;
    title(page);
    for (size_t i = 0; i < n_hosts && i < HOSTS_SHOWN; i++)
        host(page, analysis, i);
    and_more(page, n_hosts > HOSTS_SHOWN ? n_hosts - HOSTS_SHOWN : 0, "more host", "more hosts");
    for (size_t i = 0; i < n_roles && i < ROLES_SHOWN; i++)
        role(page, &analysis->roles[i], analysis->run->sampling != NULL);
    and_more(page, n_roles > ROLES_SHOWN ? n_roles - ROLES_SHOWN : 0, "more role", "more roles");
    explain(page, analysis);
}

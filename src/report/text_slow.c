/* Which hosts and processes stand out among the others of the role. Nothing where none does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/text.h"

#define SHOWN 4 /* Of hosts, and of processes; the rest is counted. */
#define INDENT 4
#define HOST_COLUMNS 32
#define PHASE_COLUMNS 40
#define WAIT_DIFFERS 0.05 /* From this difference on it is said how much each of them waited. */

static void words(struct lp_report_page *page, const char *text)
{
    lp_report_page_words(page, text, strlen(text), INDENT);
}

static void piece(struct lp_report_page *page, const char *text)
{
    lp_report_page_word(page, text, strlen(text), INDENT);
}

static void host_name(struct lp_report_page *page, const struct lp_text *host)
{
    lp_report_page_name(page, host->bytes, host->len, HOST_COLUMNS);
}

/* "node07 (8 processes)", "rank 5 on node03", "pid 4711 on node03" */
static void who(struct lp_report_page *page, const struct lp_run *run, const struct lp_analysis_pace *pace)
{
    if (pace->worker == SIZE_MAX) {
        host_name(page, &run->hosts[pace->host]);
        words(page, " (");
        piece(page, lp_report_text_plural(pace->n_workers, "process", "processes").text);
        words(page, ")");
        return;
    }
    const struct lp_run_worker *worker = &run->workers[pace->worker];
    piece(page, lp_report_process(worker->rank, worker->index, worker->pid).text);
    words(page, " on ");
    host_name(page, &worker->host);
}

/* "; it waited 3% of its time in phases, the median process 18%" */
static void waits(struct lp_report_page *page, const struct lp_analysis_pace *pace, const char *what)
{
    if (!(fabs(pace->wait_share - pace->median_wait_share) >= WAIT_DIFFERS)) /* not known, too */
        return;
    words(page, "; it waited ");
    piece(page, lp_report_percent(pace->wait_share).text);
    words(page, " of its time in phases, the median ");
    words(page, what);
    words(page, " ");
    piece(page, lp_report_percent(pace->median_wait_share).text);
}

/* "- rank 5 on node03 takes 1.20x the median process in step: 480.0ms an entry against 400.0ms, 12m in all" */
static void line(struct lp_report_page *page, const struct lp_run *run, const struct lp_analysis_role *role,
                 const struct lp_analysis_pace *pace)
{
    const char *what = pace->worker == SIZE_MAX ? "host" : "process";
    const char *mark = role->phases[pace->phase].self_estimated ? "~" : "";
    char text[sizeof(struct lp_report_cell) + 16];
    lp_report_page_to(page, INDENT - 2);
    lp_report_page_text(page, "-");
    lp_report_page_to(page, INDENT);
    who(page, run, pace);
    snprintf(text, sizeof text, " takes %s%sx", mark, lp_report_ratio(pace->ratio).text);
    words(page, text);
    words(page, " the median ");
    words(page, what);
    words(page, " in ");
    lp_report_text_path(page, role, pace->phase, PHASE_COLUMNS);
    words(page, ": ");
    piece(page, lp_report_duration(pace->mean_ns).text);
    words(page, " an entry against ");
    piece(page, lp_report_duration(pace->median_ns).text);
    words(page, ", ");
    piece(page, lp_report_duration(pace->extra_ns).text);
    words(page, " more in all");
    waits(page, pace, what);
    lp_report_page_fit(page, INDENT);
    lp_report_page_end(page);
}

/* All processes of a slow host are slow; that is said once. */
static bool host_is_named(const struct lp_analysis_role *role, const struct lp_analysis_pace *pace)
{
    for (size_t i = 0; i < role->slow_hosts.n; i++) {
        const struct lp_analysis_pace *host = &role->slow_hosts.paces[i];
        if (host->notable && host->host == pace->host && host->phase == pace->phase)
            return true;
    }
    return false;
}

static void list(struct lp_report_page *page, const struct lp_run *run, const struct lp_analysis_role *role,
                 const struct lp_analysis_paces *paces, bool hosts)
{
    size_t shown = 0, told = 0;
    for (size_t i = 0; i < paces->n && paces->paces[i].notable; i++) {
        bool named = !hosts && host_is_named(role, &paces->paces[i]);
        told += named;
        if (named || shown == SHOWN)
            continue;
        line(page, run, role, &paces->paces[i]);
        shown++;
    }
    size_t more = paces->n_notable - shown - told;
    if (more == 0 || shown == 0)
        return;
    lp_report_page_to(page, INDENT);
    lp_report_page_text(page, "and ");
    lp_report_page_text(
        page, lp_report_text_plural(more, hosts ? "more host" : "more process", hosts ? "more hosts" : "more processes")
                  .text);
    lp_report_page_end(page);
}

void lp_report_text_slow(struct lp_report_page *page, const struct lp_analysis *analysis,
                         const struct lp_analysis_role *role)
{
    if (role->slow_hosts.n_notable + role->slow_workers.n_notable == 0)
        return;
    lp_report_page_end(page);
    lp_report_page_line(page, LP_STYLE_BOLD, "SLOWER THAN THE OTHERS");
    list(page, analysis->run, role, &role->slow_hosts, true);
    list(page, analysis->run, role, &role->slow_workers, false);
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "self time of an entry; more than chance makes of equal ones");
    lp_report_text_note_end(page);
}

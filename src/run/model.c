#include <signal.h>
#include <stdlib.h>

#include "run/backends.h"
#include "run/filter.h"
#include "run/fold.h"
#include "run/provenance.h"
#include "run/samples_load.h"

void lp_run_free(struct lp_run *run)
{
    if (!run)
        return;
    lp_run_phase_free(run->tree);
    for (size_t i = 0; i < run->n_roles; i++) {
        lp_run_phase_free(run->roles[i].tree);
        lp_text_release(&run->roles[i].name);
        free(run->roles[i].workers);
        lp_run_sampled_free(run->roles[i].sampled, run->roles[i].n_sampled);
    }
    for (size_t i = 0; i < run->n_workers; i++)
        lp_run_worker_release(&run->workers[i]);
    for (size_t i = 0; i < run->n_hosts; i++)
        lp_text_release(&run->hosts[i]);
    for (size_t i = 0; i < run->n_unreadable; i++) {
        free(run->unreadable[i].path);
        free(run->unreadable[i].reason);
    }
    for (size_t i = 0; i < run->n_superseded; i++) {
        lp_text_release(&run->superseded[i].run_id);
        lp_text_release(&run->superseded[i].job);
    }
    for (size_t i = 0; i < run->n_caveats; i++)
        free(run->caveats[i].text);
    lp_run_backends_release(run);
    lp_text_release(&run->run_id);
    free(run->roles);
    free(run->workers);
    free(run->hosts);
    free(run->host_machines);
    free(run->unreadable);
    free(run->copy);
    free(run->missing_ranks);
    free(run->superseded);
    free(run->caveats);
    lp_run_sampling_free(run->sampling);
    lp_run_filter_release(&run->filtered.by);
    lp_run_provenance_release(&run->provenance);
    free(run->metadata);
    free(run->dir);
    free(run);
}

const struct lp_run_phase *lp_run_phase_child(const struct lp_run_phase *phase, const char *name, size_t len)
{
    size_t from = 0, to = phase->n_children;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct lp_run_phase *child = phase->children[middle];
        int order = lp_text_compare(lp_text_span(&child->name), (struct lp_span){name, len});
        if (order == 0)
            return child;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

const struct lp_run_role *lp_run_role_find(const struct lp_run *run, const char *name, size_t len)
{
    size_t from = 0, to = run->n_roles;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct lp_run_role *role = &run->roles[middle];
        int order = lp_text_compare(lp_text_span(&role->name), (struct lp_span){name, len});
        if (order == 0)
            return role;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

size_t lp_run_count_machines(const struct lp_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_hosts; i++)
        n += lp_run_machines_of(run, i);
    return n;
}

static uint64_t began_ns(const struct lp_run *run)
{
    return lp_run_is_filtered(run) ? run->filtered.started_realtime_ns : run->started_realtime_ns;
}

static bool is_after(const struct lp_run *run, const struct lp_run_superseded *other)
{
    return other->later && other->started_realtime_ns >= run->written_realtime_ns;
}

bool lp_run_is_beside(const struct lp_run *run, const struct lp_run_superseded *other)
{
    return other->written_realtime_ns > began_ns(run) && !is_after(run, other);
}

/* Whoever made an id of its own was to join. Of a program that is over, a process may still be there that it started. */
bool lp_run_did_not_join(const struct lp_run *run, const struct lp_run_superseded *other)
{
    return other->generated && !other->other_job && other->own_id_until_ns > began_ns(run) && !is_after(run, other);
}

const struct lp_run_open *lp_run_longest_open(const struct lp_run_worker *worker)
{
    const struct lp_run_open *longest = worker->n_open > 0 ? worker->open : NULL;
    for (size_t i = 1; i < worker->n_open; i++)
        if (worker->open[i].open_ns > longest->open_ns)
            longest = &worker->open[i];
    return longest;
}

const char *lp_run_signal_name(int64_t number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
        {SIGINT, "SIGINT"},   {SIGHUP, "SIGHUP"},   {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGQUIT, "SIGQUIT"},
        {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

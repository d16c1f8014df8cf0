#include "run/machines.h"

#include <stdlib.h>
#include <string.h>

#include "run/text.h"

#define GIVE_NS UINT64_C(5000000000)

/* From when a machine was up until it was last seen, for certain. */
struct boot {
    const char *id; /* Borrowed. */
    uint64_t up_ns, last_ns;
};

static struct boot boot_of(const struct lp_run_worker *worker)
{
    const struct lp_run_stamp *started = &worker->started;
    uint64_t up_ns = started->realtime_ns > started->boottime_ns ? started->realtime_ns - started->boottime_ns : 0;
    return (struct boot){worker->boot_id, up_ns + GIVE_NS, worker->written.realtime_ns};
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct boot *)a)->id, ((const struct boot *)b)->id);
}

/* Workers of one boot become one. */
static size_t merge(struct boot *boots, size_t n)
{
    size_t kept = 0;
    qsort(boots, n, sizeof *boots, by_id);
    for (size_t i = 0; i < n; i++) {
        struct boot *last = kept > 0 ? &boots[kept - 1] : NULL;
        if (!last || strcmp(last->id, boots[i].id) != 0) {
            boots[kept++] = boots[i];
            continue;
        }
        last->up_ns = boots[i].up_ns < last->up_ns ? boots[i].up_ns : last->up_ns;
        last->last_ns = boots[i].last_ns > last->last_ns ? boots[i].last_ns : last->last_ns;
    }
    return kept;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* The most that were up at a moment: of the ends and the beginnings, each in its order. */
static size_t most_at_once(const struct boot *boots, size_t n, uint64_t *ups, uint64_t *lasts)
{
    size_t now = 0, most = 1, ended = 0;
    for (size_t i = 0; i < n; i++) {
        ups[i] = boots[i].up_ns;
        lasts[i] = boots[i].last_ns;
    }
    qsort(ups, n, sizeof *ups, by_number);
    qsort(lasts, n, sizeof *lasts, by_number);
    for (size_t i = 0; i < n; i++) {
        for (now++; ended < i && lasts[ended] <= ups[i]; ended++)
            now--;
        most = now > most ? now : most;
    }
    return most;
}

/* The workers of a host from the i-th on; returns the first of the next. */
static size_t add_host(const struct lp_run *run, size_t i, struct boot *boots, size_t *n)
{
    const struct lp_text *host = &run->workers[i].host;
    for (*n = 0; i < run->n_workers && lp_text_equal(lp_text_span(host), lp_text_span(&run->workers[i].host)); i++)
        if (run->workers[i].boot_id && *run->workers[i].boot_id) /* a process without descriptors cannot read it */
            boots[(*n)++] = boot_of(&run->workers[i]);
    return i;
}

int lp_run_machines(struct lp_run *run)
{
    struct boot *boots = calloc(run->n_workers + 1, sizeof *boots);
    uint64_t *times = calloc(run->n_workers + 1, 2 * sizeof *times);
    run->host_machines = calloc(run->n_hosts + 1, sizeof *run->host_machines);
    if (boots && times && run->host_machines)
        for (size_t i = 0, host = 0, n; i < run->n_workers; host++) {
            i = add_host(run, i, boots, &n);
            n = merge(boots, n);
            run->host_machines[host] = most_at_once(boots, n, times, times + run->n_workers);
        }
    int failed = !boots || !times || !run->host_machines;
    free(boots);
    free(times);
    return failed ? -1 : 0;
}

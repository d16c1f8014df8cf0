#include "cli/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/identity.h"
#include "process/memory.h"
#include "process/stamp.h"

static struct lp_run_stamp now(void)
{
    struct lp_stamp stamp = lp_stamp_now();
    return (struct lp_run_stamp){stamp.realtime_ns, stamp.monotonic_ns, stamp.boottime_ns};
}

static uint64_t cpu_ns(void)
{
    struct timespec used = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void release_entry(struct lp_watch_entry *entry)
{
    lp_run_free(entry->run);
    free(entry->rss_bytes);
    free(entry->stopped);
    *entry = (struct lp_watch_entry){0};
}

static void forget(struct lp_watch *watch, size_t index)
{
    release_entry(&watch->entries[index]);
    memmove(&watch->entries[index], &watch->entries[index + 1], (watch->n - index - 1) * sizeof *watch->entries);
    watch->n--;
    watch->entries[watch->n] = (struct lp_watch_entry){0};
}

void lp_watch_release(struct lp_watch *watch)
{
    lp_top_free(watch->top);
    watch->top = NULL;
    while (watch->n > 0)
        forget(watch, watch->n - 1);
}

static double rss_of(const struct lp_run_worker *worker, const char *boot_id, bool *stopped)
{
    uint64_t bytes;
    struct lp_process_ref process = {(uint64_t)worker->pid, worker->pid_namespace, worker->process_start_ticks};
    bool ended = worker->closed || worker->ended;
    if (ended || *boot_id == '\0' || strcmp(worker->boot_id, boot_id) != 0 ||
        !lp_process_rss(&process, &bytes, stopped))
        return NAN;
    return (double)bytes;
}

static int read_entry(const struct lp_watch *watch, struct lp_watch_entry *entry, const char *boot_id, char *message,
                      size_t message_size)
{
    const struct lp_run_options options = {.no_samples = true, .only_read = true};
    *entry = (struct lp_watch_entry){0};
    if (lp_run_load(&entry->run, watch->dir, &options, message, message_size) != LP_RUN_OK)
        return -1;
    entry->taken = now();
    entry->rss_bytes = calloc(entry->run->n_workers + 1, sizeof *entry->rss_bytes);
    entry->stopped = calloc(entry->run->n_workers + 1, sizeof *entry->stopped);
    bool room = entry->rss_bytes != NULL && entry->stopped != NULL;
    for (size_t i = 0; room && i < entry->run->n_workers; i++)
        entry->rss_bytes[i] = rss_of(&entry->run->workers[i], boot_id, &entry->stopped[i]);
    return 0;
}

static uint64_t age(const struct lp_watch_entry *entry, const struct lp_watch_entry *of)
{
    uint64_t from_ns = entry->taken.monotonic_ns, to_ns = of->taken.monotonic_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* The newest that is old enough, else the oldest. */
static size_t choose_begin(const struct lp_watch *watch, const struct lp_watch_entry *last)
{
    size_t begin = 0;
    uint64_t span_ns = lp_top_span_ns(last->run);
    /* A reading that came a little early is one. */
    span_ns = span_ns > watch->interval_ns / 2 ? span_ns : watch->interval_ns / 2;
    while (begin + 1 < watch->n && age(&watch->entries[begin + 1], last) >= span_ns)
        begin++;
    return begin;
}

/* Makes room by the one whose neighbours are closest. */
static void thin_out(struct lp_watch *watch)
{
    size_t closest = 1;
    for (size_t i = 1; i + 1 < watch->n; i++)
        if (age(&watch->entries[i - 1], &watch->entries[i + 1]) <
            age(&watch->entries[closest - 1], &watch->entries[closest + 1]))
            closest = i;
    forget(watch, closest);
}

static struct lp_top_reading reading_of(const struct lp_watch_entry *entry, const char *boot_id)
{
    return (struct lp_top_reading){.run = entry->run,
                                   .taken = entry->taken,
                                   .boot_id = boot_id,
                                   .time_namespace = lp_time_namespace(),
                                   .rss_bytes = entry->rss_bytes,
                                   .stopped = entry->stopped};
}

int lp_watch_read(struct lp_watch *watch, char *message, size_t message_size)
{
    char boot_id[40];
    struct lp_watch_entry last;
    struct lp_top *top;
    uint64_t began_ns = now().monotonic_ns, began_cpu_ns = cpu_ns();
    lp_boot_id_read(boot_id, sizeof boot_id);
    if (read_entry(watch, &last, boot_id, message, message_size) != 0)
        return -1;
    size_t begin = choose_begin(watch, &last);
    struct lp_top_reading after = reading_of(&last, boot_id), before = reading_of(&watch->entries[begin], boot_id);
    if (lp_top_make(&top, &after, watch->n > 0 ? &before : NULL) != 0) {
        release_entry(&last);
        snprintf(message, message_size, "out of memory");
        return -1;
    }
    lp_top_free(watch->top);
    watch->top = top;
    while (begin-- > 0)
        forget(watch, 0);
    if (watch->n == LP_WATCH_KEPT)
        thin_out(watch);
    watch->entries[watch->n++] = last;
    watch->took_wall_ns = now().monotonic_ns - began_ns;
    watch->took_cpu_ns = cpu_ns() - began_cpu_ns;
    return 0;
}

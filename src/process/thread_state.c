#include "process/thread_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"
#include "process/other.h"
#include "process/stamp.h"

#define SECOND_NS 1000000000u
#define FIELDS_TO_START 19 /* from the state, field 3, to the start time, field 22 */

/* A file of a thread as text; false with errno set. */
static bool read_file(char *text, size_t size, uint64_t pid, uint64_t tid, const char *file)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%llu/task/%llu/%s", (unsigned long long)pid, (unsigned long long)tid, file);
    return lp_small_file_read(path, text, size) >= 0;
}

static uint64_t age_ns(const char *state)
{
    const char *field = state;
    long ticks_per_s = sysconf(_SC_CLK_TCK);
    for (int i = 0; field && i < FIELDS_TO_START; i++)
        field = (field = strchr(field, ' ')) ? field + 1 : NULL;
    if (!field || ticks_per_s <= 0)
        return UINT64_MAX;
    uint64_t begun_ns = strtoull(field, NULL, 10) * (SECOND_NS / (uint64_t)ticks_per_s);
    uint64_t now_ns = lp_stamp_now().boottime_ns;
    return now_ns > begun_ns ? now_ns - begun_ns : 0;
}

static void read_state(struct lp_thread_look *look, uint64_t pid, uint64_t tid)
{
    char text[1024];
    if (!read_file(text, sizeof text, pid, tid, "stat")) {
        if (errno == ENOENT || errno == ESRCH)
            look->state = 'X';
        return;
    }
    const char *name_end = strrchr(text, ')'); /* the name before it may hold anything */
    if (!name_end || name_end[1] != ' ' || name_end[2] == '\0')
        return;
    look->state = name_end[2];
    look->age_ns = age_ns(name_end + 2);
}

void lp_thread_glance(struct lp_thread_look *look, uint64_t pid, uint64_t tid)
{
    *look = (struct lp_thread_look){.age_ns = UINT64_MAX};
    read_state(look, pid, tid);
    look->cpu_known = lp_thread_cpu_read(pid, tid, &look->cpu_ns);
    look->at_ns = lp_stamp_now().monotonic_ns;
}

void lp_thread_look(struct lp_thread_look *look, uint64_t pid, uint64_t tid)
{
    char text[LP_WAIT_CHANNEL_BYTES];
    lp_thread_glance(look, pid, tid);
    if (!read_file(text, sizeof text, pid, tid, "wchan") || strcmp(text, "0") == 0)
        return;
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    memcpy(look->wait_channel, text, len);
}

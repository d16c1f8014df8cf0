/*
 * fake_gpu: stand-ins for libnvidia-ml.so.1 and libcuda.so.1, for machines without a device.
 *
 * What they say stands in the file that FAKE_GPU_SCRIPT names, read anew at every call, so a test can change it while a
 * program runs. One thing a line:
 *
 *   device 0 name=... uuid=... total=N reserved=N used=N busy=PERCENT history=90,95,92 mig=1 stamp=US
 *                                                  stamp: the time of all samples, which only who has seen none so late
 *                                                  gets; without it they are new in each window
 *   instance 0 uuid=MIG-... total=N used=N         part of a divided device; as many lines as there are
 *   process 0 self|PID sm=PERCENT bytes=N          on device 0; sm: a sample in each window; bytes: memory, or "unknown"
 *   error CALL [DEVICE] CODE                       CALL: init, count, handle, name, memory, utilization, samples,
 *                                                  process_samples, holders, mig_mode
 *   delay CALL [DEVICE] MILLISECONDS
 *   long_holders                                   as drivers of the 535 series had them
 *
 * Without a script there is no driver. Each call is written to the file that FAKE_GPU_LOG names: "pid call".
 */
#ifndef FAKE_GPU_SCRIPT_H
#define FAKE_GPU_SCRIPT_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void fake_log(const char *call)
{
    char line[128];
    const char *path = getenv("FAKE_GPU_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    int n = snprintf(line, sizeof line, "%d %s\n", (int)getpid(), call);
    if (write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static inline void fake_sleep_ms(unsigned long ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* The text behind "key=" in a line; "" if it is not there. */
static inline const char *fake_value(const char *line, const char *key, char *value, size_t size)
{
    size_t len = strlen(key);
    value[0] = '\0';
    for (const char *at = strchr(line, ' '); at; at = strchr(at, ' ')) {
        at++;
        if (strncmp(at, key, len) == 0 && at[len] == '=')
            snprintf(value, size, "%.*s", (int)strcspn(at + len + 1, " \n"), at + len + 1);
    }
    return value;
}

static inline unsigned long long fake_number(const char *line, const char *key, unsigned long long otherwise)
{
    char value[64];
    return *fake_value(line, key, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

/* Calls each line that begins with the word; stops where that returns false. False: there is no script. */
static inline bool fake_lines(const char *word, bool (*each)(const char *line, void *context), void *context)
{
    char line[512];
    size_t len = strlen(word);
    const char *path = getenv("FAKE_GPU_SCRIPT");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, word, len) == 0 && (line[len] == ' ' || line[len] == '\n') && !each(line, context))
            break;
    fclose(file);
    return true;
}

struct fake_rule {
    const char *call;
    int device; /* -1: none */
    unsigned long value;
};

static inline bool fake_match(const char *line, void *context)
{
    struct fake_rule *rule = context;
    char call[64];
    unsigned long first, second;
    int n = sscanf(line, "%*s %63s %lu %lu", call, &first, &second);
    if (n < 2 || strcmp(call, rule->call) != 0)
        return true;
    if (n == 3 && (int)first != rule->device)
        return true;
    rule->value = n == 3 ? second : first;
    return false;
}

/* Notes the call, takes its time, and returns the code that the script has for it; 0: none. */
static inline int fake_call(const char *call, int device)
{
    struct fake_rule delay = {call, device, 0}, error = {call, device, 0};
    fake_log(call);
    fake_lines("delay", fake_match, &delay);
    fake_sleep_ms(delay.value);
    fake_lines("error", fake_match, &error);
    return (int)error.value;
}

#endif

/*
 * What the tests of run/ share: worker documents made from a few words, run directories in a temporary folder.
 */
#ifndef LP_TESTS_RUN_SUPPORT_H
#define LP_TESTS_RUN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/run.h"
#include "run/text.h"

#define SECOND UINT64_C(1000000000)
#define EPOCH (UINT64_C(1780000000) * SECOND)

#define NO_RANK (-1)

/* A worker's document in words; what is NULL or 0 takes the value in make_document. */
struct spec {
    const char *worker, *run_id, *role, *host, *boot_id, *state, *ended, *image, *origin, *troubles, *thread_names,
        *interval, *job;
    const char *facts;           /* JSON keys that may be left out, each with a comma behind it */
    long pid, rank, world;       /* NO_RANK: none */
    unsigned long start_ticks;   /* of the process; by default another one for each worker's name */
    uint64_t start_s, written_s; /* After EPOCH. */
    uint64_t suspended_s;        /* Between the two. */
    uint64_t booted_s;           /* After EPOCH - 1000 s. */
    unsigned flush;
    const char *threads; /* JSON, the whole array. */
};

#define OR(value, other) ((value) ? (value) : (other))

#define ONE_THREAD(nodes) "[{\"name\":\"MainThread\",\"tid\":7,\"alive\":true,\"nodes\":[{}" nodes "]}]"
#define STEP ",{\"parent\":0,\"name\":\"step\",\"calls\":2,\"wall_ns\":60,\"cpu_ns\":30,\"hist\":\"30:2\"}"

static inline void put_stamp(FILE *out, const char *key, uint64_t seconds, uint64_t suspended_s, uint64_t booted_s)
{
    fprintf(out, "\"%s\":{\"realtime_ns\":%llu,\"monotonic_ns\":%llu,\"boottime_ns\":%llu},", key,
            (unsigned long long)(EPOCH + seconds * SECOND), (unsigned long long)((1000 + seconds - booted_s) * SECOND),
            (unsigned long long)((1000 + seconds - booted_s + suspended_s) * SECOND));
}

static inline unsigned long ticks_of(const char *worker)
{
    const char *digits = worker ? strrchr(worker, '_') : NULL;
    return 5 + (digits ? strtoul(digits + 1, NULL, 16) : 0);
}

/* To be freed. Kept out of line: gcc 12 takes the stream's buffer for a variable that is gone. */
static __attribute__((noinline, unused)) char *make_document(const struct spec *spec)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out,
            "{\"format\":\"lineprofiler-worker\",\"version\":1,\"worker\":\"%s\",\"run_id\":\"%s\",\"role\":\"%s\",",
            OR(spec->worker, "w_r1_4242_00000001"), OR(spec->run_id, "r1"), OR(spec->role, "actor"));
    char rank[24] = "null";
    if (spec->rank != NO_RANK)
        snprintf(rank, sizeof rank, "%ld", spec->rank);
    fprintf(out, "\"pid\":%ld,\"parent_pid\":1,\"host\":\"%s\",\"rank\":%s,\"world_size\":%ld,\"launcher\":\"slurm\",",
            OR(spec->pid, 4242), OR(spec->host, "node07"), rank, OR(spec->world, 8));
    fprintf(out, "\"job\":{\"system\":\"slurm\",\"id\":\"%s\"},\"boot_id\":\"%s\",\"pid_namespace\":1,",
            OR(spec->job, "99"), OR(spec->boot_id, "b1"));
    fprintf(out, "\"process_start_ticks\":%lu,", OR(spec->start_ticks, ticks_of(spec->worker)));
    fprintf(out, "\"library\":\"0.4.0\",\"runtime\":\"CPython 3.12.1\",\"command\":[\"a\"],");
    fprintf(out, "%s", OR(spec->facts, ""));
    fprintf(out, "\"run_id_origin\":\"%s\",\"settings\":{\"measure_cpu\":true,\"thread_names\":%s,",
            OR(spec->origin, "inherited"), OR(spec->thread_names, "false"));
    fprintf(out, "\"snapshot_interval_s\":%s,\"sample_interval_s\":1.0},", OR(spec->interval, "30.0"));
    put_stamp(out, "started", spec->start_s, 0, spec->booted_s);
    put_stamp(out, "written", OR(spec->written_s, 100), spec->suspended_s, spec->booted_s);
    fprintf(out, "\"ended\":%s,", OR(spec->ended, "null"));
    fprintf(out, "\"state\":\"%s\",\"flush\":%u,\"clock\":{\"wall\":\"tsc\",\"cpu\":\"token\"},\"image\":\"%s\",",
            OR(spec->state, "closed"), OR(spec->flush, 3), OR(spec->image, "shared"));
    fprintf(out, "\"troubles\":%s,\"threads\":%s}\n", OR(spec->troubles, "{}"), OR(spec->threads, ONE_THREAD(STEP)));
    fclose(out);
    return text;
}

/* text with the one place where it says from saying to instead; to be freed. */
static inline char *swapped(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from))
        fail_msg("not exactly once in the document: %s", from);
    size_t before = (size_t)(at - text);
    char *result = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(result);
    memcpy(result, text, before);
    strcpy(result + before, to);
    strcat(result, at + strlen(from));
    return result;
}

static inline struct lp_span view_of(const char *string)
{
    return (struct lp_span){string, strlen(string)};
}

/* A new temporary folder, to be removed with remove_folder. */
static inline char *make_folder(void)
{
    char *path = strdup("/tmp/lp-run-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void remove_folder(char *path)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    free(path);
}

/* Writes bytes to a file below folder, making the folders above it. */
static inline void write_bytes(const char *folder, const char *name, const void *bytes, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    fclose(out);
}

/* Writes a worker's file where it belongs. */
static inline void write_worker(const char *folder, const struct spec *spec)
{
    char name[256];
    char *document = make_document(spec);
    snprintf(name, sizeof name, "workers/%s/%s.json", OR(spec->host, "node07"), OR(spec->worker, "w_r1_4242_00000001"));
    write_bytes(folder, name, document, strlen(document));
    free(document);
}

/* Reads files only; the message is to be empty. */
static inline struct lp_run *load(const char *folder)
{
    struct lp_run *run;
    char message[256];
    struct lp_run_options options = {.no_images = true};
    int status = lp_run_load(&run, folder, &options, message, sizeof message);
    if (status != LP_RUN_OK)
        fail_msg("status %d: %s", status, message);
    assert_string_equal(message, "");
    return run;
}

/* The phase at a path of names that hold no '/'; fails if there is none. */
static inline const struct lp_run_phase *phase_at(const struct lp_run_phase *phase, const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        const struct lp_run_phase *child = lp_run_phase_child(phase, path, len);
        if (!child)
            fail_msg("no phase %s", path);
        phase = child;
        path += len + (path[len] == '/');
    }
    return phase;
}

/* How many caveats of a kind there are; *first is the text of the first. */
static inline size_t count_caveats(const struct lp_run *run, const char *kind, const char **first)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_caveats; i++) {
        if (strcmp(run->caveats[i].kind, kind) != 0)
            continue;
        if (n++ == 0 && first)
            *first = run->caveats[i].text;
    }
    return n;
}

static inline void assert_caveat(const struct lp_run *run, const char *kind, const char *text)
{
    for (size_t i = 0; i < run->n_caveats; i++)
        if (strcmp(run->caveats[i].kind, kind) == 0 && strcmp(run->caveats[i].text, text) == 0)
            return;
    for (size_t i = 0; i < run->n_caveats; i++)
        print_message("[%s] %s\n", run->caveats[i].kind, run->caveats[i].text);
    fail_msg("no caveat [%s] %s", kind, text);
}

#endif

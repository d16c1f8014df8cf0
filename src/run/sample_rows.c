#include "run/sample_rows.h"

#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/fields.h"
#include "run/scan.h"

static const char *const process_fields[LP_P_FIELDS] = {
    [LP_P_MONOTONIC_NS] = "monotonic_ns",
    [LP_P_CPU_NS] = "cpu_ns",
    [LP_P_RSS_BYTES] = "rss_bytes",
    [LP_P_READ_CHARS] = "read_chars",
    [LP_P_WRITE_CHARS] = "write_chars",
    [LP_P_READ_BYTES] = "read_bytes",
    [LP_P_WRITE_BYTES] = "write_bytes",
    [LP_P_MINOR_FAULTS] = "minor_faults",
    [LP_P_MAJOR_FAULTS] = "major_faults",
    [LP_P_VOLUNTARY_SWITCHES] = "voluntary_switches",
    [LP_P_INVOLUNTARY_SWITCHES] = "involuntary_switches",
    [LP_P_RUN_DELAY_NS] = "run_delay_ns",
    [LP_P_CUDA_ALLOCATED_BYTES] = "cuda_allocated_bytes",
    [LP_P_CUDA_RESERVED_BYTES] = "cuda_reserved_bytes",
    [LP_P_OPEN_FILES] = "open_files",
    [LP_P_PHASE] = "phase",
    [LP_P_SEQUENCE] = "sequence",
    [LP_P_THREADS] = "threads",
    [LP_P_GAPS] = "gaps",
};

static const char *const gpu_fields[LP_G_FIELDS] = {
    [LP_G_MONOTONIC_NS] = "monotonic_ns",
    [LP_G_DEVICE_USED_BYTES] = "device_used_bytes",
    [LP_G_OWN_USED_BYTES] = "own_used_bytes",
    [LP_G_DEVICE] = "device",
    [LP_G_SEQUENCE] = "sequence",
    [LP_G_PHASE] = "phase",
    [LP_G_BUSY_PERMILLE] = "busy_permille",
    [LP_G_OWN_BUSY_PERMILLE] = "own_busy_permille",
    [LP_G_FLAGS] = "flags",
};

const char *const *lp_sample_field_names(enum lp_ring_kind kind, size_t *n)
{
    *n = kind == LP_RING_PROCESS ? LP_P_FIELDS : LP_G_FIELDS;
    return kind == LP_RING_PROCESS ? process_fields : gpu_fields;
}

/* --- bytes --- */

/* At least `need` bytes in the buffer, unless the file ends. */
static void fill(struct lp_sample_file *file, size_t need)
{
    if (file->len - file->at >= need || file->ended)
        return;
    memmove(file->buffer, file->buffer + file->at, file->len - file->at);
    file->len -= file->at;
    file->at = 0;
    while (file->len < need && !file->ended) {
        ssize_t got = read(file->fd, file->buffer + file->len, LP_SAMPLE_BUFFER - file->len);
        if (got > 0) {
            file->len += (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            file->error = got < 0 ? errno : 0;
            file->ended = true;
        }
    }
}

static uint64_t load(const unsigned char *record, struct lp_sample_place place)
{
    const unsigned char *at = record + place.offset;
    uint64_t wide;
    uint32_t half;
    uint16_t quarter;
    switch (place.width) {
    case 8:
        memcpy(&wide, at, sizeof wide);
        return le64toh(wide);
    case 4:
        memcpy(&half, at, sizeof half);
        return half == UINT32_MAX ? LP_NOT_MEASURED : le32toh(half);
    case 2:
        memcpy(&quarter, at, sizeof quarter);
        return quarter == UINT16_MAX ? LP_NOT_MEASURED : le16toh(quarter);
    default:
        return LP_NOT_MEASURED;
    }
}

bool lp_sample_file_next(struct lp_sample_file *file, uint64_t *row)
{
    if (file->len - file->at < file->record_bytes)
        fill(file, file->record_bytes);
    size_t left = file->len - file->at;
    if (left < file->record_bytes) {
        file->cut = left > 0 && !file->error;
        return false;
    }
    const unsigned char *record = file->buffer + file->at;
    size_t n = file->kind == LP_RING_PROCESS ? LP_P_FIELDS : LP_G_FIELDS;
    for (size_t i = 0; i < n; i++)
        row[i] = load(record, file->places[i]);
    if (file->kind == LP_RING_PROCESS && !file->places[LP_P_GAPS].width)
        row[LP_P_GAPS] = 0; /* a writer that tells none knows of none */
    file->at += file->record_bytes;
    return true;
}

/* --- the header --- */

static void note_field(struct lp_sample_file *file, const char *name, const char *type, uint32_t offset, uint32_t width)
{
    size_t n;
    const char *const *names = lp_sample_field_names(file->kind, &n);
    if (*type != 'u' || width == 1)
        return;
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            file->places[i] = (struct lp_sample_place){offset, width};
}

/* Of numpy's names the simple ones: a letter and a number of bytes. 0: it is none. */
static uint32_t width_of(const char *type)
{
    bool known = strlen(type) == 2 && strchr("uif", type[0]) && strchr("1248", type[1]);
    return known ? (uint32_t)(type[1] - '0') : 0;
}

static int parse_field(struct lp_sample_file *file, const json_t *field, size_t i, uint32_t *offset,
                       struct lp_run_fault *fault)
{
    const char *name = json_string_value(json_array_get(field, 0));
    const char *type = json_string_value(json_array_get(field, 1));
    if (!json_is_array(field) || json_array_size(field) != 2 || !name || !type)
        return lp_run_fault_set(fault, "fields[%zu]: [name, type] expected", i);
    uint32_t width = width_of(type);
    if (!width)
        return lp_run_fault_set(fault, "fields[%zu]: type %.16s is none that is known", i, type);
    note_field(file, name, type, *offset, width);
    *offset += width;
    return 0;
}

static int parse_fields(struct lp_sample_file *file, const json_t *json, struct lp_run_fault *fault)
{
    json_t *fields, *field;
    size_t i;
    uint32_t offset = 0;
    if (lp_run_field_array(json, "fields", &fields, fault) < 0)
        return -1;
    if (json_array_size(fields) > LP_SAMPLE_FIELDS_MAX)
        return lp_run_fault_set(fault, "fields: %zu of them; %u are read", json_array_size(fields),
                                LP_SAMPLE_FIELDS_MAX);
    memset(file->places, 0, sizeof file->places);
    json_array_foreach(fields, i, field)
    {
        if (parse_field(file, field, i, &offset, fault) < 0)
            return -1;
    }
    if (offset != file->record_bytes)
        return lp_run_fault_set(fault, "record_bytes: %zu, but its fields take %u", file->record_bytes, offset);
    size_t sequence = file->kind == LP_RING_PROCESS ? (size_t)LP_P_SEQUENCE : (size_t)LP_G_SEQUENCE;
    if (!file->places[0].width || !file->places[sequence].width)
        return lp_run_fault_set(fault, "fields: no monotonic_ns or no sequence");
    if (file->kind == LP_RING_GPU && !file->places[LP_G_DEVICE].width)
        return lp_run_fault_set(fault, "fields: no device");
    return 0;
}

static int expect(const json_t *json, const char *key, const char *wanted, struct lp_run_fault *fault)
{
    struct lp_span found;
    if (lp_run_field_string(json, key, &found, fault) < 0)
        return -1;
    if (lp_text_equal(found, (struct lp_span){wanted, strlen(wanted)}))
        return 0;
    return lp_run_fault_set(fault, "%s: not %s", key, wanted);
}

static int parse_sizes(struct lp_sample_file *file, const json_t *json, size_t header, struct lp_run_fault *fault)
{
    uint64_t header_bytes, record_bytes;
    if (lp_run_field_count(json, "header_bytes", 1, &header_bytes, fault) < 0 ||
        lp_run_field_count(json, "record_bytes", 1, &record_bytes, fault) < 0)
        return -1;
    if (header_bytes != header)
        return lp_run_fault_set(fault, "header_bytes: %llu, but the header's line takes %zu",
                                (unsigned long long)header_bytes, header);
    if (record_bytes > LP_SAMPLE_RECORD_MAX)
        return lp_run_fault_set(fault, "record_bytes: %llu; up to %u are read", (unsigned long long)record_bytes,
                                LP_SAMPLE_RECORD_MAX);
    file->record_bytes = (size_t)record_bytes;
    return 0;
}

/* worker is the name as the header spells it: text. */
static int check_worker(const json_t *json, const char *worker, struct lp_run_fault *fault)
{
    struct lp_span found;
    if (lp_run_field_string(json, "worker", &found, fault) < 0)
        return -1;
    if (!worker || lp_text_equal(found, (struct lp_span){worker, strlen(worker)}))
        return 0;
    return lp_run_fault_set(fault, "samples of another worker");
}

static int parse_header(struct lp_sample_file *file, const json_t *json, size_t header, const char *worker,
                        struct lp_run_fault *fault)
{
    uint64_t version;
    if (!json_is_object(json) || expect(json, "format", "lineprofiler-samples", fault) < 0)
        return lp_run_fault_set(fault, "not a samples file");
    if (lp_run_field_count(json, "version", 1, &version, fault) < 0)
        return -1;
    if (version > LP_SAMPLES_VERSION)
        return lp_run_fault_set(fault, "version %llu: written by a newer release; this one reads up to version %d",
                                (unsigned long long)version, LP_SAMPLES_VERSION);
    if (expect(json, "kind", file->kind == LP_RING_PROCESS ? "process" : "gpu", fault) < 0 ||
        expect(json, "byte_order", "little", fault) < 0 || check_worker(json, worker, fault) < 0 ||
        parse_sizes(file, json, header, fault) < 0)
        return -1;
    return parse_fields(file, json, fault);
}

static int read_header(struct lp_sample_file *file, const char *worker, struct lp_run_fault *fault)
{
    fill(file, LP_SAMPLE_HEADER_MAX);
    if (file->error)
        return lp_run_fault_set(fault, "cannot be read: %s", strerrordesc_np(file->error));
    if (file->len == 0)
        return lp_run_fault_set(fault, "empty");
    size_t within = file->len < LP_SAMPLE_HEADER_MAX ? file->len : LP_SAMPLE_HEADER_MAX;
    const unsigned char *newline = memchr(file->buffer, '\n', within);
    if (!newline)
        return lp_run_fault_set(fault, "no header");
    size_t header = (size_t)(newline - file->buffer) + 1;
    json_t *json = json_loadb((const char *)file->buffer, header, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    int result = json ? parse_header(file, json, header, worker, fault) : lp_run_fault_set(fault, "not a samples file");
    json_decref(json);
    file->at = header;
    return result;
}

/* --- files --- */

int lp_sample_file_begin(struct lp_sample_file *file, int fd, enum lp_ring_kind kind, const char *worker,
                         struct lp_run_fault *fault)
{
    fault->no_memory = false;
    *file = (struct lp_sample_file){.kind = kind, .fd = fd, .buffer = file->buffer};
    if (!file->buffer && !(file->buffer = malloc(LP_SAMPLE_BUFFER)))
        return lp_run_fault_no_memory(fault);
    return read_header(file, worker, fault);
}

int lp_sample_file_open(struct lp_sample_file *file, int dir_fd, const char *path, enum lp_ring_kind kind,
                        const char *worker, struct lp_run_fault *fault)
{
    size_t size;
    int fd = lp_run_open_file(dir_fd, path, LP_SAMPLE_FILE_MAX, &size, fault);
    file->fd = -1;
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (lp_sample_file_begin(file, fd, kind, worker, fault) == 0)
        return 1;
    lp_sample_file_close(file);
    return -1;
}

void lp_sample_file_close(struct lp_sample_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

void lp_sample_file_release(struct lp_sample_file *file)
{
    free(file->buffer);
    *file = (struct lp_sample_file){.fd = -1};
}

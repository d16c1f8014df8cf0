/*
 * Samples files as docs/format.md has them, read without the code that writes them.
 */
#ifndef LP_TESTS_SAMPLES_H
#define LP_TESTS_SAMPLES_H

#include "support/support.h"

#include "worker/samples.h"

struct samples_file {
    json_t *header;
    size_t header_bytes, record_bytes;
    uint64_t n;  /* whole records */
    size_t rest; /* bytes behind them */
    char *bytes;
};

/* False if there is none. What the header says of itself is asserted. */
static inline bool samples_read(struct samples_file *file, const char *path)
{
    size_t len;
    *file = (struct samples_file){.bytes = file_read(path, &len)};
    if (!file->bytes)
        return false;
    char *newline = memchr(file->bytes, '\n', len);
    assert_non_null(newline);
    file->header_bytes = (size_t)(newline + 1 - file->bytes);
    file->header = json_of(file->bytes, file->header_bytes);
    assert_string_equal(json_string_value(json_object_get(file->header, "format")), "lineprofiler-samples");
    assert_int_equal(json_u64(file->header, "version", 0), 1);
    assert_string_equal(json_string_value(json_object_get(file->header, "byte_order")), "little");
    assert_int_equal(json_u64(file->header, "header_bytes", 0), file->header_bytes);
    assert_int_equal(file->header_bytes % 64, 0);
    file->record_bytes = json_u64(file->header, "record_bytes", 0);
    assert_true(file->record_bytes > 0);
    file->n = (len - file->header_bytes) / file->record_bytes;
    file->rest = (len - file->header_bytes) % file->record_bytes;
    return true;
}

static inline void samples_free(struct samples_file *file)
{
    json_decref(file->header);
    free(file->bytes);
}

/* A field of row i by its name; all bits set, in 64, where it is all ones. */
static inline uint64_t samples_at(const struct samples_file *file, uint64_t i, const char *name)
{
    size_t at = 0, k;
    const json_t *field;
    const unsigned char *row = (const unsigned char *)file->bytes + file->header_bytes + i * file->record_bytes;
    json_array_foreach(json_object_get(file->header, "fields"), k, field)
    {
        size_t bytes = (size_t)(json_string_value(json_array_get(field, 1))[1] - '0');
        if (strcmp(json_string_value(json_array_get(field, 0)), name) == 0) {
            uint64_t value = 0, ones = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
            for (size_t b = bytes; b > 0; b--)
                value = value << 8 | row[at + b - 1];
            return value == ones ? UINT64_MAX : value;
        }
        at += bytes;
    }
    fail_msg("no field %s", name);
    return 0;
}

/* The samples file beside a worker's file; to be freed. */
static inline char *samples_path(const char *worker_path)
{
    char *path;
    assert_true(asprintf(&path, "%.*s.samples", (int)(strlen(worker_path) - 5), worker_path) > 0);
    return path;
}

#endif

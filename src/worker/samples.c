#include "worker/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/emit.h"
#include "worker/publish.h"

#define FILE_NAME_BYTES 320
#define ROWS_AT_ONCE 16u

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

struct field {
    const char *name;
    unsigned offset, bytes;
};

#define FIELD(row, member)                                                                                             \
    {                                                                                                                  \
#member, (unsigned)offsetof(row, member), (unsigned)sizeof(((row *)0)->member)                                 \
    }
#define PROCESS(member) FIELD(struct lp_process_row, member)
#define GPU(member) FIELD(struct lp_gpu_row, member)

static const struct field process_fields[] = {
    PROCESS(monotonic_ns),
    PROCESS(cpu_ns),
    PROCESS(rss_bytes),
    PROCESS(read_chars),
    PROCESS(write_chars),
    PROCESS(read_bytes),
    PROCESS(write_bytes),
    PROCESS(minor_faults),
    PROCESS(major_faults),
    PROCESS(voluntary_switches),
    PROCESS(involuntary_switches),
    PROCESS(run_delay_ns),
    PROCESS(cuda_allocated_bytes),
    PROCESS(cuda_reserved_bytes),
    PROCESS(open_files),
    PROCESS(phase),
    PROCESS(sequence),
    PROCESS(threads),
    PROCESS(gaps),
};

static const struct field gpu_fields[] = {
    GPU(monotonic_ns),  GPU(device_used_bytes), GPU(own_used_bytes), GPU(device),   GPU(sequence),  GPU(phase),
    GPU(busy_permille), GPU(own_busy_permille), GPU(flags),          GPU(reserved), GPU(reserved2),
};

static const struct kind {
    const char *name, *suffix;
    const struct field *fields;
    unsigned n_fields, row_bytes;
} kinds[LP_RINGS] = {
    [LP_RING_PROCESS] = {"process", "samples", process_fields, sizeof process_fields / sizeof process_fields[0],
                         sizeof(struct lp_process_row)},
    [LP_RING_GPU] = {"gpu", "gpu_samples", gpu_fields, sizeof gpu_fields / sizeof gpu_fields[0],
                     sizeof(struct lp_gpu_row)},
};

void lp_samples_file_name(char *name, size_t size, const char *worker, enum lp_ring_kind kind)
{
    snprintf(name, size, "%.255s.%s", worker, kinds[kind].suffix);
}

/* ---- the header ------------------------------------------------------------------------------------------------ */

struct page {
    char bytes[LP_SAMPLES_HEADER_BYTES];
    size_t len;
};

static int put_in_page(void *context, const char *bytes, size_t len)
{
    struct page *page = context;
    if (len >= sizeof page->bytes - page->len)
        return -1;
    memcpy(page->bytes + page->len, bytes, len);
    page->len += len;
    return 0;
}

static void emit_number(struct lp_emit *emit, const char *key, uint64_t value)
{
    lp_emit_key(emit, key);
    lp_emit_u64(emit, value);
}

static void emit_fields(struct lp_emit *emit, const struct kind *kind)
{
    lp_emit_key(emit, "fields");
    lp_emit_open(emit, '[');
    for (unsigned i = 0; i < kind->n_fields; i++) {
        const char type[] = {'u', (char)('0' + kind->fields[i].bytes), '\0'};
        lp_emit_open(emit, '[');
        lp_emit_string(emit, kind->fields[i].name);
        lp_emit_string(emit, type);
        lp_emit_close(emit, ']');
    }
    lp_emit_close(emit, ']');
}

/* One line, so that a reader in any language gets it with its readline. */
static int write_header(int fd, const struct kind *kind, const char *worker)
{
    struct page page = {.len = 0};
    struct lp_emit emit;
    lp_emit_init(&emit, put_in_page, &page);
    lp_emit_open(&emit, '{');
    lp_emit_key(&emit, "format");
    lp_emit_string(&emit, "lineprofiler-samples");
    emit_number(&emit, "version", 1);
    lp_emit_key(&emit, "kind");
    lp_emit_string(&emit, kind->name);
    lp_emit_key(&emit, "worker");
    lp_emit_string(&emit, worker);
    lp_emit_key(&emit, "byte_order");
    lp_emit_string(&emit, "little");
    emit_number(&emit, "header_bytes", LP_SAMPLES_HEADER_BYTES);
    emit_number(&emit, "record_bytes", kind->row_bytes);
    emit_fields(&emit, kind);
    lp_emit_close(&emit, '}');
    if (lp_emit_end(&emit) != 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memset(page.bytes + page.len, ' ', sizeof page.bytes - page.len);
    page.bytes[sizeof page.bytes - 1] = '\n';
    return lseek(fd, 0, SEEK_SET) == 0 ? lp_write_all(&fd, page.bytes, sizeof page.bytes) : -1;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* A pipe or a device in its place would hold us up. */
static int open_file(int folder, const char *worker, enum lp_ring_kind kind, uint64_t *bytes)
{
    char name[FILE_NAME_BYTES];
    struct stat st;
    lp_samples_file_name(name, sizeof name, worker, kind);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *bytes = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    errno = EINVAL;
    return -1;
}

/* How many rows the file has: as many as were noted, unless somebody has removed or cut it. */
static uint64_t rows_in_file(uint64_t noted, uint64_t file_bytes, unsigned row_bytes)
{
    if (file_bytes < LP_SAMPLES_HEADER_BYTES)
        return 0;
    uint64_t whole = (file_bytes - LP_SAMPLES_HEADER_BYTES) / row_bytes;
    return noted < whole ? noted : whole;
}

/* Writes the rows from *from up to taken; *filed counts them. */
static int write_rows(int fd, const struct lp_view *view, const struct lp_ring *ring, uint64_t from, uint64_t taken,
                      uint64_t *filed)
{
    char rows[ROWS_AT_ONCE * LP_RING_ROW_BYTES];
    while (from < taken) {
        size_t n = 0;
        for (; from < taken && n < ROWS_AT_ONCE; from++)
            n += lp_ring_row(view, ring, from, rows + n * ring->row_bytes);
        if (lp_write_all(&fd, rows, n * ring->row_bytes) != 0)
            return -1;
        *filed += n;
    }
    return 0;
}

static int append_to(int fd, uint64_t file_bytes, const char *worker, const struct lp_view *view,
                     const struct lp_ring *ring, const struct kind *kind, uint64_t taken, uint64_t *filed)
{
    uint64_t from = GET(ring->passed);
    *filed = rows_in_file(GET(ring->filed), file_bytes, kind->row_bytes);
    if (*filed == 0 && write_header(fd, kind, worker) != 0)
        return -1;
    if (taken - from >= ring->capacity)
        from = taken - ring->capacity + 1;
    if (lseek(fd, (off_t)(LP_SAMPLES_HEADER_BYTES + *filed * kind->row_bytes), SEEK_SET) < 0)
        return -1;
    return write_rows(fd, view, ring, from, taken, filed) == 0 ? fdatasync(fd) : -1;
}

static int append(int folder, const char *worker, const struct lp_view *view, struct lp_image *image,
                  enum lp_ring_kind which)
{
    const struct kind *kind = &kinds[which];
    const struct lp_ring *ring = lp_view_ring(view, which);
    uint64_t file_bytes = 0, filed = 0;
    if (!ring || ring->row_bytes != kind->row_bytes)
        return 0;
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
    if (taken <= GET(ring->passed))
        return 0;
    int fd = open_file(folder, worker, which, &file_bytes);
    if (fd < 0)
        return -1;
    int failed = append_to(fd, file_bytes, worker, view, ring, kind, taken, &filed);
    int why = errno;
    close(fd);
    errno = why;
    if (!failed && image) {
        struct lp_ring *own = lp_image_ring(image, which);
        SET(own->filed, filed);
        atomic_store_explicit(&own->passed, taken, memory_order_release);
    }
    return failed;
}

int lp_samples_append(int folder, const char *worker, const struct lp_view *view, struct lp_image *image)
{
    int failed = 0, why = 0;
    for (int kind = 0; kind < LP_RINGS; kind++)
        if (append(folder, worker, view, image, (enum lp_ring_kind)kind) != 0) {
            failed = -1;
            why = errno;
        }
    errno = failed ? why : errno;
    return failed;
}

size_t lp_samples_pending(const struct lp_view *view, enum lp_ring_kind kind, void *rows)
{
    const struct lp_ring *ring = lp_view_ring(view, kind);
    size_t n = 0;
    if (!ring || ring->row_bytes != kinds[kind].row_bytes)
        return 0;
    uint64_t taken = GET(ring->taken), from = GET(ring->passed);
    uint64_t most = ring->capacity < LP_SAMPLES_PENDING ? ring->capacity : LP_SAMPLES_PENDING;
    if (taken - from >= most)
        from = taken - most + 1;
    for (; from < taken && n < most; from++)
        n += lp_ring_row(view, ring, from, (char *)rows + n * ring->row_bytes);
    return n;
}

bool lp_samples_are_pressing(const struct lp_image *image)
{
    for (int kind = 0; kind < LP_RINGS; kind++) {
        const struct lp_ring *ring = lp_image_ring(image, (enum lp_ring_kind)kind);
        if (ring && GET(ring->taken) - GET(ring->passed) >= ring->capacity / 4 * 3)
            return true;
    }
    return false;
}

struct lp_samples_told lp_samples_told(const struct lp_view *view, enum lp_ring_kind kind)
{
    struct lp_samples_told told = {0, 0};
    const struct lp_ring *ring = lp_view_ring(view, kind);
    if (!ring)
        return told;
    uint64_t passed = GET(ring->passed), filed = GET(ring->filed);
    told.taken = GET(ring->taken);
    if (passed > told.taken)
        return told;
    told.lost = passed > filed ? passed - filed : 0;
    if (told.taken - passed >= ring->capacity) /* put over */
        told.lost += told.taken - passed - (ring->capacity - 1);
    return told;
}

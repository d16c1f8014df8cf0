#include "image/ring.h"

#include <string.h>

#include "base/compiler.h"

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

typedef _Atomic uint64_t word;

static struct lp_ring *make(struct lp_image *image, enum lp_ring_kind kind, uint32_t capacity, uint32_t row_bytes)
{
    lp_ref ref = lp_image_alloc(image, sizeof(struct lp_ring) + (size_t)capacity * row_bytes);
    if (!ref)
        return NULL;
    struct lp_ring *ring = lp_image_at(image, ref);
    ring->capacity = capacity;
    ring->row_bytes = row_bytes;
    atomic_store_explicit(&lp_image_header(image)->rings[kind], ref, memory_order_release);
    return ring;
}

static word *row_at(const struct lp_ring *ring, uint64_t i)
{
    return (word *)(uintptr_t)((const char *)(ring + 1) + i % ring->capacity * ring->row_bytes);
}

bool lp_ring_put(struct lp_image *image, enum lp_ring_kind kind, uint32_t capacity, uint32_t row_bytes, const void *row)
{
    struct lp_ring *ring = lp_image_ring(image, kind);
    if (!ring && !(ring = make(image, kind, capacity, row_bytes)))
        return false;
    uint64_t taken = GET(ring->taken), values[LP_RING_ROW_BYTES / sizeof(uint64_t)];
    word *words = row_at(ring, taken);
    memcpy(values, row, ring->row_bytes);
    LP_FENCE(memory_order_release); /* who sees a word of this row sees that the one before it was over */
    for (size_t i = 0; i < ring->row_bytes / sizeof(word); i++)
        atomic_store_explicit(&words[i], values[i], memory_order_release);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return true;
}

struct lp_ring *lp_image_ring(const struct lp_image *image, enum lp_ring_kind kind)
{
    lp_ref ref = atomic_load_explicit(&lp_image_header(image)->rings[kind], memory_order_acquire);
    return ref ? lp_image_at(image, ref) : NULL;
}

const struct lp_ring *lp_view_ring(const struct lp_view *view, enum lp_ring_kind kind)
{
    lp_ref ref = atomic_load_explicit(&lp_view_header(view)->rings[kind], memory_order_acquire);
    const struct lp_ring *ring = lp_view_at(view, ref, sizeof *ring);
    if (!ring || ring->capacity == 0 || ring->row_bytes == 0 || ring->row_bytes > LP_RING_ROW_BYTES ||
        ring->row_bytes % sizeof(word) != 0 || ring->capacity > view->size / ring->row_bytes)
        return NULL;
    return lp_view_at(view, ref, sizeof *ring + (size_t)ring->capacity * ring->row_bytes) ? ring : NULL;
}

bool lp_ring_row(const struct lp_view *view, const struct lp_ring *ring, uint64_t i, void *row)
{
    uint64_t values[LP_RING_ROW_BYTES / sizeof(uint64_t)];
    (void)view;
    if (i >= atomic_load_explicit(&ring->taken, memory_order_acquire))
        return false;
    const word *words = row_at(ring, i);
    for (size_t k = 0; k < ring->row_bytes / sizeof(word); k++)
        values[k] = atomic_load_explicit(&words[k], memory_order_acquire);
    memcpy(row, values, ring->row_bytes);
    /* While row `taken` is being put, it lies over row taken - capacity. */
    return GET(ring->taken) - i < ring->capacity;
}

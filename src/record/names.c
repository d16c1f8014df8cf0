#include "record/names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/wtf8.h"
#include "image/image.h"
#include "record/record.h"

#define FIRST_SLOTS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
    uint32_t hash;
    size_t len;
    char bytes[];
} * _Atomic entries[LP_NAMES_LIMIT]; /* read without the lock by id */
static uint32_t n_entries = 1;       /* guarded by lock; 0 is LP_NAME_NONE */
static uint32_t *table;              /* guarded by lock: ids, open addressing */
static uint32_t table_size;          /* guarded by lock */

static uint32_t hash_bytes(const char *bytes, size_t len)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

/* Copies len bytes as WTF-8; out holds 3 * len. Returns the length written. */
static size_t copy_text(char *out, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        size_t step = lp_wtf8_sequence(bytes + i, len - i);
        if (step) {
            memcpy(out + n, p + i, step);
            n += step;
            i += step;
        } else { /* U+DC00 + byte */
            out[n++] = (char)0xed;
            out[n++] = (char)(0xb0 | (p[i] >> 6));
            out[n++] = (char)(0x80 | (p[i] & 0x3f));
            i++;
        }
    }
    return n;
}

static int needs_copying(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t step = lp_wtf8_sequence(bytes + i, len - i);
        if (!step)
            return 1;
        i += step;
    }
    return 0;
}

static uint32_t *find_slot(const char *bytes, size_t len, uint32_t hash)
{
    for (uint32_t i = hash;; i++) {
        uint32_t *slot = &table[i & (table_size - 1)];
        const struct entry *entry = entries[*slot];
        if (*slot == 0 || (entry->hash == hash && entry->len == len && memcmp(entry->bytes, bytes, len) == 0))
            return slot;
    }
}

static int make_room(void)
{
    if (table && n_entries * 2 < table_size)
        return 0;
    uint32_t size = table ? table_size * 2 : FIRST_SLOTS;
    uint32_t *wider = calloc(size, sizeof *wider);
    if (!wider)
        return -1;
    free(table);
    table = wider;
    table_size = size;
    for (uint32_t id = 1; id < n_entries; id++) {
        const struct entry *entry = entries[id];
        *find_slot(entry->bytes, entry->len, entry->hash) = id;
    }
    return 0;
}

static lp_name_id intern_locked(const char *bytes, size_t len)
{
    uint32_t hash = hash_bytes(bytes, len);
    if (make_room() != 0)
        return LP_NAME_NONE;
    uint32_t *slot = find_slot(bytes, len, hash);
    if (*slot || n_entries == LP_NAMES_LIMIT)
        return *slot;
    struct entry *entry = malloc(sizeof *entry + len + 1);
    if (!entry)
        return LP_NAME_NONE;
    entry->hash = hash;
    entry->len = len;
    memcpy(entry->bytes, bytes, len);
    entry->bytes[len] = '\0';
    atomic_store_explicit(&entries[n_entries], entry, memory_order_release);
    *slot = n_entries;
    return n_entries++;
}

static lp_name_id find_locked(const char *bytes, size_t len)
{
    return table ? *find_slot(bytes, len, hash_bytes(bytes, len)) : LP_NAME_NONE;
}

/* In a clone that ran no fork handlers the lock may be taken for ever, by a thread of its parent. */
static bool take_lock(void)
{
    return (lp_record_is_here() ? pthread_mutex_lock(&lock) : pthread_mutex_trylock(&lock)) == 0;
}

static lp_name_id with_lock(lp_name_id (*look)(const char *bytes, size_t len), const char *bytes, size_t len)
{
    char *copy = NULL;
    lp_name_id id = LP_NAME_NONE;
    if (needs_copying(bytes, len)) {
        copy = malloc(3 * len);
        if (!copy)
            return LP_NAME_NONE;
        len = copy_text(copy, bytes, len);
        bytes = copy;
    }
    if (len <= LP_NAME_LIMIT && take_lock()) {
        id = look(bytes, len);
        pthread_mutex_unlock(&lock);
    }
    free(copy);
    return id;
}

lp_name_id lp_name_intern(const char *bytes, size_t len)
{
    return with_lock(intern_locked, bytes, len);
}

lp_name_id lp_name_find(const char *bytes, size_t len)
{
    return with_lock(find_locked, bytes, len);
}

size_t lp_name_kept_bytes(const char *bytes, size_t len)
{
    size_t kept = 0;
    for (size_t i = 0; i < len;) {
        size_t step = lp_wtf8_sequence(bytes + i, len - i);
        kept += step ? step : 3;
        i += step ? step : 1;
    }
    return kept;
}

bool lp_names_are_full(void)
{
    return atomic_load_explicit(&entries[LP_NAMES_LIMIT - 1], memory_order_relaxed) != NULL;
}

struct lp_name_text lp_name_text(lp_name_id id)
{
    const struct entry *entry = id < LP_NAMES_LIMIT ? atomic_load_explicit(&entries[id], memory_order_acquire) : NULL;
    if (!entry)
        return (struct lp_name_text){"", 0};
    return (struct lp_name_text){entry->bytes, entry->len};
}

static _Atomic uint32_t strides[LP_STRIDES_LIMIT] = {1}; /* filled from the left under the lock, read without it */

lp_phase_id lp_stride_bits(uint32_t stride)
{
    uint32_t i = 0;
    if (stride <= 1)
        return 0;
    pthread_mutex_lock(&lock);
    while (i < LP_STRIDES_LIMIT && atomic_load(&strides[i]) != 0 && atomic_load(&strides[i]) != stride)
        i++;
    if (i < LP_STRIDES_LIMIT)
        atomic_store(&strides[i], stride);
    pthread_mutex_unlock(&lock);
    return i < LP_STRIDES_LIMIT ? i << 16 : 0;
}

lp_phase_id lp_fraction_bits(double fraction)
{
    double count = 1 / fraction;
    if (!(count < (double)UINT32_MAX))
        return lp_stride_bits(UINT32_MAX);
    uint32_t stride = (uint32_t)count;
    double rest = count - stride;
    if (rest > 0.5 || (rest == 0.5 && stride % 2 == 1))
        stride++;
    return lp_stride_bits(stride);
}

uint32_t lp_phase_stride(lp_phase_id phase)
{
    uint32_t i = phase >> 16;
    return i < LP_STRIDES_LIMIT ? atomic_load_explicit(&strides[i], memory_order_relaxed) : 0;
}

void lp_names_make_lock_anew(void)
{
    pthread_mutex_init(&lock, NULL);
}

void lp_names_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void lp_names_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "image/headroom.h"
#include "image/internal.h"

#define LARGEST_STEP (1u << 20)
#define RESERVED_BYTES (256u << 20)
#define LEAST_RESERVED (1u << 20)
#define TRY_EVERY 1024 /* growth that was refused is tried again at every such request, and more often at first */

static_assert(LARGEST_STEP % LP_IMAGE_FIRST_BYTES == 0, "an image grows by multiples of its first size");

static bool map_shared(struct lp_image *image, size_t from, size_t to)
{
    if (!lp_image_owns_file(image) || to - from > lp_headroom_shared(image->fd, from) ||
        !lp_image_allocate(image->fd, from, to))
        return false;
    return mmap(image->base + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, image->fd,
                (off_t)from) != MAP_FAILED;
}

/* The first piece is there whatever it takes: it is little, and nothing can be recorded without. */
static bool map_private(struct lp_image *image, size_t from, size_t to)
{
    if (from > 0 && to - from > lp_headroom_private())
        return false;
    return mmap(image->base + from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

/* Once a piece had to be private, those after it are private too: the file must not have holes. */
static bool extend(struct lp_image *image, size_t to)
{
    size_t from = atomic_load_explicit(&image->size, memory_order_relaxed);
    bool still_shared = image->fd >= 0 && (from == 0 || atomic_load(&lp_image_header(image)->shared) == from);
    if (still_shared && map_shared(image, from, to))
        atomic_store(&lp_image_header(image)->shared, to);
    else if (!map_private(image, from, to))
        return false;
    atomic_store_explicit(&image->size, to, memory_order_release);
    return true;
}

static bool reserve(struct lp_image *image)
{
    uint64_t most = lp_headroom_address_space();
    image->reserved = RESERVED_BYTES;
    while (image->reserved > most && image->reserved > LEAST_RESERVED)
        image->reserved /= 2;
    do
        image->base = mmap(NULL, image->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    while (image->base == MAP_FAILED && (image->reserved /= 2) >= LEAST_RESERVED);
    return image->base != MAP_FAILED;
}

int lp_image_create(struct lp_image *image, const char *worker)
{
    memset(image, 0, sizeof *image);
    pthread_mutex_init(&image->grow_lock, NULL);
    image->fd = -1;
    if (!reserve(image)) {
        image->base = NULL;
        return -1;
    }
    image->fd = lp_image_create_file(image, worker);
    if (!extend(image, LP_IMAGE_FIRST_BYTES)) {
        lp_image_destroy(image);
        return -1;
    }
    struct lp_header *header = lp_image_header(image);
    if (atomic_load(&header->shared) == 0)
        lp_image_close_file(image);
    memcpy(header->magic, LP_IMAGE_MAGIC, sizeof header->magic);
    header->version = LP_IMAGE_VERSION;
    header->layout = LP_IMAGE_LAYOUT;
    atomic_store(&header->used, (sizeof *header + LP_LINE - 1) / LP_LINE * LP_LINE);
    return 0;
}

/* To look at what is left takes system calls, and who finds no place may ask again at each entry. */
static bool tries_again(struct lp_image *image)
{
    unsigned n = image->refused;
    image->refused += n > 0;
    return (n & (n - 1)) == 0 || n % TRY_EVERY == 0;
}

static bool grow_locked(struct lp_image *image, size_t size, size_t needed)
{
    size_t to = size;
    while (to < needed)
        to += to < LARGEST_STEP ? to : LARGEST_STEP;
    if (!tries_again(image))
        return false;
    bool ok = to <= image->reserved && extend(image, to);
    image->refused = ok ? 0 : image->refused + (image->refused == 0);
    return ok;
}

static LP_COLD bool grow(struct lp_image *image, size_t needed)
{
    pthread_mutex_lock(&image->grow_lock);
    size_t size = atomic_load(&image->size);
    bool ok = size >= needed || grow_locked(image, size, needed);
    pthread_mutex_unlock(&image->grow_lock);
    return ok;
}

/* Whole units, from the beginning of one. */
static lp_ref alloc(struct lp_image *image, size_t bytes, size_t unit)
{
    struct lp_header *header = lp_image_header(image);
    size_t needed = (bytes + unit - 1) / unit * unit;
    uint64_t used = atomic_load(&header->used), from;
    do {
        from = (used + unit - 1) / unit * unit;
        if (needed > image->reserved || from + needed > image->reserved)
            return 0;
        if (from + needed > atomic_load_explicit(&image->size, memory_order_acquire) && !grow(image, from + needed))
            return 0;
    } while (!atomic_compare_exchange_weak(&header->used, &used, from + needed));
    return (lp_ref)(from / LP_LINE);
}

lp_ref lp_image_alloc(struct lp_image *image, size_t bytes)
{
    return alloc(image, bytes, LP_LINE);
}

lp_ref lp_image_alloc_apart(struct lp_image *image, size_t bytes)
{
    return alloc(image, bytes, LP_APART);
}

void lp_image_abandon(struct lp_image *image)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = LP_LOCK_OWNER, .l_len = 1};
    pthread_mutex_lock(&image->grow_lock);
    if (lp_image_owns_file(image))
        fcntl(image->fd, F_OFD_SETLK, &lock);
    image->path[0] = '\0'; /* it is not ours to remove any more */
    pthread_mutex_unlock(&image->grow_lock);
}

void lp_image_unlink(struct lp_image *image)
{
    pthread_mutex_lock(&image->grow_lock); /* a thread that still grows it must not meet another file by our number */
    if (image->path[0])
        unlink(image->path);
    lp_image_close_file(image);
    pthread_mutex_unlock(&image->grow_lock);
}

void lp_image_destroy(struct lp_image *image)
{
    if (!image->base)
        return;
    lp_image_unlink(image);
    munmap(image->base, image->reserved);
    pthread_mutex_destroy(&image->grow_lock);
    image->base = NULL;
}

void lp_image_forget(struct lp_image *image)
{
    if (!image->base)
        return;
    size_t size = atomic_load(&image->size);
    if (mmap(image->base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        munmap(image->base, size); /* a child that would write there dies rather than damage its parent */
    /* A thread that is not here may have held it. */
    pthread_mutex_init(&image->grow_lock, NULL);
    lp_image_close_file(image);
}

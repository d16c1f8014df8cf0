/*
 * A file again for an image that lost it. What cleans up after a login or a batch job may remove all of a user's shared
 * memory while processes go on; a daemonising host closes descriptors that it does not know.
 *
 * Words are copied one by one, as their writers store them. The last ones may come while the mapping is exchanged: they
 * are found in the old file afterwards, and carried over unless the new one was written since.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "image/headroom.h"
#include "image/internal.h"

#define LARGEST (64u << 20) /* bytes: the threads of the program wait meanwhile */
#define PASSES 4
#define PAUSE_NS 500000
#define TRIES 4 /* who removes all of the folder may do so while a new file has no name yet */

typedef _Atomic uint64_t word;

#define GET(place) atomic_load_explicit(&(place), memory_order_relaxed)
#define SET(place, value) atomic_store_explicit(&(place), (value), memory_order_relaxed)

bool lp_image_is_lost(const struct lp_image *image)
{
    struct stat st;
    if (!image->path[0])
        return false;
    return fstat(image->fd, &st) != 0 || st.st_ino != image->inode || st.st_dev != image->device || st.st_nlink == 0;
}

/* The file by its name, if that is still ours: then only the descriptor was lost. The lock may be held as before: the
   mapping keeps it. */
static bool reopen(struct lp_image *image)
{
    struct stat st;
    int fd = open(image->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || st.st_ino != image->inode || st.st_dev != image->device) {
        close(fd);
        return false;
    }
    lp_image_lock(fd, LP_LOCK_OWNER);
    image->fd = fd;
    return true;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* Takes over what differs; how many words that were. Owners write some of their own fields plainly; what they write later
   is taken over later. */
static LP_RACY size_t follow(word *copy, word *from, size_t n)
{
    size_t changed = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = GET(from[i]);
        if (value == GET(copy[i]))
            continue;
        SET(copy[i], value);
        changed++;
    }
    return changed;
}

/* Carries over what was written to the old file after the copy was taken. */
static LP_RACY void carry_over(word *new, word *copy, word *old, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t before = GET(copy[i]), value = GET(old[i]);
        if (value != before)
            atomic_compare_exchange_strong(&new[i], &before, value);
    }
}

static void *map(int fd, size_t size)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void unmap(void *at, size_t size)
{
    if (at)
        munmap(at, size);
}

/* Puts the file fd in the place of the first size bytes. */
static bool exchange(struct lp_image *image, int fd, size_t size)
{
    word *base = (word *)(void *)image->base;
    size_t n = size / sizeof *base;
    word *copy = map(-1, size), *new = map(fd, size), *old = lp_image_owns_file(image) ? map(image->fd, size) : NULL;
    bool ok = copy && new;
    for (int i = 0; ok && i < PASSES && follow(copy, base, n) > 0; i++)
        rest();
    if (ok) {
        follow(new, copy, n);
        ok = mremap(new, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, image->base) != MAP_FAILED;
    }
    if (ok && old) {
        rest();
        carry_over(base, copy, old, n);
    }
    unmap(copy, size);
    unmap(ok ? NULL : new, size);
    unmap(old, size);
    return ok;
}

/* The worker's name out of the file's path. */
static void worker_of(char *worker, size_t size, const char *path)
{
    const char *name = strrchr(path, '/');
    snprintf(worker, size, "%s", name ? name + 1 : path);
    char *dot = strrchr(worker, '.');
    if (dot)
        *dot = '\0';
}

static bool move(struct lp_image *image)
{
    char worker[sizeof image->path];
    struct lp_image fresh = {.fd = -1};
    size_t size = (size_t)atomic_load(&lp_image_header(image)->shared);
    worker_of(worker, sizeof worker, image->path);
    if (size > LARGEST || (fresh.fd = lp_image_create_file(&fresh, worker)) < 0)
        return false;
    bool ok = size <= lp_headroom_shared(fresh.fd, 0) && lp_image_allocate(fresh.fd, 0, size) &&
              exchange(image, fresh.fd, size);
    if (!ok) {
        close(fresh.fd);
        return false;
    }
    lp_image_close_file(image);
    image->fd = fresh.fd;
    image->inode = fresh.inode;
    image->device = fresh.device;
    memcpy(image->path, fresh.path, sizeof image->path);
    return lp_image_link(image);
}

void lp_image_restore(struct lp_image *image)
{
    pthread_mutex_lock(&image->grow_lock);
    bool lost = lp_image_is_lost(image);
    for (int i = 0; lost && i < TRIES; i++)
        lost = !reopen(image) && !move(image);
    if (lost) {
        atomic_store(&lp_image_header(image)->shared, 0);
        lp_image_close_file(image);
    }
    pthread_mutex_unlock(&image->grow_lock);
}

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

#define FIRST_BYTES (64u << 10)
#define LARGEST_STEP (1u << 20)
#define RESERVED_BYTES (256u << 20)
#define LEAST_RESERVED (1u << 20)
#define ALLOCATION_TRIES 100
#define TRY_EVERY 1024 /* growth that was refused is tried again at every such request, and more often at first */

static_assert(LARGEST_STEP % FIRST_BYTES == 0, "an image grows by multiples of its first size");

int lp_image_folder(char *path, size_t size)
{
    return snprintf(path, size, "/dev/shm/lineprofiler-%u", (unsigned)geteuid());
}

int lp_image_open_folder(bool make)
{
    char path[64];
    struct stat st;
    lp_image_folder(path, sizeof path);
    bool made = make && mkdir(path, 0700) == 0;
    if (make && !made && errno != EEXIST)
        return -1;
    if (made) /* an umask may have left not even us in: for good, since nobody makes it again */
        fchmodat(AT_FDCWD, path, 0700, AT_SYMLINK_NOFOLLOW);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool lp_image_lock(int fd, enum lp_image_lock which)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lp_image_is_locked(int fd, enum lp_image_lock which)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* A locked file without a name, so that nobody meets it half made. */
static int create_file(struct lp_image *image, const char *worker)
{
    struct stat st;
    int folder = lp_image_open_folder(true);
    if (folder < 0)
        return -1;
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    close(folder);
    if (fd < 0)
        return -1;
    lp_image_folder(image->path, sizeof image->path);
    size_t len = strlen(image->path);
    int n = snprintf(image->path + len, sizeof image->path - len, "/%s.img", worker);
    if (n < 0 || (size_t)n >= sizeof image->path - len || fchmod(fd, 0600) != 0 ||
        !lp_image_lock(fd, LP_LOCK_OWNER) || fstat(fd, &st) != 0) {
        close(fd);
        image->path[0] = '\0';
        return -1;
    }
    image->inode = st.st_ino;
    image->device = st.st_dev;
    return fd;
}

/* True if image->fd is still the file that we opened. */
static bool owns_fd(const struct lp_image *image)
{
    struct stat st;
    return image->fd >= 0 && fstat(image->fd, &st) == 0 && st.st_ino == image->inode && st.st_dev == image->device;
}

/* fallocate, not ftruncate: blocks are there before the first store, or the call fails instead of a SIGBUS later. On
   kernels before 6.10 a signal interrupts it and undoes what it did; small steps get on even under a profiler's timer. */
static bool allocate_blocks(int fd, size_t from, size_t to)
{
    for (int interrupted = 0; from < to;) {
        if (fallocate(fd, 0, (off_t)from, FIRST_BYTES) == 0)
            from += FIRST_BYTES;
        else if (errno != EINTR || ++interrupted == ALLOCATION_TRIES)
            return false;
    }
    return true;
}

static bool map_shared(struct lp_image *image, size_t from, size_t to)
{
    if (!owns_fd(image) || to - from > lp_headroom_shared(image->fd, from) || !allocate_blocks(image->fd, from, to))
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

static void close_file(struct lp_image *image)
{
    image->path[0] = '\0';
    if (owns_fd(image))
        close(image->fd);
    image->fd = -1;
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
    image->fd = create_file(image, worker);
    if (!extend(image, FIRST_BYTES)) {
        lp_image_destroy(image);
        return -1;
    }
    struct lp_header *header = lp_image_header(image);
    if (atomic_load(&header->shared) == 0)
        close_file(image);
    memcpy(header->magic, LP_IMAGE_MAGIC, sizeof header->magic);
    header->version = LP_IMAGE_VERSION;
    header->layout = LP_IMAGE_LAYOUT;
    atomic_store(&header->used, (sizeof *header + LP_LINE - 1) / LP_LINE * LP_LINE);
    return 0;
}

void lp_image_publish(struct lp_image *image)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", image->fd);
    if (owns_fd(image) && linkat(AT_FDCWD, link, AT_FDCWD, image->path, AT_SYMLINK_FOLLOW) == 0)
        return;
    /* A file that nobody can find is no better than private memory. */
    atomic_store(&lp_image_header(image)->shared, 0);
    close_file(image);
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

lp_ref lp_image_alloc(struct lp_image *image, size_t bytes)
{
    struct lp_header *header = lp_image_header(image);
    size_t lines = (bytes + LP_LINE - 1) / LP_LINE * LP_LINE;
    uint64_t from = atomic_load(&header->used);
    do {
        if (lines > image->reserved || from + lines > image->reserved)
            return 0;
        if (from + lines > atomic_load_explicit(&image->size, memory_order_acquire) && !grow(image, from + lines))
            return 0;
    } while (!atomic_compare_exchange_weak(&header->used, &from, from + lines));
    return (lp_ref)(from / LP_LINE);
}

void lp_image_abandon(struct lp_image *image)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = LP_LOCK_OWNER, .l_len = 1};
    pthread_mutex_lock(&image->grow_lock);
    if (owns_fd(image))
        fcntl(image->fd, F_OFD_SETLK, &lock);
    image->path[0] = '\0'; /* it is not ours to remove any more */
    pthread_mutex_unlock(&image->grow_lock);
}

void lp_image_unlink(struct lp_image *image)
{
    pthread_mutex_lock(&image->grow_lock); /* a thread that still grows it must not meet another file by our number */
    if (image->path[0])
        unlink(image->path);
    close_file(image);
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
    close_file(image);
}

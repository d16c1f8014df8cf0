#include "worker/images.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/stamp.h"
#include "worker/document.h"

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* Whether somebody holds the image's lock. */
static bool locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The lock alone is wrong both ways: a host may close our descriptor, a child without fork handlers may keep it. */
static bool owner_lives(const struct lp_header *header, int fd)
{
    struct lp_process_ref owner = {header->pid, header->pid_namespace, header->process_start_ticks};
    switch (lp_process_lives(&owner)) {
    case LP_PROCESS_LIVES:
        return true;
    case LP_PROCESS_GONE:
        return false;
    case LP_PROCESS_UNKNOWN:
        break;
    }
    return locked(fd);
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* The latest beginning or end, also by another thread, of which the frames have a trace. */
static uint64_t last_edge_ns(const struct lp_view *view, const struct lp_slot *slot, size_t *left)
{
    const struct lp_stack *stack;
    uint64_t latest = 0;
    lp_ref ref = GET(slot->last_stack);
    for (; *left > 0 && (stack = lp_view_at(view, ref, sizeof *stack)); ref = GET(stack->older), --*left) {
        for (unsigned i = 0; i < LP_STACK_DEPTH; i++) {
            const struct lp_frame *frame = &stack->frames[i];
            latest = later(latest, GET(frame->start_wall_ns));
            latest = later(latest, later(GET(frame->end_wall_ns), GET(frame->posted_wall_ns)));
        }
    }
    return latest;
}

/* The latest moment of which the image has any trace. */
static uint64_t last_seen_ns(const struct lp_view *view)
{
    const struct lp_header *header = lp_view_header(view);
    uint64_t latest = GET(header->heartbeat_ns);
    const struct lp_slot *slot;
    size_t left = view->size / sizeof *slot, stacks_left = view->size / sizeof(struct lp_stack);
    for (lp_ref ref = GET(header->last_slot); left-- && (slot = lp_view_at(view, ref, sizeof *slot));
         ref = GET(slot->older))
        latest = later(latest, last_edge_ns(view, slot, &stacks_left));
    return latest;
}

static struct lp_stamp stamp_of(const struct lp_view *view, bool alive)
{
    struct lp_stamp stamp = lp_stamp_now();
    uint64_t seen_ns = alive ? stamp.monotonic_ns : last_seen_ns(view);
    if (seen_ns < stamp.monotonic_ns) {
        uint64_t ago_ns = stamp.monotonic_ns - seen_ns;
        stamp.monotonic_ns = seen_ns;
        stamp.realtime_ns -= ago_ns < stamp.realtime_ns ? ago_ns : stamp.realtime_ns;
        stamp.boottime_ns -= ago_ns < stamp.boottime_ns ? ago_ns : stamp.boottime_ns;
    }
    return stamp;
}

/* The text of a name, to be freed; NULL if there is none or it holds a NUL. */
static char *text_of(const struct lp_view *view, lp_ref ref)
{
    const struct lp_name *name = lp_view_name(view, ref);
    if (!name || memchr(name->bytes, '\0', name->len))
        return NULL;
    return strndup(name->bytes, name->len);
}

static bool belongs(const struct lp_view *view, const struct stat *run_dir)
{
    struct stat st;
    char *path = text_of(view, lp_view_header(view)->run_dir);
    bool same = path && stat(path, &st) == 0 && st.st_dev == run_dir->st_dev && st.st_ino == run_dir->st_ino;
    free(path);
    return same;
}

struct search {
    int folder;
    char folder_path[64];
    char boot_id[40];
    struct stat run_dir;
    int (*take)(void *context, const struct lp_image_document *image);
    void *context;
};

static int hand_over(const struct search *search, const struct lp_view *view, const char *file)
{
    char path[512];
    struct lp_buffer text = {0};
    struct lp_emit emit;
    struct lp_image_document image = {.path = path, .alive = owner_lives(lp_view_header(view), view->fd)};
    struct lp_stamp stamp = stamp_of(view, image.alive);
    char *worker = text_of(view, lp_view_header(view)->worker);
    int result = 0;
    snprintf(path, sizeof path, "%s/%.255s", search->folder_path, file);
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_document_emit(&emit, view, &stamp, image.alive ? LP_OWNER_ALIVE : LP_OWNER_GONE);
    if (lp_emit_end(&emit) == 0 && worker) {
        image.worker = worker;
        image.document = text.bytes;
        image.len = text.len;
        result = search->take(search->context, &image);
    }
    free(worker);
    free(text.bytes);
    return result;
}

static int look_at(const struct search *search, const char *file)
{
    struct lp_view view;
    int result = 0;
    int fd = openat(search->folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (lp_view_foreign(&view, fd) == 0) {
        /* Monotonic times of another boot mean nothing here. */
        if (strcmp(lp_view_header(&view)->boot_id, search->boot_id) == 0 && belongs(&view, &search->run_dir))
            result = hand_over(search, &view, file);
        lp_view_release(&view);
    }
    close(fd);
    return result;
}

static bool is_image(const char *file)
{
    size_t len = strlen(file);
    return len > 4 && strcmp(file + len - 4, ".img") == 0;
}

int lp_images_each(const char *run_dir, int (*take)(void *context, const struct lp_image_document *image),
                   void *context)
{
    struct search search = {.take = take, .context = context};
    const struct dirent *entry;
    int result = 0;
    if (stat(run_dir, &search.run_dir) != 0)
        return 0;
    lp_boot_id_read(search.boot_id, sizeof search.boot_id);
    lp_image_folder(search.folder_path, sizeof search.folder_path);
    int fd = lp_image_open_folder(false);
    if (fd < 0)
        return 0;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return 0;
    }
    search.folder = fd;
    while (result == 0 && (entry = readdir(folder)))
        if (is_image(entry->d_name))
            result = look_at(&search, entry->d_name);
    closedir(folder);
    return result;
}

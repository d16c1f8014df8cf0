#include "worker/children.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/other.h"
#include "worker/walk.h"

#define CHILDREN 64
#define FEW_DESCRIPTORS 256

struct child {
    struct lp_process_watch watch;
    struct lp_process_ref process;
    char image[256]; /* its name */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct child children[CHILDREN];
static size_t n_children;
static struct timespec looked; /* when the images' folder had changed last */
static bool looked_at_change;

static bool is_watched(const struct lp_process_ref *process)
{
    for (size_t i = 0; i < n_children; i++)
        if (children[i].process.pid == process->pid && children[i].process.start_ticks == process->start_ticks)
            return true;
    return false;
}

/* This process, as its children's images name it. */
struct self {
    uint64_t pid, pid_namespace;
};

static int look_at(void *context, const struct lp_image_file *file)
{
    struct lp_header header;
    const struct self *self = context;
    struct child *child = &children[n_children];
    if (n_children == CHILDREN)
        return 1;
    if (strlen(file->name) >= sizeof child->image || lp_view_peek(&header, file->fd) != LP_VIEW_FITS ||
        header.parent_pid != self->pid || header.pid_namespace != self->pid_namespace)
        return 0;
    child->process = (struct lp_process_ref){header.pid, header.pid_namespace, header.process_start_ticks};
    if (is_watched(&child->process) || !lp_process_watch(&child->watch, header.pid))
        return 0;
    if (lp_process_lives(&child->process) != LP_PROCESS_LIVES) { /* the watch may be another's, who has the pid now */
        lp_process_unwatch(&child->watch);
        return 0;
    }
    snprintf(child->image, sizeof child->image, "%s", file->name);
    n_children++;
    return 0;
}

static bool descriptors_are_scarce(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < FEW_DESCRIPTORS;
}

/* Whether an image came or went since the last time but one: two changes within a tick of the kernel's clock look like
   one. */
static bool folder_has_changed(void)
{
    struct stat st;
    char path[64];
    lp_image_folder(path, sizeof path);
    if (stat(path, &st) != 0)
        return false;
    bool changed = st.st_mtim.tv_sec != looked.tv_sec || st.st_mtim.tv_nsec != looked.tv_nsec;
    bool again = looked_at_change && !changed;
    looked_at_change = changed;
    looked = st.st_mtim;
    return changed || again;
}

bool lp_children_may_be_new(void)
{
    if (!lp_process_has_children())
        return false;
    pthread_mutex_lock(&lock);
    bool changed = folder_has_changed();
    pthread_mutex_unlock(&lock);
    return changed;
}

void lp_children_look(void)
{
    struct self self = {(uint64_t)getpid(), lp_pid_namespace()};
    pthread_mutex_lock(&lock);
    if (self.pid_namespace != 0 && lp_process_can_watch() && !descriptors_are_scarce())
        lp_images_walk(O_RDONLY, look_at, &self);
    pthread_mutex_unlock(&lock);
}

/* Writes the end into the child's image, if it is still there. */
static void note(int folder, const struct child *child, int status)
{
    struct lp_header header;
    int fd = openat(folder, child->image, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (lp_view_peek(&header, fd) == LP_VIEW_FITS && header.pid == child->process.pid &&
        header.process_start_ticks == child->process.start_ticks)
        lp_image_note_end(fd, status);
    close(fd);
}

static void drop(size_t i)
{
    lp_process_unwatch(&children[i].watch);
    children[i] = children[--n_children];
}

void lp_children_note(void)
{
    int status, folder = -1;
    pthread_mutex_lock(&lock);
    for (size_t i = n_children; i-- > 0;) {
        enum lp_process_end end = lp_process_watched_end(&children[i].watch, &status);
        if (end == LP_END_NOT_YET)
            continue;
        if (end == LP_END_TOLD && (folder >= 0 || (folder = lp_image_open_folder(false)) >= 0))
            note(folder, &children[i], status);
        drop(i);
    }
    if (folder >= 0)
        close(folder);
    pthread_mutex_unlock(&lock);
}

static void drop_all(void)
{
    while (n_children > 0)
        drop(n_children - 1);
    looked = (struct timespec){0};
}

void lp_children_forget(void)
{
    pthread_mutex_lock(&lock);
    drop_all();
    pthread_mutex_unlock(&lock);
}

void lp_children_after_fork(void)
{
    pthread_mutex_init(&lock, NULL); /* a thread that is not here may have held it */
    drop_all();
}

#include "worker/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/other.h"
#include "worker/children.h"
#include "worker/internal.h"
#include "worker/owner.h"
#include "worker/place.h"
#include "worker/publish.h"
#include "worker/samples.h"
#include "worker/walk.h"

#define SECOND_NS 1000000000u
#define HOUR_NS (3600ull * SECOND_NS)
#define DAY_S (24 * 3600)

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

struct adopting {
    const struct lp_adoption *wanted;
    struct lp_run_place run_dir;
    bool have_run_dir;
    uint64_t pid; /* this process's */
    size_t adopted;
};

/* Where in the run directory a dead worker's file belongs. */
struct place {
    char folder[300], worker[256];
};

static bool find_place(struct place *place, const struct lp_view *view, const char *file)
{
    const struct lp_header *header = lp_view_header(view);
    static const char above[] = "workers/";
    if (!lp_view_text(view, header->folder, place->folder, sizeof place->folder) ||
        !lp_image_worker(view, file, place->worker, sizeof place->worker))
        return false;
    const char *host = place->folder + sizeof above - 1;
    return strncmp(place->folder, above, sizeof above - 1) == 0 && *host != '\0' && *host != '.' && !strchr(host, '/');
}

/* Whether the name still stands for the file that is open: else somebody has adopted it meanwhile. */
static bool still_there(const struct lp_image_file *file)
{
    struct stat named, opened;
    return fstatat(file->folder, file->name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file->fd, &opened) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

/* A child of this process that nobody has waited for yet: its end is noted for whoever adopts the image. */
static void note_end(const struct lp_header *header, int fd)
{
    int status;
    if (GET(header->ended) || header->parent_pid != (uint64_t)getpid() || header->pid_namespace != lp_pid_namespace() ||
        !lp_process_end_of_child(header->pid, &status))
        return;
    lp_image_note_end(fd, status);
}

/* What went on in private memory is lost: the last file may hold more than the rest of the image. */
static bool file_is_better(const struct lp_view *view, int folder, const char *worker)
{
    const struct lp_header *header = lp_view_header(view);
    bool partial = GET(header->shared) < GET(header->used);
    return GET(header->file_is_last) || (partial && lp_publish_is_there(folder, worker));
}

/* In the copy that the document is made of. */
static void note_lost_samples(const struct lp_view *view)
{
    struct lp_header *header = (struct lp_header *)(void *)view->copy;
    if (header)
        atomic_fetch_add(&header->troubles[LP_TROUBLE_FAILED_SAMPLES], 1);
}

static bool write_out(const struct lp_view *view, const char *file, const char *run_dir)
{
    struct place place;
    if (!find_place(&place, view, file))
        return false;
    int folder = lp_publish_open(run_dir, place.folder, true, NULL);
    if (folder < 0)
        return false;
    struct lp_stamp seen = lp_owner_seen(view, false);
    if (lp_samples_append(folder, place.worker, view, NULL) != 0) /* which does not keep the rest back, but is told */
        note_lost_samples(view);
    bool done = file_is_better(view, folder, place.worker) ||
                lp_publish(folder, place.worker, LP_PUBLISH_ADOPTER, view, &seen, LP_OWNER_GONE) == 0;
    if (done) {
        lp_publish_clean(folder, place.worker, LP_PUBLISH_OWNER);
        lp_metadata_clean(run_dir, place.worker);
    }
    close(folder);
    return done;
}

/* Another run's directory is looked at only where it is on the file system of our own: the server of another may not
   answer, and is not to hold up a program that has nothing to do with it. */
static bool may_be_asked(const struct adopting *adopting, const struct lp_header *header)
{
    return adopting->have_run_dir && GET(header->run_dir_device) == adopting->run_dir.device;
}

static bool is_ours(const struct adopting *adopting, const struct lp_view *view, const char *file)
{
    return adopting->have_run_dir && lp_image_belongs(view, file, &adopting->run_dir);
}

/* Asked first, since most images may be others': of those as little is read as can be. And before the lock is taken: who
   reads the image's run at that moment would have to pass it over. */
static bool concerns_us(const struct adopting *adopting, const struct lp_header *header,
                        const struct lp_image_file *file)
{
    struct lp_view view;
    if (header->parent_pid == adopting->pid ||
        (adopting->wanted->abandoned && lp_owner_silent_ns(header) >= HOUR_NS && may_be_asked(adopting, header)))
        return true;
    if (!adopting->have_run_dir || !lp_image_may_belong(header, file->fd, &adopting->run_dir) ||
        lp_view_foreign(&view, file->fd) != 0)
        return false;
    bool ours = is_ours(adopting, &view, file->name);
    lp_view_release(&view);
    return ours;
}

/* Another run's directory, where the image says that it is. */
static enum found {
    FOUND,
    GONE,
    OUT_OF_REACH
} find_run_dir(struct lp_run_place *run_dir, const struct lp_view *view, const char *file)
{
    char path[PATH_MAX];
    if (!lp_view_text(view, lp_view_header(view)->run_dir, path, sizeof path) || path[0] != '/')
        return GONE;
    if (!lp_run_place_find(run_dir, path))
        return errno == ENOENT || errno == ENOTDIR ? GONE : OUT_OF_REACH;
    return lp_image_belongs(view, file, run_dir) ? FOUND : GONE; /* another one of that name */
}

/* With the adopter's lock held. */
static void settle(struct adopting *adopting, const struct lp_image_file *file, const struct lp_view *view)
{
    struct lp_run_place other;
    bool ours = is_ours(adopting, view, file->name);
    uint64_t silence_ns = lp_owner_silent_ns(lp_view_header(view));
    if (!ours &&
        (!adopting->wanted->abandoned || silence_ns < HOUR_NS || !may_be_asked(adopting, lp_view_header(view))))
        return;
    enum found found = ours ? FOUND : find_run_dir(&other, view, file->name);
    if (found == GONE && silence_ns / SECOND_NS > DAY_S)
        unlinkat(file->folder, file->name, 0);
    if (found == FOUND && write_out(view, file->name, ours ? adopting->run_dir.path : other.path)) {
        unlinkat(file->folder, file->name, 0);
        adopting->adopted++;
    }
}

/* Nobody of this version will ever read it. */
static void remove_unreadable(const struct lp_image_file *file)
{
    struct stat st;
    if (fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) && time(NULL) - st.st_ctime > 7 * DAY_S &&
        time(NULL) - st.st_mtime > 7 * DAY_S && !lp_image_is_locked(file->fd, LP_LOCK_OWNER))
        unlinkat(file->folder, file->name, 0);
}

static int look_at(void *context, const struct lp_image_file *file)
{
    struct adopting *adopting = context;
    const struct lp_adoption *wanted = adopting->wanted;
    struct lp_header header;
    struct lp_view view;
    if (wanted->stop && wanted->stop(wanted->context))
        return 1;
    if (lp_view_peek(&header, file->fd) != LP_VIEW_FITS) {
        if (wanted->abandoned)
            remove_unreadable(file);
        return 0;
    }
    if ((wanted->largest && GET(header.used) > wanted->largest) || !concerns_us(adopting, &header, file) ||
        lp_owner_lives(&header, file->fd) || !lp_image_lock(file->fd, LP_LOCK_ADOPTER) || !still_there(file))
        return 0;
    note_end(&header, file->fd);
    if (lp_view_foreign(&view, file->fd) != 0)
        return 0;
    settle(adopting, file, &view);
    lp_view_release(&view);
    return 0;
}

size_t lp_adopt(const struct lp_adoption *adoption)
{
    struct adopting adopting = {.wanted = adoption, .pid = (uint64_t)getpid()};
    adopting.have_run_dir =
        (adoption->own && lp_run_place_noted(&adopting.run_dir, adoption->run_dir, adoption->own)) ||
        lp_run_place_find(&adopting.run_dir, adoption->run_dir);
    lp_children_note();
    lp_images_walk(O_RDWR, look_at, &adopting);
    return adopting.adopted;
}

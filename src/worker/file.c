/* The worker's file: when it is written, and what is noted of that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/memory.h"
#include "worker/document.h"
#include "worker/internal.h"
#include "worker/publish.h"
#include "worker/samples.h"

/* mkdir -p. The path is changed and restored. The last part first: it mostly is there, or all above it are, and each
   request may go to a file server. */
static int make_folders(char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return -1;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        int why = errno;
        struct stat st;
        /* Above us may lie what we cannot write to but that is there, or a read-only file system. */
        failed = failed && !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
        *slash = '/';
        if (failed) {
            errno = why;
            return -1;
        }
    }
    return mkdir(path, 0777) != 0 && errno != EEXIST ? -1 : 0;
}

static const char *below_run_dir(const struct lp_worker *worker)
{
    return worker->folder + strlen(worker->run_dir) + 1;
}

void lp_worker_note_run_dir(struct lp_worker *worker, const struct stat *run_dir)
{
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    worker->run_dir_device = run_dir->st_dev;
    worker->run_dir_inode = run_dir->st_ino;
    worker->run_dir_changed = run_dir->st_mtim;
    atomic_store(&header->run_dir_device, worker->run_dir_device);
    atomic_store(&header->run_dir_inode, worker->run_dir_inode);
}

/* Else it may be another directory, which somebody has made in the place of the old one. */
static bool is_as_noted(const struct lp_worker *worker, const struct stat *run_dir)
{
    return run_dir->st_dev == worker->run_dir_device && run_dir->st_ino == worker->run_dir_inode &&
           run_dir->st_mtim.tv_sec == worker->run_dir_changed.tv_sec &&
           run_dir->st_mtim.tv_nsec == worker->run_dir_changed.tv_nsec;
}

int lp_worker_make_folder(struct lp_worker *worker)
{
    if (make_folders(worker->run_dir) != 0)
        return -1;
    int folder = lp_publish_open(worker->run_dir, below_run_dir(worker), true, NULL);
    if (folder < 0) /* no descriptor is left, which may change: the first write makes it */
        return errno == EMFILE || errno == ENFILE ? 0 : -1;
    int failed = faccessat(folder, ".", W_OK | X_OK, AT_EACCESS);
    int why = errno;
    close(folder);
    errno = why;
    return failed;
}

/* The folder open for use; made anew if somebody removed it. */
static int open_folder(struct lp_worker *worker)
{
    struct stat run_dir;
    int folder = lp_publish_open(worker->run_dir, below_run_dir(worker), false, &run_dir);
    if (folder >= 0 && !is_as_noted(worker, &run_dir))
        worker->listed = false; /* which is seen to after the write */
    if (folder < 0 && errno == ENOENT && lp_worker_make_folder(worker) == 0) {
        worker->run_dir_id = 0; /* it may have the inode of the old one */
        lp_metadata_add(worker);
        folder = lp_publish_open(worker->run_dir, below_run_dir(worker), false, NULL);
    }
    return folder;
}

static void take_troubles(struct lp_header *header)
{
    atomic_store(&header->troubles[LP_TROUBLE_CLOCK_JUMPS], lp_wall_jumps());
    atomic_store(&header->cpu_mode, lp_cpu_mode());
    atomic_store(&header->wall_source, lp_wall_source());
}

/* Not in a signal handler: there the last ones serve. */
static void take_memory(struct lp_worker *worker)
{
    struct lp_own_memory memory;
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    lp_memory_of_self(&memory);
    if (memory.peak_rss_bytes > atomic_load(&header->peak_rss_bytes)) /* the host may have set it back */
        atomic_store(&header->peak_rss_bytes, memory.peak_rss_bytes);
    /* Not at the end if it is known: of processes that share pages and end one after the other, the last would have all. */
    if (worker->measure_pss && !(atomic_load(&header->closed) && atomic_load(&header->pss_bytes)))
        atomic_store(&header->pss_bytes, memory.rss_bytes < LP_PSS_RSS_LIMIT ? lp_memory_pss_of_self() : 0);
}

static struct lp_stamp moment(struct lp_worker *worker)
{
    const struct lp_header *header = lp_image_header(&worker->recorder.image);
    return atomic_load(&worker->closed) ? header->closed_at : lp_stamp_now();
}

static void append_samples(struct lp_worker *worker, int folder)
{
    struct lp_view view;
    struct lp_image *image = &worker->recorder.image;
    lp_view_own(&view, image);
    if (lp_samples_append(folder, worker->name, &view, image) != 0)
        lp_image_trouble(image, LP_TROUBLE_FAILED_SAMPLES);
}

static int replace_file(struct lp_worker *worker, int folder)
{
    struct lp_view view;
    struct lp_stamp now = moment(worker);
    append_samples(worker, folder); /* so that the file tells of them */
    lp_view_own(&view, &worker->recorder.image);
    return lp_publish(folder, worker->name, LP_PUBLISH_OWNER, &view, &now, LP_OWNER_SELF);
}

/* Safe in a signal handler where the folder is there. */
static int write_file(struct lp_worker *worker)
{
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    take_troubles(header);
    atomic_fetch_add(&header->flushes, 1);
    int folder = open_folder(worker);
    int failed = folder < 0 ? -1 : replace_file(worker, folder);
    int why = errno;
    if (folder >= 0)
        close(folder);
    if (failed)
        atomic_fetch_add(&header->troubles[LP_TROUBLE_FAILED_FLUSHES], 1);
    errno = why;
    return failed;
}

int lp_worker_write_locked(struct lp_worker *worker)
{
    take_memory(worker);
    int failed = write_file(worker);
    int why = errno;
    if (!failed && !worker->listed) /* or there was no room, or no descriptor, when it was opened */
        lp_metadata_add(worker);
    errno = why;
    return failed;
}

int lp_worker_flush(struct lp_worker *worker)
{
    pthread_mutex_lock(&worker->flush);
    struct lp_own_io own = lp_own_io_begin();
    int failed = atomic_load(&worker->closed) ? 0 : lp_worker_write_locked(worker);
    int why = errno;
    lp_own_io_end(worker, &own);
    pthread_mutex_unlock(&worker->flush);
    errno = why;
    return failed;
}

void lp_worker_try_flush(struct lp_worker *worker)
{
    if (access(worker->folder, W_OK) != 0 || pthread_mutex_trylock(&worker->flush) != 0)
        return;
    struct lp_own_io own = lp_own_io_begin();
    if (!atomic_load(&worker->closed))
        write_file(worker);
    lp_own_io_end(worker, &own);
    pthread_mutex_unlock(&worker->flush);
}

void lp_worker_file_samples(struct lp_worker *worker)
{
    pthread_mutex_lock(&worker->flush);
    struct lp_own_io own = lp_own_io_begin();
    int folder = open_folder(worker);
    if (folder >= 0) {
        append_samples(worker, folder);
        close(folder);
    } else {
        lp_image_trouble(&worker->recorder.image, LP_TROUBLE_FAILED_SAMPLES);
    }
    lp_own_io_end(worker, &own);
    pthread_mutex_unlock(&worker->flush);
}

char *lp_worker_document(struct lp_worker *worker, size_t *len)
{
    struct lp_buffer text = {0};
    struct lp_emit emit;
    struct lp_view view;
    errno = 0;
    if (!lp_record_is_here())
        return NULL;
    pthread_mutex_lock(&worker->shown);
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    if (!header || header->version == 0) { /* a forked child that has recorded nothing, or could not */
        pthread_mutex_unlock(&worker->shown);
        errno = 0;
        return NULL;
    }
    struct lp_stamp now = moment(worker);
    take_troubles(header);
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_view_own(&view, &worker->recorder.image);
    lp_document_emit(&emit, &view, &now, NULL, LP_OWNER_SELF);
    pthread_mutex_unlock(&worker->shown);
    if (lp_emit_end(&emit) != 0) {
        free(text.bytes);
        errno = ENOMEM;
        return NULL;
    }
    *len = text.len;
    return text.bytes;
}

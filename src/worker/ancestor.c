#include "worker/ancestor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/view.h"
#include "process/identity.h"
#include "process/other.h"

#define PARENTS 64 /* a longer line of them is not looked through */

struct parent {
    uint64_t pid, start_ticks;
};

struct search {
    struct parent parents[PARENTS]; /* the nearest first */
    size_t n_parents;
    char boot_id[40];
    uint64_t pid_namespace;
    int folder;
    bool any_run_dir;
    struct stat run_dir;
    size_t nearest; /* place of the best so far; n_parents if there is none */
    struct lp_ancestor *found;
};

static void list_parents(struct search *search)
{
    uint64_t pid = (uint64_t)getppid(), parent;
    while (search->n_parents < PARENTS && pid != 0) {
        struct parent *next = &search->parents[search->n_parents];
        if (!lp_process_parent(pid, &parent, &next->start_ticks))
            break;
        next->pid = pid;
        search->n_parents++;
        pid = parent;
    }
}

/* The pid in w_<run>_<pid>_<uuid8>.img; 0 if that is not what the file is called. */
static uint64_t pid_in(const char *file)
{
    static const char tail[] = "_01234567.img";
    size_t len = strlen(file);
    if (len < sizeof tail || strcmp(file + len - 4, ".img") != 0 || file[len - (sizeof tail - 1)] != '_')
        return 0;
    const char *pid = file + len - (sizeof tail - 1);
    while (pid > file && pid[-1] >= '0' && pid[-1] <= '9')
        pid--;
    return pid > file && pid[-1] == '_' ? strtoull(pid, NULL, 10) : 0;
}

static size_t place_of(const struct search *search, uint64_t pid)
{
    size_t i = 0;
    while (i < search->n_parents && search->parents[i].pid != pid)
        i++;
    return i;
}

/* A text that is not empty. */
static bool copy_text(char *text, size_t size, const struct lp_view *view, lp_ref ref)
{
    return lp_view_text(view, ref, text, size) && text[0] != '\0';
}

static bool is_same_folder(const char *path, const struct stat *folder)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

/* Takes the image for the result if it is an open profiler of that parent and better than what was found so far. */
static void consider(struct search *search, const struct lp_view *view, size_t place)
{
    const struct lp_header *header = lp_view_header(view);
    const struct parent *parent = &search->parents[place];
    struct lp_ancestor ancestor = {.pid = parent->pid, .opened_boottime_ns = header->started.boottime_ns};
    if (header->pid != parent->pid || header->process_start_ticks != parent->start_ticks ||
        header->pid_namespace != search->pid_namespace || strcmp(header->boot_id, search->boot_id) != 0 ||
        atomic_load(&header->closed))
        return;
    if (place == search->nearest && ancestor.opened_boottime_ns < search->found->opened_boottime_ns)
        return;
    if (!copy_text(ancestor.run_dir, sizeof ancestor.run_dir, view, header->run_dir) ||
        !copy_text(ancestor.worker, sizeof ancestor.worker, view, header->worker) ||
        !copy_text(ancestor.run_id, sizeof ancestor.run_id, view, header->run_id))
        return;
    if (!search->any_run_dir && !is_same_folder(ancestor.run_dir, &search->run_dir))
        return;
    search->nearest = place;
    *search->found = ancestor;
}

static void look_at(struct search *search, const char *file, size_t place)
{
    struct lp_view view;
    int fd = openat(search->folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (lp_view_foreign(&view, fd) == 0) {
        consider(search, &view, place);
        lp_view_release(&view);
    }
    close(fd);
}

static void look_through(struct search *search, DIR *folder)
{
    const struct dirent *entry;
    list_parents(search);
    search->nearest = search->n_parents;
    while ((entry = readdir(folder))) {
        size_t place = place_of(search, pid_in(entry->d_name));
        if (place < search->n_parents && place <= search->nearest)
            look_at(search, entry->d_name, place);
    }
}

bool lp_ancestor_find(struct lp_ancestor *found, const char *run_dir)
{
    struct search search = {.found = found, .any_run_dir = !run_dir, .pid_namespace = lp_pid_namespace()};
    if (search.pid_namespace == 0 || (run_dir && stat(run_dir, &search.run_dir) != 0))
        return false;
    search.folder = lp_image_open_folder(false);
    DIR *folder = search.folder < 0 ? NULL : fdopendir(search.folder);
    if (!folder) {
        if (search.folder >= 0)
            close(search.folder);
        return false;
    }
    lp_boot_id_read(search.boot_id, sizeof search.boot_id);
    look_through(&search, folder);
    closedir(folder);
    return search.nearest < search.n_parents;
}

bool lp_ancestor_has_image(const char *worker, size_t len)
{
    struct stat st;
    char file[272];
    int n = snprintf(file, sizeof file, "%.*s.img", (int)len, worker);
    int folder = len == 0 || len >= sizeof file || memchr(worker, '/', len) ? -1 : lp_image_open_folder(false);
    bool found = folder >= 0 && (size_t)n < sizeof file && fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (folder >= 0)
        close(folder);
    return found;
}

uint64_t lp_process_began_ns(void)
{
    uint64_t parent, ticks;
    long per_second = sysconf(_SC_CLK_TCK);
    if (per_second <= 0 || !lp_process_parent((uint64_t)getpid(), &parent, &ticks))
        return UINT64_MAX;
    return (ticks + 1) * (1000000000u / (uint64_t)per_second);
}

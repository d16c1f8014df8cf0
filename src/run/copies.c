#include "run/copies.h"

#include <stdlib.h>
#include <string.h>

#include "run/document.h"

/* Files of one name being looked at. */
struct look {
    int dir_fd;
    struct lp_run_buffer buffer;
    struct lp_run_document document;
};

static const char *name_of(const struct lp_run_file *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

static int by_name(const void *a, const void *b)
{
    const struct lp_run_file *left = *(struct lp_run_file *const *)a, *right = *(struct lp_run_file *const *)b;
    int order = strcmp(name_of(left), name_of(right));
    return order ? order : strcmp(left->path, right->path);
}

/* How far a file goes in its worker's life. */
struct reach {
    bool known; /* else it cannot be read, or is of another worker than its name says */
    bool last;
    uint64_t flush;
};

static bool goes_further(const struct reach *one, const struct reach *other)
{
    if (one->known != other->known)
        return one->known;
    return one->last != other->last ? one->last : one->flush > other->flush;
}

/* 0, or -1 without memory. */
static int reach_of(struct reach *reach, struct look *look, const struct lp_run_file *file)
{
    struct lp_run_fault fault;
    const struct lp_run_document *document = &look->document;
    const char *name = name_of(file);
    *reach = (struct reach){0};
    if (file->fault)
        return 0;
    if (lp_run_read_file(&look->buffer, look->dir_fd, file->path, &fault) < 0 ||
        lp_run_document_parse(&look->document, look->buffer.bytes, look->buffer.len, &fault) < 0)
        return fault.no_memory ? -1 : 0;
    bool known = lp_text_equal(document->worker, (struct lp_span){name, strlen(name) - strlen(".json")});
    *reach = (struct reach){known, document->closed || document->ended, document->flush};
    return 0;
}

static void leave_out(struct lp_run_copies *copies, struct lp_run_file *file)
{
    if (copies->first)
        free(file->path);
    else
        copies->first = file->path;
    file->path = NULL;
    copies->n++;
}

/* Files of one name. */
static int choose(struct lp_run_copies *copies, struct look *look, struct lp_run_file **files, size_t n)
{
    struct reach reach, furthest = {0};
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        if (reach_of(&reach, look, files[i]) < 0)
            return -1;
        if (goes_further(&reach, &furthest)) {
            furthest = reach;
            best = i;
        }
    }
    for (size_t i = 0; i < n && furthest.known; i++)
        if (i != best)
            leave_out(copies, files[i]);
    return 0;
}

static void close_ranks(struct lp_run_files *files)
{
    size_t n = 0;
    for (size_t i = 0; i < files->n_files; i++)
        if (files->files[i].path)
            files->files[n++] = files->files[i];
    files->n_files = n;
}

int lp_run_copies_leave_out(struct lp_run_copies *copies, struct lp_run_files *files, int dir_fd)
{
    struct look look = {.dir_fd = dir_fd};
    *copies = (struct lp_run_copies){0};
    struct lp_run_file **sorted = malloc((files->n_files + 1) * sizeof(struct lp_run_file *));
    int result = sorted ? 0 : -1;
    for (size_t i = 0; sorted && i < files->n_files; i++)
        sorted[i] = &files->files[i];
    if (sorted && files->n_files)
        qsort(sorted, files->n_files, sizeof(struct lp_run_file *), by_name);
    for (size_t i = 0, n; result == 0 && i < files->n_files; i += n) {
        const char *name = name_of(sorted[i]);
        for (n = 1; i + n < files->n_files && strcmp(name_of(sorted[i + n]), name) == 0; n++)
            ;
        if (n > 1)
            result = choose(copies, &look, &sorted[i], n);
    }
    close_ranks(files);
    free(sorted);
    lp_run_buffer_release(&look.buffer);
    lp_run_document_release(&look.document);
    return result;
}

void lp_run_copies_release(struct lp_run_copies *copies)
{
    free(copies->first);
    *copies = (struct lp_run_copies){0};
}

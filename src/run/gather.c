#include "run/gather.h"

#include <stdlib.h>
#include <string.h>

#include "run/room.h"

static int name_unreadable(struct lp_run_gather *gather, const char *path, const char *reason)
{
    if (lp_run_room(&gather->unreadable, &gather->unreadable_room, gather->n_unreadable, sizeof *gather->unreadable) <
        0)
        return -1;
    struct lp_run_unreadable *unreadable = &gather->unreadable[gather->n_unreadable];
    *unreadable = (struct lp_run_unreadable){strdup(path), strdup(reason)};
    if (!unreadable->path || !unreadable->reason) {
        free(unreadable->path);
        free(unreadable->reason);
        return -1;
    }
    gather->n_unreadable++;
    return 0;
}

/* "workers/<host>/<worker>.json" or ".../<worker>.img" as the worker's name. */
static struct lp_span worker_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return (struct lp_span){name, dot ? (size_t)(dot - name) : strlen(name)};
}

/* The worker's image, if it was not refused. */
static struct lp_run_image *find_image(struct lp_run_gather *gather, struct lp_span worker)
{
    for (size_t i = 0; i < gather->n_images; i++) {
        struct lp_run_image *image = &gather->images[i];
        if (!image->reason && lp_text_equal(lp_text_span(&image->worker), worker))
            return image;
    }
    return NULL;
}

static int refuse_image(struct lp_run_image *image, const char *reason)
{
    image->reason = strdup(reason);
    return image->reason ? lp_text_copy(&image->worker, worker_of_path(image->label)) : -1;
}

static int keep_image(struct lp_run_image *image, const struct lp_run_document *document, struct lp_span json)
{
    image->written = document->written;
    image->flush = document->flush;
    image->partial = document->private_image;
    return lp_text_copy(&image->worker, document->worker) < 0 ? -1 : lp_text_copy(&image->json, json);
}

int lp_run_gather_image(void *context, const char *label, const char *bytes, size_t len, enum lp_run_source source,
                        const struct lp_view *view)
{
    struct lp_run_gather *gather = context;
    struct lp_run_fault fault;
    if (lp_run_room(&gather->images, &gather->images_room, gather->n_images, sizeof *gather->images) < 0)
        return -1;
    struct lp_run_image *image = &gather->images[gather->n_images++];
    *image = (struct lp_run_image){.label = strdup(label), .source = source};
    if (!image->label)
        return -1;
    if (!bytes)
        return refuse_image(image, "recorded by another version of lineprofiler: read the run with that one");
    if (lp_run_document_parse(&gather->document, bytes, len, &fault) < 0)
        return fault.no_memory ? -1 : refuse_image(image, fault.text);
    if (view && lp_run_pending_take(&image->pending, view) < 0)
        return -1;
    return keep_image(image, &gather->document, (struct lp_span){bytes, len});
}

/* Notes the document's worker. 1 if it is new, 0 if it was seen before. */
static int note_name(struct lp_run_gather *gather)
{
    if (lp_run_table_find(&gather->seen, gather, gather->document.worker))
        return 0;
    if (lp_run_room(&gather->names, &gather->names_room, gather->n_names, sizeof *gather->names) < 0)
        return -1;
    struct lp_text *name = &gather->names[gather->n_names++];
    if (lp_text_copy(name, gather->document.worker) < 0)
        return -1;
    return lp_run_table_add(&gather->seen, gather, lp_text_span(name), name->bytes) < 0 ? -1 : 1;
}

static int take_document(struct lp_run_gather *gather, const char *path, enum lp_run_source source)
{
    if (gather->only.bytes && !lp_text_equal(gather->only, gather->document.run_id))
        return 0;
    int new = note_name(gather);
    if (new < 0)
        return -1;
    if (!new)
        return name_unreadable(gather, path, "a second file of a worker that was read already: left out");
    gather->attempts.filter = gather->filter;
    gather->attempts.run_id = gather->run_id;
    return lp_run_attempts_add(&gather->attempts, &gather->document, path, source);
}

/* A file that cannot be read costs nothing where the worker's image can. */
static int refuse_file(struct lp_run_gather *gather, const char *path, const char *reason)
{
    return find_image(gather, worker_of_path(path)) ? 0 : name_unreadable(gather, path, reason);
}

static bool image_beats(const struct lp_run_image *image, const struct lp_run_document *file)
{
    if (file->closed || file->ended || image->partial)
        return false;
    /* Of a worker that lives the file may be newer by a moment: it flushed while we read. That it lives counts more. */
    return image->source == LP_SOURCE_LIVE_IMAGE || image->flush >= file->flush;
}

typedef int read_fn(struct lp_run_buffer *buffer, int dir_fd, const char *path, struct lp_run_fault *fault);

static int read_document(struct lp_run_gather *gather, int dir_fd, const char *path, read_fn *read,
                         struct lp_run_fault *fault)
{
    if (read(&gather->buffer, dir_fd, path, fault) < 0)
        return -1;
    return lp_run_document_parse(&gather->document, gather->buffer.bytes, gather->buffer.len, fault);
}

int lp_run_gather_file(struct lp_run_gather *gather, int dir_fd, const struct lp_run_file *file)
{
    struct lp_run_fault fault;
    const struct lp_run_document *document = &gather->document;
    if (file->fault)
        return refuse_file(gather, file->path, file->fault);
    int failed = read_document(gather, dir_fd, file->path, lp_run_read_file, &fault);
    if (failed && !fault.no_memory) /* looked at more closely: it may be whole */
        failed = read_document(gather, dir_fd, file->path, lp_run_read_file_anew, &fault);
    if (failed)
        return fault.no_memory ? -1 : refuse_file(gather, file->path, fault.text);
    struct lp_run_image *image = find_image(gather, document->worker);
    if (image && image_beats(image, document)) {
        if (document->written.monotonic_ns > image->written.monotonic_ns)
            image->written = document->written;
        return 0;
    }
    if (image)
        image->outdated = true;
    return take_document(gather, file->path, LP_SOURCE_FILE);
}

static int take_image(struct lp_run_gather *gather, const struct lp_run_image *image)
{
    struct lp_run_fault fault;
    if (image->outdated)
        return 0;
    if (image->reason) {
        bool seen = lp_run_table_find(&gather->seen, gather, lp_text_span(&image->worker));
        return seen ? 0 : name_unreadable(gather, image->label, image->reason);
    }
    if (lp_run_document_parse(&gather->document, image->json.bytes, image->json.len, &fault) < 0)
        return -1;
    gather->document.written = image->written;
    gather->document.pending = image->pending;
    return take_document(gather, image->label, image->source);
}

int lp_run_gather_images(struct lp_run_gather *gather)
{
    for (size_t i = 0; i < gather->n_images; i++)
        if (take_image(gather, &gather->images[i]) < 0)
            return -1;
    return 0;
}

static void forget(struct lp_run_gather *gather)
{
    lp_run_attempts_release(&gather->attempts);
    lp_run_table_release(&gather->seen);
    for (size_t i = 0; i < gather->n_unreadable; i++) {
        free(gather->unreadable[i].path);
        free(gather->unreadable[i].reason);
    }
    for (size_t i = 0; i < gather->n_names; i++)
        lp_text_release(&gather->names[i]);
    gather->n_unreadable = gather->n_names = 0;
}

void lp_run_gather_restart(struct lp_run_gather *gather, struct lp_span only)
{
    forget(gather);
    gather->only = only;
    for (size_t i = 0; i < gather->n_images; i++)
        gather->images[i].outdated = false;
}

void lp_run_gather_release(struct lp_run_gather *gather)
{
    forget(gather);
    for (size_t i = 0; i < gather->n_images; i++) {
        lp_text_release(&gather->images[i].worker);
        lp_text_release(&gather->images[i].json);
        free(gather->images[i].label);
        free(gather->images[i].reason);
        free(gather->images[i].pending);
    }
    free(gather->images);
    free(gather->unreadable);
    free(gather->names);
    lp_run_document_release(&gather->document);
    lp_run_buffer_release(&gather->buffer);
    *gather = (struct lp_run_gather){0};
}

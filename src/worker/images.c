#include "worker/images.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/document.h"
#include "worker/owner.h"
#include "worker/place.h"
#include "worker/walk.h"

struct search {
    char folder[64];
    struct lp_run_place run_dir;
    int (*take)(void *context, const struct lp_image_document *image);
    void *context;
};

static int hand_over(const struct search *search, const struct lp_view *view, const char *file)
{
    char path[512], worker[256];
    struct lp_buffer text = {0};
    struct lp_emit emit;
    bool lives = lp_owner_lives(lp_view_header(view), view->fd);
    struct lp_image_document image = {.worker = worker, .path = path, .view = view, .alive = lives};
    struct lp_stamp seen = lp_owner_seen(view, lives);
    int result = 0;
    snprintf(path, sizeof path, "%s/%.255s", search->folder, file);
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_document_emit(&emit, view, &seen, NULL, lives ? LP_OWNER_ALIVE : LP_OWNER_GONE);
    if (lp_emit_end(&emit) == 0 && lp_image_worker(view, file, worker, sizeof worker)) {
        image.document = text.bytes;
        image.len = text.len;
        result = search->take(search->context, &image);
    }
    free(text.bytes);
    return result;
}

static int name_other_version(const struct search *search, const struct lp_header *header,
                              const struct lp_image_file *file)
{
    char path[512];
    if (!lp_image_of_other_version_belongs(header, file->name, file->fd, &search->run_dir))
        return 0;
    snprintf(path, sizeof path, "%s/%.255s", search->folder, file->name);
    return search->take(search->context, &(struct lp_image_document){.path = path});
}

static int look_at(void *context, const struct lp_image_file *file)
{
    const struct search *search = context;
    struct lp_header header;
    struct lp_view view;
    int result = 0;
    enum lp_view_peeked peeked = lp_view_peek(&header, file->fd);
    if (peeked == LP_VIEW_OTHER_VERSION)
        return name_other_version(search, &header, file);
    if (peeked != LP_VIEW_FITS || !lp_image_may_belong(&header, file->fd, &search->run_dir) ||
        lp_view_foreign(&view, file->fd) != 0)
        return 0;
    if (lp_image_belongs(&view, file->name, &search->run_dir))
        result = hand_over(search, &view, file->name);
    lp_view_release(&view);
    return result;
}

int lp_images_each(const char *run_dir, int (*take)(void *context, const struct lp_image_document *image),
                   void *context)
{
    struct search search = {.take = take, .context = context};
    if (!lp_run_place_find(&search.run_dir, run_dir))
        return 0;
    lp_image_folder(search.folder, sizeof search.folder);
    return lp_images_walk(O_RDONLY, look_at, &search);
}

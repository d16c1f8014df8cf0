#include "run/live.h"

#include "worker/images.h"

struct passing {
    lp_run_live_fn *take;
    void *context;
};

static int pass_on(void *context, const struct lp_image_document *image)
{
    const struct passing *passing = context;
    return passing->take(passing->context, image->path, image->document, image->len,
                         image->alive ? LP_SOURCE_LIVE_IMAGE : LP_SOURCE_DEAD_IMAGE, image->view);
}

int lp_run_live_each(const char *dir, lp_run_live_fn *take, void *context)
{
    struct passing passing = {take, context};
    return lp_images_each(dir, pass_on, &passing);
}

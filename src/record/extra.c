/* Figures that few nodes have: marks, and device times that come long after the entry has ended. */
#include "record/record.h"

void *lp_record_get_or_make(struct lp_image *image, _Atomic lp_ref *place, size_t bytes)
{
    lp_ref ref = LP_GET(*place);
    if (!ref) {
        ref = lp_image_alloc(image, bytes);
        if (!ref) {
            lp_image_trouble(image, LP_TROUBLE_IMAGE_FULL);
            return NULL;
        }
        atomic_store_explicit(place, ref, memory_order_release);
    }
    return lp_image_at(image, ref);
}

bool lp_node_mark(struct lp_thread *thread, struct lp_node *node, uint32_t flags)
{
    struct lp_extra *extra = lp_record_get_or_make(&thread->recorder->image, &node->extra, sizeof *extra);
    if (extra && (LP_GET(extra->flags) & flags) != flags)
        LP_SET(extra->flags, LP_GET(extra->flags) | flags);
    return extra != NULL;
}

void lp_node_add_device_time(struct lp_image *image, struct lp_node *node, uint64_t ns)
{
    struct lp_extra *extra = lp_image_at(image, LP_GET(node->extra));
    unsigned bucket = lp_hist_bucket_of(ns);
    struct lp_gpu_hist *hist = lp_record_get_or_make(image, &extra->gpu_hist, sizeof *hist);
    struct lp_octave *octave =
        hist ? lp_record_get_or_make(image, &hist->octaves[bucket / LP_HIST_PER_OCTAVE], sizeof *octave) : NULL;
    if (!octave)
        return;
    LP_ADD(octave->counts[bucket % LP_HIST_PER_OCTAVE], 1);
    LP_ADD(extra->gpu_ns, ns);
    LP_ADD(extra->gpu_calls, 1);
}

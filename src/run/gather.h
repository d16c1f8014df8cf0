/*
 * gather: every document of a run directory taken in - from files, from images - and each worker counted once.
 *
 * Owns: which of several documents of one worker is used, and what could not be read. A file is final if its worker closed or is known to have ended. Else a
 * living worker's image beats a file written before it was copied, and a dead worker's image beats every file of its
 * flushes: its written stamp is when it was last seen, which may be before the last flush. An image that went on in
 * private memory shows the rest of us but a part, and yields to any file. Of files under different names the first is
 * taken. An image that is refused is named only where no file stands in for it.
 *
 * Images come first: a worker that closes between the two readings has then left its last file behind. Their documents
 * are kept as text until the files are through.
 */
#ifndef LP_RUN_GATHER_H
#define LP_RUN_GATHER_H

#include "run/attempts.h"
#include "run/pending.h"
#include "run/scan.h"

struct lp_run_image {
    struct lp_text worker, json; /* Owned. */
    char *label, *reason;        /* Owned. reason: why it was refused; NULL: it was not. */
    struct lp_run_stamp written; /* The later of its own and its file's. */
    uint64_t flush;
    enum lp_run_source source;
    bool partial;                   /* What came last is in its owner's private memory. */
    bool outdated;                  /* Its file is newer. */
    struct lp_run_pending *pending; /* Owned: its samples that no file has; NULL: none. */
};

struct lp_run_gather {
    struct lp_run_attempts attempts;
    struct lp_run_unreadable *unreadable; /* Owned. */
    size_t n_unreadable, unreadable_room;
    struct lp_run_image *images; /* Owned. */
    size_t n_images, images_room;
    struct lp_text *names; /* Owned: workers taken in. */
    size_t n_names, names_room;
    struct lp_run_table seen;           /* Of names. */
    const struct lp_run_filter *filter; /* Borrowed; NULL: all workers. */
    const char *run_id;                 /* Borrowed: of the attempt that was asked for; NULL: the newest. */
    struct lp_span only;                /* Borrowed: the one run id that is taken in; NULL: all. */
    struct lp_run_document document;
    struct lp_run_buffer buffer;
};

/* *gather must be zeroed before its first use. All return 0, or -1 without memory: then there is only release. */

/* Takes in an image's document: a lp_run_live_fn, context being the gather. */
int lp_run_gather_image(void *gather, const char *label, const char *bytes, size_t len, enum lp_run_source source,
                        const struct lp_view *view);
/* Takes in a file, or names it. */
int lp_run_gather_file(struct lp_run_gather *gather, int dir_fd, const struct lp_run_file *file);
/* Takes in the images that no file has outdated. After the files. */
int lp_run_gather_images(struct lp_run_gather *gather);

/* Forgets all but the images, to begin anew with one attempt only. */
void lp_run_gather_restart(struct lp_run_gather *gather, struct lp_span only);
void lp_run_gather_release(struct lp_run_gather *gather);

#endif

/*
 * nearest: "did you mean ...?", by the edit distance between short words.
 *
 * Must not know: what the words name.
 */
#ifndef LP_RUN_NEAREST_H
#define LP_RUN_NEAREST_H

#include <stddef.h>

/* How many letters of a mistyped word would have to change to make it the candidate; SIZE_MAX if it is not near. */
size_t lp_run_distance(const char *word, const char *candidate);

/* The candidate nearest to a mistyped word, the first of several, or NULL if none is near. candidates end with NULL. */
const char *lp_run_nearest(const char *word, const char *const *candidates);

#endif

#include "run/nearest.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 64 /* Longer words are near to nothing. */
#define NEAR 2

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* One row of the table at a time: row[j] is the distance of the first i letters of a to the first j of b. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

size_t lp_run_distance(const char *word, const char *candidate)
{
    if (strlen(word) > WORD_MAX || strlen(candidate) > WORD_MAX)
        return SIZE_MAX;
    size_t far = distance(word, candidate);
    return far <= NEAR && far < strlen(candidate) ? far : SIZE_MAX;
}

const char *lp_run_nearest(const char *word, const char *const *candidates)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (; *candidates != NULL; candidates++) {
        size_t far = lp_run_distance(word, *candidates);
        if (far < best) {
            best = far;
            nearest = *candidates;
        }
    }
    return nearest;
}

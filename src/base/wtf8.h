/*
 * base/wtf8: UTF-8 in which lone surrogates may stand, the form in which every name is kept: all that a Python string can
 * hold has one, and no other (https://simonsapin.github.io/wtf-8/, but for surrogate pairs, which stay as they are).
 */
#ifndef LP_BASE_WTF8_H
#define LP_BASE_WTF8_H

#include <stddef.h>

/* Length of the sequence that begins at bytes, of which left are there; 0 if none does. left is at least 1. */
size_t lp_wtf8_sequence(const char *bytes, size_t left);

#endif

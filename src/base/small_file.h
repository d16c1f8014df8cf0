/*
 * base/small_file: a file that is short and read at once, as those of /proc and /sys are.
 *
 * Opened without waiting for whoever may be at the other end. No memory is taken; async-signal-safe.
 */
#ifndef LP_BASE_SMALL_FILE_H
#define LP_BASE_SMALL_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads at most size - 1 bytes and ends them with NUL, text being "" if there are none. How many; -1 with errno set. */
ssize_t lp_small_file_read(const char *path, char *text, size_t size);

#endif

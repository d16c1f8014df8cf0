/*
 * scan: which files of a run directory are worker files, and how such a file is read.
 *
 * Owns: the walk over workers/<host>/w_*.json (and files that lie in workers/ itself), the order of the files - by host
 * folder, then name - and the opening of a file that anybody may have put there: regular files only, no symbolic link
 * is followed and nothing is waited for. What carries a worker file's name and is none of that is in the list with a
 * fault, so that it is named; *.tmp and other names are not ours.
 *
 * Costs: the list is about 100 bytes a file; one folder is open at a time.
 *
 * Must not know: what is in a file.
 */
#ifndef LP_RUN_SCAN_H
#define LP_RUN_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "run/fault.h"

#define LP_RUN_FILE_MAX (256u * 1024 * 1024) /* Bytes of a worker file. */

struct lp_run_file {
    char *path;        /* Owned; relative to the run directory. */
    const char *fault; /* Borrowed, static: why it is not to be opened; NULL: it is. */
};

struct lp_run_files {
    struct lp_run_file *files; /* Owned. */
    size_t n_files, room;
};

/* A file's bytes; the room is used again from file to file. Zeroed before its first use. */
struct lp_run_buffer {
    char *bytes; /* Owned. */
    size_t len, room;
};

/* Lists what is under the directory open as dir_fd. 0, or -1 with errno; *files is to be released in both cases. */
int lp_run_scan(struct lp_run_files *files, int dir_fd);
void lp_run_files_release(struct lp_run_files *files);

/* Opens a regular file of at most `most` bytes, and tells its size. The descriptor, or -1 with a fault; errno is ENOENT
   then if there is none. */
int lp_run_open_file(int dir_fd, const char *path, uint64_t most, size_t *size, struct lp_run_fault *fault);

/* Reads a whole file below dir_fd into buffer. 0, or -1 with a fault. */
int lp_run_read_file(struct lp_run_buffer *buffer, int dir_fd, const char *path, struct lp_run_fault *fault);
/* The same, with the file's size asked of whoever serves it: sshfs and the like remember for a while how long the file was
   that had this name before, and a longer one that has taken its place seems to be cut off. Costs a request more. */
int lp_run_read_file_anew(struct lp_run_buffer *buffer, int dir_fd, const char *path, struct lp_run_fault *fault);
void lp_run_buffer_release(struct lp_run_buffer *buffer);

#endif

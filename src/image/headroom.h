/*
 * image/headroom: how much memory an image may take without endangering its host program.
 *
 * Growing can kill: at a memory cgroup's limit an allocation, in tmpfs or private, is an OOM kill, beyond RLIMIT_FSIZE
 * it is a SIGXFSZ. So what is free is looked at first, and at most an eighth of it is taken.
 *
 * Must not know: what the memory is for.
 */
#ifndef LP_IMAGE_HEADROOM_H
#define LP_IMAGE_HEADROOM_H

#include <stdint.h>

/* Bytes that a file on fd's file system may grow by: an eighth of the least of what the file system, the memory cgroup
   (v1 or v2) and RLIMIT_FSIZE leave; 0 on one that is not in memory. file_bytes is the file's size so far. */
uint64_t lp_headroom_shared(int fd, uint64_t file_bytes);
/* Bytes of private memory that may be taken: an eighth of what the memory cgroup leaves, or UINT64_MAX. */
uint64_t lp_headroom_private(void);
/* Bytes of address space that may be reserved: an eighth of RLIMIT_AS, or UINT64_MAX. */
uint64_t lp_headroom_address_space(void);

#endif

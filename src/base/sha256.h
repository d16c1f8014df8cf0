/*
 * base/sha256: the SHA-256 of a stream of bytes (FIPS 180-4), for a name that other tools give the same bytes.
 *
 * No malloc, no lock: safe in a process that shares memory with a suspended one.
 */
#ifndef LP_BASE_SHA256_H
#define LP_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct lp_sha256 {
    uint32_t state[8];
    uint64_t len; /* bytes so far */
    uint8_t block[64];
};

#define LP_SHA256_HEX 65 /* 64 digits and a NUL */

void lp_sha256_init(struct lp_sha256 *hash);
void lp_sha256_add(struct lp_sha256 *hash, const void *bytes, size_t len);
/* Ends the stream. */
void lp_sha256_hex(struct lp_sha256 *hash, char hex[LP_SHA256_HEX]);

#endif

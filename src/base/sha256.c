#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void expand(uint32_t schedule[64], const uint8_t block[64])
{
    for (int i = 0; i < 16; i++)
        schedule[i] = word_at(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t early = schedule[i - 15], late = schedule[i - 2];
        schedule[i] = schedule[i - 16] + schedule[i - 7] + (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) +
                      (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
    }
}

static void take_block(struct lp_sha256 *hash)
{
    uint32_t schedule[64], s[8];
    expand(schedule, hash->block);
    memcpy(s, hash->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t chosen = (s[4] & s[5]) ^ (~s[4] & s[6]), most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t low = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
        uint32_t high = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
        uint32_t one = s[7] + low + chosen + constants[i] + schedule[i];
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + high + most;
    }
    for (int i = 0; i < 8; i++)
        hash->state[i] += s[i];
}

void lp_sha256_init(struct lp_sha256 *hash)
{
    /* Of the square roots of the first eight primes. */
    *hash = (struct lp_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void lp_sha256_add(struct lp_sha256 *hash, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    while (len > 0) {
        size_t used = hash->len % sizeof hash->block, room = sizeof hash->block - used, n = len < room ? len : room;
        memcpy(hash->block + used, from, n);
        hash->len += n;
        from += n;
        len -= n;
        if (n == room)
            take_block(hash);
    }
}

void lp_sha256_hex(struct lp_sha256 *hash, char hex[LP_SHA256_HEX])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->len * 8;
    uint8_t length[8];
    size_t used = hash->len % sizeof hash->block;
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    lp_sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
    lp_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}

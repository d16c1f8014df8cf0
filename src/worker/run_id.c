#include "worker/run_id.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "process/launch.h"
#include "process/stamp.h"

#define DIRECTORIES 64

/* How many workers of this process took the launch's name, by directory. No lock: one could be held across a fork. */
static struct {
    _Atomic uint64_t directory; /* a hash: FNV-1a; 0: free */
    _Atomic unsigned n;
} taken[DIRECTORIES];

uint32_t lp_random_bits(void)
{
    uint32_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits)
        return bits;
    struct lp_stamp now = lp_stamp_now(); /* an early boot without entropy: still unlikely to meet itself */
    return (uint32_t)(now.monotonic_ns ^ now.monotonic_ns >> 32 ^ now.realtime_ns);
}

void lp_run_id_generate(char *run_id, size_t size)
{
    struct tm utc;
    time_t now = time(NULL);
    size_t len = gmtime_r(&now, &utc) ? strftime(run_id, size, "%Y%m%dT%H%M", &utc) : 0;
    snprintf(run_id + len, size - len, "-%06x", lp_random_bits() & 0xffffffu);
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash | 1;
}

/* 1 for the first worker in this directory; 0 if there is no place to count in. */
static unsigned take_turn(const char *run_dir)
{
    uint64_t directory = hash_of(run_dir);
    for (size_t i = 0; i < DIRECTORIES; i++) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&taken[i].directory, &found, directory) || found == directory)
            return atomic_fetch_add(&taken[i].n, 1) + 1;
    }
    return 0;
}

bool lp_run_id_of_launch(char *run_id, size_t size, const char *run_dir)
{
    struct lp_launch launch;
    lp_launch_read(&launch);
    unsigned turn = launch.name[0] ? take_turn(run_dir) : 0;
    if (turn == 0)
        return false;
    if (turn == 1)
        snprintf(run_id, size, "%s", launch.name);
    else
        snprintf(run_id, size, "%s-%u", launch.name, turn);
    return true;
}

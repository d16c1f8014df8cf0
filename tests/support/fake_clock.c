/*
 * A clock that stands still until the test says how much time went by. Loaded by LD_PRELOAD, it answers clock_gettime for
 * one library of the process - the one whose figures are to be exact - and leaves everybody else, the interpreter and its
 * locks above all, with the real one. Until fake_clock_begin it is the real one for all.
 *
 * The wall clock is one for all threads; each thread has a CPU clock, which other threads may read by the kernel's
 * encoding of it, too. Everything else (CLOCK_REALTIME, CLOCK_BOOTTIME) stays real.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_TIDS (1u << 22) /* the kernel's own limit */
#define FIRST_CPU_NS 1000u   /* no thread that asks has used none so far */

int fake_clock_begin(const char *library, uint64_t start_wall_ns);
void fake_clock_pass(uint64_t passed_wall_ns, uint64_t passed_cpu_ns);

static _Atomic uint64_t wall_ns, cpu_ns[MOST_TIDS];
static _Atomic uintptr_t code_begin, code_end; /* of the library that sees us; 0: nobody does */

struct search {
    const char *library;
    bool found;
};

static int look_at(struct dl_phdr_info *object, size_t size, void *context)
{
    struct search *search = context;
    (void)size;
    if (strcmp(object->dlpi_name, search->library) != 0)
        return 0;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
        atomic_store(&code_end, begin + segment->p_memsz);
        atomic_store(&code_begin, begin);
        search->found = true;
    }
    return 1;
}

/* Begins to answer calls from the library at this path, from a wall time on. 0; -1 if it is not loaded. */
int fake_clock_begin(const char *library, uint64_t start_wall_ns)
{
    struct search search = {.library = library};
    atomic_store(&wall_ns, start_wall_ns);
    dl_iterate_phdr(look_at, &search);
    return search.found ? 0 : -1;
}

/* Lets wall time go by, in which the calling thread used some CPU time and no other thread any. */
void fake_clock_pass(uint64_t passed_wall_ns, uint64_t passed_cpu_ns)
{
    atomic_fetch_add(&wall_ns, passed_wall_ns);
    atomic_fetch_add(&cpu_ns[(uint32_t)gettid() % MOST_TIDS], passed_cpu_ns);
}

static uint64_t used_cpu_ns(uint32_t tid)
{
    return FIRST_CPU_NS + atomic_load(&cpu_ns[tid % MOST_TIDS]);
}

static int tell(struct timespec *time, uint64_t ns)
{
    time->tv_sec = (time_t)(ns / 1000000000u);
    time->tv_nsec = (long)(ns % 1000000000u);
    return 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (caller < atomic_load(&code_begin) || caller >= atomic_load(&code_end))
        return (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC)
        return tell(time, atomic_load(&wall_ns));
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        return tell(time, used_cpu_ns((uint32_t)gettid()));
    if (clock < 0 && (clock & 7) == 6) /* ~tid << 3, of a thread, as the scheduler counts: linux/posix-timers.h */
        return tell(time, used_cpu_ns(~((uint32_t)clock >> 3 | 7u << 29)));
    return (int)syscall(SYS_clock_gettime, clock, time);
}

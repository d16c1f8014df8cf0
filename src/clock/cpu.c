#include "clock/cpu.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Where between two readings of wall time the kernel read its clock is known to half their distance. An interrupt that
   fell there, of 10 us and more on a virtual machine, leaves the token standing: try again. */
#define GOOD_WIDTH_NS 2000u
#define USABLE_WIDTH_NS 10000u
#define PREEMPTED_WIDTH_NS 20000u /* no system call takes that long: the plain way to see that we were not running */

#define PROOFS_WANTED 8
#define PROOF_TRIES 64
#define PROOF_NAP_NS 50000 /* shorter ones may end before the thread was switched away */

/* struct rseq of linux/rseq.h: cpu_id_start, cpu_id (u32 each), then rseq_cs (u64). */
#define RSEQ_CPU_ID_OFFSET 4
#define RSEQ_CS_OFFSET 8
#define RSEQ_LEAST_SIZE 20

/* The dummy critical section: struct rseq_cs of linux/rseq.h. The kernel checks that the word before the abort address
   is the signature that libc registered, so the address must lie behind such a word in executable memory. */
#if defined(__x86_64__)
#define RSEQ_SIGNATURE "0x53053053"
#define TRAP_INSTRUCTION "ud2"
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE "0xd428bc00"
#define TRAP_INSTRUCTION "brk #0"
#endif

#ifdef RSEQ_SIGNATURE
__asm__(".pushsection .text.lp_rseq,\"ax\",%progbits\n"
        ".balign 32\n"
        "lp_rseq_begin:\n\t" TRAP_INSTRUCTION "\n"
        "lp_rseq_end:\n\t" TRAP_INSTRUCTION "\n"
        ".long " RSEQ_SIGNATURE "\n"
        "lp_rseq_abort:\n\t" TRAP_INSTRUCTION "\n"
        ".popsection\n");
extern const char lp_rseq_begin[] __attribute__((visibility("hidden")));
extern const char lp_rseq_end[] __attribute__((visibility("hidden")));
extern const char lp_rseq_abort[] __attribute__((visibility("hidden")));
#endif

struct section {
    uint32_t version, flags;
    uint64_t start_ip, post_commit_offset, abort_ip;
} __attribute__((aligned(32)));

/* Which of them stands tells whose token it is. Recorders of one thread take them in turn, but for the first, which is
   the line profiler's: after so many, two share one. */
#define SECTIONS 16

static struct section sections[SECTIONS];
static __thread unsigned recorders_of_thread __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t no_slot; /* stays 0, which is never the token */
static ptrdiff_t area_offset;    /* from the thread pointer; 0: no area */
static _Atomic int mode = -1;
static bool stays_bounded; /* set before mode */

static uint64_t thread_cpu_ns(clockid_t clock, bool *ok)
{
    struct timespec now = {0};
    *ok = clock_gettime(clock, &now) == 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static char *area(void)
{
    return (char *)__builtin_thread_pointer() + area_offset;
}

static bool find_area(void)
{
#ifdef RSEQ_SIGNATURE
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (!offset || !size || *size < RSEQ_LEAST_SIZE || *offset == 0)
        return false;
    for (unsigned i = 0; i < SECTIONS; i++) {
        sections[i].start_ip = (uint64_t)(uintptr_t)lp_rseq_begin;
        sections[i].post_commit_offset = (uint64_t)(lp_rseq_end - lp_rseq_begin);
        sections[i].abort_ip = (uint64_t)(uintptr_t)lp_rseq_abort;
    }
    area_offset = *offset;
    return true;
#else
    return false;
#endif
}

void lp_cpu_open(void)
{
    if (atomic_load(&mode) >= 0)
        return;
    lp_wall_open();
    lp_wait_open();
    int chosen = find_area() ? LP_CPU_BOUNDED : LP_CPU_PLAIN;
    const char *forced = getenv("LINEPROFILER_CLOCK_CPU");
    if (forced && strcmp(forced, "plain") == 0)
        chosen = LP_CPU_PLAIN;
    if (forced && strcmp(forced, "token") == 0 && chosen == LP_CPU_BOUNDED)
        chosen = LP_CPU_TOKEN;
    stays_bounded = forced && strcmp(forced, "bounded") == 0;
    atomic_store(&mode, chosen);
}

enum lp_cpu_mode lp_cpu_mode(void)
{
    int chosen = atomic_load_explicit(&mode, memory_order_relaxed);
    return chosen < 0 ? LP_CPU_PLAIN : (enum lp_cpu_mode)chosen;
}

const char *lp_cpu_mode_name(void)
{
    static const char *const names[] = {"plain", "bounded", "token"};
    return names[lp_cpu_mode()];
}

void lp_cpu_init(struct lp_cpu *cpu, enum lp_cpu_reader reader)
{
    unsigned section = reader == LP_CPU_OF_LINES ? 0 : 1 + recorders_of_thread++ % (SECTIONS - 1);
    memset(cpu, 0, sizeof *cpu);
    cpu->token = (uint64_t)(uintptr_t)&sections[section];
    cpu->token_slot = &no_slot;
    if (lp_cpu_mode() != LP_CPU_PLAIN)
        cpu->token_slot = (_Atomic uint64_t *)(void *)(area() + RSEQ_CS_OFFSET);
}

/* Asks why the thread waited. What that takes falls outside the phase too: entering, the clocks are read again. */
static void ask_why(struct lp_cpu *cpu, enum lp_edge edge, struct lp_reading *now)
{
    bool ok;
    if (!lp_wait_note(cpu->wait, now->wall_ns, now->wall_ns - now->cpu_ns) || edge != LP_EDGE_ENTER)
        return;
    now->wall_ns = lp_wall_ns();
    atomic_signal_fence(memory_order_seq_cst);
    bool stands =
        lp_cpu_mode() != LP_CPU_PLAIN && atomic_load_explicit(cpu->token_slot, memory_order_relaxed) == cpu->token;
    if (stands && now->wall_ns < cpu->valid_until_ns)
        now->cpu_ns = now->wall_ns - cpu->ahead_ns;
    else
        now->cpu_ns = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID, &ok);
    if ((int64_t)(now->cpu_ns - cpu->last_ns) < 0)
        now->cpu_ns = cpu->last_ns;
    cpu->last_ns = now->cpu_ns;
    lp_wait_pass(cpu->wait, now->wall_ns - now->cpu_ns);
}

struct lp_reading lp_cpu_resync(struct lp_cpu *cpu, enum lp_edge edge)
{
    bool plain = lp_cpu_mode() == LP_CPU_PLAIN, stands = false, ok;
    if (!plain) /* first ours, then the clock: what happens after the store shows */
        atomic_store_explicit(cpu->token_slot, cpu->token, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t before = lp_wall_ns(), after = before, narrowest = UINT64_MAX;
    struct lp_reading now = {.wall_ns = before};
    for (int i = 0; i < LP_CPU_RESYNC_TRIES && narrowest > GOOD_WIDTH_NS; i++) {
        uint64_t begin = after, real = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID, &ok);
        after = lp_wall_ns();
        if (edge == LP_EDGE_ENTER || i == 0)
            now.cpu_ns = real;
        if (after - begin < narrowest) { /* the kernel took its reading about half way between ours */
            narrowest = after - begin;
            cpu->ahead_ns = begin + narrowest / 2 - real;
        }
        atomic_signal_fence(memory_order_seq_cst);
        stands = !plain && atomic_load_explicit(cpu->token_slot, memory_order_relaxed) == cpu->token;
        if (!stands)
            break;
    }
    /* A kernel entry is where a thread whose slice has run out is preempted, and ours are often the only ones. The wait
       belongs to what used up the slice: to the phase that is being left, to the parent of one being entered. */
    bool preempted = plain ? after - before > PREEMPTED_WIDTH_NS : !stands;
    if (edge == LP_EDGE_ENTER || preempted)
        now.wall_ns = after;
    cpu->valid_until_ns = 0;
    if (stands && after > before && narrowest <= USABLE_WIDTH_NS) {
        cpu->resync_ns = after + LP_CPU_RESYNC_NS;
        cpu->bounded = lp_cpu_mode() == LP_CPU_BOUNDED;
        cpu->valid_until_ns = cpu->bounded ? after + LP_CPU_BOUND_NS : cpu->resync_ns;
        now.cpu_ns = now.wall_ns - cpu->ahead_ns;
    }
    if ((int64_t)(now.cpu_ns - cpu->last_ns) < 0)
        now.cpu_ns = cpu->last_ns;
    cpu->last_ns = now.cpu_ns;
    if (cpu->wait)
        ask_why(cpu, edge, &now);
    return now;
}

static long switches_so_far(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* One sleep: 1 if it ended on the same CPU with the token cleared, -1 if with the token standing, 0 if it shows nothing:
   it moved, or it was over before the thread had been switched away. */
static int prove_once(_Atomic uint64_t *slot, const volatile uint32_t *cpu_id)
{
    const struct timespec nap = {.tv_nsec = PROOF_NAP_NS};
    const uint64_t token = (uint64_t)(uintptr_t)&sections[0];
    long switches = switches_so_far();
    uint32_t before = *cpu_id;
    atomic_store_explicit(slot, token, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    atomic_signal_fence(memory_order_seq_cst);
    bool stands = atomic_load_explicit(slot, memory_order_relaxed) == token;
    if (*cpu_id != before || switches_so_far() == switches)
        return 0;
    return stands ? -1 : 1;
}

void lp_cpu_prove(void)
{
    if (lp_cpu_mode() != LP_CPU_BOUNDED || stays_bounded)
        return;
    _Atomic uint64_t *slot = (_Atomic uint64_t *)(void *)(area() + RSEQ_CS_OFFSET);
    const volatile uint32_t *cpu_id = (const volatile uint32_t *)(const void *)(area() + RSEQ_CPU_ID_OFFSET);
    int proofs = 0;
    for (int i = 0; i < PROOF_TRIES && proofs < PROOFS_WANTED; i++) {
        int proof = prove_once(slot, cpu_id);
        if (proof < 0)
            return;
        proofs += proof;
    }
    if (proofs >= PROOFS_WANTED)
        atomic_store(&mode, LP_CPU_TOKEN);
}

bool lp_cpu_of_thread(uint64_t tid, uint64_t *cpu_ns)
{
    /* The kernel's encoding of a thread's CPU clock (include/linux/posix-timers.h): ~tid << 3 | per-thread | sched. */
    clockid_t clock = (clockid_t)((~(uint32_t)tid << 3) | 6u);
    bool ok;
    *cpu_ns = thread_cpu_ns(clock, &ok);
    return ok;
}

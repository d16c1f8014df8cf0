#include "process/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/small_file.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <cpuid.h>
#endif

#define LARGEST_MASK 8192 /* bytes: 65,536 cores */

/* "0-3,8,10-11\n": how many those are; 0 if it is no such list. */
static uint64_t count_list(const char *text)
{
    uint64_t n = 0;
    char *end;
    for (;;) {
        if (*text < '0' || *text > '9')
            return 0;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9')
                return 0;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last - first >= LARGEST_MASK * 8)
            return 0;
        n += last - first + 1;
        if (*end != ',')
            return *end == '\n' || *end == '\0' ? n : 0;
        text = end + 1;
    }
}

static uint64_t cores_online(const char *root)
{
    char path[PATH_MAX], text[4096];
    if (snprintf(path, sizeof path, "%s/sys/devices/system/cpu/online", root) >= (int)sizeof path)
        return 0;
    return lp_small_file_read(path, text, sizeof text) > 0 ? count_list(text) : 0;
}

static bool is_in(const unsigned long *mask, long core)
{
    const long bits = 8 * (long)sizeof *mask;
    return mask[core / bits] >> (core % bits) & 1;
}

/* "0-3,8"; "" if it does not fit. */
static void list_cores(char *list, size_t size, const unsigned long *mask, long n_bits)
{
    size_t len = 0;
    for (long core = 0; core < n_bits; core++) {
        long first = core;
        if (!is_in(mask, core))
            continue;
        while (core + 1 < n_bits && is_in(mask, core + 1))
            core++;
        int n = core > first ? snprintf(list + len, size - len, "%s%ld-%ld", len ? "," : "", first, core)
                             : snprintf(list + len, size - len, "%s%ld", len ? "," : "", first);
        if (n < 0 || (size_t)n >= size - len) {
            list[0] = '\0';
            return;
        }
        len += (size_t)n;
    }
}

/* Of the main thread: a library may have pinned any other. The call itself, since it tells how long the mask is. */
static void read_mask(struct lp_machine *machine)
{
    unsigned long mask[LARGEST_MASK / sizeof(unsigned long)];
    long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof mask, mask);
    for (long i = 0; i < bytes / (long)sizeof *mask; i++)
        machine->cores_usable += (uint64_t)__builtin_popcountl(mask[i]);
    list_cores(machine->usable_list, sizeof machine->usable_list, mask, 8 * (bytes > 0 ? bytes : 0));
}

static uint64_t ram_bytes(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

#if defined(__x86_64__)

/* A process can be forbidden the instruction (arch_prctl): it is then a SIGSEGV. */
static bool may_ask_cpu(void)
{
    return syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) != 0; /* 1: it may; an error: nothing can forbid it */
}

/* In a virtual machine the hypervisor answers each question, in microseconds. Compilers differ in the sign of
 * __get_cpuid_max. */
static void read_cpu_model(char *model, size_t size)
{
    unsigned words[12];
    char text[sizeof words + 1] = "";
    if (!may_ask_cpu() || (unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return;
    for (unsigned i = 0; i < 3; i++)
        __cpuid(0x80000002u + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    memcpy(text, words, sizeof words);
    const char *from = text + strspn(text, " ");
    size_t len = strlen(from);
    while (len > 0 && from[len - 1] == ' ')
        len--;
    snprintf(model, size, "%.*s", (int)len, from);
}

#else

static void read_cpu_model(char *model, size_t size)
{
    (void)model;
    (void)size;
}

#endif

void lp_machine_read(struct lp_machine *machine, const char *root)
{
    struct utsname kernel;
    memset(machine, 0, sizeof *machine);
    machine->cores = cores_online(root);
    read_mask(machine);
    machine->ram_bytes = ram_bytes();
    lp_cgroup_read(&machine->limits, root);
    if (uname(&kernel) == 0)
        snprintf(machine->kernel, sizeof machine->kernel, "%s", kernel.release);
    read_cpu_model(machine->cpu_model, sizeof machine->cpu_model);
}

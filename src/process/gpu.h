/*
 * process/gpu: the devices of this machine, how busy they are, and what this process takes of them. By NVML.
 *
 * Each figure is measured or not measured; where the device is not asked for a reason, the reason is kept. Busy is the
 * share of a window in which any kernel of anybody ran: the mean of the driver's own samples since the last reading
 * (several a second) where it hands those out, else its last one. What this process does is known by its pid, which NVML
 * gives as the machine's first pid namespace has it: in another one nothing is matched, for a number that is ours here
 * may be a stranger's there.
 *
 * Indices are NVML's, so of the machine's physical devices; CUDA_VISIBLE_DEVICES changes none of it.
 *
 * Costs: milliseconds a reading, in the driver; at worst it never returns. So a thread of its own does this, and what is
 * here belongs to that thread. Never calls CUDA.
 *
 * Must not know: phases, files.
 */
#ifndef LP_PROCESS_GPU_H
#define LP_PROCESS_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/nvml.h"

#define LP_GPUS 64 /* of one machine; further ones are not looked at */
#define LP_GPU_TEXT_BYTES 96

#define LP_GPU_UNKNOWN UINT64_MAX          /* not measured */
#define LP_GPU_UNKNOWN_PERMILLE UINT32_MAX /* the same */

enum lp_gpu_state {
    LP_GPU_OK,
    LP_GPU_LOST, /* fell off the bus, or needs a reset: it is asked no more */
};

/* Why a figure of this process is not there; of the share of time and of memory alike. */
enum lp_gpu_own {
    LP_GPU_OWN_OK,
    LP_GPU_OWN_PID_NAMESPACE, /* pids of NVML are not comparable with ours */
    LP_GPU_OWN_NOT_SUPPORTED, /* by this device or driver, or as it is divided (MIG) */
    LP_GPU_OWN_NO_PERMISSION,
};

struct lp_gpu {
    unsigned index;
    char name[LP_GPU_TEXT_BYTES], uuid[LP_GPU_TEXT_BYTES]; /* UTF-8; "" not known */
    uint64_t memory_bytes;                                 /* LP_GPU_UNKNOWN: not known */
    enum lp_gpu_state state;
    enum lp_gpu_own own_busy;
    bool is_divided; /* into instances (MIG) */
    bool attributed; /* NVML has had a sample of this process here at some time */
    /* Private to gpu.c: */
    lp_nvml_device device, instance; /* instance: of MIG, the one that is ours; NULL: none */
    uint64_t busy_since_us, own_since_us;
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last reading */
    bool busy_primed, own_primed;
};

struct lp_gpus {
    struct lp_nvml nvml;
    bool is_open;
    pid_t pid; /* who opened them: another process has to do so itself */
    bool pids_are_ours;
    unsigned n;
    struct lp_gpu gpus[LP_GPUS];
};

/* One reading of one device. */
struct lp_gpu_reading {
    uint64_t device_used_bytes, own_used_bytes;
    uint32_t busy_permille, own_busy_permille; /* of the window since the last reading; the first has none */
};

/* Opens NVML and looks at the devices; returns how many there are. 0: none, or no library, or a driver that does not fit
   it: there is nothing to read on this machine. *gpus must be zero. */
unsigned lp_gpus_open(struct lp_gpus *gpus);
/* Reads one device. Whatever goes wrong is a figure that is not measured. */
void lp_gpus_read(struct lp_gpus *gpus, unsigned i, struct lp_gpu_reading *reading);
/* Lets go of the driver, in the process that opened them. */
void lp_gpus_close(struct lp_gpus *gpus);

/* Words for files: "ok", "lost"; "ok", "pid_namespace", "not_supported", "no_permission". */
const char *lp_gpu_state_word(enum lp_gpu_state state);
const char *lp_gpu_own_word(enum lp_gpu_own own);

#endif

#include "process/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/identity.h"
#include "process/stamp.h"

#define FIRST_PID_NAMESPACE                                                                                            \
    0xeffffffcu /* the kernel's PROC_PID_INIT_INO: an interface, docs say, that does not change */
#define SAMPLES_AT_MOST 4096u
#define PROMILLE_PER_PERCENT 10.0
#define SET_BACK_NS 50000000 /* the wall clock, and not just slowed down for a while */

/* ---- opening ------------------------------------------------------------------------ */

static bool text_fits(char *text)
{
    text[LP_GPU_TEXT_BYTES - 1] = '\0';
    return text[0] != '\0';
}

/* Which instance of a divided device the process was given, by what the container or the user says. */
static lp_nvml_device instance_by_uuid(const struct lp_nvml *nvml, const struct lp_gpu *gpu, const char *variable)
{
    const char *text = getenv(variable), *at = text ? strstr(text, "MIG-") : NULL;
    char uuid[LP_GPU_TEXT_BYTES];
    lp_nvml_device instance = NULL, parent = NULL;
    size_t len = at ? strcspn(at, ",") : 0;
    if (!at || len >= sizeof uuid || !nvml->by_uuid || !nvml->mig_parent)
        return NULL;
    memcpy(uuid, at, len);
    uuid[len] = '\0';
    if (nvml->by_uuid(uuid, &instance) != LP_NVML_SUCCESS || nvml->mig_parent(instance, &parent) != LP_NVML_SUCCESS)
        return NULL;
    return parent == gpu->device ? instance : NULL;
}

/* The only one that can be seen, as in a container; of several, nobody says which is ours. */
static lp_nvml_device only_instance(const struct lp_nvml *nvml, const struct lp_gpu *gpu)
{
    unsigned slots = 0, found = 0;
    lp_nvml_device instance, only = NULL;
    if (!nvml->mig_slots || !nvml->mig_by_index || nvml->mig_slots(gpu->device, &slots) != LP_NVML_SUCCESS)
        return NULL;
    for (unsigned i = 0; i < slots && i < LP_GPUS; i++) {
        if (nvml->mig_by_index(gpu->device, i, &instance) != LP_NVML_SUCCESS)
            continue;
        only = instance;
        found++;
    }
    return found == 1 ? only : NULL;
}

static void look_for_instance(const struct lp_nvml *nvml, struct lp_gpu *gpu)
{
    unsigned current = 0, pending;
    gpu->instance = NULL;
    gpu->is_divided = nvml->mig_mode && nvml->mig_mode(gpu->device, &current, &pending) == LP_NVML_SUCCESS && current;
    if (!gpu->is_divided)
        return;
    gpu->instance = instance_by_uuid(nvml, gpu, "CUDA_VISIBLE_DEVICES");
    if (!gpu->instance)
        gpu->instance = instance_by_uuid(nvml, gpu, "NVIDIA_VISIBLE_DEVICES");
    if (!gpu->instance)
        gpu->instance = only_instance(nvml, gpu);
}

static bool note(struct lp_gpu *gpu, int result)
{
    if (result == LP_NVML_GPU_IS_LOST || result == LP_NVML_RESET_REQUIRED)
        gpu->state = LP_GPU_LOST;
    return result == LP_NVML_SUCCESS;
}

/* used without what the driver keeps for itself, where it tells that apart: what nvidia-smi shows. */
static bool memory_of(const struct lp_nvml *nvml, struct lp_gpu *gpu, lp_nvml_device device,
                      struct lp_nvml_memory *memory)
{
    struct lp_nvml_memory_v2 fine = {.version = LP_NVML_MEMORY_V2};
    if (!device)
        return false;
    if (nvml->memory_v2 && note(gpu, nvml->memory_v2(device, &fine))) {
        *memory = (struct lp_nvml_memory){.total = fine.total, .free = fine.free, .used = fine.used};
        return true;
    }
    return nvml->memory && note(gpu, nvml->memory(device, memory));
}

/* Of the instance that is ours, where the device is divided and does not say. */
static bool read_memory(const struct lp_nvml *nvml, struct lp_gpu *gpu, struct lp_nvml_memory *memory)
{
    return memory_of(nvml, gpu, gpu->device, memory) || memory_of(nvml, gpu, gpu->instance, memory);
}

static void find_device(struct lp_gpus *gpus, struct lp_gpu *gpu, unsigned index)
{
    const struct lp_nvml *nvml = &gpus->nvml;
    struct lp_nvml_memory memory;
    gpu->index = index;
    gpu->memory_bytes = LP_GPU_UNKNOWN;
    gpu->own_busy = gpus->pids_are_ours ? LP_GPU_OWN_OK : LP_GPU_OWN_PID_NAMESPACE;
    gpu->busy_primed = gpu->own_primed = false;
    if (!note(gpu, nvml->by_index(index, &gpu->device))) {
        gpu->device = NULL;
        return;
    }
    if (!nvml->name || !note(gpu, nvml->name(gpu->device, gpu->name, sizeof gpu->name)) || !text_fits(gpu->name))
        gpu->name[0] = '\0';
    if (!nvml->uuid || !note(gpu, nvml->uuid(gpu->device, gpu->uuid, sizeof gpu->uuid)) || !text_fits(gpu->uuid))
        gpu->uuid[0] = '\0';
    look_for_instance(nvml, gpu);
    if (read_memory(nvml, gpu, &memory))
        gpu->memory_bytes = memory.total;
}

static unsigned find_devices(struct lp_gpus *gpus)
{
    unsigned n = 0;
    if (gpus->nvml.count(&n) != LP_NVML_SUCCESS)
        n = 0;
    gpus->n = n < LP_GPUS ? n : LP_GPUS;
    for (unsigned i = 0; i < gpus->n; i++)
        find_device(gpus, &gpus->gpus[i], i);
    return gpus->n;
}

unsigned lp_gpus_open(struct lp_gpus *gpus)
{
    if (!lp_nvml_open(&gpus->nvml) || gpus->nvml.init() != LP_NVML_SUCCESS)
        return 0;
    gpus->is_open = true;
    gpus->pid = getpid();
    gpus->pids_are_ours = lp_pid_namespace() == FIRST_PID_NAMESPACE;
    if (find_devices(gpus) == 0)
        lp_gpus_close(gpus);
    return gpus->n;
}

void lp_gpus_close(struct lp_gpus *gpus)
{
    if (gpus->is_open && gpus->pid == getpid())
        gpus->nvml.shutdown();
    gpus->is_open = false;
}

/* ---- reading ------------------------------------------------------------------------ */

static double percent_of(int value_type, const union lp_nvml_value *value)
{
    switch (value_type) {
    case LP_NVML_DOUBLE:
        return value->as_double;
    case LP_NVML_UNSIGNED:
        return (double)value->as_unsigned;
    case LP_NVML_UNSIGNED_LONG:
        return (double)value->as_unsigned_long;
    case LP_NVML_UNSIGNED_LONG_LONG:
        return (double)value->as_unsigned_long_long;
    default:
        return -1;
    }
}

/* Percents of a window, added up. */
struct mean {
    double sum;
    unsigned n, senseless;
    uint64_t last_us;
};

static void add_to_mean(struct mean *mean, uint64_t since_us, uint64_t time_us, double percent)
{
    if (time_us <= since_us) /* some drivers hand out stale ones */
        return;
    if (!(percent >= 0 && percent <= 100)) {
        mean->senseless++;
        return;
    }
    mean->sum += percent;
    mean->n++;
    mean->last_us = time_us > mean->last_us ? time_us : mean->last_us;
}

static uint32_t permille(const struct mean *mean)
{
    return (uint32_t)(mean->sum / mean->n * PROMILLE_PER_PERCENT + 0.5);
}

/* The driver's samples since the last reading; false if it has none, or they cannot be had. */
static bool read_history(const struct lp_nvml *nvml, struct lp_gpu *gpu, struct mean *mean)
{
    int type = -1;
    unsigned count = 0;
    if (!nvml->samples || !note(gpu, nvml->samples(gpu->device, LP_NVML_GPU_UTILIZATION_SAMPLES, gpu->busy_since_us,
                                                   &type, &count, NULL)))
        return false;
    if (count == 0 || count > SAMPLES_AT_MOST)
        return false;
    struct lp_nvml_sample *samples = calloc(count, sizeof *samples);
    unsigned room = count;
    if (samples && note(gpu, nvml->samples(gpu->device, LP_NVML_GPU_UTILIZATION_SAMPLES, gpu->busy_since_us, &type,
                                           &count, samples)))
        for (unsigned i = 0; i < count && i < room; i++)
            add_to_mean(mean, gpu->busy_since_us, samples[i].time_us, percent_of(type, &samples[i].value));
    free(samples);
    return mean->n > 0;
}

/* The first reading only learns where the history ends: what is in it is of no window of ours. */
static uint32_t read_busy(const struct lp_nvml *nvml, struct lp_gpu *gpu)
{
    struct mean mean = {0};
    struct lp_nvml_utilization now;
    bool primed = gpu->busy_primed, has_history = read_history(nvml, gpu, &mean);
    gpu->busy_primed = true;
    if (has_history)
        gpu->busy_since_us = mean.last_us;
    if (!primed)
        return LP_GPU_UNKNOWN_PERMILLE;
    if (has_history)
        return permille(&mean);
    if (nvml->utilization && note(gpu, nvml->utilization(gpu->device, &now)) && now.gpu <= 100)
        return now.gpu * 10u;
    return LP_GPU_UNKNOWN_PERMILLE;
}

/* Why a figure of this process cannot be had; OK if it can, or may another time. */
static enum lp_gpu_own own_from(int result)
{
    switch (result) {
    case LP_NVML_NOT_SUPPORTED:
    case LP_NVML_FUNCTION_NOT_FOUND:
        return LP_GPU_OWN_NOT_SUPPORTED;
    case LP_NVML_NO_PERMISSION:
        return LP_GPU_OWN_NO_PERMISSION;
    default:
        return LP_GPU_OWN_OK;
    }
}

/* Samples of all processes since the last reading. NOT_FOUND is no error: nobody had a kernel in the window. */
static int read_process_samples(const struct lp_nvml *nvml, struct lp_gpu *gpu, struct lp_nvml_process_sample **samples,
                                unsigned *count)
{
    *samples = NULL;
    *count = 0;
    if (!nvml->process_samples)
        return LP_NVML_FUNCTION_NOT_FOUND;
    int result = nvml->process_samples(gpu->device, NULL, count, gpu->own_since_us);
    if (result != LP_NVML_INSUFFICIENT_SIZE && result != LP_NVML_SUCCESS)
        return result;
    if (*count > SAMPLES_AT_MOST)
        return LP_NVML_INSUFFICIENT_SIZE;
    unsigned room = *count;
    if (room == 0)
        return LP_NVML_NOT_FOUND;
    *samples = calloc(room, sizeof **samples);
    if (!*samples)
        return LP_NVML_INSUFFICIENT_SIZE;
    result = nvml->process_samples(gpu->device, *samples, count, gpu->own_since_us);
    *count = *count < room ? *count : room;
    return result;
}

static uint32_t read_own_busy(const struct lp_gpus *gpus, struct lp_gpu *gpu)
{
    struct lp_nvml_process_sample *samples;
    struct mean own = {0};
    unsigned count;
    uint64_t last_us = gpu->own_since_us;
    if (!gpus->pids_are_ours)
        return LP_GPU_UNKNOWN_PERMILLE;
    int result = read_process_samples(&gpus->nvml, gpu, &samples, &count);
    if (note(gpu, result))
        for (unsigned i = 0; i < count; i++) {
            last_us = samples[i].time_us > last_us ? samples[i].time_us : last_us;
            if ((pid_t)samples[i].pid == gpus->pid)
                add_to_mean(&own, gpu->own_since_us, samples[i].time_us, samples[i].sm_util);
        }
    free(samples);
    gpu->own_busy = own_from(result);
    gpu->own_since_us = last_us;
    if (result != LP_NVML_SUCCESS && result != LP_NVML_NOT_FOUND)
        return LP_GPU_UNKNOWN_PERMILLE;
    bool primed = gpu->own_primed;
    gpu->own_primed = true;
    gpu->attributed |= own.n > 0;
    if (!primed || (own.n == 0 && own.senseless > 0))
        return LP_GPU_UNKNOWN_PERMILLE;
    return own.n ? permille(&own) : 0;
}

struct own_memory {
    pid_t pid;
    uint64_t bytes;
    bool known;
};

static void add_if_own(void *context, const struct lp_nvml_holder *holder)
{
    struct own_memory *own = context;
    if ((pid_t)holder->pid != own->pid)
        return;
    own->known &= holder->used_bytes != UINT64_MAX;
    own->bytes += holder->used_bytes;
}

static uint64_t read_own_memory(const struct lp_gpus *gpus, struct lp_gpu *gpu)
{
    struct own_memory own = {.pid = gpus->pid, .known = true};
    if (!gpus->pids_are_ours)
        return LP_GPU_UNKNOWN;
    int result = lp_nvml_holders(&gpus->nvml, gpu->device, add_if_own, &own);
    if (gpu->instance && result != LP_NVML_SUCCESS) /* a divided device tells of all its instances, or refuses */
        result = lp_nvml_holders(&gpus->nvml, gpu->instance, add_if_own, &own);
    return note(gpu, result) && own.known ? own.bytes : LP_GPU_UNKNOWN;
}

/* The driver stamps its samples by the wall clock. Once that was set back, all of them would be older than those seen
   already, and the device would seem idle until the clock has caught up. */
static void see_clock(struct lp_gpu *gpu)
{
    struct lp_stamp now = lp_stamp_now();
    int64_t ahead_ns = (int64_t)now.realtime_ns - (int64_t)now.monotonic_ns;
    if (ahead_ns < gpu->wall_ahead_ns - SET_BACK_NS) {
        gpu->busy_since_us = gpu->own_since_us = 0;
        gpu->busy_primed = gpu->own_primed = false;
    }
    gpu->wall_ahead_ns = ahead_ns;
}

/* The program may have let go of the library more often than it took it up. */
static bool answers(struct lp_gpus *gpus)
{
    unsigned n;
    if (!gpus->is_open || gpus->pid != getpid())
        return false;
    if (gpus->nvml.count(&n) != LP_NVML_UNINITIALIZED)
        return true;
    if (gpus->nvml.init() != LP_NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < gpus->n; i++)
        find_device(gpus, &gpus->gpus[i], gpus->gpus[i].index);
    return true;
}

void lp_gpus_read(struct lp_gpus *gpus, unsigned i, struct lp_gpu_reading *reading)
{
    struct lp_gpu *gpu = &gpus->gpus[i];
    struct lp_nvml_memory memory;
    *reading =
        (struct lp_gpu_reading){LP_GPU_UNKNOWN, LP_GPU_UNKNOWN, LP_GPU_UNKNOWN_PERMILLE, LP_GPU_UNKNOWN_PERMILLE};
    if (!answers(gpus) || gpu->device == NULL || gpu->state == LP_GPU_LOST)
        return;
    see_clock(gpu);
    if (read_memory(&gpus->nvml, gpu, &memory))
        reading->device_used_bytes = memory.used;
    if (gpu->state != LP_GPU_LOST)
        reading->busy_permille = read_busy(&gpus->nvml, gpu);
    if (gpu->state != LP_GPU_LOST)
        reading->own_busy_permille = read_own_busy(gpus, gpu);
    if (gpu->state != LP_GPU_LOST)
        reading->own_used_bytes = read_own_memory(gpus, gpu);
}

/* ---- words -------------------------------------------------------------------------- */

const char *lp_gpu_state_word(enum lp_gpu_state state)
{
    return state == LP_GPU_LOST ? "lost" : "ok";
}

const char *lp_gpu_own_word(enum lp_gpu_own own)
{
    static const char *const words[] = {"ok", "pid_namespace", "not_supported", "no_permission"};
    return words[own];
}

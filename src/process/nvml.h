/*
 * process/nvml: the calls of NVIDIA's management library (NVML) that we use, with declarations of our own.
 *
 * The library is opened when it is first wanted, by whoever may wait: opening and initialising it can take a second,
 * and with a sick driver for ever. It is never closed. Symbols that a driver lacks are NULL here, and of versioned ones
 * the newest is taken that is there, so an old driver gives less, never a crash.
 *
 * NVML is not CUDA: nothing here makes a context or takes memory of a device.
 *
 * Must not know: what the figures are for.
 */
#ifndef LP_PROCESS_NVML_H
#define LP_PROCESS_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* nvmlReturn_t */
enum lp_nvml_result {
    LP_NVML_SUCCESS = 0,
    LP_NVML_UNINITIALIZED = 1,
    LP_NVML_NOT_SUPPORTED = 3,
    LP_NVML_NO_PERMISSION = 4,
    LP_NVML_NOT_FOUND = 6,
    LP_NVML_INSUFFICIENT_SIZE = 7,
    LP_NVML_FUNCTION_NOT_FOUND = 13,
    LP_NVML_GPU_IS_LOST = 15,
    LP_NVML_RESET_REQUIRED = 16,
    LP_NVML_LIB_RM_VERSION_MISMATCH = 18,
};

typedef struct lp_nvml_device_opaque *lp_nvml_device;

/* nvmlMemory_t */
struct lp_nvml_memory {
    unsigned long long total, free, used; /* used: with what the driver keeps for itself */
};

/* nvmlMemory_v2_t */
struct lp_nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define LP_NVML_MEMORY_V2 ((unsigned)sizeof(struct lp_nvml_memory_v2) | 2u << 24)

/* nvmlUtilization_t: percent */
struct lp_nvml_utilization {
    unsigned gpu, memory;
};

/* nvmlProcessUtilizationSample_t: percent; the time is in microseconds */
struct lp_nvml_process_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm_util, mem_util, enc_util, dec_util;
};

/* nvmlSample_t */
union lp_nvml_value {
    double as_double;
    int as_int;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_long_long;
};
struct lp_nvml_sample {
    unsigned long long time_us;
    union lp_nvml_value value;
};
enum lp_nvml_value_type { LP_NVML_DOUBLE, LP_NVML_UNSIGNED, LP_NVML_UNSIGNED_LONG, LP_NVML_UNSIGNED_LONG_LONG };
#define LP_NVML_GPU_UTILIZATION_SAMPLES 1

/* What all versions of nvmlProcessInfo_t begin with. How long one is depends on the version, see lp_nvml_holders. */
struct lp_nvml_holder {
    unsigned pid;
    unsigned long long used_bytes; /* all bits one: not known */
};

struct lp_nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, lp_nvml_device *device);
    /* Any of these may be NULL. */
    int (*by_uuid)(const char *uuid, lp_nvml_device *device);
    int (*name)(lp_nvml_device device, char *name, unsigned size);
    int (*uuid)(lp_nvml_device device, char *uuid, unsigned size);
    int (*memory)(lp_nvml_device device, struct lp_nvml_memory *memory);
    int (*memory_v2)(lp_nvml_device device, struct lp_nvml_memory_v2 *memory);
    int (*utilization)(lp_nvml_device device, struct lp_nvml_utilization *utilization);
    int (*samples)(lp_nvml_device device, int type, unsigned long long since_us, int *value_type, unsigned *count,
                   struct lp_nvml_sample *samples);
    int (*process_samples)(lp_nvml_device device, struct lp_nvml_process_sample *samples, unsigned *count,
                           unsigned long long since_us);
    int (*holders)(lp_nvml_device device, unsigned *count, void *holders);
    size_t holder_bytes; /* of one in what that writes; see lp_nvml_holders */
    int (*mig_mode)(lp_nvml_device device, unsigned *current, unsigned *pending);
    int (*mig_slots)(lp_nvml_device device, unsigned *count);
    int (*mig_by_index)(lp_nvml_device device, unsigned index, lp_nvml_device *instance);
    int (*mig_parent)(lp_nvml_device instance, lp_nvml_device *device);
};

/* Opens the library; false if it is not there or too old to count devices. It stays open for ever. */
bool lp_nvml_open(struct lp_nvml *nvml);

/* What one process holds of a device, by nvmlDeviceGetComputeRunningProcesses. Calls each for every process of the
   device, at most LP_NVML_HOLDERS. Returns an enum lp_nvml_result; INSUFFICIENT_SIZE: there are more. */
#define LP_NVML_HOLDERS 512
int lp_nvml_holders(const struct lp_nvml *nvml, lp_nvml_device device,
                    void (*each)(void *context, const struct lp_nvml_holder *holder), void *context);

#endif

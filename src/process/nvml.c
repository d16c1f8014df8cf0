#include "process/nvml.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Of the driver's structures. */
static_assert(sizeof(struct lp_nvml_memory) == 24, "layout of nvmlMemory_t");
static_assert(sizeof(struct lp_nvml_memory_v2) == 40, "layout of nvmlMemory_v2_t");
static_assert(sizeof(struct lp_nvml_process_sample) == 32, "layout of nvmlProcessUtilizationSample_t");
static_assert(sizeof(struct lp_nvml_sample) == 16, "layout of nvmlSample_t");
static_assert(sizeof(struct lp_nvml_holder) == 16, "layout of nvmlProcessInfo_v1_t");

#define HOLDER_V1_BYTES 16
#define HOLDER_V2_BYTES 24
#define HOLDER_LONG_BYTES 32 /* some drivers of the 535 series under the name of the third version */
#define UNTOUCHED 0xa5

/* The first that is there of several names, newest first. */
static bool find(void *library, void *function, const char *newest, const char *older, const char *oldest)
{
    const char *const names[] = {newest, older, oldest};
    void *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = names[i] ? dlsym(library, names[i]) : NULL;
    memcpy(function, &found, sizeof found); /* C has no conversion from an object's pointer to a function's */
    return found != NULL;
}

static void find_holders(void *library, struct lp_nvml *nvml)
{
    nvml->holder_bytes = HOLDER_V2_BYTES;
    if (find(library, &nvml->holders, "nvmlDeviceGetComputeRunningProcesses_v3",
             "nvmlDeviceGetComputeRunningProcesses_v2", NULL))
        return;
    nvml->holder_bytes = HOLDER_V1_BYTES;
    find(library, &nvml->holders, "nvmlDeviceGetComputeRunningProcesses", NULL, NULL);
}

bool lp_nvml_open(struct lp_nvml *nvml)
{
    *nvml = (struct lp_nvml){0};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return false;
    bool enough = find(library, &nvml->init, "nvmlInit_v2", "nvmlInit", NULL) &&
                  find(library, &nvml->shutdown, "nvmlShutdown", NULL, NULL) &&
                  find(library, &nvml->count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", NULL) &&
                  find(library, &nvml->by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", NULL);
    if (!enough)
        return false;
    find(library, &nvml->by_uuid, "nvmlDeviceGetHandleByUUID", NULL, NULL);
    find(library, &nvml->name, "nvmlDeviceGetName", NULL, NULL);
    find(library, &nvml->uuid, "nvmlDeviceGetUUID", NULL, NULL);
    find(library, &nvml->memory, "nvmlDeviceGetMemoryInfo", NULL, NULL);
    find(library, &nvml->memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL, NULL);
    find(library, &nvml->utilization, "nvmlDeviceGetUtilizationRates", NULL, NULL);
    find(library, &nvml->samples, "nvmlDeviceGetSamples", NULL, NULL);
    find(library, &nvml->process_samples, "nvmlDeviceGetProcessUtilization", NULL, NULL);
    find_holders(library, nvml);
    find(library, &nvml->mig_mode, "nvmlDeviceGetMigMode", NULL, NULL);
    find(library, &nvml->mig_slots, "nvmlDeviceGetMaxMigDeviceCount", NULL, NULL);
    find(library, &nvml->mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex", NULL, NULL);
    find(library, &nvml->mig_parent, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", NULL, NULL);
    return true;
}

/* Drivers of the 535 series wrote a longer structure under the same name: seen by what they leave untouched. */
static size_t stride_of(const struct lp_nvml *nvml, const unsigned char *buffer, unsigned count)
{
    const unsigned char *beyond = buffer + count * nvml->holder_bytes;
    if (nvml->holder_bytes != HOLDER_V2_BYTES)
        return nvml->holder_bytes;
    for (size_t i = 0; i < HOLDER_LONG_BYTES - HOLDER_V2_BYTES; i++)
        if (beyond[i] != UNTOUCHED)
            return HOLDER_LONG_BYTES;
    return HOLDER_V2_BYTES;
}

int lp_nvml_holders(const struct lp_nvml *nvml, lp_nvml_device device,
                    void (*each)(void *context, const struct lp_nvml_holder *holder), void *context)
{
    unsigned count = LP_NVML_HOLDERS;
    struct lp_nvml_holder holder;
    if (!nvml->holders)
        return LP_NVML_FUNCTION_NOT_FOUND;
    unsigned char *buffer = malloc((LP_NVML_HOLDERS + 1) * HOLDER_LONG_BYTES);
    if (!buffer)
        return LP_NVML_INSUFFICIENT_SIZE;
    memset(buffer, UNTOUCHED, (LP_NVML_HOLDERS + 1) * HOLDER_LONG_BYTES);
    int result = nvml->holders(device, &count, buffer);
    if (result == LP_NVML_SUCCESS && count <= LP_NVML_HOLDERS) {
        size_t stride = stride_of(nvml, buffer, count);
        for (unsigned i = 0; i < count; i++) {
            memcpy(&holder, buffer + i * stride, sizeof holder);
            each(context, &holder);
        }
    }
    free(buffer);
    return result;
}

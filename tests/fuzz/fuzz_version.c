#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <lineprofiler.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *version = lp_version();
    size_t length = strlen(version);
    return size >= length && memcmp(data, version, length) == 0 ? 0 : 0;
}

#include "api/thread_name.h"

#include <lineprofiler.h>
#include <pthread.h>
#include <string.h>

#include "api/profiler.h"

static __thread char given[64];

size_t lp_api_thread_name(void *context, char *name, size_t size)
{
    (void)context;
    if (given[0] && size >= sizeof given) {
        memcpy(name, given, sizeof given);
        return strlen(name);
    }
    return pthread_getname_np(pthread_self(), name, size) == 0 ? strnlen(name, size) : 0;
}

void lp_name_thread(const char *name)
{
    size_t len = name ? strnlen(name, sizeof given - 1) : 0;
    if (len == sizeof given - 1) /* a character of UTF-8, of four bytes at most, is not cut in two */
        while (len > sizeof given - 4 && ((unsigned char)name[len] & 0xc0) == 0x80)
            len--;
    memcpy(given, name ? name : "", len);
    given[len] = 0;
    if (lp_thread_cache.key)              /* else it has recorded nothing */
        lp_thread_cache.key = UINT64_MAX; /* nobody's: sends its next boundary to where its name is looked at */
}

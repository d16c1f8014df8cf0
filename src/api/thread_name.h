/*
 * api/thread_name: what threads of native programs are called in reports.
 */
#ifndef LP_API_THREAD_NAME_H
#define LP_API_THREAD_NAME_H

#include <stddef.h>

/* The calling thread's name: as lp_name_thread() says, else the kernel's. As struct lp_recorder_hooks says. */
size_t lp_api_thread_name(void *context, char *name, size_t size);

#endif

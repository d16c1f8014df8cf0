/* What test_ends.c loads and unloads: it records through a table that it is given. */
#define LINEPROFILER_BOUND
#include <lineprofiler.h>

#include <pthread.h>
#include <stddef.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN int plugin_run(const lp_api *table);

static void *work(void *context)
{
    LP_PHASE("plugin");
    LP_COUNT("units", 2);
    return context;
}

/* Loaded before there is a table, and run after: nothing, and everything. */
SHOWN int plugin_run(const lp_api *table)
{
    pthread_t thread;
    lp_api older = table ? *table : (lp_api){0};
    work(NULL);
    if (lp_open(NULL) || lp_close(NULL) || lp_installed() || !lp_error_message()[0])
        return -1;
    older.size--;
    if (lp_bind(&older) != -1 || lp_installed())
        return -2;
    if (lp_bind(table) != 0)
        return -3;
    work(NULL);
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return -4;
    return lp_bind(NULL);
}

__attribute__((destructor)) static void unloaded(void)
{
    LP_PHASE("unloaded");
}

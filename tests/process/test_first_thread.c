/* What a process knows of itself when its first thread has ended: most of what /proc/self says is that thread's alone. */
#include "support/support.h"

#include <pthread.h>

#include "process/cgroup.h"
#include "process/identity.h"
#include "process/memory.h"
#include "process/thread_state.h"
#include "process/usage.h"

static struct lp_identity identity;
static struct lp_cgroup cgroup;
static struct lp_usage usage;
static bool has_pss;

static bool first_has_ended(void)
{
    struct lp_thread_look look;
    lp_thread_glance(&look, (uint64_t)getpid(), (uint64_t)getpid());
    return look.state == 'Z';
}

static void *look_again(void *context)
{
    struct lp_identity now;
    struct lp_cgroup limits;
    struct lp_own_memory memory;
    struct lp_usage used;
    (void)context;
    while (!first_has_ended())
        sched_yield();
    lp_identity_read(&now);
    CHECK_U64(now.process_start_ticks, identity.process_start_ticks);
    CHECK_U64(now.pid_namespace, identity.pid_namespace);
    CHECK_U64(now.time_namespace, identity.time_namespace);
    CHECK(now.command_len == identity.command_len && memcmp(now.command, identity.command, now.command_len) == 0);
    lp_cgroup_read(&limits, "");
    CHECK(limits.memory_bytes.state == cgroup.memory_bytes.state);
    CHECK_U64(limits.memory_bytes.value, cgroup.memory_bytes.value);
    lp_memory_of_self(&memory);
    CHECK(memory.rss_bytes > 0 && memory.peak_rss_bytes >= memory.rss_bytes);
    CHECK((lp_memory_pss_of_self() > 0) == has_pss);
    lp_usage_read(&used);
    CHECK(used.rss_bytes > usage.rss_bytes / 2 && used.rss_bytes < usage.rss_bytes * 2);
    CHECK_U64(used.open_files, usage.open_files);
    CHECK_U64(used.threads, 2);
    _exit(0);
}

static void end_first_thread(void *context)
{
    pthread_t other;
    (void)context;
    lp_identity_read(&identity);
    lp_cgroup_read(&cgroup, "");
    lp_usage_read(&usage);
    has_pss = lp_memory_pss_of_self() > 0;
    CHECK(pthread_create(&other, NULL, look_again, NULL) == 0);
    pthread_exit(NULL);
}

static void test_nothing_is_lost_with_it(void **state)
{
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* it has a thread of its own */
    in_child(end_first_thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

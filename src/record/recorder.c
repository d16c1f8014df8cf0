#include "record/record.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__thread struct lp_thread_cache lp_thread_cache __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t always_here = 1;
_Atomic uint32_t *lp_fork_word = &always_here;

static pthread_once_t set_up_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static bool have_exit_key; /* else slots of threads that ended are not used again */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before any recorder's lock */
static struct lp_recorder *registry;                              /* guarded by registry_lock */
static _Atomic uint64_t last_key;

static __thread unsigned ends __attribute__((tls_model("initial-exec")));

/* Runs when a thread ends: its slots are free for later threads. What destructors of the program's own record after that
   brings it back, as often as libc goes round; then it is over. */
static void thread_ends(void *value)
{
    (void)value;
    if (!lp_record_is_here())
        return; /* a clone that ran no fork handlers: the images are its parent's, and the locks in any state */
    ends++;
    pthread_mutex_lock(&registry_lock);
    for (struct lp_recorder *recorder = registry; recorder; recorder = recorder->next) {
        pthread_mutex_lock(&recorder->lock);
        for (struct lp_thread *thread = recorder->threads; thread; thread = thread->next) {
            if (thread->owner != lp_thread_id())
                continue;
            if (atomic_load(&recorder->key) && thread->generation == recorder->generation && thread->slot)
                lp_thread_end(thread);
            lp_wait_end(&thread->wait);
            thread->owner = 0;
        }
        pthread_mutex_unlock(&recorder->lock);
    }
    pthread_mutex_unlock(&registry_lock);
    lp_thread_cache = (struct lp_thread_cache){0};
}

static void set_up(void)
{
    lp_cpu_open();
    have_exit_key = pthread_key_create(&exit_key, thread_ends) == 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED)
        return;
    if (madvise(word, page, MADV_WIPEONFORK) != 0) {
        munmap(word, page);
        return;
    }
    lp_fork_word = word;
    atomic_store(lp_fork_word, 1);
}

bool lp_thread_is_over(void)
{
    return ends >= PTHREAD_DESTRUCTOR_ITERATIONS;
}

void lp_thread_watch_end(void)
{
    if (have_exit_key)
        pthread_setspecific(exit_key, &lp_thread_cache);
}

int lp_recorder_init(struct lp_recorder *recorder, const struct lp_recorder_hooks *hooks, bool measure_cpu,
                     bool keep_thread_names)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->hooks = *hooks;
    recorder->measure_cpu = measure_cpu;
    recorder->keep_thread_names = keep_thread_names;
    recorder->image.fd = -1;
    if (pthread_mutex_init(&recorder->lock, NULL) != 0)
        return -1;
    pthread_once(&set_up_once, set_up);
    pthread_mutex_lock(&registry_lock);
    recorder->next = registry;
    registry = recorder;
    pthread_mutex_unlock(&registry_lock);
    return 0;
}

void lp_recorder_start(struct lp_recorder *recorder)
{
    atomic_store(&recorder->state, LP_RECORDER_RUNNING);
    atomic_store(&recorder->key, atomic_fetch_add(&last_key, 1) + 1);
}

void lp_recorder_touch(struct lp_recorder *recorder)
{
    uint64_t key = atomic_load(&recorder->key);
    /* Not if it was stopped meanwhile: that is for good. */
    if (key != 0)
        atomic_compare_exchange_strong(&recorder->key, &key, atomic_fetch_add(&last_key, 1) + 1);
}

void lp_recorder_restore(struct lp_recorder *recorder)
{
    if (!lp_image_is_lost(&recorder->image))
        return;
    pthread_mutex_lock(&recorder->lock);
    lp_recorder_touch(recorder); /* sends each thread to this lock */
    lp_image_restore(&recorder->image);
    pthread_mutex_unlock(&recorder->lock);
}

void lp_recorder_wake(struct lp_recorder *recorder)
{
    atomic_store(&recorder->wake, atomic_load(&recorder->key) != 0);
    lp_recorder_touch(recorder);
}

void lp_recorder_stop(struct lp_recorder *recorder)
{
    atomic_store(&recorder->state, LP_RECORDER_STOPPED);
    atomic_store(&recorder->key, 0);
    if (!lp_record_is_here())
        return; /* a clone that ran no fork handlers: its parent's threads may hold the lock */
    pthread_mutex_lock(&recorder->lock);
    for (struct lp_thread *thread = recorder->threads; thread; thread = thread->next)
        lp_wait_end(&thread->wait);
    pthread_mutex_unlock(&recorder->lock);
}

static void release_kept(struct lp_kept *kept)
{
    while (kept) {
        struct lp_kept *next = kept->next;
        free(kept);
        kept = next;
    }
}

void lp_recorder_release(struct lp_recorder *recorder)
{
    lp_recorder_stop(recorder);
    pthread_mutex_lock(&registry_lock);
    for (struct lp_recorder **link = &registry; *link; link = &(*link)->next) {
        if (*link == recorder) {
            *link = recorder->next;
            break;
        }
    }
    pthread_mutex_unlock(&registry_lock);
    while (recorder->threads) {
        struct lp_thread *thread = recorder->threads;
        recorder->threads = thread->next;
        lp_wait_end(&thread->wait);
        lp_table_release(&thread->children);
        lp_strands_release(thread);
        release_kept(thread->kept);
        free(thread);
    }
    lp_table_release(&recorder->paths);
    lp_table_release(&recorder->name_refs);
    lp_shapes_release(&recorder->shapes);
    pthread_mutex_destroy(&recorder->lock);
}

void lp_record_make_locks_anew(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    for (struct lp_recorder *recorder = registry; recorder; recorder = recorder->next)
        pthread_mutex_init(&recorder->lock, NULL);
    lp_names_make_lock_anew();
}

void lp_record_before_fork(void)
{
    pthread_mutex_lock(&registry_lock);
    for (struct lp_recorder *recorder = registry; recorder; recorder = recorder->next)
        pthread_mutex_lock(&recorder->lock);
    lp_names_before_fork();
}

void lp_record_after_fork_in_parent(void)
{
    lp_names_after_fork();
    for (struct lp_recorder *recorder = registry; recorder; recorder = recorder->next)
        pthread_mutex_unlock(&recorder->lock);
    pthread_mutex_unlock(&registry_lock);
}

static void forget_parent(struct lp_recorder *recorder)
{
    atomic_store(&recorder->key, 0);
    atomic_store(&recorder->wake, false);
    recorder->generation++;
    if (atomic_load(&recorder->state) == LP_RECORDER_RUNNING)
        atomic_store(&recorder->state, LP_RECORDER_IDLE);
    for (struct lp_thread *thread = recorder->threads; thread; thread = thread->next) {
        thread->owner = 0;
        thread->slot = NULL;
        lp_wait_forget(&thread->wait);
        lp_strands_forget(thread);
    }
    lp_table_reset(&recorder->paths);
    lp_table_reset(&recorder->name_refs);
    lp_shapes_reset(&recorder->shapes);
    atomic_store(&recorder->overflow_parent, 0);
    atomic_store(&recorder->overflow_name, LP_NAME_NONE);
    lp_image_forget(&recorder->image);
}

void lp_record_after_fork_in_child(void)
{
    lp_wall_after_fork();
    for (struct lp_recorder *recorder = registry; recorder; recorder = recorder->next)
        forget_parent(recorder);
    lp_record_after_fork_in_parent();
    atomic_store(lp_fork_word, 1);
}

struct lp_shape_verdict lp_recorder_admit(struct lp_recorder *recorder, lp_name_id name, bool strict)
{
    pthread_mutex_lock(&recorder->lock);
    struct lp_shape_verdict verdict = {0};
    if (!lp_shapes_know(&recorder->shapes, name))
        verdict = lp_shapes_admit(&recorder->shapes, name, strict);
    pthread_mutex_unlock(&recorder->lock);
    return verdict;
}

size_t lp_recorder_overflow(struct lp_recorder *recorder, lp_name_id *path, size_t size)
{
    lp_ref ref = atomic_load(&recorder->overflow_parent);
    if (!ref || atomic_load(&recorder->key) == 0)
        return 0;
    const struct lp_node *node = lp_image_at(&recorder->image, ref);
    size_t len = node->depth + 1;
    if (len > size)
        return 0;
    path[len - 1] = atomic_load(&recorder->overflow_name) & LP_NAME_MASK;
    for (size_t i = len - 1; i-- > 0; node = lp_image_at(&recorder->image, node->parent))
        path[i] = node->phase_id & LP_NAME_MASK;
    return len;
}

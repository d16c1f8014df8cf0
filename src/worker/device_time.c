#include "worker/device_time.h"

#include <pthread.h>
#include <stdlib.h>

#define UNFINISHED_LOOKED_AT 2u /* what was begun later on the same stream is finished later */
#define TAKEN_AT_ONCE 16u

struct lp_device_time {
    struct lp_cuda_event *begin, *end;
    lp_cuda_stream stream;
    struct lp_recorder *recorder;
    struct lp_node *node;
    uint32_t generation; /* of the recorder: nodes of an earlier one are gone */
    struct lp_device_time *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lp_device_time *oldest, **newest = &oldest; /* guarded by lock, as the next one */
static unsigned n_pending;

static void drop(struct lp_device_time *time)
{
    if (!time)
        return;
    lp_cuda_event_release(time->begin);
    lp_cuda_event_release(time->end);
    free(time);
}

struct lp_device_time *lp_device_time_begin(lp_cuda_stream stream)
{
    struct lp_cuda_event *event = lp_cuda_record(stream);
    struct lp_device_time *time = event ? calloc(1, sizeof *time) : NULL;
    if (!time) {
        lp_cuda_event_release(event);
        return NULL;
    }
    time->begin = event;
    time->stream = stream;
    return time;
}

/* False: there are too many. */
static bool queue(struct lp_device_time *time)
{
    pthread_mutex_lock(&lock);
    bool has_room = n_pending < LP_DEVICE_TIMES_PENDING;
    if (has_room) {
        *newest = time;
        newest = &time->next;
        n_pending++;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

void lp_device_time_end(struct lp_device_time *begun, struct lp_recorder *recorder, struct lp_node *node,
                        lp_cuda_stream stream)
{
    if (!begun)
        return;
    if (node && stream == begun->stream)
        begun->end = lp_cuda_record(stream);
    if (begun->end) {
        begun->recorder = recorder;
        begun->generation = recorder->generation;
        begun->node = node;
        if (queue(begun))
            return;
    }
    drop(begun);
}

static void unlink_locked(struct lp_device_time **link)
{
    struct lp_device_time *time = *link;
    *link = time->next;
    if (newest == &time->next)
        newest = link;
    n_pending--;
    drop(time);
}

/* True if nothing more is to be known of it. */
static bool take_locked(const struct lp_device_time *time)
{
    uint64_t ns;
    enum lp_cuda_elapsed elapsed = lp_cuda_elapsed(time->begin, time->end, &ns);
    if (elapsed == LP_CUDA_DONE && time->generation == time->recorder->generation)
        lp_node_add_device_time(&time->recorder->image, time->node, ns);
    return elapsed != LP_CUDA_PENDING;
}

void lp_device_time_collect(bool all)
{
    unsigned unfinished = 0, taken = 0;
    pthread_mutex_lock(&lock);
    for (struct lp_device_time **link = &oldest;
         *link && (all || (unfinished < UNFINISHED_LOOKED_AT && taken < TAKEN_AT_ONCE));) {
        if (take_locked(*link)) {
            unlink_locked(link);
            taken++;
        } else {
            link = &(*link)->next;
            unfinished++;
        }
    }
    pthread_mutex_unlock(&lock);
}

void lp_device_time_forget(const struct lp_recorder *recorder)
{
    pthread_mutex_lock(&lock);
    for (struct lp_device_time **link = &oldest; *link;) {
        if ((*link)->recorder == recorder)
            unlink_locked(link);
        else
            link = &(*link)->next;
    }
    pthread_mutex_unlock(&lock);
}

void lp_device_time_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    oldest = NULL;
    newest = &oldest;
    n_pending = 0;
}

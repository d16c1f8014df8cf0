#include "run/boots.h"

#include <stdlib.h>

#include "run/room.h"

void lp_run_boots_release(struct lp_run_boots *boots)
{
    for (size_t i = 0; i < boots->n_boots; i++)
        lp_text_release(&boots->boots[i].id);
    free(boots->boots);
    *boots = (struct lp_run_boots){0};
}

static bool is_boot(const struct lp_run_boots *boots, size_t place, struct lp_span id, uint64_t time_namespace)
{
    return place < boots->n_boots && boots->boots[place].time_namespace == time_namespace &&
           lp_text_equal(lp_text_span(&boots->boots[place].id), id);
}

/* Files come sorted by host: the last one is the likeliest. */
static size_t find(const struct lp_run_boots *boots, struct lp_span id, uint64_t time_namespace)
{
    size_t place = boots->last;
    if (is_boot(boots, place, id, time_namespace))
        return place;
    for (place = 0; place < boots->n_boots && !is_boot(boots, place, id, time_namespace);)
        place++;
    return place;
}

static bool is_newer(const struct lp_run_stamp *stamp, const struct lp_run_stamp *than)
{
    if (stamp->boottime_ns != than->boottime_ns)
        return stamp->boottime_ns > than->boottime_ns;
    return stamp->realtime_ns > than->realtime_ns;
}

int lp_run_boots_note(struct lp_run_boots *boots, struct lp_span id, uint64_t time_namespace,
                      const struct lp_run_stamp *stamp, size_t *place)
{
    *place = find(boots, id, time_namespace);
    if (*place == boots->n_boots) {
        if (lp_run_room(&boots->boots, &boots->room, boots->n_boots, sizeof *boots->boots) < 0)
            return -1;
        struct lp_run_boot *boot = &boots->boots[boots->n_boots];
        *boot = (struct lp_run_boot){.time_namespace = time_namespace, .newest = *stamp};
        if (lp_text_copy(&boot->id, id) < 0)
            return -1;
        boots->n_boots++;
    }
    boots->last = *place;
    if (is_newer(stamp, &boots->boots[*place].newest))
        boots->boots[*place].newest = *stamp;
    return 0;
}

uint64_t lp_run_boots_time(const struct lp_run_boots *boots, size_t place, const struct lp_run_stamp *stamp)
{
    const struct lp_run_boot *boot = &boots->boots[place];
    uint64_t newest_ns = boot->newest.boottime_ns;
    uint64_t before_ns = newest_ns > stamp->boottime_ns ? newest_ns - stamp->boottime_ns : 0;
    if (boot->id.len == 0) /* which boot it was is not known */
        return stamp->realtime_ns;
    return boot->newest.realtime_ns > before_ns ? boot->newest.realtime_ns - before_ns : 0;
}

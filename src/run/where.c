#include "run/where.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/identity.h"
#include "process/stamp.h"
#include "process/thread_state.h"
#include "run/line.h"
#include "run/patient.h"
#include "run/reach.h"
#include "run/room.h"
#include "run/text.h"
#include "worker/adopt.h"
#include "worker/place.h"

#define BETWEEN_LOOKS_NS 30000000u
#define MOSTLY 0.75 /* a running thread's CPU time is behind by a tick: nearer to the ends nothing can be told */
#define HARDLY 0.25

/* ---- the living ------------------------------------------------------------------------- */

struct living {
    struct lp_where *where;
    size_t room;
};

static int take_worker(void *context, const struct lp_stacks *stacks)
{
    struct living *living = context;
    struct lp_where *where = living->where;
    struct lp_stacks gone = *stacks;
    struct lp_where_thread *threads = calloc(stacks->n_threads + 1, sizeof *threads);
    if (!threads || lp_run_room(&where->workers, &living->room, where->n_workers, sizeof *where->workers) < 0) {
        free(threads);
        lp_stacks_release(&gone);
        return -1;
    }
    for (size_t i = 0; i < stacks->n_threads; i++)
        threads[i].open = stacks->threads[i];
    where->workers[where->n_workers++] =
        (struct lp_where_worker){.stacks = *stacks, .threads = threads, .n_threads = stacks->n_threads};
    return 0;
}

/* ---- their threads ---------------------------------------------------------------------- */

typedef void each_thread(const struct lp_where_worker *worker, struct lp_where_thread *thread,
                         struct lp_thread_look *look);

/* looks: one for each thread, in their order. Those of other pid namespaces have other numbers here. */
static void for_threads(struct lp_where *where, struct lp_thread_look *looks, each_thread *act)
{
    uint64_t here = lp_pid_namespace();
    for (size_t i = 0; i < where->n_workers; i++) {
        const struct lp_where_worker *worker = &where->workers[i];
        bool visible = here != 0 && worker->stacks.pid_namespace == here;
        for (size_t j = 0; j < worker->n_threads; j++, looks++)
            if (visible)
                act(worker, &worker->threads[j], looks);
    }
}

static void look(const struct lp_where_worker *worker, struct lp_where_thread *thread, struct lp_thread_look *at)
{
    lp_thread_look(at, worker->stacks.pid, thread->open.tid);
    snprintf(thread->wait_channel, sizeof thread->wait_channel, "%s", at->wait_channel);
    /* A thread that has taken over the place of one that ended has not done what that did. */
    if (thread->open.finished_ago_ns > at->age_ns) {
        thread->open.finished = false;
        thread->open.finished_depth = 0;
    }
}

static enum lp_where_state state_of(char before, char now, double share)
{
    if (now == 0)
        return LP_WHERE_NOT_KNOWN;
    if (now == 'T' || now == 't')
        return LP_WHERE_STOPPED;
    if (now == 'Z' || now == 'X')
        return LP_WHERE_ENDED;
    if (isnan(share))
        return now == 'R' ? LP_WHERE_ON_CPU : now == 'D' ? LP_WHERE_BLOCKED : LP_WHERE_WAITING;
    if (share >= HARDLY)
        return share >= MOSTLY ? LP_WHERE_ON_CPU : LP_WHERE_PARTLY;
    if (now == 'R' && before == 'R')
        return LP_WHERE_RUNNABLE;
    return now == 'D' && before == 'D' ? LP_WHERE_BLOCKED : LP_WHERE_WAITING;
}

static void look_again(const struct lp_where_worker *worker, struct lp_where_thread *thread,
                       struct lp_thread_look *before)
{
    struct lp_thread_look now;
    lp_thread_glance(&now, worker->stacks.pid, thread->open.tid);
    if (before->cpu_known && now.cpu_known && now.cpu_ns >= before->cpu_ns && now.at_ns > before->at_ns) {
        double share = (double)(now.cpu_ns - before->cpu_ns) / (double)(now.at_ns - before->at_ns);
        thread->cpu_share = share < 1 ? share : 1;
    }
    thread->kernel_state = now.state;
    thread->state = state_of(before->state, now.state, thread->cpu_share);
    if (thread->state != LP_WHERE_WAITING && thread->state != LP_WHERE_BLOCKED)
        thread->wait_channel[0] = '\0';
}

static struct lp_thread_look *look_at_threads(struct lp_where *where)
{
    size_t n = 0;
    for (size_t i = 0; i < where->n_workers; i++) {
        for (size_t j = 0; j < where->workers[i].n_threads; j++)
            where->workers[i].threads[j].cpu_share = NAN;
        n += where->workers[i].n_threads;
    }
    struct lp_thread_look *looks = calloc(n + 1, sizeof *looks);
    if (looks)
        for_threads(where, looks, look);
    return looks;
}

static void wait_until(uint64_t monotonic_ns)
{
    struct timespec until = {.tv_sec = (time_t)(monotonic_ns / 1000000000u),
                             .tv_nsec = (long)(monotonic_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* ---- the others --------------------------------------------------------------------------- */

static const struct lp_where_worker *find_living(const struct lp_where *where, struct lp_span name)
{
    for (size_t i = 0; i < where->n_workers; i++) {
        const struct lp_stacks_text *worker = &where->workers[i].stacks.worker;
        if (lp_text_equal((struct lp_span){worker->bytes, worker->len}, name))
            return &where->workers[i];
    }
    return NULL;
}

static struct lp_where_other make_other(const struct lp_run_worker *worker, const struct lp_stamp *now,
                                        const char *boot_id)
{
    struct lp_where_other other = {.worker = worker};
    other.same_clock = worker->boot_id && *boot_id && strcmp(worker->boot_id, boot_id) == 0 &&
                       worker->time_namespace == lp_time_namespace();
    uint64_t now_ns = other.same_clock ? now->boottime_ns : now->realtime_ns;
    uint64_t then_ns = other.same_clock ? worker->written.boottime_ns : worker->written.realtime_ns;
    other.ahead = then_ns > now_ns && !other.same_clock;
    other.age_ns = then_ns > now_ns ? (other.ahead ? then_ns - now_ns : 0) : now_ns - then_ns;
    return other;
}

/* Newest first; those of one time as the run has them. */
static int compare_ends(const void *a, const void *b)
{
    const struct lp_where_other *one = a, *other = b;
    if (one->ahead != other->ahead)
        return one->ahead ? -1 : 1;
    int order = (one->age_ns > other->age_ns) - (one->age_ns < other->age_ns);
    if (order == 0)
        return (one->worker > other->worker) - (one->worker < other->worker);
    return one->ahead ? -order : order;
}

/* The workers of the run that are not among the living. */
static int sort_out(struct lp_where *where)
{
    char boot_id[40];
    struct lp_stamp now = lp_stamp_now();
    size_t n = where->run->n_workers;
    lp_boot_id_read(boot_id, sizeof boot_id);
    where->elsewhere = calloc(n + 1, sizeof *where->elsewhere);
    where->ended = calloc(n + 1, sizeof *where->ended);
    if (!where->elsewhere || !where->ended)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct lp_run_worker *worker = &where->run->workers[i];
        if (find_living(where, lp_text_span(&worker->worker)))
            continue;
        if (worker->closed)
            where->n_closed++;
        else if (worker->ended || worker->source == LP_SOURCE_DEAD_IMAGE)
            where->ended[where->n_ended++] = make_other(worker, &now, boot_id);
        else if (worker->source != LP_SOURCE_LIVE_IMAGE)
            where->elsewhere[where->n_elsewhere++] = make_other(worker, &now, boot_id);
    }
    qsort(where->ended, where->n_ended, sizeof *where->ended, compare_ends);
    return 0;
}

static int compare_texts(const struct lp_stacks_text *a, const struct lp_stacks_text *b)
{
    return lp_text_compare((struct lp_span){a->bytes, a->len}, (struct lp_span){b->bytes, b->len});
}

static int compare_workers(const void *a, const void *b)
{
    const struct lp_stacks *one = &((const struct lp_where_worker *)a)->stacks;
    const struct lp_stacks *other = &((const struct lp_where_worker *)b)->stacks;
    int order = compare_texts(&one->role, &other->role);
    if (order == 0)
        order = (one->rank > other->rank) - (one->rank < other->rank);
    if (order == 0)
        order = (one->index > other->index) - (one->index < other->index);
    if (order == 0)
        order = (one->pid > other->pid) - (one->pid < other->pid);
    return order ? order : compare_texts(&one->worker, &other->worker);
}

/* The run's id: that of its files and images together, or of any that lives. */
static int name_run(struct lp_where *where)
{
    struct lp_span id = {"", 0};
    if (where->run)
        id = lp_text_span(&where->run->run_id);
    else if (where->n_workers > 0)
        id = (struct lp_span){where->workers[0].stacks.run_id.bytes, where->workers[0].stacks.run_id.len};
    return lp_text_copy(&where->run_id, id);
}

static void count(struct lp_where *where)
{
    where->n_all = where->n_closed + where->n_ended + where->n_elsewhere;
    for (size_t i = 0; i < where->n_workers; i++) {
        struct lp_where_worker *worker = &where->workers[i];
        struct lp_span id = {worker->stacks.run_id.bytes, worker->stacks.run_id.len};
        worker->of_run = lp_text_equal(id, lp_text_span(&where->run_id));
        where->n_all += worker->of_run;
        where->n_closing += worker->stacks.closing;
        where->n_partial += worker->stacks.partial;
    }
    if (where->n_workers > 1)
        qsort(where->workers, where->n_workers, sizeof *where->workers, compare_workers);
}

/* ---- the run directory ---------------------------------------------------------------------- */

/* A call of lp_where_load. */
struct call {
    struct lp_where *where;
    void (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
    char *message;
    size_t message_size;
};

static int fail_memory(const struct call *call)
{
    snprintf(call->message, call->message_size, "out of memory while reading '%s'", call->where->dir);
    return LP_RUN_SYSTEM;
}

/* Workers know their run directory by an absolute path: any other spelling needs the file system to compare. */
static int give_up(struct call *call)
{
    const char *dir = call->where->dir;
    struct lp_run_line line = {0};
    call->where->run_dir_late = true;
    lp_run_line_add(&line, "'");
    lp_run_line_text(&line, (struct lp_span){dir, strlen(dir)});
    lp_run_line_add(&line,
                    "' does not answer within %d s, and no live worker here is known by that path: give the run_dir "
                    "just as the program was given it",
                    LP_PATIENCE_S);
    char *text = lp_run_line_take(&line);
    snprintf(call->message, call->message_size, "%s", text ? text : "out of memory");
    free(text);
    return LP_RUN_SYSTEM;
}

/* What is asked of the run directory, by a thread that may never come back: with all that it needs. */
struct question {
    char *dir; /* Owned. */
    bool no_images;
    struct lp_run *run; /* Owned. */
    int status;
    char message[1024];
};

static void release_question(void *task)
{
    struct question *question = task;
    lp_run_free(question->run);
    free(question->dir);
    free(question);
}

static bool go_on(void *patient)
{
    lp_patient_step(patient, 0, 0);
    return false;
}

static void adopt(void *task, void *patient)
{
    struct question *question = task;
    lp_adopt(&(struct lp_adoption){.run_dir = question->dir, .stop = go_on, .context = patient});
}

static void read_files(void *task, void *patient)
{
    struct question *question = task;
    struct lp_run_options options = {
        .no_images = question->no_images, .only_read = true, .progress = lp_patient_step, .progress_context = patient};
    question->status =
        lp_run_load(&question->run, question->dir, &options, question->message, sizeof question->message);
}

/* A status as lp_run_load's. */
static int ask(struct call *call, void (*act)(void *task, void *patient), bool no_images)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question || !(question->dir = strdup(call->where->dir))) {
        free(question);
        return fail_memory(call);
    }
    question->no_images = no_images;
    if (!lp_patient_do(&(struct lp_patient_work){.act = act,
                                                 .release = release_question,
                                                 .task = question,
                                                 .progress = call->progress,
                                                 .progress_context = call->progress_context}))
        return give_up(call);
    int status = question->status;
    snprintf(call->message, call->message_size, "%s", question->message);
    if (question->run)
        call->where->run = question->run;
    question->run = NULL;
    release_question(question);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Whether the files alone tell which attempt this is: not while workers live that have written none. */
static bool files_suffice(const struct lp_where *where)
{
    for (size_t i = 0; where->run && i < where->n_workers; i++) {
        const struct lp_stacks_text *id = &where->workers[i].stacks.run_id;
        if (!lp_text_equal((struct lp_span){id->bytes, id->len}, lp_text_span(&where->run->run_id)))
            return false;
    }
    return where->run != NULL;
}

/* What the living do is known by now, and to make documents of their images takes longer than all the rest. more: there are
   images besides theirs. */
static int load_run(struct call *call, bool more)
{
    struct lp_where *where = call->where;
    int status = ask(call, read_files, !more);
    if (more || where->run_dir_late || status == LP_RUN_MISSING || where->n_workers == 0 || files_suffice(where))
        return status;
    lp_run_free(where->run);
    where->run = NULL;
    return ask(call, read_files, false);
}

/* The living, in their images. */
static int find_living_workers(struct lp_where *where, const struct lp_run_place *place, bool *more)
{
    struct living living = {.where = where};
    *more = false;
    return place ? lp_stacks_each(place, take_worker, &living, more) : 0;
}

static int load(struct call *call)
{
    struct lp_where *where = call->where;
    struct lp_run_place place;
    enum lp_reach reach = lp_run_reach(&place, where->dir);
    bool more;
    int status = reach == LP_REACH_LATE ? give_up(call) : LP_RUN_OK;
    if (reach == LP_REACH_FOUND)
        status = ask(call, adopt, false);
    if (find_living_workers(where, reach == LP_REACH_MISSING ? NULL : &place, &more) != 0)
        return fail_memory(call);
    struct lp_thread_look *looks = look_at_threads(where);
    if (!looks)
        return fail_memory(call);
    uint64_t looked_ns = lp_stamp_now().monotonic_ns;
    if (!where->run_dir_late)
        status = load_run(call, more);
    if (reach == LP_REACH_FAILED && status != LP_RUN_OK)
        where->run_dir_late = true;
    if (where->n_workers > 0)
        wait_until(looked_ns + BETWEEN_LOOKS_NS);
    for_threads(where, looks, look_again);
    free(looks);
    where->now_realtime_ns = lp_stamp_now().realtime_ns;
    if (status != LP_RUN_OK && where->n_workers == 0)
        return status;
    if ((where->run && sort_out(where) < 0) || name_run(where) < 0)
        return fail_memory(call);
    count(where);
    return LP_RUN_OK;
}

int lp_where_load(struct lp_where **where, const char *dir, void (*progress)(void *context, size_t done, size_t total),
                  void *progress_context, char *message, size_t message_size)
{
    struct lp_where *made = *where = calloc(1, sizeof *made);
    struct call call = {made, progress, progress_context, message, message_size};
    int status = made && (made->dir = strdup(dir)) ? load(&call) : LP_RUN_SYSTEM;
    if (status == LP_RUN_OK)
        return status;
    if (!made || !made->dir)
        snprintf(message, message_size, "out of memory while reading '%s'", dir);
    lp_where_free(*where);
    *where = NULL;
    return status;
}

void lp_where_free(struct lp_where *where)
{
    if (!where)
        return;
    for (size_t i = 0; i < where->n_workers; i++) {
        lp_stacks_release(&where->workers[i].stacks);
        free(where->workers[i].threads);
    }
    free(where->workers);
    free(where->elsewhere);
    free(where->ended);
    free(where->dir);
    lp_text_release(&where->run_id);
    lp_run_free(where->run);
    free(where);
}

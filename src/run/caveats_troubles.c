#include <string.h>

#include "run/caveats.h"

struct trouble {
    const char *name; /* In the file. */
    const char *kind; /* Of the caveat. */
    const char *one, *many;
    const char *meaning, *meaning_of_many; /* The latter NULL: one says both. */
};

/* Where the time of an entry is that found no node of its own. */
#define IN_THE_PHASE_AROUND_IT "its time is in the phase around it, at the top level in none"
#define IN_THE_PHASES_AROUND_THEM "their time is in the phases around them, at the top level in none"

static const struct trouble troubles[] = {
    {"failed_flushes", "failed_flushes", "write failed", "writes failed",
     "until one succeeded again, what a reader saw was older", NULL},
    {"clock_jumps", "clock", "jump of the wall clock", "jumps of the wall clock",
     "the machine was suspended or moved; phases open meanwhile may be too short or too long", NULL},
    {"folded_depth", "troubles", "entry was nested too deep", "entries were nested too deep",
     IN_THE_PHASE_AROUND_IT "; recursion, or phases that begin before the last one has ended",
     IN_THE_PHASES_AROUND_THEM "; recursion, or phases that begin before the last one has ended"},
    {"folded_paths", "troubles", "entry found too many distinct paths", "entries found too many distinct paths",
     IN_THE_PHASE_AROUND_IT "; use fixed names, and count() for what varies",
     IN_THE_PHASES_AROUND_THEM "; use fixed names, and count() for what varies"},
    {"unnamed", "troubles", "entry had no name", "entries had no name",
     "NULL, empty, or refused by lp_intern() or lp_with(); " IN_THE_PHASE_AROUND_IT,
     "NULL, empty, or refused by lp_intern() or lp_with(); " IN_THE_PHASES_AROUND_THEM},
    {"refused_names", "troubles", "entry had a name that strict_names refuses",
     "entries had names that strict_names refuses", IN_THE_PHASE_AROUND_IT "; use fixed names",
     IN_THE_PHASES_AROUND_THEM "; use fixed names"},
    {"image_full", "troubles", "entry found no memory", "entries found no memory",
     IN_THE_PHASE_AROUND_IT ", or missing in a histogram", IN_THE_PHASES_AROUND_THEM ", or missing in a histogram"},
    {"lost_counters", "troubles", "count was lost", "counts were lost",
     "no memory for it, or no such name; a counter is too low", NULL},
    {"counter_overflows", "troubles", "count was refused", "counts were refused",
     "the sum would leave 64 bits; the counter is not what was counted", NULL},
    {"foreign_exits", "troubles", "phase was left on another thread", "phases were left on another thread",
     "its wall time ends there, and its CPU time was not measured",
     "their wall time ends there, and their CPU time was not measured"},
    {"lost_exits", "troubles", "exit found its entry gone", "exits found their entry gone",
     "it had ended before, with its thread or with the phase around it",
     "they had ended before, with their threads or with the phases around them"},
    {"sampled_overlaps", "estimated", "entry of a sampled phase ended before what had begun in it",
     "entries of sampled phases ended before what had begun in them",
     "estimates of phases that overlap are rough; end each before the next begins, or measure every entry", NULL},
    {"failed_callbacks", "failed_callbacks", "call of an on_snapshot function raised",
     "calls of on_snapshot functions raised", "what they export lacks those intervals; the figures here do not", NULL},
    {"failed_samples", "failed_flushes", "write of resource samples failed", "writes of resource samples failed",
     "until one succeeded again they waited in memory, where there is room for 63", NULL},
    {"gpu_timeouts", "troubles", "time the GPU driver did not answer", "times the GPU driver did not answer",
     "its figures are missing for so long; the program was not held up", NULL},
    {"unread_io", "troubles", "entry of a phase with io=True has no bytes",
     "entries of phases with io=True have no bytes", "/proc could not be read, or it was left on another thread",
     "/proc could not be read, or they were left on another thread"},
};
#define N_TROUBLES (sizeof troubles / sizeof *troubles)

/* No count but a time, of which next to nothing is not worth a word. */
#define UNPLACED_CPU "unplaced_cpu_ns"
#define UNPLACED_WORTH_NAMING_NS 1000000u

static struct lp_run_concerned find_concerned(const struct lp_run *run, struct lp_span name)
{
    struct lp_run_concerned concerned = {0};
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        for (size_t j = 0; j < worker->n_troubles; j++)
            if (lp_text_equal(lp_text_span(&worker->troubles[j].name), name))
                lp_run_concern(&concerned, worker, worker->troubles[j].count);
    }
    return concerned;
}

static void caveat_known(struct lp_run_caveat_list *list, const struct lp_run *run, const struct trouble *trouble)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = find_concerned(run, (struct lp_span){trouble->name, strlen(trouble->name)});
    if (!concerned.n)
        return;
    bool one = concerned.count == 1;
    lp_run_line_add(&line, "%llu %s: %s (", (unsigned long long)concerned.count, one ? trouble->one : trouble->many,
                    one || !trouble->meaning_of_many ? trouble->meaning : trouble->meaning_of_many);
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, trouble->kind, &line);
}

static void caveat_unplaced_cpu(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = find_concerned(run, (struct lp_span){UNPLACED_CPU, sizeof UNPLACED_CPU - 1});
    if (concerned.count < UNPLACED_WORTH_NAMING_NS)
        return;
    lp_run_line_duration(&line, concerned.count);
    lp_run_line_add(&line,
                    " of CPU time at changes of tasks could not be told apart: it is in the task that ran before (");
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "troubles", &line);
}

static bool is_known(struct lp_span name)
{
    if (lp_text_equal(name, (struct lp_span){UNPLACED_CPU, sizeof UNPLACED_CPU - 1}))
        return true;
    for (size_t i = 0; i < N_TROUBLES; i++)
        if (lp_text_equal(name, (struct lp_span){troubles[i].name, strlen(troubles[i].name)}))
            return true;
    return false;
}

/* Troubles that a newer writer knows: named as they are, worker by worker. */
static void caveats_unknown(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        for (size_t j = 0; j < worker->n_troubles; j++) {
            struct lp_run_line line = {0};
            if (is_known(lp_text_span(&worker->troubles[j].name)) || ++n > LP_RUN_CAVEATS_MAX)
                continue;
            lp_run_line_text(&line, lp_text_span(&worker->troubles[j].name));
            lp_run_line_add(&line, ": %llu (", (unsigned long long)worker->troubles[j].count);
            lp_run_line_worker(&line, worker);
            lp_run_line_add(&line, ")");
            lp_run_caveat_add(list, "troubles", &line);
        }
    }
}

/* What a worker without shared memory has lost, by how it stands. */
static const char *const losses[] = {
    "had no shared memory: a kill would have cost what came after the last write",
    "had no shared memory and ended without close: what came after the last write is lost",
    "had no shared memory and wrote last without close: what came after that is not here, and lost with a kill",
};

static size_t loss_of(const struct lp_run_worker *worker)
{
    if (!lp_run_died(worker))
        return 0;
    return worker->ended ? 1 : 2;
}

static void caveats_private_image(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    for (size_t loss = 0; loss < sizeof losses / sizeof *losses; loss++) {
        struct lp_run_line line = {0};
        struct lp_run_concerned concerned = {0};
        for (size_t i = 0; i < run->n_workers; i++)
            if (run->workers[i].private_image && loss_of(&run->workers[i]) == loss)
                lp_run_concern(&concerned, &run->workers[i], 1);
        if (!concerned.n)
            continue;
        lp_run_line_add(&line, "%zu worker%s %s (", concerned.n, lp_run_plural(concerned.n), losses[loss]);
        lp_run_line_concerned(&line, &concerned);
        lp_run_line_add(&line, ")");
        lp_run_caveat_add(list, "private_image", &line);
    }
}

void lp_run_caveats_of_troubles(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    for (size_t i = 0; i < N_TROUBLES; i++)
        caveat_known(list, run, &troubles[i]);
    caveat_unplaced_cpu(list, run);
    caveats_unknown(list, run);
    caveats_private_image(list, run);
}

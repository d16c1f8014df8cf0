#include "process/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

#define DIGITS 12 /* of a name's hash: 48 bits */

/* Launchers in the order in which their variables count (F2). */
static const struct launcher {
    const char *name, *rank, *world_size;
} launchers[] = {
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE"},
};
static const struct launcher *const torchrun = &launchers[1];

static const struct batch {
    const char *name, *id;
} batches[] = {
    {"slurm", "SLURM_JOB_ID"},
    {"pbs", "PBS_JOBID"},
    {"lsf", "LSB_JOBID"},
    {"flux", "FLUX_JOB_ID"},
};

/* NULL if it is unset or empty. */
static const char *text_in(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

/* The number that a variable holds; -1 if it is unset or anything but a plain number below 2^31. */
static int64_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    return *end || errno || value > INT32_MAX ? -1 : (int64_t)value;
}

/* A batch script is no task of srun's, though SLURM_PROCID is 0 in it, and in all that it starts but by srun. Steps that
   are no srun have numbers beyond 2^31. */
static bool in_batch_script(void)
{
    return text_in("SLURM_TASK_PID") && number_in("SLURM_STEP_ID") < 0;
}

static bool by_torchrun(void)
{
    return text_in("TORCHELASTIC_RUN_ID") && number_in("RANK") >= 0;
}

/* What was launched is its node's daemon, from which all workers have inherited that; Ray Train sets RANK in each. */
static bool by_ray(void)
{
    return text_in("RAY_RAYLET_PID") != NULL;
}

/* What srun or the batch system started is itself a launcher, whose processes have inherited SLURM_PROCID. */
static bool launched_inside_slurm(void)
{
    int64_t pmi = number_in("PMI_RANK"); /* srun sets it too, to the same number */
    return by_torchrun() || number_in("OMPI_COMM_WORLD_RANK") >= 0 || (pmi >= 0 && pmi != number_in("SLURM_PROCID"));
}

static void read_launcher(struct lp_launch *launch)
{
    launch->rank = launch->world_size = -1;
    for (size_t i = in_batch_script() || launched_inside_slurm(); i < sizeof launchers / sizeof *launchers; i++) {
        launch->rank = by_ray() && &launchers[i] != torchrun ? -1 : number_in(launchers[i].rank);
        if (launch->rank < 0)
            continue;
        launch->launcher = launchers[i].name;
        launch->world_size = number_in(launchers[i].world_size);
        if (launch->world_size == 0)
            launch->world_size = -1;
        return;
    }
}

static void read_batch(struct lp_launch *launch)
{
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const char *id = text_in(batches[i].id);
        if (!id)
            continue;
        launch->job_system = batches[i].name;
        snprintf(launch->job_id, sizeof launch->job_id, "%s", id);
        break;
    }
    const char *array = text_in("SLURM_ARRAY_JOB_ID"), *task = text_in("SLURM_ARRAY_TASK_ID");
    if (launch->job_system == batches[0].name && array && task)
        snprintf(launch->job_id, sizeof launch->job_id, "%s_%s", array, task);
}

static void name_by_hash(struct lp_launch *launch, const char *launcher, struct lp_sha256 *hash)
{
    char hex[LP_SHA256_HEX];
    lp_sha256_hex(hash, hex);
    snprintf(launch->name, sizeof launch->name, "%s-%.*s", launcher, DIGITS, hex);
}

static bool name_hashed(struct lp_launch *launch, const char *first, const char *second)
{
    struct lp_sha256 hash;
    if (!first || !second)
        return false;
    lp_sha256_init(&hash);
    lp_sha256_add(&hash, first, strlen(first) + 1);
    lp_sha256_add(&hash, second, strlen(second));
    name_by_hash(launch, "mpirun", &hash);
    return true;
}

/* Up to Open MPI 4, mpirun makes a random key. After that it has a name made of host and pid, which may come again: in a
   container that is started anew. Its port makes it unique where all processes have the same server, and the job where
   there is one. */
static void name_of_mpirun(struct lp_launch *launch)
{
    const char *namespace = text_in("PMIX_NAMESPACE");
    if (number_in("OMPI_COMM_WORLD_SIZE") < 2 ||
        name_hashed(launch, text_in("OMPI_MCA_orte_precondition_transports"), "") ||
        (launch->job_system && name_hashed(launch, namespace, launch->job_id)))
        return;
    if (number_in("OMPI_COMM_WORLD_LOCAL_SIZE") == number_in("OMPI_COMM_WORLD_SIZE"))
        name_hashed(launch, namespace, text_in("PMIX_SERVER_URI2"));
}

/* Of a shell that srun was asked for (--pty) any number of programs are started, one after the other. */
static void name_of_step(struct lp_launch *launch)
{
    int64_t step = number_in("SLURM_STEP_ID"), restarts = number_in("SLURM_RESTART_COUNT");
    if (launch->job_system != batches[0].name || step < 0 || number_in("SLURM_STEP_NUM_TASKS") < 2 ||
        text_in("SLURM_PTY_PORT") || strlen(launch->job_id) > sizeof launch->name / 2)
        return;
    int len = snprintf(launch->name, sizeof launch->name, "slurm-%s.%lld", launch->job_id, (long long)step);
    if (restarts > 0)
        snprintf(launch->name + len, sizeof launch->name - (size_t)len, "-restart%lld", (long long)restarts);
}

/* The end of text up to which it names one torchrun; NULL if it does not. */
static const char *end_of_folder(const char *error_file)
{
    static const char level[] = "/attempt_";
    const char *found = NULL;
    for (const char *next = error_file; next && (next = strstr(next, level)); next += strlen(level))
        found = next;
    return found;
}

/* Its id is "none" and its port the same each time unless somebody says otherwise. But each torchrun makes a folder with
   a random name, in which its ranks are to leave their errors. Torchruns on several nodes have one each; what they have
   in common may come again, unless a step of srun holds them together. */
static void name_of_torchrun(struct lp_launch *launch)
{
    const char *error_file = text_in("TORCHELASTIC_ERROR_FILE"), *end = end_of_folder(error_file);
    int64_t attempt = number_in("TORCHELASTIC_RESTART_COUNT");
    if (number_in("GROUP_WORLD_SIZE") == 1 && end) {
        struct lp_sha256 hash;
        lp_sha256_init(&hash);
        lp_sha256_add(&hash, error_file, (size_t)(end - error_file));
        name_by_hash(launch, "torchrun", &hash);
    } else {
        name_of_step(launch);
    }
    size_t len = strlen(launch->name);
    if (len > 0 && attempt > 0)
        snprintf(launch->name + len, sizeof launch->name - len, "-attempt%lld", (long long)attempt);
}

static void read_name(struct lp_launch *launch)
{
    int64_t pmi = number_in("PMI_RANK");
    if (number_in("OMPI_COMM_WORLD_RANK") >= 0)
        name_of_mpirun(launch);
    else if (by_torchrun())
        name_of_torchrun(launch);
    else if (pmi < 0 || pmi == number_in("SLURM_PROCID"))
        name_of_step(launch);
}

void lp_launch_read(struct lp_launch *launch)
{
    memset(launch, 0, sizeof *launch);
    read_launcher(launch);
    read_batch(launch);
    read_name(launch);
    launch->may_be_mpi = number_in("OMPI_COMM_WORLD_SIZE") > 1 || number_in("PMI_SIZE") > 1 ||
                         (number_in("SLURM_STEP_ID") >= 0 && number_in("SLURM_STEP_NUM_TASKS") > 1);
}

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

/* What srun or the batch system started is itself a launcher, whose processes have inherited SLURM_PROCID. */
static bool launched_inside_slurm(void)
{
    int64_t pmi = number_in("PMI_RANK"); /* srun sets it too, to the same number */
    return (text_in("TORCHELASTIC_RUN_ID") && number_in("RANK") >= 0) || number_in("OMPI_COMM_WORLD_RANK") >= 0 ||
           (pmi >= 0 && pmi != number_in("SLURM_PROCID"));
}

static void read_launcher(struct lp_launch *launch)
{
    launch->rank = launch->world_size = -1;
    for (size_t i = in_batch_script() || launched_inside_slurm(); i < sizeof launchers / sizeof *launchers; i++) {
        launch->rank = number_in(launchers[i].rank);
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

static bool name_hashed(struct lp_launch *launch, const char *first, const char *second)
{
    char hex[LP_SHA256_HEX];
    struct lp_sha256 hash;
    if (!first || !second)
        return false;
    lp_sha256_init(&hash);
    lp_sha256_add(&hash, first, strlen(first) + 1);
    lp_sha256_add(&hash, second, strlen(second));
    lp_sha256_hex(&hash, hex);
    snprintf(launch->name, sizeof launch->name, "mpirun-%.*s", DIGITS, hex);
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

static void read_name(struct lp_launch *launch)
{
    int64_t pmi = number_in("PMI_RANK");
    if (number_in("OMPI_COMM_WORLD_RANK") >= 0)
        name_of_mpirun(launch);
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

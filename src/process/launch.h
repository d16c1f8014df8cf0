/*
 * process/launch: what started this process together with others - Slurm, mpirun, torchrun - and in which batch job.
 *
 * Read from the environment; what is not there is left empty, never guessed. One launcher may run inside of another's
 * job: mpirun in a batch script of Slurm, torchrun in each task of srun. Then the variables of both are there, and the
 * inner one knows the rank.
 *
 * A launch has a name that all its processes find by themselves, so that they can join one run with nothing said. It
 * must never come again: two launches under one name would be added up. So it is made of what is unique for sure, and
 * is empty where nothing is.
 *
 * Must not know: runs.
 */
#ifndef LP_PROCESS_LAUNCH_H
#define LP_PROCESS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct lp_launch {
    const char *launcher;     /* Static; NULL: none. */
    int64_t rank, world_size; /* -1: none */
    const char *job_system;   /* Static; NULL: none. */
    char job_id[256];         /* of a job array's task as Slurm shows it: "77_3" */
    char name[128];           /* "slurm-77.0", "slurm-77.0-restart1", "mpirun-4c960ae7f728",
                                 "torchrun-4c960ae7f728", "torchrun-4c960ae7f728-attempt1"; "": none */
    bool may_be_mpi;          /* one of several processes that may have called MPI_Init */
};

void lp_launch_read(struct lp_launch *launch);

#endif

/*
 * patient: work that a file server may hold up for ever, done in a thread of its own and waited for while it moves on.
 *
 * Who comes last frees: what nobody waits for any more is released by its thread, should that ever come back.
 */
#ifndef LP_RUN_PATIENT_H
#define LP_RUN_PATIENT_H

#include <stdbool.h>
#include <stddef.h>

#define LP_PATIENCE_S 3

struct lp_patient_work {
    void (*act)(void *task, void *patient); /* in a thread of its own; patient is for lp_patient_step */
    void (*release)(void *task);            /* of a task that the caller has given up */
    void *task;
    void (*progress)(void *context, size_t done, size_t total); /* may be NULL; called in the caller's thread */
    void *progress_context;
};

/* True: it is done, and the task the caller's again. False: for LP_PATIENCE_S it has told of no step and used no CPU time,
   and the task is the thread's. Where there is no memory for a thread, the caller does the work and waits for it. */
bool lp_patient_do(const struct lp_patient_work *work);

/* The work has moved on. */
void lp_patient_step(void *patient, size_t done, size_t total);

#endif

#include "run/patient.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SOME_CPU_NS 1000000u /* more than a thread takes that wakes up now and then to go on waiting */

struct patient {
    void (*act)(void *task, void *patient);
    void (*release)(void *task);
    void *task;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* Guarded by lock. */
    clockid_t cpu;
    bool began, finished, given_up;
    size_t steps, done, total;
};

static void free_patient(struct patient *patient)
{
    pthread_cond_destroy(&patient->moved);
    pthread_mutex_destroy(&patient->lock);
    free(patient);
}

static void *run(void *argument)
{
    struct patient *patient = argument;
    pthread_mutex_lock(&patient->lock);
    patient->began = pthread_getcpuclockid(pthread_self(), &patient->cpu) == 0;
    pthread_mutex_unlock(&patient->lock);
    patient->act(patient->task, patient);
    pthread_mutex_lock(&patient->lock);
    patient->finished = true;
    bool given_up = patient->given_up;
    pthread_cond_signal(&patient->moved);
    pthread_mutex_unlock(&patient->lock);
    if (given_up) {
        patient->release(patient->task);
        free_patient(patient);
    }
    return NULL;
}

void lp_patient_step(void *argument, size_t done, size_t total)
{
    struct patient *patient = argument;
    if (!patient)
        return;
    pthread_mutex_lock(&patient->lock);
    patient->steps++;
    patient->done = done;
    patient->total = total;
    pthread_cond_signal(&patient->moved);
    pthread_mutex_unlock(&patient->lock);
}

static struct patient *make(const struct lp_patient_work *work)
{
    pthread_condattr_t attributes;
    struct patient *patient = calloc(1, sizeof *patient);
    if (!patient)
        return NULL;
    patient->act = work->act;
    patient->release = work->release;
    patient->task = work->task;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&patient->moved, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&patient->lock, NULL);
    return patient;
}

/* Signals are the program's own threads' to handle. */
static bool start(struct patient *patient)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, run, patient) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

static uint64_t cpu_ns(const struct patient *patient)
{
    struct timespec cpu;
    if (!patient->began || clock_gettime(patient->cpu, &cpu) != 0)
        return 0;
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

static struct timespec deadline(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LP_PATIENCE_S;
    return until;
}

/* With the lock held. */
static void wait_for(struct patient *patient, const struct lp_patient_work *work)
{
    struct timespec until = deadline();
    uint64_t used_ns = 0, now_ns;
    size_t seen = 0;
    while (!patient->finished && !patient->given_up) {
        int error = pthread_cond_timedwait(&patient->moved, &patient->lock, &until);
        if (patient->steps != seen) {
            size_t done = patient->done, total = patient->total;
            seen = patient->steps;
            pthread_mutex_unlock(&patient->lock);
            if (work->progress && total > 0)
                work->progress(work->progress_context, done, total);
            pthread_mutex_lock(&patient->lock);
            until = deadline();
        } else if (error == ETIMEDOUT && !patient->finished) {
            now_ns = cpu_ns(patient);
            patient->given_up = now_ns < used_ns + SOME_CPU_NS;
            used_ns = now_ns;
            until = deadline();
        }
    }
}

bool lp_patient_do(const struct lp_patient_work *work)
{
    struct patient *patient = make(work);
    if (!patient || !start(patient)) {
        if (patient)
            free_patient(patient);
        work->act(work->task, NULL);
        return true;
    }
    pthread_mutex_lock(&patient->lock);
    wait_for(patient, work);
    bool finished = patient->finished;
    pthread_mutex_unlock(&patient->lock);
    if (finished)
        free_patient(patient);
    return finished;
}

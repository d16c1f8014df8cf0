/*
 * fault: why a document was refused, as one line such as
 *     threads[2].nodes[17].wall_ns: negative
 * The place is put together from the inside out: who finds the fault says what is wrong and where within its own part,
 * and each caller sets its own part before it. Long lines are cut, control characters (which a broken file may bring
 * into a message) become blanks.
 */
#ifndef LP_RUN_FAULT_H
#define LP_RUN_FAULT_H

#include <stdbool.h>

#define LP_RUN_FAULT_SIZE 256

struct lp_run_fault {
    char text[LP_RUN_FAULT_SIZE]; /* Printable ASCII, for what comes out of a file. */
    bool no_memory;               /* Not the document's fault: the whole reading has to end. */
};

/* Both return -1, to be handed on by the caller. */
int lp_run_fault_set(struct lp_run_fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));
int lp_run_fault_within(struct lp_run_fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));
int lp_run_fault_no_memory(struct lp_run_fault *fault);

#endif

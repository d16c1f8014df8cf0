/* merged_tree() and deltas(): a worker's own state as plain objects, out of which lineprofiler/tree.py makes a Tree. */
#include <errno.h>
#include <stdlib.h>

#include "python/module.h"

int lpy_read_worker(struct lp_run_reading *reading, struct lp_worker *worker, char message[LPY_READING_MESSAGE])
{
    size_t len = 0;
    char *document = worker ? lp_worker_document(worker, &len) : NULL;
    message[0] = '\0';
    if (document == NULL && worker && errno == ENOMEM)
        return -1;
    int status = lp_run_reading_parse(reading, document, len, message, LPY_READING_MESSAGE);
    free(document);
    return status;
}

static int read_state(struct lp_run_reading *reading, struct lpy_recorder *self)
{
    char message[LPY_READING_MESSAGE];
    PyThreadState *thread = PyEval_SaveThread();
    int status = lpy_read_worker(reading, self->worker, message);
    PyEval_RestoreThread(thread);
    if (status < 0 && message[0])
        PyErr_Format(PyExc_RuntimeError, "the state of this worker contradicts itself: %s", message);
    else if (status < 0)
        PyErr_NoMemory();
    return status;
}

PyObject *lpy_merged_tree(struct lpy_recorder *self)
{
    struct lp_run_reading reading;
    if (read_state(&reading, self) < 0)
        return NULL;
    PyObject *pairs = lpy_tree_pairs(reading.tree);
    lp_run_reading_release(&reading);
    return pairs;
}

/* Several threads may read at once; the GIL orders what they hand out, and a reading that was overtaken gives nothing. */
PyObject *lpy_deltas(struct lpy_recorder *self)
{
    struct lp_run_reading reading;
    if (read_state(&reading, self) < 0)
        return NULL;
    struct lp_run_phase *interval = lp_run_reading_advance(&self->cursor, &reading);
    if (interval == NULL)
        return PyErr_NoMemory();
    PyObject *pairs = lpy_interval_pairs(interval);
    lp_run_phase_free(interval);
    return pairs;
}

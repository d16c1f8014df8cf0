/* Two run directories compared, as the JSON of `lineprofiler compare --json`; lineprofiler/compare.py makes its classes
   out of it. */
#include "analysis/compare.h"

#include <errno.h>

#include "base/emit.h"
#include "python/module.h"
#include "report/compare.h"

struct comparison {
    const char *dirs[2], *run_ids[2]; /* Borrowed; a run id may be NULL. */
    double fail_over;
    struct lp_buffer json; /* Owned. */
    char message[2048];
    size_t failed; /* Which directory. */
    int status, error;
};

static void write_json(struct comparison *comparison, struct lp_run *const runs[2])
{
    struct lp_compare *compare = NULL;
    struct lp_report_sink sink;
    lp_report_sink_init(&sink, lp_buffer_put, &comparison->json);
    if (lp_compare_make(&compare, runs[0], runs[1], comparison->fail_over) != 0 ||
        lp_report_compare_json(compare, NULL, &sink) != 0)
        comparison->status = LP_RUN_SYSTEM;
    lp_compare_free(compare);
}

/* Without the interpreter. */
static void compare(struct comparison *comparison)
{
    struct lp_run *runs[2] = {NULL, NULL};
    for (size_t i = 0; i < 2 && comparison->status == LP_RUN_OK; i++) {
        const struct lp_run_options options = {.no_samples = true, .run_id = comparison->run_ids[i]};
        errno = 0;
        comparison->failed = i;
        comparison->status =
            lp_run_load(&runs[i], comparison->dirs[i], &options, comparison->message, sizeof comparison->message);
        comparison->error = errno;
    }
    if (comparison->status == LP_RUN_OK)
        write_json(comparison, runs);
    lp_run_free(runs[0]);
    lp_run_free(runs[1]);
}

PyObject *lpy_compare_runs(PyObject *module, PyObject *args)
{
    PyObject *a = NULL, *b = NULL, *run_ids[2], *result = NULL;
    struct comparison comparison = {.status = LP_RUN_OK};
    if (!PyArg_ParseTuple(args, "O&O&dOO:compare_runs", PyUnicode_FSConverter, (void *)&a, PyUnicode_FSConverter,
                          (void *)&b, &comparison.fail_over, &run_ids[0], &run_ids[1]) ||
        lpy_take_run_id(run_ids[0], &comparison.run_ids[0]) < 0 ||
        lpy_take_run_id(run_ids[1], &comparison.run_ids[1]) < 0) {
        Py_XDECREF(a);
        Py_XDECREF(b);
        return NULL;
    }
    comparison.dirs[0] = PyBytes_AS_STRING(a);
    comparison.dirs[1] = PyBytes_AS_STRING(b);
    PyThreadState *thread = PyEval_SaveThread();
    compare(&comparison);
    PyEval_RestoreThread(thread);
    if (comparison.status == LP_RUN_OK)
        result = PyUnicode_DecodeUTF8(comparison.json.bytes, (Py_ssize_t)comparison.json.len, "strict");
    else if (comparison.message[0] == '\0')
        PyErr_NoMemory();
    else
        lpy_raise_load(module, comparison.status, comparison.error, comparison.message,
                       comparison.dirs[comparison.failed]);
    free(comparison.json.bytes);
    Py_DECREF(a);
    Py_DECREF(b);
    return result;
}

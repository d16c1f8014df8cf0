#include "lines/engine.h"

/* Small enough to take no millisecond, and short enough that some of the repetitions are not interrupted. */
#define TURNS 50
#define REPETITIONS 9
#define LINES_OF_A_TURN 4
#define LINES_OF_A_CALL 3

static const char source[] = "def lines(n):\n"
                             "    for _ in range(n):\n"
                             "        a = n\n"
                             "        b = n\n"
                             "        c = n\n"
                             "def calls(n):\n"
                             "    for _ in range(n):\n"
                             "        one()\n"
                             "def one():\n"
                             "    pass\n";

/* The fastest of some calls; -1 with an exception. */
static int64_t fastest(PyObject *function)
{
    int64_t best = INT64_MAX;
    PyObject *turns = PyLong_FromLong(TURNS);
    for (int i = 0; turns && i < REPETITIONS; i++) {
        uint64_t from_ns = lp_wall_ns();
        PyObject *result = PyObject_CallOneArg(function, turns);
        int64_t took_ns = (int64_t)(lp_wall_ns() - from_ns);
        if (!result) {
            best = -1;
            break;
        }
        Py_DECREF(result);
        best = took_ns < best ? took_ns : best;
    }
    Py_XDECREF(turns);
    return turns ? best : -1;
}

static PyObject *run_source(void)
{
    PyObject *names = PyDict_New(), *done = NULL;
    PyObject *code = Py_CompileString(source, LP_LINES_OWN_FILE, Py_file_input);
    if (names && code)
        done = PyEval_EvalCode(code, names, names);
    Py_XDECREF(code);
    if (!done)
        Py_CLEAR(names);
    Py_XDECREF(done);
    return names;
}

/* A signal's handler may raise in the middle, and what else runs may fork, which ends the session. */
static int measure(const struct lp_lines_probe *probe, struct lp_lines_costs *took)
{
    PyObject *names = Py_NewRef(probe->names);
    PyObject *lines = PyDict_GetItemString(names, "lines"), *calls = PyDict_GetItemString(names, "calls");
    bool done = lines && calls && (took->line_q8 = fastest(lines)) >= 0 && (took->call_q8 = fastest(calls)) >= 0;
    Py_DECREF(names);
    return done ? 0 : -1;
}

int lp_lines_costs_begin(struct lp_lines_probe *probe)
{
    probe->names = run_source();
    return probe->names ? measure(probe, &probe->without) : -1;
}

int lp_lines_costs_end(struct lp_lines_probe *probe, struct lp_lines_costs *costs)
{
    struct lp_lines_costs with, without = probe->without;
    if (measure(probe, &with) < 0)
        return -1;
    int64_t line_q8 = (with.line_q8 - without.line_q8) * 256 / (TURNS * LINES_OF_A_TURN);
    int64_t call_q8 = (with.call_q8 - without.call_q8) * 256 / TURNS - LINES_OF_A_CALL * line_q8;
    costs->line_q8 = line_q8 > 0 ? line_q8 : 0;
    costs->call_q8 = call_q8 > 0 ? call_q8 / 2 : 0;
    return 0;
}

void lp_lines_costs_free(struct lp_lines_probe *probe)
{
    Py_CLEAR(probe->names);
}

#include <stdlib.h>
#include <string.h>

#include "lines/engine.h"

/* More lines than this no function has; a generator of code may number them as it likes. */
#define LINES_MOST 2000000
#define COROUTINES (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)

#if PY_VERSION_HEX >= 0x030C0000
#define request_index PyUnstable_Eval_RequestCodeExtraIndex
#define get_extra PyUnstable_Code_GetExtra
#define set_extra PyUnstable_Code_SetExtra
#else
#define request_index _PyEval_RequestCodeExtraIndex
#define get_extra _PyCode_GetExtra
#define set_extra _PyCode_SetExtra
#endif

static Py_ssize_t extra_index = -1;

/* What hangs on the code object: to hang up another thing there would free the first. */
struct holder {
    struct lp_lines_code *first; /* One for each engine that knows it. */
};

/* --- what a code object has been --- */

static void free_code(struct lp_lines_code *known)
{
    while (known->tables) {
        struct lp_lines_table *table = known->tables;
        known->tables = table->next;
        free(table);
    }
    Py_XDECREF(known->file);
    Py_XDECREF(known->name);
    Py_XDECREF(known->bytes);
    free(known->line_of_unit);
    free(known);
}

static void take_out(struct lp_lines_engine *engine, struct lp_lines_code *known)
{
    struct lp_lines_code **link = &engine->codes;
    while (*link != known)
        link = &(*link)->next;
    *link = known->next;
}

static bool is_alike(const struct lp_lines_code *a, const struct lp_lines_code *b)
{
    return a->first_line == b->first_line && a->base_line == b->base_line && a->n_lines == b->n_lines &&
           PyUnicode_Compare(a->file, b->file) == 0 && PyUnicode_Compare(a->name, b->name) == 0;
}

static void rest(struct lp_lines_code *known);

/* Code that is compiled again and again leaves one record, not one for each time. */
static bool fold_into_alike(struct lp_lines_code *known)
{
    for (struct lp_lines_code *other = known->engine->codes; other; other = other->next) {
        if (other->code || other == known || !other->inside || !is_alike(other, known))
            continue;
        struct lp_lines_table **end = &other->tables;
        while (*end)
            end = &(*end)->next;
        *end = known->tables;
        known->tables = NULL;
        rest(other);
        return true;
    }
    return false;
}

/* The code object goes; what was measured stays. */
static void gone(void *extra)
{
    struct holder *holder = extra; /* NULL: somebody else has hung something on the code, and we have not. */
    for (struct lp_lines_code *known = holder ? holder->first : NULL, *next; known; known = next) {
        struct lp_lines_engine *engine = known->engine;
        next = known->next_of_code;
        for (struct lp_lines_thread *thread = engine->threads; thread; thread = thread->next)
            lp_lines_stack_forget(&thread->stack, known->code);
        if (lp_lines_seen_of(engine, known->code)->code == known->code)
            lp_lines_seen_of(engine, known->code)->code = NULL;
        lp_lines_waits_forget(&engine->waits, known->code);
        known->code = NULL;
        known->next_of_code = NULL;
        free(known->line_of_unit);
        known->line_of_unit = NULL;
        known->n_units = 0;
        Py_CLEAR(known->bytes);
        rest(known);
        if (known->tables && !known->hidden && !fold_into_alike(known))
            continue;
        take_out(engine, known);
        free_code(known);
    }
    free(holder);
}

/* --- what a code object is --- */

/* Calls for each stretch of code units of one line: first and past the last unit, line. -1 with an exception. */
static int each_stretch(PyCodeObject *code, void (*call)(struct lp_lines_code *, int, int, int),
                        struct lp_lines_code *known)
{
    PyObject *lines = PyObject_CallMethod((PyObject *)code, "co_lines", NULL), *item;
    if (!lines)
        return -1;
    while ((item = PyIter_Next(lines)) != NULL) {
        PyObject *line;
        int from, to;
        int ok = PyArg_ParseTuple(item, "iiO", &from, &to, &line);
        long number = ok && line != Py_None ? PyLong_AsLong(line) : 0;
        if (ok && number > 0 && number <= INT32_MAX)
            call(known, from / LP_LINES_UNIT_BYTES, to / LP_LINES_UNIT_BYTES, (int)number);
        Py_DECREF(item);
        if (!ok)
            break;
    }
    Py_DECREF(lines);
    return PyErr_Occurred() ? -1 : 0;
}

static void measure(struct lp_lines_code *known, int from, int to, int line)
{
    uint32_t end = known->n_lines ? (uint32_t)known->base_line + known->n_lines : 0;
    (void)from;
    if (!known->n_lines || line < known->base_line)
        known->base_line = line;
    if ((uint32_t)line + 1 > end)
        end = (uint32_t)line + 1;
    known->n_lines = end - (uint32_t)known->base_line;
    if ((uint32_t)to > known->n_units)
        known->n_units = (uint32_t)to;
}

static void note(struct lp_lines_code *known, int from, int to, int line)
{
    for (int unit = from; unit < to; unit++)
        known->line_of_unit[unit] = (uint32_t)(line - known->base_line);
}

static int read_lines(struct lp_lines_code *known)
{
    if (each_stretch(known->code, measure, known) < 0)
        return -1;
    if (known->n_lines == 0 || known->n_lines > LINES_MOST) {
        known->inside = false;
        return 0;
    }
    known->line_of_unit = malloc(known->n_units * sizeof *known->line_of_unit);
    if (!known->line_of_unit)
        return -1;
    memset(known->line_of_unit, 0xff, known->n_units * sizeof *known->line_of_unit);
    return each_stretch(known->code, note, known);
}

static bool judge_file(struct lp_lines_engine *engine, PyObject *file)
{
    PyObject *verdict = PyDict_GetItemWithError(engine->verdicts, file);
    if (verdict || PyErr_Occurred())
        return verdict == Py_True;
    PyObject *name = PyUnicode_EncodeFSDefault(file);
    bool is_name = name && strlen(PyBytes_AS_STRING(name)) == (size_t)PyBytes_GET_SIZE(name);
    bool inside = is_name && lp_lines_filter_file(&engine->filter, PyBytes_AS_STRING(name));
    Py_XDECREF(name);
    if (name && PyDict_SetItem(engine->verdicts, file, inside ? Py_True : Py_False) == 0)
        return inside;
    PyErr_Clear(); /* a name that is none of a file */
    return inside;
}

static bool judge(struct lp_lines_engine *engine, const struct lp_lines_code *known)
{
    if (!judge_file(engine, known->file))
        return false;
    if (engine->filter.functions.n == 0)
        return true;
    PyObject *name = PyUnicode_AsEncodedString(known->name, "utf-8", "surrogatepass");
    bool inside = name && lp_lines_filter_function(&engine->filter, PyBytes_AS_STRING(name));
    Py_XDECREF(name);
    PyErr_Clear();
    return inside;
}

static struct holder *holder_of(PyCodeObject *code)
{
    void *extra = NULL;
    if (get_extra((PyObject *)code, extra_index, &extra) < 0)
        PyErr_Clear();
    return extra;
}

static struct holder *hang_up(PyCodeObject *code)
{
    struct holder *holder = calloc(1, sizeof *holder);
    if (holder && set_extra((PyObject *)code, extra_index, holder) == 0)
        return holder;
    free(holder);
    return NULL;
}

static struct lp_lines_code *make(struct lp_lines_engine *engine, PyCodeObject *code)
{
    struct lp_lines_code *known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    known->engine = engine;
    known->code = code;
    known->file = PyUnicode_FromObject(code->co_filename); /* that of a subclass may compare as it likes */
    known->name = PyUnicode_FromObject(code->co_qualname);
    if (!known->file || !known->name) {
        free_code(known);
        return NULL;
    }
    known->first_line = code->co_firstlineno;
    known->waits = (code->co_flags & COROUTINES) != 0;
    known->hidden = PyUnicode_CompareWithASCIIString(code->co_filename, LP_LINES_OWN_FILE) == 0;
    known->inside = known->hidden || judge(engine, known);
    lp_lines_room(LP_LINES_ROOM);
    int failed = known->inside ? read_lines(known) : 0;
    lp_lines_room(-LP_LINES_ROOM);
    if (!failed)
        return known;
    free_code(known);
    return NULL;
}

static struct lp_lines_code *find_out(struct lp_lines_engine *engine, PyCodeObject *code, struct holder *holder)
{
    int collects = PyGC_Disable(); /* whom it frees, and whom it calls, may do with the engine as they like */
    struct lp_lines_code *known = make(engine, code);
    if (collects)
        PyGC_Enable();
    if (known && !holder)
        holder = hang_up(code);
    if (!known || !holder) {
        if (known)
            free_code(known);
        PyErr_Clear();
        lp_lines_stop_recording(engine);
        return NULL;
    }
    known->next_of_code = holder->first;
    holder->first = known;
    known->next = engine->codes;
    engine->codes = known;
    return known;
}

static struct lp_lines_code *of_engine(const struct holder *holder, const struct lp_lines_engine *engine)
{
    struct lp_lines_code *known = holder ? holder->first : NULL;
    while (known && known->engine != engine)
        known = known->next_of_code;
    return known;
}

struct lp_lines_code *lp_lines_code_known(const struct lp_lines_engine *engine, PyCodeObject *code)
{
    return extra_index < 0 ? NULL : of_engine(holder_of(code), engine);
}

struct lp_lines_code *lp_lines_code_of(struct lp_lines_engine *engine, PyCodeObject *code)
{
    if (extra_index < 0 && (extra_index = request_index(gone)) < 0)
        return NULL;
    struct holder *holder = holder_of(code);
    struct lp_lines_code *known = of_engine(holder, engine);
    return known ? known : find_out(engine, code, holder);
}

struct lp_lines_code *lp_lines_code_see(struct lp_lines_thread *thread, PyCodeObject *code)
{
    struct lp_lines_engine *engine = thread->engine;
    struct lp_lines_code *known = lp_lines_code_known(engine, code);
    if (!known) {
        struct lp_reading from = lp_lines_work_begins(thread);
        known = lp_lines_code_of(engine, code);
        lp_lines_work_ends(thread, from);
    }
    if (!known)
        return NULL;
    *lp_lines_seen_of(engine, code) = (struct lp_lines_seen){code, known->inside ? known : NULL};
    return known->inside ? known : NULL;
}

/* --- tables --- */

struct lp_lines_table *lp_lines_table_of(struct lp_lines_code *code, const struct lp_lines_thread *thread)
{
    struct lp_lines_table **link = &code->tables, *table;
    while ((table = *link) != NULL && (table->thread != thread || table->region != thread->region))
        link = &table->next;
    if (LP_LIKELY(table == code->tables && table))
        return table;
    if (table)
        *link = table->next;
    else if ((table = lp_lines_table_new(code->base_line, code->n_lines)) == NULL)
        return NULL;
    table->thread = thread;
    table->region = thread->region;
    table->next = code->tables;
    code->tables = table;
    return table;
}

static void rest(struct lp_lines_code *known)
{
    struct lp_lines_table *tables = known->tables, *next;
    known->tables = NULL;
    for (struct lp_lines_table *table = tables; table; table = next) {
        struct lp_lines_table *sum = known->tables;
        next = table->next;
        while (sum && sum->region != table->region)
            sum = sum->next;
        if (sum) {
            lp_lines_table_add(sum, table);
            free(table);
        } else {
            table->thread = NULL;
            table->next = known->tables;
            known->tables = table;
        }
    }
}

void lp_lines_codes_rest(struct lp_lines_engine *engine)
{
    for (struct lp_lines_code *known = engine->codes; known; known = known->next)
        rest(known);
}

static void unhang(struct lp_lines_code *known)
{
    struct lp_lines_code **link = &holder_of(known->code)->first;
    while (*link != known)
        link = &(*link)->next_of_code;
    *link = known->next_of_code;
}

void lp_lines_codes_judge_anew(struct lp_lines_engine *engine, PyObject *file)
{
    struct lp_lines_code **link = &engine->codes, *known;
    if (PyDict_DelItem(engine->verdicts, file) < 0)
        PyErr_Clear(); /* nothing was said */
    memset(engine->seen, 0, sizeof engine->seen);
    while ((known = *link) != NULL) {
        if (PyUnicode_Compare(known->file, file) != 0) {
            link = &known->next;
            continue;
        }
        *link = known->next;
        if (known->code)
            unhang(known);
        free_code(known);
    }
}

void lp_lines_codes_free(struct lp_lines_engine *engine)
{
    memset(engine->seen, 0, sizeof engine->seen);
    while (engine->codes) {
        struct lp_lines_code *known = engine->codes;
        engine->codes = known->next;
        if (known->code)
            unhang(known);
        free_code(known);
    }
}

/* A run directory as plain objects: dicts, tuples, numbers and texts, out of which lineprofiler/run.py makes its classes. */
#include "run/run.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "python/module.h"

#define MESSAGE_SIZE 2048

static PyObject *from_text(const struct lp_text *text)
{
    return lpy_text(text->bytes ? text->bytes : "", text->len);
}

static PyObject *from_path(const char *path)
{
    return PyUnicode_DecodeFSDefault(path ? path : "");
}

/* One line for people, whatever its bytes. */
static PyObject *from_line(const char *line)
{
    return PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
}

static PyObject *from_optional(const char *text)
{
    if (text == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static PyObject *from_optional_text(const struct lp_text *text)
{
    if (text->bytes == NULL || text->len == 0)
        Py_RETURN_NONE;
    return from_text(text);
}

/* -1: none */
static PyObject *from_rank(int64_t rank)
{
    if (rank < 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(rank);
}

/* A tuple of what make(elements, i) returns. */
static PyObject *make_tuple(const void *elements, size_t n, PyObject *(*make)(const void *elements, size_t i))
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *element = make(elements, i);
        if (element == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, element);
    }
    return tuple;
}

static PyObject *from_hist(const struct lp_hist *hist)
{
    PyObject *dict = PyDict_New();
    for (unsigned bucket = 0; dict && bucket < LP_HIST_BUCKETS; bucket++) {
        uint64_t count = lp_hist_bucket(hist, bucket);
        if (count == 0)
            continue;
        PyObject *key = PyLong_FromUnsignedLong(bucket);
        PyObject *value = PyLong_FromUnsignedLongLong(count);
        if (key == NULL || value == NULL || PyDict_SetItem(dict, key, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *from_known(bool known, int64_t value)
{
    if (!known)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(value);
}

static PyObject *make_counter(const void *elements, size_t i)
{
    const struct lp_run_counter *counter = (const struct lp_run_counter *)elements + i;
    bool known = counter->min <= counter->max;
    return Py_BuildValue("(NLKNNN)", from_text(&counter->name), (long long)counter->sum,
                         (unsigned long long)counter->calls, from_known(known, counter->min),
                         from_known(known, counter->max), PyBool_FromLong(counter->saturated));
}

static PyObject *from_phase(const struct lp_run_phase *phase)
{
    PyObject *cpu_ns = phase->cpu_known ? PyLong_FromUnsignedLongLong(phase->cpu_ns) : Py_NewRef(Py_None);
    PyObject *blocked_ns = from_known(phase->blocked_known, (int64_t)phase->blocked_ns);
    PyObject *preempted_ns = from_known(phase->preempted_known, (int64_t)phase->preempted_ns);
    const struct lp_run_device_time *device_time = phase->device_time;
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:K,s:K,s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:(KK),s:K,s:N,s:N,s:N,s:N,s:N}",
                         "gpu_calls", from_known(device_time, device_time ? (int64_t)device_time->calls : 0), "gpu_ns",
                         from_known(device_time, device_time ? (int64_t)device_time->ns : 0), "gpu_hist",
                         device_time ? from_hist(&device_time->hist) : Py_NewRef(Py_None), "async_work",
                         PyBool_FromLong(phase->async_work), "calls", (unsigned long long)phase->calls, "wall_ns",
                         (unsigned long long)phase->wall_ns, "cpu_ns", cpu_ns, "blocked_ns", blocked_ns, "preempted_ns",
                         preempted_ns, "nocpu_wall_ns", (unsigned long long)phase->nocpu_wall_ns, "child_wall_ns",
                         (unsigned long long)phase->child_wall_ns, "late_wall_ns",
                         (unsigned long long)phase->late_wall_ns, "open_calls", (unsigned long long)phase->open_calls,
                         "open_wall_ns", (unsigned long long)phase->open_wall_ns, "ended_wall_ns",
                         (unsigned long long)phase->ended_wall_ns, "stride", (unsigned long long)phase->stride_min,
                         (unsigned long long)phase->stride_max, "workers", (unsigned long long)phase->workers,
                         "estimated", PyBool_FromLong(phase->estimated), "saturated", PyBool_FromLong(phase->saturated),
                         "is_thread", PyBool_FromLong(phase->is_thread), "hist", from_hist(&phase->hist), "counters",
                         make_tuple(phase->counters, phase->n_counters, make_counter));
}

static int append_phase(PyObject *list, const struct lp_run_phase *phase, PyObject *path)
{
    PyObject *pair = Py_BuildValue("(ON)", path, from_phase(phase));
    int status = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    return status;
}

/* Appends (path, figures) for the phase and all below it, parents first. The reader bounds the depth. */
static int append_phases(PyObject *list, const struct lp_run_phase *phase, PyObject *path, bool with_idle)
{
    bool left_out = !with_idle && phase->parent && lp_run_phase_is_idle(phase);
    int status = left_out ? 0 : append_phase(list, phase, path);
    for (size_t i = 0; status == 0 && i < phase->n_children; i++) {
        const struct lp_run_phase *child = phase->children[i];
        PyObject *last = Py_BuildValue("(N)", from_text(&child->name));
        PyObject *below = last ? PySequence_Concat(path, last) : NULL;
        status = below ? append_phases(list, child, below, with_idle) : -1;
        Py_XDECREF(below);
        Py_XDECREF(last);
    }
    return status;
}

static PyObject *make_pairs(const struct lp_run_phase *root, bool with_idle)
{
    PyObject *list = PyList_New(0);
    PyObject *path = PyTuple_New(0);
    if (list == NULL || path == NULL || append_phases(list, root, path, with_idle) < 0)
        Py_CLEAR(list);
    Py_XDECREF(path);
    return list;
}

PyObject *lpy_tree_pairs(const struct lp_run_phase *root)
{
    return make_pairs(root, true);
}

PyObject *lpy_interval_pairs(const struct lp_run_phase *root)
{
    return make_pairs(root, false);
}

static PyObject *make_trouble(const void *elements, size_t i)
{
    const struct lp_run_trouble *trouble = (const struct lp_run_trouble *)elements + i;
    return Py_BuildValue("(NK)", from_text(&trouble->name), (unsigned long long)trouble->count);
}

static PyObject *make_open(const void *elements, size_t i)
{
    const struct lp_run_open *open = (const struct lp_run_open *)elements + i;
    return Py_BuildValue("(NNK)", from_text(&open->thread), from_text(&open->path), (unsigned long long)open->open_ns);
}

static PyObject *from_interval(double seconds)
{
    if (seconds < 0)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(seconds);
}

static PyObject *from_stamp(const struct lp_run_stamp *stamp)
{
    return Py_BuildValue("(KKK)", (unsigned long long)stamp->realtime_ns, (unsigned long long)stamp->monotonic_ns,
                         (unsigned long long)stamp->boottime_ns);
}

/* 0: not known */
static PyObject *from_unless_zero(uint64_t value)
{
    if (value == 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(value);
}

/* NaN: not known */
static PyObject *from_unless_nan(double value)
{
    if (value != value)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

static PyObject *from_machine(const struct lp_run_machine *machine)
{
    PyObject *memory_limit = machine->memory_limit_bytes == UINT64_MAX ? PyFloat_FromDouble(Py_HUGE_VAL)
                                                                       : from_unless_zero(machine->memory_limit_bytes);
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "cores", from_unless_zero(machine->cores), "cores_usable",
                         from_unless_zero(machine->cores_usable), "cores_usable_list",
                         from_optional_text(&machine->usable_list), "cpu_limit_cores",
                         from_unless_nan(machine->cpu_limit_cores), "ram_bytes", from_unless_zero(machine->ram_bytes),
                         "memory_limit_bytes", memory_limit, "kernel", from_optional_text(&machine->kernel),
                         "cpu_model", from_optional_text(&machine->cpu_model));
}

static PyObject *make_device(const void *elements, size_t i)
{
    const struct lp_run_device *device = (const struct lp_run_device *)elements + i;
    return Py_BuildValue("(KNNNNN)", (unsigned long long)device->index, from_optional_text(&device->name),
                         from_optional_text(&device->uuid),
                         from_known(device->memory_bytes != UINT64_MAX, (int64_t)device->memory_bytes),
                         from_optional(device->state), from_optional(device->own));
}

static PyObject *make_worker(const void *elements, size_t i)
{
    static const char *const sources[] = {
        [LP_SOURCE_FILE] = "file", [LP_SOURCE_LIVE_IMAGE] = "live", [LP_SOURCE_DEAD_IMAGE] = "dead"};
    const struct lp_run_worker *worker = (const struct lp_run_worker *)elements + i;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:L,s:L,s:N,s:N,s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:N,s:N,"
        "s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:s,s:N,s:N,s:N,s:N,s:N}",
        "name", from_text(&worker->worker), "index", from_rank(worker->index), "run_id", from_text(&worker->run_id),
        "role", from_text(&worker->role), "host", from_text(&worker->host), "job_id",
        from_optional_text(&worker->job_id), "runtime", from_optional_text(&worker->runtime), "job_system",
        from_optional(worker->job_system), "launcher", from_optional(worker->launcher), "boot_id",
        from_optional(worker->boot_id), "library", from_optional(worker->library), "wall_clock",
        from_optional(worker->wall_clock), "cpu_clock", from_optional(worker->cpu_clock), "path",
        from_path(worker->path), "pid", (long long)worker->pid, "parent_pid", (long long)worker->parent_pid, "rank",
        from_rank(worker->rank), "world_size", from_rank(worker->world_size), "started", from_stamp(&worker->started),
        "written", from_stamp(&worker->written), "snapshot_interval_s", from_interval(worker->snapshot_interval_s),
        "flush", (unsigned long long)worker->flush, "threads", (unsigned long long)worker->threads, "root_wall_ns",
        (unsigned long long)worker->root_wall_ns, "silent_ns", (unsigned long long)worker->silent_ns, "closed",
        PyBool_FromLong(worker->closed), "ended", PyBool_FromLong(worker->ended), "end_signal",
        from_rank(worker->signal), "exit_status", from_rank(worker->exit_status), "measure_cpu",
        PyBool_FromLong(worker->measure_cpu), "private_image", PyBool_FromLong(worker->private_image),
        "run_id_generated", PyBool_FromLong(worker->run_id_generated), "stale", PyBool_FromLong(worker->stale), "gpus",
        make_tuple(worker->devices, worker->n_devices, make_device), "source", sources[worker->source], "troubles",
        make_tuple(worker->troubles, worker->n_troubles, make_trouble), "open",
        make_tuple(worker->open, worker->n_open, make_open), "machine", from_machine(&worker->machine),
        "peak_rss_bytes", from_unless_zero(worker->peak_rss_bytes), "pss_bytes", from_unless_zero(worker->pss_bytes));
}

static PyObject *make_index(const void *elements, size_t i)
{
    return PyLong_FromSize_t(((const size_t *)elements)[i]);
}

static PyObject *make_role(const void *elements, size_t i)
{
    const struct lp_run_role *role = (const struct lp_run_role *)elements + i;
    return Py_BuildValue("(NNNd)", from_text(&role->name), lpy_tree_pairs(role->tree),
                         make_tuple(role->workers, role->n_workers, make_index), role->imbalance);
}

static PyObject *make_text(const void *elements, size_t i)
{
    return from_text((const struct lp_text *)elements + i);
}

static PyObject *make_unreadable(const void *elements, size_t i)
{
    const struct lp_run_unreadable *unreadable = (const struct lp_run_unreadable *)elements + i;
    return Py_BuildValue("(NN)", from_path(unreadable->path), from_line(unreadable->reason));
}

static PyObject *make_superseded(const void *elements, size_t i)
{
    const struct lp_run_superseded *superseded = (const struct lp_run_superseded *)elements + i;
    return Py_BuildValue("(NnnKKNN)", from_text(&superseded->run_id), (Py_ssize_t)superseded->n_workers,
                         (Py_ssize_t)superseded->n_unreadable, (unsigned long long)superseded->started_realtime_ns,
                         (unsigned long long)superseded->written_realtime_ns, PyBool_FromLong(superseded->generated),
                         PyBool_FromLong(superseded->later));
}

static PyObject *make_caveat(const void *elements, size_t i)
{
    const struct lp_run_caveat *caveat = (const struct lp_run_caveat *)elements + i;
    return Py_BuildValue("(sN)", caveat->kind, from_line(caveat->text));
}

static PyObject *from_run(const struct lp_run *run)
{
    return Py_BuildValue("{s:n,s:N,s:N,s:K,s:K,s:K,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "left_out",
                         (Py_ssize_t)run->filtered.n_left_out, "dir", from_path(run->dir), "run_id",
                         from_text(&run->run_id), "started_ns", (unsigned long long)run->started_realtime_ns,
                         "written_ns", (unsigned long long)run->written_realtime_ns, "runtime_ns",
                         (unsigned long long)run->runtime_ns, "live", PyBool_FromLong(run->live), "tree",
                         lpy_tree_pairs(run->tree), "roles", make_tuple(run->roles, run->n_roles, make_role), "workers",
                         make_tuple(run->workers, run->n_workers, make_worker), "hosts",
                         make_tuple(run->hosts, run->n_hosts, make_text), "unreadable",
                         make_tuple(run->unreadable, run->n_unreadable, make_unreadable), "superseded",
                         make_tuple(run->superseded, run->n_superseded, make_superseded), "caveats",
                         make_tuple(run->caveats, run->n_caveats, make_caveat), "metadata",
                         from_optional(run->metadata), "usage", lpy_run_usage(run));
}

/* OSError adds the path at the end, so it need not stand in the message. A new reference. */
static PyObject *without_path(PyObject *message, PyObject *path)
{
    static const char *const formats[] = {" '%U'", "'%U' "};
    PyObject *result = Py_NewRef(message), *nothing = PyUnicode_FromString("");
    for (size_t i = 0; i < sizeof formats / sizeof *formats && result && nothing; i++) {
        PyObject *quoted = PyUnicode_FromFormat(formats[i], path);
        Py_SETREF(result, quoted ? PyUnicode_Replace(result, quoted, nothing, 1) : NULL);
        Py_XDECREF(quoted);
    }
    if (nothing == NULL)
        Py_CLEAR(result);
    Py_XDECREF(nothing);
    return result;
}

void lpy_raise_os_error(int error, PyObject *message, PyObject *path)
{
    bool has_path = path != NULL && PyUnicode_Check(path);
    PyObject *text = has_path ? without_path(message, path) : Py_NewRef(message);
    PyObject *exception =
        text ? PyObject_CallFunction(PyExc_OSError, "iOO", error, text, has_path ? path : Py_None) : NULL;
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(text);
}

/* OSError, or RunError where the directory is there but holds nothing to report. */
static void raise_load(struct lpy_state *state, int status, int error, const char *message, PyObject *path)
{
    PyObject *text = PyUnicode_DecodeFSDefault(message);
    if (text == NULL)
        return;
    if (status == LP_RUN_EMPTY || status == LP_RUN_NOTHING) {
        PyErr_SetObject(state->run_error, text);
    } else if (status == LP_RUN_UNKNOWN || status == LP_RUN_WRONG) {
        PyErr_SetObject(status == LP_RUN_UNKNOWN ? PyExc_LookupError : PyExc_ValueError, text);
    } else {
        lpy_raise_os_error(error, text, path);
    }
    Py_DECREF(text);
}

static int error_of(int status, int error, const char *dir)
{
    struct stat st;
    if (status != LP_RUN_MISSING)
        return error ? error : EIO;
    return stat(dir, &st) == 0 && !S_ISDIR(st.st_mode) ? ENOTDIR : ENOENT;
}

void lpy_raise_load(PyObject *module, int status, int error, const char *message, const char *dir)
{
    PyObject *path = PyUnicode_DecodeFSDefault(dir);
    if (path)
        raise_load(lpy_state_of(module), status, error_of(status, error, dir), message, path);
    Py_XDECREF(path);
}

/* ---- the filter: each kind a tuple of bytes, borrowed while they are read ---- */

static int take_values(PyObject *tuple, const char ***values, size_t *n)
{
    size_t size = (size_t)PyTuple_GET_SIZE(tuple);
    *values = PyMem_Calloc(size + 1, sizeof(const char *));
    if (*values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        char *text;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(tuple, (Py_ssize_t)i), &text, NULL) < 0) /* refuses a NUL */
            return -1;
        (*values)[(*n)++] = text;
    }
    return 0;
}

static void release_values(struct lp_run_filter *filter)
{
    PyMem_Free((void *)filter->roles);
    PyMem_Free((void *)filter->hosts);
    PyMem_Free((void *)filter->ranks);
}

static PyObject *load_run(PyObject *module, const char *dir, const struct lp_run_options *options)
{
    PyObject *result = NULL;
    char message[MESSAGE_SIZE] = "";
    struct lp_run *run = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    errno = 0;
    int status = lp_run_load(&run, dir, options, message, sizeof message);
    int error = errno;
    PyEval_RestoreThread(thread);
    if (status == LP_RUN_OK)
        result = from_run(run);
    else
        lpy_raise_load(module, status, error, message, dir);
    lp_run_free(run);
    return result;
}

int lpy_take_run_id(PyObject *wanted, const char **run_id)
{
    char *bytes = NULL;
    if (wanted != Py_None && PyBytes_AsStringAndSize(wanted, &bytes, NULL) < 0)
        return -1;
    *run_id = bytes;
    return 0;
}

PyObject *lpy_load_run(PyObject *module, PyObject *args)
{
    PyObject *bytes = NULL, *roles, *hosts, *ranks, *wanted_run, *result = NULL;
    int with_samples;
    if (!PyArg_ParseTuple(args, "O&pO!O!O!O:load_run", PyUnicode_FSConverter, (void *)&bytes, &with_samples,
                          &PyTuple_Type, &roles, &PyTuple_Type, &hosts, &PyTuple_Type, &ranks, &wanted_run))
        return NULL;
    const char *run_id = NULL;
    struct lp_run_filter filter = {0};
    if (lpy_take_run_id(wanted_run, &run_id) == 0 && take_values(roles, &filter.roles, &filter.n_roles) == 0 &&
        take_values(hosts, &filter.hosts, &filter.n_hosts) == 0 &&
        take_values(ranks, &filter.ranks, &filter.n_ranks) == 0)
        result = load_run(module, PyBytes_AS_STRING(bytes),
                          &(struct lp_run_options){.no_samples = !with_samples, .filter = &filter, .run_id = run_id});
    release_values(&filter);
    Py_DECREF(bytes);
    return result;
}

/* {bucket: count} */
static int read_hist(PyObject *dict, uint64_t counts[LP_HIST_BUCKETS])
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        long bucket = PyLong_AsLong(key);
        unsigned long long count = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred())
            return -1;
        if (bucket < 0 || bucket >= LP_HIST_BUCKETS) {
            PyErr_Format(PyExc_ValueError, "there is no bucket %ld", bucket);
            return -1;
        }
        counts[bucket] = count;
    }
    return 0;
}

PyObject *lpy_hist_quantile(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dict;
    double q;
    uint64_t counts[LP_HIST_BUCKETS] = {0};
    struct lp_hist hist;
    if (!PyArg_ParseTuple(args, "O!d:hist_quantile", &PyDict_Type, &dict, &q) || read_hist(dict, counts) < 0)
        return NULL;
    for (unsigned i = 0; i < LP_HIST_OCTAVES; i++)
        hist.octaves[i] = counts + (size_t)i * (LP_HIST_BUCKETS / LP_HIST_OCTAVES);
    return PyFloat_FromDouble(lp_hist_quantile(&hist, q));
}

PyObject *lpy_hist_bounds(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long bucket = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (bucket >= LP_HIST_BUCKETS)
        return PyErr_Format(PyExc_ValueError, "there is no bucket %lu", bucket);
    return Py_BuildValue("(KK)", (unsigned long long)lp_hist_bucket_begin((unsigned)bucket),
                         (unsigned long long)lp_hist_bucket_width((unsigned)bucket));
}

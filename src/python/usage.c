/* What a run used besides time, as plain objects, out of which lineprofiler/usage.py makes its classes. */
#include "analysis/usage.h"

#include <math.h>

#include "python/module.h"

/* None for what was not measured. */
static PyObject *from_count(uint64_t count)
{
    if (count == UINT64_MAX)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(count);
}

static PyObject *from_real(double value)
{
    if (isnan(value))
        Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

/* Whole bytes, of sums that may be too large for 64 bits. */
static PyObject *from_bytes(double value)
{
    if (isnan(value))
        Py_RETURN_NONE;
    return PyLong_FromDouble(value);
}

static PyObject *from_flows(const double values[LP_RUN_FLOWS])
{
    return Py_BuildValue("(NNNN)", from_bytes(values[LP_READ_CHARS]), from_bytes(values[LP_WRITE_CHARS]),
                         from_bytes(values[LP_READ_BYTES]), from_bytes(values[LP_WRITE_BYTES]));
}

static PyObject *from_rates(const double values[LP_RUN_FLOWS])
{
    return Py_BuildValue("(NNNN)", from_real(values[LP_READ_CHARS]), from_real(values[LP_WRITE_CHARS]),
                         from_real(values[LP_READ_BYTES]), from_real(values[LP_WRITE_BYTES]));
}

static PyObject *from_moved(const struct lp_run_moved *moved)
{
    return Py_BuildValue(
        "(KKKK)", (unsigned long long)moved->flow[LP_READ_CHARS], (unsigned long long)moved->flow[LP_WRITE_CHARS],
        (unsigned long long)moved->flow[LP_READ_BYTES], (unsigned long long)moved->flow[LP_WRITE_BYTES]);
}

/* --- the run --- */

static PyObject *from_io(const struct lp_run *run)
{
    struct lp_analysis_io io = {0};
    PyObject *result;
    if (lp_analysis_io(&io, run) != 0)
        return PyErr_NoMemory();
    if (io.intervals == 0)
        result = Py_NewRef(Py_None);
    else
        result =
            Py_BuildValue("{s:N,s:N,s:N,s:N,s:K,s:K,s:s,s:N}", "moved", from_flows(io.total), "cached_bytes",
                          from_bytes(io.cached_bytes), "mean_per_s", from_rates(io.mean_per_s), "peak_per_s",
                          from_rates(io.peak_per_s), "intervals", (unsigned long long)io.intervals, "dropped_intervals",
                          (unsigned long long)io.dropped, "layer", io.layer == LP_LAYER_BYTES ? "bytes" : "chars",
                          "unphased_share", from_real(io.unphased_share));
    free(io.shares);
    return result;
}

static PyObject *from_device(const struct lp_run *run, const struct lp_run_gpu *gpu)
{
    const struct lp_text *host = &run->hosts[gpu->host];
    return Py_BuildValue("{s:N,s:I,s:N,s:N,s:N,s:N,s:n}", "host", lpy_text(host->bytes, host->len), "index",
                         (unsigned)gpu->index, "busy_share", from_real(gpu->busy_share), "own_share",
                         from_real(gpu->own_share), "used_peak_bytes", from_count(gpu->used_peak_bytes),
                         "own_peak_bytes", from_count(gpu->own_peak_bytes), "workers", (Py_ssize_t)gpu->n_workers);
}

static int append(PyObject *list, PyObject *element)
{
    int status = element ? PyList_Append(list, element) : -1;
    Py_XDECREF(element);
    return status;
}

static PyObject *from_devices(const struct lp_run *run)
{
    PyObject *list = PyList_New(0);
    size_t n = run->sampling ? run->sampling->n_gpus : 0;
    for (size_t i = 0; list && i < n; i++)
        if (append(list, from_device(run, &run->sampling->gpus[i])) < 0)
            Py_CLEAR(list);
    return list;
}

/* --- roles --- */

static PyObject *path_of(const struct lp_run_phase *phase)
{
    PyObject *names = PyList_New(0);
    for (; names && phase->parent; phase = phase->parent)
        if (append(names, lpy_text(phase->name.bytes, phase->name.len)) < 0)
            Py_CLEAR(names);
    if (names && PyList_Reverse(names) < 0)
        Py_CLEAR(names);
    PyObject *path = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return path;
}

static PyObject *from_sampled(const struct lp_run_sampled *sampled)
{
    static const char *const kinds[] = {
        [LP_SAMPLED_PHASE] = "phase", [LP_SAMPLED_NONE_OPEN] = "none_open", [LP_SAMPLED_UNKNOWN] = "unknown"};
    const struct lp_run_busy *busy = sampled->busy;
    return Py_BuildValue(
        "{s:s,s:N,s:N,s:K,s:K,s:K,s:L,s:K,s:N,s:N,s:N,s:N}", "kind", kinds[sampled->kind], "path",
        sampled->phase ? path_of(sampled->phase) : Py_NewRef(Py_None), "moved", from_moved(&sampled->moved),
        "cached_bytes", (unsigned long long)lp_run_cached(&sampled->moved), "intervals",
        (unsigned long long)sampled->intervals, "intervals_ns", (unsigned long long)sampled->intervals_ns,
        "rss_growth_bytes", (long long)sampled->rss_growth_bytes, "gpu_samples",
        (unsigned long long)(busy ? lp_run_busy_total(busy) : 0), "gpu_busy_p50",
        from_real(busy ? lp_run_busy_quantile(busy, 0.5) : NAN), "gpu_busy_p95",
        from_real(busy ? lp_run_busy_quantile(busy, 0.95) : NAN), "gpu_memory_peak_bytes",
        from_count(sampled->gpu_peak_bytes), "gpu_device_memory_peak_bytes",
        from_count(sampled->gpu_device_peak_bytes));
}

static PyObject *from_memory(const struct lp_run *run, const struct lp_run_role *role)
{
    struct lp_analysis_memory memory = {0};
    lp_analysis_memory(&memory, run, role);
    if (memory.n_workers == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("{s:n,s:N,s:N,s:N,s:N,s:n,s:N}", "workers", (Py_ssize_t)memory.n_workers, "current_bytes",
                         from_bytes(memory.current_bytes), "peak_bytes", from_bytes(memory.peak_bytes), "growth_bytes",
                         from_bytes(memory.growth_bytes), "trend_bytes_per_h", from_real(memory.trend_per_h),
                         "trend_workers", (Py_ssize_t)memory.n_trends, "pss_bytes", from_bytes(memory.pss_bytes));
}

static PyObject *from_role(const struct lp_run *run, const struct lp_run_role *role)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < role->n_sampled; i++)
        if (append(list, from_sampled(&role->sampled[i])) < 0)
            Py_CLEAR(list);
    return Py_BuildValue("(NN)", from_memory(run, role), list);
}

static PyObject *from_roles(const struct lp_run *run)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < run->n_roles; i++)
        if (append(list, from_role(run, &run->roles[i])) < 0)
            Py_CLEAR(list);
    return list;
}

/* --- workers --- */

static PyObject *from_level(const struct lp_run_level *level)
{
    if (level->n == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(KKKK)", (unsigned long long)level->first, (unsigned long long)level->last,
                         (unsigned long long)level->least, (unsigned long long)level->peak);
}

static PyObject *from_sum(const struct lp_run_sum *sum)
{
    return from_count(sum->intervals.used ? sum->sum : UINT64_MAX);
}

static PyObject *from_worker_moved(const struct lp_run_io *io)
{
    double values[LP_RUN_FLOWS];
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        values[flow] = io->intervals[lp_run_layer_of((enum lp_run_flow)flow)].used ? (double)io->moved.flow[flow] : NAN;
    return from_flows(values);
}

static PyObject *from_intervals(const struct lp_run_intervals *intervals)
{
    return Py_BuildValue("(KK)", (unsigned long long)intervals->used,
                         (unsigned long long)lp_run_intervals_dropped(intervals));
}

static PyObject *from_worker(const struct lp_run_samples *samples)
{
    if (samples == NULL)
        Py_RETURN_NONE;
    const struct lp_run_io *io = &samples->io;
    return Py_BuildValue(
        "{s:K,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "rows",
        (unsigned long long)samples->rows, "moved", from_worker_moved(io), "cached_bytes",
        from_count(io->moved.paired > 0 ? lp_run_cached(&io->moved) : UINT64_MAX), "chars_intervals",
        from_intervals(&io->intervals[LP_LAYER_CHARS]), "bytes_intervals",
        from_intervals(&io->intervals[LP_LAYER_BYTES]), "mean_cores", from_real(lp_run_samples_cores(samples)),
        "heaviest_cores", from_real(samples->cpu_heaviest_cores), "minor_faults", from_sum(&samples->minor_faults),
        "major_faults", from_sum(&samples->major_faults), "voluntary_switches", from_sum(&samples->voluntary_switches),
        "involuntary_switches", from_sum(&samples->involuntary_switches), "run_delay_ns",
        from_sum(&samples->run_delay_ns), "threads", from_level(&samples->threads), "open_files",
        from_level(&samples->open_files), "rss_bytes", from_level(&samples->rss_bytes), "rss_trend_bytes_per_h",
        from_real(lp_run_trend_slope(&samples->rss_trend) * 3600), "cuda_allocated_bytes",
        from_level(&samples->cuda_allocated_bytes), "cuda_reserved_bytes", from_level(&samples->cuda_reserved_bytes));
}

static PyObject *from_workers(const struct lp_run *run)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < run->n_workers; i++)
        if (append(list, from_worker(run->workers[i].samples)) < 0)
            Py_CLEAR(list);
    return list;
}

PyObject *lpy_run_usage(const struct lp_run *run)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N}", "io", from_io(run), "gpus", from_devices(run), "roles", from_roles(run),
                         "workers", from_workers(run));
}

/* The search as an extension module of Python. Everything that knows Python is here. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lineprofiler_python.h>

#include <lineprofiler.hpp>

#include <cstring>
#include <memory>
#include <new>

#include "search.hpp"

namespace {

/* While this lives, Python is not ours, and its other threads run. */
class WithoutGil {
  public:
    WithoutGil() : state_(PyEval_SaveThread())
    {
    }
    ~WithoutGil()
    {
        PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil &) = delete;

  private:
    PyThreadState *state_;
};

/* While this lives, Python is ours: on the thread that called the search as on those that Python has never seen. */
class WithGil {
  public:
    WithGil() : state_(PyGILState_Ensure())
    {
    }
    ~WithGil()
    {
        PyGILState_Release(state_);
    }
    WithGil(const WithGil &) = delete;

  private:
    PyGILState_STATE state_;
};

struct Release {
    void operator()(PyObject *object) const
    {
        Py_DECREF(object);
    }
};
using Object = std::unique_ptr<PyObject, Release>; /* Owned, and released with the GIL held. */

/* A Python exception on its way through C++, from whichever thread, to the caller of search(). */
class PythonError {
  public:
    /* Takes the exception that is set. */
    PythonError()
    {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        if (traceback)
            PyException_SetTraceback(value, traceback);
        Py_XDECREF(traceback);
        Py_XDECREF(type);
        exception_ = std::shared_ptr<PyObject>(value, [](PyObject *object) {
            WithGil gil;
            Py_XDECREF(object);
        });
    }
    void set() const
    {
        PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception_.get())), exception_.get());
    }

  private:
    std::shared_ptr<PyObject> exception_;
};

PyObject *must(PyObject *object)
{
    if (!object)
        throw PythonError();
    return object;
}

/* The bytes of an object of this many T. */
template <typename T> std::vector<T> read(PyObject *object, std::size_t count)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_C_CONTIGUOUS) < 0)
        throw PythonError();
    std::vector<T> items(count);
    bool fits = static_cast<std::size_t>(buffer.len) == count * sizeof(T);
    if (fits && count > 0)
        std::memcpy(items.data(), buffer.buf, count * sizeof(T));
    PyBuffer_Release(&buffer);
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "expected %zu bytes", count * sizeof(T));
        throw PythonError();
    }
    return items;
}

template <typename T> PyObject *bytes_of(const std::vector<T> &items)
{
    return must(PyBytes_FromStringAndSize(reinterpret_cast<const char *>(items.data()),
                                          static_cast<Py_ssize_t>(items.size() * sizeof(T))));
}

/* Asks a function of Python's. Called without the GIL. */
std::vector<Verdict> ask(PyObject *function, const std::vector<Position> &positions)
{
    static const lp::name wait_for_gil{"wait_for_gil"};
    lp::phase waiting{wait_for_gil};
    WithGil gil;
    waiting.leave();

    Object question(bytes_of(positions));
    Object answer(must(PyObject_CallOneArg(function, question.get())));
    static_assert(sizeof(Verdict) == (COLUMNS + 1) * sizeof(float), "no gaps between the rows of an answer");
    return read<Verdict>(answer.get(), positions.size());
}

std::vector<Evaluate> evaluators_of(PyObject *functions)
{
    std::vector<Evaluate> evaluators;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions); i++) {
        PyObject *function = PyTuple_GET_ITEM(functions, i); /* Borrowed: the caller has the tuple. */
        evaluators.push_back([function](const std::vector<Position> &positions) { return ask(function, positions); });
    }
    return evaluators;
}

PyObject *search_of(PyObject *roots, PyObject *functions, int simulations, PyObject *noise)
{
    std::size_t games = static_cast<std::size_t>(PyBytes_GET_SIZE(roots)) / sizeof(Position);
    std::vector<Position> positions = read<Position>(roots, games);
    std::vector<Policy> rows = noise == Py_None ? std::vector<Policy>() : read<Policy>(noise, games);
    std::vector<Evaluate> evaluators = evaluators_of(functions);
    std::vector<Policy> visits;
    {
        WithoutGil released;
        visits = search(positions, evaluators, simulations, rows);
    }
    return bytes_of(visits);
}

PyObject *search_method(PyObject *, PyObject *arguments)
{
    PyObject *roots, *functions, *noise;
    int simulations;
    if (!PyArg_ParseTuple(arguments, "SO!iO:search", &roots, &PyTuple_Type, &functions, &simulations, &noise))
        return nullptr;
    if (PyTuple_GET_SIZE(functions) == 0 || simulations < 0) {
        PyErr_SetString(PyExc_ValueError, "there must be an evaluator, and no fewer than 0 simulations");
        return nullptr;
    }
    try {
        return search_of(roots, functions, simulations, noise);
    } catch (const PythonError &error) {
        error.set();
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    } catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

PyMethodDef methods[] = {
    {"search", search_method, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_search", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit__search(void)
{
    if (lp_import() < 0)
        PyErr_Clear(); /* The search works without a profiler too: every function of it does nothing then. */
    return PyModule_Create(&module);
}

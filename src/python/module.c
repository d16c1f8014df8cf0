#include <Python.h>

#include <lineprofiler.h>

#include "cli/cli.h"

static PyObject *core_cli(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "O!:cli", &PyList_Type, &list))
        return NULL;
    char *argv[64];
    int argc = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && argc < 63; i++) {
        const char *text = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
        if (text == NULL)
            return NULL;
        argv[argc++] = (char *)(uintptr_t)text;
    }
    argv[argc] = NULL;
    return PyLong_FromLong(lp_cli_main(argc, argv));
}

static int core_exec(PyObject *module)
{
    return PyModule_AddStringConstant(module, "__version__", lp_version());
}

static PyMethodDef core_methods[] = {
    {"cli", core_cli, METH_VARARGS, "Run one command line; return its exit status."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, (void *)core_exec},
    {0, NULL},
};

static struct PyModuleDef core_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "lineprofiler._core",
    .m_size = 0,
    .m_methods = core_methods,
    .m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses of the library as exceptions: stoker.Error, and below it those that are Python's, too.
 */
#include <stdio.h>

#include "native.h"

/* X(name, base, doc): the classes besides Error. */
static const struct {
    const char *name, *doc;
    stk_status statuses[8];
    PyObject **base;
} classes[] = {
    {"stoker.InvalidError",
     "An option or an argument is not allowed; the text says what is.",
     {STK_EINVAL, STK_EMISMATCH},
     &PyExc_ValueError},
    {"stoker.NotFoundError",
     "There is no such file, folder or object.",
     {STK_ENOENT},
     &PyExc_FileNotFoundError},
    {"stoker.AccessError",
     "A file or an object may not be read.",
     {STK_EACCES},
     &PyExc_PermissionError},
    {"stoker.StorageError",
     "Reading or writing failed.",
     {STK_EIO, STK_ETRUNCATED, STK_ECHANGED, STK_ENOSPC, STK_EEXIST, STK_ESYSTEM},
     &PyExc_OSError},
    {"stoker.DataError",
     "A sample or a file is damaged, beyond a limit, or of a kind that is not read.",
     {STK_EFORMAT, STK_ELIMIT, STK_ECHECKSUM, STK_EBADSAMPLES, STK_EKIND},
     &PyExc_ValueError},
    {"stoker.TimedOutError",
     "No batch within the option `timeout`.",
     {STK_ETIMEDOUT},
     &PyExc_TimeoutError},
    {"stoker.NoMemoryError",
     "The system or the option `memory_budget` has not enough memory.",
     {STK_ENOMEM, STK_EBUDGET},
     &PyExc_MemoryError},
};

/* What one has that is raised with a text alone is that of its class: its first status. */
static int add_class(PyObject *module, size_t i)
{
    PyObject *bases = PyTuple_Pack(2, stk_py.error, *classes[i].base);
    PyObject *has = Py_BuildValue("{ss}", "status", stk_status_name(classes[i].statuses[0]));
    PyObject *made = bases && has
                         ? PyErr_NewExceptionWithDoc(classes[i].name, classes[i].doc, bases, has)
                         : NULL;
    int failed = !made || PyModule_AddObjectRef(module, classes[i].name + sizeof "stoker", made);

    for (size_t k = 0; !failed && k < sizeof classes[i].statuses / sizeof(stk_status); k++)
        if (classes[i].statuses[k] != STK_OK)
            stk_py.errors[-classes[i].statuses[k]] = made; /* the module keeps it */
    Py_XDECREF(bases);
    Py_XDECREF(has);
    Py_XDECREF(made);
    return failed ? -1 : 0;
}

int stk_py_add_errors(PyObject *module)
{
    PyObject *has = Py_BuildValue("{sssssO}", "status", stk_status_name(STK_EINTERNAL), "key", "",
                                  "sample", Py_None);

    if (!has)
        return -1;
    stk_py.error = PyErr_NewExceptionWithDoc(
        "stoker.Error",
        "What the library says has failed. `status` is its name for it (\"STK_EIO\"); `sample` the "
        "index in the dataset and `key` the file, object or option, where there is one.",
        PyExc_Exception, has);
    Py_DECREF(has);
    if (!stk_py.error || PyModule_AddObjectRef(module, "Error", stk_py.error))
        return -1;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (add_class(module, i))
            return -1;
    return 0;
}

/* Set an attribute, whose reference it takes. */
static int put(PyObject *to, const char *name, PyObject *value)
{
    int failed = !value || PyObject_SetAttrString(to, name, value);

    Py_XDECREF(value);
    return failed;
}

/* The exception of a failure. New reference. */
static PyObject *exception_of(const stk_error *err)
{
    const char *text = err->text[0] ? err->text : stk_status_text(err->status);
    const size_t number = (size_t) - (int64_t)err->status;
    PyObject *type =
        number < sizeof stk_py.errors / sizeof *stk_py.errors ? stk_py.errors[number] : NULL;
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *made = NULL;

    type = type ? type : stk_py.error;
    if (message)
        made = PyObject_CallFunctionObjArgs(type, message, NULL);
    Py_XDECREF(message);
    if (made && (put(made, "status", PyUnicode_FromString(stk_status_name(err->status))) ||
                 put(made, "key",
                     PyUnicode_DecodeUTF8(err->key, (Py_ssize_t)strlen(err->key), "replace")) ||
                 put(made, "sample",
                     err->sample == STK_NO_SAMPLE ? (Py_INCREF(Py_None), Py_None)
                                                  : PyLong_FromUnsignedLongLong(err->sample))))
        Py_CLEAR(made);
    return made;
}

PyObject *stk_py_raise(const stk_error *err)
{
    PyObject *made = exception_of(err);

    if (made)
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_XDECREF(made);
    return NULL;
}

static stk_status status_of_name(const char *name)
{
    static const stk_status all[] = {
#define VALUE(name, value, fault, text) name,
        STK_STATUS_LIST(VALUE)
#undef VALUE
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(stk_status_name(all[i]), name) == 0)
            return all[i];
    return STK_EINTERNAL;
}

PyObject *stk_py_make_error(PyObject *module, PyObject *args)
{
    const char *name, *text, *key = "";
    unsigned long long sample = STK_NO_SAMPLE;
    stk_error err;

    if (!PyArg_ParseTuple(args, "ss|sK", &name, &text, &key, &sample))
        return NULL;
    stk_error_init(&err);
    err.status = status_of_name(name);
    err.sample = sample;
    snprintf(err.text, sizeof err.text, "%s", text);
    snprintf(err.key, sizeof err.key, "%s", key);
    return exception_of(&err);
}

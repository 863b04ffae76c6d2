/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that are all of one known form -> the columns of a batch, in one loop. */
#include "stack.h"

enum { MAX_COLUMNS = 16 };

/* A value of each sample, and where its rows go. */
typedef struct column {
    PyObject *key; /* of a dict; else the samples say where it is */
    PyObject *like;
    int kind;       /* 'a': arrays as `like`, whose buffer is `first`; else of numbers */
    Py_buffer first;
    char *to;
    Py_ssize_t size; /* of a row */
} column;

typedef struct form {
    PyObject *of; /* tuple, list or dict: exactly; None: a sample is its only value */
    Py_ssize_t count;
    column columns[MAX_COLUMNS];
} form;

static void form_end(form *f)
{
    while (f->count > 0) {
        const Py_ssize_t last = --f->count;
        if (f->columns[last].kind == 'a')
            PyBuffer_Release(&f->columns[last].first);
    }
}

/* -1: an exception. */
static int read_column(PyObject *from, const Py_buffer *target, Py_ssize_t rows, form *f)
{
    column *c = &f->columns[f->count];
    Py_ssize_t at, bytes;

    if (!PyArg_ParseTuple(from, "OCOn", &c->key, &c->kind, &c->like, &at))
        return -1;
    c->size = c->kind == '?' ? 1 : 8;
    if (c->kind == 'a') {
        if (PyObject_GetBuffer(c->like, &c->first, PyBUF_STRIDED_RO | PyBUF_FORMAT))
            return -1;
        c->size = c->first.len;
    }
    f->count++;
    if (__builtin_mul_overflow(c->size, rows, &bytes) || at < 0 || at > target->len ||
        bytes > target->len - at) {
        PyErr_SetString(PyExc_ValueError, "rows beyond their buffer");
        return -1;
    }
    c->to = (char *)target->buf + at;
    return 0;
}

static int read_form(PyObject *columns, const Py_buffer *target, Py_ssize_t rows, form *f)
{
    const Py_ssize_t count = PyTuple_Size(columns);

    if (count > MAX_COLUMNS || count == 0) {
        PyErr_Format(PyExc_ValueError, "%zd columns", count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_column(PyTuple_GetItem(columns, i), target, rows, f))
            return -1;
    return 0;
}

/* The value of a column, borrowed from the sample. NULL: there is none, and maybe an exception. */
static PyObject *value_of(PyObject *sample, const form *f, Py_ssize_t i)
{
    if (f->of == Py_None)
        return sample;
    if (PyTuple_Check(sample))
        return PyTuple_GetItem(sample, i);
    return PyList_Check(sample) ? PyList_GetItem(sample, i)
                                : PyDict_GetItemWithError(sample, f->columns[i].key);
}

static bool is_key(PyObject *key, PyObject *wanted)
{
    return key == wanted || (PyUnicode_CheckExact(key) && PyUnicode_CheckExact(wanted) &&
                             PyUnicode_Compare(key, wanted) == 0);
}

/* The first dict of a batch says which keys it has, and in which order. */
static bool has_keys(PyObject *first, const form *f)
{
    Py_ssize_t at = 0, i = 0;
    PyObject *key;

    if (PyDict_Size(first) != f->count)
        return false;
    while (PyDict_Next(first, &at, &key, NULL))
        if (!is_key(key, f->columns[i++].key))
            return false;
    return true;
}

static bool is_of(PyObject *sample, const form *f, Py_ssize_t row)
{
    if (f->of == Py_None)
        return true;
    if ((PyObject *)Py_TYPE(sample) != f->of)
        return false;
    return PyDict_Check(sample) ? row > 0 || has_keys(sample, f)
                                : PyObject_Size(sample) == f->count;
}

/* 1: the sample is in its row; 0: it is another kind of sample; -1: an exception. */
static int write_sample(PyObject *sample, const form *f, Py_ssize_t row)
{
    int done = is_of(sample, f, row);

    for (Py_ssize_t i = 0; done == 1 && i < f->count; i++) {
        const column *c = &f->columns[i];
        PyObject *value = value_of(sample, f, i);

        if (!value)
            return PyErr_Occurred() ? -1 : 0;
        Py_INCREF(value);
        char *to = c->to + row * c->size;
        done = c->kind != 'a' ? stk_py_write_number(value, c->kind, to)
               : Py_TYPE(value) != Py_TYPE(c->like)
                   ? 0
                   : stk_py_write_array(value, c->like, &c->first, to);
        Py_DECREF(value);
    }
    return done;
}

static PyObject *write_rows(PyObject *module, PyObject *args)
{
    PyObject *samples, *columns, *target;
    Py_buffer memory;
    form f = {.count = 0};
    int done = -1;

    if (!PyArg_ParseTuple(args, "O!OO!O", &PyList_Type, &samples, &f.of, &PyTuple_Type, &columns,
                          &target) ||
        PyObject_GetBuffer(target, &memory, PyBUF_WRITABLE))
        return NULL;
    if (read_form(columns, &memory, PyList_Size(samples), &f) == 0) {
        done = 1;
        for (Py_ssize_t row = 0; done == 1 && row < PyList_Size(samples); row++)
            done = write_sample(PyList_GetItem(samples, row), &f, row);
    }
    form_end(&f);
    PyBuffer_Release(&memory);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

/* ---- Samples of a dataset ---- */

/* What is read from memory soon, while the next sample is made. */
static void expect(PyObject *sample)
{
    if (!PyTuple_CheckExact(sample)) {
        stk_py_expect_array(sample);
        return;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(sample); i++)
        stk_py_expect_array(PyTuple_GetItem(sample, i));
}

static PyObject *fetch(PyObject *module, PyObject *args)
{
    PyObject *dataset, *indices, *samples;

    if (!PyArg_ParseTuple(args, "OO!O!", &dataset, &PyList_Type, &indices, &PyList_Type, &samples))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(indices); i++) {
        PyObject *index = Py_NewRef(PyList_GetItem(indices, i));
        PyObject *sample = PyObject_GetItem(dataset, index);

        Py_DECREF(index);
        if (!sample || PyList_Append(samples, sample)) {
            Py_XDECREF(sample);
            return NULL;
        }
        expect(sample);
        Py_DECREF(sample);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"write_rows", write_rows, METH_VARARGS,
     "write_rows($module, samples, form, columns, target, /)\n--\n\n"
     "Write the values of all samples, each a `form` (tuple, list or dict; None: the one value). A "
     "column is (key of a dict, kind, like, offset); kinds are 'a', arrays as `like`, and those of "
     "stack_numbers. False: a sample is something else."},
    {"fetch", fetch, METH_VARARGS,
     "fetch($module, dataset, indices, samples, /)\n--\n\n"
     "Append dataset[index] of each index."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_rows(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}

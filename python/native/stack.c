/* SPDX-License-Identifier: Apache-2.0 */
/* Values of many samples -> one array of a batch, where they are alike. */
#include "native.h"

/* Where rows go: from `at` up to `end`. */
typedef struct rows {
    Py_buffer target;
    char *at;
} rows;

static int rows_open(PyObject *target, Py_ssize_t offset, Py_ssize_t bytes, rows *out)
{
    if (PyObject_GetBuffer(target, &out->target, PyBUF_WRITABLE))
        return -1;
    if (offset < 0 || bytes < 0 || offset > out->target.len || bytes > out->target.len - offset) {
        PyBuffer_Release(&out->target);
        PyErr_SetString(PyExc_ValueError, "rows beyond their buffer");
        return -1;
    }
    out->at = (char *)out->target.buf + offset;
    return 0;
}

/* ---- Arrays ---- */

static bool alike(const Py_buffer *a, const Py_buffer *first)
{
    if (a->itemsize != first->itemsize || a->ndim != first->ndim || a->len != first->len ||
        strcmp(a->format, first->format) != 0)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != first->shape[i] || !a->strides || a->strides[i] < 0)
            return false;
    return true;
}

/* 1: its row is written; 0: it is not like the first; -1: an exception. */
static int write_array(PyObject *item, const Py_buffer *first, char *to)
{
    Py_buffer a;

    if (PyObject_GetBuffer(item, &a, PyBUF_STRIDED_RO | PyBUF_FORMAT)) {
        PyErr_Clear();
        return 0;
    }
    int done = alike(&a, first);
    if (done && PyBuffer_IsContiguous(&a, 'C'))
        memcpy(to, a.buf, (size_t)a.len);
    else if (done && PyBuffer_ToContiguous(to, &a, a.len, 'C'))
        done = -1;
    PyBuffer_Release(&a);
    return done;
}

static PyObject *stack_arrays(PyObject *module, PyObject *args)
{
    PyObject *items, *like, *target;
    Py_ssize_t offset;
    Py_buffer first;
    rows out;

    if (!PyArg_ParseTuple(args, "OOOn", &items, &like, &target, &offset))
        return NULL;
    const Py_ssize_t count = PySequence_Size(items);
    if (count < 0 || PyObject_GetBuffer(like, &first, PyBUF_STRIDED_RO | PyBUF_FORMAT))
        return NULL;
    Py_ssize_t bytes;
    int done = __builtin_mul_overflow(count, first.len, &bytes)
                   ? -1
                   : rows_open(target, offset, bytes, &out) + 1;
    if (done == 1) {
        for (Py_ssize_t i = 0; done == 1 && i < count; i++) {
            PyObject *item = PySequence_GetItem(items, i);
            done = item ? write_array(item, &first, out.at + i * first.len) : -1;
            Py_XDECREF(item);
        }
        PyBuffer_Release(&out.target);
    } else
        done = -1;
    PyBuffer_Release(&first);
    if (done < 0)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    return PyBool_FromLong(done);
}

/* ---- Numbers ---- */

/* 1, 0, -1 as above; the kinds are those of struct: 'q' int, 'd' float, '?' bool. */
static int write_number(PyObject *item, int kind, char *to)
{
    if (kind == 'q' && PyLong_CheckExact(item)) {
        int overflow;
        const int64_t value = PyLong_AsLongLongAndOverflow(item, &overflow);
        memcpy(to, &value, sizeof value);
        return !overflow;
    }
    if (kind == 'd' && PyFloat_CheckExact(item)) {
        const double value = PyFloat_AsDouble(item);
        memcpy(to, &value, sizeof value);
        return 1;
    }
    if (kind == '?' && (item == Py_True || item == Py_False)) {
        *to = item == Py_True;
        return 1;
    }
    return 0;
}

static PyObject *stack_numbers(PyObject *module, PyObject *args)
{
    PyObject *items, *target;
    Py_ssize_t offset;
    int kind;
    rows out;

    if (!PyArg_ParseTuple(args, "OCOn", &items, &kind, &target, &offset))
        return NULL;
    const Py_ssize_t count = PySequence_Size(items), size = kind == '?' ? 1 : 8;
    Py_ssize_t bytes;
    if (count < 0)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes))
        return PyErr_NoMemory();
    if (rows_open(target, offset, bytes, &out))
        return NULL;
    int done = 1;
    for (Py_ssize_t i = 0; done == 1 && i < count; i++) {
        PyObject *item = PySequence_GetItem(items, i);
        done = item ? write_number(item, kind, out.at + i * size) : -1;
        Py_XDECREF(item);
    }
    PyBuffer_Release(&out.target);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

/* ---- Memory ---- */

static PyObject *copy_memory(PyObject *module, PyObject *args)
{
    PyObject *target;
    Py_ssize_t offset, size;
    unsigned long long from;
    rows out;

    if (!PyArg_ParseTuple(args, "OnKn", &target, &offset, &from, &size) ||
        rows_open(target, offset, size, &out))
        return NULL;
    memcpy(out.at, (const void *)(uintptr_t)from, (size_t)size);
    PyBuffer_Release(&out.target);
    Py_RETURN_NONE;
}

/* splitmix64, of S. Vigna. */
static uint64_t mixed(uint64_t value)
{
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
    value = (value ^ value >> 27) * 0x94D049BB133111EBU;
    return value ^ value >> 31;
}

/* A seed of all numbers behind the first ones of a tuple. -1: an exception, if there is one. */
static uint64_t seed_of(PyObject *args, Py_ssize_t first)
{
    uint64_t seed = 0;

    for (Py_ssize_t i = first; i < PyTuple_Size(args); i++) {
        const uint64_t number = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(args, i));
        if (number == UINT64_MAX && PyErr_Occurred())
            return UINT64_MAX;
        seed = mixed(seed ^ number);
    }
    return seed;
}

static void *address_at(PyObject *args, Py_ssize_t i)
{
    PyObject *one = PyTuple_GetItem(args, i);

    return one ? PyLong_AsVoidPtr(one) : NULL;
}

/* Two Mersenne twisters at their first word: init_genrand of M. Matsumoto and T. Nishimura,
 * mt19937ar.c. NumPy has its position behind the words, `random` before them. */
static PyObject *seed_twisters(PyObject *module, PyObject *args)
{
    enum { WORDS = 624 };
    uint32_t *numpy = address_at(args, 0);
    int32_t *spare = address_at(args, 1);
    uint32_t *python = address_at(args, 2);
    const uint64_t seed = PyErr_Occurred() ? 0 : seed_of(args, 3);

    if (PyErr_Occurred())
        return NULL;
    numpy[0] = (uint32_t)(seed >> 32);
    python[1] = (uint32_t)(mixed(seed) >> 32);
    for (uint32_t i = 1; i < WORDS; i++) {
        numpy[i] = 1812433253U * (numpy[i - 1] ^ numpy[i - 1] >> 30) + i;
        python[i + 1] = 1812433253U * (python[i] ^ python[i] >> 30) + i;
    }
    numpy[WORDS] = python[0] = WORDS;
    *spare = 0;
    return PyLong_FromUnsignedLong((unsigned long)(seed & UINT32_MAX));
}

static PyMethodDef functions[] = {
    {"stack_arrays", stack_arrays, METH_VARARGS,
     "stack_arrays($module, items, like, target, offset, /)\n--\n\n"
     "Write the values of arrays one behind the other; False where one is not as `like` is."},
    {"stack_numbers", stack_numbers, METH_VARARGS,
     "stack_numbers($module, items, kind, target, offset, /)\n--\n\n"
     "Write int ('q'), float ('d') or bool ('?'); False where one is something else."},
    {"copy_memory", copy_memory, METH_VARARGS,
     "copy_memory($module, target, offset, address, size, /)\n--\n\nCopy from an address."},
    {"seed_twisters", seed_twisters, METH_VARARGS,
     "seed_twisters($module, numpy, spare, random, /, *position)\n--\n\n"
     "Set the state of NumPy and of random, at these addresses, to what the position says: the "
     "seed for torch."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_stack(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}

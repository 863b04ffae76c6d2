/* SPDX-License-Identifier: Apache-2.0 */
/* Values of many samples -> one array of a batch, where they are alike. */
#include "stack.h"

int stk_py_rows_open(PyObject *target, Py_ssize_t offset, Py_ssize_t bytes, stk_py_rows *out)
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

/* The first fields of NumPy's arrays, PyArrayObject_fields of its ndarraytypes.h, which every
 * version of its binary interface has. A buffer of an array costs a text of its type each time. */
typedef struct ndarray {
    PyObject_HEAD
    char *data;
    int rank;
    Py_ssize_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
} ndarray;

enum { C_CONTIGUOUS = 1 };

/* The class whose objects have been seen to be so; NULL: none. */
static PyTypeObject *known_class;

/* Whether the class of an array is as above, seen by what NumPy says of this one. */
static PyObject *know_arrays(PyObject *module, PyObject *args)
{
    const ndarray *a;
    PyObject *array, *shape, *dtype;
    unsigned long long data;
    Py_ssize_t size;
    int flags;

    if (!PyArg_ParseTuple(args, "OnKO!Oi", &array, &size, &data, &PyTuple_Type, &shape, &dtype,
                          &flags))
        return NULL;
    a = (const ndarray *)array;
    bool known = size >= (Py_ssize_t)sizeof *a && (uintptr_t)a->data == data &&
                 a->rank == PyTuple_Size(shape) && a->dtype == dtype && a->flags == flags;
    for (int i = 0; known && i < a->rank; i++)
        known = a->shape[i] == PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    if (PyErr_Occurred())
        return NULL;
    known_class = known ? Py_TYPE(array) : NULL;
    Py_XINCREF((PyObject *)known_class);
    return PyBool_FromLong(known);
}

/* Whether it lies in one piece and is like the other one; false: its buffer says. */
static bool is_plain(PyObject *item, PyObject *like)
{
    const ndarray *a = (const ndarray *)item, *b = (const ndarray *)like;

    return Py_TYPE(item) == known_class && Py_TYPE(like) == known_class && a->dtype == b->dtype &&
           a->rank == b->rank && a->flags & C_CONTIGUOUS &&
           (a->rank == 0 || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0);
}

void stk_py_expect_array(PyObject *item)
{
    enum { LINE = 64, MOST = 4096 };
    const ndarray *a = (const ndarray *)item;

    if (Py_TYPE(item) != known_class || a->rank == 0 || !(a->flags & C_CONTIGUOUS))
        return;
    const Py_ssize_t size = a->strides[0] < MOST ? a->strides[0] * a->shape[0] : MOST;
    for (Py_ssize_t at = 0; at < size && at < MOST; at += LINE)
        __builtin_prefetch(a->data + at);
}

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

int stk_py_write_array(PyObject *item, PyObject *like, const Py_buffer *first, char *to)
{
    Py_buffer a;

    if (is_plain(item, like)) {
        memcpy(to, ((const ndarray *)item)->data, (size_t)first->len);
        return 1;
    }
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
    stk_py_rows out;

    if (!PyArg_ParseTuple(args, "OOOn", &items, &like, &target, &offset))
        return NULL;
    const Py_ssize_t count = PySequence_Size(items);
    if (count < 0 || PyObject_GetBuffer(like, &first, PyBUF_STRIDED_RO | PyBUF_FORMAT))
        return NULL;
    Py_ssize_t bytes;
    int done = __builtin_mul_overflow(count, first.len, &bytes)
                   ? -1
                   : stk_py_rows_open(target, offset, bytes, &out) + 1;
    if (done == 1) {
        for (Py_ssize_t i = 0; done == 1 && i < count; i++) {
            PyObject *item = PySequence_GetItem(items, i);
            done = item ? stk_py_write_array(item, like, &first, out.at + i * first.len) : -1;
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

int stk_py_write_number(PyObject *item, int kind, char *to)
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
    stk_py_rows out;

    if (!PyArg_ParseTuple(args, "OCOn", &items, &kind, &target, &offset))
        return NULL;
    const Py_ssize_t count = PySequence_Size(items), size = kind == '?' ? 1 : 8;
    Py_ssize_t bytes;
    if (count < 0)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes))
        return PyErr_NoMemory();
    if (stk_py_rows_open(target, offset, bytes, &out))
        return NULL;
    int done = 1;
    for (Py_ssize_t i = 0; done == 1 && i < count; i++) {
        PyObject *item = PySequence_GetItem(items, i);
        done = item ? stk_py_write_number(item, kind, out.at + i * size) : -1;
        Py_XDECREF(item);
    }
    PyBuffer_Release(&out.target);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

/* ---- Memory ---- */

/* Reads the memory of this process at addresses that the caller knows. */
static PyObject *copy_memory(PyObject *module, PyObject *args)
{
    PyObject *target, *pieces;
    bool changed = false;

    if (!PyArg_ParseTuple(args, "OO!", &target, &PyTuple_Type, &pieces))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(pieces); i++) {
        unsigned long long from;
        Py_ssize_t offset, size;
        stk_py_rows out;

        if (!PyArg_ParseTuple(PyTuple_GetItem(pieces, i), "nKn", &offset, &from, &size) ||
            stk_py_rows_open(target, offset, size, &out))
            return NULL;
        if (memcmp(out.at, (const void *)(uintptr_t)from, (size_t)size) != 0) {
            memcpy(out.at, (const void *)(uintptr_t)from, (size_t)size);
            changed = true;
        }
        PyBuffer_Release(&out.target);
    }
    return PyBool_FromLong(changed);
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
    {"know_arrays", know_arrays, METH_VARARGS,
     "know_arrays($module, array, size, data, shape, dtype, flags, /)\n--\n\n"
     "Whether the memory of such an array, an object of `size` bytes, says what NumPy says of it: "
     "then those of its class are read without their buffers."},
    {"copy_memory", copy_memory, METH_VARARGS,
     "copy_memory($module, target, pieces, /)\n--\n\nCopy (offset, address, size) each: whether "
     "any was something else before."},
    {"seed_twisters", seed_twisters, METH_VARARGS,
     "seed_twisters($module, numpy, spare, random, /, *position)\n--\n\n"
     "Set the state of NumPy and of random, at these addresses, to what the position says: the "
     "seed for torch."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_stack(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) ? -1 : stk_py_add_rows(module);
}

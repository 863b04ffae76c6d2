/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays as a dataset: sample i is row i of each. Rows whose elements lie in one piece are handed
 * over where they are, others are gathered. The buffers belong to Python and are given back by it;
 * the threads of a loader only read them.
 */
#include "dataset.h"

#define OVERREAD 64 /* bytes behind a value that transforms may read */

typedef struct column {
    Py_buffer view;
    const char *end; /* of the memory that rows lie in */
    bool whole;      /* the elements of a row lie in one piece, in C order */
} column;

struct stk_py_memory {
    Py_ssize_t count;
    column columns[];
};

/* ---- Samples ---- */

/* Gather dimension `d` and those below of a row; returns behind what was written. */
static char *gather(char *to, const char *from, const Py_buffer *view, int d)
{
    const size_t size = (size_t)view->itemsize;

    if (d == view->ndim)
        return (char *)memcpy(to, from, size) + size;
    if (d + 1 == view->ndim && size == 1) {
        for (Py_ssize_t i = 0; i < view->shape[d]; i++)
            to[i] = from[i * view->strides[d]];
        return to + view->shape[d];
    }
    for (Py_ssize_t i = 0; i < view->shape[d]; i++)
        to = gather(to, from + i * view->strides[d], view, d + 1);
    return to;
}

static void take(const column *c, uint64_t index, stk_value *value)
{
    const char *from = (const char *)c->view.buf + (Py_ssize_t)index * c->view.strides[0];

    value->data = value->out;
    if (!c->whole)
        gather(value->out, from, &c->view, 1);
    else if (c->end - from >= (ptrdiff_t)(value->size + OVERREAD))
        value->data = from;
    else
        memcpy(value->out, from, value->size);
}

static void memory_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk_py_memory *memory = stk_dataset_self(dataset);

    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);
        for (Py_ssize_t k = 0; k < memory->count; k++)
            take(&memory->columns[k], sample->index, stk_sample_value(sample, (uint32_t)k));
    }
}

static void memory_end(stk_dataset *dataset)
{
}

static const stk_dataset_ops memory_ops = {.struct_size = sizeof memory_ops,
                                           .name = "memory",
                                           .doc = "Arrays in memory.",
                                           .close = memory_end,
                                           .prepare = memory_prepare};

/* ---- Making ---- */

/* Where a buffer ends, and whether its rows are in one piece. */
static void look_at(column *c)
{
    const Py_buffer *v = &c->view;
    Py_ssize_t dense = v->itemsize;

    c->end = (const char *)v->buf + v->itemsize;
    c->whole = true;
    for (int d = v->ndim; d-- > 0;) {
        if (d > 0 && v->shape[d] > 1 && v->strides[d] != dense)
            c->whole = false;
        dense *= v->shape[d];
        if (v->strides[d] > 0)
            c->end += v->strides[d] * (v->shape[d] - 1);
    }
}

static int fill_field(column *c, PyObject *given, stk_field *field)
{
    const char *name, *dtype;
    PyObject *buffer;
    int picture;

    if (!PyArg_ParseTuple(given, "ssOp", &name, &dtype, &buffer, &picture) ||
        PyObject_GetBuffer(buffer, &c->view, PyBUF_STRIDES))
        return -1;
    *field = (stk_field){.struct_size = sizeof *field,
                         .name = name,
                         .dtype = stk_dtype_parse(dtype),
                         .picture = picture};
    if (c->view.ndim < 1 || c->view.ndim > STK_MAX_RANK + 1) {
        PyErr_Format(stk_py.errors[-STK_EINVAL],
                     "the array '%s' has %d dimensions: the first counts the samples, and %d more "
                     "are the most",
                     name, c->view.ndim, STK_MAX_RANK);
        return -1;
    }
    if (!c->view.strides) {
        PyErr_Format(PyExc_BufferError, "the array '%s' has no strides: take numpy.asarray() of it",
                     name);
        return -1;
    }
    if (stk_dtype_size(field->dtype) != (size_t)c->view.itemsize) {
        PyErr_Format(stk_py.errors[-STK_EINVAL],
                     "the array '%s' is of type %s, which is not loaded: numbers in the byte order "
                     "of the machine are",
                     name, dtype);
        return -1;
    }
    field->rank = (uint32_t)c->view.ndim - 1;
    for (uint32_t d = 0; d < field->rank; d++)
        field->shape[d] = c->view.shape[d + 1];
    if (!*name) {
        PyErr_SetString(stk_py.errors[-STK_EINVAL], "an array has an empty name: give it another");
        return -1;
    }
    for (uint32_t d = 0; d < field->rank; d++)
        if (!field->shape[d]) {
            PyErr_Format(stk_py.errors[-STK_EINVAL],
                         "the array '%s' has no values in its samples, as dimension %u has the "
                         "length 0: leave it out",
                         name, d + 1);
            return -1;
        }
    look_at(c);
    return 0;
}

/* One size for all. */
static int check_sizes(const stk_py_memory *memory, const stk_field *fields)
{
    const Py_ssize_t size = memory->count ? memory->columns[0].view.shape[0] : 0;

    for (Py_ssize_t i = 1; i < memory->count; i++)
        if (memory->columns[i].view.shape[0] != size) {
            PyErr_Format(stk_py.errors[-STK_EINVAL],
                         "the array '%s' has %zd samples and '%s' has %zd: give as many of each",
                         fields[0].name, size, fields[i].name, memory->columns[i].view.shape[0]);
            return -1;
        }
    return 0;
}

static int fill(stk_py_memory *memory, stk_context *context, PyObject *given, stk_field *fields,
                stk_dataset **out)
{
    const Py_ssize_t count = PyTuple_Size(given);
    stk_error err;

    for (; memory->count < count; memory->count++)
        if (fill_field(&memory->columns[memory->count], PyTuple_GetItem(given, memory->count),
                       &fields[memory->count])) {
            memory->count += memory->columns[memory->count].view.obj != NULL;
            return -1;
        }
    if (check_sizes(memory, fields))
        return -1;
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .num_fields = (uint32_t)count,
                                   .fields = fields,
                                   .size = count ? (uint64_t)memory->columns[0].view.shape[0] : 0};
    if (stk_dataset_create(context, &memory_ops, memory, &info, out, &err) == STK_OK)
        return 0;
    stk_py_raise(&err);
    return -1;
}

stk_py_memory *stk_py_memory_open(stk_context *context, PyObject *given, stk_dataset **out)
{
    const Py_ssize_t count = PyTuple_Size(given);

    if (count < 0)
        return NULL;
    stk_py_memory *memory =
        PyMem_Calloc(1, sizeof *memory + (size_t)count * sizeof *memory->columns);
    stk_field *fields = PyMem_Calloc((size_t)count + 1, sizeof *fields);
    int failed = memory && fields ? fill(memory, context, given, fields, out) : -1;

    if (!memory || !fields)
        PyErr_NoMemory();
    PyMem_Free(fields);
    if (!failed)
        return memory;
    stk_py_memory_close(memory);
    return NULL;
}

void stk_py_memory_close(stk_py_memory *memory)
{
    for (Py_ssize_t i = 0; memory && i < memory->count; i++)
        PyBuffer_Release(&memory->columns[i].view);
    PyMem_Free(memory);
}

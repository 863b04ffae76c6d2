/* SPDX-License-Identifier: Apache-2.0 */
/* stk_array of Python: what an array is, and boxes of it read into memory of Python. */
#include <stoker/array.h>

#include "native.h"

enum { SOON_MS = 30 };

typedef struct array {
    PyObject_HEAD
    stk_context *context;
    stk_array *array;
    bool slow; /* a read has taken long: the next ones will, too */
} array;

/* ---- Opening and closing ---- */

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"url", "options", NULL};
    stk_array_options options;
    stk_status status;
    const char *url;
    PyObject *texts;
    stk_error err;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO!", names, &url, &PyDict_Type, &texts))
        return NULL;
    stk_array_options_init(&options);
    if (stk_py_set_options("array", &options, texts))
        return NULL;
    array *self = (array *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    stk_error_init(&err);
    status = stk_py_context(NULL, NULL, &self->context, &err);
    if (status == STK_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = stk_array_open(self->context, url, &options, &self->array, &err);
        Py_END_ALLOW_THREADS
    }
    /* What comes over a network is not asked for, cut off and asked for again. */
    self->slow = strstr(url, "://") != NULL;
    if (status == STK_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return stk_py_raise(&err);
}

static void array_dealloc(PyObject *object)
{
    array *self = (array *)object;
    PyTypeObject *type = Py_TYPE(object);

    Py_BEGIN_ALLOW_THREADS
    stk_array_close(&self->array);
    stk_context_destroy(&self->context);
    Py_END_ALLOW_THREADS
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- What it is ---- */

static PyObject *sizes(const int64_t *values, uint32_t n)
{
    PyObject *all = PyTuple_New((Py_ssize_t)n);

    for (uint32_t i = 0; all && i < n; i++) {
        PyObject *one = PyLong_FromLongLong(values[i]);
        if (!one || PyTuple_SetItem(all, (Py_ssize_t)i, one))
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *dimension_names(const stk_array_info *info)
{
    PyObject *all = PyTuple_New((Py_ssize_t)info->rank);

    for (uint32_t i = 0; all && i < info->rank; i++) {
        const char *name = info->dimension_names ? info->dimension_names[i] : NULL;
        PyObject *one = Py_BuildValue("z", name);
        if (!one || PyTuple_SetItem(all, (Py_ssize_t)i, one))
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *array_info(PyObject *object, PyObject *unused)
{
    const stk_array_info *info = stk_array_get_info(((array *)object)->array);
    const char *value = info->fill_value;
    uint64_t fill = value ? info->itemsize : 0;

    if (value && !info->itemsize) {
        const stk_array_string *text = info->fill_value;
        value = text->data ? text->data : "";
        fill = text->length;
    }
    return Py_BuildValue(
        "{sssssssKsN sNsNsNsssy#sK}", "format", info->format, "type", info->type_name, "codecs",
        info->codecs, "itemsize", (unsigned long long)info->itemsize, "shape",
        sizes(info->shape, info->rank), "chunks", sizes(info->chunk_shape, info->rank), "shards",
        sizes(info->shard_shape, info->rank), "names", dimension_names(info), "attributes",
        info->attributes, "fill", value, (Py_ssize_t)fill, "num_chunks",
        (unsigned long long)info->num_chunks);
}

/* ---- Reading ---- */

typedef struct reading {
    stk_array *array;
    stk_array_box box;
    Py_buffer out;
    stk_array_texts *texts; /* what came of elements of varying length */
    bool varies;
    int64_t timeout_ms;
    stk_status status;
    stk_error err;
} reading;

static void read_now(void *user)
{
    reading *r = user;

    if (r->varies)
        r->status = stk_array_read_texts(r->array, &r->box, r->timeout_ms, &r->texts, &r->err);
    else
        r->status = stk_array_read(r->array, &r->box, r->out.buf, (uint64_t)r->out.len, NULL,
                                   r->timeout_ms, &r->err);
}

static void cancel_read(void *user)
{
    stk_array_cancel(((reading *)user)->array);
}

/* What ends soon needs no thread to listen for Ctrl-C. False: an exception is set. */
static bool read_box(array *self, reading *r)
{
    bool finished = true;

    if (!self->slow) {
        r->timeout_ms = SOON_MS;
        Py_BEGIN_ALLOW_THREADS
        read_now(r);
        Py_END_ALLOW_THREADS
        self->slow = r->status == STK_ETIMEDOUT;
    }
    r->timeout_ms = -1;
    if (self->slow)
        finished = stk_py_run(read_now, r, cancel_read);
    /* A read of another thread that was interrupted has canceled this one, too. */
    while (finished && r->status == STK_ECANCELED)
        finished = stk_py_run(read_now, r, cancel_read);
    return finished;
}

/* As many numbers as the array has dimensions. */
static int take_numbers(PyObject *from, uint32_t rank, int64_t *to)
{
    if (PyTuple_Size(from) != (Py_ssize_t)rank) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "give a number for each of the %d dimensions",
                         (int)rank);
        return -1;
    }
    for (uint32_t i = 0; i < rank; i++)
        to[i] = PyLong_AsLongLong(PyTuple_GetItem(from, (Py_ssize_t)i));
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *array_read(PyObject *object, PyObject *args)
{
    array *self = (array *)object;
    const uint32_t rank = stk_array_get_info(self->array)->rank;
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    PyObject *out, *starts, *shapes, *steps;
    reading r = {.array = self->array, .box = {start, shape, step}};

    if (!PyArg_ParseTuple(args, "OO!O!O!", &out, &PyTuple_Type, &starts, &PyTuple_Type, &shapes,
                          &PyTuple_Type, &steps) ||
        take_numbers(starts, rank, start) || take_numbers(shapes, rank, shape) ||
        take_numbers(steps, rank, step) ||
        PyObject_GetBuffer(out, &r.out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS))
        return NULL;
    stk_error_init(&r.err);
    const bool finished = read_box(self, &r);
    PyBuffer_Release(&r.out);
    if (!finished)
        return NULL;
    if (r.status != STK_OK)
        return stk_py_raise(&r.err);
    Py_RETURN_NONE;
}

/* (offsets as the bytes of 64-bit numbers, all elements one behind the other). */
static PyObject *array_read_texts(PyObject *object, PyObject *args)
{
    array *self = (array *)object;
    const uint32_t rank = stk_array_get_info(self->array)->rank;
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    PyObject *starts, *shapes, *steps, *result = NULL;
    reading r = {.array = self->array, .box = {start, shape, step}, .varies = true};

    if (!PyArg_ParseTuple(args, "O!O!O!", &PyTuple_Type, &starts, &PyTuple_Type, &shapes,
                          &PyTuple_Type, &steps) ||
        take_numbers(starts, rank, start) || take_numbers(shapes, rank, shape) ||
        take_numbers(steps, rank, step))
        return NULL;
    stk_error_init(&r.err);
    const bool finished = read_box(self, &r);
    if (finished && r.status == STK_OK)
        result = Py_BuildValue("(y#y#)", (const char *)r.texts->offsets,
                               (Py_ssize_t)((r.texts->count + 1) * sizeof *r.texts->offsets),
                               r.texts->values, (Py_ssize_t)r.texts->offsets[r.texts->count]);
    else if (finished)
        (void)stk_py_raise(&r.err);
    stk_array_texts_destroy(&r.texts);
    return result;
}

static PyMethodDef methods[] = {
    {"info", array_info, METH_NOARGS, "info($self, /)\n--\n\nWhat it is."},
    {"read", array_read, METH_VARARGS,
     "read($self, out, start, shape, step, /)\n--\n\nRead a box into a writable buffer of its "
     "bytes."},
    {"read_texts", array_read_texts, METH_VARARGS,
     "read_texts($self, start, shape, step, /)\n--\n\nRead a box of elements of varying length: "
     "their offsets as 64-bit numbers, and their bytes."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Array(url, options)\n--\n\nChunks to values; options are texts."},
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, methods},
    {0, NULL}};

static PyType_Spec spec = {.name = "stoker._native.Array",
                           .basicsize = sizeof(array),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int stk_py_add_array(PyObject *module)
{
    return stk_py_add_type(module, &spec) ? 0 : -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a batch as buffers of Python, in the memory where they were made. */
#include "native.h"

typedef struct tensor {
    PyObject_HEAD
    stk_py_held *held;
    void *data;
    stk_dtype dtype;
    int rank, field; /* field: its number; -1: offsets of one */
    Py_ssize_t shape[STK_MAX_RANK + 1], strides[STK_MAX_RANK + 1];
} tensor;

/* ---- Batches that are looked at ---- */

stk_py_held *stk_py_hold(PyObject *owner, stk_batch *batch)
{
    stk_py_held_list *list = stk_py_held_of(owner);
    stk_py_held *held = PyMem_Calloc(1, sizeof *held);

    if (!held) {
        stk_batch_release(&batch);
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(owner);
    *held = (stk_py_held){.batch = batch, .owner = owner, .before = list->last, .users = 1};
    *(list->last ? &list->last->after : &list->first) = held;
    list->last = held;
    return held;
}

void stk_py_let_go(stk_py_held *held)
{
    if (--held->users > 0)
        return;
    PyObject *owner = held->owner;
    stk_py_held_list *list = stk_py_held_of(owner);

    *(held->before ? &held->before->after : &list->first) = held->after;
    *(held->after ? &held->after->before : &list->last) = held->before;
    stk_batch_release(&held->batch);
    PyMem_Free(held);
    Py_DECREF(owner);
}

/* ---- Tensors ---- */

/* 64 bits are C's long: what NumPy and PyTorch call int64. */
static const char *format_of(stk_dtype dtype)
{
    _Static_assert(sizeof(long) == 8, "an LP64 system");
    static const char *const formats[STK_DTYPE_COUNT] = {
        [STK_BOOL] = "?",    [STK_UINT8] = "B",      [STK_INT8] = "b",       [STK_UINT16] = "H",
        [STK_INT16] = "h",   [STK_UINT32] = "I",     [STK_INT32] = "i",      [STK_UINT64] = "L",
        [STK_INT64] = "l",   [STK_FLOAT16] = "e",    [STK_BFLOAT16] = "H",   [STK_FLOAT32] = "f",
        [STK_FLOAT64] = "d", [STK_COMPLEX64] = "Zf", [STK_COMPLEX128] = "Zd"};

    return formats[dtype];
}

static int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    tensor *t = (tensor *)self;
    Py_ssize_t size = (Py_ssize_t)stk_dtype_size(t->dtype);

    static char nothing[64];

    *view =
        (Py_buffer){.buf = t->data ? t->data : nothing,
                    .obj = self,
                    .itemsize = size,
                    .ndim = t->rank,
                    .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format_of(t->dtype) : NULL,
                    .shape = flags & PyBUF_ND ? t->shape : NULL,
                    .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? t->strides : NULL};
    view->len = size;
    for (int i = 0; i < t->rank; i++)
        view->len *= t->shape[i];
    Py_INCREF(self);
    return 0;
}

static void tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    stk_py_let_go(((tensor *)self)->held);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *tensor_dtype(PyObject *self, void *unused)
{
    return PyUnicode_FromString(stk_dtype_name(((tensor *)self)->dtype));
}

static PyObject *tensor_shape(PyObject *self, void *unused)
{
    tensor *t = (tensor *)self;
    PyObject *shape = PyTuple_New(t->rank);

    for (int i = 0; shape && i < t->rank; i++) {
        PyObject *n = PyLong_FromSsize_t(t->shape[i]);
        if (!n || PyTuple_SetItem(shape, i, n))
            Py_CLEAR(shape);
    }
    return shape;
}

/* ---- DLPack ---- */

/* A capsule that nobody took frees what it has. */
static void capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        stk_dlpack *plain = PyCapsule_GetPointer(capsule, "dltensor");
        plain->deleter(plain);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        stk_dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    const tensor *t = (tensor *)self;
    stk_error err;
    void *out;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy))
        return NULL;
    if (t->field < 0 || copy == Py_True) {
        PyErr_SetString(PyExc_BufferError,
                        "this is not exported, or not as a copy: take numpy.asarray() of it");
        return NULL;
    }
    long major = 0;
    if (version != Py_None) {
        PyObject *first = PySequence_GetItem(version, 0);
        major = first ? PyLong_AsLong(first) : -1;
        Py_XDECREF(first);
        if (PyErr_Occurred())
            return NULL;
    }
    if (stk_batch_dlpack(t->held->batch, (uint32_t)t->field, major > 0, &out, &err) != STK_OK)
        return stk_py_raise(&err);
    return PyCapsule_New(out, major > 0 ? "dltensor_versioned" : "dltensor", capsule_end);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    return Py_BuildValue("(ii)", STK_DLPACK_CPU, 0);
}

static PyGetSetDef getters[] = {
    {"dtype", tensor_dtype, NULL,
     "NumPy's name of the type; bfloat16 is seen as uint16 in a buffer.", NULL},
    {"shape", tensor_shape, NULL, "Sizes, the rows of the batch first.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule, without a copy."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nThe CPU."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A field of a batch: a writable buffer in the loader's memory, which gets it back "
                "when the last view is gone."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_bf_getbuffer, tensor_get_buffer},
    {0, NULL}};

static PyType_Spec spec = {.name = "stoker._native.Tensor",
                           .basicsize = sizeof(tensor),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           .slots = slots};

int stk_py_add_tensor(PyObject *module)
{
    stk_py.tensor = stk_py_add_type(module, &spec);
    return stk_py.tensor ? 0 : -1;
}

/* One more user of what is held: [shape...] of a type at `data`. */
static PyObject *make_tensor(stk_py_held *held, int field, stk_dtype dtype, const void *data,
                             const int64_t *shape, int rank)
{
    tensor *t = PyObject_New(tensor, stk_py.tensor);
    Py_ssize_t stride = (Py_ssize_t)stk_dtype_size(dtype);

    if (!t)
        return NULL;
    t->held = held;
    held->users++;
    t->data = (void *)(uintptr_t)data;
    t->dtype = dtype;
    t->rank = rank;
    t->field = field;
    for (int i = rank; i-- > 0;) {
        t->shape[i] = (Py_ssize_t)shape[i];
        t->strides[i] = stride;
        stride *= t->shape[i];
    }
    return (PyObject *)t;
}

/* (values, offsets) of a field whose samples differ in size. */
static PyObject *make_ragged(stk_py_held *held, int field, const stk_tensor *from)
{
    const int64_t places = from->shape[0] + 1, values = (int64_t)from->offsets[from->shape[0]];
    PyObject *a = make_tensor(held, field, from->dtype, from->data, &values, 1);
    PyObject *b = make_tensor(held, -1, STK_UINT64, from->offsets, &places, 1);
    PyObject *pair = a && b ? PyTuple_Pack(2, a, b) : NULL;

    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

PyObject *stk_py_tensors(stk_py_held *held)
{
    stk_tensor t = {.struct_size = sizeof t};
    uint32_t n = 0;

    while (stk_batch_field(held->batch, n, &t) == STK_OK)
        n++;
    PyObject *all = PyTuple_New((Py_ssize_t)n);
    for (uint32_t i = 0; all && i < n; i++) {
        if (stk_batch_field(held->batch, i, &t) != STK_OK)
            break;
        PyObject *one = t.layout == STK_FIXED
                            ? make_tensor(held, (int)i, t.dtype, t.data, t.shape, (int)t.rank)
                            : make_ragged(held, (int)i, &t);
        if (!one || PyTuple_SetItem(all, (Py_ssize_t)i, one))
            Py_CLEAR(all);
    }
    return all;
}

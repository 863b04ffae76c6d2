/* SPDX-License-Identifier: Apache-2.0 */
/* A batch as a record batch of Arrow, by the PyCapsule interface: what pyarrow, Polars and others
 * take without a copy [arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html]. */
#include <stoker/arrow.h>

#include "native.h"

typedef struct record_batch {
    PyObject_HEAD
    stk_py_held *held;
} record_batch;

/* ---- Capsules ---- */

/* A capsule that nobody took releases what it has; one that was taken has no release() any more. */
static void end_schema(PyObject *capsule)
{
    stk_arrow_schema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

    if (schema->release)
        schema->release(schema);
    PyMem_Free(schema);
}

static void end_array(PyObject *capsule)
{
    stk_arrow_array *array = PyCapsule_GetPointer(capsule, "arrow_array");

    if (array->release)
        array->release(array);
    PyMem_Free(array);
}

/* Empty structs in capsules, which end them. False: an exception. */
static bool make_capsules(PyObject **schema, PyObject **array)
{
    stk_arrow_schema *s = PyMem_Calloc(1, sizeof *s);
    stk_arrow_array *a = PyMem_Calloc(1, sizeof *a);

    *schema = s ? PyCapsule_New(s, "arrow_schema", end_schema) : PyErr_NoMemory();
    *array = a ? PyCapsule_New(a, "arrow_array", end_array) : PyErr_NoMemory();
    if (!*schema)
        PyMem_Free(s);
    if (!*array)
        PyMem_Free(a);
    return *schema && *array;
}

/* Capsules of a new export. False: an exception, and there are none. */
static bool export(const record_batch *self, PyObject **schema, PyObject **array)
{
    stk_error err;

    *schema = *array = NULL;
    bool good = stk_py_before_share(self->held) == 0 && make_capsules(schema, array);
    if (good &&
        stk_batch_export_arrow(self->held->batch, PyCapsule_GetPointer(*schema, "arrow_schema"),
                               PyCapsule_GetPointer(*array, "arrow_array"), &err) != STK_OK)
        good = stk_py_raise(&err);
    if (!good) {
        Py_CLEAR(*schema);
        Py_CLEAR(*array);
    }
    return good;
}

static PyObject *batch_arrow_c_schema(PyObject *self, PyObject *unused)
{
    PyObject *schema, *array;

    if (!export((record_batch *)self, &schema, &array))
        return NULL;
    Py_DECREF(array);
    return schema;
}

static PyObject *batch_arrow_c_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"requested_schema", NULL};
    PyObject *requested = Py_None, *schema, *array;

    /* Another schema than that of the batch is a wish: the consumer casts. */
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:__arrow_c_array__", names, &requested) ||
        !export((record_batch *)self, &schema, &array))
        return NULL;
    PyObject *pair = PyTuple_Pack(2, schema, array);
    Py_DECREF(schema);
    Py_DECREF(array);
    return pair;
}

/* ---- The type ---- */

static PyObject *batch_num_rows(PyObject *self, void *unused)
{
    return PyLong_FromUnsignedLongLong(stk_batch_count(((record_batch *)self)->held->batch));
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)stk_batch_count(((record_batch *)self)->held->batch);
}

static void batch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    stk_py_let_go(((record_batch *)self)->held);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyGetSetDef getters[] = {{"num_rows", batch_num_rows, NULL, "Samples of the batch.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {
    {"__arrow_c_schema__", batch_arrow_c_schema, METH_NOARGS,
     "__arrow_c_schema__($self, /)\n--\n\nA capsule of a struct with a child for each field."},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))batch_arrow_c_array,
     METH_VARARGS | METH_KEYWORDS,
     "__arrow_c_array__($self, /, requested_schema=None)\n--\n\n"
     "Capsules of the schema and of the array, in the memory of the batch."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A batch as a record batch of Arrow, in the loader's memory, which gets it back when "
     "this and all arrays made of it are gone: pyarrow.record_batch(batch)."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_sq_length, batch_length},
    {0, NULL}};

static PyType_Spec spec = {.name = "stoker._native.RecordBatch",
                           .basicsize = sizeof(record_batch),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           .slots = slots};

int stk_py_add_record_batch(PyObject *module)
{
    stk_py.record_batch = stk_py_add_type(module, &spec);
    return stk_py.record_batch ? 0 : -1;
}

PyObject *stk_py_record_batch(stk_py_held *held)
{
    record_batch *self = PyObject_New(record_batch, stk_py.record_batch);

    if (!self)
        return NULL;
    self->held = held;
    held->users++;
    return (PyObject *)self;
}

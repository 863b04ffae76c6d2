/* SPDX-License-Identifier: Apache-2.0 */
/* stk_dataset of Python, with the context it lives in: from a spec, or of arrays in memory. */
#include "dataset.h"

#include <pthread.h>
#include <stdio.h>

enum { MESSAGES = 64, MESSAGE = 512 };

/* What the library says, from any thread, until Python hands it to `logging`. */
struct stk_py_messages {
    pthread_mutex_t lock;
    unsigned count;
    struct {
        stk_message_level level;
        char text[MESSAGE];
    } all[MESSAGES];
};

/* ---- Messages ---- */

static void take_message(void *user, stk_message_level level, const char *text)
{
    struct stk_py_messages *m = user;

    if (level < STK_MESSAGE_INFO)
        return;
    pthread_mutex_lock(&m->lock);
    if (m->count < MESSAGES) {
        m->all[m->count].level = level;
        snprintf(m->all[m->count++].text, MESSAGE, "%s", text);
    }
    pthread_mutex_unlock(&m->lock);
}

/* Hand one to logging.getLogger("stoker"); its failure is not the caller's. */
static void log_one(stk_message_level level, const char *text)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyObject *logging = PyImport_ImportModule("logging");
    PyObject *logger = logging ? PyObject_CallMethod(logging, "getLogger", "s", "stoker") : NULL;
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *done =
        logger && words ? PyObject_CallMethod(logger, names[level], "sO", "%s", words) : NULL;
    if (!done)
        PyErr_WriteUnraisable(NULL);
    Py_XDECREF(done);
    Py_XDECREF(words);
    Py_XDECREF(logger);
    Py_XDECREF(logging);
    PyErr_Restore(type, value, trace);
}

void stk_py_hand_over_messages(const stk_py_dataset *self)
{
    struct stk_py_messages *m = self->messages;

    for (unsigned i = 0;; i++) {
        char text[MESSAGE];
        pthread_mutex_lock(&m->lock);
        const bool more = i < m->count;
        const stk_message_level level = more ? m->all[i].level : STK_MESSAGE_DEBUG;
        if (more)
            memcpy(text, m->all[i].text, MESSAGE);
        else
            m->count = 0;
        pthread_mutex_unlock(&m->lock);
        if (!more)
            return;
        log_one(level, text);
    }
}

/* ---- Making and ending ---- */

/* One without a dataset yet. */
static stk_py_dataset *begin(PyTypeObject *type)
{
    stk_py_dataset *self = (stk_py_dataset *)PyType_GenericAlloc(type, 0);
    stk_error err;

    if (!self)
        return NULL;
    self->messages = PyMem_Calloc(1, sizeof *self->messages);
    if (!self->messages) {
        Py_DECREF(self);
        PyErr_NoMemory();
        return NULL;
    }
    pthread_mutex_init(&self->messages->lock, NULL);
    if (stk_py_context(take_message, self->messages, &self->context, &err) != STK_OK) {
        Py_DECREF(self);
        stk_py_raise(&err);
        return NULL;
    }
    return self;
}

PyObject *stk_py_dataset_open(PyTypeObject *type, const char *spec)
{
    stk_py_dataset *self = begin(type);
    stk_status status;
    stk_error err;

    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = stk_dataset_open(self->context, spec, &self->dataset, &err);
    Py_END_ALLOW_THREADS
    stk_py_hand_over_messages(self);
    if (status == STK_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return stk_py_raise(&err);
}

static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spec", NULL};
    const char *spec;

    return PyArg_ParseTupleAndKeywords(args, keywords, "s", names, &spec)
               ? stk_py_dataset_open(type, spec)
               : NULL;
}

static PyObject *dataset_of(PyObject *type, PyObject *fields)
{
    stk_py_dataset *self = begin((PyTypeObject *)type);

    if (!self)
        return NULL;
    self->memory = stk_py_memory_open(self->context, fields, &self->dataset);
    if (self->memory)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

void stk_py_dataset_end(stk_py_dataset *self)
{
    Py_BEGIN_ALLOW_THREADS
    stk_dataset_close(&self->dataset);
    stk_context_destroy(&self->context);
    Py_END_ALLOW_THREADS
    stk_py_hand_over_messages(self);
}

static void dataset_dealloc(PyObject *object)
{
    stk_py_dataset *self = (stk_py_dataset *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->messages) {
        stk_py_dataset_end(self);
        pthread_mutex_destroy(&self->messages->lock);
        PyMem_Free(self->messages);
    }
    stk_py_memory_close(self->memory);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *dataset_size(PyObject *object, void *unused)
{
    stk_dataset_info info = {.struct_size = sizeof info};

    stk_dataset_get_info(((stk_py_dataset *)object)->dataset, &info);
    return PyLong_FromUnsignedLongLong(info.size);
}

static PyGetSetDef getters[] = {{"size", dataset_size, NULL, "Samples.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {
    {"of", dataset_of, METH_O | METH_CLASS,
     "of($type, fields, /)\n--\n\nA dataset of (name, dtype, buffer, picture) for each field, "
     "without a copy: sample i is row i of each buffer."},
    {"check", stk_py_dataset_check, METH_O,
     "check($self, options, /)\n--\n\nRaise what a loader of these options would raise."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Dataset(spec)\n--\n\nNumbered samples with named fields; loaders share it."},
    {Py_tp_new, dataset_new},
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {0, NULL}};

static PyType_Spec spec = {.name = "stoker._native.Dataset",
                           .basicsize = sizeof(stk_py_dataset),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int stk_py_add_dataset(PyObject *module)
{
    stk_py.dataset = stk_py_add_type(module, &spec);
    return stk_py.dataset ? 0 : -1;
}

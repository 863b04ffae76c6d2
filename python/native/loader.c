/* SPDX-License-Identifier: Apache-2.0 */
/* stk_loader of Python: the interpreter is free while it waits, and Ctrl-C is heard. */
#include <pthread.h>
#include <stdio.h>

#include "native.h"

enum { LOOK_MS = 50, MESSAGES = 64, MESSAGE = 512 };

/* What the library says, from any thread, until the consumer hands it to `logging`. */
typedef struct messages {
    pthread_mutex_t lock;
    unsigned count;
    struct {
        stk_message_level level;
        char text[MESSAGE];
    } all[MESSAGES];
} messages;

typedef struct loader {
    PyObject_HEAD
    stk_context *context;
    stk_dataset *dataset;
    stk_loader *loader; /* NULL: closed */
    stk_loader_options options;
    PyObject *texts; /* that the options point into */
    stk_py_meter meter;
    stk_py_held_list held;
    bool busy, warned; /* busy: a thread is in a call without the GIL */
    messages *messages;
} loader;

stk_py_held_list *stk_py_held_of(PyObject *owner)
{
    return &((loader *)owner)->held;
}

/* ---- Messages ---- */

static void take_message(void *user, stk_message_level level, const char *text)
{
    messages *m = user;

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

static void hand_over_messages(loader *self)
{
    messages *m = self->messages;

    for (unsigned i = 0; m; i++) {
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

/* Options from a dict of texts. The texts live as long as the dict. */
static int set_options(stk_loader_options *options, PyObject *texts, stk_error *err)
{
    const stk_option_table *table = stk_option_table_find("loader");
    PyObject *items = PyDict_Items(texts);
    int failed = items ? 0 : -1;

    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        const char *name, *text;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "ss", &name, &text))
            failed = -1;
        else if (stk_options_set(table, options, name, text, err) != STK_OK) {
            stk_py_raise(err);
            failed = -1;
        }
    }
    Py_XDECREF(items);
    return failed;
}

static bool usable(const loader *self)
{
    if (self->loader && !self->busy)
        return true;
    PyErr_SetString(PyExc_RuntimeError, self->loader ? "the loader is in use by another thread"
                                                     : "the loader is closed");
    return false;
}

static stk_status open_all(loader *self, const char *dataset, stk_error *err)
{
    stk_context_options about;

    stk_context_options_init(&about);
    about.on_message = take_message;
    about.on_message_user = self->messages;
    stk_status status = stk_context_create(&about, &self->context, err);
    if (status == STK_OK)
        status = stk_dataset_open(self->context, dataset, &self->dataset, err);
    if (status == STK_OK)
        status = stk_loader_create(self->dataset, &self->options, &self->loader, err);
    return status;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dataset", "options", NULL};
    stk_loader_options options;
    const char *dataset;
    PyObject *texts;
    stk_error err;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO!", names, &dataset, &PyDict_Type, &texts))
        return NULL;
    stk_error_init(&err);
    stk_loader_options_init(&options);
    if (set_options(&options, texts, &err))
        return NULL;
    loader *self = (loader *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->options = options;
    self->texts = (Py_INCREF(texts), texts);
    self->messages = PyMem_Calloc(1, sizeof *self->messages);
    if (!self->messages) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    pthread_mutex_init(&self->messages->lock, NULL);
    stk_status status;
    Py_BEGIN_ALLOW_THREADS
    status = open_all(self, dataset, &err);
    Py_END_ALLOW_THREADS
    hand_over_messages(self);
    if (status != STK_OK) {
        Py_DECREF(self);
        return stk_py_raise(&err);
    }
    return (PyObject *)self;
}

/* Batches that are looked at outlive it: they hold the memory of the ring, and the ring the
 * context. */
static void end(loader *self)
{
    stk_py_meter_stop(&self->meter);
    Py_BEGIN_ALLOW_THREADS
    stk_loader_destroy(&self->loader);
    stk_dataset_close(&self->dataset);
    stk_context_destroy(&self->context);
    Py_END_ALLOW_THREADS
    hand_over_messages(self);
}

static void loader_dealloc(PyObject *object)
{
    loader *self = (loader *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->messages) {
        end(self);
        pthread_mutex_destroy(&self->messages->lock);
        PyMem_Free(self->messages);
    }
    Py_XDECREF(self->texts);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;

    if (!self->loader)
        Py_RETURN_NONE;
    if (!usable(self))
        return NULL;
    self->busy = true;
    end(self);
    self->busy = false;
    Py_RETURN_NONE;
}

/* ---- Batches ---- */

/* All slabs are held: the oldest that can takes its memory along. */
static int make_room(loader *self, stk_error *err)
{
    stk_status status = STK_EBUSY;

    if (!self->warned) {
        self->warned = true;
        if (PyErr_WarnEx(PyExc_RuntimeWarning,
                         "all batches of the loader are kept: it goes on with memory beyond "
                         "memory_budget. Keep copies of what is needed, or fewer batches",
                         2))
            return -1;
    }
    for (stk_py_held *h = self->held.first; h && status == STK_EBUSY; h = h->after) {
        stk_batch *before = h->batch;
        status = stk_batch_detach(&h->batch, err);
        if (status == STK_OK && h->batch == before) /* it had it already */
            status = STK_EBUSY;
    }
    if (status != STK_OK)
        stk_py_raise(err);
    return status == STK_OK ? 0 : -1;
}

static stk_status wait_for_batch(loader *self, stk_batch **batch, stk_error *err)
{
    stk_status status;

    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    status = stk_loader_next(self->loader, LOOK_MS, batch, err);
    Py_END_ALLOW_THREADS
    self->busy = false;
    hand_over_messages(self);
    return status;
}

static PyObject *loader_next(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    stk_batch *batch = NULL;
    stk_status status = STK_EAGAIN;
    stk_error err;

    if (!usable(self))
        return NULL;
    while (status == STK_EAGAIN || status == STK_EBUSY) {
        if (PyErr_CheckSignals() || (status == STK_EBUSY && make_room(self, &err)))
            return NULL;
        status = wait_for_batch(self, &batch, &err);
        if (status == STK_EBUSY && !self->held.first)
            break;
    }
    if (status == STK_EOS)
        Py_RETURN_NONE;
    if (status != STK_OK)
        return stk_py_raise(&err);
    stk_py_held *held = stk_py_hold(object, batch);
    PyObject *tensors = held ? stk_py_tensors(held) : NULL;
    if (held)
        stk_py_let_go(held);
    return tensors;
}

/* ---- What it is and where it stands ---- */

static PyObject *loader_fields(PyObject *object, void *unused)
{
    const loader *self = (loader *)object;
    uint32_t n;

    if (!usable(self))
        return NULL;
    const stk_field *fields = stk_loader_fields(self->loader, &n);
    PyObject *names = PyTuple_New((Py_ssize_t)n);
    for (uint32_t i = 0; names && i < n; i++) {
        PyObject *name = PyUnicode_FromString(stk_field_at(fields, i)->name);
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name))
            Py_CLEAR(names);
    }
    return names;
}

static PyObject *loader_steps(PyObject *object, void *unused)
{
    const loader *self = (loader *)object;

    return usable(self) ? PyLong_FromUnsignedLongLong(stk_loader_steps(self->loader)) : NULL;
}

static PyObject *loader_size(PyObject *object, void *unused)
{
    const loader *self = (loader *)object;
    stk_dataset_info info = {.struct_size = sizeof info};

    if (!usable(self))
        return NULL;
    stk_dataset_get_info(self->dataset, &info);
    return PyLong_FromUnsignedLongLong(info.size);
}

static PyObject *loader_position(PyObject *object, void *unused)
{
    const loader *self = (loader *)object;
    stk_loader_state state;

    if (!usable(self))
        return NULL;
    stk_loader_get_state(self->loader, &state);
    return Py_BuildValue("(KK)", (unsigned long long)state.epoch, (unsigned long long)state.step);
}

static PyObject *loader_state(PyObject *object, PyObject *unused)
{
    const loader *self = (loader *)object;
    stk_loader_state state;
    char text[512];

    if (!usable(self))
        return NULL;
    stk_loader_get_state(self->loader, &state);
    stk_loader_state_format(&state, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *loader_restore(PyObject *object, PyObject *argument)
{
    loader *self = (loader *)object;
    const char *text = PyUnicode_AsUTF8AndSize(argument, NULL);
    stk_loader_state state;
    stk_error err;

    if (!text || !usable(self))
        return NULL;
    stk_status status = stk_loader_state_parse(text, &state, &err);
    if (status == STK_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = stk_loader_restore(self->loader, &state, &err);
        Py_END_ALLOW_THREADS
    }
    hand_over_messages(self);
    if (status != STK_OK)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *loader_set_epoch(PyObject *object, PyObject *argument)
{
    loader *self = (loader *)object;
    const unsigned long long epoch = PyLong_AsUnsignedLongLong(argument);
    stk_error err;

    if ((epoch == (unsigned long long)-1 && PyErr_Occurred()) || !usable(self))
        return NULL;
    stk_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stk_loader_set_epoch(self->loader, epoch, &err);
    Py_END_ALLOW_THREADS
    if (status != STK_OK)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

/* {"storage_latency": seconds, ...} of a consumer's waits. */
static PyObject *waits_of(const stk_waits *waits)
{
    static const char *const names[] = {
#define NAME_OF_WAIT(NAME, name, text) #name,
        STK_WAIT_LIST(NAME_OF_WAIT)
#undef NAME_OF_WAIT
    };
    PyObject *all = PyDict_New();

    for (int i = 0; all && i < STK_WAIT_PARTS; i++) {
        PyObject *seconds = PyFloat_FromDouble((double)waits->parts_ns[i] * 1e-9);
        if (!seconds || PyDict_SetItemString(all, names[i], seconds))
            Py_CLEAR(all);
        Py_XDECREF(seconds);
    }
    return all;
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    const loader *self = (loader *)object;
    stk_loader_stats s = {.struct_size = sizeof s};

    if (!usable(self))
        return NULL;
    stk_loader_get_stats(self->loader, &s);
    return Py_BuildValue(
        "{sKsdsNsKsKsKsKsKsKsKsKsKsKsK}", "batches", (unsigned long long)s.waits.batches, "wait_s",
        (double)s.waits.total_ns * 1e-9, "waits_s", waits_of(&s.waits), "workers",
        (unsigned long long)s.workers, "depth", (unsigned long long)s.depth, "ready",
        (unsigned long long)s.ready, "io_depth", (unsigned long long)s.io_depth, "memory_budget",
        (unsigned long long)s.memory_budget, "memory_bytes", (unsigned long long)s.memory_bytes,
        "memory_peak", (unsigned long long)s.memory_peak, "requests",
        (unsigned long long)s.requests, "request_bytes", (unsigned long long)s.request_bytes,
        "cache_hits", (unsigned long long)s.cache_hits, "bad_samples",
        (unsigned long long)s.bad_samples);
}

static PyObject *loader_start_meter(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    stk_error err;

    if (!usable(self))
        return NULL;
    if (stk_py_meter_start(&self->meter, self->context, self->loader, &self->options, &err))
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *loader_stop_meter(PyObject *object, PyObject *unused)
{
    stk_py_meter_stop(&((loader *)object)->meter);
    Py_RETURN_NONE;
}

static PyObject *loader_judge(PyObject *object, PyObject *unused)
{
    return stk_py_meter_judge(&((loader *)object)->meter);
}

static PyGetSetDef getters[] = {
    {"fields", loader_fields, NULL, "Names of the fields of a batch.", NULL},
    {"steps", loader_steps, NULL, "Batches of an epoch.", NULL},
    {"size", loader_size, NULL, "Samples of the dataset.", NULL},
    {"position", loader_position, NULL, "(epoch, step) of the next batch.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {
    {"next", loader_next, METH_NOARGS,
     "next($self, /)\n--\n\nThe fields of the next batch; None at the end of an epoch."},
    {"set_epoch", loader_set_epoch, METH_O,
     "set_epoch($self, epoch, /)\n--\n\nGo to the start of an epoch, from 0."},
    {"state", loader_state, METH_NOARGS,
     "state($self, /)\n--\n\nThe place in the order, as one line of text."},
    {"restore", loader_restore, METH_O, "restore($self, state, /)\n--\n\nGo on after a state."},
    {"stats", loader_stats, METH_NOARGS, "stats($self, /)\n--\n\nCounters since it was made."},
    {"start_meter", loader_start_meter, METH_NOARGS,
     "start_meter($self, /)\n--\n\nA loop begins: measure it."},
    {"stop_meter", loader_stop_meter, METH_NOARGS,
     "stop_meter($self, /)\n--\n\nThe loop has ended."},
    {"judge", loader_judge, METH_NOARGS,
     "judge($self, /)\n--\n\nThe verdict on the loop that runs or ran last."},
    {"close", loader_close, METH_NOARGS,
     "close($self, /)\n--\n\nEnd threads and memory; batches that are kept stay valid."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Loader(dataset, options)\n--\n\nSamples to batches; options are texts."},
    {Py_tp_new, loader_new},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {0, NULL}};

static PyType_Spec spec = {.name = "stoker._native.Loader",
                           .basicsize = sizeof(loader),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int stk_py_add_loader(PyObject *module)
{
    stk_py.loader = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return stk_py.loader ? PyModule_AddObjectRef(module, "Loader", (PyObject *)stk_py.loader) : -1;
}

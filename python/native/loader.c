/* SPDX-License-Identifier: Apache-2.0 */
/* stk_loader of Python: the interpreter is free while it waits, and Ctrl-C is heard. */
#include "dataset.h"

enum { LOOK_MS = 50 };

typedef struct loader {
    PyObject_HEAD
    stk_py_dataset *source;
    stk_dataset *dataset; /* a share of the source's, or a view of it */
    stk_loader *loader;   /* NULL: closed */
    stk_loader_options options;
    PyObject *texts; /* that the options point into */
    stk_py_meter meter;
    stk_py_live live;
    stk_py_held_list held;
    bool own;          /* the source is of no use to others */
    bool busy, warned; /* busy: a thread is in a call without the GIL */
} loader;

stk_py_held_list *stk_py_held_of(PyObject *owner)
{
    return &((loader *)owner)->held;
}

const stk_py_meter *stk_py_meter_of(PyObject *owner)
{
    return &((loader *)owner)->meter;
}

/* ---- Making and ending ---- */

PyObject *stk_py_dataset_check(PyObject *object, PyObject *texts)
{
    stk_loader_description description = {.struct_size = sizeof description};
    stk_loader_options options;
    stk_error err;

    if (!PyDict_Check(texts)) {
        PyErr_SetString(PyExc_TypeError, "options are a dict");
        return NULL;
    }
    stk_error_init(&err);
    stk_loader_options_init(&options);
    if (stk_py_set_options("loader", &options, texts))
        return NULL;
    if (stk_loader_describe(((stk_py_dataset *)object)->dataset, &options, &description, NULL, 0,
                            &err) != STK_OK)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static bool usable(const loader *self)
{
    if (self->loader && !self->busy)
        return true;
    PyErr_SetString(PyExc_RuntimeError, self->loader ? "the loader is in use by another thread"
                                                     : "the loader is closed");
    return false;
}

/* The samples of `order`, uint64 indices; NULL: all. Then go to batch `step`. */
static stk_status begin(loader *self, const Py_buffer *order, unsigned long long step,
                        stk_error *err)
{
    stk_status status = STK_OK;
    stk_loader_state state;

    self->dataset = stk_dataset_ref(self->source->dataset);
    if (order->buf)
        status = stk_dataset_subset(&self->dataset, order->buf,
                                    (uint64_t)order->len / sizeof(uint64_t), err);
    if (status == STK_OK)
        status = stk_loader_create(self->dataset, &self->options, &self->loader, err);
    if (status == STK_OK && step) {
        stk_loader_get_state(self->loader, &state);
        state.step = step;
        status = stk_loader_restore(self->loader, &state, err);
    }
    return status;
}

/* The dataset that was given, or that of a spec. */
static int take_source(loader *self, PyObject *given)
{
    const char *spec;

    if (PyObject_TypeCheck(given, stk_py.dataset)) {
        Py_INCREF(given);
        self->source = (stk_py_dataset *)given;
        return 0;
    }
    if (!PyUnicode_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a dataset is its spec, or arrays");
        return -1;
    }
    spec = PyUnicode_AsUTF8AndSize(given, NULL);
    self->own = true;
    self->source = spec ? (stk_py_dataset *)stk_py_dataset_open(stk_py.dataset, spec) : NULL;
    return self->source ? 0 : -1;
}

static int fill(loader *self, PyObject *given, PyObject *texts, const Py_buffer *order,
                unsigned long long step)
{
    stk_status status;
    stk_error err;

    Py_INCREF(texts);
    self->texts = texts;
    stk_error_init(&err);
    stk_loader_options_init(&self->options);
    if (stk_py_set_options("loader", &self->options, texts) || take_source(self, given))
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = begin(self, order, step, &err);
    Py_END_ALLOW_THREADS
    stk_py_hand_over_messages(self->source);
    if (status != STK_OK) {
        stk_py_raise(&err);
        return -1;
    }
    const char *spec = PyUnicode_Check(given) ? PyUnicode_AsUTF8AndSize(given, NULL) : NULL;
    stk_py_live_begin(&self->live, spec ? spec : "a dataset of Python", &self->options);
    return 0;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dataset", "options", "order", "step", NULL};
    PyObject *given, *texts;
    unsigned long long step = 0;
    Py_buffer order = {0};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!|z*K", names, &given, &PyDict_Type, &texts,
                                     &order, &step))
        return NULL;
    loader *self = NULL;
    if (order.len % (Py_ssize_t)sizeof(uint64_t) || (uintptr_t)order.buf % _Alignof(uint64_t))
        PyErr_SetString(PyExc_ValueError, "an order is an array of uint64 indices");
    else
        self = (loader *)PyType_GenericAlloc(type, 0);
    if (self && fill(self, given, texts, &order, step))
        Py_CLEAR(self);
    PyBuffer_Release(&order);
    return (PyObject *)self;
}

/* Batches that are looked at outlive it: they hold the memory of the ring, and the ring the
 * context, whose messages the source holds. */
static void end(loader *self)
{
    stk_loader *ended = self->loader;

    self->loader = NULL; /* from here on nobody else reaches it */
    stk_py_meter_end(&self->meter);
    stk_py_live_end(&self->live);
    Py_BEGIN_ALLOW_THREADS
    stk_loader_destroy(&ended);
    stk_dataset_close(&self->dataset);
    Py_END_ALLOW_THREADS
    if (self->own)
        stk_py_dataset_end(self->source);
    else
        stk_py_hand_over_messages(self->source);
}

static void loader_dealloc(PyObject *object)
{
    loader *self = (loader *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->source) {
        end(self);
        Py_DECREF(self->source);
    }
    Py_XDECREF(self->texts);
    PyObject_Free(object);
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

/* Once for a loader. -1: the warning is an exception. */
static int warn(loader *self)
{
    if (self->warned)
        return 0;
    self->warned = true;
    return PyErr_WarnEx(PyExc_RuntimeWarning,
                        "all batches of the loader are kept: it goes on with memory beyond "
                        "memory_budget. Keep copies of what is needed, or fewer batches",
                        3);
}

int stk_py_before_share(stk_py_held *held)
{
    loader *self = (loader *)held->owner;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_error err;

    if (!self->loader)
        return 0;
    stk_loader_get_stats(self->loader, &stats);
    if (stats.held <= stats.depth)
        return 0;
    if (warn(self))
        return -1;
    const stk_status status = stk_batch_detach(&held->batch, &err);
    if (status != STK_OK && status != STK_EBUSY) /* shared already: it stays where it is */
        stk_py_raise(&err);
    return status == STK_OK || status == STK_EBUSY ? 0 : -1;
}

/* All slabs are held: the oldest that can takes its memory along. */
static int make_room(loader *self, stk_error *err)
{
    stk_status status = STK_EBUSY;

    if (!self->warned && (warn(self) || !usable(self))) /* who hears of it may have closed it */
        return -1;
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
    stk_py_live_look(&self->live, self->source->context);
    Py_BEGIN_ALLOW_THREADS
    status = stk_loader_next(self->loader, LOOK_MS, batch, err);
    Py_END_ALLOW_THREADS
    self->busy = false;
    return status;
}

/* The next batch, as what `make` makes of it. Signals and messages run code of Python, which may
 * close the loader. */
static PyObject *next_batch(PyObject *object, PyObject *(*make)(stk_py_held *held))
{
    loader *self = (loader *)object;
    stk_batch *batch = NULL;
    stk_status status = STK_EAGAIN;
    stk_error err;

    stk_py_held *held = NULL;
    while (status == STK_EAGAIN || status == STK_EBUSY) {
        if (PyErr_CheckSignals() || !usable(self) || (status == STK_EBUSY && make_room(self, &err)))
            return NULL;
        status = wait_for_batch(self, &batch, &err);
        if (status == STK_OK)
            held = stk_py_hold(object, batch);
        stk_py_hand_over_messages(self->source);
        if (status == STK_EBUSY && !self->held.first)
            break;
    }
    if (status == STK_EOS)
        Py_RETURN_NONE;
    if (status != STK_OK)
        return stk_py_raise(&err);
    PyObject *made = held ? make(held) : NULL;
    if (held)
        stk_py_let_go(held);
    return made;
}

static PyObject *loader_next(PyObject *object, PyObject *unused)
{
    return next_batch(object, stk_py_tensors);
}

static PyObject *loader_next_arrow(PyObject *object, PyObject *unused)
{
    return next_batch(object, stk_py_record_batch);
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
        self->busy = true;
        Py_BEGIN_ALLOW_THREADS
        status = stk_loader_restore(self->loader, &state, &err);
        Py_END_ALLOW_THREADS
        self->busy = false;
    }
    stk_py_hand_over_messages(self->source);
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
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    status = stk_loader_set_epoch(self->loader, epoch, &err);
    Py_END_ALLOW_THREADS
    self->busy = false;
    if (status != STK_OK)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    const loader *self = (loader *)object;
    stk_loader_stats s = {.struct_size = sizeof s};

    /* While another thread waits for a batch, too. */
    if (!self->loader && !usable(self))
        return NULL;
    stk_loader_get_stats(self->loader, &s);
    return stk_py_stats(&s);
}

static PyObject *loader_start_meter(PyObject *object, PyObject *unused)
{
    loader *self = (loader *)object;
    stk_error err;

    if (!usable(self))
        return NULL;
    if (stk_py_meter_start(&self->meter, self->source->context, self->loader, &self->options, &err))
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
    const stk_figures figures = stk_py_meter_figures(&((loader *)object)->meter);

    return stk_py_verdict(&figures);
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
    {"next_arrow", loader_next_arrow, METH_NOARGS,
     "next_arrow($self, /)\n--\n\nThe next batch for libraries of Arrow; None at the end of an "
     "epoch."},
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
    {Py_tp_doc, "Loader(dataset, options, order=None, step=0)\n--\n\nSamples to batches; options "
                "are texts. `order` are uint64 indices of the samples to take, in place of all."},
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
    stk_py.loader = stk_py_add_type(module, &spec);
    return stk_py.loader ? 0 : -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `stoker bench` in the interpreter that has the dataset: stoker._bench. */
#include <stdio.h>

#include "native.h"

/* ---- The feed: an object of Python ---- */

/* What a call of Python left behind, as an error of the library, in the words that the feed has for
 * it. Its thread has the GIL. */
static stk_status fail(PyObject *feed, stk_error *err)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    const bool ended = PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt);
    PyObject *said = ended ? NULL : PyObject_CallMethod(feed, "tell", "O", value);
    const char *text = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    stk_error_init(err);
    err->status = ended ? STK_ECANCELED : STK_EKIND;
    err->stage = STK_STAGE_MEASURE;
    snprintf(err->text, sizeof err->text, "%s", text ? text : "an exception without words");
    PyErr_Clear();
    Py_XDECREF(said);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return err->status;
}

/* Call a method whose result is None or, where `number` is asked for, an int. */
static stk_status call(PyObject *feed, const char *name, uint64_t argument, int64_t *number,
                       stk_error *err)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *got = PyErr_CheckSignals()
                        ? NULL
                        : PyObject_CallMethod(feed, name, "K", (unsigned long long)argument);
    stk_status status = STK_OK;

    if (got && number)
        *number = PyLong_AsLongLong(got);
    if (!got || PyErr_Occurred())
        status = fail(feed, err);
    Py_XDECREF(got);
    PyGILState_Release(state);
    return status;
}

static stk_status open_feed(void *feed, stk_error *err)
{
    return call(feed, "open", 0, NULL, err);
}

static stk_status begin_epoch(void *feed, uint64_t epoch, stk_error *err)
{
    return call(feed, "begin", epoch, NULL, err);
}

static stk_status next_batch(void *feed, uint64_t *samples, stk_error *err)
{
    int64_t number = 0;
    stk_status status = call(feed, "next", 0, &number, err);

    *samples = (uint64_t)number;
    return status == STK_OK && number < 0 ? STK_EOS : status;
}

static stk_status end_feed(void *feed, stk_error *err)
{
    return call(feed, "end", 0, NULL, err);
}

static stk_status run_step(void *feed, const stk_batch *batch, stk_error *err)
{
    (void)batch;
    return call(feed, "step", 0, NULL, err);
}

static void look(void *feed, stk_bench_feed_stats *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    unsigned long long steps, budget;
    long long workers, prefetch;
    int pinned, persistent;
    double busy;
    stk_error err;

    PyObject *got = PyObject_CallMethod(feed, "look", NULL);
    if (got && PyArg_ParseTuple(got, "KLLppdK", &steps, &workers, &prefetch, &pinned, &persistent,
                                &busy, &budget))
        *out = (stk_bench_feed_stats){.struct_size = sizeof *out,
                                      .steps = steps,
                                      .num_workers = workers,
                                      .prefetch = prefetch,
                                      .pin_memory = pinned,
                                      .persistent_workers = persistent,
                                      .busy = busy,
                                      .budget_bytes = budget};
    else
        (void)fail(feed, &err);
    Py_XDECREF(got);
    PyGILState_Release(state);
}

/* ---- The run ---- */

static void say(void *user, stk_message_level level, const char *text)
{
    (void)user;
    if (level >= STK_MESSAGE_WARNING)
        fprintf(stderr, "stoker: %s\n", text);
}

/* What a run writes to its command. */
typedef struct outcome {
    stk_bench_result result;
    stk_figures figures;
} outcome;

static void run(stk_context *context, const stk_bench_setting *setting, outcome *out)
{
    stk_bench *bench = NULL;
    stk_error err;

    stk_status status = stk_bench_create(context, setting, &bench, &err);
    if (status == STK_OK) {
        (void)stk_bench_run(bench, &out->result, &out->figures, &err);
    } else {
        out->result.status = status;
        out->result.error = err;
    }
    stk_bench_destroy(&bench);
}

static PyObject *bench_run(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"feed",   "bench",  "loader",    "label",       "about",        "log",
                            "number", "repeat", "free_data", "log_summary", "step_threads", NULL};
    PyObject *feed, *bench_texts, *loader_texts;
    unsigned long long number, repeat;
    unsigned step_threads;
    int free_data, log_summary;
    stk_context *context;
    stk_bench_options options;
    stk_loader_options loader;
    stk_bench_setting setting = {.struct_size = sizeof setting};
    stk_error err;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!O!sszKKppI", names, &feed,
                                     &PyDict_Type, &bench_texts, &PyDict_Type, &loader_texts,
                                     &setting.label, &setting.about, &setting.log, &number, &repeat,
                                     &free_data, &log_summary, &step_threads))
        return NULL;
    stk_bench_options_init(&options);
    stk_loader_options_init(&loader);
    if (stk_py_set_options("bench", &options, bench_texts) ||
        stk_py_set_options("loader", &loader, loader_texts))
        return NULL;
    const stk_bench_feed of_python = {.struct_size = sizeof of_python,
                                      .open = open_feed,
                                      .begin = begin_epoch,
                                      .next = next_batch,
                                      .end = end_feed,
                                      .look = look,
                                      .user = feed};
    const stk_bench_step step = {
        .struct_size = sizeof step, .threads = step_threads, .run = run_step, .user = feed};
    setting.bench = &options;
    setting.loader = &loader;
    setting.feed = &of_python;
    setting.step = step_threads ? &step : NULL;
    setting.number = number;
    setting.repeat = repeat;
    setting.free_data = free_data;
    setting.log_summary = log_summary;
    outcome *out = PyMem_Calloc(1, sizeof *out); /* half a megabyte is no thing for a stack */
    if (!out)
        return PyErr_NoMemory();
    if (stk_py_context(say, NULL, &context, &err) != STK_OK) {
        PyMem_Free(out);
        return stk_py_raise(&err);
    }
    out->result.struct_size = sizeof out->result;
    out->figures.struct_size = sizeof out->figures;
    Py_BEGIN_ALLOW_THREADS
    run(context, &setting, out);
    stk_context_destroy(&context);
    Py_END_ALLOW_THREADS
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)out, sizeof *out);
    PyMem_Free(out);
    return bytes;
}

static PyObject *bench_sizes(PyObject *module, PyObject *nothing)
{
    return Py_BuildValue("(nn)", (Py_ssize_t)sizeof(stk_bench_result),
                         (Py_ssize_t)sizeof(stk_figures));
}

/* ---- The log of a worker ---- */

typedef struct sample_log {
    PyObject_HEAD
    stk_context *context;
    stk_event_log *log;
} sample_log;

static PyObject *log_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"path", NULL};
    const char *path;
    stk_error err;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s", names, &path))
        return NULL;
    sample_log *self = (sample_log *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    stk_status status = stk_py_context(say, NULL, &self->context, &err);
    if (status == STK_OK)
        status = stk_event_log_open(self->context, path, &self->log, &err);
    if (status == STK_OK)
        return (PyObject *)self;
    stk_py_raise(&err);
    Py_DECREF(self);
    return NULL;
}

static PyObject *log_sample(PyObject *object, PyObject *arguments)
{
    unsigned long long epoch, index, start, end;
    long long worker;

    if (!PyArg_ParseTuple(arguments, "KKLKK", &epoch, &index, &worker, &start, &end))
        return NULL;
    stk_event_log_sample(((sample_log *)object)->log, epoch, index, worker, start, end);
    Py_RETURN_NONE;
}

static PyObject *log_close(PyObject *object, PyObject *nothing)
{
    sample_log *self = (sample_log *)object;
    stk_error err;

    stk_status status = stk_event_log_close(&self->log, &err);
    stk_context_destroy(&self->context);
    if (status != STK_OK)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static void log_dealloc(PyObject *object)
{
    sample_log *self = (sample_log *)object;
    PyTypeObject *type = Py_TYPE(object);

    (void)stk_event_log_close(&self->log, NULL);
    stk_context_destroy(&self->context);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef log_methods[] = {
    {"sample", log_sample, METH_VARARGS,
     "sample($self, epoch, index, worker, start_ns, end_ns, /)\n--\n\nBoth events of a sample; "
     "times of "
     "time.monotonic_ns()."},
    {"close", log_close, METH_NOARGS, "close($self, /)\n--\n\nWrite what is buffered."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot log_slots[] = {
    {Py_tp_new, log_new},
    {Py_tp_dealloc, log_dealloc},
    {Py_tp_methods, log_methods},
    {Py_tp_doc, "SampleLog(path)\n--\n\nEvents of samples that a worker prepares."},
    {0, NULL}};

static PyType_Spec log_spec = {.name = "stoker._native.SampleLog",
                               .basicsize = sizeof(sample_log),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                               .slots = log_slots};

static PyMethodDef functions[] = {
    {"bench_run", (PyCFunction)(void (*)(void))bench_run, METH_VARARGS | METH_KEYWORDS,
     "bench_run($module, /, feed, bench, loader, label, about, log, number, repeat, free_data, "
     "log_summary, step_threads)\n--\n\nMeasure: the bytes of result and figures."},
    {"bench_sizes", bench_sizes, METH_NOARGS,
     "bench_sizes($module, /)\n--\n\nBytes of a result, and of figures."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_bench(PyObject *module)
{
    return stk_py_add_type(module, &log_spec) ? PyModule_AddFunctions(module, functions) : -1;
}

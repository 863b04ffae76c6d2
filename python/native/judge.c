/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on figures: of a loop, or of others, as of a trainer that has its own ledger. */
#include <stdio.h>

#include "native.h"

enum kind { REAL, COUNT, NUMBER, CORES };

static const struct figure {
    const char *name;
    size_t offset;
    enum kind kind;
} figures[] = {
    {"samples_per_s", offsetof(stk_figures, samples_per_s), REAL},
    {"wait_mean", offsetof(stk_figures, wait.mean), REAL},
    {"wait_p50", offsetof(stk_figures, wait.p50), REAL},
    {"wait_p95", offsetof(stk_figures, wait.p95), REAL},
    {"step_share", offsetof(stk_figures, step_share), REAL},
    {"step_time", offsetof(stk_figures, step_time), REAL},
    {"wall", offsetof(stk_figures, wall), REAL},
    {"cpu_s", offsetof(stk_figures, cpu_s), REAL},
    {"transfer_s", offsetof(stk_figures, transfer_s), REAL},
    {"validation_s", offsetof(stk_figures, validation_s), REAL},
    {"callbacks_s", offsetof(stk_figures, callbacks_s), REAL},
    {"checkpoint_s", offsetof(stk_figures, checkpoint_s), REAL},
    {"samples", offsetof(stk_figures, samples), COUNT},
    {"steps", offsetof(stk_figures, steps), COUNT},
    {"batch_size", offsetof(stk_figures, batch_size), COUNT},
    {"num_workers", offsetof(stk_figures, num_workers), NUMBER},
    {"usable_cores", offsetof(stk_figures, usable_cores), CORES},
    {"ranks", offsetof(stk_figures, ranks), CORES},
};

/* Whether the member of this kind holds it. */
static bool fits(enum kind kind, double value)
{
    const double most = kind == CORES ? UINT32_MAX : 0x1p53;

    return kind == REAL || (value >= (kind == NUMBER ? -most : 0) && value <= most);
}

/* -1: an exception. */
static int set_figure(stk_figures *f, const char *name, double value)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        void *at = (char *)f + figures[i].offset;
        if (strcmp(figures[i].name, name) != 0)
            continue;
        if (!fits(figures[i].kind, value)) {
            PyErr_Format(PyExc_ValueError, "the figure '%s' is out of range", name);
            return -1;
        }
        if (figures[i].kind == REAL)
            *(double *)at = value;
        else if (figures[i].kind == COUNT)
            *(uint64_t *)at = (uint64_t)value;
        else if (figures[i].kind == NUMBER)
            *(int64_t *)at = (int64_t)value;
        else
            *(uint32_t *)at = (uint32_t)value;
        return 0;
    }
    PyErr_Format(PyExc_KeyError, "no figure '%s'", name);
    return -1;
}

PyObject *stk_py_verdict(const stk_figures *f)
{
    stk_verdict v = {.struct_size = sizeof v};

    if (f->steps > 0) {
        stk_judge(f, &v);
    } else {
        v.limit = STK_LIMIT_UNKNOWN;
        v.gain = 1;
        snprintf(v.text, sizeof v.text, "No batch was taken: there is nothing to judge.");
    }
    return Py_BuildValue(
        "{sssdsdsssssdsssKsdsdsdsd}", "limit", stk_limit_name(v.limit), "lost_share", v.lost_share,
        "limit_share", v.limit_share, "knob", v.knob, "value", v.value, "gain", v.gain, "text",
        v.text, "steps", (unsigned long long)f->steps, "samples_per_s", f->samples_per_s,
        "wait_mean", f->wait.mean, "step_time", f->step_time, "step_share", f->step_share);
}

/* By their names. Converting a value may run code that changes `given`. -1: an exception. */
static int set_figures(stk_figures *f, PyObject *given)
{
    PyObject *items = PyDict_Items(given), *value;
    int failed = items ? 0 : -1;
    const char *name;

    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        failed = PyArg_ParseTuple(PyList_GetItem(items, i), "sO", &name, &value) ? 0 : -1;
        const double number = failed ? 0 : PyFloat_AsDouble(value);
        failed = PyErr_Occurred() || set_figure(f, name, number) ? -1 : 0;
    }
    Py_XDECREF(items);
    return failed;
}

PyObject *stk_py_judge(PyObject *module, PyObject *args)
{
    stk_figures judged = {.struct_size = sizeof judged};
    PyObject *given, *loader;

    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &given, &loader))
        return NULL;
    if (loader != Py_None && !PyObject_TypeCheck(loader, stk_py.loader))
        return PyErr_Format(PyExc_TypeError, "the second argument is a loader or None");
    if (loader != Py_None)
        judged = stk_py_meter_figures(stk_py_meter_of(loader));
    return set_figures(&judged, given) ? NULL : stk_py_verdict(&judged);
}

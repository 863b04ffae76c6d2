/* the public C interface -> objects of Python */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_PYTHON_NATIVE_H
#define STK_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <stoker/bench.h>
#include <stoker/dlpack.h>
#include <stoker/live.h>
#include <stoker/loader.h>
#include <stoker/measure.h>

/* What the module has made of Python's: one for the process, as it is refused in subinterpreters.
 */
typedef struct stk_py_module {
    PyObject *error; /* stoker.Error */
    /* Its subclasses, by -status, of which STK_EINTERNAL is the last; NULL: stoker.Error itself. */
    PyObject *errors[1 - STK_EINTERNAL];
    PyTypeObject *dataset, *loader, *tensor, *record_batch;
} stk_py_module;

extern stk_py_module stk_py;

/* A type under the last part of its name; it stays for good. NULL: an exception. */
PyTypeObject *stk_py_add_type(PyObject *module, PyType_Spec *spec);

int stk_py_add_errors(PyObject *module);
int stk_py_add_tensor(PyObject *module);
int stk_py_add_record_batch(PyObject *module);
int stk_py_add_dataset(PyObject *module);
int stk_py_add_loader(PyObject *module);
int stk_py_add_bench(PyObject *module);
int stk_py_add_array(PyObject *module);
int stk_py_add_shared(PyObject *module);
int stk_py_add_stack(PyObject *module);

/* Raise what a call of the library says. Always NULL. */
PyObject *stk_py_raise(const stk_error *err);
/* Of Python: the exception of (the name of a status, text, key, sample). */
PyObject *stk_py_make_error(PyObject *module, PyObject *args);

/* Options of a table from a dict of texts, which live as long as the dict. -1: an exception. */
int stk_py_set_options(const char *table, void *options, PyObject *texts);

/* (launcher, rank, world_size, local_rank, local_world_size, sharing) of an environment, a dict. */
PyObject *stk_py_ranks(PyObject *module, PyObject *environment);

/* A context with what the environment says of object stores and ranks, which is why it is made with
 * the GIL held: os.environ changes it. `say` may be NULL. */
stk_status stk_py_context(stk_message_fn *say, void *user, stk_context **out, stk_error *err);

/* Do what takes long without the GIL. In the main thread it is done by a thread of its own, and
 * signals are looked at meanwhile: one that raises calls `cancel` until the work has ended. False:
 * an exception. */
bool stk_py_run(void (*work)(void *user), void *user, void (*cancel)(void *user));

/*
 * A batch that tensors of Python look at: the last of them gives it back. Guarded by the GIL. The
 * loader of Python knows those that are held, the oldest first, to take them from the ring.
 */
typedef struct stk_py_held stk_py_held;
struct stk_py_held {
    stk_batch *batch;
    PyObject *owner; /* the loader, which lives as long */
    stk_py_held *before, *after;
    Py_ssize_t users;
};

typedef struct stk_py_held_list {
    stk_py_held *first, *last;
} stk_py_held_list;

/* The list of the loader that `owner` is. */
stk_py_held_list *stk_py_held_of(PyObject *owner);
/* Takes over the batch; the caller is its first user. NULL: MemoryError, and the batch is given
 * back. */
stk_py_held *stk_py_hold(PyObject *owner, stk_batch *batch);
void stk_py_let_go(stk_py_held *held);
/* Before another library gets a share of the batch, which cannot leave the ring afterwards: it does
 * so where no other slab is free. -1: an exception. */
int stk_py_before_share(stk_py_held *held);

/* All fields of a batch in their order: a Tensor for each, or (values, offsets) where they are not
 * of one size. New reference. */
PyObject *stk_py_tensors(stk_py_held *held);

/* The same as one object for libraries of Arrow. New reference. */
PyObject *stk_py_record_batch(stk_py_held *held);

/* As a dict. New reference. */
PyObject *stk_py_stats(const stk_loader_stats *stats);

/* What others see of a loader that has been at work for some time. Guarded by the GIL. */
typedef struct stk_py_live {
    stk_live *open; /* NULL: not yet, or it could not be */
    bool tried;
    int64_t born; /* s of CLOCK_MONOTONIC */
    char label[128];
} stk_py_live;

/* `name` is that of the dataset. */
void stk_py_live_begin(stk_py_live *live, const char *name, const stk_loader_options *options);
/* From time to time, by who may let go of the GIL: it opens the sheet once. */
void stk_py_live_look(stk_py_live *live, stk_context *context);
/* Before the loader goes. */
void stk_py_live_end(stk_py_live *live);

/* The meter of a loop. Guarded by the GIL. Zeros are one that has measured nothing. */
typedef struct stk_py_meter {
    stk_meter *open;     /* of the loop that runs or ran last; NULL: its loader is gone */
    uint64_t stopped_ns; /* when the loop ended; 0: it runs */
    stk_figures figures; /* of the last loop, when its loader has gone */
} stk_py_meter;

/* A loop begins, and ends. Twice does no harm. */
stk_status stk_py_meter_start(stk_py_meter *meter, stk_context *context, const stk_loader *loader,
                              const stk_loader_options *options, stk_error *err);
void stk_py_meter_stop(stk_py_meter *meter);
/* Before the loader goes. */
void stk_py_meter_end(stk_py_meter *meter);
/* Of the loader that `owner` is. */
const stk_py_meter *stk_py_meter_of(PyObject *owner);
/* The function `judge` of the module. */
PyObject *stk_py_judge(PyObject *module, PyObject *args);
/* Of the loop that runs, or ran last; zeros: of none. */
stk_figures stk_py_meter_figures(const stk_py_meter *meter);
/* The verdict as a dict. New reference. */
PyObject *stk_py_verdict(const stk_figures *figures);

#endif

/* spec, arrays -> dataset */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_PYTHON_DATASET_H
#define STK_PYTHON_DATASET_H

#include "native.h"

typedef struct stk_py_memory stk_py_memory;

/* Whoever has a share of `dataset` keeps this object as well: it holds what the context writes
 * messages to, and the buffers of arrays. */
typedef struct stk_py_dataset {
    PyObject_HEAD
    stk_context *context;
    stk_dataset *dataset;
    stk_py_memory *memory; /* NULL: opened from a spec */
    struct stk_py_messages *messages;
} stk_py_dataset;

/* New reference; NULL: an exception is set. */
PyObject *stk_py_dataset_open(PyTypeObject *type, const char *spec);
/* Close dataset and context early; their last user was the caller. */
void stk_py_dataset_end(stk_py_dataset *self);
/* Whether a loader of such options can be made: None, or its exception. */
PyObject *stk_py_dataset_check(PyObject *self, PyObject *options);
/* What the library has said since goes to `logging`. */
void stk_py_hand_over_messages(const stk_py_dataset *self);

/* A dataset over buffers of Python, one (name, dtype, buffer, picture) for each field. NULL: an
 * exception is set. It ends behind the dataset. */
stk_py_memory *stk_py_memory_open(stk_context *context, PyObject *fields, stk_dataset **out);
/* Accepts NULL. */
void stk_py_memory_close(stk_py_memory *memory);

#endif

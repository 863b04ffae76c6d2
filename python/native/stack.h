/* values of samples -> their rows of a batch */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_PYTHON_STACK_H
#define STK_PYTHON_STACK_H

#include "native.h"

/* Where rows go: from `at` up to the end of the buffer, which has to be released. */
typedef struct stk_py_rows {
    Py_buffer target;
    char *at;
} stk_py_rows;

/* `bytes` of `target`, from `offset` on. -1: an exception. */
int stk_py_rows_open(PyObject *target, Py_ssize_t offset, Py_ssize_t bytes, stk_py_rows *out);

/* Write the values of an array that is as `like` is, whose buffer is `first`. 1: done; 0: it is not
 * like it; -1: an exception. */
int stk_py_write_array(PyObject *item, PyObject *like, const Py_buffer *first, char *to);
/* Has the first values of an array on their way from memory; anything else is nothing. */
void stk_py_expect_array(PyObject *item);
/* The same as stk_py_write_array() of a number; `kind` as in struct: 'q' int, 'd' float, '?' bool. */
int stk_py_write_number(PyObject *item, int kind, char *to);

int stk_py_add_rows(PyObject *module);

#endif

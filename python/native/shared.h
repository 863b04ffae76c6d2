/* memory that a worker process and its consumer share, and the packets that tell of it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_PYTHON_SHARED_H
#define STK_PYTHON_SHARED_H

#include <sys/types.h>

#include "native.h"

enum {
    STK_PY_SLAB_HEADER = 64,   /* bytes of a slab that are not for values */
    STK_PY_PACKET_SIZE = 8192, /* the most that one has */
    STK_PY_TASK_NUMBERS = 512, /* the most indices that a task has as numbers */
};

/* The next packet of a socket: its bytes, 0: there will be none. `slab`: what came with it, or
 * NULL. -1: an exception, BlockingIOError where `flags` say not to wait and there is none. */
ssize_t stk_py_receive(int from, int flags, char packet[STK_PY_PACKET_SIZE], PyObject **slab);

/* A Lease of a Slab whose last view gives it back; `data`, `size`: all bytes of it. NULL: an
 * exception. */
PyObject *stk_py_lease(PyObject *slab, const char **data, size_t *size);

int stk_py_add_packet(PyObject *module);

#endif

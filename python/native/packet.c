/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between a consumer and its workers: tasks as they are sent, answers as they are read. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "shared.h"

/* As _message.py unpacks it: "=BIQQ". */
typedef struct __attribute__((packed)) task {
    uint8_t kind;
    uint32_t epoch;
    uint64_t number, size;
} task;

/* As _message.py packs it: "=BIQIIQQQQI". */
typedef struct __attribute__((packed)) head {
    uint8_t kind;
    uint32_t epoch;
    uint64_t number;
    uint32_t slab;
    uint32_t gone;                 /* a slab that is none any more, + 1 */
    uint64_t place, size;          /* of the payload; at 0 it is in the packet */
    uint64_t state_at, state_size; /* of the dataset's state */
    uint32_t buffers;              /* whose table the payload begins with */
} head;

/* Where a buffer lies. */
typedef struct __attribute__((packed)) entry {
    uint64_t at, size;
} entry;

static bool lies_in(uint64_t at, uint64_t size, uint64_t all)
{
    return at <= all && size <= all - at;
}

static PyObject *beyond(void)
{
    return PyErr_Format(PyExc_ValueError, "an answer beyond its slab");
}

/* The slab that the answer lies in; the dict keeps the ones that are known. Borrowed. */
static PyObject *slab_of(const head *h, PyObject *slabs, PyObject *sent)
{
    PyObject *key = PyLong_FromUnsignedLong(h->slab), *found = NULL;
    PyObject *gone = h->gone ? PyLong_FromUnsignedLong(h->gone - 1) : NULL;

    if (gone && PyDict_DelItem(slabs, gone))
        PyErr_Clear(); /* it was never used */
    if (key && !PyErr_Occurred() && (!sent || PyDict_SetItem(slabs, key, sent) == 0)) {
        found = PyDict_GetItemWithError(slabs, key);
        if (!found && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, key);
    }
    Py_XDECREF(key);
    Py_XDECREF(gone);
    return found;
}

/* A list of memoryviews, each of what an entry says. */
static PyObject *buffers_of(PyObject *memory, const char *table, uint32_t count, size_t size)
{
    PyObject *all = PyList_New(0);

    for (uint32_t i = 0; all && i < count; i++) {
        entry e;
        memcpy(&e, table + i * sizeof e, sizeof e);
        PyObject *one =
            lies_in(e.at, e.size, size)
                ? PySequence_GetSlice(memory, (Py_ssize_t)e.at, (Py_ssize_t)(e.at + e.size))
                : beyond();
        if (!one || PyList_Append(all, one))
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

/* The payload behind the table of buffers, and these. -1: an exception. */
static int read_values(const head *h, const char *packet, size_t got, PyObject *lease,
                       const char *data, size_t size, PyObject **payload, PyObject **buffers)
{
    const uint64_t table = (uint64_t)h->buffers * sizeof(entry);
    const char *from = h->place ? data + h->place : packet + sizeof *h;
    const uint64_t length = h->place ? h->size : got - sizeof *h;

    if (length < table || (h->place && !lies_in(h->place, h->size, size))) {
        beyond();
        return -1;
    }
    PyObject *memory = h->place || table ? PyMemoryView_FromObject(lease) : NULL;
    if (h->place)
        *payload = memory ? PySequence_GetSlice(memory, (Py_ssize_t)(h->place + table),
                                                (Py_ssize_t)(h->place + length))
                          : NULL;
    else
        *payload = PyBytes_FromStringAndSize(from + table, (Py_ssize_t)(length - table));
    *buffers = !*payload || (table && !memory) ? NULL : buffers_of(memory, from, h->buffers, size);
    Py_XDECREF(memory);
    return *buffers ? 0 : -1;
}

/* The random state, of `own` bytes, and the dataset's behind it. */
static PyObject *state_of(const head *h, const char *data, size_t size, size_t own)
{
    if (!lies_in(h->state_at, h->state_size, size) || !lies_in(STK_PY_SLAB_HEADER, own, size))
        return beyond();
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(own + h->state_size));
    if (made) {
        char *to = PyBytes_AsString(made);
        memcpy(to, data + STK_PY_SLAB_HEADER, own);
        memcpy(to + own, data + h->state_at, h->state_size);
    }
    return made;
}

static PyObject *read_answer(const char *packet, size_t got, PyObject *slabs, PyObject *sent,
                             size_t own)
{
    PyObject *payload = NULL, *buffers = NULL, *state = NULL, *answer = NULL;
    const char *data;
    size_t size;
    head h;

    if (got < sizeof h)
        return PyErr_Format(PyExc_ValueError, "an answer of %zu bytes", got);
    memcpy(&h, packet, sizeof h);
    PyObject *slab = slab_of(&h, slabs, sent);
    PyObject *lease = slab ? stk_py_lease(slab, &data, &size) : NULL;
    if (lease && !read_values(&h, packet, got, lease, data, size, &payload, &buffers) &&
        (state = state_of(&h, data, size, own)))
        answer = Py_BuildValue("(iIKOOOO)", h.kind, (unsigned)h.epoch, (unsigned long long)h.number,
                               lease, payload, buffers, state);
    Py_XDECREF(payload);
    Py_XDECREF(buffers);
    Py_XDECREF(state);
    Py_XDECREF(lease);
    return answer;
}

/* ConnectionResetError is the end too: the worker was killed with tasks unread. */
static PyObject *answer_receive(PyObject *module, PyObject *args)
{
    char packet[STK_PY_PACKET_SIZE];
    PyObject *slabs, *sent = NULL;
    Py_ssize_t own;
    int from;

    if (!PyArg_ParseTuple(args, "iOn", &from, &slabs, &own))
        return NULL;
    if (own < 0 || !PyDict_Check(slabs))
        return PyErr_Format(PyExc_TypeError, "no dict of slabs, or no size of a state");
    const ssize_t got = stk_py_receive(from, MSG_DONTWAIT, packet, &sent);
    if (got == 0 || (got == -1 && PyErr_ExceptionMatches(PyExc_ConnectionResetError))) {
        PyErr_SetNone(PyExc_EOFError);
        return NULL;
    }
    if (got == -2)
        Py_RETURN_NONE;
    PyObject *answer = got > 0 ? read_answer(packet, (size_t)got, slabs, sent, (size_t)own) : NULL;
    Py_XDECREF(sent);
    return answer;
}

/* ---- Tasks ---- */

static PyObject *task_send(PyObject *module, PyObject *args)
{
    unsigned long long number;
    unsigned epoch;
    const char *payload;
    Py_ssize_t size;
    int to, kind;

    if (!PyArg_ParseTuple(args, "iiIKy#", &to, &kind, &epoch, &number, &payload, &size))
        return NULL;
    const task first = {
        .kind = (uint8_t)kind, .epoch = epoch, .number = number, .size = (uint64_t)size};
    struct iovec parts[] = {{(void *)&first, sizeof first}, {(void *)payload, (size_t)size}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    do
        sent = sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR && !PyErr_CheckSignals());
    if (sent < 0 && !PyErr_Occurred())
        PyErr_SetFromErrno(PyExc_OSError);
    if (sent < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Who has something to say ---- */

static PyObject *readable(PyObject *module, PyObject *descriptors)
{
    const Py_ssize_t count = PySequence_Size(descriptors);
    struct pollfd *all = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *all);
    PyObject *found = all ? PyList_New(0) : NULL;

    if (!all)
        return count < 0 ? NULL : PyErr_NoMemory();
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *one = PySequence_GetItem(descriptors, i);
        all[i] = (struct pollfd){.fd = one ? (int)PyLong_AsLong(one) : -1, .events = POLLIN};
        Py_XDECREF(one);
        if (PyErr_Occurred())
            Py_CLEAR(found);
    }
    /* It does not wait; after a signal there is nothing, and the next call sees it. */
    const int ready = found ? poll(all, (nfds_t)count, 0) : 0;
    for (Py_ssize_t i = 0; found && ready > 0 && i < count; i++) {
        PyObject *number = all[i].revents ? PyLong_FromSsize_t(i) : NULL;
        if (all[i].revents && (!number || PyList_Append(found, number)))
            Py_CLEAR(found);
        Py_XDECREF(number);
    }
    PyMem_Free(all);
    return found;
}

static PyMethodDef functions[] = {
    {"answer_receive", answer_receive, METH_VARARGS,
     "answer_receive($module, fd, slabs, size, /)\n--\n\n"
     "Without waiting: (kind, epoch, number, Lease, payload, buffers, state), where the random "
     "state has so many bytes; None: there is none. EOFError: there will be none."},
    {"task_send", task_send, METH_VARARGS,
     "task_send($module, fd, kind, epoch, number, payload, /)\n--\n\n"
     "Without waiting: BlockingIOError where the socket is full."},
    {"readable", readable, METH_O,
     "readable($module, fds, /)\n--\n\nWhich of these have something to read now, or their end."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_packet(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between a consumer and its workers: tasks as they are sent, answers as they are read. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "shared.h"

/* As _message.py packs it: "=BBIQQ". */
typedef struct __attribute__((packed)) task {
    uint8_t kind;
    uint8_t packed; /* the payload is numbers of 64 bits; else a pickle */
    uint32_t epoch;
    uint64_t number, size;
} task;

/* As _message.py packs it: "=BBIQIIQQQQI". */
typedef struct __attribute__((packed)) head {
    uint8_t kind;
    uint8_t moved; /* whether the random state is in the slab; else it is that of the answer before */
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

/* The random state, of `own` bytes, and the dataset's behind it. `before`: of the answer before. */
static PyObject *state_of(const head *h, const char *data, size_t size, size_t own,
                          PyObject *before)
{
    if (!lies_in(h->state_at, h->state_size, size) || !lies_in(STK_PY_SLAB_HEADER, own, size))
        return beyond();
    const char *from = data + STK_PY_SLAB_HEADER;
    if (own > 0 && !h->moved) {
        if (!PyBytes_Check(before) || (size_t)PyBytes_Size(before) < own)
            return PyErr_Format(PyExc_ValueError, "an answer without its random state");
        if (h->state_size == 0 && (size_t)PyBytes_Size(before) == own)
            return Py_NewRef(before);
        from = PyBytes_AsString(before);
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(own + h->state_size));
    if (made) {
        char *to = PyBytes_AsString(made);
        memcpy(to, from, own);
        memcpy(to + own, data + h->state_at, h->state_size);
    }
    return made;
}

static PyObject *read_answer(const char *packet, size_t got, PyObject *slabs, PyObject *sent,
                             size_t own, PyObject *before)
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
        (state = state_of(&h, data, size, own, before)))
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
    PyObject *slabs, *before = Py_None, *sent = NULL;
    Py_ssize_t own;
    int from;

    if (!PyArg_ParseTuple(args, "iOn|O", &from, &slabs, &own, &before))
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
    PyObject *answer =
        got > 0 ? read_answer(packet, (size_t)got, slabs, sent, (size_t)own, before) : NULL;
    Py_XDECREF(sent);
    return answer;
}

/* ---- Tasks ---- */

/* Of a list of nothing but ints: how many there are, each written as 64 bits. -1: it is not one, or
 * there are too many of them. */
static Py_ssize_t pack_numbers(PyObject *list, int64_t *out, Py_ssize_t most)
{
    const Py_ssize_t count = PyList_CheckExact(list) ? PyList_Size(list) : -1;

    for (Py_ssize_t i = 0; count <= most && i < count; i++) {
        PyObject *one = PyList_GetItem(list, i);
        int overflow;

        out[i] = PyLong_CheckExact(one) ? PyLong_AsLongLongAndOverflow(one, &overflow) : 0;
        if (!PyLong_CheckExact(one) || overflow)
            return -1;
    }
    return count <= most ? count : -1;
}

static PyObject *unpack_numbers(const char *from, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);

    for (Py_ssize_t i = 0; list && i < count; i++) {
        int64_t value;
        memcpy(&value, from + i * (Py_ssize_t)sizeof value, sizeof value);
        PyObject *one = PyLong_FromLongLong(value);
        if (!one || PyList_SetItem(list, i, one))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *task_send(PyObject *module, PyObject *args)
{
    int64_t numbers[STK_PY_TASK_NUMBERS];
    unsigned long long number;
    unsigned epoch;
    PyObject *payload;
    int to, kind;

    if (!PyArg_ParseTuple(args, "iiIKO", &to, &kind, &epoch, &number, &payload))
        return NULL;
    const Py_ssize_t count = pack_numbers(payload, numbers, STK_PY_TASK_NUMBERS);
    if (count < 0 && !PyBytes_Check(payload))
        Py_RETURN_FALSE;
    const size_t size = (size_t)(count < 0 ? PyBytes_Size(payload) : count * 8);
    const task first = {.kind = (uint8_t)kind,
                        .packed = count >= 0,
                        .epoch = epoch,
                        .number = number,
                        .size = (uint64_t)size};
    struct iovec parts[] = {{(void *)&first, sizeof first},
                            {count < 0 ? PyBytes_AsString(payload) : (void *)numbers, size}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    do
        sent = sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR && !PyErr_CheckSignals());
    if (sent < 0 && !PyErr_Occurred())
        PyErr_SetFromErrno(PyExc_OSError);
    if (sent < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *task_receive(PyObject *module, PyObject *argument)
{
    char packet[STK_PY_PACKET_SIZE];
    const int from = (int)PyLong_AsLong(argument);
    PyObject *sent, *payload;
    task t;

    if (PyErr_Occurred())
        return NULL;
    const ssize_t got = stk_py_receive(from, 0, packet, &sent);
    if (got == 0)
        Py_RETURN_NONE;
    if (got < 0)
        return NULL;
    if ((size_t)got >= sizeof t)
        memcpy(&t, packet, sizeof t);
    if ((size_t)got < sizeof t || (!sent && t.size != (size_t)got - sizeof t) ||
        (t.packed && t.size % 8)) {
        Py_XDECREF(sent);
        return PyErr_Format(PyExc_ValueError, "a task of %zd bytes", got);
    }
    if (sent)
        payload = PyLong_FromUnsignedLongLong(t.size);
    else if (t.packed)
        payload = unpack_numbers(packet + sizeof t, (Py_ssize_t)(t.size / 8));
    else
        payload = PyBytes_FromStringAndSize(packet + sizeof t, (Py_ssize_t)t.size);
    return Py_BuildValue("(iIKNN)", t.kind, (unsigned)t.epoch, (unsigned long long)t.number,
                         payload, sent ? sent : Py_NewRef(Py_None));
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
     "answer_receive($module, fd, slabs, size, before=None, /)\n--\n\n"
     "Without waiting: (kind, epoch, number, Lease, payload, buffers, state), where the random "
     "state has so many bytes, those of the state `before` if it has not moved; None: there is "
     "none. EOFError: there will be none."},
    {"task_send", task_send, METH_VARARGS,
     "task_send($module, fd, kind, epoch, number, payload, /)\n--\n\n"
     "Without waiting: BlockingIOError where the socket is full. The payload is bytes or a list of "
     "ints; False: it is neither, or they are large or many."},
    {"task_receive", task_receive, METH_O,
     "task_receive($module, fd, /)\n--\n\n"
     "(kind, epoch, number, payload, Slab or None) of the next one; None: there will be none. The "
     "payload is as it was sent, with a Slab the bytes that are in it."},
    {"readable", readable, METH_O,
     "readable($module, fds, /)\n--\n\nWhich of these have something to read now, or their end."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_packet(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}

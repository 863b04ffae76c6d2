/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a worker process and its consumer share: slabs, and tensors that lie in them. */
#define _GNU_SOURCE /* memfd_create, seals */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared.h"

/* The first bytes of a slab. The worker sets `given` and hands the slab over; whoever ends the last
 * view of it clears it. So each has one writer at a time, and there is no lock that dies with its
 * holder. */
typedef struct header {
    _Atomic uint32_t given;
} header;

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics between processes");

enum { MAX_RANK = 64 };

/* A mapped slab: unmapped with its last user, in any thread. */
typedef struct mapping {
    _Atomic long users;
    void *data;
    size_t size;
} mapping;

typedef struct slab {
    PyObject_HEAD
    mapping *memory;
} slab;

/* A batch in a slab that views look at. */
typedef struct views {
    _Atomic long users;
    mapping *memory;
    pid_t consumer; /* whose last view gives the slab back; 0: nobody's */
} views;

typedef struct lease {
    PyObject_HEAD
    views *views;
} lease;

static PyTypeObject *slab_type, *lease_type;

static void mapping_end(mapping *m)
{
    if (atomic_fetch_sub(&m->users, 1) != 1)
        return;
    munmap(m->data, m->size);
    free(m);
}

static void views_end(views *v)
{
    if (atomic_fetch_sub(&v->users, 1) != 1)
        return;
    header *h = v->memory->data;
    /* In a child of fork() the consumer's views go on. */
    if (v->consumer == getpid())
        atomic_store_explicit(&h->given, 0, memory_order_release);
    mapping_end(v->memory);
    free(v);
}

/* ---- Tensors ---- */

typedef struct exported {
    stk_dlpack plain;
    views *views;
    int64_t sizes[]; /* shape, then strides */
} exported;

static void exported_end(stk_dlpack *plain)
{
    exported *e = plain->manager;

    views_end(e->views);
    free(e);
}

static void capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        exported_end(PyCapsule_GetPointer(capsule, "dltensor"));
}

static int read_sizes(PyObject *from, int rank, int64_t *out)
{
    for (int i = 0; i < rank; i++) {
        PyObject *size = PySequence_GetItem(from, i);
        out[i] = size ? PyLong_AsLongLong(size) : -1;
        Py_XDECREF(size);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* How many bytes a tensor of these sizes reaches over, or -1. */
static int64_t reach(const int64_t *shape, const int64_t *strides, int rank, int64_t item)
{
    int64_t last = 0;
    bool empty = false, overflow = false;

    for (int i = 0; i < rank; i++) {
        int64_t step;
        if (shape[i] < 0 || strides[i] < 0)
            return -1;
        empty |= shape[i] == 0;
        overflow |= __builtin_mul_overflow(shape[i] - 1, strides[i], &step) ||
                    __builtin_add_overflow(last, step, &last);
    }
    overflow |= __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item, &last);
    return empty ? 0 : overflow ? -1 : last;
}

/* Strides of C order. Those of no tensor are negative. */
static void set_steps(const int64_t *shape, int64_t *steps, Py_ssize_t rank)
{
    int64_t step = 1;

    for (Py_ssize_t i = rank; i-- > 0;) {
        steps[i] = step;
        if (step >= 0 && __builtin_mul_overflow(step, shape[i], &step))
            step = -1;
    }
}

/* (offset, code, bits, shape, strides or nothing) -> a capsule. */
static PyObject *lease_tensor(PyObject *self, PyObject *args)
{
    views *v = ((lease *)self)->views;
    PyObject *shape, *strides = Py_None;
    long long offset;
    int code, bits;

    if (!PyArg_ParseTuple(args, "LiiO|O", &offset, &code, &bits, &shape, &strides))
        return NULL;
    const Py_ssize_t rank = PySequence_Size(shape);
    if (rank < 0 || (strides != Py_None && PySequence_Size(strides) != rank) || rank > MAX_RANK ||
        code < 0 || code > UINT8_MAX || bits <= 0 || bits % 8 || bits > UINT8_MAX)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "sizes of no tensor");
    exported *e = calloc(1, sizeof *e + 2 * (size_t)rank * sizeof *e->sizes);
    if (!e)
        return PyErr_NoMemory();
    int64_t *steps = e->sizes + rank;
    if (read_sizes(shape, (int)rank, e->sizes) ||
        (strides != Py_None && read_sizes(strides, (int)rank, steps)))
        goto refused;
    if (strides == Py_None)
        set_steps(e->sizes, steps, rank);
    const int64_t bytes = reach(e->sizes, steps, (int)rank, bits / 8);
    if (bytes < 0 || offset < STK_PY_SLAB_HEADER || (uint64_t)offset > v->memory->size ||
        (uint64_t)bytes > v->memory->size - (uint64_t)offset) {
        PyErr_SetString(PyExc_ValueError, "a tensor beyond its slab");
        goto refused;
    }
    e->views = v;
    e->plain = (stk_dlpack){.tensor = {.data = (char *)v->memory->data + offset,
                                       .device_type = STK_DLPACK_CPU,
                                       .ndim = (int32_t)rank,
                                       .code = (uint8_t)code,
                                       .bits = (uint8_t)bits,
                                       .lanes = 1,
                                       .shape = e->sizes,
                                       .strides = steps},
                            .manager = e,
                            .deleter = exported_end};
    PyObject *capsule = PyCapsule_New(&e->plain, "dltensor", capsule_end);
    if (!capsule)
        goto refused;
    atomic_fetch_add(&v->users, 1);
    return capsule;
refused:
    free(e);
    return NULL;
}

/* What `make` returns for the capsule of each place. */
static PyObject *lease_tensors(PyObject *self, PyObject *args)
{
    PyObject *places, *make;

    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &places, &make))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(places);
    PyObject *all = PyList_New(count);
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *capsule = lease_tensor(self, PyTuple_GetItem(places, i));
        PyObject *one = capsule ? PyObject_CallFunctionObjArgs(make, capsule, NULL) : NULL;
        Py_XDECREF(capsule);
        if (!one || PyList_SetItem(all, i, one))
            Py_CLEAR(all);
    }
    return all;
}

/* ---- Leases ---- */

static int lease_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const mapping *m = ((lease *)self)->views->memory;

    return PyBuffer_FillInfo(view, self, m->data, (Py_ssize_t)m->size, 0, flags);
}

static void lease_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    views_end(((lease *)self)->views);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef lease_methods[] = {
    {"tensor", lease_tensor, METH_VARARGS,
     "tensor($self, offset, code, bits, shape, strides=None, /)\n--\n\n"
     "A DLPack capsule of the values at `offset`; strides in elements."},
    {"tensors", lease_tensors, METH_VARARGS,
     "tensors($self, places, make, /)\n--\n\n"
     "What `make` returns for each tensor(*place)."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot lease_slots[] = {
    {Py_tp_doc, "A batch in a slab: a writable buffer over all of it. The last view of it that "
                "ends gives the slab back to its worker."},
    {Py_tp_dealloc, lease_dealloc},
    {Py_tp_methods, lease_methods},
    {Py_bf_getbuffer, lease_get_buffer},
    {0, NULL}};

static PyType_Spec lease_spec = {.name = "stoker._native.Lease",
                                 .basicsize = sizeof(lease),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = lease_slots};

/* ---- Slabs ---- */

static PyObject *make_lease(mapping *m, pid_t consumer)
{
    lease *l = PyObject_New(lease, lease_type);
    views *v = l ? malloc(sizeof *v) : NULL;

    if (!v) {
        if (l)
            PyObject_Free(l);
        return PyErr_NoMemory();
    }
    atomic_fetch_add(&m->users, 1);
    *v = (views){.users = 1, .memory = m, .consumer = consumer};
    l->views = v;
    return (PyObject *)l;
}

static PyObject *slab_lease(PyObject *self, PyObject *gives_back)
{
    return make_lease(((slab *)self)->memory, gives_back == Py_True ? getpid() : 0);
}

PyObject *stk_py_lease(PyObject *of, const char **data, size_t *size)
{
    mapping *m = ((slab *)of)->memory;

    *data = m->data;
    *size = m->size;
    return make_lease(m, getpid());
}

static PyObject *slab_give(PyObject *self, PyObject *unused)
{
    header *h = ((slab *)self)->memory->data;

    atomic_store_explicit(&h->given, 1, memory_order_release);
    Py_RETURN_NONE;
}

static PyObject *slab_given(PyObject *self, void *unused)
{
    header *h = ((slab *)self)->memory->data;

    return PyBool_FromLong((long)atomic_load_explicit(&h->given, memory_order_acquire));
}

static Py_ssize_t slab_length(PyObject *self)
{
    return (Py_ssize_t)((slab *)self)->memory->size;
}

static void slab_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    mapping_end(((slab *)self)->memory);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef slab_methods[] = {
    {"lease", slab_lease, METH_O,
     "lease($self, gives_back, /)\n--\n\nLook at it; `gives_back`: the last view clears `given`."},
    {"give", slab_give, METH_NOARGS, "give($self, /)\n--\n\nIt is the consumer's from now on."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef slab_getters[] = {
    {"given", slab_given, NULL, "Whether the consumer has it.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slab_slots[] = {
    {Py_tp_doc, "Memory shared with another process; len() is its bytes."},
    {Py_tp_dealloc, slab_dealloc},
    {Py_tp_methods, slab_methods},
    {Py_tp_getset, slab_getters},
    {Py_sq_length, slab_length},
    {0, NULL}};

static PyType_Spec slab_spec = {.name = "stoker._native.Slab",
                                .basicsize = sizeof(slab),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = slab_slots};

/* The memory of a descriptor, all of it. The consumer's pages are looked up as it reads them: 16 at
 * a time, in half the time that MAP_POPULATE takes. */
static PyObject *map(int fd, size_t size)
{
    slab *s = PyObject_New(slab, slab_type);
    mapping *m = s ? malloc(sizeof *m) : NULL;

    if (!m) {
        if (s)
            PyObject_Free(s);
        return PyErr_NoMemory();
    }
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        free(m);
        PyObject_Free(s);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    *m = (mapping){.users = 1, .data = data, .size = size};
    s->memory = m;
    return (PyObject *)s;
}

static PyObject *slab_create(PyObject *module, PyObject *argument)
{
    const Py_ssize_t size = PyLong_AsSsize_t(argument);

    if (size < STK_PY_SLAB_HEADER)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_ValueError, "a slab of %zd bytes", size);
    const int fd = memfd_create("stoker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *made = NULL;
    if (ftruncate(fd, size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        PyErr_SetFromErrno(PyExc_OSError);
    else
        made = map(fd, (size_t)size);
    if (!made) {
        close(fd);
        return NULL;
    }
    return Py_BuildValue("(Ni)", made, fd);
}

/* What another process made. */
static PyObject *attach(int fd)
{
    struct stat st;

    if (fstat(fd, &st))
        return PyErr_SetFromErrno(PyExc_OSError);
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size < STK_PY_SLAB_HEADER)
        return PyErr_Format(PyExc_ValueError, "descriptor %d is not of a slab", fd);
    return map(fd, (size_t)st.st_size);
}

/* Waits for a packet, unless the flags say not to, for which the interpreter is not let go. -1: an
 * exception, -2: there is none. */
static ssize_t receive(int from, struct msghdr *message, int flags)
{
    const size_t room = message->msg_controllen;
    const bool waits = !(flags & MSG_DONTWAIT);
    ssize_t got;

    do {
        message->msg_controllen = room;
        PyThreadState *state = waits ? PyEval_SaveThread() : NULL;
        got = recvmsg(from, message, flags | MSG_CMSG_CLOEXEC);
        if (waits)
            PyEval_RestoreThread(state);
    } while (got < 0 && errno == EINTR && !PyErr_CheckSignals());
    if (got >= 0 && message->msg_flags & MSG_CTRUNC) {
        errno = EMFILE;
        got = -1;
    }
    if (got >= 0 || PyErr_Occurred())
        return got;
    if (!waits && errno == EAGAIN)
        return -2;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

/* All in one call: an interrupt leaves no descriptor behind. */
ssize_t stk_py_receive(int from, int flags, char packet[STK_PY_PACKET_SIZE], PyObject **sent)
{
    int fd = -1;
    _Alignas(struct cmsghdr) char extra[CMSG_SPACE(sizeof fd)];
    struct iovec part = {packet, STK_PY_PACKET_SIZE};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = extra, .msg_controllen = sizeof extra};

    *sent = NULL;
    const ssize_t got = receive(from, &message, flags);
    const struct cmsghdr *head = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (!head)
        return got;
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
    *sent = attach(fd);
    close(fd);
    return *sent ? got : -1;
}

/* ---- The end of the consumer ---- */

static void *watch(void *pidfd)
{
    struct pollfd one = {.fd = (int)(intptr_t)pidfd, .events = POLLIN};

    while (poll(&one, 1, -1) < 0)
        ;
    _exit(0);
}

/* In a thread without the interpreter, which a long call of a dataset does not stop. */
static PyObject *end_with(PyObject *module, PyObject *argument)
{
    const int pidfd = (int)PyLong_AsLong(argument);
    pthread_t thread;
    sigset_t all, before;

    if (pidfd < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no descriptor");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, NULL, watch, (void *)(intptr_t)pidfd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    pthread_detach(thread);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"slab_create", slab_create, METH_O,
     "slab_create($module, size, /)\n--\n\nA sealed Slab of so many bytes, and its descriptor."},
    {"end_with", end_with, METH_O,
     "end_with($module, pidfd, /)\n--\n\nEnd this process when the one of `pidfd` has ended."},
    {NULL, NULL, 0, NULL}};

int stk_py_add_shared(PyObject *module)
{
    slab_type = stk_py_add_type(module, &slab_spec);
    lease_type = slab_type ? stk_py_add_type(module, &lease_spec) : NULL;
    return lease_type && !PyModule_AddFunctions(module, functions) ? stk_py_add_packet(module) : -1;
}

/* A file, a context, and reads that tell how they ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_AIO_FIXTURE_H
#define STK_TESTS_AIO_FIXTURE_H

#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/aio.h"

#define FILE_SIZE 1000003u

typedef struct fixture {
    stk_io_engine engine;
    stk_context *context;
    char folder[256];
    int fd;
    unsigned char *bytes;
} fixture;

typedef struct job {
    stk__aio_read read;
    unsigned char *data;
    sem_t *ended; /* posted by done() */
    sem_t *hold;  /* done() waits for it (a test's way of stopping a worker) */
    atomic_int calls;
    stk_status status;
    int error;
    atomic_uint *sequence;
    unsigned place; /* when it ended, counted by `sequence` */
} job;

static inline void on_done(stk__aio_read *read, stk_status status, int error)
{
    job *j = (job *)read;

    j->status = status;
    j->error = error;
    if (j->sequence)
        j->place = atomic_fetch_add(j->sequence, 1);
    atomic_fetch_add(&j->calls, 1);
    sem_t *ended = j->ended;
    sem_t *hold = j->hold;
    sem_post(ended);
    if (hold)
        while (sem_wait(hold) != 0)
            ;
}

static inline void fill(job *j, int fd, uint64_t offset, uint64_t length, sem_t *ended)
{
    memset(j, 0, sizeof *j);
    j->data = malloc(length ? length : 1);
    assert_non_null(j->data);
    j->read = (stk__aio_read){
        .fd = fd, .data = j->data, .offset = offset, .length = length, .done = on_done};
    j->ended = ended;
}

static inline void wait_for(sem_t *ended, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (sem_wait(ended) != 0)
            assert_int_equal(errno, EINTR);
}

static inline bool is_good(const job *j, const fixture *f)
{
    return j->status == STK_OK && j->calls == 1 &&
           memcmp(j->data, f->bytes + j->read.offset, j->read.length) == 0;
}

static inline int set_up(void **state, stk_io_engine engine)
{
    fixture *f = calloc(1, sizeof *f);
    uint64_t seed = 7;

    f->engine = engine;
    f->context = test_context();
    test_folder(f->folder);
    f->bytes = malloc(FILE_SIZE);
    for (size_t i = 0; i < FILE_SIZE; i++)
        f->bytes[i] = (unsigned char)test_random(&seed);
    test_write(f->folder, "data", f->bytes, FILE_SIZE);
    char path[300];
    snprintf(path, sizeof path, "%s/data", f->folder);
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    *state = f;
    return 0;
}

static inline int set_up_threads(void **state)
{
    return set_up(state, STK_IO_THREADS);
}

static inline int set_up_uring(void **state)
{
    return set_up(state, STK_IO_URING);
}

static inline int tear_down(void **state)
{
    fixture *f = *state;

    close(f->fd);
    test_folder_remove(f->folder);
    stk_context_destroy(&f->context);
    free(f->bytes);
    free(f);
    return 0;
}

/* The engine of the fixture; skips the test where the kernel refuses io_uring. */
static inline stk__aio *engine_of(fixture *f, uint32_t depth)
{
    stk__aio *aio = NULL;
    stk_error err;
    stk_status status = stk__aio_create(f->context, f->engine, depth, &aio, &err);

    if (f->engine == STK_IO_URING && status == STK_ENOTSUP) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    assert_ok(status, &err);
    assert_int_equal(aio->ops->engine, f->engine);
    return aio;
}

#endif

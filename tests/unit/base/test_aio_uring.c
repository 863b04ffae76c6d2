/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous reads over a ring that is interrupted, answers in part and breaks. */
#include <dlfcn.h>
#include <liburing.h>
#include <sys/syscall.h>

#include "aio_fixture.h"

enum { JOBS = 24, IN_A_ROW = 150 };

/* What the ring answers, as the tests want it. */
static struct {
    atomic_bool on, breaks; /* `breaks`: after the first answer that is changed, for good */
    atomic_int refused;     /* with this */
    atomic_uint entries;    /* the first are interrupted, then every other one */
    job jobs[JOBS];
    unsigned interrupted[JOBS], shortened[JOBS];
} ring;

static _Atomic uint64_t pread_calls, pread_offset, pread_size; /* how many, and the last */

/* Of an answer that is changed nobody may rely on the bytes. */
static void change(struct io_uring_cqe *cqe)
{
    for (size_t i = 0; i < JOBS; i++) {
        job *j = &ring.jobs[i];
        const int32_t had = cqe->res;
        if (io_uring_cqe_get_data(cqe) != j || had <= 0)
            continue;
        if (ring.interrupted[i] < i && !ring.breaks) {
            ring.interrupted[i]++;
            cqe->res = -EINTR;
        } else if (ring.shortened[i] < 2 && had > 1) {
            ring.shortened[i]++;
            cqe->res = had / 2;
            if (ring.breaks)
                ring.refused = EIO;
        }
        const int32_t has = STK_MAX(cqe->res, 0);
        memset((char *)j->read.data + j->read.got + has, 0xee, (size_t)(had - has));
    }
}

#pragma GCC visibility push(default)

int io_uring_submit_and_wait_timeout(struct io_uring *r, struct io_uring_cqe **cqe, unsigned n,
                                     struct __kernel_timespec *limit, sigset_t *mask)
{
    __typeof__(io_uring_submit_and_wait_timeout) *real =
        (__typeof__(real))dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
    struct io_uring_cqe *at;
    unsigned head;

    if (ring.refused)
        return -ring.refused;
    const unsigned entry = ring.on ? atomic_fetch_add(&ring.entries, 1) : UINT32_MAX;
    if (entry < IN_A_ROW || entry % 2 == 0)
        return -EINTR;
    const int result = real(r, cqe, n, limit, mask);
    if (ring.on) {
        io_uring_for_each_cqe(r, head, at)
        {
            change(at);
        }
    }
    return result;
}

int io_uring_submit(struct io_uring *r)
{
    __typeof__(io_uring_submit) *real = (__typeof__(real))dlsym(RTLD_NEXT, "io_uring_submit");

    return ring.refused ? -ring.refused : real(r);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    pread_offset = (uint64_t)offset;
    pread_size = size;
    pread_calls++;
    return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
    return pread(fd, data, size, offset);
}

#pragma GCC visibility pop

static void begin(const fixture *f, size_t jobs, bool breaks, sem_t *ended)
{
    sem_init(ended, 0, 0);
    memset(ring.interrupted, 0, sizeof ring.interrupted);
    memset(ring.shortened, 0, sizeof ring.shortened);
    for (size_t i = 0; i < JOBS; i++)
        ring.jobs[i] = (job){0};
    for (size_t i = 0; i < jobs; i++)
        fill(&ring.jobs[i], f->fd, 4096 + i * 333, 20000 + i, ended);
    ring.entries = 0;
    ring.breaks = breaks;
    ring.on = true;
}

static void end(const fixture *f, stk__aio *aio, size_t jobs)
{
    stk__aio_destroy(&aio);
    ring.on = false;
    ring.refused = 0;
    for (size_t i = 0; i < jobs; i++) {
        assert_true(is_good(&ring.jobs[i], f));
        free(ring.jobs[i].data);
    }
}

/* Entries of the kernel that are interrupted, reads that are, as often as it likes, and reads that
 * come in parts. */
static void test_interrupted_and_short(void **state)
{
    fixture *f = *state;
    unsigned most = 0;
    sem_t ended;

    for (uint32_t depth = 1; depth <= 4; depth *= 4) {
        stk__aio *aio = engine_of(f, depth);
        begin(f, JOBS, false, &ended);
        for (size_t i = 0; i < JOBS; i++)
            assert_int_equal(stk__aio_submit(aio, &ring.jobs[i].read), STK_OK);
        wait_for(&ended, JOBS);
        end(f, aio, JOBS);
        for (size_t i = 0; i < JOBS; i++)
            most = STK_MAX(most, ring.interrupted[i]);
    }
    assert_true(most > 8);
    assert_true(ring.shortened[0] > 0);
    assert_int_equal(pread_calls, 0);
}

/* A read comes in part just when the ring is given up: threads read the rest of it, once. */
static void test_breaks_over_a_short_read(void **state)
{
    fixture *f = *state;
    const stk__aio_read *read = &ring.jobs[0].read;
    stk__aio *aio = engine_of(f, 2);
    sem_t ended;

    begin(f, 1, true, &ended);
    assert_int_equal(stk__aio_submit(aio, &ring.jobs[0].read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(ring.shortened[0], 1);
    assert_int_equal(pread_calls, 1);
    assert_int_equal(pread_offset, read->offset + read->length / 2);
    assert_int_equal(pread_size, read->length - read->length / 2);
    end(f, aio, 1);
}

#define URING(name) cmocka_unit_test_setup_teardown(name, set_up_uring, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        URING(test_interrupted_and_short),
        URING(test_breaks_over_a_short_read),
    };

    return cmocka_run_group_tests_name("aio_uring", tests, NULL, NULL);
}

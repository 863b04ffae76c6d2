/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous reads over system calls that fail, are interrupted, come short or do not return. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "aio_fixture.h"

/* ---- pread() as the tests want it, in place of the C library's ---- */

static atomic_bool interrupting; /* EINTR, then half of it, then all of what is asked for */
static atomic_uint calls;
static _Atomic uint64_t not_before;            /* it ends with one byte, and not before this time */
static sem_t *_Atomic entered, *_Atomic leave; /* it says that it has begun, and waits */
static _Atomic uint64_t asked_offset, asked_size; /* of the last call */
static atomic_int piped = -1;                     /* a pipe, which has no offsets */

#pragma GCC visibility push(default)

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    const unsigned call = interrupting ? atomic_fetch_add(&calls, 1) % 3 : 2;
    sem_t *in = entered, *out = leave;

    asked_offset = (uint64_t)offset;
    asked_size = size;
    if (call == 0) {
        errno = EINTR;
        return -1;
    }
    if (in)
        sem_post(in);
    if (out)
        wait_for(out, 1);
    if (not_before)
        stk__sleep_until(not_before, NULL);
    if (call == 1 || not_before || out)
        size = call == 1 ? (size + 1) / 2 : 1;
    if (fd == piped)
        return syscall(SYS_read, fd, data, size);
    return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
    return pread(fd, data, size, offset);
}

#pragma GCC visibility pop

static void test_interrupted_and_short(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 3);
    job jobs[30];
    sem_t ended;

    sem_init(&ended, 0, 0);
    interrupting = true;
    for (int i = 0; i < 30; i++) {
        fill(&jobs[i], f->fd, (uint64_t)i * 7, 1 + 1000 * (uint64_t)i, &ended);
        assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
    }
    wait_for(&ended, 30);
    interrupting = false;
    for (int i = 0; i < 30; i++) {
        assert_int_equal(jobs[i].status, STK_OK);
        assert_memory_equal(jobs[i].data, f->bytes + jobs[i].read.offset, jobs[i].read.length);
        free(jobs[i].data);
    }
    stk__aio_destroy(&aio);
}

/* The kernel ends a part of the read when its time is over. */
static void test_deadline_of_running(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 1);
    sem_t ended, in;
    job j;

    sem_init(&ended, 0, 0);
    sem_init(&in, 0, 0);
    fill(&j, f->fd, 0, 1000, &ended);
    j.read.deadline_ns = stk__now_ns() + UINT64_C(200000000);
    not_before = j.read.deadline_ns;
    entered = &in;
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_OK);
    wait_for(&ended, 1);
    not_before = 0;
    entered = NULL;
    assert_int_equal(j.status, STK_ETIMEDOUT);
    assert_int_equal(j.calls, 1);
    stk__aio_destroy(&aio);
    free(j.data);
}

static void test_cancel_of_running(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 1);
    sem_t ended, in, out;
    job j;

    sem_init(&ended, 0, 0);
    sem_init(&in, 0, 0);
    sem_init(&out, 0, 0);
    fill(&j, f->fd, 0, 1000, &ended);
    entered = &in;
    leave = &out;
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_OK);
    wait_for(&in, 1);
    entered = leave = NULL;
    stk__aio_cancel(aio, &j.read);
    assert_int_equal(j.calls, 0);
    sem_post(&out);
    wait_for(&ended, 1);
    assert_int_equal(j.status, STK_ECANCELED);
    stk__aio_destroy(&aio);
    free(j.data);
}

static void *destroy(void *argument)
{
    stk__aio *aio = argument;

    stk__aio_destroy(&aio);
    return NULL;
}

/* Whoever destroys may free the buffers next: not before the kernel has given them back. */
static void test_destroy_waits_for_running(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 1);
    sem_t ended, in, out;
    struct timespec limit;
    pthread_t destroyer;
    job jobs[2];

    sem_init(&ended, 0, 0);
    sem_init(&in, 0, 0);
    sem_init(&out, 0, 0);
    for (int i = 0; i < 2; i++)
        fill(&jobs[i], f->fd, 0, 1000, &ended);
    entered = &in;
    leave = &out;
    assert_int_equal(stk__aio_submit(aio, &jobs[0].read), STK_OK);
    wait_for(&in, 1);
    entered = leave = NULL;
    assert_int_equal(stk__aio_submit(aio, &jobs[1].read), STK_OK);
    assert_int_equal(pthread_create(&destroyer, NULL, destroy, aio), 0);
    wait_for(&ended, 1);
    assert_int_equal(jobs[1].status, STK_ECANCELED);
    /* However long one looks: it cannot end before the read does. */
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += 50000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    assert_int_equal(pthread_timedjoin_np(destroyer, NULL, &limit), ETIMEDOUT);
    assert_int_equal(jobs[0].calls, 0);
    sem_post(&out);
    assert_int_equal(pthread_join(destroyer, NULL), 0);
    assert_int_equal(jobs[0].calls, 1);
    assert_int_equal(jobs[0].status, STK_ECANCELED);
    for (int i = 0; i < 2; i++)
        free(jobs[i].data);
}

/* ---- io_uring ---- */

/* In a child whose io_uring_setup() is refused, as container runtimes do. Exit code 0: all as it
 * should be. */
static int child_without_uring(int *step)
{
    stk_context *context = NULL;
    stk__aio *aio = NULL;
    stk_error err;

    if (!test_deny_call(SYS_io_uring_setup, EPERM))
        return 77;
    *step = 1;
    if (stk_context_create(NULL, &context, &err) != STK_OK)
        return 1;
    *step = 2;
    if (stk__aio_create(context, STK_IO_URING, 4, &aio, &err) != STK_ENOTSUP || aio)
        return 2;
    if (stk__aio_create(context, STK_IO_AUTO, 4, &aio, &err) != STK_OK)
        return 3;
    if (aio->ops->engine != STK_IO_THREADS)
        return 4;
    stk__aio_destroy(&aio);
    stk_context_destroy(&context);
    return 0;
}

static void test_refused_uring_falls_back(void **state)
{
    int step = 0, status = 0;

    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child_without_uring(&step));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no seccomp filters here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Deadlines, cancels and the end of an engine whose ring is given up; 20 reads. 0: as it should be.
 */
static int end_broken(stk__aio *aio, const fixture *f, job *jobs)
{
    jobs[18].read.deadline_ns = 1;
    for (int i = 0; i < 20; i++)
        if (stk__aio_submit(aio, &jobs[i].read) != STK_OK)
            return 1;
    stk__aio_cancel(aio, &jobs[19].read);
    stk__aio_destroy(&aio);
    for (int i = 0; i < 18; i++)
        if (!is_good(&jobs[i], f) && jobs[i].status != STK_ECANCELED)
            return 2;
    return jobs[18].calls == 1 && jobs[19].calls == 1 && jobs[18].status != STK_OK ? 0 : 3;
}

/* The kernel ends the first 4 of 10 bytes: threads ask for the other 6, where they are. */
static bool end_in_part(const int ends[2])
{
    sem_t in;

    sem_init(&in, 0, 0);
    piped = ends[0];
    entered = &in;
    if (write(ends[1], "abcd", 4) != 4)
        return false;
    wait_for(&in, 1);
    entered = NULL;
    return asked_offset == 4 && asked_size == 6;
}

/* In a child whose io_uring_enter() fails from some point on, with a read in the kernel, which ends
 * whole or in part. Exit code 0: all as it should be. */
static int child_with_broken_uring(fixture *f, int error, bool in_parts)
{
    stk__aio *aio = NULL;
    job jobs[41];
    sem_t ended;
    int ends[2];

    if (stk__aio_create(f->context, STK_IO_URING, 4, &aio, NULL) != STK_OK)
        return 77;
    sem_init(&ended, 0, 0);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 1;
    for (int i = 0; i < 41; i++)
        fill(&jobs[i], i ? f->fd : ends[0], i ? (uint64_t)i * 1000 : 0, i ? 50000 : 10, &ended);
    for (int i = 0; i < 21; i++) {
        if (stk__aio_submit(aio, &jobs[i].read) != STK_OK)
            return 2;
        /* Once the second has ended, the first is in the kernel. */
        if (i == 1)
            wait_for(&ended, 1);
        if (i == 1 && !test_deny_call(SYS_io_uring_enter, error))
            return 77;
    }
    wait_for(&ended, 19);
    for (int i = 1; i < 21; i++)
        if (!is_good(&jobs[i], f))
            return 3;
    /* The kernel still has the first one, and nobody may take its buffer away. */
    if (in_parts && !end_in_part(ends))
        return 6;
    if (write(ends[1], in_parts ? "efghij" : "abcdefghij", in_parts ? 6 : 10) < 6)
        return 4;
    wait_for(&ended, 1);
    if (jobs[0].status != STK_OK || memcmp(jobs[0].data, "abcdefghij", 10) != 0)
        return 5;
    return 10 * end_broken(aio, f, jobs + 21);
}

/* The kernel refuses the ring for good: threads read on. */
static void test_broken_uring_goes_on(void **state)
{
    const int errors[] = {EIO, EBADF, EIO};

    for (size_t i = 0; i < STK_COUNT(errors); i++) {
        int status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fixture *f = *state;
            alarm(30);
            f->context = test_context();
            _exit(child_with_broken_uring(f, errors[i], i == 2));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            print_message("skipped: no io_uring, or no seccomp filters here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

#define THREADS(name) cmocka_unit_test_setup_teardown(name, set_up_threads, tear_down)
#define URING(name)   cmocka_unit_test_setup_teardown(name, set_up_uring, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        THREADS(test_interrupted_and_short),
        THREADS(test_deadline_of_running),
        THREADS(test_cancel_of_running),
        THREADS(test_destroy_waits_for_running),
        cmocka_unit_test(test_refused_uring_falls_back),
        URING(test_broken_uring_goes_on),
    };

    return cmocka_run_group_tests_name("aio_faults", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One set of tests over both engines of asynchronous reads. */
#include <sys/wait.h>

#include "aio_fixture.h"

static void test_random_reads(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 8);
    uint64_t seed = 11;
    job *jobs = calloc(300, sizeof *jobs);
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int i = 0; i < 300; i++) {
        uint64_t offset = test_random(&seed) % FILE_SIZE;
        uint64_t length = test_random(&seed) % STK_MIN(FILE_SIZE - offset, 5000u);
        fill(&jobs[i], f->fd, offset, length, &ended);
        if (i % 3 == 0)
            jobs[i].read.deadline_ns = stk__now_ns() + UINT64_C(60000000000);
        assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
    }
    wait_for(&ended, 300);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(jobs[i].status, STK_OK);
        assert_int_equal(jobs[i].calls, 1);
        assert_memory_equal(jobs[i].data, f->bytes + jobs[i].read.offset, jobs[i].read.length);
        free(jobs[i].data);
    }
    stk__aio_destroy(&aio);
    assert_null(aio);
    free(jobs);
}

static void test_ends(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 2);
    job j;
    sem_t ended;

    sem_init(&ended, 0, 0);
    fill(&j, f->fd, 0, FILE_SIZE, &ended);
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(j.status, STK_OK);
    assert_memory_equal(j.data, f->bytes, FILE_SIZE);
    free(j.data);
    const struct {
        uint64_t offset, length;
        stk_status status;
    } cases[] = {{FILE_SIZE - 10, 10, STK_OK},
                 {FILE_SIZE - 10, 11, STK_ETRUNCATED},
                 {FILE_SIZE, 1, STK_ETRUNCATED},
                 {UINT64_C(1) << 60, 5, STK_ETRUNCATED},
                 {FILE_SIZE + 5, 0, STK_OK}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        fill(&j, f->fd, cases[i].offset, cases[i].length, &ended);
        assert_int_equal(stk__aio_submit(aio, &j.read), STK_OK);
        wait_for(&ended, 1);
        /* Beyond what the file system can address, the kernel may say "invalid" instead of "ends".
         */
        if (cases[i].offset < UINT64_C(1) << 40)
            assert_int_equal(j.status, cases[i].status);
        else
            assert_true(j.status == STK_ETRUNCATED || j.status == STK_EINVAL);
        free(j.data);
    }
    fill(&j, f->fd, INT64_MAX - 3, 10, &ended);
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_EINVAL);
    j.read.offset = UINT64_MAX - 3;
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_EINVAL);
    assert_int_equal(j.calls, 0);
    free(j.data);
    fill(&j, -1, 0, 10, &ended);
    assert_int_equal(stk__aio_submit(aio, &j.read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(j.status, STK_EIO);
    assert_int_equal(j.error, EBADF);
    free(j.data);
    stk__aio_destroy(&aio);
}

/* One read's done() is held, so that with a depth of 1 nothing behind the next one can start. */
static void test_order_and_cancel_of_waiting(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 1);
    job jobs[12];
    sem_t ended, hold;
    atomic_uint sequence = 0;

    sem_init(&ended, 0, 0);
    sem_init(&hold, 0, 0);
    for (int i = 0; i < 12; i++) {
        fill(&jobs[i], f->fd, (uint64_t)i * 100, 100, &ended);
        jobs[i].sequence = &sequence;
    }
    jobs[0].hold = &hold;
    assert_int_equal(stk__aio_submit(aio, &jobs[0].read), STK_OK);
    wait_for(&ended, 1);
    for (int i = 1; i < 12; i++)
        assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
    /* In the middle, at the end, twice. */
    stk__aio_cancel(aio, &jobs[5].read);
    stk__aio_cancel(aio, &jobs[11].read);
    stk__aio_cancel(aio, &jobs[11].read);
    assert_int_equal(jobs[5].status, STK_ECANCELED);
    assert_int_equal(jobs[11].status, STK_ECANCELED);
    assert_int_equal(jobs[11].calls, 1);
    sem_post(&hold);
    wait_for(&ended, 11);
    unsigned before = 0;
    for (int i = 0; i < 11; i++) {
        if (i == 5)
            continue;
        assert_int_equal(jobs[i].status, STK_OK);
        assert_memory_equal(jobs[i].data, f->bytes + 100 * i, 100);
        if (i > 0) /* first in, first started; with a depth of 1 also first out */
            assert_true(jobs[i].place > before);
        before = jobs[i].place;
    }
    /* A read that has ended is left alone. */
    stk__aio_cancel(aio, &jobs[3].read);
    assert_int_equal(jobs[3].calls, 1);
    stk__aio_destroy(&aio);
    for (int i = 0; i < 12; i++)
        free(jobs[i].data);
}

static void test_deadline_already_past(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 4);
    job jobs[2];
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int i = 0; i < 2; i++)
        fill(&jobs[i], f->fd, 0, FILE_SIZE, &ended);
    jobs[0].read.deadline_ns = 1;
    assert_int_equal(stk__aio_submit(aio, &jobs[0].read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(jobs[0].status, STK_ETIMEDOUT);
    assert_int_equal(stk__aio_submit(aio, &jobs[1].read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(jobs[1].status, STK_OK);
    stk__aio_destroy(&aio);
    free(jobs[0].data);
    free(jobs[1].data);
}

/* The pool's only worker is held in done(): its keeper must fail what waits. */
static void test_deadline_of_waiting(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 1);
    job jobs[3];
    sem_t ended, hold;

    sem_init(&ended, 0, 0);
    sem_init(&hold, 0, 0);
    for (int i = 0; i < 3; i++)
        fill(&jobs[i], f->fd, 0, 10, &ended);
    jobs[0].hold = &hold;
    assert_int_equal(stk__aio_submit(aio, &jobs[0].read), STK_OK);
    wait_for(&ended, 1);
    jobs[1].read.deadline_ns = stk__now_ns() + UINT64_C(3600000000000);
    jobs[2].read.deadline_ns = stk__now_ns() + 2000000;
    assert_int_equal(stk__aio_submit(aio, &jobs[1].read), STK_OK);
    assert_int_equal(stk__aio_submit(aio, &jobs[2].read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(jobs[2].status, STK_ETIMEDOUT);
    assert_int_equal(jobs[1].calls, 0);
    sem_post(&hold);
    wait_for(&ended, 1);
    assert_int_equal(jobs[1].status, STK_OK);
    stk__aio_destroy(&aio);
    for (int i = 0; i < 3; i++)
        free(jobs[i].data);
}

/* A pipe with nothing in it is a read that the kernel does not end: io_uring can call it back. */
static void test_stuck_in_kernel(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 2);
    job jobs[4];
    sem_t ended;
    int ends[2];

    sem_init(&ended, 0, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 4; i++)
        fill(&jobs[i], i < 3 ? ends[0] : f->fd, 0, 10, &ended);
    jobs[1].read.deadline_ns = stk__now_ns() + 2000000;
    jobs[2].read.deadline_ns = stk__now_ns() + 3000000;
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
    wait_for(&ended, 2);
    assert_int_equal(jobs[1].status, STK_ETIMEDOUT);
    assert_int_equal(jobs[2].status, STK_ETIMEDOUT);
    assert_int_equal(jobs[0].calls, 0);
    stk__aio_cancel(aio, &jobs[0].read);
    wait_for(&ended, 1);
    assert_int_equal(jobs[0].status, STK_ECANCELED);
    free(jobs[0].data);
    /* Bytes that come in pieces are put together. */
    fill(&jobs[0], ends[0], 0, 10, &ended);
    assert_int_equal(stk__aio_submit(aio, &jobs[0].read), STK_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(write(ends[1], &"abcdefghij"[2 * i], 2), 2);
    wait_for(&ended, 1);
    assert_int_equal(jobs[0].status, STK_OK);
    assert_memory_equal(jobs[0].data, "abcdefghij", 10);
    /* Destroying with a stuck read in flight ends it, and what waits behind. */
    for (int i = 0; i < 3; i++)
        jobs[i].read.deadline_ns = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
    stk__aio_destroy(&aio);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].status, STK_ECANCELED);
        free(jobs[i].data);
    }
    close(ends[0]);
    close(ends[1]);
}

static void test_destroy_with_reads_in_flight(void **state)
{
    fixture *f = *state;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int round = 0; round < 20; round++) {
        stk__aio *aio = engine_of(f, 4);
        job jobs[40];
        for (int i = 0; i < 40; i++) {
            fill(&jobs[i], f->fd, (uint64_t)i * 1000, 50000, &ended);
            assert_int_equal(stk__aio_submit(aio, &jobs[i].read), STK_OK);
        }
        stk__aio_destroy(&aio);
        for (int i = 0; i < 40; i++) {
            assert_int_equal(jobs[i].calls, 1);
            assert_true(jobs[i].status == STK_OK || jobs[i].status == STK_ECANCELED);
            if (jobs[i].status == STK_OK)
                assert_memory_equal(jobs[i].data, f->bytes + 1000 * i, 50000);
            free(jobs[i].data);
        }
    }
}

typedef struct submitter {
    pthread_t thread;
    stk__aio *aio;
    int fd;
    uint64_t seed;
    job *jobs;
    sem_t *ended;
    bool failed;
} submitter;

#define PER_SUBMITTER 200

/* Submits, cancels some at once, and ends before its reads do. */
static void *submit_and_leave(void *argument)
{
    submitter *s = argument;

    for (int i = 0; i < PER_SUBMITTER; i++) {
        s->failed |= stk__aio_submit(s->aio, &s->jobs[i].read) != STK_OK;
        if (test_random(&s->seed) % 3 == 0)
            stk__aio_cancel(s->aio, &s->jobs[test_random(&s->seed) % (unsigned)(i + 1)].read);
    }
    return NULL;
}

static void test_many_threads_with_cancels(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 16);
    submitter submitters[4];
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int t = 0; t < 4; t++) {
        submitters[t] = (submitter){.aio = aio, .seed = 99u + (unsigned)t};
        submitters[t].jobs = calloc(PER_SUBMITTER, sizeof(job));
        for (int i = 0; i < PER_SUBMITTER; i++)
            fill(&submitters[t].jobs[i], f->fd,
                 test_random(&submitters[t].seed) % (FILE_SIZE - 3000), 3000, &ended);
    }
    for (int t = 0; t < 4; t++)
        assert_int_equal(
            pthread_create(&submitters[t].thread, NULL, submit_and_leave, &submitters[t]), 0);
    for (int t = 0; t < 4; t++)
        pthread_join(submitters[t].thread, NULL);
    wait_for(&ended, 4 * PER_SUBMITTER);
    stk__aio_destroy(&aio);
    for (int t = 0; t < 4; t++) {
        assert_false(submitters[t].failed);
        for (int i = 0; i < PER_SUBMITTER; i++) {
            job *j = &submitters[t].jobs[i];
            assert_int_equal(j->calls, 1);
            assert_true(j->status == STK_OK || j->status == STK_ECANCELED);
            if (j->status == STK_OK)
                assert_memory_equal(j->data, f->bytes + j->read.offset, 3000);
            free(j->data);
        }
        free(submitters[t].jobs);
    }
}

typedef struct chain {
    stk__aio_read read;
    stk__aio *aio;
    sem_t *ended;
    unsigned left;
    stk_status status;
    char data[64];
} chain;

static void next_link(stk__aio_read *read, stk_status status, int error)
{
    chain *c = (chain *)read;

    (void)error;
    c->status = status;
    if (status != STK_OK || c->left-- == 0 || stk__aio_submit(c->aio, read) != STK_OK)
        sem_post(c->ended);
}

/* done() may submit the same read again. */
static void test_submit_from_done(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 2);
    sem_t ended;
    chain c = {.read = {.fd = f->fd, .data = c.data, .length = 64, .done = next_link},
               .aio = aio,
               .ended = &ended,
               .left = 100};

    sem_init(&ended, 0, 0);
    assert_int_equal(stk__aio_submit(aio, &c.read), STK_OK);
    wait_for(&ended, 1);
    assert_int_equal(c.status, STK_OK);
    assert_int_equal(c.left, UINT32_MAX);
    stk__aio_destroy(&aio);
}

static void test_bad_arguments(void **state)
{
    fixture *f = *state;
    stk__aio *aio = NULL;
    stk_error err;

    assert_fails(stk__aio_create(f->context, f->engine, 0, &aio, &err), STK_EINVAL, &err, "depth");
    assert_fails(stk__aio_create(f->context, f->engine, 5000, &aio, &err), STK_EINVAL, &err,
                 "5000");
    stk__aio_destroy(&aio);
    stk__aio_destroy(NULL);
}

typedef struct turn {
    const fixture *fixture;
    stk_context *context;
    atomic_uint *turns; /* whose it is, told without ordering anything else */
    unsigned number;
    bool good;
} turn;

static void *make_and_end(void *argument)
{
    turn *t = argument;
    stk__aio *aio = NULL;
    sem_t ended;
    job j;

    sem_init(&ended, 0, 0);
    fill(&j, t->fixture->fd, 17, 3000, &ended);
    while (atomic_load_explicit(t->turns, memory_order_relaxed) != t->number)
        usleep(100);
    t->good = stk__aio_create(t->context, t->fixture->engine, 4, &aio, NULL) == STK_OK &&
              stk__aio_submit(aio, &j.read) == STK_OK;
    if (t->good)
        wait_for(&ended, 1);
    t->good = t->good && is_good(&j, t->fixture);
    stk__aio_destroy(&aio);
    atomic_store_explicit(t->turns, t->number + 1, memory_order_relaxed);
    free(j.data);
    return NULL;
}

/* Engines of threads that know nothing of each other, the later ones where the first one was: to
 * ThreadSanitizer, too, they come one after another. */
static void test_one_after_another(void **state)
{
    atomic_uint turns = 0;
    pthread_t threads[8];
    turn all[STK_COUNT(threads)];
    stk__aio *aio = engine_of(*state, 4); /* or it is skipped */

    stk__aio_destroy(&aio);
    for (unsigned i = 0; i < STK_COUNT(threads); i++) {
        all[i] = (turn){.fixture = *state, .context = test_context(), .turns = &turns, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_end, &all[i]), 0);
    }
    for (unsigned i = 0; i < STK_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        stk_context_destroy(&all[i].context);
        assert_true(all[i].good);
    }
}

/* A child of the process that made the engine gives it up without waiting for threads it does not
 * have. */
static void test_destroy_after_fork(void **state)
{
    fixture *f = *state;
    stk__aio *aio = engine_of(f, 2);
    int status = 0;

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stk__aio_destroy(&aio);
        _exit(aio == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stk__aio_destroy(&aio);
}

#define BOTH(name)                                                                                 \
    {"threads: " #name, name, set_up_threads, tear_down, NULL},                                    \
    {                                                                                              \
        "uring: " #name, name, set_up_uring, tear_down, NULL                                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_random_reads),
        BOTH(test_ends),
        BOTH(test_order_and_cancel_of_waiting),
        BOTH(test_deadline_already_past),
        {"threads: test_deadline_of_waiting", test_deadline_of_waiting, set_up_threads, tear_down,
         NULL},
        {"uring: test_stuck_in_kernel", test_stuck_in_kernel, set_up_uring, tear_down, NULL},
        BOTH(test_destroy_with_reads_in_flight),
        BOTH(test_many_threads_with_cancels),
        BOTH(test_submit_from_done),
        BOTH(test_bad_arguments),
        BOTH(test_one_after_another),
        BOTH(test_destroy_after_fork),
    };

    return cmocka_run_group_tests_name("aio", tests, NULL, NULL);
}

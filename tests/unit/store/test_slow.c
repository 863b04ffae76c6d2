/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

#define N    200
#define STEP 64u

typedef struct fixture {
    stk_context *context;
    stk_store *mem;
    unsigned char bytes[N * STEP];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    uint64_t seed = 21;
    stk_error err;

    f->context = test_context();
    for (size_t i = 0; i < sizeof f->bytes; i++)
        f->bytes[i] = (unsigned char)test_random(&seed);
    assert_ok(stk_store_open(f->context, "mem://slow", &f->mem, NULL, 0, &err), &err);
    assert_ok(stk_store_put(f->mem, "data", f->bytes, sizeof f->bytes, NULL, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_store_close(&f->mem);
    stk_context_destroy(&f->context);
    free(f);
    return 0;
}

static stk_store *open_slow(fixture *f, const char *options)
{
    stk_store *store = NULL;
    char url[256];
    stk_error err;

    snprintf(url, sizeof url, "slow+mem://slow?%s", options);
    assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
    return store;
}

typedef struct job {
    stk_read read;
    unsigned char data[STEP];
    sem_t *ended;
    atomic_uint *sequence;
    atomic_int calls;
    stk_status status;
    unsigned place;
    uint64_t sent_ns, ended_ns;
} job;

static void on_done(stk_read *read, stk_status status)
{
    job *j = (job *)read;
    sem_t *ended = j->ended;

    j->status = status;
    j->ended_ns = stk__now_ns();
    if (j->sequence)
        j->place = atomic_fetch_add(j->sequence, 1);
    atomic_fetch_add(&j->calls, 1);
    sem_post(ended);
}

static void fill(job *j, unsigned which, sem_t *ended, atomic_uint *sequence)
{
    memset(j, 0, sizeof *j);
    j->ended = ended;
    j->sequence = sequence;
    j->read = (stk_read){.struct_size = sizeof j->read,
                         .key = "data",
                         .offset = (uint64_t)which * STEP,
                         .length = STEP,
                         .data = j->data,
                         .done = on_done};
    j->sent_ns = stk__now_ns();
}

static void wait_for(sem_t *ended, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (sem_wait(ended) != 0)
            assert_int_equal(errno, EINTR);
}

/* Submit all N at once and wait for them. */
static void run_all(fixture *f, stk_store *store, job *jobs)
{
    atomic_uint sequence = 0;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < N; i++) {
        fill(&jobs[i], i, &ended, &sequence);
        assert_int_equal(store->ops->submit(store, &jobs[i].read), STK_OK);
    }
    wait_for(&ended, N);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(jobs[i].calls, 1);
        if (jobs[i].status == STK_OK)
            assert_memory_equal(jobs[i].data, f->bytes + i * STEP, STEP);
    }
}

static void test_latency_and_order(void **state)
{
    fixture *f = *state;
    job *jobs = calloc(N, sizeof *jobs);
    stk_store *store = open_slow(f, "latency=50ms");

    run_all(f, store, jobs);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(jobs[i].status, STK_OK);
        assert_true(jobs[i].ended_ns - jobs[i].sent_ns >= 50000000);
        assert_int_equal(jobs[i].place, i);
    }
    stk_store_close(&store);
    free(jobs);
}

/* Changed places: nearly no read ends where it was sent, and late and early are independent. */
static void test_random_order(void **state)
{
    fixture *f = *state;
    job *jobs = calloc(N, sizeof *jobs);
    stk_store *store = open_slow(f, "latency=200ms&order=random&seed=9");
    unsigned fixed = 0, seen[N] = {0};
    double covariance = 0, half = (N - 1) / 2.0;

    run_all(f, store, jobs);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(jobs[i].status, STK_OK);
        fixed += jobs[i].place == i;
        seen[jobs[i].place]++;
        covariance += (i - half) * (jobs[i].place - half);
    }
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    assert_true(fixed < 12); /* of a random permutation: one on average */
    /* Five standard deviations of the correlation of N independent pairs. */
    assert_true(fabs(covariance / (N * (N * (double)N - 1) / 12)) < 5 / sqrt(N));
    stk_store_close(&store);
    free(jobs);
}

/* All reads share one link: the last byte cannot be there before the link has carried all. */
static void test_bandwidth(void **state)
{
    fixture *f = *state;
    job *jobs = calloc(N, sizeof *jobs);
    stk_store *store = open_slow(f, "bandwidth=1MB/s");
    uint64_t last = 0;

    run_all(f, store, jobs);
    for (unsigned i = 0; i < N; i++)
        last = STK_MAX(last, jobs[i].ended_ns);
    assert_true(last - jobs[0].sent_ns >= (uint64_t)N * STEP * 1000);
    stk_store_close(&store);
    free(jobs);
}

static void test_distributions(void **state)
{
    fixture *f = *state;
    const char *const options[] = {"latency=1ms&jitter=1ms", "latency=1ms&distribution=exponential",
                                   "latency=1ms&distribution=lognormal&jitter=2ms",
                                   "latency=1ms&distribution=uniform"};
    job *jobs = calloc(N, sizeof *jobs);

    for (size_t i = 0; i < STK_COUNT(options); i++) {
        stk_store *store = open_slow(f, options[i]);
        unsigned in_place = 0;
        run_all(f, store, jobs);
        for (unsigned k = 0; k < N; k++) {
            assert_int_equal(jobs[k].status, STK_OK);
            in_place += jobs[k].place == k;
        }
        assert_true(in_place < N / 2); /* the latencies differ */
        stk_store_close(&store);
    }
    free(jobs);
}

static unsigned count_failed(const job *jobs, stk_status status)
{
    unsigned n = 0;

    for (unsigned i = 0; i < N; i++) {
        assert_true(jobs[i].status == STK_OK || jobs[i].status == status);
        n += jobs[i].status == status;
    }
    return n;
}

static void test_failures_that_pass(void **state)
{
    fixture *f = *state;
    const stk_status statuses[] = {STK_EIO, STK_ETIMEDOUT};
    const char *const options[] = {"fail=0.25", "fail=0.25&fail_kind=timeout&latency=1ms"};
    job *jobs = calloc(N, sizeof *jobs);
    stk_status first[N];

    for (int kind = 0; kind < 2; kind++) {
        stk_store *store = open_slow(f, options[kind]);
        run_all(f, store, jobs);
        unsigned failed = count_failed(jobs, statuses[kind]);
        assert_in_range(failed, 20, 80); /* 50 expected, standard deviation 6 */
        assert_int_equal(stk_status_fault(statuses[kind]), STK_FAULT_MACHINE);
        for (unsigned i = 0; i < N; i++)
            first[i] = jobs[i].status;
        /* Tried again, others fail. */
        run_all(f, store, jobs);
        unsigned both = 0;
        for (unsigned i = 0; i < N; i++)
            both += first[i] != STK_OK && jobs[i].status != STK_OK;
        assert_true(both < failed);
        stk_store_close(&store);
        /* The same seed and the same order of reads: the same failures. */
        store = open_slow(f, options[kind]);
        run_all(f, store, jobs);
        for (unsigned i = 0; i < N; i++)
            assert_int_equal(jobs[i].status, first[i]);
        stk_store_close(&store);
    }
    free(jobs);
}

/* Damage belongs to bytes: it is met whenever they are read, in whatever order, and by every read
 * that covers them. */
static void test_failures_that_stay(void **state)
{
    fixture *f = *state;
    enum { BLOCKS = 300 };
    unsigned char *zeros = calloc(BLOCKS, 4096);
    stk_store *store = open_slow(f, "fail=0.1&fail_kind=truncated&seed=4");
    bool bad[BLOCKS], again;
    unsigned num_bad = 0;
    stk_error err;

    assert_int_equal(stk_store_put(f->mem, "large", zeros, BLOCKS * 4096, NULL, NULL), STK_OK);
    for (int i = 0; i < BLOCKS; i++) {
        bad[i] = stk_store_read(store, "large", (uint64_t)i * 4096 + 100, 50, zeros, &err) ==
                 STK_ETRUNCATED;
        num_bad += bad[i];
    }
    assert_in_range(num_bad, 8, 60);
    for (int i = BLOCKS - 1; i >= 0; i--) {
        again =
            stk_store_read(store, "large", (uint64_t)i * 4096, 4096, zeros, &err) == STK_ETRUNCATED;
        assert_int_equal(again, bad[i]);
    }
    for (int i = 0; i + 1 < BLOCKS; i++) {
        again = stk_store_read(store, "large", (uint64_t)i * 4096 + 4095, 2, zeros, &err) ==
                STK_ETRUNCATED;
        assert_int_equal(again, bad[i] || bad[i + 1]);
    }
    stk_store_close(&store);
    store = open_slow(f, "fail=0.3&fail_kind=missing");
    unsigned missing = 0;
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "o%d", i);
        assert_int_equal(stk_store_put(f->mem, key, "xy", 2, NULL, NULL), STK_OK);
        stk_status status = stk_store_read(store, key, 0, 1, zeros, &err);
        assert_int_equal(stk_store_read(store, key, 1, 1, zeros, &err), status);
        assert_true(status == STK_OK || status == STK_ENOENT);
        missing += status != STK_OK;
    }
    assert_in_range(missing, 8, 55);
    stk_store_close(&store);
    free(zeros);
}

static void test_cancel(void **state)
{
    fixture *f = *state;
    job *jobs = calloc(N, sizeof *jobs);
    stk_store *store = open_slow(f, "latency=1h");
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < N; i++) {
        fill(&jobs[i], i, &ended, NULL);
        assert_int_equal(store->ops->submit(store, &jobs[i].read), STK_OK);
    }
    for (unsigned i = 0; i < N; i += 3)
        store->ops->cancel(store, &jobs[i].read);
    wait_for(&ended, (N + 2) / 3);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(jobs[i].calls, i % 3 == 0);
    store->ops->cancel(store, &jobs[0].read); /* ended: left alone */
    /* Closing cancels the others, which would have taken an hour. */
    stk_store_close(&store);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(jobs[i].calls, 1);
        assert_int_equal(jobs[i].status, STK_ECANCELED);
    }
    free(jobs);
}

static void test_deadline(void **state)
{
    fixture *f = *state;
    stk_store *store = open_slow(f, "latency=1h");
    job jobs[3];
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        fill(&jobs[i], i, &ended, NULL);
        jobs[i].read.deadline_ns = i == 0 ? 0 : stk__now_ns() + i * 2000000;
        assert_int_equal(store->ops->submit(store, &jobs[i].read), STK_OK);
    }
    wait_for(&ended, 2);
    assert_int_equal(jobs[0].calls, 0);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(jobs[i].status, STK_ETIMEDOUT);
        assert_true(jobs[i].ended_ns >= jobs[i].read.deadline_ns);
    }
    stk_store_close(&store);
    assert_int_equal(jobs[0].status, STK_ECANCELED);
}

typedef struct racer {
    pthread_t thread;
    fixture *f;
    stk_store *store;
    job *jobs;
    sem_t *ended;
    uint64_t seed;
} racer;

/* Submits reads and cancels earlier ones of its own at random, ended or not. */
static void *submit_and_cancel(void *argument)
{
    racer *r = argument;

    for (unsigned i = 0; i < N; i++) {
        fill(&r->jobs[i], i, r->ended, NULL);
        if (r->store->ops->submit(r->store, &r->jobs[i].read) != STK_OK)
            abort();
        if (test_random(&r->seed) % 2)
            r->store->ops->cancel(r->store, &r->jobs[test_random(&r->seed) % (i + 1)].read);
    }
    return NULL;
}

static void test_cancel_races(void **state)
{
    fixture *f = *state;
    char folder[256], url[400];
    racer racers[4];
    stk_error err;
    sem_t ended;

    test_folder(folder);
    test_write(folder, "data", f->bytes, sizeof f->bytes);
    sem_init(&ended, 0, 0);
    for (int round = 0; round < 6; round++) {
        stk_store *store = NULL;
        snprintf(url, sizeof url, "slow+file://%s?latency=200us&distribution=exponential&order=%s",
                 folder, round % 2 ? "random" : "fifo");
        assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
        for (int t = 0; t < 4; t++) {
            racers[t] = (racer){.f = f,
                                .store = store,
                                .ended = &ended,
                                .seed = 31u * (unsigned)(4 * round + t + 1)};
            racers[t].jobs = calloc(N, sizeof *racers[t].jobs);
            assert_int_equal(pthread_create(&racers[t].thread, NULL, submit_and_cancel, &racers[t]),
                             0);
        }
        for (int t = 0; t < 4; t++)
            pthread_join(racers[t].thread, NULL);
        if (round < 4)
            wait_for(&ended, 4 * N);
        stk_store_close(&store);
        for (int t = 0; t < 4; t++) {
            for (unsigned i = 0; i < N; i++) {
                job *j = &racers[t].jobs[i];
                assert_int_equal(j->calls, 1);
                assert_true(j->status == STK_OK || j->status == STK_ECANCELED);
                if (j->status == STK_OK)
                    assert_memory_equal(j->data, f->bytes + i * STEP, STEP);
            }
            free(racers[t].jobs);
        }
        if (round >= 4)
            wait_for(&ended, 4 * N);
    }
    test_folder_remove(folder);
}

/* done() of one read submits the next, as a closed loop of a few readers does. */
typedef struct chain {
    stk_read read;
    stk_store *store;
    sem_t *ended;
    int left;
    unsigned char data[STEP];
} chain;

static void next_link(stk_read *read, stk_status status)
{
    chain *c = (chain *)read;

    if (status != STK_OK || c->left-- == 0 || c->store->ops->submit(c->store, read) != STK_OK)
        sem_post(c->ended);
}

static void test_submit_from_done(void **state)
{
    fixture *f = *state;
    stk_store *store = open_slow(f, "latency=100us&order=random");
    chain chains[8];
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (int i = 0; i < 8; i++) {
        chains[i] = (chain){.store = store, .ended = &ended, .left = 50};
        chains[i].read = (stk_read){.struct_size = sizeof(stk_read),
                                    .key = "data",
                                    .length = STEP,
                                    .data = chains[i].data,
                                    .done = next_link};
        assert_int_equal(store->ops->submit(store, &chains[i].read), STK_OK);
    }
    wait_for(&ended, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(chains[i].left, -1);
    stk_store_close(&store);
}

static stk_status count_keys(void *user, const char *key, const stk_object_info *info)
{
    (void)key, (void)info;
    ++*(unsigned *)user;
    return STK_OK;
}

static void test_passed_on(void **state)
{
    fixture *f = *state;
    stk_store *store = open_slow(f, "latency=20ms&bandwidth=10MB/s");
    stk_store_limits limits;
    stk_object_info info = {.struct_size = sizeof info};
    unsigned keys = 0;
    stk_error err;
    stk_put *put;
    char data[4];

    stk__store_limits(store, &limits);
    assert_int_equal(limits.coalesce_gap, 200000);
    assert_true(limits.io_depth >= 64);
    assert_null(store->ops->map);
    assert_ok(store->ops->put(store, "put", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, "abc", 3, &err), &err);
    assert_ok(put->ops->commit(put, &err), &err);
    assert_ok(stk_store_stat(store, "put", NULL, &info, &err), &err);
    assert_int_equal(info.size, 3);
    assert_ok(stk_store_read(store, "put", 0, 3, data, &err), &err);
    assert_memory_equal(data, "abc", 3);
    assert_ok(stk_store_list(store, "", NULL, count_keys, &keys, &err), &err);
    assert_int_equal(keys, 2);
    assert_fails(stk_store_read(store, "put", 2, 3, data, &err), STK_ETRUNCATED, &err,
                 "holds 3 bytes");
    assert_fails(stk_store_read(store, "none", 2, 3, data, &err), STK_ENOENT, &err, "none");
    assert_ok(store->ops->remove(store, "put", &stk__store_call_none, &err), &err);
    assert_ok(stk_store_put(store, "x", "y", 1, NULL, &err), &err);
    assert_ok(stk_store_read(store, "x", 0, 1, data, &err), &err);
    assert_int_equal(data[0], 'y');
    stk_store_close(&store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_latency_and_order),
        TEST(test_random_order),
        TEST(test_bandwidth),
        TEST(test_distributions),
        TEST(test_failures_that_pass),
        TEST(test_failures_that_stay),
        TEST(test_cancel),
        TEST(test_deadline),
        TEST(test_cancel_races),
        TEST(test_submit_from_done),
        TEST(test_passed_on),
    };

    return cmocka_run_group_tests_name("slow", tests, NULL, NULL);
}

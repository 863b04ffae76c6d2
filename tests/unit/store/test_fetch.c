/* SPDX-License-Identifier: Apache-2.0 */
/* One fetcher over a store that does what the test says, by a clock that the test moves. */
#include "unit/store/scripted.h"

#define SIZE 1000
#define MS   UINT64_C(1000000)

/* A fetcher, what it handed over, and its clock. */
typedef struct world {
    stk_context *ctx;
    scripted store;
    stk__fetcher *fetcher;
    stk__fetcher_options options;
    _Atomic uint64_t now;
    uint32_t ended, sooner;
    char order[64]; /* first letters of the keys, as transfers ended */
} world;

static uint64_t world_now(void *clock)
{
    return atomic_load((_Atomic uint64_t *)clock);
}

static void on_ended(void *user, stk__transfer *list)
{
    world *w = user;

    for (; list; list = list->next) {
        w->order[w->ended++] = list->key[0];
        *(int *)list->user += 1;
    }
}

static void on_sooner(void *user, uint64_t due_ns)
{
    world *w = user;

    assert_int_equal(due_ns, stk__fetcher_due(w->fetcher));
    w->sooner++;
}

static void open_world(world *w, stk_context *ctx, uint32_t depth, uint64_t max_read,
                       uint32_t retries)
{
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->now = 1000 * MS;
    scripted_init(&w->store, ctx, depth, max_read, SIZE);
    w->options = (stk__fetcher_options){.retries = retries,
                                        .seed = 7,
                                        .now = world_now,
                                        .clock = &w->now,
                                        .ended = on_ended,
                                        .sooner = on_sooner,
                                        .user = w};
    assert_int_equal(stk__fetcher_create(ctx, &w->options, &w->fetcher), STK_OK);
}

static void close_world(world *w)
{
    assert_int_equal(w->store.under_way, 0);
    stk__fetcher_destroy(&w->fetcher);
    assert_null(w->fetcher);
}

typedef struct job {
    stk__transfer t;
    int calls;
    unsigned char data[SIZE + 16];
} job;

static stk__transfer *job_add(world *w, job *j, const char *key, uint64_t offset, uint64_t length,
                              uint64_t priority)
{
    memset(j, 0, sizeof *j);
    j->t = (stk__transfer){.store = &w->store.base,
                           .key = key,
                           .offset = offset,
                           .length = length,
                           .data = j->data,
                           .priority = priority,
                           .user = &j->calls};
    stk__fetcher_add(w->fetcher, &j->t);
    return &j->t;
}

static void assert_bytes(const job *j)
{
    assert_int_equal(j->calls, 1);
    assert_int_equal(j->t.status, STK_OK);
    for (uint64_t i = 0; i < j->t.got; i++)
        assert_int_equal(j->data[i], scripted_byte(j->t.key, j->t.offset + i));
}

static void assert_failed(const job *j, stk_status status)
{
    assert_int_equal(j->calls, 1);
    assert_int_equal(j->t.status, status);
    assert_int_equal(j->t.got, 0);
}

static act late(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    return ACT_LATE;
}

static act hang(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    return ACT_HANG;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void test_bytes(void **state)
{
    world w;
    job jobs[4];

    open_world(&w, *state, 3, 64, 0);
    job_add(&w, &jobs[0], "a", 0, SIZE, 0);
    job_add(&w, &jobs[1], "b", 5, 64, 0);
    job_add(&w, &jobs[2], "c", 999, 1, 0);
    job_add(&w, &jobs[3], "d", 10, 0, 0);
    assert_int_equal(w.ended, 0); /* nothing happens before somebody pumps */
    stk__fetcher_pump(w.fetcher);
    for (int i = 0; i < 4; i++) {
        assert_bytes(&jobs[i]);
        assert_int_equal(jobs[i].t.got, jobs[i].t.length);
        assert_int_equal(jobs[i].t.tries, 1);
    }
    stk__fetch_stats stats;
    stk__fetcher_stats(w.fetcher, &stats);
    assert_int_equal(stats.requests, 16 + 3);
    assert_int_equal(stats.request_bytes, SIZE + 65);
    assert_int_equal(stats.failures + stats.retries + stats.under_way + stats.waiting, 0);
    assert_int_equal(stats.bytes_under_way, 0);
    close_world(&w);
}

/* A length that is only an upper bound: within the object, over its end, behind it; in pieces. */
static void test_up_to(void **state)
{
    static const uint64_t ranges[][3] = {{0, 64, 64},   {0, 1001, 1000}, {990, 500, 10},
                                         {1000, 50, 0}, {3000, 200, 0},  {900, 900, 100}};

    for (uint64_t max_read = 0; max_read <= 64; max_read += 64)
        for (size_t i = 0; i < 6; i++) {
            world w;
            job j = {0};
            open_world(&w, *state, 2, max_read, 0);
            j.t = (stk__transfer){.store = &w.store.base,
                                  .key = "a",
                                  .offset = ranges[i][0],
                                  .length = ranges[i][1],
                                  .data = j.data,
                                  .up_to = true,
                                  .user = &j.calls};
            stk__fetcher_add(w.fetcher, &j.t);
            stk__fetcher_pump(w.fetcher);
            assert_bytes(&j);
            assert_int_equal(j.t.got, ranges[i][2]);
            close_world(&w);
        }
}

/* Of several pieces that fail, the first in the object tells, whichever ends first. */
static void test_first_failure(void **state)
{
    world w;
    job j;

    open_world(&w, *state, 64, 100, 0);
    w.store.script = late;
    job_add(&w, &j, "a", 850, 250, 0); /* the second piece is cut off, the third lies behind */
    stk__fetcher_pump(w.fetcher);
    w.store.statuses[2] = STK_EACCES;
    while (scripted_release(&w.store, 2))
        ;
    assert_failed(&j, STK_ETRUNCATED);
    assert_int_equal(j.t.system_error, 5);
    job_add(&w, &j, "absent", 0, 10, 0);
    stk__fetcher_pump(w.fetcher);
    scripted_release(&w.store, 0);
    assert_failed(&j, STK_ENOENT);
    close_world(&w);
}

/* ---- Depth and order ------------------------------------------------------------------------- */

/* One for each of two stores in turn. */
static void add_between(world *w, scripted *other, job *jobs, int n)
{
    for (int i = 0; i < n; i++) {
        memset(&jobs[i], 0, sizeof jobs[i]);
        jobs[i].t = (stk__transfer){.store = i % 2 ? &other->base : &w->store.base,
                                    .key = "a",
                                    .length = 10,
                                    .data = jobs[i].data,
                                    .user = &jobs[i].calls};
        stk__fetcher_add(w->fetcher, &jobs[i].t);
    }
}

static void test_depth_of_each_store(void **state)
{
    world w;
    scripted other;
    job jobs[12];
    stk__fetch_stats stats;

    open_world(&w, *state, 3, 0, 0);
    scripted_init(&other, *state, 1, 0, SIZE);
    w.store.script = other.script = late;
    add_between(&w, &other, jobs, 12);
    stk__fetcher_pump(w.fetcher);
    assert_true(w.store.under_way == 3 && other.under_way == 1);
    stk__fetcher_stats(w.fetcher, &stats);
    assert_int_equal(stats.under_way, 4);
    assert_int_equal(stats.waiting, 8);
    assert_int_equal(stats.bytes_under_way, 40);
    char text[100];
    w.now += 1500 * MS;
    stk__fetcher_describe(w.fetcher, text, sizeof text);
    assert_string_equal(text, "4 reads in flight, the oldest for 1.5 s: a");
    while (scripted_release(&w.store, 0) || scripted_release(&other, 0))
        ;
    assert_int_equal(w.ended, 12);
    assert_true(w.store.most == 3 && other.most == 1);
    assert_int_equal(stk__fetcher_describe(w.fetcher, text, sizeof text), 0);
    close_world(&w);
}

/* Each store has as many times its own depth; what is under way ends as it would. */
static void test_moved_depth(void **state)
{
    world w;
    scripted other;
    job jobs[24];

    open_world(&w, *state, 4, 0, 0);
    scripted_init(&other, *state, 1, 0, SIZE);
    w.store.script = other.script = late;
    stk__fetcher_move(w.fetcher, 8, 4);
    add_between(&w, &other, jobs, 24);
    stk__fetcher_pump(w.fetcher);
    assert_true(w.store.under_way == 8 && other.under_way == 2);
    stk__fetcher_move(w.fetcher, 2, 4);
    for (int i = 0; i < 7; i++)
        assert_true(scripted_release(&w.store, 0));
    assert_int_equal(w.store.under_way, 2);
    for (int i = 0; i < 24; i++)
        (void)(scripted_release(&w.store, 0) || scripted_release(&other, 0));
    assert_int_equal(w.ended, 24);
    close_world(&w);
}

static void test_order(void **state)
{
    world w;
    job jobs[6];

    open_world(&w, *state, 1, 5, 0);
    job_add(&w, &jobs[0], "d", 0, 5, 9);
    job_add(&w, &jobs[1], "b", 0, 15, 3);
    job_add(&w, &jobs[2], "c", 0, 5, 3);
    job_add(&w, &jobs[3], "a", 0, 5, 1);
    job_add(&w, &jobs[4], "e", 0, 5, 9);
    job_add(&w, &jobs[5], "A", 0, 5, 0);
    stk__fetcher_pump(w.fetcher);
    assert_string_equal(w.store.order, "Aabbbcde");
    assert_string_equal(w.order, "Aabcde");
    close_world(&w);
}

/* ---- Trying again ---------------------------------------------------------------------------- */

/* Fails the first `user` reads of the key "f". */
static act fail_some(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    int *left = s->user;

    if (read->key[0] == 'f' && (*left)-- > 0)
        *status = STK_EIO;
    return ACT_NOW;
}

static void test_backoff(void **state)
{
    world w;
    job j;
    int left = 12;
    uint64_t waits[2][12];

    for (int round = 0; round < 2; round++) {
        open_world(&w, *state, 1, 0, 12);
        left = 12;
        w.store.script = fail_some;
        w.store.user = &left;
        job_add(&w, &j, "f", 3, 100, 0);
        stk__fetcher_pump(w.fetcher);
        for (int i = 0; i < 12; i++) {
            assert_int_equal(j.calls, 0);
            assert_int_equal(w.sooner, i + 1);
            const uint64_t due = stk__fetcher_due(w.fetcher);
            waits[round][i] = due - w.now;
            const uint64_t most = i < 9 ? 10 * MS << i : 5000 * MS;
            assert_in_range(waits[round][i], most / 2, most);
            w.now = due - 1;
            stk__fetcher_pump(w.fetcher);
            assert_int_equal(w.store.reads, i + 1);
            w.now = due;
            stk__fetcher_pump(w.fetcher);
            assert_int_equal(w.store.reads, i + 2);
        }
        assert_bytes(&j);
        assert_int_equal(j.t.tries, 13);
        assert_true(j.t.first_ns < j.t.sent_ns);
        assert_int_equal(stk__fetcher_due(w.fetcher), UINT64_MAX);
        stk__fetch_stats stats;
        stk__fetcher_stats(w.fetcher, &stats);
        assert_int_equal(stats.requests, 13);
        assert_int_equal(stats.failures, 12);
        assert_int_equal(stats.retries, 12);
        close_world(&w);
    }
    assert_memory_equal(waits[0], waits[1], sizeof waits[0]); /* the seed decides */
}

/* Waits of several reads differ: they do not all come back at once. */
static void test_jitter(void **state)
{
    world w;
    job jobs[8];
    int left = 8;
    uint64_t last = 0;

    open_world(&w, *state, 8, 0, 3);
    w.store.script = fail_some;
    w.store.user = &left;
    for (int i = 0; i < 8; i++)
        job_add(&w, &jobs[i], "f", 10 * (uint64_t)i, 10, 0);
    stk__fetcher_pump(w.fetcher);
    for (int i = 0; i < 8; i++) {
        const uint64_t due = stk__fetcher_due(w.fetcher);
        assert_true(due > last);
        last = due;
        w.now = due;
        stk__fetcher_pump(w.fetcher);
        assert_int_equal(w.ended, i + 1);
    }
    for (int i = 0; i < 8; i++)
        assert_bytes(&jobs[i]);
    close_world(&w);
}

static act refuse_or_fail(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    *status = *(stk_status *)s->user;
    return n % 2 ? ACT_REFUSE : ACT_NOW;
}

/* What may pass is tried as often as was said, whether submit() or done() tells; the rest once. */
static void test_what_is_tried(void **state)
{
    static const struct {
        stk_status status;
        uint32_t reads;
    } cases[] = {{STK_EIO, 4},    {STK_ENOMEM, 4}, {STK_ETIMEDOUT, 4},
                 {STK_ENOENT, 1}, {STK_EACCES, 1}, {STK_EINVAL, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        job j;
        stk_status status = cases[i].status;
        open_world(&w, *state, 1, 0, 3);
        w.store.script = refuse_or_fail;
        w.store.user = &status;
        job_add(&w, &j, "a", 0, 10, 0);
        stk__fetcher_pump(w.fetcher);
        while (stk__fetcher_due(w.fetcher) != UINT64_MAX) {
            w.now = stk__fetcher_due(w.fetcher);
            stk__fetcher_pump(w.fetcher);
        }
        assert_failed(&j, status);
        assert_int_equal(w.store.reads, cases[i].reads);
        assert_int_equal(j.t.tries, cases[i].reads);
        close_world(&w);
    }
}

/* What is tried again keeps its place before what was added after it. */
static void test_retry_order(void **state)
{
    world w;
    job jobs[3];
    int left = 1;

    open_world(&w, *state, 1, 0, 3);
    w.store.script = late;
    job_add(&w, &jobs[0], "f", 0, 10, 1);
    stk__fetcher_pump(w.fetcher);
    w.store.statuses[0] = STK_EIO;
    job_add(&w, &jobs[1], "b", 0, 10, 1);
    job_add(&w, &jobs[2], "c", 0, 10, 1);
    scripted_release(&w.store, 0); /* fails: "b" goes out */
    w.now = stk__fetcher_due(w.fetcher);
    w.store.script = fail_some;
    left = 0;
    w.store.user = &left;
    scripted_release(&w.store, 0);
    assert_string_equal(w.store.order, "fbfc");
    assert_int_equal(w.ended, 3);
    close_world(&w);
}

/* ---- Deadlines and cancels ------------------------------------------------------------------- */

static void test_deadline(void **state)
{
    world w;
    job jobs[3];
    int left = 1000;

    /* Under way, and waiting for the slot. */
    open_world(&w, *state, 1, 0, 3);
    w.store.script = hang;
    for (int i = 0; i < 3; i++) {
        memset(&jobs[i], 0, sizeof jobs[i]);
        jobs[i].t = (stk__transfer){.store = &w.store.base,
                                    .key = "a",
                                    .length = 10,
                                    .data = jobs[i].data,
                                    .deadline_ns = i < 2 ? w.now + (20 + (uint64_t)i) * MS : 0,
                                    .user = &jobs[i].calls};
        stk__fetcher_add(w.fetcher, &jobs[i].t);
    }
    stk__fetcher_pump(w.fetcher);
    assert_int_equal(stk__fetcher_due(w.fetcher), w.now + 20 * MS);
    w.now += 20 * MS;
    stk__fetcher_pump(w.fetcher);
    assert_failed(&jobs[0], STK_ETIMEDOUT);
    w.now += MS;
    stk__fetcher_pump(w.fetcher);
    assert_failed(&jobs[1], STK_ETIMEDOUT);
    assert_int_equal(jobs[2].calls, 0);
    assert_int_equal(stk__fetcher_due(w.fetcher), UINT64_MAX);
    stk__fetcher_stop(w.fetcher, true);
    assert_failed(&jobs[2], STK_ECANCELED);
    stk__fetcher_stop(w.fetcher, false);

    /* No try begins behind it: the failure that is known tells more. */
    w.store.script = fail_some;
    w.store.user = &left;
    memset(&jobs[0], 0, sizeof jobs[0]);
    jobs[0].t = (stk__transfer){.store = &w.store.base,
                                .key = "f",
                                .length = 10,
                                .data = jobs[0].data,
                                .deadline_ns = w.now + 11 * MS,
                                .user = &jobs[0].calls};
    stk__fetcher_add(w.fetcher, &jobs[0].t);
    stk__fetcher_pump(w.fetcher);
    w.now = stk__fetcher_due(w.fetcher);
    stk__fetcher_pump(w.fetcher);
    assert_failed(&jobs[0], STK_EIO);
    assert_int_equal(jobs[0].t.tries, 2);
    close_world(&w);
}

static void test_cancel(void **state)
{
    world w;
    job jobs[5];
    int left = 1;

    open_world(&w, *state, 3, 5, 3);
    w.store.script = fail_some;
    w.store.user = &left;
    job_add(&w, &jobs[0], "f", 0, 5, 0); /* waits for its next try */
    stk__fetcher_pump(w.fetcher);
    w.store.script = late;
    job_add(&w, &jobs[1], "b", 0, 10, 0); /* under way, both pieces */
    stk__fetcher_pump(w.fetcher);
    w.store.script = hang;
    job_add(&w, &jobs[2], "c", 0, 10, 0); /* one piece under way, one waits */
    job_add(&w, &jobs[3], "d", 0, 10, 0); /* not added alone: all wait */
    stk__fetcher_pump(w.fetcher);
    scripted_release(&w.store, 0);
    stk__fetcher_stop(w.fetcher, true);
    job_add(&w, &jobs[4], "e", 0, 50, 0); /* while it is stopped */
    stk__fetcher_pump(w.fetcher);
    assert_failed(&jobs[4], STK_ECANCELED);
    stk__fetcher_stop(w.fetcher, false);
    assert_int_equal(w.ended, 5);
    assert_failed(&jobs[0], STK_ECANCELED);
    assert_failed(&jobs[1], STK_ECANCELED);
    assert_failed(&jobs[2], STK_ECANCELED);
    assert_failed(&jobs[3], STK_ECANCELED);
    w.store.script = NULL; /* and it goes on */
    job_add(&w, &jobs[4], "e", 0, 50, 0);
    stk__fetcher_pump(w.fetcher);
    assert_bytes(&jobs[4]);
    close_world(&w);
}

/* A failure that may pass is not tried again once the transfer is canceled. */
static void test_canceled_is_final(void **state)
{
    world w;
    job j;

    open_world(&w, *state, 1, 0, 3);
    w.store.script = late;
    job_add(&w, &j, "a", 0, 10, 0);
    stk__fetcher_pump(w.fetcher);
    stk_read *read = w.store.held[0];
    w.store.num_held = 0; /* cancel() finds nothing; then it fails by itself */
    stk__fetcher_stop(w.fetcher, true);
    stk__fetcher_stop(w.fetcher, false);
    assert_int_equal(j.calls, 0);
    assert_int_equal(w.store.cancels, 1);
    scripted_end(&w.store, read, STK_EIO);
    assert_failed(&j, STK_EIO);
    assert_int_equal(w.store.reads, 1);
    close_world(&w);
}

static act late_behind(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    return n ? ACT_LATE : ACT_NOW;
}

static act fails_first(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    *status = n ? STK_OK : STK_EIO;
    return ACT_NOW;
}

static stk_status no_bytes_now(stk_store *store, const char *key, uint64_t offset, uint64_t length,
                               void *data)
{
    return STK_EAGAIN;
}

/* A transfer of a store that reads without waiting where it can says whether all of it came so. */
static void what_came_at_once(void **state)
{
    static const struct {
        act (*script)(scripted *s, const stk_read *read, uint32_t n, stk_status *status);
        bool knows, at_once;
    } cases[] = {{NULL, true, true},
                 {NULL, false, false},
                 {late, true, false},
                 {late_behind, true, false},
                 {fails_first, true, false}};
    stk_store_ops ops = scripted_ops;
    world w;
    job j;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        open_world(&w, *state, 4, 30, 1);
        ops.read_now = cases[i].knows ? no_bytes_now : NULL;
        w.store.base.ops = &ops;
        w.store.script = cases[i].script;
        job_add(&w, &j, "x", 10, 50, 0); /* two reads */
        stk__fetcher_pump(w.fetcher);
        while (scripted_release(&w.store, 0))
            ;
        if (stk__fetcher_due(w.fetcher) != UINT64_MAX)
            w.now = stk__fetcher_due(w.fetcher);
        stk__fetcher_pump(w.fetcher);
        assert_bytes(&j);
        assert_int_equal(j.t.at_once, cases[i].at_once);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_up_to, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_first_failure, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_depth_of_each_store, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_moved_depth, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_order, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_backoff, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_jitter, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_what_is_tried, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_retry_order, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_deadline, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_cancel, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_canceled_is_final, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(what_came_at_once, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

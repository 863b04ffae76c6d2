/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any mixture of stores, depths, priorities, pieces, failures, delays, deadlines and cancels, with
 * several threads that add, pump, cancel and end reads: every transfer ends exactly once, its bytes
 * are exact, and no store ever has more reads under way than its depth.
 */
#include "unit/store/scripted.h"

#include <sched.h>

#define ROUNDS    60
#define STORES    3
#define TRANSFERS 120
#define THREADS   3
#define SIZE      600

typedef struct item {
    stk__transfer t;
    atomic_int calls;
    unsigned char data[SIZE];
} item;

typedef struct plan {
    stk_context *ctx;
    scripted stores[STORES];
    item items[TRANSFERS];
    stk__fetcher *fetcher;
    _Atomic uint64_t now;
    atomic_uint next, ended;
    uint64_t seed;
    uint32_t fail, late, hang; /* of 100 */
    bool cancels;
} plan;

static uint64_t hash(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 27;
    x *= UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 33;
}

static act script(scripted *s, const stk_read *read, uint32_t n, stk_status *status)
{
    static const stk_status failures[] = {STK_EIO, STK_ETIMEDOUT, STK_ENOMEM, STK_EACCES};
    const plan *p = s->user;
    const uint64_t draw = hash(p->seed + n * 977 + (uint64_t)(s - p->stores));

    if (draw % 100 < p->fail) {
        *status = failures[draw / 100 % 4];
        if (draw / 400 % 8 == 0)
            return ACT_REFUSE;
    }
    const uint64_t how = draw / 10000 % 100;
    return how < p->hang ? ACT_HANG : how < p->hang + p->late ? ACT_LATE : ACT_NOW;
}

static uint64_t plan_now(void *clock)
{
    return atomic_load((_Atomic uint64_t *)clock);
}

static void on_ended(void *user, stk__transfer *list)
{
    plan *p = user;

    for (stk__transfer *next; list; list = next) {
        next = list->next;
        atomic_fetch_add(&((item *)list->user)->calls, 1);
        atomic_fetch_add(&p->ended, 1);
    }
}

static void add_next(plan *p)
{
    const uint32_t i = atomic_fetch_add(&p->next, 1);

    if (i >= TRANSFERS)
        return;
    item *it = &p->items[i];
    const uint64_t draw = hash(p->seed * 31 + i);
    it->t = (stk__transfer){.store = &p->stores[draw % STORES].base,
                            .key = draw / 3 % 20 == 0 ? "absent" : "bcdefgh" + draw / 60 % 6,
                            .offset = draw / 400 % SIZE,
                            .length = draw / 240000 % (SIZE / 2),
                            .data = it->data,
                            .priority = draw >> 60,
                            .up_to = draw >> 59 & 1,
                            .user = it};
    if ((draw >> 57 & 3) == 0)
        it->t.deadline_ns = atomic_load(&p->now) + 1 + (draw >> 40 & 0xFFFFFF) * 4;
    stk__fetcher_add(p->fetcher, &it->t);
}

/* What each thread does until all has ended: a bit of everything, and time passes. */
static void *churn(void *argument)
{
    plan *p = argument;
    uint64_t draw = hash(p->seed + (uint64_t)(uintptr_t)&draw);

    while (atomic_load(&p->ended) < TRANSFERS) {
        draw = hash(draw + 1);
        if (draw % 4 == 0 || atomic_load(&p->next) < THREADS)
            add_next(p);
        else
            scripted_release(&p->stores[draw / 4 % STORES], draw / 64);
        if (draw >> 32 & 1)
            stk__fetcher_pump(p->fetcher);
        atomic_fetch_add(&p->now, draw >> 44);
        const uint64_t due = stk__fetcher_due(p->fetcher);
        if (atomic_load(&p->next) >= TRANSFERS && due != UINT64_MAX && due > atomic_load(&p->now))
            atomic_store(&p->now, due);
        if (p->cancels && (draw >> 34 & 63) == 0)
            stk__fetcher_stop(p->fetcher, draw & 1);
        if (atomic_load(&p->next) >= TRANSFERS + 50 * THREADS)
            stk__fetcher_stop(p->fetcher, true); /* what hangs */
        sched_yield();
    }
    return NULL;
}

static void check(const plan *p)
{
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        const item *it = &p->items[i];
        assert_int_equal(it->calls, 1);
        if (it->t.status != STK_OK) {
            assert_int_equal(it->t.got, 0);
            continue;
        }
        const uint64_t there = SIZE - (it->t.offset < SIZE ? it->t.offset : SIZE);
        assert_int_equal(it->t.got, it->t.up_to && there < it->t.length ? there : it->t.length);
        for (uint64_t k = 0; k < it->t.got; k++)
            assert_int_equal(it->data[k], scripted_byte(it->t.key, it->t.offset + k));
        if (!p->cancels && it->t.deadline_ns == 0)
            assert_string_not_equal(it->t.key, "absent");
    }
    for (int s = 0; s < STORES; s++) {
        assert_in_range(p->stores[s].most, 0, p->stores[s].limits.io_depth);
        assert_int_equal(p->stores[s].under_way, 0);
    }
}

static void test_any_mixture(void **state)
{
    uint64_t seed = 20261123;
    plan *p = calloc(1, sizeof *p);

    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        memset(p, 0, sizeof *p);
        p->ctx = *state;
        p->seed = test_random(&seed);
        p->now = 1;
        p->fail = (uint32_t)(test_random(&seed) % 3) * 20;
        p->late = (uint32_t)(test_random(&seed) % 3) * 40;
        p->hang = test_random(&seed) % 3 ? 0 : 5;
        p->cancels = test_random(&seed) % 4 == 0;
        for (int s = 0; s < STORES; s++) {
            scripted_init(&p->stores[s], p->ctx, 1 + (uint32_t)(test_random(&seed) % 9),
                          test_random(&seed) % 2 ? 0 : 16 + test_random(&seed) % 100, SIZE);
            p->stores[s].script = script;
            p->stores[s].user = p;
        }
        const stk__fetcher_options options = {.retries = (uint32_t)(test_random(&seed) % 5),
                                              .seed = p->seed,
                                              .now = plan_now,
                                              .clock = &p->now,
                                              .ended = on_ended,
                                              .user = p};
        assert_int_equal(stk__fetcher_create(p->ctx, &options, &p->fetcher), STK_OK);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, churn, p), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        stk__fetch_stats stats;
        stk__fetcher_stats(p->fetcher, &stats);
        assert_int_equal(stats.under_way + stats.waiting, 0);
        assert_int_equal(stats.bytes_under_way, 0);
        stk__fetcher_destroy(&p->fetcher);
        check(p);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_mixture, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

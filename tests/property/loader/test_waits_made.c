/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines in made-up time: reads, workers and a consumer whose every moment is known, so that no
 * machine is too slow for it. `other` is what a thread takes to wake, and `ordering` what a batch
 * is late behind one that was begun after it, to the nanosecond; both stay below 2 % of the waits
 * unless they are planted.
 */
#include <stdlib.h>

#include "loader/parts.h"
#include "support/support.h"

enum { BATCHES = 400, ROWS = 16, DEPTH = 4, WORKERS_MOST = 4, PIPELINES = 60 };

/* What is made. Nanoseconds. */
typedef struct recipe {
    uint64_t workers, latency, work, step, wake;
    uint64_t straggler_of; /* one row in so many takes a hundred times as long; 0: none */
} recipe;

typedef struct batch {
    uint64_t planned, complete, asked, got;
    stk__path path; /* of the row that completed it */
} batch;

typedef struct made {
    stk__stalls stalls;
    stk__steps window;
    stk__step steps[DEPTH];
    batch batches[BATCHES];
} made;

static uint64_t seed;

/* A value and up to a fifth more. */
static uint64_t about(uint64_t value)
{
    return value + test_random(&seed) % (value / 5 + 1);
}

/* The rows of a batch, in order, each by the worker that is free first. */
static void prepare(const recipe *r, batch *b, uint64_t *free_at)
{
    for (int row = 0; row < ROWS; row++) {
        const uint64_t arrived = b->planned + about(r->latency);
        const bool straggles = r->straggler_of && test_random(&seed) % r->straggler_of == 0;
        uint64_t worker = 0;
        for (uint64_t w = 1; w < r->workers; w++)
            if (free_at[w] < free_at[worker])
                worker = w;
        const uint64_t start = STK_MAX(free_at[worker], arrived),
                       end = start + about(r->work) * (straggles ? 100 : 1);
        free_at[worker] = end;
        if (end <= b->complete)
            continue;
        b->complete = end;
        b->path = (stk__path){.queued_ns = b->planned,
                              .first_ns = b->planned,
                              .sent_ns = b->planned,
                              .arrived_ns = arrived,
                              .start_ns = start,
                              .end_ns = end,
                              .work = {[STK__WORK_DECODE] = 1, [STK__WORK_TRANSFORM] = 1}};
    }
}

/* A batch is planned once the one that had its place is taken. */
static void make(made *m, const recipe *r)
{
    uint64_t free_at[WORKERS_MOST] = {0}, now = 1000000;

    for (int i = 0; i < BATCHES; i++) {
        batch *b = &m->batches[i];
        *b = (batch){.planned = i < DEPTH ? now : m->batches[i - DEPTH].got};
        prepare(r, b, free_at);
        b->asked = i ? m->batches[i - 1].got + about(r->step) : now;
        b->got = STK_MAX(b->asked, b->complete) + r->wake;
    }
}

/* What the ledger makes of it. */
static void settle(made *m, const recipe *r)
{
    stk__steps *l = &m->window;

    *l = (stk__steps){.records = m->steps, .num = DEPTH};
    m->stalls.alone = r->workers == 0;
    m->stalls.cold = STK_WAIT_PARTS;
    for (uint64_t i = 0; i < BATCHES; i++) {
        const batch *b = &m->batches[i];
        l->slab_end = STK_MIN(i + DEPTH, (uint64_t)BATCHES);
        for (uint64_t k = i; k < l->slab_end; k++) {
            const batch *later = &m->batches[k];
            m->steps[k % DEPTH] = (stk__step){.serial = k,
                                              .planned_ns = later->planned,
                                              .room_ns = later->planned,
                                              .complete = later->complete <= b->got,
                                              .complete_ns = later->complete,
                                              .path = later->path};
        }
        stk__stall_settle_locked(&m->stalls, l, &m->steps[i % DEPTH], b->asked, b->got);
    }
}

/* From when a later batch was complete, what was waited for the one at hand. */
static uint64_t overtaken(const made *m, int i)
{
    const batch *b = &m->batches[i];
    uint64_t earliest = UINT64_MAX;

    for (int k = i + 1; k < BATCHES && k < i + DEPTH; k++)
        if (m->batches[k].complete <= b->got)
            earliest = STK_MIN(earliest, m->batches[k].complete);
    earliest = STK_MAX(earliest, b->asked);
    return b->complete > earliest ? b->complete - earliest : 0;
}

/* Run one; the shares of `other` and `ordering`. */
static void run(const recipe *r, double *other, double *ordering)
{
    made *m = calloc(1, sizeof *m);
    uint64_t waited = 0, behind = 0, sum = 0;

    make(m, r);
    settle(m, r);
    for (int i = 0; i < BATCHES; i++) {
        waited += m->batches[i].got - m->batches[i].asked;
        behind += overtaken(m, i);
    }
    const stk_waits *w = &m->stalls.waits;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        sum += w->parts_ns[i];
    assert_int_equal(w->total_ns, waited);
    assert_int_equal(sum, waited);
    assert_int_equal(w->parts_ns[STK_WAIT_OTHER], BATCHES * r->wake);
    assert_int_equal(w->parts_ns[STK_WAIT_ORDERING], behind);
    *other = (double)w->parts_ns[STK_WAIT_OTHER] / (double)waited;
    *ordering = (double)w->parts_ns[STK_WAIT_ORDERING] / (double)waited;
    free(m);
}

/* A pipeline that is waited for: what it does takes longer than the step. */
static recipe draw(void)
{
    recipe r = {.workers = 1 + test_random(&seed) % WORKERS_MOST,
                .latency = 100000 + test_random(&seed) % 5000000,
                .step = 200000 + test_random(&seed) % 1000000,
                .wake = 5000};

    r.work = 2 * r.step * r.workers / ROWS;
    return r;
}

static void small_unless_planted(void **state)
{
    double other, ordering;

    (void)state;
    seed = 20260221;
    for (int i = 0; i < PIPELINES; i++) {
        recipe r = draw();
        run(&r, &other, &ordering);
        assert_true(other < 0.02 && ordering < 0.02);
    }
}

static void told_where_planted(void **state)
{
    double other, ordering;

    (void)state;
    seed = 7;
    for (int i = 0; i < PIPELINES; i++) {
        recipe r = draw();
        r.workers = 2 + r.workers % (WORKERS_MOST - 1);
        r.latency = r.step / 10;
        r.straggler_of = 10 * ROWS;
        run(&r, &other, &ordering);
        assert_true(ordering > 0.05);
        r.straggler_of = 0;
        r.wake = r.step;
        run(&r, &other, &ordering);
        assert_true(other > 0.2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_unless_planted),
        cmocka_unit_test(told_where_planted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    uint64_t link;         /* reads end one after the other, so far apart */
    uint64_t switching;    /* an idle worker gets its core so much later */
    uint64_t straggler_of; /* one row in so many takes a hundred times as long; 0: none */
} recipe;

typedef struct batch {
    uint64_t planned, complete, asked, got;
    stk__path path;                          /* of the row that completed it */
    uint64_t idle_from[ROWS], idle_to[ROWS]; /* of the worker that prepares a row, before it */
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

/* What is there, since when. */
typedef struct crew {
    uint64_t free_at[WORKERS_MOST], idle, link;
} crew;

static int earlier(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The rows of a batch, in the order in which they come, each by the worker that is free first. */
static void prepare(const recipe *r, batch *b, crew *c)
{
    uint64_t *free_at = c->free_at, came[ROWS];

    for (int row = 0; row < ROWS; row++)
        came[row] = c->link =
            STK_MAX(b->planned + about(r->latency), r->link ? c->link + about(r->link) : 0);
    qsort(came, ROWS, sizeof *came, earlier);
    for (int row = 0; row < ROWS; row++) {
        const uint64_t arrived = came[row];
        const bool straggles = r->straggler_of && test_random(&seed) % r->straggler_of == 0;
        uint64_t worker = 0;
        for (uint64_t w = 1; w < r->workers; w++)
            if (free_at[w] < free_at[worker])
                worker = w;
        const bool idle = free_at[worker] < arrived;
        const uint64_t start = idle ? arrived + r->switching : free_at[worker],
                       end = start + about(r->work) * (straggles ? 100 : 1);
        b->idle_from[row] = idle ? free_at[worker] : 0;
        b->idle_to[row] = idle ? start : 0;
        free_at[worker] = end;
        c->idle = idle ? start : c->idle;
        if (end <= b->complete)
            continue;
        b->complete = end;
        b->path = (stk__path){.queued_ns = b->planned,
                              .first_ns = b->planned,
                              .sent_ns = b->planned,
                              .arrived_ns = arrived,
                              .idle_ns = c->idle,
                              .start_ns = start,
                              .end_ns = end,
                              .work = {[STK__WORK_DECODE] = 1, [STK__WORK_TRANSFORM] = 1}};
    }
}

/* A batch is planned once the one that had its place is taken. */
static void make(made *m, const recipe *r)
{
    uint64_t now = 1000000;
    crew c = {0};

    for (int i = 0; i < BATCHES; i++) {
        batch *b = &m->batches[i];
        *b = (batch){.planned = i < DEPTH ? now : m->batches[i - DEPTH].got};
        prepare(r, b, &c);
        b->asked = i ? m->batches[i - 1].got + about(r->step) : now;
        b->got = STK_MAX(b->asked, b->complete) + r->wake;
    }
}

/* How long the workers were idle until a batch was there, in the mean. */
static uint64_t idle_until(const made *m, const recipe *r, uint64_t now)
{
    uint64_t sum = 0;

    for (int i = 0; i < BATCHES && m->batches[i].planned < now; i++)
        for (int row = 0; row < ROWS; row++)
            if (m->batches[i].idle_from[row] < now)
                sum += STK_MIN(m->batches[i].idle_to[row], now) - m->batches[i].idle_from[row];
    return sum / STK_MAX(r->workers, 1);
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
        stk__stall_settle_locked(&m->stalls, l, &m->steps[i % DEPTH], idle_until(m, r, b->got),
                                 b->asked, b->got);
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

/* Shares of the waits. */
typedef struct shares {
    double other, ordering, reading, work;
} shares;

static shares run(const recipe *r)
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
    const double all = (double)waited;
    const shares found = {
        .other = (double)w->parts_ns[STK_WAIT_OTHER] / all,
        .ordering = (double)w->parts_ns[STK_WAIT_ORDERING] / all,
        .reading =
            (double)(w->parts_ns[STK_WAIT_READ_SLOT] + w->parts_ns[STK_WAIT_STORAGE_LATENCY] +
                     w->parts_ns[STK_WAIT_STORAGE_TRANSFER]) /
            all,
        .work = (double)(w->parts_ns[STK_WAIT_WORKER] + w->parts_ns[STK_WAIT_DECODE] +
                         w->parts_ns[STK_WAIT_TRANSFORM] + w->parts_ns[STK_WAIT_COLLATE]) /
                all};
    free(m);
    return found;
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
    (void)state;
    seed = 20260221;
    for (int i = 0; i < PIPELINES; i++) {
        const recipe r = draw();
        const shares s = run(&r);
        assert_true(s.other < 0.02 && s.ordering < 0.02);
    }
}

static void told_where_planted(void **state)
{
    (void)state;
    seed = 7;
    for (int i = 0; i < PIPELINES; i++) {
        recipe r = draw();
        r.workers = 2 + r.workers % (WORKERS_MOST - 1);
        r.latency = r.step / 10;
        r.straggler_of = 10 * ROWS;
        assert_true(run(&r).ordering > 0.05);
        r.straggler_of = 0;
        r.wake = r.step;
        assert_true(run(&r).other > 0.2);
    }
}

/* What is too slow for the step is the cause, and not what comes after it and has time: work of
 * rows that come one after the other, or all at once, to workers that had nothing to do. */
static void told_by_what_is_full(void **state)
{
    (void)state;
    seed = 11;
    for (int i = 0; i < PIPELINES; i++) {
        recipe r = draw();
        /* The workers are: whatever is read takes a quarter of that. */
        r.latency = r.step / 2;
        assert_true(run(&r).work > 0.95);
        r.link = r.step / 2 / ROWS;
        assert_true(run(&r).work > 0.95);
        /* A narrow store is: workers have nothing to do for more than half of the time. */
        r.link = 2 * r.step / ROWS;
        r.work /= 2 + test_random(&seed) % 8;
        assert_true(run(&r).reading > 0.95);
        /* A late store is: all rows of a batch come at once, and wait for each other. */
        r.link = 0;
        r.latency = 2 * DEPTH * r.step;
        assert_true(run(&r).reading > 0.95);
        /* Workers that come late are no store that is. */
        r.latency = r.step / 10;
        r.switching = 2 * DEPTH * r.step;
        assert_true(run(&r).reading < 0.05);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_unless_planted),
        cmocka_unit_test(told_where_planted),
        cmocka_unit_test(told_by_what_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

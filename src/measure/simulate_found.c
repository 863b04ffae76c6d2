/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows find what they need in the pool: the order and the planner, row by row. Ranges are
 * admitted, decoded and given up as the loader does [loader/plan.c, unit.c, decode.c]:
 *
 *   admit    rows in order, as far as records of steps go, and room in the pool: a range takes a
 *            buffer for what is read and one for what it becomes, and is admitted for a little more
 *   decode   what the oldest rows want, in order; the bytes as they were read go
 *   prepare  a row that is done lets go; a range that no planned row wants stays until the pool is
 *            full, or planning has passed the horizon
 *
 * Rows that come next are drawn as the order does: streams in turn, each from as many rows as it
 * mixes at a time. Where these are few they are gone through, hand by hand, as an order does; of
 * many each row is any of them, as in the midst of a hand.
 */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "measure/simulate_shared.h"

#define ROWS      16384u /* of all streams: more are drawn, fewer gone through */
#define LEAST     4096u  /* rows that are counted at least */
#define HANDS     4u     /* that are told apart: planning is two ahead at most */
#define MOST_EACH 65536u /* ranges of a kind at hand: of more next to none is found */
#define NONE      UINT32_MAX

typedef struct range {
    uint32_t rows;         /* planned that want it */
    uint32_t hand;         /* in which a row wanted it last, + 1; 0: none did */
    uint64_t last;         /* step of the last of these rows */
    uint32_t next, before; /* of those that no row wants; NONE: there is none */
    bool lives, decoded;
} range;

typedef struct kind {
    uint32_t each;                  /* ranges of a hand of a stream */
    uint32_t base;                  /* of the first in `ranges` */
    double read, decoded, admitted; /* bytes of the pool */
    uint64_t asked, first, missed;  /* rows; of them the first in a hand; that found none */
} kind;

typedef struct pool {
    const stk__mixing *set;
    kind kinds[STK_CLAIM_KINDS];
    range *ranges;
    uint32_t *order;               /* [HANDS][rows]: where a row lies in the hand, of 2^32 */
    uint32_t *first_of;            /* of each range of a hand of the last kind, a row of the step */
    uint64_t *keys;                /* of the rows of a step */
    uint32_t rows, hands, streams; /* of a hand; hands that have ranges of their own */
    uint32_t drawn;                /* hands */
    bool draws;                    /* any row, time and again */
    uint64_t batch, admitted, decoded, prepared, reclaimed; /* reclaimed: a step */
    double used, most;
    uint32_t idle, last_idle; /* of those that no row wants, by `last`; NONE: there is none */
    bool full;
} pool;

/* ---- The order ------------------------------------------------------------------------------- */

/* A place -> the number of a range of a kind among those of a hand. */
static uint32_t range_at(const pool *p, const kind *k, uint32_t place)
{
    return (uint32_t)((uint64_t)place * k->each * p->streams >> 32);
}

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Rows of a step that need the same are admitted and prepared with the first of them. */
static void group_step(pool *p, uint32_t *places, uint32_t n)
{
    const kind *k = &p->kinds[p->set->num_kinds - 1]; /* its ranges are of the fewest rows */

    for (uint32_t i = n; i-- > 0;)
        p->first_of[range_at(p, k, places[i])] = i;
    for (uint32_t i = 0; i < n; i++)
        p->keys[i] = (uint64_t)p->first_of[range_at(p, k, places[i])] << 32 | places[i];
    qsort(p->keys, n, sizeof *p->keys, by_key);
    for (uint32_t i = 0; i < n; i++)
        places[i] = (uint32_t)p->keys[i];
}

/* The next hand: those of all streams, whose rows stand in turn. */
static void draw_hand(pool *p)
{
    const uint32_t streams = p->streams, each = p->rows / streams;
    uint32_t *to = p->order + (uint64_t)(p->drawn % HANDS) * p->rows;
    stk__permutation mixed;

    if (p->draws)
        stk__draw(0, p->drawn, 0, STK_DRAW_DATA, to, p->rows);
    for (uint32_t s = 0; s < streams; s++) {
        stk__permutation_init(&mixed, each, 0, p->drawn, s);
        for (uint32_t i = 0; i < each; i++) {
            uint32_t *at = &to[i * streams + s];
            const double in =
                p->draws ? *at * 0x1p-32 : ((double)stk__permutation_at(&mixed, i) + 0.5) / each;
            *at = (uint32_t)((s + in) / streams * 0x1p32);
        }
    }
    for (uint32_t at = 0; p->set->grouped && at < p->rows; at += (uint32_t)p->batch)
        group_step(p, to + at, STK_MIN((uint32_t)p->batch, p->rows - at));
    p->drawn++;
}

/* The range of a kind that a row wants. */
static uint32_t range_of(const pool *p, const kind *k, uint64_t row)
{
    const uint64_t hand = row / p->rows, all = (uint64_t)k->each * p->streams;

    return k->base + (uint32_t)(hand % p->hands * all) +
           range_at(p, k, p->order[hand % HANDS * p->rows + row % p->rows]);
}

/* ---- The pool -------------------------------------------------------------------------------- */

static const kind *kind_of(const pool *p, uint32_t number)
{
    uint32_t i = p->set->num_kinds - 1;

    while (p->kinds[i].base > number)
        i--;
    return &p->kinds[i];
}

static void give(pool *p, double bytes)
{
    p->used -= bytes;
    p->full = false;
}

/* Rows end in order, and a range with the last of its rows: so the list is sorted. */
static void add_idle(pool *p, uint32_t number)
{
    range *r = &p->ranges[number];

    r->next = NONE;
    r->before = p->last_idle;
    *(r->before == NONE ? &p->idle : &p->ranges[r->before].next) = number;
    p->last_idle = number;
}

static void take_idle(pool *p, range *r)
{
    *(r->before == NONE ? &p->idle : &p->ranges[r->before].next) = r->next;
    *(r->next == NONE ? &p->last_idle : &p->ranges[r->next].before) = r->before;
}

/* Ranges that no row wants: those that none within the horizon can want any more, or all. */
static void reclaim(pool *p, bool all)
{
    const uint64_t step = p->admitted / p->batch;

    if (!all && step == p->reclaimed)
        return;
    p->reclaimed = step;
    while (p->idle != NONE) {
        const uint32_t number = p->idle;
        range *r = &p->ranges[number];
        if (!all && step <= r->last + p->set->horizon)
            break;
        take_idle(p, r);
        r->lives = r->decoded = false;
        give(p, kind_of(p, number)->decoded);
    }
}

/* What a row lacks becomes part of the pool. */
static void take_row(pool *p, uint64_t row, double *taken)
{
    const uint32_t hand = (uint32_t)(row / p->rows) + 1;

    for (uint32_t i = 0; i < p->set->num_kinds; i++) {
        kind *k = &p->kinds[i];
        range *r = &p->ranges[range_of(p, k, row)];
        if (row >= p->rows) { /* after the first hand */
            k->asked++;
            k->first += p->draws ? !r->hand : r->hand != hand;
            k->missed += !r->lives;
        }
        *taken += r->lives ? 0 : k->read + k->decoded;
        if (r->lives && !r->rows)
            take_idle(p, r);
        r->lives = true;
        r->hand = hand;
        r->last = row / p->batch;
        r->rows++;
    }
}

/* Rows of one round, of which what they take is promised until its end. */
static void plan_round(pool *p)
{
    const uint64_t ahead = STK_MIN(p->set->steps * p->batch, 2ull * p->rows),
                   end = p->prepared / p->batch * p->batch + ahead;
    double promised = 0, taken = 0;

    while (p->admitted < end && !p->full) {
        double cost = 0;
        while (p->admitted / p->rows >= p->drawn)
            draw_hand(p);
        for (uint32_t i = 0; i < p->set->num_kinds; i++) {
            const kind *k = &p->kinds[i];
            cost += p->ranges[range_of(p, k, p->admitted)].lives ? 0 : k->admitted;
        }
        p->full = cost > 0 && p->admitted > p->prepared && p->used + promised + cost > p->set->pool;
        if (p->full)
            break;
        promised += cost;
        take_row(p, p->admitted++, &taken);
    }
    p->used += taken;
    p->most = STK_MAX(p->most, p->used);
}

/* What a full pool gives up may make room. */
static void plan(pool *p)
{
    for (bool again = !p->full; again;) {
        plan_round(p);
        again = p->full;
        reclaim(p, p->full);
        again = again && !p->full;
    }
}

static void decode_row(pool *p, uint64_t row)
{
    for (uint32_t i = 0; i < p->set->num_kinds; i++) {
        range *r = &p->ranges[range_of(p, &p->kinds[i], row)];
        if (r->decoded)
            continue;
        r->decoded = true;
        give(p, p->kinds[i].read);
        plan(p);
    }
}

static void end_row(pool *p, uint64_t row)
{
    for (uint32_t i = 0; i < p->set->num_kinds; i++) {
        const uint32_t number = range_of(p, &p->kinds[i], row);
        range *r = &p->ranges[number];
        if (--r->rows)
            continue;
        if (p->full) {
            r->lives = r->decoded = false;
            give(p, p->kinds[i].decoded);
        } else {
            add_idle(p, number);
        }
    }
}

/* A row is prepared once what it wants is decoded; by one thread, what its step wants. */
static void go_on(pool *p)
{
    const uint64_t end =
        p->set->one_thread ? (p->prepared / p->batch + 1) * p->batch : p->prepared + 1;

    plan(p);
    while (p->decoded < p->admitted && p->decoded < end)
        decode_row(p, p->decoded++);
    end_row(p, p->prepared++);
}

/* ---- A run ----------------------------------------------------------------------------------- */

static void make_kind(pool *p, uint32_t i, uint32_t *ranges)
{
    const stk__shared_kind *from = &p->set->kinds[i];
    const double hand = p->set->rows / p->streams, wanted = hand / STK_MAX(from->rows, 1.0),
                 whole = STK_MIN(STK_MAX(round(wanted), 1.0), (double)(MOST_EACH / p->streams + 1));
    /* As much is at hand where there is no part of a range. */
    const double needs = STK_MIN(wanted / whole, 2.0) * from->needs,
                 decoded = stk__buffer_of(from->decoded);

    p->kinds[i] = (kind){.each = (uint32_t)whole,
                         .base = *ranges,
                         .read = needs * stk__buffer_of(from->read),
                         .decoded = needs * decoded,
                         .admitted = needs * (stk__read_of(from->read) + decoded)};
    *ranges += p->kinds[i].each * p->streams * p->hands;
}

static stk_status make(pool *p, stk_context *ctx)
{
    const stk__mixing *set = p->set;
    uint32_t ranges = 0;

    p->streams =
        (uint32_t)STK_MIN(STK_MAX(set->streams, 1), STK_MAX(STK_MIN(set->rows, ROWS / 4.0), 1.0));
    p->draws = set->rows > ROWS;
    p->rows = (uint32_t)STK_MIN(set->rows, (double)ROWS) / p->streams * p->streams;
    p->batch = STK_MIN(STK_MAX(set->batch, 1), p->rows);
    p->hands = p->draws ? 1 : HANDS;
    p->idle = p->last_idle = NONE;
    for (uint32_t i = 0; i < set->num_kinds; i++)
        make_kind(p, i, &ranges);
    p->ranges = stk__calloc(ctx, ranges, sizeof *p->ranges);
    p->order = stk__calloc(ctx, (uint64_t)HANDS * p->rows, sizeof *p->order);
    p->first_of = stk__calloc(ctx, ranges / p->hands, sizeof *p->first_of);
    p->keys = stk__calloc(ctx, p->batch, sizeof *p->keys);
    return p->ranges && p->order && p->first_of && p->keys ? STK_OK : STK_ENOMEM;
}

stk_status stk__found_simulate(stk_context *ctx, const stk__mixing *set, double *found,
                               double *stay, stk_error *err)
{
    pool p = {.set = set};
    const stk_status status = make(&p, ctx);

    if (status == STK_OK) {
        const uint64_t all = p.rows + stk__divide_up(STK_MAX(p.rows, LEAST), p.rows) * p.rows;
        while (p.prepared < all)
            go_on(&p);
    }
    for (uint32_t i = 0; i < set->num_kinds; i++) {
        const kind *k = &p.kinds[i];
        const uint64_t again = k->asked - k->first, missed = STK_MAX(k->missed, k->first);
        found[i] = again ? (double)(k->asked - missed) / (double)again : 1;
    }
    *stay = p.most;
    stk__free(ctx, p.ranges);
    stk__free(ctx, p.order);
    stk__free(ctx, p.first_of);
    stk__free(ctx, p.keys);
    return status == STK_OK ? STK_OK
                            : stk__fail(err, status, STK_STAGE_MEASURE, "no memory to simulate");
}

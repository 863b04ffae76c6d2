/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates, and which of them loses least wherever in its ranges the store lies. */
#include <math.h>

#include "array/chunks_advise.h"
#include "base/sized.h"

#define MAX_COMBINATIONS (1u << 18)
#define MAX_CHUNK_BYTES                                                                            \
    INT32_MAX                /* what the buffers of codecs hold [Blosc: BLOSC_MAX_BUFFERSIZE] */
#define MAX_MULTIPLE      64 /* of the window: beyond, almost every window touches one chunk */
#define MANY_BYTES        (64u << 20) /* ... but so much of one axis may be worth one request */
#define MAX_DIVISOR       4096 /* divisors looked for, and the quotients that belong to them */
#define SAME              1e-9 /* relative difference that is rounding */
#define REGRET_STEP       0.01 /* less of it the model cannot tell */
#define BLOCKS_PER_BUFFER 4    /* blocks for each of the shuffle buffer, to be random */

/* ---- Candidates of an axis ------------------------------------------------------------------- */

typedef struct sides {
    int64_t *side;
    size_t count;
    int64_t most; /* longer ones make no sense on this axis */
} sides;

static void add(sides *s, int64_t side)
{
    if (side < 1 || side > s->most || s->count == STK__CHUNKS_SIDES)
        return;
    for (size_t i = 0; i < s->count; i++)
        if (s->side[i] == side)
            return;
    s->side[s->count++] = side;
}

/* Divisors of a length, small and large ones by turns. */
static void add_divisors(sides *s, int64_t length)
{
    for (int64_t d = 2; d <= MAX_DIVISOR && d <= length / d; d++)
        if (length % d == 0) {
            add(s, length / d);
            add(s, d);
        }
}

/* Candidates of one axis, the most promising first. Returns their number. */
static size_t chunks_sides(const stk_chunks_question *q, uint32_t axis,
                           int64_t out[STK__CHUNKS_SIDES])
{
    int64_t window = q->window[axis], extent = q->extent[axis], power = 1;
    uint64_t item = STK_MIN(q->itemsize, MANY_BYTES);
    int64_t many = (int64_t)(MANY_BYTES / item);
    sides s = {.side = out, .most = extent ? extent : INT64_MAX};

    if (!extent && window <= INT64_MAX / MAX_MULTIPLE)
        s.most = STK_MAX(window * MAX_MULTIPLE, many);
    add(&s, window);
    add(&s, 1);
    if (extent / 4 <= window)
        add(&s, extent);
    while (power <= INT64_MAX / 2 && power < window)
        power *= 2;
    /* Outwards from the window, so that a list cut short keeps what is near it. */
    for (int64_t down = power, up = power; down || up;) {
        add(&s, down);
        add(&s, up);
        down /= 2;
        up = up && up <= s.most / 2 && s.count < STK__CHUNKS_SIDES / 2 ? up * 2 : 0;
    }
    add(&s, extent);
    add(&s, q->stride[axis]);
    for (int64_t n = 2; n <= MAX_MULTIPLE && window <= INT64_MAX / n; n *= 2)
        add(&s, n * window);
    add_divisors(&s, window);
    add_divisors(&s, extent);
    return s.count;
}

/* ---- All combinations ------------------------------------------------------------------------ */

/* The candidates of all axes, and a counter that walks through their combinations. */
typedef struct walk {
    const stk_chunks_question *q;
    stk__chunks_factors factors[STK_MAX_RANK][STK__CHUNKS_SIDES];
    size_t count[STK_MAX_RANK], at[STK_MAX_RANK];
} walk;

/* Give every axis as many of its candidates as there is room for, in turn. */
static void begin(walk *w, const stk_chunks_question *q)
{
    size_t all[STK_MAX_RANK], combinations = 1;
    int64_t side[STK_MAX_RANK][STK__CHUNKS_SIDES];
    bool grown = true;

    w->q = q;
    for (uint32_t i = 0; i < q->rank; i++) {
        all[i] = chunks_sides(q, i, side[i]);
        w->count[i] = 1;
        w->at[i] = 0;
    }
    while (grown) {
        grown = false;
        for (uint32_t i = 0; i < q->rank; i++) {
            size_t more = combinations / w->count[i] * (w->count[i] + 1);
            if (w->count[i] == all[i] || more > MAX_COMBINATIONS)
                continue;
            combinations = more;
            w->count[i]++;
            grown = true;
        }
    }
    for (uint32_t i = 0; i < q->rank; i++)
        for (size_t k = 0; k < w->count[i]; k++)
            stk__chunks_factors_of(q, i, side[i][k], &w->factors[i][k]);
}

/* Go to the next combination; false after the last, which is the first again. */
static bool advance(walk *w)
{
    for (uint32_t i = w->q->rank; i-- > 0;) {
        if (++w->at[i] < w->count[i])
            return true;
        w->at[i] = 0;
    }
    return false;
}

enum fit { FITS, TOO_LONG, BEYOND_MEMORY, TOO_FEW_BLOCKS };

/* The cost of the combination, and whether it can be had. */
static enum fit price(const walk *w, stk_chunks_cost *out)
{
    const stk__chunks_factors *axes[STK_MAX_RANK];
    double bytes = (double)w->q->itemsize, windows = 1;

    *out = (stk_chunks_cost){0};
    for (uint32_t i = 0; i < w->q->rank; i++) {
        axes[i] = &w->factors[i][w->at[i]];
        bytes *= (double)axes[i]->chunk;
        windows *= axes[i]->windows;
    }
    if (bytes > MAX_CHUNK_BYTES)
        return TOO_LONG;
    stk__chunks_price(w->q, axes, out);
    if (w->q->access == STK_CHUNKS_BLOCK && out->blocks < windows &&
        out->blocks < BLOCKS_PER_BUFFER * (double)w->q->shuffle_buffer)
        return TOO_FEW_BLOCKS;
    return out->memory > (double)w->q->memory_budget ? BEYOND_MEMORY : FITS;
}

/* ---- Ranking --------------------------------------------------------------------------------- */

/* Like STK_MAX, with both evaluated once. */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double regret_of(const stk_chunks_answer *answer, const stk_chunks_cost *cost)
{
    double worst = -1;

    for (int i = 0; i < STK_CHUNKS_CASE_COUNT; i++)
        worst = larger(worst, cost->seconds[i] / answer->best_seconds[i] - 1);
    return worst;
}

/* -1, 0 or 1; differences that are rounding do not count. */
static int compare(double a, double b)
{
    return fabs(a - b) <= SAME * larger(fabs(a), fabs(b)) + SAME * SAME ? 0 : a < b ? -1 : 1;
}

/* Order of two costs whose regret is known: whether `a` is before `b`. */
static bool stands_before(const stk_chunks_question *q, const stk_chunks_cost *a,
                          const stk_chunks_cost *b)
{
    double a_size = 1, b_size = 1, a_longest = 0, b_longest = 0;

    for (uint32_t i = 0; i < q->rank; i++) {
        a_size *= (double)a->chunk[i];
        b_size *= (double)b->chunk[i];
        a_longest = larger(a_longest, (double)a->chunk[i] / (double)q->window[i]);
        b_longest = larger(b_longest, (double)b->chunk[i] / (double)q->window[i]);
    }
    int order = compare(floor(a->regret / REGRET_STEP), floor(b->regret / REGRET_STEP));
    if (order == 0)
        order = compare(a->memory, b->memory);
    if (order == 0)
        order = compare(a->seconds[STK_CHUNKS_TYPICAL], b->seconds[STK_CHUNKS_TYPICAL]);
    if (order == 0)
        order = compare(a_size, b_size);
    /* Of equal ones the one most like a window, then longest on the last axes. */
    if (order == 0)
        order = compare(a_longest, b_longest);
    for (uint32_t i = q->rank; i-- > 0 && order == 0;)
        order = a->chunk[i] > b->chunk[i] ? -1 : a->chunk[i] < b->chunk[i];
    return order < 0;
}

static void insert(stk_chunks_answer *answer, const stk_chunks_question *q,
                   const stk_chunks_cost *cost)
{
    uint32_t at = answer->num_ranked;

    while (at > 0 && stands_before(q, cost, &answer->ranked[at - 1]))
        at--;
    if (at == STK_CHUNKS_RANKED)
        return;
    uint32_t end = STK_MIN(answer->num_ranked, STK_CHUNKS_RANKED - 1);
    for (uint32_t i = end; i > at; i--)
        answer->ranked[i] = answer->ranked[i - 1];
    answer->ranked[at] = *cost;
    answer->num_ranked = end + 1;
}

/* The best of each case; and the least memory of what was left out for it. */
static double find_best(walk *w, stk_chunks_answer *answer)
{
    stk_chunks_cost cost;
    double least_memory = INFINITY;

    for (int i = 0; i < STK_CHUNKS_CASE_COUNT; i++)
        answer->best_seconds[i] = INFINITY;
    do {
        enum fit fit = price(w, &cost);
        answer->tried += fit == FITS;
        answer->beyond_memory += fit == BEYOND_MEMORY;
        answer->too_few_blocks += fit == TOO_FEW_BLOCKS;
        if (fit == BEYOND_MEMORY && cost.memory < least_memory)
            least_memory = cost.memory;
        for (int i = 0; i < STK_CHUNKS_CASE_COUNT && fit == FITS; i++)
            if (cost.seconds[i] < answer->best_seconds[i])
                answer->best_seconds[i] = cost.seconds[i];
    } while (advance(w));
    return least_memory;
}

static stk_status advise(const stk_chunks_question *question, stk_chunks_answer *out,
                         stk_error *err)
{
    stk_chunks_cost cost;
    walk w;

    STK_TRY(stk__chunks_check(question, true, err));
    begin(&w, question);
    double least_memory = find_best(&w, out);
    if (out->tried == 0 && out->beyond_memory == 0 && out->too_few_blocks == 0)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                         "no candidate has at most 2 GiB, the most that codecs take in one chunk; "
                         "an element alone has %llu bytes",
                         (unsigned long long)question->itemsize);
    if (out->tried == 0 && out->beyond_memory == 0)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_ARRAY,
            "no chunks leave %d times the %llu blocks of the shuffle_buffer to shuffle; "
            "lower it",
            BLOCKS_PER_BUFFER, (unsigned long long)question->shuffle_buffer);
    if (out->tried == 0)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_ARRAY,
                         "no chunks fit the memory_budget of %llu bytes: the thriftiest need %.0f; "
                         "raise it, or mix fewer blocks (shuffle_buffer)",
                         (unsigned long long)question->memory_budget, least_memory);
    do {
        if (price(&w, &cost) != FITS)
            continue;
        cost.regret = regret_of(out, &cost);
        insert(out, question, &cost);
    } while (advance(&w));
    for (uint32_t i = 0; i < out->num_ranked; i++)
        STK_TRY(stk__chunks_count(question, out->ranked[i].chunk, &out->ranked[i].counts, err));
    stk__chunks_explain(question, out);
    return STK_OK;
}

stk_status stk_chunks_advise(const stk_chunks_question *question, stk_chunks_answer *out,
                             stk_error *err)
{
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_chunks_question q;

    STK_TRY(stk__sized_check(out, "stk_chunks_answer", STK_STAGE_ARRAY, err));
    STK_TRY(stk__chunks_question_read(&q, question, err));
    stk_status status = advise(&q, &answer, err);
    stk__sized_write(out, &answer);
    return status;
}

double stk_chunks_regret(const stk_chunks_answer *answer, const stk_chunks_cost *cost)
{
    stk_chunks_answer known = {.struct_size = sizeof known};

    stk__sized_copy(&known, sizeof known, answer);
    return regret_of(&known, cost);
}

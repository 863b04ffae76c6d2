/* SPDX-License-Identifier: Apache-2.0 */
/* The work that `synthetic:` plants: delays with or without a heavy tail, CPU time, failures. */
#include <math.h>

#include "base/random.h"
#include "dataset/synthetic.h"

/* Of the log-normal's logarithm: the slowest of a thousand takes about 13 times the mean. */
#define LOGNORMAL_SIGMA 1.0
/* Of the Pareto distribution: a finite mean and variance, and a tail that is felt. */
#define PARETO_ALPHA 2.5
/* No draw is longer than this many means, so that one sample cannot hold up a run for hours. */
#define LONGEST 100.0
/* Rounds of the spinning loop between two looks at the clock of the thread; about a microsecond. */
#define SPIN_ROUNDS 400

enum { WORD_TAIL, WORD_DELAY, WORD_DELAY2, WORD_FAIL, WORD_RAGGED, WORD_BYTES, WORDS = 8 };

/* In (0, 1]: a logarithm of it is finite. */
static double positive(uint32_t word)
{
    return ((double)word + 1) * 0x1p-32;
}

/* A delay with this mean, but for the next to nothing that the bound LONGEST takes away. */
static double draw_delay(stk__distribution distribution, double mean, uint32_t a, uint32_t b)
{
    const double turn = 6.283185307179586;
    double delay = mean;

    switch (distribution) {
    case STK_CONSTANT:
        return mean;
    case STK_EXPONENTIAL:
        delay = -mean * log(positive(a));
        break;
    case STK_LOGNORMAL: {
        double normal = sqrt(-2 * log(positive(a))) * cos(turn * positive(b));
        delay = mean * exp(LOGNORMAL_SIGMA * normal - LOGNORMAL_SIGMA * LOGNORMAL_SIGMA / 2);
        break;
    }
    case STK_PARETO:
        delay = mean * (PARETO_ALPHA - 1) / PARETO_ALPHA * pow(positive(a), -1 / PARETO_ALPHA);
        break;
    }
    return STK_MIN(delay, LONGEST * mean);
}

/* Evenly in the span, which STK_SYNTHETIC_BYTES bounds. */
static uint64_t draw_size(stk__span span, uint32_t word)
{
    return span.low + (word * (span.high - span.low + 1) >> 32);
}

void stk__synthetic_plan(const stk__synthetic_options *o, stk__span ragged, stk__span bytes,
                         uint64_t index, stk__synthetic_work *out)
{
    uint32_t words[WORDS];

    stk__draw(o->seed, 0, index, STK_DRAW_DATA, words, WORDS);
    bool tail = (double)words[WORD_TAIL] * 0x1p-32 < o->tail_share;
    double chance = (double)words[WORD_FAIL] * 0x1p-32;
    out->delay = tail ? o->tail_delay
                      : draw_delay((stk__distribution)o->distribution, o->delay, words[WORD_DELAY],
                                   words[WORD_DELAY2]);
    out->cpu = o->cpu;
    out->status = chance < o->fail                       ? STK_EFORMAT
                  : chance < o->fail + o->fail_transient ? STK_EIO
                                                         : STK_OK;
    out->ragged = draw_size(ragged, words[WORD_RAGGED]);
    out->bytes = draw_size(bytes, words[WORD_BYTES]);
}

void stk__synthetic_spend(const stk__synthetic_work *work)
{
    if (work->cpu > 0) {
        uint64_t end = stk__thread_cpu_ns() + (uint64_t)(work->cpu * 1e9);
        volatile uint32_t sink = 1;

        while (stk__thread_cpu_ns() < end)
            for (int i = 0; i < SPIN_ROUNDS; i++)
                sink = sink * 1664525u + 1013904223u;
    }
    if (work->delay > 0)
        stk__sleep_until(stk__now_ns() + (uint64_t)(work->delay * 1e9), NULL);
}

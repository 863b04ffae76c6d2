/* SPDX-License-Identifier: Apache-2.0 */
/* A question and one chunk shape -> what a window touches, and what that costs. */
#include <math.h>

#include "array/chunks_advise.h"
#include "base/sized.h"

/* Bytes a second of one core: assumptions, see docs/chunks.md. */
#define DECODE_RATE 1e9 /* a general-purpose codec */
#define COPY_RATE   8e9 /* a copy in memory */

/* ---- What may be asked ----------------------------------------------------------------------- */

stk_status stk__chunks_question_read(stk_chunks_question *out, const stk_chunks_question *given,
                                     stk_error *err)
{
    stk_chunks_question_init(out);
    return stk__sized_read(out, sizeof *out, given, "stk_chunks_question", STK_STAGE_ARRAY, err);
}

static bool range_is_good(const stk_chunks_range *r, double least)
{
    return r->low >= least && r->typical >= r->low && r->high >= r->typical && isfinite(r->high);
}

static stk_status check_store(const stk_chunks_store *s, stk_error *err)
{
    if (!range_is_good(&s->latency, 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the latency of the store, %g..%g s, is no range of times from 0 s on; "
                         "give the lower one first",
                         s->latency.low, s->latency.high);
    if (!range_is_good(&s->bandwidth, 1))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the bandwidth of the store, %g..%g bytes/s, is no range from 1 byte/s "
                         "on; give the lower one first",
                         s->bandwidth.low, s->bandwidth.high);
    if (s->concurrency == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "a store with no request in flight gives nothing; 1 or more is needed");
    if (!(s->request_cost >= 0) || !isfinite(s->request_cost))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "a million requests cannot cost %g dollars; 0 or more is needed",
                         s->request_cost);
    return STK_OK;
}

static stk_status check_axis(const stk_chunks_question *q, uint32_t i, stk_error *err)
{
    if (q->window[i] < 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the window is %lld on axis %u; it takes 1 or more elements",
                         (long long)q->window[i], i);
    if (q->stride[i] < 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the stride is %lld on axis %u; it takes 1 or more elements",
                         (long long)q->stride[i], i);
    if (q->extent[i] < 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the extent is %lld on axis %u; it takes 1 or more elements, or 0 for an "
                         "axis without an end",
                         (long long)q->extent[i], i);
    if (q->extent[i] && q->window[i] > q->extent[i])
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the window is larger than the array on axis %u: %lld of %lld elements; "
                         "choose a smaller window",
                         i, (long long)q->window[i], (long long)q->extent[i]);
    return STK_OK;
}

stk_status stk__chunks_check(const stk_chunks_question *q, bool priced, stk_error *err)
{
    uint64_t bytes;

    if (q->rank < 1 || q->rank > STK_MAX_RANK)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "a window of %u axes; it takes 1 to %d of them", q->rank, STK_MAX_RANK);
    for (uint32_t i = 0; i < q->rank; i++)
        STK_TRY(check_axis(q, i, err));
    if (q->itemsize == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "elements of 0 bytes; give their size or data type");
    if (!stk__shape_bytes(q->window, q->rank, q->itemsize, &bytes))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                         "the window has more than 2^63 - 1 bytes; choose a smaller one");
    if (!(q->ratio >= STK__CHUNKS_MIN_RATIO && q->ratio <= STK__CHUNKS_MAX_RATIO))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the codec ratio is %g; it takes decoded bytes / stored bytes from %g to "
                         "%g",
                         q->ratio, STK__CHUNKS_MIN_RATIO, STK__CHUNKS_MAX_RATIO);
    if (!priced)
        return STK_OK;
    if (q->access < STK_CHUNKS_RANDOM || q->access > STK_CHUNKS_BLOCK)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "there is no access pattern %d; it is random, sequential or block",
                         (int)q->access);
    if (q->shuffle_buffer == 0 || q->memory_budget == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "shuffle_buffer and memory_budget take 1 or more");
    if (!(q->decode_rate >= 0) || !isfinite(q->decode_rate))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "the decode rate is %g bytes/s; it takes more than 0, or 0 for a guess",
                         q->decode_rate);
    return check_store(&q->store, err);
}

static stk_status fail_size(stk_error *err)
{
    return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                     "the chunks of a window have more than 2^63 - 1 bytes; choose smaller chunks");
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* Bytes of `chunks` chunks as they are stored. */
static bool stored_bytes(const stk_chunks_question *q, uint64_t chunks, uint64_t chunk_bytes,
                         uint64_t *out)
{
    if (!stk__mul_size(chunks, chunk_bytes, out) || *out > INT64_MAX)
        return false;
    if (q->ratio == 1)
        return true;
    long double bytes = ceill((long double)*out / (long double)q->ratio);
    *out = bytes <= (long double)INT64_MAX ? (uint64_t)bytes : 0;
    return bytes <= (long double)INT64_MAX;
}

stk_status stk__chunks_count(const stk_chunks_question *q, const int64_t *chunk,
                             stk_chunks_counts *out, stk_error *err)
{
    bool good = true, ends = true;

    *out = (stk_chunks_counts){0};
    STK_TRY(stk__chunks_check(q, false, err));
    for (uint32_t i = 0; i < q->rank; i++)
        if (chunk[i] < 1)
            return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                             "the chunk is %lld on axis %u; it takes 1 or more elements",
                             (long long)chunk[i], i);
    if (!stk__shape_bytes(chunk, q->rank, q->itemsize, &out->chunk_bytes))
        return fail_size(err);
    (void)stk__shape_bytes(q->window, q->rank, q->itemsize, &out->window_bytes);
    out->least_chunks = out->most_chunks = 1;
    out->expected_chunks = out->windows = out->chunks = 1;
    for (uint32_t i = 0; i < q->rank; i++) {
        stk__chunks_axis axis;
        stk__chunks_axis_count(q->window[i], chunk[i], q->extent[i], q->stride[i], &axis);
        good &= stk__mul_size(out->least_chunks, axis.low + (axis.high == axis.positions),
                              &out->least_chunks);
        good &= stk__mul_size(out->most_chunks, axis.low + (axis.high > 0), &out->most_chunks);
        out->expected_chunks *= (double)axis.touched / (double)axis.positions;
        out->windows *= (double)axis.positions;
        out->chunks *= (double)axis.chunks;
        ends &= q->extent[i] != 0;
    }
    if (!ends)
        out->windows = out->chunks = 0;
    good = good && stored_bytes(q, out->least_chunks, out->chunk_bytes, &out->least_bytes) &&
           stored_bytes(q, out->most_chunks, out->chunk_bytes, &out->most_bytes);
    out->expected_bytes = out->expected_chunks * (double)out->chunk_bytes / q->ratio;
    return good ? STK_OK : fail_size(err);
}

stk_status stk_chunks_count(const stk_chunks_question *question, const int64_t *chunk,
                            stk_chunks_counts *out, stk_error *err)
{
    stk_chunks_question q;

    STK_TRY(stk__chunks_question_read(&q, question, err));
    return stk__chunks_count(&q, chunk, out, err);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

void stk__chunks_factors_of(const stk_chunks_question *q, uint32_t axis, int64_t chunk,
                            stk__chunks_factors *out)
{
    stk__chunks_axis a;

    stk__chunks_axis_count(q->window[axis], chunk, q->extent[axis], q->stride[axis], &a);
    double positions = (double)a.positions;
    *out = (stk__chunks_factors){
        .touched = (double)a.touched / positions,
        .spanned = (double)a.spanned / positions,
        .distinct = (double)a.distinct / positions,
        .most = (double)a.low + (a.high > 0),
        .per_block = (double)a.spanned / (double)a.blocks,
        .row = q->extent[axis] ? (double)a.distinct : INFINITY,
        .blocks = q->extent[axis] ? (double)a.blocks : INFINITY,
        .windows = q->extent[axis] ? positions : INFINITY,
        .chunk = chunk,
    };
}

/*
 * A sweep in C order keeps the chunks it will need again: those of a window on the axes before the
 * m-th, one chunk more than a window has gone past on the m-th, all that the axes behind it have.
 * Then these axes and the m-th are read once, the axes before again for every window. The first m
 * whose front fits the memory is taken; the last is what one window needs.
 */
static void sweep(const stk_chunks_question *q, const stk__chunks_factors *const *axes,
                  double chunk_bytes, stk_chunks_cost *out)
{
    for (uint32_t m = 0; m < q->rank; m++) {
        out->requests = 1;
        out->memory = chunk_bytes;
        for (uint32_t i = 0; i < q->rank; i++) {
            out->requests *= i < m ? axes[i]->touched : axes[i]->distinct;
            out->memory *= i <= m ? axes[i]->most : axes[i]->row;
        }
        if (out->memory <= (double)q->memory_budget)
            return;
    }
}

static void shuffle(const stk_chunks_question *q, const stk__chunks_factors *const *axes,
                    double chunk_bytes, stk_chunks_cost *out)
{
    out->requests = 1;
    out->memory = chunk_bytes;
    for (uint32_t i = 0; i < q->rank; i++) {
        out->requests *= axes[i]->spanned;
        out->memory *= axes[i]->per_block;
    }
    out->memory *= STK_MIN((double)q->shuffle_buffer, out->blocks);
}

void stk__chunks_price(const stk_chunks_question *q, const stk__chunks_factors *const *axes,
                       stk_chunks_cost *out)
{
    const stk_chunks_store *s = &q->store;
    double chunk_bytes = (double)q->itemsize, most = 1, touched = 1;
    double rate = q->decode_rate > 0 ? q->decode_rate : q->ratio > 1 ? DECODE_RATE : INFINITY;
    double window = (double)q->itemsize;

    out->blocks = 1;
    for (uint32_t i = 0; i < q->rank; i++) {
        out->chunk[i] = axes[i]->chunk;
        chunk_bytes *= (double)axes[i]->chunk;
        most *= axes[i]->most;
        touched *= axes[i]->touched;
        window *= (double)q->window[i];
        out->blocks *= axes[i]->blocks;
    }
    if (q->access == STK_CHUNKS_SEQUENTIAL) {
        sweep(q, axes, chunk_bytes, out);
    } else if (q->access == STK_CHUNKS_BLOCK) {
        shuffle(q, axes, chunk_bytes, out);
    } else {
        out->requests = touched;
        out->memory = most * chunk_bytes;
    }
    double decoded = out->requests * chunk_bytes;
    double turns = out->requests / s->concurrency;
    out->bytes = decoded / q->ratio;
    out->wait_seconds = turns * s->latency.typical;
    out->transfer_seconds = out->bytes / s->bandwidth.typical;
    out->decode_seconds = decoded / rate;
    out->copy_seconds = window / COPY_RATE;
    for (int i = 0; i < STK_CHUNKS_CASE_COUNT; i++) {
        double latency = i == STK_CHUNKS_TYPICAL                          ? s->latency.typical
                         : i == STK_CHUNKS_FAST || i == STK_CHUNKS_NARROW ? s->latency.low
                                                                          : s->latency.high;
        double bandwidth = i == STK_CHUNKS_TYPICAL                       ? s->bandwidth.typical
                           : i == STK_CHUNKS_FAST || i == STK_CHUNKS_FAR ? s->bandwidth.high
                                                                         : s->bandwidth.low;
        out->seconds[i] =
            turns * latency + out->bytes / bandwidth + out->decode_seconds + out->copy_seconds;
    }
    out->dollars = out->requests * s->request_cost;
}

stk_status stk_chunks_predict(const stk_chunks_question *question, const int64_t *chunk,
                              stk_chunks_cost *out, stk_error *err)
{
    stk__chunks_factors factors[STK_MAX_RANK];
    const stk__chunks_factors *axes[STK_MAX_RANK];
    stk_chunks_question q;

    *out = (stk_chunks_cost){0};
    STK_TRY(stk__chunks_question_read(&q, question, err));
    STK_TRY(stk__chunks_check(&q, true, err));
    STK_TRY(stk__chunks_count(&q, chunk, &out->counts, err));
    for (uint32_t i = 0; i < q.rank; i++) {
        stk__chunks_factors_of(&q, i, chunk[i], &factors[i]);
        axes[i] = &factors[i];
    }
    stk__chunks_price(&q, axes, out);
    return STK_OK;
}

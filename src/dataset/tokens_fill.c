/* SPDX-License-Identifier: Apache-2.0 */
/* bytes of tokens -> fields of samples */
#include "dataset/npy.h"
#include "dataset/tokens.h"

#define LINES 8u /* cache lines of the next window that are fetched ahead */

static const char too_wide[] = "a token does not fit into int32: open it with output=int64";

static bool put_plain(const stk__tokens *t, const unsigned char *from, uint64_t n, void *out)
{
    if (t->narrow)
        return t->narrow(from, n, out);
    t->widen(from, n, out);
    return true;
}

/* Big-endian tokens, a piece at a time. */
static bool put_swapped(const stk__tokens *t, const unsigned char *from, uint64_t n, char *out)
{
    unsigned char piece[4096];
    const uint64_t most = sizeof piece / t->size, wide = t->narrow ? 4 : 8;
    bool good = true;

    for (uint64_t done = 0; done < n; done += most) {
        const uint64_t part = STK_MIN(n - done, most);
        stk__npy_swap(from + done * t->size, piece, part * t->size, t->swap);
        good &= put_plain(t, piece, part, out + done * wide);
    }
    return good;
}

bool stk__tokens_put(const stk__tokens *t, const unsigned char *from, uint64_t n, void *out)
{
    return t->swap ? put_swapped(t, from, n, out) : put_plain(t, from, n, out);
}

/* ---- Entries of the fields of integers ---- */

static void set_entries(const stk__tokens *t, void *field, uint64_t at, uint64_t n, int64_t value)
{
    if (t->narrow)
        for (uint64_t i = 0; i < n; i++)
            ((int32_t *)field)[at + i] = (int32_t)value;
    else
        for (uint64_t i = 0; i < n; i++)
            ((int64_t *)field)[at + i] = value;
}

static void count_entries(const stk__tokens *t, void *field, uint64_t at, uint64_t n)
{
    if (t->narrow)
        for (uint64_t i = 0; i < n; i++)
            ((int32_t *)field)[at + i] = (int32_t)i;
    else
        for (uint64_t i = 0; i < n; i++)
            ((int64_t *)field)[at + i] = (int64_t)i;
}

static void *entry(const stk__tokens *t, void *field, uint64_t at)
{
    return (char *)field + at * (t->narrow ? 4 : 8);
}

/* ---- Samples ---- */

/* positions, documents and loss_mask, and targets that no token is for. */
static void fill_marks(const stk__tokens *t, stk_sample *s)
{
    stk_value *marks = &s->values[1 + t->target];
    stk__token_pieces walk = stk__token_pieces_of(t, s->index);
    unsigned char *mask = marks[2].out;
    stk__token_piece piece;
    uint64_t at = 0;

    for (int64_t number = 1; stk__token_pieces_next(&walk, &piece); number++) {
        const bool last = t->target && piece.more;
        count_entries(t, marks[0].out, at, piece.length);
        set_entries(t, marks[1].out, at, piece.length, number);
        memset(mask + at, 1, piece.length);
        at += piece.length;
        mask[at - 1] = last;
        if (t->target && !last)
            set_entries(t, s->values[1].out, at - 1, 1, t->ignore);
    }
    set_entries(t, marks[0].out, at, t->length - at, 0);
    set_entries(t, marks[1].out, at, t->length - at, 0);
    memset(mask + at, 0, t->length - at);
}

/* Tokens of the pieces one behind the other, then what fills the sample up. */
static void fill_pieces(const stk__tokens *t, const unsigned char *data, stk_sample *s)
{
    stk__token_pieces walk = stk__token_pieces_of(t, s->index);
    stk__token_piece piece;
    uint64_t at = 0;
    bool good = true;

    for (uint32_t k = 0; stk__token_pieces_next(&walk, &piece); k++) {
        const unsigned char *from = data ? data + piece.start * t->size : s->needs[k].data;
        good &= stk__tokens_put(t, from, piece.length, entry(t, s->values[0].out, at));
        if (t->target)
            good &= stk__tokens_put(t, from + t->size, piece.length - !piece.more,
                                    entry(t, s->values[1].out, at));
        at += piece.length;
    }
    set_entries(t, s->values[0].out, at, t->length - at, t->pad);
    if (t->target)
        set_entries(t, s->values[1].out, at, t->length - at, t->ignore);
    if (!good) {
        s->status = STK_EFORMAT;
        s->reason = too_wide;
    }
}

static void fill_window(const stk__tokens *t, const unsigned char *from, stk_sample *s)
{
    for (int f = 0; f < 1 + t->target; f++) {
        if (!t->swap && !t->narrow) {
            t->widen(from + (size_t)f * t->size, t->length, s->values[f].out);
        } else if (!stk__tokens_put(t, from + (size_t)f * t->size, t->length, s->values[f].out)) {
            s->status = STK_EFORMAT;
            s->reason = too_wide;
        }
    }
}

void stk__tokens_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__tokens *t = (const stk__tokens *)dataset;
    const unsigned char *data = t->file.data ? t->file.data + t->first : NULL;
    const uint64_t step = t->stride * t->size;
    const bool windows = t->mode == STK__TOKENS_JOIN || t->mode == STK__TOKENS_MARK;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        /* Windows lie anywhere: the beginning of the next one is on its way meanwhile. */
        for (uint32_t k = 0; windows && data && i + 1 < n && k < LINES; k++)
            __builtin_prefetch(data + samples[i + 1].index * step + k * STK_CACHE_LINE);
        if (windows)
            fill_window(t, data ? data + s->index * step : s->needs[0].data, s);
        else
            fill_pieces(t, data, s);
        if (t->mode != STK__TOKENS_JOIN)
            fill_marks(t, s);
        for (uint32_t f = 0; f < t->base.num_fields; f++)
            s->values[f].data = s->values[f].out;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a decoded chunk to its place in the destination: one strided copy in the dimensions of the
 * box, those that run on in both memories joined, the innermost by a kernel for its element size.
 */
#include "array/room.h"

#define STREAM_ROW 128 /* bytes of a row that are worth the kernel */

/* Rows of one line of the cache that lie apart, in blocks too large for what is near the processor,
 * are what it does not foresee: their memory is asked for some rows before. */
#define SHORT_ROW   64
#define LARGE_BLOCK (UINT64_C(1) << 18)
#define NEAR_ROWS   64 /* more in an inner step: those of the next outer one are too far away */
#define ROWS_AHEAD  8

/* The same `count` elements along each dimension, in two memories; bytes. */
typedef struct block {
    uint32_t rank;
    uint64_t itemsize;
    int64_t count[STK_ARRAY_MAX_RANK + 1];
    int64_t from[STK_ARRAY_MAX_RANK + 1], to[STK_ARRAY_MAX_RANK + 1];
} block;

/* Where the chunk's part of the box begins in both memories, and its extents. */
static void find_block(const stk_array *a, const stk__box *box, const stk__need *need,
                       const int64_t *strides, block *b, int64_t *from, int64_t *to)
{
    const stk__level *level = &a->levels[a->num_levels - 1];
    uint64_t number = need->chunk;
    int64_t at[STK_ARRAY_MAX_RANK];

    for (uint32_t d = a->rank; d-- > 0;) {
        at[d] = (int64_t)(number % (uint64_t)level->count[d]);
        number /= (uint64_t)level->count[d];
    }
    *from = -(int64_t)need->skip;
    *to = 0;
    b->rank = a->rank;
    b->itemsize = a->type.itemsize;
    for (uint32_t d = 0; d < a->rank; d++) {
        const int64_t begin = stk__level_begin(level, d, at[d]), step = box->step[d];
        const int64_t end = stk__level_begin(level, d, at[d] + 1);
        int64_t first = begin <= box->start[d] ? 0 : (begin - box->start[d] - 1) / step + 1;
        int64_t last = end <= box->start[d] ? -1 : (end - 1 - box->start[d]) / step;
        last = STK_MIN(last, box->shape[d] - 1);
        b->count[d] = STK_MAX(last - first + 1, 0);
        b->from[d] = a->chunk_strides[d] * step;
        b->to[d] = strides[d];
        *from += (box->start[d] + first * step - begin) * a->chunk_strides[d];
        *to += first * strides[d];
    }
}

/* Dimensions of 1 go; neighbours that run on in both memories become one; the one that runs
 * fastest in the destination comes last. */
static void join(block *b)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < b->rank; d++) {
        if (b->count[d] == 1)
            continue;
        b->count[n] = b->count[d];
        b->from[n] = b->from[d];
        b->to[n++] = b->to[d];
    }
    for (uint32_t i = 1; i < n; i++) /* by falling stride of the destination */
        for (uint32_t j = i; j > 0 && b->to[j - 1] < b->to[j]; j--) {
            int64_t kept[3] = {b->count[j], b->from[j], b->to[j]};
            b->count[j] = b->count[j - 1];
            b->from[j] = b->from[j - 1];
            b->to[j] = b->to[j - 1];
            b->count[j - 1] = kept[0];
            b->from[j - 1] = kept[1];
            b->to[j - 1] = kept[2];
        }
    uint32_t used = 0;
    for (uint32_t d = 0; d < n; d++) {
        if (used && b->from[used - 1] == b->from[d] * b->count[d] &&
            b->to[used - 1] == b->to[d] * b->count[d]) {
            b->count[used - 1] *= b->count[d];
            b->from[used - 1] = b->from[d];
            b->to[used - 1] = b->to[d];
        } else {
            b->count[used] = b->count[d];
            b->from[used] = b->from[d];
            b->to[used++] = b->to[d];
        }
    }
    b->rank = used;
}

#define COPY_ITEMS(type)                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                \
        memcpy(to + i * to_stride, from + i * from_stride, sizeof(type));                          \
    break

static void copy_row(const char *from, int64_t from_stride, char *to, int64_t to_stride, int64_t n,
                     uint64_t itemsize)
{
    if (from_stride == (int64_t)itemsize && to_stride == (int64_t)itemsize) {
        memcpy(to, from, (size_t)n * itemsize);
        return;
    }
    switch (itemsize) {
    case 1:
        COPY_ITEMS(uint8_t);
    case 2:
        COPY_ITEMS(uint16_t);
    case 4:
        COPY_ITEMS(uint32_t);
    case 8:
        COPY_ITEMS(uint64_t);
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * to_stride, from + i * from_stride, itemsize);
    }
}

/* Bytes from a row to the one whose memory is asked for meanwhile; 0: none. */
static int64_t find_ahead(const block *b)
{
    uint64_t bytes = b->itemsize;

    for (uint32_t d = 0; d < b->rank; d++)
        bytes *= (uint64_t)b->count[d];
    if (b->rank < 2 || bytes < LARGE_BLOCK ||
        (uint64_t)b->count[b->rank - 1] * b->itemsize > SHORT_ROW)
        return 0;
    return b->rank > 2 && b->count[b->rank - 2] <= NEAR_ROWS ? b->from[b->rank - 3]
                                                             : ROWS_AHEAD * b->from[b->rank - 2];
}

/* Run over all rows of a block; `from` NULL: `value` is put everywhere. `row` (may be NULL) copies
 * rows that are runs in both memories. */
static void run(const block *b, const char *from, char *to, const unsigned char *value, bool zero,
                stk__copy_row_fn *row)
{
    int64_t at[STK_ARRAY_MAX_RANK + 1] = {0};
    uint32_t last = b->rank ? b->rank - 1 : 0;
    int64_t n = b->rank ? b->count[last] : 1;
    int64_t from_stride = b->rank ? b->from[last] : (int64_t)b->itemsize;
    int64_t to_stride = b->rank ? b->to[last] : (int64_t)b->itemsize;
    const int64_t ahead = from ? find_ahead(b) : 0;

    for (;;) {
        if (ahead) /* beyond the block at its end: that is no access */
            __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)ahead));
        if (from && row)
            row(to, from, (size_t)n * b->itemsize);
        else if (from)
            copy_row(from, from_stride, to, to_stride, n, b->itemsize);
        else if (zero && to_stride == (int64_t)b->itemsize)
            memset(to, 0, (size_t)n * b->itemsize);
        else
            copy_row((const char *)value, 0, to, to_stride, n, b->itemsize);
        uint32_t d = last;
        while (d > 0 && at[d - 1] + 1 == b->count[d - 1]) {
            d--;
            if (from)
                from -= at[d] * b->from[d];
            to -= at[d] * b->to[d];
            at[d] = 0;
        }
        if (d == 0)
            return;
        at[d - 1]++;
        if (from)
            from += b->from[d - 1];
        to += b->to[d - 1];
    }
}

/* The kernel for long rows of a large destination; NULL: the usual one. */
static stk__copy_row_fn *choose_row(const stk_array *a, const block *b)
{
#if STK_WITH_AVX2
    uint32_t last = b->rank ? b->rank - 1 : 0;
    int64_t item = (int64_t)b->itemsize;

    if (b->rank && b->from[last] == item && b->to[last] == item &&
        (uint64_t)b->count[last] * b->itemsize >= STREAM_ROW && stk__cpu_has_avx2(a->context))
        return stk__copy_row_avx2;
#endif
    (void)a, (void)b;
    return NULL;
}

void stk__array_copy_large(const stk_array *a, const stk__box *box, const stk__need *need,
                           const void *decoded, void *out, const int64_t *strides, bool large)
{
    int64_t from, to;
    block b;

    find_block(a, box, need, strides, &b, &from, &to);
    for (uint32_t d = 0; d < a->rank; d++)
        if (b.count[d] == 0)
            return;
    if (!decoded) /* one element for all */
        memset(b.from, 0, sizeof b.from);
    join(&b);
    stk__copy_row_fn *row = large ? choose_row(a, &b) : NULL;
    run(&b, decoded ? (const char *)decoded + from : NULL, (char *)out + to, a->fill,
        a->fill_is_zero, row);
#if STK_WITH_AVX2
    if (row)
        stk__copy_fence();
#endif
}

void stk__array_copy(const stk_array *a, const stk__box *box, const stk__need *need,
                     const void *decoded, void *out, const int64_t *strides)
{
    stk__array_copy_large(a, box, need, decoded, out, strides, false);
}

void stk__array_gather(const stk_array *a, const stk__box *box, const stk__need *need,
                       const void *data, const int64_t *strides, void *chunk)
{
    int64_t in_chunk, in_data;
    block b;

    find_block(a, box, need, strides, &b, &in_chunk, &in_data);
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t kept = b.from[d];
        if (b.count[d] == 0)
            return;
        b.from[d] = b.to[d];
        b.to[d] = kept;
    }
    join(&b);
    run(&b, (const char *)data + in_data, (char *)chunk + in_chunk, a->fill, false, NULL);
}

void stk__copy_strided(uint32_t rank, uint64_t itemsize, const int64_t *count, const void *from,
                       const int64_t *from_strides, void *to, const int64_t *to_strides)
{
    block b = {.rank = rank, .itemsize = itemsize};

    for (uint32_t d = 0; d < rank; d++) {
        if (count[d] == 0)
            return;
        b.count[d] = count[d];
        b.from[d] = from_strides[d];
        b.to[d] = to_strides[d];
    }
    join(&b);
    run(&b, from, to, NULL, false, NULL);
}

int64_t stk__array_place(const stk_array *a, const stk__box *box, const stk__need *need,
                         const int64_t *strides)
{
    uint64_t bytes = a->type.itemsize;
    int64_t from, to;
    block b;

    find_block(a, box, need, strides, &b, &from, &to);
    for (uint32_t d = 0; d < a->rank; d++)
        bytes *= (uint64_t)b.count[d];
    if (from != 0 || bytes != need->decode_size)
        return -1;
    join(&b);
    if (b.rank > 1 || (b.rank == 1 && (b.from[0] != (int64_t)b.itemsize || b.to[0] != b.from[0])))
        return -1;
    return to;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure read planner. Wants are sorted, then joined greedily: a request takes wants as long as
 * they fit. No plan whose requests serve neighbouring wants has fewer requests, since starting
 * later never lets a request reach further: the want that ended the request before ends beyond
 * everything in it.
 */
#include "store/store.h"

#define SMALL_RUN 16 /* wants that are sorted by insertion */

/* The order of wants: empty ones first, then by object, offset, length; the tag makes it one order.
 */
static inline int compare(const stk__want *a, const stk__want *b)
{
    if ((a->length == 0) != (b->length == 0))
        return a->length == 0 ? -1 : 1;
    if (a->object != b->object)
        return a->object < b->object ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

static inline void swap(stk__want *a, stk__want *b)
{
    stk__want kept = *a;

    *a = *b;
    *b = kept;
}

static void insertion_sort(stk__want *wants, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        stk__want moved = wants[i];
        size_t at = i;
        for (; at > 0 && compare(&moved, &wants[at - 1]) < 0; at--)
            wants[at] = wants[at - 1];
        wants[at] = moved;
    }
}

static void sift_down(stk__want *wants, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(&wants[child], &wants[child + 1]) < 0)
            child++;
        if (compare(&wants[at], &wants[child]) >= 0)
            return;
        swap(&wants[at], &wants[child]);
    }
}

static void heap_sort(stk__want *wants, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(wants, i, n);
    for (size_t i = n; i-- > 1;) {
        swap(&wants[0], &wants[i]);
        sift_down(wants, 0, i);
    }
}

/* The middle one of three goes to the front as the pivot. */
static void choose_pivot(stk__want *wants, size_t n)
{
    stk__want *a = wants, *b = wants + n / 2, *c = wants + n - 1;

    if (compare(b, a) < 0)
        swap(a, b);
    if (compare(c, b) < 0)
        swap(b, c);
    if (compare(b, a) < 0)
        swap(a, b);
    swap(wants, wants + n / 2);
}

/* Hoare's partition around the first; returns its final place. */
static size_t partition(stk__want *wants, size_t n)
{
    size_t low = 0, high = n;

    for (;;) {
        do
            low++;
        while (low < n && compare(&wants[low], &wants[0]) < 0);
        do
            high--;
        while (compare(&wants[0], &wants[high]) < 0);
        if (low >= high)
            break;
        swap(&wants[low], &wants[high]);
    }
    swap(&wants[0], &wants[high]);
    return high;
}

/* Quicksort in place; a run of bad pivots is given to heapsort, so that no input takes quadratic
 * time. */
static void sort_wants(stk__want *wants, size_t n, unsigned patience)
{
    while (n > SMALL_RUN) {
        if (patience-- == 0) {
            heap_sort(wants, n);
            return;
        }
        choose_pivot(wants, n);
        size_t middle = partition(wants, n);
        /* The smaller side by recursion, at most log2(n) deep; the larger by the loop. */
        if (middle < n - middle - 1) {
            sort_wants(wants, middle, patience);
            wants += middle + 1;
            n -= middle + 1;
        } else {
            sort_wants(wants + middle + 1, n - middle - 1, patience);
            n = middle;
        }
    }
    insertion_sort(wants, n);
}

static bool is_sorted(const stk__want *wants, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (compare(&wants[i - 1], &wants[i]) > 0)
            return false;
    return true;
}

/* A range from outside may end beyond 2^64; such a read fails later, here it only must not wrap. */
static uint64_t end_of(uint64_t offset, uint64_t length)
{
    uint64_t end;

    return stk__add_size(offset, length, &end) ? end : UINT64_MAX;
}

/* Whether `want`, next in the order and of the same object, may join `request`. */
static bool joins(const stk__request *request, const stk__want *want,
                  const stk_store_limits *limits)
{
    uint64_t end = request->offset + request->length, want_end = end_of(want->offset, want->length);

    if (want->offset > end && want->offset - end > limits->coalesce_gap)
        return false;
    if (want_end <= end) /* it asks for nothing new */
        return true;
    if (want->offset == request->offset) /* it holds all of the request: one read instead of two */
        return true;
    return limits->max_read == 0 || want_end - request->offset <= limits->max_read;
}

/* Limits as they are asked for: only wants of one object can be joined. */
typedef struct limits_at {
    stk__plan_limits_fn *of; /* NULL: `limits` are those of all objects */
    void *user;
    bool known;
    uint64_t object;
    stk_store_limits limits;
} limits_at;

static const stk_store_limits *find_limits(limits_at *at, uint64_t object)
{
    if (at->of && !(at->known && at->object == object)) {
        at->of(at->user, object, &at->limits);
        at->object = object;
        at->known = true;
    }
    return &at->limits;
}

static size_t plan(stk__want *wants, size_t n, limits_at *at, stk__request *requests)
{
    unsigned patience = 4;
    size_t count = 0, i = 0;

    for (size_t left = n; left > 1; left /= 2)
        patience += 2;
    if (!is_sorted(wants, n))
        sort_wants(wants, n, patience);
    while (i < n && wants[i].length == 0)
        i++;
    for (; i < n; i++) {
        stk__request *last = count ? &requests[count - 1] : NULL;
        uint64_t end = end_of(wants[i].offset, wants[i].length);
        if (last && last->object == wants[i].object &&
            joins(last, &wants[i], find_limits(at, last->object))) {
            last->length = STK_MAX(last->offset + last->length, end) - last->offset;
            last->count++;
            continue;
        }
        requests[count++] = (stk__request){.object = wants[i].object,
                                           .offset = wants[i].offset,
                                           .length = end - wants[i].offset,
                                           .first = (uint32_t)i,
                                           .count = 1};
    }
    return count;
}

size_t stk__plan_reads(stk__want *wants, size_t n, const stk_store_limits *limits,
                       stk__request *requests)
{
    limits_at at = {.limits = *limits};

    return plan(wants, n, &at, requests);
}

size_t stk__plan_reads_of(stk__want *wants, size_t n, stk__plan_limits_fn *limits_of, void *user,
                          stk__request *requests)
{
    limits_at at = {.of = limits_of, .user = user};

    return plan(wants, n, &at, requests);
}

size_t stk__plan_pieces(uint64_t length, uint64_t max_read)
{
    if (max_read == 0 || length <= max_read)
        return 1;
    return (size_t)(length / max_read + (length % max_read != 0));
}

void stk__plan_split(uint64_t offset, uint64_t length, uint64_t max_read, size_t i,
                     uint64_t *piece_offset, uint64_t *piece_length)
{
    uint64_t skipped = max_read == 0 ? 0 : max_read * i;

    *piece_offset = offset + skipped;
    *piece_length = max_read == 0 ? length : STK_MIN(length - skipped, max_read);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of samples of like length; docs/order.md defines them. The length of a sample is what its
 * dataset says in locate(): bytes of its values that vary, and where these are equal, of what it
 * reads. So it is known before anything is read, whatever the dataset is made of, and lengths are
 * looked up for one window at a time.
 */
#include "loader/bucket.h"

#include <inttypes.h>
#include <stdlib.h>

#define MOST_POSITIONS (UINT64_C(1) << 24) /* of a window */

/* A sample of the window, in the order without windows. */
typedef struct sized {
    uint64_t bytes, read; /* its length */
    uint64_t number;      /* within the window */
    uint64_t index;
} sized;

struct stk__bucket {
    const stk__order *order;
    uint64_t positions;     /* of a whole window */
    uint64_t seed;          /* of the order of batches */
    uint64_t epoch, window; /* that is here; UINT64_MAX: none */
    uint64_t steps;         /* of it that are whole */
    stk__permutation batches;
    uint64_t *scratch; /* positions, then indices */
    sized *samples;    /* sorted */
};

/* ---- Lengths ---- */

typedef struct measuring {
    stk_locator seam;
    const stk_dataset *dataset;
    sized *to;
    bool said; /* the dataset bounds its values */
} measuring;

static uint64_t sum(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static stk_status measure_need(stk_locator *self, size_t i, const stk_need *need)
{
    measuring *m = (measuring *)self;

    (void)i;
    m->to->read = sum(m->to->read, need->length);
    return STK_OK;
}

static void measure_cost(stk_locator *self, size_t i, double nanoseconds)
{
    (void)self;
    (void)i;
    (void)nanoseconds;
}

/* Whether the values of a field vary in length: encoded pictures become pictures of one size. */
static bool varies(const stk_field *field)
{
    return field->layout != STK_FIXED && !field->picture;
}

static void measure_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    measuring *m = (measuring *)self;

    (void)i;
    if (field >= m->dataset->num_fields || !varies(&m->dataset->fields[field]))
        return;
    m->to->bytes = sum(m->to->bytes, bytes);
    m->said = true;
}

/* A sample that can't be located is bad wherever it stands; it counts as the shortest. */
static void measure(stk_dataset *dataset, sized *sample)
{
    measuring m = {.seam = {sizeof m.seam, measure_need, measure_cost, measure_bytes},
                   .dataset = dataset,
                   .to = sample};

    sample->bytes = sample->read = 0;
    if (dataset->ops->locate(dataset, &sample->index, 1, &m.seam, NULL) != STK_OK)
        sample->bytes = sample->read = 0;
    else if (!m.said)
        sample->bytes = sample->read;
}

/* ---- Windows ---- */

typedef void plain_order(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                         size_t n);

static int by_length(const void *a, const void *b)
{
    const sized *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->read != y->read)
        return x->read < y->read ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Positions of an epoch that are delivered. */
static uint64_t delivered(const stk__order *order)
{
    return order->drop_last ? order->steps * order->global_batch : order->size;
}

/* The samples of a window with their lengths, in the order without windows. */
static uint64_t gather(stk__bucket *b, stk__order_epoch *view, plain_order *plain, uint64_t window)
{
    const uint64_t first = window * b->positions,
                   n = STK_MIN(b->positions, delivered(b->order) - first);
    uint64_t *indices = b->scratch + b->positions;

    for (uint64_t i = 0; i < n; i++)
        b->scratch[i] = first + i;
    plain(view, b->scratch, indices, n);
    for (uint64_t i = 0; i < n; i++) {
        b->samples[i] = (sized){.number = i, .index = indices[i]};
        measure(b->order->dataset, &b->samples[i]);
    }
    return n;
}

/* Unshuffled, batches come by length; a short last batch is the last of all in either case. */
static void make_window(stk__bucket *b, stk__order_epoch *view, plain_order *plain, uint64_t window)
{
    const uint64_t n = gather(b, view, plain, window);

    qsort(b->samples, n, sizeof *b->samples, by_length);
    b->epoch = view->epoch;
    b->window = window;
    b->steps = n / b->order->global_batch;
    if (b->order->shuffle != STK_SHUFFLE_NONE && b->steps > 1)
        stk__permutation_init(&b->batches, b->steps, b->seed, view->epoch, (uint32_t)window);
}

void stk__bucket_indices(stk__bucket *b, stk__order_epoch *view, plain_order *plain,
                         const uint64_t *positions, uint64_t *indices, size_t n)
{
    const uint64_t global = b->order->global_batch;

    for (size_t i = 0; i < n; i++) {
        const uint64_t window = positions[i] / b->positions, at = positions[i] % b->positions;
        uint64_t step = at / global;
        if (window != b->window || view->epoch != b->epoch)
            make_window(b, view, plain, window);
        if (b->order->shuffle != STK_SHUFFLE_NONE && b->steps > 1 && step < b->steps)
            step = stk__permutation_at(&b->batches, step);
        indices[i] = b->samples[step * global + at % global].index;
    }
}

/* The share of filling, were the samples cut into batches as they stand. */
static double filling(const stk__bucket *b, uint64_t n)
{
    double room = 0, bytes = 0;

    for (uint64_t first = 0; first < n; first += b->order->global_batch) {
        const uint64_t end = STK_MIN(first + b->order->global_batch, n);
        uint64_t most = 0;
        for (uint64_t i = first; i < end; i++) {
            most = STK_MAX(most, b->samples[i].bytes);
            bytes += (double)b->samples[i].bytes;
        }
        room += (double)most * (double)(end - first);
    }
    return room > 0 ? 1 - bytes / room : 0;
}

void stk__bucket_padding(stk__bucket *b, stk__order_epoch *view, plain_order *plain, double *sorted,
                         double *unsorted)
{
    const uint64_t n = gather(b, view, plain, 0);

    b->window = UINT64_MAX;
    *unsorted = filling(b, n);
    qsort(b->samples, n, sizeof *b->samples, by_length);
    *sorted = filling(b, n);
}

/* ---- Making ---- */

stk_status stk__bucket_check(stk__order *order, stk_dataset *dataset, uint64_t batches,
                             stk_error *err)
{
    bool any = false;

    order->bucket = 0;
    if (!batches)
        return STK_OK;
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        any |= varies(&dataset->fields[f]);
    if (!any || !dataset->ops->locate)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "bucket_window", STK_NO_OFFSET,
                            "bucket_window=%" PRIu64
                            ": no field of the dataset has a length that varies and is known "
                            "before samples are read; leave it out",
                            batches);
    order->bucket = STK_MIN(batches, order->steps);
    order->dataset = dataset;
    if (order->bucket * order->global_batch <= MOST_POSITIONS)
        return STK_OK;
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "bucket_window", STK_NO_OFFSET,
                        "bucket_window=%" PRIu64 " has %" PRIu64 " samples with batches of %" PRIu64
                        "; %" PRIu64 " are the most",
                        batches, order->bucket * order->global_batch, order->global_batch,
                        MOST_POSITIONS);
}

/* Sorting takes as much again. */
uint64_t stk__bucket_bytes(const stk__order *order)
{
    return order->bucket ? sizeof(stk__bucket) + order->bucket * order->global_batch *
                                                     (2 * sizeof(uint64_t) + 2 * sizeof(sized))
                         : 0;
}

stk_status stk__bucket_create(stk_context *ctx, const stk__order *order, stk__bucket **out)
{
    stk__bucket *b = stk__calloc(ctx, 1, sizeof *b);
    uint32_t words[4];

    *out = NULL;
    if (!b)
        return STK_ENOMEM;
    stk__draw(order->seed, 0, 0, STK_DRAW_BUCKET, words, 4);
    *b = (stk__bucket){.order = order,
                       .positions = order->bucket * order->global_batch,
                       .seed = (uint64_t)words[1] << 32 | words[0],
                       .window = UINT64_MAX};
    b->scratch = stk__calloc(ctx, b->positions, 2 * sizeof *b->scratch);
    b->samples = stk__calloc(ctx, b->positions, sizeof *b->samples);
    if (!b->scratch || !b->samples) {
        stk__bucket_destroy(ctx, b);
        return STK_ENOMEM;
    }
    *out = b;
    return STK_OK;
}

void stk__bucket_destroy(stk_context *ctx, stk__bucket *b)
{
    if (!b)
        return;
    stk__free(ctx, b->scratch);
    stk__free(ctx, b->samples);
    stk__free(ctx, b);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Many small ranges of a file, as nodes of a tree are: several at a time where the store is far. */
#include "array/hdf5/hdf5.h"
#include "base/counted.h"

#define MOST_THREADS 16u
#define NEAR_GAP     (UINT64_C(128) << 10) /* a store that joins less than this answers at once */

typedef struct loading {
    const stk__hdf5 *f;
    const uint64_t *addresses;
    uint64_t count, length;
    uint8_t *out;
    stk__counted ranges;
} loading;

static uint64_t length_at(const stk__hdf5 *f, uint64_t address, uint64_t length)
{
    return STK_MIN(length, f->end - STK_MIN(f->end, address));
}

static void load_some(void *argument)
{
    loading *l = argument;
    uint64_t i, end;
    stk_error err;

    while (stk__counted_take(&l->ranges, &i, &end)) {
        const uint64_t address = l->addresses[i];
        stk_error_init(&err);
        const stk_status status =
            stk_store_read(l->f->store, l->f->key, l->f->base + address,
                           length_at(l->f, address, l->length), l->out + i * l->length, &err);
        if (status != STK_OK)
            stk__counted_fail(&l->ranges, i, status, &err);
    }
}

static stk_status load_far(loading *l, uint64_t helpers)
{
    stk__counted_init(&l->ranges, l->count, 1);
    stk__thread_share(l->f->ctx, "stk-nodes", helpers, load_some, l);
    return stk__counted_end(&l->ranges, l->f->err);
}

stk_status stk__hdf5_load_all(stk__hdf5 *f, const uint64_t *addresses, uint64_t count,
                              uint64_t length, uint8_t *out)
{
    loading l = {.f = f, .addresses = addresses, .count = count, .length = length, .out = out};
    stk_store_limits limits;

    for (uint64_t i = 0; i < count; i++)
        if (!stk__hdf5_inside(f, addresses[i], 1))
            return stk__hdf5_damaged(f, addresses[i],
                                     "something points behind the end of the file");
    stk__store_limits(f->store, &limits);
    const uint64_t helpers = STK_MIN(STK_MIN(limits.io_depth, MOST_THREADS), count) - (count > 0);
    if (limits.coalesce_gap > NEAR_GAP && helpers > 0)
        return load_far(&l, helpers);
    for (uint64_t i = 0; i < count; i++)
        STK_TRY(
            stk__hdf5_read(f, addresses[i], length_at(f, addresses[i], length), out + i * length));
    return STK_OK;
}

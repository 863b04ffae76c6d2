/* SPDX-License-Identifier: Apache-2.0 */
/* The slabs alone: where columns lie, who has which slab, and batches that outlive the rest. */
#include "loader/ring.h"

#include "dataset/dataset.h"
#include "support/support.h"

enum { ROWS = 5, SLABS = 3, SPARE = 2 };

static stk__column column(const char *name, stk_dtype dtype, stk_layout layout, uint32_t ragged)
{
    stk__column c = {.field = stk__field(name, dtype, (const int64_t[]){-1}, false),
                     .ragged = ragged};

    c.field.layout = layout;
    c.row_bytes = layout == STK_FIXED ? stk_dtype_size(dtype) : 0;
    return c;
}

static stk__ring *make(stk_context *ctx)
{
    /* A name longer than any buffer of old, and gone once the ring is made. */
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    stk__column columns[3] = {column(name, STK_FLOAT64, STK_FIXED, 0),
                              column("words", STK_UINT16, STK_RAGGED, 0),
                              column("y", STK_UINT8, STK_FIXED, 0)};
    stk__ring *ring;
    stk_error err;

    assert_ok(stk__ring_create(ctx, columns, 3, ROWS, SLABS, SPARE, NULL, false, &ring, &err),
              &err);
    ring->pool.limit = 1 << 20;
    memset(name, 'z', sizeof name - 1);
    return ring;
}

/* Names are the ring's own, of any length. */
static void test_names(void **state)
{
    stk_context *ctx = test_context();
    stk__ring *ring = make(ctx);
    stk_tensor tensor = {.struct_size = sizeof tensor};
    char name[400];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    pthread_mutex_lock(&ring->lock);
    stk_batch *batch = stk__ring_take_locked(ring);
    stk__ring_hold_locked(ring, batch);
    pthread_mutex_unlock(&ring->lock);
    assert_int_equal(stk_batch_find(batch, name, &tensor), STK_OK);
    assert_ptr_equal(tensor.data, batch->data[0]);
    assert_string_equal(tensor.name, name);
    assert_int_equal(stk_batch_find(batch, "words", &tensor), STK_OK);
    assert_ptr_equal(tensor.offsets, batch->offsets[1]);
    assert_int_equal(stk_batch_find(batch, "none", &tensor), STK_EINVAL);
    stk_batch_release(&batch);
    stk__ring_unref(ring);
    stk_context_destroy(&ctx);
}

static void grow(stk__ring *ring, uint32_t slabs, uint32_t come)
{
    stk__ring_grow(ring, slabs);
    assert_true(ring->num_slabs == come && ring->num_free == come);
}

/* Spare slabs are made when they are asked for; those that were given up do not come back. */
static void test_spare(void **state)
{
    stk_context *ctx = test_context();
    stk__ring *ring = make(ctx);

    (void)state;
    grow(ring, 0, SLABS);
    assert_null(ring->slabs[SLABS].memory);
    grow(ring, SLABS + 1, SLABS + 1);
    assert_non_null(ring->slabs[SLABS].memory);
    assert_null(ring->slabs[SLABS + 1].memory);
    assert_ptr_not_equal(ring->slabs[SLABS].data[0], ring->slabs[0].data[0]);
    grow(ring, 100, SLABS + SPARE);
    stk__ring_shrink(ring, SLABS);
    grow(ring, 100, SLABS);
    stk__ring_unref(ring);
    stk_context_destroy(&ctx);
}

/* Each column has its rows to itself, and no slab overlaps another. */
static void test_columns(void **state)
{
    stk_context *ctx = test_context();
    stk__ring *ring = make(ctx);

    (void)state;
    assert_int_equal(ring->num_ragged, 1);
    for (uint32_t i = 0; i < SLABS; i++) {
        stk_batch *slab = &ring->slabs[i];
        double *x = slab->data[0];
        assert_int_equal((uintptr_t)x % STK_CACHE_LINE, 0);
        memset(x, (int)i + 1, ROWS * sizeof *x);
        memset(slab->offsets[1], (int)i + 11, (ROWS + 1) * sizeof(uint64_t));
        memset(slab->data[2], (int)i + 21, ROWS);
        memset(slab->positions, (int)i + 31, ROWS * sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < SLABS; i++) {
        const stk_batch *slab = &ring->slabs[i];
        for (size_t k = 0; k < ROWS * sizeof(double); k++)
            assert_int_equal(((const char *)slab->data[0])[k], i + 1);
        for (size_t k = 0; k < (ROWS + 1) * sizeof(uint64_t); k++)
            assert_int_equal(((const char *)slab->offsets[1])[k], i + 11);
        for (size_t k = 0; k < ROWS; k++)
            assert_int_equal(((const char *)slab->data[2])[k], i + 21);
        for (size_t k = 0; k < ROWS * sizeof(uint64_t); k++)
            assert_int_equal(((const char *)slab->positions)[k], i + 31);
    }
    stk__ring_unref(ring);
    stk_context_destroy(&ctx);
}

static void returned(void *user)
{
    ++*(int *)user;
}

/* A slab is free, somebody's, or held; one that was given back twice counts once. */
static void test_round(void **state)
{
    stk_context *ctx = test_context();
    stk__ring *ring = make(ctx);
    int back = 0;

    (void)state;
    ring->returned_locked = returned;
    ring->user = &back;
    pthread_mutex_lock(&ring->lock);
    stk_batch *first = stk__ring_take_locked(ring), *second = stk__ring_take_locked(ring),
              *third = stk__ring_take_locked(ring), *again = first;
    assert_ptr_not_equal(first, second);
    assert_null(stk__ring_take_locked(ring));
    stk__ring_hold_locked(ring, first);
    stk__ring_give_locked(ring, second);
    stk__ring_give_locked(ring, third);
    assert_int_equal(ring->num_free, 2);
    assert_int_equal(ring->num_held, 1);
    pthread_mutex_unlock(&ring->lock);
    /* Of a smaller budget free slabs go, and no held one. */
    stk__ring_shrink(ring, 1);
    assert_int_equal(ring->num_slabs, 1);
    assert_int_equal(ring->num_free, 0);
    stk_batch_release(&first);
    assert_null(first);
    assert_int_equal(back, 1);
    stk_batch_release(&again);
    assert_int_equal(back, 1);
    assert_int_equal(ring->num_free, 1);
    stk__ring_unref(ring);
    stk_context_destroy(&ctx);
}

static int posts(stk__ring *ring)
{
    int value = -1;

    assert_int_equal(sem_getvalue(&ring->woken, &value), 0);
    return value;
}

/* Without workers the consumer does all work: one that waits is woken by what comes back on another
 * thread, once. With workers only batches are its business. */
static void test_the_consumer_is_woken(void **state)
{
    stk_context *ctx = test_context();
    int back = 0;

    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        stk__ring *ring = make(ctx);
        ring->alone = alone;
        ring->returned_locked = returned;
        ring->user = &back;
        pthread_mutex_lock(&ring->lock);
        stk_batch *batch = stk__ring_take_locked(ring), *other = stk__ring_take_locked(ring);
        stk__ring_hold_locked(ring, batch);
        stk__ring_hold_locked(ring, other);
        pthread_mutex_unlock(&ring->lock);
        stk_batch_release(&other); /* it does not wait */
        assert_int_equal(posts(ring), 0);
        ring->waits = true;
        stk_batch_release(&batch);
        assert_int_equal(posts(ring), alone);
        assert_int_equal(ring->waits, !alone);
        ring->waits = ring->full = true;
        pthread_mutex_lock(&ring->lock);
        stk__ring_room_locked(ring);
        stk__ring_room_locked(ring);
        pthread_mutex_unlock(&ring->lock);
        assert_int_equal(posts(ring), 2 * alone);
        stk__ring_unref(ring);
    }
    stk_context_destroy(&ctx);
}

/* Ragged values go back to the pool with their batch, and tell whoever waits for memory. */
static void test_ragged_values(void **state)
{
    stk_context *ctx = test_context();
    stk__ring *ring = make(ctx);

    (void)state;
    pthread_mutex_lock(&ring->lock);
    stk_batch *batch = stk__ring_take_locked(ring);
    stk__ring_hold_locked(ring, batch);
    pthread_mutex_unlock(&ring->lock);
    batch->ragged = stk__pool_take(&ring->pool, 1000);
    assert_true(atomic_load(&ring->pool.used) > 0);
    ring->full = true;
    /* The loader ends before: the batch keeps the ring, and the last one out frees it. */
    ring->returned_locked = NULL;
    stk__ring_unref(ring);
    assert_true(ring->full);
    assert_int_equal(ring->references, 1);
    stk_batch_release(&batch);
    stk_context_destroy(&ctx);

    ctx = test_context();
    ring = make(ctx);
    pthread_mutex_lock(&ring->lock);
    batch = stk__ring_take_locked(ring);
    stk__ring_hold_locked(ring, batch);
    pthread_mutex_unlock(&ring->lock);
    batch->ragged = stk__pool_take(&ring->pool, 1000);
    ring->full = true;
    stk_batch_release(&batch);
    assert_false(ring->full);
    assert_int_equal(atomic_load(&ring->pool.used), 0);
    stk__ring_unref(ring);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spare),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_round),
                                       cmocka_unit_test(test_the_consumer_is_woken),
                                       cmocka_unit_test(test_ragged_values)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

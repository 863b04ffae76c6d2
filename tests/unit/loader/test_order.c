/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "loader/order.h"
#include "support/support.h"

static stk__order make(uint64_t size, stk_loader_options *o)
{
    stk_dataset dataset = {.size = size, .block_size = 1};
    stk__order order;
    stk_error err;

    assert_ok(stk__order_init(&order, &dataset, o, &err), &err);
    return order;
}

/* All indices of an epoch, position by position. */
static uint64_t *walk(stk_context *ctx, const stk__order *order, uint64_t epoch)
{
    uint64_t *positions = malloc(order->size * 8), *indices = malloc(order->size * 8);
    stk__order_epoch view;

    for (uint64_t p = 0; p < order->size; p++)
        positions[p] = p;
    assert_int_equal(stk__order_epoch_init(&view, ctx, order), STK_OK);
    stk__order_epoch_set(&view, epoch);
    stk__order_indices(&view, positions, indices, order->size);
    assert_int_equal(view.evaluated, order->size);
    stk__order_epoch_release(&view);
    free(positions);
    return indices;
}

static void check_each_once(const uint64_t *indices, uint64_t size)
{
    uint8_t *seen = calloc(size, 1);

    for (uint64_t p = 0; p < size; p++) {
        assert_true(indices[p] < size);
        assert_false(seen[indices[p]]);
        seen[indices[p]] = 1;
    }
    free(seen);
}

static void each_sample_once(void **state)
{
    stk_context *ctx = test_context();
    uint64_t random = 17;
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = 1;
    for (int i = 0; i < 6100; i++) {
        uint64_t size = i < 6000 ? (uint64_t)i / 3 + 1 : test_random(&random) % 100000 + 1;
        o.seed = test_random(&random);
        o.shuffle = i % 3;
        o.block_size = test_random(&random) % 70 + 1;
        o.streams = test_random(&random) % 9 + 1;
        o.shuffle_buffer = test_random(&random) % 6 + 1;
        stk__order order = make(size, &o);
        uint64_t *indices = walk(ctx, &order, (uint64_t)i % 5);
        check_each_once(indices, size);
        free(indices);
    }
    stk_context_destroy(&ctx);
}

static void large_sizes(void **state)
{
    stk_context *ctx = test_context();
    stk_loader_options o;

    uint64_t random = 8;

    stk_loader_options_init(&o);
    for (int shuffle = STK_SHUFFLE_FULL; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        o.shuffle = shuffle;
        o.block_size = 1000;
        stk__order order = make(5000000 + test_random(&random) % 5000000, &o);
        uint64_t *indices = walk(ctx, &order, 1);
        check_each_once(indices, order.size);
        free(indices);
    }
    stk_context_destroy(&ctx);
}

/* A place of the order is the same whether it is reached in order or directly. */
static void random_access(void **state)
{
    stk_context *ctx = test_context();
    uint64_t random = 4;
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.block_size = 37;
    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        o.shuffle = shuffle;
        stk__order order = make(12345, &o);
        uint64_t *indices = walk(ctx, &order, 2);
        stk__order_epoch view;
        assert_int_equal(stk__order_epoch_init(&view, ctx, &order), STK_OK);
        stk__order_epoch_set(&view, 2);
        for (int i = 0; i < 2000; i++) {
            uint64_t p = test_random(&random) % order.size, index;
            stk__order_indices(&view, &p, &index, 1);
            assert_int_equal(index, indices[p]);
        }
        stk__order_epoch_release(&view);
        free(indices);
    }
    stk_context_destroy(&ctx);
}

/* While no stream has run out, slot p takes blocks of stream p mod S only, and a buffer at a time.
 */
static void streams_keep_their_blocks(void **state)
{
    stk_context *ctx = test_context();
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = STK_SHUFFLE_BLOCK;
    o.block_size = 50;
    o.streams = 4;
    o.shuffle_buffer = 3;
    stk__order order = make(50 * 103 - 20, &o);
    uint64_t *indices = walk(ctx, &order, 0);
    uint64_t foreign = 0;
    for (uint64_t p = 0; p < order.size; p++)
        foreign += indices[p] / 50 % 4 != p % 4;
    /* 103 blocks over 4 streams: three have 26, one has 25. Only the difference is read through
     * other slots. */
    assert_in_range(foreign, 1, 3 * 50);
    for (uint64_t p = 0; p < 4 * 25 * 50 - 4 * 50; p++)
        assert_int_equal(indices[p] / 50 % 4, p % 4);
    for (uint64_t s = 0; s < 4; s++)
        for (uint64_t buffer = 0; buffer < 7; buffer++) {
            uint64_t blocks[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, n = 0;
            for (uint64_t k = 0; k < 120; k++) {
                uint64_t block = indices[(buffer * 150 + k) * 4 + s] / 50, i = 0;
                while (i < n && blocks[i] != block)
                    i++;
                if (i == n && n < 4)
                    blocks[n++] = block;
            }
            assert_in_range(n, 1, 4);
        }
    free(indices);
    stk_context_destroy(&ctx);
}

/* Ranks part each step between them, for world sizes that divide the global batch and for those
 * that do not. */
static void ranks_part_each_step(void **state)
{
    const uint64_t worlds[] = {1, 2, 3, 4, 6, 7};
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.global_batch_size = 12;
    for (size_t w = 0; w < 6; w++) {
        uint8_t seen[101] = {0};
        for (o.rank = 0, o.world_size = worlds[w]; o.rank < o.world_size; o.rank++) {
            stk__order order = make(101, &o);
            assert_int_equal(order.steps, 9);
            for (uint64_t step = 0; step < order.steps; step++) {
                uint64_t positions[12], n = stk__order_positions(&order, step, positions);
                assert_true(n <= stk__order_rows(&order));
                for (uint64_t i = 0; i < n; i++) {
                    assert_int_equal(positions[i] / 12, step);
                    assert_int_equal(positions[i] % 12 % o.world_size, o.rank);
                    assert_false(seen[positions[i]]++);
                }
            }
        }
        assert_null(memchr(seen, 0, sizeof seen));
    }
}

static void refuses_what_cannot_be(void **state)
{
    stk_dataset dataset = {.size = 10, .block_size = 1};
    stk_loader_options o;
    stk__order order;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 11;
    o.drop_last = true;
    assert_fails(stk__order_init(&order, &dataset, &o, &err), STK_EINVAL, &err, "drop_last");
    o.drop_last = false;
    assert_ok(stk__order_init(&order, &dataset, &o, &err), &err);
    assert_int_equal(order.steps, 1);
    o.rank = 1;
    assert_fails(stk__order_init(&order, &dataset, &o, &err), STK_EINVAL, &err, "rank");
    o.rank = 0;
    dataset.size = 0;
    assert_fails(stk__order_init(&order, &dataset, &o, &err), STK_EINVAL, &err, "no samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_once),     cmocka_unit_test(large_sizes),
        cmocka_unit_test(random_access),        cmocka_unit_test(streams_keep_their_blocks),
        cmocka_unit_test(ranks_part_each_step), cmocka_unit_test(refuses_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

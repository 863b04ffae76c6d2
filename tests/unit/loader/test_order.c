/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
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

/* The shuffle buffer where none is given [docs/order.md]. */
static void usual_buffers(void **state)
{
    static const uint64_t sizes[][2] = {{1, 16},    {8192, 16},  {8193, 15},  {65536, 2},
                                        {65537, 1}, {131072, 1}, {131073, 1}, {1000000, 1}};
    stk_loader_options o;

    (void)state;
    stk_loader_options_init(&o);
    assert_int_equal(o.shuffle_buffer, 0);
    o.shuffle = STK_SHUFFLE_BLOCK;
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        o.block_size = sizes[i][0];
        o.shuffle_buffer = 0;
        assert_int_equal(make(100000000, &o).buffer_blocks, sizes[i][1]);
        o.shuffle_buffer = 16;
        assert_int_equal(make(100000000, &o).buffer_blocks, 16);
    }
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

/* Slot p takes blocks of stream p mod S: most of them from all over the data, the same in every
 * epoch, and a buffer at a time. */
static void streams_keep_their_blocks(void **state)
{
    enum { BLOCK = 50, BLOCKS = 4 * 26, STREAMS = 4, BUFFER = 3 };
    stk_context *ctx = test_context();
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = STK_SHUFFLE_BLOCK;
    o.block_size = BLOCK;
    o.streams = STREAMS;
    o.shuffle_buffer = BUFFER;
    stk__order order = make(BLOCK * BLOCKS, &o);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t *indices = walk(ctx, &order, epoch), column[STREAMS];
        for (uint64_t p = 0; p < order.size; p++) {
            if (p < STREAMS)
                column[p] = indices[p] / BLOCK % STREAMS;
            assert_int_equal(indices[p] / BLOCK % STREAMS, column[p % STREAMS]);
        }
        for (uint64_t s = 0; s < STREAMS; s++) {
            assert_int_equal(column[s], s == 1 ? 2 : s == 2 ? 1 : s);
            for (uint64_t from = 0; from < order.size / STREAMS; from += BUFFER * BLOCK) {
                uint8_t seen[BLOCKS] = {0};
                uint64_t end = STK_MIN(from + BUFFER * BLOCK, order.size / STREAMS), n = 0;
                for (uint64_t k = from; k < end; k++)
                    n += !seen[indices[k * STREAMS + s] / BLOCK]++;
                assert_int_equal(n, (end - from) / BLOCK);
            }
        }
        free(indices);
    }
    stk_context_destroy(&ctx);
}

/* Blocks that several of `world` ranks read. */
static uint64_t shared_blocks(const stk__order *epoch, const uint64_t *indices, uint64_t world)
{
    uint64_t *reader = calloc(epoch->blocks, sizeof *reader), positions[1024], shared = 0;
    stk__order order = *epoch;

    order.world = world;
    for (order.rank = 0; order.rank < world; order.rank++)
        for (uint64_t step = 0; step < order.steps; step++) {
            uint64_t n = stk__order_positions(&order, step, positions);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t *r = &reader[indices[positions[i]] / order.block_size];
                if (*r && *r != order.rank + 1 && *r != UINT64_MAX) {
                    shared++;
                    *r = UINT64_MAX;
                } else if (!*r) {
                    *r = order.rank + 1;
                }
            }
        }
    free(reader);
    return shared;
}

/* Whether `world` is a product of the smallest prime factors of `streams`. */
static bool takes_smallest_primes(uint64_t world, uint64_t streams)
{
    for (uint64_t p = 2; world > 1; p++)
        for (; world > 1 && streams % p == 0; streams /= p) {
            if (world % p)
                return false;
            world /= p;
        }
    return true;
}

static void ranks_share_few_blocks(void **state)
{
    stk_context *ctx = test_context();
    uint64_t random = 12, with_equal = 0, most_shared = 0;
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = STK_SHUFFLE_BLOCK;
    for (int i = 0; i < 250; i++) {
        uint64_t size = i ? test_random(&random) % 20000 + 600 : 60000;
        o.seed = (uint64_t)i;
        o.block_size = i ? test_random(&random) % 70 + 1 : 64;
        o.streams = i ? test_random(&random) % 24 + 1 : 16;
        o.shuffle_buffer = i ? test_random(&random) % 20 + 1 : 16;
        o.global_batch_size = test_random(&random) % 500 + 1;
        if (i % 5 == 1)
            size = o.block_size * o.streams * (test_random(&random) % 20 + 1);
        stk__order order = make(size, &o);
        bool equal = order.blocks % order.streams == 0 && size % order.block_size == 0;
        uint64_t *indices = walk(ctx, &order, (uint64_t)i % 3);
        for (uint64_t world = 2; world <= order.streams; world++) {
            if (order.streams % world)
                continue;
            uint64_t shared = shared_blocks(&order, indices, world);
            assert_in_range(shared, 0, equal ? 0 : order.streams - 1);
            if (takes_smallest_primes(world, order.streams))
                assert_in_range(shared, 0, world - 1);
            most_shared = STK_MAX(most_shared, shared);
        }
        with_equal += equal;
        free(indices);
    }
    assert_in_range(with_equal, 20, 150);
    assert_in_range(most_shared, 10, 23);
    stk_context_destroy(&ctx);
}

/* What streams share comes at the same time to both, so that it is read once: no block is spread
 * over more than a shuffle buffer. */
static void blocks_stay_together(void **state)
{
    stk_context *ctx = test_context();
    uint64_t random = 3;
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = STK_SHUFFLE_BLOCK;
    for (int i = 0; i < 200; i++) {
        o.seed = (uint64_t)i;
        o.block_size = test_random(&random) % 40 + 1;
        o.streams = test_random(&random) % 17 + 1;
        o.shuffle_buffer = test_random(&random) % 9 + 1;
        stk__order order = make(test_random(&random) % 9000 + 700, &o);
        uint64_t *indices = walk(ctx, &order, 1), *first = malloc(order.blocks * sizeof *first);
        memset(first, 0xff, order.blocks * sizeof *first);
        for (uint64_t p = 0; p < order.size; p++) {
            uint64_t *f = &first[indices[p] / order.block_size];
            *f = STK_MIN(*f, p);
            assert_in_range(p - *f, 0,
                            (order.buffer_blocks * order.block_size + 1) * order.streams);
        }
        free(first);
        free(indices);
    }
    stk_context_destroy(&ctx);
}

/* Every sample is early in some epochs and late in others, also those of a short last block. */
static void places_change_with_the_epoch(void **state)
{
    enum { EPOCHS = 400 };
    stk_context *ctx = test_context();
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.shuffle = STK_SHUFFLE_BLOCK;
    o.block_size = 8;
    o.shuffle_buffer = 2;
    for (o.streams = 1; o.streams <= 4; o.streams++) {
        stk__order order = make(8 * 40 + 3, &o);
        double *sums = calloc(order.size, sizeof *sums);
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            uint64_t *indices = walk(ctx, &order, epoch);
            for (uint64_t p = 0; p < order.size; p++)
                sums[indices[p]] += ((double)p + 0.5) / (double)order.size - 0.5;
            free(indices);
        }
        /* Uniform places have a variance of 1/12; five standard errors of the mean. */
        for (uint64_t i = 0; i < order.size; i++)
            assert_true(fabs(sums[i]) < 5 * sqrt(EPOCHS / 12.0));
        free(sums);
    }
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
                    assert_int_equal(positions[i] % o.world_size, o.rank);
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
        cmocka_unit_test(each_sample_once),
        cmocka_unit_test(usual_buffers),
        cmocka_unit_test(large_sizes),
        cmocka_unit_test(random_access),
        cmocka_unit_test(streams_keep_their_blocks),
        cmocka_unit_test(ranks_share_few_blocks),
        cmocka_unit_test(blocks_stay_together),
        cmocka_unit_test(places_change_with_the_epoch),
        cmocka_unit_test(ranks_part_each_step),
        cmocka_unit_test(refuses_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

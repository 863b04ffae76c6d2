/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order over ranks: for every world of 1 to 64 the ranks of a step together have the samples of the
 * step of a single process, each once and at its place, also where the world changes at any step.
 */
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "loader/order.h"
#include "support/support.h"

enum { WORLDS = 64, MOST = 4096 };

static uint64_t draw(uint64_t *state, uint64_t below)
{
    return test_random(state) % below;
}

struct order_case {
    stk_loader_options o;
    stk_dataset dataset;
};

static void draw_case(uint64_t *state, struct order_case *c)
{
    static const int32_t shuffles[] = {STK_SHUFFLE_NONE, STK_SHUFFLE_FULL, STK_SHUFFLE_BLOCK};

    stk_loader_options_init(&c->o);
    c->dataset =
        (stk_dataset){.size = 200 + draw(state, MOST - 200), .block_size = 1 + draw(state, 40)};
    c->o.global_batch_size = 1 + draw(state, 130); /* of fewer samples than ranks, too */
    c->o.shuffle = shuffles[draw(state, STK_COUNT(shuffles))];
    c->o.seed = draw(state, UINT64_MAX);
    c->o.drop_last = draw(state, 2);
    if (c->o.shuffle == STK_SHUFFLE_BLOCK) {
        c->o.streams = 1 + draw(state, 8);
        c->o.shuffle_buffer = 1 + draw(state, 6);
    }
}

/* The order of a rank, at an epoch. */
static void look(stk_context *ctx, struct order_case *c, uint64_t rank, uint64_t world,
                 uint64_t epoch, stk__order *order, stk__order_epoch *view)
{
    stk_error err;

    c->o.rank = rank;
    c->o.world_size = world;
    assert_ok(stk__order_init(order, &c->dataset, &c->o, &err), &err);
    assert_ok(stk__order_epoch_init(view, ctx, order), &err);
    stk__order_epoch_set(view, epoch);
}

/* What the ranks of a world have of a step, put to its places. */
static void gather(stk_context *ctx, struct order_case *c, uint64_t world, uint64_t epoch,
                   uint64_t step, uint64_t *indices, uint64_t *count)
{
    uint64_t positions[MOST], own[MOST];
    stk__order_epoch view;
    stk__order order;

    *count = 0;
    for (uint64_t rank = 0; rank < world; rank++) {
        look(ctx, c, rank, world, epoch, &order, &view);
        const uint64_t n = stk__order_positions(&order, step, positions);
        assert_true(n <= stk__order_rows(&order));
        stk__order_indices(&view, positions, own, n);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = positions[i] - step * order.global_batch;
            assert_true(at < order.global_batch);
            assert_true(indices[at] == UINT64_MAX); /* nobody else has it */
            indices[at] = own[i];
        }
        *count += n;
        stk__order_epoch_release(&view);
    }
}

static void test_worlds(void **state)
{
    stk_context *ctx = test_context();
    static uint64_t alone[MOST], together[MOST], seen[MOST];
    uint64_t seed = 7, rows, more;

    (void)state;
    for (int n = 0; n < 24; n++) {
        struct order_case c;
        stk__order order;
        stk__order_epoch view;
        draw_case(&seed, &c);
        const uint64_t epoch = draw(&seed, 3);
        look(ctx, &c, 0, 1, epoch, &order, &view);
        stk__order_epoch_release(&view);
        memset(seen, 0, sizeof seen);
        for (uint64_t step = 0; step < order.steps; step++) {
            memset(alone, 0xff, sizeof alone);
            gather(ctx, &c, 1, epoch, step, alone, &rows);
            for (uint64_t i = 0; i < rows; i++)
                assert_int_equal(seen[alone[i]]++, 0);
            /* Elastic: another number of ranks at each step, all of them in their turn. */
            memset(together, 0xff, sizeof together);
            const uint64_t world = 1 + (step * 11 + (uint64_t)n) % WORLDS;
            gather(ctx, &c, world, epoch, step, together, &more);
            assert_int_equal(more, rows);
            assert_memory_equal(together, alone, sizeof alone);
        }
        /* All of them at a step, the last one, which may be short, among others. */
        const uint64_t step = n % 2 ? order.steps - 1 : draw(&seed, order.steps);
        memset(alone, 0xff, sizeof alone);
        gather(ctx, &c, 1, epoch, step, alone, &rows);
        for (uint64_t world = 2; world <= WORLDS; world++) {
            memset(together, 0xff, sizeof together);
            gather(ctx, &c, world, epoch, step, together, &more);
            assert_memory_equal(together, alone, sizeof alone);
        }
        uint64_t all = 0;
        for (uint64_t i = 0; i < c.dataset.size; i++)
            all += seen[i];
        assert_int_equal(all, c.o.drop_last ? order.steps * order.global_batch : c.dataset.size);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_worlds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Orders against those that scripts/make_order_golden.py computes from docs/order.md: a change of
 * any constant is another order for every run that is resumed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "loader/order.h"
#include "support/support.h"

enum { SHOWN = 12 };

typedef struct vector {
    char shuffle[8];
    uint64_t size, seed, epoch, block_size, streams, buffer, sum, first[SHOWN];
} vector;

static bool read_vector(FILE *file, vector *v)
{
    if (fscanf(file,
               "%7s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               v->shuffle, &v->size, &v->seed, &v->epoch, &v->block_size, &v->streams, &v->buffer,
               &v->sum) != 8)
        return false;
    for (uint64_t i = 0; i < STK_MIN(v->size, SHOWN); i++)
        assert_int_equal(fscanf(file, "%" SCNu64, &v->first[i]), 1);
    return true;
}

static void check_vector(stk_context *ctx, const vector *v)
{
    stk_dataset dataset = {.size = v->size, .block_size = 1};
    uint64_t *positions = malloc(v->size * 8), *indices = malloc(v->size * 8), sum = 0;
    stk_loader_options o;
    stk__order order;
    stk__order_epoch view;
    stk_error err;

    stk_loader_options_init(&o);
    o.seed = v->seed;
    o.shuffle = !strcmp(v->shuffle, "block")  ? STK_SHUFFLE_BLOCK
                : !strcmp(v->shuffle, "true") ? STK_SHUFFLE_FULL
                                              : STK_SHUFFLE_NONE;
    if (o.shuffle == STK_SHUFFLE_BLOCK) {
        o.block_size = v->block_size;
        o.streams = v->streams;
        o.shuffle_buffer = v->buffer;
    }
    assert_ok(stk__order_init(&order, &dataset, &o, &err), &err);
    assert_int_equal(stk__order_epoch_init(&view, ctx, &order), STK_OK);
    stk__order_epoch_set(&view, v->epoch);
    for (uint64_t p = 0; p < v->size; p++)
        positions[p] = p;
    stk__order_indices(&view, positions, indices, v->size);
    for (uint64_t p = 0; p < v->size; p++)
        sum += (p + 1) * indices[p];
    for (uint64_t i = 0; i < STK_MIN(v->size, SHOWN); i++)
        assert_int_equal(indices[i], v->first[i]);
    assert_int_equal(sum, v->sum);
    stk__order_epoch_release(&view);
    free(positions);
    free(indices);
}

static void as_the_page_says(void **state)
{
    FILE *file = fopen(TESTS_DIR "/golden/loader/order.txt", "r");
    int n = 0;

    assert_non_null(file);
    for (vector v; read_vector(file, &v); n++)
        check_vector(*state, &v);
    assert_true(feof(file));
    fclose(file);
    assert_int_equal(n, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_page_says)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of several sources against those that scripts/make_order_golden.py computes from
 * docs/order.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "loader/order.h"
#include "support/support.h"

enum { SHOWN = 12 };

typedef struct vector {
    char shuffle[8], spec[400];
    uint64_t size, seed, epoch, block_size, streams, buffer, sum, first[SHOWN];
} vector;

static bool read_vector(FILE *file, vector *v)
{
    uint64_t sources, slots, samples;

    if (fscanf(file,
               "%7s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               v->shuffle, &v->size, &v->seed, &v->epoch, &v->block_size, &v->streams, &v->buffer,
               &sources) != 8)
        return false;
    size_t used = (size_t)snprintf(v->spec, sizeof v->spec, "mix:");
    for (uint64_t s = 0; s < sources; s++) {
        assert_int_equal(fscanf(file, "%" SCNu64 " %" SCNu64, &slots, &samples), 2);
        used += (size_t)snprintf(v->spec + used, sizeof v->spec - used,
                                 "%s%" PRIu64 "*(synthetic:?size=%" PRIu64 ")", s ? "," : "", slots,
                                 samples);
    }
    /* Of one source, or of weights with a common divisor, R would be less. */
    snprintf(v->spec + used, sizeof v->spec - used, "?stop=%" PRIu64 "%s", v->size,
             sources == 1 ? "&resolution=4" : "");
    assert_int_equal(fscanf(file, "%" SCNu64, &v->sum), 1);
    for (uint64_t i = 0; i < STK_MIN(v->size, SHOWN); i++)
        assert_int_equal(fscanf(file, "%" SCNu64, &v->first[i]), 1);
    return true;
}

static void check_vector(stk_context *ctx, const vector *v)
{
    uint64_t *positions = malloc(v->size * 8), *indices = malloc(v->size * 8), sum = 0;
    stk_loader_options o;
    stk_dataset *dataset;
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
    assert_ok(stk_dataset_open(ctx, v->spec, &dataset, &err), &err);
    assert_ok(stk__order_init(&order, dataset, &o, &err), &err);
    assert_int_equal(order.size, v->size);
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
    stk_dataset_close(&dataset);
    free(positions);
    free(indices);
}

static void as_the_page_says(void **state)
{
    FILE *file = fopen(TESTS_DIR "/golden/loader/order_mix.txt", "r");
    int n = 0;

    assert_non_null(file);
    for (vector v; read_vector(file, &v); n++)
        check_vector(*state, &v);
    assert_true(feof(file));
    fclose(file);
    assert_int_equal(n, 112);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_page_says)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

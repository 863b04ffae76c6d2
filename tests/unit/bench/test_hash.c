/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a row is of all its fields, however many. */
#include <stdio.h>

#include "bench/bench.h"
#include "support/support.h"

enum { FIELDS = 100, ROWS = 6 };

static uint8_t last_value;

static void close_nothing(stk_dataset *dataset)
{
    (void)dataset;
}

/* All zeros, but the last field. */
static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);

        for (uint32_t f = 0; f < FIELDS; f++) {
            stk_value *value = stk_sample_value(sample, f);
            *(uint8_t *)value->out = f == FIELDS - 1 ? last_value : 0;
            value->data = value->out;
        }
    }
}

static bool keep(void *user, const stk_bench_hash *row)
{
    ((uint64_t *)user)[row->position] = row->hash;
    return true;
}

static void the_last_field_counts(void **state)
{
    static const stk_dataset_ops ops = {
        .struct_size = sizeof ops, .name = "wide", .close = close_nothing, .prepare = prepare};
    static stk_field fields[FIELDS];
    static char names[FIELDS][8];
    const stk_dataset_info info = {
        .struct_size = sizeof info, .num_fields = FIELDS, .fields = fields, .size = ROWS};
    uint64_t all[ROWS] = {0}, again[ROWS] = {0};
    const stk_bench_setting setting = {
        .struct_size = sizeof setting, .hash = keep, .hash_user = all};
    const stk_bench_setting second = {
        .struct_size = sizeof second, .hash = keep, .hash_user = again};
    stk_context *ctx = test_context();
    stk_loader_options options;
    stk_dataset *dataset = NULL;
    stk_error err;

    (void)state;
    for (int i = 0; i < FIELDS; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        fields[i] =
            (stk_field){.struct_size = sizeof *fields, .name = names[i], .dtype = STK_UINT8};
    }
    assert_ok(stk_dataset_create(ctx, &ops, NULL, &info, &dataset, &err), &err);
    for (int i = 0; i < 2; i++) {
        stk_loader *loader = NULL;

        stk_loader_options_init(&options);
        options.batch_size = 4;
        options.epochs = 1;
        last_value = (uint8_t)i;
        assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
        assert_ok(stk__bench_hash_epochs(ctx, loader, 1, 0, i ? &second : &setting, &err), &err);
        stk_loader_destroy(&loader);
    }
    for (int i = 0; i < ROWS; i++)
        assert_true(all[i] != again[i]);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_field_counts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

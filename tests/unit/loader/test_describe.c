/* SPDX-License-Identifier: Apache-2.0 */
/* What a loader would deliver, without one: the same as one says, and no batch is made for it. */
#include "support/support.h"

static uint64_t peak(const stk_context *ctx)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};

    stk_context_memory(ctx, &memory);
    return memory.peak_bytes;
}

/* In a context of its own: the most memory that one held never falls. */
static void check(const stk_loader_options *options)
{
    stk_loader_description found = {.struct_size = sizeof found};
    stk_field fields[8] = {{.struct_size = sizeof *fields}};
    stk_context *ctx = test_context();
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    uint32_t n = 0;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, "digits:?size=5000", &dataset, &err), &err);
    const uint64_t before = peak(ctx);
    assert_ok(stk_loader_describe(dataset, options, &found, fields, 8, &err), &err);
    assert_true(peak(ctx) - before < 100000); /* a batch has a million bytes */
    assert_ok(stk_loader_create(dataset, options, &loader, &err), &err);
    const stk_field *own = stk_loader_fields(loader, &n);
    assert_int_equal(found.num_fields, n);
    assert_int_equal(found.steps, stk_loader_steps(loader));
    assert_int_equal(found.rows, 1500);
    for (uint32_t i = 0; i < n; i++) {
        const stk_field *a = stk_field_at(fields, i), *b = stk_field_at(own, i);

        assert_string_equal(a->name, b->name);
        assert_true(a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void as_the_loader_says(void **state)
{
    stk_loader_options options;

    stk_loader_options_init(&options);
    options.batch_size = 1500;
    options.transforms = "normalize(mnist)";
    check(&options);
    options.batch_transforms = "mixup(0.2)";
    options.world_size = 3;
    options.rank = 2;
    options.drop_last = true;
    check(&options);
}

/* Without reads a loader takes what it has been said to, and one with too little is refused. */
static void memory_is_exact(void **state)
{
    stk_loader_description found = {.struct_size = sizeof found};
    stk_memory_stats held = {.struct_size = sizeof held};
    stk_context *ctx = test_context();
    stk_loader_options options;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, "digits:?size=5000", &dataset, &err), &err);
    stk_loader_options_init(&options);
    options.batch_size = 1000;
    options.num_workers = 2;
    options.transforms = "normalize(mnist)";
    stk_context_memory(ctx, &held);
    const uint64_t before = held.bytes;
    assert_ok(stk_loader_describe(dataset, &options, &found, NULL, 0, &err), &err);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_context_memory(ctx, &held);
    const double took = (double)(held.bytes - before);
    assert_true(took > 5 * 1000 * 784 * 4);
    if (took > 1.01 * (double)found.memory_bytes || took < 0.98 * (double)found.memory_bytes)
        fail_msg("it takes %.0f of %llu", took, (unsigned long long)found.memory_bytes);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    /* The least is what two batches and a worker need. */
    options.memory_budget = 1 << 20;
    assert_ok(stk_loader_describe(dataset, &options, &found, NULL, 0, &err), &err);
    assert_int_equal(found.memory_budget, 1 << 20);
    assert_true(found.memory_bytes > found.memory_budget);
    options.memory_budget = found.memory_bytes - 1;
    assert_int_equal(stk_loader_create(dataset, &options, &loader, &err), STK_EBUDGET);
    options.memory_budget = found.memory_bytes;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void what_is_asked_for(void **state)
{
    stk_loader_description found = {.struct_size = sizeof found}, unset = {0};
    stk_field fields[2] = {{.struct_size = sizeof *fields}, {.rank = 7}};
    stk_context *ctx = test_context();
    stk_loader_options options;
    stk_dataset *dataset = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, "digits:?size=100", &dataset, &err), &err);
    assert_ok(stk_loader_describe(dataset, NULL, &found, NULL, 0, &err), &err);
    assert_int_equal(found.num_fields, 3);
    assert_int_equal(found.steps, 100 / found.rows + (100 % found.rows != 0));
    assert_ok(stk_loader_describe(dataset, NULL, &found, fields, 1, &err), &err);
    assert_string_equal(fields[0].name, "image");
    assert_int_equal(fields[1].rank, 7); /* not asked for */
    assert_fails(stk_loader_describe(dataset, NULL, &unset, NULL, 0, &err), STK_EINVAL, &err,
                 "stk_loader_description has struct_size 0");
    fields[0].struct_size = 0;
    assert_fails(stk_loader_describe(dataset, NULL, &found, fields, 2, &err), STK_EINVAL, &err,
                 "stk_field has struct_size 0");
    stk_loader_options_init(&options);
    options.transforms = "no_such_one";
    assert_fails(stk_loader_describe(dataset, &options, &found, NULL, 0, &err), STK_EINVAL, &err,
                 "no_such_one");
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_loader_says),
                                       cmocka_unit_test(memory_is_exact),
                                       cmocka_unit_test(what_is_asked_for)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML text -> a recipe, with data of the caller's, so that no input opens a file. What must hold
 * whatever it says: everything is made, or it is refused with a reason; nothing is left behind.
 */
#include "dataset/dataset.h"
#include "fuzz_support.h"

#include <stoker/recipe.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE = 12 };

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset, (void)samples, (void)n;
}

static void close_nothing(stk_dataset *dataset)
{
    (void)dataset;
}

static const stk_dataset_ops ops = {
    .struct_size = sizeof ops, .name = "blank", .close = close_nothing, .prepare = prepare};
static const stk_field fields[] = {
    {.struct_size = sizeof(stk_field),
     .name = "image",
     .dtype = STK_UINT8,
     .rank = 3,
     .shape = {SIDE, SIDE, 1},
     .picture = true},
    {.struct_size = sizeof(stk_field), .name = "label", .dtype = STK_INT64}};

/* What would write, or take long, and is not what is looked at here. */
static const char calm[] =
    "loader: {quarantine: , on_error: fail, max_errors: , batch_size: 4, num_workers: 0}\n";

static void use(stk_context *ctx, stk_config *config)
{
    stk_dataset blank = {
        .ops = &ops, .context = ctx, .size = 100, .fields = fields, .num_fields = 2};
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_MODEL, .train = &blank};
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_recipe *recipe = NULL;
    stk_error err;

    stk_error_init(&err);
    const stk_status status = stk_recipe_create(ctx, config, &options, &recipe, &err);
    if (status == STK_OK) {
        stk_recipe_get_parts(recipe, &parts);
        FUZZ_CHECK(parts.trainer && parts.module && parts.data && parts.model && parts.input);
        FUZZ_CHECK(parts.data->train->dataset == &blank && !parts.dataset && !parts.log);
        FUZZ_CHECK(parts.input->name[0] && stk_config_count(config, "model.layers") > 0);
    } else {
        FUZZ_CHECK(status < 0 && status != STK_EINTERNAL && !recipe);
        FUZZ_CHECK(err.status == status && err.text[0]);
    }
    stk_recipe_destroy(&recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_context *ctx = fuzz_context();
    const uint64_t before = fuzz_held(ctx);
    stk_config *config = NULL;
    stk_error err;

    FUZZ_CHECK(stk_config_create(ctx, &config, &err) == STK_OK);
    if (stk_config_load_text(config, "fuzz.yaml", (const char *)data, size, &err) == STK_OK &&
        stk_config_load_text(config, "calm.yaml", calm, sizeof calm - 1, &err) == STK_OK)
        use(ctx, config);
    stk_config_destroy(&config);
    FUZZ_CHECK(fuzz_held(ctx) == before);
    stk_context_destroy(&ctx);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A whole training on pictures and masks of classes: it learns what the colours say, places of
 * ignore_index count nowhere, and a class that the model has not is refused by name. */
#include <math.h>

#include "unit/recipe/recipes.h"
#include "unit/transform/png.h"

enum { PAIRS = 16, SIDE = 12, CLASSES = 3, IGNORED = 255 };

static const char text[] =
    "data: {dataset: 'images:mem://pictures?masks=mem://masks',\n"
    "       val: 'images:mem://pictures?masks=mem://masks',\n"
    "       eval_transforms: 'center_crop(10), normalize(imagenet)'}\n"
    "loader: {batch_size: 4, num_workers: 0, shuffle: true, seed: 3,\n"
    "         transforms: 'random_crop(10), horizontal_flip, normalize(imagenet)'}\n"
    "model: {layers: ['conv2d(6, 3, padding=1)', relu, 'conv2d(3, 3, padding=1)']}\n"
    "module: {metrics: [accuracy, f1]}\n"
    "optimizer: {name: adam, lr: 0.03}\n"
    "trainer: {max_epochs: 12, precision: 64-true, logger: 'false', seed_everything: 2,\n"
    "          num_sanity_val_steps: 0, enable_checkpointing: false,\n"
    "          enable_progress_bar: false, enable_model_summary: false}\n";

static void put(stk_context *ctx, const char *folder, int i, picture *p)
{
    char url[64], key[16];
    stk_store *store;
    stk_error err;

    snprintf(url, sizeof url, "mem://%s", folder);
    snprintf(key, sizeof key, "%02d.png", i);
    assert_ok(stk_store_open(ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, key, p->file, p->size, NULL, &err), &err);
    stk_store_close(&store);
    unload(p);
}

/* Left and right of a line a class each, red, green or blue; in the rows at the top the colours say
 * nothing, and do not count. */
static void make_pairs(stk_context *ctx)
{
    unsigned char pixels[SIDE * SIDE * 3], classes[SIDE * SIDE];
    uint64_t seed = 7;

    for (int n = 0; n < PAIRS; n++) {
        const uint32_t line = 3 + (uint32_t)(test_random(&seed) % 6);
        for (uint32_t i = 0; i < SIDE * SIDE; i++) {
            const bool counts = i >= 3 * SIDE;
            const uint32_t said = (uint32_t)n + (i % SIDE >= line);
            const uint32_t is = counts ? said % CLASSES : (uint32_t)test_random(&seed) % CLASSES;
            for (uint32_t c = 0; c < 3; c++)
                pixels[3 * i + c] = (unsigned char)((c == is ? 170 : 20) + test_random(&seed) % 60);
            classes[i] = counts ? (unsigned char)is : IGNORED;
        }
        picture image = make_png(SIDE, SIDE, 2, pixels), mask = make_png(SIDE, SIDE, 0, classes);
        put(ctx, "pictures", n, &image);
        put(ctx, "masks", n, &mask);
    }
}

static double metric(const made *m, const char *name)
{
    double value = NAN;

    return stk_trainer_metric(m->parts.trainer, name, &value) ? value : NAN;
}

static void test_learns(void **state)
{
    made m;

    make_pairs(*state);
    made_load(&m, *state, text);
    made_set(&m, "model.ignore_index", "255");
    assert_ok(made_create(&m, NULL), &m.err);
    const stk_recipe_parts *p = &m.parts;
    assert_string_equal(p->input->name, "image");
    assert_ok(stk_trainer_validate(p->trainer, p->module, p->data, NULL, &m.err), &m.err);
    const double before = metric(&m, "val_loss");
    assert_true(before > 0.8);
    assert_ok(stk_trainer_fit(p->trainer, p->module, p->data, NULL, &m.err), &m.err);
    const double after = metric(&m, "val_loss");
    if (!(after < 0.1 * before))
        fail_msg("the loss was %g and is %g", before, after);
    assert_true(metric(&m, "val_acc") > 0.97 && metric(&m, "val_f1") > 0.97);
    /* Of places that do not count there is no target: the loss of the training falls as far. */
    assert_true(metric(&m, "train_loss") < 0.2 * before);
    made_release(&m);
}

static void test_refuses(void **state)
{
    made m;

    make_pairs(*state);
    made_load(&m, *state, text);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_fails(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
                 STK_EFORMAT, &m.err, "255");
    made_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_learns, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_refuses, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

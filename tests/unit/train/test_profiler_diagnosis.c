/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer of a model is made slow, in twenty ways, and the diagnosis names it. Each takes several
 * times the work of all others, so that no time is compared with a clock; medians of the calls
 * leave out what other programs disturb.
 */
#include <stdatomic.h>

#include <stoker/plugin.h>

#include "unit/train/profiles.h"

/* ---- A layer of others that is slow by work -------------------------------------------------- */

typedef struct burn_options {
    uint32_t struct_size;
    uint64_t forward, backward; /* rounds of a pass */
} burn_options;

static const stk_option burn_list[] = {{"forward", STK_OPTION_UINT, offsetof(burn_options, forward),
                                        "0", 0, 1e9, NULL, "N", "Rounds."},
                                       {"backward", STK_OPTION_UINT,
                                        offsetof(burn_options, backward), "0", 0, 1e9, NULL, "N",
                                        "Rounds."}};
static const stk_option_table burn_table = {.name = "burn",
                                            .doc = "Work for nothing.",
                                            .struct_size = sizeof(burn_options),
                                            .options = burn_list,
                                            .count = STK_COUNT(burn_list)};
static atomic_uint_fast64_t sink;

/* Each round needs the one before. */
static void burn(uint64_t rounds)
{
    uint64_t x = atomic_load(&sink) | 1;

    for (uint64_t i = 0; i < rounds; i++)
        x = (x ^ x >> 12) * UINT64_C(2685821657736338717);
    atomic_store(&sink, x);
}

static stk_status burn_shape(const void *options, stk_layer_shape *out, stk_error *err)
{
    return STK_OK;
}

static stk_status burn_forward(const stk_layer_pass *p, stk_error *err)
{
    burn(((const burn_options *)p->options)->forward);
    memcpy(p->y, p->x, p->rows * p->in * sizeof(float));
    return STK_OK;
}

static stk_status burn_backward(const stk_layer_pass *p, stk_error *err)
{
    const float *dy = p->dy;

    burn(((const burn_options *)p->options)->backward);
    for (uint64_t i = 0; p->dx && i < p->rows * p->in; i++)
        ((float *)p->dx)[i] += dy[i];
    return STK_OK;
}

static const stk_layer_ops burn_ops = {.struct_size = sizeof burn_ops,
                                       .name = "burn",
                                       .doc = "of a test",
                                       .options = &burn_table,
                                       .shape = burn_shape,
                                       .forward = burn_forward,
                                       .backward = burn_backward};

/* ---- The layers ------------------------------------------------------------------------------ */

typedef struct plant {
    const char *what, *layers;
    uint32_t rows; /* of a batch; 0: 16 */
    const char *precision;
} plant;

static const plant plants[] = {
    {"a large first layer", "flatten, planted=linear(2500), relu, linear(10)", 0, NULL},
    {"a large layer between small ones",
     "max_pool2d(4), flatten, linear(300), relu, planted=linear(2500), relu, linear(10)", 0, NULL},
    {"a square layer", "max_pool2d(4), flatten, linear(1500), planted=linear(1500), linear(10)", 0,
     NULL},
    {"features that nothing divides",
     "max_pool2d(4), flatten, linear(1021), planted=linear(1531), linear(10)", 0, NULL},
    {"many channels",
     "conv2d(8, 3, stride=2), relu, planted=conv2d(256, 3), avg_pool2d(11), flatten, linear(10)", 0,
     NULL},
    {"a large kernel", "planted=conv2d(8, 21), flatten, linear(10)", 0, NULL},
    {"odd numbers of channels",
     "conv2d(3, 3), planted=conv2d(61, 5), avg_pool2d(11), flatten, linear(10)", 0, NULL},
    {"a wide convolution of one place",
     "conv2d(64, 3, stride=3), planted=conv2d(1024, 1), avg_pool2d(9), flatten, linear(10)", 0,
     NULL},
    {"full resolution among strides",
     "conv2d(8, 3, padding=1), planted=conv2d(32, 7, padding=3), avg_pool2d(13), flatten, "
     "linear(10)",
     0, NULL},
    {"a convolution in groups",
     "conv2d(16, 3, stride=2), planted=conv2d(256, 9, padding=4, groups=4), avg_pool2d(13), "
     "flatten, linear(10)",
     0, NULL},
    {"a convolution of each channel",
     "conv2d(16, 3), planted=conv2d(16, 15, padding=7, groups=16), avg_pool2d(13), flatten, "
     "linear(10)",
     0, NULL},
    {"a pool of large places",
     "conv2d(8, 3), planted=max_pool2d(19, stride=1), flatten, linear(10)", 0, NULL},
    {"a mean of large places",
     "conv2d(8, 3), planted=avg_pool2d(19, stride=1), flatten, linear(10)", 0, NULL},
    {"the sixth of eight",
     "conv2d(8, 3, stride=2), conv2d(8, 3, padding=1), conv2d(8, 3, padding=1), conv2d(8, 3, "
     "padding=1), conv2d(8, 3, padding=1), planted=conv2d(256, 7, padding=3), avg_pool2d(13), "
     "flatten, linear(10)",
     0, NULL},
    {"weights for one row", "flatten, planted=linear(3000), linear(10)", 1, NULL},
    {"bf16-mixed", "flatten, planted=linear(2500), relu, linear(10)", 0, "bf16-mixed"},
    {"a layer of others, forward", "flatten, linear(16), planted=burn(forward=1000000), linear(10)",
     0, NULL},
    {"a layer of others, backward",
     "flatten, linear(16), planted=burn(backward=1000000), linear(10)", 0, NULL},
    {"a layer of others, both ways",
     "conv2d(4, 3), planted=burn(forward=1000000, backward=1000000), flatten, linear(10)", 0, NULL},
    {"a layer of others behind the last",
     "flatten, linear(16), relu, linear(10), planted=burn(forward=1000000)", 2, NULL},
};

/* The diagnosis of a fit of eight batches, the first of which does not count. */
static void diagnose(const plant *plant, const char *machine, stk_profile_summary *out)
{
    static const int64_t shape[] = {1, 28, 28};
    stk_model_builder *builder;
    stk_context_options c;
    stk_profile_options o;
    stk_module *module;
    stk_trainer *t;
    stk_profile *p;
    bench b;

    bench_open(&b);
    stk_dataset_close(&b.dataset);
    /* With several threads a layer may wait for one that other programs keep from its core. */
    stk_context_destroy(&b.ctx);
    stk_context_options_init(&c);
    c.compute_threads = 1;
    assert_ok(stk_context_create(&c, &b.ctx, &b.err), &b.err);
    assert_ok(stk_driver_add(b.ctx, STK_DRIVER_LAYER, &burn_ops, &b.err), &b.err);
    assert_ok(stk_dataset_open(b.ctx, "digits:?split=test&subset=0:160", &b.dataset, &b.err),
              &b.err);
    b.train.dataset = b.val.dataset = b.dataset;
    b.loader.batch_size = b.val_loader.batch_size = plant->rows ? plant->rows : 16;
    b.loader.transforms = b.val_loader.transforms = "layout(chw), to_float";
    b.options.limit_train_batches = "8";
    b.options.limit_val_batches = "0";
    if (plant->precision)
        b.options.precision = plant->precision;
    assert_ok(stk_model_builder_create(b.ctx, shape, 3, &builder, &b.err), &b.err);
    assert_ok(stk_model_builder_add(builder, plant->layers, &b.err), &b.err);
    const stk_model_parts recipe = {.struct_size = sizeof recipe, .builder = builder};
    assert_ok(stk_model_module_create(b.ctx, &recipe, &module, &b.err), &b.err);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    profile_options(&o, "simple", NULL, NULL);
    o.warmup_steps = 1;
    o.machine_dir = machine;
    assert_ok(stk_profile_create(t, &o, &p, &b.err), &b.err);
    assert_ok(stk_trainer_fit(t, module, &b.data, NULL, &b.err), &b.err);
    assert_ok(stk_profile_summarize(p, 1, NULL, out, &b.err), &b.err);
    assert_ok(stk_profile_close(&p, &b.err), &b.err);
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    stk_model_builder_destroy(&builder);
    bench_close(&b);
}

static void named(void **state)
{
    stk_profile_summary s = {.struct_size = sizeof s};
    char folder[256];
    int missed = 0;

    assert_int_equal(STK_COUNT(plants), 20);
    test_folder(folder);
    for (size_t i = 0; i < STK_COUNT(plants); i++) {
        diagnose(&plants[i], folder, &s);
        if (strstr(s.text, "Of all layers 'planted' ") && strstr(s.text, "of the machine's peak"))
            continue;
        missed++;
        print_message("%s: %s\n%s\n", plants[i].what, s.text, said);
    }
    test_folder_remove(folder);
    /* Loops with a sanitizer's code take other shares of the time than products without it. */
    if (TEST_SANITIZED)
        skip();
    assert_int_equal(missed, 0);
}

/* Without peaks the layer is named alike, and nothing is said of a roof. */
static void without_peaks(void **state)
{
    stk_profile_summary s = {.struct_size = sizeof s};

    diagnose(&plants[0], NULL, &s);
    assert_non_null(strstr(s.text, "Of all layers 'planted' (linear) takes most"));
    assert_null(strstr(s.text, "peak"));
    assert_true(s.peak_flops_per_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(named), cmocka_unit_test(without_peaks)};

    return cmocka_run_group_tests_name("train/profiler_diagnosis", tests, NULL, NULL);
}

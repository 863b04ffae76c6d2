/* SPDX-License-Identifier: Apache-2.0 */
/* What `cache: auto` comes to. */
#include "unit/dataset/windows.h"

static const made large = {.dtype = STK_FLOAT32, .shape = {32, 32, 32}, .chunk = {8, 8, 8}};

/* `auto` keeps what is decoded where samples in random order come back to it and all of it fits. */
static void test_auto(void **state)
{
    static const struct {
        int32_t shuffle;
        uint64_t budget;
        const char *spec;
        bool keeps;
    } cases[] = {
        {STK_SHUFFLE_FULL, 0, "array:mem://a?window=8x8x8&stride=2x2x2", true},
        {STK_SHUFFLE_FULL, 6 << 20, "array:mem://b?window=8x8x8&stride=4x4x4", false},
        {STK_SHUFFLE_BLOCK, 0, "array:mem://a?window=8x8x8&stride=2x2x2", false},
        {STK_SHUFFLE_FULL, 0, "array:mem://a?window=8x8x8&stride=8x8x8", false}, /* once each */
        {STK_SHUFFLE_FULL, 0, "array:mem://u?window=8x8x8&stride=2x2x2", false}, /* not encoded */
    };
    made plain = large, wide = large;
    stk_context *ctx = test_context();
    uint64_t samples;

    (void)state;
    make_array(ctx, "mem://a", &large);
    plain.codec = "none";
    make_array(ctx, "mem://u", &plain);
    wide.shape[0] = wide.shape[1] = wide.shape[2] = 64; /* 1 MiB */
    make_array(ctx, "mem://b", &wide);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_dataset *d = open_windows(ctx, cases[i].spec);
        stk_loader_options o = window_options();
        stk_loader *loader;
        stk_error err;
        assert_int_equal(o.cache, STK_CACHE_AUTO);
        o.shuffle = cases[i].shuffle;
        o.memory_budget = cases[i].budget;
        o.epochs = 2;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        epoch(loader, &samples);
        assert_int_equal(samples, d->size);
        const stk_loader_stats s = epoch(loader, &samples);
        if (cases[i].keeps)
            assert_int_equal(s.chunks_decoded, 64);
        assert_int_equal(s.cache_bytes > 0, cases[i].keeps);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_auto)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

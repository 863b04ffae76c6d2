/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that stand one behind the other are taken as runs: what comes out is what comes out of each
 * by itself. */
#include "property/loader/many.h"

/* A table of short lines, in batches of many, so that runs end by what they hold at most, by pieces
 * and by batches. Of some a value is bad; all of the last file are. */
static void test_runs(void **state)
{
    enum { SHORT = 40000 };
    char *text = malloc(SHORT * 12), spec[512], folder[256];
    uint64_t seed = 21;

    (void)state;
    test_folder(folder);
    assert_non_null(text);
    for (int f = 0; f < 3; f++) {
        char name[32], *at = text + sprintf(text, "a,b\n");
        snprintf(name, sizeof name, "long/%d.csv", f);
        for (long i = 0; i < (f == 2 ? 600 : SHORT); i++)
            at +=
                sprintf(at, f == 2 || (f && test_random(&seed) % 3000 == 0) ? "x,%ld\n" : "%ld,1\n",
                        i % 1000);
        test_write(folder, name, text, (size_t)(at - text));
    }
    free(text);
    snprintf(spec, sizeof spec, "csv:%s/long?types=a:int32", folder);
    for (int32_t on_error = 0; on_error < 3; on_error++)
        for (unsigned i = 0; i < 3; i++) {
            stk_context *ctx = test_context();
            output all[2] = {0};
            stk_loader_options o;
            stk_loader_options_init(&o);
            o.batch_size = (const uint64_t[]){16384, 5000, 50000}[i];
            o.num_workers = i;
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = on_error;
            o.max_errors = on_error == STK_ON_ERROR_FAIL ? NULL : "100%";
            o.epochs = 1;
            runs = 0;
            run_some(ctx, spec, ALONE, &o, NULL, UINT64_MAX, NULL, &all[0]);
            assert_int_equal(runs, 0);
            run_some(ctx, spec, MANY, &o, NULL, UINT64_MAX, NULL, &all[1]);
            assert_true(runs > 20 && runs < 200);
            same_output(&all[0], &all[1], true);
            assert_true(all[0].bad > 0 && (all[0].good > 10000 || on_error == STK_ON_ERROR_FAIL));
            drop_output(&all[0]);
            drop_output(&all[1]);
            stk_context_destroy(&ctx);
        }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

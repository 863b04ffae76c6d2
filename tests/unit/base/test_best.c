/* SPDX-License-Identifier: Apache-2.0 */
/* Where the best checkpoint is: told, and found again from what was told. */
#include "base/best.h"

#include "support/support.h"

#define LOGS "root/lightning_logs/"

static void check(stk_context *ctx, char *text, const char *expected)
{
    if (expected) {
        assert_non_null(text);
        assert_string_equal(text, expected);
    } else {
        assert_null(text);
    }
    stk__free(ctx, text);
}

/* What is told is found; what has no short name is not told. */
static void test_told(void **state)
{
    static const struct {
        const char *path, *best, *told;
    } rows[] = {
        {"last.ckpt", "best.ckpt", "best.ckpt"},
        {"/last.ckpt", "/best.ckpt", "best.ckpt"},
        {"a/last.ckpt", "a/best.ckpt", "best.ckpt"},
        {"a/last.ckpt", "b/best.ckpt", NULL},
        {"a/last.ckpt", "best.ckpt", NULL},
        {"a/last.ckpt", "a/b%2Fc?x.ckpt", "b%2Fc?x.ckpt"},
        {LOGS "version_1/checkpoints/last.ckpt", LOGS "version_0/checkpoints/best.ckpt",
         "version_0/checkpoints/best.ckpt"},
        {LOGS "version_1/checkpoints/last.ckpt", LOGS "version_0/best.ckpt", NULL},
        {LOGS "version_1/checkpoints/last.ckpt", "other/version_0/checkpoints/best.ckpt", NULL},
        {"mem://a/last.ckpt", "mem://a/best.ckpt", "best.ckpt"},
        {"mem://a/last.ckpt", "mem://a/b%252Fc%3Fx.ckpt", "b%252Fc%3Fx.ckpt"},
        {"mem://a/last.ckpt", "a/best.ckpt", NULL},
        {"slow+a/last.ckpt?latency=0", "slow+a/best.ckpt?latency=0", "best.ckpt"},
        {"mem://" LOGS "version_1/checkpoints/last.ckpt",
         "mem://" LOGS "version_0/checkpoints/best.ckpt", "version_0/checkpoints/best.ckpt"},
        {"slow+mem://" LOGS "version_1/checkpoints/last.ckpt?latency=0",
         "slow+mem://" LOGS "version_0/checkpoints/best.ckpt?latency=0",
         "version_0/checkpoints/best.ckpt"},
    };

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        check(*state, stk__best_told(*state, rows[i].path, rows[i].best), rows[i].told);
        if (rows[i].told)
            check(*state, stk__best_found(*state, rows[i].path, rows[i].told), rows[i].best);
    }
}

/* What a file tells names nothing outside of the runs. */
static void test_not_found(void **state)
{
    static const char *const paths[] = {LOGS "version_1/checkpoints/last.ckpt",
                                        "mem://" LOGS "version_1/checkpoints/last.ckpt",
                                        "file:///" LOGS "version_1/checkpoints/last.ckpt"};
    static const char *const told[] = {"",
                                       ".",
                                       "..",
                                       "../x.ckpt",
                                       "../../x.ckpt",
                                       "a/b.ckpt",
                                       "a/b/c/d.ckpt",
                                       "../b/c.ckpt",
                                       "a/../c.ckpt",
                                       "a/b/..",
                                       "/a/b/c.ckpt",
                                       "a//c.ckpt",
                                       "mem://a/b/c.ckpt",
                                       "version_1/checkpoints/x.ckpt"};
    static const char *const escaped[] = {
        "..%2Fx.ckpt",     "a%2Fb.ckpt", "%2E%2E", "a%00.ckpt", "a%2F..%2F..%2Fb/c/d.ckpt",
        "x.ckpt?latency=0"};

    for (size_t p = 0; p < STK_COUNT(paths); p++)
        for (size_t i = 0; i < STK_COUNT(told); i++)
            check(*state, stk__best_found(*state, paths[p], told[i]), NULL);
    for (size_t p = 1; p < STK_COUNT(paths); p++)
        for (size_t i = 0; i < STK_COUNT(escaped); i++)
            check(*state, stk__best_found(*state, paths[p], escaped[i]), NULL);
}

static void test_folders(void **state)
{
    static const struct {
        const char *path, *folder;
    } rows[] = {{"a/b", "a"}, {"/a/b", "/a"},           {"a", NULL},
                {"/a", NULL}, {"mem://a/b", "mem://a"}, {"slow+a/b?latency=0", "slow+a?latency=0"}};

    for (size_t i = 0; i < STK_COUNT(rows); i++)
        check(*state, stk__best_folder(*state, rows[i].path), rows[i].folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_told, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_not_found, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_folders, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of CIFAR in both versions (scripts/make_cifar_golden.py) against what pickle.load() and
 * NumPy give for them. */
#include "expected.h"

#define GOLDEN TESTS_DIR "/golden/cifar"

/* Both versions, the folder and the one above, on every kind of store: one and the same dataset. */
static void test_archives(void **state)
{
    static const char *const ten[] = {"", "/cifar-10-batches-bin", "/cifar-10-batches-py"};
    static const char *const hundred[] = {"", "/cifar-100-binary", "/cifar-100-python"};
    static const char *const ways[][2] = {
        {"", ""}, {"", "&memory=true"}, {"slow+file://", "&latency=0"}};
    stk_context *ctx = test_context();
    expected e[32];
    const size_t n = expected_read(GOLDEN "/expected.txt", e, STK_COUNT(e));

    assert_int_equal(n, 12);
    for (size_t i = 0; i < n; i++) {
        const char *const *below = strcmp(e[i].kind, "cifar10") == 0 ? ten : hundred;
        uint64_t fingerprint = 0;
        for (size_t k = 0; k < 9; k++) {
            stk_dataset *d = NULL;
            char url[600];
            snprintf(url, sizeof url, "%s" GOLDEN "%s", ways[k / 3][0], below[k % 3]);
            expected_open(ctx, &e[i], url, ways[k / 3][1], &d);
            expected_check(d, &e[i]);
            if (k > 0)
                assert_int_equal(d->fingerprint, fingerprint);
            fingerprint = d->fingerprint;
            stk_dataset_close(&d);
        }
    }
    stk_context_destroy(&ctx);
}

/* NumPy's names of today, and strings of Python 3. */
static void test_numpy(void **state)
{
    stk_context *ctx = test_context();
    expected e[32];

    for (size_t i = 0, n = expected_read(GOLDEN "/expected.txt", e, STK_COUNT(e)); i < n; i++) {
        stk_dataset *d = NULL;
        if (strcmp(e[i].kind, "cifar100") != 0 || strcmp(e[i].split, "test") != 0)
            continue;
        expected_open(ctx, &e[i], GOLDEN "/numpy", "", &d);
        expected_check(d, &e[i]);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* What lies in a folder says which archive it is; above both, it does not. */
static void test_recognised(void **state)
{
    static const char *const cases[][2] = {{"cifar-10-batches-bin", "cifar10"},
                                           {"cifar-10-batches-py", "cifar10"},
                                           {"cifar-100-binary", "cifar100"},
                                           {"cifar-100-python", "cifar100"}};
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char path[600];
        snprintf(path, sizeof path, GOLDEN "/%s", cases[i][0]);
        assert_ok(stk_dataset_open(ctx, path, &d, &err), &err);
        assert_string_equal(d->ops->name, cases[i][1]);
        stk_dataset_close(&d);
    }
    assert_fails(stk_dataset_open(ctx, GOLDEN, &d, &err), STK_EINVAL, &err, "cifar10:, cifar100:");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_archives),
                                       cmocka_unit_test(test_numpy),
                                       cmocka_unit_test(test_recognised)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

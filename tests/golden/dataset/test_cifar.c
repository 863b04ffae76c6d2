/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of CIFAR in both versions (scripts/make_cifar_golden.py) against what pickle.load() and
 * NumPy give for them. */
#include <stdio.h>
#include <zlib.h>

#include "unit/dataset/samples.h"

#define GOLDEN TESTS_DIR "/golden/cifar"

/* A line of expected.txt. */
typedef struct expected {
    char kind[16], split[8], labels[8], name[64];
    unsigned index, label;
    unsigned long crc;
} expected;

static size_t read_expected(expected *to, size_t room)
{
    FILE *f = fopen(GOLDEN "/expected.txt", "r");
    size_t n = 0;

    assert_non_null(f);
    while (n < room &&
           fscanf(f, "%15s %7s %7s %u %u %63s %lx", to[n].kind, to[n].split, to[n].labels,
                  &to[n].index, &to[n].label, to[n].name, &to[n].crc) == 7)
        n++;
    assert_true(feof(f));
    fclose(f);
    return n;
}

static void open_golden(stk_context *ctx, const expected *e, const char *store, const char *below,
                        const char *more, stk_dataset **out)
{
    char spec[1000];
    stk_error err;

    stk_error_init(&err);
    snprintf(spec, sizeof spec, "%s:%s" GOLDEN "%s?split=%s%s%s%s", e->kind, store, below, e->split,
             e->labels[0] == '-' ? "" : "&labels=", e->labels[0] == '-' ? "" : e->labels, more);
    assert_ok(stk_dataset_open(ctx, spec, out, &err), &err);
}

static void check(stk_dataset *d, const expected *e)
{
    samples *s = samples_range(d, e->index, e->index + 1);

    assert_int_equal(s->sample[0].status, STK_OK);
    assert_int_equal(s->label[0], e->label);
    assert_string_equal(d->classes[e->label], e->name);
    assert_int_equal(crc32(0, s->data[0], 3072), e->crc);
    samples_free(s);
}

/* Both versions, the folder and the one above, on every kind of store: one and the same dataset. */
static void test_archives(void **state)
{
    static const char *const ten[] = {"", "/cifar-10-batches-bin", "/cifar-10-batches-py"};
    static const char *const hundred[] = {"", "/cifar-100-binary", "/cifar-100-python"};
    static const char *const ways[][2] = {
        {"", ""}, {"", "&memory=true"}, {"slow+file://", "&latency=0"}};
    stk_context *ctx = test_context();
    expected e[32];
    const size_t n = read_expected(e, STK_COUNT(e));

    assert_int_equal(n, 12);
    for (size_t i = 0; i < n; i++) {
        const char *const *below = strcmp(e[i].kind, "cifar10") == 0 ? ten : hundred;
        uint64_t fingerprint = 0;
        for (size_t k = 0; k < 9; k++) {
            stk_dataset *d = NULL;
            open_golden(ctx, &e[i], ways[k / 3][0], below[k % 3], ways[k / 3][1], &d);
            check(d, &e[i]);
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

    for (size_t i = 0, n = read_expected(e, STK_COUNT(e)); i < n; i++) {
        stk_dataset *d = NULL;
        if (strcmp(e[i].kind, "cifar100") != 0 || strcmp(e[i].split, "test") != 0)
            continue;
        open_golden(ctx, &e[i], "", "/numpy", "", &d);
        check(d, &e[i]);
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

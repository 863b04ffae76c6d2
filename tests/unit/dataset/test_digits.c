/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "dataset/dataset.h"
#include "samples.h"

#define PIXELS 784

static stk_dataset *open_spec(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void test_head(void **state)
{
    stk_dataset *d = open_spec(*state, "digits:"), *t = open_spec(*state, "digits:?split=test");

    assert_int_equal(d->size, 60000);
    assert_int_equal(t->size, 10000);
    assert_int_equal(d->num_fields, 2);
    assert_string_equal(d->fields[0].name, "image");
    assert_int_equal(d->fields[0].dtype, STK_UINT8);
    assert_int_equal(d->fields[0].rank, 3);
    assert_int_equal(d->fields[0].shape[0], 28);
    assert_int_equal(d->fields[0].shape[1], 28);
    assert_int_equal(d->fields[0].shape[2], 1);
    assert_true(d->fields[0].picture);
    assert_int_equal(stk_field_bytes(&d->fields[0]), PIXELS);
    assert_string_equal(d->fields[1].name, "label");
    assert_int_equal(d->fields[1].dtype, STK_INT64);
    assert_int_equal(d->fields[1].rank, 0);
    assert_int_equal(stk_field_bytes(&d->fields[1]), 8);
    assert_int_equal(d->num_classes, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(d->classes[i][0], '0' + i);
    assert_null(d->ops->locate);
    stk_dataset_close(&d);
    stk_dataset_close(&t);
    assert_null(d);
}

/* The same bytes for the same index, alone or among others, in any order, in a set of any size. */
static void test_pure(void **state)
{
    enum { N = 64 };
    stk_dataset *d = open_spec(*state, "digits:"),
                *huge = open_spec(*state, "digits:?size=281474976710656");
    uint64_t shuffled[N], random = 7;
    samples *all = samples_range(d, 1000, N);

    for (int i = 0; i < N; i++)
        shuffled[i] = 1000 + test_random(&random) % N;
    samples *some = samples_read(huge, shuffled, N);
    for (int i = 0; i < N; i++) {
        samples *one = samples_range(d, shuffled[i], 1);
        assert_memory_equal(some->data[i], all->data[shuffled[i] - 1000], PIXELS);
        assert_memory_equal(some->data[i], one->data[0], PIXELS);
        assert_int_equal(some->label[i], all->label[shuffled[i] - 1000]);
        assert_int_equal(some->label[i], one->label[0]);
        samples_free(one);
    }
    samples_free(some);
    some = samples_range(huge, huge->size - 2, 2);
    assert_memory_not_equal(some->data[0], some->data[1], PIXELS);
    samples_free(some);
    samples_free(all);
    stk_dataset_close(&huge);
    stk_dataset_close(&d);
}

/* Every machine and compiler draws the same digits, for ever: results in papers name them. */
static void test_golden(void **state)
{
    static const struct {
        const char *spec;
        uint64_t hash;
    } golden[] = {
        {"digits:", UINT64_C(0x6dda44e825249687)},
        {"digits:?split=test", UINT64_C(0xb7a490ba0480e15c)},
        {"digits:?seed=42", UINT64_C(0xc6c7bd230171218e)},
    };

    for (size_t i = 0; i < STK_COUNT(golden); i++) {
        stk_dataset *d = open_spec(*state, golden[i].spec);
        samples *s = samples_range(d, 0, 1000);
        uint64_t hash = 0;
        for (int k = 0; k < 1000; k++) {
            hash = XXH64(s->data[k], PIXELS, hash);
            hash = XXH64(&s->label[k], 8, hash);
        }
        if (hash != golden[i].hash)
            print_error("%s: %016llx\n", golden[i].spec, (unsigned long long)hash);
        assert_true(hash == golden[i].hash);
        samples_free(s);
        stk_dataset_close(&d);
    }
}

/* Ten classes, about as many of each, all different, neither empty nor full, inside the frame
 * mostly. */
static void test_variety(void **state)
{
    enum { N = 4096 };
    stk_dataset *d = open_spec(*state, "digits:");
    samples *s = samples_range(d, 0, N);
    uint32_t counts[10] = {0};
    uint64_t hashes[N];

    for (int i = 0; i < N; i++) {
        uint64_t sum = 0;
        int lit = 0;
        assert_in_range(s->label[i], 0, 9);
        counts[s->label[i]]++;
        for (int k = 0; k < PIXELS; k++) {
            sum += s->data[i][k];
            lit += s->data[i][k] > 100;
        }
        assert_in_range(lit, 15, 500);
        assert_in_range(sum / PIXELS, 4, 140);
        hashes[i] = XXH64(s->data[i], PIXELS, 0);
        for (int k = 0; k < i; k++)
            if (hashes[k] == hashes[i])
                fail_msg("digits %d and %d are the same", k, i);
    }
    /* Six standard deviations of a binomial with p = 1/10. */
    for (int c = 0; c < 10; c++)
        assert_in_range(counts[c], N / 10 - 115, N / 10 + 115);
    samples_free(s);
    stk_dataset_close(&d);
}

static void test_fingerprints(void **state)
{
    static const char *const specs[] = {"digits:", "digits:?split=test", "digits:?seed=1",
                                        "digits:?size=10000", "digits:?split=test&seed=1"};
    uint64_t prints[STK_COUNT(specs)];

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        stk_dataset *d = open_spec(*state, specs[i]);
        prints[i] = d->fingerprint;
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(prints[i], prints[k]);
        stk_dataset_close(&d);
    }
    stk_dataset *again = open_spec(*state, "digits:?split=train&seed=0&size=60000");
    assert_int_equal(again->fingerprint, prints[0]);
    stk_dataset_close(&again);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"digits:/some/folder", "/some/folder"},
        {"digits:?split=both", "both"},
        {"digits:?size=0", "size"},
        {"digits:?size=-5", "size"},
        {"digits:?splt=test", "split"},
        {"digits:?seed=x", "seed"},
        {"digits:?size=562949953421312", "size"},
        {"digits:?split", "split"},
        {"digits:?split=%zz", "split"},
    };

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_dataset *d = (stk_dataset *)1;
        stk_error err;
        stk_error_init(&err);
        assert_fails(stk_dataset_open(*state, bad[i].spec, &d, &err), STK_EINVAL, &err,
                     bad[i].part);
        assert_null(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),         cmocka_unit_test(test_pure),
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_variety),
        cmocka_unit_test(test_fingerprints), cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fashion_mnist, kmnist, emnist: files and folders as torchvision has them, and its names of
 * classes. */
#include <stdio.h>

#include "samples.h"
#include "support/gzips.h"
#include "support/zips.h"

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 7, 8, 9, 10};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 4};

/* Rows and columns are as in the file, also EMNIST's. */
static void check_samples(stk_dataset *d, bool needs)
{
    samples *s = samples_range(d, 0, d->size);

    assert_int_equal(s->n, 2);
    assert_int_equal(s->located, needs ? 2 : 0);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->sample[i].status, STK_OK);
        assert_memory_equal(s->data[i], images + 16 + 2 * i, 2);
        assert_int_equal(s->label[i], labels[8 + i]);
    }
    samples_free(s);
}

/* The kinds that know their classes: the files of torchvision's folders, and no less than these. */
static void test_cousins(void **state)
{
    static const struct {
        const char *spec, *images, *labels, *query;
        uint32_t classes;
        int at;
        const char *name;
    } cases[] = {
        {"fashion_mnist", "FashionMNIST/raw/train-images-idx3-ubyte",
         "FashionMNIST/raw/train-labels-idx1-ubyte", "", 10, 9, "Ankle boot"},
        {"kmnist", "KMNIST/raw/t10k-images-idx3-ubyte.gz", "KMNIST/raw/t10k-labels-idx1-ubyte.gz",
         "?split=test", 10, 3, "tsu"},
        {"emnist", "EMNIST/raw/emnist-balanced-train-images-idx3-ubyte",
         "EMNIST/raw/emnist-balanced-train-labels-idx1-ubyte", "", 47, 46, "t"},
        {"emnist", "gzip/emnist-letters-test-images-idx3-ubyte.gz",
         "gzip/emnist-letters-test-labels-idx1-ubyte.gz", "?set=letters&split=test", 27, 26, "z"},
        {"emnist", "emnist-letters-train-images-idx3-ubyte",
         "emnist-letters-train-labels-idx1-ubyte", "?set=letters", 27, 0, "N/A"},
        {"emnist", "raw/emnist-byclass-train-images-idx3-ubyte",
         "raw/emnist-byclass-train-labels-idx1-ubyte", "?set=byclass", 62, 36, "a"},
        {"emnist", "emnist-bymerge-train-images-idx3-ubyte",
         "emnist-bymerge-train-labels-idx1-ubyte", "?set=bymerge", 47, 38, "d"},
        {"emnist", "emnist-digits-train-images-idx3-ubyte", "emnist-digits-train-labels-idx1-ubyte",
         "?set=digits", 10, 9, "9"},
        {"emnist", "emnist-mnist-train-images-idx3-ubyte", "emnist-mnist-train-labels-idx1-ubyte",
         "?set=mnist&memory=true", 10, 7, "7"},
    };
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const bool packed = strstr(cases[i].images, ".gz"), kept = strstr(cases[i].query, "memory");
        char folder[256], spec[400];
        test_folder(folder);
        (packed ? gzip_write : test_write)(folder, cases[i].images, images, sizeof images);
        (packed ? gzip_write : test_write)(folder, cases[i].labels, labels, sizeof labels);
        snprintf(spec, sizeof spec, "%s:%s%s", cases[i].spec, folder, cases[i].query);
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        check_samples(d, !packed && !kept);
        assert_string_equal(d->ops->name, cases[i].spec);
        assert_int_equal(d->num_classes, cases[i].classes);
        assert_string_equal(d->classes[cases[i].at], cases[i].name);
        stk_dataset_close(&d);
        test_folder_remove(folder);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err, "");
    }
    stk_context_destroy(&ctx);
}

/* The archive of all sets as NIST publishes it: files of gzip in a zip, in the folders that
 * torchvision and download=true leave it in. Files beside it come first. */
static void test_emnist_archive(void **state)
{
    static const char *const places[] = {"gzip.zip", "raw/gzip.zip", "EMNIST/raw/gzip.zip"};
    stk_context *ctx = test_context();
    char folder[256], inner[256], spec[400], url[300];
    stk_store *from = NULL, *to = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(inner);
    gzip_write(inner, "gzip/emnist-letters-train-images-idx3-ubyte.gz", images, sizeof images);
    gzip_write(inner, "gzip/emnist-letters-train-labels-idx1-ubyte.gz", labels, sizeof labels);
    assert_ok(stk_store_open(ctx, inner, &from, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        test_folder(folder);
        assert_ok(stk_store_open(ctx, folder, &to, NULL, 0, &err), &err);
        zip_all(from, to, places[i], i);
        stk_store_close(&to);
        snprintf(url, sizeof url, i == 1 ? "slow+file://%s?latency=0&" : "%s?", folder);
        snprintf(spec, sizeof spec, "emnist:%sset=letters", url);
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        check_samples(d, false);
        const uint64_t print = d->fingerprint;
        stk_dataset_close(&d);
        /* Nothing is asked for. */
        snprintf(spec, sizeof spec, "emnist:%sset=letters&download=true&mirror=none", url);
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        assert_int_equal(d->fingerprint, print);
        stk_dataset_close(&d);
        snprintf(spec, sizeof spec, "emnist:%sset=digits", url);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err,
                     "no file emnist-digits-train-images-idx3-ubyte");
        test_write(folder, "emnist-letters-train-images-idx3-ubyte", "x", 1);
        snprintf(spec, sizeof spec, "emnist:%sset=letters", url);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err, "no labels next to");
        test_folder_remove(folder);
    }
    test_folder(folder);
    test_write(folder, "gzip.zip", "cut", 3);
    snprintf(spec, sizeof spec, "emnist:%s", folder);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EFORMAT, &err, "is no zip archive");
    test_folder_remove(folder);
    stk_store_close(&from);
    test_folder_remove(inner);
    stk_context_destroy(&ctx);
}

/* What is missing is said by the name that is looked for. */
static void test_emnist_missing(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], spec[400];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(spec, sizeof spec, "emnist:%s?set=letters&split=test", folder);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err,
                 "no file emnist-letters-test-images-idx3-ubyte");
    assert_non_null(strstr(err.text, "another set="));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cousins),
                                       cmocka_unit_test(test_emnist_archive),
                                       cmocka_unit_test(test_emnist_missing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

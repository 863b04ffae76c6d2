/* SPDX-License-Identifier: Apache-2.0 */
/* Opening datasets of files while the n-th allocation fails, for every n until all succeed. */
#include <stoker/convert.h>

#include "support/gzips.h"
#include "torture/dataset/opening.h"

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 8};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};

static void test_mnist(void **state)
{
    char folder[256], spec[400];

    test_folder(folder);
    test_write(folder, "train-images-idx3-ubyte", images, sizeof images);
    test_write(folder, "train-labels-idx1-ubyte", labels, sizeof labels);
    snprintf(spec, sizeof spec, "mnist:%s", folder);
    torture(spec);
    snprintf(spec, sizeof spec, "mnist:%s?memory=true&split=train", folder);
    torture(spec);
    torture(folder);
    test_folder_remove(folder);
}

static void test_gzip(void **state)
{
    char folder[256], spec[400];

    test_folder(folder);
    gzip_write(folder, "train-images-idx3-ubyte.gz", images, sizeof images);
    gzip_write(folder, "train-labels-idx1-ubyte.gz", labels, sizeof labels);
    snprintf(spec, sizeof spec, "mnist:%s", folder);
    torture(spec);
    test_folder_remove(folder);
}

static void test_cifar10(void **state)
{
    static unsigned char record[3073];
    char folder[256], spec[400], name[64];

    test_folder(folder);
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        test_write(folder, name, record, sizeof record);
    }
    snprintf(spec, sizeof spec, "cifar10:%s?memory=true", folder);
    torture(spec);
    test_folder_remove(folder);
}

static void test_cifar_pickles(void **state)
{
    torture("cifar10:" TESTS_DIR "/golden/cifar/cifar-10-batches-py");
    torture(TESTS_DIR "/golden/cifar/cifar-10-batches-py");
    torture("cifar100:" TESTS_DIR "/golden/cifar/cifar-100-python?memory=true&labels=coarse");
}

static void test_npy(void **state)
{
    torture("npy:" TESTS_DIR "/golden/npy/little_float32.npy?labels=labels_int32_big.npy");
    torture("npy:" TESTS_DIR "/golden/npy/big_float32.npy?memory=true&labels=" TESTS_DIR
            "/golden/npy/labels_uint8.npy");
    torture(TESTS_DIR "/golden/npy/little_float32.npy");
}

static void test_rows(void **state)
{
    torture("hdf5:" TESTS_DIR "/golden/rows/mixed.h5");
    torture(TESTS_DIR "/golden/rows/table.h5");
    torture("npz:" TESTS_DIR "/golden/rows/mixed.npz?fields=x,labels");
    torture(TESTS_DIR "/golden/rows/deflated.npz");
}

/* What is no array but packed pictures, which a failure does not change. */
static void test_packed(void **state)
{
    stk_conversion *conversion = NULL;
    stk_context *ctx = test_context();
    char folder[256], target[300];
    stk_error err;

    test_folder(folder);
    snprintf(target, sizeof target, "%s/x.zarr", folder);
    assert_ok(stk_conversion_create(ctx, "digits:?size=8", target, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
    stk_conversion_destroy(&conversion);
    stk_context_destroy(&ctx);
    torture(target);
    test_folder_remove(folder);
}

static void test_npy_folder(void **state)
{
    static const char file[] = "\x93NUMPY\1\0\x3a\0"
                               "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\nab";
    char folder[256], spec[400], name[64];

    test_folder(folder);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "class-%d/%03d.npy", i % 70, i);
        test_write(folder, name, file, sizeof file - 1);
    }
    snprintf(spec, sizeof spec, "npy:%s", folder);
    torture(spec);
    torture(folder);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist),      cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_cifar10),    cmocka_unit_test(test_cifar_pickles),
        cmocka_unit_test(test_npy),        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_npy_folder), cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening datasets of files while the n-th allocation fails, for every n until all succeed. */
#include <zlib.h>

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
    test_folder_remove(folder);
}

static void write_gzip(const char *folder, const char *name, const void *data, size_t size)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)size), size);
    assert_int_equal(gzclose(f), Z_OK);
}

static void test_gzip(void **state)
{
    char folder[256], spec[400];

    test_folder(folder);
    write_gzip(folder, "train-images-idx3-ubyte.gz", images, sizeof images);
    write_gzip(folder, "train-labels-idx1-ubyte.gz", labels, sizeof labels);
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
    torture("cifar100:" TESTS_DIR "/golden/cifar/cifar-100-python?memory=true&labels=coarse");
}

static void test_npy(void **state)
{
    torture("npy:" TESTS_DIR "/golden/npy/little_float32.npy?labels=labels_int32_big.npy");
    torture("npy:" TESTS_DIR "/golden/npy/big_float32.npy?memory=true&labels=" TESTS_DIR
            "/golden/npy/labels_uint8.npy");
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
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist),   cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_cifar10), cmocka_unit_test(test_cifar_pickles),
        cmocka_unit_test(test_npy),     cmocka_unit_test(test_npy_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

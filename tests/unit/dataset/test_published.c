/* SPDX-License-Identifier: Apache-2.0 */
/* download=true of the kinds of datasets that are published. */
#include "dataset/dataset.h"

#include "downloads.h"

static void read_file(const char *path, unsigned char **data, size_t *size)
{
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    *data = malloc(1 << 20);
    assert_non_null(*data);
    *size = fread(*data, 1, 1 << 20, f);
    fclose(f);
}

/* CIFAR as it is published: downloaded, unpacked and read; then no place is asked. */
static void test_cifar(void **state)
{
    static const char *const names[] = {
        "data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
        "data_batch_5", "test_batch",   "batches.meta", NULL};
    static const char folder[] = "cifar-10-batches-py";
    stk_dataset *golden = NULL, *d = NULL;
    char sum[STK__MD5_TEXT], text[400];
    tar_bytes t = {NULL, 0};
    stk_error err;
    room r;

    room_open(&r);
    tar_head(&t, "cifar-10-batches-py/", '5', 0);
    for (size_t i = 0; names[i]; i++) {
        unsigned char *data;
        size_t size;
        snprintf(text, sizeof text, TESTS_DIR "/golden/cifar/%s/%s", folder, names[i]);
        read_file(text, &data, &size);
        snprintf(text, sizeof text, "%s/%s", folder, names[i]);
        tar_file(&t, text, data, size);
        free(data);
    }
    tar_end(&t);
    publish(&r, "cifar", &t, sum);
    const stk__published of = {.kind = "cifar10",
                               .folder = "",
                               .mirrors = {"mem://published/cifar"},
                               .files = {{"a.tar.gz", sum}},
                               .unpacked = folder,
                               .names = names};
    assert_ok(stk__published_get(r.ctx, &of, r.url, NULL, never_there, NULL, &err), &err);
    snprintf(text, sizeof text, "cifar10:%s?download=true&mirror=shaky://published", r.url);
    assert_ok(stk_dataset_open(r.ctx, text, &d, &err), &err);
    assert_ok(stk_dataset_open(r.ctx, "cifar10:" TESTS_DIR "/golden/cifar/cifar-10-batches-py",
                               &golden, &err),
              &err);
    assert_int_equal(d->fingerprint, golden->fingerprint);
    assert_int_equal(mirror.reads, 0);
    stk_dataset_close(&d);
    stk_dataset_close(&golden);
    /* Of one file that is missing it is not enough that the split has all of its own. */
    snprintf(text, sizeof text, "%s/%s/test_batch", r.url, folder);
    assert_int_equal(unlink(text), 0);
    snprintf(text, sizeof text, "cifar10:%s?download=true&mirror=mem://published/none", r.url);
    assert_fails(stk_dataset_open(r.ctx, text, &d, &err), STK_ENOENT, &err,
                 "cifar-10-python.tar.gz");
    room_close(&r);
}

/* Opening fails, and the message says one and the other. */
static void assert_refused(const room *r, const char *text, stk_status wanted, const char *one,
                           const char *other)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_fails(stk_dataset_open(r->ctx, text, &d, &err), wanted, &err, one);
    assert_non_null(strstr(err.text, other));
}

/* Each kind asks for its own files, holds them against what torchvision publishes, and leaves
 * nothing of others. */
static void test_kinds(void **state)
{
    static const struct {
        const char *spec, *folder, *name, *md5;
    } cases[] = {
        {"mnist", "MNIST/raw", "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"mnist", "MNIST/raw", "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
        {"mnist", "MNIST/raw", "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
        {"mnist", "MNIST/raw", "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"},
        {"fashion_mnist", "FashionMNIST/raw", "train-images-idx3-ubyte.gz",
         "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        {"fashion_mnist", "FashionMNIST/raw", "train-labels-idx1-ubyte.gz",
         "25c81989df183df01b3e8a0aad5dffbe"},
        {"fashion_mnist", "FashionMNIST/raw", "t10k-images-idx3-ubyte.gz",
         "bef4ecab320f06d8554ea6380940ec79"},
        {"fashion_mnist", "FashionMNIST/raw", "t10k-labels-idx1-ubyte.gz",
         "bb300cfdad3c16e7a12a480ee83cd310"},
        {"kmnist", "KMNIST/raw", "train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"},
        {"kmnist", "KMNIST/raw", "train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"},
        {"kmnist", "KMNIST/raw", "t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"},
        {"kmnist", "KMNIST/raw", "t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"},
        {"emnist", "EMNIST/raw", "gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"},
        {"cifar10", ".", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"},
        {"cifar100", ".", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"},
    };
    char text[400];
    room r;

    room_open(&r);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        put(&r, cases[i].name, "other", 5);
        snprintf(text, sizeof text, "%s:%s?download=true&mirror=mem://published", cases[i].spec,
                 r.url);
        assert_refused(&r, text, STK_ECHECKSUM, cases[i].md5, cases[i].name);
        snprintf(text, sizeof text, "%s/%s", r.url, cases[i].folder);
        assert_int_equal(access(text, F_OK), 0);
        snprintf(text, sizeof text, "%s/%s", cases[i].folder, cases[i].name);
        assert_false(exists(&r, text));
        snprintf(text, sizeof text, "%s:%s?mirror=mem://published", cases[i].spec, r.url);
        assert_refused(&r, text, STK_EINVAL, "add download=true", "");
        snprintf(text, sizeof text, "%s:mem://x?download=true", cases[i].spec);
        assert_refused(&r, text, STK_ENOTSUP, "no local folder", "");
        /* One that is there gives way to the next. */
        snprintf(text, sizeof text, "new/%s/%s", cases[i].folder, cases[i].name);
        test_write(r.folder, text, "x", 1);
    }
    snprintf(text, sizeof text, "mnist:%s?download=true&prefix=a-", r.url);
    assert_refused(&r, text, STK_EINVAL, "prefix=", "");
    room_close(&r);
}

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 8};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};

/* Files of both sets that are there, in whatever form and folder, are enough; those of another kind
 * are not MNIST's. */
static void test_mnist_there(void **state)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    static const char *const folders[] = {"", "raw/", "MNIST/raw/", "FashionMNIST/raw/"};
    stk_dataset *d = NULL;
    char text[400];
    stk_error err;
    room r;

    room_open(&r);
    for (size_t k = 0; k < STK_COUNT(folders); k++) {
        room_clear(&r);
        for (size_t i = 0; i < STK_COUNT(names); i++) {
            snprintf(text, sizeof text, "new/%s%s", folders[k], names[i]);
            test_write(r.folder, text, i % 2 ? labels : images,
                       i % 2 ? sizeof labels : sizeof images);
        }
        snprintf(text, sizeof text, "mnist:%s?download=true&mirror=mem://published/none", r.url);
        if (k < 3) {
            assert_ok(stk_dataset_open(r.ctx, text, &d, &err), &err);
            assert_int_equal(d->size, 2);
            stk_dataset_close(&d);
            snprintf(text, sizeof text, "%s/%st10k-labels-idx1-ubyte", r.url, folders[k]);
            assert_int_equal(unlink(text), 0);
            snprintf(text, sizeof text, "mnist:%s?download=true&mirror=mem://published/none",
                     r.url);
            assert_refused(&r, text, STK_ENOENT, "t10k-labels-idx1-ubyte.gz", "");
        } else {
            assert_refused(&r, text, STK_ENOENT, "train-images-idx3-ubyte.gz", "");
        }
    }
    room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_mnist_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and checksums are those of torchvision 0.29: torchvision/datasets/mnist.py, cifar.py.
 */
#include "dataset/published.h"

#include "dataset/download.h"

/* ---- What is published ------------------------------------------------------------------------
 */

const stk__published stk__published_mnist = {
    .kind = "mnist",
    .folder = "MNIST/raw",
    .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/"},
    .files = {{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
              {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
              {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
              {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"}}};
const stk__published stk__published_fashion_mnist = {
    .kind = "fashion_mnist",
    .folder = "FashionMNIST/raw",
    .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
    .files = {{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
              {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"},
              {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"},
              {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"}}};
const stk__published stk__published_kmnist = {
    .kind = "kmnist",
    .folder = "KMNIST/raw",
    .mirrors = {"http://codh.rois.ac.jp/kmnist/dataset/kmnist/"},
    .files = {{"train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"},
              {"train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"},
              {"t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"},
              {"t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"}}};
/* All sets in one archive, which is read as it is. */
const stk__published stk__published_emnist = {
    .kind = "emnist",
    .folder = "EMNIST/raw",
    .mirrors = {"https://biometrics.nist.gov/cs_links/EMNIST/"},
    .files = {{"gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"}}};

/* What is wanted of the archives that are published: the files of samples and of names. */
static const char *const cifar10_names[] = {
    "data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
    "data_batch_5", "test_batch",   "batches.meta", NULL};
static const char *const cifar100_names[] = {"train", "test", "meta", NULL};

const stk__published stk__published_cifar10 = {
    .kind = "cifar10",
    .folder = "",
    .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
    .files = {{"cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"}},
    .unpacked = "cifar-10-batches-py",
    .names = cifar10_names};
const stk__published stk__published_cifar100 = {
    .kind = "cifar100",
    .folder = "",
    .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
    .files = {{"cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"}},
    .unpacked = "cifar-100-python",
    .names = cifar100_names};

/* ---- Having it --------------------------------------------------------------------------------
 */

stk_status stk__published_check(const char *kind, bool download, const char *mirror,
                                const char *also, bool given, stk_error *err)
{
    if (!download && mirror && *mirror)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "%s: mirror= says where download=true takes the files from, and nothing "
                         "else; add download=true, or leave it out",
                         kind);
    if (download && given)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "%s: %s= is of other files than those that download=true fetches; leave "
                         "one of them out",
                         kind, also);
    return STK_OK;
}

/* A folder that is not there has none of them. */
static stk_status find_missing(stk_context *ctx, const stk__published *of, const char *url,
                               stk__published_there *there, const void *user,
                               bool missing[STK__PUBLISHED_FILES], stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    stk_error nowhere;

    stk_error_init(&nowhere);
    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, &nowhere);
    const bool empty = status == STK_ENOENT;
    if (status != STK_OK && !empty) {
        if (err)
            *err = nowhere;
        return status;
    }
    status = STK_OK;
    /* Of a file, whoever opens it says that it is no folder. */
    for (size_t i = 0; i < STK__PUBLISHED_FILES && of->files[i].name && !key[0]; i++) {
        bool found = false;
        if (!empty && status == STK_OK)
            status = there(user, store, i, &found, err);
        missing[i] = !found;
    }
    stk_store_close(&store);
    return status;
}

stk_status stk__published_get(stk_context *ctx, const stk__published *of, const char *url,
                              const char *mirror, stk__published_there *there, const void *user,
                              stk_error *err)
{
    stk__download d = {.context = ctx, .of = of, .mirror = mirror};
    bool missing[STK__PUBLISHED_FILES] = {false}, any = false;

    STK_TRY(find_missing(ctx, of, url, there, user, missing, err));
    for (size_t i = 0; i < STK__PUBLISHED_FILES; i++)
        any = any || missing[i];
    if (!any)
        return STK_OK;
    STK_TRY(stk__download_open(&d, url, err));
    stk_status status = STK_OK;
    for (size_t i = 0; i < STK__PUBLISHED_FILES && status == STK_OK; i++)
        if (missing[i])
            status = stk__download_fetch(&d, i, err);
    if (status == STK_OK && of->unpacked)
        status = stk__download_unpack(&d, err);
    stk__download_close(&d);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The files of CIFAR-10 and CIFAR-100 [https://www.cs.toronto.edu/~kriz/cifar.html]. */
#include "dataset/cifar_archive.h"

#include <stdio.h>

const stk__cifar_archive stk__cifar10 = {
    .ops = &stk__dataset_cifar10,
    .title = "CIFAR-10",
    .train = "data_batch_",
    .test = "test_batch",
    .train_files = 5,
    .lead = 1,
    .classes = {10},
    .labels = {"labels"},
    .names = {"label_names"},
    .forms =
        {{"cifar-10-binary.tar.gz", "cifar-10-batches-bin/", ".bin", false, {"batches.meta.txt"}},
         {"cifar-10-python.tar.gz", "cifar-10-batches-py/", "", true, {"batches.meta"}}},
    .published = &stk__published_cifar10};

const stk__cifar_archive stk__cifar100 = {
    .ops = &stk__dataset_cifar100,
    .title = "CIFAR-100",
    .train = "train",
    .test = "test",
    .train_files = 1,
    .lead = 2,
    .classes = {100, 20},
    .label = {1, 0},
    .labels = {"fine_labels", "coarse_labels"},
    .names = {"fine_label_names", "coarse_label_names"},
    .forms = {{"cifar-100-binary.tar.gz",
               "cifar-100-binary/",
               ".bin",
               false,
               {"fine_label_names.txt", "coarse_label_names.txt"}},
              {"cifar-100-python.tar.gz", "cifar-100-python/", "", true, {"meta", "meta"}}},
    .published = &stk__published_cifar100};

void stk__cifar_file(const stk__cifar_archive *a, const stk__cifar_form *form, const char *folder,
                     int32_t split, uint32_t file, char *key, size_t size)
{
    if (split == STK__CIFAR_TRAIN && a->train_files > 1)
        snprintf(key, size, "%s%s%u%s", folder, a->train, file + 1, form->end);
    else
        snprintf(key, size, "%s%s%s", folder, split == STK__CIFAR_TRAIN ? a->train : a->test,
                 form->end);
}

/* How surely a file holds samples. */
static int look_at(stk_store *store, const stk__cifar_form *form, const char *key)
{
    unsigned char begin[2] = "";
    stk__object object;
    bool found = false;

    stk_status status = stk__object_find(store, key, &object, &found, NULL);
    if (status == STK_OK && found && form->pickled)
        status = stk__object_read(store, &object, 0, sizeof begin, begin, NULL);
    if (status != STK_OK || !found)
        return stk__dataset_unsure(status);
    return !form->pickled || (begin[0] == 0x80 && begin[1] <= 3) ? 2 : 0;
}

/* How surely a folder of a store has a file of samples. Those of CIFAR-100 have names that any file
 * may have: the file of names has to be there, too. */
static int has_files(stk_store *store, const stk__cifar_archive *a, const stk__cifar_form *form,
                     const char *folder)
{
    stk__object object;
    bool found = false;
    char key[64];
    int sure = 0;

    snprintf(key, sizeof key, "%s%s", folder, form->meta[0]);
    if (a->train_files == 1) {
        const stk_status status = stk__object_find(store, key, &object, &found, NULL);
        if (status != STK_OK || !found)
            return stk__dataset_unsure(status);
    }
    for (int32_t split = STK__CIFAR_TRAIN; split <= STK__CIFAR_TEST && !sure; split++) {
        stk__cifar_file(a, form, folder, split, 0, key, sizeof key);
        sure = look_at(store, form, key);
    }
    return sure;
}

int stk__cifar_recognise(const stk__cifar_archive *a, stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    const stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    int sure = stk__dataset_unsure(status);
    for (size_t i = 0; i < STK_COUNT(a->forms) && store && !key[0] && !sure; i++) {
        sure = has_files(store, a, &a->forms[i], "");
        if (!sure)
            sure = has_files(store, a, &a->forms[i], a->forms[i].folder);
    }
    stk_store_close(&store);
    return sure;
}

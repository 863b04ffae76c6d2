/* kind of dataset -> the files that are published of it, in the user's folder */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_PUBLISHED_H
#define STK_SRC_DATASET_PUBLISHED_H

#include "store/store.h"

#define STK__PUBLISHED_FILES 4

/* What is published of one dataset. */
typedef struct stk__published {
    const char *kind;       /* of the dataset, for messages */
    const char *folder;     /* below the user's, where torchvision looks; "": that itself */
    const char *mirrors[2]; /* URLs of folders, in the order of trying; NULL: none */
    struct {
        const char *name, *md5;
    } files[STK__PUBLISHED_FILES];
    /* Where the one file is an archive (.tar.gz) whose files are read unpacked: the folder that it
     * unpacks to, also within itself, and what is wanted of it, ended by NULL. */
    const char *unpacked;
    const char *const *names;
} stk__published;

/* Of those like MNIST the files are images and labels of the first set, then of the second. */
extern const stk__published stk__published_mnist, stk__published_fashion_mnist,
    stk__published_kmnist, stk__published_emnist, stk__published_cifar10, stk__published_cifar100;

/* Refuse what the options say together; `also`: the name of one that has nothing to say to a
 * download, and `given` whether it is. STK_EINVAL. */
stk_status stk__published_check(const char *kind, bool download, const char *mirror,
                                const char *also, bool given, stk_error *err);

/* Whether a published file, or what it unpacks to, is in the user's folder, in whatever form. */
typedef stk_status stk__published_there(const void *user, stk_store *store, size_t file,
                                        bool *there, stk_error *err);

/*
 * Have what is published in the folder that `url` names: look for each file by `there`, and fetch
 * and unpack what is missing (download.h). `mirror` NULL or "": from where it is published. Where
 * nothing is missing no place is asked, and the folder may be of any store. Blocks, with progress.
 */
stk_status stk__published_get(stk_context *ctx, const stk__published *of, const char *url,
                              const char *mirror, stk__published_there *there, const void *user,
                              stk_error *err);

#endif

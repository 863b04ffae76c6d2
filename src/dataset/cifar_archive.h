/* The archives of CIFAR: their files, and whether they are there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_CIFAR_ARCHIVE_H
#define STK_SRC_DATASET_CIFAR_ARCHIVE_H

#include "dataset/object.h"
#include "dataset/published.h"

enum { STK__CIFAR_TRAIN, STK__CIFAR_TEST };

/* A way in which an archive is packed. */
typedef struct stk__cifar_form {
    const char *packed; /* the file that is downloaded */
    const char *folder; /* and what it unpacks to */
    const char *end;    /* of names of files of samples */
    bool pickled;
    const char *meta[2]; /* the file of the names of classes, for each kind of labels */
} stk__cifar_form;

typedef struct stk__cifar_archive {
    const stk_dataset_ops *ops;
    const char *title;
    const char *train, *test; /* names of files, the first with a number where there are more */
    uint32_t train_files;
    uint32_t lead; /* bytes of labels in front of a picture, in the binary version */
    uint32_t classes[2], label[2];    /* of each kind of labels; its place in the lead */
    const char *labels[2], *names[2]; /* keys of pickles */
    stk__cifar_form forms[2];
    const stk__published *published;
} stk__cifar_archive;

extern const stk__cifar_archive stk__cifar10, stk__cifar100;

/* The key of a file of samples of a split. */
void stk__cifar_file(const stk__cifar_archive *a, const stk__cifar_form *form, const char *folder,
                     int32_t split, uint32_t file, char *key, size_t size);
/* As recognise() does. Blocks. */
int stk__cifar_recognise(const stk__cifar_archive *archive, stk_context *ctx, const char *url);

#endif

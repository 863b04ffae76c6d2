/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the Python version of CIFAR [https://www.cs.toronto.edu/~kriz/cifar.html]: each is a
 * pickle of a dictionary, of Python 2 and protocol 2. A batch has "data", a NumPy array of bytes
 * [pictures, 3072] whose rows are the planes of a picture, and lists of labels; the file of names
 * has lists of them. Nothing of it is run: NumPy's names are known, any other is refused.
 */
#ifndef STK_SRC_DATASET_CIFAR_PICKLE_H
#define STK_SRC_DATASET_CIFAR_PICKLE_H

#include "dataset/object.h"

typedef struct stk__cifar_batch {
    uint64_t pixels; /* where in the file the rows begin */
    uint64_t count;
    uint8_t *labels; /* to be freed with stk__free() */
} stk__cifar_batch;

/* Find the rows of `row` bytes and the list `key` of labels below `classes`. Only what is beside
 * the rows is read. Blocks. On failure *out is empty. Errors: STK_EKIND naming what is not known;
 * STK_EFORMAT, STK_ELIMIT, STK_ENOMEM, and those of the store. */
stk_status stk__cifar_read_batch(stk_store *store, const stk__object *file, uint32_t row,
                                 const char *key, uint32_t classes, stk__cifar_batch *out,
                                 stk_error *err);

/* Copy the list `key` of `classes` names to `room` of `size` bytes. Blocks. Errors: as above. */
stk_status stk__cifar_read_names(stk_store *store, const stk__object *file, const char *key,
                                 uint32_t classes, char *room, size_t size, const char **names,
                                 stk_error *err);

#endif

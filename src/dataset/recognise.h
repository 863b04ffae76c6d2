/* a folder -> whether its files are such as a kind of dataset reads, by a look at a few of them */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_RECOGNISE_H
#define STK_SRC_DATASET_RECOGNISE_H

#include "dataset/dataset.h"

/* Whether a file of this name is one. */
typedef bool stk__is_file_of(const char *key, size_t length);

/* Folders of such files are surely what a kind is for: 2; those that lie in the folder itself may
 * lie next to anything: 1. 0 where there are none; STK_ENOMEM. */
int stk__folder_recognise(stk_store *store, stk__is_file_of *is_file);
/* The same of what lies at `url`, which is no file. */
int stk__url_recognise_folder(stk_context *ctx, const char *url, stk__is_file_of *is_file);

#endif

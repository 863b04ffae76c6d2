/* folders, lists and tables -> the pictures and labels of one dataset */
/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset `images:` itself: images.c gives its samples, images_open.c opens it. */
#ifndef STK_SRC_DATASET_IMAGES_DATASET_H
#define STK_SRC_DATASET_IMAGES_DATASET_H

#include "dataset/images.h"

typedef struct stk__images_options {
    uint32_t struct_size;
    const char *masks, *root, *index;
    double index_age;
    bool allow_empty;
    stk__images_labels_options table;
} stk__images_options;

typedef enum stk__images_form {
    STK__IMAGES_CLASSES,
    STK__IMAGES_FLAT,
    STK__IMAGES_LIST,
    STK__IMAGES_PAIRS,
    STK__IMAGES_TABLE
} stk__images_form;

typedef struct stk__images {
    stk_dataset base;
    stk_store *store, *mask_store;
    stk_field fields[2];
    stk__images_form form;
    stk__images_index_use index;
    stk__images_table files, masks;
    uint64_t first;  /* sample 0 in `files`: those before lie next to the class folders */
    uint32_t *picks; /* of a table: of each sample its number in `files`; NULL: all */
    uint64_t num_picks;
    uint32_t *folder_labels;   /* of class folders: one for each folder of `files` */
    stk__images_labels labels; /* of a list or a table */
    const char **class_names;
    uint32_t num_classes;
    uint32_t *mask_of;     /* of pairs: one for each sample */
    uint64_t unused_masks; /* without a picture */
} stk__images;

/* Find the pictures and labels of a spec, and set all of `d` but its head; *group: it is a group of
 * Zarr, and no tree of files. Blocks. */
stk_status stk__images_open(stk__images *d, const char *url, const stk__images_options *options,
                            bool *group, stk_error *err);
/* Such a group is packed pictures. Blocks. */
stk_status stk__images_open_packed(stk_context *ctx, const char *url,
                                   const stk__images_options *options, stk_dataset **out,
                                   stk_error *err);
stk_status stk__images_no_memory(stk_error *err, const char *url);

#endif

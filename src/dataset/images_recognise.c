/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a folder is one of pictures, by a look at a few of its files. */
#include "dataset/images.h"

#include <stdio.h>

#include "dataset/packed.h"

#define LOOKED_AT   4u  /* folders */
#define LOOKED_INTO 64u /* files of each */

typedef struct looking {
    uint32_t files, num_folders;
    bool pictures;
    char folders[LOOKED_AT][STK__IMAGES_MAX_NAME + 2];
} looking;

/* Ends when it has seen enough. */
static stk_status look(void *user, const char *key, const stk_object_info *info)
{
    looking *l = user;
    size_t length = strlen(key);
    const char *slash = strrchr(key, '/');

    if (info->is_folder) {
        if (key[0] != '.' && length < sizeof *l->folders && l->num_folders < LOOKED_AT)
            snprintf(l->folders[l->num_folders++], sizeof *l->folders, "%s", key);
        return STK_OK;
    }
    if ((slash ? slash[1] : key[0]) != '.')
        l->pictures |= stk__images_kind(key, length) >= STK__IMAGES_JPEG;
    return l->pictures || ++l->files == LOOKED_INTO ? STK_EOS : STK_OK;
}

/* Pictures in class folders are surely what this is for; others may lie next to anything. */
static int recognise_tree(stk_store *store)
{
    looking root = {0};

    stk_status status = stk_store_list(store, "", NULL, look, &root, NULL);
    if (status < 0)
        return stk__dataset_unsure(status);
    for (uint32_t i = 0; i < root.num_folders; i++) {
        looking inner = {0};
        status = stk_store_list(store, root.folders[i], NULL, look, &inner, NULL);
        if (status == STK_ENOMEM)
            return status;
        if (status >= 0 && inner.pictures)
            return 2;
    }
    return root.pictures;
}

int stk__images_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    bool group = false;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && !key[0])
        status = stk__packed_is_group(store, &group, NULL);
    int sure = stk__dataset_unsure(status);
    if (store && sure == 0 && !key[0] && !group)
        sure = recognise_tree(store);
    stk_store_close(&store);
    return group ? stk__packed_recognise(ctx, url) : sure;
}

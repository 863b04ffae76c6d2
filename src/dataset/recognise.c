/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a folder is one of files of a kind, by a look at a few of them. */
#include "dataset/recognise.h"

#include <stdio.h>

#define LOOKED_AT   4u   /* folders */
#define LOOKED_INTO 64u  /* files of each */
#define NAME_MOST   255u /* bytes of a name, NAME_MAX of Linux */

typedef struct looking {
    stk__is_file_of *is_file;
    uint32_t files, num_folders;
    bool found;
    char folders[LOOKED_AT][NAME_MOST + 2];
} looking;

/* Ends when it has seen enough. */
static stk_status look(void *user, const char *key, const stk_object_info *info)
{
    looking *l = user;
    const size_t length = strlen(key);
    const char *slash = strrchr(key, '/');

    if (info->is_folder) {
        if (key[0] != '.' && length < sizeof *l->folders && l->num_folders < LOOKED_AT)
            snprintf(l->folders[l->num_folders++], sizeof *l->folders, "%s", key);
        return STK_OK;
    }
    if ((slash ? slash[1] : key[0]) != '.')
        l->found |= l->is_file(key, length);
    return l->found || ++l->files == LOOKED_INTO ? STK_EOS : STK_OK;
}

int stk__folder_recognise(stk_store *store, stk__is_file_of *is_file)
{
    looking root = {.is_file = is_file};

    stk_status status = stk_store_list(store, "", NULL, look, &root, NULL);
    if (status < 0)
        return stk__dataset_unsure(status);
    for (uint32_t i = 0; i < root.num_folders; i++) {
        looking inner = {.is_file = is_file};
        status = stk_store_list(store, root.folders[i], NULL, look, &inner, NULL);
        if (status == STK_ENOMEM)
            return status;
        if (status >= 0 && inner.found)
            return 2;
    }
    return root.found;
}

int stk__url_recognise_folder(stk_context *ctx, const char *url, stk__is_file_of *is_file)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    const stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    int sure = stk__dataset_unsure(status);
    if (status == STK_OK && !key[0])
        sure = stk__folder_recognise(store, is_file);
    stk_store_close(&store);
    return sure;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The mask of each picture: the file of the same path, whatever its extension. */
#include "dataset/images.h"

#include <stdio.h>

static stk_status check_masks(const stk__images_finder *f, const char *masks_url, stk_error *err)
{
    uint32_t found[2] = {0};
    stk__images_path path;

    for (uint64_t i = 0; i < f->table->num_files; i++) {
        stk__images_path_of(f->table, i, &path);
        if (stk__images_find(f, &path, found) < 2)
            continue;
        char one[STK_MAX_OBJECT_KEY], two[STK_MAX_OBJECT_KEY];
        stk__images_key(f->table, found[0], one, sizeof one);
        stk__images_key(f->table, found[1], two, sizeof two);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, two, STK_NO_OFFSET,
                            "images: '%.150s' and '%.150s' in %.150s are masks of the same "
                            "picture; remove one of them",
                            one, two, masks_url);
    }
    return STK_OK;
}

static stk_status no_mask(const stk__images_table *pictures, uint64_t i, const char *masks_url,
                          stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk__images_path path;

    stk__images_key(pictures, i, key, sizeof key);
    stk__images_path_of(pictures, i, &path);
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "images: the picture '%.200s' has no mask: there is no '%.100s%s%.*s.png' "
                        "(or .jpg, .jpeg) in %.150s; add it or remove the picture",
                        key, path.folder, path.folder_length ? "/" : "",
                        (int)STK_MIN(path.stem_length, 100), path.name, masks_url);
}

stk_status stk__images_pair(const stk__images_table *pictures, const stk__images_table *masks,
                            const char *masks_url, uint32_t **out, uint64_t *unused, stk_error *err)
{
    stk_context *ctx = pictures->context;
    stk__images_finder finder = {.any_end = true};
    stk__images_path path;
    uint32_t found[2];

    *out = NULL;
    *unused = 0;
    uint32_t *of = stk__calloc(ctx, pictures->num_files, sizeof *of);
    unsigned char *used = stk__calloc(ctx, masks->num_files, 1);
    stk_status status = of && used ? stk__images_finder_make(&finder, masks) : STK_ENOMEM;
    if (status == STK_ENOMEM)
        stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                  "images: no memory to find the masks of %llu pictures",
                  (unsigned long long)pictures->num_files);
    if (status == STK_OK)
        status = check_masks(&finder, masks_url, err);
    for (uint64_t i = 0; i < pictures->num_files && status == STK_OK; i++) {
        stk__images_path_of(pictures, i, &path);
        if (!stk__images_find(&finder, &path, found)) {
            status = no_mask(pictures, i, masks_url, err);
            break;
        }
        of[i] = found[0];
        used[of[i]] = 1;
    }
    for (uint64_t i = 0; i < masks->num_files && status == STK_OK; i++)
        *unused += !used[i];
    stk__free(ctx, used);
    stk__images_finder_release(&finder);
    if (status == STK_OK)
        *out = of;
    else
        stk__free(ctx, of);
    return status;
}

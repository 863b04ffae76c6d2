/* SPDX-License-Identifier: Apache-2.0 */
/* The mask of each picture: the file of the same path, whatever its extension. */
#include "dataset/images.h"

#include <stdio.h>
#include <xxhash.h>

#define NONE UINT32_MAX

/* A path without its extension. */
typedef struct stem {
    const char *folder, *name;
    size_t folder_length, name_length;
} stem;

typedef struct stems {
    const stk__images_table *masks;
    uint32_t *slots; /* numbers of masks, or NONE */
    uint64_t num_slots;
} stems;

static stem stem_of(const stk__images_table *t, uint64_t i)
{
    const char *folder = t->text + t->folders[t->files[i].folder].path;
    const char *name = t->text + t->files[i].name;
    const char *dot = strrchr(name, '.');

    return (stem){folder, name, strlen(folder), dot ? (size_t)(dot - name) : strlen(name)};
}

static bool same(const stem *a, const stem *b)
{
    return a->folder_length == b->folder_length && a->name_length == b->name_length &&
           memcmp(a->name, b->name, a->name_length) == 0 &&
           memcmp(a->folder, b->folder, a->folder_length) == 0;
}

/* The slot of the mask of this path, or the empty one where it would be. */
static uint64_t find(const stems *s, const stem *path)
{
    uint64_t hash = XXH3_64bits(path->folder, path->folder_length);
    uint64_t at = XXH3_64bits_withSeed(path->name, path->name_length, hash) % s->num_slots;

    for (; s->slots[at] != NONE; at = at + 1 == s->num_slots ? 0 : at + 1) {
        stem other = stem_of(s->masks, s->slots[at]);
        if (same(path, &other))
            break;
    }
    return at;
}

static stk_status fill(stems *s, const char *masks_url, stk_error *err)
{
    memset(s->slots, 0xff, s->num_slots * sizeof *s->slots);
    for (uint64_t i = 0; i < s->masks->num_files; i++) {
        stem path = stem_of(s->masks, i);
        uint64_t at = find(s, &path);
        if (s->slots[at] != NONE) {
            char one[STK_MAX_OBJECT_KEY], two[STK_MAX_OBJECT_KEY];
            stk__images_key(s->masks, s->slots[at], one, sizeof one);
            stk__images_key(s->masks, i, two, sizeof two);
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, two, STK_NO_OFFSET,
                                "images: '%.150s' and '%.150s' in %.150s are masks of the same "
                                "picture; remove one of them",
                                one, two, masks_url);
        }
        s->slots[at] = (uint32_t)i;
    }
    return STK_OK;
}

static stk_status no_mask(const stk__images_table *pictures, uint64_t i, const char *masks_url,
                          stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    stk__images_key(pictures, i, key, sizeof key);
    stem path = stem_of(pictures, i);
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "images: the picture '%.200s' has no mask: there is no '%.100s%s%.*s.png' "
                        "(or .jpg, .jpeg) in %.150s; add it or remove the picture",
                        key, path.folder, path.folder_length ? "/" : "",
                        (int)STK_MIN(path.name_length, 100), path.name, masks_url);
}

stk_status stk__images_pair(const stk__images_table *pictures, const stk__images_table *masks,
                            const char *masks_url, uint32_t **out, uint64_t *unused, stk_error *err)
{
    stk_context *ctx = pictures->context;
    stems s = {.masks = masks, .num_slots = 2 * masks->num_files + 1};

    *out = NULL;
    *unused = 0;
    s.slots = stk__calloc(ctx, s.num_slots, sizeof *s.slots);
    uint32_t *of = stk__calloc(ctx, pictures->num_files, sizeof *of);
    unsigned char *used = stk__calloc(ctx, masks->num_files, 1);
    stk_status status = STK_OK;
    if (!s.slots || !of || !used)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                           "images: no memory to find the masks of %llu pictures",
                           (unsigned long long)pictures->num_files);
    if (status == STK_OK)
        status = fill(&s, masks_url, err);
    for (uint64_t i = 0; i < pictures->num_files && status == STK_OK; i++) {
        stem path = stem_of(pictures, i);
        of[i] = s.slots[find(&s, &path)];
        if (of[i] == NONE)
            status = no_mask(pictures, i, masks_url, err);
        else
            used[of[i]] = 1;
    }
    for (uint64_t i = 0; i < masks->num_files && status == STK_OK; i++)
        *unused += !used[i];
    stk__free(ctx, used);
    stk__free(ctx, s.slots);
    if (status == STK_OK)
        *out = of;
    else
        stk__free(ctx, of);
    return status;
}

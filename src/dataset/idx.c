/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/idx.h"

#include "codec/codec.h"

#define SIDE_MAX 4096u /* rows and columns of an image */
#define HEAD_MAX 16u

/* Check the header at `head` and find what the file must hold; `size` becomes header and values. */
static stk_status check_head(stk__idx *file, const unsigned char *head, uint32_t magic,
                             uint64_t *size, stk_error *err)
{
    const char *key = file->object.key;
    uint32_t found = (uint32_t)stk__big_endian(head, 4);

    if (found != magic)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s begins with 0x%08x and not with 0x%08x: it is no IDX file of %s; "
                            "copy or download it again",
                            key, found, magic, magic == STK__IDX_IMAGES ? "images" : "labels");
    *size = 1;
    for (uint32_t i = 0; i < stk__idx_rank(magic); i++) {
        uint32_t dim = file->dims[i] = (uint32_t)stk__big_endian(head + 4 + 4 * i, 4);
        if (dim == 0 || (i > 0 && dim > SIDE_MAX))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4 + 4 * i,
                                "%s says that it has %u %s; %u at least and %u at most are "
                                "possible; copy or download it again",
                                key, dim,
                                i == 0   ? "samples"
                                : i == 1 ? "rows"
                                         : "columns",
                                1, i == 0 ? UINT32_MAX : SIDE_MAX);
        if (!stk__mul_size(*size, dim, size))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4 + 4 * i,
                                "the dimensions of %s are too big", key);
    }
    file->first = 4 + 4 * stk__idx_rank(magic);
    if (!stk__add_size(*size, file->first, size))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4,
                            "the dimensions of %s are too big", key);
    return STK_OK;
}

/* `has` bytes are there, where the header at their start asks for `wants`. */
static stk_status wrong_size(const stk__idx *file, uint64_t has, uint64_t wants, bool more,
                             stk_error *err)
{
    const char *key = file->object.key;

    if (has < wants)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, has,
                            "%s ends after %llu bytes where %llu belong; copy or download it "
                            "again",
                            key, (unsigned long long)has, (unsigned long long)wants);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, wants,
                        "%s has %s%llu bytes where its dimensions ask for %llu; copy or download "
                        "it again",
                        key, more ? "more than " : "", (unsigned long long)has,
                        (unsigned long long)wants);
}

static stk_status open_plain(stk_store *store, stk__idx *file, uint32_t magic, bool load,
                             stk_error *err)
{
    unsigned char head[HEAD_MAX];
    uint64_t length = 4 + 4 * stk__idx_rank(magic);
    uint64_t wants = 0;

    if (file->object.size < length)
        return wrong_size(file, file->object.size, length, false, err);
    STK_TRY(stk__object_read(store, &file->object, 0, length, head, err));
    STK_TRY(check_head(file, head, magic, &wants, err));
    if (file->object.size != wants)
        return wrong_size(file, file->object.size, wants, false, err);
    if (load)
        return stk__object_load(store, &file->object, err);
    return stk__object_map(store, &file->object, err);
}

/* Inflate the whole of `packed` into memory of `file`, whose header says how much that must be. */
static stk_status inflate_idx(stk_context *ctx, const stk__object *packed, stk__idx *file,
                              uint32_t magic, stk_error *err)
{
    unsigned char head[HEAD_MAX];
    uint64_t length = 4 + 4 * stk__idx_rank(magic);
    uint64_t left = stk__memory_left(ctx);
    uint64_t got = 0, wants = 0, bound = 0;
    stk__gzip *gzip = NULL;
    unsigned char *data = NULL;

    stk_status status =
        stk__gzip_create(ctx, packed->data, packed->size, UINT64_MAX, packed->key, &gzip, err);
    if (status == STK_OK)
        status = stk__gzip_read(gzip, head, length, &got, err);
    if (status == STK_OK && got < length)
        status = wrong_size(file, got, length, false, err);
    if (status == STK_OK)
        status = check_head(file, head, magic, &wants, err);
    if (status != STK_OK)
        goto out;
    /* Before any memory is taken: more than deflate can give is a lie of the header. */
    if (stk__mul_size(packed->size, STK_DEFLATE_RATIO, &bound) && wants > bound) {
        status =
            stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, packed->key, 4,
                         "the dimensions of %s ask for %llu bytes, which its %llu cannot "
                         "hold; copy or download it again",
                         packed->key, (unsigned long long)wants, (unsigned long long)packed->size);
        goto out;
    }
    if (wants > left) {
        status = stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, packed->key, STK_NO_OFFSET,
                              "%s inflates to %llu bytes and %llu of memory_limit are left; "
                              "unpack it with gunzip, then it is read piece by piece",
                              packed->key, (unsigned long long)wants, (unsigned long long)left);
        goto out;
    }
    data = stk__alloc_buffer(ctx, wants);
    if (!data) {
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, packed->key, STK_NO_OFFSET,
                              "no memory for the %llu bytes that %s inflates to",
                              (unsigned long long)wants, packed->key);
        goto out;
    }
    if (!stk__gzip_whole(packed->data, packed->size, data, wants)) {
        memcpy(data, head, length);
        status = stk__gzip_read(gzip, data + length, wants - length, &got, err);
        if (status == STK_OK && got < wants - length)
            status = wrong_size(file, got + length, wants, false, err);
        if (status == STK_OK)
            status = stk__gzip_read(gzip, head, 1, &got, err);
        if (status == STK_OK && got)
            status = wrong_size(file, wants, wants, true, err);
    }
    if (status == STK_OK) {
        file->object.data = file->object.owned = data;
        file->object.size = wants;
        data = NULL;
    }
out:
    stk__free(ctx, data);
    stk__gzip_destroy(&gzip);
    return status;
}

static bool is_gzip(const char *key)
{
    size_t length = strlen(key);
    return length > 3 && !strcmp(key + length - 3, ".gz");
}

stk_status stk__idx_open(stk_store *store, stk__idx *file, uint32_t magic, bool load,
                         stk_error *err)
{
    if (!is_gzip(file->object.key))
        return open_plain(store, file, magic, load, err);
    stk__object packed = file->object;
    stk_status status = stk__object_load(store, &packed, err);
    if (status == STK_OK)
        status = inflate_idx(store->context, &packed, file, magic, err);
    stk__object_release(store->context, &packed);
    return status;
}

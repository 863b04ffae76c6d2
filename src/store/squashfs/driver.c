/* SPDX-License-Identifier: Apache-2.0 */
/* squashfs:URL!/: the files of an image, as the store of containers has them. */
#include "store/squashfs/squashfs.h"

static stk_status add(void *user, const stk__squashfs_entry *entry, stk_error *err)
{
    const stk__container_entry made = {.length = entry->size,
                                       .payload = entry->inode,
                                       .mtime_ns = entry->mtime_ns,
                                       .is = entry->kind == STK__SQUASHFS_FILE ? STK__CONTAINED_FILE
                                             : entry->kind == STK__SQUASHFS_FOLDER
                                                 ? STK__CONTAINED_FOLDER
                                                 : STK__CONTAINED_OTHER};

    return stk__container_add(user, entry->path, strlen(entry->path), &made, err);
}

static stk_status open_tables(stk__container *c, void **tables, stk_error *err)
{
    stk__squashfs *image = NULL;

    const stk_status status =
        stk__squashfs_open(c->store, c->key, c->size, &c->held, add, c, &image, err);
    *tables = image;
    return status;
}

static void close_tables(stk__container *c, void *tables)
{
    stk__squashfs *image = tables;

    stk__squashfs_close(&image);
}

static stk_status find_extent(const stk__container *c, const void *tables, uint64_t payload,
                              uint64_t size, uint64_t offset, stk__container_run *out)
{
    stk__squashfs_find_run(tables, payload, offset, out);
    return STK_OK;
}

static stk_status decode(const stk__container *c, const void *tables, stk__codec_state *state,
                         const stk__container_run *e, const void *stored, void *out,
                         const char **reason)
{
    return stk__squashfs_decode(tables, state, e, stored, out, reason);
}

static stk_status recognise(stk_store *store, const char *key, uint64_t size, bool *is)
{
    uint8_t magic[4];
    bool got = false;

    *is = false;
    if (size < STK__SQUASHFS_SUPER)
        return STK_OK;
    STK_TRY(stk__container_peek(store, key, 0, sizeof magic, magic, &got));
    *is = got && stk__little_endian(magic, sizeof magic) == STK__SQUASHFS_MAGIC;
    return STK_OK;
}

const stk__container_format stk__squashfs_format = {.name = "squashfs",
                                                    .word = "SquashFS image",
                                                    .open = open_tables,
                                                    .close = close_tables,
                                                    .extent = find_extent,
                                                    .decode = decode,
                                                    .recognise = recognise};

static const stk_option_table squashfs_options =
    STK__CONTAINER_OPTIONS("squashfs", "The store of the files in a SquashFS image.");

static stk_status squashfs_open(stk_context *ctx, const char *url, const void *options,
                                stk_store **out, stk_error *err)
{
    return stk__container_open(&stk__squashfs_format, &stk__store_squashfs, ctx, url, options, out,
                               err);
}

const stk_store_ops stk__store_squashfs = {STK__CONTAINER_OPS, .name = "squashfs",
                                           .doc =
                                               "the files in a SquashFS image: squashfs:URL!/PATH",
                                           .options = &squashfs_options, .open = squashfs_open};

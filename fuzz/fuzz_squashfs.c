/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of SquashFS: superblock, inodes, directories, fragments, and where files lie; and as
 * stores, whose files are read as a whole, in part and without waiting, with room for a few blocks.
 * Input: an image. What must hold whatever the bytes: a failure has a text, every extent lies in
 * the image, what comes is the same each way, and nothing is left behind.
 */
#include "fuzz_contained.h"

#include "store/squashfs/squashfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_FILES 64u
#define MOST_RUNS  64u
#define MOST_BYTES (UINT64_C(1) << 20)

typedef struct files {
    struct {
        uint64_t inode, size;
    } list[MOST_FILES];
    size_t count;
} files;

static stk_status note(void *user, const stk__squashfs_entry *entry, stk_error *err)
{
    files *f = user;

    FUZZ_CHECK(entry->path[0] && entry->path[0] != '/' &&
               strlen(entry->path) < STK_MAX_OBJECT_KEY - 1);
    if (entry->kind == STK__SQUASHFS_FILE && f->count < MOST_FILES) {
        f->list[f->count].inode = entry->inode;
        f->list[f->count++].size = entry->size;
    }
    return STK_OK;
}

static void read_file(const stk__squashfs *image, stk__codec_state *state, const uint8_t *data,
                      size_t size, uint64_t inode, uint64_t length)
{
    stk__container_run e;
    const char *reason = NULL;

    for (uint64_t at = 0, n = 0; at < length && n < MOST_RUNS; at += e.length, n++) {
        stk__squashfs_find_run(image, inode, at, &e);
        FUZZ_CHECK(e.length > 0 && e.length <= length - at && e.skip + e.length <= e.decoded);
        FUZZ_CHECK(e.stored <= size && e.at <= size - e.stored);
        if (!e.stored || e.raw) {
            FUZZ_CHECK(!e.raw || e.decoded == e.stored);
            continue;
        }
        FUZZ_CHECK(e.decoded <= MOST_BYTES);
        uint8_t *out = malloc(e.decoded);
        if (stk__squashfs_decode(image, state, &e, data + e.at, out, &reason) == STK_OK)
            (void)fuzz_sum(out, e.decoded);
        else
            FUZZ_CHECK(reason && reason[0]);
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__squashfs *image = NULL;
    stk__codec_state *state = NULL;
    files found = {0};
    stk_error err;

    fuzz_room room = fuzz_open("mem://f");
    fuzz_put(room.store, "x.sqfs", data, size);
    fuzz_container(room.ctx, "squashfs:mem://f/x.sqfs!/?unpacked_cache=2MiB");
    /* The tables stay for who opens the image next. */
    fuzz_ready(&room);
    stk_error_init(&err);
    const stk_status status =
        stk__squashfs_open(room.store, "x.sqfs", size, &(uint64_t){0}, note, &found, &image, &err);
    if (status != STK_OK)
        FUZZ_CHECK(err.status == status && err.text[0] && status != STK_EINTERNAL && !image);
    if (image && stk__codec_state_create(room.ctx, &state, &err) == STK_OK)
        for (size_t i = 0; i < found.count; i++)
            read_file(image, state, data, size, found.list[i].inode, found.list[i].size);
    stk__codec_state_destroy(&state);
    stk__squashfs_close(&image);
    fuzz_close(&room);
    return 0;
}

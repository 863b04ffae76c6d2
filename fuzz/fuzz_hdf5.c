/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file -> all that is in it: nodes, attributes, and the values of its first arrays; and rows of
 * it, as samples. Input: the bytes of an HDF5 file. Checksums of metadata are made right first, as
 * whoever writes a file can.
 */
#include "fuzz_deliver.h"

#include "array/hdf5/hdf5.h"

#define MOST_ARRAYS 24u
#define MOST_VALUES (UINT64_C(1) << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_sum(uint8_t *data, size_t at, size_t length)
{
    const uint32_t sum = stk__hdf5_checksum(data + at, length);

    memcpy(data + at + length, &sum, sizeof sum);
}

/* Of the structures whose length is known without following anything: superblock, headers. */
static void mend(uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 12 < size; i++) {
        if (memcmp(data + i, "\x89HDF", 4) == 0 && data[i + 8] >= 2 && i + 48 <= size) {
            put_sum(data, i, 44);
        } else if (memcmp(data + i, "OHDR", 4) == 0) {
            const uint8_t flags = data[i + 5];
            const size_t prefix = 6u + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
            const unsigned width = 1u << (flags & 3);
            if (i + prefix + width > size)
                continue;
            const uint64_t bytes = stk__little_endian(data + i + prefix, width);
            if (bytes <= size && i + prefix + width + bytes + 4 <= size)
                put_sum(data, i, prefix + width + bytes);
        } else if (memcmp(data + i, "FAHD", 4) == 0 && i + 28 <= size) {
            put_sum(data, i, 24);
        } else if (memcmp(data + i, "EAHD", 4) == 0 && i + 72 <= size) {
            put_sum(data, i, 68);
        } else if (memcmp(data + i, "BTHD", 4) == 0 && i + 38 <= size) {
            put_sum(data, i, 34);
        } else if (memcmp(data + i, "FRHP", 4) == 0 && i + 146 <= size) {
            put_sum(data, i, 142);
        }
    }
}

static void read_array(stk_group *g, const char *path)
{
    stk_array *a = NULL;

    if (stk_group_array(g, path, NULL, &a, NULL) != STK_OK)
        return;
    const stk_array_info *info = stk_array_get_info(a);
    FUZZ_CHECK(info->attributes && info->num_objects == 1);
    if (info->bytes <= MOST_VALUES) {
        void *values = malloc(info->bytes + 1);
        FUZZ_CHECK(values != NULL);
        if (stk_array_read(a, NULL, values, info->bytes, NULL, -1, NULL) == STK_OK)
            fuzz_sum(values, info->bytes);
        free(values);
    }
    stk_array_close(&a);
}

static void read_file(const fuzz_room *room)
{
    const stk_node *node;
    stk_group *g = NULL;
    uint32_t arrays = 0;

    if (stk_group_open(room->ctx, "mem://hdf5/a.h5", &g, NULL) != STK_OK)
        return;
    for (size_t i = 0; (node = stk_group_node(g, i)) && arrays < MOST_ARRAYS; i++) {
        if (!node->is_array)
            continue;
        read_array(g, node->path);
        arrays++;
    }
    stk_group_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://hdf5");
    uint8_t *mended = malloc(size + 1);

    FUZZ_CHECK(mended != NULL);
    memcpy(mended, data, size);
    mend(mended, size);
    fuzz_put(room.store, "a.h5", mended, size);
    free(mended);
    fuzz_ready(&room);
    read_file(&room);
    fuzz_try(room.ctx, "hdf5:mem://hdf5/a.h5");
    fuzz_try(room.ctx, "mem://hdf5/a.h5");
    fuzz_close(&room);
    return 0;
}

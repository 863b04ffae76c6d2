/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npz files of `npz:`. Input: a byte of bits (1: the fields a and b are asked for, 2: the members
 * are deflated, 4: the input is the archive itself), then an archive; or two bytes of length, a
 * member, and another one, of which an archive is made. A batch is taken.
 */
#include "fuzz_deliver.h"

#include <zlib.h>

#define ROOM 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct archive {
    uint8_t bytes[3 * ROOM], directory[256];
    size_t length, directory_length;
    unsigned count;
} archive;

static void number(uint8_t *at, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static size_t pack(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
    z_stream z = {0};

    FUZZ_CHECK(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_in = (uint8_t *)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    FUZZ_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void add(archive *a, const char *name, const uint8_t *data, size_t size, bool deflates)
{
    static uint8_t packed[ROOM + 1024];
    uint8_t local[30] = "PK\3\4", entry[46] = "PK\1\2";
    const size_t stored = deflates ? pack(data, size, packed, sizeof packed) : size;

    number(local + 8, deflates ? 8 : 0, 2);
    number(local + 14, crc32(0, data, (unsigned)size), 4);
    number(local + 18, stored, 4);
    number(local + 22, size, 4);
    number(local + 26, strlen(name), 2);
    memcpy(entry + 10, local + 8, 20);
    number(entry + 42, a->length, 4);
    memcpy(a->bytes + a->length, local, sizeof local);
    memcpy(a->bytes + a->length + sizeof local, name, strlen(name));
    a->length += sizeof local + strlen(name);
    memcpy(a->bytes + a->length, deflates ? packed : data, stored);
    a->length += stored;
    memcpy(a->directory + a->directory_length, entry, sizeof entry);
    memcpy(a->directory + a->directory_length + sizeof entry, name, strlen(name));
    a->directory_length += sizeof entry + strlen(name);
    a->count++;
}

static void finish(archive *a)
{
    uint8_t end[22] = "PK\5\6";

    number(end + 8, a->count, 2);
    number(end + 10, a->count, 2);
    number(end + 12, a->directory_length, 4);
    number(end + 16, a->length, 4);
    memcpy(a->bytes + a->length, a->directory, a->directory_length);
    a->length += a->directory_length;
    memcpy(a->bytes + a->length, end, sizeof end);
    a->length += sizeof end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static archive a;
    size_t length = 0;

    if (size < 1 || size > ROOM)
        return 0;
    const int bits = *data++;
    size--;
    fuzz_room room = fuzz_open("mem://npz");
    if (bits & 4) {
        fuzz_put(room.store, "a.npz", data, size);
    } else {
        const uint8_t *first = fuzz_take(&data, &size, &length);
        a.length = a.directory_length = a.count = 0;
        add(&a, "a.npy", first, length, bits & 2);
        add(&a, "b.npy", data, size, bits & 2);
        finish(&a);
        fuzz_put(room.store, "a.npz", a.bytes, a.length);
    }
    fuzz_try(room.ctx, bits & 1 ? "npz:mem://npz/a.npz?fields=a,b" : "npz:mem://npz/a.npz");
    /* Its directory stays in the context, for who opens it next. */
    stk_store_close(&room.store);
    stk_context_destroy(&room.ctx);
    return 0;
}

/* Archives of tar in memory, made block by block, also such that no program writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_TARS_H
#define STK_TESTS_TARS_H

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support/support.h"

typedef struct tar_bytes {
    unsigned char *data;
    size_t size;
} tar_bytes;

static inline unsigned char *tar_room(tar_bytes *t, size_t size)
{
    t->data = realloc(t->data, t->size + size + 1);
    assert_non_null(t->data);
    memset(t->data + t->size, 0, size);
    t->size += size;
    return t->data + t->size - size;
}

/* Write the sum of a header again after a change. */
static inline void tar_sum(unsigned char *head)
{
    unsigned sum = 0;

    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum);
}

/* A header as `tar` writes it by default, of a type; the place of it in the archive. */
static inline size_t tar_head(tar_bytes *t, const char *name, char type, uint64_t size)
{
    const size_t at = t->size;
    unsigned char *head = tar_room(t, 512);

    memcpy(head, name, strnlen(name, 100));
    memcpy(head + 100, "0000644", 8);
    memcpy(head + 108, "0002156", 8);
    memcpy(head + 116, "0001103", 8);
    snprintf((char *)head + 124, 12, "%011llo", (unsigned long long)size & 077777777777);
    memcpy(head + 136, "11162700737", 12);
    head[156] = (unsigned char)type;
    memcpy(head + 257, "ustar  ", 8);
    tar_sum(head);
    return at;
}

static inline void tar_file(tar_bytes *t, const char *name, const void *data, size_t size)
{
    tar_head(t, name, '0', size);
    if (size)
        memcpy(tar_room(t, (size + 511) / 512 * 512), data, size);
}

static inline void tar_end(tar_bytes *t)
{
    tar_room(t, 1024);
}

/* The same packed by gzip, for the caller to free; the archive is freed. */
static inline tar_bytes tar_gzip(tar_bytes *t)
{
    tar_bytes out = {NULL, 0};
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    tar_room(&out, deflateBound(&z, t->size) + 64);
    z.next_in = t->data;
    z.avail_in = (unsigned)t->size;
    z.next_out = out.data;
    z.avail_out = (unsigned)out.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.size = z.total_out;
    deflateEnd(&z);
    free(t->data);
    *t = (tar_bytes){NULL, 0};
    return out;
}

#endif

/* Messages of Protocol Buffers, tf.train.Example and TFRecord shards in memory, made byte by byte,
 * also such that no program writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_EXAMPLES_H
#define STK_TESTS_EXAMPLES_H

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

typedef struct proto_bytes {
    uint8_t *data;
    size_t size;
} proto_bytes;

static inline void put_bytes(proto_bytes *to, const void *data, size_t size)
{
    to->data = realloc(to->data, to->size + size + 1);
    assert_non_null(to->data);
    if (size)
        memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline void free_bytes(proto_bytes *of)
{
    free(of->data);
    *of = (proto_bytes){NULL, 0};
}

static inline void put_varint(proto_bytes *to, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_bytes(to, &(uint8_t){(uint8_t)(value | 128)}, 1);
    put_bytes(to, &(uint8_t){(uint8_t)value}, 1);
}

static inline void put_key(proto_bytes *to, unsigned number, unsigned wire)
{
    put_varint(to, (uint64_t)number << 3 | wire);
}

/* A message, text or bytes within another message; what is put in is freed. */
static inline void put_message(proto_bytes *to, unsigned number, proto_bytes *data)
{
    put_key(to, number, 2);
    put_varint(to, data->size);
    put_bytes(to, data->data, data->size);
    free_bytes(data);
}

static inline void put_text(proto_bytes *to, unsigned number, const void *text, size_t size)
{
    put_key(to, number, 2);
    put_varint(to, size);
    put_bytes(to, text, size);
}

/* Features as Features has them: entries of a map. `value` is a Feature, which is freed. */
static inline void put_entry(proto_bytes *to, const char *name, proto_bytes *value)
{
    proto_bytes entry = {NULL, 0};

    put_text(&entry, 1, name, strlen(name));
    put_message(&entry, 2, value);
    put_message(to, 1, &entry);
}

/* Lists of a Feature: packed, or a key in front of each value. */
static inline void put_floats(proto_bytes *to, const float *values, size_t n, bool packed)
{
    proto_bytes list = {NULL, 0};

    if (packed)
        put_text(&list, 1, values, n * sizeof *values);
    for (size_t i = 0; i < n && !packed; i++) {
        put_key(&list, 1, 5);
        put_bytes(&list, &values[i], sizeof *values);
    }
    put_message(to, 2, &list);
}

static inline void put_integers(proto_bytes *to, const int64_t *values, size_t n, bool packed)
{
    proto_bytes list = {NULL, 0}, all = {NULL, 0};

    for (size_t i = 0; i < n; i++) {
        if (!packed)
            put_key(&list, 1, 0);
        put_varint(packed ? &all : &list, (uint64_t)values[i]);
    }
    if (packed)
        put_message(&list, 1, &all);
    put_message(to, 3, &list);
}

static inline void put_value(proto_bytes *to, const void *value, size_t size)
{
    proto_bytes list = {NULL, 0};

    put_text(&list, 1, value, size);
    put_message(to, 1, &list);
}

/* ---- Shards: the CRC bit by bit [RFC 3720, appendix B.4] ------------------------------------- */

static inline uint32_t test_masked(const void *data, size_t size)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < size; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* A head that says so many bytes, with the right checksum. */
static inline void put_head(proto_bytes *to, uint64_t length)
{
    const uint32_t crc = test_masked(&length, sizeof length);

    put_bytes(to, &length, sizeof length);
    put_bytes(to, &crc, sizeof crc);
}

/* A record; what is put in is freed. */
static inline void put_record(proto_bytes *to, proto_bytes *data)
{
    const uint32_t crc = test_masked(data->data, data->size);

    put_head(to, data->size);
    put_bytes(to, data->data, data->size);
    put_bytes(to, &crc, sizeof crc);
    free_bytes(data);
}

#endif

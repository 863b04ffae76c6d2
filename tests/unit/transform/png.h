/* PNG files of given pixels. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRANSFORM_PNG_H
#define STK_TESTS_UNIT_TRANSFORM_PNG_H

#include <zlib.h>

#include "scene.h"

static inline void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static inline void put_chunk(picture *p, const char *type, const void *data, uint32_t length)
{
    unsigned char *at = p->file + p->size;

    put_u32(at, length);
    memcpy(at + 4, type, 4);
    if (length)
        memcpy(at + 8, data, length);
    put_u32(at + 8 + length, (uint32_t)crc32(0, at + 4, length + 4));
    p->size += length + 12;
}

/* A PNG of pixels of 8 bits [W3C PNG, 5.2, 9]: `colour` is 0 grey, 2 RGB, 3 palette. */
static inline picture make_png(uint32_t width, uint32_t height, int colour,
                               const unsigned char *pixels)
{
    const uint32_t row = width * (colour == 2 ? 3 : 1), bytes = (row + 1) * height;
    unsigned char head[13] = {0}, palette[3 * 256], *rows = calloc(1, bytes);
    uLongf length = compressBound(bytes);
    unsigned char *packed = malloc(length);
    picture p = {.mask = colour != 2, .file = calloc(1, length + 2048)};

    assert_non_null(rows);
    assert_non_null(packed);
    assert_non_null(p.file);
    snprintf(p.name, sizeof p.name, "a PNG of colour type %d", colour);
    for (uint32_t y = 0; y < height; y++)
        memcpy(rows + y * (row + 1) + 1, pixels + y * row, row);
    assert_int_equal(compress2(packed, &length, rows, bytes, 1), Z_OK);
    memcpy(p.file, "\x89PNG\r\n\x1a\n", 8);
    p.size = 8;
    put_u32(head, width);
    put_u32(head + 4, height);
    head[8] = 8;
    head[9] = (unsigned char)colour;
    put_chunk(&p, "IHDR", head, sizeof head);
    for (size_t i = 0; i < sizeof palette; i++)
        palette[i] = (unsigned char)(i * 37 + 11);
    if (colour == 3)
        put_chunk(&p, "PLTE", palette, sizeof palette);
    put_chunk(&p, "IDAT", packed, (uint32_t)length);
    put_chunk(&p, "IEND", NULL, 0);
    free(packed);
    free(rows);
    return p;
}

#endif

/* JPEG -> other JPEG: segments are dropped, doubled, swapped, changed */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte that is changed breaks the codes, and what reads the markers of a file sees one order of
 * them. Here a file is a row of segments: a marker, its length and, behind a scan header, the codes
 * up to the next marker. They are dropped, repeated, swapped and grown, with lengths that stay
 * right; a value of one is changed; or libFuzzer changes the bytes of one.
 */
#ifndef STK_FUZZ_JPEG_MUTATOR_H
#define STK_FUZZ_JPEG_MUTATOR_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_JPEG_SEGMENTS 256

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

typedef struct fuzz_jpeg_segment {
    size_t at, size; /* marker, length, data, codes */
    size_t head;     /* without the codes */
} fuzz_jpeg_segment;

static inline size_t fuzz_jpeg_random(uint64_t *state, size_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((*state >> 33) % (below ? below : 1));
}

/* The segments between the first marker, which is SOI, and the end. */
static inline size_t fuzz_jpeg_split(const uint8_t *data, size_t size, fuzz_jpeg_segment *out)
{
    size_t count = 0, at = 2;

    while (at + 4 <= size && count < FUZZ_JPEG_SEGMENTS && data[at] == 0xff &&
           data[at + 1] != 0xd9) {
        size_t head = 2 + ((size_t)data[at + 2] << 8 | data[at + 3]), end = at + head;
        if (head < 4 || end > size)
            break;
        while (end < size && !(data[end] == 0xff && end + 1 < size && data[end + 1] != 0 &&
                               (data[end + 1] & 0xf8) != 0xd0))
            end++;
        out[count++] = (fuzz_jpeg_segment){.at = at, .size = end - at, .head = head};
        at = end;
    }
    return count;
}

/* Put `size` bytes, which may be of `data` itself, in the place of `gone` at `at`. */
static inline size_t fuzz_jpeg_replace(uint8_t *data, size_t length, size_t most, size_t at,
                                       size_t gone, const uint8_t *bytes, size_t size)
{
    if (length - gone + size > most)
        return length;
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return length;
    if (size)
        memcpy(copy, bytes, size);
    memmove(data + at + size, data + at + gone, length - at - gone);
    memcpy(data + at, copy, size);
    free(copy);
    return length - gone + size;
}

/* More or fewer bytes in a segment, and its length with it. */
static inline size_t fuzz_jpeg_resize(uint8_t *data, size_t length, size_t most,
                                      const fuzz_jpeg_segment *s, uint64_t *state)
{
    static const uint8_t zeros[64];
    size_t grown = 1 + fuzz_jpeg_random(state, sizeof zeros), head = s->head + grown, now;

    if (fuzz_jpeg_random(state, 2)) {
        now = fuzz_jpeg_replace(data, length, most, s->at + s->head, 0, zeros, grown);
        if (now == length || head - 2 > 0xffff)
            return length;
    } else {
        grown = fuzz_jpeg_random(state, s->head - 3);
        head = s->head - grown;
        now = fuzz_jpeg_replace(data, length, most, s->at + head, grown, zeros, 0);
    }
    data[s->at + 2] = (uint8_t)((head - 2) >> 8);
    data[s->at + 3] = (uint8_t)(head - 2);
    return now;
}

/* A value of a segment's head: sides, samplings, names, tables, bands of a scan. */
static inline void fuzz_jpeg_change(uint8_t *data, const fuzz_jpeg_segment *s, uint64_t *state)
{
    static const uint8_t values[] = {0, 1, 2, 3, 4, 8, 0x11, 0x12, 0x21, 0x22, 0x41, 63, 64, 255};

    if (s->head > 4)
        data[s->at + 4 + fuzz_jpeg_random(state, s->head - 4 < 24 ? s->head - 4 : 24)] =
            values[fuzz_jpeg_random(state, sizeof values)];
}

static inline size_t fuzz_jpeg_mutate(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static const uint8_t markers[] = {0xc0, 0xc1, 0xc2, 0xc4, 0xc9, 0xca, 0xda, 0xdb,
                                      0xdc, 0xdd, 0xe0, 0xe1, 0xee, 0xfe, 0xd8, 0x01};
    static fuzz_jpeg_segment segments[FUZZ_JPEG_SEGMENTS];
    uint64_t state = seed;
    size_t count = fuzz_jpeg_split(data, size, segments);

    if (!count || fuzz_jpeg_random(&state, 8) == 0)
        return LLVMFuzzerMutate(data, size, most);
    const fuzz_jpeg_segment *s = &segments[fuzz_jpeg_random(&state, count)];
    const fuzz_jpeg_segment *to = &segments[fuzz_jpeg_random(&state, count)];
    switch (fuzz_jpeg_random(&state, 7)) {
    case 0: /* drop */
        return fuzz_jpeg_replace(data, size, most, s->at, s->size, NULL, 0);
    case 1: /* repeat in another place */
        return fuzz_jpeg_replace(data, size, most, to->at, 0, data + s->at, s->size);
    case 2: /* repeat the last, which is a scan, many times */
        s = &segments[count - 1];
        for (size_t n = 1 + fuzz_jpeg_random(&state, 50); n; n--)
            size = fuzz_jpeg_replace(data, size, most, s->at, 0, data + s->at, s->size);
        return size;
    case 3: /* in the place of another */
        return fuzz_jpeg_replace(data, size, most, to->at, to->size, data + s->at, s->size);
    case 4:
        return fuzz_jpeg_resize(data, size, most, s, &state);
    case 5:
        data[s->at + 1] = markers[fuzz_jpeg_random(&state, sizeof markers)];
        return size;
    default:
        fuzz_jpeg_change(data, s, &state);
        return size;
    }
}

#endif

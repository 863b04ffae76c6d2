/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sequential JPEG says before its pixels [T.81 annex B], read as libjpeg reads it. Whatever
 * is unusual is not taken; libjpeg then decodes it, or says what is wrong.
 */
#include "codec/image/baseline.h"

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    DHT = 0xc4,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOS = 0xda,
    DQT = 0xdb,
    DNL = 0xdc,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe,
    TEM = 0x01
};

#define NARROW_QUANTISERS 64
#define JFIF_BYTES        14
#define ADOBE_BYTES       12
#define LEAST_WIDE        5 /* narrower ones are widened another way */

/* What decides of the colours. */
typedef struct hints {
    bool jfif, adobe;
    uint32_t transform; /* Adobe's */
} hints;

static bool read_quantisers(const uint8_t *p, uint32_t length, stk__baseline_header *header)
{
    while (length) {
        uint32_t wide = p[0] >> 4, which = p[0] & 15;
        uint32_t bytes = 1 + (wide ? 2 * NARROW_QUANTISERS : NARROW_QUANTISERS);
        if (wide > 1 || which >= STK__BASELINE_TABLES || length < bytes)
            return false;
        header->quantisers[which] = p + 1;
        header->wide[which] = wide;
        p += bytes;
        length -= bytes;
    }
    return true;
}

static bool read_codes(const uint8_t *p, uint32_t length, stk__baseline_header *header)
{
    while (length) {
        uint32_t which = p[0] & 15, ac = p[0] >> 4, count = 0;
        if (length < 1 + STK__HUFFMAN_LENGTHS || ac > 1 || which >= STK__BASELINE_TABLES)
            return false;
        for (uint32_t i = 1; i <= STK__HUFFMAN_LENGTHS; i++)
            count += p[i];
        if (count > STK__HUFFMAN_SYMBOLS || count > length - 1 - STK__HUFFMAN_LENGTHS)
            return false;
        stk__huffman_spec *spec = ac ? &header->ac[which] : &header->dc[which];
        *spec = (stk__huffman_spec){p + 1, p + 1 + STK__HUFFMAN_LENGTHS, count};
        p += 1 + STK__HUFFMAN_LENGTHS + count;
        length -= 1 + STK__HUFFMAN_LENGTHS + count;
    }
    return true;
}

/* stk__jpeg_peek() has looked at the length. */
static bool read_frame(const uint8_t *p, stk__baseline_header *header)
{
    stk__baseline_component *c = header->components;

    header->height = stk__be16(p + 1);
    header->width = stk__be16(p + 3);
    header->num_components = p[5];
    if (p[0] != 8 || (p[5] != 1 && p[5] != STK__BASELINE_COMPONENTS))
        return false;
    for (uint32_t i = 0; i < header->num_components; i++) {
        const uint8_t *q = p + 6 + (size_t)i * 3;
        c[i] = (stk__baseline_component){.id = q[0], .h = q[1] >> 4, .v = q[1] & 15};
        c[i].quantisers = q[2];
        if (q[2] >= STK__BASELINE_TABLES)
            return false;
    }
    if (header->num_components == 1) {
        c[0].h = c[0].v = 1; /* alone in its scan it is not sampled, whatever it says */
        return true;
    }
    if (c[0].h > 2 || c[0].v > 2 || c[1].h * c[1].v * c[2].h * c[2].v != 1)
        return false;
    if (c[0].id == c[1].id || c[0].id == c[2].id || c[1].id == c[2].id)
        return false;
    return c[0].h == 1 || header->width >= LEAST_WIDE;
}

/* One scan of all components in their order, with tables that are there. */
static bool read_scan(const uint8_t *p, stk__baseline_header *header)
{
    const uint8_t *end = p + 1 + (size_t)2 * p[0]; /* peeked: it is there */

    if (p[0] != header->num_components || end[0] != 0 || end[1] != 63 || end[2] != 0)
        return false;
    for (uint32_t i = 0; i < header->num_components; i++) {
        stk__baseline_component *c = &header->components[i];
        const uint8_t *q = p + 1 + (size_t)i * 2;
        c->dc = q[1] >> 4;
        c->ac = q[1] & 15;
        if (q[0] != c->id || c->dc >= STK__BASELINE_TABLES || c->ac >= STK__BASELINE_TABLES)
            return false;
        if (!header->dc[c->dc].counts || !header->ac[c->ac].counts ||
            !header->quantisers[c->quantisers])
            return false;
    }
    return true;
}

/* The colours as libjpeg takes them [default_decompress_parms() of jdapimin.c]. */
static bool is_rgb(const stk__baseline_header *header, const hints *of)
{
    const stk__baseline_component *c = header->components;

    if (header->num_components == 1 || of->jfif)
        return false;
    if (of->adobe)
        return of->transform == 0;
    return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B';
}

static bool read_marker(uint32_t marker, const uint8_t *p, uint32_t length,
                        stk__baseline_header *header, hints *found)
{
    switch (marker) {
    case SOF0:
    case SOF1:
        return read_frame(p, header);
    case DHT:
        return read_codes(p, length, header);
    case DQT:
        return read_quantisers(p, length, header);
    case DRI:
        if (length != 2)
            return false;
        header->restart_interval = stk__be16(p);
        return true;
    case APP0:
        found->jfif = found->jfif || (length >= JFIF_BYTES && !memcmp(p, "JFIF", 5));
        return true;
    case APP14:
        if (length >= ADOBE_BYTES && !memcmp(p, "Adobe", 5)) {
            found->adobe = true;
            found->transform = p[11];
        }
        return true;
    default: /* notes; what else there is libjpeg knows */
        return marker == COM || marker == DNL || (marker >= APP0 && marker <= APP15);
    }
}

bool stk__baseline_read(const uint8_t *data, stk__baseline_header *header)
{
    hints found = {0};
    size_t at = 2;

    *header = (stk__baseline_header){0};
    for (;;) {
        while (data[at] == 0xff)
            at++;
        uint32_t marker = data[at++];
        if (marker == TEM || (marker >= RST0 && marker <= RST7))
            continue;
        uint32_t size = stk__be16(data + at);
        const uint8_t *p = data + at + 2;
        at += size;
        if (marker == SOS) {
            header->rgb = is_rgb(header, &found);
            return header->num_components && read_scan(p, header);
        }
        if (!read_marker(marker, p, size - 2, header, &found))
            return false;
    }
}

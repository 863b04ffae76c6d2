/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG headers [ITU-T T.81 annex B]: the markers up to the first scan. */
#include "codec/image/room.h"

enum {
    TEM = 0x01,
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    SOF2 = 0xc2,
    DHT = 0xc4,
    JPG = 0xc8,
    SOF9 = 0xc9,
    SOF10 = 0xca,
    DAC = 0xcc,
    SOF15 = 0xcf,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP1 = 0xe1
};

#define BLOCK        8
#define BLOCK_BYTES  128          /* of coefficients */
#define FIXED_MEMORY (384u << 10) /* tables, pools and the decoder itself */
#define MAX_SAMPLING 4

/* Estimates for scheduling: fitted to 334 photographs of ImageNet on one core (nine of ten within a
 * quarter). Codes cost by the byte, what follows them by the pixel. */
#define NS_PER_PIXEL      0.6
#define NS_PER_BYTE       3.9
#define NS_FIXED          4e3
#define LIBRARY_TIMES     2.1 /* files of several scans, which libjpeg decodes */
#define PROGRESSIVE_TIMES 2.5 /* as much again */

typedef struct frame_header {
    uint32_t components, blocks; /* blocks: of one iMCU */
    uint32_t max_h, max_v;
    uint8_t ids[4], sampled[4]; /* sampled: blocks of a component in an iMCU */
    bool seen;
} frame_header;

static stk_status ends_early(const char **reason)
{
    return stk__image_refuse(reason, STK_ETRUNCATED,
                             "the JPEG ends within its header; copy or download it again");
}

static stk_status damaged(const char **reason, const char *text)
{
    return stk__image_refuse(reason, STK_EFORMAT, text);
}

/* SOF markers but for those that T.81 puts among them for other ends. */
static bool is_frame(uint32_t marker)
{
    return marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
}

static stk_status read_components(const uint8_t *p, stk__image_info *info, frame_header *frame,
                                  const char **reason)
{
    for (uint32_t i = 0; i < info->components; i++, p += 3) {
        uint32_t h = p[1] >> 4, v = p[1] & 15;
        if (h < 1 || h > MAX_SAMPLING || v < 1 || v > MAX_SAMPLING)
            return damaged(reason, "the JPEG header has impossible sampling factors; copy or "
                                   "download it again");
        frame->max_h = STK_MAX(frame->max_h, h);
        frame->max_v = STK_MAX(frame->max_v, v);
        frame->blocks += h * v;
        frame->ids[i] = p[0];
        frame->sampled[i] = (uint8_t)(h * v);
    }
    return STK_OK;
}

static stk_status read_frame(uint32_t marker, const uint8_t *p, uint32_t length,
                             stk__image_info *info, frame_header *frame, const char **reason)
{
    if (frame->seen || length < 6 || length != 6 + 3 * (uint32_t)p[5])
        return damaged(reason, "the JPEG has a damaged frame header, or two; copy or download it "
                               "again");
    if (marker == SOF0 + 3)
        return stk__image_refuse(reason, STK_EKIND,
                                 "lossless JPEG is not supported; convert it to a baseline JPEG "
                                 "or a PNG");
    if (marker != SOF0 && marker != SOF1 && marker != SOF2 && marker != SOF9 && marker != SOF10)
        return stk__image_refuse(reason, STK_EKIND,
                                 "hierarchical or lossless JPEG is not supported; convert it to a "
                                 "baseline JPEG or a PNG");
    info->bit_depth = p[0];
    info->height = stk__be16(p + 1);
    info->width = stk__be16(p + 3);
    info->components = p[5];
    info->progressive = marker == SOF2 || marker == SOF10;
    if (info->bit_depth == 12)
        return stk__image_refuse(reason, STK_EKIND,
                                 "12-bit JPEG is not supported; convert it to 8 bits or to a PNG");
    if (info->bit_depth != 8)
        return damaged(reason, "the JPEG header has an impossible sample precision; copy or "
                               "download it again");
    if (!info->height)
        return stk__image_refuse(reason, STK_EKIND,
                                 "a JPEG whose height is behind its pixels (DNL) is not "
                                 "supported; save it again");
    if (!info->width || !info->components || info->components > 4)
        return damaged(reason, "the JPEG header has an impossible width or number of components; "
                               "copy or download it again");
    if (info->components == 2)
        return stk__image_refuse(reason, STK_EKIND,
                                 "JPEG with two components is not supported; convert it to grey "
                                 "or RGB");
    info->channels = info->components == 1 ? 1 : 3;
    frame->seen = true;
    return read_components(p + 6, info, frame, reason);
}

static uint64_t units_of(const stk__image_info *info, const frame_header *frame)
{
    uint64_t across = (info->width + BLOCK * frame->max_h - 1) / (BLOCK * frame->max_h);
    uint64_t down = (info->height + BLOCK * frame->max_v - 1) / (BLOCK * frame->max_v);

    return across * down;
}

/* The blocks that a scan goes through. Of components of one name the largest counts; libjpeg
 * refuses a scan of one that the frame does not have. */
static uint64_t blocks_of(const stk__image_info *info, const frame_header *frame, const uint8_t *p)
{
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < p[0]; i++) {
        uint32_t own = 0;
        for (uint32_t c = 0; c < info->components; c++)
            if (frame->ids[c] == p[1 + 2 * i])
                own = STK_MAX(own, frame->sampled[c]);
        blocks += own;
    }
    return blocks * units_of(info, frame);
}

/*
 * Count the scans behind the first one, and their blocks: codes of a few bits can stand for blocks
 * by the thousand, so that the length of a file says nothing of the work. Markers are found as
 * libjpeg finds them: FF within codes is followed by 0, FF or a restart marker.
 */
static void count_scans(const uint8_t *data, uint64_t length, uint64_t at, stk__image_info *info,
                        const frame_header *frame)
{
    while (at < length) {
        const uint8_t *mark = memchr(data + at, 0xff, length - at);
        if (!mark || (at = (uint64_t)(mark - data) + 1) >= length)
            return;
        uint32_t marker = data[at];
        if (marker == 0xff)
            continue;
        at++;
        if (marker <= TEM || (marker >= RST0 && marker <= RST7))
            continue;
        uint32_t size = length - at >= 2 ? stk__be16(data + at) : 0;
        if (marker == EOI || marker == SOI || size < 2 || length - at < size)
            return;
        const uint8_t *p = data + at + 2;
        if (marker == SOS && size >= 3 && p[0] <= 4 && size == 6 + 2 * (uint32_t)p[0]) {
            info->scans++;
            info->blocks += blocks_of(info, frame, p);
        }
        at += size;
    }
}

/* What libjpeg and the strip above it hold at most, at any scale and for any box. */
static uint64_t memory_of(const stk__image_info *info, const frame_header *frame)
{
    uint64_t across = (info->width + BLOCK * frame->max_h - 1) / (BLOCK * frame->max_h);
    uint64_t width = across * BLOCK * frame->max_h;
    /* Row groups of an iMCU row with two of context, and the rows being upsampled. */
    uint64_t rows = info->components * width * (BLOCK + 3) * frame->max_v;
    uint64_t strip = stk__image_strip_rows(4 * width) * 4 * width;
    /* At most 65535^2 / 64 times 64 blocks of 128 bytes: far from overflow. */
    uint64_t held = info->buffered ? units_of(info, frame) * frame->blocks * BLOCK_BYTES : 0;

    return FIXED_MEMORY + rows + strip + held;
}

static stk_status read_scan(const uint8_t *p, uint32_t length, stk__image_info *info,
                            const frame_header *frame, const char **reason)
{
    if (!frame->seen || length < 4 || p[0] < 1 || p[0] > 4 || length != 4 + 2 * (uint32_t)p[0])
        return damaged(reason, "the JPEG has a damaged scan header, or one without a frame; copy "
                               "or download it again");
    info->buffered = info->progressive || p[0] < info->components;
    info->memory = memory_of(info, frame);
    info->scans = 1;
    info->blocks = blocks_of(info, frame, p);
    return STK_OK;
}

static double cost_of(const stk__image_info *info, uint64_t length)
{
    /* A byte gives at most some pixels of flat colour: notes behind the pixels are not counted. */
    double pixels = (double)info->width * info->height;
    double bytes = STK_MIN((double)length, pixels * info->components);

    return NS_FIXED + (pixels * NS_PER_PIXEL + bytes * NS_PER_BYTE) *
                          (info->buffered ? LIBRARY_TIMES : 1.0) *
                          (info->progressive ? PROGRESSIVE_TIMES : 1.0);
}

static void read_exif(const uint8_t *p, uint32_t length, stk__image_info *info, bool *seen)
{
    if (*seen || length < 6 || memcmp(p, "Exif\0", 6))
        return;
    *seen = true;
    info->orientation = stk__exif_orientation(p + 6, length - 6);
}

stk_status stk__jpeg_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                          stk__jpeg_header *header, const char **reason)
{
    frame_header frame = {0};
    bool exif = false;
    uint64_t at = 2;

    for (;;) {
        if (at >= length)
            return ends_early(reason);
        if (data[at] != 0xff)
            return damaged(reason, "bytes that belong to no marker are in the JPEG header; copy "
                                   "or download it again");
        while (at < length && data[at] == 0xff) /* fill bytes may precede a marker */
            at++;
        if (at >= length)
            return ends_early(reason);
        uint32_t marker = data[at++];
        if (marker == TEM || (marker >= RST0 && marker <= RST7))
            continue;
        if (marker == 0 || marker == SOI || marker == EOI)
            return damaged(reason, "the JPEG header has a marker where none may be; copy or "
                                   "download it again");
        if (length - at < 2)
            return ends_early(reason);
        uint32_t size = stk__be16(data + at);
        if (size < 2)
            return damaged(reason, "a marker in the JPEG header has an impossible length; copy or "
                                   "download it again");
        if (length - at < size)
            return ends_early(reason);
        const uint8_t *p = data + at + 2;
        at += size;
        if (is_frame(marker))
            STK_TRY(read_frame(marker, p, size - 2, info, &frame, reason));
        else if (marker == APP1)
            read_exif(p, size - 2, info, &exif);
        else if (marker == SOS) {
            header->scan = at;
            STK_TRY(read_scan(p, size - 2, info, &frame, reason));
            if (info->buffered)
                count_scans(data, length, at, info, &frame);
            info->cost_ns = (uint64_t)cost_of(info, length);
            return STK_OK;
        }
    }
}

bool stk__jpeg_has_end(const uint8_t *data, uint64_t length, uint64_t scan)
{
    /* Within entropy-coded data FF is followed by 0 or a restart marker, so that FF D9 behind the
     * first scan header is the end. A sound file has it last, and the search ends at once. */
    for (uint64_t end = length; end > scan;) {
        const uint8_t *p = memrchr(data + scan, EOI, end - scan);
        if (!p || p == data + scan)
            return false;
        if (p[-1] == 0xff)
            return true;
        end = (uint64_t)(p - data);
    }
    return false;
}

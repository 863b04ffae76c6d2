/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG writing through libjpeg-turbo's libjpeg API (libjpeg.h). */
#include "codec/image/encode/encode.h"
#include "codec/image/libjpeg.h"

#include <limits.h>

#define FIRST_BYTES  (64u << 10)  /* of an output buffer, which then grows by half */
#define HEAD_BYTES   (128u << 10) /* tables, markers and headers of any picture, generously */
#define FIXED_MEMORY (512u << 10) /* libjpeg's own tables and rows, without the coefficients */
#define MARKER_BYTES 0xffff
#define MAX_RESTART  65535
#define EXIF_HEAD    6 /* "Exif\0\0" */
#define MAX_SEGMENT  65533

struct stk__image_encoder {
    stk__libjpeg calls;
    struct jpeg_compress_struct library;
    struct jpeg_destination_mgr target;
    struct jpeg_decompress_struct reader; /* lives for one JPEG that is written again */
    stk_context *context;

    /* The picture in work. */
    const stk__encode *how;
    uint32_t width, height;
    const uint8_t *rows;
    size_t stride;
    const uint8_t *data; /* of the JPEG that is written again */
    uint64_t length;
    uint64_t max_memory;
    uint8_t *out; /* what was written; `room` bytes and STK_TAIL more */
    uint64_t room, most, size;
};

/* ---- Markers -------------------------------------------------------------------------------- */

static bool is_frame(uint32_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

void stk__jpeg_read_markers(const void *data, uint64_t length, stk__jpeg_markers *markers)
{
    const uint8_t *p = data;
    uint64_t at = 2;

    *markers = (stk__jpeg_markers){0};
    while (at < length && length - at >= 4) {
        if (p[at] != 0xff || p[at + 1] == 0xff || p[at + 1] == 0) {
            at++; /* fill bytes, and what libjpeg steps over as well */
            continue;
        }
        uint32_t marker = p[at + 1];
        if (marker == 0xd8 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
            at += 2;
            continue;
        }
        uint32_t size = stk__be16(p + at + 2);
        if (marker == 0xda || marker == 0xd9 || size < 2 || length - at - 2 < size)
            return;
        const uint8_t *body = p + at + 4;
        if (is_frame(marker) && !markers->frame)
            markers->frame = marker;
        if (marker == 0xe1 && !markers->exif && size - 2 > EXIF_HEAD &&
            memcmp(body, "Exif\0\0", EXIF_HEAD) == 0) {
            markers->exif = body;
            markers->exif_length = size - 2;
        }
        at += 2 + (uint64_t)size;
    }
}

void stk__exif_make(uint32_t orientation, uint8_t out[STK__EXIF_BYTES])
{
    /* A big-endian TIFF with one directory of one entry: tag 0x0112, SHORT, one value. */
    static const uint8_t block[STK__EXIF_BYTES] = {
        'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
        1,   18,  0,   3,   0, 0, 0,   1,   0, 1,  0, 0, 0, 0, 0, 0,
    };

    memcpy(out, block, sizeof block);
    out[25] = (uint8_t)orientation;
}

/* ---- What libjpeg calls --------------------------------------------------------------------- */

static void target_nothing(j_compress_ptr library)
{
}

/* Make the buffer larger by half. All of it counts as full: libjpeg calls for more only then. */
static boolean target_grow(j_compress_ptr library)
{
    stk__image_encoder *e = library->client_data;
    uint64_t room = STK_MIN(e->room + e->room / 2, e->most);

    if (room <= e->room)
        stk__libjpeg_escape(
            &e->calls, STK_ELIMIT,
            "the JPEG becomes larger than its pixels; lower the quality, or copy the file");
    uint8_t *out = stk__realloc(e->context, e->out, room + STK_TAIL);
    if (!out)
        stk__libjpeg_escape(&e->calls, STK_ENOMEM,
                            "no memory for the JPEG that is written; free some");
    e->target.next_output_byte = out + e->room;
    e->target.free_in_buffer = room - e->room;
    e->out = out;
    e->room = room;
    return TRUE;
}

/* ---- Life ---------------------------------------------------------------------------------- */

static stk_status create_library(void *user, void *arguments)
{
    stk__image_encoder *e = user;
    jpeg_create_compress(&e->library);
    return STK_OK;
}

stk_status stk__image_encoder_create(stk_context *ctx, stk__image_encoder **out, stk_error *err)
{
    const char *reason;

    *out = NULL;
    stk__image_encoder *e = stk__calloc(ctx, 1, sizeof *e);
    if (!e)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CODEC, "no memory for a picture encoder");
    e->context = ctx;
    stk__libjpeg_init(&e->calls, "writing the JPEG needs more memory than allowed; raise the "
                                 "memory budget");
    e->library.err = e->reader.err = &e->calls.errors;
    e->library.client_data = e->reader.client_data = e;
    e->target = (struct jpeg_destination_mgr){.init_destination = target_nothing,
                                              .empty_output_buffer = target_grow,
                                              .term_destination = target_nothing};
    stk_status status = stk__libjpeg_guard(&e->calls, create_library, NULL, &reason);
    if (status != STK_OK) {
        stk__image_encoder_destroy(&e);
        return stk__fail(err, status, STK_STAGE_CODEC, "no memory for a picture encoder");
    }
    e->library.dest = &e->target;
    *out = e;
    return STK_OK;
}

void stk__image_encoder_destroy(stk__image_encoder **encoder)
{
    stk__image_encoder *e = *encoder;

    if (!e)
        return;
    jpeg_destroy_compress(&e->library);
    stk__free(e->context, e->out);
    stk__free(e->context, e);
    *encoder = NULL;
}

/* ---- The buffer ----------------------------------------------------------------------------- */

/* At most `most` bytes will be written. */
static stk_status begin_output(stk__image_encoder *e, uint64_t most, const char **reason)
{
    e->most = most;
    e->room = STK_MIN(most, (uint64_t)FIRST_BYTES);
    e->out = stk__alloc(e->context, e->room + STK_TAIL);
    if (!e->out) {
        *reason = "no memory for the JPEG that is written; free some";
        return STK_ENOMEM;
    }
    e->target.next_output_byte = e->out;
    e->target.free_in_buffer = e->room;
    return STK_OK;
}

/* Hand the buffer over, or drop it. */
static stk_status end_output(stk__image_encoder *e, stk_status status, uint8_t **out,
                             uint64_t *size)
{
    if (status == STK_OK) {
        *size = e->room - e->target.free_in_buffer;
        memset(e->out + *size, 0, STK_TAIL);
        *out = e->out;
    } else {
        stk__free(e->context, e->out);
    }
    e->out = NULL;
    return status;
}

/* ---- Encoding ------------------------------------------------------------------------------- */

/* Samples of a picture that is padded to whole MCUs. */
static uint64_t samples_of(uint32_t width, uint32_t height, const stk__encode *how)
{
    uint64_t across = how->subsampling == STK__JPEG_444 || how->grey ? 8 : 16;
    uint64_t down = how->subsampling == STK__JPEG_420 && !how->grey ? 16 : 8;
    uint64_t pixels = stk__round_up(width, across) * stk__round_up(height, down);

    return how->grey ? pixels : pixels + 2 * pixels * 64 / (across * down);
}

/* Noise at quality 100 takes 10 bits a sample. */
static uint64_t most_bytes(uint64_t samples, const stk__encode *how)
{
    return samples + samples / 2 + HEAD_BYTES + how->exif_length;
}

uint64_t stk__image_encode_memory(uint32_t width, uint32_t height, const stk__encode *how)
{
    uint64_t samples = samples_of(width, height, how);

    /* Tables for the picture need all its coefficients at once. While the buffer grows there may be
     * two. */
    return FIXED_MEMORY + 2 * samples + 2 * most_bytes(samples, how) + 64 * (uint64_t)width;
}

static void set_up(stk__image_encoder *e)
{
    static const int across[] = {2, 2, 1}, down[] = {2, 1, 1};
    j_compress_ptr library = &e->library;
    const stk__encode *how = e->how;

    library->image_width = e->width;
    library->image_height = e->height;
    library->input_components = 3;
    library->in_color_space = JCS_RGB;
    jpeg_set_defaults(library);
    jpeg_set_colorspace(library, how->grey ? JCS_GRAYSCALE : JCS_YCbCr);
    jpeg_set_quality(library, (int)how->quality, TRUE);
    library->optimize_coding = TRUE;
    library->dct_method = JDCT_ISLOW;
    library->restart_interval = how->restart_interval;
    if (!how->grey) {
        library->comp_info[0].h_samp_factor = across[how->subsampling];
        library->comp_info[0].v_samp_factor = down[how->subsampling];
    }
}

static stk_status encode(void *user, void *arguments)
{
    stk__image_encoder *e = user;
    j_compress_ptr library = &e->library;

    set_up(e);
    jpeg_start_compress(library, TRUE);
    if (e->how->exif)
        jpeg_write_marker(library, JPEG_APP0 + 1, e->how->exif, e->how->exif_length);
    while (library->next_scanline < e->height) {
        JSAMPROW row = (JSAMPROW)(e->rows + library->next_scanline * e->stride);
        jpeg_write_scanlines(library, &row, 1);
    }
    jpeg_finish_compress(library);
    return STK_OK;
}

static stk_status check_how(uint32_t width, uint32_t height, const stk__encode *how,
                            const char **reason)
{
    *reason = NULL;
    if (!width || !height || width > STK__JPEG_MAX_SIDE || height > STK__JPEG_MAX_SIDE)
        *reason = "a JPEG has sides of 1 to 65500 pixels; make the picture smaller";
    else if (how->quality < 1 || how->quality > 100)
        *reason = "the quality of a JPEG is 1 to 100";
    else if (how->restart_interval > MAX_RESTART)
        *reason = "restart markers are at most 65535 MCUs apart";
    else if (how->exif_length > MAX_SEGMENT)
        *reason = "an EXIF block of a JPEG has at most 65533 bytes";
    return *reason ? STK_EINVAL : STK_OK;
}

stk_status stk__image_encode(stk__image_encoder *encoder, const stk__encode *how, uint32_t width,
                             uint32_t height, const uint8_t *rows, size_t stride, uint8_t **out,
                             uint64_t *size, const char **reason)
{
    stk__image_encoder *e = encoder;

    *out = NULL;
    *size = 0;
    STK_TRY(check_how(width, height, how, reason));
    e->how = how;
    e->width = width;
    e->height = height;
    e->rows = rows;
    e->stride = stride;
    e->library.mem->max_memory_to_use = 0;
    STK_TRY(begin_output(e, most_bytes(samples_of(width, height, how), how), reason));
    stk_status status = stk__libjpeg_guard(&e->calls, encode, NULL, reason);
    if (status != STK_OK)
        jpeg_abort_compress(&e->library);
    return end_output(e, status, out, size);
}

/* ---- The same coefficients in another order -------------------------------------------------- */

/* libjpeg writes the JFIF and Adobe markers by itself. */
static bool is_written(const struct jpeg_compress_struct *library, const jpeg_saved_marker_ptr m)
{
    if (m->marker == JPEG_APP0 && library->write_JFIF_header && m->data_length >= 5 &&
        memcmp(m->data, "JFIF", 5) == 0)
        return true;
    return m->marker == JPEG_APP0 + 14 && library->write_Adobe_marker && m->data_length >= 5 &&
           memcmp(m->data, "Adobe", 5) == 0;
}

static stk_status rewrite(void *user, void *arguments)
{
    stk__image_encoder *e = user;
    j_decompress_ptr reader = &e->reader;
    j_compress_ptr library = &e->library;

    jpeg_create_decompress(reader);
    reader->src = &e->calls.source;
    reader->progress = &e->calls.progress;
    reader->mem->max_memory_to_use = (long)e->max_memory;
    stk__libjpeg_offer(&e->calls, e->data, e->length);
    jpeg_save_markers(reader, JPEG_COM, MARKER_BYTES);
    for (int i = 0; i < 16; i++)
        jpeg_save_markers(reader, JPEG_APP0 + i, MARKER_BYTES);
    jpeg_read_header(reader, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(reader);
    jpeg_copy_critical_parameters(reader, library);
    library->optimize_coding = TRUE;
    library->restart_interval = e->how->restart_interval;
    jpeg_write_coefficients(library, coefficients);
    for (jpeg_saved_marker_ptr m = reader->marker_list; m; m = m->next)
        if (!is_written(library, m))
            jpeg_write_marker(library, m->marker, m->data, m->data_length);
    jpeg_finish_compress(library);
    jpeg_finish_decompress(reader);
    return STK_OK;
}

stk_status stk__image_to_baseline(stk__image_encoder *encoder, const stk__encode *how,
                                  const void *data, uint64_t length, const stk__image_info *info,
                                  const stk__image_limits *limits, uint8_t **out, uint64_t *size,
                                  const char **reason)
{
    stk__image_encoder *e = encoder;
    stk__encode plain = {.subsampling = STK__JPEG_444, .grey = info->components == 1};

    *out = NULL;
    *size = 0;
    e->how = how;
    e->data = data;
    e->length = length;
    e->calls.max_scans = limits->max_scans;
    e->max_memory = STK_MIN(limits->max_memory, (uint64_t)LONG_MAX);
    uint64_t most = most_bytes(samples_of(info->width, info->height, &plain), &plain) + length;
    STK_TRY(begin_output(e, most, reason));
    stk_status status = stk__libjpeg_guard(&e->calls, rewrite, NULL, reason);
    if (status != STK_OK)
        jpeg_abort_compress(&e->library);
    /* Not kept: libjpeg would give the tables of this picture to one that has none. */
    jpeg_destroy_decompress(&e->reader);
    return end_output(e, status, out, size);
}

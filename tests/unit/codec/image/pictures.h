/* Pictures for the tests of the image room: files, JPEGs made here, and the plain libjpeg to
 * compare with. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_PICTURES_H
#define STK_TESTS_PICTURES_H

#include <stdio.h>
#include <stdlib.h>

#include "codec/image/room.h"

#include <jpeglib.h>

#include "support/support.h"
#include "support/text.h"

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

/* Pixels of three bytes without gaps. */
typedef struct raster {
    uint32_t width, height;
    uint8_t *data;
} raster;

static inline bytes load(const char *path)
{
    bytes b = {0};

    b.data = test_load(path, &b.size);
    if (!b.data)
        fail_msg("%s cannot be opened", path);
    return b;
}

static inline bytes load_golden(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/golden/images/%s", TESTS_DIR, name);
    return load(path);
}

/* A copy of just `size` bytes, so that a sanitizer sees what is read beyond. */
static inline bytes prefix(const bytes *all, size_t size)
{
    bytes b = {malloc(size ? size : 1), size};

    assert_non_null(b.data);
    memcpy(b.data, all->data, size);
    return b;
}

/* ---- JPEG as libjpeg alone has it ------------------------------------------------------------ */

/* Decode all at 1/scale to RGB, with libjpeg's defaults. */
static inline raster plain_decode(const bytes *jpeg, uint32_t scale)
{
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    raster r;

    library.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&library);
    jpeg_mem_src(&library, jpeg->data, jpeg->size);
    jpeg_read_header(&library, TRUE);
    library.scale_num = 1;
    library.scale_denom = scale;
    library.out_color_space = JCS_RGB;
    jpeg_start_decompress(&library);
    r = (raster){library.output_width, library.output_height, NULL};
    r.data = malloc((size_t)r.width * r.height * 3);
    assert_non_null(r.data);
    while (library.output_scanline < library.output_height) {
        JSAMPROW row = r.data + (size_t)library.output_scanline * r.width * 3;
        jpeg_read_scanlines(&library, &row, 1);
    }
    jpeg_finish_decompress(&library);
    assert_int_equal(errors.num_warnings, 0);
    jpeg_destroy_decompress(&library);
    return r;
}

static inline void print_no_message(j_common_ptr library)
{
}

/* How a JPEG is made. Sampling factors as "2x1,1x1,1x1"; one component is grey. */
typedef struct recipe {
    uint32_t width, height;
    const char *sampling;
    int quality, restart;                   /* restart: in MCUs; 0: none */
    bool progressive, arithmetic, separate; /* separate: a scan for each component */
    bool rgb;                               /* stored without a change of colours */
    bool optimized;                         /* tables made for the picture */
    bool wide;                              /* quantisers beyond 255, where the quality asks so */
    bool three;                             /* tables of its own for the third component */
} recipe;

static inline uint32_t set_sampling(struct jpeg_compress_struct *library, const char *text)
{
    uint32_t n = 0;

    for (const char *p = text; *p; p += p[3] ? 4 : 3, n++) {
        library->comp_info[n].h_samp_factor = p[0] - '0';
        library->comp_info[n].v_samp_factor = p[2] - '0';
    }
    return n;
}

/* Smooth colours with noise and edges, from a seed. */
static inline void draw_row(uint8_t *row, uint32_t width, uint32_t y, uint32_t components,
                            uint64_t *seed)
{
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t c = 0; c < components; c++) {
            uint32_t wave = (x * (c + 2) + y * (3 - c % 3)) & 255;
            uint32_t edge = (x / 11 + y / 13 + c) % 3 * 40;
            row[x * components + c] = (uint8_t)(wave / 2 + edge + test_random(seed) % 24);
        }
}

static inline bytes make_jpeg(const recipe *how, uint64_t seed)
{
    static jpeg_scan_info scans[3] = {
        {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    uint32_t components = (uint32_t)(strlen(how->sampling) + 1) / 4;
    uint8_t *row = malloc((size_t)how->width * components);

    assert_non_null(row);
    seed = seed * 2 + 1;
    library.err = jpeg_std_error(&errors);
    errors.output_message = print_no_message; /* on coarse quantisers */
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &out, &size);
    library.image_width = how->width;
    library.image_height = how->height;
    library.input_components = (int)components;
    library.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, how->quality ? how->quality : 85, !how->wide);
    if (how->rgb)
        jpeg_set_colorspace(&library, JCS_RGB);
    set_sampling(&library, how->sampling);
    if (how->three) {
        library.comp_info[2].dc_tbl_no = library.comp_info[2].ac_tbl_no = 2;
        library.comp_info[2].quant_tbl_no = 2;
        static const unsigned quantisers[DCTSIZE2] = {[0 ... 63] = 17};
        jpeg_add_quant_table(&library, 2, quantisers, 70, TRUE);
    }
    library.optimize_coding = how->optimized;
    library.restart_interval = (unsigned)how->restart;
    library.arith_code = how->arithmetic;
    if (how->progressive)
        jpeg_simple_progression(&library);
    if (how->separate) {
        library.scan_info = scans;
        library.num_scans = (int)components;
    }
    jpeg_start_compress(&library, TRUE);
    while (library.next_scanline < library.image_height) {
        draw_row(row, how->width, library.next_scanline, components, &seed);
        JSAMPROW rows = row;
        jpeg_write_scanlines(&library, &rows, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    free(row);
    /* From libjpeg's own malloc() into one of just the size. */
    bytes made = {out, size};
    bytes b = prefix(&made, size);
    free(out);
    return b;
}

/* No block has more than transforms can add up in 16 bits: what an encoder makes never has. The
 * file is one that libjpeg decodes. */
static inline bool has_sane_coefficients(const bytes *jpeg)
{
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    bool sane = true;

    library.err = jpeg_std_error(&errors);
    errors.output_message = print_no_message;
    jpeg_create_decompress(&library);
    jpeg_mem_src(&library, jpeg->data, jpeg->size);
    jpeg_read_header(&library, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&library);
    for (int i = 0; i < library.num_components; i++) {
        const jpeg_component_info *c = &library.comp_info[i];
        for (JDIMENSION y = 0; y < c->height_in_blocks; y++) {
            JBLOCKARRAY row =
                library.mem->access_virt_barray((j_common_ptr)&library, arrays[i], y, 1, FALSE);
            for (JDIMENSION x = 0; x < c->width_in_blocks; x++) {
                int64_t sum = 0;
                for (int k = 0; k < DCTSIZE2; k++)
                    sum += abs(row[0][x][k] * (int)c->quant_table->quantval[k]);
                sane = sane && sum <= 5000;
            }
        }
    }
    jpeg_finish_decompress(&library);
    jpeg_destroy_decompress(&library);
    return sane;
}

/* ---- The room's decoder ------------------------------------------------------------------------
 */

static inline stk__image_decoder *make_decoder(stk_context *ctx, uint32_t pixel_bytes)
{
    stk__image_decoder *decoder = NULL;
    stk_error err;

    assert_ok(stk__image_decoder_create(ctx, NULL, pixel_bytes, &decoder, &err), &err);
    return decoder;
}

/*
 * Decode a box, in strips of `most` rows, into a new raster (data NULL unless STK_OK). Asserts that
 * the strips follow each other and are as many rows as the region.
 */
static inline stk_status decode_box(stk__image_decoder *decoder, const bytes *b,
                                    const stk__image_box *box, uint32_t scale, uint32_t most,
                                    uint32_t pixel_bytes, stk__image_region *region, raster *out,
                                    const char **reason)
{
    stk__image_rows rows;
    uint32_t done = 0;

    *out = (raster){0};
    stk_status status =
        stk__image_decoder_begin(decoder, b->data, b->size, box, scale, region, reason);
    if (status != STK_OK)
        return status;
    *out =
        (raster){region->width, region->height, malloc((size_t)region->width * region->height * 3)};
    assert_non_null(out->data);
    while ((status = stk__image_decoder_rows(decoder, most, &rows, reason)) == STK_OK) {
        assert_int_equal(rows.first, done);
        assert_true(rows.count >= 1 && rows.count <= (most ? most : STK__IMAGE_STRIP_ROWS));
        assert_true(rows.count <= region->height - done);
        for (uint32_t y = 0; y < rows.count; y++, done++)
            for (uint32_t x = 0; x < region->width; x++)
                memcpy(out->data + ((size_t)done * region->width + x) * 3,
                       rows.data + y * rows.stride + (size_t)x * pixel_bytes, 3);
    }
    if (status == STK_EOS) {
        assert_int_equal(done, region->height);
        assert_int_equal(stk__image_decoder_rows(decoder, most, &rows, reason), STK_EOS);
        return STK_OK;
    }
    assert_true(**reason);
    free(out->data);
    out->data = NULL;
    return status;
}

static inline stk__image_box random_box(uint32_t width, uint32_t height, uint64_t *seed)
{
    stk__image_box box;

    box.width = 1 + (uint32_t)(test_random(seed) % width);
    box.height = 1 + (uint32_t)(test_random(seed) % height);
    /* Small ones as often as large ones. */
    if (test_random(seed) % 2) {
        box.width = 1 + box.width % 24 % width;
        box.height = 1 + box.height % 24 % height;
    }
    box.x = (uint32_t)(test_random(seed) % (width - box.width + 1));
    box.y = (uint32_t)(test_random(seed) % (height - box.height + 1));
    return box;
}

/* Whether `part` is what `whole` has from (x, y) on. */
static inline bool is_part(const raster *part, const raster *whole, uint32_t x, uint32_t y)
{
    for (uint32_t row = 0; row < part->height; row++)
        if (memcmp(part->data + (size_t)row * part->width * 3,
                   whole->data + ((size_t)(y + row) * whole->width + x) * 3,
                   (size_t)part->width * 3))
            return false;
    return true;
}

#endif

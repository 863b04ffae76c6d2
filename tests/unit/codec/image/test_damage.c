/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures that are cut, corrupt, hostile or no pictures: a status, a reason, and no pixels. */
#include "pictures.h"

#include <zlib.h>

typedef struct rig {
    stk_context *ctx;
    stk__image_decoder *decoder;
} rig;

static int set_up(void **state)
{
    rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    r->ctx = test_context();
    r->decoder = make_decoder(r->ctx, 3);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    rig *r = *state;

    stk__image_decoder_destroy(&r->decoder);
    stk_context_destroy(&r->ctx);
    free(r);
    return 0;
}

static stk_status decode(rig *r, const bytes *b, const stk__image_box *box, const char **reason)
{
    stk__image_region region;
    raster out;

    stk_status status = decode_box(r->decoder, b, box, 1, 0, 3, &region, &out, reason);
    free(out.data);
    return status;
}

static void check_refused(rig *r, const bytes *b, stk_status expected, const char *part)
{
    const char *reason = "";
    stk_status status = decode(r, b, NULL, &reason);

    if (status != expected || !strstr(reason, part))
        fail_msg("%s (%s) instead of %s (%s)", stk_status_name(status), reason,
                 stk_status_name(expected), part);
}

/* Offset of the `which`-th marker of a kind in a JPEG, from its FF on. */
static size_t find_marker(const bytes *b, uint8_t marker, int which)
{
    for (size_t i = 2; i + 1 < b->size; i++)
        if (b->data[i] == 0xff && b->data[i + 1] == marker && which-- == 0)
            return i;
    fail_msg("no marker %x", marker);
    return 0;
}

/* Offset of the length field of the first chunk of a type. */
static size_t find_chunk(const bytes *b, const char *type)
{
    uint8_t *p = memmem(b->data, b->size, type, 4);

    assert_non_null(p);
    return (size_t)(p - b->data) - 4;
}

/* Make the checksum of the chunk at `at` right again. */
static void mend(bytes *b, size_t at)
{
    uint8_t *p = b->data + at;
    size_t length = (size_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    uint32_t sum = (uint32_t)crc32(0, p + 4, (uInt)length + 4);

    for (int i = 0; i < 4; i++)
        p[8 + length + i] = (uint8_t)(sum >> (24 - 8 * i));
}

/* Whatever box is asked for, a cut picture is known to be cut. */
static void test_truncation(void **state)
{
    static const char *const names[] = {"base_420.jpg", "progressive_444.jpg",   "restart.jpg",
                                        "cmyk.jpg",     "comment.jpg",           "exif_6.jpg",
                                        "rgb_8.png",    "grey_1_interlaced.png", "palette_8.png",
                                        "text.png"};
    static const stk__image_box corner = {0, 0, 1, 1};
    const char *reason;
    rig *r = *state;

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        bytes all = load_golden(names[i]);
        for (size_t n = 0; n < all.size; n++) {
            bytes cut = prefix(&all, n);
            for (int whole = 0; whole < 2; whole++) {
                stk_status status = decode(r, &cut, whole ? NULL : &corner, &reason);
                if (status != STK_ETRUNCATED)
                    fail_msg("%s cut to %zu of %zu: %s: %s", names[i], n, all.size,
                             stk_status_name(status), reason);
            }
            free(cut.data);
        }
        check_refused(r, &(bytes){all.data, all.size - 1}, STK_ETRUNCATED, "copy or download");
        assert_int_equal(decode(r, &all, NULL, &reason), STK_OK);
        free(all.data);
    }
}

/* Padding behind the end, and zeros where the end should be. */
static void test_padding(void **state)
{
    bytes all = load_golden("base_420.jpg"), padded = {calloc(1, all.size + 4096), all.size + 4096};
    const char *reason;
    rig *r = *state;

    memcpy(padded.data, all.data, all.size);
    assert_int_equal(decode(r, &padded, NULL, &reason), STK_OK);
    memset(padded.data + all.size - 100, 0, 100);
    check_refused(r, &padded, STK_ETRUNCATED, "no end marker");
    free(padded.data);
    free(all.data);
}

/* A byte changed anywhere: no crash; and never more or fewer rows, which decode_box() asserts. */
static void test_changed_bytes(void **state)
{
    static const char *const names[] = {
        "base_420.jpg",  "progressive_444.jpg",   "ycck.jpg", "restart.jpg", "rgb_16.png",
        "palette_4.png", "grey_16_interlaced.png"};
    static const stk__image_box box = {3, 5, 9, 7};
    uint64_t seed = 3;
    const char *reason;
    rig *r = *state;

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        bytes all = load_golden(names[i]);
        bool png = strstr(names[i], ".png");
        size_t passed = 0;
        for (size_t at = 0; at < all.size; at++) {
            uint8_t old = all.data[at];
            all.data[at] ^= (uint8_t)(1 + test_random(&seed) % 255);
            stk_status status = decode(r, &all, at % 2 ? &box : NULL, &reason);
            passed += status == STK_OK;
            all.data[at] = old;
        }
        /* Everything critical in a PNG has a checksum; these have nothing else. */
        if (png)
            assert_int_equal(passed, 0);
        assert_int_equal(decode(r, &all, NULL, &reason), STK_OK);
        free(all.data);
    }
}

static void test_no_pictures(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        stk_status status;
        const char *part;
    } rows[] = {
        {"", 0, STK_ETRUNCATED, "empty"},
        {"\xff", 1, STK_ETRUNCATED, "first bytes"},
        {"\xff\xd8", 2, STK_ETRUNCATED, "first bytes"},
        {"\x89PNG", 4, STK_ETRUNCATED, "first bytes"},
        {"GIF89a..", 8, STK_EFORMAT, "neither a JPEG nor a PNG"},
        {"\0\0\0\0\0\0\0\0\0\0\0\0", 12, STK_EFORMAT, "neither"},
        {"<html>not found</html>", 22, STK_EFORMAT, "neither"},
        {"\xff\xd8\xff\xd9", 4, STK_EFORMAT, "where none may be"},
        {"\xff\xd8\xff\xd8\xff\xd9", 6, STK_EFORMAT, "where none may be"},
        {"\xff\xd8\xff\xe0\0\1", 6, STK_EFORMAT, "impossible length"},
        {"\xff\xd8\xff\xda\0\x08\1\1\0\0\x3f\0", 12, STK_EFORMAT, "without a frame"},
        {"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82", 20, STK_EFORMAT, "begin with its header"},
    };
    rig *r = *state;

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        bytes b = {(uint8_t *)rows[i].text, rows[i].size}, copy = prefix(&b, b.size);
        check_refused(r, &copy, rows[i].status, rows[i].part);
        free(copy.data);
    }
    assert_int_equal(stk__image_recognize("\xff\xd8\xff", 3), STK__IMAGE_JPEG);
    assert_int_equal(stk__image_recognize("\xff\xd8", 2), STK__IMAGE_UNKNOWN);
    stk_error err;
    assert_fails(stk__image_fail(&err, STK_EFORMAT, "a/b.jpg", "it is bad"), STK_EFORMAT, &err,
                 "a/b.jpg: it is bad");
}

/* Kinds of JPEG that are refused, each by its name: a byte of a sound one's frame header changed.
 */
static void test_other_kinds(void **state)
{
    static const struct {
        int at; /* from the FF of the frame marker on */
        uint8_t value;
        stk_status status;
        const char *part;
    } rows[] = {
        {4, 12, STK_EKIND, "12-bit"},        {4, 16, STK_EFORMAT, "precision"},
        {1, 0xc3, STK_EKIND, "lossless"},    {1, 0xc5, STK_EKIND, "hierarchical"},
        {1, 0xcf, STK_EKIND, "lossless"},    {9, 9, STK_EFORMAT, "frame header"},
        {11, 0x00, STK_EFORMAT, "sampling"}, {11, 0x51, STK_EFORMAT, "sampling"},
        {11, 0x44, STK_EKIND, "supported"},  {12, 3, STK_EFORMAT, "does not define"},
    };
    rig *r = *state;

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        bytes b = load_golden("base_444.jpg");
        b.data[find_marker(&b, 0xc0, 0) + rows[i].at] = rows[i].value;
        check_refused(r, &b, rows[i].status, rows[i].part);
        free(b.data);
    }
    bytes b = load_golden("base_444.jpg");
    size_t at = find_marker(&b, 0xc0, 0);
    memset(b.data + at + 5, 0, 2);
    check_refused(r, &b, STK_EKIND, "DNL");
    memset(b.data + at + 5, 1, 2);
    memset(b.data + at + 7, 0, 2);
    check_refused(r, &b, STK_EFORMAT, "impossible width");
    free(b.data);
    /* Two components: a frame header that is shorter by one. */
    b = load_golden("base_444.jpg");
    at = find_marker(&b, 0xc0, 0);
    b.data[at + 3] = 14;
    b.data[at + 9] = 2;
    memmove(b.data + at + 16, b.data + at + 19, b.size - at - 19);
    b.size -= 3;
    check_refused(r, &b, STK_EKIND, "two components");
    free(b.data);
}

/* A picture without tables is not decoded with those of the one before. */
static void test_tables_of_another(void **state)
{
    bytes all = load_golden("base_420.jpg"), bare = prefix(&all, all.size);
    const char *reason;
    rig *r = *state;

    for (size_t at = 2; bare.data[at + 1] != 0xda;) {
        size_t length = 2 + ((size_t)bare.data[at + 2] << 8 | bare.data[at + 3]);
        if (bare.data[at + 1] == 0xdb) {
            memmove(bare.data + at, bare.data + at + length, bare.size - at - length);
            bare.size -= length;
        } else {
            at += length;
        }
    }
    check_refused(r, &bare, STK_EFORMAT, "does not define");
    assert_int_equal(decode(r, &all, NULL, &reason), STK_OK);
    check_refused(r, &bare, STK_EFORMAT, "does not define");
    free(bare.data);
    free(all.data);
}

/* Damage that libjpeg only warns about. */
static void test_warnings(void **state)
{
    recipe how = {64, 64, .sampling = "2x2,1x1,1x1", .restart = 2};
    bytes b = make_jpeg(&how, 1);
    const char *reason;
    rig *r = *state;

    assert_int_equal(decode(r, &b, NULL, &reason), STK_OK);
    size_t at = find_marker(&b, 0xd0, 0);
    b.data[at + 1] = 0xd3;
    check_refused(r, &b, STK_EFORMAT, "corrupt JPEG data");
    b.data[at + 1] = 0xd9;
    check_refused(r, &b, STK_EFORMAT, "corrupt JPEG data");
    b.data[at + 1] = 0xd0;
    /* Bytes of no use before the end, which only a box with the last row sees. */
    bytes more = {malloc(b.size + 5), b.size + 5};
    memcpy(more.data, b.data, b.size - 2);
    memcpy(more.data + b.size - 2, "\1\2\3\4\5\xff\xd9", 7);
    check_refused(r, &more, STK_EFORMAT, "belong to nothing");
    assert_int_equal(decode(r, &more, &(stk__image_box){0, 0, 64, 63}, &reason), STK_OK);
    free(more.data);
    free(b.data);
}

static void test_huge_header(void **state)
{
    bytes b = load_golden("base_420.jpg"), p = load_golden("rgb_8.png");
    stk__image_info info;
    stk_memory_stats stats = {.struct_size = sizeof stats};
    const char *reason;
    rig *r = *state;

    stk_context_memory(r->ctx, &stats);
    uint64_t before = stats.peak_bytes;
    memset(b.data + find_marker(&b, 0xc0, 0) + 5, 0xff, 4);
    check_refused(r, &b, STK_ELIMIT, "max_pixels");
    assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_ELIMIT);
    assert_true(info.width == 65535 && info.height == 65535);
    memset(p.data + 16, 0x7f, 8);
    mend(&p, 8);
    check_refused(r, &p, STK_ELIMIT, "max_pixels");
    p.data[16] = 0x80;
    mend(&p, 8);
    check_refused(r, &p, STK_EFORMAT, "impossible values");
    stk_context_memory(r->ctx, &stats);
    assert_true(stats.peak_bytes == before);
    /* Sides that libjpeg does not take, within max_pixels. */
    memcpy(b.data + find_marker(&b, 0xc0, 0) + 5, "\0\1\xff\xff", 4);
    check_refused(r, &b, STK_ELIMIT, "65500");
    free(b.data);
    free(p.data);
}

static void test_limits(void **state)
{
    bytes b = load_golden("progressive_420.jpg"), p = load_golden("rgb_8_interlaced.png");
    stk__image_limits limits;
    stk__image_info info;
    const char *reason;

    stk__image_limits_init(&limits);
    assert_int_equal(limits.max_pixels, 64 << 20);
    assert_int_equal(limits.max_scans, 100);
    limits.max_pixels = 67 * 53;
    assert_int_equal(stk__image_peek(b.data, b.size, &limits, &info, &reason), STK_OK);
    limits.max_memory = info.memory - 1;
    assert_int_equal(stk__image_peek(b.data, b.size, &limits, &info, &reason), STK_ELIMIT);
    assert_non_null(strstr(reason, "memory"));
    limits.max_pixels--;
    assert_int_equal(stk__image_peek(b.data, b.size, &limits, &info, &reason), STK_ELIMIT);
    assert_non_null(strstr(reason, "max_pixels"));
    stk__image_limits_init(&limits);
    assert_int_equal(stk__image_peek(p.data, p.size, &limits, &info, &reason), STK_OK);
    limits.max_memory = info.memory - 1;
    assert_int_equal(stk__image_peek(p.data, p.size, &limits, &info, &reason), STK_ELIMIT);
    free(b.data);
    free(p.data);
}

/* One scan for the DC and one for each AC coefficient of each component: 190, all of them sound. */
static bytes make_bomb(void)
{
    static jpeg_scan_info scans[190] = {{3, {0, 1, 2}, 0, 0, 0, 0}};
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    uint8_t row[32 * 3] = {0};
    JSAMPROW rows = row;

    for (int i = 1; i < 190; i++)
        scans[i] = (jpeg_scan_info){1, {(i - 1) / 63}, (i - 1) % 63 + 1, (i - 1) % 63 + 1, 0, 0};
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &out, &size);
    library.image_width = library.image_height = 32;
    library.input_components = 3;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    library.scan_info = scans;
    library.num_scans = 190;
    jpeg_start_compress(&library, TRUE);
    while (library.next_scanline < 32)
        jpeg_write_scanlines(&library, &rows, 1);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    return (bytes){out, size};
}

static void test_progressive_bomb(void **state)
{
    bytes bomb = make_bomb();
    stk__image_decoder *patient = NULL;
    stk__image_limits limits;
    stk__image_region region;
    const char *reason;
    uint64_t ns;
    raster out;
    stk_error err;
    rig *r = *state;

    check_refused(r, &bomb, STK_ELIMIT, "more scans than the 100");
    assert_int_equal(stk__image_entropy_time(r->decoder, bomb.data, bomb.size, &ns, &reason),
                     STK_ELIMIT);
    stk__image_limits_init(&limits);
    limits.max_scans = 189;
    assert_int_equal(stk__image_peek(bomb.data, bomb.size, &limits, &(stk__image_info){0}, &reason),
                     STK_ELIMIT);
    limits.max_scans = 190;
    assert_ok(stk__image_decoder_create(r->ctx, &limits, 3, &patient, &err), &err);
    assert_int_equal(decode_box(patient, &bomb, NULL, 1, 0, 3, &region, &out, &reason), STK_OK);
    free(out.data);
    stk__image_decoder_destroy(&patient);
    free(bomb.data);
    assert_fails(stk__image_decoder_create(r->ctx, NULL, 5, &patient, &err), STK_EINVAL, &err,
                 "1 (masks), 3 or 4 bytes");
}

/*
 * The script that libjpeg makes for colour goes 14 times through the blocks of a component: DC of
 * all three and its refinement, five scans of AC of the luma and three of each chroma.
 */
static void test_blocks_of_scans(void **state)
{
    bytes b = load_golden("progressive_444.jpg"), s = load_golden("base_420.jpg");
    stk__image_decoder *strict = NULL;
    stk__image_limits limits;
    stk__image_region region;
    stk__image_info info;
    const char *reason;
    raster out;
    stk_error err;
    rig *r = *state;

    stk__image_limits_init(&limits);
    assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
    uint64_t blocks = (uint64_t)((info.width + 7) / 8) * ((info.height + 7) / 8);
    assert_int_equal(info.scans, 10);
    assert_int_equal(info.blocks, 14 * blocks);
    /* A picture of max_pixels that was saved so is within the limit. */
    assert_true(14 * (limits.max_pixels / 64) < limits.max_blocks);
    limits.max_blocks = info.blocks;
    assert_ok(stk__image_decoder_create(r->ctx, &limits, 3, &strict, &err), &err);
    assert_int_equal(decode_box(strict, &b, NULL, 1, 0, 3, &region, &out, &reason), STK_OK);
    free(out.data);
    stk__image_decoder_destroy(&strict);
    limits.max_blocks--;
    assert_int_equal(stk__image_peek(b.data, b.size, &limits, &info, &reason), STK_ELIMIT);
    assert_non_null(strstr(reason, "max_blocks"));
    /* A component of the name of another: the larger one counts. One that is none: nothing. */
    size_t frame = find_marker(&b, 0xc2, 0), scan = find_marker(&b, 0xda, 1);
    assert_int_equal(b.data[scan + 4], 1);
    b.data[frame + 10 + 1] = 0x21;
    b.data[frame + 10 + 3] = b.data[frame + 10];
    assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
    uint64_t twice = info.blocks;
    b.data[frame + 10 + 1] = 0x11;
    b.data[frame + 10 + 4] = 0x21;
    assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
    assert_int_equal(info.blocks, twice);
    /* A file of one scan: the luma has four blocks where a chroma has one. */
    assert_int_equal(stk__image_peek(s.data, s.size, NULL, &info, &reason), STK_OK);
    assert_int_equal(info.scans, 1);
    assert_int_equal(info.blocks, (info.width + 15) / 16 * ((info.height + 15) / 16) * 6);
    free(b.data);
    free(s.data);
}

static void test_png_chunks(void **state)
{
    static const stk__image_box corner = {0, 0, 1, 1};
    bytes b = load_golden("rgb_8.png"), t = load_golden("text.png");
    const char *reason;
    rig *r = *state;

    /* A checksum is compared although the box lies above. */
    uint8_t *last = b.data + b.size - 12 - 6;
    *last ^= 1;
    assert_int_equal(decode(r, &b, &corner, &reason), STK_ECHECKSUM);
    *last ^= 1;
    /* Compressed data that is wrong under a right checksum: a block of the type that is none. */
    size_t at = find_chunk(&b, "IDAT");
    uint8_t old = b.data[at + 10];
    b.data[at + 10] |= 6;
    mend(&b, at);
    check_refused(r, &b, STK_EFORMAT, "compressed pixels");
    b.data[at + 10] = old;
    mend(&b, at);
    /* More rows than there is data for. */
    b.data[23]++;
    mend(&b, 8);
    check_refused(r, &b, STK_EFORMAT, "fewer pixels");
    b.data[23]--;
    mend(&b, 8);
    assert_int_equal(decode(r, &b, NULL, &reason), STK_OK);
    /* Types: none, an unknown critical one, and no pixels at all. */
    b.data[at + 4] = '1';
    check_refused(r, &b, STK_EFORMAT, "impossible type");
    b.data[at + 4] = 'J';
    mend(&b, at);
    check_refused(r, &b, STK_EFORMAT, "critical chunk");
    /* What is ancillary may be wrong in any way, and is not looked at. */
    at = find_chunk(&t, "zTXt");
    t.data[at + 15] ^= 0xff;
    assert_int_equal(decode(r, &t, NULL, &reason), STK_OK);
    t.data[find_chunk(&t, "IDAT") + 4] = 'i';
    check_refused(r, &t, STK_EFORMAT, "no pixels");
    free(b.data);
    free(t.data);
    /* A palette picture without a palette. */
    bytes p = load_golden("palette_8.png");
    p.data[find_chunk(&p, "PLTE") + 4] = 'p';
    check_refused(r, &p, STK_EFORMAT, "palette");
    free(p.data);
}

/* EXIF blocks of random bytes, with pieces that make some sense. */
static void test_absurd_exif(void **state)
{
    bytes all = load_golden("exif_6.jpg"), b = prefix(&all, all.size);
    size_t at = find_marker(&all, 0xe1, 0) + 10, size = 26;
    stk__image_info info;
    const char *reason;
    uint64_t seed = 1;
    int turned = 0;

    for (int i = 0; i < 20000; i++) {
        memcpy(b.data + at, all.data + at, size);
        for (uint64_t n = 1 + test_random(&seed) % 4; n; n--)
            b.data[at + test_random(&seed) % size] = (uint8_t)test_random(&seed);
        assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
        assert_true(info.orientation >= 1 && info.orientation <= 8);
        turned += info.orientation != 1;
    }
    assert_true(turned > 100 && turned < 19000);
    /* Each of these makes it absurd: order, 42, offset, count of entries, type, count, value. */
    static const struct {
        int at;
        uint8_t value;
    } rows[] = {{0, 'J'}, {2, 43}, {7, 0xff}, {4, 7}, {8, 0}, {12, 4}, {14, 2}, {18, 9}, {18, 0}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        bool big = all.data[at] == 'M';
        memcpy(b.data + at, all.data + at, size);
        /* exif_6.jpg has the upper byte first: swap places within words of two and four. */
        int place = rows[i].at;
        if (big)
            place = place == 2    ? 3
                    : place == 4  ? 7
                    : place == 7  ? 4
                    : place == 8  ? 9
                    : place == 12 ? 13
                    : place == 14 ? 17
                    : place == 18 ? 19
                                  : place;
        b.data[at + place] = rows[i].value;
        assert_int_equal(stk__image_peek(b.data, b.size, NULL, &info, &reason), STK_OK);
        assert_int_equal(info.orientation, 1);
    }
    free(all.data);
    free(b.data);
}

/* The head of a file is enough for its header. */
static void test_peek_at_head(void **state)
{
    bytes j = load_golden("exif_8.jpg"), p = load_golden("exif_6.png");
    stk__image_info info;
    const char *reason;
    size_t scan = find_marker(&j, 0xda, 0) + 14;

    bytes head = prefix(&j, scan);
    assert_int_equal(stk__image_peek(head.data, head.size, NULL, &info, &reason), STK_OK);
    assert_int_equal(info.orientation, 8);
    assert_int_equal(stk__image_peek(head.data, head.size - 1, NULL, &info, &reason),
                     STK_ETRUNCATED);
    assert_int_equal(info.format, STK__IMAGE_UNKNOWN);
    free(head.data);
    head = prefix(&p, find_chunk(&p, "IDAT") + 8);
    assert_int_equal(stk__image_peek(head.data, head.size, NULL, &info, &reason), STK_OK);
    assert_true(info.orientation == 6 && info.width == 20);
    assert_int_equal(stk__image_peek(head.data, head.size - 1, NULL, &info, &reason),
                     STK_ETRUNCATED);
    free(head.data);
    free(j.data);
    free(p.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncation),       cmocka_unit_test(test_padding),
        cmocka_unit_test(test_changed_bytes),    cmocka_unit_test(test_no_pictures),
        cmocka_unit_test(test_other_kinds),      cmocka_unit_test(test_tables_of_another),
        cmocka_unit_test(test_warnings),         cmocka_unit_test(test_huge_header),
        cmocka_unit_test(test_limits),           cmocka_unit_test(test_blocks_of_scans),
        cmocka_unit_test(test_progressive_bomb), cmocka_unit_test(test_png_chunks),
        cmocka_unit_test(test_absurd_exif),      cmocka_unit_test(test_peek_at_head),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

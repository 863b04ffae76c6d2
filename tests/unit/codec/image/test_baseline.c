/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of baseline JPEG against libjpeg: the same pixels, and the same word on damage. */
#include "codec/image/baseline.h"
#include "photographs.h"

typedef struct pair {
    stk_context *ctx;
    stk__image_decoder *own, *library;
} pair;

static int set_up(void **state)
{
    pair *p = calloc(1, sizeof *p);

    assert_non_null(p);
    p->ctx = test_context();
    p->own = make_decoder(p->ctx, 3);
    p->library = make_decoder(p->ctx, 3);
    p->own->by = STK__JPEG_BY_BASELINE;
    p->library->by = STK__JPEG_BY_LIBRARY;
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    pair *p = *state;

    stk__image_decoder_destroy(&p->own);
    stk__image_decoder_destroy(&p->library);
    stk_context_destroy(&p->ctx);
    free(p);
    return 0;
}

static bool is_taken(const bytes *jpeg)
{
    stk__baseline_header header;

    return stk__baseline_read(jpeg->data, &header);
}

/* Both decode the box, and to the same pixels. */
static void check_same(pair *p, const bytes *jpeg, const stk__image_box *box, uint32_t most,
                       const char *name)
{
    stk__image_region region;
    const char *reason;
    raster own, library;

    if (decode_box(p->library, jpeg, box, 1, 0, 3, &region, &library, &reason) != STK_OK)
        fail_msg("%s through libjpeg: %s", name, reason);
    if (decode_box(p->own, jpeg, box, 1, most, 3, &region, &own, &reason) != STK_OK)
        fail_msg("%s: %s", name, reason);
    if (memcmp(own.data, library.data, (size_t)region.width * region.height * 3) != 0)
        fail_msg("%s: other pixels than libjpeg's (%u,%u %ux%u of %ux%u)", name, region.x, region.y,
                 region.width, region.height, region.picture_width, region.picture_height);
    free(own.data);
    free(library.data);
}

static const char *const samplings[] = {"1x1,1x1,1x1", "2x1,1x1,1x1", "1x2,1x1,1x1", "2x2,1x1,1x1",
                                        "1x1"};

static void test_all_sizes(void **state)
{
    pair *p = *state;
    char name[64];

    for (uint32_t height = 1; height <= 40; height++)
        for (uint32_t width = 1; width <= 40; width++)
            for (size_t i = 0; i < STK_COUNT(samplings); i++) {
                recipe how = {width, height, samplings[i], .restart = (int)(width % 4)};
                bytes jpeg = make_jpeg(&how, width * 64 + height);
                snprintf(name, sizeof name, "%ux%u %s", width, height, samplings[i]);
                check_same(p, &jpeg, NULL, width % 3 ? 0 : 1 + height % 16, name);
                free(jpeg.data);
            }
}

/* Every box of a small picture. */
static void test_all_boxes(void **state)
{
    pair *p = *state;
    char name[64];

    for (size_t i = 0; i < STK_COUNT(samplings); i++) {
        recipe how = {37, 35, samplings[i], .quality = 95};
        bytes jpeg = make_jpeg(&how, i);
        raster whole = plain_decode(&jpeg, 1), part;
        stk__image_region region;
        const char *reason;
        for (uint32_t n = 0; n < 37 * 35; n++) {
            stk__image_box box = {n % 37, n / 37, 1 + n % (37 - n % 37), 1 + n % (35 - n / 37)};
            assert_int_equal(decode_box(p->own, &jpeg, &box, 1, n % 17, 3, &region, &part, &reason),
                             STK_OK);
            snprintf(name, sizeof name, "%s %u,%u", samplings[i], box.x, box.y);
            if (!is_part(&part, &whole, box.x, box.y))
                fail_msg("%s: the box differs", name);
            free(part.data);
        }
        free(whole.data);
        free(jpeg.data);
    }
}

/* From hardly any to all coefficients, with tables of the picture's own and markers all over. */
static void test_qualities(void **state)
{
    pair *p = *state;
    char name[64];

    for (int quality = 1; quality <= 100; quality += quality < 90 ? 7 : 1)
        for (size_t i = 0; i < STK_COUNT(samplings); i++)
            for (int optimized = 0; optimized < 2; optimized++) {
                recipe how = {203, 149, samplings[i], .quality = quality,
                              .restart = quality % 5 * (optimized ? 1 : 3)};
                how.optimized = optimized;
                bytes jpeg = make_jpeg(&how, (uint64_t)quality);
                snprintf(name, sizeof name, "quality %d %s", quality, samplings[i]);
                assert_true(is_taken(&jpeg));
                check_same(p, &jpeg, NULL, 0, name);
                check_same(p, &jpeg, &(stk__image_box){40, 33, 90, 61}, 0, name);
                free(jpeg.data);
            }
}

/* Which pictures are the baseline decoder's. */
static void test_which_are_taken(void **state)
{
    static const struct {
        recipe how;
        bool taken;
    } rows[] = {
        {{20, 20, .sampling = "1x1,1x1,1x1"}, true},
        {{20, 20, .sampling = "2x1,1x1,1x1"}, true},
        {{20, 20, .sampling = "1x2,1x1,1x1"}, true},
        {{20, 20, .sampling = "2x2,1x1,1x1"}, true},
        {{20, 20, .sampling = "1x1"}, true},
        {{20, 20, .sampling = "2x2"}, true},
        {{20, 20, .sampling = "1x1,1x1,1x1", .rgb = true}, true},
        {{5, 1, .sampling = "2x2,1x1,1x1"}, true},
        {{4, 9, .sampling = "2x2,1x1,1x1"}, false},
        {{1, 9, .sampling = "1x2,1x1,1x1"}, true},
        {{20, 20, .sampling = "4x1,1x1,1x1"}, false},
        {{20, 20, .sampling = "2x2,2x1,2x1"}, false},
        {{20, 20, .sampling = "1x1,2x1,1x1"}, false},
        {{20, 20, .sampling = "1x1,1x1,1x1,1x1"}, false},
        {{20, 20, .sampling = "1x1,1x1,1x1", .progressive = true}, false},
        {{20, 20, .sampling = "1x1,1x1,1x1", .arithmetic = true}, false},
        {{20, 20, .sampling = "1x1,1x1,1x1", .separate = true}, false},
    };

    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        bytes jpeg = make_jpeg(&rows[i].how, i);
        if (is_taken(&jpeg) != rows[i].taken)
            fail_msg("recipe %zu is%s taken", i, rows[i].taken ? " not" : "");
        check_same(*state, &jpeg, NULL, 0, rows[i].how.sampling);
        free(jpeg.data);
    }
}

/* Colours by marker and by the names of the components, as libjpeg decides. */
static void test_colours(void **state)
{
    recipe how = {40, 30, .sampling = "2x2,1x1,1x1"};
    bytes jfif = make_jpeg(&how, 2), bare = prefix(&jfif, jfif.size);
    static const uint8_t adobe[] = {0xff, 0xee, 0,   14, 'A', 'd', 'o', 'b',
                                    'e',  0,    100, 0,  0,   0,   0,   0};
    static const char *const ids[] = {"\1\2\3", "RGB", "\0\1\2", "rgb", "BGR", "\1\2\4"};

    check_same(*state, &jfif, NULL, 0, "with JFIF");
    memmove(bare.data + 2, bare.data + 20, bare.size - 20); /* FF E0, 16 bytes */
    bare.size -= 18;
    assert_int_equal(bare.data[3], 0xdb);
    size_t frame = 0, scan = 0;
    for (size_t i = 2; i + 1 < bare.size && !scan; i++) {
        frame = bare.data[i] == 0xff && bare.data[i + 1] == 0xc0 ? i : frame;
        scan = bare.data[i] == 0xff && bare.data[i + 1] == 0xda ? i : scan;
    }
    for (size_t i = 0; i < STK_COUNT(ids); i++) {
        for (size_t c = 0; c < 3; c++) {
            bare.data[frame + 10 + 3 * c] = (uint8_t)ids[i][c];
            bare.data[scan + 5 + 2 * c] = (uint8_t)ids[i][c];
        }
        assert_true(is_taken(&bare));
        check_same(*state, &bare, NULL, 0, ids[i]);
        for (uint8_t transform = 0; transform < 3; transform++) {
            bytes marked = {malloc(bare.size + sizeof adobe), bare.size + sizeof adobe};
            memcpy(marked.data, bare.data, 2);
            memcpy(marked.data + 2, adobe, sizeof adobe);
            marked.data[17] = transform;
            memcpy(marked.data + 2 + sizeof adobe, bare.data + 2, bare.size - 2);
            check_same(*state, &marked, NULL, 0, "Adobe");
            free(marked.data);
        }
    }
    /* Two of the same name are libjpeg's to sort out. */
    bare.data[frame + 10] = bare.data[frame + 13];
    assert_false(is_taken(&bare));
    free(bare.data);
    free(jfif.data);
}

/* Quantisers of 16 bits, and tables that come one by one, twice, or for one component each. */
static void test_tables(void **state)
{
    recipe how = {60, 50, .sampling = "1x1,1x1,1x1", .quality = 2, .wide = true};
    bytes jpeg = make_jpeg(&how, 9);
    stk__baseline_header header;

    assert_true(stk__baseline_read(jpeg.data, &header));
    assert_true(header.wide[0]);
    check_same(*state, &jpeg, NULL, 0, "wide quantisers");
    free(jpeg.data);
    /* The third component takes tables of its own. */
    how = (recipe){60, 50, .sampling = "2x1,1x1,1x1", .three = true, .optimized = true};
    jpeg = make_jpeg(&how, 10);
    assert_true(stk__baseline_read(jpeg.data, &header));
    assert_true(header.components[2].ac == 2 && header.components[2].dc == 2);
    check_same(*state, &jpeg, NULL, 0, "three tables");
    free(jpeg.data);
}

typedef struct photographs {
    pair *pair;
    uint64_t seed;
    uint32_t taken;
} photographs;

static void check_photograph(void *user, const bytes *jpeg, const char *name)
{
    photographs *p = user;
    stk__image_info info;
    const char *reason;

    assert_int_equal(stk__image_peek(jpeg->data, jpeg->size, NULL, &info, &reason), STK_OK);
    stk__image_box box = random_box(info.width, info.height, &p->seed);
    check_same(p->pair, jpeg, NULL, 0, name);
    check_same(p->pair, jpeg, &box, 0, name);
    p->taken += is_taken(jpeg);
}

/* A third of the photographs, whole and a box of each. */
static void test_photographs(void **state)
{
    photographs p = {.pair = *state, .seed = 1};

    const uint32_t all = each_photograph(3, check_photograph, &p);
    assert_true(all > 50 && p.taken > all * 9 / 10);
}

/* ---- Odd and damaged ------------------------------------------------------------------------- */

static bytes insert(const bytes *b, size_t at, const char *text, size_t size)
{
    bytes out = {malloc(b->size + size), b->size + size};

    memcpy(out.data, b->data, at);
    memcpy(out.data + at, text, size);
    memcpy(out.data + at + size, b->data + at, b->size - at);
    return out;
}

static size_t marker_at(const bytes *b, uint8_t marker, int which)
{
    size_t i = b->size;

    for (size_t at = 2; at + 1 < b->size; at++)
        if (b->data[at] == 0xff && b->data[at + 1] == marker && which-- == 0)
            return at;
    fail_msg("no marker %x", marker);
    return i;
}

/* What libjpeg decodes without a warning, or with one, and is not as it should be: both agree, and
 * the rows given before are right. */
static void test_odd_bytes(void **state)
{
    static const struct {
        const char *text;
        size_t size;
    } odd[] = {
        {"\0", 1},
        {"\x7f", 1},
        {"\1\2\3", 3},
        {"\1\2\3\4\5\6\7\10\11\12\13\14", 12},
        {"\xff", 1},
        {"\xff\xff\xff", 3},
        {"\xff\xd4", 2},
        {"\xff\xfe\0\6note", 8},
        {"\xff\xdc\0\4\0\40", 6},
        {"\xff\0", 2},
    };
    pair *p = *state;

    for (size_t i = 0; i < STK_COUNT(odd); i++)
        for (int where = 0; where < 4; where++)
            for (int box = 0; box < 2; box++) {
                recipe how = {64, 90, .sampling = "2x2,1x1,1x1", .restart = where ? 4 : 0};
                bytes sound = make_jpeg(&how, i);
                size_t at =
                    where < 2 ? sound.size - 2 : marker_at(&sound, where == 2 ? 0xd0 : 0xd3, 0);
                bytes b = insert(&sound, at, odd[i].text, odd[i].size);
                stk__image_box upper = {3, 5, 50, 60};
                stk__image_region region;
                const char *own_reason = "", *library_reason = "";
                raster own, library;
                stk_status by_library = decode_box(p->library, &b, box ? &upper : NULL, 1, 0, 3,
                                                   &region, &library, &library_reason);
                stk_status by_own = decode_box(p->own, &b, box ? &upper : NULL, 1, 0, 3, &region,
                                               &own, &own_reason);
                if (by_own != by_library || strcmp(own_reason, library_reason) != 0)
                    fail_msg("odd bytes %zu at %d: %s (%s), libjpeg %s (%s)", i, where,
                             stk_status_name(by_own), own_reason, stk_status_name(by_library),
                             library_reason);
                if (by_own == STK_OK)
                    assert_memory_equal(own.data, library.data,
                                        (size_t)region.width * region.height * 3);
                free(own.data);
                free(library.data);
                free(b.data);
                free(sound.data);
            }
}

/* Restart markers that are lost, exchanged or too many. */
static void test_restarts(void **state)
{
    recipe how = {100, 80, .sampling = "2x1,1x1,1x1", .restart = 5};
    pair *p = *state;
    stk__image_region region;
    const char *reason;
    raster out;

    for (int what = 0; what < 4; what++) {
        bytes b = make_jpeg(&how, 4);
        size_t at = marker_at(&b, 0xd2, 0);
        if (what == 0) {
            memmove(b.data + at, b.data + at + 2, b.size - at - 2);
            b.size -= 2;
        } else {
            b.data[at + 1] = what == 1 ? 0xd3 : what == 2 ? 0xd9 : 0x01;
        }
        stk_status status = decode_box(p->own, &b, NULL, 1, 0, 3, &region, &out, &reason);
        assert_int_equal(status, STK_EFORMAT);
        assert_non_null(strstr(reason, "corrupt JPEG data"));
        assert_int_not_equal(decode_box(p->library, &b, NULL, 1, 0, 3, &region, &out, &reason),
                             STK_OK);
        free(b.data);
    }
    /* Above the box as well. */
    bytes b = make_jpeg(&how, 4);
    b.data[marker_at(&b, 0xd0, 0) + 1] = 0xd1;
    assert_int_equal(
        decode_box(p->own, &b, &(stk__image_box){1, 70, 5, 5}, 1, 0, 3, &region, &out, &reason),
        STK_EFORMAT);
    free(b.data);
}

/* Each byte changed: libjpeg alone decodes no more than a code that is none, and what both decode
 * is the same, as long as its coefficients are such as there can be. */
static void test_changed_bytes(void **state)
{
    pair *p = *state;
    uint64_t seed = 12;
    uint32_t passed = 0, compared = 0;

    for (size_t i = 0; i < STK_COUNT(samplings); i++) {
        recipe how = {45, 37, samplings[i], .restart = i % 2 ? 2 : 0, .optimized = i % 3 == 0};
        bytes b = make_jpeg(&how, i);
        for (size_t at = 0; at < b.size; at++) {
            uint8_t kept = b.data[at];
            b.data[at] ^= (uint8_t)(1u << test_random(&seed) % 8);
            stk__image_region region;
            const char *reason;
            raster own, library;
            stk_status by_own = decode_box(p->own, &b, NULL, 1, 0, 3, &region, &own, &reason);
            bool bad_code = by_own == STK_EFORMAT && strstr(reason, "impossible code");
            stk_status by_library =
                decode_box(p->library, &b, NULL, 1, 0, 3, &region, &library, &reason);
            if (by_own == STK_OK ? by_library != STK_OK : by_library == STK_OK && !bad_code)
                fail_msg("%s, byte %zu: %s, libjpeg %s (%s)", samplings[i], at,
                         stk_status_name(by_own), stk_status_name(by_library), reason);
            if (by_own == STK_OK && has_sane_coefficients(&b)) {
                if (memcmp(own.data, library.data, (size_t)region.width * region.height * 3) != 0)
                    fail_msg("%s, byte %zu: other pixels", samplings[i], at);
                compared++;
            }
            passed += by_own == STK_OK;
            free(own.data);
            free(library.data);
            b.data[at] = kept;
        }
        free(b.data);
    }
    assert_true(passed > 200 && compared > passed / 2);
}

/* A failure ends the picture: no strip after it, and the decoder can be used again. */
static void test_nothing_after_a_failure(void **state)
{
    recipe how = {64, 200, .sampling = "2x2,1x1,1x1", .restart = 4};
    pair *p = *state;
    bytes b = make_jpeg(&how, 3);
    stk__image_region region;
    stk__image_rows rows;
    stk_status status;
    const char *reason;
    uint32_t given = 0;

    b.data[marker_at(&b, 0xd5, 0) + 1] = 0xd0;
    assert_int_equal(stk__image_decoder_begin(p->own, b.data, b.size, NULL, 1, &region, &reason),
                     STK_OK);
    while ((status = stk__image_decoder_rows(p->own, 0, &rows, &reason)) == STK_OK)
        given += rows.count;
    assert_int_equal(status, STK_EFORMAT);
    assert_true(given > 0 && given < 200);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk__image_decoder_rows(p->own, 0, &rows, &reason), STK_EINVAL);
    b.data[marker_at(&b, 0xd0, 1) + 1] = 0xd5;
    check_same(p, &b, NULL, 0, "mended");
    free(b.data);
}

/* A decoder that goes from one picture to the next, kinds mixed, decodes each as if it were alone.
 */
static void test_one_after_the_other(void **state)
{
    pair *p = *state;
    uint64_t seed = 2;

    for (uint32_t i = 0; i < 400; i++) {
        recipe how = {1 + (uint32_t)(test_random(&seed) % 150),
                      1 + (uint32_t)(test_random(&seed) % 150),
                      samplings[test_random(&seed) % 5],
                      .progressive = i % 11 == 0,
                      .optimized = i % 3 == 0,
                      .restart = (int)(i % 7)};
        bytes jpeg = make_jpeg(&how, i);
        stk__image_box box = random_box(how.width, how.height, &seed);
        check_same(p, &jpeg, &box, i % 17, how.sampling);
        free(jpeg.data);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_sizes),
        TEST(test_all_boxes),
        TEST(test_qualities),
        TEST(test_which_are_taken),
        TEST(test_colours),
        TEST(test_tables),
        TEST(test_photographs),
        TEST(test_odd_bytes),
        TEST(test_restarts),
        TEST(test_changed_bytes),
        TEST(test_nothing_after_a_failure),
        TEST(test_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

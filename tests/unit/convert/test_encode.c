/* SPDX-License-Identifier: Apache-2.0 */
/* The encoder by itself: what it gives decodes to what went in, whatever size and option. */
#include "base/base.h"
#include "tree.h"

static void fill(uint8_t *rows, size_t size, uint64_t *random, bool noise)
{
    for (size_t i = 0; i < size; i++)
        rows[i] = noise ? (uint8_t)(test_random(random) >> 32) : (uint8_t)(i / 7);
}

static void check(stk_context *ctx, stk__image_encoder *encoder, uint32_t width, uint32_t height,
                  const stk__encode *how, bool noise, uint64_t *random)
{
    size_t size = (size_t)width * height * 3;
    uint8_t *rows = malloc(size), *out;
    const char *reason = "";
    bytes b;
    uint64_t length;

    fill(rows, size, random, noise);
    stk_status status = stk__image_encode(encoder, how, width, height, rows, (size_t)width * 3,
                                          &out, &length, &reason);
    if (status != STK_OK)
        fail_msg("%u x %u: %s", width, height, reason);
    b = (bytes){out, length};
    picture p = tree_decode(ctx, &b);
    assert_int_equal(p.info.width, width);
    assert_int_equal(p.info.height, height);
    assert_int_equal(p.info.components, how->grey ? 1 : 3);
    assert_int_equal(p.markers.frame, 0xc0);
    if (how->quality == 100 && how->subsampling == STK__JPEG_444 && !how->grey)
        for (size_t i = 0; i < size; i++)
            assert_in_range(abs(p.data[i] - rows[i]), 0, 4);
    free(p.data);
    free(rows);
    stk__free(ctx, out);
}

/* Noise at quality 100 is the longest that a JPEG becomes. */
static void test_sizes(void **state)
{
    stk_context *ctx = test_context();
    stk__image_encoder *encoder;
    stk_error err;
    uint64_t random = 7;

    assert_ok(stk__image_encoder_create(ctx, &encoder, &err), &err);
    for (int i = 0; i < 120; i++) {
        uint32_t width = 1 + (uint32_t)(test_random(&random) % (i < 100 ? 40 : 700));
        uint32_t height = 1 + (uint32_t)(test_random(&random) % (i < 100 ? 40 : 500));
        stk__encode how = {.quality = i % 3 ? 100 : 1 + (uint32_t)(test_random(&random) % 100),
                           .subsampling = (stk__subsampling)(i % 3 ? i % 4 % 3 : i / 3 % 3),
                           .restart_interval = i % 5 ? 0 : 3,
                           .grey = i % 7 == 0};
        check(ctx, encoder, width, height, &how, i % 2, &random);
    }
    stk__image_encoder_destroy(&encoder);
    stk_memory_stats memory = {.struct_size = sizeof memory};
    stk_context_memory(ctx, &memory);
    stk_context_destroy(&ctx);
}

static void test_refusals(void **state)
{
    static uint8_t rows[64 * 3];
    static const stk__encode good = {.quality = 90};
    stk_context *ctx = test_context();
    stk__image_encoder *encoder;
    const char *reason = "";
    uint8_t *out;
    uint64_t length;
    stk_error err;

    assert_ok(stk__image_encoder_create(ctx, &encoder, &err), &err);
    stk__encode bad[] = {good, good, good};
    bad[0].quality = 0;
    bad[1].quality = 101;
    bad[2].restart_interval = 65536;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            stk__image_encode(encoder, &bad[i], 8, 8, rows, 24, &out, &length, &reason),
            STK_EINVAL);
        assert_null(out);
    }
    assert_int_equal(stk__image_encode(encoder, &good, 0, 8, rows, 24, &out, &length, &reason),
                     STK_EINVAL);
    assert_int_equal(stk__image_encode(encoder, &good, 65501, 1, rows, 24, &out, &length, &reason),
                     STK_EINVAL);
    stk__image_encoder_destroy(&encoder);
    stk_context_destroy(&ctx);
}

/* A damaged JPEG is not written again, wherever the damage lies; and the encoder lives on. */
static void test_damage(void **state)
{
    stk_context *ctx = test_context();
    bytes b = tree_load(TESTS_DIR "/golden/images", "progressive_420.jpg");
    stk__encode how = {.quality = 90};
    stk__image_encoder *encoder;
    stk__image_limits limits;
    stk__image_info info;
    const char *reason = "";
    uint8_t *out;
    uint64_t length, random = 3;
    stk_error err;
    int good = 0;

    stk__image_limits_init(&limits);
    assert_ok(stk__image_encoder_create(ctx, &encoder, &err), &err);
    assert_int_equal(stk__image_peek(b.data, b.size, &limits, &info, &reason), STK_OK);
    for (size_t cut = 0; cut < b.size - 2; cut += 13) {
        assert_int_not_equal(stk__image_to_baseline(encoder, &how, b.data, cut, &info, &limits,
                                                    &out, &length, &reason),
                             STK_OK);
        assert_null(out);
    }
    for (int i = 0; i < 300; i++) {
        size_t at = test_random(&random) % b.size;
        b.data[at] ^= 16;
        if (stk__image_to_baseline(encoder, &how, b.data, b.size, &info, &limits, &out, &length,
                                   &reason) == STK_OK) {
            good++;
            stk__free(ctx, out);
        }
        b.data[at] ^= 16;
    }
    assert_true(good < 300);
    limits.max_scans = 2;
    assert_int_equal(stk__image_to_baseline(encoder, &how, b.data, b.size, &info, &limits, &out,
                                            &length, &reason),
                     STK_ELIMIT);
    limits.max_scans = 100;
    assert_int_equal(stk__image_to_baseline(encoder, &how, b.data, b.size, &info, &limits, &out,
                                            &length, &reason),
                     STK_OK);
    stk__free(ctx, out);
    free(b.data);
    stk__image_encoder_destroy(&encoder);
    stk_context_destroy(&ctx);
}

/* Markers that lie about their length, and EXIF that is none. */
static void test_markers(void **state)
{
    static const uint8_t lies[] = {0xff, 0xd8, 0xff, 0xe1, 0xff, 0xff, 'E', 'x', 'i', 'f', 0, 0};
    static const uint8_t good[] = {0xff, 0xd8, 0xff, 0xff, 0xe1, 0,    9, 'E', 'x',  'i',
                                   'f',  0,    0,    'M',  0xff, 0xc2, 0, 2,   0xff, 0xda};
    stk__jpeg_markers m;

    for (size_t cut = 0; cut <= sizeof lies; cut++) {
        stk__jpeg_read_markers(lies, cut, &m);
        assert_null(m.exif);
    }
    stk__jpeg_read_markers(good, sizeof good, &m);
    assert_int_equal(m.frame, 0xc2);
    assert_ptr_equal(m.exif, good + 7);
    assert_int_equal(m.exif_length, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_markers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

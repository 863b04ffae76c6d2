/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that may be missing. The bytes of uint8 are zarrs' (zarrs 0.23,
 * tests/data/v3/array_optional.zarr); the others follow its codec. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <stoker/array.h>

#include "base/base.h"
#include "support/objects.h"

#define PLAIN                                                                                      \
    "[{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"packbits\"],\"data_codecs\":"   \
    "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}]}}]"

/* Four elements in a row of chunks of four, of which there is one. */
static stk_status open_array(test_room *r, const char *type, const char *fill, const char *codecs,
                             stk_array **a, stk_error *err)
{
    char text[1024];

    int n = snprintf(text, sizeof text,
                     "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[8],\"data_type\":"
                     "{\"name\":\"optional\",\"configuration\":%s},\"fill_value\":%s,"
                     "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4]}}"
                     ",\"chunk_key_encoding\":\"default\",\"codecs\":%s}",
                     type, fill, codecs);
    assert_true(n < (int)sizeof text);
    test_put(r->store, "a/zarr.json", text, (size_t)n);
    stk_error_init(err);
    return stk_array_open(r->ctx, "mem://o/a", NULL, a, err);
}

static void test_reference(void **unused)
{
    static const char metadata[] =
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4,4],\"data_type\":{\"name\":"
        "\"optional\",\"configuration\":{\"name\":\"uint8\",\"configuration\":{}}},\"chunk_grid\":"
        "{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,2]}},\"chunk_key_encoding\":"
        "{\"name\":\"default\",\"configuration\":{\"separator\":\"/\"}},\"fill_value\":null,"
        "\"codecs\":" PLAIN "}";
    static const uint8_t first[] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 5};
    static const uint8_t second[] = {1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x0b, 2, 3, 7};
    static const uint8_t third[] = {1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 12};
    static const double want[16] = {0, NAN, 2,   3,   NAN, 5,   NAN, 7,
                                    8, 9,   NAN, NAN, 12,  NAN, NAN, NAN};
    double out[16];
    stk_array *a = NULL;
    test_room r = test_room_open("mem://o");
    stk_error err;

    test_put(r.store, "r/zarr.json", metadata, strlen(metadata));
    test_put(r.store, "r/c/0/0", first, sizeof first);
    test_put(r.store, "r/c/0/1", second, sizeof second);
    test_put(r.store, "r/c/1/0", third, sizeof third);
    assert_ok(stk_array_open(r.ctx, "mem://o/r", NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->dtype, STK_FLOAT64);
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    for (int i = 0; i < 16; i++)
        if (isnan(want[i]) ? !isnan(out[i]) : out[i] != want[i])
            fail_msg("element %d is %g and should be %g", i, out[i], want[i]);
    stk_array_close(&a);
    test_room_close(&r);
}

/* A mask of a byte for each element, compressed values of the other order; fill values. */
static void test_types(void **unused)
{
    static const char codecs[] =
        "[{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"bytes\"],\"data_codecs\":"
        "[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"big\"}},\"numcodecs.zlib\"]}},"
        "\"crc32c\"]";
    static const char time[] = "{\"name\":\"numpy.datetime64\",\"configuration\":{\"unit\":\"s\","
                               "\"scale_factor\":1}}";
    static const uint8_t floats[8] = {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0}; /* 1, -2.5 */
    static const uint8_t times[16] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7};
    uint8_t chunk[100] = {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1};
    unsigned long length = sizeof chunk - 24;
    stk_array *a = NULL;
    test_room r = test_room_open("mem://o");
    float out[8];
    int64_t stamps[8];
    stk_error err;

    assert_int_equal(compress(chunk + 20, &length, floats, sizeof floats), Z_OK);
    chunk[8] = (uint8_t)length;
    test_put(r.store, "a/c/0", chunk, 20 + length + 4);
    assert_ok(
        open_array(&r, "{\"name\":\"float32\",\"configuration\":{}}", "[7.5]", codecs, &a, &err),
        &err);
    assert_int_equal(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), STK_ECHECKSUM);
    stk_array_close(&a);
    assert_ok(stk_array_open(r.ctx, "mem://o/a?checksums=false", NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    assert_true(isnan(out[0]) && out[1] == 1 && isnan(out[2]) && out[3] == -2.5f && out[4] == 7.5f);
    stk_array_close(&a);

    length = sizeof chunk - 24;
    assert_int_equal(compress(chunk + 20, &length, times, sizeof times), Z_OK);
    chunk[8] = (uint8_t)length;
    test_put(r.store, "a/c/0", chunk, 20 + length + 4);
    assert_ok(open_array(&r, time, "null", codecs, &a, &err), &err);
    stk_array_close(&a);
    assert_ok(stk_array_open(r.ctx, "mem://o/a?checksums=false", NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, stamps, sizeof stamps, NULL, -1, &err), &err);
    assert_true(stamps[0] == INT64_MIN && stamps[1] == 256 && stamps[3] == 7);
    assert_true(stamps[4] == INT64_MIN);
    stk_array_close(&a);
    test_room_close(&r);
}

static void test_damaged(void **unused)
{
    static const struct {
        uint8_t chunk[24];
        size_t size;
        stk_status status;
    } chunks[] = {
        {{1}, 15, STK_ETRUNCATED},
        {{2, 0, 0, 0, 0, 0, 0, 0, 0}, 17, STK_ETRUNCATED},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, 19, STK_ETRUNCATED},
        {{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 5},
         18,
         STK_ETRUNCATED},
        {{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0}, 19, STK_EFORMAT},
        {{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 5}, 18, STK_ETRUNCATED},
        {{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 5, 6}, 19, STK_EFORMAT},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0}, 16, STK_ETRUNCATED},
        {{1, 0, 0, 0, 0, 0, 0, 0, 0}, 17, STK_OK}, /* all are missing */
    };
    double out[8];
    stk_array *a = NULL;
    test_room r = test_room_open("mem://o");
    stk_error err;

    assert_ok(open_array(&r, "{\"name\":\"int8\",\"configuration\":{}}", "null", PLAIN, &a, &err),
              &err);
    for (size_t i = 0; i < STK_COUNT(chunks); i++) {
        test_put(r.store, "a/c/0", chunks[i].chunk, chunks[i].size);
        stk_status status = stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err);
        if (status != chunks[i].status)
            fail_msg("chunk %zu: %s", i, stk_status_name(status));
    }
    stk_array_close(&a);
    test_room_close(&r);
}

static void test_refused(void **unused)
{
    static const struct {
        const char *type, *fill, *codecs, *part;
    } wrong[] = {
        {"{\"name\":\"int64\"}", "null", PLAIN, "at most 32 bits"},
        {"{\"name\":\"string\"}", "null", PLAIN, "at most 32 bits"},
        {"{\"name\":\"optional\",\"configuration\":{\"name\":\"int8\"}}", "null", PLAIN,
         "at most 32 bits"},
        {"7", "null", PLAIN, "does not name a type"},
        {"{\"name\":\"int8\"}", "5", PLAIN, "neither null"},
        {"{\"name\":\"int8\"}", "[null]", PLAIN, "fill_value"},
        {"{\"name\":\"int8\"}", "null", "[\"bytes\"]", "no place"},
        {"{\"name\":\"int8\"}", "null", "[\"optional\"]", "mask_codecs"},
        {"{\"name\":\"int8\"}", "null",
         "[{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"packbits\"],"
         "\"data_codecs\":[\"zstd\"]}}]",
         "begin with bytes"},
        {"{\"name\":\"int8\"}", "null",
         "[{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"optional\"],"
         "\"data_codecs\":[\"bytes\"]}}]",
         "the type is another"},
        {"{\"name\":\"int8\"}", "null",
         "[{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"packbits\"],"
         "\"data_codecs\":[\"bytes\",\"rar\"]}}]",
         "rar"},
    };
    test_room r = test_room_open("mem://o");

    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        stk_array *a = NULL;
        stk_error err;
        stk_status status = open_array(&r, wrong[i].type, wrong[i].fill, wrong[i].codecs, &a, &err);
        if (status == STK_OK || !strstr(err.text, wrong[i].part))
            fail_msg("case %zu: %s", i, status ? err.text : "opens");
    }
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The filters of HDF5: values that a file may not give them, chunks that are damaged, and what no
 * file of the golden ones has. Expected bytes are worked out by hand from the library's sources. */
#include "codec/codec.h"

#include <jansson.h>
#include <string.h>

#include "support/support.h"

#define BYTES "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},"
#define FILTER(name, values)                                                                       \
    "[" BYTES "{\"name\":\"hdf5." name "\",\"configuration\":{\"values\":" values "}}]"

enum { COUNT = 8 }; /* elements of 4 bytes */

typedef struct room {
    stk_context *ctx;
    stk__codec_state *state;
} room;

static stk_status compile(stk_context *ctx, const char *codecs, stk_dtype dtype, uint32_t item,
                          int64_t count, stk__chain **chain, stk_error *err)
{
    json_error_t error;
    stk__chain_spec spec;
    json_t *list = json_loads(codecs, 0, &error);

    assert_non_null(list);
    stk__chain_spec_init(&spec);
    spec.key = "x.h5";
    spec.dtype = dtype;
    spec.itemsize = spec.swap_size = item;
    spec.rank = 1;
    spec.shape = &count;
    spec.codecs = list;
    stk_error_init(err);
    stk_status status = stk__chain_create(ctx, &spec, chain, err);
    json_decref(list);
    return status;
}

static room open_room(void)
{
    room r = {.ctx = test_context()};
    stk_error err;

    assert_ok(stk__codec_state_create(r.ctx, &r.state, &err), &err);
    return r;
}

static void close_room(room *r)
{
    stk__codec_state_destroy(&r->state);
    stk_context_destroy(&r->ctx);
}

/* Decode `length` bytes as COUNT elements of 4 bytes. */
static stk_status decode(room *r, const char *codecs, const void *in, uint64_t length, void *out)
{
    stk__chain *chain = NULL;
    const char *reason = NULL;
    stk_error err;

    assert_ok(compile(r->ctx, codecs, STK_INT32, 4, COUNT, &chain, &err), &err);
    stk_status status =
        stk__chain_decode(chain, r->state, in, length, out, (uint64_t)COUNT * 4, &reason);
    assert_true(status == STK_OK || (reason && reason[0]));
    stk__chain_destroy(&chain);
    return status;
}

static void test_refused(void **unused)
{
    static const struct {
        const char *codecs;
        stk_status status;
        const char *part;
    } wrong[] = {
        {FILTER("nbit", "[8,0,8]"), STK_EKIND, "numbers alone"},
        {FILTER("nbit", "[8,0,8,3,4,0,9,0]"), STK_EKIND, "numbers alone"},
        {FILTER("nbit", "[8,0,9,1,4,0,9,0]"), STK_EFORMAT, "other elements"},
        {FILTER("nbit", "[8,0,8,1,4,0,0,0]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("nbit", "[8,0,8,1,4,0,33,0]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("nbit", "[8,0,8,1,4,0,9,24]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("nbit", "[8,0,8,1,4,2,9,0]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("nbit", "[8,0,2,1,16,0,9,0]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("nbit", "[8]"), STK_EFORMAT, "a list"},
        {FILTER("nbit", "[8,0,-8,1,4,0,9,0]"), STK_EFORMAT, "32 bits"},
        {FILTER("nbit", "7"), STK_EFORMAT, "a list"},
        {FILTER("scaleoffset", "[2,0,8,0,4,1,0]"), STK_EFORMAT, "a list"},
        {FILTER("scaleoffset", "[1,0,8,1,4,1,0,0]"), STK_EKIND, "decimal"},
        {FILTER("scaleoffset", "[2,0,8,1,4,1,0,0]"), STK_EKIND, "decimal"},
        {FILTER("scaleoffset", "[2,0,8,2,4,1,0,0]"), STK_EKIND, "decimal"},
        {FILTER("scaleoffset", "[2,0,7,0,4,1,0,0]"), STK_EFORMAT, "other elements"},
        {FILTER("scaleoffset", "[0,0,16,1,2,1,0,0]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("scaleoffset", "[2,0,8,0,4,1,0,1]"), STK_EFORMAT, "1 to 8 bytes"},
        {FILTER("bitshuffle", "[0,4,0,0,2]"), STK_EFORMAT, "bitshuffle"},
        {FILTER("bitshuffle", "[0,4,33,0,2]"), STK_EFORMAT, "bitshuffle"},
        {FILTER("bitshuffle", "[0,4,4,12,2]"), STK_EFORMAT, "bitshuffle"},
        {FILTER("bitshuffle", "[0,4,4,0,1]"), STK_EKIND, "neither LZ4 nor Zstandard"},
#ifdef STK_WITH_SZIP
        {FILTER("szip", "[36,8,8]"), STK_EFORMAT, "a list"},
        {FILTER("szip", "[36,7,8,8]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,34,8,8]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,0,8,8]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,8,0,8]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,8,25,8]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,8,8,0]"), STK_EFORMAT, "szip"},
        {FILTER("szip", "[36,8,8,4097]"), STK_EFORMAT, "szip"},
#endif
        /* Numbers behind what compresses have no size that is known. */
        {"[" BYTES "\"zlib\",{\"name\":\"hdf5.nbit\",\"configuration\":{\"values\":"
         "[8,0,8,1,4,0,9,0]}}]",
         STK_EFORMAT, "other elements"},
#ifdef STK_WITH_ZFP
        {FILTER("zfp", "[0,0,0,0]"), STK_EFORMAT, "no header of zfp"},
        {FILTER("zfp", "[0,91252346,576,2281701376]"), STK_EFORMAT, "no header of zfp"}, /* 37 */
        {"[\"zfp\"]", STK_EFORMAT, "is not one of"},
        {"[{\"name\":\"zfp\",\"configuration\":{\"mode\":\"fixed_rate\",\"rate\":0}}]", STK_EFORMAT,
         "rate"},
        {"[{\"name\":\"zfp\",\"configuration\":{\"mode\":\"expert\",\"minbits\":9,\"maxbits\":8,"
         "\"maxprec\":64,\"minexp\":0}}]",
         STK_EFORMAT, "expert"},
#endif
    };
    room r = open_room();

    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        stk__chain *chain = NULL;
        stk_error err;
        stk_status status = compile(r.ctx, wrong[i].codecs, STK_INT32, 4, COUNT, &chain, &err);
        if (status != wrong[i].status || !strstr(err.text, wrong[i].part))
            fail_msg("%s: %s", wrong[i].codecs, status ? err.text : "compiles");
        assert_null(chain);
    }
    close_room(&r);
}

/* What is kept in all its bits is stored little endian, whatever the order of the type is: 1.14 of
 * the library cannot read that back. */
static void test_all_bits(void **unused)
{
    uint8_t in[21 + COUNT * 4] = {32, 0, 0, 0, 8}, out[COUNT * 4];
    room r = open_room();

    for (int i = 0; i < COUNT * 4; i++)
        in[21 + i] = (uint8_t)(i * 7);
    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,0,1,5]"), in, sizeof in, out),
                     STK_OK);
    assert_memory_equal(out, in + 21, sizeof out);
    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,1,0]"), in, sizeof in, out),
                     STK_OK);
    for (int i = 0; i < COUNT * 4; i++)
        assert_int_equal(out[i], in[21 + (i ^ 3)]);
    in[0] = 33;
    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,0,0]"), in, sizeof in, out),
                     STK_EFORMAT);
    close_room(&r);
}

/* Values wrap around their type; all bits set is the fill value, but only where one is defined. */
static void test_scale(void **unused)
{
    const uint8_t in[] = {2,    0, 0, 0, 8, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                          0xff, 0, 0, 0, 0, 0,    0,    0,    0,    0x1b, 0xe4};
    int32_t out[COUNT];
    room r = open_room();

    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,0,0]"), in, sizeof in, out),
                     STK_OK);
    assert_memory_equal(out, ((const int32_t[]){-2, -1, 0, 1, 1, 0, -1, -2}), sizeof out);
    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,0,1,77]"), in, sizeof in, out),
                     STK_OK);
    assert_memory_equal(out, ((const int32_t[]){-2, -1, 0, 77, 77, 0, -1, -2}), sizeof out);
    for (uint64_t length = 0; length < sizeof in; length++)
        assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,0,8,0,4,1,0,0]"), in, length, out),
                         STK_ETRUNCATED);
    close_room(&r);
}

static void test_identity(void **unused)
{
    uint8_t in[COUNT * 4], out[COUNT * 4];
    room r = open_room();

    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(3 * i);
    assert_int_equal(decode(&r, FILTER("nbit", "[3,1,8]"), in, sizeof in, out), STK_OK);
    assert_memory_equal(out, in, sizeof in);
    assert_int_equal(decode(&r, FILTER("scaleoffset", "[2,32,8,0,4,1,0,0]"), in, sizeof in, out),
                     STK_OK);
    assert_memory_equal(out, in, sizeof in);
    close_room(&r);
}

static void test_nbit(void **unused)
{
    /* 12 bits each, the upper ones first, at bit 3. */
    const uint8_t in[] = {0x12, 0x3a, 0xbc, 0xff, 0xf0, 0x00, 0x80, 0x00, 0x01, 0x45, 0x67, 0x89};
    static const uint32_t bits[] = {0x123, 0xabc, 0xfff, 0, 0x800, 1, 0x456, 0x789};
    uint8_t longer[sizeof in + 2] = {0};
    uint32_t out[COUNT];
    room r = open_room();

    assert_int_equal(decode(&r, FILTER("nbit", "[8,0,8,1,4,0,12,3]"), in, sizeof in, out), STK_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(out[i], bits[i] << 3);
    assert_int_equal(decode(&r, FILTER("nbit", "[8,0,8,1,4,1,12,3]"), in, sizeof in, out), STK_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(out[i], __builtin_bswap32(bits[i] << 3));
    for (uint64_t length = 0; length < sizeof in; length++)
        assert_int_equal(decode(&r, FILTER("nbit", "[8,0,8,1,4,0,12,3]"), in, length, out),
                         STK_ETRUNCATED);
    memcpy(longer, in, sizeof in);
    assert_int_equal(decode(&r, FILTER("nbit", "[8,0,8,1,4,0,12,3]"), longer, sizeof in + 1, out),
                     STK_OK);
    assert_int_equal(decode(&r, FILTER("nbit", "[8,0,8,1,4,0,12,3]"), longer, sizeof in + 2, out),
                     STK_EFORMAT);
    close_room(&r);
}

/* Sizes that a chunk claims are held against what it should decode to, before anything is done. */
static void test_claims(void **unused)
{
    static const struct {
        const char *codecs;
        uint8_t in[20];
        uint64_t length;
        stk_status status;
    } chunks[] = {
        {FILTER("lz4", "[]"), {0}, 11, STK_ETRUNCATED},
        {FILTER("lz4", "[]"), {0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 33}, 12, STK_EFORMAT},
        {FILTER("lz4", "[]"), {0xff, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32}, 12, STK_EFORMAT},
        {FILTER("lz4", "[]"), {0, 0, 0, 0, 0, 0, 0, 32}, 12, STK_EFORMAT},
        {FILTER("lz4", "[]"), {0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32}, 12, STK_ETRUNCATED},
        {FILTER("lz4", "[]"),
         {0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32, 0xff, 0xff, 0xff, 0xff},
         16,
         STK_ETRUNCATED},
        {FILTER("lz4", "[]"), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 1}, 13, STK_EFORMAT},
        {FILTER("lz4", "[]"), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}, 12, STK_ETRUNCATED},
        {FILTER("bitshuffle", "[0,4,4,0,2]"), {0}, 11, STK_ETRUNCATED},
        {FILTER("bitshuffle", "[0,4,4,0,2]"), {0, 0, 0, 0, 0, 0, 1, 0}, 12, STK_EFORMAT},
        {FILTER("bitshuffle", "[0,4,4,0,2]"),
         {0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 48},
         16,
         STK_EFORMAT},
        {FILTER("bitshuffle", "[0,4,4,0,2]"),
         {0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32, 0, 0, 1, 0},
         20,
         STK_ETRUNCATED},
        {FILTER("bitshuffle", "[0,4,4,0,3]"),
         {0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32, 0, 0, 0, 4},
         20,
         STK_EFORMAT},
        {FILTER("bitshuffle", "[0,4,8,0,0]"), {0}, 20, STK_EFORMAT},
#ifdef STK_WITH_SZIP
        {FILTER("szip", "[36,8,8,8]"), {0}, 3, STK_ETRUNCATED},
        {FILTER("szip", "[36,8,8,8]"), {33}, 8, STK_EFORMAT},
        {FILTER("szip", "[36,8,16,8]"), {31}, 8, STK_EFORMAT},
        {FILTER("szip", "[36,8,32,8]"), {30}, 8, STK_EFORMAT},
        {FILTER("szip", "[36,8,8,8]"), {32}, 4, STK_ETRUNCATED},
        {FILTER("szip", "[36,8,32,8]"), {0}, 8, STK_ETRUNCATED},
#endif
    };
    uint8_t out[COUNT * 4];
    room r = open_room();

    for (size_t i = 0; i < STK_COUNT(chunks); i++) {
        stk_status status = decode(&r, chunks[i].codecs, chunks[i].in, chunks[i].length, out);
        if (status != chunks[i].status)
            fail_msg("chunk %zu of %s: %s", i, chunks[i].codecs, stk_status_name(status));
    }
    close_room(&r);
}

/* HDF5 before 1.6.3 swapped the bytes of each half of the sum. */
static void test_old_fletcher(void **unused)
{
    static const char codecs[] = "[" BYTES "\"fletcher32\"]";
    uint8_t in[COUNT * 4 + 4], out[COUNT * 4];
    uint32_t a = 0, b = 0;
    room r = open_room();

    for (size_t i = 0; i < sizeof out; i++)
        in[i] = (uint8_t)(i + 1);
    for (size_t i = 0; i < sizeof out; i += 2) {
        a = (a + (uint32_t)(in[i] << 8 | in[i + 1])) % 65535;
        b = (b + a) % 65535;
    }
    const uint8_t sum[] = {(uint8_t)a, (uint8_t)(a >> 8), (uint8_t)b, (uint8_t)(b >> 8)};
    for (int old = 0; old < 2; old++) {
        for (int i = 0; i < 4; i++)
            in[sizeof out + (size_t)i] = sum[i ^ old];
        assert_int_equal(decode(&r, codecs, in, sizeof in, out), STK_OK);
        assert_memory_equal(out, in, sizeof out);
    }
    in[sizeof out] ^= 1;
    assert_int_equal(decode(&r, codecs, in, sizeof in, out), STK_ECHECKSUM);
    close_room(&r);
}

static void test_read_only(void **unused)
{
    uint8_t in[COUNT * 4] = {0}, out[4096];
    const char *reason = NULL;
    stk__chain *chain = NULL;
    uint64_t length = 0;
    room r = open_room();
    stk_error err;

    assert_ok(compile(r.ctx, FILTER("lz4", "[]"), STK_INT32, 4, COUNT, &chain, &err), &err);
    assert_int_equal(
        stk__chain_encode(chain, r.state, in, sizeof in, out, sizeof out, &length, &reason),
        STK_EKIND);
    assert_non_null(strstr(reason, "read and not written"));
    stk__chain_destroy(&chain);
    close_room(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_all_bits),
        cmocka_unit_test(test_scale),        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_nbit),         cmocka_unit_test(test_claims),
        cmocka_unit_test(test_old_fletcher), cmocka_unit_test(test_read_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

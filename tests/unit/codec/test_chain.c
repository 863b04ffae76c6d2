/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling: what is dropped and fused, sizes told in front, and every refusal with its reason.
 * Decoding: sizes, damage, several frames, bombs, prefixes. */
#include "codec/codec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "support/support.h"

#define SIDE 64
#define SIZE ((uint64_t)SIDE * SIDE * 4)

static const int64_t square[] = {SIDE, SIDE};
static uint8_t chunk[SIZE], encoded[4 * SIZE], out[SIZE + 64];

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY, &error) : NULL;

    assert_true(!text || json);
    return json;
}

typedef struct request {
    const char *codecs, *filters, *compressor;
    bool big_endian, fortran;
} request;

static stk_status compile(stk_context *ctx, request r, stk__chain **chain, stk_error *err)
{
    stk__chain_spec spec;
    json_t *all[] = {parse(r.codecs), parse(r.filters), parse(r.compressor)};

    stk__chain_spec_init(&spec);
    spec.key = "a/zarr.json";
    spec.dtype = STK_FLOAT32;
    spec.itemsize = spec.swap_size = 4;
    spec.rank = 2;
    spec.shape = square;
    spec.codecs = all[0];
    spec.filters = all[1];
    spec.compressor = all[2];
    spec.big_endian = r.big_endian;
    spec.fortran = r.fortran;
    stk_error_init(err);
    stk_status status = stk__chain_create(ctx, &spec, chain, err);
    for (int i = 0; i < 3; i++)
        json_decref(all[i]);
    return status;
}

static stk__chain *chain_of(stk_context *ctx, request r)
{
    stk__chain *chain = NULL;
    stk_error err;

    assert_ok(compile(ctx, r, &chain, &err), &err);
    return chain;
}

static void fill(void)
{
    for (uint64_t i = 0; i < SIZE / 4; i++)
        memcpy(chunk + 4 * i, &(float){(float)(i % 977)}, 4);
}

#define LITTLE "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}"
#define BIG    "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}"

static void test_compiled(void **unused)
{
    stk_context *ctx = test_context();
    stk__chain *chain = chain_of(ctx, (request){.codecs = "[" LITTLE "]"});

    assert_true(stk__chain_is_copy(chain));
    assert_null(stk__chain_step(chain, 0));
    assert_int_equal(stk__chain_size(chain), SIZE);
    assert_int_equal(stk__chain_encoded_size(chain), SIZE);
    assert_int_equal(stk__chain_bound(chain), SIZE);
    assert_int_equal(stk__chain_scratch(chain), 0);
    stk__chain_destroy(&chain);

    chain = chain_of(ctx, (request){.codecs = "[{\"name\": \"transpose\", \"configuration\": "
                                              "{\"order\": [0, 1]}}, " LITTLE ", \"crc32c\"]"});
    assert_string_equal(stk__chain_step(chain, 0), "crc32c");
    assert_null(stk__chain_step(chain, 1));
    assert_int_equal(stk__chain_encoded_size(chain), SIZE + 4);
    assert_false(stk__chain_is_copy(chain));
    stk__chain_destroy(&chain);

    /* Byte order goes into the shuffle, and into blosc. */
    chain = chain_of(ctx, (request){.big_endian = true,
                                    .filters = "[{\"id\": \"shuffle\", \"elementsize\": 4}]",
                                    .compressor = "{\"id\": \"zstd\", \"level\": 1}"});
    assert_string_equal(stk__chain_step(chain, 0), "shuffle");
    assert_string_equal(stk__chain_step(chain, 1), "zstd");
    assert_null(stk__chain_step(chain, 2));
    assert_int_equal(stk__chain_encoded_size(chain), STK__CHAIN_NO_SIZE);
    assert_false(stk__chain_has_prefix(chain));
    stk__chain_destroy(&chain);
    /* netcdf-c leaves out the size of an element, or writes numbers as texts. */
    chain = chain_of(ctx, (request){.big_endian = true,
                                    .filters = "[{\"id\": \"shuffle\"}]",
                                    .compressor = "{\"id\": \"zlib\", \"level\": \"9\"}"});
    assert_string_equal(stk__chain_step(chain, 0), "shuffle");
    assert_string_equal(stk__chain_step(chain, 1), "zlib");
    stk__chain_destroy(&chain);
    chain = chain_of(ctx, (request){.codecs = "[" BIG ", {\"name\": \"blosc\"}]"});
    assert_string_equal(stk__chain_step(chain, 0), "blosc");
    assert_null(stk__chain_step(chain, 1));
    assert_true(stk__chain_has_prefix(chain));
    stk__chain_destroy(&chain);

    /* Byte order is changed in place, behind a compressor that needs no scratch memory. */
    chain = chain_of(ctx, (request){.codecs = "[" BIG ", {\"name\": \"zstd\"}, \"crc32c\"]"});
    assert_string_equal(stk__chain_step(chain, 0), "bytes");
    assert_true(stk__chain_has_prefix(chain));
    stk__chain_destroy(&chain);

    chain = chain_of(ctx, (request){.fortran = true, .filters = "[]", .compressor = "null"});
    assert_string_equal(stk__chain_step(chain, 0), "transpose");
    assert_int_equal(stk__chain_encoded_size(chain), SIZE);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
}

static void test_refused(void **unused)
{
    static const struct {
        const char *codecs;
        stk_status status;
        const char *part;
    } cases[] = {
        {"[]", STK_EFORMAT, "no codec from array to bytes"},
        {"{}", STK_EFORMAT, "must be a list"},
        {"[7]", STK_EFORMAT, "must be a name"},
        {"[{\"id\": \"zstd\"}]", STK_EFORMAT, "must be a name"},
        {"[\"zstd\"]", STK_EFORMAT, "wrong place"},
        {"[" LITTLE ", " LITTLE "]", STK_EFORMAT, "wrong place"},
        {"[" LITTLE ", {\"name\": \"transpose\", \"configuration\": {\"order\": [1, 0]}}]",
         STK_EFORMAT, "wrong place"},
        {"[\"bytes\"]", STK_EFORMAT, "\"endian\" is missing"},
        {"[{\"name\": \"bytes\", \"configuration\": []}]", STK_EFORMAT, "must be an object"},
        {"[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"middle\"}}]", STK_EFORMAT,
         "neither little nor big"},
        {"[" LITTLE ", \"nonesuch\"]", STK_EKIND, "nonesuch\": is not known"},
        {"[\"numcodecs.pickle\"]", STK_EKIND, "runs the code"},
        {"[\"vlen-utf8\"]", STK_EKIND, "varying length"},
        {"[\"numcodecs.pcodec\"]", STK_EKIND, "not built in"},
        {"[{\"name\": \"sharding_indexed\", \"configuration\": {}}]", STK_EKIND, "inside"},
        {"[{\"name\": \"transpose\", \"configuration\": {\"order\": [0, 0]}}, " LITTLE "]",
         STK_EFORMAT, "permutation"},
        {"[{\"name\": \"transpose\", \"configuration\": {\"order\": [0]}}, " LITTLE "]",
         STK_EFORMAT, "each dimension"},
        {"[{\"name\": \"transpose\", \"configuration\": {\"order\": [0, -1]}}, " LITTLE "]",
         STK_EFORMAT, "permutation"},
        {"[{\"name\": \"transpose\"}, " LITTLE "]", STK_EFORMAT, "\"order\""},
        {"[" LITTLE ", {\"name\": \"zstd\", \"configuration\": {\"level\": \"x\"}}]", STK_EFORMAT,
         "\"level\""},
        {"[" LITTLE ", {\"name\": \"blosc\", \"configuration\": {\"cname\": \"zip\"}}]",
         STK_EFORMAT, "\"cname\""},
        {"[" LITTLE ", {\"name\": \"blosc\", \"configuration\": {\"shuffle\": 3}}]", STK_EFORMAT,
         "\"shuffle\""},
        {"[" LITTLE ", {\"name\": \"numcodecs.lzma\", \"configuration\": {\"format\": 3}}]",
         STK_EFORMAT, "\"filters\""},
        {"[{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"<c8\"}}, " LITTLE "]",
         STK_EKIND, "its type"},
        {"[{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"|O\"}}, " LITTLE "]",
         STK_EKIND, "its type"},
        {"[{\"name\": \"numcodecs.fixedscaleoffset\", \"configuration\": {\"scale\": 0, "
         "\"offset\": 0}}, " LITTLE "]",
         STK_EFORMAT, "\"scale\" is 0"},
        {"[{\"name\": \"numcodecs.fixedscaleoffset\", \"configuration\": {\"offset\": 0}}, " LITTLE
         "]",
         STK_EFORMAT, "\"scale\" is missing"},
        {"[{\"name\": \"bitround\", \"configuration\": {\"keepbits\": 24}}, " LITTLE "]",
         STK_EFORMAT, "\"keepbits\""},
        {"[{\"name\": \"packbits\"}]", STK_EKIND, "bool alone"},
        /* A type of another size than the elements would leave a shape without its bytes. */
        {"[{\"name\": \"numcodecs.astype\", \"configuration\": {\"decode_dtype\": \"<f8\", "
         "\"encode_dtype\": \"|u1\"}}, {\"name\": \"transpose\", \"configuration\": {\"order\": "
         "[1, 0]}}, " LITTLE "]",
         STK_EFORMAT, "another size"},
        {"[{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"<i2\"}}, " LITTLE "]",
         STK_EFORMAT, "another size"},
        {"[{\"name\": \"numcodecs.packbits\"}, " LITTLE "]", STK_EFORMAT, "another size"},
    };
    stk_context *ctx = test_context();
    stk__chain *chain = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_fails(compile(ctx, (request){.codecs = cases[i].codecs}, &chain, &err),
                     cases[i].status, &err, cases[i].part);
        assert_null(chain);
        assert_string_equal(err.key, "a/zarr.json");
    }
    assert_fails(compile(ctx, (request){.filters = "{}"}, &chain, &err), STK_EFORMAT, &err, "list");
    assert_fails(compile(ctx, (request){.compressor = "{\"name\": \"zstd\"}"}, &chain, &err),
                 STK_EFORMAT, &err, "\"id\"");
    assert_fails(compile(ctx, (request){.compressor = "{\"id\": \"bytes\"}"}, &chain, &err),
                 STK_EKIND, &err, "not known");

    assert_fails(compile(ctx,
                         (request){.filters = "[{\"id\": \"zstd\"}, {\"id\": \"delta\", "
                                              "\"dtype\": \"<i4\"}]"},
                         &chain, &err),
                 STK_EKIND, &err, "compressed data");

    /* More codecs than a chain has room for. */
    json_t *many = json_array();
    for (int i = 0; i < 40; i++)
        json_array_append_new(many, json_pack("{s:s}", "id", "crc32"));
    char *text = json_dumps(many, 0);
    assert_fails(compile(ctx, (request){.filters = text}, &chain, &err), STK_ELIMIT, &err,
                 "32 codecs");
    free(text);
    json_decref(many);
    stk_context_destroy(&ctx);
}

/* Shapes that are no chunk, or larger than memory can be. */
static void test_shapes(void **unused)
{
    static const int64_t bad[][2] = {{0, 4}, {-1, 4}, {INT64_MAX, 2}, {INT64_MAX / 4, 2}};
    stk_context *ctx = test_context();
    stk__chain *chain = NULL;
    stk__chain_spec spec;
    stk_error err;

    stk__chain_spec_init(&spec);
    spec.key = "a";
    spec.itemsize = spec.swap_size = 4;
    spec.rank = 2;
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        spec.shape = bad[i];
        assert_fails(stk__chain_create(ctx, &spec, &chain, &err), STK_ELIMIT, &err, "shape");
    }
    spec.shape = square;
    spec.rank = STK__CHAIN_MAX_RANK + 1;
    assert_fails(stk__chain_create(ctx, &spec, &chain, &err), STK_ELIMIT, &err, "32 dimensions");
    spec.rank = 0;
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    assert_int_equal(stk__chain_size(chain), 4);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
}

/* Every codec: cut anywhere, one bit wrong anywhere, one byte too many, a chunk of another size.
 * Never more than the chunk is written; what must be seen is seen. */
static void test_damage(void **unused)
{
    static const char *const compressors[] = {
        "{\"id\": \"zstd\", \"checksum\": true}",
        "{\"id\": \"lz4\"}",
        "{\"id\": \"blosc\", \"cname\": \"zstd\"}",
        "{\"id\": \"blosc\", \"cname\": \"blosclz\"}",
        "{\"id\": \"blosc\", \"cname\": \"snappy\", \"shuffle\": 2}",
        "{\"id\": \"gzip\"}",
        "{\"id\": \"zlib\"}",
        "{\"id\": \"bz2\"}",
        "{\"id\": \"lzma\"}",
        "{\"id\": \"lzma\", \"format\": 2}",
        "{\"id\": \"crc32c\"}",
        "{\"id\": \"crc32\"}",
        "{\"id\": \"adler32\"}",
        "{\"id\": \"fletcher32\"}",
        "{\"id\": \"shuffle\"}",
    };
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    const char *reason;
    stk_error err;

    fill();
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (size_t c = 0; c < STK_COUNT(compressors); c++) {
        stk__chain *chain = chain_of(ctx, (request){.compressor = compressors[c]});
        bool checked = c == 0 || (c >= 5 && c != 9 && c != 14);
        uint64_t length;
        assert_int_equal(
            stk__chain_encode(chain, state, chunk, SIZE, encoded, sizeof encoded, &length, &reason),
            STK_OK);
        memset(out, 0x77, sizeof out);
        for (uint64_t n = 0; n < length; n += n < 40 ? 1 : length / 29) {
            uint8_t *copy = malloc(n + 1); /* its end is the input's, also where that is empty */
            memcpy(copy + 1, encoded, n);
            stk_status status = stk__chain_decode(chain, state, copy + 1, n, out, SIZE, &reason);
            if (status == STK_OK)
                fail_msg("%s cut to %llu bytes decodes", compressors[c], (unsigned long long)n);
            assert_true(strlen(reason) > 20);
            free(copy);
        }
        for (uint64_t bit = 0; bit < length * 8; bit += bit < 400 ? 1 : length * 8 / 61) {
            encoded[bit / 8] ^= (uint8_t)(1 << bit % 8);
            stk_status status =
                stk__chain_decode(chain, state, encoded, length, out, SIZE, &reason);
            if (checked && status == STK_OK && memcmp(out, chunk, SIZE))
                fail_msg("%s with bit %llu wrong decodes", compressors[c], (unsigned long long)bit);
            encoded[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(out[SIZE + i], 0x77);
        assert_int_equal(stk__chain_decode(chain, state, encoded, length, out, SIZE, &reason),
                         STK_OK);
        assert_memory_equal(out, chunk, SIZE);
        assert_int_equal(stk__chain_decode(chain, state, encoded, length, out, SIZE - 1, &reason),
                         STK_EINVAL);
        stk__chain_destroy(&chain);
    }
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* A chunk that decodes to one element more or less is damaged, whatever its codec. */
static void test_other_sizes(void **unused)
{
    static const char *const compressors[] = {
        "{\"id\": \"zstd\"}",   "{\"id\": \"lz4\"}",   "{\"id\": \"blosc\"}",
        "{\"id\": \"gzip\"}",   "{\"id\": \"zlib\"}",  "{\"id\": \"bz2\"}",
        "{\"id\": \"lzma\"}",   "{\"id\": \"crc32\"}", "null",
        "{\"id\": \"deflate\"}"};
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    const char *reason;
    stk_error err;

    fill();
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (size_t c = 0; c < STK_COUNT(compressors); c++) {
        json_t *config = parse(compressors[c]);
        stk__chain *sizes[3];
        uint64_t length;
        for (int k = 0; k < 3; k++) {
            int64_t shape = 1000 + k;
            stk__chain_spec spec;
            stk__chain_spec_init(&spec);
            spec.itemsize = 4;
            spec.rank = 1;
            spec.shape = &shape;
            spec.compressor = config;
            assert_ok(stk__chain_create(ctx, &spec, &sizes[k], &err), &err);
        }
        assert_int_equal(stk__chain_encode(sizes[1], state, chunk, 4004, encoded, sizeof encoded,
                                           &length, &reason),
                         STK_OK);
        memset(out, 0x77, sizeof out);
        assert_int_equal(stk__chain_decode(sizes[0], state, encoded, length, out, 4000, &reason),
                         STK_EFORMAT);
        assert_non_null(strstr(reason, "more bytes"));
        assert_int_equal(out[4000], 0x77);
        assert_int_equal(stk__chain_decode(sizes[2], state, encoded, length, out, 4008, &reason),
                         STK_ETRUNCATED);
        for (int k = 0; k < 3; k++)
            stk__chain_destroy(&sizes[k]);
        json_decref(config);
    }
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* Several frames, frames without a size, members with padding. */
static void test_frames(void **unused)
{
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    const char *reason;
    uint64_t length = 0;
    stk_error err;

    fill();
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    stk__chain *chain = chain_of(ctx, (request){.compressor = "{\"id\": \"zstd\"}"});
    ZSTD_CCtx *cctx = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, 0);
    for (uint64_t at = 0; at < SIZE; at += SIZE / 4)
        length +=
            ZSTD_compress2(cctx, encoded + length, sizeof encoded - length, chunk + at, SIZE / 4);
    ZSTD_freeCCtx(cctx);
    assert_int_equal(stk__chain_decode(chain, state, encoded, length, out, SIZE, &reason), STK_OK);
    assert_memory_equal(out, chunk, SIZE);
    for (uint64_t needed = 1; needed < SIZE; needed += SIZE / 7) {
        memset(out, 0, SIZE);
        assert_int_equal(
            stk__chain_decode_prefix(chain, state, encoded, length, out, SIZE, needed, &reason),
            STK_OK);
        assert_memory_equal(out, chunk, needed);
    }
    stk__chain_destroy(&chain);

    chain = chain_of(ctx, (request){.compressor = "{\"id\": \"gzip\"}"});
    stk__chain *half = NULL;
    int64_t shape = SIZE / 8;
    stk__chain_spec spec;
    json_t *gzip = parse("{\"id\": \"gzip\"}");
    stk__chain_spec_init(&spec);
    spec.itemsize = 4;
    spec.rank = 1;
    spec.shape = &shape;
    spec.compressor = gzip;
    assert_ok(stk__chain_create(ctx, &spec, &half, &err), &err);
    json_decref(gzip);
    uint64_t first, second;
    stk__chain_encode(half, state, chunk, SIZE / 2, encoded, sizeof encoded, &first, &reason);
    stk__chain_encode(half, state, chunk + SIZE / 2, SIZE / 2, encoded + first,
                      sizeof encoded - first, &second, &reason);
    memset(encoded + first + second, 0, 9);
    for (int padding = 0; padding < 10; padding += 9) {
        memset(out, 0, SIZE);
        assert_int_equal(
            stk__chain_decode(chain, state, encoded, first + second + padding, out, SIZE, &reason),
            STK_OK);
        assert_memory_equal(out, chunk, SIZE);
    }
    encoded[first + second + 3] = 1;
    assert_int_equal(
        stk__chain_decode(chain, state, encoded, first + second + 9, out, SIZE, &reason),
        STK_EFORMAT);
    stk__chain_destroy(&half);
    stk__chain_destroy(&chain);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* Frames that promise gigabytes take no memory: the chunk's size is the bound. */
static void test_bombs(void **unused)
{
    static const uint8_t zstd_claims[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0,    0,    0, 0,
                                          0,    1,    0,    0,    0x02, 0xff, 0xff, 0};
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    stk_memory_stats stats = {.struct_size = sizeof stats};
    const char *reason;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    stk__chain *chain = chain_of(ctx, (request){.compressor = "{\"id\": \"zstd\"}"});
    assert_int_not_equal(
        stk__chain_decode(chain, state, zstd_claims, sizeof zstd_claims, out, SIZE, &reason),
        STK_OK);
    assert_int_not_equal(stk__chain_decode_prefix(chain, state, zstd_claims, sizeof zstd_claims,
                                                  out, SIZE, 100, &reason),
                         STK_OK);
    stk__chain_destroy(&chain);

    /* 64 MiB of zeros in 64 KiB of gzip, before a second compressor too. */
    uint8_t *zeros = calloc(1, 64 << 20);
    uLongf packed = sizeof encoded;
    assert_int_equal(compress2(encoded, &packed, zeros, 16 << 20, 9), Z_OK);
    chain = chain_of(
        ctx, (request){.filters = "[{\"id\": \"gzip\"}]", .compressor = "{\"id\": \"zlib\"}"});
    assert_int_equal(stk__chain_decode(chain, state, encoded, packed, out, SIZE, &reason),
                     STK_EFORMAT);
    stk__chain_destroy(&chain);
    free(zeros);
    stk_context_memory(ctx, &stats);
    assert_true(stats.peak_bytes < (2 << 20));
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

/* Checksums are left alone where that is asked for. */
static void test_skip(void **unused)
{
    stk_context *ctx = test_context();
    stk__codec_state *state = NULL;
    const char *reason;
    stk_error err;

    fill();
    memcpy(encoded, chunk, SIZE);
    memset(encoded + SIZE, 0, 4);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    for (int skipped = 0; skipped < 2; skipped++) {
        stk__chain *chain = NULL;
        stk__chain_spec spec;
        json_t *codecs = parse("[" LITTLE ", \"crc32c\"]");
        stk__chain_spec_init(&spec);
        spec.itemsize = spec.swap_size = 4;
        spec.rank = 2;
        spec.shape = square;
        spec.codecs = codecs;
        spec.skip_checksums = skipped;
        assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
        json_decref(codecs);
        assert_int_equal(stk__chain_decode(chain, state, encoded, SIZE + 4, out, SIZE, &reason),
                         skipped ? STK_OK : STK_ECHECKSUM);
        stk__chain_destroy(&chain);
    }
    assert_memory_equal(out, chunk, SIZE);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiled),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_shapes),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_sizes), cmocka_unit_test(test_frames),
        cmocka_unit_test(test_bombs),       cmocka_unit_test(test_skip)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

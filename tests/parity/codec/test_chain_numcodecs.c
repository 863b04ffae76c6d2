/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All fixtures of numcodecs [numcodecs 82c3635, fixture/]: what each codec of it once wrote decodes
 * to the array it was written from, filters encode to the same bytes, and the codecs that are not
 * read are refused with their reason.
 */
#include "codec/codec.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "support/text.h"

#define MAX_PATH   1024
#define MAX_CODECS 32

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

typedef struct array {
    bytes file;
    const uint8_t *data; /* elements in the order of the file */
    size_t size;
    uint32_t item;
    char kind;
} array;

/* Folders of fixtures. `exact`: encoding gives the bytes of the fixture; `decimals` of a lossy
 * codec: its configuration tells how near the decoded values are. */
static const struct fixture {
    const char *folder;
    bool exact, lossy;
    const char *refused; /* part of the message; NULL: decodes */
    int least;           /* files that are there at least */
} fixtures[] = {
    {"adler32", true, false, NULL, 13},
    {"astype/f", true, true, NULL, 2},
    {"astype/i", true, false, NULL, 2},
    {"blosc", false, false, NULL, 169},
    {"bz2", false, false, NULL, 52},
    {"crc32", true, false, NULL, 13},
    {"crc32c", true, false, NULL, 13},
    {"delta/bool", true, false, NULL, 1},
    {"delta/float32", true, false, NULL, 1},
    {"delta/float64", true, false, NULL, 1},
    {"delta/int32", true, false, NULL, 1},
    {"delta/uint16", true, false, NULL, 1},
    {"fixedscaleoffset", true, true, NULL, 25},
    {"gzip", false, false, NULL, 78},
    {"lz4", false, false, NULL, 91},
    {"lzma", false, false, NULL, 65},
    {"packbits", true, false, NULL, 4},
    {"quantize", true, true, NULL, 25},
    {"shuffle", true, false, NULL, 52},
    {"zlib", false, false, NULL, 78},
    {"zstd", false, false, NULL, 130},
    /* Objects, and elements of varying length as a type of fixed length. */
    {"json2", false, false, "objects are not read", 4},
    {"msgpack2", false, false, "objects are not read", 1},
    {"vlen-array", false, false, "varying length are not read", 8},
    {"vlen-bytes", false, false, "elements of varying length", 1},
    {"vlen-utf8", false, false, "elements of varying length", 1},
};

static bytes slurp(const char *path)
{
    bytes b = {0};

    b.data = test_load(path, &b.size);
    return b;
}

static bool read_array(const char *path, array *a)
{
    *a = (array){.file = slurp(path)};
    if (!a->file.data)
        return false;
    size_t head = a->file.data[6] == 1 ? 10 + (a->file.data[8] | (size_t)a->file.data[9] << 8) : 0;
    assert_true(head > 10 && head < a->file.size);
    const char *descr = strstr((char *)a->file.data + 10, "'descr': '");
    assert_non_null(descr);
    descr += strlen("'descr': '") + 1;
    a->kind = *descr;
    a->item = (uint32_t)strtoul(descr + 1, NULL, 10) * (a->kind == 'U' ? 4 : 1);
    a->data = a->file.data + head;
    a->size = a->file.size - head;
    return true;
}

static stk_status compile(stk_context *ctx, const json_t *config, const array *a,
                          stk__chain **chain, stk_error *err)
{
    stk__chain_spec spec;
    int64_t shape = (int64_t)(a->size / a->item);

    stk__chain_spec_init(&spec);
    spec.key = "fixture";
    spec.itemsize = a->item;
    spec.rank = 1;
    spec.shape = &shape;
    spec.compressor = config;
    stk_error_init(err);
    return stk__chain_create(ctx, &spec, chain, err);
}

/* Lossy codecs say in their configuration how much they lose. */
static void assert_near(const json_t *config, const double *got, const double *want, size_t n)
{
    const json_t *digits = json_object_get(config, "digits");
    const json_t *scale = json_object_get(config, "scale");
    double tolerance = digits  ? 1.5 * pow(10.0, -(double)json_integer_value(digits))
                       : scale ? 1.5 / json_number_value(scale)
                               : 1e-4;

    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance + 1e-3 * fabs(want[i]) * (digits != NULL)))
            fail_msg("element %zu: %g, not %g", i, got[i], want[i]);
}

static void check(stk_context *ctx, stk__codec_state *state, const struct fixture *f,
                  const json_t *config, const array *a, const bytes *encoded)
{
    stk__chain *chain = NULL;
    const char *reason = NULL;
    stk_error err;
    uint64_t length;

    assert_ok(compile(ctx, config, a, &chain, &err), &err);
    assert_int_equal(stk__chain_size(chain), a->size);
    uint8_t *out = malloc(a->size), *again = malloc(stk__chain_bound(chain));
    assert_true(out && again);
    stk_status status =
        stk__chain_decode(chain, state, encoded->data, encoded->size, out, a->size, &reason);
    if (status != STK_OK)
        fail_msg("%s: %s", stk_status_name(status), reason);
    if (f->lossy)
        assert_near(config, (const double *)(void *)out, (const double *)(const void *)a->data,
                    a->size / sizeof(double));
    else
        assert_memory_equal(out, a->data, a->size);
    assert_int_equal(stk__chain_encode(chain, state, a->data, a->size, again,
                                       stk__chain_bound(chain), &length, &reason),
                     STK_OK);
    if (f->exact) {
        assert_int_equal(length, encoded->size);
        assert_memory_equal(again, encoded->data, length);
    }
    memset(out, 0xa5, a->size);
    assert_int_equal(stk__chain_decode(chain, state, again, length, out, a->size, &reason), STK_OK);
    if (!f->lossy)
        assert_memory_equal(out, a->data, a->size);
    free(out);
    free(again);
    stk__chain_destroy(&chain);
}

static int run_codec(stk_context *ctx, stk__codec_state *state, const struct fixture *f,
                     const char *folder, const char *codec)
{
    char path[2 * MAX_PATH];
    json_error_t error;
    int n = 0;

    snprintf(path, sizeof path, "%s/%s/config.json", folder, codec);
    json_t *config = json_load_file(path, 0, &error);
    assert_non_null(config);
    if (f->refused) {
        array a = {.size = 8, .item = 8};
        stk__chain *chain = NULL;
        stk_error err;
        assert_fails(compile(ctx, config, &a, &chain, &err), STK_EKIND, &err, f->refused);
        n = 1;
    }
    for (int i = 0; i < 100 && !f->refused; i++) {
        array a;
        snprintf(path, sizeof path, "%s/array.%02d.npy", folder, i);
        if (!read_array(path, &a))
            continue;
        snprintf(path, sizeof path, "%s/%s/encoded.%02d.dat", folder, codec, i);
        bytes encoded = slurp(path);
        if (encoded.data) {
            check(ctx, state, f, config, &a, &encoded);
            n++;
        }
        free(encoded.data);
        free(a.file.data);
    }
    json_decref(config);
    return n;
}

static void run(stk_context *ctx, stk__codec_state *state, const char *root,
                const struct fixture *f)
{
    char folder[MAX_PATH], codec[32], path[MAX_PATH + 64];
    int n = 0;

    snprintf(folder, sizeof folder, "%s/%s", root, f->folder);
    for (int i = 0; i < MAX_CODECS; i++) {
        snprintf(codec, sizeof codec, "codec.%02d", i);
        snprintf(path, sizeof path, "%s/%s/config.json", folder, codec);
        FILE *there = fopen(path, "rb");
        if (!there)
            continue;
        fclose(there);
        n += run_codec(ctx, state, f, folder, codec);
    }
    if (n < f->least)
        fail_msg("%s: %d fixtures, not %d", f->folder, n, f->least);
}

static void test_fixtures(void **unused)
{
    static const stk_instructions instructions[] = {STK_INSTRUCTIONS_ALL, STK_INSTRUCTIONS_PLAIN};
    char root[256];

    if (!test_data("numcodecs", root))
        skip();
    for (size_t m = 0; m < STK_COUNT(instructions); m++) {
        stk_context_options options;
        stk_context *ctx = NULL;
        stk__codec_state *state = NULL;
        stk_error err;
        stk_context_options_init(&options);
        options.instructions = instructions[m];
        assert_ok(stk_context_create(&options, &ctx, &err), &err);
        assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
        for (size_t i = 0; i < STK_COUNT(fixtures); i++)
            run(ctx, state, root, &fixtures[i]);
        stk__codec_state_destroy(&state);
        stk_context_destroy(&ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fixtures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

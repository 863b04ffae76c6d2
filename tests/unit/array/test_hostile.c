/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata and chunks that are damaged or hostile: a clear error by name, never anything else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/array.h>

#include "support/support.h"

#define HEAD   "{\"zarr_format\":3,\"node_type\":\"array\","
#define SHAPE  "\"shape\":[4,4],"
#define TYPE   "\"data_type\":\"uint8\","
#define GRID   "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2,2]}},"
#define KEYS   "\"chunk_key_encoding\":{\"name\":\"default\"},"
#define FILL   "\"fill_value\":0,"
#define CODECS "\"codecs\":[{\"name\":\"bytes\"}]"
#define GRID_OF(chunk)                                                                             \
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":" chunk "}},"
#define INDEX_CODECS                                                                               \
    "\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},\"crc32c\"]"
#define SHARDS(inner, codecs)                                                                      \
    "\"codecs\":[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":" inner         \
    ",\"codecs\":" codecs "," INDEX_CODECS "}}]"

typedef struct wrong {
    const char *text;
    stk_status status;
    const char *part; /* of the message */
} wrong;

static const wrong v3[] = {
    {"", STK_EFORMAT, "no JSON"},
    {"{", STK_EFORMAT, "no JSON"},
    {"[]", STK_EFORMAT, "no object"},
    {"{\"a\":1,\"a\":2}", STK_EFORMAT, "no JSON"},
    {"{\"zarr_format\":4,\"node_type\":\"array\"}", STK_EKIND, "zarr_format"},
    {"{\"zarr_format\":3,\"node_type\":\"group\"}", STK_EMISMATCH, "a group"},
    {"{\"zarr_format\":3,\"node_type\":\"thing\"}", STK_EKIND, "'thing'"},
    {HEAD TYPE GRID KEYS FILL CODECS "}", STK_EFORMAT, "'shape' is missing"},
    {HEAD "\"shape\":[-1,4]," TYPE GRID KEYS FILL CODECS "}", STK_EFORMAT, "'shape'"},
    {HEAD "\"shape\":[4.5,4]," TYPE GRID KEYS FILL CODECS "}", STK_EFORMAT, "'shape'"},
    {HEAD "\"shape\":[18446744073709551617,4]," TYPE GRID KEYS FILL CODECS "}", STK_EFORMAT,
     "'shape'"},
    {HEAD "\"shape\":[9223372036854775807,9223372036854775807]," TYPE GRID KEYS FILL CODECS "}",
     STK_ELIMIT, "more chunks"},
    {HEAD "\"shape\":[4611686018427387904,4]," TYPE GRID_OF("[4611686018427387904,4]")
         KEYS FILL CODECS "}",
     STK_ELIMIT, NULL},
    {HEAD SHAPE TYPE GRID_OF("[0,2]") KEYS FILL CODECS "}", STK_EFORMAT, "chunk_shape"},
    {HEAD SHAPE TYPE GRID_OF("[2]") KEYS FILL CODECS "}", STK_EFORMAT, "1 dimensions"},
    {HEAD SHAPE TYPE "\"chunk_grid\":{\"name\":\"rectilinear\"}," KEYS FILL CODECS "}", STK_EKIND,
     "'rectilinear'"},
    {HEAD SHAPE "\"data_type\":\"float8_e4m3\"," GRID KEYS FILL CODECS "}", STK_EKIND,
     "'float8_e4m3'"},
    {HEAD SHAPE "\"data_type\":\"r7\"," GRID KEYS FILL CODECS "}", STK_ELIMIT, "'r7'"},
    {HEAD SHAPE "\"data_type\":\"r99999999999999999999\"," GRID KEYS FILL CODECS "}", STK_ELIMIT,
     NULL},
    {HEAD SHAPE
     "\"data_type\":{\"name\":\"fixed_length_utf32\",\"configuration\":{\"length_bytes\":-4}}," GRID
         KEYS FILL CODECS "}",
     STK_ELIMIT, NULL},
    {HEAD SHAPE TYPE GRID "\"chunk_key_encoding\":\"odd\"," FILL CODECS "}", STK_EKIND, "'odd'"},
    {HEAD SHAPE TYPE GRID
     "\"chunk_key_encoding\":{\"name\":\"v2\",\"configuration\":{\"separator\":\"..\"}}," FILL
         CODECS "}",
     STK_EFORMAT, "separator"},
    {HEAD SHAPE TYPE GRID KEYS CODECS "}", STK_EFORMAT, "'fill_value' is missing"},
    {HEAD SHAPE TYPE GRID KEYS "\"fill_value\":256," CODECS "}", STK_EFORMAT, "no uint8"},
    {HEAD SHAPE TYPE GRID KEYS "\"fill_value\":\"NaN\"," CODECS "}", STK_EFORMAT, "no uint8"},
    {HEAD SHAPE TYPE GRID KEYS FILL "\"codecs\":[]}", STK_EFORMAT, "'codecs'"},
    {HEAD SHAPE TYPE GRID KEYS FILL "\"codecs\":[\"bytes\",\"rar\"]}", STK_EKIND, "rar"},
    {HEAD SHAPE TYPE GRID KEYS FILL
     "\"codecs\":[{\"name\":\"transpose\",\"configuration\":{\"order\":[0,0]}},\"bytes\"]}",
     STK_EFORMAT, "permutation"},
    {HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"secret\":{\"must_understand\":true}}", STK_EKIND,
     "'secret'"},
    {HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"secret\":1}", STK_EKIND, "'secret'"},
    {HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"storage_transformers\":[{\"name\":\"mirror\"}]}",
     STK_EKIND, "'mirror'"},
    {HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"dimension_names\":[\"x\"]}", STK_EFORMAT,
     "dimension_names"},
    {HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"attributes\":3}", STK_EFORMAT, "attributes"},
    {HEAD SHAPE TYPE GRID KEYS FILL SHARDS("[3,2]", "[\"bytes\"]") "}", STK_EFORMAT,
     "do not divide"},
    {HEAD SHAPE TYPE GRID KEYS FILL SHARDS("[0,2]", "[\"bytes\"]") "}", STK_EFORMAT, "chunk_shape"},
    {HEAD SHAPE TYPE GRID_OF("[4294967296,4294967296]")
         KEYS FILL SHARDS("[1,1]", "[\"bytes\"]") "}",
     STK_ELIMIT, "2^32"},
    {HEAD SHAPE TYPE GRID KEYS FILL
     "\"codecs\":[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[1,1],"
     "\"codecs\":[\"bytes\"],\"index_codecs\":[\"bytes\",\"gzip\"]}}]}",
     STK_EFORMAT, NULL},
    {HEAD SHAPE TYPE GRID KEYS FILL "\"codecs\":[{\"name\":\"sharding_indexed\",\"configuration\":{"
                                    "\"chunk_shape\":[1,1],\"codecs\":[\"bytes\"]," INDEX_CODECS
                                    "}},\"gzip\"]}",
     STK_EKIND, "cannot be read in part"},
};

static const wrong v2[] = {
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"|O\",\"compressor\":null,\"fill_"
     "value\":0,\"order\":\"C\",\"filters\":null}",
     STK_EKIND, "Python objects"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[0],\"dtype\":\"<i4\",\"compressor\":null,\"fill_"
     "value\":0,\"order\":\"C\",\"filters\":null}",
     STK_EFORMAT, "chunks"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"<i4\",\"compressor\":null,\"fill_"
     "value\":0,\"order\":\"A\",\"filters\":null}",
     STK_EFORMAT, "order"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"<i4\",\"compressor\":{\"id\":"
     "\"rar\"},\"fill_value\":0,\"order\":\"C\",\"filters\":null}",
     STK_EKIND, "rar"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"<i4\",\"compressor\":null,\"fill_"
     "value\":0,\"order\":\"C\",\"filters\":[{\"id\":\"pickle\"}]}",
     STK_EKIND, "pickle"},
    {"{\"zarr_format\":2,\"shape\":[4,4],\"chunks\":[2],\"dtype\":\"<i4\",\"compressor\":null,"
     "\"fill_value\":0,\"order\":\"C\",\"filters\":null}",
     STK_EFORMAT, "'chunks' has 1"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":[[\"a\",\"<i4\",[1000000]]],"
     "\"compressor\":null,\"fill_value\":0,\"order\":\"C\",\"filters\":null}",
     STK_ELIMIT, "record"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"<M8[parsec]\",\"compressor\":"
     "null,\"fill_value\":0,\"order\":\"C\",\"filters\":null}",
     STK_EKIND, "unit"},
    {"{\"zarr_format\":2,\"shape\":[4],\"chunks\":[2],\"dtype\":\"<i4\",\"compressor\":null,\"fill_"
     "value\":0,\"order\":\"C\",\"dimension_separator\":\"-\"}",
     STK_EFORMAT, "separator"},
};

static void put(stk_store *store, const char *key, const void *data, size_t length)
{
    stk_error err;

    assert_ok(stk_store_put(store, key, data, length, NULL, &err), &err);
}

static stk_store *open_store(stk_context *ctx)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://h", &store, NULL, 0, &err), &err);
    return store;
}

static void check(stk_context *ctx, const char *key, const wrong *list, size_t n)
{
    stk_store *store = open_store(ctx);
    char full[64];

    for (size_t i = 0; i < n; i++) {
        stk_array *a = NULL;
        stk_error err;
        stk_error_init(&err);
        snprintf(full, sizeof full, "a/%s", key);
        put(store, full, list[i].text, strlen(list[i].text));
        stk_status status = stk_array_open(ctx, "mem://h/a", NULL, &a, &err);
        assert_null(a);
        if (status != list[i].status || (list[i].part && !strstr(err.text, list[i].part)))
            fail_msg("%s\n gives %s: %s", list[i].text, stk_status_name(status), err.text);
        assert_non_null(strstr(err.text, key));
    }
    stk_store_close(&store);
}

static void test_v3(void **state)
{
    stk_context *ctx = test_context();

    check(ctx, "zarr.json", v3, sizeof v3 / sizeof v3[0]);
    stk_context_destroy(&ctx);
}

static void test_v2(void **state)
{
    stk_context *ctx = test_context();

    check(ctx, ".zarray", v2, sizeof v2 / sizeof v2[0]);
    stk_context_destroy(&ctx);
}

/* What others would refuse is read. */
static void test_tolerance(void **state)
{
    static const char *const good[] = {
        HEAD SHAPE TYPE GRID "\"chunk_key_encoding\":\"default\"," FILL "\"codecs\":[\"bytes\"]}",
        HEAD SHAPE TYPE GRID KEYS FILL CODECS ",\"hint\":{\"must_understand\":false}}",
        HEAD SHAPE TYPE GRID KEYS FILL
        "\"codecs\":[{\"name\":\"transpose\",\"configuration\":{\"order\":\"F\"}},\"bytes\"]}",
        HEAD SHAPE TYPE GRID KEYS FILL CODECS
        ",\"storage_transformers\":[],\"dimension_names\":null}",
        HEAD SHAPE TYPE GRID KEYS FILL CODECS
        ",\"attributes\":{\"x\":NaN,\"n\":-Infinity,\"large\":18446744073709551615}}",
        HEAD SHAPE TYPE
        "\"chunk_grid\":{\"name\":\"https://zarr.dev/regular\",\"configuration\":{\"chunk_shape\":"
        "[2,2]}},\"chunk_key_encoding\":{\"name\":\"https://zarr.dev/v2\"}," FILL
        "\"codecs\":[\"https://zarr.dev/codecs/bytes\"]}",
        HEAD SHAPE TYPE GRID KEYS "\"fill_value\":null," CODECS "}", /* of GDAL */
    };
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    stk_error err;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        unsigned char out[16];
        stk_array *a = NULL;
        put(store, "a/zarr.json", good[i], strlen(good[i]));
        assert_ok(stk_array_open(ctx, "mem://h/a", NULL, &a, &err), &err);
        assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
        if (i == 4)
            assert_string_equal(stk_array_get_info(a)->attributes,
                                "{\"x\": NaN, \"n\": -Infinity, \"large\": 18446744073709551615}");
        stk_array_close(&a);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_deep_and_huge(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    size_t size = (64u << 20) + 1;
    stk_array *a = NULL;
    stk_error err;

    char *text = malloc(size);
    memset(text, '[', 100000);
    put(store, "a/zarr.json", text, 100000);
    assert_fails(stk_array_open(ctx, "mem://h/a", NULL, &a, &err), STK_ELIMIT, &err,
                 "deeper than 32");
    memset(text, ',', size);
    text[0] = '[';
    put(store, "a/zarr.json", text, 10000000);
    assert_fails(stk_array_open(ctx, "mem://h/a", NULL, &a, &err), STK_ELIMIT, &err, "values");
    memset(text, ' ', size);
    put(store, "a/zarr.json", text, size);
    assert_fails(stk_array_open(ctx, "mem://h/a", NULL, &a, &err), STK_ELIMIT, &err, "at most");
    free(text);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* ---- Chunks and shards ---- */

#define SHARDED                                                                                    \
    HEAD SHAPE TYPE GRID_OF("[4,4]") KEYS FILL                                                     \
        "\"codecs\":[{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":[2,2],"     \
        "\"codecs\":[\"bytes\"],\"index_codecs\":[{\"name\":\"bytes\",\"configuration\":"          \
        "{\"endian\":\"little\"}}]}}]}"

static void read_shard(stk_context *ctx, stk_store *store, const void *shard, size_t length,
                       stk_status expected, const char *part)
{
    unsigned char out[16];
    stk_array *a = NULL;
    stk_error err;

    put(store, "s/zarr.json", SHARDED, strlen(SHARDED));
    put(store, "s/c/0/0", shard, length);
    assert_ok(stk_array_open(ctx, "mem://h/s", NULL, &a, &err), &err);
    stk_error_init(&err);
    assert_fails(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), expected, &err, part);
    assert_non_null(strstr(err.text, "c/0/0"));
    assert_int_not_equal(err.offset, STK_NO_OFFSET);
    stk_array_close(&a);
}

static void test_shards(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    struct {
        unsigned char data[16];
        uint64_t index[8];
    } shard = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {0, 4, 4, 4, 8, 4, 12, 4}};
    unsigned char out[16];
    stk_array *a = NULL;
    stk_error err;

    put(store, "s/zarr.json", SHARDED, strlen(SHARDED));
    put(store, "s/c/0/0", &shard, sizeof shard);
    assert_ok(stk_array_open(ctx, "mem://h/s", NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    assert_int_equal(out[2], 5);
    stk_array_close(&a);
    read_shard(ctx, store, &shard, 10, STK_ETRUNCATED, "less than its shard index");
    shard.index[2] = 14; /* reaches into the index */
    read_shard(ctx, store, &shard, sizeof shard, STK_EFORMAT, "not within");
    shard.index[2] = UINT64_MAX - 1;
    read_shard(ctx, store, &shard, sizeof shard, STK_EFORMAT, "not within");
    shard.index[2] = 2;
    read_shard(ctx, store, &shard, sizeof shard, STK_EFORMAT, "overlaps");
    shard.index[2] = 0;
    read_shard(ctx, store, &shard, sizeof shard, STK_EFORMAT, "overlaps");
    shard.index[2] = 4;
    shard.index[3] = 3; /* another size than its shape */
    read_shard(ctx, store, &shard, sizeof shard, STK_EFORMAT, "has 3 bytes");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_checksum(void **state)
{
    static const char text[] =
        HEAD SHAPE TYPE GRID_OF("[4,4]") KEYS FILL SHARDS("[2,4]", "[\"bytes\",\"crc32c\"]") "}";
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    int64_t shape[2] = {4, 4}, chunk[2] = {2, 4};
    unsigned char values[16], out[16], object[256];
    stk_object_info info = {.struct_size = sizeof info};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    stk_array *a = NULL;
    stk_error err;

    for (int i = 0; i < 16; i++)
        values[i] = (unsigned char)(i + 1);
    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT8;
    o.rank = 2;
    o.shape = o.shard_shape = shape;
    o.chunk_shape = chunk;
    o.codec = "none";
    o.checksum = true;
    assert_ok(stk_array_writer_create(ctx, "mem://h/w", &o, &w, &err), &err);
    assert_ok(stk_array_writer_write(w, NULL, NULL, values, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
    assert_ok(stk_store_stat(store, "w/c/0/0", NULL, &info, &err), &err);
    assert_int_equal(info.size, 2 * 12 + 2 * 16 + 4);
    assert_ok(stk_store_read(store, "w/c/0/0", 0, info.size, object, &err), &err);
    put(store, "x/zarr.json", text, strlen(text));
    for (uint64_t i = 0; i < info.size; i++) {
        object[i] ^= 0x10;
        put(store, "x/c/0/0", object, info.size);
        object[i] ^= 0x10;
        assert_ok(stk_array_open(ctx, "mem://h/x", NULL, &a, &err), &err);
        assert_fails(stk_array_read(a, NULL, out, 16, NULL, -1, &err), STK_ECHECKSUM, &err,
                     "c/0/0");
        stk_array_close(&a);
    }
    /* Only the checksum of the index is wrong: the switch lets it be read. */
    object[info.size - 1] ^= 1;
    put(store, "x/c/0/0", object, info.size);
    assert_ok(stk_array_open(ctx, "mem://h/x?checksums=false", NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, out, 16, NULL, -1, &err), &err);
    assert_memory_equal(out, values, 16);
    stk_array_close(&a);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Chunks that end early, or have more bytes than they should: no codec takes them. */
static void test_cut(void **state)
{
    static const char *const codecs[] = {"none", "zstd", "gzip", "blosc"};
    static unsigned char object[8192];
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    int64_t shape[1] = {512}, shard[1] = {1024};
    uint16_t values[512], out[512];
    stk_array_writer_options o;
    char url[64], key[64];
    stk_array *a = NULL;
    stk_error err;

    for (size_t i = 0; i < 512; i++)
        values[i] = (uint16_t)(i * i % 97);
    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT16;
    o.rank = 1;
    o.shape = o.chunk_shape = shape;
    for (size_t c = 0; c < 8; c++) {
        stk_object_info info = {.struct_size = sizeof info};
        stk_array_writer *w = NULL;
        bool sharded = c >= 4;
        o.codec = codecs[c % 4];
        o.shard_shape = sharded ? shard : NULL;
        snprintf(url, sizeof url, "mem://h/cut%zu", c);
        snprintf(key, sizeof key, "cut%zu/c/0", c);
        assert_ok(stk_array_writer_create(ctx, url, &o, &w, &err), &err);
        assert_ok(stk_array_writer_write(w, NULL, NULL, values, &err), &err);
        assert_ok(stk_array_writer_finish(&w, &err), &err);
        assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
        if (info.size >= sizeof object)
            fail_msg("%s: %d bytes", key, (int)info.size);
        assert_ok(stk_store_read(store, key, 0, info.size, object, &err), &err);
        for (uint64_t length = 0; length <= info.size + 1; length++) {
            memset(out, 0xee, sizeof out);
            put(store, key, object, length);
            assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
            stk_error_init(&err);
            stk_status status = stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err);
            if (length == info.size) {
                assert_ok(status, &err);
                assert_memory_equal(out, values, sizeof out);
            } else if (status == STK_OK || stk_status_fault(status) != STK_FAULT_SAMPLE ||
                       !strstr(err.text, "c/0") || err.offset == STK_NO_OFFSET) {
                /* A plain chunk is a range of its object: what lies behind is never looked at. */
                if (c != 0 || length < info.size)
                    fail_msg("%s, %d of %d bytes: %s %s", o.codec, (int)length, (int)info.size,
                             stk_status_name(status), err.text);
            }
            stk_array_close(&a);
        }
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Few bytes of metadata, terabytes of elements and chunks that claim much: what is read is small.
 */
static void test_giants(void **state)
{
    static const char sparse[] = HEAD "\"shape\":[1152921504606846976]," TYPE GRID_OF("[1048576]")
        KEYS FILL "\"codecs\":[\"bytes\",{\"name\":\"zstd\",\"configuration\":{\"level\":1}}]}";
    static const char wide[] =
        HEAD "\"shape\":[4611686018427387904]," TYPE GRID_OF("[4611686018427387904]") KEYS FILL
        "\"codecs\":[\"bytes\",\"gzip\"]}";
    /* Frames that say they hold 2^40 bytes, and 64 MiB that are there. */
    static const unsigned char claim[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,
                                          0,    0,    1,    0,    0,    1, 0, 0};
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    int64_t start[1] = {1152921504606846970}, shape[1] = {6};
    const stk_array_box box = {start, shape, NULL};
    unsigned char out[6], bomb[2200];
    stk_array *a = NULL;
    stk_error err;

    put(store, "b/zarr.json", sparse, strlen(sparse));
    assert_ok(stk_array_open(ctx, "mem://h/b", NULL, &a, &err), &err);
    memset(out, 1, sizeof out);
    assert_ok(stk_array_read(a, &box, out, sizeof out, NULL, -1, &err), &err);
    assert_int_equal(out[5], 0);
    put(store, "b/c/1099511627775", claim, sizeof claim);
    assert_int_equal(stk_array_read(a, &box, out, sizeof out, NULL, -1, &err), STK_EFORMAT);
    assert_non_null(strstr(err.text, "c/1099511627775"));
    /* 2 kB of runs of 128 KiB each: 700 of them are 87 MiB. */
    memcpy(bomb, "\x28\xb5\x2f\xfd\0\x58", 6);
    for (size_t i = 6; i + 4 <= sizeof bomb; i += 4)
        memcpy(bomb + i, "\x02\0\x10\0", 4);
    put(store, "b/c/1099511627775", bomb, sizeof bomb);
    assert_int_equal(stk_array_read(a, &box, out, sizeof out, NULL, -1, &err), STK_EFORMAT);
    stk_array_close(&a);
    put(store, "b/zarr.json", wide, strlen(wide));
    put(store, "b/c/0", bomb, sizeof bomb);
    assert_ok(stk_array_open(ctx, "mem://h/b", NULL, &a, &err), &err);
    start[0] = 0;
    assert_fails(stk_array_read(a, &box, out, sizeof out, NULL, -1, &err), STK_EBUDGET, &err,
                 "does not fit the memory");
    stk_array_close(&a);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_groups(void **state)
{
    static const char *const bad[] = {"../x", "/x", "x//y", "x/", ".", "a/../b", ""};
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    char text[512];
    stk_group *g = NULL;
    stk_error err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text,
                 "{\"zarr_format\":3,\"node_type\":\"group\",\"consolidated_metadata\":{\"kind\":"
                 "\"inline\",\"must_understand\":false,\"metadata\":{\"%s\":{\"node_type\":"
                 "\"group\"}}}}",
                 bad[i]);
        put(store, "g/zarr.json", text, strlen(text));
        assert_fails(stk_group_open(ctx, "mem://h/g", &g, &err), STK_EFORMAT, &err,
                     "no path below");
        assert_null(g);
    }
    static const char absent[] =
        "{\"zarr_format\":3,\"node_type\":\"group\",\"consolidated_metadata\":null}";
    put(store, "g/zarr.json", absent, strlen(absent));
    assert_ok(stk_group_open(ctx, "mem://h/g", &g, &err), &err);
    assert_false(stk_group_is_consolidated(g));
    stk_group_close(&g);
    static const char unknown[] = "{\"zarr_format\":3,\"node_type\":\"group\",\"members\":3}";
    put(store, "g/zarr.json", unknown, strlen(unknown));
    assert_fails(stk_group_open(ctx, "mem://h/g", &g, &err), STK_EKIND, &err, "'members'");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static const char group_text[] = "{\"zarr_format\":3,\"node_type\":\"group\"}";

/* A group that goes on in itself, as links make one, ends with an error and not with less nodes. */
static void test_nested_groups(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = open_store(ctx);
    char key[256] = "n/";
    stk_group *g = NULL;
    stk_error err;

    for (size_t level = 0; level <= 33; level++) {
        size_t at = 2 + 2 * level;
        snprintf(key + at, sizeof key - at, "zarr.json");
        put(store, key, group_text, strlen(group_text));
        stk_error_init(&err);
        if (level <= 32) {
            assert_ok(stk_group_open(ctx, "mem://h/n", &g, &err), &err);
            assert_true(level == 0 || stk_group_node(g, level - 1));
            assert_null(stk_group_node(g, level));
            stk_group_close(&g);
        } else {
            assert_fails(stk_group_open(ctx, "mem://h/n", &g, &err), STK_ELIMIT, &err,
                         "STK__GROUP_MAX_LEVELS");
        }
        memcpy(key + at, "a/", 3);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* What the documents of a group become in memory is counted, together and before it is taken. */
static void test_group_memory(void **state)
{
    stk_context_options options;
    stk_memory_stats stats = {.struct_size = sizeof stats};
    stk_context *ctx = NULL;
    stk_group *g = NULL;
    stk_error err;
    char key[32];

    stk_context_options_init(&options);
    options.memory_limit = 64 << 20;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    stk_store *store = open_store(ctx);
    size_t length = 6000000, at = 0;
    char *text = malloc(length + 64);
    at +=
        (size_t)sprintf(text, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":{\"a\":[");
    while (at < length)
        at += (size_t)sprintf(text + at, "{},");
    at += (size_t)sprintf(text + at, "0]}}");
    put(store, "m/zarr.json", text, at);
    stk_context_memory(ctx, &stats);
    const uint64_t before = stats.bytes;
    assert_fails(stk_group_open(ctx, "mem://h/m", &g, &err), STK_ELIMIT, &err, "memory_limit");
    stk_context_memory(ctx, &stats);
    assert_int_equal(stats.bytes, before);
    assert_true(stats.peak_bytes - before < 24u << 20);

    /* One alone is let in, a hundred of them are not. */
    put(store, "m/zarr.json", group_text, strlen(group_text));
    at =
        (size_t)sprintf(text, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":{\"a\":[");
    while (at < 9000)
        at += (size_t)sprintf(text + at, "{},");
    at += (size_t)sprintf(text + at, "0]}}");
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "m/%d/zarr.json", i);
        put(store, key, text, at);
        stk_error_init(&err);
        stk_status status = stk_group_open(ctx, "mem://h/m", &g, &err);
        assert_true(status == STK_OK ? i < 30 : i > 5);
        if (status != STK_OK) {
            assert_fails(status, STK_ELIMIT, &err, "a quarter of memory_limit");
            break;
        }
        stk_group_close(&g);
        assert_true(i < 99);
    }
    free(text);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v3),           cmocka_unit_test(test_v2),
        cmocka_unit_test(test_tolerance),    cmocka_unit_test(test_deep_and_huge),
        cmocka_unit_test(test_shards),       cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_cut),          cmocka_unit_test(test_giants),
        cmocka_unit_test(test_groups),       cmocka_unit_test(test_nested_groups),
        cmocka_unit_test(test_group_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

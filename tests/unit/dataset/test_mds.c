/* SPDX-License-Identifier: Apache-2.0 */
/* MDS: golden shards of all encodings, and indexes and shards that are wrong in one thing. */
#include "support/changed.h"
#include "tabled.h"

#define GOLDEN "mds:" TESTS_DIR "/golden/tabled/mds"
#define COUNT  11

static void check_golden_sample(stk_dataset *d, int i)
{
    unsigned char pixels[6];
    char text[32];
    int16_t box[6];
    uint16_t tokens[3];
    taken *t = take(d, (uint64_t)i);
    const int32_t any[2] = {i, -i};
    const int64_t cls = 1000 + i, n = (i % 2 ? -1 : 1) * (int64_t)i * 1000000000000;

    assert_int_equal(t->sample.status, STK_OK);
    for (int k = 0; k < 6; k++) {
        box[k] = (int16_t)(6 * i + k - 30);
        pixels[k] = (unsigned char)(6 * i + k);
        tokens[k / 2] = (uint16_t)(10 * i + k / 2);
    }
    snprintf(text, sizeof text, "text %d", i);
    check_value(t, "any", any, sizeof any);
    check_value(t, "box", box, sizeof box);
    check_value(t, "label", &cls, sizeof cls);
    check_value(t, "n", &n, sizeof n);
    assert_memory_equal(taken_value(t, "photo")->data, "\x89PNG", 4);
    check_value(t, "raw", pixels, sizeof pixels);
    check_text(t, "text", text);
    check_value(t, "tok", tokens, (size_t)(1 + i % 3) * 2);
    taken_free(t);
}

static void test_golden(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, GOLDEN, &d, &err), &err);
    assert_int_equal(d->size, COUNT);
    assert_int_equal(d->num_fields, 8);
    assert_int_equal(field_of(d, "raw")->rank, 3);
    assert_true(field_of(d, "raw")->picture);
    assert_int_equal(field_of(d, "tok")->layout, STK_RAGGED);
    assert_string_equal(field_of(d, "photo")->codec, "image");
    for (int i = 0; i < COUNT; i++)
        check_golden_sample(d, COUNT - 1 - i);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_chosen_fields(void **state)
{
    stk_context *ctx = test_context();
    const int64_t cls = 1004;
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, GOLDEN "?fields=photo,cls", &d, &err), &err);
    assert_int_equal(d->num_fields, 2);
    assert_string_equal(d->fields[1].name, "image");
    taken *t = take(d, 4);
    check_value(t, "label", &cls, sizeof cls);
    taken_free(t);
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(ctx, GOLDEN "?varying=any", &d, &err), &err);
    assert_int_equal(field_of(d, "any")->layout, STK_RAGGED);
    stk_dataset_close(&d);
    check_refused(ctx, GOLDEN "?fields=label", STK_EINVAL, "the columns are any,box,cls");
    check_refused(ctx, GOLDEN "?varying=box", STK_EINVAL, "box");
    stk_context_destroy(&ctx);
}

static void test_recognised(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, TESTS_DIR "/golden/tabled/mds", &d, &err), &err);
    assert_string_equal(d->ops->name, "mds");
    stk_dataset_close(&d);
    check_refused(ctx, "mds:" TESTS_DIR "/golden/tabled/litdata", STK_EFORMAT, "MDSWriter");
    check_refused(ctx, "mds:" TESTS_DIR "/golden/tabled", STK_ENOENT, "has no index.json");
    stk_context_destroy(&ctx);
}

/* ---- Wrong in one thing ---- */

#define SHARD(name, bytes, samples, names, encodings, sizes, zip)                                  \
    "{\"version\":2,\"format\":\"mds\",\"column_names\":" names ",\"column_encodings\":" encodings \
    ",\"column_sizes\":" sizes ",\"raw_data\":{\"basename\":\"" name "\",\"bytes\":" bytes         \
    ",\"hashes\":{}},\"samples\":" samples ",\"zip_data\":" zip "}"
#define INDEX(shards) "{\"version\":2,\"shards\":[" shards "]}"

/* The file a.mds and this index. */
static test_room room_of(const char *index, const made *shard)
{
    test_room r = test_room_open("mem://m");

    test_put(r.store, "index.json", index, strlen(index));
    if (shard)
        test_put(r.store, "a.mds", shard->bytes, shard->size);
    return r;
}

static void check_index(const char *index, stk_status status, const char *says)
{
    made shard = made_shard(2, "12345678", 8); /* 32 bytes */
    test_room r = room_of(index, &shard);

    check_refused(r.ctx, "mds:mem://m", status, says);
    test_room_close(&r);
}

#define WITH(encoding, size)                                                                       \
    INDEX("{\"version\":2,\"format\":\"mds\",\"column_names\":[\"a\"],\"column_encodings\":["      \
          "\"" encoding "\"],\"column_sizes\":[" size "],\"raw_data\":{\"basename\":\"a.mds\","    \
          "\"bytes\":32,\"hashes\":{}},\"samples\":2,\"zip_data\":null}")
#define NAMED(name) INDEX(SHARD(name, "32", "2", "[\"a\"]", "[\"int\"]", "[8]", "null"))

static void test_wrong_indexes(void **state)
{
    (void)state;
    check_index("{}", STK_EFORMAT, "is no index of version 2");
    check_index("{\"version\":1,\"shards\":[]}", STK_EFORMAT, "is no index of version 2");
    check_index("{\"version\":2,\"shards\":[]}", STK_ENOENT, "names no shards");
    check_index("{\"version\":2,\"shards\":[7]}", STK_ENOTSUP, "mds of version 2 is read");
    check_index("[", STK_EFORMAT, "index.json");
    check_index(NAMED("../a.mds"), STK_EFORMAT, "lies not below the folder");
    check_index(NAMED("/a.mds"), STK_EFORMAT, "lies not below the folder");
    check_index(NAMED("x/../../a.mds"), STK_EFORMAT, "lies not below the folder");
    check_index(NAMED(""), STK_EFORMAT, "lies not below the folder");
    check_index(NAMED("b.mds"), STK_ENOENT, "is not there");
    check_index(WITH("pkl", "null"), STK_ENOTSUP, "pickle");
    check_index(WITH("list[jpeg]", "null"), STK_ENOTSUP, "several pictures");
    check_index(WITH("uint9", "8"), STK_EFORMAT, "no encoding");
    check_index(WITH("int", "4"), STK_EFORMAT, "values of 4 bytes, and they have 8");
    check_index(WITH("int", "null"), STK_EFORMAT, "values of 0 bytes");
    check_index(WITH("int", "-8"), STK_EFORMAT, "a size or null");
    check_index(WITH("ndarray:uint8:3,3", "8"), STK_EFORMAT, "and they have 9");
    check_index(WITH("ndarray:uint8:0", "null"), STK_EFORMAT, "no encoding");
    check_index(WITH("ndarray:uint8:2,", "2"), STK_EFORMAT, "no encoding");
    check_index(WITH("ndarray:uint8:9223372036854775807,9223372036854775807", "1"), STK_EFORMAT,
                "no encoding");
    check_index(WITH("ndarray:uint8:1,1,1,1,1,1,1,1,1", "1"), STK_EFORMAT, "no encoding");
    check_index(
        INDEX(SHARD("a.mds", "32", "2", "[\"a\",\"a\"]", "[\"int\",\"int\"]", "[8,8]", "null")),
        STK_EFORMAT, "twice");
    check_index(INDEX(SHARD("a.mds", "32", "2", "[\"a\"]", "[]", "[8]", "null")), STK_EFORMAT,
                "of one length");
    check_index(INDEX(SHARD("a.mds", "32", "2", "[\"a\"]", "[\"int\"]", "[8]", "null") "," SHARD(
                    "a.mds", "32", "2", "[\"b\"]", "[\"int\"]", "[8]", "null")),
                STK_EFORMAT, "other columns than the first");
    check_index(INDEX(SHARD("gone.mds", "32", "2", "[\"a\"]", "[\"int\"]", "[8]",
                            "{\"basename\":\"gone.mds.zstd\",\"bytes\":9}")),
                STK_ENOTSUP, "unpack each beside it, as 'gone.mds'");
}

static void check_shard(const char *samples, const made *shard, stk_status status, const char *says)
{
    char index[512];

    snprintf(index, sizeof index,
             INDEX(SHARD("a.mds", "%zu", "%s", "[\"a\"]", "[\"int\"]", "[8]", "null")), shard->size,
             samples);
    test_room r = room_of(index, shard);
    check_refused(r.ctx, "mds:mem://m", status, says);
    test_room_close(&r);
}

static void put_u32(made *m, size_t at, uint32_t value)
{
    memcpy(m->bytes + at, &value, 4);
}

static void test_wrong_shards(void **state)
{
    const made good = made_shard(2, "12345678", 8);
    made m = good;

    (void)state;
    check_shard("3", &good, STK_EFORMAT, "it holds 2 records, and index.json says 3");
    put_u32(&m, 8, 100); /* the end of the first */
    check_shard("2", &m, STK_EFORMAT, "record 0, byte 8: the table of offsets says 100");
    m = good;
    put_u32(&m, 4, 15); /* in the table itself */
    check_shard("2", &m, STK_EFORMAT, "the table of offsets says 15, and it is to be from 16");
    m = good;
    put_u32(&m, 8, 15);
    check_shard("2", &m, STK_EFORMAT, "the table of offsets says 15");
    m = good;
    made_bytes(&m, "rest of it", 10);
    check_shard("2", &m, STK_EFORMAT, "the last record ends here");
    m = good;
    put_u32(&m, 0, 0xffffffffu);
    check_shard("4294967295", &m, STK_ETRUNCATED, "a table of 4294967296 offsets is to follow");
    m = good;
    m.size = 3;
    check_shard("2", &m, STK_ETRUNCATED, "the shard ends at 3");
}

static void test_other_sizes(void **state)
{
    const made good = made_shard(2, "12345678", 8);
    test_room r =
        room_of(INDEX(SHARD("a.mds", "33", "2", "[\"a\"]", "[\"int\"]", "[8]", "null")), &good);

    (void)state;
    check_refused(r.ctx, "mds:mem://m", STK_ETRUNCATED, "it has 32 bytes, and index.json says 33");
    test_room_close(&r);
}

/* ---- Hashes ---- */

#define HASHED(hashes)                                                                             \
    INDEX("{\"version\":2,\"format\":\"mds\",\"column_names\":[\"a\"],\"column_encodings\":["      \
          "\"int\"],\"column_sizes\":[8],\"raw_data\":{\"basename\":\"a.mds\",\"bytes\":32,"       \
          "\"hashes\":" hashes "},\"samples\":2,\"zip_data\":null}")

#define SHA1 "8a1ced898cf1b929d71cf61aded469eefa376b68"

/* What Python's hashlib and xxhash make of the shard of check_index(). */
static const char *const known[][2] = {
    {"sha1", SHA1},
    {"md5", "308995da9ed60e7c2fda249e8a29b108"},
    {"sha256", "225cfd8d3d991c71833d000abb7cef4aa46628ac35a84a5af99befaadf323803"},
    {"xxh64", "c2dc72174d00eedb"},
    {"xxh32", "7d2abf0b"},
    {"xxh3_64", "1a3df40b3d770458"},
    {"xxh3_128", "9762be9f1c0719b87009d8c9f6dc41bb"},
    {"xxh128", "9762be9f1c0719b87009d8c9f6dc41bb"},
};

/* A line of the description; empty: there is none. */
typedef struct told {
    const char *name;
    char value[256];
} told;

static void find_told(void *user, const char *name, const char *value)
{
    told *t = user;

    if (strcmp(name, t->name) == 0)
        snprintf(t->value, sizeof t->value, "%s", value);
}

static void check_told(stk_dataset *d, const char *name, const char *part)
{
    told t = {.name = name};
    stk_error err;

    assert_ok(stk_dataset_describe(d, find_told, &t, &err), &err);
    if (!strstr(t.value, part) || (!*part && *t.value))
        fail_msg("%s: '%s' has no '%s'", name, t.value, part);
}

static void test_hashes(void **state)
{
    const made good = made_shard(2, "12345678", 8);
    char index[600];
    stk_dataset *d;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(known); i++) {
        made shard = good;
        snprintf(index, sizeof index, HASHED("{\"blake2b\":\"00\",\"%s\":\"%s\"}"), known[i][0],
                 known[i][1]);
        test_room r = room_of(index, &shard);
        assert_ok(stk_dataset_open(r.ctx, "mds:mem://m", &d, &err), &err);
        check_told(d, "hashes", "not checked");
        check_told(d, "hashes of other kinds", "blake2b");
        stk_dataset_close(&d);
        assert_ok(stk_dataset_open(r.ctx, "mds:mem://m?hashes=check", &d, &err), &err);
        check_told(d, "hashes", "checked of each shard");
        stk_dataset_close(&d);
        shard.bytes[20] ^= 1;
        test_put(r.store, "a.mds", shard.bytes, shard.size);
        assert_ok(stk_dataset_open(r.ctx, "mds:mem://m", &d, &err), &err);
        stk_dataset_close(&d);
        check_refused(r.ctx, "mds:mem://m?hashes=check", STK_ECHECKSUM, known[i][1]);
        check_refused(r.ctx, "mds:mem://m?hashes=check", STK_ECHECKSUM, "mds: a.mds: its ");
        test_room_close(&r);
    }
}

/* Each shard has its own, and of several the fastest counts. */
static void test_hashes_chosen(void **state)
{
    const made good = made_shard(2, "12345678", 8);
    test_room r = room_of(HASHED("{\"sha1\":\"" SHA1 "\",\"xxh64\":\"0123456789abcdef\"}"), &good);

    (void)state;
    check_refused(r.ctx, "mds:mem://m?hashes=check", STK_ECHECKSUM,
                  "its xxh64 is c2dc72174d00eedb, and its index says 0123456789abcdef");
    test_room_close(&r);
    r = room_of(HASHED("{\"blake2b\":\"00\"}"), &good);
    check_refused(r.ctx, "mds:mem://m?hashes=check", STK_ENOTSUP,
                  "no hash of 'a.mds' to check, but for blake2b");
    test_room_close(&r);
    r = room_of(HASHED("{}"), &good);
    check_refused(r.ctx, "mds:mem://m?hashes=check", STK_ENOTSUP, "to check; known are xxh3_128");
    check_refused(r.ctx, "mds:mem://m?hashes=sha1", STK_EINVAL, "it takes none | check");
    test_room_close(&r);
    check_index(HASHED("{\"sha1\":\"8A\"}"), STK_EFORMAT, "not its 40 small hexadecimal digits");
    check_index(HASHED("{\"xxh32\":\"7D2ABF0B\"}"), STK_EFORMAT, "not its 8 small");
    check_index(HASHED("{\"xxh32\":7}"), STK_EFORMAT, "a hash xxh32 that is not its 8");
}

/* An index that is kept of shards which nobody checked does not stand for the check. */
static void test_hashes_and_kept_index(void **state)
{
    static const char index[] = HASHED("{\"sha1\":\"" SHA1 "\"}");
    made shard = made_shard(2, "12345678", 8);
    char folder[256], spec[400];
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    test_folder(folder);
    test_write(folder, "index.json", index, strlen(index));
    shard.bytes[20] ^= 1;
    write_at(folder, "a.mds", shard.bytes, shard.size, 0);
    snprintf(spec, sizeof spec, "mds:%s?index=auto", folder);
    for (int again = 0; again < 2; again++) {
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        check_told(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    snprintf(spec, sizeof spec, "mds:%s?index=auto&hashes=check", folder);
    check_refused(ctx, spec, STK_ECHECKSUM, "its sha1 is");
    shard.bytes[20] ^= 1;
    write_at(folder, "a.mds", shard.bytes, shard.size, 1);
    for (int again = 0; again < 2; again++) {
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        check_told(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Bad samples ---- */

/* The first of two records of this column is bad, and this is why. */
static void check_sample(const char *encoding, const void *record, size_t size, const char *query,
                         const char *says)
{
    made shard = made_shard(2, record, size);
    char index[512], spec[64];
    stk_dataset *d;
    stk_error err;

    snprintf(index, sizeof index,
             INDEX(SHARD("a.mds", "%zu", "2", "[\"a\"]", "[\"%s\"]", "[null]", "null")), encoding,
             shard.size);
    test_room r = room_of(index, &shard);
    snprintf(spec, sizeof spec, "mds:mem://m%s", query);
    assert_ok(stk_dataset_open(r.ctx, spec, &d, &err), &err);
    taken *t = take(d, 0);
    if (says) {
        assert_int_equal(t->sample.status, STK_EFORMAT);
        assert_non_null(strstr(t->sample.reason, says));
    } else {
        assert_int_equal(t->sample.status, STK_OK);
    }
    taken_free(t);
    stk_dataset_close(&d);
    test_room_close(&r);
}

static void test_bad_samples(void **state)
{
    (void)state;
    check_sample("str", "\2\0\0\0ab", 6, "", NULL);
    check_sample("str", "\3\0\0\0ab", 6, "", "beyond its end");
    check_sample("str",
                 "\xff\xff\xff\xff"
                 "ab",
                 6, "", "beyond its end");
    check_sample("str", "\1\0\0\0ab", 6, "", "more bytes than its columns");
    check_sample("str", "\1\0", 2, "", "beyond its end");
    check_sample("jpeg", "\0\0\0\0", 4, "", "empty");
    check_sample("str_int", "\3\0\0\0-12", 7, "", NULL);
    check_sample("str_int", "\1\0\0\0-", 5, "", "no number");
    check_sample("str_int", "\0\0\0\0", 4, "", "no number");
    check_sample("str_int", "\2\0\0\0001x", 6, "", "no number");
    check_sample("str_int", "\x14\0\0\0-9223372036854775808", 24, "", NULL);
    check_sample("str_int", "\x13\0\0\0009223372036854775808", 23, "", "no number");
    check_sample("str_int", "\x14\0\0\0-9223372036854775809", 24, "", "no number");
}

/* Arrays that are wrong are seen when the dataset is opened, as these are looked at then. */
static void check_array(const char *encoding, const void *record, size_t size, stk_status status,
                        const char *says)
{
    made shard = made_shard(2, record, size);
    char index[512];

    snprintf(index, sizeof index,
             INDEX(SHARD("a.mds", "%zu", "2", "[\"a\"]", "[\"%s\"]", "[null]", "null")), encoding,
             shard.size);
    test_room r = room_of(index, &shard);
    check_refused(r.ctx, "mds:mem://m", status, says);
    test_room_close(&r);
}

static void test_wrong_arrays(void **state)
{
    (void)state;
    check_array("ndarray", "\5\0\0\0\x21\4\1\7\7", 9, STK_EFORMAT, "not those of its shape");
    check_array("ndarray", "\4\0\0\0\x23\4\1\7", 8, STK_EFORMAT, "type or mode that is not read");
    check_array("ndarray", "\2\0\0\0\x21\x28", 6, STK_EFORMAT, "not those of its shape");
    check_array("ndarray", "\0\0\0\0", 4, STK_EFORMAT, "not those of its shape");
    check_array("ndarray:uint8",
                "\x11\0\0\0\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                "\xff\xff\xff\xff",
                21, STK_EFORMAT, "not those of its shape");
    check_array("pil", "\x0d\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0P", 17, STK_EFORMAT, "mode");
    check_array("pil", "\x0d\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0L", 17, STK_EFORMAT, "shape");
    check_array("pil", "\x0d\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0L", 17, STK_EFORMAT, "shape");
}

/* Two records of a column whose arrays cannot be one field. */
static void check_mixed(const char *encoding, const void *records, size_t first, size_t second,
                        const char *says)
{
    made shard = {.size = 0};
    char index[512];

    made_u32(&shard, 2);
    made_u32(&shard, 16);
    made_u32(&shard, 16 + (uint32_t)first);
    made_u32(&shard, 16 + (uint32_t)(first + second));
    made_bytes(&shard, records, first + second);
    snprintf(index, sizeof index,
             INDEX(SHARD("a.mds", "%zu", "2", "[\"a\"]", "[\"%s\"]", "[null]", "null")), encoding,
             shard.size);
    test_room r = room_of(index, &shard);
    check_refused(r.ctx, "mds:mem://m", STK_ENOTSUP, says);
    test_room_close(&r);
}

static void test_mixed_arrays(void **state)
{
    (void)state;
    check_mixed("ndarray:uint8", "\5\0\0\0\x08\1\2ab\5\0\0\0\x08\2\1ab", 9, 9,
                "in more than the first dimension");
    check_mixed("ndarray", "\4\0\0\0\x08\4\1a\4\0\0\0\x09\4\1a", 8, 8, "differ in type");
    check_mixed("pil",
                "\x0f\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0Lab"
                "\x0e\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0La",
                19, 18, "of several sizes");
}

/* Arrays of these first dimensions: one that was not looked at may differ, and is bad. */
static void test_learnt(void **state)
{
    enum { N = 400 };
    static unsigned char bytes[4 + 4 * (N + 1) + N * 16];
    char index[512];
    stk_dataset *d;
    stk_error err;
    uint32_t at = 4 + 4 * (N + 1), n = N;

    (void)state;
    memcpy(bytes, &n, 4);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t values = i == 331 ? 4 : 3;
        const unsigned char head[] = {(unsigned char)(2 + values), 0, 0, 0, 4,
                                      (unsigned char)values};
        memcpy(bytes + 4 + 4 * i, &at, 4);
        memcpy(bytes + at, head, sizeof head);
        memset(bytes + at + sizeof head, (int)i, values);
        at += (uint32_t)sizeof head + values;
    }
    memcpy(bytes + 4 + 4 * N, &at, 4);
    snprintf(index, sizeof index,
             INDEX(SHARD("a.mds", "%u", "400", "[\"a\"]", "[\"ndarray:uint8\"]", "[null]", "null")),
             at);
    test_room r = room_of(index, NULL);
    test_put(r.store, "a.mds", bytes, at);
    assert_ok(stk_dataset_open(r.ctx, "mds:mem://m", &d, &err), &err);
    assert_int_equal(d->fields[0].layout, STK_FIXED);
    taken *t = take(d, 331);
    assert_int_equal(t->sample.status, STK_EFORMAT);
    assert_non_null(strstr(t->sample.reason, "varying=COLUMN"));
    taken_free(t);
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(r.ctx, "mds:mem://m?varying=a", &d, &err), &err);
    t = take(d, 331);
    check_value(t, "a", "KKKK", 4);
    taken_free(t);
    stk_dataset_close(&d);
    test_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_chosen_fields),
        cmocka_unit_test(test_recognised),
        cmocka_unit_test(test_wrong_indexes),
        cmocka_unit_test(test_wrong_shards),
        cmocka_unit_test(test_other_sizes),
        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_wrong_arrays),
        cmocka_unit_test(test_mixed_arrays),
        cmocka_unit_test(test_learnt),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_hashes_chosen),
        cmocka_unit_test(test_hashes_and_kept_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* litdata: golden chunks of all formats, and indexes and chunks that are wrong in one thing. */
#include "dataset/records/litdata.h"
#include "tabled.h"

#define GOLDEN "litdata:" TESTS_DIR "/golden/tabled/litdata"
#define TOKENS "litdata:" TESTS_DIR "/golden/tabled/tokens"
#define COUNT  11

static void check_arrays(const taken *t, int i)
{
    unsigned char pixels[6];
    int16_t t2[6];
    int32_t t1[2];
    float np2[4];

    for (int k = 0; k < 6; k++) {
        t2[k] = (int16_t)(6 * i + k - 30);
        pixels[k] = (unsigned char)(6 * i + k);
        t1[k / 3] = 10 * i + k / 3;
        np2[k * 2 / 3] = (float)i + (float)(k * 2 / 3) / 4;
    }
    check_value(t, "t2", t2, sizeof t2);
    check_value(t, "t1", t1, (size_t)(i % 3) * 4);
    check_value(t, "np2", np2, (size_t)(1 + i % 2) * 8);
    check_value(t, "sub.y.1", pixels, sizeof pixels);
}

static void check_golden_sample(stk_dataset *d, int i)
{
    unsigned char blob[COUNT];
    char text[32];
    const int64_t label = i - 5, x = (int64_t)i << 40;
    const double f = i / 2.0;
    const unsigned char b = i % 2;
    taken *t = take(d, (uint64_t)i);

    assert_int_equal(t->sample.status, STK_OK);
    for (int k = 0; k < COUNT; k++)
        blob[k] = (unsigned char)k;
    snprintf(text, sizeof text, "\xff\xd8 no picture %d", i);
    check_text(t, "image", text);
    snprintf(text, sizeof text, "text %d", i);
    check_text(t, "text", text);
    check_value(t, "label", &label, sizeof label);
    check_value(t, "f", &f, sizeof f);
    check_value(t, "b", &b, 1);
    check_value(t, "sub.x", &x, sizeof x);
    check_value(t, "sub.y.0", blob, (size_t)i);
    check_arrays(t, i);
    taken_free(t);
}

static void test_golden(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, TESTS_DIR "/golden/tabled/litdata", &d, &err), &err);
    assert_string_equal(d->ops->name, "litdata");
    assert_int_equal(d->size, COUNT);
    assert_int_equal(d->num_fields, 11);
    assert_int_equal(field_of(d, "np2")->layout, STK_RAGGED);
    assert_int_equal(field_of(d, "np2")->shape[1], 2);
    assert_int_equal(field_of(d, "b")->dtype, STK_BOOL);
    assert_string_equal(field_of(d, "image")->codec, "image");
    for (int i = 0; i < COUNT; i++)
        check_golden_sample(d, COUNT - 1 - i);
    stk_dataset_close(&d);
    check_refused(ctx, GOLDEN "?block_size=4", STK_EINVAL, "for chunks of tokens");
    stk_context_destroy(&ctx);
}

/* Tokens count on from 0. Items are of 5, 6, 7, ...; blocks do not go from chunk to chunk. */
static void test_tokens(void **state)
{
    static const uint16_t first_of_block[] = {0,  7,  14, 26, 33, 40, 47, 54,
                                              61, 68, 75, 82, 89, 96, 103};
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;
    uint16_t tokens[32];
    uint16_t at = 0;

    (void)state;
    assert_ok(stk_dataset_open(ctx, TOKENS, &d, &err), &err);
    assert_int_equal(d->size, COUNT);
    for (uint16_t i = 0; i < COUNT; i++) {
        taken *t = take(d, i);
        for (uint16_t k = 0; k < 5 + i; k++)
            tokens[k] = at++;
        check_value(t, "tokens", tokens, (size_t)(5 + i) * 2);
        taken_free(t);
    }
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(ctx, TOKENS "?block_size=7", &d, &err), &err);
    assert_int_equal(d->size, STK_COUNT(first_of_block));
    for (uint64_t i = 0; i < d->size; i++) {
        taken *t = take(d, i);
        for (uint16_t k = 0; k < 7; k++)
            tokens[k] = (uint16_t)(first_of_block[i] + k);
        check_value(t, "tokens", tokens, 14);
        taken_free(t);
    }
    stk_dataset_close(&d);
    check_refused(ctx, TOKENS "?block_size=1000", STK_EFORMAT, "without a record");
    stk_context_destroy(&ctx);
}

/* ---- Names of leaves ---- */

static stk_status add_name(void *user, const char *name, bool nameless, stk_error *err)
{
    char *all = user;

    assert_true(strlen(all) + strlen(name) + 3 < 512);
    strcat(strcat(all, name), nameless ? "! " : " ");
    return STK_OK;
}

#define LEAF "{\"type\":null,\"context\":null,\"children_spec\":[]}"
#define TREE(type, context, children)                                                              \
    "{\"type\":\"" type "\",\"context\":" context ",\"children_spec\":[" children "]}"

static void check_leaves(stk_context *ctx, const char *spec, const char *names)
{
    char all[512] = "";
    stk_error err;

    assert_ok(stk__litdata_leaves(ctx, spec, "index.json", add_name, all, &err), &err);
    assert_string_equal(all, names);
}

static void test_leaves(void **state)
{
    stk_context *ctx = test_context();
    char deep[2048] = "[1,", all[512] = "";
    stk_error err;

    (void)state;
    check_leaves(ctx, "[1," LEAF "]", "value! ");
    check_leaves(ctx, "[1," TREE("builtins.tuple", "\"null\"", LEAF "," LEAF) "]", "0! 1! ");
    check_leaves(ctx,
                 "[1," TREE("collections.OrderedDict", "\"[\\\"a\\\",7]\"",
                            LEAF "," TREE("builtins.list", "\"null\"", LEAF)) "]",
                 "a 7.0! ");
    assert_int_equal(stk__litdata_leaves(ctx, "[2," LEAF "]", "k", add_name, all, &err),
                     STK_EFORMAT);
    assert_int_equal(stk__litdata_leaves(ctx, "[1," TREE("builtins.dict", "\"[]\"", LEAF) "]", "k",
                                         add_name, all, &err),
                     STK_EFORMAT);
    for (int i = 0; i < 20; i++)
        strcat(deep, "{\"type\":\"builtins.list\",\"context\":null,\"children_spec\":[");
    strcat(deep, LEAF);
    for (int i = 0; i < 20; i++)
        strcat(deep, "]}");
    strcat(deep, "]");
    assert_true(stk__litdata_leaves(ctx, deep, "k", add_name, all, &err) < 0);
    assert_string_equal(all, "");
    stk_context_destroy(&ctx);
}

/* ---- Wrong in one thing ---- */

#define INDEX(name, formats, config)                                                               \
    "{\"chunks\":[{\"filename\":\"" name "\",\"chunk_size\":2,\"dim\":null,\"chunk_bytes\":40}],"  \
    "\"config\":{\"data_format\":[" formats "],\"data_spec\":null" config "}}"

static void check_index(const char *index, const char *record, size_t size, stk_status status,
                        const char *says)
{
    made shard = made_shard(2, record, size);
    test_room r = test_room_open("mem://m");

    test_put(r.store, "index.json", index, strlen(index));
    test_put(r.store, "a.bin", shard.bytes, shard.size);
    check_refused(r.ctx, "litdata:mem://m", status, says);
    test_room_close(&r);
}

static void check_format(const char *index, stk_status status, const char *says)
{
    check_index(index, "\4\0\0\0abcd", 8, status, says);
}

static void test_wrong_indexes(void **state)
{
    (void)state;
    check_format("{\"config\":{}}", STK_EFORMAT, "no list of chunks");
    check_format("{\"chunks\":[]}", STK_EFORMAT, "has no config");
    check_format(INDEX("../a.bin", "\"str\"", ""), STK_EFORMAT, "lies not below the folder");
    check_format(INDEX("b.bin", "\"str\"", ""), STK_ENOENT, "is not there");
    check_format(INDEX("a.bin", "", ""), STK_EFORMAT, "data_format");
    check_format(INDEX("a.bin", "7", ""), STK_EFORMAT, "fewer entries");
    check_format(INDEX("a.bin", "\"pickle\"", ""), STK_ENOTSUP, "pickle");
    check_format(INDEX("a.bin", "\"graph\"", ""), STK_ENOTSUP, "pickle");
    check_format(INDEX("a.bin", "\"no_header_tensor:21\"", ""), STK_ENOTSUP, "not read");
    check_format(INDEX("a.bin", "\"no_header_numpy:11\"", ""), STK_ENOTSUP, "not read");
    check_format(INDEX("a.bin", "\"no_header_tensor:x\"", ""), STK_ENOTSUP, "not read");
    check_format(INDEX("a.bin", "\"str\"", ",\"encryption\":{}"), STK_ENOTSUP, "encryption");
    check_format(INDEX("a.bin", "\"str\"", ",\"compression_level\":\"batch\""), STK_ENOTSUP,
                 "compression_level 'batch'");
    check_format(INDEX("a.bin", "\"str\"", ",\"item_loader\":\"ParquetLoader\""), STK_ENOTSUP,
                 "ParquetLoader");
    check_format(INDEX("a.bin", "\"str\"", ",\"item_loader\":\"TokensLoader\""), STK_EFORMAT,
                 "no row of numbers");
    check_format(INDEX("b.zstd.bin", "\"str\"", ",\"compression\":\"zstd\""), STK_ENOTSUP,
                 "unpack each beside it, as 'b.bin'");
}

static void test_wrong_chunks(void **state)
{
    test_room r = test_room_open("mem://m");
    unsigned char head[40] = {2, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0, 16};

    (void)state;
    test_put(r.store, "index.json", INDEX("a.bin", "\"str\"", ""),
             strlen(INDEX("a.bin", "\"str\"", "")));
    memcpy(head + 32, "LDARW01", 8);
    test_put(r.store, "a.bin", head, sizeof head);
    check_refused(r.ctx, "litdata:mem://m", STK_ENOTSUP, "Arrow");
    test_put(r.store, "a.bin", "LDFZ01\0\0........", 16);
    check_refused(r.ctx, "litdata:mem://m", STK_ENOTSUP, "compressed in batches");
    test_room_close(&r);
    check_index(INDEX("a.bin", "\"tensor\"", ""), "\x10\0\0\0\0\0\0\x0b\0\0\0\1\0\0\0\5abcd", 20,
                STK_EFORMAT, "not those of its shape");
    check_index(INDEX("a.bin", "\"tensor\"", ""), "\x10\0\0\0\0\0\0\x15\0\0\0\1\0\0\0\4abcd", 20,
                STK_EFORMAT, "not read");
    check_index(INDEX("a.bin", "\"tensor\"", ""), "\x08\0\0\0\0\0\0\x0b\xff\xff\xff\xff", 12,
                STK_EFORMAT, "not those of its shape");
    check_index(INDEX("a.bin", "\"numpy\"", ""), "\x10\0\0\0\4\0\0\0\2\0\0\0\xff\xff\xff\xff", 16,
                STK_EFORMAT, "beyond its end");
    check_index(INDEX("a.bin", "\"no_header_tensor:15\"", ""), "\3\0\0\0abc", 7, STK_EFORMAT,
                "not those of its shape");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_leaves),       cmocka_unit_test(test_wrong_indexes),
        cmocka_unit_test(test_wrong_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

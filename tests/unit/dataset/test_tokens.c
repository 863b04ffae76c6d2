/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: windows of one row of integers of any type, from memory, a map or a store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"

enum { COUNT = 5000 };

static int64_t token(int64_t i)
{
    return i * 37 % 101;
}

/* Write COUNT tokens of a type; returns the bytes. */
static size_t fill(unsigned char *bytes, const char *type)
{
    const size_t size = stk_dtype_size(stk_dtype_parse(type));

    for (int64_t i = 0; i < COUNT; i++) {
        int64_t value = token(i); /* little endian: the low bytes come first */
        memcpy(bytes + (size_t)i * size, &value, size);
    }
    return COUNT * size;
}

static void check_all(stk_dataset *d, int64_t length, int64_t stride, bool target, int cache)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint64_t count = 0;
    stk_status status;

    assert_int_equal(d->size, (COUNT - length - target) / stride + 1);
    stk_loader_options_init(&o);
    o.batch_size = 7;
    o.shuffle = STK_SHUFFLE_FULL;
    o.epochs = 1;
    o.cache = cache;
    o.memory_budget = 32 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor in = {.struct_size = sizeof in}, index = {.struct_size = sizeof index},
                   out = {.struct_size = sizeof out};
        assert_int_equal(stk_batch_find(batch, target ? "input" : "tokens", &in), STK_OK);
        assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
        assert_int_equal(in.dtype, STK_INT64);
        assert_int_equal(in.shape[1], length);
        for (uint64_t r = 0; r < stk_batch_count(batch); r++, count++) {
            int64_t first = (int64_t)((uint64_t *)index.data)[r] * stride;
            for (int64_t k = 0; k < length; k++)
                assert_int_equal(((int64_t *)in.data)[(int64_t)r * length + k], token(first + k));
            if (!target)
                continue;
            assert_int_equal(stk_batch_find(batch, "target", &out), STK_OK);
            for (int64_t k = 0; k < length; k++)
                assert_int_equal(((int64_t *)out.data)[(int64_t)r * length + k],
                                 token(first + k + 1));
        }
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    assert_int_equal(count, d->size);
    stk_loader_destroy(&loader);
}

static void test_types_and_places(void **state)
{
    static const char *const types[] = {"uint8",  "int8",  "uint16", "int16",
                                        "uint32", "int32", "int64"};
    static const char *const ways[] = {"", "&memory=true", "&mmap=true"};
    stk_context *ctx = test_context();
    unsigned char *bytes = malloc(COUNT * 8 + 16);
    char folder[256], spec[512];
    stk_dataset *d;
    stk_error err;

    (void)state;
    test_folder(folder);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < 3; w++) {
            const bool target = (t + w) % 2;
            const int64_t length = t % 3 == 0 ? 33 : 64, stride = t % 2 ? 1 : 50;
            memset(bytes, 0xee, 16);
            test_write(folder, "t.bin", bytes, 16 + fill(bytes + 16, types[t]));
            snprintf(spec, sizeof spec,
                     "tokens:%s/t.bin?dtype=%s&offset=16&length=%d&stride=%d&target=%s%s", folder,
                     types[t], (int)length, (int)stride, target ? "true" : "false", ways[w]);
            assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
            check_all(d, length, stride, target, (int)(t % 2));
            stk_dataset_close(&d);
        }
    test_folder_remove(folder);
    free(bytes);
    stk_context_destroy(&ctx);
}

static size_t npy_header(unsigned char *out, const char *descr, const char *shape)
{
    int n = snprintf((char *)out + 10, 118,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);

    memset(out + 10 + n, ' ', (size_t)(118 - n));
    out[127] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00\x76\x00", 10);
    return 128;
}

static void test_npy(void **state)
{
    stk_context *ctx = test_context();
    unsigned char *bytes = malloc(COUNT * 8 + 128), low;
    stk_store *store;
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    npy_header(bytes, "<u2", "(5000,)");
    fill(bytes + 128, "uint16");
    assert_ok(stk_store_put(store, "a.npy", bytes, 128 + COUNT * 2, NULL, &err), &err);
    assert_ok(stk_dataset_open(ctx, "tokens:mem://t/a.npy?length=100&target=true", &d, &err), &err);
    check_all(d, 100, 100, true, 0);
    stk_dataset_close(&d);
    npy_header(bytes, ">u4", "(5000,)");
    fill(bytes + 128, "uint32");
    for (size_t i = 0; i < COUNT; i++) {
        low = bytes[128 + 4 * i];
        bytes[128 + 4 * i] = 0;
        bytes[128 + 4 * i + 3] = low;
    }
    assert_ok(stk_store_put(store, "b.npy", bytes, 128 + COUNT * 4, NULL, &err), &err);
    assert_ok(stk_dataset_open(ctx, "tokens:mem://t/b.npy?length=1500&stride=9", &d, &err), &err);
    check_all(d, 1500, 9, false, 0);
    stk_dataset_close(&d);
    npy_header(bytes, "<u2", "(50, 100)");
    assert_ok(stk_store_put(store, "c.npy", bytes, 128 + COUNT * 2, NULL, &err), &err);
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/c.npy", &d, &err), STK_EFORMAT, &err,
                 "one dimension");
    npy_header(bytes, "<f4", "(5000,)");
    assert_ok(stk_store_put(store, "d.npy", bytes, 128 + COUNT * 4, NULL, &err), &err);
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/d.npy", &d, &err), STK_EKIND, &err,
                 "integers");
    stk_store_close(&store);
    free(bytes);
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store;
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "odd.bin", "12345", 5, NULL, &err), &err);
    assert_ok(stk_store_put(store, "none.bin", "", 0, NULL, &err), &err);
    stk_store_close(&store);
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/odd.bin", &d, &err), STK_EFORMAT, &err,
                 "whole tokens");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/odd.bin?offset=9", &d, &err), STK_EFORMAT,
                 &err, "whole tokens");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/odd.bin?offset=1&length=3", &d, &err),
                 STK_EINVAL, &err, "takes 3 tokens");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/none.bin?length=1", &d, &err), STK_EINVAL,
                 &err, "has 0");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/odd.bin?dtype=word", &d, &err), STK_EINVAL,
                 &err, "no type");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/odd.bin?dtype=float32&offset=1", &d, &err),
                 STK_EKIND, &err, "integers");
    assert_fails(stk_dataset_open(ctx, "tokens:mem://t/gone.bin", &d, &err), STK_ENOENT, &err,
                 "gone.bin");
    stk_context_destroy(&ctx);
}

static void see(void *user, const char *name, const char *value)
{
    *(unsigned *)user += (!strcmp(name, "file") && !strcmp(value, "t.bin")) ||
                         (!strcmp(name, "tokens") && !strcmp(value, "100 of uint16")) ||
                         (!strcmp(name, "kept in") && !strcmp(value, "the store, read by range"));
}

static void test_describe(void **state)
{
    stk_context *ctx = test_context();
    unsigned char bytes[200] = {0};
    char folder[256], spec[300];
    stk_dataset *d;
    unsigned right = 0;
    stk_error err;

    (void)state;
    test_folder(folder);
    test_write(folder, "t.bin", bytes, sizeof bytes);
    snprintf(spec, sizeof spec, "tokens:%s/t.bin?dtype=uint16&length=10", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_ok(stk_dataset_describe(d, see, &right, &err), &err);
    assert_int_equal(right, 3);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_and_places),
                                       cmocka_unit_test(test_npy), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_describe)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

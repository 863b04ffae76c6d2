/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail the n-th allocation, once and from there on for ever, for every n, while windows of arrays
 * and tokens are opened and delivered: the status must be right, nothing may leak, hang or crash.
 */
#include "support/faults.h"
#include "unit/dataset/tokens.h"
#include "unit/dataset/windows.h"

static faults fault;

typedef struct scenario {
    const char *spec;
    int64_t num_workers;
    int cache;
} scenario;

static char folder[256];

static const scenario scenarios[] = {
    {"array:%s/g?window=2x4x4&stack=true&nan=mask&mean=1", 1, STK_CACHE_NONE},
    {"array:%s/g/t2m?window=4x8x8&stride=2x8x8", 0, STK_CACHE_ENCODED},
    {"array:%s/g/u10?window=4x8x8&stride=2x8x8", 2, STK_CACHE_DECODED},
    {"array:%s/plain?window=4x8x8&stride=2x4x8", 1, STK_CACHE_NONE},
    {"tokens:%s/plain/c/0/0/0?length=8&target=true", 1, STK_CACHE_NONE},
    {"tokens:%s/plain/c/0/0/0?length=8&documents=mark&dtype=uint8&eod=0", 0, STK_CACHE_NONE},
    {"tokens:%s/m.bin?length=8&documents=split&stride=4&memory=true", 1, STK_CACHE_NONE},
    {"tokens:%s/m?length=8&documents=pack&target=true", 1, STK_CACHE_ENCODED},
};

/* Open, iterate an epoch, close. The first failure ends it, as a user's program would. */
static stk_status program(const scenario *s)
{
    stk_context_options options;
    stk_loader_options o;
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;
    char spec[512];

    snprintf(spec, sizeof spec, s->spec, folder);
    stk_error_init(&err);
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &fault};
    options.io_engine = STK_IO_THREADS;
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_dataset_open(ctx, spec, &dataset, &err);
    stk_loader_options_init(&o);
    o.batch_size = 4;
    o.shuffle = STK_SHUFFLE_FULL;
    o.num_workers = s->num_workers;
    o.cache = s->cache;
    o.memory_budget = 24 << 20;
    o.epochs = 1;
    if (status == STK_OK)
        status = stk_loader_create(dataset, &o, &loader, &err);
    while (status == STK_OK) {
        status = stk_loader_next(loader, -1, &batch, &err);
        stk_batch_release(&batch);
    }
    if (status == STK_EOS)
        status = STK_OK;
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    if (fault.held != 0 || (status != STK_OK && err.status != status))
        fail_msg("%s: %s: %lld blocks left; the error says %s: %s", spec, stk_status_name(status),
                 (long long)fault.held, stk_status_name(err.status), err.text);
    return status;
}

static void each_allocation_fails(void **state)
{
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++)
        for (int for_good = 0; for_good < 2; for_good++)
            for (int64_t n = 0;; n++) {
                fault.left = n;
                fault.for_good = for_good;
                stk_status status = program(&scenarios[s]);
                if (status != STK_OK && status != STK_ENOMEM)
                    fail_msg("scenario %zu, call %lld: %s", s, (long long)n,
                             stk_status_name(status));
                if (!fault_struck(&fault)) {
                    assert_int_equal(status, STK_OK);
                    break;
                }
                assert_true(n < 5000);
            }
}

static void make_documents(void)
{
    static const tokens_model m = {.docs = 9, .length = {1, 5, 20, 0, 3, 3, 8, 9, 2}, .count = 51};
    unsigned char bytes[400] = {0};

    test_write(folder, "m.bin", bytes, 2 * m.count);
    test_write(folder, "m.idx", bytes, tokens_index(&m, 8, 2, bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};
    made a = {.dtype = STK_FLOAT32, .shape = {8, 8, 8}, .chunk = {4, 4, 8}};
    stk_context *ctx = test_context();
    stk_error err;
    char url[300];

    test_folder(folder);
    snprintf(url, sizeof url, "%s/g/t2m", folder);
    make_array(ctx, url, &a);
    snprintf(url, sizeof url, "%s/plain", folder);
    a.codec = "none";
    make_array(ctx, url, &a);
    snprintf(url, sizeof url, "%s/g/u10", folder);
    a.codec = "gzip";
    a.shard[0] = a.shard[1] = a.shard[2] = 8;
    make_array(ctx, url, &a);
    snprintf(url, sizeof url, "%s/g", folder);
    assert_ok(stk_group_consolidate(ctx, url, NULL, &err), &err);
    stk_context_destroy(&ctx);
    make_documents();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}

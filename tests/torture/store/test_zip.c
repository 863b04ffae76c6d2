/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives, opened, listed, described and read while the n-th allocation fails, for every n until
 * all succeed: STK_ENOMEM or success, the right bytes, nothing left behind.
 */
#include <string.h>

#include "codec/codec.h"
#include "store/store.h"
#include "support/faulty_context.h"
#include "support/zips.h"

static const char *const names[] = {"stored", "deflated", "mixed", "zip64_end"};

static stk_status pass_over(void *user, const char *key, const stk_object_info *info)
{
    return STK_OK;
}

static void no_line(void *user, const char *name, const char *value)
{
}

/* All that can be asked of the archive mem://z/a.zip. */
static stk_status use(stk_context *ctx, uint32_t sum, stk_error *err)
{
    unsigned char whole[900], part[100];
    stk_store *zip = NULL;
    char *url = stk__strdup(ctx, "slow+mem://z/a.zip/b");

    if (!url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for the URL");
    stk_status status = stk__container_enter(ctx, &url, err);
    if (status == STK_OK) {
        assert_string_equal(url, "zip:slow+mem://z/a.zip!/b");
        status = stk_store_open(ctx, url, &zip, NULL, 0, err);
    }
    stk__free(ctx, url);
    if (status == STK_OK)
        status = stk_store_list(zip, "", NULL, pass_over, NULL, err);
    if (status == STK_OK)
        status = stk_store_describe(zip, "c", no_line, NULL, err);
    if (status == STK_OK)
        status = stk_store_read(zip, "c/two.txt", 100, 100, part, err);
    if (status == STK_OK)
        status = stk_store_read(zip, "c/two.txt", 0, 900, whole, err);
    if (status == STK_OK) {
        assert_int_equal(stk__crc32(whole, 900), sum);
        assert_memory_equal(part, whole + 100, 100);
    }
    stk_store_close(&zip);
    return status;
}

/* True when no allocation failed. */
static bool run(const char *name, bool for_good, int64_t n, uint32_t sum)
{
    faults f = {.left = FAULTS_NONE, .for_good = for_good};
    stk_context *ctx = faulty_context(&f);
    stk_store *mem = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://z", &mem, NULL, 0, &err), &err);
    zip_put(mem, "a.zip", name);
    f.left = n;
    stk_error_init(&err);
    const stk_status status = use(ctx, sum, &err);
    const bool all = !fault_struck(&f);
    f.left = FAULTS_NONE;
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("%s, allocation %lld: %s: %s", name, (long long)n, stk_status_name(status),
                 err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    stk_store_close(&mem);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return all;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int for_good = 0; for_good < 2; for_good++) {
            int64_t n = 0;
            /* By Python's zipfile: b/c/two.txt of the archive's list. */
            while (!run(names[i], for_good, n, 0xd75b7e91u))
                assert_true(n++ < 10000);
            assert_true(n > 20);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A mirror of a store that hangs: its close ends, says so, and the file stays. */
#include <string.h>

#include "base/files.h"
#include "store/mirror.h"
#include "support/clock.h"
#include "support/over_mem.h"
#include "support/support.h"

static stk_store_ops hanging;
static stk_put_ops slow_put;
static const stk_store_call *wanted;
static bool hangs;

static stk_status hanging_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    return test_open_over_mem(&hanging, ctx, url, out, err);
}

/* Waits for as long as it may, as an answer that does not come. */
static stk_status commit_late(stk_put *put, stk_error *err)
{
    assert_true(wanted->deadline_ns > 0);
    while (stk__store_call_check(wanted, "log", NULL) == STK_OK)
        atomic_fetch_add(&ahead, 1);
    put->ops->abandon(put);
    return stk__store_call_check(wanted, "log", err);
}

static stk_status hanging_put(stk_store *store, const char *key, const stk_store_call *call,
                              stk_put **out, stk_error *err)
{
    STK_TRY(stk__store_mem.put(store, key, call, out, err));
    if (!hangs)
        return STK_OK;
    wanted = call;
    slow_put = *(*out)->ops;
    slow_put.commit = commit_late;
    (*out)->ops = &slow_put;
    return STK_OK;
}

static void write_bytes(const stk_mirror *m, size_t size)
{
    static char bytes[1 << 20];
    FILE *f = fopen(stk_mirror_path(m), "ab");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void closes(void **state)
{
    static const struct {
        size_t mebibytes;
        int64_t least_s, most_s;
    } rows[] = {{0, 9, 11}, {3, 21, 23}};
    stk_context *ctx = test_context();
    char path[64], folder[64];
    stk_mirror *m;
    stk_error err;

    (void)state;
    hanging = stk__store_mem;
    hanging.name = "hanging";
    hanging.open = hanging_open;
    hanging.put = hanging_put;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &hanging, &err), &err);
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        hangs = true;
        assert_ok(stk_mirror_open(ctx, "hanging://a/log", &m, &err), &err);
        write_bytes(m, 1);
        for (size_t k = 0; k < rows[i].mebibytes; k++)
            write_bytes(m, 1 << 20);
        snprintf(path, sizeof path, "%s", stk_mirror_path(m));
        snprintf(folder, sizeof folder, "%s", m->folder);
        const long long before = atomic_load(&ahead);
        assert_fails(stk_mirror_close(&m, &err), STK_ETIMEDOUT, &err, "longer than it was given");
        assert_in_range(atomic_load(&ahead) - before, rows[i].least_s, rows[i].most_s);
        assert_null(m);
        assert_int_equal(stk__remove_path(path), 0);
        assert_int_equal(stk__remove_folder_path(folder), 0);
        hangs = false;
        assert_ok(stk_mirror_open(ctx, "hanging://a/log", &m, &err), &err);
        write_bytes(m, 1);
        assert_ok(stk_mirror_close(&m, &err), &err);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that were put are there after a power cut, whole; one that is being put is the old or the
 * new. */
#include "support/powercut.h"

#include "store/store.h"

enum { KEYS = 3, VERSIONS = 3 };

static const char *const keys[KEYS] = {"a", "x/b", "x/y/z/c"};

/* The bytes of a version; how many they are. */
static size_t make_version(int key, int version, uint8_t data[8192])
{
    size_t length = (size_t)(1000 * (key + 1) + 700 * version);

    for (size_t i = 0; i < length; i++)
        data[i] = (uint8_t)(1 + (i * 7 + (size_t)(key * 31 + version * 57)) % 255);
    return length;
}

/* Puts in turn; what is acknowledged is the number of the put, from 1. */
static void put_all(const char *folder)
{
    stk_context *ctx = test_context();
    stk_store *store;
    uint8_t data[8192];
    stk_error err;

    assert_ok(stk_store_open(ctx, folder, &store, NULL, 0, &err), &err);
    for (int i = 0; i < KEYS * VERSIONS; i++) {
        size_t length = make_version(i % KEYS, i / KEYS, data);
        stk_put *put;
        assert_ok(store->ops->put(store, keys[i % KEYS], &stk__store_call_none, &put, &err), &err);
        assert_ok(put->ops->write(put, data, length, &err), &err);
        assert_ok(put->ops->commit(put, &err), &err);
        cut_ack(i + 1);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* The version that is there; -1: none, -2: something else. */
static int version_of(const char *folder, int key)
{
    uint8_t found[8192], data[8192];
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, keys[key]);
    FILE *f = fopen(path, "rb");
    if (!f)
        return -1;
    size_t n = fread(found, 1, sizeof found, f);
    fclose(f);
    for (int version = 0; version < VERSIONS; version++)
        if (make_version(key, version, data) == n && memcmp(data, found, n) == 0)
            return version;
    return -2;
}

/* Of each key the version last acknowledged, or the one that was being put then. */
static bool is_good(void *user, const char *folder, int acked)
{
    for (int key = 0; key < KEYS; key++) {
        int least = (acked - key + KEYS - 1) / KEYS - 1;
        int version = version_of(folder, key);
        if (version < least || version > least + 1)
            return false;
    }
    return true;
}

static void check(cut_lie lie)
{
    char folder[256];

    test_folder(folder);
    cut_begin(folder);
    put_all(folder);
    cut_end();
    assert_true(is_good(NULL, folder, KEYS * VERSIONS));
    cut_check(folder, lie, 500, is_good, NULL);
}

static void put(void **state)
{
    check(CUT_HONEST);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    cut_each_lie(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(put), cmocka_unit_test(controls)};

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of files that can be had without waiting. */
#include "support/support.h"

#include <stdlib.h>

#include "store/store.h"

#define BIG 3000000u

typedef struct fixture {
    stk_context *context;
    char folder[256];
    stk_store *store;
    unsigned char *bytes; /* of "big" */
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_error err;
    uint64_t seed = 3;

    f->context = test_context();
    test_folder(f->folder);
    f->bytes = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        f->bytes[i] = (unsigned char)test_random(&seed);
    test_write(f->folder, "big", f->bytes, BIG);
    assert_ok(stk_store_open(f->context, f->folder, &f->store, NULL, 0, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_store_close(&f->store);
    test_folder_remove(f->folder);
    stk_context_destroy(&f->context);
    free(f->bytes);
    free(f);
    return 0;
}

/* The system says now and then that it would have to wait, and does not have to a moment later. */
static bool now_or_soon(const fixture *f, uint64_t offset, uint64_t length, void *data)
{
    for (int i = 0; i < 100; i++)
        if (stk__store_read_now(f->store, "big", offset, length, data))
            return true;
    return false;
}

/* Bytes that can be had without waiting are those of an open file; whatever is not one range of it
 * is left to submit(). */
static void what_is_in_memory_is_read_now(void **state)
{
    fixture *f = *state;
    unsigned char got[5000] = {0};
    stk_error err;

    assert_false(stk__store_read_now(f->store, "big", 7, sizeof got, got));
    assert_ok(stk_store_read(f->store, "big", 0, 10, got, &err), &err);
    assert_true(now_or_soon(f, 7, sizeof got, got));
    assert_memory_equal(got, f->bytes + 7, sizeof got);
    for (uint64_t length = 1; length < sizeof got; length += 811) {
        memset(got, 0, sizeof got);
        assert_true(now_or_soon(f, 4099, length, got));
        assert_memory_equal(got, f->bytes + 4099, length);
        assert_int_equal(got[length], 0);
    }
    assert_true(now_or_soon(f, BIG - 1000, 1000, got));
    assert_false(stk__store_read_now(f->store, "big", BIG - 999, 1000, got));
    assert_false(stk__store_read_now(f->store, "big", BIG + 5, 1000, got));
    assert_false(stk__store_read_now(f->store, "big", UINT64_MAX - 5, 10, got));
    assert_false(stk__store_read_now(f->store, "small", 0, 10, got));
    assert_ok(stk__store_remove(f->store, "big", &err), &err);
    assert_false(stk__store_read_now(f->store, "big", 0, 10, got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_in_memory_is_read_now, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

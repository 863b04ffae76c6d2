/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that change between what is known of them and what is read. */
#include "support/cached.h"

#include <semaphore.h>

/* Bytes of a version that came between are neither kept as another's nor mixed with them. */
static void what_changed_is_not_kept_as_it_was(void **state)
{
    cached *c = *state;
    unsigned char *changed = malloc(CACHED_SIZE), *got = malloc(CACHED_SIZE);
    stk_object_info info = {.struct_size = sizeof info};
    char x[300], other[300];
    stk_error err;

    snprintf(x, sizeof x, "%s/x", c->data);
    snprintf(other, sizeof other, "%s/other", c->data);
    for (size_t i = 0; i < CACHED_SIZE; i++)
        changed[i] = (unsigned char)~c->bytes[i];
    for (int silent = 0; silent < 2; silent++) {
        counted->silent = silent;
        stk_store *store = cached_open(c, "", "");
        assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
        /* Some blocks of the first version are kept. */
        assert_int_equal(cached_read(c, store, 0, 5 * CACHED_BLOCK), STK_OK);
        stk_store_close(&store);
        store = cached_open(c, "", "");
        assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
        assert_int_equal(rename(x, other), 0);
        test_write(c->data, "x", changed, CACHED_SIZE);
        const uint64_t from = silent ? 5 * CACHED_BLOCK : 0;
        assert_ok(stk_store_read(store, "x", from, CACHED_SIZE - from, got, &err), &err);
        assert_memory_equal(got, changed + from, CACHED_SIZE - from);
        stk_store_close(&store);
        /* The first version comes back, with its identity. */
        assert_int_equal(rename(other, x), 0);
        store = cached_open(c, "", "");
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        stk_store_close(&store);
        test_folder_remove(c->dir);
        assert_int_equal(mkdir(c->dir, 0700), 0);
    }
    free(changed);
    free(got);
}

static void on_done(stk_read *read, stk_status status)
{
    assert_int_equal(status, STK_OK);
    sem_post(read->user);
}

/* Stores say with a read what stat() says. */
static void reads_say_their_version(void **state)
{
    static const char *const urls[] = {"mem://versions", "slow+mem://versions", NULL};
    cached *c = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(urls); i++) {
        stk_store *store = NULL;
        uint64_t identity = 0;
        char byte;
        sem_t ended;
        sem_init(&ended, 0, 0);
        assert_ok(stk_store_open(c->context, urls[i] ? urls[i] : c->data, &store, NULL, 0, &err),
                  &err);
        assert_ok(stk_store_put(store, "x", "abc", 3, NULL, &err), &err);
        assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
        stk_read read = {.struct_size = sizeof read,
                         .key = "x",
                         .length = 1,
                         .data = &byte,
                         .needed_next = true,
                         .got = 1,
                         .done = on_done,
                         .user = &ended,
                         .identity = &identity};
        assert_int_equal(store->ops->submit(store, &read), STK_OK);
        while (sem_wait(&ended) < 0) {
        }
        stk_store_close(&store);
        sem_destroy(&ended);
        assert_int_equal(identity, info.identity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_changed_is_not_kept_as_it_was, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(reads_say_their_version, cached_set_up, cached_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

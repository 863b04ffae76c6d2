/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whose length is only an upper bound, of every store and engine. */
#include <semaphore.h>

#include "unit/store/scripted.h"

static void on_stored(void *user, stk__transfer *list)
{
    /* A transfer is gone once it is told of. */
    for (stk__transfer *next; list; list = next) {
        next = list->next;
        sem_post(user);
    }
}

/* The bytes that a store gives of a range that may end behind the object. */
static void read_up_to(stk_store *store, const char *key, const unsigned char *bytes, uint64_t size)
{
    static const uint64_t sizes[][2] = {{0, 100},     {0, 70000},  {69990, 50}, {70000, 9},
                                        {100000, 30}, {0, 300000}, {1, 0},      {69000, 200000}};
    stk__fetcher *fetcher;
    sem_t ended;

    sem_init(&ended, 0, 0);
    const stk__fetcher_options options = {.ended = on_stored, .user = &ended};
    assert_int_equal(stk__fetcher_create(store->context, &options, &fetcher), STK_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t offset = sizes[i][0], length = sizes[i][1],
                       there = size - STK_MIN(offset, size);
        unsigned char *data = malloc(length + 1);
        stk__transfer t = {.store = store,
                           .key = key,
                           .offset = offset,
                           .length = length,
                           .data = data,
                           .up_to = true};
        stk__fetcher_add(fetcher, &t);
        stk__fetcher_pump(fetcher);
        sem_wait(&ended);
        assert_int_equal(t.status, STK_OK);
        assert_int_equal(t.got, STK_MIN(length, there));
        assert_memory_equal(data, bytes + offset, t.got);
        free(data);
    }
    stk__fetcher_destroy(&fetcher);
    sem_destroy(&ended);
}

static void test_stores(void **state)
{
    static unsigned char bytes[70000];
    char folder[256], url[400];
    stk_store *store;
    stk_error err;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = scripted_byte("x", i);
    test_folder(folder);
    test_write(folder, "x", bytes, sizeof bytes);
    for (int engine = STK_IO_AUTO; engine <= STK_IO_THREADS; engine++) {
        stk_context_options o;
        stk_context *ctx;
        stk_context_options_init(&o);
        o.io_engine = (stk_io_engine)engine;
        assert_ok(stk_context_create(&o, &ctx, &err), &err);
        for (int slow = 0; slow < 2; slow++) {
            snprintf(url, sizeof url, "%s%s%s", slow ? "slow+file://" : "", folder,
                     slow ? "?latency=1ms" : "");
            const stk_status status = stk_store_open(ctx, url, &store, NULL, 0, &err);
            if (status == STK_ENOTSUP) /* no io_uring here */
                continue;
            assert_ok(status, &err);
            read_up_to(store, "x", bytes, sizeof bytes);
            stk_store_close(&store);
        }
        for (int slow = 0; slow < 2; slow++) {
            assert_ok(stk_store_open(ctx, slow ? "slow+mem://up?latency=1ms" : "mem://up", &store,
                                     NULL, 0, &err),
                      &err);
            if (!slow)
                assert_ok(stk_store_put(store, "x", bytes, sizeof bytes, NULL, &err), &err);
            read_up_to(store, "x", bytes, sizeof bytes);
            stk_store_close(&store);
        }
        stk_context_destroy(&ctx);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

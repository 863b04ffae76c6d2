/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that read parts of packed files in a container. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "support/over_mem.h"
#include "support/support.h"
#include "support/zips.h"

#define TWO 900 /* bytes of b/c/two.txt */

/* A context with mem://z, which holds archives. */
typedef struct fixture {
    stk_context *ctx;
    stk_store *mem;
    unsigned char two[TWO];
} fixture;

static int set_up(void **state)
{
    static fixture f;
    stk_store *store = NULL;
    stk_error err;

    f.ctx = test_context();
    assert_ok(stk_store_open(f.ctx, "mem://z", &f.mem, NULL, 0, &err), &err);
    zip_put(f.mem, "s.zip", "stored");
    zip_put(f.mem, "d.zip", "deflated");
    assert_ok(stk_store_open(f.ctx, "zip:mem://z/s.zip!/", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_read(store, "b/c/two.txt", 0, TWO, f.two, &err), &err);
    stk_store_close(&store);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_store_close(&f->mem);
    stk_context_destroy(&f->ctx);
    return 0;
}

#define THREADS 4

typedef struct reader {
    pthread_t thread;
    const fixture *f;
    stk_store *store;
    uint64_t seed;
    bool bad;
    stk_error err;
} reader;

static void *read_parts(void *argument)
{
    reader *r = argument;
    unsigned char found[TWO], other[700];

    for (int i = 0; i < 200 && !r->bad; i++) {
        const uint64_t from = test_random(&r->seed) % TWO;
        const uint64_t length = 1 + test_random(&r->seed) % (TWO - from);
        r->bad = stk_store_read(r->store, "c/two.txt", from, length, found, &r->err) != STK_OK ||
                 memcmp(found, r->f->two + from, length) != 0 ||
                 stk_store_read(r->store, "one.bin", from % 700, 1, other, &r->err) != STK_OK;
    }
    return NULL;
}

static void threads_share_what_is_unpacked(void **state)
{
    static const char *const urls[] = {
        "zip:mem://z/d.zip!/b?unpacked_cache=1000",
        "zip:slow+mem://z/d.zip!/b?unpacked_cache=1000&latency=20us&jitter=20us&order=random",
        "slow+zip:slow+mem://z/d.zip!/b?latency=10us&fail=0.002",
        "zip:slow+mem://z/s.zip!/b?latency=20us&jitter=20us",
    };

    for (size_t u = 0; u < STK_COUNT(urls); u++) {
        reader readers[THREADS];
        stk_store *store = NULL;
        stk_error err;
        assert_ok(stk_store_open(((fixture *)*state)->ctx, urls[u], &store, NULL, 0, &err), &err);
        for (int i = 0; i < THREADS; i++) {
            readers[i] = (reader){.f = *state, .store = store, .seed = (uint64_t)i + 1};
            assert_int_equal(pthread_create(&readers[i].thread, NULL, read_parts, &readers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(readers[i].thread, NULL);
            if (readers[i].bad)
                fail_msg("%s: %s", urls[u], readers[i].err.text);
        }
        stk_store_close(&store);
    }
}

/* ---- Others learn more of a file meanwhile ---- */

/* Where the reader takes memory for the n'th time another thread reads all of the file. */
static struct {
    pthread_t reader;
    stk_store *store;
    unsigned long n;
} between;

static void *read_all(void *argument)
{
    unsigned char all[TWO];
    stk_error err;

    (void)argument;
    assert_ok(stk_store_read(between.store, "c/two.txt", 0, TWO, all, &err), &err);
    return NULL;
}

static void *take(void *user, size_t size, size_t align)
{
    pthread_t other;
    void *memory = NULL;

    (void)user;
    if (between.n && pthread_equal(pthread_self(), between.reader) && --between.n == 0) {
        assert_int_equal(pthread_create(&other, NULL, read_all, NULL), 0);
        pthread_join(other, NULL);
    }
    return posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) ? NULL
                                                                                          : memory;
}

static void give(void *user, void *memory, size_t size)
{
    (void)user, (void)size;
    free(memory);
}

/* A read of a few bytes writes no more than these, whatever others have found out since it looked.
 */
static void first_parts_are_read_at_once(void **state)
{
    const fixture *f = *state;
    stk_context_options options;
    unsigned char found[TWO];
    stk_context *ctx;
    stk_store *mem;
    stk_error err;

    between.reader = pthread_self();
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){take, give, NULL};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://z", &mem, NULL, 0, &err), &err);
    for (unsigned long n = 1, left = 0; left == 0; n++) {
        char name[32], url[80];
        /* Of an archive that was opened before the same is known as then. */
        snprintf(name, sizeof name, "d%lu.zip", n);
        snprintf(url, sizeof url, "zip:slow+mem://z/%s!/b?latency=10us", name);
        zip_put(mem, name, "deflated");
        assert_ok(stk_store_open(ctx, url, &between.store, NULL, 0, &err), &err);
        memset(found, 0xA5, sizeof found);
        between.n = n;
        assert_ok(stk_store_read(between.store, "c/two.txt", 860, 20, found, &err), &err);
        left = between.n;
        between.n = 0;
        assert_memory_equal(found, f->two + 860, 20);
        for (size_t i = 20; i < sizeof found; i++)
            assert_int_equal(found[i], 0xA5);
        stk_store_close(&between.store);
        assert_true(n < 100);
    }
    stk_store_close(&mem);
    stk_context_destroy(&ctx);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(threads_share_what_is_unpacked),
                                       TEST(first_parts_are_read_at_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

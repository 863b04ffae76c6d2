/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail the n-th allocation, read and thread start, once and from there on for ever, for every n, in
 * a program that opens, iterates and closes: the status must be right, nothing may leak, hang or
 * crash.
 */
#include <stdlib.h>
#include <string.h>

#include "support/counting.h"
#include "support/faulty_threads.h"

/* ---- Faults ---- */

static faults memory_faults = {.left = FAULTS_NONE}, read_faults = {.left = FAULTS_NONE};

/* A store that passes everything on to mem:, but for the read that is to fail. */
typedef struct faulty {
    stk_store head;
    stk_store *inner;
} faulty;

static stk_status faulty_open(stk_context *ctx, const char *url, const void *options,
                              stk_store **out, stk_error *err);

static void faulty_close(stk_store *store)
{
    stk_store_close(&((faulty *)store)->inner);
    free(store);
}

static stk_status faulty_submit(stk_store *store, stk_read *read)
{
    static atomic_int failed;
    stk_store *inner = ((faulty *)store)->inner;

    if (fault_strikes(&read_faults)) {
        if (atomic_fetch_add(&failed, 1) % 2)
            return STK_EIO;
        read->done(read, STK_EIO);
        return STK_OK;
    }
    return inner->ops->submit(inner, read);
}

static void faulty_cancel(stk_store *store, stk_read *read)
{
    stk_store *inner = ((faulty *)store)->inner;

    inner->ops->cancel(inner, read);
}

static stk_status faulty_stat(stk_store *store, const char *key, const stk_store_call *call,
                              stk_object_info *out, stk_error *err)
{
    return stk_store_stat(((faulty *)store)->inner, key, call, out, err);
}

static const stk_store_ops faulty_ops = {.struct_size = sizeof faulty_ops,
                                         .name = "faulty",
                                         .open = faulty_open,
                                         .close = faulty_close,
                                         .submit = faulty_submit,
                                         .cancel = faulty_cancel,
                                         .stat = faulty_stat};

static stk_status faulty_open(stk_context *ctx, const char *url, const void *options,
                              stk_store **out, stk_error *err)
{
    faulty *f = calloc(1, sizeof *f);
    char key[16];

    f->head.ops = &faulty_ops;
    f->head.context = ctx;
    stk_status status = stk_store_open(ctx, "mem://counting", &f->inner, key, sizeof key, err);
    if (status == STK_OK)
        *out = &f->head;
    else
        free(f);
    return status;
}

/* ---- The program ---- */

typedef struct scenario {
    counting_options data;
    int64_t num_workers;
    int cache;
    int on_error;
} scenario;

/* Open, iterate two epochs, close. The first failure ends it, as a user's program would. */
static stk_status program(const scenario *s)
{
    stk_context_options options;
    stk_loader_options o;
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;

    stk_error_init(&err);
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &memory_faults};
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_driver_add(ctx, STK_DRIVER_STORE, &faulty_ops, &err);
    if (status == STK_OK)
        status = counting_try_open(ctx, &s->data, &dataset, &err);
    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.shuffle = STK_SHUFFLE_FULL;
    o.num_workers = s->num_workers;
    o.cache = s->cache;
    o.on_error = s->on_error;
    o.memory_budget = 8 << 20;
    o.epochs = 2;
    o.retries = 0;
    if (status == STK_OK)
        status = stk_loader_create(dataset, &o, &loader, &err);
    for (int ends = 0; status == STK_OK && ends < 2;) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            ends++;
            status = STK_OK;
        } else if (status == STK_OK) {
            counting_check(batch, s->data.ragged);
        }
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    if (memory_faults.held != 0 || (status != STK_OK && err.status != status))
        fail_msg("%s: %lld blocks left; the error says %s: %s", stk_status_name(status),
                 (long long)memory_faults.held, stk_status_name(err.status), err.text);
    return status;
}

static const scenario scenarios[] = {
    {{.size = 60}, 0, STK_CACHE_NONE, STK_ON_ERROR_FAIL},
    {{.size = 60}, 2, STK_CACHE_DECODED, STK_ON_ERROR_FAIL},
    {{.size = 60, .url = "faulty://x", .ragged = true}, 2, STK_CACHE_ENCODED, STK_ON_ERROR_FAIL},
    {{.size = 60, .url = "faulty://x", .lost_every = 7}, 1, STK_CACHE_NONE, STK_ON_ERROR_REPLACE},
    {{.size = 60, .url = "faulty://x", .lost_every = 7}, 2, STK_CACHE_NONE, STK_ON_ERROR_SKIP},
};

static void fail_each(faults *f, stk_status expected, stk_status also)
{
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++)
        for (int for_good = 0; for_good < 2; for_good++)
            for (int64_t n = 0;; n++) {
                f->left = n;
                f->for_good = for_good;
                stk_status status = program(&scenarios[s]);
                if (status != STK_OK && status != expected && status != also)
                    fail_msg("scenario %zu, call %lld: %s", s, (long long)n,
                             stk_status_name(status));
                /* Past the last call nothing fails any more. */
                if (!fault_struck(f)) {
                    assert_int_equal(status, STK_OK);
                    break;
                }
                assert_true(n < 5000);
            }
    f->left = FAULTS_NONE;
    f->for_good = false;
}

static void each_allocation_fails(void **state)
{
    /* A bad sample that there is no memory to replace is a bad sample. */
    fail_each(&memory_faults, STK_ENOMEM, STK_ENOMEM);
}

static void each_thread_start_fails(void **state)
{
    fail_each(&thread_faults, STK_ETHREAD, STK_ETHREAD);
}

static void each_read_fails(void **state)
{
    fail_each(&read_faults, STK_EIO, STK_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(each_thread_start_fails),
        cmocka_unit_test(each_read_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

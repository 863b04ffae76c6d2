/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail the n-th allocation, read and thread start, once and from there on for ever, for every n, in
 * a program that opens, iterates and closes: the status must be right, nothing may leak, hang or
 * crash.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/counting.h"

/* ---- Faults ---- */

typedef struct fault {
    atomic_long calls, at; /* the call that fails; 0: none */
    bool for_ever;
    atomic_long hits;
} fault;

static bool strikes(fault *f)
{
    long call = atomic_fetch_add(&f->calls, 1) + 1, at = atomic_load(&f->at);
    bool hit = at && (f->for_ever ? call >= at : call == at);

    if (hit)
        atomic_fetch_add(&f->hits, 1);
    return hit;
}

static void arm(fault *f, long at, bool for_ever)
{
    atomic_store(&f->calls, 0);
    atomic_store(&f->at, at);
    atomic_store(&f->hits, 0);
    f->for_ever = for_ever;
}

static fault memory_fault, thread_fault, read_fault;
static atomic_long blocks;

static void *failing_alloc(void *user, size_t size, size_t align)
{
    void *memory = NULL;

    if (strikes(&memory_fault) || posix_memalign(&memory, align < 16 ? 16 : align, size))
        return NULL;
    atomic_fetch_add(&blocks, 1);
    return memory;
}

static void counted_free(void *user, void *memory, size_t size)
{
    atomic_fetch_sub(&blocks, 1);
    free(memory);
}

/* Stands before the C library's own: the static library calls this one. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");

    return strikes(&thread_fault) ? EAGAIN : real(thread, attributes, run, argument);
}

/* A store that passes everything on to mem:, but for the read that is to fail. */
typedef struct faulty {
    stk_store head;
    stk_store *inner;
} faulty;

static stk_status faulty_open(stk_context *ctx, const char *url, stk_store **out, stk_error *err);

static void faulty_close(stk_store *store)
{
    stk_store_close(&((faulty *)store)->inner);
    free(store);
}

static stk_status faulty_submit(stk_store *store, stk_read *read)
{
    stk_store *inner = ((faulty *)store)->inner;

    if (strikes(&read_fault)) {
        if (atomic_load(&read_fault.calls) % 2)
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

static stk_status faulty_stat(stk_store *store, const char *key, stk_object_info *out,
                              stk_error *err)
{
    return stk_store_stat(((faulty *)store)->inner, key, out, err);
}

static const stk_store_ops faulty_ops = {.struct_size = sizeof faulty_ops,
                                         .name = "faulty",
                                         .open = faulty_open,
                                         .close = faulty_close,
                                         .submit = faulty_submit,
                                         .cancel = faulty_cancel,
                                         .stat = faulty_stat};

static stk_status faulty_open(stk_context *ctx, const char *url, stk_store **out, stk_error *err)
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
    options.allocator = (stk_allocator){failing_alloc, counted_free, NULL};
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_context_add_store(ctx, &faulty_ops, &err);
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
    if (atomic_load(&blocks) != 0 || (status != STK_OK && err.status != status))
        fail_msg("%s: %ld blocks left; the error says %s: %s", stk_status_name(status),
                 atomic_load(&blocks), stk_status_name(err.status), err.text);
    return status;
}

static const scenario scenarios[] = {
    {{.size = 60}, 0, STK_CACHE_NONE, STK_ON_ERROR_FAIL},
    {{.size = 60}, 2, STK_CACHE_DECODED, STK_ON_ERROR_FAIL},
    {{.size = 60, .url = "faulty://x", .ragged = true}, 2, STK_CACHE_ENCODED, STK_ON_ERROR_FAIL},
    {{.size = 60, .url = "faulty://x", .lost_every = 7}, 1, STK_CACHE_NONE, STK_ON_ERROR_REPLACE},
    {{.size = 60, .url = "faulty://x", .lost_every = 7}, 2, STK_CACHE_NONE, STK_ON_ERROR_SKIP},
};

static void fail_each(fault *f, stk_status expected, stk_status also)
{
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++)
        for (int for_ever = 0; for_ever < 2; for_ever++)
            for (long n = 1;; n++) {
                arm(f, n, for_ever);
                stk_status status = program(&scenarios[s]);
                if (status != STK_OK && status != expected && status != also)
                    fail_msg("scenario %zu, call %ld: %s", s, n, stk_status_name(status));
                /* Past the last call nothing fails any more. */
                bool past = atomic_load(&f->hits) == 0;
                if (past) {
                    assert_int_equal(status, STK_OK);
                    break;
                }
                assert_true(n < 5000);
            }
    arm(f, 0, false);
}

static void each_allocation_fails(void **state)
{
    /* A bad sample that there is no memory to replace is a bad sample. */
    fail_each(&memory_fault, STK_ENOMEM, STK_ENOMEM);
}

static void each_thread_start_fails(void **state)
{
    fail_each(&thread_fault, STK_ETHREAD, STK_ETHREAD);
}

static void each_read_fails(void **state)
{
    fail_each(&read_fault, STK_EIO, STK_EIO);
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

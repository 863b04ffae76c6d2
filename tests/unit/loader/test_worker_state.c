/* SPDX-License-Identifier: Apache-2.0 */
/* What a dataset keeps for a thread: one for each, handed to no other, and each freed once. */
#include "loader/parts.h"

#include "support/support.h"

enum { SIZE = 4096, MOST = 8 };

typedef struct state {
    pthread_t thread;
    atomic_bool used;
} state;

typedef struct fixture {
    stk_dataset head;
    state states[MOST];
    atomic_uint opened, closed, fails_at;
} fixture;

static fixture *at; /* the one that runs */

static stk_status worker_open(stk_dataset *dataset, void **worker)
{
    (void)dataset;
    if (atomic_load(&at->opened) == atomic_load(&at->fails_at))
        return STK_EACCES;
    *worker = &at->states[atomic_fetch_add(&at->opened, 1)];
    return STK_OK;
}

static void worker_close(stk_dataset *dataset, void *worker)
{
    (void)dataset;
    assert_non_null(worker);
    atomic_fetch_add(&at->closed, 1);
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        state *s = samples[i].worker;
        memcpy(samples[i].values[0].out, &samples[i].index, sizeof samples[i].index);
        if (!atomic_exchange(&s->used, true))
            s->thread = pthread_self();
        if (!pthread_equal(s->thread, pthread_self()))
            samples[i].status = STK_EINTERNAL;
    }
}

static void close_dataset(stk_dataset *dataset)
{
    (void)dataset;
}

static const stk_field *field(void)
{
    static stk_field x;

    x = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    return &x;
}

static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                    .name = "stateful",
                                    .doc = "For tests.",
                                    .close = close_dataset,
                                    .prepare = prepare,
                                    .worker_open = worker_open,
                                    .worker_close = worker_close};

static void set_up(fixture *f)
{
    memset(f, 0, sizeof *f);
    at = f;
    atomic_store(&f->fails_at, MOST + 1);
    stk__dataset_init(&f->head, &ops, test_context(), SIZE, field(), 1);
}

static void run(stk_dataset *dataset, int64_t workers)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_status status;
    stk_error err;

    stk_loader_options_init(&o);
    o.num_workers = workers;
    o.epochs = 1;
    o.batch_size = 16;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK)
        stk_batch_release(&batch);
    assert_int_equal(status, STK_EOS);
    stk_loader_destroy(&loader);
    assert_int_equal(atomic_load(&at->opened), workers + 1);
    assert_int_equal(atomic_load(&at->closed), workers + 1);
}

static void test_one_each(void **unused)
{
    fixture f;

    (void)unused;
    for (int64_t workers = 0; workers <= 3; workers++) {
        set_up(&f);
        run(&f.head, workers);
        stk_context_destroy(&f.head.context);
    }
}

/* A view of the dataset has what that has. */
static void test_view(void **unused)
{
    fixture f;
    stk_error err;

    (void)unused;
    set_up(&f);
    stk_context *ctx = f.head.context;
    stk_dataset *dataset = &f.head;
    assert_ok(stk_dataset_range(&dataset, 10, SIZE, &err), &err);
    run(dataset, 2);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* One that cannot be made is the failure of the loader, and those that were made are freed. */
static void test_fails(void **unused)
{
    fixture f;
    stk_loader_options o;
    stk_loader *loader;
    stk_error err;

    (void)unused;
    set_up(&f);
    atomic_store(&f.fails_at, 2);
    stk_loader_options_init(&o);
    o.num_workers = 3;
    assert_fails(stk_loader_create(&f.head, &o, &loader, &err), STK_EACCES, &err, "worker_open");
    assert_int_equal(atomic_load(&f.opened), 2);
    assert_int_equal(atomic_load(&f.closed), 2);
    stk_context_destroy(&f.head.context);
}

/* Who opens has to close. */
static void test_both_or_none(void **unused)
{
    stk_dataset_ops half = ops;
    fixture f;
    stk_error err;

    (void)unused;
    set_up(&f);
    half.worker_close = NULL;
    f.head.ops = &half;
    assert_fails(stk__dataset_check(&f.head, &err), STK_EINVAL, &err, "worker_close");
    stk_context_destroy(&f.head.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_each), cmocka_unit_test(test_view),
                                       cmocka_unit_test(test_fails),
                                       cmocka_unit_test(test_both_or_none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

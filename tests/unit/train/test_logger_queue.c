/* SPDX-License-Identifier: Apache-2.0 */
/* The queue in front of loggers: nothing is lost, nobody waits for a slow disk, a logger that fails
 * is left alone. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "train/loggers/log_queue.h"

/* ---- A logger that keeps what it gets ---- */

typedef struct keeper {
    stk_logger base;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    uint64_t lines, flushes, closes, params;
    int64_t last_step;
    double sum;
    bool bad;           /* something came in the wrong order, or altered */
    bool shut, waiting; /* the gate: calls wait while it is shut */
    uint64_t fail_at;   /* the line that fails; 0: none */
} keeper;

static stk_status keep_metrics(stk_logger *logger, const stk_metric *metrics, size_t n,
                               int64_t step, double wall_time, stk_error *err)
{
    keeper *k = (keeper *)logger;
    stk_status status = STK_OK;

    pthread_mutex_lock(&k->lock);
    k->waiting = true;
    pthread_cond_broadcast(&k->changed);
    while (k->shut)
        pthread_cond_wait(&k->changed, &k->lock);
    k->waiting = false;
    k->lines++;
    k->bad |= step < k->last_step || wall_time < 1e9;
    k->last_step = step;
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "metric_%zu", i);
        k->bad |= strcmp(metrics[i].name, name) != 0;
        k->sum += metrics[i].value;
    }
    if (k->lines == k->fail_at) {
        stk_error_init(err);
        snprintf(err->text, sizeof err->text, "the keeper is full");
        err->status = status = STK_ENOSPC;
    }
    pthread_mutex_unlock(&k->lock);
    return status;
}

static stk_status keep_params(stk_logger *logger, const stk_hparam *params, size_t n,
                              stk_error *err)
{
    keeper *k = (keeper *)logger;

    pthread_mutex_lock(&k->lock);
    k->bad |= k->lines > 0 || n != 2 || strcmp(params[1].name, "b") != 0 ||
              strcmp(params[1].value, "") != 0 || strcmp(params[0].value, "one") != 0;
    k->params++;
    pthread_mutex_unlock(&k->lock);
    return STK_OK;
}

static stk_status keep_flush(stk_logger *logger, stk_error *err)
{
    keeper *k = (keeper *)logger;

    pthread_mutex_lock(&k->lock);
    k->flushes++;
    pthread_mutex_unlock(&k->lock);
    return STK_OK;
}

static void keep_close(stk_logger *logger)
{
    keeper *k = (keeper *)logger;

    pthread_mutex_lock(&k->lock);
    k->closes++;
    pthread_mutex_unlock(&k->lock);
}

static const stk_logger_ops keeper_ops = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "keeper",
    .open = NULL,
    .close = keep_close,
    .log_metrics = keep_metrics,
    .log_hyperparams = keep_params,
    .flush = keep_flush,
};

static const stk_logger_ops plain_ops = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "plain",
    .close = keep_close,
    .log_metrics = keep_metrics,
};

static void keeper_init(keeper *k, const stk_logger_ops *ops)
{
    memset(k, 0, sizeof *k);
    k->base.ops = ops;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
}

static void keeper_release(keeper *k)
{
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
}

static void set_gate(keeper *k, bool shut)
{
    pthread_mutex_lock(&k->lock);
    k->shut = shut;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static void await_gate(keeper *k)
{
    pthread_mutex_lock(&k->lock);
    while (!k->waiting)
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
}

static stk_status put(stk__log_queue *queue, int64_t step, stk_error *err)
{
    char names[3][32];
    stk_metric metrics[3];

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "metric_%d", i);
        metrics[i] = (stk_metric){names[i], (double)step};
    }
    stk_status status = stk__log_queue_metrics(queue, metrics, 3, step, err);
    /* The names are copied. */
    memset(names, 'x', sizeof names);
    return status;
}

/* ---- Tests ---- */

static void test_all_arrive(void **state)
{
    enum { LINES = 30000 };
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    keeper a, b;
    stk_error err;

    keeper_init(&a, &keeper_ops);
    keeper_init(&b, &plain_ops);
    stk_logger *const loggers[] = {&a.base, &b.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 2, &queue, &err), &err);
    const stk_hparam params[] = {{"a", "one"}, {"b", ""}};
    assert_ok(stk__log_queue_hyperparams(queue, params, 2, &err), &err);
    for (int i = 0; i < LINES / 2; i++)
        assert_ok(put(queue, i, &err), &err);
    assert_ok(stk__log_queue_flush(queue, &err), &err);
    assert_int_equal(a.lines, LINES / 2);
    assert_int_equal(a.params, 1);
    assert_true(a.flushes >= 1);
    for (int i = LINES / 2; i < LINES; i++)
        assert_ok(put(queue, i, &err), &err);
    /* No flush: the end is enough. */
    stk__log_queue_destroy(&queue);
    assert_null(queue);
    stk__log_queue_destroy(&queue);
    keeper *const both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->lines, LINES);
        assert_int_equal(both[i]->last_step, LINES - 1);
        assert_int_equal(both[i]->closes, 1);
        assert_false(both[i]->bad);
        assert_true(both[i]->sum == 3.0 * LINES * (LINES - 1) / 2);
        keeper_release(both[i]);
    }
    stk_context_destroy(&ctx);
}

/* A logger that stands still holds nobody up, as long as there is room. */
static void test_slow_logger(void **state)
{
    enum { LINES = 100000 };
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    keeper k;
    stk_error err;

    keeper_init(&k, &keeper_ops);
    k.shut = true;
    stk_logger *const loggers[] = {&k.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 1, &queue, &err), &err);
    assert_ok(put(queue, 0, &err), &err);
    await_gate(&k);
    for (int i = 1; i < LINES; i++)
        assert_ok(put(queue, i, &err), &err);
    assert_int_equal(stk__log_queue_waited_ns(queue), 0);
    assert_int_equal(k.lines, 0);
    set_gate(&k, false);
    stk__log_queue_destroy(&queue);
    assert_int_equal(k.lines, LINES);
    assert_false(k.bad);
    keeper_release(&k);
    stk_context_destroy(&ctx);
}

typedef struct full {
    stk__log_queue *queue;
    keeper *keeper;
} full;

/* Once a call waits. */
static void *open_gate(void *user)
{
    full *f = user;

    while (stk__log_queue_waited_ns(f->queue) == 0)
        sched_yield();
    set_gate(f->keeper, false);
    return NULL;
}

/* Beyond 64 MiB the call waits, and nothing is lost. */
static void test_full(void **state)
{
    enum { BYTES = 40000, LINES = 2500 };
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    pthread_t opener;
    keeper k;
    stk_error err;

    keeper_init(&k, &plain_ops);
    k.shut = true;
    stk_logger *const loggers[] = {&k.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 1, &queue, &err), &err);
    full f = {queue, &k};
    assert_int_equal(pthread_create(&opener, NULL, open_gate, &f), 0);
    char *name = malloc(BYTES);
    assert_non_null(name);
    memset(name, 'n', BYTES - 1);
    name[BYTES - 1] = 0;
    const stk_metric metric = {name, 1};
    for (int i = 0; i < LINES; i++)
        assert_ok(stk__log_queue_metrics(queue, &metric, 1, i, &err), &err);
    pthread_join(opener, NULL);
    assert_true(stk__log_queue_waited_ns(queue) > 0);
    stk__log_queue_destroy(&queue);
    assert_int_equal(k.lines, LINES);
    stk_memory_stats memory = {.struct_size = sizeof memory};
    stk_context_memory(ctx, &memory);
    assert_true(memory.peak_bytes < (66u << 20));
    free(name);
    keeper_release(&k);
    stk_context_destroy(&ctx);
}

/* More than may ever wait is refused. */
static void test_too_much(void **state)
{
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    keeper k;
    stk_error err;

    keeper_init(&k, &plain_ops);
    stk_logger *const loggers[] = {&k.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 1, &queue, &err), &err);
    char *name = malloc(40u << 20);
    assert_non_null(name);
    memset(name, 'n', 40u << 20);
    name[(40u << 20) - 1] = 0;
    const stk_metric metric = {name, 1};
    assert_fails(stk__log_queue_metrics(queue, &metric, 1, 0, &err), STK_ELIMIT, &err, "32 MiB");
    /* What fits goes through, also where it is more than a block. */
    name[5u << 20] = 0;
    assert_ok(stk__log_queue_metrics(queue, &metric, 1, 0, &err), &err);
    stk__log_queue_destroy(&queue);
    assert_int_equal(k.lines, 1);
    free(name);
    keeper_release(&k);
    stk_context_destroy(&ctx);
}

typedef struct messages {
    int count;
    char last[512];
} messages;

static void keep_message(void *user, stk_message_level level, const char *message)
{
    messages *m = user;

    m->count++;
    snprintf(m->last, sizeof m->last, "%s", message);
}

static void test_failing_logger(void **state)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__log_queue *queue = NULL;
    messages said = {0};
    keeper good, bad;
    stk_error err;

    stk_context_options_init(&options);
    options.on_message = keep_message;
    options.on_message_user = &said;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    keeper_init(&good, &keeper_ops);
    keeper_init(&bad, &keeper_ops);
    bad.fail_at = 3;
    stk_logger *const loggers[] = {&bad.base, &good.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 2, &queue, &err), &err);
    for (int i = 0; i < 10; i++)
        assert_ok(put(queue, i, &err), &err);
    assert_fails(stk__log_queue_flush(queue, &err), STK_ENOSPC, &err, "the keeper is full");
    /* Told once. */
    for (int i = 10; i < 20; i++)
        assert_ok(put(queue, i, &err), &err);
    assert_ok(stk__log_queue_flush(queue, &err), &err);
    stk__log_queue_destroy(&queue);
    assert_int_equal(bad.lines, 3);
    assert_int_equal(bad.flushes, 0);
    assert_int_equal(bad.closes, 1);
    assert_int_equal(good.lines, 20);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.last, "'keeper'"));
    assert_non_null(strstr(said.last, "the keeper is full"));
    keeper_release(&good);
    keeper_release(&bad);
    stk_context_destroy(&ctx);
}

/* ---- Several threads ---- */

enum { PUTTERS = 4, PUTS = 5000 };

static void *put_many(void *queue)
{
    stk_error err;

    for (int i = 0; i < PUTS; i++) {
        if (put(queue, 0, &err) != STK_OK)
            return queue;
        if (i % 1000 == 999 && stk__log_queue_flush(queue, &err) != STK_OK)
            return queue;
    }
    return NULL;
}

static void test_threads(void **state)
{
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    pthread_t threads[PUTTERS];
    void *failed;
    keeper k;
    stk_error err;

    keeper_init(&k, &keeper_ops);
    stk_logger *const loggers[] = {&k.base};
    assert_ok(stk__log_queue_create(ctx, loggers, 1, &queue, &err), &err);
    for (int i = 0; i < PUTTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, queue), 0);
    for (int i = 0; i < PUTTERS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    stk__log_queue_destroy(&queue);
    assert_int_equal(k.lines, PUTTERS * PUTS);
    assert_false(k.bad);
    keeper_release(&k);
    stk_context_destroy(&ctx);
}

/* Without loggers it swallows everything. */
static void test_none(void **state)
{
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    stk_error err;

    assert_ok(stk__log_queue_create(ctx, NULL, 0, &queue, &err), &err);
    assert_ok(put(queue, 0, &err), &err);
    assert_ok(stk__log_queue_metrics(queue, NULL, 0, 1, &err), &err);
    assert_ok(stk__log_queue_flush(queue, &err), &err);
    stk__log_queue_destroy(&queue);
    stk_context_destroy(&ctx);
}

/* Loggers are flushed 2 s after a line, and every 10 s while none comes. */
static void due(void **state)
{
    const uint64_t s = 1000000000;

    (void)state;
    assert_false(stk__log_queue_due(100 * s, 99 * s, 102 * s));
    assert_true(stk__log_queue_due(100 * s, 99 * s, 102 * s + 1));
    assert_false(stk__log_queue_due(0, 100 * s, 110 * s));
    assert_true(stk__log_queue_due(0, 100 * s, 110 * s + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due),
        cmocka_unit_test(test_all_arrive),
        cmocka_unit_test(test_slow_logger),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_failing_logger),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

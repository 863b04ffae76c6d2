/* SPDX-License-Identifier: Apache-2.0 */
/* Loggers and their queue while the n-th allocation fails, for every n until all succeed. Files
 * that are there hold whole lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/support.h"
#include "train/loggers/log_queue.h"
#include "train/loggers/loggers.h"

enum { MOST = 3000 };

/* The loggers without the queue: one thread, so that the n-th allocation is always the same. */
static stk_status run_loggers(stk_context *ctx, const char *folder, stk_error *err)
{
    const stk_logger_ops *const kinds[] = {&stk__logger_csv, &stk__logger_tensorboard};
    static const stk_hparam params[] = {{"lr", "0.1"}, {"a b", "c|d"}};
    stk_status status = STK_OK;

    for (size_t i = 0; i < 2 && status == STK_OK; i++) {
        stk_logger *logger = NULL;
        status = kinds[i]->open(ctx, NULL, folder, &logger, err);
        assert_true((status == STK_OK) == (logger != NULL));
        if (!logger)
            break;
        status = logger->ops->log_hyperparams(logger, params, 2, err);
        for (int k = 0; k < 4 && status == STK_OK; k++) {
            const stk_metric metrics[] = {{"loss", k}, {k < 2 ? "loss" : "acc", k}};
            status = logger->ops->log_metrics(logger, metrics, 2, k, 1, err);
        }
        if (status == STK_OK)
            status = logger->ops->flush(logger, err);
        logger->ops->close(logger);
    }
    return status;
}

static stk_status run_queue(stk_context *ctx, const char *folder, stk_error *err)
{
    stk_logger *logger = NULL;
    stk__log_queue *queue = NULL;

    STK_TRY(stk__logger_csv.open(ctx, NULL, folder, &logger, err));
    stk_status status = stk__log_queue_create(ctx, &logger, 1, &queue, err);
    if (status != STK_OK) {
        logger->ops->close(logger);
        return status;
    }
    for (int k = 0; k < 2000 && status == STK_OK; k++) {
        const stk_metric metrics[] = {{"loss", k}, {"a name of some length", k}};
        status = stk__log_queue_metrics(queue, metrics, 2, k, err);
    }
    if (status == STK_OK)
        status = stk__log_queue_flush(queue, err);
    stk__log_queue_destroy(&queue);
    return status;
}

/* True when no allocation failed. */
static bool run(stk_status (*program)(stk_context *ctx, const char *folder, stk_error *err),
                int64_t n, bool for_good)
{
    faults f = {.left = n, .for_good = for_good};
    stk_context_options options;
    stk_context *ctx = NULL;
    char folder[256];
    stk_error err;

    test_folder(folder);
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = program(ctx, folder, &err);
    stk_context_destroy(&ctx);
    assert_true(status == STK_OK || status == STK_ENOMEM);
    assert_true(status == STK_OK || err.text[0]);
    assert_int_equal(f.held, 0);
    test_folder_remove(folder);
    return !fault_struck(&f);
}

static void run_all(stk_status (*program)(stk_context *ctx, const char *folder, stk_error *err))
{
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (n < MOST && !run(program, n, for_good))
            n++;
        assert_true(n > 5 && n < MOST);
    }
}

static void test_loggers(void **state)
{
    run_all(run_loggers);
}

static void test_queue(void **state)
{
    run_all(run_queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loggers),
        cmocka_unit_test(test_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

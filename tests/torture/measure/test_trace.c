/* SPDX-License-Identifier: Apache-2.0 */
/* A traced run while the n-th allocation fails, for every n until all succeed; and a disk that is
 * full. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "measure/measure.h"
#include "support/faults.h"
#include "support/support.h"

static stk_status take_all(stk_dataset *dataset, stk__event_trace *trace, stk_error *err)
{
    stk_loader *loader = NULL;
    stk_loader_options o;
    stk_batch *batch;

    stk_loader_options_init(&o);
    o.batch_size = 8;
    o.num_workers = 1;
    o.epochs = 1;
    stk_status status = stk_loader_create(dataset, &o, &loader, err);
    while (status == STK_OK && (status = stk_loader_next(loader, -1, &batch, err)) == STK_OK) {
        const uint64_t now = stk__now_ns();
        stk__event_trace_step(trace, stk_batch_epoch(batch), stk_batch_step(batch), now,
                              now + 1000);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    return status == STK_EOS ? STK_OK : status;
}

/* Whole JSON or nothing: a trace that was closed well ends its list. */
static void assert_whole(const char *path)
{
    char end[4] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    assert_int_equal(fseek(f, -3, SEEK_END), 0);
    assert_int_equal(fread(end, 1, 3, f), 3);
    fclose(f);
    assert_string_equal(end, "\n]\n");
}

/* True when no allocation failed. */
static bool run(const char *path, int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk__event_trace *trace = NULL;
    stk_error err, close_err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_dataset_open(ctx, "synthetic:mem://x?size=48&read_bytes=100", &dataset, &err);
    if (status == STK_OK)
        status = stk__event_trace_open(ctx, path, 2, &trace, &err);
    if (status == STK_OK)
        status = take_all(dataset, trace, &err);
    stk_dataset_close(&dataset);
    const bool traced = trace;
    const stk_status closed = stk__event_trace_close(&trace, &close_err);
    assert_null(trace);
    if (closed != STK_OK)
        assert_int_equal(closed, STK_ENOMEM);
    else if (traced)
        assert_whole(path);
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("allocation %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return !fault_struck(&f) && status == STK_OK;
}

static void test_allocations(void **state)
{
    char folder[256], path[300];

    (void)state;
    test_folder(folder);
    snprintf(path, sizeof path, "%s/t.json", folder);
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!run(path, n, for_good)) {
            n++;
            assert_true(n < 10000);
        }
        assert_true(n > 20);
    }
    test_folder_remove(folder);
}

/* The run goes on, and closing says that the trace is not whole. */
static void test_full_disk(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset;
    stk__event_trace *trace;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, "synthetic:mem://x?size=48&read_bytes=100", &dataset, &err),
              &err);
    assert_ok(stk__event_trace_open(ctx, "/dev/full", 1, &trace, &err), &err);
    assert_ok(take_all(dataset, trace, &err), &err);
    stk_dataset_close(&dataset);
    assert_fails(stk__event_trace_close(&trace, &err), STK_ENOSPC, &err, "/dev/full");
    assert_null(trace);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

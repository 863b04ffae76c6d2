/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a run: whole JSON, and an arrow through task, batch and step for each batch kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "measure/measure.h"
#include "support/support.h"
#include "support/text.h"

#define BATCHES 12
#define EVERY   3

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void run(const char *path)
{
    stk_context *ctx = test_context();
    stk_loader_options o;
    stk_dataset *dataset;
    stk_loader *loader;
    stk__event_trace *trace;
    stk_batch *batch;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, "synthetic:slow+mem://x?size=96&read_bytes=100&latency=100us",
                               &dataset, &err),
              &err);
    assert_ok(stk__event_trace_open(ctx, path, EVERY, &trace, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 96 / BATCHES;
    o.num_workers = 2;
    o.epochs = 1;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    while (stk_loader_next(loader, -1, &batch, &err) == STK_OK) {
        uint64_t now = stk__now_ns();
        stk__event_trace_step(trace, stk_batch_epoch(batch), stk_batch_step(batch), now,
                              now + 1000);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    assert_ok(stk__event_trace_close(&trace, &err), &err);
    assert_null(trace);
    assert_ok(stk__event_trace_close(&trace, &err), &err);
    stk_context_destroy(&ctx);
}

static void test_whole(void **state)
{
    char folder[256], path[300];

    (void)state;
    test_folder(folder);
    snprintf(path, sizeof path, "%s/t.json", folder);
    for (int again = 0; again < 2; again++) {
        run(path);
        char *text = test_load(path, NULL);
        size_t length = strlen(text);
        assert_true(strncmp(text, "[\n{", 3) == 0 && strcmp(text + length - 4, "}\n]\n") == 0);
        assert_int_equal(count(text, "\"name\":\"step\",\"cat\""), BATCHES / EVERY);
        assert_int_equal(count(text, "\"name\":\"batch\""), BATCHES / EVERY);
        assert_int_equal(count(text, "\"name\":\"data wait\""), BATCHES / EVERY);
        /* Of a task of the consumer's own there is no lane: an arrow begins with a worker's. */
        assert_true(count(text, "\"ph\":\"s\"") == count(text, "\"ph\":\"t\""));
        assert_true(count(text, "\"ph\":\"s\"") <= BATCHES / EVERY);
        assert_int_equal(count(text, "\"ph\":\"f\""), BATCHES / EVERY);
        assert_true(count(text, "\"ph\":\"b\"") >= 1);
        assert_int_equal(count(text, "\"ph\":\"b\""), count(text, "\"ph\":\"e\""));
        /* Every line but the first and the last is one object. */
        assert_int_equal(count(text, "\n{"), count(text, "\n") - 2);
        free(text);
    }
    test_folder_remove(folder);
}

static void test_not_writable(void **state)
{
    stk_context *ctx = test_context();
    stk__event_trace *trace;
    stk_error err;

    (void)state;
    assert_fails(stk__event_trace_open(ctx, "/nowhere/t.json", 1, &trace, &err), STK_ENOENT, &err,
                 "/nowhere/t.json");
    assert_null(trace);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_not_writable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

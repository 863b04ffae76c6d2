/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and two tables to apply it to, made anew for each test. */
#ifndef STK_TESTS_CONFIG_H
#define STK_TESTS_CONFIG_H

#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "support/support.h"

typedef struct loader_options {
    uint32_t struct_size;
    bool drop_last;
    int64_t num_workers;
    uint64_t batch_size;
    const char *transforms;
    int32_t shuffle;
} loader_options;

#define AT(member) offsetof(loader_options, member)

static const stk_option loader_table_options[] = {
    {"drop_last", STK_OPTION_BOOL, AT(drop_last), "false", 0, 0, NULL, NULL,
     "Leave out a short last batch."},
    {"num_workers", STK_OPTION_INT, AT(num_workers), "auto", 0, 1024, "auto", NULL, "Threads."},
    {"batch_size", STK_OPTION_UINT, AT(batch_size), "16", 1, 1e9, NULL, NULL,
     "Samples of a batch."},
    {"transforms", STK_OPTION_STRING, AT(transforms), NULL, 0, 0, NULL, NULL, "Chain."},
    {"shuffle", STK_OPTION_ENUM, AT(shuffle), "none", 0, 0, "none|full|block", NULL, "Order."},
};
static const stk_option_table loader_table = {"loader", "Loader.", sizeof(loader_options),
                                              loader_table_options, 5};

typedef struct bench_options {
    uint32_t struct_size;
    uint64_t num_epochs;
    const char *dataset;
} bench_options;

static const stk_option bench_table_options[] = {
    {"num_epochs", STK_OPTION_UINT, offsetof(bench_options, num_epochs), "2", 1, 1e9, NULL, NULL,
     "Epochs."},
    {"dataset", STK_OPTION_STRING, offsetof(bench_options, dataset), NULL, 0, 0, NULL, NULL,
     "Spec."},
};
static const stk_option_table bench_table = {"bench", "Bench.", sizeof(bench_options),
                                             bench_table_options, 2};

typedef struct fixture {
    stk_context *context;
    stk_config *config;
    stk_error err;
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->context = test_context();
    assert_ok(stk_config_create(f->context, &f->config, &f->err), &f->err);
    *state = f;
    return 0;
}

/* Nothing is left behind, whatever the test has loaded. */
static inline int teardown(void **state)
{
    fixture *f = *state;
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_config_destroy(&f->config);
    assert_null(f->config);
    stk_config_destroy(&f->config);
    stk_context_memory(f->context, &stats);
    assert_int_equal(stats.bytes, 0);
    stk_context_destroy(&f->context);
    free(f);
    return 0;
}

static inline void loads(fixture *f, const char *text)
{
    assert_ok(stk_config_load_text(f->config, "run.yaml", text, strlen(text), &f->err), &f->err);
}

static inline void refuses_bytes(fixture *f, const char *text, size_t length, stk_status status,
                                 const char *part)
{
    /* Exactly as long as it is, so that a look beyond the end is seen. */
    char *exact = malloc(length ? length : 1);

    memcpy(exact, text, length);
    assert_fails(stk_config_load_text(f->config, "run.yaml", exact, length, &f->err), status,
                 &f->err, part);
    assert_string_equal(f->err.key, "run.yaml");
    free(exact);
}

static inline void refuses(fixture *f, const char *text, const char *part)
{
    refuses_bytes(f, text, strlen(text), STK_EFORMAT, part);
}

static inline void holds(fixture *f, const char *key, const char *expected)
{
    assert_int_equal(stk_config_count(f->config, key), 1);
    assert_string_equal(stk_config_get(f->config, key, 0), expected);
    assert_null(stk_config_get(f->config, key, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

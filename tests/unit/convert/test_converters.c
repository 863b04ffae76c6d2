/* SPDX-License-Identifier: Apache-2.0 */
/* Converters that an outsider adds: how one is chosen, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "convert/convert.h"
#include "support/support.h"

static struct {
    stk_status status;
    const char *why;
    char target[64], word[64];
    uint64_t checkpoint;
    int runs;
} own;

typedef struct own_options {
    uint32_t struct_size;
    const char *word;
    int64_t level;
    const char *key;
    char room[600]; /* no table is too long to be checked */
} own_options;

static const stk_option own_list[] = {
    {"word", STK_OPTION_STRING, offsetof(own_options, word), "none", 0, 0, NULL, "TEXT", "Of it."},
    {"level", STK_OPTION_INT, offsetof(own_options, level), "1", 0, 9, NULL, "N", "Of it."},
    {"key", STK_OPTION_SECRET, offsetof(own_options, key), NULL, 0, 0, NULL, "env:NAME", "Of it."}};
static const stk_option_table own_table = {"own", "Of a test.", sizeof(own_options), own_list, 3};
static const char *const ignored[] = {"verify", NULL};

static bool accepts(const stk_dataset *dataset, const char **why)
{
    (void)dataset;
    if (own.why)
        *why = *own.why ? own.why : NULL;
    return !own.why;
}

static stk_status run(const stk_conversion_job *job, stk_conversion_report *report, stk_error *err)
{
    const own_options *options = job->own;

    (void)err;
    own.runs++;
    snprintf(own.target, sizeof own.target, "%s", job->target);
    snprintf(own.word, sizeof own.word, "%s%d", options ? options->word : "-",
             options ? (int)options->level : 0);
    own.checkpoint = job->options->checkpoint;
    assert_string_equal(job->source, "digits:");
    assert_non_null(job->dataset);
    assert_false(job->canceled(job));
    report->total = 7;
    return own.status;
}

static const stk_converter_ops with_options = {.struct_size = sizeof with_options,
                                               .name = "own",
                                               .from = "all",
                                               .doc = "nothing",
                                               .options = &own_table,
                                               .endings = "|.own|",
                                               .ignores = ignored,
                                               .accepts = accepts,
                                               .run = run};
static const stk_converter_ops without = {.struct_size = sizeof without,
                                          .name = "bare",
                                          .from = "all",
                                          .doc = "nothing",
                                          .endings = "|.bare|",
                                          .accepts = accepts,
                                          .run = run};

static stk_context *prepare(void)
{
    stk_context *ctx = test_context();
    stk_error err;

    memset(&own, 0, sizeof own);
    assert_ok(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &with_options, &err), &err);
    assert_ok(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &without, &err), &err);
    return ctx;
}

static stk_status convert(stk_context *ctx, const char *target, const own_options *options,
                          stk_error *err)
{
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_conversion *conversion = NULL;
    stk_convert_options common;

    stk_convert_options_init(&common);
    common.checkpoint = 3;
    stk_status status = stk_conversion_create(ctx, "digits:", target, &conversion, err);
    if (status != STK_OK) {
        assert_null(conversion);
        return status;
    }
    status = stk_conversion_run(conversion, &common, options, &report, err);
    assert_int_equal(report.total, own.runs ? 7 : 0);
    stk_conversion_destroy(&conversion);
    return status;
}

static void is_chosen(void **state)
{
    static const struct {
        const char *target, *path, *word;
        bool given;
    } rows[] = {{"a.own", "a.own", "none1", false},
                {"own:b", "b", "none1", false},
                {"own:b?word=x", "b", "x1", false},
                {"own:b?word=x%26y&level=3", "b", "x&y3", true},
                {"own:b?level=3", "b", "hers3", true},
                {"c.own", "c.own", "hers5", true},
                {"own:slow+b?latency=1ms&level=3&x=1", "slow+b?latency=1ms&x=1", "none3", false},
                {"slow+file:a.own?latency=1ms", "slow+file:a.own?latency=1ms", "none1", false},
                {"bare:mem://x/y?z=1", "mem://x/y?z=1", "-0", false}};
    stk_context *ctx = prepare();
    own_options given;
    stk_error err;

    stk_options_init(&own_table, &given, sizeof given);
    given.word = "hers";
    given.level = 5;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(convert(ctx, rows[i].target, rows[i].given ? &given : NULL, &err), &err);
        assert_string_equal(own.target, rows[i].path);
        assert_string_equal(own.word, rows[i].word);
        assert_int_equal(own.checkpoint, 3);
    }
    assert_int_equal(own.runs, sizeof rows / sizeof *rows);
    setenv("STOKER_TEST_KEY", "hidden", 1);
    assert_ok(stk_options_set(&own_table, &given, "key", "env:STOKER_TEST_KEY", &err), &err);
    assert_ok(convert(ctx, "a.own", &given, &err), &err);
    stk_context_destroy(&ctx);
}

static void is_refused(void **state)
{
    static const char *const unknown[] = {"nothing", NULL};
    static const struct {
        const char *target, *text;
    } rows[] = {{"own:b?ward=x", "did you mean 'word'"},
                {"own:b?level=10", "level"},
                {"own:", "names no path"},
                {"own:?level=1", "names no path"},
                {"bare:b?level=1", "has none"},
                {"a.own?level=3", "with the converter's name, as own:a.own?level=3,"}};
    stk_context *ctx = prepare();
    stk_converter_ops bad = with_options;
    own_options given;
    stk_error err;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_fails(convert(ctx, rows[i].target, NULL, &err), STK_EINVAL, &err, rows[i].text);
    own.why = "is of a test";
    assert_fails(convert(ctx, "own:b", NULL, &err), STK_ENOTSUP, &err, "it is of a test");
    assert_fails(convert(ctx, "a.own", NULL, &err), STK_ENOTSUP, &err, "it is of a test");
    own.why = "";
    assert_fails(convert(ctx, "a.own", NULL, &err), STK_ENOTSUP, &err, "samples of another kind");
    own.why = NULL;
    stk_options_init(&own_table, &given, sizeof given);
    given.level = 10;
    assert_fails(convert(ctx, "a.own", &given, &err), STK_EINVAL, &err, "level");
    assert_int_equal(own.runs, 0);
    own.status = STK_EOS;
    assert_fails(convert(ctx, "a.own", NULL, &err), STK_EINVAL, &err, "gave STK_EOS");
    /* Names that are taken, and options that there are not. */
    assert_fails(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &with_options, &err), STK_EINVAL, &err,
                 "a converter 'own' already");
    bad.name = "images";
    assert_fails(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &bad, &err), STK_EINVAL, &err,
                 "a converter 'images' already");
    bad.name = "other";
    bad.ignores = unknown;
    assert_fails(stk_driver_add(ctx, STK_DRIVER_CONVERTER, &bad, &err), STK_EINVAL, &err,
                 "'nothing', which is no option");
    stk_context_destroy(&ctx);
}

/* Nothing computes beside a conversion. */
static void takes_all_cores(void **state)
{
    stk_context *ctx = test_context();
    stk_cores cores = {.struct_size = sizeof cores};
    stk_convert_options o = {.struct_size = sizeof o, .num_workers = STK_AUTO};

    (void)state;
    stk_context_cores(ctx, &cores);
    assert_int_equal(stk__convert_workers(ctx, &o), cores.usable);
    o.num_workers = 0;
    assert_int_equal(stk__convert_workers(ctx, &o), 0);
    o.num_workers = 7;
    assert_int_equal(stk__convert_workers(ctx, &o), 7);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_chosen), cmocka_unit_test(is_refused),
                                       cmocka_unit_test(takes_all_cores)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

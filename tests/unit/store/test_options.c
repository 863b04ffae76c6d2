/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a store by name: `stores` of the context, then the query of the URL. */
#include "base/registry.h"
#include "store/url.h"

#include <stdlib.h>

#include "support/support.h"

typedef struct seen_options {
    uint32_t struct_size;
    double timeout;
    uint64_t parts;
    const char *region;
    const char *token;
} seen_options;

#define AT(member) offsetof(seen_options, member)

static const stk_option seen_list[] = {
    {"timeout", STK_OPTION_DURATION, AT(timeout), "1", 0, 0, NULL, NULL, "Seconds."},
    {"parts", STK_OPTION_UINT, AT(parts), "7", 0, 100, NULL, NULL, "A number."},
    {"region", STK_OPTION_STRING, AT(region), NULL, 0, 0, NULL, NULL, "A place."},
    {"token", STK_OPTION_SECRET, AT(token), NULL, 0, 0, NULL, NULL, "Who asks."}};
static const stk_option_table seen_table = {"seen", "What it was given.", sizeof(seen_options),
                                            seen_list, STK_COUNT(seen_list)};

/* What the last opening was given. */
static struct {
    char url[200], region[40], token[40];
    double timeout;
    uint64_t parts;
} seen;

static const stk_store_ops seen_ops;

static void keep(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "-");
}

static stk_status seen_open(stk_context *ctx, const char *url, const void *options, stk_store **out,
                            stk_error *err)
{
    const seen_options *o = options;

    (void)err;
    keep(seen.url, sizeof seen.url, url);
    keep(seen.region, sizeof seen.region, o->region);
    keep(seen.token, sizeof seen.token, o->token);
    seen.timeout = o->timeout;
    seen.parts = o->parts;
    *out = calloc(1, sizeof **out);
    **out = (stk_store){.ops = &seen_ops, .context = ctx};
    return STK_OK;
}

static void seen_close(stk_store *store)
{
    free(store);
}

static stk_status seen_submit(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
    return STK_EIO;
}

static void seen_cancel(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
}

static stk_status seen_stat(stk_store *store, const char *key, const stk_store_call *call,
                            stk_object_info *out, stk_error *err)
{
    (void)store, (void)key, (void)call, (void)out, (void)err;
    return STK_ENOENT;
}

static const stk_store_ops seen_ops = {.struct_size = sizeof seen_ops,
                                       .name = "seen",
                                       .options = &seen_table,
                                       .open = seen_open,
                                       .close = seen_close,
                                       .submit = seen_submit,
                                       .cancel = seen_cancel,
                                       .stat = seen_stat};

static stk_status open_one(const char *stores, const char *url, stk_error *err)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_store *store = NULL;

    memset(&seen, 0, sizeof seen);
    stk_error_init(err);
    stk_context_options_init(&options);
    options.stores = stores;
    stk_status status = stk_context_create(&options, &context, err);
    if (status == STK_OK)
        status = stk_driver_add(context, STK_DRIVER_STORE, &seen_ops, err);
    if (status == STK_OK)
        status = stk_store_open(context, url, &store, NULL, 0, err);
    stk_store_close(&store);
    stk_context_destroy(&context);
    return status;
}

static void test_by_prefix(void **state)
{
    static const struct {
        const char *stores, *url, *driver_url;
        double timeout;
        uint64_t parts;
        const char *region;
    } rows[] = {
        {NULL, "seen://a/b", "seen://a/b", 1, 7, "-"},
        {NULL, "seen://a/b?parts=3&region=x%20y", "seen://a/b", 1, 3, "x y"},
        {"seen(timeout=5s, region=eu)", "seen://a/b?parts=3", "seen://a/b", 5, 3, "eu"},
        {"seen(parts=1), seen://a(parts=2), seen://a/b(parts=3)", "seen://a/b", "seen://a/b", 1, 3,
         "-"},
        {"seen(parts=1), seen://a(parts=2), seen://a/b(parts=3)", "seen://a/bc", "seen://a/bc", 1,
         2, "-"},
        {"seen(parts=1), seen://a(parts=2)", "seen://ab", "seen://ab", 1, 1, "-"},
        {"seen(parts=1)", "seen://a?parts=2", "seen://a", 1, 2, "-"},
        {"seen:(parts=5), mem", "slow+seen://a?latency=0", "seen://a", 1, 5, "-"},
        {"seen://a/(region='x, y')", "seen://a/b", "seen://a/b", 1, 7, "x, y"},
    };
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        assert_ok(open_one(rows[i].stores, rows[i].url, &err), &err);
        assert_string_equal(seen.url, rows[i].driver_url);
        assert_true(seen.timeout == rows[i].timeout);
        assert_int_equal(seen.parts, rows[i].parts);
        assert_string_equal(seen.region, rows[i].region);
        assert_string_equal(seen.token, "-");
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *stores, *url, *part;
    } rows[] = {
        {"seen(prats=1)", "seen://a", "did you mean 'parts'"},
        {"seen://other(prats=1)", "seen://a", "did you mean 'parts'"},
        {"seen(prats=1)", "mem://a", "did you mean 'parts'"},
        {"seen(parts=101)", "seen://a", "out of range"},
        {"seen(parts=1, parts=2)", "seen://a", "given twice"},
        {"mem(parts=1)", "mem://a", "takes no arguments"},
        {"sene(parts=1)", "seen://a", "did you mean 'seen'"},
        {"Seen(parts=3)", "seen://a", "did you mean 'seen'"},
        {"se-en(parts=3)", "seen://a", "did you mean 'seen'"},
        {"sene://x(parts=1)", "seen://a", "did you mean 'seen'"},
        {NULL, "seen://a?prats=1", "did you mean 'parts'"},
        {NULL, "slow+seen://a?latncy=0", "did you mean 'latency'"},
        {NULL, "mem://a?x=1", "not an option"},
        {NULL, "seen://me:hush@a", "user or a password"},
        {"seen(token=env:STOKER_TEST_NONE)", "seen://a", "not set"},
    };
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        assert_true(open_one(rows[i].stores, rows[i].url, &err) < 0);
        if (!strstr(err.text, rows[i].part))
            fail_msg("'%s' %s: %s", rows[i].stores ? rows[i].stores : "", rows[i].url, err.text);
        assert_null(strstr(err.text, "hush"));
    }
}

static void test_secret(void **state)
{
    stk_error err;

    (void)state;
    setenv("STOKER_TEST_TOKEN", "hush", 1);
    assert_ok(open_one("seen://a(token=env:STOKER_TEST_TOKEN)", "seen://a/b", &err), &err);
    assert_string_equal(seen.token, "hush");
    /* No other host gets it. */
    assert_ok(open_one("seen://a(token=env:STOKER_TEST_TOKEN)", "seen://a.other/b", &err), &err);
    assert_string_equal(seen.token, "-");
    assert_fails(open_one(NULL, "seen://a/b?token=env:STOKER_TEST_TOKEN", &err), STK_EINVAL, &err,
                 "in the query");
}

static void test_tables(void **state)
{
    static const stk_option bad = {.name = "Bad", .type = STK_OPTION_BOOL};
    static const stk_option_table wrong = {"wrong", "Wrong.", sizeof(seen_options), &bad, 1};
    stk_store_ops ops = seen_ops;
    stk_context *context = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_context_create(NULL, &context, &err), &err);
    ops.options = &wrong;
    assert_fails(stk_driver_add(context, STK_DRIVER_STORE, &ops, &err), STK_EINTERNAL, &err,
                 "snake_case");
    /* A name is the scheme of URLs. */
    ops = seen_ops;
    ops.name = "seen_too";
    assert_fails(stk_driver_add(context, STK_DRIVER_STORE, &ops, &err), STK_EINVAL, &err, "'_'");
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_prefix), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_secret), cmocka_unit_test(test_tables)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

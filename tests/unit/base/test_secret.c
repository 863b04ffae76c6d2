/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: refused in URLs, named by environment variables, never written. */
#include "base/options.h"

#include <stdlib.h>

#include "support/support.h"

typedef struct guarded_options {
    uint32_t struct_size;
    const char *token;
} guarded_options;

static const stk_option guarded_list[] = {{"token", STK_OPTION_SECRET,
                                           offsetof(guarded_options, token), NULL, 0, 0, NULL, NULL,
                                           "Who asks."}};
static const stk_option_table guarded = {"guarded", "A guard.", sizeof(guarded_options),
                                         guarded_list, 1};

static void names(void **state)
{
    static const char *const secret[] = {"token",
                                         "access_token",
                                         "X-Amz-Signature",
                                         "AWSAccessKeyId",
                                         "x-amz-credential",
                                         "api.key",
                                         "PASSWORD",
                                         "sig",
                                         "client-secret",
                                         "secret_key",
                                         "X-Amz-Security-Token"};
    static const char *const plain[] = {"",       "token_dtype", "mmap",  "key",
                                        "design", "latency",     "tokens"};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(secret); i++)
        assert_true(stk__secret_name(secret[i], strlen(secret[i])));
    for (size_t i = 0; i < STK_COUNT(plain); i++)
        assert_false(stk__secret_name(plain[i], strlen(plain[i])));
    assert_false(stk__secret_name("token_dtype", 4));
    assert_true(stk__secret_named("env:A"));
    assert_false(stk__secret_named("env:"));
    assert_false(stk__secret_named("hush"));
}

static void urls(void **state)
{
    static const char *const refused[] = {
        "s3://me:hush@bucket/x",
        "s3://hush@bucket",
        "npy:s3://me:hu/sh@bucket/x",
        "slow+http://me:hush@h/?a=1",
        "http://h/x?token=hush",
        "/data/x?a=1&X-Amz-Signature=hush",
        "images:x?masks=s3://me:hush@h",
        "a?b?sig=hush",
        "s3://b?endpoint=http://me:hush&1@h",
        "s3://b?endpoint=http://hush@h:9&a=1",
        "s3://b?endpoint=http://me:12&hu/sh@h",
        "s3://b?endpoint=http://1:2&hush@h",
    };
    static const char *const fine[] = {"",
                                       "/data/a@b/c:d",
                                       "mem://name/key@1",
                                       "http://h:8080/x?a=1",
                                       "s3://b/x?endpoint=http://h:9000&anonymous=true",
                                       "http://[::1]:80/x",
                                       "tokens:x?token_dtype=uint16",
                                       "s3://b?token",
                                       "s3://b?endpoint=http://h:80&anonymous=true",
                                       "s3://a(token=env:A), http://h(a=1)"};
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        stk_error_init(&err);
        assert_int_equal(stk__secret_refuse(refused[i], &err), STK_EINVAL);
        assert_null(strstr(err.text, "hush"));
        assert_non_null(strstr(err.text, "env:NAME"));
    }
    for (size_t i = 0; i < STK_COUNT(fine); i++)
        assert_ok(stk__secret_refuse(fine[i], &err), &err);
}

static void values(void **state)
{
    guarded_options options;
    char text[16];
    stk_error err;

    (void)state;
    stk_options_init(&guarded, &options, sizeof options);
    stk_options_format(&guarded_list[0], &options, text, sizeof text);
    assert_string_equal(text, "");
    stk_options_format_json(&guarded_list[0], &options, text, sizeof text);
    assert_string_equal(text, "null");
    assert_fails(stk_options_set(&guarded, &options, "token", "hush", &err), STK_EINVAL, &err,
                 "guarded.token: a secret is not written down");
    assert_null(strstr(err.text, "hush"));
    unsetenv("STOKER_TEST_TOKEN");
    assert_fails(stk_options_set(&guarded, &options, "token", "env:STOKER_TEST_TOKEN", &err),
                 STK_EINVAL, &err, "not set");
    assert_null(options.token);
    setenv("STOKER_TEST_TOKEN", "hush", 1);
    assert_ok(stk_options_set(&guarded, &options, "token", "env:STOKER_TEST_TOKEN", &err), &err);
    assert_string_equal(options.token, "hush");
    stk_options_format(&guarded_list[0], &options, text, sizeof text);
    assert_string_equal(text, "***");
    stk_options_format_json(&guarded_list[0], &options, text, sizeof text);
    assert_string_equal(text, "\"***\"");
    assert_ok(stk__options_check(&guarded, &err), &err);

    stk_option with_default = guarded_list[0];
    stk_option_table table = guarded;
    with_default.initial = "env:STOKER_TEST_TOKEN";
    table.options = &with_default;
    assert_fails(stk__options_check(&table, &err), STK_EINTERNAL, &err, "written down");
}

/* What a context refuses of `stores` before any driver is known. */
static void of_contexts(void **state)
{
    static const char *const refused[] = {"s3(token=hush)", "s3(hush)",
                                          "s3(a=1, hush)",  "s3(secret_key='hush')",
                                          "s3(token=hush",  "s3://me:hush@b(a=1)",
                                          "s3(token=env:)", "s3(a=1) (b=hush)"};
    stk_context_options options;
    stk_context *context;
    stk_error err;

    (void)state;
    stk_context_options_init(&options);
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        options.stores = refused[i];
        stk_error_init(&err);
        assert_int_equal(stk_context_create(&options, &context, &err), STK_EINVAL);
        assert_null(context);
        assert_null(strstr(err.text, "hush"));
    }
    options.stores = "s3(token=env:A), http://h:80/x(timeout=5s)";
    assert_ok(stk_context_create(&options, &context, &err), &err);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(urls),
                                       cmocka_unit_test(values), cmocka_unit_test(of_contexts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

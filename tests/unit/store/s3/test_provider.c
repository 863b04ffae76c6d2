/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares credentials: those that say the same of where they come from, in every word. */
#include "store/s3/provider.h"
#include "support/support.h"

static const char **text_at(stk__s3_sources *of, size_t offset)
{
    return (const char **)((char *)of + offset);
}

static void test_the_same_sources(void **state)
{
    static const size_t texts[] = {
        offsetof(stk__s3_sources, access_key_id),
        offsetof(stk__s3_sources, secret_access_key),
        offsetof(stk__s3_sources, session_token),
        offsetof(stk__s3_sources, role_arn),
        offsetof(stk__s3_sources, role_session_name),
        offsetof(stk__s3_sources, web_identity_token_file),
        offsetof(stk__s3_sources, profile),
        offsetof(stk__s3_sources, credentials_file),
        offsetof(stk__s3_sources, config_file),
        offsetof(stk__s3_sources, sso_folder),
        offsetof(stk__s3_sources, container_uri),
        offsetof(stk__s3_sources, container_token),
        offsetof(stk__s3_sources, container_token_file),
        offsetof(stk__s3_sources, metadata_endpoint),
        offsetof(stk__s3_sources, region),
    };
    stk_context *ctx = test_context();
    const stk__http_options http = {.ca_file = "ca", .connect_timeout = 3};
    stk__http_options other_http[] = {http, http, http, http};
    stk__s3_sources base = {.google = false};
    stk__s3_member members[2];
    stk__s3_provider *first, *second;
    stk_error err;

    other_http[0].ca_file = "other";
    other_http[1].proxy = "http://p";
    other_http[2].first_byte_timeout = 9;
    other_http[3].stall_timeout = 9;
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        *text_at(&base, texts[i]) = "one";
    assert_ok(stk__s3_provider_get(ctx, &base, &http, &members[0], &first, &err), &err);
    /* By what they say, not by where that lies. */
    char one[] = "one";
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk__s3_sources other = base;
        for (int k = 0; k < 3; k++) {
            *text_at(&other, texts[i]) = k == 0 ? one : k == 1 ? "two" : NULL;
            assert_ok(stk__s3_provider_get(ctx, &other, &http, &members[1], &second, &err), &err);
            assert_int_equal(second == first, k == 0);
            stk__s3_provider_leave(&second, &members[1]);
        }
    }
    for (size_t i = 0; i < STK_COUNT(other_http); i++) {
        assert_ok(stk__s3_provider_get(ctx, &base, &other_http[i], &members[1], &second, &err),
                  &err);
        assert_ptr_not_equal(second, first);
        stk__s3_provider_leave(&second, &members[1]);
    }
    base.google = true;
    assert_ok(stk__s3_provider_get(ctx, &base, &http, &members[1], &second, &err), &err);
    assert_ptr_not_equal(second, first);
    stk__s3_provider_leave(&second, &members[1]);
    stk__s3_provider_leave(&first, &members[0]);
    /* The last has left it, and it is there still. */
    base.google = false;
    stk__s3_provider *again;
    assert_ok(stk__s3_provider_get(ctx, &base, &http, &members[0], &again, &err), &err);
    assert_non_null(stk__s3_provider_cache(again));
    stk__s3_provider_leave(&again, &members[0]);
    stk_context_destroy(&ctx);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same_sources)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

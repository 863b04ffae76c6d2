/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that log in by SSO. */
#include "chain_fixture.h"

#define SSO                                                                                        \
    "GET https://portal.sso.eu-west-1.amazonaws.com/federation/credentials?"                       \
    "account_id=123456789012&role_name=Read%2FOnly"

/* The token lies in the file of the session's name, or of the portal's address. */
static void test_sso(void **state)
{
    stk__s3_sources s = {.profile = "new"};
    script sc = {.answers = {{SSO, 200,
                              "{\"roleCredentials\":{\"accessKeyId\":\"from-sso\",\"expiration\":"
                              "1700000000500,\"secretAccessKey\":\"" CANARY
                              "\",\"sessionToken\":\"t" CANARY "\"}}"}}};
    stk_error err;

    write_file("sso", "[profile new]\nsso_session = my sso\nsso_account_id = 123456789012\n"
                      "sso_role_name = Read/Only\n[sso-session my sso]\nsso_region = eu-west-1\n"
                      "sso_start_url = https://x.awsapps.com/start\n"
                      "[profile old]\nsso_start_url = https://x.awsapps.com/start\nsso_region = "
                      "eu-west-1\nsso_account_id = 123456789012\nsso_role_name = Read/Only\n"
                      "[profile less]\nsso_session = my sso\nsso_account_id = 1\n");
    s.config_file = path("sso");
    assert_fails(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), STK_EINVAL, &err,
                 "sso_folder");
    s.sso_folder = folder;
    assert_fails(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), STK_EACCES, &err,
                 "has not logged in by SSO: run `aws sso login --profile new`");
    /* By sha1sum of coreutils. */
    write_file("b3902c2d49b36c95af74dedb0f77c5828749e230.json",
               "{\"startUrl\": \"https://x.awsapps.com/start\", \"accessToken\": \"e" CANARY
               "\", \"expiresAt\": \"2021-01-01T00:00:00Z\"}");
    assert_ok(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), &err);
    assert_string_equal(keys.id.text, "from-sso");
    assert_string_equal(keys.token.text, "t" CANARY);
    assert_int_equal(keys.expires, 1700000000);
    assert_string_equal(sc.headers, "x-amz-sso_bearer_token: e" CANARY ";");
    /* 2021-01-01 is 1609459200. */
    assert_fails(stk__s3_chain(&s, answer, &sc, 1609459200, &keys, &err), STK_EACCES, &err,
                 "a login that has expired: run `aws sso login --profile new`");
    assert_quiet(&err);
    sc.answers[0].code = 401;
    sc.answers[0].answer = "{\"message\":\"no " CANARY "\"}";
    assert_fails(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), STK_EACCES, &err,
                 "'Read/Only' in the account '123456789012': run `aws sso login");
    assert_quiet(&err);
    s.profile = "old";
    assert_fails(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), STK_EACCES, &err,
                 "has not logged in");
    write_file("3947de8b16688092197fa616c34e01335f21d256.json",
               "{\"accessToken\": \"old" CANARY "\", \"expiresAt\": \"2021-01-01T00:00:00UTC\"}");
    sc.answers[0].code = 200;
    sc.answers[0].answer = JSON;
    sc.headers[0] = 0;
    assert_ok(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), &err);
    assert_string_equal(sc.headers, "x-amz-sso_bearer_token: old" CANARY ";");
    s.profile = "less";
    assert_fails(stk__s3_chain(&s, answer, &sc, 1600000000, &keys, &err), STK_EINVAL, &err,
                 "sso_role_name is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sso)};

    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where credentials come from. Every secret of these tests has CANARY in it, and no message may. */
#include "chain_fixture.h"
#include "store/s3/credentials/credentials.h"
#include "store/s3/credentials/ini.h"
#include "store/s3/credentials/process.h"

/* ---- Secrets --------------------------------------------------------------------------------- */

/* The line of /proc/self/smaps with the flags of the mapping that holds an address. */
static bool has_flag(const void *address, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool within = false, found = false;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            within = (unsigned long)address >= begin && (unsigned long)address < end;
        else if (within && strncmp(line, "VmFlags:", 8) == 0)
            found |= strstr(line, flag) != NULL;
    }
    fclose(f);
    return found;
}

static void test_secrets(void **state)
{
    stk__s3_keys *keys = stk__secrets_alloc(sizeof *keys);
    char large[STK__SECRET_ROOM];

    assert_non_null(keys);
    assert_true(has_flag(keys, " dd")); /* not in dumps */
    assert_true(has_flag(keys, " wf")); /* nor in children */
    assert_false(has_flag(large, " dd"));
    assert_true(stk__secret_set(&keys->id, CANARY, 6));
    assert_true(stk__secret_has(&keys->id));
    memset(large, 'a', sizeof large);
    assert_false(stk__secret_set(&keys->id, large, sizeof large));
    assert_false(stk__secret_has(&keys->id));
    assert_true(stk__secret_set(&keys->id, large, sizeof large - 1));
    assert_false(stk__secret_set(&keys->id, "a\0b", 3));
    stk__secrets_free(keys, sizeof *keys);
}

/* ---- Profile files --------------------------------------------------------------------------- */

static const char config[] = "# a comment\n"
                             "[default]\n"
                             "region = us-west-2   ; where\n"
                             "aws_access_key_id=AKIA1\r\n"
                             "s3 =\n"
                             "  region = not-this\n"
                             "[ profile   two ]\n"
                             "region=eu-west-1\n"
                             "key = a#b=c\n"
                             "empty =\n"
                             "[profile two\n"
                             "region = broken\n"
                             "[profile two]\n"
                             "region = eu-west-3\n"
                             "[three]\n"
                             "region = r3";

static void assert_value(const char *kind, const char *name, const char *key, const char *value)
{
    stk__ini_span span;
    const bool found = stk__ini_find(config, sizeof config - 1, kind, name, key, &span);

    assert_int_equal(found, value != NULL);
    if (found && value)
        assert_true(span.length == strlen(value) && memcmp(span.text, value, span.length) == 0);
}

static void test_ini(void **state)
{
    assert_value("", "default", "region", "us-west-2");
    assert_value("", "default", "aws_access_key_id", "AKIA1");
    assert_value("", "default", "missing", NULL);
    assert_value("profile", "default", "region", NULL);
    assert_value("profile", "two", "region", "eu-west-3");
    assert_value("profile", "two", "key", "a#b=c");
    assert_value("profile", "two", "empty", NULL);
    assert_value("", "two", "region", NULL);
    assert_value("", "three", "region", "r3");
    assert_value("", "", "region", NULL);
    assert_true(stk__ini_has(config, sizeof config - 1, "profile", "two"));
    assert_false(stk__ini_has(config, sizeof config - 1, "profile", "three"));
}

/* ---- Answers --------------------------------------------------------------------------------- */

typedef stk_status read_fn(const char *text, size_t length, const char *from, stk__s3_keys *out,
                           stk_error *err);

static void assert_keys(read_fn *read, const char *text, const char *id, const char *secret,
                        const char *token, int64_t expires)
{
    stk_error err;

    assert_ok(read(text, strlen(text), "it", &keys, &err), &err);
    assert_string_equal(keys.id.text, id);
    assert_string_equal(keys.secret.text, secret);
    assert_string_equal(keys.token.text, token);
    assert_int_equal(keys.expires, expires);
}

static void assert_damaged(read_fn *read, const char *const *texts, size_t n, const char *said)
{
    stk_error err;

    for (size_t i = 0; i < n; i++) {
        assert_fails(read(texts[i], strlen(texts[i]), "it", &keys, &err), STK_EFORMAT, &err, said);
        assert_quiet(&err);
    }
}

static void test_json(void **state)
{
    static const char process[] =
        "{\"Version\": 1, \"AccessKeyId\": \"an-id\", \"SecretAccessKey\": \"s\\/" CANARY "\","
        "\"SessionToken\": \"t" CANARY "\", \"Expiration\": \"2019-05-29T00:21:43Z\"}";
    static const char machine[] =
        "{\"Code\":\"Success\",\"LastUpdated\":\"2012-04-26T16:39:16Z\",\"Type\":\"AWS-HMAC\","
        "\"AccessKeyId\":\"ASIAIOSFODNN7EXAMPLE\",\"SecretAccessKey\":\"wJalr\",\"Token\":"
        "\"token\","
        "\"Expiration\":\"2017-05-17T15:09:54Z\"}";
    static const char sso[] =
        "{\"roleCredentials\":{\"accessKeyId\":\"A\",\"expiration\":1700000000500,"
        "\"secretAccessKey\":\"B\",\"sessionToken\":\"C\"}}";
    static const char *const damaged[] = {
        "",
        "[]",
        CANARY,
        "{\"AccessKeyId\": \"" CANARY "\"}",
        "{\"AccessKeyId\": 1, \"SecretAccessKey\": \"" CANARY "\"}",
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"" CANARY "\", \"Expiration\": \"soon\"}",
        "{\"roleCredentials\": {\"accessKeyId\": \"" CANARY "\"}}",
    };

    assert_keys(stk__s3_keys_read_json, process, "an-id", "s/" CANARY, "t" CANARY, 1559089303);
    assert_keys(stk__s3_keys_read_json, machine, "ASIAIOSFODNN7EXAMPLE", "wJalr", "token",
                1495033794);
    assert_keys(stk__s3_keys_read_json, sso, "A", "B", "C", 1700000000);
    assert_damaged(stk__s3_keys_read_json, damaged, STK_COUNT(damaged),
                   "what it answered holds no credentials: ");
}

/* The sample response of the STS API Reference, shortened. */
#define STS(inner)                                                                                 \
    "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"      \
    "<AssumeRoleWithWebIdentityResult><SubjectFromWebIdentityToken>amzn1</"                        \
    "SubjectFromWebIdentityToken><Credentials>" inner "</Credentials><Provider>p</Provider>"       \
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
static const char sts[] =
    STS("<SessionToken>tok" CANARY "</SessionToken><SecretAccessKey>wJ" CANARY "</SecretAccessKey>"
        "<Expiration>2014-10-24T23:00:23Z</Expiration><AccessKeyId>ASgeIAIOSFODNN7EXAMPLE"
        "</AccessKeyId>");

static void test_sts(void **state)
{
    static const char *const damaged[] = {
        "",
        "<a/>",
        STS("<SessionToken>" CANARY "</SessionToken>"),
        STS("<SessionToken>t</SessionToken><SecretAccessKey>" CANARY "</SecretAccessKey>"
            "<Expiration>soon</Expiration><AccessKeyId>i</AccessKeyId>"),
    };

    assert_keys(stk__s3_keys_read_sts, sts, "ASgeIAIOSFODNN7EXAMPLE", "wJ" CANARY, "tok" CANARY,
                1414191623);
    assert_damaged(stk__s3_keys_read_sts, damaged, STK_COUNT(damaged), "holds no credentials");
}

static void test_oauth(void **state)
{
    static const char text[] =
        "{\"access_token\":\"ya29." CANARY "\",\"expires_in\":3599,\"token_type\":\"Bearer\"}";
    static const char *const damaged[] = {"", "{}", "{\"access_token\":\"" CANARY "\"}",
                                          "{\"access_token\":\"" CANARY "\",\"expires_in\":-1}"};
    stk_error err;

    assert_ok(stk__s3_keys_read_oauth(text, sizeof text - 1, "it", 1000, &keys, &err), &err);
    assert_string_equal(keys.token.text, "ya29." CANARY);
    assert_int_equal(keys.expires, 4599);
    for (size_t i = 0; i < STK_COUNT(damaged); i++) {
        assert_fails(stk__s3_keys_read_oauth(damaged[i], strlen(damaged[i]), "it", 0, &keys, &err),
                     STK_EFORMAT, &err, "holds no credentials");
        assert_quiet(&err);
    }
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void test_words(void **state)
{
    static const struct {
        const char *command, *words;
    } cases[] = {{"a b  c", "a|b|c|"},
                 {" \"a b\"  'c \"d'", "a b|c \"d|"},
                 {"a\\ b \"c\\\"d\" '\\' ''", "a b|c\"d|\\||"},
                 {"a$(b)|c;d", "a$(b)|c;d|"},
                 {"a \"b", NULL},
                 {"", NULL},
                 {"  ", NULL}};
    char *words[STK__PROCESS_WORDS + 1], text[512], out[512];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        strcpy(text, cases[i].command);
        assert_int_equal(stk__process_words(text, words), cases[i].words != NULL);
        *out = 0;
        for (size_t k = 0; cases[i].words && words[k]; k++)
            sprintf(out + strlen(out), "%s|", words[k]);
        if (cases[i].words)
            assert_string_equal(out, cases[i].words);
    }
    *text = 0;
    for (int i = 0; i < STK__PROCESS_WORDS; i++)
        strcat(text, "a ");
    assert_true(stk__process_words(strcpy(out, text), words));
    assert_false(stk__process_words(strcat(text, "a"), words));
}

static stk_status run(const char *command, size_t room, uint64_t patience_ns, char *out,
                      stk_error *err)
{
    char text[256];
    size_t length;

    strcpy(text, command);
    return stk__process_read(text, out, room, &length, patience_ns, err);
}

static void test_process(void **state)
{
    char out[64];
    stk_error err;

    assert_ok(run("/bin/sh -c 'printf \"a  b\"'", sizeof out, UINT64_MAX / 2, out, &err), &err);
    assert_string_equal(out, "a  b");
    assert_fails(
        run("/bin/sh -c 'printf " CANARY "; exit 3'", sizeof out, UINT64_MAX / 2, out, &err),
        STK_EACCES, &err, "'/bin/sh' failed");
    assert_quiet(&err);
    assert_fails(run("/bin/sh -c 'kill -9 $$'", sizeof out, UINT64_MAX / 2, out, &err), STK_EACCES,
                 &err, "'/bin/sh' failed");
    assert_fails(run("/nowhere/program", sizeof out, UINT64_MAX / 2, out, &err), STK_ESYSTEM, &err,
                 "does not start");
    assert_fails(run("/bin/sh -c 'printf 1234567'", 7, UINT64_MAX / 2, out, &err), STK_ELIMIT, &err,
                 "more than 6 bytes");
    /* One that never ends, with a child that holds the pipe. */
    assert_fails(
        run("/bin/sh -c 'cat /dev/zero >/dev/null & wait'", sizeof out, 1000000, out, &err),
        STK_ETIMEDOUT, &err, "did not end in time");
    assert_fails(run("'a", sizeof out, 1, out, &err), STK_EINVAL, &err, "is no command");
}

/* ---- The chain ------------------------------------------------------------------------------- */

static void test_order(void **state)
{
    stk__s3_sources s = {.region = "eu-west-1"};
    script sc = {
        .answers = {{"PUT http://169.254.169.254/latest/api/token", 200, "tok" CANARY},
                    {"GET http://169.254.169.254/latest/meta-data/iam/security-credentials/", 200,
                     "my role\n"},
                    {"GET http://169.254.170.2/v2/x", 200, JSON},
                    {"POST https://sts.eu-west-1.amazonaws.com/", 200, sts}}};
    stk_error err;

    /* From the last of the chain to the first. */
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                 "or say anonymous=true for a public bucket");
    s.container_uri = "/v2/x";
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "from-json");
    write_file("credentials", "[default]\naws_access_key_id=one\naws_secret_access_key=1" CANARY
                              "\n[two]\naws_access_key_id = two\naws_secret_access_key = 2" CANARY
                              "\naws_session_token = t" CANARY "\n");
    write_file("config", "[default]\nregion=us-west-2\naws_access_key_id=late\n[profile three]\n"
                         "credential_process = /bin/sh -c \"cat $0\" unused\n[profile four]\n"
                         "source_profile = two\n[profile five]\naws_access_key_id = five\n");
    s.credentials_file = path("credentials");
    s.config_file = path("config");
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "one");
    assert_string_equal(keys.token.text, "");
    assert_true(keys.expires == INT64_MAX);
    s.profile = "two";
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "two");
    assert_string_equal(keys.token.text, "t" CANARY);
    s.profile = "six";
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                 "there is none of the name 'six'");
    s.profile = "four";
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_ENOTSUP, &err,
                 "export-credentials --profile four");
    s.profile = "five";
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EACCES, &err,
                 "no aws_secret_access_key");
    s.role_arn = "arn:aws:iam::1:role/r";
    s.web_identity_token_file = path("token");
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EACCES, &err,
                 "holds no token");
    write_file("token", "eyJ." CANARY "\n");
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "ASgeIAIOSFODNN7EXAMPLE");
    assert_string_equal(sc.body,
                        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn="
                        "arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=stoker&WebIdentityToken="
                        "eyJ." CANARY);
    s.access_key_id = "given";
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err, "go together");
    s.secret_access_key = CANARY;
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "given");
    assert_quiet(&err);
}

static void test_region_of_profile(void **state)
{
    stk__s3_sources s = {0};
    char region[32];

    assert_false(stk__s3_profile_region(&s, region, sizeof region));
    write_file("regions", "[default]\nregion = us-west-2\n[profile a]\nregion=eu-north-1\n"
                          "[profile b]\nregion=evil.com/\n");
    s.config_file = path("regions");
    assert_true(stk__s3_profile_region(&s, region, sizeof region));
    assert_string_equal(region, "us-west-2");
    s.profile = "a";
    assert_true(stk__s3_profile_region(&s, region, sizeof region));
    assert_string_equal(region, "eu-north-1");
    s.profile = "b";
    assert_false(stk__s3_profile_region(&s, region, sizeof region));
}

static void test_from_process(void **state)
{
    stk__s3_sources s = {.profile = "p"};
    script sc = {0};
    char text[1024];
    stk_error err;

    write_file("answer.json", JSON);
    snprintf(text, sizeof text, "[profile p]\ncredential_process = cat '%s'\n",
             path("answer.json"));
    write_file("process", text);
    s.config_file = path("process");
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "from-json");
    write_file("answer.json", "{\"AccessKeyId\": \"" CANARY);
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EFORMAT, &err,
                 "credential_process answered holds no credentials");
    assert_quiet(&err);
}

static void test_metadata(void **state)
{
    static const char base[] = "http://169.254.169.254/latest/";
    stk__s3_sources s = {.metadata_endpoint = "http://169.254.169.254"};
    script sc = {
        .answers = {
            {"PUT http://169.254.169.254/latest/api/token", 200, "tok" CANARY},
            {"GET http://169.254.169.254/latest/meta-data/iam/security-credentials/", 200,
             "role+1"},
            {"GET http://169.254.169.254/latest/meta-data/iam/security-credentials/role%2B1", 200,
             JSON}}};
    stk_error err;

    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(keys.token.text, "t" CANARY);
    assert_int_equal(strncmp(sc.asked + 4, base, strlen(base)), 0);
    assert_string_equal(sc.headers, "X-aws-ec2-metadata-token-ttl-seconds: 21600;"
                                    "X-aws-ec2-metadata-token: tok" CANARY ";"
                                    "X-aws-ec2-metadata-token: tok" CANARY ";");
    /* A token that would end the header, and a name that would leave the path. */
    sc.answers[0].answer = "a\r\nHost: x";
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EFORMAT, &err,
                 "gave no token");
    sc.answers[0].answer = "tok";
    sc.answers[1].answer = "<html> " CANARY;
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EFORMAT, &err,
                 "no name of a role");
    assert_quiet(&err);
    /* No machine of Amazon's, or one without a role. */
    sc.answers[1].code = 404;
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                 "no credentials for s3");
    sc.answers[0].answer = NULL;
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                 "no credentials for s3");
}

static void test_container(void **state)
{
    static const char *const refused[] = {"http://evil.com/x", "http://127.0.0.1.evil.com/x",
                                          "ftp://127.0.0.1/x", "nonsense", "https://no-path"};
    stk__s3_sources s = {.container_uri = "http://127.0.0.1:51678/get?a=b",
                         .container_token = "Bearer " CANARY};
    script sc = {.answers = {{"GET http://127.0.0.1:51678/get?a=b", 200, JSON}}};
    stk_error err;

    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(sc.headers, "Authorization: Bearer " CANARY ";");
    write_file("container-token", "filed" CANARY "\r\nX: y\n");
    s.container_token_file = path("container-token");
    sc.headers[0] = 0;
    assert_ok(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), &err);
    assert_string_equal(sc.headers, "Authorization: filed" CANARY ";");
    sc.answers[0].code = 403;
    sc.answers[0].answer = "no, " CANARY;
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EACCES, &err, "HTTP 403");
    assert_quiet(&err);
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        s.container_uri = refused[i];
        assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                     "container_uri");
    }
}

static void test_google(void **state)
{
    stk__s3_sources s = {.google = true, .metadata_endpoint = "http://169.254.169.254"};
    script sc = {.answers = {{"GET http://169.254.169.254/computeMetadata/v1/instance/"
                              "service-accounts/default/token",
                              200, "{\"access_token\":\"" CANARY "\",\"expires_in\":60}"}}};
    stk_error err;

    assert_ok(stk__s3_chain(&s, answer, &sc, 1000, &keys, &err), &err);
    assert_string_equal(keys.token.text, CANARY);
    assert_int_equal(keys.expires, 1060);
    assert_string_equal(sc.headers, "Metadata-Flavor: Google;");
    sc.answers[0].answer = NULL;
    assert_fails(stk__s3_chain(&s, answer, &sc, 1000, &keys, &err), STK_EINVAL, &err,
                 "no credentials for gs");
}

static void test_files(void **state)
{
    stk__s3_sources s = {0};
    script sc = {0};
    stk_error err;

    char *large = test_malloc(300 << 10);
    memset(large, '\n', 300 << 10);
    test_write(folder, "large", large, 300 << 10);
    test_free(large);
    s.credentials_file = path("large");
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_ELIMIT, &err, "larger than");
    s.credentials_file = folder;
    assert_true(stk__s3_chain(&s, answer, &sc, 0, &keys, &err) != STK_OK);
    s.credentials_file = path("nowhere");
    assert_fails(stk__s3_chain(&s, answer, &sc, 0, &keys, &err), STK_EINVAL, &err,
                 "no credentials for s3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_ini),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_sts),
        cmocka_unit_test(test_oauth),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_region_of_profile),
        cmocka_unit_test(test_from_process),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_google),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}

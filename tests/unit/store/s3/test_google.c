/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Google's credentials. The token service of these tests checks what was signed. */
#include "store/s3/credentials/credentials.h"
#include "store/s3/credentials/rs256.h"
#include "support/google_account.h"

#define CANARY "C4nary"

typedef struct service {
    EVP_PKEY *key;
    char *text; /* the key for JSON */
    char asked[512], head[2048], claims[2048], body[8192];
    int32_t code; /* another answer; 0: a token */
    const char *answer;
    bool plain;
} service;

static char folder[256];
static service s;
static stk__s3_keys keys;

static stk_status answer(void *user, const stk__s3_ask *ask, int32_t *code, char *text,
                         size_t *length, stk_error *err)
{
    static const char token[] =
        "{\"access_token\":\"ya29." CANARY "\",\"expires_in\":3599,\"token_type\":\"Bearer\"}";

    snprintf(s.asked, sizeof s.asked, "%s %s%s", ask->method, ask->endpoint, ask->target);
    snprintf(s.body, sizeof s.body, "%s", ask->body ? ask->body : "");
    s.plain = ask->plain;
    *code = s.code ? s.code : 200;
    if (!s.code && ask->body && !strstr(s.body, "grant_type=refresh_token") &&
        !google_grant(s.body, strlen(s.body), s.key, s.head, s.claims))
        *code = 400;
    const char *said = s.code ? s.answer : token;
    *length = strlen(said);
    memcpy(text, said, *length + 1);
    return STK_OK;
}

static stk_status look(const char *name, stk_error *err)
{
    char path[512];
    stk__s3_sources sources = {.google = true, .credentials_file = path};

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stk__s3_chain(&sources, answer, NULL, 1700000000, &keys, err);
}

static void test_service_account(void **state)
{
    stk_error err;

    google_account(folder, "account", s.text, "https://oauth2.googleapis.com/token");
    assert_ok(look("account", &err), &err);
    assert_string_equal(keys.token.text, "ya29." CANARY);
    assert_string_equal(keys.id.text, "");
    assert_int_equal(keys.expires, 1700003599);
    assert_string_equal(s.asked, "POST https://oauth2.googleapis.com/token");
    assert_false(s.plain);
    assert_string_equal(s.head, "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}");
    assert_string_equal(s.claims,
                        "{\"iss\":\"reader@p.iam.gserviceaccount.com\","
                        "\"scope\":\"https://www.googleapis.com/auth/devstorage.read_write\","
                        "\"aud\":\"https://oauth2.googleapis.com/token\","
                        "\"iat\":1700000000,\"exp\":1700003600}");
}

static void test_user(void **state)
{
    static const char text[] =
        "{\"client_id\": \"1.apps\", \"client_secret\": \"d-" CANARY "\", \"quota_project_id\":\n"
        "\"q\", \"refresh_token\": \"1//0" CANARY "\", \"type\": \"authorized_user\"}";
    stk_error err;

    test_write(folder, "user", text, sizeof text - 1);
    assert_ok(look("user", &err), &err);
    assert_string_equal(keys.token.text, "ya29." CANARY);
    assert_string_equal(s.body, "grant_type=refresh_token&client_id=1.apps&client_secret=d-" CANARY
                                "&refresh_token=1%2F%2F0" CANARY);
}

/* HMAC keys of options come first; without a file the metadata server is asked. */
static void test_order(void **state)
{
    stk__s3_sources sources = {.google = true,
                               .access_key_id = "GOOG1",
                               .secret_access_key = CANARY,
                               .credentials_file = "/nowhere/file",
                               .metadata_endpoint = "http://169.254.169.254"};
    stk_error err;

    assert_ok(stk__s3_chain(&sources, answer, NULL, 0, &keys, &err), &err);
    assert_string_equal(keys.id.text, "GOOG1");
    sources.access_key_id = sources.secret_access_key = NULL;
    assert_fails(stk__s3_chain(&sources, answer, NULL, 0, &keys, &err), STK_EINVAL, &err,
                 "'/nowhere/file' is not there, or empty");
    sources.credentials_file = NULL;
    assert_ok(stk__s3_chain(&sources, answer, NULL, 0, &keys, &err), &err);
    assert_int_equal(strncmp(s.asked, "GET http://169.254.169.254/computeMetadata/", 43), 0);
}

static void test_refused(void **state)
{
    stk_error err;

    google_account(folder, "account", s.text, "https://oauth2.googleapis.com/token");
    s.code = 400;
    s.answer = "{\"error\":\"invalid_grant\",\"error_description\":\"of " CANARY "\"}";
    assert_fails(look("account", &err), STK_EACCES, &err,
                 "the token service of Google gave no credentials: HTTP 400, invalid_grant");
    assert_null(strstr(err.text, CANARY));
    s.answer = "{\"error\":\"not a word, " CANARY "\"}";
    assert_fails(look("account", &err), STK_EACCES, &err, "HTTP 400");
    assert_null(strstr(err.text, CANARY));
    s.code = 503;
    assert_fails(look("account", &err), STK_EIO, &err, "HTTP 503");
    s.code = 0;
}

static void test_damaged(void **state)
{
    static const struct {
        const char *text, *said;
        stk_status status;
    } cases[] = {
        {"[\"" CANARY "\"]", "no object of JSON", STK_EFORMAT},
        {"{\"a\": \"" CANARY "\"}", "has no type", STK_EFORMAT},
        {"{\"type\": \"external_account\", \"x\": \"" CANARY "\"}", "gcloud auth", STK_ENOTSUP},
        {"{\"type\": \"service_account\"}", "has no client_email", STK_EFORMAT},
        {"{\"type\": \"service_account\", \"client_email\": \"e\"}", "has no private_key",
         STK_EFORMAT},
        {"{\"type\": \"service_account\", \"client_email\": \"e\", \"private_key\": \"" CANARY
         "\"}",
         "no key of RSA", STK_EFORMAT},
        {"{\"type\": \"service_account\", \"client_email\": \"e\", \"private_key\": 1}",
         "has no private_key", STK_EFORMAT},
        {"{\"type\": \"authorized_user\", \"client_id\": \"" CANARY "\"}", "has no client_secret",
         STK_EFORMAT},
        {"{\"type\": \"authorized_user\", \"client_id\": \"i\", \"client_secret\": \"" CANARY
         "\", \"refresh_token\": \"t\", \"token_uri\": \"http://evil.example/t\"}",
         "no address of https", STK_EACCES},
        {"{\"type\": \"authorized_user\", \"client_id\": \"i\", \"client_secret\": \"" CANARY
         "\", \"refresh_token\": \"t\", \"token_uri\": \"https://h/t\\r\\nX: y\"}",
         "no address of https", STK_EACCES},
        {"{\"type\": \"authorized_user\", \"client_id\": \"i\", \"client_secret\": \"" CANARY
         "\", \"refresh_token\": \"t\", \"token_uri\": \"/t\"}",
         "no address of https", STK_EACCES},
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        test_write(folder, "damaged", cases[i].text, strlen(cases[i].text));
        s.asked[0] = 0;
        assert_fails(look("damaged", &err), cases[i].status, &err, cases[i].said);
        assert_null(strstr(err.text, CANARY));
        assert_string_equal(s.asked, "");
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The key as PEM, with line ends, in secret memory. */
static char *pem_of(char *room)
{
    char *to = room;

    for (const char *p = s.text; *p; p++)
        if (*p == '\\') {
            *to++ = '\n';
            p++;
        } else {
            *to++ = *p;
        }
    *to = 0;
    return room;
}

static void test_sign(void **state)
{
    uint8_t signature[STK__RS256_ROOM];
    char *pem = stk__secrets_alloc(4096);
    size_t n;
    stk_error err;

    assert_ok(stk__rs256_sign("f", pem_of(pem), "hello", 5, signature, &n, &err), &err);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(hash, NULL, EVP_sha256(), NULL, s.key), 1);
    assert_int_equal(EVP_DigestVerify(hash, signature, n, (const uint8_t *)"hello", 5), 1);
    EVP_MD_CTX_free(hash);
    stk__secrets_free(pem, 4096);
}

/* A byte of it is another, or it ends early: no key, or one that signs nothing, and no crash. */
static void test_damaged_key(void **state)
{
    static const char *const none[] = {"", "-----BEGIN PRIVATE KEY-----",
                                       "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----",
                                       "-----BEGIN PRIVATE KEY-----MIIB-----END PRIVATE KEY-----",
                                       "-----BEGIN PRIVATE KEY-----!!!!-----END PRIVATE KEY-----"};
    char *pem = stk__secrets_alloc(4096);
    stk__rsa_key key;
    uint64_t seed = 5;

    for (size_t i = 0; i < STK_COUNT(none); i++)
        assert_false(stk__rsa_key_read(strcpy(pem, none[i]), &key));
    assert_true(stk__rsa_key_read(pem_of(pem), &key));
    assert_int_equal(key.numbers[0].length, 128);
    assert_int_equal(key.numbers[1].length, 3); /* 65537 */
    const size_t length = strlen(pem_of(pem));
    for (int i = 0; i < 200; i++) {
        pem_of(pem);
        pem[28 + test_random(&seed) % (length - 54)] = "Az+/09="[test_random(&seed) % 7];
        if (stk__rsa_key_read(pem, &key))
            for (size_t k = 0; k < STK_COUNT(key.numbers); k++)
                assert_true((char *)key.numbers[k].bytes >= pem &&
                            (char *)key.numbers[k].bytes + key.numbers[k].length <= pem + length);
    }
    stk__secrets_free(pem, 4096);
}

static void test_base64url(void **state)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"", ""},           {"f", "Zg"},        {"fo", "Zm8"},
                 {"foo", "Zm9v"},    {"foob", "Zm9vYg"}, {"\xfb\xef\xff", "--__"},
                 {"\xff\xff", "__8"}};

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char room[64] = "";
        stk__text text = {.bytes = room, .room = sizeof room};
        stk__text_add_base64url(&text, cases[i].bytes, strlen(cases[i].bytes));
        assert_string_equal(room, cases[i].text);
    }
}

static int set_up(void **state)
{
    test_folder(folder);
    s.key = google_key(1024, &s.text);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    EVP_PKEY_free(s.key);
    free(s.text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_service_account), cmocka_unit_test(test_user),
        cmocka_unit_test(test_order),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damaged),         cmocka_unit_test(test_sign),
        cmocka_unit_test(test_damaged_key),     cmocka_unit_test(test_base64url),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

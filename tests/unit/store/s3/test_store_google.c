/* SPDX-License-Identifier: Apache-2.0 */
/* gs: with a service account, against the tests' web server: it is the token service, which checks
 * the signature, and the store, which wants the token that was given last. */
#include "store/store.h"
#include "support/google_account.h"
#include "support/http_server.h"

typedef struct fixture {
    stk_context *context;
    http_server *server;
    EVP_PKEY *key;
    char folder[256];
    pthread_mutex_t mutex;
    unsigned tokens, forged, unsigned_reads;
    unsigned lasts;   /* seconds of a token */
    uint32_t late_ms; /* its answer */
    char token[32], body[256];
} fixture;

static void note(void *user, const http_request *request, http_fault *fault)
{
    fixture *f = user;
    char value[512], wanted[64], head[2048], claims[2048];

    pthread_mutex_lock(&f->mutex);
    if (strcmp(request->path, "/token") == 0) {
        if (google_grant(request->body, request->body_length, f->key, head, claims)) {
            snprintf(f->token, sizeof f->token, "t%u", ++f->tokens);
            snprintf(f->body, sizeof f->body,
                     "{\"access_token\":\"%s\",\"expires_in\":%u,\"token_type\":\"Bearer\"}",
                     f->token, f->lasts);
            fault->status = 200;
        } else {
            f->forged++;
            snprintf(f->body, sizeof f->body, "{\"error\":\"invalid_grant\"}");
            fault->status = 400;
        }
        fault->body = f->body;
        fault->latency_ms = f->late_ms;
    } else {
        snprintf(wanted, sizeof wanted, "Bearer %s", f->token);
        if (!http_header(request, "Authorization", value, sizeof value) ||
            strcmp(value, wanted) != 0) {
            f->unsigned_reads++;
            /* An answer to HEAD has no body that says why. */
            const bool head = strcmp(request->method, "HEAD") == 0;
            fault->status = head ? 400 : 401;
            fault->body = head ? NULL : "<Error><Code>AuthenticationRequired</Code></Error>";
        }
    }
    pthread_mutex_unlock(&f->mutex);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    char stores[1024], uri[256], *text;
    stk_error err;

    pthread_mutex_init(&f->mutex, NULL);
    f->lasts = 3600;
    f->server =
        http_server_start(&(http_server_options){.seed = 1, .s3 = true, .seen = note, .user = f});
    assert_non_null(f->server);
    test_folder(f->folder);
    f->key = google_key(2048, &text);
    snprintf(uri, sizeof uri, "%s/token", http_server_url(f->server));
    google_account(f->folder, "account.json", text, uri);
    free(text);
    snprintf(stores, sizeof stores,
             "gs(endpoint='%s', credentials_file='%s/account.json', metadata_endpoint='')",
             http_server_url(f->server), f->folder);
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    assert_true(http_server_put(f->server, "/bucket/x", "0123456789", 10));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_context_destroy(&f->context);
    http_server_stop(&f->server);
    pthread_mutex_destroy(&f->mutex);
    EVP_PKEY_free(f->key);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

static void *read_some(void *user)
{
    stk_store *store = user;
    char data[16] = "";
    stk_error err;

    for (int i = 0; i < 10; i++)
        assert_ok(stk_store_read(store, "x", 0, 10, data, &err), &err);
    assert_string_equal(data, "0123456789");
    return NULL;
}

/* HEAD is answered by 400 without a word where the token has expired: it is fetched anew, once. */
static void test_head_says_nothing(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->context, "gs://bucket", &store, NULL, 0, &err), &err);
    read_some(store);
    pthread_mutex_lock(&f->mutex);
    snprintf(f->token, sizeof f->token, "another");
    pthread_mutex_unlock(&f->mutex);
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, 10);
    assert_int_equal(f->tokens, 2);
    stk_store_close(&store);
}

static void *open_and_read(void *user)
{
    fixture *f = user;
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->context, "gs://bucket", &store, NULL, 0, &err), &err);
    read_some(store);
    stk_store_close(&store);
    return NULL;
}

/* Stores with the same options have one token, at once and one after another; others have another.
 */
static void test_one_token_for_all_stores(void **state)
{
    fixture *f = *state;
    stk_dataset *dataset = NULL;
    pthread_t threads[8];
    stk_store *store = NULL;
    stk_error err;

    f->late_ms = 100; /* so that several wait for it */
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_read, f), 0);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_fails(stk_dataset_open(f->context, "gs://bucket/x", &dataset, &err), STK_EFORMAT, &err,
                 "x");
    open_and_read(f);
    assert_int_equal(f->tokens, 1);
    assert_int_equal(f->unsigned_reads, 0);
    assert_ok(stk_store_open(f->context, "gs://bucket?connect_timeout=2s", &store, NULL, 0, &err),
              &err);
    read_some(store);
    assert_int_equal(f->tokens, 2);
    stk_store_close(&store);
}

/* However many ask, one token is fetched. */
static void test_one_token(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    pthread_t threads[8];
    stk_error err;

    assert_ok(stk_store_open(f->context, "gs://bucket", &store, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_some, store), 0);
    for (size_t i = 0; i < STK_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_ok(stk_store_put(store, "y", "new", 3, NULL, &err), &err);
    stk_store_close(&store);
    assert_int_equal(f->tokens, 1);
    assert_int_equal(f->forged, 0);
    assert_int_equal(f->unsigned_reads, 0);
}

/* A token that is taken no more is fetched again, once. */
static void test_taken_no_more(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->context, "gs://bucket", &store, NULL, 0, &err), &err);
    read_some(store);
    pthread_mutex_lock(&f->mutex);
    snprintf(f->token, sizeof f->token, "revoked");
    pthread_mutex_unlock(&f->mutex);
    read_some(store);
    stk_store_close(&store);
    assert_int_equal(f->tokens, 2);
    assert_int_equal(f->unsigned_reads, 1);
}

/* Another's key signs nothing that the service takes. */
static void test_forged(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    char data[16], uri[256], *text;
    stk_error err;

    EVP_PKEY *other = google_key(2048, &text);
    snprintf(uri, sizeof uri, "%s/token", http_server_url(f->server));
    google_account(f->folder, "account.json", text, uri);
    free(text);
    EVP_PKEY_free(other);
    assert_ok(stk_store_open(f->context, "gs://bucket", &store, NULL, 0, &err), &err);
    assert_fails(stk_store_read(store, "x", 0, 10, data, &err), STK_EINVAL, &err,
                 "HTTP 400, invalid_grant");
    stk_store_close(&store);
    assert_true(f->forged > 0);
    assert_int_equal(f->tokens, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_one_token), TEST(test_one_token_for_all_stores),
                                       TEST(test_taken_no_more), TEST(test_forged),
                                       TEST(test_head_says_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

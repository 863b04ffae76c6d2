/* SPDX-License-Identifier: Apache-2.0 */
/* s3: and gs: as stores, against the tests' web server. Every secret has CANARY in it: the server
 * sees it in no request, and no message repeats it. */
#include <stdlib.h>

#include "store/s3/s3.h"
#include "support/faults.h"
#include "support/http_server.h"
#include "support/support.h"

#define CANARY "C4nary"
#define LARGE  (UINT64_C(20) << 20)

typedef struct fixture {
    stk_context *context;
    http_server *server;
    pthread_mutex_t mutex;
    unsigned unsigned_requests, leaks, aborts, begins;
    char header[512]; /* Authorization of the last request */
    char region[32];  /* another than this is refused; "": any */
    unsigned expire;  /* so many requests are refused as of an expired token */
    bool ahead;       /* the server's clock is: what is not signed by its time is refused */
    bool messages_leak;
} fixture;

static void fail_with(http_fault *fault, int status, const char *body)
{
    fault->status = status;
    fault->body = body;
}

static void note(void *user, const http_request *request, http_fault *fault)
{
    fixture *f = user;
    char value[512], scope[64];

    pthread_mutex_lock(&f->mutex);
    f->aborts += strcmp(request->method, "DELETE") == 0 && strstr(request->query, "uploadId=");
    f->begins += strcmp(request->method, "POST") == 0 && strstr(request->query, "uploads");
    f->leaks += strstr(request->headers, CANARY) || strstr(request->target, CANARY);
    if (!http_header(request, "Authorization", value, sizeof value))
        f->unsigned_requests++;
    else
        memcpy(f->header, value, sizeof value);
    snprintf(scope, sizeof scope, "/%s/s3/aws4_request", f->region);
    if (f->region[0] && !strstr(f->header, scope)) {
        fail_with(fault, 400,
                  "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong"
                  "</Message><Region>eu-west-1</Region></Error>");
    } else if (f->expire) {
        f->expire--;
        fail_with(fault, 400,
                  "<Error><Code>ExpiredToken</Code><Message>The provided token has "
                  "expired.</Message></Error>");
    } else if (f->ahead && (!http_header(request, "x-amz-date", value, sizeof value) ||
                            strncmp(value, "20710506T07", 11) != 0)) {
        fail_with(fault, 403,
                  "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large."
                  "</Message><ServerTime>2071-05-06T07:08:09Z</ServerTime></Error>");
    }
    pthread_mutex_unlock(&f->mutex);
}

static void watch(void *user, stk_message_level level, const char *text)
{
    fixture *f = user;

    f->messages_leak |= strstr(text, CANARY) != NULL;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    char stores[512];
    stk_error err;

    pthread_mutex_init(&f->mutex, NULL);
    f->server =
        http_server_start(&(http_server_options){.seed = 1, .s3 = true, .seen = note, .user = f});
    assert_non_null(f->server);
    setenv("STOKER_TEST_ID", "AKIDEXAMPLE", 1);
    setenv("STOKER_TEST_SECRET", "wJ" CANARY "/key", 1);
    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', access_key_id=env:STOKER_TEST_ID, "
             "secret_access_key=env:STOKER_TEST_SECRET, metadata_endpoint=''), "
             "gs(endpoint='%s', access_key_id=env:STOKER_TEST_ID, "
             "secret_access_key=env:STOKER_TEST_SECRET, metadata_endpoint='')",
             http_server_url(f->server), http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    options.on_message = watch;
    options.on_message_user = f;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    assert_true(http_server_put(f->server, "/bucket/d/x", "0123456789", 10));
    assert_true(http_server_put(f->server, "/bucket/d/a b+c", "ab", 2));
    assert_true(http_server_put(f->server, "/bucket/d/e/y", "y", 1));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    assert_int_equal(f->leaks, 0);
    assert_false(f->messages_leak);
    stk_context_destroy(&f->context);
    http_server_stop(&f->server);
    pthread_mutex_destroy(&f->mutex);
    free(f);
    return 0;
}

static stk_store *open_store(fixture *f, const char *url)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->context, url, &store, NULL, 0, &err), &err);
    return store;
}

static stk_status collect(void *user, const char *key, const stk_object_info *info)
{
    sprintf((char *)user + strlen(user), "%s%s %llu;", key, info->is_folder ? "/" : "",
            (unsigned long long)info->size);
    return STK_OK;
}

static void test_read(void **state)
{
    static const char *const urls[] = {"s3://bucket/d/", "gs://bucket/d", "s3://bucket/d"};
    fixture *f = *state;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(urls); i++) {
        stk_store *store = open_store(f, urls[i]);
        stk_object_info info = {.struct_size = sizeof info}, other = info;
        char data[16] = "", listed[256] = "";
        assert_ok(stk_store_read(store, "x", 2, 5, data, &err), &err);
        assert_string_equal(data, "23456");
        assert_ok(stk_store_read(store, "a b+c", 0, 2, data, &err), &err);
        assert_string_equal(data, "ab456");
        assert_fails(stk_store_read(store, "x", 6, 5, data, &err), STK_ETRUNCATED, &err, "x");
        assert_fails(stk_store_read(store, "none", 0, 1, data, &err), STK_ENOENT, &err, "none");
        assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
        assert_int_equal(info.size, 10);
        assert_false(info.is_folder);
        assert_ok(stk_store_stat(store, "e", NULL, &other, &err), &err);
        assert_true(other.is_folder);
        assert_fails(stk_store_stat(store, "none", NULL, &other, &err), STK_ENOENT, &err, "none");
        assert_ok(stk_store_list(store, "", NULL, collect, listed, &err), &err);
        assert_string_equal(listed, "a b+c 2;x 10;e/ 0;");
        listed[0] = 0;
        assert_ok(stk_store_list(store, "e", NULL, collect, listed, &err), &err);
        assert_string_equal(listed, "e/y 1;");
        assert_fails(stk_store_list(store, "none", NULL, collect, listed, &err), STK_ENOENT, &err,
                     "no folder 'none'");
        stk_store_close(&store);
    }
    assert_int_equal(f->unsigned_requests, 0);
    assert_int_equal(strncmp(f->header, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/", 40), 0);
}

/* A URL may name an object. */
static void test_urls(void **state)
{
    fixture *f = *state;
    stk_store *store = NULL;
    char key[64];
    stk_error err;

    assert_ok(stk_store_open(f->context, "s3://bucket/d/x", &store, key, sizeof key, &err), &err);
    assert_string_equal(key, "x");
    stk_store_close(&store);
    assert_ok(stk_store_open(f->context, "s3://bucket", &store, key, sizeof key, &err), &err);
    assert_string_equal(key, "");
    stk_store_close(&store);
    assert_fails(stk_store_open(f->context, "s3://", &store, key, sizeof key, &err), STK_EINVAL,
                 &err, "names no bucket");
    assert_fails(stk_store_open(f->context, "s3://b/x", &store, key, sizeof key, &err), STK_EINVAL,
                 &err, "no name of a bucket");
}

static void test_anonymous(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/d/?anonymous=true");
    char data[16] = "";
    stk_error err;

    assert_ok(stk_store_read(store, "x", 0, 10, data, &err), &err);
    assert_string_equal(data, "0123456789");
    assert_int_equal(f->unsigned_requests, 1);
    stk_store_close(&store);
}

static void test_put(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/new/");
    const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};
    char data[16] = "";
    stk_error err;

    assert_ok(stk_store_put(store, "k", "hello", 5, NULL, &err), &err);
    assert_ok(stk_store_put(store, "empty", NULL, 0, NULL, &err), &err);
    assert_ok(stk_store_read(store, "k", 0, 5, data, &err), &err);
    assert_string_equal(data, "hello");
    assert_fails(stk_store_put(store, "k", "other", 5, &keep, &err), STK_EEXIST, &err, "k");
    assert_ok(stk_store_put(store, "k", "again", 5, NULL, &err), &err);
    assert_ok(stk_store_read(store, "k", 0, 5, data, &err), &err);
    assert_string_equal(data, "again");
    assert_ok(stk__store_remove(store, "k", &err), &err);
    assert_fails(stk__store_remove(store, "k", &err), STK_ENOENT, &err, "k");
    stk_store_close(&store);
}

static unsigned char *noise(void)
{
    unsigned char *bytes = malloc(LARGE);
    uint64_t seed = 7;

    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i += 8) {
        const uint64_t word = test_random(&seed);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

static void test_parts(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/new/");
    const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};
    unsigned char *bytes = noise();
    size_t length;
    stk_put *put = NULL;
    stk_error err;

    assert_ok(stk_store_put(store, "large", bytes, LARGE, NULL, &err), &err);
    unsigned char *got = http_server_get(f->server, "/bucket/new/large", &length);
    assert_non_null(got);
    assert_int_equal(length, LARGE);
    assert_memory_equal(got, bytes, LARGE);
    free(got);
    assert_int_equal(f->begins, 1);
    assert_int_equal(f->aborts, 0);

    assert_fails(stk_store_put(store, "large", bytes, LARGE, &keep, &err), STK_EEXIST, &err,
                 "large");
    assert_int_equal(f->aborts, 1);
    /* Nothing is left of one that is abandoned. */
    assert_ok(stk__store_put_begin(store, "other", &stk__store_call_none, &put, &err), &err);
    assert_ok(put->ops->write(put, bytes, LARGE, &err), &err);
    stk__store_put_abandon(&put);
    assert_int_equal(f->aborts, 2);
    assert_null(http_server_get(f->server, "/bucket/new/other", &length));
    /* Its completion fails within a 200, for good. */
    http_server_fault(f->server, &(http_fault){.method = "POST",
                                               .query = "uploadId",
                                               .status = 200,
                                               .body = "<Error><Code>InvalidPart</Code><Message>"
                                                       "no such part</Message></Error>"});
    assert_fails(stk_store_put(store, "other", bytes, LARGE, NULL, &err), STK_EIO, &err,
                 "InvalidPart");
    assert_int_equal(f->aborts, 3);
    assert_null(http_server_get(f->server, "/bucket/new/other", &length));
    http_server_mend(f->server);
    free(bytes);
    stk_store_close(&store);
}

/* A PUT with If-None-Match is done, and its answer is lost: the next try finds its own object. */
static void test_lost_answer(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/new/");
    const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};
    stk_error err;

    /* There is a connection that was used, on which curl would send again by itself. */
    assert_ok(stk_store_put(store, "other", "hello", 5, NULL, &err), &err);
    http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .count = 1, .cut = HTTP_CLOSE, .at = HTTP_BEFORE_HEAD});
    assert_ok(stk_store_put(store, "ours", "hello", 5, &keep, &err), &err);
    http_server_mend(f->server);
    const int lost = http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .count = 2, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD});
    assert_ok(stk_store_put(store, "mine", "hello", 5, &keep, &err), &err);
    assert_ok(stk_store_put(store, "none", NULL, 0, &keep, &err), &err);
    assert_int_equal(http_server_struck(f->server, lost), 2);
    http_server_mend(f->server);
    /* Another's, that came between two tries. */
    http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 503});
    assert_fails(stk_store_put(store, "mine", "hellO", 5, &keep, &err), STK_EEXIST, &err, "mine");
    http_server_mend(f->server);
    http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 503});
    assert_fails(stk_store_put(store, "mine", "hello!", 6, &keep, &err), STK_EEXIST, &err, "mine");
    /* At the first try it is there: that is no lost answer, whatever it holds. */
    assert_fails(stk_store_put(store, "mine", "hello", 5, &keep, &err), STK_EEXIST, &err, "mine");
    http_server_mend(f->server);

    unsigned char *bytes = noise();
    const int completed = http_server_fault(f->server, &(http_fault){.method = "POST",
                                                                     .query = "uploadId",
                                                                     .count = 1,
                                                                     .cut = HTTP_RESET,
                                                                     .at = HTTP_BEFORE_HEAD});
    assert_ok(stk_store_put(store, "large", bytes, LARGE, &keep, &err), &err);
    assert_int_equal(http_server_struck(f->server, completed), 1);
    assert_int_equal(f->aborts, 0);
    http_server_mend(f->server);
    bytes[LARGE - 1] ^= 1;
    http_server_fault(
        f->server, &(http_fault){.method = "POST", .query = "uploadId", .count = 1, .status = 503});
    assert_fails(stk_store_put(store, "large", bytes, LARGE, &keep, &err), STK_EEXIST, &err,
                 "large");
    free(bytes);
    stk_store_close(&store);
}

/* A part that was not sent is missing, whatever is written after it. */
static void test_lost_part(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/new/?retries=0");
    unsigned char *bytes = noise();
    size_t length;
    stk_put *put = NULL;
    stk_error err;

    http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .query = "partNumber=1", .status = 500, .count = 1});
    assert_ok(stk__store_put_begin(store, "lost", &stk__store_call_none, &put, &err), &err);
    assert_int_equal(put->ops->write(put, bytes, LARGE, &err), STK_EIO);
    (void)put->ops->write(put, bytes, 5, &err);
    assert_fails(stk__store_put_commit(&put, &err), STK_EIO, &err, "a part was not sent");
    assert_null(http_server_get(f->server, "/bucket/new/lost", &length));
    http_server_mend(f->server);
    free(bytes);
    stk_store_close(&store);
}

/* The answer names the region; the host stays. */
static void test_region(void **state)
{
    fixture *f = *state;
    stk_store *store;
    char data[16] = "";
    stk_error err;

    strcpy(f->region, "eu-west-1");
    store = open_store(f, "s3://bucket/d/");
    assert_ok(stk_store_read(store, "x", 0, 10, data, &err), &err);
    assert_string_equal(data, "0123456789");
    assert_non_null(strstr(f->header, "/eu-west-1/s3/aws4_request"));
    stk_store_close(&store);
    /* One that goes on naming the same. */
    strcpy(f->region, "nowhere");
    store = open_store(f, "s3://bucket/d/");
    assert_fails(stk_store_list(store, "", NULL, collect, data, &err), STK_EINVAL, &err,
                 "AuthorizationHeaderMalformed: the region is wrong");
    stk_store_close(&store);
}

/* One refresh, and once more; then it is the end. */
static void test_expired(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/d/");
    char data[16] = "";
    stk_error err;

    f->expire = 1;
    assert_ok(stk_store_read(store, "x", 0, 10, data, &err), &err);
    assert_int_equal(f->expire, 0);
    f->expire = 1000;
    assert_fails(stk_store_list(store, "", NULL, collect, data, &err), STK_EIO, &err,
                 "ExpiredToken");
    assert_null(strstr(err.text, CANARY));
    assert_true(f->expire >= 996);
    stk_store_close(&store);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/d/");
    char data[16] = "";
    stk_error err;

    http_server_fault(f->server, &(http_fault){.status = 403,
                                               .body = "<Error><Code>AccessDenied</Code><Message>"
                                                       "Access Denied</Message></Error>"});
    assert_int_equal(stk_store_read(store, "x", 0, 10, data, &err), STK_EACCES);
    assert_fails(stk_store_list(store, "", NULL, collect, data, &err), STK_EACCES, &err,
                 "AccessDenied: Access Denied; check the keys");
    stk_store_close(&store);
    /* Wrong keys are no folder that may not be listed. */
    http_server_mend(f->server);
    http_server_fault(f->server, &(http_fault){.status = 403,
                                               .body = "<Error><Code>SignatureDoesNotMatch</Code>"
                                                       "<Message>m</Message></Error>"});
    assert_fails(stk_store_open(f->context, "s3://bucket/d", &store, NULL, 0, &err), STK_EINVAL,
                 &err, "SignatureDoesNotMatch: m; check the secret key");
}

/* Open, look, list, write: whatever there is no memory for ends that, and leaves nothing. */
static void work_with(stk_context *context, stk_status *status)
{
    char listed[256] = "";
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_error err;

    *status = stk_store_open(context, "s3://bucket/d", &store, NULL, 0, &err);
    if (*status == STK_OK)
        *status = stk_store_stat(store, "x", NULL, &info, &err);
    if (*status == STK_OK)
        *status = stk_store_list(store, "", NULL, collect, listed, &err);
    if (*status == STK_OK)
        *status = stk_store_put(store, "k", "hello", 5, NULL, &err);
    stk_store_close(&store);
}

static void test_memory(void **state)
{
    fixture *f = *state;
    faults memory = {.left = FAULTS_NONE};
    stk_status status = STK_ENOMEM;
    stk_context_options options;
    stk_context *context;
    bool struck = true;
    char stores[512];
    stk_error err;

    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', access_key_id=env:STOKER_TEST_ID, retries=0, "
             "secret_access_key=env:STOKER_TEST_SECRET, metadata_endpoint='')",
             http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &memory};
    for (int64_t n = 0; struck && n < 400; n++) {
        memory.left = FAULTS_NONE;
        assert_ok(stk_context_create(&options, &context, &err), &err);
        memory.left = n;
        work_with(context, &status);
        /* What is only remembered is done without. */
        struck = fault_struck(&memory);
        assert_true(status == STK_OK || struck);
        memory.left = FAULTS_NONE;
        stk_context_destroy(&context);
        assert_int_equal(memory.held, 0);
    }
    assert_false(struck);
}

/* Signed requests follow none, also where a proxy would fetch it; nothing signed goes elsewhere. */
static void test_redirect_behind_a_proxy(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    char url[300];
    stk_error err;

    snprintf(url, sizeof url, "s3://bucket/d/?endpoint=http://s3.example&allow_http=true&proxy=%s",
             http_server_url(f->server));
    store = open_store(f, url);
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    assert_int_equal(info.size, 10);
    http_server_fault(f->server, &(http_fault){.path = "/bucket/d/moved",
                                               .status = 307,
                                               .location = "http://other.example/bucket/d/x"});
    http_server_reset_counters(f->server);
    assert_fails(stk_store_stat(store, "moved", NULL, &info, &err), STK_EIO, &err, "307");
    assert_int_equal(http_server_counters(f->server).requests, 1);
    stk_store_close(&store);
}

/* Of a machine whose clock is wrong: one request learns the time, the others are signed by it. */
static void test_clock(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "s3://bucket/d/");
    char data[16];
    stk_error err;

    f->ahead = true;
    for (unsigned i = 0; i < 3; i++) {
        http_server_reset_counters(f->server);
        assert_ok(stk_store_read(store, "x", 2, 5, data, &err), &err);
        assert_memory_equal(data, "23456", 5);
        assert_int_equal(http_server_counters(f->server).requests, i ? 1 : 2);
    }
    stk_store_close(&store);
}

/* An answer to HEAD says nothing but its date: one that is far off is tried once by that clock. */
static void test_clock_of_head(void **state)
{
    static const struct {
        int64_t off;
        uint64_t refusals, requests; /* 0: all are refused */
        stk_status status;
    } cases[] = {
        {1000, 1, 2, STK_OK},
        {-1000, 1, 2, STK_OK},
        {1000, 0, 2, STK_EACCES},
        {800, 1, 1, STK_EACCES},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const http_fault fault = {.method = "HEAD",
                                  .count = cases[i].refusals,
                                  .status = 403,
                                  .body = "",
                                  .date_off = cases[i].off};
        stk_object_info info = {.struct_size = sizeof info};
        stk_store *store = open_store(f, "s3://bucket/d/");
        stk_error err;

        http_server_mend(f->server);
        http_server_fault(f->server, &fault);
        http_server_reset_counters(f->server);
        assert_int_equal(stk_store_stat(store, "x", NULL, &info, &err), cases[i].status);
        assert_int_equal(http_server_counters(f->server).requests, cases[i].requests);
        stk_store_close(&store);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_read),          TEST(test_urls),
        TEST(test_anonymous),     TEST(test_put),
        TEST(test_parts),         TEST(test_lost_answer),
        TEST(test_lost_part),     TEST(test_region),
        TEST(test_expired),       TEST(test_refused),
        TEST(test_memory),        TEST(test_clock),
        TEST(test_clock_of_head), TEST(test_redirect_behind_a_proxy)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

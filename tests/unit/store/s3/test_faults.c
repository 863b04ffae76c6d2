/* SPDX-License-Identifier: Apache-2.0 */
/* s3: operation by fault, and where keys come from by fault: how each ends, that its bytes are
 * right, how often the server was asked. */
#include <semaphore.h>

#include "store/s3/s3.h"
#include "support/http_server.h"
#include "support/matrix.h"

#define CANARY "C4nary"
#define SIZE   70000u
#define LARGE  ((UINT64_C(8) << 20) + 5) /* two parts */
#define TRIES  3                         /* retries=2 of the options below */
/* Of every cell, which ends before it, or at most a tenth later. */
#define DEADLINE_NS UINT64_C(20000000000)
/* Cells of large objects at a time: they work more than they wait, and share the processors. */
#define LARGE_CELLS 4

enum { READ, UP_TO, STAT, LIST, PUT, PARTS, OPERATIONS };
static const char *const operations[] = {"read", "read up to", "stat",
                                         "list", "put",        "put in parts"};

typedef struct row {
    const char *name;
    http_fault fault;
    stk_status ends[OPERATIONS]; /* STK_EAGAIN: not asked */
} row;

#define XML(code, more)                                                                            \
    "<Error><Code>" code "</Code><Message>" CODE_TEXT "</Message>" more "</Error>"
#define CODE_TEXT   "as it says"
#define ERROR(n, c) .status = (n), .body = XML(c, "")
#define NOT         STK_EAGAIN
#define ALL(s)                                                                                     \
    {                                                                                              \
        s, s, s, s, s, s                                                                           \
    }
/* An answer to HEAD has no body that says why: `h` is how that ends. */
#define BUT_STAT(s, h)                                                                             \
    {                                                                                              \
        s, s, h, s, s, s                                                                           \
    }
#define ONLY_READ(s)                                                                               \
    {                                                                                              \
        s, s, NOT, NOT, NOT, NOT                                                                   \
    }
#define ONLY_LIST(s)                                                                               \
    {                                                                                              \
        NOT, NOT, NOT, s, NOT, NOT                                                                 \
    }
#define ONLY_PUT(s)                                                                                \
    {                                                                                              \
        NOT, NOT, NOT, NOT, s, NOT                                                                 \
    }
#define ONLY_PARTS(s)                                                                              \
    {                                                                                              \
        NOT, NOT, NOT, NOT, NOT, s                                                                 \
    }
#define BOTH_PUTS(s)                                                                               \
    {                                                                                              \
        NOT, NOT, NOT, NOT, s, s                                                                   \
    }
#define UTC         "<ServerTime>2026-01-01T00:00:00Z</ServerTime>"
#define PAGE(inner) "<ListBucketResult><EncodingType>url</EncodingType>" inner "</ListBucketResult>"
#define X10(text)   text text text text text text text text text text

static const row rows[] = {
    {"503 SlowDown", {.count = 1, ERROR(503, "SlowDown")}, ALL(STK_OK)},
    {"500 InternalError", {.count = 1, ERROR(500, "InternalError")}, ALL(STK_OK)},
    {"500 that is no XML", {.count = 1, .status = 500, .body = "<html>oops"}, ALL(STK_OK)},
    {"429", {.count = 1, .status = 429}, ALL(STK_OK)},
    {"400 RequestTimeout",
     {.count = 1, ERROR(400, "RequestTimeout")},
     {STK_OK, STK_OK, NOT, STK_OK, STK_OK, STK_OK}},
    {"400 IncompleteBody", {.count = 1, ERROR(400, "IncompleteBody")}, BOTH_PUTS(STK_OK)},
    {"400 BadDigest", {.count = 1, ERROR(400, "BadDigest")}, BOTH_PUTS(STK_OK)},
    {"400 BadDigest for good", {ERROR(400, "BadDigest")}, BOTH_PUTS(STK_EIO)},
    {"403 RequestTimeTooSkewed",
     {.count = 1, .status = 403, .body = XML("RequestTimeTooSkewed", UTC)},
     {STK_OK, STK_OK, NOT, STK_OK, STK_OK, STK_OK}},
    {"403 RequestTimeTooSkewed for good",
     {.status = 403, .body = XML("RequestTimeTooSkewed", UTC)},
     BUT_STAT(STK_EIO, STK_EACCES)},
    {"400 ExpiredToken", {.count = 1, ERROR(400, "ExpiredToken")}, ALL(STK_OK)},
    {"400 ExpiredToken for good", {ERROR(400, "ExpiredToken")}, BUT_STAT(STK_EIO, STK_EINVAL)},
    {"403 AccessDenied", {ERROR(403, "AccessDenied")}, ALL(STK_EACCES)},
    {"403 SignatureDoesNotMatch",
     {ERROR(403, "SignatureDoesNotMatch")},
     BUT_STAT(STK_EINVAL, STK_EACCES)},
    {"404 NoSuchBucket", {ERROR(404, "NoSuchBucket")}, ALL(STK_ENOENT)},
    {"404 NoSuchKey",
     {ERROR(404, "NoSuchKey")},
     {STK_ENOENT, STK_ENOENT, NOT, STK_ENOENT, STK_ENOENT, STK_ENOENT}},
    {"301 PermanentRedirect", {ERROR(301, "PermanentRedirect")}, ALL(STK_EINVAL)},
    {"301 to another host", {.status = 301, .location = "http://127.0.0.1:1/x"}, ALL(STK_EINVAL)},
    {"307 to another host", {.status = 307, .location = "http://127.0.0.1:1/x"}, ALL(STK_EIO)},
    {"409 OperationAborted", {.count = 1, ERROR(409, "OperationAborted")}, BOTH_PUTS(STK_OK)},
    {"412 PreconditionFailed", {ERROR(412, "PreconditionFailed")}, ONLY_READ(STK_ECHANGED)},
    {"500 for good", {ERROR(500, "InternalError")}, ALL(STK_EIO)},
    {"503 for good", {ERROR(503, "SlowDown")}, ALL(STK_EIO)},
    {"507", {.status = 507, .body = XML("QuotaExceeded", "")}, BOTH_PUTS(STK_ENOSPC)},
    {"a code that nobody knows", {ERROR(400, "Unheard")}, ALL(STK_EINVAL)},
    {"reset", {.count = 1, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD}, ALL(STK_OK)},
    {"close within the head", {.count = 1, .cut = HTTP_CLOSE, .at = HTTP_WITHIN_HEAD}, ALL(STK_OK)},
    {"stall", {.count = 1, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD}, ALL(STK_OK)},
    {"resets for good", {.cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD}, ALL(STK_EIO)},
    {"stalls for good", {.cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD}, ALL(STK_ETIMEDOUT)},
    {"a body cut", {.count = 1, .cut = HTTP_CLOSE, .at = 40}, ONLY_READ(STK_OK)},
    {"a page cut", {.count = 1, .cut = HTTP_CLOSE, .at = 40}, ONLY_LIST(STK_OK)},
    {"a page stalls", {.count = 1, .cut = HTTP_STALL, .at = 40}, ONLY_LIST(STK_OK)},
    {"an error as an object",
     {.status = 200, .body = XML("InternalError", "")},
     {STK_ETRUNCATED, NOT, NOT, NOT, NOT, NOT}},
    {"an upload reset",
     {.count = 1, .in_upload = true, .cut = HTTP_RESET, .at = 1000},
     ONLY_PUT(STK_OK)},
    {"an upload closed",
     {.count = 1, .in_upload = true, .cut = HTTP_CLOSE, .at = 1000},
     ONLY_PUT(STK_OK)},
    {"an error within a 200",
     {.count = 1, .method = "PUT", ERROR(200, "InternalError")},
     ONLY_PUT(STK_OK)},
    {"an error within a 200 for good",
     {.method = "PUT", ERROR(200, "InternalError")},
     ONLY_PUT(STK_EIO)},
    /* Pages that are none. */
    {"an error as a page", {ERROR(200, "InternalError")}, ONLY_LIST(STK_EFORMAT)},
    {"a page of HTML",
     {.status = 200, .body = "<html><body>hello</body></html>"},
     ONLY_LIST(STK_EFORMAT)},
    {"half a page",
     {.status = 200, .body = "<ListBucketResult><Name>b</Name><Contents>"},
     ONLY_LIST(STK_EFORMAT)},
    {"an empty page", {.status = 200, .body = ""}, ONLY_LIST(STK_EFORMAT)},
    {"a page that defines entities",
     {.status = 200,
      .body = "<!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]>" PAGE("<Name>&c;</Name>")},
     ONLY_LIST(STK_EFORMAT)},
    {"a deep page", {.status = 200, .body = PAGE(X10(X10("<a>")))}, ONLY_LIST(STK_EFORMAT)},
    {"a page that says there is more, and not where",
     {.status = 200, .body = PAGE("<IsTruncated>true</IsTruncated>")},
     ONLY_LIST(STK_EFORMAT)},
    {"a page that leads to itself",
     {.status = 200,
      .body = PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>t"
                   "</NextContinuationToken>")},
     ONLY_LIST(STK_EFORMAT)},
    {"sizes below zero",
     {.status = 200, .body = PAGE("<Contents><Key>a</Key><Size>-1</Size></Contents>")},
     ONLY_LIST(STK_EFORMAT)},
    {"sizes that overflow",
     {.status = 200,
      .body = PAGE("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>")},
     ONLY_LIST(STK_EFORMAT)},
    /* Uploads in parts, by stage. */
    {"no upload is begun",
     {.method = "POST", .query = "uploads", ERROR(500, "InternalError")},
     ONLY_PARTS(STK_EIO)},
    {"an upload without an id",
     {.method = "POST", .query = "uploads", .status = 200, .body = "<a/>"},
     ONLY_PARTS(STK_EFORMAT)},
    {"an upload whose answer is no XML",
     {.method = "POST", .query = "uploads", .status = 200, .body = "hello"},
     ONLY_PARTS(STK_EFORMAT)},
    {"a part whose ETag is no text of XML",
     {.method = "PUT",
      .query = "partNumber=2",
      .status = 200,
      .body = "x",
      .header = "ETag: \"<a>\"\r\n"},
     ONLY_PARTS(STK_EFORMAT)},
    {"a part fails once",
     {.count = 1, .method = "PUT", .query = "partNumber=2", .status = 500},
     ONLY_PARTS(STK_OK)},
    {"a part stalls once",
     {.count = 1,
      .method = "PUT",
      .query = "partNumber=1",
      .cut = HTTP_STALL,
      .at = HTTP_BEFORE_HEAD},
     ONLY_PARTS(STK_OK)},
    {"a part is reset within",
     {.count = 1,
      .method = "PUT",
      .query = "partNumber=1",
      .in_upload = true,
      .cut = HTTP_RESET,
      .at = 100000},
     ONLY_PARTS(STK_OK)},
    {"a part fails for good",
     {.method = "PUT", .query = "partNumber=2", .status = 500},
     ONLY_PARTS(STK_EIO)},
    {"a part without ETag",
     {.method = "PUT", .query = "partNumber=1", .status = 200, .body = "x"},
     ONLY_PARTS(STK_EFORMAT)},
    {"no such upload",
     {.method = "PUT", .query = "partNumber=2", ERROR(404, "NoSuchUpload")},
     ONLY_PARTS(STK_EIO)},
    {"the completion fails once",
     {.count = 1, .method = "POST", .query = "uploadId", ERROR(500, "InternalError")},
     ONLY_PARTS(STK_OK)},
    {"the completion fails within a 200",
     {.count = 1, .method = "POST", .query = "uploadId", ERROR(200, "InternalError")},
     ONLY_PARTS(STK_OK)},
    {"the completion fails for good",
     {.method = "POST", .query = "uploadId", .status = 503},
     ONLY_PARTS(STK_EIO)},
    {"the completion is refused",
     {.method = "POST", .query = "uploadId", ERROR(200, "InvalidPart")},
     ONLY_PARTS(STK_EIO)},
};

#define ROWS (sizeof rows / sizeof *rows)

typedef struct table {
    http_server *server;
    unsigned char *bytes; /* LARGE of them; the first SIZE are the objects' */
    struct {
        const row *row;
        int operation;
    } cells[ROWS * OPERATIONS];
    size_t count;
    sem_t large; /* how many more of LARGE_CELLS may begin */
} table;

static stk_status count_entry(void *user, const char *key, const stk_object_info *info)
{
    (void)info;
    *(int *)user += strcmp(key, "x") == 0 ? 1 : 100;
    return STK_OK;
}

static stk_status operate(const table *t, stk_store *store, int operation, stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + DEADLINE_NS};
    stk_object_info info = {.struct_size = sizeof info};
    unsigned char *got = calloc(1, SIZE + 100);
    matrix_read up_to = {.read = {.key = "x",
                                  .length = SIZE + 100,
                                  .data = got,
                                  .up_to = true,
                                  .deadline_ns = call.deadline_ns}};
    int entries = 0;
    stk_status status = STK_OK;
    bool right = true;

    switch (operation) {
    case READ:
        status = stk_store_read(store, "x", 0, SIZE, got, err);
        right = memcmp(got, t->bytes, SIZE) == 0;
        break;
    case UP_TO:
        status = matrix_read_now(store, &up_to, err);
        right = up_to.read.got == SIZE && memcmp(got, t->bytes, SIZE) == 0;
        break;
    case STAT:
        status = stk_store_stat(store, "x", &call, &info, err);
        right = info.size == SIZE && !info.is_folder;
        break;
    case LIST:
        status = stk_store_list(store, "", &call, count_entry, &entries, err);
        right = entries == 1;
        break;
    default:
        status = stk_store_put(store, "x", t->bytes + 1, operation == PARTS ? LARGE - 1 : 5000,
                               &call, err);
    }
    free(got);
    return status == STK_OK && !right ? STK_EINTERNAL : status;
}

/* A context with the keys of options, or with those that `more` leads to. */
static stk_context *open_context(const char *patience, const char *more)
{
    stk_context_options options;
    stk_context *context;
    char stores[800];
    stk_error err;

    snprintf(stores, sizeof stores, "s3(stall_timeout=%s, connect_timeout=20, retries=%d, %s)",
             patience, TRIES - 1, more);
    stk_context_options_init(&options);
    options.stores = stores;
    return stk_context_create(&options, &context, &err) == STK_OK ? context : NULL;
}

static bool is_kept(const table *t, const char *path, int operation, stk_status status)
{
    const uint64_t written = operation == PARTS ? LARGE - 1 : 5000;
    size_t length;
    unsigned char *kept = http_server_get(t->server, path, &length);
    const bool old = kept && length == SIZE && memcmp(kept, t->bytes, SIZE) == 0;
    const bool put = kept && length == written && memcmp(kept, t->bytes + 1, written) == 0;

    free(kept);
    return operation < PUT ? old : status == STK_OK ? put : old || put;
}

static void try_cell(table *t, size_t at, char wrong[MATRIX_TEXT])
{
    const row *r = t->cells[at].row;
    const int operation = t->cells[at].operation;
    const stk_status wanted = r->ends[operation];
    http_fault fault = r->fault;
    char more[500], url[150], path[100], objects[100], prefix[100];
    stk_status status = STK_EINTERNAL;
    stk_store *store = NULL;
    stk_error err;

    stk_error_init(&err);
    snprintf(more, sizeof more,
             "endpoint='%s', access_key_id=env:STOKER_TEST_ID, "
             "secret_access_key=env:STOKER_TEST_SECRET, metadata_endpoint=''",
             http_server_url(t->server));
    snprintf(url, sizeof url, "s3://bucket/cell-%d/?first_byte_timeout=%s", (int)at,
             operation == PARTS && fault.cut == HTTP_STALL ? "4" : matrix_patience(&fault));
    snprintf(path, sizeof path, "/bucket/cell-%d/x", (int)at);
    snprintf(objects, sizeof objects, "/bucket/cell-%d/*", (int)at);
    snprintf(prefix, sizeof prefix, "prefix=cell-%d%%2F", (int)at);
    http_server_put(t->server, path, t->bytes, SIZE);
    stk_context *context = open_context(matrix_patience(&fault), more);
    if (context && stk_store_open(context, url, &store, NULL, 0, &err) == STK_OK) {
        if (operation == LIST)
            fault.query = prefix;
        else
            fault.path = objects;
        http_server_fault(t->server, &fault);
    }
    const uint64_t start = stk__now_ns();
    if (store)
        status = operate(t, store, operation, &err);
    const uint64_t took = stk__now_ns() - start;
    stk_store_close(&store);
    stk_context_destroy(&context);
    if (status != wanted || (status != STK_OK && !strchr(err.text, ' ')) ||
        strstr(err.text, CANARY) || !is_kept(t, path, operation, status) ||
        took > DEADLINE_NS + DEADLINE_NS / 10)
        snprintf(wrong, MATRIX_TEXT, "%s of '%s': %s instead of %s, %.1f s: %.500s",
                 operations[operation], r->name, stk_status_name(status), stk_status_name(wanted),
                 (double)took / 1e9, err.text);
    http_server_remove(t->server, path);
}

static void run_cell(void *user, size_t at, char wrong[MATRIX_TEXT])
{
    table *t = user;
    const bool large = t->cells[at].operation == PARTS;

    while (large && sem_wait(&t->large) != 0) /* a signal */
        ;
    try_cell(t, at, wrong);
    if (large)
        sem_post(&t->large);
}

static void open_table(table *t)
{
    uint64_t seed = 9;

    *t = (table){.server =
                     http_server_start(&(http_server_options){.seed = 1, .s3 = true, .threads = 4}),
                 .bytes = malloc(LARGE)};
    assert_true(t->server && t->bytes);
    assert_int_equal(sem_init(&t->large, 0, LARGE_CELLS), 0);
    for (size_t i = 0; i < LARGE; i++)
        t->bytes[i] = (unsigned char)test_random(&seed);
    setenv("STOKER_TEST_ID", "AKIDEXAMPLE", 1);
    setenv("STOKER_TEST_SECRET", "wJ" CANARY "/key", 1);
}

static void close_table(table *t)
{
    http_server_stop(&t->server);
    sem_destroy(&t->large);
    free(t->bytes);
}

static void test_operations(void **state)
{
    static table t;

    open_table(&t);
    for (size_t i = 0; i < ROWS; i++)
        for (int o = 0; o < OPERATIONS; o++)
            if (rows[i].ends[o] != NOT) {
                t.cells[t.count].row = &rows[i];
                t.cells[t.count++].operation = o;
            }
    assert_true(t.count >= 100);
    matrix_run(t.count, run_cell, &t);
    close_table(&t);
}

/* ---- Where keys come from -------------------------------------------------------------------- */

#define KEYS_AND(more)                                                                             \
    "{\"AccessKeyId\": \"AKIDEXAMPLE\", \"SecretAccessKey\": \"s" CANARY "\"" more "}"
#define LASTING ", \"Expiration\": \"2099-01-01T00:00:00Z\""
#define ROLE    "/latest/meta-data/iam/security-credentials/"
#define GOOD    KEYS_AND(LASTING)

typedef struct source_row {
    const char *name;
    bool metadata; /* of a machine; else of a container */
    http_fault fault;
    stk_status ends;
    uint64_t most; /* requests that are struck; 0: TRIES */
} source_row;

/* Of a container. */
#define ONCE(what, ...)                                                                            \
    {                                                                                              \
        what, false, {.count = 1, __VA_ARGS__}, STK_OK, 1                                          \
    }
#define FAIL(what, s, ...)                                                                         \
    {                                                                                              \
        what, false, {__VA_ARGS__}, s, 0                                                           \
    }
#define SAYS(what, s, text)                                                                        \
    {                                                                                              \
        what, false, {.status = 200, .body = text}, s, 1                                           \
    }
/* Of a machine: its token, the name of its role, the keys. */
#define MACHINE(what, s, ...)                                                                      \
    {                                                                                              \
        what, true, {__VA_ARGS__}, s, 0                                                            \
    }

static char long_answer[2 << 20];

static const source_row sources[] = {
    SAYS("keys", STK_OK, GOOD),
    ONCE("keys: 500 once", .status = 500),
    ONCE("keys: 503 once", .status = 503),
    ONCE("keys: reset once", .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    ONCE("keys: closed within the head once", .cut = HTTP_CLOSE, .at = HTTP_WITHIN_HEAD),
    ONCE("keys: closed within the body once", .cut = HTTP_CLOSE, .at = 20),
    ONCE("keys: stalled once", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    ONCE("keys: stalled within the body once", .cut = HTTP_STALL, .at = 20),
    FAIL("keys: 500", STK_EIO, .status = 500),
    FAIL("keys: 403", STK_EINVAL, .status = 403),
    FAIL("keys: 404", STK_EINVAL, .status = 404),
    FAIL("keys: resets", STK_EIO, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    FAIL("keys: stalls", STK_ETIMEDOUT, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    FAIL("keys: a redirect", STK_EINVAL, .location = "http://127.0.0.1:1/x"),
    FAIL("keys: an endless head", STK_ELIMIT, .endless_head = true),
    SAYS("keys: no JSON", STK_EFORMAT, "hello " CANARY),
    SAYS("keys: an empty answer", STK_EFORMAT, ""),
    SAYS("keys: half an answer", STK_EFORMAT, "{\"AccessKeyId\": \"AKIDEXAMPLE\", \"Sec"),
    SAYS("keys: no secret", STK_EFORMAT, "{\"AccessKeyId\": \"AKIDEXAMPLE\"" LASTING "}"),
    SAYS("keys: a number as a secret", STK_EFORMAT,
         "{\"AccessKeyId\": \"AKIDEXAMPLE\", \"SecretAccessKey\": 5" LASTING "}"),
    SAYS("keys: a deep answer", STK_EFORMAT, X10(X10("[[[[[[[[[["))),
    SAYS("keys: a token with a line end", STK_EFORMAT,
         KEYS_AND(LASTING ", \"Token\": \"t" CANARY "\\r\\nX-Evil: yes\"")),
    SAYS("keys: an end that is no time", STK_EFORMAT, KEYS_AND(", \"Expiration\": \"soon\"")),
    SAYS("keys: that have ended", STK_EIO, KEYS_AND(", \"Expiration\": \"2001-01-01T00:00:00Z\"")),
    SAYS("keys: an answer of 2 MiB", STK_ELIMIT, long_answer),
    MACHINE("a machine", STK_OK, .path = "/none"),
    MACHINE("a machine: no token once", STK_OK, .count = 1, .method = "PUT", .status = 500),
    MACHINE("a machine: no token", STK_EINVAL, .method = "PUT", .status = 403),
    MACHINE("a machine: a token that is none", STK_EFORMAT, .method = "PUT", .status = 200,
            .body = "a b\r\nX-Evil: yes"),
    MACHINE("a machine: no roles", STK_EINVAL, .method = "GET", .status = 404),
    MACHINE("a machine: a role that is none", STK_EFORMAT, .path = ROLE, .status = 200,
            .body = "../../x y"),
    MACHINE("a machine: keys cut once", STK_OK, .count = 1, .path = ROLE "role", .cut = HTTP_CLOSE,
            .at = 5),
    MACHINE("a machine: keys that are none", STK_EFORMAT, .path = ROLE "role", .status = 200,
            .body = "[]"),
    MACHINE("a machine: keys refused", STK_EINVAL, .path = ROLE "role", .status = 403),
    MACHINE("a machine: keys fail", STK_EIO, .path = ROLE "role", .status = 500),
};

static void run_source(void *user, size_t at, char wrong[MATRIX_TEXT])
{
    table *t = user;
    const source_row *r = &sources[at];
    http_server *keys = http_server_start(&(http_server_options){.seed = 1});
    char more[500];
    stk_status status = STK_EINTERNAL;
    stk_store *store = NULL;
    stk_error err;

    stk_error_init(&err);
    http_server_put(keys, "/keys", GOOD, strlen(GOOD));
    http_server_put(keys, ROLE, "role\n", 5);
    http_server_put(keys, ROLE "role", GOOD, strlen(GOOD));
    const int fault = http_server_fault(keys, &r->fault);
    if (r->metadata)
        http_server_fault(keys, &(http_fault){.method = "PUT", .status = 200, .body = "token"});
    snprintf(more, sizeof more, "endpoint='%s', %s='%s%s', %s, first_byte_timeout=%s, %s",
             http_server_url(t->server), r->metadata ? "metadata_endpoint" : "container_uri",
             http_server_url(keys), r->metadata ? "" : "/keys",
             r->metadata ? "container_uri=''" : "metadata_endpoint=''", matrix_patience(&r->fault),
             "credentials_file='/none', config_file='/none'");
    stk_context *context = open_context(matrix_patience(&r->fault), more);
    const uint64_t start = stk__now_ns();
    if (context)
        status = stk_store_open(context, "s3://bucket/d/", &store, NULL, 0, &err);
    if (status == STK_OK)
        status = operate(t, store, READ, &err);
    const uint64_t took = stk__now_ns() - start;
    stk_store_close(&store);
    stk_context_destroy(&context);
    const uint64_t struck = http_server_struck(keys, fault);
    if (status != r->ends || (status != STK_OK && !strchr(err.text, ' ')) ||
        strstr(err.text, CANARY) || struck > (r->most ? r->most : TRIES) ||
        took > DEADLINE_NS + DEADLINE_NS / 10)
        snprintf(wrong, MATRIX_TEXT, "'%s': %s instead of %s, %d struck, %.1f s: %.500s", r->name,
                 stk_status_name(status), stk_status_name(r->ends), (int)struck, (double)took / 1e9,
                 err.text);
    http_server_stop(&keys);
}

static void test_sources(void **state)
{
    table *t = calloc(1, sizeof *t);

    open_table(t);
    memset(long_answer, ' ', sizeof long_answer - 1);
    http_server_put(t->server, "/bucket/d/x", t->bytes, SIZE);
    matrix_run(sizeof sources / sizeof *sources, run_source, t);
    close_table(t);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

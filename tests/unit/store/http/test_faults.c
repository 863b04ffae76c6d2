/* SPDX-License-Identifier: Apache-2.0 */
/* Operation by fault: how each ends, that its bytes are right, and how often the server was asked.
 */
#include "operations.h"

#define TRIES 3 /* retries=2 of the options below */

static int set_up(void **state)
{
    return world_open(state, NULL);
}

typedef struct row {
    const char *name;
    http_fault fault;
    stk_status ends[OPERATIONS]; /* STK_EAGAIN: not asked */
    int requests;                /* at most; 0: TRIES */
} row;

#define ALL(status)                                                                                \
    {                                                                                              \
        status, status, status, status                                                             \
    }
#define BYTES(status)                                                                              \
    {                                                                                              \
        status, status, STK_EAGAIN, STK_EAGAIN                                                     \
    }

/* What strikes once passes: of all, and where it is none of HEAD or PUT. */
#define ONCE(what, ...)                                                                            \
    {                                                                                              \
        what, {.count = 1, __VA_ARGS__}, ALL(STK_OK), 2                                            \
    }
#define BODY(what, ...)                                                                            \
    {                                                                                              \
        what, {.count = 1, __VA_ARGS__}, BYTES(STK_OK), 2                                          \
    }
/* What is for good. */
#define GOOD(what, status, most, ...)                                                              \
    {                                                                                              \
        what, {__VA_ARGS__}, ALL(status), most                                                     \
    }
#define TAIL(what, status, most, ...)                                                              \
    {                                                                                              \
        what, {__VA_ARGS__}, BYTES(status), most                                                   \
    }

#define RANGE      "Content-Range: bytes 1000-200999/300000\r\n"
#define EARLY      "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
#define TIMES_8(x) x x x x x x x x

static char long_line[(1 << 20) + 10], many_lines[200000], many_heads[200000];

static const row rows[] = {
    ONCE("500", .status = 500),
    ONCE("502", .status = 502),
    ONCE("504", .status = 504),
    ONCE("408", .status = 408),
    ONCE("425", .status = 425),
    ONCE("reset before the head", .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    ONCE("close before the head", .cut = HTTP_CLOSE, .at = HTTP_BEFORE_HEAD),
    ONCE("stall before the head", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    ONCE("reset within the head", .cut = HTTP_RESET, .at = HTTP_WITHIN_HEAD),
    ONCE("close within the head", .cut = HTTP_CLOSE, .at = HTTP_WITHIN_HEAD),
    ONCE("stall within the head", .cut = HTTP_STALL, .at = HTTP_WITHIN_HEAD),
    ONCE("heads in front of it", .before = TIMES_8(EARLY)),
    ONCE("a folded line", .header = "X-Folded: a\r\n Content-Range: bytes 0-9/10\r\n"),
    ONCE("a line without a colon", .header = "nothing\r\n"),
    BODY("503", .status = 503),
    BODY("429 with Retry-After", .status = 429, .retry_after = 1),
    BODY("reset at the first byte", .cut = HTTP_RESET, .at = 0),
    BODY("reset in the body", .cut = HTTP_RESET, .at = 70000),
    BODY("close in the body", .cut = HTTP_CLOSE, .at = 70000),
    BODY("close at the last byte", .cut = HTTP_CLOSE, .at = LENGTH - 1),
    BODY("stall in the body", .cut = HTTP_STALL, .at = 70000),
    BODY("another range", .range_off = 7),
    BODY("a range that ends later", .range = "bytes 1000-201000/300000"),
    BODY("a range of an object that is shorter", .range = "bytes 1000-200999/200000"),
    BODY("a range that ends before it begins", .range = "bytes 1000-999/300000"),
    BODY("a range whose length overflows", .range = "bytes 1000-18446744073709551615/300000"),
    BODY("no Content-Range", .range = ""),
    BODY("a wrong Content-Range", .range = "bytes of it"),
    BODY("several ranges", .range = "", .header = "Content-Type: multipart/byteranges; boundary=x"),
    BODY("two Content-Ranges", .header = "Content-Range: bytes 0-9/10\r\n"),
    BODY("Content-Length too long", .length_off = 10),
    BODY("Content-Length too short", .length_off = -10),
    BODY("Content-Length below zero", .no_length = true, .header = "Content-Length: -5\r\n"),
    BODY("Content-Length that overflows", .no_length = true,
         .header = "Content-Length: 99999999999999999999999\r\n"),
    BODY("bad chunks", .chunks = HTTP_CHUNKED_BADLY),
    BODY("endless chunks", .chunks = HTTP_CHUNKED_ENDLESS),
    BODY("no length, and cut", .no_length = true, .cut = HTTP_CLOSE, .at = 70000),
    BODY("chunks", .chunks = HTTP_CHUNKED),
    BODY("bytes behind it", .extra = 10),
    BODY("the whole object", .whole = true),
    BODY("the whole object in chunks", .whole = true, .chunks = HTTP_CHUNKED),
    BODY("no length", .no_length = true),
    BODY("a range said to be packed", .encoding = "gzip"),
    GOOD("404", STK_ENOENT, 1, .status = 404),
    GOOD("410", STK_ENOENT, 1, .status = 410),
    GOOD("401", STK_EACCES, 1, .status = 401),
    GOOD("403", STK_EACCES, 2, .status = 403),
    GOOD("407", STK_EACCES, 1, .status = 407),
    GOOD("400", STK_ENOTSUP, 2, .status = 400),
    GOOD("412", STK_ECHANGED, 1, .status = 412),
    GOOD("413", STK_ELIMIT, 1, .status = 413),
    GOOD("500 for good", STK_EIO, 0, .status = 500),
    GOOD("503 for good", STK_EIO, 0, .status = 503),
    GOOD("507", STK_ENOSPC, 1, .status = 507),
    GOOD("a code that is none", STK_ENOTSUP, 2, .status = 999),
    GOOD("reset for good", STK_EIO, 0, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    GOOD("stall for good", STK_ETIMEDOUT, 0, .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    GOOD("a head of 64 MiB", STK_ELIMIT, 1, .endless_head = true),
    GOOD("a line of 1 MiB", STK_ELIMIT, 1, .header = long_line),
    GOOD("a head of 200 KB", STK_ELIMIT, 1, .header = many_lines),
    GOOD("heads without end", STK_ELIMIT, 1, .before = many_heads),
    {"416", {.status = 416}, {STK_ETRUNCATED, STK_EAGAIN, STK_ETRUNCATED, STK_ETRUNCATED}, 2},
    {"416 of an object that goes on",
     {.status = 416, .header = "Content-Range: bytes */300000\r\n"},
     BYTES(STK_ETRUNCATED),
     2},
    {"another status than OK", {.status = 204, .body = ""}, BYTES(STK_EIO), 0},
    {"304", {.status = 304}, BYTES(STK_ENOTSUP), 1},
    TAIL("stall of a body for good", STK_ETIMEDOUT, 0, .cut = HTTP_STALL, .at = 10),
    TAIL("other ranges for good", STK_EIO, 0, .range_off = 1),
    TAIL("too few bytes for good", STK_EIO, 0, .length_off = 10, .cut = HTTP_CLOSE, .at = 100),
    TAIL("cut, then another object", STK_ECHANGED, 0, .etag_changes = true, .cut = HTTP_CLOSE,
         .at = 70000),
    TAIL("packed without being asked", STK_ENOTSUP, 1, .whole = true, .encoding = "gzip"),
    TAIL("a body of one byte at a time", STK_ETIMEDOUT, 0, .bandwidth = 1000),
    BODY("the whole, of no length, and cut", .whole = true, .no_length = true, .cut = HTTP_CLOSE,
         .at = 70000),
    {"the whole, and no length",
     {.whole = true, .no_length = true},
     {STK_OK, STK_OK, STK_EAGAIN, STK_EAGAIN},
     1},
    {"the whole, cut and of no length, for good",
     {.whole = true, .no_length = true, .cut = HTTP_CLOSE, .at = 70000},
     BYTES(STK_EIO),
     4},
    {"parts of it", {.part = 100000}, BYTES(STK_OK), 4},
    {"tiny parts of it", {.part = 3}, BYTES(STK_EIO), 0},
    {"no ETag, and cut, for good", {.etag = "", .cut = HTTP_CLOSE, .at = 70000}, BYTES(STK_OK), 3},
    {"weak ETags, and cut, for good",
     {.etag = "W/\"x\"", .cut = HTTP_CLOSE, .at = 70000},
     BYTES(STK_OK),
     3},
    {"a redirect without end",
     {.location = "?again"},
     {STK_ELIMIT, STK_ELIMIT, STK_ELIMIT, STK_ENOTSUP},
     11},
    {"a redirect to another protocol",
     {.location = "ftp://127.0.0.1/x"},
     {STK_EACCES, STK_EACCES, STK_EACCES, STK_ENOTSUP},
     1},
    {"a redirect to no address",
     {.location = "http://[::zz]/x"},
     {STK_EIO, STK_EIO, STK_EIO, STK_ENOTSUP},
     1},
    {"a redirect with a password",
     {.location = "http://user:word@127.0.0.1/x"},
     {STK_EIO, STK_EIO, STK_EIO, STK_ENOTSUP},
     1},
};

typedef struct cell {
    const row *row;
    int operation;
    atomic_int requests; /* that the server saw */
} cell;

typedef struct table {
    fixture *f;
    cell cells[sizeof rows / sizeof *rows * OPERATIONS];
    size_t count;
} table;

static void run_cell(void *user, size_t at, char wrong[MATRIX_TEXT])
{
    table *t = user;
    const fixture *f = t->f;
    cell *c = &t->cells[at];
    http_fault fault = c->row->fault;
    const stk_status wanted = c->row->ends[c->operation];
    char url[300], path[64];
    stk_error err;

    snprintf(path, sizeof path, "/d/cell-%d", (int)at);
    snprintf(url, sizeof url, "%s/d/?first_byte_timeout=%s&stall_timeout=%s&retries=%d",
             http_server_url(f->server), matrix_patience(&fault), matrix_patience(&fault),
             TRIES - 1);
    fault.path = path;
    http_server_put(f->server, path, f->bytes, SIZE);
    http_server_fault(f->server, &fault);
    const uint64_t start = stk__now_ns();
    const stk_status status = operate_at(f, url, c->operation, path + 3, &err);
    const uint64_t took = stk__now_ns() - start;
    /* A read that ends too early is looked at again, for its name. */
    const int most = (c->row->requests ? c->row->requests : TRIES) + 2 * (wanted == STK_ETRUNCATED);
    const int requests = atomic_load(&c->requests);
    const bool kept = is_kept(f, f->server, path, false) || is_kept(f, f->server, path, true);
    if (status != wanted || (status != STK_OK && !strchr(err.text, ' ')) || !kept ||
        (c->operation == PUT && status == STK_OK && !is_kept(f, f->server, path, true)) ||
        requests < 1 || requests > most || took > DEADLINE_NS + DEADLINE_NS / 10)
        snprintf(wrong, MATRIX_TEXT,
                 "%s of '%s': %s instead of %s, %d requests of %d, %.1f s: %.400s",
                 operations[c->operation], c->row->name, stk_status_name(status),
                 stk_status_name(wanted), requests, most, (double)took / 1e9, err.text);
    http_server_remove(f->server, path);
}

static void count_request(void *user, const http_request *request, http_fault *fault)
{
    table *t = ((fixture *)user)->more;
    const char *digits = strstr(request->path, "cell-");

    (void)fault;
    if (t && digits)
        atomic_fetch_add(&t->cells[strtoul(digits + 5, NULL, 10)].requests, 1);
}

static int set_up_counted(void **state)
{
    memset(long_line, 'x', sizeof long_line - 1);
    memcpy(long_line, "X: ", 3);
    memcpy(long_line + sizeof long_line - 3, "\r\n", 3);
    for (size_t i = 0; i + 40 < sizeof many_lines; i += 20)
        memcpy(many_lines + i, "X-More: and so on.\r\n", 21);
    for (size_t i = 0; i + 2 * sizeof EARLY < sizeof many_heads; i += sizeof EARLY - 1)
        memcpy(many_heads + i, EARLY, sizeof EARLY);
    return world_open(state, count_request);
}

static void test_matrix(void **state)
{
    fixture *f = *state;
    table *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->f = f;
    f->more = t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int o = 0; o < OPERATIONS; o++)
            if (rows[i].ends[o] != STK_EAGAIN) {
                t->cells[t->count].row = &rows[i];
                t->cells[t->count++].operation = o;
            }
    assert_true(t->count >= 150);
    matrix_run(t->count, run_cell, t);
    f->more = NULL;
    free(t);
}

/* ETags that do not hold byte for byte cannot be asked for, but say enough. */
static void test_cut_between_versions(void **state)
{
    fixture *f = *state;
    stk_error err;

    for (int changed = 0; changed < 2; changed++) {
        stk_store *store = open_store(f, "/d/?retries=2");
        http_server_fault(
            f->server,
            &(http_fault){.count = 1, .etag = "W/\"1\"", .cut = HTTP_CLOSE, .at = 70000});
        http_server_fault(f->server, &(http_fault){.etag = changed ? "W/\"2\"" : "W/\"1\""});
        http_server_reset_counters(f->server);
        const stk_status status = stk_store_read(store, "x", OFFSET, LENGTH, f->got, &err);
        if (changed) {
            assert_fails(status, STK_ECHANGED, &err, "has changed");
        } else {
            assert_ok(status, &err);
            assert_memory_equal(f->got, f->bytes + OFFSET, LENGTH);
            /* What was there already is not sent again. */
            assert_in_range(http_server_counters(f->server).bytes_sent, LENGTH, LENGTH + 1000);
        }
        http_server_mend(f->server);
        stk_store_close(&store);
    }
}

/* Bytes behind an answer are no answer to the next request of their connection. */
static void test_bytes_behind_an_answer(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/d/?connections=1&retries=20");
    stk_error err;

    http_server_fault(f->server, &(http_fault){.extra = 1000});
    for (int i = 0; i < 20; i++) {
        memset(f->got, 0, sizeof f->got);
        assert_ok(stk_store_read(store, "x", OFFSET, LENGTH, f->got, &err), &err);
        assert_memory_equal(f->got, f->bytes + OFFSET, LENGTH);
    }
    http_server_mend(f->server);
    stk_store_close(&store);
}

static void test_refused_connections(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = open_store(f, "/d/?retries=2");
    stk_error err;

    assert_true(http_server_listen(f->server, false));
    assert_fails(stk_store_stat(store, "x", NULL, &info, &err), STK_EIO, &err, "after 3 requests");
    assert_fails(stk_store_read(store, "x", 0, 10, f->got, &err), STK_EIO, &err, "x");
    assert_true(http_server_listen(f->server, true));
    stk_store_close(&store);
}

static void test_unknown_host(void **state)
{
    fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    stk_error err;

    assert_ok(
        stk_store_open(f->context, "http://nowhere.invalid/d/?retries=1", &store, NULL, 0, &err),
        &err);
    assert_fails(stk_store_stat(store, "x", NULL, &info, &err), STK_EIO, &err, "resolve");
    stk_store_close(&store);
}

/* Many requests fail for good: the server is asked little more often than was wanted. */
#define READS 600
static void count_end(stk_read *read, stk_status status)
{
    atomic_int *ended = read->user;

    read->system_error = status;
    atomic_fetch_add(ended, 1);
}

static void test_outage(void **state)
{
    fixture *f = *state;
    stk_read *reads = calloc(READS, sizeof *reads);
    stk_store *store = open_store(f, "/d/?retries=2");
    atomic_int ended = 0;

    http_server_fault(f->server, &(http_fault){.status = 500});
    http_server_reset_counters(f->server);
    for (int i = 0; i < READS; i++) {
        reads[i] = (stk_read){.struct_size = sizeof *reads,
                              .key = "x",
                              .length = 1,
                              .data = f->got + i,
                              .done = count_end,
                              .user = &ended};
        assert_int_equal(store->ops->submit(store, &reads[i]), STK_OK);
    }
    while (atomic_load(&ended) < READS)
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
    for (int i = 0; i < READS; i++)
        assert_int_equal(reads[i].system_error, STK_EIO);
    assert_in_range(http_server_counters(f->server).requests, READS, READS * 12 / 10);
    http_server_mend(f->server);
    stk_store_close(&store);
    free(reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matrix, set_up_counted, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_between_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_behind_an_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_connections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_host, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outage, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

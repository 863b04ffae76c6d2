/* SPDX-License-Identifier: Apache-2.0 */
/* Zarr over a web server that fails: an error never becomes a fill value, nor bytes that are not
 * the array's. Formats by faults, of the metadata and of the chunks. */
#include "support/http_server.h"
#include "support/matrix.h"

#define ELEMENTS 4096
#define CHUNK    1024
#define FILL     7 /* in no element */
#define TRIES    3 /* retries=2 of the options below */
#define SECOND   UINT64_C(1000000000)

typedef struct format {
    const char *name;
    int32_t version;
    bool sharded, checksum;
    const char *codec, *chunks, *metadata; /* patterns of objects */
} format;

static const format formats[] = {
    {"v2", 2, false, false, "none", "*/[0-9]*", "*/.zarray"},
    {"v3", 3, false, true, "zstd", "*/c/*", "*/zarr.json"},
    {"shards", 3, true, true, "none", "*/c/*", "*/zarr.json"},
};

typedef struct row {
    const char *name;
    http_fault fault;
    bool mends;   /* what strikes once passes */
    bool checked; /* by formats with a checksum alone */
} row;

#define ONCE(what, ...)                                                                            \
    {                                                                                              \
        what, {.count = 1, __VA_ARGS__}, true, false                                               \
    }
#define GOOD(what, ...)                                                                            \
    {                                                                                              \
        what, {__VA_ARGS__}, false, false                                                          \
    }

static const row rows[] = {
    ONCE("408 once", .status = 408),
    ONCE("429 once", .status = 429),
    ONCE("500 once", .status = 500),
    ONCE("503 once", .status = 503),
    ONCE("reset once", .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    ONCE("cut once", .cut = HTTP_CLOSE, .at = 30),
    ONCE("stalled once", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    GOOD("400", .status = 400),
    GOOD("401", .status = 401),
    GOOD("403", .status = 403),
    GOOD("405", .status = 405),
    GOOD("408", .status = 408),
    GOOD("416", .status = 416),
    GOOD("429", .status = 429),
    GOOD("500", .status = 500),
    GOOD("502", .status = 502),
    GOOD("503", .status = 503),
    GOOD("504", .status = 504),
    GOOD("a redirect away", .location = "ftp://127.0.0.1/x"),
    GOOD("resets", .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD),
    GOOD("resets within", .cut = HTTP_RESET, .at = 3),
    GOOD("ends within", .cut = HTTP_CLOSE, .at = 3),
    GOOD("stalls", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD),
    GOOD("stalls within", .cut = HTTP_STALL, .at = 3),
    GOOD("empty answers", .status = 200, .body = ""),
    GOOD("pages of HTML", .status = 200, .body = "<html>Log in, please</html>"),
    {"a bit that is another", {.flip = 5}, false, true},
    {"a bit that is another, once", {.flip = 5, .count = 1}, true, true},
};

#define ROWS    (sizeof rows / sizeof *rows)
#define FORMATS (sizeof formats / sizeof *formats)

typedef struct world {
    char folder[256];
    unsigned char values[ELEMENTS];
} world;

static void write_array(world *w, stk_context *ctx, const format *f)
{
    static const int64_t start[1] = {0}, shape[1] = {ELEMENTS}, chunk[1] = {CHUNK},
                         shard[1] = {2 * CHUNK};
    static const unsigned char fill = FILL;
    stk_array_writer_options o;
    stk_array_writer *writer = NULL;
    char url[300];
    stk_error err;

    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT8;
    o.rank = 1;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.shard_shape = f->sharded ? shard : NULL;
    o.codec = f->codec;
    o.checksum = f->checksum;
    o.fill_value = &fill;
    o.zarr_format = f->version;
    snprintf(url, sizeof url, "%s/%s", w->folder, f->name);
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, shape, w->values, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static stk_context *open_context(const char *patience)
{
    char stores[100];
    stk_context_options options;
    stk_context *context;
    stk_error err;

    stk_context_options_init(&options);
    snprintf(stores, sizeof stores, "http(first_byte_timeout=%s, stall_timeout=%s, retries=2)",
             patience, patience);
    options.stores = stores;
    return stk_context_create(&options, &context, &err) == STK_OK ? context : NULL;
}

/* What comes of it; `right`: every byte that was given is the array's. */
static stk_status read_all(const world *w, const char *url, const char *patience, bool *right,
                           stk_error *err)
{
    unsigned char got[ELEMENTS];
    stk_context *context = open_context(patience);
    stk_array *array = NULL;

    memset(got, 0, sizeof got);
    stk_error_init(err);
    stk_status status = context ? stk_array_open(context, url, NULL, &array, err) : STK_EINTERNAL;
    if (status == STK_OK)
        status = stk_array_read(array, NULL, got, sizeof got, NULL, -1, err);
    *right = status != STK_OK || memcmp(got, w->values, sizeof got) == 0;
    stk_array_close(&array);
    stk_context_destroy(&context);
    return status;
}

static void run_cell(void *user, size_t at, char wrong[MATRIX_TEXT])
{
    const world *w = user;
    const row *r = &rows[at / 2 / FORMATS];
    const format *f = &formats[at / 2 % FORMATS];
    const bool metadata = at % 2;
    http_server *server = http_server_start(&(http_server_options){.seed = 1, .root = w->folder});
    http_fault fault = r->fault;
    char url[300];
    stk_error err;
    bool right;

    fault.path = metadata ? f->metadata : f->chunks;
    if (!r->checked || (f->checksum && !metadata))
        http_server_fault(server, &fault);
    snprintf(url, sizeof url, "%s/%s", http_server_url(server), f->name);
    const uint64_t start = stk__now_ns();
    const stk_status status = read_all(w, url, matrix_patience(&fault), &right, &err);
    const uint64_t took = stk__now_ns() - start;
    const bool mends = r->mends || (r->checked && (metadata || !f->checksum));
    if (!right || (status == STK_OK) != mends || took > 30 * SECOND)
        snprintf(wrong, MATRIX_TEXT, "%s of %s, '%s': %s, %s bytes, %.1f s: %.500s",
                 metadata ? "metadata" : "chunks", f->name, r->name, stk_status_name(status),
                 right ? "right" : "wrong", (double)took / 1e9, status == STK_OK ? "" : err.text);
    http_server_stop(&server);
}

/* What is not there is fill values where that was asked for, and only then. */
static void check_missing(const world *w, const format *f)
{
    http_server *server = http_server_start(&(http_server_options){.seed = 1, .root = w->folder});
    stk_context *context = open_context("20");
    unsigned char got[ELEMENTS];
    stk_array *array = NULL;
    char url[300];
    stk_error err;

    assert_true(http_server_fault(server, &(http_fault){.path = f->chunks, .status = 404}) > 0);
    snprintf(url, sizeof url, "%s/%s", http_server_url(server), f->name);
    assert_ok(stk_array_open(context, url, NULL, &array, &err), &err);
    assert_ok(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), &err);
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], FILL);
    stk_array_close(&array);
    snprintf(url, sizeof url, "%s/%s?missing=error", http_server_url(server), f->name);
    assert_ok(stk_array_open(context, url, NULL, &array, &err), &err);
    assert_int_equal(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), STK_ENOENT);
    stk_array_close(&array);
    stk_context_destroy(&context);
    http_server_stop(&server);
}

static void test_errors_are_no_fill_values(void **state)
{
    stk_context *context = test_context();
    world *w = calloc(1, sizeof *w);
    uint64_t seed = 3;

    test_folder(w->folder);
    for (size_t i = 0; i < ELEMENTS; i++) {
        w->values[i] = (unsigned char)test_random(&seed);
        w->values[i] += w->values[i] == FILL;
    }
    for (size_t i = 0; i < FORMATS; i++)
        write_array(w, context, &formats[i]);
    matrix_run(ROWS * FORMATS * 2, run_cell, w);
    for (size_t i = 0; i < FORMATS; i++)
        check_missing(w, &formats[i]);
    test_folder_remove(w->folder);
    free(w);
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_no_fill_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

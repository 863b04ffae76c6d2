/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays whose elements vary in length: as they are written, converted and refused. */
#include <string.h>

#include "arrays.h"

#define COUNT 5

static const char *const words[COUNT] = {"Zürich", "", "東京", "", ""};

static void fill_options(stk_array_writer_options *o, const char *type, int version,
                         const int64_t *shape, const int64_t *chunk)
{
    static const char *const names[] = {"station"};

    stk_array_writer_options_init(o);
    o->dtype = STK_DTYPE_NONE;
    o->type_name = type;
    o->codec = "none";
    o->rank = 1;
    o->shape = shape;
    o->chunk_shape = chunk;
    o->dimension_names = names;
    o->zarr_format = version;
}

static void write_words(stk_context *ctx, const char *url, const stk_array_writer_options *o,
                        const char *const *list)
{
    const int64_t start = 0;
    stk_array_string elements[COUNT];
    stk_array_writer *writer;
    stk_error err;

    for (int i = 0; i < COUNT; i++)
        elements[i] = (stk_array_string){list[i], strlen(list[i])};
    assert_ok(stk_array_writer_create(ctx, url, o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, &start, o->shape, elements, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

/* All elements of an array, held against a list; its type and chunks. */
static void check_words(stk_context *ctx, const char *url, const char *type, int64_t chunk)
{
    stk_array_texts *texts;
    stk_array *array;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    assert_string_equal(stk_array_get_info(array)->type_name, type);
    assert_int_equal(stk_array_get_info(array)->chunk_shape[0], chunk);
    assert_string_equal(stk_array_get_info(array)->dimension_names[0], "station");
    assert_ok(stk_array_read_texts(array, NULL, -1, &texts, &err), &err);
    assert_int_equal(texts->count, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(texts->offsets[i + 1] - texts->offsets[i], strlen(words[i]));
        assert_memory_equal(texts->values + texts->offsets[i], words[i], strlen(words[i]));
    }
    stk_array_texts_destroy(&texts);
    stk_array_close(&array);
}

/* An object of the store "mem://t"; -1: it is not there. */
static int64_t object(stk_context *ctx, const char *key, char *out, size_t size)
{
    stk_store *store;
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;
    int64_t length = -1;

    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    if (stk_store_stat(store, key, NULL, &info, &err) == STK_OK) {
        assert_true(info.size < size);
        length = (int64_t)info.size;
        assert_ok(stk_store_read(store, key, 0, info.size, out, &err), &err);
        out[length] = 0;
    }
    stk_store_close(&store);
    return length;
}

/* Bytes as numcodecs has them; a chunk at the end is made whole by the fill value, one of nothing
 * else is absent. */
static void test_written(void **state)
{
    static const char first[] = "\2\0\0\0\7\0\0\0Z\xc3\xbcrich\0\0\0\0";
    static const char second[] = "\2\0\0\0\6\0\0\0\xe6\x9d\xb1\xe4\xba\xac\0\0\0\0";
    static const char edge[] = "\2\0\0\0\0\0\0\0\2\0\0\0xy";
    const int64_t shape = COUNT, chunk = 2;
    const stk_array_string fill = {"xy", 2};
    stk_context *ctx = test_context();
    stk_array_writer_options o;
    char bytes[2000];

    (void)state;
    fill_options(&o, "string", 3, &shape, &chunk);
    write_words(ctx, "mem://t/v3", &o, words);
    assert_int_equal(object(ctx, "v3/c/0", bytes, sizeof bytes), sizeof first - 1);
    assert_memory_equal(bytes, first, sizeof first - 1);
    assert_int_equal(object(ctx, "v3/c/1", bytes, sizeof bytes), sizeof second - 1);
    assert_memory_equal(bytes, second, sizeof second - 1);
    assert_int_equal(object(ctx, "v3/c/2", bytes, sizeof bytes), -1);
    assert_true(object(ctx, "v3/zarr.json", bytes, sizeof bytes) > 0);
    assert_non_null(strstr(bytes, "\"data_type\": \"string\""));
    assert_non_null(strstr(bytes, "\"vlen-utf8\""));
    assert_non_null(strstr(bytes, "\"fill_value\": \"\""));
    check_words(ctx, "mem://t/v3", "string", 2);
    fill_options(&o, "bytes", 2, &shape, &chunk);
    o.fill_value = &fill;
    write_words(ctx, "mem://t/v2", &o, words);
    assert_int_equal(object(ctx, "v2/2", bytes, sizeof bytes), sizeof edge - 1);
    assert_memory_equal(bytes, edge, sizeof edge - 1);
    assert_true(object(ctx, "v2/.zarray", bytes, sizeof bytes) > 0);
    assert_non_null(strstr(bytes, "\"dtype\": \"|O\""));
    assert_non_null(strstr(bytes, "\"vlen-bytes\""));
    assert_non_null(strstr(bytes, "\"fill_value\": \"eHk=\""));
    check_words(ctx, "mem://t/v2", "bytes", 2);
    stk_context_destroy(&ctx);
}

/* A group of version 3, with bytes whose fill value is not empty. */
static void make_group(stk_context *ctx, const char *name)
{
    const int64_t shape = COUNT, chunk = 2;
    const stk_array_string fill = {"xy", 2};
    stk_array_writer_options o;
    char url[100];
    stk_error err;

    snprintf(url, sizeof url, "%s/station", name);
    fill_options(&o, "string", 3, &shape, &chunk);
    write_words(ctx, url, &o, words);
    snprintf(url, sizeof url, "%s/raw", name);
    fill_options(&o, "bytes", 3, &shape, &shape);
    o.fill_value = &fill;
    write_words(ctx, url, &o, words);
    snprintf(url, sizeof url, "%s/t", name);
    fill_options(&o, "int32", 3, &shape, &chunk);
    o.dtype = STK_INT32;
    arrays_make(ctx, url, &o, 1);
    assert_ok(stk_group_consolidate(ctx, name, NULL, &err), &err);
}

/* Either version becomes either: the chunks stay, whatever options say. */
static void test_converted(void **state)
{
    static const struct {
        const char *from, *to;
        int version;
    } cases[] = {
        {"mem://t/from.zarr", "mem://t/a.zarr", 3},
        {"mem://t/from.zarr", "mem://t/b.zarr", 2},
        {"mem://t/b.zarr", "mem://t/c.zarr", 3},
        {"mem://t/b.zarr", "mem://t/d.zarr", 2},
    };
    stk_context *ctx = test_context();
    char url[100], bytes[2000];
    arrays_run run;
    stk_error err;

    (void)state;
    make_group(ctx, "mem://t/from.zarr");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arrays_run_init(&run);
        run.own.zarr_format = cases[i].version - 1; /* of the option: auto, 2, 3 */
        run.own.chunks = "station:1";
        run.own.shards = cases[i].version == 3 ? "station:4" : NULL;
        run.own.astype = "float32";
        run.options.num_workers = 2;
        assert_ok(arrays_convert(&run, ctx, cases[i].from, cases[i].to, &err), &err);
        assert_int_equal(run.report.arrays, 3);
        snprintf(url, sizeof url, "%s/station", cases[i].to);
        check_words(ctx, url, "string", 2);
        snprintf(url, sizeof url, "%s/raw", cases[i].to);
        check_words(ctx, url, "bytes", COUNT);
        snprintf(url, sizeof url, "%s/t", cases[i].to);
        arrays_check(ctx, url, 1);
    }
    assert_true(object(ctx, "a.zarr/raw/zarr.json", bytes, sizeof bytes) > 0);
    assert_non_null(strstr(bytes, "\"data_type\": \"variable_length_bytes\""));
    assert_non_null(strstr(bytes, "\"fill_value\": \"eHk=\""));
    assert_null(strstr(bytes, "sharding"));
    assert_true(object(ctx, "b.zarr/station/.zarray", bytes, sizeof bytes) > 0);
    assert_non_null(strstr(bytes, "\"dtype\": \"|O\""));
    assert_non_null(strstr(bytes, "\"fill_value\": null"));
    stk_context_destroy(&ctx);
}

/* A group of an array whose chunk of COUNT elements has a text of `length` bytes. */
static void make_long(stk_context *ctx, const char *name, size_t length)
{
    const int64_t shape = COUNT;
    char *text = malloc(length + 1), url[400];
    const char *const list[COUNT] = {text, "", "", "", ""};
    stk_array_writer_options o;
    stk_error err;

    assert_non_null(text);
    memset(text, 'x', length);
    text[length] = 0;
    fill_options(&o, "string", 3, &shape, &shape);
    snprintf(url, sizeof url, "%s/a", name);
    write_words(ctx, url, &o, list);
    assert_ok(stk_group_consolidate(ctx, name, NULL, &err), &err);
    free(text);
}

/* Chunks that do not fit the memory, by what they hold or by how many elements. */
static void test_memory(void **state)
{
    const int64_t shape = COUNT, many = 100000;
    stk_context *ctx = test_context();
    char folder[256], from[300], to[300];
    stk_array_writer_options o;
    arrays_run run;
    stk_error err;

    (void)state;
    test_folder(folder);
    snprintf(from, sizeof from, "%s/from.zarr", folder);
    snprintf(to, sizeof to, "%s/to.zarr", folder);
    make_long(ctx, from, 780000);
    arrays_run_init(&run);
    assert_ok(arrays_convert(&run, NULL, from, to, &err), &err);
    assert_true(run.memory.peak <= (int64_t)run.options.memory_budget);
    assert_int_equal(run.memory.held, 0);
    make_long(ctx, "mem://t/long", 900000);
    arrays_run_init(&run);
    assert_fails(arrays_convert(&run, ctx, "mem://t/long", "mem://t/long.zarr", &err), STK_EBUDGET,
                 &err, "a chunk of 'a'");
    fill_options(&o, "string", 3, &shape, &many);
    write_words(ctx, "mem://t/many/a", &o, words);
    assert_ok(stk_group_consolidate(ctx, "mem://t/many", NULL, &err), &err);
    run.options.dry_run = true;
    assert_fails(arrays_convert(&run, ctx, "mem://t/many", "mem://t/many.zarr", &err), STK_EBUDGET,
                 &err, "a chunk of 'a'");
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

static void test_no_utf8(void **state)
{
    const int64_t shape = 1, start = 0;
    const stk_array_string bad = {"\xff", 1};
    stk_context *ctx = test_context();
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_error err;

    (void)state;
    fill_options(&o, "string", 3, &shape, &shape);
    assert_ok(stk_array_writer_create(ctx, "mem://t/bad", &o, &writer, &err), &err);
    assert_fails(stk_array_writer_write(writer, &start, &shape, &bad, &err), STK_EINVAL, &err,
                 "no UTF-8");
    stk_array_writer_abandon(&writer);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_converted),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

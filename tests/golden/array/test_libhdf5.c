/* SPDX-License-Identifier: Apache-2.0 */
/* What h5py has written (libhdf5/make.py), through stoker-hdf5: values of every kind, and what is
 * refused by name. */
#include "support/support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "array/libhdf5/libhdf5.h"

#define FILE_ TESTS_DIR "/golden/array/libhdf5/kinds.h5"
#define MOST  65536
#define ROOM  4096

static stk_array *open_of(stk_context *ctx, const char *path)
{
    char url[600];
    stk_array *array = NULL;
    stk_error err;

    snprintf(url, sizeof url, "%s/%s?format=libhdf5", FILE_, path);
    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    return array;
}

/* Hold the elements of an array against bytes. */
static void expect(stk_context *ctx, const char *path, const char *type, const void *values,
                   size_t bytes)
{
    stk_array *array = open_of(ctx, path);
    unsigned char got[ROOM];
    stk_error err;

    assert_string_equal(stk_array_get_info(array)->type_name, type);
    assert_int_equal(stk_array_get_info(array)->bytes, bytes);
    assert_ok(stk_array_read(array, NULL, got, bytes, NULL, -1, &err), &err);
    assert_memory_equal(got, values, bytes);
    stk_array_close(&array);
}

#define EXPECT(path, name, ctype, ...)                                                             \
    do {                                                                                           \
        const ctype wanted[] = {__VA_ARGS__};                                                      \
        expect(ctx, path, name, wanted, sizeof wanted);                                            \
    } while (0)

static void test_numbers(void **state)
{
    stk_context *ctx = *state;
    int64_t all[70];

    EXPECT("complex", "complex64", float, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0);
    EXPECT("half", "float16", uint16_t, 0, 0x3c00, 0x4000, 0x4200, 0x4400);
    EXPECT("bool", "int8", int8_t, 1, 0, 1);
    EXPECT("big", "int32", int32_t, 0, 1, 2, 3);
    EXPECT("scalar", "float32", float, 4.5);
    EXPECT("long", "float64", double, 0, 1, 2);
    EXPECT("enum", "int16", int16_t, 2, 5);
    EXPECT("odd", "int32", int32_t, -3, 0, 7);
    EXPECT("bits", "uint16", uint16_t, 1, 2, 65535);
    EXPECT("absent", "float64", double, 7.5, 7.5, 7.5, 7.5, 7.5);
    EXPECT("soft", "uint8", uint8_t, 0, 1, 2);
    EXPECT("group/round/big", "int32", int32_t, 0, 1, 2, 3);
    for (int i = 0; i < 70; i++)
        all[i] = i;
    expect(ctx, "chunked", "int64", all, sizeof all);
}

static void test_texts_and_records(void **state)
{
    stk_context *ctx = *state;
    const uint32_t texts[4][4] = {{'a'}, {'b', 0xe9}, {0}, {0x1f600, 'x', 'y', 'z'}};
    const unsigned char record[24] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4,    0x40,
                                      2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0c, 0x40};

    expect(ctx, "text", "U4", texts, sizeof texts);
    expect(ctx, "ascii", "S2", "abc", 4);
    expect(ctx, "fixed", "S3", "a\0\0bcd", 6);
    expect(ctx, "opaque", "V2", "abcd", 4);
    expect(ctx, "record", "V12", record, sizeof record);
}

static void test_what_an_array_is(void **state)
{
    stk_context *ctx = *state;
    stk_array *array = open_of(ctx, "chunked");
    const stk_array_info *info = stk_array_get_info(array);
    const int64_t minus = -1;

    assert_int_equal(info->shape[0], 7);
    assert_int_equal(info->chunk_shape[0], 3);
    assert_int_equal(info->chunk_shape[1], 4);
    assert_memory_equal(info->fill_value, &minus, sizeof minus);
    stk_array_close(&array);
    array = open_of(ctx, "big");
    assert_string_equal(stk_array_get_info(array)->attributes, "{\"nan\": [NaN, Infinity, 1.0]}");
    stk_array_close(&array);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *path;
        stk_status status;
        const char *why;
    } refused[] = {
        {"lists", STK_EKIND, "lists of any length"},
        {"arrays", STK_EKIND, "arrays as elements"},
        {"references", STK_EKIND, "references"},
        {"null", STK_EKIND, "its dataspace is null"},
        {"plugin", STK_ENOTSUP, "the filter 32000 (lzf), which is a plug-in"},
        {"outside", STK_EACCES, "lie in other files"},
        {"virtual", STK_EACCES, "a virtual dataset"},
        {"link", STK_EACCES, "a link to another file"},
        {"link/x", STK_EACCES, "a link to another file"},
        {"through", STK_EFORMAT, "could not open"},
        {"named type", STK_EKIND, "neither a group nor a dataset"},
        {"nothing", STK_ENOENT, "there is no 'nothing'"},
        {"group", STK_EMISMATCH, "is a group and no array"},
    };
    stk_array *array = NULL;
    char url[600];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        snprintf(url, sizeof url, "%s/%s?format=libhdf5", FILE_, refused[i].path);
        assert_fails(stk_array_open(*state, url, NULL, &array, &err), refused[i].status, &err,
                     refused[i].why);
        assert_null(array);
    }
}

/* A node for each line, parents first, none twice. */
static stk_status add(void *user, const char *path, bool is_array, stk_error *err)
{
    char *all = user;

    (void)err;
    snprintf(all + strlen(all), ROOM - strlen(all), "%s%s\n", path, is_array ? "" : "/");
    return STK_OK;
}

static void test_list(void **state)
{
    stk_context *ctx = *state;
    char all[ROOM] = "", key[512];
    stk__libhdf5_object root;
    stk_store *store = NULL;
    stk__libhdf5 *child = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, FILE_, &store, key, sizeof key, &err), &err);
    assert_ok(stk__libhdf5_start(ctx, NULL, -1, &child, &err), &err);
    assert_ok(stk__libhdf5_open(child, store, key, NULL, &err), &err);
    assert_ok(stk__libhdf5_list(child, NULL, add, all, &err), &err);
    assert_string_equal(all,
                        "absent\narrays\nascii\nbig\nbits\nbool\nchunked\ncomplex\nenum\nfixed\n"
                        "group/\ngroup/inner\nhalf\nlists\nlong\nnull\nodd\nopaque\noutside\n"
                        "plugin\nrecord\nreferences\nscalar\ntext\nvirtual\n");
    assert_ok(stk__libhdf5_describe(child, "", NULL, &root, &err), &err);
    assert_false(root.is_array);
    assert_string_equal(root.attributes, "{\"half\": 0.5, \"list\": [1, 2], \"text\": "
                                         "\"h\xc3\xa4llo\", \"texts\": [\"a\", \"b\"]}");
    stk__libhdf5_object_release(&root);
    stk__libhdf5_stop(&child);
    stk_store_close(&store);
}

/* As a group: of the whole file, and of one in it. */
static void test_groups(void **state)
{
    static const char *const wanted[] = {"inner", "group/inner"};
    char url[600], text[64];
    stk_group *group = NULL;
    stk_array *array = NULL;
    unsigned char got[3];
    stk_error err;

    for (int whole = 0; whole < 2; whole++) {
        snprintf(url, sizeof url, "%s%s?format=libhdf5", FILE_, whole ? "" : "/group");
        assert_ok(stk_group_open(*state, url, &group, &err), &err);
        assert_ok(stk_group_array(group, wanted[whole], NULL, &array, &err), &err);
        assert_ok(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), &err);
        assert_memory_equal(got, "\0\1\2", 3);
        stk_array_close(&array);
        snprintf(text, sizeof text, "%.20s", stk_group_attributes(group));
        assert_string_equal(text, whole ? "{\"half\": 0.5, \"list\"" : "{}");
        assert_int_equal(stk_group_node(group, 1) != NULL, whole);
        stk_group_close(&group);
    }
    snprintf(url, sizeof url, "%s/big?format=libhdf5", FILE_);
    assert_fails(stk_group_open(*state, url, &group, &err), STK_EMISMATCH, &err, "is an array");
    snprintf(url, sizeof url, "%s?format=npy", FILE_);
    assert_fails(stk_group_open(*state, url, &group, &err), STK_EINVAL, &err,
                 "no format that holds");
}

/* What the parser of the library does not read, it offers. */
static void test_offered(void **state)
{
    stk_array *array = NULL;
    stk_error err;

    assert_fails(stk_array_open(*state, FILE_ "/text", NULL, &array, &err), STK_EKIND, &err,
                 "format=libhdf5 may read it");
}

/* A process that is gone, as one that was asked nothing for a while, is started again. */
static void test_started_again(void **state)
{
    stk_array *array = open_of(*state, "big");
    int32_t got[4], wanted[] = {0, 1, 2, 3};
    char text[32] = "";
    stk_error err;

    FILE *file = fopen("/proc/thread-self/children", "r");
    if (!file || !fgets(text, sizeof text, file))
        skip();
    fclose(file);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
    assert_ok(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), &err);
    assert_memory_equal(got, wanted, sizeof got);
    stk_array_close(&array);
}

/* The dataset of windows does not let it into training. */
static void test_not_for_training(void **state)
{
    stk_dataset *dataset = NULL;
    stk_error err;

    assert_fails(stk_dataset_open(*state, "array:" FILE_ "/chunked?format=libhdf5", &dataset, &err),
                 STK_ENOTSUP, &err, "not for training");
}

/* All bytes of the file; how many. */
static size_t read_file(unsigned char bytes[MOST])
{
    FILE *file = fopen(FILE_, "rb");

    assert_non_null(file);
    const size_t length = fread(bytes, 1, MOST, file);
    fclose(file);
    return length;
}

/* From a store in memory: the process opens nothing by itself. */
static void test_any_store(void **state)
{
    stk_context *ctx = *state;
    static unsigned char bytes[MOST];
    int32_t got[4], wanted[] = {0, 1, 2, 3};
    stk_store *store = NULL;
    stk_array *array = NULL;
    char key[64];
    stk_error err;

    const size_t length = read_file(bytes);
    assert_ok(stk_store_open(ctx, "mem://hdf5", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "x.h5", bytes, length, NULL, &err), &err);
    assert_ok(stk_array_open(ctx, "mem://hdf5/x.h5/big?format=libhdf5", NULL, &array, &err), &err);
    assert_ok(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), &err);
    assert_memory_equal(got, wanted, sizeof got);
    /* One that was replaced is not read as if it was the same. */
    assert_ok(stk_store_put(store, "x.h5", bytes, length - 1, NULL, &err), &err);
    assert_int_not_equal(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), STK_OK);
    stk_array_close(&array);
    stk_store_close(&store);
}

/* Every cut of the file is an error, whatever libhdf5 does, and never one of this process. */
static void test_cut(void **state)
{
    stk_context *ctx = *state;
    static unsigned char bytes[MOST];
    stk_store *store = NULL;
    stk_array *array = NULL;
    char key[64];
    stk_error err;

    const size_t length = read_file(bytes);
    assert_ok(stk_store_open(ctx, "mem://cut", &store, key, sizeof key, &err), &err);
    for (size_t n = 0; n < length; n += length / 12) {
        assert_ok(stk_store_put(store, "x.h5", bytes, n, NULL, &err), &err);
        assert_int_not_equal(
            stk_array_open(ctx, "mem://cut/x.h5/chunked?format=libhdf5", NULL, &array, &err),
            STK_OK);
        assert_true(*err.text);
    }
    stk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts_and_records),
        cmocka_unit_test(test_what_an_array_is),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_not_for_training),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_offered),
        cmocka_unit_test(test_started_again),
        cmocka_unit_test(test_any_store),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

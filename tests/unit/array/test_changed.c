/* SPDX-License-Identifier: Apache-2.0 */
/* Files that change after their arrays were opened: what is noticed, what is said, and what is no
 * change. */
#include "golden/array/pack.h"
#include "support/changed.h"

static char folder[256];
static stk_context *context;

static int set_up(void **state)
{
    context = test_context();
    test_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&context);
    return 0;
}

/* What is opened, and the file whose places it remembers. */
typedef struct subject {
    const char *pack, *wanted; /* the file; pack NULL: `text` */
    const char *text;
    size_t length;
    const char *name, *opened;
} subject;

#define NPY_HEADER                                                                                 \
    "\x93NUMPY\1\0\x76\0{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }"                 \
    "                                                            \n"
#define REFERENCES                                                                                 \
    "{\"version\": 1, \"refs\": {\"a/.zarray\": {\"zarr_format\": 2, \"shape\": [4], "             \
    "\"chunks\": [2], \"dtype\": \"<i4\", \"compressor\": null, \"filters\": null, "               \
    "\"order\": \"C\", \"fill_value\": 9}, \"a/0\": [\"x.bin\", 0, 8], "                           \
    "\"a/1\": [\"x.bin\", 8, 8]}}"

static const subject subjects[] = {
    {"hdf5_chunks", "files/indexes_latest.h5", NULL, 0, "x.h5", "x.h5/chunked"},
    {"hdf5_chunks", "files/indexes_latest.h5", NULL, 0, "x.h5", "x.h5/contiguous"},
    {"hdf5_chunks", "files/indexes_earliest.h5", NULL, 0, "x.h5", "x.h5/filtered"},
    {"netcdf3", "files/alone_i2.nc", NULL, 0, "x.nc", "x.nc"},
    {NULL, NULL, NPY_HEADER "0123456789abcdef", 128 + 16, "x.npy", "x.npy"},
    {NULL, NULL, "0123456789abcdef", 16, "x.bin", "r.json/a"},
};

static char *load(const subject *s, uint64_t *size)
{
    if (s->pack)
        return pack_find(s->pack, s->wanted, size);
    char *data = malloc(s->length);
    assert_non_null(data);
    memcpy(data, s->text, s->length);
    *size = s->length;
    return data;
}

static stk_array *open_one(const char *name, const char *query)
{
    char url[600];
    stk_array *a = NULL;
    stk_error err;

    snprintf(url, sizeof url, "%s/%s?%s", folder, name, query);
    assert_ok(stk_array_open(context, url, NULL, &a, &err), &err);
    assert_non_null(a->watch);
    assert_false(a->watch->far);
    a->watch->every_ns = 0; /* every read looks */
    return a;
}

static stk_status read_all(stk_array *a, stk_error *err)
{
    const uint64_t bytes = stk_array_get_info(a)->bytes;
    void *out = malloc(bytes);

    assert_non_null(out);
    stk_error_init(err);
    const stk_status status = stk_array_read(a, NULL, out, bytes, NULL, -1, err);
    free(out);
    return status;
}

/* Replaced, or written in place: an error until it is what it was, or opened again. */
static void check_changes(const subject *s)
{
    uint64_t size = 0;
    char *data = load(s, &size);
    stk_error err;

    write_at(folder, s->name, data, size, 5);
    stk_array *a = open_one(s->opened, "");
    assert_ok(read_all(a, &err), &err);
    set_time(folder, s->name, 5); /* of the last access alone */
    assert_ok(read_all(a, &err), &err);
    replace_at(folder, s->name, data, size, 5); /* the same in all but its number */
    assert_ok(read_all(a, &err), &err);
    replace_at(folder, s->name, data, size, 6);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed since it was opened");
    assert_string_equal(err.key, s->name);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err,
                 "of 2001-09-09T01:46:40.000000005Z and has");
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "of 2001-09-09T01:46:40.000000006Z; open");
    set_time(folder, s->name, 5);
    assert_ok(read_all(a, &err), &err);
    write_byte(folder, s->name, (long)size - 1, (unsigned char)data[size - 1], 4);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed since it was opened");
    stk_array_close(&a);
    a = open_one(s->opened, "");
    assert_ok(read_all(a, &err), &err);
    /* Longer, at the same time. */
    data = realloc(data, size + 1);
    assert_non_null(data);
    data[size] = 0;
    replace_at(folder, s->name, data, size + 1, 4);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed since it was opened");
    stk_array_close(&a);
    free(data);
}

static void test_changes(void **state)
{
    test_write(folder, "r.json", REFERENCES, strlen(REFERENCES));
    for (size_t i = 0; i < STK_COUNT(subjects); i++)
        check_changes(&subjects[i]);
}

/* Between opening and the first read, whatever the time between two looks. */
static void test_first_read(void **state)
{
    stk_error err;

    test_write(folder, "r.json", REFERENCES, strlen(REFERENCES));
    for (size_t i = 0; i < STK_COUNT(subjects); i++) {
        const subject *s = &subjects[i];
        uint64_t size = 0;
        char *data = load(s, &size);
        write_at(folder, s->name, data, size, 5);
        stk_array *a = open_one(s->opened, "");
        a->watch->every_ns = UINT64_MAX / 4;
        replace_at(folder, s->name, data, size, 6);
        assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed");
        assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed"); /* and stays so */
        stk_array_close(&a);
        free(data);
    }
}

/* Looks cost: between two of them there is some time, but for what fails. */
static void test_seldom(void **state)
{
    uint64_t size = 0;
    char *data = load(&subjects[2], &size);
    stk_error err;

    write_at(folder, "x.h5", data, size, 5);
    stk_array *a = open_one("x.h5/filtered", "");
    a->watch->every_ns = UINT64_MAX / 4;
    assert_ok(read_all(a, &err), &err);
    replace_at(folder, "x.h5", data, size, 6);
    assert_ok(read_all(a, &err), &err);
    memset(data, 0, size);
    write_at(folder, "x.h5", data, size, 6);
    stk_array_close(&a);

    uint64_t again = 0;
    char *whole = load(&subjects[2], &again);
    write_at(folder, "x.h5", whole, again, 5);
    a = open_one("x.h5/filtered", "");
    a->watch->every_ns = UINT64_MAX / 4;
    assert_ok(read_all(a, &err), &err);
    write_at(folder, "x.h5", data, size, 6); /* in place */
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed");
    stk_array_close(&a);
    free(whole);
    free(data);
}

/* Each of joined files; the one that changed is named. */
static void test_joined(void **state)
{
    stk_error err;

    write_at(folder, "a.npy", subjects[4].text, subjects[4].length, 5);
    write_at(folder, "b.npy", subjects[4].text, subjects[4].length, 5);
    stk_array *a = open_one("a.npy,b.npy", "concat=0");
    assert_ok(read_all(a, &err), &err);
    replace_at(folder, "b.npy", subjects[4].text, subjects[4].length, 6);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed");
    assert_string_equal(err.key, "b.npy");
    const int64_t start[1] = {0}, shape[1] = {4};
    const stk_array_box box = {start, shape, NULL};
    int32_t out[4];
    assert_ok(stk_array_read(a, &box, out, sizeof out, NULL, -1, &err), &err);
    stk_array_close(&a);
}

/* Of an object of another machine what it is counts, and looks come one at a time. */
static void test_far(void **state)
{
    stk_error err;

    write_at(folder, "x.npy", subjects[4].text, subjects[4].length, 5);
    stk_array *a = open_one("x.npy", "");
    a->watch->far = true;
    assert_ok(read_all(a, &err), &err);
    replace_at(folder, "x.npy", subjects[4].text, subjects[4].length, 5);
    assert_fails(read_all(a, &err), STK_ECHANGED, &err, "has changed");
    stk_array_close(&a);

    write_at(folder, "a.npy", subjects[4].text, subjects[4].length, 5);
    write_at(folder, "b.npy", subjects[4].text, subjects[4].length, 5);
    a = open_one("a.npy,b.npy", "concat=0");
    a->watch->far = true;
    a->watch->every_ns = UINT64_MAX / 4;
    replace_at(folder, "b.npy", subjects[4].text, subjects[4].length, 6);
    assert_ok(stk__array_unchanged(a, 0, false, &err), &err);
    assert_ok(stk__array_unchanged(a, 1, false, &err), &err);
    assert_fails(stk__array_unchanged(a, 1, true, &err), STK_ECHANGED, &err, "has changed");
    assert_ok(stk__array_unchanged(a, 2, true, &err), &err); /* none of its */
    stk_array_close(&a);
}

/* What has no places to remember is read as it is found: a raw file may grow. */
static void test_unwatched(void **state)
{
    char url[600];
    stk_array *a = NULL;
    stk_error err;

    write_at(folder, "x.raw", "0123456789abcdef", 16, 5);
    snprintf(url, sizeof url, "%s/x.raw?format=raw&dtype=uint8&shape=16", folder);
    assert_ok(stk_array_open(context, url, NULL, &a, &err), &err);
    assert_null(a->watch);
    write_at(folder, "x.raw", "0123456789abcdef0", 17, 6);
    assert_ok(read_all(a, &err), &err);
    stk_array_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seldom, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_far, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unwatched, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

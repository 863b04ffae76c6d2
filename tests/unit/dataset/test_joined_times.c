/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files joined along times that each counts in units of its own: the dates are those of the files,
 * or it is said why not. And such files as a group.
 */
#include "array/room.h"
#include "unit/dataset/windows.h"

enum { INT2 = 3, INT4, FLOAT4, FLOAT8 }; /* types as NetCDF-3 numbers them */

#define MOST 4

/* A file of time(time), v(time), x(x) and grid(time, x). */
typedef struct file {
    const char *units, *calendar;
    int type; /* of time */
    int n;
    double times[MOST];
    double x; /* first value of x, whose second is 1 */
} file;

typedef struct bytes {
    unsigned char at[2048];
    size_t length;
} bytes;

static void put(bytes *b, const void *value, size_t size)
{
    assert_true(b->length + size + 4 <= sizeof b->at);
    for (size_t i = 0; i < size; i++) /* big endian */
        b->at[b->length++] = ((const unsigned char *)value)[size - 1 - i];
}

static void put_int(bytes *b, int32_t value)
{
    put(b, &value, sizeof value);
}

static void put_text(bytes *b, const char *text)
{
    put_int(b, (int32_t)strlen(text));
    for (; *text; text++)
        b->at[b->length++] = (unsigned char)*text;
    while (b->length % 4)
        b->at[b->length++] = 0;
}

static void put_number(bytes *b, int type, double x)
{
    const int16_t small = (int16_t)x;
    const int32_t whole = (int32_t)x;
    const float single = (float)x;

    put(b,
        type == INT2     ? (const void *)&small
        : type == INT4   ? (const void *)&whole
        : type == FLOAT4 ? (const void *)&single
                         : &x,
        type == INT2     ? 2
        : type == FLOAT8 ? 8
                         : 4);
    while (b->length % 2)
        b->at[b->length++] = 0;
}

/* Of one dimension, or of both: 2. */
static void put_variable(bytes *b, const char *name, int dimension, const file *times, int type,
                         int32_t size, int32_t begin)
{
    put_text(b, name);
    put_int(b, dimension == 2 ? 2 : 1);
    put_int(b, dimension % 2);
    if (dimension == 2)
        put_int(b, 1);
    put_int(b, times ? 12 : 0); /* NC_ATTRIBUTE */
    put_int(b, times ? 1 + (times->calendar != NULL) : 0);
    for (int i = 0; times && i < 1 + (times->calendar != NULL); i++) {
        put_text(b, i ? "calendar" : "units");
        put_int(b, 2); /* NC_CHAR */
        put_text(b, i ? times->calendar : times->units);
    }
    put_int(b, type);
    put_int(b, size);
    put_int(b, begin);
}

/* [NetCDF classic format specification]; values of `v` are their number among all files, those of
 * `grid` twice that, and one more in the second column. */
static void put_file(stk_store *store, const char *key, const file *f, int *number)
{
    const int32_t head = 600, room = 8 * MOST;
    bytes b = {{0}, 0};
    stk_error err;

    memcpy(b.at, "CDF\1", 4);
    b.length = 4;
    put_int(&b, 0);
    put_int(&b, 10); /* NC_DIMENSION */
    put_int(&b, 2);
    put_text(&b, "time");
    put_int(&b, f->n);
    put_text(&b, "x");
    put_int(&b, 2);
    put_int(&b, 0);
    put_int(&b, 0);
    put_int(&b, 11); /* NC_VARIABLE */
    put_int(&b, 4);
    put_variable(&b, "time", 0, f, f->type, room, head);
    put_variable(&b, "v", 0, NULL, FLOAT4, 4 * f->n, head + room);
    put_variable(&b, "x", 1, NULL, FLOAT8, 16, head + 2 * room);
    put_variable(&b, "grid", 2, NULL, FLOAT4, 8 * f->n, head + 3 * room);
    assert_true(b.length <= (size_t)head);
    b.length = (size_t)head;
    for (int i = 0; i < f->n; i++)
        put_number(&b, f->type, f->times[i]);
    b.length = (size_t)(head + room);
    for (int i = 0; i < f->n; i++)
        put_number(&b, FLOAT4, (*number)++);
    b.length = (size_t)(head + 2 * room);
    put_number(&b, FLOAT8, f->x);
    put_number(&b, FLOAT8, 1);
    b.length = (size_t)(head + 3 * room);
    for (int i = -2 * f->n; i < 0; i++)
        put_number(&b, FLOAT4, 2 * *number + i);
    assert_ok(stk_store_put(store, key, b.at, b.length, NULL, &err), &err);
}

/* mem://j/f0.nc and on. */
static stk_store *put_files(stk_context *ctx, const file *files, size_t count)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    int number = 0;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://j", &store, key, sizeof key, &err), &err);
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "f%zu.nc", i);
        put_file(store, key, &files[i], &number);
    }
    return store;
}

static const file years[] = {
    {"days since 2000-01-01", NULL, INT4, 3, {0, 1, 365}, 0},
    {"hours since 2001-01-01", "standard", INT4, 2, {0, 24 * 364}, 0},
    {"days since 2002-01-01 00:00:00", "gregorian", INT4, 1, {0}, 0},
};

static double number_at(const stk_array *a, const char *values, int64_t i)
{
    double x[1];

    assert_true(stk__array_numbers(&a->type, values + (size_t)i * a->type.itemsize, 1, x));
    return x[0];
}

/* What the joined times are, and the last of them as a date. */
static const struct {
    file files[3];
    int count;
    double times[6];
    const char *last;
} told[] = {
    {{{"days since 2000-01-01", NULL, INT4, 3, {0, 1, 365}, 0},
      {"hours since 2001-01-01", "standard", INT4, 2, {0, 24 * 364}, 0},
      {"days since 2002-01-01 00:00:00", "gregorian", INT4, 1, {0}, 0}},
     3,
     {0, 1, 365, 366, 730, 731},
     "2002-01-01T00:00:00"},
    {{{"days since 2000-01-01", "noleap", INT2, 1, {364}, 0},
      {"days since 2001-01-01", "365_day", INT2, 1, {59}, 0}},
     2,
     {364, 424},
     "2001-03-01T00:00:00"},
    /* From the later reference to the earlier one and back; below it. */
    {{{"hours since 2000-01-02", NULL, FLOAT8, 1, {-18}, 0},
      {"days since 2000-01-01", NULL, FLOAT8, 1, {0.5}, 0},
      {"minutes since 2000-01-02", NULL, FLOAT8, 1, {90}, 0}},
     3,
     {-18, -12, 1.5},
     "2000-01-02T01:30:00"},
    /* Parts of a microsecond, which dates do not have, are kept. */
    {{{"nanoseconds since 2000-01-01", NULL, INT4, 1, {7}, 0},
      {"ns since 2000-01-01 00:00:01", NULL, INT4, 1, {5}, 0}},
     2,
     {7, 1000000005},
     "2000-01-01T00:00:01"},
    {{{"days since 2000-01-01", "360_day", FLOAT4, 1, {359}, 0},
      {"months since 2001-01-01", "360_day", FLOAT4, 1, {1.5}, 0}},
     2,
     {359, 405},
     "2001-02-16T00:00:00"},
};

static void test_dates(void **state)
{
    for (size_t i = 0; i < STK_COUNT(told); i++) {
        stk_context *ctx = test_context();
        stk_store *store = put_files(ctx, told[i].files, (size_t)told[i].count);
        char values[6 * 8], last[48];
        int64_t n = 0;
        stk_array *a;
        stk_error err;

        assert_ok(stk_array_open(ctx, "mem://j/f*.nc/time?concat=time", NULL, &a, &err), &err);
        for (int k = 0; k < told[i].count; k++)
            n += told[i].files[k].n;
        const stk_array_info *info = stk_array_get_info(a);
        assert_int_equal(info->rank, 1);
        assert_int_equal(info->shape[0], n);
        assert_string_equal(stk_array_text(a, "units"), told[i].files[0].units);
        assert_ok(stk_array_read(a, NULL, values, (uint64_t)n * info->itemsize, NULL, -1, &err),
                  &err);
        for (int64_t k = 0; k < n; k++)
            assert_true(number_at(a, values, k) == told[i].times[k]);
        stk_array_time_text(a, values + (size_t)(n - 1) * info->itemsize, last, sizeof last);
        assert_string_equal(last, told[i].last);
        /* A chunk is as new as the first file. */
        stk_object_info object = {.struct_size = sizeof object};
        assert_ok(stk_store_stat(stk__array_store(a), "0", NULL, &object, &err), &err);
        stk_array_close(&a);
        stk_store_close(&store);
        stk_context_destroy(&ctx);
    }
}

static void test_refused(void **state)
{
    static const struct {
        file files[2];
        const char *path; /* "time" or "v" */
        const char *says; /* NULL: they are joined */
    } cases[] = {
        {{{"days since 2000-01-01", NULL, INT4, 1, {0}, 0},
          {"hours since 2001-01-01", NULL, INT4, 1, {6}, 0}},
         "time",
         "f1.nc: 2001-01-01T06:00:00 is not to be told as int32 of 'days since 2000-01-01'"},
        {{{"hours since 2000-01-01", NULL, INT2, 1, {0}, 0},
          {"days since 2000-01-01", NULL, INT2, 1, {1366}, 0}},
         "time",
         "2003-09-28T00:00:00 is not to be told as int16"},
        {{{"microseconds since 2000-01-01", NULL, INT4, 1, {0}, 0},
          {"nanoseconds since 2000-01-01", NULL, INT4, 1, {1500}, 0}},
         "time",
         "2000-01-01T00:00:00.000001 is not to be told as int32"},
        {{{"seconds since 1900-01-01", NULL, FLOAT4, 1, {0}, 0},
          {"seconds since 2000-01-01", NULL, FLOAT4, 1, {1}, 0}},
         "time",
         "2000-01-01T00:00:01 is not to be told as float32"},
        {{{"days since 2000-01-01", NULL, FLOAT8, 1, {0}, 0},
          {"days since 2001-01-01", NULL, FLOAT8, 3, {0, NAN, 2}, 0}},
         "time",
         "element 1 of the times is no date"},
        {{{"days since 2000-01-01", NULL, INT4, 1, {0}, 0},
          {"days since 2001-01-01", "noleap", INT4, 1, {0}, 0}},
         "v",
         "f1.nc: the coordinate has another calendar"},
        {{{"days since 2000-01-01", NULL, INT4, 1, {0}, 0}, {"m", NULL, INT4, 1, {1}, 0}},
         "v",
         "numbers without dates rather"},
        {{{"days since 2000-01-01", NULL, INT4, 2, {0, 1}, 0},
          {"days since 1999-01-01", NULL, INT4, 1, {0}, 0}},
         "v",
         "comes to 1999-01-01T00:00:00 behind the 2000-01-02T00:00:00 of what stands before"},
        {{{"days since 2000-01-01", NULL, INT4, 1, {366}, 0},
          {"days since 2001-01-01", NULL, INT4, 1, {0}, 0}},
         "v",
         "f1.nc: the coordinate comes to 2001-01-01T00:00:00 behind the 2001-01-01T00:00:00"},
        {{{"months since 2000-01-01", NULL, INT4, 1, {0}, 0},
          {"months since 2001-01-01", NULL, INT4, 1, {0}, 0}},
         "time",
         "another 'units'"},
        {{{"months since 2000-01-01", NULL, INT4, 1, {0}, 0},
          {"months since 2001-01-01", NULL, INT4, 1, {0}, 0}},
         "v",
         NULL},
        {{{"months since 2000-01-01", NULL, INT4, 2, {0, 1}, 0},
          {"months since 2000-01-01", NULL, INT4, 1, {0}, 0}},
         "v",
         "comes to 0 behind the 1"},
        {{{"K", NULL, INT4, 1, {0}, 0}, {"C", NULL, INT4, 1, {1}, 0}}, "time", "another 'units'"},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_context *ctx = test_context();
        stk_store *store = put_files(ctx, cases[i].files, 2);
        stk_dataset *dataset = NULL;
        stk_array *a = NULL;
        char url[64], spec[72];
        stk_error err;

        snprintf(url, sizeof url, "mem://j/f*.nc/%s?concat=time", cases[i].path);
        snprintf(spec, sizeof spec, "array:%s", url);
        if (cases[i].says) {
            assert_fails(stk_array_open(ctx, url, NULL, &a, &err), STK_EMISMATCH, &err,
                         cases[i].says);
            assert_fails(stk_dataset_open(ctx, spec, &dataset, &err), STK_EMISMATCH, &err,
                         cases[i].says);
        } else {
            assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
            stk_array_close(&a);
        }
        stk_store_close(&store);
        stk_context_destroy(&ctx);
    }
}

/* Of all elements of the joined `v`, which are their numbers. */
static void test_select(void **state)
{
    static const struct {
        const char *select;
        double first;
        uint64_t count;
    } cases[] = {{"2000-01-02:2001", 1, 4}, {"2001", 3, 2}, {"2001-06:", 4, 2}};
    static const char *const specs[] = {"f*.nc/v?concat=time", "f*.nc?concat=time&variables=v"};
    stk_context *ctx = test_context();
    stk_store *store = put_files(ctx, years, STK_COUNT(years));
    stk_tensor t = {.struct_size = sizeof t};
    char spec[128];

    for (size_t i = 0; i < STK_COUNT(cases) * STK_COUNT(specs); i++) {
        snprintf(spec, sizeof spec, "array:mem://j/%s&select=time=%s", specs[i / STK_COUNT(cases)],
                 cases[i % STK_COUNT(cases)].select);
        stk_dataset *d = open_windows(ctx, spec);
        assert_int_equal(d->size, cases[i % STK_COUNT(cases)].count);
        stk_loader_options o = window_options();
        o.batch_size = (int64_t)d->size;
        delivery b = first_batch(d, &o);
        const float *v = field_of(&b, "data", &t);
        for (uint64_t k = 0; k < d->size; k++)
            assert_true(v[k] == (float)(cases[i % STK_COUNT(cases)].first + (double)k));
        close_batch(&b);
        stk_dataset_close(&d);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* By a coordinate that is not joined: it is the first file's, and the same in all. */
static void test_select_across(void **state)
{
    static const char *const specs[] = {"f*.nc/grid?concat=time", "f*.nc/grid?concat=0",
                                        "f*.nc?concat=time&variables=grid"};
    stk_context *ctx = test_context();
    stk_store *store = put_files(ctx, years, STK_COUNT(years));
    stk_tensor t = {.struct_size = sizeof t};
    stk_dataset *d = NULL;
    file other = years[2];
    char spec[128];
    stk_error err;
    int number = 5;

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        snprintf(spec, sizeof spec, "array:mem://j/%s&timeout=60&select=x=1,time=2001", specs[i]);
        d = open_windows(ctx, spec);
        assert_int_equal(d->size, 2);
        delivery b = first_batch(d, NULL);
        const float *values = field_of(&b, "data", &t);
        assert_true(values[0] == 7 && values[1] == 9);
        close_batch(&b);
        stk_dataset_close(&d);
        snprintf(spec, sizeof spec, "array:mem://j/%s&select=y=1", specs[i]);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EINVAL, &err, "'y'");
    }
    other.x = -1;
    put_file(store, "f2.nc", &other, &number);
    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        snprintf(spec, sizeof spec, "array:mem://j/%s&select=x=1", specs[i]);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EMISMATCH, &err,
                     "f2.nc has other values than f0.nc");
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_group(void **state)
{
    static const char *const paths[] = {"grid", "time", "v", "x"};
    static const int64_t sizes[] = {6, 6, 6, 2};
    stk_context *ctx = test_context();
    stk_store *store = put_files(ctx, years, STK_COUNT(years));
    file other = years[2];
    stk_group *g;
    stk_array *a;
    stk_error err;
    int number = 5;

    assert_ok(stk_group_open(ctx, "mem://j/f*.nc?concat=time", &g, &err), &err);
    for (size_t i = 0; i < STK_COUNT(paths); i++) {
        assert_string_equal(stk_group_node(g, i)->path, paths[i]);
        assert_ok(stk_group_array(g, paths[i], NULL, &a, &err), &err);
        assert_int_equal(stk_array_get_info(a)->shape[0], sizes[i]);
        stk_array_close(&a);
    }
    assert_null(stk_group_node(g, 4));
    assert_fails(stk_group_array(g, "w", NULL, &a, &err), STK_ENOENT, &err, "no array 'w'");
    stk_group_close(&g);
    assert_fails(stk_group_open(ctx, "mem://j/f*.nc?concat=z", &g, &err), STK_EKIND, &err,
                 "no array of f0.nc has a dimension 'z'");
    assert_fails(stk_group_open(ctx, "mem://j/g*.nc?concat=time", &g, &err), STK_ENOENT, &err,
                 "no file fits 'g*.nc'");
    assert_fails(stk_group_open(ctx, "mem://j/f*.nc/v?concat=time", &g, &err), STK_EMISMATCH, &err,
                 "'v'");
    /* What is not joined is the same in all files. */
    other.x = 7;
    put_file(store, "f2.nc", &other, &number);
    assert_ok(stk_group_open(ctx, "mem://j/f*.nc?concat=time", &g, &err), &err);
    assert_fails(stk_group_array(g, "x", NULL, &a, &err), STK_EMISMATCH, &err,
                 "f2.nc has other values than f0.nc");
    assert_ok(stk_group_array(g, "v", NULL, &a, &err), &err);
    stk_array_close(&a);
    stk_group_close(&g);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_select), cmocka_unit_test(test_select_across),
        cmocka_unit_test(test_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Windows selected by the values of coordinates: which elements are taken, and what is refused.
 * tests/parity/dataset/select compares with xarray. */
#include <math.h>

#include "unit/dataset/windows.h"

#define N 12 /* elements of time; y and x have 8 */

static const double steps[N] = {0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 66},
                    down[8] = {60.5, 50.1, 40, 30.1, 20, 10, 0, -10},
                    around[8] = {0, 45, 90, 135, 180, 225, 270, 315};

/* mem://w: t2m over time (hours, every 6), y (float32, downwards) and x (packed). */
static void make_all(stk_context *ctx)
{
    const made field = {.dtype = STK_FLOAT32, .shape = {N, 8, 8}, .chunk = {4, 4, 4}};
    stk_error err;

    make_array(ctx, "mem://w/t2m", &field);
    make_array(ctx, "mem://w/deep/er/u10", &field);
    make_coordinate(ctx, "mem://w/time", "time", STK_INT64, NULL,
                    "{\"units\": \"hours since 2015-12-30 00:00:0.0\", \"calendar\": \"noleap\"}",
                    steps, N);
    make_coordinate(ctx, "mem://w/y", "y", STK_FLOAT32, NULL, NULL, down, 8);
    make_coordinate(ctx, "mem://w/x", "x", STK_INT16, NULL,
                    "{\"scale_factor\": 2, \"add_offset\": -90}", around, 8);
    assert_ok(stk_group_consolidate(ctx, "mem://w", NULL, &err), &err);
}

typedef struct taken {
    const char *select;
    uint32_t dim;
    int64_t begin, end;
    bool dropped;
} taken;

static void check(stk_context *ctx, const char *url, const taken *cases, size_t n)
{
    char spec[300];

    for (size_t i = 0; i < n; i++) {
        snprintf(spec, sizeof spec, "array:%sselect=%s", url, cases[i].select);
        stk_dataset *d = open_windows(ctx, spec);
        const stk__window_dim *dim = &((stk__window *)d)->dims[cases[i].dim];
        if (dim->begin != cases[i].begin || dim->end != cases[i].end ||
            dim->dropped != cases[i].dropped)
            fail_msg("%s: %lld to %lld", cases[i].select, (long long)dim->begin,
                     (long long)dim->end);
        stk_dataset_close(&d);
    }
}

static void test_taken(void **state)
{
    static const taken cases[] = {
        /* Whole days at both ends: 2015-12-30 and -31, 2016-01-01. */
        {"time=2015-12-31:2016-01-01", 0, 4, 12, false},
        {"time=2015-12-31:2015-12-31T12", 0, 4, 7, false},
        {"time=2015-12-31T06:2015-12-31T06:00", 0, 5, 6, false},
        {"time=2015-12-31T06:01:2015-12-31T17:59:59", 0, 6, 7, false},
        {"time=2016", 0, 8, 12, false},
        {"time=2015-12", 0, 0, 8, false},
        {"time=2015-12-31", 0, 4, 8, false},
        {"time=2015-12-31T18", 0, 7, 8, false},
        {"time=2015-12-31 18:00", 0, 7, 8, false},
        {"time=:2015", 0, 0, 8, false},
        {"time=2016:", 0, 8, 12, false},
        {"time=1900:2100", 0, 0, 12, false},
        {"0=2016:", 0, 8, 12, false}, /* the dimension by its number */
        /* Both ends are taken, whichever way the coordinate runs. */
        {"y=30:60", 1, 1, 4, false},
        {"y=30.1:50.1", 1, 1, 4, false},
        {"y=30.2:50", 1, 2, 3, false},
        {"y=:0", 1, 6, 8, false},
        {"y=50.1:", 1, 0, 2, false},
        {"y=-1e3:1e3", 1, 0, 8, false},
        /* One element, and the fields have the dimension no more. */
        {"y=50.1", 1, 1, 2, true},
        {"y=-0", 1, 6, 7, true},
        {"y=50.1:50.1", 1, 1, 2, false},
        /* Scaled as values are. */
        {"x=90:270", 2, 2, 5, false},
        {"x=180", 2, 3, 4, true},
        /* Several, with blanks. */
        {"time=2016: , y=30:60", 1, 1, 4, false},
        {" time = 2016 ,y=30:60", 0, 8, 12, false},
    };
    stk_context *ctx = *state;

    make_all(ctx);
    check(ctx, "mem://w?variables=t2m&", cases, STK_COUNT(cases));
    check(ctx, "mem://w/t2m?", cases, STK_COUNT(cases)); /* beside an array by itself */
    check(ctx, "mem://w?variables=deep/er/u10&", cases, STK_COUNT(cases)); /* in a group above */
}

/* What is selected is what samples hold. */
static void test_values(void **state)
{
    stk_context *ctx = *state;
    stk_tensor data = {.struct_size = sizeof data};

    make_all(ctx);
    stk_dataset *d =
        open_windows(ctx, "array:mem://w/t2m?select=time=2016-01-01T06:,y=40,x=0:90&window=time:1");
    assert_int_equal(d->size, 3);
    delivery b = first_batch(d, NULL);
    const float *values = field_of(&b, "data", &data);
    assert_int_equal(data.rank, 3); /* batch, time, x */
    assert_int_equal(data.shape[2], 2);
    for (int64_t i = 0; i < 3; i++) {
        int64_t start[STK__WINDOW_DIMS];
        stk__window_start((stk__window *)d, (uint64_t)i, start);
        for (int64_t x = 0; x < 2; x++)
            assert_true(*values++ == (float)((start[0] * 8 + 2) * 8 + 1 + x));
    }
    close_batch(&b);
    stk_dataset_close(&d);
}

static void test_refused(void **state)
{
    static const refused cases[] = {
        {"select=time", STK_EINVAL, "write it as time=2015"},
        {"select=time,y=3:4", STK_EINVAL, "write it as"},
        {"select=z=3", STK_EINVAL, "there are 'time', 'y', 'x'"},
        {"select=y=45", STK_EINVAL, "lies at 45; the nearest are 40.0 and 50.1"},
        {"select=y=70", STK_EINVAL, "the nearest is 60.5"},
        {"select=y=41:49", STK_EINVAL, "lies in 41:49; the nearest are 40.0 and 50.1"},
        {"select=y=60:30", STK_EINVAL, "ends before it begins; give the lower end first"},
        {"select=time=2016:2015", STK_EINVAL, "give the earlier end first"},
        {"select=y=north", STK_EINVAL, "'north' is no number or range of numbers of 'y'"},
        {"select=y=3:4:5", STK_EINVAL, "is no number or range"},
        {"select=y=", STK_EINVAL, "is no number or range"},
        {"select=y=inf", STK_EINVAL, "is no number or range"},
        {"select=y=nan:", STK_EINVAL, "is no number or range"},
        {"select=y=2015-01-01", STK_EINVAL, "is no number or range"},
        {"select=time=15", STK_EINVAL, "'15' is no date or range of dates of 'time'"},
        {"select=time=2015-1-1", STK_EINVAL, "is no date"},
        {"select=time=2016-02-29", STK_EINVAL, "the calendar of 'time' has no 2016-02-29"},
        {"select=time=2017", STK_EINVAL, "lies in 2017; the nearest is 2016-01-01T18:00:00"},
        {"select=time=2015-12-30T01:2015-12-30T04", STK_EINVAL,
         "the nearest are 2015-12-30T00:00:00 and 2015-12-30T06:00:00"},
        {"select=y=30:60,y=0:", STK_EINVAL, "'y' is limited already"},
        {"select=y=30:60&range=y:1:3", STK_EINVAL, "'y' is limited already"},
        {"select=y=30:60&at=y:1", STK_EINVAL, "'y' is limited already"},
        {"select=y=30:60&window=y:4", STK_EINVAL, "do not fit the 3"},
    };
    stk_context *ctx = *state;
    stk_dataset *d;
    stk_error err;
    char spec[300];

    make_all(ctx);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(spec, sizeof spec, "array:mem://w?variables=t2m&%s", cases[i].options);
        assert_fails(stk_dataset_open(ctx, spec, &d, &err), cases[i].status, &err, cases[i].part);
    }
}

/* Coordinates that cannot be selected by. */
static void test_bad_coordinates(void **state)
{
    static const double zigzag[8] = {0, 10, 20, 15, 30, 40, 50, 60},
                        twice[8] = {0, 1, 2, 2, 2, 3, 4, 5},
                        holes[8] = {0, 1, (double)NAN, 3, 4, 5, 6, 7},
                        huge[8] = {0, 1, 2, 3, 4, 5, 6, 9e18};
    static const struct {
        const double *values;
        int64_t n;
        stk_dtype dtype;
        const char *type_name, *attributes, *select, *part;
    } cases[] = {
        {zigzag, 8, STK_FLOAT64, NULL, NULL, "y=15:30", "not sorted: element 3, 15.0, turns back"},
        {twice, 8, STK_FLOAT64, NULL, NULL, "y=2", "has 2 3 times; write a range, as 2:2"},
        {holes, 8, STK_FLOAT64, NULL, NULL, "y=2", "element 2 of the coordinate 'y' has no value"},
        {twice, 8, STK_FLOAT64, NULL, "{\"_FillValue\": 3}", "y=2:", "element 5 of the coordinate"},
        {holes, 8, STK_INT64, "datetime64[D]", NULL, "y=1970", "has no value"},
        {huge, 8, STK_INT64, NULL, "{\"units\": \"days since 2000-01-01\"}", "y=2000",
         "element 7 of the coordinate 'y' has no value"},
        {twice, 7, STK_FLOAT64, NULL, NULL, "y=2", "not one value for each of the 8 elements"},
        {twice, 8, STK_FLOAT64, NULL, "{\"units\": \"months since 2000-01-01\"}", "y=2000",
         "'months since 2000-01-01' count what has no fixed length"},
        {twice, 8, STK_FLOAT64, NULL, "{\"units\": \"days since the war\"}", "y=2000",
         "no date behind 'since'"},
        {twice, 8, STK_FLOAT64, NULL, "{\"units\": \"days since 2000-02-30\"}", "y=2000",
         "no date behind 'since' that the calendar has"},
        {twice, 8, STK_FLOAT64, NULL,
         "{\"units\": \"days since 2000-01-01\", \"calendar\": \"lunar\"}", "y=2000",
         "the calendar 'lunar' is none of CF's"},
        {twice, 8, STK_INT64, "timedelta64[s]", NULL, "y=2", "neither numbers nor dates"},
    };
    const made field = {.dtype = STK_FLOAT32, .shape = {N, 8, 8}, .chunk = {4, 4, 4}};
    stk_context *ctx = *state;
    stk_dataset *d;
    stk_error err;
    char url[64], spec[128];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(url, sizeof url, "mem://bad%zu/a", i);
        make_array(ctx, url, &field);
        snprintf(url, sizeof url, "mem://bad%zu/y", i);
        make_coordinate(ctx, url, "y", cases[i].dtype, cases[i].type_name, cases[i].attributes,
                        cases[i].values, cases[i].n);
        snprintf(spec, sizeof spec, "array:mem://bad%zu/a?select=%s", i, cases[i].select);
        stk_status status = stk_dataset_open(ctx, spec, &d, &err);
        if (status == STK_OK || !strstr(err.text, cases[i].part))
            fail_msg("%zu: %s", i, status == STK_OK ? "selected" : err.text);
    }
    assert_fails(stk_dataset_open(ctx, "array:mem://bad0/a?select=x=3", &d, &err), STK_EINVAL, &err,
                 "there is no coordinate 'x' beside 'data'");
    assert_ok(stk_group_consolidate(ctx, "mem://bad0", NULL, &err), &err);
    assert_fails(stk_dataset_open(ctx, "array:mem://bad0?variables=a&select=x=3", &d, &err),
                 STK_EINVAL, &err, "there is no coordinate 'x' beside 'a'");
}

/* Coordinates as long as metadata claims are not looked through. */
static void test_claims(void **state)
{
    static const struct {
        const char *shape, *chunk, *part;
    } cases[] = {
        {"268435457", "268435457", "has more than 2^28 elements"},
        {"11", "1", "takes 11 requests, more than max_requests, 10"},
    };
    stk_context *ctx = *state;
    stk_store *store;
    stk_dataset *d;
    stk_error err;
    char text[500], key[40], url[64];

    assert_ok(stk_store_open(ctx, "mem://claims", &store, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const int length = snprintf(
            text, sizeof text,
            "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[%s],\"data_type\":\"int8\","
            "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[%s]}},"
            "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":0,\"codecs\":[\"bytes\"],"
            "\"dimension_names\":[\"n\"]}",
            cases[i].shape, cases[i].chunk);
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "%zu/%s/zarr.json", i, k ? "v" : "n");
            assert_ok(stk_store_put(store, key, text, (size_t)length, NULL, &err), &err);
        }
        snprintf(url, sizeof url, "array:mem://claims/%zu/v?select=n=3&max_requests=10", i);
        assert_fails(stk_dataset_open(ctx, url, &d, &err), STK_ELIMIT, &err, cases[i].part);
    }
    stk_store_close(&store);
}

/* datetime64 of any unit, by the first of 1970 and what lies 40 units behind. */
static void test_datetimes(void **state)
{
    static const struct {
        const char *type_name, *select;
        int64_t begin, end;
    } cases[] = {
        {"datetime64[Y]", "y=1971:1972", 1, 3},
        {"datetime64[M]", "y=1970-03:", 2, 8},
        {"datetime64[25M]", "y=1972-02:1974-03", 1, 3},
        {"datetime64[W]", "y=1970-01-08:1970-01-15", 1, 3},
        {"datetime64[D]", "y=1970-01-08", 7, 8},
        {"datetime64[h]", "y=1970-01-01T06", 6, 7},
        {"datetime64[15m]", "y=1970-01-01T01", 4, 8},
        {"datetime64[s]", "y=1970-01-01T00:00:05:", 5, 8},
        {"datetime64[ms]", "y=1970-01-01T00:00:00.004:1970-01-01T00:00:00.005", 4, 6},
        {"datetime64[us]", "y=1970-01-01T00:00:00.000007", 7, 8},
        {"datetime64[500ns]", "y=1970-01-01T00:00:00.000001", 2, 4},
    };
    static const double numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const made field = {.dtype = STK_FLOAT32, .shape = {N, 8, 8}, .chunk = {4, 4, 4}};
    char url[64], query[72];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const taken one = {cases[i].select, 1, cases[i].begin, cases[i].end, false};
        snprintf(url, sizeof url, "mem://when%zu/a", i);
        make_array(*state, url, &field);
        snprintf(query, sizeof query, "%s?", url);
        snprintf(url, sizeof url, "mem://when%zu/y", i);
        make_coordinate(*state, url, "y", STK_INT64, cases[i].type_name, NULL, numbers, 8);
        check(*state, query, &one, 1);
    }
}

/* What is selected is part of what the samples are. */
static void test_fingerprint(void **state)
{
    make_all(*state);
    stk_dataset *a = open_windows(*state, "array:mem://w/t2m?select=y=30:60"),
                *b = open_windows(*state, "array:mem://w/t2m?select=y=20:60"),
                *same = open_windows(*state, "array:mem://w/t2m?range=y:1:4");
    assert_true(a->fingerprint != b->fingerprint);
    assert_true(a->fingerprint == same->fingerprint);
    stk_dataset_close(&a);
    stk_dataset_close(&b);
    stk_dataset_close(&same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_values, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_refused, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_bad_coordinates, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_datetimes, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_claims, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_fingerprint, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one encoded chunk each, of different lengths: read whole and in windows across them. */
#include <zlib.h>

#include "unit/dataset/windows.h"

#define WIDE   6
#define COLUMN 3 /* elements of a chunk across: two in a file */

static const int64_t lengths[] = {3, 5, 2};
#define STEPS 10

/* A format of files whose chunks are as long as the array: its length, then the bytes of both
 * chunks, then these. */
typedef struct monthly {
    int64_t length;
    uint64_t bytes[2];
} monthly;

static int monthly_recognise(stk_store *store, const char *key)
{
    return strstr(key, ".monthly") ? 2 : 0;
}

static stk_status monthly_open(stk_array *array, const stk_array_opening *opening, stk_error *err)
{
    static const char *const names[] = {"time", "x"};
    monthly *m = malloc(sizeof *m);

    assert_non_null(m);
    assert_ok(stk_store_read(opening->store, opening->key, 0, sizeof *m, m, err), err);
    const int64_t shape[] = {m->length, WIDE}, chunk[] = {m->length, COLUMN};
    const stk_array_layout layout = {
        .struct_size = sizeof layout,
        .type_name = "float32",
        .rank = 2,
        .shape = shape,
        .chunk_shape = chunk,
        .codecs = "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}},"
                  "{\"name\": \"zlib\", \"configuration\": {\"level\": 1}}]",
        .dimension_names = names,
        .state = m};
    const stk_status status = stk_array_lay_out(array, &layout, err);
    if (status != STK_OK)
        free(m);
    return status;
}

static stk_status monthly_locate(void *state, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    const monthly *m = state;

    out->offset = sizeof *m + (chunk ? m->bytes[0] : 0);
    out->length = m->bytes[chunk];
    return STK_OK;
}

static void monthly_close(void *state)
{
    free(state);
}

static const stk_array_format_ops monthly_ops = {.struct_size = sizeof monthly_ops,
                                                 .name = "monthly",
                                                 .doc = "Of a test",
                                                 .recognise = monthly_recognise,
                                                 .open = monthly_open,
                                                 .locate = monthly_locate,
                                                 .close = monthly_close};

/* Elements are their numbers in the joined array. */
static void put_file(stk_store *store, const char *key, int64_t begin, int64_t length)
{
    unsigned char data[4096];
    monthly m = {.length = length};
    size_t used = sizeof m;
    float chunk[STEPS * COLUMN];
    stk_error err;

    for (int c = 0; c < 2; c++) {
        uLongf size = sizeof data - used;
        for (int64_t i = 0; i < length * COLUMN; i++)
            chunk[i] = (float)((begin + i / COLUMN) * WIDE + c * COLUMN + i % COLUMN);
        assert_int_equal(compress(data + used, &size, (const Bytef *)chunk,
                                  (uLong)(length * COLUMN) * sizeof *chunk),
                         Z_OK);
        m.bytes[c] = size;
        used += size;
    }
    memcpy(data, &m, sizeof m);
    assert_ok(stk_store_put(store, key, data, used, NULL, &err), &err);
}

static stk_context *put_files(stk_store **store)
{
    stk_context *ctx = test_context();
    char key[STK_MAX_OBJECT_KEY];
    int64_t begin = 0;
    stk_error err;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_ARRAY, &monthly_ops, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://m", store, key, sizeof key, &err), &err);
    for (size_t i = 0; i < STK_COUNT(lengths); begin += lengths[i++]) {
        snprintf(key, sizeof key, "m%zu.monthly", i);
        put_file(*store, key, begin, lengths[i]);
    }
    return ctx;
}

static void test_boxes(void **state)
{
    stk_store *store;
    stk_context *ctx = put_files(&store);
    float values[STEPS * WIDE];
    stk_array *a;
    stk_error err;

    assert_ok(stk_array_open(ctx, "mem://m/m*.monthly?concat=time", NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->chunk_shape[0], 5);
    for (int64_t from = 0; from < STEPS; from++) {
        for (int64_t n = 1; from + n <= STEPS; n++) {
            const int64_t start[] = {from, 1}, shape[] = {n, WIDE - 1};
            const stk_array_box box = {start, shape, NULL};
            assert_ok(stk_array_read(a, &box, values, (uint64_t)(n * (WIDE - 1)) * sizeof *values,
                                     NULL, -1, &err),
                      &err);
            for (int64_t i = 0; i < n * (WIDE - 1); i++)
                assert_true(values[i] ==
                            (float)((from + i / (WIDE - 1)) * WIDE + 1 + i % (WIDE - 1)));
        }
    }
    stk_array_close(&a);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_windows(void **state)
{
    static const int windows[] = {1, 2, 3, 10};
    stk_store *store;
    stk_context *ctx = put_files(&store);
    stk_tensor t = {.struct_size = sizeof t};
    char spec[128];

    for (size_t w = 0; w < STK_COUNT(windows); w++) {
        snprintf(spec, sizeof spec,
                 "array:mem://m/m*.monthly?concat=time&window=time:%d&stride=time:1", windows[w]);
        stk_dataset *d = open_windows(ctx, spec);
        stk_loader_options o = window_options();
        o.batch_size = (int64_t)d->size;
        delivery b = first_batch(d, &o);
        const float *v = field_of(&b, "data", &t);
        for (int64_t i = 0; i < (int64_t)d->size; i++) {
            int64_t start[STK__WINDOW_DIMS];
            stk__window_start((stk__window *)d, (uint64_t)i, start);
            for (int64_t k = 0; k < windows[w] * WIDE; k++)
                assert_true(*v++ == (float)(start[0] * WIDE + k));
        }
        close_batch(&b);
        stk_dataset_close(&d);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* A chunk that is longer or shorter than its file says is an error, not another file's. */
static void test_damaged(void **state)
{
    stk_store *store;
    stk_context *ctx = put_files(&store);
    float values[(STEPS + 1) * WIDE];
    unsigned char data[4096];
    stk_object_info info = {.struct_size = sizeof info};
    stk_array *a;
    stk_error err;

    for (int64_t length = 2; length <= 4; length += 2) {
        assert_ok(stk_store_stat(store, "m0.monthly", NULL, &info, &err), &err);
        assert_ok(stk_store_read(store, "m0.monthly", 0, info.size, data, &err), &err);
        memcpy(data, &length, sizeof length);
        assert_ok(stk_store_put(store, "m0.monthly", data, info.size, NULL, &err), &err);
        assert_ok(stk_array_open(ctx, "mem://m/m*.monthly?concat=time", NULL, &a, &err), &err);
        assert_fails(stk_array_read(a, NULL, values,
                                    (uint64_t)((7 + length) * WIDE) * sizeof *values, NULL, -1,
                                    &err),
                     length == 2 ? STK_EFORMAT : STK_ETRUNCATED, &err, "m0.monthly");
        stk_array_close(&a);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

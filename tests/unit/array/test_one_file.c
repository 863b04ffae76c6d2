/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in one file: npy of NumPy's versions and orders, and raw files by their options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/array.h>

#include "support/support.h"

static stk_store *put(stk_context *ctx, const char *key, const void *data, size_t size)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://f", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    return store;
}

/* Elements of a box of a 3-d array against a loop. `place` gives an element's place in the file. */
static void check(stk_context *ctx, const char *url, const uint32_t *file, const int64_t *shape,
                  bool fortran, bool big)
{
    uint64_t seed = 5;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    const stk_array_info *info = stk_array_get_info(a);
    assert_int_equal(info->dtype, STK_UINT32);
    assert_int_equal(info->rank, 3);
    assert_int_equal(info->order, fortran ? 'F' : 'C');
    assert_memory_equal(info->shape, shape, 3 * sizeof shape[0]);
    for (int round = 0; round < 40; round++) {
        int64_t start[3] = {0}, size[3], step[3] = {1, 1, 1};
        memcpy(size, shape, sizeof size);
        for (int d = 0; d < 3 && round > 0; d++) {
            start[d] = (int64_t)(test_random(&seed) % (uint64_t)shape[d]);
            step[d] = 1 + (int64_t)(test_random(&seed) % 3);
            size[d] = 1 + (int64_t)(test_random(&seed) %
                                    (uint64_t)((shape[d] - start[d] - 1) / step[d] + 1));
        }
        uint64_t n = (uint64_t)(size[0] * size[1] * size[2]), at = 0;
        uint32_t *out = malloc(n * 4);
        stk_array_box box = {start, size, step};
        assert_ok(stk_array_read(a, &box, out, n * 4, NULL, -1, &err), &err);
        for (int64_t i = 0; i < size[0]; i++)
            for (int64_t j = 0; j < size[1]; j++)
                for (int64_t k = 0; k < size[2]; k++) {
                    int64_t x = start[0] + i * step[0], y = start[1] + j * step[1],
                            z = start[2] + k * step[2];
                    int64_t place = fortran ? x + shape[0] * (y + shape[1] * z)
                                            : (x * shape[1] + y) * shape[2] + z;
                    uint32_t value = big ? __builtin_bswap32(file[place]) : file[place];
                    assert_int_equal(out[at++], value);
                }
        free(out);
    }
    stk_array_close(&a);
}

static void test_shapes(void **state)
{
    /* The last one is cut into many pieces. */
    static const int64_t shapes[][3] = {
        {5, 4, 3}, {1, 1, 1}, {3, 1, 7}, {2, 3, 20000}, {40, 30, 50}};
    stk_context *ctx = test_context();

    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int mode = 0; mode < 4; mode++) {
            const int64_t *shape = shapes[s];
            size_t n = (size_t)(shape[0] * shape[1] * shape[2]);
            bool fortran = mode & 1, big = mode & 2;
            uint32_t *file = malloc(16 + n * 4 + 256);
            char url[200], header[200];
            for (size_t i = 0; i < n; i++)
                file[i] = (uint32_t)(i * 2654435761u);
            stk_store *store = put(ctx, "raw.bin", file, n * 4);
            stk_store_close(&store);
            snprintf(url, sizeof url,
                     "mem://f/raw.bin?format=raw&dtype=%su4&shape=%lldx-1x%lld&order=%s",
                     big ? ">" : "<", (long long)shape[0], (long long)shape[2],
                     fortran ? "F" : "C");
            check(ctx, url, file, shape, fortran, big);
            unsigned char *npy = malloc(n * 4 + 256);
            int length =
                snprintf(header, sizeof header,
                         "{'descr': '%su4', 'fortran_order': %s, 'shape': (%lld, %lld, %lld), }",
                         big ? ">" : "<", fortran ? "True" : "False", (long long)shape[0],
                         (long long)shape[1], (long long)shape[2]);
            int version = 1 + (int)(s % 3);
            memcpy(npy, "\x93NUMPY\0\0\0\0\0\0", 12);
            npy[6] = (unsigned char)version;
            npy[8] = (unsigned char)length;
            int begin = version == 1 ? 10 : 12;
            memcpy(npy + begin, header, (size_t)length);
            memcpy(npy + begin + length, file, n * 4);
            store = put(ctx, "a.npy", npy, (size_t)(begin + length) + n * 4);
            stk_store_close(&store);
            check(ctx, "mem://f/a.npy", file, shape, fortran, big);
            check(ctx, "slow+mem://f/a.npy", file, shape, fortran, big);
            free(npy);
            free(file);
        }
    stk_context_destroy(&ctx);
}

static void test_refusals(void **state)
{
    static const unsigned char bytes[24] = {1, 2, 3};
    stk_context *ctx = test_context();
    stk_store *store = put(ctx, "x", bytes, sizeof bytes);
    stk_array *a = NULL;
    stk_error err;

    assert_fails(stk_array_open(ctx, "mem://f/x", NULL, &a, &err), STK_EFORMAT, &err, "format=raw");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw", NULL, &a, &err), STK_EINVAL, &err,
                 "dtype=TYPE");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=object", NULL, &a, &err),
                 STK_EKIND, &err, "'object'");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=u4&shape=7", NULL, &a, &err),
                 STK_ETRUNCATED, &err, "28");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=u4&shape=5", NULL, &a, &err),
                 STK_EFORMAT, &err, "allow_trailing");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=u4&shape=-1x-1", NULL, &a, &err),
                 STK_EINVAL, &err, "-1x-1");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=u4&shape=5x", NULL, &a, &err),
                 STK_EINVAL, &err, "5x");
    assert_fails(stk_array_open(ctx, "mem://f/x?format=raw&dtype=u4&offset=25", NULL, &a, &err),
                 STK_ETRUNCATED, &err, "offset");
    assert_fails(stk_array_open(
                     ctx,
                     "mem://f/x?format=raw&dtype=u4&shape=9223372036854775807x9223372036854775807",
                     NULL, &a, &err),
                 STK_EINVAL, &err, NULL);
    assert_fails(stk_array_open(ctx, "mem://f/x?format=zarr", NULL, &a, &err), STK_EINVAL, &err,
                 "a file");
    assert_fails(stk_array_open(ctx, "mem://f/y", NULL, &a, &err), STK_ENOENT, &err, NULL);
    assert_null(a);
    assert_ok(stk_array_open(ctx, "mem://f/x?format=raw&dtype=V3&offset=3", NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->shape[0], 7);
    assert_string_equal(stk_array_get_info(a)->type_name, "V3");
    stk_array_close(&a);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tables of tests/golden/rows, whose values scripts/make_rows_golden.py has from the same formulas.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DATASET_ROWS_H
#define STK_TESTS_UNIT_DATASET_ROWS_H

#include "unit/dataset/windows.h"

#define GOLDEN TESTS_DIR "/golden/rows/"
#define ROWS   23

static inline int64_t label_of(int64_t row)
{
    return 11 * row % 10;
}

static inline void check_image(const uint8_t *image, int64_t row)
{
    for (int k = 0; k < 36; k++)
        assert_int_equal(image[k], (7 * row + 5 * (k / 9) + 3 * (k / 3 % 3) + k % 3) % 256);
}

/* The row that a value of `x` is of, which tells all others. */
static inline int64_t check_x(const float *x)
{
    for (int j = 0; j < 5; j++)
        assert_true(x[j] == x[0] + (float)j / 4);
    assert_true(x[0] >= 0 && x[0] < ROWS && x[0] == floorf(x[0]));
    return (int64_t)x[0];
}

/* An epoch of images, label and x: every row once, in its own values. */
static inline void check_epoch(stk_dataset *dataset, const stk_loader_options *options)
{
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    uint64_t seen[ROWS] = {0};
    stk_status status;
    stk_error err;

    assert_int_equal(dataset->size, ROWS);
    assert_ok(stk_loader_create(dataset, options, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor image = {.struct_size = sizeof image}, label = image, x = image;
        assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
        assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
        assert_int_equal(stk_batch_find(batch, "x", &x), STK_OK);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++) {
            const int64_t row = check_x((const float *)x.data + 5 * i);
            check_image((const uint8_t *)image.data + 36 * i, row);
            assert_int_equal(((const int64_t *)label.data)[i], label_of(row));
            seen[row]++;
        }
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
    stk_loader_destroy(&loader);
}

/* Put a file of the folder into a store. */
static inline void put_golden(stk_store *store, const char *key, const char *name)
{
    static char data[65536];
    char path[512];
    stk_error err;

    snprintf(path, sizeof path, GOLDEN "%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_true(size < sizeof data);
    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
}

#endif

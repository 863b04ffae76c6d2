/* Small arrays written for the tests of windows, and reading a dataset whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DATASET_WINDOWS_H
#define STK_TESTS_UNIT_DATASET_WINDOWS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/window.h"
#include "support/support.h"

typedef struct made {
    stk_dtype dtype;
    int64_t shape[3], chunk[3], shard[3]; /* shard[0] 0: none */
    const char *codec, *attributes;
    double (*value)(int64_t place); /* of an element by its number in C order */
} made;

static inline double own_number(int64_t place)
{
    return (double)place;
}

/* A 3-dimensional array time, y, x. */
static inline void make_array(stk_context *ctx, const char *url, const made *a)
{
    static const char *const names[] = {"time", "y", "x"};
    const int64_t start[3] = {0};
    const size_t n = (size_t)(a->shape[0] * a->shape[1] * a->shape[2]);
    const size_t size = stk_dtype_size(a->dtype);
    const float fill = -1;
    stk_array_writer_options o = {.struct_size = sizeof o,
                                  .dtype = a->dtype,
                                  .rank = 3,
                                  .shape = a->shape,
                                  .chunk_shape = a->chunk,
                                  .shard_shape = a->shard[0] ? a->shard : NULL,
                                  .codec = a->codec ? a->codec : "zstd",
                                  .level = STK_AUTO,
                                  .fill_value = a->dtype == STK_FLOAT32 ? &fill : NULL,
                                  .dimension_names = names,
                                  .attributes = a->attributes};
    stk_array_writer *writer;
    stk_error err;
    char *data = malloc(n * size);

    assert_non_null(data);
    for (size_t i = 0; i < n; i++) {
        double value = (a->value ? a->value : own_number)((int64_t)i);
        float single = (float)value;
        int16_t small = a->dtype == STK_INT16 ? (int16_t)value : 0;
        if (a->dtype == STK_FLOAT32)
            memcpy(data + i * size, &single, size);
        else if (a->dtype == STK_INT16)
            memcpy(data + i * size, &small, size);
        else
            memcpy(data + i * size, &value, size);
    }
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, a->shape, data, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    free(data);
}

/* A one-dimensional array of at most 16 doubles, cast to `dtype`. */
static inline void make_coordinate(stk_context *ctx, const char *url, const char *name,
                                   stk_dtype dtype, const char *type_name, const char *attributes,
                                   const double *values, int64_t n)
{
    const int64_t start[1] = {0};
    const char *names[1] = {name};
    stk_array_writer_options o;
    stk_array_writer *writer;
    char data[16 * 8];
    stk_error err;

    assert_true(n <= 16);
    for (int64_t i = 0; i < n; i++) {
        const float single = (float)values[i];
        const int64_t whole = isnan(values[i]) ? INT64_MIN : (int64_t)values[i];
        const int16_t small = (int16_t)whole;
        if (dtype == STK_FLOAT64)
            memcpy(data + 8 * i, &values[i], 8);
        else if (dtype == STK_FLOAT32)
            memcpy(data + 4 * i, &single, 4);
        else if (dtype == STK_INT16)
            memcpy(data + 2 * i, &small, 2);
        else
            memcpy(data + 8 * i, &whole, 8);
    }
    stk_array_writer_options_init(&o);
    o.dtype = dtype;
    o.type_name = type_name;
    o.rank = 1;
    o.shape = o.chunk_shape = &n;
    o.dimension_names = names;
    o.attributes = attributes;
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, &n, data, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static inline stk_dataset *open_windows(stk_context *ctx, const char *spec)
{
    stk_dataset *dataset;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    return dataset;
}

/* Options of array:mem://w that cannot be had, and a part of what is said of each. */
typedef struct refused {
    const char *options;
    stk_status status;
    const char *part;
} refused;

static inline void assert_refused(stk_context *ctx, const refused *cases, size_t n)
{
    stk_dataset *dataset;
    stk_error err;
    char spec[256];

    for (size_t i = 0; i < n; i++) {
        snprintf(spec, sizeof spec, "array:mem://w?%s", cases[i].options);
        assert_fails(stk_dataset_open(ctx, spec, &dataset, &err), cases[i].status, &err,
                     cases[i].part);
    }
}

static inline stk_loader_options window_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = 8;
    o.num_workers = 1;
    o.memory_budget = 64 << 20;
    o.epochs = 1;
    return o;
}

/* All of an epoch; returns the figures at its end. */
static inline stk_loader_stats epoch(stk_loader *loader, uint64_t *samples)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_batch *batch;
    stk_error err;
    stk_status status;

    *samples = 0;
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        *samples += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    stk_loader_get_stats(loader, &stats);
    return stats;
}

/* The first batch of a loader, which stays open; ends both with close_batch(). */
typedef struct delivery {
    stk_loader *loader;
    stk_batch *batch;
} delivery;

static inline delivery first_batch(stk_dataset *dataset, const stk_loader_options *options)
{
    stk_loader_options o = options ? *options : window_options();
    delivery d;
    stk_error err;

    assert_ok(stk_loader_create(dataset, &o, &d.loader, &err), &err);
    assert_ok(stk_loader_next(d.loader, 30000, &d.batch, &err), &err);
    return d;
}

static inline void close_batch(delivery *d)
{
    stk_batch_release(&d->batch);
    stk_loader_destroy(&d->loader);
}

static inline const void *field_of(const delivery *d, const char *name, stk_tensor *out)
{
    assert_int_equal(stk_batch_find(d->batch, name, out), STK_OK);
    return out->data;
}

#endif

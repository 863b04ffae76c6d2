/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array again, in other chunks:
 *
 *   07_rechunk maps.zarr windows.zarr 4x32x32
 *   07_rechunk made-up:960x128x256 maps.zarr 1x128x256     maps made up, to try things with
 *
 * Without arguments: small ones, in a folder of their own, read back and compared.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp() */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/array.h>

#define MADE_UP "made-up:"
#define DIMS    3 /* of what is made up */

/* What is copied: from an array, or from nowhere. */
struct source {
    stk_array *array;
    uint32_t rank;
    int64_t shape[STK_ARRAY_MAX_RANK];
};

static int failed(stk_status status, const stk_error *err)
{
    fprintf(stderr, "07_rechunk: %s: %s\n", stk_status_name(status), err->text);
    return 1;
}

/* "4x32x32" -> numbers; how many, or 0. */
static uint32_t parse(const char *text, int64_t *out)
{
    for (uint32_t n = 0; n < STK_ARRAY_MAX_RANK; text++) {
        char *end;
        out[n++] = strtoll(text, &end, 10);
        if (end == text || out[n - 1] < 1)
            return 0;
        if (*end == 0)
            return n;
        if (*end != 'x')
            return 0;
        text = end;
    }
    return 0;
}

/* Waves that travel with time, and noise that a codec cannot take away. */
static float value_at(int64_t time, int64_t y, int64_t x)
{
    uint64_t noise = (uint64_t)time * 0x9e3779b97f4a7c15u + (uint64_t)(y * 40503 + x);

    noise = (noise ^ noise >> 29) * 0xbf58476d1ce4e5b9u;
    return 280 + 20 * sinf((float)y / 40) + 5 * sinf((float)x / 20 + (float)time / 10) +
           (float)(noise >> 56) / 64;
}

/* The elements of the first dimension from `start` on, `count` of them, whole. */
static stk_status read_band(struct source *source, int64_t start, int64_t count, void *out,
                            uint64_t bytes, stk_error *err)
{
    int64_t first[STK_ARRAY_MAX_RANK] = {start}, shape[STK_ARRAY_MAX_RANK];
    float *at = out;

    memcpy(shape, source->shape, sizeof shape);
    shape[0] = count;
    const stk_array_box box = {first, shape, NULL};
    if (source->array)
        return stk_array_read(source->array, &box, out, bytes, NULL, -1, err);
    for (int64_t t = start; t < start + count; t++)
        for (int64_t y = 0; y < shape[1]; y++)
            for (int64_t x = 0; x < shape[2]; x++)
                *at++ = value_at(t, y, x);
    return STK_OK;
}

/* Bands as high as a chunk, so that of each one a whole number of chunks is written; they hold some
 * of the source's, too, so that each of those is read once. */
static stk_status copy(struct source *source, stk_array_writer *writer, int64_t height,
                       uint64_t row_bytes, stk_error *err)
{
    stk_status status = STK_OK;
    int64_t start[STK_ARRAY_MAX_RANK] = {0}, shape[STK_ARRAY_MAX_RANK];
    void *band = malloc((uint64_t)height * row_bytes);

    memcpy(shape, source->shape, sizeof shape);
    if (!band) {
        snprintf(err->text, sizeof err->text, "no memory for %" PRId64 " rows of chunks", height);
        return STK_ENOMEM;
    }
    for (; start[0] < source->shape[0] && status == STK_OK; start[0] += height) {
        const int64_t left = source->shape[0] - start[0];
        shape[0] = left < height ? left : height;
        status = read_band(source, start[0], shape[0], band, (uint64_t)shape[0] * row_bytes, err);
        if (status == STK_OK)
            status = stk_array_writer_write(writer, start, shape, band, err);
    }
    free(band);
    return status;
}

static stk_status rechunk(stk_context *context, const char *from, const char *to,
                          const char *chunks, stk_error *err)
{
    struct source source = {0};
    stk_array_writer *writer = NULL;
    stk_array_writer_options options;
    int64_t chunk[STK_ARRAY_MAX_RANK];
    stk_status status = STK_OK;

    stk_error_init(err);
    stk_array_writer_options_init(&options);
    options.dtype = STK_FLOAT32;
    if (strncmp(from, MADE_UP, strlen(MADE_UP)) == 0) {
        source.rank = parse(from + strlen(MADE_UP), source.shape);
    } else {
        status = stk_array_open(context, from, NULL, &source.array, err);
        if (status != STK_OK)
            return status;
        const stk_array_info *info = stk_array_get_info(source.array);
        source.rank = info->rank;
        memcpy(source.shape, info->shape, info->rank * sizeof *info->shape);
        options.dtype = info->dtype;
        options.type_name = info->dtype == STK_INT64 ? info->type_name : NULL;
        options.fill_value = info->fill_value;
        options.attributes = info->attributes;
        options.dimension_names = info->dimension_names;
    }
    if (source.rank == 0 || parse(chunks, chunk) != source.rank ||
        (!source.array && source.rank != DIMS)) {
        snprintf(err->text, sizeof err->text,
                 "'%s' and '%s': give a chunk for each dimension, as 4x32x32", from, chunks);
        status = STK_EINVAL;
    }
    options.rank = source.rank;
    options.shape = source.shape;
    options.chunk_shape = chunk;
    uint64_t row_bytes = stk_dtype_size(options.dtype);
    for (uint32_t d = 1; d < source.rank; d++)
        row_bytes *= (uint64_t)source.shape[d];
    if (status == STK_OK)
        status = stk_array_writer_create(context, to, &options, &writer, err);
    int64_t height = chunk[0];
    if (status == STK_OK && source.array)
        while (height < stk_array_get_info(source.array)->chunk_shape[0])
            height += chunk[0];
    if (status == STK_OK)
        status = copy(&source, writer, height, row_bytes, err);
    if (status == STK_OK)
        status = stk_array_writer_finish(&writer, err);
    stk_array_writer_abandon(&writer);
    stk_array_close(&source.array);
    return status;
}

/* The first values of an array; how many differ from what was made up. */
static int wrong_values(stk_context *context, const char *url, stk_error *err)
{
    const int64_t start[] = {2, 3, 5}, shape[] = {4, 4, 4};
    float values[4 * 4 * 4];
    stk_array *array;
    int wrong = 0;

    if (stk_array_open(context, url, NULL, &array, err) != STK_OK)
        return -1;
    if (stk_array_read(array, &(stk_array_box){start, shape, NULL}, values, sizeof values, NULL, -1,
                       err) != STK_OK)
        wrong = -1;
    for (int i = 0; i < 64 && wrong >= 0; i++)
        wrong += values[i] != value_at(2 + i / 16, 3 + i / 4 % 4, 5 + i % 4);
    stk_array_close(&array);
    return wrong;
}

static stk_status try_it(stk_context *context, stk_error *err)
{
    char folder[] = "/tmp/rechunk-XXXXXX", maps[64], windows[64];

    if (!mkdtemp(folder)) {
        snprintf(err->text, sizeof err->text, "no folder %s could be made", folder);
        return STK_EIO;
    }
    snprintf(maps, sizeof maps, "%s/maps.zarr", folder);
    snprintf(windows, sizeof windows, "%s/windows.zarr", folder);
    stk_status status = rechunk(context, MADE_UP "10x12x20", maps, "1x12x20", err);
    if (status == STK_OK)
        status = rechunk(context, maps, windows, "4x8x8", err);
    if (status != STK_OK)
        return status;
    const int wrong = wrong_values(context, windows, err);
    if (wrong < 0)
        return STK_EIO; /* err says why */
    printf("%s, %s: %d of 64 values differ\n", maps, windows, wrong);
    snprintf(err->text, sizeof err->text, "what was read is not what was written");
    return wrong == 0 ? STK_OK : STK_EFORMAT;
}

int main(int argc, char **argv)
{
    stk_context *context = NULL;
    stk_error err;

    if (argc != 1 && argc != 4) {
        fputs("usage: 07_rechunk SRC DST CHUNKS, as: 07_rechunk maps.zarr windows.zarr 4x32x32\n",
              stderr);
        return 2;
    }
    stk_status status = stk_context_create(NULL, &context, &err);
    if (status == STK_OK && argc == 1)
        status = try_it(context, &err);
    else if (status == STK_OK)
        status = rechunk(context, argv[1], argv[2], argv[3], &err);
    const int code = status == STK_OK ? 0 : failed(status, &err);
    stk_context_destroy(&context);
    return code;
}

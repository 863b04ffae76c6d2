/* SPDX-License-Identifier: Apache-2.0 */
/* An array in other chunks: 07_rechunk maps.zarr windows.zarr 4x64x64 (made-up maps if absent). */
#include <stdio.h>
#include <stdlib.h>

#include <stoker/array.h>

static stk_status make_up(stk_context *context, const char *url, stk_error *err)
{
    const int64_t shape[3] = {960, 128, 256}, chunk[3] = {1, 128, 256};
    static float map[128 * 256]; /* waves that travel, and noise that no codec takes away */
    stk_array_writer_options options;
    stk_array_writer *writer;

    stk_array_writer_options_init(&options);
    options.dtype = STK_FLOAT32;
    options.rank = 3;
    options.shape = shape;
    options.chunk_shape = chunk;
    stk_status status = stk_array_writer_create(context, url, &options, &writer, err);
    for (int64_t at[3] = {0}; status == STK_OK && at[0] < shape[0]; at[0]++) {
        for (int i = 0; i < 128 * 256; i++)
            map[i] = (float)((i + at[0] * 3) % 80 + i / 256) + (float)(rand() & 255) / 64;
        status = stk_array_writer_write(writer, at, chunk, map, err);
    }
    return status == STK_OK ? stk_array_writer_finish(&writer, err) : status;
}

/* As much of the first dimension at a time as a new chunk has: so each of them is written once. */
static stk_status rechunk(stk_context *context, stk_array *array, const char *url, const char *text,
                          stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(array);
    int64_t chunk[STK_ARRAY_MAX_RANK], at[STK_ARRAY_MAX_RANK] = {0}, shape[STK_ARRAY_MAX_RANK];
    const uint64_t row = info->bytes / (uint64_t)info->shape[0];
    stk_array_writer_options options;
    stk_array_writer *writer;

    for (uint32_t d = 0; d < info->rank; d++, text += *text == 'x') {
        chunk[d] = strtoll(text, (char **)&text, 10);
        shape[d] = info->shape[d];
    }
    stk_array_writer_options_init(&options);
    options.dtype = info->dtype;
    options.rank = info->rank;
    options.shape = info->shape;
    options.chunk_shape = chunk;
    void *band = malloc((uint64_t)chunk[0] * row);
    stk_status status =
        band ? stk_array_writer_create(context, url, &options, &writer, err) : STK_ENOMEM;
    for (; status == STK_OK && at[0] < info->shape[0]; at[0] += chunk[0]) {
        shape[0] = info->shape[0] - at[0] < chunk[0] ? info->shape[0] - at[0] : chunk[0];
        status = stk_array_read(array, &(stk_array_box){at, shape, NULL}, band,
                                (uint64_t)shape[0] * row, NULL, -1, err);
        if (status == STK_OK)
            status = stk_array_writer_write(writer, at, shape, band, err);
    }
    free(band);
    return status == STK_OK ? stk_array_writer_finish(&writer, err) : status;
}

int main(int argc, char **argv)
{
    char *own[] = {"", "mem://a", "mem://b", "4x64x64"}, **names = argc == 4 ? argv : own;
    stk_context *context = NULL;
    stk_array *array = NULL;
    stk_error err = {.text = "no memory"};

    stk_status status = stk_context_create(NULL, &context, &err);
    if (status == STK_OK)
        status = argc == 4 ? stk_array_open(context, names[1], NULL, &array, &err) : STK_ENOENT;
    if (status == STK_ENOENT && (status = make_up(context, names[1], &err)) == STK_OK)
        status = stk_array_open(context, names[1], NULL, &array, &err);
    if (status == STK_OK)
        status = rechunk(context, array, names[2], names[3], &err);
    stk_array_close(&array);
    stk_context_destroy(&context);
    return puts(status ? err.text : "done") < 0 || status;
}

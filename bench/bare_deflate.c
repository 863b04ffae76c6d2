/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of reading all in workload `netcdf`: libdeflate and the loop that puts shuffled bytes
 * back, alone. The chunks of an array of zlib and shuffle lie encoded in memory; `--threads`
 * threads decode them into buffers of their own, again and again. The array's own code tells where
 * they lie, before the time is taken; nothing is read, looked up or put in its place within it.
 */
#include <libdeflate.h>

#include "array/array.h"
#include "bare.h"
#include "codec/kernels.h"

static struct {
    size_t itemsize;
    const stk__codec_kernels *kernels;
} all;

static stk_error err;

static void must(stk_status status)
{
    if (status != STK_OK)
        bench_die("bare_deflate", err.text);
}

static void take_chunk(const stk_array *array, const stk__need *need)
{
    unsigned char *data = malloc((size_t)need->length + 1);
    char key[STK_MAX_OBJECT_KEY];

    if (!data || need->kind != STK__NEED_BYTES || need->length == STK__ARRAY_UNKNOWN)
        bench_die("bare_deflate", "the array does not say where each chunk lies");
    stk__array_key(array, need->object, key, sizeof key);
    must(stk_store_read(stk__array_store(array), key, need->offset, need->length, data, &err));
    bare.decoded = (size_t)need->decode_size;
    bare_add(data, (size_t)need->length);
}

static void take_chunks(stk_context *context, const char *url)
{
    stk_array *array = NULL;
    stk__walk *walk = NULL;
    stk_status status;
    stk__need need;
    stk__box box;

    must(stk_array_open(context, url, NULL, &array, &err));
    all.itemsize = stk_array_get_info(array)->itemsize;
    all.kernels = stk__codec_kernels_of(context);
    must(stk__array_box(array, NULL, &box, &err));
    must(stk__walk_create(array, &box, true, &walk));
    while ((status = stk__walk_next(walk, &need, &err)) == STK_OK)
        take_chunk(array, &need);
    if (status != STK_EOS)
        must(status);
    stk__walk_destroy(&walk);
    stk_array_close(&array);
}

static void *work(void *unused)
{
    struct libdeflate_decompressor *decoder = libdeflate_alloc_decompressor();
    uint8_t *planes = aligned_alloc(64, bare.decoded), *out = aligned_alloc(64, bare.decoded);

    if (!decoder || !planes || !out)
        bench_die("bare_deflate", "no memory");
    for (const struct bare_chunk *c; (c = bare_next());) {
        if (libdeflate_zlib_decompress(decoder, c->data, c->size, planes, bare.decoded, NULL) !=
            LIBDEFLATE_SUCCESS)
            bench_die("bare_deflate", "a chunk is damaged, or no zlib stream");
        all.kernels->unshuffle(planes, out, bare.decoded / all.itemsize, all.itemsize, false);
        bare.done++;
    }
    libdeflate_free_decompressor(decoder);
    free(planes);
    free(out);
    return unused;
}

int main(int argc, char **argv)
{
    stk_context *context = NULL;

    bench_known(argc, argv, "url seconds threads");
    must(stk_context_create(NULL, &context, &err));
    take_chunks(context, bench_text(argc, argv, "url", ""));
    bare_run("W7-netcdf-all", argc, argv, work);
    stk_context_destroy(&context);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The index of chunks from its file beside the data, or from the data, with the file written. */
#include "array/hdf5/index_file.h"

#include <stdio.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "array/hdf5/chunks.h"
#include "array/hdf5/sidecar.h"

/* A file that changed within this time before it was indexed may have changed after it with no
 * other time to show for it: the coarsest clock of a file system ticks every two seconds. */
#define RACY_NS INT64_C(2000000000)

static uint64_t fingerprint(const stk__hdf5 *f, const stk__hdf5_dataset *d)
{
    const stk__hdf5_layout *l = &d->layout;
    const uint64_t head[] = {f->base,           l->address,  l->indexing,
                             d->filters->count, l->itemsize, l->edges_unfiltered};
    const size_t bytes = d->space.rank * sizeof(uint64_t);

    uint64_t hash = XXH64(head, sizeof head, 0);
    hash = XXH64(d->shape, bytes, hash);
    hash = XXH64(l->chunk, bytes, hash);
    hash = XXH64(d->space.shape, bytes, hash);
    return XXH64(d->space.most, bytes, hash);
}

static uint64_t count_chunks(const stk__hdf5_dataset *d)
{
    uint64_t total = 1;

    for (uint32_t i = 0; i < d->space.rank; i++) {
        const uint64_t shape = (uint64_t)d->shape[i], chunk = (uint64_t)d->layout.chunk[i];
        if (!stk__mul_size(total, stk__divide_up(shape, chunk), &total))
            return UINT64_MAX;
    }
    return total;
}

static bool key_of(const stk__hdf5 *f, char key[STK_MAX_OBJECT_KEY])
{
    const char *slash = strrchr(f->key, '/'), *name = slash ? slash + 1 : f->key;

    return snprintf(key, STK_MAX_OBJECT_KEY, "%.*s.%s" STK__SIDECAR_ENDING, (int)(name - f->key),
                    f->key, name) < STK_MAX_OBJECT_KEY;
}

/* The whole file; NULL: there is none that can be read. */
static uint8_t *load(const stk__hdf5 *f, const char *key, uint64_t *length)
{
    stk_object_info info = {.struct_size = sizeof info};

    if (stk_store_stat(f->store, key, NULL, &info, NULL) != STK_OK || info.is_folder ||
        info.size > f->memory / 2)
        return NULL;
    uint8_t *data = stk__alloc(f->ctx, info.size);
    if (data && stk_store_read(f->store, key, 0, info.size, data, NULL) != STK_OK) {
        stk__free(f->ctx, data);
        data = NULL;
    }
    *length = info.size;
    return data;
}

/* Not in other stores than local folders, nor where those may not be written, nor of a file that is
 * another one by now. */
static bool may_write(const stk__hdf5 *f)
{
    const int folder = stk__file_root(f->store);
    const int64_t now = (int64_t)(stk__wall_seconds() * 1e9);
    stk_object_info info = {.struct_size = sizeof info};
    struct stat st;

    return folder >= 0 && fstat(folder, &st) == 0 && (st.st_mode & 0222) &&
           f->mtime_ns < now - RACY_NS &&
           stk_store_stat(f->store, f->key, NULL, &info, NULL) == STK_OK &&
           info.identity == f->identity;
}

/* Without it everything works as well: what went wrong is a remark. */
static void save(const stk__hdf5 *f, const char *key, const stk__sidecar_of *of,
                 const stk__hdf5_index *index)
{
    void *data = NULL;
    uint64_t length = 0, old_length = 0;
    stk_error err;

    stk_error_init(&err);
    uint8_t *old = load(f, key, &old_length);
    stk_status status = stk__sidecar_make(f->ctx, old, old_length, of, index, &data, &length);
    if (status == STK_OK)
        status = stk_store_put(f->store, key, data, length, NULL, &err);
    if (status != STK_OK)
        stk__message(
            f->ctx, STK_MESSAGE_DEBUG,
            "hdf5: the index %s could not be written, and chunks are looked for each time: "
            "%.300s",
            key, *err.text ? err.text : stk_status_text(status));
    stk__free(f->ctx, data);
    stk__free(f->ctx, old);
}

stk_status stk__hdf5_index_of(stk__hdf5 *f, const stk__hdf5_dataset *d, bool kept,
                              stk__hdf5_index *out)
{
    char key[STK_MAX_OBJECT_KEY];
    const stk__sidecar_of of = {.file_bytes = f->size,
                                .identity = f->identity,
                                .dataset = d->way.address,
                                .fingerprint = fingerprint(f, d),
                                .most_chunks = count_chunks(d),
                                .most_memory = f->memory / 2};
    uint64_t length = 0;

    *out = (stk__hdf5_index){0};
    kept = kept && of.most_chunks >= STK__SIDECAR_LEAST && key_of(f, key);
    uint8_t *data = kept ? load(f, key, &length) : NULL;
    if (data) {
        const stk_status status = stk__sidecar_parse(f->ctx, data, length, &of, out);
        stk__free(f->ctx, data);
        if (status == STK_OK)
            return STK_OK;
        stk__message(f->ctx, STK_MESSAGE_DEBUG, "hdf5: the index %s is not used: %s", key,
                     stk_status_text(status));
    }
    STK_TRY(stk__hdf5_chunks_find(f, &d->layout, &d->space, d->shape, d->filters->count, out));
    if (kept && out->count >= STK__SIDECAR_LEAST && may_write(f))
        save(f, key, &of, out);
    return STK_OK;
}

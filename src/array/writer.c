/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing Zarr v3. The metadata is made first and opened as a reader would: so the grid, the key
 * rule and the chain are those that it will be read with.
 */
#include "array/writer.h"

#include <stdio.h>

#include "array/zarr.h"
#include "base/sized.h"

struct stk_array_writer {
    stk_context *context;
    stk_array *array; /* as it will be read; without I/O */
    json_t *metadata;
    char *prefix;
};

/* ---- Beginning and ending ---- */

static stk_status check_free(stk_store *store, const char *prefix, const char *url, stk_error *err)
{
    static const char *const names[] = {STK__ZARR_V3, STK__ZARR_V2_ARRAY, STK__ZARR_V2_GROUP};
    stk__presence is = STK__IS_NOTHING;
    char key[STK_MAX_OBJECT_KEY];

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        STK_TRY(stk__key_below(prefix, names[i], key, err));
        STK_TRY(stk__store_look(store, key, &is, err));
        if (is != STK__IS_NOTHING)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "'%.200s' is an array or a group already; choose another name, or "
                                "remove it first",
                                url);
    }
    return STK_OK;
}

static stk_status make_writer(stk_context *ctx, stk_store **store, const char *prefix,
                              json_t *metadata, stk_array_writer **out, stk_error *err)
{
    stk_array_options options;
    stk_status status = STK_ENOMEM;

    stk_array_writer *w = stk__calloc(ctx, 1, sizeof *w);
    stk__shared_store *shared = stk__calloc(ctx, 1, sizeof *shared);
    char *copy = stk__strdup(ctx, prefix), *key = stk__format(ctx, "%s%s", prefix, STK__ZARR_V3);
    if (!w || !shared || !copy || !key) {
        stk__free(ctx, w);
        stk__free(ctx, shared);
        stk__free(ctx, copy);
        stk__free(ctx, key);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write an array");
    }
    shared->store = *store;
    *store = NULL;
    atomic_init(&shared->refs, 1);
    w->context = stk__context_ref(ctx);
    w->prefix = copy;
    w->metadata = json_incref(metadata);
    status = stk__array_settle(ctx, NULL, &options, err);
    if (status == STK_OK)
        status = stk__array_create(ctx, shared, prefix, &options, &w->array, err);
    stk__shared_unref(shared);
    if (status == STK_OK) {
        w->array->metadata_key = key;
        key = NULL;
        status = stk__zarr_v3(w->array, metadata, w->array->metadata_key, err);
    }
    stk__free(ctx, key);
    if (status != STK_OK)
        stk_array_writer_abandon(&w);
    *out = w;
    return status;
}

stk_status stk_array_writer_create(stk_context *context, const char *url,
                                   const stk_array_writer_options *options, stk_array_writer **out,
                                   stk_error *err)
{
    char prefix[STK_MAX_OBJECT_KEY];
    stk_array_writer_options o;
    stk_store *store = NULL;
    json_t *metadata = NULL;

    if (!context || !url || !options || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_writer_create: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_array_writer_options_init(&o);
    STK_TRY(
        stk__sized_read(&o, sizeof o, options, "stk_array_writer_options", STK_STAGE_ARRAY, err));
    STK_TRY(stk__writer_metadata(context, &o, &metadata, err));
    stk_status status = stk__put_folder_open(context, url, &store, prefix, err);
    if (status == STK_OK)
        status = check_free(store, prefix, url, err);
    if (status == STK_OK)
        status = make_writer(context, &store, prefix, metadata, out, err);
    stk_store_close(&store);
    json_decref(metadata);
    return status;
}

void stk_array_writer_abandon(stk_array_writer **writer)
{
    stk_array_writer *w = writer ? *writer : NULL;

    if (!w)
        return;
    *writer = NULL;
    if (stk__context_forked(w->context))
        return;
    stk_context *ctx = w->context;
    stk_array_close(&w->array);
    json_decref(w->metadata);
    stk__free(ctx, w->prefix);
    stk__free(ctx, w);
    stk__context_unref(ctx);
}

stk_status stk_array_writer_finish(stk_array_writer **writer, stk_error *err)
{
    stk_array_writer *w = writer ? *writer : NULL;

    if (!w)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_writer_finish: the writer is NULL");
    stk_status status = stk__context_check(w->context, err);
    if (status == STK_OK)
        status = stk__array_put_json(stk__array_store(w->array), w->array->metadata_key,
                                     w->metadata, err);
    stk_array_writer_abandon(writer);
    return status;
}

/* ---- Objects ---- */

/* Memory of one call that writes. */
typedef struct work {
    const stk_array *array;
    const stk__box *box;
    const void *data;
    const int64_t *strides;
    stk__codec_state *state;
    unsigned char *chunk; /* decoded */
    unsigned char *blob;  /* what becomes the object */
    uint64_t length, room;
    uint64_t *index; /* of a shard; NULL: without shards */
    bool any;        /* something but fill value was found */
} work;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write chunks of an array");
}

static bool grow(work *w, uint64_t more)
{
    uint64_t needed;

    if (!stk__add_size(w->length, more, &needed) || needed > SIZE_MAX / 4)
        return false;
    unsigned char *grown = stk__grow(w->array->context, w->blob, &w->room, needed, 1);
    if (grown)
        w->blob = grown;
    return grown;
}

static bool is_fill(const stk_array *a, const unsigned char *chunk)
{
    uint64_t item = a->type.itemsize;

    return memcmp(chunk, a->fill, item) == 0 &&
           memcmp(chunk, chunk + item, a->chunk_bytes - item) == 0;
}

static void put_fill(const stk_array *a, unsigned char *chunk)
{
    if (a->fill_is_zero) {
        memset(chunk, 0, a->chunk_bytes);
        return;
    }
    for (uint64_t at = 0; at < a->chunk_bytes; at += a->type.itemsize)
        memcpy(chunk + at, a->fill, a->type.itemsize);
}

/* Append one chunk to the object, unless it is all fill value. */
static stk_status add_chunk(work *w, const int64_t *at, uint64_t place, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *leaf = &a->levels[a->num_levels - 1];
    stk__need need = {.kind = STK__NEED_BYTES};
    uint64_t bound = stk__chain_bound(a->chain), length = 0;
    const char *reason = "";
    bool edge = false;

    for (uint32_t d = 0; d < a->rank; d++) {
        if (at[d] >= leaf->count[d])
            return STK_OK; /* beyond the array: absent */
        need.chunk = need.chunk * (uint64_t)leaf->count[d] + (uint64_t)at[d];
        edge |= a->shape[d] - at[d] * leaf->shape[d] < leaf->shape[d];
    }
    if (edge)
        put_fill(a, w->chunk);
    stk__array_gather(a, w->box, &need, w->data, w->strides, w->chunk);
    if (is_fill(a, w->chunk))
        return STK_OK;
    w->any = true;
    if (!grow(w, bound))
        return no_memory(err);
    stk_status status = stk__chain_encode(a->chain, w->state, w->chunk, a->chunk_bytes,
                                          w->blob + w->length, bound, &length, &reason);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_ARRAY, "a chunk could not be encoded: %s", reason);
    if (w->index) {
        w->index[2 * place] = w->length;
        w->index[2 * place + 1] = length;
    }
    w->length += length;
    return STK_OK;
}

static stk_status add_index(work *w, stk_error *err)
{
    const stk__level *shard = &w->array->levels[0];
    uint64_t bound = stk__chain_bound(shard->index_chain), length = 0;
    const char *reason = "";

    if (!grow(w, bound))
        return no_memory(err);
    stk_status status =
        stk__chain_encode(shard->index_chain, w->state, w->index, shard->inner_total * 16,
                          w->blob + w->length, bound, &length, &reason);
    if (status != STK_OK)
        return stk__fail(err, status, STK_STAGE_ARRAY, "a shard index could not be encoded: %s",
                         reason);
    w->length += length;
    return STK_OK;
}

/* Write the object at these coordinates of the outermost grid. */
static stk_status write_object(work *w, const int64_t *at, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *outer = &a->levels[0];
    int64_t inner[STK_ARRAY_MAX_RANK] = {0}, chunk[STK_ARRAY_MAX_RANK];
    char key[STK_MAX_OBJECT_KEY];
    uint64_t object = 0, total = w->index ? outer->inner_total : 1;

    w->length = 0;
    w->any = false;
    if (w->index)
        memset(w->index, 0xff, total * 16);
    for (uint64_t place = 0; place < total; place++) {
        for (uint32_t d = 0; d < a->rank; d++)
            chunk[d] = w->index ? at[d] * outer->inner[d] + inner[d] : at[d];
        STK_TRY(add_chunk(w, chunk, place, err));
        for (uint32_t d = a->rank; w->index && d-- > 0;) {
            if (++inner[d] < outer->inner[d])
                break;
            inner[d] = 0;
        }
    }
    if (!w->any)
        return STK_OK;
    if (w->index)
        STK_TRY(add_index(w, err));
    for (uint32_t d = 0; d < a->rank; d++)
        object = object * (uint64_t)outer->count[d] + (uint64_t)at[d];
    stk__array_key(a, object, key, sizeof key);
    return stk_store_put(stk__array_store(a), key, w->blob, w->length, NULL, err);
}

static stk_status check_box(const stk_array *a, const stk__box *box, stk_error *err)
{
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t unit = a->levels[0].shape[d], end = box->start[d] + box->shape[d];
        if (box->start[d] % unit != 0 || (end % unit != 0 && end != a->shape[d]))
            return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                             "a box from %lld to %lld does not begin and end at objects of %lld in "
                             "dimension %u; write whole ones, up to the end of the array",
                             (long long)box->start[d], (long long)end, (long long)unit, d);
    }
    return STK_OK;
}

static stk_status write_all(work *w, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *outer = &a->levels[0];
    int64_t low[STK_ARRAY_MAX_RANK], high[STK_ARRAY_MAX_RANK], at[STK_ARRAY_MAX_RANK];

    for (uint32_t d = 0; d < a->rank; d++) {
        if (w->box->shape[d] == 0)
            return STK_OK;
        low[d] = at[d] = w->box->start[d] / outer->shape[d];
        high[d] = (w->box->start[d] + w->box->shape[d] - 1) / outer->shape[d];
    }
    for (;;) {
        uint32_t d = a->rank;
        STK_TRY(write_object(w, at, err));
        while (d > 0 && at[d - 1] == high[d - 1]) {
            d--;
            at[d] = low[d];
        }
        if (d == 0)
            return STK_OK;
        at[d - 1]++;
    }
}

stk_status stk_array_writer_write(stk_array_writer *writer, const int64_t *start,
                                  const int64_t *shape, const void *data, stk_error *err)
{
    stk_array_box wanted = {.start = start, .shape = shape};
    int64_t strides[STK_ARRAY_MAX_RANK];
    stk__box box;

    if (!writer || !data)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_writer_write: an argument is NULL");
    STK_TRY(stk__context_check(writer->context, err));
    stk_array *a = writer->array;
    stk_context *ctx = a->context;
    STK_TRY(stk__array_box(a, &wanted, &box, err));
    STK_TRY(check_box(a, &box, err));
    stk__array_strides(a->rank, box.shape, a->type.itemsize, strides);
    work w = {.array = a, .box = &box, .data = data, .strides = strides};
    stk_status status = stk__state_take(a, &w.state, err);
    if (status == STK_OK && !(w.chunk = stk__alloc_buffer(ctx, a->chunk_bytes)))
        status = no_memory(err);
    if (status == STK_OK && a->num_levels > 1 &&
        !(w.index = stk__alloc(ctx, a->levels[0].inner_total * 16)))
        status = no_memory(err);
    if (status == STK_OK)
        status = write_all(&w, err);
    stk__free(ctx, w.index);
    stk__free(ctx, w.blob);
    stk__free(ctx, w.chunk);
    stk__state_give(a, w.state);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing Zarr. The metadata is made first and opened as a reader would: so the grid, the key rule
 * and the chain are those that it will be read with.
 */
#include "array/writer.h"

#include <stdio.h>

#include "array/texts.h"
#include "array/zarr.h"
#include "base/sized.h"

struct stk_array_writer {
    stk_context *context;
    stk_array *array;          /* as it will be read; without I/O */
    json_t *metadata, *zattrs; /* zattrs: of version 2, else NULL */
    bool whole;                /* chunks of fill value alone are written, too */
};

/* ---- Beginning and ending ---- */

/* The array as it will be read; `shared` may be NULL where nothing is put by the writer itself. */
static stk_status make_array(stk_array_writer *w, stk__shared_store *shared, const char *prefix,
                             stk_error *err)
{
    stk_context *ctx = w->context;
    stk_array_options options;

    STK_TRY(stk__array_settle(ctx, NULL, &options, err));
    STK_TRY(stk__array_create(ctx, shared, prefix, &options, &w->array, err));
    w->array->metadata_key =
        stk__format(ctx, "%s%s", prefix, w->zattrs ? STK__ZARR_V2_ARRAY : STK__ZARR_V3);
    if (!w->array->metadata_key)
        return stk__array_no_memory(w->array, err);
    if (w->zattrs)
        return stk__zarr_v2(w->array, w->metadata, w->zattrs, w->array->metadata_key, err);
    return stk__zarr_v3(w->array, w->metadata, w->array->metadata_key, err);
}

static stk_status make_writer(stk_context *ctx, stk__shared_store *shared, const char *prefix,
                              const stk_array_writer_options *options, stk_array_writer **out,
                              stk_error *err)
{
    stk_array_writer *w = stk__calloc(ctx, 1, sizeof *w);

    if (!w)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to write an array");
    w->context = stk__context_ref(ctx);
    w->whole = options->no_fill_value || options->write_empty_chunks;
    stk_status status = stk__writer_metadata(ctx, options, &w->metadata, &w->zattrs, err);
    if (status == STK_OK)
        status = make_array(w, shared, prefix, err);
    if (status != STK_OK)
        stk_array_writer_abandon(&w);
    *out = w;
    return status;
}

static stk_status read_options(const stk_array_writer_options *theirs,
                               stk_array_writer_options *out, stk_error *err)
{
    stk_array_writer_options_init(out);
    return stk__sized_read(out, sizeof *out, theirs, "stk_array_writer_options", STK_STAGE_ARRAY,
                           err);
}

stk_status stk_array_writer_create(stk_context *context, const char *url,
                                   const stk_array_writer_options *options, stk_array_writer **out,
                                   stk_error *err)
{
    char prefix[STK_MAX_OBJECT_KEY];
    stk_array_writer_options o;
    stk_store *store = NULL;
    stk__shared_store *shared = NULL;

    if (!context || !url || !options || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_writer_create: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(read_options(options, &o, err));
    STK_TRY(stk__put_folder_open(context, url, &store, prefix, err));
    stk_status status = stk__writer_check_free(store, prefix, url, err);
    if (status == STK_OK)
        status = stk__shared_create(&store, &shared, err);
    if (status == STK_OK)
        status = make_writer(context, shared, prefix, &o, out, err);
    stk__shared_unref(shared);
    stk_store_close(&store);
    return status;
}

stk_status stk__array_writer_plan(stk_context *ctx, const stk_array_writer_options *options,
                                  stk_array_writer **out, stk_error *err)
{
    stk_array_writer_options o;

    *out = NULL;
    STK_TRY(read_options(options, &o, err));
    return make_writer(ctx, NULL, "", &o, out, err);
}

stk_status stk__array_writer_open(const stk_array_writer *writer, const char *url, stk_array **out,
                                  stk_error *err)
{
    stk_array_writer as = {
        .context = writer->context, .metadata = writer->metadata, .zattrs = writer->zattrs};
    char prefix[STK_MAX_OBJECT_KEY];
    stk__shared_store *shared = NULL;
    stk_store *store = NULL;

    *out = NULL;
    STK_TRY(stk__put_folder_open(as.context, url, &store, prefix, err));
    stk_status status = stk__shared_create(&store, &shared, err);
    if (status == STK_OK)
        status = make_array(&as, shared, prefix, err);
    stk__shared_unref(shared);
    stk_store_close(&store);
    if (status != STK_OK)
        stk_array_close(&as.array);
    *out = as.array;
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
    json_decref(w->zattrs);
    stk__free(ctx, w);
    stk__context_unref(ctx);
}

static stk_status put_metadata(stk_array_writer *w, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    if (w->zattrs) {
        STK_TRY(stk__key_below(w->array->prefix, STK__ZARR_V2_ATTRS, key, err));
        STK_TRY(stk__array_put_json(stk__array_store(w->array), key, w->zattrs, err));
    }
    return stk__array_put_json(stk__array_store(w->array), w->array->metadata_key, w->metadata,
                               err);
}

stk_status stk_array_writer_finish(stk_array_writer **writer, stk_error *err)
{
    stk_array_writer *w = writer ? *writer : NULL;

    if (!w)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_writer_finish: the writer is NULL");
    stk_status status = stk__context_check(w->context, err);
    if (status == STK_OK)
        status = put_metadata(w, err);
    stk_array_writer_abandon(writer);
    return status;
}

const stk_array *stk__array_writer_array(const stk_array_writer *writer)
{
    return writer->array;
}

const json_t *stk__array_writer_metadata(const stk_array_writer *writer, const json_t **zattrs)
{
    *zattrs = writer->zattrs;
    return writer->metadata;
}

/* ---- Objects ---- */

/* Memory of a thread that writes. */
struct stk__encoder {
    stk_array *array; /* which keeps states */
    stk__codec_state *state;
    unsigned char *chunk; /* decoded */
    uint8_t *texts;       /* of elements of varying length: what its codecs get */
    size_t texts_room;
    unsigned char *blob; /* what becomes the object */
    size_t length, room;
    uint64_t *index; /* of a shard; NULL: without shards */
    bool whole;      /* chunks of fill value alone are written, too */
    bool any;        /* something but fill value was found */
    /* Of the box that is written: */
    const stk__box *box;
    const void *data;
    const int64_t *strides;
};

typedef stk__encoder work;

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

    if (stk__type_varies(&a->type))
        return stk__texts_are_fill(a, (const stk_array_string *)(const void *)chunk);
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

/* What the codecs get of the chunk, and the room that they want. */
static stk_status plain_chunk(work *w, const void **data, uint64_t *size, uint64_t *bound,
                              stk_error *err)
{
    const stk_array *a = w->array;
    const stk_array_string *elements = (const stk_array_string *)(const void *)w->chunk;

    *data = w->chunk;
    *size = a->chunk_bytes;
    *bound = stk__chain_bound(a->chain);
    if (!stk__type_varies(&a->type))
        return STK_OK;
    STK_TRY(stk__texts_encode(a, elements, &w->texts, &w->texts_room, size, err));
    *data = w->texts;
    *bound = stk__chain_bound_varying(a->chain, *size);
    return STK_OK;
}

/* Append one chunk to the object, unless it is all fill value. */
static stk_status add_chunk(work *w, const int64_t *at, uint64_t place, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *leaf = &a->levels[a->num_levels - 1];
    stk__need need = {.kind = STK__NEED_BYTES};
    uint64_t size, bound, length = 0;
    const char *reason = "";
    const void *data;
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
    if (!w->whole && is_fill(a, w->chunk))
        return STK_OK;
    w->any = true;
    STK_TRY(plain_chunk(w, &data, &size, &bound, err));
    if (!grow(w, bound))
        return no_memory(err);
    stk_status status = stk__chain_encode(a->chain, w->state, data, size, w->blob + w->length,
                                          bound, &length, &reason);
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

/* Encode the object at these coordinates of the outermost grid; no length: it is all fill value. */
static stk_status encode_object(work *w, const int64_t *at, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *outer = &a->levels[0];
    int64_t inner[STK_ARRAY_MAX_RANK] = {0}, chunk[STK_ARRAY_MAX_RANK];
    uint64_t total = w->index ? outer->inner_total : 1;

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
    return w->any && w->index ? add_index(w, err) : STK_OK;
}

static stk_status write_object(work *w, const int64_t *at, stk_error *err)
{
    const stk_array *a = w->array;
    char key[STK_MAX_OBJECT_KEY];
    uint64_t object = 0;

    STK_TRY(encode_object(w, at, err));
    if (!w->any)
        return STK_OK;
    for (uint32_t d = 0; d < a->rank; d++)
        object = object * (uint64_t)a->levels[0].count[d] + (uint64_t)at[d];
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

/* ---- Threads that write ---- */

stk_status stk__encoder_create(const stk_array_writer *writer, stk__encoder **out, stk_error *err)
{
    const stk_array *a = writer->array;
    stk__encoder *e = stk__calloc(a->context, 1, sizeof *e);

    *out = e;
    if (!e)
        return no_memory(err);
    e->array = writer->array;
    e->whole = writer->whole;
    stk_status status = stk__state_take(e->array, &e->state, err);
    if (status == STK_OK && !(e->chunk = stk__alloc_buffer(a->context, a->chunk_bytes)))
        status = no_memory(err);
    if (status == STK_OK && a->num_levels > 1 &&
        !(e->index = stk__alloc(a->context, a->levels[0].inner_total * 16)))
        status = no_memory(err);
    if (status != STK_OK)
        stk__encoder_destroy(out);
    return status;
}

void stk__encoder_destroy(stk__encoder **encoder)
{
    stk__encoder *e = *encoder;

    if (!e)
        return;
    *encoder = NULL;
    stk_context *ctx = e->array->context;
    stk__state_give(e->array, e->state);
    stk__free(ctx, e->index);
    stk__free(ctx, e->blob);
    stk__free(ctx, e->texts);
    stk__free(ctx, e->chunk);
    stk__free(ctx, e);
}

stk_status stk__encoder_run(stk__encoder *e, const int64_t *start, const int64_t *shape,
                            const void *data, const int64_t *strides, const void **bytes,
                            uint64_t *length, stk_error *err)
{
    const stk_array *a = e->array;
    stk_array_box wanted = {.start = start, .shape = shape};
    int64_t at[STK_ARRAY_MAX_RANK];
    stk__box box;

    STK_TRY(stk__array_box(a, &wanted, &box, err));
    STK_TRY(check_box(a, &box, err));
    for (uint32_t d = 0; d < a->rank; d++)
        at[d] = start[d] / a->levels[0].shape[d];
    e->box = &box;
    e->data = data;
    e->strides = strides;
    const stk_status status = encode_object(e, at, err);
    *bytes = e->blob;
    *length = e->any ? e->length : 0;
    return status;
}

uint64_t stk__encoder_memory(const stk_array_writer *writer)
{
    const stk_array *a = writer->array;
    uint64_t chunks = a->num_levels > 1 ? a->levels[0].inner_total : 1, most;

    if (stk__type_varies(&a->type)) /* what its elements take beside, nobody knows before */
        return a->chunk_bytes + stk__chain_library(a->chain);
    /* What an object is encoded to is grown by doubling. */
    if (!stk__mul_size(stk__chain_bound(a->chain), chunks, &most) ||
        !stk__mul_size(most, chunks > 1 ? 2 : 1, &most) ||
        !stk__add_size(most, a->chunk_bytes + chunks * 32, &most) ||
        !stk__add_size(most, stk__chain_scratch(a->chain) + stk__chain_library(a->chain), &most))
        return UINT64_MAX;
    return most;
}

static stk_status differs(const stk_array *a, const char *reason, stk_error *err)
{
    return stk__fail(err, STK_EINTERNAL, STK_STAGE_ARRAY,
                     "what was encoded does not decode to what it was made of (%.60s: %s); choose "
                     "another codec",
                     a->codecs, reason);
}

/* Bytes that a chunk of the object that was encoded last is at most, before its codecs. */
static uint64_t again_bytes(const stk__encoder *e)
{
    return stk__type_varies(&e->array->type)
               ? STK_MIN(e->texts_room, stk__chain_size(e->array->chain))
               : e->array->chunk_bytes;
}

/* Decode a chunk of the object that was encoded last, and compare it with what it was made of. */
static stk_status same_chunk(stk__encoder *e, const int64_t *at, uint64_t place,
                             unsigned char *again, stk_error *err)
{
    const stk_array *a = e->array;
    const stk__level *leaf = &a->levels[a->num_levels - 1];
    const uint64_t offset = e->index ? e->index[2 * place] : 0;
    const uint64_t length = e->index ? e->index[2 * place + 1] : e->length;
    const bool varies = stk__type_varies(&a->type);
    uint64_t size, bound, got = a->chunk_bytes;
    stk__need need = {.kind = STK__NEED_BYTES};
    const char *reason = "other values";
    const void *data;
    bool edge = false;

    if (offset == UINT64_MAX)
        return STK_OK; /* absent: fill value, or beyond the array */
    for (uint32_t d = 0; d < a->rank; d++) {
        need.chunk = need.chunk * (uint64_t)leaf->count[d] + (uint64_t)at[d];
        edge |= a->shape[d] - at[d] * leaf->shape[d] < leaf->shape[d];
    }
    const stk_status status =
        varies ? stk__chain_decode_varying(a->chain, e->state, e->blob + offset, length, again,
                                           again_bytes(e), &got, &reason)
               : stk__chain_decode(a->chain, e->state, e->blob + offset, length, again,
                                   a->chunk_bytes, &reason);
    if (status == STK_ENOMEM)
        return no_memory(err);
    if (status != STK_OK)
        return differs(a, reason, err);
    if (edge)
        put_fill(a, e->chunk);
    stk__array_gather(a, e->box, &need, e->data, e->strides, e->chunk);
    STK_TRY(plain_chunk(e, &data, &size, &bound, err));
    return got == size && memcmp(again, data, size) == 0 ? STK_OK : differs(a, "other values", err);
}

static stk_status same_object(stk__encoder *e, const int64_t *start, unsigned char *again,
                              stk_error *err)
{
    const stk_array *a = e->array;
    const stk__level *outer = &a->levels[0];
    int64_t inner[STK_ARRAY_MAX_RANK] = {0}, chunk[STK_ARRAY_MAX_RANK];
    const uint64_t total = e->index ? outer->inner_total : 1;

    for (uint64_t place = 0; place < total; place++) {
        for (uint32_t d = 0; d < a->rank; d++) {
            const int64_t at = start[d] / outer->shape[d];
            chunk[d] = e->index ? at * outer->inner[d] + inner[d] : at;
        }
        STK_TRY(same_chunk(e, chunk, place, again, err));
        for (uint32_t d = a->rank; e->index && d-- > 0;) {
            if (++inner[d] < outer->inner[d])
                break;
            inner[d] = 0;
        }
    }
    return STK_OK;
}

stk_status stk__encoder_check(stk__encoder *e, const int64_t *start, const int64_t *shape,
                              const void *data, const int64_t *strides, stk_error *err)
{
    const stk_array *a = e->array;
    stk_array_box wanted = {.start = start, .shape = shape};
    stk__box box;

    STK_TRY(stk__array_box(a, &wanted, &box, err));
    unsigned char *again = stk__alloc_buffer(a->context, again_bytes(e));
    if (!again)
        return no_memory(err);
    e->box = &box;
    e->data = data;
    e->strides = strides;
    const stk_status status = same_object(e, start, again, err);
    stk__free(a->context, again);
    return status;
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
    const stk_array *a = writer->array;
    STK_TRY(stk__array_box(a, &wanted, &box, err));
    STK_TRY(check_box(a, &box, err));
    stk__array_strides(a->rank, box.shape, a->type.itemsize, strides);
    stk__encoder *w = NULL;
    STK_TRY(stk__encoder_create(writer, &w, err));
    w->box = &box;
    w->data = data;
    w->strides = strides;
    const stk_status status = write_all(w, err);
    stk__encoder_destroy(&w);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What every driver needs to make an array: memory, levels of the grid, sizes, and their checks. */
#include <stdio.h>

#include "array/index.h"
#include "array/skipping.h"
#include "array/watch.h"
#include "base/text.h"

/* A level is bounded, so that numbers of chunks stay far from the ends of their type. */
#define MAX_CHUNKS (UINT64_C(1) << 60)
/* Bytes that the name of a chunk takes at most, behind the path of its array. */
#define KEY_ROOM 1024

stk_status stk__array_no_memory(const stk_array *a, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "no memory to open the array %.200s", a->prefix ? a->prefix : "");
}

/* ---- The store ---- */

stk_status stk__shared_create(stk_store **store, stk__shared_store **out, stk_error *err)
{
    *out = stk__calloc((*store)->context, 1, sizeof **out);
    if (!*out) {
        stk_store_close(store);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for the store of an array");
    }
    (*out)->store = *store;
    *store = NULL;
    atomic_init(&(*out)->refs, 1);
    return STK_OK;
}

stk__shared_store *stk__shared_ref(stk__shared_store *shared)
{
    atomic_fetch_add(&shared->refs, 1);
    return shared;
}

void stk__shared_unref(stk__shared_store *shared)
{
    if (!shared || atomic_fetch_sub(&shared->refs, 1) != 1)
        return;
    stk_context *ctx = shared->store->context;
    stk_store_close(&shared->store);
    stk__free(ctx, shared);
}

/* ---- The grid ---- */

int64_t stk__level_of(const stk__level *level, uint32_t d, int64_t element)
{
    int64_t low = 0, high = level->count[d];

    if (!level->edges || d != level->uneven)
        return element / level->shape[d];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (level->edges[middle + 1] <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t stk__array_chunk_count(const stk_array *a, uint32_t dimension)
{
    return a->levels[a->num_levels - 1].count[dimension];
}

int64_t stk__array_chunk_of(const stk_array *a, uint32_t dimension, int64_t element)
{
    return stk__level_of(&a->levels[a->num_levels - 1], dimension, element);
}

int64_t stk__array_chunk_begin(const stk_array *a, uint32_t dimension, int64_t chunk)
{
    return stk__level_begin(&a->levels[a->num_levels - 1], dimension, chunk);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

stk_status stk__level_init(const stk_array *a, stk__level *level, const char *key, stk_error *err)
{
    char text[256];

    level->total = 1;
    for (uint32_t d = 0; d < a->rank; d++) {
        if (level->shape[d] < 1) {
            stk__shape_tuple(level->shape, a->rank, text, sizeof text);
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: a chunk of the shape %s holds nothing; each dimension takes "
                                "at least 1",
                                key, text);
        }
        if (!level->edges || d != level->uneven) /* else it is counted */
            level->count[d] = divide_up(a->shape[d], level->shape[d]);
        if (!stk__mul_size(level->total, (uint64_t)level->count[d], &level->total) ||
            level->total > MAX_CHUNKS) {
            stk__shape_tuple(a->shape, a->rank, text, sizeof text);
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "%s: an array of the shape %s has more chunks than can be numbered",
                                key, text);
        }
    }
    return STK_OK;
}

void stk__array_strides(uint32_t rank, const int64_t *shape, uint64_t itemsize, int64_t *strides)
{
    int64_t stride = (int64_t)itemsize;

    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride *= STK_MAX(shape[d], 1);
    }
}

/* The names of the steps, and of sharding around them. */
static void name_codecs(stk_array *a)
{
    size_t at = 0;
    const char *name;

    a->codecs[0] = 0;
    for (uint32_t l = 0; l + 1 < a->num_levels && at < sizeof a->codecs; l++)
        at += (size_t)snprintf(a->codecs + at, sizeof a->codecs - at, "sharding_indexed(");
    for (uint32_t i = 0; at < sizeof a->codecs && (name = stk__chain_step(a->chain, i)); i++)
        at += (size_t)snprintf(a->codecs + at, sizeof a->codecs - at, "%s%s", i ? ", " : "", name);
    if (at < sizeof a->codecs && stk__chain_step(a->chain, 0) == NULL)
        at += (size_t)snprintf(a->codecs + at, sizeof a->codecs - at, "none");
    for (uint32_t l = 0; l + 1 < a->num_levels && at < sizeof a->codecs; l++)
        at += (size_t)snprintf(a->codecs + at, sizeof a->codecs - at, ")");
}

stk_status stk__array_finish(stk_array *a, stk_error *err)
{
    stk__level *leaf = &a->levels[a->num_levels - 1];
    char text[256];

    if (!stk__shape_bytes(a->shape, a->rank, a->type.itemsize, &a->bytes)) {
        stk__shape_tuple(a->shape, a->rank, text, sizeof text);
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: an array of the shape %s of %s has more bytes than can be",
                            a->metadata_key, text, a->type.name);
    }
    if (!a->attributes_text) {
        a->attributes_text = a->attributes.value
                                 ? stk__json_text(a->context, a->attributes.value, false)
                                 : stk__strdup(a->context, "{}");
        if (!a->attributes_text)
            return stk__array_no_memory(a, err);
    }
    if (a->num_levels > 1 &&
        stk__index_cache_create(a->context, a->options.index_cache, &a->indexes) != STK_OK)
        return stk__array_no_memory(a, err);
    a->chunk_bytes = stk__chain_size(a->chain);
    if (stk__type_varies(&a->type) &&
        !stk__shape_bytes(leaf->shape, a->rank, a->type.itemsize, &a->chunk_bytes))
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: a chunk has more elements than can be", a->metadata_key);
    a->decode_bytes = a->chunk_bytes + stk__chain_stages(a->chain);
    a->fill_is_zero = stk__all_zero(a->fill, a->type.itemsize);
    name_codecs(a);
    a->info = (stk_array_info){
        .struct_size = sizeof a->info,
        .format = a->format,
        .dtype = a->type.dtype,
        .type_name = a->type.name,
        .itemsize = stk__type_varies(&a->type) ? 0 : a->type.itemsize,
        .rank = a->rank,
        .shape = a->shape,
        .chunk_shape = leaf->shape,
        .shard_shape = a->levels[0].shape,
        .dimension_names = (const char *const *)a->names,
        .fill_value = a->fill_defined ? a->fill : NULL,
        .attributes = a->attributes_text,
        .codecs = a->codecs,
        .order = a->order,
        .num_chunks = leaf->total,
        .bytes = stk__type_varies(&a->type) ? 0 : a->bytes,
        .num_objects = a->manifest == STK__MANIFEST_ONE      ? 1
                       : a->manifest == STK__MANIFEST_PLACES ? a->num_objects
                                                             : a->levels[0].total,
    };
    return STK_OK;
}

stk_status stk__array_name(stk_array *a, uint32_t dimension, const char *name, stk_error *err)
{
    if (!a->names)
        a->names = stk__calloc(a->context, STK_ARRAY_MAX_RANK, sizeof *a->names);
    if (!a->names || !(a->names[dimension] = stk__strdup(a->context, name)))
        return stk__array_no_memory(a, err);
    return STK_OK;
}

/* ---- Arrays that are one run of elements ---- */

/* Bytes of a piece of such an array: large enough to cost little, small enough that a window reads
 * little in vain. A piece is read in part where less of it is wanted. */
#define PIECE_BYTES 65536

void stk__array_pieces(uint32_t rank, const int64_t *shape, uint64_t itemsize, int64_t *piece)
{
    uint64_t bytes = itemsize;
    bool full = true;

    for (uint32_t i = rank; i-- > 0;) {
        const int64_t room = (int64_t)STK_MAX(PIECE_BYTES / bytes, 1), all = STK_MAX(shape[i], 1);
        piece[i] = full ? STK_MIN(room, all) : 1;
        full = full && piece[i] == all;
        bytes *= (uint64_t)piece[i];
    }
}

stk_status stk__array_one_object(stk_array *a, uint64_t offset, bool fortran, stk_error *err)
{
    const char *key = a->object_key;
    int64_t stored[STK_ARRAY_MAX_RANK], piece[STK_ARRAY_MAX_RANK], strides[STK_ARRAY_MAX_RANK];
    stk__level *level = &a->levels[0];
    stk__chain_spec spec;

    for (uint32_t i = 0; i < a->rank; i++)
        stored[i] = a->shape[fortran ? a->rank - 1 - i : i];
    stk__array_pieces(a->rank, stored, a->type.itemsize, piece);
    stk__array_strides(a->rank, piece, a->type.itemsize, strides);
    for (uint32_t i = 0; i < a->rank; i++) {
        uint32_t d = fortran ? a->rank - 1 - i : i;
        level->shape[d] = piece[i];
        a->chunk_strides[d] = strides[i];
    }
    a->order = fortran && a->rank > 1 ? 'F' : 'C';
    a->num_levels = 1;
    STK_TRY(stk__level_init(a, level, key, err));
    stk__chain_spec_init(&spec);
    spec.key = key;
    spec.dtype = a->type.dtype;
    spec.itemsize = a->type.itemsize;
    spec.swap_size = a->type.swap_size;
    spec.rank = a->rank;
    spec.shape = piece;
    spec.big_endian = a->type.big_endian;
    STK_TRY(stk__chain_create(a->context, &spec, &a->chain, err));
    a->manifest = STK__MANIFEST_ONE;
    a->as_is = true;
    a->object_offset = offset;
    a->fortran = fortran;
    return STK_OK;
}

/* ---- Making and ending ---- */

stk_status stk__array_create(stk_context *ctx, stk__shared_store *shared, const char *prefix,
                             const stk_array_options *options, stk_array **out, stk_error *err)
{
    stk_array *a = stk__calloc(ctx, 1, sizeof *a);

    *out = NULL;
    /* A key that does not fit would be another one, and what is not found may become fill value. */
    if (strlen(prefix) > STK_MAX_OBJECT_KEY - KEY_ROOM) {
        stk__free(ctx, a);
        return stk__fail(err, STK_ELIMIT, STK_STAGE_ARRAY,
                         "the path of an array has %zu bytes; at most %d are read", strlen(prefix),
                         STK_MAX_OBJECT_KEY - KEY_ROOM);
    }
    if (!a)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to open an array");
    pthread_mutex_init(&a->mutex, NULL);
    a->context = stk__context_ref(ctx);
    a->shared = shared ? stk__shared_ref(shared) : NULL;
    a->options = *options;
    a->order = 'C';
    a->prefix = stk__strdup(ctx, prefix);
    if (!a->prefix) {
        stk_status status = stk__array_no_memory(a, err);
        stk_array_close(&a);
        return status;
    }
    *out = a;
    return STK_OK;
}

void stk_array_close(stk_array **array)
{
    stk_array *a = array ? *array : NULL;

    if (!a)
        return;
    *array = NULL;
    if (stk__context_forked(a->context))
        return;
    stk_context *ctx = a->context;
    for (uint32_t i = 0; i < a->num_idle; i++)
        stk__codec_state_destroy(&a->idle[i]);
    stk__chain_destroy(&a->chain);
    stk__skipping_destroy(&a->skipping);
    for (uint32_t l = 0; l < STK__ARRAY_MAX_LEVELS; l++) {
        stk__chain_destroy(&a->levels[l].index_chain);
        stk__free(ctx, a->levels[l].edges);
    }
    for (uint32_t d = 0; a->names && d < STK_ARRAY_MAX_RANK; d++)
        stk__free(ctx, a->names[d]);
    stk__free(ctx, a->names);
    stk__index_cache_destroy(&a->indexes);
    stk__json_drop(ctx, &a->attributes);
    stk__free(ctx, a->attributes_text);
    stk__free(ctx, a->fill);
    stk__free(ctx, a->fill_text);
    stk__watch_end(a);
    for (uint64_t i = 0; a->objects && i < a->num_objects; i++)
        stk__free(ctx, a->objects[i]);
    stk__free(ctx, a->objects);
    stk__free(ctx, a->object_key);
    stk__free(ctx, a->metadata_key);
    stk__free(ctx, a->prefix);
    stk__free(ctx, a->rest);
    stk__shared_unref(a->shared);
    if (a->owns_state && a->ops->close)
        a->ops->close(a->state);
    stk__shared_unref(a->home);
    pthread_mutex_destroy(&a->mutex);
    stk__free(ctx, a);
    stk__context_unref(ctx);
}

/* ---- Codec states, kept for the next read ---- */

stk_status stk__state_take(stk_array *a, stk__codec_state **out, stk_error *err)
{
    *out = NULL;
    pthread_mutex_lock(&a->mutex);
    if (a->num_idle) {
        *out = a->idle[--a->num_idle];
        a->idle_bytes -= stk__codec_state_held(*out);
    }
    pthread_mutex_unlock(&a->mutex);
    if (*out)
        return STK_OK;
    return stk__codec_state_create(a->context, out, err);
}

void stk__state_give(stk_array *a, stk__codec_state *state)
{
    if (!state)
        return;
    const uint64_t bytes = stk__codec_state_held(state);
    pthread_mutex_lock(&a->mutex);
    if (a->num_idle < STK__ARRAY_IDLE && a->idle_bytes + bytes <= a->options.memory) {
        a->idle[a->num_idle++] = state;
        a->idle_bytes += bytes;
        state = NULL;
    }
    pthread_mutex_unlock(&a->mutex);
    stk__codec_state_destroy(&state);
}

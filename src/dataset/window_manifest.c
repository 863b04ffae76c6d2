/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the chunks of a variable lie, for those that windows touch. A walk over them gives object,
 * offset and length; of shards the indexes are read first, some shards at a time; where a chunk is
 * a whole object the store is asked for its size, by several threads at once.
 */
#include "base/counted.h"
#include "dataset/window.h"

#include <stdlib.h>

#define ASK_PIECE   32u /* objects that a thread takes at a time of a store that answers at once */
#define MOST_ASKING 64u /* threads */
#define FAR_GAP     (UINT64_C(128) << 10) /* a store that joins less than this answers at once */
#define MOST_CHUNKS (UINT64_C(1) << 27)

/* The box of chunks [low, low + count) of the variable, cut at the array's end. */
static void chunks_box(const stk__window_variable *v, const int64_t *low, const int64_t *count,
                       stk__box *box)
{
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const int64_t most = stk__array_chunk_count(v->array, d) - low[d];
        const int64_t end = stk__array_chunk_begin(v->array, d, low[d] + STK_MIN(count[d], most));
        box->start[d] = stk__array_chunk_begin(v->array, d, low[d]);
        box->shape[d] = STK_MIN(end, v->info->shape[d]) - box->start[d];
        box->step[d] = 1;
    }
}

/* Place in the manifest of a chunk of the array. */
static uint64_t place_of(const stk__window_variable *v, uint64_t chunk)
{
    int64_t at[STK__WINDOW_DIMS];
    uint64_t place = 0;

    for (uint32_t d = v->info->rank; d-- > 0;) {
        const uint64_t count = (uint64_t)stk__array_chunk_count(v->array, d);
        at[d] = (int64_t)(chunk % count) - v->low[d];
        chunk /= count;
    }
    for (uint32_t d = 0; d < v->info->rank; d++)
        place = place * (uint64_t)v->count[d] + (uint64_t)at[d];
    return place;
}

static stk_status missing_chunk(const stk__window_variable *v, const stk__need *need,
                                stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];

    stk__array_key(v->array, need->object, key, sizeof key);
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "chunk %llu is missing: %s; missing=fill reads it as the fill value",
                        (unsigned long long)need->chunk, key);
}

static stk_status note_skip(stk__window_variable *v, const stk__need *need, stk_error *err)
{
    stk__window_skip *grown = stk__grow(stk__array_store(v->array)->context, v->skips,
                                        &v->room_skips, v->num_skips + 1, sizeof *grown);

    if (!grown)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open an array");
    v->skips = grown;
    v->skips[v->num_skips++] = (stk__window_skip){
        .offset = need->offset, .object = (uint32_t)need->object, .skipped = need->skipped};
    return STK_OK;
}

static int by_place(const void *a, const void *b)
{
    const stk__window_skip *x = a, *y = b;

    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

uint32_t stk__window_skipped(const stk__window_variable *v, uint64_t object, uint64_t offset)
{
    const stk__window_skip wanted = {.offset = offset, .object = (uint32_t)object};
    const stk__window_skip *found =
        v->num_skips ? bsearch(&wanted, v->skips, v->num_skips, sizeof wanted, by_place) : NULL;

    return found ? found->skipped : 0;
}

static stk_status note_need(stk__window_variable *v, const stk__need *need, stk_error *err)
{
    const uint64_t place = place_of(v, need->chunk);

    if (need->kind == STK__NEED_FILL) {
        if (!stk__array_fills(v->array))
            return missing_chunk(v, need, err);
        v->lengths[place] = STK__WINDOW_ABSENT;
        return STK_OK;
    }
    if (need->length != STK__ARRAY_UNKNOWN && need->length >= STK__WINDOW_UNKNOWN)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "chunk %llu has %llu bytes; windows are cut out of chunks of less than "
                         "4 GiB",
                         (unsigned long long)need->chunk, (unsigned long long)need->length);
    v->lengths[place] =
        need->length == STK__ARRAY_UNKNOWN ? STK__WINDOW_UNKNOWN : (uint32_t)need->length;
    if (v->offsets)
        v->offsets[place] = need->offset;
    if (v->objects)
        v->objects[place] = (uint32_t)need->object;
    return need->skipped ? note_skip(v, need, err) : STK_OK;
}

/* All chunks of a box; the indexes of its shards are read where they are not known. */
static stk_status walk_box(stk__window_variable *v, const stk__box *box, stk_error *err)
{
    stk__walk *walk = NULL;
    stk__need need;
    stk_status status = STK_OK;
    bool loaded = false;

    if (stk__walk_create(v->array, box, true, &walk) != STK_OK)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open an array");
    while (status == STK_OK) {
        status = stk__walk_next(walk, &need, err);
        if (status == STK_OK && need.kind != STK__NEED_INDEX) {
            status = note_need(v, &need, err);
        } else if (status == STK_OK && !loaded) {
            status = stk__array_load_indexes(v->array, box, UINT64_MAX, err);
            loaded = true;
        } else if (status == STK_OK) {
            status = stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                               "the shard indexes do not fit index_cache; raise it");
        }
    }
    stk__walk_destroy(&walk);
    return status == STK_EOS ? STK_OK : status;
}

/* The same in pieces of whole shards whose indexes the array can keep. */
static stk_status walk_shards(stk__window_variable *v, uint64_t most, stk_error *err)
{
    const stk_array_info *info = v->info;
    int64_t step[STK__WINDOW_DIMS], low[STK__WINDOW_DIMS] = {0}, count[STK__WINDOW_DIMS];
    uint64_t chunks = 1;
    stk__box box;

    for (uint32_t d = 0; d < info->rank; d++) {
        step[d] = info->shard_shape[d] / info->chunk_shape[d];
        low[d] = v->low[d] / step[d] * step[d];
        count[d] = step[d];
        chunks *= (uint64_t)step[d];
    }
    /* Grow the piece along the last dimensions as far as the indexes fit. */
    for (uint32_t d = info->rank; d-- > 0;) {
        int64_t all = v->low[d] + v->count[d] - low[d];
        while (count[d] < all && chunks * 32 <= most) {
            chunks *= 2;
            count[d] *= 2;
        }
    }
    int64_t at[STK__WINDOW_DIMS];
    memcpy(at, low, sizeof at);
    for (;;) {
        int64_t from[STK__WINDOW_DIMS], n[STK__WINDOW_DIMS];
        for (uint32_t d = 0; d < info->rank; d++) {
            from[d] = STK_MAX(at[d], v->low[d]);
            n[d] = STK_MIN(at[d] + count[d], v->low[d] + v->count[d]) - from[d];
        }
        chunks_box(v, from, n, &box);
        STK_TRY(walk_box(v, &box, err));
        uint32_t d = info->rank;
        while (d-- > 0) {
            at[d] += count[d];
            if (at[d] < v->low[d] + v->count[d])
                break;
            at[d] = low[d];
        }
        if (d == UINT32_MAX)
            return STK_OK;
    }
}

/* ---- Sizes of objects ---- */

typedef struct asking {
    stk__window_variable *v;
    stk__counted objects;
} asking;

/* Size of the object that is chunk `place` of the manifest. */
static stk_status ask(stk__window_variable *v, uint64_t place, stk_error *err)
{
    stk__need need = {.kind = STK__NEED_BYTES};
    uint64_t rest = place, stride = 1, size = 0;

    for (uint32_t d = v->info->rank; d-- > 0;) {
        uint64_t at = rest % (uint64_t)v->count[d] + (uint64_t)v->low[d];
        rest /= (uint64_t)v->count[d];
        need.chunk += at * stride;
        stride *= (uint64_t)stk__array_chunk_count(v->array, d);
    }
    need.object = need.chunk;
    stk_status status = stk__array_object_size(v->array, need.object, &size, err);
    /* Nothing but the proof that it is not there makes a chunk the fill value. */
    if (status == STK_ENOENT)
        need.kind = STK__NEED_FILL;
    else if (status != STK_OK)
        return status;
    need.length = size;
    return note_need(v, &need, err);
}

static void ask_some(void *argument)
{
    asking *a = argument;
    uint64_t first, end;
    stk_error err;

    while (stk__counted_take(&a->objects, &first, &end)) {
        for (uint64_t i = first; i < end; i++) {
            if (a->v->lengths[i] != STK__WINDOW_UNKNOWN)
                continue;
            stk_error_init(&err);
            stk_status status = ask(a->v, i, &err);
            if (status == STK_OK)
                continue;
            stk__counted_fail(&a->objects, i, status, &err);
            return;
        }
    }
}

/* Ask the store for the sizes that are not known, as many at a time as serve it well. */
static stk_status ask_sizes(stk__window_variable *v, stk_error *err)
{
    stk_store *store = stk__array_store(v->array);
    asking a = {.v = v};
    stk_store_limits limits;
    uint64_t unknown = 0;

    for (uint64_t i = 0; i < v->num_chunks; i++)
        unknown += v->lengths[i] == STK__WINDOW_UNKNOWN;
    if (!unknown)
        return STK_OK;
    stk__store_limits(store, &limits);
    /* Where each question takes long, few are asked at once, too. */
    const uint64_t piece = limits.coalesce_gap < FAR_GAP ? ASK_PIECE : 1;
    stk__counted_init(&a.objects, v->num_chunks, piece);
    stk__thread_share(store->context, "stk-sizes",
                      STK_MIN(STK_MIN(limits.io_depth, MOST_ASKING), unknown / piece), ask_some,
                      &a);
    return stk__counted_end(&a.objects, err);
}

/* ---- The whole ---- */

/* The chunks that windows touch along each dimension. */
static void touched_chunks(const stk__window *w, stk__window_variable *v)
{
    v->num_chunks = 1;
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const stk__window_dim *dim = &w->dims[v->dims[d]];
        int64_t last = dim->begin + (int64_t)(dim->n - 1) * dim->stride + dim->window - 1;
        v->low[d] = stk__array_chunk_of(v->array, d, dim->begin);
        v->count[d] = stk__array_chunk_of(v->array, d, last) - v->low[d] + 1;
        v->num_chunks *= (uint64_t)v->count[d]; /* at most the array's, which are checked */
    }
}

/* What it takes to learn where the chunks lie: an index of each shard, the size of each object. It
 * follows from the metadata alone, which may claim more than there is. */
static stk_status check_requests(const stk__window *w, const stk__window_variable *v,
                                 const stk__need *first, stk_error *err)
{
    const uint64_t most = w->options.max_requests;
    uint64_t requests = 1; /* at most num_chunks */

    if (v->most_encoded || stk__array_is_located(v->array) ||
        (!v->sharded && first->kind == STK__NEED_BYTES && first->length != STK__ARRAY_UNKNOWN))
        return STK_OK;
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const int64_t in = v->sharded ? v->info->shard_shape[d] / v->info->chunk_shape[d] : 1;
        requests *= (uint64_t)((v->low[d] + v->count[d] - 1) / in - v->low[d] / in + 1);
    }
    if (requests <= most)
        return STK_OK;
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, "max_requests", STK_NO_OFFSET,
                        "'%s': it takes %llu requests to learn where its %llu chunks lie, and "
                        "max_requests is %llu; raise it, set range, or use larger chunks or shards",
                        v->name, (unsigned long long)requests, (unsigned long long)v->num_chunks,
                        (unsigned long long)most);
}

/* Where asking for sizes is as slow as reading, the read itself tells them. */
static void find_most(stk__window_variable *v, const stk__need *first)
{
    if (!v->sharded && !v->fixed && first->kind == STK__NEED_BYTES &&
        first->length == STK__ARRAY_UNKNOWN)
        v->most_encoded = stk__array_most_encoded(v->array);
}

stk_status stk__window_manifest(stk__window *w, stk__window_variable *v,
                                const stk_array_options *options, stk_error *err)
{
    stk_context *ctx = w->base.context;
    stk__box box;
    stk__need need;
    stk__walk *walk = NULL;
    uint64_t bytes = 0;

    touched_chunks(w, v);
    chunks_box(v, v->low, v->count, &box);
    if (stk__walk_create(v->array, &box, false, &walk) != STK_OK)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open an array");
    stk_status status = stk__walk_next(walk, &need, err);
    stk__walk_destroy(&walk);
    if (status != STK_OK)
        return status;
    v->sharded = need.kind == STK__NEED_INDEX;
    v->plain = stk__array_is_plain(v->array) && !v->sharded;
    v->fixed = stk__array_is_copy(v->array);
    if (v->plain)
        return STK_OK;
    find_most(v, &need);
    STK_TRY(check_requests(w, v, &need, err));
    /* The first chunk may be absent, and then has no offset and no object. */
    const bool located = stk__array_is_located(v->array);
    const bool objects = located && v->num_objects > 1;
    const bool offsets =
        v->sharded || located || need.offset != 0 || need.length != STK__ARRAY_UNKNOWN;
    const uint64_t each = sizeof *v->lengths + (offsets ? sizeof *v->offsets : 0) +
                          (objects ? sizeof *v->objects : 0);
    if (v->num_chunks > MOST_CHUNKS || !stk__mul_size(v->num_chunks, each, &bytes) ||
        bytes > stk__context_memory_limit(ctx) / 4)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "windows touch %llu chunks, more than can be listed; set range, or use "
                         "larger chunks or shards",
                         (unsigned long long)v->num_chunks);
    v->lengths = stk__alloc(ctx, v->num_chunks * sizeof *v->lengths);
    if (offsets)
        v->offsets = stk__calloc(ctx, v->num_chunks, sizeof *v->offsets);
    if (objects)
        v->objects = stk__calloc(ctx, v->num_chunks, sizeof *v->objects);
    if (!v->lengths || (offsets && !v->offsets) || (objects && !v->objects))
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to list %llu chunks",
                         (unsigned long long)v->num_chunks);
    for (uint64_t i = 0; i < v->num_chunks; i++)
        v->lengths[i] = STK__WINDOW_UNKNOWN;
    STK_TRY(v->sharded ? walk_shards(v, options->index_cache / 2, err) : walk_box(v, &box, err));
    if (v->num_skips)
        qsort(v->skips, v->num_skips, sizeof *v->skips, by_place);
    return v->most_encoded ? STK_OK : ask_sizes(v, err);
}

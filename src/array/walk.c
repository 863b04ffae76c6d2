/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a box to the chunks that hold its elements: an odometer over the outermost chunks, and one
 * for each level of shards within them. Coordinates of every level count from the array's origin.
 */
#include "array/index.h"

typedef struct walk_level {
    int64_t low[STK_ARRAY_MAX_RANK], high[STK_ARRAY_MAX_RANK]; /* chunks of it, both inclusive */
    int64_t at[STK_ARRAY_MAX_RANK];
    stk__shard_index *index; /* of the shard at `at`, while the walk is inside it */
    bool begun;
} walk_level;

struct stk__walk {
    stk_array *array;
    stk__box box;
    bool whole;
    bool waiting; /* is at a shard whose index is not known */
    uint32_t depth;
    bool ended;
    walk_level levels[STK__ARRAY_MAX_LEVELS];
};

stk_status stk__array_box(const stk_array *a, const stk_array_box *box, stk__box *out,
                          stk_error *err)
{
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t step = box && box->step ? box->step[d] : 1;
        int64_t start = box && box->start ? box->start[d] : 0;
        if (step < 1 || start < 0 || start > a->shape[d])
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "a box that begins at %lld with steps of %lld does not lie in the "
                                "%lld elements of dimension %u; start from 0 up, step by 1 or more",
                                (long long)start, (long long)step, (long long)a->shape[d], d);
        int64_t room = start == a->shape[d] ? 0 : (a->shape[d] - start - 1) / step + 1;
        int64_t shape = box && box->shape ? box->shape[d] : room;
        if (shape < 0 || shape > room)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "a box of %lld elements from %lld on does not lie in the %lld of "
                                "dimension %u; at most %lld are left",
                                (long long)shape, (long long)start, (long long)a->shape[d], d,
                                (long long)room);
        out->start[d] = start;
        out->shape[d] = shape;
        out->step[d] = step;
    }
    return STK_OK;
}

static int64_t last_of(const stk__box *box, uint32_t d)
{
    return box->start[d] + (box->shape[d] - 1) * box->step[d];
}

/* The first element of the box in dimension `d` at or after `from`. */
static int64_t first_from(const stk__box *box, uint32_t d, int64_t from)
{
    int64_t before = from - box->start[d];

    if (before <= 0)
        return box->start[d];
    return box->start[d] + ((before - 1) / box->step[d] + 1) * box->step[d];
}

/* The first and last element of the box in a chunk's extent of dimension `d`, where there is one.
 */
static void span(const stk__walk *w, const stk__level *level, uint32_t d, int64_t at,
                 int64_t *first, int64_t *last)
{
    const int64_t begin = stk__level_begin(level, d, at), end = stk__level_begin(level, d, at + 1);
    const int64_t most = last_of(&w->box, d);

    *first = first_from(&w->box, d, begin);
    *last = STK_MIN(most, end - 1);
    *last -= (*last - w->box.start[d]) % w->box.step[d];
}

/* The first chunk from `at` on that holds an element of the box: a step may leap over many. Beyond
 * `high` where there is none. */
static int64_t leap(const stk__walk *w, const stk__level *level, uint32_t d, int64_t at,
                    int64_t high)
{
    if (at > high)
        return at;
    int64_t first = first_from(&w->box, d, stk__level_begin(level, d, at));
    return first > last_of(&w->box, d) ? INT64_MAX : stk__level_of(level, d, first);
}

static void begin_level(stk__walk *w, uint32_t depth)
{
    const stk_array *a = w->array;
    const stk__level *level = &a->levels[depth];
    walk_level *l = &w->levels[depth];

    l->begun = false;
    for (uint32_t d = 0; d < a->rank; d++) {
        l->low[d] = stk__level_of(level, d, w->box.start[d]);
        l->high[d] = stk__level_of(level, d, last_of(&w->box, d));
        if (depth == 0)
            continue;
        int64_t inner = a->levels[depth - 1].inner[d], parent = w->levels[depth - 1].at[d];
        l->low[d] = STK_MAX(l->low[d], parent * inner);
        l->high[d] = STK_MIN(l->high[d], parent * inner + inner - 1);
        l->low[d] = leap(w, level, d, l->low[d], l->high[d]);
    }
}

/* Step to the next chunk of a level that holds an element of the box. */
static bool advance(const stk__walk *w, uint32_t depth, walk_level *l)
{
    const stk_array *a = w->array;

    if (!l->begun) {
        l->begun = true;
        memcpy(l->at, l->low, sizeof l->at);
        for (uint32_t d = 0; d < a->rank; d++)
            if (l->low[d] > l->high[d])
                return false;
        return true;
    }
    for (uint32_t d = a->rank; d-- > 0;) {
        l->at[d] = leap(w, &a->levels[depth], d, l->at[d] + 1, l->high[d]);
        if (l->at[d] <= l->high[d])
            return true;
        l->at[d] = l->low[d];
    }
    return false;
}

static uint64_t number_of(const stk_array *a, const stk__level *level, const int64_t *at)
{
    uint64_t number = 0;

    for (uint32_t d = 0; d < a->rank; d++)
        number = number * (uint64_t)level->count[d] + (uint64_t)at[d];
    return number;
}

stk_status stk__walk_create(stk_array *a, const stk__box *box, bool whole, stk__walk **out)
{
    stk__walk *w = stk__calloc(a->context, 1, sizeof *w);

    *out = w;
    if (!w)
        return STK_ENOMEM;
    w->array = a;
    w->box = *box;
    w->whole = whole;
    for (uint32_t d = 0; d < a->rank; d++)
        w->ended |= box->shape[d] == 0;
    if (!w->ended)
        begin_level(w, 0);
    return STK_OK;
}

void stk__walk_destroy(stk__walk **walk)
{
    stk__walk *w = *walk;

    if (!w)
        return;
    *walk = NULL;
    for (uint32_t l = 0; l < STK__ARRAY_MAX_LEVELS; l++)
        stk__index_unref(w->array, w->levels[l].index);
    stk__free(w->array->context, w);
}

stk_status stk__walk_split(const stk__walk *walk, stk__walk **out)
{
    stk__walk *w = stk__alloc(walk->array->context, sizeof *w);

    *out = w;
    if (!w)
        return STK_ENOMEM;
    *w = *walk;
    for (uint32_t l = 0; l <= w->depth; l++) {
        memcpy(w->levels[l].low, w->levels[l].at, sizeof w->levels[l].low);
        memcpy(w->levels[l].high, w->levels[l].at, sizeof w->levels[l].high);
        if (w->levels[l].index)
            atomic_fetch_add(&w->levels[l].index->refs, 1);
    }
    return STK_OK;
}

void stk__walk_pass(stk__walk *walk)
{
    walk->waiting = false;
}

void stk__walk_enter(stk__walk *w, stk__shard_index *index)
{
    w->waiting = false;
    w->levels[w->depth].index = index;
    begin_level(w, ++w->depth);
}

/* ---- What a chunk needs ---- */

/* Where a chunk of shard level `depth` - 1 is in that shard's index. */
static uint64_t place_in_shard(const stk__walk *w, uint32_t depth)
{
    const stk_array *a = w->array;
    const stk__level *shard = &a->levels[depth - 1];
    uint64_t place = 0;

    for (uint32_t i = 0; i < a->rank; i++) {
        uint32_t d = shard->axes[i];
        int64_t inner = w->levels[depth].at[d] - w->levels[depth - 1].at[d] * shard->inner[d];
        place = place * (uint64_t)shard->inner[d] + (uint64_t)inner;
    }
    return place;
}

/* Offset and length in its object of the chunk that level `depth` is at; false: absent. */
static bool range_in_shard(const stk__walk *w, uint32_t depth, uint64_t *offset, uint64_t *length)
{
    const stk__shard_index *index = w->levels[depth - 1].index;

    if (index->absent)
        return false;
    uint64_t place = place_in_shard(w, depth);
    *offset = index->pairs[2 * place];
    *length = index->pairs[2 * place + 1];
    return *offset != UINT64_MAX || *length != UINT64_MAX;
}

/* Cut a need of a chunk that is stored as it is down to the bytes that the box spans. */
static void narrow(const stk__walk *w, stk__need *need)
{
    const stk_array *a = w->array;
    const walk_level *l = &w->levels[a->num_levels - 1];
    const stk__level *level = &a->levels[a->num_levels - 1];
    uint64_t low = 0, high = a->type.itemsize;
    int64_t first, last;

    for (uint32_t d = 0; d < a->rank; d++) {
        span(w, level, d, l->at[d], &first, &last);
        int64_t begin = stk__level_begin(level, d, l->at[d]);
        low += (uint64_t)((first - begin) * a->chunk_strides[d]);
        high += (uint64_t)((last - begin) * a->chunk_strides[d]);
    }
    need->skip = low;
    need->offset += low;
    need->length = need->decode_size = high - low;
}

/* Where the chunk begins in an array that is one run. Its last piece may be short. */
static void place_in_run(const stk__walk *w, stk__need *need)
{
    const stk_array *a = w->array;
    const walk_level *l = &w->levels[0];
    const stk__level *level = &a->levels[0];
    uint64_t stride = a->type.itemsize, bytes = a->type.itemsize;

    need->object = 0;
    need->offset = a->object_offset;
    for (uint32_t i = a->rank; i-- > 0;) {
        uint32_t d = a->fortran ? a->rank - 1 - i : i;
        int64_t begin = l->at[d] * level->shape[d];
        need->offset += (uint64_t)begin * stride;
        stride *= (uint64_t)a->shape[d];
        bytes *= (uint64_t)STK_MIN(level->shape[d], a->shape[d] - begin);
    }
    need->length = need->decode_size = bytes;
}

/* Where the format says that the chunk lies. */
static stk_status place_by_format(const stk_array *a, stk__need *need, stk_error *err)
{
    stk_array_place place = {.struct_size = sizeof place};
    uint64_t end;

    need->object = 0;
    const stk_status status = stk__array_locate(a, need->chunk, &place, err);
    if (status == STK_ENOENT) {
        need->kind = STK__NEED_FILL;
        return STK_OK;
    }
    STK_TRY(status);
    if (place.object >= a->num_objects || place.length == 0 ||
        !stk__add_size(place.offset, place.length, &end) || end > INT64_MAX)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, a->metadata_key, place.offset,
                            "%s: chunk %llu would be %llu bytes at byte %llu of object %llu of "
                            "%llu, as the format '%.64s' says; copy or write it again",
                            a->metadata_key, (unsigned long long)need->chunk,
                            (unsigned long long)place.length, (unsigned long long)place.offset,
                            (unsigned long long)place.object, (unsigned long long)a->num_objects,
                            a->ops->name);
    need->object = place.object;
    need->offset = place.offset;
    need->length = place.length;
    need->skipped = place.skipped;
    return STK_OK;
}

/*
 * Bytes of a chunk that is stored as it is and that the array's end cuts: they are its first ones,
 * as only the first dimension along which it has more than one element may be cut. 0: another is.
 */
static uint64_t cut_bytes(const stk__walk *w)
{
    const stk_array *a = w->array;
    const stk__level *level = &a->levels[0];
    uint64_t bytes = a->type.itemsize;
    bool first = a->order == 'C';

    for (uint32_t d = 0; d < a->rank; d++) {
        const int64_t at = w->levels[0].at[d];
        const int64_t end = STK_MIN(stk__level_begin(level, d, at + 1), a->shape[d]);
        const int64_t size = end - stk__level_begin(level, d, at);
        if (size < level->shape[d] && !first)
            return 0;
        bytes *= (uint64_t)size; /* at most the chunk's, which are checked */
        first = first && level->shape[d] == 1;
    }
    return bytes;
}

static stk_status leaf_need(stk__walk *w, stk__need *need, stk_error *err)
{
    const stk_array *a = w->array;
    const bool in_part = a->manifest != STK__MANIFEST_READ && stk__array_is_copy(a);

    need->decode_size = a->chunk_bytes;
    if (a->manifest == STK__MANIFEST_ONE) {
        place_in_run(w, need);
    } else if (a->num_levels > 1) {
        if (!range_in_shard(w, a->num_levels - 1, &need->offset, &need->length)) {
            need->kind = STK__NEED_FILL;
            return STK_OK;
        }
    } else if (a->manifest == STK__MANIFEST_PLACES) {
        STK_TRY(place_by_format(a, need, err));
        if (need->kind == STK__NEED_FILL)
            return STK_OK;
        if (in_part && need->length == cut_bytes(w))
            need->decode_size = need->length;
    } else if (in_part || a->manifest == STK__MANIFEST_READ) {
        need->length = a->chunk_bytes;
    }
    if (in_part && need->length != need->decode_size) {
        char key[STK_MAX_OBJECT_KEY];
        stk__array_key(a, need->object, key, sizeof key);
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, need->offset,
                            "%s: a chunk has %llu bytes at byte %llu where its shape asks for "
                            "%llu; copy or write it again",
                            key, (unsigned long long)need->length, (unsigned long long)need->offset,
                            (unsigned long long)need->decode_size);
    }
    if (in_part && !w->whole)
        narrow(w, need);
    return STK_OK;
}

/* The index of the shard that level `depth` is at. */
static stk_status index_need(stk__walk *w, stk__need *need, stk_error *err)
{
    const stk_array *a = w->array;
    const stk__level *level = &a->levels[w->depth];
    uint64_t length;

    need->kind = STK__NEED_INDEX;
    need->decode_size = level->inner_total * 16;
    need->length = level->index_bytes;
    need->end = STK__ARRAY_UNKNOWN;
    if (w->depth > 0) {
        (void)range_in_shard(w, w->depth, &need->begin, &length);
        need->end = need->begin + length;
        if (length < level->index_bytes) {
            char key[STK_MAX_OBJECT_KEY];
            stk__array_key(a, need->object, key, sizeof key);
            return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, key, need->begin,
                                "%s: a shard of %llu bytes at byte %llu is shorter than its index "
                                "of %llu; copy or write it again",
                                key, (unsigned long long)length, (unsigned long long)need->begin,
                                (unsigned long long)level->index_bytes);
        }
    }
    if (level->index_at_start)
        need->offset = need->begin;
    else
        need->offset = w->depth > 0 ? need->end - level->index_bytes : STK__ARRAY_FROM_END;
    return STK_OK;
}

/* A shard: enter it, or ask for its index. *enter tells which. */
static stk_status visit_shard(stk__walk *w, stk__need *need, bool *enter, stk_error *err)
{
    stk_array *a = w->array;
    uint64_t offset, length;
    stk__shard_index *parent = w->depth > 0 ? w->levels[w->depth - 1].index : NULL;

    *enter = true;
    if (parent && (parent->absent || !range_in_shard(w, w->depth, &offset, &length))) {
        /* A shard that is absent from its shard: the same index says so for all in it. */
        stk__shard_index *absent = stk__calloc(a->context, 1, sizeof *absent);
        if (!absent)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read an array");
        absent->absent = true;
        atomic_init(&absent->refs, 1);
        stk__walk_enter(w, absent);
        return STK_OK;
    }
    stk__shard_index *index = stk__index_get(a, w->depth, need->chunk);
    if (index) {
        stk__walk_enter(w, index);
        return STK_OK;
    }
    *enter = false;
    w->waiting = true;
    return index_need(w, need, err);
}

stk_status stk__walk_next(stk__walk *w, stk__need *need, stk_error *err)
{
    const stk_array *a = w->array;
    bool enter = false;

    while (!w->ended) {
        walk_level *l = &w->levels[w->depth];
        if (!w->waiting && !advance(w, w->depth, l)) {
            if (w->depth == 0) {
                w->ended = true;
                break;
            }
            walk_level *parent = &w->levels[--w->depth];
            stk__index_unref(a, parent->index);
            parent->index = NULL;
            continue;
        }
        memset(need, 0, sizeof *need);
        need->kind = STK__NEED_BYTES;
        need->level = w->depth;
        need->length = STK__ARRAY_UNKNOWN;
        need->object = number_of(a, &a->levels[0], w->levels[0].at);
        need->chunk = number_of(a, &a->levels[w->depth], l->at);
        if (w->depth + 1 == a->num_levels)
            return leaf_need(w, need, err);
        STK_TRY(visit_shard(w, need, &enter, err));
        if (!enter)
            return STK_OK;
    }
    return STK_EOS;
}

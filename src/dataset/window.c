/* SPDX-License-Identifier: Apache-2.0 */
/* Windows at work: which chunks a window needs, decoding them, cutting windows out. */
#include "dataset/window.h"

#include <stdio.h>

#include "dataset/packed.h"
#include "dataset/rows.h"

/* Where a part of a window lies in its variable, and the chunks that it touches. */
typedef struct cut {
    stk__box box;
    int64_t low[STK__WINDOW_DIMS], high[STK__WINDOW_DIMS], at[STK__WINDOW_DIMS];
} cut;

static void cut_box(const stk__window *w, const stk__window_part *part, const int64_t *start,
                    stk__box *box)
{
    const stk__window_variable *v = &w->variables[part->variable];

    for (uint32_t d = 0; d < v->info->rank; d++) {
        const uint32_t i = v->dims[d];
        const bool timed = part->steps && i == w->time;
        box->start[d] = start[i] + (timed ? part->time : 0);
        box->shape[d] = timed ? part->steps : w->dims[i].window;
        box->step[d] = 1;
    }
}

static void begin_cut(const stk__window *w, const stk__window_part *part, const int64_t *start,
                      cut *c)
{
    const stk__window_variable *v = &w->variables[part->variable];

    cut_box(w, part, start, &c->box);
    for (uint32_t d = 0; d < v->info->rank; d++) {
        c->low[d] = c->at[d] = stk__array_chunk_of(v->array, d, c->box.start[d]);
        c->high[d] = stk__array_chunk_of(v->array, d, c->box.start[d] + c->box.shape[d] - 1);
    }
}

static bool next_chunk(const stk__window_variable *v, cut *c)
{
    for (uint32_t d = v->info->rank; d-- > 0;) {
        if (++c->at[d] <= c->high[d])
            return true;
        c->at[d] = c->low[d];
    }
    return false;
}

/* Numbers of a chunk: in the array, in the manifest, and of its object. */
typedef struct numbers {
    uint64_t chunk, place, object;
} numbers;

static numbers number_chunk(const stk__window_variable *v, const cut *c)
{
    numbers n = {0};

    for (uint32_t d = 0; d < v->info->rank; d++) {
        int64_t size = v->info->shape[d], shard = v->info->shard_shape[d],
                chunk = v->info->chunk_shape[d];
        n.chunk = n.chunk * (uint64_t)stk__array_chunk_count(v->array, d) + (uint64_t)c->at[d];
        n.place = n.place * (uint64_t)v->count[d] + (uint64_t)(c->at[d] - v->low[d]);
        n.object =
            n.object * (uint64_t)((size - 1) / shard + 1) + (uint64_t)(c->at[d] * chunk / shard);
    }
    if (v->objects)
        n.object = v->objects[n.place];
    else if (v->num_objects == 1)
        n.object = 0;
    return n;
}

/* Bytes of a decoded chunk up to the last that the box takes; 0: all. */
static uint64_t wanted_bytes(const stk__window_variable *v, const cut *c)
{
    uint64_t last = 0;

    if (!v->prefix)
        return 0;
    for (uint32_t d = 0; d < v->info->rank; d++) {
        int64_t shape = v->info->chunk_shape[d];
        int64_t begin = stk__array_chunk_begin(v->array, d, c->at[d]);
        int64_t end = STK_MIN(c->box.start[d] + c->box.shape[d] - begin, shape);
        last = last * (uint64_t)shape + (uint64_t)(end - 1);
    }
    return (last + 1) * v->info->itemsize;
}

/* Where a chunk of so many bytes lies in the window as it is; -1: it does not. */
static int64_t chunk_place(const stk__window_variable *v, const cut *c, uint64_t chunk,
                           const int64_t *strides)
{
    const stk__need need = {.chunk = chunk, .decode_size = v->chunk_bytes};

    return stk__array_place(v->array, &c->box, &need, strides);
}

/* ---- Locating ---- */

static stk_status add_chunks(const stk__window *w, const stk__window_part *part,
                             const int64_t *start, size_t i, stk_locator *to, stk_error *err)
{
    const stk__window_variable *v = &w->variables[part->variable];
    int64_t strides[STK__WINDOW_DIMS];
    cut c;

    begin_cut(w, part, start, &c);
    stk__array_strides(v->info->rank, c.box.shape, v->info->itemsize, strides);
    do {
        const numbers n = number_chunk(v, &c);
        /* The last piece of a row of chunks without gaps may be short. An empty object is asked for
         * a byte, which it does not have. What was there when the dataset was opened is not
         * optional; of pieces whose size follows from the shape, and of those of which the read is
         * to say it, it was not asked. */
        const bool run = v->fixed && v->offsets && !v->sharded;
        const bool unsized = v->lengths[n.place] == STK__WINDOW_UNKNOWN;
        stk_need need = {.object = v->first_object + n.object,
                         .offset = v->offsets ? v->offsets[n.place] : 0,
                         .length = unsized ? v->most_encoded : STK_MAX(v->lengths[n.place], 1),
                         .decoded = run ? v->lengths[n.place] : v->chunk_bytes,
                         .wanted = wanted_bytes(v, &c),
                         .optional =
                             (unsized || (v->fixed && !v->sharded)) && stk__array_fills(v->array),
                         .up_to = unsized};
        const int64_t at = part->alone && !run ? chunk_place(v, &c, n.chunk, strides) : -1;
        if (at >= 0) {
            need.in_place = true;
            need.field = part->field;
            need.at = part->at * v->info->itemsize + (uint64_t)at;
        }
        if (v->lengths[n.place] == STK__WINDOW_ABSENT)
            continue;
        STK_TRY(stk__array_unchanged(v->array, n.object, false, err));
        STK_TRY(to->add(to, i, &need));
    } while (next_chunk(v, &c));
    return STK_OK;
}

/* Chunks that are stored as they are in memory are read in part. */
static stk_status add_ranges(const stk__window *w, const stk__window_part *part,
                             const int64_t *start, size_t i, stk_locator *to, stk_error *err)
{
    const stk__window_variable *v = &w->variables[part->variable];
    stk__walk *walk = NULL;
    stk__need found;
    stk__box box;

    if (v->row_bytes) { /* of an object that was there, and is not optional */
        const stk_need row = {.object = v->first_object,
                              .offset = v->row_offset + (uint64_t)start[0] * v->row_bytes,
                              .length = v->row_bytes};
        STK_TRY(stk__array_unchanged(v->array, 0, false, err));
        return to->add(to, i, &row);
    }
    cut_box(w, part, start, &box);
    stk_status status = stk__walk_create(v->array, &box, false, &walk);
    while (status == STK_OK && (status = stk__walk_next(walk, &found, err)) == STK_OK) {
        stk_need need = {.object = v->first_object + found.object,
                         .offset = found.offset,
                         .length = found.length,
                         .optional = stk__array_fills(v->array)};
        if (found.kind == STK__NEED_BYTES)
            status = stk__array_unchanged(v->array, found.object, false, err);
        if (found.kind == STK__NEED_BYTES && status == STK_OK)
            status = to->add(to, i, &need);
    }
    stk__walk_destroy(&walk);
    return status == STK_EOS ? STK_OK : status;
}

stk_status stk__window_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err)
{
    const stk__window *w = (const stk__window *)dataset;
    int64_t start[STK__WINDOW_DIMS];

    for (size_t i = 0; i < n; i++) {
        stk__window_start(w, indices[i], start);
        for (uint32_t p = 0; p < w->num_parts; p++)
            STK_TRY(w->variables[w->parts[p].variable].plain
                        ? add_ranges(w, &w->parts[p], start, i, to, err)
                        : add_chunks(w, &w->parts[p], start, i, to, err));
    }
    return STK_OK;
}

static stk__window_variable *variable_of(stk__window *w, uint64_t object)
{
    uint32_t i = 0;

    while (i + 1 < w->num_variables && w->variables[i + 1].first_object <= object)
        i++;
    return &w->variables[i];
}

size_t stk__window_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                          size_t size)
{
    stk__window_variable *v = variable_of((stk__window *)dataset, object);
    char none[1]; /* of a caller that asks for the length */

    *store = stk__array_store(v->array);
    return stk__array_key(v->array, object - v->first_object, size ? key : none, size);
}

/* ---- States of threads ---- */

void stk__window_worker_close(stk_dataset *dataset, void *worker)
{
    stk__window_state *state = worker;

    if (!state)
        return;
    stk__codec_state_destroy(&state->codec);
    stk__free(dataset->context, state->raw);
    stk__free(dataset->context, state);
}

stk_status stk__window_worker_open(stk_dataset *dataset, void **worker)
{
    const stk__window *w = (const stk__window *)dataset;
    stk_context *ctx = dataset->context;
    stk__window_state *state = stk__calloc(ctx, 1, sizeof *state);

    *worker = NULL;
    if (!state)
        return STK_ENOMEM;
    if (w->raw_bytes)
        state->raw = stk__alloc_buffer(ctx, w->raw_bytes);
    stk_status status = w->raw_bytes && !state->raw
                            ? STK_ENOMEM
                            : stk__codec_state_create(ctx, &state->codec, NULL);
    if (status == STK_OK)
        *worker = state;
    else
        stk__window_worker_close(dataset, state);
    return status;
}

/* The state of a thread that a caller gives, or one for this call alone. */
static stk_status begin_work(stk__window *w, void *worker, stk__window_state **out)
{
    void *own = worker;
    const stk_status status = worker ? STK_OK : stk__window_worker_open(&w->base, &own);

    *out = own;
    return status;
}

static void end_work(stk__window *w, const void *worker, stk__window_state *state)
{
    if (state != worker)
        stk__window_worker_close(&w->base, state);
}

/* ---- Decoding ---- */

stk_status stk__window_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                              void *out, void *worker, const char **reason)
{
    stk__window *w = (stk__window *)dataset;
    const stk__window_variable *v = variable_of(w, need->object);
    stk__need whole = {.kind = STK__NEED_BYTES,
                       .object = need->object - v->first_object,
                       .offset = need->offset,
                       .decode_size = need->decoded};
    uint64_t wanted = need->wanted ? need->wanted : need->decoded;

    if (need->up_to && need->length >= v->most_encoded) {
        *reason = "the object is longer than a chunk of this array can be; write it again";
        return STK_EFORMAT;
    }
    whole.skipped = stk__window_skipped(v, whole.object, whole.offset);
    stk__window_state *state;
    STK_TRY(begin_work(w, worker, &state));
    const stk_status status =
        v->fixed || whole.skipped || stk__array_has_parts(v->array)
            ? stk__array_decode(v->array, state->codec, &whole, data, need->length, out, NULL)
            : stk__chain_decode_prefix(stk__array_chain(v->array), state->codec, data, need->length,
                                       out, need->decoded, wanted, reason);
    end_work(w, worker, state);
    return status;
}

/* ---- Preparing ---- */

/* Copy a part of a window out of its chunks; *next is the need of the sample that comes next. */
static void copy_chunks(const stk__window_variable *v, bool alone, cut *c, const stk_slice *needs,
                        uint32_t *next, void *out, const int64_t *strides)
{
    do {
        const numbers n = number_chunk(v, c);
        const stk__need need = {.chunk = n.chunk};
        const void *data = NULL;
        if (v->lengths[n.place] != STK__WINDOW_ABSENT)
            data = needs[(*next)++].data;
        const int64_t at = alone && data ? chunk_place(v, c, n.chunk, strides) : -1;
        if (at >= 0 && data == (const char *)out + at)
            continue;
        stk__array_copy(v->array, &c->box, &need, data, out, strides);
    } while (next_chunk(v, c));
}

static stk_status copy_ranges(const stk__window_variable *v, const cut *c, const stk_slice *needs,
                              uint32_t *next, void *out, const int64_t *strides)
{
    stk__walk *walk = NULL;
    stk__need need;

    stk_status status = stk__walk_create(v->array, &c->box, false, &walk);
    while (status == STK_OK && (status = stk__walk_next(walk, &need, NULL)) == STK_OK)
        stk__array_copy(v->array, &c->box, &need,
                        need.kind == STK__NEED_BYTES ? needs[(*next)++].data : NULL, out, strides);
    stk__walk_destroy(&walk);
    return status == STK_EOS ? STK_OK : status;
}

static stk_status prepare_part(stk__window *w, const stk__window_part *part, const int64_t *start,
                               stk__window_state *state, stk_sample *s, uint32_t *next)
{
    const stk__window_variable *v = &w->variables[part->variable];
    char *to = (char *)s->values[part->field].out +
               part->at * stk_dtype_size(w->fields[part->field].dtype);
    void *raw = v->converts ? state->raw : to;
    int64_t strides[STK__WINDOW_DIMS];
    cut c;

    if (v->row_bytes) {
        const void *row = s->needs[(*next)++].data;
        if (v->widen)
            v->widen(row, part->values, s->values[part->field].out);
        else
            s->values[part->field].data = row;
        return STK_OK;
    }
    begin_cut(w, part, start, &c);
    stk__array_strides(v->info->rank, c.box.shape, v->info->itemsize, strides);
    if (v->plain)
        STK_TRY(copy_ranges(v, &c, s->needs, next, raw, strides));
    else
        copy_chunks(v, part->alone, &c, s->needs, next, raw, strides);
    uint8_t *mask = part->mask < 0 ? NULL : (uint8_t *)s->values[part->mask].out + part->at;
    if (v->converts && !stk__window_convert(w, v, raw, part->values, to, mask)) {
        s->reason = "it holds NaN, and nan is drop";
        return STK_EFORMAT;
    }
    return STK_OK;
}

void stk__window_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    stk__window *w = (stk__window *)dataset;
    stk__window_state *state = NULL;
    void *worker = n ? samples[0].worker : NULL;
    const stk_status ready = w->raw_bytes ? begin_work(w, worker, &state) : STK_OK;
    int64_t start[STK__WINDOW_DIMS];

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        uint32_t next = 0;
        s->status = ready;
        stk__window_start(w, s->index, start);
        for (uint32_t p = 0; p < w->num_parts && s->status == STK_OK; p++)
            s->status = prepare_part(w, &w->parts[p], start, state, s, &next);
    }
    if (state)
        end_work(w, worker, state);
}

/* ---- The rest ---- */

void stk__window_close(stk_dataset *dataset)
{
    stk__window *w = (stk__window *)dataset;
    stk_context *ctx = w->base.context;

    for (uint32_t i = 0; i < STK__WINDOW_FIELDS; i++)
        stk__free(ctx, w->names[i]);
    for (uint32_t i = 0; i < w->num_variables; i++) {
        stk_array_close(&w->variables[i].array);
        stk__free(ctx, w->variables[i].path);
        stk__free(ctx, w->variables[i].lengths);
        stk__free(ctx, w->variables[i].offsets);
        stk__free(ctx, w->variables[i].objects);
        stk__free(ctx, w->variables[i].skips);
    }
    stk_group_close(&w->group);
    stk__free(ctx, w->notes);
    stk__free(ctx, w);
}

static stk_status window_describe(stk_dataset *dataset,
                                  void (*line)(void *user, const char *name, const char *value),
                                  void *user, stk_error *err)
{
    const stk__window *w = (const stk__window *)dataset;
    char text[512], name[96];

    (void)err;
    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        size_t at = (size_t)snprintf(text, sizeof text, "%s, %s, %s, ", v->info->format,
                                     v->info->type_name, v->info->codecs);
        for (uint32_t d = 0; d < v->info->rank && at < sizeof text; d++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", d ? "x" : "",
                                   (long long)v->info->shape[d]);
        for (uint32_t d = 0; d < v->info->rank && at < sizeof text; d++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld",
                                   d ? "x" : " in chunks of ", (long long)v->info->chunk_shape[d]);
        snprintf(name, sizeof name, "variable %s", v->name);
        line(user, name, text);
    }
    for (uint32_t i = 0; i < w->num_dims; i++) {
        const stk__window_dim *dim = &w->dims[i];
        snprintf(name, sizeof name, "dimension %.63s", dim->name);
        if (!dim->name[0])
            snprintf(name, sizeof name, "dimension %u", i);
        snprintf(text, sizeof text,
                 "%llu windows of %lld, one every %lld, from %lld to %lld; %llu to a block",
                 (unsigned long long)dim->n, (long long)dim->window, (long long)dim->stride,
                 (long long)dim->begin, (long long)dim->end, (unsigned long long)dim->k);
        line(user, name, text);
    }
    stk__window_advise(w, line, user);
    return STK_OK;
}

/* npy files are the kind npy's, where no other is given, packed pictures that of pictures, and what
 * is plainly a table of HDF5 that of rows; what a raw file holds, an option says. */
static int window_recognise(stk_context *ctx, const char *url)
{
    const stk_array_format_ops *format;
    const int sure = stk_array_recognise(ctx, url, &format);

    if (format == &stk__array_npy || format == &stk__array_raw)
        return 0;
    const int packed = sure > 0 ? stk__packed_recognise(ctx, url) : 0;
    const int other =
        sure > 0 && !packed && format == &stk__array_hdf5 ? stk__rows_recognise(ctx, url) : packed;
    return other ? STK_MIN(other, 1) : sure;
}

const stk_dataset_ops stk__dataset_array = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "array",
    .doc = "Windows of arrays: Zarr or NumPy, one variable or several of a group.",
    .options = &stk__window_table,
    .open = stk__window_open,
    .recognise = window_recognise,
    STK__WINDOW_OPS,
    .describe = window_describe,
};

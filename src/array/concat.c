/* SPDX-License-Identifier: Apache-2.0 */
/* The array of several files: what it takes from theirs, and where its chunks lie. */
#include <stdio.h>

#include "array/concat.h"
#include "array/watch.h"

#define MOST_CHUNKS (INT64_C(1) << 26) /* along the dimension of the files */
#define TIMES       65536              /* elements of a chunk of times that are held */

typedef struct joined {
    stk_context *context;
    stk_array **files; /* open as long as the array; the first has lent it its chain */
    int64_t *first;    /* number along the dimension of each one's first chunk, and the end */
    size_t count;
    uint32_t dimension, rank;
    uint64_t itemsize;
    bool cuts;     /* chunks are read up to what belongs to them */
    bool converts; /* the files are lists of times in units of their own */
    char *times;   /* all of them, in those of the first */
    int64_t chunk[STK_ARRAY_MAX_RANK];
    int64_t chunks[STK_ARRAY_MAX_RANK]; /* along the other dimensions */
} joined;

static void close_joined(void *state)
{
    joined *j = state;

    if (!j)
        return;
    for (size_t i = 0; j->files && i < j->count; i++)
        stk_array_close(&j->files[i]);
    stk__free(j->context, j->files);
    stk__free(j->context, j->first);
    stk__free(j->context, j->times);
    stk__free(j->context, j);
}

/* ---- Where chunks lie ---- */

/* The file that holds number `at` along the dimension. */
static size_t file_of(const joined *j, int64_t at)
{
    size_t low = 0, high = j->count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (j->first[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low; /* the last that begins there: those without elements have no chunks */
}

/* A piece of an array that is one run, as the format of its file would locate it. */
static void place_in_run(const joined *j, const stk_array *file, const int64_t *at,
                         stk_array_place *out)
{
    uint64_t stride = j->itemsize;

    out->offset = file->object_offset;
    out->length = j->itemsize;
    for (uint32_t d = j->rank; d-- > 0;) {
        const int64_t begin = at[d] * j->chunk[d];
        out->offset += (uint64_t)begin * stride;
        out->length *= (uint64_t)STK_MIN(j->chunk[d], file->shape[d] - begin);
        stride *= (uint64_t)file->shape[d];
    }
}

static stk_status locate(void *state, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    const joined *j = state;
    int64_t at[STK_ARRAY_MAX_RANK];
    uint64_t number = 0;

    for (uint32_t d = j->rank; d-- > 0;) {
        const uint64_t count = (uint64_t)(d == j->dimension ? j->first[j->count] : j->chunks[d]);
        at[d] = (int64_t)(chunk % count);
        chunk /= count;
    }
    const size_t i = file_of(j, at[j->dimension]);
    const stk_array *file = j->files[i];
    at[j->dimension] -= j->first[i];
    out->object = i;
    if (file->manifest == STK__MANIFEST_ONE) {
        place_in_run(j, file, at, out);
        return STK_OK;
    }
    for (uint32_t d = 0; d < j->rank; d++)
        number = number * (uint64_t)file->levels[0].count[d] + (uint64_t)at[d];
    STK_TRY(stk__array_locate(file, number, out, err));
    out->object = i;
    if (j->cuts) { /* what belongs to the chunk are its first elements */
        const int64_t begin = at[j->dimension] * file->levels[0].shape[j->dimension];
        uint64_t bytes = j->itemsize;
        for (uint32_t d = j->dimension + 1; d < j->rank; d++)
            bytes *= (uint64_t)j->chunk[d];
        bytes *= (uint64_t)STK_MIN(file->levels[0].shape[j->dimension],
                                   file->shape[j->dimension] - begin);
        out->length = STK_MIN(out->length, bytes);
    }
    return STK_OK;
}

/* ---- Opening the files ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to join files");
}

/* An array of a file that can be joined to others. */
static stk_status check_kind(const stk_array *a, stk_error *err)
{
    if (a->rank == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%.300s: the array has no dimension along which it could be joined to "
                            "others",
                            a->metadata_key);
    if ((a->manifest == STK__MANIFEST_PLACES ||
         (a->manifest == STK__MANIFEST_ONE && !a->fortran)) &&
        a->num_objects <= 1)
        return STK_OK;
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "%.300s: arrays of the format '%.64s' that lie so are not joined; those of "
                        "NetCDF, HDF5 and npy files are, whose first dimension runs slowest",
                        a->metadata_key, a->format);
}

/* What opens each of the files. */
typedef struct opener {
    stk__shared_store *shared;
    const stk_array_options *options;
    const stk_array_format_ops *format;
    const stk__own_options *own;
} opener;

static stk_status open_file(const opener *o, const char *key, const char *rest, stk_array **out,
                            stk_error *err)
{
    stk_array_opening opening = {.struct_size = sizeof opening,
                                 .store = o->shared->store,
                                 .key = key,
                                 .url = key,
                                 .rest = rest,
                                 .array_options = o->options};

    return stk__array_open_key(o->shared, &opening, o->format, o->own, out, err);
}

/* The coordinate along the dimension, where the file has one beside the array. */
static stk_status follow(const opener *o, const stk__concat_files *files, size_t i, stk_array *a,
                         uint32_t dimension, stk__concat_ends *ends, stk_error *err)
{
    const char *name = a->names ? a->names[dimension] : NULL;
    const char *slash = strrchr(files->rest, '/');
    const int parent = slash ? (int)(slash - files->rest) + 1 : 0;
    char rest[STK_MAX_OBJECT_KEY];
    stk_array *coordinate = NULL;
    stk_error own;

    if (!name || ends->unknown || !*files->rest)
        return STK_OK;
    if (strcmp(files->rest + parent, name) == 0)
        return stk__concat_follow(ends, a, err);
    if ((size_t)snprintf(rest, sizeof rest, "%.*s%s", parent, files->rest, name) >= sizeof rest)
        return STK_OK;
    stk_error_init(&own);
    stk_status status = open_file(o, files->keys[i], rest, &coordinate, &own);
    if (status == STK_ENOENT || status == STK_EKIND || status == STK_EMISMATCH) {
        ends->unknown = true; /* none, or none of numbers */
        return STK_OK;
    }
    if (status != STK_OK && err)
        *err = own;
    if (status == STK_OK && coordinate->rank == 1)
        status = stk__concat_follow(ends, coordinate, err);
    stk_array_close(&coordinate);
    return status;
}

static stk_status open_files(joined *j, const opener *o, const stk__concat_files *files,
                             stk_error *err)
{
    stk__concat_ends ends = {0};

    for (size_t i = 0; i < files->count; i++) {
        STK_TRY(open_file(o, files->keys[i], files->rest, &j->files[i], err));
        STK_TRY(check_kind(j->files[i], err));
        if (i == 0)
            STK_TRY(stk__concat_dimension(j->files[0], o->options->concat, &j->dimension, err));
        else
            STK_TRY(stk__concat_same(j->files[0], j->files[i], j->dimension, &j->converts, err));
        STK_TRY(follow(o, files, i, j->files[i], j->dimension, &ends, err));
    }
    return STK_OK;
}

/* ---- The array ---- */

/* The shape, and that of the chunks. */
static stk_status take_shape(stk_array *a, joined *j, stk_error *err)
{
    const stk_array *m = j->files[0];
    const uint32_t dim = j->dimension;
    int64_t shape[STK_ARRAY_MAX_RANK];

    a->rank = j->rank = m->rank;
    memcpy(a->shape, m->shape, sizeof a->shape);
    memcpy(shape, m->shape, sizeof shape);
    for (size_t i = 1; i < j->count; i++) {
        const int64_t more = j->files[i]->shape[dim];
        shape[dim] = STK_MAX(shape[dim], more);
        if (__builtin_add_overflow(a->shape[dim], more, &a->shape[dim]))
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "%.200s: all files together have more elements than can be",
                                a->metadata_key);
    }
    memcpy(j->chunk, m->levels[0].shape, sizeof j->chunk);
    if (m->manifest == STK__MANIFEST_ONE) { /* a piece ends with its file, cut along `dim` alone */
        stk__array_pieces(a->rank, shape, m->type.itemsize, j->chunk);
        for (uint32_t d = 0; d < dim; d++)
            j->chunk[d] = 1;
    }
    for (size_t i = 1; m->manifest != STK__MANIFEST_ONE && i < j->count; i++)
        j->chunk[dim] = STK_MAX(j->chunk[dim], j->files[i]->levels[0].shape[dim]);
    j->cuts = m->as_is && m->manifest != STK__MANIFEST_ONE && stk__concat_runs(m, dim);
    memcpy(a->levels[0].shape, j->chunk, sizeof j->chunk);
    return STK_OK;
}

/* Elements of the chunks of a file along the dimension. */
static int64_t chunk_of(const joined *j, size_t i)
{
    const stk_array *file = j->files[i];
    const bool run = file->manifest == STK__MANIFEST_ONE;

    return run ? j->chunk[j->dimension] : file->levels[0].shape[j->dimension];
}

/* Where the chunks of all files begin along the dimension. */
static stk_status take_edges(stk_array *a, joined *j, stk_error *err)
{
    stk__level *level = &a->levels[0];
    int64_t begin = 0, n = 0;

    for (size_t i = 0; i < j->count; i++) {
        const int64_t length = j->files[i]->shape[j->dimension], size = chunk_of(j, i);
        j->first[i] = n;
        n += length / size + (length % size != 0);
        if (n > MOST_CHUNKS)
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "%.200s: all files together have more than 2^26 chunks along the "
                                "dimension; join fewer",
                                a->metadata_key);
    }
    j->first[j->count] = n;
    level->edges = stk__alloc(a->context, ((size_t)n + 1) * sizeof *level->edges);
    if (!level->edges)
        return no_memory(err);
    n = 0;
    for (size_t i = 0; i < j->count; i++) {
        const int64_t length = j->files[i]->shape[j->dimension], size = chunk_of(j, i);
        for (int64_t at = 0; at < length; at += size)
            level->edges[n++] = begin + at;
        begin += length;
    }
    level->edges[n] = begin;
    level->uneven = j->dimension;
    level->count[j->dimension] = n;
    STK_TRY(stk__level_init(a, level, a->metadata_key, err));
    memcpy(j->chunks, level->count, sizeof j->chunks);
    return STK_OK;
}

static stk_status take_objects(stk_array *a, const stk__concat_files *files, stk_error *err)
{
    a->objects = stk__calloc(a->context, files->count, sizeof *a->objects);
    a->object_key = stk__strdup(a->context, files->keys[0]);
    for (size_t i = 0; a->objects && i < files->count; i++, a->num_objects++)
        if (!(a->objects[i] = stk__strdup(a->context, files->keys[i])))
            return no_memory(err);
    return a->objects && a->object_key ? STK_OK : no_memory(err);
}

/* What all files have in common comes from the first. */
static stk_status take_values(stk_array *a, const joined *j, stk_error *err)
{
    const stk_array *m = j->files[0];

    a->fill = stk__alloc(a->context, m->type.itemsize);
    if (!a->fill)
        return no_memory(err);
    memcpy(a->fill, m->fill, m->type.itemsize);
    a->fill_defined = m->fill_defined;
    for (uint32_t d = 0; m->names && d < m->rank; d++)
        if (m->names[d])
            STK_TRY(stk__array_name(a, d, m->names[d], err));
    a->num_levels = 1;
    a->manifest = STK__MANIFEST_PLACES;
    return stk__json_keep(a->context, m->attributes.value, a->metadata_key, &a->attributes, err);
}

/* A chain goes over, as the files' are not used. */
static stk_status take_chain(stk_array *a, const joined *j, stk_error *err)
{
    stk_array *m = j->files[0];

    a->as_is = m->as_is;
    if (m->manifest == STK__MANIFEST_ONE)
        return stk__array_plain_chain(a, false, err);
    a->order = m->order;
    for (size_t i = 0; i < j->count; i++) /* that of the largest chunks */
        if (chunk_of(j, i) == j->chunk[j->dimension])
            m = j->files[i];
        else if (!a->as_is)
            a->parts = j->files;
    memcpy(a->chunk_strides, m->chunk_strides, sizeof a->chunk_strides);
    a->chain = m->chain;
    a->skipping = m->skipping;
    m->chain = NULL;
    m->skipping = NULL;
    return STK_OK;
}

/* ---- Times in units of their own ---- */

static stk_status read_times(void *state, const int64_t *start, const int64_t *shape,
                             const stk_store_call *call, void *out, uint64_t bytes, stk_error *err)
{
    const joined *j = state;

    (void)shape, (void)call, (void)err;
    memcpy(out, j->times + (uint64_t)start[0] * j->itemsize, bytes);
    return STK_OK;
}

static stk_status hold_times(stk_array *a, joined *j, stk_error *err)
{
    void *times;

    STK_TRY(stk__concat_times_read(j->files, j->count, a->shape[0], &times, err));
    j->times = times;
    a->type.big_endian = false;
    a->levels[0].shape[0] = STK_MAX(STK_MIN(a->shape[0], TIMES), 1);
    STK_TRY(stk__level_init(a, &a->levels[0], a->metadata_key, err));
    STK_TRY(stk__array_plain_chain(a, false, err));
    return stk__array_read_by_format(a, err);
}

/* ---- The whole ---- */

static stk_status build(stk_array *a, joined *j, const stk__concat_files *files, stk_error *err)
{
    const stk_array *m = j->files[0];
    char format[STK__ARRAY_FORMAT];

    snprintf(format, sizeof format, "%.40s, %zu files", m->format, j->count);
    stk__array_set_format(a, format);
    a->type = m->type;
    j->itemsize = m->type.itemsize;
    STK_TRY(take_shape(a, j, err));
    STK_TRY(take_objects(a, files, err));
    STK_TRY(take_values(a, j, err));
    if (j->converts) {
        STK_TRY(hold_times(a, j, err));
    } else {
        STK_TRY(stk__watch_join(a, j->files, err));
        STK_TRY(take_edges(a, j, err));
        STK_TRY(take_chain(a, j, err));
    }
    return stk__array_finish(a, err);
}

static stk_status open_joined(stk_context *ctx, const opener *o, const stk__concat_files *files,
                              stk_array **out, stk_error *err)
{
    STK_TRY(stk__array_create(ctx, o->shared, "", o->options, out, err));
    stk_array *a = *out;
    joined *j = stk__calloc(ctx, 1, sizeof *j);
    if (!j)
        return no_memory(err);
    a->ops = &stk__array_concat;
    a->state = j;
    a->owns_state = true;
    j->context = ctx;
    j->files = stk__calloc(ctx, files->count, sizeof *j->files);
    j->first = stk__calloc(ctx, files->count + 1, sizeof *j->first);
    a->metadata_key = stk__strdup(ctx, files->name);
    a->rest = *files->rest ? stk__strdup(ctx, files->rest) : NULL;
    if (!j->files || !j->first || !a->metadata_key || (*files->rest && !a->rest))
        return no_memory(err);
    j->count = files->count;
    STK_TRY(open_files(j, o, files, err));
    return build(a, j, files, err);
}

stk_status stk__concat_open(stk_context *ctx, const char *url, const stk_array_options *options,
                            const stk_array_format_ops *format, const stk__own_options *own,
                            stk_array **out, stk_error *err)
{
    opener o = {.options = options, .format = format, .own = own};
    stk__concat_files files;

    stk_status status = stk__concat_files_find(ctx, url, &files, err);
    if (status == STK_OK)
        status = stk__shared_create(&files.store, &o.shared, err);
    if (status == STK_OK) {
        status = open_joined(ctx, &o, &files, out, err);
        if (status != STK_OK)
            stk_array_close(out);
        else
            stk__array_drop_texts(*out);
        stk__shared_unref(o.shared);
    }
    stk__concat_files_release(&files);
    return status;
}

const char *stk__array_along(const stk_array *a)
{
    const joined *j = a->state;

    return a->ops == &stk__array_concat && a->names ? a->names[j->dimension] : NULL;
}

static int recognise(stk_store *store, const char *key)
{
    (void)store, (void)key;
    return 0;
}

/* Not among the formats that are looked through: the option `concat` asks for it. */
const stk_array_format_ops stk__array_concat = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "concat",
    .doc = "Files joined along a dimension",
    .takes_rest = true,
    .recognise = recognise,
    .locate = locate,
    .read = read_times,
    .close = close_joined,
};

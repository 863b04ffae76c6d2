/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of several files -> tensors, or what one of several readers wants of them. The heads of
 * all parts are read before any memory is taken: what they have of a tensor has to be what its
 * shape says. Where each reader wants what the part of its number has, that part alone is read.
 */
#include "checkpoint/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/hash.h"

#define REMEDY                                                                                     \
    "; a checkpoint is copied with what '" STK__CHECKPOINT_PARTS                                   \
    "' beside it has, or as one file by 'stoker convert ckpt FROM TO'; else use an earlier one"

/* A tensor that lies in parts. */
typedef struct joined {
    stk_state_tensor whole; /* its data lies in the block of all */
    const char *range;      /* name of its ranges */
    uint64_t filled;        /* bytes that the parts up to now have */
    uint64_t from, bytes;   /* what is wanted of it */
} joined;

typedef struct joining {
    stk_context *ctx;
    const char *path; /* of the first */
    stk__safetensors_file *first;
    stk__checkpoint_part part;
    uint32_t at; /* number of the part that is open */
    joined *tensors;
    size_t n;
    stk__parts_told told;
    const stk__checkpoint_wanted *wanted; /* NULL: all, by one reader */
    bool own;                             /* what each reader wants is what its part has */
} joining;

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static stk_status no_memory(const joining *j, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, j->path, STK_NO_OFFSET,
                        "no memory to put the parts of '%.300s' together", j->path);
}

static stk_status bad(const joining *j, const char *name, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, j->path, STK_NO_OFFSET,
                        "the checkpoint '%.200s' lies in %" PRIu32
                        " parts, and the tensor '%.100s' %s" REMEDY,
                        j->path, j->part.count, name, why);
}

static stk_status bad_part(const joining *j, const char *path, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "the checkpoint '%.200s' lies in %" PRIu32
                        " parts, and '%.200s' has ranges of tensors without a shape" REMEDY,
                        j->path, j->part.count, path);
}

/* ---- What the first says --------------------------------------------------------------------- */

/* The shape of a tensor, which is the data of `shape`. */
static stk_status read_shape(const joining *j, const stk_state_tensor *shape, joined *to,
                             stk_error *err)
{
    const stk__safetensors *s = &j->first->parsed;
    const uint64_t at = j->first->head_bytes + s->begins[shape - s->tensors];
    uint64_t bytes = stk_dtype_size(to->whole.dtype);

    if (shape->dtype != STK_INT64 || shape->rank != 1 || shape->shape[0] > STK_MAX_RANK)
        return bad(j, to->whole.name, "has no shape", err);
    to->whole.rank = (uint32_t)shape->shape[0];
    if (shape->data)
        memcpy(to->whole.shape, shape->data, shape->bytes);
    else
        STK_TRY(stk__checkpoint_source_read(&j->first->source, j->path, at, to->whole.shape,
                                            shape->bytes, err));
    for (uint32_t i = 0; i < to->whole.rank; i++)
        if (to->whole.shape[i] < 0 || !stk__mul_size(bytes, (uint64_t)to->whole.shape[i], &bytes))
            return bad(j, to->whole.name, "has a shape that none can have", err);
    to->whole.bytes = bytes;
    return STK_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const stk__checkpoint_range *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void want(const joining *j, joined *t)
{
    const stk__checkpoint_wanted *w = j->wanted;
    const stk__checkpoint_range key = {.name = t->whole.name}, all = {.bytes = UINT64_MAX}, *range;

    range = !w ? &all : w->n ? bsearch(&key, w->ranges, w->n, sizeof key, compare_ranges) : NULL;
    if (!range)
        return;
    t->from = STK_MIN(range->from, t->whole.bytes);
    t->bytes = STK_MIN(range->bytes, t->whole.bytes - t->from);
}

static stk_status take_tensor(const joining *j, const stk_state_tensor *shape, joined *to,
                              stk_error *err)
{
    char range[1024];

    to->whole.name = shape->name + strlen(STK__CHECKPOINT_SHAPE);
    const int used = snprintf(range, sizeof range, STK__CHECKPOINT_RANGE "%s", to->whole.name);
    const stk_state_tensor *first = used < 0 || (size_t)used >= sizeof range
                                        ? NULL
                                        : stk__safetensors_find(&j->first->parsed, range);
    if (!first || first->rank != 1 || !*to->whole.name)
        return bad(j, to->whole.name, "has no range in the first", err);
    to->range = first->name;
    to->whole.dtype = first->dtype;
    STK_TRY(read_shape(j, shape, to, err));
    want(j, to);
    to->filled = j->own && j->wanted->reader ? to->from : first->bytes;
    return first->bytes <= to->whole.bytes ? STK_OK
                                           : bad(j, to->whole.name, "is larger there", err);
}

static stk_status list_tensors(joining *j, stk_error *err)
{
    const stk__safetensors *s = &j->first->parsed;
    size_t shapes = 0, ranges = 0;

    for (size_t i = 0; i < s->num_tensors; i++) {
        shapes += begins_with(s->tensors[i].name, STK__CHECKPOINT_SHAPE);
        ranges += begins_with(s->tensors[i].name, STK__CHECKPOINT_RANGE);
    }
    j->tensors = stk__calloc(j->ctx, shapes + 1, sizeof *j->tensors);
    if (!j->tensors)
        return no_memory(j, err);
    for (size_t i = 0; i < s->num_tensors; i++)
        if (begins_with(s->tensors[i].name, STK__CHECKPOINT_SHAPE))
            STK_TRY(take_tensor(j, &s->tensors[i], &j->tensors[j->n++], err));
    return ranges == shapes ? STK_OK : bad_part(j, j->path, err);
}

/* ---- What the others have -------------------------------------------------------------------- */

/* What is done with the open file of a part. */
typedef stk_status part_fn(joining *j, stk__safetensors_file *file, const char *path,
                           stk_error *err);

/* Open the file of a part, which has to be one of this save. */
static stk_status open_part(const joining *j, uint32_t number, const char *path,
                            stk__safetensors_file *file, stk_error *err)
{
    stk__checkpoint_part other;
    stk_error why;

    stk_error_init(&why);
    const stk_status status = stk__safetensors_file_open(j->ctx, path, file, &why);
    if (status == STK_ENOENT)
        return stk__fail_at(err, status, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "the checkpoint '%.200s' lies in %" PRIu32 " parts, and part %" PRIu32
                            " is not there: '%.200s'" REMEDY,
                            j->path, j->part.count, number, path);
    if (status != STK_OK) {
        if (err)
            *err = why;
        return status;
    }
    const char *text = stk__safetensors_find_text(&file->parsed, STK__CHECKPOINT_PART);
    const bool is_part = text && stk__part_parse(text, &other);
    const bool same =
        is_part && stk__part_same_save(&other, &j->part) && other.count == j->part.count;
    if (same && other.number == number)
        return STK_OK;
    stk__safetensors_file_close(file);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "'%.200s' is not part %" PRIu32 " of the checkpoint '%.200s', whatever its "
                        "name says: it is %s" REMEDY,
                        path, number, j->path,
                        same      ? "another part of it"
                        : is_part ? "of another save"
                                  : "a file of its own");
}

static stk_status one_part(joining *j, uint32_t number, part_fn *each, stk_error *err)
{
    stk__safetensors_file file;

    char *path = stk__part_path(j->ctx, j->path, &j->part, number);
    if (!path)
        return no_memory(j, err);
    stk_status status = open_part(j, number, path, &file, err);
    if (status == STK_OK) {
        j->at = number;
        status = each(j, &file, path, err);
        stk__safetensors_file_close(&file);
    }
    stk__free(j->ctx, path);
    return status;
}

static stk_status each_part(joining *j, part_fn *each, stk_error *err)
{
    if (j->own)
        return j->wanted->reader ? one_part(j, (uint32_t)j->wanted->reader, each, err) : STK_OK;
    for (uint32_t k = 1; k < j->part.count; k++)
        STK_TRY(one_part(j, k, each, err));
    return STK_OK;
}

/* What a part has of a tensor, behind what those before it have. */
static stk_status find_range(const joining *j, const stk__safetensors_file *file, const joined *of,
                             const stk_state_tensor **out, stk_error *err)
{
    const stk_state_tensor *range = stk__safetensors_find(&file->parsed, of->range);

    *out = range;
    if (!range || range->dtype != of->whole.dtype || range->rank != 1)
        return bad(j, of->whole.name, "is of another type or missing in one of them", err);
    return range->bytes <= of->whole.bytes - of->filled
               ? STK_OK
               : bad(j, of->whole.name, "is more than its shape says", err);
}

static stk_status count_part(joining *j, stk__safetensors_file *file, const char *path,
                             stk_error *err)
{
    const stk_state_tensor *range;

    for (size_t i = 0; i < j->n; i++) {
        STK_TRY(find_range(j, file, &j->tensors[i], &range, err));
        j->tensors[i].filled += range->bytes;
    }
    j->told.bytes += file->source.size;
    return file->parsed.num_tensors == j->n ? STK_OK : bad_part(j, path, err);
}

static stk_status check_filled(const joining *j, stk_error *err)
{
    for (size_t i = 0; i < j->n; i++) {
        const joined *t = &j->tensors[i];
        if (t->filled != (j->own ? t->from + t->bytes : t->whole.bytes))
            return bad(j, t->whole.name, "is less than its shape says", err);
    }
    return STK_OK;
}

static stk_status verify_part(joining *j, stk__safetensors_file *file, const char *path,
                              stk_error *err)
{
    return stk__checkpoint_verify_alone(j->ctx, file, path, err);
}

/* The bytes of a range, which begins where the tensor is filled, that are wanted: [*from, *to). */
static void overlap(const joined *t, uint64_t bytes, uint64_t *from, uint64_t *to)
{
    *from = STK_MAX(t->filled, t->from);
    *to = STK_MAX(STK_MIN(t->filled + bytes, t->from + t->bytes), *from);
}

static void take_range(joined *t, const stk_state_tensor *range)
{
    uint64_t from, to;

    overlap(t, range->bytes, &from, &to);
    if (from < to)
        memcpy((char *)t->whole.data + (from - t->from),
               (const char *)range->data + (from - t->filled), to - from);
    t->filled += range->bytes;
}

/* All of a part, verified. */
static stk_status load_part(joining *j, stk__safetensors_file *file, const char *path,
                            stk_error *err)
{
    uint8_t *data = NULL, *moved = NULL;
    const stk_state_tensor *range;

    stk_status status = stk__checkpoint_load_alone(file, path, &data, &moved, err);
    for (size_t i = 0; i < j->n && status == STK_OK; i++) {
        /* The file may have become another since its head was looked at. */
        status = find_range(j, file, &j->tensors[i], &range, err);
        if (status == STK_OK)
            take_range(&j->tensors[i], range);
    }
    stk__free(j->ctx, data);
    stk__free(j->ctx, moved);
    return status;
}

/* What is wanted of it, which another reader verifies. */
static stk_status read_ranges(joining *j, stk__safetensors_file *file, const char *path,
                              stk_error *err)
{
    const stk__safetensors *s = &file->parsed;
    const stk_state_tensor *range;
    uint64_t from, to;

    for (size_t i = 0; i < j->n; i++) {
        joined *t = &j->tensors[i];
        STK_TRY(find_range(j, file, t, &range, err));
        overlap(t, range->bytes, &from, &to);
        const uint64_t at = file->head_bytes + s->begins[range - s->tensors] + (from - t->filled);
        if (from < to)
            STK_TRY(stk__checkpoint_source_read(
                &file->source, path, at, (char *)t->whole.data + (from - t->from), to - from, err));
        t->filled += range->bytes;
    }
    return STK_OK;
}

/* How much of a part is wanted, in *all whether all is. */
static stk_status count_wanted(const joining *j, const stk__safetensors_file *file,
                               uint64_t *wanted, bool *all, stk_error *err)
{
    const stk_state_tensor *range;
    uint64_t from, to;

    *wanted = 0;
    *all = true;
    for (size_t i = 0; i < j->n; i++) {
        STK_TRY(find_range(j, file, &j->tensors[i], &range, err));
        overlap(&j->tensors[i], range->bytes, &from, &to);
        *wanted += to - from;
        *all &= to - from == range->bytes;
    }
    return STK_OK;
}

/* Of each part one reader answers for, one that is likely to want some of it: they divide tensors
 * as parts do. */
static bool answers(const joining *j, uint64_t part)
{
    const stk__checkpoint_wanted *w = j->wanted;

    return !w || w->reader == part * w->readers / j->part.count;
}

static stk_status take_part(joining *j, stk__safetensors_file *file, const char *path,
                            stk_error *err)
{
    uint64_t wanted;
    bool all;

    STK_TRY(count_wanted(j, file, &wanted, &all, err));
    if (wanted == 0 && answers(j, j->at))
        STK_TRY(verify_part(j, file, path, err));
    return wanted && (all || answers(j, j->at)) ? load_part(j, file, path, err)
                                                : read_ranges(j, file, path, err);
}

/* ---- The list -------------------------------------------------------------------------------- */

static bool is_joined(const stk_state_tensor *t)
{
    return begins_with(t->name, STK__CHECKPOINT_SHAPE) ||
           begins_with(t->name, STK__CHECKPOINT_RANGE);
}

/* Have the file list whole tensors, and no text of parts. */
static stk_status replace_list(const joining *j, stk_error *err)
{
    stk__safetensors *s = &j->first->parsed;
    const size_t kept = s->num_tensors - 2 * j->n;
    size_t to = 0;

    stk_state_tensor *tensors = stk__calloc(j->ctx, kept + j->n + 1, sizeof *tensors);
    s->skipped = stk__calloc(j->ctx, kept + j->n + 1, sizeof *s->skipped);
    if (!tensors || !s->skipped) {
        stk__free(j->ctx, tensors);
        return no_memory(j, err);
    }
    for (size_t i = 0; i < s->num_tensors; i++) {
        if (is_joined(&s->tensors[i]))
            continue;
        s->begins[to] = s->begins[i];
        tensors[to++] = s->tensors[i];
    }
    for (size_t i = 0; i < j->n; i++) {
        s->begins[to] = 0; /* it has no place in this file */
        s->skipped[to] = j->tensors[i].from;
        tensors[to++] = j->tensors[i].whole;
    }
    stk__free(j->ctx, s->tensors);
    s->tensors = tensors;
    s->num_tensors = to;
    const char *twice = stk__safetensors_sort_names(s);
    if (twice)
        return bad(j, twice, "is there as a whole, too", err);
    for (to = 0; strcmp(s->texts[to].name, STK__CHECKPOINT_PART) != 0; to++)
        continue;
    memmove(&s->texts[to], &s->texts[to + 1], (s->num_texts - to - 1) * sizeof *s->texts);
    s->num_texts--;
    return STK_OK;
}

/* ---- Both ways ------------------------------------------------------------------------------- */

/* What the first says that it is; j->part.count is 0 where the file lies in no parts. */
static stk_status identify(joining *j, stk_error *err)
{
    const char *text = stk__safetensors_find_text(&j->first->parsed, STK__CHECKPOINT_PART);

    if (!text)
        return STK_OK;
    if (!stk__part_parse(text, &j->part))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, j->path, STK_NO_OFFSET,
                            "the checkpoint '%.300s' says that it is the part '%.80s', which is "
                            "none" STK__SAFETENSORS_REMEDY,
                            j->path, text);
    if (j->part.number)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, j->path, STK_NO_OFFSET,
                            "'%.300s' is part %" PRIu32 " of %" PRIu32
                            " of a checkpoint: give the file that lies beside its folder",
                            j->path, j->part.number, j->part.count);
    j->told.count = j->part.count;
    return STK_OK;
}

/* All that is known without the data. */
static stk_status begin(joining *j, stk_error *err)
{
    STK_TRY(identify(j, err));
    if (!j->part.count)
        return STK_OK;
    STK_TRY(list_tensors(j, err));
    STK_TRY(each_part(j, count_part, err));
    return check_filled(j, err);
}

stk_status stk__parts_identify(stk__safetensors_file *file, const char *path, uint32_t *count,
                               stk_error *err)
{
    joining j = {.ctx = file->parsed.ctx, .path = path, .first = file};

    const stk_status status = identify(&j, err);
    *count = j.part.count;
    return status;
}

/* Whether what is open, or the first, has just what is wanted. */
static bool has_wanted(const joining *j, const stk__safetensors *s)
{
    bool same = true;

    for (size_t i = 0; i < j->n; i++) {
        const joined *t = &j->tensors[i];
        const stk_state_tensor *range = stk__safetensors_find(s, t->range);
        same &= range && range->bytes == t->bytes && (j->wanted->reader || t->from == 0);
    }
    return same;
}

static stk_status look_at_own(joining *j, stk__safetensors_file *file, const char *path,
                              stk_error *err)
{
    j->own = has_wanted(j, &file->parsed);
    return STK_OK;
}

stk_status stk__parts_own(stk__safetensors_file *file, const char *path,
                          const stk__checkpoint_wanted *wanted, bool *own, stk_error *err)
{
    joining j = {.ctx = file->parsed.ctx, .path = path, .first = file, .wanted = wanted};

    *own = false;
    stk_status status = identify(&j, err);
    if (status != STK_OK || !j.part.count || j.part.count != wanted->readers)
        return status;
    status = list_tensors(&j, err);
    if (status == STK_OK && wanted->reader)
        status = one_part(&j, (uint32_t)wanted->reader, look_at_own, err);
    *own = status == STK_OK && (wanted->reader ? j.own : has_wanted(&j, &file->parsed));
    stk__free(j.ctx, j.tensors);
    return status;
}

stk_status stk__parts_verify(stk__safetensors_file *file, const char *path, uint64_t reader,
                             uint64_t readers, stk__parts_told *told, stk_error *err)
{
    const stk__checkpoint_wanted none = {.reader = reader, .readers = readers};
    joining j = {.ctx = file->parsed.ctx, .path = path, .first = file, .wanted = &none};

    stk_status status = reader ? identify(&j, err) : begin(&j, err);
    for (uint32_t k = 1; k < j.part.count && status == STK_OK; k++)
        if (answers(&j, k))
            status = one_part(&j, k, verify_part, err);
    if (status == STK_OK && j.part.count && reader == 0)
        status = replace_list(&j, err);
    stk__free(j.ctx, j.tensors);
    *told = j.told;
    return status;
}

/* A tensor begins with a cache line. False: no memory is so large. */
static bool add_bytes(uint64_t tensor, uint64_t *bytes)
{
    return tensor <= UINT64_MAX - STK_CACHE_LINE &&
           stk__add_size(*bytes, stk__round_up(tensor, STK_CACHE_LINE), bytes);
}

/* Bytes of the block of all tensors. */
static uint64_t block_bytes(const joining *j)
{
    const stk__safetensors *s = &j->first->parsed;
    uint64_t bytes = 0;

    for (size_t i = 0; i < s->num_tensors; i++)
        if (!is_joined(&s->tensors[i]) && !add_bytes(s->tensors[i].bytes, &bytes))
            return UINT64_MAX;
    for (size_t i = 0; i < j->n; i++)
        if (!add_bytes(j->tensors[i].bytes, &bytes))
            return UINT64_MAX;
    return bytes;
}

/* Move what the first has into the block. */
static void fill_first(const joining *j, uint8_t *block)
{
    stk__safetensors *s = &j->first->parsed;

    for (size_t i = 0; i < s->num_tensors; i++) {
        stk_state_tensor *t = &s->tensors[i];
        if (is_joined(t))
            continue;
        if (t->bytes)
            memcpy(block, t->data, t->bytes);
        t->data = block;
        block += stk__round_up(t->bytes, STK_CACHE_LINE);
    }
    for (size_t i = 0; i < j->n; i++) {
        joined *t = &j->tensors[i];
        const stk_state_tensor *range = stk__safetensors_find(s, t->range);
        t->whole.data = block;
        t->filled = 0;
        take_range(t, range);
        t->filled = j->own && j->wanted->reader ? t->from : range->bytes;
        block += stk__round_up(t->bytes, STK_CACHE_LINE);
    }
}

/* Behind begin(): the data of all. */
static stk_status load(joining *j, uint8_t **block, stk_error *err)
{
    const uint64_t bytes = block_bytes(j), limit = stk__context_memory_limit(j->ctx);

    if (bytes > limit)
        return stk__fail_at(err, STK_EBUDGET, STK_STAGE_TRAIN, j->path, STK_NO_OFFSET,
                            "'%.300s' holds %" PRIu64
                            " bytes of tensors with its parts; this process may use %" PRIu64,
                            j->path, bytes, limit);
    *block = stk__alloc_buffer(j->ctx, bytes);
    if (!*block)
        return no_memory(j, err);
    fill_first(j, *block);
    STK_TRY(each_part(j, take_part, err));
    STK_TRY(check_filled(j, err));
    return replace_list(j, err);
}

stk_status stk__parts_load(stk__safetensors_file *file, const char *path,
                           const stk__checkpoint_wanted *wanted, bool own, uint8_t **data,
                           uint8_t **moved, stk_error *err)
{
    joining j = {
        .ctx = file->parsed.ctx, .path = path, .first = file, .wanted = wanted, .own = own};
    uint8_t *block = NULL;

    stk_status status = begin(&j, err);
    if (status == STK_OK && j.part.count)
        status = load(&j, &block, err);
    if (status == STK_OK && j.part.count) {
        stk__free(j.ctx, *data);
        stk__free(j.ctx, *moved);
        *data = block;
        *moved = NULL;
    } else {
        stk__free(j.ctx, block);
    }
    stk__free(j.ctx, j.tensors);
    return status;
}

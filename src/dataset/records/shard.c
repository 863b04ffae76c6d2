/* SPDX-License-Identifier: Apache-2.0 */
/* A shard while it is scanned: bytes through a window, and where its records lie. */
#include "dataset/records/shard.h"

#include <stdarg.h>
#include <stdio.h>

/* Of a local file: a page, up to what stays in a core's cache. Seeking further than `near` costs
 * less than copying what lies between. */
#define LOCAL_LEAST 4096u
#define LOCAL_MOST  (UINT64_C(256) << 10)
#define LOCAL_NEAR  (UINT64_C(32) << 10)
/* Of another machine: what a request takes is worth some MiB. */
#define FAR_LEAST (UINT64_C(64) << 10)
#define FAR_MOST  (UINT64_C(4) << 20)
#define FAR_NEAR  (UINT64_C(2) << 20)

/* Odd, of no small order: 2^64 divided by the golden ratio. */
#define PRINT_BASE UINT64_C(0x9e3779b97f4a7c15)

const char *stk__shard_key(const stk__shard *shard)
{
    return shard->key;
}

uint64_t stk__shard_size(const stk__shard *shard)
{
    return shard->size;
}

uint64_t stk__shard_number(const stk__shard *shard)
{
    return shard->number;
}

void *stk__shard_state(const stk__shard *shard)
{
    return shard->set->state;
}

stk_store *stk__shard_store(const stk__shard *shard)
{
    return shard->store;
}

stk_context *stk__shard_context(const stk__shard *shard)
{
    return shard->set->base.context;
}

stk_status stk__shard_fail(const stk__shard *shard, stk_status status, uint64_t offset,
                           stk_error *err, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk__fail_at(err, status, STK_STAGE_DATASET, shard->key, offset,
                        "%s: %.200s, record %zu, byte %llu: %s", shard->set->format->ops->name,
                        shard->key, shard->found.num_records ? shard->found.num_records - 1 : 0,
                        (unsigned long long)offset, text);
}

static stk_status no_memory(const stk__shard *shard, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, shard->key, STK_NO_OFFSET,
                        "%s: no memory for the index of %.200s; raise memory_limit, or open fewer "
                        "shards",
                        shard->set->format->ops->name, shard->key);
}

/* ---- Reading --------------------------------------------------------------------------------- */

uint64_t stk__shard_window(stk_store *store)
{
    return stk__file_root(store) >= 0 ? LOCAL_MOST : FAR_MOST;
}

stk_status stk__shard_begin(stk__shard *shard, const stk__records *set, uint64_t number,
                            stk_error *err)
{
    const stk__records_shard *s = &set->table.shards[number];

    *shard = (stk__shard){.set = set,
                          .number = number,
                          .size = s->size,
                          .key = set->table.text + s->key,
                          .store = set->stores[s->store].store};
    const bool local = stk__file_root(shard->store) >= 0;
    shard->least = shard->next = local ? LOCAL_LEAST : FAR_LEAST;
    shard->near = local ? LOCAL_NEAR : FAR_NEAR;
    shard->most = STK_MAX(STK_MIN(stk__shard_window(shard->store), s->size), shard->least);
    if (shard->most > stk__memory_left(set->base.context))
        return no_memory(shard, err);
    shard->window = stk__alloc(set->base.context, shard->most);
    return shard->window ? STK_OK : no_memory(shard, err);
}

/* Have a window that begins at `offset` and holds `size` bytes at least. */
static stk_status move_window(stk__shard *shard, uint64_t offset, uint64_t size, stk_error *err)
{
    const uint64_t end = shard->at + shard->length;

    if (offset >= shard->at && (offset <= end || offset - end <= shard->near))
        shard->next = STK_MIN(shard->next * 2, shard->most);
    else
        shard->next = shard->least;
    const uint64_t length = STK_MIN(STK_MAX(shard->next, size), shard->size - offset);
    shard->length = 0;
    STK_TRY(stk_store_read(shard->store, shard->key, offset, length, shard->window, err));
    shard->at = offset;
    shard->length = length;
    return STK_OK;
}

stk_status stk__shard_read(stk__shard *shard, uint64_t offset, void *out, size_t size,
                           stk_error *err)
{
    if (offset > shard->size || size > shard->size - offset)
        return stk__shard_fail(shard, STK_ETRUNCATED, offset, err,
                               "%zu bytes are to follow and the shard ends at %llu; copy or "
                               "download it again",
                               size, (unsigned long long)shard->size);
    if (size > shard->most)
        return stk_store_read(shard->store, shard->key, offset, size, out, err);
    if (offset < shard->at || offset - shard->at > shard->length ||
        size > shard->length - (offset - shard->at))
        STK_TRY(move_window(shard, offset, size, err));
    if (size)
        memcpy(out, shard->window + (offset - shard->at), size);
    return STK_OK;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* As stk__grow(), but that half of memory_limit is left: the process is more than its lists. */
static void *grow(const stk__shard *shard, void *array, size_t *room, uint64_t wanted, size_t size)
{
    stk_context *ctx = shard->set->base.context;
    const uint64_t rest = stk__context_memory_limit(ctx) / 2, left = stk__memory_left(ctx);
    uint64_t bytes;

    if (array && wanted <= *room)
        return array;
    if (!stk__mul_size(STK_MAX(*room * 2, wanted), size, &bytes) || left < rest ||
        bytes > left - rest)
        return NULL;
    return stk__grow(ctx, array, room, wanted, size);
}

/* The last record that was begun has a part. */
static stk_status check_last(const stk__shard *shard, stk_error *err)
{
    const stk__shard_found *f = &shard->found;

    if (f->num_records && f->starts[f->num_records - 1] == f->num_parts)
        return stk__shard_fail(shard, STK_EFORMAT, 0, err, "the record has no part");
    return STK_OK;
}

stk_status stk__shard_record(stk__shard *shard, stk_error *err)
{
    stk__shard_found *f = &shard->found;

    STK_TRY(check_last(shard, err));
    uint32_t *starts =
        grow(shard, f->starts, &f->starts_room, (uint64_t)f->num_records + 1, sizeof *starts);
    if (!starts)
        return no_memory(shard, err);
    f->starts = starts;
    shard->power = f->num_records ? shard->power * PRINT_BASE : 1;
    f->starts[f->num_records++] = (uint32_t)f->num_parts;
    return STK_OK;
}

static const char *kind_name(const stk__shard_found *f, uint32_t kind)
{
    const char *name = f->kinds;

    while (kind--)
        name += strlen(name) + 1;
    return name;
}

static stk_status add_kind(stk__shard *shard, const char *kind, uint64_t offset, stk_error *err)
{
    stk__shard_found *f = &shard->found;
    const size_t length = strlen(kind);

    if (f->num_kinds == STK__RECORDS_MAX_KINDS || length > STK__RECORDS_MAX_KIND)
        return stk__shard_fail(shard, STK_ELIMIT, offset, err,
                               "'%.60s' is one kind of part too many, or its name is too long: at "
                               "most %u kinds, of %u bytes",
                               kind, STK__RECORDS_MAX_KINDS, STK__RECORDS_MAX_KIND);
    char *kinds = stk__grow(shard->set->base.context, f->kinds, &f->kinds_room,
                            (uint64_t)f->kinds_bytes + length + 1, 1);
    if (!kinds)
        return no_memory(shard, err);
    memcpy(kinds + f->kinds_bytes, kind, length + 1);
    f->kinds = kinds;
    f->kinds_bytes += length + 1;
    f->num_kinds++;
    return STK_OK;
}

/* The number of a kind in the shard; the one behind the last is the likeliest. */
static stk_status find_kind(stk__shard *shard, const char *kind, uint64_t offset, uint32_t *out,
                            stk_error *err)
{
    const stk__shard_found *f = &shard->found;

    const char *name = f->kinds;
    for (*out = 0; *out < f->num_kinds; ++*out, name += strlen(name) + 1)
        if (strcmp(name, kind) == 0)
            return STK_OK;
    return add_kind(shard, kind, offset, err);
}

stk_status stk__shard_part(stk__shard *shard, const char *kind, uint64_t offset, uint64_t length,
                           stk_error *err)
{
    stk__shard_found *f = &shard->found;
    uint32_t number = shard->last_kind;

    if (offset > shard->size || length > shard->size - offset || offset > STK__RECORDS_MAX_OFFSET)
        return stk__shard_fail(shard, STK_ETRUNCATED, offset, err,
                               "%llu bytes are to follow and the shard ends at %llu; copy or "
                               "download it again",
                               (unsigned long long)length, (unsigned long long)shard->size);
    if (!f->num_records)
        return stk__shard_fail(shard, STK_EINVAL, offset, err, "a part without a record");
    if (number >= f->num_kinds || strcmp(kind_name(f, number), kind) != 0)
        STK_TRY(find_kind(shard, kind, offset, &number, err));
    shard->last_kind = number;
    for (size_t i = f->starts[f->num_records - 1]; i < f->num_parts; i++)
        if (f->parts[i].kind == number)
            return stk__shard_fail(shard, STK_EFORMAT, offset, err,
                                   "it has '%.200s' twice; pack the shard again", kind);
    if (f->num_parts >= UINT32_MAX)
        return stk__shard_fail(shard, STK_ELIMIT, offset, err, "more than 2^32 parts");
    stk__record_part *parts =
        grow(shard, f->parts, &f->parts_room, (uint64_t)f->num_parts + 1, sizeof *parts);
    if (!parts)
        return no_memory(shard, err);
    f->parts = parts;
    f->parts[f->num_parts++] =
        (stk__record_part){.kind = number & 255, .offset = offset, .length = length};
    return STK_OK;
}

/* The prints of records are the coefficients of a polynomial in PRINT_BASE, modulo 2^64: records
 * that change places change it, and those of shards are put together by a power of it. */
void stk__shard_print(stk__shard *shard, const void *data, size_t length)
{
    shard->found.print += stk__fingerprint(0, data, length) * shard->power;
}

uint64_t stk__shard_print_at(uint64_t print, uint64_t first)
{
    for (uint64_t base = PRINT_BASE; first; first >>= 1, base *= base)
        if (first & 1)
            print *= base;
    return print;
}

void stk__shard_again(stk__shard *shard)
{
    stk__shard_found *f = &shard->found;

    f->num_records = f->num_parts = f->kinds_bytes = 0;
    f->num_kinds = shard->last_kind = 0;
    f->print = 0;
}

stk_status stk__shard_finish(stk__shard *shard, stk_error *err)
{
    return check_last(shard, err);
}

void stk__shard_end(stk__shard *shard)
{
    stk__free(shard->set->base.context, shard->window);
    shard->window = NULL;
}

void stk__shard_found_release(stk_context *ctx, stk__shard_found *found)
{
    stk__free(ctx, found->starts);
    stk__free(ctx, found->parts);
    stk__free(ctx, found->kinds);
    *found = (stk__shard_found){0};
}

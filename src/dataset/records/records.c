/* SPDX-License-Identifier: Apache-2.0 */
/* What the datasets of record shards share: opening, locating, describing. */
#include "dataset/records/records.h"

#include <stdarg.h>
#include <stdio.h>

#include "dataset/object.h"

#define BLOCK_BYTES  (UINT64_C(512) << 10) /* of neighbours read in one go; 256 are in memory */
#define COST_NS      20000.0               /* of preparing a record: to begin, and of each byte */
#define COST_BYTE_NS 8.0
#define PRINT_PIECE  512

static const char *name_of(const stk__records *set)
{
    return set->format->ops->name;
}

/* ---- The table ------------------------------------------------------------------------------- */

const stk__record_part *stk__records_parts(const stk__records *set, uint64_t record, uint32_t *n)
{
    const uint32_t first = set->table.starts[record];

    *n = set->table.starts[record + 1] - first;
    return set->table.parts + first;
}

uint64_t stk__records_shard_of(const stk__records *set, uint64_t record)
{
    const stk__records_shard *shards = set->table.shards;
    uint64_t low = 0, high = set->table.num_shards;

    /* The last that begins at the record or before it and holds any. */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (shards[middle].first_record <= record)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const char *stk__records_shard_key(const stk__records *set, uint64_t shard)
{
    return set->table.text + set->table.shards[shard].key;
}

int stk__records_kind(const stk__records *set, const char *name)
{
    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        if (strcmp(set->table.kinds[i], name) == 0)
            return (int)i;
    return -1;
}

stk_status stk__records_fail(const stk__records *set, stk_status status, uint64_t record,
                             stk_error *err, const char *format, ...)
{
    const uint64_t shard = stk__records_shard_of(set, record);
    const char *key = stk__records_shard_key(set, shard);
    const uint64_t first = set->table.shards[shard].first_record;
    char text[512];
    va_list arguments;
    uint32_t n;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const uint64_t offset = stk__records_parts(set, record, &n)->offset;
    return stk__fail_at(err, status, STK_STAGE_DATASET, key, offset,
                        "%s: %.200s, record %llu, byte %llu: %s", name_of(set), key,
                        (unsigned long long)(record - first), (unsigned long long)offset, text);
}

stk_status stk__records_load(stk__records *set, uint64_t record, uint32_t part, void **data,
                             uint64_t *length, stk_error *err)
{
    const stk__records_shard *shard = &set->table.shards[stk__records_shard_of(set, record)];
    uint32_t n;
    const stk__record_part *p = &stk__records_parts(set, record, &n)[part];

    *data = NULL;
    *length = p->length;
    if (part >= n)
        return stk__records_fail(set, STK_EINVAL, record, err, "it has %u parts", n);
    if (p->length > stk__memory_left(set->base.context))
        return stk__records_fail(set, STK_ELIMIT, record, err,
                                 "%llu bytes are more than is left of memory_limit",
                                 (unsigned long long)p->length);
    void *bytes = stk__alloc_buffer(set->base.context, p->length);
    if (!bytes)
        return stk__records_fail(set, STK_ENOMEM, record, err, "no memory for it");
    const stk_status status =
        stk_store_read(set->stores[shard->store].store, set->table.text + shard->key, p->offset,
                       p->length, bytes, err);
    if (status == STK_OK)
        *data = bytes;
    else
        stk__free(set->base.context, bytes);
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

void stk__records_close(stk_dataset *dataset)
{
    stk__records *set = (stk__records *)dataset;
    stk_context *ctx = set->base.context;

    if (set->format->close)
        set->format->close(set);
    stk__records_table_release(&set->table);
    stk__free(ctx, set->watched);
    for (size_t i = 0; i < set->num_stores; i++) {
        stk_store_close(&set->stores[i].store);
        stk__free(ctx, set->stores[i].folder);
    }
    stk__free(ctx, set->stores);
    stk__free(ctx, set);
}

/* Parts and bytes of each kind. */
static void count_kinds(stk__records *set)
{
    for (uint64_t i = 0; i < set->table.num_parts; i++) {
        const stk__record_part *p = &set->table.parts[i];
        set->parts_of[p->kind]++;
        set->bytes_of[p->kind] += p->length;
    }
}

/* Of kinds and lengths in the order of the records: the same however the shards are cut. */
static uint64_t print_of(const stk__records *set, uint64_t print)
{
    const stk__records_table *t = &set->table;
    uint64_t piece[PRINT_PIECE];
    size_t n = 0;

    for (uint32_t i = 0; i < t->num_kinds; i++)
        print = stk__fingerprint(print, t->kinds[i], strlen(t->kinds[i]) + 1);
    for (uint64_t i = 0; i < t->num_parts; i++) {
        piece[n++] = t->parts[i].length << 8 | t->parts[i].kind;
        if (n == STK_COUNT(piece) || i + 1 == t->num_parts) {
            print = stk__fingerprint(print, piece, n * sizeof *piece);
            n = 0;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < t->num_shards; i++)
        sum += stk__shard_print_at(t->shards[i].print, t->shards[i].first_record);
    print = stk__fingerprint(print, &sum, sizeof sum);
    for (uint64_t i = 0; i <= t->num_records; i++) {
        piece[n++] = t->starts[i];
        if (n == STK_COUNT(piece) || i == t->num_records) {
            print = stk__fingerprint(print, piece, n * sizeof *piece);
            n = 0;
        }
    }
    return print;
}

static void fill_head(stk__records *set)
{
    const stk_dataset given = set->base; /* what the format set of it */
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        if (set->field_of[i] != STK__RECORDS_UNREAD)
            bytes += set->bytes_of[i];
    stk__dataset_init(&set->base, set->format->ops, given.context, set->table.num_records,
                      given.fields, given.num_fields);
    set->base.classes = given.classes;
    set->base.num_classes = given.num_classes;
    set->base.worker_bytes = given.worker_bytes;
    set->base.fingerprint = print_of(set, set->base.fingerprint);
    const uint64_t each = STK_MAX(bytes / set->base.size, 1);
    set->base.block_size = STK_MIN(STK_MAX(BLOCK_BYTES / each, 1), set->base.size);
    set->base.cost_ns = given.cost_ns > 0 ? given.cost_ns : COST_NS + COST_BYTE_NS * (double)each;
}

static stk_status open_set(stk__records *set, const char *url, const void *options, stk_error *err)
{
    const stk__record_format *f = set->format;

    STK_TRY(f->list ? f->list(set, url, options, err) : stk__records_list(set, url, err));
    if (!set->table.num_shards)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s names no shards", name_of(set), url);
    STK_TRY(stk__records_index(set, url, options, err));
    if (!set->table.num_records)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s has %zu shards without a record", name_of(set), url,
                            set->table.num_shards);
    count_kinds(set);
    for (uint32_t i = 0; i < STK__RECORDS_MAX_KINDS; i++)
        set->field_of[i] = STK__RECORDS_NO_FIELD;
    STK_TRY(f->open(set, options, err));
    fill_head(set);
    return stk__records_watch(set, err);
}

stk_status stk__records_open(stk_context *ctx, const char *url, const stk__record_format *format,
                             const void *options, stk_dataset **out, stk_error *err)
{
    *out = NULL;
    stk__records *set = stk__calloc(ctx, 1, sizeof *set);
    if (!set)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to open %.200s",
                         format->ops->name, url);
    set->base.context = set->table.context = ctx;
    set->format = format;
    const stk_status status = open_set(set, url, options, err);
    if (status == STK_OK)
        *out = &set->base;
    else
        stk__records_close(&set->base);
    return status;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void bound_fields(const stk__records *set, const stk__record_part *parts, uint32_t n,
                         stk_locator *to, size_t i)
{
    for (uint32_t k = 0; k < n; k++) {
        const int field = set->field_of[parts[k].kind];
        if (field >= 0 && set->base.fields[field].layout != STK_FIXED)
            to->bytes(to, i, (uint32_t)field, parts[k].length);
    }
}

stk_status stk__records_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err)
{
    const stk__records *set = (const stk__records *)dataset;

    for (size_t i = 0; i < n; i++) {
        const uint64_t shard = stk__records_shard_of(set, indices[i]);
        uint64_t bytes = 0;
        uint32_t count;
        STK_TRY(stk__records_unchanged(set, shard, err));
        const stk__record_part *parts = stk__records_parts(set, indices[i], &count);
        for (uint32_t k = 0; k < count; k++) {
            if (set->field_of[parts[k].kind] == STK__RECORDS_UNREAD)
                continue;
            const stk_need need = {
                .object = shard, .offset = parts[k].offset, .length = parts[k].length};
            STK_TRY(to->add(to, i, &need));
            bytes += need.length;
        }
        (set->format->bound ? set->format->bound : bound_fields)(set, parts, count, to, i);
        to->cost(to, i, COST_NS + COST_BYTE_NS * (double)bytes);
    }
    return STK_OK;
}

size_t stk__records_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size)
{
    stk__records *set = (stk__records *)dataset;

    *store = set->stores[set->table.shards[object].store].store;
    return stk__object_copy_key(key, size, stk__records_shard_key(set, object));
}

/* ---- Description ----------------------------------------------------------------------------- */

static void describe_kinds(const stk__records *set,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user)
{
    char name[STK__RECORDS_MAX_KIND + 32], text[160];

    for (uint32_t i = 0; i < set->table.num_kinds; i++) {
        snprintf(name, sizeof name, "parts %s", *set->table.kinds[i] ? set->table.kinds[i] : "all");
        snprintf(text, sizeof text, "%llu, %llu bytes%s", (unsigned long long)set->parts_of[i],
                 (unsigned long long)set->bytes_of[i],
                 set->field_of[i] == STK__RECORDS_UNREAD ? ", not read" : "");
        line(user, name, text);
    }
}

stk_status stk__records_describe(stk_dataset *dataset,
                                 void (*line)(void *user, const char *name, const char *value),
                                 void *user, stk_error *err)
{
    static const char *const uses[] = {[STK__RECORDS_INDEX_NONE] = "none",
                                       [STK__RECORDS_INDEX_USED] = "used: no shard has changed",
                                       [STK__RECORDS_INDEX_WRITTEN] = "written",
                                       [STK__RECORDS_INDEX_REFUSED] =
                                           "could not be written: the shards are read each time"};
    const stk__records *set = (const stk__records *)dataset;
    uint64_t bytes = 0;
    char text[160];

    (void)err;
    for (size_t i = 0; i < set->table.num_shards; i++)
        bytes += set->table.shards[i].size;
    snprintf(text, sizeof text, "%zu, %llu bytes", set->table.num_shards,
             (unsigned long long)bytes);
    line(user, "shards", text);
    describe_kinds(set, line, user);
    if (set->format->describe)
        set->format->describe(set, line, user);
    snprintf(text, sizeof text, "%s; %llu of %zu shards were read", uses[set->index_use],
             (unsigned long long)set->scanned, set->table.num_shards);
    line(user, "index", text);
    return STK_OK;
}

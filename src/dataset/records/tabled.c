/* SPDX-License-Identifier: Apache-2.0 */
/* Shards that begin with a table of offsets: which there are, and where their records lie. */
#include "dataset/records/tabled.h"

#include <stdarg.h>
#include <stdio.h>

#define HEAD_BYTES   65536u /* of an index, to recognise it */
#define PIECE        1024u  /* offsets that are read at a time */
#define ARROW_MAGIC  "LDARW01\0"
#define FRAMED_MAGIC "LDFZ01\0\0"
#define MAGIC_BYTES  8u

stk_status stk__tabled_wrong(const char *who, const char *key, stk_error *err, const char *format,
                             ...)
{
    char text[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, STK_NO_OFFSET, "%s: %.200s %s",
                        who, key, text);
}

static stk_status no_memory(const char *who, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for the index", who);
}

bool stk__tabled_count(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* ---- For parsers ----------------------------------------------------------------------------- */

stk_status stk__tabled_add_column(stk__tabled *t, const char *who, const char *name,
                                  const char *encoding, stk__tabled_column **out, stk_error *err)
{
    if (t->num_columns == STK__TABLED_MAX_COLUMNS || strlen(name) > STK__TABLED_MAX_NAME)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "%s: '%.60s' is one column too many, or its name is too long: at most %u "
                         "columns, of %u bytes",
                         who, name, STK__TABLED_MAX_COLUMNS, STK__TABLED_MAX_NAME);
    if (!t->columns)
        t->columns = stk__calloc(t->context, STK__TABLED_MAX_COLUMNS, sizeof *t->columns);
    if (!t->columns)
        return no_memory(who, err);
    stk__tabled_column *column = &t->columns[t->num_columns];
    *column = (stk__tabled_column){.field = -1, .sized = true};
    column->name = stk__strdup(t->context, name);
    column->encoding = stk__strdup(t->context, encoding);
    t->num_columns++;
    *out = column;
    return column->name && column->encoding ? STK_OK : no_memory(who, err);
}

/* A key below the folder, and nothing else. */
static bool is_below(const char *name)
{
    return *name && *name != '/' && stk__key_check(name, NULL) == STK_OK;
}

stk_status stk__tabled_add_shard(stk__tabled *t, const char *who, const char *name, const char *zip,
                                 uint64_t records, uint64_t bytes, stk_error *err)
{
    size_t room = t->num_shards;

    if (!is_below(name) || (zip && !is_below(zip)))
        return stk__tabled_wrong(who, STK__TABLED_INDEX, err,
                                 "names the shard '%.100s', which lies not below the folder; fetch "
                                 "the dataset again",
                                 is_below(name) ? zip : name);
    if (t->num_shards == STK__RECORDS_MAX_SHARDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET, "%s: more than %llu shards", who,
                         (unsigned long long)STK__RECORDS_MAX_SHARDS);
    if ((t->num_shards & (t->num_shards - 1)) == 0) {
        room = STK_MAX(2 * t->num_shards, 1);
        stk__tabled_shard *more = stk__realloc(t->context, t->shards, room * sizeof *t->shards);
        if (!more)
            return no_memory(who, err);
        t->shards = more;
    }
    stk__tabled_shard *s = &t->shards[t->num_shards++];
    *s = (stk__tabled_shard){.name = stk__strdup(t->context, name),
                             .zip = zip ? stk__strdup(t->context, zip) : NULL,
                             .records = records,
                             .bytes = bytes};
    return s->name && (s->zip || !zip) ? STK_OK : no_memory(who, err);
}

static void release(stk__tabled *t)
{
    for (uint32_t i = 0; i < t->num_columns; i++) {
        stk__free(t->context, t->columns[i].name);
        stk__free(t->context, t->columns[i].encoding);
    }
    for (size_t i = 0; i < t->num_shards; i++) {
        stk__free(t->context, t->shards[i].name);
        stk__free(t->context, t->shards[i].zip);
        stk__free(t->context, t->shards[i].told);
    }
    stk__free(t->context, t->columns);
    stk__free(t->context, t->shards);
    stk__free(t->context, t->fields);
    *t = (stk__tabled){.context = t->context};
}

void stk__tabled_close(stk__records *set)
{
    if (!set->state)
        return;
    release(set->state);
    stk__free(set->base.context, set->state);
    set->state = NULL;
}

/* ---- The list -------------------------------------------------------------------------------- */

/* index.json in new memory. */
static stk_status load_index(stk_context *ctx, const char *who, stk_store *store, const char *url,
                             char **text, uint64_t *length, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    *text = NULL;
    stk_status status = stk_store_stat(store, STK__TABLED_INDEX, NULL, &info, err);
    if (status == STK_ENOENT || (status == STK_OK && info.is_folder))
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: '%.200s' has no %s; name the folder that holds it beside the "
                            "shards",
                            who, url, STK__TABLED_INDEX);
    STK_TRY(status);
    if (info.size > stk__json_most(ctx))
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, STK__TABLED_INDEX, STK_NO_OFFSET,
                            "%s: %s of '%.200s' has %llu bytes, and at most %llu are read; raise "
                            "memory_limit, or split the dataset",
                            who, STK__TABLED_INDEX, url, (unsigned long long)info.size,
                            (unsigned long long)stk__json_most(ctx));
    char *bytes = stk__alloc_buffer(ctx, info.size);
    if (!bytes)
        return no_memory(who, err);
    status =
        info.size ? stk_store_read(store, STK__TABLED_INDEX, 0, info.size, bytes, err) : STK_OK;
    if (status != STK_OK) {
        stk__free(ctx, bytes);
        return status;
    }
    *text = bytes;
    *length = info.size;
    return STK_OK;
}

/* Compressed shards are read where they have been unpacked. */
static stk_status check_unpacked(const stk__tabled *t, const char *who, stk_store *store,
                                 stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    if (!t->num_shards || !t->shards[0].zip)
        return STK_OK;
    const stk_status status = stk_store_stat(store, t->shards[0].name, NULL, &info, err);
    if (status != STK_ENOENT)
        return status;
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, t->shards[0].zip, STK_NO_OFFSET,
                        "%s: the shards are compressed ('%.100s'), and such cannot be read at any "
                        "place: unpack each beside it, as '%.100s', and leave %s as it is",
                        who, t->shards[0].zip, t->shards[0].name, STK__TABLED_INDEX);
}

stk_status stk__tabled_list(stk__records *set, const char *url, const void *options,
                            stk__tabled_parse_fn *parse, stk_error *err)
{
    stk_context *ctx = set->base.context;
    const char *who = set->format->ops->name;
    uint32_t number = 0;
    uint64_t length = 0;
    char *text = NULL;

    STK_TRY(stk__records_add_store(set, url, &number, err));
    stk__tabled *t = stk__calloc(ctx, 1, sizeof *t);
    if (!t)
        return no_memory(who, err);
    t->context = ctx;
    set->state = t;
    set->of_folder = true;
    stk_store *store = set->stores[number].store;
    STK_TRY(load_index(ctx, who, store, url, &text, &length, err));
    stk_status status = parse(options, text, length, STK__TABLED_INDEX, t, err);
    stk__free(ctx, text);
    STK_TRY(status);
    for (uint32_t i = 0; i < t->num_columns; i++)
        t->num_sized += t->columns[i].sized;
    STK_TRY(check_unpacked(t, who, store, err));
    for (size_t i = 0; i < t->num_shards; i++)
        STK_TRY(stk__records_add_shard(set, number, t->shards[i].name, err));
    return STK_OK;
}

int stk__tabled_recognise(stk_context *ctx, const char *url, const char *first, const char *second)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    int sure = 0;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && !key[0])
        status = stk_store_stat(store, STK__TABLED_INDEX, NULL, &info, NULL);
    else if (status == STK_OK)
        status = STK_ENOENT;
    const uint64_t length = STK_MIN(info.size, HEAD_BYTES);
    if (status == STK_OK && !info.is_folder && length) {
        char *text = stk__alloc_buffer(ctx, length + 1);
        status =
            text ? stk_store_read(store, STK__TABLED_INDEX, 0, length, text, NULL) : STK_ENOMEM;
        sure = status == STK_OK && memmem(text, length, first, strlen(first)) &&
                       memmem(text, length, second, strlen(second))
                   ? 2
                   : 0;
        stk__free(ctx, text);
    }
    stk_store_close(&store);
    return status == STK_ENOMEM ? (int)STK_ENOMEM : sure;
}

/* ---- The scan -------------------------------------------------------------------------------- */

static uint32_t load_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The first offset is that of the first record; each is at least the one before it. */
static stk_status scan_records(stk__shard *shard, uint64_t records, uint64_t first_least,
                               uint64_t *end, stk_error *err)
{
    unsigned char piece[4 * PIECE];
    uint64_t last = first_least;

    for (uint64_t i = 0; i <= records;) {
        const uint64_t at = 4 + 4 * i, n = STK_MIN(records + 1 - i, PIECE);
        STK_TRY(stk__shard_read(shard, at, piece, 4 * n, err));
        for (uint64_t k = 0; k < n; k++, i++) {
            const uint64_t offset = load_u32(piece + 4 * k);
            if (offset < last || offset > stk__shard_size(shard))
                return stk__shard_fail(shard, STK_EFORMAT, at + 4 * k, err,
                                       "the table of offsets says %llu, and it is to be from %llu "
                                       "to %llu; copy or download the shard again",
                                       (unsigned long long)offset, (unsigned long long)last,
                                       (unsigned long long)stk__shard_size(shard));
            if (i)
                STK_TRY(stk__shard_part(shard, "", last, offset - last, err));
            if (i < records)
                STK_TRY(stk__shard_record(shard, err));
            last = offset;
        }
    }
    *end = last;
    return STK_OK;
}

/* Items of numbers, one behind the other, cut in blocks: what is left over is no record. */
static stk_status scan_blocks(stk__shard *shard, uint64_t block, uint64_t begin, stk_error *err)
{
    for (uint64_t at = begin; stk__shard_size(shard) - at >= block; at += block) {
        STK_TRY(stk__shard_record(shard, err));
        STK_TRY(stk__shard_part(shard, "", at, block, err));
    }
    return STK_OK;
}

/* What lies behind the last record, or in front of the first. */
static stk_status refuse_rest(stk__shard *shard, uint64_t end, stk_error *err)
{
    const uint64_t size = stk__shard_size(shard);
    unsigned char magic[MAGIC_BYTES];

    STK_TRY(stk__shard_read(shard, size - MAGIC_BYTES, magic, MAGIC_BYTES, err));
    if (memcmp(magic, ARROW_MAGIC, MAGIC_BYTES) == 0)
        return stk__shard_fail(shard, STK_ENOTSUP, end, err,
                               "its rows are kept as Arrow at the end, which litdata does of rows "
                               "of texts and lists alone; write the dataset again with a column "
                               "of bytes, or with an earlier litdata");
    return stk__shard_fail(shard, STK_EFORMAT, end, err,
                           "the last record ends here and the shard at %llu; copy or download it "
                           "again",
                           (unsigned long long)size);
}

static stk_status check_size(stk__shard *shard, const stk__tabled_shard *told, stk_error *err)
{
    const uint64_t size = stk__shard_size(shard);

    if (told->bytes != UINT64_MAX && told->bytes != size)
        return stk__shard_fail(shard, size < told->bytes ? STK_ETRUNCATED : STK_EFORMAT, 0, err,
                               "it has %llu bytes, and %s says %llu; copy or download it again",
                               (unsigned long long)size, STK__TABLED_INDEX,
                               (unsigned long long)told->bytes);
    return STK_OK;
}

stk_status stk__tabled_scan(stk__shard *shard, const void *options, stk_error *err)
{
    const stk__tabled *t = stk__shard_state(shard);
    const stk__tabled_shard *told = &t->shards[stk__shard_number(shard)];
    const uint64_t size = stk__shard_size(shard);
    unsigned char head[MAGIC_BYTES];
    uint64_t end = 0;

    (void)options;
    STK_TRY(check_size(shard, told, err));
    STK_TRY(stk__shard_read(shard, 0, head, sizeof head, err));
    if (memcmp(head, FRAMED_MAGIC, MAGIC_BYTES) == 0)
        return stk__shard_fail(shard, STK_ENOTSUP, 0, err,
                               "its records are compressed in batches; write the dataset again "
                               "without compression");
    const uint64_t records = load_u32(head);
    if (records != told->records)
        return stk__shard_fail(shard, STK_EFORMAT, 0, err,
                               "it holds %llu records, and %s says %llu; copy or download both "
                               "again",
                               (unsigned long long)records, STK__TABLED_INDEX,
                               (unsigned long long)told->records);
    const uint64_t begin = 4 + 4 * (records + 1);
    if (begin > size)
        return stk__shard_fail(shard, STK_ETRUNCATED, 4, err,
                               "a table of %llu offsets is to follow and the shard ends at %llu; "
                               "copy or download it again",
                               (unsigned long long)records + 1, (unsigned long long)size);
    if (t->block_bytes)
        return scan_blocks(shard, t->block_bytes, begin, err);
    STK_TRY(scan_records(shard, records, begin, &end, err));
    return end == size ? STK_OK : refuse_rest(shard, end, err);
}

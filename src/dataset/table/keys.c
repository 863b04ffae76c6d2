/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns from names of folders, as Hive lays tables out: `split=train/year=2024/x.parquet` below
 * the folder that is named. A column has one value in all rows of a file, so that `where` leaves
 * out files before they are opened.
 */
#include "base/url.h"
#include "dataset/table/inside.h"
#include "dataset/table/where.h"

#define NONE       STK__TABLE_NONE
#define MOST_KEYS  32u
#define MOST_VALUE 1024u /* bytes */
#define NULL_VALUE "__HIVE_DEFAULT_PARTITION__"

static const char *key_of(const stk__table *t, size_t file)
{
    return t->text + t->files[file].key;
}

/* The next folder of a path that is NAME=VALUE; false: there is none. */
static bool next_part(const char **at, const char **name, size_t *name_length, const char **value,
                      size_t *value_length)
{
    for (const char *slash; (slash = strchr(*at, '/'));) {
        const char *part = *at, *equals = memchr(part, '=', (size_t)(slash - part));
        *at = slash + 1;
        if (!equals || equals == part)
            continue;
        *name = part;
        *name_length = (size_t)(equals - part);
        *value = equals + 1;
        *value_length = (size_t)(slash - equals - 1);
        return true;
    }
    return false;
}

/* The value of a name in the path of a file, with %XX undone; false: it is not there. */
static stk_status value_in(const stk__table *t, size_t file, const char *name, char *out,
                           bool *found, stk_error *err)
{
    const char *at = key_of(t, file), *part, *value;
    size_t part_length, length;

    *found = false;
    while (!*found && next_part(&at, &part, &part_length, &value, &length))
        *found = strlen(name) == part_length && memcmp(part, name, part_length) == 0;
    if (!*found)
        return STK_OK;
    if (stk__url_decode(value, length, out, MOST_VALUE, NULL) == STK_OK)
        return STK_OK;
    if (length >= MOST_VALUE)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key_of(t, file), STK_NO_OFFSET,
                            "%s: the value of '%.60s' in the path %.200s is longer than %u bytes; "
                            "rename the folder",
                            stk__table_name(t), name, key_of(t, file), MOST_VALUE - 1);
    memcpy(out, value, length); /* a '%' that is none of Hive's */
    out[length] = 0;
    return STK_OK;
}

static bool is_integer(const char *text, int64_t *out)
{
    const bool minus = *text == '-';
    uint64_t value = 0;

    text += minus;
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || !stk__mul_size(value, 10, &value) ||
            !stk__add_size(value, (uint64_t)(*text - '0'), &value) || value > INT64_MAX)
            return false;
    *out = minus ? -(int64_t)value : (int64_t)value;
    return true;
}

/* ---- What there is --------------------------------------------------------------------------- */

/* Names in the path of the first file: those that all files have are columns. */
static stk_status find_names(stk__table *t, stk_error *err)
{
    const char *at = key_of(t, 0), *name, *value;
    size_t length, value_length;
    uint32_t number;

    t->key_names.context = t->key_values.context = t->base.context;
    while (next_part(&at, &name, &length, &value, &value_length) &&
           t->key_names.count < MOST_KEYS) {
        const stk_status status = stk__names_add(&t->key_names, name, length, &number);
        if (status != STK_OK)
            return stk__table_no_memory(t, err);
    }
    return stk__names_list(&t->key_names) == STK_OK ? STK_OK : stk__table_no_memory(t, err);
}

/* Read the values of one name; *all: every file has one. */
static stk_status read_values(stk__table *t, const char *name, uint32_t k, bool *all, bool *integer,
                              stk_error *err)
{
    char text[MOST_VALUE];
    int64_t number;

    *all = *integer = true;
    for (size_t f = 0; f < t->num_files && *all; f++) {
        uint32_t *value = &t->file_keys[f * t->key_names.count + k];
        STK_TRY(value_in(t, f, name, text, all, err));
        *value = NONE;
        if (!*all || strcmp(text, NULL_VALUE) == 0)
            continue;
        *integer = *integer && is_integer(text, &number);
        if (stk__names_add(&t->key_values, text, strlen(text), value) != STK_OK)
            return stk__table_no_memory(t, err);
    }
    return STK_OK;
}

static stk_status read_key(stk__table *t, const char *name, uint32_t k, stk_error *err)
{
    bool all, integer, any = false, nullable = false;

    STK_TRY(read_values(t, name, k, &all, &integer, err));
    if (!all)
        return STK_OK;
    for (size_t f = 0; f < t->num_files; f++) {
        const bool null = t->file_keys[f * t->key_names.count + k] == NONE;
        nullable = nullable || null;
        any = any || !null;
    }
    if (!any)
        return STK_OK;
    bool *met = stk__calloc(t->base.context, t->key_values.count, sizeof *met);
    if (!met)
        return stk__table_no_memory(t, err);
    for (size_t f = 0; f < t->num_files; f++)
        if (t->file_keys[f * t->key_names.count + k] != NONE)
            met[t->file_keys[f * t->key_names.count + k]] = true;
    t->keys[t->num_keys++] =
        (stk__table_key){.column = {.name = name,
                                    .kind = integer ? STK__COLUMN_VALUES : STK__COLUMN_BYTES,
                                    .dtype = integer ? STK_INT64 : STK_UINT8,
                                    .width = 1,
                                    .text = !integer,
                                    .nullable = nullable,
                                    .note = "of the folder"},
                         .at = k,
                         .met = met,
                         .num_met = t->key_values.count,
                         .field = -1,
                         .mask = -1};
    return STK_OK;
}

stk_status stk__table_keys_find(stk__table *t, stk_error *err)
{
    stk_context *ctx = t->base.context;
    uint64_t count;

    STK_TRY(find_names(t, err));
    if (!t->key_names.count)
        return STK_OK;
    if (!stk__mul_size(t->num_files, t->key_names.count, &count) ||
        count > stk__memory_left(ctx) / sizeof *t->file_keys)
        return stk__table_no_memory(t, err);
    t->keys = stk__calloc(ctx, t->key_names.count, sizeof *t->keys);
    t->file_keys = stk__calloc(ctx, count, sizeof *t->file_keys);
    if (!t->keys || !t->file_keys)
        return stk__table_no_memory(t, err);
    for (uint32_t k = 0; k < t->key_names.count; k++)
        STK_TRY(read_key(t, t->key_names.list[k], k, err));
    if (stk__names_list(&t->key_values) != STK_OK)
        return stk__table_no_memory(t, err);
    t->key_numbers = stk__calloc(ctx, STK_MAX(t->key_values.count, 1), sizeof *t->key_numbers);
    if (!t->key_numbers)
        return stk__table_no_memory(t, err);
    for (uint32_t i = 0; i < t->key_values.count; i++)
        (void)is_integer(t->key_values.list[i], &t->key_numbers[i]);
    return STK_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

const stk__table_key *stk__table_key_by_name(const stk__table *t, const char *name)
{
    for (uint32_t k = 0; k < t->num_keys; k++)
        if (strcmp(t->keys[k].column.name, name) == 0)
            return &t->keys[k];
    return NULL;
}

const void *stk__table_key_value(const stk__table *t, const stk__table_key *key, size_t file,
                                 uint64_t *size)
{
    const uint32_t value = t->file_keys[file * t->key_names.count + key->at];

    *size = 0;
    if (value == NONE)
        return NULL;
    if (key->column.kind == STK__COLUMN_VALUES) {
        *size = sizeof(int64_t);
        return &t->key_numbers[value];
    }
    *size = strlen(t->key_values.list[value]);
    return t->key_values.list[value];
}

const void *stk__table_key_cell(const stk__table *t, const stk__table_key *key, size_t file,
                                uint64_t *size, stk_status *status, const char **reason)
{
    const void *value = stk__table_key_value(t, key, file, size);

    *status = STK_OK;
    if (!value && t->nulls == STK__NULLS_FAIL) {
        *status = STK_EFORMAT;
        *reason = key->null_reason;
    }
    if (!value || !key->names)
        return value;
    const int64_t *number = &key->numbers[t->file_keys[file * t->key_names.count + key->at]];
    if (*number < 0) {
        *status = STK_EFORMAT;
        *reason = key->name_reason;
        return NULL;
    }
    *size = sizeof *number;
    return number;
}

stk_status stk__table_key_number(stk__table *t, stk__table_key *key, stk_error *err)
{
    stk_context *ctx = t->base.context;
    uint32_t number;

    key->numbers = stk__calloc(ctx, key->num_met, sizeof *key->numbers);
    key->name_reason = stk__format(ctx,
                                   "the text of its folder '%.100s=' is none of the names in "
                                   "categories; give all of them",
                                   key->column.name);
    if (!key->numbers || !key->name_reason)
        return stk__table_no_memory(t, err);
    for (uint32_t i = 0; i < key->num_met; i++) {
        const char *text = t->key_values.list[i];
        key->numbers[i] = -1;
        if (stk__names_find(key->names, text, strlen(text), &number))
            key->numbers[i] = number;
    }
    return STK_OK;
}

uint64_t stk__table_keys_print(const stk__table *t, uint64_t print)
{
    uint64_t size;

    for (uint32_t k = 0; k < t->num_keys; k++) {
        const stk__table_key *key = &t->keys[k];
        print = stk__fingerprint(print, key->column.name, strlen(key->column.name) + 1);
        print = key->names ? stk__names_print(key->names, print) : print;
        for (size_t f = 0; f < t->num_files; f++) {
            const void *value = stk__table_key_value(t, key, f, &size);
            const uint64_t rows[] = {t->files[f].rows, value ? size : UINT64_MAX};
            print = stk__fingerprint(print, rows, sizeof rows);
            print = value ? stk__fingerprint(print, value, size) : print;
        }
    }
    return print;
}

/* ---- Files that are left out ----------------------------------------------------------------- */

typedef struct pruning {
    const stk__table *table;
    const stk__table_key **keys; /* of the columns of where; NULL: it is in the files */
    bool decided;                /* all are keys */
    size_t file;
} pruning;

static const void *prune_cell(void *user, uint32_t column, uint64_t row, uint64_t *size)
{
    const pruning *p = user;

    (void)row;
    return stk__table_key_value(p->table, p->keys[column], p->file, size);
}

static bool has_null(const stk__table *t, size_t file)
{
    uint64_t size;

    for (uint32_t k = 0; k < t->num_keys; k++)
        if (stk__table_is_field(t, &t->keys[k].column) &&
            !stk__table_key_value(t, &t->keys[k], file, &size))
            return true;
    return false;
}

void stk__table_keys_move(stk__table *t, size_t from, size_t to)
{
    const uint32_t n = t->key_names.count;

    t->files[to] = t->files[from];
    if (t->file_keys)
        memmove(t->file_keys + to * n, t->file_keys + from * n, n * sizeof *t->file_keys);
}

/* Those that stay move together. */
static void drop_files(stk__table *t, const pruning *p, const struct stk__where *where,
                       const stk__table_column **columns)
{
    pruning here = *p;
    size_t kept = 0;

    for (size_t f = 0; f < t->num_files; f++) {
        here.file = f;
        const bool taken = !where       ? true
                           : p->decided ? stk__where_holds(where, columns, prune_cell, &here, 0)
                                        : stk__where_may(where, columns, prune_cell, &here);
        if (!taken || (t->nulls == STK__NULLS_DROP && has_null(t, f)))
            continue;
        stk__table_keys_move(t, f, kept++);
    }
    t->files_passed = t->num_files - kept;
    t->num_files = kept;
}

stk_status stk__table_keys_prune(stk__table *t, const stk__where *where, bool *decided,
                                 stk_error *err)
{
    stk_context *ctx = t->base.context;
    const uint32_t n = where ? where->num_columns : 0;
    pruning p = {.table = t, .keys = stk__calloc(ctx, (size_t)n + 1, sizeof *p.keys)};
    const stk__table_column **columns = stk__calloc(ctx, (size_t)n + 1, sizeof *columns);

    p.decided = where != NULL;
    stk_status status = p.keys && columns ? STK_OK : stk__table_no_memory(t, err);
    for (uint32_t i = 0; status == STK_OK && i < n; i++) {
        p.keys[i] = stk__table_key_by_name(t, where->columns[i]);
        columns[i] = p.keys[i] ? &p.keys[i]->column : NULL;
        p.decided = p.decided && p.keys[i];
    }
    if (status == STK_OK && where)
        status = stk__where_check(where, columns, err);
    *decided = p.decided;
    if (status == STK_OK)
        drop_files(t, &p, where, columns);
    if (status == STK_OK && !t->num_files)
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, where ? "where" : "nulls",
                              STK_NO_OFFSET, "%s: of %zu files none is left by %s%.200s",
                              stk__table_name(t), t->files_passed, where ? "where=" : "nulls=drop",
                              where ? where->text : "");
    stk__free(ctx, p.keys);
    stk__free(ctx, columns);
    return status;
}

void stk__table_keys_release(stk__table *t)
{
    stk_context *ctx = t->base.context;

    for (uint32_t k = 0; k < t->num_keys; k++) {
        stk__free(ctx, (void *)t->keys[k].null_reason);
        stk__free(ctx, (void *)t->keys[k].name_reason);
        stk__free(ctx, t->keys[k].met);
        stk__free(ctx, t->keys[k].numbers);
        if (t->keys[k].names)
            stk__names_release(t->keys[k].names);
        stk__free(ctx, t->keys[k].names);
    }
    stk__names_release(&t->key_names);
    stk__names_release(&t->key_values);
    stk__free(ctx, t->keys);
    stk__free(ctx, t->file_keys);
    stk__free(ctx, t->key_numbers);
}

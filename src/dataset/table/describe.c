/* SPDX-License-Identifier: Apache-2.0 */
/* What `stoker info` says of a table: files, pieces, columns, rows. */
#include <stdio.h>

#include "base/text.h"
#include "dataset/table/inside.h"

static void describe_names(const char *column, const stk__names *list,
                           void (*line)(void *user, const char *name, const char *value),
                           void *user)
{
    char name[160], text[256];
    stk__text names = {.bytes = text, .room = sizeof text};

    if (!list)
        return;
    snprintf(name, sizeof name, "categories of %.100s", column);
    stk__text_add(&names, "%u:", list->count);
    for (uint32_t i = 0; i < list->count && names.length < sizeof text - 60; i++)
        stk__text_add(&names, " %.40s", list->list[i]);
    line(user, name, text);
}

static void describe_column(const stk__table *t, const stk__table_read *r,
                            void (*line)(void *user, const char *name, const char *value),
                            void *user)
{
    const stk__table_column *c = &r->column;
    char name[160], text[256], type[64];

    if (c->kind == STK__COLUMN_BYTES)
        snprintf(type, sizeof type, "%s", c->text ? "text" : "bytes");
    else if (c->kind == STK__COLUMN_LIST)
        snprintf(type, sizeof type, "%s[]", stk_dtype_name(c->dtype));
    else if (c->list || c->width > 1)
        snprintf(type, sizeof type, "%s[%u]", stk_dtype_name(c->dtype), c->width);
    else
        snprintf(type, sizeof type, "%s", stk_dtype_name(c->dtype));
    snprintf(name, sizeof name, "column %.100s", c->name);
    snprintf(text, sizeof text, "%s%s%.60s%s, field %.60s", type, c->note ? ", " : "",
             c->note ? c->note : "", c->nullable ? ", may be null" : "", t->fields[r->field].name);
    line(user, name, text);
    describe_names(c->name, r->names, line, user);
}

static void describe_keys(const stk__table *t,
                          void (*line)(void *user, const char *name, const char *value), void *user)
{
    char name[160], text[160];

    for (uint32_t k = 0; k < t->num_keys; k++) {
        const stk__table_key *key = &t->keys[k];
        snprintf(name, sizeof name, "column %.100s", key->column.name);
        snprintf(text, sizeof text, "%s, of the names of folders%s%s%.60s",
                 key->column.text ? "text" : "int64", key->column.nullable ? ", may be null" : "",
                 key->field < 0 ? ", no field" : ", field ",
                 key->field < 0 ? "" : t->fields[key->field].name);
        line(user, name, text);
        describe_names(key->column.name, key->names, line, user);
    }
    if (t->files_passed) {
        snprintf(text, sizeof text, "%zu, by what their folders say", t->files_passed);
        line(user, "files left out", text);
    }
}

stk_status stk__table_describe(stk_dataset *dataset,
                               void (*line)(void *user, const char *name, const char *value),
                               void *user, stk_error *err)
{
    const stk__table *t = (const stk__table *)dataset;
    uint64_t bytes = 0, pieces = 0, groups = 0;
    char text[160];

    for (size_t i = 0; i < t->num_files; i++) {
        bytes += t->files[i].size;
        pieces += t->files[i].num_pieces - t->files[i].num_wholes - t->files[i].num_sheets;
        groups += t->files[i].groups;
    }
    snprintf(text, sizeof text, "%zu, %llu bytes", t->num_files, (unsigned long long)bytes);
    line(user, "files", text);
    if (groups)
        snprintf(text, sizeof text, "%llu, in %llu groups of rows", (unsigned long long)pieces,
                 (unsigned long long)groups);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)pieces);
    line(user, "pieces", text);
    for (uint32_t i = 0; i < t->num_reads; i++)
        describe_column(t, &t->reads[i], line, user);
    describe_keys(t, line, user);
    if (t->left)
        line(user, "no fields", t->left);
    if (t->rows) {
        snprintf(text, sizeof text, "%llu of %llu; %llu runs were passed over by their bounds",
                 (unsigned long long)t->num_taken, (unsigned long long)t->num_rows,
                 (unsigned long long)t->num_passed);
        line(user, "rows taken", text);
    }
    return t->format->describe ? t->format->describe(t, line, user, err) : STK_OK;
}

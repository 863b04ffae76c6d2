/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns -> fields. What an encoding leaves open (type and shape of arrays, size of raw pictures)
 * is learnt from some records, spread over all of them; a record that is otherwise is a bad sample.
 */
#include "dataset/records/tabled.h"

#include <stdio.h>

#include "base/text.h"
#include "dataset/images.h"

static const char *who(const stk__records *set)
{
    return set->format->ops->name;
}

/* ---- Which are read -------------------------------------------------------------------------- */

/* Whether a list names the column. */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = list; at && *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static void columns_text(const stk__tabled *t, bool good, char *text, size_t size)
{
    stk__text all = {.bytes = text, .room = size};
    const char *between = "";

    text[0] = 0;
    for (uint32_t i = 0; i < t->num_columns; i++) {
        if (good && t->columns[i].form == STK__COLUMN_REFUSED)
            continue;
        stk__text_add(&all, "%s%s", between, t->columns[i].name);
        between = ",";
    }
}

/* All that an option names is there. */
static stk_status check_list(const stk__records *set, const char *option, const char *list,
                             stk_error *err)
{
    const stk__tabled *t = set->state;
    char text[200], name[STK__TABLED_MAX_NAME + 1];

    for (const char *at = list; at && *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        bool found = false;
        snprintf(name, sizeof name, "%.*s", (int)STK_MIN(n, sizeof name - 1), at);
        for (uint32_t i = 0; i < t->num_columns; i++)
            found |= strcmp(t->columns[i].name, name) == 0;
        if (!found) {
            columns_text(t, false, text, sizeof text);
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                                "%s: %s names '%.60s', and the columns are %.150s", who(set),
                                option, name, text);
        }
        at += n;
    }
    return STK_OK;
}

/* What the option names are arrays whose shape the encoding leaves open. */
static stk_status check_varying(const stk__records *set, const char *list, stk_error *err)
{
    const stk__tabled *t = set->state;

    for (uint32_t i = 0; i < t->num_columns; i++) {
        const stk__tabled_column *c = &t->columns[i];
        const bool open = !c->shaped && c->field >= 0 &&
                          (c->form == STK__COLUMN_NDARRAY || c->form == STK__COLUMN_NUMBERS ||
                           c->form == STK__COLUMN_TENSOR || c->form == STK__COLUMN_NUMPY);
        if (is_listed(list, c->name) && !open)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "varying", STK_NO_OFFSET,
                                "%s: varying names '%.60s' of %.60s, which is no array of a shape "
                                "that may vary, or is not read",
                                who(set), c->name, c->encoding);
    }
    return STK_OK;
}

static stk_status choose(stk__records *set, const stk__tabled_options *o, stk_error *err)
{
    stk__tabled *t = set->state;
    char text[200];

    STK_TRY(check_list(set, "fields", o->fields, err));
    STK_TRY(check_list(set, "varying", o->varying, err));
    for (uint32_t i = 0; i < t->num_columns; i++) {
        stk__tabled_column *c = &t->columns[i];
        const bool read = !o->fields || !*o->fields || is_listed(o->fields, c->name);
        c->field = read ? (int)t->num_fields++ : -1;
        if (!read || c->form != STK__COLUMN_REFUSED)
            continue;
        columns_text(t, true, text, sizeof text);
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, c->name, STK_NO_OFFSET,
                            "%s: the column '%.60s' is of %.60s, %s; leave it out by "
                            "fields=%.150s",
                            who(set), c->name, c->encoding, c->refused,
                            *text ? text : "COLUMN,... of columns that are written otherwise");
    }
    return STK_OK;
}

/* ---- What records say ------------------------------------------------------------------------ */

static bool is_array(const stk__tabled_column *c)
{
    return c->field >= 0 && c->form != STK__COLUMN_BYTES && c->form != STK__COLUMN_IMAGE &&
           c->form != STK__COLUMN_DIGITS;
}

/* One record's array against those before it; false: they are not of one kind. */
static bool join(stk__tabled_column *c, const stk__block *b, bool first)
{
    if (first) {
        c->dtype = b->dtype;
        c->rank = b->rank;
        memcpy(c->shape, b->shape, sizeof c->shape);
        return true;
    }
    if (c->dtype != b->dtype || c->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < c->rank; i++) {
        if (c->shape[i] == b->shape[i])
            continue;
        if (i || c->form == STK__COLUMN_PIL)
            return false;
        c->varies = true;
    }
    return true;
}

static stk_status refuse_mixed(const stk__records *set, const stk__tabled_column *c,
                               uint64_t record, stk_error *err)
{
    return stk__records_fail(
        set, STK_ENOTSUP, record, err,
        c->form == STK__COLUMN_PIL
            ? "the raw pictures of '%.60s' are of several sizes: write them as jpeg or png, or "
              "leave the column out by fields=COLUMN,..."
            : "the arrays of '%.60s' differ in type or in more than the first dimension: write "
              "them alike, or leave the column out by fields=COLUMN,...",
        c->name);
}

static stk_status look_at(stk__records *set, const void *data, uint64_t length, uint64_t record,
                          bool first, stk_error *err)
{
    stk__tabled *t = set->state;
    stk_slice values[STK__TABLED_MAX_COLUMNS];
    const char *reason = NULL;
    stk__block b;

    if (!stk__tabled_cut(t, data, length, values, &reason))
        return stk__records_fail(set, STK_EFORMAT, record, err, "%s", reason);
    for (uint32_t i = 0; i < t->num_columns; i++) {
        stk__tabled_column *c = &t->columns[i];
        if (!is_array(c) || c->shaped)
            continue;
        if (!stk__column_block(c, &values[i], &b, &reason))
            return stk__records_fail(set, STK_EFORMAT, record, err, "'%.60s': %s", c->name, reason);
        if (!join(c, &b, first))
            return refuse_mixed(set, c, record, err);
    }
    return STK_OK;
}

/* The first ones, and others in no regular distance: what varies by turns is seen to. */
static uint64_t record_to_learn(uint64_t i, uint64_t all)
{
    return i < STK__TABLED_LEARNT / 2 ? i : (i * UINT64_C(0x9e3779b97f4a7c15) >> 11) % all;
}

static stk_status learn(stk__records *set, stk_error *err)
{
    const stk__tabled *t = set->state;
    const uint64_t all = set->table.num_records, n = STK_MIN(all, STK__TABLED_LEARNT);
    bool open = false;

    for (uint32_t i = 0; i < t->num_columns; i++)
        open |= is_array(&t->columns[i]) && !t->columns[i].shaped;
    for (uint64_t i = 0; open && i < n; i++) {
        const uint64_t record = all <= STK__TABLED_LEARNT ? i : record_to_learn(i, all);
        void *data = NULL;
        uint64_t length = 0;
        STK_TRY(stk__records_load(set, record, 0, &data, &length, err));
        const stk_status status = look_at(set, data, length, record, i == 0, err);
        stk__free(set->base.context, data);
        STK_TRY(status);
    }
    return STK_OK;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static bool is_picture(const stk__tabled_column *c)
{
    return c->field >= 0 && (c->form == STK__COLUMN_IMAGE || c->form == STK__COLUMN_PIL);
}

/* One number, an integer that int64 holds. */
static bool is_integer(const stk__tabled_column *c)
{
    return c->field >= 0 &&
           (c->form == STK__COLUMN_DIGITS ||
            (c->form == STK__COLUMN_NUMBERS && c->shaped && !c->rank && stk__widen_c(c->dtype)));
}

static bool has_name(const stk__tabled *t, const char *name)
{
    for (uint32_t i = 0; i < t->num_columns; i++)
        if (t->columns[i].field >= 0 && strcmp(t->columns[i].name, name) == 0)
            return true;
    return false;
}

/* How many columns are of a kind. */
static uint32_t count(const stk__tabled *t, bool (*is)(const stk__tabled_column *))
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->num_columns; i++)
        n += is(&t->columns[i]);
    return n;
}

static bool is_label(const stk__tabled *t, const stk__tabled_column *c)
{
    return is_integer(c) && (strcmp(c->name, "label") == 0 ||
                             (strcmp(c->name, "cls") == 0 && !has_name(t, "label")) ||
                             (c->nameless && count(t, is_integer) == 1));
}

static const char *field_name(const stk__tabled *t, const stk__tabled_column *c)
{
    if (is_picture(c) && count(t, is_picture) == 1 && !has_name(t, "image"))
        return "image";
    if (t->bare)
        return "tokens";
    return is_label(t, c) ? "label" : c->name;
}

static stk_status array_field(const stk__records *set, stk__tabled_column *c, stk_field *field,
                              stk_error *err)
{
    uint64_t bytes = 0;

    field->dtype = c->dtype;
    field->rank = c->rank;
    field->layout = STK_FIXED;
    memcpy(field->shape, c->shape, sizeof field->shape);
    if (!c->shaped && c->rank && c->form != STK__COLUMN_PIL && !c->shape[0])
        c->varies = true;
    if (c->varies) {
        field->layout = STK_RAGGED;
        field->shape[0] = -1;
    } else if (!stk__shape_bytes(c->shape, c->rank, stk_dtype_size(c->dtype), &bytes) || !bytes) {
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, c->name, STK_NO_OFFSET,
                            "%s: the arrays of '%.60s' have no values; leave the column out by "
                            "fields=COLUMN,...",
                            who(set), c->name);
    }
    field->picture = c->dtype == STK_UINT8 && c->rank == 3 && !c->varies &&
                     (c->shape[2] == 1 || c->shape[2] == 3) &&
                     (c->form == STK__COLUMN_PIL || strcmp(field->name, "image") == 0);
    return STK_OK;
}

static stk_status make_field(stk__records *set, stk__tabled_column *c, const char *varying,
                             stk_error *err)
{
    const stk__tabled *t = set->state;
    const char *name = field_name(t, c);
    stk_field *field = &t->fields[c->field];

    if (is_label(t, c)) {
        *field = stk__field(name, STK_INT64, (const int64_t[]){-1}, false);
        c->widen = c->form == STK__COLUMN_DIGITS ? NULL : stk__widen_c(c->dtype);
        return STK_OK;
    }
    if (c->form == STK__COLUMN_IMAGE) {
        *field = stk__images_field(name, 3, false);
        return STK_OK;
    }
    *field = stk__field(name, STK_UINT8, (const int64_t[]){-1}, false);
    if (c->form == STK__COLUMN_DIGITS) {
        field->dtype = STK_INT64;
    } else if (c->form == STK__COLUMN_BYTES) {
        field->layout = STK_BYTES;
        field->rank = 1;
        field->shape[0] = -1;
    } else {
        c->varies |= is_listed(varying, c->name) && c->rank > 0 && !c->shaped;
        return array_field(set, c, field, err);
    }
    return STK_OK;
}

/* What is kept of an index of its own may be older than index.json. */
static stk_status check_records(const stk__records *set, stk_error *err)
{
    const stk__tabled *t = set->state;

    for (size_t i = 0; !t->block_bytes && i < t->num_shards; i++)
        if (set->table.shards[i].records != t->shards[i].records)
            return stk__fail_at(
                err, STK_EFORMAT, STK_STAGE_DATASET, t->shards[i].name, STK_NO_OFFSET,
                "%s: %.200s holds %llu records, and %s says %llu; copy or download "
                "both again",
                who(set), t->shards[i].name, (unsigned long long)set->table.shards[i].records,
                STK__TABLED_INDEX, (unsigned long long)t->shards[i].records);
    return STK_OK;
}

stk_status stk__tabled_fields(stk__records *set, const void *options, stk_error *err)
{
    const stk__tabled_options *o = options;
    stk__tabled *t = set->state;

    STK_TRY(check_records(set, err));
    STK_TRY(choose(set, o, err));
    STK_TRY(check_varying(set, o->varying, err));
    STK_TRY(learn(set, err));
    t->fields = stk__calloc(t->context, t->num_fields, sizeof *t->fields);
    if (!t->fields)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for fields", who(set));
    for (uint32_t i = 0; i < t->num_columns; i++)
        if (t->columns[i].field >= 0)
            STK_TRY(make_field(set, &t->columns[i], o->varying, err));
    set->base.fields = t->fields;
    set->base.num_fields = t->num_fields;
    return STK_OK;
}

/* Which hash of the shards is known, and whether it was looked at. */
static void describe_hashes(const stk__tabled *t,
                            void (*line)(void *user, const char *name, const char *value),
                            void *user)
{
    const stk__shard_hash first = t->num_shards ? t->shards[0].hash : STK__HASH_NONE;
    char text[160];

    if (first != STK__HASH_NONE) {
        snprintf(text, sizeof text, "%s, %s", stk__shard_hash_name(first),
                 t->hashed ? "checked of each shard when it is opened"
                           : "not checked: hashes=check reads each shard whole for it");
        line(user, "hashes", text);
    }
    if (*t->unknown)
        line(user, "hashes of other kinds", t->unknown);
}

void stk__tabled_describe(const stk__records *set,
                          void (*line)(void *user, const char *name, const char *value), void *user)
{
    const stk__tabled *t = set->state;
    char name[STK__TABLED_MAX_NAME + 32], text[160];

    for (uint32_t i = 0; i < t->num_columns; i++) {
        const stk__tabled_column *c = &t->columns[i];
        snprintf(name, sizeof name, "column %s", c->name);
        snprintf(text, sizeof text, "%.100s%s%.30s", c->encoding,
                 c->field < 0 ? ", not read" : ", field ",
                 c->field < 0 ? "" : t->fields[c->field].name);
        line(user, name, text);
    }
    describe_hashes(t, line, user);
}

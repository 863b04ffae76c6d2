/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of files -> columns that are read, matched by name -> fields. */
#include <stdio.h>

#include "base/text.h"
#include "codec/image/image.h"
#include "dataset/images.h"
#include "dataset/rows.h"
#include "dataset/table/pieces.h"

#define LEARNT 8u /* values that are looked at to tell whether they are pictures */

static const char *key_of(const stk__table *t, size_t file)
{
    return t->text + t->files[file].key;
}

/* ---- Which columns --------------------------------------------------------------------------- */

uint32_t stk__table_column_by_name(const stk__table_layout *l, const char *name)
{
    for (uint32_t i = 0; i < l->num_columns; i++)
        if (strcmp(l->columns[i].name, name) == 0)
            return i;
    return STK__TABLE_NONE;
}

stk_status stk__table_no_column(const stk__table *t, const char *option, const char *name,
                                stk_error *err)
{
    const stk__table_layout *l = t->files[0].layout;
    stk__text names = {.ctx = t->base.context};

    for (uint32_t c = 0; c < l->num_columns && names.length < 200; c++)
        stk__text_add(&names, "%s%.60s", c ? "," : "", l->columns[c].name);
    for (uint32_t k = 0; k < t->num_keys && names.length < 200; k++)
        stk__text_add(&names, ",%.60s", t->keys[k].column.name);
    stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                 "%s: %.150s has no column '%.60s'; the columns are %.250s", stk__table_name(t),
                 key_of(t, 0), name, names.bytes ? names.bytes : "");
    stk__text_release(&names);
    return STK_EINVAL;
}

/* A name that was asked for and no column has, or one that cannot be read. */
static stk_status check_wanted(const stk__table *t, stk_error *err)
{
    const stk__table_layout *l = t->files[0].layout;

    for (uint32_t i = 0; i < t->num_wanted; i++) {
        const size_t length = strlen(t->wanted[i]);
        bool found = stk__table_key_by_name(t, t->wanted[i]) != NULL;
        for (uint32_t c = 0; c < l->num_columns && !found; c++)
            found = strncmp(l->columns[c].name, t->wanted[i], length) == 0 &&
                    (l->columns[c].name[length] == 0 || l->columns[c].name[length] == '.');
        if (!found)
            return stk__table_no_column(t, "columns", t->wanted[i], err);
    }
    return STK_OK;
}

/* "image.path" beside "image.bytes" is not read unless it is asked for. */
static bool is_path_of_bytes(const stk__table_layout *l, const char *name)
{
    char bytes[512];
    const size_t length = strlen(name);

    if (!stk__ends_with(name, length, ".path") || length >= sizeof bytes - 1)
        return false;
    snprintf(bytes, sizeof bytes, "%.*s.bytes", (int)(length - strlen(".path")), name);
    return stk__table_column_by_name(l, bytes) != STK__TABLE_NONE;
}

/* Why a column that is read is no field; NULL: it is one. */
static const char *refused(const stk__table *t, const stk__table_column *c)
{
    if (c->kind == STK__COLUMN_REFUSED)
        return c->note ? c->note : "it is of a type that is not read";
    if (stk__table_key_by_name(t, c->name))
        return "a folder says what it is";
    if (strcmp(c->name, "index") == 0)
        return "each batch has a field of this name: the number of its sample";
    if (!t->num_wanted && is_path_of_bytes(t->files[0].layout, c->name))
        return "it is the path of what lies beside it";
    return NULL;
}

bool stk__table_is_field(const stk__table *t, const stk__table_column *c)
{
    bool named = !t->num_wanted;

    for (uint32_t i = 0; i < t->num_named && !named; i++)
        named = stk__table_names(t->wanted[i], c->name);
    return named;
}

static stk_status choose(stk__table *t, stk_error *err)
{
    stk__table_layout *l = t->files[0].layout;
    stk__text left = {.ctx = t->base.context};

    t->reads = stk__calloc(t->base.context, STK_MAX(l->num_columns, 1), sizeof *t->reads);
    if (!t->reads)
        return stk__table_no_memory(t, err);
    for (uint32_t i = 0; i < l->num_columns; i++) {
        const stk__table_column *c = &l->columns[i];
        const char *why = refused(t, c);
        const bool wanted = l->chain_of[i] != STK__TABLE_NONE && stk__table_is_field(t, c);
        if (why && t->num_wanted && stk__table_is_field(t, c) &&
            !stk__table_key_by_name(t, c->name)) {
            stk__text_release(&left);
            return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, key_of(t, 0), STK_NO_OFFSET,
                                "%s: the column '%.100s' can be no field: %.200s; leave it out of "
                                "columns, or convert it when the file is written",
                                stk__table_name(t), c->name, why);
        }
        if (why && !t->num_wanted)
            stk__text_add(&left, "%s%.100s: %.100s", left.length ? "; " : "", c->name, why);
        else if (wanted)
            t->reads[t->num_reads++] = (stk__table_read){.column = *c, .field = -1, .mask = -1};
    }
    t->left = left.bytes;
    if (left.failed)
        return stk__table_no_memory(t, err);
    if (!t->num_reads && t->num_keys && t->num_wanted)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "columns", STK_NO_OFFSET,
                            "%s: columns names folders alone; add a column of the files",
                            stk__table_name(t));
    if (!t->num_reads)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key_of(t, 0), STK_NO_OFFSET,
                            "%s: %.200s has no column that can be a field%s%.200s",
                            stk__table_name(t), key_of(t, 0), t->left ? ": " : "",
                            t->left ? t->left : "");
    return STK_OK;
}

/* ---- The same columns in all files ----------------------------------------------------------- */

static stk_status differs(const stk__table *t, size_t file, const char *name, const char *what,
                          stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key_of(t, file), STK_NO_OFFSET,
                        "%s: the column '%.100s' of %.200s %s, as against %.150s; leave it out by "
                        "columns=COLUMN,..., or open the files apart",
                        stk__table_name(t), name, key_of(t, file), what, key_of(t, 0));
}

/* Refused columns of the layout are of no interest to decode(): those of no field. */
static void refuse_unread(stk__table_layout *l)
{
    for (uint32_t i = 0; i < l->num_columns; i++)
        if (l->chain_of[i] == STK__TABLE_NONE)
            l->columns[i].kind = STK__COLUMN_REFUSED;
}

/* How much of what is said of a type is its unit of time, "timestamp[us" of "timestamp[us, UTC]";
 * 0: it counts none. */
static size_t unit_of(const char *note)
{
    static const char *const times[] = {"timestamp[", "time", "date", "duration[", "interval["};

    for (size_t i = 0; note && i < STK_COUNT(times); i++)
        if (strncmp(note, times[i], strlen(times[i])) == 0)
            return strcspn(note, ",]:");
    return 0;
}

static bool same_unit(const stk__table_column *a, const stk__table_column *b)
{
    const size_t unit = unit_of(a->note);

    return unit == unit_of(b->note) && (!unit || memcmp(a->note, b->note, unit) == 0);
}

static stk_status match(stk__table *t, size_t file, stk_error *err)
{
    stk__table_layout *l = t->files[file].layout;
    stk_context *ctx = t->base.context;

    l->column_of = stk__calloc(ctx, t->num_reads, sizeof *l->column_of);
    l->slot_of = stk__calloc(ctx, t->num_reads, sizeof *l->slot_of);
    l->chain_at = stk__calloc(ctx, t->num_reads, sizeof *l->chain_at);
    l->by_slot = stk__calloc(ctx, t->num_reads, sizeof *l->by_slot);
    uint32_t *slots = stk__calloc(ctx, (size_t)l->num_chains + 1, sizeof *slots);
    stk_status status = l->column_of && l->slot_of && l->chain_at && l->by_slot && slots
                            ? STK_OK
                            : stk__table_no_memory(t, err);
    for (uint32_t k = 0; status == STK_OK && k < t->num_reads; k++) {
        stk__table_column *a = &t->reads[k].column;
        const uint32_t at = stk__table_column_by_name(l, a->name);
        const stk__table_column *c = &l->columns[at == STK__TABLE_NONE ? 0 : at];
        if (at == STK__TABLE_NONE)
            status = differs(t, file, a->name, "is not there", err);
        else if (c->kind != a->kind || c->dtype != a->dtype || c->width != a->width ||
                 c->list != a->list || c->rank != a->rank ||
                 memcmp(c->shape, a->shape, sizeof a->shape) != 0)
            status = differs(t, file, a->name, "is of another type", err);
        else if (!same_unit(c, a))
            status = differs(t, file, a->name, "counts time in another unit", err);
        if (status != STK_OK)
            break;
        a->nullable |= c->nullable;
        a->holes |= c->holes;
        a->text = a->text && c->text;
        l->column_of[k] = at;
        const uint32_t chain = l->chain_of[at];
        if (!slots[chain]) {
            l->chain_at[l->num_slots++] = chain;
            slots[chain] = l->num_slots;
        }
        l->slot_of[k] = slots[chain] - 1;
    }
    uint32_t count = 0;
    for (uint32_t slot = 0; status == STK_OK && slot < l->num_slots; slot++)
        for (uint32_t k = 0; k < t->num_reads; k++)
            if (l->slot_of[k] == slot)
                l->by_slot[count++] = k;
    stk__free(ctx, slots);
    return status;
}

/* With all columns asked for, one that the first file has not would be left out unseen. */
static stk_status check_more(const stk__table *t, size_t file, stk_error *err)
{
    const stk__table_layout *l = t->files[file].layout, *first = t->files[0].layout;

    for (uint32_t i = 0; !t->num_wanted && i < l->num_columns; i++)
        if (stk__table_column_by_name(first, l->columns[i].name) == STK__TABLE_NONE)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key_of(t, file), STK_NO_OFFSET,
                                "%s: %.150s has the column '%.100s', which %.150s has not; name "
                                "the wanted ones by columns=COLUMN,...",
                                stk__table_name(t), key_of(t, file), l->columns[i].name,
                                key_of(t, 0));
    return STK_OK;
}

static stk_status match_all(stk__table *t, stk_error *err)
{
    for (size_t i = 0; i < t->num_files; i++) {
        if (!t->files[i].owns_layout)
            continue;
        STK_TRY(check_more(t, i, err));
        STK_TRY(match(t, i, err));
    }
    for (size_t i = 0; i < t->num_files; i++)
        if (t->files[i].owns_layout)
            refuse_unread(t->files[i].layout);
    return STK_OK;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

/* Whether the first values of a column are pictures. Blocks. */
static stk_status look(const stk__table *t, uint32_t read, bool *pictures, stk_error *err)
{
    const stk__table_column *column = &t->reads[read].column;
    const stk__table_kept *k = t->files;
    void *data = NULL, *dictionary = NULL;
    uint32_t seen = 0, good = 0;

    *pictures = false;
    if (column->kind != STK__COLUMN_BYTES || column->text)
        return STK_OK;
    while (!k->rows)
        k++;
    const uint32_t at = k->layout->column_of[read];
    const uint32_t number = stk__table_piece_at(k, k->layout->chain_of[at], 0);
    const stk__table_piece *p = &k->pieces[number];
    stk_status status = stk__table_load(t, k, number, &data, err);
    if (status == STK_OK && p->dictionary != STK__TABLE_NO_PIECE)
        status = stk__table_load(t, k, p->dictionary, &dictionary, err);
    for (uint32_t r = 0; status == STK_OK && r < p->rows && seen < LEARNT; r++) {
        const stk__table_cells cells = {data, (const stk__table_vector *)data + (at - p->column),
                                        dictionary};
        const void *value;
        uint64_t size;
        if (stk__table_cell(&cells, column, r, &value, &size))
            continue;
        seen++;
        good += stk__image_recognize(value, size) != STK__IMAGE_UNKNOWN;
    }
    *pictures = seen && good == seen;
    stk__free(t->base.context, data);
    stk__free(t->base.context, dictionary);
    return status;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* The one column of integers that is called as labels are; -1: none, or there are several. */
static int64_t label_of(const stk__table *t)
{
    int64_t found = -1;
    uint32_t count = 0;

    for (uint32_t i = 0; i < t->num_reads; i++) {
        const stk__table_column *c = &t->reads[i].column;
        const bool exact = strcmp(c->name, "label") == 0;
        const bool number =
            c->kind == STK__COLUMN_VALUES && !c->list && c->width == 1 && stk__widen_c(c->dtype);
        const bool can = (number || t->reads[i].names) && stk__rows_is_label_name(c->name);
        if (exact)
            return can ? (int64_t)i : -1;
        count += can;
        found = can ? (int64_t)i : found;
    }
    return count == 1 ? found : -1;
}

static stk_field field_of(const stk__table_column *c, const char *name, bool picture)
{
    stk_field field = stk__field(name, c->dtype, (const int64_t[]){-1}, false);

    if (picture)
        return stk__images_field(name, 3, false);
    if (c->rank) {
        field.rank = c->rank;
        memcpy(field.shape, c->shape, sizeof field.shape);
        field.picture = c->dtype == STK_UINT8 && c->rank == 3 &&
                        (c->shape[2] == 1 || c->shape[2] == 3 || c->shape[2] == 4);
    } else if (c->kind != STK__COLUMN_VALUES) {
        field.layout = c->kind == STK__COLUMN_LIST ? STK_RAGGED : STK_BYTES;
        field.text = c->kind == STK__COLUMN_BYTES && c->text;
        field.rank = 1;
        field.shape[0] = -1;
    } else if (c->list || c->width > 1) {
        field.rank = 1;
        field.shape[0] = c->width;
    }
    return field;
}

static bool is_taken(const stk__table *t, const char *name)
{
    for (uint32_t i = 0; i < t->base.num_fields; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return true;
    for (uint32_t i = 0; i < t->num_reads; i++)
        if (strcmp(t->reads[i].column.name, name) == 0)
            return true;
    return stk__table_key_by_name(t, name) != NULL;
}

/* The next text in `names`, which has room for all of them. */
static const char *put_name(char **at, const char *text, size_t length, const char *end)
{
    char *begin = *at;

    memcpy(begin, text, length);
    memcpy(begin + length, end, strlen(end) + 1);
    *at += length + strlen(end) + 1;
    return begin;
}

static stk_status make_field(stk__table *t, uint32_t i, bool label, char **at, stk_error *err)
{
    stk__table_read *r = &t->reads[i];
    const stk__table_column *c = &r->column;
    const size_t length = strlen(c->name);
    bool picture = false;
    const char *name = c->name;

    if (!r->names)
        STK_TRY(look(t, i, &picture, err));
    if (label && strcmp(name, "label") != 0)
        name = "label";
    if (picture && stk__ends_with(name, length, ".bytes")) {
        const char *shorter = put_name(at, name, length - strlen(".bytes"), "");
        name = is_taken(t, shorter) ? name : shorter;
    }
    stk_field field = r->names ? stk__field(name, STK_INT64, (const int64_t[]){-1}, false)
                               : field_of(c, name, picture);
    if (label && !r->names && c->dtype != STK_INT64) {
        field.dtype = STK_INT64;
        r->widen = stk__widen_c(c->dtype);
    }
    r->field = (int)t->base.num_fields;
    r->bytes = stk_field_bytes(&field);
    t->fields[t->base.num_fields++] = field;
    if (t->nulls != STK__NULLS_MASK || !c->nullable)
        return STK_OK;
    const char *mask = put_name(at, name, strlen(name), "_mask");
    if (is_taken(t, mask))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "nulls", STK_NO_OFFSET,
                            "%s: nulls=mask: there is a column '%.100s' already; leave one of them "
                            "out by columns=COLUMN,...",
                            stk__table_name(t), mask);
    r->mask = (int)t->base.num_fields;
    t->fields[t->base.num_fields++] = stk__field(mask, STK_BOOL, (const int64_t[]){-1}, false);
    return STK_OK;
}

/* The names of folders that are asked for are fields behind those of the files. */
static stk_status make_key(stk__table *t, stk__table_key *key, char **at, stk_error *err)
{
    const char *name = key->column.name;

    if (!stk__table_is_field(t, &key->column) || strcmp(name, "index") == 0)
        return STK_OK;
    for (uint32_t i = 0; i < t->base.num_fields; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "columns", STK_NO_OFFSET,
                                "%s: a column of the files and the folders '%.60s=' are fields of "
                                "one name; leave one out by columns=COLUMN,...",
                                stk__table_name(t), name);
    key->null_reason = stk__format(t->base.context,
                                   "its folder '%.100s=' has no value; choose nulls=zero, mask or "
                                   "drop",
                                   name);
    if (!key->null_reason)
        return stk__table_no_memory(t, err);
    if (key->names && stk__rows_is_label_name(name) && !is_taken(t, "label"))
        name = "label";
    key->field = (int)t->base.num_fields;
    t->fields[t->base.num_fields++] =
        key->names ? stk__field(name, STK_INT64, (const int64_t[]){-1}, false)
                   : field_of(&key->column, name, false);
    if (t->nulls != STK__NULLS_MASK || !key->column.nullable)
        return STK_OK;
    key->mask = (int)t->base.num_fields;
    t->fields[t->base.num_fields++] = stk__field(put_name(at, name, strlen(name), "_mask"),
                                                 STK_BOOL, (const int64_t[]){-1}, false);
    return STK_OK;
}

/* Reasons of bad samples name their column. */
static stk_status make_reasons(stk__table *t, stk_error *err)
{
    stk_context *ctx = t->base.context;

    for (uint32_t i = 0; i < t->num_reads; i++) {
        stk__table_read *r = &t->reads[i];
        r->null_reason = stk__format(ctx,
                                     "its column '%.100s' has no value; choose nulls=zero, mask or "
                                     "drop",
                                     r->column.name);
        r->value_reasons =
            stk__calloc(ctx, (size_t)t->format->num_reasons + 1, sizeof *r->value_reasons);
        r->name_reason = r->names ? stk__format(ctx,
                                                "the text of its column '%.100s' is none of the "
                                                "names in categories; give all of them",
                                                r->column.name)
                                  : NULL;
        r->holes_reason = r->column.holes
                              ? stk__format(ctx,
                                            "its column '%.100s' has a null within its list; "
                                            "choose nulls=zero or drop",
                                            r->column.name)
                              : NULL;
        if (!r->null_reason || !r->value_reasons || (r->names && !r->name_reason) ||
            (r->column.holes && !r->holes_reason))
            return stk__table_no_memory(t, err);
        for (uint32_t k = 0; k < t->format->num_reasons; k++) {
            r->value_reasons[k] = stk__format(ctx, "the value of its column '%.100s' %s",
                                              r->column.name, t->format->reasons[k]);
            if (!r->value_reasons[k])
                return stk__table_no_memory(t, err);
        }
    }
    return STK_OK;
}

stk_status stk__table_fields(stk__table *t, stk_error *err)
{
    size_t room = 0;

    STK_TRY(check_wanted(t, err));
    STK_TRY(choose(t, err));
    STK_TRY(match_all(t, err));
    if (t->categories)
        STK_TRY(stk__table_categories(t, t->categories, err));
    const int64_t label = label_of(t);
    for (uint32_t i = 0; i < t->num_reads; i++)
        room += 2 * (strlen(t->reads[i].column.name) + sizeof "label_mask");
    for (uint32_t k = 0; k < t->num_keys; k++)
        room += strlen(t->keys[k].column.name) + sizeof "label_mask";
    t->names = stk__alloc(t->base.context, room);
    t->fields =
        stk__calloc(t->base.context, 2 * ((size_t)t->num_reads + t->num_keys), sizeof *t->fields);
    if (!t->names || !t->fields)
        return stk__table_no_memory(t, err);
    char *at = t->names;
    for (uint32_t i = 0; i < t->num_reads; i++)
        STK_TRY(make_field(t, i, label == i, &at, err));
    for (uint32_t k = 0; k < t->num_keys; k++)
        STK_TRY(make_key(t, &t->keys[k], &at, err));
    t->base.fields = t->fields;
    return make_reasons(t, err);
}

const stk__table_column *stk__table_field_column(const stk_dataset *dataset, uint32_t f)
{
    const stk__table *t = (const stk__table *)dataset;

    for (uint32_t i = 0; dataset->ops->prepare == stk__table_prepare && i < t->num_reads; i++)
        if (t->reads[i].field == (int)f)
            return &t->reads[i].column;
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A table of files as a dataset: opening, needs, samples, description. */
#include <stdio.h>

#include "base/text.h"
#include "dataset/object.h"
#include "dataset/table/listed.h"
#include "dataset/table/pieces.h"
#include "dataset/table/where.h"

#define BLOCK_BYTES (UINT64_C(4) << 20) /* of neighbours that are worth reading together */
#define COST_NS     500.0               /* of preparing a row: to begin, and of each column */
#define COLUMN_NS   50.0
#define KEPT_BYTES  (UINT64_C(4) << 20)   /* of a thread, for pieces that are unpacked, at most */
#define CODEC_BYTES (UINT64_C(256) << 10) /* the state of a codec */
#define MAX_WANTED  STK__TABLE_MAX_COLUMNS
#define SEEN        509 /* runs of rows that are remembered while some are located */
#define WORTH_A_RUN 64  /* rows that are worth needs of their own */
#define AT_ONCE     16  /* indices that are compared together */

/* ---- Opening --------------------------------------------------------------------------------- */

void stk__table_close(stk_dataset *dataset)
{
    stk__table *t = (stk__table *)dataset;
    stk_context *ctx = t->base.context;

    for (uint32_t i = 0; i < t->num_reads; i++) {
        stk__free(ctx, (void *)t->reads[i].null_reason);
        for (uint32_t k = 0; t->reads[i].value_reasons && k < t->format->num_reasons; k++)
            stk__free(ctx, (void *)t->reads[i].value_reasons[k]);
        stk__free(ctx, t->reads[i].value_reasons);
        stk__free(ctx, (void *)t->reads[i].name_reason);
        stk__free(ctx, (void *)t->reads[i].holes_reason);
        if (t->reads[i].names)
            stk__names_release(t->reads[i].names);
        stk__free(ctx, t->reads[i].names);
    }
    for (size_t i = 0; i < t->num_files; i++)
        stk__table_kept_release(ctx, &t->files[i]);
    for (uint32_t i = 0; i < t->num_wanted; i++)
        stk__free(ctx, t->wanted[i]);
    stk__table_keys_release(t);
    for (uint32_t i = 0; i < t->num_said; i++)
        stk__free(ctx, t->said[i].text);
    stk__free(ctx, t->said);
    pthread_mutex_destroy(&t->said_lock);
    stk__listed_stores_release(&t->stores);
    stk__free(ctx, t->wanted);
    stk__free(ctx, t->reads);
    stk__free(ctx, t->fields);
    stk__free(ctx, t->names);
    stk__free(ctx, t->left);
    stk__free(ctx, t->watched);
    stk__free(ctx, t->cuts.rows);
    stk__free(ctx, t->block_cuts.rows);
    stk__free(ctx, t->rows);
    stk__free(ctx, t->files);
    stk__free(ctx, t->text);
    stk__free(ctx, t);
}

static stk_status add_wanted(stk__table *t, const char *name, size_t length, stk_error *err)
{
    if (t->num_wanted == MAX_WANTED)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_OPTIONS, "columns", STK_NO_OFFSET,
                            "%s: more than %u columns are named", stk__table_name(t), MAX_WANTED);
    t->wanted[t->num_wanted] = stk__format(t->base.context, "%.*s", (int)length, name);
    if (!t->wanted[t->num_wanted])
        return stk__table_no_memory(t, err);
    t->num_wanted++;
    return STK_OK;
}

/* Names with commas; then those that where asks, which are no fields. */
static stk_status take_names(stk__table *t, const char *names, const stk__where *where,
                             stk_error *err)
{
    t->wanted = stk__calloc(t->base.context, MAX_WANTED, sizeof *t->wanted);
    if (!t->wanted)
        return stk__table_no_memory(t, err);
    for (const char *at = names;; at++) {
        const char *name;
        size_t length;
        if (!stk__table_take_name(&at, ",", &name, &length) || !length)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "columns", STK_NO_OFFSET,
                                "%s: columns=%.100s has an empty name, or half of two backticks",
                                stk__table_name(t), names);
        STK_TRY(add_wanted(t, name, length, err));
        if (!*at)
            break;
    }
    t->num_named = t->num_wanted;
    for (uint32_t i = 0; where && i < where->num_columns; i++)
        STK_TRY(add_wanted(t, where->columns[i], strlen(where->columns[i]), err));
    return STK_OK;
}

/* Of schema, rows and what the files say: the same however the rows are cut into pieces and, where
 * the format says what rows are, into files. */
static uint64_t print_of(const stk__table *t)
{
    uint64_t print = 0, sum = 0, sizes = 0;
    bool printed = true;

    for (size_t i = 0; i < t->num_files; i++) {
        sum += t->files[i].print;
        sizes += t->files[i].size;
        printed = printed && (t->files[i].printed || !t->files[i].rows);
    }
    for (uint32_t i = 0; i < t->num_reads; i++) {
        const stk__table_column *c = &t->reads[i].column;
        const uint32_t what[] = {(uint32_t)c->kind, (uint32_t)c->dtype, c->width, c->list};
        print = stk__fingerprint(print, c->name, strlen(c->name) + 1);
        print = stk__fingerprint(print, what, sizeof what);
        if (t->reads[i].names)
            print = stk__names_print(t->reads[i].names, print);
    }
    const uint64_t whole[] = {t->num_rows, printed ? sum : sizes, (uint64_t)t->nulls};
    print = stk__table_keys_print(t, stk__fingerprint(print, whole, sizeof whole));
    return t->rows ? stk__fingerprint(print, t->rows, t->num_taken * sizeof *t->rows) : print;
}

/* Rows of a group as the format says, or of as many pieces as are worth a read. */
static uint64_t block_rows(const stk__table *t)
{
    uint64_t groups = 0, bytes = 0;

    for (size_t i = 0; i < t->num_files; i++) {
        const stk__table_kept *k = &t->files[i];
        groups += k->groups;
        for (size_t p = 0; p < k->num_pieces; p++)
            bytes += k->pieces[p].kind < STK__PIECE_WHOLE ? k->pieces[p].length : 0;
    }
    const uint64_t by_bytes = BLOCK_BYTES / STK_MAX(bytes / t->num_rows, 1);
    const uint64_t rows = groups ? stk__divide_up(t->num_rows, groups) : by_bytes;
    if (t->rows) { /* those of a group that are taken */
        const double share = (double)t->num_taken / (double)t->num_rows;
        return STK_MIN(STK_MAX((uint64_t)((double)rows * share), 1), t->num_taken);
    }
    return STK_MIN(STK_MAX(rows, 1), t->num_rows);
}

/* Of the pieces that the rows of a block need where they come in blocks. */
static uint64_t block_bytes(const stk__table *t)
{
    uint64_t bytes = 0;

    for (size_t i = 0; (t->block_cuts.num || t->has_sheets) && i < t->num_files; i++)
        for (size_t p = 0; p < t->files[i].num_pieces; p++)
            if (t->files[i].pieces[p].whole == STK__TABLE_NO_PIECE)
                bytes += t->files[i].pieces[p].decoded;
    return (uint64_t)((double)bytes / (double)t->base.size * (double)t->base.block_size);
}

/* What a thread may keep: enough for most pieces, and no more than some MiB. */
static uint64_t kept_bytes(const stk__table *t)
{
    uint64_t most = 0;

    for (size_t i = 0; i < t->num_files; i++)
        for (size_t p = 0; p < t->files[i].num_pieces; p++)
            if (t->files[i].pieces[p].kind != STK__PIECE_SHEET)
                most = STK_MAX(most, t->files[i].pieces[p].decoded);
    return STK_MIN(2 * most, KEPT_BYTES) + CODEC_BYTES;
}

static stk_status open_files(stk__table *t, const char *url, const void *options,
                             const stk__where *where, stk_error *err)
{
    const stk__table_options *o = options;
    bool decided = false;

    t->nulls = o->nulls;
    t->categories = o->categories;
    if (o->columns)
        STK_TRY(take_names(t, o->columns, where, err));
    STK_TRY(stk__table_list(t, url, err));
    if (!t->num_files)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s names no files", stk__table_name(t), url);
    STK_TRY(stk__table_keys_find(t, err));
    if (t->num_keys && (where || t->nulls == STK__NULLS_DROP))
        STK_TRY(stk__table_keys_prune(t, where, &decided, err));
    STK_TRY(stk__table_scan(t, options, err));
    if (!t->num_rows)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s has %zu file%s without a row; name files with rows",
                            stk__table_name(t), url, t->num_files, t->num_files == 1 ? "" : "s");
    t->watched = stk__calloc(t->base.context, t->num_files, sizeof *t->watched);
    if (!t->watched)
        return stk__table_no_memory(t, err);
    STK_TRY(stk__table_fields(t, err));
    if (decided)
        where = NULL;
    if (where || t->nulls == STK__NULLS_DROP)
        STK_TRY(stk__table_choose_rows(t, where, err));
    STK_TRY(stk__table_cut(t, err));
    return stk__table_make_sheets(t, err);
}

/* Names of a label are those of the classes. */
static void set_classes(stk__table *t, int field, const stk__names *names)
{
    if (field < 0 || !names || strcmp(t->fields[field].name, "label") != 0)
        return;
    t->base.classes = names->list;
    t->base.num_classes = names->count;
}

static stk_status open_table(stk__table *t, const char *url, const void *options, stk_error *err)
{
    const char *text = ((const stk__table_options *)options)->where;
    stk__where where = {.ctx = t->base.context};

    stk_status status = text ? stk__where_parse(t->base.context, text, &where, err) : STK_OK;
    if (status == STK_OK)
        status = open_files(t, url, options, text ? &where : NULL, err);
    stk__where_release(&where);
    STK_TRY(status);
    stk__dataset_init(&t->base, t->format->ops, t->base.context,
                      t->rows ? t->num_taken : t->num_rows, t->fields, t->base.num_fields);
    t->base.null_masks = t->nulls == STK__NULLS_MASK;
    t->base.fingerprint = stk__fingerprint(t->base.fingerprint, (uint64_t[]){print_of(t)}, 8);
    t->base.block_size = block_rows(t);
    t->base.block_bytes = block_bytes(t);
    for (uint32_t i = 0; i < t->num_reads; i++)
        set_classes(t, t->reads[i].field, t->reads[i].names);
    for (uint32_t k = 0; k < t->num_keys; k++)
        set_classes(t, t->keys[k].field, t->keys[k].names);
    t->base.cost_ns = COST_NS + COLUMN_NS * t->num_reads;
    t->base.worker_bytes = t->format->worker_open ? kept_bytes(t) + t->scratch : 0;
    for (uint32_t c = 0; c < t->num_reads; c++)
        t->has_lengths |= t->fields[t->reads[c].field].layout != STK_FIXED;
    for (uint32_t c = 0; c < t->num_keys; c++)
        t->has_lengths |= t->keys[c].field >= 0 && t->fields[t->keys[c].field].layout != STK_FIXED;
    return stk__table_tell_kinds(t, err);
}

stk_status stk__table_open(stk_context *ctx, const char *url, const stk__table_format *format,
                           const void *options, stk_dataset **out, stk_error *err)
{
    *out = NULL;
    stk__table *t = stk__calloc(ctx, 1, sizeof *t);
    if (!t)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to open %.200s",
                         format->ops->name, url);
    t->base.context = t->stores.context = ctx;
    t->base.ops = format->ops;
    t->format = format;
    pthread_mutex_init(&t->said_lock, NULL);
    const stk_status status = open_table(t, url, options, err);
    if (status == STK_OK)
        *out = &t->base;
    else
        stk__table_close(&t->base);
    return status;
}

/* ---- Needs ----------------------------------------------------------------------------------- */

stk__table_kept *stk__table_file_of(const stk__table *t, uint64_t row, size_t *number)
{
    size_t low = 0, high = t->num_files;

    /* The last that begins at the row or before it; files without rows come before it. */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (t->files[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    *number = low;
    return &t->files[low];
}

static stk_status unchanged(const stk__table *t, size_t number, stk_error *err)
{
    const stk__table_kept *k = &t->files[number];
    const stk_object_info was = {.struct_size = sizeof was,
                                 .size = k->size,
                                 .identity = k->identity,
                                 .mtime_ns = k->mtime_ns};

    return stk__watched_look(&t->watched[number], stk__table_name(t), "file",
                             t->stores.items[k->store].store, t->text + k->key, &was, err);
}

static stk_status add_need(const stk__table_piece *p, size_t file, size_t i, stk_locator *to)
{
    const stk_need need = {.struct_size = sizeof need,
                           .object = file,
                           .offset = p->offset,
                           .length = p->length,
                           .decoded = p->decoded};

    return to->add(to, i, &need);
}

/* Bytes of a value of a piece at most. */
static uint64_t longest(const stk__table_kept *k, const stk__table_piece *p)
{
    if (p->dictionary != STK__TABLE_NO_PIECE)
        return STK_MAX(longest(k, &k->pieces[p->dictionary]), p->longest ? p->longest : p->decoded);
    return p->longest ? p->longest : p->decoded;
}

static stk_status add_needs(const stk__table *t, uint64_t row, size_t i, stk_locator *to,
                            stk_error *err)
{
    size_t number = 0;
    const stk__table_kept *k = stk__table_file_of(t, row, &number);
    const stk__table_layout *l = k->layout;
    const stk__table_by by = !to->blocks ? STK__TABLE_PAGES
                             : to->mixed ? STK__TABLE_MIXED
                                         : STK__TABLE_BLOCKS;

    STK_TRY(unchanged(t, number, err));
    row -= k->first_row;
    for (uint32_t s = 0; s < l->num_slots;) {
        const stk__table_piece *p = stk__table_piece_for(k, l->chain_at[s], row, by);
        s += p->kind == STK__PIECE_SHEET ? p->columns : 1;
        STK_TRY(add_need(p, number, i, to));
        if (p->dictionary != STK__TABLE_NO_PIECE)
            STK_TRY(add_need(&k->pieces[p->dictionary], number, i, to));
    }
    return STK_OK;
}

static void tell_bytes(const stk__table *t, uint64_t row, size_t i, stk_locator *to)
{
    size_t number = 0;
    const stk__table_kept *k = stk__table_file_of(t, row, &number);
    const stk__table_layout *l = k->layout;

    for (uint32_t c = 0; c < t->num_reads; c++) {
        const stk__table_read *r = &t->reads[c];
        if (t->fields[r->field].layout == STK_FIXED)
            continue;
        const uint32_t chain = l->chain_at[l->slot_of[c]];
        to->bytes(to, i, (uint32_t)r->field,
                  longest(k, &k->pieces[stk__table_piece_at(k, chain, row - k->first_row)]));
    }
    for (uint32_t c = 0; c < t->num_keys; c++) {
        const stk__table_key *key = &t->keys[c];
        uint64_t size = 0;
        if (key->field < 0 || t->fields[key->field].layout == STK_FIXED)
            continue;
        (void)stk__table_key_value(t, key, number, &size);
        to->bytes(to, i, (uint32_t)key->field, size);
    }
}

static uint64_t row_of(const stk__table *t, uint64_t index)
{
    return t->rows ? t->rows[index] : index;
}

/* Of samples from the first on, how many are rows that stand one behind the other, up to `end`. */
static size_t neighbours(const stk__table *t, const uint64_t *indices, size_t n, uint64_t end)
{
    const uint64_t row = row_of(t, *indices);
    size_t i = 1;

    n = STK_MIN(n, (size_t)(end - row));
    for (bool all = true; all && !t->rows && i + AT_ONCE <= n; i += all ? AT_ONCE : 0) {
        uint64_t other = 0;
        for (size_t k = i; k < i + AT_ONCE; k++)
            other |= indices[k] ^ (row + k);
        all = !other;
    }
    while (i < n && row_of(t, indices[i]) == row + i)
        i++;
    return i;
}

/* `near` samples from `i` on, in as many runs as they have to be. */
static stk_status add_runs(const stk__table *t, const uint64_t *indices, size_t i, size_t near,
                           stk_locator *to, stk_error *err)
{
    for (size_t end = i + near; i < end;) {
        STK_TRY(add_needs(t, row_of(t, indices[i]), i, to, err));
        i += to->run(to, i, end - i);
    }
    return STK_OK;
}

/* Rows that lie in the same pieces need the same. Which of them came first is remembered by the
 * number of their run; where two runs meet in one place some rows add their needs once more. Where
 * they stand one behind the other in the batch as well, they are taken together. */
stk_status stk__table_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *err)
{
    const stk__table *t = (const stk__table *)dataset;
    const stk__table_cuts *cuts = to->blocks && t->block_cuts.num ? &t->block_cuts : &t->cuts;
    struct {
        size_t run, first; /* run + 1; 0: none */
    } seen[SEEN];

    if (n > 1 && to->same)
        memset(seen, 0, sizeof seen);
    for (size_t i = 0, taken; i < n; i += taken) {
        const uint64_t row = row_of(t, indices[i]);
        bool same = false;
        taken = 1;
        if (n > 1 && to->same) {
            const size_t run = stk__table_run_of(cuts, row) + 1, place = run % SEEN;
            const uint64_t end = run < cuts->num ? cuts->rows[run] : UINT64_MAX;
            const size_t near = to->run ? neighbours(t, indices + i, n - i, end) : 1;
            if (near >= WORTH_A_RUN) {
                STK_TRY(add_runs(t, indices, i, near, to, err));
                taken = near;
                continue;
            }
            same = seen[place].run == run && to->same(to, i, seen[place].first);
            if (!same) {
                seen[place].run = run;
                seen[place].first = i;
            }
        }
        if (!same)
            STK_TRY(add_needs(t, row, i, to, err));
        if (t->has_lengths)
            tell_bytes(t, row, i, to);
    }
    return STK_OK;
}

size_t stk__table_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                         size_t size)
{
    stk__table *t = (stk__table *)dataset;
    const stk__table_kept *k = &t->files[object];

    *store = t->stores.items[k->store].store;
    return stk__object_copy_key(key, size, t->text + k->key);
}

stk_status stk__table_decode(stk_dataset *dataset, const stk_need *need, const void *data,
                             void *out, void *worker, const char **reason)
{
    stk__table *t = (stk__table *)dataset;
    const stk__table_kept *k = &t->files[need->object];
    const stk__table_piece *p = stk__table_piece_of(k, need->offset, need->length);
    const char *why = NULL;

    if (!p || p->decoded != need->decoded)
        return STK_EINVAL;
    const stk_status status =
        p->kind == STK__PIECE_SHEET
            ? stk__table_decode_sheet(t, k, p, data, out, worker, &p, &why)
            : stk__table_decode_piece(t, k, p, data, out, stk__table_worker_own(worker), &why);
    if (status != STK_OK)
        *reason = stk__table_said(t, k, p, why ? why : stk_status_text(status));
    return status;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Zero, an empty list, an empty text. */
static void put_nothing(const stk_field *field, stk_value *value, uint64_t bytes)
{
    value->data = value->out;
    value->size = field->layout == STK_FIXED ? bytes : 0;
    if (value->size)
        memset(value->out, 0, value->size);
}

bool stk__table_takes(const stk__table *t, const stk__table_read *r, uint8_t null, uint64_t size,
                      stk_status *status, const char **reason)
{
    if (null == STK__TABLE_HOLES && t->nulls == STK__NULLS_ZERO)
        null = 0;
    if (null == STK__TABLE_HOLES) {
        *status = STK_EFORMAT;
        *reason = r->holes_reason;
    } else if (null > 1 || (null && t->nulls == STK__NULLS_FAIL)) {
        *status = STK_EFORMAT;
        *reason = null == 1                                     ? r->null_reason
                  : (uint32_t)null - 2 < t->format->num_reasons ? r->value_reasons[null - 2]
                                                                : NULL;
    } else if (!null && r->column.rank && size != r->bytes) {
        *status = STK_EFORMAT;
        *reason = "a list has another number of values than its shape says";
    } else {
        return !null;
    }
    return false;
}

/* The number of a name. */
static void put_number_of(const stk__table_read *r, const void *data, uint64_t size,
                          stk_value *value, stk_sample *s)
{
    uint32_t number;

    if (!stk__names_find(r->names, data, size, &number)) {
        s->status = STK_EFORMAT;
        s->reason = r->name_reason;
        return;
    }
    memcpy(value->out, &(int64_t){number}, sizeof(int64_t));
    value->data = value->out;
    value->size = sizeof(int64_t);
}

static void put_value(const stk__table *t, const stk__table_read *r, const stk__table_cells *cells,
                      uint64_t row, stk_sample *s)
{
    const stk_field *field = &t->fields[r->field];
    stk_value *value = stk_sample_value(s, (uint32_t)r->field);
    const void *data;
    uint64_t size;

    const uint8_t null = stk__table_cell(cells, &r->column, row, &data, &size);
    if (r->mask >= 0) {
        stk_value *mask = stk_sample_value(s, (uint32_t)r->mask);
        *(uint8_t *)mask->out = !null;
        mask->data = mask->out;
        mask->size = 1;
    }
    if (!stk__table_takes(t, r, null, size, &s->status, &s->reason)) {
        if (s->status == STK_OK)
            put_nothing(field, value, r->bytes);
    } else if (r->names) {
        put_number_of(r, data, size, value, s);
    } else if (r->widen) {
        r->widen(data, 1, value->out);
        value->data = value->out;
    } else if (stk__table_is_coded_list(cells, &r->column)) {
        value->data = value->out;
        value->size = size;
        if (size > value->capacity ||
            !stk__table_look_up(cells, &r->column, data, size, value->out))
            s->status = STK_EFORMAT;
    } else {
        value->data = data;
        value->size = size;
    }
}

/* The value of the names of folders: it is the dataset's. */
static void put_key(const stk__table *t, const stk__table_key *key, size_t file, stk_sample *s)
{
    stk_value *value = stk_sample_value(s, (uint32_t)key->field);
    uint64_t size;
    const void *data = stk__table_key_cell(t, key, file, &size, &s->status, &s->reason);

    if (key->mask >= 0) {
        stk_value *mask = stk_sample_value(s, (uint32_t)key->mask);
        *(uint8_t *)mask->out = data != NULL;
        mask->data = mask->out;
        mask->size = 1;
    }
    if (data) {
        value->data = data;
        value->size = size;
    } else if (s->status == STK_OK) {
        put_nothing(&t->fields[key->field], value, sizeof(int64_t));
    }
}

/* Slot by slot, as locate() added their needs; then the columns of each. */
static void prepare_one(const stk__table *t, stk_sample *s)
{
    size_t number;
    const uint64_t taken = t->rows ? t->rows[s->index] : s->index;
    const stk__table_kept *k = stk__table_file_of(t, taken, &number);
    const stk__table_layout *l = k->layout;
    const uint64_t row = taken - k->first_row;
    uint32_t need = 0, next = 0;

    for (uint32_t slot = 0; slot < l->num_slots;) {
        const stk__table_held held = stk__table_held_in(k, slot, &s->needs[need]);
        const uint64_t at = row - held.piece->first_row;
        stk__table_cells cells = {.base = held.base, .dictionary = held.dictionary};
        for (; next < t->num_reads && l->slot_of[l->by_slot[next]] - slot < held.slots; next++) {
            const uint32_t c = l->by_slot[next];
            cells.vector = stk__table_held_vector(l, &held, c);
            if (s->status == STK_OK)
                put_value(t, &t->reads[c], &cells, at, s);
        }
        if (cells.vector && cells.vector->lines && !slot)
            s->line = ((const uint32_t *)(const void *)(held.base + cells.vector->lines))[at];
        need += held.needs;
        slot += held.slots;
    }
    for (uint32_t c = 0; c < t->num_keys; c++)
        if (t->keys[c].field >= 0 && s->status == STK_OK)
            put_key(t, &t->keys[c], number, s);
}

void stk__table_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__table *t = (const stk__table *)dataset;

    for (size_t i = 0; i < n; i++)
        prepare_one(t, stk_sample_at(samples, i));
}

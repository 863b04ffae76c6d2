/* SPDX-License-Identifier: Apache-2.0 */
/* One file while it is scanned: its columns and pieces, and the chains that are made of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/options.h"
#include "dataset/table/inside.h"

#define MOST_DECODED (UINT64_C(1) << 32)
#define MOST_ROWS    (UINT64_C(1) << 48)
#define MOST_NAME    4096u

const char *stk__table_file_key(const stk__table_file *file)
{
    return file->key;
}

uint64_t stk__table_file_size(const stk__table_file *file)
{
    return file->kept->size;
}

stk_context *stk__table_file_context(const stk__table_file *file)
{
    return file->table->base.context;
}

stk_status stk__table_file_fail(const stk__table_file *file, stk_status status, uint64_t offset,
                                stk_error *err, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk__fail_at(err, status, STK_STAGE_DATASET, file->key, offset,
                        "%s: %.200s, byte %llu: %s", stk__table_name(file->table), file->key,
                        (unsigned long long)offset, text);
}

static stk_status no_memory(const stk__table_file *file, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                        "%s: no memory for where the columns of %.200s lie; raise memory_limit, or "
                        "open fewer files or columns",
                        stk__table_name(file->table), file->key);
}

stk_status stk__table_file_read(stk__table_file *file, uint64_t offset, void *out, size_t size,
                                stk_error *err)
{
    if (offset > file->kept->size || size > file->kept->size - offset)
        return stk__table_file_fail(file, STK_ETRUNCATED, offset, err,
                                    "%zu bytes are to follow and the file ends at %llu; copy or "
                                    "download it again",
                                    size, (unsigned long long)file->kept->size);
    return size ? stk_store_read(file->store, file->key, offset, size, out, err) : STK_OK;
}

/* As stk__grow(), but that half of memory_limit is left: the process is more than its lists. */
static void *grow(const stk__table_file *file, void *array, size_t *room, uint64_t wanted,
                  size_t size)
{
    stk_context *ctx = file->table->base.context;
    const uint64_t rest = stk__context_memory_limit(ctx) / 2, left = stk__memory_left(ctx);
    uint64_t bytes;

    if (array && wanted <= *room)
        return array;
    if (!stk__mul_size(STK_MAX(*room * 2, wanted), size, &bytes) || left < rest ||
        bytes > left - rest)
        return NULL;
    return stk__grow(ctx, array, room, wanted, size);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* "image" wants "image" and "image.bytes". */
bool stk__table_names(const char *wanted, const char *name)
{
    const size_t length = strlen(wanted);

    return strncmp(wanted, name, length) == 0 && (name[length] == 0 || name[length] == '.');
}

static bool is_asked(const stk__table *t, const char *name)
{
    for (uint32_t i = 0; i < t->num_wanted; i++)
        if (stk__table_names(t->wanted[i], name))
            return true;
    return !t->num_wanted;
}

/* Names are texts of Python, JSON, Arrow and Parquet. One that is not asked for does no harm. */
static stk_status check_name(const stk__table_file *file, const char *name, stk_error *err)
{
    const uint32_t number = file->kept->layout->num_columns + 1;
    char shown[STK_OPTION_SHOWN];

    if (!is_asked(file->table, name) || (*name && stk__utf8_valid(name, strlen(name))))
        return STK_OK;
    stk__option_show(shown, name);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                        "%s: %.200s: the name of column %u %s%s%s; name the wanted columns by "
                        "columns=COLUMN,..., or write the file with names in UTF-8",
                        stk__table_name(file->table), file->key, number,
                        *name ? "is not UTF-8: '" : "is empty", shown, *name ? "'" : "");
}

/* Texts stay where they are only when all are there: until then they are offsets. */
static stk_status keep_text(stk__table_file *file, const char *text, const char **out,
                            stk_error *err)
{
    stk__table_layout *l = file->kept->layout;
    const size_t length = strlen(text) + 1;

    char *more = grow(file, l->text, &l->text_room, (uint64_t)l->text_bytes + length, 1);
    if (!more)
        return no_memory(file, err);
    l->text = more;
    memcpy(l->text + l->text_bytes, text, length);
    *out = (const char *)(uintptr_t)l->text_bytes;
    l->text_bytes += length;
    return STK_OK;
}

stk_status stk__table_file_column(stk__table_file *file, const stk__table_column *column,
                                  bool *wanted, stk_error *err)
{
    stk__table_layout *l = file->kept->layout;

    STK_TRY(check_name(file, column->name, err));
    *wanted = column->kind != STK__COLUMN_REFUSED && is_asked(file->table, column->name) &&
              !(column->kind == STK__COLUMN_VALUES && !column->width);
    if (l->num_columns == STK__TABLE_MAX_COLUMNS || strlen(column->name) > MOST_NAME)
        return stk__table_file_fail(file, STK_ELIMIT, 0, err,
                                    "'%.60s' is one column too many, or its name is too long: at "
                                    "most %u columns, of %u bytes",
                                    column->name, STK__TABLE_MAX_COLUMNS, MOST_NAME);
    stk__table_column *columns =
        grow(file, l->columns, &l->columns_room, (uint64_t)l->num_columns + 1, sizeof *columns);
    if (!columns)
        return no_memory(file, err);
    l->columns = columns;
    stk__table_column *c = &l->columns[l->num_columns];
    *c = *column;
    c->note = NULL;
    if (c->kind == STK__COLUMN_VALUES && !c->width) {
        c->kind = STK__COLUMN_REFUSED;
        STK_TRY(keep_text(file, "lists without a value", &c->note, err));
    }
    STK_TRY(keep_text(file, column->name, &c->name, err));
    if (column->note && !c->note)
        STK_TRY(keep_text(file, column->note, &c->note, err));
    uint32_t *chains =
        stk__realloc(file->table->base.context, l->chain_of, l->columns_room * sizeof *l->chain_of);
    if (!chains)
        return no_memory(file, err);
    l->chain_of = chains;
    l->chain_of[l->num_columns++] = *wanted ? 0 : STK__TABLE_NONE;
    return STK_OK;
}

bool stk__table_file_known(const stk__table_file *file, const char *name, stk__table_column *out)
{
    const stk__table *t = file->table;
    const stk__table_layout *first = t->files[t->learnt_from].layout;

    for (uint32_t i = 0; file->number > t->learnt_from && i < first->num_columns; i++)
        if (strcmp(first->columns[i].name, name) == 0) {
            *out = first->columns[i];
            return true;
        }
    return false;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

stk_status stk__table_file_rows(stk__table_file *file, uint64_t rows, stk_error *err)
{
    if (rows > MOST_ROWS)
        return stk__table_file_fail(file, STK_ELIMIT, 0, err, "%llu rows are too many",
                                    (unsigned long long)rows);
    file->kept->rows = rows;
    return STK_OK;
}

static stk_status add_piece(stk__table_file *file, const stk__table_piece *piece, uint32_t *number,
                            stk_error *err)
{
    stk__table_kept *k = file->kept;

    if (!piece->length || piece->offset > k->size || piece->length > k->size - piece->offset)
        return stk__table_file_fail(file, STK_ETRUNCATED, piece->offset, err,
                                    "%llu bytes are to follow and the file ends at %llu; copy or "
                                    "download it again",
                                    (unsigned long long)piece->length, (unsigned long long)k->size);
    if (!piece->columns || piece->column >= k->layout->num_columns ||
        piece->columns > k->layout->num_columns - piece->column ||
        piece->decoded < piece->columns * sizeof(stk__table_vector) ||
        piece->decoded >= MOST_DECODED)
        return stk__table_file_fail(file, STK_ELIMIT, piece->offset, err,
                                    "%u columns of %llu bytes decoded are no piece of a table; at "
                                    "most 4 GiB",
                                    piece->columns, (unsigned long long)piece->decoded);
    if (k->num_pieces >= UINT32_MAX - 1)
        return no_memory(file, err);
    stk__table_piece *pieces =
        grow(file, k->pieces, &k->pieces_room, (uint64_t)k->num_pieces + 1, sizeof *pieces);
    if (!pieces)
        return no_memory(file, err);
    k->pieces = pieces;
    *number = (uint32_t)k->num_pieces;
    k->pieces[k->num_pieces] = *piece;
    k->pieces[k->num_pieces++].whole = STK__TABLE_NO_PIECE;
    return STK_OK;
}

stk_status stk__table_file_dictionary(stk__table_file *file, const stk__table_piece *piece,
                                      uint32_t *number, stk_error *err)
{
    stk__table_piece own = *piece;

    own.dictionary = STK__TABLE_NO_PIECE;
    own.kind = STK__PIECE_DICTIONARY;
    return add_piece(file, &own, number, err);
}

stk_status stk__table_file_piece(stk__table_file *file, const stk__table_piece *piece,
                                 uint32_t *number, stk_error *err)
{
    stk__table_piece own = *piece;

    own.kind = STK__PIECE_ROWS;
    if (own.dictionary != STK__TABLE_NO_PIECE &&
        (own.dictionary >= file->kept->num_pieces || own.columns != 1 ||
         file->kept->pieces[own.dictionary].kind != STK__PIECE_DICTIONARY))
        return stk__table_file_fail(file, STK_EFORMAT, own.offset, err,
                                    "its codes are of no dictionary");
    return add_piece(file, &own, number, err);
}

stk_status stk__table_file_whole(stk__table_file *file, const stk__table_piece *piece,
                                 uint32_t first, uint32_t count, stk_error *err)
{
    stk__table_kept *k = file->kept;
    stk__table_piece own = *piece;
    uint64_t rows = 0;
    uint32_t number = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const stk__table_piece *p = &k->pieces[i];
        if (p->kind != STK__PIECE_ROWS || p->column != own.column || p->columns != 1 ||
            p->first_row != own.first_row + rows)
            return stk__table_file_fail(file, STK_EFORMAT, own.offset, err,
                                        "a whole is of other rows than its pieces");
        rows += p->rows;
    }
    if (rows != own.rows || own.columns != 1)
        return stk__table_file_fail(file, STK_EFORMAT, own.offset, err,
                                    "a whole is of other rows than its pieces");
    own.kind = STK__PIECE_WHOLE;
    own.dictionary = STK__TABLE_NO_PIECE;
    STK_TRY(add_piece(file, &own, &number, err));
    for (uint32_t i = first; i < first + count; i++)
        k->pieces[i].whole = number;
    k->num_wholes++;
    return STK_OK;
}

stk_status stk__table_file_bounds(stk__table_file *file, uint32_t number,
                                  const stk__table_bound *least, const stk__table_bound *most,
                                  stk_error *err)
{
    stk__table_kept *k = file->kept;

    stk__table_limits *limits =
        grow(file, k->limits, &k->limits_room, (uint64_t)k->num_limits + 1, sizeof *limits);
    if (!limits)
        return no_memory(file, err);
    k->limits = limits;
    k->limits[k->num_limits++] =
        (stk__table_limits){.piece = number, .least = *least, .most = *most};
    return STK_OK;
}

stk_status stk__table_file_group(stk__table_file *file, uint64_t first_row, stk_error *err)
{
    stk__table_kept *k = file->kept;

    if (k->groups && first_row <= file->next_group)
        return STK_OK; /* the one before has no rows */
    uint64_t *rows = stk__grow(file->table->base.context, k->group_rows, &k->group_room,
                               k->groups + 1, sizeof *rows);
    if (!rows)
        return stk__table_no_memory(file->table, err);
    k->group_rows = rows;
    rows[k->groups++] = first_row;
    file->next_group = first_row;
    return STK_OK;
}

void stk__table_file_print(stk__table_file *file, const void *data, size_t length)
{
    file->kept->printed = true;
    file->kept->print += stk__fingerprint(0, data, length);
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Columns between two borders, which no piece crosses, lie in the same pieces. */
static stk_status number_chains(stk__table_file *file, stk_error *err)
{
    const stk__table_kept *k = file->kept;
    stk__table_layout *l = k->layout;
    stk_context *ctx = file->table->base.context;

    bool *border = stk__calloc(ctx, (size_t)l->num_columns + 1, sizeof *border);
    if (!border)
        return no_memory(file, err);
    for (size_t i = 0; i < k->num_pieces; i++)
        if (k->pieces[i].kind == STK__PIECE_ROWS)
            border[k->pieces[i].column] = border[k->pieces[i].column + k->pieces[i].columns] = true;
    bool open = false; /* the chain has a column that is asked for */
    for (uint32_t c = 0; c < l->num_columns; c++) {
        open = open && !border[c];
        if (l->chain_of[c] == STK__TABLE_NONE)
            continue;
        l->num_chains += !open;
        open = true;
        l->chain_of[c] = l->num_chains - 1;
    }
    stk__free(ctx, border);
    return STK_OK;
}

/* The chains of a piece: from that of its first column that is asked for on. */
static void chains_of(const stk__table_layout *l, const stk__table_piece *p, uint32_t *first,
                      uint32_t *end)
{
    *first = *end = 0;
    for (uint32_t c = p->column; p->kind == STK__PIECE_ROWS && c < p->column + p->columns; c++) {
        if (l->chain_of[c] == STK__TABLE_NONE)
            continue;
        if (*end == 0)
            *first = l->chain_of[c];
        *end = l->chain_of[c] + 1;
    }
}

static stk_status make_places(stk__table_file *file, stk_error *err)
{
    stk__table_kept *k = file->kept;
    stk_context *ctx = file->table->base.context;
    const uint32_t chains = k->layout->num_chains;
    uint32_t first, end;

    k->chains = stk__calloc(ctx, (size_t)chains + 2, sizeof *k->chains);
    if (!k->chains)
        return no_memory(file, err);
    uint64_t total = 0;
    for (size_t i = 0; i < k->num_pieces; i++) {
        chains_of(k->layout, &k->pieces[i], &first, &end);
        for (uint32_t c = first; c < end; c++)
            k->chains[c + 2]++;
        total += end - first;
    }
    if (total > UINT32_MAX)
        return no_memory(file, err);
    for (uint32_t c = 2; c <= chains + 1; c++)
        k->chains[c] += k->chains[c - 1];
    if (chains == 1 && total == k->num_pieces) {
        k->chains[1] = k->chains[2];
        return STK_OK;
    }
    size_t room = 0;
    k->places = grow(file, NULL, &room, STK_MAX(total, 1), sizeof *k->places);
    if (!k->places)
        return no_memory(file, err);
    for (size_t i = 0; i < k->num_pieces; i++) {
        chains_of(k->layout, &k->pieces[i], &first, &end);
        for (uint32_t c = first; c < end; c++)
            k->places[k->chains[c + 1]++] = (uint32_t)i;
    }
    return STK_OK;
}

static uint32_t place(const stk__table_kept *k, uint32_t i)
{
    return k->places ? k->places[i] : i;
}

/* Each row once, in order. */
static stk_status check_chain(const stk__table_file *file, uint32_t column, stk_error *err)
{
    const stk__table_kept *k = file->kept;
    const uint32_t chain = k->layout->chain_of[column];
    uint64_t rows = 0;

    for (uint32_t i = k->chains[chain]; i < k->chains[chain + 1]; i++) {
        const stk__table_piece *p = &k->pieces[place(k, i)];
        if (p->first_row != rows || !p->rows)
            return stk__table_file_fail(file, STK_EFORMAT, p->offset, err,
                                        "the column '%.100s' goes on at row %llu after %llu rows; "
                                        "write the file again",
                                        k->layout->text +
                                            (uintptr_t)k->layout->columns[column].name,
                                        (unsigned long long)p->first_row, (unsigned long long)rows);
        rows += p->rows;
    }
    if (rows != k->rows)
        return stk__table_file_fail(file, STK_EFORMAT, k->size, err,
                                    "the column '%.100s' has %llu rows and the file %llu; write "
                                    "the file again",
                                    k->layout->text + (uintptr_t)k->layout->columns[column].name,
                                    (unsigned long long)rows, (unsigned long long)k->rows);
    return STK_OK;
}

static int rank(const stk__table_piece *p)
{
    return p->kind == STK__PIECE_SHEET ? 2 : p->kind == STK__PIECE_WHOLE;
}

/* A whole stands behind what begins where it does, and a sheet behind it. */
static int by_offset(const void *a, const void *b, void *user)
{
    const stk__table_piece *pieces = user, *left = &pieces[*(const uint32_t *)a],
                           *right = &pieces[*(const uint32_t *)b];

    if (left->offset != right->offset)
        return left->offset > right->offset ? 1 : -1;
    return rank(left) - rank(right);
}

stk_status stk__table_sort_pieces(const stk__table *t, stk__table_kept *k, stk_error *err)
{
    size_t room = 0;

    uint32_t *order = stk__grow(t->base.context, k->by_offset, &room, k->num_pieces, sizeof *order);
    if (!order)
        return stk__table_no_memory(t, err);
    k->by_offset = order;
    for (size_t i = 0; i < k->num_pieces; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, k->num_pieces, sizeof *order, by_offset, k->pieces);
    return STK_OK;
}

/* Pieces are found again by where they begin, and what kind they are. */
static stk_status order_pieces(stk__table_file *file, stk_error *err)
{
    stk__table_kept *k = file->kept;
    bool ordered = true;

    for (size_t i = 1; i < k->num_pieces; i++)
        ordered = ordered && k->pieces[i].offset > k->pieces[i - 1].offset;
    if (ordered)
        return STK_OK;
    STK_TRY(stk__table_sort_pieces(file->table, k, err));
    for (size_t i = 1; i < k->num_pieces; i++)
        if (by_offset(&k->by_offset[i], &k->by_offset[i - 1], k->pieces) == 0)
            return stk__table_file_fail(file, STK_EFORMAT, k->pieces[k->by_offset[i]].offset, err,
                                        "two pieces of columns begin here; write the file again");
    return STK_OK;
}

/* Names become texts. */
static void settle_names(stk__table_layout *l)
{
    for (uint32_t i = 0; i < l->num_columns; i++) {
        stk__table_column *c = &l->columns[i];
        c->name = l->text + (uintptr_t)c->name;
        c->note = c->note ? l->text + (uintptr_t)c->note : NULL;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static stk_status check_names(const stk__table_file *file, stk_error *err)
{
    const stk__table_layout *l = file->kept->layout;
    stk_context *ctx = file->table->base.context;
    stk_status status = STK_OK;

    const char **names = stk__calloc(ctx, (size_t)l->num_columns + 1, sizeof *names);
    if (!names)
        return no_memory(file, err);
    for (uint32_t i = 0; i < l->num_columns; i++)
        names[i] = l->columns[i].name;
    qsort(names, l->num_columns, sizeof *names, by_name);
    for (uint32_t i = 1; status == STK_OK && i < l->num_columns; i++)
        if (strcmp(names[i], names[i - 1]) == 0)
            status =
                stk__table_file_fail(file, STK_EFORMAT, 0, err,
                                     "two columns have the name '%.100s'; rename one", names[i]);
    stk__free(ctx, names);
    return status;
}

stk_status stk__table_file_finish(stk__table_file *file, stk_error *err)
{
    stk__table_kept *k = file->kept;
    stk__table_layout *l = k->layout;

    STK_TRY(number_chains(file, err));
    STK_TRY(make_places(file, err));
    for (uint32_t c = 0; c < l->num_columns; c++)
        if (l->chain_of[c] != STK__TABLE_NONE && (c == 0 || l->chain_of[c - 1] != l->chain_of[c]))
            STK_TRY(check_chain(file, c, err));
    STK_TRY(order_pieces(file, err));
    settle_names(l);
    return check_names(file, err);
}

/* ---- What is kept ---------------------------------------------------------------------------- */

uint32_t stk__table_piece_at(const stk__table_kept *k, uint32_t chain, uint64_t row)
{
    uint32_t low = k->chains[chain], high = k->chains[chain + 1];

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (k->pieces[place(k, middle)].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return place(k, low);
}

const stk__table_piece *stk__table_piece_of(const stk__table_kept *k, uint64_t offset,
                                            uint64_t length)
{
    size_t low = 0, high = k->num_pieces;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const stk__table_piece *p = &k->pieces[k->by_offset ? k->by_offset[middle] : middle];
        if (p->offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    /* At most three begin there: a page or a dictionary, a whole and a sheet. */
    for (size_t i = low; i < k->num_pieces && i < low + 3; i++) {
        const stk__table_piece *p = &k->pieces[k->by_offset ? k->by_offset[i] : i];
        if (p->offset == offset && p->length == length)
            return p;
    }
    return NULL;
}

static bool same_column(const stk__table_column *a, const stk__table_column *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->dtype == b->dtype &&
           a->width == b->width && a->list == b->list && a->text == b->text &&
           a->nullable == b->nullable && a->holes == b->holes && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           strcmp(a->note ? a->note : "", b->note ? b->note : "") == 0;
}

bool stk__table_layout_same(const stk__table_layout *a, const stk__table_layout *b)
{
    bool same = a->num_columns == b->num_columns && a->num_chains == b->num_chains;

    for (uint32_t i = 0; same && i < a->num_columns; i++)
        same = a->chain_of[i] == b->chain_of[i] && same_column(&a->columns[i], &b->columns[i]);
    return same;
}

static void release_layout(stk_context *ctx, stk__table_layout *l)
{
    stk__free(ctx, l->columns);
    stk__free(ctx, l->text);
    stk__free(ctx, l->chain_of);
    stk__free(ctx, l->column_of);
    stk__free(ctx, l->slot_of);
    stk__free(ctx, l->chain_at);
    stk__free(ctx, l->by_slot);
    stk__free(ctx, l);
}

void stk__table_kept_release(stk_context *ctx, stk__table_kept *k)
{
    if (k->owns_layout)
        release_layout(ctx, k->layout);
    stk__free(ctx, k->pieces);
    stk__free(ctx, k->chains);
    stk__free(ctx, k->places);
    stk__free(ctx, k->by_offset);
    stk__free(ctx, k->limits);
    stk__free(ctx, k->group_rows);
}

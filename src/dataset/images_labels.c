/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of pictures from the rows of a table. Each row is read once and tied to the picture that
 * it names; then the labels are laid out in the order of the pictures. A path is looked for from
 * the folder of the pictures on and, where it is a name alone, in all folders below.
 */
#include "dataset/images_labels.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

#define NONE      STK__LABELS_NONE
#define SHOWN     3  /* examples in a message */
#define NAME_MOST 80 /* bytes of one of them */

typedef struct labelling {
    const stk__images_labels_options *options;
    const char *url; /* of the pictures */
    const stk__images_table *pictures;
    stk_error *err;
    stk__labels_table table;
    stk__taken taken;
    stk__label_values values;
    stk__images_finder paths, names;
    uint32_t *row_of;                       /* of each picture; NONE: no row names it */
    uint64_t lonely_rows, empty_rows, tied; /* without a picture; without a label; the others */
    uint64_t lonely[SHOWN], empty;          /* the first of them */
    const stk__labels_column *empty_column;
} labelling;

stk_status stk__labels_no_memory(uint64_t pictures, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                     "images: no memory for the labels of %" PRIu64
                     " pictures, or no room within memory_limit",
                     pictures);
}

static stk_status no_memory(const labelling *l)
{
    return stk__labels_no_memory(l->pictures->num_files, l->err);
}

const char *stk__labels_where(const stk__labels_table *table, const stk__taken *taken, uint64_t row,
                              char text[STK__LABELS_WHERE])
{
    if (taken->line)
        snprintf(text, STK__LABELS_WHERE, "%.150s:%" PRIu64, table->name, taken->line);
    else
        snprintf(text, STK__LABELS_WHERE, "%.150s, row %" PRIu64, table->name, row);
    return text;
}

static const char *say_row(const labelling *l, uint64_t row, char text[STK__LABELS_WHERE])
{
    return stk__labels_where(&l->table, &l->taken, row, text);
}

/* ---- Pictures of rows ------------------------------------------------------------------------ */

static stk_status two_pictures(const labelling *l, uint64_t row, const char *path, size_t length,
                               const uint32_t found[2])
{
    char one[STK_MAX_OBJECT_KEY], two[STK_MAX_OBJECT_KEY], where[STK__LABELS_WHERE];

    stk__images_key(l->pictures, found[0], one, sizeof one);
    stk__images_key(l->pictures, found[1], two, sizeof two);
    return stk__fail_at(l->err, STK_EINVAL, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                        "images: %s: '%.*s' may be '%.150s' or '%.150s'; write the path from the "
                        "folder on, with its extension",
                        say_row(l, row, where), (int)STK_MIN(length, NAME_MOST), path, one, two);
}

/* The picture that a row names; NONE: there is none. */
static stk_status find_picture(labelling *l, uint64_t row, uint32_t *out)
{
    uint32_t found[2] = {NONE, NONE};
    stk__images_path path;
    char room[32], where[STK__LABELS_WHERE];
    size_t length;
    const char *text = stk__labels_text(&l->table.file, &l->taken, room, &length);

    *out = NONE;
    if (!stk__labels_has(&l->table.file, &l->taken))
        return stk__fail_at(l->err, STK_EFORMAT, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                            "images: %s: its column '%.60s' names no file; fill it, or remove the "
                            "line",
                            say_row(l, row, where), l->table.file.name);
    for (; length > 1 && text[0] == '.' && text[1] == '/'; text += 2, length -= 2)
        ;
    stk__images_path_split(text, length, &path);
    uint32_t count = stk__images_find(&l->paths, &path, found);
    if (!count && !memchr(text, '/', length)) {
        if (!l->names.slots && stk__images_finder_make(&l->names, l->pictures) != STK_OK)
            return no_memory(l);
        count = stk__images_find(&l->names, &path, found);
    }
    if (count > 1)
        return two_pictures(l, row, text, length, found);
    *out = found[0];
    return STK_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static stk_status named_twice(const labelling *l, uint64_t row, uint32_t picture)
{
    char key[STK_MAX_OBJECT_KEY], where[STK__LABELS_WHERE];

    stk__images_key(l->pictures, picture, key, sizeof key);
    return stk__fail_at(l->err, STK_EINVAL, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                        "images: %s names the picture '%.200s' again, as row %" PRIu32
                        " does; duplicates=first takes the first of each",
                        say_row(l, row, where), key, l->row_of[picture]);
}

static stk_status take_row(labelling *l, uint64_t row)
{
    uint32_t picture;

    STK_TRY(find_picture(l, row, &picture));
    if (picture != NONE && l->row_of[picture] != NONE)
        return l->options->duplicates ? STK_OK : named_twice(l, row, picture);
    const stk__labels_column *empty = stk__label_values_empty(&l->values);
    if (empty) {
        if (!l->empty_rows++) {
            l->empty = row;
            l->empty_column = empty;
        }
        return STK_OK;
    }
    if (picture == NONE) {
        if (l->lonely_rows < SHOWN)
            l->lonely[l->lonely_rows] = row;
        l->lonely_rows++;
    } else {
        l->row_of[picture] = (uint32_t)row;
        l->tied++;
    }
    return stk__label_values_take(&l->values, row, picture);
}

static stk_status take_rows(labelling *l)
{
    const uint64_t rows = l->table.dataset->size;
    stk_context *ctx = l->pictures->context;

    if (rows >= NONE || l->pictures->num_files >= NONE)
        return stk__fail_at(l->err, STK_ELIMIT, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                            "images: %.150s has %" PRIu64 " rows; at most 2^32 are read",
                            l->table.name, rows);
    const uint64_t n = l->pictures->num_files;
    /* Of each picture: its row, its label or where its marks begin, and slots by path and name. */
    if (n > stk__memory_left(ctx) / (5 * sizeof(uint32_t) + sizeof(uint64_t)))
        return no_memory(l);
    l->row_of = stk__alloc(ctx, n * sizeof *l->row_of);
    if (!l->row_of || stk__images_finder_make(&l->paths, l->pictures) != STK_OK)
        return no_memory(l);
    STK_TRY(stk__label_values_make_room(&l->values));
    memset(l->row_of, 0xff, n * sizeof *l->row_of);
    STK_TRY(stk__taken_open(&l->taken, l->table.dataset, l->err));
    for (uint64_t row = 0; row < rows; row++) {
        STK_TRY(stk__taken_read(&l->taken, row, l->err));
        STK_TRY(take_row(l, row));
    }
    return STK_OK;
}

/* ---- What is missing ------------------------------------------------------------------------- */

/* Examples of pictures without a label. */
static uint64_t say_lonely_pictures(const labelling *l, stk__text *text)
{
    const uint64_t count = l->pictures->num_files - l->tied;
    char key[STK_MAX_OBJECT_KEY];
    uint32_t shown = 0;

    for (uint64_t i = 0; shown < SHOWN && i < l->pictures->num_files; i++) {
        if (l->row_of[i] != NONE)
            continue;
        stk__images_key(l->pictures, i, key, sizeof key);
        stk__text_add(text, "%s'%.*s'", shown++ ? ", " : "", NAME_MOST, key);
    }
    return count;
}

/* The rows are read once more. */
static void say_lonely_rows(labelling *l, stk__text *text)
{
    char room[32], where[STK__LABELS_WHERE];
    size_t length;

    for (uint64_t i = 0; i < STK_MIN(l->lonely_rows, SHOWN); i++) {
        if (stk__taken_read(&l->taken, l->lonely[i], NULL) != STK_OK)
            continue;
        const char *path = stk__labels_text(&l->table.file, &l->taken, room, &length);
        stk__text_add(text, "%s'%.*s' (%s)", i ? ", " : "", (int)STK_MIN(length, NAME_MOST), path,
                      say_row(l, l->lonely[i], where));
    }
}

static stk_status nothing_fits(labelling *l)
{
    char pictures[400] = "", rows[600] = "";
    stk__text a = {.bytes = pictures, .room = sizeof pictures};
    stk__text b = {.bytes = rows, .room = sizeof rows};

    (void)say_lonely_pictures(l, &a);
    say_lonely_rows(l, &b);
    return stk__fail_at(l->err, STK_EINVAL, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                        "images: no row of %.100s has a label of a picture in %.100s: its column "
                        "'%.60s' says %.200s, and the pictures are %.200s; name the column of the "
                        "paths by file_column",
                        l->table.name, l->url, l->table.file.name, rows, pictures);
}

static stk_status refuse_missing(labelling *l)
{
    char pictures[400] = "", rows[600] = "", where[STK__LABELS_WHERE];
    stk__text a = {.bytes = pictures, .room = sizeof pictures};
    stk__text b = {.bytes = rows, .room = sizeof rows};

    const uint64_t lonely = say_lonely_pictures(l, &a);
    say_lonely_rows(l, &b);
    if (l->empty_rows) {
        (void)stk__taken_read(&l->taken, l->empty, NULL);
        return stk__fail_at(
            l->err, STK_EFORMAT, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
            "images: %s: its column '%.60s' has no value, and %" PRIu64
            " rows are such; fill them, or leave their pictures out by missing=drop",
            say_row(l, l->empty, where), l->empty_column->name, l->empty_rows);
    }
    return stk__fail_at(l->err, STK_ENOENT, STK_STAGE_DATASET, l->table.name, STK_NO_OFFSET,
                        "images: %" PRIu64 " of %" PRIu64
                        " pictures are not in %.100s%s%s, and %" PRIu64
                        " of its rows have no picture%s%s; missing=drop leaves both out",
                        lonely, l->pictures->num_files, l->table.name, lonely ? ", as " : "",
                        pictures, l->lonely_rows, l->lonely_rows ? ", as " : "", rows);
}

/* ---- Labels of pictures ---------------------------------------------------------------------- */

/* Those that have a label, in their order. */
static stk_status pick(const labelling *l, uint32_t **picks)
{
    uint64_t n = 0;

    if (l->tied == l->pictures->num_files)
        return STK_OK;
    *picks = stk__alloc(l->pictures->context, l->tied * sizeof **picks);
    if (!*picks)
        return no_memory(l);
    for (uint64_t i = 0; i < l->pictures->num_files; i++)
        if (l->row_of[i] != NONE)
            (*picks)[n++] = (uint32_t)i;
    return STK_OK;
}

static stk_status settle(labelling *l, uint32_t **picks, uint64_t *num)
{
    stk__images_labels *out = l->values.out;

    *num = l->tied;
    if (!l->tied)
        return nothing_fits(l);
    out->pictures_left = l->pictures->num_files - l->tied;
    out->rows_left = l->lonely_rows + l->empty_rows;
    if (!l->options->missing && (out->pictures_left || out->rows_left))
        return refuse_missing(l);
    STK_TRY(pick(l, picks));
    return stk__label_values_settle(&l->values, *picks, *num);
}

static stk_status read_labels(labelling *l, uint32_t **picks, uint64_t *num)
{
    STK_TRY(stk__labels_table_open(l->pictures->context, l->url, l->options, &l->table, l->err));
    STK_TRY(stk__label_values_choose(&l->values));
    STK_TRY(take_rows(l));
    return settle(l, picks, num);
}

stk_status stk__images_read_labels(const char *url, const stk__images_labels_options *options,
                                   const stk__images_table *pictures, stk__images_labels *out,
                                   uint32_t **picks, uint64_t *num_picks, stk_error *err)
{
    stk_context *ctx = pictures->context;
    labelling l = {
        .options = options, .url = url, .pictures = pictures, .err = err, .names.by_name = true};

    *picks = NULL;
    *num_picks = 0;
    out->names.context = ctx;
    l.values = (stk__label_values){.context = ctx,
                                   .table = &l.table,
                                   .taken = &l.taken,
                                   .separated = options->separator,
                                   .type = options->type,
                                   .pictures = pictures->num_files,
                                   .out = out,
                                   .err = err,
                                   .whole = true,
                                   .flags = true};
    const stk_status status = read_labels(&l, picks, num_picks);
    stk__taken_close(&l.taken);
    stk__labels_table_close(&l.table);
    stk__images_finder_release(&l.paths);
    stk__images_finder_release(&l.names);
    stk__label_values_release(&l.values);
    stk__free(ctx, l.row_of);
    return status;
}

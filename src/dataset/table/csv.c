/* SPDX-License-Identifier: Apache-2.0 */
/* csv: and tsv: tables of lines of cells. */
#include "dataset/table/csv.h"

#include "dataset/table/csv_marks.h"
#include "dataset/table/formats.h"

#define AT(member) offsetof(stk__csv_options, member)
#define OPTIONS(delimiter_)                                                                        \
    STK__TABLE_OPTIONS,                                                                            \
        {.name = "delimiter",                                                                      \
         .type = STK_OPTION_STRING,                                                                \
         .offset = AT(delimiter),                                                                  \
         .initial = delimiter_,                                                                    \
         .metavar = "auto|tab|,|;",                                                                \
         .doc =                                                                                    \
             "What parts the cells of a line; auto: that of , ; tab and | which gives the first "  \
             "lines the same number of cells, more than one."},                                    \
        {.name = "header",                                                                         \
         .type = STK_OPTION_ENUM,                                                                  \
         .offset = AT(header),                                                                     \
         .initial = "auto",                                                                        \
         .choices = "auto|true|false",                                                             \
         .doc =                                                                                    \
             "Whether the first line has the names of the columns; auto: it does where none of "   \
             "its cells is empty or a number. Without one they are c0, c1, ..."},                  \
        {.name = "types",                                                                          \
         .type = STK_OPTION_STRING,                                                                \
         .offset = AT(types),                                                                      \
         .metavar = "COLUMN:TYPE,...",                                                             \
         .doc = "Types of columns in place of what is learnt: bool, int8 to uint64, float32, "     \
                "float64, text, bytes."},                                                          \
        {.name = "learn",                                                                          \
         .type = STK_OPTION_UINT,                                                                  \
         .offset = AT(learn),                                                                      \
         .initial = "1000",                                                                        \
         .min = 1,                                                                                 \
         .max = 1e6,                                                                               \
         .metavar = "N",                                                                           \
         .doc = "Lines of the first file that types are learnt from, within its first MiB."},      \
    {                                                                                              \
        .name = "text", .type = STK_OPTION_ENUM, .offset = AT(text), .initial = "strict",          \
        .choices = "strict|bytes",                                                                 \
        .doc = "What becomes of text that is not UTF-8: the sample is bad, or it stays as it is."  \
    }

static const stk_option csv_options[] = {OPTIONS("auto")};
static const stk_option tsv_options[] = {OPTIONS("tab")};
static const stk_option_table csv_table = {"csv", "Tables of lines of cells with commas.",
                                           sizeof(stk__csv_options), csv_options,
                                           STK_COUNT(csv_options)};
static const stk_option_table tsv_table = {"tsv", "Tables of lines of cells with tabs.",
                                           sizeof(stk__csv_options), tsv_options,
                                           STK_COUNT(tsv_options)};

/* ---- Cells ----------------------------------------------------------------------------------- */

/* Behind a cell: a delimiter, the end of the line, or what should not be there. */
static stk__csv_end end_of(const char **at, const char *end, char delimiter)
{
    const char *p = *at;

    if (p == end)
        return STK__CSV_LINE;
    if (*p == delimiter) {
        *at = p + 1;
        return STK__CSV_CELL;
    }
    if (*p == '\n') {
        *at = p + 1;
        return STK__CSV_LINE;
    }
    if (*p != '\r')
        return STK__CSV_BEHIND;
    if (p + 1 < end && p[1] != '\n')
        return STK__CSV_RETURN;
    *at = p + 1 + (p + 1 < end);
    return STK__CSV_LINE;
}

stk__csv_end stk__csv_next(const char **at, const char *end, char delimiter, stk__csv_cell *cell)
{
    const char *p = *at;

    *cell = (stk__csv_cell){.text = p};
    if (p == end || *p != '"') {
        while (p < end && *p != delimiter && *p != '\n' && *p != '\r')
            p++;
        cell->length = (size_t)(p - *at);
        *at = p;
        return end_of(at, end, delimiter);
    }
    cell->quoted = true;
    cell->text = ++p;
    for (;;) {
        p = p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;
        if (!p)
            return STK__CSV_OPEN;
        if (p + 1 == end || p[1] != '"')
            break;
        cell->doubled = true;
        p += 2;
    }
    cell->length = (size_t)(p - cell->text);
    *at = p + 1;
    return end_of(at, end, delimiter);
}

uint64_t stk__csv_skip_empty(const char **at, const char *end)
{
    const char *p = *at;
    uint64_t lines = 0;

    for (; p < end; lines++) {
        if (*p == '\n')
            p++;
        else if (*p == '\r' && p + 1 < end && p[1] == '\n')
            p += 2;
        else if (*p == '\r' && p + 1 == end)
            p++;
        else
            break;
    }
    *at = p;
    return lines;
}

stk__csv_marks_fn *stk__csv_marks_of(const stk_context *ctx)
{
#if defined(STK_WITH_AVX2)
    if (stk__cpu_has_avx2(ctx))
        return stk__csv_marks_avx2;
#endif
    (void)ctx;
    return stk__csv_marks_c;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static int csv_recognise(stk_context *ctx, const char *url)
{
    (void)ctx;
    return stk__table_recognise(&stk__table_csv, url);
}

static int tsv_recognise(stk_context *ctx, const char *url)
{
    (void)ctx;
    return stk__table_recognise(&stk__table_tsv, url);
}

static stk_status csv_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err);
static stk_status tsv_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err);

const stk_dataset_ops stk__dataset_csv = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "csv",
    .doc = "Tables of lines of cells with commas: one file, several, or a folder.",
    .options = &csv_table,
    .open = csv_open,
    .recognise = csv_recognise,
    .close = stk__table_close,
    .locate = stk__table_locate,
    .object = stk__table_object,
    .prepare = stk__table_prepare,
    .prepare_rows = stk__table_prepare_rows,
    .describe = stk__table_describe,
    .decode = stk__table_decode,
};

const stk_dataset_ops stk__dataset_tsv = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "tsv",
    .doc = "Tables of lines of cells with tabs: one file, several, or a folder.",
    .options = &tsv_table,
    .open = tsv_open,
    .recognise = tsv_recognise,
    .close = stk__table_close,
    .locate = stk__table_locate,
    .object = stk__table_object,
    .prepare = stk__table_prepare,
    .prepare_rows = stk__table_prepare_rows,
    .describe = stk__table_describe,
    .decode = stk__table_decode,
};

static const char *const reasons[] = {
    "is no integer of its type; give the column another one by types=COLUMN:TYPE",
    "is no number; give the column another type by types=COLUMN:TYPE",
    "is neither true nor false; give the column another type by types=COLUMN:TYPE",
    "is not UTF-8; read it as it is by text=bytes",
};
static const char *const csv_suffixes[] = {".csv", NULL};
static const char *const tsv_suffixes[] = {".tsv", ".tab", NULL};

const stk__table_format stk__table_csv = {.ops = &stk__dataset_csv,
                                          .suffixes = csv_suffixes,
                                          .scan = stk__csv_scan,
                                          .decode = stk__csv_decode,
                                          .reasons = reasons,
                                          .num_reasons = STK_COUNT(reasons)};
const stk__table_format stk__table_tsv = {.ops = &stk__dataset_tsv,
                                          .suffixes = tsv_suffixes,
                                          .scan = stk__csv_scan,
                                          .decode = stk__csv_decode,
                                          .reasons = reasons,
                                          .num_reasons = STK_COUNT(reasons)};

static stk_status csv_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    return stk__table_open(ctx, url, &stk__table_csv, options, out, err);
}

static stk_status tsv_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    return stk__table_open(ctx, url, &stk__table_tsv, options, out, err);
}

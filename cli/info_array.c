/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrays and groups are, for `stoker info`: shapes, chunks, codecs, what is in the store,
 * and statistics of the values. These are kept next to the array; where that cannot be written, in
 * the user's cache.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/chunks.h>

#include "info.h"
#include "object_stores.h"
#include "table.h"

#define MOST_LISTED STK_CHUNKS_LISTED /* objects */
#define TIMES       112               /* bytes of a range of dates */

/* One array, and what was found out of it. */
struct found {
    char *path; /* below the group; "" of an array alone */
    bool is_array;
    stk_array *array; /* NULL: it cannot be opened, see `problem` */
    char *problem;
    bool counted, has_stats;
    stk_array_stored stored;
    stk_array_stats stats;
};

struct survey {
    struct cli *cli;
    const char *url;
    stk_group *group; /* NULL: an array alone */
    struct found *found;
    size_t count;
    bool make_stats, show_stats;
};

const char *cli_array_url(const char *spec)
{
    return strncmp(spec, "array:", 6) == 0 ? spec + 6 : spec;
}

bool cli_array_stored(stk_array *array, bool all, stk_array_stored *out)
{
    *out = (stk_array_stored){.struct_size = sizeof *out};
    return (all || stk_array_get_info(array)->num_objects <= MOST_LISTED) &&
           stk_array_stored_count(array, out, NULL) == STK_OK;
}

/* ---- Finding out ----------------------------------------------------------------------------- */

/* Statistics: kept ones, or new ones, which are kept. A failure other than "none" is reported. */
static stk_status find_stats(const struct survey *survey, struct found *f, stk_error *err)
{
    char folder[PATH_MAX];
    bool has_folder = cli_cache_folder(cli_home_folder(), folder, sizeof folder);

    f->stats.struct_size = sizeof f->stats;
    if (!survey->make_stats) {
        f->has_stats =
            survey->show_stats &&
            (stk_array_stats_load(f->array, NULL, &f->stats, NULL) == STK_OK ||
             (has_folder && stk_array_stats_load(f->array, folder, &f->stats, NULL) == STK_OK));
        return STK_OK;
    }
    stk_status status = stk_array_stats_compute(f->array, cli_is_interrupted, NULL, &f->stats, err);
    if (status == STK_EKIND) /* texts and bytes have none */
        return STK_OK;
    if (status != STK_OK)
        return status;
    f->has_stats = true;
    if (stk_array_stats_save(f->array, NULL, &f->stats, NULL) != STK_OK &&
        (!has_folder || stk_array_stats_save(f->array, folder, &f->stats, err) != STK_OK))
        cli_warning("the statistics of '%s' cannot be kept: %s", *f->path ? f->path : survey->url,
                    has_folder ? err->text : "its store cannot be written and there is no HOME");
    return STK_OK;
}

static stk_status look_at(const struct survey *survey, struct found *f, stk_error *err)
{
    f->counted = cli_array_stored(f->array, survey->make_stats, &f->stored);
    return find_stats(survey, f, err);
}

static struct found *add_found(struct survey *survey, const char *path)
{
    struct found *grown = realloc(survey->found, (survey->count + 1) * sizeof *grown);

    if (!grown)
        return NULL;
    survey->found = grown;
    struct found *f = &grown[survey->count];
    *f = (struct found){.path = strdup(path)};
    survey->count += f->path != NULL;
    return f->path ? f : NULL;
}

static int find_nodes(struct survey *survey)
{
    const stk_node *node;
    stk_error err;

    for (size_t i = 0; (node = stk_group_node(survey->group, i)); i++) {
        struct found *f = add_found(survey, node->path);
        if (!f) {
            cli_error("no memory for the nodes of %s", survey->url);
            return CLI_FAILED;
        }
        f->is_array = node->is_array;
        if (!node->is_array)
            continue;
        stk_status status = stk_group_array(survey->group, node->path, NULL, &f->array, &err);
        if (status == STK_OK)
            status = look_at(survey, f, &err);
        if (status == STK_ECANCELED)
            return cli_fail(survey->cli, status, &err);
        if (status != STK_OK)
            f->problem = strdup(err.text);
    }
    return CLI_GO_ON;
}

static void release(struct survey *survey)
{
    for (size_t i = 0; i < survey->count; i++) {
        free(survey->found[i].path);
        free(survey->found[i].problem);
        stk_array_close(&survey->found[i].array);
    }
    free(survey->found);
    stk_group_close(&survey->group);
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void shape_text(char text[CLI_TABLE_CELL], const int64_t *shape, uint32_t rank)
{
    size_t at = 0;

    snprintf(text, CLI_TABLE_CELL, "%s", rank ? "" : "scalar");
    for (uint32_t d = 0; d < rank && at < CLI_TABLE_CELL; d++)
        at +=
            (size_t)snprintf(text + at, CLI_TABLE_CELL - at, "%s%" PRId64, d ? "x" : "", shape[d]);
}

static void names_text(char text[CLI_TABLE_CELL], const stk_array_info *info)
{
    size_t at = 0;

    snprintf(text, CLI_TABLE_CELL, "-");
    for (uint32_t d = 0; d < info->rank && info->dimension_names && at < CLI_TABLE_CELL; d++)
        at += (size_t)snprintf(text + at, CLI_TABLE_CELL - at, "%s%s", d ? "," : "",
                               info->dimension_names[d] ? info->dimension_names[d] : "-");
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

/* Bytes of the values in stored chunks / stored bytes: chunks that are absent take no part. Of
 * values of varying length nobody knows. */
static double ratio_of(const struct found *f)
{
    return f->stored.bytes && stk_array_get_info(f->array)->itemsize
               ? (double)f->stored.values / (double)f->stored.bytes
               : NAN;
}

static void number_text(char text[CLI_TABLE_CELL], double value, int digits)
{
    if (isnan(value))
        snprintf(text, CLI_TABLE_CELL, "-");
    else
        snprintf(text, CLI_TABLE_CELL, "%.*g", digits, value);
}

static void stats_row(struct cli_table_row *row, size_t c, const stk_array_stats *s, int digits)
{
    const double values[] = {s->mean, s->std, s->min, s->max};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        number_text(row->cells[c++], values[i], digits);
    if (isnan(info_left_out(s)))
        snprintf(row->cells[c], CLI_TABLE_CELL, "-");
    else
        snprintf(row->cells[c], CLI_TABLE_CELL, "%.3g %%", 100 * info_left_out(s));
}

/* Indented below the groups it is in, which have rows of their own. */
static void tree_name(char text[CLI_TABLE_CELL], const char *path)
{
    const char *name = path;
    int level = 0;

    for (const char *p = path; *p; p++)
        if (*p == '/') {
            name = p + 1;
            level++;
        }
    snprintf(text, CLI_TABLE_CELL, "%*s%.40s", 2 * (level < 10 ? level : 10), "", name);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

static void array_row(struct cli_table_row *row, const struct found *f, bool stats)
{
    const stk_array_info *info = stk_array_get_info(f->array);
    size_t c = 1;

    snprintf(row->cells[c++], CLI_TABLE_CELL, "%s", info->type_name);
    names_text(row->cells[c++], info);
    shape_text(row->cells[c++], info->shape, info->rank);
    shape_text(row->cells[c++], info->chunk_shape, info->rank);
    if (memcmp(info->shard_shape, info->chunk_shape, info->rank * sizeof *info->chunk_shape) == 0)
        snprintf(row->cells[c++], CLI_TABLE_CELL, "-");
    else
        shape_text(row->cells[c++], info->shard_shape, info->rank);
    snprintf(row->cells[c++], CLI_TABLE_CELL, "%s", info->codecs);
    if (info->itemsize)
        stk_size_text((double)info->bytes, row->cells[c++]);
    else
        snprintf(row->cells[c++], CLI_TABLE_CELL, "-");
    if (f->counted) {
        stk_size_text((double)f->stored.bytes, row->cells[c++]);
        if (isnan(ratio_of(f)))
            snprintf(row->cells[c++], CLI_TABLE_CELL, "-");
        else
            snprintf(row->cells[c++], CLI_TABLE_CELL, "%.3g", ratio_of(f));
    } else {
        c += 2;
    }
    if (stats && f->has_stats)
        stats_row(row, c, &f->stats, 6);
}

static bool any_stats(const struct survey *survey)
{
    for (size_t i = 0; i < survey->count; i++)
        if (survey->found[i].has_stats)
            return true;
    return false;
}

static void keep_times(void *user, const char *name, const char *value)
{
    if (strcmp(name, "times") == 0)
        snprintf(user, TIMES, "%s", value);
}

/* "1979-01-01T00:00:00 to 2021-12-31T18:00:00" of a list of times; else "". */
static const char *times_of(const struct found *f, char text[TIMES])
{
    text[0] = 0;
    if (f->array && stk_array_get_info(f->array)->rank == 1 &&
        stk_array_describe(f->array, keep_times, text, NULL) != STK_OK)
        text[0] = 0;
    return text;
}

static void print_times(const struct survey *survey, FILE *out)
{
    char text[TIMES];

    for (size_t i = 0; i < survey->count; i++)
        if (*times_of(&survey->found[i], text))
            fprintf(out, "%s: %s\n", survey->found[i].path, text);
}

static void print_group(const struct survey *survey, FILE *out)
{
    static const char *const heads[] = {"",       "dtype",  "dimensions", "shape",  "chunks",
                                        "shards", "codecs", "values",     "stored", "ratio"};
    static const char *const figures[] = {"mean", "std", "min", "max", "NaN"};
    struct cli_table table = {0};
    bool stats = any_stats(survey);

    fprintf(out, "group:      %s\nmetadata:   %s\nattributes: %s\n\n", survey->url,
            stk_group_is_consolidated(survey->group) ? "consolidated" : "listed, not consolidated",
            stk_group_attributes(survey->group));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i], "");
    for (size_t i = 0; i < sizeof figures / sizeof *figures && stats; i++)
        cli_table_column(&table, figures[i], "");
    for (size_t i = 0; i < survey->count; i++) {
        const struct found *f = &survey->found[i];
        struct cli_table_row *row = cli_table_row(&table);
        if (!row)
            break;
        tree_name(row->cells[0], f->path);
        if (f->problem)
            snprintf(row->note, sizeof row->note, "%s", f->problem);
        else if (!f->is_array)
            snprintf(row->note, sizeof row->note, "group");
        else
            array_row(row, f, stats);
    }
    cli_table_print(&table, cli_terminal_width(out), out);
    cli_table_free(&table);
    print_times(survey, out);
}

static stk_status array_lines(const struct found *f, struct lines *lines, stk_error *err)
{
    char text[160];

    stk_status status = stk_array_describe(f->array, lines_add, lines, err);
    if (status == STK_OK && f->counted) {
        int at = snprintf(text, sizeof text, "%" PRIu64 " bytes in %" PRIu64 " object%s",
                          f->stored.bytes, f->stored.objects, f->stored.objects == 1 ? "" : "s");
        if (!isnan(ratio_of(f)))
            snprintf(text + at, sizeof text - (size_t)at, ", ratio %.3g", ratio_of(f));
        lines_add(lines, "stored", text);
    } else if (status == STK_OK) {
        snprintf(text, sizeof text, "not counted; there may be %" PRIu64 " objects (--stats all)",
                 stk_array_get_info(f->array)->num_objects);
        lines_add(lines, "stored", text);
    }
    if (status == STK_OK)
        info_window_line(f->array, lines);
    if (f->has_stats)
        info_stats_lines(&f->stats, lines);
    return status;
}

static void json_shape(const char *name, const int64_t *shape, uint32_t rank, FILE *out)
{
    fprintf(out, ", \"%s\": [", name);
    for (uint32_t d = 0; d < rank; d++)
        fprintf(out, "%s%" PRId64, d ? ", " : "", shape[d]);
    fputc(']', out);
}

/* A JSON text as it is, but for the words that Python writes and JSON does not know: null. */
static void json_attributes(const char *text, FILE *out)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    bool quoted = false;

    while (*text) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof words / sizeof *words && !quoted && !skip; i++)
            if (strncmp(text, words[i], strlen(words[i])) == 0)
                skip = strlen(words[i]);
        if (skip) {
            fputs("null", out);
            text += skip;
            continue;
        }
        if (quoted && *text == '\\' && text[1])
            fputc(*text++, out);
        else if (*text == '"')
            quoted = !quoted;
        fputc(*text++, out);
    }
}

static void json_array(const struct found *f, FILE *out)
{
    const stk_array_info *info = stk_array_get_info(f->array);
    char text[2048];

    fprintf(out, ", \"format\": \"%s\", \"dtype\": \"%s\"", info->format, info->type_name);
    json_shape("shape", info->shape, info->rank, out);
    json_shape("chunks", info->chunk_shape, info->rank, out);
    json_shape("shards", info->shard_shape, info->rank, out);
    fputs(", \"dimensions\": [", out);
    for (uint32_t d = 0; d < info->rank && info->dimension_names; d++) {
        fputs(d ? ", " : "", out);
        if (info->dimension_names[d])
            cli_json_string(out, info->dimension_names[d]);
        else
            fputs("null", out);
    }
    fputs("], \"codecs\": ", out);
    cli_json_string(out, info->codecs);
    if (info->fill_value &&
        stk_array_value_text(f->array, info->fill_value, text, sizeof text) < sizeof text)
        fprintf(out, ", \"fill_value\": %s", text);
    fprintf(out, ", \"bytes\": %" PRIu64, info->bytes);
    if (f->counted) {
        fprintf(out, ", \"stored_objects\": %" PRIu64 ", \"stored_bytes\": %" PRIu64,
                f->stored.objects, f->stored.bytes);
        cli_json_member_number(out, "ratio", ratio_of(f));
    }
    if (*times_of(f, text))
        cli_json_member_text(out, "times", text);
    fputs(", \"attributes\": ", out);
    json_attributes(info->attributes, out);
    if (f->has_stats)
        info_stats_json(&f->stats, out);
}

static void print_json_survey(const struct survey *survey, FILE *out)
{
    fputs("{\"spec\": ", out);
    cli_json_string(out, survey->url);
    if (!survey->group) {
        json_array(&survey->found[0], out);
        fputs("}\n", out);
        return;
    }
    fprintf(out, ", \"consolidated\": %s, \"attributes\": ",
            stk_group_is_consolidated(survey->group) ? "true" : "false");
    json_attributes(stk_group_attributes(survey->group), out);
    fputs(", \"nodes\": [", out);
    for (size_t i = 0; i < survey->count; i++) {
        const struct found *f = &survey->found[i];
        fputs(i ? ",\n  {\"path\": " : "\n  {\"path\": ", out);
        cli_json_string(out, f->path);
        fprintf(out, ", \"type\": \"%s\"", f->is_array ? "array" : "group");
        if (f->problem) {
            cli_json_member_text(out, "problem", f->problem);
        } else if (f->is_array) {
            json_array(f, out);
        }
        fputc('}', out);
    }
    fputs("]}\n", out);
}

/* Every array a row, as the table has it. */
static void print_csv_group(const struct survey *survey, FILE *out)
{
    struct cli_table_row row;

    fputs("path,dtype,dimensions,shape,chunks,shards,codecs,bytes,stored_bytes,ratio,mean,std,min,"
          "max,nan_"
          "share,problem\n",
          out);
    for (size_t i = 0; i < survey->count; i++) {
        const struct found *f = &survey->found[i];
        if (!f->is_array)
            continue;
        memset(&row, 0, sizeof row);
        if (f->array) {
            array_row(&row, f, false);
            snprintf(row.cells[7], CLI_TABLE_CELL, "%" PRIu64, stk_array_get_info(f->array)->bytes);
            if (f->counted)
                snprintf(row.cells[8], CLI_TABLE_CELL, "%" PRIu64, f->stored.bytes);
        }
        if (f->has_stats) {
            stats_row(&row, 10, &f->stats, 17);
            snprintf(row.cells[14], CLI_TABLE_CELL, "%.9g", info_left_out(&f->stats));
        }
        cli_csv_string(out, f->path);
        for (size_t c = 1; c < 15; c++) {
            fputc(',', out);
            cli_csv_string(out, strcmp(row.cells[c], "-") ? row.cells[c] : "");
        }
        fputc(',', out);
        cli_csv_string(out, f->problem ? f->problem : "");
        fputc('\n', out);
    }
}

static int print_array(const struct survey *survey, struct cli *cli)
{
    struct lines lines = {0};
    stk_error err;

    stk_status status = array_lines(&survey->found[0], &lines, &err);
    int code = status == STK_OK ? CLI_GOOD : cli_fail(cli, status, &err);
    if (lines.failed) {
        cli_error("no memory for the description of %s", survey->url);
        code = CLI_FAILED;
    }
    if (code == CLI_GOOD)
        lines_print(&lines, cli->format, cli->out);
    lines_free(&lines);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* A group, or an array by itself. */
static int open_survey(struct survey *survey, stk_context *context)
{
    stk_error err;

    stk_status status = stk_group_open(context, survey->url, &survey->group, &err);
    if (status == STK_OK)
        return find_nodes(survey);
    /* What is no group may be an array; what cannot be read is neither. */
    if (status != STK_EMISMATCH && status != STK_ENOENT && status != STK_EINVAL)
        return cli_fail(survey->cli, status, &err);
    struct found *f = add_found(survey, "");
    if (!f) {
        cli_error("no memory to describe %s", survey->url);
        return CLI_FAILED;
    }
    f->is_array = true;
    status = stk_array_open(context, survey->url, NULL, &f->array, &err);
    if (status == STK_OK)
        status = look_at(survey, f, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(survey->cli, status, &err);
}

int info_array(struct cli *cli, stk_context *context, const char *spec)
{
    struct survey survey = {.cli = cli, .url = cli_array_url(spec)};

    int code = info_array_stats(cli, &survey.make_stats, &survey.show_stats);
    if (code != CLI_GO_ON)
        return code;
    cli_signals_install();
    code = open_survey(&survey, context);
    cli_console_clear();
    if (code == CLI_GO_ON) {
        code = CLI_GOOD;
        if (cli->format == CLI_JSON)
            print_json_survey(&survey, cli->out);
        else if (!survey.group)
            code = print_array(&survey, cli);
        else if (cli->format == CLI_CSV)
            print_csv_group(&survey, cli->out);
        else
            print_group(&survey, cli->out);
    }
    release(&survey);
    return code;
}

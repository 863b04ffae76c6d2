/* SPDX-License-Identifier: Apache-2.0 */
/* stoker info: what a dataset is; without one, what there is to be opened. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- One dataset ----------------------------------------------------------------------------- */

/* Lines of "name: value", kept until all are there, so that they can be aligned. */
struct lines {
    struct line {
        char *name, *value;
    } * line;
    size_t count, capacity;
    bool failed; /* no memory */
};

static void add_line(void *user, const char *name, const char *value)
{
    struct lines *lines = user;

    if (lines->count == lines->capacity) {
        size_t capacity = lines->capacity ? 2 * lines->capacity : 32;
        struct line *grown = realloc(lines->line, capacity * sizeof *grown);
        if (!grown) {
            lines->failed = true;
            return;
        }
        lines->line = grown;
        lines->capacity = capacity;
    }
    struct line *line = &lines->line[lines->count];
    line->name = strdup(name);
    line->value = strdup(value);
    lines->count++;
    lines->failed |= !line->name || !line->value;
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->line[i].name);
        free(lines->line[i].value);
    }
    free(lines->line);
}

/* Text for a terminal: names of classes and files may hold anything. */
static void print_plain(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

static void print_lines(const struct lines *lines, enum cli_format format, FILE *out)
{
    int width = 0;

    for (size_t i = 0; i < lines->count; i++) {
        int length = (int)strlen(lines->line[i].name);
        width = length > width && length < 40 ? length : width;
    }
    if (format == CLI_CSV)
        fputs("name,value\n", out);
    for (size_t i = 0; i < lines->count; i++) {
        const struct line *line = &lines->line[i];
        if (format == CLI_CSV) {
            cli_csv_string(out, line->name);
            fputc(',', out);
            cli_csv_string(out, line->value);
        } else {
            print_plain(out, line->name);
            fprintf(out, ":%*s ",
                    width > (int)strlen(line->name) ? width - (int)strlen(line->name) : 0, "");
            print_plain(out, line->value);
        }
        fputc('\n', out);
    }
}

static void print_json_field(const stk_field *field, FILE *out)
{
    static const char *const layouts[] = {"fixed", "ragged", "bytes"};

    fputs("{\"name\": ", out);
    cli_json_string(out, field->name);
    fprintf(out, ", \"dtype\": \"%s\", \"layout\": \"%s\", \"shape\": [",
            stk_dtype_name(field->dtype), layouts[field->layout]);
    for (uint32_t i = 0; i < field->rank; i++)
        fprintf(out, "%s%" PRId64, i ? ", " : "", field->shape[i]);
    fputs("], \"codec\": ", out);
    cli_json_string(out, field->codec);
    fprintf(out, ", \"picture\": %s}", field->picture ? "true" : "false");
}

/* Whether a line of the same name follows: only the last one can be a member of the object. */
static bool comes_again(const struct lines *lines, size_t i)
{
    for (size_t k = i + 1; k < lines->count; k++)
        if (strcmp(lines->line[k].name, lines->line[i].name) == 0)
            return true;
    return false;
}

static void print_json(const char *spec, const stk_dataset *dataset, const struct lines *lines,
                       FILE *out)
{
    const char *part = "";

    fputs("{\n  \"spec\": ", out);
    cli_json_string(out, spec);
    fprintf(out,
            ",\n  \"size\": %" PRIu64 ",\n  \"fingerprint\": \"%016" PRIx64
            "\",\n  \"block_size\": %" PRIu64,
            dataset->size, dataset->fingerprint, dataset->block_size);
    fputs(",\n  \"fields\": [", out);
    for (uint32_t i = 0; i < dataset->num_fields; i++) {
        fputs(i ? ",\n             " : "", out);
        print_json_field(&dataset->fields[i], out);
    }
    fputs("],\n  \"classes\": [", out);
    for (uint32_t i = 0; dataset->classes && i < dataset->num_classes; i++) {
        fputs(i ? ", " : "", out);
        cli_json_string(out, dataset->classes[i]);
    }
    fputs("],\n  \"description\": {", out);
    for (size_t i = 0; i < lines->count; i++) {
        if (comes_again(lines, i))
            continue;
        fprintf(out, "%s\n    ", part);
        cli_json_string(out, lines->line[i].name);
        fputs(": ", out);
        cli_json_string(out, lines->line[i].value);
        part = ",";
    }
    fputs("\n  }\n}\n", out);
}

static int describe(struct cli *cli, stk_context *context, const char *spec)
{
    struct lines lines = {0};
    stk_dataset *dataset = NULL;
    int code = CLI_GOOD;
    stk_error err;

    stk_status status = stk_dataset_open(context, spec, &dataset, &err);
    if (status == STK_OK)
        status = stk_dataset_describe(dataset, add_line, &lines, &err);
    if (status != STK_OK) {
        code = cli_fail(cli, status, &err);
    } else if (lines.failed) {
        cli_error("no memory for the description of %s", spec);
        code = CLI_FAILED;
    } else if (cli->format == CLI_JSON) {
        print_json(spec, dataset, &lines, cli->out);
    } else {
        print_lines(&lines, cli->format, cli->out);
    }
    stk_dataset_close(&dataset);
    free_lines(&lines);
    return code;
}

/* ---- What there is --------------------------------------------------------------------------- */

/* A kind of thing, as the lists show it. */
struct kind {
    const char *group, *name, *doc;
    const stk_option_table *options;
};

static bool kind_at(const stk_context *context, bool transforms, size_t i, struct kind *out)
{
    if (transforms) {
        const stk_transform_ops *ops = stk_transform_kind(context, i);
        *out = (struct kind){"transform", ops ? ops->name : NULL, ops ? ops->doc : NULL,
                             ops ? ops->options : NULL};
    } else {
        const stk_dataset_ops *ops = stk_dataset_kind(context, i);
        *out = (struct kind){"dataset", ops ? ops->name : NULL, ops ? ops->doc : NULL,
                             ops ? ops->options : NULL};
    }
    return out->name != NULL;
}

/* The options of a kind in the notation of a spec ("name=DEFAULT"), below its line. */
static void list_options(const stk_option_table *table, FILE *out)
{
    for (size_t i = 0; table && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        fprintf(out, "      %s=%-*s %s\n", option->name,
                20 - (int)strlen(option->name) > 0 ? 20 - (int)strlen(option->name) : 1,
                option->initial ? option->initial : "", option->doc);
    }
}

static void list_table(const stk_context *context, FILE *out)
{
    struct kind kind;

    fputs("Datasets, as 'NAME:PATH?option=value&option=value':\n", out);
    for (size_t i = 0; kind_at(context, false, i, &kind); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s:", kind.name);
        fprintf(out, "  %-12s %s\n", name, kind.doc ? kind.doc : "");
        list_options(kind.options, out);
    }
    fputs("  any dataset  also takes indices=FILE, subset=A:B, random_split=0.8,0.2, part=N and "
          "split_seed=N.\n"
          "\nA PATH may be a URL: file:///DIR, mem://NAME, or slow+file:///DIR?latency=5ms for "
          "trials.\n",
          out);
    fputs("\nTransforms, as 'NAME(value, option=value), NAME':\n", out);
    for (size_t i = 0; kind_at(context, true, i, &kind); i++) {
        fprintf(out, "  %-16s %s\n", kind.name, kind.doc ? kind.doc : "");
        list_options(kind.options, out);
    }
    fputs("\n'stoker info SPEC' describes one dataset.\n", out);
}

static void list_json_options(const stk_option_table *table, FILE *out)
{
    fputs("[", out);
    for (size_t i = 0; table && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        fputs(i ? ", {\"name\": " : "{\"name\": ", out);
        cli_json_string(out, option->name);
        fputs(", \"default\": ", out);
        if (option->initial)
            cli_json_string(out, option->initial);
        else
            fputs("null", out);
        fputs(", \"doc\": ", out);
        cli_json_string(out, option->doc);
        fputs("}", out);
    }
    fputs("]", out);
}

static void list_json(const stk_context *context, FILE *out)
{
    struct kind kind;

    for (int transforms = 0; transforms < 2; transforms++) {
        fprintf(out, "%s\"%s\": [", transforms ? ",\n " : "{",
                transforms ? "transforms" : "datasets");
        for (size_t i = 0; kind_at(context, transforms, i, &kind); i++) {
            fputs(i ? ",\n  {\"name\": " : "\n  {\"name\": ", out);
            cli_json_string(out, kind.name);
            fputs(", \"doc\": ", out);
            cli_json_string(out, kind.doc ? kind.doc : "");
            fputs(",\n   \"options\": ", out);
            list_json_options(kind.options, out);
            fputs("}", out);
        }
        fputs("]", out);
    }
    fputs("}\n", out);
}

static void list_csv(const stk_context *context, FILE *out)
{
    struct kind kind;

    fputs("kind,name,option,default,doc\n", out);
    for (int transforms = 0; transforms < 2; transforms++)
        for (size_t i = 0; kind_at(context, transforms, i, &kind); i++) {
            fprintf(out, "%s,%s,,,", kind.group, kind.name);
            cli_csv_string(out, kind.doc ? kind.doc : "");
            fputc('\n', out);
            for (size_t k = 0; kind.options && k < kind.options->count; k++) {
                const stk_option *option = &kind.options->options[k];
                fprintf(out, "%s,%s,%s,", kind.group, kind.name, option->name);
                cli_csv_string(out, option->initial ? option->initial : "");
                fputc(',', out);
                cli_csv_string(out, option->doc);
                fputc('\n', out);
            }
        }
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct cli_usage usage = {
    .name = "info",
    .synopsis = "[SPEC] [options]",
    .about =
        "Describes a dataset: its samples, their fields, where they lie. A SPEC is 'digits:', "
        "'mnist:DIR',\n"
        "'npy:FILE?labels=FILE', ..., or a plain PATH where what lies there is unambiguous.\n"
        "Without a SPEC it lists the kinds of datasets with their options, and the transforms.\n",
    .examples = "  stoker info\n"
                "  stoker info digits:\n"
                "  stoker info 'digits:?subset=0:1000' --format json\n",
    .max_args = 1,
};

int cli_info(struct cli *cli)
{
    stk_context *context;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    if (cli->num_args)
        return describe(cli, context, cli->args[0]);
    if (cli->format == CLI_JSON)
        list_json(context, cli->out);
    else if (cli->format == CLI_CSV)
        list_csv(context, cli->out);
    else
        list_table(context, cli->out);
    return CLI_GOOD;
}

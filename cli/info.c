/* SPDX-License-Identifier: Apache-2.0 */
/* stoker info: what a dataset, an array or a checkpoint is; without one, what there is to be
 * opened. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/checkpoint.h>

#include "info.h"

/* ---- One dataset ----------------------------------------------------------------------------- */

void lines_add(void *user, const char *name, const char *value)
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

void lines_free(struct lines *lines)
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

void lines_print(const struct lines *lines, enum cli_format format, FILE *out)
{
    int width = 0;

    for (size_t i = 0; i < lines->count; i++) {
        int length = (int)cli_text_width(lines->line[i].name);
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
            const int used = (int)cli_text_width(line->name);
            print_plain(out, line->name);
            fprintf(out, ":%*s ", width > used ? width - used : 0, "");
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

void info_lines_json(const struct lines *lines, FILE *out)
{
    const char *part = "";

    for (size_t i = 0; i < lines->count; i++) {
        if (comes_again(lines, i))
            continue;
        fprintf(out, "%s\n    ", part);
        cli_json_string(out, lines->line[i].name);
        fputs(": ", out);
        cli_json_string(out, lines->line[i].value);
        part = ",";
    }
}

static void print_json(const char *spec, const stk_dataset_info *about, const struct lines *lines,
                       const struct info_survey *survey, FILE *out)
{
    fputs("{\n  \"spec\": ", out);
    cli_json_string(out, spec);
    fprintf(out,
            ",\n  \"size\": %" PRIu64 ",\n  \"fingerprint\": \"%016" PRIx64
            "\",\n  \"block_size\": %" PRIu64,
            about->size, about->fingerprint, about->block_size);
    fputs(",\n  \"fields\": [", out);
    for (uint32_t i = 0; i < about->num_fields; i++) {
        fputs(i ? ",\n             " : "", out);
        print_json_field(stk_field_at(about->fields, i), out);
    }
    fputs("],\n  \"classes\": [", out);
    for (uint32_t i = 0; about->classes && i < about->num_classes; i++) {
        fputs(i ? ", " : "", out);
        cli_json_string(out, about->classes[i]);
    }
    fputs("],\n  \"description\": {", out);
    info_lines_json(lines, out);
    fputs("\n  }", out);
    info_survey_json(survey, about, out);
    fputs("\n}\n", out);
}

/* Lines alone, which are released. Exit code. */
static int print_lines(struct cli *cli, struct lines *lines)
{
    if (cli->format == CLI_JSON) {
        fputs("{", cli->out);
        info_lines_json(lines, cli->out);
        fputs("\n}\n", cli->out);
    } else {
        lines_print(lines, cli->format, cli->out);
    }
    lines_free(lines);
    return CLI_GOOD;
}

static int look_for_array(struct cli *cli, stk_context *context, const char *spec, bool *is)
{
    stk_error err;
    const stk_status status = spec ? info_is_array(context, spec, is, &err) : STK_OK;

    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

static int describe(struct cli *cli, stk_context *context, const char *spec)
{
    struct lines lines = {0};
    struct info_survey survey = {0};
    stk_dataset_info about = {.struct_size = sizeof about};
    stk_dataset *dataset = NULL;
    int code = CLI_GO_ON;
    stk_error err;

    const bool contained = info_contained(context, spec, &lines);
    stk_status status = stk_dataset_open(context, spec, &dataset, &err);
    if (contained && status < 0 && stk_status_fault(status) != STK_FAULT_MACHINE) {
        /* What nobody recognises needs no word. */
        if (status != STK_EFORMAT)
            lines_add(&lines, "dataset", err.text);
        return print_lines(cli, &lines);
    }
    if (status == STK_OK)
        status = stk_dataset_describe(dataset, lines_add, &lines, &err);
    if (status == STK_OK) {
        stk_dataset_get_info(dataset, &about);
        code = info_survey(cli, dataset, &about, &survey);
    }
    if (status == STK_OK && code == CLI_GO_ON) {
        info_survey_lines(&survey, &about, &lines);
        code = CLI_GOOD;
    }
    if (status != STK_OK) {
        code = cli_fail(cli, status, &err);
    } else if (code != CLI_GOOD) {
        ; /* told already */
    } else if (lines.failed) {
        cli_error("no memory for the description of %s", spec);
        code = CLI_FAILED;
    } else if (cli->format == CLI_JSON) {
        print_json(spec, &about, &lines, &survey, cli->out);
    } else {
        lines_print(&lines, cli->format, cli->out);
    }
    info_survey_release(&survey);
    stk_dataset_close(&dataset);
    lines_free(&lines);
    return code;
}

/* ---- One checkpoint -------------------------------------------------------------------------- */

static int describe_checkpoint(struct cli *cli, stk_context *context, const char *path)
{
    struct lines lines = {0};
    int code = CLI_GOOD;
    stk_error err;

    stk_status status = stk_checkpoint_describe(context, path, lines_add, &lines, &err);
    if (status != STK_OK) {
        code = cli_fail(cli, status, &err);
    } else if (lines.failed) {
        cli_error("no memory for the description of %s", path);
        code = CLI_FAILED;
    } else if (cli->format == CLI_JSON) {
        fputs("{", cli->out);
        info_lines_json(&lines, cli->out);
        fputs("\n}\n", cli->out);
    } else {
        lines_print(&lines, cli->format, cli->out);
    }
    lines_free(&lines);
    return code;
}

/* ---- What there is --------------------------------------------------------------------------- */

/* What is listed, in this order. */
static const struct group {
    stk_driver_kind kind;
    const char *name, *plural, *title, *below;
} groups[] = {
    {STK_DRIVER_DATASET, "dataset", "datasets",
     "Datasets, as 'NAME:PATH?option=value&option=value':\n",
     "  any dataset  also takes indices=FILE, subset=A:B, random_split=0.8,0.2 or kfold=K with\n"
     "               fold=I, part=N and split_seed=N, repeat=X, balance=label, weights=FILE, "
     "stages=E:X,\n"
     "               keep=FIELDS, drop=FIELDS, rename=OLD:NEW, cast=FIELD:TYPE, class_names=FILE.\n"
     "\nA PATH may be a URL: file:///DIR, mem://NAME, or slow+file:///DIR?latency=5ms for "
     "trials.\n"},
    {STK_DRIVER_TRANSFORM, "transform", "transforms",
     "\nTransforms, as 'NAME(value, option=value), NAME':\n", ""},
    {STK_DRIVER_LAYER, "layer", "layers",
     "\nLayers and known models, as 'NAME(value, option=value), NAME':\n", ""},
    {STK_DRIVER_CALLBACK, "callback", "callbacks",
     "\nCallbacks of a training, as 'NAME(option=value), NAME':\n", ""},
    {STK_DRIVER_LOGGER, "logger", "loggers",
     "\nLoggers of a training, as 'NAME(option=value), NAME':\n", ""},
    {STK_DRIVER_STORE, "store", "stores", "\nStores, as 'NAME://...':\n", ""},
    {STK_DRIVER_ARRAY, "array", "arrays",
     "\nFormats of arrays, as 'array:URL?format=NAME&option=value':\n", ""},
    {STK_DRIVER_CONVERTER, "converter", "converters",
     "\nConverters, as 'stoker convert SRC NAME:PATH?option=value':\n", ""},
    {STK_DRIVER_DEVICE, "device", "devices", "\nDevices:\n", ""},
};

#define NUM_GROUPS (sizeof groups / sizeof *groups)

/* The name of the plug-in that brought a driver; NULL: it is built in. */
static const char *brought_by(const stk_context *context, const stk_driver_head *driver)
{
    const stk_plugin *plugin;

    for (size_t i = 0; (plugin = stk_plugin_at(context, i)); i++)
        for (size_t k = 0; k < plugin->num_drivers; k++)
            if (plugin->drivers[k].table == driver)
                return plugin->name;
    return NULL;
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
    const stk_driver_head *driver;

    for (size_t g = 0; g < NUM_GROUPS; g++) {
        const struct group *group = &groups[g];
        const bool spec = group->kind == STK_DRIVER_DATASET;
        fputs(group->title, out);
        for (size_t i = 0; (driver = stk_driver_at(context, group->kind, i)); i++) {
            const char *plugin = brought_by(context, driver);
            char name[80];
            snprintf(name, sizeof name, "%s%s", driver->name, spec ? ":" : "");
            fprintf(out, "  %-*s %s", spec ? 12 : 16, name, driver->doc ? driver->doc : "");
            if (plugin)
                fprintf(out, " (plug-in %s)", plugin);
            fputc('\n', out);
            list_options(driver->options, out);
        }
        fputs(group->below, out);
    }
    fputs("\n'stoker info SPEC' describes one dataset, 'stoker info FILE.safetensors' a "
          "checkpoint.\n",
          out);
}

static void list_json_options(const stk_option_table *table, FILE *out)
{
    fputs("[", out);
    for (size_t i = 0; table && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        fputs(i ? ", {\"name\": " : "{\"name\": ", out);
        cli_json_string(out, option->name);
        cli_json_member_text(out, "default", option->initial);
        cli_json_member_text(out, "doc", option->doc);
        fputs("}", out);
    }
    fputs("]", out);
}

static void list_json(const stk_context *context, FILE *out)
{
    const stk_driver_head *driver;

    for (size_t g = 0; g < NUM_GROUPS; g++) {
        fprintf(out, "%s\"%s\": [", g ? ",\n " : "{", groups[g].plural);
        for (size_t i = 0; (driver = stk_driver_at(context, groups[g].kind, i)); i++) {
            fputs(i ? ",\n  {\"name\": " : "\n  {\"name\": ", out);
            cli_json_string(out, driver->name);
            cli_json_member_text(out, "doc", driver->doc ? driver->doc : "");
            cli_json_member_text(out, "plugin", brought_by(context, driver));
            fputs(",\n   \"options\": ", out);
            list_json_options(driver->options, out);
            fputs("}", out);
        }
        fputs("]", out);
    }
    fputs("}\n", out);
}

static void csv_end(const char *plugin, FILE *out)
{
    fputc(',', out);
    cli_csv_string(out, plugin ? plugin : "");
    fputc('\n', out);
}

static void list_csv(const stk_context *context, FILE *out)
{
    const stk_driver_head *driver;

    fputs("kind,name,option,default,doc,plugin\n", out);
    for (size_t g = 0; g < NUM_GROUPS; g++)
        for (size_t i = 0; (driver = stk_driver_at(context, groups[g].kind, i)); i++) {
            const char *plugin = brought_by(context, driver);
            fprintf(out, "%s,%s,,,", groups[g].name, driver->name);
            cli_csv_string(out, driver->doc ? driver->doc : "");
            csv_end(plugin, out);
            for (size_t k = 0; driver->options && k < driver->options->count; k++) {
                const stk_option *option = &driver->options->options[k];
                fprintf(out, "%s,%s,%s,", groups[g].name, driver->name, option->name);
                cli_csv_string(out, option->initial ? option->initial : "");
                fputc(',', out);
                cli_csv_string(out, option->doc);
                csv_end(plugin, out);
            }
        }
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct cli_usage usage = {
    .name = "info",
    .synopsis = "[SPEC | ARRAY | CHECKPOINT] [options]",
    .about =
        "Describes a dataset: its samples, their fields, where they are. A SPEC is 'digits:', "
        "'mnist:DIR',\n"
        "'npy:FILE?labels=FILE', ..., or a plain PATH where what it names is unambiguous.\n"
        "Of encoded pictures it also reads some: sizes, formats, mean and std, counts by class, "
        "broken "
        "files.\n"
        "An ARRAY is the folder or URL of a Zarr array or group, or 'array:URL' (npy, raw): types, "
        "shapes, chunks,\n"
        "codecs, what is in the store; with --stats all mean, std, min, max and NaN share of "
        "each "
        "array.\n"
        "A FILE.safetensors or FILE.ckpt is a checkpoint: what it holds, and whether it is whole;\n"
        "a FILE.pth or FILE.pt holds weights of torch.save, of which nothing is run.\n"
        "A container (zip:FILE!/ and a FOLDER behind it) is described with its files and what a "
        "read "
        "of one costs.\n"
        "With --machine it describes the machine instead, with the disk of a PATH.\n"
        "Without a SPEC it lists what there is with its options: datasets, transforms, layers, "
        "callbacks, loggers,\n"
        "stores, formats of arrays, converters and devices; those of a --plugin are marked with "
        "its name.\n",
    .examples = "  stoker info\n"
                "  stoker info digits:\n"
                "  stoker info 'digits:?subset=0:1000' --format json\n"
                "  stoker info digits: --sample 1000\n"
                "  stoker info --store .\n"
                "  stoker info --machine\n",
    .tables = (const struct cli_options[]){{.own = info_survey_table},
                                           {.name = "survey"},
                                           {.own = info_store_table},
                                           {.own = info_machine_table},
                                           {0}},
    .max_args = 1,
};

/* What a store gives, as lines in every format. */
static int describe_store(struct cli *cli, stk_context *context, const char *url)
{
    struct lines lines = {0};

    int code = info_store(cli, context, url, &lines);
    if (code == CLI_GOOD)
        return print_lines(cli, &lines);
    lines_free(&lines);
    return code;
}

/* What there is. */
static int list_all(struct cli *cli, const stk_context *context)
{
    if (cli->format == CLI_JSON)
        list_json(context, cli->out);
    else if (cli->format == CLI_CSV)
        list_csv(context, cli->out);
    else
        list_table(context, cli->out);
    return CLI_GOOD;
}

static int describe_one(struct cli *cli, stk_context *context, const char *spec, bool store)
{
    const bool checkpoint = spec && cli_is_weights(spec);
    bool array = false;
    int code = CLI_GO_ON;

    if (!store && !checkpoint)
        code = look_for_array(cli, context, spec, &array);
    if (code == CLI_GO_ON && (!spec || store || checkpoint || array))
        code = info_refuse_limits(cli, !spec        ? "a list of what there is"
                                       : store      ? "a store"
                                       : checkpoint ? "a checkpoint"
                                                    : "an array");
    if (code != CLI_GO_ON)
        return code;
    if (store)
        return describe_store(cli, context, spec);
    if (checkpoint)
        return describe_checkpoint(cli, context, spec);
    if (array)
        return info_array(cli, context, spec);
    return spec ? describe(cli, context, spec) : list_all(cli, context);
}

int cli_info(struct cli *cli)
{
    struct info_store_options store;
    struct info_machine_options machine;
    stk_context *context;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    code = cli_apply(cli, info_store_table(), 0, &store);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, info_machine_table(), 0, &machine);
    if (code != CLI_GO_ON)
        return code;
    if (store.store && !cli->num_args) {
        cli_error("--store: no store is given: stoker info --store PATH");
        return CLI_USAGE;
    }
    const char *spec = cli->num_args ? cli_home(cli->args[0]) : NULL;
    if (!machine.machine)
        return describe_one(cli, context, spec, store.store);
    code = info_refuse_limits(cli, "a machine");
    return code == CLI_GO_ON ? info_machine(cli, context, spec, store.store) : code;
}

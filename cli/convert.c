/* SPDX-License-Identifier: Apache-2.0 */
/* stoker convert: data in one form -> the same data in another. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "convert.h"

/* A flag of a name that several have is an option of the first: of an image, and of shards, of
 * their own. */
static const struct cli_options
    tables[] = {{.name = "convert"}, {.name = "images"},      {.name = "arrays"},
                {.name = "packed"},  {.name = "squashfs"},    {.name = "shards"},
                {.name = "weights"}, {.own = cli_live_table}, {0}},
    tables_of_shards[] = {{.name = "convert"}, {.name = "shards"},      {.name = "images"},
                          {.name = "arrays"},  {.name = "packed"},      {.name = "squashfs"},
                          {.name = "weights"}, {.own = cli_live_table}, {0}},
    tables_of_images[] = {{.name = "convert"}, {.name = "squashfs"},    {.name = "images"},
                          {.name = "arrays"},  {.name = "packed"},      {.name = "shards"},
                          {.name = "weights"}, {.own = cli_live_table}, {0}};

static const struct cli_usage usage = {
    .name = "convert",
    .synopsis = "[ckpt] SRC DST [options]",
    .about =
        "Write the data of SRC in another form. What is done follows from the kind of SRC and the "
        "name of DST:\n\n"
        "  images:DIR -> a folder     Pictures packed again. Folders and names stay; large "
        "pictures are made\n"
        "                             smaller (--max-side) and encoded as baseline JPEG; small "
        "baseline ones\n"
        "                             are copied byte for byte, small progressive ones rewritten "
        "without loss.\n"
        "                             PNG becomes JPEG unless it has a palette, alpha or 16 bits.\n"
        "  digits:, mnist:, npy: ...  Small pictures of one channel and their labels as IDX files, "
        "the format\n"
        "     -> a folder             of MNIST; the splits train and test where there are both.\n"
        "  images:, cifar10:, ...     Pictures of one size (--size) or shape (--short-side) that "
        "need no\n"
        "     -> NAME.zarr            decoding, with labels and names: images:NAME.zarr reads "
        "them.\n"
        "  arrays: Zarr, NetCDF, ...  Arrays in other chunks, codecs or types, one or a whole "
        "group "
        "with its\n"
        "     -> NAME.zarr            attributes; larger than memory, too. zarr2:NAME writes "
        "version "
        "2.\n"
        "     -> NAME.nc              The same as one NetCDF-4 file, where libhdf5 is built in.\n"
        "  a file of NetCDF or HDF5   References of kerchunk to its chunks, which stay where they "
        "are.\n"
        "     -> NAME.json\n"
        "  any folder -> NAME.sqfs    Its files as one SquashFS image, each a range of it where "
        "its "
        "content\n"
        "                             does not shrink (JPEG, PNG). --codec and --level are those "
        "of "
        "squashfs.\n"
        "  any samples                Record shards of one size (--shard-size), read at random "
        "access.\n"
        "     -> webdataset:DIR       Tars, as the package webdataset and DALI read them.\n"
        "     -> tfrecord:DIR         TFRecord files of tf.train.Example.\n"
        "  x.tar.gz, .zst, TFRecord   Shards that are compressed as a whole, unpacked; they stay "
        "as they\n"
        "     -> webdataset:DIR       are cut.\n"
        "     -> tfrecord:DIR, .tar\n"
        "  a checkpoint, .pth, .pt    The weights of a model alone, as PyTorch's load_state_dict() "
        "takes them.\n"
        "     -> NAME.safetensors\n"
        "     -> NAME.onnx            The model as others run it; --layers and --input-shape say "
        "what "
        "it is\n"
        "                             where the file is no checkpoint of Stoker.\n"
        "  ckpt, then a checkpoint    The same checkpoint as one file, where several processes "
        "wrote "
        "it in\n"
        "     -> FILE                 parts; training goes on from either.\n\n"
        "A DST of 'NAME:PATH?option=value' is written by the converter of that name, of a plug-in "
        "too, with\noptions of its own. DST may be "
        "the URL of a folder in any store that can be written.\n\n"
        "A file has its name when it is complete and safe on the disk. A conversion of pictures, "
        "to Zarr or to\n"
        "shards that was stopped, by Ctrl-C, a kill or a full disk, goes on when the same command "
        "is run again:\n"
        "what is done is noted in DST/.stoker-convert.\n",
    .examples = "  stoker convert digits: digits\n"
                "  stoker convert 'digits:?split=test&size=1000' digits-test\n"
                "\n"
                "With pictures of yours in DIR, and a training that has ended:\n"
                "  stoker convert images:DIR small --max-side 512 --quality 90\n"
                "  stoker convert images:DIR packed.zarr --size 256x256\n"
                "  stoker convert DIR small.sqfs\n"
                "  stoker convert images:DIR webdataset:shards --shard-size 256MiB\n"
                "  stoker convert last.safetensors weights.safetensors\n"
                "  stoker convert ckpt last.safetensors whole.safetensors\n"
                "  stoker convert last.safetensors model.onnx\n",
    .interrupted = "nothing of it is kept; run the same command again",
    .tables = tables,
    .min_args = 2,
    .max_args = 3,
};

/* ---- The statement --------------------------------------------------------------------------- */

struct figure {
    const char *name;
    double value;
    bool shown; /* says something */
};

struct text {
    const char *name, *value;
};

static void print_json(struct cli *cli, const struct figure *figures, int count,
                       const struct text *texts, int num_texts)
{
    fputs("{\"target\": ", cli->out);
    cli_json_string(cli->out, cli->args[1]);
    for (int i = 0; i < count; i++) {
        fprintf(cli->out, ", \"%s\": ", figures[i].name);
        if (figures[i].shown)
            cli_json_number(cli->out, figures[i].value);
        else
            fputs("null", cli->out);
    }
    for (int i = 0; i < num_texts; i++) {
        fprintf(cli->out, ", \"%s\": ", texts[i].name);
        cli_json_string(cli->out, texts[i].value);
    }
    fputs("}\n", cli->out);
}

/* A table of one row. */
static void print_csv(struct cli *cli, const struct figure *figures, int count,
                      const struct text *texts, int num_texts)
{
    for (int i = 0; i < count; i++)
        fprintf(cli->out, "%s%s", i ? "," : "", figures[i].name);
    for (int i = 0; i < num_texts; i++)
        fprintf(cli->out, ",%s", texts[i].name);
    fputc('\n', cli->out);
    for (int i = 0; i < count; i++) {
        fputs(i ? "," : "", cli->out);
        if (figures[i].shown)
            cli_json_number(cli->out, figures[i].value);
    }
    for (int i = 0; i < num_texts; i++) {
        fputc(',', cli->out);
        cli_csv_string(cli->out, texts[i].value);
    }
    fputc('\n', cli->out);
}

static void print_figures(struct cli *cli, const stk_conversion_report *r)
{
    const struct figure figures[] = {
        {"total", (double)r->total, true},
        {"copied", (double)r->copied, true},
        {"rewritten", (double)r->rewritten, true},
        {"encoded", (double)r->encoded, true},
        {"kept_png", (double)r->kept_png, true},
        {"repeated", (double)r->repeated, true},
        {"skipped", (double)r->skipped, true},
        {"resumed", (double)r->resumed, true},
        {"verified", (double)r->verified, true},
        {"bytes_before", (double)r->bytes_before, true},
        {"bytes_after", (double)r->bytes_after, true},
        {"mean_psnr", r->mean_psnr, r->compared > 0},
        {"worst_psnr", r->worst_psnr, r->compared > 0},
    };
    const struct text texts[] = {{"worst", r->worst}, {"errors", r->errors_path}};

    (cli->format == CLI_JSON ? print_json : print_csv)(
        cli, figures, sizeof figures / sizeof *figures, texts, sizeof texts / sizeof *texts);
}

static void print_array_figures(struct cli *cli, const stk_conversion_report *r)
{
    const struct figure figures[] = {
        {"arrays", (double)r->arrays, true},
        {"total", (double)r->total, true},
        {"resumed", (double)r->resumed, true},
        {"verified", (double)r->verified, true},
        {"bytes_before", (double)r->bytes_before, true},
        {"bytes_after", (double)r->bytes_after, !r->planned},
        {"bytes_decoded", (double)r->decoded, true},
        {"temp_bytes", (double)r->temp_bytes, true},
        {"memory", (double)r->memory, true},
        {"seconds", r->seconds, r->planned},
        {"worst_change", r->worst_change, !r->planned},
        {"overflowed", (double)r->overflowed, !r->planned},
    };
    const struct text plan = {"plan", r->text};

    if (cli->format == CLI_JSON)
        print_json(cli, figures, sizeof figures / sizeof *figures, &plan, 1);
    else
        print_csv(cli, figures, sizeof figures / sizeof *figures, NULL, 0);
}

/* "12.3 MB". */
static void print_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    fprintf(out, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void print_count(FILE *out, const char *what, uint64_t count)
{
    if (count)
        fprintf(out, "  %-42s %10" PRIu64 "\n", what, count);
}

/* Bytes that steer a terminal, in the name of a file. */
static void print_name(FILE *out, const char *name)
{
    for (; *name; name++)
        fputc((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, out);
}

static void print_pictures(struct cli *cli, const stk_conversion_report *r)
{
    FILE *out = cli->out;

    fprintf(out, "%s: %" PRIu64 " of %" PRIu64 " pictures\n", cli->args[1],
            r->total - r->skipped - r->repeated, r->total);
    print_count(out, "copied byte for byte", r->copied - r->kept_png);
    print_count(out, "PNG kept as it is", r->kept_png);
    print_count(out, "rewritten as baseline, without loss", r->rewritten);
    print_count(out, "encoded again", r->encoded);
    print_count(out, "named twice in the source, written once", r->repeated);
    print_count(out, "broken and left out", r->skipped);
    print_count(out, "of all these, done by an earlier run", r->resumed);
    print_count(out, "read back, decoded and found right", r->verified);
    fputs("  ", out);
    print_bytes(out, r->bytes_before);
    fputs(" became ", out);
    print_bytes(out, r->bytes_after);
    if (r->bytes_before)
        fprintf(out, " (%.3g %%)", 100 * (double)r->bytes_after / (double)r->bytes_before);
    fputc('\n', out);
    if (r->compared) {
        fprintf(out,
                "  PSNR of %" PRIu64 " encoded against their resized originals: mean %.1f dB, "
                "worst %.1f dB: ",
                r->compared, r->mean_psnr, r->worst_psnr);
        print_name(out, r->worst);
        fputc('\n', out);
    }
    if (*r->errors_path)
        fprintf(out, "  What was left out, and why: %s\n", r->errors_path);
}

static void print_line(FILE *out, const char *what, double bytes)
{
    char size[32];

    fprintf(out, "  %-42s %10s\n", what, stk_size_text(bytes, size));
}

static void print_counts(FILE *out, const stk_conversion_report *r)
{
    fprintf(out, "%" PRIu64 " array%s, %" PRIu64 " object%s\n", r->arrays,
            r->arrays == 1 ? "" : "s", r->total, r->total == 1 ? "" : "s");
}

static void print_plan(FILE *out, const stk_conversion_report *r)
{
    fputs(r->text, out);
    fprintf(out, "In all: ");
    print_counts(out, r);
    print_line(out, "elements that are read", (double)r->bytes_before);
    print_line(out, "the same, with what is decoded twice", (double)r->decoded);
    print_line(out, "memory", (double)r->memory);
    print_line(out, "largest temporary file", (double)r->temp_bytes);
    if (r->seconds < 1)
        fputs("  less than a second", out);
    else
        fprintf(out, "  about %.3g s", r->seconds);
    fputs(", at 150 MB/s for each thread; nothing was written\n", out);
}

static void print_arrays(struct cli *cli, const stk_conversion_report *r)
{
    FILE *out = cli->out;

    if (r->planned) {
        print_plan(out, r);
        return;
    }
    fprintf(out, "%s: ", cli->args[1]);
    print_counts(out, r);
    print_count(out, "of these, done by an earlier run", r->resumed);
    print_count(out, "read back and compared", r->verified);
    fputs("  ", out);
    print_bytes(out, r->bytes_before);
    fputs(" of elements became ", out);
    print_bytes(out, r->bytes_after);
    fputc('\n', out);
    if (r->worst_change > 0)
        fprintf(out, "  The greatest change of a value: %.3g\n", r->worst_change);
    if (r->overflowed)
        fprintf(out, "  Values that became infinite: %" PRIu64 "\n", r->overflowed);
}

static void print_packed(struct cli *cli, const stk_conversion_report *r)
{
    FILE *out = cli->out;

    if (r->planned) {
        fputs(r->text, out);
        return;
    }
    fprintf(out, "%s: %" PRIu64 " of %" PRIu64 " pictures\n", cli->args[1], r->total - r->skipped,
            r->total);
    print_count(out, "broken and left out", r->skipped);
    print_count(out, "done by an earlier run", r->resumed);
    print_count(out, "read back and compared", r->verified);
    fputs("  packed in ", out);
    print_bytes(out, r->bytes_after);
    fputc('\n', out);
}

static void print_image(struct cli *cli, const stk_conversion_report *r)
{
    FILE *out = cli->out;

    fprintf(out, "%s: %" PRIu64 " file%s\n", cli->args[1], r->total, r->total == 1 ? "" : "s");
    if (!r->planned) {
        print_count(out, "stored as they are", r->copied);
        print_count(out, "packed", r->encoded);
        print_count(out, "of these, like another and stored with it", r->repeated);
        print_count(out, "read back and compared", r->verified);
    }
    print_count(out, "links, left out", r->skipped);
    fputs("  ", out);
    print_bytes(out, r->bytes_before);
    fputs(r->planned ? " would become about " : " became ", out);
    print_bytes(out, r->bytes_after);
    fputs(r->planned ? ", by a sample and without what is there twice; nothing was written\n"
                     : "\n",
          out);
}

static void print_unpacked(struct cli *cli, const stk_conversion_report *r)
{
    FILE *out = cli->out;

    fprintf(out, "%s: %" PRIu64 " shard%s, unpacked\n  ", cli->args[1], r->total,
            r->total == 1 ? "" : "s");
    print_bytes(out, r->bytes_before);
    fputs(" became ", out);
    print_bytes(out, r->bytes_after);
    fputc('\n', out);
}

static void print_samples(struct cli *cli, const stk_conversion_report *r)
{
    fprintf(cli->out, "%s: %" PRIu64 " samples\n", cli->args[1], r->total);
    print_count(cli->out, "of these, done by an earlier run", r->resumed);
}

static void print_statement(struct cli *cli, const char *converter, const stk_conversion_report *r)
{
    if (r->arrays && cli->format != CLI_TABLE)
        print_array_figures(cli, r);
    else if (cli->format != CLI_TABLE)
        print_figures(cli, r);
    else if (strcmp(converter, "images") == 0)
        print_pictures(cli, r);
    else if (strcmp(converter, "packed") == 0)
        print_packed(cli, r);
    else if (strcmp(converter, "squashfs") == 0)
        print_image(cli, r);
    else if (r->arrays)
        print_arrays(cli, r);
    else if (r->copied && r->copied == r->total)
        print_unpacked(cli, r);
    else
        print_samples(cli, r);
}

/* ---- The command ----------------------------------------------------------------------------- */

static void cancel(void *conversion)
{
    stk_conversion_cancel(conversion);
}

int convert_refuse_options(struct cli *cli, const stk_option_table *own, bool all, const char *what)
{
    char key[128];

    for (const struct cli_options *table = usage.tables + !all; table->name; table++) {
        const stk_option_table *t = cli_options_find(table);
        for (size_t i = 0; t != own && i < t->count; i++) {
            snprintf(key, sizeof key, "%s.%s", t->name, t->options[i].name);
            if (stk_config_count(cli->config, key) == 0 || strcmp(key, "convert.overwrite") == 0)
                continue;
            cli_error("the option %s does nothing where %s are written; leave it out",
                      t->options[i].name, what);
            return CLI_USAGE;
        }
    }
    return CLI_GO_ON;
}

/* Options of a converter, of one of `tables`. */
union own {
    stk_convert_images_options images;
    stk_convert_arrays_options arrays;
    stk_convert_packed_options packed;
    stk_convert_squashfs_options squashfs;
    stk_convert_shards_options shards;
};

/* Whether a converter's table is one of the command's; those of others are behind their names. */
static bool has_flags(const stk_option_table *table)
{
    for (const struct cli_options *of = tables; table && of->name; of++)
        if (cli_options_find(of) == table)
            return true;
    return false;
}

/* Whether a conversion that was stopped goes on, or begins again: then it makes no checkpoints. */
static bool goes_on(const stk_converter_ops *converter)
{
    for (const char *const *name = converter->ignores; name && *name; name++)
        if (strcmp(*name, "checkpoint") == 0)
            return false;
    return true;
}

/* Whether it writes shards, of which those that are whole are kept. */
static bool writes_shards(const stk_converter_ops *converter)
{
    static const char *const names[] = {"webdataset", "tfrecord", "parquet"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(converter->name, names[i]) == 0)
            return true;
    return false;
}

static int run(struct cli *cli, stk_conversion *conversion)
{
    const stk_converter_ops *converter = stk_conversion_converter(conversion);
    static stk_conversion_report report; /* too large for some stacks */
    const stk_option_table *table = converter->options;
    stk_convert_options options;
    union own own;
    stk_error err;

    int code = convert_refuse_options(cli, table, false, converter->doc);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("convert"), 0, &options);
    if (code == CLI_GO_ON && has_flags(table))
        code = cli_apply(cli, table, 0, &own);
    if (code != CLI_GO_ON)
        return code;
    report.struct_size = sizeof report;
    cli_on_interrupt(cancel, conversion);
    stk_status status =
        stk_conversion_run(conversion, &options, has_flags(table) ? &own : NULL, &report, &err);
    cli_on_interrupt(NULL, NULL);
    cli_console_clear();
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (!cli->quiet || cli->out_path)
        print_statement(cli, converter->name, &report);
    return CLI_GOOD;
}

/* What the words in front of the options say: two, or three of which the first is "ckpt". */
static int check_words(const struct cli *cli)
{
    if (cli->num_args == 2 || strcmp(cli->args[0], "ckpt") == 0)
        return CLI_GO_ON;
    cli_error("'%s' is one argument too many: SRC and DST, or ckpt SRC DST; see stoker convert "
              "--help",
              cli->args[2]);
    return CLI_USAGE;
}

/* Whether one of the arguments is, by its name, an image that is to be written; what is read of one
 * has "!/" in its name. */
static bool names_image(const struct cli *cli)
{
    static const char *const endings[] = {".sqfs", ".sqsh", ".squashfs"};

    for (int i = 0; i < cli->argc; i++) {
        const char *text = cli->argv[i];
        if (strncmp(text, "squashfs:", strlen("squashfs:")) == 0 && !strstr(text, "!/"))
            return true;
        for (size_t k = 0; *text != '-' && k < sizeof endings / sizeof *endings; k++)
            if (cli_ends_with(text, endings[k]))
                return true;
    }
    return false;
}

/* Whether what is written is, by its name, record shards: something stands in front of it, and
 * behind it options and their values alone. */
static bool names_shards(const struct cli *cli)
{
    static const char *const names[] = {"webdataset:", "tfrecord:"};
    bool is = false, any = false;

    for (int i = 0; i < cli->argc; i++) {
        const char *text = cli->argv[i];
        if (*text == '-' || (is && i && *cli->argv[i - 1] == '-'))
            continue;
        is = false;
        for (size_t k = 0; any && k < sizeof names / sizeof *names; k++)
            is = is || strncmp(text, names[k], strlen(names[k])) == 0;
        any = true;
    }
    return is;
}

int cli_convert(struct cli *cli)
{
    static struct cli_usage own;
    stk_conversion *conversion = NULL;
    stk_context *context = NULL;
    stk_error err;

    own = usage;
    if (names_image(cli))
        own.tables = tables_of_images;
    else if (names_shards(cli))
        own.tables = tables_of_shards;
    int code = cli_parse(cli, &own);
    if (code == CLI_GO_ON)
        code = check_words(cli);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    cli_signals_ignore_pipe();
    if (cli->num_args == 3)
        return convert_checkpoint(cli, context);
    if (cli_is_weights(cli->args[0]) || cli_is_weights(cli->args[1]))
        return convert_weights(cli, context);
    code = cli_live_bind(cli);
    if (code == CLI_GO_ON)
        code = cli_live(cli, cli->args[0], 0, 1);
    if (code != CLI_GO_ON)
        return code;
    stk_status status = stk_conversion_create(context, cli_home(cli->args[0]),
                                              cli_home(cli->args[1]), &conversion, &err);
    if (status == STK_OK && goes_on(stk_conversion_converter(conversion)))
        own.interrupted = "what is complete is kept; for the rest run the same command again";
    else if (status == STK_OK && writes_shards(stk_conversion_converter(conversion)))
        own.interrupted = "whole shards are kept; for the rest run the same command again";
    code = status == STK_OK ? run(cli, conversion) : cli_fail(cli, status, &err);
    stk_conversion_destroy(&conversion);
    return code;
}

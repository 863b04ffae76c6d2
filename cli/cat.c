/* SPDX-License-Identifier: Apache-2.0 */
/* stoker cat: the values of an array, as text, bytes, an npy file or a hash; the rows of a dataset.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cat.h"
#include "cli.h"

#define BOX_BYTES  (UINT64_C(64) << 20) /* read at a time, where a row of chunks is not larger */
#define MOST_BYTES (UINT64_C(1) << 30)  /* read at a time, whatever the chunks are */
#define TEXT_BYTES 256                  /* of an element of varying length, to choose a box by */
#define VALUE_TEXT 2048                 /* of most values; longer ones get memory */

enum dump { DUMP_TEXT, DUMP_RAW, DUMP_NPY, DUMP_SHA256, DUMP_DATES };

struct cat_options {
    uint32_t struct_size;
    int32_t dump;
    const char *array_path, *slice;
};

static const stk_option option_rows[] = {
    {"array_path", STK_OPTION_STRING, offsetof(struct cat_options, array_path), NULL, 0, 0, NULL,
     "DIR", "The array, in the place of ARRAY."},
    {"dump", STK_OPTION_ENUM, offsetof(struct cat_options, dump), "text", 0, 0,
     "text|raw|npy|sha256|dates", NULL,
     "text: a value a line; raw: the bytes of the values in C order, little endian; npy: a NumPy "
     "file; sha256: the hash of the raw bytes; dates: as text, but times as dates, by units and "
     "calendar."},
    {"slice", STK_OPTION_STRING, offsetof(struct cat_options, slice), NULL, 0, 0, NULL,
     "A:B[:S],...",
     "A part, as in NumPy: ranges and single numbers parted by commas, for the first axes or all; "
     "negative numbers count from the end, steps are at least 1."},
};

static const stk_option_table table = {.name = "cat",
                                       .doc = "What is written, and of what",
                                       .struct_size = sizeof(struct cat_options),
                                       .options = option_rows,
                                       .count = sizeof option_rows / sizeof *option_rows};

static const stk_option_table *cat_table(void)
{
    return &table;
}

static const struct cli_usage usage = {
    .name = "cat",
    .synopsis = "ARRAY|SPEC [options]",
    .about =
        "Writes the values of an array in C order: one a line, in the form that Zarr gives fill "
        "values in JSON\n"
        "(3, 0.1, \"NaN\", [1.0, 2.0], \"text\"), or as bytes for other programs to compare.\n"
        "An ARRAY is the folder or URL of a Zarr array, an npy file, or any file with "
        "'?format=raw&dtype=TYPE'.\n"
        "A SPEC is a dataset, as 'stoker info' takes it, or a table as x.parquet, x.csv, x.jsonl "
        "or x.arrow: its samples\n"
        "are the rows of a table, of which the first ten are shown, or those of --slice. --format "
        "json writes all of them\n"
        "as lines of JSON, --format csv as CSV.\n",
    .examples = "  stoker cat data.zarr/t2m --slice 0,:4,:4\n"
                "  stoker cat data.zarr/t2m --dump sha256\n"
                "  stoker cat data.zarr/t2m --dump npy -o t2m.npy\n"
                "  stoker cat 'tokens.bin?format=raw&dtype=uint16' --slice :10\n"
                "  stoker cat people.parquet --slice 0:5\n"
                "  stoker cat 'csv:people.csv?columns=age,name' --format json\n",
    .tables = (const struct cli_options[]){{.own = cat_table}, {.name = "array"}, {0}},
    .max_args = 1,
};

/* What is to be written: a box, and the axes that single numbers take away. */
struct part {
    const stk_array_info *info;
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    bool dropped[STK_ARRAY_MAX_RANK];
    bool empty;
};

struct output {
    struct cli *cli;
    const stk_array *array;
    enum dump dump;
    struct sha256 hash;
    bool failed;
};

/* ---- --slice --------------------------------------------------------------------------------- */

static bool take_number(const char **text, int64_t *out)
{
    char *end;

    if (**text != '-' && (**text < '0' || **text > '9'))
        return false;
    long long value = strtoll(*text, &end, 10);
    if (end == *text || value == INT64_MAX || value == INT64_MIN)
        return false;
    *text = end;
    *out = value;
    return true;
}

/* From the end where negative, and within the axis, as Python's slices. */
static int64_t clip(int64_t at, int64_t length)
{
    if (at < 0)
        at += length;
    return at < 0 ? 0 : at > length ? length : at;
}

/* One axis: "3", "a:b" or "a:b:s"; NULL, or what is wrong. */
static const char *take_axis(const char **text, struct part *part, uint32_t d)
{
    int64_t length = part->info->shape[d], start = 0, end = length, step = 1;
    bool single = take_number(text, &start);

    if (**text == ':') {
        single = false;
        ++*text;
        if (take_number(text, &end))
            end = clip(end, length);
        if (**text == ':') {
            ++*text;
            if (!take_number(text, &step) || step < 1)
                return "has a step that is no number from 1 up";
        }
        start = clip(start, length);
    } else if (single) {
        part->dropped[d] = true;
        if (start < -length || start >= length)
            return "names an element that is not there";
        start += start < 0 ? length : 0;
        end = start + 1;
    }
    if ((**text && **text != ',') || (*text)[-1] == ',')
        return "is no slice; it takes ranges as 0:10, :5 or 3 with commas between";
    part->start[d] = start;
    part->step[d] = step;
    part->shape[d] = end > start ? (end - start - 1) / step + 1 : 0;
    return NULL;
}

static int take_slice(const char *text, struct part *part)
{
    const uint32_t rank = part->info->rank;
    const char *p = text, *wrong = NULL;
    uint32_t d = 0;

    for (uint32_t i = 0; i < rank; i++) {
        part->shape[i] = part->info->shape[i];
        part->step[i] = 1;
    }
    if (text && (!*text || *text == ','))
        wrong = "is no slice; it takes ranges as 0:10, :5 or 3 with commas between";
    for (; text && !wrong; p++) {
        wrong = d == rank ? "has more axes than the array" : take_axis(&p, part, d++);
        if (!*p)
            break;
    }
    if (wrong) {
        cli_error("cat.slice: '%.80s' %s", text, wrong);
        return CLI_USAGE;
    }
    for (uint32_t i = 0; i < rank; i++)
        part->empty |= part->shape[i] == 0;
    return CLI_GO_ON;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_one(struct output *out, const void *value)
{
    char text[VALUE_TEXT];

    if (out->dump == DUMP_DATES && stk_array_time_text(out->array, value, text, sizeof text)) {
        fprintf(out->cli->out, "%s\n", text);
        return;
    }
    size_t length = stk_array_value_text(out->array, value, text, sizeof text);
    char *longer = length < sizeof text ? NULL : malloc(length + 1);

    if (length >= sizeof text && !longer) {
        cli_error("no memory for a value of %zu bytes", length);
        out->failed = true;
        return;
    }
    if (longer)
        (void)stk_array_value_text(out->array, value, longer, length + 1);
    fputs(longer ? longer : text, out->cli->out);
    fputc('\n', out->cli->out);
    free(longer);
}

static void write_text(struct output *out, const char *values, uint64_t count, uint64_t itemsize)
{
    for (uint64_t i = 0; i < count && !out->failed; i++)
        write_one(out, values + i * itemsize);
}

static void write_values(struct output *out, const char *values, uint64_t count, uint64_t itemsize)
{
    if (out->dump == DUMP_TEXT || out->dump == DUMP_DATES)
        write_text(out, values, count, itemsize);
    else if (out->dump == DUMP_SHA256)
        sha256_add(&out->hash, values, (size_t)(count * itemsize));
    else
        fwrite(values, (size_t)itemsize, (size_t)count, cli_output_raw(out->cli));
}

/* NumPy's code of the type; NULL: it has none. */
static const char *numpy_code(const stk_array_info *info, char code[32])
{
    static const char *const codes[STK_DTYPE_COUNT] = {
        [STK_BOOL] = "|b1",      [STK_UINT8] = "|u1",      [STK_INT8] = "|i1",
        [STK_UINT16] = "<u2",    [STK_INT16] = "<i2",      [STK_UINT32] = "<u4",
        [STK_INT32] = "<i4",     [STK_UINT64] = "<u8",     [STK_INT64] = "<i8",
        [STK_FLOAT16] = "<f2",   [STK_FLOAT32] = "<f4",    [STK_FLOAT64] = "<f8",
        [STK_COMPLEX64] = "<c8", [STK_COMPLEX128] = "<c16"};
    const char *unit = strchr(info->type_name, '[');
    unsigned long long length;

    if (info->dtype == STK_BFLOAT16)
        return NULL;
    if (unit && info->dtype == STK_INT64)
        snprintf(code, 32, "<%c8%.20s", info->type_name[0] == 'd' ? 'M' : 'm', unit);
    else if (info->dtype != STK_DTYPE_NONE)
        return codes[info->dtype];
    else if (sscanf(info->type_name, "U%llu", &length) == 1)
        snprintf(code, 32, "<U%llu", length);
    else if (sscanf(info->type_name, "S%llu", &length) == 1)
        snprintf(code, 32, "|S%llu", length);
    else
        snprintf(code, 32, "|V%" PRIu64, info->itemsize);
    return code;
}

/* The header of version 1: a multiple of 64 bytes [NumPy Enhancement Proposal 1]. */
static int write_npy_header(struct output *out, const struct part *part)
{
    char code[32], text[1024];
    uint32_t kept = 0;

    const char *descr = numpy_code(part->info, code);
    if (!descr) {
        cli_error("an npy file has no %s; use --dump raw", part->info->type_name);
        return CLI_FAILED;
    }
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < part->info->rank; d++)
        if (!part->dropped[d])
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRId64, kept++ ? ", " : "",
                                   part->shape[d]);
    at += (size_t)snprintf(text + at, sizeof text - at, kept == 1 ? ",), }" : "), }");
    while ((at + 11) % 64)
        text[at++] = ' ';
    text[at++] = '\n';
    const unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)at, (unsigned char)(at >> 8)};
    fwrite(head, 1, sizeof head, cli_output_raw(out->cli));
    fwrite(text, 1, at, cli_output_raw(out->cli));
    return CLI_GO_ON;
}

/* ---- Reading in C order ---------------------------------------------------------------------- */

/*
 * What is read at a time: `rows` indices of axis `axis`, all of the axes behind it, one index of
 * those before. Rows of chunks are taken whole where they fit, so that no chunk is read twice.
 */
struct pace {
    uint32_t axis;
    int64_t rows;
    uint64_t bytes;
};

static struct pace choose_pace(const struct part *part)
{
    const uint64_t itemsize = part->info->itemsize;
    struct pace pace = {.rows = 1, .bytes = itemsize ? itemsize : TEXT_BYTES};

    for (uint32_t d = part->info->rank; d-- > 0;) {
        const int64_t n = part->shape[d];
        int64_t rows = (int64_t)(BOX_BYTES / pace.bytes);
        int64_t chunk = part->info->shard_shape[d] / part->step[d];
        if (rows < chunk)
            rows = (uint64_t)chunk <= MOST_BYTES / pace.bytes ? chunk
                                                              : (int64_t)(MOST_BYTES / pace.bytes);
        else if (chunk > 1)
            rows -= rows % chunk;
        pace.axis = d;
        pace.rows = rows < 1 ? 1 : rows < n ? rows : n;
        pace.bytes *= (uint64_t)pace.rows;
        if (pace.rows < n)
            break;
    }
    return pace;
}

/* The first rows end where a chunk does, so that the others begin there. */
static int64_t rows_now(const struct part *part, const struct pace *pace, const int64_t *at)
{
    int64_t left = part->shape[pace->axis] - at[pace->axis], chunk;
    int64_t rows = pace->rows < left ? pace->rows : left;

    chunk = part->info->shard_shape[pace->axis];
    if (rows < left && part->step[pace->axis] == 1 && rows >= chunk) {
        int64_t end = part->start[pace->axis] + at[pace->axis] + rows;
        rows -= end % chunk;
    }
    return rows;
}

/* Read a box and write it. */
static stk_status write_box(struct output *out, stk_array *array, const stk_array_box *box,
                            char *values, uint64_t count, uint64_t itemsize, stk_error *err)
{
    stk_array_texts *texts = NULL;
    stk_status status;

    if (itemsize) {
        status = stk_array_read(array, box, values, count * itemsize, NULL, -1, err);
        if (status == STK_OK)
            write_values(out, values, count, itemsize);
        return status;
    }
    status = stk_array_read_texts(array, box, -1, &texts, err);
    for (uint64_t i = 0; status == STK_OK && i < count && !out->failed; i++) {
        const stk_array_string one = {texts->values + texts->offsets[i],
                                      texts->offsets[i + 1] - texts->offsets[i]};
        write_one(out, &one);
    }
    stk_array_texts_destroy(&texts);
    return status;
}

static int write_part(struct output *out, stk_array *array, const struct part *part)
{
    const uint32_t rank = part->info->rank;
    int64_t at[STK_ARRAY_MAX_RANK] = {0}, start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK];
    const stk_array_box box = {start, shape, part->step};
    stk_error err;

    if (part->empty)
        return CLI_GO_ON;
    const struct pace pace = choose_pace(part);
    char *values = malloc((size_t)pace.bytes + 1);
    if (!values) {
        cli_error("no memory for %" PRIu64 " bytes of values", pace.bytes);
        return CLI_FAILED;
    }
    int code = CLI_GO_ON;
    for (bool more = true; more && code == CLI_GO_ON;) {
        uint64_t count = 1;
        for (uint32_t d = 0; d < rank; d++) {
            start[d] = part->start[d] + at[d] * part->step[d];
            shape[d] = d < pace.axis ? 1 : part->shape[d];
        }
        if (rank)
            shape[pace.axis] = rows_now(part, &pace, at);
        for (uint32_t d = 0; d < rank; d++)
            count *= (uint64_t)shape[d];
        stk_status status = write_box(out, array, &box, values, count, part->info->itemsize, &err);
        if (status != STK_OK)
            code = cli_fail(out->cli, status, &err);
        if (cli_interrupted())
            code = cli_interrupted();
        else if (out->failed)
            code = CLI_FAILED;
        more = false;
        for (uint32_t d = rank ? pace.axis + 1 : 0; d-- > 0 && !more;) {
            at[d] += d == pace.axis ? shape[d] : 1;
            more = at[d] < part->shape[d];
            at[d] = more ? at[d] : 0;
        }
    }
    free(values);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static void cancel(void *array)
{
    stk_array_cancel(array);
}

static int cat(struct cli *cli, stk_array *array, const struct cat_options *options)
{
    struct output out = {.cli = cli, .array = array, .dump = (enum dump)options->dump};
    struct part part = {.info = stk_array_get_info(array)};
    char text[65];

    int code = take_slice(options->slice, &part);
    if (code == CLI_GO_ON && !part.info->itemsize && out.dump != DUMP_TEXT) {
        cli_error("the elements of type '%s' vary in length; they are written with --dump text",
                  part.info->type_name);
        code = CLI_FAILED;
    }
    if (code == CLI_GO_ON && out.dump == DUMP_NPY)
        code = write_npy_header(&out, &part);
    sha256_init(&out.hash);
    if (code == CLI_GO_ON)
        code = write_part(&out, array, &part);
    if (code != CLI_GO_ON)
        return code;
    if (out.dump == DUMP_SHA256) {
        sha256_text(&out.hash, text);
        fprintf(cli->out, "%s\n", text);
    }
    return CLI_GOOD;
}

static int cat_array(struct cli *cli, stk_array *array, const struct cat_options *options)
{
    if (cli->format != CLI_TABLE) {
        cli_error("format: values are written as --dump says: text, raw, npy, sha256 or dates");
        return CLI_USAGE;
    }
    cli_signals_install();
    cli_on_interrupt(cancel, array);
    const int code = cat(cli, array, options);
    cli_on_interrupt(NULL, NULL);
    return code;
}

/* Samples of a dataset: --slice is of its one axis. */
static int cat_dataset(struct cli *cli, stk_dataset **dataset, const struct cat_options *options)
{
    stk_dataset_info about = {.struct_size = sizeof about};

    stk_dataset_get_info(*dataset, &about);
    const int64_t size = (int64_t)about.size;
    const stk_array_info axis = {.struct_size = sizeof axis, .rank = 1, .shape = &size};
    struct part part = {.info = &axis};
    if (options->dump != DUMP_TEXT) {
        cli_error("dump: samples of a dataset are written as --format says: table, json or csv");
        return CLI_USAGE;
    }
    const int code = take_slice(options->slice, &part);
    if (code != CLI_GO_ON)
        return code;
    struct cat_part rows = {(uint64_t)part.start[0], (uint64_t)part.shape[0],
                            (uint64_t)part.step[0], about.size, false};
    if (!options->slice && cli->format == CLI_TABLE && rows.count > CAT_FIRST_ROWS) {
        rows.count = CAT_FIRST_ROWS;
        rows.first_rows = true;
    }
    return cat_rows(cli, dataset, &rows);
}

/* Whether it is a dataset of another kind than arrays: then its failure is that of the dataset. */
static bool is_dataset(stk_context *context, const char *spec)
{
    const stk_driver_head *head;
    char *path = strndup(spec, strcspn(spec, "?")); /* without options; a URL may need its query */
    bool found = false;

    for (size_t i = 0; path && !found && (head = stk_driver_at(context, STK_DRIVER_DATASET, i));
         i++) {
        const stk_dataset_ops *kind = (const stk_dataset_ops *)head;
        found = strcmp(head->name, "array") != 0 && kind->recognise &&
                (kind->recognise(context, path) > 0 || kind->recognise(context, spec) > 0);
    }
    free(path);
    return found;
}

/* An array, or else a dataset. */
static int open_and_cat(struct cli *cli, stk_context *context, const char *spec,
                        const struct cat_options *options, const stk_array_options *how)
{
    const bool named =
        !options->array_path && strncmp(spec, "array:", 6) != 0 && cli_names_dataset(context, spec);
    stk_dataset *dataset = NULL;
    stk_array *array = NULL;
    stk_error err, other;
    int code;

    if (!named && stk_array_open(context, cli_array_url(spec), how, &array, &err) == STK_OK) {
        code = cat_array(cli, array, options);
    } else if (!named && stk_array_recognise(context, cli_array_url(spec), NULL) > 1) {
        code = cli_array_fail(cli, context, spec, err.status, &err);
    } else if (!options->array_path &&
               stk_dataset_open_with_nulls(context, spec, &dataset, &other) == STK_OK) {
        code = cat_dataset(cli, &dataset, options);
    } else if (named || (!options->array_path && is_dataset(context, spec))) {
        code = cli_fail(cli, other.status, &other);
    } else {
        code = cli_array_fail(cli, context, spec, err.status, &err);
    }
    stk_array_close(&array);
    stk_dataset_close(&dataset);
    return code;
}

int cli_cat(struct cli *cli)
{
    struct cat_options options;
    stk_array_options how;
    stk_context *context;

    int code = cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, &table, 0, &options);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("array"), 0, &how);
    if (code != CLI_GO_ON)
        return code;
    if ((cli->num_args != 0) == (options.array_path != NULL)) {
        cli_error("%s ('stoker cat --help' shows how)",
                  cli->num_args ? "ARRAY and --array-path name two arrays; give one"
                                : "name an array or a dataset");
        return CLI_USAGE;
    }
    code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    return open_and_cat(cli, context, cli_home(cli->num_args ? cli->args[0] : options.array_path),
                        &options, &how);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stoker convert: a dataset of small pictures with labels -> the IDX files of MNIST. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define IDX_LABELS 0x801u
#define IDX_IMAGES 0x803u
#define BATCH      1024

static const struct cli_usage usage = {
    .name = "convert",
    .synopsis = "SRC DST [options]",
    .about = "Write the pictures (uint8, one channel) and labels of the dataset SRC as IDX files, "
             "the format of\n"
             "MNIST, into the folder DST, which is made where it is missing. Where SRC has the "
             "splits train and\n"
             "test, both are written. A file appears under its name when it is complete and safe "
             "on the disk.\n",
    .examples = "  stoker convert digits: digits\n"
                "  stoker convert 'digits:?split=test&size=1000' small\n",
    .tables = (cli_table_fn *const[]){cli_context_table, NULL},
    .min_args = 2,
    .max_args = 2,
};

/* One file on its way. */
struct output {
    FILE *file;
    char path[PATH_MAX];    /* its name when it is complete */
    char partial[PATH_MAX]; /* its name until then */
};

static int fail_file(const char *what, const char *path)
{
    cli_error("could not %s %s: %s", what, path, strerror(errno));
    return CLI_FAILED;
}

static void put_u32(FILE *out, uint64_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(value >> shift & 0xff), out);
}

static int output_begin(struct output *out, const char *folder, const char *split, const char *name)
{
    out->file = NULL;
    snprintf(out->path, sizeof out->path, "%s/%s-%s", folder, split, name);
    if (snprintf(out->partial, sizeof out->partial, "%s/.%s-%s.partial-%ld", folder, split, name,
                 (long)getpid()) >= (int)sizeof out->partial) {
        cli_error("the path %s is too long", folder);
        return CLI_FAILED;
    }
    int fd = open(out->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    out->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!out->file) {
        int code = fail_file("write", out->partial);
        if (fd >= 0)
            close(fd);
        return code;
    }
    return CLI_GO_ON;
}

/* Safe on the disk, then under its name. A file that cannot be made safe is thrown away. */
static int output_commit(struct output *out)
{
    FILE *file = out->file;
    bool good = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;

    out->file = NULL;
    if (fclose(file) != 0 || !good || rename(out->partial, out->path) != 0) {
        int code = fail_file("write", out->path);
        unlink(out->partial);
        return code;
    }
    return CLI_GO_ON;
}

static void output_abandon(struct output *out)
{
    if (!out->file)
        return;
    fclose(out->file);
    unlink(out->partial);
    out->file = NULL;
}

static const stk_field *find_field(const stk_dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->num_fields; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return &dataset->fields[i];
    return NULL;
}

/* Whether IDX can hold it. */
static int check(const char *spec, const stk_dataset *dataset)
{
    const stk_field *image = find_field(dataset, "image"), *label = find_field(dataset, "label");
    const char *what = NULL;

    if (!image || image->dtype != STK_UINT8 || image->layout != STK_FIXED)
        what = "it has no field 'image' of uint8 and one shape";
    else if (!(image->rank == 2 || (image->rank == 3 && image->shape[2] == 1)) ||
             image->shape[0] < 1 || image->shape[1] < 1)
        what = "its pictures have more than one channel";
    else if (!label || label->dtype != STK_INT64 || label->rank != 0)
        what = "it has no field 'label' with one int64 for each sample";
    else if (dataset->size > UINT32_MAX)
        what = "it has more than 4,294,967,295 samples";
    if (!what)
        return CLI_GO_ON;
    cli_error("%s cannot be written as IDX: %s", spec, what);
    return CLI_FAILED;
}

static int write_batch(const stk_batch *batch, struct output *images, struct output *labels)
{
    stk_tensor image, label;
    uint64_t count = stk_batch_count(batch);
    unsigned char bytes[BATCH];

    if (stk_batch_find(batch, "image", &image) != STK_OK ||
        stk_batch_find(batch, "label", &label) != STK_OK)
        return CLI_FAILED;
    size_t size = (size_t)image.shape[1] * (size_t)image.shape[2];
    for (uint64_t i = 0; i < count; i++) {
        int64_t value = ((const int64_t *)label.data)[i];
        if (value < 0 || value > UINT8_MAX) {
            cli_error("the label %" PRId64 " does not fit IDX, which keeps one byte for each",
                      value);
            return CLI_FAILED;
        }
        bytes[i] = (unsigned char)value;
    }
    if (fwrite(image.data, size, count, images->file) != count ||
        fwrite(bytes, 1, count, labels->file) != count)
        return fail_file("write", images->path);
    return CLI_GO_ON;
}

static void cancel(void *loader)
{
    stk_loader_cancel(loader);
}

static int write_samples(struct cli *cli, stk_dataset *dataset, struct output *images,
                         struct output *labels)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;
    uint64_t done = 0;
    int code = CLI_GO_ON;

    stk_loader_options_init(&options);
    options.batch_size = BATCH;
    options.epochs = 1;
    stk_status status = stk_loader_create(dataset, &options, &loader, &err);
    if (status == STK_OK)
        cli_on_interrupt(cancel, loader);
    while (status == STK_OK && code == CLI_GO_ON) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status != STK_OK)
            break;
        code = write_batch(batch, images, labels);
        done += stk_batch_count(batch);
        stk_batch_release(&batch);
        cli_console_progress(cli, images->path, done, dataset->size);
    }
    cli_on_interrupt(NULL, NULL);
    stk_loader_destroy(&loader);
    if (code != CLI_GO_ON)
        return code;
    return status == STK_EOS ? CLI_GO_ON : cli_fail(cli, status, &err);
}

static int convert_split(struct cli *cli, const char *spec, stk_dataset *dataset,
                         const char *folder, const char *split)
{
    struct output images = {0}, labels = {0};

    int code = check(spec, dataset);
    if (code == CLI_GO_ON)
        code = output_begin(&images, folder, split, "images-idx3-ubyte");
    if (code == CLI_GO_ON)
        code = output_begin(&labels, folder, split, "labels-idx1-ubyte");
    if (code == CLI_GO_ON) {
        const stk_field *image = find_field(dataset, "image");
        put_u32(images.file, IDX_IMAGES);
        put_u32(images.file, dataset->size);
        put_u32(images.file, (uint64_t)image->shape[0]);
        put_u32(images.file, (uint64_t)image->shape[1]);
        put_u32(labels.file, IDX_LABELS);
        put_u32(labels.file, dataset->size);
        code = write_samples(cli, dataset, &images, &labels);
    }
    if (code == CLI_GO_ON)
        code = output_commit(&images);
    if (code == CLI_GO_ON)
        code = output_commit(&labels);
    output_abandon(&images);
    output_abandon(&labels);
    if (code == CLI_GO_ON && !cli->quiet)
        fprintf(cli->out, "%s/%s-*: %" PRIu64 " samples\n", folder, split, dataset->size);
    return code;
}

/* Renames are safe once the folder is. */
static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = fd >= 0 && fsync(fd) == 0 ? CLI_GOOD : fail_file("make safe", folder);

    if (fd >= 0)
        close(fd);
    return code;
}

/* SPEC with the split added, for a dataset that has splits and where none is given; NULL when
 * memory is out. */
static char *with_split(const char *spec, const char *split)
{
    char *text = NULL;

    if (asprintf(&text, "%s%csplit=%s", spec, strchr(spec, '?') ? '&' : '?', split) < 0)
        return NULL;
    return text;
}

static int convert(struct cli *cli, stk_context *context, const char *spec, const char *folder)
{
    static const char *const splits[][2] = {{"train", "train"}, {"test", "t10k"}};
    stk_dataset *dataset = NULL;
    stk_error err;
    int code = CLI_GO_ON;
    bool given = strstr(spec, "split=") != NULL;

    for (int i = 0; i < 2 && code == CLI_GO_ON && !given; i++) {
        char *text = with_split(spec, splits[i][0]);
        stk_status status = text ? stk_dataset_open(context, text, &dataset, &err) : STK_ENOMEM;
        free(text);
        if (status == STK_EINVAL && i == 0) {
            /* It may have no splits: what it is then is found out below. */
            given = true;
            break;
        }
        code = status == STK_OK ? convert_split(cli, spec, dataset, folder, splits[i][1])
                                : cli_fail(cli, status, &err);
        stk_dataset_close(&dataset);
    }
    if (!given || code != CLI_GO_ON)
        return code;
    stk_status status = stk_dataset_open(context, spec, &dataset, &err);
    code = status == STK_OK ? convert_split(cli, spec, dataset, folder,
                                            strstr(spec, "split=test") ? "t10k" : "train")
                            : cli_fail(cli, status, &err);
    stk_dataset_close(&dataset);
    return code;
}

int cli_convert(struct cli *cli)
{
    stk_context *context = NULL;

    int code = cli_parse(cli, &usage);
    if (code == CLI_GO_ON)
        code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    if (mkdir(cli->args[1], 0777) != 0 && errno != EEXIST)
        return fail_file("make the folder", cli->args[1]);
    code = convert(cli, context, cli->args[0], cli->args[1]);
    return code == CLI_GO_ON ? sync_folder(cli->args[1]) : code;
}

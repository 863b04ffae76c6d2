/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of one channel and their labels as IDX files, the format of MNIST [yann.lecun.com]. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/samples.h"
#include "dataset/dataset.h"

#define IDX_LABELS 0x801u
#define IDX_IMAGES 0x803u
#define BATCH      1024
#define MAX_PATH   4096

/* One file on its way. */
typedef struct output {
    int fd;                 /* -1: closed */
    char path[MAX_PATH];    /* its name when it is complete */
    char partial[MAX_PATH]; /* its name until then */
} output;

/* The two files of a split. */
typedef struct split {
    stk_conversion *conversion;
    stk_dataset *dataset;
    output images, labels;
} split;

static stk_status fail_file(const char *what, const char *path, stk_error *err)
{
    int error = errno;

    return stk__fail_at(err, stk__status_of_errno(error), STK_STAGE_CONVERT, path, STK_NO_OFFSET,
                        "could not %s %.300s: %s", what, path, strerror(error));
}

/* ---- Files ----------------------------------------------------------------------------------- */

static stk_status output_begin(output *out, const char *folder, const char *name,
                               const char *ending, stk_error *err)
{
    snprintf(out->path, sizeof out->path, "%s/%s-%s", folder, name, ending);
    if (snprintf(out->partial, sizeof out->partial, "%s/.%s-%s.partial-%ld", folder, name, ending,
                 (long)getpid()) >= (int)sizeof out->partial)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_CONVERT, "the path %.200s is too long", folder);
    out->fd = open(out->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return out->fd >= 0 ? STK_OK : fail_file("write", out->partial, err);
}

static stk_status output_write(output *out, const void *data, size_t size, stk_error *err)
{
    for (const char *at = data; size > 0;) {
        ssize_t n = write(out->fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_file("write", out->path, err);
        at += n;
        size -= (size_t)n;
    }
    return STK_OK;
}

/* Safe on the disk, then under its name. A file that cannot be made safe is thrown away. */
static stk_status output_commit(output *out, stk_error *err)
{
    bool good = fsync(out->fd) == 0;

    good = close(out->fd) == 0 && good;
    out->fd = -1;
    if (good && rename(out->partial, out->path) == 0)
        return STK_OK;
    stk_status status = fail_file("write", out->path, err);
    stk__remove_path(out->partial);
    return status;
}

static void output_abandon(output *out)
{
    if (out->fd < 0)
        return;
    close(out->fd);
    stk__remove_path(out->partial);
    out->fd = -1;
}

/* Renames are safe once the folder is, and a new folder once the one above it is. */
static stk_status sync_folder(const char *folder, bool made, stk_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int above = fd >= 0 && made ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool good = fd >= 0 && fsync(fd) == 0 && (!made || (above >= 0 && fsync(above) == 0));
    stk_status status = good ? STK_OK : fail_file("make safe", folder, err);

    if (above >= 0)
        close(above);
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static bool idx_accepts(const stk_dataset *dataset, const char **why)
{
    const stk_field *image = stk__convert_field(dataset, "image");
    const stk_field *label = stk__convert_field(dataset, "label");

    *why = NULL;
    if (!image || image->dtype != STK_UINT8 || image->layout != STK_FIXED)
        *why = "has no field 'image' of uint8 and one shape";
    else if (!(image->rank == 2 || (image->rank == 3 && image->shape[2] == 1)) ||
             image->shape[0] < 1 || image->shape[1] < 1 || image->shape[0] > UINT32_MAX ||
             image->shape[1] > UINT32_MAX)
        *why = "has pictures with more than one channel";
    else if (!label || label->dtype != STK_INT64 || label->layout != STK_FIXED || label->rank != 0)
        *why = "has no field 'label' with one int64 for each sample";
    else if (dataset->size > UINT32_MAX)
        *why = "has more than 4,294,967,295 samples";
    return !*why;
}

static void put_u32(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static stk_status write_heads(split *s, stk_error *err)
{
    const stk_field *image = stk__convert_field(s->dataset, "image");
    uint8_t head[16];

    put_u32(head, IDX_LABELS);
    put_u32(head + 4, s->dataset->size);
    STK_TRY(output_write(&s->labels, head, 8, err));
    put_u32(head, IDX_IMAGES);
    put_u32(head + 8, (uint64_t)image->shape[0]);
    put_u32(head + 12, (uint64_t)image->shape[1]);
    return output_write(&s->images, head, 16, err);
}

static stk_status write_group(split *s, const stk__samples *samples, size_t count, stk_error *err)
{
    const stk_field *image = stk__convert_field(s->dataset, "image");
    const stk_field *label = stk__convert_field(s->dataset, "label");
    size_t size = (size_t)stk_field_bytes(image);
    uint8_t bytes[BATCH];

    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, stk__samples_value(samples, i, (uint32_t)(label - s->dataset->fields)),
               sizeof value);
        if (value < 0 || value > UINT8_MAX)
            return stk__fail(
                err, STK_EKIND, STK_STAGE_CONVERT,
                "the label %" PRId64 " does not fit IDX, which keeps one byte for each", value);
        bytes[i] = (uint8_t)value;
        STK_TRY(output_write(&s->images,
                             stk__samples_value(samples, i, (uint32_t)(image - s->dataset->fields)),
                             size, err));
    }
    return output_write(&s->labels, bytes, count, err);
}

static stk_status write_samples(split *s, stk_error *err)
{
    stk_conversion *c = s->conversion;
    stk__samples samples;

    STK_TRY(
        stk__samples_init(s->dataset, STK_MIN(BATCH, STK_MAX(s->dataset->size, 1)), &samples, err));
    stk_status status = STK_OK;
    for (uint64_t done = 0; status == STK_OK && done < s->dataset->size;) {
        size_t count = (size_t)STK_MIN(BATCH, s->dataset->size - done);
        if (atomic_load(&c->canceled)) {
            status = stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                               "the conversion to %.200s was stopped", c->target);
            break;
        }
        status = stk__samples_take(&samples, done, count, err);
        if (status == STK_OK)
            status = write_group(s, &samples, count, err);
        done += count;
        stk__progress(c->context, s->images.path, done, s->dataset->size);
    }
    stk__samples_release(&samples);
    return status;
}

static stk_status convert_split(stk_conversion *c, stk_dataset *dataset, const char *name,
                                stk_conversion_report *report, stk_error *err)
{
    const char *why;

    if (!idx_accepts(dataset, &why))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                         "%.200s cannot be written as IDX: it %s", c->source, why);
    split *s = stk__calloc(c->context, 1, sizeof *s);
    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for two files");
    *s = (split){.conversion = c, .dataset = dataset, .images.fd = -1, .labels.fd = -1};
    stk_status status = output_begin(&s->images, c->target, name, "images-idx3-ubyte", err);
    if (status == STK_OK)
        status = output_begin(&s->labels, c->target, name, "labels-idx1-ubyte", err);
    if (status == STK_OK)
        status = write_heads(s, err);
    if (status == STK_OK)
        status = write_samples(s, err);
    if (status == STK_OK)
        status = output_commit(&s->images, err);
    if (status == STK_OK)
        status = output_commit(&s->labels, err);
    output_abandon(&s->images);
    output_abandon(&s->labels);
    stk__free(c->context, s);
    report->total += status == STK_OK ? dataset->size : 0;
    report->encoded = report->total;
    return status;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static stk_status open_split(stk_conversion *c, const char *name, stk_dataset **out, stk_error *err)
{
    char *spec = stk__format(c->context, "%s%csplit=%s", c->source,
                             strchr(c->source, '?') ? '&' : '?', name);

    if (!spec)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the name of a split");
    stk_status status = stk_dataset_open(c->context, spec, out, err);
    stk__free(c->context, spec);
    return status;
}

/* Where the source has the splits train and test and names none, both are written. */
static stk_status convert_splits(stk_conversion *c, stk_conversion_report *report, stk_error *err)
{
    static const char *const splits[][2] = {{"train", "train"}, {"test", "t10k"}};
    bool given = strstr(c->source, "split=") != NULL;

    for (size_t i = 0; i < STK_COUNT(splits) && !given; i++) {
        stk_dataset *dataset = NULL;
        stk_status status = open_split(c, splits[i][0], &dataset, err);
        /* The source itself opened: it has no splits. */
        given = status == STK_EINVAL && i == 0;
        if (given)
            break;
        if (status == STK_OK)
            status = convert_split(c, dataset, splits[i][1], report, err);
        stk_dataset_close(&dataset);
        STK_TRY(status);
    }
    if (!given)
        return STK_OK;
    stk_error_init(err);
    return convert_split(c, c->dataset, strstr(c->source, "split=test") ? "t10k" : "train", report,
                         err);
}

static stk_status idx_run(stk_conversion *c, const stk_convert_options *options, const void *own,
                          stk_conversion_report *report, stk_error *err)
{
    const bool made = mkdir(c->target, 0777) == 0;

    if (!made && errno != EEXIST)
        return fail_file("make the folder", c->target, err);
    stk_status status = convert_splits(c, report, err);
    if (status == STK_OK)
        status = sync_folder(c->target, made, err);
    /* A folder with one split done is worth keeping: only an empty one goes. */
    if (status != STK_OK && made)
        stk__remove_folder_path(c->target);
    return status;
}

static const char *const ignored[] = {"overwrite",  "num_workers", "memory_budget",
                                      "verify",     "on_error",    "checkpoint",
                                      "max_pixels", "max_blocks",  NULL};

const stk__converter stk__convert_idx = {
    .shown = {.struct_size = sizeof(stk_converter),
              .name = "idx",
              .from = "small pictures of one channel with labels (digits:, mnist:, npy:)",
              .to = "IDX files"},
    .ignores = ignored,
    .accepts = idx_accepts,
    .run = idx_run,
};

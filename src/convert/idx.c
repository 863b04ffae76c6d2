/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of one channel and their labels as IDX files, the format of MNIST [yann.lecun.com]. A
 * split is there once its labels are: they go first where they are replaced, and come last, so that
 * no kill or power cut leaves labels next to the pictures of others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/url.h"
#include "convert/samples.h"
#include "dataset/dataset.h"
#include "store/store.h"

#define IDX_LABELS 0x801u
#define IDX_IMAGES 0x803u
#define BATCH      1024

/* Where the splits go. */
typedef struct split_target {
    stk_store *store;
    char prefix[STK_MAX_OBJECT_KEY]; /* of its keys */
    bool overwrite;                  /* whether files of other data may be replaced */
} split_target;

#define HELD ((uint64_t)1 << 20) /* bytes of a file that are read to be compared */

/* What is there already of a file. */
typedef struct old_file {
    uint64_t size, at; /* bytes of it, and those that were compared */
    uint8_t *held;     /* the HELD of them that `at` is in; NULL: nothing is there */
} old_file;

/* The two files of a split on their way. */
typedef struct split {
    const stk_conversion_job *job;
    stk_dataset *dataset;
    const split_target *to;
    char image_key[STK_MAX_OBJECT_KEY], label_key[STK_MAX_OBJECT_KEY];
    stk_store_call call;      /* of both puts */
    stk_put *images, *labels; /* NULL: ended */
    old_file old_images, old_labels;
} split;

/* ---- Files ----------------------------------------------------------------------------------- */

/* Look for the file that would be replaced, where it may not be. */
static stk_status find_old(const split *s, const char *key, old_file *old, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_error own;

    if (s->to->overwrite)
        return STK_OK;
    const stk_status status = stk_store_stat(s->to->store, key, NULL, &info, &own);
    if (status == STK_ENOENT)
        return STK_OK;
    if (status != STK_OK) {
        if (err)
            *err = own;
        return status;
    }
    old->size = info.size;
    old->held = stk__alloc(s->job->context, STK_MIN(STK_MAX(info.size, 1), HELD));
    return old->held ? STK_OK
                     : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                 "no memory to compare '%.200s' with what is there", key);
}

/* Whether its next `size` bytes are these. */
static stk_status holds(const split *s, const char *key, old_file *old, const uint8_t *bytes,
                        size_t size, bool *same, stk_error *err)
{
    *same = size <= old->size - old->at;
    for (size_t n; *same && size > 0; bytes += n, size -= n, old->at += n) {
        const uint64_t within = old->at % HELD;
        if (within == 0)
            STK_TRY(stk_store_read(s->to->store, key, old->at, STK_MIN(old->size - old->at, HELD),
                                   old->held, err));
        n = (size_t)STK_MIN(size, HELD - within);
        *same = memcmp(old->held + within, bytes, n) == 0;
    }
    return STK_OK;
}

/* A file that is there may be written again, but not replaced by another: it may be the data of
 * someone, or the source itself. */
static stk_status write_part(split *s, bool images, const void *bytes, size_t size, stk_error *err)
{
    stk_put *put = images ? s->images : s->labels;
    old_file *old = images ? &s->old_images : &s->old_labels;
    const char *key = images ? s->image_key : s->label_key;

    bool same = true;
    if (old->held)
        STK_TRY(holds(s, key, old, bytes, size, &same, err));
    if (!same)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, key, STK_NO_OFFSET,
                            "the target %.200s has a file %s of other data; choose a new folder, "
                            "or set overwrite to replace it",
                            s->job->target, key);
    return put->ops->write(put, bytes, size, err);
}

static stk_status begin_files(split *s, const char *name, stk_error *err)
{
    char file[64];

    snprintf(file, sizeof file, "%s-images-idx3-ubyte", name);
    STK_TRY(stk__key_below(s->to->prefix, file, s->image_key, err));
    snprintf(file, sizeof file, "%s-labels-idx1-ubyte", name);
    STK_TRY(stk__key_below(s->to->prefix, file, s->label_key, err));
    STK_TRY(find_old(s, s->image_key, &s->old_images, err));
    STK_TRY(find_old(s, s->label_key, &s->old_labels, err));
    /* How long the samples take is not known; whoever waits may cancel. */
    s->call = (stk_store_call){
        .struct_size = sizeof s->call, .canceled = stk__convert_canceled, .user = (void *)s->job};
    STK_TRY(stk__store_put_begin(s->to->store, s->image_key, &s->call, &s->images, err));
    return stk__store_put_begin(s->to->store, s->label_key, &s->call, &s->labels, err);
}

static stk_status commit_files(split *s, stk_error *err)
{
    stk__presence labels;

    STK_TRY(stk__store_look(s->to->store, s->label_key, &labels, err));
    if (labels != STK__IS_NOTHING)
        STK_TRY(stk__store_remove(s->to->store, s->label_key, err));
    STK_TRY(stk__store_put_commit(&s->images, err));
    return stk__store_put_commit(&s->labels, err);
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
    STK_TRY(write_part(s, false, head, 8, err));
    put_u32(head, IDX_IMAGES);
    put_u32(head + 8, (uint64_t)image->shape[0]);
    put_u32(head + 12, (uint64_t)image->shape[1]);
    return write_part(s, true, head, 16, err);
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
        STK_TRY(write_part(s, true,
                           stk__samples_value(samples, i, (uint32_t)(image - s->dataset->fields)),
                           size, err));
    }
    return write_part(s, false, bytes, count, err);
}

static stk_status write_samples(split *s, stk_error *err)
{
    const stk_conversion_job *c = s->job;
    stk__samples samples;

    STK_TRY(
        stk__samples_init(s->dataset, STK_MIN(BATCH, STK_MAX(s->dataset->size, 1)), &samples, err));
    stk_status status = STK_OK;
    for (uint64_t done = 0; status == STK_OK && done < s->dataset->size;) {
        size_t count = (size_t)STK_MIN(BATCH, s->dataset->size - done);
        status = c->canceled(c) ? STK_ECANCELED : stk__samples_take(&samples, done, count, err);
        if (status == STK_OK)
            status = write_group(s, &samples, count, err);
        done += count;
        stk__progress(c->context, s->image_key, done, s->dataset->size);
    }
    stk__samples_release(&samples);
    return status;
}

static stk_status convert_split(const stk_conversion_job *c, stk_dataset *dataset,
                                const split_target *to, const char *name,
                                stk_conversion_report *report, stk_error *err)
{
    split s = {.job = c, .dataset = dataset, .to = to};
    const char *why;

    if (!idx_accepts(dataset, &why))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_CONVERT,
                         "%.200s cannot be written as IDX: it %s", c->source, why);
    stk_status status = begin_files(&s, name, err);
    if (status == STK_OK)
        status = write_heads(&s, err);
    if (status == STK_OK)
        status = write_samples(&s, err);
    if (status == STK_OK)
        status = commit_files(&s, err);
    stk__store_put_abandon(&s.images);
    stk__store_put_abandon(&s.labels);
    if (status == STK_ECANCELED)
        stk__fail(err, status, STK_STAGE_CONVERT, "the conversion to %.200s was stopped",
                  c->target);
    stk__free(c->context, s.old_images.held);
    stk__free(c->context, s.old_labels.held);
    report->total += status == STK_OK ? dataset->size : 0;
    report->encoded = report->total;
    return status;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static stk_status open_split(const stk_conversion_job *c, const char *name, stk_dataset **out,
                             stk_error *err)
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
static stk_status convert_splits(const stk_conversion_job *c, const split_target *target,
                                 stk_conversion_report *report, stk_error *err)
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
            status = convert_split(c, dataset, target, splits[i][1], report, err);
        stk_dataset_close(&dataset);
        STK_TRY(status);
    }
    if (!given)
        return STK_OK;
    stk_error_init(err);
    return convert_split(c, c->dataset, target, strstr(c->source, "split=test") ? "t10k" : "train",
                         report, err);
}

/* Length of the first folder on the way to a path that is not there; longer than it: all are. */
static size_t first_missing(char *path)
{
    size_t length = strspn(path, "/");
    struct stat st;

    for (bool there = true; there && path[length];) {
        length += strcspn(path + length, "/");
        const char end = path[length];
        path[length] = 0;
        there = stat(path, &st) == 0;
        path[length] = end;
        if (!there)
            return length;
        length += strspn(path + length, "/");
    }
    return SIZE_MAX;
}

/* Remove the folders from there on, as far as they are empty. */
static void remove_made(char *path, size_t first)
{
    char *slash = path;

    while (slash && strlen(path) >= first &&
           (stk__remove_folder_path(path) == 0 || errno == ENOENT))
        if ((slash = strrchr(path, '/')))
            *slash = 0;
}

static stk_status idx_run(const stk_conversion_job *c, stk_conversion_report *report,
                          stk_error *err)
{
    split_target target = {.overwrite = c->options->overwrite};
    char *path;

    STK_TRY(stk__url_local(c->context, c->target, &path, err));
    const size_t first = stk__url_elsewhere(c->context, c->target) ? SIZE_MAX : first_missing(path);
    stk_status status =
        stk__put_folder_open(c->context, c->target, &target.store, target.prefix, err);
    if (status == STK_OK)
        status = convert_splits(c, &target, report, err);
    stk_store_close(&target.store);
    /* A folder with one split done is worth keeping: only empty ones go. */
    if (status != STK_OK)
        remove_made(path, first);
    stk__free(c->context, path);
    return status;
}

const stk_converter_ops stk__convert_idx = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "idx",
    .from = "small pictures of one channel with labels (digits:, mnist:, npy:)",
    .doc = "IDX files",
    .ignores = stk__convert_heeds_overwrite,
    .accepts = idx_accepts,
    .run = idx_run,
};

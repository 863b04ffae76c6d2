/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images: JPEG and PNG files, encoded as they are: decoding is the first transform. From a folder
 * of class folders as torchvision's ImageFolder has it, from a list file, from a folder and a table
 * of labels, or from two folders of pictures and their masks. A group of Zarr is packed pictures
 * (packed.c).
 */
#include <stdio.h>

#include "base/text.h"
#include "codec/image/image.h"
#include "dataset/images_dataset.h"

#define COST_NS      20000.0 /* of preparing a picture: to begin, and of each byte */
#define COST_BYTE_NS 8.0

#define AT(member) offsetof(stk__images_options, table.member)

static const stk_option images_option_list[] = {
    {.name = "masks",
     .type = STK_OPTION_STRING,
     .offset = offsetof(stk__images_options, masks),
     .metavar = "DIR",
     .doc = "Folder of masks: the mask of a picture has its path, whatever the extension. Class "
            "folders then mean nothing."},
    {.name = "root",
     .type = STK_OPTION_STRING,
     .offset = offsetof(stk__images_options, root),
     .metavar = "DIR",
     .doc = "Folder that the paths of a list file begin in; else that of the list."},
    {.name = "index",
     .type = STK_OPTION_STRING,
     .offset = offsetof(stk__images_options, index),
     .initial = "auto",
     .metavar = "auto|none|FILE",
     .doc =
         "Where the listing of a folder is kept, so that opening it again takes no time: auto "
         "is " STK__IMAGES_INDEX " in a local folder, and the folder of a cache (cache+URL); none "
         "lists it each time. Name a FILE outside the folder. Files changed in place keep their "
         "folder's time: touch it after that."},
    {.name = "index_age",
     .type = STK_OPTION_DURATION,
     .offset = offsetof(stk__images_options, index_age),
     .initial = "86400",
     .min = 0,
     .max = 1e9,
     .doc = "How long the kept listing of a folder of another machine is believed, which no time "
            "tells to be old; 0: it is listed each time. An object that was replaced or removed "
            "since then is an error of its sample."},
    {.name = "allow_empty",
     .type = STK_OPTION_BOOL,
     .offset = offsetof(stk__images_options, allow_empty),
     .initial = "false",
     .doc = "Take class folders without pictures for classes; else they are an error."},
    {.name = "labels",
     .type = STK_OPTION_STRING,
     .offset = AT(labels),
     .metavar = "FILE",
     .doc =
         "Table of labels, a .csv, .tsv, .jsonl, .parquet or .arrow file: from the folder of the "
         "pictures on, or a path from / or a URL. Class folders then mean nothing."},
    {.name = "file_column",
     .type = STK_OPTION_STRING,
     .offset = AT(file_column),
     .metavar = "COLUMN",
     .doc = "Column of the table that names the files: paths from the folder on or names alone, "
            "with or without extension; else file_name, filename, path, image, image_id, id, or "
            "the only text."},
    {.name = "label_columns",
     .type = STK_OPTION_STRING,
     .offset = AT(label_columns),
     .metavar = "COLUMN,...",
     .doc = "Columns of the table that are the label; else the only other one, the one called "
            "label, target, class or y, or all where they are floats, or 0 and 1."},
    {.name = "label_type",
     .type = STK_OPTION_ENUM,
     .offset = AT(type),
     .initial = "auto",
     .choices = "auto|class|value|multi",
     .doc = "What a label is: one class, int64; numbers, float32; several classes each, float32 of "
            "0 and 1. auto: texts and single integers are classes, all others numbers."},
    {.name = "label_separator",
     .type = STK_OPTION_STRING,
     .offset = AT(separator),
     .metavar = "SIGN|space|tab",
     .doc = "A text holds the names of several classes, with this between them."},
    {.name = "missing",
     .type = STK_OPTION_ENUM,
     .offset = AT(missing),
     .initial = "fail",
     .choices = "fail|drop",
     .doc = "What becomes of pictures that the table has no label of, and of its rows without a "
            "picture: an error, or both are left out."},
    {.name = "duplicates",
     .type = STK_OPTION_ENUM,
     .offset = AT(duplicates),
     .initial = "fail",
     .choices = "fail|first",
     .doc = "What becomes of rows that name a picture again: an error, or the first counts."},
};

static const stk_option_table images_table = {
    .name = "images",
    .doc = "Folders and lists of JPEG and PNG files.",
    .struct_size = sizeof(stk__images_options),
    .options = images_option_list,
    .count = STK_COUNT(images_option_list),
};

/* The number of a sample in the table of files. */
static uint64_t number_of(const stk__images *d, uint64_t sample)
{
    return d->picks ? d->picks[sample] : d->first + sample;
}

static const stk__images_file *file_of(const stk__images *d, uint64_t sample)
{
    return &d->files.files[number_of(d, sample)];
}

static void images_close(stk_dataset *dataset)
{
    stk__images *d = (stk__images *)dataset;
    stk_context *ctx = d->base.context;

    stk__images_release(&d->files);
    stk__images_release(&d->masks);
    stk__images_release_labels(ctx, &d->labels);
    stk__free(ctx, d->picks);
    stk__free(ctx, d->folder_labels);
    stk__free(ctx, d->class_names);
    stk__free(ctx, d->mask_of);
    stk_store_close(&d->mask_store);
    stk_store_close(&d->store);
    stk__free(ctx, d);
}

/* ---- The head -------------------------------------------------------------------------------- */

static int64_t label_of(const stk_dataset *dataset, uint64_t sample)
{
    const stk__images *d = (const stk__images *)dataset;
    const uint32_t folder = file_of(d, sample)->folder;

    return d->labels.labels ? d->labels.labels[sample] : d->folder_labels[folder];
}

/* A class, numbers, or one of several classes each. */
static stk_field label_field(const stk__images *d)
{
    const stk__images_labels *l = &d->labels;

    if (l->values || l->marks)
        return stk__field("label", STK_FLOAT32, (const int64_t[]){l->width, -1}, false);
    return stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
}

static uint64_t print_labels(const stk__images_labels *l, uint64_t count, uint64_t print)
{
    if (l->labels)
        print = stk__fingerprint(print, l->labels, count * sizeof *l->labels);
    if (l->values)
        print = stk__fingerprint(print, l->values, count * l->width * sizeof *l->values);
    if (l->marks) {
        print = stk__fingerprint(print, l->starts, (count + 1) * sizeof *l->starts);
        print = stk__fingerprint(print, l->marks, l->starts[count] * sizeof *l->marks);
    }
    return stk__names_print(&l->names, print);
}

static uint64_t print_of(const stk__images *d, uint64_t count)
{
    uint64_t print = stk__images_print(d->base.fingerprint, &d->files);

    if (d->picks)
        print = stk__fingerprint(print, d->picks, count * sizeof *d->picks);
    print = print_labels(&d->labels, count, print);
    if (d->form == STK__IMAGES_PAIRS)
        print = stk__images_print(print, &d->masks);
    return stk__fingerprint(print, &d->form, sizeof d->form);
}

static void fill_head(stk__images *d)
{
    const uint64_t count = d->picks ? d->num_picks : d->files.num_files - d->first;
    const bool classes = d->form == STK__IMAGES_CLASSES || d->form == STK__IMAGES_FLAT;
    const bool integers = classes || d->labels.labels;
    uint64_t bytes = 0;

    d->fields[0] = stk__images_field("image", 3, false);
    d->fields[1] =
        d->form == STK__IMAGES_PAIRS ? stk__images_field("mask", 1, true) : label_field(d);
    stk__dataset_init(&d->base, &stk__dataset_images, d->base.context, count, d->fields, 2);
    d->base.fingerprint = print_of(d, count);
    d->base.label = integers ? label_of : NULL;
    if (classes) {
        d->base.classes = d->class_names;
        d->base.num_classes = d->num_classes;
    } else if (integers || d->labels.flags) {
        d->base.classes = d->labels.names.list;
        d->base.num_classes = d->labels.names.count;
    }
    for (uint64_t i = 0; i < count; i++)
        bytes += file_of(d, i)->size;
    d->base.cost_ns = COST_NS + COST_BYTE_NS * (double)bytes / (double)count;
}

static stk_status images_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    const stk__images_options *o = options;
    bool group = false;

    *out = NULL;
    stk__images *d = stk__calloc(ctx, 1, sizeof *d);
    if (!d)
        return stk__images_no_memory(err, url);
    d->base.context = d->files.context = d->masks.context = ctx;
    const stk_status status = stk__images_open(d, url, o, &group, err);
    if (group) {
        images_close(&d->base);
        return stk__images_open_packed(ctx, url, o, out, err);
    }
    if (status != STK_OK) {
        images_close(&d->base);
        return status;
    }
    fill_head(d);
    if (d->files.unread)
        stk__message(
            ctx, STK_MESSAGE_WARNING,
            "images: %llu pictures in %.300s are of formats that are not read and are passed "
            "over; convert them to JPEG or PNG",
            (unsigned long long)d->files.unread, url);
    *out = &d->base;
    return STK_OK;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Masks are numbered behind the pictures. */
static stk_status images_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const stk__images *d = (const stk__images *)dataset;

    for (size_t i = 0; i < n; i++) {
        uint64_t size = file_of(d, indices[i])->size;
        stk_need need = {.object = indices[i], .offset = 0, .length = size};
        STK_TRY(to->add(to, i, &need));
        to->bytes(to, i, 0, size);
        if (d->form == STK__IMAGES_PAIRS) {
            uint32_t mask = d->mask_of[indices[i]];
            need = (stk_need){
                .object = d->base.size + mask, .offset = 0, .length = d->masks.files[mask].size};
            STK_TRY(to->add(to, i, &need));
            to->bytes(to, i, 1, need.length);
            size += need.length;
        }
        to->cost(to, i, COST_NS + COST_BYTE_NS * (double)size);
    }
    return STK_OK;
}

static size_t images_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    stk__images *d = (stk__images *)dataset;

    if (object >= d->base.size) {
        *store = d->mask_store;
        return stk__images_key(&d->masks, object - d->base.size, key, size);
    }
    *store = d->store;
    return stk__images_key(&d->files, number_of(d, object), key, size);
}

static void set_bad(stk_sample *s, stk_status status, const char *reason)
{
    s->status = status;
    s->reason = reason;
}

/* A picture and its mask have to be of one size. What a header does not tell, decoding will. */
static void check_pair(stk_sample *s)
{
    const stk__image_limits limits = {UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT64_MAX};
    stk__image_info picture, mask;
    const char *reason;

    if (stk__image_peek(s->needs[0].data, s->needs[0].size, &limits, &picture, &reason) == STK_OK &&
        stk__image_peek(s->needs[1].data, s->needs[1].size, &limits, &mask, &reason) == STK_OK &&
        (picture.width != mask.width || picture.height != mask.height))
        set_bad(s, STK_EFORMAT, "the mask has another size than its picture");
}

static void give(stk_sample *s, uint32_t field)
{
    s->values[field].data = s->needs[field].data;
    s->values[field].size = s->needs[field].size;
}

static void give_label(const stk__images *d, stk_sample *s)
{
    const stk__images_labels *l = &d->labels;
    stk_value *value = &s->values[1];

    value->data = value->out;
    value->size = l->width * sizeof(float);
    if (l->values) {
        value->data = l->values + s->index * l->width;
    } else if (l->marks) {
        memset(value->out, 0, value->size);
        for (uint64_t k = l->starts[s->index]; k < l->starts[s->index + 1]; k++)
            ((float *)value->out)[l->marks[k]] = 1;
    } else {
        memcpy(value->out, &(int64_t){label_of(&d->base, s->index)}, sizeof(int64_t));
        value->size = sizeof(int64_t);
    }
}

static void images_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__images *d = (const stk__images *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        if (!s->needs[0].size) {
            set_bad(s, STK_ETRUNCATED, "the file is empty; fetch it again or remove it");
            continue;
        }
        give(s, 0);
        if (d->form == STK__IMAGES_PAIRS) {
            give(s, 1);
            if (s->needs[1].size)
                check_pair(s);
            else
                set_bad(s, STK_ETRUNCATED, "its mask is empty; fetch it again or remove both");
            continue;
        }
        give_label(d, s);
    }
}

/* ---- Description ----------------------------------------------------------------------------- */

typedef void line_fn(void *user, const char *name, const char *value);

static void describe_files(const stk__images *d, line_fn *line, void *user)
{
    uint64_t bytes = 0, kinds[STK__IMAGES_PNG + 1] = {0};
    char text[160];

    for (uint64_t i = 0; i < d->base.size; i++) {
        const char *name = d->files.text + file_of(d, i)->name;
        bytes += file_of(d, i)->size;
        kinds[stk__images_kind(name, strlen(name))]++;
    }
    snprintf(text, sizeof text, "%llu files, %llu bytes", (unsigned long long)d->base.size,
             (unsigned long long)bytes);
    line(user, "pictures", text);
    uint64_t other = kinds[STK__IMAGES_OTHER] + kinds[STK__IMAGES_UNREAD];
    int used = snprintf(text, sizeof text, "%llu JPEG, %llu PNG",
                        (unsigned long long)kinds[STK__IMAGES_JPEG],
                        (unsigned long long)kinds[STK__IMAGES_PNG]);
    if (other)
        snprintf(text + used, sizeof text - (size_t)used, ", %llu others",
                 (unsigned long long)other);
    line(user, "formats by name", text);
    if (d->form == STK__IMAGES_LIST)
        return;
    snprintf(text, sizeof text, "%llu%s", (unsigned long long)d->files.ignored,
             d->files.ignored ? "" : " (all are .jpg, .jpeg or .png)");
    if (d->files.unread)
        snprintf(text, sizeof text, "%llu (%llu of them pictures of formats that are not read)",
                 (unsigned long long)d->files.ignored, (unsigned long long)d->files.unread);
    line(user, "files passed over", text);
    if (d->first) {
        snprintf(text, sizeof text, "%llu, passed over", (unsigned long long)d->first);
        line(user, "pictures next to the class folders", text);
    }
}

/* What labels of a table are, and what is left out for want of a partner. */
static void describe_table(const stk__images *d, line_fn *line, void *user, char *out, size_t size)
{
    const stk__images_labels *l = &d->labels;
    stk__text text = {.bytes = out, .room = size};
    const bool named = l->values && !l->flags && l->names.count;

    if (l->labels)
        stk__text_add(&text, "from the table, %s", l->names.count ? "by name" : "numbers");
    else
        stk__text_add(&text, "from the table, %s of %u%s",
                      l->flags ? "several classes each" : "numbers", l->width, named ? ":" : "");
    for (uint32_t i = 0; named && i < l->names.count; i++)
        stk__text_add(&text, " %.30s", l->names.list[i]);
    if (l->pictures_left || l->rows_left) {
        char left[96];
        snprintf(left, sizeof left, "%llu pictures without a label, %llu rows without a picture",
                 (unsigned long long)l->pictures_left, (unsigned long long)l->rows_left);
        line(user, "left out", left);
    }
}

static void describe_labels(const stk__images *d, line_fn *line, void *user)
{
    char text[160];

    switch (d->form) {
    case STK__IMAGES_CLASSES:
        snprintf(text, sizeof text, "from %u class folders", d->num_classes);
        break;
    case STK__IMAGES_FLAT:
        snprintf(text, sizeof text, "all 0 (there are no class folders)");
        break;
    case STK__IMAGES_LIST:
        snprintf(text, sizeof text, "from the list, %s",
                 d->labels.names.count ? "by name" : "numbers");
        break;
    case STK__IMAGES_TABLE:
        describe_table(d, line, user, text, sizeof text);
        break;
    case STK__IMAGES_PAIRS:
        snprintf(text, sizeof text, "none; %llu masks, %llu of them without a picture",
                 (unsigned long long)d->masks.num_files, (unsigned long long)d->unused_masks);
        break;
    }
    line(user, "labels", text);
}

static stk_status images_describe(stk_dataset *dataset, line_fn *line, void *user, stk_error *err)
{
    static const char *const uses[] = {
        [STK__IMAGES_INDEX_NONE] = "none",
        [STK__IMAGES_INDEX_USED] = "used: the tree has not changed",
        [STK__IMAGES_INDEX_YOUNG] = "used: it is younger than index_age",
        [STK__IMAGES_INDEX_WRITTEN] = "written: the tree was listed",
        [STK__IMAGES_INDEX_REFUSED] = "could not be written: the tree is listed each time"};
    const stk__images *d = (const stk__images *)dataset;

    describe_files(d, line, user);
    describe_labels(d, line, user);
    if (d->form != STK__IMAGES_LIST)
        line(user, "index", uses[d->index]);
    return STK_OK;
}

const stk_dataset_ops stk__dataset_images = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "images",
    .doc = "JPEG and PNG files: a folder of class folders, a list file, a table of labels, "
           "pictures and masks.",
    .options = &images_table,
    .open = images_open,
    .recognise = stk__images_recognise,
    .close = images_close,
    .locate = images_locate,
    .object = images_object,
    .prepare = images_prepare,
    .describe = images_describe,
};

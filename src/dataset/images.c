/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images: JPEG and PNG files, encoded as they are: decoding is the first transform. From a folder
 * of class folders as torchvision's ImageFolder has it, from a list file, or from two folders of
 * pictures and their masks. A group of Zarr is packed pictures (packed.c).
 */
#include "dataset/images.h"

#include <stdio.h>
#include <strings.h>

#include "codec/image/image.h"
#include "dataset/packed.h"

#define COST_NS      20000.0 /* of preparing a picture: to begin, and of each byte */
#define COST_BYTE_NS 8.0

typedef struct images_options {
    uint32_t struct_size;
    const char *masks, *root, *index;
    double index_age;
    bool allow_empty;
} images_options;

static const stk_option images_option_list[] = {
    {.name = "masks",
     .type = STK_OPTION_STRING,
     .offset = offsetof(images_options, masks),
     .metavar = "DIR",
     .doc = "Folder of masks: the mask of a picture has its path, whatever the extension. Class "
            "folders then mean nothing."},
    {.name = "root",
     .type = STK_OPTION_STRING,
     .offset = offsetof(images_options, root),
     .metavar = "DIR",
     .doc = "Folder that the paths of a list file begin in; else that of the list."},
    {.name = "index",
     .type = STK_OPTION_STRING,
     .offset = offsetof(images_options, index),
     .initial = "auto",
     .metavar = "auto|none|FILE",
     .doc =
         "Where the listing of a folder is kept, so that opening it again takes no time: auto "
         "is " STK__IMAGES_INDEX " in a local folder, and the folder of a cache (cache+URL); none "
         "lists it each time. Name a FILE outside the folder. Files changed in place keep their "
         "folder's time: touch it after that."},
    {.name = "index_age",
     .type = STK_OPTION_DURATION,
     .offset = offsetof(images_options, index_age),
     .initial = "86400",
     .min = 0,
     .max = 1e9,
     .doc = "How long the kept listing of a folder of another machine is believed, which no time "
            "tells to be old; 0: it is listed each time. An object that was replaced or removed "
            "since then is an error of its sample."},
    {.name = "allow_empty",
     .type = STK_OPTION_BOOL,
     .offset = offsetof(images_options, allow_empty),
     .initial = "false",
     .doc = "Take class folders without pictures for classes; else they are an error."},
};

static const stk_option_table images_table = {
    .name = "images",
    .doc = "Folders and lists of JPEG and PNG files.",
    .struct_size = sizeof(images_options),
    .options = images_option_list,
    .count = STK_COUNT(images_option_list),
};

typedef enum form { FORM_CLASSES, FORM_FLAT, FORM_LIST, FORM_PAIRS } form;

typedef struct images {
    stk_dataset base;
    stk_store *store, *mask_store;
    stk_field fields[2];
    form form;
    stk__images_index_use index;
    stk__images_table files, masks;
    uint64_t first;            /* sample 0 in `files`: those before lie next to the class folders */
    uint32_t *folder_labels;   /* of class folders: one for each folder of `files` */
    stk__images_labels labels; /* of a list */
    const char **class_names;
    uint32_t num_classes;
    uint32_t *mask_of;     /* of pairs: one for each sample */
    uint64_t unused_masks; /* without a picture */
} images;

static const stk__images_file *file_of(const images *d, uint64_t sample)
{
    return &d->files.files[d->first + sample];
}

static void images_close(stk_dataset *dataset)
{
    images *d = (images *)dataset;
    stk_context *ctx = d->base.context;

    stk__images_release(&d->files);
    stk__images_release(&d->masks);
    stk__images_release_labels(ctx, &d->labels);
    stk__free(ctx, d->folder_labels);
    stk__free(ctx, d->class_names);
    stk__free(ctx, d->mask_of);
    stk_store_close(&d->mask_store);
    stk_store_close(&d->store);
    stk__free(ctx, d);
}

static stk_status no_memory(stk_error *err, const char *url)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "images: no memory to open %.200s", url);
}

/* ---- Class folders --------------------------------------------------------------------------- */

/* What to say of pictures that are there and not read. */
static const char *unread_text(const images *d, char *text, size_t size)
{
    text[0] = 0;
    if (d->files.unread)
        snprintf(text, size, " (%llu pictures of other formats are passed over: convert them)",
                 (unsigned long long)d->files.unread);
    return text;
}

static stk_status empty_class(const images *d, uint64_t folder, const char *url, stk_error *err)
{
    const char *name = d->files.text + d->files.folders[folder].path;
    char unread[96];

    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, name, STK_NO_OFFSET,
                        "images: the class folder '%.200s' of %.200s holds no .jpg, .jpeg or .png "
                        "file%s; fill it, remove it, or open with allow_empty=true",
                        name, url, unread_text(d, unread, sizeof unread));
}

/* Number the classes; the folders below a class are part of it. */
static stk_status number_classes(images *d, const char *url, bool allow_empty, stk_error *err)
{
    const stk__images_table *t = &d->files;
    stk_context *ctx = t->context;
    uint64_t count = 0, held = 0, class_folder = 0;

    for (uint64_t i = 0; i < t->num_folders; i++)
        count += stk__images_is_class(t, i);
    d->num_classes = (uint32_t)STK_MAX(count, 1);
    d->class_names = stk__calloc(ctx, d->num_classes, sizeof(const char *));
    d->folder_labels = stk__calloc(ctx, t->num_folders, sizeof *d->folder_labels);
    if (!d->class_names || !d->folder_labels)
        return no_memory(err, url);
    d->class_names[0] = "";
    d->form = count ? FORM_CLASSES : FORM_FLAT;
    if (!count)
        return STK_OK;
    d->first = t->folders[0].count;
    count = 0;
    for (uint64_t i = 1; i < t->num_folders; i++) {
        if (stk__images_is_class(t, i)) {
            if (count && !held && !allow_empty)
                return empty_class(d, class_folder, url, err);
            d->class_names[count++] = t->text + t->folders[i].path;
            class_folder = i;
            held = 0;
        }
        held += t->folders[i].count;
        d->folder_labels[i] = (uint32_t)(count - 1);
    }
    return held || allow_empty ? STK_OK : empty_class(d, class_folder, url, err);
}

static stk_status no_pictures(const images *d, const char *url, stk_error *err)
{
    char unread[96];

    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                        "images: %.200s holds no .jpg, .jpeg or .png file%s; name the folder of "
                        "the class folders, or a list file",
                        url, unread_text(d, unread, sizeof unread));
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* The masks' index lies in their folder, or next to that of the pictures. */
static stk_status open_masks(images *d, const images_options *o, stk_error *err)
{
    stk_context *ctx = d->base.context;
    stk__images_index_use use;
    bool path = strcmp(o->index, "auto") != 0 && strcmp(o->index, "none") != 0;

    char *index = path ? stk__format(ctx, "%s.masks", o->index) : stk__strdup(ctx, o->index);
    if (!index)
        return no_memory(err, o->masks);
    stk_status status = stk_store_open(ctx, o->masks, &d->mask_store, NULL, 0, err);
    if (status == STK_OK && stk__file_follows(d->store))
        stk__file_follow(d->mask_store);
    if (status == STK_OK)
        status = stk__images_open_tree(ctx, d->mask_store,
                                       &(stk__images_place){o->masks, index, o->index_age},
                                       &d->masks, &use, err);
    stk__free(ctx, index);
    if (status != STK_OK)
        return status;
    d->form = FORM_PAIRS;
    return stk__images_pair(&d->files, &d->masks, o->masks, &d->mask_of, &d->unused_masks, err);
}

static stk_status open_folder(images *d, const char *url, const images_options *o, stk_error *err)
{
    bool pairs = o->masks && o->masks[0];

    if (o->root && o->root[0])
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: root=%.200s is where the paths of a list file begin, and "
                         "%.200s is a folder; leave root out",
                         o->root, url);
    if (pairs && o->allow_empty)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: allow_empty is for class folders, and with masks=%.200s there "
                         "are none; leave one of them out",
                         o->masks);
    STK_TRY(stk__images_open_tree(d->base.context, d->store,
                                  &(stk__images_place){url, o->index, o->index_age}, &d->files,
                                  &d->index, err));
    STK_TRY(pairs ? open_masks(d, o, err) : number_classes(d, url, o->allow_empty, err));
    if (d->files.num_files == d->first)
        return no_pictures(d, url, err);
    if (!pairs)
        stk__images_remark_splits(d->base.context, url, d->class_names, d->num_classes);
    return STK_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static bool is_list(const char *name)
{
    size_t length = strlen(name);
    const char *end = length > 4 ? name + length - 4 : "";

    return strcasecmp(end, ".csv") == 0 || strcasecmp(end, ".tsv") == 0 ||
           strcasecmp(end, ".txt") == 0;
}

/* The store that the paths of the list begin in; `line` is that of its first path. */
static stk_status open_root(images *d, const char *url, const char *root, bool absolute,
                            uint64_t line, stk_error *err)
{
    bool follow = stk__file_follows(d->store);
    stk_store *store = NULL;

    if (root && root[0] && absolute && strcmp(root, "/") != 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: the paths in %.200s are absolute, so that root=%.200s means "
                         "nothing; leave it out",
                         url, root);
    if (absolute && stk__file_root(d->store) < 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: the paths in %.200s are absolute, and it is no local file; "
                         "write them from its folder on",
                         url);
    if (absolute && !(root && root[0]) && !follow)
        return stk__fail(err, STK_EACCES, STK_STAGE_DATASET,
                         "images: %.200s:%llu: the paths are absolute and lead out of the folder "
                         "of the list; add ?root=/ or ?follow_links=true to read them all the same",
                         url, (unsigned long long)line);
    if (!absolute && (!root || !root[0]))
        return STK_OK;
    STK_TRY(stk_store_open(d->base.context, absolute ? "/" : root, &store, NULL, 0, err));
    /* Below '/' no link leads out. */
    if (follow || absolute)
        stk__file_follow(store);
    stk_store_close(&d->store);
    d->store = store;
    return STK_OK;
}

static stk_status open_list(images *d, const char *url, const char *name, const images_options *o,
                            stk_error *err)
{
    stk_context *ctx = d->base.context;
    char *data = NULL;
    uint64_t length = 0, *lines = NULL, missing = UINT64_MAX;
    bool absolute = false;

    if (o->allow_empty || (o->masks && o->masks[0]) || strcmp(o->index, "auto") != 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: masks, index and allow_empty are for folders, and %.200s is a "
                         "list; leave them out",
                         url);
    stk_status status = stk__images_read_list(d->store, name, &data, &length, err);
    if (status == STK_OK)
        status = stk__images_parse_list(ctx, name, data, length, &d->files, &d->labels, &lines,
                                        &absolute, err);
    stk__free(ctx, data);
    if (status == STK_OK)
        status = open_root(d, url, o->root, absolute, lines[0], err);
    if (status == STK_OK)
        status = stk__images_find_sizes(&d->files, d->store, stk__lookers(ctx), &missing, err);
    if (status == STK_OK && missing != UINT64_MAX) {
        char key[STK_MAX_OBJECT_KEY];
        stk__images_key(&d->files, missing, key, sizeof key);
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                              "images: %.200s:%llu: there is no file '%s%.300s'; correct the "
                              "path, remove the line, or name the folder with root=DIR",
                              name, (unsigned long long)lines[missing], absolute ? "/" : "", key);
    }
    stk__free(ctx, lines);
    d->form = FORM_LIST;
    return status;
}

/* ---- The head -------------------------------------------------------------------------------- */

static int64_t label_of(const stk_dataset *dataset, uint64_t sample)
{
    const images *d = (const images *)dataset;
    const uint32_t folder = file_of(d, sample)->folder;

    return d->form == FORM_LIST ? d->labels.labels[sample] : d->folder_labels[folder];
}

static void fill_head(images *d)
{
    uint64_t count = d->files.num_files - d->first, bytes = 0;

    d->fields[0] = stk__images_field("image", 3, false);
    d->fields[1] = d->form == FORM_PAIRS
                       ? stk__images_field("mask", 1, true)
                       : stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&d->base, &stk__dataset_images, d->base.context, count, d->fields, 2);
    uint64_t print = stk__images_print(d->base.fingerprint, &d->files);
    if (d->form == FORM_LIST)
        print = stk__fingerprint(print, d->labels.labels, count * sizeof *d->labels.labels);
    for (uint32_t c = 0; c < d->labels.num_classes; c++)
        print = stk__fingerprint(print, d->labels.classes[c], strlen(d->labels.classes[c]) + 1);
    if (d->form == FORM_PAIRS)
        print = stk__images_print(print, &d->masks);
    d->base.fingerprint = stk__fingerprint(print, &d->form, sizeof d->form);
    d->base.label = d->form == FORM_PAIRS ? NULL : label_of;
    d->base.classes = d->form == FORM_LIST ? d->labels.classes : d->class_names;
    d->base.num_classes = d->form == FORM_LIST ? d->labels.num_classes : d->num_classes;
    for (uint64_t i = 0; i < count; i++)
        bytes += file_of(d, i)->size;
    d->base.cost_ns = COST_NS + COST_BYTE_NS * (double)bytes / (double)count;
}

static stk_status open_packed(stk_context *ctx, const char *url, const images_options *o,
                              stk_dataset **out, stk_error *err)
{
    if (o->allow_empty || (o->masks && *o->masks) || (o->root && *o->root) ||
        strcmp(o->index, "auto") != 0)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_DATASET,
            "images: masks, root, index and allow_empty are for files of pictures, and "
            "%.200s is a group of arrays; leave them out",
            url);
    return stk__packed_open(ctx, url, out, err);
}

/* A folder, or a group: a local one is looked at, listing tells what another is. */
static stk_status open_tree(images *d, const char *url, const images_options *o, bool *group,
                            stk_error *err)
{
    const bool local = stk__file_root(d->store) >= 0;

    if (local)
        STK_TRY(stk__packed_is_group(d->store, group, err));
    if (*group)
        return STK_OK;
    const stk_status status = open_folder(d, url, o, err);
    *group = d->files.is_group;
    /* What cannot be listed may still be a group. */
    if (status == STK_ENOTSUP && !local)
        (void)stk__packed_is_group(d->store, group, NULL);
    return status;
}

static stk_status images_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    const images_options *o = options;
    char key[STK_MAX_OBJECT_KEY] = "";
    bool group = false;

    *out = NULL;
    images *d = stk__calloc(ctx, 1, sizeof *d);
    if (!d)
        return no_memory(err, url);
    d->base.context = d->files.context = d->masks.context = ctx;
    stk_status status = stk_store_open(ctx, url, &d->store, key, sizeof key, err);
    if (status == STK_OK && !key[0])
        status = open_tree(d, url, o, &group, err);
    else if (status == STK_OK && is_list(key))
        status = open_list(d, url, key, o, err);
    else if (status == STK_OK)
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                              "images: %.200s is a file and no list; name a folder, or a .csv, "
                              ".tsv or .txt of lines of path and label",
                              url);
    if (group) {
        images_close(&d->base);
        return open_packed(ctx, url, o, out, err);
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
    const images *d = (const images *)dataset;

    for (size_t i = 0; i < n; i++) {
        uint64_t size = file_of(d, indices[i])->size;
        stk_need need = {.object = indices[i], .offset = 0, .length = size};
        STK_TRY(to->add(to, i, &need));
        to->bytes(to, i, 0, size);
        if (d->form == FORM_PAIRS) {
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
    images *d = (images *)dataset;

    if (object >= d->base.size) {
        *store = d->mask_store;
        return stk__images_key(&d->masks, object - d->base.size, key, size);
    }
    *store = d->store;
    return stk__images_key(&d->files, d->first + object, key, size);
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

static void images_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const images *d = (const images *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        if (!s->needs[0].size) {
            set_bad(s, STK_ETRUNCATED, "the file is empty; fetch it again or remove it");
            continue;
        }
        give(s, 0);
        if (d->form == FORM_PAIRS) {
            give(s, 1);
            if (s->needs[1].size)
                check_pair(s);
            else
                set_bad(s, STK_ETRUNCATED, "its mask is empty; fetch it again or remove both");
            continue;
        }
        memcpy(s->values[1].out, &(int64_t){label_of(dataset, s->index)}, sizeof(int64_t));
        s->values[1].data = s->values[1].out;
        s->values[1].size = sizeof(int64_t);
    }
}

/* ---- Description ----------------------------------------------------------------------------- */

typedef void line_fn(void *user, const char *name, const char *value);

static void describe_files(const images *d, line_fn *line, void *user)
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
    if (d->form == FORM_LIST)
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

static void describe_labels(const images *d, line_fn *line, void *user)
{
    char text[160];

    switch (d->form) {
    case FORM_CLASSES:
        snprintf(text, sizeof text, "from %u class folders", d->num_classes);
        break;
    case FORM_FLAT:
        snprintf(text, sizeof text, "all 0 (there are no class folders)");
        break;
    case FORM_LIST:
        snprintf(text, sizeof text, "from the list, %s",
                 d->labels.num_classes ? "by name" : "numbers");
        break;
    case FORM_PAIRS:
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
    const images *d = (const images *)dataset;

    describe_files(d, line, user);
    describe_labels(d, line, user);
    if (d->form != FORM_LIST)
        line(user, "index", uses[d->index]);
    return STK_OK;
}

const stk_dataset_ops stk__dataset_images = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "images",
    .doc = "JPEG and PNG files: a folder of class folders, a list file, pictures and masks.",
    .options = &images_table,
    .open = images_open,
    .recognise = stk__images_recognise,
    .close = images_close,
    .locate = images_locate,
    .object = images_object,
    .prepare = images_prepare,
    .describe = images_describe,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening of `images:`: class folders, pictures and masks, a list file, a table of labels. */
#include <stdio.h>
#include <strings.h>

#include "dataset/images_dataset.h"
#include "dataset/packed.h"

stk_status stk__images_no_memory(stk_error *err, const char *url)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "images: no memory to open %.200s", url);
}

/* ---- Class folders --------------------------------------------------------------------------- */

/* What to say of pictures that are there and not read. */
static const char *unread_text(const stk__images *d, char *text, size_t size)
{
    text[0] = 0;
    if (d->files.unread)
        snprintf(text, size, " (%llu pictures of other formats are passed over: convert them)",
                 (unsigned long long)d->files.unread);
    return text;
}

static stk_status empty_class(const stk__images *d, uint64_t folder, const char *url,
                              stk_error *err)
{
    const char *name = d->files.text + d->files.folders[folder].path;
    char unread[96];

    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, name, STK_NO_OFFSET,
                        "images: the class folder '%.200s' of %.200s holds no .jpg, .jpeg or .png "
                        "file%s; fill it, remove it, or open with allow_empty=true",
                        name, url, unread_text(d, unread, sizeof unread));
}

/* Number the classes; the folders below a class are part of it. */
static stk_status number_classes(stk__images *d, const char *url, bool allow_empty, stk_error *err)
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
        return stk__images_no_memory(err, url);
    d->class_names[0] = "";
    d->form = count ? STK__IMAGES_CLASSES : STK__IMAGES_FLAT;
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

static stk_status no_pictures(const stk__images *d, const char *url, stk_error *err)
{
    char unread[96];

    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                        "images: %.200s holds no .jpg, .jpeg or .png file%s; name the folder of "
                        "the class folders, or a list file",
                        url, unread_text(d, unread, sizeof unread));
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* The masks' index lies in their folder, or next to that of the pictures. */
static stk_status open_masks(stk__images *d, const stk__images_options *o, stk_error *err)
{
    stk_context *ctx = d->base.context;
    stk__images_index_use use;
    bool path = strcmp(o->index, "auto") != 0 && strcmp(o->index, "none") != 0;

    char *index = path ? stk__format(ctx, "%s.masks", o->index) : stk__strdup(ctx, o->index);
    if (!index)
        return stk__images_no_memory(err, o->masks);
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
    d->form = STK__IMAGES_PAIRS;
    return stk__images_pair(&d->files, &d->masks, o->masks, &d->mask_of, &d->unused_masks, err);
}

/* ---- Tables of labels ------------------------------------------------------------------------ */

static stk_status open_labels(stk__images *d, const char *url, const stk__images_options *o,
                              stk_error *err)
{
    if (o->allow_empty || (o->masks && o->masks[0]))
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: with labels=%.200s there are neither class folders nor masks; "
                         "leave allow_empty and masks out",
                         o->table.labels);
    d->form = STK__IMAGES_TABLE;
    return d->files.num_files ? stk__images_read_labels(url, &o->table, &d->files, &d->labels,
                                                        &d->picks, &d->num_picks, err)
                              : STK_OK;
}

static bool has_labels(const stk__images_options *o)
{
    return o->table.labels && o->table.labels[0];
}

/* An option of a table of labels without one; NULL: there is none. */
static const char *idle_option(const stk__images_options *o)
{
    const stk__images_labels_options *t = &o->table;

    return t->file_column     ? "file_column"
           : t->label_columns ? "label_columns"
           : t->separator     ? "label_separator"
           : t->type          ? "label_type"
           : t->missing       ? "missing"
           : t->duplicates    ? "duplicates"
                              : NULL;
}

/* The table that Hugging Face's datasets take by themselves is remarked, not taken. */
static void remark_metadata(const stk__images *d, const char *url)
{
    static const char *const names[] = {"metadata.csv", "metadata.jsonl", "metadata.parquet"};
    stk_object_info info = {.struct_size = sizeof info};

    for (size_t i = 0; i < STK_COUNT(names) && stk__file_root(d->store) >= 0; i++)
        if (stk_store_stat(d->store, names[i], NULL, &info, NULL) == STK_OK && !info.is_folder) {
            stk__message(d->base.context, STK_MESSAGE_WARNING,
                         "images: all labels are 0, as %.*s has no class folders; its %s is "
                         "taken for labels by labels=%s",
                         (int)strcspn(url, "?"), url, names[i], names[i]);
            return;
        }
}

static stk_status open_folder(stk__images *d, const char *url, const stk__images_options *o,
                              stk_error *err)
{
    const bool pairs = o->masks && o->masks[0], table = has_labels(o);

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
    STK_TRY(table   ? open_labels(d, url, o, err)
            : pairs ? open_masks(d, o, err)
                    : number_classes(d, url, o->allow_empty, err));
    if (d->files.num_files == d->first)
        return no_pictures(d, url, err);
    if (d->form == STK__IMAGES_CLASSES)
        stk__images_remark_splits(d->base.context, url, d->class_names, d->num_classes);
    if (d->form == STK__IMAGES_FLAT)
        remark_metadata(d, url);
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
static stk_status open_root(stk__images *d, const char *url, const char *root, bool absolute,
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

static stk_status open_list(stk__images *d, const char *url, const char *name,
                            const stk__images_options *o, stk_error *err)
{
    stk_context *ctx = d->base.context;
    char *data = NULL;
    uint64_t length = 0, *lines = NULL, missing = UINT64_MAX;
    bool absolute = false;

    if (o->allow_empty || (o->masks && o->masks[0]) || has_labels(o) ||
        strcmp(o->index, "auto") != 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "images: masks, labels, index and allow_empty are for folders, and "
                         "%.200s is a list; leave them out",
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
    d->form = STK__IMAGES_LIST;
    return status;
}

stk_status stk__images_open_packed(stk_context *ctx, const char *url, const stk__images_options *o,
                                   stk_dataset **out, stk_error *err)
{
    if (o->allow_empty || (o->masks && *o->masks) || (o->root && *o->root) || has_labels(o) ||
        strcmp(o->index, "auto") != 0)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_DATASET,
            "images: masks, labels, root, index and allow_empty are for files of pictures, and "
            "%.200s is a group of arrays; leave them out",
            url);
    return stk__packed_open(ctx, url, out, err);
}

/* A folder, or a group: a local one is looked at, listing tells what another is. */
static stk_status open_tree(stk__images *d, const char *url, const stk__images_options *o,
                            bool *group, stk_error *err)
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

/* What the spec names: a tree, or a list. */
stk_status stk__images_open(stk__images *d, const char *url, const stk__images_options *o,
                            bool *group, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";

    if (!has_labels(o) && idle_option(o))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, idle_option(o), STK_NO_OFFSET,
                            "images: %s is for a table of labels, and none is named; add "
                            "labels=FILE",
                            idle_option(o));
    STK_TRY(stk_store_open(d->base.context, url, &d->store, key, sizeof key, err));
    if (!key[0])
        return open_tree(d, url, o, group, err);
    if (is_list(key))
        return open_list(d, url, key, o, err);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                        "images: %.200s is a file and no list; name a folder, or a .csv, .tsv or "
                        ".txt of lines of path and label",
                        url);
}

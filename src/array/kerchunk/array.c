/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array of references: its metadata are those of Zarr, and stand in the document; its chunks lie
 * where the references say, so they are read as those of any format that locates its chunks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "array/kerchunk/kerchunk.h"
#include "array/zarr.h"

#include "base/options.h"

#define HEAD 4096 /* bytes in which a document shows what it is */

typedef struct kerchunk_options {
    uint32_t struct_size;
    bool allow_foreign;
} kerchunk_options;

static const stk_option option_list[] = {
    {"allow_foreign", STK_OPTION_BOOL, offsetof(kerchunk_options, allow_foreign), "false", 0, 0,
     NULL, NULL,
     "Follow references to absolute paths and other stores. They read whatever the document names: "
     "for documents that are trusted."},
};

static const stk_option_table kerchunk_table = {
    .name = "kerchunk",
    .doc = "How references are followed.",
    .struct_size = sizeof(kerchunk_options),
    .options = option_list,
    .count = STK_COUNT(option_list),
};

typedef struct state {
    stk_context *context;
    stk__kerchunk_place *places;
    size_t count;
} state;

static int kerchunk_recognise(stk_store *store, const char *key)
{
    static const char *const words[] = {"\"refs\"", ".zgroup\"", ".zarray\"", "zarr.json\""};
    stk_object_info info = {.struct_size = sizeof info};
    char head[HEAD + 1];

    if (!stk__ends_with(key, strlen(key), ".json") ||
        stk_store_stat(store, key, NULL, &info, NULL) != STK_OK || info.is_folder)
        return 0;
    const uint64_t length = STK_MIN(info.size, HEAD);
    if (stk_store_read(store, key, 0, length, head, NULL) != STK_OK)
        return 0;
    head[length] = 0;
    for (size_t i = 0; i < STK_COUNT(words); i++)
        if (head[strspn(head, " \t\r\n")] == '{' && strstr(head, words[i]))
            return 2;
    return 0;
}

/* ---- Metadata ---- */

/* The document under "REST/NAME". */
static stk_status load(stk_context *ctx, const stk__kerchunk *k, const char *rest, const char *name,
                       stk__json *out, stk_error *err)
{
    char *key = stk__format(ctx, "%s%s%s", rest, *rest ? "/" : "", name);

    *out = (stk__json){0};
    if (!key)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, k->key, STK_NO_OFFSET,
                            "no memory for the references of %s", k->key);
    const stk_status status = stk__kerchunk_document(ctx, k, key, out, err);
    stk__free(ctx, key);
    return status;
}

static bool is_node(const json_t *metadata, const char *type)
{
    const char *found = json_string_value(json_object_get(metadata, "node_type"));

    return found && strcmp(found, type) == 0;
}

static stk_status no_array(const stk__kerchunk *k, const char *rest, bool group, stk_error *err)
{
    return stk__fail_at(err, group ? STK_EMISMATCH : STK_ENOENT, STK_STAGE_ARRAY, k->key,
                        STK_NO_OFFSET,
                        group ? "%s: '%.200s' is a group; name one of its arrays"
                              : "%s: the references have no array '%.200s'",
                        k->key, rest);
}

/* Type, grid and codecs, as Zarr has them. */
static stk_status take_metadata(stk_array *a, const stk__kerchunk *k, const char *rest,
                                stk_error *err)
{
    stk_context *ctx = a->context;
    stk__json metadata = {0}, attributes = {0}, group = {0};

    stk_status status = load(ctx, k, rest, STK__ZARR_V3, &metadata, err);
    if (status == STK_OK && metadata.value) {
        status = is_node(metadata.value, "group") ? no_array(k, rest, true, err)
                                                  : stk__zarr_v3(a, metadata.value, k->key, err);
        stk__json_drop(ctx, &metadata);
        return status;
    }
    if (status == STK_OK)
        status = load(ctx, k, rest, STK__ZARR_V2_ARRAY, &metadata, err);
    if (status == STK_OK && metadata.value)
        status = load(ctx, k, rest, STK__ZARR_V2_ATTRS, &attributes, err);
    else if (status == STK_OK)
        status = load(ctx, k, rest, STK__ZARR_V2_GROUP, &group, err);
    if (status == STK_OK)
        status = metadata.value ? stk__zarr_v2(a, metadata.value, attributes.value, k->key, err)
                                : no_array(k, rest, group.value != NULL, err);
    stk__json_drop(ctx, &metadata);
    stk__json_drop(ctx, &attributes);
    stk__json_drop(ctx, &group);
    return status;
}

/* ---- Places ---- */

/* How long the objects are that are chunks as a whole. */
static stk_status measure(const stk_array *a, stk__kerchunk_places *p, stk_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        stk_object_info info = {.struct_size = sizeof info};
        if (p->list[i].length != STK__ARRAY_UNKNOWN)
            continue;
        STK_TRY(stk_store_stat(a->shared->store, p->objects[p->list[i].object], NULL, &info, err));
        p->list[i].length = info.size;
    }
    return STK_OK;
}

/* Put the store in which the references lie in place of that of the document. */
static stk_status take_store(stk_array *a, stk_store *foreign, stk__kerchunk_places *p,
                             stk_error *err)
{
    stk__shared_store *files = NULL, *with = NULL;
    stk_status status = STK_OK;

    if (foreign)
        STK_TRY(stk__shared_create(&foreign, &files, err));
    if (p->inlined.length) {
        status =
            stk__inline_store(files ? files : a->shared, a->metadata_key, &p->inlined, &with, err);
        stk__shared_unref(files);
        files = with;
    }
    if (status == STK_OK && files) {
        a->home = a->shared;
        a->shared = files;
    }
    return status;
}

/* The array reads its chunks where the places say; they go over to it. */
static stk_status take_places(stk_array *a, stk__kerchunk_places *p, stk_error *err)
{
    state *s = stk__calloc(a->context, 1, sizeof *s);
    char *own = stk__strdup(a->context, a->metadata_key);

    if (!s || !own) {
        stk__free(a->context, s);
        stk__free(a->context, own);
        return stk__array_no_memory(a, err);
    }
    stk__free(a->context, p->objects[0]);
    p->objects[0] = own;
    *s = (state){.context = a->context, .places = p->list, .count = p->count};
    a->state = s;
    a->owns_state = true;
    a->objects = p->objects;
    a->num_objects = p->num_objects;
    a->object_key = stk__strdup(a->context, own);
    a->manifest = STK__MANIFEST_PLACES;
    a->info.num_objects = a->num_objects;
    p->list = NULL;
    p->objects = NULL;
    p->num_objects = 0;
    return a->object_key ? STK_OK : stk__array_no_memory(a, err);
}

static stk_status open_array(stk_array *a, const stk__kerchunk *k, const stk_array_opening *o,
                             stk_error *err)
{
    const kerchunk_options *own = o->options;
    char prefix[STK_MAX_OBJECT_KEY + 1], format[STK__ARRAY_FORMAT];
    stk__kerchunk_places places;
    stk_store *foreign = NULL;

    STK_TRY(take_metadata(a, k, o->rest, err));
    if (a->num_levels > 1)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, k->key, STK_NO_OFFSET,
                            "%s: '%.200s' has shards, and references to shards are not read",
                            k->key, o->rest);
    snprintf(prefix, sizeof prefix, "%s%s", o->rest, *o->rest ? "/" : "");
    stk_status status = stk__kerchunk_find(a, k, prefix, &places, err);
    if (status == STK_OK)
        status = stk__kerchunk_resolve(&places, o->key, own && own->allow_foreign, &foreign, err);
    if (status != STK_OK)
        stk_store_close(&foreign);
    else
        status = take_store(a, foreign, &places, err);
    if (status == STK_OK)
        status = measure(a, &places, err);
    if (status == STK_OK)
        status = take_places(a, &places, err);
    snprintf(format, sizeof format, "kerchunk, %.40s", a->format);
    stk__array_set_format(a, format);
    stk__kerchunk_places_release(&places);
    return status;
}

/* A document that was read for a group, of which it opens arrays. */
typedef struct kept_document {
    stk_context *context;
    stk__json json;
} kept_document;

/* Keep it; without memory for that each array reads its own. */
static void keep_document(const stk_array_opening *o, stk__json *json)
{
    kept_document *kept = o->kept ? stk__alloc(o->store->context, sizeof *kept) : NULL;

    if (!kept)
        return;
    *kept = (kept_document){.context = o->store->context, .json = *json};
    *json = (stk__json){0};
    *o->kept = kept;
}

static void kerchunk_forget(void *user)
{
    kept_document *kept = user;

    stk__json_drop(kept->context, &kept->json);
    stk__free(kept->context, kept);
}

/* `out` is what is to be dropped, also after a failure. */
static stk_status read_document(const stk_array_opening *o, stk__json *out, stk__kerchunk *k,
                                stk_error *err)
{
    const kept_document *kept = o->kept ? *o->kept : NULL;
    bool found = false;

    *out = (stk__json){0};
    if (kept)
        return stk__kerchunk_begin(kept->json.value, o->key, k, err);
    if (!*o->key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, o->key, STK_NO_OFFSET,
                            "'%.300s' is a folder; name the file of the references", o->url);
    STK_TRY(stk__zarr_load(o->store, o->key, out, &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, o->key, STK_NO_OFFSET,
                            "there is no object %.200s", o->key);
    return stk__kerchunk_begin(out->value, o->key, k, err);
}

static stk_status kerchunk_open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    stk__json document;
    stk__kerchunk k;

    stk_status status = read_document(opening, &document, &k, err);
    if (status == STK_OK)
        status = open_array(a, &k, opening, err);
    stk__json_drop(a->context, &document);
    return status;
}

static stk_status kerchunk_locate(void *user, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    const state *s = user;
    size_t low = 0, high = s->count;

    (void)err;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->places[middle].chunk < chunk)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == s->count || s->places[low].chunk != chunk)
        return STK_ENOENT;
    out->object = s->places[low].object;
    out->offset = s->places[low].offset;
    out->length = s->places[low].length;
    return STK_OK;
}

static void kerchunk_close(void *user)
{
    state *s = user;

    if (!s)
        return;
    stk__free(s->context, s->places);
    stk__free(s->context, s);
}

/* ---- What the document describes ---- */

typedef struct telling {
    stk_context *context;
    const stk__kerchunk *k;
    size_t prefix;
    stk_array_listing *listing;
} telling;

/* A node, where the key is that of its metadata. */
static stk_status tell(void *user, const stk__reference *r, stk_error *err)
{
    telling *t = user;
    const char *path = r->key + t->prefix, *slash = strrchr(path, '/');
    char name[STK_MAX_OBJECT_KEY];
    stk__json metadata = {0};

    if (!slash || r->url || (size_t)(slash - path) >= sizeof name)
        return STK_OK;
    bool is_array = !strcmp(slash + 1, STK__ZARR_V2_ARRAY);
    if (!strcmp(slash + 1, STK__ZARR_V3)) {
        STK_TRY(stk__kerchunk_document(t->context, t->k, r->key, &metadata, err));
        is_array = is_node(metadata.value, "array");
        stk__json_drop(t->context, &metadata);
    } else if (!is_array && strcmp(slash + 1, STK__ZARR_V2_GROUP) != 0) {
        return STK_OK;
    }
    memcpy(name, path, (size_t)(slash - path));
    name[slash - path] = 0;
    return stk_array_listing_add(t->listing, name, is_array, err);
}

/* The attributes of a group, and that it is one. */
static stk_status tell_attributes(telling *t, const char *rest, stk_error *err)
{
    stk__json v3 = {0}, attributes = {0}, array = {0};

    stk_status status = load(t->context, t->k, rest, STK__ZARR_V3, &v3, err);
    if (status == STK_OK)
        status = load(t->context, t->k, rest, STK__ZARR_V2_ATTRS, &attributes, err);
    if (status == STK_OK)
        status = load(t->context, t->k, rest, STK__ZARR_V2_ARRAY, &array, err);
    if (status == STK_OK && (array.value || is_node(v3.value, "array")))
        status = stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, t->k->key, STK_NO_OFFSET,
                              "'%.200s' of %.200s is an array and no group", rest, t->k->key);
    const json_t *found = v3.value ? json_object_get(v3.value, "attributes") : attributes.value;
    char *text = status == STK_OK && json_is_object(found)
                     ? stk__json_text(t->context, found, false)
                     : stk__strdup(t->context, "{}");
    if (status == STK_OK)
        status = text ? stk_array_listing_attributes(t->listing, text, err)
                      : stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, t->k->key, STK_NO_OFFSET,
                                     "no memory for the references of %s", t->k->key);
    stk__free(t->context, text);
    stk__json_drop(t->context, &v3);
    stk__json_drop(t->context, &attributes);
    stk__json_drop(t->context, &array);
    return status;
}

static stk_status kerchunk_list(const stk_array_opening *o, stk_array_listing *listing,
                                stk_error *err)
{
    telling t = {.context = o->store->context, .listing = listing};
    char prefix[STK_MAX_OBJECT_KEY + 1];
    stk__json document;
    stk__kerchunk k;

    t.prefix = (size_t)snprintf(prefix, sizeof prefix, "%s%s", o->rest, *o->rest ? "/" : "");
    stk_status status = read_document(o, &document, &k, err);
    t.k = &k;
    if (status == STK_OK)
        status = tell_attributes(&t, o->rest, err);
    if (status == STK_OK)
        status = stk__kerchunk_each(t.context, &k, prefix, tell, &t, err);
    if (status == STK_OK)
        keep_document(o, &document);
    stk__json_drop(t.context, &document);
    return status;
}

const stk_array_format_ops stk__array_kerchunk = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "kerchunk",
    .doc = "References in JSON that make Zarr of parts of other files",
    .options = &kerchunk_table,
    .takes_rest = true,
    .recognise = kerchunk_recognise,
    .open = kerchunk_open,
    .locate = kerchunk_locate,
    .close = kerchunk_close,
    .list = kerchunk_list,
    .forget = kerchunk_forget,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webdataset: samples in shards of tar, by the names of their members. What a member is, its
 * extension tells: encoded pictures, a label, a NumPy array, or bytes.
 */
#include <stdio.h>

#include "base/text.h"
#include "dataset/images.h"
#include "dataset/recognise.h"
#include "dataset/records/webdataset_fields.h"

#define FORMAT_VERSION 2u
#define KEYED_VERSION  3u /* of an index that has the keys of the samples */
#define ARRAY          ".npy"

typedef struct webdataset_options {
    stk__records_options common;
    const char *fields;
    int32_t missing;
} webdataset_options;

static const stk_option option_list[] = {
    {.name = "fields",
     .type = STK_OPTION_STRING,
     .offset = offsetof(webdataset_options, fields),
     .metavar = "EXT,...",
     .doc =
         "Extensions of the members that are read, as jpg,cls; else all. __key__ is the name that "
         "the members of a sample share, as text."},
    {.name = "missing",
     .type = STK_OPTION_ENUM,
     .offset = offsetof(webdataset_options, missing),
     .initial = "fail",
     .choices = "fail|bad|empty",
     .doc = "What a sample is that lacks a member which others have: fail refuses to open the "
            "shards; bad makes it a bad sample; empty gives no bytes, and -1 for a label."},
    STK__RECORDS_OPTION_INDEX,
};

static const stk_option_table webdataset_table = {"webdataset", "Samples in shards of tar.",
                                                  sizeof(webdataset_options), option_list,
                                                  STK_COUNT(option_list)};

/* ---- Extensions ------------------------------------------------------------------------------ */

/* What follows the last dot. */
static const char *last_part(const char *kind)
{
    const char *dot = strrchr(kind, '.');

    return dot ? dot + 1 : kind;
}

static bool is_image(const char *kind)
{
    static const char *const ends[] = {"jpg", "jpeg", "png", "ppm"};

    for (size_t i = 0; i < STK_COUNT(ends); i++)
        if (strcmp(last_part(kind), ends[i]) == 0)
            return true;
    return false;
}

static stk__webdataset_form form_of(const char *kind)
{
    const char *end = last_part(kind);

    return is_image(kind)            ? STK__WEBDATASET_IMAGE
           : strcmp(end, "cls") == 0 ? STK__WEBDATASET_LABEL
           : strcmp(end, "npy") == 0 ? STK__WEBDATASET_NPY
                                     : STK__WEBDATASET_BYTES;
}

/* Both kinds that hold a key are of one name. */
static const char *name_of(const char *kind)
{
    return strcmp(kind, STK__WEBDATASET_KEY_HEADER) == 0 ? STK__WEBDATASET_KEY : kind;
}

/* Whether `n` bytes of the option name the kind: an extension, "npz" for all arrays of a member, or
 * "npz.a" for the one that is the kind "npz/a.npy". */
static bool is_named(const char *kind, const char *name, size_t n)
{
    kind = name_of(kind);
    const char *slash = strchr(kind, '/');
    const size_t length = strlen(kind), stem = slash ? (size_t)(slash - kind) : length;

    if (n == stem)
        return memcmp(kind, name, n) == 0;
    return slash && n == length - strlen(ARRAY) && n > stem && name[stem] == '.' &&
           memcmp(kind, name, stem) == 0 && memcmp(slash + 1, name + stem + 1, n - stem - 1) == 0;
}

/* Whether the list of the option names the kind. */
static bool is_listed(const char *list, const char *kind)
{
    for (const char *at = list; *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        if (is_named(kind, at, n))
            return true;
        at += n;
    }
    return false;
}

static bool asks_for_keys(const webdataset_options *o)
{
    return o->fields && is_listed(o->fields, STK__WEBDATASET_KEY);
}

static bool names_any(const stk__records *set, const char *name, size_t n)
{
    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        if (is_named(set->table.kinds[i], name, n))
            return true;
    return false;
}

static void kinds_text(const stk__records *set, char *text, size_t size)
{
    stk__text t = {.bytes = text, .room = size};

    text[0] = 0;
    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        stk__text_add(&t, "%s%s", i ? ", " : "", set->table.kinds[i]);
}

/* Leave out the kinds that the option does not name; it names only such as are there. */
static stk_status choose_kinds(stk__records *set, const char *list, stk_error *err)
{
    char text[200];

    if (!list || !*list)
        return STK_OK;
    kinds_text(set, text, sizeof text);
    for (const char *at = list; *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        if (!names_any(set, at, n))
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "webdataset: fields names '%.*s', and the members of the shards are "
                             "%.150s",
                             (int)STK_MIN(n, 60), at, text);
        at += n;
    }
    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        if (!is_listed(list, set->table.kinds[i]))
            set->field_of[i] = STK__RECORDS_UNREAD;
    return STK_OK;
}

static bool is_read(const stk__records *set, uint32_t kind)
{
    return set->field_of[kind] != STK__RECORDS_UNREAD;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Whether pictures of all extensions are one field: no sample has two of them. */
static bool pictures_are_one(const stk__records *set)
{
    bool simple[STK__RECORDS_MAX_KINDS] = {false};

    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        simple[i] =
            is_read(set, i) && is_image(set->table.kinds[i]) && !strchr(set->table.kinds[i], '.');
    for (uint64_t r = 0; r < set->table.num_records; r++) {
        uint32_t n, pictures = 0;
        const stk__record_part *parts = stk__records_parts(set, r, &n);
        for (uint32_t k = 0; k < n; k++)
            pictures += simple[parts[k].kind];
        if (pictures > 1)
            return false;
    }
    return true;
}

/* Whether a member of this name would be a field of its own, or the name of one is taken. */
static bool is_taken(const stk__records *set, const char *name)
{
    bool image = false;

    for (uint32_t i = 0; i < set->table.num_kinds; i++)
        image |= is_image(set->table.kinds[i]);
    return stk__records_kind(set, name) >= 0 || (image && strcmp(name, "image") == 0) ||
           (strcmp(name, "label") == 0 && stk__records_kind(set, "cls") >= 0);
}

/* The name of an array, "x" of "x.npy", "npz.x" of "npz/x.npy", in the state's memory. */
static const char *array_name(stk__records *set, uint32_t kind)
{
    stk__webdataset *w = set->state;
    const char *name = set->table.kinds[kind];
    const size_t length = strlen(name);

    if (!stk__ends_with(name, length, ARRAY))
        return name;
    char *to = w->names + w->names_used;
    memcpy(to, name, length + 1);
    if (strchr(to, '/'))
        *strchr(to, '/') = '.';
    if (strcmp(to, name) != 0 && stk__records_kind(set, to) >= 0)
        return name; /* a member of a name such as "0.npz.x.npy" */
    to[length - strlen(ARRAY)] = 0;
    if (is_taken(set, to))
        return name;
    w->names_used += length - 3;
    return to;
}

static const char *field_name(stk__records *set, uint32_t kind, bool one_picture)
{
    const char *name = name_of(set->table.kinds[kind]);

    if (one_picture && is_image(name) && !strchr(name, '.') && stk__records_kind(set, "image") < 0)
        return "image";
    if (strcmp(name, "cls") == 0 && stk__records_kind(set, "label") < 0)
        return "label";
    return form_of(name) == STK__WEBDATASET_NPY ? array_name(set, kind) : name;
}

/* The first sample that has the kind; its part. */
static uint64_t first_with(const stk__records *set, uint32_t kind, uint32_t *part)
{
    for (uint64_t r = 0; r < set->table.num_records; r++) {
        uint32_t n;
        const stk__record_part *parts = stk__records_parts(set, r, &n);
        for (*part = 0; *part < n; ++*part)
            if (parts[*part].kind == kind)
                return r;
    }
    return 0;
}

/* Whether all members of a kind are of one length. */
static bool same_length(const stk__records *set, uint32_t kind, uint64_t length)
{
    for (uint64_t i = 0; i < set->table.num_parts; i++)
        if (set->table.parts[i].kind == kind && set->table.parts[i].length != length)
            return false;
    return true;
}

static stk_status parse_npy(const stk__records *set, const void *data, uint64_t length,
                            uint64_t record, stk__npy_header *out, stk_error *err)
{
    const char *key = stk__records_shard_key(set, stk__records_shard_of(set, record));
    uint64_t header = 0;

    STK_TRY(stk__npy_measure(data, STK_MIN(length, STK_NPY_PREAMBLE), length, key, &header, err));
    STK_TRY(stk__npy_parse(data, header, length, false, key, out, err));
    if (out->fortran && out->rank > 1)
        return stk__records_fail(set, STK_EKIND, record, err,
                                 "the array is in Fortran order; save it with "
                                 "numpy.ascontiguousarray()");
    return STK_OK;
}

/* The file that is a part, where it lies in an npz archive: in `*data`, which is replaced by what
 * it is inflated to. */
static stk_status unzip(const stk__records *set, uint64_t record, void **data, uint64_t *length,
                        const void **file, bool *deflated, stk_error *err)
{
    stk_context *ctx = set->base.context;
    stk__webdataset_zipped zipped;
    stk__codec_state *state = NULL;
    const char *reason = "damaged";
    stk_status status = STK_OK;
    void *room = NULL;

    if (!stk__webdataset_unzip(*data, *length, &zipped))
        return stk__records_fail(set, STK_EFORMAT, record, err,
                                 "an array in its npz has a damaged header");
    *deflated = zipped.deflated;
    if (zipped.deflated) {
        room = zipped.size <= stk__memory_left(ctx) ? stk__alloc_buffer(ctx, zipped.size) : NULL;
        if (!room)
            return stk__records_fail(set, STK_ENOMEM, record, err,
                                     "no memory for an array of %llu bytes in its npz",
                                     (unsigned long long)zipped.size);
        status = stk__codec_state_create(ctx, &state, err);
    }
    if (status == STK_OK) {
        *file = stk__webdataset_inflate(&zipped, state, room, &status, &reason);
        *length = zipped.size;
        if (!*file)
            stk__records_fail(set, status, record, err, "%s", reason ? reason : "it is damaged");
    }
    stk__codec_state_destroy(&state);
    if (room) {
        stk__free(ctx, *data);
        *data = room;
    }
    return status;
}

/* The header of an array, the first of its kind. */
static stk_status load_npy(stk__records *set, uint32_t kind, uint64_t record, uint32_t part,
                           stk__webdataset_field *state, bool *deflated, stk_error *err)
{
    void *data = NULL;
    uint64_t length = 0;

    STK_TRY(stk__records_load(set, record, part, &data, &state->length, err));
    const void *file = data;
    length = state->length;
    state->zipped = stk__webdataset_is_zipped(set->table.kinds[kind]);
    stk_status status = STK_OK;
    if (state->zipped)
        status = unzip(set, record, &data, &length, &file, deflated, err);
    if (status == STK_OK)
        status = parse_npy(set, file, length, record, &state->npy, err);
    stk__free(set->base.context, data);
    return status;
}

/* The type and shape of arrays, from the first of them. */
static stk_status learn_npy(stk__records *set, uint32_t kind, stk_field *field,
                            stk__webdataset_field *state, stk_error *err)
{
    stk__webdataset *w = set->state;
    bool deflated = false;
    uint32_t part = 0;

    const uint64_t record = first_with(set, kind, &part);
    STK_TRY(load_npy(set, kind, record, part, state, &deflated, err));
    field->dtype = state->npy.dtype;
    field->rank = state->npy.rank;
    memcpy(field->shape, state->npy.shape, sizeof field->shape);
    field->picture = field->dtype == STK_UINT8 && field->rank == 3 &&
                     (field->shape[2] == 1 || field->shape[2] == 3 || field->shape[2] == 4);
    if (!deflated && !same_length(set, kind, state->length) && field->rank > 0) {
        field->layout = STK_RAGGED;
        field->picture = false;
        field->shape[0] = -1;
    } else if (state->npy.bytes == 0) {
        return stk__records_fail(set, STK_EKIND, record, err, "all arrays of '%s' are empty",
                                 set->table.kinds[kind]);
    }
    if (state->zipped && field->layout == STK_FIXED)
        w->inflated_most = STK_MAX(w->inflated_most, state->npy.offset + state->npy.bytes);
    return STK_OK;
}

/* The scan has not found its arrays. */
static stk_status refuse_npz(const stk__records *set, uint32_t kind, stk_error *err)
{
    uint32_t part;

    return stk__records_fail(set, STK_ENOTSUP, first_with(set, kind, &part), err,
                             "'%s' is no archive as numpy.savez() and savez_compressed() write it "
                             "to a file, or is damaged: write it anew, save each as .npy, or name "
                             "the members to read with fields=EXT,...",
                             set->table.kinds[kind]);
}

static stk_status add_field(stk__records *set, uint32_t kind, const char *name, stk_error *err)
{
    stk__webdataset *w = set->state;
    stk_field *field = &w->fields[w->count];
    stk__webdataset_field *state = &w->states[w->count];

    state->form = form_of(set->table.kinds[kind]);
    *field = (stk_field){.struct_size = sizeof *field,
                         .name = name,
                         .dtype = STK_UINT8,
                         .layout = STK_BYTES,
                         .rank = 1,
                         .shape = {-1}};
    if (strcmp(last_part(set->table.kinds[kind]), "npz") == 0)
        return refuse_npz(set, kind, err);
    if (state->form == STK__WEBDATASET_IMAGE) {
        *field = stk__images_field(name, 3, false);
    } else if (state->form == STK__WEBDATASET_LABEL) {
        *field = stk__field(name, STK_INT64, (const int64_t[]){-1}, false);
    } else if (state->form == STK__WEBDATASET_NPY) {
        *field = stk__field(name, STK_UINT8, (const int64_t[]){-1}, false);
        STK_TRY(learn_npy(set, kind, field, state, err));
    }
    set->field_of[kind] = (int)w->count++;
    return STK_OK;
}

static stk_status add_fields(stk__records *set, stk_error *err)
{
    const stk__webdataset *w = set->state;
    const bool one = pictures_are_one(set);

    for (uint32_t i = 0; i < set->table.num_kinds; i++) {
        if (!is_read(set, i))
            continue;
        const char *name = field_name(set, i, one);
        uint32_t k = 0;
        while (k < w->count && strcmp(w->fields[k].name, name) != 0)
            k++;
        if (k < w->count)
            set->field_of[i] = (int)k; /* another extension of a picture */
        else
            STK_TRY(add_field(set, i, name, err));
    }
    return STK_OK;
}

/* ---- Members that are missing ---------------------------------------------------------------- */

/* A field that the record lacks; the count of fields where it lacks none. */
static uint32_t lacking(const stk__records *set, uint64_t record)
{
    const stk__webdataset *w = set->state;
    bool there[STK__RECORDS_MAX_KINDS];
    uint32_t n, i = 0;

    memset(there, 0, w->count);
    const stk__record_part *parts = stk__records_parts(set, record, &n);
    for (uint32_t k = 0; k < n; k++)
        if (set->field_of[parts[k].kind] >= 0)
            there[set->field_of[parts[k].kind]] = true;
    while (i < w->count && there[i])
        i++;
    return i;
}

static stk_status check_missing(stk__records *set, stk_error *err)
{
    stk__webdataset *w = set->state;

    w->whole = true;
    for (uint64_t r = 0; r < set->table.num_records; r++) {
        const uint32_t i = lacking(set, r);
        if (i == w->count)
            continue;
        w->whole = false;
        if (w->missing == STK__WEBDATASET_EMPTY && w->states[i].form == STK__WEBDATASET_NPY &&
            w->fields[i].layout == STK_FIXED)
            return stk__records_fail(set, STK_EINVAL, r, err,
                                     "it lacks the array '%s', which has no empty value: take "
                                     "missing=bad",
                                     w->fields[i].name);
        if (w->missing == STK__WEBDATASET_FAIL)
            return stk__records_fail(
                set, STK_EFORMAT, r, err,
                "the sample lacks '%s', which others have; the members of a sample follow one "
                "another in the shard. Take missing=bad or missing=empty, or name the members to "
                "read with fields=EXT,...",
                w->fields[i].name);
    }
    return STK_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stk_status learn(stk__records *set, const void *options, stk_error *err)
{
    const webdataset_options *o = options;

    stk__webdataset *w = stk__calloc(set->base.context, 1, sizeof *w);
    if (!w)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "webdataset: no memory for fields");
    set->state = w;
    w->missing = o->missing;
    w->key_header = asks_for_keys(o) ? stk__records_kind(set, STK__WEBDATASET_KEY_HEADER) : -1;
    STK_TRY(choose_kinds(set, o->fields, err));
    STK_TRY(add_fields(set, err));
    set->base.fields = w->fields;
    set->base.num_fields = w->count;
    set->base.worker_bytes = stk__webdataset_worker_bytes(w);
    return check_missing(set, err);
}

static void forget(stk__records *set)
{
    stk__free(set->base.context, set->state);
}

static void describe(const stk__records *set,
                     void (*line)(void *user, const char *name, const char *value), void *user)
{
    const stk__webdataset *w = set->state;
    uint64_t lacks = 0;
    char text[64];

    for (uint64_t r = 0; !w->whole && r < set->table.num_records; r++)
        lacks += lacking(set, r) < w->count;
    snprintf(text, sizeof text, "%llu%s", (unsigned long long)lacks,
             !lacks                              ? ""
             : w->missing == STK__WEBDATASET_BAD ? ", which are bad"
                                                 : ", which are empty there");
    line(user, "samples that lack a member", text);
}

static stk_status scan(stk__shard *shard, const void *options, stk_error *err)
{
    return stk__webdataset_scan(shard, options, asks_for_keys(options), err);
}

#define FORMAT(number)                                                                             \
    {                                                                                              \
        .ops = &stk__dataset_webdataset, .suffix = ".tar", .version = (number), .scan = scan,      \
        .open = learn, .close = forget, .describe = describe                                       \
    }

/* Their kept indexes are two: one has no keys. */
static const stk__record_format format = FORMAT(FORMAT_VERSION), keyed = FORMAT(KEYED_VERSION);

static stk_status webdataset_open(stk_context *ctx, const char *url, const void *options,
                                  stk_dataset **out, stk_error *err)
{
    return stk__records_open(ctx, url, asks_for_keys(options) ? &keyed : &format, options, out,
                             err);
}

/* A name that ends as a shard does is one. */
static bool is_shard(const char *key, size_t length)
{
    return stk__ends_with(key, length, ".tar");
}

static int recognise(stk_context *ctx, const char *url)
{
    return is_shard(url, strcspn(url, "?")) ? 2 : stk__url_recognise_folder(ctx, url, is_shard);
}

const stk_dataset_ops stk__dataset_webdataset = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "webdataset",
    .doc = "Samples in shards of tar, read in any order: train-{000..127}.tar, a folder of shards.",
    .options = &webdataset_table,
    .open = webdataset_open,
    .recognise = recognise,
    .close = stk__records_close,
    .locate = stk__records_locate,
    .object = stk__records_object,
    .prepare = stk__webdataset_prepare,
    .describe = stk__records_describe,
    .worker_open = stk__webdataset_worker_open,
    .worker_close = stk__webdataset_worker_close,
};

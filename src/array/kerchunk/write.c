/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of a file -> references: metadata of Zarr version 2, which every reader of references
 * knows, and where each chunk lies. Nothing is read but the structure of the file.
 */
#include <stdio.h>

#include "array/kerchunk/kerchunk.h"
#include "array/skipping.h"
#include "array/zarr.h"

#define MOST_CHUNK (UINT64_C(8) << 20) /* bytes of a chunk of an array that is one run */

typedef struct writing {
    stk_context *context;
    const char *file; /* URL of the chunks */
    stk__text *out;
    stk__kerchunk_written *written;
} writing;

/* How an array is told: its grid may be another than the one that it is read in. */
typedef struct told {
    int64_t chunk[STK_ARRAY_MAX_RANK];
    uint64_t bytes;  /* of a chunk */
    uint64_t pieces; /* of the array's grid in one, which follow each other */
    json_t *filters; /* of numcodecs; NULL: none */
    bool big_endian;
} told;

static stk_status no_memory(const stk_array *a, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "no memory for the references of %s", a->metadata_key);
}

static stk_status cannot(const stk_array *a, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "'%.200s' of %.200s %s, which Zarr cannot say; convert it to Zarr",
                        a->rest ? a->rest : "", a->metadata_key, what);
}

/* ---- Codecs ---- */

/* A codec of version 3 as numcodecs has it in version 2: its configuration with an `id`. */
static stk_status add_filter(const stk_array *a, const json_t *codec, told *t, stk_error *err)
{
    static const char *const known[] = {"shuffle", "zlib", "bz2", "zstd", "blosc", "fletcher32"};
    const char *name = json_string_value(json_object_get(codec, "name"));
    const json_t *configuration = json_object_get(codec, "configuration");
    char text[96];

    if (name && !strcmp(name, "bytes")) {
        const char *endian = json_string_value(json_object_get(configuration, "endian"));
        t->big_endian = endian && !strcmp(endian, "big");
        return STK_OK;
    }
    for (size_t i = 0; name && i < STK_COUNT(known); i++) {
        if (strcmp(name, known[i]) != 0)
            continue;
        json_t *filter = configuration ? json_copy((json_t *)configuration) : json_object();
        if (!filter || json_object_set_new(filter, "id", json_string(name)) != 0 ||
            json_array_append(t->filters, filter) != 0) {
            json_decref(filter);
            return no_memory(a, err);
        }
        json_decref(filter);
        return STK_OK;
    }
    snprintf(text, sizeof text, "has the codec '%.40s'", name ? name : "?");
    return cannot(a, text, err);
}

static stk_status take_codecs(const stk_array *a, told *t, stk_error *err)
{
    const char *text = stk__array_codecs(a);
    stk__json list = {0};
    stk_status status = STK_OK;

    t->big_endian = a->type.big_endian;
    if (!text)
        return STK_OK;
    t->filters = json_array();
    if (!t->filters)
        return no_memory(a, err);
    STK_TRY(stk__json_parse(a->context, text, strlen(text), a->metadata_key, &list, err));
    for (size_t i = 0; i < json_array_size(list.value) && status == STK_OK; i++)
        status = add_filter(a, json_array_get(list.value, i), t, err);
    stk__json_drop(a->context, &list);
    return status;
}

/* ---- The grid ---- */

/* Chunks of one run: trailing dimensions whole while they fit, the one before them by a divisor. */
static void cut_run(const stk_array *a, told *t)
{
    uint64_t bytes = a->type.itemsize;
    bool full = true;

    for (uint32_t i = a->rank; i-- > 0;) {
        const uint32_t d = a->fortran ? a->rank - 1 - i : i;
        const int64_t all = STK_MAX(a->shape[d], 1);
        int64_t size = full ? STK_MIN((int64_t)STK_MAX(MOST_CHUNK / bytes, 1), all) : 1;
        while (all % size)
            size--;
        t->chunk[d] = size;
        full = full && size == all;
        bytes *= (uint64_t)size;
    }
    t->bytes = bytes;
}

static stk_status take_grid(const stk_array *a, told *t, stk_error *err)
{
    const stk__level *level = &a->levels[0];
    bool even = true;

    t->pieces = 1;
    if (a->manifest == STK__MANIFEST_ONE) {
        cut_run(a, t);
        return STK_OK;
    }
    /* What has another store than the file holds bytes that are nowhere in it. */
    if (a->manifest != STK__MANIFEST_PLACES || a->num_objects > 1 || level->edges || a->home)
        return cannot(a, "lies in no chunks of one file", err);
    memcpy(t->chunk, level->shape, sizeof t->chunk);
    t->bytes = a->chunk_bytes;
    for (uint32_t d = 0; d < a->rank; d++)
        even = even && a->shape[d] % level->shape[d] == 0;
    /* Pieces of records: each record is a chunk, since the last piece is short. */
    if (!a->as_is || even || level->shape[0] != 1)
        return STK_OK;
    for (uint32_t d = 1; d < a->rank; d++) {
        t->chunk[d] = STK_MAX(a->shape[d], 1);
        t->pieces *= (uint64_t)level->count[d];
    }
    t->bytes = a->type.itemsize;
    for (uint32_t d = 1; d < a->rank; d++)
        t->bytes *= (uint64_t)t->chunk[d]; /* at most the array's, which are checked */
    return STK_OK;
}

/* Where chunk `i` of the told grid lies; STK_ENOENT: nowhere. */
static stk_status find(const stk_array *a, const told *t, uint64_t i, stk_array_place *out,
                       stk_error *err)
{
    *out = (stk_array_place){.struct_size = sizeof *out};
    if (a->manifest == STK__MANIFEST_ONE) { /* they follow each other */
        out->offset = a->object_offset + i * t->bytes;
        out->length = t->bytes;
        return STK_OK;
    }
    STK_TRY(stk__array_locate(a, i * t->pieces, out, err));
    if (out->skipped)
        return cannot(a, "has chunks that were written without some filters", err);
    for (uint64_t p = 1; p < t->pieces; p++) {
        stk_array_place next = {.struct_size = sizeof next};
        STK_TRY(stk__array_locate(a, i * t->pieces + p, &next, err));
        if (next.offset != out->offset + out->length)
            return cannot(a, "has records in pieces", err);
        out->length += next.length;
    }
    if (a->as_is && out->length != t->bytes)
        return cannot(a, "has chunks that are shorter than their shape", err);
    return STK_OK;
}

/* ---- Documents ---- */

/* The type as version 2 has it, "<f4". */
static stk_status type_code(const stk_array *a, const told *t, char code[STK__ARRAY_TYPE_NAME],
                            stk_error *err)
{
    const stk__type_kind kind = a->type.kind;

    if (kind == STK__KIND_COMPLEX || kind == STK__KIND_TIME || kind == STK__KIND_TEXT ||
        stk__type_varies(&a->type) || a->type.dtype == STK_BFLOAT16)
        return cannot(a, "has a type of its own", err);
    stk__type_to_v2(&a->type, code);
    if (t->big_endian && *code == '<')
        *code = '>';
    return STK_OK;
}

/* A key, and a document as a text. Takes the document over. */
static stk_status put_document(const writing *w, const stk_array *a, const char *path,
                               const char *name, json_t *document, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY + 16];
    char *text = document ? stk__json_text(w->context, document, false) : NULL;

    snprintf(key, sizeof key, "%s/%s", path, name);
    stk__text_add(w->out, ",\n");
    stk__text_add_json(w->out, key);
    stk__text_add(w->out, ": ");
    if (text)
        stk__text_add_json(w->out, text);
    stk__free(w->context, text);
    json_decref(document);
    return text ? STK_OK : no_memory(a, err);
}

/* A fill value of version 2 is a missing value to xarray, which makes floats of integers then:
 * where every chunk lies somewhere it is said only if the file says it, too. */
static bool has_fill(const stk_array *a, bool whole)
{
    const bool bytes = a->type.kind == STK__KIND_BYTES || a->type.kind == STK__KIND_RAW;

    return a->fill_defined && !bytes &&
           (!whole || json_object_get(a->attributes.value, "_FillValue"));
}

/* As xarray keeps them. */
static bool add_names(const stk_array *a, json_t *attributes)
{
    json_t *names = json_array();
    bool good = json_object_set_new(attributes, "_ARRAY_DIMENSIONS", names) == 0;

    for (uint32_t d = 0; good && d < a->rank; d++)
        good =
            json_array_append_new(names, a->names[d] ? json_string(a->names[d]) : json_null()) == 0;
    return good;
}

/* `whole`: no chunk is missing. */
static stk_status put_metadata(const writing *w, const stk_array *a, const told *t, bool whole,
                               const char *path, stk_error *err)
{
    const bool fill = has_fill(a, whole);
    char code[STK__ARRAY_TYPE_NAME];

    STK_TRY(type_code(a, t, code, err));
    json_t *array =
        json_pack("{s:i, s:o, s:o, s:s, s:n, s:O?, s:s, s:o}", "zarr_format", 2, "shape",
                  stk__zarr_shape_json(a->shape, a->rank), "chunks",
                  stk__zarr_shape_json(t->chunk, a->rank), "dtype", code, "compressor", "filters",
                  json_array_size(t->filters) ? t->filters : NULL, "order", a->fortran ? "F" : "C",
                  "fill_value", fill ? stk__fill_to_json(&a->type, a->fill) : json_null());
    STK_TRY(put_document(w, a, path, STK__ZARR_V2_ARRAY, array, err));
    json_t *attributes = a->attributes.value ? json_copy(a->attributes.value) : json_object();
    /* Of a scalar the list without a name: what has no list is no variable to xarray. */
    if ((a->names || a->rank == 0) && !add_names(a, attributes)) {
        json_decref(attributes);
        return no_memory(a, err);
    }
    return put_document(w, a, path, STK__ZARR_V2_ATTRS, attributes, err);
}

static stk_status put_chunks(const writing *w, const stk_array *a, const told *t, const char *path,
                             bool *whole, stk_error *err)
{
    uint64_t counts[STK_ARRAY_MAX_RANK], total = 1;
    stk_array_place place;

    *whole = true;
    for (uint32_t d = 0; d < a->rank; d++) {
        counts[d] = (uint64_t)(a->shape[d] / t->chunk[d] + (a->shape[d] % t->chunk[d] != 0));
        total *= counts[d]; /* at most the array's, which are checked */
    }
    for (uint64_t i = 0; i < total && !w->out->failed; i++) {
        /* Chunks of a run are counted as they lie. */
        uint64_t rest = i, at[STK_ARRAY_MAX_RANK];
        for (uint32_t n = a->rank; n-- > 0;) {
            const uint32_t d = a->fortran ? a->rank - 1 - n : n;
            at[d] = rest % counts[d];
            rest /= counts[d];
        }
        const stk_status status = find(a, t, i, &place, err);
        if (status == STK_ENOENT) {
            *whole = false;
            continue;
        }
        STK_TRY(status);
        w->written->references++;
        stk__text_add(w->out, ",\n\"%s/", path);
        for (uint32_t d = 0; d < a->rank; d++)
            stk__text_add(w->out, "%s%llu", d ? "." : "", (unsigned long long)at[d]);
        stk__text_add(w->out, a->rank ? "\": [" : "0\": [");
        stk__text_add_json(w->out, w->file);
        stk__text_add(w->out, ", %llu, %llu]", (unsigned long long)place.offset,
                      (unsigned long long)place.length);
    }
    return w->out->failed ? no_memory(a, err) : STK_OK;
}

static stk_status put_array(const writing *w, const stk_array *a, const char *path, stk_error *err)
{
    told t = {0};
    bool whole;

    if (strpbrk(path, "\"\\"))
        return cannot(a, "has a name with quotes", err);
    stk_status status = take_codecs(a, &t, err);
    if (status == STK_OK)
        status = take_grid(a, &t, err);
    if (status == STK_OK)
        status = put_chunks(w, a, &t, path, &whole, err);
    if (status == STK_OK)
        status = put_metadata(w, a, &t, whole, path, err);
    json_decref(t.filters);
    w->written->arrays++;
    w->written->bytes += a->bytes;
    return status;
}

stk_status stk__kerchunk_write(stk_context *ctx, stk_group *group, const char *file, stk__text *out,
                               stk__kerchunk_written *written, stk_error *err)
{
    const writing w = {.context = ctx, .file = file, .out = out, .written = written};
    const stk_node *node;
    stk_status status = STK_OK;

    out->ctx = ctx;
    *written = (stk__kerchunk_written){0};
    stk__text_add(out, "{\"version\": 1, \"refs\": {\n\".zgroup\": \"{\\\"zarr_format\\\": 2}\",\n"
                       "\".zattrs\": ");
    stk__text_add_json(out, stk_group_attributes(group));
    for (size_t i = 0; status == STK_OK && (node = stk_group_node(group, i)); i++) {
        stk_array *a = NULL;
        if (!node->is_array) {
            stk__text_add(out, ",\n\"%s/.zgroup\": \"{\\\"zarr_format\\\": 2}\"", node->path);
            continue;
        }
        status = stk_group_array(group, node->path, NULL, &a, err);
        if (status == STK_OK)
            status = put_array(&w, a, node->path, err);
        stk_array_close(&a);
    }
    stk__text_add(out, "\n}}\n");
    if (status == STK_OK && out->failed)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory for references");
    return status;
}

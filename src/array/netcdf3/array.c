/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A variable of a NetCDF-3 file as an array. One that follows itself without a gap is one run; of
 * records with other variables between them each is cut into chunks as a run would be.
 */
#include <stdio.h>

#include "array/netcdf3/netcdf3.h"

#define MOST_NAMES 12 /* of variables in a message */

/* Where the pieces of each record lie. */
typedef struct records {
    stk_context *context;
    uint64_t begin, distance; /* of the first record, and between them */
    uint64_t bytes;           /* of a record */
    uint64_t piece, pieces;   /* bytes of a piece, but the last; pieces of a record */
} records;

static int netcdf3_recognise(stk_store *store, const char *key)
{
    unsigned char head[4];

    if (!*key || stk_store_read(store, key, 0, sizeof head, head, NULL) != STK_OK)
        return 0;
    return memcmp(head, "CDF", 3) == 0 && (head[3] == 1 || head[3] == 2 || head[3] == 5) ? 2 : 0;
}

/* ---- Which variable ---- */

static void add_names(const stk__netcdf3_header *h, stk__text *out)
{
    for (uint64_t i = 0; i < h->num_variables && i < MOST_NAMES; i++)
        stk__text_add(out, "%s%.*s", i ? ", " : "", (int)STK_MIN(h->variables[i].name_length, 64),
                      h->variables[i].name);
    if (h->num_variables > MOST_NAMES)
        stk__text_add(out, ", ...");
}

static stk_status no_variable(const stk__netcdf3_header *h, const stk_array_opening *opening,
                              stk_error *err)
{
    char bytes[512] = "";
    stk__text names = {.bytes = bytes, .room = sizeof bytes};

    add_names(h, &names);
    if (!*opening->rest)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "%s holds %llu variables; name one, as %.200s/NAME: %s", opening->key,
                            (unsigned long long)h->num_variables, opening->key, bytes);
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                        "%s has no variable '%.100s'; it has: %s", opening->key, opening->rest,
                        h->num_variables ? bytes : "none");
}

/* The variable that is named, or the only one. */
static stk_status find(const stk__netcdf3_header *h, const stk_array_opening *opening,
                       const stk__netcdf3_variable **out, stk_error *err)
{
    const size_t length = strlen(opening->rest);

    *out = !length && h->num_variables == 1 ? &h->variables[0] : NULL;
    for (uint64_t i = 0; length && !*out && i < h->num_variables; i++)
        if (h->variables[i].name_length == length &&
            memcmp(h->variables[i].name, opening->rest, length) == 0)
            *out = &h->variables[i];
    return *out ? STK_OK : no_variable(h, opening, err);
}

/* ---- Its layout ---- */

static stk_status take_shape(const stk__netcdf3_header *h, const stk__netcdf3_variable *v,
                             const char *key, int64_t *shape, stk__text *names, stk_error *err)
{
    for (uint32_t d = 0; d < v->rank; d++) {
        const stk__netcdf3_dimension *dim = &h->dimensions[v->dimensions[d]];
        shape[d] = (int64_t)(dim->length ? dim->length : h->num_records);
        stk__text_put(names, dim->name, dim->name_length);
        stk__text_put(names, "", 1);
    }
    if (!names->failed)
        return STK_OK;
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "no memory to open the array %.200s", key);
}

/* The value of elements that nobody wrote: the attribute's, or what the library puts there. */
static void take_fill(const stk__netcdf3_variable *v, unsigned char *fill)
{
    const stk__netcdf3_attribute *a = stk__netcdf3_find(&v->attributes, "_FillValue");

    memcpy(fill, v->type->fill, sizeof v->type->fill);
    for (uint32_t i = 0; a && a->type == v->type && a->count == 1 && i < a->type->bytes; i++)
        fill[i] = a->values[a->type->bytes - 1 - i];
}

/* All records lie within the file. */
static stk_status check_records(const records *r, uint64_t count, const stk_array_opening *opening,
                                stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    uint64_t end = 0;

    STK_TRY(stk_store_stat(opening->store, opening->key, NULL, &info, err));
    if (count &&
        (!stk__mul_size(count - 1, r->distance, &end) || !stk__add_size(end, r->begin, &end) ||
         !stk__add_size(end, r->bytes, &end) || end > info.size))
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, opening->key, info.size,
                            "%s has %llu bytes, and %llu records of '%.100s' do not end within "
                            "them; copy it again",
                            opening->key, (unsigned long long)info.size, (unsigned long long)count,
                            opening->rest);
    return STK_OK;
}

/* Records with gaps between them: chunks of one record, or of a piece of it. */
static stk_status lay_records(const stk__netcdf3_header *h, const stk__netcdf3_variable *v,
                              const stk_array_opening *opening, stk_array_layout *layout,
                              int64_t *chunk, stk_error *err)
{
    stk_context *ctx = opening->store->context;
    records *r = stk__calloc(ctx, 1, sizeof *r);

    if (!r)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "no memory to open the array %.200s", opening->key);
    *r = (records){.context = ctx,
                   .begin = v->begin,
                   .distance = h->record_bytes,
                   .bytes = v->bytes,
                   .piece = v->type->bytes};
    layout->state = r;
    STK_TRY(check_records(r, h->num_records, opening, err));
    chunk[0] = 1;
    stk__array_pieces(v->rank - 1, layout->shape + 1, v->type->bytes, chunk + 1);
    for (uint32_t d = 1; d < v->rank; d++)
        r->piece *= (uint64_t)chunk[d]; /* at most the record's, which are checked */
    r->pieces = 1;
    for (uint32_t d = 1; d < v->rank; d++)
        r->pieces *= (uint64_t)((layout->shape[d] - 1) / chunk[d] + 1);
    layout->chunk_shape = chunk;
    return STK_OK;
}

static stk_status lay_out(stk_array *a, const stk__netcdf3_header *h,
                          const stk__netcdf3_variable *v, const stk_array_opening *opening,
                          stk__text *texts, stk__text *attributes, stk_error *err)
{
    static const char *const formats[] = {"netcdf 3", "netcdf 3 (64-bit offset)", "cdf 5"};
    stk_array_layout layout = {.struct_size = sizeof layout, .rank = v->rank};
    int64_t shape[STK_ARRAY_MAX_RANK], chunk[STK_ARRAY_MAX_RANK];
    const char *names[STK_ARRAY_MAX_RANK];
    unsigned char fill[8];

    STK_TRY(take_shape(h, v, opening->key, shape, texts, err));
    const char *name = texts->bytes;
    for (uint32_t d = 0; d < v->rank; d++, name += strlen(name) + 1)
        names[d] = name;
    take_fill(v, fill);
    stk__netcdf3_attributes(&v->attributes, attributes);
    if (attributes->failed)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "no memory for the attributes of %.200s", opening->key);
    layout.format = formats[STK_MIN(h->version, 3) - 1];
    layout.type_name = v->type->name;
    layout.shape = shape;
    layout.dimension_names = names;
    layout.fill_value = fill;
    layout.attributes = attributes->bytes;
    layout.offset = v->begin;
    stk_status status = STK_OK;
    if (v->is_record && h->record_bytes != v->bytes)
        status = lay_records(h, v, opening, &layout, chunk, err);
    if (status == STK_OK)
        status = stk_array_lay_out(a, &layout, err);
    if (status != STK_OK && layout.state)
        stk__free(opening->store->context, layout.state);
    return status;
}

/* Keep the header of a group; without memory for that each array reads its own. */
static void keep_header(const stk_array_opening *opening, stk__netcdf3_header *h)
{
    stk__netcdf3_header *kept =
        opening->kept ? stk__alloc(opening->store->context, sizeof *kept) : NULL;

    if (!kept)
        return;
    *kept = *h;
    *h = (stk__netcdf3_header){.context = h->context};
    *opening->kept = kept;
}

static void netcdf3_forget(void *user)
{
    stk__netcdf3_header *kept = user;
    stk_context *ctx = kept->context;

    stk__netcdf3_release(kept);
    stk__free(ctx, kept);
}

static stk_status netcdf3_open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    stk_context *ctx = opening->store->context;
    stk__text texts = {.ctx = ctx}, attributes = {.ctx = ctx};
    const stk__netcdf3_header *kept = opening->kept ? *opening->kept : NULL;
    const stk__netcdf3_variable *v = NULL;
    stk__netcdf3_header own = {.context = ctx};

    if (!*opening->key)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                            "'%.300s' is a folder; name the file of the array", opening->url);
    stk_status status = kept ? STK_OK : stk__netcdf3_read(opening->store, opening->key, &own, err);
    const stk__netcdf3_header *const h = kept ? kept : &own;
    if (status == STK_OK)
        status = find(h, opening, &v, err);
    if (status == STK_OK)
        status = lay_out(a, h, v, opening, &texts, &attributes, err);
    stk__text_release(&texts);
    stk__text_release(&attributes);
    stk__netcdf3_release(&own);
    return status;
}

/* ---- What is in the file ---- */

static stk_status add_all(const stk__netcdf3_header *h, stk_context *ctx, const char *key,
                          stk_array_listing *listing, stk_error *err)
{
    stk__text text = {.ctx = ctx};
    stk_status status = STK_OK;

    for (uint64_t i = 0; i < h->num_variables && status == STK_OK; i++) {
        text.length = 0;
        stk__text_put(&text, h->variables[i].name, h->variables[i].name_length);
        stk__text_put(&text, "", 1);
        if (!text.failed)
            status = stk_array_listing_add(listing, text.bytes, true, err);
    }
    text.length = 0;
    if (status == STK_OK)
        stk__netcdf3_attributes(&h->attributes, &text);
    if (text.failed)
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                              "no memory to list %.200s", key);
    else if (status == STK_OK)
        status = stk_array_listing_attributes(listing, text.bytes, err);
    stk__text_release(&text);
    return status;
}

static stk_status netcdf3_list(const stk_array_opening *opening, stk_array_listing *listing,
                               stk_error *err)
{
    const stk__netcdf3_variable *v = NULL;
    stk__netcdf3_header h;

    stk_status status = stk__netcdf3_read(opening->store, opening->key, &h, err);
    if (status == STK_OK && !*opening->rest)
        status = add_all(&h, opening->store->context, opening->key, listing, err);
    else if (status == STK_OK)
        status = find(&h, opening, &v, err);
    if (status == STK_OK && v)
        status = stk__fail_at(err, STK_EMISMATCH, STK_STAGE_ARRAY, opening->key, STK_NO_OFFSET,
                              "'%.100s' of %.200s is an array and no group", opening->rest,
                              opening->key);
    if (status == STK_OK)
        keep_header(opening, &h);
    stk__netcdf3_release(&h);
    return status;
}

/* ---- Chunks ---- */

static stk_status netcdf3_locate(void *state, uint64_t chunk, stk_array_place *out, stk_error *err)
{
    const records *r = state;
    const uint64_t record = chunk / r->pieces, before = chunk % r->pieces * r->piece;

    (void)err;
    out->object = 0;
    out->offset = r->begin + record * r->distance + before;
    out->length = STK_MIN(r->piece, r->bytes - before);
    return STK_OK;
}

static void netcdf3_close(void *state)
{
    records *r = state; /* NULL: the array is one run */

    if (r)
        stk__free(r->context, r);
}

const stk_array_format_ops stk__array_netcdf3 = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "netcdf3",
    .doc = "NetCDF-3: classic, with 64-bit offsets, and CDF-5",
    .takes_rest = true,
    .recognise = netcdf3_recognise,
    .open = netcdf3_open,
    .locate = netcdf3_locate,
    .close = netcdf3_close,
    .list = netcdf3_list,
    .forget = netcdf3_forget,
};

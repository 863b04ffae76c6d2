/* SPDX-License-Identifier: Apache-2.0 */
#include "array/netcdf3/netcdf3.h"

#define TAG_DIMENSION 0x0A
#define TAG_VARIABLE  0x0B
#define TAG_ATTRIBUTE 0x0C
#define CDF5          5
#define STREAMING     UINT32_MAX /* a number of records that the writer did not know */
/* Least bytes of an entry of each list, from which follows how many there can be. */
#define LEAST_DIMENSION 8
#define LEAST_ATTRIBUTE 12
#define LEAST_VARIABLE  28

#define FILL_FLOAT  0x00, 0x00, 0xf0, 0x7c
#define FILL_DOUBLE 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9e, 0x47

/* By their codes, from 1 on; those from 7 on are of CDF-5. */
static const stk__netcdf3_type types[] = {
    {"int8", 1, {0x81}},
    {"S1", 1, {0}},
    {">i2", 2, {0x01, 0x80}},
    {">i4", 4, {0x01, 0x00, 0x00, 0x80}},
    {">f4", 4, {FILL_FLOAT}},
    {">f8", 8, {FILL_DOUBLE}},
    {"uint8", 1, {0xff}},
    {">u2", 2, {0xff, 0xff}},
    {">u4", 4, {0xff, 0xff, 0xff, 0xff}},
    {">i8", 8, {0x02, 0, 0, 0, 0, 0, 0, 0x80}},
    {">u8", 8, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
};
#define CLASSIC_TYPES 6

/* A place in the header. */
typedef struct cursor {
    const unsigned char *bytes;
    uint64_t at, length, size;
    const char *key;
    stk__netcdf3_header *header;
    bool *more;
    stk_error *err;
} cursor;

static stk_status wrong(const cursor *c, uint64_t at, const char *what)
{
    return stk__fail_at(c->err, STK_EFORMAT, STK_STAGE_ARRAY, c->key, at,
                        "%s: the NetCDF header is damaged at byte %llu: %s; copy or write the file "
                        "again",
                        c->key, (unsigned long long)at, what);
}

/* So many bytes come next. */
static stk_status need(const cursor *c, uint64_t bytes)
{
    if (bytes <= c->length - c->at)
        return STK_OK;
    *c->more = bytes <= c->size - c->at && c->length < c->size;
    return stk__fail_at(c->err, STK_ETRUNCATED, STK_STAGE_ARRAY, c->key, c->at,
                        "%s: the NetCDF header goes on behind the %llu bytes of the file; copy it "
                        "again",
                        c->key, (unsigned long long)c->size);
}

static stk_status take(cursor *c, unsigned bytes, uint64_t *out)
{
    STK_TRY(need(c, bytes));
    *out = stk__big_endian(c->bytes + c->at, bytes);
    c->at += bytes;
    return STK_OK;
}

/* A count or a size: not negative, 8 bytes in CDF-5. */
static stk_status take_count(cursor *c, uint64_t *out)
{
    STK_TRY(take(c, c->header->version == CDF5 ? 8 : 4, out));
    return *out > INT64_MAX ? wrong(c, c->at - 8, "a count is negative") : STK_OK;
}

/* Bytes and what pads them. */
static stk_status take_bytes(cursor *c, uint64_t bytes, const unsigned char **out)
{
    if (bytes > c->size)
        return wrong(c, c->at, "something is longer than the file");
    STK_TRY(need(c, stk__round_up(bytes, 4)));
    *out = c->bytes + c->at;
    c->at += stk__round_up(bytes, 4);
    return STK_OK;
}

static stk_status take_name(cursor *c, const char **name, uint64_t *length)
{
    const unsigned char *bytes = NULL;
    const uint64_t at = c->at;

    STK_TRY(take_count(c, length));
    STK_TRY(take_bytes(c, *length, &bytes));
    if (*length == 0 || memchr(bytes, 0, *length))
        return wrong(c, at, "a name is empty or holds a zero byte");
    *name = (const char *)bytes;
    return STK_OK;
}

/* The head of a list; *count entries, each of at least `least` bytes, so no more than there can be.
 */
static stk_status take_list(cursor *c, uint64_t tag, uint64_t least, uint64_t *count)
{
    const uint64_t at = c->at;
    uint64_t found = 0;

    STK_TRY(take(c, 4, &found));
    STK_TRY(take_count(c, count));
    if (found == 0 && *count == 0)
        return STK_OK;
    if (found != tag)
        return wrong(c, at, "a list begins with the tag of another");
    if (*count > (c->size - c->at) / least)
        return wrong(c, at, "a list has more entries than the file has bytes");
    return STK_OK;
}

/* Memory for entries, within the part of memory_limit. */
static stk_status make(cursor *c, uint64_t count, size_t size, void *out)
{
    const uint64_t most = stk__context_memory_limit(c->header->context) / STK__NETCDF3_PART;
    uint64_t bytes;

    if (!stk__mul_size(count, size, &bytes) || bytes > most - STK_MIN(most, c->header->held))
        return stk__fail_at(c->err, STK_ELIMIT, STK_STAGE_ARRAY, c->key, c->at,
                            "%s: the NetCDF header takes more than %llu bytes of memory, an eighth "
                            "of memory_limit; raise it",
                            c->key, (unsigned long long)most);
    void *memory = count ? stk__calloc(c->header->context, count, size) : NULL;
    if (count && !memory)
        return stk__fail_at(c->err, STK_ENOMEM, STK_STAGE_ARRAY, c->key, c->at,
                            "no memory for the NetCDF header of %s", c->key);
    c->header->held += bytes;
    memcpy(out, &memory, sizeof memory);
    return STK_OK;
}

static stk_status take_type(cursor *c, const stk__netcdf3_type **out)
{
    const uint64_t at = c->at,
                   most = c->header->version == CDF5 ? STK_COUNT(types) : CLASSIC_TYPES;
    uint64_t code = 0;

    STK_TRY(take(c, 4, &code));
    if (code < 1 || code > most)
        return stk__fail_at(c->err, STK_EKIND, STK_STAGE_ARRAY, c->key, at,
                            "%s: type %llu at byte %llu is none of NetCDF version %d", c->key,
                            (unsigned long long)code, (unsigned long long)at, c->header->version);
    *out = &types[code - 1];
    return STK_OK;
}

static stk_status take_attributes(cursor *c, stk__netcdf3_list *list)
{
    uint64_t count = 0, bytes;

    STK_TRY(take_list(c, TAG_ATTRIBUTE, LEAST_ATTRIBUTE, &count));
    STK_TRY(make(c, count, sizeof *list->attributes, &list->attributes));
    for (; list->count < count; list->count++) {
        stk__netcdf3_attribute *a = &list->attributes[list->count];
        STK_TRY(take_name(c, &a->name, &a->name_length));
        STK_TRY(take_type(c, &a->type));
        STK_TRY(take_count(c, &a->count));
        if (!stk__mul_size(a->count, a->type->bytes, &bytes))
            return wrong(c, c->at, "an attribute has more values than can be");
        STK_TRY(take_bytes(c, bytes, &a->values));
    }
    return STK_OK;
}

static stk_status take_dimensions(cursor *c)
{
    stk__netcdf3_header *h = c->header;
    uint64_t count = 0;
    bool records = false;

    STK_TRY(take_list(c, TAG_DIMENSION, LEAST_DIMENSION, &count));
    STK_TRY(make(c, count, sizeof *h->dimensions, &h->dimensions));
    for (; h->num_dimensions < count; h->num_dimensions++) {
        stk__netcdf3_dimension *d = &h->dimensions[h->num_dimensions];
        const uint64_t at = c->at;
        STK_TRY(take_name(c, &d->name, &d->name_length));
        STK_TRY(take_count(c, &d->length));
        if (d->length == 0 && records)
            return wrong(c, at, "a second dimension is that of the records");
        records = records || d->length == 0;
    }
    return STK_OK;
}

/* Numbers of the dimensions, and bytes of the variable, or of a record of it. */
static stk_status take_shape(cursor *c, stk__netcdf3_variable *v, uint64_t *elements)
{
    const uint64_t at = c->at;
    uint64_t rank = 0;

    STK_TRY(take_count(c, &rank));
    if (rank > STK_ARRAY_MAX_RANK)
        return stk__fail_at(c->err, STK_ELIMIT, STK_STAGE_ARRAY, c->key, at,
                            "%s: a variable has %llu dimensions, and at most %d are read", c->key,
                            (unsigned long long)rank, STK_ARRAY_MAX_RANK);
    STK_TRY(make(c, rank, sizeof *v->dimensions, &v->dimensions));
    for (*elements = 1; v->rank < rank; v->rank++) {
        uint64_t id = 0;
        STK_TRY(take_count(c, &id));
        if (id >= c->header->num_dimensions)
            return wrong(c, at, "a variable has a dimension that there is not");
        const uint64_t length = c->header->dimensions[id].length;
        v->dimensions[v->rank] = (uint32_t)id;
        if (length == 0 && v->rank > 0)
            return wrong(c, at, "the dimension of the records is not the first of a variable");
        v->is_record = v->is_record || length == 0;
        if (length && !stk__mul_size(*elements, length, elements))
            return wrong(c, at, "a variable has more elements than can be");
    }
    return STK_OK;
}

static stk_status take_variable(cursor *c, stk__netcdf3_variable *v)
{
    const uint64_t at = c->at;
    uint64_t elements = 0, ignored = 0;

    STK_TRY(take_name(c, &v->name, &v->name_length));
    STK_TRY(take_shape(c, v, &elements));
    STK_TRY(take_attributes(c, &v->attributes));
    STK_TRY(take_type(c, &v->type));
    STK_TRY(take_count(c, &ignored)); /* its bytes, which do not fit the field where they are many */
    STK_TRY(take(c, c->header->version == 1 ? 4 : 8, &v->begin));
    if (!stk__mul_size(elements, v->type->bytes, &v->bytes) || v->bytes > INT64_MAX - 3)
        return wrong(c, at, "a variable has more bytes than can be");
    if (v->begin > INT64_MAX)
        return wrong(c, at, "a variable begins at a negative byte");
    return STK_OK;
}

/*
 * The distance of records. Each part of one is padded, unless there is no other: then bytes, texts
 * and shorts follow each other (a part without bytes is none).
 */
static stk_status measure_records(cursor *c)
{
    stk__netcdf3_header *h = c->header;
    const stk__netcdf3_variable *last = NULL;

    for (uint64_t i = 0; i < h->num_variables; i++) {
        const stk__netcdf3_variable *v = &h->variables[i];
        if (!v->is_record)
            continue;
        if (!stk__add_size(h->record_bytes, stk__round_up(v->bytes, 4), &h->record_bytes))
            return wrong(c, c->at, "a record has more bytes than can be");
        last = v;
    }
    if (last && h->record_bytes == stk__round_up(last->bytes, 4))
        h->record_bytes = last->bytes;
    return STK_OK;
}

/* The number of records where the writer did not say it: as many as the file holds. */
static void count_records(cursor *c)
{
    stk__netcdf3_header *h = c->header;
    uint64_t begin = c->size;

    for (uint64_t i = 0; i < h->num_variables; i++)
        if (h->variables[i].is_record)
            begin = STK_MIN(begin, h->variables[i].begin);
    h->num_records = h->record_bytes ? (c->size - begin) / h->record_bytes : 0;
}

static stk_status parse(cursor *c)
{
    stk__netcdf3_header *h = c->header;
    uint64_t magic = 0, count = 0;

    STK_TRY(take(c, 4, &magic));
    h->version = (int)(magic & 0xff);
    if (magic >> 8 != 0x434446 || (h->version != 1 && h->version != 2 && h->version != CDF5))
        return wrong(c, 0, "it does not begin with CDF and a version of 1, 2 or 5");
    const unsigned wide = h->version == CDF5 ? 8 : 4;
    STK_TRY(take(c, wide, &h->num_records));
    const bool streaming = h->num_records == (wide == 8 ? UINT64_MAX : STREAMING);
    if (!streaming && h->num_records > INT64_MAX)
        return wrong(c, 4, "the number of records is negative");
    STK_TRY(take_dimensions(c));
    STK_TRY(take_attributes(c, &h->attributes));
    STK_TRY(take_list(c, TAG_VARIABLE, LEAST_VARIABLE, &count));
    STK_TRY(make(c, count, sizeof *h->variables, &h->variables));
    while (h->num_variables < count) /* counted first, so that what it has is released */
        STK_TRY(take_variable(c, &h->variables[h->num_variables++]));
    STK_TRY(measure_records(c));
    if (streaming)
        count_records(c);
    return STK_OK;
}

stk_status stk__netcdf3_parse(stk_context *ctx, const unsigned char *bytes, uint64_t length,
                              uint64_t size, const char *key, stk__netcdf3_header *out, bool *more,
                              stk_error *err)
{
    cursor c = {.bytes = bytes,
                .length = length,
                .size = size,
                .key = key,
                .header = out,
                .more = more,
                .err = err};

    *out = (stk__netcdf3_header){.context = ctx};
    *more = false;
    return parse(&c);
}

void stk__netcdf3_release(stk__netcdf3_header *h)
{
    for (uint64_t i = 0; i < h->num_variables; i++) {
        stk__free(h->context, h->variables[i].dimensions);
        stk__free(h->context, h->variables[i].attributes.attributes);
    }
    stk__free(h->context, h->variables);
    stk__free(h->context, h->dimensions);
    stk__free(h->context, h->attributes.attributes);
    stk__free(h->context, h->bytes);
    *h = (stk__netcdf3_header){.context = h->context};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of the footer that are used; fields that are not known are passed over. */
#include "dataset/table/parquet.h"

/* KeyValue's list: the value of a key. */
static stk__thrift_text read_value(stk__thrift *t, const stk__thrift_field *list, const char *key)
{
    stk__thrift_text found = {0};
    stk__thrift_field of;

    const uint32_t n = stk__thrift_list(t, list, &of);
    for (uint32_t i = 0; i < n && !t->bad; i++) {
        stk__thrift_text name = {0}, value = {0};
        stk__thrift_field f = {0};
        if (!stk__thrift_struct(t, &of))
            break;
        while (stk__thrift_next(t, &f)) {
            if (f.id == 1)
                name = stk__thrift_binary(t, &f);
            else if (f.id == 2)
                value = stk__thrift_binary(t, &f);
            else
                stk__thrift_skip(t, &f);
        }
        if (name.length == strlen(key) && memcmp(name.data, key, name.length) == 0)
            found = value;
    }
    return found;
}

void stk__parquet_footer_read(stk__thrift *t, stk__parquet_footer *out)
{
    stk__thrift_field f = {0};

    *out = (stk__parquet_footer){0};
    while (stk__thrift_next(t, &f)) {
        const stk__thrift here = *t;
        switch (f.id) {
        case 2: /* schema */
            out->schema = here;
            out->has_schema = true;
            break;
        case 3: /* num_rows */
            out->rows = stk__thrift_int(t, &f);
            continue;
        case 4: /* row_groups */
            out->groups = here;
            out->num_groups = stk__thrift_list(&out->groups, &f, &out->groups_of);
            out->has_groups = true;
            break;
        case 5: /* key_value_metadata */
            out->fields = read_value(t, &f, "stoker.fields");
            continue;
        case 6: /* created_by */
            out->writer = stk__thrift_binary(t, &f);
            continue;
        case 8: /* encryption_algorithm */
            out->encrypted = true;
            break;
        default:
            break;
        }
        stk__thrift_skip(t, &f);
    }
}

void stk__parquet_group_read(stk__thrift *t, stk__parquet_group *out)
{
    stk__thrift_field f = {0};

    *out = (stk__parquet_group){0};
    while (stk__thrift_next(t, &f)) {
        if (f.id == 1) { /* columns */
            out->chunks = *t;
            out->num_chunks = stk__thrift_list(&out->chunks, &f, &out->chunks_of);
        } else if (f.id == 3) { /* num_rows */
            out->rows = stk__thrift_int(t, &f);
            continue;
        }
        stk__thrift_skip(t, &f);
    }
}

/* Of Statistics; what is written before 2.4 (min, max) compares signed, and is only taken of signed
 * numbers, by the caller. */
static void read_statistics(stk__thrift *t, stk__parquet_bounds *out)
{
    stk__thrift_field f = {0};

    while (stk__thrift_next(t, &f)) {
        if (f.id == 5) /* max_value */
            out->most = stk__thrift_binary(t, &f);
        else if (f.id == 6) /* min_value */
            out->least = stk__thrift_binary(t, &f);
        else
            stk__thrift_skip(t, &f);
    }
}

static bool is_code(int64_t encoding)
{
    return encoding == STK__PARQUET_PLAIN_DICTIONARY || encoding == STK__PARQUET_RLE_DICTIONARY;
}

/* PageEncodingStats: whether all data pages are of codes. */
static bool read_encoding_stats(stk__thrift *t, const stk__thrift_field *list)
{
    stk__thrift_field of;
    bool codes = false, others = false;

    const uint32_t n = stk__thrift_list(t, list, &of);
    for (uint32_t i = 0; i < n && !t->bad; i++) {
        stk__thrift_field f = {0};
        int64_t type = -1, encoding = -1, count = 0;
        if (!stk__thrift_struct(t, &of))
            break;
        while (stk__thrift_next(t, &f)) {
            if (f.id == 1)
                type = stk__thrift_int(t, &f);
            else if (f.id == 2)
                encoding = stk__thrift_int(t, &f);
            else if (f.id == 3)
                count = stk__thrift_int(t, &f);
            else
                stk__thrift_skip(t, &f);
        }
        if (count > 0 && (type == STK__PARQUET_DATA || type == STK__PARQUET_DATA2)) {
            codes |= is_code(encoding);
            others |= !is_code(encoding);
        }
    }
    return codes && !others;
}

static uint32_t read_encodings(stk__thrift *t, const stk__thrift_field *list)
{
    stk__thrift_field of;
    uint32_t bits = 0;

    const uint32_t n = stk__thrift_list(t, list, &of);
    for (uint32_t i = 0; i < n && !t->bad; i++) {
        const int64_t encoding = stk__thrift_int(t, &of);
        if (encoding >= 0 && encoding < 32)
            bits |= UINT32_C(1) << encoding;
    }
    return bits;
}

/* A number that has to fit; what does not makes no sense anywhere. */
static int32_t read_small(stk__thrift *t, const stk__thrift_field *f)
{
    const int64_t x = stk__thrift_int(t, f);

    return x >= 0 && x <= INT32_MAX ? (int32_t)x : -1;
}

static void read_meta(stk__thrift *t, stk__parquet_chunk *out)
{
    stk__thrift_field f = {0};

    out->has_meta = true;
    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            out->type = read_small(t, &f);
        else if (f.id == 2)
            out->encodings = read_encodings(t, &f);
        else if (f.id == 4)
            out->codec = read_small(t, &f);
        else if (f.id == 5)
            out->values = stk__thrift_int(t, &f);
        else if (f.id == 7)
            out->compressed = stk__thrift_int(t, &f);
        else if (f.id == 9)
            out->data_at = stk__thrift_int(t, &f);
        else if (f.id == 11)
            out->dictionary_at = stk__thrift_int(t, &f);
        else if (f.id == 12 && stk__thrift_struct(t, &f))
            read_statistics(t, &out->bounds);
        else if (f.id == 13)
            out->only_dictionary = read_encoding_stats(t, &f);
        else
            stk__thrift_skip(t, &f);
    }
}

void stk__parquet_chunk_read(stk__thrift *t, stk__parquet_chunk *out)
{
    stk__thrift_field f = {0};

    *out = (stk__parquet_chunk){.type = -1, .codec = -1};
    while (stk__thrift_next(t, &f)) {
        if (f.id == 1)
            out->elsewhere = stk__thrift_binary(t, &f).length > 0;
        else if (f.id == 3 && stk__thrift_struct(t, &f))
            read_meta(t, out);
        else if (f.id == 4)
            out->offset_index_at = stk__thrift_int(t, &f);
        else if (f.id == 5)
            out->offset_index_length = stk__thrift_int(t, &f);
        else if (f.id == 6)
            out->column_index_at = stk__thrift_int(t, &f);
        else if (f.id == 7)
            out->column_index_length = stk__thrift_int(t, &f);
        else {
            out->encrypted |= f.id == 8 || f.id == 9;
            stk__thrift_skip(t, &f);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* index.json of MDS: each shard repeats what its columns are. */
#include "dataset/records/mds.h"

#include <stdio.h>

#define WHO     "mds"
#define VERSION 2

/* ---- Encodings ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    stk__tabled_form form;
    stk_dtype dtype; /* of NUMBERS */
    const char *refused;
} encodings[] = {
    {"bytes", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"str", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"json", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"str_float", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"str_decimal", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"str_int", STK__COLUMN_DIGITS, STK_DTYPE_NONE, NULL},
    {"int", STK__COLUMN_NUMBERS, STK_INT64, NULL},
    {"uint8", STK__COLUMN_NUMBERS, STK_UINT8, NULL},
    {"uint16", STK__COLUMN_NUMBERS, STK_UINT16, NULL},
    {"uint32", STK__COLUMN_NUMBERS, STK_UINT32, NULL},
    {"uint64", STK__COLUMN_NUMBERS, STK_UINT64, NULL},
    {"int8", STK__COLUMN_NUMBERS, STK_INT8, NULL},
    {"int16", STK__COLUMN_NUMBERS, STK_INT16, NULL},
    {"int32", STK__COLUMN_NUMBERS, STK_INT32, NULL},
    {"int64", STK__COLUMN_NUMBERS, STK_INT64, NULL},
    {"float16", STK__COLUMN_NUMBERS, STK_FLOAT16, NULL},
    {"float32", STK__COLUMN_NUMBERS, STK_FLOAT32, NULL},
    {"float64", STK__COLUMN_NUMBERS, STK_FLOAT64, NULL},
    {"ndarray", STK__COLUMN_NDARRAY, STK_DTYPE_NONE, NULL},
    {"jpeg", STK__COLUMN_IMAGE, STK_DTYPE_NONE, NULL},
    {"png", STK__COLUMN_IMAGE, STK_DTYPE_NONE, NULL},
    {"pil", STK__COLUMN_PIL, STK_DTYPE_NONE, NULL},
    {"pkl", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "a pickle, which is a program that runs when it is read, and there is nothing here that runs "
     "it: write the column with another encoding"},
    {"jpeg_array", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as a column, or as a sample"},
    {"jpegarray", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as a column, or as a sample"},
    {"list[pil]", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as a column, or as a sample"},
    {"list[jpeg]", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as a column, or as a sample"},
    {"list[png]", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as a column, or as a sample"},
};

static stk_status wrong_encoding(const char *key, const stk__tabled_column *c, stk_error *err)
{
    return stk__tabled_wrong(WHO, key, err,
                             "says that the column '%.60s' is of '%.60s', which is no encoding",
                             c->name, c->encoding);
}

/* "2,3" */
static bool read_shape(stk__tabled_column *c, const char *at)
{
    for (c->rank = 0; c->rank < STK_MAX_RANK; at++) {
        int64_t side = 0;
        const char *begin = at;
        for (; *at >= '0' && *at <= '9'; at++)
            if (__builtin_mul_overflow(side, 10, &side) ||
                __builtin_add_overflow(side, *at - '0', &side))
                return false;
        if (at == begin || !side)
            return false;
        c->shape[c->rank++] = side;
        if (*at != ',')
            return *at == 0;
    }
    return false;
}

/* "uint8" or "uint8:2,3" behind "ndarray:" */
static bool read_array(stk__tabled_column *c, const char *text)
{
    char type[16];
    const size_t n = strcspn(text, ":");

    if (!*text)
        return true;
    snprintf(type, sizeof type, "%.*s", (int)STK_MIN(n, sizeof type - 1), text);
    for (size_t i = 0; i < STK_COUNT(encodings); i++)
        if (encodings[i].form == STK__COLUMN_NUMBERS && strcmp(encodings[i].name, "int") != 0 &&
            strcmp(encodings[i].name, type) == 0)
            c->dtype = encodings[i].dtype;
    if (c->dtype == STK_DTYPE_NONE)
        return false;
    c->typed = true;
    if (!text[n])
        return true;
    c->form = STK__COLUMN_NUMBERS;
    c->shaped = true;
    return read_shape(c, text + n + 1);
}

/* What an encoding says, and how many bytes it takes: 0 where that varies. */
static stk_status read_encoding(const char *key, stk__tabled_column *c, uint64_t *size,
                                stk_error *err)
{
    const size_t n = strcspn(c->encoding, ":");
    size_t i = 0;

    *size = 0;
    while (i < STK_COUNT(encodings) &&
           (strlen(encodings[i].name) != n || memcmp(encodings[i].name, c->encoding, n) != 0))
        i++;
    if (i == STK_COUNT(encodings))
        return wrong_encoding(key, c, err);
    c->form = encodings[i].form;
    c->dtype = encodings[i].dtype;
    c->refused = encodings[i].refused;
    c->typed = c->shaped = c->form == STK__COLUMN_NUMBERS;
    if (c->encoding[n] && (c->form != STK__COLUMN_NDARRAY || !read_array(c, c->encoding + n + 1)))
        return wrong_encoding(key, c, err);
    if (c->shaped && !stk__shape_bytes(c->shape, c->rank, stk_dtype_size(c->dtype), size))
        return wrong_encoding(key, c, err);
    return STK_OK;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* null and 0: each record has its size. */
static bool read_size(const json_t *value, uint64_t *out)
{
    *out = 0;
    if (json_is_null(value))
        return true;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static stk_status read_column(const char *key, const json_t *name, const json_t *encoding,
                              const json_t *size, stk__tabled *out, stk_error *err)
{
    stk__tabled_column *c = NULL;
    uint64_t told = 0, known = 0;

    if (!json_is_string(name) || !*json_string_value(name) || !json_is_string(encoding) ||
        !read_size(size, &told))
        return stk__tabled_wrong(WHO, key, err,
                                 "has a column without a name, an encoding and a size or null");
    for (uint32_t i = 0; i < out->num_columns; i++)
        if (strcmp(out->columns[i].name, json_string_value(name)) == 0)
            return stk__tabled_wrong(WHO, key, err, "names the column '%.60s' twice",
                                     json_string_value(name));
    STK_TRY(stk__tabled_add_column(out, WHO, json_string_value(name), json_string_value(encoding),
                                   &c, err));
    STK_TRY(read_encoding(key, c, &known, err));
    c->sized = told == 0;
    c->size = told;
    if (known != told && (known || c->form != STK__COLUMN_REFUSED))
        return stk__tabled_wrong(WHO, key, err,
                                 "says that the column '%.60s' of '%.60s' has values of %llu "
                                 "bytes, and they have %llu (0: any number)",
                                 c->name, c->encoding, (unsigned long long)told,
                                 (unsigned long long)known);
    return STK_OK;
}

static stk_status read_columns(const char *key, const json_t *shard, stk__tabled *out,
                               stk_error *err)
{
    const json_t *names = json_object_get(shard, "column_names"),
                 *encoded = json_object_get(shard, "column_encodings"),
                 *sizes = json_object_get(shard, "column_sizes");
    const size_t n = json_array_size(names);

    if (!n || json_array_size(encoded) != n || json_array_size(sizes) != n)
        return stk__tabled_wrong(WHO, key, err,
                                 "has no column_names, column_encodings and column_sizes of one "
                                 "length for a shard");
    for (size_t i = 0; i < n; i++)
        STK_TRY(read_column(key, json_array_get(names, i), json_array_get(encoded, i),
                            json_array_get(sizes, i), out, err));
    return STK_OK;
}

/* The columns of a shard are those of the first. */
static bool same_columns(const json_t *a, const json_t *b)
{
    static const char *const names[] = {"column_names", "column_encodings", "column_sizes"};

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (!json_equal(json_object_get(a, names[i]), json_object_get(b, names[i])))
            return false;
    return true;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Note once that there are hashes of this name, as far as there is room. */
static void note_unknown(stk__tabled *out, const char *name)
{
    const size_t length = strlen(out->unknown);

    if (!strstr(out->unknown, name) && length + strlen(name) + 3 < sizeof out->unknown)
        snprintf(out->unknown + length, sizeof out->unknown - length, "%s%s", length ? ", " : "",
                 name);
}

static bool is_hash(const char *text, size_t digits)
{
    return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

/* Hashes of the shard that was added last. The fastest that is known is kept. */
static stk_status read_hashes(const char *key, json_t *hashes, stk__tabled *out, stk_error *err)
{
    stk__tabled_shard *shard = &out->shards[out->num_shards - 1];
    const char *name, *told = NULL;
    json_t *value;

    json_object_foreach(hashes, name, value)
    {
        const stk__shard_hash hash = stk__shard_hash_find(name);
        if (hash == STK__HASH_NONE) {
            note_unknown(out, name);
            continue;
        }
        if (!is_hash(json_string_value(value), stk__shard_hash_digits(hash)))
            return stk__tabled_wrong(WHO, key, err,
                                     "gives the shard '%.100s' a hash %s that is not its %zu small "
                                     "hexadecimal digits",
                                     shard->name, name, stk__shard_hash_digits(hash));
        if (!told || hash < shard->hash) {
            shard->hash = hash;
            told = json_string_value(value);
        }
    }
    if (!told)
        return STK_OK;
    shard->told = stk__strdup(out->context, told);
    return shard->told
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory for hashes", WHO);
}

static stk_status read_shard(const char *key, const json_t *shard, stk__tabled *out, stk_error *err)
{
    const json_t *raw = json_object_get(shard, "raw_data"),
                 *zip = json_object_get(shard, "zip_data");
    const char *format = json_string_value(json_object_get(shard, "format"));
    const char *name = json_string_value(json_object_get(raw, "basename"));
    const char *packed = json_string_value(json_object_get(zip, "basename"));
    uint64_t version = 0, records = 0, bytes = 0;

    if (!stk__tabled_count(shard, "version", &version) || version != VERSION || !format ||
        strcmp(format, "mds") != 0)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s: %.200s has a shard of format '%.40s' and version %llu, and mds of "
                            "version %d is read; write the dataset with MDSWriter",
                            WHO, key, format ? format : "", (unsigned long long)version, VERSION);
    if (!name || !stk__tabled_count(raw, "bytes", &bytes) ||
        !stk__tabled_count(shard, "samples", &records) || (json_is_object(zip) && !packed))
        return stk__tabled_wrong(WHO, key, err,
                                 "has a shard without raw_data (basename, bytes) and samples");
    STK_TRY(stk__tabled_add_shard(out, WHO, name, packed, records, bytes, err));
    return read_hashes(key, json_object_get(raw, "hashes"), out, err);
}

static stk_status read_index(const char *key, const json_t *root, stk__tabled *out, stk_error *err)
{
    const json_t *shards = json_object_get(root, "shards"), *first = json_array_get(shards, 0);
    const size_t n = json_array_size(shards);
    uint64_t version = 0;

    if (!json_is_array(shards) || !stk__tabled_count(root, "version", &version) ||
        version != VERSION)
        return stk__tabled_wrong(WHO, key, err,
                                 "is no index of version %d with a list of shards; name the folder "
                                 "that MDSWriter wrote",
                                 VERSION);
    for (size_t i = 0; i < n; i++) {
        const json_t *shard = json_array_get(shards, i);
        STK_TRY(read_shard(key, shard, out, err));
        if (!i)
            STK_TRY(read_columns(key, shard, out, err));
        else if (!same_columns(first, shard))
            return stk__tabled_wrong(WHO, key, err,
                                     "gives the shard '%.100s' other columns than the first; open "
                                     "shards of one dataset",
                                     out->shards[i].name);
    }
    return STK_OK;
}

stk_status stk__mds_index_parse(const void *options, const char *text, uint64_t length,
                                const char *key, stk__tabled *out, stk_error *err)
{
    stk__json json = {0};

    (void)options;
    STK_TRY(stk__json_parse(out->context, text, length, key, &json, err));
    const stk_status status = read_index(key, json.value, out, err);
    stk__json_drop(out->context, &json);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* index.json of litdata: chunks, and a config that holds for all of them. */
#include "dataset/records/litdata.h"

#include <stdio.h>
#include <stdlib.h>

#define WHO "litdata"

/* ---- Formats of leaves ----------------------------------------------------------------------- */

#define ENCODED_FILE                                                                               \
    "a file of a kind that is not decoded here: write its values as a tensor, or its pictures as " \
    "jpeg"

static const struct {
    const char *name; /* up to the ':' */
    stk__tabled_form form;
    stk_dtype dtype; /* of NUMBERS: of one number */
    const char *refused;
} formats[] = {
    {"bytes", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"str", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"text", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"file", STK__COLUMN_BYTES, STK_DTYPE_NONE, NULL},
    {"jpeg", STK__COLUMN_IMAGE, STK_DTYPE_NONE, NULL},
    {"png", STK__COLUMN_IMAGE, STK_DTYPE_NONE, NULL},
    {"image", STK__COLUMN_IMAGE, STK_DTYPE_NONE, NULL},
    {"pil", STK__COLUMN_PIL, STK_DTYPE_NONE, NULL},
    {"int", STK__COLUMN_NUMBERS, STK_INT64, NULL},
    {"float", STK__COLUMN_NUMBERS, STK_FLOAT64, NULL},
    {"bool", STK__COLUMN_NUMBERS, STK_BOOL, NULL},
    {"tensor", STK__COLUMN_TENSOR, STK_DTYPE_NONE, NULL},
    {"numpy", STK__COLUMN_NUMPY, STK_DTYPE_NONE, NULL},
    {"pickle", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "a pickle, which is a program that runs when it is read, and there is nothing here that runs "
     "it: write the value as a tensor, a text or bytes"},
    {"graph", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "a graph, which holds a pickle, and there is nothing here that runs it: write its tensors as "
     "entries of the sample"},
    {"json", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "a packing of lists and dictionaries that litdata alone reads: write the value as a text or a "
     "tensor"},
    {"jpeg_array", STK__COLUMN_REFUSED, STK_DTYPE_NONE,
     "several pictures in one value: write each as an entry, or as a sample"},
    {"video", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"audio", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"nifti", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"mesh", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"pdf", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"tiff", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
    {"tifffile", STK__COLUMN_REFUSED, STK_DTYPE_NONE, ENCODED_FILE},
};

#define NO_HEADER "no_header_"

/* "no_header_tensor:16", "no_header_numpy:5": the number of a type */
static bool read_bare_numbers(stk__tabled_column *c)
{
    const char *text = c->encoding + strlen(NO_HEADER);
    const bool torch = strncmp(text, "tensor:", 7) == 0;
    char *end = NULL;

    if (!torch && strncmp(text, "numpy:", 6) != 0)
        return false;
    text += torch ? 7 : 6;
    const unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number > 255)
        return false;
    c->form = STK__COLUMN_NUMBERS;
    c->typed = true;
    c->dtype = torch ? stk__litdata_torch_dtype(number) : stk__litdata_numpy_dtype(number);
    return c->dtype != STK_DTYPE_NONE;
}

static void read_format(stk__tabled_column *c)
{
    const size_t n = strcspn(c->encoding, ":");

    if (strncmp(c->encoding, NO_HEADER, strlen(NO_HEADER)) == 0 && read_bare_numbers(c))
        return;
    c->form = STK__COLUMN_REFUSED;
    c->refused = "a format that is not read: write it as a tensor, a text or bytes";
    for (size_t i = 0; i < STK_COUNT(formats); i++)
        if (strlen(formats[i].name) == n && memcmp(formats[i].name, c->encoding, n) == 0) {
            c->form = formats[i].form;
            c->dtype = formats[i].dtype;
            c->refused = formats[i].refused;
            c->typed = c->shaped = c->form == STK__COLUMN_NUMBERS;
        }
}

/* ---- Columns --------------------------------------------------------------------------------- */

typedef struct leaves {
    stk__tabled *to;
    const json_t *formats;
    const char *key;
} leaves;

static stk_status add_leaf(void *user, const char *name, bool nameless, stk_error *err)
{
    leaves *l = user;
    const char *encoding = json_string_value(json_array_get(l->formats, l->to->num_columns));
    stk__tabled_column *c = NULL;

    if (!encoding)
        return stk__tabled_wrong(WHO, l->key, err,
                                 "has fewer entries of data_format than data_spec has leaves");
    for (uint32_t i = 0; i < l->to->num_columns; i++)
        if (strcmp(l->to->columns[i].name, name) == 0)
            return stk__tabled_wrong(WHO, l->key, err, "names the entry '%.60s' twice", name);
    STK_TRY(stk__tabled_add_column(l->to, WHO, name, encoding, &c, err));
    c->nameless = nameless;
    read_format(c);
    return STK_OK;
}

/* Without a data_spec entries are called by their places. */
static stk_status read_columns(const json_t *config, const char *key, stk__tabled *out,
                               stk_error *err)
{
    leaves l = {.to = out, .formats = json_object_get(config, "data_format"), .key = key};
    const char *spec = json_string_value(json_object_get(config, "data_spec"));
    const size_t n = json_array_size(l.formats);
    char name[24];

    if (!n)
        return stk__tabled_wrong(WHO, key, err,
                                 "has no config with data_format; name the folder that optimize() "
                                 "wrote");
    if (spec)
        STK_TRY(stk__litdata_leaves(out->context, spec, key, add_leaf, &l, err));
    for (size_t i = 0; !spec && i < n; i++) {
        snprintf(name, sizeof name, "%zu", i);
        STK_TRY(add_leaf(&l, name, true, err));
    }
    if (out->num_columns != n)
        return stk__tabled_wrong(WHO, key, err,
                                 "has more entries of data_format than data_spec has leaves");
    return STK_OK;
}

/* ---- Config ---------------------------------------------------------------------------------- */

static stk_status refuse(const char *key, const char *what, const char *value, stk_error *err)
{
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "%s: the chunks are written with %s '%.60s', which is not read: write "
                        "them again by optimize() without it",
                        WHO, what, value);
}

/* Whole chunks that are compressed may have been unpacked; anything else is refused. */
static stk_status read_config(const json_t *config, const char *key, const char **packed,
                              bool *tokens, stk_error *err)
{
    const char *loader = json_string_value(json_object_get(config, "item_loader"));
    const char *level = json_string_value(json_object_get(config, "compression_level"));

    *packed = json_string_value(json_object_get(config, "compression"));
    *tokens = loader && strcmp(loader, "TokensLoader") == 0;
    if (!json_is_object(config))
        return stk__tabled_wrong(WHO, key, err, "has no config");
    if (json_object_get(config, "encryption") &&
        !json_is_null(json_object_get(config, "encryption")))
        return refuse(key, "encryption", "", err);
    if (level && strcmp(level, "chunk") != 0)
        return refuse(key, "compression_level", level, err);
    if (loader && !*tokens && strcmp(loader, "PyTreeLoader") != 0)
        return refuse(key, "item_loader", loader, err);
    return STK_OK;
}

/* Items of tokens have no sizes in front. */
static stk_status set_tokens(const stk__litdata_options *o, const char *key, bool tokens,
                             stk__tabled *out, stk_error *err)
{
    stk__tabled_column *c = &out->columns[0];
    const bool numbers = out->num_columns == 1 && c->form == STK__COLUMN_NUMBERS && !c->shaped;

    if (tokens && !numbers)
        return stk__tabled_wrong(WHO, key, err,
                                 "says TokensLoader, and a sample is no row of numbers");
    if (o->block_size && !tokens)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "block_size", STK_NO_OFFSET,
                            "%s: block_size is for chunks of tokens, which TokensLoader wrote; "
                            "leave it out",
                            WHO);
    out->bare = tokens;
    if (!o->block_size)
        return STK_OK;
    if (!stk__mul_size(o->block_size, stk_dtype_size(c->dtype), &out->block_bytes))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "block_size", STK_NO_OFFSET,
                            "%s: block_size is too large", WHO);
    c->shaped = true;
    c->rank = 1;
    c->shape[0] = (int64_t)o->block_size;
    return STK_OK;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* "chunk-0-0.zstd.bin" becomes "chunk-0-0.bin": the name without the compression. */
static void unpacked_name(char *name, const char *packed)
{
    const size_t n = strlen(packed);

    for (char *at = name; (at = strchr(at, '.')); at++)
        if (strncmp(at + 1, packed, n) == 0 && at[n + 1] == '.') {
            memmove(at, at + n + 1, strlen(at + n + 1) + 1);
            return;
        }
}

static stk_status read_chunk(const json_t *chunk, const char *key, const char *packed, bool *tokens,
                             stk__tabled *out, stk_error *err)
{
    const char *name = json_string_value(json_object_get(chunk, "filename"));
    const json_t *dim = json_object_get(chunk, "dim");
    uint64_t records = 0;
    char plain[STK_MAX_OBJECT_KEY];

    if (!name || strlen(name) >= sizeof plain || !stk__tabled_count(chunk, "chunk_size", &records))
        return stk__tabled_wrong(WHO, key, err, "has a chunk without filename and chunk_size");
    *tokens |= json_is_integer(dim);
    snprintf(plain, sizeof plain, "%s", name);
    if (packed)
        unpacked_name(plain, packed);
    return stk__tabled_add_shard(out, WHO, plain, strcmp(plain, name) == 0 ? NULL : name, records,
                                 UINT64_MAX, err);
}

static stk_status read_index(const void *options, const char *key, const json_t *root,
                             stk__tabled *out, stk_error *err)
{
    const json_t *chunks = json_object_get(root, "chunks"),
                 *config = json_object_get(root, "config");
    const char *packed = NULL;
    bool tokens = false;

    if (!json_is_array(chunks))
        return stk__tabled_wrong(WHO, key, err,
                                 "has no list of chunks; name the folder that optimize() wrote");
    STK_TRY(read_config(config, key, &packed, &tokens, err));
    STK_TRY(read_columns(config, key, out, err));
    for (size_t i = 0; i < json_array_size(chunks); i++)
        STK_TRY(read_chunk(json_array_get(chunks, i), key, packed, &tokens, out, err));
    return set_tokens(options, key, tokens, out, err);
}

stk_status stk__litdata_index_parse(const void *options, const char *text, uint64_t length,
                                    const char *key, stk__tabled *out, stk_error *err)
{
    stk__json json = {0};

    STK_TRY(stk__json_parse(out->context, text, length, key, &json, err));
    const stk_status status = read_index(options, key, json.value, out, err);
    stk__json_drop(out->context, &json);
    return status;
}

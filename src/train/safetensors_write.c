/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/bytes.h"
#include "train/safetensors.h"

static const struct {
    stk_dtype dtype;
    const char *name;
} dtypes[] = {
    {STK_BOOL, "BOOL"},   {STK_UINT8, "U8"},      {STK_INT8, "I8"},       {STK_UINT16, "U16"},
    {STK_INT16, "I16"},   {STK_UINT32, "U32"},    {STK_INT32, "I32"},     {STK_UINT64, "U64"},
    {STK_INT64, "I64"},   {STK_FLOAT16, "F16"},   {STK_BFLOAT16, "BF16"}, {STK_FLOAT32, "F32"},
    {STK_FLOAT64, "F64"}, {STK_COMPLEX64, "C64"},
};

const char *stk__safetensors_dtype_name(stk_dtype dtype)
{
    for (size_t i = 0; i < STK_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

stk_dtype stk__safetensors_dtype_parse(const char *name)
{
    for (size_t i = 0; i < STK_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return dtypes[i].dtype;
    return STK_DTYPE_NONE;
}

/* ---- A growing text ---- */

static bool put(stk__safetensors_head *head, const char *bytes, size_t length)
{
    if (length > head->capacity - head->length) {
        uint64_t capacity = STK_MAX(2 * (uint64_t)head->capacity, head->length + length + 4096);
        char *grown = stk__realloc(head->ctx, head->bytes, capacity);
        if (!grown)
            return false;
        head->bytes = grown;
        head->capacity = capacity;
    }
    memcpy(head->bytes + head->length, bytes, length);
    head->length += length;
    return true;
}

static bool put_text(stk__safetensors_head *head, const char *text)
{
    return put(head, text, strlen(text));
}

static bool put_number(stk__safetensors_head *head, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return put_text(head, text);
}

/* A JSON string. */
static bool put_string(stk__safetensors_head *head, const char *text)
{
    bool good = put(head, "\"", 1);

    while (*text && good) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        good = put(head, text, plain);
        text += plain;
        if (!*text || !good)
            break;
        char escaped[8];
        if (*text == '"' || *text == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", *text);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*text);
        good = put_text(head, escaped);
        text++;
    }
    return good && put(head, "\"", 1);
}

/* ---- Checks ---- */

/* A name for a message, cut. */
#define SHOWN "%.100s"

static stk_status check_name(const char *what, const char *name, stk_error *err)
{
    if (!name || !name[0])
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "a %s of the checkpoint has no name",
                         what);
    if (!stk__utf8_valid(name, strlen(name)))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the name of %s '" SHOWN "' is not UTF-8", what, name);
    return STK_OK;
}

static stk_status check_tensor(const stk_state_tensor *t, stk_error *err)
{
    uint64_t bytes;

    STK_TRY(check_name("tensor", t->name, err));
    if (strcmp(t->name, "__metadata__") == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "no tensor can have the name '__metadata__': the format keeps it");
    if (!stk__safetensors_dtype_name(t->dtype))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "tensor '" SHOWN "' is %s, which safetensors cannot hold", t->name,
                         stk_dtype_name(t->dtype));
    if (t->rank > STK_MAX_RANK ||
        !stk__shape_bytes(t->shape, t->rank, stk_dtype_size(t->dtype), &bytes) ||
        bytes != t->bytes || (bytes > 0 && !t->data))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "tensor '" SHOWN "' has %" PRIu64 " bytes, which its shape does not give",
                         t->name, t->bytes);
    return STK_OK;
}

static stk_status check_text(const stk__checkpoint_text *text, stk_error *err)
{
    STK_TRY(check_name("text", text->name, err));
    if (!text->text || !stk__utf8_valid(text->text, strlen(text->text)))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "text '" SHOWN "' is not UTF-8",
                         text->name);
    return STK_OK;
}

static int compare_names(const void *a, const void *b, void *user)
{
    const stk_state_tensor *tensors = user;

    return strcmp(tensors[*(const size_t *)a].name, tensors[*(const size_t *)b].name);
}

static stk_status check_all(stk__safetensors_head *head, const stk_state_tensor *tensors, size_t n,
                            const stk__checkpoint_text *texts, size_t num_texts, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        STK_TRY(check_tensor(&tensors[i], err));
        head->by_name[i] = i;
    }
    qsort_r(head->by_name, n, sizeof *head->by_name, compare_names, (void *)tensors);
    for (size_t i = 1; i < n; i++)
        if (strcmp(tensors[head->by_name[i - 1]].name, tensors[head->by_name[i]].name) == 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "two tensors have the name '" SHOWN "'",
                             tensors[head->by_name[i]].name);
    for (size_t i = 0; i < num_texts; i++) {
        STK_TRY(check_text(&texts[i], err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(texts[i].name, texts[k].name) == 0)
                return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                                 "two texts have the name '" SHOWN "'", texts[i].name);
    }
    return STK_OK;
}

/* ---- The header ---- */

static stk_status reserve(stk__safetensors_head *head, size_t n, stk_error *err)
{
    uint64_t bytes;

    n = STK_MAX(n, (size_t)1);
    if (n <= head->order_room)
        return STK_OK;
    stk__free(head->ctx, head->order);
    head->order_room = 0;
    head->order =
        stk__mul_size(n, 2 * sizeof *head->order, &bytes) ? stk__alloc(head->ctx, bytes) : NULL;
    if (!head->order)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a checkpoint");
    head->by_name = head->order + n;
    head->order_room = n;
    return STK_OK;
}

/* Widest types first: what follows stays aligned, for the format allows no holes. */
static void arrange(stk__safetensors_head *head, const stk_state_tensor *tensors, size_t n)
{
    size_t at = 0;

    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < n; i++)
            if (stk_dtype_size(tensors[i].dtype) == width)
                head->order[at++] = i;
}

static bool put_texts(stk__safetensors_head *head, const stk__checkpoint_text *texts, size_t n)
{
    bool good = put_text(head, "\"__metadata__\":{");

    for (size_t i = 0; i < n && good; i++)
        good = (i == 0 || put(head, ",", 1)) && put_string(head, texts[i].name) &&
               put(head, ":", 1) && put_string(head, texts[i].text);
    return good && put(head, "}", 1);
}

static bool put_tensor(stk__safetensors_head *head, const stk_state_tensor *t)
{
    bool good = put_string(head, t->name) && put_text(head, ":{\"dtype\":\"") &&
                put_text(head, stk__safetensors_dtype_name(t->dtype)) &&
                put_text(head, "\",\"shape\":[");

    for (uint32_t k = 0; k < t->rank && good; k++)
        good = (k == 0 || put(head, ",", 1)) && put_number(head, (uint64_t)t->shape[k]);
    return good && put_text(head, "],\"data_offsets\":[") && put_number(head, head->data_bytes) &&
           put(head, ",", 1) && put_number(head, head->data_bytes + t->bytes) &&
           put_text(head, "]}");
}

/* All of it after the length. */
static bool put_all(stk__safetensors_head *head, const stk_state_tensor *tensors, size_t n,
                    const stk__checkpoint_text *texts, size_t num_texts)
{
    bool good = put(head, "{", 1) && (num_texts == 0 || put_texts(head, texts, num_texts));

    for (size_t i = 0; i < n && good; i++) {
        const stk_state_tensor *t = &tensors[head->order[i]];
        good = ((i == 0 && num_texts == 0) || put(head, ",", 1)) && put_tensor(head, t) &&
               stk__add_size(head->data_bytes, t->bytes, &head->data_bytes);
    }
    good = good && put(head, "}", 1);
    while (good && head->length % STK__SAFETENSORS_ALIGN != 0)
        good = put(head, " ", 1);
    return good;
}

stk_status stk__safetensors_head_make(stk__safetensors_head *head, const stk_state_tensor *tensors,
                                      size_t num_tensors, const stk__checkpoint_text *texts,
                                      size_t num_texts, stk_error *err)
{
    static const char room[8];

    STK_TRY(reserve(head, num_tensors, err));
    STK_TRY(check_all(head, tensors, num_tensors, texts, num_texts, err));
    arrange(head, tensors, num_tensors);
    head->length = 0;
    head->data_bytes = 0;
    if (!put(head, room, sizeof room) || !put_all(head, tensors, num_tensors, texts, num_texts))
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the header of a checkpoint");
    uint64_t json = head->length - sizeof room;
    if (json > STK__SAFETENSORS_MAX_HEADER)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "the names and texts of a checkpoint take %" PRIu64 " bytes; %" PRIu64
                         " are the most",
                         json, STK__SAFETENSORS_MAX_HEADER);
    for (int i = 0; i < 8; i++)
        head->bytes[i] = (char)(json >> (8 * i));
    return STK_OK;
}

void stk__safetensors_head_release(stk__safetensors_head *head)
{
    stk__free(head->ctx, head->bytes);
    stk__free(head->ctx, head->order);
    *head = (stk__safetensors_head){.ctx = head->ctx};
}

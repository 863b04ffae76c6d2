/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "checkpoint/safetensors/safetensors.h"

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
    stk__free(head->text.ctx, head->order);
    head->order_room = 0;
    head->order = stk__mul_size(n, 2 * sizeof *head->order, &bytes)
                      ? stk__alloc(head->text.ctx, bytes)
                      : NULL;
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

static void put_texts(stk__text *out, const stk__checkpoint_text *texts, size_t n)
{
    stk__text_add(out, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        stk__text_put(out, ",", i > 0);
        stk__text_add_json(out, texts[i].name);
        stk__text_add(out, ":");
        stk__text_add_json(out, texts[i].text);
    }
    stk__text_add(out, "}");
}

static void put_tensor(stk__text *out, const stk_state_tensor *t, uint64_t begin, uint64_t end)
{
    stk__text_add_json(out, t->name);
    stk__text_add(out, ":{\"dtype\":\"%s\",\"shape\":[", stk__safetensors_dtype_name(t->dtype));
    for (uint32_t k = 0; k < t->rank; k++)
        stk__text_add(out, k ? ",%" PRId64 : "%" PRId64, t->shape[k]);
    stk__text_add(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

/* All of it after the length. False: more bytes of data than can be counted. */
static bool put_all(stk__safetensors_head *head, const stk_state_tensor *tensors, size_t n,
                    const stk__checkpoint_text *texts, size_t num_texts)
{
    stk__text *out = &head->text;

    stk__text_add(out, "{");
    if (num_texts)
        put_texts(out, texts, num_texts);
    for (size_t i = 0; i < n; i++) {
        const stk_state_tensor *t = &tensors[head->order[i]];
        const uint64_t begin = head->data_bytes;
        if (!stk__add_size(begin, t->bytes, &head->data_bytes))
            return false;
        stk__text_put(out, ",", i || num_texts);
        put_tensor(out, t, begin, head->data_bytes);
    }
    stk__text_add(out, "}");
    while (!out->failed && out->length % STK__SAFETENSORS_ALIGN != 0)
        stk__text_add(out, " ");
    return true;
}

stk_status stk__safetensors_head_make(stk__safetensors_head *head, const stk_state_tensor *tensors,
                                      size_t num_tensors, const stk__checkpoint_text *texts,
                                      size_t num_texts, stk_error *err)
{
    static const char room[8];

    STK_TRY(reserve(head, num_tensors, err));
    STK_TRY(check_all(head, tensors, num_tensors, texts, num_texts, err));
    arrange(head, tensors, num_tensors);
    head->text.length = 0;
    head->text.failed = false;
    head->data_bytes = 0;
    stk__text_put(&head->text, room, sizeof room);
    if (!put_all(head, tensors, num_tensors, texts, num_texts) || head->text.failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                         "no memory for the header of a checkpoint");
    uint64_t json = head->text.length - sizeof room;
    if (json > STK__SAFETENSORS_MAX_HEADER)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "the names and texts of a checkpoint take %" PRIu64 " bytes; %" PRIu64
                         " are the most",
                         json, STK__SAFETENSORS_MAX_HEADER);
    for (int i = 0; i < 8; i++)
        head->text.bytes[i] = (char)(json >> (8 * i));
    return STK_OK;
}

void stk__safetensors_head_release(stk__safetensors_head *head)
{
    stk__free(head->text.ctx, head->order);
    stk__text_release(&head->text);
    *head = (stk__safetensors_head){.text.ctx = head->text.ctx};
}

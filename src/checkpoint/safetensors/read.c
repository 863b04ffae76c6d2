/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "checkpoint/pth/pth.h"
#include "checkpoint/safetensors/safetensors.h"

static stk_status fail_format(const char *path, stk_error *err, const char *what)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "'%.300s' is not a safetensors file: %s", path, what);
}

/* The same of a file that another program has written so on purpose. */
static stk_status fail_other(const char *path, stk_error *err, const char *what)
{
    fail_format(path, err, what);
    if (err)
        err->status = STK_EKIND;
    return STK_EKIND;
}

/* The version of ONNX's format, then the name of the writer, or the graph where it has none. */
static bool is_onnx(const uint8_t first[8])
{
    return first[0] == 0x08 && first[1] < 0x20 && (first[2] == 0x12 || first[2] == 0x3a);
}

/* The length in front, with what other files that bear such names look like. */
static stk_status read_length(stk__safetensors_file *out, const char *path, uint64_t *length,
                              stk_error *err)
{
    uint8_t first[8];

    if (out->source.size == 0)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, 0,
                            "'%.300s' is empty" STK__SAFETENSORS_REMEDY, path);
    if (out->source.size < sizeof first + 2)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->source.size,
                            "'%.300s' has %" PRIu64
                            " bytes: too few for a safetensors file" STK__SAFETENSORS_REMEDY,
                            path, out->source.size);
    STK_TRY(stk__checkpoint_source_read(&out->source, path, 0, first, sizeof first, err));
    *length = stk__little_endian(first, sizeof first);
    if (stk__pth_begins(first))
        return fail_other(path, err,
                          "it is a zip file, as PyTorch's are, which give weights "
                          "(module.weights) and not the state of a run");
    /* A header may be so long that it begins so, too. */
    if (*length > STK__SAFETENSORS_MAX_HEADER && first[0] == 0x80 && first[1] >= 2 && first[1] <= 5)
        return fail_other(path, err,
                          "it is a bare pickle, as torch.save wrote them before torch 1.6: "
                          "torch.save(torch.load(FILE, weights_only=True), NEW) makes one that "
                          "gives weights");
    if (*length > STK__SAFETENSORS_MAX_HEADER && is_onnx(first))
        return fail_other(path, err,
                          "it is an ONNX model, which is written and not read: take the weights "
                          "that it was made of");
    if (*length > STK__SAFETENSORS_MAX_HEADER)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, 0,
                            "'%.300s' is not a safetensors file, or damaged: its header would have "
                            "%" PRIu64 " bytes, and %" PRIu64 " are the most",
                            path, *length, STK__SAFETENSORS_MAX_HEADER);
    if (*length > out->source.size - sizeof first)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->source.size,
                            "'%.300s' ends in its header: %" PRIu64 " of %" PRIu64
                            " bytes are there" STK__SAFETENSORS_REMEDY,
                            path, out->source.size, *length + sizeof first);
    return STK_OK;
}

stk_status stk__safetensors_file_open(stk_context *ctx, const char *path,
                                      stk__safetensors_file *out, stk_error *err)
{
    stk__checkpoint_source source;

    *out = (stk__safetensors_file){.source.fd = -1, .parsed.ctx = ctx};
    STK_TRY(stk__checkpoint_source_open(ctx, path, "a safetensors file", &source, err));
    return stk__safetensors_file_take(ctx, &source, path, out, err);
}

stk_status stk__safetensors_file_take(stk_context *ctx, stk__checkpoint_source *source,
                                      const char *path, stk__safetensors_file *out, stk_error *err)
{
    uint64_t length = 0;
    char *json = NULL;

    *out = (stk__safetensors_file){.source = *source, .parsed.ctx = ctx};
    *source = (stk__checkpoint_source){.fd = -1};
    stk_status status = read_length(out, path, &length, err);
    if (status != STK_OK)
        goto out;
    out->head_bytes = length + 8;
    out->head = stk__alloc(ctx, out->head_bytes);
    json = stk__alloc(ctx, length + 1);
    if (!out->head || !json) {
        stk__free(ctx, json);
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                              "no memory for the header of '%.300s'", path);
        goto out;
    }
    status = stk__checkpoint_source_read(&out->source, path, 0, out->head, out->head_bytes, err);
    memcpy(json, out->head + 8, status == STK_OK ? length : 0);
    if (status == STK_OK)
        status = stk__safetensors_parse(ctx, json, length, path, &out->parsed, err);
    else
        stk__free(ctx, json);
    uint64_t there = out->source.size - out->head_bytes, wanted = out->parsed.data_bytes;
    if (status == STK_OK && there < wanted)
        status = stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->source.size,
                              "'%.300s' is cut off: %" PRIu64 " of its %" PRIu64
                              " bytes are there" STK__SAFETENSORS_REMEDY,
                              path, out->source.size, out->head_bytes + wanted);
    else if (status == STK_OK && there > wanted)
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, out->head_bytes + wanted,
                              "'%.300s' has %" PRIu64
                              " bytes that belong to no tensor" STK__SAFETENSORS_REMEDY,
                              path, there - wanted);
out:
    if (status != STK_OK)
        stk__safetensors_file_close(out);
    return status;
}

/* Tensors of other writers may lie at any byte: those that are not aligned get a block of their
 * own. Those without bytes point at the begin, which is aligned. */
static stk_status align_tensors(stk__safetensors_file *file, const char *path, const uint8_t *data,
                                uint8_t **moved, stk_error *err)
{
    stk__safetensors *s = &file->parsed;
    uint64_t bytes = 0;

    for (size_t i = 0; i < s->num_tensors; i++) {
        stk_state_tensor *t = &s->tensors[i];
        t->data = (void *)(data + (t->bytes ? s->begins[i] : 0));
        if ((uintptr_t)t->data % stk_dtype_size(t->dtype) != 0 &&
            !stk__add_size(bytes, stk__round_up(t->bytes, STK_CACHE_LINE), &bytes))
            bytes = UINT64_MAX;
    }
    if (bytes == 0)
        return STK_OK;
    uint8_t *to = stk__alloc_buffer(s->ctx, bytes);
    if (!to)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "no memory for %" PRIu64 " bytes of '%.300s'", bytes, path);
    *moved = to;
    for (size_t i = 0; i < s->num_tensors; i++) {
        stk_state_tensor *t = &s->tensors[i];
        if ((uintptr_t)t->data % stk_dtype_size(t->dtype) == 0)
            continue;
        memcpy(to, t->data, t->bytes);
        t->data = to;
        to += stk__round_up(t->bytes, STK_CACHE_LINE);
    }
    return STK_OK;
}

stk_status stk__safetensors_file_load(stk__safetensors_file *file, const char *path, uint8_t **data,
                                      uint8_t **moved, stk_error *err)
{
    stk_context *ctx = file->parsed.ctx;
    uint64_t bytes = file->parsed.data_bytes, limit = stk__context_memory_limit(ctx);

    *data = *moved = NULL;
    if (bytes > limit)
        return stk__fail_at(err, STK_EBUDGET, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "'%.300s' holds %" PRIu64
                            " bytes of tensors; this process may use %" PRIu64,
                            path, bytes, limit);
    *data = stk__alloc_buffer(ctx, bytes);
    if (!*data)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "no memory for the %" PRIu64 " bytes of '%.300s'", bytes, path);
    stk_status status =
        stk__checkpoint_source_read(&file->source, path, file->head_bytes, *data, bytes, err);
    if (status == STK_OK)
        status = align_tensors(file, path, *data, moved, err);
    if (status != STK_OK) {
        stk__free(ctx, *data);
        *data = NULL;
    }
    return status;
}

void stk__safetensors_file_end(stk__safetensors_file *file)
{
    stk__checkpoint_source_close(&file->source);
    stk__free(file->parsed.ctx, file->head);
    file->head = NULL;
}

void stk__safetensors_file_close(stk__safetensors_file *file)
{
    stk__safetensors_file_end(file);
    stk__safetensors_release(&file->parsed);
    *file = (stk__safetensors_file){.source.fd = -1};
}

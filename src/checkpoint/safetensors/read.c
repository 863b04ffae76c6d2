/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/url.h"
#include "checkpoint/safetensors/safetensors.h"

#define PIECE (UINT64_C(1) << 30) /* bytes of one read */

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

stk_status stk__safetensors_file_read(const stk__safetensors_file *file, const char *path,
                                      uint64_t offset, void *to, uint64_t length, stk_error *err)
{
    uint8_t *at = to;

    for (uint64_t n; file->store && length > 0; length -= n) {
        n = STK_MIN(length, PIECE);
        STK_TRY(stk_store_read(file->store, file->key, offset, n, at, err));
        at += n;
        offset += n;
    }
    while (length > 0) {
        ssize_t n = pread(file->fd, at, STK_MIN(length, PIECE), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return stk__durable_fail(err, "read", path, errno);
        if (n == 0)
            return stk__fail_at(err, STK_ECHANGED, STK_STAGE_TRAIN, path, offset,
                                "'%.300s' became shorter while it was read", path);
        at += n;
        offset += (uint64_t)n;
        length -= (uint64_t)n;
    }
    return STK_OK;
}

/* The same in a store. */
static stk_status open_object(stk_context *ctx, const char *url, stk__safetensors_file *out,
                              stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};

    STK_TRY(stk_store_open(ctx, url, &out->store, out->key, sizeof out->key, err));
    if (!out->key[0])
        return fail_format(url, err, "it is a folder");
    STK_TRY(stk_store_stat(out->store, out->key, NULL, &info, err));
    out->size = info.size;
    return STK_OK;
}

/* Open and look at the size. A FIFO would wait for a writer: not here. */
static stk_status open_regular(const char *path, stk__safetensors_file *out, stk_error *err)
{
    struct stat st;

    out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (out->fd < 0)
        return stk__durable_fail(err, "open", path, errno);
    if (fstat(out->fd, &st) < 0)
        return stk__durable_fail(err, "open", path, errno);
    if (!S_ISREG(st.st_mode))
        return fail_format(path, err, S_ISDIR(st.st_mode) ? "it is a folder" : "it is no file");
    out->size = (uint64_t)st.st_size;
    return STK_OK;
}

static stk_status open_local(stk_context *ctx, const char *path, stk__safetensors_file *out,
                             stk_error *err)
{
    char *local;

    STK_TRY(stk__url_local(ctx, path, &local, err));
    const stk_status status = open_regular(local, out, err);
    stk__free(ctx, local);
    return status;
}

/* The length in front, with what other files that bear such names look like. */
static stk_status read_length(stk__safetensors_file *out, const char *path, uint64_t *length,
                              stk_error *err)
{
    uint8_t first[8];

    if (out->size == 0)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, 0,
                            "'%.300s' is empty" STK__SAFETENSORS_REMEDY, path);
    if (out->size < sizeof first + 2)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->size,
                            "'%.300s' has %" PRIu64
                            " bytes: too few for a safetensors file" STK__SAFETENSORS_REMEDY,
                            path, out->size);
    STK_TRY(stk__safetensors_file_read(out, path, 0, first, sizeof first, err));
    *length = 0;
    for (int i = 7; i >= 0; i--)
        *length = *length << 8 | first[i];
    if (memcmp(first, "PK\3\4", 4) == 0)
        return fail_other(path, err,
                          "it is a zip file, as PyTorch writes checkpoints: save it with Python's "
                          "safetensors instead");
    if (first[0] == 0x80 && first[1] >= 2 && first[1] <= 5)
        return fail_other(path, err, "it is a pickle, which is never read");
    if (*length > STK__SAFETENSORS_MAX_HEADER)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, 0,
                            "'%.300s' is not a safetensors file, or damaged: its header would have "
                            "%" PRIu64 " bytes, and %" PRIu64 " are the most",
                            path, *length, STK__SAFETENSORS_MAX_HEADER);
    if (*length > out->size - sizeof first)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->size,
                            "'%.300s' ends in its header: %" PRIu64 " of %" PRIu64
                            " bytes are there" STK__SAFETENSORS_REMEDY,
                            path, out->size, *length + sizeof first);
    return STK_OK;
}

stk_status stk__safetensors_file_open(stk_context *ctx, const char *path,
                                      stk__safetensors_file *out, stk_error *err)
{
    uint64_t length = 0;
    char *json = NULL;

    *out = (stk__safetensors_file){.fd = -1};
    out->parsed.ctx = ctx;
    stk_status status = stk__url_elsewhere(ctx, path) ? open_object(ctx, path, out, err)
                                                      : open_local(ctx, path, out, err);
    if (status == STK_OK)
        status = read_length(out, path, &length, err);
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
    status = stk__safetensors_file_read(out, path, 0, out->head, out->head_bytes, err);
    memcpy(json, out->head + 8, status == STK_OK ? length : 0);
    if (status == STK_OK)
        status = stk__safetensors_parse(ctx, json, length, path, &out->parsed, err);
    else
        stk__free(ctx, json);
    uint64_t there = out->size - out->head_bytes, wanted = out->parsed.data_bytes;
    if (status == STK_OK && there < wanted)
        status = stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_TRAIN, path, out->size,
                              "'%.300s' is cut off: %" PRIu64 " of its %" PRIu64
                              " bytes are there" STK__SAFETENSORS_REMEDY,
                              path, out->size, out->head_bytes + wanted);
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
    stk_status status = stk__safetensors_file_read(file, path, file->head_bytes, *data, bytes, err);
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
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    stk_store_close(&file->store);
    stk__free(file->parsed.ctx, file->head);
    file->head = NULL;
}

void stk__safetensors_file_close(stk__safetensors_file *file)
{
    stk__safetensors_file_end(file);
    stk__safetensors_release(&file->parsed);
    *file = (stk__safetensors_file){.fd = -1};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/hash.h"
#include "checkpoint/parts.h"

struct stk__checkpoint {
    stk_context *ctx;
    char *path;
    stk__safetensors_file file;
    uint8_t *data, *moved;
};

/* Begin the hash of a file; STK_EFORMAT for a safetensors file of another writer, STK_EKIND for one
 * of another version. */
static stk_status hash_begin(const stk__safetensors_file *file, const char *path, stk__hash *hash,
                             size_t *digits_at, stk_error *err)
{
    const char *layout = stk__safetensors_find_text(&file->parsed, STK__CHECKPOINT_LAYOUT);

    if (layout && strcmp(layout, STK__LAYOUT) != 0)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "'%.300s' is a checkpoint of layout '%.20s', and this stoker knows "
                            "'" STK__LAYOUT "' alone: a later version wrote it, take that one",
                            path, layout);
    if (layout && stk__hash_head(hash, file->head, file->head_bytes, digits_at) == STK_OK)
        return STK_OK;
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                        "'%.300s' is a safetensors file but no checkpoint of Stoker, or another "
                        "program has written it anew: it can give weights, not the state of a run",
                        path);
}

static stk_status check_digits(const stk__safetensors_file *file, const stk__hash *hash,
                               size_t digits_at, const char *path, stk_error *err)
{
    char digits[STK__HASH_DIGITS + 1];

    stk__hash_digits(hash, digits);
    if (memcmp(digits, file->head + digits_at, STK__HASH_DIGITS) == 0)
        return STK_OK;
    return stk__fail_at(
        err, STK_ECHECKSUM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
        "'%.300s' is damaged, or another program has written it anew: its bytes have "
        "the hash %s and not the %.32s kept in it; use an earlier checkpoint",
        path, digits, (const char *)file->head + digits_at);
}

stk_status stk__checkpoint_load_alone(stk__safetensors_file *file, const char *path, uint8_t **data,
                                      uint8_t **moved, stk_error *err)
{
    size_t digits_at = 0;
    stk__hash hash;

    STK_TRY(hash_begin(file, path, &hash, &digits_at, err));
    STK_TRY(stk__safetensors_file_load(file, path, data, moved, err));
    stk__hash_update(&hash, *data, file->parsed.data_bytes);
    return check_digits(file, &hash, digits_at, path, err);
}

stk_status stk__checkpoint_load_file(stk__safetensors_file *file, const char *path, uint8_t **data,
                                     uint8_t **moved, stk_error *err)
{
    STK_TRY(stk__checkpoint_load_alone(file, path, data, moved, err));
    return stk__parts_load(file, path, NULL, false, data, moved, err);
}

stk_status stk__checkpoint_open_first(stk_context *ctx, const char *path, stk__checkpoint **out,
                                      stk_error *err)
{
    uint32_t count;

    *out = NULL;
    stk__checkpoint *c = stk__calloc(ctx, 1, sizeof *c);
    char *kept = stk__strdup(ctx, path);
    if (!c || !kept) {
        stk__free(ctx, c);
        stk__free(ctx, kept);
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "no memory for the checkpoint '%.300s'", path);
    }
    c->ctx = ctx;
    c->path = kept;
    c->file.source.fd = -1;
    stk_status status = stk__safetensors_file_open(ctx, path, &c->file, err);
    if (status == STK_OK)
        status = stk__checkpoint_load_alone(&c->file, path, &c->data, &c->moved, err);
    if (status == STK_OK)
        status = stk__parts_identify(&c->file, path, &count, err);
    /* The file may be replaced from now on. */
    stk__safetensors_file_end(&c->file);
    if (status != STK_OK)
        stk__checkpoint_close(&c);
    *out = c;
    return status;
}

stk_status stk__checkpoint_open(stk_context *ctx, const char *path, stk__checkpoint **out,
                                stk_error *err)
{
    STK_TRY(stk__checkpoint_open_first(ctx, path, out, err));
    const stk_status status = stk__checkpoint_bring(*out, NULL, false, err);
    if (status != STK_OK)
        stk__checkpoint_close(out);
    return status;
}

stk_status stk__checkpoint_fits(stk__checkpoint *c, const stk__checkpoint_wanted *wanted,
                                bool *fits, stk_error *err)
{
    return stk__parts_own(&c->file, c->path, wanted, fits, err);
}

stk_status stk__checkpoint_bring(stk__checkpoint *c, const stk__checkpoint_wanted *wanted, bool own,
                                 stk_error *err)
{
    return stk__parts_load(&c->file, c->path, wanted, own, &c->data, &c->moved, err);
}

uint64_t stk__checkpoint_skipped(const stk__checkpoint *c, const stk_state_tensor *tensor)
{
    const stk__safetensors *parsed = &c->file.parsed;

    return parsed->skipped ? parsed->skipped[tensor - parsed->tensors] : 0;
}

void stk__checkpoint_close(stk__checkpoint **checkpoint)
{
    stk__checkpoint *c = *checkpoint;

    if (!c)
        return;
    stk__safetensors_file_close(&c->file);
    stk__free(c->ctx, c->data);
    stk__free(c->ctx, c->moved);
    stk__free(c->ctx, c->path);
    stk__free(c->ctx, c);
    *checkpoint = NULL;
}

size_t stk__checkpoint_count(const stk__checkpoint *checkpoint)
{
    return checkpoint->file.parsed.num_tensors;
}

const stk_state_tensor *stk__checkpoint_tensor(const stk__checkpoint *checkpoint, size_t i)
{
    return &checkpoint->file.parsed.tensors[i];
}

const stk_state_tensor *stk__checkpoint_find(const stk__checkpoint *checkpoint, const char *name)
{
    return stk__safetensors_find(&checkpoint->file.parsed, name);
}

const char *stk__checkpoint_find_text(const stk__checkpoint *checkpoint, const char *name)
{
    return stk__safetensors_find_text(&checkpoint->file.parsed, name);
}

const char *stk__checkpoint_text_name(const stk__checkpoint *checkpoint, size_t i)
{
    const stk__safetensors *parsed = &checkpoint->file.parsed;

    return i < parsed->num_texts ? parsed->texts[i].name : NULL;
}

/* Read the data of an open file, piece by piece, into the hash. */
static stk_status hash_data(stk_context *ctx, const stk__safetensors_file *file, const char *path,
                            stk__hash *hash, stk_error *err)
{
    stk_status status = STK_OK;

    uint8_t *piece = stk__alloc_buffer(ctx, STK__VERIFY_BYTES);
    if (!piece)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "no memory to verify '%.300s'", path);
    for (uint64_t at = file->head_bytes; at < file->source.size && status == STK_OK;) {
        uint64_t length = STK_MIN(file->source.size - at, STK__VERIFY_BYTES);
        status = stk__checkpoint_source_read(&file->source, path, at, piece, length, err);
        if (status == STK_OK)
            stk__hash_update(hash, piece, length);
        at += length;
    }
    stk__free(ctx, piece);
    return status;
}

stk_status stk__checkpoint_verify_alone(stk_context *ctx, const stk__safetensors_file *file,
                                        const char *path, stk_error *err)
{
    size_t digits_at = 0;
    stk__hash hash;

    STK_TRY(hash_begin(file, path, &hash, &digits_at, err));
    STK_TRY(hash_data(ctx, file, path, &hash, err));
    return check_digits(file, &hash, digits_at, path, err);
}

stk_status stk__checkpoint_verify(stk_context *ctx, const char *path, stk_error *err)
{
    return stk__checkpoint_verify_share(ctx, path, 0, 1, err);
}

stk_status stk__checkpoint_verify_share(stk_context *ctx, const char *path, uint64_t reader,
                                        uint64_t readers, stk_error *err)
{
    stk__safetensors_file file;
    stk__parts_told told;

    STK_TRY(stk__safetensors_file_open(ctx, path, &file, err));
    stk_status status = reader ? STK_OK : stk__checkpoint_verify_alone(ctx, &file, path, err);
    if (status == STK_OK)
        status = stk__parts_verify(&file, path, reader, readers, &told, err);
    stk__safetensors_file_close(&file);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weights/weights.h"

#include "checkpoint/hash.h"

stk_status stk__weights_open(stk_context *ctx, const char *path, stk__checkpoint_source *out,
                             bool *pth, stk_error *err)
{
    uint8_t first[4] = {0};

    STK_TRY(stk__checkpoint_source_open(ctx, path, "a file of weights", out, err));
    stk_status status = STK_OK;
    if (out->size >= sizeof first)
        status = stk__checkpoint_source_read(out, path, 0, first, sizeof first, err);
    *pth = stk__pth_begins(first);
    if (status != STK_OK)
        stk__checkpoint_source_close(out);
    return status;
}

/* A checkpoint of ours counts only if every byte is as it was written. */
static stk_status load_safetensors(stk__weights *w, stk__checkpoint_source *source,
                                   const char *path, stk_error *err)
{
    STK_TRY(stk__safetensors_file_take(w->ctx, source, path, &w->file, err));
    stk__safetensors *s = &w->file.parsed;
    const bool ours = stk__safetensors_find_text(s, STK__CHECKPOINT_HASH) != NULL;
    STK_TRY(ours ? stk__checkpoint_load_file(&w->file, path, &w->data, &w->moved, err)
                 : stk__safetensors_file_load(&w->file, path, &w->data, &w->moved, err));
    w->tensors = stk__calloc(w->ctx, s->num_tensors + 1, sizeof *w->tensors);
    if (!w->tensors)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                            "no memory for the list of weights");
    for (size_t i = 0; i < s->num_tensors; i++)
        if (!stk__checkpoint_is_own(s->tensors[i].name))
            w->tensors[w->num_tensors++] = s->tensors[i];
    stk__safetensors_file_end(&w->file);
    return STK_OK;
}

static stk_status load_pth(stk__weights *w, const stk__checkpoint_source *source, const char *path,
                           stk_error *err)
{
    STK_TRY(stk__pth_load(w->ctx, source, path, &w->pth, err));
    w->tensors = w->pth.tensors;
    w->num_tensors = w->pth.num_tensors;
    return STK_OK;
}

stk_status stk__weights_load(stk_context *ctx, const char *path, const stk_store_call *call,
                             stk__weights *out, stk_error *err)
{
    stk__checkpoint_source source;
    bool pth = false;

    *out = (stk__weights){.ctx = ctx, .pth.ctx = ctx};
    out->file = (stk__safetensors_file){.source.fd = -1, .parsed.ctx = ctx};
    STK_TRY(stk__weights_open(ctx, path, &source, &pth, err));
    source.call = call;
    const stk_status status =
        pth ? load_pth(out, &source, path, err) : load_safetensors(out, &source, path, err);
    stk__checkpoint_source_close(&source);
    if (status != STK_OK)
        stk__weights_release(out);
    return status;
}

void stk__weights_release(stk__weights *w)
{
    if (w->tensors != w->pth.tensors)
        stk__free(w->ctx, w->tensors);
    stk__pth_release(&w->pth);
    stk__safetensors_file_close(&w->file);
    stk__free(w->ctx, w->data);
    stk__free(w->ctx, w->moved);
    *w = (stk__weights){.ctx = w->ctx, .pth.ctx = w->ctx};
    w->file.source.fd = -1;
}

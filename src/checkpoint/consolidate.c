/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint in parts -> the file that it would have been without them. */
#include "base/sized.h"
#include "base/url.h"
#include "checkpoint/hash.h"
#include "checkpoint/parts.h"

typedef struct consolidation {
    stk_context *ctx;
    const char *from, *to;
    stk_store_call call; /* of the target */
    stk__checkpoint *checkpoint;
    stk__checkpoint_text *texts;
    size_t num_texts;
    stk_state_tensor *tensors;
    size_t num_tensors;
    stk__safetensors_head head;
} consolidation;

static stk_status no_memory(const consolidation *c, stk_error *err)
{
    return stk__fail_at(err, STK_ENOMEM, STK_STAGE_TRAIN, c->from, STK_NO_OFFSET,
                        "no memory for the lists of '%.300s'", c->from);
}

/* All that it says and holds; the hash is that of the file to come. */
static stk_status list_all(consolidation *c, stk_error *err)
{
    const char *name;
    size_t n = 0;

    while (stk__checkpoint_text_name(c->checkpoint, n))
        n++;
    c->num_tensors = stk__checkpoint_count(c->checkpoint);
    c->texts = stk__calloc(c->ctx, n + 1, sizeof *c->texts);
    c->tensors = stk__calloc(c->ctx, c->num_tensors + 1, sizeof *c->tensors);
    if (!c->texts || !c->tensors)
        return no_memory(c, err);
    for (size_t i = 0; (name = stk__checkpoint_text_name(c->checkpoint, i)); i++)
        c->texts[c->num_texts++] =
            (stk__checkpoint_text){name, strcmp(name, STK__CHECKPOINT_HASH) == 0
                                             ? STK__HASH_ZEROS
                                             : stk__checkpoint_find_text(c->checkpoint, name)};
    for (size_t i = 0; i < c->num_tensors; i++)
        c->tensors[i] = *stk__checkpoint_tensor(c->checkpoint, i);
    return STK_OK;
}

static stk_status make_head(consolidation *c, stk_error *err)
{
    char digits[STK__HASH_DIGITS + 1];
    stk__hash hash;
    size_t at;

    c->head.text.ctx = c->ctx;
    STK_TRY(stk__safetensors_head_make(&c->head, c->tensors, c->num_tensors, c->texts, c->num_texts,
                                       err));
    if (stk__hash_head(&hash, c->head.text.bytes, c->head.text.length, &at) != STK_OK)
        return stk__fail(err, STK_EINTERNAL, STK_STAGE_TRAIN, "a checkpoint has no hash");
    for (size_t i = 0; i < c->num_tensors; i++) {
        const stk_state_tensor *t = &c->tensors[c->head.order[i]];
        stk__hash_update(&hash, t->data, t->bytes);
    }
    stk__hash_digits(&hash, digits);
    memcpy(c->head.text.bytes + at, digits, STK__HASH_DIGITS);
    return STK_OK;
}

static stk_status write_file(consolidation *c, stk_error *err)
{
    stk_put *put = NULL;

    c->call.length = c->head.text.length + c->head.data_bytes;
    STK_TRY(stk_put_open(c->ctx, c->to, &c->call, &put, err));
    stk_status status = put->ops->write(put, c->head.text.bytes, c->head.text.length, err);
    for (size_t i = 0; i < c->num_tensors && status == STK_OK; i++) {
        const stk_state_tensor *t = &c->tensors[c->head.order[i]];
        if (t->bytes)
            status = put->ops->write(put, t->data, t->bytes, err);
    }
    if (status == STK_OK)
        return put->ops->commit(put, err);
    put->ops->abandon(put);
    return status;
}

/* What is there already is seen before the source is read. */
static stk_status check_target(const consolidation *c, stk_error *err)
{
    stk__checkpoint_source target;
    stk_error unheard;

    if (!c->call.no_replace ||
        stk__checkpoint_source_open(c->ctx, c->to, "a file", &target, &unheard) != STK_OK)
        return STK_OK;
    stk__checkpoint_source_close(&target);
    return stk__fail_at(err, STK_EEXIST, STK_STAGE_TRAIN, c->to, STK_NO_OFFSET,
                        "'%.300s' exists already: choose another name, or set overwrite "
                        "(--overwrite) to replace it",
                        c->to);
}

static stk_status consolidate(consolidation *c, stk_error *err)
{
    const bool elsewhere = stk__url_elsewhere(c->ctx, c->to);
    stk__put_place place = {.context = c->ctx};
    stk__checkpoint_part before = {.count = 0};
    stk_status status = STK_OK;
    bool any;

    STK_TRY(check_target(c, err));
    STK_TRY(stk__checkpoint_open(c->ctx, c->from, &c->checkpoint, err));
    STK_TRY(list_all(c, err));
    STK_TRY(make_head(c, err));
    if (elsewhere)
        status = stk__parts_object_of(&place, c->to, &any, &before, err);
    else if (!stk__parts_of(c->ctx, c->to, &before))
        before.count = 0;
    if (status == STK_OK)
        status = write_file(c, err);
    if (status == STK_OK && before.count && elsewhere)
        status = stk__parts_objects_drop(&place, c->to, &before, err);
    else if (status == STK_OK && before.count)
        stk__parts_drop(c->ctx, c->to, &before);
    stk__put_place_close(&place);
    return status;
}

stk_status stk_checkpoint_consolidate(stk_context *ctx, const char *from, const char *to,
                                      const stk_store_call *call, stk_error *err)
{
    consolidation c = {.ctx = ctx, .from = from, .to = to};

    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    c.call.struct_size = sizeof c.call;
    if (call)
        STK_TRY(
            stk__sized_read(&c.call, sizeof c.call, call, "stk_store_call", STK_STAGE_TRAIN, err));
    const stk_status status = consolidate(&c, err);
    stk__safetensors_head_release(&c.head);
    stk__free(ctx, c.texts);
    stk__free(ctx, c.tensors);
    stk__checkpoint_close(&c.checkpoint);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What callbacks keep of a module's tensors, from a checkpoint: asked for before it is known which
 * parts of it are read, and filled in with the module. */
#include "train/trainer.h"

bool stk__state_same_shape(const stk_state_tensor *a, const stk_state_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

void stk_restorer_part(const stk_restorer *restorer, const stk_state_tensor *like,
                       stk_state_tensor *out)
{
    const stk_trainer *t = restorer->trainer;
    const stk_shard *own = t ? stk__shards_own(t, like->name) : NULL;

    *out = *like;
    out->data = NULL;
    if (!own)
        return;
    out->rank = 1;
    out->shape[0] = (int64_t)own->count;
    out->bytes = own->count * stk_dtype_size(like->dtype);
}

stk_status stk_restorer_copy(const stk_restorer *restorer, const char *name,
                             const stk_state_tensor *like, void *data, stk_error *err)
{
    stk__restart *r = restorer->trainer ? &restorer->trainer->restart : NULL;
    stk_state_tensor part;

    if (!r)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "'%s' is asked for where no training goes on from a checkpoint", name);
    stk__state_copy *copies =
        stk__grow(restorer->ctx, r->copies, &r->copy_room, r->num_copies + 1, sizeof *copies);
    char *full = stk__format(restorer->ctx, "%s%s", restorer->prefix, name);
    r->copies = copies ? copies : r->copies;
    if (!copies || !full) {
        stk__free(restorer->ctx, full);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of copies");
    }
    const stk_shard *own = stk__shards_own(restorer->trainer, like->name);
    stk_restorer_part(restorer, like, &part);
    copies[r->num_copies++] = (stk__state_copy){
        .name = full,
        .like = *like,
        .from = own ? own->from * stk_dtype_size(like->dtype) : 0,
        .bytes = part.bytes,
        .data = data,
    };
    return STK_OK;
}

stk_status stk__state_load_copies(stk_trainer *t, stk_error *err)
{
    const stk__restart *r = &t->restart;

    for (size_t i = 0; i < r->num_copies; i++) {
        const stk__state_copy *c = &r->copies[i];
        const stk_state_tensor *found = stk__checkpoint_find(r->checkpoint, c->name);
        if (!found || !stk__state_same_shape(found, &c->like))
            return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, r->path, STK_NO_OFFSET,
                                "the checkpoint '%.300s' keeps no fitting '%.200s': it is one of "
                                "another model",
                                r->path, c->name);
        if (c->bytes)
            memcpy(c->data,
                   (const char *)found->data + c->from -
                       stk__checkpoint_skipped(r->checkpoint, found),
                   c->bytes);
    }
    return STK_OK;
}

void stk__state_forget_copies(stk_trainer *t)
{
    stk__restart *r = &t->restart;

    for (size_t i = 0; i < r->num_copies; i++)
        stk__free(t->ctx, r->copies[i].name);
    stk__free(t->ctx, r->copies);
    r->copies = NULL;
    r->num_copies = r->copy_room = 0;
}

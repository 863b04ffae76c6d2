/* SPDX-License-Identifier: Apache-2.0 */
/* The planning of one read: walks become needs, needs become requests. */
#include "array/reading.h"

stk_status stk__reading_add_walk(stk__reading *r, stk__walk *walk, stk_error *err)
{
    stk__pending *p = stk__calloc(r->array->context, 1, sizeof *p);

    if (!p) {
        stk__walk_destroy(&walk);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read an array");
    }
    p->walk = walk;
    pthread_mutex_lock(&r->mutex);
    p->next = r->walks;
    r->walks = p;
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->mutex);
    return STK_OK;
}

stk_status stk__reading_fill(stk__reading *r, const stk__need *need, const char *key,
                             stk_error *err)
{
    char made[STK_MAX_OBJECT_KEY];

    if (r->indexes_only)
        return STK_OK;
    if (stk__array_fills(r->array)) {
        stk__array_copy(r->array, r->box, need, NULL, r->out, r->strides);
        return STK_OK;
    }
    if (!key) {
        stk__array_key(r->array, need->object, made, sizeof made);
        key = made;
    }
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "chunk %llu is missing: %s; missing=fill reads it as the fill value",
                        (unsigned long long)need->chunk, key);
}

/* Split off a shard whose index is not known, and let its request carry its walk. */
static stk_status split(stk__walk *walk, stk__need *need, stk__walk **out, stk_error *err)
{
    if (stk__walk_split(walk, out) != STK_OK)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to read an array");
    stk__walk_pass(walk);
    need->skip = (uint64_t)(uintptr_t)*out; /* an index has no other use for it */
    return STK_OK;
}

/* Add what the walk needs to the plan, until it has looked at enough. *ended: the walk is over. */
static stk_status take_needs(stk__reading *r, stk__walk *walk, bool *ended, stk_error *err)
{
    stk__walk *part;

    *ended = false;
    for (size_t seen = 0; seen < STK__READING_PLAN; seen++) {
        stk__need *need = &r->needs[r->num_needs];
        stk_status status = stk__walk_next(walk, need, err);
        if (status == STK_EOS) {
            *ended = true;
            return STK_OK;
        }
        STK_TRY(status);
        if (need->kind == STK__NEED_FILL) {
            STK_TRY(stk__reading_fill(r, need, NULL, err));
            continue;
        }
        if (need->kind == STK__NEED_INDEX)
            STK_TRY(split(walk, need, &part, err));
        else if (r->indexes_only)
            continue;
        r->num_needs++;
    }
    return STK_OK;
}

stk_status stk__reading_plan(stk__reading *r, size_t *num_requests, stk_error *err)
{
    stk_status status = STK_OK;
    size_t planned = 0, alone = 0;
    bool ended = true;

    r->num_needs = 0;
    pthread_mutex_lock(&r->mutex);
    stk__pending *p = r->walks;
    r->walks = p->next;
    pthread_mutex_unlock(&r->mutex);
    status = take_needs(r, p->walk, &ended, err);
    if (ended || status != STK_OK) {
        stk__walk_destroy(&p->walk);
        stk__free(r->array->context, p);
    } else { /* behind the walks that came meanwhile: their bytes lie near what was read */
        pthread_mutex_lock(&r->mutex);
        stk__pending **at = &r->walks;
        while (*at)
            at = &(*at)->next;
        p->next = NULL;
        *at = p;
        pthread_mutex_unlock(&r->mutex);
    }
    if (status != STK_OK) {
        for (size_t i = 0; i < r->num_needs; i++)
            if (r->needs[i].kind == STK__NEED_INDEX) {
                stk__walk *walk = (stk__walk *)(uintptr_t)r->needs[i].skip;
                stk__walk_destroy(&walk);
            }
        r->num_needs = 0;
        return status;
    }
    /* What has no place yet, or gives the next walk, is a request of its own: first, since others
     * wait for it. The planner takes the rest. */
    for (size_t i = 0; i < r->num_needs; i++) {
        const stk__need *need = &r->needs[i];
        if (need->kind == STK__NEED_INDEX || need->length == STK__ARRAY_UNKNOWN)
            r->requests[alone++] =
                (stk__request){need->object, need->offset, need->length, UINT32_MAX, (uint32_t)i};
        else
            r->wants[planned++] =
                (stk__want){need->object, need->offset, need->length, (uint32_t)i};
    }
    *num_requests = alone + stk__plan_reads(r->wants, planned, &r->limits, r->requests + alone);
    /* A want of nothing belongs to no request: an empty chunk, which no codec gives. */
    for (size_t i = 0; i < planned && r->wants[i].length == 0; i++) {
        char key[STK_MAX_OBJECT_KEY];
        stk__array_key(r->array, r->wants[i].object, key, sizeof key);
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, r->wants[i].offset,
                              "%s: a chunk of 0 bytes is at byte %llu; copy or write it again", key,
                              (unsigned long long)r->wants[i].offset);
    }
    return status;
}

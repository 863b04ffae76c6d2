/* SPDX-License-Identifier: Apache-2.0 */
/* What samples, reads and steps of a log took, in their order: the first of each run. */
#include "measure/kept.h"

/* Room for one more at the end; NULL: none is to be kept, or (*status) there is no memory. */
static void *room_for(stk_context *ctx, void *array, size_t *room, uint64_t n, size_t size,
                      uint64_t *left, stk_status *status)
{
    *status = STK_OK;
    if (n == STK__RECORDS_RUN || *left == 0)
        return NULL;
    void *grown = stk__grow(ctx, array, room, n + 1, size);
    if (!grown)
        *status = STK_ENOMEM;
    else
        --*left;
    return grown;
}

stk_status stk__records_prepare(stk_context *ctx, stk__records *r, double seconds, uint64_t *left)
{
    stk_status status;
    float *grown = room_for(ctx, r->prepare, &r->room_prepare, r->num_prepare, sizeof *grown, left,
                            &status);

    if (!grown)
        return status;
    r->prepare = grown;
    r->prepare[r->num_prepare++] = (float)seconds;
    return STK_OK;
}

stk_status stk__records_step(stk_context *ctx, stk__records *r, double seconds, uint64_t *left)
{
    stk_status status;
    float *grown =
        room_for(ctx, r->steps, &r->room_steps, r->num_steps, sizeof *grown, left, &status);

    if (!grown)
        return status;
    r->steps = grown;
    r->steps[r->num_steps++] = (float)seconds;
    return STK_OK;
}

stk_status stk__records_read(stk_context *ctx, stk__records *r, double start, double seconds,
                             double bytes, uint64_t *left)
{
    stk_status status;
    stk_recorded_read *grown =
        room_for(ctx, r->reads, &r->room_reads, r->num_reads, sizeof *grown, left, &status);

    if (!grown)
        return status;
    r->reads = grown;
    r->reads[r->num_reads++] = (stk_recorded_read){
        .start = start, .seconds = (float)seconds, .bytes = (float)bytes};
    return STK_OK;
}

void stk__records_release(stk_context *ctx, stk__records *r, uint64_t *left)
{
    stk__free(ctx, r->prepare);
    stk__free(ctx, r->steps);
    stk__free(ctx, r->reads);
    *left += r->num_prepare + r->num_reads + r->num_steps;
    *r = (stk__records){0};
}

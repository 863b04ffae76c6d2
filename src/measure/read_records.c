/* SPDX-License-Identifier: Apache-2.0 */
/* What samples, reads and steps of a log took, in their order: the first of each run. */
#include <stdlib.h>

#include "measure/kept.h"

#define LATE    4    /* times a usual task, from which on one sample of it is late */
#define SAMPLED 1024 /* samples that tell what is usual */

/* Room for one more at the end; NULL: none is to be kept, or (*status) there is no memory. */
static void *room_for(stk_context *ctx, void *array, size_t *room, uint64_t n, size_t size,
                      uint64_t *left, stk_status *status)
{
    *status = STK_OK;
    if (n == STK__RECORDED_RUN || *left == 0)
        return NULL;
    void *grown = stk__grow(ctx, array, room, n + 1, size);
    if (!grown)
        *status = STK_ENOMEM;
    else
        --*left;
    return grown;
}

stk_status stk__recorded_prepare(stk_context *ctx, stk__recorded *r, double seconds, int64_t task,
                                 uint64_t *left)
{
    stk_status status;
    uint16_t *together =
        stk__grow(ctx, r->together, &r->room_together, r->num_prepare + 1, sizeof *together);

    if (!together)
        return STK_ENOMEM;
    r->together = together;
    float *grown =
        room_for(ctx, r->prepare, &r->room_prepare, r->num_prepare, sizeof *grown, left, &status);
    if (!grown)
        return status;
    r->prepare = grown;
    r->together[r->num_prepare] = (uint16_t)STK_MIN(task, UINT16_MAX);
    r->prepare[r->num_prepare++] = (float)seconds;
    return STK_OK;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float usual(const stk__recorded *r)
{
    const uint64_t apart = STK_MAX(r->num_prepare / SAMPLED, 1);
    float values[SAMPLED];
    size_t n = 0;

    for (uint64_t i = 0; i < r->num_prepare && n < SAMPLED; i += apart)
        values[n++] = r->prepare[i];
    qsort(values, n, sizeof *values, by_value);
    return n ? values[n / 2] : 0;
}

void stk__recorded_part(stk__recorded *r)
{
    const float each = usual(r);
    uint64_t n;

    for (uint64_t i = 0; i < r->num_prepare; i += n) {
        const float mean = r->prepare[i];
        const uint16_t task = r->together[i];
        for (n = 1; i + n < r->num_prepare && n < task && r->together[i + n] == task &&
                    r->prepare[i + n] == mean;)
            n++;
        if (n < 2 || mean <= LATE * each)
            continue;
        for (uint64_t k = i + 1; k < i + n; k++)
            r->prepare[k] = each;
        r->prepare[i] = (float)n * mean - (float)(n - 1) * each;
    }
}

stk_status stk__recorded_step(stk_context *ctx, stk__recorded *r, double seconds, uint64_t *left)
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

stk_status stk__recorded_read(stk_context *ctx, stk__recorded *r, double start, double seconds,
                              double bytes, uint64_t *left)
{
    stk_status status;
    stk_recorded_read *grown =
        room_for(ctx, r->reads, &r->room_reads, r->num_reads, sizeof *grown, left, &status);

    if (!grown)
        return status;
    r->reads = grown;
    r->reads[r->num_reads++] =
        (stk_recorded_read){.start = start, .seconds = (float)seconds, .bytes = (float)bytes};
    return STK_OK;
}

void stk__recorded_release(stk_context *ctx, stk__recorded *r, uint64_t *left)
{
    stk__free(ctx, r->prepare);
    stk__free(ctx, r->together);
    stk__free(ctx, r->steps);
    stk__free(ctx, r->reads);
    *left += r->num_prepare + r->num_reads + r->num_steps;
    *r = (stk__recorded){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of one of several ranks, in bounded memory. */
#include "measure/kept.h"

#define EPOCH_APART UINT64_C(0x9E3779B97F4A7C15) /* odd: neighbouring epochs keep other batches */
#define MOST_APART  (UINT64_C(1) << 40)

static bool is_kept(const stk__marks *marks, const stk__mark *mark)
{
    const uint64_t number = (uint64_t)mark->epoch * EPOCH_APART + (uint64_t)mark->batch;

    return marks->every < 2 || (number & (marks->every - 1)) == 0;
}

static void thin(stk__marks *marks)
{
    size_t n = 0;

    for (size_t i = 0; i < marks->n; i++)
        if (is_kept(marks, &marks->marks[i]))
            marks->marks[n++] = marks->marks[i];
    marks->n = n;
}

stk_status stk__marks_add(stk_context *ctx, stk__marks *marks, const stk__mark *mark)
{
    if (mark->batch < 0 || !is_kept(marks, mark))
        return STK_OK;
    while (marks->n == STK__MARKS_MAX && marks->every < MOST_APART) {
        marks->every = STK_MAX(2 * marks->every, 2);
        thin(marks);
    }
    /* Full still: all have one number. */
    if (marks->n == STK__MARKS_MAX || !is_kept(marks, mark))
        return STK_OK;
    stk__mark *grown = stk__grow(ctx, marks->marks, &marks->room, marks->n + 1, sizeof *grown);
    if (!grown)
        return STK_ENOMEM;
    marks->marks = grown;
    marks->marks[marks->n++] = *mark;
    return STK_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a log -> events. */
#include "measure/read.h"

#include <math.h>

#define PID_MAX    INT32_MAX
#define WORKER_MAX ((1 << 20) - 3) /* see lane_of() */
#define TASK_MAX   INT32_MAX       /* samples of one */

static void take_member(const stk__json_member *m, stk__log_line *out)
{
    int64_t whole;

    switch (m->key_length) {
    case 3:
        if (stk__json_member_key_is(m, "pid") && stk__json_member_whole(m, PID_MAX, &whole))
            out->pid = whole;
        break;
    case 4:
        if (stk__json_member_key_is(m, "time"))
            (void)stk__json_member_real(m, STK__RANGE_TIME, &out->time);
        else if (stk__json_member_key_is(m, "task") && stk__json_member_whole(m, TASK_MAX, &whole))
            out->task = whole;
        break;
    case 5:
        if (stk__json_member_key_is(m, "epoch") &&
            stk__json_member_whole(m, STK__WHOLE_MAX, &whole))
            out->epoch = whole;
        else if (stk__json_member_key_is(m, "batch") &&
                 stk__json_member_whole(m, STK__WHOLE_MAX, &whole))
            out->batch = whole;
        else if (stk__json_member_key_is(m, "event"))
            stk__json_member_text(m, out->name, sizeof out->name);
        break;
    case 6:
        if (stk__json_member_key_is(m, "worker"))
            out->worker = stk__json_member_whole(m, WORKER_MAX, &whole) ? whole : -1;
        break;
    case 7:
        if (stk__json_member_key_is(m, "time_ns") && stk__json_member_whole(m, INT64_MAX, &whole))
            out->time_ns = whole;
        break;
    case 8:
        if (stk__json_member_key_is(m, "duration"))
            (void)stk__json_member_real(m, STK__RANGE_DURATION, &out->duration);
        break;
    default:
        break;
    }
}

bool stk__line_of(const stk__log_object *object, stk__log_line *out)
{
    *out = (stk__log_line){.object = object,
                           .time = NAN,
                           .duration = NAN,
                           .time_ns = -1,
                           .pid = -1,
                           .epoch = -1,
                           .batch = -1,
                           .worker = -2,
                           .task = 1,
                           .alone = object->alone};
    for (size_t i = 0; i < object->n; i++)
        take_member(&object->members[i], out);
    if (out->task < 1)
        out->task = 1;
    return out->name[0] != 0;
}

const stk__json_member *stk__line_find(const stk__log_line *line, const char *key)
{
    for (size_t i = 0; i < line->object->n; i++)
        if (stk__json_member_key_is(&line->object->members[i], key))
            return &line->object->members[i];
    return NULL;
}

double stk__line_seconds(const stk__log_line *line, const char *key)
{
    const stk__json_member *m = stk__line_find(line, key);
    double value = NAN;

    if (m)
        (void)stk__json_member_real(m, STK__RANGE_DURATION, &value);
    return value;
}

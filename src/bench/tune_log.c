/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of all settings of a grid -> a log, an event for each. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "bench/tune.h"

#define MEMBERS 1024 /* bytes that those of an event fit */

static void put_number(stk__text *out, const char *name, double value)
{
    char number[32];

    stk_number_format(value, number);
    stk__text_add(out, ", \"%s\": %s", name, number);
}

/* Below 0: not known. */
static void put_count(stk__text *out, const char *name, int64_t value)
{
    if (value < 0)
        stk__text_add(out, ", \"%s\": null", name);
    else
        stk__text_add(out, ", \"%s\": %" PRId64, name, value);
}

static void put_bool(stk__text *out, const char *name, bool value)
{
    stk__text_add(out, ", \"%s\": %s", name, value ? "true" : "false");
}

/* Members have the names of 'stoker tune --format json'. */
static void put_point(const stk_tune_point *p, bool best, stk__text *out)
{
    const char *name;
    double value;

    stk__text_add(out, "\"runs\": %" PRIu64, p->runs);
    put_count(out, "num_workers", p->num_workers);
    put_count(out, "io_depth", p->io_depth);
    put_count(out, "prefetch_factor", p->prefetch_factor);
    put_bool(out, "auto_workers", p->auto_workers);
    put_bool(out, "auto_depth", p->auto_depth);
    put_bool(out, "allowed", p->allowed);
    put_bool(out, "front", p->front);
    put_bool(out, "best", best);
    for (size_t i = 0; stk_tune_point_number(p, i, &name, &value); i++)
        put_number(out, name, value);
}

stk_status stk_tune_log(const stk_tune *tune, const char *path, stk_error *err)
{
    stk_tune_answer answer = {.struct_size = sizeof answer};
    stk_event_log *log;
    char first[48], members[MEMBERS];

    STK_TRY(stk__context_check(tune->ctx, err));
    STK_TRY(stk_event_log_open(tune->ctx, path, &log, err));
    stk_tune_answer_get(tune, &answer);
    for (size_t i = 0; i < tune->count; i++) {
        stk__text out = {.bytes = members, .room = sizeof members};
        snprintf(first, sizeof first, "\"setting\": %zu", tune->points[i].setting);
        put_point(&tune->points[i], i == answer.best, &out);
        stk_event_log_write(log, "grid setting", first, 0, STK_NO_DURATION, members);
    }
    return stk_event_log_close(&log, err);
}

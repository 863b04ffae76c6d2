/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of an event -> series: what a sampler, a queue or a ledger tells, whatever its names. */
#include "measure/read.h"

#include <math.h>

#define PLACE_WIDTH 0.01 /* seconds at first */

/* Members that say when and where, not what. */
static bool is_place(const stk__json_member *m)
{
    static const char *const keys[] = {"event", "time", "time_ns", "duration", "pid",
                                       "epoch", "rank", "batch",   "step"};

    for (size_t i = 0; i < STK_COUNT(keys); i++)
        if (stk__json_member_key_is(m, keys[i]))
            return true;
    return false;
}

/* Of what a policy was told and said, only what it has come to is a line: steps and seconds of what
 * it saw would share its axis. */
static bool is_shown(const char *event, const stk__json_member *m)
{
    return strcmp(event, "pace") != 0 || stk__json_member_key_is(m, "num_workers") ||
           stk__json_member_key_is(m, "io_depth");
}

/* The series of that name, made when it is new; NULL with STK_OK when there are too many. */
static stk_status find(stk_report *report, stk__run *run, const char *group, const char *name,
                       bool ledger, stk__series **out)
{
    for (uint64_t i = 0; i < run->out.num_series; i++) {
        *out = run->series[i];
        if (strcmp((*out)->out.group, group) == 0 && strcmp((*out)->out.name, name) == 0)
            return STK_OK;
    }
    *out = NULL;
    if (run->out.num_series == STK__SERIES_MAX || report->series_left == 0) {
        run->out.series_left_out++;
        return STK_OK;
    }
    if (!run->series)
        run->series = stk__calloc(report->ctx, STK__SERIES_MAX, sizeof *run->series);
    stk__series *s = run->series ? stk__calloc(report->ctx, 1, sizeof *s) : NULL;
    if (!s)
        return STK_ENOMEM;
    memcpy(s->out.group, group, strlen(group) + 1);
    memcpy(s->out.name, name, strlen(name) + 1);
    s->out.ledger = ledger;
    s->out.whole = true;
    s->places.width = ledger ? 1 : PLACE_WIDTH;
    run->series[run->out.num_series++] = s;
    report->series_left--;
    *out = s;
    return STK_OK;
}

static stk_status add(stk_report *report, stk__run *run, const char *group,
                      const stk__json_member *m, double at, bool ledger)
{
    stk__json_member key = {.text = m->key, .length = m->key_length, .kind = STK__JSON_STRING};
    char name[STK_REPORT_NAME];
    stk__series *s;

    double value;
    if (!stk__json_member_real(m, ledger ? STK__RANGE_LEDGER : STK__RANGE_ANY, &value))
        return STK_OK;
    stk__json_member_text(&key, name, sizeof name);
    STK_TRY(find(report, run, group, name, ledger, &s));
    if (s) {
        s->out.whole &= value == floor(value);
        stk__places_add(&s->places, at, value);
    }
    return STK_OK;
}

stk_status stk__run_value(stk_report *report, stk__run *run, const char *group, const char *name,
                          const stk__log_line *line, double at)
{
    const stk__json_member *m = stk__line_find(line, name);

    return m ? add(report, run, group, m, at, false) : STK_OK;
}

stk_status stk__run_series(stk_report *report, stk__run *run, const stk__log_line *line,
                           const char *event, double at, bool ledger)
{
    stk__json_member inner[STK__SCAN_MEMBERS];
    char group[STK_REPORT_NAME];
    const char *stop;

    for (size_t i = 0; i < line->object->n; i++) {
        const stk__json_member *m = &line->object->members[i];
        size_t n;
        if (is_place(m) || !is_shown(event, m))
            continue;
        if (m->kind == STK__JSON_NUMBER)
            STK_TRY(add(report, run, event, m, at, ledger));
        if (m->kind != STK__JSON_OBJECT ||
            stk__json_scan(m->text, m->text + m->length, inner, STK_COUNT(inner), &n, &stop) !=
                STK__JSON_DONE)
            continue;
        stk__json_member key = {.text = m->key, .length = m->key_length, .kind = STK__JSON_STRING};
        size_t used = strlen(event);
        memcpy(group, event, used + 1);
        if (used + 2 < sizeof group) {
            group[used] = '.';
            stk__json_member_text(&key, group + used + 1, sizeof group - used - 1);
        }
        n = STK_MIN(n, STK_COUNT(inner));
        for (size_t k = 0; k < n; k++)
            STK_TRY(add(report, run, group, &inner[k], at, ledger));
    }
    return STK_OK;
}

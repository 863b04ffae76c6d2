/* SPDX-License-Identifier: Apache-2.0 */
/* The member "machine" of a "run start" -> its facts by name, "cpu.model", as far as they are
 * known. */
#include <stdio.h>

#include "measure/read.h"

#define FACTS_MAX 128
#define VALUE_MAX 1024
#define NAME_MAX  96
#define DEPTH_MAX 4

struct walk {
    stk_report *report;
    stk__run *run;
    stk_report_setting *facts; /* FACTS_MAX */
};

/* The fact is the run's from here on, also where memory is out. */
static stk_status take_fact(struct walk *w, const char *name, const stk__json_member *m)
{
    const size_t size = STK_MIN(m->length + 1, (size_t)VALUE_MAX);
    char *value = stk__alloc(w->report->ctx, size), *key = stk__strdup(w->report->ctx, name);
    stk_report_setting *fact = &w->facts[w->run->out.num_machine++];

    if (value)
        stk__json_member_text(m, value, size);
    fact->key = key;
    fact->value = value;
    return key && value ? STK_OK : STK_ENOMEM;
}

/* "cpu", then "cpu.caches", "cpu.caches.0"; elements count from 0. False: it does not fit. */
static bool name_of(const char *above, const stk__json_member *m, uint64_t i, bool object,
                    char out[NAME_MAX])
{
    const stk__json_member key = {
        .text = m->key, .length = m->key_length, .kind = STK__JSON_STRING};
    const char *dot = *above ? "." : "";
    char own[NAME_MAX];

    if (object)
        stk__json_member_text(&key, own, sizeof own);
    else
        snprintf(own, sizeof own, "%llu", (unsigned long long)i);
    const int n = snprintf(out, NAME_MAX, "%s%s%s", above, dot, own);
    return n > 0 && n < NAME_MAX;
}

static stk_status walk(struct walk *w, const char *name, const stk__json_member *group, int depth)
{
    const bool object = group->kind == STK__JSON_OBJECT;
    stk__json_cursor cursor = {.at = group->text + 1, .end = group->text + group->length};
    stk__json_member m = {0};
    char own[NAME_MAX];
    bool closed = false;

    for (uint64_t i = 0; stk__json_next(&cursor, object, i == 0, &m, &closed) && !closed; i++) {
        if (w->run->out.num_machine == FACTS_MAX || !name_of(name, &m, i, object, own))
            return STK_OK;
        if (m.kind == STK__JSON_OBJECT || m.kind == STK__JSON_ARRAY) {
            if (depth < DEPTH_MAX)
                STK_TRY(walk(w, own, &m, depth + 1));
        } else if (m.kind != STK__JSON_NULL) {
            STK_TRY(take_fact(w, own, &m));
        }
    }
    return STK_OK;
}

stk_status stk__run_machine(stk_report *report, stk__run *run, const stk__json_member *machine)
{
    struct walk w = {report, run, NULL};

    if (machine->kind != STK__JSON_OBJECT || run->out.machine)
        return STK_OK;
    w.facts = stk__calloc(report->ctx, FACTS_MAX, sizeof *w.facts);
    run->out.machine = w.facts;
    if (!w.facts)
        return STK_ENOMEM;
    STK_TRY(walk(&w, "", machine, 0));
    for (uint64_t i = 0; i < run->out.num_machine; i++)
        if (strcmp(w.facts[i].key, "summary") == 0)
            run->out.machine_summary = w.facts[i].value;
    return STK_OK;
}

void stk__run_machine_free(stk_report *report, stk__run *run)
{
    for (uint64_t i = 0; i < run->out.num_machine; i++) {
        stk__free(report->ctx, (char *)run->out.machine[i].key);
        stk__free(report->ctx, (char *)run->out.machine[i].value);
    }
    stk__free(report->ctx, (stk_report_setting *)run->out.machine);
}

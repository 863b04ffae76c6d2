/* SPDX-License-Identifier: Apache-2.0 */
/* "run start" -> what was set, and which run it is. */
#include "measure/read.h"

#include <math.h>

#define SETTINGS_MAX 128
#define VALUE_MAX    1024
#define PARAMS_MAX   8192

static char *text_of(stk_context *ctx, const stk__json_member *m, size_t most)
{
    size_t size = STK_MIN(m->length + 1, most);
    char *text = stk__alloc(ctx, size);

    if (text)
        stk__json_member_text(m, text, size);
    return text;
}

static char *key_of(stk_context *ctx, const stk__json_member *m)
{
    stk__json_member key = {.text = m->key, .length = m->key_length, .kind = STK__JSON_STRING};

    return text_of(ctx, &key, VALUE_MAX);
}

/* The entries of "locals" that are not null, as the published notebook lists them. */
static stk_status take_locals(stk_report *report, stk__run *run, const stk__json_member *locals)
{
    stk__json_member members[SETTINGS_MAX];
    const char *stop;
    size_t n;

    if (locals->kind != STK__JSON_OBJECT ||
        stk__json_scan(locals->text, locals->text + locals->length, members, SETTINGS_MAX, &n,
                       &stop) != STK__JSON_DONE)
        return STK_OK;
    n = STK_MIN(n, SETTINGS_MAX);
    stk_report_setting *settings = stk__calloc(report->ctx, n ? n : 1, sizeof *settings);
    run->out.settings = settings;
    if (!settings)
        return STK_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (members[i].kind == STK__JSON_NULL)
            continue;
        stk_report_setting *s = &settings[run->out.num_settings++];
        s->key = key_of(report->ctx, &members[i]);
        s->value = text_of(report->ctx, &members[i], VALUE_MAX);
        if (!s->key || !s->value)
            return STK_ENOMEM;
    }
    return STK_OK;
}

const char *stk__report_setting_of(const stk_report_run *run, const char *name)
{
    for (uint64_t i = 0; i < run->num_settings; i++) {
        const char *key = run->settings[i].key;
        const char *dot = strrchr(key, '.');
        if (strcmp(key, name) == 0 || (dot && strcmp(dot + 1, name) == 0))
            return run->settings[i].value;
    }
    return NULL;
}

/* A number of the settings; Python's True is 1, and what is not set has `unset`. */
static double setting_number(const stk__run *run, const char *name, double unset)
{
    const char *value = stk__report_setting_of(&run->out, name);

    if (!value)
        return unset;
    if (strcmp(value, "true") == 0)
        return 1;
    stk__json_member m = {.text = value, .length = strlen(value), .kind = STK__JSON_NUMBER};
    int64_t whole;
    return stk__json_member_whole(&m, STK__WHOLE_MAX, &whole) ? (double)whole : NAN;
}

/* The published program's count of samples asked for; it holds where its dataset does not end. */
static double expected_starts(const stk__run *run)
{
    double workers = setting_number(run, "num_workers", 0);
    double prefetch = workers > 0 ? setting_number(run, "prefetch_factor", 2) : 0;
    double epochs = setting_number(run, "num_epochs", NAN);
    double batches = setting_number(run, "num_batches", NAN);

    if (!run->out.published || batches == 0)
        return NAN;
    return run->out.batch_size * (epochs * batches + 1 + (epochs + 1) * workers * prefetch);
}

static void take_number(const stk__log_line *line, const char *key, int64_t *out)
{
    const stk__json_member *m = stk__line_find(line, key);

    if (m && !stk__json_member_whole(m, STK__WHOLE_MAX, out))
        *out = -1;
}

stk_status stk__run_settings(stk_report *report, stk__run *run, const stk__log_line *line)
{
    const stk__json_member *m;

    take_number(line, "rank", &run->out.rank);
    take_number(line, "world_size", &run->out.world_size);
    take_number(line, "setting", &run->out.setting);
    take_number(line, "repeat", &run->out.repeat);
    if ((m = stk__line_find(line, "label")) && m->kind == STK__JSON_STRING &&
        !(run->label = text_of(report->ctx, m, VALUE_MAX)))
        return STK_ENOMEM;
    take_number(line, "rung", &run->out.rung);
    if ((m = stk__line_find(line, "measure")) && m->kind == STK__JSON_STRING &&
        !(run->measure = text_of(report->ctx, m, VALUE_MAX)))
        return STK_ENOMEM;
    if ((m = stk__line_find(line, "data_params")) && m->kind == STK__JSON_STRING &&
        !(run->data_params = text_of(report->ctx, m, PARAMS_MAX)))
        return STK_ENOMEM;
    if ((m = stk__line_find(line, "locals")))
        STK_TRY(take_locals(report, run, m));
    if ((m = stk__line_find(line, "machine")))
        STK_TRY(stk__run_machine(report, run, m));
    run->out.data_params = run->data_params;
    run->out.batch_size = setting_number(run, "batch_size", NAN);
    run->out.num_workers = setting_number(run, "num_workers", run->out.num_settings ? 0 : NAN);
    run->out.expected_starts = expected_starts(run);
    return STK_OK;
}

void stk__settings_free(stk_report *report, stk__run *run)
{
    for (uint64_t i = 0; i < run->out.num_settings; i++) {
        stk__free(report->ctx, (char *)run->out.settings[i].key);
        stk__free(report->ctx, (char *)run->out.settings[i].value);
    }
    stk__free(report->ctx, (stk_report_setting *)run->out.settings);
    stk__run_machine_free(report, run);
    stk__free(report->ctx, run->label);
    stk__free(report->ctx, run->measure);
    stk__free(report->ctx, run->data_params);
}

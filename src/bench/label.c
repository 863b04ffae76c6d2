/* SPDX-License-Identifier: Apache-2.0 */
/* What tells the settings of a plan from one another, in few words; and all of it for the log. */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "bench/plan.h"

/* Where a spec may be cut. */
static bool parts_spec(char c)
{
    return strchr("/:?&", c) != NULL;
}

/*
 * What tells the value `text` of a key from its other values: without the parts that all of them
 * begin and end with, "images:a/train?x=1" and "images:b/train?x=1" are "a" and "b". All of it
 * where one of them would be left with nothing.
 */
static void tell_apart(const stk_config *config, const char *key, const char *text, char *out,
                       size_t size)
{
    const size_t n = stk_config_count(config, key);
    size_t front = strlen(text), back = front, least = front;

    for (size_t i = 0; i < n; i++) {
        const char *other = stk_config_get(config, key, i);
        const size_t length = strlen(other);
        size_t same = 0;
        while (same < front && text[same] == other[same])
            same++;
        front = same;
        for (same = 0; same < back && same < length &&
                       text[strlen(text) - 1 - same] == other[length - 1 - same];)
            same++;
        back = same;
        least = length < least ? length : least;
    }
    while (front > 0 && !parts_spec(text[front - 1]))
        front--;
    while (back > 0 && !parts_spec(text[strlen(text) - back]))
        back--;
    if (front + back >= least)
        front = back = 0;
    snprintf(out, size, "%.*s", (int)(strlen(text) - front - back), text + front);
}

/* Table `i` of a plan, in the order of labels; NULL past the last. */
static const stk_option_table *table_at(size_t i)
{
    static const char *const names[] = {"source", "python", "loader", "bench", "context",
                                        /* Sections of a training, where it is what is measured. */
                                        "recipe.data", "recipe.trainer", "recipe.model",
                                        "recipe.optimizer", "recipe.lr_scheduler", "recipe.module",
                                        "recipe"};

    return i < STK_COUNT(names) ? stk_option_table_find(names[i]) : NULL;
}

static size_t values_of(const stk_bench_plan *plan, const stk_option_table *table, const char *name,
                        char *key, size_t size)
{
    snprintf(key, size, "%s%s%s", table->name, *table->name ? "." : "", name);
    return stk_config_count(plan->config, key);
}

bool stk__bench_given(const stk_bench_plan *plan, const stk_option_table *table, const char *name)
{
    char key[192];

    return values_of(plan, table, name, key, sizeof key) > 0;
}

size_t stk__bench_count_knobs(const stk_bench_plan *plan)
{
    const stk_option_table *table;
    size_t count = 0;
    char key[192];

    for (size_t t = 0; (table = table_at(t)); t++)
        for (size_t i = 0; i < table->count; i++)
            count += values_of(plan, table, table->options[i].name, key, sizeof key) > 1;
    return count;
}

/* Those of one table, into *to and on. */
static stk_status take_table(const stk_bench_plan *plan, const stk_option_table *table,
                             uint64_t which, stk__bench_knob **to, stk_error *err)
{
    void *options = stk__alloc(plan->ctx, table->struct_size);
    stk_status status = STK_OK;
    char key[192];

    if (!options)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the settings");
    stk_options_init(table, options, table->struct_size);
    status = stk_config_apply(plan->config, table, which, options, err);
    for (size_t i = 0; status == STK_OK && i < table->count; i++) {
        const stk_option *option = &table->options[i];
        const char *text = NULL;
        if (values_of(plan, table, option->name, key, sizeof key) < 2)
            continue;
        stk__bench_knob *knob = (*to)++;
        snprintf(knob->name, sizeof knob->name, "%s", option->name);
        if (option->type == STK_OPTION_STRING)
            memcpy(&text, (const char *)options + option->offset, sizeof text);
        if (text)
            tell_apart(plan->config, key, text, knob->value, sizeof knob->value);
        else
            stk_options_format(option, options, knob->value, sizeof knob->value);
    }
    stk__free(plan->ctx, options);
    return status;
}

stk_status stk__bench_take_knobs(const stk_bench_plan *plan, stk__bench_planned *setting,
                                 stk_error *err)
{
    const stk_option_table *table;
    stk__bench_knob *to;

    to = setting->knobs = stk__calloc(plan->ctx, plan->num_knobs + 1, sizeof *to);
    if (!to)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the settings");
    for (size_t t = 0; (table = table_at(t)); t++)
        STK_TRY(take_table(plan, table, setting->setting.which, &to, err));
    return STK_OK;
}

void stk__bench_name_knobs(const stk_bench_plan *plan, const stk__bench_planned *setting,
                           const stk__bench_planned *before, char text[STK_BENCH_LABEL])
{
    stk__text out = {.bytes = text, .room = STK_BENCH_LABEL};

    *text = 0;
    for (size_t i = 0; i < plan->num_knobs; i++) {
        const stk__bench_knob *knob = &setting->knobs[i];
        if (before && strcmp(before->knobs[i].value, knob->value) == 0)
            continue;
        stk__text_add(&out, "%s%s=%s", out.length ? " " : "", knob->name, knob->value);
    }
}

/* ---- What the log says of a setting --------------------------------------------------------- */

/* A value as Python writes it. */
static void put_python(stk__text *out, const stk_option *option, const void *options)
{
    char text[1024];
    const char *string = NULL;

    if (option->type == STK_OPTION_STRING)
        memcpy(&string, (const char *)options + option->offset, sizeof string);
    if (string) {
        stk__text_add(out, "'%s'", string);
        return;
    }
    stk_options_format_json(option, options, text, sizeof text);
    if (option->type == STK_OPTION_BOOL)
        stk__text_add(out, "%s", text[0] == 't' ? "True" : "False");
    else if (text[0] == '"')
        stk__text_add(out, "'%.*s'", (int)strlen(text) - 2, text + 1);
    else
        stk__text_add(out, "%s", strcmp(text, "null") == 0 ? "None" : text);
}

/* All options as JSON; the loader's that were given as the text of a Python dict. */
static void put_options(const stk_bench_plan *plan, const stk__bench_planned *setting,
                        stk__text *json, stk__text *python)
{
    const stk_option_table *bench = &stk__bench_option_table,
                           *python_options = &stk__bench_python_option_table,
                           *loader = stk_option_table_find("loader");

    stk__text_add(json, "{\"dataset\": ");
    stk__text_add_json(json, setting->setting.dataset ? setting->setting.dataset : "");
    for (size_t i = 0; i < bench->count; i++) {
        stk__text_add(json, ", \"%s\": ", bench->options[i].name);
        stk__option_add_json(json, &bench->options[i], &setting->bench);
    }
    for (size_t i = 0; setting->setting.python && i < python_options->count; i++) {
        stk__text_add(json, ", \"%s\": ", python_options->options[i].name);
        stk__option_add_json(json, &python_options->options[i], &setting->python);
    }
    stk__text_add(python, "{");
    for (size_t i = 0; i < loader->count; i++) {
        const stk_option *option = &loader->options[i];
        stk__text_add(json, ", \"%s\": ", option->name);
        stk__option_add_json(json, option, &setting->loader);
        if (!stk__bench_given(plan, loader, option->name))
            continue;
        stk__text_add(python, "%s'%s': ", python->length > 1 ? ", " : "", option->name);
        put_python(python, option, &setting->loader);
    }
    stk__text_add(json, "}");
    stk__text_add(python, "}");
}

stk_status stk__bench_describe(const stk_bench_plan *plan, stk__bench_planned *setting,
                               stk_error *err)
{
    stk__text json = {.ctx = plan->ctx}, python = {.ctx = plan->ctx}, about = {.ctx = plan->ctx};

    put_options(plan, setting, &json, &python);
    if (!json.failed && !python.failed) {
        stk__text_add(&about, "\"data_params\": ");
        stk__text_add_json(&about, python.bytes);
        stk__text_add(&about, ", \"locals\": %s, \"setting\": %" PRIu64 ", \"label\": ", json.bytes,
                      setting->setting.number);
        stk__text_add_json(&about, setting->label);
    }
    if (setting->setting.rung) {
        stk__text_add(&about, ", \"rung\": %" PRIu64 ", \"measure\": ", setting->setting.rung);
        stk__text_add_json(&about, setting->measure);
    }
    const bool failed = json.failed || python.failed || about.failed;
    stk__text_release(&python);
    setting->options_json = json.bytes;
    setting->about = about.bytes;
    setting->setting.options_json = setting->options_json;
    setting->setting.about = setting->about;
    if (!failed)
        return STK_OK;
    return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the settings");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a module of a model adds to its checkpoints: what the model is, for those who have the file
 * alone, and what it is trained with. A run that goes on with something else says so; what shapes
 * tell is refused elsewhere. */
#include <stdio.h>

#include "base/options.h"
#include "train/model_module.h"

enum { KEY = 80, VALUE = 200, COMPARED_TEXT = 240 /* what a plateau compares, in words */ };

typedef void setting_fn(void *user, const char *key, const char *value);

static const char *const of_model[] = {"loss", "delta", "label_smoothing", "ignore_index", NULL};
/* A rate may be changed at will. */
static const char *const of_optimizer[] = {
    "name", "momentum", "dampening", "nesterov", "weight_decay", "beta1", "beta2", "eps", NULL};
static const char *const of_module[] = {"interval", "frequency", NULL};

static bool is_in(const char *const *names, const char *name)
{
    while (names && *names && strcmp(*names, name) != 0)
        names++;
    return !names || *names;
}

static void each_setting(const stk__model_module *self, setting_fn *call, void *user)
{
    const struct {
        const stk_option_table *table;
        const void *options;
        const char *const *names; /* NULL: all */
    } parts[] = {{&stk__model_option_table, &self->model_options, of_model},
                 {&stk__optimizer_option_table, &self->optimizer_options, of_optimizer},
                 {&stk__schedule_option_table, &self->asked, NULL},
                 {&stk__model_module_option_table, &self->options, of_module}};
    char key[KEY], value[VALUE];

    for (size_t i = 0; i < STK_COUNT(parts); i++)
        for (size_t k = 0; k < parts[i].table->count; k++) {
            const stk_option *option = &parts[i].table->options[k];
            if (!is_in(parts[i].names, option->name))
                continue;
            *value = 0;
            stk_options_format(option, parts[i].options, value, sizeof value);
            snprintf(key, sizeof key, "%s.%s", parts[i].table->name, option->name);
            call(user, key, value);
        }
}

static void put_line(void *user, const char *key, const char *value)
{
    stk__text_add(user, "%s %s\n", key, value);
}

static stk_status save_settings(const stk__model_module *self, stk_saver *to, stk_error *err)
{
    stk__text text = {.ctx = self->ctx};

    each_setting(self, put_line, &text);
    const stk_status status =
        text.failed ? stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for settings")
                    : stk_saver_text(to, "settings", text.bytes, err);
    stk__text_release(&text);
    return status;
}

/* ---- What differs ---------------------------------------------------------------------------- */

typedef struct comparison {
    const char *saved; /* lines "key value" */
    stk__text differs;
} comparison;

static void note(stk__text *to, const char *key, const char *was, size_t length, const char *is)
{
    stk__text_add(to, "%s%s was '%.*s' and is '%.*s'", to->length ? "; " : "", key,
                  (int)STK_MIN(length, (size_t)VALUE), was, VALUE, is);
}

/* A key that the checkpoint does not have says nothing. */
static void compare_line(void *user, const char *key, const char *value)
{
    comparison *c = user;
    const size_t length = strlen(key);
    size_t end;

    for (const char *line = c->saved; *line; line += end + (line[end] == '\n')) {
        end = strcspn(line, "\n");
        if (end <= length || strncmp(line, key, length) != 0 || line[length] != ' ')
            continue;
        const char *was = line + length + 1;
        const size_t n = end - length - 1;
        if (n != strlen(value) || strncmp(was, value, n) != 0)
            note(&c->differs, key, was, n, value);
    }
}

/* Of long lists that from the first layer on that is another one. */
static void compare_layers(comparison *c, const char *was, const char *is)
{
    size_t same = 0;

    for (size_t i = 0; was[i] && was[i] == is[i]; i++)
        if (was[i] == ',')
            same = i + 1 + strspn(was + i + 1, " ");
    if (strcmp(was, is) != 0)
        note(&c->differs, same ? "model.layers, at its end," : "model.layers", was + same,
             strlen(was + same), is + same);
}

static void compare_settings(const stk__model_module *self, const stk_restorer *from)
{
    const char *saved = stk_restorer_text(from, "settings");
    const char *layers = stk_restorer_text(from, "layers");
    comparison c = {.saved = saved ? saved : "", .differs = {.ctx = self->ctx}};
    char input[STK__INPUT_TEXT];

    if (layers && self->model)
        compare_layers(&c, layers, stk__model_text(self->model, input));
    each_setting(self, compare_line, &c);
    if (c.differs.length && !c.differs.failed)
        stk__message(self->ctx, STK_MESSAGE_WARNING,
                     "what this run goes on from was trained with other settings: %s",
                     c.differs.bytes);
    stk__text_release(&c.differs);
}

/* ---- The hooks ------------------------------------------------------------------------------- */

/* What a plateau compares, in words. */
static bool compared(const stk__model_module *self, char *text, size_t size)
{
    snprintf(text, size, "'%.200s' (%s)", self->options.monitor, self->asked.mode ? "max" : "min");
    return self->asked.name == STK_SCHEDULE_PLATEAU;
}

stk_status stk__module_on_save(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    const stk__model_module *self = (const stk__model_module *)module;
    char input[STK__INPUT_TEXT], text[COMPARED_TEXT];

    if (compared(self, text, sizeof text))
        STK_TRY(stk_saver_text(at->saver, "monitor", text, err));
    STK_TRY(save_settings(self, at->saver, err));
    if (!self->model)
        return STK_OK;
    const char *layers = stk__model_text(self->model, input);
    STK_TRY(stk_saver_text(at->saver, "layers", layers, err));
    return stk_saver_text(at->saver, "input_shape", input, err);
}

stk_status stk__module_on_load(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    const stk__model_module *self = (const stk__model_module *)module;
    const char *was = stk_restorer_text(at->restorer, "monitor");
    char text[COMPARED_TEXT];

    if (at->task != STK_TASK_FIT)
        return STK_OK;
    compare_settings(self, at->restorer);
    if (!was || !compared(self, text, sizeof text) || strcmp(was, text) == 0)
        return STK_OK;
    return stk__fail_at(
        err, STK_EMISMATCH, STK_STAGE_OPTIONS, "module.monitor", STK_NO_OFFSET,
        "module.monitor: reduce_on_plateau compares %s here, and %.240s in the "
        "checkpoint: its best would be of another metric; go on with module.monitor "
        "and lr_scheduler.mode as they were, or begin anew with its weights "
        "(module.weights)",
        text, was);
}

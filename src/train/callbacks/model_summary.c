/* SPDX-License-Identifier: Apache-2.0 */
/* ModelSummary: the layers and what they weigh, in Lightning's table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/callbacks/callback.h"

enum { COLUMNS = 5, CELL = 96 };

typedef struct summary_options {
    uint32_t struct_size;
    int64_t max_depth;
} summary_options;

typedef struct summary {
    stk_callback base;
    int64_t max_depth;
} summary;

static const stk_option options[] = {
    {"max_depth", STK_OPTION_INT, offsetof(summary_options, max_depth), "1", -1, 100, NULL, "N",
     "Layers within layers to show; -1: all, 0: no summary."},
};

static const stk_option_table table = {.name = "model_summary",
                                       .doc = "Prints the layers.",
                                       .struct_size = sizeof(summary_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    summary *self = stk__callback_new(ctx, &stk__callback_model_summary, sizeof *self);

    if (!self)
        return stk__callback_no_memory("model_summary", err);
    self->max_depth = ((const summary_options *)given)->max_depth;
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

/* 123 -> "123  ", 1234 -> "1.2 K", 101770 -> "101 K" */
static void put_count(char *text, size_t size, double number)
{
    static const char *const units[] = {" ", "K", "M", "B", "T"};
    size_t unit = 0;

    for (; unit + 1 < STK_COUNT(units) && number >= 1000; unit++)
        number /= 1000;
    if (unit == 0 || number >= 100)
        snprintf(text, size, "%.0f %s", floor(number), units[unit]);
    else
        snprintf(text, size, "%.1f %s", number, units[unit]);
}

typedef struct sums {
    double parameters, trainable, bytes, flops;
    uint64_t training, evaluating;
} sums;

static stk_status add_tensor(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                             stk_error *err)
{
    sums *s = user;
    const size_t size = stk_dtype_size(tensor->dtype);
    const double elements = size ? (double)tensor->bytes / (double)size : 0;

    s->parameters += elements;
    s->trainable += kind == STK_STATE_PARAMETER ? elements : 0;
    s->bytes += (double)tensor->bytes;
    return STK_OK;
}

static void fill_row(char cells[COLUMNS][CELL], const stk_layer *layer)
{
    snprintf(cells[0], CELL, "%.60s", layer->name ? layer->name : "");
    snprintf(cells[1], CELL, "%.60s", layer->type ? layer->type : "");
    put_count(cells[2], CELL, (double)layer->parameters);
    snprintf(cells[3], CELL, "%s", layer->training ? "train" : "eval");
    put_count(cells[4], CELL, layer->flops);
}

typedef struct layout {
    int widths[COLUMNS], number;
} layout;

static void widen(layout *l, char cells[COLUMNS][CELL])
{
    for (int i = 0; i < COLUMNS; i++)
        l->widths[i] = STK_MAX(l->widths[i], (int)strlen(cells[i]));
}

static void print_row(stk_trainer *t, const layout *l, const char *number,
                      char cells[COLUMNS][CELL])
{
    char line[COLUMNS * CELL + 64];
    size_t used = (size_t)snprintf(line, sizeof line, "%-*s", l->number, number);

    for (int i = 0; i < COLUMNS && used < sizeof line; i++)
        used +=
            (size_t)snprintf(line + used, sizeof line - used, " | %-*s", l->widths[i], cells[i]);
    stk__callback_say(t, "%s", line);
}

static void print_rule(stk_trainer *t, const layout *l)
{
    char line[COLUMNS * CELL + 64];
    int width = l->number;

    for (int i = 0; i < COLUMNS; i++)
        width += 3 + l->widths[i];
    memset(line, '-', (size_t)width);
    line[width] = 0;
    stk__callback_say(t, "%s", line);
}

static bool shown(const summary *self, const stk_layer *layer)
{
    return self->max_depth < 0 || (int64_t)layer->depth <= self->max_depth;
}

static void print_table(const summary *self, stk_trainer *t, sums *s)
{
    const stk_module_ops *ops = stk_trainer_module_ops(t);
    const stk_module *module = stk_trainer_moment(t)->module;
    char cells[COLUMNS][CELL] = {"Name", "Type", "Params", "Mode", "FLOPs"}, number[16];
    stk_layer layer;
    layout l = {.number = 1};
    uint64_t rows = 0;

    widen(&l, cells);
    for (size_t i = 0; layer = (stk_layer){0}, ops->layer(module, i, &layer); i++) {
        char row[COLUMNS][CELL];
        s->training += layer.training;
        s->evaluating += !layer.training;
        s->flops += layer.depth <= 1 ? layer.flops : 0;
        if (!shown(self, &layer))
            continue;
        fill_row(row, &layer);
        widen(&l, row);
        rows++;
    }
    if (rows == 0)
        return;
    l.number = snprintf(number, sizeof number, "%" PRIu64, rows - 1);
    print_row(t, &l, "", cells);
    print_rule(t, &l);
    rows = 0;
    for (size_t i = 0; layer = (stk_layer){0}, ops->layer(module, i, &layer); i++) {
        if (!shown(self, &layer))
            continue;
        snprintf(number, sizeof number, "%" PRIu64, rows++);
        fill_row(cells, &layer);
        print_row(t, &l, number, cells);
    }
    print_rule(t, &l);
}

static void print_sum(stk_trainer *t, double number, const char *what)
{
    char text[32];

    put_count(text, sizeof text, number);
    stk__callback_say(t, "%-10s%s", text, what);
}

static stk_status on_fit_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    const summary *self = (const summary *)callback;
    const stk_module_ops *ops = stk_trainer_module_ops(t);
    sums s = {0};

    if (self->max_depth == 0)
        return STK_OK;
    if (ops->state)
        STK_TRY(
            ops->state(at->module, STK_STATE_PARAMETER | STK_STATE_FROZEN, add_tensor, &s, err));
    if (!ops->layer && s.parameters == 0)
        return STK_OK;
    if (ops->layer)
        print_table(self, t, &s);
    print_sum(t, s.trainable, "Trainable params");
    print_sum(t, s.parameters - s.trainable, "Non-trainable params");
    print_sum(t, s.parameters, "Total params");
    stk__callback_say(t, "%-10.3fTotal estimated model params size (MB)", s.bytes * 1e-6);
    if (!ops->layer)
        return STK_OK;
    stk__callback_say(t, "%-10" PRIu64 "Modules in train mode", s.training);
    stk__callback_say(t, "%-10" PRIu64 "Modules in eval mode", s.evaluating);
    print_sum(t, s.flops, "Total Flops");
    if (ops->memory)
        stk__callback_say(t, "%-10.3fPeak memory of training (MB)",
                          (double)ops->memory(at->module) * 1e-6);
    return STK_OK;
}

const stk_callback_ops stk__callback_model_summary = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "model_summary",
    .doc = "prints the layers",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .on_fit_start = on_fit_start,
    .roles = STK_ROLE_SUMMARY,
};

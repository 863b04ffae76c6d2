/* SPDX-License-Identifier: Apache-2.0 */
/* ModelSummary: the layers and what they weigh, in Lightning's table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "train/callbacks/callback.h"

enum { COLUMNS = 6, CELL = 96 };

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
     "Parts of the model to show: 1 'layer1', 2 'layer1.0' as well; -1: all, 0: no summary."},
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
    const stk_module *module;
    bool (*whole)(const stk_module *module, stk_state_kind kind, const stk_state_tensor *part,
                  stk_state_tensor *whole, size_t *parameter);
} sums;

static stk_status add_tensor(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                             stk_error *err)
{
    sums *s = user;
    const size_t size = stk_dtype_size(tensor->dtype);
    stk_state_tensor whole = *tensor;
    size_t parameter;

    /* Of several ranks each may have a part. */
    if (s->whole)
        s->whole(s->module, kind, tensor, &whole, &parameter);
    const double elements = size ? (double)whole.bytes / (double)size : 0;
    s->parameters += elements;
    s->trainable += kind == STK_STATE_PARAMETER ? elements : 0;
    s->bytes += (double)whole.bytes;
    return STK_OK;
}

/* A line of the table: a layer, or what has the same first names ("layer1" of "layer1.0.conv1"). */
typedef struct row {
    char name[CELL], type[CELL], shape[CELL]; /* `shape`: of the last output; "" unknown */
    double parameters, flops;
    bool training, evaluating;
} row;

static void fill_row(char cells[COLUMNS][CELL], const row *r)
{
    snprintf(cells[0], CELL, "%s", r->name);
    snprintf(cells[1], CELL, "%s", r->type);
    put_count(cells[2], CELL, r->parameters);
    snprintf(cells[3], CELL, "%s", !r->evaluating ? "train" : r->training ? "mixed" : "eval");
    put_count(cells[4], CELL, r->flops);
    snprintf(cells[5], CELL, "%s", r->shape);
}

typedef struct layout {
    int widths[COLUMNS], number;
    int columns; /* without that of shapes where no layer knows its own */
    uint64_t rows;
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

    for (int i = 0; i < l->columns && used < sizeof line; i++)
        used +=
            (size_t)snprintf(line + used, sizeof line - used, " | %-*s", l->widths[i], cells[i]);
    stk__callback_say(t, "%s", line);
}

static void print_rule(stk_trainer *t, const layout *l)
{
    char line[COLUMNS * CELL + 64];
    int width = l->number;

    for (int i = 0; i < l->columns; i++)
        width += 3 + l->widths[i];
    memset(line, '-', (size_t)width);
    line[width] = 0;
    stk__callback_say(t, "%s", line);
}

/* ---- Layers and what they are parts of ------------------------------------------------------- */

static const char *name_of(const stk_layer *layer)
{
    return layer->name ? layer->name : "";
}

/* Length of the first `depth` names of a dotted one; 0: there are not more than that. */
static size_t prefix_length(const char *name, int64_t depth)
{
    const char *end = strchr(name, '.');

    for (int64_t i = 1; i < depth && end; i++)
        end = strchr(end + 1, '.');
    return end ? (size_t)(end - name) : 0;
}

static bool is_within(const char *name, const char *prefix, size_t length)
{
    return strncmp(name, prefix, length) == 0 && (name[length] == '.' || name[length] == 0);
}

/* "[N, 64, 16, 16]" */
static void put_shape(char *text, size_t size, const stk_layer *layer)
{
    stk__text out = {.bytes = text, .room = size};

    *text = 0;
    if (layer->rank)
        stk__text_add_shape(&out, layer->shape, STK_MIN(layer->rank, (uint32_t)STK_MAX_RANK), true);
}

static void add_layer(row *r, const stk_layer *layer)
{
    put_shape(r->shape, sizeof r->shape, layer);
    r->parameters += (double)layer->parameters;
    r->flops += layer->flops;
    r->training |= layer->training;
    r->evaluating |= !layer->training;
}

typedef void each_row(void *user, const row *r);

typedef struct walk {
    const stk_module_ops *ops;
    const stk_module *module;
    int64_t most; /* names of a row */
    each_row *each;
    void *user;
} walk;

/* From layer `i` on all that is within the first `length` bytes of its name. */
static void walk_part(const walk *w, size_t i, const char *name, size_t length)
{
    stk_layer layer;
    size_t layers = 0;
    row r = {.parameters = 0};

    for (; layer = (stk_layer){0}, w->ops->layer(w->module, i, &layer); i++, layers++) {
        if (!is_within(name_of(&layer), name, length))
            break;
        add_layer(&r, &layer);
    }
    snprintf(r.name, sizeof r.name, "%.*s", (int)STK_MIN(length, (size_t)60), name);
    snprintf(r.type, sizeof r.type, "%zu layers", layers);
    w->each(w->user, &r);
}

/* What layer `i` is a part of, where it is the first of that, and the layer itself. */
static void walk_layer(const walk *w, size_t i, const stk_layer *layer, const char *before)
{
    const char *name = name_of(layer);
    row r = {.parameters = 0};
    size_t length;

    for (int64_t depth = 1; depth <= w->most; depth++) {
        if ((length = prefix_length(name, depth)) == 0)
            break;
        if (!before || !is_within(before, name, length))
            walk_part(w, i, name, length);
    }
    if (prefix_length(name, w->most) || (int64_t)layer->depth > w->most)
        return;
    add_layer(&r, layer);
    snprintf(r.name, sizeof r.name, "%.60s", name);
    snprintf(r.type, sizeof r.type, "%.60s", layer->type ? layer->type : "");
    w->each(w->user, &r);
}

static void walk_all(const walk *w)
{
    char before[256];
    stk_layer layer;

    for (size_t i = 0; layer = (stk_layer){0}, w->ops->layer(w->module, i, &layer); i++) {
        walk_layer(w, i, &layer, i ? before : NULL);
        snprintf(before, sizeof before, "%s", name_of(&layer));
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static void measure_row(void *user, const row *r)
{
    char cells[COLUMNS][CELL];
    layout *l = user;

    fill_row(cells, r);
    widen(l, cells);
    l->rows++;
}

typedef struct printing {
    stk_trainer *trainer;
    const layout *layout;
    uint64_t next;
} printing;

static void print_next(void *user, const row *r)
{
    char cells[COLUMNS][CELL], number[24];
    printing *p = user;

    snprintf(number, sizeof number, "%" PRIu64, p->next++);
    fill_row(cells, r);
    print_row(p->trainer, p->layout, number, cells);
}

static void print_table(const summary *self, stk_trainer *t, sums *s)
{
    char cells[COLUMNS][CELL] = {"Name", "Type", "Params", "Mode", "FLOPs", "Out sizes"};
    char number[24];
    layout l = {.number = 1, .columns = COLUMNS - 1};
    printing p = {.trainer = t, .layout = &l};
    stk_layer layer;
    walk w = {.ops = stk_trainer_module_ops(t),
              .module = stk_trainer_moment(t)->module,
              .most = self->max_depth < 0 ? INT64_MAX : self->max_depth,
              .each = measure_row,
              .user = &l};

    for (size_t i = 0; layer = (stk_layer){0}, w.ops->layer(w.module, i, &layer); i++) {
        s->training += layer.training;
        s->evaluating += !layer.training;
        s->flops += layer.depth <= 1 ? layer.flops : 0;
        l.columns = layer.rank ? COLUMNS : l.columns;
    }
    widen(&l, cells);
    walk_all(&w);
    if (l.rows == 0)
        return;
    l.number = snprintf(number, sizeof number, "%" PRIu64, l.rows - 1);
    print_row(t, &l, "", cells);
    print_rule(t, &l);
    w.each = print_next;
    w.user = &p;
    walk_all(&w);
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
    sums s = {.module = at->module, .whole = ops->whole};

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
    .roles = STK_ROLE_SUMMARY | STK_ROLE_NO_METRICS,
};

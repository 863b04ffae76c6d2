/* SPDX-License-Identifier: Apache-2.0 */
/* SGD, Adam and AdamW, as torch.optim computes them. */
#include <math.h>
#include <stdio.h>

#include "base/lines.h"
#include "base/sized.h"
#include "nn/kernels.h"
#include "nn/ops.h"

#define OFFSET(member) offsetof(stk_optimizer_options, member)

static const stk_option options[] = {
    {"name", STK_OPTION_ENUM, OFFSET(name), "adam", 0, 0, "sgd|adam|adamw", NULL, "Optimizer."},
    {"lr", STK_OPTION_DOUBLE, OFFSET(lr), "0.001", 0, 1e6, NULL, NULL, "Learning rate."},
    {"momentum", STK_OPTION_DOUBLE, OFFSET(momentum), "0", 0, 1, NULL, NULL, "Of sgd."},
    {"dampening", STK_OPTION_DOUBLE, OFFSET(dampening), "0", 0, 1, NULL, NULL,
     "Of the momentum of sgd."},
    {"nesterov", STK_OPTION_BOOL, OFFSET(nesterov), "false", 0, 0, NULL, NULL,
     "Nesterov's momentum, of sgd."},
    {"weight_decay", STK_OPTION_DOUBLE, OFFSET(weight_decay), "-1", -1, 1e6, NULL, NULL,
     "Decay of the weights; negative: PyTorch's default, 0, of adamw 0.01."},
    {"beta1", STK_OPTION_DOUBLE, OFFSET(beta1), "0.9", 0, 1, NULL, NULL,
     "Of adam: how much of the mean gradient stays."},
    {"beta2", STK_OPTION_DOUBLE, OFFSET(beta2), "0.999", 0, 1, NULL, NULL,
     "Of adam: how much of the mean square stays."},
    {"eps", STK_OPTION_DOUBLE, OFFSET(eps), "1e-8", 0, 1, NULL, NULL,
     "Of adam: added to the root."},
};
const stk_option_table stk__optimizer_option_table = {.name = "optimizer",
                                                      .doc =
                                                          "How parameters follow their gradients",
                                                      .struct_size = sizeof(stk_optimizer_options),
                                                      .options = options,
                                                      .count = STK_COUNT(options)};

#define MAX_MOMENTS 2

/* A parameter that learns. */
typedef struct slot {
    uint32_t param, group;
    uint32_t number; /* among those that learn or will */
    stk_shard shard; /* the elements that are stepped */
    char *names[MAX_MOMENTS];
    void *moments[MAX_MOMENTS];
} slot;

typedef struct group {
    double lr, weight_decay;
} group;

struct stk_optimizer {
    struct stk_model *model;
    stk_optimizer_options options;
    uint32_t num_moments;
    int64_t step;
    slot *slots;
    size_t num_slots;
    group *groups;
    size_t num_groups;
    int64_t *begun;        /* of each group: steps that were done before its first */
    stk_shard *shards;     /* of each that learns or will, the part that is stepped; NULL: all */
    bool has_spare;        /* groups that stk__optimizer_spare() gave */
    char *memory;          /* of all moments */
    uint64_t moment_bytes; /* of one of them of all parameters */
};

static uint32_t moments_of(const stk_optimizer_options *o)
{
    return o->name == STK_SGD ? o->momentum != 0 : 2;
}

/* Those that begin to learn later are counted. */
uint64_t stk__optimizer_bytes(const stk_optimizer *o)
{
    return o->num_moments * (o->shards ? o->moment_bytes : o->model->gradient_bytes);
}

static stk_status check_groups(const stk_parameter_group *groups, size_t n, stk_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isnan(groups[i].lr) && !stk__is_rate(groups[i].lr))
            return stk__fail(
                err, STK_EINVAL, STK_STAGE_OPTIONS,
                "optimizer: the learning rate of the group \"%s\" is %g; one is finite "
                "and at least 0",
                groups[i].pattern, groups[i].lr);
    return STK_OK;
}

static stk_status check(const stk_optimizer_options *o, stk_error *err)
{
    bool sgd = o->name == STK_SGD;

    if (!stk__is_rate(o->lr))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "optimizer: a learning rate is finite and at least 0, not %g", o->lr);
    if (!sgd && (o->momentum != 0 || o->dampening != 0 || o->nesterov))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "optimizer: momentum, dampening and nesterov have an effect with sgd "
                         "only; adam has beta1");
    if (o->nesterov && (o->momentum <= 0 || o->dampening != 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "optimizer: nesterov needs a momentum above 0 and no dampening");
    if (o->dampening != 0 && o->momentum == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "optimizer: dampening has an effect with a momentum only");
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && o->eps >= 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "optimizer: beta1 and beta2 are at least 0 and below 1, eps is at least "
                         "0");
    return STK_OK;
}

static slot slot_of(const stk_optimizer *o, uint32_t param, uint32_t number)
{
    slot s = {.param = param, .group = number, .shard = {0, o->model->graph.params[param].count}};

    for (uint32_t i = 0; i < param; i++)
        s.number += stk__model_may_learn(o->model, i);
    if (o->shards)
        s.shard = o->shards[s.number];
    return s;
}

/* Group of each parameter that learns: the first whose pattern matches. */
static stk_status assign(stk_optimizer *o, const stk_parameter_group *groups, stk_error *err)
{
    const stk__graph *g = &o->model->graph;

    for (size_t k = 1; k < o->num_groups; k++) {
        bool found = false;
        for (uint32_t i = 0; i < g->num_params && !found; i++)
            found = g->params[i].trainable &&
                    stk__pattern_match(groups[k - 1].pattern, g->params[i].name);
        if (!found)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "optimizer: no parameter that learns matches the group \"%.100s\"",
                             groups[k - 1].pattern);
    }
    for (uint32_t i = 0; i < g->num_params; i++) {
        if (!g->params[i].trainable)
            continue;
        slot *s = &o->slots[o->num_slots++];
        *s = slot_of(o, i, 0);
        for (size_t k = o->num_groups - 1; k > 0; k--)
            if (stk__pattern_match(groups[k - 1].pattern, g->params[i].name))
                s->group = (uint32_t)k;
    }
    return STK_OK;
}

/* The parts that this process steps, also of what is admitted later. */
static stk_status take_shards(stk_optimizer *o, const stk_shard *shards, size_t n, stk_error *err)
{
    const stk__graph *g = &o->model->graph;
    size_t number = 0;

    for (uint32_t i = 0; i < g->num_params; i++) {
        const uint64_t count = g->params[i].count;
        if (!stk__model_may_learn(o->model, i) || number++ >= n)
            continue;
        const stk_shard *part = &shards[number - 1];
        if (part->from > count || part->count > count - part->from)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "optimizer: a part of '%s' is beyond its %llu elements",
                             g->params[i].name, (unsigned long long)count);
    }
    if (number != n)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "optimizer: %zu parts are given of %zu parameters that learn", n, number);
    o->shards = stk__calloc(g->context, n + 1, sizeof *o->shards);
    if (!o->shards)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
    memcpy(o->shards, shards, n * sizeof *shards);
    return STK_OK;
}

/* Of one moment of all that learn: of parts, or with a place for each gradient. */
static uint64_t needed(const stk_optimizer *o)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < o->num_slots && o->shards; i++)
        bytes +=
            stk__round_up(o->slots[i].shard.count * o->model->backend->itemsize, STK_CACHE_LINE);
    return o->shards ? bytes : o->model->gradient_bytes;
}

/* Parts lie one behind the other, whole moments as the gradients do. */
static stk_status place(stk_optimizer *o, stk_error *err)
{
    static const char *const suffixes[2][MAX_MOMENTS] = {{"momentum_buffer", NULL},
                                                         {"exp_avg", "exp_avg_sq"}};
    stk_context *ctx = o->model->graph.context;
    const size_t itemsize = o->model->backend->itemsize;
    uint64_t next = 0;

    for (size_t i = 0; i < o->num_slots; i++) {
        slot *s = &o->slots[i];
        const stk__param *p = &o->model->graph.params[s->param];
        const uint64_t at = o->shards ? next : p->gradient;
        next += stk__round_up(s->shard.count * itemsize, STK_CACHE_LINE);
        for (uint32_t k = 0; k < o->num_moments; k++) {
            s->moments[k] = o->memory + k * o->moment_bytes + at;
            if (s->names[k])
                continue;
            s->names[k] =
                stk__format(ctx, "%s.%s", p->name, suffixes[o->options.name != STK_SGD][k]);
            if (!s->names[k])
                return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
        }
    }
    return STK_OK;
}

static stk_status take_memory(stk_optimizer *o, stk_error *err)
{
    o->moment_bytes = needed(o);
    const uint64_t bytes = o->moment_bytes * o->num_moments;
    o->memory = stk__alloc_buffer(o->model->graph.context, STK_MAX(bytes, 1u));
    if (!o->memory)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
    memset(o->memory, 0, bytes);
    return STK_OK;
}

stk_status stk_optimizer_create(stk_model *model, const stk_optimizer_options *given,
                                const stk_parameter_group *groups, size_t num_groups,
                                stk_optimizer **out, stk_error *err)
{
    return stk__optimizer_create(model, given, groups, num_groups, NULL, 0, out, err);
}

stk_status stk__optimizer_create(stk_model *model, const stk_optimizer_options *given,
                                 const stk_parameter_group *groups, size_t num_groups,
                                 const stk_shard *shards, size_t num_shards, stk_optimizer **out,
                                 stk_error *err)
{
    STK_TRY(stk__context_check(model->graph.context, err));
    stk_context *ctx = model->graph.context;
    stk_optimizer_options known;
    stk_status status = STK_OK;

    *out = NULL;
    stk_optimizer_options_init(&known);
    if (given)
        STK_TRY(stk__sized_read(&known, sizeof known, given, "stk_optimizer_options",
                                STK_STAGE_TRAIN, err));
    STK_TRY(check(&known, err));
    STK_TRY(check_groups(groups, num_groups, err));
    stk_optimizer *o = stk__calloc(ctx, 1, sizeof *o);
    if (!o)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
    o->model = model;
    o->options = known;
    if (o->options.weight_decay < 0)
        o->options.weight_decay = o->options.name == STK_ADAMW ? 0.01 : 0;
    o->num_moments = moments_of(&known);
    o->num_groups = num_groups + 1;
    o->groups = stk__calloc(ctx, o->num_groups, sizeof *o->groups);
    o->begun = stk__calloc(ctx, o->num_groups, sizeof *o->begun);
    o->slots = stk__calloc(ctx, STK_MAX(model->graph.num_params, 1u), sizeof *o->slots);
    if (!o->groups || !o->begun || !o->slots) {
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
        goto out;
    }
    for (size_t i = 0; i < o->num_groups; i++) {
        o->groups[i] = (group){o->options.lr, o->options.weight_decay};
        if (i > 0 && !isnan(groups[i - 1].lr))
            o->groups[i].lr = groups[i - 1].lr;
        if (i > 0 && !isnan(groups[i - 1].weight_decay))
            o->groups[i].weight_decay = groups[i - 1].weight_decay;
    }
    if (shards)
        status = take_shards(o, shards, num_shards, err);
    if (status == STK_OK)
        status = assign(o, groups, err);
    if (status == STK_OK)
        status = take_memory(o, err);
    if (status == STK_OK)
        status = place(o, err);
out:
    if (status != STK_OK)
        stk_optimizer_destroy(&o);
    *out = o;
    return status;
}

stk_status stk__optimizer_spare(stk_optimizer *o, size_t n, stk_error *err)
{
    stk_context *ctx = o->model->graph.context;
    const size_t all = o->num_groups + n;

    STK_TRY(stk__context_check(ctx, err));
    group *groups = stk__realloc(ctx, o->groups, all * sizeof *groups);
    o->groups = groups ? groups : o->groups;
    int64_t *begun = groups ? stk__realloc(ctx, o->begun, all * sizeof *begun) : NULL;
    if (!begun)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
    o->begun = begun;
    for (; o->num_groups < all; o->num_groups++) {
        o->groups[o->num_groups] = (group){o->options.lr, o->options.weight_decay};
        o->begun[o->num_groups] = 0;
    }
    o->has_spare |= n > 0;
    return STK_OK;
}

static bool has_slot(const stk_optimizer *o, uint32_t param)
{
    for (size_t i = 0; i < o->num_slots; i++)
        if (o->slots[i].param == param)
            return true;
    return false;
}

/* Moments of all that have a place, each with what it had. */
static stk_status grow(stk_optimizer *o, stk_error *err)
{
    stk_context *ctx = o->model->graph.context;
    const uint64_t each = needed(o), bytes = o->num_moments * each;

    if (o->moment_bytes == each)
        return STK_OK;
    char *grown = stk__alloc_buffer(ctx, STK_MAX(bytes, 1u));
    if (!grown)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for an optimizer");
    memset(grown, 0, bytes);
    for (uint32_t k = 0; k < o->num_moments; k++)
        memcpy(grown + k * each, o->memory + k * o->moment_bytes, o->moment_bytes);
    stk__free(ctx, o->memory);
    o->memory = grown;
    o->moment_bytes = each;
    return STK_OK;
}

stk_status stk__optimizer_admit(stk_optimizer *o, size_t number, stk_error *err)
{
    const stk__graph *g = &o->model->graph;
    const size_t before = o->num_slots;

    STK_TRY(stk__context_check(g->context, err));
    for (uint32_t i = 0; i < g->num_params; i++)
        if (g->params[i].trainable && !has_slot(o, i))
            o->slots[o->num_slots++] = slot_of(o, i, (uint32_t)number);
    const stk_status status = grow(o, err);
    if (status != STK_OK) {
        o->num_slots = before;
        return status;
    }
    o->begun[number] = o->step;
    return place(o, err);
}

void stk_optimizer_destroy(stk_optimizer **optimizer)
{
    stk_optimizer *o = *optimizer;

    if (!o)
        return;
    if (stk__context_forked(o->model->graph.context)) {
        *optimizer = NULL;
        return;
    }
    stk_context *ctx = o->model->graph.context;
    for (size_t i = 0; i < o->num_slots; i++)
        for (uint32_t k = 0; k < MAX_MOMENTS; k++)
            stk__free(ctx, o->slots[i].names[k]);
    stk__free(ctx, o->slots);
    stk__free(ctx, o->shards);
    stk__free(ctx, o->groups);
    stk__free(ctx, o->begun);
    stk__free(ctx, o->memory);
    stk__free(ctx, o);
    *optimizer = NULL;
}

/* The update of one tensor. */
typedef struct update {
    const stk__nn_kernels *kernels;
    char *w, *moments[MAX_MOMENTS];
    const char *g;
    stk__adam adam;
    stk__sgd sgd;
    bool is_sgd;
} update;

static void update_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const update *u = argument;
    uint64_t at = from * u->kernels->itemsize;
    char *m = u->moments[0] ? u->moments[0] + at : NULL;

    if (u->is_sgd)
        u->kernels->sgd(u->w + at, u->g + at, m, to - from, &u->sgd);
    else
        u->kernels->adam(u->w + at, u->g + at, m, u->moments[1] + at, to - from, &u->adam);
}

static update update_of(const stk_optimizer *o, const slot *s)
{
    const stk_optimizer_options *x = &o->options;
    const stk__param *p = &o->model->graph.params[s->param];
    const group *g = &o->groups[s->group];
    bool decoupled = x->name == STK_ADAMW;
    const int64_t step = o->step - o->begun[s->group];
    const uint64_t from = s->shard.from * o->model->backend->itemsize;
    double t = (double)step;

    return (update){
        .kernels = o->model->kernels,
        .w = (char *)o->model->weights + p->offset + from,
        .g = (char *)o->model->gradients + p->gradient + from,
        .moments = {s->moments[0], s->moments[1]},
        .is_sgd = x->name == STK_SGD,
        .sgd = {g->lr, x->momentum, x->dampening, g->weight_decay, x->nesterov, step == 1},
        .adam = {.beta1 = x->beta1,
                 .beta2 = x->beta2,
                 .eps = x->eps,
                 .weight_decay = decoupled ? 0 : g->weight_decay,
                 .decay = decoupled ? 1 - g->lr * g->weight_decay : 1,
                 .step_size = g->lr / (1 - pow(x->beta1, t)),
                 .root_correction = 1 / sqrt(1 - pow(x->beta2, t))},
    };
}

stk_status stk_optimizer_step(stk_optimizer *o, stk_error *err)
{
    STK_TRY(stk__context_check(o->model->graph.context, err));
    if (!o->model->has_gradients)
        return STK_OK;
    o->step++;
    const stk__compute before = stk__compute_begin(o->model->threads);
    for (size_t i = 0; i < o->num_slots; i++) {
        update u = update_of(o, &o->slots[i]);
        stk__parallel(o->model->threads, o->slots[i].shard.count, STK__GRAIN, update_body, &u);
    }
    stk__compute_end(&before);
    return STK_OK;
}

size_t stk_optimizer_num_groups(const stk_optimizer *o)
{
    return o->num_groups;
}

double stk_optimizer_get_lr(const stk_optimizer *o, size_t number)
{
    return number < o->num_groups ? o->groups[number].lr : NAN;
}

void stk_optimizer_set_lr(stk_optimizer *o, size_t number, double lr)
{
    if (number < o->num_groups)
        o->groups[number].lr = lr;
}

double stk__optimizer_get_momentum(const stk_optimizer *o)
{
    return o->options.name == STK_SGD ? o->options.momentum : o->options.beta1;
}

double stk__optimizer_get_weight_decay(const stk_optimizer *o, size_t which)
{
    return o->groups[which].weight_decay;
}

/* An SGD without memory for a momentum stays one. */
void stk__optimizer_set_momentum(stk_optimizer *o, double momentum)
{
    if (o->options.name == STK_SGD)
        o->options.momentum = o->num_moments ? momentum : 0;
    else
        o->options.beta1 = momentum;
}

bool stk_optimizer_get_state(stk_optimizer *o, size_t i, stk_state_tensor *out)
{
    size_t moments = o->num_slots * o->num_moments;

    if (i > moments + o->has_spare)
        return false;
    if (i == moments) {
        *out = (stk_state_tensor){
            .name = "step", .dtype = STK_INT64, .data = &o->step, .bytes = sizeof o->step};
        return true;
    }
    if (i > moments) {
        *out = (stk_state_tensor){.name = "begun",
                                  .dtype = STK_INT64,
                                  .rank = 1,
                                  .shape = {(int64_t)o->num_groups},
                                  .data = o->begun,
                                  .bytes = o->num_groups * sizeof *o->begun};
        return true;
    }
    const slot *s = &o->slots[i / o->num_moments];
    stk__param_tensor(o->model, &o->model->graph.params[s->param], s->moments[i % o->num_moments],
                      out);
    out->name = s->names[i % o->num_moments];
    if (o->shards) {
        out->rank = 1;
        out->shape[0] = (int64_t)s->shard.count;
        out->bytes = s->shard.count * stk_dtype_size(out->dtype);
    }
    return true;
}

bool stk__optimizer_whole(const stk_optimizer *o, const stk_state_tensor *part,
                          stk_state_tensor *whole, size_t *number)
{
    for (size_t i = 0; o->shards && i < o->num_slots; i++)
        for (uint32_t k = 0; k < o->num_moments; k++) {
            if (o->slots[i].names[k] != part->name)
                continue;
            stk__param_tensor(o->model, &o->model->graph.params[o->slots[i].param], NULL, whole);
            whole->name = part->name;
            *number = o->slots[i].number;
            return true;
        }
    return false;
}

bool stk__optimizer_is_sound(const stk_optimizer *o)
{
    bool sound = o->step >= 0 && o->step <= (int64_t)STK__MOST_COUNTED;

    for (size_t g = 0; g < o->num_groups; g++)
        sound = sound && o->begun[g] >= 0 && o->begun[g] <= o->step;
    return sound;
}

/* ---- Clipping ---- */

static double norm_of(const struct stk_model *m)
{
    double sum = 0;

    for (uint32_t i = 0; m->has_gradients && i < m->graph.num_params; i++) {
        const stk__param *p = &m->graph.params[i];
        if (p->trainable)
            sum += m->kernels->square_sum((char *)m->gradients + p->gradient, p->count);
    }
    return sqrt(sum);
}

stk_status stk__model_clip_norm(stk_model *m, double max_norm, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    const double scale = max_norm / (norm_of(m) + 1e-6);
    for (uint32_t i = 0; m->has_gradients && scale < 1 && i < m->graph.num_params; i++) {
        const stk__param *p = &m->graph.params[i];
        if (p->trainable)
            stk__scale(m, (char *)m->gradients + p->gradient, p->count, scale);
    }
    return STK_OK;
}

stk_status stk__model_clip_value(stk_model *m, double limit, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    for (uint32_t i = 0; m->has_gradients && i < m->graph.num_params; i++) {
        const stk__param *p = &m->graph.params[i];
        if (p->trainable)
            m->kernels->clamp((char *)m->gradients + p->gradient, p->count, limit);
    }
    return STK_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* EMAWeightAveraging and WeightAveraging: a running mean of the parameters and buffers, or that of
 * all that were looked at; used in validation and put into the model at the end. */
#include <inttypes.h>
#include <stdio.h>

#include "train/callbacks/callback.h"
#include "train/callbacks/copy.h"

typedef struct ema_options {
    uint32_t struct_size;
    double decay;
    int32_t interval; /* of weight_averaging: step, epoch */
    uint64_t update_every_n_steps, update_starting_at_step;
    int64_t update_starting_at_epoch; /* -1: none */
    bool use_buffers;
} ema_options;

typedef struct ema {
    stk_callback base;
    ema_options options;
    stk__copy mean, own; /* `own`: the model's while it has the means */
    stk__copy left;      /* with `cut`: what training leaves, the means with those of the cut */
    stk_trainer *trainer;
    size_t asked; /* for tensors of the means, so far */
    bool swapped;
    bool cut;         /* an epoch was cut short: what goes on does so from `mean` */
    bool resumed;     /* `own` is what a checkpoint kept, and the model has the means */
    uint64_t latest;  /* step of the last update */
    uint64_t updates; /* 0: there are no means yet */
} ema;

/* What has a mean. */
enum { AVERAGED = STK_STATE_PARAMETER | STK_STATE_BUFFER };

/* Of a mean that goes on, in a checkpoint of where an epoch was cut short. */
#define MEAN "mean/"

#define AT(member) offsetof(ema_options, member)

/* Of both. Steps and epochs count from 0, as Lightning's. */
#define UPDATES                                                                                    \
    {"update_every_n_steps",                                                                       \
     STK_OPTION_UINT,                                                                              \
     AT(update_every_n_steps),                                                                     \
     "1",                                                                                          \
     1,                                                                                            \
     1e15,                                                                                         \
     NULL,                                                                                         \
     "N",                                                                                          \
     "Optimizer steps between two updates."},                                                      \
        {"update_starting_at_step",                                                                \
         STK_OPTION_UINT,                                                                          \
         AT(update_starting_at_step),                                                              \
         "0",                                                                                      \
         0,                                                                                        \
         1e15,                                                                                     \
         NULL,                                                                                     \
         "N",                                                                                      \
         "No updates before this step."},                                                          \
        {"update_starting_at_epoch",                                                               \
         STK_OPTION_INT,                                                                           \
         AT(update_starting_at_epoch),                                                             \
         "-1",                                                                                     \
         -1,                                                                                       \
         1e15,                                                                                     \
         NULL,                                                                                     \
         "N",                                                                                      \
         "An update at the end of each epoch, too, from this one on; -1: none."},                  \
    {                                                                                              \
        "use_buffers", STK_OPTION_BOOL, AT(use_buffers), "true", 0, 0, NULL, NULL,                 \
            "The running statistics are means, too; else those of the latest update."              \
    }

static const stk_option options[] = {{"decay", STK_OPTION_DOUBLE, AT(decay), "0.999", 0, 1, NULL,
                                      "X", "Share of the mean that stays at each update."},
                                     UPDATES};

static const stk_option mean_options[] = {
    {"interval", STK_OPTION_ENUM, AT(interval), "step", 0, 0, "step|epoch", NULL,
     "What is averaged: the weights after optimizer steps, or those at the ends of epochs."},
    UPDATES};

static const stk_option_table table = {.name = "ema",
                                       .doc = "Keeps a running mean of the weights.",
                                       .struct_size = sizeof(ema_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static const stk_option_table mean_table = {.name = "weight_averaging",
                                            .doc = "Keeps the mean of all weights there were.",
                                            .struct_size = sizeof(ema_options),
                                            .options = mean_options,
                                            .count = STK_COUNT(mean_options)};

static stk_status create_as(const stk_callback_ops *ops, stk_context *ctx, const void *given,
                            stk_callback **out, stk_error *err)
{
    ema *self = stk__callback_new(ctx, ops, sizeof *self);

    if (!self)
        return stk__callback_no_memory(ops->name, err);
    self->options = *(const ema_options *)given;
    self->mean.ctx = self->own.ctx = self->left.ctx = ctx;
    *out = &self->base;
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    return create_as(&stk__callback_ema, ctx, given, out, err);
}

static stk_status create_mean(stk_context *ctx, const void *given, stk_callback **out,
                              stk_error *err)
{
    return create_as(&stk__callback_weight_averaging, ctx, given, out, err);
}

static bool is_mean(const ema *self)
{
    return self->base.ops == &stk__callback_weight_averaging;
}

static void destroy(stk_callback *callback)
{
    ema *self = (ema *)callback;

    stk__copy_release(&self->mean);
    stk__copy_release(&self->own);
    stk__copy_release(&self->left);
    stk__free(callback->context, self);
}

/* Whether the ends of epochs count, so that one that is cut short leaves other means. */
static bool at_epochs(const ema *self)
{
    return self->options.interval || self->options.update_starting_at_epoch >= 0;
}

/* The means, what is left of them, the model's own while it has them, and all but one of these in a
 * checkpoint. */
static uint64_t copies(const stk_callback *callback, const stk_state_bytes *of, uint64_t *saved)
{
    const uint64_t both = at_epochs((const ema *)callback) ? 2 : 1;

    *saved = both * of->weights;
    return (both + 1) * of->weights;
}

/* ---- In a checkpoint ------------------------------------------------------------------------- */

/* What training would leave now. */
static const stk__copy *means(const ema *self)
{
    return self->cut ? &self->left : &self->mean;
}

/* The checkpoint has it under the parameter's own name. */
static void *average(stk_callback *callback, const char *parameter)
{
    ema *self = (ema *)callback;
    const stk__copy *has = means(self);

    /* They are asked for in the order in which they lie there. */
    for (size_t i = 0; i < has->n; i++) {
        const stk_state_tensor *mean = &has->tensors[self->asked++ % has->n].tensor;
        if (strcmp(mean->name, parameter) == 0)
            return mean->data;
    }
    return NULL;
}

/* A copy of the module's tensors in a checkpoint, on the way there or back. */
typedef struct kept {
    stk__copy *copy;
    const char *prefix;
    size_t next;
    stk_saver *to;
    const stk_restorer *from;
} kept;

static stk_status save_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    kept *k = user;
    char name[512];

    snprintf(name, sizeof name, "%s%s", k->prefix, tensor->name);
    return stk_saver_copy(k->to, name, kind, tensor, k->copy->tensors[k->next++].tensor.data, err);
}

static stk_status save_copy(const ema *self, const stk__copy *copy, const char *prefix,
                            stk_saver *to, stk_error *err)
{
    kept k = {.copy = (stk__copy *)copy, .prefix = prefix, .to = to};

    return stk__copy_visit(self->trainer, AVERAGED, save_one, &k, err);
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    ema *self = (ema *)callback;
    stk__text text = {.ctx = callback->context};

    if (self->updates && !self->swapped)
        STK_TRY(stk__copy_take(&self->own, self->trainer, AVERAGED, err));
    if (self->updates)
        STK_TRY(save_copy(self, &self->own, "", to, err));
    if (self->cut)
        STK_TRY(save_copy(self, &self->mean, MEAN, to, err));
    stk__text_add(&text, "latest %" PRIu64 "\nupdates %" PRIu64 "\ncut %d\n", self->latest,
                  self->updates, self->cut);
    return stk__callback_save_text(to, &text, err);
}

static stk_status load_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    const kept *k = user;
    stk_state_tensor part;
    char name[512];
    void *data;

    snprintf(name, sizeof name, "%s%s", k->prefix, tensor->name);
    stk_restorer_part(k->from, tensor, &part);
    STK_TRY(stk__copy_add(k->copy, kind, &part, &data, err));
    return stk_restorer_copy(k->from, name, tensor, data, err);
}

/* Have a copy of the module's tensors be what the checkpoint keeps of them. */
static stk_status load_copy(const ema *self, stk__copy *copy, const char *prefix,
                            const stk_restorer *from, stk_error *err)
{
    kept k = {.copy = copy, .prefix = prefix, .from = from};

    /* The module is made and not yet loaded: it says names and sizes, and gets its own. */
    return stk__copy_visit(self->trainer, AVERAGED, load_one, &k, err);
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    ema *self = (ema *)callback;
    const char *text = stk_restorer_text(from, "state");
    uint64_t cut = 0;
    const stk__line lines[] = {
        {"latest", STK__LINE_UINT, .to = &self->latest},
        {"updates", STK__LINE_UINT, .to = &self->updates},
        {"cut", STK__LINE_UINT, .to = &cut, .most = 1},
    };

    if (!text)
        return STK_OK;
    STK_TRY(stk__lines_read(callback->context, "the state of the means", text, lines,
                            STK_COUNT(lines), err));
    if (!self->updates)
        return STK_OK;
    self->cut = cut;
    self->resumed = true;
    STK_TRY(load_copy(self, &self->own, "", from, err));
    return self->cut ? load_copy(self, &self->mean, MEAN, from, err) : STK_OK;
}

/* ---- Averaging ------------------------------------------------------------------------------- */

typedef struct averaging {
    const stk__copy *mean;
    size_t next;
    double rest; /* share of the new values */
    bool use_buffers;
} averaging;

/* Counts of batches and the like have no mean: they are the latest. */
static bool has_mean(const averaging *a, stk_state_kind kind, const stk_state_tensor *tensor)
{
    return kind == STK_STATE_PARAMETER ||
           (a->use_buffers && (tensor->dtype == STK_FLOAT32 || tensor->dtype == STK_FLOAT64));
}

static stk_status average_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                              stk_error *err)
{
    averaging *a = user;
    void *mean = a->mean->tensors[a->next++].tensor.data;

    if (!has_mean(a, kind, tensor)) {
        if (tensor->bytes)
            memcpy(mean, tensor->data, (size_t)tensor->bytes);
    } else if (tensor->dtype == STK_FLOAT32) {
        const float *x = tensor->data, rest = (float)a->rest;
        float *m = mean;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            m[i] += rest * (x[i] - m[i]);
    } else if (tensor->dtype == STK_FLOAT64) {
        const double *x = tensor->data, rest = a->rest;
        double *m = mean;
        for (uint64_t i = 0; i < tensor->bytes / sizeof *x; i++)
            m[i] += rest * (x[i] - m[i]);
    } else {
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "parameters of type %s ('%s') cannot be averaged",
                         stk_dtype_name(tensor->dtype), tensor->name);
    }
    return STK_OK;
}

/* Take the weights of this moment into means of which this is the update of that number. */
static stk_status fold(ema *self, stk_trainer *t, const stk__copy *mean, uint64_t number,
                       stk_error *err)
{
    averaging a = {.mean = mean,
                   .rest = is_mean(self) ? 1 / (double)number : 1 - self->options.decay,
                   .use_buffers = self->options.use_buffers};

    if (stk__callback_info(t).host_memory)
        return stk__copy_visit(t, AVERAGED, average_one, &a, err);
    STK_TRY(stk__copy_take(&self->own, t, AVERAGED, err));
    for (size_t i = 0; i < self->own.n; i++)
        STK_TRY(average_one(&a, self->own.tensors[i].kind, &self->own.tensors[i].tensor, err));
    return STK_OK;
}

static stk_status update(ema *self, stk_trainer *t, stk_error *err)
{
    self->latest = stk_trainer_global_step(t);
    if (self->updates++ == 0)
        return stk__copy_take(&self->mean, t, AVERAGED, err);
    return fold(self, t, &self->mean, self->updates, err);
}

/* There was a step since the last update, and the options want one of it. */
static bool is_due(const ema *self, const stk_moment *at)
{
    return at->global_step > self->latest &&
           at->global_step > self->options.update_starting_at_step &&
           (at->global_step - 1) % self->options.update_every_n_steps == 0;
}

/* There is an update at the end of this epoch, besides those of steps. Its validation follows and
 * so looks at what is kept and left; Lightning makes the same update behind that validation. */
static bool wants_epoch(const ema *self, const stk_moment *at)
{
    return at_epochs(self) && (int64_t)at->epoch >= self->options.update_starting_at_epoch;
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    ema *self = (ema *)callback;

    self->cut = false;
    if (!self->options.interval && is_due(self, at))
        STK_TRY(update(self, t, err));
    return at->last_batch && wants_epoch(self, at) ? update(self, t, err) : STK_OK;
}

/*
 * An epoch that was cut short ends with an update, too, as Lightning's does: of what is left and
 * kept, which no earlier file has and no validation saw. A run that goes on does so within the
 * epoch and makes the update at its end.
 */
static stk_status cut_short(ema *self, stk_trainer *t, stk_error *err)
{
    if (!self->updates)
        return STK_OK;
    STK_TRY(stk__copy_take(&self->left, t, AVERAGED, err));
    for (size_t i = 0; i < self->left.n; i++) {
        const stk_state_tensor *from = &self->mean.tensors[i].tensor;
        if (from->bytes)
            memcpy(self->left.tensors[i].tensor.data, from->data, (size_t)from->bytes);
    }
    self->cut = true;
    stk_trainer_weights_changed(t);
    return fold(self, t, &self->left, self->updates + 1, err);
}

/* There was a step behind the last update, in an epoch that ended without its last batch. */
static bool ended_early(const ema *self, const stk_trainer *t, const stk_moment *at)
{
    return !self->cut && stk_trainer_global_step(t) > self->latest && wants_epoch(self, at);
}

static stk_status on_train_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    ema *self = (ema *)callback;

    if (!ended_early(self, t, at))
        return STK_OK;
    if (stk__callback_info(t).cut)
        return cut_short(self, t, err);
    stk_trainer_weights_changed(t);
    return update(self, t, err);
}

/* The model has been loaded by now, with the means. */
static stk_status on_fit_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    ema *self = (ema *)callback;
    const uint64_t step = stk_trainer_global_step(t);

    if (self->latest > step)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "%s: the checkpoint has the means of step %" PRIu64
                         ", and the run is at step %" PRIu64,
                         callback->ops->name, self->latest, step);
    if (!self->resumed)
        return STK_OK;
    self->resumed = false;
    STK_TRY(stk__copy_take(self->cut ? &self->left : &self->mean, t, AVERAGED, err));
    return stk__copy_put(&self->own, t, AVERAGED, err);
}

static stk_status on_validation_epoch_start(stk_callback *callback, stk_trainer *t,
                                            const stk_moment *at, stk_error *err)
{
    ema *self = (ema *)callback;

    if (!self->updates || at->task != STK_TASK_FIT)
        return STK_OK;
    STK_TRY(stk__copy_take(&self->own, t, AVERAGED, err));
    self->swapped = true;
    return stk__copy_put(&self->mean, t, AVERAGED, err);
}

static stk_status swap_back(ema *self, stk_trainer *t, stk_error *err)
{
    if (!self->swapped)
        return STK_OK;
    self->swapped = false;
    return stk__copy_put(&self->own, t, AVERAGED, err);
}

static stk_status on_validation_epoch_end(stk_callback *callback, stk_trainer *t,
                                          const stk_moment *at, stk_error *err)
{
    return swap_back((ema *)callback, t, err);
}

static stk_status on_exception(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    return swap_back((ema *)callback, t, err);
}

static stk_status on_train_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    ema *self = (ema *)callback;

    /* Where nothing was left to train, the cut is that of the run before. */
    if (ended_early(self, t, at))
        STK_TRY(cut_short(self, t, err));
    return self->updates ? stk__copy_put(means(self), t, AVERAGED, err) : STK_OK;
}

static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    ema *self = (ema *)callback;

    if (at->task != STK_TASK_FIT)
        return STK_OK;
    self->trainer = t;
    self->swapped = self->resumed = self->cut = false;
    self->latest = self->updates = 0;
    stk__copy_release(&self->mean);
    stk__copy_release(&self->own);
    stk__copy_release(&self->left);
    return stk_trainer_module_ops(t)->state
               ? STK_OK
               : stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                           "%s: the module has no state, so there is nothing to average",
                           callback->ops->name);
}

/* What both are, but for their names, options and create(). */
#define AVERAGING                                                                                  \
    .struct_size = sizeof(stk_callback_ops), .destroy = destroy, .state_dict = state_dict,         \
    .load_state_dict = load_state_dict, .setup = setup, .on_fit_start = on_fit_start,              \
    .on_train_batch_end = on_train_batch_end, .on_train_epoch_end = on_train_epoch_end,            \
    .on_validation_epoch_start = on_validation_epoch_start,                                        \
    .on_validation_epoch_end = on_validation_epoch_end, .on_train_end = on_train_end,              \
    .on_exception = on_exception, .average = average, .copies = copies

const stk_callback_ops stk__callback_ema = {
    AVERAGING,         .name = "ema",    .doc = "keeps a running mean of the weights",
    .options = &table, .create = create, .roles = STK_ROLE_NO_METRICS,
};

const stk_callback_ops stk__callback_weight_averaging = {
    AVERAGING,
    .name = "weight_averaging",
    .doc = "keeps the mean of all weights there were",
    .options = &mean_table,
    .create = create_mean,
    .roles = STK_ROLE_NO_METRICS,
};

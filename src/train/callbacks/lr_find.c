/* SPDX-License-Identifier: Apache-2.0 */
/* LearningRateFinder: a short training with rising rates, from which the first rate is taken. */
#include <inttypes.h>
#include <math.h>

#include "train/callbacks/callback.h"
#include "train/callbacks/copy.h"

enum { MAX_RATES = 10000, SKIP_BEGIN = 10, SKIP_END = 1, MODE_LINEAR = 1 };
#define SMOOTHING 0.98 /* of the loss, as Lightning's */

typedef struct lr_find_options {
    uint32_t struct_size;
    double min_lr, max_lr;
    uint64_t num_training;
    int32_t mode; /* exponential, linear */
    double early_stop_threshold;
} lr_find_options;

typedef struct lr_find {
    stk_callback base;
    lr_find_options options;
    double found;    /* NaN: none yet */
    uint64_t groups; /* whose rate that is: those that there were, as parts that begin to learn
                        later have rates of their own */
} lr_find;

#define AT(member) offsetof(lr_find_options, member)

static const stk_option options[] = {
    {"min_lr", STK_OPTION_DOUBLE, AT(min_lr), "1e-8", 1e-300, 1e6, NULL, NULL,
     "The first rate that is tried."},
    {"max_lr", STK_OPTION_DOUBLE, AT(max_lr), "1", 1e-300, 1e6, NULL, NULL, "The last one."},
    {"num_training", STK_OPTION_UINT, AT(num_training), "100", 1, MAX_RATES, NULL, "N",
     "Rates that are tried, each for a step of the optimizer."},
    {"mode", STK_OPTION_ENUM, AT(mode), "exponential", 0, 0, "exponential|linear", NULL,
     "How the rate rises."},
    {"early_stop_threshold", STK_OPTION_DOUBLE, AT(early_stop_threshold), "4", 0, 1e300, NULL, "X",
     "End where the loss is so many times the best; 0: never."},
};

static const stk_option_table table = {.name = "lr_find",
                                       .doc = "Finds a learning rate before the training.",
                                       .struct_size = sizeof(lr_find_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const lr_find_options *o = given;

    if (o->max_lr <= o->min_lr)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "max_lr", STK_NO_OFFSET,
                            "lr_find.max_lr: %g is not above min_lr, %g", o->max_lr, o->min_lr);
    lr_find *self = stk__callback_new(ctx, &stk__callback_lr_find, sizeof *self);
    if (!self)
        return stk__callback_no_memory("lr_find", err);
    self->options = *o;
    self->found = NAN;
    *out = &self->base;
    return STK_OK;
}

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    const lr_find *self = (const lr_find *)callback;
    stk__text text = {.ctx = callback->context};

    stk__text_add_double(&text, "found", self->found);
    stk__text_add(&text, "groups %" PRIu64 "\n", self->groups);
    return stk__callback_save_text(to, &text, err);
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    lr_find *self = (lr_find *)callback;
    const char *text = stk_restorer_text(from, "state");
    const stk__line lines[] = {
        {"found", STK__LINE_DOUBLE, .to = &self->found},
        {"groups", STK__LINE_UINT, .to = &self->groups},
    };

    if (!text)
        return STK_OK;
    STK_TRY(stk__lines_read(callback->context, "the state of lr_find", text, lines,
                            STK_COUNT(lines), err));
    return isnan(self->found) || (isfinite(self->found) && self->found > 0)
               ? STK_OK
               : stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                           "the state of lr_find has a rate that is none");
}

/* ---- The suggestion -------------------------------------------------------------------------- */

/* The slope of losses over rates at `i`, as numpy.gradient and torch.gradient have it. */
static double slope_at(const double *lr, const double *loss, size_t n, size_t i)
{
    if (i == 0)
        return (loss[1] - loss[0]) / (lr[1] - lr[0]);
    if (i == n - 1)
        return (loss[i] - loss[i - 1]) / (lr[i] - lr[i - 1]);
    const double before = lr[i] - lr[i - 1], after = lr[i + 1] - lr[i];
    return (before * before * loss[i + 1] + (after * after - before * before) * loss[i] -
            after * after * loss[i - 1]) /
           (before * after * (before + after));
}

/* The rate at which the loss falls steepest, of all but the first ten and the last that are finite;
 * false: fewer than two are. Both lists are used up. */
static bool suggest(double *lr, double *loss, size_t n, double *out)
{
    double steepest = INFINITY;
    size_t kept = 0;

    for (size_t i = SKIP_BEGIN; i + SKIP_END < n; i++)
        if (isfinite(loss[i])) {
            lr[kept] = lr[i];
            loss[kept++] = loss[i];
        }
    if (kept < 2)
        return false;
    for (size_t i = 0; i < kept; i++) {
        const double slope = slope_at(lr, loss, kept, i);
        if (slope < steepest) {
            steepest = slope;
            *out = lr[i];
        }
    }
    return isfinite(steepest);
}

/* ---- The search: another trainer with the same module ---------------------------------------- */

/* What looks on there. */
typedef struct search {
    stk_callback base;
    lr_find_options options;
    double *lr, *loss;
    size_t n;
    double mean, best;
    const stk_trainer *outer;
} search;

/* Of a step, from 0; Lightning leaves out the second. */
static double rate_of(const lr_find_options *o, uint64_t step)
{
    const double share = step ? (double)(step + 1) / (double)o->num_training : 0;

    return o->mode == MODE_LINEAR ? o->min_lr + share * (o->max_lr - o->min_lr)
                                  : o->min_lr * pow(o->max_lr / o->min_lr, share);
}

/* Have the groups step with `lr`, whatever the schedule makes of the rate that it is given: that is
 * a line, and two points say which. */
static stk_status set_rate(const stk_module_ops *ops, stk_module *module, uint32_t groups,
                           double lr, stk_error *err)
{
    const bool has_options = ops->set_option && ops->get_option;
    bool any = false;

    for (uint32_t g = 0; g < STK_MAX(groups, 1u) && has_options; g++) {
        double zero = 0, one = 0;
        /* A group without a rate is of a part that does not learn yet. */
        if (!ops->set_option(module, g, "lr", 0) || !ops->get_option(module, g, "lr", &zero) ||
            !ops->set_option(module, g, "lr", 1) || !ops->get_option(module, g, "lr", &one))
            continue;
        if (one == zero)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "lr_find: the schedule does not start from the optimizer's rate "
                             "(one_cycle with a max_lr of its own: leave that out)");
        any |= ops->set_option(module, g, "lr", (lr - zero) / (one - zero));
    }
    return any ? STK_OK
               : stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                           "lr_find: the module has no learning rate that can be set");
}

static stk_status on_search_batch(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                  stk_error *err)
{
    search *self = (search *)callback;
    const lr_find_options *o = &self->options;

    if (!at->steps || self->n == o->num_training)
        return STK_OK;
    self->lr[self->n] = rate_of(o, self->n);
    return set_rate(stk_trainer_module_ops(t), at->module, stk_trainer_optimizers(t)->num_groups,
                    self->lr[self->n], err);
}

/* Lightning's: a running mean, and the end where it is far above the best. */
static stk_status after_search_batch(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    search *self = (search *)callback;
    double loss = NAN;

    if (!at->steps || self->n == self->options.num_training)
        return STK_OK;
    if (stk__callback_info(self->outer).stopping)
        stk_trainer_stop(t);
    /* A batch without a loss is no part of the mean. */
    if (at->loss->skip) {
        self->loss[self->n++] = NAN;
        return STK_OK;
    }
    STK_TRY(stk_trainer_read_scalar(t, &at->loss->value, &loss, NULL, err));
    const uint64_t step = self->n + 1;
    self->mean = SMOOTHING * self->mean + (1 - SMOOTHING) * loss;
    const double smoothed = self->mean / (1 - pow(SMOOTHING, (double)(step + 1)));
    const double threshold = self->options.early_stop_threshold;
    if (threshold > 0 && step > 1 && smoothed > threshold * self->best)
        stk_trainer_should_stop(t);
    if (smoothed < self->best || isnan(self->best))
        self->best = smoothed;
    self->loss[self->n++] = smoothed;
    return STK_OK;
}

static stk_status search_create(stk_context *ctx, const void *given, stk_callback **out,
                                stk_error *err);

static void search_destroy(stk_callback *callback)
{
    search *self = (search *)callback;

    stk__free(callback->context, self->lr);
    stk__free(callback->context, self->loss);
    stk__free(callback->context, self);
}

static const stk_callback_ops search_ops = {.struct_size = sizeof(stk_callback_ops),
                                            .name = "lr_search",
                                            .doc = "tries learning rates",
                                            .options = &table,
                                            .create = search_create,
                                            .destroy = search_destroy,
                                            .on_train_batch_start = on_search_batch,
                                            .on_train_batch_end = after_search_batch};

static stk_status search_create(stk_context *ctx, const void *given, stk_callback **out,
                                stk_error *err)
{
    search *self = stk__callback_new(ctx, &search_ops, sizeof *self);
    const lr_find_options *o = given;

    if (!self)
        return stk__callback_no_memory("lr_find", err);
    self->options = *o;
    self->best = NAN;
    self->lr = stk__calloc(ctx, (size_t)o->num_training, sizeof *self->lr);
    self->loss = stk__calloc(ctx, (size_t)o->num_training, sizeof *self->loss);
    if (!self->lr || !self->loss) {
        search_destroy(&self->base);
        return stk__callback_no_memory("lr_find", err);
    }
    *out = &self->base;
    return STK_OK;
}

static void no_line(void *user, const char *text)
{
}

/* The module's table without its schedules, for as long as the search lasts. */
typedef struct unscheduled {
    stk_module_ops ops;
    const stk_module_ops *own;
} unscheduled;

static stk_status without_schedules(stk_module *module, stk_trainer *t, stk_optimizers *out,
                                    stk_error *err)
{
    STK_TRY(((const unscheduled *)module->ops)->own->configure_optimizers(module, t, out, err));
    out->num_schedulers = 0;
    return STK_OK;
}

static stk_trainer_options quiet_options(const lr_find *self, const stk_trainer *t)
{
    stk_trainer_options o = *stk_trainer_get_options(t);

    o.struct_size = sizeof o;
    o.max_epochs = -1;
    o.max_steps = (int64_t)self->options.num_training;
    o.min_epochs = o.min_steps = 0;
    o.max_time = NULL;
    o.logger = "false";
    o.num_sanity_val_steps = 0;
    o.enable_checkpointing = o.enable_progress_bar = o.enable_model_summary = STK_SWITCH_FALSE;
    o.nan_policy = STK_NAN_IGNORE;
    return o;
}

static stk_status run_search(const lr_find *self, stk_trainer *t, stk_module *module, bool *found,
                             double *lr, stk_error *err)
{
    const stk_console console = {.struct_size = sizeof console, .line = no_line};
    const stk_trainer_options o = quiet_options(self, t);
    stk_trainer_data data = {.struct_size = sizeof data};
    stk_trainer *inner = NULL;
    stk_callback *added = NULL;

    data.train = stk_trainer_get_data(t)->train;
    STK_TRY(stk_trainer_create(self->base.context, &o, &inner, err));
    stk_trainer_set_console(inner, &console);
    stk_status status = stk_trainer_add_callback(inner, &search_ops, &self->options, &added, err);
    if (status == STK_OK) {
        ((search *)added)->outer = t;
        status = stk_trainer_fit(inner, module, &data, NULL, err);
    }
    if (status == STK_OK) {
        search *s = (search *)added;
        if (s->n < self->options.num_training)
            stk__message(self->base.context, STK_MESSAGE_INFO,
                         "lr_find stopped after %zu steps: the loss left its best", s->n);
        *found = suggest(s->lr, s->loss, s->n, lr);
    }
    stk_trainer_destroy(&inner);
    return status;
}

/* The weights are what they were, and the optimizer is new, whatever came of the search. */
static stk_status search_and_restore(lr_find *self, stk_trainer *t, stk_module *module, bool *found,
                                     stk_error *err)
{
    unscheduled table_of = {.ops = *stk_trainer_module_ops(t), .own = module->ops};
    stk__copy weights = {.ctx = self->base.context};
    stk_optimizers again = {.struct_size = sizeof again};

    table_of.ops.struct_size = sizeof table_of.ops;
    table_of.ops.configure_optimizers = without_schedules;
    stk_status status = stk__copy_take(&weights, t, STK_STATE_WEIGHTS, err);
    if (status != STK_OK) {
        stk__copy_release(&weights);
        return status;
    }
    module->ops = &table_of.ops;
    status = run_search(self, t, module, found, &self->found, err);
    module->ops = table_of.own;
    stk_error later;
    stk_status restored = stk__copy_put(&weights, t, STK_STATE_WEIGHTS, &later);
    if (restored == STK_OK)
        restored = stk_trainer_module_ops(t)->configure_optimizers(module, t, &again, &later);
    stk__copy_release(&weights);
    if (status == STK_OK && restored != STK_OK && err)
        *err = later;
    return status == STK_OK ? restored : status;
}

static stk_status check(const stk_trainer *t, stk_error *err)
{
    const stk_module_ops *ops = stk_trainer_module_ops(t);

    if (stk__callback_info(t).world_size > 1)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "lr_find: it searches in one process; several train together here");
    if (!ops->state || !ops->configure_optimizers)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                         "lr_find: the module has no state() or no configure_optimizers(), so that "
                         "it could not be put back");
    return STK_OK;
}

/* The weights, while it searches. */
static uint64_t copies(const stk_callback *callback, const stk_state_bytes *of, uint64_t *saved)
{
    return of->weights;
}

static stk_status on_fit_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    lr_find *self = (lr_find *)callback;
    const stk_module_ops *ops = stk_trainer_module_ops(t);
    const uint32_t groups = STK_MAX(stk_trainer_optimizers(t)->num_groups, 1u);
    bool found = true;
    double lr;

    if (stk__callback_info(t).fast_dev_run) {
        stk__message(callback->context, STK_MESSAGE_WARNING,
                     "Skipping learning rate finder since `fast_dev_run` is enabled.");
        return STK_OK;
    }
    STK_TRY(check(t, err));
    /* A training that goes on has the optimizer of before. */
    if (isnan(self->found) && stk_trainer_global_step(t) > 0)
        return STK_OK;
    if (isnan(self->found)) {
        STK_TRY(search_and_restore(self, t, at->module, &found, err));
        if (!found) {
            self->found = NAN;
            stk__message(callback->context, STK_MESSAGE_WARNING,
                         "Failed to compute suggestion for learning rate because there are not "
                         "enough points: try more of them (lr_find.num_training). The rate stays.");
            return STK_OK;
        }
        stk__callback_say(t, "Learning rate set to %.17g", self->found);
        for (uint32_t g = 0; g < groups; g++)
            if (ops->get_option(at->module, g, "lr", &lr))
                self->groups = g + 1;
    }
    for (uint32_t g = 0; g < STK_MIN(groups, self->groups); g++)
        ops->set_option(at->module, g, "lr", self->found);
    return STK_OK;
}

const stk_callback_ops stk__callback_lr_find = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "lr_find",
    .doc = "finds a learning rate before the training",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .state_dict = state_dict,
    .load_state_dict = load_state_dict,
    .on_fit_start = on_fit_start,
    .copies = copies,
    .roles = STK_ROLE_NO_METRICS,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* SpikeDetection: ends a training whose loss leaves its running mean. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/callbacks/callback.h"

enum { MAX_WINDOW = 1000 };

typedef struct spike_options {
    uint32_t struct_size;
    const char *monitor;
    int32_t mode; /* min, max */
    uint64_t window, warmup;
    double atol, rtol;
    bool finite_only;
} spike_options;

typedef struct spike {
    stk_callback base;
    spike_options options;
    char *monitor;
    char key[180];
    double values[MAX_WINDOW]; /* ring of the last ones */
    uint64_t n;                /* put so far */
    double last;
} spike;

#define AT(member) offsetof(spike_options, member)

static const stk_option options[] = {
    {"monitor", STK_OPTION_STRING, AT(monitor), "train_loss", 0, 0, NULL, "METRIC",
     "What is looked at after each batch."},
    {"mode", STK_OPTION_ENUM, AT(mode), "min", 0, 0, "min|max", NULL,
     "Whether less or more is better: what is better than the last value is no spike."},
    {"window", STK_OPTION_UINT, AT(window), "10", 1, MAX_WINDOW, NULL, "N",
     "Values that the running mean is of."},
    {"warmup", STK_OPTION_UINT, AT(warmup), "1", 1, 1e15, NULL, "N",
     "Batches of an epoch before the first that is looked at."},
    {"atol", STK_OPTION_DOUBLE, AT(atol), "0", 0, 1e300, NULL, "X",
     "Least difference from the mean that is a spike, ..."},
    {"rtol", STK_OPTION_DOUBLE, AT(rtol), "2", 0, 1e300, NULL, "X",
     "... and the least one as a multiple of the mean."},
    {"finite_only", STK_OPTION_BOOL, AT(finite_only), "true", 0, 0, NULL, NULL,
     "A value that is not finite is a spike; else it is left out."},
};

static const stk_option_table table = {.name = "spike_detection",
                                       .doc = "Ends a training whose loss jumps.",
                                       .struct_size = sizeof(spike_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, ((spike *)callback)->monitor);
    stk__free(callback->context, callback);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const spike_options *o = given;

    if (!o->monitor || !*o->monitor)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "monitor", STK_NO_OFFSET,
                            "spike_detection.monitor: it has to be given, as train_loss");
    spike *self = stk__callback_new(ctx, &stk__callback_spike_detection, sizeof *self);
    if (!self || !stk__callback_text(ctx, o->monitor, &self->monitor)) {
        stk__free(ctx, self);
        return stk__callback_no_memory("spike_detection", err);
    }
    self->options = *o;
    snprintf(self->key, sizeof self->key, "spike_detection(monitor=%.120s,mode=%s)", o->monitor,
             o->mode ? "max" : "min");
    *out = &self->base;
    return STK_OK;
}

/* ---- In a checkpoint ------------------------------------------------------------------------- */

/* Values of another metric are not gone on with. */
static const char *state_key(const stk_callback *callback)
{
    return ((const spike *)callback)->key;
}

static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    const spike *self = (const spike *)callback;
    const stk_state_tensor values = {"values",     STK_FLOAT64,          1,
                                     {MAX_WINDOW}, (void *)self->values, sizeof self->values};
    stk__text text = {.ctx = callback->context};

    STK_TRY(stk_saver_tensor(to, &values, err));
    stk__text_add(&text, "n %" PRIu64 "\n", self->n);
    stk__text_add_double(&text, "last", self->last);
    return stk__callback_save_text(to, &text, err);
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    spike *self = (spike *)callback;
    const char *text = stk_restorer_text(from, "state");
    const stk_state_tensor *values = stk_restorer_tensor(from, "values");
    const stk__line lines[] = {
        {"n", STK__LINE_UINT, .to = &self->n},
        {"last", STK__LINE_DOUBLE, .to = &self->last},
    };

    if (!text || !values)
        return STK_OK;
    if (values->dtype != STK_FLOAT64 || values->bytes != sizeof self->values)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "the state of spike_detection has no %d values", MAX_WINDOW);
    memcpy(self->values, values->data, sizeof self->values);
    return stk__lines_read(callback->context, "the state of spike_detection", text, lines,
                           STK_COUNT(lines), err);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* Of the last values, oldest first, as the window has them. */
static double mean_of(const spike *self)
{
    const uint64_t count = STK_MIN(self->n, self->options.window);
    double sum = 0;

    for (uint64_t i = self->n - count; i < self->n; i++)
        sum += self->values[i % MAX_WINDOW];
    return sum / (double)count;
}

static bool is_spike(const spike *self, double value)
{
    const spike_options *o = &self->options;

    if (!isfinite(value))
        return o->finite_only;
    if (self->n == 0 || (o->mode == 0 ? value <= self->last : value >= self->last))
        return false;
    const double mean = mean_of(self), away = fabs(value - mean);
    return away >= o->atol && away >= fabs(o->rtol * mean);
}

static stk_status no_metric(const spike *self, stk_trainer *t, stk_error *err)
{
    char names[400];

    stk__callback_metric_names(t, names, sizeof names);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "spike_detection.monitor: '%.100s' is not logged after a batch. Available "
                     "metrics are: %s",
                     self->monitor, names);
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    spike *self = (spike *)callback;
    double value, met;

    if (!stk_trainer_metric(t, self->monitor, &value))
        return no_metric(self, t, err);
    met = at->batch_idx >= self->options.warmup && is_spike(self, value);
    STK_TRY(stk_trainer_reduce(t, &met, 1, STK_COMBINE_MAX, err));
    if (met > 0)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN,
                         "Training spike detected in batch %" PRIu64 " of epoch %" PRIu64
                         ": %s is %g, its running mean %g. This batch or the one before it is to "
                         "be left out",
                         at->batch_idx, at->epoch, self->monitor, value,
                         self->n ? mean_of(self) : NAN);
    if (!isfinite(value))
        return STK_OK;
    self->values[self->n++ % MAX_WINDOW] = value;
    self->last = value;
    return STK_OK;
}

static const char *monitored(const stk_callback *callback, uint32_t *flags)
{
    *flags = STK_ON_STEP;
    return ((const spike *)callback)->monitor;
}

const stk_callback_ops stk__callback_spike_detection = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "spike_detection",
    .doc = "ends a training whose loss jumps",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .state_key = state_key,
    .state_dict = state_dict,
    .load_state_dict = load_state_dict,
    .on_train_batch_end = on_train_batch_end,
    .roles = STK_ROLE_NO_METRICS,
    .monitored = monitored,
};

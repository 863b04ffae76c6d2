/* SPDX-License-Identifier: Apache-2.0 */
/* ThroughputMonitor: batches, samples and operations per second over the last batches. */
#include <inttypes.h>

#include <stoker/profiler.h>

#include "train/callbacks/callback.h"

typedef struct throughput_options {
    uint32_t struct_size;
    uint64_t window_size;
    double available_flops;
    const char *machine_dir;
} throughput_options;

/* One batch of the window: when it ended, without validation, and all samples up to then. */
typedef struct mark {
    uint64_t ns, samples;
} mark;

typedef struct throughput {
    stk_callback base;
    uint64_t window;
    mark *marks; /* ring of window + 1 */
    uint64_t n;  /* marks put so far */
    uint64_t begin_ns, samples;
    uint64_t validation_ns, validated_ns; /* when one began, and what all have taken */
    double given;                         /* available_flops */
    char *machine_dir;                    /* NULL: none */
    double available;                     /* of a rank, a second; 0: unknown */
    double flops;                         /* of one sample, forward and backward; 0: unknown */
} throughput;

static const stk_option options[] = {
    {"window_size", STK_OPTION_UINT, offsetof(throughput_options, window_size), "100", 1, 1000000,
     NULL, "N", "Batches the rates are taken over."},
    {"available_flops", STK_OPTION_DOUBLE, offsetof(throughput_options, available_flops), "0", 0,
     1e21, NULL, "N",
     "Operations a second that the machine of a rank can do at most, for device/mfu; 0: the peak "
     "that a profile has measured on it, where there was one."},
    {"machine_dir", STK_OPTION_STRING, offsetof(throughput_options, machine_dir), NULL, 0, 0, NULL,
     "DIR", "Folder that keeps that peak; none: that of the command."},
};

static const stk_option_table table = {.name = "throughput",
                                       .doc = "Logs samples and operations per second.",
                                       .struct_size = sizeof(throughput_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, ((throughput *)callback)->marks);
    stk__free(callback->context, ((throughput *)callback)->machine_dir);
    stk__free(callback->context, callback);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    throughput *self = stk__callback_new(ctx, &stk__callback_throughput, sizeof *self);
    const throughput_options *o = given;

    if (self) {
        self->window = o->window_size;
        self->given = o->available_flops;
        self->machine_dir = o->machine_dir ? stk__strdup(ctx, o->machine_dir) : NULL;
        self->marks = stk__calloc(ctx, (size_t)self->window + 1, sizeof *self->marks);
    }
    if (!self || !self->marks || (o->machine_dir && !self->machine_dir)) {
        if (self)
            destroy(&self->base);
        return stk__callback_no_memory("throughput", err);
    }
    *out = &self->base;
    return STK_OK;
}

/* Looked up, never measured: a training does not wait for it. */
static double available_flops(const throughput *self, stk_trainer *t)
{
    double flops, bytes;

    if (self->given > 0 || !self->machine_dir)
        return self->given;
    const stk_status status =
        stk_profile_kept_peaks(self->base.context, self->machine_dir,
                               stk_trainer_get_options(t)->precision, &flops, &bytes, NULL);
    return status == STK_OK ? flops : 0;
}

static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    throughput *self = (throughput *)callback;
    const stk_module_ops *ops = stk_trainer_module_ops(t);
    stk_layer layer;

    self->n = self->samples = self->validated_ns = 0;
    self->flops = 0;
    for (size_t i = 0; ops->layer && ops->layer(at->module, i, &layer); i++)
        if (layer.depth <= 1)
            self->flops += 3 * layer.flops; /* backward is twice the forward pass */
    self->available = available_flops(self, t);
    self->begin_ns = stk__now_ns();
    self->marks[self->n++] = (mark){self->begin_ns, 0};
    return STK_OK;
}

/* "train/samples_per_sec" of all ranks, "train/device/samples_per_sec" of one. */
static stk_status log_rates(throughput *self, stk_trainer *t, stk_error *err)
{
    const uint64_t span = STK_MIN(self->n - 1, self->window);
    const mark *last = &self->marks[(self->n - 1) % (self->window + 1)];
    const mark *first = &self->marks[(self->n - 1 - span) % (self->window + 1)];
    const double seconds = (double)(last->ns - first->ns) * 1e-9;
    const double own = (double)(last->samples - first->samples);
    const double ranks = (double)stk__callback_info(t).world_size;
    double samples[] = {own, (double)last->samples};
    stk_metric line[12];
    size_t n = 0;

    STK_TRY(stk_trainer_reduce(t, samples, STK_COUNT(samples), STK_COMBINE_SUM, err));
    line[n++] = (stk_metric){"train/time", (double)(last->ns - self->begin_ns) * 1e-9};
    line[n++] = (stk_metric){"train/batches", (double)(self->n - 1)};
    line[n++] = (stk_metric){"train/samples", samples[1]};
    if (seconds > 0) {
        line[n++] = (stk_metric){"train/batches_per_sec", (double)span * ranks / seconds};
        line[n++] = (stk_metric){"train/samples_per_sec", samples[0] / seconds};
        line[n++] = (stk_metric){"train/device/batches_per_sec", (double)span / seconds};
        line[n++] = (stk_metric){"train/device/samples_per_sec", own / seconds};
    }
    if (seconds > 0 && self->flops > 0) {
        const double flops = own * self->flops / seconds;
        line[n++] = (stk_metric){"train/flops_per_sec", samples[0] * self->flops / seconds};
        line[n++] = (stk_metric){"train/device/flops_per_sec", flops};
        if (self->available > 0)
            line[n++] = (stk_metric){"train/device/mfu", flops / self->available};
    }
    return stk_trainer_log_metrics(t, line, n, err);
}

static stk_status on_train_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    throughput *self = (throughput *)callback;

    self->samples += at->batch ? stk_batch_count(at->batch) : 0;
    self->marks[self->n % (self->window + 1)] =
        (mark){stk__now_ns() - self->validated_ns, self->samples};
    self->n++;
    return at->steps && stk__callback_logs(t, at) ? log_rates(self, t, err) : STK_OK;
}

static stk_status on_validation_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                      stk_error *err)
{
    ((throughput *)callback)->validation_ns = stk__now_ns();
    return STK_OK;
}

static stk_status on_validation_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    throughput *self = (throughput *)callback;

    self->validated_ns += stk__now_ns() - self->validation_ns;
    return STK_OK;
}

static const char *logs(stk_callback *callback, stk_trainer *t, size_t i)
{
    static const char *const names[] = {
        "train/time",
        "train/batches",
        "train/samples",
        "train/batches_per_sec",
        "train/samples_per_sec",
        "train/device/batches_per_sec",
        "train/device/samples_per_sec",
        "train/flops_per_sec",
        "train/device/flops_per_sec",
        "train/device/mfu",
    };

    return i < STK_COUNT(names) ? names[i] : NULL;
}

const stk_callback_ops stk__callback_throughput = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "throughput",
    .doc = "logs samples and operations per second",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .on_train_start = on_train_start,
    .on_train_batch_end = on_train_batch_end,
    .on_validation_start = on_validation_start,
    .on_validation_end = on_validation_end,
    .logs = logs,
};

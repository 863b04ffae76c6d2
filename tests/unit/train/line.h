/* A line that several ranks fit, each in a thread, with data that may be late for one of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_LINE_H
#define STK_TESTS_UNIT_TRAIN_LINE_H

#include <sched.h>

#include "unit/train/ranks.h"

enum { GLOBAL = 12, STEPS = 4 };

/* ---- Data that are late ---------------------------------------------------------------------- */

enum { GATE_ROWS = 12, GATE_REDUCES = 16, GATE_SECONDS = 20 };

/* Rows of rank 1 beyond the first stay away until the gate is open. */
static struct {
    atomic_bool closed, late;             /* `late`: it was opened by nobody */
    atomic_uint_fast64_t prepared, steps; /* rows of rank 1; steps of rank 0 */
    ranks *shared;
    _Atomic(stk_trainer *) first;
} gate;

static inline uint64_t reduces_of_first(void)
{
    pthread_mutex_lock(&gate.shared->lock);
    const uint64_t n = gate.shared->reduces[0];
    pthread_mutex_unlock(&gate.shared->lock);
    return n;
}

/* Both ranks have done two steps, and ask each other for the third batch again and again: then rank
 * 0 is asked to stop. */
static inline void wait_at_gate(void)
{
    const uint64_t end = stk__now_ns() + GATE_SECONDS * UINT64_C(1000000000);
    uint64_t base = 0;

    while (atomic_load(&gate.closed) && stk__now_ns() < end) {
        if (!base && atomic_load(&gate.steps) == 2)
            base = reduces_of_first();
        if (base && reduces_of_first() > base + GATE_REDUCES)
            stk_trainer_stop(atomic_load(&gate.first));
        sched_yield();
    }
    if (atomic_exchange(&gate.closed, false))
        atomic_store(&gate.late, true);
}

static inline void gate_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const uint64_t *rank = stk_dataset_self(dataset);

    for (size_t i = 0; i < n; i++) {
        stk_value *value = stk_sample_value(stk_sample_at(samples, i), 0);

        memset(value->out, 0, value->capacity);
        value->data = value->out;
    }
    if (*rank == 1 && atomic_fetch_add(&gate.prepared, n) + n > GATE_ROWS)
        wait_at_gate();
}

static inline void gate_close(stk_dataset *dataset)
{
}

/* The end of the wait opens the gate: what waits behind it is to come back. */
static inline stk_status gate_exception(stk_callback *callback, stk_trainer *t,
                                        const stk_moment *at, stk_error *err)
{
    atomic_store(&gate.closed, false);
    return STK_OK;
}

static inline stk_status gate_create(stk_context *ctx, const void *options, stk_callback **out,
                                     stk_error *err);

static inline void gate_destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops gate_ops = {.struct_size = sizeof gate_ops,
                                          .name = "gate",
                                          .doc = "opens it",
                                          .create = gate_create,
                                          .destroy = gate_destroy,
                                          .on_exception = gate_exception};

static inline stk_status gate_create(stk_context *ctx, const void *options, stk_callback **out,
                                     stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&gate_ops, ctx};
    return STK_OK;
}

/* A line a x + b through what the indices say, in double: its gradient is the mean over the rows.
 */
typedef struct line {
    stk_module base;
    stk_module_ops ops;
    double weights[2], gradients[2], mean; /* `mean`: a buffer, of this rank's rows */
    float more[5], more_gradients[5];      /* of another type */
    double sums[2];
    uint64_t rank, steps, updates, nan_at, skip_at, stop_at, wish_at, fail_at;
    double loss, rows; /* of this step */
    uint64_t ignores;  /* indices that it divides do not count; 0: all count */
    bool far;          /* the host reaches what the device holds by its copies alone */
} line;

static inline stk_status log_line(const line *self, stk_trainer *t, stk_error *err)
{
    const stk_scalar loss = {.data = &self->loss, .weight = &self->rows, .dtype = STK_FLOAT64};

    STK_TRY(stk_trainer_log(t, "rows", self->rows, STK_ON_EPOCH | STK_REDUCE_SUM, 0, err));
    if (self->far) /* no extremes are kept there */
        return stk_trainer_log_scalar(t, "train_loss", &loss, STK_ON_STEP | STK_ON_EPOCH, 0, err);
    STK_TRY(stk_trainer_log_scalar(t, "least", &loss, STK_ON_EPOCH | STK_REDUCE_MIN, 0, err));
    STK_TRY(stk_trainer_log_scalar(t, "most", &loss, STK_ON_EPOCH | STK_REDUCE_MAX, 0, err));
    return stk_trainer_log_scalar(t, "train_loss", &loss, STK_ON_STEP | STK_ON_EPOCH, 0, err);
}

static inline stk_status line_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                                   stk_loss *loss, stk_error *err)
{
    line *self = (line *)module;
    const uint64_t all = stk_batch_count(at->batch);
    stk_tensor index = {.struct_size = sizeof index};
    double n = 0;

    self->steps++;
    if (self->fail_at == self->steps)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "rank %d fails on purpose",
                         (int)self->rank);
    assert_int_equal(stk_batch_find(at->batch, "index", &index), STK_OK);
    self->sums[0] = self->sums[1] = self->loss = 0;
    for (uint64_t i = 0; i < all; i++) {
        const uint64_t number = ((const uint64_t *)index.data)[i];
        const double x = (double)number / TINY_SAMPLES;
        const double error = self->weights[0] * x + self->weights[1] - (3 * x - 1);
        if (self->ignores && number % self->ignores == 0)
            continue;
        n++;
        self->sums[0] += error * x;
        self->sums[1] += error;
        self->loss += 0.5 * error * error;
    }
    self->rows = n;
    for (int i = 0; i < 2; i++)
        self->sums[i] /= n;
    self->loss /= n; /* of no rows no number */
    if (n > 0)
        self->mean = self->loss + (double)self->rank;
    if (self->rank == 0)
        atomic_fetch_add(&gate.steps, 1);
    STK_TRY(log_line(self, t, err));
    if (self->nan_at == self->steps)
        self->loss = NAN;
    loss->value = (stk_scalar){.data = &self->loss, .weight = &self->rows, .dtype = STK_FLOAT64};
    loss->skip = self->skip_at == self->steps;
    if (self->stop_at == self->steps)
        stk_trainer_stop(t);
    if (self->wish_at == self->steps)
        stk_trainer_should_stop(t);
    return STK_OK;
}

static inline stk_status line_backward(stk_module *module, const stk_loss *loss, double scale,
                                       stk_error *err)
{
    line *self = (line *)module;

    for (int i = 0; i < 2; i++)
        self->gradients[i] += scale * self->sums[i];
    for (int i = 0; i < 5; i++)
        self->more_gradients[i] += (float)(scale * (i + 1));
    return STK_OK;
}

static inline stk_status line_update(stk_module *module, const stk_moment *at, stk_error *err)
{
    line *self = (line *)module;

    self->updates++;
    for (int i = 0; i < 2; i++)
        self->weights[i] -= 0.5 * self->gradients[i];
    for (int i = 0; i < 5; i++)
        self->more[i] -= 0.125f * self->more_gradients[i];
    return STK_OK;
}

static inline stk_status line_validate(stk_module *module, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    const line *self = (const line *)module;

    /* The statistics are those of rank 0. */
    return stk_trainer_log(t, "val_loss", self->weights[0] + self->mean - self->mean, 0, 0, err);
}

static inline stk_status line_state(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                                    void *user, stk_error *err)
{
    line *self = (line *)module;
    const struct {
        stk_state_kind kind;
        stk_state_tensor tensor;
    } all[] = {
        {STK_STATE_PARAMETER, {"slope", STK_FLOAT64, 0, {0}, &self->weights[0], 8}},
        {STK_STATE_PARAMETER, {"offset", STK_FLOAT64, 0, {0}, &self->weights[1], 8}},
        {STK_STATE_PARAMETER, {"head", STK_FLOAT32, 1, {2}, &self->more[0], 8}},
        {STK_STATE_PARAMETER, {"tail", STK_FLOAT32, 1, {2}, &self->more[3], 8}},
        {STK_STATE_BUFFER, {"mean", STK_FLOAT64, 0, {0}, &self->mean, 8}},
        {STK_STATE_GRADIENT, {"slope", STK_FLOAT64, 0, {0}, &self->gradients[0], 8}},
        {STK_STATE_GRADIENT, {"offset", STK_FLOAT64, 0, {0}, &self->gradients[1], 8}},
        {STK_STATE_GRADIENT, {"head", STK_FLOAT32, 1, {2}, &self->more_gradients[0], 8}},
        {STK_STATE_GRADIENT, {"tail", STK_FLOAT32, 1, {2}, &self->more_gradients[3], 8}},
    };

    for (size_t i = 0; i < STK_COUNT(all); i++)
        if (kinds & all[i].kind)
            STK_TRY(visit(user, all[i].kind, &all[i].tensor, err));
    return STK_OK;
}

static inline void line_init(line *self, uint64_t number)
{
    *self = (line){.rank = number};
    self->ops = (stk_module_ops){.struct_size = sizeof self->ops,
                                 .name = "Line",
                                 .training_step = line_step,
                                 .backward = line_backward,
                                 .optimizer_step = line_update,
                                 .validation_step = line_validate,
                                 .state = line_state};
    self->base.ops = &self->ops;
    /* Not the same at first: rank 0's are taken. */
    self->weights[0] = 0.25 + (double)number;
}

typedef struct run run;
typedef void prepare_fn(run *one);

/* One rank of a run, and what it came to. */
struct run {
    rank self;
    uint64_t world;
    prepare_fn *prepare, *finish; /* by its thread, before and after all of it */
    const stk_strategy *strategy; /* NULL: threads that meet each other */
    const char *folder, *ckpt_path;
    bench b;
    stk_dataset *data; /* its own, for training; NULL: the bench's */
    line module;
    stk_trainer *t;
    stk_status status;
    stk_error err;
    double loss, rows, least, most, val;
    stk_trainer_times times;
    char log_dir[512], best[512];
    uint64_t lines; /* of the console */
    pthread_t thread;
};

static inline void count_line(void *user, const char *text)
{
    ((run *)user)->lines++;
}

static inline double metric(const run *one, const char *name)
{
    double value = NAN;

    return stk_trainer_metric(one->t, name, &value) ? value : NAN;
}

static inline void *run_rank(void *argument)
{
    run *one = argument;
    bench *b = &one->b;
    const stk_console console = {.struct_size = sizeof console, .line = count_line, .user = one};

    one->self.home = pthread_self();
    b->loader.global_batch_size = GLOBAL;
    b->val_loader.global_batch_size = GLOBAL;
    b->options.max_epochs = 3;
    b->options.logger = "csv";
    b->options.log_every_n_steps = 1;
    b->options.default_root_dir = one->folder;
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    line_init(&one->module, one->self.number);
    if (one->prepare)
        one->prepare(one);
    one->status = stk_trainer_create(b->ctx, &b->options, &one->t, &one->err);
    if (one->status != STK_OK)
        return NULL;
    one->t->host_memory &= !one->module.far;
    stk_trainer_set_console(one->t, &console);
    if (one->self.number == 0)
        atomic_store(&gate.first, one->t);
    assert_ok(stk_trainer_add_callback(one->t, &gate_ops, NULL, NULL, &one->err), &one->err);
    if (one->world > 1) {
        const stk_strategy strategy = ranks_strategy(&one->self);
        one->status =
            stk_trainer_set_strategy(one->t, one->strategy ? one->strategy : &strategy, &one->err);
    }
    if (one->status == STK_OK)
        one->status =
            stk_trainer_fit(one->t, &one->module.base, &b->data, one->ckpt_path, &one->err);
    one->times.struct_size = sizeof one->times;
    stk_trainer_get_times(one->t, &one->times);
    one->loss = metric(one, "train_loss_epoch");
    one->rows = metric(one, "rows");
    one->least = metric(one, "least");
    one->most = metric(one, "most");
    one->val = metric(one, "val_loss");
    snprintf(one->log_dir, sizeof one->log_dir, "%s", stk_trainer_log_dir(one->t));
    const char *best = stk_trainer_best_model_path(one->t);
    snprintf(one->best, sizeof one->best, "%s", best ? best : "");
    stk_trainer_destroy(&one->t);
    if (one->finish)
        one->finish(one);
    return NULL;
}

static inline void run_all(run *all, uint64_t world, const char *folder, const char *ckpt_path,
                           prepare_fn *prepare, ranks *shared)
{
    ranks_init(shared, world);
    gate.shared = shared;
    atomic_store(&gate.steps, 0);
    for (uint64_t i = 0; i < world; i++) {
        all[i] = (run){.self = {shared, i},
                       .world = world,
                       .prepare = prepare,
                       .folder = folder,
                       .ckpt_path = ckpt_path};
        bench_open(&all[i].b);
    }
    for (uint64_t i = 0; i < world; i++)
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_rank, &all[i]), 0);
    for (uint64_t i = 0; i < world; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    for (uint64_t i = 0; i < world; i++) {
        stk_dataset_close(&all[i].data);
        bench_close(&all[i].b);
    }
    ranks_release(shared);
}

static inline void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

#endif

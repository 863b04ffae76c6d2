/* A small module whose tensors lie in the memory of a device that the host cannot touch, and ranks
 * that train it, each a thread, over a library that stands for NCCL. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_FAR_H
#define STK_TESTS_UNIT_TRAIN_FAR_H

#include <dlfcn.h>

#include "base/files.h"
#include "unit/dist/network.h"
#include "unit/train/far_device.h"
#include "unit/train/tiny.h"

#define LIBRARY STUB_FOLDER "/stub_nccl.so"

enum { TENSORS = 8, LAYERS = 3, GLOBAL = 12, EPOCHS = 2, MOMENTS = 2, WIDE = 3 };
enum { MOST_LATER = 4096 }; /* bytes of a bucket */

/* In this order one behind the other, but for a gap before the last. Buckets are c.b with c.w; b.d,
 * of another type; b.b with b.w and a.b, of two layers and in one piece; a.w; a.s, which is too
 * small for a part of every rank. */
static const struct {
    const char *name, *moments[MOMENTS];
    stk_dtype dtype;
    uint64_t count, gap; /* elements; bytes before it */
    int layer;
} tensors[TENSORS] = {
    {"a.s", {"a.s.m", "a.s.v"}, STK_FLOAT64, 1, 0, 0},
    {"a.w", {"a.w.m", "a.w.v"}, STK_FLOAT32, 601, 0, 0},
    {"a.b", {"a.b.m", "a.b.v"}, STK_FLOAT32, 7, 0, 0},
    {"b.w", {"b.w.m", "b.w.v"}, STK_FLOAT32, 900, 0, 1},
    {"b.b", {"b.b.m", "b.b.v"}, STK_FLOAT32, 13, 0, 1},
    {"b.d", {"b.d.m", "b.d.v"}, STK_FLOAT64, 33, 4, 1},
    {"c.w", {"c.w.m", "c.w.v"}, STK_FLOAT32, 257, 0, 2},
    {"c.b", {"c.b.m", "c.b.v"}, STK_FLOAT32, 1, 12, 2},
};

typedef struct far_module {
    stk_module base;
    stk_module_ops ops;
    stk_device *device;
    stk_stream *stream;
    stk_trainer *trainer;
    char *parameters, *gradients; /* of the device */
    uint64_t at[TENSORS], bytes;  /* where a tensor lies there; all of it */
    char *moments[TENSORS][MOMENTS];
    uint64_t moment_bytes; /* by the device's allocator */
    double *numbers;       /* of the device: the loss of a step and its rows; a buffer */
    double rows, xs[GLOBAL];
    const stk_shard *shards;
    bool parted, asks, says; /* it says which layer comes; which gradients are complete */
    bool at_times;           /* it says so in every other step */
    bool wide;               /* all gradients are doubles, twice as far from the first as here; */
    bool mixed;              /* or those of b.w alone */
    uint64_t steps, updates, fails_at, nan_at;
    uint64_t sleeps; /* layer b does not learn before so many updates */
    uint64_t naps;   /* nor in the two behind so many; 0: it does */
    bool lets_fail;  /* what is given back behind a validation fails */
    uint64_t most_gradients, gradients_at_step, parameters_at_step; /* bytes that were there */
} far_module;

typedef struct far_run far_run;
typedef void far_change(far_run *one);

struct far_run {
    network_end end;
    stk_collectives *c;
    uint64_t world, rank;
    const char *strategy, *folder, *ckpt_path;
    far_change *change;
    const stk_callback_ops *callback;
    bool blind; /* its last rank sees no folder of rank 0 */
    double timeout;
    bench b;
    far_module module;
    far_memory *memory;
    char weights[8 << 10], saved[512];
    double loss, val;
    uint64_t there; /* bytes of parameters and gradients, behind the training */
    stk_status status;
};

static stub_library *stub;
static network net;
static stk_device_ops far_ops;

/* ---- The device's side ----------------------------------------------------------------------- */

static inline double far_get(const void *data, stk_dtype dtype, uint64_t i)
{
    return dtype == STK_FLOAT64 ? ((const double *)data)[i] : ((const float *)data)[i];
}

static inline void far_put(void *data, stk_dtype dtype, uint64_t i, double value)
{
    if (dtype == STK_FLOAT64)
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

/* Element j of tensor k is to be a line through a point of its own. */
static inline double far_error(double w, int k, uint64_t j, double x)
{
    return w * x - (double)((j * 37 + (uint64_t)k * 11) % 101) / 101 * (1 + x) + 0.5;
}

static inline uint64_t far_size(int k)
{
    return tensors[k].count * stk_dtype_size(tensors[k].dtype);
}

static inline stk_state_tensor far_gradient(const far_module *m, int k)
{
    const bool wide = m->wide || (m->mixed && k == WIDE);
    const stk_dtype dtype = wide ? STK_FLOAT64 : tensors[k].dtype;

    return (stk_state_tensor){tensors[k].name,
                              dtype,
                              1,
                              {(int64_t)tensors[k].count},
                              m->gradients + m->at[k] * (m->wide || m->mixed ? 2 : 1),
                              tensors[k].count * stk_dtype_size(dtype)};
}

static inline double far_forward(far_module *m, int k)
{
    const char *w = far_reach(m->parameters + m->at[k], far_size(k));
    double sum = 0;

    for (uint64_t j = 0; j < tensors[k].count; j++)
        for (int i = 0; i < m->rows; i++) {
            const double e = far_error(far_get(w, tensors[k].dtype, j), k, j, m->xs[i]);
            sum += 0.5 * e * e;
        }
    return sum;
}

static inline void far_back(far_module *m, int k, double scale)
{
    const char *w = far_reach(m->parameters + m->at[k], far_size(k));
    const stk_state_tensor gradient = far_gradient(m, k);
    char *g = far_reach(gradient.data, gradient.bytes);
    const stk_dtype dtype = tensors[k].dtype;

    for (uint64_t j = 0; j < tensors[k].count; j++) {
        double sum = 0;
        for (int i = 0; i < m->rows; i++)
            sum += far_error(far_get(w, dtype, j), k, j, m->xs[i]) * m->xs[i];
        far_put(g, gradient.dtype, j, far_get(g, gradient.dtype, j) + scale * sum / m->rows);
    }
}

static inline stk_shard far_own_of(const far_module *m, int k)
{
    return m->shards ? m->shards[k] : (stk_shard){0, tensors[k].count};
}

static inline void far_update_one(far_module *m, int k)
{
    const stk_dtype dtype = tensors[k].dtype;
    const stk_shard own = far_own_of(m, k);
    const uint64_t size = stk_dtype_size(dtype), from = m->at[k] + own.from * size;
    char *w = far_reach(m->parameters + from, own.count * size);
    const stk_state_tensor gradient = far_gradient(m, k);
    const uint64_t wide = stk_dtype_size(gradient.dtype);
    const char *g = far_reach((char *)gradient.data + own.from * wide, own.count * wide);
    char *first = far_reach(m->moments[k][0], own.count * size);
    char *second = far_reach(m->moments[k][1], own.count * size);

    for (uint64_t j = 0; j < own.count; j++) {
        const double x = far_get(g, gradient.dtype, j);
        far_put(first, dtype, j, 0.75 * far_get(first, dtype, j) + 0.25 * x);
        far_put(second, dtype, j, 0.9 * far_get(second, dtype, j) + 0.1 * x * x);
        far_put(w, dtype, j,
                far_get(w, dtype, j) -
                    0.05 * far_get(first, dtype, j) / (sqrt(far_get(second, dtype, j)) + 1e-3));
    }
}

/* A tensor has no gradient yet. */
static inline bool far_asleep(const far_module *m, int k)
{
    const bool naps = m->naps && m->updates >= m->naps && m->updates < m->naps + 2;

    return tensors[k].layer == 1 && (naps || m->updates < m->sleeps);
}

/* ---- The module ------------------------------------------------------------------------------ */

static inline stk_state_tensor far_tensor(const far_module *m, int k, char *base)
{
    return (stk_state_tensor){tensors[k].name, tensors[k].dtype, 1, {(int64_t)tensors[k].count},
                              base + m->at[k], far_size(k)};
}

static inline stk_state_tensor far_cut(stk_state_tensor t, stk_shard own, char *data)
{
    t.shape[0] = (int64_t)own.count;
    t.bytes = own.count * stk_dtype_size(t.dtype);
    t.data = data;
    return t;
}

static inline stk_status far_wants(const far_module *m, stk_trainer *t, int layer, stk_error *err)
{
    stk_state_tensor list[TENSORS];
    size_t n = 0;

    for (int k = 0; k < TENSORS; k++)
        if (tensors[k].layer == layer)
            list[n++] = far_tensor(m, k, m->parameters);
    return m->asks ? stk_trainer_parameters_wanted(t, list, n, err) : STK_OK;
}

static inline void far_read(far_module *m, const stk_moment *at)
{
    stk_tensor index = {.struct_size = sizeof index};

    m->rows = (double)stk_batch_count(at->batch);
    if (m->rows > 0)
        assert_int_equal(stk_batch_find(at->batch, "index", &index), STK_OK);
    for (int i = 0; i < m->rows; i++)
        m->xs[i] = (double)(((const uint64_t *)index.data)[i] + 1) / TINY_SAMPLES;
}

static inline stk_status far_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                                  stk_loss *loss, stk_error *err)
{
    far_module *m = (far_module *)module;
    double *numbers = far_reach(m->numbers, 3 * sizeof *numbers);
    double sum = 0;

    m->trainer = t;
    m->asks = m->at_times ? m->steps % 2 : m->asks;
    if (++m->steps == m->fails_at)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "the step failed on purpose");
    far_read(m, at);
    for (int layer = 0; layer < LAYERS; layer++) {
        STK_TRY(far_wants(m, t, layer, err));
        STK_TRY(stub_synchronize(m->stream, err));
        for (int k = 0; k < TENSORS; k++)
            sum += tensors[k].layer == layer ? far_forward(m, k) : 0;
    }
    numbers[0] = m->steps == m->nan_at ? NAN : sum / m->rows;
    numbers[1] = m->rows;
    loss->value = (stk_scalar){NAN, m->numbers, m->numbers + 1, STK_FLOAT64};
    loss->together = m->parted;
    return stk_trainer_log_scalar(t, "train_loss", &loss->value, STK_ON_EPOCH, 0, err);
}

static inline stk_status far_backward(stk_module *module, const stk_loss *loss, double scale,
                                      stk_error *err)
{
    far_module *m = (far_module *)module;

    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        STK_TRY(far_wants(m, m->trainer, layer, err));
        STK_TRY(stub_synchronize(m->stream, err));
        for (int k = 0; k < TENSORS && scale != 0; k++)
            if (tensors[k].layer == layer && !far_asleep(m, k))
                far_back(m, k, scale);
        const uint64_t there = far_present(m->gradients, m->bytes);
        m->most_gradients = STK_MAX(m->most_gradients, there);
        for (int k = TENSORS - 1; k >= 0 && m->says; k--) {
            const stk_state_tensor g = far_gradient(m, k);
            if (tensors[k].layer == layer && !far_asleep(m, k))
                STK_TRY(stk_trainer_gradient_done(m->trainer, &g, err));
        }
    }
    return STK_OK;
}

static inline stk_status far_update(stk_module *module, const stk_moment *at, stk_error *err)
{
    far_module *m = (far_module *)module;

    STK_TRY(stub_synchronize(m->stream, err));
    m->gradients_at_step = far_present(m->gradients, m->bytes);
    m->parameters_at_step = far_present(m->parameters, m->bytes);
    for (int k = 0; k < TENSORS; k++)
        if (!far_asleep(m, k))
            far_update_one(m, k);
    m->updates++;
    return STK_OK;
}

static inline stk_status far_validate(stk_module *module, stk_trainer *t, const stk_moment *at,
                                      stk_error *err)
{
    far_module *m = (far_module *)module;

    double loss = 0;

    STK_TRY(stub_synchronize(m->stream, err));
    far_read(m, at);
    far_own->give_fails_at = m->lets_fail ? far_own->gives + 1 : far_own->give_fails_at;
    for (int k = 0; k < TENSORS; k++)
        loss += far_forward(m, k);
    return stk_trainer_log(t, "val_loss", m->rows > 0 ? loss / m->rows : 0, 0, m->rows, err);
}

static inline stk_status far_state(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                                   void *user, stk_error *err)
{
    far_module *m = (far_module *)module;
    const stk_state_tensor seen = {"seen", STK_FLOAT64, 1, {1}, m->numbers + 2, sizeof(double)};

    if (kinds & STK_STATE_BUFFER)
        STK_TRY(visit(user, STK_STATE_BUFFER, &seen, err));
    for (int k = 0; k < TENSORS; k++) {
        const stk_shard own = far_own_of(m, k);
        const uint64_t size = stk_dtype_size(tensors[k].dtype);
        stk_state_tensor t = far_gradient(m, k);
        if (kinds & STK_STATE_GRADIENT && !far_asleep(m, k))
            STK_TRY(visit(user, STK_STATE_GRADIENT, &t, err));
        t = far_tensor(m, k, m->parameters);
        if (m->parted)
            t = far_cut(t, own, (char *)t.data + own.from * size);
        if (kinds & STK_STATE_PARAMETER)
            STK_TRY(visit(user, STK_STATE_PARAMETER, &t, err));
        for (int i = 0; i < MOMENTS && (kinds & STK_STATE_OPTIMIZER); i++) {
            t = far_cut(t, own, m->moments[k][i]);
            t.name = tensors[k].moments[i];
            STK_TRY(visit(user, STK_STATE_OPTIMIZER, &t, err));
        }
    }
    return STK_OK;
}

static inline stk_status far_shard(stk_module *module, uint32_t kinds, const stk_shard *shards,
                                   size_t n, stk_error *err)
{
    far_module *m = (far_module *)module;

    assert_int_equal(n, TENSORS);
    m->shards = shards;
    m->parted = kinds & STK_STATE_PARAMETER;
    return STK_OK;
}

static inline bool far_whole(const stk_module *module, stk_state_kind kind,
                             const stk_state_tensor *part, stk_state_tensor *whole,
                             size_t *parameter)
{
    const far_module *m = (const far_module *)module;

    for (int k = 0; k < TENSORS; k++) {
        const bool moment =
            part->name == tensors[k].moments[0] || part->name == tensors[k].moments[1];
        const bool own = kind == STK_STATE_OPTIMIZER ? moment && m->shards
                                                     : kind == STK_STATE_PARAMETER && m->parted &&
                                                           part->name == tensors[k].name;
        if (!own)
            continue;
        *whole = *part;
        whole->shape[0] = (int64_t)tensors[k].count;
        whole->bytes = far_size(k);
        *parameter = (size_t)k;
        return true;
    }
    return false;
}

/* Parameters begin as numbers of their own; the other ranks' are not the same at first. */
static inline stk_status far_configure(stk_module *module, const stk_module_setup *setup,
                                       stk_error *err)
{
    far_module *m = (far_module *)module;
    const stk_device_ops *ops = setup->device->ops;
    uint64_t at = 0;

    m->device = setup->device;
    m->stream = setup->stream;
    for (int k = 0; k < TENSORS; k++) {
        at += tensors[k].gap;
        m->at[k] = at;
        at += far_size(k);
    }
    STK_TRY(ops->alloc(m->device, at, (void **)&m->parameters, err));
    STK_TRY(ops->alloc(m->device, m->wide || m->mixed ? 2 * at : at, (void **)&m->gradients, err));
    STK_TRY(ops->alloc(m->device, 3 * sizeof(double), (void **)&m->numbers, err));
    m->bytes = at;
    char *inside = far_reach(m->parameters, at);
    for (int k = 0; k < TENSORS; k++)
        for (uint64_t j = 0; j < tensors[k].count; j++)
            far_put(inside + m->at[k], tensors[k].dtype, j, (double)(j % 17) / 16 - 0.5);
    ((double *)far_reach(m->numbers, 3 * sizeof(double)))[2] = (double)(far_own - far_memories);
    return STK_OK;
}

static inline stk_status far_optimizers(stk_module *module, stk_trainer *t, stk_optimizers *out,
                                        stk_error *err)
{
    far_module *m = (far_module *)module;
    const uint64_t before = far_own->live;

    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < MOMENTS; i++) {
            const uint64_t bytes = far_own_of(m, k).count * stk_dtype_size(tensors[k].dtype);
            STK_TRY(m->device->ops->alloc(m->device, bytes, (void **)&m->moments[k][i], err));
            memset(far_reach(m->moments[k][i], bytes), 0, bytes);
        }
    m->moment_bytes = far_own->live - before;
    out->name = "Adam";
    return STK_OK;
}

static inline void far_init(far_module *m)
{
    *m = (far_module){.asks = true, .says = true};
    m->ops = (stk_module_ops){.struct_size = sizeof m->ops,
                              .name = "Far",
                              .training_step = far_step,
                              .backward = far_backward,
                              .optimizer_step = far_update,
                              .validation_step = far_validate,
                              .state = far_state,
                              .configure_optimizers = far_optimizers,
                              .configure = far_configure,
                              .shard = far_shard,
                              .whole = far_whole};
    m->base.ops = &m->ops;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

static inline void far_join(far_run *one)
{
    stk_collectives_options o;

    stk_collectives_options_init(&o);
    o.nccl = LIBRARY;
    o.collective_timeout = one->timeout;
    network_self = &one->end;
    assert_ok(stk__collectives_join(one->b.ctx, &network_ops, &o, &one->c, &one->b.err),
              &one->b.err);
}

/* The name of a file that is not there. */
static inline stk_status far_broadcast(void *state, void *buffer, uint64_t bytes,
                                       stk_stream *stream, stk_error *err)
{
    const stk_strategy *s = stk_collectives_strategy(state);

    STK_TRY(s->broadcast(state, buffer, bytes, stream, err));
    if (!stream && bytes > 1 && strncmp(buffer, STK__TEMPORARY, strlen(STK__TEMPORARY)) == 0)
        memcpy(buffer, "none", sizeof "none");
    return STK_OK;
}

static inline void far_take_strategy(far_run *one, stk_trainer *t)
{
    stk_strategy s = *stk_collectives_strategy(one->c);

    if (one->blind && one->rank + 1 == one->world)
        s.broadcast = far_broadcast;
    assert_ok(stk_trainer_set_strategy(t, &s, &one->b.err), &one->b.err);
}

/* One rank alone may be one of none. */
static inline bool far_joins(const far_run *one)
{
    return one->world > 1 || strcmp(one->strategy, "auto") != 0;
}

static inline void far_set_up(far_run *one)
{
    bench *b = &one->b;

    bench_open(b);
    stk_dataset_close(&b->dataset);
    /* The last batch of an epoch has one row, and none for most ranks. */
    assert_ok(stk_dataset_open(b->ctx, "synthetic:?size=37&shape=2x2x1", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.global_batch_size = b->val_loader.global_batch_size = GLOBAL;
    b->options.max_epochs = EPOCHS;
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    b->options.default_root_dir = one->folder;
    b->options.accelerator = far_ops.name;
    b->options.strategy = one->strategy;
    assert_ok(stk_driver_add(b->ctx, STK_DRIVER_DEVICE, &far_ops, &b->err), &b->err);
    far_init(&one->module);
    if (one->change)
        one->change(one);
}

/* What it has come to, while the device is open. */
static inline void far_look(far_run *one, stk_trainer *t)
{
    const far_module *m = &one->module;
    const char *saved = stk_trainer_best_model_path(t);

    if (!stk_trainer_metric(t, "train_loss", &one->loss))
        one->loss = NAN;
    if (!stk_trainer_metric(t, "val_loss", &one->val))
        one->val = NAN;
    snprintf(one->saved, sizeof one->saved, "%s", saved ? saved : "");
    assert_true(m->bytes <= sizeof one->weights);
    if (m->bytes)
        one->there = far_present(m->parameters, m->bytes) + far_present(m->gradients, m->bytes);
    for (int k = 0; k < TENSORS && m->bytes; k++)
        memcpy(one->weights + m->at[k], far_reach(m->parameters + m->at[k], far_size(k)),
               far_size(k));
}

static inline void *far_run_rank(void *argument)
{
    far_run *one = argument;
    stk_trainer *t;

    far_own = one->memory = &far_memories[one->rank];
    far_set_up(one);
    if (far_joins(one))
        far_join(one);
    assert_ok(stk_trainer_create(one->b.ctx, &one->b.options, &t, &one->b.err), &one->b.err);
    t->ranks.later = MOST_LATER;
    if (far_joins(one))
        far_take_strategy(one, t);
    if (one->callback)
        assert_ok(stk_trainer_add_callback(t, one->callback, NULL, NULL, &one->b.err), &one->b.err);
    one->status = stk_trainer_fit(t, &one->module.base, &one->b.data, one->ckpt_path, &one->b.err);
    far_look(one, t);
    stk_trainer_destroy(&t);
    if (far_joins(one))
        stk_collectives_close(&one->c);
    bench_close(&one->b);
    return NULL;
}

static far_run far_all[FAR_DEVICES];

/* Run `world` ranks to their end, whatever that is. */
static inline void far_run_world(uint64_t world, const far_run *like)
{
    pthread_t threads[FAR_DEVICES];

    net = (network){.world = world};
    pthread_mutex_init(&net.lock, NULL);
    stub->all_reduces = stub->singles = 0;
    stub->calls = stub->joined = stub->aborted = stub->destroyed = 0;
    far_missing = 0;
    for (uint64_t r = 0; r < world; r++) {
        far_open_memory(&far_memories[r]);
        far_all[r] = *like;
        far_all[r].world = world;
        far_all[r].rank = r;
        far_all[r].end = (network_end){&net, r};
        far_all[r].timeout = like->timeout > 0 ? like->timeout : 60;
    }
    for (uint64_t r = 0; r < world; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, far_run_rank, &far_all[r]), 0);
    for (uint64_t r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (uint64_t r = 0; r < world; r++)
        far_close_memory(&far_memories[r]);
    pthread_mutex_destroy(&net.lock);
}

/* All end well, with the same weights; nobody came to memory that was not there, and sums were made
 * of equal parts alone. */
static inline void far_train(uint64_t world, const far_run *like)
{
    far_run_world(world, like);
    for (uint64_t r = 0; r < world; r++) {
        assert_ok(far_all[r].status, &far_all[r].b.err);
        assert_memory_equal(far_all[r].weights, far_all[0].weights, sizeof far_all[0].weights);
    }
    assert_int_equal(far_missing, 0);
    assert_int_equal(stub->one_sided, 0);
    assert_int_equal(stub->all_reduces + stub->singles, 0);
    assert_true(*far_all[0].saved);
}

static inline bool far_load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    stub = handle ? dlsym(handle, "stub_nccl") : NULL;
    if (!stub) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    stub->reach = far_reach;
    far_ops = far_device();
    stub_ops = &far_ops;
    return true;
}

#endif

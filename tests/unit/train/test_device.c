/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose memory the host cannot touch: the tensors that the module shows lie in pages
 * without access, and only the copies of the device's table reach what is behind them. */
#include <sys/mman.h>
#include <unistd.h>

#include "unit/train/tiny.h"

enum { ROOM = 1 << 16, POOL = 1 << 15 /* from here on what the device allocates */ };

/* The same bytes twice: as the module works on them, and as it shows them. */
static char *inside, *shown;
static uint64_t copies, folds;
static size_t used; /* of the pool */

static void *reach(const void *at)
{
    const char *c = at;

    return c >= shown && c < shown + ROOM ? inside + (c - shown) : (void *)at;
}

static stk_status copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                       stk_copy_kind kind, stk_error *err)
{
    copies++;
    memcpy(reach(to), reach(from), bytes);
    return STK_OK;
}

static stk_status fill(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes, stk_error *err)
{
    memset(reach(to), byte, bytes);
    return STK_OK;
}

static stk_status far_alloc(stk_device *device, uint64_t bytes, void **out, stk_error *err)
{
    *out = shown + POOL + used;
    used += (size_t)(bytes + 255) / 256 * 256;
    assert_true(used <= ROOM - POOL);
    return STK_OK;
}

static void far_free(stk_device *device, void *memory)
{
    assert_true((char *)memory >= shown + POOL && (char *)memory < shown + ROOM);
}

static const stk_device_ops *near_ops;

static stk_status far_fold(stk_stream *stream, double *sums, const stk_scalar *value, double weight,
                           stk_error *err)
{
    stk_scalar here = *value;

    folds++;
    here.data = reach(value->data);
    here.weight = value->weight ? reach(value->weight) : NULL;
    return near_ops->fold(stream, reach(sums), &here, weight, err);
}

typedef struct showing {
    stk_state_visit *visit;
    void *user;
} showing;

static stk_status show_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    const showing *s = user;
    stk_state_tensor far = *tensor;

    far.data = shown + ((char *)tensor->data - inside);
    return s->visit(s->user, kind, &far, err);
}

static stk_status far_state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                            stk_error *err)
{
    showing s = {visit, user};

    return tiny_state(module, kinds, show_one, &s, err);
}

static stk_status far_predict(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                              stk_tensor *prediction, stk_error *err)
{
    STK_TRY(tiny_predict_step(module, trainer, at, prediction, err));
    prediction->data = shown + ((char *)prediction->data - inside);
    return STK_OK;
}

/* What a step comes to stays on the device: a loss and the rows that it is the mean of. */
static double *numbers_of(void)
{
    return (double *)(inside + POOL - 64);
}

static stk_status log_far(stk_trainer *t, const stk_scalar *loss, stk_error *err)
{
    STK_TRY(stk_trainer_log_scalar(t, "loss", loss, STK_ON_STEP | STK_ON_EPOCH, 0, err));
    return stk_trainer_log_scalar(t, "sum", loss, STK_ON_EPOCH | STK_REDUCE_SUM, 0, err);
}

static stk_status far_step(stk_module *module, stk_trainer *t, const stk_moment *at, stk_loss *loss,
                           stk_error *err)
{
    STK_TRY(tiny_training_step(module, t, at, loss, err));
    numbers_of()[0] = loss->value.value;
    numbers_of()[1] = (double)(1 + at->batch_idx % 3);
    loss->value = (stk_scalar){NAN, shown + POOL - 64, shown + POOL - 56, STK_FLOAT64};
    return log_far(t, &loss->value, err);
}

/* The same on the host. */
static stk_status near_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    static double rows;

    STK_TRY(tiny_training_step(module, t, at, loss, err));
    rows = (double)(1 + at->batch_idx % 3);
    return log_far(t, &(stk_scalar){0, &((tiny *)module)->loss, &rows, STK_FLOAT64}, err);
}

static stk_device_ops far_ops;

static void go_far(bench *b, stk_trainer *t, void *user)
{
    near_ops = t->device->ops;
    far_ops = *near_ops;
    far_ops.alloc = far_alloc;
    far_ops.free = far_free;
    far_ops.copy = copy;
    far_ops.fill = fill;
    far_ops.fold = far_fold;
    t->device->ops = &far_ops;
    t->host_memory = false;
}

static void add(bench *b, stk_trainer *t, const char *name)
{
    const stk_driver_head *ops;

    assert_ok(stk_driver_find(b->ctx, STK_DRIVER_CALLBACK, name, &ops, &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, (const stk_callback_ops *)ops, NULL, NULL, &b->err),
              &b->err);
}

static void with_ema(bench *b, stk_trainer *t, void *user)
{
    add(b, t, "ema");
    if (user)
        go_far(b, t, user);
}

static tiny *far_tiny(void)
{
    const int fd = memfd_create("device", MFD_CLOEXEC);

    assert_true(fd >= 0 && ftruncate(fd, ROOM) == 0);
    inside = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shown = mmap(NULL, ROOM, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(inside != MAP_FAILED && shown != MAP_FAILED);
    close(fd);
    used = 0;
    return (tiny *)inside;
}

static void far_release(void)
{
    munmap(inside, ROOM);
    munmap(shown, ROOM);
}

static double metric(stk_trainer *t, const char *name)
{
    double value = NAN;

    return stk_trainer_metric(t, name, &value) ? value : NAN;
}

/* A fit that is interrupted within an accumulation window's epoch and goes on from its file; what
 * it comes to. */
static void fit(tiny *m, bool far, float weights[TINY_SIZE], double sums[2])
{
    stk_trainer *t;
    bench b;

    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.options.gradient_clip_val = 0.5;
    b.options.detect_anomaly = true;
    b.options.nan_policy = STK_NAN_REWIND;
    b.options.accumulate_grad_batches = 2;
    b.options.max_epochs = 2;
    b.prepare = with_ema;
    b.user = far ? &b : NULL;
    for (int again = 0; again < 2; again++) {
        tiny_init(m);
        m->ops.optimizer_zero_grad = NULL;
        m->stop_at = again ? 0 : 13;
        m->nan_at = again ? 0 : 5;
        m->ops.training_step = far ? far_step : near_step;
        if (far)
            m->ops.state = far_state;
        assert_int_equal(bench_fit(&b, m, again ? "last" : NULL, &t),
                         again ? STK_OK : STK_ECANCELED);
        sums[0] = metric(t, "loss_epoch");
        sums[1] = metric(t, "sum");
        stk_trainer_destroy(&t);
    }
    memcpy(weights, m->weight, sizeof m->weight);
    bench_close(&b);
}

static void the_same_as_the_host(void **state)
{
    float here[TINY_SIZE], there[TINY_SIZE];
    double sums[2], far_sums[2];
    tiny host;

    fit(&host, false, here, sums);
    copies = folds = 0;
    fit(far_tiny(), true, there, far_sums);
    assert_true(copies > 0 && folds > 0);
    assert_memory_equal(here, there, sizeof here);
    assert_memory_equal(sums, far_sums, sizeof sums);
    assert_true(isfinite(sums[0]) && isfinite(sums[1]));
    far_release();
}

static uint64_t hash_of(const char *folder)
{
    char command[400], text[200] = "";
    uint64_t hash = 5381;

    snprintf(command, sizeof command, "cat '%s'/predictions/*.npy | cksum", folder);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(text, sizeof text, out));
    pclose(out);
    for (const char *c = text; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    return hash;
}

static uint64_t predict(tiny *m, bool far)
{
    const stk_driver_head *head;
    char dir[300];
    uint64_t room[64];
    stk_trainer *t;
    bench b;

    bench_open(&b);
    tiny_init(m);
    if (far) {
        m->ops.state = far_state;
        m->ops.predict_step = far_predict;
    }
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_driver_find(b.ctx, STK_DRIVER_CALLBACK, "prediction_writer", &head, &b.err),
              &b.err);
    const stk_callback_ops *ops = (const stk_callback_ops *)head;
    stk_options_init(ops->options, room, sizeof room);
    snprintf(dir, sizeof dir, "%s/predictions", b.folder);
    assert_ok(stk_options_set(ops->options, room, "output_dir", dir, &b.err), &b.err);
    assert_ok(stk_trainer_add_callback(t, ops, room, NULL, &b.err), &b.err);
    if (far)
        go_far(&b, t, NULL);
    assert_ok(stk_trainer_predict(t, &m->base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    const uint64_t hash = hash_of(b.folder);
    bench_close(&b);
    return hash;
}

static void predictions(void **state)
{
    tiny host;
    const uint64_t here = predict(&host, false);

    assert_int_equal(predict(far_tiny(), true), here);
    far_release();
}

/* ---- A model of layers ----------------------------------------------------------------------- */

typedef struct outcome {
    double train_loss, val_loss, val_acc, val_acc_topk;
} outcome;

/* Some batches have no row that counts: their loss is no number, and has no weight. */
static outcome learn(bool far, int32_t nan_policy)
{
    static const int64_t shape[] = {1, 28, 28};
    stk_model_builder *builder;
    stk_model_options model;
    stk_module *module;
    stk_trainer *t;
    bench b;

    bench_open(&b);
    stk_dataset_close(&b.dataset);
    assert_ok(stk_dataset_open(b.ctx, "digits:?split=test&subset=0:40", &b.dataset, &b.err),
              &b.err);
    b.train.dataset = b.val.dataset = b.dataset;
    b.loader.batch_size = b.val_loader.batch_size = 1;
    b.loader.transforms = b.val_loader.transforms = "layout(chw), to_float";
    assert_ok(stk_model_builder_create(b.ctx, shape, 3, &builder, &b.err), &b.err);
    assert_ok(stk_model_builder_add(builder, "flatten, linear(10)", &b.err), &b.err);
    stk_model_options_init(&model);
    model.top_k = 3;
    model.ignore_index = 3;
    const stk_model_parts parts = {
        .struct_size = sizeof parts, .builder = builder, .model = &model};
    assert_ok(stk_model_module_create(b.ctx, &parts, &module, &b.err), &b.err);
    b.options.precision = "64-true";
    b.options.max_epochs = 2;
    b.options.gradient_clip_val = 0.5;
    b.options.nan_policy = nan_policy;
    b.options.log_every_n_steps = 7;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    if (far)
        go_far(&b, t, NULL);
    assert_ok(stk_trainer_fit(t, module, &b.data, NULL, &b.err), &b.err);
    const outcome out = {metric(t, "train_loss"), metric(t, "val_loss"), metric(t, "val_acc"),
                         metric(t, "val_acc_topk")};
    stk_module_destroy(&module);
    stk_trainer_destroy(&t);
    stk_model_builder_destroy(&builder);
    bench_close(&b);
    return out;
}

static void layers(void **state)
{
    const outcome here = learn(false, STK_NAN_SKIP);

    assert_true(here.val_acc > 0.1 && here.val_acc_topk > here.val_acc && isfinite(here.val_loss));
    /* A mean of no rows is no failure either. */
    assert_true(isfinite(learn(false, STK_NAN_STOP).val_loss));
    far_tiny();
    copies = folds = 0;
    const outcome there = learn(true, STK_NAN_SKIP);
    assert_true(folds > 0);
    assert_true(isfinite(here.train_loss));
    assert_memory_equal(&there, &here, sizeof here);
    far_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_the_host),
        cmocka_unit_test(predictions),
        cmocka_unit_test(layers),
    };

    return cmocka_run_group_tests_name("train/device", tests, NULL, NULL);
}

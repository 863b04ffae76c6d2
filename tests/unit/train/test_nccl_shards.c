/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share out a training whose tensors lie on devices (ZeRO), over a library that stands
 * for NCCL: the bits of ddp, what one rank comes to, and checkpoints that any of them goes on from.
 */
#include "support/same_checkpoint.h"
#include "train/callbacks/callback.h"
#include "unit/train/far.h"

#define WITHIN  "%s/within.safetensors"
#define WEIGHTS "%s/weights.safetensors"

static const char *const sharing[] = {"zero_1", "zero_2", "zero_3"};

/* ---- Bits ------------------------------------------------------------------------------------ */

static void as_by_ddp(uint64_t world, far_change *change, const stk_callback_ops *callback)
{
    far_run like = {.change = change, .callback = callback};
    char folders[2][256], weights[sizeof like.weights], saved[512];

    test_folder(folders[0]);
    like.folder = folders[0];
    like.strategy = "ddp";
    far_train(world, &like);
    memcpy(weights, far_all[0].weights, sizeof weights);
    memcpy(saved, far_all[0].saved, sizeof saved);
    const double loss = far_all[0].loss, val = far_all[0].val;
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        test_folder(folders[1]);
        like.folder = folders[1];
        like.strategy = sharing[i];
        far_train(world, &like);
        assert_memory_equal(weights, far_all[0].weights, sizeof weights);
        assert_true(loss == far_all[0].loss && val == far_all[0].val && isfinite(loss + val));
        assert_same_checkpoints(saved, far_all[0].saved);
        test_folder_remove(folders[1]);
    }
    test_folder_remove(folders[0]);
}

/* A bound that the gradients are far beyond. */
static void clips(far_run *one)
{
    one->b.options.gradient_clip_val = 0.5;
}

static void clips_values(far_run *one)
{
    one->b.options.gradient_clip_val = 0.01;
    one->b.options.gradient_clip_algorithm = STK_CLIP_VALUE;
}

static void accumulates(far_run *one)
{
    clips(one);
    one->b.options.accumulate_grad_batches = 2;
}

static void squeezes(far_run *one)
{
    clips(one);
    if (one->world > 1)
        one->b.options.gradient_compression = STK_GRADIENTS_BF16;
}

/* All gradients are there before a pass. */
static void asks_nothing(far_run *one)
{
    one->module.asks = strcmp(one->strategy, "zero_3") == 0;
}

static void asks_at_times(far_run *one)
{
    one->module.at_times = strcmp(one->strategy, "zero_3") != 0;
}

static void says_nothing(far_run *one)
{
    one->module.says = false;
}

static void anomalies(far_run *one)
{
    clips(one);
    one->b.options.detect_anomaly = true;
}

/* A batch is given up within a window, whose gradients are there then. */
static void rewinds(far_run *one)
{
    one->b.options.accumulate_grad_batches = 2;
    one->b.options.nan_policy = STK_NAN_REWIND;
    one->module.nan_at = 2;
}

static stk_status own_zero(stk_module *module, const stk_moment *at, stk_error *err)
{
    const far_module *m = (const far_module *)module;

    return far_fill(m->stream, m->gradients, 0, m->bytes, err);
}

/* In the middle of a bucket. */
static void learns_later(far_run *one)
{
    clips(one);
    one->module.sleeps = 3;
}

/* What has been given back is not shown for a while. */
static void learns_at_times(far_run *one)
{
    one->module.naps = 3;
}

/* The trainer does so where not all of them are there. */
static void zeroes_itself(far_run *one)
{
    one->module.ops.optimizer_zero_grad = own_zero;
}

/* A bucket is complete by its numbers, and not by the bytes of its parameters. */
static void has_wide_gradients(far_run *one)
{
    accumulates(one);
    one->module.wide = true;
}

/* Behind each batch, within windows too. */
static void validates_within(far_run *one)
{
    one->b.options.accumulate_grad_batches = 2;
    one->b.options.val_check_interval = "1";
}

/* As with sync_batchnorm. */
static stk_status step_together(stk_module *module, stk_trainer *t, const stk_moment *at,
                                stk_loss *loss, stk_error *err)
{
    STK_TRY(far_step(module, t, at, loss, err));
    loss->together = true;
    return STK_OK;
}

static void speaks_within(far_run *one)
{
    validates_within(one);
    one->module.ops.training_step = step_together;
}

static void the_same_bits(void **state)
{
    as_by_ddp(1, clips, NULL);
    as_by_ddp(2, clips, NULL);
    as_by_ddp(3, clips, &stk__callback_ema);
    as_by_ddp(4, clips, NULL);
    as_by_ddp(3, clips_values, NULL);
    as_by_ddp(3, accumulates, NULL);
    as_by_ddp(3, squeezes, NULL);
    as_by_ddp(4, learns_later, NULL);
    as_by_ddp(3, learns_at_times, NULL);
    as_by_ddp(3, asks_nothing, NULL);
    as_by_ddp(2, asks_at_times, NULL);
    as_by_ddp(2, says_nothing, NULL);
    as_by_ddp(2, anomalies, NULL);
    as_by_ddp(3, rewinds, NULL);
    as_by_ddp(3, zeroes_itself, NULL);
    as_by_ddp(3, has_wide_gradients, NULL);
    as_by_ddp(3, validates_within, &stk__callback_weight_averaging);
    as_by_ddp(3, speaks_within, NULL);
}

/* ---- What one rank comes to ------------------------------------------------------------------ */

static double farthest(const char *a, const char *b)
{
    const far_module *m = &far_all[0].module;
    double far = 0;

    for (int k = 0; k < TENSORS; k++)
        for (uint64_t j = 0; j < tensors[k].count; j++)
            far = fmax(far, fabs(far_get(a + m->at[k], tensors[k].dtype, j) -
                                 far_get(b + m->at[k], tensors[k].dtype, j)));
    return far;
}

static void train(char weights[], uint64_t world, const char *strategy, far_change *change)
{
    far_run like = {.change = change, .strategy = strategy};
    char folder[256];

    test_folder(folder);
    like.folder = folder;
    far_train(world, &like);
    memcpy(weights, far_all[0].weights, sizeof like.weights);
    test_folder_remove(folder);
}

/* With half of the bits gradients are others, but hardly. */
static void as_one_rank(void **state)
{
    static far_change *const changes[] = {NULL, clips, clips_values, accumulates};
    char one[sizeof far_all->weights], all[sizeof one], half[sizeof one];

    for (size_t i = 0; i < STK_COUNT(changes); i++) {
        train(one, 1, "auto", changes[i]);
        for (uint64_t world = 2; world <= 3; world++) {
            train(all, world, "zero_3", changes[i]);
            assert_true(farthest(one, all) < 2e-5);
        }
    }
    train(one, 3, "zero_2", clips);
    train(half, 3, "zero_2", squeezes);
    assert_true(farthest(one, half) > 1e-6 && farthest(one, half) < 0.05);
    train(one, 1, "auto", NULL);
    assert_true(farthest(one, all) > 1e-3);
}

/* What a device does not compute the host does, of all that is clipped or of parts. */
static void clipped_on_the_host(void **state)
{
    static far_change *const changes[] = {clips, clips_values};
    char there[sizeof far_all->weights], here[sizeof there];

    for (size_t i = 0; i < STK_COUNT(changes); i++) {
        train(there, 3, "ddp", changes[i]);
        far_ops.squares = NULL;
        train(here, 3, "zero_1", changes[i]);
        assert_memory_equal(here, there, sizeof here);
        far_ops.scale = NULL;
        train(here, 3, "zero_2", changes[i]);
        assert_memory_equal(here, there, sizeof here);
        train(here, 3, "ddp", changes[i]);
        assert_memory_equal(here, there, sizeof here);
        far_ops = far_device();
    }
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Within a window of accumulation: it has all gradients. */
static stk_status save_within(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    char path[512];

    if (at->epoch || at->batch_idx != 2)
        return STK_OK;
    snprintf(path, sizeof path, WEIGHTS, stk_trainer_get_options(t)->default_root_dir);
    STK_TRY(stk_trainer_save(t, path, true, NULL, err));
    snprintf(path, sizeof path, WITHIN, stk_trainer_get_options(t)->default_root_dir);
    return stk_trainer_save(t, path, false, NULL, err);
}

static void saver_destroy(stk_callback *callback)
{
    free(callback);
}

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);

static const stk_callback_ops saver = {.struct_size = sizeof saver,
                                       .name = "saver",
                                       .doc = "saves within a window",
                                       .create = saver_create,
                                       .destroy = saver_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_train_batch_end = save_within};

/* Each has its part of the sums then: a mean of those would be stepped by. */
static stk_status save_before_the_step(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    const stk_trainer_options *o = stk_trainer_get_options(t);
    char path[512];
    stk_error own;

    snprintf(path, sizeof path, WEIGHTS, o->default_root_dir);
    STK_TRY(stk_trainer_save(t, path, true, NULL, err));
    snprintf(path, sizeof path, WITHIN, o->default_root_dir);
    const stk_status saved = stk_trainer_save(t, path, false, NULL, &own);
    if (strcmp(o->strategy, "ddp") == 0)
        assert_ok(saved, &own);
    else
        assert_fails(saved, STK_ENOTSUP, &own, "save behind the step");
    return STK_OK;
}

static const stk_callback_ops hasty = {.struct_size = sizeof hasty,
                                       .name = "hasty",
                                       .doc = "saves before the step, and within a window",
                                       .create = saver_create,
                                       .destroy = saver_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_before_optimizer_step = save_before_the_step,
                                       .on_train_batch_start = save_within};

static void saves_before_the_step(void **state)
{
    as_by_ddp(2, accumulates, &hasty);
}

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){.context = ctx};
    return STK_OK;
}

/* A run that saves within, or goes on from there. */
static void run(char saved[512], char folder[256], uint64_t world, const char *strategy,
                const char *ckpt_path)
{
    test_folder(folder);
    const far_run like = {.change = accumulates,
                          .strategy = strategy,
                          .folder = folder,
                          .ckpt_path = ckpt_path,
                          .callback = ckpt_path ? NULL : &saver,
                          .blind = !ckpt_path && strcmp(strategy, "zero_2") == 0};
    far_train(world, &like);
    memcpy(saved, far_all[0].saved, 512);
}

static void assert_same_weights(const char *one_folder, const char *other_folder)
{
    char one[512], other[512];

    snprintf(one, sizeof one, WEIGHTS, one_folder);
    snprintf(other, sizeof other, WEIGHTS, other_folder);
    assert_same_state(one, other, false);
}

/* What goes on from there is what did not stop; with another number of ranks all strategies do the
 * same. */
static void goes_on(void **state)
{
    char whole[256], folder[256], again[256], saved[2][512], within[2][512];
    char other[256], others[512];

    run(saved[0], whole, 3, "ddp", NULL);
    snprintf(within[0], sizeof within[0], WITHIN, whole);
    run(others, other, 2, "ddp", within[0]);
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        run(saved[1], folder, 3, sharing[i], NULL);
        snprintf(within[1], sizeof within[1], WITHIN, folder);
        assert_same_checkpoints(within[0], within[1]);
        assert_same_weights(whole, folder);
        assert_same_checkpoints(saved[0], saved[1]);
        run(saved[1], again, 3, sharing[i], within[1]);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(again);
        run(saved[1], again, 2, sharing[(i + 1) % STK_COUNT(sharing)], within[1]);
        assert_same_checkpoints(others, saved[1]);
        test_folder_remove(again);
        test_folder_remove(folder);
    }
    test_folder_remove(other);
    test_folder_remove(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(as_one_rank),
        cmocka_unit_test(clipped_on_the_host),
        cmocka_unit_test(saves_before_the_step),
        cmocka_unit_test(goes_on),
    };

    if (!far_load())
        return 1;
    return cmocka_run_group_tests_name("train/nccl_shards", tests, NULL, NULL);
}

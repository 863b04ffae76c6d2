/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share a training out (ZeRO): checkpoints have the same bits as by ddp,
 * every rank the same weights, whatever goes on on whichever number of ranks; and less memory. */
#include "train/callbacks/callback.h"
#include "unit/train/shards.h"

/* ---- Bits ------------------------------------------------------------------------------------ */

static void as_by_ddp(uint64_t world, change_fn *change)
{
    char folders[2][256], saved[2][512];

    test_folder(folders[0]);
    train(saved[0], world, "ddp", folders[0], NULL, change);
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        test_folder(folders[1]);
        train(saved[1], world, sharing[i], folders[1], NULL, change);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(folders[1]);
    }
    test_folder_remove(folders[0]);
}

static void accumulates(one *o)
{
    clips(o);
    o->b.options.accumulate_grad_batches = 2;
    o->self.one_thread = true;
}

static void steps_by_sgd(one *o)
{
    o->optimizer.name = STK_SGD;
    o->optimizer.momentum = 0.9;
    o->b.options.precision = "64-true";
    o->b.options.gradient_clip_val = 0.05;
}

static void squeezes(one *o)
{
    o->b.options.gradient_compression = o->world > 1 ? STK_GRADIENTS_BF16 : STK_GRADIENTS_WHOLE;
    o->b.options.precision = "bf16-mixed";
    o->optimizer.name = STK_ADAMW;
}

static void clips_values(one *o)
{
    o->b.options.gradient_clip_val = 0.001;
    o->b.options.gradient_clip_algorithm = STK_CLIP_VALUE;
    o->b.options.sync_batchnorm = o->world > 1;
}

/* Gradients are looked at, so that none is combined within the pass. */
static void anomalies(one *o)
{
    clips(o);
    o->b.options.detect_anomaly = true;
}

/* ---- Within a window of accumulation --------------------------------------------------------- */

/* A checkpoint has all gradients of the window. */
static stk_status save_within(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    char path[512];

    if (at->epoch || at->batch_idx)
        return STK_OK;
    snprintf(path, sizeof path, WITHIN, stk_trainer_get_options(t)->default_root_dir);
    return stk_trainer_save(t, path, false, NULL, err);
}

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);

static const stk_callback_ops saver = {.struct_size = sizeof saver,
                                       .name = "saver",
                                       .doc = "saves within a window",
                                       .create = saver_create,
                                       .destroy = gate_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_train_batch_end = save_within};

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&saver, ctx};
    return STK_OK;
}

static void saves_within(one *o)
{
    accumulates(o);
    o->callback = &saver;
}

/* What goes on from there is what did not stop. */
static void windows_are_whole(void **state)
{
    char folders[3][256], saved[2][512], within[2][512];

    test_folder(folders[0]);
    train(saved[0], 3, "ddp", folders[0], NULL, saves_within);
    snprintf(within[0], sizeof within[0], WITHIN, folders[0]);
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        test_folder(folders[1]);
        test_folder(folders[2]);
        train(saved[1], 3, sharing[i], folders[1], NULL, saves_within);
        snprintf(within[1], sizeof within[1], WITHIN, folders[1]);
        assert_same_checkpoints(within[0], within[1]);
        train(saved[1], 3, sharing[i], folders[2], within[1], accumulates);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(folders[1]);
        test_folder_remove(folders[2]);
    }
    test_folder_remove(folders[0]);
}

static void the_same_bits(void **state)
{
    as_by_ddp(4, NULL);
    for (uint64_t world = 2; world <= 3; world++)
        as_by_ddp(world, clips);
    as_by_ddp(3, accumulates);
    as_by_ddp(4, steps_by_sgd);
    as_by_ddp(3, squeezes);
    as_by_ddp(2, clips_values);
    as_by_ddp(2, anomalies);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { WIDE = 1000, PARAMETERS = 784 * WIDE + WIDE + WIDE * 10 + 10 };

/* Bytes in memory of tensors of a kind, and of all that the context has given, on the greediest
 * rank. */
typedef struct held {
    uint64_t gradients, parameters, bytes;
} held;

static held looked[MAX_RANKS];

static stk_status add_resident(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                               stk_error *err)
{
    *(uint64_t *)user += resident(tensor->data, tensor->bytes);
    return STK_OK;
}

/* When all gradients are put together, and nothing was stepped. */
static stk_status look(stk_callback *callback, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    stk_model *model = stk_model_module_model(at->module);
    held *h = &looked[t->ranks.strategy.rank];
    stk_state_tensor whole;

    *h = (held){0};
    for (size_t i = 0; stk_model_get_state(model, i, &whole, err) == STK_OK; i++)
        STK_TRY(add_resident(&h->parameters, STK_STATE_PARAMETER, &whole, err));
    return at->module->ops->state(at->module, STK_STATE_GRADIENT, add_resident, &h->gradients, err);
}

static stk_status looker_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err);

static const stk_callback_ops looker = {.struct_size = sizeof looker,
                                        .name = "looker",
                                        .doc = "counts pages",
                                        .create = looker_create,
                                        .destroy = gate_destroy,
                                        .roles = STK_ROLE_NO_METRICS,
                                        .on_before_optimizer_step = look};

static stk_status looker_create(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&looker, ctx};
    return STK_OK;
}

static void without_files(one *o)
{
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
    o->b.options.max_epochs = 1;
}

static held held_by(uint64_t world, const char *strategy)
{
    const one like = {.strategy = strategy,
                      .layers = "flatten, linear(1000), relu, linear(10)",
                      .folder = "/proc/nonexistent",
                      .callback = &looker,
                      .change = without_files};
    held most = {0};

    run_world(all_ranks, world, &like);
    for (uint64_t r = 0; r < world; r++) {
        assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
        most.bytes = STK_MAX(most.bytes, all_ranks[r].bytes - all_ranks[r].aside);
        most.gradients = STK_MAX(most.gradients, looked[r].gradients);
        most.parameters = STK_MAX(most.parameters, looked[r].parameters);
    }
    return most;
}

/* As many bytes of each parameter, but for pages, lists and roundings. */
static void assert_bytes(uint64_t bytes, double wanted)
{
    if (fabs((double)bytes - wanted * PARAMETERS) > 64 << 10)
        fail_msg("%.3f bytes a parameter, not %.3f", (double)bytes / PARAMETERS, wanted);
}

/* Of N ranks each has an Nth of 8 bytes of moments, and of 4 bytes of gradients and of parameters
 * from the second and the third stage on. */
static void memory_is_shared(void **state)
{
    for (uint64_t world = 2; world <= MAX_RANKS; world += 2) {
        const held whole = held_by(world, "ddp");
        const double n = (double)world;
        assert_bytes(whole.gradients, 4);
        assert_bytes(whole.parameters, 4);
        for (size_t i = 0; i < STK_COUNT(sharing); i++) {
            const held shared = held_by(world, sharing[i]);
            assert_bytes(whole.bytes - shared.bytes, 8 - 8 / n);
            assert_bytes(shared.gradients, i < 1 ? 4 : 4 / n);
            assert_bytes(shared.parameters, i < 2 ? 4 : 4 / n);
        }
    }
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void shares(run *one)
{
    one->b.options.strategy = "zero_1";
}

static void refused(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;
    stk_trainer *t;
    tiny module;
    bench b;

    test_folder(folder);
    run_all(all, 2, folder, NULL, shares, &shared);
    for (int i = 0; i < 2; i++)
        assert_fails(all[i].status, STK_ENOTSUP, &all[i].err, "the module Line cannot");
    test_folder_remove(folder);

    bench_open(&b);
    b.options.strategy = "zero_1";
    tiny_init(&module);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_fails(stk_trainer_fit(t, &module.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "zero_1 trains in several processes");
    stk_trainer_destroy(&t);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    rank self = {.all = &shared};
    stk_strategy s = ranks_strategy(&self);
    s.all_gather = NULL;
    assert_ok(stk_trainer_set_strategy(t, &s, &b.err), &b.err);
    assert_ok(stk__shards_begin(t, &b.err), &b.err); /* no fit is at work */
    t->at.task = STK_TASK_FIT;
    assert_fails(stk__shards_begin(t, &b.err), STK_ENOTSUP, &b.err, "have no reduce_scatter()");
    t->at.task = STK_TASK_NONE;
    stk_trainer_destroy(&t);
    b.options.strategy = "zero_11";
    assert_fails(stk_trainer_create(b.ctx, &b.options, &t, &b.err), STK_ENOTSUP, &b.err,
                 "did you mean 'zero_1'");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(windows_are_whole),
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("train/shards", tests, NULL, NULL);
}

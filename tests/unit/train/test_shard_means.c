/* SPDX-License-Identifier: Apache-2.0 */
/* Means of parameters that ranks have parts of (ema and weight_averaging with zero_3): each keeps
 * those of its own part, and what is validated, saved and left has the same bits as by ddp. */
#include <unistd.h>

#include "train/callbacks/callback.h"
#include "unit/train/shards.h"

/* ---- What has means -------------------------------------------------------------------------- */

static void steps_have_means(one *o)
{
    static const char *const given[] = {"decay", "0.5", NULL};

    clips(o);
    o->own_statistics = true;
    o->adds[0] = (added){&stk__callback_ema, given};
}

/* An update at the end of each epoch, too: what is cut short there leaves other means. */
static void epochs_have_means(one *o)
{
    static const char *const given[] = {"update_starting_at_epoch", "0", "update_every_n_steps",
                                        "2", NULL};

    o->own_statistics = true;
    o->adds[0] = (added){&stk__callback_weight_averaging, given};
}

static void statistics_have_none(one *o)
{
    static const char *const given[] = {"decay", "0.9", "use_buffers", "false", NULL};

    o->own_statistics = true;
    o->adds[0] = (added){&stk__callback_ema, given};
    o->optimizer.name = STK_SGD;
    o->b.options.precision = "64-true";
    o->b.options.accumulate_grad_batches = 2;
}

/* Within the second epoch of four steps. */
static void is_cut_short(one *o)
{
    epochs_have_means(o);
    o->b.options.max_steps = 6;
}

static change_fn *const all_means[] = {steps_have_means, epochs_have_means, statistics_have_none,
                                       is_cut_short};

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Checkpoints have what was validated, the means and what they are of; the ranks end with means. */
static void as_by_ddp(uint64_t world, change_fn *change)
{
    char folders[2][256], saved[2][512];

    test_folder(folders[0]);
    test_folder(folders[1]);
    train(saved[0], world, "ddp", folders[0], NULL, change);
    const uint64_t hash = all_ranks[0].hash;
    train(saved[1], world, "zero_3", folders[1], NULL, change);
    assert_same_checkpoints(saved[0], saved[1]);
    assert_true(all_ranks[0].hash == hash);
    test_folder_remove(folders[0]);
    test_folder_remove(folders[1]);
}

static void the_same_bits(void **state)
{
    for (size_t i = 0; i < STK_COUNT(all_means); i++)
        as_by_ddp(2 + i % 2, all_means[i]);
}

/* ---- Going on -------------------------------------------------------------------------------- */

static void one_epoch(one *o)
{
    steps_have_means(o);
    o->b.options.max_epochs = 1;
}

/* What `first` does on `from` ranks, then the rest on `to`. */
static void go_on(char saved[512], char folder[256], uint64_t from, const char *first,
                  change_fn *half, uint64_t to, const char *second, change_fn *rest)
{
    char path[512];

    test_folder(folder);
    train(path, from, first, folder, NULL, half);
    train(saved, to, second, folder, path, rest);
}

/* From an epoch's end, and from where one was cut short, on other numbers of ranks by other
 * strategies: as from the one file of ddp. */
static void goes_on_anywhere(void **state)
{
    static const struct {
        uint64_t from;
        const char *first;
        uint64_t to;
        const char *second;
        change_fn *half, *rest;
    } runs[] = {{3, "zero_3", 2, "zero_3", one_epoch, steps_have_means},
                {2, "zero_3", 3, "zero_1", is_cut_short, epochs_have_means},
                {3, "zero_3", 1, "ddp", is_cut_short, epochs_have_means},
                {1, "ddp", 4, "zero_3", one_epoch, steps_have_means},
                {2, "zero_2", 3, "zero_3", is_cut_short, epochs_have_means}};
    char folders[2][256], saved[2][512];

    for (size_t i = 0; i < STK_COUNT(runs); i++) {
        go_on(saved[0], folders[0], runs[i].from, "ddp", runs[i].half, runs[i].to, "ddp",
              runs[i].rest);
        const uint64_t hash = all_ranks[0].hash;
        go_on(saved[1], folders[1], runs[i].from, runs[i].first, runs[i].half, runs[i].to,
              runs[i].second, runs[i].rest);
        assert_same_checkpoints(saved[0], saved[1]);
        assert_true(all_ranks[0].hash == hash);
        test_folder_remove(folders[0]);
        test_folder_remove(folders[1]);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static stk_status save_weights(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    char path[512];

    snprintf(path, sizeof path, WITHIN, stk_trainer_get_options(t)->default_root_dir);
    return stk_trainer_save(t, path, true, NULL, err);
}

/* A hook that runs on rank 0 alone is no place for what all ranks have parts of. */
static stk_status save_alone(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    stk_state_tensor parameter = {0};

    STK_TRY(stk_model_get_state(stk_model_module_model(at->module), 0, &parameter, err));
    stk_error refused;
    assert_int_equal(stk_saver_copy(at->saver, "copy", STK_STATE_PARAMETER, &parameter,
                                    parameter.data, &refused),
                     STK_EINVAL);
    assert_non_null(strstr(refused.text, "save it in state_dict()"));
    return STK_OK;
}

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);
static stk_status alone_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);

static const stk_callback_ops saver = {.struct_size = sizeof saver,
                                       .name = "saver",
                                       .doc = "saves weights",
                                       .create = saver_create,
                                       .destroy = gate_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_train_epoch_end = save_weights};

static const stk_callback_ops alone = {.struct_size = sizeof alone,
                                       .name = "alone",
                                       .doc = "saves a copy in a hook",
                                       .create = alone_create,
                                       .destroy = gate_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_save_checkpoint = save_alone};

static stk_status saver_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&saver, ctx};
    return STK_OK;
}

static stk_status alone_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    STK_TRY(saver_create(ctx, options, out, err));
    (*out)->ops = &alone;
    return STK_OK;
}

static void run_of(const char *strategy, const char *folder, const stk_callback_ops *callback,
                   bool blind, char saved[512])
{
    const one like = {.strategy = strategy,
                      .layers = odd,
                      .folder = folder,
                      .callback = callback,
                      .blind = blind,
                      .change = steps_have_means};

    run_world(all_ranks, 3, &like);
    assert_run(all_ranks);
    snprintf(saved, 512, "%s", all_ranks[0].saved);
}

/* In parts, consolidated, put together by rank 0, and as weights alone. */
static void every_file_has_them(void **state)
{
    stk_context *ctx = test_context();
    char folders[3][256], saved[3][512], within[3][512], joined[600];
    stk_error err;

    for (size_t i = 0; i < 3; i++) {
        test_folder(folders[i]);
        run_of(i ? "zero_3" : "ddp", folders[i], &saver, i == 2, saved[i]);
        snprintf(within[i], sizeof within[i], WITHIN, folders[i]);
    }
    assert_same_checkpoints(saved[0], saved[2]);
    assert_same_checkpoints(within[0], within[1]);
    assert_same_checkpoints(within[0], within[2]);
    snprintf(joined, sizeof joined, "%s/joined.safetensors", folders[0]);
    assert_ok(stk_checkpoint_consolidate(ctx, saved[1], joined, NULL, &err), &err);
    test_folder_remove(folders[1]);
    assert_same_checkpoints(saved[0], joined);
    test_folder_remove(folders[0]);
    test_folder_remove(folders[2]);
    stk_context_destroy(&ctx);
}

static void hooks_of_one_rank_save_no_part(void **state)
{
    char folder[256], saved[512];

    test_folder(folder);
    run_of("zero_3", folder, &alone, false, saved);
    test_folder_remove(folder);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { WIDE = 1000, PARAMETERS = 784 * WIDE + WIDE + WIDE * 10 + 10 };

static void without_files(one *o)
{
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
    o->b.options.max_epochs = 1;
}

static void averages_without_files(one *o)
{
    without_files(o);
    o->adds[0] = (added){&stk__callback_ema, NULL};
}

/* What the context has of a rank behind the training, at most. */
static uint64_t bytes_of(const char *strategy, change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = "flatten, linear(1000), relu, linear(10)",
                      .folder = "/proc/nonexistent",
                      .change = change};
    uint64_t most = 0;

    run_world(all_ranks, 3, &like);
    for (uint64_t r = 0; r < 3; r++) {
        assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
        most = STK_MAX(most, all_ranks[r].bytes - all_ranks[r].aside);
    }
    return most;
}

/* The means and what they take the place of: 8 bytes a parameter, of which each rank has a third.
 */
static void memory_is_shared(void **state)
{
    static const char *const strategies[] = {"ddp", "zero_3"};

    for (size_t i = 0; i < 2; i++) {
        const uint64_t bytes = bytes_of(strategies[i], averages_without_files) -
                               bytes_of(strategies[i], without_files);
        const double wanted = (i ? 8.0 / 3 : 8) * PARAMETERS;
        if (fabs((double)bytes - wanted) > 64 << 10)
            fail_msg("%s: %.3f bytes a parameter", strategies[i], (double)bytes / PARAMETERS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),       cmocka_unit_test(goes_on_anywhere),
        cmocka_unit_test(every_file_has_them), cmocka_unit_test(hooks_of_one_rank_save_no_part),
        cmocka_unit_test(memory_is_shared),
    };

    return cmocka_run_group_tests_name("train/shard_means", tests, NULL, NULL);
}

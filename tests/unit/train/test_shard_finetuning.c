/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that begin to learn later (backbone_finetuning) where ranks share the training out:
 * the same bits as by ddp, and no more memory and no more sent than what learns. */
#include "train/callbacks/callback.h"
#include "unit/train/shards.h"

/* ---- What learns later ----------------------------------------------------------------------- */

/* Of the first bucket a part learns from the beginning, of the second nothing. */
static void head_first(one *o)
{
    static const char *const given[] = {"pattern", "a.*, na.*, b.*", "unfreeze_backbone_at_epoch",
                                        "1", NULL};

    clips(o);
    o->adds[0] = (added){&stk__callback_backbone_finetuning, given};
}

/* A gap in each bucket, passes go on below it, and gradients add up. */
static void ends_first(one *o)
{
    static const char *const given[] = {
        "pattern", "b.*", "unfreeze_backbone_at_epoch", "1", "train_bn", "false", NULL};

    o->adds[0] = (added){&stk__callback_backbone_finetuning, given};
    o->optimizer.name = STK_SGD;
    o->optimizer.momentum = 0.9;
    o->b.options.precision = "64-true";
    o->b.options.accumulate_grad_batches = 2;
    o->b.options.gradient_clip_val = 0.05;
}

/* The later of two first; and what never learns. */
static void one_by_one(one *o)
{
    static const char *const late[] = {"pattern", "a.*, na.*", "unfreeze_backbone_at_epoch", "2",
                                       NULL};
    static const char *const early[] = {"pattern", "b.*", "unfreeze_backbone_at_epoch", "1", NULL};

    o->adds[0] = (added){&stk__callback_backbone_finetuning, late};
    o->adds[1] = (added){&stk__callback_backbone_finetuning, early};
    o->freeze = "b.bias, na.weight";
    o->b.options.max_epochs = 3;
    o->b.options.gradient_compression = o->world > 1 ? STK_GRADIENTS_BF16 : STK_GRADIENTS_WHOLE;
    o->optimizer.name = STK_ADAMW;
    o->self.one_thread = true;
}

/* Means of what learns, and of what does not yet. */
static void has_means(one *o)
{
    static const char *const given[] = {"decay", "0.5", NULL};

    head_first(o);
    o->own_statistics = true;
    o->adds[1] = (added){&stk__callback_ema, given};
}

/* Statistics and sums of all ranks within the passes. */
static void together(one *o)
{
    head_first(o);
    o->b.options.sync_batchnorm = o->world > 1;
    o->b.options.gradient_clip_algorithm = STK_CLIP_VALUE;
    o->b.options.gradient_clip_val = 0.001;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static void as_by_ddp(uint64_t world, change_fn *change)
{
    char folders[2][256], saved[2][512];

    test_folder(folders[0]);
    train(saved[0], world, "ddp", folders[0], NULL, change);
    const uint64_t hash = all_ranks[0].hash;
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        test_folder(folders[1]);
        train(saved[1], world, sharing[i], folders[1], NULL, change);
        assert_same_checkpoints(saved[0], saved[1]);
        assert_true(all_ranks[0].hash == hash);
        test_folder_remove(folders[1]);
    }
    test_folder_remove(folders[0]);
}

static void the_same_bits(void **state)
{
    for (uint64_t world = 2; world <= 3; world++)
        as_by_ddp(world, head_first);
    as_by_ddp(3, ends_first);
    as_by_ddp(2, one_by_one);
    as_by_ddp(3, has_means);
    as_by_ddp(2, together);
}

/* ---- Going on -------------------------------------------------------------------------------- */

static void before_it_learns(one *o)
{
    head_first(o);
    o->b.options.max_epochs = 1;
}

static void after_it_learns(one *o)
{
    head_first(o);
    o->own_statistics = true;
    o->b.options.max_steps = 6;
}

static void means_before_it_learns(one *o)
{
    has_means(o);
    o->b.options.max_epochs = 1;
}

static void go_on(char saved[512], char folder[256], uint64_t from, const char *first,
                  change_fn *half, uint64_t to, const char *second, change_fn *rest)
{
    char path[512];

    test_folder(folder);
    train(path, from, first, folder, NULL, half);
    train(saved, to, second, folder, path, rest);
}

/* From before and after a part has begun to learn, on other numbers of ranks by other strategies.
 */
static void goes_on_anywhere(void **state)
{
    static const struct {
        uint64_t from;
        const char *first;
        uint64_t to;
        const char *second;
        change_fn *half, *rest;
    } runs[] = {{2, "zero_1", 3, "zero_3", before_it_learns, head_first},
                {3, "zero_3", 2, "zero_2", after_it_learns, head_first},
                {3, "zero_2", 1, "ddp", after_it_learns, head_first},
                {1, "ddp", 3, "zero_1", after_it_learns, head_first},
                {2, "zero_3", 3, "zero_3", means_before_it_learns, has_means}};
    char folders[2][256], saved[2][512];

    for (size_t i = 0; i < STK_COUNT(runs); i++) {
        go_on(saved[0], folders[0], runs[i].from, "ddp", runs[i].half, runs[i].to, "ddp",
              runs[i].rest);
        go_on(saved[1], folders[1], runs[i].from, runs[i].first, runs[i].half, runs[i].to,
              runs[i].second, runs[i].rest);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(folders[0]);
        test_folder_remove(folders[1]);
    }
}

/* ---- What it takes --------------------------------------------------------------------------- */

enum { WIDE = 1000, PARAMETERS = 784 * WIDE + WIDE + WIDE * 10 + 10 };

static void without_files(one *o)
{
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
}

static void first_layer_later(one *o)
{
    static const char *const given[] = {"pattern", "first.*", "unfreeze_backbone_at_epoch", "1",
                                        NULL};

    without_files(o);
    o->adds[0] = (added){&stk__callback_backbone_finetuning, given};
}

static void never(one *o)
{
    static const char *const given[] = {"pattern", "a.*, na.*, b.*", "unfreeze_backbone_at_epoch",
                                        "9", NULL};

    without_files(o);
    o->adds[0] = (added){&stk__callback_backbone_finetuning, given};
}

static void run_of(const char *layers, uint64_t world, const char *strategy, change_fn *change)
{
    const one like = {
        .strategy = strategy, .layers = layers, .folder = "/proc/nonexistent", .change = change};

    run_world(all_ranks, world, &like);
    for (uint64_t r = 0; r < world; r++)
        assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
}

/* What the context has of a rank behind the training, at most. */
static uint64_t bytes_of(uint64_t world, const char *strategy)
{
    uint64_t most = 0;

    run_of("flatten, first=linear(1000), relu, linear(10)", world, strategy, first_layer_later);
    for (uint64_t r = 0; r < world; r++)
        most = STK_MAX(most, all_ranks[r].bytes - all_ranks[r].aside);
    return most;
}

/* Moments of what has begun to learn are shared out as those of the others: 8 bytes a parameter. */
static void memory_is_shared(void **state)
{
    for (uint64_t world = 2; world <= 3; world++) {
        const uint64_t whole = bytes_of(world, "ddp");
        for (size_t i = 0; i < STK_COUNT(sharing); i++) {
            const double saved = (double)(whole - bytes_of(world, sharing[i]));
            const double wanted = (8 - 8.0 / (double)world) * PARAMETERS;
            if (fabs(saved - wanted) > 64 << 10)
                fail_msg("%s: %.3f bytes a parameter fewer", sharing[i], saved / PARAMETERS);
        }
    }
}

/* Buckets in which nothing learns are not sent: of each step the one with the head, which has a
 * bias of the layer below, too. */
static void sends_what_learns(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        run_of(odd, 3, sharing[i], never);
        assert_int_equal(all_ranks[0].gathered, EPOCHS * 4 * (10 + 10 * 131 + 131));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(goes_on_anywhere),
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(sends_what_learns),
    };

    return cmocka_run_group_tests_name("train/shard_finetuning", tests, NULL, NULL);
}

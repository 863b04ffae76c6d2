/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of ranks that share a training out: each writes its part, any number of ranks goes on
 * from them by any strategy. */
#include <glob.h>
#include <unistd.h>

#include "checkpoint/parts.h"
#include "train/callbacks/callback.h"
#include "unit/train/shards.h"

/* ---- Going on -------------------------------------------------------------------------------- */

static void an_epoch(one *o)
{
    clips(o);
    o->b.options.max_epochs = 1;
}

/* One epoch on `from` ranks, the next on `to`. */
static void go_on(char saved[512], char folder[256], uint64_t from, const char *first, uint64_t to,
                  const char *second)
{
    char half[512];

    test_folder(folder);
    train(half, from, first, folder, NULL, an_epoch);
    train(saved, to, second, folder, half, clips);
}

/* Saved in parts by one strategy, gone on from by another on another number of ranks: as from the
 * one file of ddp. */
static void goes_on_anywhere(void **state)
{
    static const struct {
        uint64_t from;
        const char *first;
        uint64_t to;
        const char *second;
    } runs[] = {{2, "zero_1", 3, "zero_3"}, {2, "zero_3", 2, "zero_1"}, {3, "zero_2", 1, "ddp"},
                {3, "zero_3", 4, "zero_2"}, {4, "zero_1", 1, "ddp"},    {4, "zero_2", 3, "zero_1"},
                {4, "zero_3", 2, "ddp"},    {1, "ddp", 4, "zero_3"}};
    char folders[2][256], saved[2][512];

    for (size_t i = 0; i < STK_COUNT(runs); i++) {
        go_on(saved[0], folders[0], runs[i].from, "ddp", runs[i].to, "ddp");
        go_on(saved[1], folders[1], runs[i].from, runs[i].first, runs[i].to, runs[i].second);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(folders[1]);
        test_folder_remove(folders[0]);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int files_like(const char *folder, const char *pattern)
{
    char path[600];
    glob_t found;

    snprintf(path, sizeof path, "%s/checkpoints/%s", folder, pattern);
    const int n = glob(path, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static void assert_files(const char *folder, int files, int parts)
{
    assert_int_equal(files_like(folder, "*.safetensors"), files);
    assert_int_equal(files_like(folder, STK__CHECKPOINT_PARTS "/*"), parts);
    assert_int_equal(files_like(folder, STK__CHECKPOINT_PARTS "/.stoker-put*"), 0);
}

/* Each rank but the first has a file beside that of the first, for the one checkpoint that is kept.
 */
static void parts_are_files(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], saved[512];
    stk__checkpoint_part part;

    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        test_folder(folder);
        train(saved, 3, sharing[i], folder, NULL, clips);
        assert_files(folder, 1, 2);
        assert_true(stk__parts_of(ctx, saved, &part));
        assert_int_equal(part.count, 3);
        test_folder_remove(folder);
    }
    stk_context_destroy(&ctx);
}

static void saves_weights(one *o)
{
    clips(o);
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
}

/* Weights alone are for others. */
static stk_status save_alone(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    char path[512];

    snprintf(path, sizeof path, WITHIN, stk_trainer_get_options(t)->default_root_dir);
    return stk_trainer_save(t, path, true, NULL, err);
}

static stk_status alone_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);

static const stk_callback_ops alone = {.struct_size = sizeof alone,
                                       .name = "alone",
                                       .doc = "saves weights",
                                       .create = alone_create,
                                       .destroy = gate_destroy,
                                       .roles = STK_ROLE_NO_METRICS,
                                       .on_train_epoch_end = save_alone};

static stk_status alone_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&alone, ctx};
    return STK_OK;
}

static void weights_are_one_file(void **state)
{
    char folder[256], path[512];
    stk_context *ctx = test_context();
    stk__checkpoint_part part;
    one like = {.strategy = "zero_3", .layers = odd, .callback = &alone, .change = saves_weights};

    test_folder(folder);
    like.folder = folder;
    run_world(all_ranks, 2, &like);
    for (int r = 0; r < 2; r++)
        assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
    snprintf(path, sizeof path, WITHIN, folder);
    assert_int_equal(access(path, F_OK), 0);
    assert_false(stk__parts_of(ctx, path, &part));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Where a rank does not see what rank 0 has made, rank 0 writes all of it. */
static void without_one_folder(void **state)
{
    char folders[2][256], saved[512];

    test_folder(folders[0]);
    test_folder(folders[1]);
    train(saved, 3, "ddp", folders[0], NULL, clips);
    for (size_t i = 1; i < STK_COUNT(sharing); i++) {
        const one like = {.strategy = sharing[i],
                          .layers = odd,
                          .folder = folders[1],
                          .blind = true,
                          .change = clips};
        run_world(all_ranks, 3, &like);
        assert_run(all_ranks);
        assert_files(folders[1], 1, 0);
        assert_same_checkpoints(saved, all_ranks[0].saved);
        test_folder_remove(folders[1]);
        test_folder(folders[1]);
    }
    test_folder_remove(folders[0]);
    test_folder_remove(folders[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_anywhere),
        cmocka_unit_test(parts_are_files),
        cmocka_unit_test(weights_are_one_file),
        cmocka_unit_test(without_one_folder),
    };

    return cmocka_run_group_tests_name("train/shard_parts", tests, NULL, NULL);
}

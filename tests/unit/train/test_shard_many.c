/* SPDX-License-Identifier: Apache-2.0 */
/* More ranks than elements to share out: parts that are empty, of a parameter, a bucket or the
 * whole model. */
#include <unistd.h>

#include "checkpoint/parts.h"
#include "unit/train/shards.h"

/* A first bucket of a MiB, and a second of two elements. */
static const char tight[] = "conv2d(1, 1), flatten, linear(340), relu, linear(10)";
/* Ten elements in all. */
static const char tiny_layers[] = "global_avg_pool2d, flatten, linear(10, bias=false)";

static void an_epoch(one *o)
{
    clips(o);
    o->b.options.max_epochs = 1;
}

static void run_some(char saved[512], const char *layers, uint64_t world, const char *strategy,
                     const char *folder, const char *ckpt_path, change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = layers,
                      .folder = folder,
                      .ckpt_path = ckpt_path,
                      .change = change};

    run_world(all_ranks, world, &like);
    assert_run(all_ranks);
    snprintf(saved, 512, "%s", all_ranks[0].saved);
}

/* An epoch of `from` ranks, and the next of `to`. */
static void two_epochs(char saved[512], char folder[256], const char *layers, uint64_t from,
                       const char *first, uint64_t to, const char *second)
{
    char half[512];

    test_folder(folder);
    run_some(half, layers, from, first, folder, NULL, an_epoch);
    run_some(saved, layers, to, second, folder, half, clips);
}

/* A change of ranks and strategies, which is as that of the ranks by ddp. */
typedef struct change {
    const char *first, *second;
} change;

static void as_by_ddp(const char *layers, uint64_t from, uint64_t to, const change *changes,
                      size_t n)
{
    char folders[2][256], saved[2][512];

    two_epochs(saved[0], folders[0], layers, from, "ddp", to, "ddp");
    for (size_t i = 0; i < n; i++) {
        two_epochs(saved[1], folders[1], layers, from, changes[i].first, to, changes[i].second);
        assert_same_checkpoints(saved[0], saved[1]);
        test_folder_remove(folders[1]);
    }
    test_folder_remove(folders[0]);
}

/* Parameters that have fewer elements than there are ranks. */
static void more_ranks_than_of_a_parameter(void **state)
{
    static const change there = {"zero_1", "zero_3"}, back = {"zero_3", "zero_2"};

    as_by_ddp(odd, 5, 7, &there, 1);
    as_by_ddp(odd, 8, 5, &back, 1);
}

static void more_ranks_than_of_a_bucket(void **state)
{
    static const change same[] = {{"zero_3", "zero_3"}, {"zero_2", "zero_2"}};

    as_by_ddp(tight, 7, 7, same, STK_COUNT(same));
}

/* The last two of twelve have nothing at all. */
static void more_ranks_than_of_the_model(void **state)
{
    static const change same[] = {{"zero_1", "zero_1"}, {"zero_2", "zero_2"}, {"zero_3", "zero_3"}};
    static const change fewer[] = {{"zero_3", "zero_1"}}, more[] = {{"zero_1", "zero_3"}};

    as_by_ddp(tiny_layers, MANY_RANKS, MANY_RANKS, same, STK_COUNT(same));
    as_by_ddp(tiny_layers, MANY_RANKS, 5, fewer, STK_COUNT(fewer));
    as_by_ddp(tiny_layers, 7, MANY_RANKS, more, STK_COUNT(more));
}

static char *name_of_part(stk_context *ctx, const char *path, uint32_t number)
{
    stk__checkpoint_part part;

    assert_true(stk__parts_of(ctx, path, &part));
    assert_int_equal(part.count, MANY_RANKS);
    char *name = stk__part_path(ctx, path, &part, number);
    assert_non_null(name);
    return name;
}

static uint64_t bytes_of_part(const char *path, uint32_t number)
{
    stk_context *ctx = test_context();
    char *name = name_of_part(ctx, path, number);
    stk__safetensors_file file;
    uint64_t bytes = 0;
    stk_error err;

    assert_ok(stk__safetensors_file_open(ctx, name, &file, &err), &err);
    for (size_t i = 0; i < file.parsed.num_tensors; i++)
        bytes += file.parsed.tensors[i].bytes;
    stk__safetensors_file_close(&file);
    stk__free(ctx, name);
    stk_context_destroy(&ctx);
    return bytes;
}

/* Who has nothing writes a part all the same, which has no bytes. */
static void empty_parts(void **state)
{
    char folder[256], saved[512];

    test_folder(folder);
    run_some(saved, tiny_layers, MANY_RANKS, "zero_3", folder, NULL, clips);
    /* Of ten elements one each, in float32, with two moments. */
    for (uint32_t k = 1; k < MANY_RANKS; k++)
        assert_int_equal(bytes_of_part(saved, k), k < 10 ? 3 * sizeof(float) : 0);
    /* To ten ranks, which have as much as the first ten had, it is no less one of the checkpoint.
     */
    stk_context *ctx = test_context();
    char *name = name_of_part(ctx, saved, MANY_RANKS - 1);
    assert_int_equal(unlink(name), 0);
    const one like = {.strategy = "zero_3",
                      .layers = tiny_layers,
                      .folder = "/proc/nonexistent",
                      .ckpt_path = saved,
                      .change = clips};
    run_world(all_ranks, 10, &like);
    for (int i = 0; i < 10; i++)
        assert_fails(all_ranks[i].status, STK_ENOENT, &all_ranks[i].b.err, "part 11 is not there");
    stk__free(ctx, name);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_ranks_than_of_a_parameter),
        cmocka_unit_test(more_ranks_than_of_a_bucket),
        cmocka_unit_test(more_ranks_than_of_the_model),
        cmocka_unit_test(empty_parts),
    };

    return cmocka_run_group_tests_name("train/shard_many", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that ranks make of what they share out (ZeRO): as many bytes as they were told to be. */
#include "unit/train/shards.h"

enum { WIDE = 300, PARAMETERS = 784 * WIDE + WIDE + WIDE * 10 + 10 };

/* What a rank has at the end of a training beyond its module, and what that was told to be. */
typedef struct copies {
    uint64_t bytes, peak, told;
} copies;

static copies counted[MAX_RANKS];

static stk_status count_copies(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};
    const stk_state_bytes of = {.struct_size = sizeof of,
                                .weights = 4 * PARAMETERS,
                                .gradients = 4 * PARAMETERS,
                                .optimizer = 8 * PARAMETERS};

    stk_context_memory(t->ctx, &memory);
    counted[t->ranks.strategy.rank] =
        (copies){memory.bytes, memory.peak_bytes, stk_trainer_copy_bytes(t, &of)};
    return STK_OK;
}

static stk_status counter_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err);

static const stk_callback_ops counter = {.struct_size = sizeof counter,
                                         .name = "counter",
                                         .doc = "counts copies",
                                         .create = counter_create,
                                         .destroy = gate_destroy,
                                         .roles = STK_ROLE_NO_METRICS,
                                         .on_train_end = count_copies};

static stk_status counter_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&counter, ctx};
    return STK_OK;
}

static void an_epoch(one *o)
{
    o->b.options.max_epochs = 1;
}

static void without_files(one *o)
{
    an_epoch(o);
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
}

static void rewinds(one *o)
{
    without_files(o);
    o->b.options.nan_policy = STK_NAN_REWIND;
}

static void count_world(copies all[], uint64_t world, const char *strategy, const char *folder,
                        change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = "flatten, linear(300), relu, linear(10)",
                      .folder = folder,
                      .callback = &counter,
                      .change = change};

    run_world(all_ranks, world, &like);
    for (uint64_t r = 0; r < world; r++)
        assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
    memcpy(all, counted, world * sizeof *all);
}

/* But for an element of each bucket. */
static void assert_told(const copies *with, double wanted)
{
    if (fabs((double)with->told - wanted * PARAMETERS) > 64)
        fail_msg("%.4f bytes a parameter, not %.4f", (double)with->told / PARAMETERS, wanted);
}

/* Bytes of each parameter that a rank copies, told and taken; what saves has buffers besides. */
static void assert_copies(const copies *with, const copies *without, double wanted)
{
    assert_told(with, wanted);
    assert_in_range(with->bytes - without->bytes + (64 << 10), with->told,
                    with->told + (320 << 10));
}

/* Of moments and, from the third stage on, of parameters each rank copies an Nth; the first has
 * what is whole besides. */
static void copies_are_shared(void **state)
{
    enum { WORLD = 3 };
    static const double weights[] = {4, 4, 4, 4. / WORLD};
    copies with[MAX_RANKS], without[MAX_RANKS];
    char folder[256], url[300];

    for (size_t stage = 0; stage < STK_COUNT(weights); stage++) {
        const char *strategy = stage ? sharing[stage - 1] : "ddp";
        const double moments = stage ? 8. / WORLD : 8;
        count_world(without, WORLD, strategy, "/proc/nonexistent", without_files);
        test_folder(folder);
        count_world(with, WORLD, strategy, folder, an_epoch);
        for (int r = 0; r < WORLD; r++) {
            assert_int_equal(without[r].told, 0);
            assert_copies(&with[r], &without[r],
                          r == 0  ? weights[stage] + moments
                          : stage ? moments + (stage == 3 ? weights[stage] : 0)
                                  : 0);
        }
        count_world(with, WORLD, strategy, "/proc/nonexistent", rewinds);
        for (int r = 0; r < WORLD; r++)
            assert_copies(&with[r], &without[r], weights[stage] + moments);
        /* Of another store: rank 0 puts it together, which takes what lies in parts twice, and some
         * MiB of a part. */
        snprintf(url, sizeof url, "slow+file://%s?latency=0", folder);
        count_world(with, WORLD, strategy, url, an_epoch);
        for (int r = 1; r < WORLD; r++)
            assert_told(&with[r], 0);
        assert_told(&with[0], 12 + (stage == 0 ? 0 : stage < 3 ? 8 : 12));
        assert_in_range(with[0].peak - without[0].bytes, with[0].told - (64 << 10),
                        with[0].told + (4 << 20));
        test_folder_remove(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_shared),
    };

    return cmocka_run_group_tests_name("train/shard_copies", tests, NULL, NULL);
}

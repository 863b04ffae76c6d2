/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mixture as it is delivered: exact shares, each sample as often as it should come, the same for
 * every number of workers and ranks, every cache, and from wherever it is gone on with.
 */
#include <stdlib.h>
#include <string.h>

#include "unit/dataset/numbered.h"

#include "base/base.h"
#include "dataset/dataset.h"

enum { SOURCES = 3, SLOTS = 10, EPOCHS = 3, MOST = 1200, WORLDS = 8 };

static const uint64_t sizes[SOURCES] = {140, 61, 37}, counts[SOURCES] = {5, 3, 2};

typedef struct delivered {
    uint64_t size;
    int64_t at[EPOCHS][MOST]; /* -1: nothing */
} delivered;

typedef struct setting {
    char spec[2000];
    stk_loader_options o;
} setting;

static void make_setting(setting *s, const char *folder, const char *stop)
{
    char inner[SOURCES][400];

    for (int i = 0; i < SOURCES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        numbered_write(folder, name, 1000 * (uint64_t)i, sizes[i]);
        numbered_spec(folder, name, inner[i], sizeof inner[i]);
    }
    snprintf(s->spec, sizeof s->spec, "mix:0.5*(%s),0.3*(%s),0.2*(%s)?stop=%s", inner[0], inner[1],
             inner[2], stop);
    stk_loader_options_init(&s->o);
    s->o.global_batch_size = 14;
    s->o.seed = 77;
    s->o.num_workers = 0;
    s->o.epochs = EPOCHS;
    s->o.memory_budget = 16 << 20;
}

/* Deliver at most `most` batches; from `from` on, if it is given. */
static void deliver(stk_context *ctx, const setting *s, uint64_t most, const stk_loader_state *from,
                    delivered *out, stk_loader_state *state)
{
    stk_dataset *dataset = numbered_open(ctx, s->spec);
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    out->size = dataset->size;
    assert_in_range(dataset->size, 1, MOST);
    assert_ok(stk_loader_create(dataset, &s->o, &loader, &err), &err);
    if (from)
        assert_ok(stk_loader_restore(loader, from, &err), &err);
    for (uint64_t n = 0, ends = 0; n < most && ends < EPOCHS;) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            stk_loader_state now;
            stk_loader_get_state(loader, &now);
            ends = now.epoch >= EPOCHS ? EPOCHS : ends + 1;
            continue;
        }
        assert_ok(status, &err);
        stk_tensor tokens = {.struct_size = sizeof tokens};
        assert_int_equal(stk_batch_find(batch, "tokens", &tokens), STK_OK);
        for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
            int64_t *to = &out->at[stk_batch_epoch(batch)][stk_batch_positions(batch)[r]];
            assert_int_equal(*to, -1);
            *to = ((int64_t *)tokens.data)[r];
        }
        if (state)
            stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
        n++;
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static void nothing_yet(delivered *d)
{
    memset(d, 0xff, sizeof *d);
}

/* ---- Counts ---- */

static void check_epoch(const delivered *d, int epoch, bool shuffled)
{
    uint64_t times[SOURCES][200] = {{0}}, draws[SOURCES] = {0};

    for (uint64_t p = 0; p < d->size; p++) {
        const uint64_t source = (uint64_t)d->at[epoch][p] / 1000,
                       sample = (uint64_t)d->at[epoch][p] % 1000;
        assert_in_range(source, 0, SOURCES - 1);
        assert_in_range(sample, 0, sizes[source] - 1);
        times[source][sample]++;
        draws[source]++;
        if ((p + 1) % SLOTS == 0)
            for (int s = 0; s < SOURCES; s++)
                assert_int_equal(draws[s], (p + 1) / SLOTS * counts[s]);
    }
    for (int s = 0; s < SOURCES; s++)
        for (uint64_t i = 0; i < sizes[s]; i++)
            assert_in_range(times[s][i], draws[s] / sizes[s], draws[s] / sizes[s] + 1);
    if (shuffled) /* not in the order in which they lie */
        assert_int_not_equal(d->at[epoch][0] % 1000 + d->at[epoch][1] % 1000 +
                                 d->at[epoch][2] % 1000 + d->at[epoch][3] % 1000,
                             0 + 0 + 0 + 1);
}

static void test_counts(void **state)
{
    static const char *const stops[] = {"first", "all", "433"};
    static const uint64_t lengths[] = {180, 280, 433};
    char folder[256];
    setting s;
    delivered *d = malloc(sizeof *d);

    test_folder(folder);
    for (size_t k = 0; k < STK_COUNT(stops); k++)
        for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
            make_setting(&s, folder, stops[k]);
            s.o.shuffle = shuffle;
            s.o.block_size = 4;
            s.o.streams = 3;
            s.o.shuffle_buffer = 2;
            nothing_yet(d);
            deliver(*state, &s, UINT64_MAX, NULL, d, NULL);
            assert_int_equal(d->size, lengths[k]);
            for (int epoch = 0; epoch < EPOCHS; epoch++)
                check_epoch(d, epoch, shuffle != STK_SHUFFLE_NONE);
            if (shuffle != STK_SHUFFLE_NONE)
                assert_memory_not_equal(d->at[0], d->at[1], 40 * sizeof d->at[0][0]);
        }
    free(d);
    test_folder_remove(folder);
}

/* ---- Whoever asks ---- */

static void test_workers_and_worlds(void **state)
{
    char folder[256];
    setting s;
    delivered *expected = malloc(sizeof *expected), *got = malloc(sizeof *got);
    uint64_t random = 5;

    test_folder(folder);
    make_setting(&s, folder, "all");
    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        s.o.shuffle = shuffle;
        s.o.world_size = 1;
        s.o.rank = 0;
        s.o.num_workers = 0;
        nothing_yet(expected);
        deliver(*state, &s, UINT64_MAX, NULL, expected, NULL);
        for (uint64_t world = 1; world <= WORLDS; world++) {
            nothing_yet(got);
            s.o.world_size = world;
            for (s.o.rank = 0; s.o.rank < world; s.o.rank++) {
                s.o.num_workers = (int64_t)(test_random(&random) % 4);
                s.o.cache = (int)(test_random(&random) % 3);
                s.o.prefetch_factor = (int64_t)(test_random(&random) % 3) + 1;
                deliver(*state, &s, UINT64_MAX, NULL, got, NULL);
            }
            assert_memory_equal(got, expected, sizeof *got);
        }
    }
    free(expected);
    free(got);
    test_folder_remove(folder);
}

static void test_gone_on_with(void **state)
{
    char folder[256];
    setting s;
    delivered *expected = malloc(sizeof *expected), *got = malloc(sizeof *got);

    test_folder(folder);
    make_setting(&s, folder, "first");
    s.o.shuffle = STK_SHUFFLE_FULL;
    nothing_yet(expected);
    deliver(*state, &s, UINT64_MAX, NULL, expected, NULL);
    for (uint64_t stop = 1; stop < 13 * EPOCHS; stop += 3) {
        stk_loader_state saved;
        nothing_yet(got);
        s.o.world_size = 1;
        s.o.rank = 0;
        deliver(*state, &s, stop, NULL, got, &saved);
        s.o.world_size = stop % WORLDS + 1;
        for (s.o.rank = 0; s.o.rank < s.o.world_size; s.o.rank++)
            deliver(*state, &s, UINT64_MAX, &saved, got, NULL);
        assert_memory_equal(got, expected, sizeof *got);
    }
    free(expected);
    free(got);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_workers_and_worlds),
        cmocka_unit_test(test_gone_on_with),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

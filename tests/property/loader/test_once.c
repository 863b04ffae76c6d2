/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly once: every record of shards of tar, of TFRecord and of a row of tokens, in every epoch,
 * for any number of ranks, also such as divide neither shards nor samples, and after being stopped
 * and gone on with by others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/examples.h"
#include "support/support.h"
#include "support/tars.h"

enum { SHARDS = 5, SAMPLES = 137, GLOBAL = 11, EPOCHS = 2 };

static char folder[256];

/* Shards of other numbers of records: none divides another. */
static uint64_t shard_end(int shard)
{
    static const uint64_t ends[SHARDS] = {1, 30, 31, 98, SAMPLES};

    return ends[shard];
}

static void write_tar(int shard, uint64_t first)
{
    tar_bytes t = {NULL, 0};
    char name[128], text[32];

    for (uint64_t i = first; i < shard_end(shard); i++) {
        snprintf(name, sizeof name, "%06d.cls", (int)i);
        snprintf(text, sizeof text, "%d", (int)i + 1);
        tar_file(&t, name, text, strlen(text));
        snprintf(name, sizeof name, "%06d.txt", (int)i);
        tar_file(&t, name, "some text of any length", 1 + i % 20);
    }
    tar_end(&t);
    snprintf(name, sizeof name, "%d.tar", shard);
    test_write(folder, name, t.data, t.size);
    free(t.data);
}

static void write_tfrecord(int shard, uint64_t first)
{
    proto_bytes shard_bytes = {NULL, 0};
    char name[40];

    for (uint64_t i = first; i < shard_end(shard); i++) {
        const int64_t label = (int64_t)i + 1;
        proto_bytes features = {NULL, 0}, value = {NULL, 0}, example = {NULL, 0};
        put_integers(&value, &label, 1, true);
        put_entry(&features, "label", &value);
        put_message(&example, 1, &features);
        put_record(&shard_bytes, &example);
    }
    snprintf(name, sizeof name, "%d.tfrecord", shard);
    test_write(folder, name, shard_bytes.data, shard_bytes.size);
    free_bytes(&shard_bytes);
}

/* Rows of the numbers from 1 on; of the second, documents of 1 to 7 of them end with 1000. */
static void write_tokens(void)
{
    int64_t numbers[SAMPLES], documents[2 * SAMPLES];
    size_t n = 0, length = 0;

    for (int64_t i = 0; i < SAMPLES; i++) {
        numbers[i] = documents[n++] = i + 1;
        if (++length == 1 + n * 5 % 7) {
            documents[n++] = 1000;
            length = 0;
        }
    }
    test_write(folder, "numbers", numbers, sizeof numbers);
    test_write(folder, "documents", documents, n * sizeof *documents);
}

static const char *const specs[] = {
    "webdataset:%s/{0..4}.tar?index=none",
    "tfrecord:%s/{0..4}.tfrecord?index=none&schema=label:int64",
    "tokens:%s/numbers?length=1&dtype=int64&rename=tokens:label",
    "tokens:%s/documents?length=6&dtype=int64&documents=pack&pack_block=9&eod=1000&"
    "rename=tokens:label",
};

static stk_dataset *open_spec(stk_context *ctx, size_t which)
{
    char spec[500];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, specs[which], folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

/* How often each number came. */
typedef struct counts {
    uint32_t of[SAMPLES + 1];
} counts;

static void count(counts *c, const stk_batch *batch)
{
    stk_tensor label = {.struct_size = sizeof label};
    uint64_t n = 1;

    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    for (uint32_t i = 0; i < label.rank; i++)
        n *= (uint64_t)label.shape[i];
    for (uint64_t i = 0; i < n; i++) {
        const int64_t number = ((int64_t *)label.data)[i];
        if (number == 0 || number == 1000) /* what fills a pack up, or ends a document */
            continue;
        assert_in_range(number, 1, SAMPLES);
        c->of[number]++;
    }
}

static void each_is(const counts *c, uint32_t times)
{
    for (int i = 1; i <= SAMPLES; i++)
        if (c->of[i] != times)
            fail_msg("number %d came %u times and not %u", i, c->of[i], times);
}

static stk_loader_options options(int shuffle, uint64_t rank, uint64_t world)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.global_batch_size = GLOBAL;
    o.shuffle = shuffle;
    o.seed = 3;
    o.block_size = 7;
    o.streams = 4;
    o.shuffle_buffer = 2;
    o.rank = rank;
    o.world_size = world;
    o.epochs = EPOCHS;
    o.num_workers = (int64_t)((rank + world) % 3);
    o.memory_budget = 32 << 20;
    return o;
}

/* Take up to `steps` batches; the ends of epochs are none. False: there are no more. */
static bool take(stk_loader *loader, uint64_t steps, counts *each, stk_loader_state *state)
{
    stk_batch *batch;
    stk_error err;

    for (uint64_t n = 0, ends = 0; n < steps && ends < EPOCHS;) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        stk_loader_state now;
        if (status == STK_EOS) {
            stk_loader_get_state(loader, &now);
            if (now.epoch >= EPOCHS)
                return false;
            ends++;
            continue;
        }
        assert_ok(status, &err);
        assert_in_range(stk_batch_epoch(batch), 0, EPOCHS - 1);
        count(&each[stk_batch_epoch(batch)], batch);
        stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
        n++;
    }
    return true;
}

static void test_epochs(void **state)
{
    for (size_t which = 0; which < sizeof specs / sizeof *specs; which++)
        for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++)
            for (uint64_t world = 1; world <= 8; world++) {
                counts each[EPOCHS] = {{{0}}};
                stk_dataset *d = open_spec(*state, which);
                for (uint64_t rank = 0; rank < world; rank++) {
                    const stk_loader_options o = options(shuffle, rank, world);
                    stk_loader_state last;
                    stk_loader *loader;
                    stk_error err;
                    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
                    take(loader, UINT64_MAX, each, &last);
                    stk_loader_destroy(&loader);
                }
                for (int e = 0; e < EPOCHS; e++)
                    each_is(&each[e], 1);
                stk_dataset_close(&d);
            }
}

/*
 * All ranks take some steps and are gone, with what they had prefetched; others, of another number,
 * open everything anew and go on from the state, until both epochs are over.
 */
static void test_killed(void **state)
{
    for (size_t which = 0; which < sizeof specs / sizeof *specs; which++)
        for (uint64_t steps = 1; steps <= 5; steps += 2) {
            counts each[EPOCHS] = {{{0}}};
            stk_loader_state at = {0};
            uint64_t world = 1 + which, lives = 0, all = 0;
            for (bool more = true; more; world = world % 8 + 1, lives++) {
                stk_dataset *d = open_spec(*state, which);
                stk_loader_state next = at;
                for (uint64_t rank = 0; rank < world; rank++) {
                    const stk_loader_options o = options(STK_SHUFFLE_BLOCK, rank, world);
                    stk_loader *loader;
                    stk_error err;
                    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
                    all = EPOCHS * stk_loader_steps(loader);
                    if (lives)
                        assert_ok(stk_loader_restore(loader, &at, &err), &err);
                    more = take(loader, steps, each, &next);
                    stk_loader_destroy(&loader);
                }
                at = next;
                more = more && at.epoch * (all / EPOCHS) + at.step < all;
                stk_dataset_close(&d);
            }
            for (int e = 0; e < EPOCHS; e++)
                each_is(&each[e], 1);
            assert_int_equal(lives, (all + steps - 1) / steps);
        }
}

static int open_folder(void **state)
{
    uint64_t first = 0;

    test_folder(folder);
    for (int shard = 0; shard < SHARDS; first = shard_end(shard++)) {
        write_tar(shard, first);
        write_tfrecord(shard, first);
    }
    write_tokens();
    return test_context_open(state);
}

static int close_folder(void **state)
{
    test_folder_remove(folder);
    return test_context_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_killed),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record shards: every record comes once in each epoch, in an order that is the same however the
 * records are cut into shards, whatever the store, the workers and the number of ranks, and
 * wherever the run was restored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "support/tars.h"

enum { RECORDS = 61, EPOCHS = 2, GLOBAL = 8, BYTES = 150000 };

/* What came at each position: the label, and a sum of the bytes. */
typedef struct delivered {
    uint64_t at[EPOCHS][RECORDS];
} delivered;

static char folder[256];

/* A record's bytes: of a length and of values of its number. */
static size_t fill(int number, unsigned char *bytes)
{
    const size_t length = BYTES - (size_t)number * 7;

    memset(bytes, number, length);
    return length;
}

static uint64_t sum_of(const void *data, uint64_t length, int64_t label)
{
    const unsigned char *bytes = data;
    uint64_t sum = (uint64_t)label * 1000003 + length;

    for (uint64_t i = 0; i < length; i += 997)
        sum = sum * 31 + bytes[i];
    return sum | 1;
}

/* All records, in `count` shards of sizes that differ. */
static void write_shards(int count)
{
    unsigned char *bytes = malloc(BYTES);
    int number = 0;

    assert_non_null(bytes);
    for (int s = 0; s < count; s++) {
        const int last =
            s + 1 == count ? RECORDS : (s + 1) * (s + 2) * RECORDS / (count * count * 2);
        tar_bytes t = {NULL, 0};
        char name[128], text[32];
        for (; number < last; number++) {
            const size_t length = fill(number, bytes);
            snprintf(name, sizeof name, "%04d.bin", number);
            tar_file(&t, name, bytes, length);
            snprintf(name, sizeof name, "%04d.cls", number);
            snprintf(text, sizeof text, "%d", number);
            tar_file(&t, name, text, strlen(text));
        }
        tar_end(&t);
        snprintf(name, sizeof name, "%d/s-%02d.tar", count, s);
        test_write(folder, name, t.data, t.size);
        free(t.data);
    }
    assert_int_equal(number, RECORDS);
    free(bytes);
}

static int begin(void **state)
{
    test_folder(folder);
    write_shards(1);
    write_shards(3);
    write_shards(7);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    return 0;
}

typedef struct setting {
    int shards;
    bool slow;
    stk_loader_options o;
} setting;

static setting base_setting(int shuffle)
{
    setting s = {.shards = 1};

    stk_loader_options_init(&s.o);
    s.o.global_batch_size = GLOBAL;
    s.o.shuffle = shuffle;
    s.o.shuffle_buffer = 2;
    s.o.seed = 3;
    s.o.num_workers = 0;
    s.o.epochs = EPOCHS;
    s.o.memory_budget = 64 << 20;
    return s;
}

static void take(const stk_batch *batch, delivered *out)
{
    const uint64_t *positions = stk_batch_positions(batch);
    stk_tensor bytes = {.struct_size = sizeof bytes}, label = {.struct_size = sizeof label};

    assert_int_equal(stk_batch_find(batch, "bin", &bytes), STK_OK);
    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
        uint64_t *slot = &out->at[stk_batch_epoch(batch)][positions[r]];
        assert_int_equal(*slot, 0);
        *slot = sum_of((const char *)bytes.data + bytes.offsets[r],
                       (uint64_t)(bytes.offsets[r + 1] - bytes.offsets[r]),
                       ((const int64_t *)label.data)[r]);
    }
}

/* Deliver `stop` batches at most, from a state on where there is one. */
static void run(const setting *s, uint64_t stop, delivered *out, const stk_loader_state *from,
                stk_loader_state *state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch;
    char spec[600];
    stk_error err;

    snprintf(spec, sizeof spec, "webdataset:%s%s/%d%s", s->slow ? "slow+file://" : "", folder,
             s->shards, s->slow ? "?latency=200us&order=random" : "");
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, &s->o, &loader, &err), &err);
    if (from)
        assert_ok(stk_loader_restore(loader, from, &err), &err);
    for (uint64_t n = 0; n < stop;) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        stk_loader_state now;
        if (status == STK_EOS) {
            stk_loader_get_state(loader, &now);
            if (now.epoch >= EPOCHS)
                break;
            continue;
        }
        assert_ok(status, &err);
        take(batch, out);
        if (state)
            stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
        n++;
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* What one process without workers delivers of one shard: each record once in each epoch. */
static void reference(int shuffle, delivered *out)
{
    const setting s = base_setting(shuffle);
    unsigned char *bytes = malloc(BYTES);

    assert_non_null(bytes);
    memset(out, 0, sizeof *out);
    run(&s, UINT64_MAX, out, NULL, NULL);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < RECORDS; i++) {
            const uint64_t wanted = sum_of(bytes, fill(i, bytes), i);
            int times = 0;
            for (int p = 0; p < RECORDS; p++)
                times += out->at[e][p] == wanted;
            assert_int_equal(times, 1);
            if (shuffle == STK_SHUFFLE_NONE)
                assert_int_equal(out->at[e][i], wanted);
        }
    free(bytes);
}

static void test_shards_and_workers(void **state)
{
    static const int shards[] = {1, 3, 7};
    delivered expected, got;

    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        reference(shuffle, &expected);
        for (int i = 0; i < 6; i++) {
            setting s = base_setting(shuffle);
            s.shards = shards[i % 3];
            s.slow = i > 3;
            s.o.num_workers = i % 4;
            s.o.prefetch_factor = 1 + i % 3;
            memset(&got, 0, sizeof got);
            run(&s, UINT64_MAX, &got, NULL, NULL);
            assert_memory_equal(&got, &expected, sizeof got);
        }
    }
}

/* Ranks that divide neither the shards nor the batches. */
static void test_ranks(void **state)
{
    delivered expected, got;

    reference(STK_SHUFFLE_BLOCK, &expected);
    for (uint64_t world = 2; world <= 8; world++) {
        memset(&got, 0, sizeof got);
        for (uint64_t rank = 0; rank < world; rank++) {
            setting s = base_setting(STK_SHUFFLE_BLOCK);
            s.shards = world % 2 ? 3 : 7;
            s.o.world_size = world;
            s.o.rank = rank;
            s.o.num_workers = (int64_t)rank % 2;
            run(&s, UINT64_MAX, &got, NULL, NULL);
        }
        assert_memory_equal(&got, &expected, sizeof got);
    }
}

/* Stopped after some batches and gone on with from other shards of the same records. */
static void test_restored(void **state)
{
    delivered expected, got;

    reference(STK_SHUFFLE_BLOCK, &expected);
    for (uint64_t stop = 1; stop < 16; stop += 4) {
        setting s = base_setting(STK_SHUFFLE_BLOCK);
        stk_loader_state saved;
        s.shards = 7;
        memset(&got, 0, sizeof got);
        run(&s, stop, &got, NULL, &saved);
        for (uint64_t rank = 0; rank < 3; rank++) {
            s.shards = 3;
            s.o.world_size = 3;
            s.o.rank = rank;
            run(&s, UINT64_MAX, &got, &saved, NULL);
        }
        assert_memory_equal(&got, &expected, sizeof got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_and_workers),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_restored),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

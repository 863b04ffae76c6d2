/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share out a training whose tensors lie on devices: what each of them keeps, what a
 * device has to be able to do for it, and failures in the middle of it. */
#include "unit/train/far.h"

static const char *const sharing[] = {"zero_1", "zero_2", "zero_3"};

static void run(uint64_t world, const char *strategy, far_change *change, double timeout)
{
    char folder[256];

    test_folder(folder);
    const far_run like = {
        .strategy = strategy, .folder = folder, .change = change, .timeout = timeout};
    far_run_world(world, &like);
    assert_int_equal(far_missing, 0);
    test_folder_remove(folder);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Tensors of each bucket. */
static const struct {
    int first, last;
} buckets[] = {{0, 0}, {1, 1}, {2, 4}, {5, 5}, {6, 7}};

enum { AT_HAND = 264 + 920 * 4 /* of the buckets of layer b */ };

/* An equal part of each bucket. */
static uint64_t own_bytes(uint64_t world, uint64_t rank)
{
    uint64_t bytes = 0;

    for (size_t b = 0; b < STK_COUNT(buckets); b++) {
        uint64_t elements = 0;
        for (int k = buckets[b].first; k <= buckets[b].last; k++)
            elements += tensors[k].count;
        bytes += (elements / world + (rank < elements % world)) *
                 stk_dtype_size(tensors[buckets[b].first].dtype);
    }
    return bytes;
}

static uint64_t all_bytes(void)
{
    uint64_t bytes = 0;

    for (int k = 0; k < TENSORS; k++)
        bytes += far_size(k);
    return bytes;
}

/* Up to the next granule at each end of what is given back on both sides of a part. */
static bool is_near(uint64_t bytes, uint64_t least)
{
    return bytes >= least && bytes < least + STK_COUNT(buckets) * 4 * GRANULE;
}

static void asks_nothing(far_run *one)
{
    one->module.asks = false;
}

static void parts_are_kept(void **state)
{
    for (uint64_t world = 2; world <= 4; world++)
        for (size_t stage = 0; stage <= STK_COUNT(sharing); stage++) {
            run(world, stage ? sharing[stage - 1] : "ddp", NULL, 0);
            for (uint64_t r = 0; r < world; r++) {
                const far_module *m = &far_all[r].module;
                const uint64_t own = own_bytes(world, r);
                assert_ok(far_all[r].status, &far_all[r].b.err);
                assert_int_equal(m->moment_bytes, MOMENTS * (stage ? own : all_bytes()));
                assert_true(stage >= 2 ? is_near(m->gradients_at_step, own)
                                       : m->gradients_at_step == m->bytes);
                assert_true(stage >= 2 ? m->most_gradients < m->bytes &&
                                             m->most_gradients < own * 2 + AT_HAND
                                       : m->most_gradients == m->bytes);
                assert_true(stage >= 3 ? is_near(m->parameters_at_step, own)
                                       : m->parameters_at_step == m->bytes);
                assert_int_equal(far_all[r].there, 2 * m->bytes);
            }
        }
    /* Rank 0 gives back the rest of b.d and of a.w, all that lies behind its part of b.w, and two
     * tensors that lie apart: before the first step and in each. */
    run(2, "zero_2", NULL, 0);
    assert_int_equal(far_all[0].memory->gives, 5 * (far_all[0].module.updates + 1));
    /* Who says nothing of its layers has all gradients before a pass, and its part behind it. */
    run(3, "zero_2", asks_nothing, 0);
    for (uint64_t r = 0; r < 3; r++) {
        assert_ok(far_all[r].status, &far_all[r].b.err);
        assert_int_equal(far_all[r].module.most_gradients, far_all[r].module.bytes);
        assert_true(is_near(far_all[r].module.gradients_at_step, own_bytes(3, r)));
    }
}

/* ---- Devices that cannot --------------------------------------------------------------------- */

static void all_refuse(const char *strategy, far_change *change, const char *text)
{
    run(2, strategy, change, 0);
    for (int r = 0; r < 2; r++)
        assert_fails(far_all[r].status, STK_ENOTSUP, &far_all[r].b.err, text);
}

static void all_train(const char *strategy, far_change *change)
{
    run(2, strategy, change, 0);
    for (int r = 0; r < 2; r++)
        assert_ok(far_all[r].status, &far_all[r].b.err);
}

static void squeezes(far_run *one)
{
    one->b.options.gradient_compression = STK_GRADIENTS_BF16;
}

static void has_no_shards(far_run *one)
{
    one->module.ops.shard = NULL;
}

static void has_no_shards_and_squeezes(far_run *one)
{
    has_no_shards(one);
    squeezes(one);
}

static void mixes(far_run *one)
{
    one->module.mixed = true;
}

static void are_refused_by_name(void **state)
{
    static const char no_memory[] = "the device 'far' cannot do without (give_back() of its "
                                    "table): train by zero_1";
    static const char no_numbers[] =
        "trainer.gradient_compression: the device 'far' makes no bfloat16 of gradients (convert()";
    stk_context *ctx = test_context();
    stk_error err;

    /* A table of before there were any of these. */
    far_ops.struct_size = offsetof(stk_device_ops, convert);
    all_train("zero_1", NULL);
    all_refuse("zero_2", NULL, "trainer.strategy: zero_2 keeps no memory");
    all_refuse("zero_3", NULL, no_memory);
    all_refuse("fsdp", NULL, no_memory);
    all_refuse("ddp", squeezes, no_numbers);
    far_ops = far_device();
    far_ops.give_back = NULL;
    far_ops.take_back = NULL;
    all_refuse("zero_2", NULL, no_memory);
    all_train("zero_1", squeezes);
    far_ops = far_device();
    far_ops.convert = NULL;
    all_refuse("zero_3", squeezes, no_numbers);
    all_train("zero_3", NULL);
    far_ops = far_device();
    for (int k = 0; k < 2; k++) {
        run(2, k ? "zero_2" : "zero_1", mixes, 0);
        for (int r = 0; r < 2; r++)
            assert_fails(far_all[r].status, STK_EINVAL, &far_all[r].b.err,
                         "has gradients of float32 and of float64 for parameters of one type");
    }
    all_refuse("zero_1", has_no_shards, "the module Far cannot (shard() of its table)");
    all_train("ddp", has_no_shards_and_squeezes);
    far_ops.take_back = NULL;
    assert_fails(stk_driver_add(ctx, STK_DRIVER_DEVICE, &far_ops, &err), STK_EINVAL, &err,
                 "lacks take_back, which goes with give_back");
    far_ops = far_device();
    stk_context_destroy(&ctx);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static uint64_t number; /* of what fails on rank 1 */

static void gives_fail(far_run *one)
{
    one->memory->give_fails_at = one->rank == 1 ? number : 0;
}

static void takes_fail(far_run *one)
{
    one->memory->take_fails_at = one->rank == 1 ? number : 0;
}

static void allocs_fail(far_run *one)
{
    squeezes(one);
    one->memory->alloc_fails_at = one->rank == 1 ? number : 0;
}

static void step_fails(far_run *one)
{
    one->module.fails_at = one->rank == 1 ? number : 0;
}

static void lets_fail(far_run *one)
{
    one->module.lets_fail = one->rank == 1;
}

/* Its failure has its own words, the others are told at once, and all memory is there again. */
static void fails(const char *strategy, far_change *change, uint64_t at, stk_status status,
                  const char *text)
{
    number = at;
    run(3, strategy, change, 60);
    assert_fails(far_all[1].status, status, &far_all[1].b.err, text);
    for (int r = 0; r < 3; r++) {
        assert_true(far_all[r].status < 0);
        assert_int_equal(far_all[r].there, 2 * far_all[r].module.bytes);
    }
}

static void a_rank_fails(void **state)
{
    for (uint64_t at = 1; at < 40; at += 6) {
        fails("zero_2", gives_fail, at, STK_EIO, "unmapping failed on purpose");
        fails("zero_3", gives_fail, at, STK_EIO, "unmapping failed on purpose");
        fails("zero_2", takes_fail, at, STK_ENOMEM, "memory is out on purpose");
        fails("zero_3", takes_fail, at, STK_ENOMEM, "memory is out on purpose");
    }
    fails("zero_3", lets_fail, 0, STK_EIO, "unmapping failed on purpose");
    fails("zero_3", step_fails, 2, STK_EIO, "the step failed on purpose");
}

/* Every one of its allocations. */
static void a_block_fails(void **state)
{
    uint64_t all;

    run(3, "zero_3", squeezes, 0);
    assert_ok(far_all[1].status, &far_all[1].b.err);
    all = far_all[1].memory->allocs;
    assert_true(all > 3 + TENSORS * MOMENTS);
    for (uint64_t at = 1; at <= all; at++)
        fails("zero_3", allocs_fail, at, STK_ENOMEM, "a block failed on purpose");
}

/* A call of NCCL that fails, gets lost or falls: all ranks end, and none has stepped by what was
 * in memory then. */
static void a_call_fails(void **state)
{
    static const stub_fault faults[] = {STUB_FAILS, STUB_LOST, STUB_FALLS};

    for (size_t k = 0; k < STK_COUNT(faults); k++)
        for (size_t i = 1; i < STK_COUNT(sharing); i++) {
            stub->fault = faults[k];
            stub->rank = 1;
            stub->at = 14 + 3 * (int)i; /* behind the broadcasts of what they begin with */
            run(2, sharing[i], NULL, 0.25);
            stub->fault = STUB_FINE;
            for (int r = 0; r < 2; r++) {
                assert_true(far_all[r].status == STK_EIO || far_all[r].status == STK_ETIMEDOUT);
                assert_true(far_all[r].module.updates <= 2);
                assert_string_equal(far_all[r].saved, "");
                assert_int_equal(far_all[r].there, 2 * far_all[r].module.bytes);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_kept), cmocka_unit_test(are_refused_by_name),
        cmocka_unit_test(a_rank_fails),   cmocka_unit_test(a_block_fails),
        cmocka_unit_test(a_call_fails),
    };

    if (!far_load())
        return 1;
    return cmocka_run_group_tests_name("train/nccl_memory", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose gradients lie in the memory of a device, over a library that stands for NCCL: they
 * train as ranks of the host do, and nothing is made of what a failure left in memory. */
#include <dlfcn.h>

#include "unit/dist/network.h"
#include "unit/dist/stub_device.h"
#include "unit/train/line.h"

#define LIBRARY STUB_FOLDER "/stub_nccl.so"

static stub_library *stub;

/* What each rank has beside its run. */
static struct {
    network_end end;
    stk_collectives *c;
    run *one;
} places[MAX_RANKS];
static network net;
static double timeout;     /* of a call */
static atomic_int went_on; /* from waiting for a stream, after NCCL had failed */

/* The module computes on the host, so it waits for the stream first, as who reads from a device. */
static stk_status wait_for(stk_module *module, stk_error *err)
{
    line *self = (line *)module;
    const stk_collectives *c = places[self->rank].c;
    const stk_strategy *s = stk_collectives_strategy(c);
    double copied;

    STK_TRY(stk_trainer_copy(places[self->rank].one->t, &copied, self->weights, sizeof copied,
                             STK_COPY_DEVICE_TO_HOST, err));
    if (s->check(s->state, NULL) != STK_OK)
        went_on++;
    return STK_OK;
}

static stk_status step(stk_module *module, stk_trainer *t, const stk_moment *at, stk_loss *loss,
                       stk_error *err)
{
    STK_TRY(wait_for(module, err));
    return line_step(module, t, at, loss, err);
}

static stk_status update(stk_module *module, const stk_moment *at, stk_error *err)
{
    STK_TRY(wait_for(module, err));
    return line_update(module, at, err);
}

static stk_status validate(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    STK_TRY(wait_for(module, err));
    return line_validate(module, t, at, err);
}

static void leave(run *one)
{
    /* The device is closed by now. */
    assert_null(places[one->self.number].c->nccl);
    stk_collectives_close(&places[one->self.number].c);
}

static void join(run *one)
{
    const uint64_t r = one->self.number;
    stk_collectives_options o;

    stk_collectives_options_init(&o);
    o.nccl = LIBRARY;
    o.collective_timeout = timeout;
    network_self = &places[r].end;
    places[r].end = (network_end){&net, r};
    places[r].one = one;
    assert_ok(stk__collectives_join(one->b.ctx, &network_ops, &o, &places[r].c, &one->err),
              &one->err);
    one->strategy = stk_collectives_strategy(places[r].c);
    one->finish = leave;
    assert_ok(stk_driver_add(one->b.ctx, STK_DRIVER_DEVICE, &stub_device, &one->err), &one->err);
    one->b.options.accelerator = "stub";
    one->module.far = true;
    one->module.ops.training_step = step;
    one->module.ops.optimizer_step = update;
    one->module.ops.validation_step = validate;
}

static void train(run *all, uint64_t world, const char *folder, prepare_fn *prepare)
{
    ranks shared;

    net = (network){.world = world};
    pthread_mutex_init(&net.lock, NULL);
    stub->calls = stub->joined = stub->aborted = stub->destroyed = 0;
    run_all(all, world, folder, NULL, prepare, &shared);
    pthread_mutex_destroy(&net.lock);
    assert_int_equal(stub->one_sided, 0);
    assert_int_equal(went_on, 0);
    /* Those that meet as threads were not asked. */
    assert_int_equal(shared.reduces[0] + shared.broadcasts, 0);
}

static void the_same_as_one(void **state)
{
    run alone[1], all[MAX_RANKS];
    char folder[256];
    ranks shared;

    stub->fault = STUB_FINE;
    timeout = 60;
    test_folder(folder);
    run_all(alone, 1, folder, NULL, NULL, &shared);
    assert_ok(alone->status, &alone->err);
    for (uint64_t world = 2; world <= 3; world++) {
        train(all, world, folder, join);
        for (uint64_t i = 0; i < world; i++) {
            assert_ok(all[i].status, &all[i].err);
            assert_int_equal(all[i].module.updates, 3 * STEPS);
            assert_close(all[i].module.weights[0], alone->module.weights[0]);
            assert_close(all[i].module.weights[1], alone->module.weights[1]);
            assert_true(all[i].module.weights[0] == all[0].module.weights[0]);
            assert_close(all[i].loss, alone->loss);
            assert_close(all[i].val, alone->val);
        }
        /* Parameters and gradients went over NCCL: at least a sum for each step. */
        assert_true(stub->calls > (int)world * 3 * STEPS);
        assert_int_equal(stub->destroyed, world);
        assert_int_equal(stub->aborted, 0);
    }
    test_folder_remove(folder);
}

/* A sum in the middle never ends: all fail, in time, with what became of it, and no rank takes what
 * was in memory for gradients. */
static void a_sum_is_lost(void **state)
{
    static const stub_fault faults[] = {STUB_LOST, STUB_FALLS};
    run all[MAX_RANKS];
    char folder[256];

    timeout = 1;
    for (size_t k = 0; k < STK_COUNT(faults); k++) {
        test_folder(folder);
        stub->fault = faults[k];
        stub->rank = 1;
        stub->at = 9;
        train(all, 2, folder, join);
        for (int i = 0; i < 2; i++) {
            assert_true(all[i].status < 0);
            assert_true(all[i].module.updates < STEPS);
            assert_string_equal(all[i].best, "");
        }
        assert_fails(all[0].status, STK_ETIMEDOUT, &all[0].err, "has not ended for 1 s");
        assert_int_equal(all[1].status, k ? STK_EIO : STK_ETIMEDOUT);
        assert_int_equal(stub->aborted, 2);
        test_folder_remove(folder);
    }
}

static void join_compressed(run *one)
{
    join(one);
    one->b.options.gradient_compression = STK_GRADIENTS_BF16;
}

/* Of a device that cannot. */
static void not_compressed(void **state)
{
    run all[MAX_RANKS];
    char folder[256];

    stub->fault = STUB_FINE;
    timeout = 60;
    test_folder(folder);
    train(all, 2, folder, join_compressed);
    for (int i = 0; i < 2; i++)
        assert_fails(all[i].status, STK_ENOTSUP, &all[i].err,
                     "trainer.gradient_compression: the device 'stub' makes no bfloat16 of "
                     "gradients (convert() of its table)");
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_one),
        cmocka_unit_test(a_sum_is_lost),
        cmocka_unit_test(not_compressed),
    };

    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    stub = handle ? dlsym(handle, "stub_nccl") : NULL;
    if (!stub) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return cmocka_run_group_tests_name("train/nccl", tests, NULL, NULL);
}

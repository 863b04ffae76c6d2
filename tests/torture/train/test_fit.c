/* SPDX-License-Identifier: Apache-2.0 */
/* Fail the n-th allocation, thread start and call on files of a short fit with everything switched
 * on, for every n: the status must be right, nothing may leak, hang or crash. */
#include <unistd.h>

#include "support/faulty_files.h"
#include "support/faulty_threads.h"
#include "unit/train/tiny.h"

static faults memory_faults = {.left = FAULTS_NONE};

static stk_status add_by_name(stk_trainer *t, const stk_callback_ops *ops, const char *name,
                              const char *value, stk_error *err)
{
    uint64_t room[64];

    stk_options_init(ops->options, room, sizeof room);
    if (name)
        STK_TRY(stk_options_set(ops->options, room, name, value, err));
    return stk_trainer_add_callback(t, ops, room, NULL, err);
}

static stk_status add_callbacks(stk_trainer *t, stk_error *err)
{
    STK_TRY(add_by_name(t, &stk__callback_ema, NULL, NULL, err));
    STK_TRY(add_by_name(t, &stk__callback_early_stopping, "monitor", "val_loss", err));
    STK_TRY(add_by_name(t, &stk__callback_lr_monitor, NULL, NULL, err));
    STK_TRY(add_by_name(t, &stk__callback_throughput, NULL, NULL, err));
    STK_TRY(stk_trainer_add_hparam(t, "batch_size", "4", err));
    return add_by_name(t, &stk__callback_model_checkpoint, "monitor", "val_loss", err);
}

/* Fit, then go on from what was saved. */
static stk_status fits(stk_context *ctx, const char *folder, stk_error *err)
{
    stk_loader_options loader;
    stk_trainer_options options;
    stk_dataset *dataset = NULL;
    tiny module;
    stk_status status = stk_dataset_open(ctx, "synthetic:?size=8&shape=2x2x1", &dataset, err);

    stk_loader_options_init(&loader);
    loader.batch_size = 4;
    loader.num_workers = 0;
    loader.memory_budget = 8 << 20;
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_trainer_data data = {
        .struct_size = sizeof data, .train = &source, .val = &source, .num_val = 1};
    stk_trainer_options_init(&options);
    options.default_root_dir = folder;
    options.logger = "csv";
    options.log_every_n_steps = 1;
    options.nan_policy = STK_NAN_REWIND;
    for (int run = 0; run < 2 && status == STK_OK; run++) {
        stk_trainer *t = NULL;
        tiny_init(&module);
        options.max_epochs = run + 1;
        status = stk_trainer_create(ctx, &options, &t, err);
        if (status == STK_OK)
            status = add_callbacks(t, err);
        if (status == STK_OK)
            status = stk_trainer_fit(t, &module.base, &data, run ? "last" : NULL, err);
        stk_trainer_destroy(&t);
    }
    stk_dataset_close(&dataset);
    return status;
}

static stk_status program(stk_error *err)
{
    stk_context_options o;
    stk_context *ctx = NULL;
    char folder[256];

    test_folder(folder);
    stk_error_init(err);
    stk_context_options_init(&o);
    o.allocator = (stk_allocator){faulty_alloc, faulty_free, &memory_faults};
    o.io_engine = STK_IO_THREADS;
    stk_status status = stk_context_create(&o, &ctx, err);
    if (status == STK_OK)
        status = fits(ctx, folder, err);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
    if (memory_faults.held != 0)
        fail_msg("%s: %lld blocks left; %s", stk_status_name(status), (long long)memory_faults.held,
                 err->text);
    return status;
}

static void fail_each(faults *f, stk_status expected)
{
    stk_error err;

    for (int64_t n = 0;; n++) {
        f->left = n;
        stk_status status = program(&err);
        const bool struck = fault_struck(f);
        f->left = FAULTS_NONE;
        /* A logger without memory is left alone, and the run goes on. */
        if (status != STK_OK && status != expected)
            fail_msg("call %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
        if (!struck) {
            assert_int_equal(status, STK_OK);
            break;
        }
        assert_true(n < 20000);
    }
}

static void each_allocation_fails(void **state)
{
    fail_each(&memory_faults, STK_ENOMEM);
}

static void each_thread_start_fails(void **state)
{
    fail_each(&thread_faults, STK_ETHREAD);
}

static void each_call_on_files_fails(void **state)
{
    fail_each(&file_faults, STK_EIO);
    file_faults.for_good = true;
    fail_each(&file_faults, STK_EIO);
}

int main(void)
{
    /* Thousands of durable files: in memory, where that is quick. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(each_thread_start_fails),
        cmocka_unit_test(each_call_on_files_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

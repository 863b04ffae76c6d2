/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is killed again and again, at any moment, and goes on each time, ends with the bits of
 * one that was left alone: with dropout-like noise, accumulation, EMA, within epochs. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit/train/tiny.h"

enum { KILLS = 50, SAMPLES = 240000 };

/* Train to the end, from the newest checkpoint below `folder`; the weights go into `out`. */
static stk_status train(const char *folder, int64_t workers, float out[TINY_SIZE], stk_error *err)
{
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_trainer *t = NULL;
    stk_loader_options loader;
    stk_trainer_options options;
    uint64_t room[64];
    tiny module;
    char spec[80], dir[300];

    snprintf(spec, sizeof spec, "synthetic:?size=%d&shape=2x2x1", SAMPLES);
    snprintf(dir, sizeof dir, "%s/checkpoints", folder);
    STK_TRY(stk_context_create(NULL, &ctx, err));
    STK_TRY(stk_dataset_open(ctx, spec, &dataset, err));
    stk_loader_options_init(&loader);
    loader.batch_size = 5;
    loader.shuffle = STK_SHUFFLE_FULL;
    loader.num_workers = workers;
    loader.memory_budget = 8 << 20;
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_trainer_options_init(&options);
    options.default_root_dir = folder;
    options.max_epochs = 2;
    options.accumulate_grad_batches = 3;
    options.logger = "false";
    options.enable_progress_bar = STK_SWITCH_FALSE;
    STK_TRY(stk_trainer_create(ctx, &options, &t, err));
    STK_TRY(stk_trainer_add_callback(t, &stk__callback_ema, NULL, NULL, err));
    const stk_option_table *table = stk__callback_model_checkpoint.options;
    stk_options_init(table, room);
    STK_TRY(stk_options_set(table, room, "dirpath", dir, err));
    STK_TRY(stk_options_set(table, room, "every_n_train_steps", "7", err));
    STK_TRY(stk_trainer_add_callback(t, &stk__callback_model_checkpoint, room, NULL, err));
    tiny_init(&module);
    module.lr = 1e-4f;
    STK_TRY(stk_trainer_fit(t, &module.base, &data, "last", err));
    memcpy(out, module.weight, sizeof module.weight);
    stk_trainer_destroy(&t);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return STK_OK;
}

/* One life of the run: how it ended; -1: killed. */
static int live(const char *folder, int64_t workers, uint64_t microseconds, const char *result)
{
    const struct timespec nap = {.tv_nsec = (long)microseconds * 1000};
    float weight[TINY_SIZE];
    stk_error err;
    int status;

    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = train(folder, workers, weight, &err) == STK_OK;
        FILE *file = good ? fopen(result, "wb") : NULL;
        if (!good)
            fprintf(stderr, "%s\n", err.text);
        good = file && fwrite(weight, sizeof weight, 1, file) == 1 && fclose(file) == 0;
        _exit(good ? 0 : 1);
    }
    if (microseconds) {
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void read_result(const char *path, float out[TINY_SIZE])
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    assert_int_equal(fread(out, sizeof(float), TINY_SIZE, file), TINY_SIZE);
    fclose(file);
}

static void killed_again_and_again(void **state)
{
    float straight[TINY_SIZE], survived[TINY_SIZE];
    char one[256], other[256], result[300];
    uint64_t random = 7;
    int kills = 0;

    test_folder(one);
    test_folder(other);
    snprintf(result, sizeof result, "%s/result", one);
    assert_int_equal(live(one, 0, 0, result), 0);
    read_result(result, straight);
    snprintf(result, sizeof result, "%s/result", other);
    for (int ended = -1; ended != 0;) {
        const uint64_t nap = kills < KILLS ? 300 + test_random(&random) % 9000 : 0;
        ended = live(other, (int64_t)(test_random(&random) % 3), nap, result);
        assert_true(ended <= 0);
        kills += ended < 0;
    }
    read_result(result, survived);
    assert_memory_equal(straight, survived, sizeof straight);
    print_message("%d kills\n", kills);
    test_folder_remove(one);
    test_folder_remove(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_again_and_again)};

    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

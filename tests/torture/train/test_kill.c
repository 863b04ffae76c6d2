/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is killed again and again, at any moment, and goes on each time, ends with the bits of
 * one that was left alone: with dropout-like noise, accumulation, EMA, within epochs. What a kill
 * costs is counted: no checkpoint that was on the disk is lost, and no more than the steps since.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/same_checkpoint.h"
#include "unit/train/tiny.h"

enum {
    KILLS = 50,
    SAMPLES = 240000,
    BATCH = 5,
    WINDOW = 3,
    EPOCHS = 2,
    STEPS = SAMPLES / BATCH / WINDOW * EPOCHS,
    EVERY = 7 /* steps from save to save */
};

/* What is known of a run, whenever it dies: in memory that its killer has, too. */
typedef struct witness {
    atomic_ulong resumed; /* the step that it went on from */
    atomic_ulong steps;   /* done so far */
    atomic_ulong begun;   /* of its newest save */
    atomic_ulong named;   /* of the newest file that was given its name */
    atomic_ulong durable; /* of the newest whose name is on the disk, too */
} witness;

static witness *seen;

/* ---- What a run says of itself --------------------------------------------------------------- */

/* These stand before the C library's own: the static library calls them. */
int renameat2(int from_folder, const char *from, int folder, const char *to, unsigned flags)
{
    const char *step = strstr(to, "-step=");

    if (syscall(SYS_renameat2, from_folder, from, folder, to, flags) != 0)
        return -1;
    if (seen && step)
        atomic_store(&seen->named, strtoul(step + strlen("-step="), NULL, 10));
    return 0;
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    return renameat2(from_folder, from, folder, to, 0);
}

int fsync(int fd)
{
    const unsigned long named = seen ? atomic_load(&seen->named) : 0;
    struct stat st;

    if (syscall(SYS_fsync, fd) != 0)
        return -1;
    if (seen && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        atomic_store(&seen->durable, named);
    return 0;
}

static stk_status on_train_start(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    const uint64_t step = stk_trainer_global_step(t);

    atomic_store(&seen->resumed, step);
    atomic_store(&seen->begun, step);
    atomic_store(&seen->durable, step);
    return STK_OK;
}

/* Callbacks that save come after this one. */
static stk_status on_train_batch_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    atomic_store(&seen->steps, stk_trainer_global_step(t));
    return STK_OK;
}

static stk_status on_save_checkpoint(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                     stk_error *err)
{
    atomic_store(&seen->begun, stk_trainer_global_step(t));
    return STK_OK;
}

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err);

static void destroy(stk_callback *self)
{
    free(self);
}

static const stk_callback_ops watcher = {.struct_size = sizeof watcher,
                                         .name = "witness",
                                         .create = create,
                                         .destroy = destroy,
                                         .on_train_start = on_train_start,
                                         .on_train_batch_end = on_train_batch_end,
                                         .on_save_checkpoint = on_save_checkpoint};

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err)
{
    *out = malloc(sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&watcher, ctx};
    return STK_OK;
}

/* ---- A run ----------------------------------------------------------------------------------- */

static stk_status add_callbacks(stk_trainer *t, const char *folder, stk_error *err)
{
    const stk_option_table *table = stk__callback_model_checkpoint.options;
    uint64_t room[64];
    char dir[300], every[16];

    snprintf(dir, sizeof dir, "%s/checkpoints", folder);
    snprintf(every, sizeof every, "%d", EVERY);
    STK_TRY(stk_trainer_add_callback(t, &watcher, NULL, NULL, err));
    STK_TRY(stk_trainer_add_callback(t, &stk__callback_ema, NULL, NULL, err));
    stk_options_init(table, room, sizeof room);
    STK_TRY(stk_options_set(table, room, "dirpath", dir, err));
    STK_TRY(stk_options_set(table, room, "every_n_train_steps", every, err));
    return stk_trainer_add_callback(t, &stk__callback_model_checkpoint, room, NULL, err);
}

/* Train to the end, from the newest checkpoint below `folder`; the weights go into `out`. */
static stk_status train(const char *folder, int64_t workers, float out[TINY_SIZE], stk_error *err)
{
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_trainer *t = NULL;
    stk_loader_options loader;
    stk_trainer_options options;
    tiny module;
    char spec[80];

    snprintf(spec, sizeof spec, "synthetic:?size=%d&shape=2x2x1", SAMPLES);
    STK_TRY(stk_context_create(NULL, &ctx, err));
    STK_TRY(stk_dataset_open(ctx, spec, &dataset, err));
    stk_loader_options_init(&loader);
    loader.batch_size = BATCH;
    loader.shuffle = STK_SHUFFLE_FULL;
    loader.num_workers = workers;
    loader.memory_budget = 8 << 20;
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_trainer_options_init(&options);
    options.default_root_dir = folder;
    options.max_epochs = EPOCHS;
    options.accumulate_grad_batches = WINDOW;
    options.logger = "false";
    options.enable_progress_bar = STK_SWITCH_FALSE;
    STK_TRY(stk_trainer_create(ctx, &options, &t, err));
    STK_TRY(add_callbacks(t, folder, err));
    tiny_init(&module);
    module.lr = 1e-4f;
    STK_TRY(stk_trainer_fit(t, &module.base, &data, "last", err));
    memcpy(out, module.weight, sizeof module.weight);
    stk_trainer_destroy(&t);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return STK_OK;
}

static void nap_ns(long ns)
{
    const struct timespec nap = {.tv_nsec = ns};

    nanosleep(&nap, NULL);
}

/* One life of the run, killed a moment after it has done `target` steps (0: not at all): how it
 * ended; -1: killed. */
static int live(const char *folder, int64_t workers, unsigned long target, long moment_ns,
                const char *result)
{
    float weight[TINY_SIZE];
    stk_error err;
    int status = 0;

    atomic_store(&seen->steps, 0);
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
    pid_t ended = 0;
    while (target && !ended && atomic_load(&seen->steps) < target) {
        nap_ns(20000);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (target && !ended) {
        nap_ns(moment_ns);
        kill(child, SIGKILL);
    }
    if (!ended)
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

/* ---- What a kill costs ----------------------------------------------------------------------- */

/* When it was killed; it went on from `resumed`. What was on the disk is there. What is done again
 * is at most the steps between two saves, and those that were made while the save between was being
 * written: the next one waits for it. */
static void check_cost(const witness *killed, unsigned long resumed)
{
    const unsigned long steps = killed->steps, begun = killed->begun, durable = killed->durable;
    const unsigned long writing = begun > durable ? steps - (durable + EVERY) : 0;

    assert_true(resumed >= durable);
    assert_true(resumed <= begun);
    assert_true(resumed % EVERY == 0);
    /* Saves go one after another, none is left out. */
    assert_true(begun == steps / EVERY * EVERY || begun + EVERY == steps / EVERY * EVERY);
    if (begun == durable)
        assert_true(steps - resumed <= EVERY);
    assert_true(steps - resumed <= EVERY + writing);
    assert_true(writing <= EVERY);
}

/* Steps after which it is killed: in each part of the run in turn, and at the end of an epoch. A
 * tenth is left at the end, as it goes on until the kill arrives. */
static unsigned long draw_target(int kill, uint64_t *random)
{
    const unsigned long part = STEPS / 10 * 9 / KILLS, from = part * (unsigned long)kill;

    if (from < STEPS / EPOCHS && STEPS / EPOCHS <= from + part)
        return STEPS / EPOCHS;
    return from + 2 * EVERY + test_random(random) % (part - 2 * EVERY);
}

static void killed_again_and_again(void **state)
{
    float straight[TINY_SIZE], survived[TINY_SIZE];
    char one[256], other[256], result[300], a[512], b[512];
    unsigned long most = 0, sum = 0;
    stk_context *ctx = test_context();
    uint64_t random = 7;
    int kills = 0;
    stk_error err;

    test_folder(one);
    test_folder(other);
    snprintf(result, sizeof result, "%s/result", one);
    assert_int_equal(live(one, 0, 0, 0, result), 0);
    read_result(result, straight);
    assert_int_equal(atomic_load(&seen->steps), STEPS);
    memset(seen, 0, sizeof *seen);
    snprintf(result, sizeof result, "%s/result", other);
    for (int ended = -1; ended != 0;) {
        const witness killed = *seen;
        const unsigned long target = kills < KILLS ? draw_target(kills, &random) : 0;
        ended = live(other, (int64_t)(test_random(&random) % 3), target,
                     (long)(test_random(&random) % 500000), result);
        assert_true(ended <= 0);
        if (kills) {
            const unsigned long lost = killed.steps - seen->resumed;
            assert_true(seen->resumed > 0);
            check_cost(&killed, seen->resumed);
            most = STK_MAX(most, lost);
            sum += lost;
        }
        kills += ended < 0;
    }
    /* On a machine that is late a run may end before its kill. */
    assert_true(kills > KILLS / 2);
    read_result(result, survived);
    assert_memory_equal(straight, survived, sizeof straight);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = one}, a, sizeof a, &err),
              &err);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = other}, b, sizeof b, &err),
              &err);
    assert_same_checkpoints(a, b);
    print_message("%d kills, each cost %.1f steps, %lu at most; saved every %d\n", kills,
                  (double)sum / kills, most, EVERY);
    stk_context_destroy(&ctx);
    test_folder_remove(one);
    test_folder_remove(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_again_and_again)};

    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        return 1;
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

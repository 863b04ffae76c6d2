/* SPDX-License-Identifier: Apache-2.0 */
/* The command `stoker train` as its users run it: killed at any moment and gone on with; stopped.
 */
#include "support/same_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"

/* Runs to kill; `./dev kill N` sets STOKER_TEST_KILLS. */
#define KILLS 3

enum { SAID = 65536 }; /* bytes kept of what it said */

static const char config[] =
    "data: {dataset: 'digits:?size=1024', val_split: 128}\n"
    "loader: {batch_size: 64, shuffle: true,\n"
    "         transforms: 'random_crop(28, padding=2), normalize(mnist)'}\n"
    "model: {layers: [flatten, linear(48), relu, dropout(0.2), linear(10)]}\n"
    "lr_scheduler: {name: cosine}\n"
    "module: {interval: step}\n"
    "trainer: {max_epochs: 8, seed_everything: 7, accumulate_grad_batches: 3, limit_test_batches: "
    "1,\n"
    "          log_every_n_steps: 1}\n"
    "callbacks:\n"
    "  - ema(decay=0.9)\n"
    "  - model_checkpoint(every_n_train_steps=3, save_last=true)\n";

/* Of this configuration: 14 batches of 64 by threes. */
enum { STEPS_OF_EPOCH = 5, CHECKPOINT_EVERY = 3 };

static char folder[256];
static const char *binary;

static int set_up(void **state)
{
    test_folder(folder);
    test_write(folder, "config.yaml", config, sizeof config - 1);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    return 0;
}

/* Start it with logs and checkpoints below `root` of the test's folder. What it says goes to
 * root.txt. */
static pid_t start(const char *root, int workers, bool resume)
{
    char number[16], out[64];

    snprintf(number, sizeof number, "%d", workers);
    snprintf(out, sizeof out, "%s.txt", root);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(folder) != 0)
            _exit(99);
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execl(binary, binary, "train", "config.yaml", "--default-root-dir", root, "--num-workers",
              number, resume ? "--ckpt-path" : NULL, "last", NULL);
        _exit(99);
    }
    assert_true(pid > 0);
    return pid;
}

static int wait_for(pid_t pid)
{
    int how;

    while (waitpid(pid, &how, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* What it has said. */
static void read_said(const char *root, char text[SAID])
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s.txt", folder, root);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, SAID - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
}

static void show(const char *root)
{
    char text[SAID];

    read_said(root, text);
    print_message("%s: %s\n", root, text);
}

/* The checkpoint at the end of the training. */
static void last_file(const char *root, char path[512])
{
    char pattern[512];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/%s/lightning_logs/version_*/checkpoints/last*", folder,
             root);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    snprintf(path, 512, "%s", found.gl_pathv[0]);
    for (size_t i = 1; i < found.gl_pathc; i++) {
        /* version_10 follows version_9 */
        if (strlen(found.gl_pathv[i]) >= strlen(path))
            snprintf(path, 512, "%s", found.gl_pathv[i]);
    }
    globfree(&found);
}

/* The last checkpoints of both runs. */
static void assert_same_end(const char *a_root, const char *b_root)
{
    char a[512], b[512];

    last_file(a_root, a);
    last_file(b_root, b);
    assert_same_checkpoints(a, b);
}

/* ---- metrics.csv ---- */

enum { MAX_CELLS = 1024 };

/* A value as it stands there. */
typedef struct cell {
    long step;
    char name[32], value[32];
} cell;

/* Add the values of one line; `names` is the first line. */
static size_t add_cells(const char *names, const char *line, cell *cells, size_t n)
{
    const size_t first = n;
    long step = -1;

    while (*names && *line) {
        const size_t name = strcspn(names, ",\n"), value = strcspn(line, ",\n");
        if (name == 4 && strncmp(names, "step", 4) == 0)
            step = strtol(line, NULL, 10);
        else if (value > 0) {
            assert_true(n < MAX_CELLS && name < sizeof cells->name && value < sizeof cells->value);
            snprintf(cells[n].name, sizeof cells->name, "%.*s", (int)name, names);
            snprintf(cells[n++].value, sizeof cells->value, "%.*s", (int)value, line);
        }
        names += name + (names[name] == ',');
        line += value + (line[value] == ',');
        if (*line == '\n')
            break;
    }
    for (size_t i = first; i < n; i++)
        cells[i].step = step;
    return n;
}

/* All values of the run's latest version, 0 where it has none. */
static size_t read_cells(const char *root, unsigned version, cell *cells)
{
    char path[512], text[SAID];

    snprintf(path, sizeof path, "%s/%s/lightning_logs/version_%u/metrics.csv", folder, root,
             version);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, SAID - 1, f) : 0, count = 0;
    if (f)
        fclose(f);
    text[n] = 0;
    assert_true(n < SAID - 1);
    for (char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
        /* A line without its end is what a kill leaves. */
        if (strchr(line + 1, '\n'))
            count = add_cells(text, line + 1, cells, count);
    return count;
}

static bool has_cell(const cell *cells, size_t n, const cell *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (cells[i].step == wanted->step && strcmp(cells[i].name, wanted->name) == 0 &&
            strcmp(cells[i].value, wanted->value) == 0)
            return true;
    return false;
}

/* Values of the one are values of the other, from a step on. */
static void assert_cells_in(const cell *some, size_t num_some, const cell *all, size_t num_all,
                            long from)
{
    for (size_t i = 0; i < num_some; i++)
        if (some[i].step >= from && !has_cell(all, num_all, &some[i]))
            fail_msg("metrics.csv: step %ld: no %s=%s", some[i].step, some[i].name, some[i].value);
}

/* Whatever any of the runs wrote, the undisturbed one wrote; and the last run, which went on from
 * step `from`, wrote all that was left. */
static void assert_same_metrics(const char *whole, const char *root, unsigned versions, long from)
{
    static cell all[MAX_CELLS], some[MAX_CELLS];
    const size_t num_all = read_cells(whole, 0, all);
    size_t num_some = 0;
    char path[512];

    assert_true(num_all > 40);
    for (unsigned version = 0; version < versions; version++) {
        /* One that was killed at once has no folder. */
        snprintf(path, sizeof path, "%s/%s/lightning_logs/version_%u", folder, root, version);
        if (access(path, F_OK) != 0)
            break;
        num_some = read_cells(root, version, some);
        assert_cells_in(some, num_some, all, num_all, 0);
    }
    assert_cells_in(all, num_all, some, num_some, from);
}

/* ---- Kills ---- */

static long step_of(const char *path)
{
    stk_context *ctx = test_context();
    stk__checkpoint *checkpoint;
    stk_error err;

    assert_ok(stk__checkpoint_open(ctx, path, &checkpoint, &err), &err);
    const long step = strtol(stk__checkpoint_find_text(checkpoint, STK__CHECKPOINT_STEP), NULL, 10);
    stk__checkpoint_close(&checkpoint);
    stk_context_destroy(&ctx);
    assert_true(step > 0);
    return step;
}

/* The step of the checkpoint that a run says it went on from; 0: from none. */
static long restored_step(const char *said)
{
    static const char before[] = "Restoring states from the checkpoint path at ";
    const char *at = strstr(said, before);
    char path[512];

    if (!at)
        return 0;
    at += sizeof before - 1;
    snprintf(path, sizeof path, "%s/%.*s", folder, (int)strcspn(at, "\n"), at);
    return step_of(path);
}

/* Steps that a run had done for certain when it died: of the epochs that it said are over. */
static long steps_done(const char *said)
{
    long done = 0;

    for (const char *at = said; (at = strstr(at, "Epoch ")); at += 6) {
        const size_t line = strcspn(at, "\n");
        const char *end = strstr(at, ": 100%");
        if (end && (size_t)(end - at) < line)
            done = (strtol(at + 6, NULL, 10) + 1) * STEPS_OF_EPOCH;
    }
    return done;
}

/* The highest step of a run's checkpoints; 0: there is none. What has its name is whole. */
static long newest_file(const char *root)
{
    char pattern[512];
    glob_t found;
    long newest = 0;

    snprintf(pattern, sizeof pattern, "%s/%s/lightning_logs/version_*/checkpoints/*.safetensors",
             folder, root);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        newest = STK_MAX(newest, step_of(found.gl_pathv[i]));
    globfree(&found);
    return newest;
}

/* The least step that a run which had done `steps` may be set back to: its last save may still be
 * on the way to the disk, but was not begun before the one before was there. */
static long least_kept(long steps)
{
    return STK_MAX((steps / CHECKPOINT_EVERY - 1) * CHECKPOINT_EVERY, 0L);
}

static void pause_ms(uint64_t ms)
{
    const struct timespec t = {.tv_sec = (time_t)(ms / 1000),
                               .tv_nsec = (long)(ms % 1000 * 1000000)};

    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Kill runs of one training at drawn moments until one comes to its end, or `kills` are dead; then
 * let it. Returns how many were killed. */
static unsigned chain(const char *root, unsigned kills, double seconds, uint64_t *random,
                      unsigned *restored)
{
    static unsigned strike = 3;
    unsigned killed = 0, lives = 0;
    long before = 0, kept = 0;
    char text[SAID];
    int code;

    do {
        pid_t pid = start(root, (int)(test_random(random) % 3), true);
        if (killed < kills) {
            /* In each eighth of a whole run in turn. */
            const double part =
                (double)(strike++ % 8) + (double)(test_random(random) % 1000) / 1000;
            pause_ms((uint64_t)(seconds * 1000 * part / 8));
            kill(pid, SIGKILL);
        }
        code = wait_for(pid);
        if (code != 0 && code != 128 + SIGKILL)
            show(root);
        assert_true(code == 0 || code == 128 + SIGKILL);
        killed += code != 0;
        read_said(root, text);
        /* It went on from the newest that the one before had left, if it came so far. */
        const long step = restored_step(text);
        if (step > 0 || steps_done(text) > 0)
            assert_int_equal(step, kept);
        assert_true(newest_file(root) >= least_kept(steps_done(text)));
        kept = newest_file(root);
        assert_true(kept >= before);
        before = STK_MAX(before, step);
        *restored += step > 0;
        lives++;
    } while (code != 0);
    assert_same_metrics("whole", root, lives, before);
    return killed;
}

/* However often it is killed, at whatever moment, before its first step, within a save or after its
 * last, and with whatever workers it goes on: the same bits at the end. */
static void test_kill(void **state)
{
    const char *given = getenv("STOKER_TEST_KILLS");
    const unsigned kills = given && *given ? (unsigned)strtoul(given, NULL, 10) : KILLS;
    uint64_t random = 20260731;
    unsigned killed = 0, restored = 0, chains = 0;
    char root[16];

    double seconds = now();
    assert_int_equal(wait_for(start("whole", 1, false)), 0);
    seconds = now() - seconds;
    /* At least one has to go on from a checkpoint: a kill may come before there is any. */
    while (killed < kills || restored == 0) {
        snprintf(root, sizeof root, "chain%u", chains++);
        killed += chain(root, killed < kills ? kills - killed : 1, seconds, &random, &restored);
        assert_same_end("whole", root);
    }
    print_message("%u runs of %u trainings were killed, %u went on from a checkpoint\n", killed,
                  chains, restored);
}

/* Whoever reads what it says may go away, as `head -1` does: the training goes on to its end. */
static void test_pipe(void **state)
{
    int ends[2];
    char first;

    assert_int_equal(wait_for(start("whole", 1, false)), 0);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(folder) != 0)
            _exit(99);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(binary, binary, "train", "config.yaml", "--default-root-dir", "piped", NULL);
        _exit(99);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &first, 1), 1);
    close(ends[0]);
    /* Its result could not be written; all else is there. */
    assert_int_equal(wait_for(pid), 1);
    assert_same_end("whole", "piped");
}

/* A polite signal: the step is finished, the state saved, the code says which signal it was. */
static void test_stop(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};

    assert_int_equal(wait_for(start("whole", 1, false)), 0);
    for (size_t i = 0; i < 2; i++) {
        char root[16], path[512];
        snprintf(root, sizeof root, "stop%zu", i);
        pid_t pid = start(root, 1, false);
        /* It is well under way when its first checkpoint is there. */
        snprintf(path, sizeof path, "%s/%s/lightning_logs/version_0/checkpoints/last.safetensors",
                 folder, root);
        for (int tries = 0; access(path, F_OK) != 0 && tries < 20000; tries++)
            pause_ms(1);
        kill(pid, signals[i]);
        int code = wait_for(pid);
        if (code != 0 && code != 128 + signals[i])
            show(root), print_message("code %d\n", code);
        /* On a fast machine the training may have ended meanwhile. */
        assert_true(code == 0 || code == 128 + signals[i]);
        assert_int_equal(wait_for(start(root, 2, true)), 0);
        assert_same_end("whole", root);
    }
}

/* ---- examples/cifar10.yaml ------------------------------------------------------------------- */

enum { SIDE = 32, RECORDS = 256 };

/* CIFAR-10's binary files: the class decides two colours and the direction of their stripes, the
 * rest is noise. */
static void write_pictures(const char *name, uint64_t *random)
{
    static uint8_t records[RECORDS][1 + 3 * SIDE * SIDE];

    for (int r = 0; r < RECORDS; r++) {
        const int class = (int)(test_random(random) % 10), shift = (int)(test_random(random) % 8);
        records[r][0] = (uint8_t) class;
        for (int i = 0; i < 3 * SIDE * SIDE; i++) {
            const int y = i % (SIDE * SIDE) / SIDE, x = i % SIDE, channel = i / (SIDE * SIDE);
            const int stripe = ((class % 2 ? x : y) + shift) / 4 % 2;
            const int level = (class / 2 + channel + 2 * stripe) % 5 * 40;
            records[r][1 + i] = (uint8_t)(level + (int)(test_random(random) % 64));
        }
    }
    test_write(folder, name, records, sizeof records);
}

/* The example as it is, but for the data and the length: it learns. */
static void test_cifar(void **state)
{
    uint64_t random = 10;
    char name[64], text[SAID], *end;

    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "cifar/data_batch_%d.bin", i);
        write_pictures(name, &random);
    }
    write_pictures("cifar/test_batch.bin", &random);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(folder) != 0 || !freopen("cifar.txt", "w", stdout))
            _exit(99);
        execl(binary, binary, "train", TESTS_DIR "/../examples/cifar10.yaml", "--dataset",
              "cifar10:cifar", "--batch-size", "32", "--max-epochs", "3", "-q", NULL);
        _exit(99);
    }
    assert_int_equal(wait_for(pid), 0);
    read_said("cifar", text);
    char *at = strstr(text, "accuracy ");
    assert_non_null(at);
    const double accuracy = strtod(at + strlen("accuracy "), &end);
    assert_string_equal(strndupa(end, 20), " % on 256 samples of");
    print_message("accuracy %.1f %%\n", accuracy);
    assert_true(accuracy > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cifar, set_up, tear_down),
    };

    binary = test_binary();
    return binary ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

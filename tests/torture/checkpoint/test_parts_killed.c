/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints are written in parts by a process that is killed again and again, at any moment.
 * Every file that is there is whole with its parts, the newest is no older than one that was said
 * to be safe, and what was left of others is removed.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit/checkpoint/parts.h"

enum { KILLS = 30, PARTS = 3, MOST_SAVES = 6, MOST_FILES = 1000 };

static void name_checkpoint(const char *folder, int step, char path[400])
{
    snprintf(path, 400, "%s/version_0/%d.ckpt", folder, step);
}

/* The step of the newest checkpoint, whose bytes are those of it; 0: there is none. */
static int newest(stk_context *ctx, const char *folder, bool goes_on)
{
    const stk__newest_where where = {.runs = folder, .goes_on = goes_on};
    stk__checkpoint *c = NULL;
    char path[400];
    stk_error err;

    const stk_status status = stk__checkpoint_newest(ctx, &where, path, sizeof path, &err);
    if (status == STK_ENOENT)
        return 0;
    assert_ok(status, &err);
    assert_ok(stk__checkpoint_open(ctx, path, &c, &err), &err);
    const int step = atoi(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP));
    stk__checkpoint_close(&c);
    check(ctx, path, step);
    return step;
}

/* Go on from the newest, one save after the other, and say which are safe. */
static void save_for_ever(const char *folder)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writers[PARTS];
    char path[400], before[400], last[400];
    stk_error err;

    int step = newest(ctx, folder, true);
    snprintf(last, sizeof last, "%s/version_0/last.ckpt", folder);
    for (int i = 0; i < PARTS; i++)
        writers[i] = quick_writer(ctx);
    for (;; step++) {
        name_checkpoint(folder, step, before);
        name_checkpoint(folder, step + 1, path);
        save_all(writers, PARTS, path, step + 1, step ? before : NULL);
        if (write(STDOUT_FILENO, &step, sizeof step) != sizeof step)
            _exit(1);
        assert_ok(stk__checkpoint_link(writers[0], path, last, &err), &err);
    }
}

/* Steps that a killed process said were safe. */
static int run_and_kill(const char *folder, unsigned *seed)
{
    const int saves = 1 + rand_r(seed) % MOST_SAVES;
    int ends[2], step = -1, read_one, status;

    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* a program of its own */
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execl("/proc/self/exe", "parts_killed", folder, NULL);
        _exit(1);
    }
    close(ends[1]);
    for (int i = 0; i < saves; i++)
        assert_int_equal(read(ends[0], &step, sizeof step), sizeof step);
    for (int spin = rand_r(seed) % 2000000; spin; spin--)
        atomic_signal_fence(memory_order_seq_cst);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    while (read(ends[0], &read_one, sizeof read_one) == sizeof read_one)
        step = read_one;
    close(ends[0]);
    return step + 1;
}

/* Every file of the run is whole; the number of saves that they are of. */
static int check_files(stk_context *ctx, const char *folder)
{
    static stk__checkpoint_part saves[MOST_FILES];
    char run[300], path[600];
    stk_error err;
    int n = 0;

    snprintf(run, sizeof run, "%s/version_0", folder);
    DIR *dir = opendir(run);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int known = 0;
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, STK__CHECKPOINT_PARTS) == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", run, entry->d_name);
        assert_ok(stk__checkpoint_verify(ctx, path, &err), &err);
        assert_true(n < MOST_FILES && stk__parts_of(ctx, path, &saves[n]));
        while (!stk__part_same_save(&saves[known], &saves[n]))
            known++;
        n += known == n;
    }
    closedir(dir);
    return n;
}

static void make_all_old(const char *folder)
{
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char parts[400], path[700];

    snprintf(parts, sizeof parts, "%s/version_0/" STK__CHECKPOINT_PARTS, folder);
    DIR *dir = opendir(parts);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", parts, entry->d_name);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    closedir(dir);
}

static void killed_at_any_moment(void **state)
{
    const char *kills = getenv("STOKER_TEST_KILLS");
    const int most = kills ? atoi(kills) : KILLS;
    stk_context *ctx = test_context();
    char folder[256], run[300];
    unsigned seed = 7;

    test_folder(folder);
    snprintf(run, sizeof run, "%s/version_0", folder);
    for (int i = 0; i < most; i++) {
        const int safe = run_and_kill(folder, &seed);
        check_files(ctx, folder);
        assert_in_range(newest(ctx, folder, false), safe, safe + 1);
    }
    make_all_old(folder);
    newest(ctx, folder, true);
    assert_int_equal(count_parts(run), check_files(ctx, folder) * (PARTS - 1));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_any_moment)};

    if (argc == 2 && strcmp(argv[0], "parts_killed") == 0)
        save_for_ever(argv[1]);
    return cmocka_run_group_tests_name("checkpoint/parts_killed", tests, NULL, NULL);
}

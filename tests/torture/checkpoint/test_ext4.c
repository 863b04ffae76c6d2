/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real power cuts: a process saves checkpoints to a loop-mounted ext4, and at a random moment the
 * file system is shut down without its log (EXT4_IOC_SHUTDOWN), which loses what was not synced.
 * After the journal is replayed a verified checkpoint loads, no older than the last one that was
 * acknowledged. The same writer without fsync must lose some. Needs root and a free loop device.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/durable.h"
#include "checkpoint/checkpoint.h"
#include "support/support.h"

#ifndef EXT4_IOC_SHUTDOWN
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#endif
#define NO_LOG_FLUSH 2u

enum { VALUES = 20000, KEPT = 2, CONTROL_ROUNDS = 60 };

static int no_fsync(void *user, int fd)
{
    return 0;
}

static stk_status save(stk__checkpoint_writer *writer, const char *folder, int32_t step,
                       stk_error *err)
{
    static float weight[VALUES];
    char path[400], old[400], text[16];
    const char *const olds[] = {old};

    for (int i = 0; i < VALUES; i++)
        weight[i] = (float)(step + i);
    snprintf(text, sizeof text, "%d", step);
    snprintf(path, sizeof path, "%s/step=%d.ckpt", folder, step);
    snprintf(old, sizeof old, "%s/step=%d.ckpt", folder, step - KEPT);
    const stk_state_tensor tensor = {"w", STK_FLOAT32, 1, {VALUES}, weight, sizeof weight};
    const stk__checkpoint_text texts[] = {{STK__CHECKPOINT_STEP, text}};
    STK_TRY(stk__checkpoint_save(writer, path, &tensor, 1, texts, 1, olds, 1, NULL, err));
    return stk__checkpoint_flush(writer, err);
}

/* The writer: step after step, an old one removed for each new one; every step that flush() has
 * acknowledged goes into the pipe. Ends when the disk is gone. */
static int write_steps(const char *folder, int pipe_fd, int first, bool lie)
{
    stk__file_calls calls = stk__file_calls_system;
    stk__checkpoint_writer *writer = NULL;
    stk_context *ctx = NULL;
    stk_error err;

    if (lie)
        calls.fsync = no_fsync;
    if (stk_context_create(NULL, &ctx, &err) != STK_OK ||
        stk__checkpoint_writer_create_on(ctx, &calls, &writer, &err) != STK_OK)
        return 1;
    for (int32_t step = first;; step++) {
        if (save(writer, folder, step, &err) != STK_OK)
            return 2;
        if (write(pipe_fd, &step, sizeof step) != sizeof step)
            return 3;
    }
}

typedef struct drive {
    char folder[256], image[300], mount[300];
} drive;

static bool run(const char *format, const drive *d)
{
    char command[1024];

    snprintf(command, sizeof command, format, d->image, d->mount);
    return system(command) == 0;
}

/* A new ext4 on a file, mounted; false where that is not possible here. */
static bool make_drive(drive *d)
{
    static uint8_t nothing[1 << 20];

    if (geteuid() != 0)
        return false;
    test_folder(d->folder);
    snprintf(d->image, sizeof d->image, "%s/image", d->folder);
    snprintf(d->mount, sizeof d->mount, "%s/mount", d->folder);
    test_write(d->folder, "image", nothing, sizeof nothing);
    assert_int_equal(truncate(d->image, 32 << 20), 0);
    assert_int_equal(mkdir(d->mount, 0777), 0);
    if (run("mkfs.ext4 -q -F '%s' >/dev/null 2>&1", d) &&
        run("mount -o loop '%s' '%s' >/dev/null 2>&1", d))
        return true;
    test_folder_remove(d->folder);
    return false;
}

/* Let the writer go for a while, then cut. Returns the last step that was acknowledged. */
static int cut(const drive *d, int first, bool lie, uint64_t *seed)
{
    int fds[2], acked = first - 1;
    int32_t step;

    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        _exit(write_steps(d->mount, fds[1], first, lie));
    }
    close(fds[1]);
    /* From one acknowledged step on, so that there is something to lose; the moment is a random
     * one between two steps. */
    for (int i = 0; i < 1 + (int)(test_random(seed) % 4); i++) {
        assert_int_equal(read(fds[0], &step, sizeof step), sizeof step);
        acked = step;
    }
    usleep((useconds_t)(test_random(seed) % 20000));
    int fd = open(d->mount, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    uint32_t flags = NO_LOG_FLUSH;
    struct pollfd ready = {fds[0], POLLIN, 0};
    /* What was acknowledged before the cut counts; of the rest nobody was told. */
    while (poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) &&
           read(fds[0], &step, sizeof step) == sizeof step)
        acked = step;
    assert_int_equal(ioctl(fd, EXT4_IOC_SHUTDOWN, &flags), 0);
    close(fd);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fds[0]);
    return acked;
}

/* The step of the newest checkpoint; -1: none. */
static int newest_step(const char *folder)
{
    stk_context *ctx = test_context();
    stk__checkpoint *c = NULL;
    char found[400];
    int step = -1;
    stk_error err;

    if (stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found, sizeof found,
                               &err) == STK_OK) {
        assert_ok(stk__checkpoint_open(ctx, found, &c, &err), &err);
        step = atoi(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP));
        const float *w = stk__checkpoint_find(c, "w")->data;
        for (int i = 0; i < VALUES; i++)
            assert_true(w[i] == (float)(step + i));
        stk__checkpoint_close(&c);
    }
    stk_context_destroy(&ctx);
    return step;
}

static drive made; /* the one in use; no folder: none */

/* Also after a test that failed nothing stays mounted. */
static int unmount(void **state)
{
    if (made.folder[0]) {
        umount2(made.mount, MNT_DETACH);
        test_folder_remove(made.folder);
    }
    made.folder[0] = 0;
    return 0;
}

/* Cut `rounds` times, or until one is bad. Returns how many were good; -1: not possible here. */
static int cut_often(int rounds, bool lie)
{
    uint64_t seed = lie ? 11 : 7;
    int good = 0, first = 1;
    bool bad = false;
    drive d;

    if (!make_drive(&d))
        return -1;
    made = d;
    for (; good < rounds && !bad; good += !bad) {
        int acked = cut(&d, first, lie, &seed);
        assert_int_equal(umount(d.mount), 0);
        assert_true(run("mount -o loop '%s' '%s' >/dev/null 2>&1", &d));
        int found = newest_step(d.mount);
        bad = found < acked;
        if (bad && !lie)
            print_error("cut %d: step %d was acknowledged, step %d is there\n", good, acked, found);
        first = found > acked ? found + 1 : acked + 1;
    }
    return good;
}

static int rounds_wanted(void)
{
    const char *text = getenv("STOKER_TEST_CUTS");

    return text ? atoi(text) : 12;
}

static void skip_here(void)
{
    print_message("skipped: no root, no loop device or no mkfs.ext4\n");
    skip();
}

static void test_cuts(void **state)
{
    int rounds = rounds_wanted(), good = cut_often(rounds, false);

    if (good < 0)
        skip_here();
    assert_int_equal(good, rounds);
    print_message("%d cuts: what was acknowledged was there each time\n", good);
}

static void test_control(void **state)
{
    int good = cut_often(CONTROL_ROUNDS, true);

    if (good < 0)
        skip_here();
    assert_true(good < CONTROL_ROUNDS);
    print_message("without fsync: cut %d lost what was acknowledged\n", good + 1);
}

/* A disk that is full, and one that is read-only: what was there stays, and the message says what
 * to do. */
static void test_full_and_read_only(void **state)
{
    static uint8_t filler[1 << 16];
    stk__checkpoint_writer *writer = NULL;
    char path[400];
    stk_error err;
    drive d;

    if (!make_drive(&d))
        skip_here();
    made = d;
    stk_context *ctx = test_context();
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(save(writer, d.mount, 1, &err), &err);
    snprintf(path, sizeof path, "%s/filler", d.mount);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    for (size_t part = sizeof filler; part >= 512; part /= 2)
        while (write(fd, filler, part) == (ssize_t)part)
            continue;
    assert_int_equal(errno, ENOSPC);
    close(fd);
    assert_fails(save(writer, d.mount, 2, &err), STK_ENOSPC, &err, "free some space");
    assert_non_null(strstr(err.text, "step=2.ckpt"));
    assert_int_equal(newest_step(d.mount), 1);
    assert_int_equal(unlink(path), 0);
    assert_ok(save(writer, d.mount, 2, &err), &err);
    assert_int_equal(newest_step(d.mount), 2);
    assert_true(run("mount -o remount,ro '%2$s' >/dev/null 2>&1", &d));
    assert_fails(save(writer, d.mount, 3, &err), STK_EACCES, &err, "Read-only");
    assert_int_equal(newest_step(d.mount), 2);
    stk__checkpoint_writer_destroy(&writer);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cuts, unmount),
        cmocka_unit_test_teardown(test_control, unmount),
        cmocka_unit_test_teardown(test_full_and_read_only, unmount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions to an image that are stopped, killed, or fail in the middle: there is none then, or
 * the one that was there before. */
#include "squashfs_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "support/mounts.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

typedef struct change {
    const char *file;
    int kind;
    bool done;
} change;

/* Before anything is read, and after all was listed. */
static void change_file(void *user, uint64_t done)
{
    change *c = user;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};

    (void)done;
    if (c->done)
        return;
    c->done = true;
    switch (c->kind) {
    case 0:
        assert_int_equal(truncate(c->file, 10), 0);
        break;
    case 1:
        assert_int_equal(truncate(c->file, BYTES), 0);
        break;
    case 2:
        assert_int_equal(utimensat(AT_FDCWD, c->file, times, 0), 0);
        break;
    default:
        assert_int_equal(unlink(c->file), 0);
    }
}

static void test_changes(void **state)
{
    image_room *w = *state;
    char file[300];
    change c = {.file = file};

    snprintf(file, sizeof file, "%s/b", w->folder);
    for (; c.kind < 4; c.kind++) {
        test_write(w->folder, "b", w->folder, 200);
        image_run_init(&w->run);
        w->run.progress = change_file;
        w->run.user = &c;
        c.done = false;
        assert_fails(image_pack_room(w), STK_EMISMATCH, &w->err, "'b' changed while");
        assert_true(c.done);
        assert_int_equal(image_files_in(w->to), 0);
    }
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void cancel(void *user, uint64_t done)
{
    (void)done;
    if (--*(int *)user == 0)
        stk_conversion_cancel(image_in_work);
}

static void test_cancel(void **state)
{
    image_room *w = *state;

    image_make_folder(w->folder);
    for (int after = 1; after <= 2; after++) {
        int left = after;
        image_run_init(&w->run);
        w->run.progress = cancel;
        w->run.user = &left;
        assert_fails(image_pack_room(w), STK_ECANCELED, &w->err, "was stopped");
        assert_int_equal(image_files_in(w->to), 0);
    }
}

static void kill_now(void *user, uint64_t done)
{
    if (done >= *(uint64_t *)user)
        kill(getpid(), SIGKILL);
}

/* A kill at the beginning, and when all is packed and nothing named: there is no image, or the old
 * one; the next run takes away what was left. */
static void test_kill(void **state)
{
    image_room *w = *state;
    int status;

    image_make_folder(w->folder);
    for (int i = 0; i < 4; i++) {
        uint64_t at = i & 1;
        image_run_init(&w->run);
        w->run.options.overwrite = i >= 2;
        if (i == 2)
            test_write(w->to, "a.sqfs", "old", 3);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            w->run.progress = kill_now;
            w->run.user = &at;
            _exit(image_pack_room(w) == STK_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(is_there(w->path), i >= 2);
        assert_int_equal(image_files_in(w->to), 1 + (i >= 2)); /* what was begun */
        if (i >= 2) {
            char *old = test_load(w->path, NULL);
            assert_string_equal(old, "old");
            free(old);
        }
        if (i == 2)
            continue;
        assert_ok(image_pack_room(w), &w->err);
        assert_int_equal(image_files_in(w->to), 1);
        assert_int_equal(unlink(w->path), 0);
    }
}

/* In a small file system of its own, where the machine allows one. */
static void test_full_disk(void **state)
{
    image_room *w = *state;

    image_make_folder(w->folder);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!test_mount_small(w->to, "64k"))
            _exit(MOUNTS_NONE);
        image_run_init(&w->run);
        const stk_status got = image_pack_room(w);
        if (got != STK_ENOSPC || !strstr(w->err.text, "free some space"))
            _exit(1);
        _exit(image_files_in(w->to) == 0 ? 0 : 2);
    }
    test_mounts_good(test_mounts_end(child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_cancel, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_kill, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_full_disk, image_begin, image_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

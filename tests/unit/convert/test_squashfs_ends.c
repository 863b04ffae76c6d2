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
    char folder[256], to[256], path[300], file[300];
    change c = {.file = file};
    stk_error err;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    snprintf(file, sizeof file, "%s/b", folder);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    for (; c.kind < 4; c.kind++) {
        test_write(folder, "b", folder, 200);
        image_run_init(&r);
        r.progress = change_file;
        r.user = &c;
        c.done = false;
        assert_fails(image_pack(&r, folder, path, &err), STK_EMISMATCH, &err, "'b' changed while");
        assert_true(c.done);
        assert_int_equal(image_files_in(to), 0);
    }
    test_folder_remove(folder);
    test_folder_remove(to);
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
    char folder[256], to[256], path[300];
    stk_error err;
    image_run r;

    (void)state;
    image_make_folder(test_folder(folder));
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    for (int after = 1; after <= 2; after++) {
        int left = after;
        image_run_init(&r);
        r.progress = cancel;
        r.user = &left;
        assert_fails(image_pack(&r, folder, path, &err), STK_ECANCELED, &err, "was stopped");
        assert_int_equal(image_files_in(to), 0);
    }
    test_folder_remove(folder);
    test_folder_remove(to);
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
    char folder[256], to[256], path[300];
    stk_error err;
    int status;
    image_run r;

    (void)state;
    image_make_folder(test_folder(folder));
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    for (int i = 0; i < 4; i++) {
        uint64_t at = i & 1;
        image_run_init(&r);
        r.options.overwrite = i >= 2;
        if (i == 2)
            test_write(to, "a.sqfs", "old", 3);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            r.progress = kill_now;
            r.user = &at;
            _exit(image_pack(&r, folder, path, &err) == STK_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(is_there(path), i >= 2);
        assert_int_equal(image_files_in(to), 1 + (i >= 2)); /* what was begun */
        if (i >= 2) {
            char *old = test_load(path, NULL);
            assert_string_equal(old, "old");
            free(old);
        }
        if (i == 2)
            continue;
        assert_ok(image_pack(&r, folder, path, &err), &err);
        assert_int_equal(image_files_in(to), 1);
        assert_int_equal(unlink(path), 0);
    }
    test_folder_remove(folder);
    test_folder_remove(to);
}

/* In a small file system of its own, where the machine allows one. */
static void test_full_disk(void **state)
{
    char folder[256], to[256], path[300];
    stk_error err;
    int status;
    image_run r;

    (void)state;
    image_make_folder(test_folder(folder));
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!test_mount_small(to, "64k"))
            _exit(77);
        image_run_init(&r);
        const stk_status got = image_pack(&r, folder, path, &err);
        if (got != STK_ENOSPC || !strstr(err.text, "free some space"))
            _exit(1);
        _exit(image_files_in(to) == 0 ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    test_folder_remove(folder);
    test_folder_remove(to);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no file system may be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

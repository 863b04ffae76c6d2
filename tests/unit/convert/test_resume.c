/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions that are killed, stopped or refused: what is there then, and how they go on. */
#include "tree.h"

#include "support/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define KILLED 42

typedef struct folders {
    char from[256], to[256], whole[256];
} folders;

/* A source, an empty target, and what an undisturbed conversion of it writes. */
static void make_folders(folders *f, tree_run *run)
{
    stk_error err;

    test_folder(f->from);
    test_folder(f->to);
    test_folder(f->whole);
    tree_make(f->from);
    tree_run_init(run);
    run->images.max_side = 24;
    assert_ok(tree_convert(run, f->from, f->whole, &err), &err);
}

static void remove_folders(folders *f)
{
    test_folder_remove(f->from);
    test_folder_remove(f->to);
    test_folder_remove(f->whole);
}

static void exit_at(void *user, uint64_t done)
{
    if (done == *(uint64_t *)user)
        _exit(KILLED);
}

/* Run a conversion in a child that ends, without any clean-up, when `files` files are finished. */
static void kill_after(uint64_t files, tree_run *run, const folders *f)
{
    stk_error err;
    int status;

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run->progress = exit_at;
        run->user = &files;
        _exit(tree_convert(run, f->from, f->to, &err) == STK_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
}

static bool is_there(const char *folder, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Killed after each number of files, then resumed: byte for byte the undisturbed result. */
static void test_kill_and_resume(void **state)
{
    static const uint64_t checkpoints[] = {4, 1, 256};
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (uint64_t files = 1; files < TREE_FILES; files++) {
        uint64_t checkpoint = checkpoints[files % 3];
        run.options.checkpoint = checkpoint;
        kill_after(files, &run, &f);
        assert_true(is_there(f.to, ".stoker-convert"));
        assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
        /* What stood behind a checkpoint is not done again. */
        assert_int_equal(run.report.resumed, files - files % checkpoint);
        assert_int_equal(run.report.verified, TREE_FILES - run.report.resumed);
        tree_equal(f.whole, f.to);
        assert_false(is_there(f.to, ".stoker-convert-parts"));
        test_folder_remove(f.to);
        test_folder(f.to);
    }
    remove_folders(&f);
}

/* Killed again and again, at one file more each time, with threads. */
static void test_kill_often(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    stk_conversion_report whole = run.report;
    run.options.checkpoint = 2;
    for (uint64_t files = 2; files < TREE_FILES; files += 2)
        kill_after(files, &run, &f);
    run.options.num_workers = 3;
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    tree_equal(f.whole, f.to);
    assert_true(run.report.mean_psnr == whole.mean_psnr);
    assert_int_equal(run.report.bytes_before, whole.bytes_before);
    assert_int_equal(run.report.bytes_after, whole.bytes_after);
    remove_folders(&f);
}

/* Change the bytes of a file. */
static void set_file(const char *folder, const char *name, const void *data, size_t size)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Every state that a kill or a power cut may leave of a journal is one of these: cut anywhere. */
static void test_torn_journal(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    bytes journal = tree_load(f.whole, ".stoker-convert");
    char *first = strstr((char *)journal.data, "done ");
    assert_non_null(first);
    for (size_t cut = (size_t)(first - (char *)journal.data); cut < journal.size; cut += 71) {
        set_file(f.whole, ".stoker-convert", journal.data, cut);
        assert_ok(tree_convert(&run, f.from, f.whole, &err), &err);
        assert_true(run.report.resumed < TREE_FILES);
        bytes again = tree_load(f.whole, ".stoker-convert");
        assert_int_equal(again.size, journal.size);
        assert_memory_equal(again.data, journal.data, journal.size);
        free(again.data);
    }
    /* A line whose bytes were hit is not believed. */
    journal.data[journal.size - 30] ^= 1;
    set_file(f.whole, ".stoker-convert", journal.data, journal.size);
    assert_ok(tree_convert(&run, f.from, f.whole, &err), &err);
    assert_int_equal(run.report.resumed, TREE_FILES - 1);
    free(journal.data);
    remove_folders(&f);
}

/* Files that are gone, shorter, or whose source has changed are done again; stale ones go. */
static void test_changes(void **state)
{
    char path[600];
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, TREE_FILES);
    assert_int_equal(run.report.verified, 0);
    snprintf(path, sizeof path, "%s/cat/base.jpg", f.to);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/dog/six.jpg", f.to);
    assert_int_equal(truncate(path, 100), 0);
    test_write(f.to, ".stoker-convert-parts/7", "left", 4);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, TREE_FILES - 2);
    tree_equal(f.whole, f.to);
    /* Another picture under the same name: from encoded to kept, and its name changes with it. */
    snprintf(path, sizeof path, "%s/cat/rgb.png", f.from);
    assert_int_equal(unlink(path), 0);
    tree_add(f.from, "palette_4.png", "cat/rgb.png");
    snprintf(path, sizeof path, "%s/dog/three.jpg", f.from);
    assert_int_equal(unlink(path), 0);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, TREE_FILES - 2);
    assert_true(is_there(f.to, "cat/rgb.png"));
    assert_false(is_there(f.to, "cat/rgb.jpg"));
    assert_false(is_there(f.to, "dog/three.jpg"));
    remove_folders(&f);
}

static void cancel_at(void *user, uint64_t done)
{
    tree_run *run = user;

    if (done == 4)
        stk_conversion_cancel(run->conversion);
}

static void test_cancel(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    run.progress = cancel_at;
    run.user = &run;
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_ECANCELED, &err, "run the same again");
    assert_false(is_there(f.to, ".stoker-convert-parts"));
    run.progress = NULL;
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, 4);
    tree_equal(f.whole, f.to);
    remove_folders(&f);
}

static void test_other_options(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    test_write(f.whole, "cat/mine.txt", "mine", 4);
    run.images.quality = 80;
    assert_fails(tree_convert(&run, f.from, f.whole, &err), STK_EMISMATCH, &err,
                 "with quality=90 and not 80");
    assert_non_null(strstr(err.text, "set overwrite"));
    run.options.overwrite = true;
    assert_ok(tree_convert(&run, f.from, f.whole, &err), &err);
    assert_int_equal(run.report.resumed, 0);
    assert_true(is_there(f.whole, "cat/mine.txt"));
    run.options.overwrite = false;
    assert_ok(tree_convert(&run, f.from, f.whole, &err), &err);
    assert_int_equal(run.report.resumed, TREE_FILES);
    /* Another source. */
    assert_ok(tree_convert(&run, f.whole, f.to, &err), &err);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EMISMATCH, &err, f.from);
    remove_folders(&f);
}

static void test_broken_sources(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    bytes good = tree_load(f.from, "cat/base.jpg");
    test_write(f.from, "cat/cut.jpg", good.data, good.size / 2);
    test_write(f.from, "cat/empty.jpg", "", 0);
    test_write(f.from, "dog/text.png", "no picture", 10);
    free(good.data);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_ETRUNCATED, &err, "cat/cut.jpg");
    run.options.max_errors = "3";
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EINVAL, &err, "does nothing with");
    run.options.on_error = 1;
    for (int i = 0; i < 4; i++) {
        run.options.max_errors = (const char *[]){"2", "0%", "2x", "3"}[i];
        if (i < 3)
            assert_fails(tree_convert(&run, f.from, f.to, &err),
                         i < 2 ? STK_EBADSAMPLES : STK_EINVAL, &err,
                         i == 0 ? "max_errors allows 2" : "max_errors");
    }
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.skipped, 3);
    assert_int_equal(run.report.total, TREE_FILES + 3);
    bytes list = tree_load(f.to, ".stoker-convert-errors");
    assert_non_null(list.data);
    char *cut = strstr((char *)list.data, "cat/cut.jpg\tSTK_ETRUNCATED\t");
    char *text = strstr((char *)list.data, "dog/text.png\tSTK_EFORMAT\t");
    assert_true(cut && text && cut < text);
    assert_non_null(strstr((char *)list.data, "cat/empty.jpg\t"));
    free(list.data);
    char path[600];
    snprintf(path, sizeof path, "%s/.stoker-convert-errors", f.to);
    assert_int_equal(unlink(path), 0);
    tree_equal(f.whole, f.to);
    remove_folders(&f);
}

static void test_refused_targets(void **state)
{
    char inside[400], path[400];
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    assert_fails(tree_convert(&run, f.from, f.from, &err), STK_EINVAL, &err, "is the folder");
    snprintf(inside, sizeof inside, "%s/cat/small", f.from);
    assert_fails(tree_convert(&run, f.from, inside, &err), STK_EINVAL, &err, "lies in the folder");
    assert_false(is_there(f.from, "cat/small"));
    test_write(f.to, "notes", "x", 1);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EINVAL, &err, "is not empty");
    assert_false(is_there(f.to, ".stoker-convert"));
    snprintf(path, sizeof path, "%s/inner", f.to);
    assert_int_equal(mkdir(path, 0777), 0);
    tree_add(path, "base_420.jpg", "c/x.jpg");
    run.options.overwrite = true;
    assert_fails(tree_convert(&run, path, f.to, &err), STK_EINVAL, &err, "holds the folder");
    snprintf(path, sizeof path, "%s/no/such", f.to);
    assert_fails(tree_convert(&run, f.from, path, &err), STK_ENOENT, &err, "could not make");
    /* A file in the place of the folder, and of a class. */
    snprintf(path, sizeof path, "%s/notes", f.to);
    assert_int_not_equal(tree_convert(&run, f.from, path, &err), STK_OK);
    test_write(f.to, "cat", "x", 1);
    assert_int_not_equal(tree_convert(&run, f.from, f.to, &err), STK_OK);
    assert_non_null(strstr(err.text, "cat/"));
    snprintf(path, sizeof path, "%s/x.zip", f.to);
    assert_fails(tree_convert(&run, f.from, path, &err), STK_ENOTSUP, &err, "nothing writes");
    remove_folders(&f);
}

static void test_read_only_target(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    assert_int_equal(chmod(f.to, 0555), 0);
    test_bind_by_permissions(true);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EACCES, &err,
                 "choose a folder that you may write");
    test_bind_by_permissions(false);
    assert_int_equal(chmod(f.to, 0755), 0);
    remove_folders(&f);
}

static void test_one_at_a_time(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    int fd = open(f.to, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EBUSY, &err, "another conversion");
    close(fd);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    remove_folders(&f);
}

static void test_collisions(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    tree_add(f.from, "base_444.jpg", "cat/rgb.jpg");
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EINVAL, &err, "cat/rgb.png");
    assert_non_null(strstr(err.text, "cat/rgb.jpg"));
    run.images.keep_png = true;
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_true(is_there(f.to, "cat/rgb.png") && is_there(f.to, "cat/rgb.jpg"));
    /* A PNG that stays one does not meet its neighbour. */
    test_folder_remove(f.from);
    test_folder(f.from);
    tree_add(f.from, "palette_4.png", "cat/x.png");
    tree_add(f.from, "base_444.jpg", "cat/x.jpg");
    run.images.keep_png = false;
    run.options.overwrite = true;
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    remove_folders(&f);
}

static void test_budget(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    run.options.memory_budget = 700 << 10;
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EBUDGET, &err, "memory_budget");
    run.options.memory_budget = 4 << 20;
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    tree_equal(f.whole, f.to);
    remove_folders(&f);
}

/* In a small file system of its own, where the machine allows one. */
static void test_full_disk(void **state)
{
    char small[300];
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (int i = 0; i < 60; i++) {
        char name[40];
        snprintf(name, sizeof name, "more/%d.jpg", i);
        tree_add(f.from, "high_quality.jpg", name);
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!test_mount_small(f.to, "256k"))
            _exit(MOUNTS_NONE);
        snprintf(small, sizeof small, "%s/out", f.to);
        run.options.checkpoint = 4;
        run.images.max_side = 0;
        stk_status got = tree_convert(&run, f.from, small, &err);
        if (got != STK_ENOSPC || !strstr(err.text, "free some space")) {
            print_message("%s: %s\n", stk_status_name(got), err.text);
            _exit(1);
        }
        if (is_there(small, ".stoker-convert-parts") || !is_there(small, "cat/base.jpg"))
            _exit(2);
        if (mount("none", f.to, "tmpfs", MS_REMOUNT, "size=8m") != 0)
            _exit(MOUNTS_NONE);
        if (tree_convert(&run, f.from, small, &err) != STK_OK || !run.report.resumed)
            _exit(3);
        _exit(0);
    }
    const int said = test_mounts_end(child);
    remove_folders(&f);
    test_mounts_good(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_and_resume),  cmocka_unit_test(test_kill_often),
        cmocka_unit_test(test_torn_journal),     cmocka_unit_test(test_changes),
        cmocka_unit_test(test_cancel),           cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_broken_sources),   cmocka_unit_test(test_refused_targets),
        cmocka_unit_test(test_read_only_target), cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_collisions),       cmocka_unit_test(test_budget),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

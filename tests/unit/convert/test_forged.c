/* SPDX-License-Identifier: Apache-2.0 */
/* Journals that somebody else wrote, and targets that lead elsewhere: nothing outside the target is
 * written or removed. */
#include "tree.h"

#include <fcntl.h>

#include "convert/journal.h"
#include "convert/target.h"
#include "dataset/dataset.h"

typedef struct folders {
    char base[256], from[300], to[300];
} folders;

static void set_up(folders *f)
{
    test_folder(f->base);
    snprintf(f->from, sizeof f->from, "%s/from", f->base);
    snprintf(f->to, sizeof f->to, "%s/to", f->base);
    assert_int_equal(mkdir(f->from, 0777), 0);
    tree_add(f->from, "base_420.jpg", "cat/base.jpg");
    tree_add(f->from, "grey.jpg", "dog/grey.jpg");
    test_write(f->base, "victim.jpg", "mine", 4);
    test_write(f->base, "aside/victim.jpg", "mine", 4);
}

static bool there(const char *folder, const char *name)
{
    char path[600];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &st) == 0;
}

/* Add a line with its checksum to the journal. */
static void add_line(const folders *f, const char *line)
{
    char path[600];

    snprintf(path, sizeof path, "%s/.stoker-convert", f->to);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fprintf(file, "%s %08x\n", line, (unsigned)stk__fingerprint(0, line, strlen(line)));
    assert_int_equal(fclose(file), 0);
}

static void journals(void **state)
{
    char lines[8][700], path[600];
    folders f;
    tree_run run;
    stk_error err;

    set_up(&f);
    tree_run_init(&run);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    test_write(f.to, "notes.txt", "mine", 4);
    test_write(f.to, "stale.jpg", "mine", 4);
    snprintf(path, sizeof path, "%s/way", f.to);
    assert_int_equal(symlink("../aside", path), 0);
    snprintf(lines[0], sizeof lines[0], "old 4 ../victim.jpg");
    snprintf(lines[1], sizeof lines[1], "old 4 %s/victim.jpg", f.base);
    snprintf(lines[2], sizeof lines[2], "old 4 way/victim.jpg");
    snprintf(lines[3], sizeof lines[3], "old 4 cat/../../victim.jpg");
    snprintf(lines[4], sizeof lines[4], "done 1 0 1 1 4 0 0 ../victim.jpg");
    snprintf(lines[5], sizeof lines[5], "old 5 notes.txt");
    snprintf(lines[6], sizeof lines[6], "old 0 way");
    snprintf(lines[7], sizeof lines[7], "old 4 stale.jpg");
    for (size_t i = 0; i < 8; i++)
        add_line(&f, lines[i]);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, 2);
    assert_true(there(f.base, "victim.jpg") && there(f.base, "aside/victim.jpg"));
    assert_true(there(f.to, "notes.txt") && there(f.to, "way"));
    /* The one that is the target's own goes, so the others were looked at. */
    assert_false(there(f.to, "stale.jpg"));
    test_folder_remove(f.base);
}

/* Lines with a right checksum that no conversion writes. */
static void strange_lines(void **state)
{
    static const char *const lines[] = {"old cat/x.jpg",
                                        "old -1 x.jpg",
                                        "old 4 ",
                                        "done 1 0 1 1 4 0 0 ",
                                        "done 9 0 1 1 4 0 0 x",
                                        "done 1 2 1 1 4 0 0 x",
                                        "done 1 0 +1 1 4 0 0 x",
                                        "done 1 0 1 1 4 0 x",
                                        "done  1 0 1 1 4 0 0 x",
                                        "new x",
                                        "alone",
                                        "source images /elsewhere ",
                                        "old 4 a%0",
                                        "old 4 a%00",
                                        "old 99999999999999999999 x"};
    folders f;
    tree_run run;
    stk_error err;

    set_up(&f);
    tree_run_init(&run);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    bytes journal = tree_load(f.to, ".stoker-convert");
    for (size_t i = 0; i < STK_COUNT(lines); i++) {
        test_write(f.to, ".stoker-convert", journal.data, journal.size);
        add_line(&f, lines[i]);
        assert_fails(tree_convert(&run, f.from, f.to, &err), STK_EFORMAT, &err,
                     "that no conversion writes");
    }
    test_write(f.to, ".stoker-convert", journal.data, journal.size);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    assert_int_equal(run.report.resumed, 2);
    free(journal.data);
    test_folder_remove(f.base);
}

/* Links in the target, in the place of a class, of a file, of files of our own. */
static void links(void **state)
{
    static const char *const own[] = {".stoker-convert", ".stoker-convert-parts"};
    char path[600];
    folders f;
    tree_run run;
    stk_error err;

    set_up(&f);
    tree_run_init(&run);
    run.options.overwrite = true;
    assert_int_equal(mkdir(f.to, 0777), 0);
    snprintf(path, sizeof path, "%s/cat", f.to);
    assert_int_equal(symlink("../aside", path), 0);
    assert_fails(tree_convert(&run, f.from, f.to, &err), STK_ENOENT, &err,
                 "links are not followed");
    assert_false(there(f.base, "aside/base.jpg"));
    assert_int_equal(unlink(path), 0);
    for (size_t i = 0; i < STK_COUNT(own); i++) {
        snprintf(path, sizeof path, "%s/%s", f.to, own[i]);
        unlink(path);
        rmdir(path);
        assert_int_equal(symlink(i ? "../aside" : "../victim.jpg", path), 0);
        assert_int_not_equal(tree_convert(&run, f.from, f.to, &err), STK_OK);
        assert_int_equal(unlink(path), 0);
    }
    /* A link in the place of a file is replaced, not written through. */
    snprintf(path, sizeof path, "%s/dog", f.to);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/dog/grey.jpg", f.to);
    unlink(path);
    assert_int_equal(symlink("../../victim.jpg", path), 0);
    assert_ok(tree_convert(&run, f.from, f.to, &err), &err);
    bytes victim = tree_load(f.base, "victim.jpg");
    assert_int_equal(victim.size, 4);
    free(victim.data);
    test_folder_remove(f.base);
}

/* Names that lead out are refused by the target itself, whoever asks. */
static void names(void **state)
{
    static const char *const bad[] = {
        "../x.jpg", "/x.jpg",          "a/../../x.jpg",          "..", "", "a//b.jpg", "./x.jpg",
        "a/",       ".stoker-convert", ".stoker-convert-parts/0"};
    stk_context *ctx = test_context();
    stk__target *target;
    folders f;
    stk_error err;

    set_up(&f);
    const stk_conversion_job job = tree_job(ctx, f.to);
    assert_ok(stk__target_open(&job, "", &target, &err), &err);
    assert_ok(target->ops->begin(target, &err), &err);
    assert_ok(stk__target_write(target, 0, "a/x.jpg", "data", 4, true, &err), &err);
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        assert_fails(stk__target_write(target, 1, bad[i], "data", 4, true, &err), STK_EINVAL, &err,
                     bad[i]);
        assert_fails(stk__target_name(target, 0, bad[i], &err), STK_EINVAL, &err, bad[i]);
        assert_false(stk__target_has(target, bad[i], 4));
        assert_ok(stk__target_remove(target, bad[i], 4, &err), &err);
    }
    assert_false(there(f.base, "x.jpg"));
    assert_ok(stk__target_name(target, 0, "a/x.jpg", &err), &err);
    assert_true(stk__target_has(target, "a/x.jpg", 4));
    assert_false(stk__target_has(target, "a/x.jpg", 5));
    assert_ok(stk__target_remove(target, "a/x.jpg", 5, &err), &err);
    assert_true(there(f.to, "a/x.jpg"));
    assert_ok(stk__target_remove(target, "a/x.jpg", 4, &err), &err);
    assert_false(there(f.to, "a/x.jpg"));
    stk__target_close(&target);
    test_folder_remove(f.base);
    stk_context_destroy(&ctx);
}

/* What fails before it has written anything leaves nothing. */
static void empty_folders(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    set_up(&f);
    tree_run_init(&run);
    test_write(f.from, "cat/a.jpg", "broken", 6);
    assert_int_not_equal(tree_convert(&run, f.from, f.to, &err), STK_OK);
    assert_false(there(f.base, "to"));
    /* One that was there stays. */
    assert_int_equal(mkdir(f.to, 0777), 0);
    assert_int_not_equal(tree_convert(&run, f.from, f.to, &err), STK_OK);
    assert_true(there(f.base, "to"));
    test_folder_remove(f.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journals), cmocka_unit_test(strange_lines), cmocka_unit_test(links),
        cmocka_unit_test(names),    cmocka_unit_test(empty_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

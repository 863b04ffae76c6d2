/* SPDX-License-Identifier: Apache-2.0 */
/* A conversion that a power cut ends: what has its name is whole, and the same command again gives
 * what an undisturbed one gives; one that said it is done is. */
#include "support/powercut.h"

#include "unit/convert/tree.h"

/* What the target holds before. */
typedef enum earlier {
    NOTHING,
    OTHER_OPTIONS, /* a conversion that is overwritten */
    OTHER_SOURCE   /* the same; pictures have changed since, and not their sizes, and one is gone */
} earlier;

typedef struct conversions {
    char from[256], to[256], whole[256], before[256];
    tree_run run;
    earlier earlier;
} conversions;

static void convert(conversions *c, const char *to, int side, bool overwrite)
{
    stk_error err;

    c->run.images.max_side = side;
    c->run.options.overwrite = overwrite;
    assert_ok(tree_convert(&c->run, c->from, to, &err), &err);
}

/* Pictures that change are copied as they are; else some are made smaller. */
static int side_of(earlier earlier)
{
    return earlier == OTHER_SOURCE ? 512 : 24;
}

static uint64_t files_of(earlier earlier)
{
    return earlier == OTHER_SOURCE ? TREE_FILES - 1 : TREE_FILES;
}

/* Other pixels per inch: another file of the same size. */
static void change_sources(const char *from)
{
    static const char *const names[] = {"cat/base.jpg", "cat/grey.jpg", "dog/three.jpg"};

    for (size_t i = 0; i < 3; i++) {
        bytes b = tree_load(from, names[i]);
        uint8_t *jfif = memmem(b.data, 64, "JFIF", 5);
        if (jfif) /* version, unit, density */
            jfif[9] ^= 1;
        test_write(from, names[i], b.data, b.size);
        free(b.data);
    }
    char path[300];
    snprintf(path, sizeof path, "%s/dog/alpha.png", from);
    assert_int_equal(unlink(path), 0);
}

/* Whether all files are those of one folder, or of the other; `complete`: so many are there, if not
 * 0. */
static bool same_files(const char *folder, const char *one, const char *other, uint64_t complete)
{
    static const char *const classes[] = {"cat", "dog"};
    uint64_t found = 0;

    for (size_t i = 0; i < 2; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, classes[i]);
        DIR *dir = opendir(path);
        for (struct dirent *entry; dir && (entry = readdir(dir)); found++) {
            char name[300];
            if (entry->d_name[0] == '.') {
                found--;
                continue;
            }
            snprintf(name, sizeof name, "%s/%.255s", classes[i], entry->d_name);
            bytes is = tree_load(folder, name), a = tree_load(one, name),
                  b = tree_load(other, name);
            bool good = (a.data && a.size == is.size && memcmp(a.data, is.data, is.size) == 0) ||
                        (b.data && b.size == is.size && memcmp(b.data, is.data, is.size) == 0);
            free(is.data);
            free(a.data);
            free(b.data);
            if (!good) {
                closedir(dir);
                return false;
            }
        }
        if (dir)
            closedir(dir);
    }
    return !complete || found == complete;
}

/* 1: the earlier conversion is done; 2: the one that is looked at. */
static bool is_good(void *user, const char *folder, int acked)
{
    conversions *c = user;
    char to[300];
    stk_error err;
    const bool done = acked == (c->earlier ? 2 : 1);

    snprintf(to, sizeof to, "%s/to", folder);
    if (!same_files(to, c->whole, done ? c->whole : c->before, done ? files_of(c->earlier) : 0))
        return false;
    if (c->earlier && acked == 0)
        return true;
    c->run.images.max_side = side_of(c->earlier);
    c->run.options.overwrite = c->earlier == OTHER_OPTIONS;
    if (tree_convert(&c->run, c->from, to, &err) != STK_OK)
        return false;
    return (!done || c->run.report.resumed == files_of(c->earlier)) &&
           same_files(to, c->whole, c->whole, files_of(c->earlier));
}

static uint64_t bad_cuts(earlier earlier, uint64_t cuts, cut_lie lie)
{
    static conversions c;
    char root[256];

    c = (conversions){.earlier = earlier};
    test_folder(c.from);
    test_folder(c.whole);
    test_folder(c.before);
    test_folder(root);
    snprintf(c.to, sizeof c.to, "%.250s/to", root);
    tree_make(c.from);
    tree_run_init(&c.run);
    c.run.options.checkpoint = 3;
    const int before = earlier == OTHER_OPTIONS ? 20 : side_of(earlier);
    convert(&c, c.before, before, false);
    cut_begin(root);
    if (earlier) {
        convert(&c, c.to, before, false);
        cut_ack(1);
    }
    if (earlier == OTHER_SOURCE)
        change_sources(c.from);
    convert(&c, c.to, side_of(earlier), earlier == OTHER_OPTIONS);
    cut_ack(earlier ? 2 : 1);
    cut_end();
    convert(&c, c.whole, side_of(earlier), false);
    uint64_t bad = cut_everywhere(cuts, lie, is_good, &c);
    test_folder_remove(c.from);
    test_folder_remove(c.whole);
    test_folder_remove(c.before);
    test_folder_remove(root);
    return bad;
}

static void into_a_new_folder(void **state)
{
    assert_int_equal(bad_cuts(NOTHING, cut_wanted(), CUT_HONEST), 0);
}

static void over_an_earlier_one(void **state)
{
    assert_int_equal(bad_cuts(OTHER_OPTIONS, cut_wanted(), CUT_HONEST), 0);
}

static void after_pictures_have_changed(void **state)
{
    assert_int_equal(bad_cuts(OTHER_SOURCE, cut_wanted(), CUT_HONEST), 0);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    assert_true(bad_cuts(NOTHING, 200, CUT_NO_FILE_SYNC) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_a_new_folder),
        cmocka_unit_test(over_an_earlier_one),
        cmocka_unit_test(after_pictures_have_changed),
        cmocka_unit_test(controls),
    };

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

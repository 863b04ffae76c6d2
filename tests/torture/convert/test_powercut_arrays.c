/* SPDX-License-Identifier: Apache-2.0 */
/* A conversion of arrays that a power cut ends: what has its name is whole, and the same command
 * again gives what an undisturbed one gives; one that said it is done is. */
#include <ftw.h>

#include "support/powercut.h"

#include "support/text.h"
#include "unit/convert/arrays.h"

typedef struct conversions {
    char folder[256], from[300], whole[300], before[300], root[256], to[300];
    bool earlier; /* a conversion of other values of the same sizes is overwritten */
    arrays_run run;
    stk_context *ctx;
} conversions;

static struct {
    const char *folder, *whole, *before;
    uint64_t found;
    bool good;
} walk;

static bool same_file(const char *a, const char *b)
{
    size_t a_size, b_size;
    uint8_t *x = test_load(a, &a_size), *y = test_load(b, &b_size);
    const bool same = x && y && a_size == b_size && memcmp(x, y, a_size) == 0;

    free(x);
    free(y);
    return same;
}

static int look(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    const char *name = path + strlen(walk.folder);
    char other[800], older[800];

    (void)st;
    if (kind != FTW_F || strstr(name, "/.")) /* no file of Zarr v3 is called so */
        return 0;
    snprintf(other, sizeof other, "%s%s", walk.whole, name);
    walk.found++;
    snprintf(older, sizeof older, "%s%s", walk.before, name);
    walk.good &= same_file(path, other) || same_file(path, older);
    return 0;
}

/* Whether what has a name is whole, of one conversion or the one before; `all`: everything is
 * there, of the first. */
static bool same_files(const conversions *c, const char *folder, bool all)
{
    uint64_t wanted;

    walk.folder = walk.whole = walk.before = c->whole;
    walk.found = 0;
    walk.good = true;
    nftw(c->whole, look, 16, FTW_PHYS);
    wanted = walk.found;
    walk.folder = folder;
    walk.before = all ? c->whole : c->before;
    walk.found = 0;
    nftw(folder, look, 16, FTW_PHYS);
    return walk.good && (!all || walk.found == wanted);
}

/* The document of the root says that all is there. */
static bool says_complete(const char *folder)
{
    char path[400];

    snprintf(path, sizeof path, "%s/zarr.json", folder);
    return access(path, F_OK) == 0;
}

/* 1: the earlier conversion is done; 2: the one that is looked at. */
static bool is_good(void *user, const char *folder, int acked)
{
    conversions *c = user;
    char to[300], target[320];
    stk_error err;
    const bool done = acked == (c->earlier ? 2 : 1);

    snprintf(to, sizeof to, "%s/to", folder);
    snprintf(target, sizeof target, "zarr:%s", to);
    if (!same_files(c, to, done || (!c->earlier && says_complete(to))))
        return false;
    if (c->earlier && acked == 0)
        return true;
    c->run.options.overwrite = c->earlier && !done;
    if (arrays_convert(&c->run, c->ctx, c->from, target, &err) != STK_OK)
        return false;
    return (!done || c->run.report.resumed == c->run.report.total) && same_files(c, to, true);
}

static void make_source(conversions *c, uint32_t seed)
{
    static const char *const names[] = {"x", "y"};
    const int64_t shape[2] = {6, 8}, chunk[2] = {1, 8};
    stk_array_writer_options o;
    char url[400];
    stk_error err;

    arrays_options(&o, 2, shape, chunk, names);
    snprintf(url, sizeof url, "%s/a", c->from);
    arrays_make(c->ctx, url, &o, seed);
    snprintf(url, sizeof url, "%s/b", c->from);
    arrays_make(c->ctx, url, &o, seed + 1);
    assert_ok(stk_group_consolidate(c->ctx, c->from, NULL, &err), &err);
}

static void convert(conversions *c, const char *to, bool overwrite)
{
    stk_error err;

    c->run.options.overwrite = overwrite;
    assert_ok(arrays_convert(&c->run, c->ctx, c->from, to, &err), &err);
}

static uint64_t bad_cuts(bool earlier, uint64_t cuts, cut_lie lie)
{
    static conversions c;
    char to[320];

    c = (conversions){.earlier = earlier};
    test_folder(c.folder);
    test_folder(c.root);
    c.ctx = test_context();
    snprintf(c.from, sizeof c.from, "%s/from.zarr", c.folder);
    snprintf(c.whole, sizeof c.whole, "%s/whole", c.folder);
    snprintf(c.before, sizeof c.before, "%s/before", c.folder);
    snprintf(c.to, sizeof c.to, "zarr:%.250s/to", c.root);
    arrays_run_init(&c.run);
    c.run.own.chunks = "3x4";
    c.run.own.codec = 0; /* one size, whatever the values */
    c.run.options.checkpoint = 2;
    make_source(&c, 1);
    snprintf(to, sizeof to, "zarr:%s", c.before);
    convert(&c, to, false);
    cut_begin(c.root);
    if (earlier) {
        convert(&c, c.to, false);
        cut_ack(1);
        test_folder_remove(c.from);
        make_source(&c, 5);
    }
    convert(&c, c.to, earlier);
    cut_ack(earlier ? 2 : 1);
    cut_end();
    snprintf(to, sizeof to, "zarr:%s", c.whole);
    convert(&c, to, false);
    const uint64_t bad = cut_everywhere(cuts, lie, is_good, &c);
    stk_context_destroy(&c.ctx);
    test_folder_remove(c.folder);
    test_folder_remove(c.root);
    return bad;
}

static void into_a_new_folder(void **state)
{
    assert_int_equal(bad_cuts(false, cut_wanted(), CUT_HONEST), 0);
}

static void over_an_earlier_one(void **state)
{
    assert_int_equal(bad_cuts(true, cut_wanted(), CUT_HONEST), 0);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    assert_true(bad_cuts(false, 200, CUT_NO_FILE_SYNC) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_a_new_folder),
        cmocka_unit_test(over_an_earlier_one),
        cmocka_unit_test(controls),
    };

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

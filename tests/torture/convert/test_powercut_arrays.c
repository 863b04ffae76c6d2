/* SPDX-License-Identifier: Apache-2.0 */
/* A conversion of arrays that a power cut ends: what has its name is whole, and the same command
 * again gives what an undisturbed one gives; one that said it is done is. */
#include <ftw.h>

#include "support/powercut.h"

#include "support/text.h"
#include "unit/convert/arrays.h"

typedef struct conversions {
    char folder[256], from[300], whole[300], root[256], to[300];
    arrays_run run;
    stk_context *ctx;
} conversions;

static struct {
    const char *folder, *whole;
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
    char other[800];

    (void)st;
    if (kind != FTW_F || strstr(name, "/.")) /* no file of Zarr v3 is called so */
        return 0;
    snprintf(other, sizeof other, "%s%s", walk.whole, name);
    walk.found++;
    walk.good &= same_file(path, other);
    return 0;
}

/* Whether what has a name is whole; `all`: everything is there. */
static bool same_files(const char *folder, const char *whole, bool all)
{
    uint64_t wanted;

    walk.folder = walk.whole = whole;
    walk.found = 0;
    walk.good = true;
    nftw(whole, look, 16, FTW_PHYS);
    wanted = walk.found;
    walk.folder = folder;
    walk.found = 0;
    nftw(folder, look, 16, FTW_PHYS);
    return walk.good && (!all || walk.found == wanted);
}

static bool is_good(void *user, const char *folder, int acked)
{
    conversions *c = user;
    char to[300], target[320];
    stk_error err;

    snprintf(to, sizeof to, "%s/to", folder);
    snprintf(target, sizeof target, "zarr:%s", to);
    if (!same_files(to, c->whole, acked > 0))
        return false;
    if (arrays_convert(&c->run, c->ctx, c->from, target, &err) != STK_OK)
        return false;
    return (!acked || c->run.report.resumed == c->run.report.total) &&
           same_files(to, c->whole, true);
}

static uint64_t bad_cuts(uint64_t cuts, cut_lie lie)
{
    static const char *const names[] = {"x", "y"};
    const int64_t shape[2] = {6, 8}, chunk[2] = {1, 8};
    static conversions c;
    stk_array_writer_options o;
    char url[400], to[320];
    stk_error err;

    test_folder(c.folder);
    test_folder(c.root);
    c.ctx = test_context();
    snprintf(c.from, sizeof c.from, "%s/from.zarr", c.folder);
    snprintf(c.whole, sizeof c.whole, "%s/whole", c.folder);
    stk_array_writer_options_init(&o);
    o.dtype = STK_INT32;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.dimension_names = names;
    snprintf(url, sizeof url, "%s/a", c.from);
    arrays_make(c.ctx, url, &o, 1);
    snprintf(url, sizeof url, "%s/b", c.from);
    arrays_make(c.ctx, url, &o, 2);
    assert_ok(stk_group_consolidate(c.ctx, c.from, NULL, &err), &err);
    arrays_run_init(&c.run);
    c.run.own.chunks = "3x4";
    c.run.options.checkpoint = 2;
    snprintf(to, sizeof to, "zarr:%s", c.whole);
    assert_ok(arrays_convert(&c.run, c.ctx, c.from, to, &err), &err);
    snprintf(c.to, sizeof c.to, "zarr:%.250s/to", c.root);
    cut_begin(c.root);
    assert_ok(arrays_convert(&c.run, c.ctx, c.from, c.to, &err), &err);
    cut_ack(1);
    cut_end();
    const uint64_t bad = cut_everywhere(cuts, lie, is_good, &c);
    stk_context_destroy(&c.ctx);
    test_folder_remove(c.folder);
    test_folder_remove(c.root);
    return bad;
}

static void into_a_new_folder(void **state)
{
    assert_int_equal(bad_cuts(cut_wanted(), CUT_HONEST), 0);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    assert_true(bad_cuts(200, CUT_NO_FILE_SYNC) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_a_new_folder),
        cmocka_unit_test(controls),
    };

    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

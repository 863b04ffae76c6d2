/* SPDX-License-Identifier: Apache-2.0 */
/* A conversion to shards that a power cut ends: a shard that is there is whole, the same command
 * again gives what an undisturbed one gives and leaves nothing lying about; one that said it is
 * done is. */
#include "base/durable.h"
#include "support/powercut.h"

#include <dirent.h>

#include <stoker/convert.h>

#include "base/base.h"
#include "base/files.h"

enum { ROOM = 1 << 16, SHARDS = 8 };

typedef struct conversions {
    stk_context *ctx;
    char old[256], new[256]; /* what undisturbed ones give */
    bool earlier;            /* the old one was there before */
} conversions;

static stk_status convert(conversions *c, const char *folder, bool old, stk_error *err)
{
    const char *from = old ? "digits:?size=20&seed=1" : "digits:?size=12&seed=2";
    stk_conversion *conversion = NULL;
    stk_convert_options options;
    char to[320];

    snprintf(to, sizeof to, "tfrecord:%s?shard_size=4KiB", folder);
    stk_convert_options_init(&options);
    options.overwrite = c->earlier; /* else only what was begun is gone on with */
    stk_error_init(err);
    stk_status status = stk_conversion_create(c->ctx, from, to, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, NULL, NULL, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* The bytes of a shard; 0: there is none. */
static size_t load(const char *folder, int number, uint8_t bytes[ROOM])
{
    char path[600];

    snprintf(path, sizeof path, "%s/shard-%06d.tfrecord", folder, number);
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    const size_t n = fread(bytes, 1, ROOM, f);
    fclose(f);
    return n;
}

/* The shard is the same in both; or there is none in either. */
static bool same(const char *a, const char *b, int number)
{
    static uint8_t one[ROOM], other[ROOM];
    const size_t n = load(a, number, one);

    return n == load(b, number, other) && memcmp(one, other, n) == 0;
}

static bool all_same(const char *a, const char *b)
{
    for (int i = 0; i < SHARDS; i++)
        if (!same(a, b, i))
            return false;
    return true;
}

static unsigned temporaries_in(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += stk__is_temporary(entry->d_name);
    closedir(folder);
    return n;
}

static bool is_good(void *user, const char *folder, int acked)
{
    static uint8_t bytes[ROOM];
    conversions *c = user;
    char to[300];
    stk_error err;

    snprintf(to, sizeof to, "%s/to", folder);
    if (acked == (c->earlier ? 2 : 1) && !all_same(to, c->new))
        return false;
    for (int i = 0; i < SHARDS; i++)
        if (load(to, i, bytes) > 0 && !same(to, c->new, i) && !(c->earlier && same(to, c->old, i)))
            return false;
    if (c->earlier && acked == 0)
        return true;
    return convert(c, to, false, &err) == STK_OK && all_same(to, c->new) && temporaries_in(to) == 0;
}

static uint64_t bad_cuts(bool earlier, uint64_t cuts, cut_lie lie)
{
    conversions c = {.ctx = test_context(), .earlier = earlier};
    char root[256], to[300];
    stk_error err;

    test_folder(c.old);
    test_folder(c.new);
    test_folder(root);
    snprintf(to, sizeof to, "%s/to", root);
    assert_ok(convert(&c, c.old, true, &err), &err);
    assert_ok(convert(&c, c.new, false, &err), &err);
    cut_begin(root);
    if (earlier) {
        assert_ok(convert(&c, to, true, &err), &err);
        cut_ack(1);
    }
    assert_ok(convert(&c, to, false, &err), &err);
    cut_ack(earlier ? 2 : 1);
    cut_end();
    const uint64_t bad = cut_everywhere(cuts, lie, is_good, &c);
    test_folder_remove(c.old);
    test_folder_remove(c.new);
    test_folder_remove(root);
    stk_context_destroy(&c.ctx);
    return bad;
}

static void into_a_new_folder(void **state)
{
    assert_int_equal(bad_cuts(false, cut_wanted(), CUT_HONEST), 0);
}

static void over_other_shards(void **state)
{
    assert_int_equal(bad_cuts(true, cut_wanted(), CUT_HONEST), 0);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    assert_true(bad_cuts(false, 200, CUT_NO_FILE_SYNC) > 0);
    assert_true(bad_cuts(true, 200, CUT_NO_FOLDER_SYNC) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_a_new_folder),
        cmocka_unit_test(over_other_shards),
        cmocka_unit_test(controls),
    };

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

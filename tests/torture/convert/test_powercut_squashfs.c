/* SPDX-License-Identifier: Apache-2.0 */
/* An image whose writing a power cut ends: what has its name is whole, the old one or the new one;
 * the same command again gives the new one and leaves nothing lying about; one that said it is done
 * is. */
#include "base/durable.h"
#include "support/powercut.h"

#include <dirent.h>

#include <stoker/convert.h>

#include "base/base.h"
#include "base/files.h"
#include "support/text.h"

typedef struct conversions {
    stk_context *ctx;
    char from[2][256]; /* the old and the new */
    char *image[2];    /* what undisturbed ones give */
    size_t size[2];
    bool earlier; /* the old one was there before */
} conversions;

static stk_status convert(conversions *c, const char *folder, int which, bool overwrite,
                          stk_error *err)
{
    stk_conversion *conversion = NULL;
    stk_convert_options options;
    char target[300];

    snprintf(target, sizeof target, "%s/a.sqfs", folder);
    stk_convert_options_init(&options);
    options.num_workers = 0;
    options.overwrite = overwrite;
    stk_error_init(err);
    stk_status status = stk_conversion_create(c->ctx, c->from[which], target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, NULL, NULL, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* Whether the image in a folder is that one. */
static bool holds(const conversions *c, const char *folder, int which)
{
    char path[300];
    size_t size;

    snprintf(path, sizeof path, "%s/a.sqfs", folder);
    char *bytes = test_load(path, &size);
    const bool same = bytes && size == c->size[which] && memcmp(bytes, c->image[which], size) == 0;
    free(bytes);
    return same;
}

static unsigned files_in(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.' || stk__is_temporary(entry->d_name);
    closedir(folder);
    return n;
}

static bool is_good(void *user, const char *folder, int acked)
{
    conversions *c = user;
    char path[300];
    stk_error err;

    snprintf(path, sizeof path, "%s/a.sqfs", folder);
    const bool there = access(path, F_OK) == 0;
    const bool is_new = holds(c, folder, 1), is_old = c->earlier && holds(c, folder, 0);
    if (acked == 2 ? !is_new : acked == 1 ? !is_new && !is_old : there && !is_new && !is_old)
        return false;
    return convert(c, folder, 1, true, &err) == STK_OK && holds(c, folder, 1) &&
           files_in(folder) == 1;
}

static uint64_t bad_cuts(bool earlier, uint64_t cuts, cut_lie lie)
{
    conversions c = {.ctx = test_context(), .earlier = earlier};
    char root[256], path[300], name[20], text[9000];
    stk_error err;

    for (int i = 0; i < 2; i++) {
        test_folder(c.from[i]);
        test_folder(root);
        for (int k = 0; k < 5; k++) {
            memset(text, 'a' + k * (i + 1) % 4, sizeof text);
            snprintf(name, sizeof name, "%d/%d", k % 2, k);
            test_write(c.from[i], name, text, sizeof text);
        }
        assert_ok(convert(&c, root, i, false, &err), &err);
        snprintf(path, sizeof path, "%s/a.sqfs", root);
        c.image[i] = test_load(path, &c.size[i]);
        test_folder_remove(root);
    }
    test_folder(root);
    cut_begin(root);
    if (earlier) {
        assert_ok(convert(&c, root, 0, false, &err), &err);
        cut_ack(1);
    }
    assert_ok(convert(&c, root, 1, true, &err), &err);
    cut_ack(2);
    cut_end();
    const uint64_t bad = cut_everywhere(cuts, lie, is_good, &c);
    for (int i = 0; i < 2; i++) {
        test_folder_remove(c.from[i]);
        free(c.image[i]);
    }
    test_folder_remove(root);
    stk_context_destroy(&c.ctx);
    return bad;
}

static void a_new_image(void **state)
{
    assert_int_equal(bad_cuts(false, cut_wanted(), CUT_HONEST), 0);
}

static void over_another(void **state)
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
        cmocka_unit_test(a_new_image),
        cmocka_unit_test(over_another),
        cmocka_unit_test(controls),
    };

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

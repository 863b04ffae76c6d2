/* SPDX-License-Identifier: Apache-2.0 */
/* images: pictures and their masks. */
#include "images.h"

static void test_pairs(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], masks[300], pictures[300], query[400];
    taken t;

    test_folder(folder);
    snprintf(pictures, sizeof pictures, "%s/pictures", folder);
    snprintf(masks, sizeof masks, "%s/masks", folder);
    snprintf(query, sizeof query, "?masks=%s", masks);
    images_write_png(pictures, "b.jpg", 7, 5);
    images_write_png(pictures, "b-2.JPEG", 6, 5);
    images_write_png(pictures, "x/deep/b.png", 5, 5);
    images_write_png(pictures, "x/deep/two.dots.png", 4, 5);
    images_write_png(masks, "b.png", 7, 5);
    images_write_png(masks, "b-2.png", 6, 5);
    images_write_png(masks, "x/deep/b.PNG", 5, 5);
    images_write_png(masks, "x/deep/two.dots.png", 4, 5);
    images_write_png(masks, "x/deep/two.png", 4, 5);
    images_write_png(masks, "spare.png", 4, 5);
    static const char *const keys[][2] = {
        {"b-2.JPEG", "b-2.png"},
        {"b.jpg", "b.png"},
        {"x/deep/b.png", "x/deep/b.PNG"},
        {"x/deep/two.dots.png", "x/deep/two.dots.png"},
    };
    for (int again = 0; again < 2; again++) {
        stk_dataset *d = images_open_good(ctx, pictures, query);
        assert_int_equal(d->size, 4);
        assert_int_equal(d->num_classes, 0);
        assert_null(d->classes);
        const stk_field *f = &d->fields[1];
        assert_string_equal(f->name, "mask");
        assert_int_equal(f->layout, STK_BYTES);
        assert_int_equal(f->dtype, STK_UINT8);
        assert_int_equal(f->shape[2], 1);
        assert_string_equal(f->codec, "image");
        assert_true(f->picture && f->mask && !d->fields[0].mask);
        for (uint64_t i = 0; i < 4; i++) {
            images_take(d, i, &t);
            assert_int_equal(t.status, STK_OK);
            assert_string_equal(t.keys[0], keys[i][0]);
            assert_string_equal(t.keys[1], keys[i][1]);
            for (int k = 0; k < 2; k++) {
                assert_ptr_equal(t.values[k].data, t.memory[k]);
                assert_int_equal(t.values[k].size, t.needs[k].size);
                assert_int_equal(t.bounds[k], t.needs[k].size);
                assert_int_equal(t.memory[k][19], 6 + (i == 1) - (i > 1) * (i - 1));
            }
        }
        images_check_line(d, "labels", "6 masks, 2 of them without a picture");
        images_check_line(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_that_do_not_fit(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], masks[300], pictures[300], query[400];
    stk_dataset *d = NULL;
    stk_error err;
    taken t;

    test_folder(folder);
    snprintf(pictures, sizeof pictures, "%s/pictures", folder);
    snprintf(masks, sizeof masks, "%s/masks", folder);
    snprintf(query, sizeof query, "?masks=%s", masks);
    images_write_png(pictures, "a.png", 7, 5);
    assert_fails(images_open_spec(ctx, pictures, query, &d, &err), STK_ENOENT, &err, "masks");
    images_write_png(masks, "A.png", 7, 5);
    assert_fails(images_open_spec(ctx, pictures, query, &d, &err), STK_ENOENT, &err,
                 "'a.png' has no mask");
    images_write_png(masks, "a.png", 5, 7);
    images_write_png(pictures, "b.png", 7, 5);
    images_write(masks, "b.png", "");
    images_write(pictures, "c.png", "");
    images_write_png(masks, "c.png", 7, 5);
    images_write(pictures, "d.png", "no picture: decoding will say so");
    images_write_png(masks, "d.png", 7, 5);
    d = images_open_good(ctx, pictures, query);
    images_take(d, 0, &t);
    assert_int_equal(t.status, STK_EFORMAT);
    assert_non_null(strstr(t.reason, "another size"));
    images_take(d, 1, &t);
    assert_int_equal(t.status, STK_ETRUNCATED);
    assert_non_null(strstr(t.reason, "mask is empty"));
    images_take(d, 2, &t);
    assert_int_equal(t.status, STK_ETRUNCATED);
    images_take(d, 3, &t);
    assert_int_equal(t.status, STK_OK);
    stk_dataset_close(&d);
    images_write_png(masks, "a.jpg", 7, 5);
    assert_fails(images_open_spec(ctx, pictures, query, &d, &err), STK_EINVAL, &err,
                 "masks of the same picture");
    snprintf(query, sizeof query, "?allow_empty=true&masks=%s", masks);
    assert_fails(images_open_spec(ctx, pictures, query, &d, &err), STK_EINVAL, &err, "allow_empty");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Each keeps its own index, also where a path is given. */
static void test_indexes(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], masks[300], pictures[300], query[900], path[400];

    test_folder(folder);
    snprintf(pictures, sizeof pictures, "%s/pictures", folder);
    snprintf(masks, sizeof masks, "%s/masks", folder);
    images_write_png(pictures, "a.png", 7, 5);
    images_write_png(masks, "a.png", 7, 5);
    snprintf(query, sizeof query, "?masks=%s&index=%s/index", masks, folder);
    for (int again = 0; again < 2; again++) {
        stk_dataset *d = images_open_good(ctx, pictures, query);
        images_check_line(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    snprintf(path, sizeof path, "%s/index.masks", folder);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/.stoker-index", masks);
    assert_int_equal(access(path, F_OK), -1);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_that_do_not_fit),
        cmocka_unit_test(test_indexes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

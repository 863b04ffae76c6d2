/* SPDX-License-Identifier: Apache-2.0 */
/* What pictures become: against Pillow's files, and against what must not change. */
#include "tree.h"

#include <math.h>

static void same_bytes(const char *from, const char *name_from, const char *to, const char *name_to)
{
    bytes a = tree_load(from, name_from), b = tree_load(to, name_to);

    assert_non_null(a.data);
    assert_non_null(b.data);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    free(a.data);
    free(b.data);
}

static double mean_square(const picture *a, const picture *b)
{
    double sum = 0;

    assert_int_equal(a->info.width, b->info.width);
    assert_int_equal(a->info.height, b->info.height);
    for (size_t i = 0; i < a->size; i++)
        sum += pow((double)a->data[i] - b->data[i], 2);
    return sum / (double)a->size;
}

/* Pillow's file of the same name, side and quality. */
typedef struct golden {
    const char *source, *file;
    uint64_t side;
} golden;

static const golden goldens[] = {
    {"cmyk.jpg", "0_cmyk_jpg", 0},
    {"ycck.jpg", "0_ycck_jpg", 0},
    {"cmyk_progressive.jpg", "0_cmyk_progressive_jpg", 0},
    {"rgb_8.png", "0_rgb_8_png", 0},
    {"grey_8.png", "0_grey_8_png", 0},
    {"rgb_8_interlaced.png", "0_rgb_8_interlaced_png", 0},
    {"base_444.jpg", "20_base_444_jpg", 20},
    {"base_420.jpg", "24_base_420_jpg", 24},
    {"rgb.jpg", "17_rgb_jpg", 17},
    {"grey.jpg", "20_grey_jpg", 20},
    {"rgb_8.png", "24_rgb_8_png", 24},
    {"progressive_420.jpg", "16_progressive_420_jpg", 16},
    {"cmyk.jpg", "20_cmyk_jpg", 20},
    {"thin.jpg", "5_thin_jpg", 5},
};

/* The same pixels where nothing is resized; else as near as a level of the resampler allows, which
 * the quantiser may turn into a step of its own here and there. */
static void test_as_pillow(void **state)
{
    stk_context *ctx = test_context();

    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const golden *g = &goldens[i];
        char from[256], to[256], name[64], wanted[100];
        bool png = strstr(g->source, ".png");
        tree_run run;
        stk_error err;

        test_folder(from);
        test_folder(to);
        tree_add(from, g->source, png ? "c/x.png" : "c/x.jpg");
        tree_run_init(&run);
        run.images.max_side = g->side;
        run.images.dct_scaling = 1;
        assert_ok(tree_convert(&run, from, to, &err), &err);
        assert_int_equal(run.report.encoded, 1);
        assert_int_equal(run.report.compared, 1);
        snprintf(name, sizeof name, "c/x.jpg");
        snprintf(wanted, sizeof wanted, "golden/convert/%s.jpg", g->file);
        picture ours = tree_picture(ctx, to, name);
        picture theirs = tree_picture(ctx, TESTS_DIR, wanted);
        double error = mean_square(&ours, &theirs);
        assert_int_equal(ours.info.components, theirs.info.components);
        assert_int_equal(ours.markers.frame, 0xc0);
        if (error > (g->side ? 2.0 : 0.0))
            fail_msg("%s: mean square error %g", g->file, error);
        free(ours.data);
        free(theirs.data);
        test_folder_remove(from);
        test_folder_remove(to);
    }
    stk_context_destroy(&ctx);
}

static void test_layout(void **state)
{
    static const char *const names[] = {
        "cat/base.jpg",  "cat/progressive.JPEG", "cat/cmyk.jpg", "cat/grey.jpg",
        "cat/rgb.jpg",   "cat/palette.png",      "dog/six.jpg",  "dog/three.jpg",
        "dog/a b%c.jpg", "dog/alpha.png",        "dog/grey.jpg",
    };
    char from[256], to[256];
    tree_run run;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(from);
    test_folder(to);
    tree_make(from);
    tree_run_init(&run);
    run.images.max_side = 16;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    assert_int_equal(run.report.total, TREE_FILES);
    assert_int_equal(run.report.kept_png, 2);
    assert_int_equal(run.report.copied + run.report.encoded, TREE_FILES);
    assert_int_equal(run.report.verified, TREE_FILES);
    for (size_t i = 0; i < TREE_FILES; i++) {
        picture p = tree_picture(ctx, to, names[i]);
        if (p.info.format == STK__IMAGE_JPEG) {
            assert_true(p.info.width <= 16 && p.info.height <= 16);
            assert_true(p.info.width == 16 || p.info.height == 16 || p.info.width == 7);
            assert_false(p.info.progressive);
        }
        free(p.data);
    }
    same_bytes(from, "cat/palette.png", to, "cat/palette.png");
    same_bytes(from, "dog/alpha.png", to, "dog/alpha.png");
    same_bytes(from, "dog/a b%c.jpg", to, "dog/a b%c.jpg");
    test_folder_remove(from);
    test_folder_remove(to);
    stk_context_destroy(&ctx);
}

/* What is small enough keeps every pixel, and where it can every byte. */
static void test_without_loss(void **state)
{
    static const char *const copied[] = {"base_420.jpg", "base_444.jpg", "restart.jpg",
                                         "exif_6.jpg",   "grey.jpg",     "rgb.jpg",
                                         "trailing.jpg"};
    static const char *const rewritten[] = {"progressive_420.jpg", "progressive_444.jpg",
                                            "progressive_grey.jpg", "restart_progressive.jpg"};
    char from[256], to[256];
    tree_run run;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(from);
    test_folder(to);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        tree_add(from, copied[i], copied[i]);
    for (size_t i = 0; i < sizeof rewritten / sizeof *rewritten; i++)
        tree_add(from, rewritten[i], rewritten[i]);
    tree_run_init(&run);
    run.images.max_side = 512;
    run.images.restart_interval = 2;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    assert_int_equal(run.report.copied, sizeof copied / sizeof *copied);
    assert_int_equal(run.report.rewritten, sizeof rewritten / sizeof *rewritten);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        same_bytes(from, copied[i], to, copied[i]);
    for (size_t i = 0; i < sizeof rewritten / sizeof *rewritten; i++) {
        picture before = tree_picture(ctx, from, rewritten[i]);
        picture after = tree_picture(ctx, to, rewritten[i]);
        assert_true(before.info.progressive);
        assert_int_equal(after.markers.frame, 0xc0);
        assert_int_equal(before.size, after.size);
        assert_memory_equal(before.data, after.data, before.size);
        free(before.data);
        free(after.data);
    }
    test_folder_remove(from);
    test_folder_remove(to);
    stk_context_destroy(&ctx);
}

/* Pixel (y, x) of a picture turned upright, from EXIF's words: where row 0 and column 0 lie. */
static const uint8_t *upright(const picture *p, uint32_t y, uint32_t x)
{
    uint32_t w = p->info.width, h = p->info.height, row = 0, column = 0;

    switch (p->info.orientation) {
    case 1:
        row = y, column = x;
        break; /* top, left */
    case 2:
        row = y, column = w - 1 - x;
        break; /* top, right */
    case 3:
        row = h - 1 - y, column = w - 1 - x;
        break; /* bottom, right */
    case 4:
        row = h - 1 - y, column = x;
        break; /* bottom, left */
    case 5:
        row = x, column = y;
        break; /* left, top */
    case 6:
        row = h - 1 - x, column = y;
        break; /* right, top */
    case 7:
        row = h - 1 - x, column = w - 1 - y;
        break; /* right, bottom */
    case 8:
        row = x, column = w - 1 - y;
        break; /* left, bottom */
    default:
        fail_msg("orientation %u", p->info.orientation);
    }
    return p->data + ((size_t)row * w + column) * 3;
}

static void check_turned(const picture *before, const picture *after)
{
    bool swapped = before->info.orientation >= 5;
    double sum = 0;

    assert_int_equal(after->info.orientation, 1);
    assert_int_equal(after->info.width, swapped ? before->info.height : before->info.width);
    assert_int_equal(after->info.height, swapped ? before->info.width : before->info.height);
    for (uint32_t y = 0; y < after->info.height; y++)
        for (uint32_t x = 0; x < after->info.width; x++)
            for (int c = 0; c < 3; c++)
                sum += pow((double)upright(before, y, x)[c] -
                               after->data[((size_t)y * after->info.width + x) * 3 + c],
                           2);
    /* Quality 100 without subsampling: what is left is rounding. */
    assert_true(sum / (double)after->size < 2);
}

static void test_orientation(void **state)
{
    char from[256], to[256], kept[256], name[32];
    tree_run run;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(from);
    test_folder(to);
    test_folder(kept);
    for (int i = 1; i <= 8; i++) {
        snprintf(name, sizeof name, "exif_%d.jpg", i);
        tree_add(from, name, name);
    }
    tree_add(from, "exif_6.png", "six.png");
    tree_run_init(&run);
    run.images.upright = true;
    run.images.quality = 100;
    run.images.subsampling = 2;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    assert_int_equal(run.report.copied, 1);
    for (int i = 1; i <= 9; i++) {
        snprintf(name, sizeof name, i < 9 ? "exif_%d.jpg" : "six.png", i);
        picture before = tree_picture(ctx, from, name);
        assert_int_equal(before.info.orientation, i < 9 ? i : 6);
        snprintf(name, sizeof name, i < 9 ? "exif_%d.jpg" : "six.jpg", i);
        picture after = tree_picture(ctx, to, name);
        check_turned(&before, &after);
        free(before.data);
        free(after.data);
    }
    /* Without it the pixels stay and the orientation is told as before, in smaller files too. */
    run.images.upright = false;
    run.images.max_side = 12;
    assert_ok(tree_convert(&run, from, kept, &err), &err);
    assert_int_equal(run.report.encoded, 9);
    for (int i = 1; i <= 9; i++) {
        snprintf(name, sizeof name, i < 9 ? "exif_%d.jpg" : "six.jpg", i);
        picture after = tree_picture(ctx, kept, name);
        assert_int_equal(after.info.orientation, i < 9 ? i : 6);
        free(after.data);
    }
    test_folder_remove(from);
    test_folder_remove(to);
    test_folder_remove(kept);
    stk_context_destroy(&ctx);
}

/* Neither threads nor the way of reading change a byte; no more memory than the budget is held. */
static void test_workers_do_not_matter(void **state)
{
    char from[256], alone[256], many[256];
    tree_run run;
    stk_error err;

    test_folder(from);
    test_folder(alone);
    test_folder(many);
    tree_make(from);
    for (int i = 0; i < 40; i++) {
        char name[40];
        snprintf(name, sizeof name, "more/%d.jpg", i);
        tree_add(from, i % 2 ? "base_444.jpg" : "high_quality.jpg", name);
    }
    tree_run_init(&run);
    run.images.max_side = 20;
    assert_ok(tree_convert(&run, from, alone, &err), &err);
    stk_conversion_report first = run.report;
    run.options.num_workers = 4;
    run.options.checkpoint = 5;
    /* Shares too small for any of them: each takes all the memory in turn. */
    run.options.memory_budget = 4 << 20;
    assert_ok(tree_convert(&run, from, many, &err), &err);
    assert_int_equal(run.report.bytes_after, first.bytes_after);
    assert_true(run.report.worst_psnr == first.worst_psnr);
    assert_true(run.report.mean_psnr == first.mean_psnr);
    assert_string_equal(run.report.worst, first.worst);
    tree_equal(alone, many);
    test_folder_remove(from);
    test_folder_remove(alone);
    test_folder_remove(many);
}

static void test_options(void **state)
{
    char from[256], to[256];
    tree_run run;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(from);
    test_folder(to);
    tree_add(from, "rgb_8.png", "x.png");
    tree_run_init(&run);
    run.images.quality = 30;
    run.images.subsampling = 1;
    run.images.restart_interval = 1;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    uint64_t small = run.report.bytes_after;
    bytes b = tree_load(to, "x.jpg");
    bool restarts = false, factors = false;
    for (size_t i = 0; i + 12 < b.size; i++) {
        restarts = restarts || (b.data[i] == 0xff && b.data[i + 1] == 0xd3);
        /* SOF0: 8 bits, two sides, 3 components; the first is sampled 2 x 1. */
        factors = factors || (b.data[i] == 0xff && b.data[i + 1] == 0xc0 && b.data[i + 11] == 0x21);
    }
    assert_true(restarts);
    assert_true(factors);
    free(b.data);
    run.options.overwrite = true;
    run.images.quality = 95;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    assert_true(run.report.bytes_after > small);
    run.images.keep_png = true;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    same_bytes(from, "x.png", to, "x.png");
    /* What the earlier conversion wrote under another name has no place in this one. */
    assert_null(tree_load(to, "x.jpg").data);
    run.options.verify = STK_VERIFY_NONE;
    run.images.keep_png = false;
    assert_ok(tree_convert(&run, from, to, &err), &err);
    assert_int_equal(run.report.verified, 0);
    assert_int_equal(run.report.compared, 0);
    test_folder_remove(from);
    test_folder_remove(to);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_pillow),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_without_loss),
        cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_workers_do_not_matter),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

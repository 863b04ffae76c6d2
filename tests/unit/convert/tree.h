/* Folders of pictures for the tests of conversion: made of golden files, converted, compared. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_TREE_H
#define STK_TESTS_TREE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/image/encode/encode.h"
#include "codec/image/image.h"
#include "support/support.h"
#include "support/text.h"

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

/* All of a file; no data where there is none. Some bytes behind it are readable. */
static inline bytes tree_load(const char *folder, const char *name)
{
    char path[700];
    bytes b = {0};

    snprintf(path, sizeof path, "%s/%s", folder, name);
    b.data = test_load(path, &b.size);
    return b;
}

/* Copy a picture of tests/golden/images into a folder. */
static inline void tree_add(const char *folder, const char *golden, const char *name)
{
    bytes b = tree_load(TESTS_DIR "/golden/images", golden);

    assert_non_null(b.data);
    test_write(folder, name, b.data, b.size);
    free(b.data);
}

/* Eleven pictures of all kinds in two classes. */
#define TREE_FILES 11
static inline void tree_make(const char *folder)
{
    tree_add(folder, "base_420.jpg", "cat/base.jpg");
    tree_add(folder, "progressive_420.jpg", "cat/progressive.JPEG");
    tree_add(folder, "cmyk.jpg", "cat/cmyk.jpg");
    tree_add(folder, "grey.jpg", "cat/grey.jpg");
    tree_add(folder, "rgb_8.png", "cat/rgb.png");
    tree_add(folder, "palette_8.png", "cat/palette.png");
    tree_add(folder, "exif_6.jpg", "dog/six.jpg");
    tree_add(folder, "exif_3.jpg", "dog/three.jpg");
    tree_add(folder, "seven.jpg", "dog/a b%c.jpg");
    tree_add(folder, "rgba_8.png", "dog/alpha.png");
    tree_add(folder, "grey_8.png", "dog/grey.png");
}

/* What a run does besides converting. */
typedef struct tree_run {
    stk_convert_options options;
    stk_convert_images_options images;
    stk_conversion_report report;
    void (*progress)(void *user, uint64_t done); /* NULL: nothing */
    void *user;
    stk_conversion *conversion; /* while it runs */
    const stk_store_ops *store; /* of the context; NULL: none */
} tree_run;

static inline void tree_run_init(tree_run *run)
{
    memset(run, 0, sizeof *run);
    run->report.struct_size = sizeof run->report;
    stk_convert_options_init(&run->options);
    stk_options_init(stk_option_table_find("images"), &run->images, sizeof run->images);
    run->options.num_workers = 0;
}

static inline bool tree_goes_on(const stk_conversion_job *job)
{
    (void)job;
    return false;
}

/* A job that writes into `to`, for what is tested below a conversion. */
static inline stk_conversion_job tree_job(stk_context *ctx, const char *to)
{
    static stk_convert_options options;

    stk_convert_options_init(&options);
    return (stk_conversion_job){.struct_size = sizeof(stk_conversion_job),
                                .context = ctx,
                                .source = "images:/nowhere",
                                .target = to,
                                .options = &options,
                                .canceled = tree_goes_on};
}

static inline void tree_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    tree_run *run = user;

    if (run->progress)
        run->progress(run->user, done);
}

/* Convert images:`from` into `to` in a context of its own, which may have a store of a test. */
static inline stk_status tree_convert(tree_run *run, const char *from, const char *to,
                                      stk_error *err)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    char spec[600];

    stk_error_init(err);
    stk_context_options_init(&options);
    options.progress = tree_progress;
    options.progress_user = run;
    assert_ok(stk_context_create(&options, &ctx, err), err);
    if (run->store)
        assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, run->store, err), err);
    snprintf(spec, sizeof spec, "images:%s?index=none", from);
    stk_status status = stk_conversion_create(ctx, spec, to, &run->conversion, err);
    if (status == STK_OK)
        status =
            stk_conversion_run(run->conversion, &run->options, &run->images, &run->report, err);
    stk_conversion_destroy(&run->conversion);
    stk_context_destroy(&ctx);
    return status;
}

/* Whether two folders hold the same files, the journal aside. */
static inline void tree_equal(const char *a, const char *b)
{
    char command[1200];

    snprintf(command, sizeof command, "diff -r -x .stoker-convert '%s' '%s' >&2", a, b);
    assert_int_equal(system(command), 0);
}

/* A picture decoded by our decoder, which is checked against Pillow's. */
typedef struct picture {
    stk__image_info info;
    stk__jpeg_markers markers; /* without exif */
    uint8_t *data;             /* RGB */
    size_t size;
} picture;

static inline picture tree_decode(stk_context *ctx, const bytes *b)
{
    picture p = {0};
    stk__image_decoder *decoder;
    stk__image_region region;
    stk__image_rows rows;
    const char *reason = "";
    stk_error err;
    stk_status status;

    assert_non_null(b->data);
    assert_ok(stk__image_decoder_create(ctx, NULL, 3, &decoder, &err), &err);
    status = stk__image_decoder_begin(decoder, b->data, b->size, NULL, 1, &region, &reason);
    if (status != STK_OK)
        fail_msg("%s", reason);
    assert_int_equal(stk__image_peek(b->data, b->size, NULL, &p.info, &reason), STK_OK);
    if (p.info.format == STK__IMAGE_JPEG)
        stk__jpeg_read_markers(b->data, b->size, &p.markers);
    p.size = (size_t)region.width * region.height * 3;
    p.data = malloc(p.size);
    while ((status = stk__image_decoder_rows(decoder, 0, &rows, &reason)) == STK_OK)
        for (uint32_t i = 0; i < rows.count; i++)
            memcpy(p.data + (size_t)(rows.first + i) * region.width * 3,
                   rows.data + i * rows.stride, (size_t)region.width * 3);
    assert_int_equal(status, STK_EOS);
    stk__image_decoder_destroy(&decoder);
    return p;
}

static inline picture tree_picture(stk_context *ctx, const char *folder, const char *name)
{
    bytes b = tree_load(folder, name);

    if (!b.data)
        fail_msg("%s/%s is not there", folder, name);
    picture p = tree_decode(ctx, &b);
    free(b.data);
    return p;
}

#endif

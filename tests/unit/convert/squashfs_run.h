/* A folder of files of all kinds, and a conversion of one into an image. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SQUASHFS_RUN_H
#define STK_TESTS_SQUASHFS_RUN_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "support/support.h"
#include "support/text.h"

enum { BLOCK = 4096 };

/* A conversion, and what happens while it runs. */
typedef struct image_run {
    stk_convert_options options;
    stk_convert_squashfs_options own;
    stk_conversion_report report;
    void (*progress)(void *user, uint64_t done); /* NULL: nothing */
    void *user;
    const stk_store_ops *store; /* of the context; NULL: none */
} image_run;

static inline void image_run_init(image_run *r)
{
    memset(r, 0, sizeof *r);
    r->report.struct_size = sizeof r->report;
    stk_convert_options_init(&r->options);
    stk_options_init(stk_option_table_find("squashfs"), &r->own, sizeof r->own);
    r->options.num_workers = 0;
    r->own.block = BLOCK;
}

static inline void image_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    image_run *r = user;

    (void)what, (void)total;
    if (r->progress)
        r->progress(r->user, done);
}

/* The one that runs. */
static stk_conversion *image_in_work;

static inline stk_status image_pack(image_run *r, const char *from, const char *to, stk_error *err)
{
    stk_context_options options;
    stk_context *ctx = NULL;

    stk_error_init(err);
    stk_context_options_init(&options);
    options.progress = image_progress;
    options.progress_user = r;
    assert_ok(stk_context_create(&options, &ctx, err), err);
    if (r->store)
        assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, r->store, err), err);
    stk_status status = stk_conversion_create(ctx, from, to, &image_in_work, err);
    if (status == STK_OK)
        status = stk_conversion_run(image_in_work, &r->options, &r->own, &r->report, err);
    stk_conversion_destroy(&image_in_work);
    stk_context_destroy(&ctx);
    return status;
}

/* Files in a folder. */
static inline size_t image_files_in(const char *path)
{
    DIR *folder = opendir(path);
    size_t n = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return n;
}

/* What a test has: a folder to be packed, one for images, the image, and how. */
typedef struct image_room {
    char folder[256], to[256], path[300];
    image_run run;
    stk_error err;
} image_room;

static inline int image_begin(void **state)
{
    static image_room w;

    test_folder(w.folder);
    test_folder(w.to);
    snprintf(w.path, sizeof w.path, "%s/a.sqfs", w.to);
    image_run_init(&w.run);
    *state = &w;
    return 0;
}

static inline int image_end(void **state)
{
    const image_room *w = *state;

    test_folder_remove(w->folder);
    test_folder_remove(w->to);
    return 0;
}

static inline stk_status image_pack_room(image_room *w)
{
    return image_pack(&w->run, w->folder, w->path, &w->err);
}

/* ---- The folder ------------------------------------------------------------------------------ */

enum { BYTES = 40000, LARGE = 300000, FILES = 23, FOLDERS = 7 };

/* Text that shrinks; or bytes that do not. */
static inline void image_fill(uint8_t *bytes, size_t size, bool random, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(random ? test_random(&seed) >> 20 : (i * i / 7 + i / 100 + seed) % 23);
}

static inline void image_make_folder(const char *folder)
{
    static const size_t sizes[] = {0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, BYTES};
    static uint8_t bytes[BYTES];
    char name[700], is[256];

    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        image_fill(bytes, sizes[i], false, i + 1);
        snprintf(name, sizeof name, "text/%zu", sizes[i]);
        test_write(folder, name, bytes, sizes[i]);
        image_fill(bytes, sizes[i], true, i + 1);
        snprintf(name, sizeof name, "random/%zu.jpg", sizes[i]);
        if (sizes[i])
            test_write(folder, name, bytes, sizes[i]);
    }
    /* Twice the same, of one block and of several. */
    test_write(folder, "twice/large", bytes, BYTES);
    image_fill(bytes, BLOCK, false, 4);
    test_write(folder, "text-again", bytes, BLOCK);
    /* Holes: in the middle, and all of it. */
    memset(bytes + BLOCK, 0, 3 * BLOCK);
    test_write(folder, "holes/a", bytes, 4 * BLOCK + 7);
    memset(bytes, 0, BYTES);
    test_write(folder, "holes/b", bytes, BLOCK + 2);
    /* Pieces enough for threads. */
    uint8_t *large = malloc(LARGE);
    for (int i = 0; i < 4; i++) {
        image_fill(large, LARGE, i & 1, 90 + i);
        image_fill(large, LARGE / 2, !(i & 1), 95 + i);
        snprintf(name, sizeof name, "large/%d", i);
        test_write(folder, name, large, LARGE);
    }
    free(large);
    memset(is, 'n', 255);
    is[255] = 0;
    snprintf(name, sizeof name, "odd/%s", is);
    test_write(folder, name, "long", 4);
    test_write(folder, "odd/\x01\xff \\*\n", "odd", 3);
    snprintf(name, sizeof name, "%s/empty", folder);
    assert_int_equal(mkdir(name, 0777), 0);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of `images:` share: trees, small PNG files, one sample taken by hand. */
#ifndef STK_TESTS_IMAGES_H
#define STK_TESTS_IMAGES_H

#include "dataset/images.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "support/support.h"

#define TAKEN_MAX 4096

static inline stk_status images_open_spec(stk_context *ctx, const char *path, const char *query,
                                          stk_dataset **out, stk_error *err)
{
    char spec[2048];

    snprintf(spec, sizeof spec, "images:%s%s", path, query);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

static inline stk_dataset *images_open_good(stk_context *ctx, const char *path, const char *query)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(images_open_spec(ctx, path, query, &d, &err), &err);
    assert_non_null(d);
    return d;
}

static inline const char *images_object_key(stk_dataset *d, uint64_t object, char key[4096])
{
    stk_store *store = NULL;

    size_t length = d->ops->object(d, object, &store, key, 4096);
    assert_int_equal(length, strlen(key));
    assert_non_null(store);
    return key;
}

/* One sample on its way: located, read, prepared. */
typedef struct taken {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[2];
    uint32_t num_needs;
    unsigned char memory[2][TAKEN_MAX + 64];
    char keys[2][4096];
    uint64_t bounds[2];
    double cost;
    stk_status status;
    const char *reason;
    stk_value values[2];
    int64_t label;
} taken;

static inline stk_status taken_add(stk_locator *self, size_t i, const stk_need *need)
{
    taken *t = (taken *)self;
    uint32_t k = t->num_needs++;
    stk_store *store = NULL;

    assert_int_equal(i, 0);
    assert_true(k < 2 && need->offset == 0 && need->length <= TAKEN_MAX);
    t->dataset->ops->object(t->dataset, need->object, &store, t->keys[k], sizeof t->keys[k]);
    t->needs[k] = (stk_slice){t->memory[k], need->length};
    if (need->length && t->status == STK_OK)
        t->status = stk_store_read(store, t->keys[k], 0, need->length, t->memory[k], NULL);
    return STK_OK;
}

static inline void taken_cost(stk_locator *self, size_t i, double nanoseconds)
{
    ((taken *)self)->cost = nanoseconds;
}

static inline void taken_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    ((taken *)self)->bounds[field] = bytes;
}

static inline void images_take(stk_dataset *d, uint64_t index, taken *t)
{
    stk_error err;

    memset(t, 0, sizeof *t);
    t->base = (stk_locator){.struct_size = sizeof(stk_locator),
                            .add = taken_add,
                            .cost = taken_cost,
                            .bytes = taken_bytes};
    t->dataset = d;
    assert_ok(d->ops->locate(d, &index, 1, &t->base, &err), &err);
    stk_sample sample = {.index = index, .needs = t->needs, .values = t->values};
    t->values[1] = (stk_value){.out = &t->label, .capacity = sizeof t->label};
    if (t->status != STK_OK)
        return;
    d->ops->prepare(d, &sample, 1);
    t->status = sample.status;
    t->reason = sample.reason;
}

/* The sample is this file with this label, and its value is its need, not a copy. */
static inline void images_check(stk_dataset *d, uint64_t index, const char *key, int64_t label,
                                const char *content)
{
    taken t;

    images_take(d, index, &t);
    assert_string_equal(t.keys[0], key);
    assert_int_equal(t.status, STK_OK);
    assert_ptr_equal(t.values[0].data, t.memory[0]);
    assert_int_equal(t.values[0].size, strlen(content));
    assert_int_equal(t.bounds[0], strlen(content));
    assert_memory_equal(t.values[0].data, content, strlen(content));
    assert_ptr_equal(t.values[1].data, &t.label);
    assert_int_equal(t.label, label);
    assert_true(t.cost > 0);
}

static inline void images_write(const char *folder, const char *name, const char *content)
{
    mkdir(folder, 0777);
    test_write(folder, name, content, strlen(content));
}

/* ---- Descriptions ---- */

typedef struct wanted_line {
    const char *name;
    char value[256];
} wanted_line;

static inline void images_find_line(void *user, const char *name, const char *value)
{
    wanted_line *w = user;

    if (strcmp(name, w->name) == 0)
        snprintf(w->value, sizeof w->value, "%s", value);
}

/* The value of a line of the description contains `part`. */
static inline void images_check_line(stk_dataset *d, const char *name, const char *part)
{
    wanted_line w = {.name = name};
    stk_error err;

    assert_ok(stk_dataset_describe(d, images_find_line, &w, &err), &err);
    if (!strstr(w.value, part))
        fail_msg("%s: \"%s\" has no \"%s\"", name, w.value, part);
}

/* ---- PNG ---- */

static inline size_t images_chunk(unsigned char *to, const char *type, const void *data,
                                  uint32_t length)
{
    unsigned char *at = to;
    uint32_t parts[2] = {length, 0};

    memcpy(to + 4, type, 4);
    memcpy(to + 8, data, length);
    parts[1] = (uint32_t)crc32(0, to + 4, length + 4);
    for (int i = 0; i < 2; i++, at += 8 + length)
        for (int k = 0; k < 4; k++)
            at[k] = (unsigned char)(parts[i] >> (24 - 8 * k));
    return length + 12;
}

/* A PNG of one byte a pixel whose pixels are missing: enough for its header. */
static inline void images_write_png(const char *folder, const char *name, uint8_t width,
                                    uint8_t height)
{
    unsigned char header[13] = {0, 0, 0, width, 0, 0, 0, height, 8};
    unsigned char file[128] = "\x89PNG\r\n\x1a\n";
    size_t used = 8;

    used += images_chunk(file + used, "IHDR", header, sizeof header);
    used += images_chunk(file + used, "IDAT", "x", 1);
    used += images_chunk(file + used, "IEND", "", 0);
    mkdir(folder, 0777);
    test_write(folder, name, file, used);
}

/* ---- Times ---- */

/* Give a folder a time of change, in seconds. */
static inline void images_set_time(const char *folder, const char *name, int64_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

#endif

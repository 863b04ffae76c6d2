/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of record shards share: shards of tar in a folder, one sample taken by hand. */
#ifndef STK_TESTS_SHARDS_H
#define STK_TESTS_SHARDS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/records/records.h"
#include "support/support.h"
#include "support/tars.h"

#define SHARD_NEEDS 8
#define SHARD_BYTES 8192

static inline stk_status shards_open(stk_context *ctx, const char *folder, const char *spec,
                                     stk_dataset **out, stk_error *err)
{
    char text[2048];

    snprintf(text, sizeof text, "webdataset:%s/%s", folder, spec);
    stk_error_init(err);
    return stk_dataset_open(ctx, text, out, err);
}

static inline stk_dataset *shards_open_good(stk_context *ctx, const char *folder, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(shards_open(ctx, folder, spec, &d, &err), &err);
    assert_non_null(d);
    return d;
}

/* Write a shard whose time is an hour ago, or `age` seconds, and free its bytes. */
static inline void shard_write_aged(const char *folder, const char *name, tar_bytes *t, int age)
{
    const struct timespec then = {.tv_sec = time(NULL) - age};
    char path[600];

    test_write(folder, name, t->data, t->size);
    free(t->data);
    *t = (tar_bytes){NULL, 0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){then, then}, 0), 0);
}

static inline void shard_write(const char *folder, const char *name, tar_bytes *t)
{
    shard_write_aged(folder, name, t, 3600);
}

static inline void shard_text(tar_bytes *t, const char *name, const char *text)
{
    tar_file(t, name, text, strlen(text));
}

/* An extended header of pax, and GNU's with a name, of the member that follows. */
static inline void shard_pax(tar_bytes *t, char type, const char *records, size_t length)
{
    tar_head(t, "x", type, length);
    if (length)
        memcpy(tar_room(t, (length + 511) / 512 * 512), records, length);
}

static inline void shard_long_name(tar_bytes *t, const char *name, size_t length)
{
    tar_head(t, "././@LongLink", 'L', length);
    memcpy(tar_room(t, (length + 511) / 512 * 512), name, length);
}

/* Samples "KEY.txt" of their number and "KEY.cls", [first, end). */
static inline void shard_numbers(const char *folder, const char *name, int first, int end)
{
    tar_bytes t = {NULL, 0};

    for (int i = first; i < end; i++) {
        char key[128], text[32];
        snprintf(key, sizeof key, "%06d.txt", i);
        snprintf(text, sizeof text, "%d", i);
        shard_text(&t, key, text);
        snprintf(key, sizeof key, "%06d.cls", i);
        shard_text(&t, key, text);
    }
    tar_end(&t);
    shard_write(folder, name, &t);
}

/* One sample on its way: located, read, prepared. */
typedef struct shard_sample {
    stk_locator base;
    stk_dataset *dataset;
    stk_slice needs[SHARD_NEEDS];
    uint32_t count;
    unsigned char memory[SHARD_NEEDS][SHARD_BYTES + 64];
    uint64_t bounds[SHARD_NEEDS];
    stk_status status;
    const char *reason;
    stk_value values[SHARD_NEEDS];
    unsigned char out[SHARD_NEEDS][SHARD_BYTES];
} shard_sample;

static inline stk_status shard_add(stk_locator *self, size_t i, const stk_need *need)
{
    shard_sample *s = (shard_sample *)self;
    const uint32_t k = s->count++;
    stk_store *store = NULL;
    char key[4096];
    stk_error err;

    assert_int_equal(i, 0);
    assert_true(k < SHARD_NEEDS && need->length <= SHARD_BYTES);
    s->dataset->ops->object(s->dataset, need->object, &store, key, sizeof key);
    s->needs[k] = (stk_slice){s->memory[k], need->length};
    stk_error_init(&err);
    if (need->length)
        assert_ok(stk_store_read(store, key, need->offset, need->length, s->memory[k], &err), &err);
    return STK_OK;
}

static inline void shard_cost(stk_locator *self, size_t i, double nanoseconds)
{
    assert_true(nanoseconds > 0);
}

static inline void shard_bytes(stk_locator *self, size_t i, uint32_t field, uint64_t bytes)
{
    ((shard_sample *)self)->bounds[field] = bytes;
}

static inline void shard_take(stk_dataset *d, uint64_t index, shard_sample *s)
{
    stk_error err;

    memset(s, 0, sizeof *s);
    s->base = (stk_locator){.struct_size = sizeof(stk_locator),
                            .add = shard_add,
                            .cost = shard_cost,
                            .bytes = shard_bytes};
    s->dataset = d;
    assert_true(d->num_fields <= SHARD_NEEDS);
    stk_error_init(&err);
    assert_ok(d->ops->locate(d, &index, 1, &s->base, &err), &err);
    for (uint32_t i = 0; i < d->num_fields; i++) {
        const uint64_t bytes = stk_field_bytes(&d->fields[i]);
        s->values[i] = (stk_value){.out = s->out[i], .capacity = bytes, .size = bytes};
    }
    stk_sample sample = {.index = index, .needs = s->needs, .values = s->values};
    d->ops->prepare(d, &sample, 1);
    s->status = sample.status;
    s->reason = sample.reason;
}

/* The number of a field; fails where there is none. */
static inline uint32_t shard_field(const stk_dataset *d, const char *name)
{
    for (uint32_t i = 0; i < d->num_fields; i++)
        if (strcmp(d->fields[i].name, name) == 0)
            return i;
    fail_msg("there is no field %s", name);
    return 0;
}

static inline void shard_check(const stk_dataset *d, const shard_sample *s, const char *field,
                               const void *data, uint64_t size)
{
    const stk_value *value = &s->values[shard_field(d, field)];

    assert_int_equal(s->status, STK_OK);
    assert_int_equal(value->size, size);
    if (size)
        assert_memory_equal(value->data, data, size);
}

static inline void shard_check_label(const stk_dataset *d, const shard_sample *s, int64_t label)
{
    shard_check(d, s, "label", &label, sizeof label);
}

/* The sample `index` is the number `number` (see shard_numbers()). */
static inline void shard_check_number(stk_dataset *d, uint64_t index, int number)
{
    char text[32];
    shard_sample *s = malloc(sizeof *s);

    assert_non_null(s);
    shard_take(d, index, s);
    snprintf(text, sizeof text, "%d", number);
    shard_check(d, s, "txt", text, strlen(text));
    shard_check_label(d, s, number);
    free(s);
}

/* ---- Descriptions ---- */

typedef struct shard_line {
    const char *name;
    char value[256];
} shard_line;

static inline void shard_find_line(void *user, const char *name, const char *value)
{
    shard_line *line = user;

    if (strcmp(name, line->name) == 0)
        snprintf(line->value, sizeof line->value, "%s", value);
}

static inline void shard_check_line(stk_dataset *d, const char *name, const char *part)
{
    shard_line line = {name, ""};
    stk_error err;

    assert_ok(stk_dataset_describe(d, shard_find_line, &line, &err), &err);
    if (!strstr(line.value, part))
        fail_msg("%s: '%s' has no '%s'", name, line.value, part);
}

#endif

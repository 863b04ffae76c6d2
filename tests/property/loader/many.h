/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to prepare rows that need the same, and what comes out of each. */
#ifndef STK_TESTS_PROPERTY_LOADER_MANY_H
#define STK_TESTS_PROPERTY_LOADER_MANY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"

enum way { MANY, GROUPED, ALONE, WAYS };

/* ---- Ways ---- */

static const stk_dataset_ops *theirs;
static stk_dataset_ops ours;
static void (*after_open)(void);            /* what befalls the files of a dataset that is open */
static uint64_t calls, rows_of_calls, runs; /* runs: rows one behind the other */

static void count_rows(stk_dataset *dataset, stk_rows *rows)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&rows_of_calls, rows->num, __ATOMIC_RELAXED);
    __atomic_add_fetch(&runs, rows->places == NULL, __ATOMIC_RELAXED);
    assert_true(rows->num > 1);
    theirs->prepare_rows(dataset, rows);
}

static stk_status locate_alone(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err)
{
    to->same = NULL;
    to->run = NULL;
    to->blocks = false;
    return theirs->locate(dataset, indices, n, to, err);
}

static stk_dataset *open_way(stk_context *ctx, const char *spec, enum way way)
{
    stk_dataset *d;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    theirs = d->ops;
    ours = *d->ops;
    if (ours.prepare_rows)
        ours.prepare_rows = way == MANY ? count_rows : NULL;
    if (way == ALONE)
        ours.locate = locate_alone;
    d->ops = &ours;
    return d;
}

static void close_way(stk_dataset **d)
{
    (*d)->ops = theirs;
    stk_dataset_close(d);
}

/* ---- What comes out ---- */

typedef struct output {
    unsigned char *data;
    size_t size, room;
    uint64_t good, bad;
    char *texts;
    size_t num_texts;
} output;

static void put(output *o, const void *data, size_t size)
{
    if (o->size + size > o->room) {
        o->room = 2 * (o->size + size);
        o->data = realloc(o->data, o->room);
        assert_non_null(o->data);
    }
    if (size)
        memcpy(o->data + o->size, data, size);
    o->size += size;
}

/* Of an error. */
static void put_text(output *o, const char *text)
{
    const size_t size = strlen(text);

    o->texts = realloc(o->texts, o->num_texts + size + 2);
    assert_non_null(o->texts);
    memcpy(o->texts + o->num_texts, text, size);
    memcpy(o->texts + o->num_texts + size, "\n", 2);
    o->num_texts += size + 1;
}

static void put_batch(output *o, const stk_batch *batch, uint32_t fields)
{
    const uint64_t count = stk_batch_count(batch), step = stk_batch_step(batch);

    put(o, &count, sizeof count);
    put(o, &step, sizeof step);
    put(o, stk_batch_positions(batch), count * sizeof(uint64_t));
    o->good += count;
    for (uint32_t f = 0; f < fields; f++) {
        stk_tensor t = {.struct_size = sizeof t};
        uint64_t elements = count;
        assert_int_equal(stk_batch_field(batch, f, &t), STK_OK);
        for (uint32_t k = 1; k < t.rank && t.layout == STK_FIXED; k++)
            elements *= (uint64_t)t.shape[k];
        if (t.layout != STK_FIXED) {
            put(o, t.offsets, (count + 1) * sizeof *t.offsets);
            elements = t.offsets[count];
        }
        put(o, t.data, elements * stk_dtype_size(t.dtype));
    }
}

static void put_bad(output *o, const stk_loader *loader)
{
    stk_bad_samples bad = {.struct_size = sizeof bad};
    uint64_t numbers[3];

    stk_loader_get_bad_samples(loader, &bad);
    numbers[0] = bad.samples;
    numbers[1] = bad.skipped;
    numbers[2] = bad.replaced;
    put(o, numbers, sizeof numbers);
    o->bad += bad.samples;
    for (uint32_t i = 0; i < bad.num_reasons; i++) {
        put_text(o, bad.reasons[i].first.text);
    }
}

/* From `from` on, or the beginning, to the end of the epoch, or `most` batches; *state is then that
 * of the last. What failed is put, too. */
static void run_some(stk_context *ctx, const char *spec, enum way way, const stk_loader_options *o,
                     const stk_loader_state *from, uint64_t most, stk_loader_state *state,
                     output *out)
{
    stk_dataset *d = open_way(ctx, spec, way);
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint32_t fields;

    if (after_open)
        after_open();
    stk_loader_options given = *o;
    given.drop_last = o->drop_last && d->size > o->batch_size;
    assert_ok(stk_loader_create(d, &given, &loader, &err), &err);
    (void)stk_loader_fields(loader, &fields);
    if (from)
        assert_ok(stk_loader_restore(loader, from, &err), &err);
    for (uint64_t i = 0; i < most; i++) {
        const stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            break;
        if (status != STK_OK) {
            put_text(out, err.text);
            out->bad++;
            if (o->on_error == STK_ON_ERROR_FAIL)
                continue;
            break; /* no substitute is good either */
        }
        put_batch(out, batch, fields);
        if (state)
            stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
    }
    put_bad(out, loader);
    stk_loader_destroy(&loader);
    close_way(&d);
}

static void drop_output(output *o)
{
    free(o->data);
    free(o->texts);
    *o = (output){0};
}

/* `said`: errors, too; those of a whole block name another place than those of a row. */
static void same_output(const output *a, const output *b, bool said)
{
    if (said && a->texts && b->texts)
        assert_string_equal(a->texts, b->texts);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

#endif

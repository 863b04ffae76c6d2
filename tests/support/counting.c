/* SPDX-License-Identifier: Apache-2.0 */
#include "support/counting.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"

typedef struct counting {
    stk_dataset head;
    counting_options options;
    stk_store *store;
    stk_field fields[4];
    _Atomic uint64_t prepared;
} counting;

void counting_data(uint64_t index, uint8_t out[COUNTING_BYTES])
{
    for (uint64_t i = 0; i < COUNTING_BYTES; i++)
        out[i] = (uint8_t)((index * 0x9E3779B1u >> (i % 4 * 8)) + i);
}

uint64_t counting_words(uint64_t index)
{
    return index * 7 % (COUNTING_LONGEST + 1);
}

static uint64_t shared(const counting *c)
{
    return c->options.shared ? c->options.shared : 1;
}

static uint64_t parts(const counting_options *o, uint64_t index)
{
    return o->parts ? 1 + index % o->parts : 1;
}

static bool is_lost(const counting_options *o, uint64_t index)
{
    return o->lost_every && index % o->lost_every == 0;
}

/* Where range `part`, counted from 1, of a sample lies. */
static uint64_t part_offset(const counting_options *o, uint64_t index, uint64_t part)
{
    return (is_lost(o, index) ? o->size + 10 * part : (index + part) % o->size) * COUNTING_BYTES;
}

uint64_t counting_bad_offset(const counting_options *o, uint64_t index)
{
    if (is_lost(o, index) && parts(o, index) > 1)
        return part_offset(o, index, 1);
    return (index + (is_lost(o, index) ? o->size + 10 : 0)) * COUNTING_BYTES;
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    counting *c = (counting *)dataset;

    for (size_t i = 0; i < n; i++) {
        uint64_t first = indices[i] / shared(c) * shared(c);
        stk_need need = {
            .object = 5, .offset = first * COUNTING_BYTES, .length = COUNTING_BYTES * shared(c)};
        if (first + shared(c) > c->options.size)
            need.length = (c->options.size - first) * COUNTING_BYTES;
        const uint64_t n = parts(&c->options, indices[i]);
        if (is_lost(&c->options, indices[i]) && n == 1)
            need.offset += (c->options.size + 10) * COUNTING_BYTES;
        if (c->store)
            STK_TRY(to->add(to, i, &need));
        for (uint64_t part = 1; c->store && part < n; part++) {
            need.offset = part_offset(&c->options, indices[i], part);
            need.length = COUNTING_BYTES;
            STK_TRY(to->add(to, i, &need));
        }
        if (c->options.ragged) {
            to->bytes(to, i, 2, counting_words(indices[i]) * 2);
            to->bytes(to, i, 3, COUNTING_BYTES);
        }
    }
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    assert_int_equal(number, number == 0 ? 0 : 5);
    *store = ((counting *)dataset)->store;
    if (size)
        snprintf(key, size, "data");
    return 4;
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    counting *c = (counting *)dataset;

    atomic_fetch_add(&c->prepared, n);
    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        if (c->options.fail_every && s->index % c->options.fail_every == 0) {
            s->status = c->options.fail_with;
            s->reason = "planted";
            continue;
        }
        if (c->store)
            s->values[0].data =
                (const char *)s->needs[0].data + s->index % shared(c) * COUNTING_BYTES;
        else
            counting_data(s->index, s->values[0].out);
        memcpy(s->values[1].out, &(int64_t){(int64_t)(s->index % 10)}, 8);
        if (!c->options.ragged)
            continue;
        uint16_t *words = s->values[2].out;
        for (uint64_t k = 0; k < counting_words(s->index); k++)
            words[k] = (uint16_t)(s->index + k);
        s->values[2].size = counting_words(s->index) * 2;
        if (c->store)
            s->values[3].data = s->values[0].data;
        else
            counting_data(s->index, s->values[3].out);
        s->values[3].size = s->index % COUNTING_BYTES;
    }
}

static void close_counting(stk_dataset *dataset)
{
    counting *c = (counting *)dataset;

    stk_store_close(&c->store);
    stk__free(dataset->context, c);
}

static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                    .name = "counting",
                                    .doc = "For tests.",
                                    .close = close_counting,
                                    .locate = locate,
                                    .object = object,
                                    .prepare = prepare};
static const stk_dataset_ops ops_memory = {.struct_size = sizeof ops,
                                           .name = "counting",
                                           .doc = "For tests.",
                                           .close = close_counting,
                                           .prepare = prepare};

static stk_status fill_store(counting *c, stk_error *err)
{
    stk_context *ctx = c->head.context;
    uint8_t *bytes = stk__alloc(ctx, c->options.size * COUNTING_BYTES);
    stk_store *inner = NULL;
    char key[16];

    if (!bytes)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory");
    for (uint64_t i = 0; i < c->options.size; i++)
        counting_data(i, bytes + i * COUNTING_BYTES);
    stk_status status = stk_store_open(ctx, "mem://counting", &inner, key, sizeof key, err);
    if (status == STK_OK)
        status = stk_store_put(inner, "data", bytes, c->options.size * COUNTING_BYTES, NULL, err);
    stk_store_close(&inner);
    stk__free(ctx, bytes);
    if (status != STK_OK)
        return status;
    return stk_store_open(ctx, c->options.url, &c->store, key, sizeof key, err);
}

stk_status counting_try_open(stk_context *ctx, const counting_options *options, stk_dataset **out,
                             stk_error *err)
{
    const bool locates = options->url || options->ragged;
    counting *c = stk__calloc(ctx, 1, sizeof *c);

    *out = NULL;
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory");
    c->options = *options;
    c->fields[0] = stk__field("data", STK_UINT8, (const int64_t[]){COUNTING_BYTES, -1}, false);
    c->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    c->fields[2] = (stk_field){.struct_size = sizeof(stk_field),
                               .name = "words",
                               .dtype = STK_UINT16,
                               .layout = STK_RAGGED,
                               .rank = 1,
                               .shape = {-1}};
    c->fields[3] = (stk_field){.struct_size = sizeof(stk_field),
                               .name = "blob",
                               .dtype = STK_UINT8,
                               .layout = STK_BYTES,
                               .rank = 1,
                               .shape = {-1}};
    stk__dataset_init(&c->head, locates ? &ops : &ops_memory, ctx, options->size, c->fields,
                      options->ragged ? 4 : 2);
    c->head.block_size = shared(c);
    c->head.cost_ns = options->cost_ns;
    stk_status status = options->url ? fill_store(c, err) : STK_OK;
    if (status != STK_OK) {
        close_counting(&c->head);
        return status;
    }
    *out = &c->head;
    return STK_OK;
}

stk_dataset *counting_open(stk_context *ctx, const counting_options *options)
{
    stk_dataset *dataset = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(counting_try_open(ctx, options, &dataset, &err), &err);
    return dataset;
}

uint64_t counting_prepared(const stk_dataset *dataset)
{
    return ((const counting *)dataset)->prepared;
}

static void check_ragged(const stk_batch *batch, const uint64_t *indices)
{
    stk_tensor words = {.struct_size = sizeof words}, blob = {.struct_size = sizeof blob};
    uint8_t expected[COUNTING_BYTES];

    assert_int_equal(stk_batch_find(batch, "words", &words), STK_OK);
    assert_int_equal(stk_batch_find(batch, "blob", &blob), STK_OK);
    assert_int_equal(words.offsets[0], 0);
    for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
        assert_int_equal(words.offsets[r + 1] - words.offsets[r], counting_words(indices[r]));
        for (uint64_t k = 0; k < counting_words(indices[r]); k++)
            assert_int_equal(((uint16_t *)words.data)[words.offsets[r] + k],
                             (uint16_t)(indices[r] + k));
        assert_int_equal(blob.offsets[r + 1] - blob.offsets[r], indices[r] % COUNTING_BYTES);
        counting_data(indices[r], expected);
        assert_memory_equal((char *)blob.data + blob.offsets[r], expected,
                            indices[r] % COUNTING_BYTES);
    }
}

void counting_check(const stk_batch *batch, bool ragged)
{
    const uint64_t *positions = stk_batch_positions(batch);
    uint8_t expected[COUNTING_BYTES];
    stk_tensor data = {.struct_size = sizeof data}, label = {.struct_size = sizeof label},
               index = {.struct_size = sizeof index};

    assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    assert_int_equal(data.rank, 2);
    assert_int_equal(data.shape[0], stk_batch_count(batch));
    assert_int_equal((uintptr_t)data.data % 64, 0);
    const uint64_t *indices = index.data;
    for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
        counting_data(indices[r], expected);
        assert_memory_equal((char *)data.data + r * COUNTING_BYTES, expected, COUNTING_BYTES);
        assert_int_equal(((int64_t *)label.data)[r], indices[r] % 10);
        if (r)
            assert_true(positions[r] > positions[r - 1]);
    }
    if (ragged)
        check_ragged(batch, indices);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch for libraries of Arrow. Structs of one export lie in one block, which each that is not
 * released holds: a child that was moved out of its parent goes on after it.
 */
#include <stdio.h>

#include <stoker/arrow.h>

#include "loader/ring.h"

#define LEVELS  3u /* of a field: list, list of one length, values */
#define BUFFERS 3u
#define FORMAT  24u /* bytes of "+w:18446744073709551615" */

static const char *const formats[STK_DTYPE_COUNT] = {
    [STK_BOOL] = "b",  [STK_UINT8] = "C",   [STK_INT8] = "c",    [STK_UINT16] = "S",
    [STK_INT16] = "s", [STK_UINT32] = "I",  [STK_INT32] = "i",   [STK_UINT64] = "L",
    [STK_INT64] = "l", [STK_FLOAT16] = "e", [STK_FLOAT32] = "f", [STK_FLOAT64] = "g"};

/* ---- Schemas ---- */

typedef struct schema_block {
    stk_context *ctx; /* held */
    atomic_uint users;
    stk_arrow_schema **roots; /* of the fields */
    struct field_schema {
        stk_arrow_schema node[LEVELS], *below[LEVELS];
        char format[LEVELS][FORMAT];
        char *name;
    } * fields;
    uint32_t num_fields;
} schema_block;

static void free_schemas(schema_block *block)
{
    stk_context *ctx = block->ctx;

    for (uint32_t i = 0; block->fields && i < block->num_fields; i++)
        stk__free(ctx, block->fields[i].name);
    stk__free(ctx, block->fields);
    stk__free(ctx, block->roots);
    stk__free(ctx, block);
    stk__context_unref(ctx);
}

static void release_schema(stk_arrow_schema *self)
{
    schema_block *block = self->private_data;

    if (stk__context_forked(block->ctx))
        return;
    for (int64_t i = 0; i < self->n_children; i++)
        if (self->children[i]->release)
            self->children[i]->release(self->children[i]);
    self->release = NULL;
    if (atomic_fetch_sub(&block->users, 1) == 1)
        free_schemas(block);
}

static stk_arrow_schema *add_schema(schema_block *block, stk_arrow_schema *at, const char *format,
                                    const char *name, stk_arrow_schema **children, int64_t n)
{
    *at = (stk_arrow_schema){.format = format,
                             .name = name,
                             .n_children = n,
                             .children = n ? children : NULL,
                             .release = release_schema,
                             .private_data = block};
    atomic_fetch_add(&block->users, 1);
    return at;
}

/* ---- Arrays ---- */

typedef struct array_block {
    stk_batch *batch; /* shared */
    stk_context *ctx; /* the batch's ring holds it */
    atomic_uint users;
    stk_arrow_array **roots;
    const void *none; /* the buffers of the root: no validity */
    struct field_array {
        stk_arrow_array node[LEVELS], *below[LEVELS];
        const void *buffers[LEVELS][BUFFERS];
        uint8_t *bits; /* of bools */
    } * fields;
    uint32_t num_fields;
} array_block;

static void free_arrays(array_block *block)
{
    stk_context *ctx = block->ctx;
    stk_batch *batch = block->batch;

    for (uint32_t i = 0; block->fields && i < block->num_fields; i++)
        stk__free(ctx, block->fields[i].bits);
    stk__free(ctx, block->fields);
    stk__free(ctx, block->roots);
    stk__free(ctx, block);
    if (batch)
        stk__batch_unshare(batch);
}

static void release_array(stk_arrow_array *self)
{
    array_block *block = self->private_data;

    if (stk__context_forked(block->ctx))
        return;
    for (int64_t i = 0; i < self->n_children; i++)
        if (self->children[i]->release)
            self->children[i]->release(self->children[i]);
    self->release = NULL;
    if (atomic_fetch_sub(&block->users, 1) == 1)
        free_arrays(block);
}

static stk_arrow_array *add_array(array_block *block, stk_arrow_array *at, uint64_t length,
                                  const void **buffers, int64_t num_buffers,
                                  stk_arrow_array **children, int64_t n)
{
    *at = (stk_arrow_array){.length = (int64_t)length,
                            .n_buffers = num_buffers,
                            .buffers = buffers,
                            .n_children = n,
                            .children = n ? children : NULL,
                            .release = release_array,
                            .private_data = block};
    atomic_fetch_add(&block->users, 1);
    return at;
}

/* ---- One field ---- */

/* Values of one entry: of a sample, or of a list. */
static uint64_t entry_values(const stk_tensor *t)
{
    uint64_t values = 1;

    for (uint32_t d = 1; d < t->rank; d++)
        values *= (uint64_t)t->shape[d];
    return values;
}

static bool has_width(const stk_tensor *t)
{
    return t->layout != STK_BYTES && t->rank > 1;
}

static stk_arrow_schema *field_schema(schema_block *block, struct field_schema *f,
                                      const stk_tensor *t)
{
    if (t->layout == STK_BYTES)
        return add_schema(block, &f->node[0], "Z", f->name, NULL, 0);
    const bool list = t->layout == STK_RAGGED, width = has_width(t);
    stk_arrow_schema *at = add_schema(block, &f->node[0], formats[t->dtype],
                                      list || width ? "item" : f->name, NULL, 0);
    if (width) {
        f->below[0] = at;
        snprintf(f->format[1], FORMAT, "+w:%llu", (unsigned long long)entry_values(t));
        at = add_schema(block, &f->node[1], f->format[1], list ? "item" : f->name, &f->below[0], 1);
    }
    if (list) {
        f->below[1] = at;
        at = add_schema(block, &f->node[2], "+L", f->name, &f->below[1], 1);
    }
    return at;
}

static bool pack_bits(stk_context *ctx, const uint8_t *from, uint64_t n, uint8_t **bits)
{
    *bits = stk__calloc(ctx, n / 8 + 1, 1);
    for (uint64_t i = 0; *bits && i < n; i++)
        (*bits)[i >> 3] |= (uint8_t)((from[i] != 0) << (i & 7));
    return *bits;
}

/* NULL: no memory. */
static stk_arrow_array *field_array(array_block *block, struct field_array *f, const stk_tensor *t)
{
    const uint64_t rows = (uint64_t)t->shape[0];
    const bool list = t->layout == STK_RAGGED, width = has_width(t);
    const uint64_t entries = t->layout == STK_FIXED ? rows : t->offsets[rows],
                   values = entries * (width ? entry_values(t) : 1);

    f->buffers[0][1] = t->data;
    if (t->layout == STK_BYTES) {
        f->buffers[0][1] = t->offsets;
        f->buffers[0][2] = t->data;
        return add_array(block, &f->node[0], rows, f->buffers[0], 3, NULL, 0);
    }
    if (t->dtype == STK_BOOL) {
        if (!pack_bits(block->ctx, t->data, values, &f->bits))
            return NULL;
        f->buffers[0][1] = f->bits;
    }
    stk_arrow_array *at = add_array(block, &f->node[0], values, f->buffers[0], 2, NULL, 0);
    if (width) {
        f->below[0] = at;
        at = add_array(block, &f->node[1], entries, f->buffers[1], 1, &f->below[0], 1);
    }
    if (list) {
        f->below[1] = at;
        f->buffers[2][1] = t->offsets;
        at = add_array(block, &f->node[2], rows, f->buffers[2], 2, &f->below[1], 1);
    }
    return at;
}

/* ---- All of them ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for an array of Arrow");
}

static stk_status export_schema(const stk_batch *batch, uint32_t n, stk_arrow_schema *out,
                                stk_error *err)
{
    stk_context *ctx = batch->ring->ctx;
    stk_tensor t = {.struct_size = sizeof t};
    schema_block *block = stk__calloc(ctx, 1, sizeof *block);

    if (!block)
        return no_memory(err);
    block->ctx = stk__context_ref(ctx);
    block->num_fields = n;
    block->roots = stk__calloc(ctx, (size_t)n + 1, sizeof(stk_arrow_schema *));
    block->fields = stk__calloc(ctx, (size_t)n + 1, sizeof *block->fields);
    bool good = block->roots && block->fields;
    for (uint32_t i = 0; good && i < n; i++) {
        good = stk_batch_field(batch, i, &t) == STK_OK;
        block->fields[i].name = stk__strdup(ctx, t.name);
        good = good && block->fields[i].name;
        if (good)
            block->roots[i] = field_schema(block, &block->fields[i], &t);
    }
    if (!good) {
        free_schemas(block);
        return no_memory(err);
    }
    add_schema(block, out, "+s", "", block->roots, n);
    return STK_OK;
}

static stk_status export_array(stk_batch *batch, uint32_t n, stk_arrow_array *out, stk_error *err)
{
    stk_context *ctx = batch->ring->ctx;
    stk_tensor t = {.struct_size = sizeof t};
    array_block *block = stk__calloc(ctx, 1, sizeof *block);

    if (!block)
        return no_memory(err);
    block->ctx = ctx;
    block->num_fields = n;
    block->roots = stk__calloc(ctx, (size_t)n + 1, sizeof(stk_arrow_array *));
    block->fields = stk__calloc(ctx, (size_t)n + 1, sizeof *block->fields);
    bool good = block->roots && block->fields;
    for (uint32_t i = 0; good && i < n; i++) {
        good = stk_batch_field(batch, i, &t) == STK_OK;
        if (good)
            block->roots[i] = field_array(block, &block->fields[i], &t);
        good = good && block->roots[i];
    }
    if (!good) {
        free_arrays(block);
        return no_memory(err);
    }
    stk__batch_share(batch);
    block->batch = batch;
    add_array(block, out, stk_batch_count(batch), &block->none, 1, block->roots, n);
    return STK_OK;
}

stk_status stk_batch_export_arrow(const stk_batch *batch, stk_arrow_schema *schema,
                                  stk_arrow_array *array, stk_error *err)
{
    stk_tensor t = {.struct_size = sizeof t};
    uint32_t n = 0;

    schema->release = NULL;
    array->release = NULL;
    STK_TRY(stk__context_check(batch->ring->ctx, err));
    for (; stk_batch_field(batch, n, &t) == STK_OK; n++)
        if (!formats[t.dtype])
            return stk__fail(err, STK_ENOTSUP, STK_STAGE_LOADER,
                             "the field '%.100s' is of %s, which Arrow does not have; leave it out "
                             "with drop, or cast it",
                             t.name, stk_dtype_name(t.dtype));
    STK_TRY(export_schema(batch, n, schema, err));
    /* Its count of users is written, nothing else. */
    const stk_status status = export_array((stk_batch *)batch, n, array, err);
    if (status != STK_OK)
        schema->release(schema);
    return status;
}

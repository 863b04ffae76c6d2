/* SPDX-License-Identifier: Apache-2.0 */
/* Reading back a target that can be read only once it is finished. */
#include "base/url.h"
#include "convert/arrays.h"
#include "dataset/dataset.h"

bool stk__arrays_verifies_later(const stk__arrays *run)
{
    return run->ops->verify_finished && run->options->verify == STK_VERIFY_FULL;
}

uint64_t stk__arrays_hash(const stk__target_node *node, const stk__target_box *box, void *packed)
{
    int64_t strides[STK_ARRAY_MAX_RANK];
    uint64_t bytes = node->itemsize;

    for (uint32_t d = 0; d < node->rank; d++)
        bytes *= (uint64_t)box->shape[d];
    stk__array_strides(node->rank, box->shape, node->itemsize, strides);
    stk__copy_strided(node->rank, node->itemsize, box->shape, box->data, box->strides, packed,
                      strides);
    return stk__fingerprint(0, packed, bytes);
}

static stk_status differs(const stk__arrays *run, const stk__target_node *node, uint64_t number,
                          stk_error *err)
{
    return stk__fail_at(
        err, STK_EIO, STK_STAGE_CONVERT, node->path, STK_NO_OFFSET,
        "chunk %llu of '%.100s' in %.200s is not what was written; look at its disk "
        "before you trust it",
        (unsigned long long)number, node->path, run->job->target);
}

/* One slab after the other, each read as a whole and taken apart. */
static stk_status compare(const stk__arrays *run, const stk__arrays_array *a, stk_array *array,
                          char *slab, char *packed, stk_error *err)
{
    const stk__target_node *node = &run->nodes[a->node];
    int64_t strides[STK_ARRAY_MAX_RANK];
    stk__rechunk_box box, object;

    for (uint64_t w = 0; w < a->plan.num_writes; w++) {
        stk__rechunk_write_slab(&a->plan, w, &box);
        const stk_array_box wanted = {.start = box.start, .shape = box.shape};
        STK_TRY(stk_array_read(array, &wanted, slab,
                               stk__rechunk_elements(&a->plan, &box) * node->itemsize, NULL, -1,
                               err));
        stk__array_strides(node->rank, box.shape, node->itemsize, strides);
        const uint64_t n = stk__rechunk_objects(&a->plan, &box);
        for (uint64_t k = 0; k < n; k++) {
            stk__target_box out = {
                .start = object.start, .shape = object.shape, .strides = strides};
            const char *data = slab;
            stk__rechunk_object(&a->plan, &box, k, node->shape, &object, &out.number);
            for (uint32_t d = 0; d < node->rank; d++)
                data += (object.start[d] - box.start[d]) * strides[d];
            out.data = data;
            if (stk__arrays_hash(node, &out, packed) != a->hashes[out.number])
                return differs(run, node, out.number, err);
        }
    }
    return STK_OK;
}

static stk_status verify_array(stk__arrays *run, const stk__arrays_array *a, stk_error *err)
{
    const stk__target_node *node = &run->nodes[a->node];
    stk_context *ctx = run->context;
    stk_array_options options;
    stk_array *array = NULL;
    uint64_t object = node->itemsize;

    for (uint32_t d = 0; d < node->rank; d++)
        object *= (uint64_t)STK_MIN(node->object_shape[d], node->shape[d]);
    stk_array_options_init(&options);
    options.memory = run->budget / 4;
    options.num_threads = STK_MAX(run->num_workers, 1);
    char *url = *node->path ? stk__url_below(ctx, run->job->target, node->path)
                            : stk__strdup(ctx, run->job->target);
    char *slab = stk__alloc_buffer(ctx, a->plan.slab_bytes);
    char *packed = stk__alloc_buffer(ctx, object);
    stk_status status = url && slab && packed ? stk_array_open(ctx, url, &options, &array, err)
                                              : stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT,
                                                          "no memory to read the target back");
    if (status == STK_OK)
        status = compare(run, a, array, slab, packed, err);
    stk_array_close(&array);
    stk__free(ctx, packed);
    stk__free(ctx, slab);
    stk__free(ctx, url);
    return status;
}

stk_status stk__arrays_verify(stk__arrays *run, stk_error *err)
{
    for (size_t i = 0; i < run->num_arrays; i++)
        if (run->arrays[i].hashes)
            STK_TRY(verify_array(run, &run->arrays[i], err));
    return STK_OK;
}

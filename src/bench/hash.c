/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of all rows of a loader's batches. */
#include "bench/bench.h"

#include <xxhash.h>

/* Mix the bytes of row `i` of a field into a hash. */
static void hash_row(XXH3_state_t *hash, const stk_tensor *tensor, uint64_t i)
{
    size_t item = stk_dtype_size(tensor->dtype);

    if (tensor->offsets) {
        uint64_t from = tensor->offsets[i], to = tensor->offsets[i + 1];
        XXH3_64bits_update(hash, (const char *)tensor->data + from * item,
                           (size_t)(to - from) * item);
        return;
    }
    for (uint32_t d = 1; d < tensor->rank; d++)
        item *= (size_t)tensor->shape[d];
    XXH3_64bits_update(hash, (const char *)tensor->data + i * item, item);
}

/* `tensors` is room for those of all fields. */
static stk_status hash_batch(const stk_batch *batch, stk_tensor *tensors, uint32_t num_fields,
                             XXH3_state_t *hash, const stk_bench_setting *setting, stk_error *err)
{
    stk_tensor index = {.struct_size = sizeof index};
    const uint64_t *positions = stk_batch_positions(batch);
    uint64_t count = stk_batch_count(batch);
    stk_status status = STK_OK;

    for (uint32_t i = 0; i < num_fields && status == STK_OK; i++) {
        tensors[i].struct_size = sizeof *tensors;
        status = stk_batch_field(batch, i, &tensors[i]);
    }
    if (status == STK_OK)
        status = stk_batch_find(batch, "index", &index);
    for (uint64_t i = 0; i < count && status == STK_OK; i++) {
        XXH3_64bits_reset(hash);
        for (uint32_t f = 0; f < num_fields; f++)
            hash_row(hash, &tensors[f], i);
        const stk_bench_hash row = {.epoch = stk_batch_epoch(batch),
                                    .step = stk_batch_step(batch),
                                    .position = positions[i],
                                    .index = ((const uint64_t *)index.data)[i],
                                    .hash = XXH3_64bits_digest(hash)};
        if (!setting->hash(setting->hash_user, &row))
            status = STK_EIO;
    }
    if (status == STK_OK)
        return STK_OK;
    return stk__fail(err, status, STK_STAGE_MEASURE, "could not hash step %llu: %s",
                     (unsigned long long)stk_batch_step(batch), stk_status_text(status));
}

stk_status stk__bench_hash_epochs(stk_context *ctx, stk_loader *loader, uint64_t epochs,
                                  uint64_t batches, const stk_bench_setting *setting,
                                  stk_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    stk_status status = STK_OK;
    uint32_t num_fields;

    stk_loader_fields(loader, &num_fields);
    stk_tensor *tensors = stk__calloc(ctx, num_fields, sizeof *tensors);
    if (!hash || !tensors)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for hashes");
    for (uint64_t epoch = 0; status == STK_OK && epoch < epochs; epoch++) {
        stk_batch *batch = NULL;
        for (uint64_t i = 0; status == STK_OK && (!batches || i < batches); i++) {
            status = stk_loader_next(loader, -1, &batch, err);
            if (status == STK_OK)
                status = hash_batch(batch, tensors, num_fields, hash, setting, err);
            stk_batch_release(&batch);
        }
        if (status == STK_EOS)
            status = STK_OK;
        else if (status == STK_OK && epoch + 1 < epochs)
            status = stk_loader_set_epoch(loader, epoch + 1, err);
    }
    stk__free(ctx, tensors);
    XXH3_freeState(hash);
    return status;
}

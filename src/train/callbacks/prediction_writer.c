/* SPDX-License-Identifier: Apache-2.0 */
/* PredictionWriter: predictions as npy files [NumPy, NEP 1], a file a batch or one for all. */
#include <inttypes.h>
#include <stdio.h>

#include <stoker/store.h>

#include "base/npy_head.h"
#include "base/url.h"
#include "train/callbacks/callback.h"

typedef struct writer_options {
    uint32_t struct_size;
    const char *output_dir;
    int32_t write_interval; /* batch, epoch */
} writer_options;

typedef struct writer {
    stk_callback base;
    char *dir;
    bool by_epoch;
    /* Of the loader at hand, by epoch. */
    stk_tensor shape; /* of the first batch; data is not used */
    char *rows;
    uint64_t bytes, room, count;
    uint32_t loader;
    char of_rank[32]; /* in names, where several ranks write: "_rank1" */
} writer;

#define AT(member) offsetof(writer_options, member)

static const stk_option options[] = {
    {"output_dir", STK_OPTION_STRING, AT(output_dir), "predictions", 0, 0, NULL, "DIR",
     "Folder for the files."},
    {"write_interval", STK_OPTION_ENUM, AT(write_interval), "batch", 0, 0, "batch|epoch", NULL,
     "A file for each batch, or one for all, gathered in memory."},
};

static const stk_option_table table = {.name = "prediction_writer",
                                       .doc = "Writes predictions as npy files.",
                                       .struct_size = sizeof(writer_options),
                                       .options = options,
                                       .count = STK_COUNT(options)};

static void destroy(stk_callback *callback)
{
    writer *self = (writer *)callback;

    stk__free(callback->context, self->dir);
    stk__free(callback->context, self->rows);
    stk__free(callback->context, self);
}

static stk_status create(stk_context *ctx, const void *given, stk_callback **out, stk_error *err)
{
    const writer_options *o = given;
    writer *self = stk__callback_new(ctx, &stk__callback_prediction_writer, sizeof *self);

    if (!self || !stk__callback_text(ctx, o->output_dir && *o->output_dir ? o->output_dir : ".",
                                     &self->dir)) {
        stk__free(ctx, self);
        return stk__callback_no_memory("prediction_writer", err);
    }
    self->by_epoch = o->write_interval == 1;
    *out = &self->base;
    return STK_OK;
}

static stk_status write_file(writer *self, const char *name, const stk_tensor *tensor,
                             uint64_t count, const void *data, uint64_t bytes, stk_error *err)
{
    char head[STK__NPY_HEAD];
    int64_t shape[STK_MAX_RANK + 1];
    stk_store_call call = {.struct_size = sizeof call};
    stk_put *put;

    memcpy(shape, tensor->shape, sizeof shape);
    shape[0] = (int64_t)count;
    const size_t length = stk__npy_head(head, tensor->dtype, shape, tensor->rank);
    stk_context *ctx = self->base.context;

    if (!length)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN, "prediction_writer: npy has no type %s",
                         stk_dtype_name(tensor->dtype));
    char *path = stk__url_below(ctx, self->dir, name);
    if (!path)
        return stk__callback_no_memory("prediction_writer", err);
    call.length = length + bytes;
    stk_status status = stk_put_open(ctx, path, &call, &put, err);
    stk__free(ctx, path);
    STK_TRY(status);
    status = put->ops->write(put, head, length, err);
    if (status == STK_OK)
        status = put->ops->write(put, data, (size_t)bytes, err);
    if (status == STK_OK)
        return put->ops->commit(put, err);
    put->ops->abandon(put);
    return status;
}

static stk_status write_rows(writer *self, stk_error *err)
{
    char name[96];

    if (!self->count)
        return STK_OK;
    snprintf(name, sizeof name, "predictions_%" PRIu32 "%s.npy", self->loader, self->of_rank);
    stk_status status =
        write_file(self, name, &self->shape, self->count, self->rows, self->bytes, err);
    self->count = self->bytes = 0;
    return status;
}

static bool same_rows(const stk_tensor *a, const stk_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 1; i < a->rank; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

static stk_status make_room(writer *self, uint64_t bytes, stk_error *err)
{
    if (bytes <= self->room - self->bytes)
        return STK_OK;
    const uint64_t room = self->room * 2 + bytes;
    char *rows = stk__realloc(self->base.context, self->rows, (size_t)room);
    if (!rows)
        return stk__callback_no_memory("prediction_writer", err);
    self->rows = rows;
    self->room = room;
    return STK_OK;
}

static stk_status gather(writer *self, stk_trainer *t, const stk_tensor *p, uint64_t bytes,
                         stk_error *err)
{
    if (self->count && !same_rows(&self->shape, p))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "prediction_writer: the predictions change their shape from batch to "
                         "batch; use write_interval batch");
    STK_TRY(make_room(self, bytes, err));
    STK_TRY(stk_trainer_copy(t, self->rows + self->bytes, p->data, bytes, STK_COPY_DEVICE_TO_HOST,
                             err));
    self->shape = *p;
    self->bytes += bytes;
    self->count += (uint64_t)p->shape[0];
    return STK_OK;
}

static stk_status on_predict_batch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    writer *self = (writer *)callback;
    const stk_tensor *p = at->prediction;
    uint64_t bytes;
    char name[96];

    if (p->layout != STK_FIXED || p->rank == 0 || p->rank > STK_MAX_RANK ||
        !stk__shape_bytes(p->shape, p->rank, stk_dtype_size(p->dtype), &bytes))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "prediction_writer: the module's prediction has no sound shape");
    if (!self->by_epoch) {
        snprintf(name, sizeof name, "predictions_%" PRIu32 "_%06" PRIu64 "%s.npy",
                 at->dataloader_idx, at->batch_idx, self->of_rank);
        if (stk__callback_info(t).host_memory)
            return write_file(self, name, p, (uint64_t)p->shape[0], p->data, bytes, err);
        STK_TRY(gather(self, t, p, bytes, err));
        self->count = self->bytes = 0;
        return write_file(self, name, p, (uint64_t)p->shape[0], self->rows, bytes, err);
    }
    if (at->dataloader_idx != self->loader)
        STK_TRY(write_rows(self, err));
    self->loader = at->dataloader_idx;
    return gather(self, t, p, bytes, err);
}

static stk_status on_predict_epoch_start(stk_callback *callback, stk_trainer *t,
                                         const stk_moment *at, stk_error *err)
{
    writer *self = (writer *)callback;

    const stk_trainer_info info = stk__callback_info(t);

    self->count = self->bytes = 0;
    self->loader = 0;
    *self->of_rank = 0;
    if (info.world_size > 1)
        snprintf(self->of_rank, sizeof self->of_rank, "_rank%" PRIu64, info.rank);
    return STK_OK;
}

static stk_status on_predict_epoch_end(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                       stk_error *err)
{
    return write_rows((writer *)callback, err);
}

const stk_callback_ops stk__callback_prediction_writer = {
    .struct_size = sizeof(stk_callback_ops),
    .name = "prediction_writer",
    .doc = "writes predictions as npy files",
    .options = &table,
    .create = create,
    .destroy = destroy,
    .on_predict_epoch_start = on_predict_epoch_start,
    .on_predict_batch_end = on_predict_batch_end,
    .on_predict_epoch_end = on_predict_epoch_end,
    .roles = STK_ROLE_NO_METRICS,
};

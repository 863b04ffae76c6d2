/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in as a stranger writes it, with the installed headers alone: a store that hands reads on
 * to another one ("echo:///PATH"), a dataset of drawn pictures ("blobs:"), a transform that is
 * fused ("mirror", the twin of horizontal_flip(1)), a layer ("dense", the twin of linear), a
 * callback, a logger, a format of arrays ("tiles") and a converter ("lines").
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

/* ---- A store: that of a file, under another name. "shift" is added to every byte behind the head,
 * and "echo://guarded/PATH" opens with the right "token", a secret ---- */

#define HEAD_BYTES 128

typedef struct echo_options {
    uint32_t struct_size;
    uint64_t shift;
    const char *token;
} echo_options;

static const stk_option echo_list[] = {{"shift", STK_OPTION_UINT, offsetof(echo_options, shift),
                                        "0", 0, 255, NULL, "N",
                                        "Added to every byte behind the first 128."},
                                       {"token", STK_OPTION_SECRET, offsetof(echo_options, token),
                                        NULL, 0, 0, NULL, NULL, "What opens echo://guarded/PATH."}};
static const stk_option_table echo_table = {"echo", "A local folder", sizeof(echo_options),
                                            echo_list, 2};

typedef struct echo_store {
    stk_store base;
    stk_store *inner;
    uint64_t shift;
} echo_store;

static stk_store *inner_of(stk_store *store)
{
    return ((echo_store *)store)->inner;
}

static const stk_store_ops echo_ops;

static stk_status echo_open(stk_context *context, const char *url, const void *options,
                            stk_store **out, stk_error *err)
{
    const echo_options *given = options;
    const char *path = url + strlen("echo://");

    if (strncmp(path, "guarded", 7) == 0) {
        path += 7;
        if (!given->token || strcmp(given->token, "sesame") != 0) {
            snprintf(err->text, sizeof err->text, "the guard does not know this token");
            return STK_EACCES;
        }
    }
    echo_store *self = calloc(1, sizeof *self);
    if (!self)
        return STK_ENOMEM;
    stk_status status = stk_store_open(context, path, &self->inner, NULL, 0, err);
    if (status != STK_OK) {
        free(self);
        return status;
    }
    self->base.ops = &echo_ops;
    self->base.context = context;
    self->shift = given->shift;
    *out = &self->base;
    return STK_OK;
}

static void echo_close(stk_store *store)
{
    stk_store *inner = inner_of(store);

    stk_store_close(&inner);
    free(store);
}

static void echo_done(stk_read *inner, stk_status status)
{
    stk_read *read = inner->user;
    unsigned char *bytes = inner->data;

    for (uint64_t i = 0; status == STK_OK && i < inner->got; i++)
        if (inner->offset + i >= HEAD_BYTES)
            bytes[i] = (unsigned char)(bytes[i] + (uintptr_t)inner->driver[5]);
    read->got = inner->got;
    read->system_error = inner->system_error;
    free(inner);
    read->done(read, status);
}

static stk_status echo_submit(stk_store *store, stk_read *read)
{
    const uint64_t shift = ((echo_store *)store)->shift;

    if (shift == 0)
        return inner_of(store)->ops->submit(inner_of(store), read);
    /* Canceled late, if at all: the read of the file is another one. */
    stk_read *inner = malloc(sizeof *inner);
    if (!inner)
        return STK_ENOMEM;
    *inner = *read;
    inner->user = read;
    inner->done = echo_done;
    inner->driver[5] = (void *)(uintptr_t)shift;
    stk_status status = inner_of(store)->ops->submit(inner_of(store), inner);
    if (status != STK_OK)
        free(inner);
    return status;
}

static void echo_cancel(stk_store *store, stk_read *read)
{
    if (((echo_store *)store)->shift == 0)
        inner_of(store)->ops->cancel(inner_of(store), read);
}

static stk_status echo_stat(stk_store *store, const char *key, const stk_store_call *call,
                            stk_object_info *out, stk_error *err)
{
    return inner_of(store)->ops->stat(inner_of(store), key, call, out, err);
}

static stk_status echo_list_all(stk_store *store, const char *prefix, const stk_store_call *call,
                                stk_list_fn *each, void *user, stk_error *err)
{
    return inner_of(store)->ops->list(inner_of(store), prefix, call, each, user, err);
}

static stk_status echo_put(stk_store *store, const char *key, const stk_store_call *call,
                           stk_put **out, stk_error *err)
{
    return inner_of(store)->ops->put(inner_of(store), key, call, out, err);
}

static stk_status echo_remove(stk_store *store, const char *key, const stk_store_call *call,
                              stk_error *err)
{
    return inner_of(store)->ops->remove(inner_of(store), key, call, err);
}

static const stk_store_ops echo_ops = {.struct_size = sizeof echo_ops,
                                       .name = "echo",
                                       .doc = "another store, as it is",
                                       .options = &echo_table,
                                       .open = echo_open,
                                       .close = echo_close,
                                       .submit = echo_submit,
                                       .cancel = echo_cancel,
                                       .stat = echo_stat,
                                       .list = echo_list_all,
                                       .put = echo_put,
                                       .remove = echo_remove};

/* ---- A dataset: a picture has a bright column, whose number is its label ---- */

#define SIDE 8

static const stk_field blob_fields[] = {
    {.struct_size = sizeof(stk_field),
     .name = "image",
     .dtype = STK_UINT8,
     .rank = 3,
     .shape = {SIDE, SIDE, 1},
     .picture = true},
    {.struct_size = sizeof(stk_field), .name = "label", .dtype = STK_INT64}};
static const char *const blob_classes[SIDE] = {"0", "1", "2", "3", "4", "5", "6", "7"};
static const stk_dataset_ops blob_ops;

static stk_status blob_open(stk_context *context, const char *url, const void *options,
                            stk_dataset **out, stk_error *err)
{
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .fields = blob_fields,
                                   .num_fields = 2,
                                   .size = 512,
                                   .classes = blob_classes,
                                   .num_classes = SIDE};
    uint64_t *noise = malloc(sizeof *noise);

    if (!noise)
        return STK_ENOMEM;
    *noise = 20;
    stk_status status = stk_dataset_create(context, &blob_ops, noise, &info, out, err);
    if (status != STK_OK)
        free(noise);
    return status;
}

static void blob_close(stk_dataset *dataset)
{
    free(stk_dataset_self(dataset));
}

static void blob_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const uint64_t noise = *(const uint64_t *)stk_dataset_self(dataset);

    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);
        stk_value *image_value = stk_sample_value(sample, 0);
        stk_value *label_value = stk_sample_value(sample, 1);
        unsigned char *image = image_value->out;
        const int64_t label = (int64_t)(sample->index * 5 % SIDE);

        for (size_t k = 0; k < SIDE * SIDE; k++)
            image[k] = k % SIDE == (size_t)label ? 250 : (unsigned char)(sample->index % noise);
        memcpy(label_value->out, &label, sizeof label);
        image_value->data = image;
        label_value->data = label_value->out;
    }
}

static const stk_dataset_ops blob_ops = {.struct_size = sizeof blob_ops,
                                         .name = "blobs",
                                         .doc = "Pictures with a bright column",
                                         .open = blob_open,
                                         .close = blob_close,
                                         .prepare = blob_prepare};

/* ---- A transform: columns in reverse. What it says of itself lets a pass do it ---- */

static stk_status mirror_create(stk_context *context, const void *options, stk_transform **out,
                                stk_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? STK_OK : STK_ENOMEM;
}

static void mirror_destroy(stk_transform *transform)
{
    free(transform);
}

static stk_status mirror_plan(const stk_transform *transform, const stk_transform_header *in,
                              const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    if (!in->picture || in->chw || in->dtype != STK_UINT8)
        return STK_EINVAL;
    memset(out, 0, sizeof *out);
    out->out = *in;
    out->params[2] = in->shape[0];
    out->params[3] = in->shape[1];
    out->params[4] = 1;
    return STK_OK;
}

/* A pass does it in its place: the wrong bytes would show. */
static void mirror_apply(const stk_transform *transform, const stk_transform_header *in,
                         const stk_transform_plan *plan, size_t n, const void *const *src,
                         void *const *dst, void *scratch)
{
    for (size_t i = 0; i < n; i++)
        memset(dst[i], 0, (size_t)(in->shape[0] * in->shape[1] * in->shape[2]));
}

static const stk_transform_ops mirror_ops = {.struct_size = sizeof mirror_ops,
                                             .name = "mirror",
                                             .doc = "Columns in reverse",
                                             .create = mirror_create,
                                             .destroy = mirror_destroy,
                                             .plan = mirror_plan,
                                             .apply = mirror_apply,
                                             .role = STK_ROLE_FRAME};

/* ---- A callback: logs how many batches there were ---- */

typedef struct tally {
    stk_callback base;
    uint64_t batches;
} tally;

static const stk_callback_ops tally_ops;

static stk_status tally_create(stk_context *context, const void *options, stk_callback **out,
                               stk_error *err)
{
    tally *self = calloc(1, sizeof *self);

    if (!self)
        return STK_ENOMEM;
    self->base.ops = &tally_ops;
    self->base.context = context;
    *out = &self->base;
    return STK_OK;
}

static void tally_destroy(stk_callback *callback)
{
    free(callback);
}

static stk_status tally_count(stk_callback *callback, stk_trainer *trainer, const stk_moment *at,
                              stk_error *err)
{
    ((tally *)callback)->batches++;
    return STK_OK;
}

static stk_status tally_log(stk_callback *callback, stk_trainer *trainer, const stk_moment *at,
                            stk_error *err)
{
    return stk_trainer_log(trainer, "tally", (double)((tally *)callback)->batches, 0, 0, err);
}

static const stk_callback_ops tally_ops = {.struct_size = sizeof tally_ops,
                                           .name = "tally",
                                           .doc = "Logs the number of batches",
                                           .create = tally_create,
                                           .destroy = tally_destroy,
                                           .on_train_batch_end = tally_count,
                                           .on_train_epoch_end = tally_log};

/* ---- A logger: lines of "step name value" in plain.txt ---- */

typedef struct plain {
    stk_logger base;
    FILE *out;
} plain;

static const stk_logger_ops plain_ops;

static stk_status plain_open(stk_context *context, const void *options, const char *root,
                             stk_logger **out, stk_error *err)
{
    plain *self = calloc(1, sizeof *self);
    char path[4096];

    if (!self)
        return STK_ENOMEM;
    snprintf(path, sizeof path, "%s/plain.txt", root);
    self->out = fopen(path, "w");
    if (!self->out) {
        free(self);
        return STK_EIO;
    }
    self->base.ops = &plain_ops;
    self->base.context = context;
    self->base.version = -1;
    *out = &self->base;
    return STK_OK;
}

static void plain_close(stk_logger *logger)
{
    fclose(((plain *)logger)->out);
    free(logger);
}

static stk_status plain_log(stk_logger *logger, const stk_metric *metrics, size_t n, int64_t step,
                            double wall_time, stk_error *err)
{
    for (size_t i = 0; i < n; i++)
        fprintf(((plain *)logger)->out, "%lld %s %.17g\n", (long long)step, metrics[i].name,
                metrics[i].value);
    return STK_OK;
}

static const stk_logger_ops plain_ops = {.struct_size = sizeof plain_ops,
                                         .name = "plain",
                                         .doc = "Lines of a text",
                                         .open = plain_open,
                                         .close = plain_close,
                                         .log_metrics = plain_log};

/* ---- A layer: linear, in plain loops ---- */

typedef struct dense_options {
    uint32_t struct_size;
    int64_t out_features;
} dense_options;

static const stk_option dense_list[] = {{"out_features", STK_OPTION_INT,
                                         offsetof(dense_options, out_features), "1", 1, 65536, NULL,
                                         "N", "Features of the output."}};
static const stk_option_table dense_table = {"dense", "A linear layer", sizeof(dense_options),
                                             dense_list, 1};

static double get(const stk_layer_pass *pass, const void *from, uint64_t i)
{
    return pass->dtype == STK_FLOAT64 ? ((const double *)from)[i]
                                      : (double)((const float *)from)[i];
}

static void put(const stk_layer_pass *pass, void *to, uint64_t i, double value)
{
    if (pass->dtype == STK_FLOAT64)
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

static stk_status dense_shape(const void *options, stk_layer_shape *out, stk_error *err)
{
    const int64_t in = out->shape[0], wide = ((const dense_options *)options)->out_features;

    if (out->rank != 1) {
        snprintf(err->text, sizeof err->text, "dense takes rows of features");
        return STK_EINVAL;
    }
    out->shape[0] = wide;
    out->weight.rank = 2;
    out->weight.shape[0] = wide;
    out->weight.shape[1] = in;
    out->bias.rank = 1;
    out->bias.shape[0] = wide;
    out->weight.bound = out->bias.bound = 1 / sqrt((double)in);
    out->flops = (uint64_t)(2 * in * wide);
    return STK_OK;
}

static stk_status dense_forward(const stk_layer_pass *p, stk_error *err)
{
    for (uint64_t row = 0; row < p->rows; row++)
        for (uint64_t o = 0; o < p->out; o++) {
            double sum = get(p, p->bias, o);
            for (uint64_t i = 0; i < p->in; i++)
                sum += get(p, p->x, row * p->in + i) * get(p, p->weight, o * p->in + i);
            put(p, p->y, row * p->out + o, sum);
        }
    return STK_OK;
}

static void add_to(const stk_layer_pass *p, void *to, uint64_t i, double value)
{
    if (to)
        put(p, to, i, get(p, to, i) + value);
}

static stk_status dense_backward(const stk_layer_pass *p, stk_error *err)
{
    for (uint64_t row = 0; row < p->rows; row++)
        for (uint64_t o = 0; o < p->out; o++) {
            const double dy = get(p, p->dy, row * p->out + o);
            add_to(p, p->bias_gradient, o, dy);
            for (uint64_t i = 0; i < p->in; i++) {
                add_to(p, p->weight_gradient, o * p->in + i, dy * get(p, p->x, row * p->in + i));
                add_to(p, p->dx, row * p->in + i, dy * get(p, p->weight, o * p->in + i));
            }
        }
    return STK_OK;
}

static const stk_layer_ops dense_ops = {.struct_size = sizeof dense_ops,
                                        .name = "dense",
                                        .doc = "linear in plain loops",
                                        .options = &dense_table,
                                        .shape = dense_shape,
                                        .forward = dense_forward,
                                        .backward = dense_backward};

/* ---- outsider_arrays.c ---- */

extern const stk_array_format_ops tiles_ops;
extern const stk_converter_ops lines_ops;

static const stk_plugin_driver drivers[] = {
    {STK_DRIVER_STORE, &echo_ops},     {STK_DRIVER_LAYER, &dense_ops},
    {STK_DRIVER_DATASET, &blob_ops},   {STK_DRIVER_TRANSFORM, &mirror_ops},
    {STK_DRIVER_CALLBACK, &tally_ops}, {STK_DRIVER_LOGGER, &plain_ops},
    {STK_DRIVER_ARRAY, &tiles_ops},    {STK_DRIVER_CONVERTER, &lines_ops}};

STK_PLUGIN("outsider", "One of each, for the tests", drivers);

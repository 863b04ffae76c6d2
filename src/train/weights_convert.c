/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a file, also one of Python's or a checkpoint, -> a file for other programs. */
#include "base/numbers.h"
#include "base/options.h"
#include "base/sized.h"
#include "base/url.h"
#include "checkpoint/weights/weights.h"
#include "nn/nn.h"
#include "train/train.h"
#include "train/trainer.h"

#define AT(member) offsetof(stk_weights_options, member)

static const stk_option options_list[] = {
    {"layers", STK_OPTION_STRING, AT(layers), NULL, 0, 0, NULL, "LAYERS",
     "For ONNX: the model's layers, as model.layers of its training; a checkpoint knows them."},
    {"input_shape", STK_OPTION_STRING, AT(input_shape), NULL, 0, 0, NULL, "CxHxW",
     "For ONNX: the shape of a sample without the batch, as 3x224x224; a checkpoint knows it."},
};

const stk_option_table stk__weights_option_table = {
    .name = "weights",
    .doc = "Weights for other programs",
    .struct_size = sizeof(stk_weights_options),
    .options = options_list,
    .count = STK_COUNT(options_list),
};

typedef struct conversion {
    stk_context *ctx;
    const char *from, *to;
    stk_weights_options options;
    stk_store_call call; /* of the target; and whether all this is still wanted */
    stk__weights weights;
    stk_put *put; /* NULL: nothing is written yet */
} conversion;

/* ---- ONNX ------------------------------------------------------------------------------------ */

/* What was given, or else what the file says. */
static stk_status described(const conversion *c, const char *given, const char *name,
                            const char *option, const char *example, const char **out,
                            stk_error *err)
{
    *out = given ? given : stk__safetensors_find_text(&c->weights.file.parsed, name);
    if (*out)
        return STK_OK;
    return stk__fail_at(
        err, STK_EINVAL, STK_STAGE_OPTIONS, c->from, STK_NO_OFFSET,
        "'%.200s' does not say what model its weights are of, which ONNX needs: set "
        "%s, as %s",
        c->from, option, example);
}

/* The description of the model that the weights are of. */
static stk_status describe(const conversion *c, stk_model_builder **out, stk_error *err)
{
    const char *layers, *input;
    double sides[STK_MAX_RANK];
    int64_t shape[STK_MAX_RANK];
    uint32_t rank;

    STK_TRY(described(c, c->options.layers, STK__STATE_LAYERS, "layers (--layers)",
                      "model.layers of its training says or 'resnet18(num_classes=10)'", &layers,
                      err));
    STK_TRY(described(c, c->options.input_shape, STK__STATE_INPUT, "input_shape (--input-shape)",
                      "3x224x224", &input, err));
    const stk__numbers numbers = {.stage = STK_STAGE_OPTIONS,
                                  .who = "weights",
                                  .argument = "input_shape",
                                  .text = input,
                                  .min = 1,
                                  .max = INT32_MAX,
                                  .whole = true,
                                  .by_x = true};
    STK_TRY(stk__numbers_read(&numbers, sides, STK_MAX_RANK, &rank, err));
    for (uint32_t i = 0; i < rank; i++)
        shape[i] = (int64_t)sides[i];
    STK_TRY(stk_model_builder_create(c->ctx, shape, rank, out, err));
    const stk_status status = stk_model_builder_add(*out, layers, err);
    if (status != STK_OK)
        stk_model_builder_destroy(out);
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The target, and folders on the way to it, are made when there is something to write. */
static stk_status put_piece(void *user, const void *data, size_t length, stk_error *err)
{
    conversion *c = user;

    if (!c->put)
        STK_TRY(stk_put_open(c->ctx, c->to, &c->call, &c->put, err));
    return c->put->ops->write(c->put, data, length, err);
}

static stk_status write_file(conversion *c, const stk_model_builder *model, size_t *written,
                             stk_error *err)
{
    const stk__weights *w = &c->weights;

    *written = w->num_tensors;
    const stk_status status =
        model ? stk__onnx_write(model, w->tensors, w->num_tensors, put_piece, c, written, err)
              : stk__weights_write(c->ctx, w->tensors, w->num_tensors, put_piece, c, err);
    if (status == STK_OK)
        return c->put->ops->commit(c->put, err);
    if (c->put)
        c->put->ops->abandon(c->put);
    return status;
}

/* What is there already is seen before the source is read. */
static stk_status look_for_target(const conversion *c, stk_error *err)
{
    stk__checkpoint_source target;
    stk_error own;

    if (c->options.overwrite)
        return STK_OK;
    const stk_status status = stk__checkpoint_source_open(c->ctx, c->to, "a file", &target, &own);
    stk__checkpoint_source_close(&target);
    if (status == STK_OK)
        return STK_EEXIST;
    if (status == STK_ENOENT)
        return STK_OK;
    if (err)
        *err = own;
    return status;
}

/* Whether the last name of the target, without the options of a store, ends so. */
static bool is_to(const conversion *c, const char *end)
{
    size_t length;
    const char *name = stk__url_name(c->ctx, c->to, &length);

    return stk__ends_with(name, length, end);
}

/* An option of the model does nothing where the weights are all that is written. */
static stk_status refuse(const char *value, const char *option, stk_error *err)
{
    if (!value)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option, STK_NO_OFFSET,
                        "the option %s does nothing where weights are written alone; leave it out",
                        option);
}

static stk_status convert(conversion *c, size_t *written, stk_error *err)
{
    const bool onnx = is_to(c, ".onnx");
    stk_model_builder *model = NULL;

    if (!onnx && !is_to(c, ".safetensors"))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_TRAIN, c->to, STK_NO_OFFSET,
                            "weights are written as a file NAME.safetensors, and a model as "
                            "NAME.onnx; '%.200s' is neither",
                            c->to);
    if (!onnx) {
        STK_TRY(refuse(c->options.layers, "layers", err));
        STK_TRY(refuse(c->options.input_shape, "input_shape", err));
    }
    STK_TRY(look_for_target(c, err));
    STK_TRY(stk__weights_load(c->ctx, c->from, &c->call, &c->weights, err));
    if (!onnx && c->weights.num_tensors == 0)
        return stk__fail_at(err, STK_EMISMATCH, STK_STAGE_TRAIN, c->from, STK_NO_OFFSET,
                            "'%.300s' has no weights", c->from);
    if (onnx)
        STK_TRY(describe(c, &model, err));
    const stk_status status = write_file(c, model, written, err);
    stk_model_builder_destroy(&model);
    return status;
}

stk_status stk_weights_convert(stk_context *ctx, const char *from, const char *to,
                               const stk_weights_options *given, size_t *written, stk_error *err)
{
    conversion c = {.ctx = ctx, .from = from, .to = to};
    size_t count = 0;

    stk_error_init(err);
    STK_TRY(stk__context_check(ctx, err));
    stk_weights_options_init(&c.options);
    if (given)
        STK_TRY(stk__sized_read(&c.options, sizeof c.options, given, "stk_weights_options",
                                STK_STAGE_TRAIN, err));
    c.call = (stk_store_call){.struct_size = sizeof c.call,
                              .no_replace = !c.options.overwrite,
                              .canceled = c.options.canceled,
                              .user = c.options.user};
    c.weights = (stk__weights){.ctx = ctx, .pth.ctx = ctx, .file.source.fd = -1};
    const stk_status status = convert(&c, &count, err);
    stk__weights_release(&c.weights);
    if (status == STK_EEXIST)
        return stk__fail_at(err, status, STK_STAGE_TRAIN, to, STK_NO_OFFSET,
                            "'%.300s' exists already: choose another name, or set overwrite "
                            "(--overwrite) to replace it",
                            to);
    if (status == STK_ECANCELED)
        return stk__fail_at(err, status, STK_STAGE_TRAIN, to, STK_NO_OFFSET,
                            "the conversion to '%.300s' was stopped", to);
    if (status == STK_OK && written)
        *written = count;
    return status;
}

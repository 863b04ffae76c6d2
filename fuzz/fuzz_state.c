/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a checkpoint's states. The first byte says of which: the loops with their metrics,
 * or a callback; the rest is the text. What must hold whatever it says: it is taken whole or
 * refused with a reason, no file is touched, nothing is left behind.
 */
#include "fuzz_support.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/hash.h"
#include "checkpoint/safetensors/safetensors.h"
#include "train/callbacks/callback.h"
#include "train/callbacks/model_checkpoint.h"
#include "train/trainer.h"

#define FOLDER "/nonexistent/checkpoints"
#define BYTES  16 /* of the parameter of the module whose mean `ema` keeps */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_trainer *trainer(stk_context *ctx)
{
    stk_trainer_options options;
    stk_trainer *t = NULL;
    stk_error err;

    stk_trainer_options_init(&options);
    options.enable_checkpointing = STK_SWITCH_FALSE;
    options.logger = "false";
    FUZZ_CHECK(stk_trainer_create(ctx, &options, &t, &err) == STK_OK);
    return t;
}

static void loops(stk_context *ctx, const char *text)
{
    stk_trainer *t = trainer(ctx);
    uint64_t threads;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk__loops_read(t, text, &threads, &err);
    if (status == STK_OK)
        FUZZ_CHECK(t->loop.accumulate > 0 && t->loop.done <= t->loop.total_done &&
                   t->loop.point <= STK__POINT_EPOCH);
    else
        FUZZ_CHECK(err.text[0] && status != STK_EINTERNAL);
    stk_trainer_destroy(&t);
}

static uint8_t values[BYTES] = "fifteen values.";
static stk_state_tensor parameter = {"w", STK_FLOAT32, 2, {2, 2}, values, BYTES};

static stk_status show_parameter(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                                 void *user, stk_error *err)
{
    FUZZ_CHECK(module && kinds == (STK_STATE_PARAMETER | STK_STATE_BUFFER));
    return visit(user, STK_STATE_PARAMETER, &parameter, err);
}

/* A checkpoint in memory that has nothing but one text and the mean of the parameter. */
static stk__checkpoint *checkpoint_of(stk_context *ctx, const char *key, const char *text)
{
    const stk__checkpoint_text texts[] = {
        {key, text}, {STK__CHECKPOINT_LAYOUT, "1"}, {STK__CHECKPOINT_HASH, STK__HASH_ZEROS}};
    stk_state_tensor mean = parameter;
    stk__safetensors_head head = {.text.ctx = ctx};
    stk__checkpoint *out = NULL;
    char digits[STK__HASH_DIGITS + 1], path[64];
    stk__hash hash;
    stk_error err;
    size_t at;

    mean.name = "x.w";
    if (stk__safetensors_head_make(&head, &mean, 1, texts, 3, &err) == STK_OK) {
        FUZZ_CHECK(stk__hash_head(&hash, head.text.bytes, head.text.length, &at) == STK_OK);
        stk__hash_update(&hash, values, BYTES);
        stk__hash_digits(&hash, digits);
        memcpy(head.text.bytes + at, digits, STK__HASH_DIGITS);
        int fd = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0 &&
                   write(fd, head.text.bytes, head.text.length) == (ssize_t)head.text.length &&
                   write(fd, values, BYTES) == BYTES);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        /* A text that is no UTF-8 is refused here. */
        if (stk__checkpoint_open(ctx, path, &out, &err) != STK_OK)
            out = NULL;
        close(fd);
    }
    stk__safetensors_head_release(&head);
    return out;
}

/* A callback of a kind, with one option set or (NULL) none. */
static stk_callback *create(stk_context *ctx, const stk_callback_ops *ops, const char *option,
                            const char *value)
{
    stk_callback *c = NULL;
    uint64_t room[64];
    stk_error err;

    stk_options_init(ops->options, room, sizeof room);
    if (option)
        FUZZ_CHECK(stk_options_set(ops->options, room, option, value, &err) == STK_OK);
    FUZZ_CHECK(ops->create(ctx, room, &c, &err) == STK_OK);
    return c;
}

static void load(stk_context *ctx, const stk_callback_ops *ops, stk_callback *c, const char *text)
{
    stk_error err;

    stk__checkpoint *checkpoint = checkpoint_of(ctx, "x.state", text);
    if (!checkpoint)
        return;
    const stk_restorer restorer = {.ctx = ctx, .checkpoint = checkpoint, .prefix = "x."};
    stk_error_init(&err);
    stk_status status = ops->load_state_dict(c, &restorer, &err);
    FUZZ_CHECK(status == STK_OK || (err.text[0] && status != STK_EINTERNAL));
    stk__checkpoint_close(&checkpoint);
}

static void callback(stk_context *ctx, const stk_callback_ops *ops, const char *option,
                     const char *value, const char *text)
{
    stk_callback *c = create(ctx, ops, option, value);

    load(ctx, ops, c, text);
    ops->destroy(c);
}

/* There is no such folder, so nothing in it is the run's own. */
static void model_checkpoint(stk_context *ctx, const char *text)
{
    const stk_callback_ops *ops = &stk__callback_model_checkpoint;
    stk_callback *c = create(ctx, ops, "dirpath", FOLDER);
    stk__model_checkpoint *self = (stk__model_checkpoint *)c;

    self->dir = stk__strdup(ctx, FOLDER);
    FUZZ_CHECK(self->dir);
    load(ctx, ops, c, text);
    FUZZ_CHECK(self->num_kept == 0 && !ops->checkpoint_path(c, STK_CHECKPOINT_BEST) &&
               !ops->checkpoint_path(c, STK_CHECKPOINT_LAST));
    ops->destroy(c);
}

/* The mean is of the module's parameters, which setup() has to have seen. */
static void ema(stk_context *ctx, const char *text)
{
    const stk_module_ops module_ops = {.struct_size = sizeof module_ops, .state = show_parameter};
    stk_module module = {&module_ops};
    const stk_moment at = {
        .struct_size = sizeof at, .task = STK_TASK_FIT, .module = &module, .batch_idx = 0};
    const stk_callback_ops *ops = &stk__callback_ema;
    stk_callback *c = create(ctx, ops, NULL, NULL);
    stk_error err;

    stk_trainer *t = trainer(ctx);
    t->at = at;
    t->ops = module_ops;
    FUZZ_CHECK(ops->setup(c, t, &at, &err) == STK_OK);
    load(ctx, ops, c, text);
    ops->destroy(c);
    stk_trainer_destroy(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = calloc(1, size);
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size - 1);
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);
    switch (data[0] % 6) {
    case 0:
        loops(ctx, text);
        break;
    case 1:
        callback(ctx, &stk__callback_early_stopping, "monitor", "x", text);
        break;
    case 2:
        callback(ctx, &stk__callback_timer, "duration", "00:01:00:00", text);
        break;
    case 3:
        model_checkpoint(ctx, text);
        break;
    case 4:
        ema(ctx, text);
        break;
    default:
        callback(ctx, &stk__callback_lr_find, NULL, NULL, text);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What options mean together: what contradicts another, does not exist here or does nothing is
 * refused by name. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/registry.h"
#include "train/trainer.h"

#define STRATEGIES "auto|single_device|ddp|zero_1|zero_2|zero_3|fsdp"
#define NO_RANKS   "it has no effect with one process; leave it out"

static stk_status refuse(stk_error *err, stk_status status, const char *option, const char *why)
{
    return stk__fail_at(err, status, STK_STAGE_OPTIONS, option, STK_NO_OFFSET, "trainer.%s: %s",
                        option, why);
}

static bool is_one_of(const char *text, const char *words)
{
    size_t length;
    const char *word;

    for (size_t i = 0; (length = stk__option_choice(words, i, &word)); i++)
        if (strlen(text) == length && strncmp(text, word, length) == 0)
            return true;
    return false;
}

/* "; did you mean 'WORD'?" */
static const char *meant_of(const char *text, const char *words, char meant[STK_OPTION_MEANT])
{
    stk__nearest nearest;

    stk__nearest_init(&nearest, text);
    stk__nearest_offer_words(&nearest, words);
    return stk__nearest_said(&nearest, meant);
}

static stk_status check_machine(stk_context *ctx, const stk_trainer_options *o, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];

    stk__option_show(shown, o->accelerator);
    /* A plug-in may have brought it. */
    if (!is_one_of(o->accelerator, "auto|cpu") &&
        !stk__driver_find(ctx, STK_DRIVER_DEVICE, o->accelerator, strlen(o->accelerator)))
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "accelerator", STK_NO_OFFSET,
                            "trainer.accelerator: there is no '%s' here%s; this build has cpu "
                            "(auto takes it)%s",
                            shown,
                            is_one_of(o->accelerator, "tpu|hpu|mps")
                                ? ", and stoker does not know how to use one"
                                : "",
                            is_one_of(o->accelerator, "gpu|cuda|tpu|hpu|mps")
                                ? ""
                                : meant_of(o->accelerator, "auto|cpu", meant));
    stk__option_show(shown, o->strategy);
    if (!is_one_of(o->strategy, STRATEGIES))
        return stk__fail_at(
            err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
            "trainer.strategy: there is no '%s' here; this build has "
            "single_device and, for several processes, ddp, zero_1, zero_2 and zero_3%s",
            shown, meant_of(o->strategy, STRATEGIES, meant));
    stk__option_show(shown, o->devices);
    if (!is_one_of(o->devices, "auto|1|-1"))
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "devices", STK_NO_OFFSET,
                            "trainer.devices: '%s' devices cannot be had; the cpu is 1 device (to "
                            "use its cores, raise compute_threads)",
                            shown);
    if (o->num_nodes != 1)
        return refuse(err, STK_ENOTSUP, "num_nodes", "strategy single_device runs on 1 node");
    /* Configurations for machines with a GPU have it; what is computed is the same without. */
    if (o->benchmark)
        stk__message(ctx, STK_MESSAGE_WARNING, "trainer.benchmark: it has no effect on a cpu");
    if (o->sync_batchnorm && strcmp(o->strategy, "single_device") == 0)
        return refuse(err, STK_EINVAL, "sync_batchnorm", NO_RANKS);
    if (o->gradient_compression && strcmp(o->strategy, "single_device") == 0)
        return refuse(err, STK_EINVAL, "gradient_compression", NO_RANKS);
    if (!o->use_distributed_sampler)
        return refuse(err, STK_EINVAL, "use_distributed_sampler",
                      "false is not supported: every rank takes its own part of each batch");
    return STK_OK;
}

static stk_status check_precision(const char *precision, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];

    if (is_one_of(precision, "32-true|32|64-true|64|bf16-mixed|bf16"))
        return STK_OK;
    if (is_one_of(precision, "16-mixed|16"))
        return refuse(err, STK_ENOTSUP, "precision",
                      "16-mixed does not exist on a cpu; use bf16-mixed");
    stk__option_show(shown, precision);
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "precision", STK_NO_OFFSET,
                        "trainer.precision: '%s' is not known here; there are 32-true, 64-true and "
                        "bf16-mixed%s",
                        shown, meant_of(precision, "32-true|64-true|bf16-mixed", meant));
}

/* What barebones switches off may not be asked for. */
static stk_status check_barebones(const stk_trainer_options *o, const stk__settings *s,
                                  stk_error *err)
{
    if (!o->barebones)
        return STK_OK;
    if (o->enable_checkpointing == STK_SWITCH_TRUE)
        return refuse(err, STK_EINVAL, "enable_checkpointing",
                      "true and barebones contradict each other: saving takes time");
    if (o->enable_progress_bar == STK_SWITCH_TRUE)
        return refuse(err, STK_EINVAL, "enable_progress_bar",
                      "true and barebones contradict each other");
    if (o->enable_model_summary == STK_SWITCH_TRUE)
        return refuse(err, STK_EINVAL, "enable_model_summary",
                      "true and barebones contradict each other");
    if (!is_one_of(o->logger, "auto|false"))
        return refuse(err, STK_EINVAL, "logger",
                      "a logger and barebones contradict each other: logging takes time");
    if (o->num_sanity_val_steps != 2 && o->num_sanity_val_steps != 0)
        return refuse(err, STK_EINVAL, "num_sanity_val_steps",
                      "a sanity check and barebones contradict each other");
    if (s->fast_dev_run)
        return refuse(err, STK_EINVAL, "fast_dev_run",
                      "it is for finding mistakes and barebones for speed: leave out one");
    if (o->detect_anomaly)
        return refuse(err, STK_EINVAL, "detect_anomaly",
                      "looking at every tensor and barebones contradict each other");
    return STK_OK;
}

static stk_status parse_fast_dev_run(const char *text, uint64_t *out, stk_error *err)
{
    char *end = NULL;

    *out = 0;
    if (is_one_of(text, "false|no|off|0"))
        return STK_OK;
    *out = is_one_of(text, "true|yes|on") ? 1
           : *text >= '1' && *text <= '9' ? strtoull(text, &end, 10)
                                          : 0;
    if (*out == 0 || *out > 1000000000 || (end && *end))
        return refuse(err, STK_EINVAL, "fast_dev_run",
                      "it takes true, false or a number of batches");
    return STK_OK;
}

static stk_status parse_val_check(const stk_trainer_options *o, stk__settings *s, stk_error *err)
{
    if (strchr(o->val_check_interval, ':')) {
        STK_TRY(stk__duration_parse("trainer.val_check_interval", o->val_check_interval,
                                    &s->val_check_ns, err));
        return s->val_check_ns ? STK_OK
                               : refuse(err, STK_EINVAL, "val_check_interval", "it may not be 0");
    }
    STK_TRY(stk__limit_parse("val_check_interval", o->val_check_interval, &s->val_check, err));
    if (s->val_check.fraction ? s->val_check.share <= 0 : s->val_check.count == 0)
        return refuse(err, STK_EINVAL, "val_check_interval",
                      "it may not be 0; to switch validation off set limit_val_batches to 0");
    if (o->check_val_every_n_epoch == 0 && s->val_check.fraction && s->val_check.share != 1)
        return refuse(err, STK_EINVAL, "val_check_interval",
                      "a fraction of an epoch means nothing across epochs "
                      "(check_val_every_n_epoch 0): give a number of batches");
    return STK_OK;
}

static stk_status parse_overfit(const stk_trainer_options *o, stk__settings *s, stk_error *err)
{
    STK_TRY(stk__limit_parse("overfit_batches", o->overfit_batches, &s->overfit_limit, err));
    s->overfit = s->overfit_limit.count > 0 || s->overfit_limit.share > 0;
    if (!s->overfit)
        return STK_OK;
    if (strcmp(o->limit_train_batches, "1.0") || strcmp(o->limit_val_batches, "1.0"))
        return refuse(err, STK_EINVAL, "overfit_batches",
                      "it takes the place of limit_train_batches and limit_val_batches: leave "
                      "those out");
    s->train = s->val = s->overfit_limit;
    return STK_OK;
}

static stk_status check_ends(const stk_trainer_options *o, stk__settings *s, stk_error *err)
{
    s->max_epochs = o->max_epochs >= -1                   ? o->max_epochs
                    : o->max_steps >= 0 || s->max_time_ns ? -1
                                                          : 1000;
    s->max_steps = o->max_steps;
    if (s->max_epochs >= 0 && o->min_epochs > (uint64_t)s->max_epochs)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "min_epochs", STK_NO_OFFSET,
                            "trainer.min_epochs: %" PRIu64 " is more than max_epochs, %" PRId64,
                            o->min_epochs, s->max_epochs);
    if (o->max_steps >= 0 && o->min_steps > (uint64_t)o->max_steps)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "min_steps", STK_NO_OFFSET,
                            "trainer.min_steps: %" PRIu64 " is more than max_steps, %" PRId64,
                            o->min_steps, o->max_steps);
    return STK_OK;
}

static void apply_fast_dev_run(stk__settings *s)
{
    const stk__limit limit = {.count = s->fast_dev_run};

    s->train = s->val = s->test = s->predict = limit;
    s->overfit = false;
    s->val_check = (stk__limit){.fraction = true, .share = 1};
    s->val_check_ns = 0;
    s->check_val_every_n_epoch = 1;
    s->num_sanity_val_steps = 0;
    s->max_epochs = 1;
    s->max_steps = (int64_t)s->fast_dev_run;
    s->logging = s->checkpointing = false;
}

stk_status stk__settings_make(stk_context *ctx, const stk_trainer_options *o, stk__settings *s,
                              stk_error *err)
{
    *s = (stk__settings){
        .check_val_every_n_epoch = o->check_val_every_n_epoch,
        .num_sanity_val_steps = o->barebones ? 0 : o->num_sanity_val_steps,
        .checkpointing = o->enable_checkpointing != STK_SWITCH_FALSE && !o->barebones,
        .progress_bar = o->enable_progress_bar != STK_SWITCH_FALSE && !o->barebones,
        .model_summary = o->enable_model_summary != STK_SWITCH_FALSE && !o->barebones,
        .logging = strcmp(o->logger, "false") != 0 && !o->barebones};

    STK_TRY(check_machine(ctx, o, err));
    STK_TRY(check_precision(o->precision, err));
    if (!is_one_of(o->logger, "auto|true|false"))
        STK_TRY(stk__loggers_check(ctx, o->logger, err));
    STK_TRY(parse_fast_dev_run(o->fast_dev_run, &s->fast_dev_run, err));
    STK_TRY(check_barebones(o, s, err));
    STK_TRY(stk__limit_parse("limit_train_batches", o->limit_train_batches, &s->train, err));
    STK_TRY(stk__limit_parse("limit_val_batches", o->limit_val_batches, &s->val, err));
    STK_TRY(stk__limit_parse("limit_test_batches", o->limit_test_batches, &s->test, err));
    STK_TRY(stk__limit_parse("limit_predict_batches", o->limit_predict_batches, &s->predict, err));
    STK_TRY(parse_overfit(o, s, err));
    STK_TRY(parse_val_check(o, s, err));
    if (o->max_time && *o->max_time) {
        STK_TRY(stk__duration_parse("trainer.max_time", o->max_time, &s->max_time_ns, err));
        if (s->max_time_ns == 0)
            return refuse(err, STK_EINVAL, "max_time", "it may not be 0");
    }
    STK_TRY(check_ends(o, s, err));
    if (o->gradient_clip_algorithm == STK_CLIP_VALUE && o->gradient_clip_val == 0)
        return refuse(err, STK_EINVAL, "gradient_clip_algorithm",
                      "it has no effect without gradient_clip_val");
    if (s->fast_dev_run)
        apply_fast_dev_run(s);
    return STK_OK;
}

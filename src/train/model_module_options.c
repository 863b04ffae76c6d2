/* SPDX-License-Identifier: Apache-2.0 */
/* What a module takes from a batch, and when its schedule moves. */
#include "train/train.h"
#include "train/trainer.h"

#include "base/sized.h"

#define AT(member) offsetof(stk_model_module_options, member)

#define MONITOR "val_loss"

static const stk_option options[] = {
    {"input", STK_OPTION_STRING, AT(input), NULL, 0, 0, NULL, "FIELD",
     "Field of a batch that the model takes; none: the first with floats."},
    {"target", STK_OPTION_STRING, AT(target), NULL, 0, 0, NULL, "FIELD",
     "Field that the loss compares with; none: label, target or mask, the first that is there. "
     "Where a field of its name with _mask has 0, values do not count."},
    {"interval", STK_OPTION_ENUM, AT(interval), "epoch", 0, 0, "step|epoch", NULL,
     "The schedule of the learning rate moves after epochs, or after optimizer steps."},
    {"frequency", STK_OPTION_UINT, AT(frequency), "1", 1, 1e15, NULL, "N",
     "It moves after each Nth of them; of steps: where the batch is an Nth of its epoch."},
    {"monitor", STK_OPTION_STRING, AT(monitor), MONITOR, 0, 0, NULL, "METRIC",
     "What reduce_on_plateau looks at."},
    {"weights", STK_OPTION_STRING, AT(weights), NULL, 0, 0, NULL, "FILE",
     "File whose weights it begins with: safetensors, or torch.save's of tensors alone."},
    {"weights_strict", STK_OPTION_BOOL, AT(weights_strict), "true", 0, 0, NULL, NULL,
     "Its tensors have to be those of the model; else what fits is taken."},
    {"metrics", STK_OPTION_STRING, AT(metrics), NULL, 0, 0, NULL, "LIST",
     "Of validation and test, over all rows: accuracy, f1 (macro), f1_micro, confusion_matrix; "
     "mae, "
     "rmse, r2; or none. Without it accuracy, also of training, or mae and rmse."},
};

const stk_option_table stk__model_module_option_table = {.name = "module",
                                                         .doc = "What a model takes from a batch.",
                                                         .struct_size =
                                                             sizeof(stk_model_module_options),
                                                         .options = options,
                                                         .count = STK_COUNT(options)};

stk_status stk__model_parts_options(const stk_model_parts *parts, stk_model_options *model,
                                    stk_optimizer_options *optimizer, stk_schedule *schedule,
                                    stk_model_module_options *module, stk_error *err)
{
    const struct {
        const void *given;
        void *own;
        size_t size;
        const char *type;
    } all[] = {
        {parts->model, model, sizeof *model, "stk_model_options"},
        {parts->optimizer, optimizer, sizeof *optimizer, "stk_optimizer_options"},
        {parts->schedule, schedule, sizeof *schedule, "stk_schedule"},
        {parts->options, module, sizeof *module, "stk_model_module_options"},
    };

    stk_model_options_init(model);
    stk_optimizer_options_init(optimizer);
    stk_schedule_init(schedule);
    stk_model_module_options_init(module);
    for (size_t i = 0; i < STK_COUNT(all); i++)
        if (all[i].given)
            STK_TRY(stk__sized_read(all[i].own, all[i].size, all[i].given, all[i].type,
                                    STK_STAGE_TRAIN, err));
    if (!module->monitor)
        module->monitor = MONITOR;
    return STK_OK;
}

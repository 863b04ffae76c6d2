/* SPDX-License-Identifier: Apache-2.0 */
/* Names of classes of PyTorch and Lightning, as their configurations have them -> names here. */
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"

/* Those that are not the same words with underscores. */
static const char *const names[][2] = {
    {"LearningRateMonitor", "lr_monitor"},
    {"LearningRateFinder", "lr_find"},
    {"EMAWeightAveraging", "ema"},
    {"DeviceStatsMonitor", "device_stats"},
    {"ThroughputMonitor", "throughput"},
    {"GradientAccumulationScheduler", "accumulation_schedule"},
    {"TQDMProgressBar", "progress_bar"},
    {"RichProgressBar", "progress_bar"},
    {"RichModelSummary", "model_summary"},
    {"OnExceptionCheckpoint", "on_exception"},
    {"BasePredictionWriter", "prediction_writer"},
    {"CSVLogger", "csv"},
    {"TensorBoardLogger", "tensorboard"},
    {"MLFlowLogger", "mlflow"},
    {"WandbLogger", "wandb"},
    {"SimpleProfiler", "simple"},
    {"AdvancedProfiler", "advanced"},
    {"PyTorchProfiler", "pytorch"},
    {"PassThroughProfiler", "none"},
    {"AdamW", "adamw"},
    {"StepLR", "step"},
    {"MultiStepLR", "multi_step"},
    {"ExponentialLR", "exponential"},
    {"CosineAnnealingLR", "cosine"},
    {"OneCycleLR", "one_cycle"},
    {"LinearLR", "linear"},
    {"PolynomialLR", "polynomial"},
    {"ReduceLROnPlateau", "reduce_on_plateau"},
};

/* "EarlyStopping" -> "early_stopping" */
static void words_of(const char *name, char *out, size_t size)
{
    size_t used = 0;

    for (const char *c = name; *c && used + 3 < size; c++) {
        const bool upper = *c >= 'A' && *c <= 'Z';
        if (upper && c > name && c[-1] >= 'a' && c[-1] <= 'z')
            out[used++] = '_';
        out[used++] = upper ? (char)(*c - 'A' + 'a') : *c;
    }
    out[used] = 0;
}

const char *stk__class_item_key(const char *path)
{
    return strcmp(path, "trainer.callbacks") == 0  ? "callbacks"
           : strcmp(path, "trainer.logger") == 0   ? "loggers"
           : strcmp(path, "trainer.profiler") == 0 ? "trainer.profiler"
                                                   : NULL;
}

bool stk__class_has_items(const char *path)
{
    return stk__class_item_key(path) || strcmp(path, "callbacks") == 0 ||
           strcmp(path, "loggers") == 0;
}

/* What has no meaning of its own in "name(option=value)". */
static bool is_word(const char *text)
{
    return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_-.")];
}

bool stk__class_has_package(const char *path)
{
    static const char *const packages[] = {"lightning.", "pytorch_lightning.", "torch."};

    for (size_t i = 0; i < STK_COUNT(packages) && is_word(path); i++)
        if (strncmp(path, packages[i], strlen(packages[i])) == 0)
            return true;
    return false;
}

const char *stk__class_refused(const char *path)
{
    const char *last = strrchr(path, '.'), *name = last ? last + 1 : path;

    if (!*name)
        return "class_path is empty; it is the name of a class";
    if (last && !stk__class_has_package(path))
        return "a class of another package than lightning, pytorch_lightning and torch is not "
               "known here; a built-in one is the name alone, other code is a plug-in";
    if (!is_word(name))
        return "class_path is the name of a class alone; its options are init_args";
    if (strcmp(name, "StochasticWeightAveraging") == 0)
        return "there is no StochasticWeightAveraging here; WeightAveraging keeps the mean of the "
               "weights, with the learning rate as the schedule has it";
    return NULL;
}

const char *stk__class_misplaced(const char *key)
{
    return strcmp(key, "model") == 0
               ? "a model is no class of Python's here, but a list of layers: model.layers"
           : strcmp(key, "data") == 0
               ? "data are no class of Python's here, but a dataset: data.dataset"
               : "no class is known here; one can be the optimizer, the lr_scheduler, the "
                 "profiler, and each of trainer.callbacks and trainer.logger";
}

void stk__class_name(const char *path, char *out, size_t size)
{
    const char *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path;

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (strcmp(names[i][0], name) == 0) {
            snprintf(out, size, "%s", names[i][1]);
            return;
        }
    words_of(name, out, size);
}

bool stk__class_word(const char *key, const char *value, char *out, size_t size)
{
    static const char *const keys[] = {"optimizer.name", "lr_scheduler.name", STK__CONFIG_LOGGER};
    const char *dot = strrchr(value, '.'), *name = dot ? dot + 1 : value;
    bool known = false;

    for (size_t i = 0; i < STK_COUNT(keys) && !known; i++)
        known = strcmp(keys[i], key) == 0;
    if (!known || (dot ? !stk__class_has_package(value) : !is_word(value)) ||
        strcmp(name, "LinearLR") == 0 || strcmp(name, "PolynomialLR") == 0)
        return false;
    known = dot != NULL;
    for (size_t i = 0; i < STK_COUNT(names) && !known; i++)
        known = strcmp(names[i][0], name) == 0;
    if (known)
        stk__class_name(value, out, size);
    return known;
}

bool stk__class_words(const char *name, size_t *i, char *out, size_t size)
{
    while (*i < STK_COUNT(names) && strcmp(names[*i][1], name) != 0)
        ++*i;
    if (*i == STK_COUNT(names))
        return false;
    words_of(names[(*i)++][0], out, size);
    return true;
}

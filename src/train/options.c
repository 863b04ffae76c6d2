/* SPDX-License-Identifier: Apache-2.0 */
/* The described options of the trainer: names and defaults as Lightning's users know them. */
#include "train/train.h"
#include "train/trainer.h"

#define AT(member) offsetof(stk_trainer_options, member)

static const stk_option options[] = {
    {"accelerator", STK_OPTION_STRING, AT(accelerator), "auto", 0, 0, NULL, "NAME",
     "What computes: auto, cpu, or a device that a plug-in has brought."},
    {"strategy", STK_OPTION_STRING, AT(strategy), "auto", 0, 0, NULL, "NAME",
     "How processes share the work: auto, single_device, ddp (each has the whole model, and all "
     "the same gradients), zero_1 (each has its part of the optimizer's state), zero_2 (and of the "
     "gradients), zero_3 or fsdp (and of the parameters); auto: ddp where there are several."},
    {"devices", STK_OPTION_STRING, AT(devices), "auto", 0, 0, NULL, "N",
     "Devices: auto, 1, -1 (all); 'stoker train' begins a rank for each of several."},
    {"num_nodes", STK_OPTION_UINT, AT(num_nodes), "1", 1, 65536, NULL, "N",
     "Machines that train together."},
    {"precision", STK_OPTION_STRING, AT(precision), "32-true", 0, 0, NULL, "NAME",
     "Type of the numbers: 32-true, 64-true, bf16-mixed."},
    {"fast_dev_run", STK_OPTION_STRING, AT(fast_dev_run), "false", 0, 0, NULL, "N",
     "Try everything with so many batches (true: 1), without logs and checkpoints."},
    {"max_epochs", STK_OPTION_INT, AT(max_epochs), "-2", -2, 1e15, NULL, "N",
     "Epochs to train; -1: without end; -2: 1000, or without end where max_steps or max_time says "
     "when to stop."},
    {"min_epochs", STK_OPTION_UINT, AT(min_epochs), "0", 0, 1e15, NULL, "N",
     "Epochs to train at least, whatever wants to stop earlier; 0: none."},
    {"max_steps", STK_OPTION_INT, AT(max_steps), "-1", -1, 1e15, NULL, "N",
     "Optimizer steps to train; -1: no limit."},
    {"min_steps", STK_OPTION_UINT, AT(min_steps), "0", 0, 1e15, NULL, "N",
     "Optimizer steps to train at least; 0: none."},
    {"max_time", STK_OPTION_STRING, AT(max_time), NULL, 0, 0, NULL, "DD:HH:MM:SS",
     "Time to train at most; it goes on counting where a run is resumed."},
    {"limit_train_batches", STK_OPTION_STRING, AT(limit_train_batches), "1.0", 0, 0, NULL, "N",
     "Training batches of an epoch: 10 are ten, 0.25 is a quarter, 1.0 is all."},
    {"limit_val_batches", STK_OPTION_STRING, AT(limit_val_batches), "1.0", 0, 0, NULL, "N",
     "The same for validation; 0 switches it off."},
    {"limit_test_batches", STK_OPTION_STRING, AT(limit_test_batches), "1.0", 0, 0, NULL, "N",
     "The same for testing."},
    {"limit_predict_batches", STK_OPTION_STRING, AT(limit_predict_batches), "1.0", 0, 0, NULL, "N",
     "The same for prediction."},
    {"overfit_batches", STK_OPTION_STRING, AT(overfit_batches), "0.0", 0, 0, NULL, "N",
     "Train again and again on so many batches (or this share), unshuffled; 0.0: off."},
    {"val_check_interval", STK_OPTION_STRING, AT(val_check_interval), "1.0", 0, 0, NULL, "N",
     "How often to validate: 0.25 four times an epoch, 100 every 100 batches, 00:00:10:00 every "
     "ten minutes."},
    {"check_val_every_n_epoch", STK_OPTION_UINT, AT(check_val_every_n_epoch), "1", 0, 1e9, NULL,
     "N", "Validate in every n-th epoch only; 0: val_check_interval counts across epochs."},
    {"num_sanity_val_steps", STK_OPTION_INT, AT(num_sanity_val_steps), "2", -1, 1e15, NULL, "N",
     "Validation batches to try before training; -1: all."},
    {"log_every_n_steps", STK_OPTION_UINT, AT(log_every_n_steps), "50", 0, 1e15, NULL, "N",
     "Optimizer steps between two lines of the loggers; 0: only at the ends of epochs."},
    {"enable_checkpointing", STK_OPTION_ENUM, AT(enable_checkpointing), "auto", 0, 0,
     "auto|false|true", NULL, "Save checkpoints; auto: yes, unless barebones or fast_dev_run."},
    {"enable_progress_bar", STK_OPTION_ENUM, AT(enable_progress_bar), "auto", 0, 0,
     "auto|false|true", NULL, "Show a progress bar; auto: yes, unless barebones."},
    {"enable_model_summary", STK_OPTION_ENUM, AT(enable_model_summary), "auto", 0, 0,
     "auto|false|true", NULL, "Print the layers first; auto: yes, unless barebones."},
    {"logger", STK_OPTION_STRING, AT(logger), "auto", 0, 0, NULL, "NAMES",
     "Where metrics go: auto (csv and tensorboard), false, or names with commas between."},
    {"accumulate_grad_batches", STK_OPTION_UINT, AT(accumulate_grad_batches), "1", 1, 1e9, NULL,
     "N", "Batches whose gradients make one optimizer step; an epoch's last batch steps too."},
    {"gradient_clip_val", STK_OPTION_DOUBLE, AT(gradient_clip_val), "0", 0, 1e300, NULL, "X",
     "Bound on the gradients; 0: none."},
    {"gradient_clip_algorithm", STK_OPTION_ENUM, AT(gradient_clip_algorithm), "norm", 0, 0,
     "norm|value", NULL, "Bound the norm of all gradients, or each value."},
    {"deterministic", STK_OPTION_ENUM, AT(deterministic), "false", 0, 0, "false|true|warn", NULL,
     "The module may use nothing whose result varies from run to run; warn: where it cannot be "
     "told so, that is said, not refused."},
    {"benchmark", STK_OPTION_BOOL, AT(benchmark), "false", 0, 0, NULL, NULL,
     "Let the GPU's library try its algorithms first; a CPU has none."},
    {"inference_mode", STK_OPTION_BOOL, AT(inference_mode), "true", 0, 0, NULL, NULL,
     "No gradient buffers in validate, test and predict."},
    {"use_distributed_sampler", STK_OPTION_BOOL, AT(use_distributed_sampler), "true", 0, 0, NULL,
     NULL, "Give each process its own part of the data."},
    {"detect_anomaly", STK_OPTION_BOOL, AT(detect_anomaly), "false", 0, 0, NULL, NULL,
     "Look at every gradient and parameter after each step; the first that is no number is named."},
    {"barebones", STK_OPTION_BOOL, AT(barebones), "false", 0, 0, NULL, NULL,
     "Training and nothing else: no logs, checkpoints, bar, summary, sanity check."},
    {"sync_batchnorm", STK_OPTION_BOOL, AT(sync_batchnorm), "false", 0, 0, NULL, NULL,
     "Batch statistics over all processes."},
    {"reload_dataloaders_every_n_epochs", STK_OPTION_UINT, AT(reload_dataloaders_every_n_epochs),
     "0", 0, 1e9, NULL, "N", "Make the loaders anew so often; 0: never."},
    {"default_root_dir", STK_OPTION_STRING, AT(default_root_dir), ".", 0, 0, NULL, "DIR",
     "Where logs and checkpoints go."},
    {"seed_everything", STK_OPTION_INT, AT(seed_everything), "-1", -1, UINT32_MAX, NULL, "SEED",
     "Seed of initial weights, dropout, order and transforms, in place of their own; -1: theirs."},
    {"val_batch_size", STK_OPTION_UINT, AT(val_batch_size), "0", 0, 1u << 24, NULL, "N",
     "Samples of a batch in validation, test and prediction, which hold no gradients; 0: as "
     "their loaders say."},
    {"nan_policy", STK_OPTION_ENUM, AT(nan_policy), "stop", 0, 0, "stop|skip|rewind|ignore", NULL,
     "When a loss is no number: stop; skip the batch; rewind to the last good state and skip it; "
     "ignore it. The batch's samples are named."},
    {"nan_limit", STK_OPTION_UINT, AT(nan_limit), "10", 1, 1e9, NULL, "N",
     "So many such batches in a row stop the run all the same."},
    {"upload_dir", STK_OPTION_STRING, AT(upload_dir), STK__UPLOAD_DIR, 0, 0, NULL, "DIR",
     "Local folder where checkpoints for a URL lie, in a folder of the run's own, until they are "
     "uploaded."},
    {"upload_deadline", STK_OPTION_DURATION, AT(upload_deadline), "25s", 0.1, 1e9, NULL, "TIME",
     "How long uploads may still take after SIGTERM or SIGINT; else the end waits until nothing "
     "has got through for five times as long."},
    {"gradient_compression", STK_OPTION_ENUM, AT(gradient_compression), "none", 0, 0, "none|bf16",
     NULL,
     "What gradients are between ranks: as they are, or bfloat16, half the bytes; they are added "
     "as "
     "floats."},
};

const stk_option_table stk__trainer_option_table = {
    .name = "trainer",
    .doc = "How a module is trained.",
    .struct_size = sizeof(stk_trainer_options),
    .options = options,
    .count = STK_COUNT(options),
};

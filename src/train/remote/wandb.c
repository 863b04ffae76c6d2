/* SPDX-License-Identifier: Apache-2.0 */
/* The logger wandb: a journal, which the official client sends later. */
#include "train/remote/remote.h"

typedef struct wandb_options {
    stk__logger_options folder; /* first */
    const char *project, *entity, *group, *run_name, *tags;
    int32_t log_model;
} wandb_options;

#define AT(member) offsetof(wandb_options, member)

static const stk_option rows[] = {
    STK__LOGGER_OPTIONS{"project", STK_OPTION_STRING, AT(project), NULL, 0, 0, NULL, "NAME",
                        "Project that the run belongs to; the default is lightning_logs."},
    {"entity", STK_OPTION_STRING, AT(entity), NULL, 0, 0, NULL, "NAME",
     "User or team that the project belongs to; the default is the client's."},
    {"group", STK_OPTION_STRING, AT(group), NULL, 0, 0, NULL, "NAME",
     "Group of runs that this one belongs to."},
    {"run_name", STK_OPTION_STRING, AT(run_name), NULL, 0, 0, NULL, "NAME",
     "Name of the run; one is made where none is given."},
    {"tags", STK_OPTION_STRING, AT(tags), NULL, 0, 0, NULL, "LIST",
     "Tags of the run, 'name=value, name=value'."},
    {"log_model", STK_OPTION_ENUM, AT(log_model), "false", 0, 0, STK__LOG_MODEL_WORDS, NULL,
     "Checkpoints of the run's folder as artifacts: those that are there at the end of a task, or "
     "all as they are saved."},
};

static const stk_option_table table = {
    .name = "wandb",
    .doc = "A journal for Weights & Biases, sent by its own client.",
    .struct_size = sizeof(wandb_options),
    .options = rows,
    .count = STK_COUNT(rows),
};

static stk_status wandb_open(stk_context *ctx, const void *options, const char *root,
                             stk_logger **out, stk_error *err)
{
    const wandb_options *o = options;
    const stk__run_journal_option kept[] = {{"project", o->project},
                                            {"entity", o->entity},
                                            {"group", o->group},
                                            {"run_name", o->run_name}};

    *out = NULL;
    stk__remote_logger *l = stk__calloc(ctx, 1, sizeof *l);
    if (!l)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a logger");
    l->base.ops = &stk__logger_wandb;
    l->base.context = ctx;
    const stk_status status =
        stk__run_journal_writer_open(&l->base, STK__WANDB_JOURNAL, &o->folder, root, kept,
                                     STK_COUNT(kept), o->tags, &l->journal, err);
    l->journal.log_model = o->log_model;
    if (status != STK_OK) {
        stk__free(ctx, l);
        return status;
    }
    *out = &l->base;
    return STK_OK;
}

static void wandb_close(stk_logger *logger)
{
    stk__remote_logger *l = (stk__remote_logger *)logger;

    (void)stk__remote_end(l);
    stk__remote_say_kept(l);
    stk__run_journal_writer_close(&l->journal);
    stk__free(logger->context, l);
}

const stk_logger_ops stk__logger_wandb = {
    .struct_size = sizeof(stk_logger_ops),
    .name = "wandb",
    .doc = "A journal for Weights & Biases, sent by its own client.",
    .options = &table,
    .open = wandb_open,
    .close = wandb_close,
    .log_metrics = stk__remote_metrics,
    .log_hyperparams = stk__remote_params,
    .flush = stk__remote_flush,
    .finalize = stk__remote_finalize,
    .ended = stk__remote_ended,
};

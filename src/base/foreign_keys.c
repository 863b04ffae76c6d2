/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that LightningCLI writes and that are no options here: which values ask for nothing, and why
 * another one is refused. A key that is not among them is a misspelt one, whatever its value. */
#include "base/config.h"
#include "base/options.h"

static const struct {
    const char *key;    /* of a section, or of an item of a list by its name here */
    const char *values; /* that ask for nothing, with '|' between; null does so for all */
    const char *why;    /* not another one; NULL: it is unknown with one */
} keys[] = {
    {"weights_only", "", NULL},
    {"trainer.enable_autolog_hparams", "true", "each logger is told the options of a run"},
    {"trainer.model_registry", "", NULL},
    {"trainer.plugins", "", NULL},
    {"trainer.suggest_integrations", "true|false", NULL},
    {"optimizer.amsgrad", "false", "the variant AMSGrad is not known here"},
    {"optimizer.maximize", "false", "a training makes its loss small"},
    {"optimizer.foreach", "false", "it chooses code of PyTorch's; leave it out"},
    {"optimizer.fused", "false", "it chooses code of PyTorch's; leave it out"},
    {"optimizer.capturable", "false", "it chooses code of PyTorch's; leave it out"},
    {"optimizer.differentiable", "false", "nothing is learnt through an optimizer here"},
    {"optimizer.decoupled_weight_decay", "false", "an Adam with that is adamw"},
    {"lr_scheduler.last_epoch", "-1", "a run goes on from its checkpoint: ckpt_path"},
    {"lr_scheduler.verbose", "false|deprecated", "the callback lr_monitor logs the rate"},
    {"lr_scheduler.threshold_mode", "rel", "a threshold is a relative one here"},
    {"lr_scheduler.eps", "1e-8", "each change of the rate is made, however small"},
    {"lr_scheduler.epochs", "", "total_steps of one_cycle is found of the training"},
    {"lr_scheduler.steps_per_epoch", "", "total_steps of one_cycle is found of the training"},
    {"lr_scheduler.anneal_strategy", "cos", "one_cycle anneals with a cosine here"},
    {"lr_scheduler.cycle_momentum", "true", "one_cycle moves the momentum, too"},
    {"lr_scheduler.base_momentum", "0.85", "one_cycle moves the momentum between 0.85 and 0.95"},
    {"lr_scheduler.max_momentum", "0.95", "one_cycle moves the momentum between 0.85 and 0.95"},
    {"lr_scheduler.three_phase", "false", "one_cycle has two phases here"},
    {"early_stopping.log_rank_zero_only", "false", "rank 0 alone speaks"},
    {"progress_bar.process_position", "0", "there is one bar at a time"},
    {"csv.flush_logs_every_n_steps", "100", "a file is written a few times a second"},
    {"tensorboard.log_graph", "false", "the graph of a model is not logged"},
    {"tensorboard.default_hp_metric", "true|false", NULL},
    {"tensorboard.sub_dir", "", NULL},
    {"mlflow.synchronous", "false", "a run never waits for a server"},
    {"mlflow.checkpoint_path_prefix", "", NULL},
    {"wandb.offline", "true|false", NULL},
    {"wandb.anonymous", "", NULL},
    {"wandb.dir", "", NULL},
    {"wandb.id", "", NULL},
    {"wandb.experiment", "", NULL},
    {"wandb.checkpoint_name", "", NULL},
    {"wandb.add_file_policy", "mutable", "a file is sent as it is when it is sent"},
};

/* Whether a value is one of the words, or the same number. */
static bool is_among(const char *value, const char *words)
{
    const char *word, *end;
    double number, same;
    size_t length;

    for (size_t i = 0; (length = stk__option_choice(words, i, &word)); i++) {
        if (stk__option_same(value, strlen(value), word, length))
            return true;
        if (stk__option_number(value, &number, &end) && !*end &&
            stk__option_number(word, &same, &end) && number == same)
            return true;
    }
    return false;
}

bool stk__foreign_key(const char *key, const char *value, const char **refused)
{
    *refused = NULL;
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        if (strcmp(keys[i].key, key) != 0)
            continue;
        const bool nothing = !value || is_among(value, keys[i].values);
        *refused = nothing ? NULL : keys[i].why;
        return nothing || *refused;
    }
    return false;
}

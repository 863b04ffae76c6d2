/* SPDX-License-Identifier: Apache-2.0 */
/* Train as a YAML file says, with what the program knows better: its own validation data, a shorter
 * training, a verdict on what limited it. `stoker train` takes the same text. */
#include <stdio.h>
#include <string.h>

#include <stoker/recipe.h>

static const char text[] = "data: {dataset: 'digits:?size=20000', test: 'digits:?split=test'}\n"
                           "loader: {batch_size: 64, shuffle: true, transforms: normalize(mnist)}\n"
                           "model: {layers: [flatten, linear(64), relu, linear(10)]}\n"
                           "optimizer: {name: adam, lr: 0.002}\n"
                           "trainer: {max_epochs: 20, logger: 'false', seed_everything: 1,\n"
                           "          enable_checkpointing: false}\n"
                           "callbacks: ['early_stopping(monitor=val_loss, patience=2)']\n";

int main(int argc, char **argv)
{
    stk_recipe_options options = {.struct_size = sizeof options};
    stk_recipe_parts parts = {.struct_size = sizeof parts};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_context *context = NULL;
    stk_config *config = NULL;
    stk_recipe *recipe = NULL;
    stk_dataset *val = NULL;
    double accuracy = 0;
    stk_error err;

    /* A file where one is named; what is set later wins. */
    if (stk_context_create(NULL, &context, &err) || stk_config_create(context, &config, &err) ||
        (argc > 1 ? stk_config_load(config, argv[1], &err)
                  : stk_config_load_text(config, "digits.yaml", text, strlen(text), &err)) ||
        stk_config_set(config, "trainer.max_epochs", "2", false, &err))
        goto out;
    /* Data of this program, in the place of data.val. */
    if (stk_dataset_open(context, "digits:?size=21000&subset=20000:", &val, &err))
        goto out;
    options.val = val;
    if (stk_recipe_create(context, config, &options, &recipe, &err))
        goto out;
    stk_recipe_get_parts(recipe, &parts);
    if (stk_trainer_fit(parts.trainer, parts.module, parts.data, parts.ckpt_path, &err))
        goto out;
    stk_training_events_judge(parts.log, parts.data->train, NULL, &verdict);
    if (stk_trainer_test(parts.trainer, parts.module, parts.data, NULL, &err))
        goto out;
    stk_trainer_metric(parts.trainer, "test_acc", &accuracy);
out:
    if (accuracy > 0) {
        printf("%s: accuracy %.2f %%\n", parts.dataset, 100 * accuracy);
        fprintf(stderr, "%s\n", verdict.text); /* of this run: no two are the same */
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    stk_recipe_destroy(&recipe);
    stk_dataset_close(&val);
    stk_config_destroy(&config);
    stk_context_destroy(&context);
    return accuracy > 0.9 ? 0 : 1;
}

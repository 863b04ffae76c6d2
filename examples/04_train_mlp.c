/* SPDX-License-Identifier: Apache-2.0 */
/* Train an MLP of Stoker's layers on built-in digits, and test it. */
#include <stdio.h>

#include <stoker/trainer.h>

int main(void)
{
    const int64_t shape[] = {1, 28, 28};
    stk_context *context = NULL;
    stk_dataset *train = NULL, *test = NULL;
    stk_model_builder *builder = NULL;
    stk_module *module = NULL;
    stk_trainer *trainer = NULL;
    stk_trainer_options options;
    stk_loader_options loader;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options fields;
    double accuracy = 0;
    stk_error err;

    /* The data. */
    stk_loader_options_init(&loader);
    loader.batch_size = 64;
    loader.shuffle = STK_SHUFFLE_FULL;
    loader.transforms = "normalize(mnist)";
    if (stk_context_create(NULL, &context, &err) ||
        stk_dataset_open(context, "digits:?size=20000", &train, &err) ||
        stk_dataset_open(context, "digits:?split=test&size=2000", &test, &err))
        goto out;
    const stk_loader_source from[] = {{sizeof *from, train, &loader, NULL, NULL, NULL},
                                      {sizeof *from, test, &loader, NULL, NULL, NULL}};
    const stk_trainer_data data = {
        .struct_size = sizeof data, .train = &from[0], .test = &from[1], .num_test = 1};
    /* What is trained: layers, an optimizer, a schedule of the learning rate. */
    stk_model_options_init(&model);
    model.input_layout = 1; /* the batches have channels last */
    stk_optimizer_options_init(&optimizer);
    optimizer.name = STK_ADAM;
    optimizer.lr = 2e-3;
    stk_schedule_init(&schedule);
    schedule.name = STK_SCHEDULE_COSINE;
    stk_model_module_options_init(&fields);
    fields.interval = 0; /* the schedule moves after optimizer steps; else after epochs */
    if (stk_model_builder_create(context, shape, 3, &builder, &err) ||
        stk_model_builder_add(builder, "flatten, linear(64), relu, linear(10)", &err))
        goto out;
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = builder,
                                   .model = &model,
                                   .optimizer = &optimizer,
                                   .schedule = &schedule,
                                   .options = &fields};
    if (stk_model_module_create(context, &parts, &module, &err))
        goto out;
    /* How it is trained. */
    stk_trainer_options_init(&options);
    options.max_epochs = 2;
    options.seed_everything = 1;
    options.logger = "false"; /* "auto": CSV and TensorBoard files below ./lightning_logs */
    options.enable_checkpointing = STK_SWITCH_FALSE;
    if (stk_trainer_create(context, &options, &trainer, &err) ||
        stk_trainer_fit(trainer, module, &data, NULL, &err) ||
        stk_trainer_test(trainer, module, &data, NULL, &err))
        goto out;
    stk_trainer_metric(trainer, "test_acc", &accuracy);
out:
    printf("%s: accuracy %.2f %%\n", accuracy > 0 ? "trained" : err.text, 100 * accuracy);
    stk_trainer_destroy(&trainer);
    if (module)
        stk_module_destroy(&module);
    stk_model_builder_destroy(&builder);
    stk_dataset_close(&train);
    stk_dataset_close(&test);
    stk_context_destroy(&context);
    return accuracy > 0.9 ? 0 : 1;
}

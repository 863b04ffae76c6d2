/* SPDX-License-Identifier: Apache-2.0 */
/* Stop a training in the middle of an epoch and go on: the same weights as without the stop. */
#include <stdio.h>

#include <stoker/trainer.h>

/* Train for `max_steps`, after the checkpoint `from` (NULL: anew). The loss of the last step. */
static double train(stk_context *context, stk_dataset *dataset, const char *folder,
                    int64_t max_steps, const char *from)
{
    const int64_t shape[] = {1, 28, 28};
    stk_model_builder *builder = NULL;
    stk_module *module = NULL;
    stk_trainer *trainer = NULL;
    stk_model_options model;
    stk_loader_options loader;
    stk_trainer_options options;
    double loss = -1;
    stk_error err;

    stk_model_options_init(&model);
    model.input_layout = 1; /* channels last, as the batches are */
    stk_loader_options_init(&loader);
    loader.batch_size = 50;
    loader.shuffle = STK_SHUFFLE_FULL;
    loader.transforms = "random_crop(28, padding=2), normalize(mnist)";
    stk_trainer_options_init(&options);
    options.default_root_dir = folder;
    options.logger = "false";
    options.max_steps = max_steps;
    options.seed_everything = 7;
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_model_parts parts = {.struct_size = sizeof parts, .model = &model};
    stk_status status = stk_model_builder_create(context, shape, 3, &builder, &err);
    if (status == STK_OK)
        status = stk_model_builder_add(builder,
                                       "flatten, linear(32), relu, dropout(0.2), linear(10)", &err);
    parts.builder = builder;
    if (status == STK_OK &&
        (status = stk_model_module_create(context, &parts, &module, &err)) == STK_OK &&
        (status = stk_trainer_create(context, &options, &trainer, &err)) == STK_OK &&
        (status = stk_trainer_fit(trainer, module, &data, from, &err)) == STK_OK)
        stk_trainer_metric(trainer, "train_loss", &loss);
    if (status != STK_OK)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_trainer_destroy(&trainer);
    if (module)
        stk_module_destroy(&module);
    stk_model_builder_destroy(&builder);
    return loss;
}

int main(void)
{
    /* Where checkpoints go: paths of folders, or as here memory, which ends with the context. */
    const char *whole = "mem://whole", *parts = "mem://parts";
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    double a = 0, b = 1;

    if (stk_context_create(NULL, &context, NULL) == STK_OK &&
        stk_dataset_open(context, "digits:?size=2000", &dataset, NULL) == STK_OK) {
        a = train(context, dataset, whole, 100, NULL);
        train(context, dataset, parts, 70, NULL); /* ends in its second epoch */
        b = train(context, dataset, parts, 100, "last");
    }
    printf("loss of step 100: %.17g without a stop, %.17g with one\n", a, b);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return a == b ? 0 : 1;
}

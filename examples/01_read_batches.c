/* SPDX-License-Identifier: Apache-2.0 */
/* Read one epoch of shuffled, normalised batches:  01_read_batches [SPEC], such as mnist:DIR */
#include <stdio.h>

#include <stoker/stoker.h>

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "digits:?split=test";
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options options;
    stk_error err;
    unsigned long long samples = 0, labels[10] = {0};
    stk_status status;

    stk_error_init(&err);
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.shuffle = STK_SHUFFLE_FULL;
    options.num_workers = 2;
    options.transforms = "normalize(mnist)";

    if ((status = stk_context_create(NULL, &context, &err)) != STK_OK ||
        (status = stk_dataset_open(context, spec, &dataset, &err)) != STK_OK ||
        (status = stk_loader_create(dataset, &options, &loader, &err)) != STK_OK)
        goto out;

    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
        stk_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label};

        if ((status = stk_batch_find(batch, "image", &image)) != STK_OK ||
            (status = stk_batch_find(batch, "label", &label)) != STK_OK)
            break;
        /* image.data: float32 [count, 28, 28, 1]; here a training step would use it. */
        for (int64_t i = 0; i < label.shape[0]; i++)
            labels[((const int64_t *)label.data)[i] % 10]++;
        samples += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    printf("%llu samples; of the labels 0 to 9:", samples);
    for (int i = 0; i < 10; i++)
        printf(" %llu", labels[i]);
    printf("\n");
out:
    if (status < 0)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return status == STK_EOS ? 0 : 1;
}

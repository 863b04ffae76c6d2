/* SPDX-License-Identifier: Apache-2.0 */
/* A dataset of your own: sample i is the pair (i, i squared). Nothing is read: no `locate`. */
#include <stdio.h>

#include <stoker/stoker.h>

/* Runs on the workers, several at a time, each with some samples. */
static void squares_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        const stk_sample *sample = stk_sample_at(samples, i);
        stk_value *pair = stk_sample_value(sample, 0);
        double *out = pair->out;

        out[0] = (double)sample->index;
        out[1] = out[0] * out[0];
        pair->data = out;
    }
}

static void squares_close(stk_dataset *dataset)
{
    (void)dataset; /* no state: nothing to free */
}

int main(void)
{
    const stk_dataset_ops squares = {.struct_size = sizeof squares,
                                     .name = "squares",
                                     .close = squares_close,
                                     .prepare = squares_prepare};
    const stk_field field = {
        .struct_size = sizeof field, .name = "pair", .dtype = STK_FLOAT64, .rank = 1, .shape = {2}};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .size = 1000, .fields = &field, .num_fields = 1};
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options options;
    stk_error err;
    double sum = 0;

    stk_error_init(&err);
    stk_loader_options_init(&options);
    options.batch_size = 32;
    options.shuffle = STK_SHUFFLE_FULL;
    stk_status status = stk_context_create(NULL, &context, &err);
    status = status ? status : stk_dataset_create(context, &squares, NULL, &info, &dataset, &err);
    status = status ? status : stk_loader_create(dataset, &options, &loader, &err);
    while (status == STK_OK && (status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
        stk_tensor pair = {.struct_size = sizeof pair};

        status = stk_batch_field(batch, 0, &pair);
        for (int64_t i = 0; status == STK_OK && i < pair.shape[0]; i++)
            sum += ((const double *)pair.data)[2 * i + 1];
        stk_batch_release(&batch);
    }
    printf("sum of the squares below 1000: %.0f (332833500 expected)\n", sum);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return status == STK_EOS && sum == 332833500 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of your own asks what its loader does, with no word to it about the steps. */
#include <stdio.h>

#include <stoker/bench.h>

/* The step: as much work as there are rows. */
static double step(const stk_batch *batch)
{
    double x = 0;

    for (uint64_t i = 0; i < 2000 * stk_batch_count(batch); i++)
        x = x * 0.5 + (double)i;
    return x;
}

int main(void)
{
    stk_figures figures = {.struct_size = sizeof figures};
    stk_verdict verdict = {.struct_size = sizeof verdict};
    stk_loader_options options;
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_meter *meter = NULL;
    stk_batch *batch = NULL;
    double sum = 0;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = 32;
    stk_status status = stk_context_create(NULL, &context, &err);
    status = status ? status : stk_dataset_open(context, "digits:?size=3200", &dataset, &err);
    status = status ? status : stk_loader_create(dataset, &options, &loader, &err);
    status = status ? status : stk_meter_open(context, loader, &options, &meter, &err);
    while (status == STK_OK && (status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
        sum += step(batch);
        stk_batch_release(&batch);
    }
    if (status == STK_EOS) {
        stk_meter_get(meter, &figures);
        stk_judge(&figures, &verdict);
        printf("an epoch of %llu steps, work of %.0f\n", (unsigned long long)figures.steps, sum);
        fprintf(stderr, "%.0f samples/s, the step ran %.1f %% of the time\n%s\n",
                figures.samples_per_s, 100 * figures.step_share, verdict.text);
    } else {
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    }
    stk_meter_close(&meter);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return status == STK_EOS && figures.steps == 100 ? 0 : 1;
}

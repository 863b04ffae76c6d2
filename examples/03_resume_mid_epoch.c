/* SPDX-License-Identifier: Apache-2.0 */
/* Stop within an epoch, keep one line of text, go on with other workers: the same samples. */
#include <inttypes.h>
#include <stdio.h>

#include <stoker/stoker.h>

/* Consume `steps` batches after the state `from`, if any; the new one goes to `to`. A checksum. */
static uint64_t run(stk_dataset *dataset, int workers, int steps, const char *from, char to[512])
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor index = {.struct_size = sizeof index};
    stk_loader_state state;
    stk_error err;
    uint64_t sum = 1;

    stk_error_init(&err);
    stk_loader_options_init(&options);
    options.batch_size = 64;
    options.shuffle = STK_SHUFFLE_FULL;
    options.num_workers = workers;
    stk_status status = stk_loader_create(dataset, &options, &loader, &err);
    if (status == STK_OK && from[0] &&
        (status = stk_loader_state_parse(from, &state, &err)) == STK_OK)
        status = stk_loader_restore(loader, &state, &err);
    for (int i = 0; status == STK_OK && i < steps; i++) {
        if ((status = stk_loader_next(loader, -1, &batch, &err)) != STK_OK ||
            (status = stk_batch_find(batch, "index", &index)) != STK_OK)
            break;
        for (int64_t k = 0; k < index.shape[0]; k++)
            sum = sum * 31 + ((const uint64_t *)index.data)[k];
        stk_batch_get_state(batch, &state);
        stk_loader_state_format(&state, to, 512);
        stk_batch_release(&batch);
    }
    if (status != STK_OK)
        fprintf(stderr, "%s: %s\n", stk_status_name(status), err.text);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    return status == STK_OK ? sum : 0;
}

int main(void)
{
    char saved[512], last[512];
    stk_context *context = NULL;
    stk_dataset *dataset = NULL;
    uint64_t a = 0, b = 1;

    if (stk_context_create(NULL, &context, NULL) == STK_OK &&
        stk_dataset_open(context, "digits:?split=test", &dataset, NULL) == STK_OK &&
        run(dataset, 2, 40, "", saved))
        a = run(dataset, 3, 50, saved, last), b = run(dataset, 0, 50, saved, last);
    printf("steps 41 to 90: %016" PRIx64 " and %016" PRIx64 "\n", a, b);
    stk_dataset_close(&dataset);
    stk_context_destroy(&context);
    return a && a == b ? 0 : 1;
}

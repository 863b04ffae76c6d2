/* SPDX-License-Identifier: Apache-2.0 */
/* Training on windows of a file that is replaced or written meanwhile: no epoch goes on with it. */
#include "golden/array/pack.h"
#include "support/changed.h"
#include "unit/dataset/windows.h"

#define MOST_BATCHES 100000

/* Deliver until something fails. */
static stk_status deliver(stk_loader *loader, stk_error *err)
{
    stk_status status = STK_OK;
    stk_batch *batch;

    for (int i = 0; i < MOST_BATCHES && (status == STK_OK || status == STK_EOS); i++) {
        stk_error_init(err);
        status = stk_loader_next(loader, 30000, &batch, err);
        if (status == STK_OK)
            stk_batch_release(&batch);
    }
    return status;
}

/* The batches of whole epochs. */
static void deliver_epochs(stk_loader *loader, uint64_t epochs)
{
    stk_batch *batch;
    stk_error err;

    while (epochs) {
        const stk_status status = stk_loader_next(loader, 30000, &batch, &err);
        if (status == STK_EOS) {
            epochs--;
            continue;
        }
        assert_ok(status, &err);
        stk_batch_release(&batch);
    }
}

static void check(const char *folder, const char *form, bool in_place)
{
    stk_context *ctx = test_context();
    uint64_t size = 0;
    char spec[600];
    stk_loader_options o = window_options();
    stk_loader *loader = NULL;
    stk_error err;

    char *data = pack_find("hdf5_chunks", "files/indexes_latest.h5", &size);
    write_at(folder, "x.h5", data, size, 5);
    snprintf(spec, sizeof spec, form, folder);
    stk_dataset *dataset = open_windows(ctx, spec);
    ((stk__window *)dataset)->variables[0].array->watch->every_ns = 0;
    o.epochs = 0;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    deliver_epochs(loader, 3);
    if (in_place)
        write_byte(folder, "x.h5", (long)size - 1, (unsigned char)data[size - 1], 6);
    else
        replace_at(folder, "x.h5", data, size, 6);
    assert_fails(deliver(loader, &err), STK_ECHANGED, &err, "x.h5 has changed since it was opened");
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    dataset = open_windows(ctx, spec);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    deliver_epochs(loader, 2);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    free(data);
    stk_context_destroy(&ctx);
}

static void test_epochs(void **state)
{
    static const char *const forms[] = {
        "array:%s/x.h5/contiguous?window=3x4x5", "array:%s/x.h5/chunked?window=3x4x5",
        "array:%s/x.h5/filtered?window=3x4x5", "hdf5:%s/x.h5?fields=contiguous",
        "hdf5:%s/x.h5?fields=filtered"};
    char folder[256];

    test_folder(folder);
    for (size_t i = 0; i < STK_COUNT(forms); i++)
        for (int in_place = 0; in_place < 2; in_place++)
            check(folder, forms[i], in_place);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_epochs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a batch as DLPack tensors: what they say, and how long they hold the batch. */
#include <pthread.h>

#include <stoker/dlpack.h>

#include "support/counting.h"
#include "support/support.h"

enum { BATCH = 16, THREADS = 4 };

static stk_loader *make_loader(stk_dataset *dataset)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = BATCH;
    options.num_workers = 1;
    options.epochs = 0;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    return loader;
}

static stk_batch *next(stk_loader *loader)
{
    stk_batch *batch = NULL;
    stk_error err;

    stk_status status = stk_loader_next(loader, -1, &batch, &err);
    if (status == STK_EOS)
        status = stk_loader_next(loader, -1, &batch, &err);
    assert_ok(status, &err);
    return batch;
}

static stk_dlpack *export(const stk_batch *batch, uint32_t field)
{
    void *out = NULL;
    stk_error err;

    assert_ok(stk_batch_dlpack(batch, field, 0, &out, &err), &err);
    return out;
}

static void check_tensor(const stk_dlpack_tensor *t, stk_dlpack_code code, int bits, int ndim,
                         const int64_t *shape, const int64_t *strides)
{
    assert_int_equal(t->device_type, STK_DLPACK_CPU);
    assert_int_equal(t->device_id, 0);
    assert_int_equal(t->code, code);
    assert_int_equal(t->bits, bits);
    assert_int_equal(t->lanes, 1);
    assert_int_equal(t->byte_offset, 0);
    assert_int_equal(t->ndim, ndim);
    for (int d = 0; d < ndim; d++) {
        assert_int_equal(t->shape[d], shape[d]);
        assert_int_equal(t->strides[d], strides[d]);
    }
}

static void what_they_say(void **state)
{
    static const int64_t shape[] = {BATCH, COUNTING_BYTES}, strides[] = {COUNTING_BYTES, 1};
    const counting_options options = {.size = 64, .ragged = true};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    stk_batch *batch = next(loader);
    stk_tensor data = {.struct_size = sizeof data}, words = {.struct_size = sizeof words};
    void *out = NULL;
    stk_error err;

    assert_int_equal(stk_batch_find(batch, "data", &data), STK_OK);
    assert_int_equal(stk_batch_find(batch, "words", &words), STK_OK);
    stk_dlpack *plain = export(batch, 0);
    check_tensor(&plain->tensor, STK_DLPACK_UINT, 8, 2, shape, strides);
    assert_ptr_equal(plain->tensor.data, data.data);
    plain->deleter(plain);
    assert_ok(stk_batch_dlpack(batch, 1, 1, &out, &err), &err);
    stk_dlpack_versioned *versioned = out;
    assert_true(versioned->major == 1 && versioned->flags == 0);
    check_tensor(&versioned->tensor, STK_DLPACK_INT, 64, 1, shape, strides + 1);
    versioned->deleter(versioned);
    /* Ragged: all values in a row. */
    plain = export(batch, 2);
    const int64_t total = (int64_t)words.offsets[BATCH];
    check_tensor(&plain->tensor, STK_DLPACK_UINT, 16, 1, &total, strides + 1);
    assert_ptr_equal(plain->tensor.data, total ? words.data : NULL);
    plain->deleter(plain);
    assert_fails(stk_batch_dlpack(batch, 99, 0, &out, &err), STK_EINVAL, &err, "no field 99");
    assert_fails(stk_batch_dlpack(batch, 0, 2, &out, &err), STK_ENOTSUP, &err, "version 2");
    assert_null(out);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Two tensors of a batch that was released: the loader goes on and never writes there; when it is
 * gone they are still good, and the memory of all goes with the last. */
static void longer_than_the_loader(void **state)
{
    const counting_options options = {.size = 640};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    stk_batch *batch = next(loader);
    stk_dlpack *data = export(batch, 0), *index = export(batch, 2);
    uint8_t expected[COUNTING_BYTES];

    stk_batch_release(&batch);
    for (int i = 0; i < 40; i++) {
        batch = next(loader);
        stk_tensor other = {.struct_size = sizeof other};
        assert_int_equal(stk_batch_field(batch, 0, &other), STK_OK);
        assert_ptr_not_equal(other.data, data->tensor.data);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    for (int r = 0; r < BATCH; r++) {
        assert_int_equal(((const uint64_t *)index->tensor.data)[r], r);
        counting_data((uint64_t)r, expected);
        assert_memory_equal((const char *)data->tensor.data + r * COUNTING_BYTES, expected,
                            COUNTING_BYTES);
    }
    index->deleter(index);
    assert_int_equal(((const uint8_t *)data->tensor.data)[1], 1);
    data->deleter(data);
}

static void *delete_one(void *tensor)
{
    ((stk_dlpack *)tensor)->deleter(tensor);
    return NULL;
}

/* Tensors hold the batches of a loader as the consumer does; one that is deleted elsewhere gives
 * its batch back. */
static void all_of_them_held(void **state)
{
    const counting_options options = {.size = 640};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    stk_dlpack *kept[64];
    stk_batch *batch = NULL;
    pthread_t thread;
    size_t n = 0;
    stk_error err;

    while (stk_loader_next(loader, -1, &batch, &err) == STK_OK && n < 64) {
        kept[n++] = export(batch, 1);
        stk_batch *same = batch;
        assert_fails(stk_batch_detach(&batch, &err), STK_EBUSY, &err, "DLPack");
        assert_ptr_equal(batch, same);
        stk_batch_release(&batch);
    }
    assert_int_equal(err.status, STK_EBUSY);
    assert_true(n >= 2 && n < 64);
    assert_int_equal(pthread_create(&thread, NULL, delete_one, kept[0]), 0);
    pthread_join(thread, NULL);
    batch = next(loader);
    stk_batch_release(&batch);
    for (size_t i = 1; i < n; i++)
        kept[i]->deleter(kept[i]);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Deleted on other threads, some while the loader works and the last after its end. */
static void on_any_thread(void **state)
{
    const counting_options options = {.size = 640};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &options);
    stk_loader *loader = make_loader(dataset);
    pthread_t threads[THREADS];

    for (int round = 0; round < 50; round++) {
        stk_batch *batch = next(loader);
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, delete_one, export(batch, i % 3)),
                             0);
        stk_batch_release(&batch);
        if (round == 49) {
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
            stk_context_destroy(&ctx);
        }
        for (uint32_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_they_say),
        cmocka_unit_test(longer_than_the_loader),
        cmocka_unit_test(all_of_them_held),
        cmocka_unit_test(on_any_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

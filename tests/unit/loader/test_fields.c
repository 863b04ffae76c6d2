/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of many fields, fixed and ragged, in memory that a device gives. */
#include "loader/parts.h"

#include "support/support.h"

enum { FIELDS = 60, SIZE = 50, BATCH = 8 };

static stk_field fields[FIELDS];
static char names[FIELDS][16];
static uint32_t given, taken_back;
static char *begin[64], *end[64];

static bool is_ragged(uint32_t f)
{
    return f % 6 == 5;
}

static uint64_t length_of(uint64_t index, uint32_t f)
{
    return is_ragged(f) ? (index + f) % 4 : 1;
}

static stk_status locate(stk_dataset *dataset, const uint64_t *indices, size_t n, stk_locator *to,
                         stk_error *err)
{
    (void)dataset;
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < FIELDS; f++)
            if (is_ragged(f))
                to->bytes(to, i, f, length_of(indices[i], f) * sizeof(uint32_t));
    return STK_OK;
}

static size_t object(stk_dataset *dataset, uint64_t number, stk_store **store, char *key,
                     size_t size)
{
    (void)dataset;
    (void)number;
    *store = NULL;
    return (size_t)snprintf(key, size, "none");
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < FIELDS; f++) {
            uint32_t *out = samples[i].values[f].out;
            const uint64_t length = length_of(samples[i].index, f);
            for (uint64_t k = 0; k < length; k++)
                out[k] = (uint32_t)(samples[i].index * 1000 + f * 10 + k);
            samples[i].values[f].size = length * sizeof *out;
        }
}

static void close_dataset(stk_dataset *dataset)
{
    (void)dataset;
}

/* Host memory of a device, and nothing else. */
static stk_status alloc_host(stk_device *device, uint64_t bytes, void **out, stk_error *err)
{
    if (given == 5)
        return stk__fail(err, STK_ENOSPC, STK_STAGE_DEVICE, "no host memory");
    *out = stk__alloc_buffer(device->context, bytes);
    assert_non_null(*out);
    begin[given] = *out;
    end[given] = begin[given] + bytes;
    given++;
    return STK_OK;
}

static void free_host(stk_device *device, void *memory)
{
    taken_back++;
    stk__free(device->context, memory);
}

static bool is_given(const void *at)
{
    for (uint32_t i = 0; i < given; i++)
        if ((const char *)at >= begin[i] && (const char *)at < end[i])
            return true;
    return false;
}

static void check(const stk_batch *batch)
{
    stk_tensor index = {.struct_size = sizeof index}, x = {.struct_size = sizeof x};
    char name[16];

    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    for (uint32_t f = 0; f < FIELDS; f++) {
        snprintf(name, sizeof name, "field%u", f);
        assert_int_equal(stk_batch_find(batch, name, &x), STK_OK);
        uint64_t at = 0;
        if (!is_ragged(f))
            assert_true(is_given(x.data));
        for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
            const uint64_t i = ((const uint64_t *)index.data)[r], n = length_of(i, f);
            for (uint64_t k = 0; k < n; k++)
                assert_int_equal(((const uint32_t *)x.data)[at++], i * 1000 + f * 10 + k);
            if (is_ragged(f))
                assert_int_equal(x.offsets[r + 1], at);
        }
    }
}

static void run(int64_t workers, int64_t ahead, stk_status wanted)
{
    const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                 .name = "wide",
                                 .doc = "For tests.",
                                 .close = close_dataset,
                                 .locate = locate,
                                 .object = object,
                                 .prepare = prepare};
    const stk_device_ops device_ops = {.alloc_host = alloc_host, .free_host = free_host};
    stk_context *ctx = test_context();
    stk_device device = {.ops = &device_ops, .context = ctx};
    stk_dataset dataset;
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_status status;
    stk_error err;
    uint64_t rows = 0;

    given = taken_back = 0;
    for (uint32_t f = 0; f < FIELDS; f++) {
        snprintf(names[f], sizeof names[f], "field%u", f);
        fields[f] = stk__field(names[f], STK_UINT32, (const int64_t[]){-1}, false);
        if (is_ragged(f))
            fields[f].layout = STK_RAGGED;
    }
    stk__dataset_init(&dataset, &ops, ctx, SIZE, fields, FIELDS);
    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.num_workers = workers;
    o.prefetch_factor = ahead;
    o.epochs = 1;
    o.shuffle = STK_SHUFFLE_FULL;
    o.device = &device;
    status = stk_loader_create(&dataset, &o, &loader, &err);
    assert_int_equal(status, wanted);
    if (wanted == STK_OK) {
        while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
            check(batch);
            rows += stk_batch_count(batch);
            stk_batch_release(&batch);
        }
        assert_int_equal(status, STK_EOS);
        assert_int_equal(rows, SIZE);
        stk_loader_destroy(&loader);
    }
    assert_true(given > 1);
    assert_int_equal(taken_back, given);
    stk_context_destroy(&ctx);
}

static void test_many(void **state)
{
    (void)state;
    for (int64_t workers = 0; workers <= 2; workers++)
        run(workers, 1, STK_OK);
}

/* The failure of the device is that of the loader, which gives back what it has. */
static void test_device_fails(void **state)
{
    (void)state;
    run(2, 8, STK_ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_device_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

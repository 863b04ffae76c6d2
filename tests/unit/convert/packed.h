/* Packing pictures for tests: convert, compare what two datasets give through a loader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_PACKED_H
#define STK_TESTS_PACKED_H

#include "tree.h"

#include "dataset/dataset.h"

typedef struct packed_run {
    stk_convert_options options;
    stk_convert_packed_options own;
    stk_conversion_report report;
} packed_run;

static inline void packed_run_init(packed_run *run)
{
    memset(run, 0, sizeof *run);
    run->report.struct_size = sizeof run->report;
    stk_convert_options_init(&run->options);
    stk_options_init(stk_option_table_find("packed"), &run->own, sizeof run->own);
    run->own.shard_size = 4096;
}

static inline stk_status packed_convert(stk_context *ctx, packed_run *run, const char *from,
                                        const char *to, stk_error *err)
{
    stk_conversion *conversion = NULL;

    stk_error_init(err);
    stk_status status = stk_conversion_create(ctx, from, to, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &run->options, &run->own, &run->report, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* What a loader is told, and from which rows on. */
typedef struct packed_load {
    const char *spec, *transforms;
    stk_loader_options options;
} packed_load;

static inline packed_load packed_loading(const char *spec, const char *transforms)
{
    packed_load load = {.spec = spec, .transforms = transforms};

    stk_loader_options_init(&load.options);
    load.options.num_workers = 0;
    load.options.epochs = 2;
    load.options.batch_size = 3;
    load.options.transforms = transforms;
    return load;
}

/* Both give the same pictures and labels; the number of rows. */
static inline uint64_t packed_same(stk_context *ctx, const packed_load *a, const packed_load *b)
{
    const packed_load *loads[2] = {a, b};
    stk_dataset *dataset[2];
    stk_loader *loader[2];
    stk_batch *batch[2];
    stk_status status[2];
    stk_error err;
    uint64_t rows = 0, epochs = 0;

    for (int i = 0; i < 2; i++) {
        assert_ok(stk_dataset_open(ctx, loads[i]->spec, &dataset[i], &err), &err);
        assert_ok(stk_loader_create(dataset[i], &loads[i]->options, &loader[i], &err), &err);
    }
    for (;;) {
        stk_tensor image[2] = {{.struct_size = sizeof *image}, {.struct_size = sizeof *image}},
                   label[2] = {{.struct_size = sizeof *label}, {.struct_size = sizeof *label}};
        for (int i = 0; i < 2; i++) {
            status[i] = stk_loader_next(loader[i], -1, &batch[i], &err);
            if (status[i] != STK_EOS)
                assert_ok(status[i], &err);
        }
        assert_int_equal(status[0], status[1]);
        if (status[0] != STK_OK && ++epochs == 2)
            break;
        if (status[0] != STK_OK)
            continue;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stk_batch_find(batch[i], "image", &image[i]), STK_OK);
            assert_int_equal(stk_batch_find(batch[i], "label", &label[i]), STK_OK);
        }
        uint64_t count = stk_batch_count(batch[0]), bytes = stk_dtype_size(image[0].dtype);
        assert_int_equal(count, stk_batch_count(batch[1]));
        assert_int_equal(image[0].dtype, image[1].dtype);
        for (uint32_t d = 1; d < image[0].rank; d++) {
            assert_int_equal(image[0].shape[d], image[1].shape[d]);
            bytes *= (uint64_t)image[0].shape[d];
        }
        assert_memory_equal(image[0].data, image[1].data, count * bytes);
        assert_memory_equal(label[0].data, label[1].data, count * sizeof(int64_t));
        rows += count;
        stk_batch_release(&batch[0]);
        stk_batch_release(&batch[1]);
    }
    for (int i = 0; i < 2; i++) {
        stk_loader_destroy(&loader[i]);
        stk_dataset_close(&dataset[i]);
    }
    return rows;
}

#endif

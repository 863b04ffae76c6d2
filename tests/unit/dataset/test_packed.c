/* SPDX-License-Identifier: Apache-2.0 */
/* Packed pictures as others may have written them: other codecs and chunks, and what is wrong. */
#include "samples.h"

#include <stdio.h>
#include <unistd.h>

#include "support/text.h"

#define ROWS 7
#define SIDE 4
#define PIX  (SIDE * SIDE * 3)

/* A folder with the arrays of one layout. */
typedef struct packed {
    stk_context *ctx;
    char folder[256], spec[300];
    uint8_t pictures[ROWS * PIX];
    int64_t labels[ROWS];
} packed;

/* Write an array; `chunk` NULL: all of it is one. */
static void put(packed *p, const char *name, stk_dtype dtype, uint32_t rank, const int64_t *shape,
                const int64_t *chunk, const int64_t *shard, const char *codec, bool checksum,
                const void *data)
{
    static const int64_t zeros[4];
    static const uint8_t fill[8] = {9};
    stk_array_writer *writer = NULL;
    stk_array_writer_options o;
    char path[400];
    stk_error err;

    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    if (access(path, F_OK) == 0)
        test_folder_remove(path);
    stk_array_writer_options_init(&o);
    o.dtype = dtype;
    o.rank = rank;
    o.shape = shape;
    o.chunk_shape = chunk ? chunk : shape;
    o.shard_shape = shard;
    o.codec = codec;
    o.checksum = checksum;
    o.fill_value = fill;
    assert_ok(stk_array_writer_create(p->ctx, path, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, zeros, shape, data, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static void finish(packed *p, const char *attributes)
{
    stk_error err;

    assert_ok(stk_group_consolidate(p->ctx, p->folder, attributes, &err), &err);
}

static const int64_t image_shape[] = {ROWS, SIDE, SIDE, 3}, rows_shape[] = {ROWS};

static void begin(packed *p)
{
    p->ctx = test_context();
    test_folder(p->folder);
    snprintf(p->spec, sizeof p->spec, "images:%s", p->folder);
    for (size_t i = 0; i < sizeof p->pictures; i++)
        p->pictures[i] = (uint8_t)(i * 7 % 251);
    memset(p->pictures + 3 * PIX, 9, PIX); /* of the fill value: no chunk */
    for (int i = 0; i < ROWS; i++)
        p->labels[i] = 10 * i;
}

static void put_fixed(packed *p)
{
    put(p, "image", STK_UINT8, 4, image_shape, (const int64_t[]){1, SIDE, SIDE, 3},
        (const int64_t[]){2, SIDE, SIDE, 3}, "none", true, p->pictures);
    put(p, "label", STK_INT64, 1, rows_shape, NULL, NULL, "none", true, p->labels);
}

static void end(packed *p)
{
    test_folder_remove(p->folder);
    stk_context_destroy(&p->ctx);
}

/* All samples are what was written, whatever the store. */
static void right(packed *p, const char *head)
{
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label};
    stk_dataset *d = NULL;
    stk_error err;
    char spec[400];

    snprintf(spec, sizeof spec, "images:%s%s", head, p->folder);
    assert_ok(stk_dataset_open(p->ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, ROWS);
    stk_loader_options_init(&options);
    options.num_workers = 1;
    options.batch_size = ROWS;
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    assert_memory_equal(image.data, p->pictures, sizeof p->pictures);
    assert_memory_equal(label.data, p->labels, sizeof p->labels);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
}

static void refused(packed *p, stk_status status, const char *part)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_fails(stk_dataset_open(p->ctx, p->spec, &d, &err), status, &err, part);
    assert_null(d);
}

/* ---- Layouts of others ----------------------------------------------------------------------- */

static void test_chunks_and_codecs(void **state)
{
    static const struct {
        int64_t chunk, shard;
        const char *codec;
        bool checksum;
    } ways[] = {
        {1, 2, "none", true}, {1, 2, "none", false}, {2, 4, "none", true},  {3, 0, "none", false},
        {3, 0, "none", true}, {1, 0, "none", false}, {7, 0, "none", false}, {2, 4, "zstd", false},
        {2, 0, "zstd", true}, {1, 7, "gzip", true},  {7, 7, "none", true},
    };
    packed p;

    begin(&p);
    for (size_t i = 0; i < STK_COUNT(ways); i++) {
        const int64_t chunk[] = {ways[i].chunk, SIDE, SIDE, 3};
        const int64_t shard[] = {ways[i].shard, SIDE, SIDE, 3};
        put_fixed(&p);
        put(&p, "image", STK_UINT8, 4, image_shape, chunk, ways[i].shard ? shard : NULL,
            ways[i].codec, ways[i].checksum, p.pictures);
        finish(&p, "{\"stoker_packed\": 1}");
        right(&p, "");
        right(&p, "slow+file://");
    }
    end(&p);
}

/* Labels of other integers, classes, and pictures that were left out. */
static void test_labels(void **state)
{
    static const uint8_t kept[ROWS] = {1, 0, 1, 1, 0, 1, 1};
    uint16_t small[ROWS];
    stk_dataset *d = NULL;
    stk_error err;
    packed p;

    begin(&p);
    put_fixed(&p);
    for (int i = 0; i < ROWS; i++)
        small[i] = (uint16_t)p.labels[i];
    put(&p, "label", STK_UINT16, 1, rows_shape, NULL, NULL, "zstd", false, small);
    finish(&p, "{\"classes\": [\"a\", \"b\"]}");
    right(&p, "");
    put(&p, "kept", STK_UINT8, 1, rows_shape, NULL, NULL, "none", false, kept);
    finish(&p, "{\"classes\": [\"a\", \"b\"]}");
    assert_ok(stk_dataset_open(p.ctx, p.spec, &d, &err), &err);
    assert_int_equal(d->size, 5);
    assert_int_equal(d->num_classes, 2);
    assert_string_equal(d->classes[1], "b");
    stk_dataset_close(&d);
    end(&p);
}

/* ---- What is wrong --------------------------------------------------------------------------- */

static void test_wrong_arrays(void **state)
{
    static const int64_t less[] = {ROWS - 1}, pairs[] = {ROWS, 2}, flat[] = {ROWS, SIDE, SIDE},
                         two[] = {ROWS, SIDE, SIDE, 2}, cut[] = {1, 2, SIDE, 3};
    static const float floats[ROWS * PIX];
    static const uint8_t none[ROWS * PIX];
    packed p;

    begin(&p);
    finish(&p, "{\"stoker_packed\": 1}");
    refused(&p, STK_EFORMAT, "the array 'image' is missing");
    put_fixed(&p);
    put(&p, "label", STK_INT64, 1, less, NULL, NULL, "none", false, p.labels);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'label' has not 1 for each of the 7 pictures");
    put(&p, "label", STK_INT64, 2, pairs, NULL, NULL, "none", false, p.pictures);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'label' has not 1 for each");
    put(&p, "label", STK_FLOAT32, 1, rows_shape, NULL, NULL, "none", false, floats);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'label' holds no integers");
    put_fixed(&p);
    put(&p, "kept", STK_UINT8, 1, rows_shape, NULL, NULL, "none", false, none);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'kept' says that no picture is sound");
    put(&p, "kept", STK_INT64, 1, rows_shape, NULL, NULL, "none", false, p.labels);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'kept' is of no uint8");
    put(&p, "kept", STK_UINT8, 1, rows_shape, NULL, NULL, "none", false, "\1\1\1\1\1\1\1");
    put(&p, "image", STK_FLOAT32, 4, image_shape, NULL, NULL, "none", false, floats);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'image' is no uint8 of [pictures");
    put(&p, "image", STK_UINT8, 3, flat, NULL, NULL, "none", false, none);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "'image' is no uint8 of [pictures");
    put(&p, "image", STK_UINT8, 4, two, NULL, NULL, "none", false, none);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "has not 1, 3 or 4 channels");
    put(&p, "image", STK_UINT8, 4, image_shape, cut, NULL, "none", false, p.pictures);
    finish(&p, NULL);
    refused(&p, STK_EFORMAT, "in chunks that cut pictures");
    put_fixed(&p);
    finish(&p, "{\"stoker_packed\": 2}");
    refused(&p, STK_EFORMAT, "a later version wrote it");
    finish(&p, "{\"classes\": [\"a\", 1]}");
    refused(&p, STK_EFORMAT, "entry 1 of the attribute 'classes'");
    finish(&p, NULL);
    snprintf(p.spec, sizeof p.spec, "images:%s?masks=x", p.folder);
    refused(&p, STK_EINVAL, "leave them out");
    end(&p);
}

/* Labels of a byte take eight in memory, and what is read another: asked for before. */
static void test_labels_in_memory(void **state)
{
    static uint8_t bytes[3 << 20];
    stk_context_options options;
    packed p;
    stk_error err;

    begin(&p);
    stk_context_destroy(&p.ctx);
    stk_context_options_init(&options);
    options.memory_limit = 64 << 20;
    assert_ok(stk_context_create(&options, &p.ctx, &err), &err);
    for (int64_t rows = 1 << 20; rows <= 3 << 20; rows += 2 << 20) {
        const int64_t shape[] = {rows, 1, 1, 1};
        put(&p, "image", STK_UINT8, 4, shape, NULL, NULL, "none", false, bytes);
        put(&p, "label", STK_UINT8, 1, shape, NULL, NULL, "none", false, bytes);
        finish(&p, NULL);
        stk_dataset *d = NULL;
        if (rows == 1 << 20)
            assert_ok(stk_dataset_open(p.ctx, p.spec, &d, &err), &err);
        else
            refused(&p, STK_EFORMAT, "'label' does not fit what is left of memory_limit");
        stk_dataset_close(&d);
    }
    end(&p);
}

/* A byte that fell over makes one sample bad. */
static void test_checksum(void **state)
{
    char path[400];
    stk_dataset *d = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options options;
    stk_error err;
    size_t size;
    packed p;

    begin(&p);
    put_fixed(&p);
    finish(&p, NULL);
    snprintf(path, sizeof path, "%s/image/c/1/0/0/0", p.folder);
    char *shard = test_load(path, &size);
    shard[5] ^= 1;
    snprintf(path, sizeof path, "%s/image/c/1/0/0", p.folder);
    test_write(path, "0", shard, size);
    free(shard);
    assert_ok(stk_dataset_open(p.ctx, p.spec, &d, &err), &err);
    stk_loader_options_init(&options);
    options.num_workers = 0;
    options.batch_size = ROWS;
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_ECHECKSUM, &err, "checksum");
    assert_int_equal(err.sample, 2);
    stk_loader_destroy(&loader);
    options.on_error = STK_ON_ERROR_SKIP;
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_count(batch), ROWS - 1);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    end(&p);
}

/* ---- Ragged ---------------------------------------------------------------------------------- */

#define TWO 2

static void put_ragged(packed *p, const int64_t *offsets, const int64_t *shapes, int64_t bytes,
                       int64_t chunk, const char *codec)
{
    static const int64_t rows[] = {TWO}, three[] = {TWO, 3};
    const int64_t all[] = {bytes}, chunks[] = {chunk};
    static uint8_t data[256];

    memset(data, 0, sizeof data);
    memcpy(data, "P6\n2 1\n255\nabcdef", 17);
    memcpy(data + 17, "P6\n1 3\n255\nabcdefghi", 20);
    put(p, "bytes", STK_UINT8, 1, all, chunks, NULL, codec, false, data);
    put(p, "offset", STK_INT64, 1, rows, NULL, NULL, "none", false, offsets);
    put(p, "shape", STK_INT64, 2, three, NULL, NULL, "none", false, shapes);
    put(p, "label", STK_INT64, 1, rows, NULL, NULL, "none", false, p->labels);
    finish(p, NULL);
}

static void test_ragged(void **state)
{
    static const int64_t right_shapes[] = {1, 2, 3, 3, 1, 3}, right_offsets[] = {11, 28};
    static const struct {
        int64_t offsets[2], shapes[6], bytes, chunk;
        const char *codec, *part;
    } wrong[] = {
        {{28, 11}, {3, 1, 3, 1, 2, 3}, 37, 37, "none", "'offset' begins within the picture before"},
        {{11, 20}, {1, 2, 3, 3, 1, 3}, 37, 37, "none", "of picture 1"},
        {{11, 29}, {1, 2, 3, 3, 1, 3}, 37, 37, "none", "beyond the end of 'bytes', of picture 1"},
        {{11, INT64_MAX}, {1, 2, 3, 3, 1, 3}, 37, 37, "none", "beyond the end"},
        {{-11, 28}, {1, 2, 3, 3, 1, 3}, 37, 37, "none", "of picture 0"},
        {{5, 28}, {1, 2, 3, 3, 1, 3}, 37, 37, "none", "of picture 0"},
        {{11, 28}, {1, 2, 3, 0, 1, 3}, 37, 37, "none", "'shape' has no height and width"},
        {{11, 28}, {1, 2, 1, 3, 1, 3}, 37, 37, "none", "'shape' has no height and width"},
        {{11, 28}, {INT64_MAX, 2, 3, 3, 1, 3}, 37, 37, "none", "or too large"},
        {{11, 28}, {65536, 65536, 3, 3, 1, 3}, 37, 37, "none", "or too large"},
        {{11, 28}, {1, 2, 3, 3, 1, 3}, 37, 30, "none", "from one chunk of 'bytes' to the next"},
        {{11, 28}, {1, 2, 3, 3, 1, 3}, 37, 37, "zstd", "compressed, or in shards"},
    };
    stk_loader_options options;
    stk_dataset *d = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor image = {.struct_size = sizeof image};
    stk_error err;
    packed p;

    begin(&p);
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        put_ragged(&p, wrong[i].offsets, wrong[i].shapes, wrong[i].bytes, wrong[i].chunk,
                   wrong[i].codec);
        refused(&p, STK_EFORMAT, wrong[i].part);
    }
    stk_loader_options_init(&options);
    options.num_workers = 0;
    options.batch_size = 2;
    options.transforms = "center_crop(1)";
    put_ragged(&p, right_offsets, right_shapes, 37, 37, "none");
    assert_ok(stk_dataset_open(p.ctx, p.spec, &d, &err), &err);
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
    assert_memory_equal(image.data, "abcdef", 6);
    assert_int_equal(d->block_size, 2);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    /* A shape that its head does not say is of a sample alone. */
    put_ragged(&p, right_offsets, (const int64_t[]){2, 1, 3, 3, 1, 3}, 37, 37, "none");
    assert_ok(stk_dataset_open(p.ctx, p.spec, &d, &err), &err);
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EFORMAT, &err,
                 "no PPM of the picture's shape");
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    end(&p);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Of a store in memory nothing is read: pictures lie where they were put. */
static void test_mapped(void **state)
{
    stk_context *ctx = test_context();
    stk_conversion *conversion = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(
        stk_conversion_create(ctx, "digits:?size=100", "mem://packed/x.zarr", &conversion, &err),
        &err);
    assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
    stk_conversion_destroy(&conversion);
    assert_ok(stk_dataset_open(ctx, "images:mem://packed/x.zarr", &d, &err), &err);
    samples *packed = samples_range(d, 0, 100);
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(ctx, "digits:?size=100", &d, &err), &err);
    samples *drawn = samples_range(d, 0, 100);
    assert_int_equal(packed->located, 0);
    for (int i = 0; i < 100; i++) {
        assert_memory_equal(packed->data[i], drawn->data[i], 28 * 28);
        assert_int_equal(packed->label[i], drawn->label[i]);
    }
    samples_free(packed);
    samples_free(drawn);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_and_codecs),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_wrong_arrays),
        cmocka_unit_test(test_labels_in_memory),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

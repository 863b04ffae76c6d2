/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets in zip archives are those of the folder that was packed: sizes, classes, every value. */
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "support/support.h"
#include "support/zips.h"

#define PICTURES 8

static void put_file(stk_store *store, const char *key, const char *file)
{
    char path[512], *data = malloc(1 << 20);
    stk_error err;

    snprintf(path, sizeof path, TESTS_DIR "/golden/%s", file);
    FILE *f = fopen(path, "rb");
    assert_true(f && data);
    const size_t size = fread(data, 1, 1 << 20, f);
    fclose(f);
    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    free(data);
}

static void put_idx(stk_store *store, const char *key, uint32_t rank)
{
    unsigned char data[16 + 20 * 36] = {0, 0, 8, (unsigned char)rank, 0, 0, 0, 20, 0, 0, 0, 6};
    const size_t head = 4 + 4 * rank, size = head + 20 * (rank == 3 ? 36 : 1);
    stk_error err;

    if (rank == 3)
        data[15] = 6;
    for (size_t i = head; i < size; i++)
        data[i] = (unsigned char)(i * 7 % 10);
    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
}

/* mem://d and two archives of it: mem://p/s.zip and mem://p/d.zip. */
static void fill(stk_context *ctx)
{
    static const char *const pictures[PICTURES] = {"base_410", "base_411", "base_420", "base_422",
                                                   "base_440", "base_444", "cmyk",     "comment"};
    stk_store *folder = NULL, *packed = NULL;
    char key[64], file[64];
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://d", &folder, NULL, 0, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://p", &packed, NULL, 0, &err), &err);
    for (int i = 0; i < PICTURES; i++) {
        snprintf(key, sizeof key, "photos/%s/%s.jpg", i % 3 ? "cat" : "dog 100%", pictures[i]);
        snprintf(file, sizeof file, "images/%s.jpg", pictures[i]);
        put_file(folder, key, file);
    }
    put_file(folder, "a.npy", "npy/picture.npy");
    put_idx(folder, "m/train-images-idx3-ubyte", 3);
    put_idx(folder, "m/train-labels-idx1-ubyte", 1);
    put_idx(folder, "e/emnist-letters-train-images-idx3-ubyte", 3);
    put_idx(folder, "e/emnist-letters-train-labels-idx1-ubyte", 1);
    zip_all(folder, packed, "s.zip", false);
    zip_all(folder, packed, "d.zip", true);
    stk_store_close(&folder);
    stk_store_close(&packed);
}

/* A sum of all that a loader gives of a dataset. */
static uint32_t sum_of(stk_context *ctx, const char *spec, const char *transforms, uint64_t *size,
                       uint64_t *fingerprint)
{
    stk_loader_options o;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_status status;
    uint32_t sum = 0;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 3;
    o.num_workers = 2;
    o.epochs = 1;
    o.seed = 7;
    o.transforms = transforms;
    if (stk_dataset_open(ctx, spec, &dataset, &err) != STK_OK)
        fail_msg("%s: %s", spec, err.text);
    *size = dataset->size;
    *fingerprint = dataset->fingerprint;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) != STK_EOS) {
        if (status != STK_OK)
            fail_msg("%s: %s", spec, err.text);
        stk_tensor t = {.struct_size = sizeof t};
        for (uint32_t i = 0; stk_batch_field(batch, i, &t) == STK_OK; i++) {
            uint64_t bytes = stk_dtype_size(t.dtype);
            for (uint32_t d = 0; d < t.rank; d++)
                bytes *= (uint64_t)t.shape[d];
            sum = sum * 31 + stk__crc32(t.data, bytes);
        }
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    return sum;
}

static void datasets_are_those_of_the_folder(void **state)
{
    static const struct {
        const char *kind, *path, *query, *transforms;
    } sets[] = {
        {"images:", "photos", "?index=none", "decode, resize(20), center_crop(16)"},
        {"images:", "photos", "", "decode, resize(20), center_crop(16)"},
        {"", "photos", "", "decode, resize(20), center_crop(16)"},
        {"npy:", "a.npy", "", NULL},
        {"mnist:", "m", "", NULL},
        {"", "m", "", NULL},
        /* Kinds that recognise nothing, too. */
        {"emnist:", "e", "?set=letters", NULL},
        {"tokens:", "m/train-images-idx3-ubyte", "?dtype=uint16&length=4", NULL},
    };
    static const char *const places[] = {"zip:mem://p/s.zip!",      "zip:mem://p/d.zip!",
                                         "zip:slow+mem://p/d.zip!", "slow+zip:mem://p/s.zip!",
                                         "mem://p/s.zip",           "mem://p/d.zip"};

    fill(*state);
    for (size_t s = 0; s < STK_COUNT(sets); s++) {
        uint64_t size, fingerprint, n, print;
        char spec[256];
        snprintf(spec, sizeof spec, "%smem://d/%s%s", sets[s].kind, sets[s].path, sets[s].query);
        const uint32_t sum = sum_of(*state, spec, sets[s].transforms, &size, &fingerprint);
        for (size_t p = 0; p < STK_COUNT(places); p++) {
            snprintf(spec, sizeof spec, "%s%s/%s%s", sets[s].kind, places[p], sets[s].path,
                     sets[s].query);
            if (sum_of(*state, spec, sets[s].transforms, &n, &print) != sum || n != size ||
                print != fingerprint)
                fail_msg("%s differs", spec);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(datasets_are_those_of_the_folder)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

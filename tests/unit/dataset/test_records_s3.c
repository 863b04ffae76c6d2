/* SPDX-License-Identifier: Apache-2.0 */
/* Record shards in a bucket, against the tests' web server: listed by folder and by brace, their
 * batches, order and state are those of the local ones. */
#include <xxhash.h>

#include "shards.h"
#include "support/http_server.h"

#define SAMPLES 96

typedef struct fixture {
    stk_context *ctx;
    http_server *server;
    char folder[256]; /* root of the server: the bucket is "bucket" in it */
} fixture;

/* Samples as shards of a format in the bucket. */
static void convert(fixture *f, const char *target)
{
    stk_conversion *conversion = NULL;
    char to[600], source[64];
    stk_error err;

    snprintf(source, sizeof source, "digits:?size=%d", SAMPLES);
    snprintf(to, sizeof to, target, f->folder);
    assert_ok(stk_conversion_create(f->ctx, source, to, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
    stk_conversion_destroy(&conversion);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    char stores[300];
    stk_error err;

    test_folder(f->folder);
    f->server = http_server_start(&(http_server_options){.root = f->folder, .seed = 1, .s3 = true});
    assert_non_null(f->server);
    snprintf(stores, sizeof stores, "s3(endpoint='%s', anonymous=true, allow_http=true)",
             http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, &f->ctx, &err), &err);
    convert(f, "webdataset:%s/bucket/wds?shard_size=64KiB");
    convert(f, "tfrecord:%s/bucket/tfr?shard_size=24KiB");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_context_destroy(&f->ctx);
    http_server_stop(&f->server);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

/* Values, offsets and positions of a whole epoch; the state behind it. */
static uint64_t hash_epoch(stk_dataset *d, int shuffle, stk_loader_state *behind)
{
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options o;
    uint64_t hash = 0, rows = 0;
    stk_status status;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 7;
    o.seed = 5;
    o.epochs = 1;
    o.num_workers = 2;
    o.shuffle = shuffle;
    o.memory_budget = 64 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor t = {.struct_size = sizeof t};
        for (uint32_t i = 0; stk_batch_field(batch, i, &t) == STK_OK; i++) {
            uint64_t bytes = stk_dtype_size(t.dtype);
            for (uint32_t k = 1; k < t.rank && !t.offsets; k++)
                bytes *= (uint64_t)t.shape[k];
            bytes *= t.offsets ? (uint64_t)t.offsets[t.shape[0]] : (uint64_t)t.shape[0];
            hash = XXH3_64bits_withSeed(t.data, bytes, hash);
            if (t.offsets)
                hash = XXH3_64bits_withSeed(t.offsets, ((size_t)t.shape[0] + 1) * 8, hash);
        }
        rows += stk_batch_count(batch);
        stk_batch_get_state(batch, behind);
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    assert_int_equal(rows, SAMPLES);
    stk_loader_destroy(&loader);
    return hash;
}

static stk_dataset *open_spec(fixture *f, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(f->ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, SAMPLES);
    return d;
}

static void check_same(fixture *f, const char *local, const char *remote)
{
    stk_loader_state a = {0}, b = {0};
    char spec[600];

    snprintf(spec, sizeof spec, local, f->folder);
    stk_dataset *here = open_spec(f, spec), *there = open_spec(f, remote);
    assert_int_equal(here->fingerprint, there->fingerprint);
    assert_int_equal(here->block_size, there->block_size);
    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        const uint64_t hash = hash_epoch(here, shuffle, &a);
        assert_true(hash_epoch(there, shuffle, &b) == hash);
        assert_memory_equal(&a, &b, sizeof a);
    }
    stk_dataset_close(&here);
    stk_dataset_close(&there);
}

static void test_webdataset(void **state)
{
    fixture *f = *state;

    check_same(f, "webdataset:%s/bucket/wds?index=none", "webdataset:s3://bucket/wds");
    check_same(f, "webdataset:%s/bucket/wds?index=none",
               "webdataset:s3://bucket/wds/shard-{000000..000003}.tar");
    check_same(f, "webdataset:%s/bucket/wds?index=none&fields=__key__,cls",
               "webdataset:s3://bucket/wds?fields=__key__,cls");
}

static void test_tfrecord(void **state)
{
    fixture *f = *state;
    char cached[400];

    check_same(f, "tfrecord:%s/bucket/tfr?index=none", "tfrecord:s3://bucket/tfr");
    check_same(f, "tfrecord:%s/bucket/tfr?index=none",
               "tfrecord:s3://bucket/tfr/shard-{000000..000003}.tfrecord");
    snprintf(cached, sizeof cached, "tfrecord:cache+s3://bucket/tfr?dir=%s/cache", f->folder);
    for (int again = 0; again < 2; again++)
        check_same(f, "tfrecord:%s/bucket/tfr?index=none", cached);
}

/* One of the braces that is not in the bucket is named. */
static void test_missing(void **state)
{
    fixture *f = *state;
    stk_dataset *d = NULL;
    stk_error err;

    assert_fails(
        stk_dataset_open(f->ctx, "webdataset:s3://bucket/wds/shard-{000000..000009}.tar", &d, &err),
        STK_ENOENT, &err, "of 10, 'shard-00000");
    assert_fails(stk_dataset_open(f->ctx, "tfrecord:s3://bucket/none", &d, &err), STK_ENOENT, &err,
                 "'none/' in the bucket 'bucket'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_webdataset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tfrecord, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

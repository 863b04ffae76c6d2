/* SPDX-License-Identifier: Apache-2.0 */
/* images: of s3: and gs:, against the tests' web server: the batches, order and state of the local
 * folder, in few rounds of requests; and a listing that is kept. */
#include <xxhash.h>

#include "images.h"
#include "support/http_server.h"

#define LATENCY_MS 20 /* requests that are sent at once come before the first is answered */
#define TRIES      7
#define FILES      40
#define STEPS      5

typedef struct fixture {
    stk_context *context;
    http_server *server;
    char
        folder[256]; /* root of the server: the bucket is "bucket" in it, with the folder "train" */
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    char stores[512], name[64], content[64];
    stk_context_options options;
    stk_error err;

    test_folder(f->folder);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "bucket/train/%s/%02d.jpg", i % 3 ? "dog" : "cat", i);
        snprintf(content, sizeof content, "%.*s of %d", i % 7 + 1, "picture", i);
        images_write(f->folder, name, content);
    }
    images_write(f->folder, "bucket/train/dog/notes.txt", "none");
    f->server = http_server_start(&(http_server_options){.root = f->folder, .seed = 1, .s3 = true});
    assert_non_null(f->server);
    http_server_shape(f->server, LATENCY_MS, 0, 0);
    snprintf(stores, sizeof stores,
             "s3(endpoint='%s', anonymous=true, allow_http=true), "
             "gs(endpoint='%s', anonymous=true, allow_http=true)",
             http_server_url(f->server), http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_context_destroy(&f->context);
    http_server_stop(&f->server);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

static stk_dataset *open_spec(fixture *f, const char *spec)
{
    stk_dataset *dataset = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(f->context, spec, &dataset, &err), &err);
    return dataset;
}

static stk_loader *open_loader(stk_dataset *dataset)
{
    stk_loader_options o;
    stk_loader *loader = NULL;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = FILES / STEPS;
    o.seed = 7;
    o.epochs = 1;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    return loader;
}

/* Values and places of all fields of the next batch; *state is that behind it. */
static uint64_t hash_next(stk_loader *loader, stk_loader_state *state)
{
    stk_batch *batch = NULL;
    uint64_t hash = 0;
    stk_error err;

    assert_ok(stk_loader_next(loader, 30000, &batch, &err), &err);
    stk_tensor t = {.struct_size = sizeof t};
    for (uint32_t i = 0; stk_batch_field(batch, i, &t) == STK_OK; i++) {
        uint64_t bytes = stk_dtype_size(t.dtype);
        for (uint32_t d = 1; d < t.rank && !t.offsets; d++)
            bytes *= (uint64_t)t.shape[d];
        bytes *= t.offsets ? t.offsets[t.shape[0]] : (uint64_t)t.shape[0];
        hash = XXH3_64bits_withSeed(t.data, bytes, hash);
        if (t.offsets)
            hash = XXH3_64bits_withSeed(t.offsets, ((size_t)t.shape[0] + 1) * 8, hash);
    }
    stk_batch_get_state(batch, state);
    stk_batch_release(&batch);
    return hash;
}

static void test_same_as_local(void **state)
{
    static const char *const urls[] = {"images:s3://bucket/train/", "images:gs://bucket/train/",
                                       "images:s3://bucket/train"};
    fixture *f = *state;
    stk_loader_state behind[STEPS], got;
    uint64_t hashes[STEPS];
    char spec[400];
    stk_error err;

    snprintf(spec, sizeof spec, "images:%s/bucket/train?index=none", f->folder);
    stk_dataset *local = open_spec(f, spec);
    stk_loader *loader = open_loader(local);
    for (int i = 0; i < STEPS; i++)
        hashes[i] = hash_next(loader, &behind[i]);
    stk_loader_destroy(&loader);
    for (size_t u = 0; u < STK_COUNT(urls); u++) {
        stk_dataset *remote = open_spec(f, urls[u]);
        assert_int_equal(remote->fingerprint, local->fingerprint);
        assert_int_equal(remote->num_classes, 2);
        assert_string_equal(remote->classes[1], "dog");
        loader = open_loader(remote);
        for (int i = 0; i < STEPS; i++) {
            assert_true(hash_next(loader, &got) == hashes[i]);
            assert_memory_equal(&got, &behind[i], sizeof got);
        }
        stk_loader_destroy(&loader);
        /* What a local run has begun goes on here, and the other way round. */
        loader = open_loader(remote);
        assert_ok(stk_loader_restore(loader, &behind[1], &err), &err);
        assert_true(hash_next(loader, &got) == hashes[2]);
        stk_loader_destroy(&loader);
        loader = open_loader(local);
        assert_ok(stk_loader_restore(loader, &got, &err), &err);
        assert_true(hash_next(loader, &got) == hashes[3]);
        stk_loader_destroy(&loader);
        stk_dataset_close(&remote);
    }
    stk_dataset_close(&local);
}

/* The list of the folder, those of the classes, the pictures. */
static void test_rounds(void **state)
{
    fixture *f = *state;
    stk_loader_state behind;

    http_counters c = {.rounds = UINT64_MAX};

    /* What is sent at once may come one after the other where the machine is busy: the chain
     * counts before a server that waits long enough. */
    for (int i = 0; i < TRIES && c.rounds > 3; i++) {
        http_server_shape(f->server, LATENCY_MS << i, 0, 0);
        http_server_reset_counters(f->server);
        stk_dataset *remote = open_spec(f, "images:s3://bucket/train/");
        stk_loader *loader = open_loader(remote);
        (void)hash_next(loader, &behind);
        c = http_server_counters(f->server);
        stk_loader_destroy(&loader);
        stk_dataset_close(&remote);
    }
    assert_true(c.rounds <= 3);
    assert_int_equal(c.lists, 3);
    assert_int_equal(c.heads, 0);
}

static void check_open(fixture *f, const char *spec, const char *use, uint64_t size, uint64_t lists)
{
    http_server_reset_counters(f->server);
    stk_dataset *d = open_spec(f, spec);
    images_check_line(d, "index", use);
    assert_int_equal(d->size, size);
    assert_int_equal(http_server_counters(f->server).lists, lists);
    stk_dataset_close(&d);
}

/* A listing that is kept is believed as long as it is young, and of the folder that it is of. */
static void test_index(void **state)
{
    fixture *f = *state;
    char young[512], old[600], other[512], cached[512];

    snprintf(young, sizeof young, "images:s3://bucket/train/?index=%s/x.index", f->folder);
    snprintf(old, sizeof old, "%s&index_age=0", young);
    snprintf(other, sizeof other, "images:s3://bucket/train/dog/?index=%s/x.index", f->folder);
    snprintf(cached, sizeof cached, "images:cache+s3://bucket/train/?dir=%s/cache", f->folder);
    check_open(f, "images:s3://bucket/train/", "none", FILES, 3);
    check_open(f, young, "written", FILES, 3);
    check_open(f, young, "younger", FILES, 0);
    images_write(f->folder, "bucket/train/dog/99.jpg", "new");
    check_open(f, young, "younger", FILES, 0);
    check_open(f, old, "written", FILES + 1, 3);
    check_open(f, young, "younger", FILES + 1, 0);
    check_open(f, other, "written", 27, 1);
    check_open(f, young, "written", FILES + 1, 3);
    /* Behind a cache its folder has it. */
    mkdir((snprintf(other, sizeof other, "%s/cache", f->folder), other), 0777);
    check_open(f, cached, "written", FILES + 1, 3);
    check_open(f, cached, "younger", FILES + 1, 0);
}

/* Reads hold to what was listed: a picture that is another one now is an error, and none of both.
 */
static void test_changed(void **state)
{
    static const char *const queries[] = {"", "?index="};
    fixture *f = *state;
    char spec[512];

    for (size_t i = 0; i < STK_COUNT(queries); i++) {
        snprintf(spec, sizeof spec, "images:s3://bucket/train/%s%s%s", queries[i],
                 i ? f->folder : "", i ? "/y.index" : "");
        for (int again = 0; again <= (int)i; again++) {
            images_write(f->folder, "bucket/train/cat/00.jpg", "p of 0");
            stk_dataset *d = open_spec(f, spec);
            taken t;
            images_take(d, 0, &t);
            if (!again) {
                assert_int_equal(t.status, STK_OK);
            } else {
                images_check_line(d, "index", "younger");
                assert_int_equal(t.status, STK_ECHANGED);
            }
            images_write(f->folder, "bucket/train/cat/00.jpg", "another of more bytes");
            images_take(d, 0, &t);
            assert_int_equal(t.status, STK_ECHANGED);
            stk_dataset_close(&d);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_as_local, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

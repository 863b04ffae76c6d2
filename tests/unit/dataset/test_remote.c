/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets in a store of another machine: how many requests follow each other until the first batch
 * is there, as the server counts them. */
#include "golden/array/pack.h"
#include "support/http_server.h"
#include "unit/dataset/windows.h"

#include <unistd.h>

#define LATENCY_MS 20 /* requests that are sent at once come before the first is answered */
#define TRIES      7
#define ROUNDS     3

typedef struct fixture {
    stk_context *context;
    http_server *server;
    char folder[256];
} fixture;

typedef struct copying {
    stk_store *store;
    http_server *server;
    const char *name;
} copying;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->context = test_context();
    test_folder(f->folder);
    f->server = http_server_start(&(http_server_options){.root = f->folder, .seed = 1});
    assert_non_null(f->server);
    http_server_shape(f->server, LATENCY_MS, 0, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    http_server_stop(&f->server);
    stk_context_destroy(&f->context);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

/* The files of a pack as those of the server: "/NAME/KEY". */
static stk_status copy_file(void *user, const char *key, const stk_object_info *info)
{
    copying *c = user;
    char path[512];
    stk_error err;

    if (info->is_folder)
        return stk_store_list(c->store, key, NULL, copy_file, user, NULL);
    char *data = malloc(info->size + 1);
    assert_non_null(data);
    assert_ok(stk_store_read(c->store, key, 0, info->size, data, &err), &err);
    snprintf(path, sizeof path, "/%s/%s", c->name, key);
    assert_true(http_server_put(c->server, path, data, info->size));
    free(data);
    return STK_OK;
}

static void copy_pack(fixture *f, const char *name)
{
    stk_context *own = test_context();
    copying c = {.server = f->server, .name = name};
    stk_error err;

    pack_load(own, name, &c.store);
    assert_ok(stk_store_list(c.store, "", NULL, copy_file, &c, &err), &err);
    stk_store_close(&c.store);
    stk_context_destroy(&own);
}

/* From nothing to the first batch of "array:.../REST", once: the bytes are those of `expected`. */
static http_counters deliver(fixture *f, const char *rest, const stk_tensor *expected)
{
    stk_tensor got = {.struct_size = sizeof got};
    stk_loader_options o;
    char spec[512];

    stk_loader_options_init(&o);
    o.batch_size = 4;
    snprintf(spec, sizeof spec, "array:%s/%s", http_server_url(f->server), rest);
    http_server_reset_counters(f->server);
    stk_dataset *dataset = open_windows(f->context, spec);
    delivery d = first_batch(dataset, &o);
    const http_counters c = http_server_counters(f->server);
    field_of(&d, "data", &got);
    size_t bytes = stk_dtype_size(expected->dtype);
    for (uint32_t i = 0; i < expected->rank; i++) {
        assert_int_equal(got.shape[i], expected->shape[i]);
        bytes *= (size_t)expected->shape[i];
    }
    assert_memory_equal(got.data, expected->data, bytes);
    close_batch(&d);
    stk_dataset_close(&dataset);
    return c;
}

/* The same, with the figures of the server. Requests that are sent at once may come one after the
 * other where the machine is busy: the chain counts before a server that waits long enough. */
static http_counters until_batch(fixture *f, const char *rest)
{
    stk_tensor expected = {.struct_size = sizeof expected};
    stk_loader_options o;
    char spec[512];

    stk_loader_options_init(&o);
    o.batch_size = 4;
    snprintf(spec, sizeof spec, "array:%s/%s", f->folder, rest);
    stk_dataset *dataset = open_windows(f->context, spec);
    delivery d = first_batch(dataset, &o);
    field_of(&d, "data", &expected);
    assert_int_equal(expected.shape[0], 4);
    http_counters c = deliver(f, rest, &expected);
    for (int i = 1; i < TRIES && c.rounds > ROUNDS; i++) {
        http_server_shape(f->server, LATENCY_MS << i, 0, 0);
        c = deliver(f, rest, &expected);
    }
    http_server_shape(f->server, LATENCY_MS, 0, 0);
    assert_true(c.rounds <= ROUNDS);
    close_batch(&d);
    stk_dataset_close(&dataset);
    return c;
}

static void make(fixture *f, const char *name, bool sharded)
{
    made a = {STK_FLOAT32, {16, 32, 32}, {2, 16, 32}, {0}, NULL, NULL, NULL};
    char path[512];

    if (sharded)
        memcpy(a.shard, (int64_t[]){8, 32, 32}, sizeof a.shard);
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    make_array(f->context, path, &a);
}

/* The file of a chunk of an array that make() made. */
static void chunk_file(const fixture *f, const char *array, const char *chunk, char path[512])
{
    snprintf(path, 512, "%s/%s/c/%s", f->folder, array, chunk);
    assert_int_equal(access(path, R_OK), 0);
}

/* Metadata, chunks: their reads say how long they are, and which there are not. */
static void test_chunks(void **state)
{
    fixture *f = *state;
    char path[512];

    make(f, "plain.zarr", false);
    http_counters c = until_batch(f, "plain.zarr?range=time:0:4");
    assert_int_equal(c.heads, 0);
    assert_int_equal(c.requests, 5 + 4);
    chunk_file(f, "plain.zarr", "1/0/0", path);
    assert_int_equal(unlink(path), 0);
    c = until_batch(f, "plain.zarr?range=time:0:4");
    assert_int_equal(c.heads, 0);
    assert_int_equal(c.requests, 5 + 4);
}

/* Requests of two epochs of windows that are a chunk each, one of which is not there. */
static uint64_t two_epochs(stk_dataset *dataset, http_server *server, stk_cache_mode cache)
{
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options o;
    uint64_t rows = 0;
    stk_status status;
    stk_error err;

    stk_loader_options_init(&o);
    o.batch_size = 1;
    o.cache = cache;
    o.shuffle = STK_SHUFFLE_FULL;
    http_server_reset_counters(server);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    for (uint32_t ends = 0; ends < 2;) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) { /* the next takes nothing of it but what a cache has */
            assert_ok(stk_loader_set_epoch(loader, ++ends, &err), &err);
            continue;
        }
        assert_ok(status, &err);
        rows += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    assert_int_equal(rows, 2 * 16);
    assert_int_equal(http_server_counters(server).heads, 0);
    return http_server_counters(server).requests;
}

/* A request for each chunk and epoch, and none for what a cache of the loader has: whatever it
 * keeps of chunks whose length was not known. */
static void test_epochs(void **state)
{
    fixture *f = *state;
    char spec[512], path[512];

    make(f, "plain.zarr", false);
    chunk_file(f, "plain.zarr", "3/1/0", path);
    assert_int_equal(unlink(path), 0);
    snprintf(spec, sizeof spec, "array:%s/plain.zarr?window=2x16x32&stride=2x16x32",
             http_server_url(f->server));
    stk_dataset *dataset = open_windows(f->context, spec);
    /* Chunks that may be wanted again stay where there is room. */
    assert_in_range(two_epochs(dataset, f->server, STK_CACHE_NONE), 16, 32);
    assert_int_equal(two_epochs(dataset, f->server, STK_CACHE_ENCODED), 16);
    assert_int_equal(two_epochs(dataset, f->server, STK_CACHE_DECODED), 16);
    stk_dataset_close(&dataset);
}

/* A chunk that was read and then goes is not taken for one that never was. */
static void test_vanished_chunk(void **state)
{
    fixture *f = *state;
    char spec[512], path[512];
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options o;
    stk_error err;

    make(f, "plain.zarr", false);
    snprintf(spec, sizeof spec, "array:%s/plain.zarr?window=16x32x32", http_server_url(f->server));
    stk_dataset *dataset = open_windows(f->context, spec);
    stk_loader_options_init(&o);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    chunk_file(f, "plain.zarr", "3/1/0", path);
    assert_int_equal(unlink(path), 0);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_ECHANGED, &err, "3/1/0");
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static stk_status read_array(fixture *f, const char *url, float *to, stk_error *err)
{
    stk_array *array = NULL;

    STK_TRY(stk_array_open(f->context, url, NULL, &array, err));
    http_server_reset_counters(f->server);
    const stk_status status =
        stk_array_read(array, NULL, to, 16 * 32 * 32 * sizeof *to, NULL, -1, err);
    stk_array_close(&array);
    return status;
}

/* An array that is read whole asks for each chunk once, too. */
static void test_whole(void **state)
{
    static float local[16 * 32 * 32], remote[16 * 32 * 32];
    fixture *f = *state;
    char url[512], path[512];
    stk_error err;

    make(f, "plain.zarr", false);
    chunk_file(f, "plain.zarr", "3/1/0", path);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/plain.zarr", f->folder);
    assert_ok(read_array(f, path, local, &err), &err);
    snprintf(url, sizeof url, "%s/plain.zarr", http_server_url(f->server));
    assert_ok(read_array(f, url, remote, &err), &err);
    assert_memory_equal(remote, local, sizeof local);
    const http_counters c = http_server_counters(f->server);
    assert_int_equal(c.heads, 0);
    assert_int_equal(c.requests, 16);
}

/* What is longer than any encoder makes of a chunk is not read to its end. */
static void test_endless_chunk(void **state)
{
    static float values[16 * 32 * 32];
    static const char zeros[1 << 20];
    fixture *f = *state;
    char url[512], path[512];
    stk_error err;

    make(f, "plain.zarr", false);
    chunk_file(f, "plain.zarr", "0/0/0", path);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(zeros, 1, sizeof zeros, file), sizeof zeros);
    assert_int_equal(fclose(file), 0);
    snprintf(url, sizeof url, "%s/plain.zarr", http_server_url(f->server));
    assert_fails(read_array(f, url, values, &err), STK_EFORMAT, &err, "longer than a chunk");
    snprintf(url, sizeof url, "array:%s/plain.zarr", http_server_url(f->server));
    stk_dataset *dataset = open_windows(f->context, url);
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    assert_ok(stk_loader_create(dataset, NULL, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EFORMAT, &err,
                 "longer than a chunk");
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

/* Metadata, the end of each shard, chunks: how long a shard is comes with its end. */
static void test_shards(void **state)
{
    fixture *f = *state;

    make(f, "sharded.zarr", true);
    http_counters c = until_batch(f, "sharded.zarr?range=time:0:4");
    assert_int_equal(c.heads, 0);
    assert_int_equal(c.requests, 5 + 1 + 1);
    c = until_batch(f, "sharded.zarr?range=time:6:10");
    assert_int_equal(c.heads, 0);
    assert_int_equal(c.requests, 5 + 2 + 2);
}

/* What zarr-python consolidated, of both versions: one round for all metadata. */
static void test_groups(void **state)
{
    static const char *const packs[] = {"group_v2", "group_v3"};
    fixture *f = *state;

    for (size_t i = 0; i < STK_COUNT(packs); i++) {
        char rest[128];
        copy_pack(f, packs[i]);
        snprintf(rest, sizeof rest, "%s/consolidated/?variables=t2m", packs[i]);
        const http_counters c = until_batch(f, rest);
        assert_int_equal(c.heads, 0); /* chunks are stored as they are: their sizes are known */
    }
}

/* The first and the last bytes of a file come with the look at it, and hold its structure. */
static void test_netcdf(void **state)
{
    static const char *const specs[] = {"hdf5_chunks/files/masks_new.h5/masks?window=1x9x7",
                                        "hdf5_chunks/files/masks_old.h5/masks?window=1x9x7"};
    fixture *f = *state;

    copy_pack(f, "hdf5_chunks");
    for (size_t i = 0; i < STK_COUNT(specs); i++)
        assert_int_equal(until_batch(f, specs[i]).heads, 0);
}

/* What was seen is not believed beyond the opening: each sees the object as it is then. */
static void test_seen_anew(void **state)
{
    fixture *f = *state;
    char from[512], to[512], url[512];
    stk_array *array = NULL;
    stk_error err;

    make(f, "a.zarr", false);
    snprintf(url, sizeof url, "%s/a.zarr", http_server_url(f->server));
    assert_ok(stk_array_open(f->context, url, NULL, &array, &err), &err);
    stk_array_close(&array);
    snprintf(from, sizeof from, "%s/a.zarr", f->folder);
    snprintf(to, sizeof to, "%s/b.zarr", f->folder);
    assert_int_equal(rename(from, to), 0);
    assert_fails(stk_array_open(f->context, url, NULL, &array, &err), STK_EFORMAT, &err,
                 "holds no array");
    assert_int_equal(rename(to, from), 0);
    assert_ok(stk_array_open(f->context, url, NULL, &array, &err), &err);
    stk_array_close(&array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_chunks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_epochs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vanished_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endless_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_netcdf, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen_anew, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

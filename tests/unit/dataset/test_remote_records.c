/* SPDX-License-Identifier: Apache-2.0 */
/* Record shards behind HTTP: what opening them fetches, where their index lies, what is missing. */
#include "shards.h"
#include "support/http_server.h"

#define MEMBER  (4u << 20) /* bytes, further than a scan reads on */
#define MEMBERS 4

static char folder[256];
static stk_context *ctx;
static http_server *server;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    server = http_server_start(&(http_server_options){.root = folder, .seed = 1});
    assert_non_null(server);
    return 0;
}

static int end(void **state)
{
    http_server_stop(&server);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
    return 0;
}

/* A shard of large members, and one label each. */
static void put_shard(const char *path)
{
    unsigned char *data = calloc(1, MEMBER);
    tar_bytes t = {NULL, 0};

    assert_non_null(data);
    for (int i = 0; i < MEMBERS; i++) {
        char name[128], text[16];
        snprintf(name, sizeof name, "%d.bin", i);
        tar_file(&t, name, data, MEMBER);
        snprintf(name, sizeof name, "%d.cls", i);
        snprintf(text, sizeof text, "%d", i);
        shard_text(&t, name, text);
    }
    tar_end(&t);
    assert_true(http_server_put(server, path, t.data, t.size));
    free(t.data);
    free(data);
}

static stk_status open_at(const char *prefix, const char *rest, stk_dataset **out, stk_error *err)
{
    char spec[900];

    snprintf(spec, sizeof spec, "webdataset:%s%s/%s", prefix, http_server_url(server), rest);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

/* Far members are skipped: what is fetched is a small part of the shard. */
static void test_bytes(void **state)
{
    stk_dataset *d = NULL;
    stk_error err;

    put_shard("/a.tar");
    http_server_reset_counters(server);
    assert_ok(open_at("", "a.tar", &d, &err), &err);
    assert_int_equal(d->size, MEMBERS);
    const http_counters c = http_server_counters(server);
    if (c.bytes_sent > MEMBER)
        fail_msg("%llu bytes were fetched to open a shard", (unsigned long long)c.bytes_sent);
    stk_dataset_close(&d);
}

/* The index lies in the folder of the cache: from it a shard is opened without its headers. */
static void test_index(void **state)
{
    char rest[600];
    stk_dataset *d = NULL;
    stk_error err;

    /* A file of an hour ago: younger ones are scanned once more. */
    shard_numbers(folder, "b.tar", 0, 5);
    snprintf(rest, sizeof rest, "b.tar?dir=%s/cache", folder);
    for (int again = 0; again < 2; again++) {
        assert_ok(open_at("cache+", rest, &d, &err), &err);
        shard_check_line(d, "index", again ? "used" : "written");
        shard_check_number(d, 3, 3);
        stk_dataset_close(&d);
    }
}

static void test_missing_and_short(void **state)
{
    unsigned char cut[2048] = {0};
    tar_bytes t = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    put_shard("/c-0.tar");
    assert_fails(open_at("", "c-{0,1}.tar?index=none", &d, &err), STK_ENOENT, &err,
                 "shard 2 of 2, 'c-1.tar', is not there");
    shard_text(&t, "a.txt", "x");
    memcpy(cut, t.data, t.size);
    free(t.data);
    assert_true(http_server_put(server, "/c-1.tar", cut, 1024));
    assert_fails(open_at("", "c-{0,1}.tar?index=none", &d, &err), STK_ETRUNCATED, &err,
                 "c-1.tar, record 0, byte 1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_missing_and_short),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Archives that are unpacked behind a download: interrupted, damaged, and such that attack. */
#include "downloads.h"

static const char *const wanted_names[] = {"one", "two", NULL};

/* Download and unpack it into a new folder. */
static stk_status unpack(room *r, const char *key, const char *sum, const stk__file_calls *calls,
                         stk_error *err)
{
    char from[64];
    const stk__published of = {.kind = "made_up",
                               .folder = "",
                               .mirrors = {from},
                               .files = {{"a.tar.gz", sum}},
                               .unpacked = "d",
                               .names = wanted_names};
    snprintf(from, sizeof from, "mem://published/%s", key);
    stk_error_init(err);
    if (!calls)
        return stk__published_get(r->ctx, &of, r->url, NULL, never_there, NULL, err);
    stk__download d = {.context = r->ctx, .of = &of, .calls = calls};
    STK_TRY(stk__download_open(&d, r->url, err));
    stk_status status = stk__download_fetch(&d, 0, err);
    if (status == STK_OK)
        status = stk__download_unpack(&d, err);
    stk__download_close(&d);
    return status;
}

/* A room with a whole archive at mem://published/good. */
static void room_open_good(room *r, char sum[STK__MD5_TEXT])
{
    tar_bytes t = {NULL, 0};

    room_open(r);
    tar_head(&t, "d/", '5', 0);
    tar_file(&t, "d/readme~", "not wanted", 10);
    tar_file(&t, "d/one", r->data, 2000000);
    tar_head(&t, "d/deep/", '5', 0);
    tar_file(&t, "d/deep/one", "not wanted", 10);
    tar_file(&t, "d/two", "2", 1);
    tar_end(&t);
    publish(r, "good", &t, sum);
}

static void assert_file(const room *r, const char *name, const void *data, size_t size)
{
    char path[400];
    unsigned char *got = malloc(size + 1);

    assert_non_null(got);
    snprintf(path, sizeof path, "%s/%s", r->url, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, size + 1, f), size);
    fclose(f);
    assert_memory_equal(got, data, size);
    free(got);
}

static void assert_unpacked(const room *r)
{
    assert_file(r, "d/one", r->data, 2000000);
    assert_file(r, "d/two", "2", 1);
    assert_false(exists(r, "d/readme~"));
    assert_false(exists(r, "d/deep"));
}

/* The files that are wanted, as they are; those that are there stay. */
static void test_unpack(void **state)
{
    char sum[STK__MD5_TEXT], path[400];
    stk_error err;
    room r;

    room_open_good(&r, sum);
    assert_ok(unpack(&r, "good", sum, NULL, &err), &err);
    assert_unpacked(&r);
    assert_true(exists(&r, "a.tar.gz"));
    /* The archive is looked at only where something is missing. */
    snprintf(path, sizeof path, "%s/a.tar.gz", r.url);
    assert_int_equal(truncate(path, 1000), 0);
    assert_ok(unpack(&r, "good", sum, NULL, &err), &err);
    snprintf(path, sizeof path, "%s/d/two", r.url);
    assert_int_equal(unlink(path), 0);
    assert_fails(unpack(&r, "good", sum, NULL, &err), STK_ECHECKSUM, &err, "remove it");
    assert_non_null(strstr(err.text, sum));
    assert_false(exists(&r, "d/two"));
    assert_true(exists(&r, "a.tar.gz"));
    snprintf(path, sizeof path, "%s/a.tar.gz", r.url);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/d/one", r.url);
    assert_int_equal(truncate(path, 0), 0);
    assert_ok(unpack(&r, "good", sum, NULL, &err), &err);
    assert_file(&r, "d/one", "", 0);
    assert_file(&r, "d/two", "2", 1);
    room_close(&r);
}

/* Interrupted by a disk that is full after so many bytes, it goes on. */
static void test_unpack_full_disk(void **state)
{
    const stk__file_calls calls = disk_calls();
    char sum[STK__MD5_TEXT];
    stk_error err;
    room r;

    room_open_good(&r, sum);
    for (uint64_t bytes = 0; bytes <= 2000000; bytes += 1000000) {
        room_clear(&r);
        assert_fails(unpack(&r, "none", sum, NULL, &err), STK_ENOENT, &err, "");
        disk.room = UINT64_MAX;
        stk__published of = {.kind = "made_up",
                             .folder = "",
                             .mirrors = {"mem://published/good"},
                             .files = {{"a.tar.gz", sum}}};
        assert_ok(stk__published_get(r.ctx, &of, r.url, NULL, never_there, NULL, &err), &err);
        disk.room = bytes;
        assert_fails(unpack(&r, "good", sum, &calls, &err), STK_ENOSPC, &err,
                     bytes < 2000000 ? "d/one" : "d/two");
        assert_int_equal(exists(&r, "d/one"), bytes == 2000000);
        assert_false(exists(&r, "d/two"));
        disk.room = UINT64_MAX;
        assert_ok(unpack(&r, "good", sum, &calls, &err), &err);
        assert_unpacked(&r);
    }
    room_close(&r);
}

/* Archives that want to be elsewhere, or to be much: nothing is written but what is wanted. */
static void test_attacks(void **state)
{
    static const struct {
        const char *name;
        char type;
        uint64_t size;
        stk_status status;
        const char *part;
    } cases[] = {
        {"d/../../outside", '0', 0, STK_EFORMAT, "does not lie below"},
        {"/tmp/outside", '0', 0, STK_EFORMAT, "does not lie below"},
        {"outside", '0', 0, STK_EFORMAT, "does not lie in 'd'"},
        {"da/one", '0', 0, STK_EFORMAT, "does not lie in 'd'"},
        {"d", '0', 0, STK_EFORMAT, "does not lie in 'd'"},
        {"d/one", '2', 0, STK_EKIND, "neither a file nor a folder"},
        {"d/one", '1', 0, STK_EKIND, "neither a file nor a folder"},
        {"d/one", '6', 0, STK_EKIND, "neither a file nor a folder"},
        {"d/pax", 'x', 0, STK_EKIND, "extended headers"},
        {"d/one", '0', UINT64_C(2) << 30, STK_ELIMIT, "unpacks to more"},
        {"d/other", '0', UINT64_C(2) << 30, STK_ELIMIT, "unpacks to more"},
        {"d/one", '0', 5000, STK_ETRUNCATED, "it ends"},
    };
    char sum[STK__MD5_TEXT];
    stk_error err;
    room r;

    room_open(&r);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        tar_bytes t = {NULL, 0};
        room_clear(&r);
        const size_t at = tar_head(&t, cases[i].name, cases[i].type, cases[i].size);
        memcpy(t.data + at + 157, "../outside", 10);
        tar_sum(t.data + at);
        tar_end(&t);
        publish(&r, "bad", &t, sum);
        assert_fails(unpack(&r, "bad", sum, NULL, &err), cases[i].status, &err, cases[i].part);
        assert_false(exists(&r, "d/one"));
        assert_false(exists(&r, "outside"));
        assert_false(exists(&r, "../outside"));
    }
    /* Many entries. */
    tar_bytes t = {NULL, 0};
    room_clear(&r);
    for (int i = 0; i < 4097; i++)
        tar_head(&t, "d/x", '0', 0);
    tar_end(&t);
    publish(&r, "many", &t, sum);
    assert_fails(unpack(&r, "many", sum, NULL, &err), STK_ELIMIT, &err, "or 4096 files");
    /* A folder in the place of a link that leads away, and an archive without what is wanted. */
    room_clear(&r);
    tar_file(&t, "d/one", "1", 1);
    tar_end(&t);
    publish(&r, "half", &t, sum);
    assert_fails(unpack(&r, "half", sum, NULL, &err), STK_ENOENT, &err, "holds no 'd/two'");
    room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_unpack_full_disk),
        cmocka_unit_test(test_attacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files in an object of another store: URLs, folders, reads of parts, and objects that change. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "codec/codec.h"
#include "store/store.h"
#include "store/url.h"
#include "support/changed.h"
#include "support/over_mem.h"
#include "support/support.h"
#include "support/zips.h"

#define TWO 900 /* bytes of b/c/two.txt */

/* mem: whose reads are counted. */
static stk_store_ops counted;
static atomic_int reads;

static stk_status counted_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    return test_open_over_mem(&counted, ctx, url, out, err);
}

static stk_status counted_submit(stk_store *store, stk_read *read)
{
    reads++;
    return stk__store_mem.submit(store, read);
}

/* A context with mem://z, which holds archives. */
typedef struct fixture {
    stk_context *ctx;
    stk_store *mem;
    unsigned char two[TWO];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_store *store = NULL;
    stk_error err;

    f->ctx = test_context();
    counted = stk__store_mem;
    counted.name = "counted";
    counted.open = counted_open;
    counted.submit = counted_submit;
    counted.map = NULL;
    assert_ok(stk_driver_add(f->ctx, STK_DRIVER_STORE, &counted, &err), &err);
    assert_ok(stk_store_open(f->ctx, "mem://z", &f->mem, NULL, 0, &err), &err);
    zip_put(f->mem, "s.zip", "stored");
    zip_put(f->mem, "d.zip", "deflated");
    zip_put(f->mem, "m.zip", "mixed");
    zip_put(f->mem, "a%b.zip", "stored");
    assert_ok(stk_store_open(f->ctx, "zip:mem://z/s.zip!/", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_read(store, "b/c/two.txt", 0, TWO, f->two, &err), &err);
    stk_store_close(&store);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_store_close(&f->mem);
    stk_context_destroy(&f->ctx);
    free(f);
    return 0;
}

/* ---- URLs ---- */

static void urls_are_taken_apart(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *url;
        size_t object;
        const char *path, *query;
    } cases[] = {
        {"zip:x.zip!/a/b", 7, "x.zip!/a/b", NULL},
        {"zip:x.zip!/a!/b?q=1", 7, "x.zip!/a!/b", "q=1"},
        {"zip:x.zip?q=a!/b", 0, "x.zip", "q=a!/b"},
        {"zip:zip:x.zip!/y.zip!/a", 18, "zip:x.zip!/y.zip!/a", NULL},
        {"zip:zip:x.zip!/y.zip", 0, "zip:x.zip!/y.zip", NULL},
        {"slow+zip:slow+mem://x!/a", 14, "slow+mem://x!/a", NULL},
        {"mem://x!/a", 0, "//x!/a", NULL},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__url url;
        stk__url_scan(f->ctx, cases[i].url, &url);
        assert_int_equal(url.object_length, cases[i].object);
        assert_int_equal(url.path_length, strlen(cases[i].path));
        assert_memory_equal(url.path, cases[i].path, url.path_length);
        if (cases[i].query)
            assert_string_equal(url.query, cases[i].query);
        else
            assert_null(url.query);
    }
}

/* The URL opens a folder, or one and the key of a file in it, which reads as it should. */
static void urls_open(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *url, *key, *file;
    } cases[] = {
        {"zip:mem://z/s.zip!/", "", "b/c/two.txt"},
        {"zip:mem://z/s.zip!/b", "", "c/two.txt"},
        {"zip:mem://z/s.zip!/b/c/", "", "two.txt"},
        {"zip:mem://z/d.zip!/b/c/two.txt", "two.txt", "two.txt"},
        {"zip:mem://z/d.zip!//b//c", "", "two.txt"},
        {"slow+zip:mem://z/d.zip!/b/c/two.txt", "two.txt", "two.txt"},
        {"zip:slow+mem://z/s.zip!/b?latency=1ms&unpacked_cache=1KiB", "", "c/two.txt"},
        {"slow+zip:slow+mem://z/d.zip!/b?latency=1ms", "", "c/two.txt"},
        {"zip:mem://z/a%25b.zip!/b", "", "c/two.txt"},
        {"zip:mem://z/s.zip!/%62/c", "", "two.txt"},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        unsigned char found[TWO];
        stk_store *store = NULL;
        char key[64];
        stk_error err;
        if (stk_store_open(f->ctx, cases[i].url, &store, key, sizeof key, &err) != STK_OK)
            fail_msg("%s: %s", cases[i].url, err.text);
        assert_string_equal(key, cases[i].key);
        assert_ok(stk_store_read(store, cases[i].file, 0, TWO, found, &err), &err);
        assert_memory_equal(found, f->two, TWO);
        stk_store_close(&store);
    }
}

static void urls_are_refused(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *url;
        stk_status status;
        const char *part;
    } cases[] = {
        {"zip:mem://z/s.zip", STK_EINVAL, "write zip:mem://z/s.zip!/ for all of it"},
        {"zip:mem://z/s.zip/", STK_EINVAL, "write zip:mem://z/s.zip!/ for all of it"},
        {"zip:mem://z/s.zip/b/c", STK_EINVAL, "begins; write zip:mem://z/s.zip!/b/c"},
        {"zip:zip:mem://z/s.zip!/b", STK_EINVAL, "where the zip archive ends"},
        {"zip:mem://z/none.zip!/b/c", STK_ENOENT, "none.zip"},
        {"zip:mem://z/s.zip!/b/none", STK_ENOENT, "'b/none' is no folder"},
        {"zip:mem://z/s.zip!/b/../a.txt", STK_EINVAL, "'..'"},
        {"zip:mem://z!/b", STK_EKIND, "is a folder and no zip archive"},
        {"zip:mem://z/s.zip!/b?latency=5ms", STK_EINVAL, "latency"},
        {"zip:" ZIPS "/stored.zip!/b?unpacked_cach=1", STK_EINVAL, "did you mean 'unpacked_cache'"},
        {"zip:mem://z/s.zip!/a.txt/x", STK_ENOENT, "nothing opens 'x' in it"},
        {"zip:zip:mem://z/s.zip!/a.txt!/", STK_EFORMAT, "no end of a central directory"},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_store *store = NULL;
        char key[64];
        stk_error err;
        stk_error_init(&err);
        const stk_status status =
            stk_store_open(f->ctx, cases[i].url, &store, key, sizeof key, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].part))
            fail_msg("%s: %s: %s", cases[i].url, stk_status_name(status), err.text);
        assert_null(store);
    }
}

static void a_container_lies_in_a_container(void **state)
{
    const fixture *f = *state;
    unsigned char found[TWO], *outer = NULL;
    stk_store *store = NULL;
    stk_error err;

    /* An archive that holds s.zip as its first file: a local header in front, the rest behind. */
    size_t size;
    unsigned char *inner = zip_bytes("stored", &size);
    outer = calloc(1, size + 200);
    memcpy(outer, "PK\3\4\n\0\0\0\0\0\0\0\0\0", 14);
    const uint32_t crc = stk__crc32(inner, size);
    memcpy(outer + 14, &crc, 4);
    memcpy(outer + 18, &size, 4);
    memcpy(outer + 22, &size, 4);
    outer[26] = 5;
    memcpy(outer + 30, "i.zip", 5);
    memcpy(outer + 35, inner, size);
    unsigned char *entry = outer + 35 + size;
    memcpy(entry, "PK\1\2\n\0\n", 7);
    memcpy(entry + 16, outer + 14, 12);
    entry[28] = 5;
    memcpy(entry + 46, "i.zip", 5);
    unsigned char *end = entry + 51;
    memcpy(end, "PK\5\6", 4);
    end[8] = end[10] = 1;
    end[12] = 51;
    const uint32_t at = (uint32_t)(size + 35);
    memcpy(end + 16, &at, 4);
    assert_ok(stk_store_put(f->mem, "o.zip", outer, size + 35 + 51 + 22, NULL, &err), &err);
    assert_ok(stk_store_open(f->ctx, "zip:zip:mem://z/o.zip!/i.zip!/b/c", &store, NULL, 0, &err),
              &err);
    assert_ok(stk_store_read(store, "two.txt", 0, TWO, found, &err), &err);
    assert_memory_equal(found, f->two, TWO);
    stk_store_close(&store);
    free(inner);
    free(outer);
}

static void containers_are_known_by_content(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *url, *entered;
    } cases[] = {
        {"mem://z/s.zip", "zip:mem://z/s.zip!/"},
        {"mem://z/s.zip//?index=none", "zip:mem://z/s.zip!/?index=none"},
        {"mem://z/s.zip/b/c?index=none", "zip:mem://z/s.zip!/b/c?index=none"},
        {"slow+mem://z/d.zip//b/", "zip:slow+mem://z/d.zip!/b"},
        {"zip:mem://z/s.zip!/a.txt", NULL},
        {"mem://z", NULL},
        {"zip:mem://z/s.zip!/", NULL},
        {"mem://z/none.zip", NULL},
        {"digits:", NULL},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char *url = stk__strdup(f->ctx, cases[i].url);
        stk_error err;
        assert_ok(stk__container_enter(f->ctx, &url, &err), &err);
        assert_string_equal(url, cases[i].entered ? cases[i].entered : cases[i].url);
        stk__free(f->ctx, url);
    }
}

/* ---- Folders ---- */

static stk_status name_all(void *user, const char *key, const stk_object_info *info)
{
    char *names = user;

    snprintf(names + strlen(names), 256 - strlen(names), "%s%s ", key, info->is_folder ? "/" : "");
    return STK_OK;
}

static void folders_are_listed(void **state)
{
    const fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store = NULL;
    char names[256] = "";
    stk_error err;

    assert_ok(stk_store_open(f->ctx, "zip:mem://z/m.zip!/", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_list(store, "", NULL, name_all, names, &err), &err);
    assert_string_equal(names, "a.txt b-x b/ empty folder/ ");
    names[0] = 0;
    assert_ok(stk_store_list(store, "b/", NULL, name_all, names, &err), &err);
    assert_string_equal(names, "b/c/ b/one.bin ");
    names[0] = 0;
    assert_ok(stk_store_list(store, "folder", NULL, name_all, names, &err), &err);
    assert_string_equal(names, "");
    assert_fails(stk_store_list(store, "b/none", NULL, name_all, names, &err), STK_ENOENT, &err,
                 "no folder 'b/none'");
    assert_fails(stk_store_stat(store, "folder/link", NULL, &info, &err), STK_EKIND, &err,
                 "is a link or a device");
    assert_fails(stk_store_stat(store, "b/none", NULL, &info, &err), STK_ENOENT, &err,
                 "does not exist in the zip archive");
    assert_ok(stk_store_stat(store, "a.txt", NULL, &info, &err), &err);
    assert_int_equal(info.mtime_ns, INT64_C(1714979290) * 1000000000);
    assert_int_equal(stk_store_read(store, "folder/link", 0, 1, names, &err), STK_EKIND);
    assert_int_equal(stk_store_read(store, "b", 0, 1, names, &err), STK_EKIND);
    assert_fails(stk_store_put(store, "x", "x", 1, NULL, &err), STK_ENOTSUP, &err, "zip");
    stk_store_close(&store);
}

static void note_line(void *user, const char *name, const char *value)
{
    char *text = user;

    snprintf(text + strlen(text), 1024 - strlen(text), "%s: %s\n", name, value);
}

static void what_it_holds_is_said(void **state)
{
    const fixture *f = *state;
    stk_store *store = NULL;
    char text[1024] = "";
    stk_error err;

    assert_ok(stk_store_open(f->ctx, "zip:mem://z/m.zip!/", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_describe(store, "", note_line, text, &err), &err);
    assert_non_null(strstr(text, "files: 5\nfolders: 3\nothers: 1 links"));
    assert_non_null(strstr(text, "unpacked: 1636 bytes\n"));
    assert_non_null(strstr(text, "packed files: 1 of 5\n"));
    text[0] = 0;
    assert_ok(stk_store_describe(store, "b/c", note_line, text, &err), &err);
    assert_non_null(strstr(text, "in it: b/c\nfiles: 1\nfolders: 0\nunpacked: 900 bytes\n"));
    assert_fails(stk_store_describe(store, "none", note_line, text, &err), STK_ENOENT, &err,
                 "does not exist");
    assert_fails(stk_store_describe(f->mem, "", note_line, text, &err), STK_ENOTSUP, &err,
                 "nothing to say");
    stk_store_close(&store);
}

/* ---- Reads ---- */

/* The tables are read once in a context, and a file is one read once its header is known. */
static void tables_are_read_once(void **state)
{
    const fixture *f = *state;
    stk_store *one = NULL, *two = NULL;
    unsigned char found[TWO];
    stk_error err;

    reads = 0;
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/s.zip!/", &one, NULL, 0, &err), &err);
    assert_int_equal(reads, 2); /* the end, the directory */
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/s.zip!/b", &two, NULL, 0, &err), &err);
    stk_store_close(&one);
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/s.zip!/b/c", &one, NULL, 0, &err), &err);
    assert_int_equal(reads, 2);
    for (int i = 0; i < 3; i++)
        assert_ok(stk_store_read(one, "two.txt", 0, TWO, found, &err), &err);
    assert_ok(stk_store_read(one, "two.txt", 100, 10, found, &err), &err);
    assert_int_equal(reads, 6); /* the header comes with the first */
    stk_store_close(&one);
    stk_store_close(&two);
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/s.zip!/", &one, NULL, 0, &err), &err);
    assert_int_equal(reads, 6);
    stk_store_close(&one);
    zip_put(f->mem, "s.zip", "deflated");
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/s.zip!/", &one, NULL, 0, &err), &err);
    assert_int_equal(reads, 8); /* another object by now */
    stk_store_close(&one);
}

/* Parts of a packed file unpack it once, as long as there is room for it. */
static void packed_files_are_unpacked_once(void **state)
{
    const fixture *f = *state;
    stk_store *store = NULL;
    unsigned char found[TWO];
    stk_error err;

    reads = 0;
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/d.zip!/b?unpacked_cache=1000", &store, NULL,
                             0, &err),
              &err);
    for (int i = 0; i < 9; i++) {
        assert_ok(stk_store_read(store, "c/two.txt", (uint64_t)i * 100, 100, found, &err), &err);
        assert_memory_equal(found, f->two + i * 100, 100);
    }
    assert_int_equal(reads, 4); /* end, directory, header, data */
    assert_ok(stk_store_read(store, "one.bin", 1, 100, found, &err), &err);
    assert_int_equal(reads, 6);
    assert_ok(stk_store_read(store, "c/two.txt", 1, 100, found, &err), &err);
    assert_int_equal(reads, 7); /* there was no room for both */
    stk_store_close(&store);
    assert_ok(stk_store_open(f->ctx, "zip:counted://z/d.zip!/b?unpacked_cache=800", &store, NULL, 0,
                             &err),
              &err);
    assert_int_equal(stk_store_read(store, "c/two.txt", 1, 100, found, &err), STK_ELIMIT);
    assert_ok(stk_store_read(store, "c/two.txt", 0, TWO, found, &err), &err);
    assert_memory_equal(found, f->two, TWO);
    stk_store_close(&store);
}

/* ---- Ending early ---- */

#define MANY 32

static atomic_int ended[MANY];
static atomic_int canceled;

static void note_end(stk_read *read, stk_status status)
{
    ended[(size_t)read->user]++;
    canceled += status == STK_ECANCELED;
}

/* Reads that are canceled, and those that a store is closed over, end once each. */
static void reads_end_early(void **state)
{
    const fixture *f = *state;
    static const char *const keys[] = {"c/two.txt", "one.bin"};

    for (int close = 0; close < 2; close++) {
        unsigned char found[MANY][TWO];
        stk_read read[MANY];
        stk_store *store = NULL;
        stk_error err;
        assert_ok(stk_store_open(f->ctx,
                                 "zip:slow+mem://z/d.zip!/b?latency=20ms&unpacked_cache=1000",
                                 &store, NULL, 0, &err),
                  &err);
        canceled = 0;
        for (size_t i = 0; i < MANY; i++) {
            const bool whole = i % 3 == 0;
            ended[i] = 0;
            read[i] = (stk_read){.struct_size = sizeof read[i],
                                 .key = keys[i % 2],
                                 .offset = whole ? 0 : i,
                                 .length = whole ? (i % 2 ? 700 : TWO) : 100,
                                 .data = found[i],
                                 .done = note_end,
                                 .user = (void *)i};
            assert_int_equal(store->ops->submit(store, &read[i]), STK_OK);
        }
        for (size_t i = 0; i < MANY && !close; i++)
            store->ops->cancel(store, &read[i]);
        stk_store_close(&store);
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(ended[i], 1);
        assert_true(canceled > MANY / 2);
    }
}

/* Who waits for what another brings ends at once when it is canceled, and the other goes on. */
static void a_waiter_ends_at_once(void **state)
{
    const fixture *f = *state;
    unsigned char found[2][100], whole[TWO];
    stk_read read[2];
    stk_store *store = NULL;
    stk_error err;

    assert_ok(
        stk_store_open(f->ctx, "zip:slow+mem://z/d.zip!/b/c?latency=50ms", &store, NULL, 0, &err),
        &err);
    assert_ok(stk_store_read(store, "two.txt", 0, TWO, whole, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        ended[i] = 0;
        read[i] = (stk_read){.struct_size = sizeof read[i],
                             .key = "two.txt",
                             .offset = 10 * i,
                             .length = 100,
                             .data = found[i],
                             .done = note_end,
                             .user = (void *)i};
        assert_int_equal(store->ops->submit(store, &read[i]), STK_OK);
    }
    canceled = 0;
    store->ops->cancel(store, &read[1]);
    assert_int_equal(ended[1], 1);
    while (!ended[0])
        sched_yield();
    assert_true(canceled <= 1);
    assert_memory_equal(found[0], f->two, 100);
    stk_store_close(&store);
}

/* ---- Objects that change ---- */

static void a_changed_archive_is_refused(void **state)
{
    const fixture *f = *state;
    char folder[256], url[512];
    unsigned char found[TWO], *data;
    stk_store *store = NULL;
    stk_error err;
    size_t size;

    test_folder(folder);
    data = zip_bytes("stored", &size);
    write_at(folder, "x.zip", data, size, 1);
    snprintf(url, sizeof url, "zip:%s/x.zip!/b", folder);
    assert_ok(stk_store_open(f->ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_read(store, "c/two.txt", 0, TWO, found, &err), &err);
    free(data);
    data = zip_bytes("comment", &size);
    replace_at(folder, "x.zip", data, size, 2);
    free(data);
    while (stk_store_read(store, "c/two.txt", 0, TWO, found, &err) == STK_OK)
        ;
    assert_int_equal(err.status, STK_ECHANGED);
    assert_int_equal(stk_store_read(store, "c/two.txt", 1, 2, found, &err), STK_ECHANGED);
    stk_store_close(&store);
    assert_ok(stk_store_open(f->ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_read(store, "c/two.txt", 0, TWO, found, &err), &err);
    assert_memory_equal(found, f->two, TWO);
    /* Written over in its place, where its bytes could be had without waiting. */
    data = zip_bytes("stored", &size);
    write_at(folder, "x.zip", data, size, 3);
    free(data);
    while (stk_store_read(store, "c/two.txt", 1, 2, found, &err) == STK_OK)
        ;
    assert_int_equal(err.status, STK_ECHANGED);
    assert_int_equal(store->ops->read_now(store, "c/two.txt", 1, 2, found), STK_EAGAIN);
    stk_store_close(&store);
    test_folder_remove(folder);
}

/* A file that is stored as it is is mapped where the archive is. */
static void stored_files_are_mapped(void **state)
{
    const fixture *f = *state;
    const void *data = NULL;
    stk_store *store = NULL;
    uint64_t size = 0;
    stk_error err;

    assert_ok(
        stk_store_open(f->ctx, "zip:" ZIPS "/stored.zip!/b/c?mmap=true", &store, NULL, 0, &err),
        &err);
    unsigned char found[TWO];
    assert_ok(stk_store_read(store, "two.txt", 0, TWO, found, &err), &err);
    assert_int_equal(store->ops->map(store, "two.txt", &data, &size), STK_OK);
    assert_int_equal(size, TWO);
    assert_memory_equal(data, f->two, TWO);
    stk_store_close(&store);
    assert_ok(
        stk_store_open(f->ctx, "zip:" ZIPS "/deflated.zip!/b/c?mmap=true", &store, NULL, 0, &err),
        &err);
    assert_int_equal(store->ops->map(store, "two.txt", &data, &size), STK_ENOTSUP);
    stk_store_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(urls_are_taken_apart),
        TEST(urls_open),
        TEST(urls_are_refused),
        TEST(a_container_lies_in_a_container),
        TEST(containers_are_known_by_content),
        TEST(folders_are_listed),
        TEST(what_it_holds_is_said),
        TEST(tables_are_read_once),
        TEST(packed_files_are_unpacked_once),
        TEST(reads_end_early),
        TEST(a_waiter_ends_at_once),
        TEST(a_changed_archive_is_refused),
        TEST(stored_files_are_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

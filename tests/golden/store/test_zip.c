/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives that Python's zipfile wrote (scripts/make_zip_golden.py): what zipfile reads of them is
 * read, in any range, and damaged ones are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "store/store.h"
#include "support/support.h"

#define FOLDER TESTS_DIR "/golden/store/zip"
#define MOST   16

/* Files and sizes of a container, folder by folder. */
typedef struct listing {
    stk_store *store;
    size_t files, folders;
    uint64_t bytes;
} listing;

static stk_status note(void *user, const char *key, const stk_object_info *info)
{
    listing *l = user;
    stk_object_info is = {.struct_size = sizeof is};
    stk_error err;

    assert_ok(stk_store_stat(l->store, key, NULL, &is, &err), &err);
    assert_int_equal(is.is_folder, info->is_folder);
    assert_int_equal(is.size, info->size);
    l->files += !info->is_folder;
    l->folders += info->is_folder;
    l->bytes += info->size;
    if (info->is_folder)
        assert_ok(stk_store_list(l->store, key, NULL, note, user, &err), &err);
    return STK_OK;
}

/* Ranges of a file are those of the whole, whose sum is Python's. */
static void check_file(stk_store *store, const char *key, uint64_t size, uint32_t crc,
                       uint64_t *seed)
{
    unsigned char *whole = malloc(size + 1), *part = malloc(size + 1);
    stk_error err;

    assert_true(whole && part);
    for (int i = 0; i < 20; i++) {
        const uint64_t from = test_random(seed) % (size + 1);
        const uint64_t length = test_random(seed) % (size - from + 1);
        memset(part, 0x55, size + 1);
        assert_ok(stk_store_read(store, key, from, length, part, &err), &err);
        /* The first ones come before the whole was ever read. */
        assert_ok(stk_store_read(store, key, 0, size, whole, &err), &err);
        assert_memory_equal(part, whole + from, length);
        if (length < size + 1)
            assert_int_equal(part[length], 0x55);
        if (store->ops->read_now(store, key, from, length, part) == STK_OK)
            assert_memory_equal(part, whole + from, length);
    }
    assert_int_equal(stk__crc32(whole, size), crc);
    assert_fails(stk_store_read(store, key, size, 1, part, &err), STK_ETRUNCATED, &err,
                 "ends too early");
    free(whole);
    free(part);
}

static void check_archive(stk_context *ctx, const char *name, const char *prefix, uint64_t seed)
{
    char url[512], path[512], line[512], key[512];
    unsigned long long size;
    unsigned crc;
    int name_at;
    listing l = {0};
    stk_error err;

    snprintf(url, sizeof url, "zip:%s" FOLDER "/%s.zip!/", prefix, name);
    if (stk_store_open(ctx, url, &l.store, key, sizeof key, &err) != STK_OK)
        fail_msg("%s: %s", url, err.text);
    assert_string_equal(key, "");
    assert_ok(stk_store_list(l.store, "", NULL, note, &l, &err), &err);
    snprintf(path, sizeof path, FOLDER "/%s.txt", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t files = 0;
    uint64_t bytes = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        assert_int_equal(sscanf(line, "%llu %x %n", &size, &crc, &name_at), 2);
        if (line[strlen(line) - 1] == '/' || strstr(line, "/link"))
            continue;
        check_file(l.store, line + name_at, size, crc, &seed);
        files++;
        bytes += size;
    }
    fclose(f);
    assert_int_equal(l.files, files);
    assert_int_equal(l.bytes, bytes);
    stk_store_close(&l.store);
}

static const char *const sound[] = {
    "stored",  "deflated",  "mixed",         "names",  "cp437",
    "zip64",   "stream",    "stream_stored", "prefix", "prefix_not_counted",
    "comment", "zip64_end", "nothing"};

static void archives(void **state)
{
    for (size_t i = 0; i < STK_COUNT(sound); i++) {
        check_archive(*state, sound[i], "", i + 1);
        check_archive(*state, sound[i], "slow+file:", i + 1);
        check_archive(*state, sound[i], "file://", i + 1);
    }
}

/* ---- Damage ---- */

/* What is said where the archive is opened; NULL: a file of it cannot be read. */
static const struct {
    const char *name;
    stk_status status;
    const char *part;
} bad[] = {
    {"absolute", STK_EFORMAT, "is absolute"},
    {"backslash", STK_EFORMAT, "holds a backslash"},
    {"beyond", STK_EFORMAT, "an entry lies beyond it"},
    {"bomb", STK_EFORMAT, "39 bytes become 2147483648"},
    {"count_less", STK_EFORMAT, "more entries than it says"},
    {"count_more", STK_EFORMAT, "says that it holds 2 files"},
    {"crc", STK_ECHECKSUM, NULL},
    {"crc_deflated", STK_ECHECKSUM, NULL},
    {"cut", STK_EFORMAT, "was cut short"},
    {"disk", STK_EKIND, "one of several parts"},
    {"dots", STK_EFORMAT, "a part '.' or '..'"},
    {"duplicate", STK_EFORMAT, "names 'a' twice"},
    {"empty_name", STK_EFORMAT, "a name is empty"},
    {"encrypted", STK_EKIND, "holds 'a', which is encrypted"},
    {"file_and_folder", STK_EFORMAT, "as a file and as a folder"},
    {"half", STK_EFORMAT, "was cut short"},
    {"local_extra", STK_EFORMAT, NULL},
    {"local_method", STK_EFORMAT, NULL},
    {"local_name", STK_EFORMAT, NULL},
    {"local_signature", STK_EFORMAT, NULL},
    {"local_size", STK_EFORMAT, NULL},
    {"longer", STK_ETRUNCATED, NULL},
    {"masked", STK_EKIND, "is encrypted"},
    {"method", STK_EKIND, "packed by method 12 (bzip2)"},
    {"deflated_nothing", STK_EFORMAT, "0 bytes become 500"},
    {"no_directory", STK_EFORMAT, "two things"},
    {"overlap", STK_EFORMAT, "over what follows it"},
    {"shorter", STK_EFORMAT, NULL},
    {"stored_sizes", STK_EFORMAT, "50 bytes become 49"},
    {"two_slashes", STK_EFORMAT, "an empty part"},
    {"utf8", STK_EFORMAT, "is no UTF-8"},
    {"zip64_lies", STK_EFORMAT, "two things"},
};

static void damage(void **state)
{
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_object_info info = {.struct_size = sizeof info};
        stk_store *store = NULL;
        unsigned char bytes[256];
        char url[512];
        stk_error err;

        snprintf(url, sizeof url, "zip:" FOLDER "/bad_%s.zip!/", bad[i].name);
        stk_error_init(&err);
        const stk_status status = stk_store_open(*state, url, &store, NULL, 0, &err);
        if (bad[i].part) {
            if (status != bad[i].status || !strstr(err.text, bad[i].part))
                fail_msg("%s: %d %s", bad[i].name, status, err.text);
            assert_null(store);
            continue;
        }
        assert_ok(status, &err);
        assert_ok(stk_store_stat(store, "a", NULL, &info, &err), &err);
        assert_true(info.size <= sizeof bytes);
        for (int again = 0; again < 2; again++)
            if (stk_store_read(store, "a", 0, info.size, bytes, &err) != bad[i].status)
                fail_msg("%s: %s", bad[i].name, err.text);
        assert_int_not_equal(store->ops->read_now(store, "a", 0, info.size, bytes), STK_OK);
        stk_store_close(&store);
    }
}

/* Every archive that is cut, and every bit that is turned, gives the file, or an error. */
static void mutations(void **state)
{
    static const char *const names[] = {"stored", "deflated", "zip64_end", "stream"};
    stk_store *store = NULL, *mem = NULL;
    stk_error err;

    assert_ok(stk_store_open(*state, "mem://m", &mem, NULL, 0, &err), &err);
    for (size_t n = 0; n < STK_COUNT(names); n++) {
        unsigned char data[8192], whole[1024], found[1024];
        char path[512];
        snprintf(path, sizeof path, FOLDER "/%s.zip", names[n]);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        const size_t size = fread(data, 1, sizeof data, f);
        fclose(f);
        snprintf(path, sizeof path, "zip:" FOLDER "/%s.zip!/", names[n]);
        assert_ok(stk_store_open(*state, path, &store, NULL, 0, &err), &err);
        assert_ok(stk_store_read(store, "b/c/two.txt", 0, 900, whole, &err), &err);
        stk_store_close(&store);
        for (size_t i = 0; i < 8 * size; i++) {
            const size_t cut = i % 8 ? size : i / 8;
            data[i / 8] ^= (unsigned char)(1 << i % 8);
            assert_ok(stk_store_put(mem, "a.zip", data, cut, NULL, &err), &err);
            data[i / 8] ^= (unsigned char)(1 << i % 8);
            if (stk_store_open(*state, "zip:mem://m/a.zip!/", &store, NULL, 0, &err) == STK_OK &&
                stk_store_read(store, "b/c/two.txt", 0, 900, found, &err) == STK_OK)
                assert_memory_equal(found, whole, 900);
            stk_store_close(&store);
        }
    }
    stk_store_close(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(archives), cmocka_unit_test(damage),
                                       cmocka_unit_test(mutations)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

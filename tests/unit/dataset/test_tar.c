/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of tar: what is read of them, and all that is refused. */
#include "dataset/tar.h"

#include "support/tars.h"

/* An archive that is read from memory. */
typedef struct reading {
    const tar_bytes *of;
    uint64_t at, length;
} reading;

static stk_status take(void *user, void *out, uint64_t size, uint64_t *got, stk_error *err)
{
    reading *r = user;

    *got = STK_MIN(size, r->length - r->at);
    memcpy(out, r->of->data + r->at, *got);
    r->at += *got;
    return STK_OK;
}

/* Go through the first `length` bytes of an archive; *files of them are read whole. */
static stk_status go_through(const tar_bytes *t, uint64_t length, size_t *files, stk_error *err)
{
    reading r = {t, 0, length};
    stk__tar_entry entry;
    unsigned char *data;
    bool found = true;
    stk__tar tar;

    *files = 0;
    stk_error_init(err);
    stk__tar_init(&tar, take, &r, "a.tar");
    for (;;) {
        STK_TRY(stk__tar_next(&tar, &entry, &found, err));
        if (!found)
            return STK_OK;
        if (entry.is_folder)
            continue;
        assert_non_null(data = malloc(entry.size + 1));
        stk_status status = stk__tar_read(&tar, data, entry.size, err);
        free(data);
        STK_TRY(status);
        ++*files;
    }
}

static void expect(const tar_bytes *t, stk_status status, const char *part)
{
    size_t files;
    stk_error err;

    assert_fails(go_through(t, t->size, &files, &err), status, &err, part);
}

/* Names, sizes and bytes, whether they are read, in part, or passed over. */
static void test_files(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    char big[1500], bytes[1500];
    tar_bytes t = {NULL, 0};
    reading r = {&t, 0, 0};
    stk__tar_entry entry;
    bool found = false;
    stk_error err;
    stk__tar tar;

    memset(big, 'b', sizeof big);
    tar_head(&t, "d/", '5', 0);
    tar_file(&t, "d/empty", "", 0);
    tar_file(&t, "d/passed", big, sizeof big);
    tar_file(&t, "d/letters", letters, 26);
    tar_file(&t, "d/block", big, 512);
    tar_end(&t);
    tar_room(&t, 9000);
    r.length = t.size;
    stk__tar_init(&tar, take, &r, "a.tar");
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_true(found && entry.is_folder);
    assert_string_equal(entry.name, "d");
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_true(found && !entry.is_folder && entry.size == 0);
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_string_equal(entry.name, "d/passed");
    assert_int_equal(entry.size, sizeof big);
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_string_equal(entry.name, "d/letters");
    assert_ok(stk__tar_read(&tar, bytes, 10, &err), &err);
    assert_memory_equal(bytes, letters, 10);
    assert_ok(stk__tar_read(&tar, bytes, 5, &err), &err);
    assert_memory_equal(bytes, letters + 10, 5);
    /* More than the file has is not taken from the next. */
    assert_fails(stk__tar_read(&tar, bytes, 12, &err), STK_ETRUNCATED, &err, "a file ends");
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_string_equal(entry.name, "d/block");
    assert_ok(stk__tar_read(&tar, bytes, 512, &err), &err);
    assert_memory_equal(bytes, big, 512);
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_false(found);
    free(t.data);
}

/* Headers of POSIX, of GNU and of before. */
static void test_kinds(void **state)
{
    static const char *const kinds[] = {"ustar  ",
                                        "ustar\0"
                                        "00",
                                        "\0\0\0\0\0\0\0"};
    char name[101], prefix[156], both[260];

    memset(name, 'n', 100);
    memset(prefix, 'p', 155);
    name[100] = prefix[155] = 0;
    snprintf(both, sizeof both, "%s/%s", prefix, name);
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        tar_bytes t = {NULL, 0};
        stk__tar_entry entry;
        bool found = false;
        stk_error err;
        stk__tar tar;

        tar_head(&t, name, '0', 0);
        memcpy(t.data + 257, kinds[i], 8);
        memcpy(t.data + 345, prefix, 155);
        tar_sum(t.data);
        tar_head(&t, "x/", 0, 0);
        tar_head(&t, "y", 0, 0);
        tar_end(&t);
        reading r = {&t, 0, t.size};
        stk__tar_init(&tar, take, &r, "a.tar");
        assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
        /* GNU has other things there. */
        assert_string_equal(entry.name, i == 1 ? both : name);
        assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
        assert_true(entry.is_folder);
        assert_string_equal(entry.name, "x");
        assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
        assert_false(entry.is_folder);
        free(t.data);
    }
}

/* Nothing leads out of the folder that it is unpacked to. */
static void test_names(void **state)
{
    static const char *const names[] = {"/etc/passwd", "../x", "a/../../x", "a/..", "..",    ".",
                                        "./a",         "a//b", "a/./b",     "",     "a/b//", "/"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        tar_bytes t = {NULL, 0};
        tar_file(&t, names[i], "x", 1);
        tar_end(&t);
        expect(&t, STK_EFORMAT, "does not lie below the folder");
        free(t.data);
    }
    /* A prefix is a part of the name. */
    static const char *const prefixes[] = {"..", "/", "a/..", "/etc"};
    for (size_t i = 0; i < STK_COUNT(prefixes); i++) {
        tar_bytes t = {NULL, 0};
        tar_file(&t, "x", "x", 1);
        memcpy(t.data + 257,
               "ustar\0"
               "00",
               8);
        memcpy(t.data + 345, prefixes[i], strlen(prefixes[i]));
        tar_sum(t.data);
        tar_end(&t);
        expect(&t, STK_EFORMAT, "does not lie below the folder");
        free(t.data);
    }
}

/* Links, devices, pipes, and headers that would change the next one. */
static void test_types(void **state)
{
    for (const char *type = "123467xgLKVSMNDA\1\377"; *type; type++) {
        tar_bytes t = {NULL, 0};
        const size_t at = tar_head(&t, "link", *type, 0);
        memcpy(t.data + at + 157, "/etc/passwd", 11);
        tar_sum(t.data + at);
        tar_end(&t);
        expect(&t, STK_EKIND, "neither a file nor a folder");
        free(t.data);
    }
}

static void test_headers(void **state)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {124, "00000000009\0", 12, "no octal number"},
        {124, "\200\0\0\0\0\0\0\0\0\0\0\1", 12, "no octal number"},
        {124, "-0000000001\0", 12, "no octal number"},
        {124, "0000 000001\0", 12, "no octal number"},
        {124, "\0\0\0\0\0\0\0\0\0\0\0\0", 12, "no octal number"},
        {257, "USTAR  ", 8, "unknown kind of header"},
        {257,
         "ustar\0"
         "01",
         8, "unknown kind of header"},
    };
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        tar_file(&t, "x", "x", 1);
        memcpy(t.data + cases[i].at, cases[i].bytes, cases[i].length);
        tar_sum(t.data);
        tar_end(&t);
        expect(&t, STK_EFORMAT, cases[i].part);
        t.size = 0;
    }
    /* Of any byte that changes the sum tells. */
    for (size_t i = 0; i < 512; i++) {
        tar_file(&t, "x", "x", 1);
        tar_end(&t);
        t.data[i] ^= 1;
        expect(&t, STK_ECHECKSUM, "sum does not match");
        t.size = 0;
    }
    tar_head(&t, "d", '5', 512);
    tar_room(&t, 1536);
    expect(&t, STK_EFORMAT, "a folder with bytes");
    t.size = 0;
    tar_file(&t, "x", "x", 1);
    tar_room(&t, 512);
    tar_file(&t, "y", "y", 1);
    tar_end(&t);
    expect(&t, STK_EFORMAT, "one block of zeros");
    t.size = 0;
    /* The largest size that can be written down. */
    tar_file(&t, "x", "x", 1);
    memcpy(t.data + 124, "777777777777", 12);
    tar_sum(t.data);
    tar_end(&t);
    reading r = {&t, 0, t.size};
    stk__tar_entry entry;
    bool found;
    stk_error err;
    stk__tar tar;
    stk__tar_init(&tar, take, &r, "a.tar");
    assert_ok(stk__tar_next(&tar, &entry, &found, &err), &err);
    assert_int_equal(entry.size, (UINT64_C(1) << 36) - 1);
    assert_fails(stk__tar_next(&tar, &entry, &found, &err), STK_ETRUNCATED, &err, "it ends");
    free(t.data);
}

/* Cut anywhere it is not whole, but for what follows its end. */
static void test_cut(void **state)
{
    tar_bytes t = {NULL, 0};
    size_t files;
    stk_error err;

    tar_file(&t, "a", "abc", 3);
    tar_file(&t, "b", "de", 2);
    tar_end(&t);
    const size_t whole = t.size;
    tar_room(&t, 100);
    for (size_t length = 0; length < whole; length++)
        assert_fails(go_through(&t, length, &files, &err), STK_ETRUNCATED, &err, "it ends");
    for (size_t length = whole; length < t.size; length++) {
        assert_ok(go_through(&t, length, &files, &err), &err);
        assert_int_equal(files, 2);
    }
    free(t.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files), cmocka_unit_test(test_kinds),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_types), cmocka_unit_test(test_headers), cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

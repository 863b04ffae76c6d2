/* SPDX-License-Identifier: Apache-2.0 */
/* webdataset: what the members of a tar become, and all that is refused. */
#include "shards.h"

static char folder[256];
static stk_context *ctx;
static shard_sample sample;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

/* The shard is refused with this, and named. */
static void refuse(tar_bytes *t, stk_status status, const char *part)
{
    stk_dataset *d = NULL;
    stk_error err;

    shard_write(folder, "bad.tar", t);
    assert_fails(shards_open(ctx, folder, "bad.tar?index=none", &d, &err), status, &err, part);
    assert_non_null(strstr(err.text, "bad.tar"));
    assert_null(d);
}

static stk_dataset *open_shard(tar_bytes *t, const char *query)
{
    char spec[300];

    tar_end(t);
    shard_write(folder, "a.tar", t);
    snprintf(spec, sizeof spec, "a.tar?index=none%s", query);
    return shards_open_good(ctx, folder, spec);
}

/* ---- Samples ---- */

static void test_samples(void **state)
{
    tar_bytes t = {NULL, 0};

    tar_head(&t, "./", '5', 0);
    tar_head(&t, "./a.b/", '5', 0);
    shard_text(&t, "./a.b/one.jpg", "picture");
    shard_text(&t, "./a.b/one.CLS", " 12\n");
    shard_text(&t, "./a.b/one.meta.json", "{}");
    shard_text(&t, "./README", "no sample");
    shard_text(&t, "./.hidden", "no sample");
    shard_text(&t, "a.b/two.jpg", "other");
    shard_text(&t, "a.b/two.meta.json", "");
    shard_text(&t, "a.b/two.cls", "-3");
    shard_text(&t, "two.png", "same name, other folder");
    shard_text(&t, "two.cls", "0");
    shard_text(&t, "two.meta.json", "[]");
    stk_dataset *d = open_shard(&t, "");
    assert_int_equal(d->size, 3);
    assert_int_equal(d->num_fields, 3);
    assert_string_equal(d->fields[0].name, "image");
    assert_string_equal(d->fields[0].codec, "image");
    assert_true(d->fields[0].picture && d->fields[0].layout == STK_BYTES);
    assert_true(d->fields[1].layout == STK_FIXED && d->fields[1].dtype == STK_INT64);
    assert_int_equal(d->fields[2].layout, STK_BYTES);
    shard_take(d, 0, &sample);
    assert_int_equal(sample.bounds[0], 7);
    shard_check(d, &sample, "image", "picture", 7);
    shard_check(d, &sample, "meta.json", "{}", 2);
    shard_check_label(d, &sample, 12);
    assert_ptr_equal(sample.values[0].data, sample.memory[0]);
    shard_take(d, 1, &sample);
    shard_check(d, &sample, "image", "other", 5);
    shard_check(d, &sample, "meta.json", "", 0);
    shard_check_label(d, &sample, -3);
    shard_take(d, 2, &sample);
    shard_check(d, &sample, "image", "same name, other folder", 23);
    shard_check_line(d, "parts jpg", "2, 12 bytes");
    shard_check_line(d, "shards", "1, ");
    stk_dataset_close(&d);
}

/* Two pictures in a sample are two fields; names that are taken stay those of the members. */
static void test_names_of_fields(void **state)
{
    tar_bytes t = {NULL, 0};

    shard_text(&t, "a.jpg", "1");
    shard_text(&t, "a.png", "2");
    shard_text(&t, "a.label", "3");
    shard_text(&t, "a.cls", "4");
    stk_dataset *d = open_shard(&t, "");
    shard_take(d, 0, &sample);
    shard_check(d, &sample, "jpg", "1", 1);
    shard_check(d, &sample, "png", "2", 1);
    shard_check(d, &sample, "label", "3", 1);
    shard_check(d, &sample, "cls", (const int64_t[]){4}, 8);
    stk_dataset_close(&d);
    d = shards_open_good(ctx, folder, "a.tar?index=none&fields=png,cls");
    assert_int_equal(d->num_fields, 2);
    shard_take(d, 0, &sample);
    assert_int_equal(sample.count, 2);
    shard_check(d, &sample, "image", "2", 1);
    shard_check_line(d, "parts jpg", "not read");
    stk_dataset_close(&d);
    stk_error err;
    assert_fails(shards_open(ctx, folder, "a.tar?index=none&fields=png,pn", &d, &err), STK_EINVAL,
                 &err, "'pn', and the members of the shards are jpg, png, label, cls");
}

static void test_labels(void **state)
{
    static const struct {
        const char *text;
        int64_t label;
        bool bad;
    } cases[] = {{"7", 7, false},
                 {"+7 ", 7, false},
                 {"\t-9223372036854775807\r\n", -INT64_MAX, false},
                 {"9223372036854775807", INT64_MAX, false},
                 {"9223372036854775808", 0, true},
                 {"99999999999999999999", 0, true},
                 {"", 0, true},
                 {"-", 0, true},
                 {"1 2", 0, true},
                 {"0x7", 0, true},
                 {"7.0", 0, true}};
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char name[128];
        snprintf(name, sizeof name, "%zu.cls", i);
        shard_text(&t, name, cases[i].text);
    }
    stk_dataset *d = open_shard(&t, "");
    assert_int_equal(d->size, STK_COUNT(cases));
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        shard_take(d, i, &sample);
        if (cases[i].bad)
            assert_int_equal(sample.status, STK_EFORMAT);
        else
            shard_check_label(d, &sample, cases[i].label);
    }
    stk_dataset_close(&d);
}

/* ---- Arrays ---- */

static void npy(tar_bytes *t, const char *name, const char *type, const char *shape,
                const void *data, size_t size)
{
    char bytes[1024] = "\x93NUMPY\x01";
    const int n = snprintf(bytes + 10, 200,
                           "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);

    memset(bytes + 10 + n, ' ', 118 - (size_t)n);
    bytes[8] = 118;
    bytes[127] = '\n';
    memcpy(bytes + 128, data, size);
    tar_file(t, name, bytes, 128 + size);
}

static void test_arrays(void **state)
{
    static const int16_t pair[] = {1, -2}, more[] = {3, 4, 5, 6};
    static const uint8_t swapped[] = {0, 1, 0xff, 0xfe};
    tar_bytes t = {NULL, 0};

    npy(&t, "0.npy", "<i2", "(2,)", pair, 4);
    npy(&t, "1.npy", ">i2", "(2,)", swapped, 4);
    npy(&t, "2.npy", "<u2", "(2,)", pair, 4);
    tar_file(&t, "3.npy", (char[132]){0}, 132);
    stk_dataset *d = open_shard(&t, "");
    assert_int_equal(d->fields[0].layout, STK_FIXED);
    assert_int_equal(d->fields[0].dtype, STK_INT16);
    for (uint64_t i = 0; i < 2; i++) {
        shard_take(d, i, &sample);
        shard_check(d, &sample, "npy", pair, 4);
    }
    for (uint64_t i = 2; i < 4; i++) {
        shard_take(d, i, &sample);
        assert_int_equal(sample.status, STK_EFORMAT);
    }
    stk_dataset_close(&d);
    npy(&t, "0.x.npy", "<i2", "(1, 2)", pair, 4);
    npy(&t, "1.x.npy", "<i2", "(2, 2)", more, 8);
    npy(&t, "2.x.npy", "<i2", "(4, 1)", more, 8);
    npy(&t, "3.x.npy", "<i2", "(0, 2)", more, 0);
    d = open_shard(&t, "");
    assert_int_equal(d->fields[0].layout, STK_RAGGED);
    assert_int_equal(d->fields[0].shape[0], -1);
    assert_int_equal(d->fields[0].shape[1], 2);
    shard_take(d, 1, &sample);
    shard_check(d, &sample, "x", more, 8);
    assert_true(sample.bounds[0] >= 8);
    shard_take(d, 2, &sample);
    assert_int_equal(sample.status, STK_EFORMAT);
    shard_take(d, 3, &sample);
    shard_check(d, &sample, "x", "", 0);
    stk_dataset_close(&d);
    tar_file(&t, "0.npz", "PK", 2);
    tar_end(&t);
    refuse(&t, STK_ENOTSUP, "save each as .npy");
}

/* ---- Members that are missing ---- */

static void test_missing(void **state)
{
    tar_bytes t = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    shard_text(&t, "a.txt", "x");
    shard_text(&t, "a.cls", "1");
    shard_text(&t, "b.txt", "y");
    shard_text(&t, "c.cls", "3");
    tar_end(&t);
    shard_write(folder, "a.tar", &t);
    assert_fails(shards_open(ctx, folder, "a.tar?index=none", &d, &err), STK_EFORMAT, &err,
                 "a.tar, record 1, byte 2560: the sample lacks 'label'");
    d = shards_open_good(ctx, folder, "a.tar?index=none&missing=bad");
    shard_take(d, 0, &sample);
    assert_int_equal(sample.status, STK_OK);
    for (uint64_t i = 1; i < 3; i++) {
        shard_take(d, i, &sample);
        assert_int_equal(sample.status, STK_ENOENT);
    }
    shard_check_line(d, "samples that lack a member", "2, which are bad");
    stk_dataset_close(&d);
    d = shards_open_good(ctx, folder, "a.tar?index=none&missing=empty");
    shard_take(d, 1, &sample);
    shard_check(d, &sample, "txt", "y", 1);
    shard_check_label(d, &sample, -1);
    shard_take(d, 2, &sample);
    shard_check(d, &sample, "txt", "", 0);
    shard_check_label(d, &sample, 3);
    stk_dataset_close(&d);
}

/* ---- Headers ---- */

static void test_long_names(void **state)
{
    char name[4200], record[4300];
    tar_bytes t = {NULL, 0};

    memset(name, 'n', sizeof name);
    memset(name + 90, '/', 1);
    memcpy(name + 4092, ".txt", 5);
    shard_long_name(&t, name, 4097);
    shard_text(&t, "cut.bin", "gnu");
    tar_head(&t, "link", 'K', 3);
    tar_room(&t, 512);
    shard_text(&t, "short.txt", "none");
    memcpy(name + 296, ".txt", 5);
    const int n = snprintf(record, sizeof record, "%d path=%s\n", 310, name);
    assert_int_equal(n, 310);
    shard_pax(&t, 'x', record, 310);
    shard_text(&t, "cut.bin", "pax");
    shard_pax(&t, 'g', "12 comment=\n", 12);
    shard_text(&t, "last.txt", "last");
    stk_dataset *d = open_shard(&t, "");
    static const char *const texts[] = {"gnu", "none", "pax", "last"};
    assert_int_equal(d->size, 4);
    for (uint64_t i = 0; i < 4; i++) {
        shard_take(d, i, &sample);
        shard_check(d, &sample, "txt", texts[i], strlen(texts[i]));
    }
    stk_dataset_close(&d);
}

/* Sizes of base 256 and of pax count, whatever else the header says. */
static void test_sizes(void **state)
{
    tar_bytes t = {NULL, 0};
    size_t at = tar_head(&t, "a.txt", '0', 0);

    memcpy(t.data + at + 124, "\200\0\0\0\0\0\0\0\0\0\2\1", 12);
    tar_sum(t.data + at);
    memset(tar_room(&t, 1024), 'a', 513);
    shard_pax(&t, 'x', "10 size=7\n", 10);
    tar_head(&t, "b.txt", '0', 3);
    memcpy(tar_room(&t, 512), "1234567", 7);
    at = tar_head(&t, "c.txt", '7', 0);
    stk_dataset *d = open_shard(&t, "");
    assert_int_equal(d->size, 3);
    shard_take(d, 0, &sample);
    assert_int_equal(sample.values[0].size, 513);
    shard_take(d, 1, &sample);
    shard_check(d, &sample, "txt", "1234567", 7);
    stk_dataset_close(&d);
}

/* ---- What is refused ---- */

static void test_kinds_refused(void **state)
{
    static const struct {
        char type;
        const char *part;
    } types[] = {{'1', "a hard link"}, {'2', "a symbolic link"}, {'3', "a device"},
                 {'4', "a device"},    {'6', "a pipe"},          {'S', "a sparse file"},
                 {'M', "is unknown"}};
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(types); i++) {
        shard_text(&t, "a.txt", "x");
        tar_head(&t, "a.cls", types[i].type, 0);
        tar_end(&t);
        refuse(&t, STK_EKIND, types[i].part);
    }
    shard_pax(&t, 'x', "22 GNU.sparse.major=1\n", 22);
    shard_text(&t, "a.txt", "x");
    tar_end(&t);
    refuse(&t, STK_EKIND, "record 0, byte 0: a sparse member");
    shard_pax(&t, 'g', "14 path=a.txt\n", 14);
    shard_text(&t, "a.txt", "x");
    tar_end(&t);
    refuse(&t, STK_EKIND, "for all members");
}

static void test_names_refused(void **state)
{
    static const char *const names[] = {"../a.txt", "/a.txt", "b/../a.txt", "b//a.txt", ".."};
    char name[4200], record[4300];
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        shard_text(&t, names[i], "x");
        tar_end(&t);
        refuse(&t, STK_EFORMAT, "below the root");
    }
    memset(name, 'n', sizeof name);
    name[4097] = 0;
    shard_long_name(&t, name, 4098);
    tar_end(&t);
    refuse(&t, STK_ELIMIT, "a name of 4098 bytes");
    shard_long_name(&t, name, 4097);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "without its end");
    shard_long_name(&t, "a\0b.txt", 8);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "a zero byte");
    assert_int_equal(snprintf(record, sizeof record, "4108 path=%.4097s\n", name), 4108);
    shard_pax(&t, 'x', record, 4108);
    tar_end(&t);
    refuse(&t, STK_ELIMIT, "a name of 4097 bytes");
    shard_pax(&t, 'x', "12 path=a\0b\n", 12);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "a zero byte");
    memset(name, 'e', 300);
    memcpy(name, "a.", 2);
    name[300] = 0;
    shard_long_name(&t, name, 301);
    shard_text(&t, "x", "x");
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "too long or no text");
    shard_text(&t, "a.\xff", "x");
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "too long or no text");
    shard_text(&t, "a.txt", "x");
    shard_text(&t, "a.TXT", "y");
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "has 'txt' twice");
}

static void test_pax_refused(void **state)
{
    static const char *const records[] = {
        "9 size=x\n",   "9 size=1 ", "99 size=1\n",
        "x size=1\n",   "4 a\n",     "9 =xxxxx\n",
        "11 size=-1\n", "0 a=b\n",   "18446744073709551616 a=b\n"};
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(records); i++) {
        shard_pax(&t, 'x', records[i], strlen(records[i]));
        shard_text(&t, "a.txt", "x");
        tar_end(&t);
        refuse(&t, STK_EFORMAT, i == 0 || i == 6 ? "no number" : "no list of records");
    }
    tar_head(&t, "x", 'x', (1 << 20) + 1);
    tar_room(&t, (1 << 20) + 512);
    tar_end(&t);
    refuse(&t, STK_ELIMIT, "an extended header of 1048577 bytes");
    shard_pax(&t, 'x', "9 size=1\n", 9);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "without its member");
}

static void test_damage(void **state)
{
    tar_bytes t = {NULL, 0};
    size_t at;

    shard_text(&t, "a.txt", "x");
    at = tar_head(&t, "b.txt", '0', 0);
    t.data[at] ^= 1;
    tar_end(&t);
    refuse(&t, STK_ECHECKSUM, "byte 1024: it is no tar that is whole: a header whose sum");
    at = tar_head(&t, "b.txt", '0', 0);
    memcpy(t.data + at + 124, "\377\377\377\377\377\377\377\377\377\377\377\377", 12);
    tar_sum(t.data + at);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "a size that is no number");
    at = tar_head(&t, "b.txt", '0', 0);
    memcpy(t.data + at + 124, "\200\0\0\0\177\377\377\377\377\377\377\377", 12);
    tar_sum(t.data + at);
    tar_end(&t);
    refuse(&t, STK_ETRUNCATED, "has 9223372036854775807 bytes");
    tar_head(&t, "b/", '5', 512);
    tar_room(&t, 512);
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "a folder with bytes");
    shard_text(&t, "a.txt", "x");
    tar_room(&t, 512);
    shard_text(&t, "b.txt", "x");
    tar_end(&t);
    refuse(&t, STK_EFORMAT, "one block of zeros");
    tar_head(&t, "x", 'x', 512);
    refuse(&t, STK_ETRUNCATED, "ends in an extended header");
    test_write(folder, "bad.tar", "", 0);
    tar_end(&t);
    shard_write(folder, "bad.tar", &t);
    stk_dataset *d = NULL;
    stk_error err;
    assert_fails(shards_open(ctx, folder, "bad.tar", &d, &err), STK_EFORMAT, &err,
                 "1 shards without a record");
}

static void make_two(tar_bytes *t)
{
    char big[1300];

    memset(big, 'b', sizeof big);
    tar_file(t, "a.bin", big, sizeof big);
    shard_pax(t, 'x', "14 path=b.bin\n", 14);
    tar_file(t, "c.bin", big, 700);
    tar_end(t);
}

/* A shard that is cut anywhere is refused, and says where. */
static void test_cut(void **state)
{
    tar_bytes whole = {NULL, 0};

    make_two(&whole);
    for (size_t size = 0; size < whole.size; size += 256) {
        tar_bytes t = {malloc(size + 1), size};
        assert_non_null(t.data);
        memcpy(t.data, whole.data, size);
        refuse(&t, STK_ETRUNCATED, "bad.tar");
    }
    free(whole.data);
}

static void test_compressed(void **state)
{
    static const struct {
        const char *magic, *part;
    } kinds[] = {{"\x1f\x8b\x08", "gzip, so that"},
                 {"\x28\xb5\x2f\xfd", "stoker convert"},
                 {"BZh9", "bunzip2"},
                 {"\xfd"
                  "7zXZ",
                  "unxz"}};
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        memcpy(tar_room(&t, 1024), kinds[i].magic, strlen(kinds[i].magic));
        refuse(&t, STK_ENOTSUP, kinds[i].part);
    }
}

/* More kinds than are held apart. */
static void test_many_kinds(void **state)
{
    tar_bytes t = {NULL, 0};
    char name[128];

    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof name, "a.%d", i);
        shard_text(&t, name, "");
    }
    tar_end(&t);
    refuse(&t, STK_ELIMIT, "'256' is one kind of part too many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),       cmocka_unit_test(test_names_of_fields),
        cmocka_unit_test(test_labels),        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_missing),       cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_kinds_refused),
        cmocka_unit_test(test_names_refused), cmocka_unit_test(test_pax_refused),
        cmocka_unit_test(test_damage),        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_compressed),    cmocka_unit_test(test_many_kinds),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

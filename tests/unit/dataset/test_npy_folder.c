/* SPDX-License-Identifier: Apache-2.0 */
/* npy: folders of one file for each sample: classes, headers that vary, files that do not fit. */
#include "array/npy/npy.h"
#include "dataset/dataset.h"

#include <stdio.h>

#include "samples.h"
#include "support/text.h"

#define GOLDEN TESTS_DIR "/golden/npy/"

static stk_status open_path(stk_context *ctx, const char *path, const char *query,
                            stk_dataset **out, stk_error *err)
{
    char spec[1200];

    snprintf(spec, sizeof spec, "npy:%s%s", path, query);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

static unsigned char *golden(const char *name, size_t *size)
{
    char path[1024];

    snprintf(path, sizeof path, GOLDEN "%s.npy", name);
    unsigned char *data = test_load(path, size);
    assert_non_null(data);
    return data;
}

/* A file of two int16: v and -v. `version` and `big` vary the header, not the values. */
static void write_pair(const char *folder, const char *name, int v, int version, bool big)
{
    unsigned char data[256] = "\x93NUMPY";
    int pair[2] = {v, -v};
    int fixed = version == 1 ? 10 : 12;
    int length = snprintf((char *)data + fixed, sizeof data - 12,
                          "{'descr': '%ci2', 'fortran_order': False, 'shape': (2,), }%*s\n",
                          big ? '>' : '<', v % 7, "");

    data[6] = (unsigned char)version;
    data[8] = (unsigned char)length;
    for (int i = 0; i < 2; i++) {
        unsigned value = (unsigned)pair[i] & 0xffff;
        data[fixed + length + 2 * i] = (unsigned char)(big ? value >> 8 : value);
        data[fixed + length + 2 * i + 1] = (unsigned char)(big ? value : value >> 8);
    }
    test_write(folder, name, data, (size_t)(fixed + length + 4));
}

static void check_pair(const samples *s, size_t i, int v)
{
    int16_t pair[2];

    assert_int_equal(s->sample[i].status, STK_OK);
    memcpy(pair, s->data[i], sizeof pair);
    assert_int_equal(pair[0], v);
    assert_int_equal(pair[1], -v);
}

static void test_class_folders(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300], key[64];
    stk_dataset *d = NULL;
    stk_store *store = NULL;
    stk_error err;

    test_folder(folder);
    write_pair(folder, "cat/b.npy", 2, 1, false);
    write_pair(folder, "cat/a.npy", 1, 1, false);
    write_pair(folder, "ant/z.npy", 300, 2, true);
    write_pair(folder, "dog/a.npy", 4, 3, false);
    write_pair(folder, "dog/.hidden.npy", 5, 1, false);
    test_write(folder, "dog/README.txt", "no sample", 9);
    test_write(folder, "notes.txt", "no sample", 9);
    assert_ok(open_path(ctx, folder, "", &d, &err), &err);
    assert_int_equal(d->size, 4);
    assert_int_equal(d->num_classes, 3);
    assert_string_equal(d->classes[0], "ant");
    assert_string_equal(d->classes[1], "cat");
    assert_string_equal(d->classes[2], "dog");
    assert_int_equal(d->ops->object(d, 1, &store, key, sizeof key), strlen("cat/a.npy"));
    assert_string_equal(key, "cat/a.npy");
    samples *s = samples_range(d, 0, 4);
    assert_int_equal(s->located, 4);
    check_pair(s, 0, 300);
    check_pair(s, 1, 1);
    check_pair(s, 2, 2);
    check_pair(s, 3, 4);
    assert_int_equal(s->label[0], 0);
    assert_int_equal(s->label[1], 1);
    assert_int_equal(s->label[2], 1);
    assert_int_equal(s->label[3], 2);
    samples_free(s);
    stk_dataset_close(&d);
    /* Recognised without a prefix, a class that is empty or too deep is not taken. */
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    assert_int_equal(remove(path), 0);
    assert_ok(stk_dataset_open(ctx, folder, &d, &err), &err);
    assert_string_equal(d->ops->name, "npy");
    stk_dataset_close(&d);
    test_write(folder, "eel/none.txt", "", 0);
    assert_fails(open_path(ctx, folder, "", &d, &err), STK_ENOENT, &err, "eel");
    write_pair(folder, "eel/deep/a.npy", 1, 1, false);
    assert_fails(open_path(ctx, folder, "", &d, &err), STK_EKIND, &err, "eel/deep");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_flat_folder(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    assert_fails(open_path(ctx, folder, "", &d, &err), STK_ENOENT, &err, "holds no .npy");
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "%03d.npy", i);
        write_pair(folder, name, i, 1 + i % 3, i % 2);
    }
    assert_ok(open_path(ctx, folder, "", &d, &err), &err);
    assert_int_equal(d->size, 200);
    assert_int_equal(d->num_fields, 1);
    assert_int_equal(d->num_classes, 0);
    samples *s = samples_range(d, 0, 200);
    for (int i = 0; i < 200; i++)
        check_pair(s, (size_t)i, i);
    samples_free(s);
    stk_dataset_close(&d);
    assert_fails(open_path(ctx, folder, "?labels=x.npy", &d, &err), STK_EINVAL, &err, "labels=");
    assert_fails(open_path(ctx, folder, "?memory=true", &d, &err), STK_EINVAL, &err, "memory=true");
    write_pair(folder, "class/a.npy", 1, 1, false);
    assert_fails(open_path(ctx, folder, "", &d, &err), STK_EINVAL, &err, "class");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Files that do not fit the first are bad samples; the others are read. */
static void test_bad_samples(void **state)
{
    static const struct {
        const char *name, *reason;
        stk_status status;
    } cases[] = {
        {"little_int32", "type or shape", STK_EFORMAT},
        {"object", "sound", STK_EKIND},
        {"fortran_1d", "type or shape", STK_EFORMAT},
        {"scalar", "type or shape", STK_EFORMAT},
        {"structured", "sound", STK_EKIND},
    };
    stk_context *ctx = test_context();
    char folder[256], name[64];
    stk_dataset *d = NULL;
    size_t n = 1 + STK_COUNT(cases);
    stk_error err;

    test_folder(folder);
    write_pair(folder, "0.npy", 7, 1, false);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        size_t size;
        unsigned char *data = golden(cases[i].name, &size);
        snprintf(name, sizeof name, "%zu.npy", i + 1);
        test_write(folder, name, data, size);
        free(data);
    }
    test_write(folder, "6.npy", "", 0);
    test_write(folder, "7.npy", "\x93NUMPY\1\0", 8);
    test_write(folder, "8.npy", "This is not an array, only a text.", 34);
    write_pair(folder, "9.npy", 9, 1, false);
    assert_ok(open_path(ctx, folder, "", &d, &err), &err);
    samples *s = samples_range(d, 0, d->size);
    check_pair(s, 0, 7);
    check_pair(s, 9, 9);
    for (size_t i = 1; i < n; i++) {
        assert_int_equal(s->sample[i].status, cases[i - 1].status);
        assert_non_null(strstr(s->sample[i].reason, cases[i - 1].reason));
    }
    assert_int_equal(s->sample[6].status, STK_EFORMAT);
    assert_int_equal(s->sample[7].status, STK_ETRUNCATED);
    assert_int_equal(s->sample[8].status, STK_EFORMAT);
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A listing of many files takes little memory beyond their names. */
static void test_many_files(void **state)
{
    enum { FILES = 3000 };
    stk_context *ctx = test_context();
    size_t size, names = 0;
    unsigned char *data = golden("little_int8", &size);
    char key[64];
    stk_store *store = NULL;
    stk_dataset *d = NULL;
    stk_memory_stats stats = {.struct_size = sizeof stats};
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://many", &store, key, sizeof key, &err), &err);
    for (int i = FILES; i-- > 0;) {
        snprintf(key, sizeof key, "%d/sample-%06d.npy", i % 3, i);
        names += strlen(key) - 1;
        assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
    }
    stk_context_memory(ctx, &stats);
    uint64_t before = stats.bytes;
    assert_ok(open_path(ctx, "mem://many", "", &d, &err), &err);
    stk_context_memory(ctx, &stats);
    assert_int_equal(d->size, FILES);
    assert_true(stats.bytes - before < 2 * names + 100 * FILES);
    samples *s = samples_range(d, 1000, 10);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(s->sample[i].status, STK_OK);
        assert_int_equal(s->label[i], 1);
        assert_memory_equal(s->data[i], data + size - 15, 15);
    }
    samples_free(s);
    stk_dataset_close(&d);
    stk_store_close(&store);
    free(data);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class_folders),
        cmocka_unit_test(test_flat_folder),
        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_many_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

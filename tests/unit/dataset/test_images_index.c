/* SPDX-License-Identifier: Apache-2.0 */
/* images: the index of a tree: when it is used, when not, and what it may hold. */
#include "images.h"
#include "support/text.h"

#include <time.h>
#include <xxhash.h>

#define LONG_AGO 1000000000 /* seconds: long before any listing of these tests */

/* A tree whose folders changed long ago. */
static void make_tree(const char *folder)
{
    images_write(folder, "a/1.jpg", "one");
    images_write(folder, "a/2.jpg", "two");
    images_write(folder, "a/in/3.jpg", "three");
    images_write(folder, "b/4.png", "four");
    images_set_time(folder, "a/in", LONG_AGO);
    images_set_time(folder, "a", LONG_AGO);
    images_set_time(folder, "b", LONG_AGO);
    images_set_time(folder, "", LONG_AGO);
}

/* Open, check how the table came about, and how many samples there are. */
static void check_open(stk_context *ctx, const char *folder, const char *query, const char *use,
                       uint64_t size)
{
    stk_dataset *d = images_open_good(ctx, folder, query);

    images_check_line(d, "index", use);
    assert_int_equal(d->size, size);
    stk_dataset_close(&d);
}

static uint64_t size_of_first(stk_context *ctx, const char *folder)
{
    stk_dataset *d = images_open_good(ctx, folder, "");
    taken t;

    images_take(d, 0, &t);
    stk_dataset_close(&d);
    return t.needs[0].size;
}

/* What the index says is taken for true as long as no folder has changed its time, and no longer.
 */
static void test_used_while_times_stand(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];

    test_folder(folder);
    make_tree(folder);
    check_open(ctx, folder, "", "written", 4);
    check_open(ctx, folder, "", "used", 4);
    /* Without looking, it cannot know. */
    images_write(folder, "a/5.jpg", "five");
    images_set_time(folder, "a", LONG_AGO);
    check_open(ctx, folder, "", "used", 4);
    check_open(ctx, folder, "?index=none", "none", 5);
    images_set_time(folder, "a", LONG_AGO + 1);
    check_open(ctx, folder, "", "written", 5);
    check_open(ctx, folder, "", "used", 5);
    /* A folder further down, a folder that is gone, one that is another of the same time. */
    images_write(folder, "a/in/6.jpg", "six");
    check_open(ctx, folder, "", "written", 6);
    images_set_time(folder, "a/in", LONG_AGO);
    check_open(ctx, folder, "", "written", 6);
    check_open(ctx, folder, "", "used", 6);
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/a/in", folder);
    snprintf(to, sizeof to, "%s/outside", folder);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(mkdir(from, 0777), 0);
    images_set_time(folder, "a/in", LONG_AGO);
    images_set_time(folder, "a", LONG_AGO + 1);
    images_set_time(folder, "", LONG_AGO);
    check_open(ctx, folder, "", "written", 6);
    assert_int_equal(rmdir(from), 0);
    images_set_time(folder, "a", LONG_AGO + 1);
    check_open(ctx, folder, "", "written", 6);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Writing the index changes the root's time: there the names are compared instead. */
static void test_root_is_compared_by_names(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];

    test_folder(folder);
    make_tree(folder);
    check_open(ctx, folder, "", "written", 4);
    images_set_time(folder, "", LONG_AGO);
    check_open(ctx, folder, "", "used", 4);
    images_write(folder, ".hidden", "x");
    check_open(ctx, folder, "", "used", 4);
    images_write(folder, "c/7.jpg", "seven");
    images_set_time(folder, "", LONG_AGO);
    check_open(ctx, folder, "", "written", 5);
    images_write(folder, "readme.txt", "x");
    check_open(ctx, folder, "", "written", 5);
    check_open(ctx, folder, "", "used", 5);
    /* Another file under the same name. */
    snprintf(path, sizeof path, "%s/readme.txt", folder);
    images_write(folder, "a/.new", "y");
    char from[300];
    snprintf(from, sizeof from, "%s/a/.new", folder);
    assert_int_equal(rename(from, path), 0);
    images_set_time(folder, "a", LONG_AGO);
    check_open(ctx, folder, "", "written", 5);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A folder that changed when it was listed may have changed again with no later time to show. */
static void test_fresh_folders_are_listed_again(void **state)
{
    stk_context *ctx = test_context();
    int64_t soon = time(NULL) + 1000; /* as fresh as can be, however slow this test is */
    char folder[256];

    test_folder(folder);
    make_tree(folder);
    images_set_time(folder, "a", soon);
    check_open(ctx, folder, "", "written", 4);
    check_open(ctx, folder, "", "used", 4);
    assert_int_equal(size_of_first(ctx, folder), 3);
    images_write(folder, "a/1.jpg", "longer than before");
    images_set_time(folder, "a", soon);
    assert_int_equal(size_of_first(ctx, folder), 18);
    images_write(folder, "a/9.jpg", "nine");
    images_set_time(folder, "a", soon);
    check_open(ctx, folder, "", "written", 5);
    check_open(ctx, folder, "", "used", 5);
    /* Settled folders keep their files' sizes: what changes in place is not seen. */
    images_set_time(folder, "a", LONG_AGO);
    check_open(ctx, folder, "", "written", 5);
    images_write(folder, "a/1.jpg", "short");
    images_set_time(folder, "a", LONG_AGO);
    assert_int_equal(size_of_first(ctx, folder), 18);
    images_set_time(folder, "a", LONG_AGO - 1);
    assert_int_equal(size_of_first(ctx, folder), 5);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_named_by_path(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], other[256], query[300], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    test_folder(other);
    make_tree(folder);
    snprintf(query, sizeof query, "?index=%s/of-tree", other);
    check_open(ctx, folder, query, "written", 4);
    check_open(ctx, folder, query, "used", 4);
    snprintf(path, sizeof path, "%s/.stoker-index", folder);
    assert_int_equal(access(path, F_OK), -1);
    /* Here the root's time counts. */
    images_set_time(folder, "", LONG_AGO + 1);
    check_open(ctx, folder, query, "written", 4);
    check_open(ctx, folder, query, "used", 4);
    /* The index of another tree. */
    snprintf(path, sizeof path, "%s/more", other);
    make_tree(path);
    check_open(ctx, path, query, "written", 4);
    check_open(ctx, folder, query, "written", 4);
    /* It cannot be written: a remark, no failure. Its folder does not exist: a mistake. */
    check_open(ctx, folder, "?index=/proc/index", "could not be written", 4);
    assert_fails(images_open_spec(ctx, folder, "?index=/no/such/folder/x", &d, &err), STK_ENOENT,
                 &err, "/no/such/folder");
    snprintf(query, sizeof query, "?index=%s/", other);
    assert_fails(images_open_spec(ctx, folder, query, &d, &err), STK_EINVAL, &err, "no file");
    test_folder_remove(other);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A folder that nobody may write to gets no index, not even from a user whom that does not bind. */
static void test_read_only(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];

    test_folder(folder);
    make_tree(folder);
    assert_int_equal(chmod(folder, 0555), 0);
    check_open(ctx, folder, "", "could not be written", 4);
    snprintf(path, sizeof path, "%s/.stoker-index", folder);
    assert_int_equal(access(path, F_OK), -1);
    /* One that was written before is used. */
    assert_int_equal(chmod(folder, 0755), 0);
    check_open(ctx, folder, "", "written", 4);
    assert_int_equal(chmod(folder, 0555), 0);
    check_open(ctx, folder, "", "used", 4);
    assert_int_equal(chmod(folder, 0755), 0);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Cut, changed, emptied, something else: each time the tree is listed and the index mended. */
static void test_damaged(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];
    size_t size;

    test_folder(folder);
    make_tree(folder);
    stk_dataset *d = images_open_good(ctx, folder, "?index=none");
    uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    check_open(ctx, folder, "", "written", 4);
    snprintf(path, sizeof path, "%s/.stoker-index", folder);
    unsigned char *good = test_load(path, &size);
    for (size_t i = 0; i <= size + 1; i += 1 + i / 40) {
        unsigned char *bad = malloc(size + 1);
        assert_non_null(bad);
        memcpy(bad, good, size);
        bad[size] = 0;
        if (i < size)
            bad[i] ^= 1;
        test_write(folder, ".stoker-index", bad, i < size ? size : i == size ? 0 : size + 1);
        free(bad);
        d = images_open_good(ctx, folder, "");
        images_check_line(d, "index", "written");
        assert_int_equal(d->fingerprint, print);
        stk_dataset_close(&d);
        test_write(folder, ".stoker-index", good, i < size ? i : size / 2);
        check_open(ctx, folder, "", "written", 4);
        check_open(ctx, folder, "", "used", 4);
    }
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    check_open(ctx, folder, "", "could not be written", 4);
    free(good);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A name below no other folder, and none of the ways out. */
static void check_key(const stk__images_table *t, uint64_t i)
{
    char key[STK_MAX_OBJECT_KEY];

    size_t length = stk__images_key(t, i, key, sizeof key);
    assert_true(length > 0 && length < sizeof key && key[0] != '/');
    for (const char *part = key; part; part = strchr(part, '/')) {
        part += *part == '/';
        assert_true(*part && *part != '/' && *part != '.');
    }
}

/* Whoever writes an index can make its checksum right: what it holds must be sound all the same. */
static void test_hostile(void **state)
{
    stk_context *ctx = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    char folder[256], path[300];
    uint64_t random = 3, taken = 0;
    size_t size;

    test_folder(folder);
    make_tree(folder);
    check_open(ctx, folder, "", "written", 4);
    snprintf(path, sizeof path, "%s/.stoker-index", folder);
    unsigned char *good = test_load(path, &size);
    unsigned char *bad = malloc(size);
    assert_non_null(bad);
    stk_context_memory(ctx, &before);
    for (int i = 0; i < 20000; i++) {
        stk__images_table t;
        memcpy(bad, good, size);
        for (int k = 0; k <= i % 3; k++) {
            uint64_t r = test_random(&random);
            static const unsigned char values[] = {0, '/', '.', 0xff, 1, 0x7f, 'a'};
            bad[24 + (r >> 8) % (size - 24)] = r & 1 ? values[(r >> 40) % 7] : (r >> 48) & 0xff;
        }
        uint64_t sum = XXH3_64bits(bad + 24, size - 24);
        memcpy(bad + 16, &sum, sizeof sum);
        if (stk__images_index_parse(ctx, bad, size, &t) != STK_OK) {
            assert_null(t.text);
            continue;
        }
        taken++;
        uint64_t files = 0;
        for (uint64_t f = 0; f < t.num_folders; f++) {
            assert_int_equal(t.folders[f].first, files);
            files += t.folders[f].count;
        }
        assert_int_equal(files, t.num_files);
        for (uint64_t f = 0; f < t.num_files; f++)
            check_key(&t, f);
        stk__images_release(&t);
    }
    /* Times and sizes may be anything. */
    assert_true(taken > 100);
    stk_context_memory(ctx, &after);
    assert_int_equal(after.bytes, before.bytes);
    free(bad);
    free(good);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Parsing gives back what was made. */
static void test_bytes_and_back(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_store *store = NULL;
    stk__images_table a, b;
    uint64_t length;
    void *data;
    stk_error err;

    test_folder(folder);
    make_tree(folder);
    images_write(folder, "b/no.gif", "x");
    assert_ok(stk_store_open(ctx, folder, &store, NULL, 0, &err), &err);
    assert_ok(stk__images_list_tree(ctx, store, 2, &a, &err), &err);
    assert_int_equal(stk__images_index_make(&a, &data, &length), STK_OK);
    assert_int_equal(stk__images_index_parse(ctx, data, length, &b), STK_OK);
    assert_int_equal(a.num_folders, b.num_folders);
    assert_int_equal(a.num_files, b.num_files);
    assert_int_equal(a.text_bytes, b.text_bytes);
    assert_int_equal(b.ignored, 1);
    assert_int_equal(b.unread, 1);
    assert_int_equal(a.listed_ns, b.listed_ns);
    assert_memory_equal(a.text, b.text, a.text_bytes);
    assert_memory_equal(a.folders, b.folders, a.num_folders * sizeof *a.folders);
    for (uint64_t i = 0; i < a.num_files; i++) {
        assert_int_equal(a.files[i].name, b.files[i].name);
        assert_int_equal(a.files[i].size, b.files[i].size);
        assert_int_equal(a.files[i].folder, b.files[i].folder);
    }
    stk__free(ctx, data);
    stk__images_release(&b);
    stk__images_release(&a);
    stk_store_close(&store);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_used_while_times_stand),
        cmocka_unit_test(test_root_is_compared_by_names),
        cmocka_unit_test(test_fresh_folders_are_listed_again),
        cmocka_unit_test(test_named_by_path),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_bytes_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

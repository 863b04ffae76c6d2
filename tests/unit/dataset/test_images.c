/* SPDX-License-Identifier: Apache-2.0 */
/* images: folders: classes, order, names, links, what is refused. */
#include "images.h"

#include <errno.h>

/* The order of torchvision's ImageFolder: classes, then all folders below one by path, then names;
 * "a" comes with all its folders before "a-b", and '-' before '/'. */
static void test_classes_and_order(void **state)
{
    static const struct {
        const char *key;
        int64_t label;
    } expected[] = {
        {"Zebra/1.jpg", 0},        {"a/1.jpg", 1},      {"a/10.png", 1},
        {"a/2.JPEG", 1},           {"a/deep/1.Png", 1}, {"a/deep-er/0.jpg", 1},
        {"a/deep/more/0.jpeg", 1}, {"a-b/0.jpg", 2},    {"b/x.jpg", 3},
    };
    stk_context *ctx = test_context();
    char folder[256];

    test_folder(folder);
    for (size_t i = STK_COUNT(expected); i-- > 0;)
        images_write(folder, expected[i].key, expected[i].key);
    images_write(folder, "a/.hidden.jpg", "x");
    images_write(folder, ".hidden/1.jpg", "x");
    images_write(folder, "a/.thumbs/1.jpg", "x");
    images_write(folder, "a/notes.txt", "x");
    images_write(folder, "a/jpg", "x");
    images_write(folder, "a/new.webp", "x");
    images_write(folder, "beside.png", "x");
    for (int again = 0; again < 2; again++) {
        stk_dataset *d = images_open_good(ctx, folder, "");
        assert_int_equal(d->size, STK_COUNT(expected));
        assert_int_equal(d->num_classes, 4);
        assert_string_equal(d->classes[0], "Zebra");
        assert_string_equal(d->classes[1], "a");
        assert_string_equal(d->classes[2], "a-b");
        assert_string_equal(d->classes[3], "b");
        for (size_t i = 0; i < STK_COUNT(expected); i++)
            images_check(d, i, expected[i].key, expected[i].label, expected[i].key);
        images_check_line(d, "pictures", "9 files, ");
        images_check_line(d, "formats by name", "7 JPEG, 2 PNG");
        images_check_line(d, "files passed over", "3 (1 of them pictures");
        images_check_line(d, "pictures next to the class folders", "1,");
        images_check_line(d, "labels", "from 4 class folders");
        images_check_line(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_fields(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];

    test_folder(folder);
    images_write(folder, "b.jpg", "bb");
    images_write(folder, "a.png", "a");
    stk_dataset *d = images_open_good(ctx, folder, "?index=none");
    assert_int_equal(d->num_fields, 2);
    const stk_field *f = &d->fields[0];
    assert_string_equal(f->name, "image");
    assert_int_equal(f->dtype, STK_UINT8);
    assert_int_equal(f->layout, STK_BYTES);
    assert_int_equal(f->rank, 3);
    assert_int_equal(f->shape[0], -1);
    assert_int_equal(f->shape[1], -1);
    assert_int_equal(f->shape[2], 3);
    assert_string_equal(f->codec, "image");
    assert_true(f->picture && !f->mask);
    assert_string_equal(d->fields[1].name, "label");
    assert_int_equal(d->fields[1].dtype, STK_INT64);
    assert_int_equal(d->fields[1].rank, 0);
    /* No class folders: one class, all labels 0. */
    assert_int_equal(d->num_classes, 1);
    images_check(d, 0, "a.png", 0, "a");
    images_check(d, 1, "b.jpg", 0, "bb");
    images_check_line(d, "labels", "all 0");
    images_check_line(d, "index", "none");
    stk_dataset_close(&d);
    d = images_open_good(ctx, folder, "?subset=1:2");
    assert_int_equal(d->size, 1);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "holds no .jpg");
    images_write(folder, "a/1.jpg", "x");
    images_write(folder, "b/c/1.webp", "x");
    images_write(folder, "c/1.jpg", "x");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "folder 'b'");
    assert_non_null(strstr(err.text, "allow_empty=true"));
    assert_non_null(strstr(err.text, "1 pictures of other formats"));
    assert_null(d);
    d = images_open_good(ctx, folder, "?allow_empty=true");
    assert_int_equal(d->num_classes, 3);
    images_check(d, 1, "c/1.jpg", 2, "x");
    stk_dataset_close(&d);
    /* The last class as well. */
    images_write(folder, "b/1.jpg", "x");
    images_write(folder, "d/none.txt", "x");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "folder 'd'");
    assert_fails(images_open_spec(ctx, folder, "?root=/tmp", &d, &err), STK_EINVAL, &err, "root");
    assert_fails(images_open_spec(ctx, folder, "?allow_emty=true", &d, &err), STK_EINVAL, &err,
                 "allow_emty");
    assert_fails(images_open_spec(ctx, folder, "?index=/", &d, &err), STK_EINVAL, &err, "index=/");
    snprintf(path, sizeof path, "%s/a/1.jpg", folder);
    assert_fails(images_open_spec(ctx, path, "", &d, &err), STK_EINVAL, &err, "no list");
    assert_fails(images_open_spec(ctx, "/no/such/folder", "", &d, &err), STK_ENOENT, &err,
                 "/no/such/folder");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_names_of_any_bytes(void **state)
{
    /* All bytes but zero and '/', in the order of bytes. */
    static const char *const names[] = {"\x01\x1b[2J.jpg", "\n.png",         " .jpg",
                                        "%41.jpg",         "?masks=x&y.jpg", "a\\b.jpg",
                                        "\xc3\xa9.jpg",    "\xff\xfe.jpg"};
    stk_context *ctx = test_context();
    char folder[256], key[600], longest[256];

    test_folder(folder);
    memset(longest, 'z', sizeof longest);
    snprintf(longest + 251, 5, ".jpg");
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        snprintf(key, sizeof key, "cl\xfe\nss/%s", names[i]);
        images_write(folder, key, names[i]);
    }
    snprintf(key, sizeof key, "cl\xfe\nss/%s", longest);
    images_write(folder, key, "long");
    for (int again = 0; again < 2; again++) {
        stk_dataset *d = images_open_good(ctx, folder, "");
        assert_int_equal(d->size, STK_COUNT(names) + 1);
        assert_string_equal(d->classes[0], "cl\xfe\nss");
        for (size_t i = 0; i < STK_COUNT(names); i++) {
            snprintf(key, sizeof key, "cl\xfe\nss/%s", names[i]);
            images_check(d, i < 6 ? i : i + 1, key, 0, names[i]);
        }
        images_check_line(d, "index", again ? "used" : "written");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void make_link(const char *folder, const char *name, const char *target)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static void remove_below(const char *folder, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

static void test_links(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;
    taken t;

    test_folder(folder);
    images_write(folder, "a/1.jpg", "one");
    images_write(folder, "a/in/2.jpg", "two");
    make_link(folder, "b", "a");            /* a class that is another */
    make_link(folder, "a/3.jpg", "1.jpg");  /* a picture that is another */
    make_link(folder, "a/4.jpg", "absent"); /* one that is not there */
    make_link(folder, "a/5.txt", "absent");
    snprintf(path, sizeof path, "%s/a/pipe.jpg", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    d = images_open_good(ctx, folder, "");
    assert_int_equal(d->size, 8);
    images_check(d, 0, "a/1.jpg", 0, "one");
    images_check(d, 1, "a/3.jpg", 0, "one");
    images_check(d, 3, "a/in/2.jpg", 0, "two");
    images_check(d, 7, "b/in/2.jpg", 1, "two");
    images_take(d, 2, &t);
    assert_string_equal(t.keys[0], "a/4.jpg");
    assert_int_equal(t.status, STK_ENOENT);
    stk_dataset_close(&d);
    /* Circles: through a folder above, through the root, through itself; found by way of a or b. */
    make_link(folder, "a/in/up", "..");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_EINVAL, &err, "/in/up");
    assert_non_null(strstr(err.text, "remove the link"));
    remove_below(folder, "a/in/up");
    make_link(folder, "a/in/root", "../..");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_EINVAL, &err, "/in/root");
    remove_below(folder, "a/in/root");
    make_link(folder, "a/in/self.jpg", "self.jpg");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_EINVAL, &err, "/in/self.jpg");
    remove_below(folder, "a/in/self.jpg");
    d = images_open_good(ctx, folder, "");
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A link that leads out of the root is an error, whatever it is named and wherever it stands. */
static void test_links_out(void **state)
{
    static const char *const names[] = {"a/3.jpg", "a/labels.txt", "b", "a/in/deep"};
    static const char *const targets[] = {"../../out/1.jpg", "../../out/1.jpg", "../out",
                                          "../../../out"};
    stk_context *ctx = test_context();
    char folder[256], root[300], link[320];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    images_write(folder, "out/1.jpg", "secret");
    images_write(folder, "root/a/1.jpg", "one");
    images_write(folder, "root/a/in/2.jpg", "two");
    snprintf(root, sizeof root, "%s/root", folder);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        make_link(root, names[i], targets[i]);
        snprintf(link, sizeof link, "link '%s' leads out", names[i]);
        for (int again = 0; again < 2; again++) {
            assert_fails(images_open_spec(ctx, root, "", &d, &err), STK_EACCES, &err, link);
            assert_non_null(strstr(err.text, "follow_links=true"));
            assert_null(d);
            /* Allowed, and the index that is written then does not allow it for others. */
            stk_dataset *followed = images_open_good(ctx, root, "?follow_links=true");
            assert_int_equal(followed->size, i == 1 ? 2 : 3);
            stk_dataset_close(&followed);
        }
        remove_below(root, names[i]);
    }
    /* The root itself may be a link, and so may a folder above it. */
    make_link(folder, "way", "root");
    snprintf(link, sizeof link, "%s/way", folder);
    d = images_open_good(ctx, link, "");
    assert_int_equal(d->size, 2);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Links that lead to few folders in many ways: 32 x 33 times the 1,024 files of one. */
static void test_links_nested(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    char folder[256], name[40];
    stk_error err;

    test_folder(folder);
    for (int i = 0; i < 1024; i++) {
        snprintf(name, sizeof name, "c/%d.jpg", i);
        images_write(folder, name, "x");
    }
    images_write(folder, "b/1.jpg", "x");
    images_write(folder, "a/1.jpg", "x");
    for (int i = 0; i < 33; i++) {
        snprintf(name, sizeof name, "b/l%d", i);
        make_link(folder, name, "../c");
    }
    make_link(folder, "a/l0", "../b");
    d = images_open_good(ctx, folder, "?index=none");
    assert_int_equal(d->size, 1024 + 2 * (33 * 1024 + 1) + 1);
    stk_dataset_close(&d);
    for (int i = 1; i < 33; i++) {
        snprintf(name, sizeof name, "a/l%d", i);
        make_link(folder, name, "../b");
    }
    assert_fails(images_open_spec(ctx, folder, "?index=none", &d, &err), STK_ELIMIT, &err,
                 "more than 1048576 entries (STK__IMAGES_MAX_REPEATS)");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_depth(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], key[200] = "";
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    for (uint32_t i = 0; i < STK__IMAGES_MAX_DEPTH; i++)
        strncat(key, "d/", sizeof key - strlen(key) - 1);
    strncat(key, "1.jpg", sizeof key - strlen(key) - 1);
    images_write(folder, key, "x");
    d = images_open_good(ctx, folder, "");
    images_check(d, 0, key, 0, "x");
    stk_dataset_close(&d);
    snprintf(key + 2 * STK__IMAGES_MAX_DEPTH, 8, "d/1.jpg");
    images_write(folder, key, "x");
    assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_ELIMIT, &err, "folders deep");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_unreadable(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;
    taken t;

    test_folder(folder);
    images_write(folder, "a/1.jpg", "one");
    images_write(folder, "b/1.jpg", "one");
    assert_int_equal(chmod(folder, 0555), 0);
    snprintf(path, sizeof path, "%s/a/1.jpg", folder);
    assert_int_equal(chmod(path, 0), 0);
    test_bind_by_permissions(true);
    /* A file: a bad sample. The folder cannot be written to: no index, no complaint. */
    for (int again = 0; again < 2; again++) {
        d = images_open_good(ctx, folder, "");
        images_check_line(d, "index", "could not be written");
        images_take(d, 0, &t);
        assert_int_equal(t.status, STK_EACCES);
        images_check(d, 1, "b/1.jpg", 1, "one");
        stk_dataset_close(&d);
    }
    snprintf(path, sizeof path, "%s/b", folder);
    /* Neither listed, nor looked into. */
    for (mode_t mode = 0; mode <= 0444; mode += 0444) {
        assert_int_equal(chmod(path, mode), 0);
        assert_fails(images_open_spec(ctx, folder, "", &d, &err), STK_EACCES, &err, "'b");
    }
    assert_int_equal(chmod(path, 0755), 0);
    test_bind_by_permissions(false);
    assert_int_equal(chmod(folder, 0755), 0);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void compare_tables(const stk__images_table *a, const stk__images_table *b)
{
    assert_int_equal(a->num_folders, b->num_folders);
    assert_int_equal(a->num_files, b->num_files);
    assert_int_equal(a->text_bytes, b->text_bytes);
    assert_int_equal(a->ignored, b->ignored);
    assert_memory_equal(a->text, b->text, a->text_bytes);
    for (uint64_t i = 0; i < a->num_folders; i++) {
        assert_int_equal(a->folders[i].path, b->folders[i].path);
        assert_int_equal(a->folders[i].first, b->folders[i].first);
        assert_int_equal(a->folders[i].count, b->folders[i].count);
    }
    for (uint64_t i = 0; i < a->num_files; i++) {
        assert_int_equal(a->files[i].name, b->files[i].name);
        assert_int_equal(a->files[i].size, b->files[i].size);
        assert_int_equal(a->files[i].folder, b->files[i].folder);
    }
}

/* One thread, many, and the listing of a store that knows no folders' descriptors: one table. */
static void test_all_ways_list_the_same(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], name[200], url[300];
    stk_store *local = NULL, *other = NULL;
    stk__images_table one, many;
    uint64_t random = 7;
    stk_error err;

    test_folder(folder);
    for (int i = 0; i < 600; i++) {
        uint64_t r = test_random(&random);
        snprintf(name, sizeof name, "c%u/%s%u%s/%c%d.%s", (unsigned)(r % 23), r & 64 ? "x/" : "",
                 (unsigned)(r >> 8) % 5, r & 128 ? "-" : "", 'a' + (char)(r >> 16) % 26, i,
                 r % 11 ? "jpg" : "txt");
        test_write(folder, name, folder, (r >> 20) % 50);
    }
    assert_ok(stk_store_open(ctx, folder, &local, NULL, 0, &err), &err);
    snprintf(url, sizeof url, "slow+file://%s", folder);
    assert_ok(stk_store_open(ctx, url, &other, NULL, 0, &err), &err);
    assert_ok(stk__images_list_tree(ctx, local, 1, &one, &err), &err);
    assert_true(one.num_files > 500 && one.num_folders > 100);
    for (uint32_t threads = 2; threads <= 16; threads *= 2) {
        assert_ok(stk__images_list_tree(ctx, local, threads, &many, &err), &err);
        compare_tables(&one, &many);
        for (uint64_t i = 0; i < one.num_folders; i++)
            assert_memory_equal(&one.folders[i], &many.folders[i], sizeof one.folders[i]);
        stk__images_release(&many);
        assert_ok(stk__images_list_tree(ctx, other, threads, &many, &err), &err);
        compare_tables(&one, &many);
        stk__images_release(&many);
    }
    stk__images_release(&one);
    stk_store_close(&other);
    stk_store_close(&local);
    /* And the dataset is the same. */
    stk_dataset *a = images_open_good(ctx, folder, ""), *b = images_open_good(ctx, url, "");
    assert_int_equal(a->fingerprint, b->fingerprint);
    assert_int_equal(a->size, b->size);
    images_check_line(b, "index", "none");
    stk_dataset_close(&b);
    stk_dataset_close(&a);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_fingerprint(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], from[300], to[300];
    uint64_t prints[5];

    test_folder(folder);
    images_write(folder, "a/1.jpg", "x");
    images_write(folder, "b/2.jpg", "x");
    snprintf(from, sizeof from, "%s/b", folder);
    snprintf(to, sizeof to, "%s/c", folder);
    for (int i = 0; i < 5; i++) {
        if (i == 2)
            images_write(folder, "b/2.jpg", "xy"); /* another size */
        if (i == 3)
            assert_int_equal(rename(from, to), 0); /* another path */
        if (i == 4)
            images_write(folder, "b/3.jpg", "x"); /* another label, and a file more */
        stk_dataset *d = images_open_good(ctx, folder, "?index=none");
        prints[i] = d->fingerprint;
        stk_dataset_close(&d);
    }
    assert_int_equal(prints[0], prints[1]);
    for (int i = 1; i < 4; i++)
        for (int k = i + 1; k < 5; k++)
            assert_int_not_equal(prints[i], prints[k]);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_recognised(void **state)
{
    static const unsigned char idx[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 1};
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    assert_int_equal(stk__dataset_images.recognise(ctx, folder), 0);
    images_write(folder, "one/note.txt", "x");
    images_write(folder, "two/1.JPG", "x");
    assert_int_equal(stk__dataset_images.recognise(ctx, folder), 2);
    snprintf(path, sizeof path, "%s/two", folder);
    assert_int_equal(stk__dataset_images.recognise(ctx, path), 1);
    assert_ok(stk_dataset_open(ctx, path, &d, &err), &err);
    assert_string_equal(d->ops->name, "images");
    stk_dataset_close(&d);
    snprintf(path, sizeof path, "%s/two/1.JPG", folder);
    assert_int_equal(stk__dataset_images.recognise(ctx, path), 0);
    assert_int_equal(stk__dataset_images.recognise(ctx, "/no/such/folder"), 0);
    /* A picture beside the files of another kind changes nothing. */
    snprintf(path, sizeof path, "%s/mnist", folder);
    test_write(folder, "mnist/train-images-idx3-ubyte", idx, sizeof idx);
    test_write(folder, "mnist/train-labels-idx1-ubyte", labels, sizeof labels);
    images_write(folder, "mnist/preview.png", "x");
    assert_ok(stk_dataset_open(ctx, path, &d, &err), &err);
    assert_string_equal(d->ops->name, "mnist");
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Through the loader: an empty file, one that was cut, one that is gone; the others arrive. */
static void test_bad_files(void **state)
{
    static const char *const good[] = {"3", "55555"};
    stk_context *ctx = test_context();
    char folder[256];
    stk_loader_options options;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label};
    stk_error err;
    taken t;

    test_folder(folder);
    images_write(folder, "a/1.jpg", "");
    images_write(folder, "a/2.jpg", "22222222");
    images_write(folder, "a/3.jpg", good[0]);
    images_write(folder, "a/4.jpg", "4");
    images_write(folder, "b/5.jpg", good[1]);
    stk_dataset *d = images_open_good(ctx, folder, "");
    images_write(folder, "a/2.jpg", "2");
    remove_below(folder, "a/4.jpg");
    images_take(d, 0, &t);
    assert_int_equal(t.status, STK_ETRUNCATED);
    assert_non_null(strstr(t.reason, "empty"));
    images_take(d, 1, &t);
    assert_int_equal(t.status, STK_ETRUNCATED);
    images_take(d, 3, &t);
    assert_int_equal(t.status, STK_ENOENT);
    stk_loader_options_init(&options);
    options.batch_size = 5;
    options.on_error = STK_ON_ERROR_SKIP;
    options.num_workers = 2;
    options.epochs = 1;
    assert_ok(stk_loader_create(d, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_count(batch), 2);
    assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(image.offsets[i + 1] - image.offsets[i], strlen(good[i]));
        assert_memory_equal((char *)image.data + image.offsets[i], good[i], strlen(good[i]));
        assert_int_equal(((int64_t *)label.data)[i], i);
    }
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Names live in one arena: the table of a large tree is small. */
static void test_memory(void **state)
{
    stk_context *ctx = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    char folder[256], name[64];

    test_folder(folder);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "n%08d/n%08d_%05d.JPEG", i % 10, i % 10, i);
        images_write(folder, name, "");
    }
    for (int again = 0; again < 2; again++) {
        stk_context_memory(ctx, &before);
        stk_dataset *d = images_open_good(ctx, folder, "");
        stk_context_memory(ctx, &after);
        assert_int_equal(d->size, 3000);
        assert_true((after.bytes - before.bytes) / 3000 <= 100);
        stk_dataset_close(&d);
    }
    stk_context_memory(ctx, &after);
    assert_int_equal(after.bytes, before.bytes);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_and_order),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_names_of_any_bytes),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_links_out),
        cmocka_unit_test(test_links_nested),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_all_ways_list_the_same),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_recognised),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* images: list files: what parts the values, quotes, labels, what is refused and where. */
#include "images.h"

/* A folder with pictures under odd names. */
static void make_folder(const char *folder)
{
    images_write(folder, "a.jpg", "a");
    images_write(folder, "in/b.jpg", "bb");
    images_write(folder, "in/c, d.jpg", "ccc");
    images_write(folder, "in/say \"e\".jpg", "eeee");
    images_write(folder, "in/two\nlines.jpg", "f");
    images_write(folder, "# g.jpg", "g");
}

static stk_status open_list(stk_context *ctx, const char *folder, const char *name,
                            const char *text, const char *query, stk_dataset **out, stk_error *err)
{
    char path[400];

    test_write(folder, name, text, strlen(text));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return images_open_spec(ctx, path, query, out, err);
}

static void test_separators(void **state)
{
    static const struct {
        const char *name, *text;
    } lists[] = {
        {"l.csv", "a.jpg,3\nin/b.jpg,-1\n"},
        {"l.csv", "path,label\r\na.jpg,3\r\nin/b.jpg,-1\r\n"},
        {"l.CSV", "\xef\xbb\xbfImage,Label\n\n# remark\n   \na.jpg, 3 \nin/b.jpg,-1"},
        {"l.csv", "\"a.jpg\",\"3\"\n\"in/b.jpg\",-1\n"},
        {"l.tsv", "a.jpg\t3\nin/b.jpg\t-1\n"},
        {"l.tsv", "filename\tclass\n./a.jpg\t+3\n././in/b.jpg\t-1\n"},
        {"l.txt", "a.jpg\t3\nin/b.jpg\t-1\n"},
        {"l.txt", "#\na.jpg,3\nin/b.jpg,-1\n"},
        {"l.txt", "a.jpg 3\r\nin/b.jpg   -1\r\n"},
    };
    stk_context *ctx = test_context();
    char folder[256];
    stk_error err;

    test_folder(folder);
    make_folder(folder);
    for (size_t i = 0; i < STK_COUNT(lists); i++) {
        stk_dataset *d = NULL;
        assert_ok(open_list(ctx, folder, lists[i].name, lists[i].text, "", &d, &err), &err);
        assert_int_equal(d->size, 2);
        assert_null(d->classes);
        assert_int_equal(d->num_classes, 0);
        images_check(d, 0, "a.jpg", 3, "a");
        images_check(d, 1, "in/b.jpg", -1, "bb");
        images_check_line(d, "labels", "numbers");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_quotes(void **state)
{
    static const char list[] = "\"in/c, d.jpg\",1\n"
                               "\"in/say \"\"e\"\".jpg\",2\r\n"
                               "\"in/two\nlines.jpg\",3\n"
                               "\"# g.jpg\",4\n"
                               "\"\"\"\",5\n";
    stk_context *ctx = test_context();
    char folder[256];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    make_folder(folder);
    images_write(folder, "\"", "q");
    assert_ok(open_list(ctx, folder, "l.csv", list, "", &d, &err), &err);
    assert_int_equal(d->size, 5);
    images_check(d, 0, "in/c, d.jpg", 1, "ccc");
    images_check(d, 1, "in/say \"e\".jpg", 2, "eeee");
    images_check(d, 2, "in/two\nlines.jpg", 3, "f");
    images_check(d, 3, "# g.jpg", 4, "g");
    images_check(d, 4, "\"", 5, "q");
    stk_dataset_close(&d);
    /* Quotes are CSV's; with tabs they stand for themselves. */
    assert_ok(open_list(ctx, folder, "l.tsv", "in/say \"e\".jpg\t1\n\"\t2", "", &d, &err), &err);
    images_check(d, 0, "in/say \"e\".jpg", 1, "eeee");
    images_check(d, 1, "\"", 2, "q");
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_names_as_labels(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    make_folder(folder);
    assert_ok(open_list(ctx, folder, "l.csv",
                        "a.jpg,wolf\nin/b.jpg,\"cat, big\"\na.jpg,7\nin/b.jpg,wolf\n", "", &d,
                        &err),
              &err);
    assert_int_equal(d->num_classes, 3);
    assert_string_equal(d->classes[0], "7");
    assert_string_equal(d->classes[1], "cat, big");
    assert_string_equal(d->classes[2], "wolf");
    images_check(d, 0, "a.jpg", 2, "a");
    images_check(d, 1, "in/b.jpg", 1, "bb");
    images_check(d, 2, "a.jpg", 0, "a");
    images_check(d, 3, "in/b.jpg", 2, "bb");
    images_check_line(d, "labels", "by name");
    uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    assert_ok(open_list(ctx, folder, "l.csv",
                        "a.jpg,wolf\nin/b.jpg,wolf\na.jpg,7\nin/b.jpg,\"cat, big\"\n", "", &d,
                        &err),
              &err);
    assert_int_not_equal(d->fingerprint, print);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_roots(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], other[256], text[700], query[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    test_folder(other);
    make_folder(folder);
    snprintf(query, sizeof query, "?root=%s", folder);
    assert_ok(open_list(ctx, other, "l.csv", "in/b.jpg,1\n", query, &d, &err), &err);
    images_check(d, 0, "in/b.jpg", 1, "bb");
    stk_dataset_close(&d);
    snprintf(text, sizeof text, "%s/a.jpg,4\n/%s/in/b.jpg,5\n", folder, folder);
    assert_fails(open_list(ctx, other, "l.csv", text, "", &d, &err), STK_EACCES, &err,
                 "l.csv:1: the paths are absolute");
    assert_non_null(strstr(err.text, "?root=/ or ?follow_links=true"));
    assert_ok(open_list(ctx, other, "l.csv", text, "?follow_links=true", &d, &err), &err);
    stk_dataset_close(&d);
    assert_ok(open_list(ctx, other, "l.csv", text, "?root=/", &d, &err), &err);
    snprintf(text, sizeof text, "%s/in/b.jpg", folder + 1);
    images_check(d, 1, text, 5, "bb");
    stk_dataset_close(&d);
    snprintf(text, sizeof text, "%s/a.jpg,4\n", folder);
    assert_fails(open_list(ctx, other, "l.csv", text, query, &d, &err), STK_EINVAL, &err, "root=");
    snprintf(text, sizeof text, "%s/a.jpg,4\na.jpg,5\n", folder);
    assert_fails(open_list(ctx, other, "l.csv", text, "", &d, &err), STK_EFORMAT, &err, "l.csv:2:");
    test_folder_remove(other);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *text;
        stk_status status;
        const char *part;
    } lists[] = {
        {"l.csv", "", STK_EFORMAT, "lists no pictures"},
        {"l.csv", "path,label\n# nothing\n\n", STK_EFORMAT, "lists no pictures"},
        {"l.csv", "a.jpg,1\n\nabsent.jpg,2\nabsent2.jpg,2\n", STK_ENOENT,
         "l.csv:3: there is no file 'absent.jpg'"},
        {"l.csv", "a.jpg,1\nin,2\n", STK_ENOENT, "l.csv:2: there is no file 'in'"},
        {"l.csv", "a.jpg,1\na.jpg\n", STK_EFORMAT, "l.csv:2: there is no label behind 'a.jpg'"},
        {"l.csv", "a.jpg,1\na.jpg,  \r\n", STK_EFORMAT, "l.csv:2: there is no label"},
        {"l.csv", "a.jpg,1\n,1\n", STK_EFORMAT, "l.csv:2: there is no path"},
        {"l.csv", "a.jpg,1\na.jpg,1,2\n", STK_EFORMAT, "l.csv:2: a third value begins with '2'"},
        {"l.csv", "a.jpg,1\n#\n\"a.jpg,1\n", STK_EFORMAT, "l.csv:3: a quote is not closed"},
        {"l.csv", "\"two\nlines\"x,1\n", STK_EFORMAT, "l.csv:1: something follows"},
        {"l.csv", "a.jpg,1\n../a.jpg,1\n", STK_EINVAL, "l.csv:2: '..' leaves"},
        {"l.csv", "in/../a.jpg,1\n", STK_EINVAL, "root=DIR"},
        {"l.csv", ".//etc/passwd,1\n", STK_ENOENT, "there is no file 'etc/passwd'"},
        {"l.csv", "././/./etc/passwd,1\n", STK_ENOENT, "there is no file 'etc/passwd'"},
        {"l.csv", "/./../etc/passwd,1\n", STK_EINVAL, "'..' leaves"},
        {"l.csv", "a.jpg,1\nout.jpg,1\n", STK_EACCES, "link 'out.jpg' leads out"},
        {"l.csv", "in/up/a.jpg,1\n", STK_EACCES, "link 'in/up' leads out"},
        {"l.csv", "a.jpg,9223372036854775807\na.jpg,-9223372036854775809\n", STK_ELIMIT,
         "l.csv:2: a label is int64"},
        {"l.tsv", "a.jpg,1\n", STK_EFORMAT, "l.tsv:1: there is no label"},
        {"l.txt", "a.jpg\n", STK_EFORMAT, "l.txt:1: there is no path"},
    };
    stk_context *ctx = test_context();
    char folder[256], path[300], longest[5000];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    make_folder(folder);
    snprintf(path, sizeof path, "%s/out.jpg", folder);
    assert_int_equal(symlink("../a.jpg", path), 0);
    snprintf(path, sizeof path, "%s/in/up", folder);
    assert_int_equal(symlink("../..", path), 0);
    for (size_t i = 0; i < STK_COUNT(lists); i++) {
        assert_fails(open_list(ctx, folder, lists[i].name, lists[i].text, "", &d, &err),
                     lists[i].status, &err, lists[i].part);
        assert_null(d);
    }
    memset(longest, 'x', sizeof longest);
    memcpy(longest + sizeof longest - 4, ",1\n", 4);
    assert_fails(open_list(ctx, folder, "l.csv", longest, "", &d, &err), STK_ELIMIT, &err,
                 "l.csv:1: too long");
    test_write(folder, "l.csv", "a.jpg,1\nb\0.jpg,1\n", 17);
    snprintf(path, sizeof path, "%s/l.csv", folder);
    assert_fails(images_open_spec(ctx, path, "", &d, &err), STK_EFORMAT, &err, "l.csv:2: a zero");
    assert_fails(open_list(ctx, folder, "l.csv", "a.jpg,1\n", "?masks=in", &d, &err), STK_EINVAL,
                 &err, "masks");
    assert_fails(open_list(ctx, folder, "l.csv", "a.jpg,1\n", "?index=none", &d, &err), STK_EINVAL,
                 &err, "index");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Through a store that is no folder of this machine: the same samples, and the same is missing. */
static void test_through_a_store(void **state)
{
    static const struct {
        const char *text, *part; /* NULL: it opens */
    } lists[] = {
        {"a.jpg,3\nin/b.jpg,-1\n", NULL},
        {"a.jpg,1\n\nabsent.jpg,2\nabsent2.jpg,2\n", "l.csv:3: there is no file 'absent.jpg'"},
        {"a.jpg,1\nin,2\n", "l.csv:2: there is no file 'in'"},
        {"a.jpg,1\na.jpg/b.jpg,2\n", "l.csv:2: there is no file 'a.jpg/b.jpg'"},
    };
    stk_context *ctx = test_context();
    char folder[256], path[300];
    stk_error err;

    test_folder(folder);
    make_folder(folder);
    snprintf(path, sizeof path, "slow+file://%s/l.csv", folder);
    for (size_t i = 0; i < STK_COUNT(lists); i++) {
        stk_dataset *d = NULL;
        test_write(folder, "l.csv", lists[i].text, strlen(lists[i].text));
        const stk_status status = images_open_spec(ctx, path, "", &d, &err);
        if (lists[i].part) {
            assert_fails(status, STK_ENOENT, &err, lists[i].part);
            continue;
        }
        assert_ok(status, &err);
        images_check(d, 0, "a.jpg", 3, "a");
        images_check(d, 1, "in/b.jpg", -1, "bb");
        stk_dataset_close(&d);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Many files, so that several threads ask for their sizes; the first missing one is named. */
static void test_many(void **state)
{
    enum { COUNT = 3000 };
    stk_context *ctx = test_context();
    char folder[256], name[32], *text = malloc(COUNT * 32);
    size_t used = 0;
    stk_dataset *d = NULL;
    stk_error err;

    assert_non_null(text);
    test_folder(folder);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "%d/%04d.jpg", i % 7, i);
        test_write(folder, name, name, (size_t)(i % 5));
        used += (size_t)snprintf(text + used, COUNT * 32 - used, "%s,%d\n", name, i % 13);
    }
    assert_ok(open_list(ctx, folder, "l.csv", text, "", &d, &err), &err);
    assert_int_equal(d->size, COUNT);
    for (uint64_t i = 0; i < COUNT; i += 501) {
        taken t;
        images_take(d, i, &t);
        assert_int_equal(t.needs[0].size, i % 5);
        if (i % 5)
            assert_int_equal(t.label, i % 13);
    }
    stk_dataset_close(&d);
    for (int i = COUNT - 1; i >= 1400; i -= 400) {
        char path[400];
        snprintf(path, sizeof path, "%s/%d/%04d.jpg", folder, i % 7, i);
        assert_int_equal(remove(path), 0);
        snprintf(name, sizeof name, "l.csv:%d:", i + 1);
        assert_fails(open_list(ctx, folder, "l.csv", text, "", &d, &err), STK_ENOENT, &err, name);
    }
    free(text);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What a list needs is known from its length and lines, before any of it is taken. */
static void test_memory(void **state)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_dataset *d = NULL;
    char folder[256];
    char *text = calloc(1, 250000 * 4 + 1);
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = 8 << 20;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    test_folder(folder);
    make_folder(folder);
    assert_non_null(text);
    for (size_t i = 0; i < 250000; i++)
        memcpy(text + 4 * i, "a,1\n", 4);
    assert_fails(open_list(ctx, folder, "l.csv", text, "", &d, &err), STK_ELIMIT, &err,
                 "the 250001 lines");
    assert_non_null(strstr(err.text, "memory_limit"));
    free(text);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_separators),      cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_names_as_labels), cmocka_unit_test(test_roots),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_through_a_store),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

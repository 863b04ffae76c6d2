/* SPDX-License-Identifier: Apache-2.0 */
/* images: labels of pictures from the rows of a table: which columns, which pictures, what labels.
 */
#include "dataset/taken.h"
#include "images.h"
#include "support/objects.h"

/* Pictures at different depths, among them two of one name. */
static void make_folder(const char *folder)
{
    images_write(folder, "a.jpg", "a");
    images_write(folder, "b.png", "bb");
    images_write(folder, "in/007.jpg", "ccc");
    images_write(folder, "in/d.e.jpg", "dddd");
}

static void remove_file(const char *folder, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

typedef struct room {
    stk_context *ctx;
    char folder[256];
} room;

static room room_open(void)
{
    room r = {.ctx = test_context()};

    test_folder(r.folder);
    make_folder(r.folder);
    return r;
}

static void room_close(room *r)
{
    test_folder_remove(r->folder);
    stk_context_destroy(&r->ctx);
}

/* Open the folder with a table beside the pictures; `query` begins with '&' or is empty. */
static stk_status open_table(room *r, const char *name, const char *text, const char *query,
                             stk_dataset **out, stk_error *err)
{
    char all[600];

    test_write(r->folder, name, text, strlen(text));
    snprintf(all, sizeof all, "?index=none&labels=%s%s", name, query);
    return images_open_spec(r->ctx, r->folder, all, out, err);
}

static stk_dataset *open_good(room *r, const char *name, const char *text, const char *query)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(open_table(r, name, text, query, &d, &err), &err);
    return d;
}

static void refuse(room *r, const char *text, const char *query, stk_status status,
                   const char *const *says)
{
    stk_dataset *d = NULL;
    stk_error err;

    const stk_status got = open_table(r, "labels.csv", text, query, &d, &err);
    if (got != status)
        fail_msg("%s: status %d: %s", query, got, err.text);
    assert_null(d);
    for (; *says; says++)
        if (!strstr(err.text, *says))
            fail_msg("\"%s\" has no \"%s\"", err.text, *says);
}

#define REFUSE(room, text, query, status, ...)                                                     \
    refuse(room, text, query, status, (const char *const[]){__VA_ARGS__, NULL})

/* Sample `i` is this file with these bytes for a label. */
static void check(stk_dataset *d, uint64_t i, const char *key, const void *label, size_t size)
{
    stk__taken taken;
    char is[STK_MAX_OBJECT_KEY];
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk__taken_open(&taken, d, &err), &err);
    assert_ok(stk__taken_read(&taken, i, &err), &err);
    assert_string_equal(images_object_key(d, i, is), key);
    assert_int_equal(taken.values[1].size, size);
    assert_memory_equal(taken.values[1].data, label, size);
    stk__taken_close(&taken);
}

static void check_class(stk_dataset *d, uint64_t i, const char *key, int64_t label)
{
    check(d, i, key, &label, sizeof label);
    assert_int_equal(d->label(d, i), label);
}

#define CHECK_VALUES(d, i, key, ...)                                                               \
    check(d, i, key, (const float[]){__VA_ARGS__}, sizeof(float[]){__VA_ARGS__})

/* ---- Classes --------------------------------------------------------------------------------- */

#define BY_NAME                                                                                    \
    "file_name,label\n"                                                                            \
    "in/007.jpg,cat\n"                                                                             \
    "./a,dog\n"                                                                                    \
    "d.e,ant\n"                                                                                    \
    "b.png,cat\n"

/* Paths, names of files in folders, with and without extension; classes in the order of bytes. */
static void test_names(void **state)
{
    static const char *const names[] = {"ant", "cat", "dog"};
    room r = room_open();
    stk_dataset *d = open_good(&r, "labels.csv", BY_NAME, "");

    assert_int_equal(d->size, 4);
    assert_int_equal(d->fields[1].dtype, STK_INT64);
    assert_int_equal(d->fields[1].rank, 0);
    assert_int_equal(d->num_classes, 3);
    for (uint32_t c = 0; c < 3; c++)
        assert_string_equal(d->classes[c], names[c]);
    check_class(d, 0, "a.jpg", 2);
    check_class(d, 1, "b.png", 1);
    check_class(d, 2, "in/007.jpg", 1);
    check_class(d, 3, "in/d.e.jpg", 0);
    images_check_line(d, "labels", "from the table, by name");
    stk_dataset_close(&d);
    room_close(&r);
}

/* In lines 007 names 007.jpg, and no 7.jpg. */
static void test_numbers(void **state)
{
    room r = room_open();
    stk_dataset *d = NULL;

    images_write(r.folder, "8.jpg", "8");
    remove_file(r.folder, "a.jpg");
    remove_file(r.folder, "b.png");
    remove_file(r.folder, "in/d.e.jpg");
    d = open_good(&r, "labels.csv", "grade,id,note\n-3,007,x\n4,8,y\n", "&label_columns=grade");
    assert_int_equal(d->size, 2);
    assert_int_equal(d->num_classes, 0);
    assert_null(d->classes);
    check_class(d, 0, "8.jpg", 4);
    check_class(d, 1, "in/007.jpg", -3);
    images_check_line(d, "labels", "from the table, numbers");
    stk_dataset_close(&d);
    d = open_good(&r, "labels.jsonl",
                  "{\"image_id\": \"007\", \"ok\": true}\n{\"image_id\": \"8\", \"ok\": false}\n",
                  "");
    check_class(d, 0, "8.jpg", 0);
    check_class(d, 1, "in/007.jpg", 1);
    stk_dataset_close(&d);
    room_close(&r);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

#define VALUES                                                                                     \
    "path,age,mass,kind\n"                                                                         \
    "a.jpg,1.5,7,x\n"                                                                              \
    "b.png,-2,8,x\n"                                                                               \
    "in/007.jpg,0.25,9,y\n"                                                                        \
    "in/d.e.jpg,1e3,10,y\n"

static void test_values(void **state)
{
    room r = room_open();
    stk_dataset *d = open_good(&r, "labels.csv", VALUES, "&label_columns=mass,age");

    assert_int_equal(d->fields[1].dtype, STK_FLOAT32);
    assert_int_equal(d->fields[1].rank, 1);
    assert_int_equal(d->fields[1].shape[0], 2);
    assert_null(d->classes);
    assert_null(d->label);
    CHECK_VALUES(d, 0, "a.jpg", 7, 1.5f);
    CHECK_VALUES(d, 3, "in/d.e.jpg", 10, 1000);
    images_check_line(d, "labels", "numbers of 2: mass age");
    stk_dataset_close(&d);
    /* One number is a list of one, as models give it. */
    d = open_good(&r, "labels.csv", VALUES, "&label_columns=age");
    assert_int_equal(d->fields[1].rank, 1);
    assert_int_equal(d->fields[1].shape[0], 1);
    CHECK_VALUES(d, 1, "b.png", -2);
    stk_dataset_close(&d);
    d = open_good(&r, "labels.csv", VALUES, "&label_columns=mass&label_type=value");
    CHECK_VALUES(d, 2, "in/007.jpg", 9);
    stk_dataset_close(&d);
    d = open_good(&r, "labels.csv", VALUES, "&label_columns=mass");
    check_class(d, 2, "in/007.jpg", 9);
    stk_dataset_close(&d);
    room_close(&r);
}

#define LISTS                                                                                      \
    "{\"file\": \"a.jpg\", \"at\": [1, 2.5]}\n"                                                    \
    "{\"file\": \"b.png\", \"at\": [3, 4]}\n"                                                      \
    "{\"file\": \"007.jpg\", \"at\": [5, 6]}\n"

static void test_lists(void **state)
{
    room r = room_open();
    stk_dataset *d = NULL;
    stk_error err;

    d = open_good(&r, "l.jsonl", LISTS "{\"file\": \"d.e\", \"at\": [7, -8]}\n", "");
    assert_int_equal(d->fields[1].shape[0], 2);
    CHECK_VALUES(d, 0, "a.jpg", 1, 2.5f);
    CHECK_VALUES(d, 3, "in/d.e.jpg", 7, -8);
    stk_dataset_close(&d);
    assert_int_equal(
        open_table(&r, "l.jsonl", LISTS "{\"file\": \"d.e\", \"at\": [7]}\n", "", &d, &err),
        STK_EFORMAT);
    assert_non_null(strstr(err.text, "l.jsonl:4"));
    room_close(&r);
}

/* ---- Several classes each -------------------------------------------------------------------- */

#define FLAGS                                                                                      \
    "image,sun,sea,sand\n"                                                                         \
    "a,1,0,0\n"                                                                                    \
    "b,0,0,0\n"                                                                                    \
    "007,1,1,1\n"                                                                                  \
    "d.e,0,0,1\n"

static void test_flags(void **state)
{
    static const char *const names[] = {"sun", "sea", "sand"};
    room r = room_open();
    stk_dataset *d = open_good(&r, "labels.csv", FLAGS, "");

    assert_int_equal(d->fields[1].dtype, STK_FLOAT32);
    assert_int_equal(d->fields[1].shape[0], 3);
    assert_int_equal(d->num_classes, 3);
    for (uint32_t c = 0; c < 3; c++)
        assert_string_equal(d->classes[c], names[c]);
    assert_null(d->label);
    CHECK_VALUES(d, 0, "a.jpg", 1, 0, 0);
    CHECK_VALUES(d, 2, "in/007.jpg", 1, 1, 1);
    CHECK_VALUES(d, 3, "in/d.e.jpg", 0, 0, 1);
    images_check_line(d, "labels", "several classes each of 3");
    stk_dataset_close(&d);
    REFUSE(&r, "image,sun,sea\na,1,0\nb,0,2\n007,1,1\nd.e,0,0\n", "", STK_EINVAL, "label_columns");
    REFUSE(&r, "image,sun,sea\na,1,0\nb,0,2\n007,1,1\nd.e,0,0\n", "&label_type=multi", STK_EFORMAT,
           "labels.csv:3", "'sea'", "neither 0 nor 1");
    room_close(&r);
}

#define SEVERAL                                                                                    \
    "Image Index,Finding Labels,Age\n"                                                             \
    "d.e.jpg,mass|effusion,1\n"                                                                    \
    "a.jpg,,2\n"                                                                                   \
    "b.png,effusion | hernia,3\n"                                                                  \
    "007.jpg,hernia,4\n"

static void test_several(void **state)
{
    static const char *const names[] = {"effusion", "hernia", "mass"};
    const char *query = "&label_columns=Finding Labels&label_separator=|";
    room r = room_open();
    stk_dataset *d = open_good(&r, "labels.csv", SEVERAL, query);

    assert_int_equal(d->fields[1].dtype, STK_FLOAT32);
    assert_int_equal(d->fields[1].shape[0], 3);
    for (uint32_t c = 0; c < 3; c++)
        assert_string_equal(d->classes[c], names[c]);
    CHECK_VALUES(d, 0, "a.jpg", 0, 0, 0);
    CHECK_VALUES(d, 1, "b.png", 1, 1, 0);
    CHECK_VALUES(d, 2, "in/007.jpg", 0, 1, 0);
    CHECK_VALUES(d, 3, "in/d.e.jpg", 1, 0, 1);
    stk_dataset_close(&d);
    REFUSE(&r, SEVERAL, "&label_columns=Age&label_separator=|", STK_EINVAL, "'Age'");
    REFUSE(&r, SEVERAL, "&label_columns=Finding Labels&label_separator=ab", STK_EINVAL,
           "label_separator=ab");
    room_close(&r);
}

/* ---- Which columns --------------------------------------------------------------------------- */

static void test_columns(void **state)
{
    room r = room_open();
    stk_dataset *d = NULL;

    /* The one that is called as labels are. */
    d = open_good(&r, "labels.csv", "size,name,Label\n1,a,x\n2,b,y\n3,007,x\n4,d.e,z\n",
                  "&file_column=name");
    assert_int_equal(d->num_classes, 3);
    check_class(d, 1, "b.png", 1);
    stk_dataset_close(&d);
    /* The only text names the files. */
    d = open_good(&r, "labels.csv", "x,y,where\n1.5,1,a\n2,2,b\n3,3,007\n4,4,d.e\n", "");
    check_class(d, 0, "a.jpg", 1);
    stk_dataset_close(&d);
    REFUSE(&r, "k,l,x\na,b,1\n", "", STK_EINVAL, "which column names the files", "k, l, x",
           "file_column");
    REFUSE(&r, "file,l,x\na,b,1\n", "", STK_EINVAL, "which columns are labels", "label_columns");
    REFUSE(&r, "file,l,x\na,b,1\n", "&label_columns=l,x", STK_EINVAL, "'l'");
    REFUSE(&r, "file,l,x\na,b,1\n", "&label_columns=z", STK_EINVAL, "no column z", "file, l, x");
    REFUSE(&r, "file,l,x\na,b,1\n", "&label_columns=file", STK_EINVAL, "names files");
    REFUSE(&r, "file,l,x\na,b,1.5\n", "&file_column=x", STK_EINVAL, "no paths in its column x");
    REFUSE(&r, "file,l,x\na,b,1\n", "&file_column=q", STK_EINVAL, "no column q");
    REFUSE(&r, "file\na\nb\n", "", STK_EINVAL, "no column beside");
    REFUSE(&r, "file,l\na,b\n", "&label_type=value", STK_EINVAL, "has texts");
    REFUSE(&r, "file,l\na,1.5\n", "&label_type=class", STK_EINVAL, "no single integers");
    room_close(&r);
}

/* ---- Which pictures -------------------------------------------------------------------------- */

#define SOME                                                                                       \
    "file,label\n"                                                                                 \
    "a.jpg,x\n"                                                                                    \
    "gone.jpg,w\n"                                                                                 \
    "in/007.jpg,y\n"

static void test_missing(void **state)
{
    room r = room_open();
    stk_dataset *d = NULL;

    REFUSE(&r, SOME, "", STK_ENOENT, "2 of 4 pictures are not in labels.csv", "'b.png'",
           "'in/d.e.jpg'", "1 of its rows have no picture", "'gone.jpg' (labels.csv:3)",
           "missing=drop");
    d = open_good(&r, "labels.csv", SOME, "&missing=drop");
    assert_int_equal(d->size, 2);
    /* Classes are those of the table, whatever pictures there are. */
    assert_int_equal(d->num_classes, 3);
    check_class(d, 0, "a.jpg", 1);
    check_class(d, 1, "in/007.jpg", 2);
    images_check_line(d, "left out", "2 pictures without a label, 1 rows");
    stk_dataset_close(&d);
    d = open_good(&r, "labels.csv", "file,p,q\nd.e,1,2.5\na,3,4\n", "&missing=drop");
    CHECK_VALUES(d, 0, "a.jpg", 3, 4);
    CHECK_VALUES(d, 1, "in/d.e.jpg", 1, 2.5f);
    stk_dataset_close(&d);
    d = open_good(&r, "labels.csv", "file,p\nd.e,u w\n007,v\n",
                  "&missing=drop&label_separator=space");
    CHECK_VALUES(d, 0, "in/007.jpg", 0, 1, 0);
    CHECK_VALUES(d, 1, "in/d.e.jpg", 1, 0, 1);
    stk_dataset_close(&d);
    REFUSE(&r, "file,label\nx,1\ny,2\n", "&missing=drop", STK_EINVAL, "no row of labels.csv",
           "'x' (labels.csv:2)", "'a.jpg'");
    room_close(&r);
}

#define EMPTY                                                                                      \
    "file,label,age\n"                                                                             \
    "a,x,1\n"                                                                                      \
    "b,,2\n"                                                                                       \
    "007,y,\n"                                                                                     \
    "d.e,x,4\n"

static void test_empty(void **state)
{
    room r = room_open();
    stk_dataset *d = NULL;

    REFUSE(&r, EMPTY, "", STK_EFORMAT, "labels.csv:3", "'label' has no value", "1 rows");
    REFUSE(&r, EMPTY, "&label_columns=age", STK_EFORMAT, "labels.csv:4", "'age'");
    d = open_good(&r, "labels.csv", EMPTY, "&missing=drop");
    assert_int_equal(d->size, 3);
    check_class(d, 2, "in/d.e.jpg", 0);
    stk_dataset_close(&d);
    REFUSE(&r, "file,label\na,1\n,2\n", "", STK_EFORMAT, "labels.csv:3", "names no file");
    room_close(&r);
}

static void test_twice(void **state)
{
    static const char text[] = "file,label\na,1\nb,2\na.jpg,3\n007,4\nd.e,5\n";
    room r = room_open();
    stk_dataset *d = NULL;

    REFUSE(&r, text, "", STK_EINVAL, "labels.csv:4", "'a.jpg' again", "duplicates=first");
    d = open_good(&r, "labels.csv", text, "&duplicates=first");
    check_class(d, 0, "a.jpg", 1);
    stk_dataset_close(&d);
    images_write(r.folder, "in/a.jpg", "e");
    images_write(r.folder, "in/b.png", "f");
    REFUSE(&r, "file,label\n007,1\nin/a,2\na,3\nd.e.jpg,4\n", "", STK_ENOENT, "2 of 6 pictures");
    remove_file(r.folder, "b.png");
    images_write(r.folder, "deep/b.png", "g");
    REFUSE(&r, "file,label\na,1\nb.png,2\n", "", STK_EINVAL, "labels.csv:3",
           "'deep/b.png' or 'in/b.png'");
    images_write(r.folder, "a.png", "h");
    d = open_good(&r, "labels.csv", "file,label\na.png,1\na.jpg,2\n", "&missing=drop");
    check_class(d, 0, "a.jpg", 2);
    check_class(d, 1, "a.png", 1);
    stk_dataset_close(&d);
    REFUSE(&r, "file,label\na,1\n", "", STK_EINVAL, "'a.jpg' or 'a.png'");
    room_close(&r);
}

/* ---- Values that are none -------------------------------------------------------------------- */

static void test_bad_values(void **state)
{
    static const char text[] = "file,label\na,1\n\n\"b\",\"2\"\n007,three\nd.e,4\n";
    room r = room_open();
    stk_dataset *d = NULL;
    stk_error err;

    test_write(r.folder, "l.csv", text, strlen(text));
    assert_int_equal(
        images_open_spec(r.ctx, r.folder, "?labels=l.csv%3Flearn=2%26types=file:text", &d, &err),
        STK_EFORMAT);
    assert_non_null(strstr(err.text, "l.csv:5: "));
    assert_non_null(strstr(err.text, "'label'"));
    room_close(&r);
}

/* ---- Identity -------------------------------------------------------------------------------- */

static uint64_t print_of(room *r, const char *text, const char *query)
{
    stk_dataset *d = open_good(r, "labels.csv", text, query);
    const uint64_t print = d->fingerprint;

    stk_dataset_close(&d);
    return print;
}

/* A fingerprint is one of the labels: a changed table is noticed, one that was written again is
 * not, and neither is one whose rows changed places. */
static void test_print(void **state)
{
    room r = room_open();
    const uint64_t first = print_of(&r, BY_NAME, "");

    assert_true(first == print_of(&r, BY_NAME, ""));
    assert_true(first ==
                print_of(&r, "label,file_name\ncat,b.png\ndog,a\ncat,in/007.jpg\nant,d.e\n", ""));
    assert_true(first !=
                print_of(&r, "label,file_name\ndog,b.png\ndog,a\ncat,in/007.jpg\nant,d.e\n", ""));
    assert_true(first !=
                print_of(&r, "label,file_name\ncab,b.png\ndog,a\ncab,in/007.jpg\nant,d.e\n", ""));
    const uint64_t values = print_of(&r, VALUES, "&label_columns=age");
    assert_true(values != print_of(&r, VALUES, "&label_columns=mass&label_type=value"));
    assert_true(values != print_of(&r, "path,age\na.jpg,1.5\nb.png,-2\n007,0.25\nd.e,1001\n",
                                   "&label_columns=age"));
    const char *query = "&label_columns=Finding Labels&label_separator=|";
    const uint64_t several = print_of(&r, SEVERAL, query);
    assert_true(several != print_of(&r,
                                    "Image Index,Finding Labels\nd.e.jpg,mass|effusion\n"
                                    "a.jpg,hernia\nb.png,effusion\n007.jpg,hernia\n",
                                    query));
    room_close(&r);
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Of another store, from its folder on, or by a URL; with options of its own. */
static void test_places(void **state)
{
    test_room r = test_room_open("mem://p");
    stk_dataset *d = NULL;
    stk_error err;

    test_put(r.store, "t/a.jpg", "a", 1);
    test_put(r.store, "t/b.jpg", "b", 1);
    test_put(r.store, "t/l.csv", "file;label\na;1\nb;2\n", 19);
    test_put(r.store, "other.csv", "a 3\nb 4\n", 8);
    stk_error_init(&err);
    assert_ok(stk_dataset_open(r.ctx, "images:mem://p/t?labels=l.csv", &d, &err), &err);
    check_class(d, 1, "b.jpg", 2);
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(r.ctx,
                               "images:mem://p/t?labels=csv:mem://p/other.csv%3Fdelimiter=%2520"
                               "%26header=false&file_column=c0",
                               &d, &err),
              &err);
    check_class(d, 0, "a.jpg", 3);
    stk_dataset_close(&d);
    assert_int_equal(stk_dataset_open(r.ctx, "images:mem://p/t?labels=l.json", &d, &err),
                     STK_EINVAL);
    assert_non_null(strstr(err.text, "no table by its name"));
    assert_int_equal(stk_dataset_open(r.ctx, "images:mem://p/t?labels=m.csv", &d, &err),
                     STK_ENOENT);
    assert_int_equal(
        stk_dataset_open(r.ctx, "images:mem://p/t?labels=l.csv%3Fsubset=0:1", &d, &err),
        STK_EINVAL);
    assert_non_null(strstr(err.text, "where="));
    test_room_close(&r);
}

static void test_refused_options(void **state)
{
    static const struct {
        const char *query, *says;
    } cases[] = {{"?file_column=a", "file_column is for a table"},
                 {"?missing=drop", "missing is for a table"},
                 {"?label_separator=x", "label_separator is for a table"},
                 {"?labels=l.csv&allow_empty=true", "allow_empty"},
                 {"?labels=l.csv&masks=x", "masks"},
                 {"?labels=l.csv&root=x", "root"}};
    room r = room_open();
    char list[300];
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_int_equal(images_open_spec(r.ctx, r.folder, cases[i].query, &d, &err), STK_EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].query, err.text);
    }
    test_write(r.folder, "list.csv", "a.jpg,1\n", 8);
    snprintf(list, sizeof list, "%s/list.csv", r.folder);
    assert_int_equal(images_open_spec(r.ctx, list, "?labels=l.csv", &d, &err), STK_EINVAL);
    assert_non_null(strstr(err.text, "are for folders"));
    room_close(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_lists),
        cmocka_unit_test(test_flags),      cmocka_unit_test(test_several),
        cmocka_unit_test(test_columns),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_empty),      cmocka_unit_test(test_twice),
        cmocka_unit_test(test_bad_values), cmocka_unit_test(test_print),
        cmocka_unit_test(test_places),     cmocka_unit_test(test_refused_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

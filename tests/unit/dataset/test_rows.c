/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the arrays of HDF5 and npz files: which arrays, what fields, every value, what is
 * refused. */
#include "support/zips.h"
#include "unit/dataset/rows.h"

/* What describe() says under a name, each time after a '|'. */
typedef struct said {
    const char *name;
    char text[2000];
} said;

static void keep_said(void *user, const char *name, const char *value)
{
    said *s = user;
    const size_t length = strlen(s->text);

    if (strcmp(name, s->name) == 0)
        snprintf(s->text + length, sizeof s->text - length, "|%s", value);
}

static const char *say(stk_dataset *dataset, const char *name)
{
    static said s;
    stk_error err;

    s = (said){.name = name};
    assert_ok(stk_dataset_describe(dataset, keep_said, &s, &err), &err);
    return s.text;
}

static void assert_says(stk_dataset *dataset, const char *name, const char *part)
{
    const char *text = say(dataset, name);

    if (!strstr(text, part))
        fail_msg("'%s' is not in what is said of '%s': %s", part, name, text);
}

/* ---- Values ---- */

static const char *const same[] = {
    "hdf5:" GOLDEN "table.h5",
    GOLDEN "table.h5",
    "hdf5:slow+file:" GOLDEN "table.h5",
    "npz:" GOLDEN "stored.npz",
    GOLDEN "stored.npz",
    "npz:" GOLDEN "deflated.npz",
    GOLDEN "deflated.npz",
    "npz:zip:slow+file:" GOLDEN "deflated.npz!/",
    "npz:mem://p/stored.npz",
    "npz:mem://folder",
    "hdf5:" GOLDEN "mixed.h5",
    "hdf5:" GOLDEN "mixed.h5?fields=images,labels,x",
    "npz:" GOLDEN "mixed.npz",
    "npz:" GOLDEN "mixed.npz?fields=x,labels,images",
};

static void fill(stk_context *ctx)
{
    stk_store *store = NULL, *folder = NULL, *archive = NULL;
    static char data[4096];
    stk_object_info info;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://p", &store, NULL, 0, &err), &err);
    put_golden(store, "stored.npz", "stored.npz");
    assert_ok(stk_store_open(ctx, "zip:" GOLDEN "stored.npz!/", &archive, NULL, 0, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://folder", &folder, NULL, 0, &err), &err);
    static const char *const members[] = {"x.npy", "images.npy", "labels.npy"};
    for (size_t i = 0; i < STK_COUNT(members); i++) {
        info = (stk_object_info){.struct_size = sizeof info};
        assert_ok(stk_store_stat(archive, members[i], NULL, &info, &err), &err);
        assert_true(info.size <= sizeof data);
        assert_ok(stk_store_read(archive, members[i], 0, info.size, data, &err), &err);
        assert_ok(stk_store_put(folder, members[i], data, info.size, NULL, &err), &err);
    }
    stk_store_close(&archive);
    stk_store_close(&folder);
    stk_store_close(&store);
}

static void test_values(void **state)
{
    stk_context *ctx = test_context();

    (void)state;
    fill(ctx);
    for (size_t i = 0; i < STK_COUNT(same); i++) {
        stk_dataset *d = open_windows(ctx, same[i]);
        stk_loader_options o = window_options();
        o.shuffle = (int32_t)(i % 3);
        check_epoch(d, &o);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* A path alone is rows where there are labels and other rows of their number, without names of
 * dimensions; else it is what it was before there were tables. */
static void test_recognised(void **state)
{
    static const struct {
        const char *path, *kind;
    } cases[] = {{GOLDEN "table.h5", "hdf5"},          {GOLDEN "mixed.h5", "hdf5"},
                 {GOLDEN "mixed.h5/val", "hdf5"},      {GOLDEN "table.h5?missing=error", "hdf5"},
                 {GOLDEN "table.h5?fields=x", "hdf5"}, {GOLDEN "named.h5", "array"},
                 {GOLDEN "mixed.h5/images", "array"},  {GOLDEN "stored.npz", "npz"},
                 {"mem://p/stored.npz", "npz"},        {"mem://folder/x.npy", "npy"}};
    static const char *const others[] = {"array:" GOLDEN "tie.h5", GOLDEN "tie.h5"};
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    (void)state;
    fill(ctx);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        d = open_windows(ctx, cases[i].path);
        if (strcmp(d->ops->name, cases[i].kind) != 0)
            fail_msg("%s is %s:", cases[i].path, d->ops->name);
        stk_dataset_close(&d);
    }
    for (size_t i = 0; i < STK_COUNT(others); i++)
        assert_fails(stk_dataset_open(ctx, others[i], &d, &err), STK_EINVAL, &err,
                     "choose variables of one shape");
    stk_context_destroy(&ctx);
}

/* Whatever the file is, and however it is packed, a run goes on with it; other fields are another.
 */
static void test_fingerprint(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *a = open_windows(ctx, "npz:" GOLDEN "stored.npz"),
                *b = open_windows(ctx, "npz:" GOLDEN "deflated.npz"),
                *c = open_windows(ctx, "npz:" GOLDEN "stored.npz?fields=images,labels"), *d = NULL;

    (void)state;
    fill(ctx);
    d = open_windows(ctx, "npz:mem://folder");
    assert_true(a->fingerprint == d->fingerprint);
    stk_dataset_close(&d);
    assert_true(a->fingerprint == b->fingerprint);
    assert_true(a->fingerprint != c->fingerprint);
    stk_dataset_close(&a);
    stk_dataset_close(&b);
    stk_dataset_close(&c);
    stk_context_destroy(&ctx);
}

/* ---- Fields ---- */

static void check_field(const stk_dataset *d, uint32_t i, const char *name, stk_dtype dtype,
                        uint32_t rank, bool picture)
{
    assert_string_equal(d->fields[i].name, name);
    assert_int_equal(d->fields[i].dtype, dtype);
    assert_int_equal(d->fields[i].rank, rank);
    assert_int_equal(d->fields[i].picture, picture);
}

static void test_fields(void **state)
{
    stk_context *ctx = test_context();

    (void)state;
    stk_dataset *d = open_windows(ctx, "hdf5:" GOLDEN "mixed.h5");
    assert_int_equal(d->num_fields, 3);
    check_field(d, 0, "image", STK_UINT8, 3, true);
    check_field(d, 1, "label", STK_INT64, 0, false);
    check_field(d, 2, "x", STK_FLOAT32, 1, false);
    assert_string_equal(say(d, "renamed"), "|'images' is the field image|'labels' is the field "
                                           "label, of int64");
    assert_says(d, "left out", "'few': has 7 rows, the others 23");
    assert_says(d, "left out", "'names' of");
    assert_says(d, "left out", "texts of variable length");
    assert_says(d, "left out", "compound");
    assert_says(d, "left out", "'scale': is a single number");
    assert_says(d, "left out", "'none': has no elements");
    /* 4 x 36 bytes, 10 x 4, and x as a whole, whose bytes are turned. */
    assert_says(d, "a row alone takes", "3 chunks, 644 bytes for 60;");
    stk_dataset_close(&d);

    d = open_windows(ctx, "npz:" GOLDEN "mixed.npz");
    assert_says(d, "left out", "'objects': objects.npy is an array of Python objects");
    assert_says(d, "left out", "'texts': ");
    stk_dataset_close(&d);
    d = open_windows(ctx, "npz:" GOLDEN "columns.npz"); /* of one dimension there is one order */
    assert_int_equal(d->num_fields, 1);
    assert_says(d, "left out", "'images': is in Fortran order");
    stk_dataset_close(&d);

    /* In the order that was asked for; of a group below. */
    d = open_windows(ctx, "hdf5:" GOLDEN "mixed.h5?fields=x,images");
    assert_int_equal(d->num_fields, 2);
    check_field(d, 0, "x", STK_FLOAT32, 1, false);
    assert_string_equal(say(d, "left out"), "");
    assert_string_equal(say(d, "renamed"), "|'images' is the field image");
    stk_dataset_close(&d);
    d = open_windows(ctx, "hdf5:" GOLDEN "mixed.h5?fields=x");
    assert_string_equal(say(d, "renamed"), "");
    stk_dataset_close(&d);
    static const char *const below[] = {
        "hdf5:" GOLDEN "mixed.h5?group=val", "hdf5:" GOLDEN "mixed.h5?group=/val",
        "hdf5:" GOLDEN "mixed.h5/val",       "hdf5:" GOLDEN "mixed.h5?fields=val/images,val/y",
        "npz:" GOLDEN "mixed.npz?group=val", "npz:" GOLDEN "mixed.npz?fields=val/images,val/y"};
    for (size_t i = 0; i < STK_COUNT(below); i++) {
        d = open_windows(ctx, below[i]);
        assert_int_equal(d->size, 6);
        assert_int_equal(d->num_fields, 2);
        check_field(d, 0, "image", STK_UINT8, 3, true);
        check_field(d, 1, "label", STK_INT64, 0, false);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

/* A block is the rows of a chunk of what is large; of longer chunks where that is little. */
static void test_blocks(void **state)
{
    static const made pictures = {
        .dtype = STK_FLOAT64, .shape = {48, 1024, 64}, .chunk = {4, 1024, 64}};
    static const made small = {.dtype = STK_FLOAT32, .shape = {48, 2, 2}, .chunk = {24, 2, 2}};
    static const made few = {.dtype = STK_FLOAT32, .shape = {48, 2, 3}, .chunk = {6, 2, 3}};
    stk_context *ctx = test_context();
    stk_error err;

    (void)state;
    make_array(ctx, "mem://g/a", &pictures);
    make_array(ctx, "mem://g/c", &small);
    make_array(ctx, "mem://g/b", &few);
    assert_ok(stk_group_consolidate(ctx, "mem://g", NULL, &err), &err);
    stk_dataset *d = open_windows(ctx, "hdf5:mem://g"); /* half a MiB a row: no more than 8 */
    assert_int_equal(d->num_fields, 3);
    assert_int_equal(d->block_size, 6);
    stk_dataset_close(&d);
    d = open_windows(ctx, "hdf5:mem://g?fields=b,c");
    assert_int_equal(d->block_size, 24);
    stk_dataset_close(&d);
    d = open_windows(ctx, "npz:" GOLDEN "stored.npz?fields=images"); /* in part: all of it */
    assert_int_equal(d->block_size, ROWS);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* ---- Labels ---- */

static void make_row(stk_context *ctx, const char *name, stk_dtype dtype)
{
    static const double values[4] = {3, 1, 250, 0};
    char url[64];

    snprintf(url, sizeof url, "mem://l/%s", name);
    make_coordinate(ctx, url, NULL, dtype, NULL, NULL, values, 4);
}

/* One array alone is the labels; `label` itself goes before all others. */
static void test_labels(void **state)
{
    static const struct {
        const char *fields, *label; /* names; NULL: there is none */
        stk_dtype dtype;
    } cases[] = {{"y", "y", STK_INT64},
                 {"targets", "targets", STK_INT64},
                 {"z", NULL, STK_DTYPE_NONE},
                 {"z,target", "target", STK_INT64},
                 {"y,targets", NULL, STK_DTYPE_NONE},
                 {"y,label", "label", STK_INT64},
                 {"labels", NULL, STK_DTYPE_NONE}}; /* of float32 */
    stk_context *ctx = test_context();
    char spec[100];
    stk_error err;

    (void)state;
    make_row(ctx, "y", STK_INT16);
    make_row(ctx, "targets", STK_INT64);
    make_row(ctx, "target", STK_INT16);
    make_row(ctx, "label", STK_INT16);
    make_row(ctx, "labels", STK_FLOAT32);
    make_row(ctx, "z", STK_INT16);
    make_row(ctx, "index", STK_INT16);
    assert_ok(stk_group_consolidate(ctx, "mem://l", NULL, &err), &err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(spec, sizeof spec, "hdf5:mem://l?fields=%s", cases[i].fields);
        stk_dataset *d = open_windows(ctx, spec);
        uint32_t f = 0;
        while (f < d->num_fields && strcmp(d->fields[f].name, "label") != 0)
            f++;
        if ((f < d->num_fields) != (cases[i].label != NULL))
            fail_msg("%s: label is field %u of %u", cases[i].fields, f, d->num_fields);
        if (cases[i].label) {
            assert_int_equal(d->fields[f].dtype, cases[i].dtype);
            stk_tensor t = {.struct_size = sizeof t};
            delivery got = first_batch(d, NULL);
            int64_t sum = 0;
            for (int k = 0; k < 4; k++)
                sum += ((const int64_t *)field_of(&got, "label", &t))[k];
            assert_int_equal(sum, 254);
            close_batch(&got);
        }
        stk_dataset_close(&d);
    }
    stk_dataset *d = open_windows(ctx, "hdf5:mem://l");
    assert_int_equal(d->num_fields, 6);
    assert_says(d, "left out", "'index': is named as a field that every batch has");
    stk_dataset_close(&d);
    assert_fails(stk_dataset_open(ctx, "hdf5:mem://l?fields=z,index", &d, &err), STK_EKIND, &err,
                 "'index' is named as a field that every batch has");
    stk_context_destroy(&ctx);
}

/* ---- Refused ---- */

typedef struct refusal {
    const char *spec;
    stk_status status;
    const char *part;
} refusal;

static void check_refusals(stk_context *ctx, const refusal *cases, size_t n)
{
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < n; i++)
        assert_fails(stk_dataset_open(ctx, cases[i].spec, &d, &err), cases[i].status, &err,
                     cases[i].part);
}

static void test_refused(void **state)
{
    static const refusal cases[] = {
        {"hdf5:" GOLDEN "mixed.h5?fields=images,few", STK_EINVAL,
         "'few' has 7 rows where 'images' has 23"},
        {"npz:" GOLDEN "short.npz?fields=images,labels", STK_EINVAL,
         "'labels' has 22 rows where 'images' has 23"},
        {"npz:" GOLDEN "short.npz", STK_EINVAL, "as many arrays have 23 rows, as 'images', as"},
        {"hdf5:" GOLDEN "tie.h5", STK_EINVAL, "as many arrays have 6 rows, as 'test_images', as"},
        {"hdf5:" GOLDEN "mixed.h5?fields=image", STK_ENOENT, "did you mean 'images'?"},
        {"npz:" GOLDEN "mixed.npz?fields=image", STK_ENOENT, "did you mean 'images'?"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,,x", STK_EINVAL, "write it as images,labels"},
        {"hdf5:" GOLDEN "mixed.h5?fields=x,x", STK_EINVAL, "'x' is there twice"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,names", STK_EKIND, "texts of variable length"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,records", STK_EKIND, "compound"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,scale", STK_EKIND, "'scale' is a single number"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,none", STK_EKIND, "'none' has no elements"},
        {"hdf5:" GOLDEN "mixed.h5?fields=images,val/images", STK_EINVAL, "has 6 rows where"},
        {"hdf5:" GOLDEN "mixed.h5?format=libhdf5", STK_ENOTSUP, "not for training"},
        {"hdf5:" GOLDEN "mixed.h5?concat=0", STK_EINVAL, "array:"},
        {"hdf5:" GOLDEN "mixed.h5/images", STK_EMISMATCH, "is an array"},
        {"hdf5:" GOLDEN "mixed.h5?feilds=x", STK_EINVAL, "did you mean 'fields'?"},
        {"npz:" GOLDEN "mixed.npz?fields=objects", STK_EKIND, "pickles, which can run code"},
        {"npz:" GOLDEN "columns.npz?fields=labels,images", STK_EKIND,
         "'images' is in Fortran order, in which no row lies in one piece"},
        {"npz:" GOLDEN "lone.npz", STK_EFORMAT, "no array of numbers with rows"},
        {"npz:" GOLDEN "empty.npz", STK_EFORMAT, "no array of numbers with rows"},
        {"npz:" GOLDEN "table.h5", STK_EFORMAT, "is no npz file"},
        {"npz:" GOLDEN "deflated.npz?unpacked_cache=900", STK_ELIMIT, "more than unpacked_cache"},
    };
    stk_context *ctx = test_context();

    (void)state;
    check_refusals(ctx, cases, STK_COUNT(cases));
    stk_context_destroy(&ctx);
}

/* What is deflated is kept unpacked, and counted. */
static void test_held(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *stored = open_windows(ctx, "npz:" GOLDEN "stored.npz"),
                *deflated = open_windows(ctx, "npz:" GOLDEN "deflated.npz");

    (void)state;
    assert_int_equal(deflated->held_bytes - stored->held_bytes, 3 * 128 + ROWS * (36 + 4 + 5 * 4));
    stk_dataset_close(&stored);
    stk_dataset_close(&deflated);
    stk_context_destroy(&ctx);
}

/* ---- Hostile npz ---- */

static void put_npy(stk_store *store, const char *key, const char *descr, const char *shape,
                    size_t bytes)
{
    unsigned char data[512] = "\x93NUMPY\1\0\x76\0";
    stk_error err;

    memset(data + 10, ' ', 118);
    const int n =
        snprintf((char *)data + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 descr, shape);
    data[10 + n] = ' ';
    data[127] = '\n';
    assert_ok(stk_store_put(store, key, data, 128 + bytes, NULL, &err), &err);
}

static void test_claims(void **state)
{
    static const struct {
        const char *key, *descr, *shape;
        size_t bytes;
    } members[] = {{"over/a.npy", "<f8", "4294967296, 4294967296, 4", 64},
                   {"most/a.npy", "<f8", "9223372036854775807, 2", 64},
                   {"more/a.npy", "|u1", "1099511627776, 16", 64},
                   {"less/a.npy", "|u1", "2, 16", 64},
                   {"rank/a.npy", "|u1", "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 64", 64},
                   {"none/a.npy", "|u1", "0, 16", 0},
                   {"good/a.npy", "|u1", "4, 16", 64},
                   {"good/b.npy", "|u1", "4, 2", 8},
                   {"good/x\n\t.npy", "|u1", "3,", 3}};
    static const refusal cases[] = {
        {"npz:mem://z/%s.npz?group=over", STK_EFORMAT, "more bytes than can be"},
        {"npz:mem://z/%s.npz?group=most", STK_EFORMAT, "more bytes than can be"},
        {"npz:mem://z/%s.npz?group=more", STK_ETRUNCATED, "ends after 192 bytes"},
        {"npz:mem://z/%s.npz?group=less", STK_EFORMAT, "has 192 bytes where"},
        {"npz:mem://z/%s.npz?group=none", STK_EFORMAT, "no array of numbers with rows"},
    };
    stk_context *ctx = test_context();
    stk_store *from = NULL, *to = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://from", &from, NULL, 0, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://z", &to, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(members); i++)
        put_npy(from, members[i].key, members[i].descr, members[i].shape, members[i].bytes);
    zip_all(from, to, "stored.npz", false);
    zip_all(from, to, "deflated.npz", true);
    for (int deflated = 0; deflated < 2; deflated++) {
        char spec[100];
        for (size_t i = 0; i < STK_COUNT(cases); i++) {
            snprintf(spec, sizeof spec, cases[i].spec, deflated ? "deflated" : "stored");
            check_refusals(ctx, &(refusal){spec, cases[i].status, cases[i].part}, 1);
        }
        snprintf(spec, sizeof spec, "npz:mem://z/%s.npz?group=good",
                 deflated ? "deflated" : "stored");
        stk_dataset *d = open_windows(ctx, spec);
        assert_int_equal(d->size, 4);
        assert_string_equal(say(d, "left out"), "|'x?"
                                                "?': has 3 rows, the others 4");
        stk_dataset_close(&d);
    }
    stk_store_close(&from);
    stk_store_close(&to);
    stk_context_destroy(&ctx);
}

/* Pictures called images are the field image, unless there is one. */
static void test_images(void **state)
{
    static const struct {
        const char *key, *descr, *shape;
        size_t bytes;
    } members[] = {{"alone/images.npy", "|u1", "4, 2, 2, 3", 48},
                   {"both/images.npy", "|u1", "4, 2, 2, 3", 48},
                   {"both/image.npy", "|u1", "4, 2, 2, 1", 16},
                   {"flat/images.npy", "|u1", "4, 2, 2", 16},
                   {"wide/images.npy", "|u1", "4, 2, 2, 5", 80},
                   {"deep/images.npy", "<u2", "4, 2, 2, 3", 96}};
    static const struct {
        const char *spec, *names;
    } cases[] = {{"npz:mem://pics/alone", "image,"},
                 {"npz:mem://pics/both", "image,images,"},
                 {"npz:mem://pics/flat", "images,"},
                 {"npz:mem://pics/wide", "images,"},
                 {"npz:mem://pics/deep", "images,"}};
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://pics", &store, NULL, 0, &err), &err);
    for (size_t i = 0; i < STK_COUNT(members); i++)
        put_npy(store, members[i].key, members[i].descr, members[i].shape, members[i].bytes);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_dataset *d = open_windows(ctx, cases[i].spec);
        char names[100] = "";
        for (uint32_t f = 0; f < d->num_fields; f++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s,", d->fields[f].name);
        assert_string_equal(names, cases[i].names);
        stk_dataset_close(&d);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* More arrays than are opened to choose from. */
static void test_many(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    char key[16];
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://many", &store, NULL, 0, &err), &err);
    for (int i = 0; i < 257; i++) {
        snprintf(key, sizeof key, "%d.npy", i);
        put_npy(store, key, "|u1", "4,", 4);
    }
    static const refusal cases[] = {
        {"npz:mem://many", STK_ELIMIT, "more than 256 arrays; name those"},
        {"npz:mem://many?fields=1,2,3,4,5,6,7,8,9,10,11,12,13,14", STK_ELIMIT,
         "more than 13 arrays of one length"},
    };
    check_refusals(ctx, cases, STK_COUNT(cases));
    stk_dataset *d = open_windows(ctx, "npz:mem://many?fields=256,0");
    assert_int_equal(d->num_fields, 2);
    stk_dataset_close(&d);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Place of the n-th entry of a central directory. */
static size_t entry_at(const unsigned char *data, size_t size, int n)
{
    for (size_t i = 0; i + 4 < size; i++)
        if (memcmp(data + i, "PK\1\2", 4) == 0 && n-- == 0)
            return i;
    fail_msg("no such entry");
    return 0;
}

/* Members that share bytes, and one that claims more than deflate can make. */
static void test_archives(void **state)
{
    static unsigned char data[8192];
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_store_open(ctx, "mem://z", &store, NULL, 0, &err), &err);
    put_golden(store, "a.npz", "stored.npz");
    stk_object_info info = {.struct_size = sizeof info};
    assert_ok(stk_store_stat(store, "a.npz", NULL, &info, &err), &err);
    assert_ok(stk_store_read(store, "a.npz", 0, info.size, data, &err), &err);
    const size_t second = entry_at(data, info.size, 1);
    memset(data + second + 42, 0, 4);
    assert_ok(stk_store_put(store, "over.npz", data, info.size, NULL, &err), &err);
    assert_ok(stk_store_put(store, "cut.npz", data, info.size - 30, NULL, &err), &err);
    put_golden(store, "d.npz", "deflated.npz");
    info = (stk_object_info){.struct_size = sizeof info};
    assert_ok(stk_store_stat(store, "d.npz", NULL, &info, &err), &err);
    assert_ok(stk_store_read(store, "d.npz", 0, info.size, data, &err), &err);
    memset(data + entry_at(data, info.size, 0) + 24, 0x7f, 4);
    assert_ok(stk_store_put(store, "bomb.npz", data, info.size, NULL, &err), &err);
    static const refusal cases[] = {
        {"npz:mem://z/over.npz", STK_EFORMAT, "over what follows it"},
        {"npz:mem://z/cut.npz", STK_EFORMAT, "central directory"},
        {"npz:mem://z/bomb.npz", STK_EFORMAT, "which cannot be"},
    };
    check_refusals(ctx, cases, STK_COUNT(cases));
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_recognised),
        cmocka_unit_test(test_many),        cmocka_unit_test(test_images),
        cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_blocks),      cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_held),
        cmocka_unit_test(test_claims),      cmocka_unit_test(test_archives)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Specs: kinds, paths, recognition, options; the kinds that callers add. */
#include <stdio.h>

#include "dataset/dataset.h"
#include "samples.h"
#include "support/faults.h"

/* ---- Kinds of the tests -------------------------------------------------------------------- */

typedef struct toy_options {
    uint32_t struct_size;
    uint64_t level;
    const char *word;
} toy_options;

static const stk_option toy_option_list[] = {
    {"level", STK_OPTION_UINT, offsetof(toy_options, level), "3", 1, 9, NULL, NULL, "A level."},
    {"word", STK_OPTION_STRING, offsetof(toy_options, word), NULL, 0, 0, NULL, NULL, "A word."},
};
static const stk_option_table toy_table = {"toy", "", sizeof(toy_options), toy_option_list, 2};

typedef struct toy {
    stk_dataset base;
    stk_field fields[2];
    char url[256], word[64];
    uint64_t level;
} toy;

static const stk_dataset_ops toy_ops;
static int open_toys;

static stk_status toy_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    const toy_options *o = options;
    toy *t = calloc(1, sizeof *t);

    assert_non_null(t);
    snprintf(t->url, sizeof t->url, "%s", url);
    snprintf(t->word, sizeof t->word, "%s", o && o->word ? o->word : "");
    t->level = o ? o->level : 0;
    t->fields[0] = stk__field("data", STK_FLOAT32, (const int64_t[]){2, 3, -1}, false);
    stk__dataset_init(&t->base, &toy_ops, ctx, 20, t->fields, 1);
    open_toys++;
    *out = &t->base;
    return STK_OK;
}

static void toy_close(stk_dataset *dataset)
{
    open_toys--;
    free(dataset);
}

static void toy_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memset(samples[i].values->out, (int)samples[i].index, 24);
        samples[i].values->data = samples[i].values->out;
    }
}

/* Sure of what ends in .toy, in doubt of .both and .maybe. */
static int toy_recognise(stk_context *ctx, const char *url)
{
    return strstr(url, ".toy") ? 2 : strstr(url, ".both") || strstr(url, ".maybe") ? 1 : 0;
}

static int rival_recognise(stk_context *ctx, const char *url)
{
    return strstr(url, ".maybe") ? 2 : strstr(url, ".both") ? 1 : 0;
}

static const stk_dataset_ops toy_ops = {.struct_size = sizeof toy_ops,
                                        .name = "toy",
                                        .doc = "",
                                        .options = &toy_table,
                                        .open = toy_open,
                                        .recognise = toy_recognise,
                                        .close = toy_close,
                                        .prepare = toy_prepare};
static const stk_dataset_ops rival_ops = {.struct_size = sizeof rival_ops,
                                          .name = "rival",
                                          .doc = "",
                                          .open = toy_open,
                                          .recognise = rival_recognise,
                                          .close = toy_close,
                                          .prepare = toy_prepare};

static toy *open_toy(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return (toy *)d;
}

/* A kind whose open() and describe() answer as they are told. */
static stk_status opens, describes;
static const stk_dataset_ops odd_ops;

static stk_status odd_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    STK_TRY(toy_open(ctx, url, options, out, err));
    (*out)->ops = &odd_ops;
    return opens;
}

static stk_status odd_describe(stk_dataset *dataset,
                               void (*line)(void *user, const char *name, const char *value),
                               void *user, stk_error *err)
{
    return describes;
}

static const stk_dataset_ops odd_ops = {.struct_size = sizeof odd_ops,
                                        .name = "odd",
                                        .doc = "",
                                        .open = odd_open,
                                        .close = toy_close,
                                        .prepare = toy_prepare,
                                        .describe = odd_describe};

static void no_line(void *user, const char *name, const char *value)
{
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
    const stk_dataset_ops *kind;
    int digits = 0, synthetic = 0, toys = 0;

    for (size_t i = 0;
         (kind = ((const stk_dataset_ops *)stk_driver_at(*state, STK_DRIVER_DATASET, i))); i++) {
        digits += kind == &stk__dataset_digits;
        synthetic += kind == &stk__dataset_synthetic;
        toys += kind == &toy_ops;
    }
    assert_int_equal(digits, 1);
    assert_int_equal(synthetic, 1);
    assert_int_equal(toys, 1);
    assert_ptr_equal(stk_driver_at(NULL, STK_DRIVER_DATASET, 0),
                     stk_driver_at(*state, STK_DRIVER_DATASET, 0));
}

static void test_add_refused(void **state)
{
    stk_error err;
    stk_dataset_ops ops = toy_ops;

    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &toy_ops, &err), STK_EINVAL, &err,
                 "already");
    ops.name = "digits";
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), STK_EINVAL, &err,
                 "already");
    ops.name = "no:name";
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), STK_EINVAL, &err,
                 "no:name");
    ops.name = NULL;
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), STK_EINVAL, &err, "name");
    ops.name = "other";
    ops.prepare = NULL;
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), STK_EINVAL, &err, "lacks");
    ops = toy_ops;
    ops.struct_size = 8;
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), STK_EINVAL, &err,
                 "struct_size");
    assert_fails(stk_driver_add(*state, STK_DRIVER_DATASET, NULL, &err), STK_EINVAL, &err,
                 "no table");
}

/* Each table takes its own options; the rest of the query stays for the store. */
static void test_options(void **state)
{
    toy *t = open_toy(*state,
                      "toy:slow+file:///a/b?latency=5ms&level=7&subset=5:15&word=x%26y&fail=0.1");

    assert_int_equal(t->base.size, 10);
    stk_dataset *d = &t->base;
    stk_dataset_close(&d);

    t = open_toy(*state, "toy:slow+file:///a/b?latency=5ms&level=7&word=x%26y&fail=0.1");
    assert_string_equal(t->url, "slow+file:///a/b?latency=5ms&fail=0.1");
    assert_int_equal(t->level, 7);
    assert_string_equal(t->word, "x&y");
    d = &t->base;
    stk_dataset_close(&d);

    t = open_toy(*state, "toy:");
    assert_string_equal(t->url, "");
    assert_int_equal(t->level, 3);
    d = &t->base;
    stk_dataset_close(&d);
    assert_int_equal(open_toys, 0);
}

static void test_recognise(void **state)
{
    static const char *const paths[] = {"/data/x.toy", "slow+file:///data/x.toy", "C:\\data\\x.toy",
                                        "odd:name.toy", "mem://a/b.toy"};
    toy *t;
    stk_dataset *d;

    for (size_t i = 0; i < STK_COUNT(paths); i++) {
        char spec[128];
        snprintf(spec, sizeof spec, "%s?level=4", paths[i]);
        t = open_toy(*state, spec);
        assert_string_equal(t->url, paths[i]);
        assert_int_equal(t->level, 4);
        d = &t->base;
        stk_dataset_close(&d);
    }
    /* The single surest wins: rival has no options, so its word stays in the URL. */
    t = open_toy(*state, "/data/x.maybe?word=a");
    assert_string_equal(t->url, "/data/x.maybe?word=a");
    d = &t->base;
    stk_dataset_close(&d);
}

static void test_not_recognised(void **state)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_fails(stk_dataset_open(*state, "/data/x.both", &d, &err), STK_EINVAL, &err, "toy:");
    assert_non_null(strstr(err.text, "rival:"));
    assert_non_null(strstr(err.text, "/data/x.both"));
    assert_fails(stk_dataset_open(*state, "/no/such/place", &d, &err), STK_ENOENT, &err,
                 "/no/such/place");
    assert_true(stk_dataset_open(*state, "mnits:/data", &d, &err) < 0);
    assert_non_null(strstr(err.text, "mnits"));
    assert_non_null(strstr(err.text, "synthetic"));
    assert_true(stk_dataset_open(*state, "digits", &d, &err) < 0);
    assert_non_null(strstr(err.text, "digits:"));
    /* A bad option of the only kind that might know the path is what is told. */
    assert_fails(stk_dataset_open(*state, "/no/such/place?level=99", &d, &err), STK_EINVAL, &err,
                 "level");
    assert_null(d);
    assert_int_equal(open_toys, 0);
}

static void test_hostile_specs(void **state)
{
    static const char *const specs[] = {
        "",
        "?",
        ":",
        "::",
        "?subset=1:2",
        "toy:?level=0",
        "toy:?level=10",
        "toy:?level=",
        "toy:?level",
        "toy:?subset=",
        "toy:?subset=0:0x10",
        "toy:?subset=5",
        "toy:?subset=5:4",
        "toy:?subset=0:21",
        "toy:?subset=-21:",
        "toy:?subset=--1:",
        "toy:?subset=99999999999999999999:",
        "toy:?subset=1:2:3",
        "toy:?random_split=",
        "toy:?random_split=,",
        "toy:?random_split=0.5,",
        "toy:?random_split=x",
        "toy:?random_split=1.1",
        "toy:?random_split=0.5,0.5&part=2",
        "toy:?random_split=0.5,0.5&part=-1",
        "toy:?random_split=1e3",
        "toy:?random_split=0,1",
        "toy:?part=1",
        "toy:?split_seed=4",
        "toy:?random_split=0.5;0.5",
        "toy:?subset=%",
        "toy:?subset=%00",
        "toy:?indices=/no/such/file",
        "toy:?random_split=.001",
        "toy:?subset=1:2&random_split=.5",
    };
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        stk_dataset *d = (stk_dataset *)1;
        stk_error_init(&err);
        if (stk_dataset_open(*state, specs[i], &d, &err) >= 0)
            fail_msg("'%s' was opened", specs[i]);
        assert_true(err.text[0] != 0);
        assert_null(d);
        assert_int_equal(open_toys, 0);
    }
    char *lengthy = malloc(1 << 20);
    assert_non_null(lengthy);
    memset(lengthy, 'a', (1 << 20) - 1);
    lengthy[(1 << 20) - 1] = 0;
    stk_dataset *d = NULL;
    assert_true(stk_dataset_open(*state, lengthy, &d, &err) < 0);
    memcpy(lengthy, "toy:?subset=", 12);
    assert_true(stk_dataset_open(*state, lengthy, &d, &err) < 0);
    memcpy(lengthy, "toy:?random_split=", 18);
    for (int i = 18; i < (1 << 20) - 1; i++)
        lengthy[i] = "0,"[i % 2];
    assert_true(stk_dataset_open(*state, lengthy, &d, &err) < 0);
    free(lengthy);
    assert_fails(stk_dataset_open(*state, NULL, &d, &err), STK_EINVAL, &err, "no spec");
    assert_fails(stk_dataset_open(NULL, "toy:", &d, &err), STK_EINVAL, &err, "no context");
    assert_fails(stk_dataset_open(*state, "toy:", NULL, &err), STK_EINVAL, &err, "no place");
    assert_true(stk_dataset_open(*state, "toy:?subset=9:1", &d, NULL) < 0);
}

/* What the samples are, told by the bytes that toys have. */
static void expect(stk_context *ctx, const char *spec, const uint8_t *indices, size_t n)
{
    stk_dataset *d = &open_toy(ctx, spec)->base;

    if (d->size != n)
        fail_msg("%s: %d samples instead of %d", spec, (int)d->size, (int)n);
    samples *s = samples_range(d, 0, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(s->data[i][0], indices[i]);
    samples_free(s);
    stk_dataset_close(&d);
}

static void test_subset_text(void **state)
{
    expect(*state, "toy:?subset=3:6", (const uint8_t[]){3, 4, 5}, 3);
    expect(*state, "toy:?subset=:2", (const uint8_t[]){0, 1}, 2);
    expect(*state, "toy:?subset=18:", (const uint8_t[]){18, 19}, 2);
    expect(*state, "toy:?subset=-3:-1", (const uint8_t[]){17, 18}, 2);
    expect(*state, "toy:?subset=-20:1", (const uint8_t[]){0}, 1);
}

/* Two parts from specs are what the function gives, and cover everything once. */
static void test_split_text(void **state)
{
    uint8_t seen[20] = {0};

    for (int part = 0; part < 2; part++) {
        char spec[96];
        stk_error err;
        snprintf(spec, sizeof spec, "toy:?random_split=0.75,.25&part=%d&split_seed=6", part);
        stk_dataset *d = &open_toy(*state, spec)->base, *same = &open_toy(*state, "toy:")->base;
        assert_ok(stk_dataset_random_split(&same, (const double[]){0.75, 0.25}, 2, (uint32_t)part,
                                           6, &err),
                  &err);
        assert_int_equal(d->size, part ? 5 : 15);
        assert_int_equal(d->fingerprint, same->fingerprint);
        samples *s = samples_range(d, 0, d->size);
        for (size_t i = 0; i < s->n; i++)
            assert_int_equal(seen[s->data[i][0]]++, 0);
        samples_free(s);
        stk_dataset_close(&same);
        stk_dataset_close(&d);
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(seen[i], 1);
}

static void test_index_files(void **state)
{
    static const struct {
        const char *text;
        stk_status status;
        const char *part;
    } bad[] = {
        {"", STK_EINVAL, "without"},       {"\n \n", STK_EINVAL, "without"},
        {"1\nx\n", STK_EFORMAT, "line 2"}, {"1\n2 3\n", STK_EFORMAT, "line 2"},
        {"-1\n", STK_EFORMAT, "line 1"},   {"1.5", STK_EFORMAT, "line 1"},
        {"19\n20\n", STK_EINVAL, "20"},    {"99999999999999999999999", STK_EFORMAT, "line 1"},
        {"\x93NUMPY", STK_EFORMAT, NULL},  {"\x93NUMPY\1\0\xff", STK_EFORMAT, NULL},
    };
    char folder[256], spec[512];

    test_folder(folder);
    test_write(folder, "good.txt", "7\r\n\n 3 \n19\n7", 12);
    snprintf(spec, sizeof spec, "toy:?indices=%s/good.txt", folder);
    expect(*state, spec, (const uint8_t[]){7, 3, 19, 7}, 4);
    snprintf(spec, sizeof spec, "toy:?subset=1:3&indices=%s/good.txt", folder);
    expect(*state, spec, (const uint8_t[]){3, 19}, 2);

    char npy[128 + 24];
    const int64_t values[3] = {5, 0, 12};
    memset(npy, ' ', sizeof npy);
    memcpy(npy, "\x93NUMPY\1\0\x76\0", 10);
    const char *dict = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
    memcpy(npy + 10, dict, strlen(dict));
    npy[127] = '\n';
    memcpy(npy + 128, values, sizeof values);
    test_write(folder, "good.npy", npy, sizeof npy);
    snprintf(spec, sizeof spec, "toy:?indices=%s/good.npy", folder);
    expect(*state, spec, (const uint8_t[]){5, 0, 12}, 3);

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_dataset *d = NULL;
        stk_error err;
        stk_error_init(&err);
        test_write(folder, "bad", bad[i].text, strlen(bad[i].text));
        snprintf(spec, sizeof spec, "toy:?indices=%s/bad", folder);
        stk_status status = stk_dataset_open(*state, spec, &d, &err);
        if (bad[i].part)
            assert_fails(status, bad[i].status, &err, bad[i].part);
        else
            assert_true(status < 0);
        assert_null(d);
    }
    stk_dataset *d = NULL;
    stk_error err;
    snprintf(spec, sizeof spec, "toy:?indices=%s", folder);
    assert_true(stk_dataset_open(*state, spec, &d, &err) < 0);
    assert_int_equal(open_toys, 0);
    test_folder_remove(folder);
}

static void collect(void *user, const char *name, const char *value)
{
    char *text = user;

    snprintf(text + strlen(text), 2048 - strlen(text), "%s=%s\n", name, value);
}

static void test_describe(void **state)
{
    char text[2048] = "";
    stk_dataset *d = &open_toy(*state, "digits:?split=test")->base;
    stk_error err;

    assert_ok(stk_dataset_describe(d, collect, text, &err), &err);
    assert_non_null(strstr(
        text, "dataset=digits\nsamples=10000\nfield image=uint8 28x28x1\nfield label=int64 scalar\n"
              "bytes per sample=792\nclasses=10: 0 1 2 3 4 5 6 7 8 9\n"));
    assert_non_null(strstr(text, "split=test\n"));
    assert_fails(stk_dataset_describe(NULL, collect, text, &err), STK_EINVAL, &err, "no dataset");
    stk_dataset_close(&d);
    stk_dataset_close(&d);
    stk_dataset_close(NULL);
}

static void test_field_bytes(void **state)
{
    stk_field huge =
        stk__field("x", STK_FLOAT64, (const int64_t[]){1 << 30, 1 << 30, 1 << 30, -1}, false);
    stk_field ragged = stk__field("x", STK_FLOAT64, (const int64_t[]){2, -1}, false);

    assert_int_equal(stk_field_bytes(&ragged), 16);
    ragged.layout = STK_RAGGED;
    assert_int_equal(stk_field_bytes(&ragged), 0);
    assert_int_equal(stk_field_bytes(&huge), 0);
    assert_int_equal(stk_field_bytes(NULL), 0);
}

/* ---- Every allocation fails once ----------------------------------------------------------- */

static void test_no_memory(void **state)
{
    static const char *const specs[] = {
        "digits:?split=test",
        "digits:?subset=1:9999&random_split=0.5,0.5&part=1",
        "digits:?indices=%s/list",
        "synthetic:?size=50&ragged=1..9&dtype=float32&cpu=1us",
        "synthetic:mem://empty?size=50&read_bytes=1KiB",
        "synthetic:%s?read_bytes=1",
    };
    char folder[256];

    test_folder(folder);
    test_write(folder, "list", "5\n6\n", 4);
    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        for (int64_t n = 0;; n++) {
            faults f = {.left = FAULTS_NONE};
            stk_context_options options;
            stk_context *ctx = NULL;
            stk_dataset *d = NULL;
            char spec[512];
            stk_error err;

            stk_context_options_init(&options);
            options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
            assert_ok(stk_context_create(&options, &ctx, &err), &err);
            snprintf(spec, sizeof spec, specs[i], folder);
            stk_error_init(&err);
            f.left = n;
            stk_status status = stk_dataset_open(ctx, spec, &d, &err);
            f.left = FAULTS_NONE;
            assert_true((status == STK_OK) == (d != NULL));
            /* What a store makes of it is for the tests of the stores. */
            bool stored = strchr(specs[i], '/') != NULL;
            if (status != STK_OK)
                assert_fails(status, stored ? err.status : STK_ENOMEM, &err, "");
            assert_true(status <= STK_OK);
            stk_dataset_close(&d);
            stk_context_destroy(&ctx);
            assert_int_equal(f.held, 0);
            if (status == STK_OK)
                break;
            assert_true(n < 200);
        }
    }
    test_folder_remove(folder);
}

static int set_up(void **state)
{
    stk_error err;

    test_context_open(state);
    assert_ok(stk_driver_add(*state, STK_DRIVER_DATASET, &toy_ops, &err), &err);
    assert_ok(stk_driver_add(*state, STK_DRIVER_DATASET, &rival_ops, &err), &err);
    return 0;
}

/* What is no failure is refused by name, and what was opened all the same is closed. */
static void test_answers_are_no_failures(void **state)
{
    const struct {
        stk_status status;
        const char *text;
    } cases[] = {{STK_EOS, "STK_EOS"},
                 {STK_EAGAIN, "STK_EAGAIN"},
                 {(stk_status)99, "does not have"},
                 {(stk_status)-98, "does not have"}};
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_driver_add(ctx, STK_DRIVER_DATASET, &odd_ops, &err), &err);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        opens = cases[i].status;
        assert_fails(stk_dataset_open(ctx, "odd:", &d, &err), STK_EINVAL, &err, cases[i].text);
        assert_null(d);
        assert_int_equal(open_toys, 0);
        opens = STK_OK;
        assert_ok(stk_dataset_open(ctx, "odd:", &d, &err), &err);
        describes = cases[i].status;
        assert_fails(stk_dataset_describe(d, no_line, NULL, &err), STK_EINVAL, &err, cases[i].text);
        stk_dataset_close(&d);
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_add_refused),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_recognise),
        cmocka_unit_test(test_not_recognised),
        cmocka_unit_test(test_hostile_specs),
        cmocka_unit_test(test_subset_text),
        cmocka_unit_test(test_split_text),
        cmocka_unit_test(test_index_files),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_field_bytes),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_answers_are_no_failures),
    };

    return cmocka_run_group_tests(tests, set_up, test_context_close);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets side by side whose samples are found by a key: each pair has one key, none is lost. */
#include "dataset/dataset.h"
#include "numbered.h"
#include "shards.h"
#include "windows.h"

enum { MOST = 4000 };

static char folder[256];

/* Numbers as a dataset whose field is `name`. */
static void write_numbers(const char *file, const int64_t *numbers, size_t n)
{
    test_write(folder, file, numbers, n * sizeof *numbers);
}

/* "(tokens:...)" of a file of numbers. */
static const char *part(const char *file, const char *options)
{
    static char text[8][400];
    static int turn;
    char *out = text[turn++ % 8];
    char inner[340];

    numbered_spec(folder, file, inner, sizeof inner);
    snprintf(out, sizeof text[0], "(%s%s)", inner, options);
    return out;
}

static stk_status open_pair(stk_context *ctx, const char *a, const char *b, const char *options,
                            stk_dataset **out, stk_error *err)
{
    char spec[1200];

    snprintf(spec, sizeof spec, "pair:%s,%s?%s", a, b, options);
    stk_error_init(err);
    *out = NULL;
    return stk_dataset_open(ctx, spec, out, err);
}

static void check_refused(stk_context *ctx, const char *a, const char *b, const char *options,
                          const char *says)
{
    stk_dataset *d;
    stk_error err;

    assert_int_not_equal(open_pair(ctx, a, b, options, &d, &err), STK_OK);
    assert_null(d);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
}

static void describe_line(void *user, const char *name, const char *value)
{
    if (strcmp(name, "pair") == 0)
        snprintf(user, 200, "%s", value);
}

/* What the description says of the pair. */
static void check_says(stk_dataset *d, const char *says)
{
    char line[200] = "";

    assert_int_equal(stk_dataset_describe(d, describe_line, line, NULL), STK_OK);
    assert_string_equal(line, says);
}

/* Go through an epoch: `both` fields are equal in each sample, and as many samples come as there
 * are. The sum of the keys is returned. */
static int64_t walk(stk_dataset *d, const char *a, const char *b, int workers, int shuffle)
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    stk_status status;
    uint64_t n = 0;
    int64_t sum = 0;

    stk_loader_options_init(&o);
    o.batch_size = 7;
    o.shuffle = shuffle;
    o.epochs = 1;
    o.num_workers = workers;
    o.memory_budget = 32 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
        stk_tensor x = {.struct_size = sizeof x}, y = x;
        assert_int_equal(stk_batch_find(batch, a, &x), STK_OK);
        assert_int_equal(stk_batch_find(batch, b, &y), STK_OK);
        for (uint64_t r = 0; r < stk_batch_count(batch); r++, n++) {
            assert_int_equal(((int64_t *)x.data)[r], ((int64_t *)y.data)[r]);
            sum += ((int64_t *)x.data)[r];
        }
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    assert_int_equal(n, d->size);
    stk_loader_destroy(&loader);
    return sum;
}

/* `n` numbers from `first` on, mixed by a seed. */
static void mixed(int64_t *numbers, int64_t first, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        numbers[i] = first + (int64_t)i;
    for (size_t i = n; i > 1; i--) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const size_t k = (size_t)(seed >> 33) % i;
        const int64_t other = numbers[k];
        numbers[k] = numbers[i - 1];
        numbers[i - 1] = other;
    }
}

/* Sets of one size in other orders; the order is that of the first. */
static void test_all(void **state)
{
    static int64_t a[MOST], b[MOST];
    stk_dataset *d;
    stk_error err;

    mixed(a, -50, MOST, 1);
    mixed(b, -50, MOST, 2);
    write_numbers("a.bin", a, MOST);
    write_numbers("b.bin", b, MOST);
    assert_ok(open_pair(*state, part("a.bin", ""), part("b.bin", ""), "by=tokens", &d, &err), &err);
    assert_int_equal(d->size, MOST);
    check_says(d, "2 datasets side by side by tokens");
    for (int workers = 0; workers < 3; workers++)
        for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++)
            assert_int_equal(walk(d, "a_tokens", "b_tokens", workers, shuffle),
                             (int64_t)MOST * (MOST - 1) / 2 - 50 * MOST);
    stk_dataset_close(&d);
}

/* What has no partner is refused, and counted where it is left out. */
static void test_missing(void **state)
{
    static const int64_t a[] = {5, 3, 9, 1, 7}, b[] = {1, 2, 3, 4, 5, 6}, c[] = {5, 1, 1, 8};
    stk_dataset *d;
    stk_error err;

    write_numbers("a.bin", a, 5);
    write_numbers("b.bin", b, 6);
    write_numbers("c.bin", c, 4);
    check_refused(
        *state, part("a.bin", ""), part("b.bin", ""), "by=tokens",
        "no sample of its dataset 1 has the key 9 of sample 2 of its dataset 0; 2 keys of "
        "dataset 0 are not in dataset 1, and 3 the other way");
    check_refused(*state, part("b.bin", "&subset=0:1"), part("a.bin", ""), "by=tokens",
                  "no sample of its dataset 0 has the key 5 of sample 0 of its dataset 1");
    assert_ok(
        open_pair(*state, part("a.bin", ""), part("b.bin", ""), "by=tokens&missing=drop", &d, &err),
        &err);
    assert_int_equal(d->size, 3);
    check_says(d, "2 datasets side by side by tokens, dataset 1 without partner: 3, dataset 0 "
                  "without partner: 2");
    assert_int_equal(walk(d, "a_tokens", "b_tokens", 2, STK_SHUFFLE_NONE), 9);
    stk_dataset_close(&d);
    check_refused(
        *state, part("c.bin", ""), part("b.bin", ""), "by=tokens&missing=drop",
        "the key 1 of sample 2 of its dataset 0 was there before; 1 of its samples repeat "
        "a key");
    assert_ok(open_pair(*state, part("b.bin", ""), part("c.bin", ""),
                        "by=tokens&missing=drop&duplicates=first", &d, &err),
              &err);
    assert_int_equal(d->size, 2);
    assert_int_equal(walk(d, "a_tokens", "b_tokens", 0, STK_SHUFFLE_FULL), 6);
    stk_dataset_close(&d);
    check_refused(*state, part("a.bin", "&subset=2:3"), part("b.bin", ""), "by=tokens&missing=drop",
                  "no key 'tokens' is in all 2 datasets");
}

/* Three of them: a key has to be in all. */
static void test_three(void **state)
{
    static const int64_t a[] = {5, 3, 9, 1, 7}, b[] = {1, 2, 3, 4, 5, 6}, c[] = {7, 5, 1};
    char two[840];
    stk_dataset *d;
    stk_error err;

    write_numbers("a.bin", a, 5);
    write_numbers("b.bin", b, 6);
    write_numbers("c.bin", c, 3);
    snprintf(two, sizeof two, "%s,%s", part("a.bin", ""), part("b.bin", ""));
    assert_ok(open_pair(*state, two, part("c.bin", ""), "by=tokens&missing=drop", &d, &err), &err);
    assert_int_equal(d->size, 2);
    assert_int_equal(walk(d, "a_tokens", "b_tokens", 1, STK_SHUFFLE_NONE), 6);
    assert_int_equal(walk(d, "a_tokens", "c_tokens", 1, STK_SHUFFLE_NONE), 6);
    stk_dataset_close(&d);
}

/* Records of shards by a text that each has, and by a number that another kind of dataset has. */
static void test_shards(void **state)
{
    static int64_t numbers[20];
    char one[340], two[640];
    stk_dataset *d;
    stk_error err;

    shard_numbers(folder, "x.tar", 0, 20);
    shard_numbers(folder, "y.tar", 10, 20);
    shard_numbers(folder, "z.tar", 0, 10);
    snprintf(one, sizeof one, "(webdataset:%s/x.tar?index=none)", folder);
    snprintf(two, sizeof two, "(webdataset:%s/y.tar,%s/z.tar?index=none)", folder, folder);
    assert_ok(open_pair(*state, one, two, "by=txt", &d, &err), &err);
    assert_int_equal(d->size, 20);
    assert_int_equal(walk(d, "a_label", "b_label", 2, STK_SHUFFLE_FULL), 190);
    stk_dataset_close(&d);
    mixed(numbers, 0, 20, 3);
    write_numbers("n.bin", numbers, 20);
    assert_ok(open_pair(*state, part("n.bin", "&rename=tokens:label"), one, "by=label", &d, &err),
              &err);
    assert_int_equal(walk(d, "a_label", "b_label", 2, STK_SHUFFLE_BLOCK), 190);
    stk_dataset_close(&d);
    check_refused(*state, part("n.bin", "&rename=tokens:txt"), one, "by=txt",
                  "by=txt is an integer in its dataset 0 and text in its dataset 1");
    snprintf(two, sizeof two, "(webdataset:%s/y.tar?index=none)", folder);
    check_refused(*state, one, two, "by=txt", "has the key '0' of sample 0");
}

static void test_refused(void **state)
{
    static const int64_t a[] = {1, 2};

    write_numbers("a.bin", a, 2);
    check_refused(*state, part("a.bin", ""), part("a.bin", "&rename=tokens:x"), "by=tokens",
                  "its dataset 1 has no field 'tokens' to pair by; its fields are x");
    check_refused(*state, "(digits:?size=2)", "(digits:?size=2)", "by=image",
                  "by=image is of uint8 in its dataset 0; a key is one integer or text");
    check_refused(*state, part("a.bin", ""), part("a.bin", ""), "missing=drop",
                  "by=FIELD is not given");
    check_refused(*state, part("a.bin", ""), part("a.bin", ""), "duplicates=first",
                  "by=FIELD is not given");
    check_refused(*state, part("a.bin", "&cast=tokens:float32"), part("a.bin", ""), "by=tokens",
                  "by=tokens is of float32");
}

/* A sample that can't be read is an error, whatever the threads: the first of them. */
static void test_unread(void **state)
{
    char spec[340];

    shard_numbers(folder, "x.tar", 0, 200);
    {
        tar_bytes t = {NULL, 0};
        for (int i = 0; i < 200; i++) {
            char name[128];
            snprintf(name, sizeof name, "%06d.cls", i);
            shard_text(&t, name, i == 63 || i == 64 ? "none" : "1");
            snprintf(name, sizeof name, "%06d.txt", i);
            shard_text(&t, name, name);
        }
        tar_end(&t);
        shard_write(folder, "bad.tar", &t);
    }
    snprintf(spec, sizeof spec, "(webdataset:%s/bad.tar?index=none)", folder);
    check_refused(*state, spec, spec, "by=txt",
                  "dataset 0 can't be read for its keys 'txt': sample 63 is bad");
}

/* Samples 0 and 64 are read by two threads, fail, and neither before the other is on its way. */
static pthread_barrier_t both;
static atomic_uint waited;

static stk_status failing_open(stk_context *ctx, const char *url, const void *options,
                               stk_dataset **out, stk_error *err)
{
    static const stk_field field = {
        .struct_size = sizeof(stk_field), .name = "k", .dtype = STK_INT64};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .num_fields = 1, .fields = &field, .size = 128};
    const stk_driver_head *kind;

    (void)url, (void)options;
    STK_TRY(stk_driver_find(ctx, STK_DRIVER_DATASET, "failing", &kind, err));
    return stk_dataset_create(ctx, (const stk_dataset_ops *)(const void *)kind, &both, &info, out,
                              err);
}

static void failing_close(stk_dataset *dataset)
{
    (void)dataset;
}

static void failing_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        stk_sample *s = stk_sample_at(samples, i);
        stk_value *v = stk_sample_value(s, 0);
        v->data = v->out;
        memcpy(v->out, &(int64_t){(int64_t)s->index}, sizeof(int64_t));
        if (s->index % 64 || atomic_fetch_add(&waited, 1) >= 2)
            continue;
        pthread_barrier_wait(&both);
        s->status = STK_EFORMAT;
        s->reason = "it fails";
    }
}

/* Of two failures the first sample's is told, whichever comes first. */
static void test_first_failure(void **state)
{
    static const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                        .name = "failing",
                                        .doc = "Samples that fail together.",
                                        .open = failing_open,
                                        .close = failing_close,
                                        .prepare = failing_prepare};
    stk_error err;

    assert_ok(stk_driver_add(*state, STK_DRIVER_DATASET, &ops, &err), &err);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
        atomic_store(&waited, 0);
        check_refused(*state, "(failing:)", "(failing:)", "by=k", "sample 0 is bad");
        pthread_barrier_destroy(&both);
    }
}

/* Numbers are the same in each type; the pairs are part of the fingerprint. */
static void test_identity(void **state)
{
    static const int64_t a[] = {1, 2, 3, -4}, b[] = {-4, 1, 3, 2}, c[] = {3, 1, -4, 2};
    stk_dataset *d, *other;
    stk_error err;

    write_numbers("a.bin", a, 4);
    write_numbers("b.bin", b, 4);
    write_numbers("c.bin", c, 4);
    assert_ok(open_pair(*state, part("a.bin", "&cast=tokens:int32"), part("b.bin", ""), "by=tokens",
                        &d, &err),
              &err);
    assert_int_equal(d->size, 4);
    stk_dataset_close(&d);
    assert_ok(open_pair(*state, part("a.bin", ""), part("b.bin", ""), "by=tokens", &d, &err), &err);
    assert_ok(open_pair(*state, part("a.bin", ""), part("b.bin", ""), "prefixes=a,b", &other, &err),
              &err);
    assert_int_not_equal(d->fingerprint, other->fingerprint);
    stk_dataset_close(&other);
    /* Files of one size, of which no fingerprint tells the order. */
    assert_ok(open_pair(*state, part("a.bin", ""), part("c.bin", ""), "by=tokens", &other, &err),
              &err);
    assert_int_not_equal(d->fingerprint, other->fingerprint);
    stk_dataset_close(&other);
    stk_dataset_close(&d);
}

/* The same two tables, paired by one key and by another. */
static void test_other_pairs(void **state)
{
    static const char a[] = "k,l\n0,0\n1,1\n", b[] = "k,l\n0,1\n1,0\n";
    char left[300], right[300];
    stk_dataset *by_k, *by_l;
    stk_error err;

    test_write(folder, "a.csv", a, sizeof a - 1);
    test_write(folder, "b.csv", b, sizeof b - 1);
    snprintf(left, sizeof left, "(csv:%s/a.csv)", folder);
    snprintf(right, sizeof right, "(csv:%s/b.csv)", folder);
    assert_ok(open_pair(*state, left, right, "by=k&prefixes=a,b", &by_k, &err), &err);
    assert_ok(open_pair(*state, left, right, "by=l&prefixes=a,b", &by_l, &err), &err);
    assert_int_not_equal(by_k->fingerprint, by_l->fingerprint);
    stk_dataset_close(&by_k);
    stk_dataset_close(&by_l);
}

/* Shards of pictures and shards of what is said of them, by the names of their samples. */
static void test_names(void **state)
{
    tar_bytes t = {NULL, 0};
    char a[400], b[400];
    stk_dataset *d;
    stk_error err;

    shard_numbers(folder, "names/a.tar", 0, 40);
    for (int i = 0; i < 40; i++) {
        char name[128], text[16];
        snprintf(name, sizeof name, "%06d.more.cls", 39 - i);
        snprintf(text, sizeof text, "%d", 39 - i);
        shard_text(&t, name, text);
    }
    tar_end(&t);
    shard_write(folder, "names/b.tar", &t);
    snprintf(a, sizeof a, "(webdataset:%s/names/a.tar?fields=__key__,cls)", folder);
    snprintf(b, sizeof b, "(webdataset:%s/names/b.tar?fields=__key__,more.cls)", folder);
    assert_ok(open_pair(*state, a, b, "by=__key__", &d, &err), &err);
    assert_int_equal(d->size, 40);
    assert_int_equal(walk(d, "label", "more.cls", 2, STK_SHUFFLE_FULL), 40 * 39 / 2);
    stk_dataset_close(&d);
}

/* Samples that are made of their index alone. */
static void test_made(void **state)
{
    int64_t numbers[10];
    stk_dataset *d;
    stk_error err;

    mixed(numbers, 0, 10, 4);
    write_numbers("n.bin", numbers, 10);
    assert_ok(open_pair(*state, part("n.bin", "&rename=tokens:label"), "(digits:?size=100)",
                        "by=label&duplicates=first", &d, &err),
              &err);
    assert_int_equal(d->size, 10);
    assert_int_equal(walk(d, "a_label", "b_label", 1, STK_SHUFFLE_FULL), 45);
    stk_dataset_close(&d);
}

/* Keys that lie in chunks, which several samples share: decoded while the pair is opened. */
static void test_chunks(void **state)
{
    static const made keys = {.dtype = STK_INT16, .shape = {4, 4, 4}, .chunk = {2, 4, 2}};
    static int64_t numbers[64];
    stk_dataset *d;
    stk_error err;

    make_array(*state, "mem://k", &keys);
    mixed(numbers, 0, 64, 5);
    write_numbers("n.bin", numbers, 64);
    assert_ok(open_pair(*state, "(array:mem://k?window=1x1x1&cast=data:int64)",
                        part("n.bin", "&rename=tokens:data"), "by=data", &d, &err),
              &err);
    for (int workers = 0; workers < 2; workers++)
        assert_int_equal(walk(d, "a_data", "b_data", workers, STK_SHUFFLE_FULL), 32 * 63);
    stk_dataset_close(&d);
}

static int open_folder(void **state)
{
    test_folder(folder);
    return test_context_open(state);
}

static int close_folder(void **state)
{
    test_folder_remove(folder);
    return test_context_close(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),         cmocka_unit_test(test_missing),
        cmocka_unit_test(test_three),       cmocka_unit_test(test_shards),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_unread),
        cmocka_unit_test(test_identity),    cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_other_pairs), cmocka_unit_test(test_made),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_first_failure),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that need the same are prepared by one call: what comes out is what comes out of one row at
 * a time. Three ways are compared over tables, orders, sizes of batches, workers and policies: by
 * one call; in groups, but row by row; and with needs of its own for each row, which are then never
 * those of a whole block.
 */
#include "property/loader/many.h"

#define PARQUET "parquet:" TESTS_DIR "/golden/parquet/"
#define ARROW   "arrow:" TESTS_DIR "/golden/arrow/"

enum { FILES = 3, LINES = 1500 };

static char folder[256];
static bool damaged; /* pages are */
static uint64_t bad_alike;
static uint64_t runs_of_specs; /* with runs among them */

/* ---- Tables ---- */

/* A number, at times nothing, at times, where `bad`, what is none. */
static size_t put_cell(char *to, uint64_t *seed, const char *format, long value, bool bad)
{
    const uint64_t r = test_random(seed) % 997;

    return r % 9 == 0          ? 0
           : bad && r % 60 < 2 ? (size_t)sprintf(to, "x%ld", value)
                               : (size_t)sprintf(to, format, value);
}

static void write_csv(const char *name, uint64_t seed, bool bad)
{
    char *text = malloc(LINES * 120 + 200), *at = text;

    assert_non_null(text);
    at += sprintf(at, "a,b,c,d,e,label,flag\n");
    for (long i = 0; i < LINES; i++) {
        const long value = (long)(test_random(&seed) % 100);
        at += put_cell(at, &seed, "%ld", value * 1000003 - 77, false);
        *at++ = ',';
        at += put_cell(at, &seed, "%ld.25", value, bad);
        *at++ = ',';
        at += put_cell(at, &seed, "%ld", value, bad);
        *at++ = ',';
        at += put_cell(at, &seed, "%lde-3", i, false);
        *at++ = ',';
        at += put_cell(at, &seed, "%ld", -value, bad);
        at += sprintf(at, ",%ld,%s\n", i % 10, i % 3 ? "true" : "false");
    }
    test_write(folder, name, text, (size_t)(at - text));
    free(text);
}

/* Texts of up to 3,000 bytes, so that few batches of many have room in a small budget. */
static void write_texts(uint64_t seed)
{
    enum { TEXTS = 1500, LONGEST = 3000 };
    char *text = malloc(TEXTS * (LONGEST + 20)), *at = text;

    assert_non_null(text);
    at += sprintf(at, "id,text\n");
    for (int i = 0; i < TEXTS; i++) {
        const size_t length = test_random(&seed) % LONGEST;
        at += sprintf(at, "%d,", i);
        memset(at, 'a' + i % 26, length);
        at += length;
        *at++ = '\n';
    }
    test_write(folder, "texts/0.csv", text, (size_t)(at - text));
    free(text);
}

static int make_tables(void **state)
{
    char name[32];

    (void)state;
    test_folder(folder);
    for (uint64_t i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "good/%d.csv", (int)i);
        write_csv(name, 40 + i, false);
        snprintf(name, sizeof name, "bad/%d.csv", (int)i);
        write_csv(name, 50 + i, true);
    }
    write_csv("keys/split=a/0.csv", 61, false);
    write_csv("keys/split=b/0.csv", 62, false);
    write_texts(60);
    return 0;
}

static int drop_tables(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* A copy of a file with a byte of its pages changed. */
static void write_damaged(const char *name, size_t at)
{
    char path[512];
    static unsigned char data[1 << 20];

    snprintf(path, sizeof path, TESTS_DIR "/golden/parquet/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_true(at < size);
    data[at] ^= 0x41;
    test_write(folder, "damaged.parquet", data, size);
}

/* ---- Tests ---- */

static stk_loader_options options_of(uint64_t seed)
{
    static const uint64_t sizes[] = {1, 7, 64, 300, 1024};
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = sizes[test_random(&seed) % STK_COUNT(sizes)];
    o.shuffle = (int32_t)(test_random(&seed) % 3);
    o.num_workers = (int64_t)(test_random(&seed) % 4);
    o.drop_last = test_random(&seed) % 2;
    o.seed = test_random(&seed) % 100;
    o.on_error = (int32_t)(test_random(&seed) % 3);
    o.max_errors = o.on_error == STK_ON_ERROR_FAIL ? NULL : "100%";
    o.epochs = 1;
    o.cache = test_random(&seed) % 5 ? STK_CACHE_NONE : (int32_t)(1 + seed % 2);
    o.memory_budget = (test_random(&seed) % 3 ? UINT64_C(64) : UINT64_C(12)) << 20;
    return o;
}

/* Each way gives the same, and this many of the rows are good; whether any is bad. */
static bool check_spec(const char *spec, uint64_t seed, bool fixed)
{

    stk_context *ctx = test_context();
    const stk_loader_options o = options_of(seed);
    output all[WAYS] = {0};

    calls = rows_of_calls = runs = 0;
    for (int way = 0; way < WAYS; way++)
        run_some(ctx, spec, (enum way)way, &o, NULL, UINT64_MAX, NULL, &all[way]);
    same_output(&all[GROUPED], &all[MANY], true);
    const bool parquet = strncmp(spec, "parquet:", 8) == 0;
    if (damaged && (all[ALONE].bad != all[MANY].bad || o.on_error == STK_ON_ERROR_REPLACE))
        /* A page whose header is damaged takes those behind it along. */
        assert_true(all[ALONE].bad <= all[MANY].bad || o.on_error == STK_ON_ERROR_REPLACE);
    else
        same_output(&all[ALONE], &all[MANY], !parquet);
    bad_alike += damaged && all[MANY].bad && all[ALONE].bad == all[MANY].bad;
    if (fixed && o.shuffle == STK_SHUFFLE_NONE && o.batch_size > 100 && !o.cache)
        assert_true(rows_of_calls >= all[MANY].good / 2 && calls < rows_of_calls / 8);
    runs_of_specs += fixed && runs;
    if (o.shuffle != STK_SHUFFLE_NONE || !fixed)
        assert_int_equal(runs, 0);
    if (!fixed)
        assert_int_equal(calls, 0);
    const bool bad = all[MANY].bad != 0;
    for (int way = 0; way < WAYS; way++)
        drop_output(&all[way]);
    stk_context_destroy(&ctx);
    return bad;
}

static void test_csv(void **state)
{
    static const char *const nulls[] = {"fail", "zero", "mask", "drop"};
    static const char *const more[] = {
        "", "&types=a:int64,b:float32,c:uint8,e:int16", "&where=label >= 3 and c < 90",
        "&columns=flag,c,label&types=c:uint16,label:uint32", "&columns=c&types=c:int8"};
    uint64_t seed = 1, bad = 0, good = 0;
    char spec[512];

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        snprintf(spec, sizeof spec, "csv:%s/%s?nulls=%s%s%s", folder, i % 2 ? "bad" : "good",
                 nulls[i / 2 % 4], more[i % 5],
                 i % 2 && i % 5 == 0 ? "&types=b:float64,c:int32,e:int64" : "");
        if (i % 2 && i % 5 == 2)
            continue; /* what is no number compares with none */
        *(check_spec(spec, test_random(&seed), true) ? &bad : &good) += 1;
    }
    assert_true(bad > 5 && good > 5 && runs_of_specs > 3);
}

static void test_golden(void **state)
{
    static const char *const numbers =
        "id,small,wide,f,d,flag,price,when,s.x,maybe,nothing,fixed,h";
    static const char *const files[] = {"dictionary_snappy", "dictionary_index", "plain",
                                        "plain_gzip",        "delta_zstd",       "delta_index",
                                        "split_lz4"};
    static const char *const nulls[] = {"fail", "zero", "mask"};
    uint64_t seed = 2;
    char spec[512];

    (void)state;
    for (unsigned i = 0; i < 3 * STK_COUNT(files); i++) {
        snprintf(spec, sizeof spec, PARQUET "%s.parquet?nulls=%s&columns=%s", files[i / 3],
                 nulls[i % 3], numbers);
        check_spec(spec, test_random(&seed), true);
        snprintf(spec, sizeof spec, PARQUET "%s.parquet?nulls=%s", files[i / 3], nulls[i % 3]);
        check_spec(spec, test_random(&seed), false);
    }
    check_spec(ARROW "nulls.arrow?nulls=mask", 3, false);
    check_spec(ARROW "nulls_lz4.arrows?nulls=zero", 4, false);
}

/* Pages that cannot be decoded fail all of their rows, and no other. */
static void test_damaged(void **state)
{
    uint64_t seed = 5, bad = 0;
    char spec[512];

    (void)state;
    snprintf(spec, sizeof spec, "parquet:%s/damaged.parquet?nulls=zero&columns=id,small,f,d,flag",
             folder);
    damaged = true;
    bad_alike = 0;
    for (size_t at = 40; at < 1500; at += 61) {
        stk_context *ctx = test_context();
        stk_dataset *d;
        stk_error err;
        write_damaged("plain_gzip.parquet", at);
        const stk_status status = stk_dataset_open(ctx, spec, &d, &err);
        if (status == STK_OK)
            stk_dataset_close(&d);
        stk_context_destroy(&ctx);
        if (status == STK_OK)
            bad += check_spec(spec, test_random(&seed), true);
    }
    damaged = false;
    assert_true(bad > 0 && bad_alike > 0);
}

/* Of rows that need the same some have no room for their texts: they fail alone. */
static void test_no_room(void **state)
{
    uint64_t seed = 9, bad = 0;
    char spec[512];

    (void)state;
    snprintf(spec, sizeof spec, "csv:%s/texts?nulls=zero", folder);
    for (unsigned i = 0; i < 16; i++)
        bad += check_spec(spec, test_random(&seed), false);
    assert_true(bad > 0);
}

/* Stopped in the middle and gone on with another way: the same as without. */
static void test_resumed(void **state)
{
    uint64_t seed = 6;
    char spec[512];

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        stk_context *ctx = test_context();
        output whole = {0}, parts = {0};
        stk_loader_options o = options_of(test_random(&seed));
        stk_loader_state at;
        o.batch_size = 100 + 37 * i;
        o.on_error = i % 2 ? STK_ON_ERROR_SKIP : STK_ON_ERROR_REPLACE;
        o.max_errors = "100%";
        snprintf(spec, sizeof spec, "csv:%s/bad?nulls=zero&types=b:float32,c:uint8,e:int32",
                 folder);
        run_some(ctx, spec, ALONE, &o, NULL, 3 + i, NULL, &whole);
        run_some(ctx, spec, ALONE, &o, NULL, 3 + i, &at, &parts);
        same_output(&whole, &parts, true);
        drop_output(&whole);
        drop_output(&parts);
        o.num_workers = i % 3;
        run_some(ctx, spec, i % 2 ? MANY : ALONE, &o, &at, UINT64_MAX, NULL, &whole);
        run_some(ctx, spec, i % 2 ? GROUPED : MANY, &o, &at, UINT64_MAX, NULL, &parts);
        same_output(&whole, &parts, true);
        assert_true(whole.good && whole.bad);
        drop_output(&whole);
        drop_output(&parts);
        stk_context_destroy(&ctx);
    }
}

/* Views map indices; a dataset that drops a field, and one of several, prepare row by row. */
static void test_wrapped(void **state)
{
    static const struct {
        const char *options;
        bool many;
    } all[] = {{"&subset=100:4000", true},
               {"&random_split=0.5,0.5&part=1", true},
               {"&kfold=3&fold=1&part=train", true},
               {"&drop=a", false}};
    uint64_t seed = 7;
    char spec[800];

    (void)state;
    for (unsigned i = 0; i < 3 * STK_COUNT(all); i++) {
        snprintf(spec, sizeof spec, "csv:%s/good?nulls=mask%s", folder, all[i / 3].options);
        check_spec(spec, test_random(&seed), all[i / 3].many);
    }
    snprintf(spec, sizeof spec,
             "concat:(csv:%s/good?nulls=zero),(csv:%s/good?nulls=zero&where=a>0)", folder, folder);
    check_spec(spec, 8, false);
    /* Names of folders, also such as are none of the names that are given. */
    for (int i = 0; i < 6; i++) {
        snprintf(spec, sizeof spec, "csv:%s/keys?nulls=zero&columns=c,split&categories=split%s",
                 folder, i % 2 ? ":a" : "");
        assert_int_equal(check_spec(spec, test_random(&seed), true), i % 2);
    }
}

/* ---- A block that is too large ---- */

enum { BULK = 8 << 20, BULKS = 100 };

static uint64_t told_blocks, told_rows;

/* In blocks each sample needs all of the file, else its first byte. */
static stk_status bulk_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                              stk_locator *to, stk_error *err)
{
    *(to->blocks ? &told_blocks : &told_rows) += 1;
    for (size_t i = 0; i < n; i++) {
        const stk_need need = {.struct_size = sizeof need, .length = to->blocks ? BULK : 1};
        if (i && to->same && to->same(to, i, 0))
            continue;
        const stk_status status = to->add(to, i, &need);
        if (status != STK_OK)
            return status;
    }
    return STK_OK;
}

static size_t bulk_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                          size_t size)
{
    *store = stk_dataset_self(dataset);
    return (size_t)snprintf(key, size, "bulk.bin");
}

static void bulk_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const stk_sample *s = stk_sample_at(samples, i);
        stk_sample_value(s, 0)->data = s->needs[0].data;
    }
}

static void bulk_close(stk_dataset *dataset)
{
    stk_store *store = stk_dataset_self(dataset);

    stk_store_close(&store);
}

/* What does not fit is no bad sample where what one row needs does. */
static void test_bulk(void **state)
{
    const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                 .name = "bulk",
                                 .close = bulk_close,
                                 .locate = bulk_locate,
                                 .object = bulk_object,
                                 .prepare = bulk_prepare};
    const stk_field field = {
        .struct_size = sizeof field, .name = "byte", .dtype = STK_UINT8, .layout = STK_FIXED};
    const stk_dataset_info info = {.struct_size = sizeof info,
                                   .num_fields = 1,
                                   .fields = &field,
                                   .size = BULKS,
                                   .block_size = BULKS};
    stk_context *ctx = test_context();
    unsigned char *bytes = malloc(BULK);
    char key[256], url[300];
    stk_loader_options o;
    stk_dataset *d;
    stk_loader *loader;
    stk_batch *batch;
    stk_store *store;
    uint64_t rows = 0;
    stk_error err;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 7, BULK);
    test_write(folder, "bulk.bin", bytes, BULK);
    free(bytes);
    snprintf(url, sizeof url, "file://%s", folder);
    assert_ok(stk_store_open(ctx, url, &store, key, sizeof key, &err), &err);
    assert_ok(stk_dataset_create(ctx, &ops, store, &info, &d, &err), &err);
    d->block_bytes = 1; /* it says little, and needs much */
    stk_loader_options_init(&o);
    o.batch_size = 32;
    o.epochs = 1;
    o.memory_budget = 6 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (stk_status status; (status = stk_loader_next(loader, -1, &batch, &err)) != STK_EOS;) {
        stk_tensor t = {.struct_size = sizeof t};
        assert_ok(status, &err);
        assert_int_equal(stk_batch_field(batch, 0, &t), STK_OK);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++)
            assert_int_equal(((unsigned char *)t.data)[i], 7);
        rows += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    assert_int_equal(rows, BULKS);
    assert_true(told_blocks && told_rows);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* The first sample of a call may be beyond all memory; the others need what it does, and are small.
 */
static stk_status led_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *err)
{
    const stk_need need = {.struct_size = sizeof need, .length = 1};

    for (size_t i = 0; i < n; i++) {
        if (!i || !to->same || !to->same(to, i, 0)) {
            const stk_status status = to->add(to, i, &need);
            if (status != STK_OK)
                return status;
        }
        to->bytes(to, i, 0, indices[i] % 8 ? 1 : UINT64_C(1) << 40);
    }
    return STK_OK;
}

static void led_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const stk_sample *s = stk_sample_at(samples, i);
        stk_value *value = stk_sample_value(s, 0);
        value->data = s->needs[0].data;
        value->size = 1;
    }
}

/* It fails alone: another one leads the group. */
static void test_leader_too_large(void **state)
{
    const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                 .name = "led",
                                 .close = bulk_close,
                                 .locate = led_locate,
                                 .object = bulk_object,
                                 .prepare = led_prepare};
    const stk_field field = {
        .struct_size = sizeof field, .name = "byte", .dtype = STK_UINT8, .layout = STK_BYTES};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .num_fields = 1, .fields = &field, .size = 64};
    stk_context *ctx = test_context();
    char key[256], url[300];
    stk_loader_options o;
    stk_dataset *d;
    stk_loader *loader;
    stk_batch *batch;
    stk_store *store;
    uint64_t rows = 0;
    stk_error err;

    (void)state;
    test_write(folder, "bulk.bin", "7", 1);
    snprintf(url, sizeof url, "file://%s", folder);
    assert_ok(stk_store_open(ctx, url, &store, key, sizeof key, &err), &err);
    assert_ok(stk_dataset_create(ctx, &ops, store, &info, &d, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 8;
    o.epochs = 1;
    o.on_error = STK_ON_ERROR_SKIP;
    o.max_errors = "100%";
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    for (stk_status status; (status = stk_loader_next(loader, 20000, &batch, &err)) != STK_EOS;) {
        assert_ok(status, &err);
        assert_int_equal(stk_batch_count(batch), 7);
        rows += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    assert_int_equal(rows, 56);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),     cmocka_unit_test(test_golden),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_resumed), cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_bulk),    cmocka_unit_test(test_leader_too_large)};

    return cmocka_run_group_tests(tests, make_tables, drop_tables);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tfrecord: shards written by scripts/make_tfrecord_golden.py, which was compared with TensorFlow;
 * damage of every kind.
 */
#include <math.h>

#include "samples.h"
#include "store/store.h"
#include "support/examples.h"

#define GOLDEN TESTS_DIR "/golden/tfrecord/"
enum { RECORDS = 6 };

/* ---- Golden ---------------------------------------------------------------------------------- */

static int64_t token(int64_t j)
{
    int64_t value = j % 2 ? -j : j;

    for (int64_t k = 0; k < j % 4; k++)
        value *= 300;
    return value;
}

static stk_tensor field(const stk_batch *batch, const char *name)
{
    stk_tensor t = {.struct_size = sizeof t};

    assert_int_equal(stk_batch_find(batch, name, &t), STK_OK);
    return t;
}

static void check_row(const stk_batch *batch, uint64_t r)
{
    static const char png[] = "\x89PNG\r\n\x1a\n\x00\x01\x02\x03\x04";
    const uint64_t k = ((uint64_t *)field(batch, "index").data)[r];
    const stk_tensor image = field(batch, "image"), tokens = field(batch, "tokens"),
                     text = field(batch, "text");
    char expected[16];

    assert_int_equal(((int64_t *)field(batch, "label").data)[r], (int64_t)k - 2);
    for (uint64_t j = 0; j < 3; j++)
        assert_true(((float *)field(batch, "embedding").data)[3 * r + j] ==
                    (float)k + (float)j / 4);
    assert_int_equal(image.offsets[r + 1] - image.offsets[r], 8 + k);
    assert_memory_equal((uint8_t *)image.data + image.offsets[r], png, 8 + k);
    assert_int_equal(tokens.offsets[r + 1] - tokens.offsets[r], k);
    for (uint64_t j = 0; j < k; j++)
        assert_int_equal(((int64_t *)tokens.data)[tokens.offsets[r] + j], token((int64_t)j));
    const int n = snprintf(expected, sizeof expected, "record %d", (int)k);
    assert_int_equal(text.offsets[r + 1] - text.offsets[r], n);
    assert_memory_equal((uint8_t *)text.data + text.offsets[r], expected, (size_t)n);
}

/* One epoch; returns the rows. */
static uint64_t read_all(stk_dataset *d, void (*check)(const stk_batch *batch, uint64_t row))
{
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    uint64_t rows = 0;
    stk_status status;

    stk_loader_options_init(&o);
    o.batch_size = 4;
    o.shuffle = STK_SHUFFLE_FULL;
    o.epochs = 1;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        for (uint64_t r = 0; r < stk_batch_count(batch); r++, rows++)
            check(batch, r);
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    stk_loader_destroy(&loader);
    return rows;
}

static void find_schema(void *user, const char *name, const char *value)
{
    if (strncmp(name, "schema", 6) == 0)
        snprintf(user, 200, "%s", value);
}

/* The schema is learnt, or given; the shards by braces or by their folder. */
static void test_golden(void **state)
{
    static const char *const specs[] = {
        "examples-{00000..00001}-of-00002",
        "examples-{00000..00001}-of-00002?schema=text:bytes,image/encoded:image,embedding:float[3],"
        "label=image/class/label:int64,tokens:int64[]"};
    stk_dataset *d;
    stk_error err;
    char spec[512], schema[200];

    for (size_t i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "tfrecord:%s%s%sindex=none", GOLDEN, specs[i], i ? "&" : "?");
        assert_ok(stk_dataset_open(*state, spec, &d, &err), &err);
        assert_int_equal(d->size, RECORDS);
        assert_int_equal(read_all(d, check_row), RECORDS);
        assert_ok(stk_dataset_describe(d, find_schema, schema, &err), &err);
        assert_string_equal(schema, i ? "text:bytes,image/encoded:image,embedding:float32[3],"
                                        "image/class/label:int64,tokens:int64[]"
                                      : "embedding:float32[3],image/class/label:int64,"
                                        "image/encoded:image,text:bytes,tokens:int64[]");
        stk_dataset_close(&d);
    }
    assert_fails(stk_dataset_open(*state, "tfrecord:" GOLDEN "?index=none&schema=x", &d, &err),
                 STK_EINVAL, &err, "schema: 'x' has no type");
    assert_ok(
        stk_dataset_open(*state, "tfrecord:" GOLDEN "?index=none&schema=text:bytes", &d, &err),
        &err);
    assert_int_equal(d->size, RECORDS + 3); /* all that are shards by their names */
    stk_dataset_close(&d);
}

static void check_sequence(const stk_batch *batch, uint64_t r)
{
    const uint64_t k = ((uint64_t *)field(batch, "index").data)[r];
    const stk_tensor tokens = field(batch, "tokens");
    const int64_t *values = (int64_t *)tokens.data + tokens.offsets[r];

    assert_int_equal(((int64_t *)field(batch, "length").data)[r], k);
    assert_int_equal(tokens.offsets[r + 1] - tokens.offsets[r], 2 * (k + 1));
    for (uint64_t s = 0; s <= k; s++) {
        assert_int_equal(values[2 * s], s);
        assert_int_equal(values[2 * s + 1], -(int64_t)s);
    }
}

static void test_golden_sequences(void **state)
{
    stk_dataset *d;
    stk_error err;

    assert_ok(
        stk_dataset_open(*state, "tfrecord:" GOLDEN "sequences.tfrecord?index=none", &d, &err),
        &err);
    assert_int_equal(d->num_fields, 2);
    assert_int_equal(read_all(d, check_sequence), 3);
    stk_dataset_close(&d);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void put_example(proto_bytes *shard, int64_t a, int64_t b)
{
    proto_bytes f = {NULL, 0}, map = {NULL, 0}, e = {NULL, 0};

    put_integers(&f, (int64_t[]){a, a + 1}, 2, true);
    put_entry(&map, "a", &f);
    put_integers(&f, &b, 1, true);
    put_entry(&map, "b", &f);
    put_message(&e, 1, &map);
    put_record(shard, &e);
}

#define SPEC  "tfrecord:mem://shards/a.tfrecord?index=auto"
#define GIVEN SPEC "&schema=a:int64[2],b:int64"

/* A store that the context keeps as long as it is open. */
static stk_store *keep(stk_context *ctx, const char *url)
{
    stk_store *store = NULL;
    char key[64];
    stk_error err;

    assert_ok(stk_store_open(ctx, url, &store, key, sizeof key, &err), &err);
    return store;
}

static void put(stk_store *store, const char *key, const void *data, size_t size)
{
    stk_error err;

    assert_ok(stk_store_put(store, key, data, size, NULL, &err), &err);
}

static void refuse(stk_context *ctx, stk_status status, const char *part)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_fails(stk_dataset_open(ctx, GIVEN, &d, &err), status, &err, part);
    assert_null(d);
}

/* How many of the records are good, each with its values; UINT64_MAX: it is not opened. */
static uint64_t count_good(stk_context *ctx, stk_status *bad)
{
    stk_dataset *d = NULL;
    uint64_t good = 0;
    stk_error err;

    *bad = STK_OK;
    stk_error_init(&err);
    *bad = stk_dataset_open(ctx, GIVEN, &d, &err);
    if (*bad != STK_OK)
        return UINT64_MAX;
    samples *s = samples_range(d, 0, d->size);
    for (size_t i = 0; i < s->n; i++) {
        if (s->sample[i].status != STK_OK) {
            *bad = s->sample[i].status;
            continue;
        }
        assert_int_equal(((int64_t *)s->data[i])[0], 10 * (int64_t)i);
        assert_int_equal(((int64_t *)s->data[i])[1], 10 * (int64_t)i + 1);
        assert_int_equal(s->label[i], -(int64_t)i);
        good++;
    }
    samples_free(s);
    stk_dataset_close(&d);
    return good;
}

/* Every bit of a shard that is wrong is noticed, and the record next to it is still read. */
static void test_bit_flips(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0};
    stk_status bad;

    put_example(&shard, 0, 0);
    const size_t second = shard.size;
    put_example(&shard, 10, -1);
    for (size_t bit = 0; bit <= 8 * shard.size; bit++) {
        const size_t byte = bit / 8;
        if (byte < shard.size)
            shard.data[byte] ^= (uint8_t)(1u << bit % 8);
        put(store, "a.tfrecord", shard.data, shard.size);
        const uint64_t good = count_good(*state, &bad);
        if (byte == shard.size) {
            assert_int_equal(good, 2);
            assert_int_equal(bad, STK_OK);
            break;
        }
        if (byte - (byte < second ? 0 : second) < 12)
            assert_int_equal(good, UINT64_MAX);
        else
            assert_int_equal(good, 1);
        /* The first bytes of a file may be those of a compressed one. */
        assert_true(bad == STK_ECHECKSUM || (byte < 2 && bad == STK_EKIND));
        shard.data[byte] ^= (uint8_t)(1u << bit % 8);
    }
    free_bytes(&shard);
    stk_store_close(&store);
}

/* Cut at any byte but between its records it is refused by name. */
static void test_cut(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    put_example(&shard, 0, 0);
    const size_t second = shard.size;
    put_example(&shard, 10, -1);
    for (size_t length = 1; length < shard.size; length++) {
        put(store, "a.tfrecord", shard.data, length);
        stk_error_init(&err);
        const stk_status status = stk_dataset_open(*state, GIVEN, &d, &err);
        if (length == second) {
            assert_int_equal(status, STK_OK);
            assert_int_equal(d->size, 1);
            stk_dataset_close(&d);
            continue;
        }
        assert_int_equal(status, length < 12 ? STK_ECHECKSUM : STK_ETRUNCATED);
        assert_string_equal(err.key, "a.tfrecord");
        assert_int_equal(err.offset, length < second ? 0 : second);
        assert_non_null(strstr(err.text, length < second ? "a.tfrecord, record 0, byte 0"
                                                         : "a.tfrecord, record 1, byte "));
    }
    put(store, "a.tfrecord", shard.data, 0);
    refuse(*state, STK_EFORMAT, "without a record");
    free_bytes(&shard);
    stk_store_close(&store);
}

/* Lengths with the right checksum that cannot be. */
static void test_lengths(void **state)
{
    static const uint64_t lengths[] = {(UINT64_C(1) << 30) + 1, UINT64_C(1) << 63, UINT64_MAX,
                                       UINT64_MAX - 3,          UINT64_MAX - 15,   UINT64_MAX - 16};
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(lengths); i++) {
        put_example(&shard, 0, 0);
        put_head(&shard, lengths[i]);
        put_bytes(&shard, "0123456789", 10);
        put(store, "a.tfrecord", shard.data, shard.size);
        refuse(*state, STK_ELIMIT, "record 1, byte ");
        free_bytes(&shard);
    }
    for (uint64_t length = 6; length <= 10; length++) {
        put_head(&shard, length); /* with its checksum it is longer than what is left */
        put_bytes(&shard, "012345678", 9);
        put(store, "a.tfrecord", shard.data, shard.size);
        refuse(*state, STK_ETRUNCATED, "record 0, byte 0");
        free_bytes(&shard);
    }
    put_head(&shard, UINT64_C(1) << 30);
    put(store, "a.tfrecord", shard.data, shard.size);
    refuse(*state, STK_ETRUNCATED, "1073741824 bytes and the shard ends after 0");
    free_bytes(&shard);
    stk_store_close(&store);
}

/* Compressed files, and others, are told by name; a length that looks like gzip is none. */
static void test_other_files(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    put(store, "a.tfrecord", "\x1f\x8b\x08\0\0\0\0\0\0\x03text", 14);
    refuse(*state, STK_EKIND, "compressed by gzip");
    put(store, "a.tfrecord", "\x78\x9c\x4b\x4c\x4c\x04\x00\x02\x49\x01\x24\x00", 12);
    refuse(*state, STK_EKIND, "compressed by zlib");
    put(store, "a.tfrecord", "\x89HDF\r\n\x1a\n and more", 17);
    refuse(*state, STK_ECHECKSUM, "no TFRecord file");
    put_head(&shard, 0x088b1f);
    const size_t head = shard.size;
    shard.data = realloc(shard.data, head + 0x088b1f + 4);
    assert_non_null(shard.data);
    memset(shard.data + head, 0, 0x088b1f + 4);
    put(store, "a.tfrecord", shard.data, head + 0x088b1f + 4);
    assert_ok(stk_dataset_open(*state, GIVEN, &d, &err), &err);
    assert_int_equal(d->size, 1);
    stk_dataset_close(&d);
    free_bytes(&shard);
    stk_store_close(&store);
}

/* Shards of two schemas: the records of one are bad, and say which feature. */
static void test_mixed(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes a = {NULL, 0}, b = {NULL, 0}, f = {NULL, 0}, map = {NULL, 0}, e = {NULL, 0};
    stk_dataset *d;
    stk_error err;

    put_example(&a, 0, 0);
    put_integers(&f, (int64_t[]){10, 11}, 2, true);
    put_entry(&map, "a", &f);
    put_floats(&f, (float[]){1}, 1, true);
    put_entry(&map, "b", &f);
    put_message(&e, 1, &map);
    put_record(&b, &e);
    put(store, "a.tfrecord", a.data, a.size);
    put(store, "b.tfrecord", b.data, b.size);
    assert_ok(stk_dataset_open(*state, "tfrecord:mem://shards/{a,b}.tfrecord?index=none", &d, &err),
              &err);
    samples *s = samples_range(d, 0, 2);
    assert_int_equal(s->sample[0].status, STK_OK);
    assert_int_equal(s->sample[1].status, STK_EFORMAT);
    assert_non_null(strstr(s->sample[1].reason, "'b' of the record is no int64_list"));
    samples_free(s);
    stk_dataset_close(&d);
    free_bytes(&a);
    free_bytes(&b);
    stk_store_close(&store);
}

/* Open the two records with a list beside; how many there are, and whether the head was looked at.
 */
static uint64_t open_listed(stk_context *ctx, stk_store *store, const char *list, stk_status *bad)
{
    put(store, "a.tfrecord.idx", list, strlen(list));
    return count_good(ctx, bad);
}

/* SHARD.idx names the records; one that is not of the shard does not count. */
static void test_lists(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0};
    char list[200];
    stk_status bad;

    put_example(&shard, 0, 0);
    const int first = (int)shard.size;
    put_example(&shard, 10, -1);
    const int second = (int)shard.size - first;
    put(store, "a.tfrecord", shard.data, shard.size);
    snprintf(list, sizeof list, "0 %d\n%d %d\n", first, first, second);
    assert_int_equal(open_listed(*state, store, list, &bad), 2);
    /* Where it is believed, a head that is damaged is noticed when the record is read. */
    shard.data[first] ^= 1;
    put(store, "a.tfrecord", shard.data, shard.size);
    assert_int_equal(open_listed(*state, store, list, &bad), 1);
    assert_int_equal(bad, STK_ECHECKSUM);
    snprintf(list, sizeof list, "0 %d\r\n%d %d", first, first, second);
    assert_int_equal(open_listed(*state, store, list, &bad), 1);
    /* As one record, whose length is another. */
    snprintf(list, sizeof list, "0 %d\n", first + second);
    assert_int_equal(open_listed(*state, store, list, &bad), 0);
    assert_int_equal(bad, STK_ECHECKSUM);
    /* Others are not: the shard is read, and is damaged. */
    const char *const wrong[] = {"",
                                 "0",
                                 "0 ",
                                 "0 x\n",
                                 "x",
                                 "0 15",
                                 "0 1000000",
                                 "0 %d",
                                 "1 %d",
                                 "0 %d\n\n",
                                 "0 %d\n%d 16\n",
                                 "0 %d %d\n",
                                 "0 99999999999999999999999\n"};
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        snprintf(list, sizeof list, wrong[i], first, first + 1);
        assert_int_equal(open_listed(*state, store, list, &bad), UINT64_MAX);
        assert_int_equal(bad, STK_ECHECKSUM);
    }
    snprintf(list, sizeof list, "0 %d\n%d %d\n", first, first + 1, second);
    assert_int_equal(open_listed(*state, store, list, &bad), UINT64_MAX);
    assert_int_equal(bad, STK_ECHECKSUM);
    /* One under the name without ".tfrecord" counts as well. */
    snprintf(list, sizeof list, "0 %d\n%d %d\n", first, first, second);
    put(store, "a.idx", list, strlen(list));
    assert_int_equal(count_good(*state, &bad), 1);
    assert_int_equal(stk__store_remove(store, "a.tfrecord.idx", NULL), STK_OK);
    assert_int_equal(count_good(*state, &bad), 1);
    assert_int_equal(stk__store_remove(store, "a.idx", NULL), STK_OK);
    assert_int_equal(count_good(*state, &bad), UINT64_MAX);
    free_bytes(&shard);
    stk_store_close(&store);
}

/* A length that is not that of its bytes, with the right checksum. */
static void test_listed_length(void **state)
{
    stk_store *store = keep(*state, "mem://shards");
    proto_bytes shard = {NULL, 0}, data = {NULL, 0}, record = {NULL, 0};
    char list[200];
    stk_status bad;

    put_example(&shard, 0, 0);
    const int first = (int)shard.size;
    put_head(&shard, 0);
    put_bytes(&data, "abcd", 4);
    put_record(&record, &data);
    put_bytes(&shard, record.data + 12, 8);
    put(store, "a.tfrecord", shard.data, shard.size);
    snprintf(list, sizeof list, "0 %d\n%d 20\n", first, first);
    assert_int_equal(open_listed(*state, store, list, &bad), 1);
    assert_int_equal(bad, STK_ECHECKSUM);
    assert_int_equal(stk__store_remove(store, "a.tfrecord.idx", NULL), STK_OK);
    free_bytes(&shard);
    free_bytes(&record);
    stk_store_close(&store);
}

/* Names of shards in a folder. */
static void test_names(void **state)
{
    static const char *const shards[] = {
        "a.tfrecord", "b.tfrecords", "c.tfrec", "d-00001-of-00002", "e.tfrecord-00001-of-00002",
        "f.tfrecs"};
    static const char *const others[] = {"a.tfrecord.idx",  "g.tfrecord.gz",    "h-0001-of-00002",
                                         "i-00001-of-0002", "j-00001-fo-00002", "00001-of-00002x",
                                         "k.txt",           ".hidden.tfrecord"};
    stk_store *store = keep(*state, "mem://names");
    proto_bytes shard = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    put_example(&shard, 0, 0);
    for (size_t i = 0; i < STK_COUNT(shards); i++)
        put(store, shards[i], shard.data, shard.size);
    for (size_t i = 0; i < STK_COUNT(others); i++)
        put(store, others[i], "none", 4);
    assert_ok(stk_dataset_open(*state, "tfrecord:mem://names?index=none", &d, &err), &err);
    assert_int_equal(d->size, STK_COUNT(shards));
    stk_dataset_close(&d);
    free_bytes(&shard);
    stk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_golden_sequences),
        cmocka_unit_test(test_bit_flips), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_lengths),   cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_mixed),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_lists),     cmocka_unit_test(test_listed_length),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of tokens: by Megatron indexes, by the token that ends them; what is refused. */
#include "unit/dataset/tokens.h"

#define GOLDEN TESTS_DIR "/golden/tokens/"

static stk_dataset *open_spec(stk_context *ctx, const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void refuse(stk_context *ctx, const char *spec, stk_status status, const char *part)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), status, &err, part);
    assert_null(d);
}

/* scripts/make_tokens_golden.py: each type, by index, file or the name that both have. */
static void test_types(void **state)
{
    static const char *const ends[] = {".idx", ".bin", ""};
    static const int codes[] = {1, 2, 3, 4, 5, 8};
    stk_context *ctx = test_context();
    char spec[512];
    tokens_sample s;

    (void)state;
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
        for (size_t e = 0; e < 3; e++) {
            snprintf(spec, sizeof spec, "tokens:" GOLDEN "code_%d%s?length=6&documents=split",
                     codes[c], ends[e]);
            stk_dataset *d = open_spec(ctx, spec);
            assert_int_equal(d->size, 5);
            assert_int_equal(tokens_take(d, 3, &s), STK_OK);
            for (int i = 0; i < 3; i++) /* the end of the document of 9 */
                assert_int_equal(s.tokens[i], (14 + i) * 37 % 101);
            assert_int_equal(s.documents[2], 1);
            assert_int_equal(s.documents[3], 0);
            stk_dataset_close(&d);
        }
    refuse(ctx, "tokens:" GOLDEN "code_6.idx", STK_EKIND, "float64");
    refuse(ctx, "tokens:" GOLDEN "code_7", STK_EKIND, "float32");
    stk_context_destroy(&ctx);
}

/* Documents of several sequences; one without any. */
static void test_grouped(void **state)
{
    static const int64_t length[] = {5, 4, 7}, number[] = {0, 1, 3};
    stk_context *ctx = test_context();
    tokens_sample s;

    (void)state;
    stk_dataset *d = open_spec(ctx, "tokens:" GOLDEN "grouped?length=8&documents=split");
    assert_int_equal(d->size, 3);
    for (uint64_t k = 0; k < 3; k++) {
        assert_int_equal(tokens_take(d, k, &s), STK_OK);
        for (int64_t i = 0; i < 8; i++)
            assert_int_equal(s.tokens[i], i < length[k] ? 1000 * number[k] + i : 0);
    }
    stk_dataset_close(&d);
    d = open_spec(ctx, "tokens:" GOLDEN "grouped.bin?length=16");
    assert_int_equal(d->num_fields, 1);
    assert_int_equal(tokens_take(d, 0, &s), STK_OK);
    assert_int_equal(s.tokens[15], 3006);
    stk_dataset_close(&d);
    /* As a raw file the index is not looked at. */
    d = open_spec(ctx, "tokens:" GOLDEN "grouped.bin?length=32&index=none");
    assert_int_equal(tokens_take(d, 0, &s), STK_OK);
    assert_int_equal(s.tokens[2], 1);
    assert_int_equal(s.tokens[3], 0);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* An index in mem://t, with the bytes at `at` replaced; `size`: of the .bin. */
static void put_forged(stk_context *ctx, size_t at, uint64_t value, unsigned width, size_t size)
{
    static const tokens_model m = {.docs = 4, .length = {3, 0, 5, 2}, .count = 10};
    unsigned char index[256], data[64] = {0};
    const size_t length = tokens_index(&m, 8, 2, index);

    tokens_number(index, at, value, width);
    tokens_put(ctx, "f.idx", index, length);
    tokens_put(ctx, "f.bin", data, size);
}

/* The head has 34 bytes; then 4 lengths, 4 places, 5 entries of documents. */
static void test_forged(void **state)
{
    static const struct {
        size_t at;
        uint64_t value;
        unsigned width;
        stk_status status;
        const char *part;
    } cases[] = {
        {9, 2, 8, STK_EFORMAT, "version 2"},
        {17, 0, 1, STK_EFORMAT, "the type 0"},
        {17, 9, 1, STK_EFORMAT, "the type 9"},
        {18, UINT64_C(1) << 63, 8, STK_ETRUNCATED, "9223372036854775808 sequences"},
        {18, UINT64_MAX / 12 + 5, 8, STK_ETRUNCATED, "sequences"},
        {18, 3, 8, STK_EFORMAT, "3 sequences"},
        {26, UINT64_C(1) << 61, 8, STK_ETRUNCATED, "entries of documents"},
        {26, 4, 8, STK_EFORMAT, "4 entries"},
        {34, UINT32_MAX, 4, STK_EFORMAT, "sequence 0 has -1 tokens at byte 0"},
        {34, 2, 4, STK_EFORMAT, "the place of sequence 1 is 6 where it should be 4"},
        {42, 11, 4, STK_ETRUNCATED, "sequence 2 has 11 tokens at byte 6"},
        {46, 1, 4, STK_EFORMAT, "has 20 bytes and its sequences 18"},
        {50, 2, 8, STK_EFORMAT, "the place of sequence 0 is 2 where it should be 0"},
        {66, UINT64_MAX, 8, STK_EFORMAT, "the place of sequence 2 is -1"},
        {66, UINT64_C(1) << 40, 8, STK_EFORMAT, "the place of sequence 2"},
        {82, 1, 8, STK_EFORMAT, "entry of documents 0 is 1"},
        {90, UINT64_MAX, 8, STK_EFORMAT, "entry of documents 1 is -1"},
        {98, 0, 8, STK_EFORMAT, "entry of documents 2 is 0"},
        {114, 5, 8, STK_EFORMAT, "entry of documents 4 is 5"},
        {114, 3, 8, STK_EFORMAT, "do not end with its last sequence, 4"},
    };
    stk_context *ctx = test_context();

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        put_forged(ctx, cases[c].at, cases[c].value, cases[c].width, 20);
        refuse(ctx, "tokens:mem://t/f.bin?length=2", cases[c].status, cases[c].part);
        refuse(ctx, "tokens:slow+mem://t/f.idx?length=2&documents=pack", cases[c].status,
               cases[c].part);
    }
    put_forged(ctx, 9, 1, 8, 18);
    refuse(ctx, "tokens:mem://t/f.bin?length=2", STK_ETRUNCATED, "the .bin has 18 bytes");
    put_forged(ctx, 9, 1, 8, 22);
    refuse(ctx, "tokens:mem://t/f.bin?length=2", STK_EFORMAT, "has 22 bytes");
    tokens_put(ctx, "g.idx", "MMIDIDX\0\0\1", 10);
    refuse(ctx, "tokens:mem://t/g.idx", STK_ENOENT, "not beside it");
    tokens_put(ctx, "g.bin", "", 0);
    refuse(ctx, "tokens:mem://t/g.bin", STK_ETRUNCATED, "within the head");
    /* Another .idx than Megatron's says nothing about the file. */
    tokens_put(ctx, "h.idx", "something", 9);
    tokens_put(ctx, "h.bin", "1234", 4);
    stk_dataset *d = open_spec(ctx, "tokens:mem://t/h.bin?length=2");
    assert_int_equal(d->size, 1);
    stk_dataset_close(&d);
    refuse(ctx, "tokens:mem://t/h?length=2", STK_ETRUNCATED, "within the head");
    stk_context_destroy(&ctx);
}

static void test_options(void **state)
{
    static const char *const useless[] = {
        "eod=1",
        "pad=1",
        "ignore=1&target=true",
        "max_documents=1",
        "pack_seed=1",
        "pack_block=1",
        "documents=mark&pad=1",
        "documents=split&ignore=1",
        "documents=pack&stride=2",
        "documents=split&max_documents=2",
    };
    char spec[512];
    stk_context *ctx = test_context();

    (void)state;
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
        snprintf(spec, sizeof spec, "tokens:" GOLDEN "grouped?length=4&%s", useless[i]);
        refuse(ctx, spec, STK_EINVAL, "does nothing here");
    }
    refuse(ctx, "tokens:" GOLDEN "grouped?length=4&dtype=uint16", STK_EINVAL, "says int32");
    stk_dataset *d = open_spec(ctx, "tokens:" GOLDEN "grouped?length=4&dtype=int32");
    stk_dataset_close(&d);
    refuse(ctx, "tokens:" GOLDEN "grouped?length=4&offset=2", STK_EINVAL, "does nothing here");
    refuse(ctx, "tokens:" GOLDEN "grouped?length=4&documents=pack&eod=3", STK_EINVAL,
           "does nothing here");
    tokens_put(ctx, "raw.bin", "\1\0\2\0\3\0", 6);
    refuse(ctx, "tokens:mem://t/raw.bin?length=2&documents=pack", STK_EINVAL, "give eod");
    refuse(ctx, "tokens:mem://t/raw.bin?length=2&documents=pack&eod=9", STK_EINVAL,
           "no token of raw.bin is that");
    tokens_put(ctx, "void.bin", "", 0);
    refuse(ctx, "tokens:mem://t/void.bin?length=2&documents=split&eod=9", STK_EINVAL, "no token");
    stk_context_destroy(&ctx);
}

/* Values that int32 does not hold are bad samples, whole ones are not. */
static void test_int32(void **state)
{
    unsigned char bytes[32];
    stk_context *ctx = test_context();
    tokens_sample s;

    (void)state;
    tokens_number(bytes, 0, 7, 4);
    tokens_number(bytes, 4, INT32_MAX, 4);
    tokens_number(bytes, 8, 8, 4);
    tokens_number(bytes, 12, UINT64_C(1) << 31, 4);
    tokens_put(ctx, "w.bin", bytes, 16);
    stk_dataset *d = open_spec(ctx, "tokens:mem://t/w.bin?dtype=uint32&length=2&output=int32");
    assert_int_equal(d->fields[0].dtype, STK_INT32);
    assert_int_equal(tokens_take(d, 0, &s), STK_OK);
    assert_int_equal(s.tokens[1], INT32_MAX);
    assert_int_equal(tokens_take(d, 1, &s), STK_EFORMAT);
    stk_dataset_close(&d);
    d = open_spec(ctx,
                  "tokens:mem://t/w.bin?dtype=uint32&length=3&output=int32&documents=pack&eod=8");
    assert_int_equal(tokens_take(d, 0, &s), STK_OK);
    assert_int_equal(tokens_take(d, 1, &s), STK_EFORMAT);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Big-endian tokens, ends that follow each other, tokens behind the last end. */
static void test_end_of_document(void **state)
{
    static const char header[] = "{'descr': '>u2', 'fortran_order': False, 'shape': (9,), }";
    static const unsigned char row[] = {3, 9, 9, 1, 2, 9, 4, 5, 6};
    static const int64_t want[4][4] = {
        {3, 9, -1, -1}, {9, -1, -1, -1}, {1, 2, 9, -1}, {4, 5, 6, -1}};
    unsigned char bytes[128 + 18];
    stk_context *ctx = test_context();
    tokens_sample s;

    (void)state;
    memset(bytes, ' ', 128);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(bytes + 10, header, sizeof header - 1);
    bytes[127] = '\n';
    for (int i = 0; i < 9; i++) {
        bytes[128 + 2 * i] = 0;
        bytes[129 + 2 * i] = row[i];
    }
    tokens_put(ctx, "e.npy", bytes, sizeof bytes);
    stk_dataset *d =
        open_spec(ctx, "tokens:mem://t/e.npy?length=4&documents=split&eod=9&pad=-1&target=true");
    assert_int_equal(d->size, 4);
    for (uint64_t k = 0; k < 4; k++) {
        assert_int_equal(tokens_take(d, k, &s), STK_OK);
        for (int i = 0; i < 4; i++) {
            const bool last = i == 3 || want[k][i + 1] < 0;
            assert_int_equal(s.tokens[i], want[k][i]);
            assert_int_equal(s.target[i], last ? -100 : want[k][i + 1]);
        }
    }
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* What a packing of 400 documents in mem://t has in its first sample, and its fingerprint. */
static uint64_t print_of(stk_context *ctx, const char *options, tokens_sample *s)
{
    char spec[300];

    snprintf(spec, sizeof spec, "tokens:mem://t/p?length=64&documents=pack%s", options);
    stk_dataset *d = open_spec(ctx, spec);
    assert_int_equal(tokens_take(d, 0, s), STK_OK);
    const uint64_t print = d->fingerprint;
    stk_dataset_close(&d);
    return print;
}

static uint64_t put_documents(stk_context *ctx)
{
    static tokens_model m;
    unsigned char *bytes = malloc(40000);
    uint64_t seed = 5;

    assert_non_null(bytes);
    m.docs = 400;
    m.count = 0;
    for (uint32_t d = 0; d < m.docs; d++)
        m.count += m.length[d] = (uint32_t)(test_random(&seed) % 40);
    for (uint64_t i = 0; i < m.count; i++)
        tokens_number(bytes, 2 * i, i, 2);
    tokens_put(ctx, "p.bin", bytes, 2 * m.count);
    tokens_put(ctx, "p.idx", bytes, tokens_index(&m, 8, 2, bytes));
    free(bytes);
    return m.count;
}

static void test_seeds(void **state)
{
    stk_context *ctx = test_context();
    tokens_sample a, b;

    (void)state;
    put_documents(ctx);
    const uint64_t print = print_of(ctx, "", &a);
    assert_int_equal(print_of(ctx, "&pack_seed=0&pack_block=4096", &b), print);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_not_equal(print_of(ctx, "&pack_seed=1", &b), print);
    assert_memory_not_equal(a.tokens, b.tokens, sizeof a.tokens);
    assert_int_not_equal(print_of(ctx, "&pack_block=50", &b), print);
    assert_int_not_equal(print_of(ctx, "&pad=1", &b), print);
    assert_int_not_equal(print_of(ctx, "&output=int32", &b), print);
    stk_context_destroy(&ctx);
}

/* Through a loader, by ranges and from memory: every token once, as samples taken by hand. */
static void test_loader(void **state)
{
    static const char *const places[] = {"slow+mem", "mem"};
    stk_context *ctx = test_context();
    const uint64_t count = put_documents(ctx);
    char spec[200];

    (void)state;
    for (int round = 0; round < 4; round++) {
        unsigned char *seen = calloc(1, count);
        stk_loader_options o;
        stk_loader *loader = NULL;
        stk_batch *batch = NULL;
        stk_error err;
        uint64_t tokens = 0;
        stk_status status;

        assert_non_null(seen);
        snprintf(spec, sizeof spec,
                 "tokens:%s://t/p?length=50&documents=pack&target=true&output=int32",
                 places[round % 2]);
        stk_dataset *d = open_spec(ctx, spec);
        stk_loader_options_init(&o);
        o.batch_size = 7;
        o.num_workers = round / 2 * 2;
        o.shuffle = round / 2 ? STK_SHUFFLE_BLOCK : STK_SHUFFLE_FULL;
        o.cache = round / 2 ? STK_CACHE_ENCODED : STK_CACHE_NONE;
        o.epochs = 1;
        assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
        while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
            stk_tensor in = {.struct_size = sizeof in}, documents = {.struct_size = sizeof in},
                       mask = {.struct_size = sizeof in};
            assert_int_equal(stk_batch_find(batch, "input", &in), STK_OK);
            assert_int_equal(stk_batch_find(batch, "documents", &documents), STK_OK);
            assert_int_equal(stk_batch_find(batch, "loss_mask", &mask), STK_OK);
            assert_int_equal(mask.dtype, STK_BOOL);
            for (uint64_t i = 0; i < stk_batch_count(batch) * 50; i++)
                if (((int32_t *)documents.data)[i]) {
                    assert_int_equal(seen[((int32_t *)in.data)[i]]++, 0);
                    tokens++;
                }
            stk_batch_release(&batch);
        }
        assert_ok(status == STK_EOS ? STK_OK : status, &err);
        assert_int_equal(tokens, count);
        stk_loader_destroy(&loader);
        stk_dataset_close(&d);
        free(seen);
    }
    stk_context_destroy(&ctx);
}

static void see(void *user, const char *name, const char *value)
{
    *(unsigned *)user += (!strcmp(name, "tokens") && !strcmp(value, "16 of int32")) ||
                         (!strcmp(name, "documents") && !strcmp(value, "3, by a Megatron index")) ||
                         (!strcmp(name, "packs") && !strcmp(value, "2, 80.0 % of them filled"));
}

static void test_describe(void **state)
{
    stk_context *ctx = test_context();
    unsigned right = 0;
    stk_error err;

    (void)state;
    stk_dataset *d = open_spec(ctx, "tokens:" GOLDEN "grouped?length=10&documents=pack");
    assert_ok(stk_dataset_describe(d, see, &right, &err), &err);
    assert_int_equal(right, 3);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),   cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_forged),  cmocka_unit_test(test_options),
        cmocka_unit_test(test_int32),   cmocka_unit_test(test_end_of_document),
        cmocka_unit_test(test_seeds),   cmocka_unit_test(test_loader),
        cmocka_unit_test(test_describe)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles that no archive of CIFAR has: refused within limits, by name, and never run. */
#include "dataset/cifar_pickle.h"

#include "samples.h"

enum { ROW = 3072, MOST = 24 << 20 };

static stk_context *ctx;
static stk_error err;
static unsigned char *bytes; /* of the file that is made */
static size_t length;

static int setup(void **state)
{
    ctx = test_context();
    bytes = malloc(MOST);
    return bytes ? 0 : -1;
}

static int teardown(void **state)
{
    free(bytes);
    stk_context_destroy(&ctx);
    return 0;
}

static void put(const void *data, size_t n)
{
    assert_true(length + n <= MOST);
    memcpy(bytes + length, data, n);
    length += n;
}

#define PUT(text) put(text, sizeof text - 1)

/* A text of `n` bytes, byte k of it k mod 251. */
static void put_text(uint32_t n)
{
    const unsigned char head[] = {'T', (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16),
                                  (uint8_t)(n >> 24)};

    put(head, sizeof head);
    for (uint32_t k = 0; k < n; k++)
        bytes[length++] = (unsigned char)(k % 251);
}

#define RECONSTRUCT "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R"
#define TYPE(name)                                                                                 \
    "cnumpy\ndtype\n" name "K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
#define BYTES TYPE("U\2u1")
#define SHAPE "(K\1K\2M\0\x0c\x86"

/* The file as an object of a store. */
static stk_status read_it(const char *key, uint32_t classes, stk__cifar_batch *out)
{
    char name[64];
    stk_store *store = NULL;
    stk__object file;
    bool found = false;

    stk_error_init(&err);
    assert_ok(stk_store_open(ctx, "mem://pickle", &store, name, sizeof name, &err), &err);
    assert_ok(stk_store_put(store, "batch", bytes, length, NULL, &err), &err);
    assert_ok(stk__object_find(store, "batch", &file, &found, &err), &err);
    assert_true(found);
    const uint64_t before = stk__memory_left(ctx);
    const stk_status status = stk__cifar_read_batch(store, &file, ROW, key, classes, out, &err);
    if (status != STK_OK) {
        assert_true(out->count == 0 && !out->labels);
        assert_int_equal(stk__memory_left(ctx), before);
    }
    stk_store_close(&store);
    return status;
}

/* Bytes of a pickle. */
typedef struct piece {
    const char *at; /* NULL: the usual ones */
    size_t length;
} piece;

#define PIECE(text)                                                                                \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

/* A dictionary of two pictures, whose parts a test changes. */
typedef struct parts {
    piece labels, array, shape, type, fortran;
    uint32_t bytes;
} parts;

static void put_piece(piece given, piece usual)
{
    const piece p = given.at ? given : usual;

    put(p.at, p.length);
}

static void make(const parts *p)
{
    length = 0;
    PUT("\x80\2}(U\6labels");
    put_piece(p->labels, (piece)PIECE("](K\3K\7e"));
    PUT("U\4data");
    put_piece(p->array, (piece)PIECE(RECONSTRUCT));
    put_piece(p->shape, (piece)PIECE(SHAPE));
    put_piece(p->type, (piece)PIECE(BYTES));
    put_piece(p->fortran, (piece)PIECE("\x89"));
    put_text(p->bytes ? p->bytes : 2 * ROW);
    PUT("tbu.");
}

static void test_good(void **state)
{
    stk__cifar_batch batch;

    make(&(parts){0});
    assert_ok(read_it("labels", 10, &batch), &err);
    assert_int_equal(batch.count, 2);
    assert_int_equal(bytes[batch.pixels], 0);
    assert_int_equal(bytes[batch.pixels + 2 * ROW - 1], (2 * ROW - 1) % 251);
    assert_true(batch.labels[0] == 3 && batch.labels[1] == 7);
    stk__free(ctx, batch.labels);
    /* As Python does, of a key that is there twice the last one is taken. */
    length -= 2;
    PUT("U\6labels](K\1K\2eu.");
    assert_ok(read_it("labels", 10, &batch), &err);
    assert_true(batch.labels[0] == 1 && batch.labels[1] == 2);
    stk__free(ctx, batch.labels);
}

static void test_parts(void **state)
{
    static const struct {
        parts p;
        stk_status status;
        const char *part;
    } cases[] = {
#define CASE(status, text, ...) {{__VA_ARGS__}, status, text}
        CASE(STK_EFORMAT, "not of bytes, in rows of 3072", .bytes = 2 * ROW - 1),
        CASE(STK_EFORMAT, "not of bytes, in rows of 3072", .bytes = 3 * ROW),
        CASE(STK_EFORMAT, "not of bytes, in rows of 3072", .bytes = 100),
        CASE(STK_EFORMAT, "not of bytes, in rows", .shape = PIECE("(K\1K\2M\0\x06\x86")),
        CASE(STK_EFORMAT, "not of bytes, in rows", .shape = PIECE("(K\1K\2M\0\x0cK\1\x87")),
        CASE(STK_EFORMAT, "not of bytes, in rows",
             .shape = PIECE("(K\1J\xff\xff\xff\xffM\0\x0c\x86")),
        CASE(STK_EFORMAT, "not of bytes, in rows", .shape = PIECE("(K\1N")),
        CASE(STK_EFORMAT, "not of bytes, in rows", .type = PIECE("N")),
        CASE(STK_EFORMAT, "not of bytes, in rows", .fortran = PIECE("\x88")),
        CASE(STK_EKIND, "has an array of type 'f8' (byte", .type = PIECE(TYPE("U\2f8"))),
        CASE(STK_EFORMAT, "has no list 'labels'", .labels = PIECE("K\1")),
        CASE(STK_EFORMAT, "has 1 'labels' where 2 belong", .labels = PIECE("]K\1a")),
        CASE(STK_EFORMAT, "of which number 1 is no label of 0 to 9",
             .labels = PIECE("](K\1K\x0a"
                             "e")),
        CASE(STK_EFORMAT, "of which number 0 is no label",
             .labels = PIECE("](J\xff\xff\xff\xffK\1e")),
        CASE(STK_EFORMAT, "of which number 0 is no label", .labels = PIECE("](U\1aK\1e")),
        CASE(STK_EFORMAT, "an array of it is none", .array = PIECE("N")),
        CASE(STK_EFORMAT, "an array of it is none",
             .array = PIECE("cnumpy.core.multiarray\n_reconstruct\n)R")),
        CASE(STK_EFORMAT, "an array of it is none", .array = PIECE("cnumpy\nndarray\n)R")),
        CASE(STK_EKIND, "it names 'numpy.core.multiarray.scalar'",
             .array = PIECE("cnumpy.core.multiarray\nscalar\n")),
        CASE(STK_EKIND, "it names 'os.system', which is neither looked up nor run (byte 25)",
             .array = PIECE("cos\nsystem\nU\4true\x85R")),
        CASE(STK_EKIND, "it names '_codecs.encode'", .array = PIECE("c_codecs\nencode\n")),
#undef CASE
    };
    stk__cifar_batch batch;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        make(&cases[i].p);
        const stk_status status = read_it("labels", 10, &batch);
        if (status != cases[i].status || !strstr(err.text, cases[i].part))
            fail_msg("case %zu: %s: %s", i, stk_status_name(status), err.text);
        assert_int_equal(stk_status_fault(status), STK_FAULT_SAMPLE);
    }
}

static void test_whole_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        stk_status status;
        const char *part;
    } cases[] = {
#define CASE(bytes, status, part) {bytes, sizeof bytes - 1, status, part}
        CASE("", STK_EFORMAT, "has no end"),
        CASE("\x80\2}", STK_EFORMAT, "has no end"),
        CASE("\x80\2K\1.", STK_EFORMAT, "is no dictionary"),
        CASE("\x80\2}.", STK_EFORMAT, "has no array 'data'"),
        CASE("\x80\2}..", STK_EFORMAT, "ends with more than one object"),
        CASE("\x80\4}.", STK_EKIND, "protocol 4: CIFAR's files are of protocol 2"),
        CASE("\x80\2}U\4data" RECONSTRUCT "s.", STK_EFORMAT, "has no array 'data'"),
        CASE("\x80\2" RECONSTRUCT "Nb.", STK_EFORMAT, "an array of it is none"),
        CASE("\x80\2}q\1U\4datah\1s.", STK_EFORMAT, "has no array 'data'"),
        CASE("\x80\2NQ.", STK_EKIND, "opcode 0x51, which is not run (byte 3)"),
        CASE("\x80\2ios\nsystem\n.", STK_EKIND, "opcode 0x69"),
        CASE("\x80\2b.", STK_EFORMAT, "takes what is not there"),
        CASE("\x80\2Nb.", STK_EFORMAT, "adds to what does not grow"),
        CASE("\x80\2T\xff\xff\xff\x7f.", STK_EFORMAT, "ends within an object"),
        CASE("\x80\2U\xff.", STK_EFORMAT, "ends within an object"),
        CASE("\x80\2cnumpy", STK_EFORMAT, "has a name without an end"),
        CASE("\x80\2Nr\xff\xff\xff\xff.", STK_ELIMIT, "more than 1048576 objects"),
#undef CASE
    };
    stk__cifar_batch batch;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        length = 0;
        put(cases[i].bytes, cases[i].length);
        const stk_status status = read_it("labels", 10, &batch);
        if (status != cases[i].status || !strstr(err.text, cases[i].part))
            fail_msg("case %zu: %s: %s", i, stk_status_name(status), err.text);
    }
}

/* Cut anywhere, it is refused. */
static void test_cut(void **state)
{
    stk__cifar_batch batch;

    make(&(parts){0});
    for (const size_t all = length; length > 0;
         length -= length > 400 && length < all - 20 ? 97 : 1)
        if (length < all)
            assert_int_equal(read_it("labels", 10, &batch), STK_EFORMAT);
}

/* Of many pieces of the source: texts lie across their borders, and are the same. */
static void test_pieces(void **state)
{
    enum { NAMES = 20000 };
    stk__cifar_batch batch;

    make(&(parts){0});
    length -= 2;
    PUT("U\11filenames](");
    for (uint32_t i = 0; i < NAMES; i++) {
        const unsigned char memo[] = {'r', (uint8_t)i, (uint8_t)(i >> 8), 0, 0};
        PUT("U\x1csome_picture_of_a_ship_s.png");
        put(memo, sizeof memo);
    }
    PUT("eU\6labels](K\4K\5eu.");
    assert_ok(read_it("labels", 10, &batch), &err);
    assert_int_equal(batch.count, 2);
    assert_true(batch.labels[0] == 4 && batch.labels[1] == 5);
    stk__free(ctx, batch.labels);
}

/* One opcode again and again comes to a limit, and so do texts that are read. */
static void test_limits(void **state)
{
    static const char *const floods[] = {"N", "(", "]", "\x85", "]a"};
    stk__cifar_batch batch;

    for (size_t i = 0; i < STK_COUNT(floods); i++) {
        length = 0;
        PUT("\x80\2]]");
        while (length + 2 < 8u << 20)
            put(floods[i], strlen(floods[i]));
        assert_fails(read_it("labels", 10, &batch), STK_ELIMIT, &err, "more than");
    }
    length = 0;
    PUT("\x80\2](");
    while (length < 20u << 20)
        put_text(1000);
    assert_fails(read_it("labels", 10, &batch), STK_ELIMIT, &err,
                 "has more than 16777216 bytes beside its long texts");
    /* Long ones cost nothing. */
    length = 0;
    PUT("\x80\2](");
    while (length < 20u << 20)
        put_text(1 << 20);
    PUT("e.");
    assert_fails(read_it("labels", 10, &batch), STK_EFORMAT, &err, "is no dictionary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_whole_files), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_pieces),      cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

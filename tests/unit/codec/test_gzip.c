/* SPDX-License-Identifier: Apache-2.0 */
/* gzip against what zlib's own compressor writes; damage at every place; bombs. */
#include "codec/codec.h"

#include <stdlib.h>
#include <zlib.h>

#include "support/support.h"

typedef struct packed {
    unsigned char *data;
    size_t size;
} packed;

static packed pack(const void *data, size_t size, int level)
{
    packed p = {NULL, compressBound(size) + 64};
    z_stream z = {0};

    p.data = malloc(p.size);
    assert_non_null(p.data);
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)data;
    z.avail_in = (unsigned)size;
    z.next_out = p.data;
    z.avail_out = (unsigned)p.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    p.size = z.total_out;
    deflateEnd(&z);
    return p;
}

/* Something that deflate can make smaller, but not much. */
static unsigned char *make(size_t size, uint64_t seed)
{
    unsigned char *data = malloc(size);

    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(test_random(&seed) % 23);
    return data;
}

/* Inflate all at once into exactly as much memory. */
static stk_status unpack(stk_context *ctx, const void *data, size_t size, uint64_t limit, void *out,
                         uint64_t room, uint64_t *got, stk_error *err)
{
    stk__gzip *gzip = NULL;

    stk_error_init(err);
    assert_ok(stk__gzip_create(ctx, data, size, limit, "x.gz", &gzip, err), err);
    stk_status status = stk__gzip_read(gzip, out, room, got, err);
    stk__gzip_destroy(&gzip);
    assert_null(gzip);
    return status;
}

static void test_round_trips(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 65535, 300000};
    stk_context *ctx = test_context();
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        unsigned char *data = make(sizes[i] + 1, i + 1);
        unsigned char *out = malloc(sizes[i] + 1);
        packed p = pack(data, sizes[i], (int)i % 9 + 1);
        uint64_t got = 0;
        assert_ok(unpack(ctx, p.data, p.size, UINT64_MAX, out, sizes[i] + 1, &got, &err), &err);
        assert_int_equal(got, sizes[i]);
        assert_memory_equal(out, data, sizes[i]);
        free(data);
        free(out);
        free(p.data);
    }
    stk_context_destroy(&ctx);
}

/* ---- Read piece by piece ----------------------------------------------------------------------
 */

typedef struct file {
    const unsigned char *data;
    uint64_t size, read, fail_at; /* bytes given so far; where reading fails */
} file;

static stk_status read_file(void *user, uint64_t offset, uint64_t length, void *data,
                            stk_error *err)
{
    file *f = user;

    assert_true(length && offset <= f->size && length <= f->size - offset);
    if (f->fail_at - offset < length)
        return stk__fail(err, STK_EIO, STK_STAGE_STORE, "planted");
    memcpy(data, f->data + offset, length);
    f->read += length;
    return STK_OK;
}

/* The same from a file as from memory. */
static void check_file(stk_context *ctx, const unsigned char *data, size_t size, void *out,
                       uint64_t room)
{
    uint64_t of_memory = 0, of_file = 0;
    stk_error err, file_err;
    stk__gzip *gzip = NULL;
    file f = {data, size, 0, UINT64_MAX};
    unsigned char *other = malloc(room);

    assert_non_null(other);
    stk_status status = unpack(ctx, data, size, UINT64_MAX, out, room, &of_memory, &err);
    stk_error_init(&file_err);
    assert_ok(stk__gzip_create_from(ctx, read_file, &f, size, UINT64_MAX, "x.gz", &gzip, &file_err),
              &file_err);
    assert_int_equal(stk__gzip_read(gzip, other, room, &of_file, &file_err), status);
    stk__gzip_destroy(&gzip);
    assert_int_equal(of_file, of_memory);
    assert_memory_equal(other, out, of_memory);
    if (status != STK_OK) {
        assert_string_equal(file_err.text, err.text);
        assert_int_equal(file_err.offset, err.offset);
    } else {
        /* Each byte once, but for those between two members. */
        assert_in_range(f.read, size, size + 4);
    }
    free(other);
}

/* Members that end before, at and behind the end of what is read at a time; padding; damage. */
static void test_file(void **state)
{
    enum { PIECE = 256 << 10, FIRST = 300000, SECOND = 400000 };
    stk_context *ctx = test_context();
    unsigned char *data = make(FIRST + SECOND, 5), *out = malloc(FIRST + SECOND + 1);
    const packed second = pack(data + FIRST, SECOND, 1);

    for (int shift = -2; shift <= 2; shift++) {
        /* Stored blocks, so that the size of the first member can be chosen. */
        const size_t wanted = (size_t)(PIECE + shift);
        size_t length = wanted - 100;
        packed first = pack(data, length, 0);
        while (first.size != wanted) {
            length += wanted - first.size;
            free(first.data);
            first = pack(data, length, 0);
        }
        unsigned char *all = malloc(first.size + second.size + PIECE + 9);
        assert_non_null(all);
        memcpy(all, first.data, first.size);
        memcpy(all + first.size, second.data, second.size);
        memset(all + first.size + second.size, 0, PIECE + 9);
        const size_t size = first.size + second.size;
        check_file(ctx, all, size, out, FIRST + SECOND + 1);
        check_file(ctx, all, size + PIECE + 9, out, FIRST + SECOND + 1);
        check_file(ctx, all, first.size + 1, out, FIRST + SECOND + 1);
        check_file(ctx, all, size - 1, out, FIRST + SECOND + 1);
        all[size + PIECE + 3] = 1;
        check_file(ctx, all, size + PIECE + 9, out, FIRST + SECOND + 1);
        all[first.size + second.size / 2] ^= 1;
        check_file(ctx, all, size, out, FIRST + SECOND + 1);
        free(all);
        free(first.data);
    }
    free(second.data);
    free(data);
    free(out);
    stk_context_destroy(&ctx);
}

/* A read that fails is what is said, and nothing is read behind it. */
static void test_file_fails(void **state)
{
    enum { SIZE = 900000 };
    stk_context *ctx = test_context();
    unsigned char *data = make(SIZE, 7), *out = malloc(SIZE);
    const packed p = pack(data, SIZE, 0);
    stk__gzip *gzip = NULL;
    uint64_t got = 0;
    stk_error err;

    for (uint64_t at = 0; at < p.size; at += 200000) {
        file f = {p.data, p.size, 0, at};
        assert_ok(stk__gzip_create_from(ctx, read_file, &f, p.size, SIZE, "x.gz", &gzip, &err),
                  &err);
        assert_fails(stk__gzip_read(gzip, out, SIZE, &got, &err), STK_EIO, &err, "planted");
        assert_true(f.read <= at);
        stk__gzip_destroy(&gzip);
    }
    free(p.data);
    free(data);
    free(out);
    stk_context_destroy(&ctx);
}

/* The pieces in which it is read make no difference. */
static void test_pieces(void **state)
{
    enum { SIZE = 20000 };
    stk_context *ctx = test_context();
    unsigned char *data = make(SIZE, 9), out[SIZE];
    packed p = pack(data, SIZE, 6);
    uint64_t seed = 3;
    stk__gzip *gzip = NULL;
    stk_error err;

    assert_ok(stk__gzip_create(ctx, p.data, p.size, SIZE, "x.gz", &gzip, &err), &err);
    for (uint64_t at = 0, got; at < SIZE; at += got) {
        uint64_t piece = test_random(&seed) % 700;
        uint64_t wanted = STK_MIN(piece, SIZE - at);
        assert_ok(stk__gzip_read(gzip, out + at, wanted, &got, &err), &err);
        assert_int_equal(got, wanted);
    }
    uint64_t got = 1;
    assert_ok(stk__gzip_read(gzip, out, 1, &got, &err), &err);
    assert_int_equal(got, 0);
    stk__gzip_destroy(&gzip);
    /* out[0] is unchanged, as nothing came. */
    assert_memory_equal(out, data, SIZE);
    free(data);
    free(p.data);
    stk_context_destroy(&ctx);
}

static void test_members_and_padding(void **state)
{
    stk_context *ctx = test_context();
    packed a = pack("first ", 6, 6), b = pack("", 0, 6), c = pack("second", 6, 1);
    size_t size = a.size + b.size + c.size;
    unsigned char *all = calloc(1, size + 512);
    char out[32];
    uint64_t got = 0;
    stk_error err;

    memcpy(all, a.data, a.size);
    memcpy(all + a.size, b.data, b.size);
    memcpy(all + a.size + b.size, c.data, c.size);
    assert_ok(unpack(ctx, all, size, 100, out, sizeof out, &got, &err), &err);
    assert_int_equal(got, 12);
    assert_memory_equal(out, "first second", 12);
    assert_ok(unpack(ctx, all, size + 512, 100, out, sizeof out, &got, &err), &err);
    assert_int_equal(got, 12);
    all[size + 500] = 7;
    assert_fails(unpack(ctx, all, size + 512, 100, out, sizeof out, &got, &err), STK_EFORMAT, &err,
                 "bytes after");
    assert_int_equal(err.offset, size + 500);
    free(all);
    free(a.data);
    free(b.data);
    free(c.data);
    stk_context_destroy(&ctx);
}

/* A stream that is cut anywhere is truncated, and never gives an end. */
static void test_truncation(void **state)
{
    enum { SIZE = 600 };
    stk_context *ctx = test_context();
    unsigned char *data = make(SIZE, 5), out[SIZE + 1];
    packed p = pack(data, SIZE, 6);
    uint64_t got = 0;
    stk_error err;

    for (size_t n = 0; n < p.size; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, p.data, n);
        assert_fails(unpack(ctx, cut, n, UINT64_MAX, out, sizeof out, &got, &err), STK_ETRUNCATED,
                     &err, "x.gz");
        free(cut);
    }
    free(data);
    free(p.data);
    stk_context_destroy(&ctx);
}

/* One bit of the data flipped is never taken for the right bytes. */
static void test_bit_flips(void **state)
{
    enum { SIZE = 300 };
    stk_context *ctx = test_context();
    unsigned char *data = make(SIZE, 8), out[SIZE + 1];
    packed p = pack(data, SIZE, 6);
    size_t checksums = 0;
    uint64_t got = 0;
    stk_error err;

    for (size_t bit = 0; bit < 8 * p.size; bit++) {
        p.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        stk_status status = unpack(ctx, p.data, p.size, SIZE, out, sizeof out, &got, &err);
        /* The flag of a text, time, effort and system in the header may be anything. */
        if (status == STK_OK)
            assert_true(got == SIZE && !memcmp(out, data, SIZE) && bit / 8 >= 3 && bit / 8 < 10);
        else
            assert_true(status == STK_EFORMAT || status == STK_ECHECKSUM ||
                        status == STK_ETRUNCATED || status == STK_ELIMIT);
        checksums += status == STK_ECHECKSUM;
        p.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(checksums >= 64); /* the two words at the end at least */
    free(data);
    free(p.data);
    stk_context_destroy(&ctx);
}

static void test_limit(void **state)
{
    enum { SIZE = 1 << 24 };
    stk_context *ctx = test_context();
    unsigned char *zeros = calloc(1, SIZE), *out = malloc(SIZE);
    packed p = pack(zeros, SIZE, 9);
    uint64_t got = 0;
    stk_error err;

    assert_true(p.size < SIZE / 1000);
    assert_true(SIZE / p.size <= STK_DEFLATE_RATIO);
    assert_fails(unpack(ctx, p.data, p.size, 1000, out, SIZE, &got, &err), STK_ELIMIT, &err,
                 "more than the 1000 bytes");
    assert_fails(unpack(ctx, p.data, p.size, SIZE - 1, out, SIZE, &got, &err), STK_ELIMIT, &err,
                 "16777215");
    assert_ok(unpack(ctx, p.data, p.size, SIZE, out, SIZE, &got, &err), &err);
    assert_int_equal(got, SIZE);
    assert_memory_equal(out, zeros, SIZE);
    free(zeros);
    free(out);
    free(p.data);
    stk_context_destroy(&ctx);
}

static void test_not_gzip(void **state)
{
    stk_context *ctx = test_context();
    char out[8];
    uint64_t got = 0;
    stk_error err;

    assert_fails(unpack(ctx, "hello, world", 12, 100, out, sizeof out, &got, &err), STK_EFORMAT,
                 &err, "x.gz is not sound gzip data");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_fails),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_members_and_padding),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_not_gzip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

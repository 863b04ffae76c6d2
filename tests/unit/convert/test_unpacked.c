/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed shards, unpacked: byte for byte, under their names, or nothing of them. */
#include "../dataset/shards.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define BYTES 3000000 /* more than a piece of what is read and of what is written */

static char folder[256];
static stk_context *ctx;
static unsigned char *plain, *packed;
static const size_t room = BYTES + BYTES / 2;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    plain = malloc(BYTES);
    packed = malloc(room);
    assert_true(plain && packed);
    for (uint32_t i = 0, x = 1; i < BYTES; i++, x = x * 1664525 + 1013904223)
        plain[i] = (unsigned char)(x >> 26);
    return 0;
}

static int end(void **state)
{
    free(plain);
    free(packed);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

static size_t deflated(const unsigned char *data, size_t size, unsigned char *out, int bits)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

/* All bytes in two streams, one behind the other. */
static size_t two_frames(void)
{
    const size_t first = ZSTD_compress(packed, room, plain, BYTES / 3, 1);

    assert_false(ZSTD_isError(first));
    const size_t second =
        ZSTD_compress(packed + first, room - first, plain + BYTES / 3, BYTES - BYTES / 3, 1);
    assert_false(ZSTD_isError(second));
    return first + second;
}

static stk_status convert(const char *source, const char *target, bool overwrite,
                          stk_conversion_report *report, stk_error *err)
{
    stk_conversion *conversion = NULL;
    stk_convert_options options;
    char from[1200], to[600];

    *report = (stk_conversion_report){.struct_size = sizeof *report};
    stk_error_init(err);
    stk_convert_options_init(&options);
    options.overwrite = overwrite;
    const char *kind = strchr(source, ':'), *of = strchr(target, ':');
    snprintf(from, sizeof from, "%.*s%s/%s", kind ? (int)(kind + 1 - source) : 0, source, folder,
             kind ? kind + 1 : source);
    snprintf(to, sizeof to, "%.*s%s/%s", of ? (int)(of + 1 - target) : 0, target, folder,
             of ? of + 1 : target);
    STK_TRY(stk_conversion_create(ctx, from, to, &conversion, err));
    const stk_status status = stk_conversion_run(conversion, &options, NULL, report, err);
    stk_conversion_destroy(&conversion);
    return status;
}

static bool is_there(const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void check(const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *got = malloc(BYTES + 1);
    assert_non_null(got);
    assert_int_equal(fread(got, 1, BYTES + 1, f), BYTES);
    fclose(f);
    assert_memory_equal(got, plain, BYTES);
    free(got);
}

static void test_files(void **state)
{
    stk_conversion_report report;
    stk_error err;

    const size_t size = deflated(plain, BYTES, packed, 15 + 16);
    test_write(folder, "a.tar.gz", packed, size);
    assert_ok(convert("a.tar.gz", "a.tar", false, &report, &err), &err);
    check("a.tar");
    assert_true(report.total == 1 && report.copied == 1);
    assert_true(report.bytes_before == size && report.bytes_after == BYTES);
    assert_fails(convert("a.tar.gz", "a.tar", false, &report, &err), STK_EEXIST, &err, "a.tar");
    assert_ok(convert("a.tar.gz", "a.tar", true, &report, &err), &err);
    test_write(folder, "b.tar.zst", packed, two_frames());
    assert_ok(convert("b.tar.zst", "b.tar", false, &report, &err), &err);
    check("b.tar");
}

/* Names of shards, in braces and in lists; TFRecord files that keep theirs. */
static void test_shards(void **state)
{
    stk_conversion_report report;
    stk_error err;

    test_write(folder, "s-0.tar.gz", packed, deflated(plain, BYTES, packed, 15 + 16));
    test_write(folder, "s-1.tgz", packed, deflated(plain, BYTES, packed, 15 + 16));
    test_write(folder, "s-2.tar.zst", packed, two_frames());
    assert_ok(
        convert("webdataset:s-{0.tar.gz,1.tgz,2.tar.zst}", "webdataset:out", false, &report, &err),
        &err);
    assert_int_equal(report.copied, 3);
    check("out/s-0.tar");
    check("out/s-1.tar");
    check("out/s-2.tar");
    test_write(folder, "t.tfrecord", packed, deflated(plain, BYTES, packed, 15));
    assert_ok(convert("tfrecord:t.tfrecord", "tfrecord:out", false, &report, &err), &err);
    check("out/t.tfrecord");
    assert_fails(convert("webdataset:{x,s-0,.}/s-0.tar.gz", "webdataset:two", false, &report, &err),
                 STK_ENOENT, &err, "s-0.tar.gz");
}

static void test_refused(void **state)
{
    stk_conversion_report report;
    stk_error err;

    const size_t size = deflated(plain, BYTES, packed, 15 + 16);
    test_write(folder, "r/a.tar.gz", packed, size);
    test_write(folder, "r/b.tar.gz", packed, size);
    test_write(folder, "q/a.tar.gz", packed, size);
    test_write(folder, "r/c.tar", plain, BYTES);
    assert_fails(convert("webdataset:{r,q}/a.tar.gz", "webdataset:n", false, &report, &err),
                 STK_EINVAL, &err, "two of the shards would be named 'a.tar'");
    assert_fails(convert("webdataset:r/{a,b}.tar.gz", "n.tar", false, &report, &err), STK_EINVAL,
                 &err, "2 shards cannot become the one file");
    assert_fails(convert("webdataset:r/{a.tar.gz,c.tar}", "webdataset:n", false, &report, &err),
                 STK_EKIND, &err, "c.tar is not there, or not compressed");
    assert_fails(
        convert("webdataset:r/a.tar.gz", "webdataset:o?shard_size=1MiB", false, &report, &err),
        STK_EINVAL, &err, "shard_size does nothing");
    assert_fails(convert("r/c.tar", "n.tar", false, &report, &err), STK_ECHECKSUM, &err, "c.tar");
    assert_false(is_there("n.tar"));
}

/* Of what is cut or damaged nothing gets the name. */
static void test_damage(void **state)
{
    static const char *const names[] = {"d.tar.gz", "d.tar.zst", "d.tfrecord"};
    stk_conversion_report report;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const char *target = i == 2 ? "tfrecord:d" : "d.tar";
        const size_t size = i == 0   ? deflated(plain, BYTES, packed, 15 + 16)
                            : i == 1 ? two_frames()
                                     : deflated(plain, BYTES, packed, 15);
        char spec[64];
        snprintf(spec, sizeof spec, "%s%s", i == 2 ? "tfrecord:" : "", names[i]);
        for (size_t cut = 1; cut < size; cut = cut * 7 + 11) {
            test_write(folder, names[i], packed, size - cut);
            assert_fails(convert(spec, target, false, &report, &err), STK_ETRUNCATED, &err,
                         names[i]);
        }
        packed[size - 3] ^= 1; /* a sum, or bytes of it */
        test_write(folder, names[i], packed, size);
        if (i != 1)
            assert_true(convert(spec, target, false, &report, &err) < 0);
        packed[size - 3] ^= 1;
        memcpy(packed + size, "more", 4);
        test_write(folder, names[i], packed, size + 4);
        assert_fails(convert(spec, target, false, &report, &err), STK_EFORMAT, &err, names[i]);
        assert_false(is_there("d.tar"));
        assert_false(is_there("d/d.tfrecord"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damage),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

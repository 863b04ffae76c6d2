/* SPDX-License-Identifier: Apache-2.0 */
/* A folder packed as a SquashFS image: what is in it by the specification, that nothing but the
 * folder and the options decide its bytes, and what is refused. */
#include "squashfs_image.h"
#include "squashfs_run.h"

#include "convert/squashfs.h"

static void same_files(const char *a, const char *b)
{
    size_t size, other;
    void *one = test_load(a, &size), *two = test_load(b, &other);

    assert_non_null(one);
    assert_non_null(two);
    assert_int_equal(size, other);
    assert_memory_equal(one, two, size);
    free(one);
    free(two);
}

static void check(const char *path, const char *folder, uint64_t nodes, image *out)
{
    stk_context *ctx = test_context();

    image_check(out, ctx, path, folder, nodes);
    stk_context_destroy(&ctx);
}

/* ---- What is in it --------------------------------------------------------------------------- */

static void test_all_codecs(void **state)
{
    char folder[256], to[256], path[300], again[300];
    stk_error err;
    image m;
    image_run r;

    (void)state;
    image_make_folder(test_folder(folder));
    test_folder(to);
    for (int codec = STK__BLOCK_ZSTD; codec <= STK__BLOCK_NONE; codec++) {
        snprintf(path, sizeof path, "%s/%d.sqfs", to, codec);
        snprintf(again, sizeof again, "%s/%d-again.sqfs", to, codec);
        image_run_init(&r);
        r.own.codec = codec;
        assert_ok(image_pack(&r, folder, path, &err), &err);
        assert_int_equal(r.report.total, FILES);
        assert_int_equal(r.report.repeated, 2);
        assert_int_equal(r.report.verified, FILES);
        assert_int_equal(r.report.encoded == 0, codec == STK__BLOCK_NONE);
        assert_int_equal(r.report.copied + r.report.encoded, FILES);
        check(path, folder, FILES + FOLDERS, &m);
        assert_int_equal(m.files, FILES);
        assert_int_equal(m.sparse, 4 * BLOCK + 2);
        assert_true(m.raw > 20); /* what does not shrink */
        /* Threads decide nothing, and neither does what is verified. */
        r.options.num_workers = 3;
        r.options.verify = STK_VERIFY_NONE;
        r.report.verified = r.report.repeated = 0;
        assert_ok(image_pack(&r, folder, again, &err), &err);
        assert_int_equal(r.report.verified, 0);
        same_files(path, again);
    }
    assert_int_equal(image_files_in(to), 2 * (STK__BLOCK_NONE + 1));
    test_folder_remove(folder);
    test_folder_remove(to);
}

/* A block is packed where that saves a sixteenth: of 200 values it would save 4 %, of 100 16 %. */
static void test_little_saved(void **state)
{
    enum { SIZE = 1 << 17 };
    static uint8_t bytes[SIZE];
    char folder[256], to[256], path[300];
    uint64_t seed = 3;
    stk_error err;
    image m;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    for (unsigned values = 200; values >= 100; values -= 100) {
        for (int i = 0; i < SIZE; i++)
            bytes[i] = (uint8_t)((test_random(&seed) >> 20 & 0xffff) % values);
        test_write(folder, "a", bytes, SIZE);
        image_run_init(&r);
        r.own.block = SIZE;
        r.own.codec = STK__BLOCK_ZLIB; /* zstd has such a bound itself */
        r.options.overwrite = true;
        assert_ok(image_pack(&r, folder, path, &err), &err);
        assert_int_equal(r.report.encoded, values == 100);
        check(path, folder, 1, &m);
    }
    test_folder_remove(folder);
    test_folder_remove(to);
}

/* A copy is stored with the first, also where it was written before it was known to be one. */
static void test_copies(void **state)
{
    enum { SIZE = 3 << 20 };
    char folder[256], to[256], path[300], name[32];
    uint8_t *bytes = malloc(SIZE);
    struct stat st;
    stk_error err;
    image m;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    image_fill(bytes, SIZE, true, 9);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d/large", i);
        test_write(folder, name, bytes, SIZE);
        snprintf(name, sizeof name, "%d/small", i);
        test_write(folder, name, bytes, 100);
    }
    test_write(folder, "9/large", bytes, SIZE); /* the last */
    bytes[SIZE - 1]++;
    test_write(folder, "4/other", bytes, SIZE);
    test_write(folder, "5/shorter", bytes, SIZE - 1);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    image_run_init(&r);
    r.own.block = 1 << 20;
    r.options.num_workers = 2;
    assert_ok(image_pack(&r, folder, path, &err), &err);
    assert_int_equal(r.report.repeated, 7);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, r.report.bytes_after);
    assert_in_range(st.st_size, 3 * SIZE, 3 * SIZE + 16384);
    check(path, folder, 11 + 7, &m);
    free(bytes);
    test_folder_remove(folder);
    test_folder_remove(to);
}

static void pack_many(int count, const char *format, uint64_t indexes)
{
    char folder[256], to[256], path[300], name[300];
    stk_error err;
    image m;
    image_run r;

    test_folder(folder);
    test_folder(to);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, format, i);
        test_write(folder, name, name, i % 7 ? 0 : strlen(name));
    }
    snprintf(path, sizeof path, "squashfs:%s/image", to);
    image_run_init(&r);
    assert_ok(image_pack(&r, folder, path, &err), &err);
    check(path + strlen("squashfs:"), folder, r.report.total + (strchr(format, '/') ? count : 0),
          &m);
    assert_int_equal(m.files, count);
    assert_true(m.indexes >= indexes);
    test_folder_remove(folder);
    test_folder_remove(to);
}

static void test_large_folders(void **state)
{
    (void)state;
    pack_many(0, "", 0);
    pack_many(1, "a", 0);
    pack_many(256, "%d", 0);
    pack_many(300, "%d", 0);
    pack_many(300, "%d/b", 0);
    pack_many(500,
              "%d-a-name-that-is-so-long-that-a-block-of-a-table-has-no-room-for-so-many-of-"
              "its-kind-and-a-reader-wants-an-index",
              6);
    pack_many(10000, "image-%d.jpg", 20);
}

static void test_deep(void **state)
{
    char folder[256], to[256], path[300], name[400] = "";
    stk_error err;
    image m;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    for (int i = 0; i < 60; i++)
        strcat(name, "d/");
    strcat(name, "file");
    test_write(folder, name, "x", 1);
    snprintf(path, sizeof path, "%s/a.squashfs", to);
    image_run_init(&r);
    assert_ok(image_pack(&r, folder, path, &err), &err);
    check(path, folder, 61, &m);
    test_folder_remove(folder);
    test_folder_remove(to);
}

static bool goes_on(const stk_conversion_job *job)
{
    (void)job;
    return false;
}

/* A size that does not fit 32 bits, in the tables alone: to read so much takes long. */
static void test_above_4_gib(void **state)
{
    const uint64_t size = (UINT64_C(1) << 32) + 3;
    static uint32_t sizes[4097];
    stk__squashfs_node nodes[2];
    char to[256], path[300];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_convert_options options;
    stk_context *ctx = test_context();
    stk_error err;
    image m;

    (void)state;
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    stk_convert_options_init(&options);
    nodes[0] = (stk__squashfs_node){.is_folder = true,
                                    .number = 1,
                                    .parent = STK__SQUASHFS_NONE,
                                    .child = 1,
                                    .next = STK__SQUASHFS_NONE};
    nodes[1] = (stk__squashfs_node){.path = 1,
                                    .size = size,
                                    .sparse = size,
                                    .number = 2,
                                    .child = STK__SQUASHFS_NONE,
                                    .next = STK__SQUASHFS_NONE};
    const stk_conversion_job job = {
        .context = ctx, .target = path, .options = &options, .canceled = goes_on};
    stk__squashfs_run s = {.job = &job,
                           .context = ctx,
                           .report = &report,
                           .encodes = true,
                           .verify = true,
                           .kind = {STK__BLOCK_ZSTD, 3, 1 << 20},
                           .block = 1 << 20,
                           .tree = {.paths.bytes = "\0large", .nodes = nodes, .count = 2},
                           .sizes = sizes,
                           .file.back = -1};
    assert_ok(stk__squashfs_file_begin(&s.file, &job, &err), &err);
    assert_ok(stk__squashfs_front(&s, &err), &err);
    assert_ok(stk__squashfs_tables(&s, &err), &err);
    assert_ok(stk__squashfs_file_commit(&s.file, &err), &err);
    stk__squashfs_file_close(&s.file);
    image_check(&m, ctx, path, NULL, 1);
    assert_int_equal(m.sparse, size);
    assert_int_equal(m.large, 1);
    stk_context_destroy(&ctx);
    test_folder_remove(to);
}

/* ---- Sources --------------------------------------------------------------------------------- */

/* The same tree in a store that is no folder, below a prefix, becomes the same but for its times.
 */
static void test_of_another_store(void **state)
{
    static const char *const names[] = {"a/b/c", "a/d", "a/b/e", "f", "a-b"};
    char folder[256], to[256], path[300], from[600];
    stk_conversion *conversion;
    stk_context *ctx = test_context();
    stk_error err;
    image m;

    (void)state;
    test_folder(folder);
    test_folder(to);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        test_write(folder, names[i], names[i], strlen(names[i]));
        snprintf(from, sizeof from, "mem://x/in/%s", names[i]);
        assert_ok(stk_put_bytes(ctx, from, names[i], strlen(names[i]), NULL, &err), &err);
    }
    snprintf(path, sizeof path, "%s/a.sqsh", to);
    snprintf(from, sizeof from, "slow+file:%s?latency=0", folder);
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_conversion_create(ctx, i ? "mem://x/in" : from, path, &conversion, &err),
                  &err);
        assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
        stk_conversion_destroy(&conversion);
        image_check(&m, ctx, path, folder, STK_COUNT(names) + 2);
        assert_int_equal(unlink(path), 0);
    }
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
    test_folder_remove(to);
}

static void test_links(void **state)
{
    static const char *const links[][2] = {
        {"a", "inside"}, {"/etc/passwd", "outside"}, {"nowhere", "dead"}, {"..", "up"}};
    char folder[256], to[256], path[300], link[300];
    stk_error err;
    image m;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    test_write(folder, "a", "a", 1);
    for (size_t i = 0; i < STK_COUNT(links); i++) {
        snprintf(link, sizeof link, "%s/%s", folder, links[i][1]);
        assert_int_equal(symlink(links[i][0], link), 0);
    }
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    image_run_init(&r);
    assert_ok(image_pack(&r, folder, path, &err), &err);
    assert_int_equal(r.report.skipped, 3); /* the one to nowhere is not listed */
    check(path, folder, 1, &m);
    test_folder_remove(folder);
    test_folder_remove(to);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    char folder[256], to[256], path[300], inside[320], file[300];
    stk_error err;
    image_run r;

    (void)state;
    test_folder(folder);
    test_folder(to);
    test_write(folder, "a/b", "b", 1);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    image_run_init(&r);
    r.own.block = 5000;
    assert_fails(image_pack(&r, folder, path, &err), STK_EINVAL, &err, "no power of two");
    r.own.block = 2048;
    assert_fails(image_pack(&r, folder, path, &err), STK_EINVAL, &err, "squashfs.block");
    image_run_init(&r);
    r.own.level = 10;
    r.own.codec = STK__BLOCK_ZLIB;
    assert_fails(image_pack(&r, folder, path, &err), STK_EINVAL, &err,
                 "gzip has levels from 1 to 9");
    r.own.codec = STK__BLOCK_LZ4;
    assert_fails(image_pack(&r, folder, path, &err), STK_EINVAL, &err,
                 "does nothing with codec lz4");
    image_run_init(&r);
    r.options.memory_budget = 100000;
    assert_fails(image_pack(&r, folder, path, &err), STK_EBUDGET, &err, "memory_budget is 100000");
    image_run_init(&r);
    r.options.checkpoint = 3;
    assert_fails(image_pack(&r, folder, path, &err), STK_EINVAL, &err, "checkpoint does nothing");
    image_run_init(&r);
    assert_fails(image_pack(&r, folder, "mem://x/a.sqfs", &err), STK_ENOTSUP, &err, "local files");
    snprintf(inside, sizeof inside, "%s/a/b.sqfs", folder);
    assert_fails(image_pack(&r, folder, inside, &err), STK_EINVAL, &err, "lies in the folder");
    snprintf(inside, sizeof inside, "%s/new/b.sqfs", folder);
    assert_fails(image_pack(&r, folder, inside, &err), STK_EINVAL, &err, "lies in the folder");
    snprintf(file, sizeof file, "%s/a/b", folder);
    snprintf(inside, sizeof inside, "squashfs:%s", path);
    assert_fails(image_pack(&r, file, inside, &err), STK_EINVAL, &err, "is no folder");
    assert_int_equal(image_files_in(to), 0);
    /* What is there is not replaced unasked, whatever it is. */
    test_write(to, "a.sqfs", "mine", 4);
    assert_fails(image_pack(&r, folder, path, &err), STK_EEXIST, &err, "--overwrite");
    r.options.overwrite = true;
    assert_ok(image_pack(&r, folder, path, &err), &err);
    r.options.overwrite = false;
    assert_fails(image_pack(&r, folder, path, &err), STK_EEXIST, &err, "--overwrite");
    assert_int_equal(image_files_in(to), 1);
    test_folder_remove(folder);
    test_folder_remove(to);
}

/* Names that a store may have and an image may not. */
static void test_names(void **state)
{
    char to[256], path[300], key[700], is[300];
    stk_context *ctx = test_context();
    stk_conversion *conversion;
    stk_error err;

    (void)state;
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    memset(is, 'n', 257);
    is[257] = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "mem://%d/%s", i, i ? "a/b" : is);
        assert_ok(stk_put_bytes(ctx, key, "x", 1, NULL, &err), &err);
        snprintf(key, sizeof key, "mem://%d/a", i);
        assert_ok(stk_put_bytes(ctx, key, "x", 1, NULL, &err), &err);
        snprintf(key, sizeof key, "mem://%d", i);
        assert_ok(stk_conversion_create(ctx, key, path, &conversion, &err), &err);
        assert_fails(stk_conversion_run(conversion, NULL, NULL, NULL, &err), STK_EINVAL, &err,
                     i ? "two of that name, or a file and a folder" : "longer than 256 bytes");
        stk_conversion_destroy(&conversion);
    }
    assert_int_equal(image_files_in(to), 0);
    stk_context_destroy(&ctx);
    test_folder_remove(to);
}

static void test_dry_run(void **state)
{
    char folder[256], to[256], path[300];
    stk_conversion_report planned;
    stk_error err;
    image_run r;

    (void)state;
    image_make_folder(test_folder(folder));
    test_folder(to);
    snprintf(path, sizeof path, "%s/a.sqfs", to);
    image_run_init(&r);
    r.options.dry_run = true;
    assert_ok(image_pack(&r, folder, path, &err), &err);
    planned = r.report;
    assert_true(planned.planned);
    assert_int_equal(planned.total, FILES);
    assert_int_equal(image_files_in(to), 0);
    r.options.dry_run = false;
    assert_ok(image_pack(&r, folder, path, &err), &err);
    assert_int_equal(planned.bytes_before, r.report.bytes_before);
    /* All was looked at, but for what is there twice. */
    assert_in_range(planned.bytes_after, r.report.bytes_after - 4096,
                    r.report.bytes_after + BYTES + BLOCK);
    test_folder_remove(folder);
    test_folder_remove(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_codecs),
        cmocka_unit_test(test_little_saved),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_large_folders),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_above_4_gib),
        cmocka_unit_test(test_of_another_store),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_dry_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

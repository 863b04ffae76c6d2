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
    image_room *w = *state;
    char again[300];
    image m;

    image_make_folder(w->folder);
    for (int codec = STK__BLOCK_ZSTD; codec <= STK__BLOCK_NONE; codec++) {
        snprintf(w->path, sizeof w->path, "%s/%d.sqfs", w->to, codec);
        snprintf(again, sizeof again, "%s/%d-again.sqfs", w->to, codec);
        image_run_init(&w->run);
        w->run.own.codec = codec;
        assert_ok(image_pack_room(w), &w->err);
        assert_int_equal(w->run.report.total, FILES);
        assert_int_equal(w->run.report.repeated, 2);
        assert_int_equal(w->run.report.verified, FILES);
        assert_int_equal(w->run.report.encoded == 0, codec == STK__BLOCK_NONE);
        assert_int_equal(w->run.report.copied + w->run.report.encoded, FILES);
        check(w->path, w->folder, FILES + FOLDERS, &m);
        assert_int_equal(m.files, FILES);
        assert_int_equal(m.sparse, 4 * BLOCK + 2);
        assert_true(m.raw > 20); /* what does not shrink */
        /* Threads decide nothing, and neither does what is verified. */
        w->run.options.num_workers = 3;
        w->run.options.verify = STK_VERIFY_NONE;
        w->run.report.verified = w->run.report.repeated = 0;
        assert_ok(image_pack(&w->run, w->folder, again, &w->err), &w->err);
        assert_int_equal(w->run.report.verified, 0);
        same_files(w->path, again);
    }
    assert_int_equal(image_files_in(w->to), 2 * (STK__BLOCK_NONE + 1));
}

/* A block is packed where that saves a sixteenth: of 200 values it would save 4 %, of 100 16 %. */
static void test_little_saved(void **state)
{
    image_room *w = *state;
    enum { SIZE = 1 << 17 };
    static uint8_t bytes[SIZE];
    uint64_t seed = 3;
    image m;

    for (unsigned values = 200; values >= 100; values -= 100) {
        for (int i = 0; i < SIZE; i++)
            bytes[i] = (uint8_t)((test_random(&seed) >> 20 & 0xffff) % values);
        test_write(w->folder, "a", bytes, SIZE);
        image_run_init(&w->run);
        w->run.own.block = SIZE;
        w->run.own.codec = STK__BLOCK_ZLIB; /* zstd has such a bound itself */
        w->run.options.overwrite = true;
        assert_ok(image_pack_room(w), &w->err);
        assert_int_equal(w->run.report.encoded, values == 100);
        check(w->path, w->folder, 1, &m);
    }
}

/* A copy is stored with the first, also where it was written before it was known to be one. */
static void test_copies(void **state)
{
    image_room *w = *state;
    enum { SIZE = 3 << 20 };
    char name[32];
    uint8_t *bytes = malloc(SIZE);
    struct stat st;
    image m;

    image_fill(bytes, SIZE, true, 9);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d/large", i);
        test_write(w->folder, name, bytes, SIZE);
        snprintf(name, sizeof name, "%d/small", i);
        test_write(w->folder, name, bytes, 100);
    }
    test_write(w->folder, "9/large", bytes, SIZE); /* the last */
    bytes[SIZE - 1]++;
    test_write(w->folder, "4/other", bytes, SIZE);
    test_write(w->folder, "5/shorter", bytes, SIZE - 1);
    w->run.own.block = 1 << 20;
    w->run.options.num_workers = 2;
    assert_ok(image_pack_room(w), &w->err);
    assert_int_equal(w->run.report.repeated, 7);
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_size, w->run.report.bytes_after);
    assert_in_range(st.st_size, 3 * SIZE, 3 * SIZE + 16384);
    check(w->path, w->folder, 11 + 7, &m);
    free(bytes);
}

static void pack_many(int count, const char *format, uint64_t indexes)
{
    void *state;
    char name[300];
    image m;

    image_begin(&state);
    image_room *w = state;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, format, i);
        test_write(w->folder, name, name, i % 7 ? 0 : strlen(name));
    }
    snprintf(w->path, sizeof w->path, "squashfs:%.255s/image", w->to);
    assert_ok(image_pack_room(w), &w->err);
    check(w->path + strlen("squashfs:"), w->folder,
          w->run.report.total + (strchr(format, '/') ? count : 0), &m);
    assert_int_equal(m.files, count);
    assert_true(m.indexes >= indexes);
    image_end(&state);
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
    image_room *w = *state;
    char name[400] = "";
    image m;

    for (int i = 0; i < 60; i++)
        strcat(name, "d/");
    strcat(name, "file");
    test_write(w->folder, name, "x", 1);
    snprintf(w->path, sizeof w->path, "%s/a.squashfs", w->to);
    assert_ok(image_pack_room(w), &w->err);
    check(w->path, w->folder, 61, &m);
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
    image_room *w = *state;
    static const char *const names[] = {"a/b/c", "a/d", "a/b/e", "f", "a-b"};
    char from[600];
    stk_conversion *conversion;
    stk_context *ctx = test_context();
    image m;

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        test_write(w->folder, names[i], names[i], strlen(names[i]));
        snprintf(from, sizeof from, "mem://x/in/%s", names[i]);
        assert_ok(stk_put_bytes(ctx, from, names[i], strlen(names[i]), NULL, &w->err), &w->err);
    }
    snprintf(w->path, sizeof w->path, "%s/a.sqsh", w->to);
    snprintf(from, sizeof from, "slow+file:%s?latency=0", w->folder);
    for (int i = 0; i < 2; i++) {
        assert_ok(
            stk_conversion_create(ctx, i ? "mem://x/in" : from, w->path, &conversion, &w->err),
            &w->err);
        assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &w->err), &w->err);
        stk_conversion_destroy(&conversion);
        image_check(&m, ctx, w->path, w->folder, STK_COUNT(names) + 2);
        assert_int_equal(unlink(w->path), 0);
    }
    stk_context_destroy(&ctx);
}

static void test_links(void **state)
{
    image_room *w = *state;
    static const char *const links[][2] = {
        {"a", "inside"}, {"/etc/passwd", "outside"}, {"nowhere", "dead"}, {"..", "up"}};
    char link[300];
    image m;

    test_write(w->folder, "a", "a", 1);
    for (size_t i = 0; i < STK_COUNT(links); i++) {
        snprintf(link, sizeof link, "%s/%s", w->folder, links[i][1]);
        assert_int_equal(symlink(links[i][0], link), 0);
    }
    assert_ok(image_pack_room(w), &w->err);
    assert_int_equal(w->run.report.skipped, 3); /* the one to nowhere is not listed */
    check(w->path, w->folder, 1, &m);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    image_room *w = *state;
    char inside[320], file[300];

    test_write(w->folder, "a/b", "b", 1);
    w->run.own.block = 5000;
    assert_fails(image_pack_room(w), STK_EINVAL, &w->err, "no power of two");
    w->run.own.block = 2048;
    assert_fails(image_pack_room(w), STK_EINVAL, &w->err, "squashfs.block");
    image_run_init(&w->run);
    w->run.own.level = 10;
    w->run.own.codec = STK__BLOCK_ZLIB;
    assert_fails(image_pack_room(w), STK_EINVAL, &w->err, "gzip has levels from 1 to 9");
    w->run.own.codec = STK__BLOCK_LZ4;
    assert_fails(image_pack_room(w), STK_EINVAL, &w->err, "does nothing with codec lz4");
    image_run_init(&w->run);
    w->run.options.memory_budget = 100000;
    assert_fails(image_pack_room(w), STK_EBUDGET, &w->err, "memory_budget is 100000");
    image_run_init(&w->run);
    w->run.options.checkpoint = 3;
    assert_fails(image_pack_room(w), STK_EINVAL, &w->err, "checkpoint does nothing");
    image_run_init(&w->run);
    assert_fails(image_pack(&w->run, w->folder, "mem://x/a.sqfs", &w->err), STK_ENOTSUP, &w->err,
                 "local files");
    snprintf(inside, sizeof inside, "%s/a/b.sqfs", w->folder);
    assert_fails(image_pack(&w->run, w->folder, inside, &w->err), STK_EINVAL, &w->err,
                 "lies in the folder");
    snprintf(inside, sizeof inside, "%s/new/b.sqfs", w->folder);
    assert_fails(image_pack(&w->run, w->folder, inside, &w->err), STK_EINVAL, &w->err,
                 "lies in the folder");
    snprintf(file, sizeof file, "%s/a/b", w->folder);
    snprintf(inside, sizeof inside, "squashfs:%s", w->path);
    assert_fails(image_pack(&w->run, file, inside, &w->err), STK_EINVAL, &w->err, "is no folder");
    assert_int_equal(image_files_in(w->to), 0);
    /* What is there is not replaced unasked, whatever it is. */
    test_write(w->to, "a.sqfs", "mine", 4);
    assert_fails(image_pack_room(w), STK_EEXIST, &w->err, "--overwrite");
    w->run.options.overwrite = true;
    assert_ok(image_pack_room(w), &w->err);
    w->run.options.overwrite = false;
    assert_fails(image_pack_room(w), STK_EEXIST, &w->err, "--overwrite");
    assert_int_equal(image_files_in(w->to), 1);
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
    image_room *w = *state;
    stk_conversion_report planned;

    image_make_folder(w->folder);
    w->run.options.dry_run = true;
    assert_ok(image_pack_room(w), &w->err);
    planned = w->run.report;
    assert_true(planned.planned);
    assert_int_equal(planned.total, FILES);
    assert_int_equal(image_files_in(w->to), 0);
    w->run.options.dry_run = false;
    assert_ok(image_pack_room(w), &w->err);
    assert_int_equal(planned.bytes_before, w->run.report.bytes_before);
    /* All was looked at, but for what is there twice. */
    assert_in_range(planned.bytes_after, w->run.report.bytes_after - 4096,
                    w->run.report.bytes_after + BYTES + BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_codecs, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_little_saved, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_copies, image_begin, image_end),
        cmocka_unit_test(test_large_folders),
        cmocka_unit_test_setup_teardown(test_deep, image_begin, image_end),
        cmocka_unit_test(test_above_4_gib),
        cmocka_unit_test_setup_teardown(test_of_another_store, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_links, image_begin, image_end),
        cmocka_unit_test_setup_teardown(test_refusals, image_begin, image_end),
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_dry_run, image_begin, image_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

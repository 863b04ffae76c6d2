/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged and hostile images of SquashFS, made of tests/golden/store/squashfs/plain.sqfs, whose
 * tables are stored as they are: each is refused in words, with the byte at which it is wrong.
 */
#include "support/objects.h"
#include "support/squash_tree.h"

#define FOLDER TESTS_DIR "/golden/store/squashfs"
/* Where the parts of plain.sqfs begin: the files are blocks, sub/deep/er, sub/z, one. */
#define INODES      8304 /* blocks, one, er, deep, z, sub, the root at 0, 44, 76, 108, 140, 172, 204 */
#define DIRECTORIES 8542 /* runs at 0 (er), 22 (deep, z), 55 (blocks, one, sub) */
#define FRAGMENTS   8647
#define MOST        9000
#define NO_END      UINT64_MAX

typedef struct image_bytes {
    uint8_t *bytes;
    uint64_t size;
} image_bytes;

static image_bytes load_image(const char *name)
{
    test_room room = test_room_open(FOLDER);
    image_bytes i;

    i.bytes = test_get(room.store, name, &i.size);
    test_room_close(&room);
    return i;
}

static stk_status open_bytes(stk_context *ctx, const void *bytes, uint64_t size, squash_list *found,
                             stk__squashfs **out, stk_error *err)
{
    stk_store *store = NULL;

    stk_error_init(err);
    assert_ok(stk_store_open(ctx, "mem://image", &store, NULL, 0, err), err);
    test_put(store, "x.sqfs", bytes, size);
    const stk_status status =
        stk__squashfs_open(store, "x.sqfs", size, &(uint64_t){0}, squash_note, found, out, err);
    stk_store_close(&store);
    assert_true((status == STK_OK) == (*out != NULL));
    return status;
}

/* Whether it opens; a refusal says what and where. */
static bool opens(stk_context *ctx, const void *bytes, uint64_t size)
{
    squash_list found = {0};
    stk__squashfs *image = NULL;
    stk__container_run e;
    stk_error err;

    const stk_status status = open_bytes(ctx, bytes, size, &found, &image, &err);
    for (size_t i = 0; image && i < found.count; i++)
        for (uint64_t at = 0; at < found.list[i].entry.size; at += e.length) {
            stk__squashfs_find_run(image, found.list[i].entry.inode, at, &e);
            assert_true(e.length > 0 && e.at + e.stored <= size && e.skip + e.length <= e.decoded &&
                        (!e.raw || e.decoded == e.stored));
        }
    if (status != STK_OK) {
        assert_true(status == STK_EFORMAT || status == STK_ETRUNCATED || status == STK_EKIND ||
                    status == STK_ELIMIT);
        assert_int_equal(err.status, status);
        assert_true(strstr(err.text, "x.sqfs") && strstr(err.text, ";"));
        assert_true(status == STK_ELIMIT || err.offset <= size);
    }
    stk__squashfs_close(&image);
    free(found.list);
    return status == STK_OK;
}

static const struct {
    stk_status status;
    const char *part;
    struct {
        uint16_t at;
        uint8_t bytes;
        uint64_t value;
    } set[3];
} cases[] = {
    {STK_EFORMAT, "damaged at byte 0: it does not begin with \"hsqs\"", {{0, 1, 'x'}}},
    {STK_EKIND, "not of version 4.0", {{0, 4, 0x68737173}}},
    {STK_EKIND, "not of version 4.0", {{28, 2, 3}}},
    {STK_EKIND, "not of version 4.0", {{30, 2, 1}}},
    {STK_EFORMAT, "at byte 12: the size of blocks", {{12, 4, 8192}}},
    {STK_EFORMAT, "the size of blocks", {{12, 4, 0}}},
    {STK_EFORMAT, "the size of blocks", {{22, 2, 13}}},
    {STK_EFORMAT, "the size of blocks", {{12, 4, 1u << 21}, {22, 2, 21}}},
    {STK_EFORMAT, "the size of blocks", {{12, 4, 1u << 11}, {22, 2, 11}}},
    {STK_EKIND, "compressed by lzo (3)", {{20, 2, 3}}},
    {STK_EKIND, "compressed by a method (7)", {{20, 2, 7}}},
    {STK_ETRUNCATED, "it has 8751 bytes of 8752", {{40, 8, 8752}}},
    {STK_EFORMAT, "the table of inodes is not in the image", {{40, 8, 50}}},
    {STK_EFORMAT, "the table of inodes is not in the image", {{64, 8, 95}}},
    {STK_EFORMAT, "the table of inodes is not in the image", {{64, 8, 8752}}},
    {STK_EFORMAT, "at byte 72: the table of directories is not behind", {{72, 8, 8302}}},
    {STK_EFORMAT, "the table of directories is not behind", {{72, 8, NO_END}}},
    {STK_EFORMAT, "at byte 80: the table of fragments is not behind", {{80, 8, 100}}},
    {STK_EFORMAT, "the table of fragments is not behind", {{80, 8, NO_END}}},
    {STK_EFORMAT, "a list of metadata blocks is not in the image", {{80, 8, 8744}}},
    {STK_EFORMAT, "a list of metadata blocks is not in the image", {{48, 8, 8539}}},
    {STK_EFORMAT, "a metadata block does not lie before its list", {{8663, 8, 8664}}},
    {STK_EFORMAT, "a metadata block does not lie before its list", {{8663, 8, 8000}}},
    {STK_EFORMAT, "another number of entries", {{16, 4, 2}}},
    {STK_EFORMAT, "goes beyond the image", {{16, 4, UINT32_MAX}}},
    {STK_EFORMAT, "at byte 8302: a metadata block is empty or larger", {{8302, 2, 0x8000}}},
    {STK_EFORMAT, "a metadata block is empty or larger", {{8302, 2, 0xa001}}},
    {STK_EFORMAT, "a metadata block goes beyond its table", {{8302, 2, 0x80ed}}},
    {STK_EFORMAT, "a table ends within a metadata block", {{8302, 2, 0x80eb}}},
    {STK_EFORMAT, "the zlib data is damaged", {{8302, 2, 0x00ec}}},
    {STK_EFORMAT, "at byte 32: the root is not in the table", {{32, 8, 236}}},
    {STK_EFORMAT, "the root is not in the table", {{32, 8, 1 << 16}}},
    {STK_EFORMAT, "the root is no folder", {{32, 8, 0}}},
    {STK_EFORMAT, "at byte 8302: an inode has a number", {{4, 4, 6}}},
    {STK_EFORMAT, "an inode has a number", {{INODES + 12, 4, 0}}},
    {STK_EFORMAT, "an inode is of no kind", {{INODES, 2, 15}}},
    {STK_EFORMAT, "an inode is of no kind", {{INODES, 2, 0}}},
    {STK_EFORMAT, "an inode is not the one that its folder names", {{INODES, 2, 6}}},
    {STK_EFORMAT, "an inode is not the one that its folder names", {{INODES + 12, 4, 2}}},
    {STK_EFORMAT, "a file has more blocks than its inode", {{INODES + 28, 4, 0xffffffff}}},
    {STK_EFORMAT, "a file has more blocks than its inode", {{INODES + 28, 4, 4096 * 100}}},
    {STK_EFORMAT, "a block of a file is larger", {{INODES + 32, 4, 0x00001001}}},
    {STK_EFORMAT, "a block of a file is larger", {{INODES + 32, 4, 0x03001000}}},
    {STK_EFORMAT, "stored as it is has another size", {{INODES + 32, 4, 0x01000fff}}},
    {STK_EFORMAT, "stored as it is has another size", {{INODES + 40, 4, 0x01000009}}},
    {STK_EFORMAT, "a file does not lie before the inodes", {{INODES + 16, 4, 103}}},
    {STK_EFORMAT, "a file does not lie before the inodes", {{INODES + 16, 4, 95}}},
    {STK_EFORMAT, "a file does not lie before the inodes", {{INODES + 16, 4, 0xffffffff}}},
    {STK_EFORMAT, "a fragment that there is not", {{INODES + 44 + 20, 4, 1}}},
    {STK_EFORMAT,
     "8302: the end of a file lies behind its fragment",
     {{INODES + 44 + 24, 4, 4096}}},
    {STK_EFORMAT, "behind its fragment", {{INODES + 44 + 24, 4, 0xffffffff}}},
    {STK_EFORMAT, "behind its fragment", {{INODES + 44 + 24, 4, 6}}},
    {STK_EFORMAT, "a fragment is empty or larger", {{FRAGMENTS + 8, 4, 0x01000000}}},
    {STK_EFORMAT, "a fragment is empty or larger", {{FRAGMENTS + 8, 4, 4097}}},
    {STK_EFORMAT, "a fragment is empty or larger", {{FRAGMENTS + 8, 4, 0x02000006}}},
    {STK_EFORMAT, "a fragment does not lie before", {{FRAGMENTS, 8, 8297}}},
    {STK_EFORMAT, "a fragment does not lie before", {{FRAGMENTS, 8, 95}}},
    {STK_EFORMAT, "a fragment does not lie before", {{FRAGMENTS, 8, UINT64_MAX}}},
    {STK_EFORMAT, "a listing goes beyond", {{INODES + 204 + 24, 2, 52}}},
    {STK_EFORMAT, "a listing goes beyond", {{INODES + 204 + 26, 2, 103}}},
    {STK_EFORMAT, "a listing goes beyond", {{INODES + 204 + 16, 4, 1}}},
    {STK_EFORMAT, "a listing ends within a run", {{INODES + 108 + 24, 2, 14}}},
    {STK_EFORMAT, "a listing ends within an entry", {{INODES + 108 + 24, 2, 22}}},
    {STK_EFORMAT, "listings lie over each other", {{INODES + 108 + 24, 2, 51}}},
    {STK_EFORMAT, "a listing ends within an entry", {{DIRECTORIES, 4, 1}}},
    {STK_EFORMAT, "more than 256 entries", {{DIRECTORIES, 4, 256}}},
    {STK_EFORMAT, "more than 256 entries", {{DIRECTORIES, 4, UINT32_MAX}}},
    {STK_EFORMAT, "a run names a block of inodes", {{DIRECTORIES + 4, 4, 5}}},
    {STK_EFORMAT, "not the one that its folder names", {{DIRECTORIES + 8, 4, 4}}},
    {STK_EFORMAT, "an entry names no inode", {{DIRECTORIES + 12, 2, 8192}}},
    {STK_EFORMAT, "an inode goes beyond the table", {{DIRECTORIES + 12, 2, 230}}},
    {STK_EFORMAT, "an entry names no inode", {{DIRECTORIES + 16, 2, 8}}},
    {STK_EFORMAT, "an entry names no inode", {{DIRECTORIES + 16, 2, 0}}},
    {STK_EFORMAT, "not the one that its folder names", {{DIRECTORIES + 16, 2, 1}}},
    {STK_EFORMAT, "a name is longer", {{DIRECTORIES + 18, 2, 256}}},
    {STK_EFORMAT, "a name is longer", {{DIRECTORIES + 18, 2, 2}}},
    {STK_EFORMAT, "a name is none", {{DIRECTORIES + 20, 2, '.' | '.' << 8}}},
    {STK_EFORMAT, "a name is none", {{DIRECTORIES + 20, 2, 'e' | '/' << 8}}},
    {STK_EFORMAT, "a name is none", {{DIRECTORIES + 20, 2, 'e'}}},
    {STK_EFORMAT, "a name is none", {{DIRECTORIES + 54, 1, '.'}}},
    {STK_EFORMAT, "names are not in order", {{DIRECTORIES + 89, 1, 'a'}}},
    {STK_EFORMAT, "names are not in order", {{DIRECTORIES + 89, 3, 's' | 'u' << 8 | 'b' << 16}}},
    /* sub/deep is sub itself; a folder is a hard link of another */
    {STK_EFORMAT, "a folder lies in two places", {{DIRECTORIES + 34, 4, 172 | 0xffff0000}}},
    /* the root lies in itself */
    {STK_EFORMAT, "a folder lies in two places", {{DIRECTORIES + 92, 4, 204 | 6 << 16}}},
};

static void test_damage(void **state)
{
    image_bytes plain = load_image("plain.sqfs");
    stk_context *ctx = *state;
    uint8_t bytes[MOST];
    stk_error err;

    assert_true(plain.size < MOST && opens(ctx, plain.bytes, plain.size));
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__squashfs *image = NULL;
        squash_list found = {0};
        memcpy(bytes, plain.bytes, plain.size);
        for (size_t n = 0; n < STK_COUNT(cases[i].set); n++)
            for (unsigned b = 0; b < cases[i].set[n].bytes; b++)
                bytes[cases[i].set[n].at + b] = (uint8_t)(cases[i].set[n].value >> (8 * b));
        const stk_status status = open_bytes(ctx, bytes, plain.size, &found, &image, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].part))
            fail_msg("case %zu (%s): %s: %s", i, cases[i].part, stk_status_name(status), err.text);
        assert_false(opens(ctx, bytes, plain.size));
        free(found.list);
    }
    free(plain.bytes);
}

static void test_cut(void **state)
{
    image_bytes plain = load_image("plain.sqfs");
    stk_context *ctx = *state;

    for (uint64_t size = 0; size < plain.size; size += size < INODES - 8 ? 90 : 1) {
        uint8_t bytes[MOST];
        memcpy(bytes, plain.bytes, size);
        assert_false(opens(ctx, bytes, size));
        /* The same where the image says that it is no longer. */
        for (unsigned b = 0; b < 8 && size >= STK__SQUASHFS_SUPER; b++)
            bytes[40 + b] = (uint8_t)(size >> (8 * b));
        assert_false(opens(ctx, bytes, size));
    }
    free(plain.bytes);
}

static void test_flips(void **state)
{
    static const char *const names[] = {"plain.sqfs", "gzip.sqfs", "many.sqfs"};
    stk_context *ctx = *state;

    for (size_t n = 0; n < STK_COUNT(names); n++) {
        image_bytes i = load_image(names[n]);
        const uint64_t from = stk__little_endian(i.bytes + 64, 8);
        size_t refused = 0, bits = 0;
        for (uint64_t at = 0; at < i.size; at++) {
            if (at == STK__SQUASHFS_SUPER)
                at = from;
            for (unsigned bit = 0; bit < 8; bit++, bits++) {
                i.bytes[at] ^= (uint8_t)(1u << bit);
                refused += !opens(ctx, i.bytes, i.size);
                i.bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
        /* Times, owners, flags and names may be others; what is compressed has a checksum. */
        assert_true(refused > bits / 4);
        assert_true(opens(ctx, i.bytes, i.size));
        free(i.bytes);
    }
}

/* What cannot be unpacked is told as the decoder has it. */
static void test_tables(void **state)
{
    static const char *const names[] = {"gzip", "zstd", "lz4", "xz", "lzma"};
    stk_error err;

    for (size_t n = 0; n < STK_COUNT(names); n++) {
        char name[64];
        stk__squashfs *image = NULL;
        squash_list found = {0};
        snprintf(name, sizeof name, "%s.sqfs", names[n]);
        image_bytes i = load_image(name);
        const uint64_t at = stk__little_endian(i.bytes + 64, 8);
        memset(i.bytes + at + 8, 0xff, 20);
        const stk_status status = open_bytes(*state, i.bytes, i.size, &found, &image, &err);
        assert_true(status == STK_EFORMAT || status == STK_ETRUNCATED);
        assert_int_equal(err.status, status);
        assert_non_null(strchr(err.text, ';'));
        assert_ptr_equal(strchr(err.text, ';'), strrchr(err.text, ';')); /* one remedy */
        free(found.list);
        free(i.bytes);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *part;
        stk_status status;
    } images[] = {
        {"lzo.sqfs", "compressed by lzo (3), which is not read; pack it again", STK_EKIND},
        {"deep.sqfs", "more than 64 deep; pack them higher up", STK_ELIMIT},
    };
    stk_error err;

    for (size_t n = 0; n < STK_COUNT(images); n++) {
        image_bytes i = load_image(images[n].name);
        stk__squashfs *image = NULL;
        squash_list found = {0};
        assert_fails(open_bytes(*state, i.bytes, i.size, &found, &image, &err), images[n].status,
                     &err, images[n].part);
        free(found.list);
        free(i.bytes);
    }
}

/* A block that is damaged fails when it is decoded. */
static void test_blocks(void **state)
{
    static const char *const names[] = {"gzip", "zstd", "lz4", "xz", "lzma"};
    stk_context *ctx = *state;
    stk__codec_state *codecs = NULL;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &codecs, &err), &err);
    for (size_t n = 0; n < STK_COUNT(names); n++) {
        char name[64], out[8192];
        stk__squashfs *image = NULL;
        squash_list found = {0};
        stk__container_run e;
        const char *reason = NULL;
        snprintf(name, sizeof name, "%s.sqfs", names[n]);
        image_bytes i = load_image(name);
        assert_ok(open_bytes(ctx, i.bytes, i.size, &found, &image, &err), &err);
        stk__squashfs_find_run(image, squash_find(&found, "block")->entry.inode, 0, &e);
        assert_true(!e.raw && e.stored > 4 && e.decoded == 4096);
        const uint8_t *at = i.bytes + e.at;
        assert_int_equal(stk__squashfs_decode(image, codecs, &e, at, out, &reason), STK_OK);
        e.stored--;
        assert_true(stk__squashfs_decode(image, codecs, &e, at, out, &reason) < 0 && reason);
        e.stored++;
        e.decoded--;
        reason = NULL;
        assert_int_equal(stk__squashfs_decode(image, codecs, &e, at, out, &reason), STK_EFORMAT);
        assert_non_null(reason);
        e.decoded += 2;
        reason = NULL;
        assert_int_equal(stk__squashfs_decode(image, codecs, &e, at, out, &reason), STK_ETRUNCATED);
        assert_non_null(strstr(reason, "fewer bytes"));
        stk__squashfs_close(&image);
        free(found.list);
        free(i.bytes);
    }
    stk__codec_state_destroy(&codecs);
}

static void test_memory(void **state)
{
    image_bytes i = load_image("many.sqfs");
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__squashfs *image = NULL;
    squash_list found = {0};
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = 96 << 10; /* each table alone fits */
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_fails(open_bytes(ctx, i.bytes, i.size, &found, &image, &err), STK_ELIMIT, &err,
                 "a quarter of memory_limit; raise it");
    stk_context_destroy(&ctx);
    free(found.list);
    free(i.bytes);
}

/* ---- A table of many blocks ---- */

static uint64_t put(uint8_t *to, uint64_t at, unsigned bytes, uint64_t value)
{
    for (unsigned b = 0; b < bytes; b++)
        to[at + b] = (uint8_t)(value >> (8 * b));
    return at + bytes;
}

/* Metadata blocks as they are; those of two numbers are short. */
static uint64_t put_table(uint8_t *to, uint64_t at, const uint8_t *stream, uint64_t length,
                          uint64_t one, uint64_t two)
{
    for (uint64_t n = 0; n * STK__SQUASHFS_METADATA < length; n++) {
        const uint64_t from = n * STK__SQUASHFS_METADATA;
        const uint64_t bytes =
            STK_MIN(length - from, STK__SQUASHFS_METADATA) - (n == one || n == two ? 192 : 0);
        at = put(to, at, 2, 0x8000 | bytes);
        memcpy(to + at, stream + from, bytes);
        at += bytes;
    }
    return at;
}

/* An image of one file of so many blocks, all of them holes but the last. */
static image_bytes make_holes(uint64_t blocks, uint64_t one, uint64_t two)
{
    const uint64_t length = 96 + 4 * blocks, start = STK__SQUASHFS_SUPER + 100;
    uint8_t *stream = calloc(1, length), listing[21] = {0};
    image_bytes i = {.bytes = calloc(1, length + length / 1000 + 1000)};

    assert_true(stream && i.bytes);
    put(stream, 0, 2, 8); /* the root */
    put(stream, 12, 4, 1);
    put(stream, 20, 4, sizeof listing + 3);
    put(stream, 40, 2, 9); /* the file */
    put(stream, 52, 4, 2);
    put(stream, 56, 8, STK__SQUASHFS_SUPER);
    put(stream, 64, 8, 4096 * (blocks - 1) + 100);
    put(stream, 84, 4, STK__SQUASHFS_NO_FRAGMENT);
    put(stream, length - 4, 4, STK__SQUASHFS_RAW | 100);
    put(listing, 8, 4, 2);
    put(listing, 12, 2, 40);
    put(listing, 16, 2, 2);
    listing[20] = 'x';
    memset(i.bytes + STK__SQUASHFS_SUPER, 7, 100);
    const uint64_t directories = put_table(i.bytes, start, stream, length, one, two);
    uint64_t at = put_table(i.bytes, directories, listing, sizeof listing, NO_END, NO_END);
    const uint64_t ids = at;
    at = put(i.bytes, at, 2, 0x8004) + 4;
    const uint64_t list = at;
    i.size = put(i.bytes, at, 8, ids);
    put(i.bytes, 0, 4, STK__SQUASHFS_MAGIC);
    put(i.bytes, 4, 4, 2);
    put(i.bytes, 12, 4, 4096);
    put(i.bytes, 20, 2, 1);
    put(i.bytes, 22, 2, 12);
    put(i.bytes, 28, 2, 4);
    put(i.bytes, 40, 8, i.size);
    put(i.bytes, 48, 8, list);
    put(i.bytes, 64, 8, start);
    put(i.bytes, 72, 8, directories);
    put(i.bytes, 80, 8, NO_END);
    put(i.bytes, 88, 8, NO_END);
    free(stream);
    return i;
}

/* Threads share a large table, and find the first block that is wrong in it. */
static void test_threads(void **state)
{
    const uint64_t blocks = 400000, size = 4096 * (blocks - 1) + 100;
    image_bytes i = make_holes(blocks, NO_END, NO_END);
    stk__squashfs *image = NULL;
    squash_list found = {0};
    stk__container_run e;
    stk_error err;

    assert_ok(open_bytes(*state, i.bytes, i.size, &found, &image, &err), &err);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].entry.size, size);
    const uint64_t inode = found.list[0].entry.inode;
    stk__squashfs_find_run(image, inode, 5, &e);
    assert_true(!e.stored && e.skip == 5);
    assert_int_equal(e.length, 4096 * STK__SQUASHFS_MOST_RUN - 5);
    stk__squashfs_find_run(image, inode, size - 200, &e);
    assert_true(!e.stored && e.length == 100);
    stk__squashfs_find_run(image, inode, size - 30, &e);
    assert_true(e.raw && e.at == STK__SQUASHFS_SUPER && e.stored == 100 && e.skip == 70 &&
                e.length == 30);
    stk__squashfs_close(&image);
    free(found.list);
    free(i.bytes);

    for (int n = 0; n < 10; n++) {
        found = (squash_list){0};
        i = make_holes(blocks, 190, 20);
        assert_fails(open_bytes(*state, i.bytes, i.size, &found, &image, &err), STK_EFORMAT, &err,
                     "a metadata block is not the last and has less than 8 KiB");
        assert_int_equal(err.offset, STK__SQUASHFS_SUPER + 100 + 20 * (STK__SQUASHFS_METADATA + 2));
        free(i.bytes);
    }
}

static stk_status stop(void *user, const stk__squashfs_entry *entry, stk_error *err)
{
    return ++*(int *)user == 2 ? STK_ECANCELED : STK_OK;
}

/* Whoever is told of entries ends the walk. */
static void test_stop(void **state)
{
    test_room room = test_room_open(FOLDER);
    stk__squashfs *image = NULL;
    int told = 0;
    stk_error err;

    assert_int_equal(stk__squashfs_open(room.store, "plain.sqfs", 8751, &(uint64_t){0}, stop, &told,
                                        &image, &err),
                     STK_ECANCELED);
    assert_int_equal(told, 2);
    assert_null(image);
    test_room_close(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_flips),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tables), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}

/* A strict look at an image of SquashFS, by the specification alone: every table, every inode,
 * every byte of every file against the folder that was packed. [squashfs-tools-ng doc/format.adoc]
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SQUASHFS_IMAGE_H
#define STK_TESTS_SQUASHFS_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "support/support.h"
#include "support/text.h"

typedef struct image {
    uint8_t *data;
    size_t size;
    const char *folder; /* that was packed; NULL: all bytes are zeros */
    stk__codec_state *state;
    stk__block_kind kind;
    uint64_t block, inodes, folders, end; /* tables begin; the image ends */
    uint64_t *seen;                       /* references, by number of inode */
    uint64_t count, files, indexes, large, raw, sparse;
    uint64_t sum; /* of the names of inodes: how often each is in a listing */
} image;

static inline uint64_t image_number(const image *m, uint64_t at, unsigned bytes)
{
    assert_true(at + bytes <= m->size);
    return stk__little_endian(m->data + at, bytes);
}

/* A place in a table: of a block in the image, and in what it becomes. */
typedef struct table_place {
    uint64_t block, next; /* this one; the one behind */
    uint64_t offset, length;
    uint8_t bytes[8192];
} table_place;

static inline void table_load(const image *m, table_place *p)
{
    const uint64_t head = image_number(m, p->block, 2), stored = head & 0x7fff;
    const char *reason = "";

    assert_in_range(stored, 1, 8192);
    assert_true(p->block + 2 + stored <= m->end);
    p->next = p->block + 2 + stored;
    p->length = stored;
    if (head & 0x8000)
        memcpy(p->bytes, m->data + p->block + 2, stored);
    else
        assert_int_equal(stk__block_decode(m->kind.codec, m->state, m->data + p->block + 2, stored,
                                           p->bytes, sizeof p->bytes, &p->length, &reason),
                         STK_OK);
}

static inline void table_at(const image *m, table_place *p, uint64_t table, uint64_t reference)
{
    p->block = table + (reference >> 16);
    p->offset = reference & 0xffff;
    table_load(m, p);
    assert_true(p->offset < p->length);
}

static inline void table_read(const image *m, table_place *p, void *to, size_t length)
{
    for (uint8_t *out = to; length; length--) {
        if (p->offset == p->length) {
            assert_int_equal(p->length, sizeof p->bytes); /* only the last is short */
            p->block = p->next;
            p->offset = 0;
            table_load(m, p);
        }
        *out++ = p->bytes[p->offset++];
    }
}

static inline uint64_t table_number(const image *m, table_place *p, unsigned bytes)
{
    uint8_t at[8];

    table_read(m, p, at, bytes);
    return stk__little_endian(at, bytes);
}

/* The bytes of a file against those of the folder. */
static inline void image_content(image *m, table_place *p, const char *path, uint64_t at,
                                 uint64_t size, uint64_t sparse)
{
    char name[5000];
    uint8_t *block = malloc(m->block);
    const char *reason = "";
    uint64_t holes = 0;

    snprintf(name, sizeof name, "%s/%s", m->folder ? m->folder : "", path);
    FILE *f = m->folder ? fopen(name, "rb") : NULL;
    uint8_t *wanted = calloc(1, m->block);
    assert_true(f || !m->folder);
    for (uint64_t done = 0; done < size; done += m->block) {
        const uint64_t n = STK_MIN(m->block, size - done), word = table_number(m, p, 4);
        const uint64_t stored = word & 0xffffff;
        uint64_t got = n;
        assert_true(stored <= n && at + stored <= m->inodes);
        if (!stored) {
            memset(block, 0, n);
            holes += n;
        } else if (word >> 24) {
            assert_int_equal(word >> 24, 1);
            assert_int_equal(stored, n);
            memcpy(block, m->data + at, n);
            m->raw++;
        } else {
            assert_true(stored < n);
            assert_int_equal(stk__block_decode(m->kind.codec, m->state, m->data + at, stored, block,
                                               n, &got, &reason),
                             STK_OK);
        }
        assert_int_equal(got, n);
        if (f)
            assert_int_equal(fread(wanted, 1, n, f), n);
        if (memcmp(block, wanted, n) != 0)
            fail_msg("%s: other bytes in the block at %llu", path, (unsigned long long)done);
        at += stored;
    }
    assert_int_equal(holes, sparse);
    m->sparse += holes;
    if (f) {
        assert_int_equal(fgetc(f), EOF);
        fclose(f);
    }
    free(block);
    free(wanted);
}

static inline void image_inode(image *m, uint64_t reference, unsigned type, uint64_t number,
                               uint64_t parent, const char *path);

/* One listing, from the place of its folder on. */
static inline void image_listing(image *m, uint64_t reference, uint64_t size, uint64_t number,
                                 const char *path, uint64_t links)
{
    table_place p;
    char last[257] = "", name[257], below[4200];
    uint64_t folders = 2;

    if (size)
        table_at(m, &p, m->folders, reference);
    while (size) {
        const uint64_t count = table_number(m, &p, 4) + 1, block = table_number(m, &p, 4),
                       base = table_number(m, &p, 4);
        assert_in_range(count, 1, 256);
        assert_true(size > 12);
        size -= 12;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t offset = table_number(m, &p, 2);
            const int16_t more = (int16_t)table_number(m, &p, 2);
            const uint64_t type = table_number(m, &p, 2), length = table_number(m, &p, 2) + 1;
            assert_in_range(length, 1, 256);
            assert_true(size >= 8 + length);
            size -= 8 + length;
            table_read(m, &p, name, length);
            name[length] = 0;
            assert_int_equal(strlen(name), length);
            assert_null(strchr(name, '/'));
            assert_true(strcmp(last, name) < 0);
            memcpy(last, name, sizeof last);
            folders += type == 1;
            snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", name);
            image_inode(m, block << 16 | offset, (unsigned)type, base + (uint64_t)more, number,
                        below);
        }
    }
    assert_int_equal(folders, links);
}

/* Each place of an index is that of a header, whose first name it tells. */
static inline void image_index(image *m, table_place *p, uint64_t count, uint64_t reference,
                               uint64_t size)
{
    char name[257], there[257];
    uint64_t last = 0;
    table_place at;

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t offset = table_number(m, p, 4), block = table_number(m, p, 4);
        const uint64_t length = table_number(m, p, 4) + 1;
        assert_in_range(length, 1, 256);
        table_read(m, p, name, length);
        assert_true(offset > last && offset < size && offset - last <= 8192);
        last = offset;
        table_at(m, &at, m->folders, block << 16 | ((reference & 0xffff) + offset) % 8192);
        table_number(m, &at, 4);
        table_number(m, &at, 8);
        table_number(m, &at, 6);
        assert_int_equal(table_number(m, &at, 2) + 1, length);
        table_read(m, &at, there, length);
        assert_memory_equal(name, there, length);
    }
    assert_true(size - last <= 8192);
    m->indexes += count;
}

static inline void image_folder(image *m, table_place *p, bool large, uint64_t number,
                                uint64_t parent, const char *path)
{
    uint64_t block, links, size, offset, above, count = 0;

    if (large) {
        links = table_number(m, p, 4);
        size = table_number(m, p, 4);
        block = table_number(m, p, 4);
        above = table_number(m, p, 4);
        count = table_number(m, p, 2);
        offset = table_number(m, p, 2);
        assert_int_equal(table_number(m, p, 4), UINT32_MAX);
    } else {
        block = table_number(m, p, 4);
        links = table_number(m, p, 4);
        size = table_number(m, p, 2);
        offset = table_number(m, p, 2);
        above = table_number(m, p, 4);
    }
    assert_int_equal(above, parent);
    assert_true(size >= 3);
    if (size > 8192 + 3)
        assert_true(count > 0);
    if (count)
        image_index(m, p, count, block << 16 | offset, size - 3);
    image_listing(m, block << 16 | offset, size - 3, number, path, links);
}

static inline void image_inode(image *m, uint64_t reference, unsigned type, uint64_t number,
                               uint64_t parent, const char *path)
{
    table_place p;
    uint64_t at, size, sparse = 0;

    table_at(m, &p, m->inodes, reference);
    const uint64_t is = table_number(m, &p, 2);
    assert_true(is == type || is == type + 7u);
    assert_int_equal(table_number(m, &p, 2), type == 1 ? 0755 : 0644);
    assert_int_equal(table_number(m, &p, 4), 0); /* the first owner and group */
    table_number(m, &p, 4);
    assert_int_equal(table_number(m, &p, 4), number);
    assert_in_range(number, 1, m->count);
    assert_int_equal(m->seen[number - 1], UINT64_MAX);
    m->seen[number - 1] = reference;
    m->large += is > 7;
    if (type == 1) {
        image_folder(m, &p, is > 7, number, parent, path);
        return;
    }
    assert_int_equal(type, 2);
    if (is > 7) {
        at = table_number(m, &p, 8);
        size = table_number(m, &p, 8);
        sparse = table_number(m, &p, 8);
        assert_int_equal(table_number(m, &p, 4), 1);
        assert_int_equal(table_number(m, &p, 4), UINT32_MAX);
        assert_int_equal(table_number(m, &p, 4), 0);
        assert_int_equal(table_number(m, &p, 4), UINT32_MAX);
    } else {
        at = table_number(m, &p, 4);
        assert_int_equal(table_number(m, &p, 4), UINT32_MAX);
        assert_int_equal(table_number(m, &p, 4), 0);
        size = table_number(m, &p, 4);
    }
    m->files++;
    image_content(m, &p, path, at, size, sparse);
}

/* A list of blocks, whose first is at `from`; the list is at `at` and ends at `to`. */
static inline void image_list(const image *m, uint64_t at, uint64_t from, uint64_t to,
                              uint64_t bytes, uint8_t *out)
{
    table_place p = {.block = from};

    for (uint64_t done = 0; done < bytes; done += p.length, at += 8) {
        assert_int_equal(image_number(m, at, 8), p.block);
        table_load(m, &p);
        assert_true(p.length <= bytes - done);
        memcpy(out + done, p.bytes, p.length);
        p.block = p.next;
    }
    assert_int_equal(at, to);
}

static inline void image_tables(image *m, uint64_t export, uint64_t owners)
{
    uint8_t *bytes = malloc(8 * m->count), owner[4];
    const uint64_t lists = stk__divide_up(8 * m->count, 8192);
    const uint64_t first = image_number(m, export, 8), owner_at = image_number(m, owners, 8);

    assert_int_equal(owner_at, export + 8 * lists);
    image_list(m, export, first, owner_at, 8 * m->count, bytes);
    for (uint64_t i = 0; i < m->count; i++)
        assert_int_equal(stk__little_endian(bytes + 8 * i, 8), m->seen[i]);
    image_list(m, owners, owner_at, m->end, 4, owner);
    assert_int_equal(stk__little_endian(owner, 4), 0);
    free(bytes);
}

/* Look at all of the image at `path`, of a folder with so many files and folders below it. */
static inline void image_check(image *m, stk_context *ctx, const char *path, const char *folder,
                               uint64_t nodes)
{
    static const stk__block_codec codecs[7] = {
        [1] = STK__BLOCK_ZLIB, [4] = STK__BLOCK_XZ, [5] = STK__BLOCK_LZ4, [6] = STK__BLOCK_ZSTD};
    stk_error err;

    *m = (image){.folder = folder, .count = nodes + 1};
    m->data = test_load(path, &m->size);
    assert_non_null(m->data);
    assert_ok(stk__codec_state_create(ctx, &m->state, &err), &err);
    assert_true(m->size % 4096 == 0);
    assert_memory_equal(m->data, "hsqs", 4);
    assert_int_equal(image_number(m, 4, 4), m->count);
    m->block = image_number(m, 12, 4);
    assert_int_equal(image_number(m, 16, 4), 0);
    const uint64_t codec = image_number(m, 20, 2), flags = image_number(m, 24, 2);
    assert_true(codec == 1 || codec == 4 || codec == 5 || codec == 6);
    m->kind = (stk__block_kind){codecs[codec], 1, (uint32_t)m->block};
    assert_int_equal(UINT64_C(1) << image_number(m, 22, 2), m->block);
    assert_int_equal(flags & 0x290, 0x290); /* no fragments, export, no attributes */
    assert_int_equal(flags & 0x400, codec == 5 ? 0x400 : 0);
    assert_int_equal(image_number(m, 26, 2), 1);
    assert_int_equal(image_number(m, 28, 4), 4); /* 4.0 */
    m->end = image_number(m, 40, 8);
    const uint64_t owners = image_number(m, 48, 8), export = image_number(m, 88, 8);
    assert_int_equal(image_number(m, 56, 8), UINT64_MAX);
    m->inodes = image_number(m, 64, 8);
    m->folders = image_number(m, 72, 8);
    assert_int_equal(image_number(m, 80, 8), UINT64_MAX);
    assert_true(m->inodes < m->folders && m->folders <= export && export < owners &&
                owners < m->end && m->end <= m->size && m->size - m->end < 4096);
    for (uint64_t i = m->end; i < m->size; i++)
        assert_int_equal(m->data[i], 0);
    m->seen = malloc(m->count * sizeof *m->seen);
    memset(m->seen, 0xff, m->count * sizeof *m->seen);
    const uint64_t root = image_number(m, 32, 8);
    image_inode(m, root, 1, 1, m->count + 1, "");
    image_tables(m, export, owners);
    free(m->seen);
    free(m->data);
    stk__codec_state_destroy(&m->state);
}

#endif

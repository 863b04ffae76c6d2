/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of SquashFS that mksquashfs and gensquashfs write at this moment hold the tree that they
 * are made of: every compressor, sizes of blocks, with and without fragments, listings of many
 * runs and of many metadata blocks, and a file of more than 4 GiB.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/objects.h"
#include "support/squash_tree.h"

#define MANY   400
#define DRAWN  30
#define RANGES 4
#define HUGE   ((UINT64_C(4) << 30) + 5)

typedef struct tree_file {
    char path[300], parts[100];
    uint32_t seed;
} tree_file;

typedef struct tree {
    char folder[256];
    tree_file files[MANY + DRAWN + 20];
    size_t count;
} tree;

static bool has_command(const char *name)
{
    char command[300];

    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    if (system(command) == 0)
        return true;
    print_message("skipped: no %s\n", name);
    return false;
}

static void make_folder(const char *root, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
}

static void add_file(tree *t, const char *path, const char *parts)
{
    char whole[600];
    uint64_t size;
    tree_file *f = &t->files[t->count];

    assert_true(t->count < STK_COUNT(t->files));
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->parts, sizeof f->parts, "%s", parts);
    f->seed = (uint32_t)t->count++;
    uint8_t *bytes = squash_content(f->seed, parts, &size);
    snprintf(whole, sizeof whole, "%s/tree", t->folder);
    test_write(whole, path, bytes, size);
    free(bytes);
}

/* Many names in a folder, sizes at the ends of blocks, and parts that are drawn. */
static void make_tree(tree *t)
{
    static const uint64_t blocks[] = {4096, 131072, 1048576};
    uint64_t draw = 7;
    char root[300], path[300], parts[100];

    snprintf(root, sizeof root, "%s/tree", t->folder);
    make_folder(t->folder, "tree");
    make_folder(root, "many");
    make_folder(root, "a");
    make_folder(root, "a/b");
    make_folder(root, "a/empty");
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "many/a_file_with_a_long_name_of_its_own_%05d.jpeg", i);
        snprintf(parts, sizeof parts, "n%d", 20 + i % 50);
        add_file(t, path, i % 10 ? parts : "-");
    }
    for (size_t i = 0; i < STK_COUNT(blocks); i++)
        for (int more = -1; more < 2; more++) {
            snprintf(path, sizeof path, "a/t_%zu_%d", i, more);
            snprintf(parts, sizeof parts, "t%lld", (long long)blocks[i] + more);
            add_file(t, path, parts);
        }
    for (int i = 0; i < DRAWN; i++) {
        size_t length = 0;
        snprintf(path, sizeof path, "a/b/drawn_%d", i);
        for (uint64_t n = 1 + test_random(&draw) % 5; n; n--)
            length += (size_t)snprintf(parts + length, sizeof parts - length, "%s%c%d",
                                       length ? "," : "", "tnz"[test_random(&draw) % 3],
                                       (int)(1 + test_random(&draw) % 30000));
        add_file(t, path, parts);
    }
    add_file(t, "a/large", "t500000,n400000,z700000,n10,t900000,n3000");
}

static void check_file(stk__squashfs *image, stk__codec_state *codecs, const uint8_t *bytes,
                       const squash_list *found, const tree_file *f)
{
    uint64_t size, draw = f->seed + 1;
    const char *reason = NULL;
    const squash_found *entry = squash_find(found, f->path);
    uint8_t *wanted = squash_content(f->seed, f->parts, &size), *out = malloc(size + 1);

    assert_true(entry && out);
    assert_int_equal(entry->entry.size, size);
    for (int i = 0; i < RANGES && (size || !i); i++) {
        const uint64_t from = i ? test_random(&draw) % size : 0;
        const uint64_t length = i ? test_random(&draw) % (size - from + 1) : size;
        if (squash_read(image, codecs, bytes, entry->entry.inode, from, length, out, &reason) !=
            STK_OK)
            fail_msg("%s from byte %llu on: %s", f->path, (unsigned long long)from, reason);
        assert_memory_equal(out, wanted + from, length);
    }
    free(out);
    free(wanted);
}

static void check_image(const tree *t, const char *how)
{
    test_room room = test_room_open(t->folder);
    squash_list found = {0};
    stk__squashfs *image = NULL;
    stk__codec_state *codecs = NULL;
    uint64_t size;
    stk_error err;

    uint8_t *bytes = test_get(room.store, "x.sqfs", &size);
    if (stk__squashfs_open(room.store, "x.sqfs", size, &(uint64_t){0}, squash_note, &found, &image,
                           &err) != STK_OK)
        fail_msg("%s: %s", how, err.text);
    assert_ok(stk__codec_state_create(room.ctx, &codecs, &err), &err);
    assert_int_equal(found.count, t->count + 4);
    for (size_t i = 0; i < t->count; i++)
        check_file(image, codecs, bytes, &found, &t->files[i]);
    stk__codec_state_destroy(&codecs);
    stk__squashfs_close(&image);
    free(found.list);
    free(bytes);
    test_room_close(&room);
}

static void run(const char *format, const char *folder, const char *arguments)
{
    char command[1200];

    snprintf(command, sizeof command, format, folder, folder, arguments);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

static void check_program(const char *format, const char *const *arguments)
{
    static tree t;

    t = (tree){0};
    test_folder(t.folder);
    make_tree(&t);
    for (; *arguments; arguments++) {
        run(format, t.folder, *arguments);
        check_image(&t, *arguments);
    }
    test_folder_remove(t.folder);
}

static void test_mksquashfs(void **state)
{
    static const char *const arguments[] = {
        "-comp gzip -b 4K",
        "-comp gzip -b 128K -no-fragments -no-exports",
        "-comp gzip -b 8K -noI -noD -noF -noX",
        "-comp zstd -b 128K",
        "-comp zstd -b 4K -noD -noF",
        "-comp zstd -b 1M -noI -always-use-fragments",
        "-comp lz4 -b 64K",
        "-comp lz4 -b 4K -noF -no-fragments",
        "-comp xz -b 64K -noI",
        "-comp xz -b 1M -Xdict-size 100% -Xbcj x86,arm",
        "-comp lzma -b 32K",
        "-comp gzip -no-duplicates -no-sparse -no-tailends",
        NULL,
    };

    if (!has_command("mksquashfs"))
        skip();
    check_program("mksquashfs '%s/tree' '%s/x.sqfs' -noappend -quiet -no-progress %s >/dev/null",
                  arguments);
}

static void test_gensquashfs(void **state)
{
    static const char *const arguments[] = {
        "-c gzip -b 4096",
        "-c zstd -b 131072",
        "-c lz4 -b 65536",
        "-c xz -b 1048576",
        "-c lzma -b 32768",
        "-c zstd -b 4096 -T -e",
        NULL,
    };

    if (!has_command("gensquashfs"))
        skip();
    check_program("gensquashfs -q -f -D '%s/tree' '%s/x.sqfs' %s >/dev/null", arguments);
}

/* A file of more than 4 GiB, nearly all of it a hole. */
static void test_huge(void **state)
{
    char folder[256], path[400];
    squash_list found = {0};
    stk__squashfs *image = NULL;
    stk__container_run e;
    uint8_t out[8];
    uint64_t size;
    const char *reason = NULL;
    stk__codec_state *codecs = NULL;
    stk_error err;

    if (!has_command("mksquashfs"))
        skip();
    test_folder(folder);
    make_folder(folder, "tree");
    snprintf(path, sizeof path, "%s/tree/huge", folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)HUGE) == 0);
    assert_int_equal(pwrite(fd, "abcde", 5, (off_t)(HUGE - 5)), 5);
    assert_int_equal(close(fd), 0);
    run("mksquashfs '%s/tree' '%s/x.sqfs' -noappend -quiet -no-progress %s >/dev/null", folder,
        "-b 1M");
    test_room room = test_room_open(folder);
    uint8_t *bytes = test_get(room.store, "x.sqfs", &size);
    assert_ok(stk__squashfs_open(room.store, "x.sqfs", size, &(uint64_t){0}, squash_note, &found,
                                 &image, &err),
              &err);
    assert_ok(stk__codec_state_create(room.ctx, &codecs, &err), &err);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].entry.size, HUGE);
    const uint64_t inode = found.list[0].entry.inode;
    stk__squashfs_find_run(image, inode, HUGE / 2, &e);
    assert_true(!e.stored && e.length >= STK__SQUASHFS_MOST_RUN);
    assert_int_equal(squash_read(image, codecs, bytes, inode, HUGE - 8, 8, out, &reason), STK_OK);
    assert_memory_equal(out, "\0\0\0abcde", 8);
    stk__codec_state_destroy(&codecs);
    stk__squashfs_close(&image);
    free(found.list);
    free(bytes);
    test_room_close(&room);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mksquashfs),
        cmocka_unit_test(test_gensquashfs),
        cmocka_unit_test(test_huge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

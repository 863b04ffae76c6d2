/* SPDX-License-Identifier: Apache-2.0 */
/* Images written by mksquashfs and gensquashfs hold the files that they were made of. */
#include "support/objects.h"
#include "support/squash_tree.h"

#define FOLDER TESTS_DIR "/golden/store/squashfs"

typedef struct opened {
    test_room room;
    uint8_t *bytes;
    uint64_t size;
    stk__squashfs *image;
    stk__codec_state *state;
    squash_list found;
} opened;

static opened open_image(const char *name)
{
    opened o = {.room = test_room_open(FOLDER)};
    char key[420];
    stk_error err;

    snprintf(key, sizeof key, "%s.sqfs", name);
    o.bytes = test_get(o.room.store, key, &o.size);
    assert_ok(stk__squashfs_open(o.room.store, key, o.size, &(uint64_t){0}, squash_note, &o.found,
                                 &o.image, &err),
              &err);
    assert_ok(stk__codec_state_create(o.room.ctx, &o.state, &err), &err);
    return o;
}

static stk_status count(void *user, const char *key, const stk_object_info *info)
{
    ++*(size_t *)user;
    return STK_OK;
}

/* The same files by the store, which lies over another: what is no file cannot be opened. */
static void check_store(const opened *o, const char *over, const char *name)
{
    char url[700];
    stk_store *store = NULL;
    size_t listed = 0, others = 0, inside = 0;
    stk_error err;

    if (!o->image)
        return;
    snprintf(url, sizeof url, "squashfs:%s/%s.sqfs!/", over, name);
    assert_ok(stk_store_open(o->room.ctx, url, &store, NULL, 0, &err), &err);
    assert_ok(stk_store_list(store, "", NULL, count, &listed, &err), &err);
    for (size_t i = 0; i < o->found.count; i++) {
        const stk__squashfs_entry *e = &o->found.list[i].entry;
        stk_object_info info = {.struct_size = sizeof info};
        const char *path = o->found.list[i].path, *reason = NULL;
        inside += strchr(path, '/') != NULL;
        if (e->kind != STK__SQUASHFS_FILE && e->kind != STK__SQUASHFS_FOLDER) {
            others++;
            assert_true(stk_store_read(store, path, 0, 0, NULL, &err) != STK_OK);
            continue;
        }
        assert_ok(stk_store_stat(store, path, NULL, &info, &err), &err);
        assert_int_equal(info.is_folder, e->kind == STK__SQUASHFS_FOLDER);
        if (info.is_folder)
            continue;
        assert_true(info.size == e->size && info.mtime_ns == e->mtime_ns);
        uint8_t *out = malloc(e->size + 1), *wanted = malloc(e->size + 1);
        assert_true(out && wanted);
        for (uint64_t from = 0; from <= e->size; from += from ? from : 1) {
            const uint64_t length = (e->size - from) / (from % 3 + 1);
            assert_int_equal(
                squash_read(o->image, o->state, o->bytes, e->inode, from, length, wanted, &reason),
                STK_OK);
            assert_ok(stk_store_read(store, path, from, length, out, &err), &err);
            assert_memory_equal(out, wanted, length);
        }
        free(out);
        free(wanted);
    }
    assert_int_equal(listed, o->found.count - inside - others);
    stk_store_close(&store);
}

static void put_in_memory(const opened *o, const char *name)
{
    char key[420];
    stk_store *store = NULL;
    stk_error err;

    snprintf(key, sizeof key, "%s.sqfs", name);
    assert_ok(stk_store_open(o->room.ctx, "mem://golden", &store, NULL, 0, &err), &err);
    test_put(store, key, o->bytes, o->size);
    stk_store_close(&store);
}

static void close_image(opened *o)
{
    stk__codec_state_destroy(&o->state);
    stk__squashfs_close(&o->image);
    free(o->found.list);
    free(o->bytes);
    test_room_close(&o->room);
    *o = (opened){0};
}

static void check_file(const opened *o, const char *path, uint32_t seed, const char *parts)
{
    const squash_found *f = squash_find(&o->found, path);
    const char *reason = NULL;
    uint64_t size, draw = seed + 1;

    assert_non_null(f);
    uint8_t *wanted = squash_content(seed, parts, &size), *out = malloc(size + 1);
    assert_non_null(out);
    assert_int_equal(f->entry.kind, STK__SQUASHFS_FILE);
    assert_int_equal(f->entry.size, size);
    assert_int_equal(f->entry.mtime_ns, INT64_C(1700000000000000000));
    for (int i = 0; i < 20; i++) {
        const uint64_t from = i ? test_random(&draw) % (size + 1) : 0;
        const uint64_t length = i ? test_random(&draw) % (size - from + 1) : size;
        assert_int_equal(
            squash_read(o->image, o->state, o->bytes, f->entry.inode, from, length, out, &reason),
            STK_OK);
        assert_memory_equal(out, wanted + from, length);
    }
    free(out);
    free(wanted);
}

static void test_images(void **state)
{
    FILE *said = fopen(FOLDER "/golden.txt", "r");
    char line[512], path[400], parts[100];
    unsigned seed, images = 0;
    size_t lines = 0;
    opened o = {0};

    assert_non_null(said);
    while (fgets(line, sizeof line, said)) {
        if (sscanf(line, "image %399s", path) == 1) {
            if (images++)
                assert_int_equal(lines, o.found.count);
            close_image(&o);
            o = open_image(path);
            check_store(&o, FOLDER, path);
            check_store(&o, "slow+file:" FOLDER, path);
            put_in_memory(&o, path);
            check_store(&o, "mem://golden", path);
            lines = 0;
            continue;
        }
        lines++;
        if (sscanf(line, "o %399[^\n]", path) == 1) {
            assert_non_null(squash_find(&o.found, path));
            assert_true(squash_find(&o.found, path)->entry.kind > STK__SQUASHFS_FILE);
        } else if (sscanf(line, "d %399[^\n]", path) == 1) {
            assert_non_null(squash_find(&o.found, path));
            assert_int_equal(squash_find(&o.found, path)->entry.kind, STK__SQUASHFS_FOLDER);
        } else {
            assert_int_equal(sscanf(line, "f %399s %u %99s", path, &seed, parts), 3);
            check_file(&o, path, seed, parts);
        }
    }
    assert_int_equal(lines, o.found.count);
    assert_int_equal(images, 19);
    close_image(&o);
    fclose(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

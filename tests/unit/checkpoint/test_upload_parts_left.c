/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of checkpoints that lie in a store: torn ones are refused, what nobody needs is removed,
 * and what runs left is put. */
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "upload_parts.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static size_t get_bytes(world *w, const char *url, uint8_t *bytes, size_t room)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    stk_error err;

    assert_ok(stk_store_open(w->ctx, url, &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    assert_true(info.size <= room);
    assert_ok(stk_store_read(store, key, 0, info.size, bytes, &err), &err);
    stk_store_close(&store);
    return (size_t)info.size;
}

/* It is no checkpoint, whoever asks, and the one before is the newest. */
static void assert_torn(world *w, const char *url, stk_status status, const char *message)
{
    const stk__newest_where where = {.runs = "noted://torn"};
    stk__checkpoint *c = NULL;
    char file[400], found[300];
    stk_error err;

    snprintf(file, sizeof file, "%s/file.ckpt", w->dir);
    assert_fails(stk__checkpoint_open(w->ctx, url, &c, &err), status, &err, message);
    assert_fails(stk__checkpoint_verify(w->ctx, url, &err), status, &err, message);
    assert_fails(stk_checkpoint_consolidate(w->ctx, url, file, NULL, &err), status, &err, message);
    assert_int_not_equal(access(file, F_OK), 0);
    assert_ok(stk__checkpoint_newest(w->ctx, &where, found, sizeof found, &err), &err);
    assert_string_equal(found, "noted://torn/1.ckpt");
}

static void torn_parts(void **state)
{
    static const char *const url = "noted://torn/2.ckpt";
    uint8_t bytes[8192], other[8192];
    char found[300], file[400];
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save(w, "noted://torn/1.ckpt", 1, NULL);
    const stk__checkpoint_part part = draw(), foreign = draw();
    save_all(&r, &part, url, 2, NULL);
    save_all(&r, &foreign, "noted://torn/other/x.ckpt", 2, NULL);
    upload_all(&r);
    const char *one = part_url(&r, url, &part, 1);
    const size_t n = get_bytes(w, one, bytes, sizeof bytes);

    stk__put_place place = {.context = w->ctx};
    assert_ok(stk__url_remove(&place, "noted://torn/other/x.ckpt.complete", &err), &err);
    assert_ok(stk__url_remove(&place, one, &err), &err);
    stk__put_place_close(&place);
    assert_torn(w, url, STK_ENOENT, "lies in 3 parts, and part 1 is not there");
    put_bytes(w, one, bytes, n - 8);
    assert_torn(w, url, STK_ETRUNCATED, one);
    bytes[n - 1] ^= 1;
    put_bytes(w, one, bytes, n);
    assert_torn(w, url, STK_ECHECKSUM, one);
    bytes[n - 1] ^= 1;
    size_t m = get_bytes(w, part_url(&r, url, &part, 2), other, sizeof other);
    put_bytes(w, one, other, m);
    assert_torn(w, url, STK_EFORMAT, "it is another part of it");
    m = get_bytes(w, part_url(&r, "noted://torn/other/x.ckpt", &foreign, 1), other, sizeof other);
    put_bytes(w, one, other, m);
    assert_torn(w, url, STK_EFORMAT, "it is of another save");

    put_bytes(w, one, bytes, n);
    const stk__newest_where where = {.runs = "noted://torn"};
    assert_ok(stk__checkpoint_newest(w->ctx, &where, found, sizeof found, &err), &err);
    assert_string_equal(found, url);
    snprintf(file, sizeof file, "%s/file.ckpt", w->dir);
    assert_ok(stk_checkpoint_consolidate(w->ctx, url, file, NULL, &err), &err);
    assert_whole(&r, file, 2);
    close_ranks(&r);
}

/* ---- What nobody needs ----------------------------------------------------------------------- */

/* Parts of a save that ended before its first was put go when a run goes on, where nobody may be at
 * work. */
static void left_parts_are_removed(void **state)
{
    static const char *const a = "noted://v/version_0/a.ckpt";
    const stk__newest_where goes_on = {.runs = "noted://v", .goes_on = true},
                            looks = {.runs = "noted://v"};
    const stk__checkpoint_part needed = draw(), orphan = draw();
    world *w = *state;
    char found[300];
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_all(&r, &needed, a, 1, NULL);
    save_part(&r, orphan, 1, a, 2, NULL);
    save_part(&r, orphan, 2, a, 2, NULL);
    upload_all(&r);
    put_bytes(w, "noted://v/version_0/checkpoint.parts/notes.safetensors", "x", 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_parts(&r, a, &orphan), 4);
        w->age = i == 1 ? 1000 : i == 2 ? 500 : 0;
        const stk__newest_where *where = i == 1 ? &looks : &goes_on;
        assert_ok(stk__checkpoint_newest(w->ctx, where, found, sizeof found, &err), &err);
    }
    w->age = 1000;
    assert_ok(stk__checkpoint_newest(w->ctx, &goes_on, found, sizeof found, &err), &err);
    assert_string_equal(found, a);
    assert_int_equal(count_parts(&r, a, &orphan), 0);
    assert_true(is_there(w, "noted://v/version_0/checkpoint.parts/notes.safetensors"));
    assert_whole(&r, a, 1);
    /* What cannot be read now may be the first of parts: nothing takes its place. */
    char file[400];
    snprintf(file, sizeof file, "%s/file.ckpt", w->dir);
    assert_ok(stk_checkpoint_consolidate(w->ctx, a, file, NULL, &err), &err);
    w->unread = true;
    assert_int_equal(stk_checkpoint_consolidate(w->ctx, file, a, NULL, &err), STK_EIO);
    w->unread = false;
    assert_whole(&r, a, 1);
    assert_int_equal(count_parts(&r, a, &needed), 4);
    /* As one file in its own place it needs none. */
    assert_ok(stk_checkpoint_consolidate(w->ctx, a, a, NULL, &err), &err);
    assert_whole(&r, a, 1);
    assert_int_equal(count_parts(&r, a, &needed), 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* ---- What a run left ------------------------------------------------------------------------- */

/* A byte of a file that waits for its upload. */
static void damage(const world *w, const char *name)
{
    char pattern[700];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*/*/%s", w->dir, name);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    test_flip_bit(found.gl_pathv[0], 1);
    globfree(&found);
}

/* What was left, as of long ago: marks of other saves beside its parts are younger. */
static void make_old(const world *w)
{
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char pattern[700];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/stoker-upload-*", w->dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, PARTS);
    for (size_t i = 0; i < found.gl_pathc; i++)
        assert_int_equal(utimensat(AT_FDCWD, found.gl_pathv[i], times, 0), 0);
    globfree(&found);
}

/* One process finds what all have left, in whatever order, and puts the first last; a damaged part
 * stays, and so does the first. */
static void what_runs_left_is_put(void **state)
{
    static const char *const url = "noted://l/run/x.ckpt";
    world *w = *state;
    stk_error err;

    for (int damaged = 0; damaged < 2; damaged++) {
        const stk__checkpoint_part part = draw();
        ranks r;
        open_ranks(&r, w, 20000000);
        w->failures = -1;
        save_all(&r, &part, url, 1, NULL);
        close_ranks(&r);
        assert_int_equal(left(w), PARTS);
        w->failures = 0;
        w->warnings = 0;
        *w->log = 0;
        make_old(w);
        put_bytes(w, "noted://l/run/checkpoint.parts/other.safetensors.complete", "x", 1);
        if (damaged)
            damage(w, strrchr(part_url(&r, url, &part, 1), '/') + 1);
        open_writer(w, UINT64_C(60000000000));
        assert_ok(stk__checkpoint_upload_left(w->writer, "noted://l/run", &err), &err);
        stk__checkpoint_upload(w->writer);
        if (damaged) {
            assert_null(strstr(w->log, "put x.ckpt\n"));
            assert_int_equal(w->warnings, 2);
            assert_non_null(strstr(w->warning, "the part of rank 1 of 3 is not in the store"));
        } else {
            assert_whole(&r, url, 1);
            assert_true(logged(w, "-00002-of-00003.safetensors.complete\n") <
                        logged(w, "put x.ckpt\n"));
            assert_int_equal(w->warnings, 0);
            stk__put_place place = {.context = w->ctx};
            assert_ok(stk__url_remove(&place, "noted://l/run/x.ckpt.complete", &err), &err);
            stk__put_place_close(&place);
        }
        stk__checkpoint_writer_destroy(&w->writer);
        assert_int_equal(left(w), damaged ? 2 : 0);
        open_writer(w, UINT64_C(60000000000));
    }
}

/* ---- Which stores ---------------------------------------------------------------------------- */

static void stores_of_all_machines(void **state)
{
    static const struct {
        const char *url;
        bool is;
    } urls[] = {{"s3://b/run/x.ckpt", true},
                {"gs://b/x.ckpt", true},
                {"slow+s3://b/x.ckpt?latency=1ms", true},
                {"mem://b/x.ckpt", false},
                {"http://h/x.ckpt", false},
                {"zip:s3://b/a.zip!/x.ckpt", false},
                {"/tmp/x.ckpt", false},
                {"file:///tmp/x.ckpt", false},
                {"nobody://b/x.ckpt", false}};
    const world *w = *state;

    for (size_t i = 0; i < STK_COUNT(urls); i++)
        if (stk__checkpoint_parts_store(w->ctx, urls[i].url) != urls[i].is)
            fail_msg("%s", urls[i].url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(torn_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(left_parts_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_runs_left_is_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stores_of_all_machines, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("checkpoint/upload_parts_left", tests, NULL, NULL);
}

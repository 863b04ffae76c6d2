/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that a run left are uploaded by a later one, where nothing later is there. */
#include "uploads.h"

#include <fcntl.h>
#include <sys/stat.h>

/* A run that is killed while the store is dead, as far as its files are concerned. */
static void leave(world *w, const char *url, float step, const char *other)
{
    stk_error err;

    stk__checkpoint_writer_destroy(&w->writer);
    open_writer(w, 20000000);
    w->failures = -1;
    save(w, url, step, NULL);
    if (other)
        assert_ok(stk__checkpoint_link(w->writer, url, other, &err), &err);
    stk__checkpoint_writer_destroy(&w->writer);
    w->failures = 0;
    w->warnings = 0;
    open_writer(w, UINT64_C(60000000000));
}

static void upload_left(world *w, const char *root)
{
    stk_error err;

    assert_ok(stk__checkpoint_upload_left(w->writer, root, &err), &err);
    stk__checkpoint_upload(w->writer);
}

/* The folder of what was left, and a path in it. */
static void left_path(const world *w, const char *name, char *path, size_t size)
{
    struct dirent *entry;
    DIR *dir = opendir(w->dir);

    assert_non_null(dir);
    while ((entry = readdir(dir)) && entry->d_name[0] == '.')
        continue;
    assert_non_null(entry);
    snprintf(path, size, "%s/%s/%s", w->dir, entry->d_name, name);
    closedir(dir);
}

/* It is uploaded first, under all of its names, by who has the same folder and root alone. */
static void what_a_run_left_is_sent(void **state)
{
    world *w = *state;

    leave(w, "noted://l/run/1.ckpt", 1, "noted://l/run/last.ckpt");
    upload_left(w, "noted://l/ru");
    assert_string_equal(w->log, "");
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 1);
    open_writer(w, UINT64_C(60000000000));
    upload_left(w, "noted://l/run/");
    save(w, "noted://l/run/2.ckpt", 2, NULL);
    upload(w);
    assert_float_equal(value_of(w, "noted://l/run/1.ckpt"), 1, 0);
    assert_float_equal(value_of(w, "noted://l/run/last.ckpt"), 1, 0);
    assert_true(is_there(w, "noted://l/run/1.ckpt.complete"));
    assert_true(is_there(w, "noted://l/run/last.ckpt.complete"));
    assert_int_equal(w->warnings, 0);
    assert_non_null(strstr(w->log, "put 2.ckpt.complete"));
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 0);
}

/* What is there already is not put again. */
static void what_was_sent_is_not_sent_again(void **state)
{
    world *w = *state;

    leave(w, "noted://n/1.ckpt", 1, NULL);
    upload_left(w, "noted://n");
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\n");
    leave(w, "noted://n/1.ckpt", 1, NULL);
    upload_left(w, "noted://n");
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\n");
    assert_int_equal(w->warnings, 0);
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 0);
}

/* Another has that name since, or was put beside it: it stays, each time. */
static void what_is_later_stays(void **state)
{
    world *w = *state;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[600];

    save(w, "noted://o/last.ckpt", 5, NULL);
    upload(w);
    leave(w, "noted://o/last.ckpt", 1, NULL);
    upload_left(w, "noted://o");
    assert_float_equal(value_of(w, "noted://o/last.ckpt"), 5, 0);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "has a later checkpoint"));
    stk__checkpoint_writer_destroy(&w->writer);
    left_path(w, "0/last.ckpt", path, sizeof path);
    assert_float_equal(value_of(w, path), 1, 0);
    test_folder_remove(w->dir);
    test_folder(w->dir);

    leave(w, "noted://o/1.ckpt", 1, NULL);
    left_path(w, "7", path, sizeof path); /* it is void, and goes */
    assert_int_equal(mkdir(path, 0700), 0);
    left_path(w, "", path, sizeof path);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    for (unsigned i = 1; i <= 2; i++) {
        upload_left(w, "noted://o");
        assert_false(is_there(w, "noted://o/1.ckpt"));
        assert_int_equal(w->warnings, i);
        stk__checkpoint_writer_destroy(&w->writer);
        assert_int_equal(left(w), 1);
        open_writer(w, UINT64_C(60000000000));
    }
}

/* A run that is still there has its folder; what is damaged stays, what is void goes. */
static void what_is_not_left(void **state)
{
    world *w = *state;
    stk__checkpoint_writer *other;
    char path[600];

    stk__checkpoint_writer_destroy(&w->writer);
    open_writer(w, UINT64_C(60000000000));
    other = w->writer;
    hold(w, true);
    save(w, "noted://p/1.ckpt", 1, NULL);
    flush(w);
    await_put(w);
    open_writer(w, UINT64_C(60000000000));
    upload_left(w, "noted://p");
    hold(w, false);
    stk__checkpoint_upload(other);
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\n");
    stk__checkpoint_writer_destroy(&other);

    leave(w, "noted://p/2.ckpt", 2, NULL);
    left_path(w, "0/2.ckpt", path, sizeof path);
    assert_int_equal(truncate(path, 100), 0);
    upload_left(w, "noted://p");
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "it is damaged"));
    assert_false(is_there(w, "noted://p/2.ckpt"));
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 1);
    left_path(w, "0.0", path, sizeof path);
    assert_int_equal(unlink(path), 0);
    open_writer(w, 20000000);
    upload_left(w, "noted://p");
    assert_int_equal(left(w), 0);
}

/* Only what is the user's own, and nobody else's to write, is looked into; links lead nowhere. */
static void what_others_may_write_is_left(void **state)
{
    world *w = *state;
    char path[600], moved[600];

    leave(w, "noted://r/1.ckpt", 1, NULL);
    left_path(w, "", path, sizeof path);
    path[strlen(path) - 1] = 0;
    assert_int_equal(chmod(path, 0750), 0);
    upload_left(w, "noted://r");
    assert_string_equal(w->log, "");
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(moved, sizeof moved, "%s/.moved", w->dir);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    upload_left(w, "noted://r");
    assert_string_equal(w->log, "");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(moved, path), 0);
    upload_left(w, "noted://r");
    assert_true(is_there(w, "noted://r/1.ckpt.complete"));
}

/* Of two runs that left the same name the newer is uploaded, the other stays. */
static void the_newer_of_two(void **state)
{
    world *w = *state;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[600], moved[600];

    for (int i = 0; i < 2; i++) { /* whichever is listed first */
        w->warnings = 0;
        leave(w, "noted://s/last.ckpt", 1, NULL);
        left_path(w, "", path, sizeof path);
        path[strlen(path) - 1] = 0;
        snprintf(moved, sizeof moved, "%s/.moved", w->dir);
        assert_int_equal(rename(path, moved), 0);
        leave(w, "noted://s/last.ckpt", 2, NULL);
        assert_int_equal(rename(moved, path), 0);
        assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
        upload_left(w, "noted://s");
        assert_float_equal(value_of(w, "noted://s/last.ckpt"), 2, 0);
        assert_int_equal(w->warnings, 1);
        stk__checkpoint_writer_destroy(&w->writer);
        assert_int_equal(left(w), 1);
        test_folder_remove(w->dir);
        test_folder(w->dir);
        stk__put_place place = {.context = w->ctx};
        assert_int_equal(stk__url_remove(&place, "noted://s/last.ckpt.complete", NULL), STK_OK);
        stk__put_place_close(&place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_run_left_is_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_sent_is_not_sent_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_later_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_others_may_write_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newer_of_two, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

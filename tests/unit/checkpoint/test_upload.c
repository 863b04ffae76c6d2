/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints for another store: uploaded in the background, marked, kept where that fails. */
#include "support/faults.h"
#include "uploads.h"

static void the_mark_comes_last(void **state)
{
    world *w = *state;
    char path[256];
    stk_error err;

    save(w, "noted://a/x.ckpt", 1, NULL);
    upload(w);
    save(w, "noted://a/y.ckpt", 2, "noted://a/x.ckpt");
    upload(w);
    assert_string_equal(w->log, "put x.ckpt\nput x.ckpt.complete\nput y.ckpt\n"
                                "put y.ckpt.complete\nremove x.ckpt.complete\nremove x.ckpt\n");
    assert_float_equal(value_of(w, "noted://a/y.ckpt"), 2, 0);
    assert_false(is_there(w, "noted://a/x.ckpt"));
    assert_false(stk__checkpoint_local(w->writer, "noted://a/y.ckpt", path, sizeof path));

    /* What has none is not whole, and no mark makes a checkpoint. */
    const stk__newest_where where = {.runs = "noted://a"};
    assert_ok(stk__checkpoint_newest(w->ctx, &where, path, sizeof path, &err), &err);
    assert_string_equal(path, "noted://a/y.ckpt");
    stk__put_place place = {.context = w->ctx};
    assert_ok(stk__url_remove(&place, "noted://a/y.ckpt.complete", &err), &err);
    stk__put_place_close(&place);
    assert_fails(stk__checkpoint_newest(w->ctx, &where, path, sizeof path, &err), STK_ENOENT, &err,
                 "1 have no '.complete'");
    assert_float_equal(value_of(w, "noted://a/y.ckpt"), 2, 0);
    assert_int_equal(w->warnings, 0);
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 0);
}

/* Another name for what is no longer here is a copy in the store, and marked as well. */
static void a_name_for_an_older_one(void **state)
{
    world *w = *state;
    stk_error err;

    save(w, "noted://m/1.ckpt", 1, NULL);
    save(w, "noted://m/2.ckpt", 2, NULL);
    upload(w);
    assert_ok(stk__checkpoint_link(w->writer, "noted://m/1.ckpt", "noted://m/best.ckpt", &err),
              &err);
    upload(w);
    assert_float_equal(value_of(w, "noted://m/best.ckpt"), 1, 0);
    assert_true(is_there(w, "noted://m/best.ckpt.complete"));
}

/* Behind what a store lets nobody remove nothing waits. */
static void what_cannot_be_removed_stays(void **state)
{
    world *w = *state;

    w->keeps = true;
    save(w, "noted://k/1.ckpt", 1, NULL);
    upload(w);
    save(w, "noted://k/2.ckpt", 2, "noted://k/1.ckpt");
    upload(w);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "could not be removed"));
    save(w, "noted://k/3.ckpt", 3, NULL);
    upload(w);
    assert_float_equal(value_of(w, "noted://k/3.ckpt"), 3, 0);
    assert_true(is_there(w, "noted://k/1.ckpt"));
    assert_true(is_there(w, "noted://k/3.ckpt.complete"));
}

/* A slow store: training goes on, what was begun is sent to its end, and then what is new. */
static void a_slow_store_gets_what_is_new(void **state)
{
    world *w = *state;
    stk_error err;

    hold(w, true);
    save(w, "noted://b/1.ckpt", 1, NULL);
    flush(w);
    await_put(w);
    save(w, "noted://b/2.ckpt", 2, "noted://b/1.ckpt");
    save(w, "noted://b/last.ckpt", 2, NULL);
    save(w, "noted://b/3.ckpt", 3, "noted://b/2.ckpt");
    assert_ok(stk__checkpoint_link(w->writer, "noted://b/3.ckpt", "noted://b/last.ckpt", &err),
              &err);
    flush(w);
    hold(w, false);
    upload(w);
    assert_string_equal(w->log,
                        "put 1.ckpt\nput 1.ckpt.complete\n"
                        "put 3.ckpt\nput 3.ckpt.complete\nput last.ckpt\nput last.ckpt.complete\n"
                        "remove 1.ckpt.complete\nremove 1.ckpt\n"
                        "remove 2.ckpt.complete\nremove 2.ckpt\n");
    /* Another name for a checkpoint needs no download. */
    assert_int_equal(w->reads, 0);
    assert_float_equal(value_of(w, "noted://b/3.ckpt"), 3, 0);
    assert_float_equal(value_of(w, "noted://b/last.ckpt"), 3, 0);
    assert_int_equal(w->warnings, 0);
}

static void what_fails_is_tried_again(void **state)
{
    world *w = *state;

    w->failures = 2;
    save(w, "noted://c/1.ckpt", 1, NULL);
    upload(w);
    assert_float_equal(value_of(w, "noted://c/1.ckpt"), 1, 0);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "is tried again"));
    /* What the store has is less than what it was given. */
    w->shortens = true;
    save(w, "noted://c/2.ckpt", 2, NULL);
    upload(w);
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\nput 2.ckpt\nput 2.ckpt\n"
                                "put 2.ckpt.complete\n");
    assert_int_equal(w->warnings, 2);
    assert_non_null(strstr(w->warning, "bytes after"));
}

/* A dead store fails nothing: the file stays and can be read, and one warning says where. */
static void a_dead_store_leaves_files(void **state)
{
    world *w = *state;
    char path[512], kept[512];

    w->failures = -1;
    save(w, "noted://d/1.ckpt", 1, NULL);
    upload(w);
    assert_int_equal(w->warnings, 2);
    assert_non_null(strstr(w->warning, "1 checkpoint is not uploaded, 'noted://d/1.ckpt'"));
    assert_non_null(strstr(w->warning, "not now"));
    assert_true(stk__checkpoint_local(w->writer, "noted://d/1.ckpt", path, sizeof path));
    assert_float_equal(value_of(w, path), 1, 0);
    snprintf(kept, sizeof kept, "kept in '%s/stoker-upload-", w->dir);
    assert_non_null(strstr(w->warning, kept));
    /* It is said once, and the next file begins it anew: both are uploaded. */
    upload(w);
    assert_int_equal(w->warnings, 2);
    w->failures = 0;
    save(w, "noted://d/2.ckpt", 2, NULL);
    upload(w);
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\nput 2.ckpt\n"
                                "put 2.ckpt.complete\n");
    w->failures = -1;
    save(w, "noted://d/3.ckpt", 3, NULL);
    stk__checkpoint_writer_destroy(&w->writer);
    assert_int_equal(left(w), 1);
}

/* The program is to end: what is newest goes first. */
static void the_newest_goes_first(void **state)
{
    world *w = *state;

    stk__checkpoint_writer_destroy(&w->writer);
    open_writer(w, UINT64_C(60000000000));
    hold(w, true);
    save(w, "noted://g/1.ckpt", 1, NULL);
    flush(w);
    await_put(w);
    save(w, "noted://g/2.ckpt", 2, NULL);
    save(w, "noted://g/3.ckpt", 3, "noted://g/0.ckpt");
    flush(w);
    w->told = w->releases = true;
    upload(w);
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\nput 3.ckpt\n"
                                "put 3.ckpt.complete\nput 2.ckpt\nput 2.ckpt.complete\n"
                                "remove 0.ckpt.complete\nremove 0.ckpt\n");
}

/* A store that hangs is left. */
static void an_end_that_is_near(void **state)
{
    world *w = *state;

    hold(w, true);
    save(w, "noted://e/1.ckpt", 1, NULL);
    flush(w);
    await_put(w);
    save(w, "noted://e/2.ckpt", 2, NULL);
    save(w, "noted://e/3.ckpt", 3, NULL);
    flush(w);
    w->told = true;
    upload(w);
    assert_string_equal(w->log, "");
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "3 checkpoints are not uploaded, 'noted://e/3.ckpt'"));
    assert_non_null(strstr(w->warning, "no time"));
    hold(w, false);
    save(w, "noted://e/4.ckpt", 4, NULL);
    w->told = true;
    upload(w);
    assert_true(is_there(w, "noted://e/4.ckpt.complete"));
}

/* Without room on this machine it is put from memory; without a store, too, it is lost and said. */
static void no_room(void **state)
{
    world *w = *state;
    char file[300];

    stk__checkpoint_writer_destroy(&w->writer);
    snprintf(file, sizeof file, "%s/file", w->dir);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(w->dir + strlen(w->dir), sizeof w->dir - strlen(w->dir), "/file");
    open_writer(w, 20000000);
    save(w, "noted://f/1.ckpt", 1, NULL);
    upload(w);
    assert_string_equal(w->log, "put 1.ckpt\nput 1.ckpt.complete\n");
    w->failures = -1;
    save(w, "noted://f/2.ckpt", 2, "noted://f/1.ckpt");
    upload(w);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "'noted://f/2.ckpt' is lost"));
    assert_true(is_there(w, "noted://f/1.ckpt"));
    *strrchr(w->dir, '/') = 0;
}

/* Memory that is refused costs a checkpoint at most: no file is left behind, and none is torn. */
static void no_memory(void **state)
{
    world *w = *state;
    static faults f = {.left = FAULTS_NONE}; /* the context is ended later */

    stk__checkpoint_writer_destroy(&w->writer);
    stk_context_destroy(&w->ctx);
    for (int64_t n = 0;; n++) {
        stk_context_options options;
        stk_error err;
        stk_context_options_init(&options);
        options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
        assert_ok(stk_context_create(&options, &w->ctx, &err), &err);
        assert_ok(stk_driver_add(w->ctx, STK_DRIVER_STORE, &noted, &err), &err);
        open_writer(w, 20000000);
        assert_true(n < 400);
        f.left = n;
        const stk_status status = try_save(w, "noted://h/1.ckpt", 1, NULL, &err);
        assert_true(status == STK_OK || status == STK_ENOMEM);
        if (stk__checkpoint_flush(w->writer, &err) == STK_OK)
            stk__checkpoint_upload(w->writer);
        const bool all = !fault_struck(&f);
        f.left = FAULTS_NONE;
        assert_true(!is_there(w, "noted://h/1.ckpt.complete") ||
                    value_of(w, "noted://h/1.ckpt") == 1);
        assert_true(!all || is_there(w, "noted://h/1.ckpt.complete"));
        stk__checkpoint_writer_destroy(&w->writer);
        if (all)
            break;
        stk_context_destroy(&w->ctx);
        assert_int_equal(f.held, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_mark_comes_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_store_gets_what_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_for_an_older_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dead_store_leaves_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_goes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_is_near, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A download that is unpacked, while the n-th allocation fails, and the n-th call that writes, for
 * every n until all succeed: what is left never has a name that it is not whole under, and the next
 * run goes on to the same end.
 */
#include "mirrored.h"
#include "support/faulty_files.h"

static stk_status never_there(const void *user, stk_store *store, size_t file, bool *there,
                              stk_error *err)
{
    *there = false;
    return STK_OK;
}

/* What has a name is whole. `all`: everything has its name, and nothing else is there. */
static void check_folder(bool all)
{
    static const char *const files[] = {"d/one", "d/two"};
    const void *const wanted[] = {room.one, "2"};
    const size_t sizes[] = {SIZE, 1};
    unsigned char data[SIZE + 1];
    char path[400];

    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/new/below/%s", room.folder, files[i]);
        FILE *f = fopen(path, "rb");
        if (f) {
            assert_int_equal(fread(data, 1, sizeof data, f), sizes[i]);
            assert_memory_equal(data, wanted[i], sizes[i]);
            fclose(f);
        }
        assert_true(f || !all);
    }
    snprintf(path, sizeof path, "%s/new/below/a.tar.gz.part", room.folder);
    assert_true(!all || access(path, F_OK) != 0);
}

static stk_status run(faults *f, stk_error *err)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    char url[300];

    snprintf(url, sizeof url, "%s/new", room.folder);
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    if (f)
        options.allocator = (stk_allocator){faulty_alloc, faulty_free, f};
    stk_error_init(err);
    stk_status status = stk_context_create(&options, &ctx, err);
    if (status == STK_OK)
        status = stk__published_get(ctx, &room.of, url, NULL, never_there, NULL, err);
    stk_context_destroy(&ctx);
    assert_true(!f || f->held == 0);
    return status;
}

/* A run without faults, in the folder as it was left. */
static void go_on(void)
{
    stk_error err;

    assert_ok(run(NULL, &err), &err);
    check_folder(true);
}

static void test_allocations(void **state)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        bool struck = true;
        int64_t n = 0;
        for (; struck; n++) {
            faults f = {n, for_good, 0};
            stk_error err;
            test_folder(room.folder);
            const stk_status status = run(&f, &err);
            struck = fault_struck(&f);
            if (status != STK_OK)
                assert_fails(status, STK_ENOMEM, &err, "");
            check_folder(status == STK_OK);
            go_on();
            test_folder_remove(room.folder);
        }
        assert_true(n > 10);
    }
}

static void test_calls(void **state)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        bool struck = true;
        int64_t n = 0;
        for (; struck; n++) {
            stk_error err;
            test_folder(room.folder);
            file_faults.for_good = for_good;
            file_faults.left = n;
            const stk_status status = run(NULL, &err);
            struck = fault_struck(&file_faults);
            file_faults.left = FAULTS_NONE;
            if (status != STK_OK)
                assert_fails(status, STK_EIO, &err, "cannot");
            /* Only a part of the archive that could not be removed may be left behind. */
            assert_true(status == STK_OK || struck);
            check_folder(false);
            go_on();
            test_folder_remove(room.folder);
        }
        assert_true(n > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_calls)};

    return cmocka_run_group_tests(tests, room_open, room_close);
}

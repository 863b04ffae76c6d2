/* SPDX-License-Identifier: Apache-2.0 */
/* A folder packed into an image while the n-th allocation or the n-th call on files fails, for
 * every n until all succeed: the image is whole or not there, and no memory is kept. */
#include "faulty_conversion.h"

#include <dirent.h>
#include <string.h>

#include "base/files.h"
#include "support/faulty_files.h"

typedef struct folders {
    char from[256], to[256], target[300];
} folders;

static void make_folders(folders *f)
{
    static char bytes[20000];
    char name[40];

    test_folder(f->from);
    test_folder(f->to);
    snprintf(f->target, sizeof f->target, "%s/a.sqfs", f->to);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * i >> 7);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%d/%d", i % 3, i);
        test_write(f->from, name, bytes + i / 2, sizeof bytes - 1000 * (size_t)(i / 2));
    }
}

static void remove_folders(folders *f)
{
    test_folder_remove(f->from);
    test_folder_remove(f->to);
}

static size_t files_in(const char *path, bool temporary)
{
    DIR *folder = opendir(path);
    size_t n = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.' || (temporary && stk__is_temporary(entry->d_name));
    closedir(folder);
    return n;
}

static void options_init(stk_convert_options *common, stk_convert_squashfs_options *own,
                         int workers)
{
    stk_convert_options_init(common);
    common->num_workers = workers;
    stk_options_init(stk_option_table_find("squashfs"), own, sizeof *own);
    own->block = 4096;
}

static void test_memory(void **state)
{
    stk_convert_squashfs_options own;
    stk_convert_options common;
    folders f;

    (void)state;
    make_folders(&f);
    for (int i = 0; i < 3; i++) {
        options_init(&common, &own, i == 1 ? 2 : 0);
        own.codec = i == 2 ? 3 : 0; /* xz, whose encoder takes memory for each block */
        bool whole = false;
        for (int64_t n = 0; !whole; n += i == 0 ? 1 : n < 60 ? 3 : 11) {
            whole = faulty_conversion(f.from, f.target, "squashfs", &common, &own, n, i == 1);
            assert_int_equal(files_in(f.to, true), access(f.target, F_OK) == 0);
            unlink(f.target);
        }
    }
    remove_folders(&f);
}

/* Without the memory of a test failing: what a context does on files counts, too. */
static void test_files(void **state)
{
    stk_convert_squashfs_options own;
    stk_convert_options common;
    stk_conversion *conversion = NULL;
    stk_status status = STK_EIO;
    stk_error err;
    folders f;

    (void)state;
    make_folders(&f);
    options_init(&common, &own, 0);
    for (int64_t n = 0; status != STK_OK; n++) {
        stk_context *ctx = test_context();
        assert_ok(stk_conversion_create(ctx, f.from, f.target, &conversion, &err), &err);
        file_faults.left = n;
        status = stk_conversion_run(conversion, &common, &own, NULL, &err);
        const bool struck = fault_struck(&file_faults);
        file_faults.left = FAULTS_NONE;
        assert_true(status == STK_OK || struck);
        /* The last step, which makes a name safe, may fail after it was given. */
        if (status == STK_OK)
            assert_int_equal(access(f.target, F_OK), 0);
        assert_true(files_in(f.to, true) <= 1);
        stk_conversion_destroy(&conversion);
        stk_context_destroy(&ctx);
        unlink(f.target);
    }
    remove_folders(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

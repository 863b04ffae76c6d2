/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of HDF5 and npz files are what h5py and NumPy read of the tables that they wrote
 * (scripts/check_rows.py), where python3 has them: ./dev test sees to that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/support.h"
#include <stoker/stoker.h>

#define SCRIPT TESTS_DIR "/../scripts/check_rows.py"

static void *read_all(const char *folder, const char *name, size_t size)
{
    char path[600], *data = malloc(size + 1);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_true(f && data);
    assert_int_equal(fread(data, 1, size + 1, f), size);
    fclose(f);
    return data;
}

/* All of a field in the order of the rows; its type has the bytes that are expected. */
static void check_field(stk_context *ctx, const char *spec, const char *field, uint64_t rows,
                        size_t row, const char *want, uint64_t seed)
{
    stk_loader_options o;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    uint64_t at = 0;
    stk_error err;
    stk_status status;

    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = 1 + seed % 9;
    o.num_workers = (int64_t)(seed % 3);
    o.memory_budget = 16 << 20;
    o.shuffle = STK_SHUFFLE_NONE;
    o.epochs = 1;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor t = {.struct_size = sizeof t};
        const uint64_t count = stk_batch_count(batch);
        if (stk_batch_find(batch, field, &t) != STK_OK)
            fail_msg("%s has no field %s", spec, field);
        assert_true(at + count <= rows);
        if (memcmp(t.data, want + at * row, count * row) != 0)
            fail_msg("%s: %s differs in a row from %llu on", spec, field, (unsigned long long)at);
        at += count;
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    assert_int_equal(at, rows);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

static void test_tables(void **state)
{
    char folder[256], command[1200], path[300], spec[400], field[64], file[64];
    unsigned long long rows, row;
    stk_context *ctx = test_context();
    uint64_t n = 0;

    (void)state;
    test_folder(folder);
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, folder);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) /* said by the script */
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%399s %63s %llu %llu %63s", spec, field, &rows, &row, file) == 5) {
        char *want = read_all(folder, file, (size_t)(rows * row));
        check_field(ctx, spec, field, rows, (size_t)row, want, n++);
        free(want);
    }
    fclose(f);
    assert_true(n > 200);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

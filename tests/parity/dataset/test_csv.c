/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of csv: are what Python's csv module, int() and float() read of the tables that it wrote
 * (scripts/check_csv.py), in an order of their own.
 */
#include "unit/dataset/table_rows.h"

#define SCRIPT TESTS_DIR "/../scripts/check_csv.py"

/* Values of all rows, one behind the other: where each begins in `data`. */
static size_t *read_values(const char *path, size_t count, char **data)
{
    size_t *at = calloc(count + 1, sizeof *at), size = 0;
    FILE *f = fopen(path, "rb");

    assert_true(f && at);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long bytes = ftell(f);
    assert_true(bytes > 0);
    rewind(f);
    *data = malloc((size_t)bytes);
    assert_non_null(*data);
    assert_int_equal(fread(*data, 1, (size_t)bytes, f), bytes);
    fclose(f);
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        at[i] = size;
        memcpy(&length, *data + size, sizeof length);
        size += sizeof length + length;
    }
    assert_int_equal(size, bytes);
    return at;
}

static void check_table(stk_context *ctx, const char *spec, uint64_t rows, const char *path)
{
    stk_dataset *d = NULL;
    char *data;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, rows);
    size_t *at = read_values(path, rows * d->num_fields, &data);
    for (uint64_t k = 0; k < rows; k++) {
        const uint64_t i = rows > 1 ? k * 7919 % rows : 0;
        row *r = row_take(d, i);
        if (r->sample.status != STK_OK)
            fail_msg("%s, row %d: %s", spec, (int)i, r->sample.reason);
        for (uint32_t f = 0; f < d->num_fields; f++) {
            const char *want = data + at[i * d->num_fields + f];
            uint32_t length;
            memcpy(&length, want, sizeof length);
            if (r->values[f].size != length ||
                memcmp(r->values[f].data, want + sizeof length, length) != 0)
                fail_msg("%s, row %d: the field %s differs", spec, (int)i, d->fields[f].name);
        }
        row_free(r);
        if (k == 200)
            break;
    }
    free(at);
    free(data);
    stk_dataset_close(&d);
}

static void test_tables(void **state)
{
    char folder[256], command[1200], path[400], spec[600], file[64];
    unsigned long long rows;
    stk_context *ctx = test_context();
    uint64_t n = 0;

    (void)state;
    test_folder(folder);
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, folder);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; fscanf(f, "%599s %llu %63s", spec, &rows, file) == 3; n++) {
        snprintf(path, sizeof path, "%s/%s", folder, file);
        check_table(ctx, spec, rows, path);
    }
    fclose(f);
    assert_int_equal(n, 60);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

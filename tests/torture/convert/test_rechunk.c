/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transposition of an array that is much larger than the memory, by the command, with limits of
 * the system on what it takes: 256 MiB within 32 MiB, or STOKER_TEST_GIB of them within 128 MiB.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/array.h>

#include "support/support.h"

#define COLUMNS 65536
#define BAND    64                 /* rows of a chunk of the source */
#define MARGIN  ((rlim_t)64 << 20) /* of the limit: code, stacks, libraries */

/* Numbers that a codec makes small. */
static float value(int64_t row, int64_t column)
{
    return (float)((row * 7 + column / 5) % 4093);
}

static void make(const char *url, int64_t rows)
{
    const int64_t shape[2] = {rows, COLUMNS}, chunk[2] = {2, COLUMNS}, band[2] = {BAND, COLUMNS};
    float *values = malloc(BAND * COLUMNS * sizeof *values);
    stk_context *ctx = test_context();
    stk_array_writer_options o;
    stk_array_writer *writer;
    stk_error err;

    assert_non_null(values);
    stk_array_writer_options_init(&o);
    o.dtype = STK_FLOAT32;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.shard_shape = band; /* fewer files, chunks of two rows all the same */
    o.level = 1;
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    for (int64_t at[2] = {0}; at[0] < rows; at[0] += BAND) {
        for (int64_t i = 0; i < BAND * COLUMNS; i++)
            values[i] = value(at[0] + i / COLUMNS, i % COLUMNS);
        assert_ok(stk_array_writer_write(writer, at, band, values, &err), &err);
    }
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    free(values);
    stk_context_destroy(&ctx);
}

static void check(const char *url, int64_t rows)
{
    const int64_t columns = 512;
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    stk_context *ctx = test_context();
    stk_array *array;
    stk_error err;

    assert_non_null(values);
    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    for (int64_t at = 0; at < COLUMNS; at += columns) {
        const stk_array_box box = {.start = (int64_t[]){0, at},
                                   .shape = (int64_t[]){rows, columns}};
        assert_ok(
            stk_array_read(array, &box, values, (uint64_t)(rows * columns) * 4, NULL, -1, &err),
            &err);
        for (int64_t i = 0; i < rows * columns; i++)
            assert_true(values[i] == value(i / columns, at + i % columns));
    }
    free(values);
    stk_array_close(&array);
    stk_context_destroy(&ctx);
}

static void test_transposed(void **state)
{
    const char *binary = test_binary(), *gib = getenv("STOKER_TEST_GIB");
    const int64_t rows = (gib ? strtoll(gib, NULL, 10) << 30 : INT64_C(256) << 20) / COLUMNS / 4;
    const rlim_t budget = (rlim_t)(gib ? 128 : 32) << 20;
    char folder[256], from[300], to[300], chunks[40], memory[40];
    struct rusage usage;
    int status;

    if (!binary)
        skip();
    test_folder(folder);
    snprintf(from, sizeof from, "%s/from.zarr", folder);
    snprintf(to, sizeof to, "%s/to.zarr", folder);
    snprintf(chunks, sizeof chunks, "%lldx64", (long long)rows);
    snprintf(memory, sizeof memory, "%lld", (long long)budget);
    make(from, rows);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {budget + MARGIN, budget + MARGIN};
        if (!TEST_SANITIZED && setrlimit(RLIMIT_DATA, &limit) != 0)
            _exit(2);
        execl(binary, binary, "convert", from, to, "--chunks", chunks, "--memory-budget", memory,
              "--level", "1", "--num-workers", "2", "-q", NULL);
        _exit(3);
    }
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message("%lld rows by %d within %lld MiB: at most %ld MiB resident\n", (long long)rows,
                  COLUMNS, (long long)(budget >> 20), usage.ru_maxrss >> 10);
    if (!TEST_SANITIZED)
        assert_true(usage.ru_maxrss <= (long)((budget + MARGIN) >> 10));
    check(to, rows);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transposed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

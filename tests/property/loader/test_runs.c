/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that stand one behind the other are taken as runs: what comes out is what comes out of each
 * by itself. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "property/loader/many.h"

static char folder[256];

/* As one and as rows by themselves: the same. */
static void check(const char *spec, const stk_loader_options *o, uint64_t least_runs)
{
    stk_context *ctx = test_context();
    output all[2] = {0};

    runs = 0;
    run_some(ctx, spec, ALONE, o, NULL, UINT64_MAX, NULL, &all[0]);
    assert_int_equal(runs, 0);
    run_some(ctx, spec, MANY, o, NULL, UINT64_MAX, NULL, &all[1]);
    assert_true(runs >= least_runs);
    same_output(&all[0], &all[1], true);
    assert_true(all[0].bad > 0 && (all[0].good > 1000 || o->on_error == STK_ON_ERROR_FAIL));
    drop_output(&all[0]);
    drop_output(&all[1]);
    stk_context_destroy(&ctx);
}

static void check_all(const char *spec, uint64_t least_runs)
{
    for (int32_t on_error = 0; on_error < 3; on_error++)
        for (unsigned i = 0; i < 3; i++) {
            stk_loader_options o;
            stk_loader_options_init(&o);
            o.batch_size = (const uint64_t[]){16384, 5000, 50000}[i];
            o.num_workers = i;
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = on_error;
            o.max_errors = on_error == STK_ON_ERROR_FAIL ? NULL : "100%";
            o.epochs = 1;
            check(spec, &o, least_runs);
        }
}

/* Tables of short lines, in batches of many, so that runs end by what they hold at most, by pieces
 * and by batches. Of some a value is bad; all of the last file are. */
static void test_long(void **state)
{
    enum { SHORT = 40000 };
    char *text = malloc(SHORT * 12), spec[512];
    uint64_t seed = 21;

    (void)state;
    assert_non_null(text);
    for (int f = 0; f < 3; f++) {
        char name[32], *at = text + sprintf(text, "a,b\n");
        snprintf(name, sizeof name, "long/%d.csv", f);
        for (long i = 0; i < (f == 2 ? 600 : SHORT); i++)
            at +=
                sprintf(at, f == 2 || (f && test_random(&seed) % 3000 == 0) ? "x,%ld\n" : "%ld,1\n",
                        i % 1000);
        test_write(folder, name, text, (size_t)(at - text));
    }
    free(text);
    snprintf(spec, sizeof spec, "csv:%s/long?types=a:int32", folder);
    check_all(spec, 20);
}

/* Names are looked up cell by cell, some at a time; of some there is none. */
static void test_names(void **state)
{
    static const char *const names[] = {"red", "green", "blue"};
    char *text = malloc(1 << 18), *at = text, spec[512];
    uint64_t seed = 22;

    (void)state;
    assert_non_null(text);
    at += sprintf(at, "name,b\n");
    for (long i = 0; i < 15000; i++)
        at += sprintf(at, "%s,%ld\n",
                      test_random(&seed) % 900 ? names[test_random(&seed) % 3] : "white", i);
    test_write(folder, "names/0.csv", text, (size_t)(at - text));
    free(text);
    snprintf(spec, sizeof spec, "csv:%s/names?categories=name:red|green|blue", folder);
    check_all(spec, 3);
}

static long broken_at; /* in the file */

/* A line loses its comma, and the file says that it is the one that it was. */
static void break_line(void)
{
    char path[300];
    struct stat was;

    snprintf(path, sizeof path, "%s/broken/0.csv", folder);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &was), 0);
    assert_int_equal(pwrite(fd, "7", 1, broken_at), 1);
    const struct timespec times[] = {was.st_atim, was.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* What cannot be decoded fails its rows, each by itself. */
static void test_broken(void **state)
{
    char *text = malloc(1 << 20), *at = text, spec[512];
    output kept[2];

    (void)state;
    assert_non_null(text);
    at += sprintf(at, "a,b\n");
    for (long i = 0; i < 30000; i++) {
        at += sprintf(at, "%ld", 10000000 + i);
        if (i == 12345)
            broken_at = at - text;
        at += sprintf(at, ",%ld\n", i);
    }
    test_write(folder, "broken/0.csv", text, (size_t)(at - text));
    snprintf(spec, sizeof spec, "csv:%s/broken", folder);
    after_open = break_line;
    for (int32_t on_error = 0; on_error < 2; on_error++) {
        stk_loader_options o;
        stk_loader_options_init(&o);
        o.batch_size = 9000;
        o.num_workers = on_error;
        o.shuffle = STK_SHUFFLE_NONE;
        o.on_error = on_error;
        o.max_errors = on_error == STK_ON_ERROR_FAIL ? NULL : "100%";
        o.epochs = 1;
        for (int way = 0; way < 2; way++) { /* it is whole when it is opened */
            stk_context *ctx = test_context();
            output out = {0};
            test_write(folder, "broken/0.csv", text, (size_t)(at - text));
            run_some(ctx, spec, way ? MANY : ALONE, &o, NULL, UINT64_MAX, NULL, &out);
            kept[way] = out;
            stk_context_destroy(&ctx);
        }
        same_output(&kept[0], &kept[1], true);
        assert_true(kept[0].bad > 0);
        drop_output(&kept[0]);
        drop_output(&kept[1]);
    }
    after_open = NULL;
    free(text);
}

static int begin(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_broken)};

    return cmocka_run_group_tests(tests, begin, end);
}

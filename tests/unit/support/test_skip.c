/* SPDX-License-Identifier: Apache-2.0 */
/* A program that skips anything does not pass: it says so by its exit code. */
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static void passes(void **state)
{
    (void)state;
}

static void skips(void **state)
{
    (void)state;
    skip();
}

static void fails(void **state)
{
    (void)state;
    fail();
}

static void asks_in_vain(void **state)
{
    char path[256];

    (void)state;
    assert_null(test_data("no-such-data", path));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(passes),
    cmocka_unit_test(skips),
    cmocka_unit_test(asks_in_vain),
    cmocka_unit_test(fails),
};

static void check_exit(size_t first, size_t n, int expected)
{
    int status;

    pid_t child = fork();
    if (child == 0)
        _exit(test_run("inner", cases + first, n, NULL, NULL));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
        fail_msg("tests %zu to %zu: %d instead of %d", first, first + n - 1, WEXITSTATUS(status),
                 expected);
}

/* cmocka leaves a test by a jump to the innermost group: the inner groups run first. */
int main(void)
{
    static const struct {
        size_t first, n;
        int expected;
    } runs[] = {{0, 1, 0}, {0, 2, 77}, {0, 3, 77}, {2, 1, 77}, {3, 1, 1}, {0, 4, 1}};

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        check_exit(runs[i].first, runs[i].n, runs[i].expected);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: the limits of the process that a lack of memory or threads can come from. */
#include <sys/resource.h>

#include "base/base.h"
#include "support/support.h"

static void fail_under(__rlimit_resource_t resource, stk_status status, stk_error *err)
{
    struct rlimit before, small;

    assert_int_equal(getrlimit(resource, &before), 0);
    small = (struct rlimit){(rlim_t)1 << 50, before.rlim_max};
    assert_int_equal(setrlimit(resource, &small), 0);
    assert_int_equal(stk__fail(err, status, STK_STAGE_STORE, "no memory for %d bytes", 3), status);
    assert_int_equal(setrlimit(resource, &before), 0);
}

static void test_limits_are_named(void **state)
{
    stk_error err;

    (void)state;
    fail_under(RLIMIT_AS, STK_ENOMEM, &err);
    assert_string_equal(err.text, "no memory for 3 bytes; the address space of the process is "
                                  "limited to 1073741824.0 MiB: raise that with 'ulimit -v'");
    fail_under(RLIMIT_AS, STK_ETHREAD, &err);
    assert_non_null(strstr(err.text, "'ulimit -v'"));
    fail_under(RLIMIT_DATA, STK_ENOMEM, &err);
    assert_non_null(strstr(err.text, "the data of the process is limited"));
    assert_non_null(strstr(err.text, "'ulimit -d'"));
}

static void test_others_are_left_alone(void **state)
{
    stk_error err;

    (void)state;
    fail_under(RLIMIT_AS, STK_ENOENT, &err);
    assert_string_equal(err.text, "no memory for 3 bytes");
    assert_int_equal(stk__fail(NULL, STK_ENOMEM, STK_STAGE_STORE, "nobody listens"), STK_ENOMEM);
}

/* A message of another's text, with a file's place in front, names it once. */
static void test_named_once(void **state)
{
    struct rlimit before, small;
    stk_error err, second;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small = (struct rlimit){(rlim_t)1 << 50, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    (void)!stk__fail(&err, STK_ENOMEM, STK_STAGE_STORE, "no memory");
    (void)!stk__fail(&second, STK_ENOMEM, STK_STAGE_STORE, "x.yaml: %s", err.text);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    const char *first = strstr(second.text, "ulimit -v");
    assert_non_null(first);
    assert_null(strstr(first + 1, "ulimit -v"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_are_named),
        cmocka_unit_test(test_others_are_left_alone),
        cmocka_unit_test(test_named_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes of the system, which this program may have fail. */
#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"
#include "support/support.h"

#define MOST 256

static int failures, failure; /* of the next calls; errno of them */
static size_t less;           /* bytes that are missing of an answer */

/* Stands before the C library's own. */
ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    if (failures > 0) {
        failures--;
        errno = failure;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, size - less, flags);
}

/* All bytes are drawn, each time anew, and none beyond. */
static void test_bytes(void **state)
{
    uint8_t bytes[MOST + 1], first[MOST];
    bool changed[MOST] = {false};

    (void)state;
    bytes[MOST] = 7;
    assert_true(stk__system_random(first, MOST));
    for (int k = 0; k < 64; k++) { /* a byte that stays so is one of 2^512 */
        assert_true(stk__system_random(bytes, MOST));
        for (int i = 0; i < MOST; i++)
            changed[i] |= bytes[i] != first[i];
    }
    for (int i = 0; i < MOST; i++)
        assert_true(changed[i]);
    assert_int_equal(bytes[MOST], 7);
}

static void test_faults(void **state)
{
    uint8_t bytes[16];

    (void)state;
    failures = 3;
    failure = EINTR;
    assert_true(stk__system_random(bytes, sizeof bytes));
    assert_int_equal(failures, 0);
    failures = 1;
    failure = ENOSYS;
    errno = 0;
    assert_false(stk__system_random(bytes, sizeof bytes));
    assert_int_equal(errno, ENOSYS);
    less = 1;
    assert_false(stk__system_random(bytes, sizeof bytes));
    less = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"
#include "support/support.h"

/* RFC 3720, appendix B.4. */
static void test_crc(void **state)
{
    static const uint8_t read_command[48] = {
        0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
        0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    uint8_t bytes[32];

    memset(bytes, 0, sizeof bytes);
    assert_int_equal(stk__crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(stk__crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(stk__crc32c(0, bytes, sizeof bytes), 0x46dd794e);
    /* In two parts. */
    assert_int_equal(stk__crc32c(stk__crc32c(0, bytes, 5), bytes + 5, 27), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(stk__crc32c(0, bytes, sizeof bytes), 0x113fdb5c);
    assert_int_equal(stk__crc32c(0, read_command, sizeof read_command), 0xd9963a56);
    assert_int_equal(stk__crc32c(0, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crc)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

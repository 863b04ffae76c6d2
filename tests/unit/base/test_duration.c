/* SPDX-License-Identifier: Apache-2.0 */
/* Times of Lightning's options: what datetime.timedelta() makes of the same. */
#include "base/options.h"
#include "support/support.h"

static void test_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {
        {"00:00:00:00", 0},
        {"01:02:03:04", UINT64_C(93784000000000)},
        {"00:01:00:00", UINT64_C(3600000000000)},
        {"hours:1", UINT64_C(3600000000000)},
        {"{'hours': 1}", UINT64_C(3600000000000)},
        {"{\"days\": 1, \"hours\": 2.5}", UINT64_C(95400000000000)},
        {" { hours: 1, minutes: 30 } ", UINT64_C(5400000000000)},
        {"weeks: 1, seconds: 1", UINT64_C(604801000000000)},
        {"milliseconds: 1.5, microseconds: 2", 1502000},
    };
    uint64_t ns;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_ok(stk__duration_parse("t", cases[i].text, &ns, &err), &err);
        if (ns != cases[i].ns)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)ns);
    }
}

static void test_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "1",
        "00:00:00",
        "00:00:00:00:00",
        "00:00:00:0x",
        "hour: 1",
        "hours",
        "hours: ",
        "hours: -1",
        "hours: x",
        "{hours: 1",
        "hours: 1,",
        "hours: 1 2",
        "{hours: 1}}x",
        "{}",
        "weeks: 1e300",
        "hours: nan",
        "hours: 1; days: 1",
    };
    uint64_t ns;
    stk_error err;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        if (stk__duration_parse("t", texts[i], &ns, &err) != STK_EINVAL ||
            !strstr(err.text, "is no time; it takes DD:HH:MM:SS"))
            fail_msg("'%s' was taken", texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("base/duration", tests, NULL, NULL);
}

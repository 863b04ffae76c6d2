/* SPDX-License-Identifier: Apache-2.0 */
/* Dates of calendars: texts that are read, periods, days that there are not, the way there and
 * back. What numbers with units mean is held against cftime (golden/array/times). */
#include <string.h>

#include "base/calendar.h"
#include "support/support.h"

static const char *const names[] = {
    "standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"};

static stk__calendar calendar_of(const char *name)
{
    stk__calendar calendar;

    assert_true(stk__calendar_find(name, &calendar));
    return calendar;
}

static void test_names(void **state)
{
    stk__calendar calendar;

    (void)state;
    assert_int_equal(calendar_of("Gregorian"), STK__CALENDAR_STANDARD);
    assert_int_equal(calendar_of("365_day"), STK__CALENDAR_365);
    assert_int_equal(calendar_of("366_DAY"), STK__CALENDAR_366);
    assert_false(stk__calendar_find("none", &calendar));
    assert_false(stk__calendar_find("tai", &calendar));
    assert_false(stk__calendar_find("", &calendar));
}

/* What is read of a text, and where it ends. */
static void test_read(void **state)
{
    static const struct {
        const char *text;
        size_t length;
        stk__date date;
    } cases[] = {
        {"2015", 4, {2015, 1, 1, 0, 0, 0, 0, STK__DATE_YEAR}},
        {"2015:2016", 4, {2015, 1, 1, 0, 0, 0, 0, STK__DATE_YEAR}},
        {"-0044-03-15", 11, {-44, 3, 15, 0, 0, 0, 0, STK__DATE_DAY}},
        {"012015-03", 9, {12015, 3, 1, 0, 0, 0, 0, STK__DATE_MONTH}},
        {"2015-03-01T06:2016", 13, {2015, 3, 1, 6, 0, 0, 0, STK__DATE_HOUR}},
        {"2015-03-01T06:30:2016", 16, {2015, 3, 1, 6, 30, 0, 0, STK__DATE_MINUTE}},
        {"2015-03-01 06:30:15:2016-01", 19, {2015, 3, 1, 6, 30, 15, 0, STK__DATE_SECOND}},
        {"2015-03-01t06:30:15.25,", 22, {2015, 3, 1, 6, 30, 15, 250000, STK__DATE_MICROSECOND}},
        {"2015-03-01T06:30:15.0000010", 27, {2015, 3, 1, 6, 30, 15, 1, STK__DATE_MICROSECOND}},
        /* Less than a microsecond is not read. */
        {"2015-03-01T06:30:15.0000001", 19, {2015, 3, 1, 6, 30, 15, 0, STK__DATE_SECOND}},
        {"2015-03-01 , y", 10, {2015, 3, 1, 0, 0, 0, 0, STK__DATE_DAY}},
        {"2015-3-1", 4, {2015, 1, 1, 0, 0, 0, 0, STK__DATE_YEAR}},
        {"2015-033", 4, {2015, 1, 1, 0, 0, 0, 0, STK__DATE_YEAR}},
        {"215", 0, {0}},
        {"2015333", 0, {0}},
        {"", 0, {0}},
        {":2015", 0, {0}},
        {"today", 0, {0}},
    };
    stk__date date;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk__date *want = &cases[i].date;
        if (stk__date_read(cases[i].text, &date) != cases[i].length)
            fail_msg("'%s' is not read up to %zu", cases[i].text, cases[i].length);
        if (cases[i].length == 0)
            continue;
        assert_int_equal(date.year, want->year);
        assert_int_equal(date.month, want->month);
        assert_int_equal(date.day, want->day);
        assert_int_equal(date.hour, want->hour);
        assert_int_equal(date.minute, want->minute);
        assert_int_equal(date.second, want->second);
        assert_int_equal(date.microsecond, want->microsecond);
        assert_int_equal(date.given, want->given);
    }
}

static void test_reference(void **state)
{
    static const struct {
        const char *text;
        int64_t minutes; /* of the offset */
        bool good;
    } cases[] = {
        {" 1900-01-01 00:00:0.0", 0, true},
        {"1-1-1", 0, true},
        {"1992-10-8 15:15:42.5 -6:00", -360, true}, /* of the CF conventions */
        {"2000-01-01T00:00:00Z", 0, true},
        {"2000-01-01 00:00:00 UTC ", 0, true},
        {"2000-01-01 12:00 +0530", 330, true},
        {"2000-01-01 12:00 +1", 60, true},
        {"2000-01-01 0:0:0 gmt", 0, true},
        {"2000-01", 0, false},
        {"2000-01-01 noon", 0, false},
        {"2000-01-01 12:00 +0:5", 0, false},
        {"2000-01-01 12:00 +", 0, false},
        {"", 0, false},
        {"2000-01-01 12:00:00.1234567", 0, false},
    };
    stk__date date;
    int64_t offset;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        if (stk__date_read_reference(cases[i].text, &date, &offset) != cases[i].good)
            fail_msg("'%s'", cases[i].text);
        if (cases[i].good)
            assert_int_equal(offset, cases[i].minutes * 60000000);
    }
}

/* First and last instant of the period that a text names. */
static void assert_period(const char *calendar, const char *text, const char *first,
                          const char *last)
{
    char shown[STK__DATE_TEXT];
    int64_t begin, end;
    stk__date date;

    assert_int_equal(stk__date_read(text, &date), strlen(text));
    assert_true(stk__calendar_period(calendar_of(calendar), &date, &begin, &end));
    assert_string_equal(stk__calendar_text(calendar_of(calendar), begin, shown), first);
    assert_string_equal(stk__calendar_text(calendar_of(calendar), end - 1, shown), last);
}

static void test_periods(void **state)
{
    (void)state;
    assert_period("standard", "2015", "2015-01-01T00:00:00", "2015-12-31T23:59:59.999999");
    assert_period("standard", "2016-02", "2016-02-01T00:00:00", "2016-02-29T23:59:59.999999");
    assert_period("standard", "1900-02", "1900-02-01T00:00:00", "1900-02-28T23:59:59.999999");
    assert_period("standard", "1500-02", "1500-02-01T00:00:00", "1500-02-29T23:59:59.999999");
    assert_period("standard", "1500-02-29", "1500-02-29T00:00:00", "1500-02-29T23:59:59.999999");
    assert_period("standard", "1582-10-04", "1582-10-04T00:00:00", "1582-10-04T23:59:59.999999");
    assert_period("standard", "1582-10", "1582-10-01T00:00:00", "1582-10-31T23:59:59.999999");
    assert_period("julian", "1900-02", "1900-02-01T00:00:00", "1900-02-29T23:59:59.999999");
    assert_period("noleap", "2016-02", "2016-02-01T00:00:00", "2016-02-28T23:59:59.999999");
    assert_period("all_leap", "2015-02", "2015-02-01T00:00:00", "2015-02-29T23:59:59.999999");
    assert_period("360_day", "2015-02", "2015-02-01T00:00:00", "2015-02-30T23:59:59.999999");
    assert_period("360_day", "2015-12", "2015-12-01T00:00:00", "2015-12-30T23:59:59.999999");
    assert_period("standard", "2015-03-01T06", "2015-03-01T06:00:00", "2015-03-01T06:59:59.999999");
    assert_period("standard", "2015-03-01T06:30", "2015-03-01T06:30:00",
                  "2015-03-01T06:30:59.999999");
    assert_period("standard", "2015-03-01T06:30:15.5", "2015-03-01T06:30:15.500000",
                  "2015-03-01T06:30:15.500000");
}

static void test_no_such_day(void **state)
{
    static const char *const cases[][2] = {
        {"standard", "2015-02-29"},
        {"standard", "1582-10-05"},
        {"standard", "1582-10-14"},
        {"standard", "1900-02-29"},
        {"julian", "1901-02-29"},
        {"noleap", "2016-02-29"},
        {"360_day", "2015-01-31"},
        {"all_leap", "2015-02-30"},
        {"standard", "2015-00"},
        {"standard", "2015-13"},
        {"standard", "2015-01-00"},
        {"standard", "2015-01-01T24"},
        {"standard", "250001"},
        {"standard", "2015-01-01T23:60"},
        {"proleptic_gregorian", "1500-02-29"},
    };
    int64_t begin, end;
    stk__date date;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        assert_true(stk__date_read(cases[i][1], &date) > 0);
        if (stk__calendar_period(calendar_of(cases[i][0]), &date, &begin, &end))
            fail_msg("%s has %s", cases[i][0], cases[i][1]);
    }
}

/* Every calendar: each day has a date, the next day the next date, and the date is that day's. */
static void test_days(void **state)
{
    const int64_t day = INT64_C(86400000000);
    uint64_t random = 7;

    (void)state;
    for (size_t i = 0; i < STK_COUNT(names); i++)
        for (int n = 0; n < 40000; n++) {
            const stk__calendar c = calendar_of(names[i]);
            char text[STK__DATE_TEXT];
            stk__date date, next;
            int64_t back;
            /* Days of 20,000 years, and all of those around 1582. */
            int64_t days =
                n < 2000 ? n - 142000 : (int64_t)(test_random(&random) % 7300000) - 3650000;
            int64_t instant = days * day + (int64_t)(test_random(&random) % (uint64_t)day);
            assert_true(stk__date_read(stk__calendar_text(c, instant, text), &date) ==
                        strlen(text));
            assert_true(stk__calendar_instant(c, &date, &back));
            assert_true(back == instant);
            (void)stk__date_read(stk__calendar_text(c, instant + day, text), &next);
            const bool same_month = next.year == date.year && next.month == date.month;
            const bool reform = date.year == 1582 && date.month == 10 && date.day == 4 &&
                                c == STK__CALENDAR_STANDARD;
            if (same_month)
                assert_int_equal(next.day, reform ? 15 : date.day + 1);
            else
                assert_true(next.day == 1 && date.day >= 28);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_read),
        cmocka_unit_test(test_reference), cmocka_unit_test(test_periods),
        cmocka_unit_test(test_days),      cmocka_unit_test(test_no_such_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

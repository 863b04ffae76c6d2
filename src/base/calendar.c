/* SPDX-License-Identifier: Apache-2.0 */
/* Days and dates of the calendars of CF. */
#include <stdio.h>
#include <strings.h>

#include "base/calendar.h"

#define DAY_US    INT64_C(86400000000)
#define HOUR_US   INT64_C(3600000000)
#define MINUTE_US INT64_C(60000000)
#define SECOND_US INT64_C(1000000)

#define EPOCH_YEAR 1970
/* Days from 0000-03-01 to 1970-01-01: of the Gregorian calendar, of the Julian one, and from that
 * day of the Julian to this of the Gregorian. */
#define GREGORIAN_DAYS INT64_C(719468)
#define JULIAN_DAYS    INT64_C(719483)
#define MIXED_DAYS     INT64_C(719470)
/* Of 1582-10-15, on which the Gregorian calendar began, the day after 1582-10-04 of the Julian. */
#define REFORM_DAY INT64_C(-141427)

static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

bool stk__calendar_find(const char *name, stk__calendar *out)
{
    static const struct {
        const char *name;
        stk__calendar calendar;
    } names[] = {{"standard", STK__CALENDAR_STANDARD},
                 {"gregorian", STK__CALENDAR_STANDARD},
                 {"proleptic_gregorian", STK__CALENDAR_GREGORIAN},
                 {"julian", STK__CALENDAR_JULIAN},
                 {"noleap", STK__CALENDAR_365},
                 {"365_day", STK__CALENDAR_365},
                 {"all_leap", STK__CALENDAR_366},
                 {"366_day", STK__CALENDAR_366},
                 {"360_day", STK__CALENDAR_360}};

    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (strcasecmp(names[i].name, name) == 0) {
            *out = names[i].calendar;
            return true;
        }
    return false;
}

/* ---- Years and days -------------------------------------------------------------------------- */

/* Whole numbers of `unit` in `value`, towards minus infinity, and what is left, from 0 on. */
static int64_t divide(int64_t value, int64_t unit, int64_t *left)
{
    int64_t whole = value / unit, rest = value % unit;

    if (rest < 0) {
        rest += unit;
        whole--;
    }
    *left = rest;
    return whole;
}

static bool is_leap(stk__calendar c, int64_t year)
{
    if (c == STK__CALENDAR_365 || c == STK__CALENDAR_366)
        return c == STK__CALENDAR_366;
    if (c == STK__CALENDAR_JULIAN || (c == STK__CALENDAR_STANDARD && year <= 1582))
        return year % 4 == 0;
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_of_month(stk__calendar c, int64_t year, int month)
{
    if (c == STK__CALENDAR_360)
        return 30;
    return month_days[month - 1] + (month == 2 && is_leap(c, year));
}

/* Days from 0000-03-01 on: years begin in March, so that the leap day is their last. Months from
 * there on have 153 days in five [Richards 2013, Explanatory Supplement to the Astronomical
 * Almanac, 15.11]. `centuries`: those not divisible by 400 have no leap day. */
static int64_t days_from_march(int64_t year, int month, int day, bool centuries)
{
    int64_t left;

    year -= month <= 2;
    const int64_t fourths = divide(year, 4, &left), hundredths = divide(year, 100, &left),
                  ages = divide(year, 400, &left);
    const int shifted = (month + 9) % 12;
    return year * 365 + fourths - (centuries ? hundredths - ages : 0) + (153 * shifted + 2) / 5 +
           day - 1;
}

static void date_from_march(int64_t days, bool centuries, stk__date *out)
{
    int64_t of_age, year;
    const int64_t age = divide(days, centuries ? 146097 : 1461, &of_age);

    if (centuries)
        year = (of_age - of_age / 1460 + of_age / 36524 - of_age / 146096) / 365;
    else
        year = (of_age - of_age / 1460) / 365;
    const int64_t of_year = of_age - (365 * year + year / 4 - (centuries ? year / 100 : 0));
    const int64_t shifted = (5 * of_year + 2) / 153;
    out->day = (int)(of_year - (153 * shifted + 2) / 5) + 1;
    out->month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    out->year = age * (centuries ? 400 : 4) + year + (out->month <= 2);
}

/* Days of a calendar whose years are all alike. */
static int64_t days_of_alike(stk__calendar c, int64_t year, int month, int day)
{
    int64_t days = c == STK__CALENDAR_360 ? 360 : c == STK__CALENDAR_366 ? 366 : 365;

    days *= year - EPOCH_YEAR;
    for (int m = 1; m < month; m++)
        days += days_of_month(c, year, m);
    return days + day - 1;
}

static void date_of_alike(stk__calendar c, int64_t days, stk__date *out)
{
    int64_t left;

    out->year = EPOCH_YEAR + divide(days,
                                    c == STK__CALENDAR_360   ? 360
                                    : c == STK__CALENDAR_366 ? 366
                                                             : 365,
                                    &left);
    out->month = 1;
    while (left >= days_of_month(c, out->year, out->month))
        left -= days_of_month(c, out->year, out->month++);
    out->day = (int)left + 1;
}

/* Days from 1970-01-01 on; false: there is no such day. */
static bool days_of(stk__calendar c, int64_t year, int month, int day, int64_t *out)
{
    if (year < -STK__DATE_MAX_YEAR || year > STK__DATE_MAX_YEAR || month < 1 || month > 12 ||
        day < 1 || day > days_of_month(c, year, month))
        return false;
    switch (c) {
    case STK__CALENDAR_GREGORIAN:
        *out = days_from_march(year, month, day, true) - GREGORIAN_DAYS;
        return true;
    case STK__CALENDAR_JULIAN:
        *out = days_from_march(year, month, day, false) - JULIAN_DAYS;
        return true;
    case STK__CALENDAR_STANDARD:
        *out = days_from_march(year, month, day, true) - GREGORIAN_DAYS;
        if (*out >= REFORM_DAY)
            return true;
        *out = days_from_march(year, month, day, false) - MIXED_DAYS;
        return *out < REFORM_DAY;
    default:
        *out = days_of_alike(c, year, month, day);
        return true;
    }
}

static void date_of_days(stk__calendar c, int64_t days, stk__date *out)
{
    switch (c) {
    case STK__CALENDAR_GREGORIAN:
        date_from_march(days + GREGORIAN_DAYS, true, out);
        break;
    case STK__CALENDAR_JULIAN:
        date_from_march(days + JULIAN_DAYS, false, out);
        break;
    case STK__CALENDAR_STANDARD:
        if (days >= REFORM_DAY)
            date_from_march(days + GREGORIAN_DAYS, true, out);
        else
            date_from_march(days + MIXED_DAYS, false, out);
        break;
    default:
        date_of_alike(c, days, out);
    }
}

/* ---- Instants -------------------------------------------------------------------------------- */

bool stk__calendar_instant(stk__calendar calendar, const stk__date *d, int64_t *out)
{
    int64_t days;

    if (d->hour < 0 || d->hour > 23 || d->minute < 0 || d->minute > 59 || d->second < 0 ||
        d->second > 59 || !days_of(calendar, d->year, d->month, d->day, &days))
        return false;
    *out = days * DAY_US + d->hour * HOUR_US + d->minute * MINUTE_US + d->second * SECOND_US +
           d->microsecond;
    return true;
}

bool stk__calendar_period(stk__calendar calendar, const stk__date *date, int64_t *begin,
                          int64_t *end)
{
    static const int64_t lengths[] = {[STK__DATE_DAY] = DAY_US,
                                      [STK__DATE_HOUR] = HOUR_US,
                                      [STK__DATE_MINUTE] = MINUTE_US,
                                      [STK__DATE_SECOND] = SECOND_US,
                                      [STK__DATE_MICROSECOND] = 1};
    stk__date next = *date;

    if (!stk__calendar_instant(calendar, date, begin))
        return false;
    if (date->given >= STK__DATE_DAY) {
        *end = *begin + lengths[date->given];
        return true;
    }
    next.year += date->given == STK__DATE_YEAR || date->month == 12;
    next.month = date->given == STK__DATE_YEAR || date->month == 12 ? 1 : date->month + 1;
    return stk__calendar_instant(calendar, &next, end);
}

/* The date of an instant, complete. */
static void date_of(stk__calendar calendar, int64_t instant, stk__date *out)
{
    int64_t left;

    date_of_days(calendar, divide(instant, DAY_US, &left), out);
    out->hour = (int)(left / HOUR_US);
    out->minute = (int)(left % HOUR_US / MINUTE_US);
    out->second = (int)(left % MINUTE_US / SECOND_US);
    out->microsecond = (int)(left % SECOND_US);
    out->given = STK__DATE_MICROSECOND;
}

const char *stk__calendar_text(stk__calendar calendar, int64_t instant, char text[STK__DATE_TEXT])
{
    stk__date d;

    date_of(calendar, instant, &d);
    int at = snprintf(text, STK__DATE_TEXT, "%s%04lld-%02d-%02dT%02d:%02d:%02d",
                      d.year < 0 ? "-" : "", (long long)(d.year < 0 ? -d.year : d.year), d.month,
                      d.day, d.hour, d.minute, d.second);
    if (d.microsecond)
        snprintf(text + at, STK__DATE_TEXT - (size_t)at, ".%06d", d.microsecond);
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of dates: ISO 8601, and what stands behind "since" in units of CF. */
#include <strings.h>

#include "base/calendar.h"
#include "base/digits.h"

#define MINUTE_US   INT64_C(60000000)
#define YEAR_DIGITS 6
#define FRACTION    6 /* digits: microseconds */

/* A number of `least` to `most` digits, and not of more, at *text, which moves behind it. */
static bool take_digits(const char **text, int least, int most, int64_t *out)
{
    int n = 0;

    *out = 0;
    for (; n < most && stk__is_digit((*text)[n]); n++)
        *out = *out * 10 + ((*text)[n] - '0');
    if (n < least || stk__is_digit((*text)[n]))
        return false;
    *text += n;
    return true;
}

/* Digits behind a mark; false, and *text where it was: there is no such part. */
static bool take_part(const char **text, char mark, int least, int *out)
{
    const char *at = *text;
    int64_t value;

    if (*at++ != mark || !take_digits(&at, least, 2, &value))
        return false;
    *text = at;
    *out = (int)value;
    return true;
}

/* The fraction of a second, as far as microseconds go; digits behind those are to be zeros. */
static bool take_fraction(const char **text, int *out)
{
    const char *at = *text + 1;
    int n = 0, value = 0;

    for (; stk__is_digit(*at); at++, n++)
        if (n < FRACTION)
            value = value * 10 + (*at - '0');
        else if (*at != '0')
            return false;
    for (int i = n; i < FRACTION; i++)
        value *= 10;
    *text = at;
    *out = value;
    return n > 0;
}

/* What may stand behind the day. `least`: digits of a part. */
static bool take_time(const char **text, int least, stk__date *out)
{
    const char *at = *text;
    int64_t hour;

    if (*at != 'T' && *at != 't' && *at != ' ')
        return false;
    at++;
    while (least == 1 && *at == ' ')
        at++;
    if (!take_digits(&at, least, 2, &hour))
        return false;
    *text = at;
    out->hour = (int)hour;
    out->given = STK__DATE_HOUR;
    if (!take_part(text, ':', least, &out->minute))
        return true;
    out->given = STK__DATE_MINUTE;
    if (!take_part(text, ':', least, &out->second))
        return true;
    out->given = STK__DATE_SECOND;
    if (**text == '.' && take_fraction(text, &out->microsecond))
        out->given = STK__DATE_MICROSECOND;
    return true;
}

static bool take_date(const char **text, int year_digits, int least, stk__date *out)
{
    const char *at = *text;
    const bool negative = *at == '-';

    *out = (stk__date){.month = 1, .day = 1, .given = STK__DATE_YEAR};
    at += negative;
    if (!take_digits(&at, year_digits, YEAR_DIGITS, &out->year))
        return false;
    if (negative)
        out->year = -out->year;
    if (take_part(&at, '-', least, &out->month)) {
        out->given = STK__DATE_MONTH;
        if (take_part(&at, '-', least, &out->day)) {
            out->given = STK__DATE_DAY;
            (void)take_time(&at, least, out);
        }
    }
    *text = at;
    return true;
}

size_t stk__date_read(const char *text, stk__date *out)
{
    const char *at = text;

    return take_date(&at, 4, 2, out) ? (size_t)(at - text) : 0;
}

/* "Z", "UTC", "GMT", "+1", "-05:30", "+0530"; the offset in microseconds. */
static bool take_zone(const char **text, int64_t *offset)
{
    static const char *const names[] = {"UTC", "GMT", "Z"};
    const char *at = *text;
    int64_t hours, minutes = 0, both;

    *offset = 0;
    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (strncasecmp(at, names[i], strlen(names[i])) == 0) {
            *text += strlen(names[i]);
            return true;
        }
    if (*at != '+' && *at != '-')
        return true; /* none is UTC */
    const bool west = *at++ == '-';
    if (take_digits(&at, 4, 4, &both)) {
        hours = both / 100;
        minutes = both % 100;
    } else if (take_digits(&at, 1, 2, &hours)) {
        if (*at == ':') {
            at++;
            if (!take_digits(&at, 2, 2, &minutes))
                return false;
        }
    } else {
        return false;
    }
    *text = at;
    *offset = (hours * 60 + minutes) * MINUTE_US * (west ? -1 : 1);
    return true;
}

bool stk__date_read_reference(const char *text, stk__date *out, int64_t *offset)
{
    text += strspn(text, " ");
    if (!take_date(&text, 1, 1, out) || out->given < STK__DATE_DAY)
        return false;
    text += strspn(text, " ");
    if (!take_zone(&text, offset))
        return false;
    return text[strspn(text, " ")] == 0;
}

/* calendar, date <-> microseconds; "2015-03-01T06" -> date */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates in the calendars of the CF conventions [CF-1.11, section 4.4.1]. An instant is the number
 * of microseconds since 1970-01-01T00:00:00 of its own calendar (without leap seconds, as CF and
 * POSIX have it), so instants of two calendars do not compare. Years are counted with a year 0, as
 * in ISO 8601. Everything here is pure.
 */
#ifndef STK_SRC_BASE_CALENDAR_H
#define STK_SRC_BASE_CALENDAR_H

#include "base/base.h"

typedef enum stk__calendar {
    STK__CALENDAR_STANDARD,  /* Julian up to 1582-10-04, then Gregorian from 1582-10-15 on */
    STK__CALENDAR_GREGORIAN, /* proleptic, as datetime64 */
    STK__CALENDAR_JULIAN,
    STK__CALENDAR_365, /* noleap */
    STK__CALENDAR_366, /* all_leap */
    STK__CALENDAR_360  /* twelve months of 30 days */
} stk__calendar;

#define STK__DATE_MAX_YEAR 250000 /* an instant then fits, and so does what is added to it */
#define STK__DATE_TEXT     48     /* bytes of a date as a text */
/* Instants from here on are no dates any more: 250,000 years of 366 days. */
#define STK__INSTANT_MAX (INT64_C(86400000000) * 366 * STK__DATE_MAX_YEAR)

/* How much of a date was given. */
typedef enum stk__date_part {
    STK__DATE_NONE,
    STK__DATE_YEAR,
    STK__DATE_MONTH,
    STK__DATE_DAY,
    STK__DATE_HOUR,
    STK__DATE_MINUTE,
    STK__DATE_SECOND,
    STK__DATE_MICROSECOND
} stk__date_part;

typedef struct stk__date {
    int64_t year;
    int month, day;           /* from 1 */
    int hour, minute, second; /* from 0 */
    int microsecond;
    stk__date_part given; /* the parts behind it are their least values */
} stk__date;

/* CF's name of a calendar, in letters of any case. False: there is none of it. */
bool stk__calendar_find(const char *name, stk__calendar *out);

/* The instant at which a date begins. False: the calendar has no such day or time, or the year is
 * beyond STK__DATE_MAX_YEAR. */
bool stk__calendar_instant(stk__calendar calendar, const stk__date *date, int64_t *out);
/* The period that a date names: from *begin up to, but without, *end; that of "2015-03" is all of
 * March. False: as stk__calendar_instant(). */
bool stk__calendar_period(stk__calendar calendar, const stk__date *date, int64_t *begin,
                          int64_t *end);

/*
 * Read the beginning of a text as ISO 8601 has dates: 2015, 2015-03, 2015-03-01, then behind a 'T'
 * or a blank 06, 06:30, 06:30:15, 06:30:15.250. Years have at least four digits, the other parts
 * two, so that the colon of "2015-03-01T06:2016" is seen to begin no minutes. Returns the bytes
 * read; 0: it is no date. Whether there is such a day is the calendar's to say.
 */
size_t stk__date_read(const char *text, stk__date *out);
/* The same as UDUNITS and CF's `units` have it, all of the text: "1900-1-1 0:0:0.0", with an offset
 * from UTC behind it ("+01:00", "Z", "UTC"), which is in *offset, microseconds. */
bool stk__date_read_reference(const char *text, stk__date *out, int64_t *offset);

/* "2015-03-01T06:00:00", with a fraction where there is one. Returns `text`. */
const char *stk__calendar_text(stk__calendar calendar, int64_t instant, char text[STK__DATE_TEXT]);

#endif

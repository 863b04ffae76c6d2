/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a coordinate as keys that compare as its values do, and times as dates. */
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "array/coordinate.h"

#define SECOND_US INT64_C(1000000)
#define DAY_US    (86400 * SECOND_US)
#define BLOCK     512 /* elements widened at a time */

/* ---- Units ----------------------------------------------------------------------------------- */

/* A unit is `up` / `down` microseconds. */
typedef struct unit {
    const char *names; /* with a blank before and behind each */
    int64_t up, down;
} unit;

/* Of CF, as UDUNITS and cftime spell them. */
static const unit cf_units[] = {
    {" nanoseconds nanosecond nanosec nanosecs ns ", 1, 1000},
    {" microseconds microsecond microsec microsecs us ", 1, 1},
    {" milliseconds millisecond millisec millisecs msec msecs ms ", 1000, 1},
    {" seconds second sec secs s ", SECOND_US, 1},
    {" minutes minute min mins ", 60 * SECOND_US, 1},
    {" hours hour hr hrs h ", 3600 * SECOND_US, 1},
    {" days day d ", DAY_US, 1},
};

/* Of NumPy; years and months have no fixed length. */
static const unit numpy_units[] = {
    {" W ", 7 * DAY_US, 1},
    {" D ", DAY_US, 1},
    {" h ", 3600 * SECOND_US, 1},
    {" m ", 60 * SECOND_US, 1},
    {" s ", SECOND_US, 1},
    {" ms ", 1000, 1},
    {" us \xce\xbcs ", 1, 1},
    {" ns ", 1, 1000},
    {" ps ", 1, INT64_C(1000000)},
    {" fs ", 1, INT64_C(1000000000)},
    {" as ", 1, INT64_C(1000000000000)},
};

static const unit *find_unit(const unit *units, size_t count, const char *name, size_t length,
                             bool any_case)
{
    for (size_t i = 0; i < count && length > 0; i++)
        for (const char *at = units[i].names; (at = strchr(at, ' ')) && at[1]; at++) {
            const bool same = any_case ? strncasecmp(at + 1, name, length) == 0
                                       : strncmp(at + 1, name, length) == 0;
            if (same && at[1 + length] == ' ')
                return &units[i];
        }
    return NULL;
}

static stk_status bad_units(const stk_array *a, const char *units, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "%s: the units '%.100s' %s", a->metadata_key, units, why);
}

/* "hours since 1900-01-01 00:00:0.0". `since`: where that word begins. */
static stk_status take_units(const stk_array *a, const char *units, const char *since,
                             stk__coordinate *out, stk_error *err)
{
    const char *calendar = stk_array_text(a, "calendar"), *name = units + strspn(units, " ");
    const size_t length = strcspn(name, " ");
    int64_t offset;
    stk__date date;

    out->calendar = STK__CALENDAR_STANDARD;
    if (calendar && *calendar && !stk__calendar_find(calendar, &out->calendar))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: the calendar '%.60s' is none of CF's with dates: standard, "
                            "proleptic_gregorian, julian, noleap, all_leap, 360_day",
                            a->metadata_key, calendar);
    const unit *found = find_unit(cf_units, STK_COUNT(cf_units), name, length, true);
    static const unit months = {"", 30 * DAY_US, 1};
    if (!found && out->calendar == STK__CALENDAR_360 && (length == 5 || length == 6) &&
        strncasecmp(name, "months", length) == 0)
        found = &months; /* which have one length there */
    if (!found)
        return bad_units(a, units,
                         "count what has no fixed length, or is not known; days, hours, minutes, "
                         "seconds and their parts are read",
                         err);
    if (!stk__date_read_reference(since + strlen("since"), &date, &offset) ||
        !stk__calendar_instant(out->calendar, &date, &out->origin))
        return bad_units(a, units, "have no date behind 'since' that the calendar has", err);
    out->origin -= offset;
    out->up = found->up;
    out->down = found->down;
    out->is_time = true;
    return STK_OK;
}

/* The unit of "datetime64[15m]". */
static stk_status take_datetime(const stk_array *a, stk__coordinate *out, stk_error *err)
{
    const char *at = strchr(a->type.name, '[');
    int64_t multiple = 0;

    if (!at)
        return bad_units(a, a->type.name, "are not known", err);
    for (at++; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(multiple, 10, &multiple) ||
            __builtin_add_overflow(multiple, *at - '0', &multiple))
            return bad_units(a, a->type.name, "are too large", err);
    multiple = multiple ? multiple : 1;
    const size_t length = strcspn(at, "]");
    const unit *found = find_unit(numpy_units, STK_COUNT(numpy_units), at, length, false);
    out->is_time = true;
    out->calendar = STK__CALENDAR_GREGORIAN;
    if (length == 1 && (*at == 'Y' || *at == 'M')) {
        out->months = *at == 'Y' ? 12 : 1;
        out->up = multiple;
        return STK_OK;
    }
    if (!found)
        return bad_units(a, a->type.name, "are not known", err);
    out->down = found->down;
    return __builtin_mul_overflow(found->up, multiple, &out->up)
               ? bad_units(a, a->type.name, "are too large", err)
               : STK_OK;
}

stk_status stk__coordinate_init(const stk_array *a, stk__coordinate *out, stk_error *err)
{
    const char *units = stk_array_text(a, "units"),
               *since = units ? strstr(units, " since ") : NULL;
    double none[1];

    *out = (stk__coordinate){.down = 1,
                             .scale = stk__array_number_or(a, "scale_factor", 1),
                             .offset = stk__array_number_or(a, "add_offset", 0)};
    out->has_missing = stk__array_missing(a, &out->missing);
    if (a->type.kind == STK__KIND_TIME && strncmp(a->type.name, "datetime64", 10) == 0)
        return take_datetime(a, out, err);
    if (a->type.kind == STK__KIND_TIME || !stk__array_numbers(&a->type, none, 0, none))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: elements of %s are neither numbers nor dates", a->metadata_key,
                            a->type.name);
    return since ? take_units(a, units, since + 1, out, err) : STK_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int64_t key_of_number(double x)
{
    int64_t bits;

    x += 0.0; /* -0 is 0 */
    memcpy(&bits, &x, sizeof bits);
    return isnan(x) ? STK__COORDINATE_NONE : bits >= 0 ? bits : bits ^ INT64_MAX;
}

static int64_t within(int64_t instant)
{
    return instant < -STK__INSTANT_MAX || instant > STK__INSTANT_MAX ? STK__COORDINATE_NONE
                                                                     : instant;
}

/* Months since 1970-01 of a datetime64. */
static int64_t key_of_months(int64_t months)
{
    stk__date date = {.day = 1};
    int64_t instant;

    if (months < -12 * INT64_C(260000) || months > 12 * INT64_C(260000))
        return STK__COORDINATE_NONE;
    months += 12 * INT64_C(400000); /* so that it does not become negative */
    date.year = 1970 - 400000 + months / 12;
    date.month = (int)(months % 12) + 1;
    return stk__calendar_instant(STK__CALENDAR_GREGORIAN, &date, &instant) ? instant
                                                                           : STK__COORDINATE_NONE;
}

static int64_t key_of_whole(const stk__coordinate *c, int64_t value)
{
    int64_t product, instant;

    if (c->has_missing && (double)value == c->missing)
        return STK__COORDINATE_NONE;
    if (!c->is_time)
        return key_of_number((double)value);
    if (__builtin_mul_overflow(value, c->up, &product))
        return STK__COORDINATE_NONE;
    if (c->months)
        return __builtin_mul_overflow(product, c->months, &product) ? STK__COORDINATE_NONE
                                                                    : key_of_months(product);
    instant = product / c->down - (product % c->down < 0);
    return __builtin_add_overflow(instant, c->origin, &instant) ? STK__COORDINATE_NONE
                                                                : within(instant);
}

/* The whole units are exact; what is left of one is rounded to a microsecond. */
static int64_t key_of_double(const stk__coordinate *c, double x)
{
    if (isnan(x) || (c->has_missing && x == c->missing))
        return STK__COORDINATE_NONE;
    x = x * c->scale + c->offset;
    if (!c->is_time)
        return key_of_number(x);
    const double whole = floor(x / (double)c->down);
    const double rest = x - whole * (double)c->down;
    if (!(fabs(whole * (double)c->up) < 9e18))
        return STK__COORDINATE_NONE;
    const int64_t part = (int64_t)rint(rest * (double)c->up / (double)c->down);
    int64_t instant;
    return __builtin_add_overflow((int64_t)whole * c->up + part, c->origin, &instant)
               ? STK__COORDINATE_NONE
               : within(instant);
}

/* An integer of at most 64 bits; false: it is beyond int64. */
static bool take_whole(const stk__type *type, const void *value, int64_t *out)
{
    const unsigned unused = 64 - 8 * type->itemsize;
    uint64_t bits = 0;

    memcpy(&bits, value, type->itemsize);
    *out = type->kind == STK__KIND_INT || type->kind == STK__KIND_TIME
               ? (int64_t)(bits << unused) >> unused
               : (int64_t)bits;
    return !(type->kind == STK__KIND_UINT && bits > INT64_MAX) &&
           !(type->kind == STK__KIND_TIME && *out == INT64_MIN); /* NaT */
}

void stk__coordinate_keys(const stk__coordinate *c, const stk_array *a, const void *values,
                          size_t count, int64_t *keys)
{
    const bool whole = a->type.kind != STK__KIND_FLOAT && c->scale == 1 && c->offset == 0;
    const char *from = values;
    double x[BLOCK];
    int64_t value;

    for (size_t i = 0; i < count; i++) {
        if (whole) {
            keys[i] = take_whole(&a->type, from + i * a->type.itemsize, &value)
                          ? key_of_whole(c, value)
                          : STK__COORDINATE_NONE;
            continue;
        }
        if (i % BLOCK == 0)
            (void)stk__array_numbers(&a->type, from + i * a->type.itemsize,
                                     STK_MIN(count - i, BLOCK), x);
        keys[i] = key_of_double(c, x[i % BLOCK]);
    }
}

int64_t stk__coordinate_asked(const stk__coordinate *c, const stk_array *a, double x)
{
    unsigned char element[8];

    /* 30.1 is what an element of float32 that was 30.1 has become. */
    if (a->type.kind == STK__KIND_FLOAT && c->scale == 1 && c->offset == 0) {
        stk__float_bytes(a->type.dtype, x, element);
        (void)stk__array_numbers(&a->type, element, 1, &x);
    }
    return key_of_number(x);
}

/* ---- Other units ----------------------------------------------------------------------------- */

__extension__ typedef __int128 i128; /* which holds products of an element and two units */

static bool write_whole(const stk__type *type, i128 x, void *value)
{
    const int64_t low = (int64_t)x;
    int64_t back;

    memcpy(value, &low, type->itemsize);
    return x == low && take_whole(type, value, &back) && back == low;
}

static bool convert_whole(const stk__coordinate *from, const stk__coordinate *to,
                          const stk__type *type, void *value)
{
    const i128 each = (i128)to->up * from->down;
    int64_t x;

    if (!take_whole(type, value, &x))
        return false;
    const i128 at =
        (i128)x * from->up * to->down + ((i128)from->origin - to->origin) * from->down * to->down;
    return at % each == 0 && write_whole(type, at / each, value);
}

/* The whole units are exact, as in key_of_double(). */
static void convert_double(const stk__coordinate *to, stk_dtype dtype, int64_t instant, void *value)
{
    const i128 at = ((i128)instant - to->origin) * to->down;
    const double whole = (double)(at / to->up), rest = (double)(at % to->up);

    stk__float_bytes(dtype, whole + rest / (double)to->up, value);
}

bool stk__coordinate_convert(const stk__coordinate *from, const stk__coordinate *to,
                             const stk_array *a, void *value)
{
    int64_t wanted, got;

    stk__coordinate_keys(from, a, value, 1, &wanted);
    if (wanted == STK__COORDINATE_NONE)
        return false;
    if (a->type.kind == STK__KIND_FLOAT)
        convert_double(to, a->type.dtype, wanted, value);
    else if (!convert_whole(from, to, &a->type, value))
        return false;
    stk__coordinate_keys(to, a, value, 1, &got);
    return got == wanted;
}

/* ---- Dates ----------------------------------------------------------------------------------- */

size_t stk_array_time_text(const stk_array *array, const void *value, char *text, size_t size)
{
    char date[STK__DATE_TEXT];
    stk__coordinate c;
    int64_t key;

    if (!array || !value || stk__coordinate_init(array, &c, NULL) != STK_OK || !c.is_time)
        return 0;
    stk__coordinate_keys(&c, array, value, 1, &key);
    if (key == STK__COORDINATE_NONE)
        return 0;
    return (size_t)snprintf(text, size, "%s", stk__calendar_text(c.calendar, key, date));
}

bool stk__coordinate_ends(stk_array *a, char *text, size_t size)
{
    const int64_t start[] = {a->rank == 1 ? a->shape[0] - 1 : 0}, shape[] = {1};
    const stk_array_box first = {NULL, shape, NULL}, last = {start, shape, NULL};
    char value[8];
    stk__coordinate c;
    size_t at = 0;

    if (a->rank != 1 || a->shape[0] < 1 || a->type.itemsize > sizeof value ||
        stk__coordinate_init(a, &c, NULL) != STK_OK || !c.is_time)
        return false;
    for (int i = 0; i < 2; i++) {
        if (stk_array_read(a, i ? &last : &first, value, a->type.itemsize, NULL, -1, NULL) !=
            STK_OK)
            return false;
        if (i)
            at += (size_t)snprintf(text + at, size - at, " to ");
        const size_t length = stk_array_time_text(a, value, text + at, size - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

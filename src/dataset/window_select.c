/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selection by value: "time=2015-01-01:2019-12-31,lat=30:60" becomes elements of the dimensions, by
 * the coordinates that lie beside the variables.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/spec.h"
#include "dataset/window.h"

#define BLOCK         65536              /* elements of a coordinate read at a time */
#define MOST_ELEMENTS (INT64_C(1) << 28) /* of a coordinate */
#define SHOWN         80                 /* bytes of a value in a message */
#define EXAMPLE       "time=2015-01-01:2019-12-31,lat=30:60"

/* One dimension's part of the option. */
typedef struct selection {
    const char *ends; /* "30:60" */
    size_t length;
    char name[64];           /* of the dimension, as messages have it */
    int64_t low, high;       /* keys, both taken */
    bool single;             /* one number */
    stk__coordinate meaning; /* of the coordinate's elements */
    const stk_array *array;  /* the coordinate */
} selection;

/* What has been seen of a coordinate, from its first element on. */
typedef struct scan {
    int64_t first, count; /* that lie within */
    int64_t last_key, seen;
    int direction; /* 1 up, -1 down, 0: all alike so far */
    /* The nearest ones without. */
    int64_t below_key, above_key;
    unsigned char below[8], above[8];
} scan;

static stk_status fail(stk_error *err, stk_status status, const char *format, ...) STK_PRINTF(3, 4);

static stk_status fail(stk_error *err, stk_status status, const char *format, ...)
{
    char text[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return stk__fail_at(err, status, STK_STAGE_OPTIONS, "select", STK_NO_OFFSET, "select: %s",
                        text);
}

/* ---- What is asked --------------------------------------------------------------------------- */

static stk_status bad_end(const selection *s, stk_error *err)
{
    return fail(err, STK_EINVAL, "'%.*s' is no %s of '%s'; write it as %s",
                (int)STK_MIN(s->length, SHOWN), s->ends,
                s->meaning.is_time ? "date or range of dates" : "number or range of numbers",
                s->name,
                s->meaning.is_time ? "2015-01-01:2019-12-31, 2015-03:, :2016 or 2015"
                                   : "30:60, 30:, :60 or 45");
}

/* One end at *at, which moves behind it: the keys it takes in. STK_EOS: there is none. */
static stk_status take_end(const selection *s, const char **at, const char *end, int64_t *low,
                           int64_t *high, stk_error *err)
{
    char *behind;
    stk__date date;

    while (*at < end && **at == ' ')
        ++*at;
    if (*at == end || **at == ':')
        return STK_EOS;
    if (s->meaning.is_time) {
        const size_t length = stk__date_read(*at, &date);
        if (length == 0 || length > (size_t)(end - *at))
            return bad_end(s, err);
        if (!stk__calendar_period(s->meaning.calendar, &date, low, high))
            return fail(err, STK_EINVAL, "the calendar of '%s' has no %.*s", s->name, (int)length,
                        *at);
        --*high;
        *at += length;
    } else {
        const double x = strtod(*at, &behind);
        if (behind == *at || behind > end || !isfinite(x))
            return bad_end(s, err);
        *low = *high = stk__coordinate_asked(&s->meaning, s->array, x);
        *at = behind;
    }
    while (*at < end && **at == ' ')
        ++*at;
    return STK_OK;
}

/* "A:B", where either may be left out, or one value. */
static stk_status take_ends(selection *s, stk_error *err)
{
    const char *at = s->ends, *end = s->ends + s->length;
    int64_t ignored;

    s->low = INT64_MIN + 1;
    s->high = INT64_MAX;
    stk_status first = take_end(s, &at, end, &s->low, &s->high, err);
    if (first < 0)
        return first;
    if (at == end && first == STK_OK) {
        s->single = !s->meaning.is_time;
        return STK_OK;
    }
    if (at == end || *at++ != ':')
        return bad_end(s, err);
    s->high = INT64_MAX;
    const stk_status second = take_end(s, &at, end, &ignored, &s->high, err);
    if (second < 0)
        return second;
    if (at != end)
        return bad_end(s, err);
    if (s->low > s->high)
        return fail(err, STK_EINVAL,
                    "the range '%.*s' of '%s' ends before it begins; give the %s end first, "
                    "whichever way the coordinate runs",
                    (int)STK_MIN(s->length, SHOWN), s->ends, s->name,
                    s->meaning.is_time ? "earlier" : "lower");
    return STK_OK;
}

/* ---- Looking for it -------------------------------------------------------------------------- */

static const char *value_text(const selection *s, const void *value, char text[SHOWN])
{
    if (stk_array_time_text(s->array, value, text, SHOWN) == 0)
        (void)stk_array_value_text(s->array, value, text, SHOWN);
    return text;
}

/* The next element of the coordinate. */
static stk_status look(const selection *s, scan *c, int64_t key, const void *value, stk_error *err)
{
    const uint64_t size = stk_array_get_info(s->array)->itemsize;
    char text[SHOWN];

    if (key == STK__COORDINATE_NONE)
        return fail(err, STK_EINVAL,
                    "element %lld of the coordinate '%s' has no value; select elements with "
                    "range=%s:A:B",
                    (long long)c->seen, s->name, s->name);
    if (c->seen > 0 && key != c->last_key) {
        const int direction = key > c->last_key ? 1 : -1;
        if (c->direction && direction != c->direction)
            return fail(err, STK_EINVAL,
                        "the coordinate '%s' is not sorted: element %lld, %s, turns back; select "
                        "elements with range=%s:A:B",
                        s->name, (long long)c->seen, value_text(s, value, text), s->name);
        c->direction = direction;
    }
    if (key < s->low && key >= c->below_key) {
        c->below_key = key;
        memcpy(c->below, value, size);
    } else if (key > s->high && key <= c->above_key) {
        c->above_key = key;
        memcpy(c->above, value, size);
    } else if (key >= s->low && key <= s->high) {
        if (c->count++ == 0)
            c->first = c->seen;
    }
    c->last_key = key;
    c->seen++;
    return STK_OK;
}

static stk_status look_at_all(const selection *s, stk_array *array, scan *c, stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(array);
    const int64_t n = info->shape[0];
    stk_context *ctx = stk__array_store(array)->context;
    const size_t most = (size_t)STK_MIN(n, BLOCK);
    int64_t start[1] = {0}, shape[1];
    const stk_array_box box = {start, shape, NULL};
    stk_status status = STK_OK;

    *c = (scan){.below_key = INT64_MIN, .above_key = INT64_MAX};
    char *values = stk__alloc(ctx, most * (size_t)info->itemsize);
    int64_t *keys = stk__alloc(ctx, most * sizeof *keys);
    if (!values || !keys)
        status = stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the coordinate '%s'",
                           s->name);
    for (; status == STK_OK && start[0] < n; start[0] += shape[0]) {
        shape[0] = STK_MIN(n - start[0], BLOCK);
        status =
            stk_array_read(array, &box, values, (uint64_t)shape[0] * info->itemsize, NULL, -1, err);
        if (status == STK_OK)
            stk__coordinate_keys(&s->meaning, array, values, (size_t)shape[0], keys);
        for (int64_t i = 0; i < shape[0] && status == STK_OK; i++)
            status = look(s, c, keys[i], values + (uint64_t)i * info->itemsize, err);
    }
    stk__free(ctx, keys);
    stk__free(ctx, values);
    return status;
}

static stk_status nothing_there(const selection *s, const scan *c, stk_error *err)
{
    char below[SHOWN], above[SHOWN];
    const bool has_below = c->below_key != INT64_MIN, has_above = c->above_key != INT64_MAX;

    return fail(
        err, STK_EINVAL, "nothing of '%s' lies %s %.*s; the nearest %s %s%s%s", s->name,
        s->single ? "at" : "in", (int)STK_MIN(s->length, SHOWN), s->ends,
        has_below && has_above ? "are" : "is", has_below ? value_text(s, c->below, below) : "",
        has_below && has_above ? " and " : "", has_above ? value_text(s, c->above, above) : "");
}

/* Elements of the dimension that the coordinate's values select. */
static stk_status find(selection *s, stk_array *array, stk__window_dim *dim, uint64_t max_requests,
                       stk_error *err)
{
    const stk_array_info *info = stk_array_get_info(array);
    scan c;

    s->array = array;
    if (info->rank != 1 || info->shape[0] != dim->size)
        return fail(err, STK_EINVAL,
                    "the coordinate '%s' has not one value for each of the %lld elements of the "
                    "dimension; select elements with range=%s:A:B",
                    s->name, (long long)dim->size, s->name);
    if (info->shape[0] > MOST_ELEMENTS)
        return fail(err, STK_ELIMIT, "the coordinate '%s' has more than 2^28 elements", s->name);
    if (info->num_objects > max_requests)
        return fail(err, STK_ELIMIT,
                    "the coordinate '%s' takes %llu requests, more than max_requests, %llu",
                    s->name, (unsigned long long)info->num_objects,
                    (unsigned long long)max_requests);
    STK_TRY(stk__coordinate_init(array, &s->meaning, err));
    STK_TRY(take_ends(s, err));
    STK_TRY(look_at_all(s, array, &c, err));
    if (c.count == 0)
        return nothing_there(s, &c, err);
    if (s->single && c.count > 1)
        return fail(err, STK_EINVAL, "'%s' has %.*s %lld times; write a range, as %.*s:%.*s",
                    s->name, (int)s->length, s->ends, (long long)c.count, (int)s->length, s->ends,
                    (int)s->length, s->ends);
    dim->begin = c.first;
    dim->end = c.first + c.count;
    dim->dropped = s->single;
    return STK_OK;
}

/* ---- Coordinates ----------------------------------------------------------------------------- */

/* The array of the dimension's name beside a variable of a group, or in a group above it. */
static stk_status open_in_group(const stk__window *w, const char *path, const char *name,
                                stk_array **out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    const stk_node *node;

    for (size_t folder = strlen(path); folder > 0;) {
        while (folder > 0 && path[folder - 1] != '/')
            folder--;
        const int length = snprintf(key, sizeof key, "%.*s%s", (int)folder, path, name);
        for (size_t i = 0;
             length > 0 && (size_t)length < sizeof key && (node = stk_group_node(w->group, i)); i++)
            if (node->is_array && strcmp(node->path, key) == 0)
                return stk_group_array(w->group, key, NULL, out, err);
        folder -= folder > 0;
    }
    return STK_ENOENT;
}

/* One that lacks the dimension along which files are joined is the same in all of them. `folder`:
 * of the arrays in them; loses its options. */
static stk_status open_in_files(stk_context *ctx, char *folder, const char *along, const char *name,
                                stk_array **out, stk_error *err)
{
    stk_array_options options;
    stk_group *group = NULL;
    char *texts = NULL;

    stk_array_options_init(&options);
    stk_status status =
        stk__spec_take(ctx, folder, &stk__array_option_table, &options, &texts, err);
    if (status == STK_OK)
        status = stk__group_open_along(ctx, folder, along, &group, err);
    if (status == STK_OK)
        status = stk_group_array(group, name, &options, out, err);
    stk_group_close(&group);
    stk__free(ctx, texts);
    return status;
}

/* The one beside an array that was opened by itself: in the URL's last part is its name. */
static stk_status open_beside(const stk__window *w, const stk_array *array, const char *url,
                              const char *name, stk_array **out, stk_error *err)
{
    const char *along = stk__array_along(array);
    const bool same = along && strcmp(along, name) != 0;
    stk_context *ctx = w->base.context;
    size_t length = strcspn(url, "?"), room = strlen(url) + strlen(name) + 1;
    const char *query = url + length;

    while (length > 0 && url[length - 1] == '/')
        length--;
    while (length > 0 && url[length - 1] != '/' && url[length - 1] != ':')
        length--;
    char *beside = stk__alloc(ctx, room);
    if (!beside)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the name of '%s'",
                         name);
    snprintf(beside, room, "%.*s%s%s", (int)length, url, same ? "" : name, query);
    stk_status status = same ? open_in_files(ctx, beside, along, name, out, err)
                             : stk_array_open(ctx, beside, NULL, out, err);
    stk__free(ctx, beside);
    if (same)
        return status;
    return status == STK_EMISMATCH ? STK_ENOENT : status; /* a group */
}

/* A part of a name would be another place of the store. */
static bool is_plain_name(const char *name)
{
    return *name && !strpbrk(name, "/?#%") && strspn(name, ".") != strlen(name);
}

static stk_status select_one(stk__window *w, selection *s, uint32_t d, const char *url,
                             stk_error *err)
{
    stk__window_dim *dim = &w->dims[d];
    const stk__window_variable *variable = &w->variables[dim->variable];
    stk_array *array = NULL;

    if (!dim->name[0])
        return fail(err, STK_EINVAL,
                    "dimension %u has no name, and so no coordinate; select elements with "
                    "range=%u:A:B",
                    d, d);
    snprintf(s->name, sizeof s->name, "%s", dim->name);
    if (dim->limited)
        return fail(err, STK_EINVAL,
                    "'%s' is limited already; give one selection, range or at for a dimension",
                    s->name);
    dim->limited = true;
    stk_status status = STK_ENOENT;
    if (is_plain_name(dim->name))
        status = variable->path ? open_in_group(w, variable->path, dim->name, &array, err)
                                : open_beside(w, variable->array, url, dim->name, &array, err);
    if (status == STK_ENOENT)
        return fail(err, STK_EINVAL,
                    "there is no coordinate '%s' beside '%s': no array of the dimension's name; "
                    "select elements with range=%s:A:B",
                    s->name, variable->name, s->name);
    if (status == STK_OK)
        status = find(s, array, dim, w->options.max_requests, err);
    stk_array_close(&array);
    return status;
}

stk_status stk__window_select(stk__window *w, const char *text, const char *url, stk_error *err)
{
    for (const char *at = text; at && *at;) {
        selection s = {0};
        at += strspn(at, " ");
        const char *equals = strchr(at, '=');
        size_t name = strcspn(at, "=,");
        if (!equals || equals != at + name)
            return fail(err, STK_EINVAL, "'%.200s': write it as " EXAMPLE, text);
        while (name > 0 && at[name - 1] == ' ')
            name--;
        s.ends = equals + 1;
        s.length = strcspn(s.ends, ",");
        const uint32_t d = stk__window_find_dim(w, at, name);
        if (d == w->num_dims)
            return stk__window_unknown_dim(w, "select", at, name, err);
        STK_TRY(select_one(w, &s, d, url, err));
        at = s.ends + s.length;
        at += *at == ',';
    }
    return STK_OK;
}

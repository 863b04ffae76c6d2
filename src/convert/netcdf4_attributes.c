/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes as JSON -> attributes of NetCDF, which have a type each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert/netcdf4.h"

/* What the format says by attributes of its own: those of another file mean nothing in this one. */
static bool is_own(const char *name)
{
    static const char *const own[] = {
        "CLASS",         "NAME",        "DIMENSION_LIST",      "REFERENCE_LIST",   "_NCProperties",
        "_Netcdf4Dimid", "_nc3_strict", "_Netcdf4Coordinates", "_ARRAY_DIMENSIONS"};

    for (size_t i = 0; i < STK_COUNT(own); i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return false;
}

/* Those that are of their variable's type by convention [CF 1.11, 2.5.1 and 3.5]. */
static bool is_of_type(const char *name)
{
    static const char *const typed[] = {"_FillValue", "missing_value", "valid_min",
                                        "valid_max",  "valid_range",   "flag_values",
                                        "flag_masks", "actual_range"};

    for (size_t i = 0; i < STK_COUNT(typed); i++)
        if (strcmp(name, typed[i]) == 0)
            return true;
    return false;
}

/* ---- Numbers ---- */

/* A JSON value that is a number: NaN and numbers beyond int64 are marked texts of the parser. */
static bool number_of(const json_t *value, double *real, bool *is_real)
{
    const char *special = stk__json_special(value);

    *is_real = !json_is_integer(value) && !json_is_boolean(value);
    if (json_is_boolean(value))
        *real = json_is_true(value);
    else if (json_is_number(value))
        *real = json_number_value(value);
    else if (special)
        *real = strtod(special, NULL);
    else
        return false;
    return true;
}

/* A number in a type; false: the type does not hold it. */
static bool put_number(const json_t *value, uint32_t type, void *out)
{
    const long long n = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    const char *special = stk__json_special(value);
    double real = 0;
    bool is_real;

    if (!number_of(value, &real, &is_real))
        return false;
    const bool whole = !is_real || (isfinite(real) && real == floor(real) && fabs(real) < 9e15);
    const long long integer = is_real && whole ? (long long)real : n;
    switch (type) {
#define HOLD(dtype, ctype, least, most)                                                            \
    case dtype: {                                                                                  \
        const ctype held = (ctype)integer;                                                         \
        memcpy(out, &held, sizeof held);                                                           \
        return whole && integer >= (least) && integer <= (most);                                   \
    }
        HOLD(STK_INT8, int8_t, INT8_MIN, INT8_MAX)
        HOLD(STK_UINT8, uint8_t, 0, UINT8_MAX)
        HOLD(STK_INT16, int16_t, INT16_MIN, INT16_MAX)
        HOLD(STK_UINT16, uint16_t, 0, UINT16_MAX)
        HOLD(STK_INT32, int32_t, INT32_MIN, INT32_MAX)
        HOLD(STK_UINT32, uint32_t, 0, UINT32_MAX)
        HOLD(STK_INT64, int64_t, INT64_MIN, INT64_MAX)
#undef HOLD
    case STK_UINT64: {
        char *end = NULL;
        const uint64_t held =
            special && *special != '-' ? strtoull(special, &end, 10) : (uint64_t)integer;
        memcpy(out, &held, sizeof held);
        return end ? !*end : whole && integer >= 0;
    }
    case STK_FLOAT32: {
        const float held = (float)real;
        memcpy(out, &held, sizeof held);
        return true;
    }
    case STK_FLOAT64:
        memcpy(out, &real, sizeof real);
        return true;
    default:
        return false;
    }
}

/* ---- One attribute ---- */

/* Of what was put last. */
typedef struct putting {
    stk__libhdf5 *child;
    stk_context *ctx;
    const stk_store_call *call;
    uint32_t type; /* of the variable */
} putting;

static stk_status no_memory(const char *name, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for the attribute '%.100s'",
                     name);
}

/* Elements of a list, or the one value. */
static const json_t *element_of(const json_t *value, size_t i)
{
    return json_is_array(value) ? json_array_get(value, i) : value;
}

/* Put numbers in a type; *done: it holds them all. */
static stk_status put_in(const putting *p, const char *name, const json_t *value, uint32_t type,
                         bool *done, stk_error *err)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    const size_t size = stk_dtype_size((stk_dtype)type);
    unsigned char *values = stk__calloc(p->ctx, STK_MAX(n, 1), STK_MAX(size, 1));
    stk_status status = STK_OK;

    if (!values)
        return no_memory(name, err);
    *done = size > 0;
    for (size_t i = 0; *done && i < n; i++)
        *done = put_number(element_of(value, i), type, values + i * size);
    if (*done)
        status = stk__libhdf5_put_attribute(p->child, name, type, n, !json_is_array(value), values,
                                            p->call, err);
    stk__free(p->ctx, values);
    return status;
}

/* The types that numbers are tried in: the variable's where convention has it, else the widest. */
static stk_status put_numbers(const putting *p, const char *name, const json_t *value,
                              stk_error *err)
{
    bool booleans = true, reals = false, done = false;

    for (size_t i = 0; i < STK_MAX(json_array_size(value), 1); i++) {
        const json_t *element = element_of(value, i);
        booleans = booleans && json_is_boolean(element);
        reals = reals || json_is_real(element);
    }
    const uint32_t types[] = {
        is_of_type(name) ? p->type : STK_DTYPE_NONE, booleans ? STK_INT8 : STK_DTYPE_NONE,
        reals ? STK_DTYPE_NONE : STK_INT64, reals ? STK_DTYPE_NONE : STK_UINT64, STK_FLOAT64};
    for (size_t i = 0; !done && i < STK_COUNT(types); i++)
        if (types[i] != STK_DTYPE_NONE)
            STK_TRY(put_in(p, name, value, types[i], &done, err));
    return STK_OK;
}

static stk_status put_texts(const putting *p, const char *name, const json_t *value, stk_error *err)
{
    const size_t n = json_array_size(value);
    const char **texts = stk__calloc(p->ctx, STK_MAX(n, 1), sizeof *texts);

    if (!texts)
        return no_memory(name, err);
    for (size_t i = 0; i < n; i++)
        texts[i] = json_string_value(json_array_get(value, i));
    const stk_status status =
        stk__libhdf5_put_attribute(p->child, name, STK__WIRE_TEXT, n, false, texts, p->call, err);
    stk__free(p->ctx, texts);
    return status;
}

/* Whether it is, or holds, nothing but numbers; `texts`: but texts. */
static bool is_all(const json_t *value, bool texts)
{
    double real;
    bool is_real;

    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        if (json_is_array(json_array_get(value, i)) || !is_all(json_array_get(value, i), texts))
            return false;
    if (json_is_array(value))
        return true;
    return texts ? json_is_string(value) && !stk__json_special(value)
                 : number_of(value, &real, &is_real);
}

static stk_status put_text(const putting *p, const char *name, const char *text, stk_error *err)
{
    return stk__libhdf5_put_attribute(p->child, name, STK__WIRE_TEXT, 1, true, &text, p->call, err);
}

/* What NetCDF has no type for is its JSON text. */
static stk_status put_attribute(const putting *p, const char *name, const json_t *value,
                                stk_error *err)
{
    if (is_all(value, false))
        return put_numbers(p, name, value, err);
    if (json_is_array(value) && is_all(value, true))
        return put_texts(p, name, value, err);
    if (json_is_string(value) && !stk__json_special(value))
        return put_text(p, name, json_string_value(value), err);
    char *text = stk__json_text(p->ctx, value, false);
    if (!text)
        return no_memory(name, err);
    const stk_status status = put_text(p, name, text, err);
    stk__free(p->ctx, text);
    return status;
}

/* ---- Of a node ---- */

/* NumPy's times are integers, and CF says of what: "seconds since 1970-01-01". */
static stk_status put_time(const putting *p, const stk__target_node *node, const json_t *attributes,
                           stk_error *err)
{
    static const struct {
        const char *code, *unit;
    } units[] = {{"[D]", "days"},        {"[h]", "hours"},         {"[m]", "minutes"},
                 {"[s]", "seconds"},     {"[ms]", "milliseconds"}, {"[us]", "microseconds"},
                 {"[ns]", "nanoseconds"}};
    const char *bracket = strchr(node->type_name, '[');
    const bool is_span = *node->type_name == 't';
    const int64_t none = INT64_MIN; /* NaT */
    char text[64];

    if (json_object_get(attributes, "units"))
        return STK_OK;
    for (size_t i = 0; bracket && i < STK_COUNT(units); i++) {
        if (strcmp(bracket, units[i].code) != 0)
            continue;
        snprintf(text, sizeof text, "%s%s", units[i].unit, is_span ? "" : " since 1970-01-01");
        STK_TRY(put_text(p, "units", text, err));
        if (!node->missing_value)
            STK_TRY(stk__libhdf5_put_attribute(p->child, "_FillValue", STK_INT64, 1, true, &none,
                                               p->call, err));
        return is_span ? put_text(p, "dtype", node->type_name, err)
                       : put_text(p, "calendar", "proleptic_gregorian", err);
    }
    return stk__fail_at(err, STK_EKIND, STK_STAGE_CONVERT, node->path, STK_NO_OFFSET,
                        "'%.200s' is %.60s, and CF has no such unit of time: convert it to seconds",
                        node->path, node->type_name);
}

static stk_status put_all(const putting *p, const stk__target_node *node, const json_t *attributes,
                          stk_error *err)
{
    const char *name;
    json_t *value;

    if (node->is_array && node->missing_value && node->dtype != STK_DTYPE_NONE)
        STK_TRY(stk__libhdf5_put_attribute(p->child, "_FillValue", p->type, 1, true,
                                           node->missing_value, p->call, err));
    json_object_foreach((json_t *)attributes, name,
                        value) if (!is_own(name) && *name &&
                                   !(node->is_array && strcmp(name, "_FillValue") == 0))
        STK_TRY(put_attribute(p, name, value, err));
    if (node->is_array && node->dtype == STK_BOOL && !json_object_get(attributes, "dtype"))
        STK_TRY(put_text(p, "dtype", "bool", err)); /* as xarray knows them */
    if (node->is_array && node->type_name && strstr(node->type_name, "64["))
        return put_time(p, node, attributes, err);
    return STK_OK;
}

stk_status stk__netcdf4_attributes(stk__libhdf5 *child, stk_context *ctx,
                                   const stk__target_node *node, uint32_t type,
                                   const stk_store_call *call, stk_error *err)
{
    const putting p = {child, ctx, call, type};
    stk__json attributes = {0};

    if (!node->attributes || !*node->attributes)
        return put_all(&p, node, NULL, err);
    STK_TRY(stk__json_parse(ctx, node->attributes, strlen(node->attributes), node->path,
                            &attributes, err));
    const stk_status status = put_all(&p, node, attributes.value, err);
    stk__json_drop(ctx, &attributes);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of elements as three formats name them: NumPy's array interface codes ("<f4"), Zarr v2
 * (the same, and lists for records), Zarr v3 (names, with a configuration for some).
 */
#include <math.h>
#include <stdio.h>

#include "array/npy/npy.h"
#include "array/room.h"

#define MAX_RECORD_LEVELS 8

static stk_status refuse(const char *key, const char *name, const char *remedy, stk_error *err)
{
    return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s: the data type '%.80s' is not read; %s", key, name, remedy);
}

static stk_status too_long(const char *key, const char *name, stk_error *err)
{
    return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s: an element of the data type '%.80s' is not of 1 to %u bytes", key,
                        name, STK__ARRAY_MAX_ITEM);
}

/* A type with the bytes of `itemsize` elements of `unit` bytes. */
static bool set_bytes(stk__type *t, stk__type_kind kind, uint64_t count, uint32_t unit, char letter)
{
    uint64_t bytes;

    if (count == 0 || !stk__mul_size(count, unit, &bytes) || bytes > STK__ARRAY_MAX_ITEM)
        return false;
    t->kind = kind;
    t->dtype = STK_DTYPE_NONE;
    t->itemsize = (uint32_t)bytes;
    t->swap_size = kind == STK__KIND_TEXT ? 4 : 1;
    snprintf(t->name, sizeof t->name, "%c%llu", letter, (unsigned long long)count);
    return true;
}

static void set_dtype(stk__type *t, stk_dtype dtype)
{
    t->dtype = dtype;
    t->itemsize = (uint32_t)stk_dtype_size(dtype);
    t->swap_size = t->itemsize;
    snprintf(t->name, sizeof t->name, "%s", stk_dtype_name(dtype));
    switch (dtype) {
    case STK_BOOL:
        t->kind = STK__KIND_BOOL;
        break;
    case STK_INT8:
    case STK_INT16:
    case STK_INT32:
    case STK_INT64:
        t->kind = STK__KIND_INT;
        break;
    case STK_COMPLEX64:
    case STK_COMPLEX128:
        t->kind = STK__KIND_COMPLEX;
        t->swap_size /= 2;
        break;
    case STK_FLOAT16:
    case STK_BFLOAT16:
    case STK_FLOAT32:
    case STK_FLOAT64:
        t->kind = STK__KIND_FLOAT;
        break;
    default:
        t->kind = STK__KIND_UINT;
    }
}

void stk__type_set_varying(stk__type *out, bool text)
{
    *out = (stk__type){.kind = text ? STK__KIND_STRING : STK__KIND_STRING_BYTES,
                       .dtype = STK_DTYPE_NONE,
                       .itemsize = sizeof(stk_array_string),
                       .swap_size = 1};
    snprintf(out->name, sizeof out->name, "%s", text ? "string" : "bytes");
}

/* "datetime64[ns]" of a unit, and of a multiple of it. */
static bool set_time(stk__type *t, bool delta, const char *unit, int64_t factor)
{
    static const char *const units[] = {"Y",  "M",  "W",  "D",  "h",  "m",  "s",      "ms",
                                        "us", "ns", "ps", "fs", "as", "μs", "generic"};
    bool known = false;

    for (size_t i = 0; i < STK_COUNT(units); i++)
        known |= !strcmp(unit, units[i]);
    if (!known || factor < 1 || factor > INT32_MAX)
        return false;
    set_dtype(t, STK_INT64);
    t->kind = STK__KIND_TIME;
    if (!strcmp(unit, "generic"))
        snprintf(t->name, sizeof t->name, "%s", delta ? "timedelta64" : "datetime64");
    else if (factor == 1)
        snprintf(t->name, sizeof t->name, "%s[%s]", delta ? "timedelta64" : "datetime64", unit);
    else
        snprintf(t->name, sizeof t->name, "%s[%lld%s]", delta ? "timedelta64" : "datetime64",
                 (long long)factor, unit);
    return true;
}

/* "[10ns]" or nothing, behind "M8". */
static bool parse_unit(stk__type *t, bool delta, const char *text)
{
    char unit[16] = "generic";
    int64_t factor = 1;

    if (*text == '[') {
        size_t length = 0;
        if (text[1] >= '0' && text[1] <= '9')
            factor = 0;
        for (text++; *text >= '0' && *text <= '9' && factor <= INT32_MAX; text++)
            factor = factor * 10 + (*text - '0');
        while (*text && *text != ']' && length + 1 < sizeof unit)
            unit[length++] = *text++;
        unit[length] = 0;
        if (*text++ != ']')
            return false;
    }
    return *text == 0 && set_time(t, delta, unit, factor);
}

static bool parse_count(const char *text, uint64_t *count)
{
    *count = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || *count > STK__ARRAY_MAX_ITEM)
            return false;
        *count = *count * 10 + (uint64_t)(*text - '0');
    }
    return true;
}

stk_status stk__type_numpy(const char *code, const char *key, stk__type *out, stk_error *err)
{
    uint64_t count;

    memset(out, 0, sizeof *out);
    const char *name = code + (code[0] && strchr("<>|=", code[0]) != NULL);
    stk_dtype named = stk_dtype_parse(name);
    if (named == STK_DTYPE_NONE)
        named = stk__npy_dtype(name);
    if (named != STK_DTYPE_NONE) {
        set_dtype(out, named);
        out->big_endian = code[0] == '>' && out->swap_size > 1;
        return STK_OK;
    }
    const char *unit = (name[0] == 'M' || name[0] == 'm') && name[1] == '8' ? name + 2
                       : !strncmp(name, "datetime64", 10)                   ? name + 10
                       : !strncmp(name, "timedelta64", 11)                  ? name + 11
                                                                            : NULL;
    if (unit) {
        if (!parse_unit(out, name[0] == 'm' || name[0] == 't', unit))
            return refuse(key, code, "its unit is not one of NumPy's", err);
        out->big_endian = code[0] == '>';
        return STK_OK;
    }
    if (name[0] == 'O')
        return refuse(key, code, "it holds Python objects; write numbers or fixed-length text",
                      err);
    if (!strchr("SaUV", name[0]) || !parse_count(name + 1, &count))
        return refuse(key, code, "write it as one of NumPy's numbers, times or fixed-length bytes",
                      err);
    stk__type_kind kind = name[0] == 'U'   ? STK__KIND_TEXT
                          : name[0] == 'V' ? STK__KIND_RAW
                                           : STK__KIND_BYTES;
    char letter = name[0] == 'a' ? 'S' : name[0];
    if (!set_bytes(out, kind, count, kind == STK__KIND_TEXT ? 4 : 1, letter))
        return too_long(key, code, err);
    out->big_endian = code[0] == '>' && out->swap_size > 1;
    return STK_OK;
}

/* ---- Zarr v2 ---- */

static stk_status record_size(const json_t *fields, int version, unsigned levels, const char *key,
                              uint64_t *bytes, stk_error *err);

/* Bytes of one field: [name, type] or [name, type, shape]; v3 also as {name, data_type}. */
static stk_status field_size(const json_t *field, int version, unsigned levels, const char *key,
                             uint64_t *bytes, stk_error *err)
{
    const json_t *type =
        json_is_object(field) ? json_object_get(field, "data_type") : json_array_get(field, 1);
    const json_t *shape = json_array_get(field, 2), *dimension;
    stk__type t;
    size_t i;

    if (!type)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: a field of the data type is no list of name and type", key);
    if (version == 2 && json_is_array(type)) {
        STK_TRY(record_size(type, version, levels + 1, key, bytes, err));
    } else {
        STK_TRY(version == 2 ? stk__type_v2(type, key, &t, err) : stk__type_v3(type, key, &t, err));
        if (stk__type_varies(&t) || t.optional)
            return refuse(key, t.name, "a field of a record has a fixed length", err);
        *bytes = t.itemsize;
    }
    json_array_foreach(shape, i, dimension)
    {
        json_int_t n = json_integer_value(dimension);
        if (n < 1 || !stk__mul_size(*bytes, (uint64_t)n, bytes))
            return too_long(key, "record", err);
    }
    if (json_is_integer(shape) &&
        !stk__mul_size(*bytes, (uint64_t)json_integer_value(shape), bytes))
        return too_long(key, "record", err);
    return STK_OK;
}

static stk_status record_size(const json_t *fields, int version, unsigned levels, const char *key,
                              uint64_t *bytes, stk_error *err)
{
    const json_t *field;
    size_t i;

    *bytes = 0;
    if (levels > MAX_RECORD_LEVELS)
        return too_long(key, "record", err);
    json_array_foreach(fields, i, field)
    {
        uint64_t part = 0;
        STK_TRY(field_size(field, version, levels, key, &part, err));
        if (!stk__add_size(*bytes, part, bytes) || *bytes > STK__ARRAY_MAX_ITEM)
            return too_long(key, "record", err);
    }
    return STK_OK;
}

/* Records are read as their bytes, as they are stored. */
static stk_status set_record(const json_t *fields, int version, const char *key, stk__type *out,
                             stk_error *err)
{
    uint64_t bytes = 0;

    STK_TRY(record_size(fields, version, 0, key, &bytes, err));
    memset(out, 0, sizeof *out);
    return set_bytes(out, STK__KIND_RAW, bytes, 1, 'V') ? STK_OK : too_long(key, "record", err);
}

stk_status stk__type_v2(const json_t *dtype, const char *key, stk__type *out, stk_error *err)
{
    if (json_is_array(dtype))
        return set_record(dtype, 2, key, out, err);
    if (!json_is_string(dtype))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'dtype' is neither a text nor a list", key);
    return stk__type_numpy(json_string_value(dtype), key, out, err);
}

/* ---- Zarr v3 ---- */

static bool set_raw_bits(stk__type *t, const char *bits)
{
    uint64_t n = 0;

    for (const char *p = bits; *p; p++) {
        if (*p < '0' || *p > '9' || n > 8 * STK__ARRAY_MAX_ITEM)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    return n % 8 == 0 && set_bytes(t, STK__KIND_RAW, n / 8, 1, 'V');
}

void stk__type_missing(const stk__type *type, void *out)
{
    const int64_t not_a_time = INT64_MIN;

    if (type->kind == STK__KIND_TIME)
        memcpy(out, &not_a_time, sizeof not_a_time);
    else
        stk__float_bytes(type->dtype, (double)NAN, out);
}

/* Elements that may be missing [zarrs data_type/optional.rs], as what has a value for it. */
static stk_status set_optional(const json_t *inner, const char *key, stk__type *out, stk_error *err)
{
    if (!json_is_object(inner))
        return refuse(key, "optional", "its configuration does not name a type", err);
    STK_TRY(stk__type_v3(inner, key, out, err));
    const stk_dtype stored = out->dtype;
    const bool exact = out->kind == STK__KIND_BOOL ||
                       ((out->kind == STK__KIND_INT || out->kind == STK__KIND_UINT) &&
                        out->itemsize < sizeof(double));
    if (out->optional || (!exact && out->kind != STK__KIND_FLOAT && out->kind != STK__KIND_TIME))
        return refuse(key, "optional",
                      "elements that may be missing are floats, times, or integers of at most 32 "
                      "bits",
                      err);
    if (exact)
        set_dtype(out, STK_FLOAT64);
    out->stored = out->kind == STK__KIND_TIME ? STK_DTYPE_NONE : stored;
    out->optional = true;
    return STK_OK;
}

static stk_status configured_type(const char *name, const json_t *configuration, const char *key,
                                  stk__type *out, stk_error *err)
{
    static const struct {
        const char *name;
        stk__type_kind kind;
        uint32_t unit;
        char letter;
    } fixed[] = {
        {"fixed_length_utf32", STK__KIND_TEXT, 4, 'U'},
        {"null_terminated_bytes", STK__KIND_BYTES, 1, 'S'},
        {"fixed_length_ascii", STK__KIND_BYTES, 1, 'S'},
        {"raw_bytes", STK__KIND_RAW, 1, 'V'},
    };
    bool delta = !strcmp(name, "numpy.timedelta64");

    if (delta || !strcmp(name, "numpy.datetime64")) {
        const char *unit = json_string_value(json_object_get(configuration, "unit"));
        const json_t *factor = json_object_get(configuration, "scale_factor");
        if (!unit || !set_time(out, delta, unit, factor ? json_integer_value(factor) : 1))
            return refuse(key, name, "its unit or scale_factor is not one of NumPy's", err);
        return STK_OK;
    }
    for (size_t i = 0; i < STK_COUNT(fixed); i++) {
        if (strcmp(name, fixed[i].name) != 0)
            continue;
        json_int_t n = json_integer_value(json_object_get(configuration, "length_bytes"));
        if (n < 1 || n % fixed[i].unit != 0 ||
            !set_bytes(out, fixed[i].kind, (uint64_t)n / fixed[i].unit, fixed[i].unit,
                       fixed[i].letter))
            return too_long(key, name, err);
        return STK_OK;
    }
    if (!strcmp(name, "optional") || !strcmp(name, "zarrs.optional"))
        return set_optional(configuration, key, out, err);
    if (!strcmp(name, "struct") || !strcmp(name, "structured"))
        return set_record(json_object_get(configuration, "fields"), 3, key, out, err);
    return refuse(key, name, "write it as a core data type of Zarr v3", err);
}

stk_status stk__type_v3(const json_t *data_type, const char *key, stk__type *out, stk_error *err)
{
    const json_t *configuration = json_object_get(data_type, "configuration");
    const char *name = json_string_value(
        json_is_object(data_type) ? json_object_get(data_type, "name") : data_type);

    memset(out, 0, sizeof *out);
    if (!name)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "%s: 'data_type' is neither a name nor an object with one", key);
    stk_dtype dtype = stk_dtype_parse(name);
    if (dtype != STK_DTYPE_NONE) {
        set_dtype(out, dtype);
        return STK_OK;
    }
    if (!strcmp(name, "string") || !strcmp(name, "bytes") ||
        !strcmp(name, "variable_length_bytes")) {
        stk__type_set_varying(out, name[0] == 's');
        return STK_OK;
    }
    if (name[0] == 'r' && name[1] >= '0' && name[1] <= '9')
        return set_raw_bits(out, name + 1) ? STK_OK : too_long(key, name, err);
    return configured_type(name, configuration, key, out, err);
}

void stk__type_to_v2(const stk__type *type, char code[STK__ARRAY_TYPE_NAME])
{
    static const char letters[] = {[STK__KIND_BOOL] = 'b',
                                   [STK__KIND_INT] = 'i',
                                   [STK__KIND_UINT] = 'u',
                                   [STK__KIND_FLOAT] = 'f',
                                   [STK__KIND_COMPLEX] = 'c'};
    const char order = type->swap_size > 1 ? '<' : '|', *unit = strchr(type->name, '[');

    if (type->kind == STK__KIND_TIME)
        snprintf(code, STK__ARRAY_TYPE_NAME, "<%c8%.40s", type->name[0] == 't' ? 'm' : 'M',
                 unit ? unit : "");
    else if (type->kind < STK__KIND_TIME)
        snprintf(code, STK__ARRAY_TYPE_NAME, "%c%c%u", order, letters[type->kind], type->itemsize);
    else
        snprintf(code, STK__ARRAY_TYPE_NAME, "%c%.40s", order, type->name);
}

/* Bytes and texts of fixed length, by the names that zarr-python registered. */
static json_t *fixed_to_v3(const stk__type *type)
{
    const char *name = type->kind == STK__KIND_TEXT    ? "fixed_length_utf32"
                       : type->kind == STK__KIND_BYTES ? "null_terminated_bytes"
                                                       : "raw_bytes";

    return json_pack("{s:s,s:{s:I}}", "name", name, "configuration", "length_bytes",
                     (json_int_t)type->itemsize);
}

json_t *stk__type_to_v3(const stk__type *type)
{
    char unit[STK__ARRAY_TYPE_NAME] = "";
    long long factor = 1;

    if (type->kind > STK__KIND_TIME)
        return fixed_to_v3(type);
    if (type->kind == STK__KIND_TIME) {
        bool delta = type->name[0] == 't';
        const char *at = strchr(type->name, '[');
        if (!at)
            return json_pack("{s:s,s:{s:s,s:i}}", "name",
                             delta ? "numpy.timedelta64" : "numpy.datetime64", "configuration",
                             "unit", "generic", "scale_factor", 1);
        if (at[1] >= '0' && at[1] <= '9')
            for (factor = 0; at[1] >= '0' && at[1] <= '9'; at++)
                factor = factor * 10 + (at[1] - '0');
        snprintf(unit, sizeof unit, "%s", at + 1);
        unit[strcspn(unit, "]")] = 0;
        return json_pack("{s:s,s:{s:s,s:I}}", "name",
                         delta ? "numpy.timedelta64" : "numpy.datetime64", "configuration", "unit",
                         unit, "scale_factor", (json_int_t)factor);
    }
    return json_string(type->name);
}

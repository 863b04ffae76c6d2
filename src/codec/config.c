/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a codec's configuration, held against what they may be. */
#include <math.h>

#include <jansson.h>

#include "codec/config.h"
#include "codec/number.h"

stk_status stk__config_wrong(stk__builder *b, const char *key, const char *what)
{
    return stk__fail_at(b->err, STK_EFORMAT, STK_STAGE_CODEC, b->spec->key, STK_NO_OFFSET,
                        "%s: codec \"%.128s\": \"%s\" %s; mend the metadata", b->spec->key,
                        b->codec, key, what);
}

/* netcdf-c writes some numbers as texts. */
static bool digits(const char *text, int64_t *value)
{
    *value = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || *value > INT32_MAX)
            return false;
        *value = *value * 10 + (*p - '0');
    }
    return *text != 0;
}

stk_status stk__config_int(stk__builder *b, const json_t *config, const char *key, int64_t least,
                           int64_t most, int64_t *value)
{
    const json_t *v = json_object_get(config, key);
    int64_t x = json_integer_value(v);

    if (!v || json_is_null(v))
        return STK_OK;
    bool good = json_is_integer(v) || (json_is_string(v) && digits(json_string_value(v), &x));
    if (!good || x < least || x > most)
        return stk__config_wrong(b, key, "is not an integer in the codec's range");
    *value = x;
    return STK_OK;
}

/* Levels beyond the range are those at its ends, as numcodecs has it. */
stk_status stk__config_level(stk__builder *b, const json_t *config, const char *key, int64_t least,
                             int64_t most, int64_t *level)
{
    STK_TRY(stk__config_int(b, config, key, INT64_MIN, INT64_MAX, level));
    *level = STK_MAX(least, STK_MIN(*level, most));
    return STK_OK;
}

stk_status stk__config_number(stk__builder *b, const json_t *config, const char *key, double *value,
                              int64_t *integer, bool *is_integer)
{
    const json_t *v = json_object_get(config, key);

    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return stk__config_wrong(b, key, "is missing or not a number");
    *value = json_number_value(v);
    *integer = json_is_integer(v) ? json_integer_value(v) : 0;
    *is_integer = *is_integer && json_is_integer(v);
    return STK_OK;
}

stk_status stk__config_type(stk__builder *b, const json_t *config, const char *key,
                            stk__number *number)
{
    const json_t *v = json_object_get(config, key);

    if (!v || json_is_null(v))
        return number->kind ? STK_OK : stk__config_wrong(b, key, "is missing");
    if (!json_is_string(v))
        return stk__config_wrong(b, key, "is not a type");
    if (!stk__number_parse(json_string_value(v), number))
        return stk__chain_refuse(
            b, STK_EKIND,
            "its type is not one of bool, integers and floats of 1 to 8 bytes; "
            "write the array without this filter");
    return STK_OK;
}

stk_status stk__config_values(stk__builder *b, const json_t *config, size_t least, uint32_t *values,
                              size_t most, size_t *count)
{
    const json_t *list = json_object_get(config, "values");

    if (!json_is_array(list) || json_array_size(list) < least)
        return stk__config_wrong(b, "values", "is not a list with all that the filter takes");
    const size_t n = STK_MIN(json_array_size(list), most);
    if (count)
        *count = n;
    memset(values, 0, most * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
            return stk__config_wrong(b, "values", "holds one that is no number of 32 bits");
        values[i] = (uint32_t)json_integer_value(v);
    }
    return STK_OK;
}

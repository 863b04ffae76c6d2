/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are lists: names of columns, and what stands behind them. */
#include "dataset/table/listed.h"

bool stk__table_take_name(const char **at, const char *stops, const char **name, size_t *length)
{
    const bool quoted = **at == '`';

    *name = *at + quoted;
    *length = strcspn(*name, quoted ? "`" : stops);
    *at = *name + *length;
    if (quoted && !**at)
        return false;
    *at += quoted;
    return !**at || strchr(stops, **at);
}

static bool type_of(const char *text, size_t length, stk__table_typed *out)
{
    static const stk_dtype types[] = {STK_BOOL,   STK_INT8,    STK_INT16,  STK_INT32,
                                      STK_INT64,  STK_UINT8,   STK_UINT16, STK_UINT32,
                                      STK_UINT64, STK_FLOAT32, STK_FLOAT64};

    out->list = length > 2 && memcmp(text + length - 2, "[]", 2) == 0;
    length -= out->list ? 2 : 0;
    out->dtype = STK_DTYPE_NONE;
    out->text = length == 4 && memcmp(text, "text", 4) == 0;
    if (out->text || (length == 5 && memcmp(text, "bytes", 5) == 0))
        return !out->list;
    for (size_t i = 0; i < STK_COUNT(types) && out->dtype == STK_DTYPE_NONE; i++)
        if (strlen(stk_dtype_name(types[i])) == length &&
            memcmp(stk_dtype_name(types[i]), text, length) == 0)
            out->dtype = types[i];
    return out->dtype != STK_DTYPE_NONE;
}

stk_status stk__table_next_type(const char **at, bool lists, stk__table_typed *out, stk_error *err)
{
    const char *begin = *at, *type = begin;
    bool good = true;

    if (*begin == '`') {
        good = stk__table_take_name(&type, ":", &out->name, &out->length);
    } else { /* a name may have colons, a type has none */
        out->name = begin;
        type = begin + strcspn(begin, ",");
        while (type > begin && *type != ':')
            type--;
        out->length = (size_t)(type - begin);
    }
    *at = type + strcspn(type, ",");
    good = good && *type == ':' && out->length;
    if (!good || !type_of(type + 1, (size_t)(*at - type - 1), out) || (out->list && !lists))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "types", STK_NO_OFFSET,
                            "types: '%.*s' is no COLUMN:TYPE of bool, int8 to uint64, float32, "
                            "float64, text or bytes%s",
                            (int)STK_MIN(strcspn(begin, ","), 100), begin,
                            lists ? ", or of lists as int32[]" : "");
    *at += **at == ',';
    return STK_OK;
}

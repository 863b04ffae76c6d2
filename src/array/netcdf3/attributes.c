/* SPDX-License-Identifier: Apache-2.0 */
#include "array/netcdf3/netcdf3.h"

#include "base/text.h"

/* Bytes of a text up to the first zero, which pads it in files of some programs. */
static void add_text(stk__text *out, const unsigned char *bytes, uint64_t length)
{
    const unsigned char *end = memchr(bytes, 0, length);
    stk__text copy = {.ctx = out->ctx};

    stk__text_put(&copy, (const char *)bytes, end ? (size_t)(end - bytes) : (size_t)length);
    stk__text_put(&copy, "", 1);
    if (copy.failed)
        out->failed = true;
    else
        stk__text_add_json(out, copy.bytes);
    stk__text_release(&copy);
}

static void add_value(stk__text *out, const stk__netcdf3_type *type, const unsigned char *at)
{
    const uint64_t bits = stk__big_endian(at, type->bytes);
    const unsigned unused = 64 - 8 * type->bytes;
    const char kind = type->name[0] == '>' ? type->name[1] : type->name[0];

    if (kind == 'f' && type->bytes == 4) {
        const uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        stk__text_add_real(out, (double)value);
    } else if (kind == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        stk__text_add_real(out, value);
    } else if (kind == 'u') {
        stk__text_add(out, "%llu", (unsigned long long)bits);
    } else {
        stk__text_add(out, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    }
}

static void add_attribute(stk__text *out, const stk__netcdf3_attribute *a)
{
    if (a->type->name[0] == 'S') {
        add_text(out, a->values, a->count);
        return;
    }
    if (a->count != 1)
        stk__text_add(out, "[");
    for (uint64_t i = 0; i < a->count; i++) {
        stk__text_add(out, i ? ", " : "");
        add_value(out, a->type, a->values + i * a->type->bytes);
    }
    if (a->count != 1)
        stk__text_add(out, "]");
}

void stk__netcdf3_attributes(const stk__netcdf3_list *list, stk__text *out)
{
    stk__text_add(out, "{");
    for (uint64_t i = 0; i < list->count; i++) {
        const stk__netcdf3_attribute *a = &list->attributes[i];
        stk__text_add(out, i ? ", " : "");
        add_text(out, (const unsigned char *)a->name, a->name_length);
        stk__text_add(out, ": ");
        add_attribute(out, a);
    }
    stk__text_add(out, "}");
}

const stk__netcdf3_attribute *stk__netcdf3_find(const stk__netcdf3_list *list, const char *name)
{
    const size_t length = strlen(name);

    for (uint64_t i = 0; i < list->count; i++)
        if (list->attributes[i].name_length == length &&
            memcmp(list->attributes[i].name, name, length) == 0)
            return &list->attributes[i];
    return NULL;
}

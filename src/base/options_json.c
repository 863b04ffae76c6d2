/* SPDX-License-Identifier: Apache-2.0 */
/* A member as a JSON value. */
#include "base/options.h"

/* A size, rate or duration without its unit: bytes, bytes a second, seconds. */
static void format_base(const stk_option *option, const void *options, uint32_t known, char *text,
                        size_t size)
{
    stk_option plain = *option;

    plain.type = option->type == STK_OPTION_SIZE ? STK_OPTION_UINT : STK_OPTION_DOUBLE;
    *text = 0;
    if (stk__option_in(option, known))
        stk_options_format(&plain, options, text, size);
}

void stk__option_add_json(stk__text *out, const stk_option *option, const void *options)
{
    const char *string = NULL;
    char value[64];
    uint32_t known;

    memcpy(&known, options, sizeof known);
    if (option->type == STK_OPTION_STRING && stk__option_in(option, known))
        memcpy(&string, (const char *)options + option->offset, sizeof string);
    if (option->type == STK_OPTION_SECRET && stk__option_in(option, known))
        memcpy(&string, (const char *)options + option->offset, sizeof string);
    if (option->type == STK_OPTION_SECRET && string)
        string = STK__SECRET_SHOWN;
    if (option->type == STK_OPTION_STRING || option->type == STK_OPTION_SECRET)
        *value = 0;
    else if (option->type == STK_OPTION_SIZE || option->type == STK_OPTION_RATE ||
             option->type == STK_OPTION_DURATION)
        format_base(option, options, known, value, sizeof value);
    else
        stk_options_format(option, options, value, sizeof value);
    if (string)
        stk__text_add_json(out, string);
    else if (!*value)
        stk__text_put(out, "null", 4);
    else if (option->type == STK_OPTION_ENUM || strcmp(value, "auto") == 0)
        stk__text_add_json(out, value);
    else
        stk__text_put(out, value, strlen(value));
}

int stk_options_format_json(const stk_option *option, const void *options, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    stk__option_add_json(&out, option, options);
    return (int)out.length;
}

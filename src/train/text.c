/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of "key value": how states without tensors are kept. Doubles are their 64 bits in
 * hexadecimal: they read back as they were, in any locale. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/train.h"

static bool make_room(stk__text *text, size_t more)
{
    if (text->length + more + 1 <= text->room)
        return true;
    const size_t room = text->room * 2 + more + 256;
    char *bytes = stk__realloc(text->ctx, text->bytes, room);
    if (!bytes)
        return false;
    text->bytes = bytes;
    text->room = room;
    return true;
}

void stk__text_add(stk__text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (text->failed || length < 0 || !make_room(text, (size_t)length)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void stk__text_release(stk__text *text)
{
    stk__free(text->ctx, text->bytes);
    text->bytes = NULL;
    text->length = text->room = 0;
}

const char *stk__text_find(const char *text, const char *key)
{
    const size_t length = strlen(key);

    while (text && *text) {
        if (strncmp(text, key, length) == 0 && text[length] == ' ')
            return text + length + 1;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return NULL;
}

bool stk__text_uint(const char *text, const char *key, uint64_t *out)
{
    const char *at = stk__text_find(text, key);
    char *end;

    if (!at || *at < '0' || *at > '9')
        return false;
    *out = strtoull(at, &end, 10);
    return *end == '\n' || *end == ' ' || *end == 0;
}

void stk__text_add_double(stk__text *text, const char *key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    stk__text_add(text, "%s %016llx\n", key, (unsigned long long)bits);
}

bool stk__text_double(const char *text, const char *key, double *out)
{
    const char *at = stk__text_find(text, key);

    return at && stk__text_bits(at, out);
}

bool stk__text_bits(const char *at, double *out)
{
    char *end;
    const uint64_t bits = strtoull(at, &end, 16);

    if (end - at != 16)
        return false;
    memcpy(out, &bits, sizeof bits);
    return true;
}

char *stk__text_copy(stk_context *ctx, const char *text, const char *key)
{
    const char *at = stk__text_find(text, key);

    return at ? stk__format(ctx, "%.*s", (int)strcspn(at, "\n"), at) : NULL;
}

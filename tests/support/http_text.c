/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/http_parts.h"

static bool room(http_text *text, size_t more)
{
    if (text->failed || text->size - text->length > more)
        return !text->failed;
    size_t size = text->size ? text->size : 512;
    while (size - text->length <= more)
        size *= 2;
    char *data = realloc(text->data, size);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->size = size;
    return true;
}

void http_text_bytes(http_text *text, const void *data, size_t length)
{
    if (!room(text, length))
        return;
    if (length)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

void http_text_add(http_text *text, const char *format, ...)
{
    va_list arguments;

    if (!room(text, 0))
        return;
    va_start(arguments, format);
    const int n =
        vsnprintf(text->data + text->length, text->size - text->length, format, arguments);
    va_end(arguments);
    if ((size_t)n >= text->size - text->length) {
        if (!room(text, (size_t)n))
            return;
        va_start(arguments, format);
        vsnprintf(text->data + text->length, text->size - text->length, format, arguments);
        va_end(arguments);
    }
    text->length += (size_t)n;
}

void http_text_free(http_text *text)
{
    free(text->data);
    *text = (http_text){0};
}

char *http_body_text(const http_request *request)
{
    char *text = malloc(request->body_length + 1);

    if (!text)
        return NULL;
    if (request->body_length)
        memcpy(text, request->body, request->body_length);
    text[request->body_length] = 0;
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void http_text_decode(http_text *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (c == '%' && i + 2 < length && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            c = (char)(16 * digit(text[i + 1]) + digit(text[i + 2]));
            i += 2;
        }
        http_text_bytes(out, &c, 1);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                  url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int base64_digit(char c)
{
    const char *at = c ? strchr(base64_digits, c) : NULL;

    return at ? (int)(at - base64_digits) : -1;
}

/* The digits of up to three bytes; how many. */
static size_t digits_of(const unsigned char *from, size_t n, const char *digits, char out[4])
{
    uint32_t bits = (uint32_t)from[0] << 16;

    bits |= n > 1 ? (uint32_t)from[1] << 8 : 0;
    bits |= n > 2 ? from[2] : 0;
    for (size_t i = 0; i < 4; i++)
        out[i] = digits[bits >> (18 - 6 * i) & 63];
    return STK_MIN(n, 3) + 1;
}

void stk__text_add_base64(stk__text *text, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    char digits[4];

    for (size_t i = 0; i < size; i += 3) {
        for (size_t n = digits_of(from + i, size - i, base64_digits, digits); n < 4; n++)
            digits[n] = '=';
        stk__text_put(text, digits, 4);
    }
}

char *stk__base64_text(stk_context *ctx, const void *bytes, size_t size)
{
    stk__text text = {.room = (size + 2) / 3 * 4 + 1};

    text.bytes = stk__alloc(ctx, text.room);
    if (text.bytes) {
        text.bytes[0] = 0;
        stk__text_add_base64(&text, bytes, size);
    }
    return text.bytes;
}

void stk__text_add_base64url(stk__text *text, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    char digits[4];

    for (size_t i = 0; i < size; i += 3)
        stk__text_put(text, digits, digits_of(from + i, size - i, url_digits, digits));
}

/* Without what pads them. */
static size_t count_digits(const char *text)
{
    size_t length = strlen(text);

    while (length && text[length - 1] == '=')
        length--;
    return length;
}

size_t stk__base64_bytes(const char *text)
{
    const size_t digits = count_digits(text);

    return digits / 4 * 3 + digits % 4 * 3 / 4;
}

bool stk__base64_parse(const char *text, uint32_t size, unsigned char *out)
{
    const size_t length = count_digits(text);
    uint32_t bits = 0, count = 0;
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        if (n == size)
            return false;
        out[n++] = (unsigned char)(bits >> count);
        bits &= (1u << count) - 1;
    }
    return true;
}

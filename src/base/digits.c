/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digits.h"

static const char hexadecimal[] = "0123456789abcdef";

bool stk__hex_number(const char *text, unsigned digits, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++) {
        const char *digit = memchr(hexadecimal, text[i], 16);
        if (!digit)
            return false;
        *out = *out << 4 | (uint64_t)(digit - hexadecimal);
    }
    return true;
}

void stk__hex_text(const void *bytes, size_t size, char *text)
{
    const uint8_t *from = bytes;

    for (size_t i = 0; i < size; i++) {
        *text++ = hexadecimal[from[i] >> 4];
        *text++ = hexadecimal[from[i] & 15];
    }
    *text = 0;
}

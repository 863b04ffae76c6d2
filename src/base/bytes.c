/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool stk__bytes_reserve(stk__bytes *bytes, uint64_t more)
{
    uint64_t wanted;

    if (bytes->data && more <= bytes->room - bytes->length)
        return true;
    if (!stk__add_size(bytes->length, more, &wanted) || wanted > SIZE_MAX / 4)
        return false;
    wanted = STK_MAX(2 * wanted, UINT64_C(256));
    char *grown = stk__realloc(bytes->ctx, bytes->data, wanted);
    if (!grown)
        return false;
    bytes->data = grown;
    bytes->room = wanted;
    return true;
}

bool stk__bytes_put(stk__bytes *bytes, const void *data, size_t length)
{
    if (!stk__bytes_reserve(bytes, length))
        return false;
    if (length)
        memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
    return true;
}

bool stk__bytes_text(stk__bytes *bytes, const char *text)
{
    return stk__bytes_put(bytes, text, strlen(text));
}

void stk__bytes_release(stk__bytes *bytes)
{
    stk__free(bytes->ctx, bytes->data);
    *bytes = (stk__bytes){.ctx = bytes->ctx};
}

int stk__bytes_write(stk__bytes *bytes, int fd)
{
    size_t done = 0;

    while (done < bytes->length) {
        ssize_t n = write(fd, bytes->data + done, bytes->length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return -1;
        }
        done += (size_t)n;
    }
    bytes->length = 0;
    return 0;
}

void stk__double_text(char text[STK__DOUBLE_TEXT], double value)
{
    if (isnan(value)) {
        snprintf(text, STK__DOUBLE_TEXT, "nan");
        return;
    }
    if (isinf(value)) {
        snprintf(text, STK__DOUBLE_TEXT, "%s", value < 0 ? "-inf" : "inf");
        return;
    }
    /* Numbers of a float have few digits more often than not; 17 are always enough. */
    static const int digits[] = {6, 15, 16, 17};
    for (size_t i = 0; i < STK_COUNT(digits); i++) {
        snprintf(text, STK__DOUBLE_TEXT, "%.*g", digits[i], value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* The locale's sign may be of several bytes. */
    char *sign = text + strspn(text, "+-0123456789e");
    if (*sign) {
        char *rest = sign + strcspn(sign, "+-0123456789e");
        *sign = '.';
        memmove(sign + 1, rest, strlen(rest) + 1);
    }
}

bool stk__utf8_valid(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t n = stk__utf8_character(text + i, length - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

bool stk__bytes_clean(stk__bytes *bytes, const char *text)
{
    size_t left = strlen(text);
    bool good = stk__bytes_reserve(bytes, left);

    while (left > 0 && good) {
        size_t n = stk__utf8_character(text, left);
        good = n ? stk__bytes_put(bytes, text, n) : stk__bytes_put(bytes, "?", 1);
        n = STK_MAX(n, (size_t)1);
        text += n;
        left -= n;
    }
    return good;
}

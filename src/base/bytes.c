/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <errno.h>
#include <unistd.h>

bool stk__bytes_reserve(stk__bytes *bytes, uint64_t more)
{
    uint64_t wanted;

    if (bytes->data && more <= bytes->room - bytes->length)
        return true;
    if (!stk__add_size(bytes->length, more, &wanted) || wanted > SIZE_MAX / 4)
        return false;
    char *grown =
        stk__grow(bytes->ctx, bytes->data, &bytes->room, STK_MAX(wanted, UINT64_C(256)), 1);
    if (!grown)
        return false;
    bytes->data = grown;
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

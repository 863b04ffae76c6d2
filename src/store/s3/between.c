/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/between.h"

#define PLACES 6 /* letters that are reckoned with; 94 of them to this power are less than 2^40 */

/* The letters of a place in order, as the digits of a number. */
typedef struct digits {
    unsigned count;
    char letters[128];
} digits;

static bool within(const bool *seen, char first, char last)
{
    bool any = false;

    for (char c = first; c <= last; c++)
        any |= seen[(int)c];
    return any;
}

/* Of each kind of letter that was seen all: of numbers in base 16 up to 'f'. */
static void fill_digits(const bool *seen, digits *d)
{
    const bool number = within(seen, '0', '9');
    const char last = number && !within(seen, 'g', 'z') ? 'f' : 'z';
    const char high = number && !within(seen, 'G', 'Z') ? 'F' : 'Z';
    const bool small = within(seen, 'a', 'z'), capital = within(seen, 'A', 'Z');

    d->count = 0;
    for (char c = '!'; c < 127; c++) {
        const bool is = (number && c >= '0' && c <= '9') || (small && c >= 'a' && c <= last) ||
                        (capital && c >= 'A' && c <= high) || seen[(int)c];
        if (is)
            d->letters[d->count++] = c;
    }
}

void stk__s3_letters_see(stk__s3_letters *letters, const char *key, size_t from)
{
    const size_t length = strlen(key), end = STK_MIN(length, from + STK__S3_PLACES);

    for (size_t i = from; i < end; i++) {
        const unsigned char c = (unsigned char)key[i];
        if (c > ' ' && c < 127 && c != '/')
            letters->seen[i - from][c] = true;
    }
}

/* What the letters of a text amount to; behind its end, and below all letters, are zeros. */
static uint64_t number_of(const digits *d, int places, const char *text)
{
    uint64_t number = 0;

    for (int i = 0; i < places; i++) {
        unsigned digit = 0;
        while (digit + 1 < d[i].count && *text &&
               (unsigned char)d[i].letters[digit] < (unsigned char)*text)
            digit++;
        number = number * d[i].count + digit;
        text += *text != 0;
    }
    return number;
}

/* Bytes that two texts have in common, up to where a folder ends. They may end within a character
 * of UTF-8: what is ASCII then lies before both, and is no key between them. */
static size_t common(const char *a, const char *b, size_t from)
{
    size_t n = 0;

    while (a[n] && a[n] == b[n] && (n < from || a[n] != '/'))
        n++;
    return n;
}

/* Without a bound: what two keys have in common may be all that all have, but for numbers. */
static size_t without_number(const char *key, size_t from, size_t length)
{
    while (length > from && ((key[length - 1] >= '0' && key[length - 1] <= '9') ||
                             (key[length - 1] >= 'a' && key[length - 1] <= 'f')))
        length--;
    return length;
}

bool stk__s3_between(const stk__s3_letters *letters, const char *first, const char *low,
                     const char *high, size_t from, char out[STK_MAX_OBJECT_KEY])
{
    size_t same = common(low, *high ? high : first, from);
    uint64_t all = 1;
    digits d[PLACES];
    int places = 0;

    if (same < from || same + PLACES >= STK_MAX_OBJECT_KEY)
        return false;
    if (!*high)
        same = without_number(low, from, same);
    for (; places < PLACES && same - from + (size_t)places < STK__S3_PLACES; places++) {
        fill_digits(letters->seen[same - from + (size_t)places], &d[places]);
        if (!d[places].count)
            break;
        all *= d[places].count;
    }
    const uint64_t least = number_of(d, places, low + same);
    const uint64_t most = *high ? number_of(d, places, high + same) : all;
    uint64_t middle = least + (most - STK_MIN(least, most)) / 2;
    memcpy(out, low, same);
    for (int i = places; i-- > 0; middle /= d[i].count)
        out[same + (size_t)i] = d[i].letters[middle % d[i].count];
    out[same + (size_t)places] = 0;
    return strcmp(out, low) > 0 && (!*high || strcmp(out, high) < 0);
}

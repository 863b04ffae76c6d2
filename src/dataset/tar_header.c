/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/tar_header.h"

#include "base/files.h"

/* A header: where its fields lie, and how long they are. */
#define NAME_AT    0
#define NAME_BYTES 100
#define SIZE_AT    124
#define SIZE_BYTES 12
#define SUM_AT     148
#define SUM_BYTES  8
#define TYPE_AT    156
#define MAGIC_AT   257
#define PREFIX_AT  345
#define PREFIX     155

#define MAX_PAX_DIGITS 19 /* of the length of a record, which 64 bits hold */

static const char posix_magic[] = "ustar\0" /* and its version */ "00";
static const char gnu_magic[] = "ustar  ";

/* Octal digits up to a space or a zero byte, spaces in front. False: something else. */
static bool octal(const unsigned char *field, size_t length, uint64_t *out)
{
    size_t i = 0;

    *out = 0;
    while (i < length && field[i] == ' ')
        i++;
    const size_t begin = i;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        *out = *out << 3 | (uint64_t)(field[i] - '0');
    const bool any = i > begin;
    while (i < length && (field[i] == ' ' || field[i] == 0))
        i++;
    return any && i == length;
}

/* Of base 256: the first bit is set, the rest is the number. False: negative, or beyond INT64_MAX.
 */
static bool base_256(const unsigned char *field, size_t length, uint64_t *out)
{
    *out = 0;
    if (field[0] != 0x80 || !stk__all_zero(field + 1, length - 1 - sizeof *out))
        return false;
    *out = stk__big_endian(field + length - sizeof *out, sizeof *out);
    return *out <= INT64_MAX;
}

/* The sum of the header's bytes, its own place taken for spaces. */
static bool sum_matches(const unsigned char *head)
{
    uint64_t wanted = 0, sum = 0;

    for (size_t i = 0; i < STK__TAR_BLOCK; i++)
        sum += head[i];
    for (size_t i = SUM_AT; i < SUM_AT + SUM_BYTES; i++)
        sum += (uint64_t)' ' - head[i];
    return octal(head + SUM_AT, SUM_BYTES, &wanted) && wanted == sum;
}

/* Append a field, which ends with a zero byte or is full. */
static void append(char *to, const unsigned char *field, size_t length)
{
    const size_t used = strlen(to), n = strnlen((const char *)field, length);

    memcpy(to + used, field, n);
    to[used + n] = 0;
}

bool stk__tar_is_below(char *name)
{
    for (char *part = name; part;) {
        char *slash = strchr(part, '/');
        if (slash)
            *slash = 0;
        const bool plain = stk__is_plain_name(part);
        if (slash)
            *slash = '/';
        if (!plain)
            return false;
        part = slash ? slash + 1 : NULL;
    }
    return true;
}

stk_status stk__tar_head_read(const unsigned char *head, stk__tar_head *out, const char **what)
{
    const unsigned char *magic = head + MAGIC_AT, *size = head + SIZE_AT;
    const bool posix = memcmp(magic, posix_magic, sizeof posix_magic - 1) == 0;

    *what = "a header whose sum does not match";
    if (!sum_matches(head))
        return STK_ECHECKSUM;
    *what = "an unknown kind of header";
    if (magic[0] && !posix && memcmp(magic, gnu_magic, sizeof gnu_magic) != 0)
        return STK_EFORMAT;
    out->name[0] = 0;
    out->split = posix && head[PREFIX_AT];
    if (out->split) {
        append(out->name, head + PREFIX_AT, PREFIX);
        append(out->name, (const unsigned char *)"/", 1);
    }
    append(out->name, head + NAME_AT, NAME_BYTES);
    out->type = head[TYPE_AT];
    out->binary = size[0] & 0x80;
    out->sized = (out->binary ? base_256 : octal)(size, SIZE_BYTES, &out->size);
    return STK_OK;
}

bool stk__tar_pax_next(const char **at, const char *end, stk__tar_pax *out)
{
    const char *begin = *at, *p = begin;
    uint64_t length = 0;

    for (; p < end && *p >= '0' && *p <= '9' && p - begin < MAX_PAX_DIGITS; p++)
        length = length * 10 + (uint64_t)(*p - '0');
    if (p == begin || p == end || *p != ' ' || length > (uint64_t)(end - begin) ||
        length < (uint64_t)(p - begin) + 4 || begin[length - 1] != '\n')
        return false;
    const char *last = begin + length - 1;
    const char *equals = memchr(p + 1, '=', (size_t)(last - p - 1));
    if (!equals || equals == p + 1)
        return false;
    *out = (stk__tar_pax){.key = p + 1,
                          .key_length = (size_t)(equals - p - 1),
                          .value = equals + 1,
                          .value_length = (size_t)(last - equals - 1)};
    *at = begin + length;
    return true;
}

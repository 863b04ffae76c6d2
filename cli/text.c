/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign text: names of files, keys, attributes, strings of logs, and errors that quote them may
 * hold anything. All that the command prints goes through cli_text_clean(), be it by the stream
 * that cli->out is, or line by line in console.c: nothing of it steers a terminal or hides what
 * is there.
 */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"

#define LONGEST 4 /* bytes of a UTF-8 character */

/* Bytes of the UTF-8 character at `p` [RFC 3629] and its number. 0: it is broken; -1: it goes on
 * behind `n`. */
static int decode(const unsigned char *p, size_t n, uint32_t *out)
{
    const int length = *p < 0x80                 ? 1
                       : *p >= 0xc2 && *p < 0xe0 ? 2
                       : *p >= 0xe0 && *p < 0xf0 ? 3
                       : *p >= 0xf0 && *p < 0xf5 ? 4
                                                 : 0;

    *out = length == 1 ? *p : *p & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i == n)
            return -1;
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *out = *out << 6 | (p[i] & 0x3f);
    }
    if ((length == 3 && *out < 0x800) || (length == 4 && *out < 0x10000) || *out > 0x10ffff ||
        (*out >= 0xd800 && *out < 0xe000))
        return 0;
    return length;
}

/* Controls of terminals [ECMA-48: C0, DEL, C1], line ends of Unicode, and marks that turn the
 * direction of what follows. */
static bool steers(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t cli_text_character(const char *text, uint32_t *out)
{
    const int length = decode((const unsigned char *)text, LONGEST, out);

    return length > 0 ? (size_t)length : 0;
}

bool cli_text_steers(uint32_t character)
{
    return steers(character);
}

size_t cli_text_width(const char *text)
{
    static locale_t
        utf8; /* has what Unicode says of characters, whatever locale the system is set to */
    size_t width = 0;

    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    const locale_t before = uselocale(utf8); /* 0: it stays */
    while (*text) {
        uint32_t c;
        const size_t length = cli_text_character(text, &c);
        const int columns = length && !steers(c) ? wcwidth((wchar_t)c) : 1;
        width += columns < 0 ? 1 : (size_t)columns;
        text += length ? length : 1;
    }
    uselocale(before);
    return width;
}

/* Copy what is whole of `n` bytes, cleaned; returns the bytes taken. `lines`: line ends and tabs
 * stay. */
static size_t clean(const char *from, size_t n, bool lines, char *to, size_t *length)
{
    size_t at = 0, used = 0;

    while (at < n) {
        uint32_t c;
        const int bytes = decode((const unsigned char *)from + at, n - at, &c);
        if (bytes < 0)
            break;
        if (bytes == 0 || (steers(c) && !(lines && (c == '\n' || c == '\t')))) {
            to[used++] = '?';
            at += bytes ? (size_t)bytes : 1;
            continue;
        }
        memmove(to + used, from + at, (size_t)bytes);
        used += (size_t)bytes;
        at += (size_t)bytes;
    }
    *length = used;
    return at;
}

bool cli_ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);

    return length > tail && strcmp(text + length - tail, end) == 0;
}

size_t cli_text_clean(char *text)
{
    const size_t n = strlen(text);
    size_t length, at = clean(text, n, false, text, &length);

    /* The end of a text that was cut inside a character. */
    for (; at < n; at++)
        text[length++] = '?';
    text[length] = 0;
    return length;
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct stream {
    FILE *self, *to;
    char rest[LONGEST]; /* of a character whose end was not written yet */
    size_t num_rest;
    struct stream *next;
};

/* Those that are open; the command opens and closes them in one thread. */
static struct stream *streams;

static ssize_t write_clean(void *cookie, const char *bytes, size_t size)
{
    struct stream *s = cookie;
    char *from = malloc(2 * (s->num_rest + size));
    size_t n = s->num_rest + size, length;

    if (!from) {
        errno = ENOMEM;
        return 0;
    }
    memcpy(from, s->rest, s->num_rest);
    memcpy(from + s->num_rest, bytes, size);
    const size_t at = clean(from, n, true, from + n, &length);
    s->num_rest = n - at;
    memcpy(s->rest, from + at, s->num_rest);
    const bool good = fwrite(from + n, 1, length, s->to) == length && fflush(s->to) == 0;
    free(from);
    return good ? (ssize_t)size : 0;
}

static int close_clean(void *cookie)
{
    struct stream *s = cookie, **at = &streams;
    const bool good = s->num_rest == 0 || fputc('?', s->to) == '?';

    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    free(s);
    return good ? 0 : EOF;
}

FILE *cli_text_stream(FILE *to)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->to = to;
    s->self =
        fopencookie(s, "w", (cookie_io_functions_t){.write = write_clean, .close = close_clean});
    if (!s->self) {
        free(s);
        return NULL;
    }
    if (isatty(fileno(to)))
        setvbuf(s->self, NULL, _IOLBF, 0);
    s->next = streams;
    streams = s;
    return s->self;
}

FILE *cli_text_below(FILE *stream)
{
    for (struct stream *s = streams; s; s = s->next)
        if (s->self == stream)
            return s->to;
    return stream;
}

/* ---- Colour ---------------------------------------------------------------------------------- */

bool cli_coloured(FILE *stream)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    const int fd = fileno(cli_text_below(stream));

    return !(no && *no) && term && *term && strcmp(term, "dumb") != 0 && fd >= 0 && isatty(fd);
}

const char *cli_style_code(enum cli_style style)
{
    static const char *const codes[] = {"\033[m", "\033[1m", "\033[1;31m", "\033[1;33m"};

    return codes[style];
}

void cli_style(FILE *out, enum cli_style style)
{
    if (!cli_coloured(out))
        return;
    /* Past what takes such bytes out of a text. */
    fflush(out);
    fputs(cli_style_code(style), cli_text_below(out));
}

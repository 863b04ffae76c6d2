/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of bytes -> the JSON objects in it. */
#include "measure/read.h"

/* Where an object begins that was torn or written into another one. */
static const char mark[] = "{\"event\"";
#define MARK (sizeof mark - 1)

char *stk__scanner_room(stk__scanner *s, size_t *size)
{
    if (s->begin) {
        memmove(s->buffer, s->buffer + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
    }
    *size = STK__SCAN_ROOM - s->end;
    return s->buffer + s->end;
}

static void count_dropped(stk__scanner *s, size_t n)
{
    s->dropped_bytes += n;
    s->dropped_pieces += n && !s->dropping;
    s->dropping |= n > 0;
    s->begin += n;
    s->fresh = false;
}

/*
 * Pass over what is no object: to the end of the line or to the next object of a log, whichever
 * comes first. False when more bytes are needed to see either.
 */
static bool drop(stk__scanner *s)
{
    const char *at = s->buffer + s->begin, *end = s->buffer + s->end;
    const char *line = memchr(at, '\n', (size_t)(end - at));
    const char *limit = line ? line : end;
    const char *next = memmem(at + 1, (size_t)(limit - at) - 1, mark, MARK);

    if (next || line) {
        count_dropped(s, (size_t)((next ? next : line) - at));
        return true;
    }
    /* The mark may lie across the end. */
    size_t n = (size_t)(end - at), keep = s->eof ? 0 : MARK - 1;
    count_dropped(s, n > keep ? n - keep : 0);
    return false;
}

/* Those inside a piece that is no object are part of it. */
static void skip_blanks(stk__scanner *s)
{
    for (; s->begin < s->end; s->begin++) {
        char c = s->buffer[s->begin];
        if (c == '\n')
            s->fresh = true, s->dropping = false;
        else if (s->dropping || (c != ' ' && c != '\t' && c != '\r'))
            return;
    }
}

/* Whether nothing but blanks follows on the line; *known is false when the bytes end before. */
static bool ends_line(const stk__scanner *s, const char *at, const char *limit, bool *known)
{
    while (at < limit && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    bool end = at == s->buffer + s->end;
    *known = !end || s->eof;
    return end ? s->eof : *at == '\n';
}

/* Within a piece that is no object only the mark begins one. */
static bool may_begin(const stk__scanner *s)
{
    size_t n = s->end - s->begin;

    return !s->dropping || (n >= MARK && memcmp(s->buffer + s->begin, mark, MARK) == 0);
}

bool stk__scanner_next(stk__scanner *s, stk__log_object *out)
{
    for (;;) {
        skip_blanks(s);
        const char *at = s->buffer + s->begin, *end = s->buffer + s->end, *stop;
        bool full = (size_t)(end - at) > STK__SCAN_OBJECT, known = true;
        stk__json_scanned result = STK__JSON_BAD;
        if (at == end)
            return false;
        if (full)
            end = at + STK__SCAN_OBJECT;
        if (may_begin(s))
            result = stk__json_scan(at, end, out->members, STK__SCAN_MEMBERS, &out->n, &stop);
        if (result == STK__JSON_DONE) {
            bool last = ends_line(s, stop, end, &known);
            if (known || full) {
                out->n = STK_MIN(out->n, STK__SCAN_MEMBERS);
                out->alone = s->fresh && last && !memchr(at, '\n', (size_t)(stop - at));
                s->fresh = s->dropping = false;
                s->begin += (size_t)(stop - at);
                return true;
            }
        }
        if (result != STK__JSON_BAD && !full && !s->eof)
            return false;
        s->truncated |= result == STK__JSON_MORE && s->eof;
        if (!drop(s))
            return false;
    }
}

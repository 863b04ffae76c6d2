/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/head.h"

#include <strings.h>
#include <xxhash.h>

#include "base/calendar.h"
#include "base/digits.h"

#define HOUR_NS   INT64_C(3600000000000)
#define MONTHS    "JanFebMarAprMayJunJulAugSepOctNovDec"
#define DATE_SIZE 29 /* bytes of an IMF-fixdate */

/* A number at *text, which moves behind it. */
static bool take_number(const char **text, uint64_t *out)
{
    const char *at = *text;

    if (!stk__is_digit(*at))
        return false;
    for (*out = 0; stk__is_digit(*at); at++)
        if (!stk__mul_size(*out, 10, out) || !stk__add_size(*out, (uint64_t)(*at - '0'), out))
            return false;
    *text = at;
    return true;
}

/* "bytes FIRST-LAST/TOTAL", "bytes FIRST-LAST" with an unknown total, "bytes" with no range [RFC
 * 9110, 14.4]. */
static bool read_range(const char *text, stk__http_head *head)
{
    if (strncasecmp(text, "bytes", 5) != 0 || (text[5] != ' ' && text[5] != '='))
        return false;
    text += 6;
    if (*text == '*') {
        text++;
        head->first = head->last = STK__HTTP_UNSAID;
    } else if (!take_number(&text, &head->first) || *text++ != '-' ||
               !take_number(&text, &head->last) || head->last < head->first ||
               head->last == STK__HTTP_UNSAID) {
        return false;
    }
    if (*text++ != '/')
        return false;
    if (*text == '*' && !text[1]) {
        head->total = STK__HTTP_UNSAID;
        return head->first != STK__HTTP_UNSAID;
    }
    return take_number(&text, &head->total) && !*text && head->total != STK__HTTP_UNSAID &&
           (head->first == STK__HTTP_UNSAID || head->last < head->total);
}

static bool take_two(const char *text, int *out)
{
    if (!stk__is_digit(text[0]) || !stk__is_digit(text[1]))
        return false;
    *out = (text[0] - '0') * 10 + text[1] - '0';
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" [RFC 9110, 5.6.7], Unix time. False: it is none. */
static bool read_date(const char *text, int64_t *out)
{
    stk__date date = {.given = STK__DATE_SECOND};
    int century, year;
    int64_t us;

    if (strlen(text) != DATE_SIZE || strcmp(text + 25, " GMT") != 0 || text[3] != ',' ||
        text[4] != ' ' || text[7] != ' ' || text[11] != ' ' || text[16] != ' ' || text[19] != ':' ||
        text[22] != ':')
        return false;
    for (const char *month = MONTHS; *month; month += 3)
        if (memcmp(month, text + 8, 3) == 0)
            date.month = (int)(month - MONTHS) / 3 + 1;
    if (!date.month || !take_two(text + 5, &date.day) || !take_two(text + 12, &century) ||
        !take_two(text + 14, &year) || !take_two(text + 17, &date.hour) ||
        !take_two(text + 20, &date.minute) || !take_two(text + 23, &date.second))
        return false;
    date.year = century * 100 + year;
    date.second = STK_MIN(date.second, 59); /* a leap second */
    if (!stk__calendar_instant(STK__CALENDAR_GREGORIAN, &date, &us))
        return false;
    return !__builtin_mul_overflow(us, INT64_C(1000), out);
}

bool stk__http_etag_strong(const char *etag)
{
    const size_t length = strlen(etag);

    return length >= 2 && etag[0] == '"' && etag[length - 1] == '"';
}

uint64_t stk__http_identity(const char *etag, uint64_t size, int64_t mtime_ns)
{
    uint64_t parts[2] = {size, (uint64_t)mtime_ns}, identity;

    if (etag[0] == 'W' && etag[1] == '/')
        etag += 2;
    if (*etag)
        identity = XXH3_64bits(etag, strlen(etag));
    else if (size != STK__HTTP_UNSAID)
        identity = XXH3_64bits(parts, sizeof parts);
    else
        return 0;
    return identity ? identity : 1;
}

uint64_t stk__http_retry_after(const stk__http_head *head, int64_t wall_ns)
{
    int64_t wait = 0;

    if (head->retry_after_s != STK__HTTP_UNSAID)
        return STK_MIN(head->retry_after_s, UINT64_C(3600)) * UINT64_C(1000000000);
    if (head->retry_at_ns) /* by the server's clock, where it says what that is */
        wait = head->retry_at_ns - (head->date_ns ? head->date_ns : wall_ns);
    return (uint64_t)STK_MIN(STK_MAX(wait, INT64_C(0)), HOUR_NS);
}

void stk__http_head_init(stk__http_head *head)
{
    *head = (stk__http_head){.first = STK__HTTP_UNSAID,
                             .last = STK__HTTP_UNSAID,
                             .total = STK__HTTP_UNSAID,
                             .length = STK__HTTP_UNSAID,
                             .retry_after_s = STK__HTTP_UNSAID};
}

/* A text that does not fit is not there: half a value is another one. */
static void keep(char *to, size_t size, const char *value)
{
    const size_t length = strlen(value);

    to[0] = 0;
    if (length < size)
        memcpy(to, value, length + 1);
}

static void take_value(stk__http_head *head, const char *name, const char *value)
{
    const char *at = value;
    uint64_t number;

    if (strcasecmp(name, "content-range") == 0) {
        head->has_range = read_range(value, head);
        head->wrong_range = !head->has_range;
        if (head->wrong_range)
            head->first = head->last = head->total = STK__HTTP_UNSAID;
    } else if (strcasecmp(name, "content-length") == 0) {
        head->length = take_number(&at, &number) && !*at ? number : STK__HTTP_UNSAID;
    } else if (strcasecmp(name, "content-encoding") == 0) {
        head->encoded = *value && strcasecmp(value, "identity") != 0;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        head->framed = true;
    } else if (strcasecmp(name, "retry-after") == 0) {
        if (take_number(&at, &number) && !*at)
            head->retry_after_s = number;
        else if (!read_date(value, &head->retry_at_ns))
            head->retry_at_ns = 0;
    } else if (strcasecmp(name, "last-modified") == 0) {
        if (!read_date(value, &head->mtime_ns))
            head->mtime_ns = 0;
    } else if (strcasecmp(name, "date") == 0) {
        if (!read_date(value, &head->date_ns))
            head->date_ns = 0;
    } else if (strcasecmp(name, "etag") == 0) {
        keep(head->etag, sizeof head->etag, value);
    } else if (strcasecmp(name, "x-amz-bucket-region") == 0) {
        keep(head->region, sizeof head->region, value);
    } else if (strcasecmp(name, "content-type") == 0) {
        keep(head->content_type, sizeof head->content_type, value);
    } else if (strcasecmp(name, "location") == 0) {
        keep(head->location, sizeof head->location, value);
    }
}

/* "HTTP/1.1 206 Partial Content", "HTTP/2 200" */
static bool take_status(stk__http_head *head, const char *line, size_t length)
{
    if (length < 6 || memcmp(line, "HTTP/", 5) != 0)
        return false;
    const char *space = memchr(line, ' ', length);
    stk__http_head_init(head);
    if (space && length - (size_t)(space - line) >= 4 && stk__is_digit(space[1]) &&
        stk__is_digit(space[2]) && stk__is_digit(space[3]))
        head->code = (space[1] - '0') * 100 + (space[2] - '0') * 10 + space[3] - '0';
    head->framed = line[5] >= '2'; /* HTTP/2 has frames */
    return true;
}

void stk__http_head_line(stk__http_head *head, const char *line, size_t length)
{
    char name[32], value[2048];

    while (length && strchr("\r\n \t", line[length - 1]))
        length--;
    if ((head->complete && head->code >= 200) || take_status(head, line, length))
        return; /* trailers begin no other head */
    if (length == 0) {
        head->complete = true;
        return;
    }
    const char *colon = memchr(line, ':', length);
    if (!colon || (size_t)(colon - line) >= sizeof name || memchr(line, 0, length))
        return;
    memcpy(name, line, (size_t)(colon - line));
    name[colon - line] = 0;
    const char *from = colon + 1, *const end = line + length;
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    if ((size_t)(end - from) >= sizeof value)
        return;
    memcpy(value, from, (size_t)(end - from));
    value[end - from] = 0;
    take_value(head, name, value);
}

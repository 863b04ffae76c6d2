/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/list.h"

#include "base/calendar.h"
#include "base/digits.h"
#include "base/lines.h"
#include "store/s3/xml.h"

/* Times of XML are ISO 8601 with a 'Z'; microseconds are enough. */
bool stk__s3_time(const char *text, int64_t *ns)
{
    stk__date date;
    int64_t instant;
    const size_t used = stk__date_read(text, &date);

    if (used == 0 || date.given < STK__DATE_SECOND || strcmp(text + used, "Z") != 0 ||
        !stk__calendar_instant(STK__CALENDAR_GREGORIAN, &date, &instant))
        return false;
    return !__builtin_mul_overflow(instant, INT64_C(1000), ns);
}

/* A page while it is read. */
typedef struct page {
    stk__xml xml;
    const char *where;
    bool escaped, truncated;
    bool given, late; /* entries came; in front of the word that their keys are escaped */
    char *next;
    /* The entry that is open. */
    stk__s3_entry entry;
    char key[STK_MAX_OBJECT_KEY * 3], etag[128];
    bool has_key, has_size;
} page;

static stk_status damaged(const page *p, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_STORE, p->where, STK_NO_OFFSET,
                        "the list of '%.200s' is no list as S3 has them: %s", p->where, what);
}

static bool take_bool(const stk__xml *xml, bool *out)
{
    char text[8];

    if (!stk__xml_text(xml, text, sizeof text))
        return false;
    *out = strcmp(text, "true") == 0;
    return *out || strcmp(text, "false") == 0;
}

/* Undo encoding-type=url in place: %XX, and '+' for a blank. */
static bool undo(char *text)
{
    char *to = text;

    for (const char *p = text; *p; p++) {
        if (*p == '%') {
            const int high = stk__hex_digit(p[1]), low = high < 0 ? -1 : stk__hex_digit(p[2]);
            if (low < 0 || high + low == 0)
                return false;
            *to++ = (char)(high << 4 | low);
            p += 2;
        } else {
            *to++ = *p == '+' ? ' ' : *p;
        }
    }
    *to = 0;
    return true;
}

static bool take_key(page *p)
{
    if (p->has_key || !stk__xml_text(&p->xml, p->key, sizeof p->key) || !p->key[0])
        return false;
    p->has_key = true;
    return !p->escaped || undo(p->key);
}

/* What ends within <Contents>. */
static const char *take_object(page *p)
{
    const stk__xml *xml = &p->xml;
    char text[64];
    const char *at = text;

    if (stk__xml_is(xml, "Key"))
        return take_key(p) ? NULL : "a key that is none";
    if (stk__xml_is(xml, "Size")) {
        p->has_size = stk__xml_text(xml, text, sizeof text) &&
                      stk__take_uint(&at, &p->entry.size) && !*at && p->entry.size <= INT64_MAX;
        return p->has_size ? NULL : "a size that is none";
    }
    if (stk__xml_is(xml, "LastModified"))
        return stk__xml_text(xml, text, sizeof text) && stk__s3_time(text, &p->entry.mtime_ns)
                   ? NULL
                   : "a time that is none";
    if (stk__xml_is(xml, "ETag"))
        return stk__xml_text(xml, p->etag, sizeof p->etag) ? NULL : "an ETag that is none";
    return NULL;
}

/* What ends right below the list. */
static const char *take_member(page *p)
{
    const stk__xml *xml = &p->xml;
    char text[16];

    if (stk__xml_is(xml, "IsTruncated"))
        return take_bool(xml, &p->truncated) ? NULL : "IsTruncated says neither true nor false";
    if (stk__xml_is(xml, "NextContinuationToken"))
        return stk__xml_text(xml, p->next, STK__S3_TOKEN) ? NULL : "a token that is too long";
    if (stk__xml_is(xml, "EncodingType")) {
        p->late |= !p->escaped && p->given;
        p->escaped = stk__xml_text(xml, text, sizeof text) && strcmp(text, "url") == 0;
        return p->escaped ? NULL : "an unknown EncodingType";
    }
    return NULL;
}

/* The object or folder that has ended; `each` NULL: it is only looked at. */
static stk_status give(page *p, bool folder, stk__s3_entry_fn *each, void *user, stk_error *err)
{
    p->given = true;
    p->entry.key = p->key;
    p->entry.etag = p->etag;
    p->entry.is_folder = folder;
    if (!p->has_key || (!folder && !p->has_size))
        return damaged(p, "an entry without key or size", err);
    return each ? each(user, &p->entry, err) : STK_OK;
}

static stk_status read_page(page *p, stk__s3_entry_fn *each, void *user, stk_error *err)
{
    stk__xml *xml = &p->xml;
    bool object = false, folder = false;
    stk__xml_event event;

    while ((event = stk__xml_next(xml)) < STK__XML_DONE) {
        const char *wrong = NULL;
        if (event == STK__XML_BEGIN) {
            if (xml->depth == 1 && !stk__xml_is(xml, "ListBucketResult"))
                return damaged(p, "it is another document", err);
            if (xml->depth == 2) {
                object = stk__xml_is(xml, "Contents");
                folder = stk__xml_is(xml, "CommonPrefixes");
                p->entry = (stk__s3_entry){0};
                p->etag[0] = 0;
                p->has_key = p->has_size = false;
            }
            continue;
        }
        if (xml->depth == 2 && (object || folder))
            STK_TRY(give(p, folder, each, user, err));
        else if (xml->depth == 2 && xml->leaf)
            wrong = take_member(p);
        else if (xml->depth == 3 && object && xml->leaf)
            wrong = take_object(p);
        else if (xml->depth == 3 && folder && xml->leaf && stk__xml_is(xml, "Prefix"))
            wrong = take_key(p) ? NULL : "a prefix that is none";
        if (wrong)
            return damaged(p, wrong, err);
    }
    return event == STK__XML_BAD ? damaged(p, xml->why, err) : STK_OK;
}

/* The first pass looks whether all of it is sound, and how keys are written. */
stk_status stk__s3_list_read(const char *text, size_t length, const char *where,
                             stk__s3_entry_fn *each, void *user, char next[STK__S3_TOKEN],
                             stk_error *err)
{
    page p = {.where = where, .next = next};

    next[0] = 0;
    do {
        p.late = false;
        stk__xml_init(&p.xml, text, length);
        STK_TRY(read_page(&p, NULL, NULL, err));
    } while (p.late);
    if (p.truncated != (next[0] != 0))
        return damaged(&p, "it goes on without saying where, or says where and does not go on",
                       err);
    stk__xml_init(&p.xml, text, length);
    return read_page(&p, each, user, err);
}

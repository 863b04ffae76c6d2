/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/xml.h"

#include "base/bytes.h"
#include "base/digits.h"
#include "base/json_scan.h"

static stk__xml_event bad(stk__xml *xml, const char *why)
{
    xml->why = why;
    return STK__XML_BAD;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
}

static bool begins(const stk__xml *xml, const char *with)
{
    const size_t length = strlen(with);

    return (size_t)(xml->end - xml->at) >= length && memcmp(xml->at, with, length) == 0;
}

/* Move behind the next `mark`; false: there is none. */
static bool pass(stk__xml *xml, size_t from, const char *mark)
{
    const char *found =
        memmem(xml->at + from, (size_t)(xml->end - xml->at) - from, mark, strlen(mark));

    if (found)
        xml->at = found + strlen(mark);
    return found != NULL;
}

void stk__xml_init(stk__xml *xml, const char *text, size_t length)
{
    *xml = (stk__xml){.at = text, .end = text + length};
    if (begins(xml, "\xef\xbb\xbf"))
        xml->at += 3;
}

bool stk__xml_is(const stk__xml *xml, const char *name)
{
    return strlen(name) == xml->name.length && memcmp(xml->name.text, name, xml->name.length) == 0;
}

/* What was passed over in front of the text of an element does not count as text. */
static void pass_over(stk__xml *xml, const char *begin)
{
    while (xml->within && xml->from < begin && is_blank(*xml->from))
        xml->from++;
    if (xml->from == begin)
        xml->from = xml->at;
}

/* The whole name at `at`. */
static bool take_name(stk__xml *xml, stk__xml_name *out)
{
    const char *begin = xml->at;

    while (xml->at < xml->end && is_name(*xml->at))
        xml->at++;
    *out = (stk__xml_name){begin, (size_t)(xml->at - begin)};
    return out->length > 0 && *begin != '-' && *begin != '.' && !(*begin >= '0' && *begin <= '9');
}

/* The same without a prefix of a namespace. */
static stk__xml_name local(stk__xml_name name)
{
    const char *colon = memchr(name.text, ':', name.length);

    if (!colon)
        return name;
    return (stk__xml_name){colon + 1, name.length - (size_t)(colon + 1 - name.text)};
}

/* Attributes up to the '>' or "/>", which the tag ends with. */
static bool take_attributes(stk__xml *xml, bool *empty)
{
    char quote = 0;

    for (*empty = false; xml->at < xml->end; xml->at++) {
        const char c = *xml->at;
        if (quote) {
            if (c == '<')
                return false;
            quote = c == quote ? 0 : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '<') {
            return false;
        } else if (c == '>') {
            *empty = xml->at[-1] == '/';
            xml->at++;
            return true;
        }
    }
    return false;
}

static stk__xml_event begin_element(stk__xml *xml)
{
    stk__xml_name name;
    bool empty;

    if (xml->begun && xml->num_open == 0)
        return bad(xml, "a second outermost element");
    if (xml->num_open == STK__XML_DEPTH)
        return bad(xml, "elements too deep");
    xml->at++;
    if (!take_name(xml, &name) || !take_attributes(xml, &empty))
        return bad(xml, "a broken tag");
    xml->begun = xml->within = true;
    xml->closing = empty;
    xml->open[xml->num_open++] = name;
    xml->name = local(name);
    xml->depth = xml->num_open;
    xml->from = xml->to = xml->at;
    return STK__XML_BEGIN;
}

/* The element that is open innermost ends here. */
static stk__xml_event end_element(stk__xml *xml)
{
    xml->name = local(xml->open[xml->num_open - 1]);
    xml->depth = xml->num_open--;
    xml->leaf = xml->within;
    xml->within = xml->closing = false;
    return STK__XML_END;
}

static stk__xml_event take_end(stk__xml *xml)
{
    stk__xml_name name;

    xml->to = xml->at;
    xml->at += 2;
    if (!take_name(xml, &name) || xml->num_open == 0)
        return bad(xml, "a broken end of an element");
    const stk__xml_name open = xml->open[xml->num_open - 1];
    while (xml->at < xml->end && is_blank(*xml->at))
        xml->at++;
    if (open.length != name.length || memcmp(open.text, name.text, name.length) != 0 ||
        xml->at == xml->end || *xml->at++ != '>')
        return bad(xml, "the end of an element that is not the open one");
    return end_element(xml);
}

stk__xml_event stk__xml_next(stk__xml *xml)
{
    if (xml->why)
        return STK__XML_BAD;
    if (xml->closing)
        return end_element(xml);
    while (xml->at < xml->end) {
        const char *begin = xml->at;
        if (begins(xml, "</"))
            return take_end(xml);
        if (begins(xml, "<!--")) {
            if (!pass(xml, 4, "-->"))
                return bad(xml, "a comment without an end");
            pass_over(xml, begin);
        } else if (begins(xml, "<![CDATA[")) {
            if (!xml->within || !pass(xml, 9, "]]>"))
                return bad(xml, "a CDATA section without an end, or in a wrong place");
        } else if (begins(xml, "<!")) {
            return bad(xml, "a declaration, which answers do not have");
        } else if (begins(xml, "<?")) {
            if (!pass(xml, 2, "?>"))
                return bad(xml, "an instruction without an end");
            pass_over(xml, begin);
        } else if (*xml->at == '<') {
            /* What stands in front of an inner element is blanks. */
            for (const char *p = xml->from; xml->within && p < xml->at; p++)
                if (!is_blank(*p))
                    return bad(xml, "text beside elements");
            return begin_element(xml);
        } else if (!xml->within && !is_blank(*xml->at)) {
            return bad(xml, "text beside elements");
        } else {
            xml->at++;
        }
    }
    if (xml->num_open > 0 || !xml->begun)
        return bad(xml, "it ends too early");
    return STK__XML_DONE;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The character of "#38" or "#x26"; 0: it is none. */
static uint32_t numbered(const char *text, size_t length)
{
    const bool hexadecimal = length > 1 && text[1] == 'x';
    uint32_t value = 0;
    size_t i = hexadecimal ? 2 : 1;

    if (i >= length || length > 9)
        return 0;
    for (; i < length; i++) {
        const int digit = stk__hex_digit(text[i]);
        if (digit < 0 || (digit > 9 && !hexadecimal))
            return 0;
        value = value * (hexadecimal ? 16 : 10) + (uint32_t)digit;
    }
    return value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : value;
}

static uint32_t entity(const char *text, size_t length)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};

    if (length > 0 && *text == '#')
        return numbered(text, length);
    for (size_t i = 0; i < STK_COUNT(known); i++)
        if (strlen(known[i].name) == length && memcmp(text, known[i].name, length) == 0)
            return (uint32_t)known[i].is;
    return 0;
}

/* Bytes that one piece of a text is written in, and what it is as UTF-8. False: a broken one. */
static bool take_piece(const char *at, const char *end, size_t *taken, char to[4], size_t *length)
{
    *taken = *length = 1;
    to[0] = *at;
    if (*at != '&')
        return true;
    const char *semicolon = memchr(at, ';', (size_t)STK_MIN(end - at, 16));
    const uint32_t is = semicolon ? entity(at + 1, (size_t)(semicolon - at - 1)) : 0;
    if (is == 0)
        return false;
    *taken = (size_t)(semicolon + 1 - at);
    *length = stk__utf8_put(is, to);
    return true;
}

bool stk__xml_text(const stk__xml *xml, char *to, size_t size)
{
    size_t used = 0, taken, length;
    bool literal = false; /* within CDATA */

    for (const char *at = xml->from; at < xml->to; at += taken) {
        const size_t left = (size_t)(xml->to - at);
        char piece[4] = {*at};
        taken = length = 1;
        if (literal && left >= 3 && memcmp(at, "]]>", 3) == 0) {
            literal = false;
            taken = 3, length = 0;
        } else if (!literal && *at == '<') {
            /* The scanner has found their ends. */
            const bool comment = at[1] == '!' && at[2] == '-';
            literal = at[1] == '!' && !comment;
            const char *mark = comment ? "-->" : "?>";
            length = 0;
            taken = 9;
            if (!literal)
                taken = (size_t)((const char *)memmem(at + 2 + 2 * (size_t)comment,
                                                      left - 2 - 2 * (size_t)comment, mark,
                                                      strlen(mark)) +
                                 strlen(mark) - at);
        } else if (!literal && !take_piece(at, xml->to, &taken, piece, &length)) {
            return false;
        }
        if (used + length >= size)
            return false;
        memcpy(to + used, piece, length);
        used += length;
    }
    if (size == 0)
        return false;
    to[used] = 0;
    return strlen(to) == used && stk__utf8_valid(to, used);
}

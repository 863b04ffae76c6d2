/* SPDX-License-Identifier: Apache-2.0 */
/* Events of libyaml, its scalars, and what it refuses, in words that say where. */
#include "base/yaml_reader.h"

#include <stdio.h>

#include "base/options.h"

stk_status stk__yaml_fail_at(stk__yaml *r, stk_status status, size_t line, size_t column,
                             const char *what, const char *about)
{
    const stk__config_place place = {r->name, line, column};
    char where[224], shown[STK_OPTION_SHOWN] = "";

    stk__place_format(&place, where, sizeof where);
    if (about)
        stk__option_show(shown, about);
    return stk__fail_at(r->err, status, STK_STAGE_OPTIONS, r->name, STK_NO_OFFSET, "%s%s%s%s",
                        where, shown, about ? ": " : "", what);
}

stk_status stk__yaml_fail(stk__yaml *r, stk_status status, const char *what, const char *about)
{
    const yaml_mark_t *mark = &r->event.start_mark;

    return stk__yaml_fail_at(r, status, mark->line + 1, mark->column + 1, what, about);
}

stk_status stk__yaml_no_memory(stk__yaml *r)
{
    return stk__fail_at(r->err, STK_ENOMEM, STK_STAGE_OPTIONS, r->name, STK_NO_OFFSET,
                        "no memory for the configuration %s", r->name);
}

/* Whether a line (from 0) begins with a tab, perhaps behind spaces. */
static bool tab_indents(const stk__yaml *r, size_t number)
{
    const char *p = r->text, *end = r->text + r->length;

    for (size_t i = 0; i < number && p; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    while (p && p < end && *p == ' ')
        p++;
    return p && p < end && *p == '\t';
}

/* What the parser itself refuses. */
static stk_status fail_syntax(stk__yaml *r)
{
    const yaml_parser_t *parser = &r->parser;
    yaml_mark_t mark = parser->problem_mark;
    char what[200];

    if (parser->error == YAML_MEMORY_ERROR)
        return stk__yaml_no_memory(r);
    if (parser->error == YAML_READER_ERROR) {
        /* It knows the byte only. */
        size_t end = STK_MIN((size_t)parser->problem_offset, r->length), line = 1, column = 1;
        for (size_t i = 0; i < end; i++) {
            bool start = ((unsigned char)r->text[i] & 0xc0) != 0x80;
            column = r->text[i] == '\n' ? 1 : column + start;
            line += r->text[i] == '\n';
        }
        return stk__yaml_fail_at(
            r, STK_EFORMAT, line, column,
            "not UTF-8 text: a byte or a control character that YAML does not allow", NULL);
    }
    /* "dataset: digits:" has two keys in a line to YAML. */
    bool colon = parser->problem && strstr(parser->problem, "mapping values are not allowed");
    snprintf(what, sizeof what, "%s%s%s%s%s", parser->problem ? parser->problem : "not YAML",
             parser->context ? " " : "", parser->context ? parser->context : "",
             tab_indents(r, mark.line) ? "; tabs cannot indent YAML, use spaces" : "",
             colon ? "; quote a value with a ':' at its end or before a blank, as \"digits:\""
                   : "");
    return stk__yaml_fail_at(r, STK_EFORMAT, mark.line + 1, mark.column + 1, what, NULL);
}

/* A list or a map; a scalar's is looked at where it is taken. */
static bool has_tag(const yaml_event_t *event)
{
    return (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.tag) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.tag);
}

stk_status stk__yaml_next(stk__yaml *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event);
    if (!r->has_event)
        return fail_syntax(r);
    if (has_tag(&r->event))
        return stk__yaml_fail(r, STK_EFORMAT,
                              "a tag ('!...') is not supported here; write the plain list or map",
                              *r->path ? r->path : NULL);
    return STK_OK;
}

stk__config_place stk__yaml_place(const stk__yaml *r)
{
    return (stk__config_place){r->name, r->event.start_mark.line + 1,
                               r->event.start_mark.column + 1};
}

bool stk__yaml_is_null(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag &&
           (length == 0 || (length == 1 && *text == '~') ||
            stk__option_same(text, length, "null", 4));
}

stk_status stk__yaml_scalar(stk__yaml *r, stk__config_value *out)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t length = r->event.data.scalar.length;

    if (r->event.data.scalar.tag)
        return stk__yaml_fail(
            r, STK_EFORMAT, "a tag ('!...') is not supported here; write the plain value", r->path);
    if (memchr(text, 0, length))
        return stk__yaml_fail(r, STK_EFORMAT, "a value has a zero byte in it", r->path);
    out->place = stk__yaml_place(r);
    out->text = stk__config_copy(r->config, text, length);
    return out->text ? STK_OK : stk__yaml_no_memory(r);
}

/* XML text -> elements, in place and without memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_XML_H
#define STK_SRC_STORE_S3_XML_H

#include "base/base.h"

/*
 * What answers of object stores are written in [XML 1.0, fifth edition]: elements, whose texts
 * stand in those that have no others. Attributes, comments and instructions are passed over. There
 * is no DOCTYPE, so that no entity but the five of XML exists.
 */

#define STK__XML_DEPTH 16

typedef enum stk__xml_event {
    STK__XML_BEGIN, /* `name` begins, at `depth` (1: the outermost) */
    STK__XML_END,   /* `name` ends; of a `leaf` stk__xml_text() is what it holds */
    STK__XML_DONE,  /* the document has ended as it should */
    STK__XML_BAD    /* `why`, at `at` */
} stk__xml_event;

typedef struct stk__xml_name {
    const char *text; /* without a prefix */
    size_t length;
} stk__xml_name;

typedef struct stk__xml {
    const char *at, *end;
    stk__xml_name name, open[STK__XML_DEPTH];
    unsigned depth; /* of the element that `name` is of */
    bool leaf;
    const char *why;
    /* Its own. */
    unsigned num_open;
    const char *from, *to; /* what the leaf holds, as it is written */
    bool begun, closing, within;
} stk__xml;

void stk__xml_init(stk__xml *xml, const char *text, size_t length);
stk__xml_event stk__xml_next(stk__xml *xml);
bool stk__xml_is(const stk__xml *xml, const char *name);
/* The text of the leaf that has just ended, with an end. False: it does not fit, or has a zero byte
 * or no UTF-8 in it. */
bool stk__xml_text(const stk__xml *xml, char *to, size_t size);

#endif

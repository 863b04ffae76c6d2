/* JSON text -> its members, in place and without memory */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For texts whose shape is known (an event of a log, the head of a safetensors file), and which are
 * not worth a tree of values; json.h makes one. Grammar of RFC 8259; NaN, Infinity and -Infinity
 * are numbers, as Python writes them.
 */
#ifndef STK_SRC_BASE_JSON_SCAN_H
#define STK_SRC_BASE_JSON_SCAN_H

#include "base/base.h"

/* ---- Objects --------------------------------------------------------------------------------- */

typedef enum stk__json_member_kind {
    STK__JSON_NULL,
    STK__JSON_FALSE,
    STK__JSON_TRUE,
    STK__JSON_NUMBER,
    STK__JSON_STRING,
    STK__JSON_ARRAY,
    STK__JSON_OBJECT
} stk__json_member_kind;

/* One member of an object, pointing into its text. Escapes stay as they are. */
typedef struct stk__json_member {
    const char *key, *text; /* of a string: without its quotes */
    size_t key_length, length;
    stk__json_member_kind kind;
} stk__json_member;

typedef enum stk__json_scanned {
    STK__JSON_DONE, /* an object; *stop is behind it */
    STK__JSON_MORE, /* the text ends inside the object */
    STK__JSON_BAD   /* it is none */
} stk__json_scanned;

/* Read the object at `at` [RFC 8259, with Python's NaN and Infinity]. The first `room` members are
 * kept; *n counts all. */
stk__json_scanned stk__json_scan(const char *at, const char *end, stk__json_member *members,
                                 size_t room, size_t *n, const char **stop);

typedef struct stk__json_range {
    double least, most;
} stk__json_range;

/* The value of a number in its range; false for anything else, *out is unchanged then. */
bool stk__json_member_real(const stk__json_member *member, stk__json_range range, double *out);
/* A whole number from 0 to `most`; likewise. */
bool stk__json_member_whole(const stk__json_member *member, int64_t most, int64_t *out);
/* A value as text: of a string its characters, of anything else its JSON. Cut at `size`, never
 * inside a character; returns the length. */
size_t stk__json_member_text(const stk__json_member *member, char *out, size_t size);
bool stk__json_member_key_is(const stk__json_member *member, const char *key);

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* A place in a text. */
typedef struct stk__json_cursor {
    const char *at, *end;
    bool more; /* the text ended too early */
} stk__json_cursor;

void stk__json_skip_blanks(stk__json_cursor *cursor);
/* At an opening quote: what is between it and the closing one, and behind which the cursor is then;
 * escapes stay as they are. False: no string, or (`more`) it does not end. */
bool stk__json_take_string(stk__json_cursor *cursor, const char **text, size_t *length);
/* The character behind a backslash of such a string; moves *at behind it. 0: half of a
 * surrogate pair, or NUL: no character that a text can have. */
uint32_t stk__json_unescape(const char **at, const char *end);
/*
 * The next member of an object, or element of an array (without a key), behind whose opening the
 * cursor is; `first`: none was taken before. *closed: there is none, and the cursor is behind its
 * end. False: it is not well formed, or (`more`) the text ends in it.
 */
bool stk__json_next(stk__json_cursor *cursor, bool object, bool first, stk__json_member *member,
                    bool *closed);
/* A character as UTF-8; returns the length. An escape is never shorter. */
size_t stk__utf8_put(uint32_t character, char out[4]);

#endif

/* Texts that are put together: of growing memory, or in room that was given. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_TEXT_H
#define STK_SRC_BASE_TEXT_H

#include "base/base.h"

/*
 * With a context it grows and is released. Without one `bytes` has room for `room`, as for
 * snprintf(): what does not fit is cut, but `length` counts it, and there is an end within the room
 * as long as anything was added.
 */
typedef struct stk__text {
    stk_context *ctx;
    char *bytes;
    size_t length, room;
    bool failed; /* no memory */
} stk__text;

void stk__text_add(stk__text *text, const char *format, ...) STK_PRINTF(2, 3);
void stk__text_put(stk__text *text, const char *bytes, size_t length);
/* A JSON string, which YAML reads as well; bytes that are not UTF-8 become '?'. */
void stk__text_add_json(stk__text *text, const char *string);
void stk__text_add_json_bytes(stk__text *text, const void *bytes, size_t length);
/* A float of JSON as Python writes it: "3.0", which is read as no integer, NaN and -Infinity. */
void stk__text_add_real(stk__text *text, double value);
/* A scalar of YAML: as it is, or as a JSON string where it would be read as something else. */
void stk__text_add_yaml(stk__text *text, const char *string);
/* An element as JSON, and as Python reads it: true, 3, 3.0, the fewest digits that give the same
 * bits again in its type, NaN, -Infinity; of complex numbers [1.0, 2.0]. */
void stk__text_add_element(stk__text *text, stk_dtype dtype, const void *element);
/* A cell of CSV (RFC 4180): in quotes where it has to be. */
void stk__text_add_csv(stk__text *text, const char *string);
void stk__text_add_csv_bytes(stk__text *text, const void *bytes, size_t length, char delimiter);
/* With all but A-Z a-z 0-9 - . _ ~ as %XX [RFC 3986, section 2.3]; '/' stays where `slashes`. */
void stk__text_add_percent(stk__text *text, const char *bytes, size_t length, bool slashes);
/* "%.*f" of one decimal or more, in any locale. */
void stk__text_add_fixed(stk__text *text, double value, int decimals);
/* Thousandths as a decimal, in any locale: microseconds of nanoseconds. */
void stk__text_add_thousandths(stk__text *text, uint64_t value);
/* A shape as PyTorch shows it, "[2, 3]"; with `rows`, of any number of them, "[N, 2, 3]". */
void stk__text_add_shape(stk__text *text, const int64_t *shape, uint32_t rank, bool rows);
/* The same as NumPy shows it, "(2, 3)" or "(2,)", cut where it does not fit. */
void stk__shape_tuple(const int64_t *shape, uint32_t rank, char *text, size_t size);
/* "key value" with the bits of a number, as stk__lines_read() reads them. */
void stk__text_add_double(stk__text *text, const char *key, double value);
void stk__text_release(stk__text *text);

/* Length of the UTF-8 character at `at`, of which `left` bytes are there; 0: there is none. */
size_t stk__utf8_character(const char *at, size_t left);

#endif

/* Texts of "key value" lines, as states are kept -> numbers and texts, or a refusal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_LINES_H
#define STK_SRC_BASE_LINES_H

#include "base/base.h"

/* ---- Words: each takes what it names from *at, or leaves *at and says false ---- */

/* Decimal digits alone, without sign, blank or needless zero, at most 2^64 - 1. */
bool stk__take_uint(const char **at, uint64_t *out);
/* The same, after a '-' where it is negative. */
bool stk__take_int(const char **at, int64_t *out);
/* The 64 bits of a double as 16 small hexadecimal digits: it reads back as it was, in any locale.
 */
bool stk__take_double(const char **at, double *out);
bool stk__take(const char **at, char c);

/* ---- Lines ---- */

/* What nothing is counted to: one more is still exact as a double, and far from overflow. */
#define STK__MOST_COUNTED (UINT64_C(1) << 53)

enum stk__line_kind {
    STK__LINE_UINT,   /* uint64_t */
    STK__LINE_DOUBLE, /* double, as its bits */
    STK__LINE_TEXT,   /* char *, NULL or of the context, which it replaces; may be empty */
    STK__LINE_WORDS,  /* uint64_t[count], parted by one blank */
    STK__LINE_EACH    /* any number of such lines, each given to `each` */
};

/* One key that a text has: once, but EACH. */
typedef struct stk__line {
    const char *key;
    enum stk__line_kind kind;
    void *to; /* where the value goes; NULL: it is only checked. EACH: given to `each` */
    uint64_t
        most; /* UINT: more is refused; 0: STK__MOST_COUNTED. WORDS: how many, each as a UINT */
    stk_status (*each)(void *to, const char *value, stk_error *err); /* ends at its 0 */
} stk__line;

enum { STK__MAX_LINES = 32 };

/*
 * Read a whole text: every line ends in '\n', has a known key and a sound value; every key but EACH
 * is there, once. Anything else is STK_EFORMAT that names `what` and the line, and what was set is
 * of no use. `text` NULL: it is missing. `n` is at most STK__MAX_LINES.
 */
stk_status stk__lines_read(stk_context *ctx, const char *what, const char *text,
                           const stk__line *lines, size_t n, stk_error *err);

#endif

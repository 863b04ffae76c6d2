/* structures -> the compact protocol of Thrift */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md: fields come in
 * the order of their numbers, each with the distance to the one before. Nothing fails in between:
 * `failed` says at the end that there was no memory.
 */
#ifndef STK_SRC_CONVERT_PARQUET_THRIFT_H
#define STK_SRC_CONVERT_PARQUET_THRIFT_H

#include "base/bytes.h"

#define STK__THRIFT_DEPTH 8

typedef enum stk__thrift_out_type {
    STK__THRIFT_TRUE = 1,
    STK__THRIFT_FALSE = 2,
    STK__THRIFT_I8 = 3,
    STK__THRIFT_I16 = 4,
    STK__THRIFT_I32 = 5,
    STK__THRIFT_I64 = 6,
    STK__THRIFT_BINARY = 8,
    STK__THRIFT_LIST = 9,
    STK__THRIFT_STRUCT = 12
} stk__thrift_out_type;

/* One structure on its way. Begin with {.to = ...}. */
typedef struct stk__thrift_out {
    stk__bytes *to;
    int last[STK__THRIFT_DEPTH]; /* number of the field before, of each structure that is open */
    int depth;
    bool failed; /* no memory */
} stk__thrift_out;

void stk__thrift_out_bool(stk__thrift_out *t, int field, bool value);
void stk__thrift_out_i8(stk__thrift_out *t, int field, int8_t value);
/* I16, I32 or I64. */
void stk__thrift_out_number(stk__thrift_out *t, int field, stk__thrift_out_type type,
                            int64_t value);
void stk__thrift_out_binary(stk__thrift_out *t, int field, const void *data, size_t length);
void stk__thrift_out_text(stk__thrift_out *t, int field, const char *text);
/* A structure that was put together before, with its end. */
void stk__thrift_out_struct(stk__thrift_out *t, int field, const void *data, size_t length);
/* A structure as a field, up to its end. */
void stk__thrift_out_begin(stk__thrift_out *t, int field);
void stk__thrift_out_end(stk__thrift_out *t);
/* A list of `count`, whose elements follow: those below, or structures between element and end. */
void stk__thrift_out_list(stk__thrift_out *t, int field, stk__thrift_out_type type, uint64_t count);
void stk__thrift_out_element(stk__thrift_out *t);
void stk__thrift_out_element_bool(stk__thrift_out *t, bool value);
void stk__thrift_out_element_number(stk__thrift_out *t, int64_t value);
void stk__thrift_out_element_binary(stk__thrift_out *t, const void *data, size_t length);

#endif

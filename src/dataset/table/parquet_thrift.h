/* bytes -> fields of structs of Thrift. Inside src/dataset/table/parquet*.c only. */
/* SPDX-License-Identifier: Apache-2.0 */
/* The compact protocol [apache/thrift, doc/specs/thrift-compact-protocol.md], read in place. */
#ifndef STK_SRC_DATASET_TABLE_PARQUET_THRIFT_H
#define STK_SRC_DATASET_TABLE_PARQUET_THRIFT_H

#include "base/base.h"

#define STK__THRIFT_DEPTH 16

/* What was damaged makes it `bad`, and from then on there are zeros and ends. */
typedef struct stk__thrift {
    const uint8_t *at, *end;
    bool bad;
} stk__thrift;

/* A field of a struct; {0} before the first. */
typedef struct stk__thrift_field {
    int16_t id;
    uint8_t type;
} stk__thrift_field;

typedef struct stk__thrift_text {
    const uint8_t *data;
    uint32_t length;
} stk__thrift_text;

/* The next field; false: the struct has ended. */
bool stk__thrift_next(stk__thrift *t, stk__thrift_field *field);
/* Its value, whose type has to be that. */
int64_t stk__thrift_int(stk__thrift *t, const stk__thrift_field *field);
bool stk__thrift_bool(stk__thrift *t, const stk__thrift_field *field);
stk__thrift_text stk__thrift_binary(stk__thrift *t, const stk__thrift_field *field);
/* Whether it is a struct, whose fields come next. */
bool stk__thrift_struct(stk__thrift *t, const stk__thrift_field *field);
/* How many elements it has, whose type `of` can be read as a field's. No more than bytes are left.
 */
uint32_t stk__thrift_list(stk__thrift *t, const stk__thrift_field *field, stk__thrift_field *of);
void stk__thrift_skip(stk__thrift *t, const stk__thrift_field *field);

#endif

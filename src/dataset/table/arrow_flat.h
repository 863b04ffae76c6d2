/* bytes of a FlatBuffers message -> its tables, texts and numbers */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatBuffers [flatbuffers.dev/internals]: a table begins with the distance back to its vtable,
 * which says where in the table each of its fields lies; texts, vectors and tables of a table are
 * behind it, at offsets from the place that names them. Nothing is read that does not lie within
 * the bytes. What does not sets `damaged` and reads as if it were not there: the caller looks once
 * it has read all it wants.
 */
#ifndef STK_SRC_DATASET_TABLE_ARROW_FLAT_H
#define STK_SRC_DATASET_TABLE_ARROW_FLAT_H

#include "base/base.h"

typedef struct stk__flat {
    const uint8_t *data;
    uint32_t size;
    bool damaged;
} stk__flat;

/* `at` 0: it is not there, and its fields have their defaults. */
typedef struct stk__flat_table {
    uint32_t at, size; /* bytes that its fields lie in */
    uint32_t vtable, vtable_size;
} stk__flat_table;

/* A vector of structs or numbers, of texts' bytes, or of tables; `count` 0: there is none. */
typedef struct stk__flat_vector {
    uint32_t at, count;
} stk__flat_vector;

stk__flat_table stk__flat_root(stk__flat *flat);
/* A number of 1, 2, 4 or 8 bytes, with its sign. */
int64_t stk__flat_number(stk__flat *flat, const stk__flat_table *table, unsigned field,
                         unsigned bytes, int64_t otherwise);
stk__flat_table stk__flat_child(stk__flat *flat, const stk__flat_table *table, unsigned field);
/* `bytes` of an entry: 4 of tables, 1 of a text. All of it lies within the message. */
stk__flat_vector stk__flat_list(stk__flat *flat, const stk__flat_table *table, unsigned field,
                                unsigned bytes);
/* Entry `i` of a vector of tables. */
stk__flat_table stk__flat_entry(stk__flat *flat, const stk__flat_vector *vector, uint32_t i);
/* Number `k` of struct `i`, of a vector of structs of `bytes` bytes; `at` bytes into it. */
int64_t stk__flat_in(const stk__flat *flat, const stk__flat_vector *vector, unsigned bytes,
                     uint32_t i, unsigned at);

#endif

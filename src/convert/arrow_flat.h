/* numbers, texts, tables -> the bytes of a FlatBuffers message */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatBuffers [flatbuffers.dev/internals], written from the front: a table is zeros until its
 * fields are set, and what it refers to lies behind it. Places are bytes from the first on; the
 * bytes begin at a multiple of 8 where they are used.
 */
#ifndef STK_SRC_CONVERT_ARROW_FLAT_H
#define STK_SRC_CONVERT_ARROW_FLAT_H

#include "base/bytes.h"

typedef struct stk__flat_out {
    stk__bytes bytes;
    bool failed; /* no memory, or beyond what offsets reach */
} stk__flat_out;

/* Begin a message anew; its root is set by stk__flat_out_root(). */
void stk__flat_out_begin(stk__flat_out *out);
void stk__flat_out_root(stk__flat_out *out, uint32_t table);
/* A table with fields of these bytes, slot by slot: 1, 2, 4 (also of what it refers to), 8; 0: it
 * is not there. */
uint32_t stk__flat_out_table(stk__flat_out *out, const uint8_t *bytes, unsigned slots);
/* Field `slot`, of `bytes` bytes. */
void stk__flat_out_set(stk__flat_out *out, uint32_t table, unsigned slot, unsigned bytes,
                       uint64_t value);
void stk__flat_out_refer(stk__flat_out *out, uint32_t table, unsigned slot, uint32_t to);
/* A vector of `count` entries of `bytes`, as zeros, which begin at a multiple of 8. */
uint32_t stk__flat_out_vector(stk__flat_out *out, uint64_t count, unsigned bytes);
/* Number of 4 or 8 bytes, `at` bytes into entry `i` of a vector of `bytes`. */
void stk__flat_out_put(stk__flat_out *out, uint32_t vector, unsigned bytes, uint64_t i, unsigned at,
                       unsigned size, uint64_t value);
/* Entry `i` of a vector of 4 bytes refers to a table. */
void stk__flat_out_refer_entry(stk__flat_out *out, uint32_t vector, uint64_t i, uint32_t to);
uint32_t stk__flat_out_text(stk__flat_out *out, const char *text, size_t length);

#endif

/* zip archive -> its members: what the parts of the zip format share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_ZIP_H
#define STK_SRC_STORE_ZIP_H

#include "store/container.h"

#define STK__ZIP_LOCAL         30 /* bytes of a local header without its name */
#define STK__ZIP_END           22 /* bytes of the end of the archive without its comment */
#define STK__ZIP_END_SIGNATURE 0x06054b50

enum { STK__ZIP_STORED = 0, STK__ZIP_DEFLATED = 8 };

/* Bits of the flags. */
enum {
    STK__ZIP_ENCRYPTED = 1 << 0,
    STK__ZIP_SUM_BEHIND = 1 << 3, /* sum and sizes stand behind the data, zeros in front */
    STK__ZIP_PATCHED = 1 << 5,
    STK__ZIP_STRONG = 1 << 6,
    STK__ZIP_UTF8 = 1 << 11,
    STK__ZIP_MASKED = 1 << 13
};

/* A file, in the order of places. */
typedef struct stk__zip_member {
    uint64_t at, stored; /* its local header; bytes of data */
    uint32_t crc;
    atomic_uint lead; /* bytes of the local header with its name and extra field; 0: not seen yet */
    uint16_t name_length, flags;
    uint8_t method;
} stk__zip_member;

typedef struct stk__zip_tables {
    size_t count, room;
    stk__zip_member *members; /* and one behind them, where the central directory begins */
} stk__zip_tables;

/* Where the central directory lies. (zip_end.c) */
typedef struct stk__zip_end {
    uint64_t at, length, count; /* of the directory, in bytes of the object; of its entries */
    uint64_t prefix;            /* bytes in front of the archive: all its offsets are behind them */
} stk__zip_end;
stk_status stk__zip_find_end(stk__container *c, stk__zip_end *out, stk_error *err);

/* A name as Python's zipfile gives it: UTF-8 where the flags say so, else CP437. Into `to`, of
 * STK_MAX_OBJECT_KEY bytes; false: it is no UTF-8, or too long. (zip_name.c) */
bool stk__zip_name(const uint8_t *name, size_t length, uint16_t flags, char *to, size_t *to_length);
/* Seconds of DOS's date and time, taken as UTC, as nanoseconds; 0: it is none. (zip_name.c) */
int64_t stk__zip_time(uint16_t date, uint16_t time);

#endif

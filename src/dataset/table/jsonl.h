/* lines of JSON -> columns of a table */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line is one object [RFC 8259; jsonlines.org]. Members of objects in it are columns "a.b", lists
 * of numbers are LIST; a key that a line lacks is null. jsonl_scan.c learns the columns and finds
 * the lines, jsonl_values.c makes vectors of a run of lines, jsonl.c is the kind and the walk over
 * the members of a line, which both use.
 */
#ifndef STK_SRC_DATASET_TABLE_JSONL_H
#define STK_SRC_DATASET_TABLE_JSONL_H

#include <stdatomic.h>

#include "base/json_scan.h"
#include "dataset/table/table.h"

#define STK__JSONL_MOST_LINE (UINT64_C(16) << 20) /* bytes */
#define STK__JSONL_MOST_NAME 1024u                /* bytes of the name of a column */

typedef struct stk__jsonl_options {
    stk__table_options table;
    const char *types;
    uint64_t learn;
} stk__jsonl_options;

/* What the files of a table are scanned with. */
typedef struct stk__jsonl_asked {
    stk__jsonl_options options;
    atomic_bool *met; /* of each entry of types: some line of some file has the key */
} stk__jsonl_asked;

/* A member that is no object, with the keys that lead to it: "a.b". */
typedef stk_status stk__jsonl_member_fn(void *user, const char *name, size_t length,
                                        const stk__json_member *member);

/* All members of a line that is well formed, in their order. STK_ELIMIT: a name is too long, others
 * are those of `each`; STK_EFORMAT: it is not well formed. */
stk_status stk__jsonl_walk(const char *at, const char *end, stk__jsonl_member_fn *each, void *user);
/* The line at `at`, without its end; *next is behind that. */
const char *stk__jsonl_line(const char *at, const char *end, const char **next);
/* Whether there is nothing in it. */
bool stk__jsonl_is_blank(const char *at, const char *end);

/* As of stk__table_format. */
stk_status stk__jsonl_scan(stk__table_file *file, const void *options, stk_error *err);
stk_status stk__jsonl_decode(const stk__table *table, const stk__table_column *column,
                             const stk__table_piece *piece, const void *data, void *out,
                             void *worker, const char **reason);
/* Bytes that `rows` lines of so many bytes decode to, at most. */
uint64_t stk__jsonl_decoded(const stk__table_column *columns, const bool *wanted, uint32_t n,
                            uint64_t rows, uint64_t bytes);

/* What vectors say in nulls: reasons of the format, from 2 on. */
enum {
    STK__JSONL_NO_INTEGER = 2,
    STK__JSONL_NO_REAL,
    STK__JSONL_NO_BOOL,
    STK__JSONL_NO_TEXT,
    STK__JSONL_NO_LIST,
    STK__JSONL_NO_UTF8
};

#endif

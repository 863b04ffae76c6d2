/* names of files -> formats of tables */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DATASET_TABLE_FORMATS_H
#define STK_SRC_DATASET_TABLE_FORMATS_H

#include "dataset/table/table.h"

extern const stk__table_format stk__table_csv, stk__table_tsv, stk__table_jsonl, stk__table_parquet,
    stk__table_arrow;

/* Whether a file of that name, of `length` bytes, is called as those of the format are, in
 * any case of its letters. */
bool stk__table_is_named(const stk__table_format *format, const char *name, size_t length);
/* Likewise of a URL, as recognise() says it: 2 or 0. */
int stk__table_recognise(const stk__table_format *format, const char *url);
/* The format that "csv:" and the like in front of a path say, or else the name of the file; *path:
 * where the path begins. NULL: none. */
const stk__table_format *stk__table_format_of(const char *text, const char **path);

#endif

/* "split == 'train' and length > 10" -> whether a row is taken */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons of columns with numbers and texts, == != < <= > >= and in (...), `is null`, `is not
 * null`, a column of bool by itself, joined by and, or, not and parentheses. As in SQL what is
 * compared with null is neither true nor false, and a row is taken where all of it is true.
 */
#ifndef STK_SRC_DATASET_TABLE_WHERE_H
#define STK_SRC_DATASET_TABLE_WHERE_H

#include "dataset/table/table.h"

#define STK__WHERE_MOST_NODES 1024u
#define STK__WHERE_MOST_DEPTH 64u

typedef enum stk__where_kind {
    STK__WHERE_AND,
    STK__WHERE_OR,
    STK__WHERE_NOT,
    STK__WHERE_NULL,
    STK__WHERE_TRUE, /* a column of bool */
    STK__WHERE_EQUAL,
    STK__WHERE_DIFFERENT,
    STK__WHERE_LESS,
    STK__WHERE_NOT_MORE,
    STK__WHERE_MORE,
    STK__WHERE_NOT_LESS
} stk__where_kind;

/* A number or a text. */
typedef struct stk__where_value {
    bool text, real;
    int64_t integer;
    double number;
    const char *bytes;
    size_t length;
} stk__where_value;

typedef struct stk__where_node {
    stk__where_kind kind;
    uint32_t left, right; /* of AND, OR, NOT: nodes */
    uint32_t column;      /* of the others: in `columns` */
    size_t at;            /* where it begins in the text */
    stk__where_value value;
} stk__where_node;

typedef struct stk__where {
    stk_context *ctx;
    const char *text;
    char *bytes; /* names of columns and texts, each ended by a zero */
    stk__where_node *nodes;
    uint32_t num_nodes, root;
    const char **columns;
    uint32_t num_columns;
} stk__where;

/* Parse a text, which has to outlive it. Errors say where. To be released, whatever comes. */
stk_status stk__where_parse(stk_context *ctx, const char *text, stk__where *out, stk_error *err);
void stk__where_release(stk__where *where);
/* Whether what is compared fits the columns, given in the order of where->columns; NULL: nothing is
 * known of it yet. */
stk_status stk__where_check(const stk__where *where, const stk__table_column *const *columns,
                            stk_error *err);
/* The value of a column in a row, NULL for null: `data` of `size` bytes. */
typedef const void *stk__where_cell_fn(void *user, uint32_t column, uint64_t row, uint64_t *size);
bool stk__where_holds(const stk__where *where, const stk__table_column *const *columns,
                      stk__where_cell_fn *cell, void *user, uint64_t row);
/* False: it holds in no row whatever the columns are that nothing is known of. */
bool stk__where_may(const stk__where *where, const stk__table_column *const *columns,
                    stk__where_cell_fn *cell, void *user);
/* False: it holds in no row of those that have these bounds. `bounds` gives false where a column
 * has none. */
typedef bool stk__where_bounds_fn(void *user, uint32_t column, stk__table_bound *least,
                                  stk__table_bound *most);
bool stk__where_may_hold(const stk__where *where, stk__where_bounds_fn *bounds, void *user);

#endif

/* a table of functions, the members that it must have -> status that names what it lacks */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_TABLE_H
#define STK_SRC_BASE_TABLE_H

#include <stddef.h>

#include "base/base.h"

/* A pointer that a table must have; with `with`, only where that other one is there. */
typedef struct stk__member {
    const char *name, *with;
    size_t offset, with_offset;
} stk__member;

#define STK__MEMBER(type, member)                                                                  \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member)                                          \
    }
#define STK__MEMBER_WITH(type, member, other)                                                      \
    {                                                                                              \
        .name = #member, .with = #other, .offset = offsetof(type, member),                         \
        .with_offset = offsetof(type, other)                                                       \
    }

/* What a kind of table that outsiders write must have. Each begins with struct_size and, unless it
 * is nameless, a name, which is always wanted. */
typedef struct stk__given_table {
    const char *type; /* "stk_store_ops" */
    size_t least;     /* its struct_size: all members below lie before it */
    const stk__member *members;
    size_t num_members;
    stk_stage stage;
    bool nameless;
} stk__given_table;

#define STK__TABLE_MOST 4096 /* no table of a later version is larger */

/* STK_EINVAL that names the table and the first member that it lacks. `ops` may be NULL. */
stk_status stk__table_check(const stk__given_table *table, const void *ops, stk_error *err);

/*
 * What `function` ("open") of the table named `name` answered: `status`, and on success `made`.
 * Success without an object, and an answer (STK_EOS, ...) where success or failure is wanted, are
 * STK_EINVAL that names them.
 */
stk_status stk__table_made(const stk__given_table *table, const char *name, const char *function,
                           stk_status status, const void *made, stk_error *err);

#endif

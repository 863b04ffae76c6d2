/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of functions that outsiders write are checked whole before any of it is called. */
#include "base/table.h"

/* How each of them begins. */
typedef struct head {
    uint32_t struct_size;
    const char *name;
} head;

static bool is_there(const void *ops, size_t offset)
{
    void (*function)(void);

    memcpy(&function, (const char *)ops + offset, sizeof function);
    return function;
}

stk_status stk__table_check(const stk__given_table *table, const void *ops, stk_error *err)
{
    const head *h = ops;

    if (!h)
        return stk__fail(err, STK_EINVAL, table->stage, "no table of functions: the %s is NULL",
                         table->type);
    if (h->struct_size < table->least || h->struct_size > STK__TABLE_MOST)
        return stk__fail(err, STK_EINVAL, table->stage,
                         "a %s has struct_size %u, expected %zu to %d: set it to sizeof(%s)",
                         table->type, h->struct_size, table->least, STK__TABLE_MOST, table->type);
    if (!table->nameless && (!h->name || !*h->name))
        return stk__fail(err, STK_EINVAL, table->stage, "a %s lacks its name", table->type);
    for (size_t i = 0; i < table->num_members; i++) {
        const stk__member *m = &table->members[i];

        if (is_there(ops, m->offset) || (m->with && !is_there(ops, m->with_offset)))
            continue;
        return stk__fail(err, STK_EINVAL, table->stage, "the %s%s%.64s%s lacks %s%s%s", table->type,
                         table->nameless ? "" : " of '", table->nameless ? "" : h->name,
                         table->nameless ? "" : "'", m->name, m->with ? ", which goes with " : "",
                         m->with ? m->with : "");
    }
    return STK_OK;
}

stk_status stk__table_made(const stk__given_table *table, const char *name, const char *function,
                           stk_status status, const void *made, stk_error *err)
{
    if (status > 0)
        return stk__fail(err, STK_EINVAL, table->stage,
                         "%s() of the %s of '%.64s' gave %s, which is an answer: it has to give "
                         "STK_OK or a failure",
                         function, table->type, name, stk_status_name(status));
    if (status == STK_OK && !made)
        return stk__fail(err, STK_EINVAL, table->stage,
                         "%s() of the %s of '%.64s' gave STK_OK and nothing: it has to set *out",
                         function, table->type, name);
    return status;
}

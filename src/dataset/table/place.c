/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a file a piece is, in the words of its format: what errors name. */
#include <stdio.h>

#include "dataset/table/pieces.h"

#define MOST_SAID 64u /* texts that are kept; failures beyond them say no place */

/* The rows of a dictionary are those of the first piece whose codes are of it. */
static uint64_t first_row_of(const stk__table_kept *k, const stk__table_piece *p, bool *dictionary)
{
    const uint32_t number = (uint32_t)(p - k->pieces);

    for (size_t i = 0; i < k->num_pieces; i++)
        if (k->pieces[i].dictionary == number) {
            *dictionary = true;
            return k->pieces[i].first_row;
        }
    *dictionary = false;
    return p->first_row;
}

/* The group that has a row, from 0. */
static uint64_t group_of(const stk__table_kept *k, uint64_t row)
{
    uint64_t low = 0, high = k->groups;

    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (k->group_rows[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many pieces of a column are before the one at `row`, from row `from` on. */
static uint64_t pieces_between(const stk__table_kept *k, uint32_t chain, uint64_t from,
                               uint64_t row)
{
    uint64_t n = 0;

    while (from < row) {
        const stk__table_piece *p = &k->pieces[stk__table_piece_at(k, chain, from)];
        if (p->first_row + p->rows <= from)
            break;
        from = p->first_row + p->rows;
        n++;
    }
    return n;
}

void stk__table_piece_text(const stk__table *t, const stk__table_kept *k, const stk__table_piece *p,
                           char *text, size_t size)
{
    const stk__table_format *format = t->format;
    bool dictionary;
    const uint64_t first = first_row_of(k, p, &dictionary);
    const uint64_t group = k->groups ? group_of(k, first) : 0;
    char where[80] = "", column[200] = "", page[80] = "";

    if (k->groups && format->group)
        snprintf(where, sizeof where, "%s %llu, ", format->group, (unsigned long long)group);
    if (p->columns == 1)
        snprintf(column, sizeof column, "column '%.150s', ", k->layout->columns[p->column].name);
    const uint32_t chain = k->layout->chain_of[p->column];
    if (dictionary)
        snprintf(page, sizeof page, "its dictionary");
    else if (format->piece && chain != STK__TABLE_NONE)
        snprintf(page, sizeof page, "%s %llu", format->piece,
                 (unsigned long long)pieces_between(k, chain, k->groups ? k->group_rows[group] : 0,
                                                    first));
    else
        snprintf(page, sizeof page, "rows %llu to %llu", (unsigned long long)first,
                 (unsigned long long)(first + p->rows - (p->rows != 0)));
    snprintf(text, size, "%s%s%s", where, column, page);
}

const char *stk__table_said(stk__table *t, const stk__table_kept *k, const stk__table_piece *p,
                            const char *why)
{
    char place[400];
    char *said = NULL;

    pthread_mutex_lock(&t->said_lock);
    for (uint32_t i = 0; i < t->num_said && !said; i++)
        if (t->said[i].piece == p && t->said[i].why == why)
            said = t->said[i].text;
    if (!said && t->num_said < MOST_SAID) {
        stk__table_piece_text(t, k, p, place, sizeof place);
        stk__table_saying *all = stk__grow(t->base.context, t->said, &t->said_room,
                                           (uint64_t)t->num_said + 1, sizeof *all);
        t->said = all ? all : t->said;
        said = all ? stk__format(t->base.context, "%s: %s", place, why) : NULL;
        if (said)
            t->said[t->num_said++] = (stk__table_saying){p, why, said};
    }
    pthread_mutex_unlock(&t->said_lock);
    return said ? said : why;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row needs where blocks are not read whole, for foretelling: of each column a page, and
 * maybe a dictionary, which rows beside it need, too. Those that about as many rows need are
 * counted together.
 */
#include <stdlib.h>

#include "dataset/table/pieces.h"

/* Bytes for a row: decoded for it alone, decoded once for all, and as it is read for it alone. */
typedef struct part {
    double asked, once, read, needs;
} part;

static double rows_of(const part *p)
{
    return p->once > 0 ? p->asked / p->once : 0;
}

static int by_rows(const void *a, const void *b)
{
    const double x = rows_of(a), y = rows_of(b);

    return (x < y) - (x > y);
}

/* `rows` rows need a piece; it is counted once, too, unless it was before. */
static void add_piece(part *p, const stk__table_piece *piece, double rows, bool again)
{
    p->asked += rows * (double)piece->decoded;
    p->read += rows * (double)piece->length;
    p->needs += rows;
    p->once += again ? 0 : (double)piece->decoded;
}

/* The pieces of a slot of a file, and their dictionaries. */
static void add_slot(const stk__table_kept *k, uint32_t slot, part *pages, part *dictionaries)
{
    const uint32_t chain = k->layout->chain_at[slot];
    uint32_t last = STK__TABLE_NO_PIECE;

    for (uint32_t at = k->chains[chain]; at < k->chains[chain + 1]; at++) {
        const stk__table_piece *p = &k->pieces[k->places ? k->places[at] : at];
        add_piece(pages, p, p->rows, false);
        if (p->dictionary != STK__TABLE_NO_PIECE)
            add_piece(dictionaries, &k->pieces[p->dictionary], p->rows, p->dictionary == last);
        last = p->dictionary;
    }
}

/* The two that differ least become one, until there are few. */
static size_t join_parts(part *parts, size_t n)
{
    for (; n > STK_CLAIM_KINDS; n--) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rows_of(&parts[i]) * rows_of(&parts[best + 1]) <
                rows_of(&parts[best]) * rows_of(&parts[i + 1]))
                best = i;
        part *to = &parts[best];
        *to = (part){to->asked + to[1].asked, to->once + to[1].once, to->read + to[1].read,
                     to->needs + to[1].needs};
        memmove(to + 1, to + 2, (n - best - 2) * sizeof *to);
    }
    return n;
}

stk_status stk__table_tell_kinds(stk__table *t, stk_error *err)
{
    const double all = (double)t->num_rows, taken = t->rows ? (double)t->num_taken / all : 1;
    uint32_t slots = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->num_files; i++)
        slots = STK_MAX(slots, t->files[i].layout->num_slots);
    part *parts = stk__calloc(t->base.context, 2 * (uint64_t)slots + 1, sizeof *parts);
    if (!parts)
        return stk__table_no_memory(t, err);
    for (size_t i = 0; i < t->num_files; i++)
        for (uint32_t s = 0; t->files[i].rows && s < t->files[i].layout->num_slots; s++)
            add_slot(&t->files[i], s, &parts[2 * (size_t)s], &parts[2 * (size_t)s + 1]);
    for (size_t i = 0; i < 2 * (size_t)slots; i++)
        if (parts[i].once > 0)
            parts[n++] = parts[i];
    qsort(parts, n, sizeof *parts, by_rows);
    n = join_parts(parts, n);
    for (size_t i = 0; i < n; i++)
        t->base.kinds[i] =
            (stk_claim_kind){.rows = STK_MAX((uint64_t)(rows_of(&parts[i]) * taken + 0.5), 1),
                             .needs = (uint64_t)(parts[i].needs / all + 0.5),
                             .read = (uint64_t)(parts[i].read / all + 0.5),
                             .decoded = (uint64_t)(parts[i].asked / all + 0.5)};
    stk__free(t->base.context, parts);
    return STK_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of several ranks as one list. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>

/* The row at the head of one input. */
struct head {
    stk_bench_hash row;
    bool there;
};

static void next_row(FILE *in, struct head *head)
{
    head->there = fread(&head->row, sizeof head->row, 1, in) == 1;
}

static bool comes_before(const stk_bench_hash *a, const stk_bench_hash *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch;
    if (a->step != b->step)
        return a->step < b->step;
    return a->position < b->position;
}

int bench_hash_merge(FILE *const *in, size_t n, FILE *out)
{
    struct head *heads = calloc(n, sizeof *heads);
    int result = heads ? 0 : -1;

    for (size_t i = 0; i < n && heads; i++) {
        rewind(in[i]);
        next_row(in[i], &heads[i]);
    }
    while (result == 0) {
        size_t first = n;
        for (size_t i = 0; i < n; i++)
            if (heads[i].there && (first == n || comes_before(&heads[i].row, &heads[first].row)))
                first = i;
        if (first == n)
            break;
        const stk_bench_hash *row = &heads[first].row;
        if (fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                    row->epoch, row->step, row->position, row->index, row->hash) < 0)
            result = -1;
        next_row(in[first], &heads[first]);
    }
    for (size_t i = 0; i < n && heads; i++)
        if (ferror(in[i]))
            result = -1;
    free(heads);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that would suit the windows of a dataset better than those its arrays have. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/window.h"

/* Advice is worth the work of rechunking where it saves half of the bytes. */
#define WORTH 2.0

/* The question that `stoker chunks ARRAY --window W --stride S` asks: of the ratio, too. */
static bool question_of(const stk__window *w, const stk__window_variable *v,
                        stk_chunks_question *out)
{
    stk_array_stored stored = {.struct_size = sizeof stored};

    if (v->info->rank < 1 || v->info->rank > STK_MAX_RANK)
        return false;
    stk_chunks_question_init(out);
    out->rank = v->info->rank;
    out->itemsize = v->info->itemsize;
    for (uint32_t d = 0; d < v->info->rank; d++) {
        const stk__window_dim *dim = &w->dims[v->dims[d]];
        out->window[d] = dim->window;
        out->stride[d] = dim->stride;
        out->extent[d] = v->info->shape[d];
    }
    if (stk_array_stored_count(v->array, &stored, NULL) == STK_OK && stored.bytes && stored.values)
        out->ratio = (double)stored.values / (double)stored.bytes;
    return true;
}

void stk__window_advise(const stk__window *w,
                        void (*line)(void *user, const char *name, const char *value), void *user)
{
    stk_chunks_question question;
    stk_chunks_counts now;
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    char text[300];

    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        const stk_chunks_cost *best = &answer.ranked[0];
        size_t at = 0;
        /* What is read in part has no chunks to suit. */
        if (v->plain || !question_of(w, v, &question) ||
            stk_chunks_count(&question, v->info->chunk_shape, &now, NULL) != STK_OK ||
            stk_chunks_advise(&question, &answer, NULL) != STK_OK ||
            now.expected_bytes < WORTH * best->counts.expected_bytes)
            continue;
        for (uint32_t d = 0; d < question.rank; d++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRId64, d ? "x" : "",
                                   best->chunk[d]);
        snprintf(text + at, sizeof text - at,
                 " for %s: %.0f bytes of chunks a window in random order instead of %.0f", v->name,
                 best->counts.expected_bytes, now.expected_bytes);
        line(user, "advised chunks", text);
    }
}

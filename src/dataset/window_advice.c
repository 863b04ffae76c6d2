/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that would suit the windows of a dataset better than those its arrays have. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/window.h"

/* Advice is worth the work of rechunking where it saves half of the bytes, or of the time. */
#define WORTH 2.0

/* The question that `stoker chunks ARRAY --window W --stride S` asks. */
static bool question_of(const stk__window *w, const stk__window_variable *v,
                        stk_chunks_question *out)
{
    int64_t window[STK__WINDOW_DIMS], stride[STK__WINDOW_DIMS];

    for (uint32_t d = 0; d < v->info->rank; d++) {
        window[d] = w->dims[v->dims[d]].window;
        stride[d] = w->dims[v->dims[d]].stride;
    }
    out->struct_size = sizeof *out;
    return stk_chunks_question_of(v->array, window, stride, NULL, out, NULL) == STK_OK;
}

/* "8x64x64 for NAME: ..."; false: the chunks that there are will do. */
static bool say_advice(const stk__window_variable *v, const stk_chunks_question *question,
                       char *text, size_t size)
{
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    const stk_chunks_cost *best = &answer.ranked[0];
    stk_chunks_cost now;
    size_t at = 0;

    if (stk_chunks_predict(question, v->info->chunk_shape, &now, NULL) != STK_OK ||
        stk_chunks_advise(question, &answer, NULL) != STK_OK)
        return false;
    const double seconds = now.seconds[STK_CHUNKS_TYPICAL],
                 least = best->seconds[STK_CHUNKS_TYPICAL];
    if (now.bytes < WORTH * best->bytes && seconds < WORTH * least)
        return false;
    for (uint32_t d = 0; d < question->rank; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? "x" : "", best->chunk[d]);
    snprintf(text + at, size - at,
             " for %s: a window in random order then takes %.0f bytes of chunks in %.3g requests "
             "instead of %.0f in %.3g, from %s",
             v->name, best->bytes, best->requests, now.bytes, now.requests, question->store.name);
    return true;
}

void stk__window_advise(const stk__window *w,
                        void (*line)(void *user, const char *name, const char *value), void *user)
{
    stk_chunks_question question;
    char text[400];

    for (uint32_t i = 0; i < w->num_variables; i++) {
        const stk__window_variable *v = &w->variables[i];
        /* What is read in part has no chunks to suit. */
        if (!v->plain && question_of(w, v, &question) &&
            say_advice(v, &question, text, sizeof text))
            line(user, "advised chunks", text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the labels of a dataset from a text file. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/object.h"
#include "dataset/view.h"

#define MAX_CLASSES (UINT32_C(1) << 24)

static void map_same(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    (void)view;
    memcpy(out, indices, n * sizeof *out);
}

/* The next line of what is left, without blanks at its end; false: there is none. */
static bool next_line(const char **at, const char *end, const char **line, size_t *length)
{
    if (*at == end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *length = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    while (*length && ((*line)[*length - 1] == '\r' || (*line)[*length - 1] == ' '))
        --*length;
    return true;
}

/* How many lines there are, each with a name. */
static stk_status count_lines(const char *text, const char *end, const char *file, uint64_t *count,
                              stk_error *err)
{
    const char *at = text, *line = NULL;
    size_t length = 0;

    for (*count = 0; next_line(&at, end, &line, &length); ++*count)
        if (length == 0 || memchr(line, 0, length))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file, (uint64_t)(line - text),
                                "class_names=%.300s: line %" PRIu64
                                " has no name; write the name of label 0 on line 1, and so on",
                                file, *count + 1);
    if (*count == 0 || *count > MAX_CLASSES)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                            "class_names=%.300s has %" PRIu64 " lines; give from 1 to %" PRIu32,
                            file, *count, MAX_CLASSES);
    return STK_OK;
}

/* A view with the names, which lie behind their list. */
static stk_status name_classes(stk_dataset **dataset, const char *text, const char *end,
                               const char *file, stk_error *err)
{
    const char *at = text, *line = NULL;
    uint64_t count = 0;
    size_t length = 0;
    stk__view *view = NULL;

    STK_TRY(count_lines(text, end, file, &count, err));
    STK_TRY(stk__view_create(*dataset, (*dataset)->size, "class_names", &view, err));
    const char **names =
        stk__alloc((*dataset)->context, count * sizeof *names + (size_t)(end - text) + 1);
    if (!names) {
        stk__free((*dataset)->context, view);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for %" PRIu64 " names",
                         count);
    }
    char *to = (char *)(names + count);
    for (uint64_t i = 0; next_line(&at, end, &line, &length); i++) {
        names[i] = to;
        memcpy(to, line, length);
        to[length] = 0;
        to += length + 1;
    }
    view->extra = names;
    view->map = map_same;
    view->base.classes = names;
    view->base.num_classes = (uint32_t)count;
    stk__view_same_indices(view, *dataset);
    /* What the samples are does not change: a run goes on with other names. */
    view->base.fingerprint = (*dataset)->fingerprint;
    snprintf(view->text, sizeof view->text, "%" PRIu64 " of %.70s", count, file);
    stk__view_finish(view, dataset);
    return STK_OK;
}

stk_status stk__dataset_class_names(stk_dataset **dataset, const char *file, stk_error *err)
{
    stk_context *ctx = (*dataset)->context;
    stk_store *store = NULL;
    stk__object object = {0};
    stk_status status = stk__select_file(ctx, "class_names", file, &store, &object, err);

    if (status == STK_OK) {
        const char *text = object.size ? (const char *)object.data : "";
        status = name_classes(dataset, text, text + object.size, file, err);
    }
    stk__object_release(ctx, &object);
    stk_store_close(&store);
    return status;
}

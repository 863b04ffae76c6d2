/* SPDX-License-Identifier: Apache-2.0 */
/* Options that say chunks -> sides of the chunks and shards of every array. */
#include <stdio.h>

#include "base/lines.h"
#include "base/options.h"
#include "convert/arrays.h"

#define AUTO_BYTES ((uint64_t)32 << 20) /* of one chunk where the source has no chunks */
#define ALL        (-1)                 /* a side that is written so is all of its dimension */

/* ---- "4x64x64" and "time:4,lat:64" ----------------------------------------------------------- */

static stk_status bad_shape(const char *option, const char *text, stk_error *err)
{
    return stk__fail(
        err, STK_EINVAL, STK_STAGE_OPTIONS,
        "arrays.%s: '%.80s' is no shape; write it as 4x64x64 or time:4,lat:64, with -1 "
        "for all of a dimension",
        option, text);
}

static bool take_side(const char **at, int64_t *side)
{
    return stk__take_int(at, side) && (*side > 0 || *side == ALL);
}

/* The dimension of a name, also a number; -1: none. */
static int find_dimension(const stk__target_node *node, const char *name, size_t length)
{
    for (uint32_t d = 0; node->dimension_names && d < node->rank; d++) {
        const char *is = node->dimension_names[d];
        if (is && strlen(is) == length && memcmp(is, name, length) == 0)
            return (int)d;
    }
    return -1;
}

static stk_status by_names(const char *option, const char *text, const stk__target_node *node,
                           int64_t *sides, bool *applies, stk_error *err)
{
    for (const char *at = text; *at; at += *at == ',') {
        const char *name = at + strspn(at, " ");
        const size_t length = strcspn(name, ":=,");
        int64_t side;
        at = name + length;
        if (!length || (*at != ':' && *at != '='))
            return bad_shape(option, text, err);
        at++;
        if (!take_side(&at, &side) || (*at && *at != ','))
            return bad_shape(option, text, err);
        const int d = find_dimension(node, name, length);
        if (d < 0)
            continue;
        sides[d] = side == ALL ? STK_MAX(node->shape[d], 1) : side;
        *applies = true;
    }
    return STK_OK;
}

static stk_status by_place(const char *option, const char *text, const stk__target_node *node,
                           int64_t *sides, bool *applies, stk_error *err)
{
    int64_t given[STK_ARRAY_MAX_RANK];
    const char *at = text;
    uint32_t n = 0;

    do {
        if (n == STK_ARRAY_MAX_RANK || !take_side(&at, &given[n++]))
            return bad_shape(option, text, err);
    } while (stk__take(&at, 'x') || stk__take(&at, ','));
    if (*at)
        return bad_shape(option, text, err);
    *applies = n == node->rank;
    for (uint32_t d = 0; *applies && d < n; d++)
        sides[d] = given[d] == ALL ? STK_MAX(node->shape[d], 1) : given[d];
    return STK_OK;
}

/* `sides` has what counts where the text says nothing. By place it is of arrays that are no
 * coordinates. */
static stk_status parse_sides(const char *option, const char *text, const stk__arrays_array *a,
                              const stk__target_node *node, int64_t *sides, bool *applies,
                              stk_error *err)
{
    *applies = false;
    if (strpbrk(text, ":="))
        return by_names(option, text, node, sides, applies, err);
    if (a->is_coordinate && node->rank == 1)
        return STK_OK;
    return by_place(option, text, node, sides, applies, err);
}

static bool is_empty(const stk__target_node *node)
{
    for (uint32_t d = 0; d < node->rank; d++)
        if (node->shape[d] == 0)
            return true;
    return false;
}

stk_status stk__arrays_question(const stk__arrays *run, const stk__arrays_array *a, bool *has,
                                stk_chunks_question *question, stk_error *err)
{
    const stk__target_node *node = &run->nodes[a->node];
    const char *text = run->own->for_window, *name = run->own->for_store;
    const stk_chunks_store *store = NULL;
    int64_t window[STK_ARRAY_MAX_RANK];

    *has = false;
    if (!text || !*text || a->is_coordinate || node->varies || node->rank < 1 ||
        node->rank > STK_MAX_RANK || is_empty(node))
        return STK_OK;
    for (uint32_t d = 0; d < node->rank; d++)
        window[d] = 1;
    STK_TRY(parse_sides("for_window", text, a, node, window, has, err));
    if (!*has)
        return STK_OK;
    if (name && *name)
        STK_TRY(stk_chunks_store_find(name, &store, err));
    *question = (stk_chunks_question){.struct_size = sizeof *question};
    return stk_chunks_question_of(a->array, window, NULL, store, question, err);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool is_set(const char *text)
{
    return text && *text && strcmp(text, "auto") != 0;
}

static uint64_t bytes_of(const stk__target_node *node, const int64_t *sides)
{
    uint64_t bytes = node->itemsize;

    for (uint32_t d = 0; d < node->rank; d++)
        if (!stk__mul_size(bytes, (uint64_t)sides[d], &bytes))
            return UINT64_MAX;
    return bytes;
}

/* As in the source; what is one run there is cut in its first dimensions. */
static void as_source(const stk__arrays_array *a, const stk__target_node *node, int64_t *sides)
{
    const stk_array_info *info = stk_array_get_info(a->array);
    uint32_t d = 0;

    for (uint32_t i = 0; i < node->rank; i++)
        sides[i] = STK_MAX(STK_MIN(info->chunk_shape[i], node->shape[i]), 1);
    while (info->num_chunks == 1 && d < node->rank && bytes_of(node, sides) > AUTO_BYTES) {
        if (sides[d] > 1)
            sides[d] = sides[d] / 2 + sides[d] % 2;
        else
            d++;
    }
}

static stk_status advise(const stk__arrays *run, const stk__arrays_array *a,
                         const stk__target_node *node, int64_t *sides, bool *applies,
                         stk_error *err)
{
    stk_chunks_answer answer = {.struct_size = sizeof answer};
    stk_chunks_question question;

    STK_TRY(stk__arrays_question(run, a, applies, &question, err));
    if (!*applies)
        return STK_OK;
    question.itemsize = node->itemsize;
    STK_TRY(stk_chunks_advise(&question, &answer, err));
    memcpy(sides, answer.ranked[0].chunk, node->rank * sizeof *sides);
    return STK_OK;
}

static stk_status choose_shards(const stk__arrays *run, const stk__arrays_array *a,
                                const stk__target_node *node, int64_t *chunk, int64_t *object,
                                bool *applies, stk_error *err)
{
    memcpy(object, chunk, node->rank * sizeof *object);
    if (!run->own->shards || !*run->own->shards)
        return STK_OK;
    STK_TRY(parse_sides("shards", run->own->shards, a, node, object, applies, err));
    for (uint32_t d = 0; d < node->rank; d++) {
        if (object[d] >= node->shape[d]) /* all of it, in whole chunks */
            object[d] = (STK_MAX(node->shape[d], 1) + chunk[d] - 1) / chunk[d] * chunk[d];
        if (object[d] % chunk[d] != 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                             "arrays.shards: %lld elements of dimension %u of '%.100s' are no "
                             "multiple of its chunk, %lld",
                             (long long)object[d], d, node->path, (long long)chunk[d]);
    }
    return STK_OK;
}

static stk_status choose(stk__arrays *run, stk__arrays_array *a, bool *chunked, bool *sharded,
                         stk_error *err)
{
    const stk_convert_arrays_options *own = run->own;
    stk__target_node *node = &run->nodes[a->node];
    int64_t *sides = (int64_t *)(uintptr_t)node->shape; /* shape, chunks, objects: one block */
    int64_t *chunk = sides + node->rank, *object = chunk + node->rank;
    bool applies = false;

    if (node->varies) { /* copied as they are: options say nothing of them */
        for (uint32_t d = 0; d < node->rank; d++)
            chunk[d] = object[d] = STK_MAX(STK_MIN(chunk[d], node->shape[d]), 1);
        return STK_OK;
    }
    as_source(a, node, chunk);
    if (own->for_window && *own->for_window)
        STK_TRY(advise(run, a, node, chunk, &applies, err));
    else if (is_set(own->chunks))
        STK_TRY(parse_sides("chunks", own->chunks, a, node, chunk, &applies, err));
    *chunked |= applies;
    for (uint32_t d = 0; d < node->rank; d++)
        chunk[d] = STK_MIN(chunk[d], STK_MAX(node->shape[d], 1));
    applies = false;
    STK_TRY(choose_shards(run, a, node, chunk, object, &applies, err));
    *sharded |= applies;
    return STK_OK;
}

static stk_status refuse(const char *option, const char *text, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "arrays.%s: '%.80s' has the dimensions of none of the arrays; stoker info "
                     "lists them",
                     option, text);
}

static void offer_names(const stk__target_node *node, stk__nearest *nearest)
{
    for (uint32_t d = 0; node->dimension_names && d < node->rank; d++)
        if (node->dimension_names[d])
            stk__nearest_offer(nearest, node->dimension_names[d]);
}

/* A dimension that no array has is mistyped, also beside others that some have. What is no list of
 * names is left to the parser. */
static stk_status check_names(const stk__arrays *run, const char *option, const char *text,
                              stk_error *err)
{
    char name[STK_OPTION_NAME], shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];
    stk__nearest nearest;

    for (const char *at = text; *at; at += *at == ',') {
        const char *begin = at + strspn(at, " ");
        const size_t length = strcspn(begin, ":=,");
        bool found = false;
        at = begin + strcspn(begin, ",");
        for (size_t i = 0; !found && i < run->num_arrays; i++)
            found = find_dimension(&run->nodes[run->arrays[i].node], begin, length) >= 0;
        if (found)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)STK_MIN(length, sizeof name - 1), begin);
        stk__nearest_init(&nearest, name);
        for (size_t i = 0; i < run->num_arrays; i++)
            offer_names(&run->nodes[run->arrays[i].node], &nearest);
        stk__option_show(shown, name);
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.%s: none of the arrays has a dimension '%s'%s", option, shown,
                         *stk__nearest_said(&nearest, meant) ? meant : "; stoker info lists them");
    }
    return STK_OK;
}

/* An option of sides took effect on some array, and every name in it is a dimension's. */
static stk_status check_applied(const stk__arrays *run, const char *option, const char *text,
                                bool applied, stk_error *err)
{
    if (!applied)
        return refuse(option, text, err);
    return strpbrk(text, ":=") ? check_names(run, option, text, err) : STK_OK;
}

stk_status stk__arrays_choose_chunks(stk__arrays *run, stk_error *err)
{
    const stk_convert_arrays_options *own = run->own;
    const bool window = own->for_window && *own->for_window;
    bool chunked = false, sharded = false;

    if (window && is_set(own->chunks))
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.chunks says the chunks, and arrays.for_window asks for advice; "
                         "leave one of them out");
    if (!window && own->for_store && *own->for_store)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "arrays.for_store does nothing without for_window");
    if (own->shards && *own->shards && !run->ops->has_shards)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_OPTIONS,
                         "arrays.shards: %s has none; leave it out", run->ops->name);
    for (size_t i = 0; i < run->num_arrays; i++)
        STK_TRY(choose(run, &run->arrays[i], &chunked, &sharded, err));
    if (window)
        STK_TRY(check_applied(run, "for_window", own->for_window, chunked, err));
    if (is_set(own->chunks))
        STK_TRY(check_applied(run, "chunks", own->chunks, chunked, err));
    return own->shards && *own->shards ? check_applied(run, "shards", own->shards, sharded, err)
                                       : STK_OK;
}

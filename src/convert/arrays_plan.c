/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, threads and parts of every array, and what a dry run says of them. */
#include <inttypes.h>
#include <stdio.h>

#include "convert/arrays.h"

#define RATE 150e6 /* bytes/s that a core reads, encodes and writes: an estimate, told as such */

/* ---- Parts ----------------------------------------------------------------------------------- */

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/*
 * The region of one of so many parts: whole objects along the dimension that has most of them, so
 * that it is a box, whatever memory each of the machines has. False: it is empty.
 */
static bool region(const stk__arrays *run, const stk__target_node *node, stk__rechunk_question *q)
{
    const uint64_t n = run->part ? run->parts : 1, k = run->part ? run->part - 1 : 0;
    uint32_t at = 0;
    int64_t most = 0;

    for (uint32_t d = 0; d < node->rank; d++) {
        const int64_t count = divide_up(node->shape[d], node->object_shape[d]);
        q->start[d] = 0;
        q->extent[d] = node->shape[d];
        if (count == 0)
            return false;
        if (count > most) {
            most = count;
            at = d;
        }
    }
    if (!node->rank)
        return k == 0;
    const int64_t side = node->object_shape[at];
    const uint64_t each = (uint64_t)most / n, more = (uint64_t)most % n;
    const int64_t first = (int64_t)(each * k + STK_MIN(k, more));
    const int64_t last = first + (int64_t)each + (k < more);
    q->start[at] = first * side;
    q->extent[at] = (last == most ? node->shape[at] : last * side) - q->start[at];
    return last > first;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

uint64_t stk__arrays_object_elements(const stk__target_node *node)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < node->rank; d++)
        n *= (uint64_t)STK_MIN(node->object_shape[d], node->shape[d]);
    return n;
}

/* Bytes that a thread takes which writes. */
static uint64_t member_bytes(const stk__arrays *run, const stk__arrays_array *a)
{
    const stk__target_node *node = &run->nodes[a->node];
    uint64_t bytes = run->ops->memory(run->target, a->node), object;

    if (!stk__add_size(bytes, 2 * STK__ARRAYS_BOUNCE, &bytes))
        return UINT64_MAX;
    const uint64_t item = stk__arrays_values_same(&a->values)
                              ? 0
                              : node->itemsize + stk__arrays_values_from_size(&a->values);
    if (!stk__mul_size(stk__arrays_object_elements(node), item, &object) ||
        !stk__add_size(bytes, object, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* A quarter of the budget is for reading, what is left for the slab and for threads that write, of
 * which there are fewer where each takes much. */
static stk_status divide(const stk__arrays *run, stk__arrays_array *a, uint64_t *slab,
                         stk_error *err)
{
    const uint64_t left = run->budget - run->budget / 4, each = member_bytes(run, a);
    const uint64_t all = stk__crew_size(run->crew);

    if (each > left / 2)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_CONVERT,
                         "a thread that writes '%.100s' takes %" PRIu64 " bytes, and memory_budget "
                         "is %" PRIu64 ", of which three eighths are for it; raise it, or choose "
                         "smaller chunks or shards",
                         run->nodes[a->node].path, each, run->budget);
    a->members = STK_MIN(all, STK_MAX(left / 2 / STK_MAX(each, 1), 1));
    *slab = left - a->members * each;
    return STK_OK;
}

static stk_status plan_array(stk__arrays *run, stk__arrays_array *a, stk_error *err)
{
    const stk__target_node *node = &run->nodes[a->node];
    const stk_array_info *info = stk_array_get_info(a->array);
    stk__rechunk_question q = {.rank = node->rank,
                               .read_item = stk__arrays_values_from_size(&a->values),
                               .write_item = node->itemsize};

    a->nothing = !region(run, node, &q);
    if (a->nothing)
        return STK_OK;
    for (uint32_t d = 0; d < node->rank; d++) {
        q.source[d] = stk__array_is_copy(a->array) ? 1 : info->chunk_shape[d];
        q.object[d] = node->object_shape[d];
    }
    STK_TRY(divide(run, a, &q.memory, err));
    if (node->varies) { /* a chunk at a time: nobody knows before what its elements take */
        STK_TRY(stk__arrays_texts_fit(run, a, 0, err));
        a->members = 1;
        q.memory = stk__arrays_object_elements(node) * node->itemsize;
    }
    return stk__rechunk_plan_make(&q, &a->plan, err);
}

static uint64_t region_elements(const stk__arrays_array *a)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < a->plan.of.rank; d++)
        n *= (uint64_t)a->plan.of.extent[d];
    return n;
}

static uint64_t objects_of(const stk__arrays_array *a)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < a->plan.of.rank; d++)
        n *= (uint64_t)divide_up(a->plan.of.extent[d], a->plan.of.object[d]);
    return n;
}

/* Bytes that are held at a time while an array is converted, at most. */
static uint64_t memory_of(const stk__arrays *run, const stk__arrays_array *a)
{
    const uint64_t reading = 2 * stk_array_get_info(a->array)->bytes + ((uint64_t)1 << 20);

    return STK_MIN(run->budget / 4, reading) + a->plan.slab_bytes +
           a->members * member_bytes(run, a);
}

stk_status stk__arrays_plan(stk__arrays *run, stk_error *err)
{
    stk_conversion_report *report = run->report;

    for (size_t i = 0; i < run->num_arrays; i++) {
        stk__arrays_array *a = &run->arrays[i];
        STK_TRY(plan_array(run, a, err));
        report->arrays++;
        if (a->nothing)
            continue;
        const uint64_t bytes = region_elements(a) * a->plan.of.read_item;
        run->total += bytes;
        report->bytes_before += bytes;
        report->decoded += (uint64_t)((double)bytes * a->plan.decoded);
        report->temp_bytes = STK_MAX(report->temp_bytes, a->plan.temp_bytes);
        report->memory = STK_MAX(report->memory, memory_of(run, a));
        report->total += objects_of(a);
        if (run->parts && !run->part) /* all of it was done by the parts */
            report->resumed += objects_of(a);
    }
    return STK_OK;
}

/* ---- What a dry run says --------------------------------------------------------------------- */

static void tell_array(stk__text *text, const stk__arrays *run, const stk__arrays_array *a)
{
    const stk__target_node *node = &run->nodes[a->node];
    const stk_array_info *info = stk_array_get_info(a->array);
    char before[128], after[128], shard[128], size[32];

    stk__shape_tuple(info->chunk_shape, node->rank, before, sizeof before);
    stk__shape_tuple(node->chunk_shape, node->rank, after, sizeof after);
    stk__shape_tuple(node->object_shape, node->rank, shard, sizeof shard);
    snprintf(size, sizeof size, "of any length");
    if (!node->varies)
        stk_size_text((double)info->bytes, size);
    stk__text_add(text, "%s: %s%s%s, %s: chunks %s -> %s", *node->path ? node->path : "array",
                  info->type_name, strcmp(info->type_name, node->type_name) ? " -> " : "",
                  strcmp(info->type_name, node->type_name) ? node->type_name : "", size, before,
                  after);
    if (strcmp(after, shard) != 0)
        stk__text_add(text, " in shards %s", shard);
    if (a->nothing) {
        stk__text_add(text, "; nothing of it is in this part\n");
        return;
    }
    stk__text_add(text, ", %" PRIu64 " object%s; ", objects_of(a), objects_of(a) == 1 ? "" : "s");
    if (a->plan.direct)
        stk__text_add(text, "in one pass, each source chunk is decoded %s\n",
                      a->plan.decodes > 1 ? "twice at most" : "once");
    else
        stk__text_add(text, "through a temporary file of %s, each source chunk is decoded once\n",
                      stk_size_text((double)a->plan.temp_bytes, size));
}

static void tell_window(stk__text *text, const char *when, const stk_chunks_cost *cost)
{
    char bytes[32];

    stk__text_add(text, "  a window reads %s: ", when);
    stk__text_add_fixed(text, cost->requests, 1);
    stk__text_add(text, " requests, %s, about ", stk_size_text(cost->bytes, bytes));
    stk__text_add_fixed(text, cost->seconds[STK_CHUNKS_TYPICAL] * 1e3, 2);
    stk__text_add(text, " ms\n");
}

/* What training reads of this array before and after, where a window is known. */
static stk_status tell_training(stk__text *text, const stk__arrays *run, const stk__arrays_array *a,
                                stk_error *err)
{
    const stk__target_node *node = &run->nodes[a->node];
    const stk_array_info *info = stk_array_get_info(a->array);
    stk_chunks_question question;
    stk_chunks_cost cost;
    bool has;

    STK_TRY(stk__arrays_question(run, a, &has, &question, err));
    if (!has)
        return STK_OK;
    STK_TRY(stk_chunks_predict(&question, info->chunk_shape, &cost, err));
    tell_window(text, "now", &cost);
    question.itemsize = node->itemsize;
    STK_TRY(stk_chunks_predict(&question, node->chunk_shape, &cost, err));
    tell_window(text, "then", &cost);
    return STK_OK;
}

stk_status stk__arrays_tell(stk__arrays *run, stk_error *err)
{
    stk_conversion_report *report = run->report;
    stk__text text = {.bytes = report->text, .room = sizeof report->text};

    for (size_t i = 0; i < run->num_arrays; i++) {
        const stk__arrays_array *a = &run->arrays[i];
        tell_array(&text, run, a);
        STK_TRY(tell_training(&text, run, a, err));
        if (!a->nothing)
            report->seconds += (double)region_elements(a) * (double)a->plan.of.read_item *
                               (a->plan.direct ? 1 : 1.5) / RATE / (double)a->members;
    }
    report->planned = true;
    return STK_OK;
}
